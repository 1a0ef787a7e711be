"""From the ratings of several annotators to the released label, as HelpSteer2's authors made it.

Every response is rated by three annotators. Two more are recruited where the three disagree. The
three who agree most are kept, and the label is their rounded mean. A prompt stays only if both of
its responses are agreed on. Paper: section 2.1, "Response Annotation". Every number of that rule is
a parameter here. What the paper leaves open is a parameter too, with the reason for its default.

Axes: rows (responses), N annotators, A attributes. Missing ratings are nan, and so is the padding
of rows with fewer than N annotators. This module needs numpy alone, so it is cheap to import.
"""

from itertools import combinations

import numpy as np

from hs2lib.names import ATTRIBUTES, one_of


def spread(
    ratings: np.ndarray, attribute: int | str = 0, keep: np.ndarray | None = None
) -> np.ndarray:
    """Largest minus smallest rating of one attribute among the (kept) annotators of each row.

    Paper: section 2.1 ("the difference in helpfulness among them").

    Args:
        ratings: [rows, N, A], nan where missing.
        attribute: name or column.
        keep: which annotators count, as `keep_three` returns it; None counts all.
    Returns: float64 [rows], in points of the scale; nan where nobody rated.
    Raises: ValueError for shapes that do not fit or an unknown attribute.
    """
    ratings = _check_shape(ratings)
    column = _only_kept(ratings, keep)[:, :, _position(attribute, ratings.shape[2])]  # [rows, N]
    # fmin and fmax skip nan and, unlike nanmin, do not warn about rows that are all nan.
    largest = np.fmax.reduce(column, axis=1, initial=np.nan)
    smallest = np.fmin.reduce(column, axis=1, initial=np.nan)
    return largest - smallest


def recruit(
    ratings: np.ndarray, first: int = 3, upto: int = 5, max_spread: float = 2
) -> np.ndarray:
    """Ratings of those who are asked: more annotators only where the first differ in helpfulness.

    Paper: section 2.1 (three, then two additional annotators where helpfulness differs by more than
    2; 3.41 on average).

    Args:
        ratings: [rows, N, A], simulated for all N annotators, in the order in which they would be
            asked; helpfulness is the first attribute.
        first: how many annotators are always asked.
        upto: how many are asked where the first ones disagree.
        max_spread: the largest difference in helpfulness that counts as agreement.
    Returns: float64 [rows, min(N, upto), A], nan for who is not asked.
    Raises: ValueError where first is not from 1 to upto.
    """
    if not 1 <= first <= upto:
        raise ValueError(f"first must be from 1 to upto, got first {first} and upto {upto}")
    asked = _check_shape(ratings)[:, :upto].copy()
    disagree = spread(asked[:, :first]) > max_spread  # [rows]; false where nobody rated
    asked[~disagree, first:] = np.nan
    return asked


def keep_three(ratings: np.ndarray, by: str | int = "helpfulness", n_keep: int = 3) -> np.ndarray:
    """The annotators kept: of each row, the n_keep whose ratings lie closest together.

    Paper: section 2.1 ("up to five annotators per sample but only retained annotations from the
    three most in agreement"). The paper does not say what they agree on, how that is measured, or
    what happens in a tie. What they agree on is `by`. Disagreement is the sum over pairs of the
    squared difference, the penalty of the quadratic weighted kappa that the paper reports. In a tie
    the smaller disagreement over all attributes decides, then who was asked earlier. For 1,1,3,5,5
    on helpfulness alone both 1,1,3 and 3,5,5 qualify; 1,1,3 wins unless other attributes decide.

    Args:
        ratings: [rows, N, A], nan where missing.
        by: what the annotators must agree on. "helpfulness", or another attribute's name or column:
            that one, because the recruiting rule and the final filter look at helpfulness only.
            "all": every attribute, summed. "each": every attribute on its own, so that different
            annotators may be kept for different attributes.
        n_keep: how many are kept. Who did not rate what agreement is judged by cannot be compared
            and is not kept. Rows with at most n_keep others keep them all. At least 1.
    Returns: bool [rows, N], or [rows, N, A] for by="each".
    Raises: ValueError for n_keep below 1.
    """
    ratings = _check_shape(ratings)
    if n_keep < 1:
        raise ValueError(f"n_keep is at least 1, got {n_keep}")
    if by == "each":
        of_attribute = [keep_three(ratings, a, n_keep) for a in range(ratings.shape[2])]
        return np.stack(of_attribute, axis=2)
    judged = slice(None) if by == "all" else [_position(by, ratings.shape[2])]
    rated = ~np.isnan(ratings[:, :, judged])  # [rows, N, judged]
    nobody_rated = ~rated.any(axis=1, keepdims=True)  # [rows, 1, judged]
    keep = (rated | nobody_rated).all(axis=2) & rated.any(axis=2)  # [rows, N]
    crowded = keep.sum(axis=1) > n_keep  # [rows]
    if crowded.any():
        keep[crowded] = _closest(ratings[crowded], keep[crowded], judged, n_keep)
    return keep


def aggregate(ratings: np.ndarray, keep: np.ndarray | None = None) -> np.ndarray:
    """The label of each row and attribute: the kept annotators' mean, rounded to the scale.

    Paper: section 2.1. Of the released prompt "c#" helpfulness 3,3,4 becomes 3 and correctness
    3,4,4 becomes 4. The paper does not speak of halves, which three integers never make but two or
    four do. They go to the even number, as numpy and the reference code round.

    Args:
        ratings: [rows, N, A], nan where missing.
        keep: which annotators count, as `keep_three` returns it; None counts all.
    Returns: float64 [rows, A]; nan where nobody kept rated the attribute.
    """
    kept = _only_kept(_check_shape(ratings), keep)  # [rows, N, A]
    with np.errstate(invalid="ignore"):  # 0 / 0 where nobody rated
        return np.rint(np.nansum(kept, axis=1) / (~np.isnan(kept)).sum(axis=1))


def released(
    ratings: np.ndarray, keep: np.ndarray | None, group_index: np.ndarray, max_spread: float = 2
) -> np.ndarray:
    """Rows that survive the final filter: every response of their prompt is agreed on.

    Paper: section 2.1 ("only responses for which the differences in helpfulness attribute among
    annotators were 2 points or below ... for both responses to a common prompt"; about 10 %
    removed). Among five ratings from 0 to 4 the closest three are never more than 2 apart. With
    `keep` from `keep_three` and max_spread 2, only rows with fewer than five annotators can fail.

    Args:
        ratings: [rows, N, A], nan where missing.
        keep: as `keep_three` returns it; None filters on everybody who was asked.
        group_index: int [rows], equal for the responses of one prompt, in any order.
        max_spread: the largest difference in helpfulness among the kept annotators.
    Returns: bool [rows]. A response that nobody rated fails.
    Raises: ValueError for shapes that do not fit.
    """
    group_index = np.asarray(group_index)
    if group_index.shape != (len(ratings),):
        raise ValueError(
            f"group_index must have one entry for each of {len(ratings)} rows, "
            f"got {group_index.shape}"
        )
    agreed = spread(ratings, 0, keep) <= max_spread  # [rows]
    _, group = np.unique(group_index, return_inverse=True)
    if not len(group):
        return agreed
    failures = np.bincount(group, weights=~agreed)  # of each group
    return (failures == 0)[group]


def _check_shape(ratings: np.ndarray) -> np.ndarray:
    """The ratings as float64 [rows, N, A]. Raises ValueError for another number of axes."""
    ratings = np.asarray(ratings, dtype=np.float64)
    if ratings.ndim != 3:
        raise ValueError(
            f"ratings must be [rows, N annotators, A attributes], got shape {ratings.shape}"
        )
    return ratings


def _position(attribute: int | str, n_attributes: int) -> int:
    """The column of an attribute, named (in the order of ATTRIBUTES) or numbered from 0."""
    if isinstance(attribute, str):
        one_of("attribute", attribute, ATTRIBUTES)
        attribute = ATTRIBUTES.index(attribute)
    if not 0 <= attribute < n_attributes:
        raise ValueError(
            f"attribute {attribute} is outside the {n_attributes} columns of the ratings, 0 and up"
        )
    return attribute


def _only_kept(ratings: np.ndarray, keep: np.ndarray | None) -> np.ndarray:
    """The ratings with nan in place of those not kept.

    keep: [rows, N], or [rows, N, A] as `keep_three(by="each")` returns it.
    """
    if keep is None:
        return ratings
    keep = np.asarray(keep, dtype=bool)
    if keep.shape not in (ratings.shape[:2], ratings.shape):
        raise ValueError(
            f"keep must be {ratings.shape[:2]} or {ratings.shape} for these ratings, "
            f"got {keep.shape}"
        )
    if keep.ndim == 2:
        keep = keep[:, :, None]
    return np.where(keep, ratings, np.nan)


def _closest(
    ratings: np.ndarray, able: np.ndarray, judged: slice | list[int], n_keep: int
) -> np.ndarray:
    """The annotators kept, bool [rows, N], in rows that have more than n_keep to choose from.

    ratings: [rows, N, A]; able: bool [rows, N], who can be compared; judged: the attributes that
    agreement is judged by.
    """
    n_rows, n_annotators, _ = ratings.shape
    squared_gaps = {}  # of each pair of annotators: [rows, A]
    for i, j in combinations(range(n_annotators), 2):
        # A missing rating counts as no gap.
        squared_gaps[i, j] = np.nan_to_num((ratings[:, i] - ratings[:, j]) ** 2)
    subsets = list(combinations(range(n_annotators), n_keep))
    # The disagreement of each subset of annotators, infinite where one of them cannot be compared.
    on_judged = np.full((n_rows, len(subsets)), np.inf)  # on what agreement is judged by
    on_everything = np.full((n_rows, len(subsets)), np.inf)
    for s, subset in enumerate(subsets):
        nothing = np.zeros(ratings.shape[::2])  # the gap of an annotator alone, [rows, A]
        gap = sum((squared_gaps[pair] for pair in combinations(subset, 2)), start=nothing)
        comparable = able[:, subset].all(axis=1)  # [rows]
        on_judged[comparable, s] = gap[comparable][:, judged].sum(axis=1)
        on_everything[comparable, s] = gap[comparable].sum(axis=1)
    # Ratings are small integers, so their sums are exact. The tolerance is for labels on a
    # continuous scale.
    worse = on_judged > on_judged.min(axis=1, keepdims=True) + 1e-9  # [rows, subsets]
    on_everything[worse] = np.inf
    tied = on_everything <= on_everything.min(axis=1, keepdims=True) + 1e-9  # [rows, subsets]
    # argmax takes the first of the tied, and subsets are in the order of annotators.
    closest = np.array(subsets)[tied.argmax(axis=1)]  # [rows, n_keep]
    return (closest[:, :, None] == np.arange(n_annotators)).any(axis=1)
