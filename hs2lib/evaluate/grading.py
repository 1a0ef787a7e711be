"""Grades of the policies' answers, by the truth, a reward model or a judge at an endpoint.

    graders = appoint(setup, asked)  # refused here, before hours are spent on answers
    estimates(setup, graders, asked, answers)  # what an endpoint will take; nothing is sent
    graded = grade(setup, graders, asked, answers, reward_model, published)
    graded.judged  # policy by policy and benchmark by benchmark

Paper: section 4.1, appendix H (GPT-4-0125-preview for MT-Bench, GPT-4-1106-preview for the others).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from hs2lib.evaluate import alpaca_eval, arena_hard, mt_bench
from hs2lib.evaluate.answering import Answers
from hs2lib.evaluate.judge import Ask, Judge, Verdict, unparsable
from hs2lib.evaluate.policies import COLUMNS, SCORE, weighted
from hs2lib.evaluate.questions import (
    JudgedScore,
    Questions,
    Template,
    Templates,
    characters,
    last_turns,
    mean,
    question_id,
)
from hs2lib.evaluate.truth import by_truth, check_generated
from hs2lib.group import Group
from hs2lib.models import saved
from hs2lib.models.reward_model import RewardModel
from hs2lib.runs.setup import Setup

PROTOCOLS = {"MT-Bench": mt_bench, "Arena Hard": arena_hard, "AlpacaEval 2": alpaca_eval}

NOT_RUN = "not run: no judge"

# In the run's folder. Replies are written as they come and never paid for twice.
REPLIES = "judge-replies.jsonl"


@dataclass(frozen=True)
class Graders:
    """Who grades.

    judge: "none", "truth", "reward_model" or "endpoint".
    endpoints: the judge of each benchmark, where `judge` is endpoint.
    templates: the prompts of each benchmark, where `judge` is endpoint.
    read: files of the prompts, as `hs2lib.paths.digests_by_place`.
    """

    judge: str
    endpoints: Mapping[str, Judge] = field(default_factory=dict)
    templates: Mapping[str, Template | Templates] = field(default_factory=dict)
    read: Mapping[str, str] = field(default_factory=dict)

    def named(self, benchmark: str) -> str:
        """Who grades a benchmark, by the name that tables give."""
        if benchmark in self.endpoints:
            return self.endpoints[benchmark].model
        return self.judge

    @property
    def table(self) -> pd.DataFrame:
        """Who grades which benchmark."""
        rows = [(benchmark, self.named(benchmark)) for benchmark in PROTOCOLS]
        return pd.DataFrame(rows, columns=["benchmark", "graded by"])

    @property
    def key_missing(self) -> str:
        """What to do where an endpoint needs a key that is not set; "" where nothing is missing."""
        if not self.endpoints:
            return ""
        return self.endpoints["MT-Bench"].key_missing()


def choose_graders(setup: Setup, asked: Sequence[Questions]) -> Graders:
    """Who grades, by the recipe's `judge`.

    Raises ValueError where the truth is to grade answers to real questions.
    """
    recipe = setup.recipe
    if recipe.judge == "truth":
        for questions in asked:
            check_generated(questions)
    if recipe.judge != "endpoint":
        return Graders(recipe.judge)
    server = {
        "base_url": recipe.judge_url,
        "key_variable": recipe.key_variable,
        "allow_http": recipe.allow_http,
        "price": tuple(recipe.price) or None,
        "in_flight": recipe.in_flight,
    }
    short_reply = {"reply_tokens": 16}  # a judge of AlpacaEval writes a name and nothing else
    if recipe.log_probs:
        short_reply = {"reply_tokens": 1, "reasks": 0, "extra": alpaca_eval.LOG_PROBS}
    endpoints = {
        "MT-Bench": Judge(recipe.judge_model, reply_tokens=recipe.reply_tokens, **server),
        "Arena Hard": Judge(recipe.pair_judge, reply_tokens=recipe.reply_tokens, **server),
        "AlpacaEval 2": Judge(recipe.pair_judge, **short_reply, **server),
    }
    templates = {
        benchmark: protocol.prompts(recipe.source) for benchmark, protocol in PROTOCOLS.items()
    }
    read: dict[str, str] = {}
    for template in templates.values():
        read |= template.read
    return Graders(recipe.judge, endpoints, templates, read)


def reward_model(setup: Setup) -> RewardModel | None:
    """The reward model that scores the answers, where the recipe's `judge` is reward_model."""
    if setup.recipe.judge != "reward_model":
        return None
    return saved.reward_model(setup)


def rewards(
    model: RewardModel,
    answers: Sequence[Group],
    *,
    weighting: str = "goodness",
    **options: object,
) -> pd.Series:
    """The reward model's score of every response, by the answer's id.

    Paper: section 4.3 (goodness .65, .8, .45). The name of the series names the model.

    weighting: as for `hs2lib.paper.head_weights`.
    options: of `RewardModel.score`.
    """
    values = weighted(model.score(answers, **options).numpy(), weighting, model)  # [R]
    name = f"{SCORE}, {weighting} of {model.fingerprint()}"
    return pd.Series(values, index=[answer.id for answer in answers], name=name)


def asks(
    setup: Setup, graders: Graders, questions: Questions, answers: Sequence[Group]
) -> list[Ask]:
    """What an endpoint is asked about one policy's answers to a benchmark."""
    benchmark = questions.benchmark
    options = {}
    if benchmark == "AlpacaEval 2":  # which answer stands first is drawn
        options = {"seed": setup.recipe.seed}
    return PROTOCOLS[benchmark].asks(questions, answers, graders.templates[benchmark], **options)


def estimates(
    setup: Setup, graders: Graders, asked: Sequence[Questions], answers: Mapping[str, Answers]
) -> pd.DataFrame:
    """Requests, tokens and cost that an endpoint will take, by benchmark; empty without one.

    Nothing is sent.
    """
    tables = []
    for questions in asked:
        benchmark = questions.benchmark
        if benchmark not in graders.endpoints:
            continue
        to_judge = []
        for of_policy in answers.values():
            to_judge += asks(setup, graders, questions, of_policy.by_benchmark[benchmark])
        estimate = graders.endpoints[benchmark].estimate(to_judge, setup.folder / REPLIES)
        tables.append(estimate.assign(benchmark=questions.title))
    return pd.concat(tables) if tables else pd.DataFrame()


@dataclass(frozen=True)
class Judged:
    """One policy's answers to a benchmark, and their grades.

    policy: its title.
    judge: "none", "reward_model", or the judge's name.
    result: what the benchmark's `score` returned, where there is a judge.
    reward: the scores of `rewards`, where the judge is reward_model.
    """

    policy: str
    questions: Questions
    answers: Sequence[Group]
    judge: str = "none"
    result: JudgedScore | None = None
    reward: pd.Series | None = None

    def rows(self, **resampled: int) -> pd.DataFrame:
        """Rows (measure, policy, mean, 95 % low, 95 % high, note).

        The judged measure is always there. Where no judge was asked it is nan, with the note "not
        run: no judge". With "reward_model" the scores of `rewards` are a measure of their own.
        Characters are the mean length of a response.

        resampled: n_boot and seed of the intervals.
        """
        ids = [question_id(answer) for answer in self.answers]
        rows = self._judged_rows()
        if self.judge == "reward_model":
            rows.append((self.reward.name, *mean(self.reward, ids, **resampled), "no judge"))
        # Only samples say whether they are finished, answers from a file do not.
        n_cut = sum(not getattr(answer.responses[0], "finished", True) for answer in self.answers)
        note = f"{n_cut} of {len(self.answers)} cut at the limit" if n_cut else ""
        rows.append(("characters", *mean(characters(self.answers), ids, **resampled), note))
        named = [(f"{self.questions.title}: {name}", self.policy, *row) for name, *row in rows]
        return pd.DataFrame(named, columns=COLUMNS)

    def _judged_rows(self) -> list[tuple]:
        """The judged measure, and the numbers beside it, which have no interval."""
        if self.result is None:
            measure = PROTOCOLS[self.questions.benchmark].MEASURE
            return [(measure, np.nan, np.nan, np.nan, NOT_RUN)]
        note = f"judge {self.judge}"
        if self.result.unparsable:
            note += f", {self.result.unparsable} unparsable"
        if np.isnan(self.result.overall[0]):
            note += ", no score"
        rows = [(self.result.measure, *self.result.overall, note)]
        for name, value in self.result.beside.items():
            rows.append((name, value, np.nan, np.nan, note))
        return rows

    def by_question(self) -> pd.DataFrame:
        """One row a response, in the form of `policies.evaluate`.

        Paper: silent. Columns: policy, prompt, response, settings and the measures. These are
        characters, the scores of `rewards`, and the judge's. The last is a grade, or a question's
        games or preference in per cent; it is nan where no verdict was read. Two policies can be
        paired by `prompt`, the question.
        """
        rows = {
            "policy": self.policy,
            "prompt": [question_id(answer) for answer in self.answers],
            "response": [answer.id for answer in self.answers],
            "settings": self.questions.title,
            "characters": characters(self.answers),
        }
        if self.reward is not None:
            rows[SCORE] = self.reward.to_numpy(float)
        if self.result is not None:
            rows[self.result.values.name] = self.result.values.to_numpy(float)
        return pd.DataFrame(rows)


@dataclass(frozen=True)
class Graded:
    """The grades of all answers.

    judged: every policy on every benchmark, policy after policy.
    unread: replies in which no verdict was read.
    """

    judged: list[Judged]
    unread: pd.DataFrame

    def by_question(self, benchmark: str) -> list[pd.DataFrame]:
        """`Judged.by_question` of a benchmark, for each policy."""
        return [
            judged.by_question()
            for judged in self.judged
            if judged.questions.benchmark == benchmark
        ]


def grade(
    setup: Setup,
    graders: Graders,
    asked: Sequence[Questions],
    answers: Mapping[str, Answers],
    reward_model: RewardModel | None = None,
    published: alpaca_eval.Published | None = None,
) -> Graded:
    """Every policy's answers to every benchmark, with the grades that the graders give them.

    Where the truth grades, only the answers to last turns remain, which it can grade.

    asked: the questions of the benchmarks.
    answers: of each policy, by its title.
    reward_model: what scores, where the judge is reward_model.
    published: AlpacaEval's difficulties.

    Raises as `Judge.verdicts`.
    """
    recipe = setup.recipe
    judged_by_name: dict[tuple[str, str], Judged] = {}
    unread = []
    for questions in asked:  # a judge is asked benchmark after benchmark
        benchmark = questions.benchmark
        for policy, of_policy in answers.items():
            replies = of_policy.by_benchmark[benchmark]
            reward = None
            result = None
            if graders.judge == "reward_model":
                reward = rewards(
                    reward_model, replies, weighting=recipe.weighting, **recipe.inference
                )
            elif graders.judge == "truth":
                replies = last_turns(questions, replies)
                verdicts = by_truth(questions, replies, seed=recipe.seed)
                result = _score(setup, questions, replies, verdicts, published)
            elif graders.judge == "endpoint":
                verdicts = _ask_endpoint(setup, graders, questions, replies)
                unread.append(unparsable(verdicts).assign(policy=policy, benchmark=benchmark))
                result = _score(setup, questions, replies, verdicts, published)
            judged_by_name[policy, benchmark] = Judged(
                policy, questions, replies, graders.named(benchmark), result, reward
            )
    judged = []
    for policy in answers:
        for questions in asked:
            judged.append(judged_by_name[policy, questions.benchmark])
    return Graded(judged, pd.concat(unread, ignore_index=True) if unread else pd.DataFrame())


def _ask_endpoint(
    setup: Setup, graders: Graders, questions: Questions, replies: Sequence[Group]
) -> list[Verdict]:
    """An endpoint's verdicts on one policy's answers, within the caps."""
    recipe = setup.recipe
    return graders.endpoints[questions.benchmark].verdicts(
        asks(setup, graders, questions, replies),
        file=setup.folder / REPLIES,
        token_cap=recipe.token_cap,
        cost_cap=recipe.cost_cap or None,
    )


def _score(
    setup: Setup,
    questions: Questions,
    replies: Sequence[Group],
    verdicts: Sequence[Verdict],
    published: alpaca_eval.Published | None,
) -> JudgedScore:
    """What a benchmark's protocol makes of verdicts."""
    options = dict(setup.recipe.resampled)
    if questions.benchmark == "AlpacaEval 2":
        options["published"] = published
    return PROTOCOLS[questions.benchmark].score(questions, replies, verdicts, **options)
