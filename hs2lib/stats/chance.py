"""What the rules of collection make of ratings, also of ratings that agree on nothing.

    rule = Rule()                                       # section 2.1
    null = independent(ratings, n=5, seed=0)            # nobody agrees with anybody
    stages = by_stage(collect(null, group_index, rule))  # what is counted after each rule

Ratings that agree on nothing have kappa 0. Whatever kappa they have after a rule is the rule's
doing: it picks ratings that happen to lie close together. Axes: rows (responses), N annotators,
A attributes; helpfulness comes first. Paper: section 2.1 (the rules); silent on what they do.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from hs2lib.stats import aggregate

# What is counted after each rule, in the order in which the rules are applied.
FIRST = "first three asked"
ASKED = "all who were asked"
KEPT = "closest three kept"
RELEASED = "closest three, and within 2 points"


@dataclass(frozen=True)
class Rule:
    """How ratings are collected and kept; the defaults are the paper's (section 2.1).

    first: annotators who are always asked.
    most: annotators who are asked where the first ones disagree.
    recruit_above: difference in helpfulness, in points, above which more are asked.
    n_keep: annotators who are kept, those who lie closest together.
    keep_by: what they must lie close together in, as in `aggregate.keep_three`.
    max_spread: difference in helpfulness, in points, above which a prompt is dropped.
    """

    first: int = 3
    most: int = 5
    recruit_above: float = 2
    n_keep: int = 3
    keep_by: str | int = 0
    max_spread: float = 2


class Collected(NamedTuple):
    """Ratings after all rules.

    asked: [rows, N, A], nan where nobody was asked or the rating was lost.
    keep: bool, who is kept, as `aggregate.keep_three` returns it.
    released: bool [rows], which rows the final filter leaves.
    """

    asked: np.ndarray
    keep: np.ndarray
    released: np.ndarray

    def kept(self) -> np.ndarray:
        """The ratings of those who are kept, [rows, N, A]; nan elsewhere."""
        keep = self.keep if self.keep.ndim == 3 else self.keep[:, :, None]
        return np.where(keep, self.asked, np.nan)


def collect(
    ratings: np.ndarray,
    group_index: np.ndarray,
    rule: Rule = Rule(),
    lost: np.ndarray | None = None,
) -> Collected:
    """Apply the rules to ratings by everybody who could be asked.

    Paper: section 2.1 (recruit, keep, filter). That further ratings are lost is ours: without it
    the filter would have nothing to remove (see `aggregate.released`).

    Args:
        ratings: [rows, N, A], in the order in which annotators would be asked.
        group_index: int [rows], equal for the responses of one prompt.
        rule: the rules.
        lost: bool [rows], where the ratings beyond the first ones are lost; None loses none.
    Raises: ValueError as the functions of `hs2lib.stats.aggregate` do.
    """
    asked = aggregate.recruit(ratings, rule.first, rule.most, rule.recruit_above)
    if lost is not None:
        asked[lost, rule.first :] = np.nan
    return judged(asked, group_index, rule)


def judged(
    asked: np.ndarray,
    group_index: np.ndarray,
    rule: Rule = Rule(),
) -> Collected:
    """Keep and filter ratings that were collected already, [rows, N, A].

    Paper: section 2.1. Arguments and errors are as in `collect`.
    """
    keep = aggregate.keep_three(asked, rule.keep_by, rule.n_keep)
    released = aggregate.released(asked, keep, group_index, rule.max_spread)
    return Collected(asked, keep, released)


def by_stage(collected: Collected, first: int = 3) -> dict[str, np.ndarray]:
    """The ratings that count after each rule: name -> [rows, N, A], nan where none counts.

    Paper: Table 1 has the last two.
    """
    kept = collected.kept()
    return {
        FIRST: collected.asked[:, :first],
        ASKED: collected.asked,
        KEPT: kept,
        RELEASED: np.where(collected.released[:, None, None], kept, np.nan),
    }


def independent(ratings: np.ndarray, n: int = 5, seed: int = 0, first: int = 3) -> np.ndarray:
    """Ratings by n annotators a row who agree on nothing: each annotation is drawn from all rows.

    An annotation is drawn whole, so the attributes of one annotator go together as they do. Only
    the first annotators' are drawn from, since further ones are asked where the first disagree.
    Paper: silent.

    Args:
        ratings: [rows, N, A], nan where missing.
        n: annotators a row.
        seed: of the draw.
        first: how many annotators of a row are drawn from.
    Returns: float64 [rows, n, A].
    Raises: ValueError where nobody rated anything.
    """
    pool = np.asarray(ratings, dtype=np.float64)[:, :first]
    pool = pool.reshape(-1, pool.shape[2])
    pool = pool[~np.isnan(pool).all(axis=1)]
    if not len(pool):
        raise ValueError("no annotation holds a rating: there is nothing to draw from")
    drawn = np.random.default_rng(seed).integers(len(pool), size=(len(ratings), n))
    return pool[drawn]


def lost_share(ratings: np.ndarray, first: int = 3, recruit_above: float = 2) -> float:
    """Share of the rows in disagreement that have no rating beyond the first ones.

    Paper: silent; of released rows it says how many annotators' work did not pass.

    Args:
        ratings: [rows, N, A] as collected, nan where missing.
        first: annotators who were always asked.
        recruit_above: points of helpfulness above which more were to be asked.
    Returns: from 0 to 1; 0 where no row is in disagreement.
    """
    disagree = aggregate.spread(ratings[:, :first], 0) > recruit_above
    if not disagree.any():
        return 0.0
    further = ~np.isnan(ratings[disagree, first:, 0])
    return float(1 - further.any(axis=1).mean())
