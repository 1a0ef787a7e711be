"""What is measured of rounds: by hand on a few texts, by the truth where it is known and not where it is not."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch

from hs2lib.align import ppo
from hs2lib.align.iterative_dpo import Round, SampledPairs, slices, train
from hs2lib.corpus import generate
from hs2lib.corpus.grade import true_goodness
from hs2lib.evaluate import by_round
from hs2lib.evaluate.comparison import Comparison
from hs2lib.evaluate.response_rows import SCORE, TRUTH
from hs2lib.group import Group, Response, Turn
from hs2lib.models.policy import load_policy
from hs2lib.models.reward_model import RewardModel
from hs2lib.models.rollout import Sample
from hs2lib.runs.setup import Setup
from hs2lib.train.items import best_worst_pairs
from hs2lib.train.recipes import PPO, IterativeDPO
from hs2lib.train.trainer import TrainingResult

RECIPE = IterativeDPO(n_boot=100)


def scored(groups: list[Group], scores: list[list[float]]) -> SampledPairs:
    """Samples with these scores, and the pairs of them."""
    samples = []
    for group in groups:
        texts = [Sample(response.id, response.text, finished=True) for response in group.responses]
        samples.append(replace(group, responses=tuple(texts)))
    scores = np.array(scores)
    pairs, counts = best_worst_pairs(samples, scores.ravel())
    return SampledPairs(samples, scores, pairs, counts)


def real(*texts: str) -> Group:
    responses = tuple(Response(f"real/{i}", text) for i, text in enumerate(texts))
    return Group("real", (Turn("user", "Hi"),), responses)


@pytest.fixture(scope="module")
def generated() -> list[Group]:
    """Generated prompts whose two responses truly differ, with the better one first."""
    out = []
    for group in generate.groups(40, seed=3):
        truth = true_goodness(group)
        if truth[0] != truth[1]:
            order = np.argsort(-truth)
            out.append(replace(group, responses=tuple(group.responses[i] for i in order)))
    return out[:8]


def test_scores_that_count_characters_are_seen_through():
    """Lengths 1, 2, 3 with scores that rise by 2 a character: R is 1, whatever each prompt's own level."""
    sampled = scored(
        [real("a", "bb", "ccc"), real("a", "bb", "ccc")], [[1.0, 3.0, 5.0], [11.0, 13.0, 15.0]]
    )
    table = by_round.by_length(sampled, **RECIPE.resampled)
    assert table.value.tolist() == [pytest.approx(1), 100]
    samples = [real("a", "bb", "ccc"), real("d", "ee", "fff")]
    shorter = by_round.by_length(scored(samples, [[5.0, 3.0, 1.0]] * 2), **RECIPE.resampled)
    assert shorter.value.tolist() == [pytest.approx(-1), 0]
    alike = scored([real("aa", "b", "cc")] * 2, [[5.0, 3.0, 1.0]] * 2)
    assert by_round.by_length(alike, **RECIPE.resampled).value[by_round.LONGER] == 50


def test_picks_by_hand(generated):
    """Six of eight pairs in the right order: 75 %, and the means are those of the grader."""
    scores = [[1.0, 0.0]] * 6 + [[0.0, 1.0]] * 2
    picks = by_round.picks(scored(generated, scores), RECIPE)
    truth = np.array([true_goodness(group) for group in generated])
    chosen = np.concatenate([truth[:6, 0], truth[6:, 1]])
    rejected = np.concatenate([truth[:6, 1], truth[6:, 0]])
    expected = [truth.mean(), chosen.mean(), rejected.mean(), truth[:, 0].mean()]
    np.testing.assert_allclose(picks.table[TRUTH], expected)
    assert (
        picks.n_differ == 8
        and picks.right.estimate == 75
        and 0 < picks.right.low < 75 < picks.right.high < 100
    )
    assert (picks.n_right, picks.n_wrong, picks.n_equal) == (6, 2, 0)
    assert picks.gap.estimate == pytest.approx(chosen.mean() - rejected.mean())


def test_of_real_prompts_no_number_is_about_the_truth():
    sampled = scored([real("a", "bb")], [[0.0, 1.0]])
    assert by_round.picks(sampled, RECIPE) is None
    assert np.isnan(by_round.truth_of_responses(sampled.groups)).tolist() == [True, True]
    (row,) = by_round.table([played(sampled)]).to_dict("records")
    assert not [name for name in row if "truth" in name] and row["round"] == 1 and row["steps"] == 2


def played(sampled: SampledPairs) -> Round:
    history = [{"loss": 0.7, "step": 1}, {"loss": 0.6, "step": 2}]
    return Round(sampled, [], TrainingResult(history, 2, float("nan"), 2, 0.0, Path()))


def test_a_row_a_round_by_the_truth(generated):
    sampled = scored(generated, [[1.0, 0.0]] * 8)
    table = by_round.table([played(sampled), played(sampled)])
    truth = np.array([true_goodness(group) for group in generated])
    np.testing.assert_allclose(table["truth, mean"], truth.mean())
    np.testing.assert_allclose(
        table["truth, chosen less rejected"], (truth[:, 0] - truth[:, 1]).mean()
    )
    assert table["best reward model's score"].tolist() == [1, 1] and table["round"].tolist() == [
        1,
        2,
    ]
    losses, scores = by_round.curves([played(sampled)])
    assert losses["round 1"].tolist() == [0.7, 0.6] and scores["round 1"].shape == (8, 2)


@pytest.mark.slow
def test_rounds_are_compared_by_their_own_weights_and_the_last_ones_stay(tmp_path, monkeypatch):
    """Two rounds on a tiny model: the gains of a round are those of its checkpoint, whatever was trained since."""
    monkeypatch.setenv("HS2_RUNS", str(tmp_path))
    settings = {
        "n_samples": 3,
        "max_new_tokens": 6,
        "rounds": 2,
        "n_prompts": 4,
        "steps": 2,
        "batch": 2,
    }
    settings |= {
        "learning_rate": 1e-2,
        "start": "tiny",
        "reward": "tiny",
        "n_eval_prompts": 4,
        "n_boot": 100,
    }
    setup = Setup("09_iterative_dpo", "smoke", {}, IterativeDPO(**settings))
    policy = load_policy("tiny")
    start = load_policy("tiny")
    reward_model = RewardModel.new("tiny", seed=3)
    played = train(policy, slices(list(generate.groups(8, seed=5)), 2, 4), reward_model, setup)
    last = policy.fingerprint()
    compared = Comparison.begin(setup, reward_model, start, earlier=False)
    gained = by_round.compare(compared, policy, start, played.rounds)
    assert policy.fingerprint() == last and not compared.frames
    assert set(gained.measure) == {TRUTH, SCORE, "characters", "kl"}
    assert gained.policy.unique().tolist() == ["round 1", "round 2"]
    kl = gained[gained.measure == "kl"].set_index("policy")["minus start"]
    own = compared.measure(policy, "last").kl.mean()
    assert (
        kl["round 2"] == pytest.approx(own, abs=1e-5) and abs(kl["round 1"] - kl["round 2"]) > 1e-4
    )


def test_ppos_rounds_by_the_truth_and_in_points(generated, tmp_path):
    """Rewards of 0 and 1 with mean 5 and SD 2 are 5 and 7 points; the truth is that of the texts."""
    history = []
    (tmp_path / "samples").mkdir()
    for number, prompt in enumerate(generated[:2]):
        history.append(
            dict.fromkeys(ppo.NAMES, 0.0)
            | {"round": number, "step": number + 1, "reward": float(number)}
        )
        row = {
            "id": prompt.id,
            "responses": [{"text": response.text} for response in prompt.responses],
        }
        (tmp_path / "samples" / f"round-{number:04d}.jsonl").write_text(json.dumps(row) + "\n")
    result = TrainingResult(history, 2, float("nan"), 2, 0.0, tmp_path)
    prompts = ppo.Prompts(generated, [], [], [], [])
    curves = by_round.of_ppo(result, prompts, SimpleNamespace(folded={"mean": 5.0, "sd": 2.0}))
    assert curves[SCORE].tolist() == [5, 7]
    np.testing.assert_allclose(
        curves[TRUTH], [true_goodness(prompt).mean() for prompt in generated[:2]]
    )


def test_the_baseline_of_a_group_is_the_mean_of_its_rewards(generated):
    """Two answers with rewards 2 and 0: the mean is 1, and they are 1 better and 1 worse."""
    reward = SimpleNamespace(
        score=lambda groups, **_: torch.tensor([[2.0], [0.0]]), folded={"mean": 5.0, "sd": 0.5}
    )
    rewarded = by_round.of_group(generated[0], reward, PPO(n_samples=4))
    assert rewarded.baseline.tolist() == [1, 1]
    assert rewarded["reward less baseline"].tolist() == [1, -1]
    first, second = by_round.as_answers(generated[0], rewarded, reward)
    assert (first.score, second.score) == (6, 5)


@pytest.mark.parametrize(
    ("truth", "apart"), [([1.0, 0.0], 1.5), ([2.0, 2.0], 0.0), ([4.0, 5.0], -2.5)]
)
def test_how_far_score_and_truth_rise_together(truth, apart):
    """The score rises by 2 at each of ten prompts, the truth by these numbers in turn."""
    frames = []
    for policy, gain in (("SFT", 0.0), ("PPO", 1.0)):
        for k in range(10):
            values = {TRUTH: k + gain * truth[k % 2], SCORE: 3 * k + 2 * gain}
            row = {"policy": policy, "prompt": str(k), "response": f"{k}/0"}
            frames.append(pd.DataFrame([row | values]))
    risen = by_round.risen(frames, "PPO", "SFT")
    assert risen[SCORE].tolist() == [2] * 10 and risen[TRUTH].tolist() == truth * 5
    value, low, high = by_round.apart(risen, n_boot=100, seed=0)
    assert value == pytest.approx(apart) and low <= apart <= high
    unknown = [frame.drop(columns=TRUTH) for frame in frames]
    assert by_round.risen(unknown, "PPO", "SFT") is None


def test_what_the_rounds_gain():
    """The last two rounds are 1.5 and 2.5 above the first one."""
    curves = pd.DataFrame({SCORE: [1.0, 3.0, 4.0], TRUTH: [0.0, 1.0, 2.0]})
    assert by_round.gained_in_rounds(curves, 1, 2) == {SCORE: 2.5, TRUTH: 1.5}
    unknown = curves.assign(**{TRUTH: np.nan})
    assert by_round.gained_in_rounds(unknown, 1, 2) == {SCORE: 2.5}
