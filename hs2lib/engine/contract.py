"""The architecture contract: groups give transformers' own numbers, or sequences run one by one.

At the first use of a model a few short and long sequences of random tokens are run both ways: one
by one as transformers runs them, and as a group. The log-probabilities of the model's own head are
compared, or hidden states where it has none. The verdict is stored by configuration, versions,
dtype, device and attention, so it costs nothing the second time. Paper: silent.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from hs2lib import code, paths
from hs2lib.engine.cache import Cache, content_key
from hs2lib.engine.trees import Batch, pack

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel

# Largest difference allowed, as a share: |grouped - one by one| / |one by one| over a sequence.
# COARSE holds for the other dtypes.
TOLERANCE = {torch.float64: 1e-6, torch.float32: 1e-4}

COARSE = 3e-2

# Options of a configuration that hold a number of tokens from which on some layers see less. A
# check has to use longer sequences than that.
_REACH = re.compile("window|chunk|topk|block_size|local_attention")


def verdict(model: "PreTrainedModel", what: str, compare: Callable[[], str]) -> str:
    """What `compare` says against a model, "" for nothing; it runs once for each kind of model.

    A kind is the model's configuration, dtype, device and attention. While `compare` runs nothing
    stands against the model. It runs without gradients. It runs without autocast too, but for a
    model whose projections alone are bfloat16 (its `hs2_dtype`).

    Args:
        model: the model.
        what: a name for what is compared.
        compare: returns why the model cannot be used in this way, "" where it can.
    """
    verdicts = model.__dict__.setdefault("hs2_verdicts", {})
    dtype = getattr(model, "hs2_dtype", model.dtype)
    kind = (what, dtype, model.device)
    if kind in verdicts:
        return verdicts[kind]
    device = model.device.type
    training = model.training
    key = _stored_key(model, what, dtype)
    stored = Cache(paths.runs() / "models" / "contract.jsonl", {}, name="verdicts")
    if key not in stored:
        verdicts[kind] = ""
        model.eval()
        try:
            rounded = torch.autocast(device, torch.bfloat16, enabled=dtype != model.dtype)
            with torch.no_grad(), rounded:
                row = {"model": type(model).__name__, "compared": what, "unlike": compare()}
                stored.add({key: row})
        finally:
            del verdicts[kind]
            model.train(training)
    verdicts[kind] = stored[key]["unlike"]
    return verdicts[kind]


def _stored_key(model: "PreTrainedModel", what: str, dtype: torch.dtype) -> str:
    """The key of a model's verdict: all that its numbers depend on but its weights."""
    device = model.device.type
    device_name = torch.cuda.get_device_name(model.device) if device == "cuda" else device
    modules = [f"hs2lib.engine.{file.stem}" for file in Path(__file__).parent.glob("[!_]*.py")]
    config = model.config.to_diff_dict()
    config = {option: value for option, value in config.items() if option != "_name_or_path"}
    # The attention that transformers itself runs, also of a model that `prepare` has changed.
    attention = getattr(model, "hs2_previous_attention", model.config._attn_implementation)
    return content_key(
        [
            what,
            type(model).__name__,
            config,
            attention,
            version("torch"),
            version("transformers"),
            code.digest(*modules),
            str(dtype),
            device_name,
        ]
    )


def difference(
    model: "PreTrainedModel",
    grouped: Callable[["PreTrainedModel", Batch], Tensor],
    unlike: str = "",
) -> str:
    """Why a model's sequences have to run one by one, "" where groups give the same numbers.

    Args:
        model: the model.
        grouped: (model, batch) -> the numbers of `plain` of every row, one row after the other. An
            error of it is a reason against groups.
        unlike: why groups cannot be right, where that is known already; `grouped` is then not
            called.
    Raises:
        ValueError: for a model that transformers cannot run on one sequence alone, or in which what
            follows a token changes its numbers.
    """
    name = type(model).__name__
    groups = examples(model)
    try:
        theirs = [plain(model, sequence) for group in groups for sequence in group]
    except Exception as error:
        raise ValueError(
            f"transformers cannot run {name} on tokens: {type(error).__name__}: {error}"
        ) from error
    if any(numbers.isnan().any() for numbers in theirs):
        raise ValueError(f"{name}: what it computes is not finite: its weights are broken")
    whole, start = theirs[:2]  # the second sequence is how the first begins
    changed = unequal(model, [whole[: len(start)]], [start], "numbers of tokens that others follow")
    if changed:
        raise ValueError(
            f"{name} as it is configured is no causal decoder, so it scores no text: {changed}"
        )
    if unlike:
        return unlike
    try:
        batch = pack(groups, [[0] * len(group) for group in groups])
        ours = grouped(model, batch).split([len(numbers) for numbers in theirs])
    except Exception as error:
        return reason(error)
    numbers_are = "states" if model.get_output_embeddings() is None else "log-probabilities"
    return unequal(model, ours, theirs, f"in groups its {numbers_are}")


def out_of_memory(error: Exception) -> bool:
    """Whether a GPU's or this machine's memory ran out.

    Of this machine's memory torch says so in words alone.
    """
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    words = "DefaultCPUAllocator|ALLOC_FAILED|out of memory"
    return bool(re.search(words, str(error)))


def reason(error: Exception) -> str:
    """What an error of a comparison says against a model.

    Raises the error where memory ran out: that says nothing against the model.
    """
    if out_of_memory(error):
        raise error
    lines = str(error).splitlines() or [""]
    return f"{type(error).__name__}: {lines[0]}"


def unequal(
    model: "PreTrainedModel", ours: Iterable[Tensor], theirs: Iterable[Tensor], what: str
) -> str:
    """How far the numbers of some sequence are from transformers', "" where it is rounding."""
    dtype = getattr(model, "hs2_dtype", model.dtype)
    tolerance = TOLERANCE.get(dtype, COARSE)
    shares = [share(mine, other) for mine, other in zip(ours, theirs, strict=True)]
    worst = float(np.max(shares))  # NaN stays NaN
    if worst <= tolerance:
        return ""
    return f"{what} differ by {worst:.2%} from transformers' (at most {tolerance:.2%} in {dtype})"


def examples(model: "PreTrainedModel") -> list[list[list[int]]]:
    """Two groups of random tokens, the same at every call: one short, one beyond any window."""
    rng = np.random.default_rng(0)
    config = model.config.get_text_config()
    most = 4096 if model.device.type == "cuda" else 1024  # tokens
    reach = 150
    for option, value in config.to_dict().items():
        if _REACH.search(option) and isinstance(value, int) and value < most:
            reach = max(reach, value)
    limit = getattr(config, "max_position_embeddings", None) or most
    long = min(reach + 10, limit, longrope_limit(config) or limit)  # tokens

    def draw(n_tokens: int) -> list[int]:
        low = min(5, config.vocab_size - 1)
        return rng.integers(low, config.vocab_size, max(n_tokens, 1)).tolist()

    prompt = draw(min(12, long // 2))
    text = draw(long)
    return [
        [prompt + draw(min(9, long // 2)), prompt, prompt + draw(3)],
        [text, text[: long // 2] + draw(long // 3)],
    ]


def plain(model: "PreTrainedModel", sequence: Sequence[int]) -> Tensor:
    """What transformers computes of a sequence alone.

    Returns: log-probabilities [T - 1], or hidden states [T, H] of a model without a head.
    """
    if model.get_output_embeddings() is None:
        return plain_states(model, sequence)
    return plain_log_probs(model, sequence)


def plain_states(decoder: "PreTrainedModel", sequence: Sequence[int]) -> Tensor:
    """The final hidden states [T, H] of a sequence run alone by transformers."""
    ids = torch.tensor([sequence], device=decoder.device)  # [1, T]
    return decoder(input_ids=ids, use_cache=False).last_hidden_state[0]


def plain_log_probs(model: "PreTrainedModel", sequence: Sequence[int]) -> Tensor:
    """Log-probabilities [T - 1] of a sequence's tokens but the first, run alone by transformers."""
    ids = torch.tensor([sequence], device=model.device)  # [1, T]
    logits = model(input_ids=ids, use_cache=False).logits[0, :-1]  # [T - 1, V]
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    return logits.log_softmax(-1).gather(1, ids[0, 1:, None])[:, 0]


def longrope_limit(config: "PreTrainedConfig") -> int | None:
    """The longest sequence before rotary frequencies change with the length; None: they never do.

    They change in rotary embeddings of type longrope. A configuration has one set of rope
    parameters, or one for each kind of layer.
    """
    rope = getattr(config, "rope_parameters", None) or {}
    parameter_sets = [rope]
    if "rope_type" not in rope:
        parameter_sets = [value for value in rope.values() if isinstance(value, dict)]
    limits = []
    for parameters in parameter_sets:
        if parameters.get("rope_type") == "longrope":
            limits.append(parameters["original_max_position_embeddings"])
    return min(limits, default=None)


def share(ours: Tensor, theirs: Tensor) -> float:
    """How far `ours` is from `theirs`, as a share of the norm of `theirs`."""
    return ((ours.double() - theirs.double()).norm() / theirs.double().norm()).item()
