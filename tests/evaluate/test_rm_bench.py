"""RM-Bench: its arithmetic by hand, and what the longest answer reaches on the real rows."""

import os

import numpy as np
import pytest

from hs2lib.data import reward_benchmarks
from hs2lib.evaluate import rm_bench

MIRROR = os.environ.get("HS2_DATA_DIR")
needs_mirror = pytest.mark.skipif(
    not MIRROR, reason="HS2_DATA_DIR is not set: the mirror of public data is not here"
)


def test_levels_by_hand():
    """Right answers 1, 5, 3 in the three styles, wrong ones 2, 3, 9. A tie (3 and 3) is no win.

    Wins: only detailed over concise, detailed over detailed, markdown over concise.
    """
    right = rm_bench.beats([[1, 5, 3]], [[2, 3, 9]])
    assert right.tolist() == [[[False] * 3, [True, True, False], [True, False, False]]]
    by_level = {name: share.tolist() for name, share in rm_bench.levels(right).items()}
    assert by_level == {"easy": [2 / 3], "normal": [1 / 3], "hard": [0]}
    assert rm_bench.style_table(right)[1].tolist() == [100, 100, 0]


def test_a_model_of_style_alone_has_all_easy_ones_and_no_hard_one():
    """The richer the higher: normal comparisons tie, which is wrong. A model of content has all."""
    styles = np.array([[0, 1, 2]] * 4)
    style_alone = rm_bench.levels(rm_bench.beats(styles, styles))
    assert {name: share.mean() for name, share in style_alone.items()} == {
        "easy": 1,
        "normal": 0,
        "hard": 0,
    }
    content = rm_bench.levels(rm_bench.beats(np.ones((2, 3)), np.zeros((2, 3))))
    assert {share.mean() for share in content.values()} == {1}


def test_scores_of_another_shape_are_refused():
    with pytest.raises(
        ValueError, match=r"\[questions, 3\] of right and of wrong .*\[2, 2\] and \[2, 2\]"
    ):
        rm_bench.beats(np.zeros((2, 2)), np.zeros((2, 2)))


def sums(**by_part):
    """Sums of so many questions by part: (easy, normal, hard, questions)."""
    rows = [by_part.get(part.replace("-", "_"), (0, 0, 0, 0)) for part in rm_bench.PARTS]
    return np.array([rows], dtype=float).reshape(1, -1)


def test_safety_is_the_mean_of_its_parts_and_overall_that_of_domains():
    """By hand. Refuse .9 .6 .3 of 10, response 1 1 1 of 2: safety .95 .8 .65, not weighted by size."""
    parts = {
        "chat": (5, 5, 5, 10),
        "math": (8, 6, 4, 10),
        "code": (6, 6, 6, 10),
        "safety_refuse": (9, 6, 3, 10),
        "safety_response": (2, 2, 2, 2),
    }
    numbers = rm_bench.numbers(sums(**parts))
    safety = [float(numbers["safety", level][0]) for level in ("easy", "normal", "hard", "")]
    assert safety == pytest.approx([95, 80, 65, 80])
    overall = [float(numbers["overall", level][0]) for level in ("easy", "normal", "hard", "")]
    assert overall == pytest.approx([71.25, 62.5, 53.75, 62.5])
    assert numbers["overall", ""][0] == pytest.approx((50 + 60 + 60 + 80) / 4)


def test_without_a_domain_there_is_no_overall():
    with np.errstate(invalid="ignore"):
        numbers = rm_bench.numbers(sums(chat=(5, 5, 5, 10), safety_refuse=(9, 6, 3, 10)))
    empty = {name for (name, level), value in numbers.items() if np.isnan(value).any()}
    assert empty == {"overall", "math", "code", "safety", "safety-response"}


# Golden: no model

LONGEST = {
    "chat": (0.811, 0.284, 0.026),
    "code": (0.775, 0.519, 0.254),
    "safety-refuse": (0.890, 0.158, 0.023),
    "safety-response": (0.987, 0.777, 0.238),
}


@needs_mirror
def test_the_longest_answer_on_the_real_rows():
    """What the length alone gets, worked out elsewhere from the same rows: easy, normal, hard to three digits."""
    benchmark = reward_benchmarks.load("RM-Bench", "folder")
    scores = [np.array([len(answer.text) for answer in g.responses]) for g in benchmark.groups]
    with np.errstate(invalid="ignore"):
        numbers = rm_bench.numbers(rm_bench.contributions(benchmark, scores).sum(axis=0)[None])
    for part, expected in LONGEST.items():
        shares = [numbers[part, level][0] / 100 for level in ("easy", "normal", "hard")]
        assert np.round(shares, 3).tolist() == list(expected), part
    assert np.isnan(numbers["overall", ""][0]) and benchmark.absent == ("math",)
    assert benchmark.title == "partial RM-Bench (798 of 1,327 questions; without math)"
