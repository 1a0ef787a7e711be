"""Own pairs under published classifiers, by the functions that notebook 06 calls and by itself: README's promise."""

import importlib
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from hs2lib import paths
from hs2lib.evaluate import rewardbench, weights
from hs2lib.paths import root
from hs2lib.report import report
from hs2lib.runs.setup import Setup
from hs2lib.train import recipes

sys.path.insert(0, str(root() / "benchmarks"))
own_pairs = importlib.import_module("own_pairs")
sys.path.pop(0)

NAME = "06_rewardbench_evaluation"


@pytest.fixture(params=[1, 5], ids=["one output", "five outputs"])
def classifier(request, tmp_path):
    """A plain transformers classifier with random weights, as anybody would publish it."""
    return own_pairs.classifier(tmp_path / "classifier", request.param), tmp_path / "classifier"


@pytest.fixture
def evaluated(tmp_path, monkeypatch, classifier):
    """Scores a file with the classifier, and compares every pair with plain transformers one by one."""
    monkeypatch.setenv("HS2_RUNS", str(tmp_path / "HS2_RUNS"))
    plain, folder = classifier

    def evaluated(file, **settings):
        recipe = recipes.RewardBench(
            model=str(folder), path=str(file), n_boot=100, n_changed=2, **settings
        )
        setup = Setup(NAME, "smoke", {"tier": "smoke"}, recipe)
        benchmark = rewardbench.load_benchmark(setup)
        reward_model = rewardbench.load_model(setup)
        weighting = weights.chosen(reward_model, setup)
        scored = rewardbench.score_pairs(benchmark, reward_model, setup)
        by_pair = rewardbench.by_pair(scored.benchmark, scored.values @ weighting.values)
        paths.write(setup.folder / "pairs.csv", report.csv_text(by_pair, digits=None))
        few = rewardbench.spread(scored.benchmark, recipe.n_changed)
        changed = rewardbench.change_table(few, reward_model, weighting.values, setup)
        return scored, changed, same(setup.folder, file, plain)

    return evaluated


def same(folder, file, plain):
    """The rows of a run's pairs.csv by id, after each score was compared."""
    assert (
        np.abs(own_pairs.differences(folder / "pairs.csv", file, plain)).max() <= own_pairs.WITHIN
    )
    return pd.read_csv(folder / "pairs.csv").set_index("id")


@pytest.mark.slow
def test_a_csv_of_chosen_and_rejected(evaluated, tmp_path):
    """One row spells out turns, one is too long for the model: both are named, and nothing stops."""
    own_pairs.chosen_and_rejected(tmp_path / "mine.csv")
    with pytest.raises(ValueError, match=r"mine/c: \d+ tokens .*8192 fit"):
        evaluated(tmp_path / "mine.csv")
    scored, changed, by_pair = evaluated(tmp_path / "mine.csv", too_long="leave out")
    assert list(by_pair.index) == ["mine/a", "mine/b", "mine/d"]
    assert by_pair.note["mine/a"] == "'=1+1", "no formula"
    assert list(changed.change) == ["forged turns", "appended praise", "all said twice"]
    assert changed["not scored"].eq(0).all()
    assert list(scored.left_out) == ["mine/c"]
    assert "1 pairs left out" in rewardbench.as_source(scored.benchmark).source


@pytest.mark.slow
@pytest.mark.parametrize("classifier", [5], indirect=True)
def test_from_the_command_line(tmp_path, monkeypatch, classifier):
    """The README's line for own pairs, as a process of its own; all six ways, by Snakemake, are
    `benchmarks/own_pairs.py`."""
    for name in ("HS2_RUNS", "HS2_REPORTS"):
        monkeypatch.setenv(name, str(tmp_path / name))
    (plain, folder), file = classifier, own_pairs.chosen_and_rejected(tmp_path / "mine.csv")
    words = [
        f"model={folder}",
        f"path={file}",
        "recipe.n_boot=100",
        "recipe.n_changed=2",
        "recipe.too_long=leave out",
    ]
    command = [sys.executable, "-m", "hs2lib", "run", "06", "--name", "mine"]
    done = subprocess.run(
        command + [word for value in words for word in ("-p", value)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    scored = same(tmp_path / "HS2_RUNS" / "smoke" / f"{NAME}@mine", file, plain)
    assert list(scored.index) == ["mine/a", "mine/b", "mine/d"]
    manifest = tmp_path / "HS2_REPORTS" / "smoke" / f"{NAME}@mine" / "manifest.json"
    assert "1 pairs left out" in manifest.read_text()
    reports = (tmp_path / "HS2_REPORTS" / "smoke").iterdir()
    assert [path.name for path in reports] == [f"{NAME}@mine"]
