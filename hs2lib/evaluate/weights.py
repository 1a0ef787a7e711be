"""How to weigh the heads of a reward model: a grid of weightings tried on pairs, counted exactly.

    best = search(margins)                   # held-out pairs: 21^5 = 4,084,101 weightings
    best = search(margins, parts=subsets, objective=...)  # as the paper, on RewardBench's overall
    honest = cross_fit(margins, ...)         # how much the best value overstates

Paper: appendix H gives weights for five heads, searched on RewardBench itself, and no method. The
clean way (Ahrabian et al., arXiv 2505.10775) takes held-out preference pairs and the grid {0, .05
.. 1}^4 x {0 .. -1}. Both are here.

A pair is right if the weighted margin, chosen - rejected, is above 0; a tie is wrong. Ties are real
(equal scores, weights that cancel). Sums in floating point would call some of them wins, depending
on the order of the sum. So margins are put on a fixed point: whole multiples of a power of two. The
power is so small that, with whole grid steps as weights, every sum is a whole number below 2^53.
Such numbers float64 holds exactly in any order. The step is a common factor, no more.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import numpy as np

from hs2lib.data.load import WORLDS, Loaded, load
from hs2lib.data.pairs import Benchmark, preferred_pairs
from hs2lib.evaluate import rewardbench
from hs2lib.evaluate.rewardbench import Scored, Weighting, weighting_of
from hs2lib.group import ATTRIBUTES
from hs2lib.models import baselines
from hs2lib.models.reward_model import RewardModel
from hs2lib.runs.setup import Setup

# From the number of right pairs [parts, n] and of all pairs [parts] to a value [n] of each of n
# weightings.
Objective = Callable[[np.ndarray, np.ndarray], np.ndarray]

BYTES = 1 << 20  # of sums worked on at a time: they stay in the processor's own cache


@dataclass(frozen=True)
class Grid:
    """Weights tried for each output: `levels[a]` whole steps of size `unit`."""

    unit: float
    levels: tuple[tuple[int, ...], ...]

    def __len__(self) -> int:
        return int(np.prod([len(levels) for levels in self.levels]))

    def weights(self, index: np.ndarray) -> np.ndarray:
        """The weightings [n, A] with the numbers `index` [n].

        The last output's level changes fastest.
        """
        level_numbers = np.unravel_index(index, [len(levels) for levels in self.levels])
        steps = []
        for levels, numbers in zip(self.levels, level_numbers, strict=True):
            steps.append(np.array(levels)[numbers])  # [n]
        # Divided, not multiplied: 13 / 20 is .65, 13 * .05 is not.
        return np.stack(steps, axis=-1) / round(1 / self.unit)


def grid(
    step: float = 0.05,
    outputs: Sequence[str] = ATTRIBUTES,
    negative: Sequence[str] = ("verbosity",),
) -> Grid:
    """Weights 0, step .. 1 for each output, and 0, -step .. -1 for those in `negative`.

    Paper: silent; the defaults are the grid of Ahrabian et al. Raises ValueError for a step that
    does not divide 1.
    """
    n_steps = round(1 / step) if step > 0 else 0
    if n_steps < 1 or abs(n_steps * step - 1) > 1e-9:
        raise ValueError(f"the step has to divide 1 (as .05, .1, .25), got {step}")
    upwards = tuple(range(n_steps + 1))
    downwards = tuple(range(0, -n_steps - 1, -1))
    return Grid(step, tuple(downwards if name in negative else upwards for name in outputs))


class BestWeights(NamedTuple):
    """The best weighting.

    weights: of each output [A].
    value: what they reach.
    values: of every weighting, in the shape of the grid.
    """

    weights: tuple[float, ...]
    value: float
    values: np.ndarray


def share_right(right: np.ndarray, pairs: np.ndarray) -> np.ndarray:
    """The default objective: the share of all pairs that are right."""
    return right.sum(axis=0) / pairs.sum()


def of_benchmark(benchmark: Benchmark) -> tuple[np.ndarray, Objective]:
    """(parts, objective) for the search on a benchmark: its overall, else the share of right pairs.

    Paper: appendix H (weights searched on RewardBench itself). The share of right pairs is taken of
    a benchmark that has no overall. Returns parts int [pairs], the number of each pair's subset.
    """
    subsets = [rewardbench.subset_of(pair) for pair in benchmark.pairs]
    names = list(dict.fromkeys(subsets))
    parts = np.array([names.index(name) for name in subsets])  # [pairs]
    whole = benchmark.generated or rewardbench.title(benchmark) == "RewardBench"
    if not whole or "overall" not in rewardbench.section_scores(dict.fromkeys(names, 0.0)):
        return parts, share_right

    def overall(right: np.ndarray, pairs: np.ndarray) -> np.ndarray:
        accuracies = dict(zip(names, right / pairs[:, None], strict=True))
        return rewardbench.section_scores(accuracies)["overall"]

    return parts, overall


def search(
    margins: np.ndarray,
    *,
    over: Grid | None = None,
    parts: np.ndarray | None = None,
    objective: Objective = share_right,
) -> BestWeights:
    """Try every weighting of the grid and return the best.

    Of weightings that do equally well the one nearest their mean is taken: a plateau's middle, not
    its edge.

    margins: [pairs, A], chosen - rejected by output.
    over: the grid; None for the one that `grid` gives by default.
    parts: int [pairs], the part (subset) that each pair belongs to; None for one part.
    objective: from the right pairs [parts, n] and all pairs [parts] to [n], what is to be as large
        as possible.

    Raises ValueError for shapes that do not fit, no pairs, or margins that are not finite.
    """
    margins, parts, over = _checked(margins, parts, over)
    by_part = np.argsort(parts, kind="stable")  # [pairs]
    fixed = fixed_point(margins, over)[by_part]  # [pairs, A]
    part_sizes = np.bincount(parts)  # [parts]
    bounds = np.cumsum([0, *part_sizes])  # part p has the pairs bounds[p] to bounds[p + 1]
    *other_levels, last_levels = over.levels
    other_weights = np.array(list(product(*other_levels)), dtype=np.float64)  # [n, A - 1]
    chunk = max(64, BYTES // (8 * len(fixed)))
    values = []
    for start in range(0, len(other_weights), chunk):
        sums = fixed[:, :-1] @ other_weights[start : start + chunk].T  # [pairs, n]
        right = np.empty((len(part_sizes), sums.shape[1], len(last_levels)), dtype=np.int64)
        for j, level in enumerate(last_levels):
            level_right = (sums + level * fixed[:, -1:] > 0).view(np.uint8)  # all whole numbers
            for p in range(len(part_sizes)):
                in_part = level_right[bounds[p] : bounds[p + 1]]
                right[p, :, j] = in_part.sum(axis=0, dtype=np.uint32)
        values.append(objective(right.reshape(len(part_sizes), -1), part_sizes))
    values = np.concatenate(values)  # [weightings]
    tied = over.weights(np.flatnonzero(values == values.max()))  # [tied, A]
    distances = ((tied - tied.mean(axis=0)) ** 2).sum(axis=1)  # [tied]
    nearest = tied[distances.round(9).argmin()]
    shape = [len(levels) for levels in over.levels]
    return BestWeights(tuple(nearest.tolist()), float(values.max()), values.reshape(shape))


def value_of(weights: Sequence[float], margins: np.ndarray, **options: object) -> float:
    """The objective of one weighting, counted as `search` counts; it may lie off the grid.

    weights: multiples of .0001, as the paper's own are.
    margins: as for `search`.
    options: parts and objective of `search`.

    Raises ValueError where a weight is no such multiple.
    """
    return search(margins, over=_alone(weights), **options).value


def _alone(weights: Sequence[float]) -> Grid:
    """A grid of one weighting, which `value_of` takes."""
    steps = np.round(np.asarray(weights, dtype=np.float64) * 10_000)
    if np.abs(steps / 10_000 - weights).max() > 1e-12:
        raise ValueError(f"expected weights with up to four decimals, got {list(weights)}")
    return Grid(0.0001, tuple((int(step),) for step in steps))


class CrossFit(NamedTuple):
    """What a search promises, and what it keeps on pairs that it has not seen.

    best: the search on all pairs.
    fitted: the value with every pair judged by weights that were searched without its fold.
    overstated: the best value less the fitted one.
    weights: of each fold [folds, A].
    """

    best: BestWeights
    fitted: float
    overstated: float
    weights: np.ndarray


def cross_fit(
    margins: np.ndarray,
    *,
    over: Grid | None = None,
    parts: np.ndarray | None = None,
    objective: Objective = share_right,
    clusters: np.ndarray | None = None,
    folds: int = 5,
    seed: int = 0,
) -> CrossFit:
    """How much weights searched on some pairs overstate on those same pairs.

    Paper: silent; it searches on RewardBench and reports RewardBench. Pairs are dealt into folds
    within each part, and pairs of one cluster together. Each fold is judged by the weights that are
    best on the others.

    margins, over, parts, objective: as for `search`.
    clusters: int [pairs], pairs that share a prompt; None where each pair has its own.
    folds: at least 2.
    seed: of the folds.

    Raises ValueError as `search`, for fewer than two folds, and where a part has all its pairs in
    one fold.
    """
    margins, parts, over = _checked(margins, parts, over)
    if folds < 2:
        raise ValueError(f"expected at least 2 folds, got {folds}")
    if clusters is None:
        clusters = np.arange(len(margins))
    fold = baselines.folds(clusters, folds, seed, parts)  # [pairs]
    fixed = fixed_point(margins, over)  # [pairs, A]
    part_sizes = np.bincount(parts)  # [parts]
    right = np.zeros((len(part_sizes), 1))  # every pair judged once, by weights that never saw it
    weights_by_fold = []
    for k in range(folds):
        others = fold != k
        # The share of right pairs, which own pairs are searched on, needs no pair of each part in
        # the other folds.
        if objective is not share_right and set(parts) - set(parts[others]):
            raise ValueError(
                f"a part has all its pairs in one of {folds} folds: "
                "take fewer folds, or coarser parts"
            )
        best = search(margins[others], over=over, parts=parts[others], objective=objective)
        weights_by_fold.append(best.weights)
        steps = np.round(np.array(best.weights) * round(1 / over.unit))  # [A]
        fold_right = fixed @ steps > 0  # [pairs]
        right[:, 0] += np.bincount(parts[~others & fold_right], minlength=len(part_sizes))
    best = search(margins, over=over, parts=parts, objective=objective)
    fitted = float(objective(right, part_sizes)[0])
    return CrossFit(best, fitted, best.value - fitted, np.array(weights_by_fold))


def fixed_point(margins: np.ndarray, over: Grid) -> np.ndarray:
    """Margins [pairs, A] as whole numbers (in float64), in units of a power of two.

    The power keeps every weighted sum below 2^53. Scores of a float32 model are whole there, down
    to 2^-40 or so; a finer margin is moved by less than the last bit.
    """
    most_steps = sum(max(map(abs, levels)) for levels in over.levels)
    largest_sum = np.abs(margins).max() * max(most_steps, 1)
    scale = 1.0
    if largest_sum:
        scale = 2.0 ** (52 - int(np.ceil(np.log2(largest_sum))))
    return np.rint(margins * scale)


def _checked(
    margins: np.ndarray, parts: np.ndarray | None, over: Grid | None
) -> tuple[np.ndarray, np.ndarray, Grid]:
    """(margins, parts, over) as arrays and a grid, with the defaults in place of None."""
    margins = np.asarray(margins, dtype=np.float64)
    if over is None:
        over = grid()
    fits = margins.ndim == 2 and len(margins) and margins.shape[1] == len(over.levels)
    if not fits or not np.isfinite(margins).all():
        raise ValueError(
            f"expected margins [pairs, {len(over.levels)}] of at least one pair, "
            f"none nan or infinite, got shape {margins.shape}"
        )
    parts = np.zeros(len(margins), dtype=np.int64) if parts is None else np.asarray(parts)
    if parts.shape != (len(margins),) or parts.min() < 0:
        raise ValueError(
            f"parts are whole numbers from 0, one for each of {len(margins)} pairs, "
            f"got {parts.shape}"
        )
    return margins, parts, over


# The weights of a run


def chosen(model: RewardModel, setup: Setup) -> Weighting:
    """The weights of a model's outputs, as `rewardbench.weighting_of`."""
    return weighting_of(model.attributes, model.scales, setup.recipe.weighting)


# The search of a run


@dataclass(frozen=True)
class HeadSearch:
    """Every weighting of a grid, tried on a benchmark and on held-out pairs.

    outputs: their names [A].
    over: the grid.
    margins, held_out_margins: [pairs, A] each, chosen - rejected.
    parts, objective: of the search on the benchmark (`of_benchmark`).
    folds: how many `fit` has.
    fit: the search on the benchmark, cross-fitted.
    best_held_out: the search on the held-out pairs.
    source: the held-out pairs, as a source of data.
    """

    outputs: tuple[str, ...]
    over: Grid
    margins: np.ndarray
    held_out_margins: np.ndarray
    parts: np.ndarray
    objective: Objective
    folds: int
    fit: CrossFit
    best_held_out: BestWeights
    source: Loaded

    @property
    def measure(self) -> str:
        """What the search on the benchmark makes as large as possible, in words."""
        return "pairs right" if self.objective is share_right else "overall"

    def values_of(self, weights: Sequence[float]) -> tuple[float, float]:
        """What a weighting reaches on the benchmark, and its share of held-out pairs right."""
        on_benchmark = value_of(weights, self.margins, parts=self.parts, objective=self.objective)
        return on_benchmark, value_of(weights, self.held_out_margins)


def margins_of(scored: Scored) -> np.ndarray:
    """Chosen - rejected of every pair and output, float64 [pairs, A]."""
    return scored.values[:, 0] - scored.values[:, 1]


def search_heads(scored: Scored, model: RewardModel, setup: Setup) -> HeadSearch | None:
    """Search weights on held-out pairs, which are scored here, and on the benchmark, cross-fitted.

    Paper: appendix H (a search on RewardBench itself). The held-out pairs are a preference where
    the data have one, else the more helpful response against the less helpful one. Several
    processes share the scoring out.

    Returns None where there is nothing to search: one output, one prompt, or pairs of another kind
    than the held-out ones. Raises as `hs2lib.data.load.load` and `cross_fit`.
    """
    recipe = setup.recipe
    benchmark = scored.benchmark
    prompts = rewardbench.prompt_numbers(benchmark)  # [pairs]
    same_kind = benchmark.generated or recipe.source not in WORLDS
    if len(model.attributes) == 1 or max(prompts) == 0 or not same_kind:
        return None
    # Of generated prompts those that no training text holds.
    loaded = load(
        recipe.held_out,
        recipe.source,
        split=recipe.held_out_split,
        n_prompts=recipe.n_held_out,
        seed=recipe.seed + 1,
    )
    pairs = preferred_pairs(loaded.groups, loaded.source).first(recipe.n_held_out)
    held_out = rewardbench.score_pairs(pairs, model, setup, "held-out")
    source = Loaded(
        list(held_out.benchmark.pairs),
        held_out.benchmark.source,
        loaded.generated,
        read=loaded.read,
    )
    parts, objective = of_benchmark(benchmark)
    over = grid(recipe.weight_step, model.attributes, recipe.negative)
    folds = min(recipe.folds, max(prompts) + 1)
    margins = margins_of(scored)
    held_out_margins = margins_of(held_out)
    fit = cross_fit(
        margins,
        over=over,
        parts=parts,
        objective=objective,
        clusters=prompts,
        folds=folds,
        seed=recipe.seed,
    )
    return HeadSearch(
        outputs=model.attributes,
        over=over,
        margins=margins,
        held_out_margins=held_out_margins,
        parts=parts,
        objective=objective,
        folds=folds,
        fit=fit,
        best_held_out=search(held_out_margins, over=over),
        source=source,
    )
