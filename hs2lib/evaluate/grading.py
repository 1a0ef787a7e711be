"""Who grades the policies' answers, and what was found: nobody, the truth, a reward model, or an
endpoint.

    graders = appoint(setup, asked)                       # refused here, before hours are spent on answers
    estimates(setup, graders, asked, answers)             # what an endpoint will take, before anything is sent
    graded = grade(setup, graders, asked, answers, reward_model, published)
    graded.judged                                         # policy by policy and benchmark by benchmark

Paper: section 4.1, appendix H (GPT-4-0125-preview for MT-Bench, GPT-4-1106-preview for the others).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from hs2lib.evaluate import alpaca_eval, arena_hard, mt_bench
from hs2lib.evaluate.answering import Answers
from hs2lib.evaluate.judge import Ask, Judge, Verdict, unparsable
from hs2lib.evaluate.policies import COLUMNS, SCORE, weighted
from hs2lib.evaluate.questions import (
    JudgedScore,
    Questions,
    characters,
    last_turns,
    mean,
    question_id,
)
from hs2lib.evaluate.truth import by_truth, check_generated
from hs2lib.group import Group
from hs2lib.models import saved
from hs2lib.models.reward_model import RewardModel
from hs2lib.run.setup import Setup

PROTOCOLS = {"MT-Bench": mt_bench, "Arena Hard": arena_hard, "AlpacaEval 2": alpaca_eval}

NOT_RUN = "not run: no judge"


@dataclass(frozen=True)
class Graders:
    """Who grades.

    judge: "none", "truth", "reward_model" or "endpoint". endpoints, templates: of an endpoint by
    benchmark the judge and its prompts. read: files of the prompts, as `hs2lib.paths.as_read`.
    """

    judge: str
    endpoints: Mapping[str, Judge] = field(default_factory=dict)
    templates: Mapping[str, Any] = field(default_factory=dict)
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


def appoint(setup: Setup, asked: Sequence[Questions]) -> Graders:
    """Who grades, by the recipe's `judge`. Raises ValueError where the truth is to grade answers to real questions."""
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
    name_alone = {"reply_tokens": 16}
    if recipe.log_probs:
        name_alone = {"reply_tokens": 1, "reasks": 0, "extra": alpaca_eval.LOG_PROBS}
    endpoints = {
        "MT-Bench": Judge(recipe.judge_model, reply_tokens=recipe.reply_tokens, **server),
        "Arena Hard": Judge(recipe.pair_judge, reply_tokens=recipe.reply_tokens, **server),
        "AlpacaEval 2": Judge(recipe.pair_judge, **name_alone, **server),
    }
    templates = {
        benchmark: protocol.prompts(recipe.source) for benchmark, protocol in PROTOCOLS.items()
    }
    read: dict[str, str] = {}
    for template in templates.values():
        read |= template.read
    return Graders(recipe.judge, endpoints, templates, read)


def reward_model(setup: Setup) -> RewardModel | None:
    """The reward model whose scores stand beside the answers; None unless the recipe's `judge` is reward_model."""
    if setup.recipe.judge != "reward_model":
        return None
    return saved.reward_model(setup)


def rewards(
    model: RewardModel, answers: Sequence[Group], *, weighting: str = "goodness", **options
) -> pd.Series:
    """The reward model's score of every response, by the answer's id; the model is named in the
    series.

    Paper: section 4.3 (goodness .65, .8, .45). weighting: as `hs2lib.paper.head_weights`. options:
    of RewardModel.score.
    """
    values = weighted(model.score(answers, **options).numpy(), weighting, model)  # [R]
    name = f"{SCORE}, {weighting} of {model.fingerprint()}"
    return pd.Series(values, index=[answer.id for answer in answers], name=name)


def asks(
    setup: Setup, graders: Graders, questions: Questions, answers: Sequence[Group]
) -> list[Ask]:
    """What an endpoint is asked about one policy's answers to a benchmark."""
    benchmark = questions.benchmark
    more = {}
    if benchmark == "AlpacaEval 2":  # which answer stands first is drawn
        more = {"seed": setup.recipe.seed}
    return PROTOCOLS[benchmark].asks(questions, answers, graders.templates[benchmark], **more)


def estimates(
    setup: Setup, graders: Graders, asked: Sequence[Questions], answers: Mapping[str, Answers]
) -> pd.DataFrame:
    """Requests, tokens and cost that an endpoint will take, by benchmark; empty without one. Nothing is sent."""
    parts = []
    for questions in asked:
        if questions.benchmark not in graders.endpoints:
            continue
        every = []
        for each in answers.values():
            every += asks(setup, graders, questions, each.by_benchmark[questions.benchmark])
        estimate = graders.endpoints[questions.benchmark].estimate(every, setup.folder / REPLIES)
        parts.append(estimate.assign(benchmark=questions.title))
    return pd.concat(parts) if parts else pd.DataFrame()


REPLIES = (
    "judge-replies.jsonl"  # in the run's folder: each is kept as it comes and never paid for twice
)


@dataclass(frozen=True)
class Judged:
    """One policy's answers to a benchmark, and what was found of them.

    judge: "none", "reward_model", or the judge's name, and then `result` is what the benchmark's
    `score` returned. reward: the scores of `rewards`.
    """

    policy: str
    questions: Questions
    answers: Sequence[Group]
    judge: str = "none"
    result: JudgedScore | None = None
    reward: pd.Series | None = None

    def rows(self, **resampled) -> pd.DataFrame:
        """Rows (measure, policy, mean, 95 % low, 95 % high, note). resampled: n_boot and seed of
        the intervals.

        The judged measure is always there, empty with the note "not run: no judge" where no judge
        was asked; with "reward_model" the scores of `rewards` are a measure of their own.
        Characters are the mean length of a response.
        """
        ids = [question_id(answer) for answer in self.answers]
        rows = self._judged_rows()
        if self.judge == "reward_model":
            rows.append((self.reward.name, *mean(self.reward, ids, **resampled), "no judge"))
        n_cut = sum(
            not getattr(answer.responses[0], "finished", True) for answer in self.answers
        )  # of samples known
        note = f"{n_cut} of {len(self.answers)} cut at the limit" if n_cut else ""
        rows.append(("characters", *mean(characters(self.answers), ids, **resampled), note))
        named = [(f"{self.questions.title}: {name}", self.policy, *row) for name, *row in rows]
        return pd.DataFrame(named, columns=COLUMNS)

    def _judged_rows(self) -> list[tuple]:
        """The judged measure, and what stands beside it without an interval."""
        if self.result is None:
            return [(PROTOCOLS[self.questions.benchmark].MEASURE, np.nan, np.nan, np.nan, NOT_RUN)]
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
        """One row a response, in the form of `policies.evaluate`: policy, prompt, response,
        settings, the measures.

        Paper: silent. Characters, the scores of `rewards`, and the judge's: a grade, or in per cent
        what a question's games or preference say; nan where no verdict was read. Two policies can
        be paired by `prompt`, the question.
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
    """judged: every policy on every benchmark, policy after policy. unread: replies in which no verdict was read."""

    judged: list[Judged]
    unread: pd.DataFrame

    def by_question(self, benchmark: str) -> list[pd.DataFrame]:
        """Of each policy `Judged.by_question` of a benchmark."""
        return [each.by_question() for each in self.judged if each.questions.benchmark == benchmark]


def grade(
    setup: Setup,
    graders: Graders,
    asked: Sequence[Questions],
    answers: Mapping[str, Answers],
    reward_model: RewardModel | None = None,
    published: alpaca_eval.Published | None = None,
) -> Graded:
    """Every policy's answers to every benchmark, with what the graders found of them.

    By the truth answers to last turns alone are kept, which it can grade. reward_model: what
    scores, where the judge is reward_model. published: AlpacaEval's difficulties. Raises as
    `Judge.verdicts`.
    """
    by_name: dict[tuple[str, str], Judged] = {}
    unread = []
    for questions in asked:  # a judge is asked benchmark after benchmark
        for name, each in answers.items():
            replies = each.by_benchmark[questions.benchmark]
            reward = result = None
            if graders.judge == "reward_model":
                recipe = setup.recipe
                reward = rewards(
                    reward_model, replies, weighting=recipe.weighting, **recipe.inference
                )
            elif graders.judge == "truth":
                replies = last_turns(questions, replies)
                result = _score(
                    setup,
                    questions,
                    replies,
                    by_truth(questions, replies, seed=setup.recipe.seed),
                    published,
                )
            elif graders.judge == "endpoint":
                verdicts = _asked(setup, graders, questions, replies)
                unread.append(
                    unparsable(verdicts).assign(policy=name, benchmark=questions.benchmark)
                )
                result = _score(setup, questions, replies, verdicts, published)
            grader = graders.named(questions.benchmark)
            by_name[name, questions.benchmark] = Judged(
                name, questions, replies, grader, result, reward
            )
    judged = [by_name[name, questions.benchmark] for name in answers for questions in asked]
    return Graded(judged, pd.concat(unread, ignore_index=True) if unread else pd.DataFrame())


def _asked(
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
    more = {}
    if questions.benchmark == "AlpacaEval 2":
        more = {"published": published}
    return PROTOCOLS[questions.benchmark].score(
        questions, replies, verdicts, **setup.recipe.resampled, **more
    )
