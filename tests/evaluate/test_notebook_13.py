"""Notebook 13 as a whole: with a judge on loopback, with the reward model, with a policy of one's own."""

import itertools
import json
import re
import threading
from contextlib import suppress

import pandas as pd
import pytest
from cells import execute
from judge_server import Reply, serve

from hs2lib.evaluate import grading
from hs2lib.evaluate.judge import JudgeError, Replies
from hs2lib.models.policy import load_policy

NAME = "13_aligned_model_evaluation"
KEY = "sk-hs2-test-0123456789abcdef"


def judge(question, nth):
    """MT-Bench: 8 for a first turn, 6 for a second. In pairs the second answer, by a little; AlpacaEval: the first."""
    if "[[A>>B]]" in question:
        return Reply("Both have faults.\nMy final verdict is: [[B>A]]")
    if "m or M" in question:
        return Reply("m")
    return Reply(
        "Clear enough.\nRating: [[6]]" if "second answer" in question else "Good.\nRating: [[8]]"
    )


@pytest.fixture
def smoke(tmp_path, monkeypatch):
    """Run the notebook at tier smoke, with few questions and other parameters; gives its report folder."""
    monkeypatch.setenv("HS2_REPORTS", str(tmp_path / "reports"))
    monkeypatch.setenv("HS2_RUNS", str(tmp_path / "runs"))

    def run(**parameters):
        execute(
            NAME,
            "smoke",
            **{"n_truthfulqa": 2, "n_mt_bench": 2, "n_arena_hard": 2, "n_boot": 100} | parameters,
        )
        return tmp_path / "reports" / "smoke" / NAME

    return run


def judged(folder):
    return pd.read_csv(folder / "judged.csv").set_index("measure")


@pytest.mark.slow
def test_with_an_endpoint(smoke, tmp_path, monkeypatch):
    """Grades of 8 and 6 have the mean 7; who is B in one game and A in the other wins half; all by
    hand.

    Each question is asked once though two policies give one answer, a second run asks nothing, and
    the key of the environment is in no file.
    """
    monkeypatch.setenv("HS2_TEST_KEY", KEY)
    together = threading.Barrier(2)
    arrivals = itertools.count()

    def plan(question, nth):
        if (
            next(arrivals) < 2
        ):  # the first two replies wait for each other, however busy this machine is
            with suppress(threading.BrokenBarrierError):
                together.wait(20)
        return judge(question, nth)

    with serve(plan) as server:
        parameters = dict(
            judge="endpoint",
            judge_url=server.url,
            key_variable="HS2_TEST_KEY",
            skip=["PPO", "SteerLM 2.0"],
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
    assert (
        first.loc["generated questions (not MT-Bench): score, 1 to 10"]
        .str.startswith("7.00 [7.00")
        .all()
    )
    assert (
        first.loc["generated questions (not Arena Hard): win rate, %"].str.startswith("50.00").all()
    )
    assert not first.apply(lambda column: column.str.contains(grading.NOT_RUN)).any(axis=None)
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
    """Its score has a measure of its own name; the judge's columns still say that no judge was
    asked.

    Where notebook 05 was not run the head is random, and every caption from there on says so.
    """
    folder = smoke(judge="reward_model", skip=["DPO", "PPO", "Iterative DPO", "SteerLM 2.0"])
    table = judged(folder)
    own = table.index.str.contains("reward model's score, goodness of")
    assert own.sum() == 3 and table[own].map(lambda cell: re.match(r"'?-?\d", cell)).notna().all(
        axis=None
    )
    of_judge = table.index.str.contains("score, 1 to 10|win rate")
    assert of_judge.sum() == 3 and (table[of_judge] == grading.NOT_RUN).all(axis=None)
    artefacts = json.loads((folder / "manifest.json").read_text())["artefacts"]
    assert "head is random" in artefacts["judged.csv"]["caption"]


@pytest.mark.slow
def test_a_policy_of_ones_own_is_in_every_table(smoke, tmp_path):
    """Models that are named take the places of the notebooks' policies; the first is what the
    others are compared with.

    The paper has no row for them: they are beside Table 4, never in it.
    """
    load_policy("tiny").save(tmp_path / "policy")
    folder = smoke(models=[f"First={tmp_path}/policy", f"Mine={tmp_path}/policy"])
    for name in ("truthfulqa", "benchmarks", "examples"):
        assert set(pd.read_csv(folder / f"{name}.csv").policy) == {"First", "Mine"}, name
    for name in ("judged", "categories"):
        assert pd.read_csv(folder / f"{name}.csv").columns[1:].tolist() == ["First", "Mine"], name
    trades = pd.read_csv(folder / "trades.csv")
    assert (
        set(trades.policy) == {"Mine"}
        and set(trades.against) == {"First"}
        and (trades.gain == 0).all()
    )
    assert "Mine" not in (folder / "against-table-4.csv").read_text()
    assert not (folder / "held-out.csv").exists(), (
        "no notebook has left answers to held-out prompts"
    )


@pytest.mark.slow
def test_an_endpoint_that_needs_a_key_and_has_none(smoke, monkeypatch, capsys):
    """Said before hours are spent on answers, and again where the first question would be sent."""
    monkeypatch.delenv("HS2_TEST_KEY", raising=False)
    parameters = dict(
        judge="endpoint", judge_url="https://judge.invalid/v1", key_variable="HS2_TEST_KEY"
    )
    with pytest.raises(JudgeError, match="environment variable HS2_TEST_KEY is not set"):
        smoke(**parameters, skip=["PPO", "Iterative DPO", "SteerLM", "SteerLM 2.0"])
    assert "HS2_TEST_KEY is not set" in capsys.readouterr().out
