"""Who grades, and what is asked of whom: nothing is sent without an endpoint, and faults show before answers."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from hs2lib.evaluate import alpaca_eval, arena_hard, grading, mt_bench
from hs2lib.evaluate.answering import Answers
from hs2lib.evaluate.judge import Ask, Verdict
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


def answers_of(policy, text):
    """The same text as the answer to every turn of every question."""
    by_benchmark = {}
    for questions in ASKED:
        replies = {group.id: [Response("", text)] * len(group.prompt) for group in questions.groups}
        by_benchmark[questions.benchmark] = answered(questions, replies, "by hand")
    return Answers(policy, pd.DataFrame(), by_benchmark, {}, {})


def test_without_a_judge_nothing_is_asked_and_nothing_scored():
    setup = setup_of(judge="none")
    graders = grading.choose_graders(setup, ASKED)
    answers = {"SFT": answers_of("SFT", "a"), "DPO": answers_of("DPO", "b")}
    assert graders.table["graded by"].tolist() == ["none"] * 3 and graders.key_missing == ""
    assert grading.estimates(setup, graders, ASKED, answers).empty
    assert grading.reward_model(setup) is None
    graded = grading.grade(setup, graders, ASKED, answers)
    assert [each.policy for each in graded.judged] == ["SFT"] * 3 + ["DPO"] * 3
    assert all(each.result is None and each.reward is None for each in graded.judged)
    assert graded.unread.empty and len(graded.by_question("Arena Hard")) == 2


def test_the_truth_is_refused_real_questions_before_answers_are_sampled():
    real = replace(ASKED[1], generated=False)
    with pytest.raises(ValueError, match="Arena Hard"):
        grading.choose_graders(setup_of(judge="truth"), [ASKED[0], real])


def test_the_truth_grades_last_turns_alone():
    """Two questions of two turns have four answers, and only two of them a task."""
    setup = setup_of(judge="truth")
    graded = grading.grade(
        setup, grading.choose_graders(setup, ASKED), ASKED, {"SFT": answers_of("SFT", "")}
    )
    mt, arena, _ = graded.judged
    assert len(mt.answers) == 2 and mt.judge == "truth"
    assert 1 <= mt.result.overall[0] < 6, "an empty answer has faults"
    assert arena.result.overall[0] == 0, "and loses against the better generated response"


def test_an_endpoint_compares_by_another_model_than_it_grades(monkeypatch):
    """Paper: appendix H, two judges. AlpacaEval's says a name alone, or gives log-probabilities of the two names."""
    monkeypatch.delenv("HS2_TEST_KEY", raising=False)
    server = {
        "judge": "endpoint",
        "judge_url": "https://judge.invalid/v1",
        "key_variable": "HS2_TEST_KEY",
    }
    graders = grading.choose_graders(setup_of(**server, judge_model="one", pair_judge="two"), ASKED)
    assert graders.table["graded by"].tolist() == ["one", "two", "two"]
    assert "HS2_TEST_KEY" in graders.key_missing
    assert graders.endpoints["AlpacaEval 2"].reply_tokens == 16
    graders = grading.choose_graders(setup_of(**server, log_probs=True), ASKED)
    alone = graders.endpoints["AlpacaEval 2"]
    assert (alone.reply_tokens, alone.reasks, alone.extra) == (1, 0, alpaca_eval.LOG_PROBS)
    setup = setup_of(**server)
    asks = grading.asks(
        setup,
        grading.choose_graders(setup, ASKED),
        ASKED[1],
        answers_of("SFT", "a").by_benchmark["Arena Hard"],
    )
    assert len(asks) == 4 and isinstance(asks[0], Ask), "two games a question"


def test_what_stands_in_a_row_of_one_policy():
    """Grades of 8, 6 and 7 and one that nobody could read: their mean, and the note counts what is missing."""
    questions = ASKED[0]
    replies = answers_of("SFT", "abc").by_benchmark["MT-Bench"]
    grades = [8.0, 6.0, 7.0, None]
    verdicts = [
        Verdict(answer.id, grade, "", 1) for answer, grade in zip(replies, grades, strict=True)
    ]
    result = mt_bench.score(questions, replies, verdicts, n_boot=100)
    one = grading.Judged("SFT", questions, replies, "j", result)
    rows = one.rows(n_boot=100).set_index("measure")
    assert rows["mean"].tolist() == [7, 3] and "1 unparsable" in rows.note.iloc[0]
    frame = one.by_question()
    assert frame["judge's grade"].tolist()[:3] == [8, 6, 7] and np.isnan(
        frame["judge's grade"].iloc[3]
    )
