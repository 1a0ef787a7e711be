"""How to weigh the heads of a reward model: every weighting of a grid tried on pairs, counted
exactly.

    best = search(margins)                                   # held-out preference pairs: 21^5 = 4,084,101 weightings
    best = search(margins, parts=subsets, objective=...)     # the paper's way, on RewardBench's overall
    honest = cross_fit(margins, ...)                         # how much the best value overstates

Paper: appendix H gives weights for five heads, searched on RewardBench itself, and no method. The
clean way (Ahrabian et al., arXiv 2505.10775) takes held-out preference pairs and the grid {0, .05
.. 1}^4 x {0 .. -1}. Both are here.

A pair is right if the weighted margin, chosen - rejected, is above 0; a tie is wrong. Ties are real
(equal scores, weights that cancel), and sums in floating point would call some of them wins,
depending on the order of the sum. So margins are put on a fixed point: whole multiples of a power
of two, small enough that with whole grid steps as weights every sum is a whole number below 2^53,
which float64 holds exactly in any order. The step is a common factor, no more.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import numpy as np
import pandas as pd

from hs2lib import paper
from hs2lib.data.load import Loaded, load
from hs2lib.data.pairs import preferred
from hs2lib.evaluate import rewardbench
from hs2lib.evaluate.rewardbench import Scored
from hs2lib.group import ATTRIBUTES
from hs2lib.models import baselines
from hs2lib.models.reward_model import RewardModel
from hs2lib.run.setup import Setup

Objective = Callable[
    [np.ndarray, np.ndarray], np.ndarray
]  # right [parts, n], pairs [parts] -> value [n]

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


def grid(
    step: float = 0.05,
    outputs: Sequence[str] = ATTRIBUTES,
    negative: Sequence[str] = ("verbosity",),
) -> Grid:
    """Weights 0, step .. 1 for each output, 0, -step .. -1 for those in `negative`.

    Paper: silent; the defaults are the grid of Ahrabian et al. Raises ValueError for a step that
    does not divide 1.
    """
    steps = round(1 / step) if step > 0 else 0
    if steps < 1 or abs(steps * step - 1) > 1e-9:
        raise ValueError(f"the step has to divide 1 (as .05, .1, .25), got {step}")
    return Grid(
        step,
        tuple(
            tuple(range(0, -steps - 1, -1) if o in negative else range(steps + 1)) for o in outputs
        ),
    )


class BestWeights(NamedTuple):
    """The best weighting: weights [A], and its value. values: of every weighting, in the shape of the grid."""

    weights: tuple[float, ...]
    value: float
    values: np.ndarray


def share_right(right: np.ndarray, pairs: np.ndarray) -> np.ndarray:
    """The default objective: the share of all pairs that are right."""
    return right.sum(axis=0) / pairs.sum()


def of_benchmark(benchmark) -> tuple[np.ndarray, Objective]:
    """(parts, objective) for the search on a benchmark: its overall, or the share of right pairs
    where it has none.

    Paper: appendix H (weights searched on RewardBench itself). benchmark:
    `hs2lib.data.pairs.Benchmark`.
    """

    subsets = [rewardbench.subset_of(pair) for pair in benchmark.pairs]
    names = list(dict.fromkeys(subsets))
    parts = np.array([names.index(name) for name in subsets])
    whole = benchmark.generated or rewardbench.title(benchmark) == "RewardBench"
    if not whole or "overall" not in rewardbench.section_scores(dict.fromkeys(names, 0.0)):
        return parts, share_right

    def overall(right: np.ndarray, pairs: np.ndarray) -> np.ndarray:
        return rewardbench.section_scores(dict(zip(names, right / pairs[:, None], strict=True)))[
            "overall"
        ]

    return parts, overall


def search(
    margins: np.ndarray, *, over=None, parts=None, objective: Objective = share_right
) -> BestWeights:
    """Try every weighting of the grid and return the best.

    margins [pairs, A]: chosen - rejected, by output. over: a `Grid`, by default that of `grid`.
    parts: int [pairs], the part (subset) each pair belongs to, and objective(right [parts, n],
    pairs [parts]) -> [n], what is to be as large as possible; by default the share of right pairs.
    Of weightings that do equally well the one nearest their mean is taken: a plateau's middle, not
    its edge. Raises ValueError for shapes that do not fit, no pairs, or margins that are not
    finite.
    """
    margins, parts, over = _checked(margins, parts, over)
    fixed = fixed_point(margins, over)[np.argsort(parts, kind="stable")]
    sizes, values = np.bincount(parts), []  # [parts]
    bounds = np.cumsum([0, *sizes])
    *first, last = over.levels
    heads = np.array(list(product(*first)), dtype=np.float64)  # [n, A - 1]
    chunk = max(64, BYTES // (8 * len(fixed)))
    for at in range(0, len(heads), chunk):
        sums = fixed[:, :-1] @ heads[at : at + chunk].T  # [pairs, n]
        right = np.empty((len(sizes), sums.shape[1], len(last)), dtype=np.int64)
        for j, level in enumerate(last):
            mask = (sums + level * fixed[:, -1:] > 0).view(np.uint8)  # all of it whole numbers
            for p in range(len(sizes)):
                right[p, :, j] = mask[bounds[p] : bounds[p + 1]].sum(axis=0, dtype=np.uint32)
        values.append(objective(right.reshape(len(sizes), -1), sizes))
    values = np.concatenate(values)  # [weightings]
    tied = over.weights(np.flatnonzero(values == values.max()))
    nearest = tied[((tied - tied.mean(axis=0)) ** 2).sum(axis=1).round(9).argmin()]
    shape = [len(levels) for levels in over.levels]
    return BestWeights(tuple(nearest.tolist()), float(values.max()), values.reshape(shape))


def value_of(weights: Sequence[float], margins: np.ndarray, **on) -> float:
    """The objective of one weighting, also off the grid (the paper's own, say); counted as `search`
    counts.

    on: parts and objective of `search`. Weights are taken as multiples of .0001. Raises ValueError
    where one is no such multiple.
    """
    steps = np.round(np.asarray(weights, dtype=np.float64) * 10_000)
    if np.abs(steps / 10_000 - weights).max() > 1e-12:
        raise ValueError(f"expected weights with up to four decimals, got {list(weights)}")
    return search(margins, over=Grid(0.0001, tuple((int(step),) for step in steps)), **on).value


class CrossFit(NamedTuple):
    """best: on all pairs; fitted: the value with every pair judged by weights searched without its
    fold; overstated: the difference of the two; weights [folds, A]: those of each fold."""

    best: BestWeights
    fitted: float
    overstated: float
    weights: np.ndarray


def cross_fit(
    margins: np.ndarray,
    *,
    over: Grid | None = None,
    parts=None,
    objective: Objective = share_right,
    clusters=None,
    folds=5,
    seed=0,
) -> CrossFit:
    """How much weights searched on some pairs overstate on those same pairs.

    Paper: silent; it searches on RewardBench and reports RewardBench. Pairs are dealt into folds
    (within each part, and pairs of one cluster together); each fold is judged by the weights that
    are best on the others. clusters: int [pairs], pairs that share a prompt. Other arguments and
    errors as `search`.
    """
    margins, parts, over = _checked(margins, parts, over)
    if folds < 2:
        raise ValueError(f"expected at least 2 folds, got {folds}")
    fold = baselines.folds(
        np.arange(len(margins)) if clusters is None else clusters, folds, seed, parts
    )
    fixed, sizes, chosen = fixed_point(margins, over), np.bincount(parts), []
    right = np.zeros((len(sizes), 1))  # of every pair judged once, by weights that never saw it
    for k in range(folds):
        others = fold != k
        # The share of right pairs, which own pairs are searched on, needs no pair of each part in
        # the other folds.
        if objective is not share_right and set(parts) - set(parts[others]):
            raise ValueError(
                f"a part has all its pairs in one of {folds} folds: take fewer folds, or coarser parts"
            )
        chosen.append(
            search(margins[others], over=over, parts=parts[others], objective=objective).weights
        )
        wins = fixed @ np.round(np.array(chosen[-1]) * round(1 / over.unit)) > 0
        right[:, 0] += np.bincount(parts[~others & wins], minlength=len(sizes))
    best = search(margins, over=over, parts=parts, objective=objective)
    fitted = float(objective(right, sizes)[0])
    return CrossFit(best, fitted, best.value - fitted, np.array(chosen))


def fixed_point(margins: np.ndarray, over: Grid) -> np.ndarray:
    """Margins as whole numbers (in float64), in units of a power of two that keeps every weighted
    sum below 2^53.

    Returns [pairs, A]. Scores of a float32 model are whole there, down to 2^-40 or so; a finer
    margin is moved by less than the last bit.
    """
    most = sum(max(map(abs, levels)) for levels in over.levels)
    largest = np.abs(margins).max() * max(most, 1)
    return np.rint(margins * (2.0 ** (52 - int(np.ceil(np.log2(largest)))) if largest else 1.0))


def _checked(margins, parts, over) -> tuple[np.ndarray, np.ndarray, Grid]:
    margins = np.asarray(margins, dtype=np.float64)
    over = grid() if over is None else over
    fits = margins.ndim == 2 and len(margins) and margins.shape[1] == len(over.levels)
    if not fits or not np.isfinite(margins).all():
        expected = f"[pairs, {len(over.levels)}] of at least one pair, none nan or infinite"
        raise ValueError(f"expected margins {expected}, got shape {margins.shape}")
    parts = np.zeros(len(margins), dtype=np.int64) if parts is None else np.asarray(parts)
    if parts.shape != (len(margins),) or parts.min() < 0:
        raise ValueError(
            f"parts are whole numbers from 0, one for each of {len(margins)} pairs, got {parts.shape}"
        )
    return margins, parts, over


# The weights of a run


USUAL = (
    "Llama 3 70B w. HelpSteer2"  # the row of Table 3 whose weights are taken where none are named
)


class Weighting(NamedTuple):
    """Head weights, float64 [A], and what to call them."""

    name: str
    values: np.ndarray

    @property
    def title(self) -> str:
        """What a table calls them: those of a row of Table 3 are the paper's."""
        return "the paper's weights" if self.name in paper.TABLES["table-3"].rows else self.name


def chosen(model: RewardModel, setup: Setup) -> Weighting:
    """The weights that the recipe names, else those of the paper's 70B model; a single output
    counts as it is.

    Paper: appendix H. Raises as `hs2lib.paper.head_weights`.
    """
    named = setup.recipe.weighting
    if len(model.attributes) == 1 and not named:
        return Weighting("its one output", np.ones(1))
    name = named or USUAL
    return Weighting(name, np.array(paper.head_weights(name, model.attributes)))


# The search of a run


@dataclass(frozen=True)
class HeadSearch:
    """Every weighting of a grid, tried on a benchmark and on held-out pairs.

    outputs: their names [A]. margins [pairs, A] and held_out_margins [pairs, A]: chosen - rejected.
    parts, objective: of the search on the benchmark (`of_benchmark`). fit: the search on the
    benchmark, and cross-fitted in so many folds; best_held_out: the search on the held-out pairs.
    source: these, as a source of data.
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
        """What a weighting reaches on the benchmark, and the share of held-out pairs it has right."""
        on_benchmark = value_of(weights, self.margins, parts=self.parts, objective=self.objective)
        return on_benchmark, value_of(weights, self.held_out_margins)


def margins_of(scored: Scored) -> np.ndarray:
    """Chosen - rejected of every pair and output, float64 [pairs, A]."""
    return scored.values[:, 0] - scored.values[:, 1]


def search_heads(scored: Scored, model: RewardModel, setup: Setup) -> HeadSearch | None:
    """Score held-out pairs, search weights on them and on the benchmark, and cross-fit the latter.

    Paper: appendix H (a search on RewardBench itself). The held-out pairs are a preference where
    the data have one, else the more helpful response against the less helpful one. None where there
    is nothing to search: one output, one prompt, or pairs of another kind than the held-out ones.
    Several processes share the scoring out. Raises as `hs2lib.data.load.load` and `cross_fit`.
    """
    recipe = setup.recipe
    benchmark = scored.benchmark
    prompts = rewardbench.prompt_numbers(benchmark)
    same_kind = benchmark.generated or recipe.source != "embedded"
    if len(model.attributes) == 1 or max(prompts) == 0 or not same_kind:
        return None
    # Of generated prompts those that no training text holds.
    others = load(
        recipe.held_out,
        recipe.source,
        split=recipe.held_out_split,
        n_prompts=recipe.n_held_out,
        seed=recipe.seed + 1,
    )
    pairs = preferred(others.groups, others.source).first(recipe.n_held_out)
    held_out = rewardbench.score_pairs(pairs, model, setup, "held-out")
    source = Loaded(
        list(held_out.benchmark.pairs),
        held_out.benchmark.source,
        others.generated,
        read=others.read,
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
    best = search(held_out_margins, over=over)
    return HeadSearch(
        model.attributes,
        over,
        margins,
        held_out_margins,
        parts,
        objective,
        folds,
        fit,
        best,
        source,
    )


ON_HELD_OUT, ON_BENCHMARK = "searched on held-out pairs", "searched on the benchmark"


def compare(search: HeadSearch, weighting: Weighting) -> pd.DataFrame:
    """Weightings side by side, in percent: the run's, goodness, each output alone, and those that
    searches gave.

    Rows: weighting, the weights by output, what they reach on the benchmark and on the held-out
    pairs. The last row has the mean weights over the folds, and what they reach on pairs that they
    have not seen.
    """
    tried = {weighting.title: weighting.values}
    if set(paper.GOODNESS) <= set(search.outputs):
        tried["goodness"] = paper.head_weights("goodness", search.outputs)
    for name, alone in zip(search.outputs, np.eye(len(search.outputs)), strict=True):
        tried[f"{name} alone"] = alone
    tried[ON_HELD_OUT] = search.best_held_out.weights
    tried[ON_BENCHMARK] = search.fit.best.weights
    rows = [(name, *weights, *search.values_of(weights)) for name, weights in tried.items()]
    rows.append(
        (
            f"{ON_BENCHMARK}, cross-fitted",
            *search.fit.weights.mean(axis=0),
            search.fit.fitted,
            np.nan,
        )
    )
    columns = [
        "weighting",
        *search.outputs,
        f"benchmark, {search.measure} (%)",
        "held-out pairs right (%)",
    ]
    table = pd.DataFrame(rows, columns=columns)
    table.iloc[:, -2:] *= 100
    return table


def promise(search: HeadSearch | None) -> str:
    """What the search on the benchmark promises and what it keeps, in a sentence."""
    if search is None:
        return (
            "No search of weights: one output, one prompt, or no held-out pairs of the same kind."
        )
    fit = search.fit
    return (
        f"A search of weights on these pairs promises {100 * fit.best.value:.1f} % {search.measure}, and "
        f"{100 * fit.fitted:.1f} % on pairs it has not seen: it overstates by {100 * fit.overstated:.1f} points."
    )
