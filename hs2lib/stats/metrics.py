"""What validation says about a reward model: error, correlation and order, attribute by attribute.

Arrays in, numbers out. The same three metrics everywhere. Mean squared error and Pearson's R are
over the labelled cells of an attribute. Pairwise accuracy is over the pairs of responses to one
prompt with different labels: the share that the outputs order the same way. Equal outputs count
half, as a coin would have them; RewardBench counts them as wrong.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from hs2lib.group import MISSING
from hs2lib.stats.bootstrap import bootstrap, difference, inside

METRICS = ("MSE", "Pearson", "pairwise accuracy")


def contributions(outputs: np.ndarray, labels: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """What each response adds to the sums behind the three metrics of one attribute.

    Args:
        outputs: [rows].
        labels: [rows]; a missing label, -100, adds 0.
        groups: int [rows], the prompt of each row.
    Returns: float64 [rows, 9]. The columns are rows; sums of x, y, x^2, y^2, xy and (x - y)^2;
        pairs, and pairs ordered rightly (each pair counted at its better response, a tie half).
    """
    x = np.asarray(outputs, dtype=np.float64)  # [rows]
    y = np.asarray(labels, dtype=np.float64)  # [rows]
    present = y != MISSING
    # Sums of squares lose digits far from 0. Both are centred alike, so that the squared error
    # stays what it is.
    centre = y[present].mean() if present.any() else 0.0
    x = np.where(present, x - centre, 0.0)
    y = np.where(present, y - centre, 0.0)
    pairs = np.zeros(len(x))  # [rows]
    right = np.zeros(len(x))  # [rows]
    order = np.argsort(groups, kind="stable")
    starts = np.flatnonzero(np.diff(np.asarray(groups)[order])) + 1  # of the second group, ..
    for rows in np.split(order, starts):
        rows = rows[present[rows]]
        better = y[rows][:, None] > y[rows][None]  # [n, n] of a group
        pairs[rows] = better.sum(1)
        right[rows] = (better * (1 + np.sign(x[rows][:, None] - x[rows][None])) / 2).sum(1)
    error = (x - y) ** 2 * present
    return np.column_stack([present, x, y, x * x, y * y, x * y, error, pairs, right])


def within_groups(values: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """Values less the mean of their group, float64 [rows]: what is left is within prompts.

    By hand: 1 and 3 of one prompt and 5 of another become -1, 1 and 0. Paper: silent.

    Args:
        values: [rows]; a group with nan becomes nan.
        groups: [rows], the prompt of each row.
    """
    values = np.asarray(values, dtype=np.float64)
    _, number = np.unique(groups, return_inverse=True)  # [rows]
    means = np.bincount(number, weights=values) / np.bincount(number)  # [groups]
    return values - means[number]


def from_sums(sums: np.ndarray) -> np.ndarray:
    """MSE, Pearson's R and pairwise accuracy of sums [B, 9] of `contributions`.

    Returns: [B, 3], nan where undefined.
    """
    n, x, y, xx, yy, xy, error, pairs, right = np.asarray(sums, dtype=np.float64).T  # [B] each
    with np.errstate(invalid="ignore", divide="ignore"):
        variance_x = _defined(xx / n - (x / n) ** 2)
        variance_y = _defined(yy / n - (y / n) ** 2)
        pearson = (xy / n - x * y / n**2) / np.sqrt(variance_x * variance_y)
        return np.stack([error / n, np.clip(pearson, -1, 1), right / pairs], axis=1)


def _defined(variance: np.ndarray) -> np.ndarray:
    """The variance, nan where constant outputs (the mean baseline) leave rounding alone."""
    return np.where(variance > 1e-10, variance, np.nan)


def validation_metrics(
    outputs: np.ndarray, labels: np.ndarray, groups: np.ndarray, attributes: Sequence[str]
) -> dict[str, float]:
    """The three metrics of each attribute, by name: "MSE helpfulness", "Pearson helpfulness", ..

    Paper: silent (it reports RewardBench only).

    Args:
        outputs: [rows, A].
        labels: [rows, A], -100 where missing.
        groups: int [rows], the prompt of each row.
        attributes: [A] names.
    Raises: ValueError for shapes that do not fit.
    """
    rows = metric_table(outputs, labels, groups, attributes, n_boot=0)
    return dict(zip(rows.metric + " " + rows.attribute, rows.ours.tolist(), strict=True))


def metric_table(
    outputs: np.ndarray,
    labels: np.ndarray,
    groups: np.ndarray,
    attributes: Sequence[str],
    *,
    minus: np.ndarray | None = None,
    clusters: np.ndarray | None = None,
    **options: int,
) -> pd.DataFrame:
    """The metrics with 95 % intervals, of one model or of its difference from another.

    Args:
        outputs: [rows, A].
        labels: [rows, A], -100 where missing.
        groups: int [rows], the prompt of each row, within which pairs are formed.
        attributes: [A] names.
        minus: [rows, A], the outputs of another model. Then the rows are the differences from that
            model's metrics, both on the same resamples.
        clusters: [rows], what is resampled as a whole, by default the prompts. Give the trees where
            prompts share one.
        **options: n_boot and seed, as in `bootstrap.bootstrap`.
    Returns: a frame with columns attribute, metric, ours, low, high. With `minus`, "difference"
        stands in place of "ours".
    Raises: ValueError for shapes that do not fit.
    """
    outputs = np.asarray(outputs)
    labels = np.asarray(labels)
    groups = np.asarray(groups)
    if outputs.shape != labels.shape or outputs.shape != (len(groups), len(attributes)):
        raise ValueError(
            f"outputs {outputs.shape}, labels {labels.shape}: "
            f"must be [rows, {len(attributes)}], groups [rows]"
        )
    if minus is not None:
        minus = np.asarray(minus, dtype=np.float64)
        if minus.shape != outputs.shape:
            raise ValueError(f"minus must be {outputs.shape} as the outputs, got {minus.shape}")
    if clusters is None:
        clusters = groups
    n_clusters = len(np.unique(clusters))
    rows = []
    for a, attribute in enumerate(attributes):
        sums = contributions(outputs[:, a], labels[:, a], groups)  # [rows, 9]
        if minus is None:
            interval = bootstrap(sums, clusters, from_sums, **options)
            interval = inside(interval, (-np.inf, -1, 0), (np.inf, 1, 1), n_clusters)
        else:
            other_sums = contributions(minus[:, a], labels[:, a], groups)
            interval = difference(sums, other_sums, clusters, from_sums, **options)
        for m, metric in enumerate(METRICS):
            estimate, low, high = map(float, interval.at(m))
            rows.append((attribute, metric, estimate, low, high))
    estimates = "ours" if minus is None else "difference"
    return pd.DataFrame(rows, columns=["attribute", "metric", estimates, "low", "high"])
