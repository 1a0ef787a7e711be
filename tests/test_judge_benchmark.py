"""Tests of benchmarks/judge.py: what is measured of a judge, by hand; whose judges it shares."""

import importlib
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from hs2lib.paths import root

sys.path.insert(0, str(root() / "benchmarks"))
bench = importlib.import_module("judge")
sys.path.pop(0)

TRUTH = np.array([[1.0, 3.0], [10.0, 14.0]])


def test_r_within_a_prompt_does_not_see_which_prompt_is_easy():
    """Scores that only know the prompt have no spread within it; these order answers rightly."""
    scores = np.array([[50.0, 51.0], [0.0, 2.0]])
    assert np.corrcoef(scores.ravel(), TRUTH.ravel())[0, 1] < 0
    assert bench.within(scores, TRUTH) == pytest.approx(1)
    assert bench.within(-scores, TRUTH) == pytest.approx(-1)


def test_pairs_right_by_hand():
    """One of two pairs in order; a pair whose truth hardly differs does not count."""
    scores = np.array([[0.0, 1.0], [1.0, 0.0], [1.0, 0.0]])
    truth = np.array([[1.0, 3.0], [10.0, 14.0], [2.0, 2.0 + bench.APART / 2]])
    assert bench.pairs_right(scores, truth) == pytest.approx(0.5)


def test_judges_of_fewer_ratings_are_those_of_the_audit():
    """So that one training serves both results: a quarter of 64 prompts is 16 of them."""
    asked = []
    world = SimpleNamespace(reward_model="all", judge=lambda *arguments: asked.append(arguments))
    assert bench.reward_model_of(world, "all") == "all"
    bench.reward_model_of(world, "1/4")
    bench.reward_model_of(world, "1/16")
    groups = list(range(64))
    assert [place for place, _ in asked] == ["judges/quarter", "judges/sixteenth"]
    assert [len(change(groups)) for _, change in asked] == [16, 4]


def test_over_seeds_by_hand():
    """1 and 3: mean 2, and 12.71 standard errors of 1 to either side."""
    rows = [{"seed": 0, "judge": "a", "R": 1.0}, {"seed": 1, "judge": "a", "R": 3.0}]
    (row,) = bench.over_seeds(rows, ["judge"])
    assert row["judge"] == "a" and row["R"]["mean"] == 2 and row["seeds"] == 2
    assert row["R"]["plus or minus"] == pytest.approx(12.706, abs=1e-3)


def test_ppo_by_size_may_have_fewer_seeds(tmp_path, monkeypatch):
    """It is most of the work; each row says of how many seeds it is."""
    asked = []

    def kept(world, name):
        asked.append((name, world.seed))
        return [{"seed": world.seed, "judge": "a", "R": float(world.seed)}]

    monkeypatch.setattr(bench, "kept", kept)
    monkeypatch.setattr(bench, "PARTS", {"read": (None, ["judge"]), "trained": (None, ["judge"])})
    monkeypatch.setattr(bench, "drawn", stop)
    monkeypatch.setattr(bench.torch, "set_num_threads", lambda number: None)
    command = ["judge.py", "--seeds", "0", "1", "2", "--trained", "1"]
    monkeypatch.setattr(sys, "argv", [*command, "--folder", str(tmp_path)])
    with pytest.raises(Drawn) as drawn:
        bench.main()
    assert asked == [("read", 0), ("read", 1), ("read", 2), ("trained", 1)]
    result = drawn.value.args[0]
    assert [result[name][0]["seeds"] for name in ("read", "trained")] == [3, 1]


class Drawn(Exception):
    """Ends the command where it would draw its result."""


def stop(result, seeds):
    raise Drawn(result)


def test_what_is_written_is_json_that_any_reader_takes():
    """One seed has no interval, and JSON no nan."""
    rows = [{"seed": 0, "judge": "blind", "alpha": 0.5, "peak": float("nan")}]
    written = bench.without_nan({"rows": bench.over_seeds(rows, ["judge"]), "n": 1})
    assert written["rows"][0]["alpha"] == {"mean": 0.5, "plus or minus": None}
    assert written["rows"][0]["peak"] == {"mean": None, "plus or minus": None}
    assert written["n"] == 1
