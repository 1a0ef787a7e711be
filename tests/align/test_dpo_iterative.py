"""Iterative DPO: a round pairs the best with the worst of what the policy wrote, and a round can be repeated."""

import sys
import time
from pathlib import Path

import forked
import numpy as np
import pytest
import torch
from tiny_training import Slow

from hs2lib.align import dpo as preferences
from hs2lib.align.dpo import sampled_pairs, slices
from hs2lib.corpus import generate
from hs2lib.models.policy import load_policy
from hs2lib.models.reward_model import RewardModel
from hs2lib.train.objectives import dpo
from hs2lib.train.trainer import Recipe, fit

PROMPTS = list(generate.groups(10, seed=5))
HOW = {"n": 3, "max_new_tokens": 6, "seed": 1, "progress": False}


@pytest.fixture(scope="module")
def judge():
    return RewardModel.new("tiny", seed=3)


def test_the_best_meets_the_worst_of_what_was_sampled(judge):
    sampled = sampled_pairs(load_policy("tiny"), PROMPTS[:5], judge, **HOW)
    assert sampled.goodness.shape == (5, 3) and len(sampled.pairs) == 5 - sampled.counts["ties"]
    scores = judge.score(sampled.groups) @ torch.tensor([0.65, 0.8, 0.45, 0, 0])
    np.testing.assert_allclose(sampled.goodness.ravel(), scores, rtol=1e-5, atol=1e-6)
    by_id = {
        r.id: g for r, g in zip([r for g in sampled.groups for r in g.responses], sampled.goodness.ravel(), strict=True)
    }
    for pair, row in zip(sampled.pairs, sampled.goodness, strict=True):
        assert [by_id[r.id] for r in pair.responses] == [row.max(), row.min()]
    summary = sampled.summary()
    assert summary["worst goodness"] < summary["mean goodness"] < summary["best goodness"]
    assert summary["samples"] == 15


def test_unfinished_samples_can_be_left_out(judge):
    with pytest.raises(ValueError, match="none of 2 prompts has two samples"):  # 6 tokens end no turn
        sampled_pairs(load_policy("tiny"), PROMPTS[:2], judge, unfinished="leave out", **HOW)
    with pytest.raises(ValueError, match=r"unknown unfinished 'kept'.*there are: keep, leave out"):  # it left them out
        sampled_pairs(load_policy("tiny"), PROMPTS[:2], judge, unfinished="kept", **HOW)


def test_rounds_take_new_prompts_each():
    assert [[g.id for g in part] for part in slices(PROMPTS, 2, 3)] == [
        [g.id for g in PROMPTS[:3]],
        [g.id for g in PROMPTS[3:6]],
    ]
    with pytest.raises(ValueError, match="3 rounds of 4 prompts need 12 prompts, there are 10"):
        slices(PROMPTS, 3, 4)


def run(folder: Path, callbacks=()) -> str:
    """Two rounds as notebook 09 plays them; the fingerprint of the policy that comes out."""
    policy, judge = load_policy("tiny"), RewardModel.new("tiny", seed=3)
    for number, part in enumerate(slices(PROMPTS, 2, 4)):
        sampled = sampled_pairs(policy, part, judge, file=folder, **HOW)
        items, _ = preferences.items(policy, sampled.pairs, cache=folder)
        recipe = Recipe(steps=4, batch=2, learning_rate=1e-3, warmup=0, autocast="float32", save_every=1)
        fit(policy, items, [], dpo(0.1), recipe, folder / f"round-{number}", callbacks=callbacks)
    return policy.fingerprint()


@pytest.mark.slow
def test_killed_and_resumed_is_straight_bit_for_bit(tmp_path):
    """SIGKILL in the second round's training, and half a line in the files of samples and log-probabilities."""
    folder = tmp_path / "killed"
    folder.mkdir()
    process = forked.start(__file__, folder)
    patience = time.time() + 120
    while not list(folder.glob("round-1/**/checkpoint-1")):
        assert process.exitcode is None and time.time() < patience
        time.sleep(0.02)
    process.kill()
    process.join()
    assert not list(folder.glob("round-1/**/done.json"))
    for file in sorted(folder.rglob("*.jsonl")):
        file.write_bytes(file.read_bytes()[:-7])
    assert run(folder) == run(tmp_path / "straight")


@pytest.mark.slow
def test_two_rounds_read_again_are_the_same(judge, tmp_path):
    """A notebook that was killed between rounds is run again: files and finished runs are read, and nothing differs."""
    ends = []
    for _ in range(2):
        policy = load_policy("tiny")
        for number, part in enumerate(slices(PROMPTS, 2, 4)):
            sampled = sampled_pairs(policy, part, judge, file=tmp_path, **HOW)
            items, _ = preferences.items(policy, sampled.pairs, cache=tmp_path)
            recipe = Recipe(steps=2, batch=2, learning_rate=1e-3, warmup=0, autocast="float32")
            fit(policy, items, [], dpo(0.1), recipe, tmp_path / f"round-{number}")
        ends.append(policy.fingerprint())
    assert ends[0] == ends[1] != load_policy("tiny").fingerprint()


if __name__ == "__main__":
    torch.set_num_threads(1)
    run(Path(sys.argv[1]), [Slow(Path(sys.argv[1]))])
