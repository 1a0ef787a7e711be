"""RewardBench 2: each formula on rows by hand; its own rows are on the Hub and were never read here."""

import math

import numpy as np
import pytest

from hs2lib.data import reward_benchmarks
from hs2lib.data.reward_benchmarks import RewardBenchmark
from hs2lib.evaluate import rewardbench_2
from hs2lib.group import Group, Response, Turn


@pytest.mark.parametrize(
    ("scores", "points"),
    [
        ([3, 2, 1, 0], 1),  # alone at the top
        ([2, 2, 1, 0], 1 / 2),  # tied with one wrong answer
        ([1, 1, 1, 1], 1 / 4),  # a model that says nothing has the chance
        ([2, 3, 1, 0], 0),  # a wrong one is higher
        ([2, 3, 3, 3], 0),  # wrong ones tie above it
    ],
)
def test_best_of_four_by_hand(scores, points):
    """A tie at the top shares the point; a strict "higher than all" would give 0 for the second and the third."""
    assert rewardbench_2.best_of(scores, [True, False, False, False]) == points


def test_best_of_wants_one_right_answer():
    for right in ([False] * 4, [True, True, False, False]):
        with pytest.raises(
            ValueError, match=r"one of them right, got 4 scores and [02] right of 4"
        ):
            rewardbench_2.best_of([1, 2, 3, 4], right)


def test_margins_by_hand():
    """Right answers 5, 3 and 4, wrong ones 2 and 1: the gap is 3 - 2, the spread 5 - 3."""
    right = [True, True, True, False, False]
    assert rewardbench_2.margins([5, 3, 4, 2, 1], right) == (1, 2)
    assert rewardbench_2.margins([5, 4], [True, False]) == (1, 0)
    with pytest.raises(ValueError, match="2 right of 2 answers"):
        rewardbench_2.margins([5, 4], [True, True])


@pytest.mark.parametrize(
    ("ref", "tied", "expected"),
    [
        ((4, 0), (3, 2), (1, 1, math.tanh(0.5))),  # smaller gap 3 over a spread of 2
        ((1, 0), (3, 2), (1, 0, math.tanh(-0.5))),  # the one right answer stands too low
        ((3, 0), (1, 2), (0, 0, math.tanh(-0.5))),
        ((1, 0), (2, 0), (1, 1, 1.0)),  # all right answers alike: the ratio is infinite
        ((0, 0), (2, 0), (1, 0, 0.0)),  # 0 over 0 counts 0, as there
    ],
)
def test_terms_of_a_pair_of_questions_by_hand(ref, tied, expected):
    Margins = rewardbench_2.Margins
    assert rewardbench_2.tied_terms(Margins(*ref), Margins(*tied)) == pytest.approx(expected)


def test_the_score_of_ties_by_hand():
    """Two pairs. Tied 1 of 2 right, ref 2 of 2; wider in 1, in both in none; last terms .5 and -.1.

    .3 x .5 + .3 x 1 + .2 x .5 + .2 x 0 + .01 x .2 = .552.
    """
    sums = np.array([[1, 2, 2, 2, 1, 0, 0.4, 2]])
    assert rewardbench_2.ties_score(sums) == pytest.approx([0.552])
    assert sum(rewardbench_2.TIES_WEIGHTS) == pytest.approx(1.01)


def question(part, number, n_right, n_wrong, kind=""):
    responses = [Response(f"{n}", f"{n}", (float(n < n_right),)) for n in range(n_right + n_wrong)]
    return Group(f"{part}/{kind}{number}", (Turn("user", "?"),), tuple(responses), ("right",))


def by_hand():
    """One question of each of five subsets, and a pair of Ties with two right answers."""
    groups, parts, links = [], [], []
    for part in rewardbench_2.BEST_OF_FOUR:
        groups.append(question(part, 0, 1, 3))
        parts.append(part)
        links.append(part)
    for kind, n_right in (("ref:", 1), ("tied:", 2)):
        groups.append(question("Ties", 0, n_right, 1, kind))
        parts.append("Ties")
        links.append("Ties/0")
    return RewardBenchmark(
        "RewardBench 2",
        tuple(groups),
        tuple(parts),
        tuple(links),
        "x",
        whole=reward_benchmarks.SIZES["RewardBench 2"],
    )


def test_overall_is_the_plain_mean_of_six_subsets_whatever_their_sizes():
    """Right, tied, wrong, right, right; Ties: gaps 2 and 1 and a spread of 2, .3 + .3 + .01 tanh(-.5)."""
    benchmark = by_hand()
    scores = [
        np.array(s, float)
        for s in ([9, 1, 2, 3], [5, 5, 1, 1], [0, 1, 1, 1], [2, 1, 0, 0], [1, 0, 0, 0])
    ]
    scores += [np.array([5.0, 3.0]), np.array([6.0, 4.0, 3.0])]
    sums = rewardbench_2.contributions(benchmark, scores).sum(axis=0)[None]
    numbers = {part: float(value[0]) for (part, _), value in rewardbench_2.numbers(sums).items()}
    ties = 100 * (0.6 + 0.01 * math.tanh(-0.5))
    assert numbers["Ties"] == pytest.approx(ties)
    assert [numbers[part] for part in rewardbench_2.BEST_OF_FOUR] == [100, 50, 0, 100, 100]
    assert numbers["overall"] == pytest.approx((350 + ties) / 6)


def test_a_subset_that_is_absent_leaves_no_overall():
    benchmark = by_hand().where([True] * 5 + [False] * 2, "without Ties")
    scores = [np.array([1.0, 0, 0, 0])] * 5
    sums = rewardbench_2.contributions(benchmark, scores).sum(axis=0)[None]
    with np.errstate(invalid="ignore"):
        numbers = rewardbench_2.numbers(sums)
    assert np.isnan(numbers["overall", ""]).all() and np.isnan(numbers["Ties", ""]).all()
    assert numbers["Math", ""] == [100]
