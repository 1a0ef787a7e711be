"""Statistics of a rated data set: arrays in, numbers with 95 % intervals out.

Paper: section 2.2 and Table 2. The paper prints no intervals, so every interval is ours;
`hs2lib.stats.bootstrap` makes them. Missing values are nan, left out pairwise: a mean uses the rows
where its column is present, a correlation those where both of its columns are. Agreement between
annotators is in `hs2lib.stats.agreement`.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from hs2lib.stats import bootstrap
from hs2lib.stats.bootstrap import NO_SPREAD, Interval, inside


class Moments(NamedTuple):
    """Means [k], SDs [k], Pearson correlations [k, k], and the rows behind each, int [k, k]."""

    mean: Interval
    sd: Interval
    pearson: Interval
    rows: np.ndarray


def moments(X: np.ndarray, clusters: np.ndarray, **options: int) -> Moments:
    """Means, standard deviations and Pearson's R of every pair of columns, each with its interval.

    Paper: section 2.2, Table 2. The SD is the sample's, over n - 1, as pandas gives it. The paper
    does not say which; at 21,362 rows n and n - 1 differ by 1 part in 43,000 of an SD, .00003 on
    helpfulness, below the printed digits. Checked against pandas and pingouin.

    Args:
        X: [rows, k], nan where missing.
        clusters: int [rows], the prompt of each row.
        **options: n_boot and seed, as in `bootstrap.bootstrap`.
    Returns: nan for the mean of an empty column, the SD of fewer than two values and R with a
        constant column.
    Raises: ValueError for no rows, shapes that do not fit or an infinite value.
    """
    X = _check_columns(X)
    k = X.shape[1]
    sums, moments_of, centre, scale = bootstrap.pair_sums(X, clusters)

    def statistic(total: np.ndarray) -> np.ndarray:
        number, mean, variance, covariance = moments_of(total)

        defined = np.where(variance > NO_SPREAD, variance, np.nan)  # [B, k, k]
        product = defined * np.swapaxes(defined, 1, 2)
        pearson = np.clip(covariance / np.sqrt(product), -1, 1)  # [B, k, k]
        number = _diagonal(number)
        mean = _diagonal(mean)
        variance = _diagonal(variance)
        sd = np.sqrt(np.maximum(variance, 0) * number / np.where(number > 1, number - 1, np.nan))
        sd = np.where(variance > NO_SPREAD, sd, 0 * sd)  # a constant column has SD 0 exactly
        return np.concatenate(
            [mean * scale + centre, sd * scale, pearson.reshape(-1, k * k)], axis=1
        )

    parts = bootstrap.from_sums(sums, statistic, **options)
    pearson = Interval(*(part[2 * k :].reshape(k, k) for part in parts))
    present = ~np.isnan(X)  # [rows, k]
    return Moments(
        mean=parts.at(slice(0, k)),
        sd=inside(parts.at(slice(k, 2 * k)), 0, np.inf),
        pearson=inside(pearson, -1, 1),
        rows=present.T.astype(np.int64) @ present,
    )


def table_2(
    X: np.ndarray,
    names: Sequence[str],
    clusters: np.ndarray,
    *,
    suffix: str = "HS2",
    **options: int,
) -> pd.DataFrame:
    """Table 2 in long form: mean, SD and R with the first column, for each column of X.

    Paper: section 2.2, Table 2. R of the first row is 1.

    Args:
        X: [rows, k], helpfulness first, nan where missing.
        names: [k], the table's row names.
        clusters: int [rows], the prompt of each row.
        suffix: the data set's short name in the table's columns.
        **options: as in `moments`.
    Returns: a frame with columns row, column, ours, low, high, ready for `Run.against_paper`.
    Raises: ValueError as `moments` does, and where names and columns are not as many.
    """
    X = _check_columns(X)
    if len(names) != X.shape[1]:
        raise ValueError(
            f"{len(names)} names {list(names)} for {X.shape[1]} columns: name each column once"
        )
    of_columns = moments(X, clusters, **options)
    statistics = {"mean": of_columns.mean, "SD": of_columns.sd, "R": of_columns.pearson.at(0)}
    rows = []
    for i, name in enumerate(names):
        for title, interval in statistics.items():
            rows.append((name, f"{title} {suffix}", *map(float, interval.at(i))))
    return pd.DataFrame(rows, columns=["row", "column", "ours", "low", "high"])


def spearman(X: np.ndarray, clusters: np.ndarray, *, n_boot: int = 1000, seed: int = 0) -> Interval:
    """Spearman's rank correlation of every pair of columns: Pearson's R of the midranks.

    Paper: silent (Table 2 uses Pearson's R). Ranks are no function of sums, so pandas takes them
    anew in every resample. Holding them fixed would leave out the variation of the ranks
    themselves. Time grows with rows x columns x n_boot.

    Args:
        X: [rows, k], nan where missing. A pair is ranked over the rows where both are present.
        clusters: int [rows], the prompt of each row.
        n_boot: how many resamples.
        seed: of the resamples.
    Returns: arrays [k, k], nan with a constant column.
    Raises: ValueError as `moments` does.
    """
    X = _check_columns(X)
    index, n_clusters = bootstrap.cluster_index(clusters, len(X))

    def correlations(count: np.ndarray) -> np.ndarray:
        """[1, k k], where cluster c is drawn count[c] times."""
        rows = np.repeat(X, count[index].astype(int), axis=0)
        return pd.DataFrame(rows).corr("spearman").to_numpy().reshape(1, -1)

    chunks = bootstrap.resample_counts(n_clusters, n_boot, seed)
    draws = (correlations(count) for chunk in chunks for count in chunk)
    estimate = correlations(np.ones(n_clusters))[0]
    flat = inside(bootstrap.student(estimate, draws, n_clusters, n_boot), -1, 1)
    k = X.shape[1]
    return Interval(*(part.reshape(k, k) for part in flat))


def partial_correlation(
    x: np.ndarray, y: np.ndarray, fixed: np.ndarray, clusters: np.ndarray, **options: int
) -> Interval:
    """Pearson's R of x and y with the linear effect of `fixed` removed from both.

    Paper: silent. It separates what Table 2's plain R of helpfulness with length mixes: longer
    answers may only be the more correct ones. Checked against pingouin.partial_corr.

    Args:
        x: [rows].
        y: [rows].
        fixed: [rows] or [rows, c]. Rows with any of x, y and fixed missing are left out.
        clusters: int [rows], the prompt of each row.
        **options: n_boot and seed, as in `bootstrap.bootstrap`.
    Returns: 0-d arrays, nan where x or y is constant or wholly explained by `fixed`.
    Raises: ValueError for no complete rows or an infinite value.
    """

    def partial(residual: np.ndarray, _: np.ndarray) -> np.ndarray:
        return residual[:, 0, 1] / np.sqrt(residual[:, 0, 0] * residual[:, 1, 1])

    return inside(_of_residuals(x, y, fixed, clusters, partial, options), -1, 1)


def binned_means(
    values: np.ndarray, bins: np.ndarray, n_bins: int, clusters: np.ndarray, **options: int
) -> Interval:
    """Mean of `values` within each bin.

    Paper: silent. A bin that holds one prompt only gets an interval without width: look at the
    counts beside it.

    Args:
        values: [rows]; nan is left out.
        bins: int [rows] in 0..n_bins-1. numpy.digitize gives them, counted from 0 where only the
            edges between bins are passed to it.
        n_bins: how many bins.
        clusters: int [rows], the prompt of each row.
        **options: n_boot and seed, as in `bootstrap.bootstrap`.
    Returns: arrays [n_bins], nan for an empty bin.
    Raises: ValueError for a bin that is not one of these, shapes that do not fit or an infinite
        value.
    """
    values = _check_columns(np.reshape(values, (-1, 1)))[:, 0]
    bins = np.asarray(bins)
    if bins.shape != values.shape or not np.isin(bins, np.arange(n_bins)).all():
        raise ValueError(
            f"bins must be {len(values)} whole numbers from 0 to {n_bins - 1}, one for each value"
        )
    present = ~np.isnan(values)
    member = np.eye(n_bins, dtype=bool)[bins] & present[:, None]  # [rows, n_bins]
    value_in_bin = member * np.where(present, values, 0.0)[:, None]  # [rows, n_bins]
    contributions = np.concatenate([member, value_in_bin], axis=1)  # [rows, 2 n_bins]

    def means(sums: np.ndarray) -> np.ndarray:
        return sums[:, n_bins:] / sums[:, :n_bins]

    return bootstrap.bootstrap(contributions, clusters, means, **options)


def _diagonal(moments: np.ndarray) -> np.ndarray:
    """[B, k] of [B, k, k]: a moment of each column with itself."""
    return np.diagonal(moments, axis1=1, axis2=2)


def _check_columns(X: np.ndarray) -> np.ndarray:
    """X as float64 [rows, columns]. Raises ValueError for another shape or an infinite value."""
    X = np.asarray(X, dtype=np.float64)
    if X.ndim != 2:
        raise ValueError(f"expected an array [rows, columns], got shape {X.shape}")
    infinite = np.isinf(X)
    if infinite.any():
        row, column = np.argwhere(infinite)[0]
        raise ValueError(
            f"row {row}, column {column} is {X[row, column]}: "
            "a number is expected, or nan where missing"
        )
    return X


def _residual_covariance(covariance: np.ndarray) -> np.ndarray:
    """Covariance [B, 2, 2] of columns 0 and 1 after regression on the other columns.

    covariance: [B, 2 + c, 2 + c] of all columns. nan where nothing is left of column 0 or 1.
    """
    of_pair = covariance[:, :2, :2]  # [B, 2, 2]
    with_others = covariance[:, :2, 2:]  # [B, 2, c]
    of_others = covariance[:, 2:, 2:]  # [B, c, c]
    if of_others.shape[1]:
        inverse = np.linalg.pinv(of_others, hermitian=True)
        of_pair = of_pair - with_others @ inverse @ np.swapaxes(with_others, 1, 2)
    variances = _diagonal(of_pair)  # [B, 2]
    return np.where((variances > 1e-10).all(axis=1)[:, None, None], of_pair, np.nan)


def _of_residuals(
    x: np.ndarray,
    y: np.ndarray,
    fixed: np.ndarray | None,
    clusters: np.ndarray,
    function: Callable[[np.ndarray, np.ndarray], np.ndarray],
    options: dict[str, int],
) -> Interval:
    """A number made from the covariance of x and y after regression on `fixed`, with its interval.

    Complete rows only. function: maps the residual covariance [B, 2, 2] of the standardised x and
    y, and the scale of each column, to values [B].
    """
    columns = [x, y] if fixed is None else [x, y, fixed]
    X = _check_columns(np.column_stack(columns))  # [rows, 2 + c]
    complete = ~np.isnan(X).any(axis=1)  # [rows]
    sums, moments_of, _, scale = bootstrap.pair_sums(X[complete], np.asarray(clusters)[complete])

    def statistic(total: np.ndarray) -> np.ndarray:
        _, _, _, covariance = moments_of(total)
        return function(_residual_covariance(covariance), scale)[:, None]

    return bootstrap.from_sums(sums, statistic, **options).at(0)
