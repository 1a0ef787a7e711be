"""The reward model: a backbone and a linear head.

Backbones are in `hs2lib.models.backbones`, folding and export in `hs2lib.models.export`.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Self

import torch
import transformers as hf
from safetensors.torch import load_file
from torch import distributed, nn

from hs2lib.engine import checkpoints
from hs2lib.engine.attention import computing, end_states, in_order
from hs2lib.engine.chat import NINE, TokenGroup
from hs2lib.engine.trees import BUDGET
from hs2lib.group import ATTRIBUTES, Group
from hs2lib.models.backbones import (
    as_read,
    load,
    load_tokenizer,
    source_of,
    width,
)
from hs2lib.models.base import STATE, Decoder

if TYPE_CHECKING:
    from hs2lib.engine.trees import Batch


HEAD = "head.safetensors"


class RewardModel(Decoder):
    """A backbone and a linear head on the state of each response's last token: A outputs.

    Paper: section 3 (five outputs; the reference code can have nine, `chat.NINE`).

    The head is float32, whatever the backbone computes in. It has no bias by default, because the
    head of transformers' sequence classifiers has none, and the model shall be exported exactly.
    The state's norm is fixed, so a direction of it serves as the constant.

    Args:
        backbone: as for `Decoder`.
        tokenizer: as for `Decoder`.
        attributes: the names of the outputs.
        bias: whether the head has one.
        seed: of the head's first weights.
        options: as for `Decoder`.
    """

    kind = "reward model"
    settings = ("attributes", "bias")

    # What every caption of its scores must say. Set where a saved model was seen to be weak.
    warning = ""

    # The lowest and the highest rating of each output, where people of one's own rated on a scale
    # of theirs. Without it an output is on HelpSteer2's, or on none.
    scales: Mapping[str, tuple[float, float]] = MappingProxyType({})

    def __init__(
        self,
        backbone: hf.PreTrainedModel,
        tokenizer: hf.PreTrainedTokenizerBase | None,
        attributes: Sequence[str] = ATTRIBUTES,
        *,
        bias: bool = False,
        seed: int = 0,
        **options: object,
    ) -> None:
        super().__init__(backbone, tokenizer, **options)
        self.attributes = check_attributes(attributes)
        # The weights, mean and SD of a head that `hs2lib.models.export.fold` made.
        self.folded: dict | None = None
        self.head = fresh_head(width(backbone), len(self.attributes), bias=bias, seed=seed)

    @classmethod
    def from_classifier(
        cls,
        name: str | Path,
        *,
        revision: str | None = None,
        pad_token: str | None = None,
        **options: object,
    ) -> Self:
        """A published reward model, a transformers sequence classifier, in its own chat template.

        Paper: Table 3 compares such models.

        Its backbone runs on the group engine, its head as it is. One output is "reward". Several
        have the names of its configuration, those of `chat.NINE` first and in that order.

        Args:
            name: a folder or a Hub repository.
            revision: a commit or branch of the repository.
            pad_token: as for `load_tokenizer`.
            options: as for the class.

        Raises:
            ValueError: as `load`; its head is more than one linear layer, or the classifier itself
                scores otherwise.
        """
        classifier = load(hf.AutoModelForSequenceClassification, name, revision)
        heads = [child for child in classifier.children() if isinstance(child, nn.Linear)]
        if len(heads) != 1:
            raise ValueError(
                f"{name}: expected one linear head, {type(classifier).__name__} has {len(heads)}"
            )
        head = heads[0]
        commit = getattr(classifier.config, "_commit_hash", None) or revision
        tokenizer = load_tokenizer(name, revision=revision, pad_token=pad_token)
        options["bias"] = head.bias is not None
        options["base"] = str(name)
        options["revision"] = commit
        if head.out_features == 1:
            names = ("reward",)
        else:
            names = tuple(classifier.config.id2label.values())
        order = _output_order(names)
        backbone = classifier.base_model
        model = cls(backbone, tokenizer, [names[i] for i in order], **options).eval()
        model.read = as_read(name, classifier.config)
        model.head.load_state_dict({key: value[order] for key, value in head.state_dict().items()})
        text = [[token for token in range(16) if token != tokenizer.pad_token_id]]
        with torch.no_grad():
            ids = torch.tensor(text)  # [1, T]
            expected = classifier.eval()(input_ids=ids).logits[0, order]  # [A]
            outputs = model.predict(model.backbone(input_ids=ids).last_hidden_state[0, -1])  # [A]
        difference = ((outputs - expected).abs().max() / expected.abs().max()).item()
        if not difference <= 1e-4:
            raise ValueError(
                f"{name} is not supported: {type(classifier).__name__}'s own score is another than "
                f"that of its head on the last token's state (by {difference:.2%})"
            )
        return model

    def predict(self, states: torch.Tensor) -> torch.Tensor:
        """Outputs [R, A] of end-of-response states [R, hidden], in float32 under any autocast."""
        with torch.autocast(states.device.type, enabled=False):
            return self.head(states.float())

    def score(
        self, groups: Iterable[Group] | Iterable[TokenGroup], **options: object
    ) -> torch.Tensor:
        """Outputs float32 [R, A] of every response, in the caller's order, without gradients.

        A score does not depend on what else is scored beyond the rounding of sums (float32 about
        1e-6). A refused response has nan.

        Args:
            groups: texts, or tokens.
            options: budget, autocast, cache and progress, as for `rows`.

        Raises:
            ValueError: there are no groups, one is too long, or a score is not finite.
        """
        groups = list(groups)
        values = self.rows(self.as_tokens(groups), "scores", **options)  # [R, A]
        if not values.isfinite().all():
            raise ValueError(
                f"{self.base}: a score is not finite: "
                "its weights are broken, or too large for autocast"
            )
        refused = []
        for group in groups:
            refused += self.refused(group.group if isinstance(group, TokenGroup) else group)
        if any(refused):
            values[torch.tensor(refused)] = torch.nan
        return values

    def _computed(self, groups: Iterable[TokenGroup], budget: int, autocast: str) -> torch.Tensor:
        sequences = (group.sequences for group in groups)
        return self.score_tokens(sequences, budget=budget, autocast=autocast)

    def score_tokens(
        self,
        token_groups: Iterable[Sequence[list[int]]],
        *,
        budget: int = BUDGET,
        autocast: str = "float32",
    ) -> torch.Tensor:
        """`score` for groups that are token sequences already.

        Args:
            token_groups: of each group its sequences, lists of token ids.
            budget: tokens of a batch.
            autocast: "bfloat16" for speed.
        """

        def score_batch(batch: "Batch") -> torch.Tensor:
            return self.predict(end_states(self.backbone, batch))  # [R, A]

        with computing(self, autocast):
            shared = distributed.is_initialized()
            return in_order(score_batch, token_groups, budget, shared=shared)

    def _write_more(self, folder: Path) -> dict:
        checkpoints.write(self.head.state_dict(), folder / HEAD)
        state = {"bias": self.head.bias is not None, "folded": self.folded}
        if self.scales:
            state["scales"] = dict(self.scales)
        return state

    def _load_more(self, folder: Path, state: dict) -> None:
        self.head.load_state_dict(load_file(folder / HEAD))
        self.folded = state["folded"]
        self.scales = {name: tuple(ends) for name, ends in state.get("scales", {}).items()}


def _output_order(names: Sequence[str]) -> list[int]:
    """The positions of a classifier's outputs, those of NINE first and in that order."""

    def rank(position: int) -> int:
        name = names[position]
        return NINE.index(name) if name in NINE else len(NINE)

    return sorted(range(len(names)), key=rank)


def fresh_head(hidden: int, outputs: int, *, bias: bool = False, seed: int = 0) -> nn.Linear:
    """A linear head, float32, with a small start: predictions begin near 0.

    So the first steps are not spent undoing noise. Paper: silent.

    Args:
        hidden: numbers of a state.
        outputs: of the head.
        bias: whether it has one, which begins at 0.
        seed: of its weights.
    """
    head = nn.Linear(hidden, outputs, bias=bias, dtype=torch.float32)
    with torch.no_grad():
        generator = torch.Generator().manual_seed(seed)
        head.weight.normal_(0, 0.02 / hidden**0.5, generator=generator)
        if bias:
            head.bias.zero_()
    return head


def check_attributes(attributes: Sequence[str]) -> tuple[str, ...]:
    """The outputs' names as a tuple.

    Raises:
        ValueError: there are none, one occurs twice, or those of the reference code's nine are in
            another order.
    """
    names = tuple(attributes)
    ordered = [name for name in names if name in NINE] == [name for name in NINE if name in names]
    if not names or len(set(names)) < len(names) or isinstance(attributes, str) or not ordered:
        raise ValueError(
            f"expected attributes, each once, those of {NINE} in this order, got {attributes!r}"
        )
    return names


def load_reward_model(name: str | Path, **options: object) -> RewardModel:
    """Any reward model: a folder that `RewardModel.save` wrote, or a classifier.

    Args:
        name: the folder, or a classifier's folder or Hub repository.
        options: for a classifier, as for `RewardModel.from_classifier`; a saved model has its own.
    """
    folder = Path(source_of(name))
    if (folder / STATE).is_file():
        return RewardModel.load(folder)
    return RewardModel.from_classifier(name, **options)
