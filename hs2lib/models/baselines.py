"""Baselines of a reward model without training: mean, length, ridge on frozen states.

What a fine-tuned model adds is only known beside what its base already says. Ridge regression on
the base's end-of-response states is the cheapest reward model there is. Paper: silent (RLHFlow
trains a multi-attribute model so).
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from safetensors.torch import load_file, save
from sklearn.linear_model import Ridge

from hs2lib import code, paths
from hs2lib.engine.attention import computing, end_states, in_order
from hs2lib.engine.checkpoints import weights_digest
from hs2lib.group import MISSING
from hs2lib.train.items import Item, digest

if TYPE_CHECKING:
    from hs2lib.engine.trees import Batch
    from hs2lib.models.reward_model import RewardModel

ALPHAS = tuple(10.0**e for e in np.arange(-1, 7.5, 0.5))


def frozen_states(
    model: "RewardModel",
    items: Sequence[Item],
    *,
    autocast: str = "float32",
    cache: Path | None = None,
) -> np.ndarray:
    """The state at each response's last token, float32 [rows, hidden], item by item; no gradients.

    Several processes share out the work; all of them call this alike.

    Args:
        model: before any training.
        items: with one row for each response.
        autocast: "bfloat16" for speed.
        cache: a folder. States of these items under these weights by this code are read from it,
            or written to it.
    """
    file = _states_file(model, items, autocast, Path(cache)) if cache else None
    if file and file.exists():
        return load_file(file)["states"].numpy()

    def states(batch: "Batch") -> torch.Tensor:
        return end_states(model.backbone, batch).float()  # [R, hidden]

    with computing(model, autocast):
        sequences = [item.sequences for item in items]
        out = in_order(states, sequences, shared=torch.distributed.is_initialized())
    if file:
        paths.write(file, save({"states": out}))
    return out.numpy()


def _states_file(model: "RewardModel", items: Sequence[Item], autocast: str, folder: Path) -> Path:
    """The file in a cache that has the states of these items, or is to have them."""
    name = f"states-{weights_digest(model.backbone)}-{digest(items)}-{autocast}"
    code_digest = code.digest(__name__, type(model))
    return folder / f"{name}-{code_digest[:8]}.safetensors"


def log_lengths(items: Sequence[Item]) -> np.ndarray:
    """log(1 + tokens of the response, closing marker included): float64 [rows, 1]."""
    lengths = [
        len(sequence) - start
        for item in items
        for sequence, start in zip(item.sequences, item.starts, strict=True)
    ]
    return np.log1p(np.array(lengths, dtype=np.float64))[:, None]


def targets(items: Sequence[Item]) -> tuple[np.ndarray, np.ndarray]:
    """All targets [rows, k], and the number of the item (the prompt) of each row, int64 [rows]."""
    rows = np.concatenate([item.targets for item in items])  # [rows, k]
    return rows, np.repeat(np.arange(len(items)), [len(item.sequences) for item in items])


def ridge(
    X: np.ndarray, Y: np.ndarray, alpha: float | np.ndarray, *, intercept: bool = True
) -> tuple[np.ndarray, np.ndarray]:
    """Ridge regression of each column of Y on X.

    It minimises |Y - X W - b|^2 + alpha |W|^2 over the labelled cells. Checked against
    scikit-learn.

    Args:
        X: [rows, d].
        Y: [rows, k], -100 where missing.
        alpha: one number, or one for each column.
        intercept: whether there is a b. Columns are then centred, and b is not penalised.

    Returns:
        W [d, k] and b [k].

    Raises:
        ValueError: a column has no label.
    """
    X = np.asarray(X, dtype=np.float64)  # [rows, d]
    Y = np.asarray(Y, dtype=np.float64)  # [rows, k]
    weights = []
    intercepts = []
    for k, alpha_of_column in enumerate(np.broadcast_to(alpha, Y.shape[1])):
        w, b = _fitted(X, Y[:, k], [alpha_of_column], intercept)  # [d, 1], [1]
        weights.append(w)
        intercepts.append(b)
    return np.concatenate(weights, axis=1), np.concatenate(intercepts)


def _fitted(
    X: np.ndarray, y: np.ndarray, alphas: Sequence[float], intercept: bool
) -> tuple[np.ndarray, np.ndarray]:
    """W [d, alphas] and b [alphas] of one column y [rows], a solution for each alpha.

    X [rows, d] is decomposed once for all of them.
    """
    labelled = y != MISSING  # [rows]
    if not labelled.any():
        raise ValueError("a column has no label to fit ridge regression to")
    columns = np.tile(y[labelled, None], len(alphas))  # [rows, alphas]
    model = Ridge(np.asarray(alphas), fit_intercept=intercept, solver="svd")
    model.fit(X[labelled], columns)
    return model.coef_.T.reshape(X.shape[1], -1), np.broadcast_to(model.intercept_, len(alphas))


def folds(
    clusters: np.ndarray, n_folds: int, seed: int = 0, parts: np.ndarray | None = None
) -> np.ndarray:
    """The fold of each row, int64 [rows]: whole clusters at random, nearly equal in number.

    Args:
        clusters: the cluster (prompt, tree) of each row, [rows].
        n_folds: how many folds.
        seed: of the deal.
        parts: int [rows], the part (subset) of a benchmark that each row belongs to. Clusters are
            then dealt out part by part, so that each fold has its share of every part.

    Raises:
        ValueError: there are fewer clusters than folds.
    """
    names, first_row, cluster = np.unique(
        np.asarray(clusters), return_index=True, return_inverse=True
    )  # [clusters], [clusters], [rows]
    if len(names) < n_folds:
        raise ValueError(f"{len(names)} clusters cannot make {n_folds} folds: take fewer folds")
    order = np.random.default_rng(seed).permutation(len(names))  # [clusters]
    if parts is not None:
        order = order[np.argsort(parts[first_row][order], kind="stable")]
    fold = np.empty(len(names), dtype=np.int64)  # [clusters]
    fold[order] = np.arange(len(names)) % n_folds
    return fold[cluster]


def best_alpha(
    X: np.ndarray,
    Y: np.ndarray,
    clusters: np.ndarray,
    *,
    alphas: Sequence[float] = ALPHAS,
    n_folds: int = 5,
    seed: int = 0,
    intercept: bool = True,
) -> np.ndarray:
    """For each column of Y the alpha with the smallest squared error over folds: float64 [k].

    Args:
        X: [rows, d].
        Y: [rows, k], -100 where missing.
        clusters: of each row; a cluster lies in one fold, as for `folds`.
        alphas: to choose from.
        n_folds: how many folds.
        seed: of the folds.
        intercept: as for `ridge`.
    """
    X = np.asarray(X, dtype=np.float64)  # [rows, d]
    Y = np.asarray(Y, dtype=np.float64)  # [rows, k]
    fold = folds(clusters, n_folds, seed)  # [rows]
    error = np.zeros((len(alphas), Y.shape[1]))  # [alphas, k]
    for f in range(n_folds):
        train = fold != f  # [rows]
        test = fold == f  # [rows]
        for k in range(Y.shape[1]):
            labelled = test & (Y[:, k] != MISSING)  # [rows]
            W, b = _fitted(X[train], Y[train, k], alphas, intercept)  # [d, alphas], [alphas]
            error[:, k] += ((X[labelled] @ W + b - Y[labelled, k, None]) ** 2).sum(0)
    return np.asarray(alphas)[error.argmin(0)]


def column_means(Y: np.ndarray) -> np.ndarray:
    """The mean of the labelled cells of each column, float64 [k]."""
    Y = np.asarray(Y, dtype=np.float64)  # [rows, k]
    return np.nanmean(np.where(Y == MISSING, np.nan, Y), axis=0)


def start_head(
    model: "RewardModel", states: np.ndarray, Y: np.ndarray, alpha: float | np.ndarray
) -> None:
    """Set a reward model's head to the ridge solution, in place.

    Training then starts from the frozen base's best. Fine-tuning a few hundred steps from a random
    head first distorts what the base knows (Kumar et al. 2022, "linear probing then fine-tuning").
    A head without bias gets the solution without intercept: the states have a direction in common
    that serves as one.

    Paper: silent (it starts from a fresh head).

    Args:
        model: its head is changed.
        states: [rows, hidden], of `frozen_states`.
        Y: [rows, A], -100 where missing.
        alpha: as for `ridge`.
    """
    bias = model.head.bias is not None
    W, b = ridge(states, Y, alpha, intercept=bias)  # [d, k], [k]
    with torch.no_grad():
        model.head.weight.copy_(torch.from_numpy(W.T))
        if bias:
            model.head.bias.copy_(torch.from_numpy(b))
