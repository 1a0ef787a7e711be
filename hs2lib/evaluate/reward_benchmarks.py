"""Reward benchmarks of today: RewardBench 2, RM-Bench and JudgeBench, beside rules without content.

    benchmarks = load(setup)                                     # by name
    scored = score(benchmarks, model, setup)                     # resumes a killed run
    results = evaluate(scored, weights, setup)                   # model, longest, shortest, random

The three benchmarks are three modules: `rewardbench_2`, `rm_bench`, `judgebench`. Each says what a
question adds to its sums, and what the sums make. Three rules read nothing: the longest answer is
the best one, the shortest is, or a random one. Every number has a 95 % interval by bootstrap over
prompts. Paper: silent; the benchmarks are of later years.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd

from hs2lib.beyond import BEYOND
from hs2lib.data import reward_benchmarks as sets
from hs2lib.data.reward_benchmarks import RewardBenchmark, texts_of
from hs2lib.evaluate import judgebench, rewardbench_2, rm_bench
from hs2lib.evaluate.score import reasons
from hs2lib.evaluate.score import score as score_responses
from hs2lib.group import Group
from hs2lib.models.reward_model import RewardModel
from hs2lib.report.answers import Answer
from hs2lib.runs.setup import Setup
from hs2lib.stats.bootstrap import bootstrap, difference, inside

MODULES = {module.NAME: module for module in (rewardbench_2, rm_bench, judgebench)}

# The table of published models of each benchmark.
PUBLISHED = {
    "RewardBench 2": "rewardbench-2",
    "RM-Bench": "rm-bench",
    "JudgeBench": "judgebench",
}

MODEL = "model"

LONGEST = "longest answer"

SHORTEST = "shortest answer"

LENGTH_RULES = (LONGEST, SHORTEST)

RANDOM = "random answer"
RULES = (*LENGTH_RULES, RANDOM)

BAR_FROM = 200  # questions from which on a bar is worth its line


ABOVE = "above"
BELOW = "below"
NOT_TOLD = "not told apart"


def load(setup: Setup) -> dict[str, RewardBenchmark]:
    """The benchmarks that the recipe names, in their own order.

    Raises as `hs2lib.data.reward_benchmarks.load`.
    """
    recipe = setup.recipe
    benchmarks = {}
    for name in MODULES:
        if name in recipe.benchmarks:
            benchmark = sets.load(
                name,
                recipe.source,
                answered_by=recipe.answered_by,
                n_per_part=recipe.n_per_part,
                seed=recipe.seed,
            )
            benchmarks[name] = benchmark.first(recipe.limit)
    return benchmarks


def counts(benchmarks: Mapping[str, RewardBenchmark]) -> pd.DataFrame:
    """Questions and answers of each part, those the benchmark has, and the chance, %."""
    rows = []
    for name, benchmark in benchmarks.items():
        for part, n in benchmark.counts.items():
            answers = [
                len(group.responses)
                for group, of in zip(benchmark.groups, benchmark.parts, strict=True)
                if of == part
            ]
            fewest = min(answers, default=0)
            most = max(answers, default=0)
            number = f"{fewest}" if fewest == most else f"{fewest} to {most}"
            there = benchmark.whole[part]
            rows.append((name, part, n, there, number, MODULES[name].chance(part)))
    columns = ["benchmark", "part", "questions", "in the benchmark", "answers", "chance (%)"]
    return pd.DataFrame(rows, columns=columns)


# Scores


class Scored(NamedTuple):
    """The scores of a benchmark's answers.

    values: float64 [responses, A], question after question.
    benchmark: the questions that were scored.
    shortened: ids of the questions whose prompt lost turns to fit the model.
    left_out: by id why other questions are not in the benchmark.
    """

    values: np.ndarray
    benchmark: RewardBenchmark
    shortened: tuple[str, ...]
    left_out: dict[str, str]

    def by_question(self, flat: np.ndarray) -> list[np.ndarray]:
        """Scores [responses] as a list, [G] for each question."""
        sizes = [len(group.responses) for group in self.benchmark.groups]
        return np.split(flat, np.cumsum(sizes)[:-1])


def score(
    benchmarks: Mapping[str, RewardBenchmark], model: RewardModel, setup: Setup
) -> dict[str, Scored]:
    """Score every answer of every benchmark with a reward model, as the recipe says.

    Scores are kept in the run folder as they come, so a run that was killed goes on. The answers to
    a question share its prompt, which is computed once. A question with an answer that the model
    refuses (`control_text`) is left out, and so is one that is too long, if the recipe says so.

    Raises ValueError for a question that is too long, for scores that are not finite, and where no
    question is left.
    """
    return {name: _score(benchmark, model, setup) for name, benchmark in benchmarks.items()}


def _score(benchmark: RewardBenchmark, model: RewardModel, setup: Setup) -> Scored:
    """`score` for one benchmark."""
    recipe = setup.recipe
    frame = score_responses(
        model,
        benchmark.groups,
        too_long=recipe.too_long,
        cache=setup.folder / "scores" / PUBLISHED[benchmark.name],
        autocast=recipe.autocast,
        budget=recipe.budget,
        progress=len(benchmark.groups) >= BAR_FROM,
    )
    left_out = reasons(frame)
    frame = frame[frame.left_out == ""]
    if frame.empty:
        reason = next(iter(left_out.values()), "there are none")
        raise ValueError(
            f"none of {len(benchmark)} questions of {benchmark.name} can be scored: {reason}"
        )
    shortened = tuple(frame[frame.dropped > 0].prompt.unique())
    keep = [group.id not in left_out for group in benchmark.groups]
    kept = benchmark.where(keep, f"{len(left_out)} questions left out")
    return Scored(frame[list(model.attributes)].to_numpy(), kept, shortened, left_out)


def by_rule(benchmark: RewardBenchmark, seed: int) -> dict[str, np.ndarray]:
    """Scores [responses] of the rules that read nothing, by name of the rule.

    Length is counted in characters. seed: of the random answer.
    """
    characters = np.array([float(len(text)) for text in texts_of(benchmark)])
    drawn = np.random.default_rng(seed).random(len(characters))
    return dict(zip(RULES, (characters, -characters, drawn), strict=True))


# Numbers


class Result(NamedTuple):
    """What a model and the rules reach on a benchmark.

    benchmark: the questions that were scored.
    scores: by who scored (`MODEL`, `RULES`): [responses].
    numbers: a row a number. Columns: part, level (of RM-Bench, else ""), questions, chance, by
        (`MODEL` or a rule), value, low, high, in percent.
    beside: a row a number of the model. Columns: part, level, rule (the better one of length),
        difference, low, high (paired by prompt), and verdict: `ABOVE` where the model is clearly
        above the better rule of length and above equal chances, `BELOW` where it is clearly below
        that rule, else `NOT_TOLD`; "" where there is no number.
    """

    benchmark: RewardBenchmark
    scores: dict[str, np.ndarray]
    numbers: pd.DataFrame
    beside: pd.DataFrame

    def of(self, who: str) -> pd.DataFrame:
        """The numbers of the model or of a rule."""
        return self.numbers[self.numbers.by == who].reset_index(drop=True)


def evaluate(scored: Mapping[str, Scored], weights: np.ndarray, setup: Setup) -> dict[str, Result]:
    """What the model, under these weights [A], and the three rules reach on each benchmark."""
    recipe = setup.recipe
    results = {}
    for name, of_benchmark in scored.items():
        scores = {MODEL: of_benchmark.values @ weights}
        scores |= by_rule(of_benchmark.benchmark, recipe.seed)
        results[name] = measure(of_benchmark, scores, n_boot=recipe.n_boot, seed=recipe.seed)
    return results


def measure(
    scored: Scored, scores: Mapping[str, np.ndarray], *, n_boot: int = 1000, seed: int = 0
) -> Result:
    """Every number of a benchmark with its 95 % interval, by everybody who scored its answers.

    Questions with one prompt are drawn together, and so are the two of a pair of Ties. A number
    that needs an absent part is nan.

    scored: whose questions these are.
    scores: by who scored, [responses], `MODEL` first.
    n_boot, seed: of the bootstrap.

    Raises ValueError for scores that do not fit or are not finite.
    """
    benchmark = scored.benchmark
    module = MODULES[benchmark.name]
    n_responses = len(texts_of(benchmark))
    contributions = {}
    for who, flat in scores.items():
        flat = np.asarray(flat, dtype=np.float64)
        if flat.shape != (n_responses,) or not np.isfinite(flat).all():
            raise ValueError(
                f"expected {n_responses} scores of {who}, none nan or infinite, "
                f"got shape {flat.shape}"
            )
        contributions[who] = module.contributions(benchmark, scored.by_question(flat))

    def statistic(sums: np.ndarray) -> np.ndarray:
        return np.column_stack(list(module.numbers(sums).values()))

    options = {"n_boot": n_boot, "seed": seed}
    clusters = benchmark.clusters
    with np.errstate(invalid="ignore", divide="ignore"):
        names = list(module.numbers(contributions[MODEL][:1]))
    members = [np.isin(benchmark.parts, module.members(part)) for part, _ in names]
    n_questions = [int(of_part.sum()) for of_part in members]
    n_clusters = [len(set(clusters[of_part])) or np.nan for of_part in members]
    bounds = np.array([module.bounds(part) for part, _ in names])  # [numbers, 2]
    frames = []
    for who, of_who in contributions.items():
        interval = bootstrap(of_who, clusters, statistic, **options)
        interval = inside(interval, bounds[:, 0], bounds[:, 1], n_clusters)
        frame = pd.DataFrame(names, columns=["part", "level"])
        frame["questions"] = n_questions
        frame["chance"] = [module.chance(part) for part, _ in names]
        frame["by"] = who
        frame["value"], frame["low"], frame["high"] = interval
        frames.append(frame)
    numbers = pd.concat(frames, ignore_index=True)
    differences = {}
    for rule in LENGTH_RULES:
        interval = difference(
            contributions[MODEL], contributions[rule], clusters, statistic, **options
        )
        frame = pd.DataFrame(names, columns=["part", "level"])
        frame["rule"] = rule
        frame["value"] = numbers[numbers.by == rule].value.to_numpy()
        frame["difference"], frame["low"], frame["high"] = interval
        differences[rule] = frame
    of_model = numbers[numbers.by == MODEL]
    return Result(benchmark, dict(scores), numbers, _beside(of_model, differences))


def _beside(of_model: pd.DataFrame, differences: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """The model beside the better rule of length for each number; see `Result.beside`."""
    rows = []
    for place, number in enumerate(of_model.itertuples()):
        of_rules = [frame.iloc[place] for frame in differences.values()]
        better = max(of_rules, key=lambda row: row.value)  # the first one where both are nan
        beats_chance = not number.low <= number.chance  # also where no formula says the chance
        if np.isnan(better.difference) or np.isnan(better.low):
            says = ""
        elif better.low > 0 and beats_chance:
            says = ABOVE
        elif better.high < 0:
            says = BELOW
        else:
            says = NOT_TOLD
        rows.append([*better.drop("value"), says])
    columns = ["part", "level", "rule", "difference", "low", "high", "verdict"]
    return pd.DataFrame(rows, columns=columns)


# Styles


def styles(result: Result, who: str = MODEL) -> pd.DataFrame:
    """RM-Bench: percent right by style of the right answer (down) and of the wrong one (across).

    A mean over all questions. who: the model or a rule.
    """
    scores = sets.styled(result.benchmark, result.scores[who])
    share = rm_bench.style_table(rm_bench.beats(*scores))
    wrong = [f"wrong: {style}" for style in sets.STYLES]
    right = pd.Index([f"right: {style}" for style in sets.STYLES], name=who)
    return pd.DataFrame(share, index=right, columns=wrong)


# Published outputs


def golden(source: str) -> tuple[pd.DataFrame, dict[str, str]]:
    """JudgeBench from the published outputs of five reward models: no result of ours.

    Columns: model, column, worked out (%), published (%), difference. Also what was read, as
    `hs2lib.paths.digests_by_place`.

    source: "folder" or "hub". Raises DataError where the outputs cannot be had.
    """
    known = BEYOND["judgebench"].values
    rows = []
    read: dict[str, str] = {}
    for model in sets.OUTPUTS_OF:
        outputs = sets.load_outputs(model, source)
        read |= outputs.read
        right = [judgebench.by_decisions(row.decisions, row.label) for row in outputs.rows]
        shares = judgebench.shares([row.source for row in outputs.rows], right)
        for column, share in shares.items():
            printed = known[model, column]
            rows.append((model, column, share, printed, share - printed))
    columns = ["model", "column", "worked out (%)", "published (%)", "difference"]
    return pd.DataFrame(rows, columns=columns), read


# Answers to look at


class Miss(NamedTuple):
    """A question that the model gets wrong.

    group: the question, its responses the two answers to compare.
    answers: a right answer, then a wrong one that scores as high or higher.
    margin: score of the right answer less that of the wrong one.
    part: of the question.
    n_wrong, n: how many of the questions that may be shown are wrong, and how many there are.
    """

    group: Group
    answers: list[Answer]
    margin: float
    part: str
    n_wrong: int
    n: int


def miss(result: Result, who: str = MODEL) -> Miss | None:
    """Of the questions that are wrong, the one whose margin is the median; None where none is.

    A question is wrong where its lowest right answer does not stand above its highest wrong one. Of
    RM-Bench the two concise answers are compared, where a reader sees the error best. Questions
    about safety are not shown: some answers are harmful.
    """
    benchmark = result.benchmark
    sizes = [len(group.responses) for group in benchmark.groups]
    by_question = np.split(result.scores[who], np.cumsum(sizes)[:-1])
    wrong: list[tuple[float, int, int, int]] = []  # margin, question, right answer, wrong answer
    n = 0
    for number, (scores, right) in enumerate(zip(by_question, benchmark.right, strict=True)):
        if benchmark.parts[number].lower().startswith("safety"):
            continue
        n += 1
        lowest = int(np.flatnonzero(right)[scores[right].argmin()])
        highest = int(np.flatnonzero(~right)[scores[~right].argmax()])
        if benchmark.name == rm_bench.NAME:
            lowest = 0
            highest = len(sets.STYLES)
        margin = float(scores[lowest] - scores[highest])
        if margin <= 0:
            wrong.append((margin, number, lowest, highest))
    if not wrong:
        return None
    margin, number, lowest, highest = sorted(wrong)[len(wrong) // 2]
    group = benchmark.groups[number]
    answers = []
    for name, place in (("right", lowest), ("wrong", highest)):
        text = group.responses[place].text
        how = f"{len(text):,} characters"
        answers.append(Answer(name, text, how, float(by_question[number][place])))
    return Miss(group, answers, margin, benchmark.parts[number], len(wrong), n)


# In words
