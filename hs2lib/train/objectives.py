"""Objectives: what the trainer minimises, as a sum over items and their number.

The formulas are in `hs2lib.train.losses`. Here each is put in the one form that
`hs2lib.train.trainer` takes: a sum over items (labelled cells, pairs of responses, tokens) and the
number of these items. So the mean over a whole global batch is the same however the batch is cut
into micro-batches.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch

from hs2lib.engine.attention import (
    end_states,
    log_probs,
    per_sequence,
    projection,
    response_log_probs,
    states,
)
from hs2lib.engine.trees import Batch
from hs2lib.group import MISSING
from hs2lib.names import OBJECTIVES, one_of
from hs2lib.stats.metrics import validation_metrics
from hs2lib.train import losses


def end_outputs(model, batch: Batch) -> torch.Tensor:
    """A reward model's outputs [R, A], float32, at each response's last token."""
    return model.predict(end_states(model.backbone, batch))


def answer_outputs(model, batch: Batch) -> torch.Tensor:
    """Of each conversation the log-probability of its trained tokens, and how many of them are the
    likeliest: [R, 2].

    The number of likeliest tokens is for validation. It is 0 where gradients are computed.
    """
    hidden = states(model.backbone, batch)  # [T, H]
    total = per_sequence(log_probs(model.backbone, batch, hidden), batch)  # [R]
    if torch.is_grad_enabled():
        return torch.stack([total, torch.zeros_like(total)], 1)  # [R, 2]
    likeliest = over_vocabulary(
        model.backbone, batch, hidden, lambda logits: logits.argmax(-1)
    )  # [P]
    right = likeliest == batch.tokens[batch.node].to(hidden.device)  # [P]
    return torch.stack([total, per_sequence(right.float(), batch)], 1)  # [R, 2]


def over_vocabulary(
    model, batch: Batch, hidden: torch.Tensor, function: Callable, chunk: int = 512
) -> torch.Tensor:
    """function(logits float32 [C, V]) -> [C] where each token of `batch.node` is predicted: [P],
    without gradients.

    Paper: silent. hidden: the states [T, H] of the batch; chunk: states at a time. A state that
    predicts several tokens is projected once.
    """
    head = projection(model)
    parents, inverse = batch.parent[batch.node].to(hidden.device).unique(return_inverse=True)
    with torch.no_grad():
        return torch.cat([function(head(part).float()) for part in hidden[parents].split(chunk)])[
            inverse
        ]


class Objective(NamedTuple):
    """A loss on groups.

    total(outputs [R, m], targets [R, k], group int64 [R]) is the sum over items, differentiable.
    count(targets, group) is the number of items. outputs(model, batch) [R, m] is called inside the
    wrapped forward. A reward model has as many outputs as targets, m = k. `log_probs`: the model is
    a policy without a head, and items say which tokens are the response's (`Item.starts`).
    metrics(outputs, targets, group, names of the outputs): what validation reports besides the
    loss, by name.
    """

    name: str
    total: Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
    count: Callable[[torch.Tensor, torch.Tensor], int]
    outputs: Callable[[object, Batch], torch.Tensor] = end_outputs
    log_probs: bool = False
    metrics: (
        Callable[[torch.Tensor, torch.Tensor, torch.Tensor, tuple], dict[str, float]] | None
    ) = None


REGRESSION = Objective(
    "regression",
    total=lambda outputs, targets, group: losses.squared_errors(outputs, targets).sum(),
    count=lambda targets, group: int((targets != MISSING).sum()),
    metrics=validation_metrics,
)


def ordered_pairs(targets: torch.Tensor, group: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows (better [P], worse [P]) of every pair of responses of one group with different targets [R, 1]."""
    value = targets[:, 0]
    labelled = (value != MISSING)[:, None] & (value != MISSING)[None]  # [R, R]
    return torch.nonzero(
        (group[:, None] == group[None]) & (value[:, None] > value[None]) & labelled, as_tuple=True
    )


def _pairs(targets: torch.Tensor, group: torch.Tensor) -> int:
    return len(ordered_pairs(targets, group)[0])


def _in_order(outputs: torch.Tensor, targets: torch.Tensor, group: torch.Tensor) -> torch.Tensor:
    better, worse = ordered_pairs(targets, group)
    return losses.bradley_terry_loss(outputs[better, 0], outputs[worse, 0]).sum()


# On all ordered pairs of a group, of a model with one output.
BRADLEY_TERRY = Objective("bradley-terry", _in_order, _pairs)


def named(name: str) -> Objective:
    """The objective of a reward model that a notebook names: "regression" or "bradley-terry"; ValueError for others."""
    one_of("objective", name, OBJECTIVES)
    return {objective.name: objective for objective in (REGRESSION, BRADLEY_TERRY)}[name]


def sft() -> Objective:
    """Supervised fine-tuning: -log P of the trained tokens, over the number of trained tokens of
    the global batch.

    Paper: section 4.2. outputs [R, 2] of `answer_outputs`; targets [R, 1]: numbers of trained
    tokens. Validation adds the share of trained tokens that are the likeliest ones. Checked against
    TRL's SFTTrainer.
    """

    def total(outputs, targets, group):
        return losses.language_loss(outputs[:, 0], 1)

    def count(targets, group):
        return int(targets.sum())

    def metrics(outputs, targets, group, names):
        return {"accuracy": (outputs[:, 1].sum() / targets.sum()).item()}

    return Objective("SFT", total, count, answer_outputs, log_probs=True, metrics=metrics)


def dpo(beta: float = 1e-3) -> Objective:
    """DPO on all ordered pairs of a group: the loss of `losses.dpo_loss`, summed over pairs.

    Paper: section 4.3 (beta 1e-3). targets [R, 2]: a value whose order within the group is the
    preference, and the reference's log pi_ref(y|x). Validation adds the share of pairs whose
    implicit rewards are in the right order (equal ones count as wrong) and the mean margin of these
    rewards. Raises ValueError for a beta that is not positive.
    """
    if not beta > 0:
        raise ValueError(
            f"beta is positive, got {beta}: below 0 the worse response would be preferred"
        )

    def total(outputs, targets, group):
        better, worse = ordered_pairs(targets, group)
        policy, reference = outputs[:, 0], targets[:, 1]
        return losses.dpo_loss(
            policy[better], policy[worse], reference[better], reference[worse], beta
        ).sum()

    def metrics(outputs, targets, group, names):
        better, worse = ordered_pairs(targets, group)
        reward = losses.implicit_reward(outputs[:, 0], targets[:, 1], beta)
        margin = reward[better] - reward[worse]
        return {"accuracy": (margin > 0).float().mean().item(), "margin": margin.mean().item()}

    return Objective(
        f"DPO, beta {beta:g}", total, _pairs, response_log_probs, log_probs=True, metrics=metrics
    )


def steerlm2_distances(
    outputs: torch.Tensor, targets: torch.Tensor, group: torch.Tensor
) -> Iterator[tuple]:
    """Equation 12's distance of each group, and its responses' mean length; arguments as in `steerlm2`."""
    for one in group.unique():
        rows = group == one
        weights, sampler, tokens = targets[rows].T
        yield (
            losses.steerlm2_loss(weights[None], outputs[rows, 0][None], sampler[None]).squeeze(0),
            tokens.mean(),
        )


def steerlm2(by_length: bool = False) -> Objective:
    """SteerLM 2.0: the mean over groups of equation 12's distance, whose gradient is that of
    equation 11.

    Paper: section 4.5. outputs [R, 1]: log Q_theta(y|a,x); targets [R, 3]: log w' (normalised
    within the group), log Q'(y|a,x), and the response's length in tokens. by_length: divide each
    group's distance by its mean length, as the reference code does; the paper's equations do not.
    Validation adds the distance itself. Groups may differ in size.
    """

    def total(outputs, targets, group):
        return sum(
            x / tokens if by_length else x
            for x, tokens in steerlm2_distances(outputs, targets, group)
        )

    def count(targets, group):
        return len(group.unique())

    def metrics(outputs, targets, group, names):
        return {
            "distance": torch.stack([x for x, _ in steerlm2_distances(outputs, targets, group)])
            .mean()
            .item()
        }

    name = "SteerLM 2.0, by length" if by_length else "SteerLM 2.0"
    return Objective(name, total, count, response_log_probs, log_probs=True, metrics=metrics)
