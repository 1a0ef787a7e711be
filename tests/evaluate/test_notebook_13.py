"""Notebook 13 with a judge: the whole path against a server on loopback, and what its tables may say without one."""

import itertools
import json
import re
import threading
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from cells import execute
from judge_server import Reply, serve

from hs2lib import paper
from hs2lib.corpus.grade import true_attributes
from hs2lib.evaluate import alpaca_eval, arena_hard, mt_bench, policies, truthfulqa
from hs2lib.evaluate.judge import JudgeError, Replies
from hs2lib.evaluate.questions import Questions
from hs2lib.group import Group, Response, Turn
from hs2lib.paths import runs
from hs2lib.report import claims
from hs2lib.report.report import Run

NAME = "13_aligned_model_evaluation"
KEY = "sk-hs2-test-0123456789abcdef"


def judge(question, nth):
    """MT-Bench: 8 for a first turn, 6 for a second. In pairs the second answer, by a little; AlpacaEval: the first."""
    if "[[A>>B]]" in question:
        return Reply("Both have faults.\nMy final verdict is: [[B>A]]")
    if "m or M" in question:
        return Reply("m")
    return Reply("Clear enough.\nRating: [[6]]" if "second answer" in question else "Good.\nRating: [[8]]")


@pytest.fixture
def smoke(tmp_path, monkeypatch):
    """Run the notebook at tier smoke, with few questions and other parameters; gives its report folder."""
    monkeypatch.setenv("HS2_REPORTS", str(tmp_path / "reports"))
    monkeypatch.setenv("HS2_RUNS", str(tmp_path / "runs"))

    def run(**parameters):
        execute(NAME, "smoke", **{"n_truthfulqa": 2, "n_mt_bench": 2, "n_arena_hard": 2, "n_boot": 100} | parameters)
        return tmp_path / "reports" / "smoke" / NAME

    return run


def held_out(policy, gold):
    """What a notebook leaves of a policy's answers to three prompts."""
    ids = {"prompt": list("abc"), "response": ["a/0", "b/0", "c/0"], "settings": "one and the same"}
    return pd.DataFrame(ids | {"policy": policy, "gold": gold, "goodness": gold, "characters": [10, 20, 30]})


def judged(folder):
    return pd.read_csv(folder / "judged.csv").set_index("measure")


@pytest.mark.slow
def test_with_an_endpoint(smoke, tmp_path, monkeypatch):
    """Grades of 8 and 6 have the mean 7; who is B in one game and A in the other wins half; all by hand.

    Each question is asked once though two policies give one answer, a second run asks nothing, and the key of the
    environment is in no file.
    """
    monkeypatch.setenv("HS2_TEST_KEY", KEY)
    together, arrivals = threading.Barrier(2), itertools.count()

    def plan(question, nth):
        if next(arrivals) < 2:  # the first two replies wait for each other, however busy this machine is
            with suppress(threading.BrokenBarrierError):
                together.wait(20)
        return judge(question, nth)

    with serve(plan) as server:
        parameters = dict(
            judge="endpoint", judge_url=server.url, key_variable="HS2_TEST_KEY", skip=["PPO", "SteerLM 2.0"]
        )
        folder = smoke(**parameters)
        asked = dict(server.asked)
        assert set(asked.values()) == {1} and server.most > 1
        assert all(headers["authorization"] == f"Bearer {KEY}" for headers in server.headers)
        first = judged(folder)
        manifest = json.loads((folder / "manifest.json").read_text())
        smoke(**parameters)
        assert dict(server.asked) == asked, "a reply that was paid for is asked for again"
    pd.testing.assert_frame_equal(judged(folder), first)
    assert first.columns.tolist() == ["SFT", "DPO", "Iterative DPO", "SteerLM"]
    assert first.loc["generated questions (not MT-Bench): score, 1 to 10"].str.startswith("7.00 [7.00").all()
    assert first.loc["generated questions (not Arena Hard): win rate, %"].str.startswith("50.00").all()
    assert first.index.str.contains("LC win rate, minimal form").sum() == 1
    assert first.index.str.contains("protocol's|SE of the|weight p").sum() == 5
    assert not first.apply(lambda column: column.str.contains(policies.NOT_RUN)).any(axis=None)
    kept = Replies(tmp_path / "runs" / "smoke" / NAME / "judge-replies.jsonl")
    assert sum(row["reply"] is not None for row in kept.values()) == len(asked)
    assert manifest["recipe"]["key_variable"] == "HS2_TEST_KEY"
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert not [path for path in files if KEY.encode() in path.read_bytes()]
    # Generated questions, however judged, are no benchmark's.
    assert pd.read_csv(folder / "benchmarks.csv")["mean"].isna().all()
    assert set(pd.read_csv(folder / "against-table-4.csv").verdict) == {"not run at this tier"}


@pytest.mark.slow
def test_with_the_reward_model(smoke):
    """Its score has a measure of its own name; the judge's columns still say that no judge was asked."""
    table = judged(smoke(judge="reward_model", skip=["DPO", "PPO", "Iterative DPO", "SteerLM 2.0"]))
    own = table.index.str.contains("goodness of reward model")
    assert own.sum() == 3 and table[own].map(lambda cell: re.match(r"-?\d", cell)).notna().all(axis=None)
    of_judge = table.index.str.contains("score, 1 to 10|win rate")
    assert of_judge.sum() == 3 and (table[of_judge] == policies.NOT_RUN).all(axis=None)


@pytest.mark.slow
def test_a_further_policy_is_in_every_table_and_figure(smoke, monkeypatch):
    """A notebook 15 that makes the policy "Mine": no line of 13 changes, and no table or figure is without it."""
    drawn, titles = {}, policies.makers("policy") | {"15_mine": "Mine"}
    monkeypatch.setattr(policies, "makers", lambda kind: titles)
    monkeypatch.setattr(Run, "figure", lambda run, figure, name, caption: drawn.update({name: figure}))
    for k, policy in enumerate(("SFT", "DPO", "PPO", "Mine")):  # PPO 1 better everywhere, Mine 2
        policies.save(runs() / "smoke" / f"0{k}_made", held_out(policy, np.array([2.0, 3.0, 4.0]) + k - (k == 3)))
    folder = smoke(skip=["PPO", "Iterative DPO", "SteerLM", "SteerLM 2.0"])
    table = pd.read_csv(folder / "held-out.csv").set_index("policy")
    assert table.index.tolist() == ["SFT", "DPO", "Mine"] and table.columns[0] == "gold"
    assert table["win rate over SFT by gold, %"].tolist() == ["\u2013"] + ["100.00 [29.24, 100.00]"] * 2
    gains = pd.read_csv(folder / "held-out-gains.csv").set_index(["measure", "policy"])
    assert gains.loc[("gold", "Mine"), ["minus SFT", "95 % low", "95 % high"]].tolist() == [2, 2, 2]
    for name in ("truthfulqa", "benchmarks", "trades", "examples"):
        assert "Mine" in set(pd.read_csv(folder / f"{name}.csv").policy), name
    for name in ("judged", "categories"):
        assert pd.read_csv(folder / f"{name}.csv").columns[-1] == "Mine", name
    for name, figure in drawn.items():
        figure.canvas.draw()
        labels = {label.get_text() for axes in figure.axes for label in axes.get_yticklabels()}
        assert {"DPO", "Mine"} <= labels, name
    assert set(drawn) == {"held-out", "truthfulqa", "trades"}
    # The paper has no row for it: it is beside Table 4, never in it.
    assert "Mine" not in (folder / "against-table-4.csv").read_text()


def test_the_truth_is_a_judge_of_generated_questions_only():
    """The baseline's own answers tie with it, empty ones lose; a grade is linear in goodness; real ones are refused."""
    for protocol, n in ((arena_hard, 4), (alpaca_eval, 24)):
        asked = protocol.load("embedded", n=n, seed=2)
        empty = [replace(answer, responses=(Response("x", ""),)) for answer in asked.baseline]
        for replies, rate in ((asked.baseline, 50), (empty, 0)):
            result = protocol.score(asked, replies, policies.by_truth(asked, replies, seed=3), seed=3, n_boot=100)
            assert result.values.tolist() == [rate] * n and result.unparsable == 0
    asked = mt_bench.load("embedded", n=6, seed=2)
    replies = [Group(f"{group.id}/2", (*group.prompt, group.prompt[0]), (Response("x", ""),)) for group in asked.groups]
    grades = mt_bench.score(asked, replies, policies.by_truth(asked, replies), n_boot=100)
    expected = [1 + 9 * true_attributes(reply)[0] @ [0.65, 0.8, 0.45, 0, 0] / 7.6 for reply in replies]
    np.testing.assert_allclose(grades.values, expected)
    assert 1 <= grades.overall[0] < 6
    real = replace(asked, generated=False)
    with pytest.raises(ValueError, match="gold knows generated questions only, and these are real: MT-Bench"):
        policies.by_truth(real, [])


@pytest.mark.slow
def test_an_endpoint_that_needs_a_key_and_has_none(smoke, monkeypatch, capsys):
    """Said before hours are spent on answers, and again where the first question would be sent."""
    monkeypatch.delenv("HS2_TEST_KEY", raising=False)
    parameters = dict(judge="endpoint", judge_url="https://judge.invalid/v1", key_variable="HS2_TEST_KEY")
    with pytest.raises(JudgeError, match="environment variable HS2_TEST_KEY is not set"):
        smoke(**parameters, skip=["PPO", "Iterative DPO", "SteerLM", "SteerLM 2.0"])
    assert "HS2_TEST_KEY is not set" in capsys.readouterr().out


# What the tables may say, by hand


def rows(*means):
    return pd.DataFrame([(m, p, v, v, v, "") for m, p, v in means], columns=policies.COLUMNS)


def test_names_are_those_of_table_4():
    """Against which whole benchmarks are held."""
    assert set(policies.TABLE_4.values()) <= set(paper.TABLES["table-4"].columns)
    assert set(paper.PAPER_ROWS.values()) <= set(paper.TABLES["table-4"].rows)


def test_only_whole_benchmarks_reach_table_4():
    part, whole = "partial TruthfulQA (100 of 817 questions) MC2", "MT-Bench: score, 1 to 10"
    table = rows((part, "SFT", 0.4), (whole, "SFT", 7.5), ("MT-Bench: goodness of reward model m", "SFT", 3.0))
    left = policies.benchmarks(table, ["SFT", "DPO"]).set_index(["measure", "policy"])
    assert left["mean"].notna().sum() == 1 and left.loc[(whole, "SFT"), "mean"] == 7.5
    assert len(left) == 18 and left.loc[("TruthfulQA MC2", "SFT"), "note"] == "not run: not the whole benchmark"
    ours = policies.paper_rows(table, paper.PAPER_ROWS, {"MT-Bench": "its questions"})
    row = ["SFT w. Daring-Anteater", "MT-Bench", 7.5, 7.5, 7.5, "its questions"]
    assert ours.iloc[:, :-1].values.tolist() == [row]
    assert policies.paper_rows(table, {}, {}).empty


def test_what_table_4_prints_beside_a_rate_is_filled():
    """Of 24 answers 8 tie and 16 lose: 16.7 %, an error of 100 SD / sqrt(24), Arena Hard's low and high about 0."""
    rows = []
    for protocol in (arena_hard, alpaca_eval):
        asked = protocol.load("embedded", n=24, seed=2)
        texts = ["" if k % 3 else answer.responses[0].text for k, answer in enumerate(asked.baseline)]
        ours = [replace(a, responses=(Response("x", text),)) for a, text in zip(asked.baseline, texts, strict=True)]
        result = protocol.score(asked, ours, policies.by_truth(asked, ours), n_boot=200)
        asked = replace(asked, generated=False)
        rows.append(policies.Judged("SFT", asked, ours, "gpt-4-1106-preview", result).rows(n_boot=200))
    filled = policies.paper_rows(pd.concat(rows), paper.PAPER_ROWS, {}).set_index("column")
    assert list(filled.index) == ["Arena Hard", "Arena Hard low", "Arena Hard high", "AlpacaEval 2 LC SE"]
    assert filled.ours["Arena Hard"] == pytest.approx(100 / 6) and set(filled["not comparable"]) == {""}
    assert filled.ours["Arena Hard low"] < 0 < filled.ours["Arena Hard high"]
    assert filled.ours["AlpacaEval 2 LC SE"] == pytest.approx(100 * np.std([0.5, 0, 0] * 8, ddof=1) / np.sqrt(24))


def test_trades_leave_out_questions_that_one_policy_has_no_verdict_on():
    """Gains of 1, 3 and an unread one: 2 over two questions; characters keep all three."""

    def frame(policy, grades):
        ids = list("abc")
        keys = {"policy": policy, "prompt": ids, "response": ids, "settings": "by hand"}
        return pd.DataFrame(keys | {"characters": [10, 20, 30], "grade": grades})

    pair = [frame("SFT", [4.0, 5.0, np.nan]), frame("DPO", [5.0, 8.0, 9.0])]
    table = policies.trades([pair], "SFT", n_boot=200).set_index("measure")
    assert table.loc["grade", ["questions", "gain"]].tolist() == [2, 2.0]
    assert table.loc["grade", "95 % low"] < 1 < 3 < table.loc["grade", "95 % high"]
    assert table.loc["characters", ["against", "questions", "gain"]].tolist() == ["SFT", 3, 0.0]


def test_sizes_are_of_what_was_read_and_never_of_generated_questions(tmp_path):
    """Two questions of 5 options make no TruthfulQA; a table of three rows in two categories has two."""
    made = truthfulqa.load("embedded", n=2)
    questions = (Group("1", (Turn("user", "a"),), ()),)
    read = Questions("Arena Hard", questions, "by hand", 500)
    drawn = Questions("MT-Bench", questions, "by hand", 80, generated=True)
    table = policies.sizes(made, None, [drawn, read, drawn]).set_index("quantity").value
    assert table["Arena Hard prompts"] == 500 and table.notna().sum() == 1
    assert {
        claim.reported["row"] for claim in claims.CLAIMS if claim.reported and "sizes" in claim.reported["file"]
    } <= set(table.index)
    (tmp_path / "truthfulqa").mkdir()
    (tmp_path / "truthfulqa" / "TruthfulQA.csv").write_text("\ufeffType,Category\nx,Law\nx,Health\ny,Law\n")
    assert truthfulqa.categories("folder", tmp_path) == 2
