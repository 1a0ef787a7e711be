"""PPO's model: a policy and a critic that starts as the reward model, and what both say of each sampled token."""

import copy
from collections.abc import Sequence
from contextlib import contextmanager

import torch
from torch import nn

from hs2lib import groups
from hs2lib.export import fold


def standardised(model, rated: Sequence, weights: Sequence[float], **options):
    """The reward of PPO: goodness less its mean, over its SD, on given responses, folded into a one-output model.

    Paper: section 4.4 ("taking away the mean of the HelpSteer2 responses and dividing it by its standard deviation").
    rated: the groups whose responses give mean and SD; weights [A]; options go to `RewardModel.score`. Folded into the
    head, so that the critic, which starts as this model, begins on the scale of the rewards.
    """
    goodness = model.score(rated, **options).double().cpu() @ torch.tensor(weights, dtype=torch.float64)
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
            raise ValueError(f"one output is due, the reward model has {reward_model.attributes}: fold them into one")
        if critic not in ("separate", "shared"):
            raise ValueError(f'critic is "separate" or "shared", got {critic!r}')
        self.policy, self.kind = policy, critic
        if critic == "shared":
            self.critic, self.head = None, nn.Linear(policy.backbone.config.hidden_size, 1)
            nn.init.zeros_(self.head.weight)
            nn.init.zeros_(self.head.bias)
            return
        vocabularies = [m.tokenizer and m.tokenizer.get_vocab() for m in (policy, reward_model)]
        if vocabularies[0] != vocabularies[1]:
            raise ValueError('policy and reward model have different tokens: a critic of its own is not to be had, '
                             'use critic="shared"')  # fmt: skip
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
        hidden = groups.states(self.policy.backbone, batch)
        read = hidden if self.critic is None else groups.states(self.critic, batch)
        log_probs = groups.log_probs(self.policy.backbone, batch, hidden)
        with torch.autocast(read.device.type, enabled=False):
            values = self.head(groups.predicting_states(batch, read).float())[:, 0]
        grad = torch.is_grad_enabled()
        entropy = torch.zeros_like(values) if grad else token_entropy(self.policy.backbone, batch, hidden)
        return rows(torch.stack([log_probs, values, entropy]), batch, width).flatten(1)

    def own(self) -> list[list[nn.Parameter]]:
        """The parameters of the policy and, where they are others, those of a critic of its own."""
        if self.critic is None:
            return [list(self.parameters())]
        return [list(self.policy.parameters()), [*self.critic.parameters(), *self.head.parameters()]]


def rows(x: torch.Tensor, batch: groups.Batch, width: int) -> torch.Tensor:
    """x [k, P] of predicted tokens as [R, k, width]: each response's from column 0 on, 0 behind its end."""
    owner = batch.owner.to(x.device)
    number = torch.bincount(owner, minlength=len(batch.end))
    if int(number.max()) > width:
        raise ValueError(f"a response has {int(number.max())} tokens, at most {width} were to be sampled")
    column = torch.arange(len(owner), device=x.device) - (number.cumsum(0) - number)[owner]
    places = owner * width + column
    return x.new_zeros(len(x), len(number) * width).index_copy(1, places, x).unflatten(1, (-1, width)).transpose(0, 1)


def token_entropy(model: nn.Module, batch: groups.Batch, hidden: torch.Tensor, chunk: int = 512) -> torch.Tensor:
    """Entropy over the vocabulary, nats, float32 [P], where each token of `batch.node` is predicted; without gradients.

    Paper: silent (the reference code logs it). hidden: the states [T, H] of the batch; chunk: states at a time.
    """
    decoder = model.get_base_model() if hasattr(model, "get_base_model") else model
    head, out = decoder.get_output_embeddings(), []
    parents, inverse = batch.parent[batch.node].to(hidden.device).unique(return_inverse=True)
    with torch.no_grad():
        for part in hidden[parents].split(chunk):
            log_p = head(part).float().log_softmax(-1)
            out.append(-(log_p.exp() * log_p).sum(-1))
    return torch.cat(out)[inverse]


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
