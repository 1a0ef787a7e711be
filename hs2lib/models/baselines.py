"""Baselines of a reward model without training: mean, length, ridge on frozen states.

What a fine-tuned model adds is only known beside what its base already says. Ridge regression on
the base's end-of-response states is the cheapest reward model there is. Paper: silent (RLHFlow
trains a multi-attribute model so).
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save
from sklearn.linear_model import Ridge

from hs2lib import code, paths
from hs2lib.engine.attention import computing, end_states, in_order
from hs2lib.group import MISSING
from hs2lib.train.checkpoints import weights_digest
from hs2lib.train.items import Item, digest

ALPHAS = tuple(10.0**e for e in np.arange(-1, 7.5, 0.5))


def frozen_states(
    model, items: Sequence[Item], *, autocast="float32", cache: Path | None = None
) -> np.ndarray:
    """The state at each response's last token, float32 [rows, hidden], item by item; no gradients.

    Several processes share out the work; all of them call this alike.

    cache: a folder; states of these items under this base (before any training), by this code, are
    read from there, or written. Raises `code.MadeByOtherCode` as `Cache` does; what of other code
    was read is in `model.reused`.
    """
    name = f"states-{weights_digest(model.backbone)}-{digest(items)}-{autocast}"
    by = code.digest(__name__, type(model)) if cache else ""
    file = cache and Path(cache) / f"{name}-{by[:8]}.safetensors"
    if file and not file.exists():
        others = sorted(
            file.parent.glob(f"{name}*.safetensors"), key=lambda other: other.stat().st_mtime
        )
        if other := code.reusable(
            others, "a file of states", lambda other: f"today's code has the digest {by[:8]}"
        ):
            file = other
            model.reused.append(other)
    if file and file.exists():
        return load_file(file)["states"].numpy()
    with computing(model, autocast):
        function, sequences = (
            lambda b: end_states(model.backbone, b).float(),
            [item.sequences for item in items],
        )
        out = in_order(function, sequences, shared=torch.distributed.is_initialized())
    if file:
        paths.write(file, save({"states": out}))
    return out.numpy()


def log_lengths(items: Sequence[Item]) -> np.ndarray:
    """log(1 + tokens of the response, closing marker included): float64 [rows, 1]."""
    lengths = [
        len(s) - start
        for item in items
        for s, start in zip(item.sequences, item.starts, strict=True)
    ]
    return np.log1p(np.array(lengths, dtype=np.float64))[:, None]


def targets(items: Sequence[Item]) -> tuple[np.ndarray, np.ndarray]:
    """All targets [rows, k], and the number of the item (the prompt) of each row, int64 [rows]."""
    rows = np.concatenate([item.targets for item in items])  # [rows, k]
    return rows, np.repeat(np.arange(len(items)), [len(item.sequences) for item in items])


def ridge(X: np.ndarray, Y: np.ndarray, alpha, *, intercept=True) -> tuple[np.ndarray, np.ndarray]:
    """Ridge regression of each column of Y on X: minimises |Y - X W - b|^2 + alpha |W|^2 over the
    labelled cells.

    X [rows, d]; Y [rows, k], -100 = missing; alpha: one, or one for each column. With an intercept
    columns are centred and b is not penalised. Returns W [d, k], b [k]. Raises ValueError for a
    column without a label. Checked against scikit-learn.
    """
    X, Y = np.asarray(X, dtype=np.float64), np.asarray(Y, dtype=np.float64)  # [rows, d], [rows, k]
    each = [
        _fitted(X, Y[:, k], [a], intercept)
        for k, a in enumerate(np.broadcast_to(alpha, Y.shape[1]))
    ]
    return np.concatenate([w for w, _ in each], axis=1), np.concatenate([b for _, b in each])


def _fitted(
    X: np.ndarray, y: np.ndarray, alphas: Sequence[float], intercept: bool
) -> tuple[np.ndarray, np.ndarray]:
    """W [d, alphas] and b [alphas] of one column, one solution for each alpha; X is decomposed once for all of them."""
    labelled = y != MISSING  # [rows]
    if not labelled.any():
        raise ValueError("a column has no label to fit ridge regression to")
    columns = np.tile(y[labelled, None], len(alphas))  # [rows, alphas]
    model = Ridge(np.asarray(alphas), fit_intercept=intercept, solver="svd").fit(
        X[labelled], columns
    )
    return model.coef_.T.reshape(X.shape[1], -1), np.broadcast_to(model.intercept_, len(alphas))


def folds(
    clusters: np.ndarray, n_folds: int, seed: int = 0, parts: np.ndarray | None = None
) -> np.ndarray:
    """The fold of each row, int64 [rows]: whole clusters (prompts, trees), dealt out at random,
    nearly equal in number.

    parts: int [rows], the part (subset) of a benchmark each row belongs to: clusters are dealt out
    part by part, so that each fold has its share of every part. Raises ValueError where there are
    fewer clusters than folds.
    """
    names, first, index = np.unique(np.asarray(clusters), return_index=True, return_inverse=True)
    if len(names) < n_folds:
        raise ValueError(f"{len(names)} clusters cannot make {n_folds} folds: take fewer folds")
    order = np.random.default_rng(seed).permutation(len(names))  # [clusters]
    if parts is not None:
        order = order[np.argsort(parts[first][order], kind="stable")]
    dealt = np.empty(len(names), dtype=np.int64)  # [clusters]
    dealt[order] = np.arange(len(names)) % n_folds
    return dealt[index]


def best_alpha(
    X,
    Y,
    clusters,
    *,
    alphas: Sequence[float] = ALPHAS,
    n_folds: int = 5,
    seed: int = 0,
    intercept=True,
):
    """For each column of Y the alpha with the smallest squared error over folds of these rows: float64 [k]."""
    X, Y = np.asarray(X, dtype=np.float64), np.asarray(Y, dtype=np.float64)  # [rows, d], [rows, k]
    fold = folds(clusters, n_folds, seed)  # [rows]
    error = np.zeros((len(alphas), Y.shape[1]))  # [alphas, k]
    for f in range(n_folds):
        train, test = fold != f, fold == f
        for k in range(Y.shape[1]):
            labelled = test & (Y[:, k] != MISSING)  # [rows]
            W, b = _fitted(X[train], Y[train, k], alphas, intercept)
            error[:, k] += ((X[labelled] @ W + b - Y[labelled, k, None]) ** 2).sum(0)
    return np.asarray(alphas)[error.argmin(0)]


def column_means(Y: np.ndarray) -> np.ndarray:
    """The mean of the labelled cells of each column, float64 [k]."""
    Y = np.asarray(Y, dtype=np.float64)  # [rows, k]
    return np.nanmean(np.where(Y == MISSING, np.nan, Y), axis=0)


def start_head(model, states: np.ndarray, Y: np.ndarray, alpha: float | np.ndarray) -> None:
    """Set a reward model's head to the ridge solution, in place, so that training starts from the
    frozen base's best.

    Paper: silent (it starts from a fresh head). Fine-tuning a few hundred steps from a random head
    first distorts what the base knows (Kumar et al. 2022, "linear probing then fine-tuning"). A
    head without bias gets the solution without intercept: the states have a direction in common
    that serves as one.
    """
    bias = model.head.bias is not None
    W, b = ridge(states, Y, alpha, intercept=bias)  # [d, k], [k]
    with torch.no_grad():
        model.head.weight.copy_(torch.from_numpy(W.T))
        if bias:
            model.head.bias.copy_(torch.from_numpy(b))
