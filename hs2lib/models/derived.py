"""Reward models made of saved ones: begun from one, or extrapolated from two.

    model = begun(load_reward_model("regression"), ["reward"])
    expo = extrapolated(load_reward_model("weak"), load_reward_model("strong"))

    python -m hs2lib.models.derived WEAK STRONG NEW_FOLDER --alpha 1.52

Paper: silent. HelpSteer2-Preference (arXiv 2410.01257) begins Bradley-Terry from the weights of a
regression on helpfulness, head included, and then extrapolates from the one through the other.
"""

import argparse
import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import nn

from hs2lib import paths
from hs2lib.engine import checkpoints
from hs2lib.models.backbones import width
from hs2lib.models.reward_model import RewardModel, check_attributes, fresh_head, load_reward_model

# The factor of HelpSteer2-Preference's best model.
EXPO = 1.52

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
    if saved.rounded:
        raise ValueError("these weights were rounded when the model was frozen: load it again")
    outputs = check_attributes(outputs)
    saved.merge()
    if head_seed is None:
        rows = [row_of(saved, name) for name in outputs]
        head = _head(saved, rows)
    else:
        bias = saved.head.bias is not None
        head = fresh_head(width(saved.backbone), len(outputs), bias=bias, seed=head_seed)
    saved.head = head
    saved.attributes = outputs
    saved.folded = None
    saved.warning = ""
    return saved.requires_grad_(True)


def _head(model: RewardModel, rows: Sequence[int]) -> nn.Linear:
    """A head of these rows of a model's head."""
    bias = model.head.bias is not None
    weight = checkpoints.full_tensor(model.head.weight.detach())[list(rows)]  # [outputs, hidden]
    head = nn.Linear(weight.shape[1], len(rows), bias=bias, dtype=torch.float32)
    with torch.no_grad():
        head.weight.copy_(weight)
        if bias:
            head.bias.copy_(checkpoints.full_tensor(model.head.bias.detach())[list(rows)])
    return head


@torch.no_grad()
def extrapolated(weak: RewardModel, strong: RewardModel, alpha: float = EXPO) -> RewardModel:
    """Every weight w = weak + alpha (strong - weak), in place of the strong model's (ExPO).

    Zheng et al. 2024 (arXiv 2404.16792); HelpSteer2-Preference takes alpha 1.52, helpfulness-only
    regression as the weak model and scaled Bradley-Terry begun from it as the strong one. Paper:
    silent. Sums are made in float32. Adapters are merged first.

    Args:
        weak: the model that the strong one was begun from; its adapters are merged.
        strong: is changed.
        alpha: 0 gives the weak model, 1 the strong one.

    Returns:
        The strong model, whose outputs it has.

    Raises:
        ValueError: the two are of different architectures or write conversations in other ways,
            one was frozen, outputs do not fit (`row_of`), or alpha is not finite.
    """
    weak.merge()
    strong.merge()
    _check_alike(weak, strong, alpha)
    start = dict(weak.backbone.named_parameters())
    for name, weight in strong.backbone.named_parameters():
        move(weight, start[name], alpha)
    rows = [row_of(weak, name) for name in strong.attributes]
    head = _head(weak, rows).to(strong.head.weight.device)
    move(strong.head.weight, head.weight, alpha)
    if strong.head.bias is not None:
        move(strong.head.bias, head.bias, alpha)
    strong.folded = None
    strong.warning = ""
    strong.origin = None  # these weights are on no disk until they are saved
    return strong


@torch.no_grad()
def move(weight: torch.Tensor, start: torch.Tensor, alpha: float) -> None:
    """Put start + alpha (weight - start) into a weight, in place; both of one shape.

    By hand: from 1 through 2, alpha 1.52 gives 2.52. Paper: silent.
    """
    origin = start.float().to(weight.device)
    weight.copy_(origin + alpha * (weight.float() - origin))


def _check_alike(weak: RewardModel, strong: RewardModel, alpha: float) -> None:
    """Raise ValueError where nothing lies on the line through the two; as for `extrapolated`."""
    if not math.isfinite(alpha):
        raise ValueError(f"alpha is a finite number, got {alpha}")
    if weak.rounded or strong.rounded:
        raise ValueError("a frozen model's weights were rounded: load it again")
    if weak.written != strong.written:
        raise ValueError(
            f"the two models write conversations in other ways, {weak.written} and {strong.written}"
        )
    if (weak.head.bias is None) != (strong.head.bias is None):
        raise ValueError("one of the two heads has a bias, the other has none")
    shapes = []
    for model in (weak, strong):
        named = model.backbone.named_parameters()
        shapes.append({name: tuple(weight.shape) for name, weight in named})
    if shapes[0] != shapes[1]:
        differing = sorted(
            name
            for name in shapes[0].keys() | shapes[1].keys()
            if shapes[0].get(name) != shapes[1].get(name)
        )
        raise ValueError(
            "the two models are of different architectures: "
            f"{differing[0]} is {shapes[0].get(differing[0])} in the weak one "
            f"and {shapes[1].get(differing[0])} in the strong one"
        )


def save_extrapolated(
    weak: str | Path, strong: str | Path, folder: Path, alpha: float = EXPO
) -> Path:
    """Extrapolate from two saved models and save the result where notebook 06 can read it.

    The file `extrapolated.json` beside it says of what it was made. Paper: silent.

    Args:
        weak: a folder, or a classifier's Hub repository.
        strong: the same.
        folder: a new one.
        alpha: as for `extrapolated`.

    Returns:
        The folder.

    Raises:
        ValueError: the folder is there already; and as `extrapolated`.
    """
    folder = Path(folder)
    if folder.exists():
        raise ValueError(f"{folder} is there already: name a new folder")
    weak_model = load_reward_model(weak)
    strong_model = load_reward_model(strong)
    made_of = {
        "weak": weak_model.fingerprint(),
        "strong": strong_model.fingerprint(),
        "alpha": alpha,
    }
    extrapolated(weak_model, strong_model, alpha).save(folder)
    paths.write(folder / "extrapolated.json", json.dumps(made_of, indent=1) + "\n")
    return folder


def parser() -> argparse.ArgumentParser:
    """The options of the command."""
    options = argparse.ArgumentParser(
        prog="python -m hs2lib.models.derived",
        description="Extrapolate from two saved reward models of one architecture (ExPO).",
    )
    options.add_argument("weak", help="folder of the model that the strong one was begun from")
    options.add_argument("strong", help="folder of the strong model")
    options.add_argument("folder", type=Path, help="new folder to write")
    options.add_argument("--alpha", type=float, default=EXPO, help="0 is weak, 1 strong (1.52)")
    return options


def main(arguments: list[str] | None = None) -> int:
    """Command line: extrapolate from two saved reward models; returns 0, or 2 for an error."""
    args = parser().parse_args(arguments)
    try:
        folder = save_extrapolated(args.weak, args.strong, args.folder, args.alpha)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    print(f"{folder}: score with it by -p model={folder} of notebook 06")
    return 0


if __name__ == "__main__":
    sys.exit(main())
