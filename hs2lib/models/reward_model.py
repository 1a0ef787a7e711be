"""The reward model: a backbone and a linear head.

Backbones are in `hs2lib.models.backbones`, folding and export in `hs2lib.models.export`.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

import torch
import transformers as hf
from safetensors.torch import load_file, save_file
from torch import distributed, nn

from hs2lib.engine.attention import computing, end_states, in_order
from hs2lib.engine.chat import NINE, TokenGroup
from hs2lib.engine.contract import TOLERANCE, examples, plain_states
from hs2lib.engine.trees import BUDGET
from hs2lib.group import ATTRIBUTES, Group
from hs2lib.models.backbones import as_read, check_causal, load_tokenizer, text_model, where, width
from hs2lib.models.base import STATE, Decoder
from hs2lib.train.checkpoints import gathered


class RewardModel(Decoder):
    """A backbone and a linear head on the state of each response's last token: A outputs, one per
    attribute.

    Paper: section 3 (five outputs; the reference code can have nine, `chat.NINE`). The head is
    float32, whatever the backbone computes in. bias: off by default, because the head of
    transformers' sequence classifiers has none, and the model shall be exported exactly; the
    state's norm is fixed, so a direction of it serves as the constant.
    """

    kind, settings = "reward model", ("attributes", "bias")
    warning = (
        ""  # what every caption of its scores must say: set where a saved model was seen to be weak
    )

    def __init__(
        self,
        backbone: nn.Module,
        tokenizer,
        attributes=ATTRIBUTES,
        *,
        bias=False,
        seed=0,
        **options,
    ):
        super().__init__(backbone, tokenizer, **options)
        self.attributes = check_attributes(attributes)
        self.folded: dict | None = (
            None  # the weights, mean and SD of a head that `hs2lib.models.export.fold` made
        )
        self.head = nn.Linear(width(backbone), len(self.attributes), bias=bias, dtype=torch.float32)
        # A small start: predictions begin near 0, so that the first steps are not spent undoing
        # noise.
        with torch.no_grad():
            draw = torch.Generator().manual_seed(seed)
            self.head.weight.normal_(0, 0.02 / self.head.in_features**0.5, generator=draw)
            if bias:
                self.head.bias.zero_()

    @classmethod
    def from_classifier(
        cls,
        name: str | Path,
        *,
        revision: str | None = None,
        pad_token: str | None = None,
        **options,
    ):
        """A published reward model, a transformers sequence classifier, in its own chat template.

        Paper: Table 3 compares such models. Its backbone runs on the group engine, its head as it
        is. One output is "reward", several have the names of its configuration, those we know in
        our order. options: as for the class. Raises ValueError for a model that is no causal
        decoder, for a head that is more than one linear layer, for a checkpoint without a trained
        head, and where the classifier itself scores otherwise.
        """
        place = where(name)
        config = hf.AutoConfig.from_pretrained(place, revision=revision, trust_remote_code=False)
        check_causal(name, config)
        read = {
            "revision": revision,
            "trust_remote_code": False,
            "use_safetensors": True,
            "dtype": torch.float32,
        }
        loader = hf.AutoModelForSequenceClassification
        plain, report = loader.from_pretrained(
            place, config=config, output_loading_info=True, **read
        )
        heads = [child for child in plain.children() if isinstance(child, nn.Linear)]
        if len(heads) != 1:
            raise ValueError(
                f"{name}: expected one linear head, {type(plain).__name__} has {len(heads)}"
            )
        if report["missing_keys"]:
            raise ValueError(
                f"{name} is no trained reward model: {sorted(report['missing_keys'])[0]} is not in it"
            )
        commit = getattr(plain.config, "_commit_hash", None) or revision
        tokenizer = load_tokenizer(name, revision=revision, pad_token=pad_token)
        options |= {"bias": heads[0].bias is not None, "base": str(name), "revision": commit}
        names = ("reward",) if heads[0].out_features == 1 else tuple(plain.config.id2label.values())
        order = sorted(
            range(len(names)), key=lambda i: NINE.index(names[i]) if names[i] in NINE else len(NINE)
        )
        backbone = text_model(getattr(plain, plain.base_model_prefix))
        model = cls(backbone, tokenizer, [names[i] for i in order], **options).eval()
        model.read = as_read(name, plain.config)
        model.head.load_state_dict(
            {key: value[order] for key, value in heads[0].state_dict().items()}
        )
        text = [token for token in examples(backbone)[0][0] if token != tokenizer.pad_token_id]
        with torch.no_grad():
            theirs = plain.eval()(input_ids=torch.tensor([text])).logits[0, order]  # [A]
            ours = model.predict(plain_states(model.backbone, text)[-1])  # [A]
        if (
            not (off := ((ours - theirs).abs().max() / theirs.abs().max()).item())
            <= TOLERANCE[torch.float32]
        ):
            what = f"{type(plain).__name__}'s own score is another than that of its head on the last token's state"
            raise ValueError(f"{name} is not supported: {what} (by {off:.2%})")
        return model

    def predict(self, states: torch.Tensor) -> torch.Tensor:
        """Outputs [R, A] of end-of-response states [R, hidden], in float32 whatever autocast says."""
        with torch.autocast(states.device.type, enabled=False):
            return self.head(states.float())

    def score(self, groups: Iterable[Group] | Iterable[TokenGroup], **options) -> torch.Tensor:
        """Outputs float32 [R, A] of every response of the groups, in the caller's order, without
        gradients.

        options: budget, autocast and cache, as for `rows`. A score does not depend on what else is
        scored beyond the rounding of sums (float32 about 1e-6). A refused response has nan. Raises
        ValueError for no groups, for over-long ones, and for scores that are not finite.
        """
        groups = list(groups)
        values = self.rows(self.as_tokens(groups), "scores", **options)
        if not values.isfinite().all():
            raise ValueError(
                f"{self.base}: a score is not finite: its weights are broken, or too large for autocast"
            )
        refused = [no for group in groups for no in self.refused(getattr(group, "group", group))]
        if any(refused):
            values[torch.tensor(refused)] = torch.nan
        return values

    def _computed(self, groups: list[TokenGroup], budget: int, autocast: str) -> torch.Tensor:
        return self.score_tokens(
            (group.sequences for group in groups), budget=budget, autocast=autocast
        )

    def score_tokens(
        self, token_groups: Iterable, *, budget: int = BUDGET, autocast: str = "float32"
    ):
        """`score` for groups that are token sequences already: an iterable of lists of lists of
        token ids.

        budget: tokens a batch. autocast: "bfloat16" for speed.
        """
        with computing(self, autocast):
            function, shared = (
                lambda b: self.predict(end_states(self.backbone, b)),
                distributed.is_initialized(),
            )
            return in_order(function, token_groups, budget, shared=shared)

    def _save_more(self, into: Path) -> dict:
        save_file(gathered(self.head.state_dict()), into / "head.safetensors")
        return {"bias": self.head.bias is not None, "folded": self.folded}

    def _load_more(self, folder: Path, state: dict) -> None:
        self.head.load_state_dict(load_file(folder / "head.safetensors"))
        self.folded = state["folded"]
        about = folder / "verdict.txt"  # notebook 05's sentence on the model that it saved
        verdict = about.read_text().strip() if about.is_file() else ""
        self.warning = verdict if "NO better" in verdict or "untrained" in verdict else ""


def check_attributes(attributes: Sequence[str]) -> tuple[str, ...]:
    """The outputs' names, refused if there are none, one twice, or the reference code's nine in another order."""
    names = tuple(attributes)
    ordered = [name for name in names if name in NINE] == [name for name in NINE if name in names]
    if not names or len(set(names)) < len(names) or isinstance(attributes, str) or not ordered:
        raise ValueError(
            f"expected attributes, each once, those of {NINE} in this order, got {attributes!r}"
        )
    return names


def load_reward_model(name: str | Path, **options) -> RewardModel:
    """Any reward model: a folder that `RewardModel.save` wrote, or a classifier from a folder or
    the Hub.

    options: for a classifier, as for `RewardModel.from_classifier`; a saved model has its own.
    """
    place = Path(where(name))
    if (place / STATE).is_file():
        return RewardModel.load(place)
    return RewardModel.from_classifier(name, **options)
