"""Statistics of a rated data set: arrays in, numbers with 95 % intervals out.

Paper: section 2.2 and Table 2. The paper prints no intervals, so every interval is ours;
`hs2lib.stats.bootstrap` makes them. Missing values are nan, left out pairwise: a mean uses the rows
where its column is present, a correlation those where both of its columns are. Agreement between
annotators is in `hs2lib.stats.agreement`.
"""

from collections.abc import Callable, Sequence
from itertools import combinations_with_replacement
from typing import NamedTuple

import numpy as np
from scipy.stats import rankdata

from hs2lib.stats import bootstrap
from hs2lib.stats.bootstrap import NO_SPREAD, Interval, inside


class Moments(NamedTuple):
    """Means [k], standard deviations [k], Pearson correlations [k, k], and the rows [k, k] behind each."""

    mean: Interval
    sd: Interval
    pearson: Interval
    rows: np.ndarray


def moments(X: np.ndarray, clusters: np.ndarray, **options) -> Moments:
    """Means, standard deviations and Pearson's R of every pair of columns, each with its interval.

    Paper: section 2.2, Table 2. X: [rows, k], nan = missing. clusters: int [rows]. options: n_boot
    and seed as in `bootstrap.bootstrap`. The SD is the sample's, over n - 1, as pandas gives it.
    Paper silent; at 21,362 rows n and n - 1 differ by 1 part in 43,000 of an SD, .00003 on
    helpfulness, below the printed digits. Returns nan for the mean of an empty column, the SD of
    fewer than two values and R with a constant column. Raises ValueError for no rows, shapes that
    do not fit or an infinite value. Checked against pandas and pingouin.
    """
    X = _columns(X)
    k = X.shape[1]
    sums, moments_of, centre, scale = bootstrap.pair_sums(X, clusters)

    def statistic(total):
        parts = moments_of(total)
        _, _, variance, covariance = parts
        rows, mean, own, _ = (
            np.broadcast_to(part, covariance.shape)[:, range(k), range(k)] for part in parts
        )
        varies = np.where(variance > NO_SPREAD, variance, np.nan)
        pearson = np.clip(
            covariance / np.sqrt(varies * np.swapaxes(varies, 1, 2)), -1, 1
        )  # [B, k, k]
        sd = np.sqrt(np.maximum(own, 0) * rows / np.where(rows > 1, rows - 1, np.nan))  # [B, k]
        sd = np.where(own > NO_SPREAD, sd, 0 * sd)  # a constant column has SD 0 exactly
        return np.concatenate(
            [mean * scale + centre, sd * scale, pearson.reshape(-1, k * k)], axis=1
        )

    parts = bootstrap.from_sums(sums, statistic, **options)
    matrix = Interval(*(part[2 * k :].reshape(k, k) for part in parts))  # [k, k] each
    rows = (~np.isnan(X)).T.astype(np.int64) @ ~np.isnan(X)  # [k, k]
    return Moments(
        parts.at(slice(0, k)),
        inside(parts.at(slice(k, 2 * k)), 0, np.inf),
        inside(matrix, -1, 1),
        rows,
    )


def table_2(
    X: np.ndarray, names: Sequence[str], clusters: np.ndarray, *, suffix: str = "HS2", **options
) -> list[dict]:
    """Table 2 in long form: mean, SD and R with the first column, for each column of X, with
    intervals.

    Paper: section 2.2, Table 2. X: [rows, k], helpfulness first; names: [k] the table's row names;
    suffix: the data set's short name in the table's columns; options: as in `moments`. Returns
    dicts row, column, ours, low, high, ready for a DataFrame and `Run.against_paper`. R of the
    first row is 1. Raises ValueError as `moments` does, and where names and columns are not as
    many.
    """
    X = _columns(X)
    if len(names) != X.shape[1]:
        raise ValueError(
            f"{len(names)} names {list(names)} for {X.shape[1]} columns: name each column once"
        )
    of_columns = moments(X, clusters, **options)
    columns = {
        "mean": of_columns.mean,
        "SD": of_columns.sd,
        "R": Interval(*(part[0] for part in of_columns.pearson)),
    }
    rows = []
    for i, name in enumerate(names):
        for title, interval in columns.items():
            estimate, low, high = map(float, interval.at(i))
            rows.append(
                {
                    "row": name,
                    "column": f"{title} {suffix}",
                    "ours": estimate,
                    "low": low,
                    "high": high,
                }
            )
    return rows


def spearman(X: np.ndarray, clusters: np.ndarray, *, n_boot: int = 1000, seed: int = 0) -> Interval:
    """Spearman's rank correlation of every pair of columns, Pearson's R of the midranks; arrays [k,
    k].

    Paper: silent (Table 2 uses Pearson's R). X: [rows, k]; a pair is ranked over the rows where
    both are present, nan with a constant column. Ranks are no function of sums: they are taken anew
    in every resample (holding them fixed would leave out the variation of the ranks themselves), so
    time grows with rows x columns x n_boot. Raises ValueError as `moments` does. Checked against
    scipy and a plain loop.
    """
    X = _columns(X)
    index, n_clusters = bootstrap.cluster_index(clusters, len(X))
    k = X.shape[1]
    if np.isnan(X).any() and k > 2:
        out = np.empty((3, k, k))  # estimate, low, high
        for i, j in combinations_with_replacement(range(k), 2):
            pair = spearman(X[:, [i, j]], clusters, n_boot=n_boot, seed=seed)
            out[:, i, j] = out[:, j, i] = pair.at(0, 1)
        return Interval(*out)
    present = ~np.isnan(X).any(axis=1)  # [rows]
    # Dense codes of the values: the midrank of a value is the weight below it plus half the weight
    # on it.
    codes = [rankdata(column, method="dense").astype(np.int64) - 1 for column in X[present].T]
    rows_of = index[present]

    def ranks_correlate(count):
        weight = count[rows_of]  # [rows]
        weights = [np.bincount(code, weights=weight) for code in codes]  # of each value
        ranks = np.array(
            [(np.cumsum(at) - at / 2)[code] for at, code in zip(weights, codes, strict=True)]
        )  # [k, rows]
        total = weight.sum()
        ranks = (ranks - (ranks @ weight / total)[:, None]) / total
        products = (ranks * weight) @ ranks.T  # [k, k]
        spread = np.where(np.diag(products) > NO_SPREAD, np.diag(products), np.nan)  # [k]
        return np.clip(products / np.sqrt(np.outer(spread, spread)), -1, 1).ravel()

    with np.errstate(invalid="ignore", divide="ignore"):
        estimate = ranks_correlate(np.ones(n_clusters))
        resamples = bootstrap.resample_counts(n_clusters, n_boot, seed)
        draws = (ranks_correlate(c)[None] for counts in resamples for c in counts)
        flat = inside(bootstrap.student(estimate, draws, n_clusters, n_boot), -1, 1)
    return Interval(*(part.reshape(k, k) for part in flat))


def partial_correlation(
    x: np.ndarray, y: np.ndarray, fixed: np.ndarray, clusters: np.ndarray, **options
) -> Interval:
    """Pearson's R of x and y with the linear effect of `fixed` removed from both. Returns 0-d
    arrays.

    Paper: silent; it separates what Table 2's plain R of helpfulness with length mixes (longer
    answers may only be the more correct ones). x, y: [rows]; fixed: [rows] or [rows, c]; rows with
    any of them missing are left out. options: n_boot and seed as in `bootstrap`. Returns nan where
    x or y is constant or wholly explained by `fixed`. Raises ValueError for no complete rows or an
    infinite value. Checked against pingouin.partial_corr.
    """

    def partial(residual, _):
        return residual[:, 0, 1] / np.sqrt(residual[:, 0, 0] * residual[:, 1, 1])

    return inside(_of_covariance(x, y, fixed, clusters, partial, options), -1, 1)


def slope(
    x: np.ndarray, y: np.ndarray, clusters: np.ndarray, fixed: np.ndarray | None = None, **options
) -> Interval:
    """Least-squares slope: points of y for one unit of x; with `fixed`, x's coefficient beside
    those columns.

    Paper: silent. Pass characters / 1000 to get points per 1,000 characters. Arguments, missing
    values and errors as in `partial_correlation`. Checked against numpy.linalg.lstsq.
    """

    def coefficient(residual, scale):
        return residual[:, 0, 1] / residual[:, 0, 0] * scale[1] / scale[0]

    return _of_covariance(x, y, fixed, clusters, coefficient, options)


def binned_means(
    values: np.ndarray, bins: np.ndarray, n_bins: int, clusters: np.ndarray, **options
) -> Interval:
    """Mean of `values` within each bin. Returns arrays [n_bins], nan for an empty bin.

    Paper: silent. values: [rows], nan left out; bins: int [rows] in 0..n_bins-1 (numpy.digitize
    gives them, counted from 0 where only the edges between bins are passed to it). A bin that holds
    one prompt only gets an interval without width: look at the counts beside it. Raises ValueError
    for a bin that is not one of these, shapes that do not fit or an infinite value.
    """
    values = _columns(np.asarray(values, dtype=np.float64)[:, None])[:, 0]
    bins = np.asarray(bins)
    if bins.shape != values.shape or not np.issubdtype(bins.dtype, np.integer):
        raise ValueError(
            f"bins must be whole numbers [{len(values)}], got {bins.dtype} {list(bins.shape)}"
        )
    if len(bins) and (bins.min() < 0 or bins.max() >= n_bins):
        # Numpy would count bin -1 as the last one.
        raise ValueError(f"bins must be from 0 to {n_bins - 1}, got {bins.min()} to {bins.max()}")
    present = ~np.isnan(values)
    member = np.eye(n_bins, dtype=bool)[bins] & present[:, None]  # [rows, n_bins]
    both = np.concatenate(
        [member, member * np.where(present, values, 0.0)[:, None]], axis=1
    )  # [rows, 2 n_bins]
    return bootstrap.bootstrap(
        both, clusters, lambda sums: sums[:, n_bins:] / sums[:, :n_bins], **options
    )


def pair_gaps(X: np.ndarray, clusters: np.ndarray, **options) -> tuple[Interval, Interval]:
    """Shares of pairs of responses to one prompt whose labels are equal, and at least 2 apart.

    Paper: section 4.3 (equal helpfulness discards the pair for DPO; shares of other gaps are not
    printed). X: [rows, k]; clusters: int [rows]. With two responses a prompt these are shares of
    prompts; with more, every pair within the prompt counts once. Pairs with a missing label are
    left out. Returns two Intervals of arrays [k], nan where no prompt has two responses.
    """
    X = _columns(X)
    index, _ = bootstrap.cluster_index(clusters, len(X))
    order = np.argsort(index, kind="stable")
    X, index = X[order], index[order]
    k, steps = X.shape[1], range(1, np.bincount(index).max())
    first = [
        np.flatnonzero(index[step:] == index[:-step]) for step in steps
    ]  # of the pairs so many rows apart
    if not first:
        return (Interval(*np.full((3, k), np.nan)),) * 2
    gap = np.concatenate(
        [np.abs(X[rows + step] - X[rows]) for rows, step in zip(first, steps, strict=True)]
    )
    parts = np.concatenate([~np.isnan(gap), gap < 1e-9, gap >= 2 - 1e-9], axis=1)  # [pairs, 3 k]
    owner = index[np.concatenate(first)]  # [pairs]
    both = inside(
        bootstrap.bootstrap(parts, owner, lambda s: s[:, k:] / np.tile(s[:, :k], 2), **options),
        0,
        1,
    )
    return both.at(slice(0, k)), both.at(slice(k, 2 * k))


def _columns(X: np.ndarray) -> np.ndarray:
    X = np.asarray(X, dtype=np.float64)
    if X.ndim != 2:
        raise ValueError(f"expected an array [rows, columns], got shape {X.shape}")
    infinite = np.isinf(X)
    if infinite.any():
        row, column = np.argwhere(infinite)[0]
        raise ValueError(
            f"row {row}, column {column} is {X[row, column]}: a number is expected, or nan where missing"
        )
    return X


def _residual_covariance(covariance: np.ndarray) -> np.ndarray:
    """[B, 2, 2] covariance of columns 0 and 1 after regression on the others; nan if nothing is left."""
    top, cross, rest = covariance[:, :2, :2], covariance[:, :2, 2:], covariance[:, 2:, 2:]
    if rest.shape[1]:
        top = top - cross @ np.linalg.pinv(rest, hermitian=True) @ np.swapaxes(cross, 1, 2)
    own = np.diagonal(top, axis1=1, axis2=2)  # [B, 2]
    return np.where((own > 1e-10).all(axis=1)[:, None, None], top, np.nan)


def _of_covariance(
    x: np.ndarray,
    y: np.ndarray,
    fixed: np.ndarray | None,
    clusters: np.ndarray,
    function: Callable[[np.ndarray, np.ndarray], np.ndarray],
    options: dict,
) -> Interval:
    """A number made from the covariance of x and y beside `fixed`, complete rows only, with its interval."""
    fixed = (
        np.empty((len(x), 0))
        if fixed is None
        else np.asarray(fixed, dtype=np.float64).reshape(len(x), -1)
    )
    X = _columns(np.column_stack([x, y, fixed]))  # [rows, 2 + c]
    complete = ~np.isnan(X).any(axis=1)  # [rows]
    sums, moments_of, _, scale = bootstrap.pair_sums(X[complete], np.asarray(clusters)[complete])
    statistic = lambda total: function(_residual_covariance(moments_of(total)[3]), scale)[:, None]  # noqa: E731
    return bootstrap.from_sums(sums, statistic, **options).at(0)
