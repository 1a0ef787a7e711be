"""The truth as a judge: it must speak each benchmark's language, and of real questions it knows nothing."""

from dataclasses import replace

import numpy as np
import pytest

from hs2lib.evaluate import alpaca_eval, arena_hard, mt_bench
from hs2lib.evaluate.truth import by_truth
from hs2lib.group import Group, Response
from hs2lib.world.cards import card_of
from hs2lib.world.grade import true_ratings

PAIRS = [(arena_hard, 4), pytest.param(alpaca_eval, 24, marks=pytest.mark.slow)]


@pytest.mark.parametrize(("protocol", "n"), PAIRS)
def test_the_better_of_two_answers_wins_and_equals_tie(protocol, n):
    """The baseline's own answers tie with it, empty ones lose against it, and it loses where its own are empty."""
    asked = protocol.load("postcards", n=n, seed=2)
    empty = tuple(replace(answer, responses=(Response("x", ""),)) for answer in asked.baseline)
    beaten = replace(asked, baseline=empty)
    for questions, replies, rate in (
        (asked, asked.baseline, 50),
        (asked, empty, 0),
        (beaten, asked.baseline, 100),
    ):
        verdicts = by_truth(questions, replies, seed=3)
        result = protocol.score(questions, replies, verdicts, seed=3, n_boot=100)
        assert result.values.tolist() == [rate] * n and result.unparsable == 0


def test_verdicts_name_the_side_that_the_model_is_on():
    """Arena Hard: the model is B in game 1 and A in game 2. AlpacaEval: m is the answer that is shown first."""
    arena = arena_hard.load("postcards", n=1, seed=2)
    id = arena.groups[0].id
    empty = [replace(answer, responses=(Response("x", ""),)) for answer in arena.baseline]
    lost = {verdict.id: verdict.value for verdict in by_truth(arena, empty)}
    won = {
        verdict.id: verdict.value
        for verdict in by_truth(replace(arena, baseline=tuple(empty)), arena.baseline)
    }
    assert lost == {f"{id}/1": "A>B", f"{id}/2": "B>A"}
    assert won == {f"{id}/1": "B>A", f"{id}/2": "A>B"}
    alpaca = alpaca_eval.load("postcards", n=8, seed=2)
    empty = [replace(answer, responses=(Response("x", ""),)) for answer in alpaca.baseline]
    for verdict in by_truth(alpaca, empty, seed=3):
        assert verdict.value == ("M" if alpaca_eval.shown_first(verdict.id, 3) else "m")


def test_a_grade_is_linear_in_the_truth():
    """1 to 10: an answer that lacks nothing has 4 on all that counts, .65 + .8 + .45 times 4 in all, 7.6."""
    asked = mt_bench.load("postcards", n=6, seed=2)
    replies = [
        Group(f"{group.id}/2", (*group.prompt, group.prompt[0]), (Response("x", ""),))
        for group in asked.groups
    ]
    grades = mt_bench.score(asked, replies, by_truth(asked, replies), n_boot=100)
    expected = [
        1 + 9 * true_ratings(card_of(group.id), "") @ [0.65, 0.8, 0.45, 0, 0] / 7.6
        for group in asked.groups
    ]
    np.testing.assert_allclose(grades.values, expected)
    assert 1 <= grades.overall[0] < 6


def test_answers_that_lack_one_are_not_graded_against_the_wrong_baseline():
    """Answers and the baseline's are paired in order: one fewer would shift all that follow."""
    asked = arena_hard.load("postcards", n=4, seed=2)
    with pytest.raises(ValueError, match="3 answers are not to the baseline's 4 questions"):
        by_truth(asked, asked.baseline[1:])


def test_the_truth_about_real_answers_is_not_known():
    real = replace(mt_bench.load("postcards", n=2, seed=2), generated=False)
    with pytest.raises(
        ValueError, match="truth knows generated questions only, and these are real: MT-Bench"
    ):
        by_truth(real, [])


def test_of_a_benchmark_without_a_rule_the_truth_says_nothing():
    """It was judged as AlpacaEval."""
    asked = arena_hard.load("postcards", n=1, seed=2)
    with pytest.raises(ValueError, match="no rule says"):
        by_truth(replace(asked, benchmark="mine"), asked.baseline)
