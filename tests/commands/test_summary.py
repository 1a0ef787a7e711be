"""The last screen of a tier, and what `hs2 run` says of a run on its way."""

import json

from hs2lib.commands import summary, watch
from hs2lib.paths import write
from hs2lib.runs import graph, key


def left(run, numbers, tier="demo"):
    write(key.result(run, tier, key.COMPUTE), json.dumps({"numbers": numbers}))


def gained(measure, before, after):
    gain = after - before
    numbers = {measure: after, f"{measure}, before": before, f"{measure}, gained": gain}
    return numbers | {f"{measure}, gained, low": gain - 0.1, f"{measure}, gained, high": gain + 0.1}


def test_the_last_screen_has_a_line_a_method_and_at_most_nine(tmp_path, monkeypatch):
    """With the two lines of `make reports` and the three of `hs2 compare` it is a dozen."""
    monkeypatch.setenv("HS2_RUNS", str(tmp_path))
    assert summary.screen("demo") == "", "nothing has been run"
    left("05_reward_model_training", {"pairs right (%)": 71.4})
    for run in graph.makers("policy"):
        left(run, gained("true score", 4.0, 4.5))
    lines = summary.screen("demo").splitlines()
    assert len(lines) == 9
    assert lines[1] == "  reward model   71 % of held-out pairs in the raters' order"
    assert lines[2].startswith("  SFT             4.00 ->  4.50  +0.50 [+0.40, +0.60]")


def test_of_real_data_the_reward_models_score_stands_there(tmp_path, monkeypatch):
    monkeypatch.setenv("HS2_RUNS", str(tmp_path))
    left("08_dpo", gained("reward model's score", 1.0, 2.0), "laptop")
    head, line, _ = summary.screen("laptop").splitlines()
    assert "reward model's score before and after" in head and "control" not in line


def test_a_live_line_says_cell_step_and_time_left():
    said = {"cell": 12, "cells": 80, "step": 30, "steps": 100, "left": 75}
    assert (
        watch._in_words("08_dpo", said) == "  08_dpo: cell 12 of 80, step 30 of 100, 1:15 min left"
    )
    assert watch._in_words("01_x", {"cell": 1, "cells": 9}) == "  01_x: cell 1 of 9"
