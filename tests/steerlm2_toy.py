"""Nine answers of two tokens, of which everything about SteerLM 2.0 is known exactly.

A policy has twelve parameters: the logits of the first token, and of the second one given it.
"""

import pandas as pd
import torch

from hs2lib.align import steerlm2
from hs2lib.engine import chat
from hs2lib.train import losses

SEED = 0
EQUATIONS = {8: False, 11: True}  # whether it has the baseline b'

answers_of_two = torch.cartesian_prod(torch.arange(3), torch.arange(3))  # [9, 2]


def log_optimum(log_attributes, log_prior):
    """log P(y|a,x) of all answers. Equation 1: here the sum over them can be taken."""
    return (log_attributes + log_prior).log_softmax(-1)


def log_policy(theta, temperature=1.0):
    """log Q_theta(y) [9] of theta [12]."""
    first = (theta[:3] / temperature).log_softmax(-1)  # [3]
    second = (theta[3:].view(3, 3) / temperature).log_softmax(-1)  # [3, 3]
    return first[answers_of_two[:, 0]] + second[answers_of_two[:, 0], answers_of_two[:, 1]]


def random_theta(seed):
    """Random parameters [12] of a policy."""
    draws = torch.Generator().manual_seed(seed)
    return 0.7 * torch.randn(12, generator=draws, dtype=torch.float64)


_target = torch.tensor(chat.parse_label(steerlm2.TARGET)).long()  # [A]
_draws = torch.Generator().manual_seed(SEED)
_off = 1.5 * torch.rand(9, len(_target), generator=_draws, dtype=torch.float64) - 0.75  # [9, A]
_by_level = losses.attribute_log_probs((_target + _off).clamp(0, 4))  # [9, A, 5]
log_a = losses.target_log_prob(_by_level, _target)  # log P(a|x,y) [9]
log_p = log_policy(random_theta(SEED + 1))  # log P(y|x) [9]


def kl(theta):
    """KL(P(y|a,x) || Q_theta(y|a,x)), nats: equation 2 for one prompt."""
    optimum = log_optimum(log_a, log_p)  # [9]
    return (optimum.exp() * (optimum - log_policy(theta))).sum()


def sample(log_q, groups, n, seed):
    """Numbers of answers [groups, n], drawn from a distribution [9]."""
    draws = torch.Generator().manual_seed(seed)
    numbers = torch.multinomial(log_q.exp(), groups * n, replacement=True, generator=draws)
    return numbers.view(groups, n)


def estimates(theta, log_sampler, y, baseline=True):
    """The gradient of each group of samples y, [groups, 12]: equation 11, or 8 without b'."""
    weight = losses.steerlm2_targets(log_a[y], log_p[y], log_sampler[y]).exp()  # w' [groups, n]
    if baseline:
        weight = weight - losses.steerlm2_policy(log_policy(theta)[y], log_sampler[y]).exp()
    by_answer = weight.new_zeros(len(y), 9).scatter_add(1, y, weight)  # [groups, 9]
    return -by_answer @ torch.func.jacrev(log_policy)(theta)  # grad log Q_theta is [9, 12]


def variances(theta, sizes, groups):
    """The variance of the estimate of one group of n samples of Q_theta, by n and equation."""
    rows = {}
    for n in sizes:
        y = sample(log_policy(theta), groups, n, SEED)
        for equation, baseline in EQUATIONS.items():
            gradients = estimates(theta, log_policy(theta), y, baseline)
            rows[n, equation] = gradients.var(0).sum().item()
    return pd.Series(rows)


def descend(theta, steps, n=10, baseline=True, temperature=1.0):
    """The KL before and after each step of gradient descent, by 64 new groups of samples a step."""
    log_sampler = log_policy(theta)  # Q' is the policy at the start
    proposal = log_policy(theta, temperature)
    theta = theta.clone()
    values = [kl(theta).item()]
    for step in range(steps):
        y = sample(proposal, 64, n, SEED + step)
        theta -= 0.5 * estimates(theta, log_sampler, y, baseline).mean(0)
        values.append(kl(theta).item())
    return values
