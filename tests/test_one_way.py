"""What an edit makes run again, on the real suite: a copy of it is edited, and run at tier smoke."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hs2lib.paths import root

pytestmark = [pytest.mark.slow, pytest.mark.long]

COPIED = ("hs2lib", "notebooks", "params")


class Suite:
    """A copy of the suite, with a run folder and reports of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in COPIED:
            skip = shutil.ignore_patterns("__pycache__")
            shutil.copytree(root() / name, folder / name, ignore=skip)
        shutil.copy(root() / "Snakefile", folder)
        models = root() / "runs" / "models"
        models.mkdir(parents=True, exist_ok=True)
        (folder / "runs").mkdir()
        (folder / "runs" / "models").symlink_to(models)
        self.environment = os.environ | {"PYTHONPATH": str(folder)}
        for name in ("HS2_ROOT", "HS2_RUNS", "HS2_REPORTS"):
            self.environment.pop(name, None)

    def ran(self, *words: str) -> set[tuple[str, str]]:
        """What `hs2 run` ran, as (05, computed)."""
        command = [sys.executable, "-m", "hs2lib", "run", "--cores", "2", *words]
        done = subprocess.run(
            command, cwd=self.folder, env=self.environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return set(re.findall(r"^smoke (\d\d)\S*: (computed|drawn) in", done.stdout, re.M))

    def edit(self, name: str, before: str, after: str) -> None:
        """Replace a text of a file once, or add one at its end."""
        file = self.folder / name
        text = file.read_text()
        assert before in text, (name, before)
        file.write_text(text.replace(before, after, 1) if before else text + after)

    def trainings(self, run: str) -> set[str]:
        """The folders of a run's trainings."""
        return {path.name for path in self.folder.glob(f"runs/smoke/{run}/training-*")}


@pytest.fixture(scope="module")
def suite(tmp_path_factory):
    made = Suite(tmp_path_factory.mktemp("one") / "way")
    assert made.ran("08", "01") == SFT | DPO | DATA
    return made


SFT = {("07", "computed")}
DPO = {("08", "computed"), ("08", "drawn")}
DRAWN = {("08", "drawn")}
DATA = {("01", "drawn")}

CONSTANT = "\nCONSTANT = 1\n"

# What is edited -> (file, before, after, what runs). Without `before` the text is added at the end.
EDITS = {
    "nothing": None,
    "a docstring": ("hs2lib/train/losses.py", '"""', '"""A docstring. ', set()),
    "a value": ("notebooks/08_dpo.ipynb", "float = 0.0001", "float = 0.0002", DPO),
    "a value of what is read": (
        "notebooks/07_sft.ipynb",
        "float = 0.0003",
        "float = 0.0004",
        SFT | DPO,
    ),
    "a figure": ("hs2lib/report/show.py", "", CONSTANT, DRAWN | DATA),
    "a text": ("notebooks/08_dpo.ipynb", '"# ', '"# A ', DRAWN),
    "a method": ("hs2lib/align/sft.py", "", CONSTANT, SFT),
    "the engine": ("hs2lib/engine/trees.py", "", CONSTANT, SFT | DPO),
    "the readers": ("hs2lib/data/load.py", "", CONSTANT, SFT | DPO | DATA),
    "the small world": ("hs2lib/world/cards.py", "", CONSTANT, SFT | DPO | DATA),
}


@pytest.mark.parametrize("kind", EDITS)
def test_an_edit_runs_what_depends_on_it_and_nothing_else(suite, kind):
    """A job that computes anew with equal results makes no reader compute."""
    expected = set()
    if EDITS[kind]:
        name, before, after, expected = EDITS[kind]
        suite.edit(name, before, after)
    ran = suite.ran("08", "01")
    # Who reads results that came out equal does not compute again; its own code decides.
    assert ran == expected
    assert suite.ran("08", "01") == set()


def test_an_edited_formula_reads_no_old_weights(suite):
    """The mean over tokens becomes twice that: SFT trains anew, beside the old training."""
    before = suite.trainings("07_sft")
    suite.edit("hs2lib/train/losses.py", "def language_loss", "CHANGED = 1\n\n\ndef language_loss")
    assert suite.ran("08") >= SFT
    after = suite.trainings("07_sft")
    assert before < after and len(after) == len(before) + 1


def test_lost_metadata_of_snakemake_cost_nothing_and_hide_nothing(suite):
    shutil.rmtree(suite.folder / "runs" / ".snakemake")
    assert suite.ran("08", "01") <= {("01", "drawn")}, "01 may reach the formula"
    suite.edit("notebooks/07_sft.ipynb", "epochs: float = 1.0", "epochs: float = 2.0")
    shutil.rmtree(suite.folder / "runs" / ".snakemake")
    assert suite.ran("08") == SFT | DPO
