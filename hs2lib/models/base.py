"""What a reward model and a policy share: backbone, tokenizer, adapters, fingerprint, folder."""

import json
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Self

import torch
import transformers as hf
from peft import (
    LoraConfig,
    get_peft_model_state_dict,
    inject_adapter_in_model,
    set_peft_model_state_dict,
)
from peft.tuners.tuners_utils import BaseTunerLayer
from safetensors.torch import load_file
from torch import distributed, nn
from tqdm.auto import tqdm

from hs2lib import code, paths, rehearsal
from hs2lib.engine import checkpoints
from hs2lib.engine.cache import Cache, content_key
from hs2lib.engine.chat import TokenGroup, control_strings, tokenise
from hs2lib.engine.contract import longest
from hs2lib.engine.trees import BUDGET
from hs2lib.group import Group
from hs2lib.models.backbones import as_read, load_backbone, load_tokenizer, replace_folder

STATE = "hs2.json"
ADAPTERS = "adapter.safetensors"

# Groups that each process computes before their results are written. A run that is killed loses at
# most these.
CHUNK = 64


class Decoder(nn.Module):
    """A backbone that the engine runs, with how conversations are written for it.

    `RewardModel` and `Policy` are its two subclasses.

    Args:
        backbone: of `load_backbone`.
        tokenizer: of `load_tokenizer`; None for a model that runs on tokens alone.
        template: "chat", the tokenizer's own, or "reference", that of the paper's code.
        control_text: what is done with control strings in a text, "escape" or "refuse" (see
            `hs2lib.engine.chat`).
        max_tokens: the longest sequence; by default that of the backbone.
        base: the name of the model that this one came from.
        revision: the commit of `base`.
        origin: where the weights under its adapters are read from again, a folder or a Hub
            repository; by default `base`. The attribute is None where they are on no disk, because
            adapters were merged into them.
    """

    attributes: tuple[str, ...] = ()
    causal = False  # whether the backbone has its vocabulary projection

    # Where `frozen` rounded weights, the fingerprint that they had before.
    rounded = ""

    # What gathers weights that are shared out over processes; `checkpoints.shard` sets it.
    root: nn.Module | None = None

    kind = ""  # what errors call such a model
    settings: tuple[str, ...] = ()  # arguments of a subclass that hs2.json has besides those above

    def __init__(
        self,
        backbone: hf.PreTrainedModel,
        tokenizer: hf.PreTrainedTokenizerBase | None,
        *,
        template: str = "chat",
        control_text: str = "escape",
        max_tokens: int | None = None,
        base: str = "",
        revision: str | None = None,
        origin: str | None = None,
    ) -> None:
        super().__init__()
        self.backbone = backbone
        self.tokenizer = tokenizer
        self.template = template
        self.control_text = control_text
        self.max_tokens = max_tokens or longest(backbone.config)
        self.base = base
        self.revision = revision
        self.origin = origin or base
        self.adapter: dict | None = None

        # What the weights were read from, as `hs2lib.paths.digests_by_place`.
        self.read: dict[str, str] = {}
        # Of each (prompt, text) that spells out control strings, whether it was set aside.
        self.control_strings: dict[tuple, bool] = {}

        if hasattr(backbone, "hs2_weights"):
            checkpoints.shard(self, part=backbone)

    @classmethod
    def new(
        cls,
        name: str | Path,
        *,
        revision: str | None = None,
        pad_token: str | None = None,
        **options: object,
    ) -> Self:
        """A model over a backbone by name.

        Args:
            name: one of `backbones.NAMED`, a folder or a Hub repository.
            revision: a commit or branch of the repository.
            pad_token: as for `load_tokenizer`.
            options: as for the class.

        Raises:
            ValueError: there is no such causal decoder, or its tokenizer has no pad token but its
                end token.
        """
        backbone = load_backbone(name, revision=revision, head=cls.causal)
        commit = getattr(backbone.config, "_commit_hash", None) or revision
        tokenizer = load_tokenizer(name, revision=revision, pad_token=pad_token)
        model = cls(backbone, tokenizer, base=str(name), revision=commit, **options)
        model.read = as_read(name, backbone.config)
        return model

    def to(self, *args: object, **options: object) -> Self:
        """As of any module; a model that is shared out over processes stays where it is."""
        return self if self.root else super().to(*args, **options)

    def frozen(self, autocast: str) -> Self:
        """Let this model only be run from now on, in place.

        It can then not be trained, exported or saved.

        With autocast "bfloat16" it then takes half the memory. Its projections are stored as what
        autocast makes of them at each call, so no number changes, nor the fingerprint. Embeddings,
        norms and heads stay float32. Weights that are shared out over processes stay as they are.

        Paper: silent.
        """
        if autocast == "bfloat16" and not self.root:
            self.rounded = self.fingerprint()
            embeddings = self.backbone.get_input_embeddings().weight
            for module in self.backbone.modules():
                if isinstance(module, nn.Linear) and module.weight is not embeddings:
                    module.to(torch.bfloat16)
        return self.eval().requires_grad_(False)

    def fingerprint(self) -> str:
        """A short name for what this model computes.

        It changes with the weights, the template, the length and the treatment of control strings.
        """
        if self.rounded:
            return self.rounded
        settings = [self.attributes, self.template, self.max_tokens, self.control_text]
        digest = checkpoints.weights_digest(self, json.dumps(settings).encode())
        return f"{Path(self.base).name or 'model'}-{digest}"

    def check_exact(self) -> None:
        """Raise ValueError where `frozen` rounded the weights."""
        if self.rounded:
            raise ValueError("these weights were rounded when the model was frozen: load it again")

    @property
    def written(self) -> dict[str, object]:
        """How a conversation is written for this model: the options of `chat.written`."""
        return {"template": self.template, "control_text": self.control_text}

    def tokenise(self, groups: Iterable[Group], **options: object) -> Iterator[TokenGroup | None]:
        """Token groups in this model's template and length, as `chat.tokenise` makes them.

        Args:
            groups: texts.
            options: too_long and label, as for `chat.tokenise`.
        """
        return tokenise(
            groups, self.tokenizer, max_tokens=self.max_tokens, **self.written, **options
        )

    def refused(self, group: Group) -> list[bool]:
        """Which responses of a group are set aside because they spell out control strings.

        None is, but with control_text "refuse". A prompt that spells some out refuses all its
        responses. The model's `control_strings` notes all texts that do so, refused or not.

        Paper: silent.
        """
        refuse = self.control_text == "refuse"
        strings = control_strings(group, self.tokenizer, self.template)  # of each response
        for response, spelt_out in zip(group.responses, strings, strict=True):
            if spelt_out:
                self.control_strings[group.prompt, response.text] = refuse
        return [refuse and bool(spelt_out) for spelt_out in strings]

    def admitted(self, group: Group) -> Group:
        """The group without its refused responses."""
        refused = self.refused(group)
        if not any(refused):
            return group
        responses = tuple(
            response
            for response, is_refused in zip(group.responses, refused, strict=True)
            if not is_refused
        )
        return replace(group, responses=responses)

    def as_tokens(
        self, groups: Iterable[Group] | Iterable[TokenGroup], **options: object
    ) -> Iterable[TokenGroup]:
        """Token groups as they are; groups of texts tokenised.

        Args:
            groups: all of one kind.
            options: of `tokenise`; none of them may be set for token groups.

        Raises:
            ValueError: an option is set for token groups.
        """
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
        autocast: str = "float32",
        cache: Path | Cache | None = None,
        progress: bool = False,
    ) -> torch.Tensor:
        """What this model computes of every response, float32 [R, ...], in the caller's order.

        With a cache, results are written as they come. They are read again where the weights, the
        tokens and the code that computes them are the same. A run that was killed goes on, and ends
        with the same numbers bit for bit.

        Several processes call this alike. They share the batches out, and all get all rows.

        Paper: silent.

        Args:
            groups: whatever has sequences and starts, items too.
            name: what the rows are, for the file of the cache.
            budget: tokens of a batch.
            autocast: "bfloat16" for speed.
            cache: a folder or a .jsonl file, or what `kept` made of it for several calls.
            progress: whether to show a bar of groups; only with a cache.

        Raises:
            ValueError: there are no groups.
        """
        if cache is None:
            return self._computed(groups, budget, autocast)
        several = distributed.is_initialized()
        results = cache if isinstance(cache, Cache) else self.kept(cache, name, autocast)
        groups = list(groups)
        chunk_size = CHUNK * (distributed.get_world_size() if several else 1)
        if rehearsal.on():  # which computes a few batches of each chunk
            chunk_size = max(1, len(groups))

        def compute(chunk: list[TokenGroup]) -> list[dict]:
            values = self._computed(chunk, budget, autocast)  # [responses of the chunk, ...]
            return [{"value": value} for value in values.tolist()]

        rows = []
        # What was kept is read in less than a second, and needs no bar.
        with tqdm(total=len(groups), unit="group", delay=1, disable=not progress) as bar:
            for start in range(0, len(groups), chunk_size):
                chunk = groups[start : start + chunk_size]
                keys = []
                for group in chunk:
                    responses = zip(group.sequences, group.starts, strict=True)
                    keys += [content_key(response, 32) for response in responses]
                rows += results.computed(keys, partial(compute, chunk))
                bar.update(len(chunk))
        if not rows:
            raise ValueError("no groups to run")
        return torch.tensor([row["value"] for row in rows])

    def kept(self, place: Path, name: str, autocast: str = "float32") -> Cache:
        """The results of this model in a place, as `rows` keeps them.

        Args:
            place: a folder or a .jsonl file.
            name: what the rows are.
            autocast: what the model computes in.
        """
        return Cache(
            place,
            {"model": self.fingerprint(), "autocast": autocast},
            name=name,
            shared=distributed.is_initialized(),
            code=code.digest(__name__, type(self)),
        )

    def _computed(self, groups: Iterable[TokenGroup], budget: int, autocast: str) -> torch.Tensor:
        """What a subclass computes of every response, [R, ...], in order."""
        raise NotImplementedError

    def lora(
        self, rank: int = 16, alpha: float = 32.0, dropout: float = 0.0, *, seed: int = 0
    ) -> Self:
        """Freeze the backbone and put low-rank adapters (peft) into its linear layers, in place.

        Args:
            rank: of the adapters.
            alpha: their scale times the rank.
            dropout: of their inputs.
            seed: of their random half. A run that is killed before its first checkpoint begins
                again as it began.

        Raises:
            ValueError: the model has adapters already.
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

    def merge(self) -> Self:
        """Add the adapters into the weights, in place; nothing happens where there are none.

        The model is then a plain one, which can be trained again.
        """
        for name, module in list(self.backbone.named_modules()):
            if isinstance(module, BaseTunerLayer):
                module.merge()
                self.backbone.set_submodule(name, module.get_base_layer())
        if self.adapter:
            self.adapter = None
            self.origin = None
            del self.backbone.peft_config
            self.backbone.requires_grad_(True)
        return self

    def write(self, folder: Path) -> None:
        """Write backbone and tokenizer as transformers does, into an existing folder.

        Processes that share the weights out all call this alike, and the first one writes.
        """
        weights = None  # transformers takes them from the model
        if self.root:
            weights = checkpoints.gathered(dict(self.backbone.named_parameters()))
        if checkpoints.is_first():
            self.backbone.save_pretrained(folder, state_dict=weights)
            if self.tokenizer is not None:
                self.tokenizer.save_pretrained(folder)

    def save(self, folder: Path) -> Path:
        """Write the model: safetensors, tokenizer and hs2.json (template, base, revision ..).

        All of it is written or nothing. With adapters only these are written, not the backbone
        under them; `load` reads that from where it lay. Several processes call this alike, and the
        first one writes.

        Returns:
            The folder.

        Raises:
            ValueError: the weights were rounded by `frozen`, or the adapters sit on weights that
                are on no disk, because others had been merged into them.
        """
        self.check_exact()
        if self.adapter and self.origin is None:
            raise ValueError(
                "under these adapters lie weights with others merged in, on no disk: "
                "merge these too"
            )
        if checkpoints.is_first():
            replace_folder(folder, self._write_all)
        else:
            with tempfile.TemporaryDirectory() as unused:
                self._write_all(Path(unused))  # the processes gather the weights together
        if distributed.is_initialized():
            distributed.barrier()
        return Path(folder)

    def _write_all(self, folder: Path) -> None:
        """Write all that `load` reads into an existing folder."""
        if self.adapter:
            checkpoints.write(get_peft_model_state_dict(self.backbone), folder / ADAPTERS)
            self.tokenizer.save_pretrained(folder)
        else:
            self.write(folder)
        names = ("attributes", "template", "control_text", "max_tokens", "base", "revision")
        state = {name: getattr(self, name) for name in (*names, "origin", "adapter")}
        (folder / STATE).write_text(json.dumps(state | self._write_more(folder), indent=1) + "\n")

    def _write_more(self, folder: Path) -> dict:
        """Write what a subclass has besides; returns what it adds to hs2.json."""
        return {}

    @classmethod
    def described(cls, folder: Path) -> dict:
        """What `save` wrote about a model, without the model: its attributes, template and more.

        Raises:
            ValueError: the folder has no such model.
        """
        if not (folder / STATE).is_file():
            raise ValueError(f"{folder} holds no {cls.kind} of hs2lib ({STATE} is not there)")
        return json.loads((folder / STATE).read_text())

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read what `save` wrote, a whole model or adapters.

        Raises:
            ValueError: the folder has no such model, or its adapters do not fit their backbone.
        """
        folder = Path(folder)
        state = cls.described(folder)
        kind = "reward model" if state["attributes"] else "policy"
        if kind != cls.kind:
            raise ValueError(f"{folder} holds a {kind}, no {cls.kind}")
        # A whole model's own folder is what new adapters will sit on. Saved adapters sit where they
        # did.
        origin = state["origin"] if state["adapter"] else str(folder.absolute())
        revision = state["revision"] if origin == state["base"] else None
        backbone = load_backbone(origin, revision=revision, head=cls.causal)
        names = ("template", "control_text", "max_tokens", "base", "revision", *cls.settings)
        options = {name: state[name] for name in names}
        model = cls(backbone, load_tokenizer(folder), origin=origin, **options)
        model.read = paths.digests_by_place(folder) | as_read(origin, backbone.config)
        model._load_more(folder, state)
        if state["adapter"]:
            model.lora(**state["adapter"])
            loaded = set_peft_model_state_dict(model.backbone, load_file(folder / ADAPTERS))
            if loaded.unexpected_keys:
                raise ValueError(
                    f"{folder}: the adapters do not fit {origin}: {loaded.unexpected_keys[0]} .."
                )
        return model.eval()

    def _load_more(self, folder: Path, state: dict) -> None:
        """Read what `_write_more` wrote."""
