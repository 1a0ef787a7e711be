"""A named run beside a notebook's own: only where one thing differs, and seed by seed."""

import numpy as np
import pytest

from hs2lib import paths
from hs2lib.report import named_runs, tables
from hs2lib.report.report import CompletedRun
from hs2lib.runs.setup import Setup

NAME = "05_reward_model_training"


@pytest.fixture
def setup(tmp_path, monkeypatch):
    """The notebook's own run at tier demo, without a report of anybody."""
    monkeypatch.setenv("HS2_REPORTS", str(tmp_path / "reports"))
    monkeypatch.setattr(tables, "seeds_of", lambda *_: {})
    return Setup.of_run(NAME, "demo")


def run(name, setup, number, **changed):
    """A complete run of these settings, whose number is known."""
    known = {"parameters": dict(setup.values) | changed, "recipe": {}, "number": number}
    return CompletedRun("demo", name, paths.root(), known)


def beside(monkeypatch, setup, runs):
    monkeypatch.setattr(
        tables, "seeds_of", lambda tier, names, root: runs if root == paths.reports() else {}
    )
    return named_runs.beside(setup, lambda one: one.manifest["number"], 80.0)


@pytest.fixture(autouse=True)
def no_recipe(monkeypatch):
    """The settings of a made-up run are its parameters alone."""
    monkeypatch.setattr(named_runs, "asdict", lambda recipe: {})


def test_one_seed_has_no_interval(setup, monkeypatch):
    quarter = run(f"{NAME}@quarter", setup, 77.0, n_prompts=1200)
    rows = beside(monkeypatch, setup, {f"{NAME}@quarter": [quarter]})
    assert rows[["name", "seeds", "own", "named", "difference"]].to_numpy().tolist() == [
        ["quarter", 1, 80.0, 77.0, -3.0]
    ]
    assert rows["95 % low"].isna().all()


def test_seeds_are_paired(setup, monkeypatch):
    """By hand: differences of -2 and -4 have the mean -3; Student's interval with one degree is wide."""
    runs = {
        NAME: [run(f"{NAME}@seed-1", setup, 90.0)],
        f"{NAME}@quarter": [
            run(f"{NAME}@quarter", setup, 78.0, n_prompts=1200),
            run(f"{NAME}@quarter-seed-1", setup, 86.0, n_prompts=1200, seed=1),
        ],
    }
    (row,) = beside(monkeypatch, setup, runs).to_dict("records")
    assert (row["seeds"], row["difference"]) == (2, -3.0)
    assert np.isclose(row["95 % high"] + 3.0, 12.706, atol=0.001)


def test_a_run_in_which_something_else_differs_does_not_count(setup, monkeypatch):
    """A report of another rate or another edition would pass for an effect of the data."""
    other = run(f"{NAME}@quarter", setup, 77.0, n_prompts=1200, learning_rate=1.0)
    assert beside(monkeypatch, setup, {f"{NAME}@quarter": [other]}).empty
