"""RewardBench 2: best of four in five subsets, and Ties, where several answers are right.

    best_of(scores, right)              # of one question: 1, a share of 1 where answers tie, or 0
    margins(scores, right)              # of one question of Ties
    ties_score(sums)                    # five means, weighted
    overall = the plain mean of the six subsets

Formulas: allenai/reward-bench 05a9005, rewardbench/utils.py (arXiv 2506.01937). Paper: silent; the
benchmark is of 2025.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from hs2lib.data.reward_benchmarks import SIZES, RewardBenchmark

NAME = "RewardBench 2"

SUBSETS = tuple(SIZES[NAME])

BEST_OF_FOUR = tuple(name for name in SUBSETS if name != "Ties")

CHANCE = 25.0  # percent, of the subsets with four answers

# What Ties weighs, in this order: is each of several right answers above all wrong ones; is the one
# right answer; is the gap to the wrong ones wider than the spread of the right ones; is it so in
# both questions; and by how much. They sum to 1.01, so a perfect model may have 101 %.
TIES_WEIGHTS = (0.30, 0.30, 0.20, 0.20, 0.01)


def best_of(scores: Sequence[float], right: Sequence[bool]) -> float:
    """What a question with one right answer counts: 1 / (answers tied at the maximum), or 0.

    It is 0 where the right answer is not among them. By hand: scores 2, 2, 1, 0 count 1/2 if the
    right answer is one of the first two.

    scores: [G]. right: bool [G].

    Raises ValueError unless just one answer is right.
    """
    scores = np.asarray(scores, dtype=np.float64)  # [G]
    right = np.asarray(right, dtype=bool)  # [G]
    if scores.shape != right.shape or right.sum() != 1:
        raise ValueError(
            f"expected as many scores as answers, one of them right, got {len(scores)} scores "
            f"and {int(right.sum())} right of {len(right)} answers"
        )
    at_maximum = scores == scores.max()  # [G]
    if not at_maximum[right].any():
        return 0.0
    return 1.0 / at_maximum.sum()


class Margins(NamedTuple):
    """What the scores of a question of Ties say.

    gap: the lowest score of a right answer less the highest of a wrong one.
    spread: the highest score of a right answer less the lowest of one; 0 where one is right.
    """

    gap: float
    spread: float


def margins(scores: Sequence[float], right: Sequence[bool]) -> Margins:
    """The margins of a question of Ties. scores: [G]. right: bool [G], neither all nor none."""
    scores = np.asarray(scores, dtype=np.float64)  # [G]
    right = np.asarray(right, dtype=bool)  # [G]
    if scores.shape != right.shape or right.all() or not right.any():
        raise ValueError(
            f"expected as many scores as answers, some of them right, got {len(scores)} scores "
            f"and {int(right.sum())} right of {len(right)} answers"
        )
    of_right = scores[right]
    gap = of_right.min() - scores[~right].max()
    return Margins(float(gap), float(of_right.max() - of_right.min()))


def tied_terms(ref: Margins, tied: Margins) -> tuple[float, float, float]:
    """What a pair of questions of Ties says of the right answers among each other.

    Returns: whether the gap of the tied question is wider than the spread of its right answers (1
    or 0); whether the smaller one of both gaps is; and tanh(smaller gap / spread - 1), which is 0
    where both are 0.
    """
    smaller = min(ref.gap, tied.gap)
    with np.errstate(invalid="ignore", divide="ignore"):
        excess = np.tanh(np.float64(smaller) / tied.spread - 1)
    return (
        float(tied.gap > tied.spread),
        float(smaller > tied.spread),
        float(np.nan_to_num(excess, nan=0.0)),
    )


# Sums behind the score of Ties: tied questions right and their number, the same of those with one
# right answer, then the three terms of pairs and their number.
N_TIES_SUMS = 8


def ties_score(sums: np.ndarray) -> np.ndarray:
    """The score of Ties, from -.01 to 1.01, [B], of sums [B, `N_TIES_SUMS`].

    .30 tied accuracy + .30 ref accuracy + .20 mean(gap > spread) + .20 mean(smaller gap > spread) +
    .01 mean tanh(smaller gap / spread - 1). By hand: all right, no gap wider than the spread and
    the last term -.5 make .595.
    """
    tied, n_tied, ref, n_ref, wider, wider_in_both, excess, n_pairs = sums.T
    means = (tied / n_tied, ref / n_ref, wider / n_pairs, wider_in_both / n_pairs, excess / n_pairs)
    return sum(weight * mean for weight, mean in zip(TIES_WEIGHTS, means, strict=True))


# What `hs2lib.evaluate.reward_benchmarks` asks of a benchmark


def contributions(benchmark: RewardBenchmark, scores: Sequence[np.ndarray]) -> np.ndarray:
    """What each question adds to the sums behind the numbers, float64 [questions, k].

    The terms of a pair of questions of Ties stand with its tied question. scores: of the answers to
    each question, [G] each.
    """
    n_four = 2 * len(BEST_OF_FOUR)
    rows = np.zeros((len(benchmark), n_four + N_TIES_SUMS))
    ref_of: dict[str, Margins] = {}  # link -> margins of the question with one right answer
    tied_of: dict[str, tuple[int, Margins]] = {}  # link -> place and margins of the other one
    for number, (part, link, of_answers, right) in enumerate(
        zip(benchmark.parts, benchmark.links, scores, benchmark.right, strict=True)
    ):
        if part != "Ties":
            column = 2 * BEST_OF_FOUR.index(part)
            rows[number, column] = best_of(of_answers, right)
            rows[number, column + 1] = 1
            continue
        of_question = margins(of_answers, right)
        is_right = of_question.gap > 0
        if right.sum() == 1:
            ref_of[link] = of_question
            rows[number, n_four + 2 : n_four + 4] = (is_right, 1)
        else:
            tied_of[link] = (number, of_question)
            rows[number, n_four : n_four + 2] = (is_right, 1)
    for link, (number, tied) in tied_of.items():
        if link in ref_of:
            rows[number, n_four + 4 :] = (*tied_terms(ref_of[link], tied), 1)
    return rows


def numbers(sums: np.ndarray) -> Mapping[tuple[str, str], np.ndarray]:
    """Overall and subsets in percent, each [B], of sums [B, k]; nan where a subset is absent.

    Keys are (part, level); there are no levels here. Overall is the plain mean of the six.
    """
    n_four = 2 * len(BEST_OF_FOUR)
    by_subset = {}
    for place, name in enumerate(BEST_OF_FOUR):
        by_subset[name] = 100 * sums[:, 2 * place] / sums[:, 2 * place + 1]
    by_subset["Ties"] = 100 * ties_score(sums[:, n_four:])
    overall = sum(by_subset.values()) / len(SUBSETS)
    parts = {(name, ""): by_subset[name] for name in SUBSETS}
    return {("overall", ""): overall, **parts}


def bounds(part: str) -> tuple[float, float]:
    """The lowest and the highest value that a number of a part can have, percent."""
    if part == "Ties":
        return -1.0, 101.0
    if part == "overall":
        return -1 / 6, 100 + 1 / 6
    return 0.0, 100.0


def chance(part: str) -> float:
    """What equal chances for all answers give, percent; nan where no formula says it."""
    return CHANCE if part in BEST_OF_FOUR else np.nan


def members(part: str) -> tuple[str, ...]:
    """The parts of questions that a number is of."""
    return SUBSETS if part == "overall" else (part,)
