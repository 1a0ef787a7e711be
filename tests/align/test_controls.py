"""A control takes one thing away, and leaves the rest as it is."""

from dataclasses import replace

import numpy as np
import torch

from hs2lib.align import controls, dpo
from hs2lib.models.policy import load_policy
from hs2lib.models.reward_model import RewardModel
from hs2lib.models.rollout import rollouts
from hs2lib.train import recipes
from hs2lib.world import cards, sets


def test_other_tones_say_nothing_of_the_responses():
    groups = list(sets.groups(400, 0))
    moved = controls.under_other_tones(groups)
    turned = 0
    for group, other in zip(groups, moved, strict=True):
        assert other.responses == group.responses
        tone = cards.card_of(group.id).tone
        is_turned = not other.prompt[-1].text.endswith(tone)
        turned += is_turned
        if is_turned:
            bare = group.prompt[-1].text.removesuffix(tone)
            assert other.prompt[-1].text.startswith(bare)
        assert other.prompt[:-1] == group.prompt[:-1]
    assert 0.4 < turned / len(groups) < 0.6


def test_random_pairs_are_the_methods_pairs_in_either_order():
    groups = list(sets.groups(200, 0))
    right, counts = dpo.by_attribute(groups, "helpfulness")
    drawn, same_counts = controls.by_coin(groups, "helpfulness")
    assert counts == same_counts
    same = [a.responses == b.responses for a, b in zip(right, drawn, strict=True)]
    assert 0.35 < np.mean(same) < 0.65
    for a, b in zip(right, drawn, strict=True):
        assert set(a.responses) == set(b.responses)


def test_two_at_random_are_of_the_prompts_own_samples_whatever_their_scores():
    groups = [sets.answered(group, list("abcd")) for group in sets.groups(50, 0)]
    pairs, counts = controls.two_at_random(groups, np.zeros(200))
    again, _ = controls.two_at_random(groups, np.arange(200.0))
    assert pairs == again
    assert counts == {"groups": 50, "pairs": 50}
    firsts = [pair.responses[0].text for pair in pairs]
    assert set(firsts) == set("abcd")
    assert all(pair.responses[0].text != pair.responses[1].text for pair in pairs)


def test_a_random_reward_depends_on_the_text_alone():
    reward = controls.RandomReward()
    one, two = [sets.answered(group, ["a", "b"]) for group in sets.groups(2, 0)]
    assert torch.equal(reward.score([one]), reward.score([two]))
    assert reward.score([one])[0] != reward.score([one])[1]


def test_weights_dealt_out_are_those_of_the_group():
    policy = load_policy("postcards")
    prompts = [replace(group, responses=()) for group in sets.groups(3, 0)]
    sampled = rollouts(policy, prompts, n=4, max_new_tokens=60, seed=0, progress=False)
    judge = RewardModel.new("postcards", seed=1).eval()
    asked = "helpfulness:4"
    arguments = (sampled, policy, policy, judge, asked, recipes.SteerLM2())
    right = controls.steerlm2.weigh(*arguments)
    dealt = controls.weights_dealt_out(*arguments)
    for group, other in zip(right, dealt, strict=True):
        np.testing.assert_allclose(sorted(group.log_weights), sorted(other.log_weights), atol=1e-9)
        np.testing.assert_array_equal(group.sampler, other.sampler)
    assert any(
        not np.allclose(a.log_weights, b.log_weights) for a, b in zip(right, dealt, strict=True)
    )
