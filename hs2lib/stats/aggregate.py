"""From annotators' ratings to released labels: who is recruited, who is kept, what is rounded, what
is dropped.

Paper: section 2.1, "Response Annotation". Every response is rated by three annotators; two more are
recruited where the three disagree; the three most in agreement are kept; the label is their rounded
mean; a prompt stays only if both of its responses are agreed on. Every number of that sentence is a
parameter here, and what the paper leaves open is a named parameter with the reason for its default.

Axes: rows (responses), N annotators, A attributes. Missing ratings, and the padding of rows with
fewer than N annotators, are nan. Numpy only, so that the corpus and the statistics can import it
cheaply.
"""

from itertools import combinations

import numpy as np

from hs2lib.names import ATTRIBUTES, one_of


def _check(ratings: np.ndarray) -> np.ndarray:
    ratings = np.asarray(ratings, dtype=np.float64)  # [rows, N, A]
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


def _kept(ratings: np.ndarray, keep: np.ndarray | None) -> np.ndarray:
    """The ratings with nan in place of whoever is not kept; keep is [rows, N], or [rows, N, A] from by="each"."""
    if keep is None:
        return ratings
    keep = np.asarray(keep, dtype=bool)
    if keep.shape not in (ratings.shape[:2], ratings.shape):
        raise ValueError(
            f"keep must be {ratings.shape[:2]} or {ratings.shape} for these ratings, got {keep.shape}"
        )
    return np.where(keep if keep.ndim == 3 else keep[:, :, None], ratings, np.nan)


def spread(
    ratings: np.ndarray, attribute: int | str = 0, keep: np.ndarray | None = None
) -> np.ndarray:
    """Largest minus smallest rating of one attribute among the (kept) annotators of each row.

    Paper: section 2.1 ("the difference in helpfulness among them"). ratings [rows, N, A], nan where
    missing; attribute: name or column; keep: as keep_three returns it. Returns float64 [rows], in
    points of the scale; nan where nobody rated.
    """
    ratings = _check(ratings)
    column = _kept(ratings, keep)[:, :, _position(attribute, ratings.shape[2])]
    # fmin and fmax skip nan and, unlike nanmin, say nothing about rows that are all nan
    return np.fmax.reduce(column, axis=1, initial=np.nan) - np.fmin.reduce(
        column, axis=1, initial=np.nan
    )


def recruit(
    ratings: np.ndarray, first: int = 3, upto: int = 5, max_spread: float = 2
) -> np.ndarray:
    """The ratings of those who are asked: further annotators only where the first ones disagree on
    helpfulness.

    Paper: section 2.1 (three, then two additional annotators where helpfulness differs by more than
    2; 3.41 on average). ratings: simulated for all of N annotators, in the order in which they
    would be asked; helpfulness is the first attribute. Returns float64 [rows, min(N, upto), A], nan
    for who is not asked.
    """
    if not 1 <= first <= upto:
        raise ValueError(f"first must be from 1 to upto, got first {first} and upto {upto}")
    asked = _check(ratings)[:, :upto].copy()
    asked[~(spread(asked[:, :first]) > max_spread), first:] = np.nan
    return asked


def keep_three(ratings: np.ndarray, by: str | int = "helpfulness", n_keep: int = 3) -> np.ndarray:
    """The annotators kept: of each row, the n_keep whose ratings lie closest together.

    Paper: section 2.1 ("up to five annotators per sample but only retained annotations from the
    three most in agreement"). Paper silent on three points, so:
      by      what they must agree on. "helpfulness" (default, or another attribute's name or column), because the
              recruiting rule and the final filter look at helpfulness only; "all": every attribute, summed; "each":
              every attribute on its own, so that different annotators may be kept for different attributes.
      measure disagreement is the sum over pairs of the squared difference, the penalty of the quadratic weighted
              kappa that the paper reports.
      ties    first the smaller disagreement over all attributes, then the annotators asked earlier (for 1,1,3,5,5 on
              helpfulness alone both 1,1,3 and 3,5,5 qualify, and 1,1,3 wins unless the other attributes decide).

    ratings [rows, N, A], nan where missing. Someone who did not rate what agreement is judged by
    cannot be compared and is not kept; rows with at most n_keep others keep them all. Returns bool
    [rows, N], or [rows, N, A] for by="each".
    """
    ratings = _check(ratings)
    if by == "each":
        return np.stack([keep_three(ratings, a, n_keep) for a in range(ratings.shape[2])], axis=2)
    judged = slice(None) if by == "all" else [_position(by, ratings.shape[2])]
    rated = ~np.isnan(ratings[:, :, judged])  # [rows, N, judged]
    keep = (rated | ~rated.any(axis=1, keepdims=True)).all(axis=2) & rated.any(axis=2)  # [rows, N]
    crowded = keep.sum(axis=1) > n_keep  # [rows]
    if crowded.any():
        keep[crowded] = _closest(ratings[crowded], keep[crowded], judged, n_keep)
    return keep


def _closest(
    ratings: np.ndarray, able: np.ndarray, judged: slice | list[int], n_keep: int
) -> np.ndarray:
    """keep_three for rows that have more than n_keep able annotators."""
    pairs, subsets = (list(combinations(range(ratings.shape[1]), n)) for n in (2, n_keep))
    # A missing side counts as no gap.
    gaps = {
        (i, j): np.nan_to_num((ratings[:, i] - ratings[:, j]) ** 2) for i, j in pairs
    }  # each [rows, A]
    # Disagreement on what is judged, and on everything.
    within, overall = np.full((2, len(ratings), len(subsets)), np.inf)  # [rows, subsets] each
    for s, subset in enumerate(subsets):
        gap, whole = (
            sum(gaps[pair] for pair in combinations(subset, 2)),
            able[:, subset].all(axis=1),
        )
        within[whole, s], overall[whole, s] = (
            gap[whole][:, judged].sum(axis=1),
            gap[whole].sum(axis=1),
        )
    # Ratings are small integers and their sums exact; the tolerance is for labels on a continuous
    # scale.
    overall[within > within.min(axis=1, keepdims=True) + 1e-9] = np.inf
    tied = overall <= overall.min(axis=1, keepdims=True) + 1e-9  # [rows, subsets]
    closest = np.array(subsets)[
        tied.argmax(axis=1)
    ]  # [rows, n_keep]; the first of the tied in order of annotators
    return (closest[:, :, None] == np.arange(ratings.shape[1])).any(axis=1)


def aggregate(ratings: np.ndarray, keep: np.ndarray | None = None) -> np.ndarray:
    """The label of each row and attribute: the mean of the kept annotators, rounded to a point of
    the scale.

    Paper: section 2.1; of the released prompt "c#" helpfulness 3,3,4 becomes 3 and correctness
    3,4,4 becomes 4. Paper silent on halves, which three integers never make but two or four do:
    they go to the even number, as numpy and the reference code round. Returns float64 [rows, A];
    nan where nobody kept rated the attribute.
    """
    kept = _kept(_check(ratings), keep)  # [rows, N, A]
    with np.errstate(invalid="ignore"):  # 0 / 0 where nobody rated
        return np.rint(np.nansum(kept, axis=1) / (~np.isnan(kept)).sum(axis=1))


def released(
    ratings: np.ndarray, keep: np.ndarray | None, group_index: np.ndarray, max_spread: float = 2
) -> np.ndarray:
    """Rows that survive the final filter: kept annotators within max_spread, for every response of
    the prompt.

    Paper: section 2.1 ("only responses for which the differences in helpfulness attribute among
    annotators were 2 points or below ... for both responses to a common prompt"; about 10 %
    removed). Among five ratings from 0 to 4 the closest three are never more than 2 apart, so with
    keep from keep_three only rows with fewer than five annotators can fail at max_spread 2;
    keep=None filters on everybody asked. group_index int [rows]: equal for the responses of one
    prompt, in any order. A response nobody rated fails. Returns bool [rows]. Raises ValueError for
    shapes that do not fit.
    """
    group_index = np.asarray(group_index)
    if group_index.shape != (len(ratings),):
        raise ValueError(
            f"group_index must have one entry for each of {len(ratings)} rows, got {group_index.shape}"
        )
    agreed = spread(ratings, 0, keep) <= max_spread
    _, group = np.unique(group_index, return_inverse=True)
    return (np.bincount(group, weights=~agreed) == 0)[group] if len(group) else agreed
