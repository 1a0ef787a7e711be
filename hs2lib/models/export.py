"""A reward model for others: one output, in a folder that plain transformers scores.

    goodness = fold(model, head_weights("goodness", model.attributes))
    export(goodness, "runs/export/goodness", data="nvidia/HelpSteer2", rewardbench=table)

`AutoModelForSequenceClassification` pools the last token that is not padding and has a head without
bias. So a text has to end in its closing marker and never in the pad token, and a constant cannot
be exported: see `export`.
"""

import copy
import math
import shutil
from collections.abc import Sequence
from pathlib import Path

import torch
import transformers as hf
from jinja2 import Template
from torch import nn

from hs2lib.engine.chat import SYSTEM_PROMPT
from hs2lib.group import Group, Response, Turn
from hs2lib.models.backbones import replace_folder
from hs2lib.models.reward_model import RewardModel

# Largest difference between a score of the exported model and ours: padding changes the order of
# float32 sums.
TOLERANCE = 1e-4

_FOLDER = Path(__file__).parent

# Conversations that every export is checked on: short and long, several turns, an empty answer,
# letters beyond ASCII.
_TURNS = (
    Turn("user", "Name a prime."),
    Turn("assistant", "Seven."),
    Turn("user", "And another one, please?"),
)

CHECKED = (
    Group(
        "one turn",
        _TURNS[:1],
        (Response("a", "7"), Response("b", "Two is one; so are three, five and seven. " * 9)),
    ),
    Group(
        "three turns",
        _TURNS,
        (Response("c", "11\n\n1. Eleven"), Response("d", "Größer: 101 → prime")),
    ),
)


def fold(
    model: RewardModel,
    weights: Sequence[float],
    *,
    mean: float = 0.0,
    sd: float = 1.0,
    name: str = "goodness",
) -> RewardModel:
    """A one-output model whose score is (sum of weight x attribute - mean) / sd.

    Paper: appendix H (weights of the heads on RewardBench), section 4.3 (goodness), section 4.4
    (PPO subtracts its mean and divides by its SD).

    It shares the model's backbone, which is not copied. The head is folded in float64. A mean, or
    the bias of the model's own head, becomes a bias.

    Args:
        model: with A outputs.
        weights: one for each output (`hs2lib.paper.head_weights` makes them by name).
        mean: taken off the weighted sum.
        sd: that the difference is divided by.
        name: of the output.

    Raises:
        ValueError: there are not A weights, a weight or the mean is not finite, the sd is not
            positive, or the model is frozen.
    """
    if len(weights) != len(model.attributes):
        raise ValueError(
            f"{len(weights)} weights for {len(model.attributes)} outputs {model.attributes}"
        )
    model.check_exact()
    if not all(map(math.isfinite, (*weights, mean, sd))) or sd <= 0:
        raise ValueError(
            "expected finite weights and mean and a positive sd, "
            f"got {list(weights)}, {mean} and {sd}"
        )
    w = torch.tensor(weights, dtype=torch.float64, device=model.head.weight.device)  # [A]
    constant = -mean
    if model.head.bias is not None:
        constant = (w @ model.head.bias.double()).item() - mean
    folded = RewardModel(
        model.backbone,
        model.tokenizer,
        (name,),
        bias=constant != 0,
        template=model.template,
        control_text=model.control_text,
        max_tokens=model.max_tokens,
        base=model.base,
        revision=model.revision,
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


def export(model: RewardModel, folder: Path, **card: object) -> float:
    """Write a folder that plain `AutoModelForSequenceClassification` scores as this model does.

    Paper: silent.

    The folder has safetensors, the tokenizer with the model's template as its chat template (also
    the reference one), README.md, the model card, and use.py, which scores with it. Adapters are
    merged (into a copy). The folder
    is loaded back and scores CHECKED in one padded batch: it appears only if every score is within
    TOLERANCE of ours.

    Heads of transformers have no bias, and nothing else at a decoder's end is a constant, so a
    constant is left out. Every score is then lower by it, while differences and rankings are
    unchanged. config.json (`hs2_constant`) and the card give it. Train without bias and fold with
    mean 0 to have none.

    Args:
        model: with any number of outputs.
        folder: the target.
        card: facts, as for `model_card`.

    Returns:
        The largest difference of a score.

    Raises:
        ValueError: an export would not score the same.
    """
    bias = torch.zeros(len(model.attributes))  # [A]
    if model.head.bias is not None:
        bias = model.head.bias.detach().cpu()
    tokenizer = copy.deepcopy(model.tokenizer)
    tokenizer.padding_side = "right"
    if model.template == "reference":
        # As a chat template, so that a plain tokenizer writes what ours writes.
        template = (_FOLDER / "reference_chat.txt").read_text().rstrip("\n")
        system_prompt = SYSTEM_PROMPT.replace("'", "\\'")
        tokenizer.chat_template = template.replace("SYSTEM_PROMPT", system_prompt)
    classifier = _classifier(model, tokenizer)
    if bias.any():
        classifier.config.hs2_constant = bias.tolist()
    worst = math.inf

    def write(temporary: Path) -> None:
        nonlocal worst
        classifier.save_pretrained(temporary)
        tokenizer.save_pretrained(temporary)
        text = model_card(model, Path(folder).name, bias.tolist(), **card)
        (temporary / "README.md").write_text(text)
        shutil.copy(_FOLDER / "use.txt", temporary / "use.py")
        worst = _compare(model, temporary, bias)

    replace_folder(folder, write)
    return worst


def _classifier(model: RewardModel, tokenizer: hf.PreTrainedTokenizerBase) -> hf.PreTrainedModel:
    """transformers' sequence classifier over the model's backbone, with its head."""
    backbone = copy.deepcopy(model).merge().backbone if model.adapter else model.backbone
    config = copy.deepcopy(backbone.config)
    config.pad_token_id = tokenizer.pad_token_id
    config.id2label = dict(enumerate(model.attributes))  # and with it num_labels
    config.label2id = {name: i for i, name in enumerate(model.attributes)}
    with torch.device("meta"):  # only the frame: the weights are put in below
        classifier = hf.AutoModelForSequenceClassification.from_config(config)
    heads = [child for child in classifier.children() if isinstance(child, nn.Linear)]
    (head,) = heads
    head.weight = nn.Parameter(model.head.weight.detach().to(backbone.dtype).clone())
    setattr(classifier, classifier.base_model_prefix, backbone)
    return classifier


def _compare(model: RewardModel, folder: Path, bias: torch.Tensor) -> float:
    """The largest difference between our scores and those of the folder, read as any user would.

    Args:
        model: the model that was exported.
        folder: that it was written to.
        bias: [A], which the folder's scores are without.

    Raises:
        ValueError: the difference is above TOLERANCE.
    """
    tokenizer = hf.AutoTokenizer.from_pretrained(folder)
    classifier = hf.AutoModelForSequenceClassification.from_pretrained(folder, dtype=torch.float32)
    classifier.eval()
    conversations = []
    for group in CHECKED:
        for response in group.responses:
            turns = (*group.prompt, Turn("assistant", response.text))
            conversations.append([{"role": turn.role, "content": turn.text} for turn in turns])
    batch = tokenizer.apply_chat_template(
        conversations, padding=True, return_tensors="pt", return_dict=True
    )
    expected = model.score(CHECKED).cpu() - bias  # [R, A]
    with torch.no_grad():
        worst = (classifier(**batch).logits - expected).abs().max().item()
    if not worst <= TOLERANCE * max(1.0, expected.abs().max().item()):
        raise ValueError(
            f"the exported scores differ by up to {worst:.2g} from this model's: "
            "nothing was written"
        )
    return worst


def model_card(model: RewardModel, name: str, constant: Sequence[float], **facts: object) -> str:
    """The model card as Markdown: what the model scores, how to use it, what it was made from.

    Args:
        model: that is exported.
        name: the title.
        constant: what each output's score is lower by.
        facts: data (a text on what the model was trained on), rewardbench, held_out and thresholds
            (tables of its scores, of its metrics on held-out rows, and of the differences from
            which the order may be trusted), scales (of outputs, the scale that people rated on, in
            words), differences (sentences on what a difference of two scores means).
    """
    card = Template((_FOLDER / "card.txt").read_text(), trim_blocks=True, lstrip_blocks=True)
    over = Path(model.base).name or "a causal decoder"
    rounded = [round(value, 6) for value in constant]
    return card.render(model=model, name=name, over=over, constant=rounded, **facts).rstrip() + "\n"
