"""The architecture contract: in groups a model gives transformers' own numbers, or it is scored one
by one.

At the first use of a model a few short and long sequences of random tokens are run both ways: one
by one as transformers runs them, and as a group. Compared are log-probabilities through the model's
own head, or hidden states where it has none. The verdict is kept by configuration, versions, dtype,
device and attention, so it costs nothing the second time. Paper: silent.
"""

import re
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch

from hs2lib import code, paths
from hs2lib.engine.cache import Cache, content_key
from hs2lib.engine.trees import Batch, pack

# Largest difference allowed, as a share: |grouped - one by one| / |one by one| over a sequence.
# Other dtypes: COARSE.
TOLERANCE = {torch.float64: 1e-6, torch.float32: 1e-4}

COARSE = 3e-2

# Numbers of a configuration from which on some layers see less: a check has to go beyond them.
_REACH = re.compile("window|chunk|topk|block_size|local_attention")


def verdict(model, what: str, compare: Callable[[], str]) -> str:
    """What `compare` says against a model, "" for nothing: asked once for what the model is and
    where it is.

    While it is compared nothing stands against it. It runs without gradients, and without autocast
    but for a model whose projections alone are bfloat16 (its `hs2_dtype`).
    """
    known, dtype = (
        model.__dict__.setdefault("hs2_verdicts", {}),
        getattr(model, "hs2_dtype", model.dtype),
    )
    now = (what, dtype, model.device)
    if now in known:
        return known[now]
    device, training = model.device.type, model.training
    name = torch.cuda.get_device_name(model.device) if device == "cuda" else device
    engine = code.digest(
        *(f"hs2lib.engine.{file.stem}" for file in Path(__file__).parent.glob("[!_]*.py"))
    )
    config = {k: v for k, v in model.config.to_diff_dict().items() if k != "_name_or_path"}
    attention = getattr(
        model, "hs2_own", model.config._attn_implementation
    )  # what transformers itself runs
    key = [what, type(model).__name__, config, attention, version("torch"), version("transformers")]
    key = content_key([*key, engine, str(dtype), name])
    verdicts = Cache(paths.runs() / "models" / "contract.jsonl", {}, name="verdicts")
    if key not in verdicts:
        known[now] = ""
        model.eval()
        try:
            with (
                torch.no_grad(),
                torch.autocast(device, torch.bfloat16, enabled=dtype != model.dtype),
            ):
                verdicts.add(
                    {key: {"model": type(model).__name__, "compared": what, "unlike": compare()}}
                )
        finally:
            del known[now]
            model.train(training)
    known[now] = verdicts[key]["unlike"]
    return known[now]


def difference(model, grouped: Callable[[object, Batch], torch.Tensor], unlike: str = "") -> str:
    """Why a model is to be scored one by one, "" where it can be run in groups; an error of
    `grouped` is a reason.

    grouped: (model, batch) -> the numbers of `plain` of every row, one row after the other; not
    called where `unlike` says already why it cannot be right. Raises ValueError for a model that
    transformers cannot run on one sequence alone, or in which what follows a token changes its
    numbers.
    """
    name, groups = type(model).__name__, examples(model)
    try:
        theirs = [plain(model, s) for group in groups for s in group]
    except Exception as error:
        raise ValueError(
            f"transformers cannot run {name} on tokens: {type(error).__name__}: {error}"
        ) from error
    if any(numbers.isnan().any() for numbers in theirs):
        raise ValueError(f"{name}: what it computes is not finite: its weights are broken")
    whole, start = theirs[:2]  # the second sequence is how the first begins
    if changed := unequal(
        model, [whole[: len(start)]], [start], "numbers of tokens that others follow"
    ):
        raise ValueError(
            f"{name} as it is configured is no causal decoder, so it scores no text: {changed}"
        )
    if unlike:
        return unlike
    try:
        ours = grouped(model, pack(groups, [[0] * len(group) for group in groups])).split(
            [len(x) for x in theirs]
        )
    except Exception as error:
        return reason(error)
    kind = "states" if model.get_output_embeddings() is None else "log-probabilities"
    return unequal(model, ours, theirs, f"in groups its {kind}")


def out_of_memory(error: Exception) -> bool:
    """Whether memory ran out, a GPU's or this machine's; of its own torch says so in words alone."""
    kinds = torch.OutOfMemoryError | MemoryError
    return isinstance(error, kinds) or bool(
        re.search("DefaultCPUAllocator|ALLOC_FAILED|out of memory", str(error))
    )


def reason(error: Exception) -> str:
    """What an error of a comparison says against a model; raises it where memory ran out, which says nothing."""
    if out_of_memory(error):
        raise error
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"


def unequal(model, ours: Sequence[torch.Tensor], theirs: Sequence[torch.Tensor], what: str) -> str:
    """By how much the numbers of some sequence differ from transformers', "" where it is rounding."""
    dtype = getattr(model, "hs2_dtype", model.dtype)
    most = TOLERANCE.get(dtype, COARSE)
    worst = float(
        np.max([share(*both) for both in zip(ours, theirs, strict=True)])
    )  # NaN stays NaN
    apart = f"{what} differ by {worst:.2%} from transformers' (at most {most:.2%} in {dtype})"
    return "" if worst <= most else apart


def examples(model) -> list[list[list[int]]]:
    """Two groups of random tokens, the same ones at every call: short sequences, and long ones beyond any window."""
    rng, config = np.random.default_rng(0), model.config.get_text_config()
    most = 4096 if model.device.type == "cuda" else 1024  # tokens
    reach = [
        n
        for k, n in config.to_dict().items()
        if _REACH.search(k) and isinstance(n, int) and n < most
    ]
    limits = [getattr(config, "max_position_embeddings", None) or most, switch(config)]
    long = min([max([150, *reach]) + 10, *filter(None, limits)])

    def draw(n: int) -> list[int]:
        return rng.integers(min(5, config.vocab_size - 1), config.vocab_size, max(n, 1)).tolist()

    prompt, rest = draw(min(12, long // 2)), draw(long)
    return [
        [prompt + draw(min(9, long // 2)), prompt, prompt + draw(3)],
        [rest, rest[: long // 2] + draw(long // 3)],
    ]


def plain(model, sequence: list[int]) -> torch.Tensor:
    """What transformers says of a sequence alone: log-probabilities [T - 1], without head hidden states [T, H]."""
    if model.get_output_embeddings() is None:
        return plain_states(model, sequence)
    return plain_log_probs(model, sequence)


def plain_states(decoder, sequence: list[int]) -> torch.Tensor:
    """The final hidden states [T, H] of a sequence run alone by transformers."""
    ids = torch.tensor([sequence], device=decoder.device)  # [1, T]
    return decoder(input_ids=ids, use_cache=False).last_hidden_state[0]


def plain_log_probs(model, sequence: list[int]) -> torch.Tensor:
    """Log-probabilities [T - 1] of a sequence's tokens but the first, run alone by transformers."""
    ids = torch.tensor([sequence], device=model.device)  # [1, T]
    logits = model(input_ids=ids, use_cache=False).logits[0, :-1]  # [T - 1, V]
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    return logits.log_softmax(-1).gather(1, ids[0, 1:, None])[:, 0]


def switch(config) -> int | None:
    """The longest sequence before rotary frequencies change with the length (longrope), None where they do not."""
    rope = getattr(config, "rope_parameters", None) or {}
    parts = (
        [rope]
        if "rope_type" in rope
        else [part for part in rope.values() if isinstance(part, dict)]
    )
    limits = [
        part["original_max_position_embeddings"]
        for part in parts
        if part.get("rope_type") == "longrope"
    ]
    return min(limits, default=None)


def share(ours: torch.Tensor, theirs: torch.Tensor) -> float:
    """How far `ours` is from `theirs`, as a share of its norm."""
    return ((ours.double() - theirs.double()).norm() / theirs.double().norm()).item()
