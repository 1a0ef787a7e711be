"""Iterative DPO: in each round the policy writes its own pairs and is trained on them.

    parts = prepare(load_prompts(setup), setup)            # other prompts in each round
    first = sample(policy, parts[0], reward_model, setup)  # a round's samples, scored and paired
    played = train(policy, parts, reward_model, setup)     # all rounds, in place

Paper: section 4.3, "Iterative DPO" (20,000 prompts of Daring-Anteater, ten samples each, the best
against the worst goodness). Three things are arguments: what scores the samples (`reward_model`),
how pairs are made of them (`pair`), and the loss (`objective`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

import numpy as np
import torch
from transformers import TrainerCallback

from hs2lib.align import common, dpo
from hs2lib.align.common import Trained, load_rows
from hs2lib.data.load import Loaded
from hs2lib.group import Group
from hs2lib.models import saved
from hs2lib.models.policy import Policy
from hs2lib.models.rollout import rollouts
from hs2lib.paper import head_weights
from hs2lib.runs.setup import Setup
from hs2lib.train import losses, objectives
from hs2lib.train.items import Item, Prepared, best_worst_pairs
from hs2lib.train.objectives import Objective

START = "08_dpo"  # the notebook whose policy the rounds begin with

# A rule of pairs: (groups of samples, a score for every sample in order) -> (pairs, counts),
# as `hs2lib.train.items.best_worst_pairs`. A sample that is not to be used has the score nan.
PairRule = Callable[[list[Group], np.ndarray], tuple[list[Group], dict[str, int]]]


class Scorer(Protocol):
    """What scores samples: a reward model, or a class of the reader's own.

    Attributes:
        attributes: names of its A outputs, which the recipe's `weighting` weighs.
    """

    attributes: tuple[str, ...]

    def score(self, groups: Sequence[Group], **options: object) -> torch.Tensor:
        """Outputs float32 [R, A] of every response of the groups, in order.

        options: as for `RewardModel.score`.
        """

    def fingerprint(self) -> str:
        """A short name for what it computes. Another computation has another name."""


class SampledPairs(NamedTuple):
    """The samples of a round, and the pairs that were made of them.

    Attributes:
        groups: a group of n samples for each prompt.
        scores: the reward model's score of each sample, float64 [prompts, n].
        pairs: groups of two samples, chosen before rejected.
        counts: what the rule of pairs counted, by name.
    """

    groups: list[Group]
    scores: np.ndarray
    pairs: list[Group]
    counts: dict[str, int]

    def summary(self) -> dict[str, float]:
        """Counts, the share of finished samples, and worst, mean and best score over prompts."""
        finished = [sample.finished for group in self.groups for sample in group.responses]
        scored = self.scores[~np.isnan(self.scores).all(1)]  # a refused sample has no score
        return {
            "prompts": len(self.groups),
            "samples": len(finished),
            "pairs": len(self.pairs),
            "worst reward model's score": float(np.nanmin(scored, 1).mean()),
            "mean reward model's score": float(np.nanmean(scored, 1).mean()),
            "best reward model's score": float(np.nanmax(scored, 1).mean()),
            "finished (%)": 100 * float(np.mean(finished)),
        }


@dataclass(frozen=True)
class Round:
    """One round: its samples and pairs, the items that it was trained on, and the training."""

    sampled: SampledPairs
    items: list[Item]
    result: Trained


@dataclass(frozen=True)
class Played:
    """All rounds, and the arguments of `train` that the run's manifest names."""

    rounds: list[Round]
    arguments: dict[str, object]


def load_prompts(setup: Setup) -> Loaded:
    """The data set whose prompts get samples; generated data has as many as all rounds ask for."""
    recipe = setup.recipe
    return load_rows(recipe, n_prompts=recipe.rounds * recipe.n_prompts)


def prepare(prompts: Loaded, setup: Setup) -> list[list[Group]]:
    """The prompts of each round, in an order drawn by the seed, without their responses.

    Raises ValueError where there are too few prompts for all rounds.
    """
    recipe = setup.recipe
    order = np.random.default_rng(recipe.seed).permutation(len(prompts.groups))
    shuffled = [replace(prompts.groups[i], responses=()) for i in order]
    return slices(shuffled, recipe.rounds, recipe.n_prompts)


def slices(prompts: Sequence[Group], rounds: int, each: int) -> list[list[Group]]:
    """The prompts of each round, in order: `each` new ones a round.

    Raises ValueError where there are too few for all rounds.
    """
    if rounds < 1 or each < 1 or len(prompts) < rounds * each:
        raise ValueError(
            f"{rounds} rounds of {each} prompts need {rounds * each} prompts, "
            f"there are {len(prompts)}"
        )
    return [list(prompts[r * each : (r + 1) * each]) for r in range(rounds)]


def sample(
    policy: Policy,
    prompts: Sequence[Group],
    reward_model: Scorer,
    setup: Setup,
    *,
    pair: PairRule = best_worst_pairs,
) -> SampledPairs:
    """Sample n responses to each prompt, score them, and pair each prompt's best with its worst.

    Paper: section 4.3. The score is goodness, .65 helpfulness + .8 correctness + .45 coherence (the
    recipe's `weighting`). Samples that reached `max_new_tokens` are in no pair where the recipe's
    `unfinished` is "leave out"; the paper does not speak of them. Samples and scores are kept in
    the run's folder and read again.

    Args:
        policy: the policy that writes the samples.
        prompts: groups without responses.
        reward_model: what scores the samples.
        setup: the run's recipe and folders.
        pair: a rule of pairs in place of the best against the worst.
    Raises: as `rollouts`, and ValueError where no pair is left.
    """
    recipe = setup.recipe
    groups = rollouts(policy, prompts, file=setup.folder, **recipe.sampling)
    outputs = reward_model.score(groups, cache=setup.folder, **recipe.inference)  # [R, A]
    weights = head_weights(recipe.weighting, reward_model.attributes)
    goodness = losses.goodness(outputs, torch.tensor(weights, dtype=outputs.dtype))  # [R]
    scores = goodness.double().numpy().reshape(len(groups), -1)  # [prompts, n]
    usable = scores
    if recipe.unfinished == "leave out":
        finished = []
        for group in groups:
            finished.append([response.finished for response in group.responses])
        usable = np.where(np.array(finished), scores, np.nan)  # [prompts, n]
    pairs, counts = pair(groups, usable.ravel())
    if not pairs:
        raise ValueError(
            f"none of {len(groups)} prompts has two samples that score differently: {counts}"
        )
    return SampledPairs(groups, scores, pairs, counts)


def train(
    policy: Policy,
    parts: Sequence[Sequence[Group]],
    reward_model: Scorer,
    setup: Setup,
    *,
    pair: PairRule = best_worst_pairs,
    objective: Objective | None = None,
    callbacks: Sequence[TrainerCallback] = (),
) -> Played:
    """Play all rounds, in place: sample, make pairs, and train on them by DPO.

    Paper: section 4.3 describes one round and does not say which policy DPO keeps close to. The
    recipe's `reference` is "previous", the policy that sampled, or "first", the one that the rounds
    began with. All pairs are trained on, and the last weights stay. Every result is cached by what
    it was computed from, so a run that was killed goes on where it stopped. Under torchrun every
    process calls this alike.

    Args:
        policy: the policy to train.
        parts: the prompts of each round.
        reward_model: what scores the samples.
        setup: the run's recipe and folders.
        pair: the rule of pairs, as for `sample`.
        objective: the loss, by default `objectives.dpo(recipe.beta)`.
        callbacks: as for `hs2lib.align.common.train`.
    Raises: as `sample` and `common.train`.
    """
    recipe = setup.recipe
    reference = policy
    if recipe.reference == "first":
        reference = saved.starting_policy(setup, START, frozen=True)
    rounds = []
    for prompts in parts:
        sampled = sample(policy, prompts, reward_model, setup, pair=pair)
        items, _ = dpo.items(
            reference, sampled.pairs, cache=setup.folder, too_long="leave out", **recipe.inference
        )
        trained = common.train(
            policy,
            Prepared(items, []),
            recipe,
            objective=objective or objectives.dpo(recipe.beta),
            folder=setup.folder,
            callbacks=callbacks,
        )
        rounds.append(Round(sampled, items, trained))
    return Played(rounds, {"pair": pair, "reward_model": reward_model.fingerprint()})
