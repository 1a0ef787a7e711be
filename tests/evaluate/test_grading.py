"""Who grades, and what is asked of whom: nothing is sent without an endpoint, and faults show before answers."""

from dataclasses import replace

import pytest

from hs2lib.evaluate import alpaca_eval, arena_hard, grading, mt_bench
from hs2lib.evaluate.judge import Ask
from hs2lib.evaluate.questions import answered
from hs2lib.group import Response
from hs2lib.runs.setup import Setup
from hs2lib.train.recipes import Evaluation

ASKED = [
    mt_bench.load("postcards", n=2),
    arena_hard.load("postcards", n=2),
    alpaca_eval.load("postcards", n=6),
]


def setup_of(**settings):
    return Setup(
        "13_aligned_model_evaluation", "smoke", {}, Evaluation(**{"n_boot": 100} | settings)
    )


def names_of(graders):
    """Who grades each benchmark."""
    return [graders.named(questions.benchmark) for questions in ASKED]


def test_without_a_judge_nothing_is_asked():
    graders = grading.choose_graders(setup_of(judge="none"), ASKED)
    assert names_of(graders) == ["none"] * 3 and not graders.endpoints and not graders.read


def test_the_truth_is_refused_real_questions_before_answers_are_sampled():
    real = replace(ASKED[1], generated=False)
    with pytest.raises(ValueError, match="Arena Hard"):
        grading.choose_graders(setup_of(judge="truth"), [ASKED[0], real])


def test_an_endpoint_compares_by_another_model_than_it_grades(monkeypatch):
    """Paper: appendix H, two judges. AlpacaEval's says a name alone, or gives log-probabilities of the two names."""
    monkeypatch.delenv("HS2_TEST_KEY", raising=False)
    server = {
        "judge": "endpoint",
        "judge_url": "https://judge.invalid/v1",
        "key_variable": "HS2_TEST_KEY",
    }
    graders = grading.choose_graders(setup_of(**server, judge_model="one", pair_judge="two"), ASKED)
    assert names_of(graders) == ["one", "two", "two"]
    assert "HS2_TEST_KEY" in graders.endpoints["MT-Bench"].key_missing()
    assert graders.endpoints["AlpacaEval 2"].reply_tokens == 16
    graders = grading.choose_graders(setup_of(**server, log_probs=True), ASKED)
    alone = graders.endpoints["AlpacaEval 2"]
    assert (alone.reply_tokens, alone.reasks, alone.extra) == (1, 0, alpaca_eval.LOG_PROBS)
    setup = setup_of(**server)
    arena = ASKED[1]
    replies = answered(arena, {group.id: [Response("", "a")] for group in arena.groups}, "by hand")
    asks = grading.asks(setup, grading.choose_graders(setup, ASKED), arena, replies)
    assert len(asks) == 4 and isinstance(asks[0], Ask), "two games a question"
