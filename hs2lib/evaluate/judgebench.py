"""JudgeBench: of two answers, which is right? Both look alike, and one of them is checked to be.

    by_scores(score_a, score_b, label)   # a reward model has no order: once
    by_decisions(decisions, label)       # a judge is asked in both orders

A category's number is the share of its pairs that are right, overall that of all pairs. A tie is
wrong, and so is a judge who says another thing in the other order.

Formulas: ScalerLab/JudgeBench e2c52c2, utils/metrics.py and utils/judges.py (arXiv 2410.12784). Its
code lets a reward model decide "B>A" where both scores are equal; asked in both orders that is no
decision, and wrong, as here. Paper: silent; the benchmark is of later in 2024.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from hs2lib.data.reward_benchmarks import SIZES, RewardBenchmark

NAME = "JudgeBench"

CATEGORIES = tuple(SIZES[NAME])

CHANCE = 50.0

# What a decision says where the answers change places.
OTHER_ORDER = {"A>B": "B>A", "B>A": "A>B"}


def by_scores(score_a: float, score_b: float, label: str) -> bool:
    """Whether a reward model is right: the right answer has the higher score; a tie is wrong.

    label: "A>B" or "B>A".
    """
    return score_a > score_b if label == "A>B" else score_b > score_a


def by_decisions(decisions: Sequence[str | None], label: str) -> bool:
    """Whether a judge is right, asked in one order or in both.

    A decision that is right counts +1, the opposite one -1, anything else 0. The judge is right
    where the sum is above 0. By hand: A>B, then A>B of the exchanged answers, are +1 - 1 = 0, so
    wrong; A>B, then a tie, are +1, so right.

    decisions: as spoken, "A>B" prefers what was shown first; the second is of the order B, A.
    label: "A>B" or "B>A".
    """
    total = 0
    for order, spoken in enumerate(decisions):
        decision = OTHER_ORDER.get(spoken, spoken) if order else spoken
        if decision == label:
            total += 1
        elif decision == OTHER_ORDER[label]:
            total -= 1
    return total > 0


def shares(categories: Sequence[str], right: Sequence[bool]) -> dict[str, float]:
    """Percent right, overall and by category; nan for a category without pairs.

    categories: of each pair. right: whether it is right.
    """
    sums = _by_category(categories, right).sum(axis=0)[None]
    with np.errstate(invalid="ignore"):
        return {part: float(value[0]) for (part, _), value in numbers(sums).items()}


def _by_category(categories: Sequence[str], right: Sequence[bool]) -> np.ndarray:
    """Of each pair right and 1 in the two columns of its category, float64 [pairs, 2 C]."""
    in_category = np.array(categories)[:, None] == np.array(CATEGORIES)  # [pairs, C]
    is_right = np.asarray(right, dtype=bool)[:, None]
    return np.hstack([in_category & is_right, in_category]).astype(np.float64)


# What `hs2lib.evaluate.reward_benchmarks` asks of a benchmark


def contributions(benchmark: RewardBenchmark, scores: Sequence[np.ndarray]) -> np.ndarray:
    """What each pair adds to the sums behind the numbers, float64 [pairs, k].

    scores: of the answers A and B to each question, [2] each.
    """
    right = []
    for (score_a, score_b), marks in zip(scores, benchmark.right, strict=True):
        right.append(by_scores(score_a, score_b, "A>B" if marks[0] else "B>A"))
    return _by_category(benchmark.parts, right)


def numbers(sums: np.ndarray) -> Mapping[tuple[str, str], np.ndarray]:
    """Overall and categories in percent, each [B], of sums [B, k]. Keys are (part, level).

    Overall is of all pairs, so a category weighs as many as it has.
    """
    n = len(CATEGORIES)
    values = {("overall", ""): 100 * sums[:, :n].sum(axis=1) / sums[:, n:].sum(axis=1)}
    for place, name in enumerate(CATEGORIES):
        values[name, ""] = 100 * sums[:, place] / sums[:, n + place]
    return values


def bounds(part: str) -> tuple[float, float]:
    """The lowest and the highest value that a number of a part can have, percent."""
    return 0.0, 100.0


def chance(part: str) -> float:
    """What equal chances for both answers give, percent."""
    return CHANCE


def members(part: str) -> tuple[str, ...]:
    """The parts of questions that a number is of."""
    return CATEGORIES if part == "overall" else (part,)
