"""What a reward model and a policy share: backbone, tokenizer, adapters, fingerprint, folder."""

import json
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import torch
from peft import (
    LoraConfig,
    get_peft_model_state_dict,
    inject_adapter_in_model,
    set_peft_model_state_dict,
)
from peft.tuners.tuners_utils import BaseTunerLayer
from safetensors.torch import load_file, save_file
from torch import distributed, nn

from hs2lib import code, paths
from hs2lib.engine.attention import alone
from hs2lib.engine.cache import Cache, content_key
from hs2lib.engine.chat import TokenGroup, control_strings, tokenise
from hs2lib.engine.trees import BUDGET
from hs2lib.group import Group
from hs2lib.models.backbones import as_read, load_backbone, load_tokenizer, replace_folder
from hs2lib.train import checkpoints
from hs2lib.train.progress import progress_bar

STATE = "hs2.json"

CHUNK = (
    64  # groups that each process computes before they are kept: a killed run loses at most these
)


class Decoder(nn.Module):
    """A backbone that the engine runs, with how conversations are written for it; the base of two
    classes.

    `base` and `revision` say what the model came from; `origin` is where the weights under its
    adapters are read from again, a folder or a Hub repository (None: they are on no disk, because
    adapters were merged into them).
    """

    attributes: tuple[str, ...] = ()
    causal = False  # whether the backbone keeps its vocabulary projection
    rounded: Mapping[
        str, str
    ] = {}  # of each weight its digest before `frozen` rounded some of them
    root = None  # what gathers the weights where they are shared out over processes: `checkpoints.shard` sets it
    kind, settings = (
        "",
        (),
    )  # what errors call it, and what a subclass's constructor takes of hs2.json besides

    def __init__(
        self,
        backbone: nn.Module,
        tokenizer,
        *,
        template="chat",
        control_text="escape",
        max_tokens=None,
        base="",
        revision=None,
        origin=None,
    ):
        super().__init__()
        self.backbone, self.tokenizer, self.template, self.control_text = (
            backbone,
            tokenizer,
            template,
            control_text,
        )
        self.base, self.revision, self.origin = base, revision, origin or base
        self.max_tokens = max_tokens or getattr(backbone.config, "max_position_embeddings", None)
        self.adapter: dict | None = None
        self.read: dict[str, str] = {}  # what the weights were read from, as `hs2lib.paths.as_read`
        self.scored_one_by_one = alone(
            backbone
        )  # the backbone's class -> why, where its sequences were not grouped
        self.reused: list[
            Path
        ] = []  # files of scores and samples by other code that were read (`--reuse`)
        self.control_strings: dict[
            tuple, bool
        ] = {}  # (prompt, text) that spells some out -> whether it was set aside
        if hasattr(backbone, "hs2_weights"):
            checkpoints.shard(self, part=backbone)

    @classmethod
    def new(
        cls,
        name: str | Path,
        *,
        revision: str | None = None,
        pad_token: str | None = None,
        **options,
    ):
        """A model over the backbone `name` (of `NAMED`, a folder, a Hub repository); options as for
        the class.

        Raises ValueError where there is no such causal decoder, or its tokenizer lacks a pad token
        of its own.
        """
        backbone = load_backbone(name, revision=revision, head=cls.causal)
        commit = getattr(backbone.config, "_commit_hash", None) or revision
        tokenizer = load_tokenizer(name, revision=revision, pad_token=pad_token)
        model = cls(backbone, tokenizer, base=str(name), revision=commit, **options)
        model.read = as_read(name, backbone.config)
        return model

    def to(self, *args, **options):
        """As of any module; a model that is shared out over processes stays where it is."""
        return self if self.root else super().to(*args, **options)

    def frozen(self, autocast: str):
        """Let this model only be run from now on, in place, in half the memory where `autocast` is
        "bfloat16".

        Paper: silent. Its projections are kept as what autocast makes of them at each call, so that
        no number changes, nor the fingerprint; embeddings, norms and heads stay float32. Where
        weights are shared out they stay as they are. It cannot be trained, exported or saved.
        """
        if autocast == "bfloat16" and not self.root:
            self.rounded = {
                name: checkpoints.weight_digest(name, weight)
                for name, weight in self.state_dict().items()
            }
            table, self.backbone.hs2_dtype = (
                self.backbone.get_input_embeddings().weight,
                torch.bfloat16,
            )
            for module in self.backbone.modules():
                if isinstance(module, nn.Linear) and module.weight is not table:
                    module.to(torch.bfloat16)
        return self.eval().requires_grad_(False)

    def fingerprint(self) -> str:
        """A short name for what this model computes: it changes with the weights, the template or the length."""
        settings = [self.attributes, self.template, self.max_tokens, self.control_text]
        return f"{Path(self.base).name or 'model'}-{checkpoints.weights_digest(self, json.dumps(settings).encode())}"

    @property
    def written(self) -> dict:
        """How a conversation is written for this model: the options of `chat.written`."""
        return {"template": self.template, "control_text": self.control_text}

    def tokenise(self, groups: Iterable[Group], **options) -> Iterable[TokenGroup | None]:
        """Token groups in this model's template and length, as `chat.tokenise` makes them.

        options: too_long.
        """
        return tokenise(
            groups, self.tokenizer, max_tokens=self.max_tokens, **self.written, **options
        )

    def refused(self, group: Group) -> list[bool]:
        """Which responses are set aside: with control_text "refuse" those that spell out control
        strings.

        A prompt that does so refuses them all. `control_strings` of the model keeps all that do.
        Paper: silent.
        """
        aside, spelt = (
            self.control_text == "refuse",
            control_strings(group, self.tokenizer, self.template),
        )
        texts = [
            response.text
            for response, strings in zip(group.responses, spelt, strict=True)
            if strings
        ]
        self.control_strings.update(((group.prompt, text), aside) for text in texts)
        return [aside and bool(strings) for strings in spelt]

    def admitted(self, group: Group) -> Group:
        """The group without its refused responses."""
        refused = self.refused(group)
        kept = tuple(
            response for response, no in zip(group.responses, refused, strict=True) if not no
        )
        return replace(group, responses=kept) if any(refused) else group

    def as_tokens(
        self, groups: Iterable[Group] | Iterable[TokenGroup], **options
    ) -> Iterable[TokenGroup]:
        """Token groups as they are; groups tokenised, with the options of `tokenise`."""
        groups = list(groups)
        if not groups or not isinstance(groups[0], TokenGroup):
            return self.tokenise(groups, **options)
        if any(value is not None for value in options.values()):
            raise ValueError(
                "these groups are tokens already, with or without a label: pass label to `tokenise`"
            )
        return groups

    def rows(
        self,
        groups: Iterable[TokenGroup],
        name: str,
        *,
        budget: int = BUDGET,
        autocast="float32",
        cache: Path | None = None,
        progress=False,
    ) -> torch.Tensor:
        """What this model computes of every response, float32 [R, ...], in the caller's order.

        groups: whatever has sequences and starts, items too. budget: tokens a batch. autocast:
        "bfloat16" for speed. cache: a folder or a .jsonl file; the results are kept there as they
        come, under this name, by the weights, the tokens and the code that computes them, and read
        again. A run that was killed goes on, and ends with the same numbers bit for bit. progress:
        with a cache, a bar of groups. Several processes call this alike, share the batches out, and
        all get all rows. Paper: silent. Raises ValueError for no groups.
        """
        if cache is None:
            return self._computed(groups, budget, autocast)
        several = distributed.is_initialized()
        settings = {"model": self.fingerprint(), "autocast": autocast}
        kept = Cache(
            cache, settings, name=name, shared=several, code=code.digest(__name__, type(self))
        )
        if kept.reused:
            self.reused.append(kept.reused)
        rows, groups, size = (
            [],
            list(groups),
            CHUNK * (distributed.get_world_size() if several else 1),
        )

        def computed() -> list[dict]:
            return [{"value": value} for value in self._computed(part, budget, autocast).tolist()]

        with progress_bar(len(groups), "group", progress) as bar:
            for start in range(0, len(groups), size):
                part = groups[start : start + size]
                both = [
                    both
                    for group in part
                    for both in zip(group.sequences, group.starts, strict=True)
                ]
                rows += kept.computed([content_key(one, 32) for one in both], computed)
                bar.update(len(part))
        if not rows:
            raise ValueError("no groups to run")
        return torch.tensor([row["value"] for row in rows])

    def lora(self, rank: int = 16, alpha: float = 32.0, dropout: float = 0.0, *, seed: int = 0):
        """Freeze the backbone and put trainable low-rank adapters into its linear layers (peft), in
        place.

        seed: of their random half, so that a run killed before its first checkpoint begins again as
        it began.
        """
        if self.adapter:
            raise ValueError("this model has adapters already")
        settings = LoraConfig(
            r=rank, lora_alpha=alpha, lora_dropout=dropout, target_modules="all-linear"
        )
        self.backbone.requires_grad_(False)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            inject_adapter_in_model(settings, self.backbone)
        self.adapter = {"rank": rank, "alpha": alpha, "dropout": dropout}
        return self

    def merge(self):
        """Add the adapters into the weights, in place, so that the model is a plain one, which can
        be trained again.

        Nothing to do without any.
        """
        for name, module in list(self.backbone.named_modules()):
            if isinstance(module, BaseTunerLayer):
                module.merge()
                self.backbone.set_submodule(name, module.get_base_layer())
        if self.adapter:
            self.adapter = self.origin = None
            del self.backbone.peft_config
            self.backbone.requires_grad_(True)
        return self

    def write(self, folder: Path, writes: bool = True) -> None:
        """Write backbone and tokenizer as transformers does.

        Where processes share the weights out all call this alike, one tensor is gathered at a time,
        and one `writes`.
        """
        if self.root:
            checkpoints.export(
                self.backbone.named_parameters(), folder / checkpoints.WEIGHTS, writes
            )
        own = self.backbone
        parts = (own.config, getattr(own, "generation_config", None)) if self.root else (own,)
        for part in filter(None, (*parts, self.tokenizer)) if writes else ():
            part.save_pretrained(folder)

    def save(self, folder: Path) -> Path:
        """Write the model: safetensors, tokenizer and hs2.json (template, base, revision ..), all
        or nothing.

        With adapters only these are written, not the backbone they sit on; load finds it where it
        lay. Several processes call this alike, and the first one writes; where they share the
        weights out, one tensor is gathered at a time. Raises ValueError where the backbone lies
        nowhere, adapters put on weights that others had been merged into, and for weights that
        `frozen` rounded.
        """
        if self.rounded:
            raise ValueError("these weights were rounded when the model was frozen: save it before")
        if self.adapter and self.origin is None:
            raise ValueError(
                "under these adapters lie weights with others merged in, on no disk: merge these too"
            )
        several = distributed.is_initialized()
        first = not several or distributed.get_rank() == 0

        def write(into: Path) -> None:
            if self.adapter:
                save_file(
                    checkpoints.gathered(get_peft_model_state_dict(self.backbone)),
                    into / "adapter.safetensors",
                )
                self.tokenizer.save_pretrained(into)
            else:
                self.write(into, first)
            names = (
                "attributes",
                "template",
                "control_text",
                "max_tokens",
                "base",
                "revision",
                "origin",
                "adapter",
            )
            state = {name: getattr(self, name) for name in names} | self._save_more(into)
            (into / STATE).write_text(json.dumps(state, indent=1) + "\n")

        if first:
            replace_folder(folder, write)
        else:
            with tempfile.TemporaryDirectory() as nowhere:
                write(Path(nowhere))
        if several:
            distributed.barrier()
        return Path(folder)

    def _save_more(self, into: Path) -> dict:
        """What a subclass writes besides, and adds to hs2.json."""
        return {}

    @classmethod
    def load(cls, folder: Path):
        """Read what `save` wrote, a whole model or adapters. Raises ValueError where the folder has none."""
        folder = Path(folder)
        if not (folder / STATE).is_file():
            raise ValueError(f"{folder} holds no {cls.kind} of hs2lib ({STATE} is not there)")
        state = json.loads((folder / STATE).read_text())
        if (kind := "reward model" if state["attributes"] else "policy") != cls.kind:
            raise ValueError(f"{folder} holds a {kind}, no {cls.kind}")
        # Weights that are all here are what new adapters will sit on; adapters sit where they did.
        origin = state["origin"] if state["adapter"] else str(folder.absolute())
        names = ("template", "control_text", "max_tokens", "base", "revision", *cls.settings)
        revision = state["revision"] if origin == state["base"] else None
        backbone = load_backbone(origin, revision=revision, head=cls.causal)
        model = cls(
            backbone, load_tokenizer(folder), origin=origin, **{name: state[name] for name in names}
        )
        model.read = paths.as_read(folder) | as_read(origin, backbone.config)
        model._load_more(folder, state)
        if state["adapter"]:
            model.lora(**state["adapter"])
            loaded = set_peft_model_state_dict(
                model.backbone, load_file(folder / "adapter.safetensors")
            )
            if loaded.unexpected_keys:
                raise ValueError(
                    f"{folder}: the adapters do not fit {origin}: {loaded.unexpected_keys[0]} .."
                )
        return model.eval()

    def _load_more(self, folder: Path, state: dict) -> None:
        """Read what `_save_more` wrote."""
