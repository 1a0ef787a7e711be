"""Pairs in the right order under any weights: as the notebook counts them, and live."""

import numpy as np
import pandas as pd
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


PRESETS = {
    "hard": (50.0, 55.0, 48.0),
    "fault: jargon": (0.0, 100.0, 55.0),
    "fault: jumbles": (46.0, 54.0, 50.0),
    "fault: stops": (90.0, 95.0, 99.0),
    try_weights.NO_FILLER: (60.0, 50.0, 40.0),
}


def test_what_weights_can_and_cannot_change_by_hand():
    """Jargon is read by one weighting, jumbles by none though one has 54 %, and stops by all."""
    columns = ["the paper's weights", "helpfulness alone", "goodness"]
    shares = pd.DataFrame.from_dict(PRESETS, orient="index", columns=columns)
    words = {
        "fault: jargon": ("liked", "read", "not read"),
        "fault: jumbles": ("not read",) * 3,
        "fault: stops": ("read",) * 3,
    }
    verdicts = pd.DataFrame.from_dict(words, orient="index", columns=columns)
    assert try_weights.in_words(shares, verdicts) == (
        "Faults that the paper's weights are not shown to read: "
        "jargon: 0 %, read best with 100 % (helpfulness alone); "
        "jumbles: 46 %, no weighting tried reads it. "
        "Weightings tried: 3. No interval is corrected for their number."
    )
    assert try_weights.limits_in_words(shares, verdicts) == (
        "Under the weightings tried the hardest section has 48 to 55 % (hard). "
        "No weighting tried is shown to read: jumbles (46 to 54 %). "
        "What no output holds, no weights can bring out: that needs another model. "
        "The weights decide, style alone left aside: jargon (0 to 100 %)."
    )
    style = {"hard": 20.0, "fault: jargon": 0.0, "fault: jumbles": 50.0, "fault: stops": 1.0}
    with_style = shares.assign(**{"verbosity alone": pd.Series(style)})
    of_style = verdicts.assign(**{"verbosity alone": "not read"})
    assert try_weights.limits_in_words(with_style, of_style).endswith(
        "The weights decide, style alone left aside: jargon (0 to 100 %)."
    ), "stops is read by every weighting but style alone"
    assert try_weights.goodness_in_words(shares, verdicts) == (
        "By goodness these faults are not shown to be read: jargon 55 %; jumbles 50 %."
    )
    assert try_weights.goodness_in_words(shares.iloc[:, :2], verdicts) == ""
    all_read = verdicts.replace({"liked": "read", "not read": "read"})
    assert try_weights.in_words(shares, all_read).endswith("every fault is read.")
    assert try_weights.goodness_in_words(shares, all_read) == "By goodness every fault is read."


def test_where_a_rule_of_length_beats_goodness():
    """The section with the largest lead of a rule, and "" where goodness leads everywhere."""
    shares = pd.DataFrame(
        {"goodness": {"overall": 10.0, "chat": 60.0, "hard": 69.0, "maths": 50.0}}
    )
    table = pd.DataFrame(
        {
            "part": ["overall", "section", "section", "section"],
            "name": ["overall", "chat", "hard", "maths"],
            "longer wins (%)": [90.0, 40.0, 20.0, 52.0],
            "shorter wins (%)": [10.0, 60.0, 82.7, 48.0],
        }
    )
    assert try_weights.hardest_in_words(shares, table) == (
        "By goodness hard has 69 %, and the rule *shorter wins* 83 %."
    )
    assert try_weights.hardest_in_words(shares + 30, table) == ""
    assert try_weights.hardest_in_words(shares.set_axis(["helpfulness alone"], axis=1), table) == ""


def test_each_slider_changes_the_view(scored, judged):
    *sliders, view = try_weights.sliders(scored, judged, ATTRIBUTES, np.eye(5)[0]).children
    assert [slider.description for slider in sliders] == list(ATTRIBUTES)
    sliders[0].value = 0.0
    for slider in sliders:
        before = view.value
        slider.value = -1.0
        assert view.value != before, slider.description
        slider.value = 0.0
