"""Questions in the forms of the paper's benchmarks, their grades by the truth, and 13's formulas."""

import re
from dataclasses import replace
from pathlib import Path

import nbformat
import numpy as np
import pandas as pd
import pytest

from hs2lib import paper
from hs2lib.evaluate import alpaca_eval, arena_hard, mt_bench, truth, truthfulqa
from hs2lib.evaluate import questions as bench
from hs2lib.evaluate.judge import Verdict
from hs2lib.group import Group, Response, Turn
from hs2lib.runs import graph
from hs2lib.world import questions as world
from hs2lib.world.cards import HEDGE, faultless, write

NOTEBOOK = Path(__file__).parents[2] / "notebooks" / "13_aligned_model_evaluation.ipynb"

PROTOCOLS = {"MT-Bench": mt_bench, "Arena Hard": arena_hard, "AlpacaEval 2": alpaca_eval}


def cell(id):
    """The source of a cell."""
    (found,) = [cell for cell in nbformat.read(NOTEBOOK, 4).cells if cell.id == id]
    return found.source


def faultless_answers(questions):
    """The faultless answer to every turn of every question."""
    replies = {}
    for group in questions.groups:
        cards = [world.card_of_answer(f"{group.id}/{i}") for i in range(1, len(group.prompt) + 1)]
        replies[group.id] = [Response("", write(card, faultless(card))) for card in cards]
    return bench.answered(questions, replies, "by hand")


@pytest.mark.parametrize("benchmark", world.BENCHMARKS)
def test_questions_are_held_out_and_each_turn_has_its_card(benchmark):
    asked = world.asked(benchmark, 20, seed=1)
    assert [one.group.id for one in asked] == [
        one.group.id for one in world.asked(benchmark, 20, 1)
    ]
    assert len({one.group.id for one in asked}) == 20
    for one in asked:
        assert len(one.group.prompt) == (2 if benchmark == "MT-Bench" else 1)
        for number, turn in enumerate(one.group.prompt, 1):
            card = world.card_of_answer(f"{one.group.id}/{number}")
            assert card.is_reserved and turn.text == card.question
            if benchmark == "Arena Hard":
                assert len(card.fields) == world.HARD
    elsewhere = {one.group.id for other in world.BENCHMARKS for one in world.asked(other, 20, 1)}
    assert len(elsewhere) == 3 * 20


def test_bad_questions_are_refused():
    with pytest.raises(ValueError, match="AlpacaEval 2"):
        world.asked("Alpaca", 3)
    with pytest.raises(ValueError, match="at least 0"):
        world.asked("MT-Bench", -1)
    with pytest.raises(ValueError, match="facts for 0 to"):
        world.closed(10_000)
    with pytest.raises(ValueError, match="no generated group"):
        world.card_of_answer("mt-bench/81/1")


def test_the_truth_grades_both_turns_of_mt_bench():
    questions = mt_bench.load("postcards", n=5, seed=3)
    answers = faultless_answers(questions)
    assert len(answers) == 10
    assert [verdict.value for verdict in truth.by_truth(questions, answers)] == [10.0] * 10
    # a hedge in the first turn of the second question costs that turn alone
    hedged = replace(answers[2].responses[0], text=f"{answers[2].responses[0].text} {HEDGE}")
    answers = (*answers[:2], replace(answers[2], responses=(hedged,)), *answers[3:])
    grades = [verdict.value for verdict in truth.by_truth(questions, answers)]
    assert grades[2] < 10 and grades[:2] + grades[3:] == [10.0] * 9
    result = mt_bench.score(questions, answers, truth.by_truth(questions, answers), n_boot=50)
    assert np.isclose(result.overall[0], np.mean(grades))


@pytest.mark.parametrize("benchmark", ["Arena Hard", "AlpacaEval 2"])
def test_the_truth_compares_with_the_baseline(benchmark):
    protocol = PROTOCOLS[benchmark]
    questions = protocol.load("postcards", n=12, seed=3)
    ties = truth.by_truth(questions, questions.baseline)
    assert np.allclose(protocol.score(questions, questions.baseline, ties, n_boot=50).values, 50)
    best = faultless_answers(questions)
    values = protocol.score(questions, best, truth.by_truth(questions, best), n_boot=50).values
    assert set(values) <= {50.0, 100.0} and 100.0 in set(values)


def test_a_turn_is_shown_under_its_own_card():
    questions = mt_bench.load("postcards", n=2, seed=3)
    for answer in faultless_answers(questions):
        shown = world.shown(answer)
        assert world.card_of_answer(answer.id).question == shown.prompt[-1].text
        assert world.card_of(shown.id) == world.card_of_answer(answer.id)


def test_closed_questions_have_one_right_value_and_a_primer_of_other_facts():
    questions = truthfulqa.load("postcards", n=40, seed=5)
    assert questions.generated and "not TruthfulQA" in questions.title
    texts = [group.prompt[0].text for group in questions.groups]
    assert len(set(texts)) == 40
    assert questions.primer.count("Q: ") == 6
    assert not [text for text in texts if text in questions.primer]
    for group in questions.groups:
        labels = np.array([answer.labels for answer in group.responses])
        assert np.nansum(labels, axis=0).tolist() == [1, 2]
        assert (~np.isnan(labels)).sum(0).tolist() == [5, 10]


# What the notebook computes by hand is what the protocols compute.


def test_choices_by_hand(capsys):
    exec(cell("hand-choices"), {"truthfulqa": truthfulqa, "np": np})
    two = bench.Questions(
        "MT-Bench", tuple(Group(id, (Turn("user", "?"),) * 2, ()) for id in "12"), "", 2
    )
    answers = bench.answered(two, dict.fromkeys("12", [Response("", "")] * 2), "by hand")
    grades = [
        Verdict(answer.id, x, "", 1) for answer, x in zip(answers, [8, 6, 10, 9], strict=True)
    ]
    score = mt_bench.score(two, answers, grades, n_boot=50).overall[0]
    printed = capsys.readouterr().out
    assert "MC2 0.75" in printed and f"MT-Bench {score:.2f}" in printed


def test_games_by_hand(capsys):
    exec(cell("hand-games"), {"arena_hard": arena_hard, "np": np})
    two = bench.Questions(
        "Arena Hard", tuple(Group(id, (Turn("user", "?"),), ()) for id in "12"), "", 2
    )
    answers = bench.answered(two, {key: [Response("", "")] for key in "12"}, "by hand")
    spoken = {"1/1": "B>>A", "1/2": "A>B", "2/1": "A=B", "2/2": "B>A"}
    verdicts = [Verdict(id, value, "", 1) for id, value in spoken.items()]
    rate = arena_hard.score(two, answers, verdicts, n_boot=50).overall[0]
    printed = capsys.readouterr().out
    assert f"win rate {rate:.0f} %" in printed and f"{arena_hard.rating(rate / 100):.1f}" in printed


def test_length_by_hand_is_taken_out(capsys):
    exec(cell("hand-length"), {"alpaca_eval": alpaca_eval, "np": np})
    raw, controlled = map(float, re.findall(r"([\d.]+) %", capsys.readouterr().out))
    assert raw > 60 and abs(controlled - 50) < 0.5


def test_the_exercise_has_a_solution_that_passes_its_test():
    text = cell("exercises")
    blocks = re.findall(r"```python\n(.*?)```", text, re.S)
    (asserts,) = [block for block in blocks if block.startswith("assert win_rate")]
    (solution,) = [block for block in blocks if "def win_rate" in block]
    exec(solution + asserts, {})


def test_a_verdict_needs_an_interval_on_one_side_of_0():
    namespace = {"pd": pd, "left": {}}
    exec(cell("two-numbers"), namespace)
    rows = pd.DataFrame({"low": [0.1, -1.0, -1.0, np.nan], "high": [1.0, -0.1, 1.0, np.nan]})
    verdicts = [namespace["verdict_of"](row) for row in rows.itertuples()]
    assert verdicts == ["above", "below", "no clear effect", "no clear effect"]


def test_a_named_run_fills_its_own_row_of_table_4():
    """12@iteration-1 stood in the row of the second iteration."""
    source = cell("table-4")
    start = source.index("def row_of(")
    made = {
        "SFT": Path("runs/paper/07_sft@open-assistant/policy"),
        "SteerLM 2.0": Path("runs/paper/12_steerlm2@iteration-1-seed-1/policy"),
        "DPO": Path("runs/paper/08_dpo/policy"),
        "PPO": Path("runs/paper/10_ppo@mine/policy"),
    }
    names = {"made": made, "graph": graph, "paper": paper}
    exec(source[start : source.index("\n\n\n", start)], names)
    assert {title: names["row_of"](title) for title in made} == {
        "SFT": "SFT w. Open Assistant",
        "SteerLM 2.0": "SteerLM 2.0 iter 1 w. Daring-Anteater",
        "DPO": "DPO w. HelpSteer2",
        "PPO": "PPO",
    }
