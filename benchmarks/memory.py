"""The memory that a training step of notebook 05 takes on a GPU, counted on a machine without one.

    python benchmarks/memory.py                                          # the table of docs/gpu.md
    python benchmarks/memory.py --model FOLDER --budget 16384 --checkpointing [--lora 32]

The library's own step goes over tensors that have a shape and no data (PyTorch's FakeTensorMode, the
meta device's kernels), so that a model of 70 billion weights takes no memory here. What is alive is
added up after each operation. Of a model of one's own only the configuration is
read. Not in the count: what the allocator loses between tensors, CUDA's own context (about half a
gigabyte), and other models that a notebook holds.

The count is held against two steps that were measured on an H200 (reports/gpu-check). The columns of
several GPUs are arithmetic (`shared`). Writes reports/benchmarks/memory.json, in a minute.
"""

import argparse
import json
import math
import weakref
from collections.abc import Iterable
from itertools import chain
from types import SimpleNamespace

import common
import torch
from gpu_check import QWEN, SHAPES, Check
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from transformers import AutoConfig, AutoModel, PreTrainedConfig

from hs2lib.engine.trees import Batch, pack, plan
from hs2lib.models.reward_model import RewardModel
from hs2lib.paths import root
from hs2lib.runs import graph
from hs2lib.train.objectives import REGRESSION
from hs2lib.train.trainer import Outputs

LLAMA = {"vocab_size": 128256, "tie_word_embeddings": False, "max_position_embeddings": 8192}
# Shapes of published models, by their names: no weights of theirs.
BASES = {
    "0.5B": SHAPES["Qwen2.5-0.5B"],
    "1.5B": SHAPES["Qwen2.5-1.5B"],
    "3B": (
        "qwen2",
        QWEN
        | {
            "hidden_size": 2048,
            "intermediate_size": 11008,
            "num_hidden_layers": 36,
            "num_attention_heads": 16,
            "num_key_value_heads": 2,
        },
    ),
    "8B": (
        "llama",
        LLAMA
        | {
            "hidden_size": 4096,
            "intermediate_size": 14336,
            "num_hidden_layers": 32,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
        },
    ),
    "70B": (
        "llama",
        LLAMA
        | {
            "hidden_size": 8192,
            "intermediate_size": 28672,
            "num_hidden_layers": 80,
            "num_attention_heads": 64,
            "num_key_value_heads": 8,
        },
    ),
}
# The base of each run of notebook 05 at tier gpu.
RUNS = {
    "05_reward_model_training": SHAPES["Qwen2.5-0.5B"],
    "05_reward_model_training@8b": BASES["8B"],
    "05_reward_model_training@0.6b": (
        "qwen3",
        QWEN
        | {
            "hidden_size": 1024,
            "intermediate_size": 3072,
            "num_hidden_layers": 28,
            "num_attention_heads": 16,
            "num_key_value_heads": 8,
            "head_dim": 128,
        },
    ),
}
BUDGET = 8192  # tokens of a batch, in the table
LONGEST = 4096  # tokens of a pair
GPUS = (1, 8, 16, 64)


def batch_of(tokens: int) -> Batch:
    """Long pairs that fill a batch: memory depends on its tokens, hardly on how they are grouped."""
    number = math.ceil(tokens / LONGEST)
    groups = []
    for pair in range(number):
        size = tokens // number
        prompt = [10 + pair] * (size - 2 * (size // 4))
        groups.append([prompt + [answer] * (size // 4) for answer in (1, 2)])
    return pack(groups)


class Alive(TorchDispatchMode):
    """Counts the bytes of all tensors that are made inside, and remembers the most alive at once.

    PyTorch's own MemTracker gives the same numbers where all weights are trained, and does not take
    a model with frozen ones.

    Args:
        held: bytes that were there before.
        known: tensors that are among these.
    """

    def __init__(self, held: int, known: Iterable[torch.Tensor]) -> None:
        super().__init__()
        self.now = self.most = held
        self.seen = weakref.WeakSet(tensor.untyped_storage() for tensor in known)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        """Run an operation, and count what it made."""
        out = func(*args, **kwargs or {})
        for tensor in tree_leaves(out):
            if not isinstance(tensor, torch.Tensor):
                continue
            storage = tensor.untyped_storage()
            if storage not in self.seen:
                self.seen.add(storage)
                self.now += storage.nbytes()
                self.most = max(self.most, self.now)
                weakref.finalize(storage, self.freed, storage.nbytes())
        return out

    def freed(self, size: int) -> None:
        """A storage of so many bytes is gone."""
        self.now -= size


def counted(
    config: PreTrainedConfig,
    batch: Batch,
    *,
    checkpointing: bool = False,
    lora: int = 0,
    autocast: str = "bfloat16",
    moments: bool = True,
) -> dict[str, float]:
    """Peak bytes of a step over one batch, with the gradients of earlier batches still held.

    Args:
        config: of the base.
        batch: of pairs.
        checkpointing: whether layers are computed again on the way back.
        lora: the rank of adapters; 0 trains all weights.
        autocast: "bfloat16" or "float32".
        moments: whether AdamW's are there, as from the second step on.

    Returns: the peak, and what of it is held all the time: weights, gradients and moments.
    """
    with torch.device("meta"):
        model = RewardModel(AutoModel.from_config(config, dtype=torch.float32), None).train()
        if lora:
            model.lora(rank=lora, alpha=2 * lora)
    if checkpointing:
        model.backbone.gradient_checkpointing_enable({"use_reentrant": False})
    with FakeTensorMode(allow_non_fake_inputs=True):
        model.to_empty(device="cpu")
        trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
        outputs = Outputs(model, REGRESSION, autocast)
        targets = torch.zeros(len(batch.end), len(model.attributes))
        for parameter in trained:
            parameter.grad = torch.zeros_like(parameter)
        held = sum(one.nbytes for one in model.parameters())
        held += sum(parameter.nbytes for parameter in trained) * (3 if moments else 1)
        gradients = [parameter.grad for parameter in trained]
        alive = Alive(held, chain(model.parameters(), gradients))
        with alive:
            # The squared errors without their checks, which read numbers.
            (outputs(batch) - targets).square().sum().backward()
    return {"peak": alive.most, "held": held}


def shared(config: PreTrainedConfig, found: dict[str, float], gpus: int) -> float:
    """Bytes on each of several GPUs, by arithmetic.

    What is held is shared out. Gathered for the step are the embeddings with their gradient in
    float32, and of one layer after the other the rounded weights, twice, and the gradient.
    """
    if gpus == 1:
        return found["peak"]
    width = config.hidden_size
    head_width = getattr(config, "head_dim", None) or width // config.num_attention_heads
    heads = 2 * config.num_attention_heads + 2 * config.num_key_value_heads
    layer = width * (heads * head_width + 3 * config.intermediate_size)
    gathered = 4 * config.vocab_size * width * (1 if found["lora"] else 2)
    gathered += layer * (2 * 2 + (0 if found["lora"] else 4))
    return found["held"] / gpus + found["peak"] - found["held"] + gathered


def against_measured() -> dict[str, dict[str, float]]:
    """Steps of `make gpu-check` on an H200 beside the count of their largest batches, GB.

    Measured was the most that a step took beside the weights; AdamW's moments came after it.
    """
    measured = json.loads((root() / "reports/gpu-check/nvidia-h200.json").read_text())
    rows = {}
    for shape, number, budget in (("Qwen2.5-0.5B", 96, 16384), ("Qwen2.5-1.5B", 64, 8192)):
        config = AutoConfig.for_model(SHAPES[shape][0], **SHAPES[shape][1])
        groups, _ = Check("cpu", False).groups(SimpleNamespace(config=config), number, 2)
        largest = max(len(batch.tokens) for batch in plan(groups, budget))
        found = counted(config, batch_of(largest), moments=False)
        count = (found["peak"] - found["held"] / 2) / 1e9
        taken = measured["parts"]["train"][shape]["groups"]["memory, MB"] / 1e3
        rows[shape] = {"tokens": largest, "measured": taken, "counted": round(count, 1)}
    return rows


def within(ratio: float) -> float:
    """How far a ratio is from 1, up or down."""
    return max(ratio, 1 / ratio)


def of_tier() -> dict[str, float]:
    """GB of each training of tier gpu, with its own recipe, on one GPU."""
    taken = {}
    for run, (family, shape) in RUNS.items():
        _, _, recipe = graph.resolved(run, "gpu")
        found = counted(
            AutoConfig.for_model(family, **shape),
            batch_of(recipe.budget),
            checkpointing=recipe.checkpointing,
            lora=recipe.lora_rank if recipe.method == "lora" else 0,
            autocast=recipe.autocast,
        )
        taken[run] = round(found["peak"] / 1e9)
    return taken


def main() -> None:
    """Write the table, or print the count of one model."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", help="a folder or a Hub name, in place of the table")
    parser.add_argument("--budget", type=int, default=BUDGET, help="tokens of a batch")
    parser.add_argument("--checkpointing", action="store_true", help="compute layers again")
    parser.add_argument("--lora", type=int, default=0, help="rank of adapters")
    options = parser.parse_args()
    if options.model:
        config = AutoConfig.from_pretrained(options.model).get_text_config()
        found = counted(
            config, batch_of(options.budget), checkpointing=options.checkpointing, lora=options.lora
        )
        print(f"{found['peak'] / 1e9:.1f} GB, of which {found['held'] / 1e9:.1f} GB at any time")
        return
    table = {}
    for base, (family, shape) in BASES.items():
        config = AutoConfig.for_model(family, **shape)
        for method, rank in (("full", 0), ("LoRA", 16)):
            found = counted(config, batch_of(BUDGET), checkpointing=True, lora=rank)
            found["lora"] = rank
            row = {number: round(shared(config, found, number) / 1e9) for number in GPUS}
            table[f"{base}, {method}"] = row
    beside = against_measured()
    off = max((row["counted"] / row["measured"] for row in beside.values()), key=within)
    common.write(
        "memory",
        "the memory of a training step of 05, counted on tensors without data, with an H200's",
        off,
        "within a quarter",
        within(off) <= 1.25,
        "on a CPU the count is what a step allocates, in tests/test_benchmarks.py",
        {},
        packages=("torch", "transformers"),
        **{
            f"GB by GPUs, {BUDGET} tokens": table,
            "GB of runs of tier gpu": of_tier(),
            "GB beside an H200's": beside,
        },
    )


if __name__ == "__main__":
    main()
