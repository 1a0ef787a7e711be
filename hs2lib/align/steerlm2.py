"""SteerLM 2.0: train towards P(y|a,x), the answers that have the attributes a by the reward model.

    sampled = rollouts(policy, prompts, n=10, label=target, ...)         # y_i ~ Q'(y|a,x)
    weighed = weigh(sampled, policy, sft, reward_model, target, recipe)  # equations 6 and 7
    fit(policy, items(weighed), held_out, steerlm2(), recipe, folder)    # equations 11 and 12

`iterate` does all of it, several times, each time from the policy that the last iteration left:

    prompts = load_prompts(setup)
    history = iterate(policy, prior, reward_model, prompts, setup)

Paper: section 4.5. What it leaves open is a field of `recipes.SteerLM2`. Three models look at each
sampled y. The reward model gives P(a|x,y). The SFT model, which sees no attributes, gives P(y|x).
The policy that sampled it gives Q'(y|a,x). The formulas are in `hs2lib.train.losses`. Notebook 12
has a toy, a world of nine responses, where their results are known exactly.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from transformers import TrainerCallback

from hs2lib.align import common
from hs2lib.align.common import Trained, load_rows
from hs2lib.data.load import Loaded
from hs2lib.engine import chat
from hs2lib.group import Group
from hs2lib.models.policy import Policy, unlabelled
from hs2lib.models.reward_model import RewardModel
from hs2lib.models.rollout import as_tokens, rollouts
from hs2lib.runs.setup import Setup
from hs2lib.train import losses, objectives
from hs2lib.train.items import Item, Prepared
from hs2lib.train.objectives import Objective
from hs2lib.train.recipes import SteerLM2

# The desired attributes. Paper: section 4.5, "Inference Attributes".
TARGET = "helpfulness:4,correctness:4,coherence:4,complexity:2,verbosity:2"


@dataclass(frozen=True)
class Prompts:
    """The prompts to sample answers to, without responses.

    Attributes:
        loaded: the data that the prompts are from.
        partial: whether the data set has more prompts.
        validation: the prompts that choose the best step of an iteration.
        rest: all other prompts, in the order in which iterations take them.
        by_iteration: the prompts of each iteration.
    """

    loaded: Loaded
    partial: bool
    validation: list[Group]
    rest: list[Group]
    by_iteration: list[list[Group]]


def load_prompts(setup: Setup) -> Prompts:
    """The recipe's prompts, in an order drawn by the seed.

    Paper: section 4.5 (20,000 prompts an iteration). Each iteration has its own prompts unless
    `fresh_prompts` is off. Raises ValueError where there are too few.
    """
    recipe = setup.recipe
    needed = recipe.iterations * recipe.n_prompts + recipe.n_validation
    loaded = load_rows(recipe, n_prompts=max(10, needed))
    order = np.random.default_rng(recipe.seed).permutation(len(loaded.groups))
    prompts = [replace(loaded.groups[i], responses=()) for i in order]
    validation = prompts[: recipe.n_validation]
    rest = prompts[recipe.n_validation :]
    by_iteration = []
    for iteration in range(recipe.iterations):
        begin = iteration * recipe.n_prompts if recipe.fresh_prompts else 0
        by_iteration.append(rest[begin : begin + recipe.n_prompts])
    if not all(by_iteration):
        raise ValueError(
            f"{len(rest)} prompts are too few for {recipe.iterations} iterations "
            f"of {recipe.n_prompts}: ask for fewer, or set fresh_prompts to false"
        )
    return Prompts(
        loaded=loaded,
        partial=len(loaded.groups) > needed,
        validation=validation,
        rest=rest,
        by_iteration=by_iteration,
    )


class Weighed(NamedTuple):
    """One prompt's n samples with all that equations 6 and 7 need.

    Attributes:
        read: the prompt with label, and the responses: Q_theta(y|a,x) is computed on these tokens.
        attributes: log P(a|x,y), float64 [n], nats.
        prior: log P(y|x), float64 [n], nats.
        sampler: log Q'(y|a,x), float64 [n], nats.
        tokens: the length of each response, float64 [n].
    """

    read: chat.TokenGroup
    attributes: np.ndarray
    prior: np.ndarray
    sampler: np.ndarray
    tokens: np.ndarray

    @property
    def log_weights(self) -> np.ndarray:
        """log w' [n]. Paper: equation 7, of equation 6."""
        attributes = torch.from_numpy(self.attributes)[None]  # [1, n]
        prior = torch.from_numpy(self.prior)[None]  # [1, n]
        sampler = torch.from_numpy(self.sampler)[None]  # [1, n]
        return losses.steerlm2_targets(attributes, prior, sampler)[0].numpy()

    @property
    def effective(self) -> float:
        """The effective number of samples, 1 / sum w'^2. Paper: silent.

        It goes from 1 (one sample has all the weight) to n.
        """
        return float(1 / np.exp(2 * self.log_weights).sum())


def attribute_log_prob(
    predictions: Tensor, attributes: Sequence[str], target: str, recipe: SteerLM2
) -> Tensor:
    """log P(a|x,y) float64 [R] of the target attributes, from predictions [R, A] on the scale 0-4.

    Paper: section 4.5. The product over attributes, as if they were independent, is ours.

    Args:
        predictions: [R, A].
        attributes: the outputs' names, [A].
        target: a label string. It may name some of the attributes only; a consists of those.
        recipe: how a prediction becomes probabilities of levels.
    Raises: ValueError for a name that is no output, and for a target that names none.
    """
    levels = np.array(chat.parse_label(target, attributes))  # [A], nan where not named
    named = np.flatnonzero(~np.isnan(levels))
    if not len(named):
        raise ValueError("the target names no attribute, so there is nothing to steer towards")
    by_level = losses.attribute_log_probs(
        predictions[:, named.tolist()],
        concentration=recipe.concentration,
        edges=recipe.edges,
        clamp=recipe.clamp,
    )  # [R, named, 5]
    return losses.target_log_prob(by_level, torch.from_numpy(levels[named]).long())


def weigh(
    sampled: Sequence[Group],
    sampler: Policy,
    prior: Policy,
    reward_model: RewardModel,
    target: str,
    recipe: SteerLM2,
    **options: object,
) -> list[Weighed]:
    """The three log-probabilities of every sample of `rollouts`, group by group.

    Paper: section 4.5, equation 6. Both policies are taken at temperature 1 and on the tokens that
    were sampled; the reward model reads the text. Groups with fewer than two samples have no
    weights to compare and are left out. Refused samples do not count, nor unfinished ones with
    `unfinished: drop`.

    Args:
        sampled: groups of samples.
        sampler: Q', the policy that sampled.
        prior: the SFT model, which sees no label.
        reward_model: gives P(a|x,y).
        target: the label string of the desired attributes.
        recipe: the method's choices.
        **options: budget, autocast and cache of `Policy.log_probs`. With a cache all three are kept
            as they come, so a run that was killed goes on.
    Raises: ValueError where two tokenizers differ, or no group is left.
    """
    if recipe.unfinished == "drop":
        sampled = [_finished_only(group) for group in sampled]
    admitted = [reward_model.admitted(group) for group in sampled]
    sampled = [group for group in admitted if len(group.responses) > 1]
    if not sampled:
        raise ValueError("no prompt has two samples to weigh against each other")
    labelled = as_tokens(sampler, sampled, target)
    log_q, tokens = sampler.log_probs(labelled, **options)  # [R] each
    log_p, _ = prior.log_probs(unlabelled(prior, sampler, sampled), **options)  # [R]
    predictions = reward_model.score(sampled, **options)  # [R, A]
    log_a = attribute_log_prob(predictions, reward_model.attributes, target, recipe)  # [R]
    stops = np.cumsum([len(group.responses) for group in sampled])[:-1]

    def by_group(values: Tensor) -> list[np.ndarray]:
        """Values [R] as one float64 [n] for each group."""
        return np.split(values.numpy().astype(float), stops)

    columns = (labelled, by_group(log_a), by_group(log_p), by_group(log_q), by_group(tokens))
    return [Weighed(*of_group) for of_group in zip(*columns, strict=True)]


def _finished_only(group: Group) -> Group:
    """The group without its unfinished samples."""
    finished = [sample for sample in group.responses if sample.finished]
    return replace(group, responses=tuple(finished))


def items(weighed: Sequence[Weighed]) -> list[Item]:
    """Items for `objectives.steerlm2`: targets [n, 3] = log w', log Q'(y|a,x), length in tokens."""
    out = []
    for group in weighed:
        targets = np.column_stack([group.log_weights, group.sampler, group.tokens])  # [n, 3]
        tokens = group.read
        out.append(
            Item(tokens.group.id, tokens.sequences, targets.astype(np.float32), tokens.starts)
        )
    return out


def table(weighed: Sequence[Weighed]) -> pd.DataFrame:
    """One row a sample: its prompt, the three log-probabilities, length, weight w', finished."""
    frames = []
    for group in weighed:
        columns = {
            "prompt": group.read.group.id,
            "log P(a|x,y)": group.attributes,
            "log P(y|x)": group.prior,
            "log Q'(y|a,x)": group.sampler,
            "tokens": group.tokens,
            "weight": np.exp(group.log_weights),
            "finished": [sample.finished for sample in group.read.group.responses],
        }
        frames.append(pd.DataFrame(columns))
    return pd.concat(frames, ignore_index=True)


class Iteration(NamedTuple):
    """One iteration: the weighed samples to train on and to validate by, and the training."""

    training: list[Weighed]
    validation: list[Weighed]
    result: Trained


@dataclass(frozen=True)
class History:
    """What `iterate` did.

    Attributes:
        iterations: one after the other.
        arguments: what weighed the samples, for the run's manifest.
    """

    iterations: list[Iteration]
    arguments: dict[str, object] = field(default_factory=dict)

    @property
    def last(self) -> Trained:
        """The outcome of the last iteration."""
        return self.iterations[-1].result


def iterate(
    policy: Policy,
    prior: Policy,
    reward_model: RewardModel,
    prompts: Prompts,
    setup: Setup,
    *,
    weights: Callable[..., list[Weighed]] = weigh,
    objective: Objective | None = None,
    callbacks: Callable[[], Sequence[TrainerCallback]] = tuple,
    after: Callable[[int, Policy], None] | None = None,
) -> History:
    """Train the policy in place, one iteration for each list of prompts.

    Paper: section 4.5 (two iterations, "using the optimized policy after each iteration to sample
    responses and train an improved policy"). Each iteration samples from the policy as it stands,
    for the validation prompts too. On these equation 12's distance is logged and the best step
    chosen; without them the last step's weights stay. With recipe.method "lora" adapters are
    trained, and merged after each iteration. Every result is kept under the setup's folder by what
    it was computed from, so a run that was killed goes on and ends where it would have ended.

    Args:
        policy: at first the SteerLM model of notebook 11.
        prior: the SFT model.
        reward_model: gives P(a|x,y).
        prompts: what `load_prompts` returned.
        setup: the run's recipe and folders.
        weights: what weighs the samples, in place of `weigh` and called as that is.
        objective: a loss in place of `objectives.steerlm2`.
        callbacks: a function that makes the callbacks of `hs2lib.align.common.train`.
        after: called with each iteration's number and the policy that it left, to save or evaluate
            it.
    Returns: the outcome of each iteration.
    Raises: ValueError without a reward model.
    """
    recipe = setup.recipe
    if reward_model is None:
        raise ValueError(
            "the recipe's reward is none, and SteerLM 2.0 weighs by what a reward model says: "
            "name one"
        )
    models = (policy, prior, reward_model)
    iterations = []
    for number, training_prompts in enumerate(prompts.by_iteration, 1):
        folder = setup.folder / f"iteration-{number}"
        sampling = {
            **recipe.sampling,
            # Each iteration has its own random numbers: with the same ones a policy that hardly
            # moved samples the same.
            "seed": recipe.seed + number,
            "label": recipe.target,
            "file": folder / "samples",
        }
        options = {"cache": folder, "budget": recipe.budget, "autocast": recipe.autocast}
        sampled = rollouts(policy, training_prompts, **sampling)
        sampled_validation = []
        if prompts.validation:
            sampled_validation = rollouts(policy, prompts.validation, **sampling)
        training = weights(sampled, *models, recipe.target, recipe, **options)
        validation = []
        if prompts.validation:
            validation = weights(sampled_validation, *models, recipe.target, recipe, **options)
        if recipe.method == "lora":
            policy.merge()
        trained = common.train(
            policy,
            Prepared(items(training), items(validation)),
            recipe,
            objective=objective or objectives.steerlm2(recipe.by_length),
            folder=folder,
            callbacks=callbacks(),
        )
        iterations.append(Iteration(training, validation, trained))
        policy.merge()
        if after:
            after(number, policy)
    return History(iterations, {"weights": weights})
