"""SteerLM 2.0: train towards P(y|a,x), the answers that have the attributes a by the reward model.

    sampled = rollouts(policy, prompts, n=10, label=target, ...)                # y_i ~ Q'(y|a,x), models.rollout
    weighed = weigh(sampled, policy, sft, reward_model, target, recipe)         # equations 6 and 7
    fit(policy, items(weighed), held_out, steerlm2(), recipe, folder)           # equations 11 and 12

`iterate` does all of it, several times, each time from the policy that the last iteration left. Three models look at
each sampled y: the reward model gives P(a|x,y), the SFT model, which sees no attributes, P(y|x), and the policy that
sampled it, Q'(y|a,x). Paper: section 4.5. What it leaves open is a field of `recipes.SteerLM2`. The formulas are in
`hs2lib.train.losses`. The toy below is a world of nine responses where their results are known exactly.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from hs2lib.engine import attention, chat, trees
from hs2lib.group import Group
from hs2lib.models.policy import Policy, unlabelled
from hs2lib.models.rollout import as_tokens, rollouts
from hs2lib.train import losses, objectives
from hs2lib.train.items import Item
from hs2lib.train.recipes import SteerLM2
from hs2lib.train.trainer import TrainingResult, fit, targets_of

# What names a run besides its `Recipe`.
OWN = ("n_samples", "temperature", "top_p", "max_new_tokens", "concentration", "edges", "clamp", "unfinished",
       "by_length")  # fmt: skip

# The desired attributes. Paper: section 4.5, "Inference Attributes".
TARGET = "helpfulness:4,correctness:4,coherence:4,complexity:2,verbosity:2"


class Weighed(NamedTuple):
    """One prompt's n samples with all that equations 6 and 7 need: four float64 [n], logarithms in nats."""

    read: chat.TokenGroup  # prompt with label, and responses: Q_theta(y|a,x) is computed on these
    attributes: np.ndarray  # log P(a|x,y)
    prior: np.ndarray  # log P(y|x)
    sampler: np.ndarray  # log Q'(y|a,x)
    tokens: np.ndarray  # length of each response

    @property
    def log_weights(self) -> np.ndarray:
        """log w' [n]. Paper: equation 7, of equation 6."""
        three = (torch.from_numpy(x)[None] for x in (self.attributes, self.prior, self.sampler))  # [1, n] each
        return losses.steerlm2_targets(*three)[0].numpy()

    @property
    def effective(self) -> float:
        """The effective number of samples, 1 / sum w'^2, from 1 (one has all the weight) to n. Paper: silent."""
        return float(1 / np.exp(2 * self.log_weights).sum())


def attribute_log_prob(predictions: Tensor, attributes: Sequence[str], target: str, recipe: SteerLM2) -> Tensor:
    """log P(a|x,y) float64 [R] of the target attributes, from predictions [R, A] on the scale 0-4.

    Paper: section 4.5; the product over attributes, as if independent, is ours. attributes: the outputs' names. A
    target may name some of them only; a then consists of those. Raises ValueError for a name that is no output.
    """
    levels = np.array(chat.parse_label(target, attributes))  # [A], nan where not named
    named = np.flatnonzero(~np.isnan(levels))
    if not len(named):
        raise ValueError("the target names no attribute, so there is nothing to steer towards")
    options = {name: getattr(recipe, name) for name in ("concentration", "edges", "clamp")}
    by_level = losses.attribute_log_probs(predictions[:, named.tolist()], **options)  # [R, named, 5]
    return losses.target_log_prob(by_level, torch.from_numpy(levels[named]).long())


def weigh(sampled: Sequence[Group], sampler: Policy, prior: Policy, reward_model, target: str, recipe: SteerLM2,
          **options) -> list[Weighed]:  # fmt: skip
    """The three log-probabilities of every sample of `rollouts`, group by group.

    Paper: section 4.5, equation 6. sampler: Q', the policy that sampled; prior: the SFT model, which sees no label;
    both at temperature 1 and on the tokens that were sampled. The reward model reads the text. Groups with fewer than
    two samples (after `unfinished: drop`, and without refused ones) have no weights to compare and are left out.
    options: budget, autocast and cache of `Policy.log_probs`; with a cache all three are kept as they come, and a
    killed run goes on. Raises ValueError where two tokenizers differ, or no group is left.
    """
    if recipe.unfinished == "drop":
        sampled = [replace(g, responses=tuple(r for r in g.responses if r.finished)) for g in sampled]
    sampled = [group for group in map(reward_model.admitted, sampled) if len(group.responses) > 1]
    if not sampled:
        raise ValueError("no prompt has two samples to weigh against each other")
    labelled = as_tokens(sampler, sampled, target)
    log_q, tokens = sampler.log_probs(labelled, **options)  # [R] each
    log_p, _ = prior.log_probs(unlabelled(prior, sampler, sampled), **options)  # [R]
    log_a = attribute_log_prob(reward_model.score(sampled, **options), reward_model.attributes, target, recipe)
    stops = np.cumsum([len(group.responses) for group in sampled])[:-1]
    parts = (np.split(x.numpy().astype(float), stops) for x in (log_a, log_p, log_q, tokens))
    return [Weighed(*each) for each in zip(labelled, *parts, strict=True)]


def items(weighed: Sequence[Weighed]) -> list[Item]:
    """Items for `objectives.steerlm2`: targets [n, 3] = log w', log Q'(y|a,x), length in tokens."""
    out = []
    for one in weighed:
        targets = np.column_stack([one.log_weights, one.sampler, one.tokens]).astype(np.float32)  # [n, 3]
        out.append(Item(one.read.group.id, one.read.sequences, targets, one.read.starts))
    return out


def table(weighed: Sequence[Weighed]) -> pd.DataFrame:
    """One row a sample: prompt, log P(a|x,y), log P(y|x), log Q'(y|a,x), tokens, finished, weight w'."""
    frames = []
    for one in weighed:
        columns = {"prompt": one.read.group.id, "log P(a|x,y)": one.attributes, "log P(y|x)": one.prior}
        columns |= {"log Q'(y|a,x)": one.sampler, "tokens": one.tokens, "weight": np.exp(one.log_weights)}
        frames.append(pd.DataFrame(columns | {"finished": [sample.finished for sample in one.read.group.responses]}))
    return pd.concat(frames, ignore_index=True)


class Iteration(NamedTuple):
    """One iteration: the weighed samples to train on and to validate by, and the outcome of training."""

    training: list[Weighed]
    validation: list[Weighed]
    result: TrainingResult


def iterate(
    policy, prior, reward_model, prompts, validation, target: str, recipe: SteerLM2, folder: Path, *, callbacks=tuple,
    after=lambda number, policy: None,
) -> list[Iteration]:  # fmt: skip
    """Train the policy in place, one iteration for each list of prompts; returns the outcome of each.

    Paper: section 4.5 (two iterations, "using the optimized policy after each iteration to sample responses and train
    an improved policy"). policy: at first the SteerLM model of notebook 11. prior: the SFT model. prompts: the groups
    of each iteration; validation: groups, or none. Each iteration samples from the policy as
    it stands, also for the validation prompts, on which equation 12's distance is logged and the best step chosen
    (none: the last step's weights stay). With recipe.method "lora" adapters are trained, and merged after each
    iteration. callbacks: a function that makes those of `fit`. after: called with each iteration's number and the
    policy that it left, to save or evaluate it.
    Everything is kept under `folder`, by content: a run that was killed goes on and ends where it would have ended.
    """
    options = {"budget": recipe.budget, "autocast": recipe.autocast}
    sampling = {"n": recipe.n_samples, "temperature": recipe.temperature, "top_p": recipe.top_p, "label": target}
    sampling |= {"max_new_tokens": recipe.max_new_tokens, "autocast": recipe.autocast, "backend": recipe.backend}
    out = []
    for number, these in enumerate(prompts, 1):
        place = Path(folder) / f"iteration-{number}"
        # Random numbers of its own for each iteration: with the same ones a policy that hardly moved samples the same.
        sampling |= {"seed": recipe.seed + number, "file": place / "samples"}
        sampled = [rollouts(policy, part, **sampling) if part else [] for part in (these, validation)]
        judges = (policy, prior, reward_model, target, recipe)
        both = [weigh(groups, *judges, cache=place, **options) if groups else [] for groups in sampled]
        if recipe.method == "lora":
            policy.merge().lora(rank=recipe.lora_rank, alpha=2 * recipe.lora_rank)
        task = (policy, items(both[0]), items(both[1]), objectives.steerlm2(recipe.by_length), recipe)
        about = {"iteration": number, "target": target} | {name: getattr(recipe, name) for name in OWN}
        out.append(Iteration(*both, fit(*task, place, about=about, callbacks=callbacks())))
        policy.merge()
        after(number, policy)
    return out


def distances(policy: Policy, weighed: Sequence[Weighed], **options) -> np.ndarray:
    """The distance of equation 12 for each group, [groups], nats: 0 where the policy is the optimum on it.

    Paper: section 4.5, "We can use this distance to monitor the training progress". options: budget and autocast of
    `Policy.log_probs`.
    """
    log_q, _ = policy.log_probs([one.read for one in weighed], **options)  # [all samples]
    each = objectives.steerlm2_distances(log_q[:, None], *targets_of(items(weighed), "cpu"))
    return np.array([distance.item() for distance, _ in each])


def variances(policy: Policy, groups: Sequence[Weighed]) -> tuple[float, float]:
    """Variance of a group's gradient, summed over all trained weights: by equation 8, and by equation 11.

    Paper: section 4.5 (the baseline b'). groups: two or more of samples for one prompt.
    """
    weights = [weight for weight in policy.parameters() if weight.requires_grad]
    estimates: tuple[list, list] = ([], [])
    for one in groups:
        log_q = attention.response_log_probs(policy, trees.pack([one.read.sequences], [one.read.starts]))[:, 0]  # [n]
        w, sampler = (torch.from_numpy(x).to(log_q)[None] for x in (np.exp(one.log_weights), one.sampler))
        b = losses.steerlm2_policy(log_q.detach()[None], sampler).exp()  # [1, n]
        for kept, coefficient in zip(estimates, (w, w - b), strict=True):
            parts = torch.autograd.grad(-(coefficient[0] * log_q).sum(), weights, retain_graph=True)
            kept.append(torch.cat([part.flatten() for part in parts]))
    return tuple(torch.stack(each).var(0).sum().item() for each in estimates)


ALPHABET = 3

RESPONSES = torch.cartesian_prod(torch.arange(ALPHABET), torch.arange(ALPHABET))  # [9, 2]


class Toy(NamedTuple):
    """Nine responses, two tokens of an alphabet of three: log P(a|x,y) [9] and log P(y|x) [9], float64."""

    attributes: Tensor
    prior: Tensor

    @property
    def optimum(self) -> Tensor:
        """log P(y|a,x) [9]. Paper: equation 1; here the sum over all responses can be taken."""
        return (self.attributes + self.prior).log_softmax(-1)

    def kl(self, theta: Tensor) -> Tensor:
        """KL(P(y|a,x) || Q_theta(y|a,x)), a scalar, nats. Paper: equation 2 for one prompt."""
        return (self.optimum.exp() * (self.optimum - log_policy(theta))).sum()

    def gradient(self, theta: Tensor) -> Tensor:
        """The exact gradient [12] of equation 2 in theta."""
        return torch.func.grad(self.kl)(theta)


def made(seed: int = 0) -> Toy:
    """A toy whose responses are rated at random within 3/4 of the target, under a random SFT model."""
    draw = torch.Generator().manual_seed(seed)
    target = torch.tensor(chat.parse_label(TARGET)).long()  # [A]
    away = 1.5 * torch.rand(len(RESPONSES), len(target), generator=draw, dtype=torch.float64) - 0.75  # [9, A]
    by_level = losses.attribute_log_probs((target + away).clamp(0, 4))  # [9, A, 5]
    return Toy(losses.target_log_prob(by_level, target), log_policy(logits(seed + 1)))


def logits(seed: int, scale: float = 0.7) -> Tensor:
    """Random parameters theta [12] of a policy."""
    draw = torch.Generator().manual_seed(seed)
    return scale * torch.randn(ALPHABET + ALPHABET**2, generator=draw, dtype=torch.float64)


def log_policy(theta: Tensor, temperature: float = 1.0) -> Tensor:
    """log Q_theta(y) [9]: the sum of its two tokens' log-probabilities, each token drawn at this temperature."""
    first = (theta[:ALPHABET] / temperature).log_softmax(-1)  # [3]
    second = (theta[ALPHABET:].view(ALPHABET, ALPHABET) / temperature).log_softmax(-1)  # [3, 3]
    return first[RESPONSES[:, 0]] + second[RESPONSES[:, 0], RESPONSES[:, 1]]


def sample(log_probs: Tensor, groups: int, n: int, seed: int = 0) -> Tensor:
    """Numbers of responses, int64 [groups, n], drawn independently from a distribution [9]."""
    draw = torch.Generator().manual_seed(seed)
    return torch.multinomial(log_probs.exp(), groups * n, replacement=True, generator=draw).view(groups, n)


def estimates(toy: Toy, theta: Tensor, sampler: Tensor, y: Tensor, *, baseline: bool = True) -> Tensor:
    """The estimated gradient [groups, 12] of each group of samples y [groups, n].

    Paper: equation 11, sum_i -(w'_i - b'_i) grad log Q_theta(y_i); baseline=False: equation 8, without b'. sampler:
    log Q'(y|a,x) [9], the denominator of w and b.
    """
    coefficient = losses.steerlm2_targets(toy.attributes[y], toy.prior[y], sampler[y]).exp()  # [groups, n]
    if baseline:
        coefficient = coefficient - losses.steerlm2_policy(log_policy(theta)[y], sampler[y]).exp()
    jacobian = torch.func.jacrev(log_policy)(theta)  # [9, 12], grad log Q_theta(y)
    # One sum of coefficients for each of the nine responses, then nine gradients instead of n.
    return -coefficient.new_zeros(len(y), len(RESPONSES)).scatter_add(1, y, coefficient) @ jacobian


def errors(toy: Toy, theta: Tensor, sizes, groups: int = 100_000, seed: int = 0) -> pd.DataFrame:
    """Bias and variance of the estimate at theta, sampled from Q_theta itself, for each group size n.

    Columns: n, estimator, bias (length of mean - exact, over the exact gradient's length), noise (its standard error),
    variance (of one group's estimate, summed over theta).
    """
    exact, rows = toy.gradient(theta), []
    for n in sizes:
        y = sample(log_policy(theta), groups, n, seed)  # [groups, n]
        for name, baseline in (("equation 8, no baseline", False), ("equation 11, baseline b'", True)):
            each = estimates(toy, theta, log_policy(theta), y, baseline=baseline)  # [groups, 12]
            variance = each.var(0).sum()
            bias, noise = (each.mean(0) - exact).norm() / exact.norm(), (variance / groups).sqrt() / exact.norm()
            rows.append((n, name, bias.item(), noise.item(), variance.item()))
    return pd.DataFrame(rows, columns=["n", "estimator", "bias", "noise", "variance"])


def descend(toy: Toy, theta: Tensor, *, n=10, groups=64, steps=300, rate=0.5, baseline=True, temperature=1.0,
            seed=0) -> list[float]:  # fmt: skip
    """The KL of equation 2 before and after each step of plain gradient descent on the estimate, [steps + 1].

    The samples come from Q', which is theta at the start, drawn afresh for each step at this temperature.
    """
    sampler, proposal, theta = log_policy(theta), log_policy(theta, temperature), theta.clone()
    values = [toy.kl(theta).item()]
    for step in range(steps):
        y = sample(proposal, groups, n, seed + step)  # [groups, n]
        theta -= rate * estimates(toy, theta, sampler, y, baseline=baseline).mean(0)
        values.append(toy.kl(theta).item())
    return values
