"""Grades of the policies' answers, by the truth, a reward model or a judge at an endpoint.

    graders = choose_graders(setup, asked)  # refused here, before hours are spent on answers
    asks(setup, graders, questions, answers)  # what an endpoint is asked
    rewards(model, answers)  # a reward model's score of each answer

Paper: section 4.1, appendix H (GPT-4-0125-preview for MT-Bench, GPT-4-1106-preview for the others).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pandas as pd

from hs2lib.evaluate import alpaca_eval, arena_hard, mt_bench
from hs2lib.evaluate.judge import Ask, Judge
from hs2lib.evaluate.questions import (
    Questions,
    Template,
    Templates,
)
from hs2lib.evaluate.truth import check_generated
from hs2lib.group import Group
from hs2lib.models.reward_model import RewardModel
from hs2lib.paper import head_weights
from hs2lib.runs.setup import Setup

PROTOCOLS = {"MT-Bench": mt_bench, "Arena Hard": arena_hard, "AlpacaEval 2": alpaca_eval}

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
    scores = model.score(answers, **options).double().numpy()  # [R, A]
    values = scores @ head_weights(weighting, model.attributes)
    name = f"reward model's score, {weighting} of {model.fingerprint()}"
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
