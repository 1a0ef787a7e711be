"""What validation says about a reward model: error, correlation and order, attribute by attribute.

Arrays in, numbers out. The same three everywhere: mean squared error and Pearson's R over the
labelled cells of an attribute, and pairwise accuracy, the share of pairs of responses to one prompt
with different labels that the outputs order the same way (equal outputs count half, as a coin would
have them; RewardBench counts them as wrong).
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from hs2lib.group import MISSING
from hs2lib.stats.bootstrap import bootstrap, difference, inside

METRICS = ("MSE", "Pearson", "pairwise accuracy")


def contributions(outputs: np.ndarray, labels: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """What each response adds to the sums behind the three metrics of one attribute: float64 [rows,
    9].

    outputs, labels: [rows], label -100 = missing (adds 0). groups: int [rows]. Columns: rows, sums
    of x, y, x^2, y^2, xy and (x - y)^2, then pairs and pairs ordered rightly (each pair counted at
    its better response, a tie half).
    """
    x, y = (np.asarray(v, dtype=np.float64) for v in (outputs, labels))  # [rows] each
    present = y != MISSING
    # Sums of squares lose digits far from 0; both are centred alike so that the squared error stays
    # what it is.
    centre = y[present].mean() if present.any() else 0.0
    x, y = np.where(present, x - centre, 0.0), np.where(present, y - centre, 0.0)
    pairs, right = np.zeros(len(x)), np.zeros(len(x))  # [rows] each
    order = np.argsort(groups, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(np.asarray(groups)[order])) + 1):
        rows = rows[present[rows]]
        better = y[rows][:, None] > y[rows][None]  # [n, n] of a group
        pairs[rows] = better.sum(1)
        right[rows] = (better * (1 + np.sign(x[rows][:, None] - x[rows][None])) / 2).sum(1)
    return np.column_stack(
        [present, x, y, x * x, y * y, x * y, (x - y) ** 2 * present, pairs, right]
    )


def from_sums(sums: np.ndarray) -> np.ndarray:
    """MSE, Pearson's R and pairwise accuracy [B, 3] of sums [B, 9] of `contributions`; nan where undefined."""
    n, x, y, xx, yy, xy, error, pairs, right = np.asarray(sums, dtype=np.float64).T  # [B] each
    with np.errstate(invalid="ignore", divide="ignore"):
        spread_x, spread_y = xx / n - (x / n) ** 2, yy / n - (y / n) ** 2
        # Constant outputs (the mean baseline) leave rounding, not spread: their R is undefined.
        spread_x, spread_y = (np.where(s > 1e-10, s, np.nan) for s in (spread_x, spread_y))
        pearson = np.clip((xy / n - x * y / n**2) / np.sqrt(spread_x * spread_y), -1, 1)  # [B]
        return np.stack([error / n, pearson, right / pairs], axis=1)


def validation_metrics(
    outputs: np.ndarray, labels: np.ndarray, groups: np.ndarray, attributes: Sequence[str]
) -> dict[str, float]:
    """ "MSE helpfulness", "Pearson helpfulness", .. of outputs against labels, both [rows, A], -100
    = missing.

    Paper: silent (it reports RewardBench only). Raises ValueError for shapes that do not fit.
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
    **options,
) -> pd.DataFrame:
    """The metrics with 95 % intervals, a frame: columns attribute, metric, ours, low, high.

    outputs, labels: [rows, A]. minus [rows, A]: the outputs of another model. Then the rows are the
    differences from that model's metrics, both on the same resamples, and "difference" stands in
    place of "ours". groups [rows]: the prompt of each row, within which pairs are formed. clusters
    [rows]: what is resampled as a whole, by default the prompts; give the trees where prompts share
    one. options: n_boot and seed as in `bootstrap.bootstrap`. Raises as `validation_metrics`.
    """
    outputs, labels, groups = np.asarray(outputs), np.asarray(labels), np.asarray(groups)
    if outputs.shape != labels.shape or outputs.shape != (len(groups), len(attributes)):
        what = f"must be [rows, {len(attributes)}], groups [rows]"
        raise ValueError(f"outputs {outputs.shape}, labels {labels.shape}: {what}")
    sides = [outputs] if minus is None else [outputs, np.asarray(minus, dtype=np.float64)]
    if sides[-1].shape != outputs.shape:
        raise ValueError(f"minus must be {outputs.shape} as the outputs, got {sides[-1].shape}")
    interval, title = (bootstrap, "ours") if minus is None else (difference, "difference")
    rows, clusters = [], groups if clusters is None else clusters
    n_clusters = len(np.unique(clusters))
    for a, name in enumerate(attributes):
        sums = [contributions(side[:, a], labels[:, a], groups) for side in sides]  # each [rows, 9]
        parts = interval(*sums, clusters, from_sums, **options)
        parts = (
            inside(parts, (-np.inf, -1, 0), (np.inf, 1, 1), n_clusters) if minus is None else parts
        )
        rows += [
            (name, metric, *map(float, values))
            for metric, *values in zip(METRICS, *parts, strict=True)
        ]
    return pd.DataFrame(rows, columns=["attribute", "metric", title, "low", "high"])
