"""The paper's formulas against numbers one can do by hand, limits, and the invariants of SteerLM 2.0."""

import math

import numpy as np
import pytest
import torch
from scipy.stats import beta as beta_distribution

from hs2lib.train import losses, objectives

LABELS = torch.tensor([[4.0, -100.0, 1.0], [2.0, 0.0, -100.0]])
PREDICTIONS = torch.tensor([[3.0, 7.0, 1.5], [2.0, 2.0, -3.0]])


def test_regression_counts_labelled_cells_only():
    # Errors 1, .5, 0, 2 over the four labelled cells.
    assert losses.regression_loss(PREDICTIONS, LABELS) == (1 + 0.25 + 0 + 4) / 4
    predictions = PREDICTIONS.clone().requires_grad_()
    losses.regression_loss(predictions, LABELS).backward()
    assert predictions.grad.tolist() == [[-0.5, 0, 0.25], [0, 1, 0]]


def test_regression_in_parts_equals_the_whole():
    # The trap: means of the rows (2 and 2 labelled cells here, but 3 and 1 elsewhere) are not parts
    # of one mean.
    whole = losses.regression_loss(PREDICTIONS, LABELS)
    parts = [
        losses.squared_errors(p[None], y[None]).sum()
        for p, y in zip(PREDICTIONS, LABELS, strict=True)
    ]
    assert sum(parts) / 4 == whole
    assert losses.squared_errors(PREDICTIONS[:1], torch.full((1, 3), -100.0)).sum() == 0


def test_bradley_terry():
    loss = losses.bradley_terry_loss(torch.tensor([2.0, 0.0]), torch.tensor([1.0, 0.0]))
    assert loss.tolist() == pytest.approx([math.log(1 + math.exp(-1)), math.log(2)])


def test_goodness_of_the_paper():
    attributes = torch.tensor([[4.0, 4, 4, 2, 2], [1, 0, 2, 3, 4]])
    weights = torch.tensor([0.65, 0.8, 0.45, 0, 0])
    assert losses.goodness(attributes, weights).tolist() == pytest.approx([7.6, 1.55])
    assert losses.goodness(attributes, weights, mean=1.6, sd=2).tolist() == pytest.approx(
        [3.0, -0.025], abs=1e-6
    )


def test_language_loss_in_parts_equals_the_whole():
    logp = torch.tensor([-1.0, -2.0, -6.0])
    assert losses.language_loss(logp) == 3
    assert losses.language_loss(logp[:1], 3) + losses.language_loss(logp[1:], 3) == 3


def test_dpo_by_hand():
    def p(x):
        return torch.tensor([x], requires_grad=True)

    chosen, rejected = p(-10.0), p(-12.0)
    # At the reference model every pair costs log 2, whatever the responses.
    start = losses.dpo_loss(chosen, rejected, chosen.detach(), rejected.detach(), 0.1)
    assert start.item() == pytest.approx(math.log(2))
    start.backward()
    assert chosen.grad.item() == pytest.approx(-0.05) and rejected.grad.item() == pytest.approx(
        0.05
    )
    # log-ratios 2 and -3: -log sigma(.1 x 5)
    loss = losses.dpo_loss(p(-10.0), p(-12.0), p(-12.0), p(-9.0), 0.1)
    assert loss.item() == pytest.approx(math.log(1 + math.exp(-0.5)))
    assert losses.implicit_reward(p(-10.0), p(-12.0), 0.1).item() == pytest.approx(0.2)


def test_ipo_by_hand():
    # The chosen answer gained .5 nats, the rejected one lost .5: apart by 1 = 1 / (2 beta).
    chosen, rejected, before = torch.tensor([-1.0]), torch.tensor([-2.0]), torch.tensor([-1.5])
    assert losses.ipo_loss(chosen, rejected, before, before, 0.5) == 0
    assert losses.ipo_loss(before, before, before, before, 0.5) == 1
    assert losses.ipo_loss(rejected, chosen, before, before, 0.5) == 4


@pytest.mark.parametrize("edges", losses.EDGES)
@pytest.mark.parametrize("concentration", [1.0, 24.0, 500.0])
def test_attribute_probabilities_sum_to_one(edges, concentration):
    predictions = torch.tensor([-1.0, 0.0, 1e-9, 0.3, 2.0, 3.7, 4.0, 5.0]).double()
    logp = losses.attribute_log_probs(predictions, concentration=concentration, edges=edges)
    assert logp.shape == (8, 5) and logp.isfinite().all()
    assert np.allclose(logp.exp().sum(-1), 1, atol=1e-12)
    assert logp[0].tolist() == logp[1].tolist() and logp[6].tolist() == logp[7].tolist()  # clamped
    # A prediction and its mirror image: the level n of one is the level 4 - n of the other.
    mirrored = losses.attribute_log_probs(4 - predictions, concentration=concentration, edges=edges)
    assert np.allclose(mirrored.flip(-1), logp, rtol=1e-4)  # scipy's own error where p is 1e-270


def test_attribute_probabilities_are_the_beta_distribution():
    logp = losses.attribute_log_probs(torch.tensor([[2.0, 3.0]]))
    for a, r in enumerate((0.5, 0.75)):
        expected = np.diff(beta_distribution.cdf(np.arange(6) / 5, 24 * r, 24 * (1 - r)))
        assert np.allclose(logp[0, a].exp(), expected, rtol=1e-9)
    # Symmetric about 2, and 3 lies where its own level is likeliest in either division into bins.
    assert losses.attribute_log_probs(torch.tensor([3.0]), edges="rounding").argmax() == 3
    # Far in the tail, where 1 - (1 - p) would be 0: P(a = 0 | r = .99) for Beta(23.76, .24), by its
    # leading term.
    tail = losses.attribute_log_probs(torch.tensor([3.96]))[0, 0]
    constant = math.lgamma(24) - math.lgamma(23.76) - math.lgamma(0.24)
    assert tail == pytest.approx(constant + 23.76 * math.log(0.2) - math.log(23.76), abs=0.2)


def test_target_is_a_sum_over_attributes():
    logp = losses.attribute_log_probs(torch.tensor([[4.0, 4, 4, 2, 2], [0, 0, 0, 0, 0]]))
    total = losses.target_log_prob(logp, torch.tensor([4, 4, 4, 2, 2]))
    assert total[0].item() == pytest.approx(3 * logp[0, 0, 4].item() + 2 * logp[0, 3, 2].item())
    assert total[0] > -1 and total[1] < -50


def test_steerlm2_starts_uniform_and_survives_long_responses():
    sampler = torch.tensor([[-1e4, -900.0, -3.0], [-5.0, -1e4, -1e4]])
    start = losses.steerlm2_policy(sampler, sampler).exp()
    assert torch.allclose(start, torch.full((2, 3), 1 / 3))
    # Attribute model says 0, -1, -2; the SFT model agrees with the sampler: w' is the softmax of
    # those alone.
    attributes = torch.tensor([[0.0, -1.0, -2.0], [-1e4, -1e4, -1e4]])
    targets = losses.steerlm2_targets(attributes, sampler, sampler)
    assert targets.exp()[0].tolist() == pytest.approx([0.66524, 0.24473, 0.09003], abs=1e-5)
    assert targets.exp()[1].tolist() == pytest.approx([1 / 3] * 3)
    # An impossible response weighs nothing and leaves everything finite.
    policy = (sampler + torch.tensor([[-1e4, 0.0, 0.0], [0.0, 0.0, 1e4]])).requires_grad_()
    distance = losses.steerlm2_loss(targets, policy, sampler)
    distance.sum().backward()
    assert distance.isfinite().all() and policy.grad.isfinite().all()


def test_steerlm2_gradient_is_equation_11_and_vanishes_at_the_target():
    generator = torch.Generator().manual_seed(0)
    attributes, prior, sampler, policy = (
        torch.randn(3, 10, generator=generator).double() for _ in range(4)
    )
    policy.requires_grad_()
    targets = losses.steerlm2_targets(attributes, prior, sampler)
    loss = losses.steerlm2_loss(targets, policy, sampler)
    (gradient,) = torch.autograd.grad(loss.sum(), policy)
    b = losses.steerlm2_policy(policy, sampler).exp()
    assert torch.allclose(gradient, -(targets.exp() - b), atol=1e-12)
    assert (loss > 0).all()
    # Where b' = w': theta is the optimum, log Q_theta = log P(a|x,y) + log P(y|x) + any constant.
    optimum = (attributes + prior + 5.0).requires_grad_()
    loss = losses.steerlm2_loss(targets, optimum, sampler)
    assert torch.allclose(loss, torch.zeros(3).double(), atol=1e-12)
    (gradient,) = torch.autograd.grad(loss.sum(), optimum)
    assert gradient.abs().max() < 1e-12


def test_steerlm2_estimate_converges_to_the_gradient_of_equation_2():
    # Five possible responses, models that are softmaxes of five logits: the gradient of KL(P(y|a,x)
    # || Q_theta) in theta's logits is Q_theta - P(y|a,x).
    generator = torch.Generator().manual_seed(0)
    attributes, prior, sampler, theta = (
        torch.randn(5, generator=generator).double() for _ in range(4)
    )
    prior, sampler = prior.log_softmax(-1), sampler.log_softmax(-1)
    exact = theta.softmax(-1) - (attributes + prior).softmax(-1)
    errors = []
    for n in (100, 10_000, 1_000_000):
        y = torch.multinomial(sampler.exp(), n, replacement=True, generator=generator)[None]
        logits = theta.clone().requires_grad_()
        targets = losses.steerlm2_targets(attributes[y], prior[y], sampler[y])
        losses.steerlm2_loss(targets, logits.log_softmax(-1)[y], sampler[y]).sum().backward()
        errors.append((logits.grad - exact).norm() / exact.norm())
    assert errors[2] < 5e-3 and errors[2] < errors[1] < errors[0]


def test_advantages_by_hand():
    # One response of three tokens, reward 1 at the end, gamma 1, lambda .5; the other of one token.
    rewards = torch.tensor([[0.0, 0.0, 1.0], [2.0, 9.0, 9.0]])
    values = torch.tensor([[0.5, 0.25, 0.75], [1.0, 9.0, 9.0]])
    mask = torch.tensor([[True, True, True], [True, False, False]])
    advantage, returns = losses.advantages(rewards, values, mask, lam=0.5)
    # deltas -.25, .5, .25
    assert advantage.tolist() == [[-0.25 + 0.5 * 0.625, 0.5 + 0.125, 0.25], [1.0, 0, 0]]
    assert returns.tolist() == [[0.5625, 0.875, 1.0], [2.0, 0, 0]]


def test_advantages_limits_and_offset_rows():
    generator = torch.Generator().manual_seed(0)
    rewards, values = torch.randn(2, 6, generator=generator), torch.randn(2, 6, generator=generator)
    mask = torch.tensor([[False, True, True, True, True, False]] * 2)
    inside = slice(1, 5)
    # lambda 1: the rest of the rewards minus the value; lambda 0: one step ahead.
    far, _ = losses.advantages(rewards, values, mask, lam=1.0)
    rest = rewards[:, inside].flip(1).cumsum(1).flip(1)
    assert torch.allclose(far[:, inside], rest - values[:, inside], atol=1e-6)
    near, _ = losses.advantages(rewards, values, mask, lam=0.0, gamma=0.9)
    following = torch.cat([values[:, 2:5], torch.zeros(2, 1)], 1)
    assert torch.allclose(
        near[:, inside], rewards[:, inside] + 0.9 * following - values[:, inside], atol=1e-6
    )


def test_normalised_over_the_mask():
    x = torch.tensor([[1.0, 3.0, 99.0]])
    assert losses.normalised(x, torch.tensor([[True, True, False]]))[0].tolist() == pytest.approx(
        [-1, 1, 0]
    )


def test_ppo_policy_loss_clips_what_helps_and_not_what_hurts():
    ratio = torch.tensor([[1.5, 1.5, 0.5, 0.5, 7.0]])
    advantage = torch.tensor([[1.0, -1.0, 1.0, -1.0, 1.0]])
    mask = torch.tensor([[True, True, True, True, False]])
    policy = ratio.log().requires_grad_()
    loss = losses.ppo_policy_loss(policy, torch.zeros(1, 5), advantage, mask)
    assert loss.item() == pytest.approx(-(1.2 - 1.5 + 0.5 - 0.8) / 4)
    loss.backward()
    assert policy.grad[0].tolist() == pytest.approx([0, 1.5 / 4, -0.5 / 4, 0, 0])


def test_ppo_unfinished_samples_give_no_gradient():
    policy = torch.full((2, 3), -1e4).requires_grad_()
    sampler = torch.tensor([[0.0] * 3, [-torch.inf] * 3])
    loss = losses.ppo_policy_loss(
        policy, sampler, torch.ones(2, 3), torch.zeros(2, 3, dtype=torch.bool)
    )
    loss.sum().backward()
    assert loss.tolist() == [0, 0] and (policy.grad == 0).all()


def test_ppo_value_loss_clips():
    values = torch.tensor([[1.0, 1.0]]).requires_grad_()
    # Moved by 1 from old 0 towards return 2: clipped to .2, whose error 1.8 is larger and has no
    # gradient.
    loss = losses.ppo_value_loss(
        values, torch.tensor([[0.0, 0.9]]), torch.tensor([[2.0, 2.0]]), torch.ones(1, 2).bool()
    )
    assert loss.item() == pytest.approx((1.8**2 / 2 + 0.5) / 2)
    loss.backward()
    assert values.grad[0].tolist() == pytest.approx([0, -0.5])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: losses.regression_loss(PREDICTIONS, LABELS[:1]),
            r"predictions \[2, 3\], labels \[1, 3\]",
        ),
        (
            lambda: losses.regression_loss(PREDICTIONS, LABELS * math.nan),
            "mark missing labels with -100",
        ),
        (
            lambda: losses.regression_loss(PREDICTIONS, torch.full((2, 3), -100.0)),
            "nothing to learn from",
        ),
        (lambda: losses.goodness(LABELS, torch.ones(5)), "weights for attributes"),
        (lambda: losses.attribute_log_probs(torch.tensor([math.nan])), "not finite"),
        (
            lambda: losses.attribute_log_probs(torch.tensor([2.0]), edges="fifth"),
            "unknown edges 'fifth' .did you mean",
        ),
        (
            lambda: losses.target_log_prob(torch.zeros(2, 5, 5), torch.tensor([5, 0, 0, 0, 0])),
            "levels 0-4",
        ),
        (lambda: objectives.dpo(-0.1), "beta is positive, got -0.1"),
        (lambda: objectives.dpo(math.nan), "beta is positive"),
        (
            lambda: objectives.named("ridge"),
            "unknown objective 'ridge'; there are: regression, bradley-terry",
        ),
    ],
)
def test_errors(call, message):
    """With beta below 0 DPO prefers the worse response, and says nothing."""
    with pytest.raises(ValueError, match=message):
        call()


def test_a_unit_of_labels_by_hand():
    """Labels .25 and 1 in units of .25 are 1 and 4: outputs 1 and 2 are off by 0 and 2. Metrics are on the labels' scale."""
    objective = objectives.regression([0.25])
    outputs = torch.tensor([[1.0], [2.0], [9.0]])
    targets = torch.tensor([[0.25], [1.0], [losses.MISSING]])
    group = torch.tensor([0, 0, 1])
    assert objective.total(outputs, targets, group) == 4 and objective.count(targets, group) == 2
    metrics = objective.metrics(outputs, targets, group, ("score",))
    assert metrics["MSE score"] == pytest.approx((0 + 0.5**2) / 2)
    assert objectives.regression([1.0, 1]) is objectives.REGRESSION is objectives.regression()
