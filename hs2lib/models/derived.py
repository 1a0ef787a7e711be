"""Reward models that begin from a saved one.

    model = begun(load_reward_model("regression"), ["reward"])

Paper: silent. HelpSteer2-Preference (arXiv 2410.01257) begins Bradley-Terry from the weights of a
regression on helpfulness, head included.
"""

from collections.abc import Sequence

import torch

from hs2lib.engine import checkpoints
from hs2lib.models.backbones import width
from hs2lib.models.reward_model import RewardModel, check_attributes, fresh_head

# The output whose head weights a reward without a name of its own begins with.
FIRST = "helpfulness"


def row_of(model: RewardModel, output: str) -> int:
    """The row of a model's head that another model's output begins with.

    It is the output of that name. For an output "reward" it may be helpfulness instead, and the
    other way round: one number says in both cases how good a response is.

    Raises:
        ValueError: the model has no such output.
    """
    wanted = [output]
    if output in ("reward", FIRST):
        wanted += ["reward", FIRST]
    for name in wanted:
        if name in model.attributes:
            return model.attributes.index(name)
    raise ValueError(
        f"the saved model has no output {output!r} to begin with; it has: "
        f"{', '.join(model.attributes)}"
    )


def begun(
    saved: RewardModel, outputs: Sequence[str], *, head_seed: int | None = None
) -> RewardModel:
    """A saved model as the start of another training, in place: its weights, under these outputs.

    Its adapters are merged into the weights. Paper: silent.

    Args:
        saved: is changed.
        outputs: names of the outputs; each takes the head weights of `row_of`.
        head_seed: the seed of a new head, near zero; None takes the saved one's.

    Returns:
        The same model.

    Raises:
        ValueError: the saved model lacks an output, or its weights were rounded.
    """
    saved.check_exact()
    outputs = check_attributes(outputs)
    saved.merge()
    bias = saved.head.bias is not None
    head = fresh_head(width(saved.backbone), len(outputs), bias=bias, seed=head_seed or 0)
    if head_seed is None:
        rows = [row_of(saved, name) for name in outputs]
        with torch.no_grad():
            for name, weight in saved.head.named_parameters():
                head.get_parameter(name).copy_(checkpoints.full_tensor(weight)[rows])
    saved.head = head.to(saved.head.weight.device)
    saved.attributes = outputs
    saved.folded = None
    saved.warning = ""
    return saved.requires_grad_(True)
