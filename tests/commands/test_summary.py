"""The last screen of a tier, and what `hs2 run` says of a run on its way."""

import json

from hs2lib.commands import summary, watch
from hs2lib.paths import write
from hs2lib.runs import key


def left(run, numbers, tier="demo"):
    write(key.result(run, tier, key.COMPUTE), json.dumps({"numbers": numbers}))


def test_the_last_screen_has_a_line_a_method(tmp_path, monkeypatch):
    monkeypatch.setenv("HS2_RUNS", str(tmp_path))
    assert summary.screen("demo") == "", "nothing has been run"
    left("07_sft", {"true score, SFT": 5.5, "true score, base": 4.5})
    left("08_dpo", {"true score": 6.75, "gain in true score": 1.25})
    lines = summary.screen("demo").splitlines()
    assert lines[1:3] == ["  SFT             5.50", "  DPO             6.75  +1.25"]


def test_of_real_data_the_reward_models_score_stands_there(tmp_path, monkeypatch):
    monkeypatch.setenv("HS2_RUNS", str(tmp_path))
    score = "reward model's score"
    left("08_dpo", {score: 2.0, f"gain in {score}": -0.5}, "laptop")
    head, line, _ = summary.screen("laptop").splitlines()
    assert score in head and line == "  DPO             2.00  -0.50"


def test_a_live_line_says_cell_step_and_time_left():
    said = {"cell": 12, "cells": 80, "step": 30, "steps": 100, "left": 75}
    assert (
        watch._in_words("08_dpo", said) == "  08_dpo: cell 12 of 80, step 30 of 100, 1:15 min left"
    )
    assert watch._in_words("01_x", {"cell": 1, "cells": 9}) == "  01_x: cell 1 of 9"
