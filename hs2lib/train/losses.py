"""Every formula of the paper that is minimised or weighs a sample: pure functions of tensors.

Letters: R responses, P pairs (P tokens in `language_loss`), A attributes, B groups, n responses of
a group, T tokens of a response. Log-probabilities of whole responses are sums over tokens, in
float32 or better, and stay in log space.
"""

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from hs2lib.group import MISSING
from hs2lib.names import one_of


def regression_loss(predictions: Tensor, labels: Tensor) -> Tensor:
    """Squared error over the labelled cells / number of labelled cells, a scalar.

    Paper: section 3, Training (masking as in the reference code). predictions, labels: [R, A], a
    missing label is -100. A trainer that cuts a batch into parts sums the parts and divides by the
    cells of the whole, which a mean of each part does not (`hs2lib.train.objectives`). Raises
    ValueError on a nan label, or where nothing is labelled.
    """
    number = (labels != MISSING).sum()  # []
    if not number:
        raise ValueError(
            f"no cell of the {tuple(labels.shape)} labels is rated: nothing to learn from"
        )
    return squared_errors(predictions, labels).sum() / number


def squared_errors(predictions: Tensor, labels: Tensor) -> Tensor:
    """(prediction - label)^2, float32 or wider [R, A].

    It is 0, and without gradient, where the label is missing (-100).
    """
    _same(predictions=predictions, labels=labels)
    if labels.isnan().any():
        raise ValueError("a label is nan: mark missing labels with -100")
    # where() before squaring, so that a missing cell gives no gradient rather than
    # 0 x (100 + prediction).
    return torch.where(labels != MISSING, _wide(predictions) - labels, 0.0).square()  # [R, A]


def bradley_terry_loss(chosen: Tensor, rejected: Tensor) -> Tensor:
    """Loss [P] of each pair: -log sigma(r_c - r_r). chosen, rejected: [P] rewards.

    Paper: silent (section 3 trains by regression).
    """
    _same(chosen=chosen, rejected=rejected)
    return -F.logsigmoid(chosen - rejected)


def margin_loss(chosen: Tensor, rejected: Tensor, strength: Tensor) -> Tensor:
    """Bradley-Terry with a margin, loss [P]: -log sigma(r_c - r_r - m).

    The rewards shall differ by the strength m and more. Paper: silent. HelpSteer2-Preference
    (arXiv 2410.01257) compares it, and Llama 2 trained by it. Checked against TRL's RewardTrainer.

    Args:
        chosen: [P] rewards of the better responses.
        rejected: [P] rewards of the worse ones.
        strength: [P], how much better each chosen response is: 1, 2 or 3 in HelpSteer2-Preference.

    Raises:
        ValueError: a strength is not positive.
    """
    _check_strength(chosen, rejected, strength)
    return bradley_terry_loss(chosen - strength, rejected)


def scaled_loss(chosen: Tensor, rejected: Tensor, strength: Tensor) -> Tensor:
    """Bradley-Terry scaled by strength, loss [P]: -m log sigma(r_c - r_r).

    A pair of strength 3 counts as three pairs of strength 1. Paper: silent.
    HelpSteer2-Preference (arXiv 2410.01257) trains its best model by it; the reference code divides
    by the number of pairs, not by the sum of strengths.

    Arguments and errors as for `margin_loss`.
    """
    _check_strength(chosen, rejected, strength)
    return strength * bradley_terry_loss(chosen, rejected)


def tie_loss(first: Tensor, second: Tensor) -> Tensor:
    """Loss [P] of two responses that are equally good: half the pair in each order.

    It is -(log sigma(d) + log sigma(-d)) / 2 for a difference d of rewards, the Bradley-Terry loss
    at an equal preference. It is smallest, log 2, where the rewards are equal. Paper: silent. Other
    code keeps a tie as one response against itself, which costs log 2 and teaches nothing.
    first, second: [P] rewards.
    """
    forward = bradley_terry_loss(first, second)  # [P]
    backward = bradley_terry_loss(second, first)  # [P]
    return (forward + backward) / 2


def _check_strength(chosen: Tensor, rejected: Tensor, strength: Tensor) -> None:
    """Raise ValueError for strengths that are not a positive number for each pair."""
    _same(chosen=chosen, rejected=rejected, strength=strength)
    if not (strength > 0).all():
        raise ValueError(
            f"a strength of preference is positive, got {strength.min().item():g}: "
            "put the better response first, and leave ties out or use tie_loss"
        )


def goodness(attributes: Tensor, weights: Tensor, mean: float = 0.0, sd: float = 1.0) -> Tensor:
    """One score [R] of a response: (attributes [R, A] times weights [A] - mean) / sd.

    Paper: section 4.3 (the goodness score of iterative DPO), section 4.4 (PPO's reward, with mean
    and sd over the HelpSteer2 responses), appendix H (RewardBench, with weights of its own).
    """
    if attributes.shape[-1:] != weights.shape:
        raise ValueError(
            f"{tuple(weights.shape)} weights for attributes of shape {tuple(attributes.shape)}"
        )
    return (attributes @ weights - mean) / sd


def language_loss(log_probs: Tensor, number: int | None = None) -> Tensor:
    """Negative log-likelihood / number of tokens, a scalar.

    Paper: section 4.2 (supervised fine-tuning). log_probs: [P] of the trained tokens; or their
    sums, with the number of tokens to divide by.
    """
    if number is None:
        number = log_probs.numel()
    return -log_probs.sum() / number


def implicit_reward(policy: Tensor, reference: Tensor, beta: float) -> Tensor:
    """DPO's reward beta (log pi(y|x) - log pi_ref(y|x)), same shape as both. Paper: section 4.3."""
    _same(policy=policy, reference=reference)
    return beta * (policy - reference)


def dpo_loss(
    policy_chosen: Tensor,
    policy_rejected: Tensor,
    reference_chosen: Tensor,
    reference_rejected: Tensor,
    beta: float,
) -> Tensor:
    """DPO's loss [P] of each pair: -log sigma of the difference of implicit rewards.

    Paper: section 4.3 (beta 1e-3, the KL penalty). Arguments: [P] log-probabilities of whole
    responses.
    """
    chosen = implicit_reward(policy_chosen, reference_chosen, beta)  # [P]
    rejected = implicit_reward(policy_rejected, reference_rejected, beta)  # [P]
    return bradley_terry_loss(chosen, rejected)


def ipo_loss(
    policy_chosen: Tensor,
    policy_rejected: Tensor,
    reference_chosen: Tensor,
    reference_rejected: Tensor,
    beta: float,
) -> Tensor:
    """IPO's loss [P] of each pair: (d - 1 / (2 beta))^2, d the difference of log-ratios, nats.

    Paper: silent. Azar et al. 2023 (arXiv 2310.12036). Arguments as of `dpo_loss`.
    """
    chosen = implicit_reward(policy_chosen, reference_chosen, 1.0)  # [P]
    rejected = implicit_reward(policy_rejected, reference_rejected, 1.0)  # [P]
    return (chosen - rejected - 1 / (2 * beta)).square()


# The bins of the five levels on the scale [0, 1]: of equal width, or the predictions that round to
# each level after scaling to 0..4.
EDGES = {
    "fifths": (0.0, 0.2, 0.4, 0.6, 0.8, 1.0),
    "rounding": (0.0, 0.125, 0.375, 0.625, 0.875, 1.0),
}


def attribute_log_probs(
    predictions: Tensor, *, concentration: float = 24.0, edges: str = "fifths", clamp: float = 0.01
) -> Tensor:
    """log P(a = 0..4 | x, y) of each attribute, float64 [..., A, 5]; no gradient flows.

    Paper: section 4.5, SteerLM 2.0: Beta(24 r, 24 (1 - r)) for a prediction r scaled to [0, 1],
    integrated over the bin of each level. The paper is silent on `edges` and `clamp`: they are
    ours. Without a clamp the distribution is a point at r = 0 or 1, and any other level has
    log-probability minus infinity. At .01 a predicted 4 leaves a 3 one chance in 2,800 (fifths) or
    240 (rounding).

    Args:
        predictions: [..., A] on the scale 0-4.
        concentration: alpha plus beta of the Beta distribution.
        edges: "fifths" of equal width, or "rounding".
        clamp: how far from 0 and 1 r is kept.

    Raises:
        ValueError: other edges, or a prediction that is not finite.
    """
    one_of("edges", edges, EDGES)
    from scipy.special import betainc, betaincc  # here, so that the other losses need torch alone

    r = predictions.detach().double().cpu().numpy()
    if not np.isfinite(r).all():
        raise ValueError("a predicted attribute is not finite")
    r = np.clip(r / 4, clamp, 1 - clamp)[..., None]  # [..., A, 1]
    alpha = concentration * r  # [..., A, 1]
    beta = concentration * (1 - r)  # [..., A, 1]
    edge = np.array(EDGES[edges])  # [6]
    # A difference of two numbers near 1 has lost its digits: above the mean the upper tails are
    # subtracted instead.
    below = np.diff(betainc(alpha, beta, edge))  # [..., A, 5]
    above = -np.diff(betaincc(alpha, beta, edge))  # [..., A, 5]
    p = np.where(edge[:-1] < r, below, above)  # [..., A, 5]
    return torch.from_numpy(np.log(np.maximum(p, np.finfo(np.float64).tiny)))


def target_log_prob(log_probs: Tensor, target: Tensor) -> Tensor:
    """log P(a|x, y) [...] of a whole attribute vector: the sum over independent attributes.

    Paper: section 4.5 (independence is ours: the paper is silent). log_probs: [..., A, 5] of
    `attribute_log_probs`. target: int [A] or [..., A], levels 0-4; the paper asks for helpfulness,
    correctness and coherence 4, complexity and verbosity 2.
    """
    if target.shape[-1] != log_probs.shape[-2] or target.min() < 0 or target.max() > 4:
        raise ValueError(f"target is {log_probs.shape[-2]} levels 0-4, got {target.tolist()}")
    target = target.to(log_probs.device).expand(log_probs.shape[:-1])  # [..., A]
    return log_probs.gather(-1, target[..., None]).squeeze(-1).sum(-1)


def steerlm2_targets(attributes: Tensor, prior: Tensor, sampler: Tensor) -> Tensor:
    """log w' [B, n]: w = P(a|x,y) P(y|x) / Q'(y|x,a) of each group's samples, normalised over n.

    Paper: section 4.5, equations 6 and 7.

    Args:
        attributes: log-probabilities [B, n] of the attributes under the attribute model.
        prior: log-probabilities [B, n] of whole responses under the SFT model.
        sampler: the same under the original SteerLM model, which sampled them.
    """
    _same(attributes=attributes, prior=prior, sampler=sampler)
    return (_wide(attributes) + _wide(prior) - _wide(sampler)).log_softmax(-1)


def steerlm2_policy(policy: Tensor, sampler: Tensor) -> Tensor:
    """log b' [B, n]: b = Q_theta(y|a,x) / Q'(y|a,x), normalised over n.

    Paper: section 4.5, below equation 10. policy, sampler: log-probabilities [B, n] of whole
    responses.
    """
    _same(policy=policy, sampler=sampler)
    return (_wide(policy) - _wide(sampler)).log_softmax(-1)


def steerlm2_loss(targets: Tensor, policy: Tensor, sampler: Tensor) -> Tensor:
    """Distance [B] of each group, sum_i w'_i log(w'_i / b'_i), to monitor and to minimise.

    Paper: section 4.5, equation 12; its gradient is equation 11, -sum_i (w'_i - b'_i) grad log
    Q_theta(y_i|a,x), since w' is constant and b' a softmax of log Q_theta. The reference code
    divides each group's loss by its mean response length in tokens: do so on the result.

    Args:
        targets: log w' [B, n].
        policy: log-probabilities [B, n] of whole responses under the policy.
        sampler: the same under the model that sampled them.
    """
    _same(targets=targets, policy=policy)
    targets = targets.detach()
    return (targets.exp() * (targets - steerlm2_policy(policy, sampler))).sum(-1)


def advantages(
    rewards: Tensor, values: Tensor, mask: Tensor, *, gamma: float = 1.0, lam: float = 0.95
) -> tuple[Tensor, Tensor]:
    """Generalised advantage estimates and returns, both [R, T], 0 outside the mask.

    A_t = sum_l (gamma lam)^l delta_{t+l}, delta_t = r_t + gamma V_{t+1} - V_t, V = 0 after the last
    token; the return is A_t + V_t. Paper: section 4.4 (PPO; gamma 1, lambda .95 of the reference
    code).

    Args:
        rewards: [R, T] of each token, the response's reward at its last one.
        values: [R, T] of each token.
        mask: bool [R, T], true from each row's first to its last token.
        gamma: the discount.
        lam: lambda.
    """
    _same(rewards=rewards, values=values, mask=mask)
    values = torch.where(mask, values.detach(), 0.0)  # [R, T]
    next_values = F.pad(values[:, 1:], (0, 1))  # [R, T]
    delta = torch.where(mask, rewards + gamma * next_values - values, 0.0)  # [R, T]
    advantage = torch.zeros_like(delta)  # [R, T]
    running = delta.new_zeros(len(delta))  # [R]
    for t in range(delta.shape[1] - 1, -1, -1):
        running = delta[:, t] + gamma * lam * running
        advantage[:, t] = running
    return torch.where(mask, advantage, 0.0), torch.where(mask, advantage + values, 0.0)


def normalised(x: Tensor, mask: Tensor) -> Tensor:
    """x [R, T] with mean 0 and SD 1 over the mask, 0 outside.

    Paper: silent (the reference code does so with advantages).
    """
    _same(x=x, mask=mask)
    mean = masked_mean(x, mask)  # []
    variance = masked_mean((x - mean).square(), mask)  # []
    return torch.where(mask, (x - mean) * (variance + 1e-8).rsqrt(), 0.0)


def ppo_policy_loss(
    policy: Tensor, sampler: Tensor, advantage: Tensor, mask: Tensor, *, clip: float = 0.2
) -> Tensor:
    """PPO's clipped loss [R] of each response.

    It is the mean over the mask of -min(ratio A, clip(ratio, 1 - c, 1 + c) A). Paper: section 4.4
    (clip .2 of the reference code).

    Args:
        policy: log-probabilities [R, T] of the sampled tokens now.
        sampler: the same when they were sampled.
        advantage: A, [R, T].
        mask: bool [R, T], all false for a response that is unfinished.
        clip: c.
    """
    _same(policy=policy, sampler=sampler, advantage=advantage, mask=mask)
    # Outside the mask the log-probabilities are anything, and exp of anything times 0 can be nan.
    ratio = torch.where(mask, policy - sampler, 0.0).exp()  # [R, T]
    loss = -torch.minimum(ratio * advantage, ratio.clamp(1 - clip, 1 + clip) * advantage)  # [R, T]
    return masked_mean(loss, mask, dim=1)


def ppo_value_loss(
    values: Tensor, old: Tensor, returns: Tensor, mask: Tensor, *, clip: float = 0.2
) -> Tensor:
    """PPO's clipped value loss [R] of each response.

    It is the mean over the mask of max((V - R)^2, (V_clipped - R)^2) / 2. Paper: section 4.4
    (reference code).

    Args:
        values: V, [R, T], now.
        old: the values [R, T] when sampled.
        returns: R, [R, T].
        mask: bool [R, T].
        clip: how far V_clipped moves from `old` at most.
    """
    _same(values=values, old=old, returns=returns, mask=mask)
    clipped = old + (values - old).clamp(-clip, clip)  # [R, T]
    loss = torch.maximum((values - returns).square(), (clipped - returns).square()) / 2  # [R, T]
    return masked_mean(loss, mask, dim=1)


def masked_mean(x: Tensor, mask: Tensor, dim: int | None = None) -> Tensor:
    """The mean of x over the mask, of all or along a dimension.

    It is 0, and without gradient, where the mask is all false.
    """
    return torch.where(mask, x, 0.0).sum(dim) / mask.sum(dim).clamp(min=1)


def _wide(x: Tensor) -> Tensor:
    """x in float32 or wider.

    Differences of sums of hundreds of log-probabilities count, and are lost in bfloat16.
    """
    return x.to(torch.promote_types(x.dtype, torch.float32))


def _same(**tensors: Tensor) -> None:
    """Raise ValueError where shapes differ."""
    if len({x.shape for x in tensors.values()}) > 1:
        shapes = ", ".join(f"{name} {list(x.shape)}" for name, x in tensors.items())
        raise ValueError(f"shapes must be equal, got {shapes}")
