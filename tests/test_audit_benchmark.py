"""Tests of benchmarks/audit.py and real_edits.py.

What is predicted, what judges learn from, how predictors are compared; what readers of edits see.
"""

import importlib
import json
import sys
from collections import Counter

import numpy as np
import pandas as pd
import pytest

from hs2lib.audit import auditing
from hs2lib.data.load import load
from hs2lib.group import Group, Response, Turn
from hs2lib.models.reward_model import RewardModel
from hs2lib.paths import root

sys.path.insert(0, str(root() / "benchmarks"))
bench = importlib.import_module("audit")
real_edits = importlib.import_module("real_edits")
sys.path.pop(0)


@pytest.fixture(scope="module")
def groups():
    return load("helpsteer2", "embedded", split="train", n_prompts=64, seed=91).groups


def labels(groups):
    return [response.labels for group in groups for response in group.responses]


def test_gain_of_the_chosen_answer_by_hand():
    """Above the mean of the same prompt: 3 - 2 and 0 - 1."""
    truth = np.array([[1.0, 3.0], [0.0, 2.0]])
    assert bench.gain(np.array([[0.1, 0.2], [5.0, 4.0]]), truth) == pytest.approx(0)
    assert bench.gain(truth, truth) == pytest.approx(1)


def test_judges_learn_from_less_and_from_what_is_dealt_out(groups):
    half = bench.JUDGES["half"][1](groups)
    assert half == list(groups[:32])
    assert len(bench.JUDGES["a sixteenth"][1](groups)) == 4
    for name, least, most in (("20 % dealt out", 0.05, 0.35), ("60 % dealt out", 0.4, 0.75)):
        changed = bench.JUDGES[name][1](groups)
        assert [group.prompt for group in changed] == [group.prompt for group in groups]
        assert Counter(labels(changed)) == Counter(labels(groups))  # dealt out, none lost
        pairs = zip(labels(changed), labels(groups), strict=True)
        assert least < np.mean([new != old for new, old in pairs]) < most
        assert changed == bench.JUDGES[name][1](groups)  # of the group, not of a draw


def judged(audit, r, gains):
    table = pd.DataFrame({"audit": audit, "R with held-out ratings": r, bench.GAIN: gains})
    table["pairs right"] = 50.0
    table["minus R with length"] = -table.audit
    table["SD within"] = 1.0
    table["judge"] = [f"judge {number}" for number in range(len(table))]
    table["seed"] = 0
    return table


def test_spearman_is_taken_within_a_seed():
    """A seed that is easier for all judges adds no agreement."""
    first = judged([50, 60, 70, 80], [0.4, 0.3, 0.2, 0.1], [1.0, 2.0, 3.0, 4.0])
    second = judged([80, 90, 95, 99], [0.1, 0.2, 0.3, 0.5], [-1.0, -2.0, -3.0, -4.0])
    both = pd.concat([first, second.assign(seed=1)])
    assert bench.rank_correlations(first)["audit"] == pytest.approx(1)
    assert bench.rank_correlations(first)["R with held-out ratings"] == pytest.approx(-1)
    assert bench.rank_correlations(both)["audit"] == pytest.approx(0)
    assert np.isnan(bench.rank_correlations(first)["pairs right"])  # all judges alike


def test_the_first_line_says_whether_the_audit_is_better():
    rng = np.random.default_rng(0)
    gains = np.arange(12.0)
    useless = judged(rng.permutation(12), gains, gains)
    rows = bench.with_intervals(useless, n_boot=200)
    assert "worse than R with held-out ratings" in bench.in_words(rows)
    useful = judged(gains, rng.permutation(12), gains)
    rows = bench.with_intervals(useful, n_boot=200)
    assert rows[0]["Spearman"] == pytest.approx(1)
    assert "better than R with held-out ratings, minus R with length" in bench.in_words(rows)
    alike = judged(gains, gains, gains)
    words = bench.in_words(bench.with_intervals(alike, n_boot=200))
    assert "no better shown than R with held-out ratings" in words


# Edits of real answers, read blind


def two_prompts():
    """Two prompts with an answer each, and every edit of it."""
    answered = []
    for number, text in enumerate(("One. Two. Three 3.", "Four. Five and 5. Six.")):
        prompt = (Turn("user", f"Say {number}?"),)
        answered.append(Group(str(number), prompt, (Response(f"{number}/0", text),)))
    judge = RewardModel.new("tiny", attributes=("reward",))
    return answered, auditing.edited_groups(answered, judge)


def test_what_is_read_has_each_kind_on_either_side_and_no_mark_of_the_edit():
    answered, edited = two_prompts()
    rows = real_edits.pairs_to_read(answered, edited, seed=0)
    assert Counter(row["kind"] for row in rows) == dict.fromkeys(real_edits.KINDS, 2)
    assert {row["edited"] for row in rows} == {"A", "B"}
    for row in rows:
        as_is = answered[int(row["of"])].responses[0].text
        other = "B" if row["edited"] == "A" else "A"
        assert row[other] == as_is != row[row["edited"]]
        assert row["prompt"].endswith("?")
    assert rows == real_edits.pairs_to_read(answered, edited, seed=0)
    assert [row["id"] for row in rows] == list(range(8))


def test_shares_by_kind_are_means_of_readers_by_hand():
    """Of two answers without a sentence the first reader finds both worse, the second one."""
    kind, other = real_edits.KINDS[0], real_edits.KINDS[1]
    key = {
        "0": {"kind": kind, "of": "a", "edited": "A"},
        "1": {"kind": kind, "of": "b", "edited": "B"},
        "2": {"kind": other, "of": "a", "edited": "B"},
    }
    first = pd.Series({"0": "A", "1": "B", "2": "A"})
    second = pd.Series({"0": "A", "1": "neither", "2": "neither"})
    left_out, changed, whole = real_edits.table_of(key, [first, second])
    assert (left_out["answers"], left_out["worse (%)"], left_out["better (%)"]) == (2, 75, 0)
    assert (changed["answers"], changed["worse (%)"], changed["better (%)"]) == (1, 0, 50)
    assert whole["edit"] == "all" and whole["worse (%)"] == 50
    assert whole["low"] == whole["high"] == 50  # both prompts have the mean .5


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ("0,A\n", "absent: 1"),
        ("0,A\n1,B\n1,A\n", "twice: 1"),
        ("0,A\n1,both\n", "no verdict: both"),
    ],
)
def test_of_a_reader_who_left_one_out_the_error_names_which(tmp_path, rows, words):
    file = tmp_path / "reader.csv"
    file.write_text("id,worse\n" + rows)
    with pytest.raises(SystemExit, match=words):
        real_edits.read(file, ["0", "1"])


def test_counting_writes_who_read_and_how_often_readers_agree(tmp_path, monkeypatch):
    monkeypatch.setattr(real_edits, "RESULT", tmp_path / "real_edits.json")
    kind = real_edits.KINDS[0]
    key = {str(i): {"kind": kind, "of": str(i), "edited": "A"} for i in range(4)}
    about = {"model": "tiny", "seed": 0, "prompts": 4, "key": key}
    (tmp_path / real_edits.KEY).write_text(json.dumps(about))
    for name, verdicts in (("one", "AAAB"), ("two", "AABB")):
        rows = [f"{i},{verdict}" for i, verdict in enumerate(verdicts)]
        (tmp_path / f"{name}.csv").write_text("id,worse\n" + "\n".join(rows) + "\n")
    files = [str(tmp_path / "one.csv"), str(tmp_path / "two.csv")]
    folder = ["--folder", str(tmp_path)]
    real_edits.main([*folder, "count", *files, "--read-by", "language models"])
    result = json.loads((tmp_path / "real_edits.json").read_text())
    assert result["readers agree (%)"] == 75 and result["read by"] == "language models"
    assert result["edits"][-1]["worse (%)"] == 62.5 and result["figure"].startswith(
        "worse in 62.5 %"
    )
