"""Tests of benchmarks/audit.py: what is predicted, what judges learn from, and how predictors are compared."""

import importlib
import sys
from collections import Counter

import numpy as np
import pandas as pd
import pytest

from hs2lib.data.load import load
from hs2lib.paths import root

sys.path.insert(0, str(root() / "benchmarks"))
bench = importlib.import_module("audit")
sys.path.pop(0)


@pytest.fixture(scope="module")
def groups():
    return load("helpsteer2", "embedded", split="train", n_prompts=64, seed=91).groups


def labels(groups):
    return [response.labels for group in groups for response in group.responses]


def test_gain_of_the_chosen_answer_by_hand():
    """Above the mean of the same prompt: 3 - 2 and 0 - 1."""
    truth = np.array([[1.0, 3.0], [0.0, 2.0]])
    assert bench.gain(np.array([[0.1, 0.2], [5.0, 4.0]]), truth) == pytest.approx(0)
    assert bench.gain(truth, truth) == pytest.approx(1)


def test_judges_learn_from_less_and_from_what_is_dealt_out(groups):
    half = bench.JUDGES["half"][1](groups)
    assert half == list(groups[:32])
    assert len(bench.JUDGES["a sixteenth"][1](groups)) == 4
    for name, least, most in (("20 % dealt out", 0.05, 0.35), ("60 % dealt out", 0.4, 0.75)):
        changed = bench.JUDGES[name][1](groups)
        assert [group.prompt for group in changed] == [group.prompt for group in groups]
        assert Counter(labels(changed)) == Counter(labels(groups))  # dealt out, none lost
        pairs = zip(labels(changed), labels(groups), strict=True)
        assert least < np.mean([new != old for new, old in pairs]) < most
        assert changed == bench.JUDGES[name][1](groups)  # of the group, not of a draw


def judged(audit, r, gains):
    table = pd.DataFrame({"audit": audit, "R with held-out ratings": r, bench.GAIN: gains})
    table["pairs right"] = 50.0
    table["minus R with length"] = -table.audit
    table["judge"] = [f"judge {number}" for number in range(len(table))]
    table["seed"] = 0
    return table


def test_spearman_is_taken_within_a_seed():
    """A seed that is easier for all judges adds no agreement."""
    first = judged([50, 60, 70, 80], [0.4, 0.3, 0.2, 0.1], [1.0, 2.0, 3.0, 4.0])
    second = judged([80, 90, 95, 99], [0.1, 0.2, 0.3, 0.5], [-1.0, -2.0, -3.0, -4.0])
    both = pd.concat([first, second.assign(seed=1)])
    assert bench.rank_correlations(first)["audit"] == pytest.approx(1)
    assert bench.rank_correlations(first)["R with held-out ratings"] == pytest.approx(-1)
    assert bench.rank_correlations(both)["audit"] == pytest.approx(0)
    assert np.isnan(bench.rank_correlations(first)["pairs right"])  # all judges alike


def test_the_first_line_says_whether_the_audit_is_better():
    rng = np.random.default_rng(0)
    gains = np.arange(12.0)
    useless = judged(rng.permutation(12), gains, gains)
    rows = bench.with_intervals(useless, n_boot=200)
    assert "worse than R with held-out ratings" in bench.in_words(rows)
    useful = judged(gains, rng.permutation(12), gains)
    rows = bench.with_intervals(useful, n_boot=200)
    assert rows[0]["Spearman"] == pytest.approx(1)
    assert "better than R with held-out ratings, minus R with length" in bench.in_words(rows)
    alike = judged(gains, gains, gains)
    words = bench.in_words(bench.with_intervals(alike, n_boot=200))
    assert "no better shown than R with held-out ratings" in words
