"""Iterative DPO: a round pairs the best with the worst of what the policy wrote, and a round can be repeated."""

import copy
import sys
import time
from dataclasses import replace
from pathlib import Path
from random import Random

import forked
import numpy as np
import pytest
import torch
from shared_models import share_models
from tiny_training import Slow

from hs2lib.align import iterative_dpo
from hs2lib.align.iterative_dpo import sample, slices, train
from hs2lib.data.load import Loaded
from hs2lib.group import ATTRIBUTES
from hs2lib.models.policy import load_policy
from hs2lib.models.reward_model import RewardModel
from hs2lib.runs.setup import Setup
from hs2lib.train import objectives
from hs2lib.train.recipes import IterativeDPO
from hs2lib.world import sets

PROMPTS = list(sets.groups(10, seed=5))


def setup(**changes) -> Setup:
    """Rounds of four steps on a tiny model, with short samples, in the folder of the test."""
    settings = {"n_samples": 3, "max_new_tokens": 6, "seed": 1, "rounds": 2, "n_prompts": 4}
    settings |= {
        "steps": 4,
        "batch": 2,
        "learning_rate": 1e-3,
        "save_every": 1,
        "beta": 0.1,
        "start": "tiny",
    }
    return Setup("09_iterative_dpo", "smoke", {}, IterativeDPO(**settings | changes))


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch) -> Path:
    """Where runs keep what they make."""
    monkeypatch.setenv("HS2_RUNS", str(share_models(tmp_path)))
    return tmp_path


class Lengths:
    """Something else in the reward model's place: what it says of all five attributes is the text's length."""

    attributes = ATTRIBUTES

    def score(self, groups, **options):
        lengths = [len(response.text) for group in groups for response in group.responses]
        return torch.tensor(lengths, dtype=torch.float32)[:, None].expand(-1, len(ATTRIBUTES))

    def fingerprint(self):
        return "lengths"


def two_at_random(groups, scores):
    """Two samples of each prompt, whatever their scores: the control of the method."""
    pairs = []
    for group in groups:
        two = tuple(Random(group.id).sample(group.responses, 2))
        pairs.append(replace(group, responses=two, preference=-1.0, preferences=()))
    return pairs, {"groups": len(groups), "pairs": len(pairs)}


def test_the_best_meets_the_worst_of_what_was_sampled(tiny_policy, trained_reward_model):
    sampled = sample(tiny_policy, PROMPTS[:5], trained_reward_model, setup())
    assert sampled.scores.shape == (5, 3) and len(sampled.pairs) == 5 - sampled.counts["ties"]
    scores = trained_reward_model.score(sampled.groups) @ torch.tensor([0.65, 0.8, 0.45, 0, 0])
    np.testing.assert_allclose(sampled.scores.ravel(), scores, rtol=1e-5, atol=1e-6)
    by_id = {}
    for group, row in zip(sampled.groups, sampled.scores, strict=True):
        by_id |= {response.id: score for response, score in zip(group.responses, row, strict=True)}
    for pair, row in zip(sampled.pairs, sampled.scores, strict=True):
        assert [by_id[response.id] for response in pair.responses] == [row.max(), row.min()]
    summary = sampled.summary()
    worst, mean, best = (
        summary[f"{which} reward model's score"] for which in ("worst", "mean", "best")
    )
    assert worst < mean < best and summary["samples"] == 15


def test_unfinished_samples_can_be_left_out(tiny_policy, trained_reward_model):
    with pytest.raises(
        ValueError, match="none of 2 prompts has two samples"
    ):  # 6 tokens end no turn
        sample(tiny_policy, PROMPTS[:2], trained_reward_model, setup(unfinished="leave out"))


def test_the_rule_of_pairs_and_what_scores_are_arguments(tiny_policy):
    """The method's controls are these arguments: without them the loop would have to be written again."""
    by_length = sample(tiny_policy, PROMPTS[:5], Lengths(), setup())
    lengths = [[len(response.text) for response in group.responses] for group in by_length.groups]
    np.testing.assert_allclose(by_length.scores, (0.65 + 0.8 + 0.45) * np.array(lengths), rtol=1e-6)
    assert all(
        len(chosen.text) > len(rejected.text)
        for chosen, rejected in (p.responses for p in by_length.pairs)
    )
    drawn = sample(tiny_policy, PROMPTS[:5], Lengths(), setup(), pair=two_at_random)
    assert drawn.groups == by_length.groups and len(drawn.pairs) == 5
    for pair, group in zip(drawn.pairs, drawn.groups, strict=True):
        assert set(pair.responses) < set(group.responses)


def test_rounds_take_new_prompts_each():
    assert [[g.id for g in part] for part in slices(PROMPTS, 2, 3)] == [
        [g.id for g in PROMPTS[:3]],
        [g.id for g in PROMPTS[3:6]],
    ]
    with pytest.raises(ValueError, match="3 rounds of 4 prompts need 12 prompts, there are 10"):
        slices(PROMPTS, 3, 4)


def test_prompts_are_shuffled_by_the_seed_and_bare():
    """Responses that came with the data would be trained on as if the policy had written them."""
    parts = iterative_dpo.prepare(Loaded(PROMPTS, "", True), setup())
    assert [len(part) for part in parts] == [4, 4]
    drawn = [group for part in parts for group in part]
    assert len({group.id for group in drawn}) == 8 and not any(group.responses for group in drawn)
    assert [g.id for g in drawn] != [g.id for g in PROMPTS[:8]]
    assert iterative_dpo.prepare(Loaded(PROMPTS, "", True), setup()) == parts
    assert iterative_dpo.prepare(Loaded(PROMPTS, "", True), setup(seed=2)) != parts


def targets(played: iterative_dpo.Played, number: int) -> np.ndarray:
    """The reference's log-probabilities of the pairs of a round, [pairs, 2]."""
    return np.stack([item.targets[:, 1] for item in played.rounds[number].items])


@pytest.mark.slow
def test_dpo_keeps_close_to_the_previous_policy_or_to_the_first(tiny_policy, trained_reward_model):
    """Of one and the same second round's samples the reference's log-probabilities say which policy it was."""
    for reference in ("previous", "first"):
        policy = copy.deepcopy(tiny_policy)
        rounds = slices(PROMPTS, 2, 4)
        played = train(policy, rounds, trained_reward_model, setup(reference=reference))
        assert [one.result.steps for one in played.rounds] == [4, 4]
        second = played.rounds[1]
        own, _ = tiny_policy.log_probs(second.sampled.pairs)
        same = np.allclose(targets(played, 1).ravel(), own.numpy(), atol=1e-4)
        assert same == (reference == "first"), reference
        assert policy.fingerprint() != tiny_policy.fingerprint()


@pytest.mark.slow
def test_what_was_put_in_place_of_the_methods_own_is_recorded(own_policy):
    """A run whose pairs were drawn at random must not look like the method's."""
    loss = objectives.dpo(0.5)
    drawn = train(
        own_policy,
        slices(PROMPTS, 1, 4),
        Lengths(),
        setup(),
        pair=two_at_random,
        objective=loss,
    )
    assert drawn.arguments == {"pair": two_at_random, "reward_model": "lengths"}
    assert drawn.rounds[0].result.arguments == {"objective": loss}


def run(folder: Path, callbacks=()) -> str:
    """Two rounds; the fingerprint of the policy that comes out."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HS2_RUNS", str(share_models(folder)))
        policy = load_policy("tiny")
        scorer = RewardModel.new("tiny", seed=3)
        train(policy, slices(PROMPTS, 2, 4), scorer, setup(), callbacks=callbacks)
    return policy.fingerprint()


def in_second_round(folder: Path) -> bool:
    """Whether one training is done and the other has its first checkpoint."""
    done = {file.parent for file in folder.glob("smoke/*/training-*/done.json")}
    begun = {place.parent for place in folder.glob("smoke/*/training-*/checkpoint-1")}
    return bool(done) and bool(begun - done)


@pytest.mark.slow
def test_killed_and_resumed_is_straight_bit_for_bit(tmp_path):
    """SIGKILL in the second round's training, and half a line in the files of samples and log-probabilities."""
    folder = tmp_path / "killed"
    folder.mkdir()
    process = forked.start(__file__, folder)
    patience = time.time() + 120
    while not in_second_round(folder):
        assert process.exitcode is None and time.time() < patience
        time.sleep(0.02)
    process.kill()
    process.join()
    assert len(list(folder.glob("smoke/*/training-*/done.json"))) == 1, "killed in the second round"
    for file in sorted((folder / "smoke").rglob("*.jsonl")):
        file.write_bytes(file.read_bytes()[:-7])
    assert run(folder) == run(tmp_path / "straight")


@pytest.mark.slow
def test_two_rounds_read_again_are_the_same(tmp_path, tiny_policy):
    """A notebook that was killed between rounds is run again: files and finished runs are read, and nothing differs."""
    once = run(tmp_path)
    written = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("checkpoint-*/*")}
    assert run(tmp_path) == once != tiny_policy.fingerprint()
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("checkpoint-*/*")} == written


if __name__ == "__main__":
    torch.set_num_threads(1)
    run(Path(sys.argv[1]), [Slow(Path(sys.argv[1]))])
