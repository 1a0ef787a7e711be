"""Agreement between annotators: quadratic weighted kappa, Krippendorff's alpha, Gwet's AC2.

Paper: section 2.1 and Table 1. Ratings come as [rows, N] with nan where a slot is empty: the
released files carry no annotator ids, so a column is a slot (first rating listed, second, ...), not
a person. Every coefficient here is a function of sums over rows of a small matrix, so each gets its
interval from the bootstrap by prompt.

Notation, q levels of an ordinal scale: o[c, k] the observed share of pairs of ratings (c, k) of the
same row, e[c, k] the share expected if ratings were paired at random, w[c, k] = (c - k)^2 the
penalty.
"""

from collections.abc import Sequence
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
    **options,
) -> Interval:
    """Cohen's kappa with quadratic penalties, kappa = 1 - sum w o / sum w e, pooled over rater
    slots.

    Paper: section 2.1, Table 1 (Cohen 1960, 1968). Paper silent on how raters without ids are
    paired; our default takes every pair of slots of every row, in both orders. ratings: [rows, N],
    nan = empty slot; levels: the scale's values, rising and evenly spaced. pool: "pairs" every pair
    weighs the same (a row of five has ten pairs, a row of three has three); "rows" every row weighs
    the same; "slots" the mean of the kappas of the pairs of slots, each with its margins.
    symmetrise: count a pair in both orders, which is right for slots without identity: both margins
    of e are then the distribution of all paired ratings, and kappa is the weighted form of Scott's
    pi. Without it a pair counts as (earlier slot, later slot); for two slots that is Cohen's kappa
    of two named raters, equal to sklearn.metrics.cohen_kappa_score(weights="quadratic") and never
    below the symmetrised one. penalty: "quadratic" or "linear". options: clusters, int [rows], the
    prompt of each row (each row its own where they are left out); n_boot and seed as in
    `bootstrap`. Returns 0-d arrays. nan where all paired ratings are one level (no disagreement to
    expect). Raises ValueError if no row has two ratings, a rating is no level, levels are not
    evenly spaced, or a name is unknown. Checked against scikit-learn and by hand.
    """
    contributions, kappa = _kappa_parts(ratings, levels, pool, symmetrise, penalty)
    return inside(
        bootstrap(contributions, options.pop("clusters", None), kappa, **options).at(0), -1, 1
    )


def kappa_difference(
    first: np.ndarray, second: np.ndarray, levels: Sequence[float] = SCALE, **options
) -> Interval:
    """kappa(first) - kappa(second), both on the same resamples: what a filter gains.

    Paper: section 2.1 (what the filters of the annotation gained, Table 1), there without
    intervals. first, second: [rows, N], the same rows under two filters, what a filter takes out
    nan (a whole row, too). Other arguments, returns and errors as in `weighted_kappa`; every pair
    of ratings weighs the same.
    """
    (one, kappa), (other, _) = (_kappa_parts(r, levels, "pairs") for r in (first, second))
    return difference(one, other, options.pop("clusters", None), kappa, **options).at(0)


def krippendorff_alpha(
    ratings: np.ndarray, levels: Sequence[float] = SCALE, *, metric: str = "ordinal", **options
) -> Interval:
    """Krippendorff's alpha = 1 - D_o / D_e for any number of raters and missing ratings.

    Paper: section 2.1 names it and prefers kappa. Source: Krippendorff, Content Analysis (2004),
    chapter 11. A row of m >= 2 ratings adds each ordered pair with weight 1 / (m - 1) to the
    coincidences o[c, k]; with n[c] their margin and n their sum, alpha = 1 - (n - 1) sum o d / sum
    n[c] n[k] d, where d[c, k] is (n[c] / 2 + n[c+1] + ... + n[k] / 2)^2 ("ordinal") or (c - k)^2
    ("interval"). Arguments, returns and errors as in `weighted_kappa`. Checked against the book's
    worked example.
    """
    one_of("metric", metric, ("ordinal", "interval"))
    counts = _chosen(ratings, levels).sum(axis=1)  # [rows, q]
    (rows, q), m = counts.shape, counts.sum(axis=1)
    pairs = counts[:, :, None] * counts[:, None, :] - counts[:, :, None] * np.eye(q)  # [rows, q, q]
    pairs /= np.where(m > 1, m - 1, np.inf)[:, None, None]

    def alpha(sums):
        o = sums.reshape(-1, q, q)  # [B, q, q]
        margin = o.sum(axis=2)  # [B, q]
        n = margin.sum(axis=1)  # [B]
        rank = (
            np.cumsum(margin, axis=1) - margin / 2 if metric == "ordinal" else np.arange(q)[None]
        )  # [B or 1, q]
        d = (rank[:, :, None] - rank[:, None, :]) ** 2  # [B or 1, q, q]
        expected = (margin[:, :, None] * margin[:, None, :] * d).sum(axis=(1, 2))  # [B]
        return (1 - (n - 1) * (o * d).sum(axis=(1, 2)) / expected)[:, None]

    return inside(
        bootstrap(pairs.reshape(rows, q * q), options.pop("clusters", None), alpha, **options).at(
            0
        ),
        -1,
        1,
    )


def gwet_ac2(ratings: np.ndarray, levels: Sequence[float] = SCALE, **options) -> Interval:
    """Gwet's AC2 with quadratic weights, (p_a - p_e) / (1 - p_e), for any number of raters.

    Paper: silent. Source: Gwet, Handbook of Inter-Rater Reliability (2014), chapter 5. Weights v[c,
    k] = 1 - (c - k)^2 / (q - 1)^2; p_a is the mean, over rows with two ratings or more, of the
    weighted share of agreeing pairs; pi[c] the mean over rows of the share of level c; p_e = sum v
    / (q (q - 1)) * sum pi (1 - pi). It stays high where nearly all ratings are one level and kappa
    collapses (coherence): the two answer different questions. Arguments, returns and errors as in
    `weighted_kappa`. Checked by hand.
    """
    counts = _chosen(ratings, levels).sum(axis=1)  # [rows, q]
    q, m = counts.shape[1], counts.sum(axis=1)
    v = 1 - _penalties("quadratic", q) / (q - 1) ** 2  # [q, q]
    agreeing = (counts * (counts @ v - 1)).sum(axis=1) / np.maximum(m * (m - 1), 1)  # [rows]
    share = counts / np.maximum(m, 1)[:, None]  # [rows, q]
    contributions = np.column_stack(
        [np.where(m > 1, agreeing, 0.0), m > 1, share, m > 0]
    )  # [rows, q + 3]

    def ac2(sums):
        p_a = sums[:, 0] / sums[:, 1]
        pi = sums[:, 2:-1] / sums[:, -1:]  # [B, q]
        p_e = v.sum() / (q * (q - 1)) * (pi * (1 - pi)).sum(axis=1)
        return ((p_a - p_e) / (1 - p_e))[:, None]

    return inside(
        bootstrap(contributions, options.pop("clusters", None), ac2, **options).at(0), -1, 1
    )


def mean_reliability(kappa: float | np.ndarray, n: int | np.ndarray) -> np.ndarray:
    """Reliability of the mean of n ratings when single ratings agree by kappa: n kappa / (1 + (n -
    1) kappa).

    Paper: silent. Source: Spearman (1910), Brown (1910); the quadratic weighted kappa takes the
    place of the intraclass correlation, which it approaches as rows grow (Fleiss and Cohen 1973).
    """
    return n * kappa / (1 + (n - 1) * np.asarray(kappa))


def _kappa_parts(
    ratings: np.ndarray,
    levels: Sequence[float],
    pool: str,
    symmetrise: bool = True,
    penalty: str = "quadratic",
) -> tuple[np.ndarray, Statistic]:
    """What each row adds to the table(s) of pairs, and kappa as a function of the sums."""
    one_of("pool", pool, ("pairs", "rows", "slots"))
    chosen = _chosen(ratings, levels)  # [rows, N, q]
    rows, n_annotators, q = chosen.shape
    w = _penalties(penalty, q)  # [q, q]
    tables = (
        chosen[:, i, :, None] * chosen[:, j, None, :]
        for i, j in combinations(range(n_annotators), 2)
    )
    tables = (
        (table + table.swapaxes(1, 2)) / 2 if symmetrise else table for table in tables
    )  # each [rows, q, q]
    contributions = (
        np.stack([table for table in tables if table.any()], axis=1)
        if pool == "slots"
        else sum(tables)
    )
    if pool == "rows":
        contributions /= np.maximum(contributions.sum(axis=(1, 2), keepdims=True), 1)

    def kappa(sums):
        observed = sums.reshape(len(sums), -1, q, q)  # [B, tables, q, q]
        observed = observed / observed.sum(axis=(2, 3), keepdims=True)
        expected = observed.sum(axis=3)[..., :, None] * observed.sum(axis=2)[..., None, :]
        each = 1 - (w * observed).sum(axis=(2, 3)) / (w * expected).sum(axis=(2, 3))  # [B, tables]
        return each.mean(axis=1, keepdims=True)

    return contributions.reshape(rows, -1), kappa


def rated_twice(ratings: np.ndarray) -> np.ndarray:
    """Which attributes some response has two ratings of: bool [A]. Paper: silent. ratings: [rows,
    N, A], nan = missing.

    Raises ValueError where there is none: then nobody's agreement with anybody can be computed.
    """
    twice = ((~np.isnan(ratings)).sum(axis=1) > 1).any(axis=0)  # [A]
    if not twice.any():
        what = f"none of {len(ratings)} responses has two ratings of one attribute"
        raise ValueError(f"{what}: agreement needs two annotators, named in a column annotator")
    return twice


def _penalties(penalty: str, q: int) -> np.ndarray:
    one_of("penalty", penalty, PENALTIES)
    return (
        np.abs(np.subtract.outer(np.arange(q), np.arange(q))).astype(np.float64)
        ** PENALTIES[penalty]
    )


def _chosen(ratings: np.ndarray, levels: Sequence[float]) -> np.ndarray:
    """[rows, N, q]: 1 at the level that an annotator chose, 0 elsewhere and where a slot is empty."""
    ratings = np.asarray(ratings, dtype=np.float64)
    levels = np.asarray(levels, dtype=np.float64)
    if ratings.ndim != 2:
        raise ValueError(f"ratings must be [rows, N] for one attribute, got shape {ratings.shape}")
    steps = np.diff(levels)
    if len(levels) < 2 or (steps <= 0).any() or not np.allclose(steps, steps[0]):
        # Penalties go by the number of levels between two ratings, which is their distance on such
        # a scale alone.
        raise ValueError(
            f"levels must be two or more, rising and evenly spaced, got {levels.tolist()}"
        )
    present = ~np.isnan(ratings)  # [rows, N]
    if not (present.sum(axis=1) > 1).any():
        raise ValueError(
            f"no row has ratings by two annotators ({len(ratings)} rows): agreement is undefined"
        )
    chosen = ratings[:, :, None] == levels
    wrong = present & ~chosen.any(axis=2)
    if wrong.any():
        row, slot = np.argwhere(wrong)[0]
        raise ValueError(
            f"row {row}, slot {slot}: {ratings[row, slot]:g} is not one of {levels.tolist()}"
        )
    return chosen.astype(np.float64)
