"""Tests of benchmarks/audit.py: what is predicted, what judges learn from, how predictors are compared."""

import importlib
import json
import sys
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from hs2lib.data.load import load
from hs2lib.group import ATTRIBUTES
from hs2lib.models.reward_model import RewardModel
from hs2lib.paths import root

sys.path.insert(0, str(root() / "benchmarks"))
bench = importlib.import_module("audit")
sys.path.pop(0)

pytestmark = pytest.mark.slow


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


def test_the_lead_of_the_audit_has_an_interval():
    """By hand: the ratings rank judges the other way round, so 1 - (-1) = 2; equal ones differ by 0."""
    gains = np.arange(12.0)
    for ratings, lead in ((gains[::-1], 2.0), (gains, 0.0)):
        rows = bench.with_intervals(judged(gains, ratings, gains), n_boot=200)
        assert rows[0]["predictor"] == "audit" and rows[0]["Spearman"] == pytest.approx(1)
        (other,) = [row for row in rows if row["predictor"] == "R with held-out ratings"]
        ends = (other["less, low"], other["less, high"])
        assert (other["audit less it"], *ends) == pytest.approx((lead, lead, lead))


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
    assert rows[0]["Spearman"] == pytest.approx(-1)
