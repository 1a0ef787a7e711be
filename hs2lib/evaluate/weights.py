"""How to weigh the heads of a reward model: every weighting of a grid tried on pairs, counted exactly.

    best = search(margins)                                   # held-out preference pairs: 21^5 = 4,084,101 weightings
    best = search(margins, parts=subsets, objective=...)     # the paper's way, on RewardBench's overall
    honest = cross_fit(margins, ...)                         # how much the best value overstates

Paper: appendix H gives weights for five heads, searched on RewardBench itself, and no method. The clean way (Ahrabian
et al., arXiv 2505.10775) takes held-out preference pairs and the grid {0, .05 .. 1}^4 x {0 .. -1}. Both are here.

A pair is right if the weighted margin, chosen - rejected, is above 0; a tie is wrong. Ties are real (equal scores,
weights that cancel), and sums in floating point would call some of them wins, depending on the order of the sum. So
margins are put on a fixed point: whole multiples of a power of two, small enough that with whole grid steps as weights
every sum is a whole number below 2^53, which float64 holds exactly in any order. The step is a common factor, no more.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import numpy as np

from hs2lib.evaluate import rewardbench
from hs2lib.group import ATTRIBUTES
from hs2lib.models import baselines

Objective = Callable[[np.ndarray, np.ndarray], np.ndarray]  # right [parts, n], pairs [parts] -> value [n]

BYTES = 1 << 20  # of sums worked on at a time: they stay in the processor's own cache


@dataclass(frozen=True)
class Grid:
    """Weights tried for each output: `levels[a]` whole steps of size `unit`."""

    unit: float
    levels: tuple[tuple[int, ...], ...]

    def __len__(self) -> int:
        return int(np.prod([len(levels) for levels in self.levels]))

    def weights(self, index: np.ndarray) -> np.ndarray:
        """The weightings [n, A] with the numbers `index` [n]; the last output's level changes fastest."""
        places = np.unravel_index(index, [len(levels) for levels in self.levels])
        # Divided, not multiplied: 13 / 20 is .65, 13 * .05 is not.
        steps = [np.array(levels)[place] for levels, place in zip(self.levels, places, strict=True)]
        return np.stack(steps, axis=-1) / round(1 / self.unit)


def grid(step: float = 0.05, outputs: Sequence[str] = ATTRIBUTES, negative: Sequence[str] = ("verbosity",)) -> Grid:
    """Weights 0, step .. 1 for each output, 0, -step .. -1 for those in `negative`.

    Paper: silent; the defaults are the grid of Ahrabian et al. Raises ValueError for a step that does not divide 1.
    """
    steps = round(1 / step) if step > 0 else 0
    if steps < 1 or abs(steps * step - 1) > 1e-9:
        raise ValueError(f"the step has to divide 1 (as .05, .1, .25), got {step}")
    return Grid(step, tuple(tuple(range(0, -steps - 1, -1) if o in negative else range(steps + 1)) for o in outputs))


class BestWeights(NamedTuple):
    """The best weighting: weights [A], and its value. values: of every weighting, in the shape of the grid."""

    weights: tuple[float, ...]
    value: float
    values: np.ndarray


def share_right(right: np.ndarray, pairs: np.ndarray) -> np.ndarray:
    """The default objective: the share of all pairs that are right."""
    return right.sum(axis=0) / pairs.sum()


def of_benchmark(benchmark) -> tuple[np.ndarray, Objective]:
    """(parts, objective) for the search on a benchmark: its overall, or the share of right pairs where it has none.

    Paper: appendix H (weights searched on RewardBench itself). benchmark: `hs2lib.data.pairs.Benchmark`.
    """

    subsets = [rewardbench.subset_of(pair) for pair in benchmark.pairs]
    names = list(dict.fromkeys(subsets))
    parts = np.array([names.index(name) for name in subsets])
    whole = benchmark.generated or rewardbench.title(benchmark) == "RewardBench"
    if not whole or "overall" not in rewardbench.section_scores(dict.fromkeys(names, 0.0)):
        return parts, share_right

    def overall(right: np.ndarray, pairs: np.ndarray) -> np.ndarray:
        return rewardbench.section_scores(dict(zip(names, right / pairs[:, None], strict=True)))["overall"]

    return parts, overall


def search(margins: np.ndarray, *, over=None, parts=None, objective: Objective = share_right) -> BestWeights:
    """Try every weighting of the grid and return the best.

    margins [pairs, A]: chosen - rejected, by output. over: a `Grid`, by default that of `grid`. parts: int [pairs], the
    part (subset) each pair belongs to, and objective(right [parts, n], pairs [parts]) -> [n], what is to be as large as
    possible; by default the share of right pairs. Of weightings that do equally well the one nearest their mean is
    taken: a plateau's middle, not its edge. Raises ValueError for shapes that do not fit, no pairs, or margins that are
    not finite.
    """
    margins, parts, over = _checked(margins, parts, over)
    values = np.empty(len(over))
    sizes = np.bincount(parts)
    for start, right in _counts(fixed_point(margins, over), parts, over):
        values[start : start + right.shape[1]] = objective(right, sizes)
    return _best(values, over)


def _best(values: np.ndarray, over: Grid) -> BestWeights:
    best = values.max()
    tied = over.weights(np.flatnonzero(values == best))
    nearest = tied[((tied - tied.mean(axis=0)) ** 2).sum(axis=1).round(9).argmin()]
    return BestWeights(tuple(nearest.tolist()), float(best), values.reshape([len(levels) for levels in over.levels]))


def value_of(weights: Sequence[float], margins: np.ndarray, **on) -> float:
    """The objective of one weighting, also off the grid (the paper's own, say); counted as `search` counts.

    on: parts and objective of `search`. Weights are taken as multiples of .0001. Raises ValueError where one is no such
    multiple.
    """
    steps = np.round(np.asarray(weights, dtype=np.float64) * 10_000)
    if np.abs(steps / 10_000 - weights).max() > 1e-12:
        raise ValueError(f"expected weights with up to four decimals, got {list(weights)}")
    return search(margins, over=Grid(0.0001, tuple((int(step),) for step in steps)), **on).value


class CrossFit(NamedTuple):
    """best: on all pairs; fitted: the value with every pair judged by weights searched without its fold; overstated:
    the difference of the two; weights [folds, A]: those of each fold."""

    best: BestWeights
    fitted: float
    overstated: float
    weights: np.ndarray


def cross_fit(
    margins: np.ndarray, *, over=None, parts=None, objective=share_right, clusters=None, folds: int = 5, seed: int = 0
) -> CrossFit:
    """How much weights searched on some pairs overstate on those same pairs.

    Paper: silent; it searches on RewardBench and reports RewardBench. Pairs are dealt into folds (within each part, and
    pairs of one cluster together); each fold is judged by the weights that are best on the others. One pass over the
    grid serves all folds. clusters: int [pairs], pairs that share a prompt. Other arguments and errors as `search`.
    """
    margins, parts, over = _checked(margins, parts, over)
    if folds < 2:
        raise ValueError(f"expected at least 2 folds, got {folds}")
    clusters = np.arange(len(margins)) if clusters is None else clusters
    fold = baselines.folds(clusters, folds, seed, parts)
    n_parts = int(parts.max()) + 1
    fixed = fixed_point(margins, over)
    both = fold * n_parts + parts
    sizes = np.bincount(both, minlength=folds * n_parts).reshape(folds, n_parts)
    without = sizes.sum(axis=0) - sizes
    # The share of right pairs, which own pairs are searched on, needs no pair of each part in the other folds.
    if objective is not share_right and (without[:, np.bincount(parts) > 0] == 0).any():
        raise ValueError(f"a part has all its pairs in one of {folds} folds: take fewer folds, or coarser parts")
    values = np.empty((folds + 1, len(over)))
    for start, right in _counts(fixed, both, over, folds * n_parts):
        right = right.reshape(folds, n_parts, -1)
        all_right = right.sum(axis=0)
        stop = start + right.shape[2]
        values[folds, start:stop] = objective(all_right, sizes.sum(axis=0))
        for k in range(folds):
            values[k, start:stop] = objective(all_right - right[k], without[k])
    best = _best(values[folds], over)
    chosen = [_best(values[k], over).weights for k in range(folds)]
    # Every pair judged once, by weights that never saw it, and the parts then put together as always.
    right = np.zeros((n_parts, 1))
    for k, weights in enumerate(chosen):
        wins = fixed @ np.round(np.array(weights) * round(1 / over.unit)) > 0
        right[:, 0] += np.bincount(parts[(fold == k) & wins], minlength=n_parts)
    fitted = float(objective(right, sizes.sum(axis=0))[0])
    return CrossFit(best, fitted, best.value - fitted, np.array(chosen))


def fixed_point(margins: np.ndarray, over: Grid) -> np.ndarray:
    """Margins as whole numbers (in float64), in units of a power of two that keeps every weighted sum below 2^53.

    Returns [pairs, A]. Scores of a float32 model are whole there, down to 2^-40 or so; a finer margin is moved by less
    than the last bit.
    """
    most = sum(max(map(abs, levels)) for levels in over.levels)
    largest = np.abs(margins).max() * max(most, 1)
    return np.rint(margins * (2.0 ** (52 - int(np.ceil(np.log2(largest)))) if largest else 1.0))


def _counts(fixed: np.ndarray, parts: np.ndarray, over: Grid, n_parts: int | None = None):
    """Yield (number of the first weighting, right [parts, n]): in grid order, the last output's level fastest."""
    n_parts = int(parts.max()) + 1 if n_parts is None else n_parts
    order = np.argsort(parts, kind="stable")
    fixed = fixed[order]
    bounds = np.searchsorted(parts[order], np.arange(n_parts + 1))
    *first, last = over.levels
    heads = np.array(list(product(*first)), dtype=np.float64).reshape(-1, len(first))
    chunk = max(64, BYTES // (8 * len(fixed)))
    own = fixed[:, -1:]
    for at in range(0, len(heads), chunk):
        part = heads[at : at + chunk]
        sums = fixed[:, :-1] @ part.T if len(first) else np.zeros((len(fixed), 1))
        right = np.empty((n_parts, len(part), len(last)), dtype=np.int64)
        before, mask = 0, np.empty(sums.shape, dtype=bool)
        for j, level in enumerate(last):
            if level != before:
                sums += (level - before) * own  # the one pass per weighting; all of it whole numbers
                before = level
            np.greater(sums, 0, out=mask)
            for p in range(n_parts):
                rows = mask[bounds[p] : bounds[p + 1]].view(np.uint8)
                right[p, :, j] = rows.sum(axis=0, dtype=np.uint16 if len(rows) < 65_536 else np.int64)
        yield at * len(last), right.reshape(n_parts, -1)


def _checked(margins, parts, over) -> tuple[np.ndarray, np.ndarray, Grid]:
    margins = np.asarray(margins, dtype=np.float64)
    over = grid() if over is None else over
    if margins.ndim != 2 or not len(margins) or margins.shape[1] != len(over.levels):
        expected = f"[pairs, {len(over.levels)}] of at least one pair"
        raise ValueError(f"expected margins {expected}, got shape {margins.shape}")
    if not np.isfinite(margins).all():
        raise ValueError("margins hold nan or infinity")
    parts = np.zeros(len(margins), dtype=np.int64) if parts is None else np.asarray(parts)
    if parts.shape != (len(margins),) or parts.min() < 0:
        raise ValueError(f"parts are whole numbers from 0, one for each of {len(margins)} pairs, got {parts.shape}")
    return margins, parts, over
