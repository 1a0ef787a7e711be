"""Pairs in the wrong order: worst first, by length, by margin, and by what is wrong with the worse response."""

import numpy as np
import pandas as pd
import pytest

from hs2lib.corpus import generate
from hs2lib.data.pairs import Benchmark, preferred_pairs
from hs2lib.evaluate import misses, rewardbench
from hs2lib.evaluate.rewardbench import Result
from hs2lib.group import Group, Response, Turn


def pair(name, chosen, rejected):
    answers = (Response(f"{name}/c", chosen), Response(f"{name}/r", rejected))
    return Group(name, (Turn("user", f"{name}?"),), answers, preference=-1.0)


BENCHMARK = Benchmark(
    (
        pair("own/1", "longer", "short"),
        pair("own/2", "so", "longer"),
        pair("own/3", "a", "b"),
        pair("own/4", "c " * 60, "d"),
    ),
    "own",
    "by hand",
)
SCORES = np.array(
    [[2.0, 1.0], [0.0, 3.0], [1.0, 1.0], [1.0, 1.5]]
)  # right, wrong by 3, a tie, wrong by .5


def test_the_largest_misses_are_cut_to_a_line():
    """A table of whole answers cannot be read; the browser shows them whole."""
    wrong = rewardbench.mistakes(BENCHMARK, SCORES)
    table = misses.largest(wrong, 2)
    assert table[["id", "margin"]].to_numpy().tolist() == [["own/2", -3.0], ["own/4", -0.5]]
    assert table.chosen.tolist() == ["so", ("c " * 60)[:90]]


def test_a_miss_is_read_with_its_scores():
    """Each response has its score as a label, and the title the margin; the pair itself stays as it is."""
    wrong = rewardbench.mistakes(BENCHMARK, SCORES)
    first = misses.as_groups(wrong, BENCHMARK, SCORES)[0]
    assert first.id == "own/2: margin -3.000"
    assert first.attributes == ("score",)
    assert [response.labels for response in first.responses] == [(0.0,), (3.0,)]
    assert [
        group.id.partition(":")[0] for group in misses.as_groups(wrong, BENCHMARK, SCORES)
    ] == list(wrong.id)


def test_right_by_length_and_by_margin_by_hand():
    """Of two pairs whose chosen response is longer one is right; of the widest margins the first is wrong."""
    lean = misses.lean(BENCHMARK, SCORES)
    by_length = lean[lean.by == "length"].set_index("group")
    assert by_length["pairs"].to_dict() == {
        "chosen longer": 2,
        "chosen shorter": 1,
        "equal length": 1,
    }
    assert by_length["right (%)"].to_dict() == {
        "chosen longer": 50,
        "chosen shorter": 0,
        "equal length": 0,
    }
    by_margin = lean[lean.by == "margin, by fifth"]
    assert by_margin[["group", "right (%)"]].to_numpy().tolist() == [
        ["smallest", 0],
        ["2nd", 0],
        ["3rd", 100],
        ["4th", 0],
    ]
    assert misses.lean_in_words(lean) == (
        "Right by length: 50 % (chosen longer), 0 % (chosen shorter), 0 % (equal length). "
        "By margin: 0 % (smallest), 0 % (2nd), 100 % (3rd), 0 % (4th)."
    )


@pytest.fixture(scope="module")
def known():
    """Generated pairs, six a section."""
    return Benchmark(preferred_pairs(generate.benchmark(6, 0), "x").pairs, "generated", "x")


def test_faults_of_generated_pairs_are_named(known):
    """The worse response has a fault that the better one has not: that is what makes it worse."""
    names = [misses.fault(one) for one in known.pairs]
    assert "none" not in names
    assert {name.partition(" (")[0] for name in names} <= set(misses.FAULTS)
    refused = [one for one, name in zip(known.pairs, names, strict=True) if name == "refused"]
    assert refused and all(rewardbench.subset_of(one) in ("safety", "chat") for one in refused)
    with pytest.raises(ValueError, match="no generated group has the id"):
        misses.fault(BENCHMARK.pairs[0])


def test_right_by_fault_counts_every_pair_in_its_section_and_in_all(known):
    """A model that is right on two of three pairs of a kind has 66.7 % there, and all sections add up."""
    right = np.arange(len(known.pairs)) % 3 > 0
    scores = np.column_stack([right.astype(float), np.full(len(right), 0.5)])
    faults = misses.by_fault(known, scores, n_boot=100)
    in_all = faults[faults.section == "all"]
    assert in_all.pairs.sum() == faults[faults.section != "all"].pairs.sum() == len(known.pairs)
    assert np.isclose((in_all["right (%)"] * in_all.pairs).sum(), 100 * right.sum())
    assert (faults["95 % low"].fillna(0) <= faults["right (%)"]).all()


def test_badly_judged_sections_name_the_fault_that_is_hardest_to_see():
    """Only sections under 75 %; a part of a benchmark without faults names none."""
    table = pd.DataFrame({"part": "section", "name": ["chat", "safety"], "accuracy": [74.0, 75.0]})
    rows = [
        ("chat", "wrong (kinds)", 3, 100 / 3),
        ("chat", "refused", 2, 100.0),
        ("safety", "refused", 4, 0.0),
    ]
    faults = pd.DataFrame(rows, columns=["section", "fault", "pairs", "right (%)"])
    assert misses.faults_in_words(faults, Result("x", True, table)) == (
        "Sections under 75 %, and the fault hardest to see: chat, 'wrong (kinds)': 33 % of 3 right."
    )
    good = Result("x", True, table.assign(accuracy=90.0))
    assert misses.faults_in_words(faults, good).endswith("to see: none.")
