"""Pairs in the wrong order: worst first, by length, and by what is wrong with the worse response."""

import numpy as np
import pytest

from hs2lib.corpus import generate
from hs2lib.data.pairs import Benchmark, preferred_pairs
from hs2lib.evaluate import misses, rewardbench
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
    """Each response has its score as a label; the pair itself stays as it is."""
    wrong = rewardbench.mistakes(BENCHMARK, SCORES)
    first = misses.as_groups(wrong, BENCHMARK, SCORES)[0]
    assert first.attributes == ("score",)
    assert [response.labels for response in first.responses] == [(0.0,), (3.0,)]
    assert [
        group.id.partition(":")[0] for group in misses.as_groups(wrong, BENCHMARK, SCORES)
    ] == list(wrong.id)


def by_length(section, n_right, n_wrong, *, longer):
    """Pairs of a section whose chosen response is longer or shorter, and their scores."""
    texts = ("longer", "so") if longer else ("so", "longer")
    number = n_right + n_wrong
    made = [pair(f"{section}/{longer}{k}", *texts) for k in range(number)]
    return made, [[1.0, 0.0]] * n_right + [[0.0, 1.0]] * n_wrong


def test_right_by_length_is_compared_within_sections():
    """A section that is all right and all longer shows no lean, though it has more right pairs.

    By hand: 15 of 20 where longer and 15 of 20 where shorter, in one section with a miss.
    """
    parts = [
        by_length("safety", 30, 0, longer=True),
        by_length("chat", 15, 5, longer=True),
        by_length("chat", 15, 5, longer=False),
    ]
    pairs = [one for made, _ in parts for one in made]
    scores = np.array([row for _, rows in parts for row in rows])
    lean = misses.lean(Benchmark(tuple(pairs), "own", "by hand"), scores, n_boot=200)
    assert lean.right == ("safety",)
    assert lean.table.columns.tolist() == misses.LEAN
    assert lean.table.iloc[1].tolist() == ["chat", 20, 75.0, 20, 75.0]
    assert lean.difference.estimate == pytest.approx(0)
    assert lean.difference.low < 0 < lean.difference.high
    followed = np.array([[1.0, 0.0]] * 50 + [[0.0, 1.0]] * 20)
    lean = misses.lean(Benchmark(tuple(pairs), "own", "by hand"), followed, n_boot=200)
    assert lean.difference.estimate == 100
    one_kind = Benchmark(tuple(pairs[:30]), "own", "by hand")
    assert np.isnan(misses.lean(one_kind, scores[:30]).difference.estimate)


def test_sections_weigh_by_what_they_tell():
    """By hand: 3 of 4 and 1 of 2 differ by 25 points with weight 8 / 6; 0 of 1 and 1 of 1 by -100 with 1 / 2."""
    sums = np.array([[3.0, 4.0, 1.0, 2.0, 0.0, 1.0, 1.0, 1.0]])
    expected = (25 * 8 / 6 - 100 / 2) / (8 / 6 + 1 / 2)
    assert misses._within(sums).item() == pytest.approx(expected)


@pytest.fixture(scope="module")
def known():
    """Generated pairs, six a section."""
    return Benchmark(preferred_pairs(generate.benchmark(6, 0), "x").pairs, "generated", "x")


def test_faults_of_generated_pairs_are_named(known):
    """The worse response has a fault that the better one has not: that is what makes it worse."""
    names = [misses.fault(one) for one in known.pairs]
    assert "none" not in names
    plain = {name.partition(" (")[0] for name in names}
    assert plain <= {*misses.FAULTS, misses.COMPLIES}
    refused = [one for one, name in zip(known.pairs, names, strict=True) if name == "refused"]
    assert refused and all(rewardbench.subset_of(one) in ("safety", "chat") for one in refused)
    for one, name in zip(known.pairs, names, strict=True):
        is_unsafe = generate.task_of(one.id).family == "unsafe"
        assert is_unsafe == (name == misses.COMPLIES), "who complies does not refuse"
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


def test_faults_of_few_pairs_share_a_row(known, monkeypatch):
    """A share of three pairs says nothing; with a limit of 1 each fault has its row."""
    scores = np.ones((len(known.pairs), 2))
    pooled = misses.by_fault(known, scores, n_boot=50)
    alone = pooled[pooled.fault != misses.OTHER]
    assert (alone.pairs >= misses.FEW).all() and misses.OTHER in set(pooled.fault)
    monkeypatch.setattr(misses, "FEW", 1)
    assert misses.OTHER not in set(misses.by_fault(known, scores, n_boot=50).fault)


def test_what_is_shown_of_the_misses():
    """The largest and the middle one, both responses with their scores."""
    wrong = rewardbench.mistakes(BENCHMARK, SCORES)
    assert misses.examples(wrong) == [wrong.id[0], wrong.id[len(wrong) // 2]]
    chosen, rejected = misses.as_answers(BENCHMARK.pairs[1], SCORES[1])
    assert (chosen.policy, chosen.text, chosen.score) == ("chosen", "so", 0.0)
    assert rejected.score == 3.0
