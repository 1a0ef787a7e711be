"""The bootstrap by cluster, which makes every interval of `stats.describe` and `stats.agreement`.

Paper: silent (it prints no intervals). Means, standard deviations, Pearson's R, kappas, slopes and
shares are functions of sums over rows. The responses to one prompt are rated together and are not
independent, so whole prompts ("clusters") are drawn. Sums by cluster are taken once, and resample b
is `counts[b] @ sums`, where counts[b] says how often each cluster was drawn. No row is touched
again, so a million rows with a thousand resamples stay cheap.

The interval is Student's: estimate +- t x standard error, with t for clusters - 1 degrees of
freedom. The standard error is that of the resamples times the root of n / (n - 1), because n draws
vary by (n - 1) / n of the variance. For a mean that is the t interval by cluster. The interval of
what has ends (R, kappa, a share, an SD) is not symmetric near them: `inside` takes the step on a
scale without ends, Fisher's z for R.

Coverage was measured on ratings from 0 to 4 with many ties (at commit 9e31fe7f), in
samples of 8 to 100 prompts. Intervals of R and kappa hold the truth in 94 or 95 of 100 samples.
Those of means hold it in 92 at 8 prompts, then in 94; those of SDs in 90, then in 93. At 8 prompts
plain percentiles hold it in 85 and 86, and for SDs in 79.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

# Counts held at once, cells of [resamples, clusters]; 8 million float64 are 64 MB.
CHUNK_CELLS = 8_000_000

NO_SPREAD = 1e-12  # a variance below this share of the column's own is rounding, not spread

LEVEL = 0.95  # of every interval

DEFINED_SHARE = 0.95  # an interval needs a value in this share of the resamples

Statistic = Callable[[np.ndarray], np.ndarray]  # of sums [B, k]: values [B, m]

# Of sums [B, ..]: the number of rows, mean, variance and covariance of pairs of columns.
PairMoments = Callable[[np.ndarray], tuple[np.ndarray, ...]]


class Interval(NamedTuple):
    """An estimate and its interval: three arrays of one shape, nan where undefined.

    The arrays are 0-d for one number.
    """

    estimate: np.ndarray
    low: np.ndarray
    high: np.ndarray

    def at(self, *index: int | slice) -> "Interval":
        """Cut all three arrays alike: `pearson.at(0, 1)` is the interval of one correlation."""
        return Interval(*(np.asarray(part)[index] for part in self))


def resample_counts(n_clusters: int, n_boot: int, seed: int) -> Iterator[np.ndarray]:
    """Yield how often each cluster is drawn in each resample, n_boot rows in chunks.

    The rows depend on the seed and n_clusters only, so two calls with one seed look at the same
    resamples.

    Returns: chunks [b, n_clusters]. Every row sums to n_clusters (draws with equal chances).
    """
    rng = np.random.default_rng(seed)
    chunk = max(1, CHUNK_CELLS // n_clusters)
    for start in range(0, n_boot, chunk):
        n_rows = min(chunk, n_boot - start)
        drawn = rng.integers(0, n_clusters, size=(n_rows, n_clusters))
        drawn += n_clusters * np.arange(n_rows)[:, None]  # each row counts in cells of its own
        counts = np.bincount(drawn.ravel(), minlength=n_rows * n_clusters)
        yield counts.reshape(n_rows, n_clusters).astype(np.float64)


def bootstrap(
    contributions: np.ndarray,
    clusters: np.ndarray | None,
    statistic: Statistic,
    **options: int,
) -> Interval:
    """95 % interval, by cluster, of any statistic that is a function of sums over rows.

    Paper: silent (no intervals are printed). Checked against a plain loop that copies whole
    clusters, and for coverage on 300 simulated corpora.

    Args:
        contributions: [rows, k], what each row adds to the k sums.
        clusters: int [rows], the prompt of each row; None makes each row its own.
        statistic: maps sums [B, k] to values [B, m]. It is also called with B = 1, for the estimate
            itself. A paired comparison is a statistic that subtracts: see `difference`.
        **options: n_boot (1000) and seed (0), as in `from_sums`.
    Returns: arrays [m]. With a single cluster, or where under 95 % of the resamples have a value,
        low and high are nan.
    Raises: ValueError for no rows, shapes that do not fit, nan or infinite contributions.
    """
    contributions = np.asarray(contributions, dtype=np.float64)  # [rows, k]
    if contributions.ndim != 2:
        raise ValueError(f"contributions must be [rows, k], got shape {contributions.shape}")
    if not np.isfinite(contributions).all():
        raise ValueError(
            "contributions hold nan or infinity: a missing value adds 0 and is not counted"
        )
    index, n_clusters = cluster_index(clusters, len(contributions))
    return from_sums(sum_by(contributions.T, index, n_clusters), statistic, **options)


def difference(
    first: np.ndarray,
    second: np.ndarray,
    clusters: np.ndarray | None,
    statistic: Statistic,
    **options: int,
) -> Interval:
    """Interval of statistic(first) - statistic(second), both on the same resamples.

    Paper: silent. The interval is much narrower than that of two separate runs where the two sides
    rise and fall together.

    Args:
        first: contributions [rows, k].
        second: contributions [rows, k] of the same rows. A row that only one side uses adds 0 to
            the other.
        clusters, statistic, **options: as in `bootstrap`.
    Returns: arrays [m].
    Raises: as `bootstrap` does.
    """
    if np.shape(first) != np.shape(second) or np.ndim(first) != 2:
        raise ValueError(
            f"both sides must be [rows, k] of one shape, "
            f"got {np.shape(first)} and {np.shape(second)}"
        )
    k = np.shape(first)[1]
    side_by_side = np.concatenate([first, second], axis=1)  # [rows, 2 k]

    def gain(sums: np.ndarray) -> np.ndarray:
        return statistic(sums[:, :k]) - statistic(sums[:, k:])

    return bootstrap(side_by_side, clusters, gain, **options)


def cluster_index(clusters: np.ndarray | None, n_rows: int) -> tuple[np.ndarray, int]:
    """Clusters numbered 0..C-1 in sorted order, and C. None: each row is its own."""
    clusters = np.arange(n_rows) if clusters is None else np.asarray(clusters)
    if n_rows == 0:
        raise ValueError("no rows: a statistic of an empty table is undefined")
    if clusters.shape != (n_rows,):
        raise ValueError(
            f"clusters must be [{n_rows}], one for each row, got shape {clusters.shape}"
        )
    labels, index = np.unique(clusters, return_inverse=True)
    return index, len(labels)


def sum_by(columns: Iterable[np.ndarray], index: np.ndarray, n_clusters: int) -> np.ndarray:
    """[C, k] sums by cluster of columns, which come one at a time to save memory."""
    return np.stack(
        [np.bincount(index, weights=column, minlength=n_clusters) for column in columns], axis=1
    )


def from_sums(
    sums: np.ndarray, statistic: Statistic, n_boot: int = 1000, seed: int = 0
) -> Interval:
    """Estimate and interval of a statistic from sums by cluster [C, k]."""
    with np.errstate(invalid="ignore", divide="ignore"):
        estimate = np.asarray(statistic(sums.sum(axis=0)[None]))[0]  # [m]
        draws = (statistic(counts @ sums) for counts in resample_counts(len(sums), n_boot, seed))
        return student(estimate, draws, len(sums), n_boot)


def student(
    estimate: np.ndarray, draws: Iterable[np.ndarray], n_clusters: int, n_boot: int
) -> Interval:
    """95 % interval around an estimate [m] from its resampled values, which come as [b, m].

    The bounds are nan where too few resamples have a value.
    """
    if n_clusters < 2 or n_boot < 2:  # a single prompt says nothing about how prompts vary
        return Interval(estimate, np.full_like(estimate, np.nan), np.full_like(estimate, np.nan))
    values = np.ma.masked_invalid(np.concatenate(list(draws)))  # [n_boot, m]
    error = values.std(axis=0).filled(np.nan) * np.sqrt(n_clusters / (n_clusters - 1))  # [m]
    half = stats.t.isf((1 - LEVEL) / 2, n_clusters - 1) * error  # [m]
    half = np.where(values.count(axis=0) >= DEFINED_SHARE * n_boot, half, np.nan)
    return Interval(estimate, estimate - half, estimate + half)


def inside(
    interval: Interval, low: ArrayLike, high: ArrayLike, n: ArrayLike | None = None
) -> Interval:
    """The interval of what lies between low and high, taken on log((x - low) / (high - x)).

    Paper: silent. That scale is Fisher's z for a correlation (-1 to 1), the logit for a share (0 to
    1) and the logarithm for an SD (0 to infinity); -infinity to infinity changes nothing. The
    standard error is carried over by the slope of the scale at the estimate. By hand: a share of .5
    +- .25 becomes .27 to .73; if all of 8 are right, .63 to 1.

    Args:
        interval: symmetric around its estimate, as `bootstrap` returns it.
        low: the least possible value.
        high: the largest possible value.
        n: the number of clusters behind the estimate. A share at its end varies in no resample:
            with n, its other bound is that of Clopper and Pearson, .025 ^ (1 / n).
    """
    x = np.asarray(interval.estimate)
    low = np.asarray(low)
    high = np.asarray(high)
    half = np.asarray(interval.high - interval.estimate)
    flat = np.isclose(half, 0)
    with np.errstate(invalid="ignore", divide="ignore"):
        step = np.minimum(half * (1 / (x - low) + 1 / (high - x)), 500)  # exp(710) is infinite
        share = (x - low) / (high - low)
        lower = low + (x - low) * np.exp(-step) / (1 + np.expm1(-step) * share)
        upper = low + (x - low) * np.exp(step) / (1 + np.expm1(step) * share)
    bent = (step > 0) & (x < high) & ~flat
    lower = np.where(bent, lower, interval.low)
    upper = np.where(bent, upper, interval.high)
    if n is not None:
        with np.errstate(invalid="ignore"):  # a scale without ends has no room
            room = (high - low) * (1 - ((1 - LEVEL) / 2) ** (1 / np.asarray(n)))
            lower = np.where(flat & np.isclose(x, high), high - room, lower)
            upper = np.where(flat & np.isclose(x, low), low + room, upper)
    return Interval(interval.estimate, lower[()], upper[()])  # [()] makes a 0-d array a number


def pair_sums(
    X: np.ndarray, clusters: np.ndarray | None
) -> tuple[np.ndarray, PairMoments, np.ndarray, np.ndarray]:
    """Sums by cluster behind every pairwise moment of the columns, and how to read them.

    The columns are standardised first: sums of squares of numbers near 1,000 would lose digits.

    Args:
        X: [rows, k], nan where missing.
        clusters: int [rows], the prompt of each row; None makes each row its own.
    Returns: sums [C, 4 k k]; a function of resampled sums [B, 4 k k]; centre [k]; scale [k]. The
        function looks at the rows where columns i and j are both present. It returns their number,
        the mean of i, the variance of i, and the covariance, [B, k, k] each.
    """
    index, n_clusters = cluster_index(clusters, len(X))
    present = ~np.isnan(X)  # [rows, k]
    n_present = np.maximum(present.sum(axis=0), 1)  # [k]
    centre = np.where(present, X, 0.0).sum(axis=0) / n_present  # [k]
    scale = np.sqrt((np.where(present, X - centre, 0.0) ** 2).sum(axis=0) / n_present)  # [k]
    # Below this, what is left of a constant column is rounding.
    varies = scale > NO_SPREAD * np.abs(centre)
    scale = np.where(varies, scale, 1.0)
    Z = np.where(present & varies, X - centre, 0.0) / scale  # [rows, k]
    k = X.shape[1]

    def products() -> Iterator[np.ndarray]:
        """Every product of a left and a right column, [rows], one at a time."""
        for left, right in ((present, present), (Z, present), (Z**2, present), (Z, Z)):
            for i in range(k):
                yield from (left[:, [i]] * right).T

    def moments(sums: np.ndarray) -> tuple[np.ndarray, ...]:
        number, total, squares, cross = np.moveaxis(sums.reshape(-1, 4, k, k), 1, 0)  # [B, k, k]
        mean = total / number
        variance = squares / number - mean**2
        covariance = cross / number - mean * np.swapaxes(mean, 1, 2)
        return number, mean, variance, covariance

    return sum_by(products(), index, n_clusters), moments, centre, scale
