"""What a run would cost, before it begins: tokens, memory and GPU hours, with the arithmetic shown.

    pairs = cost.tokens(7221, responses=2)  # of prefix trees: each prompt counted once
    stages = {"DPO": cost.Work(trained=7 * pairs), "reference": cost.Work(scored=pairs)}
    table = cost.dry_run(70.6e9, stages)

Estimates, to a factor of two: the rules of thumb for decoders of N weights (2 N operations a token
forward, 4 N backward), at a share of the accelerator's peak, `USED`. Paper: silent on cost.
"""

from typing import TYPE_CHECKING, NamedTuple

import pandas as pd

from hs2lib import paper
from hs2lib.runs import parameters

if TYPE_CHECKING:
    from hs2lib.train.recipes import Settings

CHARACTERS_A_TOKEN = 4.5  # English chat under a vocabulary of 100,000 or more


class Work(NamedTuple):
    """Tokens of one stage.

    Attributes:
        trained: forward and backward.
        scored: forward only.
        sampled: one by one.
    """

    trained: float = 0.0
    scored: float = 0.0
    sampled: float = 0.0


# The accelerators: 64 H100 where nothing else is asked for. The paper says neither how many nor how
# long.
GPUS = 64
MEMORY = 80e9  # of each, bytes
PEAK = 989e12  # of each, operations a second in bfloat16
BANDWIDTH = 3.35e12  # of each, bytes of memory read a second

USED = 0.35  # the share of the peak that training and scoring reach
USED_BANDWIDTH = 0.5  # the share of the bandwidth that sampling reaches
AT_ONCE = 64  # responses that share one read of the weights while they are sampled

# Llama 3 70B: what activations depend on.
LAYERS = 80
WIDTH = 8192
VOCABULARY = 128256
INSIDE = 595200  # bytes of a token in the layer that is computed again

BUDGET = 8192  # tokens of a micro-batch

# Mean characters of HelpSteer2's prompts and responses.
PROMPT = paper.value("table-2", "characters in prompt", "mean HS2")
RESPONSE = paper.value("table-2", "characters in response", "mean HS2")


def tokens(
    prompts: float, responses: float = 1, *, prompt: float = PROMPT, response: float = RESPONSE
) -> float:
    """Tokens of prompts with their responses as prefix trees: each prompt is counted once.

    Args:
        prompts: how many there are.
        responses: to each prompt.
        prompt: mean characters; by default HelpSteer2's of the paper's Table 2, 712.6.
        response: mean characters; by default HelpSteer2's, 1492.6.
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
    """What a run would take: tokens and GPU hours of each stage, memory of one GPU, totals.

    It shows, before a cluster is asked for, that a run fits and how long it takes. Paper: silent.

    Args:
        parameters: N of the model that is trained. Its float32 weights, gradients and AdamW's two
            moments are sharded over the GPUs.
        stages: the tokens of each stage, by its name.
        gpus: how many there are.
        other_models: how many frozen models of N weights are held beside it (a reward model, a
            sampler).
        budget: tokens of a micro-batch, whose activations are computed twice (checkpointing).

    Returns:
        Rows (stage, quantity, arithmetic, value, unit).
    """
    rows = _time_rows(parameters, stages)
    hours = 0.0
    for _, _, _, value, unit in rows:
        if unit == "GPU hours":
            hours += value
    rows += _memory_rows(parameters, gpus, other_models, budget)
    rows.append(("all", "time", "sum of the above", hours, "GPU hours"))
    rows.append(("all", "wall time", f"{hours:.3g} GPU hours / {gpus} GPUs", hours / gpus, "hours"))
    return pd.DataFrame(rows, columns=["stage", "quantity", "arithmetic", "value", "unit"])


def _time_rows(parameters: float, stages: dict[str, Work]) -> list[tuple]:
    """The rows of `dry_run` on tokens and GPU hours."""
    rate = PEAK * USED  # operations a second
    rate_text = f"({PEAK:.3g}/s x {USED:g})"
    # To sample a token, every weight is read once, two bytes each, for all responses at once.
    read_rate = BANDWIDTH * USED_BANDWIDTH * AT_ONCE  # bytes a second
    read_text = f"({BANDWIDTH:.3g} B/s x {USED_BANDWIDTH:g} x {AT_ONCE} at once)"
    seconds_a_token = {
        "trained": 8 * parameters / rate,
        "scored": 2 * parameters / rate,
        "sampled": 2 * parameters / read_rate,
    }
    arithmetic = {
        "trained": f"x 8 N / {rate_text}",
        "scored": f"x 2 N / {rate_text}",
        "sampled": f"x 2 N bytes / {read_text}",
    }
    rows = []
    for stage, work in stages.items():
        for kind, seconds in seconds_a_token.items():
            number = getattr(work, kind)
            if not number:
                continue
            hours = number * seconds / 3600
            time_text = f"{number:.3g} tokens {arithmetic[kind]} / 3600"
            rows.append((stage, f"tokens {kind}", "prompts once, responses each", number, "tokens"))
            rows.append((stage, f"time, {kind}", time_text, hours, "GPU hours"))
    return rows


def _memory_rows(parameters: float, gpus: int, other_models: float, budget: int) -> list[tuple]:
    """The rows of `dry_run` on the memory of one GPU that trains."""
    n = parameters
    parts = []  # (name, arithmetic, bytes)
    text = f"N = {n:.3g} x (4 weights + 4 gradients + 8 AdamW) bytes / {gpus} GPUs"
    parts.append(("weights, gradients, optimiser", text, 16 * n / gpus))
    text = (
        f"{budget:,} tokens x ({LAYERS} layers x {WIDTH:,} x 4 bytes + "
        f"{INSIDE:,} of the layer computed again)"
    )
    parts.append(("activations", text, budget * (LAYERS * WIDTH * 4 + INSIDE)))
    text = (
        f"2 layers x N / {LAYERS} x 4 bytes + embeddings and head, {VOCABULARY:,} x {WIDTH:,} x 16"
    )
    parts.append(("gathered to compute in", text, 8 * n / LAYERS + 16 * VOCABULARY * WIDTH))
    if other_models:
        text = f"{other_models:g} x N x 4 bytes / {gpus} GPUs"
        parts.append(("frozen models", text, other_models * 4 * n / gpus))
    total = sum(size for _, _, size in parts)
    verdict = "fits" if total < 0.9 * MEMORY else "does not fit: more GPUs, or a smaller budget"
    parts.append(("together", f"of {MEMORY / 1e9:.0f} GB, a tenth left free: {verdict}", total))
    return [("memory", name, text, size / 1e9, "GB a GPU") for name, text, size in parts]


def settings(recipe: "Settings") -> pd.DataFrame:
    """A recipe as a table, a setting a row: its value, its default and what it is.

    Where the last column names the paper or its reference code, the default is theirs.
    """
    rows = [
        (name, getattr(recipe, name), parameter.default, parameter.help)
        for name, parameter in parameters.settings(type(recipe)).items()
    ]
    columns = ["setting", "value", "default", "what it is, and where the default is from"]
    return pd.DataFrame(rows, columns=columns).set_index("setting")
