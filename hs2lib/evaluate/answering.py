"""Who answers the benchmarks, what is asked, and the answers of every policy.

    who = who_answers(setup)
    truthful = load_truthfulqa(setup).subset(setup.recipe.n_truthfulqa, setup.recipe.seed)
    asked = [load_mt_bench(setup), load_arena_hard(setup), load_alpaca_eval(setup)]
    answers = respond(setup, who, truthful, asked)  # policy -> Answers; resumes after a kill

Paper: section 4.1, appendix H.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from hs2lib import paper
from hs2lib.evaluate import alpaca_eval, arena_hard, mt_bench, policies, questions, truthfulqa
from hs2lib.evaluate.questions import Questions
from hs2lib.evaluate.truthfulqa import MultipleChoice
from hs2lib.group import Group
from hs2lib.models.policy import load_policy
from hs2lib.models.saved import device
from hs2lib.paths import runs
from hs2lib.report.answers import Answer
from hs2lib.runs.setup import Setup

# The base that stands in at tier smoke for a policy that was not trained there.
SMALL = "small"


@dataclass(frozen=True)
class Answering:
    """The policies that answer.

    places: title -> the folder or the name of its model.
    labels: title -> SteerLM's label, None for the others.
    base: the title of the policy that the others are compared with.
    compared: title -> the row of the paper's Table 4 that it is compared with. It is empty unless
        the recipe says that these are the paper's models.
    table: all policies that were asked for and where each comes from, in words.
    """

    places: Mapping[str, str | Path]
    labels: Mapping[str, str | None]
    base: str
    compared: Mapping[str, str]
    table: pd.DataFrame


def who_answers(setup: Setup) -> Answering:
    """Every policy that a notebook makes, or the recipe's `models`, less those to `skip`.

    A policy that was not run at this tier is left out, and the table says so. At tier smoke the
    small base stands in for it.

    Raises ValueError for a title to skip that no policy has. Raises FileNotFoundError where fewer
    than two policies are there, or the one that the others are compared with is not.
    """
    recipe = setup.recipe
    place_of = policies.made(setup.tier, recipe.models)
    unknown = sorted(set(recipe.skip) - set(place_of))
    if unknown:
        raise ValueError(
            f"skip: {unknown[0]!r} is no policy's title; titles: {', '.join(place_of)}"
        )
    wanted = {name: place for name, place in place_of.items() if name not in recipe.skip}
    saved = {name: place for name, place in wanted.items() if place.is_dir()}
    answering = saved
    if setup.tier == "smoke":
        answering = {name: saved.get(name, SMALL) for name in wanted}
    base = policies.BASE
    if recipe.models:
        base = next(iter(wanted), "")
    if base not in answering or len(answering) < 2:
        folder = runs() / setup.tier
        raise FileNotFoundError(
            f"expected SFT and another policy in {folder}: run notebooks 07 and 08 at this tier"
        )
    table_rows = _rows_of_table_4(wanted)
    rows = []
    for name, place in wanted.items():
        origin = _origin(name, saved, answering)
        rows.append((name, place.parent.name, origin, table_rows.get(name, "none")))
    table = pd.DataFrame(rows, columns=["policy", "notebook", "origin", "row of Table 4"])
    labels = {name: recipe.target if name.startswith("SteerLM") else None for name in answering}
    compared = table_rows if recipe.paper_models else {}
    return Answering(answering, labels, base, compared, table)


def _origin(name: str, saved: Mapping[str, Path], answering: Mapping[str, str | Path]) -> str:
    """Where a policy's model comes from, in words."""
    if name in saved:
        return "saved"
    if name in answering:
        return "the small base"
    return "not run at this tier"


def _rows_of_table_4(places: Mapping[str, Path]) -> dict[str, str]:
    """The row of the paper's Table 4 of each policy that has one.

    The title of a published model is its row.
    """
    row_of_title = {row: row for row, _ in paper.TABLES["table-4"].rules} | paper.PAPER_ROWS
    rows = {}
    for name, place in places.items():
        named_run = place.parent.name.partition("@")[2]
        title = f"{name}@{named_run}" if named_run else name
        if title in row_of_title:
            rows[name] = row_of_title[title]
    return rows


# What is asked. Each benchmark draws generated questions and a subset by a seed of its own.


def load_truthfulqa(setup: Setup) -> MultipleChoice:
    """All questions of TruthfulQA; generated ones as many as are asked, 60 where all are."""
    recipe = setup.recipe
    return truthfulqa.load(recipe.source, n=recipe.n_truthfulqa or 60, seed=recipe.seed + 2)


def truthfulqa_categories(setup: Setup) -> truthfulqa.Categories | None:
    """How many categories TruthfulQA's questions have; None of generated ones."""
    if setup.recipe.source == "embedded":
        return None
    return truthfulqa.categories(setup.recipe.source)


def load_mt_bench(setup: Setup) -> Questions:
    """MT-Bench's questions, with references only where a judge at an endpoint will read them."""
    recipe = setup.recipe
    references = recipe.references if recipe.judge == "endpoint" else ""
    return mt_bench.load(
        recipe.source, references=references, n=recipe.n_mt_bench, seed=recipe.seed + 3
    )


def load_arena_hard(setup: Setup) -> Questions:
    """Arena Hard's questions with the baseline's answers."""
    recipe = setup.recipe
    return arena_hard.load(recipe.source, n=recipe.n_arena_hard, seed=recipe.seed + 4)


def load_alpaca_eval(setup: Setup) -> Questions:
    """AlpacaEval's instructions with the baseline's answers."""
    recipe = setup.recipe
    return alpaca_eval.load(recipe.source, n=recipe.n_alpaca, seed=recipe.seed + 5)


def load_difficulties(setup: Setup) -> alpaca_eval.Published | None:
    """AlpacaEval's difficulties, published or recovered.

    None where there are none, as of generated instructions.
    """
    if setup.recipe.source == "embedded":
        return None
    return alpaca_eval.difficulties(setup.recipe.difficulty)


def near_leaderboard(
    setup: Setup, published: alpaca_eval.Published | None
) -> alpaca_eval.Leaderboard | None:
    """How near our length-controlled rates of public models come to the leaderboard's.

    None where no folder holds the leaderboard.
    """
    if setup.recipe.source != "folder":
        return None
    return alpaca_eval.near_leaderboard(published)


# The answers.


@dataclass(frozen=True)
class Answers:
    """What one policy answered.

    policy: its title.
    truthfulqa: `truthfulqa.score` of its log-probabilities.
    by_benchmark: benchmark -> its answers, one a turn.
    read, control_strings: those attributes of the policy, for the run's manifest. The policy itself
        does not stay in memory.
    """

    policy: str
    truthfulqa: pd.DataFrame
    by_benchmark: Mapping[str, tuple[Group, ...]]
    read: dict[str, str]
    control_strings: dict[tuple, bool]


def respond(
    setup: Setup,
    who: Answering,
    truthful: MultipleChoice,
    asked: Sequence[Questions],
    callbacks: Sequence[Callable[[str], None]] = (),
) -> dict[str, Answers]:
    """The answers of every policy, with one policy in memory at a time.

    Paper: section 4.1, appendix H (greedy). Samples and log-probabilities are written into the
    run's folder as they come. The answers are also saved there as the benchmarks' own tools read
    them. Where a run has several processes, all of them call this in the same way.

    who: of `who_answers`.
    truthful: questions of TruthfulQA.
    asked: questions of the other benchmarks.
    callbacks: called with a line of text when a policy begins.
    """
    answers = {}
    for name, place in who.places.items():
        for say in callbacks:
            say(f"{name}: TruthfulQA, then {', '.join(questions.benchmark for questions in asked)}")
        answers[name] = _answers(setup, name, place, who.labels[name], truthful, asked)
        _save(setup.folder / "answers", answers[name])
    return answers


def _answers(
    setup: Setup,
    name: str,
    place: str | Path,
    label: str | None,
    truthful: MultipleChoice,
    asked: Sequence[Questions],
) -> Answers:
    """The answers of one policy; TruthfulQA's prompt has no place for a label."""
    recipe = setup.recipe
    progress = setup.tier not in ("smoke", "demo")  # there a policy takes seconds
    policy = load_policy(place).to(device())
    scored = truthfulqa.score(
        truthful, policy, kept=setup.folder / "truthfulqa", progress=progress, **recipe.inference
    )
    if recipe.pair_tokens:
        # A question and its answer may be longer than what the policy was trained on.
        policy.max_tokens = policy.backbone.config.max_position_embeddings
    by_benchmark = {}
    for to_answer in asked:
        by_benchmark[to_answer.benchmark] = questions.generate(
            policy,
            to_answer,
            max_new_tokens=recipe.longest(to_answer.benchmark),
            label=label,
            file=setup.folder,
            progress=progress,
            **recipe.generation,
        )
    return Answers(
        policy=name,
        truthfulqa=scored,
        by_benchmark=by_benchmark,
        read=policy.read,
        control_strings=policy.control_strings,
    )


def _save(folder: Path, answers: Answers) -> None:
    """Write answers as FastChat and Arena Hard read them, and as alpaca_eval does."""
    policy = answers.policy
    for benchmark, replies in answers.by_benchmark.items():
        questions.save(folder / benchmark / f"{policy}.jsonl", policy, replies)
        if benchmark == "AlpacaEval 2":
            alpaca_eval.save_outputs(folder / benchmark / f"{policy}.json", policy, replies)


def one_line(text: str, longest: int = 300) -> str:
    """A text without its line breaks, cut."""
    return " ".join(text.split())[:longest]


def most_unlike(answers: Mapping[str, Answers], questions: Questions) -> int:
    """Where the question of MT-Bench stands on whose last turn the policies differ most.

    That is the one with the most different answers; of several, the one whose answers differ most
    in length.
    """
    best_at = 0
    best = (0, 0)
    for number in range(len(questions)):
        last = 2 * number + 1
        texts = [of.by_benchmark["MT-Bench"][last].responses[0].text for of in answers.values()]
        lengths = [len(text) for text in texts]
        unlike = (len(set(texts)), max(lengths) - min(lengths))
        if unlike > best:
            best_at = number
            best = unlike
    return best_at


def to_show(
    answers: Mapping[str, Answers], questions: Questions, number: int
) -> tuple[Group, list[Answer]]:
    """A question of MT-Bench and what every policy wrote in its last turn, for `show.answers`.

    number: where the question stands, from 0.
    """
    shown = []
    for name, of_policy in answers.items():
        last = of_policy.by_benchmark["MT-Bench"][2 * number + 1]
        shown.append(Answer(name, last.responses[0].text, "last turn"))
    return questions.groups[number], shown


def examples(answers: Mapping[str, Answers], number: int = 0) -> pd.DataFrame:
    """What every policy wrote in both turns of a question of MT-Bench, cut.

    Policies are down, turns across. number: where the question stands, from 0.
    """
    texts = {}
    for name, of_policy in answers.items():
        two_turns = of_policy.by_benchmark["MT-Bench"][2 * number : 2 * number + 2]
        texts[name] = [one_line(answer.responses[0].text) for answer in two_turns]
    return pd.DataFrame(texts, index=["turn 1", "turn 2"]).T.rename_axis("policy")
