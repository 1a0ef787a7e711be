"""Controls: what is put in the place of a method's rule, so that it has nothing to learn from.

    data = replace(data, groups=data.groups | {"train": ratings_dealt_out(data.groups["train"])})
    pairs = dpo.load_pairs(setup, by_coin)
    played = iterative_dpo.train(policy, parts, reward_model, setup, pair=two_at_random)
    ppo.train(model, prompts, RandomReward(), sft, setup)
    steerlm.label_answers(answers, setup, rule=labels_dealt_out)
    steerlm2.iterate(policy, prior, reward_model, prompts, setup, weights=weights_dealt_out)

Each trains as long as the method does, on texts of the same kind. What is drawn for an item depends
on its id or its text alone. Paper: silent.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from random import Random

import numpy as np
import torch

from hs2lib.align import dpo, steerlm, steerlm2
from hs2lib.group import Group
from hs2lib.models.reward_model import RewardModel
from hs2lib.world.cards import TONES, card_of


def ratings_dealt_out(groups: Sequence[Group]) -> list[Group]:
    """The groups, each response with the labels of another; the order is drawn by the first id."""
    labels = [response.labels for group in groups for response in group.responses]
    Random(groups[0].id).shuffle(labels)
    others = iter(labels)
    dealt = []
    for group in groups:
        responses = [replace(response, labels=next(others)) for response in group.responses]
        dealt.append(replace(group, responses=tuple(responses)))
    return dealt


def by_coin(groups: Iterable[Group], attribute: str) -> tuple[list[Group], dict[str, int]]:
    """The pairs of `dpo.by_attribute`, each the right way round or the wrong one, by a coin."""
    right, counts = dpo.by_attribute(groups, attribute)
    pairs = []
    for pair in right:
        order = Random(pair.id).choice((1, -1))
        pairs.append(replace(pair, responses=pair.responses[::order]))
    return pairs, counts


def under_other_tones(groups: Iterable[Group]) -> list[Group]:
    """Postcards, half of them under the other tone: it then says nothing of the responses."""
    moved = []
    for group in groups:
        *before, question = group.prompt
        tone = card_of(group.id).tone
        if Random(group.id).random() < 0.5:
            (other,) = set(TONES) - {tone}
            question = replace(question, text=question.text.removesuffix(tone) + other)
        moved.append(replace(group, prompt=(*before, question)))
    return moved


def blind(groups: Iterable[Group], attribute: str) -> tuple[list[Group], dict[str, int]]:
    """The pairs of `dpo.by_attribute`, `under_other_tones`: they say nothing of the tone."""
    pairs, counts = dpo.by_attribute(groups, attribute)
    return under_other_tones(pairs), counts


def two_at_random(
    groups: Sequence[Group], scores: np.ndarray
) -> tuple[list[Group], dict[str, int]]:
    """Two samples of each prompt, whatever their scores."""
    pairs = []
    for group in groups:
        two = tuple(Random(group.id).sample(group.responses, 2))
        pairs.append(replace(group, responses=two, preference=-1.0, preferences=()))
    return pairs, {"groups": len(groups), "pairs": len(pairs)}


class RandomReward:
    """A reward that says nothing of a text, but always the same."""

    def score(self, groups: Sequence[Group], **options: object) -> torch.Tensor:
        """The reward of every response, float32 [R, 1]: standard normal."""
        texts = [response.text for group in groups for response in group.responses]
        return torch.tensor([[Random(text).gauss(0, 1)] for text in texts])

    def fingerprint(self) -> str:
        """Its name."""
        return "random"


def labels_dealt_out(
    answers: Sequence[Group], reward_model: RewardModel, **options: object
) -> list[Group]:
    """The answers under the labels of `steerlm.label`, each under that of another."""
    labelled = steerlm.label(answers, reward_model, **options)
    labels = [answer.responses[0].labels for answer in labelled]
    Random(labelled[0].id).shuffle(labels)
    dealt = []
    for answer, own in zip(labelled, labels, strict=True):
        dealt.append(replace(answer, responses=(replace(answer.responses[0], labels=own),)))
    return dealt


def deal_out(weighed: steerlm2.Weighed) -> steerlm2.Weighed:
    """The same samples, each under the weight of another one of its group."""
    n_samples = len(weighed.attributes)
    order = Random(weighed.read.group.id).sample(range(n_samples), n_samples)
    return weighed._replace(attributes=weighed.log_weights[order], prior=weighed.sampler)


def weights_dealt_out(*sampled: object, **options: object) -> list[steerlm2.Weighed]:
    """The samples of `steerlm2.weigh`, their weights dealt out at random within each group."""
    return [deal_out(weighed) for weighed in steerlm2.weigh(*sampled, **options)]
