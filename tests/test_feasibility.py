"""Tests of benchmarks/feasibility.py: the programme keeps its bounds, and finds what can be counted by hand."""

import importlib
import sys

import numpy as np
import pytest

from hs2lib.corpus import rules
from hs2lib.paths import root

sys.path.insert(0, str(root() / "benchmarks"))
bench = importlib.import_module("feasibility")
sys.path.pop(0)


def test_severities_are_as_before_afterwards():
    before = rules.EFFECT.copy()
    with pytest.raises(KeyError), bench.severity_of_habits(1 / 3):
        assert rules.EFFECT[rules.MISSING] == pytest.approx(before[rules.MISSING] / 3)
        assert rules.EFFECT[rules.REFUSAL] == pytest.approx(before[rules.REFUSAL])
        raise KeyError
    assert (before == rules.EFFECT).all()


def test_the_largest_share_is_the_one_that_can_be_counted(monkeypatch):
    """One attribute a point lower in answers with a habit; its mean may fall by .3: 30 % have one."""
    n = 400
    monkeypatch.setattr(bench, "MEANS", np.array([3.0, 2.0]))
    monkeypatch.setattr(bench, "SDS", np.array([0.5, 0.5]))
    monkeypatch.setattr(bench, "RS", np.array([0.0]))
    monkeypatch.setattr(bench, "SD_WITHIN", 0.5)
    monkeypatch.setattr(bench, "R_WITHIN", 1.0)
    monkeypatch.setattr(bench, "ATTRIBUTES", ("helpfulness", "verbosity"))
    monkeypatch.setitem(rules.ANSWERS["rated"], "ignored", 0.5)
    has_habit = np.arange(n) % 2 == 1
    ignores = np.arange(n) % 4 > 1
    labels = np.stack([3.0 - has_habit, np.full(n, 2.0)], axis=1)
    answers = bench.Sample(labels, 2 * has_habit + ignores, has_habit, ignores)
    cells = bench.shares(answers, 0.3)
    assert cells.sum() == pytest.approx(1) and cells[[2, 3]].sum() == pytest.approx(0.3)
    assert cells[[1, 3]].sum() == pytest.approx(0.5), "wishes are ignored as often as is asked for"
    assert bench.furthest(answers, cells)["mean"] == pytest.approx(0.3)


@pytest.mark.slow
def test_the_shares_keep_their_bounds_and_rise_with_them(monkeypatch):
    monkeypatch.setattr(bench, "N_PROMPTS", 6000)
    monkeypatch.setattr(bench, "FEWEST", 40)
    answers = bench.sample(0, 1.0)
    largest = []
    for within in (0.2, 0.4):
        cells = bench.shares(answers, within)
        apart = bench.furthest(answers, cells)
        assert apart["mean"] <= within + 0.01 and apart["SD"] <= bench.SD_WITHIN + 0.02
        assert apart["R"] <= bench.R_WITHIN + 0.02
        habit = answers.cells[answers.has_habit]
        largest.append(cells[cells.index.isin(habit)].sum())
    assert 0.4 < largest[0] < largest[1]
