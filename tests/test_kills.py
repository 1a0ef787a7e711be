"""What `python tests/kills.py` draws and counts, and one of its kills."""

import random
import sys
from collections import Counter

import kills
import pytest

pytestmark = pytest.mark.slow

NOTEBOOK = "01_dataset_statistics"


def test_a_hundred_kills_leave_no_target_signal_or_notebook_out():
    """Drawn by weights alone, the first twenty kills never fell on one of two training processes."""
    rng = random.Random(0)
    killed = [{"target": "kernel", "signal": "SIGINT", "notebook": "b"}] * 5  # an unequal start
    seconds = {"a": 10.0, "b": 10.0, "c": 40.0}
    while len(killed) < 100:
        target, signal, notebook = kills.draw(rng, seconds, killed)
        killed.append({"target": target, "signal": signal, "notebook": notebook})
    assert {row["target"] for row in killed[5:10]} == set(kills.TARGETS) - {"kernel"}
    both = Counter((row["target"], row["signal"]) for row in killed)
    assert len(both) == 18 and min(both.values()) >= 3
    notebooks = Counter(row["notebook"] for row in killed)
    assert abs(notebooks["a"] - notebooks["b"]) <= 1 and notebooks["c"] >= 8


def test_an_unclean_kill_of_an_earlier_commit_does_not_count():
    """What was mended since does not count against a run, and nothing of today drops out."""
    killed = {"outcome": "killed", "clean": True, "commit": "now"}
    unclean = killed | {"clean": False}
    before = {"commit": "old"}
    late = killed | {"outcome": "ended before the kill"}
    done = [killed, unclean, killed | before, unclean | before, late]
    assert kills.counted(done, "now") == [killed, unclean, killed | before]


def test_a_killed_kernel_leaves_no_process_and_the_next_call_ends_with_the_same_tables(
    tmp_path, monkeypatch
):
    """One kill, without the runner: the script kills every kind of process in every notebook."""
    command = [sys.executable, "-m", "hs2lib.run", "--tier", "smoke", "--execute"]
    monkeypatch.setattr(kills, "RUNNER", command)
    monkeypatch.setattr(kills, "TARGET_SHARES", {"kernel": 1})
    monkeypatch.setattr(kills, "SIGNAL_SHARES", {"SIGKILL": 1})
    monkeypatch.setattr(kills.processes, "PATIENCE_S", 0.0)
    monkeypatch.setenv(kills.processes.OWNER, "another run")
    whole = tmp_path / "whole"
    whole.mkdir()
    assert not kills.finish(whole, [*command, NOTEBOOK])
    assert kills.tables(whole)
    row = kills.trial(tmp_path, 0, 0, {NOTEBOOK: -4.0}, [])  # at once: in its first second
    assert row["outcome"] == "killed" and row["status"] != 0
    assert row["clean"], row
