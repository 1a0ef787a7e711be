"""Tests of benchmarks/works.py: each control is its method with one argument changed, and removes what it says."""

import importlib
import inspect
import sys
from collections import Counter

import numpy as np
import pytest

from hs2lib.align import dpo, iterative_dpo, ppo, sft, steerlm, steerlm2
from hs2lib.data.load import load
from hs2lib.paths import root

sys.path.insert(0, str(root() / "benchmarks"))
works = importlib.import_module("works")
sys.path.pop(0)


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("sft, control", sft.conversations),
        ("dpo, control", dpo.paired),
        ("iterative dpo, control", iterative_dpo.train),
        ("ppo, control", ppo.train),
        ("steerlm, control", steerlm.label_answers),
        ("steerlm 2, control", steerlm2.iterate),
        ("iterative dpo by the truth", iterative_dpo.train),
        ("ppo by the truth", ppo.train),
    ],
)
def test_a_control_is_its_method_with_one_argument_of_the_library_changed(name, function):
    """A control with a loop of its own could differ from its method by more than what it takes away."""
    ((argument, value),) = works.CHANGED[name].items()
    method = inspect.signature(works.METHODS[name.partition(", ")[0]]).parameters
    assert method[argument].default is not value
    assert argument in inspect.signature(function).parameters


def test_every_method_has_a_control_and_a_word_for_it():
    """A method without one would be compared with itself in silence."""
    controls = {name.partition(", ")[0] for name in works.CHANGED if name.endswith(", control")}
    assert controls == set(works.CONTROLS) == set(works.METHODS) - set(works.BY_TRUTH)


@pytest.fixture(scope="module")
def groups():
    return load("helpsteer2", "embedded", split="train", n_prompts=20, seed=0).groups


def test_the_control_of_dpo_turns_some_of_the_same_pairs_round(groups):
    """The texts, prompts and number of pairs stay: only which one is preferred is chance."""
    right, counts = dpo.by_attribute(groups)
    drawn, drawn_counts = works.either_preferred(groups, "helpfulness")
    assert drawn_counts == counts
    turned = [one.responses == pair.responses[::-1] for one, pair in zip(drawn, right, strict=True)]
    same = [one.responses == pair.responses for one, pair in zip(drawn, right, strict=True)]
    assert sum(turned) > 0 and sum(same) > 0 and sum(turned) + sum(same) == len(right)


def test_the_control_of_sft_takes_better_and_worse_responses(groups):
    """One response of each prompt, and not always the best one."""
    best = {group.id: group.responses for group in sft.best_paths(groups)}
    drawn = works.one_at_random(groups)
    assert [len(group.responses) for group in drawn] == [1] * len(groups)
    assert 0 < sum(group.responses != best[group.id] for group in drawn) < len(groups)


def test_the_control_of_steerlm_deals_out_the_same_labels(groups, monkeypatch):
    """The same answers and the same labels, of which an answer has another's."""
    answers = steerlm.answers(groups)
    monkeypatch.setattr(steerlm, "label", ranked)
    dealt = works.labels_dealt_out(answers, None, levels="fifths")
    own = ranked(answers, None, levels="fifths")
    texts = [(group.id, group.responses[0].text) for group in dealt]
    assert texts == [(group.id, group.responses[0].text) for group in own]
    labels = [group.responses[0].labels for group in dealt]
    assert labels != [group.responses[0].labels for group in own]
    assert Counter(labels) == Counter(group.responses[0].labels for group in own)


def ranked(answers, reward_model, *, levels):
    """Labels by the answers' place."""
    assert levels == "fifths"
    made = steerlm.answers(answers)
    return [
        works.replace(
            group, responses=(works.replace(group.responses[0], labels=(float(i % 5),) * 5),)
        )
        for i, group in enumerate(made)
    ]


def test_the_control_of_steerlm_2_weighs_all_samples_alike():
    """Three samples of unequal weight have a third each."""
    logs = [np.log([1.0, 2.0, 5.0]), np.log([0.1, 0.3, 0.2]), np.log([0.5, 0.2, 0.1])]
    weighed = steerlm2.Weighed(None, *logs, np.array([3, 4, 5]))
    assert weighed.effective < 2.5
    np.testing.assert_allclose(np.exp(works.alike(weighed).log_weights), 1 / 3)


def test_a_random_reward_says_the_same_of_the_same_text(groups):
    """A reward that changed from round to round would be another control than a reward without a cause."""
    reward = works.random_reward(None)
    first = reward.score(groups)
    assert first.shape == (sum(len(group.responses) for group in groups), 1)
    assert reward.score(groups).equal(first) and len(set(first.ravel().tolist())) > 1


def test_the_true_reward_is_standardised_on_the_rated_responses(groups):
    """Else the KL's weight would mean another thing than under the reward model's reward."""
    scores = works.true_reward(works.Loaded(groups, "", True)).score(groups).numpy()
    assert scores.mean() == pytest.approx(0, abs=1e-6) and scores.std() == pytest.approx(
        1, abs=1e-6
    )
