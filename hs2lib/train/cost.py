"""What a run would cost, before it is begun: tokens, memory and GPU hours, with the arithmetic
shown.

    pairs = cost.tokens(7221, responses=2)                        # of prefix trees: each prompt counted once
    table = cost.dry_run(70.6e9, {"DPO": cost.Work(trained=7 * pairs), "reference": cost.Work(scored=pairs)})

Estimates, to a factor of two: the rules of thumb for decoders of N weights (2 N operations a token
forward, 4 N backward), at a share of the accelerator's peak, `USED`. Paper: silent on cost.
"""

from typing import NamedTuple

import pandas as pd
import torch

from hs2lib import paper
from hs2lib.engine.attention import CHUNK, KEPT
from hs2lib.run import parameters

CHARACTERS_A_TOKEN = 4.5  # English chat under a vocabulary of 100,000 or more


class Work(NamedTuple):
    """Tokens of one stage: trained on (forward and backward), scored (forward only), and sampled one by one."""

    trained: float = 0.0
    scored: float = 0.0
    sampled: float = 0.0


# The accelerators, 64 H100 where nothing else is asked for (the paper says neither how many nor how
# long). Of each: its memory (bytes), peak (operations/s, bfloat16) and memory rate (bytes/s).
GPUS, MEMORY, PEAK, BANDWIDTH = 64, 80e9, 989e12, 3.35e12

# The share of the peak that training and scoring reach, that of the memory rate which sampling
# reaches, and how many responses share one read of the weights while they are sampled.
USED, USED_BANDWIDTH, AT_ONCE = 0.35, 0.5, 64

# Llama 3 70B: what activations depend on. INSIDE: bytes of a token in the layer that is computed
# again (see `held`).
LAYERS, WIDTH, VOCABULARY, INSIDE = 80, 8192, 128256, 595200
BUDGET = 8192  # tokens of a micro-batch


PROMPT, RESPONSE = (
    paper.value("table-2", f"characters in {part}", "mean HS2") for part in ("prompt", "response")
)


def tokens(
    prompts: float, responses: float = 1, *, prompt: float = PROMPT, response: float = RESPONSE
) -> float:
    """Tokens of so many prompts with so many responses each, as prefix trees: each prompt counted
    once.

    prompt, response: mean characters; by default HelpSteer2's of the paper's Table 2 (712.6 and
    1492.6).
    """
    return prompts * (prompt + responses * response) / CHARACTERS_A_TOKEN


def dry_run(
    parameters: float,
    stages: dict[str, Work],
    *,
    gpus: int = GPUS,
    other_models: float = 0.0,
    budget: int = BUDGET,
) -> pd.DataFrame:
    """Rows (stage, quantity, arithmetic, value, unit): tokens and GPU hours of each stage, memory
    of one GPU, totals.

    Paper: silent. parameters: N of the model that is trained (float32 weights, gradients and
    AdamW's two moments, sharded over the GPUs). other_models: how many frozen models of N weights
    are held beside it (a reward model, a sampler). budget: tokens of a micro-batch, whose
    activations are computed twice (checkpointing). The purpose is to see, before a cluster is asked
    for, that a run fits and how long it takes. Raises ValueError where nothing is to be done.
    """
    if parameters <= 0 or not any(
        work.trained + work.scored + work.sampled for work in stages.values()
    ):
        raise ValueError(
            f"a model of {parameters:g} weights and {len(stages)} stages without a token are no run"
        )
    n, rows, hours = parameters, [], 0.0
    rate, computing = PEAK * USED, f"({PEAK:.3g}/s x {USED:g})"
    read = BANDWIDTH * USED_BANDWIDTH * AT_ONCE
    reading = f"({BANDWIDTH:.3g} B/s x {USED_BANDWIDTH:g} x {AT_ONCE} at once)"
    kinds = {
        "trained": (8 * n / rate, f"x 8 N / {computing}"),
        "scored": (2 * n / rate, f"x 2 N / {computing}"),
    }
    # To sample a token, every weight is read once, two bytes each, for all responses at once.
    kinds["sampled"] = 2 * n / read, f"x 2 N bytes / {reading}"
    for stage, work in stages.items():
        for kind, (seconds, words) in kinds.items():
            if number := getattr(work, kind):
                spent = number * seconds / 3600
                hours += spent
                rows.append(
                    (stage, f"tokens {kind}", "prompts once, responses each", number, "tokens")
                )
                rows.append(
                    (
                        stage,
                        f"time, {kind}",
                        f"{number:.3g} tokens {words} / 3600",
                        spent,
                        "GPU hours",
                    )
                )
    parts = [("weights", f"N = {n:.3g} x 4 bytes / {gpus} GPUs", 4 * n / gpus)]
    if any(work.trained for work in stages.values()):
        words = f"N = {n:.3g} x (4 weights + 4 gradients + 8 AdamW) bytes / {gpus} GPUs"
        parts = [("weights, gradients, optimiser", words, 16 * n / gpus)]
        words = f"{budget:,} tokens x ({LAYERS} layers x {WIDTH:,} x 4 bytes + {INSIDE:,} of the layer computed again)"
        parts.append(("activations", words, budget * (LAYERS * WIDTH * 4 + INSIDE)))
        words = f"2 layers x N / {LAYERS} x 4 bytes + embeddings and head, {VOCABULARY:,} x {WIDTH:,} x 16"
        parts.append(("gathered to compute in", words, 8 * n / LAYERS + 16 * VOCABULARY * WIDTH))
    if other_models:
        words = f"{other_models:g} x N x 4 bytes / {gpus} GPUs"
        parts.append(("frozen models", words, other_models * 4 * n / gpus))
    total = sum(size for _, _, size in parts)
    verdict = "fits" if total < 0.9 * MEMORY else "does not fit: more GPUs, or a smaller budget"
    parts.append(("together", f"of {MEMORY / 1e9:.0f} GB, a tenth left free: {verdict}", total))
    rows += [("memory", name, words, size / 1e9, "GB a GPU") for name, words, size in parts]
    rows.append(("all", "time", "sum of the above", hours, "GPU hours"))
    rows.append(("all", "wall time", f"{hours:.3g} GPU hours / {gpus} GPUs", hours / gpus, "hours"))
    return pd.DataFrame(rows, columns=["stage", "quantity", "arithmetic", "value", "unit"])


def held(model: torch.nn.Module, processes: int, tokens: int = BUDGET) -> dict[str, float]:
    """Bytes that each of so many processes holds at most while it trains a model, by phase.

    Paper: silent. "weights": once they are read; "step": with gradients and AdamW's two moments;
    "compute": that, the layers gathered or cast to bfloat16, and activations of `tokens` tokens,
    where each layer's are computed twice (checkpointing). model: a reward model or policy, on the
    meta device too, so that none of its weights is read; what it does not train (under adapters) is
    held in float32 and shared out as the rest is. Checked against the bytes that one, two and four
    processes took on a CPU (`benchmarks/processes.py`).
    """
    config, names = (
        model.backbone.config.get_text_config(),
        set(model.backbone._no_split_modules or ()),
    )
    layers = [
        sum(map(torch.numel, m.parameters())) for m in model.modules() if type(m).__name__ in names
    ]
    every = sum(map(torch.numel, model.parameters()))
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    weights, step = 4 * every / processes, (4 * every + 12 * trained) / processes
    # Shared out: two layers in bfloat16 and the gradient of one; embeddings and heads whole. Alone:
    # a layer's casts. copied: bytes more of each weight of the projection, in bfloat16 and, alone,
    # a gradient that is added to the last.
    gathered, copied = (
        (8 * max(layers) + 8 * (every - sum(layers)), 2) if processes > 1 else (2 * max(layers), 6)
    )
    width, heads, size = config.hidden_size, config.num_attention_heads, config.vocab_size
    head, keys = (
        getattr(config, "head_dim", None) or width // heads,
        getattr(config, "num_key_value_heads", heads),
    )
    # In the layer that is computed again each token has, when the way back is in its MLP, from the
    # way there: both norms' results (4 bytes a number), five copies of them for the projections
    # (2), the state between (4); queries, keys, values and what attention gave (2), its
    # log-sum-exps, the positions' cosines and sines (4); two inner states of the MLP and the
    # activation of one (2). From the way back: the gradient of the result (4), three inner ones
    # (2).
    most = tokens * (
        26 * width
        + 12 * config.intermediate_size
        + 4 * head * (heads + keys)
        + 4 * heads
        + 8 * head
    )
    if model.causal:  # before any layer's way back
        most = max(
            most,
            min(KEPT, 2 * size * tokens)
            + size * (6 * CHUNK + copied * width)
            + 14 * width * tokens,
        )
    return {
        "weights": weights,
        "step": step,
        "compute": step + gathered + tokens * 4 * width * len(layers) + most,
    }


def settings(recipe) -> pd.DataFrame:
    """A recipe as a table, a setting a row: its value and what it is."""
    known = parameters.settings(type(recipe))
    rows = [(name, getattr(recipe, name), parameter.help) for name, parameter in known.items()]
    return pd.DataFrame(rows, columns=["setting", "value", "what it is"]).set_index("setting")
