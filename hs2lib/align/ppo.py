"""PPO: the one trainer on responses that the policy samples while it is trained.

    goodness = standardised(reward_model, rated_groups, weights)          # one output, mean 0 and SD 1 on them
    model = ActorCritic(policy, goodness, critic="separate")              # the critic starts as the reward model
    prompts, left_out = fitting(policy, groups, recipe.max_new_tokens)
    sample = sampling(prompts, goodness, recipe)
    result = train(model, as_items(policy, prompts), sample, reference, recipe, parent)
    frame = rounds(result.history)                                        # also in result.folder / "rounds.csv"

A trainer that minimises a loss on fixed items and one that samples its items differ in one place: where a batch is
fetched. So this is `trainer.fit` with a trainer that fills in the items of a round there. Micro-batches, exact scale,
processes, the optimiser, checkpoints and going on after a kill are the trainer's own. A checkpoint only ever lies
between rounds, so nothing of a buffer has to be kept. Paper: section 4.4.
"""

import copy
import json
import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from accelerate.utils import gather_object
from torch import nn

from hs2lib.align import ppo_rounds
from hs2lib.align.ppo_rounds import Rounds, figures, rounds
from hs2lib.engine import attention, trees
from hs2lib.engine.chat import prompt_tokens
from hs2lib.engine.rollout import fitted, rollouts
from hs2lib.group import Group, Response
from hs2lib.models.backbones import width
from hs2lib.models.export import fold
from hs2lib.names import one_of
from hs2lib.paths import write
from hs2lib.train.items import Item
from hs2lib.train.objectives import over_vocabulary
from hs2lib.train.recipes import PPO
from hs2lib.train.trainer import GroupTrainer, TrainingResult, fit


def standardised(model, rated: Sequence, weights: Sequence[float], **options):
    """The reward of PPO: goodness minus its mean, over its SD, on rated responses, folded into a one-output model.

    Paper: section 4.4 ("taking away the mean of the HelpSteer2 responses and dividing it by its standard deviation").
    rated: the groups whose responses set mean and SD; weights [A]; options go to `RewardModel.score`. Both are folded
    into the head, so that the critic, which starts as this model, begins on the scale of the rewards.
    """
    goodness = model.score(rated, **options).double().cpu() @ torch.tensor(weights, dtype=torch.float64)
    goodness = goodness[~goodness.isnan()]  # without refused responses
    return fold(model, weights, mean=goodness.mean().item(), sd=goodness.std(correction=0).item())


class ActorCritic(nn.Module):
    """A policy and a value V(x, y_<t) of each state, started from a reward model with one output.

    Paper: section 4.4 (the critic's start is the reference code's). critic: "separate", a copy of the reward model
    whose head reads every state instead of the last; or "shared", a head on the policy's own states that starts at 0,
    the mean of standardised rewards (the reward model's head says nothing about another model's states).
    A policy with adapters gets a critic with adapters like its own. Raises ValueError where a separate critic could not
    read the policy's tokens, or the reward model has several outputs.
    """

    attributes = ()  # to the trainer this is a policy

    def __init__(self, policy: nn.Module, reward_model: nn.Module, critic: str = "separate"):
        super().__init__()
        if len(reward_model.attributes) != 1:
            what = f"expected a reward model of one output, got {reward_model.attributes}"
            raise ValueError(f"{what}: fold them into one")
        one_of("critic", critic, ("separate", "shared"))
        self.policy, self.kind = policy, critic
        if critic == "shared":
            self.critic, self.head = None, nn.Linear(width(policy.backbone), 1)
            nn.init.zeros_(self.head.weight)
            nn.init.zeros_(self.head.bias)
            return
        vocabularies = [m.tokenizer and m.tokenizer.get_vocab() for m in (policy, reward_model)]
        if vocabularies[0] != vocabularies[1]:
            raise ValueError('policy and reward model have different tokens, so the critic cannot be a model of its '
                             'own: use critic="shared"')  # fmt: skip
        copied = copy.deepcopy(reward_model).requires_grad_(True)
        if copied.adapter:
            copied.merge()
        if policy.adapter:
            copied.lora(*(policy.adapter[key] for key in ("r", "lora_alpha", "lora_dropout", "target_modules")))
        self.critic, self.head = copied.backbone, copied.head

    def __getattr__(self, name):
        # What the trainer asks of a model (its backbone, what it came from) is the policy's.
        if name in ("backbone", "base", "revision", "template", "max_tokens", "adapter"):
            return getattr(self.policy, name)
        return super().__getattr__(name)

    def forward(self, batch, width: int) -> torch.Tensor:
        """Log-probability, value and entropy of each sampled token, float32 [R, 3 width], 0 behind a response's end.

        The entropy is that of the whole vocabulary where its token was sampled; it is for the log, and 0 where
        gradients are wanted.
        """
        hidden = attention.states(self.policy.backbone, batch)  # [T, H]
        read = hidden if self.critic is None else attention.states(self.critic, batch)  # [T, H]
        log_probs = attention.log_probs(self.policy.backbone, batch, hidden)  # [P]
        with torch.autocast(read.device.type, enabled=False):
            values = self.head(attention.predicting_states(batch, read).float())[:, 0]  # [P]
        grad = torch.is_grad_enabled()
        entropy = torch.zeros_like(values) if grad else over_vocabulary(self.policy.backbone, batch, hidden, entropies)
        return rows(torch.stack([log_probs, values, entropy]), batch, width).flatten(1)  # [R, 3 width]

    def own(self) -> list[list[nn.Parameter]]:
        """The parameters of the policy and, where they are others, those of a critic of its own."""
        if self.critic is None:
            return [list(self.parameters())]
        return [list(self.policy.parameters()), [*self.critic.parameters(), *self.head.parameters()]]


def rows(x: torch.Tensor, batch: trees.Batch, width: int) -> torch.Tensor:
    """x [k, P] of predicted tokens as [R, k, width]: each response's from column 0 on, 0 behind its end."""
    owner = batch.owner.to(x.device)  # [P]
    number = torch.bincount(owner, minlength=len(batch.end))  # [R], tokens of each response
    if int(number.max()) > width:
        raise ValueError(f"a response has {int(number.max())} tokens, expected at most {width}")
    column = torch.arange(len(owner), device=x.device) - (number.cumsum(0) - number)[owner]  # [P]
    places = owner * width + column  # [P]
    return x.new_zeros(len(x), len(number) * width).index_copy(1, places, x).unflatten(1, (-1, width)).transpose(0, 1)


def entropies(logits: torch.Tensor) -> torch.Tensor:
    """Entropy over the vocabulary, nats: [C] of logits [C, V]. Paper: silent (the reference code logs it)."""
    log_p = logits.log_softmax(-1)
    return -(log_p.exp() * log_p).sum(-1)


@contextmanager
def without_adapters(model: nn.Module):
    """The model as it was before adapters were put in: what they learn is switched off inside."""
    from peft.tuners.tuners_utils import BaseTunerLayer

    layers = [module for module in model.modules() if isinstance(module, BaseTunerLayer)]
    try:
        for layer in layers:
            layer.enable_adapters(False)
        yield
    finally:
        for layer in layers:
            layer.enable_adapters(True)


# What names a run besides its `Recipe`.
OWN = ("buffer", "passes", "kl_weight", "kl_form", "gamma", "lam", "ratio_clip", "value_clip", "normalise",
       "value_weight", "critic_rate", "max_new_tokens", "temperature", "top_p", "n_samples", "unfinished")  # fmt: skip

# (the policy, ids of prompts, number of the round or -1 for validation) -> for each, in that order, a group of
# `Sample`s, each labelled with its reward
Sampler = Callable[[nn.Module, Sequence[str], int], list[Group]]


def sampling(groups: Sequence[Group], reward_model, recipe: PPO) -> Sampler:
    """Samples responses of the policy and scores them by the reward model: the `sample` of `train`.

    Paper: section 4.4 (rollouts; the reference code samples at temperature 1 from all tokens). groups: all prompts that
    will be asked for, those of validation too. A sample depends on the seed, the round, its prompt's id and the policy
    alone.
    """
    by_id = {group.id: group for group in groups}
    if len(by_id) < len(groups):
        raise ValueError(f"{len(groups)} prompts share {len(by_id)} ids: samples are seeded by them")
    reward_model.requires_grad_(False).eval()
    names = ("max_new_tokens", "temperature", "top_p", "autocast")
    options = {name: getattr(recipe, name) for name in names} | {"n": recipe.n_samples, "progress": False}

    def sample(policy, ids: Sequence[str], round: int) -> list[Group]:
        if not ids:
            return []
        seed = int(np.random.SeedSequence((recipe.seed, round + 1)).generate_state(1)[0])
        # Nothing of a round is kept on disk before it is whole: samples finished beside others differ by rounding.
        sampled = rollouts(policy, [by_id[i] for i in ids], seed=seed, **options)
        rewards = iter(reward_model.score(sampled, autocast=recipe.autocast)[:, :1].tolist())
        return [replace(g, responses=tuple(replace(s, labels=next(rewards)) for s in g.responses)) for g in sampled]

    return sample


def fitting(policy, groups: Iterable[Group], max_new_tokens: int) -> tuple[list[Group], list[str]]:
    """The prompts that leave room for a response, without their oldest turns where need be, and the ids of the others.

    Paper: silent. Responses are dropped: PPO uses the prompts only.
    """
    bare = [replace(group, responses=(Response("", ""),), preference=None, preferences=()) for group in groups]
    out, left_out = [], []
    for group in bare:
        try:
            out.append(replace(group, prompt=fitted(policy, group, max_new_tokens, **policy.written)))
        except ValueError:
            left_out.append(group.id)
    return out, left_out


def as_items(policy, prompts: Sequence[Group]) -> list[Item]:
    """The prompts as items for `train`: their tokens, and no targets."""
    tokens = [prompt_tokens(group.prompt, policy.tokenizer, **policy.written) for group in prompts]
    empty = np.zeros((1, 0), np.float32)
    return [Item(group.id, (ids,), empty, (len(ids),)) for group, ids in zip(prompts, tokens, strict=True)]


def as_row(group: Group) -> dict:
    """A prompt's samples as a line of the run's `samples/`."""
    samples = group.responses
    row = {"id": group.id, "texts": [s.text for s in samples], "responses": [s.tokens for s in samples]}
    return row | {"finished": [s.finished for s in samples], "rewards": [s.labels[0] for s in samples]}


class PPOTrainer(GroupTrainer):
    """The trainer that samples its items: a batch's prompts come from the loader, their responses from the round."""

    def __init__(self, *arguments, sample: Sampler, reference: nn.Module | None, tally: dict):
        super().__init__(*arguments)
        self.sample, self.tally = sample, tally
        self.reference = reference.to(self.args.device).eval() if reference is not None else None
        self.round: dict[str, Item] = {}
        self.stats: dict[str, float] = {}
        share = self.args.process_index, self.args.world_size
        self.rounds = Rounds([item.id for item in self.items], self.recipe, self.steps, *share)

    def get_train_dataloader(self):
        return torch.utils.data.DataLoader(self.items, batch_sampler=self.rounds, collate_fn=list)

    def get_batch_samples(self, epoch_iterator, num_batches, device):
        # Here and not in the loader: what runs ahead of the optimiser's step would be sampled by the weights before it.
        asked = [next(epoch_iterator) for _ in range(num_batches)]
        round, within = divmod(self.state.global_step, self.rounds.length)
        if not within:
            self._fill(round)
        batches = [[self.round[item.id] for item in items] for items in asked]
        return batches, self._get_num_items_in_batch(batches, device)

    def _fill(self, round: int) -> None:
        prompts = [self.items[i] for i in self.rounds.prompts(round)]
        items, sampled, stats = self._sampled(prompts, round)
        self.stats = {"round": round} | stats
        targets = ppo_rounds.targets(*sampled, self.recipe).flatten(1).numpy()  # [R, 5 W]
        cuts = np.cumsum([len(item.sequences) for item in items])[:-1]
        parts = zip(items, np.split(targets, cuts), strict=True)
        self.round = {item.id: replace(item, targets=part) for item, part in parts}

    def _sampled(self, prompts: Sequence[Item], round: int) -> tuple:
        """Items of their samples, the arguments of `targets`, and figures to log."""
        self.model.eval()
        policy, width = self.model.model.policy, self.recipe.max_new_tokens
        groups = self._shared(prompts, lambda mine: self.sample(policy, [item.id for item in mine], round))
        if self.args.should_save and round >= 0:
            lines = (json.dumps(as_row(group), ensure_ascii=False) + "\n" for group in groups)
            write(self.folder / "samples" / f"round-{round:04d}.jsonl", "".join(lines))
        items = []
        for item, group in zip(prompts, groups, strict=True):
            sequences = tuple([*item.sequences[0], *sample.tokens] for sample in group.responses)
            targets = np.zeros((len(sequences), 0), np.float32)
            items.append(Item(item.id, sequences, targets, item.starts * len(sequences)))
        samples = [sample for group in groups for sample in group.responses]
        outputs, _, _ = self.outputs_of(items)
        log_probs, values, entropy = outputs.unflatten(1, (3, -1)).unbind(1)  # [R, W] each
        lengths = torch.tensor([len(sample.tokens) for sample in samples])
        tokens = torch.arange(width) < lengths[:, None]  # [R, W]
        reference = torch.stack(self._shared(items, self._referred))
        reward = torch.tensor([sample.labels[0] for sample in samples])
        finished = torch.tensor([sample.finished for sample in samples])
        sampled = log_probs, reference, values, tokens, reward, finished
        return items, sampled, figures(*sampled, entropy, self.recipe)

    def _referred(self, items: Sequence[Item]) -> list[torch.Tensor]:
        """The reference's log-probabilities [W] of each response."""
        if not items:
            return []
        own, width = self.model.model.policy, self.recipe.max_new_tokens
        model = own if self.reference is None else self.reference
        with attention.computing(model, self.recipe.autocast), without_adapters(own):
            return list(attention.in_order(
                lambda batch: rows(attention.log_probs(model.backbone, batch)[None], batch, width)[:, 0],
                [item.sequences for item in items], self.recipe.budget, predict=[item.starts for item in items],
            ))  # fmt: skip

    def _shared(self, things: Sequence, function: Callable) -> list:
        """function(things), one process's part of the things each, put together for all."""
        mine = self.args.process_index
        own = [len(things) * p // self.args.world_size for p in (mine, mine + 1)]
        return gather_object(function(things[slice(*own)]))

    # The optimiser: a critic of its own has a rate and a gradient norm of its own, as where it is another trainer's

    def create_optimizer(self, model=None):
        super().create_optimizer(model)
        critics = {id(p) for part in self.model.model.own()[1:] for p in part}
        for group in list(self.optimizer.param_groups) if critics else ():
            theirs = [p for p in group["params"] if id(p) in critics]
            group["params"] = [p for p in group["params"] if id(p) not in critics]
            self.optimizer.add_param_group({**group, "params": theirs, "lr": group["lr"] * self.recipe.critic_rate})
        return self.optimizer

    def _clip_grad_norm(self, model):
        norms = [nn.utils.clip_grad_norm_(part, self.recipe.clip) for part in self.model.model.own()]
        if not all(math.isfinite(norm) for norm in norms):
            raise FloatingPointError(f"the gradient's norm is not finite at step {self.state.global_step + 1}: {norms}")
        self.stats["critic gradient"] = float(norms[-1])
        return norms[0]

    # What is logged and kept

    def log(self, logs, start_time=None):
        if "loss" in logs:
            sums = torch.tensor([self.tally.get(name, 0.0) for name in ppo_rounds.TALLY], dtype=torch.float64)
            sums = self.accelerator.reduce(sums.to(self.args.device)).tolist()
            self.tally.clear()
            means = {name: x / max(1.0, sums[-1]) for name, x in zip(ppo_rounds.TALLY, sums[:-1], strict=False)}
            logs = logs | self.stats | means | {ppo_rounds.TALLY[-1]: sums[-1]}
        super().log(logs, start_time)
        if self.args.should_save and "loss" in logs:
            write(self.folder / "rounds.csv", rounds(self.state.log_history).to_csv(index=False))

    def validated(self) -> dict[str, float]:
        *_, stats = self._sampled(self.validation, -1)
        return {"loss": -stats["penalised reward"]} | stats


def train(
    model: ActorCritic, prompts, sample: Sampler, reference, recipe: PPO, parent: Path, *, validation=(), **options
) -> TrainingResult:
    """Train the policy of `model` in place; with `validation` prompts it ends with its best weights by their reward.

    prompts: as `as_items` makes them. sample: samples responses, as `sampling` makes one. reference: the policy that
    the KL is counted from, frozen; None: the policy without its adapters. recipe: batch in prompts, steps. validation
    prompts are answered every `validate_every` steps, always with the same random numbers, and judged by their
    penalised reward. options: about and callbacks of `fit`. The result's folder holds what one of `trainer.fit` holds,
    and rounds.csv, a line for each round so far. Paper: section 4.4. Raises as `fit`, and ValueError where rounds are
    not whole or there is nothing to refer to.
    """
    if reference is None and not model.policy.adapter:
        raise ValueError("expected a reference, or a policy with adapters, which is its own reference without them")
    if recipe.fsdp:
        raise ValueError("sampling needs whole weights in every process: PPO does not run with fsdp=True")
    if reference is not None:
        reference.requires_grad_(False)
    if recipe.checkpointing and model.critic is not None:
        model.critic.gradient_checkpointing_enable({"use_reentrant": False})
    tally: dict[str, float] = {}
    made = partial(PPOTrainer, sample=sample, reference=reference, tally=tally)
    objective = ppo_rounds.objective(recipe, tally)
    # What names a run besides its prompts and the rest of the recipe. A policy is named by the weights it starts with.
    named = {"ppo": {name: getattr(recipe, name) for name in OWN}, "critic": model.kind}
    options["about"] = named | {"start": model.policy.fingerprint()} | options.get("about", {})
    return fit(model, prompts, validation, objective, recipe, parent, trainer=made, **options)
