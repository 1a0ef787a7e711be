"""A reward model for others: one output, in a folder that plain transformers scores.

    goodness = fold(model, head_weights("goodness", model.attributes))
    export(goodness, "runs/export/goodness", data="nvidia/HelpSteer2", metrics=..., rewardbench=...)

`AutoModelForSequenceClassification` pools the last token that is not padding and has a head without
bias. So a text has to end in its closing marker and never in the pad token, and a constant cannot
be exported: see `export`.
"""

import copy
import math
from collections.abc import Sequence
from pathlib import Path

import torch
import transformers as hf
from jinja2 import Environment, FileSystemLoader
from torch import nn

from hs2lib.engine.chat import SYSTEM_PROMPT
from hs2lib.group import Group, Response, Turn
from hs2lib.models.backbones import replace_folder
from hs2lib.models.reward_model import RewardModel

# Largest difference between a score of the exported model and ours: padding changes the order of
# float32 sums.
TOLERANCE = 1e-4

_HERE = Path(__file__).parent

# Conversations that every export is checked on: short and long, several turns, an empty answer,
# letters beyond ASCII.
_TALK = (
    Turn("user", "Name a prime."),
    Turn("assistant", "Seven."),
    Turn("user", "And another one, please?"),
)

CHECKED = (
    Group(
        "one turn",
        _TALK[:1],
        (Response("a", "7"), Response("b", "Two is one; so are three, five and seven. " * 9)),
    ),
    Group(
        "three turns",
        _TALK,
        (Response("c", "11\n\n1. Eleven"), Response("d", "Größer: 101 → prime")),
    ),
)


def fold(
    model: RewardModel, weights: Sequence[float], *, mean=0.0, sd=1.0, name="goodness"
) -> RewardModel:
    """A one-output model whose score is (sum of weight x attribute - mean) / sd, over the same
    backbone (not copied).

    Paper: appendix H (weights of the heads on RewardBench), section 4.3 (goodness), section 4.4
    (PPO subtracts its mean and divides by its SD). weights: one for each of the A outputs
    (`hs2lib.paper.head_weights` makes them by name). Folded in float64. A mean, or the bias of the
    model's own head, becomes a bias. Raises ValueError for another number of weights, an sd that is
    not positive, weights that are not finite, and a frozen model.
    """
    if len(weights) != len(model.attributes):
        raise ValueError(
            f"{len(weights)} weights for {len(model.attributes)} outputs {model.attributes}"
        )
    if model.rounded:
        raise ValueError("these weights were rounded when the model was frozen: fold it before")
    if not all(map(math.isfinite, (*weights, mean, sd))) or sd <= 0:
        raise ValueError(
            f"expected finite weights and mean and a positive sd, got {list(weights)}, {mean} and {sd}"
        )
    w = torch.tensor(weights, dtype=torch.float64, device=model.head.weight.device)  # [A]
    constant = -mean if model.head.bias is None else (w @ model.head.bias.double()).item() - mean
    options = {
        key: getattr(model, key)
        for key in ("template", "control_text", "max_tokens", "base", "revision")
    }
    folded = RewardModel(
        model.backbone, model.tokenizer, (name,), bias=constant != 0, **options
    ).to(w.device)
    with torch.no_grad():
        folded.head.weight.copy_(w @ model.head.weight.double() / sd)
        if folded.head.bias is not None:
            folded.head.bias.fill_(constant / sd)
    folded.adapter = model.adapter
    folded.origin = model.origin
    folded.read = model.read
    folded.control_strings = model.control_strings
    folded.folded = {
        "weights": dict(zip(model.attributes, map(float, weights), strict=True)),
        "mean": mean,
        "sd": sd,
    }
    return folded.train(model.training)


def export(model: RewardModel, folder: Path, **card) -> float:
    """Write a folder that plain `AutoModelForSequenceClassification` loads and scores as this model
    does.

    Paper: silent. safetensors, the tokenizer with the model's template as its chat template (also
    the reference one), and README.md, the model card; `card` goes to `model_card`. Adapters are
    merged (into a copy). The folder is loaded back and scores CHECKED in one padded batch: it
    appears only if every score is within TOLERANCE of ours. Heads of transformers have no bias, and
    nothing else at a decoder's end is a constant, so one is left out: then every score is lower by
    it, which config.json (`hs2_constant`) and the card give, and differences and rankings are
    unchanged. Train without bias and fold with mean 0 to have none. Returns the largest difference
    seen. Raises ValueError where an export could not score the same.
    """
    bias = (
        torch.zeros(len(model.attributes))
        if model.head.bias is None
        else model.head.bias.detach().cpu()
    )  # [A]
    tokenizer = copy.deepcopy(model.tokenizer)
    tokenizer.padding_side = "right"
    if (
        model.template == "reference"
    ):  # as a chat template, so that a plain tokenizer writes what ours writes
        template = (_HERE / "reference_chat.txt").read_text().rstrip("\n")
        tokenizer.chat_template = template.replace(
            "SYSTEM_PROMPT", SYSTEM_PROMPT.replace("'", "\\'")
        )
    plain = _classifier(model, tokenizer)
    if bias.any():
        plain.config.hs2_constant = bias.tolist()
    worst = math.inf

    def write(into: Path) -> None:
        nonlocal worst
        plain.save_pretrained(into)
        tokenizer.save_pretrained(into)
        (into / "README.md").write_text(model_card(model, Path(folder).name, bias.tolist(), **card))
        worst = _compare(model, into, bias)

    replace_folder(folder, write)
    return worst


def _classifier(model: RewardModel, tokenizer) -> nn.Module:
    """transformers' sequence classifier over the model's backbone, with its head."""
    backbone = copy.deepcopy(model).merge().backbone if model.adapter else model.backbone
    config = copy.deepcopy(backbone.config)
    config.pad_token_id = tokenizer.pad_token_id
    config.id2label = dict(enumerate(model.attributes))  # and with it num_labels
    config.label2id = {name: i for i, name in enumerate(model.attributes)}
    with torch.device("meta"):  # only the frame: the weights are put in below
        plain = hf.AutoModelForSequenceClassification.from_config(config)
    (head,) = [child for child in plain.children() if isinstance(child, nn.Linear)]
    head.weight = nn.Parameter(model.head.weight.detach().to(backbone.dtype).clone())
    setattr(plain, plain.base_model_prefix, backbone)
    return plain


def _compare(model: RewardModel, folder: Path, bias: torch.Tensor) -> float:
    """Largest difference between our scores and those of the folder, read and run as any user of it would."""
    tokenizer = hf.AutoTokenizer.from_pretrained(folder)
    plain = hf.AutoModelForSequenceClassification.from_pretrained(
        folder, dtype=torch.float32
    ).eval()
    answered = [
        (*group.prompt, Turn("assistant", one.text)) for group in CHECKED for one in group.responses
    ]
    talks = [[{"role": turn.role, "content": turn.text} for turn in turns] for turns in answered]
    batch = tokenizer.apply_chat_template(
        talks, padding=True, return_tensors="pt", return_dict=True
    )
    expected = model.score(CHECKED).cpu() - bias  # [R, A]
    with torch.no_grad():
        worst = (plain(**batch).logits - expected).abs().max().item()
    if not worst <= TOLERANCE * max(1.0, expected.abs().max().item()):
        raise ValueError(
            f"the exported scores differ by up to {worst:.2g} from this model's: nothing was written"
        )
    return worst


def model_card(
    model: RewardModel, name: str, constant=(), data="not stated", rewardbench=None
) -> str:
    """The model card as Markdown: what the model scores, how to use it, data (text), RewardBench (a table, or None)."""
    context = {"model": model, "name": name, "data": data, "frame": rewardbench}
    context |= {
        "over": Path(model.base).name or "a causal decoder",
        "constant": [round(c, 6) for c in constant],
    }
    jinja = Environment(loader=FileSystemLoader(_HERE), trim_blocks=True, lstrip_blocks=True)
    jinja.filters["cell"] = _cell
    return jinja.get_template("card.txt").render(context).rstrip() + "\n"


def _cell(value) -> str:
    return (
        (f"{value:.4g}" if isinstance(value, float) else str(value))
        .replace("|", "\\|")
        .replace("\n", " ")
    )
