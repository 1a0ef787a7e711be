"""RewardBench: pairs scored by any reward model, and accuracies as in the paper's Table 3.

    benchmark = rewardbench.load_benchmark(setup)
    reward_model = rewardbench.load_model(setup)
    scored = rewardbench.score_pairs(benchmark, reward_model, setup)  # resumes a killed run
    result = rewardbench.evaluate(benchmark, scored.values @ w)       # of the pairs scored

A pair is right if the chosen response scores higher; a tie is wrong. A section is the mean of its
subsets weighted by their rows. The exception is math-prm, which counts as 984 rows, so that maths
and code weigh the same. Overall is the plain mean of the four sections. A part of the benchmark is
called partial wherever it appears, and has no overall.

Paper: section 3 (Table 3); RewardBench's leaderboard.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import pandas as pd

from hs2lib import paths
from hs2lib.data import held_out
from hs2lib.data.load import WORLDS, Loaded
from hs2lib.data.pairs import Benchmark, load_pairs
from hs2lib.evaluate.score import reasons
from hs2lib.evaluate.score import score as score_responses
from hs2lib.group import ATTRIBUTES, Group
from hs2lib.models.reward_model import RewardModel, load_reward_model
from hs2lib.models.saved import REWARD_MODEL, SOURCES, device
from hs2lib.paper import (
    REWARDBENCH_COUNTS,
    REWARDBENCH_SECTIONS,
    SUBSET_ACCURACY,
    TABLES,
    head_weights,
    value,
)
from hs2lib.runs.setup import Setup
from hs2lib.stats.bootstrap import bootstrap, difference, inside

# How many rows each subset counts as in the mean of its section.
WEIGHTS = {**REWARDBENCH_COUNTS, "math-prm": 984}

PRIOR_SETS = ("anthropic_helpful", "anthropic_hhh", "shp", "summarize")

BAR_FROM = 200  # pairs from which on a bar is worth its line

# The bases of notebook 05 that are named otherwise in words.
BASES_IN_WORDS = {"embedded": "SmolLM2-135M-Instruct", "postcards": "that of the postcards"}


def subset_of(pair: Group) -> str:
    """The subset of a pair: the first part of its id (for generated pairs, the section)."""
    return pair.id.partition("/")[0]


def section_scores(
    accuracy: Mapping[str, float], rows: Mapping[str, int] | None = None
) -> dict[str, float]:
    """Sections and overall from accuracies by subset, in whatever unit these have.

    Paper: Table 3. A section that lacks some of its subsets is named "<section> (partial)", and so
    is one whose subsets lack some of their pairs. "overall" is there only if all four sections are
    whole. If all four prior sets are there, so are "prior sets", their plain mean, and "overall
    with prior sets" (weights 2, 2, 2, 2, 1). A subset named like a section (generated pairs) is the
    section.

    accuracy: by subset.
    rows: the pairs of each subset; None where every subset has all its pairs.

    Raises ValueError for a subset of neither kind.
    """
    unknown = set(accuracy) - {*REWARDBENCH_COUNTS, *PRIOR_SETS, *REWARDBENCH_SECTIONS}
    if unknown:
        raise ValueError(
            f"{min(unknown)!r} is no subset of RewardBench; "
            f"there are {', '.join(REWARDBENCH_COUNTS)}"
        )
    counts = REWARDBENCH_COUNTS if rows is None else rows
    scores = {}
    for section, subsets in REWARDBENCH_SECTIONS.items():
        if section in accuracy:
            scores[section] = accuracy[section]
            continue
        present = [name for name in subsets if name in accuracy]
        if not present:
            continue
        total = sum(WEIGHTS[name] for name in present)
        score = sum(WEIGHTS[name] * accuracy[name] for name in present) / total
        complete = present == list(subsets) and all(
            counts[name] == REWARDBENCH_COUNTS[name] for name in present
        )
        scores[section if complete else f"{section} (partial)"] = score
    if all(section in scores for section in REWARDBENCH_SECTIONS):
        scores["overall"] = sum(scores[section] for section in REWARDBENCH_SECTIONS) / 4
    if all(name in accuracy for name in PRIOR_SETS):
        scores["prior sets"] = sum(accuracy[name] for name in PRIOR_SETS) / 4
        if "overall" in scores:
            scores["overall with prior sets"] = (8 * scores["overall"] + scores["prior sets"]) / 9
    return scores


def golden() -> pd.DataFrame:
    """Table 3 from the published accuracies by subset of two models: no result of ours.

    Paper: Table 3. Columns: model, column, re-averaged (%), paper (%), difference.
    """
    rows = []
    for model, by_subset in SUBSET_ACCURACY.items():
        percent = {name: 100 * share for name, share in by_subset.items()}
        for column, ours in section_scores(percent).items():
            printed = value("table-3", model, column)
            rows.append((model, column, ours, printed, ours - printed))
    columns = ["model", "column", "re-averaged (%)", "paper (%)", "difference"]
    return pd.DataFrame(rows, columns=columns)


def title(benchmark: Benchmark) -> str:
    """What a benchmark is called: "RewardBench" only if every official row is there."""
    if benchmark.kind == "generated":
        return "generated benchmark (not RewardBench)"
    if benchmark.kind == "own":
        return "own pairs (not RewardBench)"
    counts: Counter[str] = Counter()
    for pair in benchmark.pairs:
        subset = subset_of(pair)
        if subset not in PRIOR_SETS:
            counts[subset] += 1
    if counts == REWARDBENCH_COUNTS:
        return "RewardBench"
    subsets = f"{len(counts)} of {len(REWARDBENCH_COUNTS)} subsets"
    pairs = f"{sum(counts.values()):,} of {sum(REWARDBENCH_COUNTS.values()):,} pairs"
    return f"partial RewardBench ({subsets}, {pairs})"


# The weights of outputs

# The row of Table 3 whose weights are taken where none are named.
USUAL = "Llama 3 70B w. HelpSteer2"


class Weighting(NamedTuple):
    """Head weights, float64 [A], and their name."""

    name: str
    values: np.ndarray

    @property
    def title(self) -> str:
        """What a table calls them: those of a row of Table 3 are the paper's."""
        return "the paper's weights" if self.name in TABLES["table-3"].rows else self.name


def weighting_of(
    outputs: Sequence[str], scales: Mapping[str, tuple[float, float]], named: str = ""
) -> Weighting:
    """The weights that are named, else those of the paper's 70B model.

    Paper: appendix H. A single output counts as it is. Where people of one's own rated other
    attributes than the paper's, each counts alike, divided by the width of its scale.

    Args:
        outputs: of the model.
        scales: of outputs, the lowest and the highest of people's own ratings.
        named: a row of Table 3, goodness, or text as quality:1; "" for none of them.

    Raises:
        ValueError: as `hs2lib.paper.head_weights`.
    """
    if len(outputs) == 1 and not named:
        return Weighting("its one output", np.ones(1))
    if scales and not named and not set(ATTRIBUTES) <= set(outputs):
        widths = np.array([np.ptp(scales[name]) for name in outputs])  # [A]
        return Weighting("all outputs alike", 1 / widths / len(widths))
    name = named or USUAL
    return Weighting(name, np.array(head_weights(name, outputs)))


# The pairs and the model


def load_benchmark(setup: Setup) -> Benchmark:
    """The pairs that the recipe names: RewardBench or a part of it, generated ones, or a file.

    Where none are named and notebook 05 trained on rows of one's own, they are those that it held
    out. Paper: section 3 and Table 3. Raises as `hs2lib.data.pairs.load_pairs` and
    `hs2lib.data.held_out.pairs`.
    """
    recipe = setup.recipe
    left = setup.saved(REWARD_MODEL, held_out.FILE)
    if recipe.source in WORLDS and not (recipe.path or recipe.model) and left.is_file():
        model = RewardModel.described(setup.saved(REWARD_MODEL, "model"))
        weights = weighting_of(model["attributes"], model.get("scales", {}), recipe.weighting)
        by_name = dict(zip(model["attributes"], weights.values, strict=True))
        return held_out.pairs(left, by_name).first(recipe.limit)
    benchmark = load_pairs(
        recipe.source,
        path=recipe.path or None,
        prior_sets=recipe.prior_sets,
        n_per_section=recipe.n_per_section,
        seed=recipe.seed,
        strict=recipe.strict,
        columns=recipe.columns,
    )
    return benchmark.first(recipe.limit)


def as_source(benchmark: Benchmark) -> Loaded:
    """The pairs as a source of data, as `hs2lib.report.report.Run.source` takes it."""
    name = f"{title(benchmark)}: {benchmark.source}"
    return Loaded(
        list(benchmark.pairs),
        name,
        benchmark.generated,
        list(benchmark.set_aside),
        read=benchmark.read,
    )


def lengths(benchmark: Benchmark) -> np.ndarray:
    """Characters of both responses of every pair, float64 [pairs, 2], chosen first."""
    characters = []
    for pair in benchmark.pairs:
        characters.append([float(len(response.text)) for response in pair.responses])
    return np.array(characters)  # [pairs, 2]


def load_model(setup: Setup) -> RewardModel:
    """The reward model to evaluate: the recipe's `model`, else the one of notebook 05 at this tier.

    Paper: section 3. Tier smoke stands alone: without notebook 05 the model is the small base under
    a random head. Raises FileNotFoundError at another tier where notebook 05 has not ended, and as
    `load_reward_model`.
    """
    recipe = setup.recipe
    folder = setup.saved(REWARD_MODEL, "model")
    if recipe.model:
        model = load_reward_model(recipe.model, **recipe.written)
    elif folder.is_dir():
        model = load_reward_model(folder)
    elif setup.tier == "smoke":
        model = RewardModel.new("postcards", seed=recipe.seed)
    else:
        raise FileNotFoundError(
            f"{folder}: no reward model; first hs2 run --tier {setup.tier} 05, or set model"
        )
    model.control_text = recipe.control_text or model.control_text
    return model.to(device()).eval()


def described(model: RewardModel, setup: Setup) -> str:
    """The model of `load_model` in words: its repository and commit, or how notebook 05 made it."""
    repository = setup.recipe.model
    if repository:
        return f"{repository}@{model.revision}" if model.revision else repository
    folder = setup.saved(REWARD_MODEL, "model")
    if not folder.is_dir():
        return (
            "the small base under a random head "
            f"(notebook 05 has not been run at tier {setup.tier})"
        )
    base = BASES_IN_WORDS.get(model.base, model.base)
    sources = (folder / SOURCES).read_text().strip()
    return f"that of notebook 05, base {base}, trained on {sources}"


# Scores


class Scored(NamedTuple):
    """The scores of a benchmark's pairs.

    values: float64 [pairs, 2, A], chosen first.
    shortened: ids of the pairs whose prompt lost turns to fit the model.
    benchmark: the pairs that were scored.
    left_out: by id why other pairs are not in the benchmark.
    """

    values: np.ndarray
    shortened: tuple[str, ...]
    benchmark: Benchmark
    left_out: dict[str, str]


def score(
    benchmark: Benchmark,
    model: RewardModel,
    *,
    kept: str | Path | None = None,
    too_long: str = "raise",
    **options: object,
) -> Scored:
    """Score both responses of every pair with a reward model (`load_reward_model` opens any).

    With `kept`, a later call with the same model skips what is done, also after a kill. It ends
    with the same numbers bit for bit. A pair with a response that the model refuses
    (`control_text`) is left out.

    kept: where scores are kept as they come, the `cache` of RewardModel.score: a .jsonl file, or a
        folder in which each model has a file of its own.
    too_long: what happens to a pair that the model cannot read even without its older turns:
        "raise" or "leave out".
    options: of RewardModel.score (autocast, budget, progress).

    Raises ValueError for scores that are not finite, for a file of another model's scores, and
    where no pair is left.
    """
    frame = score_responses(model, benchmark.pairs, too_long=too_long, cache=kept, **options)
    left_out = reasons(frame)
    frame = frame[frame.left_out == ""]
    if frame.empty:
        reason = next(iter(left_out.values()), "there are none")
        raise ValueError(f"none of {len(benchmark.pairs)} pairs can be scored: {reason}")
    if left_out:
        benchmark = replace(
            benchmark,
            pairs=tuple(pair for pair in benchmark.pairs if pair.id not in left_out),
            source=f"{benchmark.source}, {len(left_out)} pairs left out",
        )
    shortened = tuple(frame[frame.dropped > 0].prompt.unique())
    values = frame[list(model.attributes)].to_numpy()  # [R, A]
    return Scored(values.reshape(len(benchmark.pairs), 2, -1), shortened, benchmark, left_out)


def score_pairs(
    benchmark: Benchmark, model: RewardModel, setup: Setup, name: str = "benchmark"
) -> Scored:
    """`score` as the recipe says, with a progress bar; scores are kept in the run folder.

    Several processes share the pairs out, and all of them call this alike.

    name: under which the scores are kept.
    """
    recipe = setup.recipe
    return score(
        benchmark,
        model,
        kept=setup.folder / "scores" / name,
        too_long=recipe.too_long,
        progress=len(benchmark.pairs) >= BAR_FROM,
        budget=recipe.budget,
        autocast=recipe.autocast,
    )


# Accuracy

# After a rule's name: the ends of the interval of a model's accuracy less the rule's, and of how
# many prompts the rule has fewer pairs right than the model, and more.
GAIN_LOW = ", gain low"
GAIN_HIGH = ", gain high"
N_ABOVE = " fewer right, prompts"
N_BELOW = " more right, prompts"


class Result(NamedTuple):
    """Accuracies in percent.

    title: names the benchmark.
    generated: whether the pairs are of the small world.
    table: a row for each subset, section and overall. Columns: part ("subset", "section",
        "overall"), name, pairs, ties, accuracy, low, high (95 % interval). For each rule that the
        scores were compared with the ends of the interval of their difference, paired by prompt,
        and the number of prompts of which the scores have more pairs right, and fewer.
    """

    title: str
    generated: bool
    table: pd.DataFrame

    @property
    def parts(self) -> pd.DataFrame:
        """The rows to draw: sections of generated pairs, subsets of others."""
        return self.table[self.table.part == ("section" if self.generated else "subset")]

    def paper_rows(self, row: str) -> pd.DataFrame:
        """Sections and overall as `against_paper("table-3", ..)` takes them.

        Empty unless the benchmark is whole. row: the row of Table 3 that they are held against.
        """
        rows = self.table.query("part != 'subset' and name != 'overall with prior sets'")
        if self.title != "RewardBench":
            rows = rows[:0]
        rows = (
            rows.rename(columns={"name": "column", "accuracy": "ours"})
            .assign(row=row)
            .reset_index(drop=True)
        )
        return rows[["row", "column", "ours", "low", "high"]]

    def save(self, path: str | Path, model: str) -> Path:
        """Write rewardbench's own result file, whole or not at all.

        It has accuracy (0 to 1) by subset, model, model_type and chat_template. For a partial or
        other benchmark it also has "benchmark", which says so.
        """
        subsets = self.table[self.table.part == "subset"]
        content: dict[str, float | str] = {}
        for name, accuracy in zip(subsets.name, subsets.accuracy, strict=True):
            content[name] = accuracy / 100
        content["model"] = model
        content["model_type"] = "Seq. Classifier"
        content["chat_template"] = "tokenizer"
        if self.title != "RewardBench":
            content["benchmark"] = self.title
        paths.write(Path(path), json.dumps(content, indent=4, sort_keys=True))
        return Path(path)


def evaluate(
    benchmark: Benchmark,
    scores: np.ndarray,
    rules: Mapping[str, np.ndarray] = MappingProxyType({}),
    *,
    n_boot: int = 1000,
    seed: int = 0,
) -> Result:
    """Accuracy by subset, section and overall, each with a 95 % interval by bootstrap over prompts.

    Paper: Table 3 (it prints no intervals). A tie counts as wrong. Pairs with one prompt are drawn
    together. Own pairs have subsets only.

    scores: [pairs, 2], chosen first; for A outputs these are `values @ weights`.
    rules: [pairs, 2] each by name, that the scores are compared with pair by pair.
    n_boot, seed: of the bootstrap.

    Raises ValueError for shapes that do not fit and for scores that are not finite.
    """
    scores = np.asarray(scores, dtype=np.float64)  # [pairs, 2]
    n_pairs = len(benchmark.pairs)
    if scores.shape != (n_pairs, 2) or not n_pairs or not np.isfinite(scores).all():
        raise ValueError(
            f"expected scores of shape ({n_pairs}, 2), none nan or infinite, got {scores.shape}; "
            "weigh several outputs into one first"
        )
    is_right = scores[:, 0] > scores[:, 1]  # [pairs]
    is_tie = scores[:, 0] == scores[:, 1]  # [pairs]
    subsets = [subset_of(pair) for pair in benchmark.pairs]
    names = _subset_names(benchmark, subsets)
    number_of_subset = np.array([names.index(name) for name in subsets])  # [pairs]
    is_member = number_of_subset[:, None] == np.arange(len(names))  # [pairs, subsets]
    pairs_by_subset = dict(zip(names, is_member.sum(axis=0).tolist(), strict=True))

    def sections(by_subset: dict) -> dict:
        """Sections and overall; own pairs have none."""
        if benchmark.kind == "own":
            return {}
        return section_scores(by_subset, pairs_by_subset)

    def accuracies(sums: np.ndarray) -> np.ndarray:
        """Percent right of subsets, sections and overall [B, parts], from sums [B, 2 subsets]."""
        by_subset = 100 * sums[:, : len(names)] / sums[:, len(names) :]  # [B, subsets]
        by_section = sections(dict(zip(names, by_subset.T, strict=True)))
        return np.column_stack([by_subset, *by_section.values()])

    def sums_of(is_right: np.ndarray) -> np.ndarray:
        """What each pair adds to the sums that `accuracies` takes, [pairs, 2 subsets]."""
        return np.hstack([is_member & is_right[:, None], is_member]).astype(np.float64)

    sums = sums_of(is_right)
    prompts = prompt_numbers(benchmark)
    interval = bootstrap(sums, prompts, accuracies, n_boot=n_boot, seed=seed)
    parts = [("subset", name, {name}) for name in names]
    for name in sections(dict.fromkeys(names, 0.0)):
        part = "overall" if name.startswith("overall") else "section"
        parts.append((part, name, _subsets_in(name, names)))
    rows = []
    n_prompts = []
    members = []  # of each part its pairs, [pairs]
    for part, name, included in parts:
        in_part = np.isin(subsets, list(included))  # [pairs]
        members.append(in_part)
        rows.append((part, name, int(in_part.sum()), int(is_tie[in_part].sum())))
        n_prompts.append(len(set(prompts[in_part])))
    table = pd.DataFrame(rows, columns=["part", "name", "pairs", "ties"])
    table["accuracy"], table["low"], table["high"] = inside(interval, 0, 100, n_prompts)
    for rule, by_rule in rules.items():
        of_rule = sums_of(by_rule[:, 0] > by_rule[:, 1])
        gain = difference(sums, of_rule, prompts, accuracies, n_boot=n_boot, seed=seed)
        table[f"{rule}{GAIN_LOW}"] = gain.low
        table[f"{rule}{GAIN_HIGH}"] = gain.high
        more = is_right.astype(int) - (by_rule[:, 0] > by_rule[:, 1])  # [pairs]
        by_part = [_prompts_apart(more[in_part], prompts[in_part]) for in_part in members]
        table[[f"{rule}{N_ABOVE}", f"{rule}{N_BELOW}"]] = by_part
    if benchmark.generated:  # there a subset is its section: one row is enough
        table = table[table.part != "subset"].reset_index(drop=True)
    return Result(title(benchmark), benchmark.generated, table)


def _prompts_apart(more: np.ndarray, prompts: np.ndarray) -> tuple[int, int]:
    """Of how many prompts one way has more pairs right, and of how many the other.

    more: [pairs], 1 where only the first way is right, -1 where only the second is.
    """
    of_prompt = np.bincount(prompts, weights=more)
    return int((of_prompt > 0).sum()), int((of_prompt < 0).sum())


def _subset_names(benchmark: Benchmark, subsets: Sequence[str]) -> list[str]:
    """The subsets in RewardBench's order; those of own pairs as they come."""
    if benchmark.kind == "own":
        return list(dict.fromkeys(subsets))
    order = (*REWARDBENCH_COUNTS, *REWARDBENCH_SECTIONS, *PRIOR_SETS)
    return [name for name in order if name in subsets]


def _subsets_in(name: str, names: Sequence[str]) -> set[str]:
    """The subsets that a section or an overall of `section_scores` may have, of these names."""
    if name == "overall":
        return set(names) - set(PRIOR_SETS)
    if name == "overall with prior sets":
        return set(names)
    section = name.removesuffix(" (partial)")
    return {section, *REWARDBENCH_SECTIONS.get(section, PRIOR_SETS)}


def overall(table: pd.DataFrame) -> float:
    """The first row of an `accuracy_table`: overall where there is one."""
    return float(table["accuracy (%)"].iloc[0])


def prompt_numbers(benchmark: Benchmark) -> np.ndarray:
    """The number of every pair's prompt, int64 [pairs]; equal prompts have equal numbers."""
    return pd.factorize(pd.Series([pair.prompt for pair in benchmark.pairs]))[0]


def by_pair(benchmark: Benchmark, scores: np.ndarray) -> pd.DataFrame:
    """Every pair in order: subset, id, both scores, margin (chosen - rejected).

    The columns that own pairs carry along follow. scores: [pairs, 2], chosen first.
    """
    scores = np.asarray(scores, dtype=np.float64)
    ids = [pair.id for pair in benchmark.pairs]
    table = pd.DataFrame(
        {
            "subset": [subset_of(pair) for pair in benchmark.pairs],
            "id": ids,
            "chosen score": scores[:, 0],
            "rejected score": scores[:, 1],
            "margin": scores[:, 0] - scores[:, 1],
        }
    )
    carried_along = pd.DataFrame(
        [benchmark.columns.get(pair_id, {}) for pair_id in ids], index=range(len(scores))
    )
    return table.join(carried_along, rsuffix=" (own)")


# What raises a score and should not
