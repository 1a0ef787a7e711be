"""Objectives: what the trainer minimises, as a sum over items and their number.

The formulas are in `hs2lib.train.losses`. Here each is put in the one form that
`hs2lib.train.trainer` takes: a sum over items (labelled cells, pairs of responses, tokens) and the
number of these items. So the mean over a whole global batch is the same however the batch is cut
into micro-batches.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

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
from hs2lib.names import OBJECTIVES, TIES, one_of
from hs2lib.stats.metrics import validation_metrics
from hs2lib.train import losses


def end_outputs(model: nn.Module, batch: Batch) -> Tensor:
    """A reward model's outputs [R, A], float32, at each response's last token."""
    return model.predict(end_states(model.backbone, batch))


def answer_outputs(model: nn.Module, batch: Batch) -> Tensor:
    """Two numbers [R, 2] of each conversation, by a policy.

    They are the log-probability of its trained tokens, and how many of these tokens are the
    likeliest. The second is for validation: it is 0 where gradients are computed.
    """
    hidden = states(model.backbone, batch)  # [T, H]
    total = per_sequence(log_probs(model.backbone, batch, hidden), batch)  # [R]
    if torch.is_grad_enabled():
        return torch.stack([total, torch.zeros_like(total)], 1)  # [R, 2]

    def likeliest(logits: Tensor) -> Tensor:
        return logits.argmax(-1)

    predicted = over_vocabulary(model.backbone, batch, hidden, likeliest)  # [P]
    right = predicted == batch.tokens[batch.node].to(hidden.device)  # [P]
    return torch.stack([total, per_sequence(right.float(), batch)], 1)  # [R, 2]


def over_vocabulary(
    model: PreTrainedModel,
    batch: Batch,
    hidden: Tensor,
    function: Callable[[Tensor], Tensor],
) -> Tensor:
    """A function of the logits at each token of `batch.node`: [P], without gradients.

    A state that predicts several tokens is projected once.

    Args:
        model: the backbone.
        batch: P tokens of it are predicted.
        hidden: the states [T, H] of the batch.
        function: of logits, float32 [C, V] -> [C], of 512 states at a time.
    """
    head = projection(model)
    parents = batch.parent[batch.node].to(hidden.device)  # [P], the tokens before those predicted
    parents, inverse = parents.unique(return_inverse=True)  # [S], [P]
    with torch.no_grad():
        values = [function(head(part).float()) for part in hidden[parents].split(512)]
        return torch.cat(values)[inverse]


class Objective(NamedTuple):
    """A loss on groups.

    A reward model has as many outputs as targets, m = k.

    Attributes:
        name: of the objective.
        total: of (outputs [R, m], targets [R, k], group int64 [R]), the sum over items,
            differentiable.
        count: of (targets, group), the number of items.
        outputs: of (model, batch), what `total` reads, [R, m]; called inside the wrapped forward.
        log_probs: whether the model is a policy without a head; its items say which tokens are the
            response's (`Item.starts`).
        metrics: of (outputs, targets, group, names of the outputs), what validation reports besides
            the loss, by name.
    """

    name: str
    total: Callable[[Tensor, Tensor, Tensor], Tensor]
    count: Callable[[Tensor, Tensor], int]
    outputs: Callable[[nn.Module, Batch], Tensor] = end_outputs
    log_probs: bool = False
    metrics: Callable[[Tensor, Tensor, Tensor, tuple], dict[str, float]] | None = None


REGRESSION = Objective(
    "regression",
    total=lambda outputs, targets, group: losses.squared_errors(outputs, targets).sum(),
    count=lambda targets, group: int((targets != MISSING).sum()),
    metrics=validation_metrics,
)


def regression(units: Sequence[float] = ()) -> Objective:
    """Regression on labels that are divided by a unit first; one for each output, () for 1.

    Rates fit labels that lie about 4 apart, as HelpSteer2's do. So labels on another scale are put
    into a unit of that size, and a model is trained whose outputs are in it. Validation reports its
    metrics on the labels' own scale. Paper: silent (its labels lie on 0 to 4, whose unit is 1).
    """
    if all(unit == 1 for unit in units):
        return REGRESSION

    def total(outputs: Tensor, targets: Tensor, group: Tensor) -> Tensor:
        unit = torch.tensor(units, dtype=targets.dtype, device=targets.device)  # [A]
        in_units = torch.where(targets == MISSING, targets, targets / unit)  # [R, A]
        return losses.squared_errors(outputs, in_units).sum()

    def metrics(outputs: Tensor, targets: Tensor, group: Tensor, names: tuple) -> dict[str, float]:
        unit = torch.tensor(units, dtype=outputs.dtype, device=outputs.device)  # [A]
        return validation_metrics(outputs * unit, targets, group, names)

    words = ", ".join(f"{unit:g}" for unit in units)
    return Objective(f"regression in units of {words}", total, REGRESSION.count, metrics=metrics)


def ordered_pairs(targets: Tensor, group: Tensor) -> tuple[Tensor, Tensor]:
    """Rows (better [P], worse [P]) of every pair of responses of one group that differ in target.

    targets: [R, k], whose first column is compared; -100 is no target. group: int64 [R].
    """
    value = targets[:, 0]  # [R]
    same_group = group[:, None] == group[None]  # [R, R]
    larger = value[:, None] > value[None]  # [R, R]
    labelled = (value != MISSING)[:, None] & (value != MISSING)[None]  # [R, R]
    return torch.nonzero(same_group & larger & labelled, as_tuple=True)


def tied_pairs(targets: Tensor, group: Tensor) -> tuple[Tensor, Tensor]:
    """Rows (first [P], second [P]) of every two responses of one group whose targets are equal.

    Arguments as for `ordered_pairs`.
    """
    value = targets[:, 0]  # [R]
    same_group = group[:, None] == group[None]  # [R, R]
    equal = value[:, None] == value[None]  # [R, R]
    labelled = (value != MISSING)[:, None]  # [R, 1], of both where they are equal
    return torch.nonzero((same_group & equal & labelled).triu(diagonal=1), as_tuple=True)


def _count_pairs(targets: Tensor, group: Tensor) -> int:
    better, _ = ordered_pairs(targets, group)
    return len(better)


def _count_pairs_and_ties(targets: Tensor, group: Tensor) -> int:
    first, _ = tied_pairs(targets, group)
    return _count_pairs(targets, group) + len(first)


def _plain(chosen: Tensor, rejected: Tensor, strength: Tensor) -> Tensor:
    return losses.bradley_terry_loss(chosen, rejected)


# Losses of ordered pairs, of (chosen [P], rejected [P], strength [P]), by objective.
_PAIR_LOSSES = {
    "bradley-terry": _plain,
    "bradley-terry-margin": losses.margin_loss,
    "bradley-terry-scaled": losses.scaled_loss,
}


def bradley_terry(name: str = "bradley-terry", *, ties: str = "leave out") -> Objective:
    """A loss on all ordered pairs of a group, of a model with one output.

    The strength of a pair is the difference of its targets. Paper: silent; HelpSteer2-Preference
    (arXiv 2410.01257).

    Args:
        name: "bradley-terry"; "bradley-terry-margin", whose margin is the strength;
            "bradley-terry-scaled", where a pair counts as often as it is strong.
        ties: "keep" adds `losses.tie_loss` of two responses with equal targets, whatever the name,
            as one pair of strength 1. Else such two say nothing.
    """
    pair_loss = _PAIR_LOSSES[name]

    def total(outputs: Tensor, targets: Tensor, group: Tensor) -> Tensor:
        better, worse = ordered_pairs(targets, group)
        strength = targets[better, 0] - targets[worse, 0]  # [P]
        return pair_loss(outputs[better, 0], outputs[worse, 0], strength).sum()

    def total_with_ties(outputs: Tensor, targets: Tensor, group: Tensor) -> Tensor:
        first, second = tied_pairs(targets, group)
        of_ties = losses.tie_loss(outputs[first, 0], outputs[second, 0]).sum()
        return total(outputs, targets, group) + of_ties

    if ties == "keep":
        return Objective(f"{name}, ties kept", total_with_ties, _count_pairs_and_ties)
    return Objective(name, total, _count_pairs)


def named(name: str, *, ties: str = "leave out", units: Sequence[float] = ()) -> Objective:
    """The objective of a reward model that a notebook names, one of `names.OBJECTIVES`.

    ties: what a loss of pairs does with two responses of equal preference, one of `names.TIES`.
    units: of the labels of a regression.
    Raises ValueError for other names.
    """
    one_of("objective", name, OBJECTIVES)
    one_of("ties", ties, TIES)
    if name == REGRESSION.name:
        return regression(units)
    return bradley_terry(name, ties=ties)


def sft() -> Objective:
    """Supervised fine-tuning: the mean of -log P over the trained tokens of the global batch.

    Paper: section 4.2. outputs [R, 2] of `answer_outputs`; targets [R, 1]: numbers of trained
    tokens. Validation adds the share of trained tokens that are the likeliest ones. Checked against
    TRL's SFTTrainer.
    """

    def total(outputs: Tensor, targets: Tensor, group: Tensor) -> Tensor:
        return losses.language_loss(outputs[:, 0], 1)

    def count(targets: Tensor, group: Tensor) -> int:
        return int(targets.sum())

    def metrics(outputs: Tensor, targets: Tensor, group: Tensor, names: tuple) -> dict[str, float]:
        return {"accuracy": (outputs[:, 1].sum() / targets.sum()).item()}

    return Objective("SFT", total, count, answer_outputs, log_probs=True, metrics=metrics)


def dpo(
    beta: float = 1e-3, loss: Callable[..., Tensor] = losses.dpo_loss, name: str = "DPO"
) -> Objective:
    """DPO on all ordered pairs of a group: a loss such as `losses.dpo_loss`, summed over pairs.

    Paper: section 4.3 (beta 1e-3). loss: of pairs, called as `losses.dpo_loss` is; name: of it.
    outputs [R, 1]: log pi(y|x); targets [R, 2]: a value whose order
    within the group is the preference, and the reference's log pi_ref(y|x). Validation adds the
    share of pairs whose implicit rewards are in the right order (equal ones count as wrong), and
    the mean margin of these rewards. Raises ValueError for a beta that is not positive.
    """
    if not beta > 0:
        raise ValueError(
            f"beta is positive, got {beta}: below 0 the worse response would be preferred"
        )

    def total(outputs: Tensor, targets: Tensor, group: Tensor) -> Tensor:
        better, worse = ordered_pairs(targets, group)
        policy = outputs[:, 0]  # [R]
        reference = targets[:, 1]  # [R]
        pair_losses = loss(
            policy[better], policy[worse], reference[better], reference[worse], beta
        )  # [P]
        return pair_losses.sum()

    def metrics(outputs: Tensor, targets: Tensor, group: Tensor, names: tuple) -> dict[str, float]:
        better, worse = ordered_pairs(targets, group)
        reward = losses.implicit_reward(outputs[:, 0], targets[:, 1], beta)  # [R]
        margin = reward[better] - reward[worse]  # [P]
        return {"accuracy": (margin > 0).float().mean().item(), "margin": margin.mean().item()}

    return Objective(
        f"{name}, beta {beta:g}",
        total,
        _count_pairs,
        response_log_probs,
        log_probs=True,
        metrics=metrics,
    )


def steerlm2_distances(
    outputs: Tensor, targets: Tensor, group: Tensor
) -> Iterator[tuple[Tensor, Tensor]]:
    """Equation 12's distance of each group, and its responses' mean length in tokens.

    Arguments as in `steerlm2`.
    """
    for number in group.unique():
        rows = group == number  # [R]
        log_weights, sampler, lengths = targets[rows].T  # [n] each
        policy = outputs[rows, 0]  # [n]
        distance = losses.steerlm2_loss(log_weights[None], policy[None], sampler[None])  # [1]
        yield distance.squeeze(0), lengths.mean()


def steerlm2(by_length: bool = False) -> Objective:
    """SteerLM 2.0: the mean over groups of equation 12's distance.

    Its gradient is that of equation 11. Paper: section 4.5. outputs [R, 1]: log Q_theta(y|a,x);
    targets [R, 3]: log w' (normalised within the group), log Q'(y|a,x), and the response's length
    in tokens. Groups may differ in size. Validation adds the distance itself. by_length: divide
    each group's distance by its mean length, as the reference code does; the paper's equations do
    not.
    """

    def total(outputs: Tensor, targets: Tensor, group: Tensor) -> Tensor:
        out = 0
        for distance, length in steerlm2_distances(outputs, targets, group):
            out = out + (distance / length if by_length else distance)
        return out

    def count(targets: Tensor, group: Tensor) -> int:
        return len(group.unique())

    def metrics(outputs: Tensor, targets: Tensor, group: Tensor, names: tuple) -> dict[str, float]:
        distances = [distance for distance, _ in steerlm2_distances(outputs, targets, group)]
        return {"distance": torch.stack(distances).mean().item()}

    name = "SteerLM 2.0, by length" if by_length else "SteerLM 2.0"
    return Objective(name, total, count, response_log_probs, log_probs=True, metrics=metrics)
