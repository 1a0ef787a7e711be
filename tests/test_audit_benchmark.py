"""Tests of benchmarks/audit.py and real_edits.py.

What is predicted, what judges learn from, how predictors are compared; what readers of edits see.
"""

import importlib
import json
import sys
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from hs2lib.audit import auditing
from hs2lib.data.load import load
from hs2lib.group import ATTRIBUTES, Group, Response, Turn
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


def test_results_of_single_seeds_are_put_together_if_they_are_of_one_commit(tmp_path):
    """A seed takes half an hour, so seeds are run one by one, and in any order."""

    def written(name, seed, commit):
        file = tmp_path / name
        file.write_text(
            json.dumps({"seeds": [seed], "commit": commit, "judges": [{"seed": seed, "audit": 1}]})
        )
        return file

    files = [written("a", 0, "abc"), written("b", 1, "abc")]
    rows, commit = bench.joined(files)
    assert [row["seed"] for row in rows] == [0, 1] and commit == "abc"
    with pytest.raises(SystemExit, match="one seed is there twice: 0, 1, 0"):
        bench.joined([*files, files[0]])
    with pytest.raises(SystemExit, match="several commits: abc, xyz"):
        bench.joined([*files, written("c", 2, "xyz")])


def test_a_judge_of_preferences_has_one_score_and_the_recipe_of_the_named_run(tmp_path):
    """Which of two answers is more helpful is all it learns, as "w. HH-RLHF" of notebook 05."""
    setup = bench.World(0, tmp_path).setup(bench.REWARD_MODEL)
    recipe = replace(setup.recipe, **bench.RECIPES[bench.PREFERENCES])
    assert recipe.objective == "bradley-terry" and recipe.compare == "helpfulness"
    judge = RewardModel.new("tiny", attributes=("reward",))
    assert bench.weights_of(judge).tolist() == [1.0]
    rated = RewardModel.new("tiny", attributes=ATTRIBUTES)
    assert bench.weights_of(rated) == pytest.approx([0.65, 0.8, 0.45, 0, 0])


def test_ppo_is_rewarded_by_the_judges_score_standardised(groups):
    """On the rated answers that set its scale the reward has mean 0 and SD 1; order is the judge's."""
    judge = RewardModel.new("tiny", attributes=ATTRIBUTES)
    recipe = SimpleNamespace(n_standard=16, budget=4096)
    rated = SimpleNamespace(groups=groups[:16])
    reward = bench.reward_of(judge)(rated, SimpleNamespace(recipe=recipe))
    rewards = reward.score(groups[:16])[:, 0].double().numpy()
    assert rewards.mean() == pytest.approx(0, abs=1e-4)
    assert rewards.std() == pytest.approx(1, abs=1e-4)
    scores = judge.score(groups[:16]).double().numpy() @ bench.weights_of(judge)
    assert np.corrcoef(rewards, scores)[0, 1] == pytest.approx(1, abs=1e-4)
    assert not any(weight.requires_grad for weight in reward.parameters())


def test_gains_of_ppo_are_less_sft_and_kept(tmp_path, monkeypatch):
    """By hand: an answer of 3 in place of 2, greedy; 1.5 in place of 1, sampled."""
    truths = {"sft": {0.0: 2.0, 1.0: 1.0}, "trained": {0.0: 3.0, 1.0: 1.5}}
    asked = []

    def reached(policy, prompts, temperature, seed):
        asked.append((policy, temperature, seed))
        return truths[policy][temperature]

    monkeypatch.setattr(bench, "reached", reached)
    monkeypatch.setattr(bench, "rewarded_by", lambda *arguments: "trained")
    world = SimpleNamespace(folder=tmp_path, seed=7, policy=lambda name: name)
    gains = bench.gains_of_ppo(world, "half", None, [])
    assert gains == {"gain of PPO, greedy": 1.0, "gain of PPO, sampled at 1": 0.5}
    assert {seed for _, _, seed in asked} == {7}
    assert bench.gains_of_ppo(world, "half", None, []) == gains and len(asked) == 4


def test_each_gain_has_its_own_ranks():
    """The audit ranks what best of 8 gains, and the other way round what PPO gains."""
    table = judged([50, 60, 70, 80], [0.1, 0.2, 0.3, 0.4], [1.0, 2.0, 3.0, 4.0])
    table["gain of PPO, greedy"] = [4.0, 3.0, 2.0, 1.0]
    assert bench.rank_correlations(table)["audit"] == pytest.approx(1)
    assert bench.rank_correlations(table, "gain of PPO, greedy")["audit"] == pytest.approx(-1)
    rows = bench.with_intervals(table, n_boot=50, gained="gain of PPO, greedy")
    words = bench.in_words(rows, "gain of PPO, greedy")
    assert words.startswith("Spearman of audit and gain of PPO, greedy: -1.00")


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
