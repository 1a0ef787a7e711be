"""Agreement between annotators: quadratic weighted kappa, Krippendorff's alpha, Gwet's AC2.

Paper: section 2.1 and Table 1. Ratings come as [rows, N] with nan where a slot is empty. The
released files carry no annotator ids, so a column is a slot (first rating listed, second, ...), not
a person. Every coefficient here is a function of sums over rows of a small matrix, so each gets its
interval from the bootstrap by prompt.

Notation, for q levels of an ordinal scale:
    o[c, k]: the observed share of pairs of ratings (c, k) of the same row.
    e[c, k]: the share expected if ratings were paired at random.
    w[c, k]: the penalty, (c - k)^2.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np

from hs2lib.names import one_of
from hs2lib.stats.bootstrap import Interval, Statistic, bootstrap, difference, inside

SCALE = (0, 1, 2, 3, 4)  # of HelpSteer2

PENALTIES = {"quadratic": 2, "linear": 1}  # -> the power of the distance on the scale


def weighted_kappa(
    ratings: np.ndarray,
    levels: Sequence[float] = SCALE,
    *,
    pool: str = "pairs",
    symmetrise: bool = True,
    penalty: str = "quadratic",
    clusters: np.ndarray | None = None,
    **options: int,
) -> Interval:
    """Cohen's kappa with quadratic penalties, 1 - sum w o / sum w e, pooled over rater slots.

    Paper: section 2.1, Table 1 (Cohen 1960, 1968). The paper does not say how raters without ids
    are paired. Our default takes every pair of slots of every row, in both orders. Checked against
    scikit-learn and by hand.

    Args:
        ratings: [rows, N], nan where a slot is empty.
        levels: the scale's values, rising and evenly spaced.
        pool: "pairs": every pair weighs the same (a row of five has ten pairs, a row of three has
            three). "rows": every row weighs the same. "slots": the mean of the kappas of the pairs
            of slots, each with its own margins.
        symmetrise: count a pair in both orders, which is right for slots without identity. Both
            margins of e are then the distribution of all paired ratings, and kappa is the weighted
            form of Scott's pi. Without it a pair counts as (earlier slot, later slot). For two
            slots that is Cohen's kappa of two named raters, equal to
            sklearn.metrics.cohen_kappa_score(weights="quadratic"), never below the symmetrised one.
        penalty: "quadratic" or "linear".
        clusters: int [rows], the prompt of each row; None makes each row its own.
        **options: n_boot and seed, as in `bootstrap`.
    Returns: 0-d arrays; nan where all paired ratings are one level (no disagreement to expect).
    Raises: ValueError if no row has two ratings, a rating is no level, levels are not evenly
        spaced, or a name is unknown.
    """
    contributions, kappa = _kappa_parts(ratings, levels, pool, symmetrise, penalty)
    return _coefficient(contributions, clusters, kappa, options)


def kappa_difference(
    first: np.ndarray,
    second: np.ndarray,
    levels: Sequence[float] = SCALE,
    *,
    clusters: np.ndarray | None = None,
    **options: int,
) -> Interval:
    """kappa(first) - kappa(second), both on the same resamples: what a filter gains.

    Paper: section 2.1 (what the filters of the annotation gained, Table 1), there without
    intervals. Every pair of ratings weighs the same.

    Args:
        first: [rows, N], nan where the filter takes a rating (or a whole row) out.
        second: [rows, N], the same rows under another filter.
        levels, clusters, **options: as in `weighted_kappa`.
    Returns: 0-d arrays.
    Raises: as `weighted_kappa` does.
    """
    of_first, kappa = _kappa_parts(first, levels, "pairs")
    of_second, _ = _kappa_parts(second, levels, "pairs")
    return difference(of_first, of_second, clusters, kappa, **options).at(0)


def krippendorff_alpha(
    ratings: np.ndarray,
    levels: Sequence[float] = SCALE,
    *,
    metric: str = "ordinal",
    clusters: np.ndarray | None = None,
    **options: int,
) -> Interval:
    """Krippendorff's alpha = 1 - D_o / D_e for any number of raters and missing ratings.

    Paper: section 2.1 names it and prefers kappa. Source: Krippendorff, Content Analysis (2004),
    chapter 11. A row of m >= 2 ratings adds each ordered pair with weight 1 / (m - 1) to the
    coincidences o[c, k]. With n[c] their margin and n their sum,

        alpha = 1 - (n - 1) sum o d / sum n[c] n[k] d.

    Checked against the book's worked example.

    Args:
        ratings: [rows, N], nan where a slot is empty.
        metric: the distance d[c, k]. "ordinal": (n[c] / 2 + n[c+1] + ... + n[k] / 2)^2.
            "interval": (c - k)^2.
        levels, clusters, **options: as in `weighted_kappa`.
    Returns: 0-d arrays.
    Raises: as `weighted_kappa` does.
    """
    one_of("metric", metric, ("ordinal", "interval"))
    counts = _one_hot(ratings, levels).sum(axis=1)  # [rows, q]
    n_rows, q = counts.shape
    m = counts.sum(axis=1)  # [rows]
    # Ordered pairs of a row's ratings; a rating is not paired with itself.
    pairs = counts[:, :, None] * counts[:, None, :] - counts[:, :, None] * np.eye(q)  # [rows, q, q]
    pairs /= np.where(m > 1, m - 1, np.inf)[:, None, None]

    def alpha(sums: np.ndarray) -> np.ndarray:
        o = sums.reshape(-1, q, q)  # [B, q, q]
        margin = o.sum(axis=2)  # [B, q]
        n = margin.sum(axis=1)  # [B]
        rank = np.cumsum(margin, axis=1) - margin / 2  # [B, q], the midrank of each level
        if metric == "interval":
            rank = np.arange(q)[None]  # [1, q]
        d = (rank[:, :, None] - rank[:, None, :]) ** 2  # [B or 1, q, q]
        expected = (margin[:, :, None] * margin[:, None, :] * d).sum(axis=(1, 2))  # [B]
        return (1 - (n - 1) * (o * d).sum(axis=(1, 2)) / expected)[:, None]

    return _coefficient(pairs.reshape(n_rows, q * q), clusters, alpha, options)


def gwet_ac2(
    ratings: np.ndarray,
    levels: Sequence[float] = SCALE,
    *,
    clusters: np.ndarray | None = None,
    **options: int,
) -> Interval:
    """Gwet's AC2 with quadratic weights, (p_a - p_e) / (1 - p_e), for any number of raters.

    Paper: silent. Source: Gwet, Handbook of Inter-Rater Reliability (2014), chapter 5. AC2 stays
    high where nearly all ratings are one level and kappa collapses (coherence): the two answer
    different questions. Checked by hand. In the formula
        v[c, k] = 1 - (c - k)^2 / (q - 1)^2 are the weights,
        p_a is the weighted share of agreeing pairs, the mean over rows with two ratings or more,
        pi[c] is the share of level c, the mean over rows,
        p_e = sum v / (q (q - 1)) * sum pi (1 - pi).

    Args:
        ratings: [rows, N], nan where a slot is empty.
        levels, clusters, **options: as in `weighted_kappa`.
    Returns: 0-d arrays.
    Raises: as `weighted_kappa` does.
    """
    counts = _one_hot(ratings, levels).sum(axis=1)  # [rows, q]
    q = counts.shape[1]
    m = counts.sum(axis=1)  # [rows]
    v = 1 - _penalties("quadratic", q) / (q - 1) ** 2  # [q, q]
    agreeing = (counts * (counts @ v - 1)).sum(axis=1) / np.maximum(m * (m - 1), 1)  # [rows]
    agreeing = np.where(m > 1, agreeing, 0.0)
    share = counts / np.maximum(m, 1)[:, None]  # [rows, q]
    contributions = np.column_stack([agreeing, m > 1, share, m > 0])  # [rows, q + 3]

    def ac2(sums: np.ndarray) -> np.ndarray:
        p_a = sums[:, 0] / sums[:, 1]  # [B]
        pi = sums[:, 2:-1] / sums[:, -1:]  # [B, q]
        p_e = v.sum() / (q * (q - 1)) * (pi * (1 - pi)).sum(axis=1)  # [B]
        return ((p_a - p_e) / (1 - p_e))[:, None]

    return _coefficient(contributions, clusters, ac2, options)


def mean_reliability(kappa: float | np.ndarray, n: int | np.ndarray) -> np.ndarray:
    """Reliability of the mean of n ratings that agree by kappa: n kappa / (1 + (n - 1) kappa).

    Paper: silent. Source: Spearman (1910), Brown (1910). The quadratic weighted kappa takes the
    place of the intraclass correlation, which it approaches as rows grow (Fleiss and Cohen 1973).
    """
    return n * kappa / (1 + (n - 1) * np.asarray(kappa))


def _check_two(numbers: np.ndarray) -> None:
    """Raise ValueError where no row has two ratings, of the number that each has."""
    if not (numbers > 1).any():
        raise ValueError(
            f"no row has ratings by two annotators ({len(numbers)} rows): agreement is undefined"
        )


def rated_twice(ratings: np.ndarray) -> np.ndarray:
    """Which attributes have two ratings of the same response somewhere.

    Paper: silent.

    Args:
        ratings: [rows, N, A], nan where missing.
    Returns: bool [A].
    Raises: ValueError where there is none: then no agreement between annotators can be computed.
    """
    twice = ((~np.isnan(ratings)).sum(axis=1) > 1).any(axis=0)  # [A]
    if not twice.any():
        raise ValueError(
            f"none of {len(ratings)} responses has two ratings of one attribute: "
            "agreement needs two annotators, named in a column annotator"
        )
    return twice


def _coefficient(
    contributions: np.ndarray,
    clusters: np.ndarray | None,
    statistic: Statistic,
    options: dict[str, int],
) -> Interval:
    """A coefficient between -1 and 1 with its interval, as 0-d arrays."""
    interval = bootstrap(contributions, clusters, statistic, **options).at(0)
    return inside(interval, -1, 1)


def _kappa_parts(
    ratings: np.ndarray,
    levels: Sequence[float],
    pool: str,
    symmetrise: bool = True,
    penalty: str = "quadratic",
) -> tuple[np.ndarray, Statistic]:
    """What each row adds to the table(s) of pairs, and kappa as a function of the sums."""
    one_of("pool", pool, ("pairs", "rows", "slots"))
    chosen = _one_hot(ratings, levels)  # [rows, N, q]
    n_rows, _, q = chosen.shape
    w = _penalties(penalty, q)  # [q, q]
    tables = _pair_tables(chosen, symmetrise)
    if pool == "slots":
        # Two slots that no row fills both of have no kappa.
        filled = [table for table in tables if table.any()]
        contributions = np.stack(filled, axis=1)  # [rows, tables, q, q]
    else:
        contributions = sum(tables)  # [rows, q, q]
    if pool == "rows":
        contributions /= np.maximum(contributions.sum(axis=(1, 2), keepdims=True), 1)

    def kappa(sums: np.ndarray) -> np.ndarray:
        observed = sums.reshape(len(sums), -1, q, q)  # [B, tables, q, q]
        observed = observed / observed.sum(axis=(2, 3), keepdims=True)
        expected = observed.sum(axis=3)[..., :, None] * observed.sum(axis=2)[..., None, :]
        of_table = 1 - (w * observed).sum(axis=(2, 3)) / (w * expected).sum(axis=(2, 3))
        return of_table.mean(axis=1, keepdims=True)  # [B, tables] -> [B, 1]

    return contributions.reshape(n_rows, -1), kappa


def _pair_tables(chosen: np.ndarray, symmetrise: bool) -> Iterator[np.ndarray]:
    """For each pair of slots, the table [rows, q, q] of the levels that a row's two ratings have.

    chosen: [rows, N, q] of `_one_hot`. symmetrise counts each pair half in either order.
    """
    for i, j in combinations(range(chosen.shape[1]), 2):
        table = chosen[:, i, :, None] * chosen[:, j, None, :]
        if symmetrise:
            table = (table + table.swapaxes(1, 2)) / 2
        yield table


def _penalties(penalty: str, q: int) -> np.ndarray:
    """The penalty [q, q] of each pair of levels: their distance, squared where quadratic."""
    one_of("penalty", penalty, PENALTIES)
    distance = np.abs(np.subtract.outer(np.arange(q), np.arange(q))).astype(np.float64)
    return distance ** PENALTIES[penalty]


def _one_hot(ratings: np.ndarray, levels: Sequence[float]) -> np.ndarray:
    """[rows, N, q]: 1 at the level that an annotator chose, 0 elsewhere and in an empty slot."""
    ratings = np.asarray(ratings, dtype=np.float64)
    levels = np.asarray(levels, dtype=np.float64)
    if ratings.ndim != 2:
        raise ValueError(f"ratings must be [rows, N] for one attribute, got shape {ratings.shape}")
    steps = np.diff(levels)
    if len(levels) < 2 or (steps <= 0).any() or not np.allclose(steps, steps[0]):
        # Penalties count the levels between two ratings. That is a distance only on an even scale.
        raise ValueError(
            f"levels must be two or more, rising and evenly spaced, got {levels.tolist()}"
        )
    present = ~np.isnan(ratings)  # [rows, N]
    _check_two(present.sum(axis=1))
    chosen = ratings[:, :, None] == levels  # [rows, N, q]
    wrong = present & ~chosen.any(axis=2)  # [rows, N]
    if wrong.any():
        row, slot = np.argwhere(wrong)[0]
        raise ValueError(
            f"row {row}, slot {slot}: {ratings[row, slot]:g} is not one of {levels.tolist()}"
        )
    return chosen.astype(np.float64)
