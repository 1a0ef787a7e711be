"""Pairs in the right order under any weights: as the notebook counts them, and live."""

import numpy as np
import pytest

from hs2lib.corpus import generate, grade, one_fault
from hs2lib.data.pairs import Benchmark, preferred_pairs
from hs2lib.evaluate import by_fault, rewardbench, try_weights
from hs2lib.evaluate.rewardbench import Scored
from hs2lib.group import ATTRIBUTES


def true_attributes(pairs):
    return np.array([grade.true_attributes(pair) for pair in pairs])  # [pairs, 2, 5]


@pytest.fixture(scope="module")
def scored():
    """Pairs of the small world, scored by the truth itself."""
    benchmark = Benchmark(preferred_pairs(generate.benchmark(6, 0), "x").pairs, "generated", "x")
    return Scored(true_attributes(benchmark.pairs), (), benchmark, {})


@pytest.fixture(scope="module")
def judged():
    pairs = tuple(one_fault.pairs(3, 2))
    values = true_attributes(pairs)
    measured = by_fault.measure(pairs, values[:, :, 0], n_boot=50)
    return by_fault.Judged(measured.table, pairs, values, values[:, :, 0])


def test_the_sliders_count_as_the_notebook_does(scored, judged):
    weights = np.array([0.65, 0.8, 0.45, 0.0, 0.0])
    shares = try_weights.shares_right(scored, judged, weights)
    table = rewardbench.evaluate(scored.benchmark, scored.values @ weights, n_boot=0).table
    sections = table[table.part != "subset"].set_index("name").accuracy
    assert np.allclose(shares[sections.index], sections)
    assert shares["fault: stops"] == 100, "the truth reads every fault"
    assert shares[try_weights.NO_FILLER] == 50, "a tie counts half"


def test_the_presets_and_what_they_say(scored, judged):
    weights = {"helpfulness": np.eye(5)[0], "complexity": np.eye(5)[3]}
    table = try_weights.preset_table(scored, judged, weights)
    assert list(table.columns) == list(weights)
    verdicts = try_weights.preset_verdicts(judged, weights, n_boot=50)
    faults = judged.table.fault[judged.table.fault != one_fault.HARMLESS]
    assert list(verdicts.index) == [try_weights.FAULT + fault for fault in faults]
    measured = judged.table.set_index("fault").loc[faults]
    expected = [by_fault.verdict_of(row) for _, row in measured.iterrows()]
    assert verdicts["helpfulness"].tolist() == expected, "the criterion is that of by_fault"


def test_each_slider_changes_the_view(scored, judged):
    *sliders, view = try_weights.sliders(scored, judged, ATTRIBUTES, np.eye(5)[0]).children
    assert [slider.description for slider in sliders] == list(ATTRIBUTES)
    sliders[0].value = 0.0
    for slider in sliders:
        before = view.value
        slider.value = -1.0
        assert view.value != before, slider.description
        slider.value = 0.0
