"""The raters that a reader of notebook 03 plays with: its cell, where the outcome is known."""

import nbformat
import numpy as np
import pandas as pd
import pytest

from hs2lib.corpus import rules
from hs2lib.paths import notebook
from hs2lib.stats import aggregate, agreement, chance


@pytest.fixture(scope="module")
def cells():
    """The source of each cell of notebook 03, by its id."""
    return {
        cell.id: cell.source for cell in nbformat.read(notebook("03_annotator_agreement"), 4).cells
    }


@pytest.fixture(scope="module")
def names(cells):
    """What the cells of the simulation define."""
    names = {"np": np, "pd": pd, "rules": rules, "chance": chance, "aggregate": aggregate}
    names |= {"agreement": agreement, "seed": 0}
    exec(cells["control"], names)
    exec(cells["control-sliders"], names)
    return names


@pytest.fixture(scope="module")
def simulate(names):
    return names["simulate"]


def kappas(outcome):
    return {name.removeprefix("kappa, "): one for name, one in outcome.items() if "kappa" in name}


def test_without_noise_all_agree_and_no_label_is_far_off(simulate):
    outcome = simulate(noise=0, careless=0)
    assert list(kappas(outcome).values()) == pytest.approx([1] * 4)
    assert outcome["ratings a response"] == 3 and outcome["removed (%)"] == 0
    assert outcome["error of released labels"] <= 0.5


def test_who_never_reads_agrees_by_choice_alone(simulate):
    outcome = simulate(careless=1)
    assert abs(kappas(outcome)[chance.FIRST]) < 0.05 and kappas(outcome)[chance.KEPT] > 0.4
    assert outcome["error of released labels"] > 1
    lost = simulate(careless=1, lost=1)
    assert lost["ratings a response"] == 3 and lost["removed (%)"] > 20
    assert kappas(lost)[chance.RELEASED] > 0.2 > abs(kappas(lost)[chance.KEPT])


def test_a_filter_that_leaves_nothing_has_no_kappa_and_no_error(simulate):
    outcome = simulate(noise=2, careless=1, first=7, most=7, n_keep=7, max_spread=1)
    assert outcome["removed (%)"] == 100 and chance.RELEASED not in kappas(outcome)
    assert np.isnan(outcome["error of released labels"])


def test_the_rises_of_each_step_and_attribute_are_differences_of_kappas(cells):
    rng = np.random.default_rng(0)
    ratings = rng.integers(0, 5, (60, 3, 2)).astype(float)
    alike = np.repeat(ratings[:, :1], 3, axis=1)
    names = {"agreement": agreement, "pd": pd, "attributes": ["a", "b"], "levels": range(5)}
    names |= {"of_paper": False, "groups": np.arange(60), "boot": {"n_boot": 50, "seed": 0}}
    exec(cells["rises"], names)
    rises = names["kappa_rises"]({"step": (alike, ratings)})
    assert rises[["step", "attribute"]].to_numpy().tolist() == [["step", "a"], ["step", "b"]]
    for a, row in rises.iterrows():
        before = float(agreement.weighted_kappa(ratings[:, :, a], n_boot=0).estimate)
        assert (
            row.rise == pytest.approx(1 - before) and row["95 % low"] < row.rise < row["95 % high"]
        )
