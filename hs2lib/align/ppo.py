"""PPO: the one trainer on responses that the policy samples while it is trained.

    data = load_data(setup)
    prompts = prepare(policy, data, setup)
    reward = fold_reward(reward_model, data, setup)     # one output, mean 0 and SD 1 on the data's responses
    model = actor_critic(policy, reward, setup)         # the critic starts as the reward model
    result = train(model, prompts, reward, sft, setup)
    frame = rounds(result.history)

A trainer that minimises a loss on fixed items and one that samples its items differ in one place:
where a batch is fetched. So this is `trainer.fit` with a trainer that fills in the items of a round
there. A round is one rollout buffer: the policy answers `buffer` prompts, and the optimiser then
goes over the answers. Micro-batches, exact scale, processes, the optimiser, checkpoints and going
on after a kill are the trainer's own. A checkpoint only ever lies between rounds, so nothing of a
buffer has to be kept. Paper: section 4.4.

Letters: R responses, T tokens of the longest of them, W the most tokens that may be sampled.
"""

import copy
import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Protocol

import numpy as np
import pandas as pd
import torch
from peft.tuners.tuners_utils import BaseTunerLayer
from torch import Tensor, nn
from torch.nn.functional import pad
from torch.nn.utils.rnn import pad_sequence

from hs2lib.data.load import Loaded, load
from hs2lib.engine import attention, chat, trees
from hs2lib.group import Group, Response
from hs2lib.models import backbones, export, saved
from hs2lib.models.policy import Policy
from hs2lib.models.reward_model import RewardModel
from hs2lib.models.rollout import fitted, rollouts
from hs2lib.names import one_of
from hs2lib.paper import head_weights
from hs2lib.paths import json_lines, write
from hs2lib.run.setup import Setup
from hs2lib.train import losses
from hs2lib.train.items import Item, order
from hs2lib.train.objectives import Objective, over_vocabulary
from hs2lib.train.recipes import PPO
from hs2lib.train.trainer import GroupTrainer, TrainingResult, fit


def standardised(model, rated: Sequence, weights: Sequence[float], **options):
    """The reward of PPO: goodness minus its mean, over its SD, on rated responses, folded into a
    one-output model.

    Paper: section 4.4 ("taking away the mean of the HelpSteer2 responses and dividing it by its
    standard deviation"). rated: the groups whose responses set mean and SD; weights [A]; options go
    to `RewardModel.score`. Both are folded into the head, so that the critic, which starts as this
    model, begins on the scale of the rewards.
    """
    goodness = model.score(rated, **options).double().cpu() @ torch.tensor(
        weights, dtype=torch.float64
    )  # [rated]
    goodness = goodness[~goodness.isnan()]  # without refused responses
    return export.fold(
        model, weights, mean=goodness.mean().item(), sd=goodness.std(correction=0).item()
    )


class Reward(Protocol):
    """What rewards a response: the standardised reward model, or one of the reader's own."""

    def score(self, groups: Sequence[Group], **options) -> Tensor:
        """Float32 [R, 1], the reward of every response of the groups, in order; options of `RewardModel.score`."""

    def fingerprint(self) -> str:
        """A short name for what it computes, which changes with that: it names the training."""


@dataclass(frozen=True)
class Prompts:
    """The prompts of a run. training, validation: groups; left_out: ids of those that leave no room
    for an answer.

    items, validation_items: their tokens, as `fit_rounds` takes them.
    """

    training: list[Group]
    validation: list[Group]
    left_out: list[str]
    items: list[Item]
    validation_items: list[Item]

    def table(self) -> pd.DataFrame:
        """How many there are of each, and how long those to train on are."""
        lengths = pd.Series([len(item.sequences[0]) for item in self.items])
        counts = {
            "to train on": len(self.training),
            "too long, left out": len(self.left_out),
            "to choose by": len(self.validation),
            "median tokens": lengths.median(),
            "most tokens": lengths.max(),
        }
        return pd.Series(counts, name="prompts").rename_axis("").to_frame()


def load_data(setup: Setup) -> Loaded:
    """The data, whose prompts are answered and whose responses give the reward's scale.

    Paper: section 4.4 (HelpSteer2).
    """
    recipe = setup.recipe
    return load(
        recipe.dataset,
        recipe.source,
        path=recipe.path or None,
        split=recipe.split,
        strict=recipe.strict,
        n_prompts=recipe.n_prompts,
        seed=recipe.seed,
    )


def prepare(policy: Policy, data: Loaded, setup: Setup) -> Prompts:
    """The data's prompts in an order drawn by the seed, those that leave no room for an answer left
    out.

    The first `n_validate` of the recipe choose the checkpoint; the others are trained on.
    """
    recipe = setup.recipe
    order = np.random.default_rng(recipe.seed).permutation(len(data.groups))
    shuffled = [data.groups[i] for i in order]
    fit_in, left_out = fitting(policy, shuffled, recipe.max_new_tokens)
    validation = fit_in[: recipe.n_validate]
    training = fit_in[recipe.n_validate :]
    return Prompts(
        training, validation, left_out, as_items(policy, training), as_items(policy, validation)
    )


def fold_reward(reward_model: RewardModel, data: Loaded, setup: Setup) -> RewardModel:
    """The method's own reward: `standardised` on the data's first `n_standard` groups (0: on all), by `weighting`."""
    recipe = setup.recipe
    rated = data.groups[: recipe.n_standard or None]
    weights = head_weights(recipe.weighting, reward_model.attributes)
    folded = standardised(
        reward_model, rated, weights, budget=recipe.budget, autocast=recipe.autocast
    )
    return folded.requires_grad_(False).eval()


def actor_critic(policy: Policy, reward: RewardModel, setup: Setup) -> "ActorCritic":
    """The policy, with adapters where the recipe asks for them, and a critic that starts as the reward model."""
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
    callbacks: Sequence = (),
) -> TrainingResult:
    """Train the policy of `model` in place on its own answers to the prompts, by what `reward` says
    of them.

    Paper: section 4.4. reward: as `fold_reward` makes it, or another. reference: the policy that
    the KL is counted from; one with adapters is counted from itself without them. callbacks: of
    `hs2lib.train.trainer.fit`. Raises as `fit_rounds`, and ValueError where prompts share an id.
    """
    recipe = setup.recipe
    own_reference = model.policy.adapter is not None  # without its adapters
    about = {"reward model": reward.fingerprint()}
    about["reference"] = "" if own_reference else reference.fingerprint()
    result = fit_rounds(
        model,
        prompts.items,
        sampling([*prompts.training, *prompts.validation], reward, recipe),
        None if own_reference else reference,
        recipe,
        setup.folder,
        validation=prompts.validation_items,
        about=about,
        callbacks=callbacks,
    )
    return replace(
        result, arguments={"reward": about["reward model"], "reference": about["reference"]}
    )


def answers(result: TrainingResult, prompts: Prompts, number: int) -> list[Group]:
    """The prompts that a round answered, each with the texts of its answers, as they lie in the training's folder."""
    by_id = {prompt.id: prompt for prompt in prompts.training}
    lines = (result.folder / "samples" / f"round-{number:04d}.jsonl").read_text().splitlines()
    out = []
    for line in lines:
        row = json.loads(line)
        texts = tuple(Response("", response["text"]) for response in row["responses"])
        out.append(replace(by_id[row["id"]], responses=texts))
    return out


class ActorCritic(nn.Module):
    """A policy and a value V(x, y_<t) of each state, started from a reward model with one output.

    Paper: section 4.4 (the critic's start is the reference code's). critic: "separate", a copy of
    the reward model whose head reads every state instead of the last; or "shared", a head on the
    policy's own states that starts at 0, the mean of standardised rewards (the reward model's head
    says nothing about another model's states). A policy with adapters gets a critic with adapters
    like its own. Raises ValueError where a separate critic could not read the policy's tokens, or
    the reward model has several outputs.
    """

    attributes = ()  # to the trainer this is a policy

    def __init__(self, policy: nn.Module, reward_model: nn.Module, critic: str = "separate"):
        super().__init__()
        if len(reward_model.attributes) != 1:
            raise ValueError(
                f"the reward model has the outputs {reward_model.attributes}: fold them into one"
            )
        one_of("critic", critic, ("separate", "shared"))
        self.policy, self.kind = policy, critic
        if critic == "shared":
            self.critic, self.head = None, nn.Linear(backbones.width(policy.backbone), 1)
            for parameter in self.head.parameters():
                nn.init.zeros_(parameter)
            return
        if policy.tokenizer and policy.tokenizer.get_vocab() != reward_model.tokenizer.get_vocab():
            raise ValueError('policy and reward model have different tokens: use critic="shared"')
        copied = copy.deepcopy(reward_model).requires_grad_(True).merge()
        if policy.adapter:
            copied.lora(**policy.adapter)
        self.critic, self.head = copied.backbone, copied.head

    def __getattr__(self, name):
        # What the trainer asks of a model (its backbone, what it came from) is the policy's.
        if name in ("backbone", "base", "revision", "template", "max_tokens", "adapter"):
            return getattr(self.policy, name)
        return super().__getattr__(name)

    def forward(self, batch, width: int) -> Tensor:
        """Log-probability, value and entropy of each sampled token, float32 [R, 3 width], 0 behind
        a response's end.

        The entropy is that of the whole vocabulary where its token was sampled; it is for the log,
        and 0 where gradients are wanted.
        """
        hidden = attention.states(self.policy.backbone, batch)  # [T, H]
        read = hidden if self.critic is None else attention.states(self.critic, batch)  # [T, H]
        log_probs = attention.log_probs(self.policy.backbone, batch, hidden)  # [P]
        with torch.autocast(read.device.type, enabled=False):
            values = self.head(attention.predicting_states(batch, read).float())[:, 0]  # [P]
        grad = torch.is_grad_enabled()
        entropy = (
            torch.zeros_like(values)
            if grad
            else over_vocabulary(self.policy.backbone, batch, hidden, entropies)
        )
        return rows(torch.stack([log_probs, values, entropy]), batch, width).flatten(
            1
        )  # [R, 3 width]

    def own(self) -> list[list[nn.Parameter]]:
        """The parameters of the policy and, where they are others, those of a critic of its own."""
        if self.critic is None:
            return [list(self.parameters())]
        return [
            list(self.policy.parameters()),
            [*self.critic.parameters(), *self.head.parameters()],
        ]


def rows(x: Tensor, batch: trees.Batch, width: int) -> Tensor:
    """x [k, P] of predicted tokens as [R, k, width]: each response's from column 0 on, 0 behind its end."""
    tokens = torch.bincount(batch.owner, minlength=len(batch.end)).tolist()  # of each response
    if max(tokens) > width:
        raise ValueError(f"a response has {max(tokens)} tokens, expected at most {width}")
    padded = pad_sequence(x.T.split(tokens), batch_first=True)  # [R, T, k]
    return pad(padded, (0, 0, 0, width - padded.shape[1])).transpose(1, 2)


def entropies(logits: Tensor) -> Tensor:
    """Entropy over the vocabulary, nats: [C] of logits [C, V]. Paper: silent (the reference code logs it times 0)."""
    log_p = logits.log_softmax(-1)  # [C, V]
    return -(log_p.exp() * log_p).sum(-1)


@contextmanager
def without_adapters(model: nn.Module):
    """The model as it was before adapters were put in: what they learn is switched off inside."""
    layers = [module for module in model.modules() if isinstance(module, BaseTunerLayer)]
    for layer in layers:
        layer.enable_adapters(False)
    yield
    for layer in layers:
        layer.enable_adapters(True)


# (the policy, ids of prompts, number of the round or -1 for validation) -> for each, in that order,
# a group of `Sample`s, each labelled with its reward
Sampler = Callable[[nn.Module, Sequence[str], int], list[Group]]


def sampling(groups: Sequence[Group], reward: Reward, recipe: PPO) -> Sampler:
    """Samples responses of the policy and scores them by the reward: the `sample` of `fit_rounds`.

    Paper: section 4.4 (rollouts; the reference code samples at temperature 1 from all tokens).
    groups: all prompts that will be asked for, those of validation too. A sample depends on the
    seed, the round, its prompt's id and the policy alone.
    """
    by_id = {group.id: group for group in groups}
    if len(by_id) < len(groups):
        raise ValueError(
            f"{len(groups)} prompts share {len(by_id)} ids: samples are seeded by them"
        )
    names = ("max_new_tokens", "temperature", "top_p", "autocast")
    options = {name: getattr(recipe, name) for name in names} | {
        "n": recipe.n_samples,
        "progress": False,
    }

    def sample(policy, ids: Sequence[str], round: int) -> list[Group]:
        seed = int(np.random.SeedSequence((recipe.seed, round + 1)).generate_state(1)[0])
        # Nothing of a round is kept on disk before it is whole: samples finished beside others
        # differ by rounding.
        sampled = rollouts(policy, [by_id[i] for i in ids], seed=seed, **options)
        rewards = iter(reward.score(sampled, autocast=recipe.autocast)[:, :1].tolist())
        return [
            replace(g, responses=tuple(replace(s, labels=next(rewards)) for s in g.responses))
            for g in sampled
        ]

    return sample


def fitting(policy, groups: Iterable[Group], max_new_tokens: int) -> tuple[list[Group], list[str]]:
    """The prompts that leave room for a response, without their oldest turns where need be, and the
    ids of the others.

    Paper: silent. Responses are dropped: PPO uses the prompts only.
    """
    out, left_out = [], []
    for group in groups:
        try:
            prompt = fitted(policy, group, max_new_tokens, **policy.written)
        except ValueError:
            left_out.append(group.id)
        else:
            out.append(
                replace(
                    group,
                    prompt=prompt,
                    responses=(Response("", ""),),
                    preference=None,
                    preferences=(),
                )
            )
    return out, left_out


def as_items(policy, prompts: Sequence[Group]) -> list[Item]:
    """The prompts as items for `fit_rounds`: their tokens, and no targets."""
    tokens = [
        chat.prompt_tokens(group.prompt, policy.tokenizer, **policy.written) for group in prompts
    ]
    empty = np.zeros((1, 0), np.float32)
    return [
        Item(group.id, (ids,), empty, (len(ids),))
        for group, ids in zip(prompts, tokens, strict=True)
    ]


# Rounds


def steps_of(recipe: PPO) -> int:
    """The steps of the optimiser in a round."""
    return recipe.buffer // recipe.batch * recipe.passes


def asked(ids: Sequence[str], recipe: PPO, round: int) -> list[int]:
    """Positions of the prompts that a round answers.

    Every epoch over the prompts has an order of its own that follows from (seed, epoch) and the
    ids; what is left over at its end, fewer than a buffer, waits for the next.
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
        # Between rounds nothing of a buffer is needed to go on, and a finished run has used all it
        # sampled.
        if value % steps_of(recipe):
            raise ValueError(
                f"{name} is a multiple of the {steps_of(recipe)} steps of a round, got {value}"
            )
    for round in range(steps // steps_of(recipe)):
        for once in range(recipe.passes):
            yield from (
                np.random.default_rng((recipe.seed, round, once))
                .permutation(asked(ids, recipe, round))
                .tolist()
            )


def token_kl(policy: Tensor, reference: Tensor, form: str = "absolute") -> Tensor:
    """The KL penalty of each sampled token, same shape as both: |d|, d or exp(-d) - 1 + d for d =
    log pi - log pi_ref.

    Paper: section 4.4 (a penalty whose form it does not print; "absolute" is the reference code's).
    policy, reference: log-probabilities [R, T]. In expectation over the policy's samples "plain" is
    the KL, and so is "k3" of each token, which is never negative; "absolute" is larger. As a reward
    they differ more: only "plain" rewards a token for being less likely than it was, and so only
    with it is the optimum the reference tilted by exp(reward / weight). With the other two what has
    become unlikely is pushed further down; they hold back what becomes more likely.
    """
    one_of("kl_form", form, ("absolute", "plain", "k3"))
    difference = policy - reference
    if form == "absolute":
        return difference.abs()
    return difference if form == "plain" else torch.expm1(-difference) + difference


def token_rewards(reward: Tensor, kl: Tensor, mask: Tensor, weight: float) -> Tensor:
    """Rewards [R, T] of tokens: -weight x KL of each, and the response's reward [R] besides at its
    last one.

    Paper: section 4.4 (where the two stand is the reference code's). kl [R, T]; mask: bool [R, T],
    each row's tokens.
    """
    out = torch.where(mask, -weight * kl, 0.0)  # [R, T]
    last = mask.sum(1).sub(1).clamp(min=0)[:, None]  # [R, 1], each row's last token
    return out.scatter_add(1, last, torch.where(mask.any(1), reward, 0.0)[:, None])


def targets(
    sampler: Tensor,
    reference: Tensor,
    values: Tensor,
    tokens: Tensor,
    reward: Tensor,
    finished: Tensor,
    recipe: PPO,
) -> Tensor:
    """Targets of the loss, float32 [R, 6, T]: log-probability when sampled, advantage, value,
    return, counted, acted.

    sampler, reference, values: [R, T] when sampled; tokens: bool [R, T], each row's tokens; reward,
    finished: [R]. A response that did not end gives the policy no gradient (its reward is of a text
    that the policy did not close), unless `unfinished` is "keep"; it counts in the normalisation of
    advantages and for the critic. One without a reward (nan: the reward model refused it) counts
    nowhere. Paper: section 4.4 (all of this is the reference code's, the unfinished later than the
    paper: docs/reference.md).
    """
    refused, reward = reward.isnan(), reward.nan_to_num()
    rewards = token_rewards(
        reward, token_kl(sampler, reference, recipe.kl_form), tokens, recipe.kl_weight
    )
    advantage, returns = losses.advantages(
        rewards, values, tokens, gamma=recipe.gamma, lam=recipe.lam
    )
    counted = tokens & ~refused[:, None]
    acted = counted & finished.bool()[:, None] if recipe.unfinished == "drop" else counted
    if recipe.normalise:
        advantage = losses.normalised(advantage, counted)
    return torch.stack([sampler, advantage, values, returns, counted.float(), acted.float()], 1)


TALLY = ("policy loss", "value loss", "clip fraction", "ratio off 1", "tokens trained")


def objective(recipe: PPO, tally: Tensor | None = None) -> Objective:
    """PPO's losses for the trainer, of an `ActorCritic`'s outputs [R, 3 W] and `targets` as [R, 6
    W].

    Both clipped losses are means over each response, weighed by its tokens or all alike (`weigh`),
    so the trainer's mean is over the tokens or the responses of the whole global batch, those of no
    gradient among them. tally: float64 [5], to which the sums of each call are added, for the log.
    Paper: section 4.4.
    """

    def outputs(model, batch):
        return model(batch, recipe.max_new_tokens)

    def total(outputs, targets, group):
        policy, value, _ = outputs.unflatten(1, (3, -1)).unbind(1)  # [R, W] each
        sampler, advantage, old, returns, counted, acted = targets.unflatten(1, (6, -1)).unbind(
            1
        )  # [R, W] each
        policy_loss = losses.ppo_policy_loss(
            policy, sampler, advantage, acted.bool(), clip=recipe.ratio_clip
        )  # [R]
        value_loss = losses.ppo_value_loss(
            value, old, returns, counted.bool(), clip=recipe.value_clip
        )  # [R]
        tokens = counted.sum(1)  # [R]
        if tally is not None:
            off = torch.where(acted.bool(), policy - sampler, 0.0).detach().expm1().abs()  # [R, W]
            sums = policy_loss.detach() @ tokens, value_loss.detach() @ tokens
            sums = *sums, (off > recipe.ratio_clip).sum(), off.sum(), tokens.sum()
            tally.add_(torch.tensor(sums, dtype=tally.dtype))
        weight = tokens.sign() if recipe.weigh == "responses" else tokens
        return (policy_loss + recipe.value_weight * value_loss) @ weight

    def count(targets, group):
        tokens = targets.unflatten(1, (6, -1))[:, 4].sum(1)  # [R]
        return int((tokens.sign() if recipe.weigh == "responses" else tokens).sum())

    return Objective("PPO", total, count, outputs, log_probs=True)


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
    sampler, reference, values, tokens, reward, finished, entropy, recipe: PPO
) -> dict[str, float]:
    """Figures of a round, over all its responses, unfinished ones too; arguments as for `targets`.

    reward; kl, the sampled estimate of KL(policy, reference) of a response, nats; penalty, the KL
    of `kl_form` of a response; penalised reward, reward - weight x penalty; length, tokens;
    finished, a share; entropy of a token, nats; explained, the share of the returns' variance that
    the values explain.
    """
    penalty = torch.where(tokens, token_kl(sampler, reference, recipe.kl_form), 0.0).sum(1).mean()
    raw = replace(recipe, normalise=False)
    _, advantage, _, returns, *_ = targets(
        sampler, reference, values, tokens, reward, finished, raw
    ).unbind(1)
    left = advantage[tokens].var(correction=0) / returns[tokens].var(correction=0).clamp(min=1e-12)
    out = {
        "reward": reward.nanmean(),
        "penalised reward": reward.nanmean() - recipe.kl_weight * penalty,
    }
    out |= {"kl": torch.where(tokens, sampler - reference, 0.0).sum(1).mean(), "penalty": penalty}
    out |= {"length": tokens.sum(1).float().mean(), "finished": finished.float().mean()}
    out |= {"entropy": entropy[tokens].mean(), "explained": 1 - left}
    return {name: float(x) for name, x in out.items()}


def rounds(history: Sequence[dict]) -> pd.DataFrame:
    """A row a round of a run's history: the figures, and the means of the losses over the round's
    steps.

    Paper: silent (it prints no curve). Losses are per token that counts, whatever is weighed:
    policy loss; value loss; clip fraction, the share of tokens whose ratio left 1 +- clip; ratio
    off 1, the mean of |ratio - 1|, 0 on a first pass.
    """
    frame = pd.DataFrame([entry for entry in history if "policy loss" in entry])
    return frame.groupby("round", as_index=False).agg(
        {"step": "last"} | dict.fromkeys(NAMES, "mean")
    )


# The trainer


class PPOTrainer(GroupTrainer):
    """The trainer that samples its items: a batch's prompts come from the loader, their responses from the round."""

    less = f"{GroupTrainer.less}, max_new_tokens or buffer"

    def __init__(self, *arguments, sample: Sampler, reference: nn.Module | None, tally: Tensor):
        super().__init__(*arguments)
        self.sample, self.tally = sample, tally
        self.reference = reference.to(self.args.device) if reference is not None else None

    def positions(self) -> Iterator[int]:
        return batches([item.id for item in self.items], self.recipe, self.steps)

    def get_batch_samples(self, epoch_iterator, num_batches, device):
        # Here and not in the loader: what runs ahead of the optimiser's step would be sampled by
        # the weights before it.
        prompts = [next(epoch_iterator) for _ in range(num_batches)]
        round, within = divmod(self.state.global_step, steps_of(self.recipe))
        if not within:
            self._fill(round)
        answers = [[self.round[item.id] for item in items] for items in prompts]
        return answers, self._get_num_items_in_batch(answers, device)

    def _fill(self, round: int) -> None:
        prompts = [
            self.items[i] for i in asked([item.id for item in self.items], self.recipe, round)
        ]
        items, sampled, stats = self._sampled(prompts, round)
        self.stats = {"round": round} | stats
        parts = np.split(
            targets(*sampled, self.recipe).flatten(1).numpy(), len(items)
        )  # [n, 6 W] each
        self.round = {
            item.id: replace(item, targets=part) for item, part in zip(items, parts, strict=True)
        }

    def _sampled(self, prompts: Sequence[Item], round: int) -> tuple:
        """Items of their samples, the arguments of `targets`, and figures to log."""
        self.model.eval()
        policy, width = self.model.model.policy, self.recipe.max_new_tokens
        groups = self.sample(policy, [item.id for item in prompts], round)
        if self.args.should_save and round >= 0:
            write(
                self.folder / "samples" / f"round-{round:04d}.jsonl",
                json_lines(map(asdict, groups)),
            )
        items, empty = [], np.zeros((self.recipe.n_samples, 0), np.float32)
        for item, group in zip(prompts, groups, strict=True):
            sequences = tuple([*item.sequences[0], *sample.tokens] for sample in group.responses)
            items.append(Item(item.id, sequences, empty, item.starts * len(sequences)))
        outputs, _, _ = self.outputs_of(items)
        log_probs, values, entropy = outputs.unflatten(1, (3, -1)).unbind(1)  # [R, W] each
        anchor = policy if self.reference is None else self.reference

        def referred(batch: trees.Batch) -> Tensor:
            return rows(attention.log_probs(anchor.backbone, batch)[None], batch, width)[:, 0]

        with attention.computing(anchor, self.recipe.autocast), without_adapters(policy):
            reference, _, _ = self.outputs_of(items, referred)  # [R, W]
        each = [
            (len(sample.tokens), sample.labels[0], sample.finished)
            for g in groups
            for sample in g.responses
        ]
        lengths, reward, finished = map(torch.tensor, zip(*each, strict=True))  # [R] each
        sampled = (
            log_probs,
            reference,
            values,
            torch.arange(width) < lengths[:, None],
            reward,
            finished,
        )
        return items, sampled, figures(*sampled, entropy, self.recipe)

    # The optimiser: a critic of its own has a rate and a gradient norm of its own, as where it is
    # another trainer's

    def create_optimizer(self, model=None):
        super().create_optimizer(model)
        critics = {id(p) for part in self.model.model.own()[1:] for p in part}
        for group in list(self.optimizer.param_groups) if critics else ():
            theirs = [p for p in group["params"] if id(p) in critics]
            group["params"] = [p for p in group["params"] if id(p) not in critics]
            self.optimizer.add_param_group(
                {**group, "params": theirs, "lr": group["lr"] * self.recipe.critic_rate}
            )
        return self.optimizer

    def _clip_grad_norm(self, model):
        norms = [
            nn.utils.clip_grad_norm_(part, self.recipe.clip) for part in self.model.model.own()
        ]
        if not all(math.isfinite(norm) for norm in norms):
            raise FloatingPointError(
                f"the gradient's norm is not finite at step {self.state.global_step + 1}: {norms}"
            )
        self.stats["critic gradient"] = float(norms[-1])
        return norms[0]

    # What is logged and kept

    def log(self, logs, start_time=None):
        if "loss" in logs:
            *sums, number = self.accelerator.reduce(self.tally.to(self.args.device)).tolist()
            self.tally.zero_()
            logs = (
                logs
                | self.stats
                | dict(zip(TALLY, [*(x / max(1.0, number) for x in sums), number], strict=True))
            )
        super().log(logs, start_time)

    def validated(self) -> dict[str, float]:
        *_, stats = self._sampled(self.validation, -1)
        return {"loss": -stats["penalised reward"]} | stats


# What names a run besides its `Recipe`.
OWN = (
    "buffer",
    "passes",
    "kl_weight",
    "kl_form",
    "gamma",
    "lam",
    "ratio_clip",
    "value_clip",
    "normalise",
    "value_weight",
    "critic_rate",
    "max_new_tokens",
    "temperature",
    "top_p",
    "n_samples",
    "unfinished",
    "weigh",
)


def fit_rounds(
    model: ActorCritic,
    prompts: Sequence[Item],
    sample: Sampler,
    reference: nn.Module | None,
    recipe: PPO,
    parent: Path,
    *,
    validation: Sequence[Item] = (),
    **options,
) -> TrainingResult:
    """Train the policy of `model` in place; with `validation` prompts it ends with its best weights
    by their reward.

    prompts: as `as_items` makes them. sample: samples responses, as `sampling` makes one.
    reference: the policy that the KL is counted from, frozen; None: the policy without its
    adapters. recipe: batch in prompts, steps. validation prompts are answered every
    `validate_every` steps, always with the same random numbers, and judged by their penalised
    reward. options: about and callbacks of `fit`. The result's folder holds what one of
    `trainer.fit` holds, and the samples of each round. Paper: section 4.4. Raises as `fit`, and
    ValueError where rounds are not whole or there is nothing to refer to.
    """
    if recipe.fsdp:
        raise ValueError(
            "sampling needs whole weights in every process: PPO does not run with fsdp=True"
        )
    if reference is not None:
        reference.requires_grad_(False)
    elif not model.policy.adapter:
        raise ValueError(
            "expected a reference, or a policy with adapters, which is its own reference without them"
        )
    if recipe.checkpointing and model.critic is not None:
        model.critic.gradient_checkpointing_enable({"use_reentrant": False})
    tally = torch.zeros(len(TALLY), dtype=torch.float64)  # [5]
    made = partial(PPOTrainer, sample=sample, reference=reference, tally=tally)
    # What names a run besides its prompts and the rest of the recipe.
    named = {"ppo": {name: getattr(recipe, name) for name in OWN}, "critic": model.kind}
    options["about"] = named | options.get("about", {})
    return fit(
        model,
        prompts,
        validation,
        objective(recipe, tally),
        recipe,
        parent,
        trainer=made,
        **options,
    )
