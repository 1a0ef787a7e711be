"""Tests of benchmarks/processors.py --demo: what is counted of two runs of the demo, by hand."""

import importlib
import json
import sys
from pathlib import Path

import pytest

from hs2lib.paths import root

sys.path.insert(0, str(root() / "benchmarks"))
bench = importlib.import_module("processors")
sys.path.pop(0)

TABLE = "measure,mean,95 % low,95 % high,verdict\ntruth,{mean},{low},{high},{verdict}\n"


def publish(folder, mean, low, high, verdict):
    folder = folder / "demo" / "08_dpo"
    folder.mkdir(parents=True)
    (folder / "gains.csv").write_text(TABLE.format(mean=mean, low=low, high=high, verdict=verdict))
    (folder / "manifest.json").write_text("{}")


def test_conclusions_are_counted_and_the_changed_ones_are_named(tmp_path, monkeypatch):
    """By hand: the mean and the verdict conclude something; the gain's interval holds 0 in ours."""
    publish(tmp_path / "published", 0.5, 0.1, 0.9, "works")
    publish(tmp_path / "ours", 0.3, -0.1, 0.7, "works")
    monkeypatch.setattr(bench.paths, "published_reports", lambda: tmp_path / "published")
    counted = bench.beside(tmp_path / "ours")
    assert counted["conclusions"] == 2
    (changed,) = counted["changed"]
    assert changed["row"] == "truth" and changed["column"] == "mean"
    assert counted["cells"][bench.compare.CHANGED] == 1
    assert sum(counted["cells"].values()) == 4, "the bounds are cells too"


def test_the_demo_runs_under_both_settings_and_differing_answers_are_counted(tmp_path, monkeypatch):
    """The notebooks first, then the answers, each in a process with the setting's variables."""
    ran = []

    def run(command, *, env, check):
        setting = env.get("ATEN_CPU_CAPABILITY", "")
        ran.append((setting, "hs2lib.run" in command, Path(env["HS2_RUNS"]).parent.name))
        if "--child" in command:
            file = Path(command[command.index("--child") + 1])
            file.parent.mkdir(parents=True, exist_ok=True)
            last = "other" if setting else "same"
            file.write_text(json.dumps({"sft": ["same", last]}))

    monkeypatch.setattr(bench.subprocess, "run", run)
    monkeypatch.setattr(bench, "beside", lambda reports: {"changed": []})
    monkeypatch.setattr(bench.report, "commit", lambda: "abc")
    part = bench.demo(tmp_path, 2)
    assert ran == [
        ("", True, "0"),
        ("", False, "0"),
        ("default", True, "1"),
        ("default", False, "1"),
    ]
    assert part["answers that differ"] == {"sft": 1} and part["prompts"] == 2
    assert [row["setting"] for row in part["settings"]] == list(bench.OF_THE_DEMO)


@pytest.mark.parametrize("name", ["ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA"])
def test_the_other_setting_holds_torch_and_onednn_back_at_once(name):
    assert name in bench.OTHER and len(bench.OTHER) == 2
