"""Rows of Table 4 and beside it: only a whole benchmark by the paper's judge stands there under its own name."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from hs2lib import paper
from hs2lib.evaluate import alpaca_eval, arena_hard, grading, policies, table_4, truthfulqa
from hs2lib.evaluate.answering import Answers
from hs2lib.evaluate.questions import Questions
from hs2lib.evaluate.truth import by_truth
from hs2lib.group import Group, Response, Turn
from hs2lib.report import claims


def rows(*means):
    return pd.DataFrame([(m, p, v, v, v, "") for m, p, v in means], columns=policies.COLUMNS)


def test_names_are_those_of_table_4():
    """Against which whole benchmarks are held."""
    assert set(table_4.TABLE_4.values()) <= set(paper.TABLES["table-4"].columns)
    assert set(paper.PAPER_ROWS.values()) <= set(paper.TABLES["table-4"].rows)


def test_only_whole_benchmarks_reach_table_4():
    """A part of a benchmark and a reward model's score have other names, and are left out."""
    part, whole = "partial TruthfulQA (100 of 817 questions) MC2", "MT-Bench: score, 1 to 10"
    table = rows(
        (part, "SFT", 0.4),
        (whole, "SFT", 7.5),
        ("MT-Bench: reward model's score, goodness of m", "SFT", 3.0),
    )
    left = table_4.benchmarks(table, ["SFT", "DPO"]).set_index(["measure", "policy"])
    assert left["mean"].notna().sum() == 1 and left.loc[(whole, "SFT"), "mean"] == 7.5
    assert (
        len(left) == 18
        and left.loc[("TruthfulQA MC2", "SFT"), "note"] == "not run: not the whole benchmark"
    )
    asked = Questions("MT-Bench", (Group("1", (Turn("user", "a"),), ()),), "by hand", 1)
    ours = table_4.paper_rows(table, paper.PAPER_ROWS, [asked])
    row = ["SFT w. Daring-Anteater", "MT-Bench", 7.5, 7.5, 7.5, "MT-Bench: by hand"]
    assert ours.iloc[:, :-1].values.tolist() == [row]
    assert table_4.paper_rows(table, {}, [asked]).empty


def test_what_table_4_prints_beside_a_rate_is_filled():
    """Of 24 answers 8 tie and 16 lose: 16.7 %, an error of 100 SD / sqrt(24), Arena Hard's low and high about 0."""
    rows = []
    for protocol in (arena_hard, alpaca_eval):
        asked = protocol.load("postcards", n=24, seed=2)
        texts = [
            "" if k % 3 else answer.responses[0].text for k, answer in enumerate(asked.baseline)
        ]
        ours = [
            replace(a, responses=(Response("x", text),))
            for a, text in zip(asked.baseline, texts, strict=True)
        ]
        result = protocol.score(asked, ours, by_truth(asked, ours), n_boot=200)
        asked = replace(asked, generated=False)
        rows.append(
            grading.Judged("SFT", asked, ours, "gpt-4-1106-preview", result).rows(n_boot=200)
        )
    filled = table_4.paper_rows(pd.concat(rows), paper.PAPER_ROWS, []).set_index("column")
    assert list(filled.index) == [
        "Arena Hard",
        "Arena Hard low",
        "Arena Hard high",
        "AlpacaEval 2 LC SE",
    ]
    assert filled.ours["Arena Hard"] == pytest.approx(100 / 6) and set(
        filled["not comparable"]
    ) == {""}
    assert filled.ours["Arena Hard low"] < 0 < filled.ours["Arena Hard high"]
    assert filled.ours["AlpacaEval 2 LC SE"] == pytest.approx(
        100 * np.std([0.5, 0, 0] * 8, ddof=1) / np.sqrt(24)
    )


def test_trades_leave_out_questions_that_one_policy_has_no_verdict_on():
    """Gains of 1, 3 and an unread one: 2 over two questions; characters keep all three."""

    def frame(policy, grades):
        ids = list("abc")
        keys = {"policy": policy, "prompt": ids, "response": ids, "settings": "by hand"}
        return pd.DataFrame(keys | {"characters": [10, 20, 30], "grade": grades})

    pair = [frame("SFT", [4.0, 5.0, np.nan]), frame("DPO", [5.0, 8.0, 9.0])]
    table = policies.benchmark_gains([pair], "SFT", n_boot=200).set_index("measure")
    assert table.loc["grade", ["questions", "gain"]].tolist() == [2, 2.0]
    assert table.loc["grade", "95 % low"] < 1 < 3 < table.loc["grade", "95 % high"]
    assert table.loc["characters", ["against", "questions", "gain"]].tolist() == ["SFT", 3, 0.0]


def test_sizes_are_of_what_was_read_and_never_of_generated_questions(tmp_path):
    """Two questions of 5 options make no TruthfulQA; a table of three rows in two categories has two."""
    made = truthfulqa.load("postcards", n=2)
    questions = (Group("1", (Turn("user", "a"),), ()),)
    read = Questions("Arena Hard", questions, "by hand", 500)
    drawn = Questions("MT-Bench", questions, "by hand", 80, generated=True)
    table = table_4.sizes(made, None, [drawn, read, replace(drawn, benchmark="AlpacaEval 2")])
    table = table.set_index("quantity").value
    assert table["Arena Hard prompts"] == 500 and table.notna().sum() == 1
    assert {
        claim.reported.row
        for claim in claims.CLAIMS
        if claim.reported and "sizes" in claim.reported.file
    } <= set(table.index)
    (tmp_path / "truthfulqa").mkdir()
    (tmp_path / "truthfulqa" / "TruthfulQA.csv").write_text(
        "\ufeffType,Category\nx,Law\nx,Health\ny,Law\n"
    )
    categories = truthfulqa.categories("folder", tmp_path)
    assert categories.number == 2
    sizes = table_4.sizes(made, categories, [drawn, read, replace(drawn, benchmark="AlpacaEval 2")])
    assert sizes.set_index("quantity").value["TruthfulQA categories"] == 2


CHOICES = truthfulqa.load("postcards", n=2)


def answers_of(policy, *shares):
    """A policy whose MC2 of the two questions is these shares."""
    ids = [group.id for group in CHOICES.groups]
    scored = pd.DataFrame({"id": ids, "mc1": 1.0, "mc2": shares, "chance1": 0.25, "chance2": 0.4})
    return Answers(policy, scored, {}, {}, {})


def test_multiple_choice_of_every_policy_by_hand():
    """MC2 of .2 and .6 is .4, of .5 and .7 it is .6; by question the second gains .3 and .1."""
    answers = {"SFT": answers_of("SFT", 0.2, 0.6), "DPO": answers_of("DPO", 0.5, 0.7)}
    table = table_4.multiple_choice(CHOICES, answers, n_boot=100)
    assert (
        table.measure.tolist() == ["MC1", "MC1", "MC2", "MC2"]
        and table.policy.tolist() == ["SFT", "DPO"] * 2
    )
    assert table.value[2:].tolist() == pytest.approx([0.4, 0.6]) and set(table.chance[2:]) == {0.4}
    row = table_4.mc2_rows(table, CHOICES.title).iloc[0]
    assert row.measure == f"{CHOICES.title} MC2" and row.note == "chance 0.400"
    frames = table_4.mc2_by_question(CHOICES, answers)
    traded = policies.benchmark_gains([frames], "SFT", n_boot=100)
    assert traded.gain.tolist() == pytest.approx([0.2]) and traded.measure.tolist() == [
        "TruthfulQA MC2"
    ]


def test_categories_are_of_the_last_measure():
    """The judge's grade stands last where there is one: 8 and 6 of writing are 7, not their characters."""
    two = tuple(Group(id, (Turn("user", "a"),), ()) for id in "123")
    asked = Questions(
        "MT-Bench", two, "by hand", 3, categories={"1": "writing", "2": "writing", "3": "maths"}
    )
    ids = {"prompt": list("123"), "response": list("123"), "settings": "s", "characters": [1, 2, 3]}
    frames = [
        pd.DataFrame(ids | {"policy": name, "judge's grade": [8.0, 6.0, 3.0]})
        for name in ("SFT", "DPO")
    ]
    table = table_4.by_category(frames, asked)
    assert table.index.tolist() == ["writing", "maths"] and table.columns.tolist() == ["SFT", "DPO"]
    assert table["DPO"].tolist() == [7, 3]


def test_only_differences_that_leave_out_0_are_named_one_by_one():
    """Two of three are clear; more characters are neither gain nor loss."""
    rows = [("PPO", 2.0, 1.0, 3.0), ("DPO", 1.0, -1.0, 3.0), ("SteerLM", -2.0, -3.0, -1.0)]
    traded = pd.DataFrame(rows, columns=["policy", *paper.GAIN]).assign(
        benchmark="MT-Bench", measure="characters"
    )
    assert table_4.clear_trades(traded) == (0, 0, 0)
    graded = traded.assign(measure="judge's grade")
    assert table_4.clear_trades(graded) == (3, 1, 1)
    assert table_4.clear_trades(pd.concat([traded, graded])) == (3, 1, 1)


def test_each_column_of_the_headline_is_read_and_who_has_no_number_is_named():
    """By hand: 5 and 7, and nobody's number of PPO."""
    made = [("score", "SFT", 5.0), ("score", "DPO", 7.0), ("score", "PPO", np.nan)]
    table = pd.DataFrame(made, columns=["measure", "policy", "mean"])
    table = table.assign(
        **{"95 % low": np.nan, "95 % high": np.nan, "note": "judge truth, no score"}
    )
    assert table_4.headline(table).score.tolist() == ["5.00", "7.00", "no number"]


def test_a_raw_win_rate_has_the_interval_of_its_standard_error():
    """By hand: 1.96 times 5 is 9.8 to each side, and no rate is above 100."""
    rate, error = (f"questions: {name}" for name in (alpaca_eval.RAW, alpaca_eval.RAW_SE))
    made = [(rate, "SFT", 50.0), (rate, "DPO", 99.0), (error, "SFT", 5.0), (error, "DPO", 5.0)]
    table = pd.DataFrame(made, columns=["measure", "policy", "mean"])
    table = table.assign(**{"95 % low": np.nan, "95 % high": np.nan, "note": ""})
    cells = table_4.headline(table).set_index("policy")[rate]
    assert cells.to_dict() == {"SFT": "50.00 [40.20, 59.80]", "DPO": "99.00 [89.20, 100.00]"}
