"""The wheel holds all rooms and their data files: an installed hs2 is not an edited checkout."""

import importlib.metadata
import json
import shutil
import subprocess
import sys
import tomllib
import zipfile

import pytest
from classifiers import Plain, classifier

from hs2lib.paths import root

BUILD = "import sys; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1])"

# Data files are read when their module is imported, or by the calls below; rooms that need torch do
# alike.
READ = """
from pathlib import Path
import hs2lib
from hs2lib import beyond, paper
from hs2lib.world import sets
from hs2lib.runs import graph

assert Path(hs2lib.__file__).parent == Path("hs2lib").resolve(), hs2lib.__file__
assert next(sets.groups(1)).responses
assert set(paper.TABLES) == {f"table-{i}" for i in range(1, 6)}
assert len(beyond.BEYOND) == 4 and all(table.values for table in beyond.BEYOND.values())
assert set(graph.TIERS) == {"smoke", "demo", "laptop", "gpu", "paper"}
"""


# `hs2` where some packages cannot be imported: None in their place makes each import fail.
WITHOUT = """
import sys
sys.modules.update(dict.fromkeys({names!r}))
from hs2lib.commands import hs2
sys.exit(hs2.main(sys.argv[1:]))
"""


def of_notebooks():
    """What the packages of the extra `notebooks` are imported as."""
    project = tomllib.loads((root() / "pyproject.toml").read_text())["project"]
    wanted = {one.partition("==")[0] for one in project["optional-dependencies"]["notebooks"]}
    imported = importlib.metadata.packages_distributions().items()
    return sorted(name for name, packages in imported if wanted & set(packages))


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory):
    """The wheel of this checkout, unpacked. Built from a copy: setuptools leaves its own folders where it builds."""
    folder = tmp_path_factory.mktemp("wheel")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        (folder / "source").mkdir(exist_ok=True)
        shutil.copy(root() / name, folder / "source" / name)
    shutil.copytree(
        root() / "hs2lib",
        folder / "source" / "hs2lib",
        ignore=shutil.ignore_patterns("__pycache__", ".*"),
    )
    command = [sys.executable, "-c", BUILD, str(folder)]
    built = subprocess.run(command, cwd=folder / "source", capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    (wheel,) = folder.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(folder / "unpacked")
    return folder / "unpacked"


def test_the_wheel_holds_every_file_of_the_library(unpacked):
    files = {
        path
        for path in (root() / "hs2lib").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert len(files) > 100
    for path in files:
        assert (unpacked / path.relative_to(root())).read_bytes() == path.read_bytes(), path


def test_the_wheel_imports_and_reads_its_data(unpacked):
    command = [sys.executable, "-c", READ]
    done = subprocess.run(
        command, cwd=unpacked, capture_output=True, text=True, env={"PYTHONPATH": "."}
    )
    assert done.returncode == 0, done.stderr[-3000:]


def test_an_installed_library_writes_where_one_works(unpacked, tmp_path):
    """Outside a checkout, `runs/` was made among the installed packages."""
    shown = (
        "from hs2lib import paths; print(paths.root(), paths.runs(), paths.reports(), sep='\\n')"
    )
    command = [sys.executable, "-c", shown]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, env={"PYTHONPATH": str(unpacked)}
    )
    assert done.stdout.splitlines() == [
        str(tmp_path),
        str(tmp_path / "runs"),
        str(tmp_path / "reports"),
    ], done.stderr


@pytest.mark.slow
def test_an_installed_library_scores_a_file_and_writes_nothing_but_that(unpacked, tmp_path):
    """Outside a checkout, without the packages of the extra `notebooks`: the scores are transformers', and
    no folder `runs` is made."""
    folder = classifier(tmp_path / "classifier")
    row = {"prompt": "Why?", "chosen": "So it is.", "rejected": "No."}
    (tmp_path / "mine.jsonl").write_text(json.dumps(row) + "\n")
    (tmp_path / "home").mkdir()
    before = {path for path in unpacked.rglob("*") if "__pycache__" not in path.parts}
    words = ["score", "../mine.jsonl", "--model", "../classifier"]
    work = tmp_path / "work"
    (work / "notebooks").mkdir(parents=True)  # a folder of the user's, which makes no checkout
    environment = {"PYTHONPATH": str(unpacked), "HF_HUB_OFFLINE": "1"}
    environment["HOME"] = str(tmp_path / "home")

    def hs2(*words):
        command = [sys.executable, "-c", WITHOUT.format(names=of_notebooks()), *words]
        return subprocess.run(command, cwd=work, capture_output=True, text=True, env=environment)

    done = hs2(*words)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "written: mine.scored.jsonl" in done.stdout
    assert sorted(path.name for path in work.iterdir()) == ["mine.scored.jsonl", "notebooks"]
    scored = json.loads((work / "mine.scored.jsonl").read_text())
    for name in ("chosen", "rejected"):
        expected = Plain(folder)("Why?", row[name])
        assert scored[f"score_{name}"] == pytest.approx(expected, abs=1e-4)
    assert before == {path for path in unpacked.rglob("*") if "__pycache__" not in path.parts}
    assert "pip install 'hs2lib[notebooks]'" in hs2("run", "01").stderr
