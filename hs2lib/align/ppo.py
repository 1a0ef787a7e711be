"""PPO: the one trainer on responses that the policy samples while it is trained.

    data = load_rows(setup.recipe)
    prompts = prepare(policy, data, setup)
    reward = fold_reward(reward_model, data, setup)  # one output, standardised on the data
    model = actor_critic(policy, reward, setup)      # the critic starts as the reward model
    result = train(model, prompts, reward, sft, setup)
    frame = rounds(result.history)

Paper: section 4.4. A trainer that minimises a loss on fixed items and one that samples its items
differ in one place: where a batch is fetched. So this is `trainer.fit` with a trainer that fills in
the items of a round there. A round is one rollout buffer: the policy answers `buffer` prompts, and
the optimiser then goes over the answers. Micro-batches, exact scale, processes, the optimiser,
checkpoints and going on after a kill are the trainer's own. A checkpoint only ever lies between
rounds, so nothing of a buffer has to be kept.

Letters: R responses, T tokens of the longest of them, W the most tokens that may be sampled, P
predicted tokens of a batch.
"""

import copy
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pandas as pd
import torch
from peft.tuners.tuners_utils import BaseTunerLayer
from torch import Tensor, nn
from torch.nn.functional import pad
from torch.nn.utils.rnn import pad_sequence
from torch.optim import Optimizer
from transformers import TrainerCallback

from hs2lib.data.load import Loaded
from hs2lib.engine import attention, chat, trees
from hs2lib.group import Group, Response
from hs2lib.models import export, saved
from hs2lib.models.policy import Policy
from hs2lib.models.reward_model import RewardModel
from hs2lib.models.rollout import rollouts, shortened
from hs2lib.names import one_of
from hs2lib.paper import head_weights
from hs2lib.paths import json_lines, write
from hs2lib.runs.setup import Setup
from hs2lib.train import losses
from hs2lib.train.items import Item, order
from hs2lib.train.objectives import Objective, over_vocabulary
from hs2lib.train.recipes import PPO, Sampled, Tempered
from hs2lib.train.trainer import GroupTrainer, TrainingResult, fit


def standardised(
    model: RewardModel, rated: Sequence[Group], weights: Sequence[float], **options: object
) -> RewardModel:
    """The reward of PPO: goodness minus its mean, over its SD, as a model with one output.

    Paper: section 4.4 ("taking away the mean of the HelpSteer2 responses and dividing it by its
    standard deviation"). Mean and SD are folded into the head. So the critic, which starts as this
    model, begins on the scale of the rewards.

    Args:
        model: a reward model with A outputs.
        rated: the groups whose responses set mean and SD.
        weights: [A], of the outputs in the goodness.
        **options: as for `RewardModel.score`.
    """
    outputs = model.score(rated, **options).double().cpu()  # [R, A]
    goodness = outputs @ torch.tensor(weights, dtype=torch.float64)  # [R]
    goodness = goodness[~goodness.isnan()]  # without refused responses
    mean = goodness.mean().item()
    sd = goodness.std(correction=0).item()
    return export.fold(model, weights, mean=mean, sd=sd)


class Reward(Protocol):
    """What rewards a response: the standardised reward model, or a class of the reader's own."""

    def score(self, groups: Sequence[Group], **options: object) -> Tensor:
        """Float32 [R, 1], the reward of every response of the groups, in order.

        options: as for `RewardModel.score`.
        """

    def fingerprint(self) -> str:
        """A short name for what it computes, which names the training too.

        Another computation has another name.
        """


@dataclass(frozen=True)
class Prompts:
    """The prompts of a run.

    Attributes:
        training: the prompts to train on.
        validation: the prompts to choose a checkpoint by.
        left_out: ids of the prompts that leave no room for an answer.
        items: tokens of the training prompts, as `fit_rounds` takes them.
        validation_items: tokens of the validation prompts.
    """

    training: list[Group]
    validation: list[Group]
    left_out: list[str]
    items: list[Item]
    validation_items: list[Item]


def prepare(policy: Policy, data: Loaded, setup: Setup) -> Prompts:
    """The data's prompts in an order drawn by the seed; the first `n_validate` choose a checkpoint.

    The others are trained on. Prompts that leave no room for an answer are left out.
    """
    recipe = setup.recipe
    order = np.random.default_rng(recipe.seed).permutation(len(data.groups))
    shuffled = [data.groups[i] for i in order]
    with_room, left_out = fitting(policy, shuffled, recipe.max_new_tokens)
    validation = with_room[: recipe.n_validate]
    training = with_room[recipe.n_validate :]
    return Prompts(
        training=training,
        validation=validation,
        left_out=left_out,
        items=as_items(policy, training),
        validation_items=as_items(policy, validation),
    )


def fold_reward(reward_model: RewardModel, data: Loaded, setup: Setup) -> RewardModel:
    """The method's own reward: `standardised` by the recipe's `weighting`, with frozen weights.

    The data's first `n_standard` groups set mean and SD; 0 takes all groups.
    """
    recipe = setup.recipe
    rated = data.groups
    if recipe.n_standard:
        rated = rated[: recipe.n_standard]
    weights = head_weights(recipe.weighting, reward_model.attributes)
    folded = standardised(
        reward_model, rated, weights, budget=recipe.budget, autocast=recipe.autocast
    )
    return folded.requires_grad_(False).eval()


def actor_critic(policy: Policy, reward: RewardModel, setup: Setup) -> "ActorCritic":
    """The policy, with adapters if the recipe wants them, and a critic made of the reward model."""
    recipe = setup.recipe
    if recipe.method == "lora":
        policy.lora(rank=recipe.lora_rank, alpha=2 * recipe.lora_rank)
    return ActorCritic(policy, reward, recipe.critic).to(saved.device())


def train(
    model: "ActorCritic",
    prompts: Prompts,
    reward: Reward,
    reference: Policy,
    setup: Setup,
    *,
    callbacks: Sequence[TrainerCallback] = (),
) -> TrainingResult:
    """Train the policy of `model` in place on its own answers to the prompts, for their reward.

    Paper: section 4.4.

    Args:
        model: what `actor_critic` returned.
        prompts: what `prepare` returned.
        reward: what `fold_reward` returned, or a reward of one's own.
        reference: the policy that the KL is counted from. A policy with adapters is counted from
            itself without them.
        setup: the run's recipe and folders.
        callbacks: as for `hs2lib.train.trainer.fit`.
    Raises: as `fit_rounds`, and ValueError where prompts share an id.
    """
    recipe = setup.recipe
    own_reference = model.policy.adapter is not None  # itself without its adapters
    reward_name = reward.fingerprint()
    reference_name = "" if own_reference else reference.fingerprint()
    result = fit_rounds(
        model,
        prompts.items,
        sampling([*prompts.training, *prompts.validation], reward, recipe),
        None if own_reference else reference,
        recipe,
        setup.folder,
        validation=prompts.validation_items,
        about={"reward model": reward_name, "reference": reference_name},
        callbacks=callbacks,
    )
    return replace(result, arguments={"reward": reward_name, "reference": reference_name})


def answers(result: TrainingResult, prompts: Prompts, number: int) -> list[Group]:
    """The prompts that a round answered, each with the texts of its answers.

    number: of the round, from 0. The answers are read from the training's folder.
    """
    by_id = {prompt.id: prompt for prompt in prompts.training}
    file = result.folder / "samples" / f"round-{number:04d}.jsonl"
    answered = []
    for line in file.read_text().splitlines():
        row = json.loads(line)
        responses = tuple(Response("", response["text"]) for response in row["responses"])
        answered.append(replace(by_id[row["id"]], responses=responses))
    return answered


class ActorCritic(nn.Module):
    """A policy and a value V(x, y_<t) of each state, started from a reward model with one output.

    Paper: section 4.4 (the critic's start is the reference code's). A policy with adapters gets a
    critic with adapters like its own.

    Args:
        policy: the policy to train.
        reward_model: a reward model with one output.
        critic: "separate", a copy of the reward model whose head reads every state instead of the
            last. Or "group", no model: the value of an answer is what the answers to its prompt get
            on average (`group_values`). Paper: silent.
    Raises: ValueError where a separate critic could not read the policy's tokens, or the reward
        model has several outputs.
    """

    attributes = ()  # to the trainer this is a policy

    def __init__(self, policy: Policy, reward_model: RewardModel, critic: str = "separate") -> None:
        super().__init__()
        if len(reward_model.attributes) != 1:
            raise ValueError(
                f"the reward model has the outputs {reward_model.attributes}: fold them into one"
            )
        one_of("critic", critic, ("separate", "group"))
        self.policy = policy
        self.kind = critic
        self.critic = None
        if critic == "group":
            return
        if policy.tokenizer and policy.tokenizer.get_vocab() != reward_model.tokenizer.get_vocab():
            raise ValueError('policy and reward model have different tokens: use critic="group"')
        copied = copy.deepcopy(reward_model).requires_grad_(True).merge()
        if policy.adapter:
            copied.lora(**policy.adapter)
        self.critic = copied.backbone
        self.head = copied.head

    def __getattr__(self, name: str) -> Any:
        # What the trainer asks of a model (its backbone, what it came from) is the policy's.
        if name in ("backbone", "base", "revision", "template", "max_tokens", "adapter"):
            return getattr(self.policy, name)
        return super().__getattr__(name)

    def forward(self, batch: trees.Batch, width: int) -> Tensor:
        """Log-probability, value and entropy of each sampled token, 0 behind a response's end.

        The entropy is that of the whole vocabulary where the token was sampled. It is for the log,
        and 0 where gradients are wanted.

        Returns: float32 [R, 3 width].
        """
        hidden = attention.states(self.policy.backbone, batch)  # [T, H]
        log_probs = attention.log_probs(self.policy.backbone, batch, hidden)  # [P]
        values = torch.zeros_like(log_probs)  # [P]
        if self.critic is not None:
            values = self._values(batch)
        if torch.is_grad_enabled():
            entropy = torch.zeros_like(values)  # [P]
        else:
            entropy = over_vocabulary(self.policy.backbone, batch, hidden, entropies)
        outputs = torch.stack([log_probs, values, entropy])  # [3, P]
        return rows(outputs, batch, width).flatten(1)

    def _values(self, batch: trees.Batch) -> Tensor:
        """The critic's value of each state that a token is sampled in, float32 [P]."""
        hidden = attention.states(self.critic, batch)  # [T, H]
        with torch.autocast(hidden.device.type, enabled=False):
            predicting = attention.predicting_states(batch, hidden).float()  # [P, H]
            return self.head(predicting)[:, 0]

    def parameters_apart(self) -> list[list[nn.Parameter]]:
        """The parameters of the policy and, if there is one, those of the critic."""
        if self.critic is None:
            return [list(self.parameters())]
        of_critic = [*self.critic.parameters(), *self.head.parameters()]
        return [list(self.policy.parameters()), of_critic]


def rows(x: Tensor, batch: trees.Batch, width: int) -> Tensor:
    """x [k, P] of predicted tokens as [R, k, width]: a row for each response, 0 behind its end."""
    lengths = torch.bincount(batch.owner, minlength=len(batch.end)).tolist()  # of each response
    if max(lengths) > width:
        raise ValueError(f"a response has {max(lengths)} tokens, expected at most {width}")
    padded = pad_sequence(x.T.split(lengths), batch_first=True)  # [R, T, k]
    return pad(padded, (0, 0, 0, width - padded.shape[1])).transpose(1, 2)


def entropies(logits: Tensor) -> Tensor:
    """Entropy over the vocabulary, nats: [C] of logits [C, V].

    Paper: silent (the reference code logs it times 0).
    """
    log_p = logits.log_softmax(-1)  # [C, V]
    return -(log_p.exp() * log_p).sum(-1)


@contextmanager
def without_adapters(model: nn.Module) -> Iterator[None]:
    """Switch the model's adapters off inside a `with` block."""
    layers = [module for module in model.modules() if isinstance(module, BaseTunerLayer)]
    for layer in layers:
        layer.enable_adapters(False)
    yield
    for layer in layers:
        layer.enable_adapters(True)


# What samples: (the policy, ids of prompts, number of the round or -1 for validation) -> for each
# id, in that order, a group of `Sample`s, each labelled with its reward.
Sampler = Callable[[nn.Module, Sequence[str], int], list[Group]]


def sampling(groups: Sequence[Group], reward: Reward, recipe: PPO) -> Sampler:
    """The `sample` of `fit_rounds`: samples responses of the policy and scores them by the reward.

    Paper: section 4.4 (rollouts; the reference code samples at temperature 1 from all tokens). A
    sample depends on the seed, the round, its prompt's id and the policy alone.

    Args:
        groups: all prompts that will be asked for, those of validation too.
        reward: what scores a response.
        recipe: how to sample.
    Raises: ValueError where prompts share an id.
    """
    by_id = {group.id: group for group in groups}
    if len(by_id) < len(groups):
        raise ValueError(
            f"{len(groups)} prompts share {len(by_id)} ids: samples are seeded by them"
        )

    def sample(policy: Policy, ids: Sequence[str], round: int) -> list[Group]:
        seed = int(np.random.SeedSequence((recipe.seed, round + 1)).generate_state(1)[0])
        # Nothing of a round is kept on disk before it is whole: samples finished beside others
        # differ by rounding.
        sampled = rollouts(
            policy,
            [by_id[i] for i in ids],
            n=recipe.n_samples,
            max_new_tokens=recipe.max_new_tokens,
            temperature=recipe.temperature,
            top_p=recipe.top_p,
            seed=seed,
            autocast=recipe.autocast,
            progress=False,
        )
        scores = reward.score(sampled, autocast=recipe.autocast)[:, :1]  # [R, 1]
        rewards = iter(scores.tolist())
        rewarded = []
        for group in sampled:
            responses = [replace(answer, labels=next(rewards)) for answer in group.responses]
            rewarded.append(replace(group, responses=tuple(responses)))
        return rewarded

    return sample


def fitting(
    policy: Policy, groups: Iterable[Group], max_new_tokens: int
) -> tuple[list[Group], list[str]]:
    """The prompts that leave room for a response, and the ids of the others.

    Paper: silent. The oldest turns of a prompt are dropped where that makes room. Responses are
    dropped: PPO uses the prompts only.

    Args:
        policy: whose tokenizer, template and length are used.
        groups: prompts with or without responses.
        max_new_tokens: the room that a response needs.
    """
    with_room = []
    left_out = []
    for group in groups:
        try:
            prompt = shortened(policy, group, max_new_tokens).prompt
        except ValueError:
            left_out.append(group.id)
            continue
        bare = replace(
            group,
            prompt=prompt,
            responses=(Response("", ""),),
            preference=None,
            preferences=(),
        )
        with_room.append(bare)
    return with_room, left_out


def as_items(policy: Policy, prompts: Sequence[Group]) -> list[Item]:
    """The prompts as items for `fit_rounds`: their tokens, and no targets."""
    no_targets = np.zeros((1, 0), np.float32)
    items = []
    for group in prompts:
        tokens = chat.prompt_tokens(group.prompt, policy.tokenizer, **policy.written)
        items.append(Item(group.id, (tokens,), no_targets, (len(tokens),)))
    return items


# Rounds


def steps_of(recipe: PPO) -> int:
    """The number of the optimiser's steps in a round."""
    return recipe.buffer // recipe.batch * recipe.passes


def asked(ids: Sequence[str], recipe: PPO, round: int) -> list[int]:
    """Positions of the prompts that a round answers.

    Rounds are numbered from 0. Every epoch over the prompts has an order of its own, which follows
    from (seed, epoch) and the ids. What is left over at the end of an epoch, fewer than a buffer,
    waits for the next.
    """
    epoch, part = divmod(round, len(ids) // recipe.buffer)
    start = epoch * len(ids) + part * recipe.buffer
    return list(islice(order(ids, recipe.seed), start, start + recipe.buffer))


def batches(ids: Sequence[str], recipe: PPO, steps: int) -> Iterator[int]:
    """Positions of the prompts whose answers each step goes over, one global batch after the other.

    Raises ValueError where rounds are not whole.
    """
    if recipe.buffer % recipe.batch:
        raise ValueError(
            f"a buffer of {recipe.buffer} is no whole number of batches of {recipe.batch} prompts"
        )
    if len(ids) < recipe.buffer:
        raise ValueError(f"{len(ids)} prompts do not fill a buffer of {recipe.buffer}")
    for name, value in {"save_every": recipe.save_every, "steps": steps}.items():
        # Between rounds nothing of a buffer is needed to go on. A finished run has used all that it
        # sampled.
        if value % steps_of(recipe):
            raise ValueError(
                f"{name} is a multiple of the {steps_of(recipe)} steps of a round, got {value}"
            )
    for round in range(steps // steps_of(recipe)):
        for optimiser_pass in range(recipe.passes):
            rng = np.random.default_rng((recipe.seed, round, optimiser_pass))
            yield from rng.permutation(asked(ids, recipe, round)).tolist()


def token_kl(policy: Tensor, reference: Tensor, form: str = "absolute") -> Tensor:
    """The KL penalty of each sampled token: |d|, d or exp(-d) - 1 + d, d = log pi - log pi_ref.

    Paper: section 4.4 (a penalty whose form it does not print; "absolute" is the reference code's).
    In expectation over the policy's samples "plain" is the KL, and so is "k3" of each token, which
    is never negative; "absolute" is larger. As a reward they differ more. Only "plain" rewards a
    token for being less likely than it was, so only its optimum is the reference tilted by
    exp(reward / weight). With the other two what has become unlikely is pushed further down; they
    hold back what becomes more likely.

    Args:
        policy: log-probabilities [R, T].
        reference: log-probabilities [R, T].
        form: "absolute", "plain" or "k3", in the order of the formulas above.
    Returns: [R, T].
    """
    one_of("kl_form", form, ("absolute", "plain", "k3"))
    difference = policy - reference
    if form == "absolute":
        return difference.abs()
    if form == "plain":
        return difference
    return torch.expm1(-difference) + difference


def token_rewards(reward: Tensor, kl: Tensor, mask: Tensor, weight: float) -> Tensor:
    """Rewards of tokens: -weight x KL of each; the response's reward is added at its last one.

    Paper: section 4.4 (where the two stand is the reference code's).

    Args:
        reward: [R], of each response.
        kl: [R, T], of `token_kl`.
        mask: bool [R, T], each row's tokens.
        weight: of the KL.
    Returns: [R, T], 0 outside the mask.
    """
    penalties = torch.where(mask, -weight * kl, 0.0)  # [R, T]
    last = mask.sum(1).sub(1).clamp(min=0)[:, None]  # [R, 1], each row's last token
    at_last = torch.where(mask.any(1), reward, 0.0)[:, None]  # [R, 1]
    return penalties.scatter_add(1, last, at_last)


def group_values(reward: Tensor, penalty: Tensor, recipe: PPO) -> Tensor:
    """What the answers to a prompt get on average, as the value of each of them.

    Paper: silent. Shao et al. 2024 (arXiv 2402.03300) take it for a critic. An answer without a
    reward (nan) counts for none.

    Args:
        reward: [R], the answers to a prompt side by side, `n_samples` of each.
        penalty: [R], the KL of `kl_form` of an answer.
        recipe: n_samples, kl_weight.
    Returns: [R].
    """
    penalised = reward - recipe.kl_weight * penalty  # [R]
    by_prompt = penalised.unflatten(0, (-1, recipe.n_samples))  # [B, n]
    return by_prompt.nanmean(1, keepdim=True).expand_as(by_prompt).flatten().nan_to_num()


def targets(
    sampler: Tensor,
    reference: Tensor,
    values: Tensor,
    tokens: Tensor,
    reward: Tensor,
    finished: Tensor,
    recipe: PPO,
) -> Tensor:
    """Targets of the loss: log-probability when sampled, advantage, value, return, counted, acted.

    Paper: section 4.4 (all of this is the reference code's; what it does with unfinished responses
    is later than the paper: paper/reference.csv). "acted" marks the tokens that give the policy a
    gradient, "counted" those that count for the critic and in the normalisation of advantages. A
    response that did not end has a reward of a text that the policy did not close. So it is counted
    but not acted, unless `unfinished` is "keep". A response without a reward (nan: the reward model
    refused it) is neither.

    Args:
        sampler: log-probabilities [R, T] of the policy when it sampled.
        reference: log-probabilities [R, T] of the reference.
        values: [R, T], when sampled.
        tokens: bool [R, T], each row's tokens.
        reward: [R].
        finished: [R], whether each response ended.
        recipe: weights and choices.
    Returns: float32 [R, 6, T].
    """
    refused = reward.isnan()  # [R]
    reward = reward.nan_to_num()
    kl = token_kl(sampler, reference, recipe.kl_form)  # [R, T]
    rewards = token_rewards(reward, kl, tokens, recipe.kl_weight)  # [R, T]
    advantage, returns = losses.advantages(
        rewards, values, tokens, gamma=recipe.gamma, lam=recipe.lam
    )
    counted = tokens & ~refused[:, None]  # [R, T]
    acted = counted
    if recipe.unfinished == "drop":
        acted = counted & finished.bool()[:, None]
    if recipe.normalise:
        advantage = losses.normalised(advantage, counted)
    return torch.stack([sampler, advantage, values, returns, counted.float(), acted.float()], 1)


# What `objective` adds up for the log.
TALLY = ("policy loss", "value loss", "clip fraction", "ratio off 1", "tokens trained")


def objective(recipe: PPO, tally: Tensor | None = None) -> Objective:
    """PPO's losses for the trainer, of `ActorCritic`'s outputs [R, 3 W] and `targets` [R, 6 W].

    Paper: section 4.4. Both clipped losses are means over each response, weighed by its tokens or
    all alike (`weigh`). So the trainer's mean is over the tokens or the responses of the whole
    global batch, those without a gradient among them.

    Args:
        recipe: weights and choices.
        tally: float64 [5], as `TALLY` names it, to which the sums of each call are added.
    """

    def outputs(model: ActorCritic, batch: trees.Batch) -> Tensor:
        return model(batch, recipe.max_new_tokens)

    def total(outputs: Tensor, targets: Tensor, group: Tensor) -> Tensor:
        policy, value, _ = outputs.unflatten(1, (3, -1)).unbind(1)  # [R, W] each
        by_kind = targets.unflatten(1, (6, -1))  # [R, 6, W]
        sampler, advantage, old, returns, counted, acted = by_kind.unbind(1)  # [R, W] each
        tokens = counted.sum(1)  # [R], those that count
        counted = counted.bool()
        acted = acted.bool()
        policy_loss = losses.ppo_policy_loss(
            policy, sampler, advantage, acted, clip=recipe.ratio_clip
        )  # [R]
        value_loss = losses.ppo_value_loss(
            value, old, returns, counted, clip=recipe.value_clip
        )  # [R]
        if tally is not None:
            off = torch.where(acted, policy - sampler, 0.0).detach().expm1().abs()  # [R, W]
            sums = (
                policy_loss.detach() @ tokens,
                value_loss.detach() @ tokens,
                (off > recipe.ratio_clip).sum(),
                off.sum(),
                tokens.sum(),
            )
            tally.add_(torch.tensor(sums, dtype=tally.dtype))
        weight = tokens.sign() if recipe.weigh == "responses" else tokens  # [R]
        if recipe.critic == "group":
            return policy_loss @ weight
        return (policy_loss + value_loss) @ weight

    def count(targets: Tensor, group: Tensor) -> int:
        tokens = targets.unflatten(1, (6, -1))[:, 4].sum(1)  # [R], those that count
        weight = tokens.sign() if recipe.weigh == "responses" else tokens
        return int(weight.sum())

    return Objective("PPO", total, count, outputs, log_probs=True)


# The columns of `rounds`, besides round and step.
NAMES = (
    "reward",
    "kl",
    "penalty",
    "penalised reward",
    "length",
    "finished",
    "entropy",
    "explained",
    "policy loss",
    "value loss",
    "clip fraction",
    "ratio off 1",
    "tokens trained",
    "grad_norm",
    "critic gradient",
)


def figures(
    sampler: Tensor,
    reference: Tensor,
    values: Tensor,
    tokens: Tensor,
    reward: Tensor,
    finished: Tensor,
    entropy: Tensor,
    recipe: PPO,
) -> dict[str, float]:
    """Figures of a round, over all its responses, unfinished ones too.

    Args:
        sampler, reference, values, tokens, reward, finished: as for `targets`.
        entropy: [R, T], nats.
        recipe: weights and choices.
    Returns: by name
        reward: of a response.
        penalised reward: reward - weight x penalty.
        kl: the sampled estimate of KL(policy, reference) of a response, nats.
        penalty: the KL of `kl_form` of a response.
        length: tokens of a response.
        finished: the share of responses that ended.
        entropy: of a token, nats.
        explained: the share of the returns' variance that the values explain.
    """
    penalties = torch.where(tokens, token_kl(sampler, reference, recipe.kl_form), 0.0)  # [R, T]
    penalty = penalties.sum(1).mean()
    kl = torch.where(tokens, sampler - reference, 0.0).sum(1).mean()
    as_estimated = replace(recipe, normalise=False)  # the advantages in the reward's units
    by_kind = targets(sampler, reference, values, tokens, reward, finished, as_estimated)
    _, advantage, _, returns, _, _ = by_kind.unbind(1)  # [R, T] each
    variance = returns[tokens].var(correction=0).clamp(min=1e-12)
    unexplained = advantage[tokens].var(correction=0) / variance
    by_name = {
        "reward": reward.nanmean(),
        "penalised reward": reward.nanmean() - recipe.kl_weight * penalty,
        "kl": kl,
        "penalty": penalty,
        "length": tokens.sum(1).float().mean(),
        "finished": finished.float().mean(),
        "entropy": entropy[tokens].mean(),
        "explained": 1 - unexplained,
    }
    return {name: float(value) for name, value in by_name.items()}


def rounds(history: Sequence[dict]) -> pd.DataFrame:
    """A row a round of a run's history: the figures, and the means of the losses over its steps.

    Paper: silent (it prints no curve). Losses are per token that counts, whatever is weighed.

    Returns: a frame with round, step, what `figures` has, and
        policy loss, value loss: of a token.
        clip fraction: the share of tokens whose ratio left 1 +- clip.
        ratio off 1: the mean of |ratio - 1|, 0 on a first pass.
        tokens trained: tokens that count, of a step.
        grad_norm, critic gradient: norms of the gradients of policy and critic.
    """
    frame = pd.DataFrame([entry for entry in history if "policy loss" in entry])
    columns = {"step": "last", **dict.fromkeys(NAMES, "mean")}
    return frame.groupby("round", as_index=False).agg(columns)


# The trainer


class PPOTrainer(GroupTrainer):
    """The trainer that samples its items: the loader gives prompts, the policy their responses."""

    def __init__(
        self,
        *arguments: Any,
        sample: Sampler,
        reference: nn.Module | None,
        tally: Tensor,
    ) -> None:
        super().__init__(*arguments)
        self.sample = sample
        self.tally = tally
        self.reference = reference
        if reference is not None:
            self.reference = reference.to(self.args.device)

    def positions(self) -> Iterator[int]:
        return batches([item.id for item in self.items], self.recipe, self.steps)

    def get_batch_samples(
        self, epoch_iterator: Iterator[list[Item]], num_batches: int, device: torch.device
    ) -> tuple[list[list[Item]], int]:
        # Here and not in the loader: what runs ahead of the optimiser's step would be sampled by
        # the weights before it.
        prompts = [next(epoch_iterator) for _ in range(num_batches)]
        round, step = divmod(self.state.global_step, steps_of(self.recipe))
        if step == 0:
            self._fill(round)
        answers = []
        for items in prompts:
            answers.append([self.round[item.id] for item in items])
        return answers, self._get_num_items_in_batch(answers, device)

    def _fill(self, round: int) -> None:
        """Sample a round: `self.round`, its items with their targets by id, and `self.stats`."""
        ids = [item.id for item in self.items]
        prompts = [self.items[i] for i in asked(ids, self.recipe, round)]
        items, sampled, stats = self._sampled(prompts, round)
        self.stats = {"round": round, **stats}
        rows_of_targets = targets(*sampled, self.recipe).flatten(1).numpy()  # [R, 6 W]
        self.round = {}
        for item, part in zip(items, np.split(rows_of_targets, len(items)), strict=True):
            self.round[item.id] = replace(item, targets=part)  # [n, 6 W]

    def _sampled(
        self, prompts: Sequence[Item], round: int
    ) -> tuple[list[Item], tuple[Tensor, ...], dict[str, float]]:
        """Items of the responses to the prompts, the arguments of `targets`, and figures to log."""
        self.model.eval()
        policy = self.model.model.policy
        groups = self.sample(policy, [item.id for item in prompts], round)
        if self.args.should_save and round >= 0:
            file = self.folder / "samples" / f"round-{round:04d}.jsonl"
            write(file, json_lines(map(asdict, groups)))
        no_targets = np.zeros((self.recipe.n_samples, 0), np.float32)
        items = []
        for item, group in zip(prompts, groups, strict=True):
            sequences = tuple([*item.sequences[0], *sample.tokens] for sample in group.responses)
            items.append(Item(item.id, sequences, no_targets, item.starts * len(sequences)))
        outputs, _, _ = self.outputs_of(items)
        log_probs, values, entropy = outputs.unflatten(1, (3, -1)).unbind(1)  # [R, W] each
        reference = self._reference_log_probs(policy, items)  # [R, W]
        samples = [sample for group in groups for sample in group.responses]
        lengths = torch.tensor([len(sample.tokens) for sample in samples])  # [R]
        reward = torch.tensor([sample.labels[0] for sample in samples])  # [R]
        finished = torch.tensor([sample.finished for sample in samples])  # [R]
        tokens = torch.arange(self.recipe.max_new_tokens) < lengths[:, None]  # [R, W]
        if self.recipe.critic == "group":
            kl = torch.where(tokens, token_kl(log_probs, reference, self.recipe.kl_form), 0.0)
            of_answer = group_values(reward, kl.sum(1), self.recipe)  # [R]
            values = torch.where(tokens, of_answer[:, None], 0.0)  # [R, W]
        sampled = (log_probs, reference, values, tokens, reward, finished)
        return items, sampled, figures(*sampled, entropy, self.recipe)

    def _reference_log_probs(self, policy: Policy, items: Sequence[Item]) -> Tensor:
        """log pi_ref [R, W] of the sampled tokens; without a reference the policy's own before."""
        reference = policy if self.reference is None else self.reference

        def log_probs(batch: trees.Batch) -> Tensor:
            of_tokens = attention.log_probs(reference.backbone, batch)[None]  # [1, P]
            return rows(of_tokens, batch, self.recipe.max_new_tokens)[:, 0]

        with attention.computing(reference, self.recipe.autocast), without_adapters(policy):
            outputs, _, _ = self.outputs_of(items, log_probs)
        return outputs

    # The optimiser: the critic has a learning rate and a gradient norm of its own, as where
    # another trainer trains it.

    def create_optimizer(self, model: nn.Module | None = None) -> Optimizer:
        super().create_optimizer(model)
        critic_ids = set()
        for parameters in self.model.model.parameters_apart()[1:]:
            critic_ids.update(id(parameter) for parameter in parameters)
        if not critic_ids:
            return self.optimizer
        for group in list(self.optimizer.param_groups):
            of_critic = [p for p in group["params"] if id(p) in critic_ids]
            group["params"] = [p for p in group["params"] if id(p) not in critic_ids]
            rate = group["lr"] * self.recipe.critic_rate
            self.optimizer.add_param_group({**group, "params": of_critic, "lr": rate})
        return self.optimizer

    def _clip_grad_norm(self, model: nn.Module) -> Tensor:
        norms = []
        for parameters in self.model.model.parameters_apart():
            norms.append(nn.utils.clip_grad_norm_(parameters, self.recipe.clip))
        if not all(math.isfinite(norm) for norm in norms):
            raise FloatingPointError(
                f"the gradient's norm is not finite at step {self.state.global_step + 1}: {norms}"
            )
        self.stats["critic gradient"] = float(norms[-1])
        return norms[0]

    # What is logged and kept

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        if "loss" in logs:
            sums = self.accelerator.reduce(self.tally.to(self.args.device)).tolist()  # [5]
            self.tally.zero_()
            n_tokens = sums.pop()
            means = [total / max(1.0, n_tokens) for total in sums]
            of_losses = dict(zip(TALLY, [*means, n_tokens], strict=True))
            logs = {**logs, **self.stats, **of_losses}
        super().log(logs, start_time)

    def validated(self) -> dict[str, float]:
        _, _, stats = self._sampled(self.validation, -1)
        return {"loss": -stats["penalised reward"], **stats}


# Settings of `PPO` that do not name a training: the reward and the validation prompts say what the
# first two change, and best of n alone reads the others.
FREE = ("n_standard", "n_validate", "n_best_prompts", "n_best")


def fit_rounds(
    model: ActorCritic,
    prompts: Sequence[Item],
    sample: Sampler,
    reference: nn.Module | None,
    recipe: PPO,
    parent: Path,
    *,
    validation: Sequence[Item] = (),
    about: Mapping[str, object] | None = None,
    callbacks: Sequence[TrainerCallback] = (),
) -> TrainingResult:
    """Train the policy of `model` in place on what it samples, round by round.

    Paper: section 4.4. The result's folder holds what one of `trainer.fit` holds, and the samples
    of each round.

    Args:
        model: policy and critic.
        prompts: what `as_items` returned.
        sample: samples responses, as `sampling` makes one.
        reference: the policy that the KL is counted from; it is frozen. None: the policy without
            its adapters.
        recipe: batch in prompts, steps.
        parent: the folder of the runs.
        validation: prompts that are answered every `validate_every` steps, always with the same
            random numbers. The policy ends with the weights that have the best penalised reward on
            them.
        about: what else names the run.
        callbacks: as for `hs2lib.train.trainer.fit`.
    Raises: as `fit`, and ValueError where rounds are not whole or there is no reference.
    """
    if recipe.fsdp:
        raise ValueError(
            "sampling needs whole weights in every process: PPO does not run with fsdp=True"
        )
    if reference is not None:
        reference.requires_grad_(False)
    elif not model.policy.adapter:
        raise ValueError(
            "expected a reference, or a policy with adapters, "
            "which is its own reference without them"
        )
    if recipe.checkpointing and model.critic is not None:
        model.critic.gradient_checkpointing_enable({"use_reentrant": False})
    tally = torch.zeros(len(TALLY), dtype=torch.float64)  # [5]
    names = [name for kind in (Tempered, Sampled, PPO) for name in kind.__annotations__]
    settings = {name: getattr(recipe, name) for name in names if name not in FREE}
    return fit(
        model,
        prompts,
        validation,
        objective(recipe, tally),
        recipe,
        parent,
        about={"ppo": settings, "critic": model.kind, **(about or {})},
        callbacks=callbacks,
        trainer=partial(PPOTrainer, sample=sample, reference=reference, tally=tally),
    )
