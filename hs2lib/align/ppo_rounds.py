"""Rounds of PPO: the prompts of each, rewards and targets of every sampled token, losses, curves.

A round is one rollout buffer: the policy answers `buffer` prompts, and the optimiser then goes over the answers.
Letters: R responses, T tokens of the longest of them, W the most tokens that may be sampled.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure
from torch import Tensor

from hs2lib.names import CUT_OFF, one_of
from hs2lib.train import losses
from hs2lib.train.items import order
from hs2lib.train.objectives import Objective
from hs2lib.train.recipes import PPO

TALLY = ("policy loss", "value loss", "clip fraction", "ratio off 1", "tokens trained")


class Rounds:
    """Which prompts each round answers, and in which batches the optimiser goes over them.

    Every epoch over the prompts has an order of its own that follows from (seed, epoch) and the ids; what is left over
    at its end, fewer than a buffer, waits for the next. Iterating gives one process's share of each batch, positions.
    """

    def __init__(self, ids: Sequence[str], recipe: PPO, steps: int, process: int = 0, processes: int = 1):
        if recipe.buffer % recipe.batch:
            raise ValueError(f"a buffer of {recipe.buffer} is no whole number of batches of {recipe.batch} prompts")
        if len(ids) < recipe.buffer:
            raise ValueError(f"{len(ids)} prompts do not fill a buffer of {recipe.buffer}")
        self.ids, self.recipe, self.steps = ids, recipe, steps
        self.batches = recipe.buffer // recipe.batch
        self.length = self.batches * recipe.passes  # steps of a round
        self.process, self.size = process, recipe.batch // (processes * recipe.accumulation)
        self.stride = self.size * processes
        whole = {"save_every": recipe.save_every, "steps": steps}
        if bad := next((name for name, value in whole.items() if value % self.length), None):
            # Between rounds nothing of a buffer is needed to go on, and a finished run has used all it sampled.
            raise ValueError(f"{bad} is a multiple of the {self.length} steps of a round, got {whole[bad]}")

    def prompts(self, round: int) -> list[int]:
        """Positions of the prompts that a round answers."""
        epoch, part = divmod(round, len(self.ids) // self.recipe.buffer)
        start = epoch * len(self.ids) + part * self.recipe.buffer
        return list(islice(order(self.ids, self.recipe.seed), start, start + self.recipe.buffer))

    def __len__(self) -> int:
        return self.steps * self.recipe.accumulation

    def __iter__(self) -> Iterator[list[int]]:
        for step in range(self.steps):
            round, within = divmod(step, self.length)
            once, part = divmod(within, self.batches)
            shuffled = np.random.default_rng((self.recipe.seed, round, once)).permutation(self.prompts(round))
            together = shuffled[part * self.recipe.batch : (part + 1) * self.recipe.batch].tolist()
            for start in range(0, self.recipe.batch, self.stride):
                mine = start + self.process * self.size
                yield together[mine : mine + self.size]


def token_kl(policy: Tensor, reference: Tensor, form: str = "absolute") -> Tensor:
    """The KL penalty of each sampled token, same shape as both: |d|, d or exp(-d) - 1 + d for d = log pi - log pi_ref.

    Paper: section 4.4 (a penalty whose form it does not print; "absolute" is the reference code's). policy, reference:
    log-probabilities [R, T]. In expectation over the policy's samples "plain" is the KL, and so is "k3" of each token,
    which is never negative; "absolute" is larger. As a reward they differ more: only "plain" rewards a token for being
    less likely than it was, and so only with it is the optimum the reference tilted by exp(reward / weight). With the
    other two what has become unlikely is pushed further down; they hold back what becomes more likely.
    """
    one_of("kl_form", form, ("absolute", "plain", "k3"))
    difference = policy - reference
    if form == "absolute":
        return difference.abs()
    return difference if form == "plain" else torch.expm1(-difference) + difference


def token_rewards(reward: Tensor, kl: Tensor, mask: Tensor, weight: float) -> Tensor:
    """Rewards [R, T] of tokens: -weight x KL of each, and the response's reward [R] besides at its last one.

    Paper: section 4.4 (where the two stand is the reference code's). kl [R, T]; mask: bool [R, T], each row's tokens.
    """
    out = torch.where(mask, -weight * kl, 0.0)  # [R, T]
    last = mask.sum(1).sub(1).clamp(min=0)[:, None]  # [R, 1], each row's last token
    return out.scatter_add(1, last, torch.where(mask.any(1), reward, 0.0)[:, None])


def targets(
    sampler: Tensor, reference: Tensor, values: Tensor, tokens: Tensor, reward: Tensor, finished: Tensor, recipe: PPO
) -> Tensor:
    """Targets of the loss, float32 [R, 5, T]: log-probability when sampled, advantage, value, return, counted.

    sampler, reference, values: [R, T] when sampled; tokens: bool [R, T], each row's tokens; reward, finished: [R]. A
    response that did not end counts nowhere (its reward is of a text that the policy did not close), unless
    `unfinished` is "keep"; nor does one without a reward (nan: the reward model refused it). Advantages are normalised
    over the tokens that count. Paper: section 4.4 (advantages, normalisation and what is left out are the reference
    code's). Raises ValueError for an unknown `unfinished`.
    """
    one_of("way with unfinished answers", recipe.unfinished, CUT_OFF)
    refused, reward = reward.isnan(), reward.nan_to_num()
    rewards = token_rewards(reward, token_kl(sampler, reference, recipe.kl_form), tokens, recipe.kl_weight)
    advantage, returns = losses.advantages(rewards, values, tokens, gamma=recipe.gamma, lam=recipe.lam)
    counted = tokens & (finished.bool() if recipe.unfinished == "drop" else tokens.any(1))[:, None] & ~refused[:, None]
    if recipe.normalise:
        advantage = losses.normalised(advantage, counted)
    return torch.stack([sampler, advantage, values, returns, counted.float()], 1)


def objective(recipe: PPO, tally: dict | None = None) -> Objective:
    """PPO's losses for the trainer, of an `ActorCritic`'s outputs [R, 3 W] and `targets` as [R, 5 W].

    Both clipped losses are summed over the tokens that count, so the trainer's mean is over those of the whole global
    batch. tally: where the sums of each call are added up by name, for the log. Paper: section 4.4.
    """

    def outputs(model, batch):
        return model(batch, recipe.max_new_tokens)

    def total(outputs, targets, group):
        policy, value, _ = outputs.unflatten(1, (3, -1)).unbind(1)  # [R, W] each
        sampler, advantage, old, returns, counted = targets.unflatten(1, (5, -1)).unbind(1)  # [R, W] each
        mask = counted.bool()
        number = mask.sum()
        policy_loss = losses.ppo_policy_loss(policy, sampler, advantage, mask, clip=recipe.ratio_clip) * number
        value_loss = losses.ppo_value_loss(value, old, returns, mask, clip=recipe.value_clip) * number
        if tally is not None:
            off = torch.where(mask, policy - sampler, 0.0).detach().expm1().abs()
            sums = (policy_loss.detach(), value_loss.detach(), (off > recipe.ratio_clip).sum(), off.sum(), number)
            for name, x in zip(TALLY, sums, strict=True):
                tally[name] = tally.get(name, 0.0) + float(x)
        return policy_loss + recipe.value_weight * value_loss

    def count(targets, group):
        return int(targets.unflatten(1, (5, -1))[:, 4].sum())

    return Objective("PPO", total, count, outputs, log_probs=True)


NAMES = ("reward", "kl", "penalty", "penalised reward", "length", "finished", "entropy", "explained", "policy loss",
           "value loss", "clip fraction", "ratio off 1", "tokens trained", "grad_norm", "critic gradient")  # fmt: skip


def figures(sampler, reference, values, tokens, reward, finished, entropy, recipe: PPO) -> dict[str, float]:
    """Figures of a round, over all its responses, unfinished ones too; arguments as for `targets`.

    reward; kl, the sampled estimate of KL(policy, reference) of a response, nats; penalty, the KL of `kl_form` of a
    response; penalised reward, reward - weight x penalty; length, tokens; finished, a share; entropy of a token, nats;
    explained, the share of the returns' variance that the values explain.
    """
    spread = token_kl(sampler, reference, recipe.kl_form)
    penalty = torch.where(tokens, spread, 0.0).sum(1).mean()
    raw = replace(recipe, normalise=False)
    _, advantage, _, returns, _ = targets(sampler, reference, values, tokens, reward, finished, raw).unbind(1)
    out = {
        "reward": reward.nanmean(),
        "kl": torch.where(tokens, sampler - reference, 0.0).sum(1).mean(),
        "penalty": penalty,
        "penalised reward": reward.nanmean() - recipe.kl_weight * penalty,
        "length": tokens.sum(1).float().mean(),
        "finished": finished.float().mean(),
        "entropy": entropy[tokens].mean(),
        "explained": 1 - advantage[tokens].var(correction=0) / returns[tokens].var(correction=0).clamp(min=1e-12),
    }
    return {name: float(x) for name, x in out.items()}


def rounds(history: Sequence[dict]) -> pd.DataFrame:
    """A row a round of a run's history: the figures, and the means of the losses over the round's steps.

    Paper: silent (it prints no curve). Losses are per token that gives a gradient: policy loss; value loss; clip
    fraction, the share of tokens whose ratio left 1 +- clip; ratio off 1, the mean of |ratio - 1|, 0 on a first pass.
    """
    frame = pd.DataFrame([entry for entry in history if "policy loss" in entry])
    if not len(frame):
        return pd.DataFrame(columns=["round", "step", *NAMES])
    return frame.groupby("round", as_index=False).agg({"step": "last"} | dict.fromkeys(NAMES, "mean"))


def draw(frame: pd.DataFrame) -> Figure:
    """The curves of `rounds` that say whether the training is sound: KL, length, clip fraction, values."""
    panels = {"kl": "KL from the start, nats a response", "length": "length, tokens"}
    panels |= {"clip fraction": "share of tokens clipped", "explained": "share of returns explained"}
    fig = Figure(figsize=(10, 2.4), layout="constrained")
    for ax, (name, title) in zip(fig.subplots(1, 4), panels.items(), strict=True):
        ax.plot(frame["round"], frame[name], color="#0072b2")
        ax.set(xlabel="round")
        ax.set_title(title, fontsize=9)
    return fig
