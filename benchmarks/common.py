"""What every benchmark shares: timing in turns, the result file; and for those that a GPU can run:
device, FLOPs.

Four can: score_pairs, train_reward, dpo_step, rollout, with --device cuda --model
NAME (`make bench-gpu` runs them all). Both sides are then on the GPU, and the result is
<name>-gpu.json: never the CPU's file.

FLOPs are those of matrix products and attention, of one forward pass 2 N for each token (N: weights
of the layers' products) and 4 x width for each pair of a query and a key it sees; training takes
three passes (6 N), four where activations are computed again (8 N). "model" utilisation counts the
task: every sequence alone, no padding, nothing shared, nothing computed again. It is the same work
for every side, so it compares them, and who computes a shared prompt once may exceed 1. "hardware"
utilisation counts what was really computed: shared prompts once, padding too. Both are over the
rate of plain dense products timed in the same run, and over the peak of the data sheet.
"""

import argparse
import json
import os
import platform
import re
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from importlib.metadata import version
from pathlib import Path

from hs2lib import paths

# Operations a second of dense products by the makers' data sheets, without sparsity; by the name
# that torch gives.
PEAKS = {
    r"\bH100\b.*HBM3": {"bfloat16": 989e12, "float32": 67e12},  # SXM
    r"\bH200\b": {"bfloat16": 989e12, "float32": 67e12},  # SXM
    r"\bA100\b": {"bfloat16": 312e12, "float32": 19.5e12},
}
OTHERS = re.compile(
    r"\bMIG\b|\b(H100|H200)\b.*\b(PCIe|NVL)\b"
)  # parts of a device, or slower ones of that name
# Plain products [T, d] x [d, h], so many times: on the CPU like SmolLM2-135M's own, on a GPU large
# enough to fill it.
DENSE = {"cpu": (2048, 576, 1536, 60), "cuda": (8192, 8192, 8192, 50)}


def parse(
    parser: argparse.ArgumentParser, argv: list[str] | None = None, **gpu
) -> argparse.Namespace:
    """The options, --device and --model among them; `gpu`: what other defaults are with --device
    cuda.

    Exits with one line where that device is not there.
    """
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument(
        "--model", default="embedded", help='a Hub name, a folder, "embedded" or "tiny"'
    )
    words = [
        [f"--{name}", *(value if isinstance(value, list) else [value])]
        for name, value in gpu.items()
    ]
    shown = " ".join(str(word) for several in words for word in several if word is not True)
    parser.epilog = f"Defaults with --device cuda: {shown}"
    if parser.parse_args(argv).device == "cuda":
        parser.set_defaults(**gpu)
    options = parser.parse_args(argv)
    find(options.device)
    return options


def find(device: str) -> None:
    """Exit with one line unless just the device asked for is there."""
    import torch

    number = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if device == "cpu" and number:
        sys.exit(
            "a GPU is visible, which trainers would take: set CUDA_VISIBLE_DEVICES= (empty), or --device cuda"
        )
    if device == "cuda" and not number:
        sys.exit(
            f"no CUDA device was found (torch {torch.__version__}): look at nvidia-smi and CUDA_VISIBLE_DEVICES"
        )
    if number > 1:
        sys.exit(
            f"{number} GPUs are visible, and one is compared: set CUDA_VISIBLE_DEVICES to one of them"
        )


def clock(device: str = "cpu") -> float:
    """Seconds of a clock that waits for the device: a GPU's work is queued, and a call returns before it is done."""
    if device == "cuda":
        import torch

        torch.cuda.synchronize()
    return time.perf_counter()


def held(device: str) -> float:
    """What is held on a GPU now, MB, from where on `peak` counts anew; on the CPU 0: there it cannot."""
    if device == "cpu":
        return 0.0
    import torch

    torch.cuda.reset_peak_memory_stats()
    return torch.cuda.memory_allocated() / 2**20


def peak(device: str) -> float:
    """The most memory held, MB: of this process, or with a GPU of that, since `held` was called."""
    if device == "cpu":
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    import torch

    return torch.cuda.max_memory_allocated() / 2**20


def times(
    functions: dict[str, Callable[[], object]],
    repeats: int = 5,
    device: str = "cpu",
    memory: dict | None = None,
) -> dict[str, list[float]]:
    """Seconds of each call, `repeats` rounds in which every function runs once; on a GPU after one
    that warms up.

    In turns, not one after the other: what slows the machine down for a while then slows all of
    them down. memory: receives for each function the most MB it took on a GPU beside what was held
    before.
    """
    out: dict[str, list[float]] = {name: [] for name in functions}
    for at in range(
        repeats + (device == "cuda")
    ):  # kernels are compiled and chosen at their first call
        for name, function in functions.items():
            before = held(device)
            start = clock(device)
            function()
            seconds = clock(device) - start
            if at or device == "cpu":
                out[name].append(seconds)
            if device == "cuda" and memory is not None:
                memory[name] = max(memory.get(name, 0.0), round(peak(device) - before, 1))
    return out


def alone(script: str, arguments: list[str], environment: dict | None = None) -> dict:
    """What a script prints as a line RESULT {json}, run in a process of its own whose memory is that of one side."""
    command = [sys.executable, script, *arguments]
    done = subprocess.run(
        command, env={**os.environ, **(environment or {})}, stdout=subprocess.PIPE, text=True
    )
    if done.returncode:
        sys.exit(f"{' '.join(command[1:])} ended with code {done.returncode}")
    line = next(line for line in done.stdout.splitlines() if line.startswith("RESULT "))
    return json.loads(line.removeprefix("RESULT "))


def flops(model, tokens: int, attended: int, passes: int = 1) -> float:
    """Operations of so many forward passes: 2 for each weight and token, 4 x width for each score
    of attention.

    passes: 3 for training, backward being two; 4 where activations are computed again.
    """
    import torch

    weights = sum(m.weight.numel() for m in model.modules() if isinstance(m, torch.nn.Linear))
    config = model.config.get_text_config()
    head = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    width = config.num_attention_heads * head
    return passes * (2.0 * weights * tokens + 4.0 * width * config.num_hidden_layers * attended)


def work(lengths: Iterable[int]) -> tuple[int, int]:
    """(tokens, scores of causal attention) of sequences or padded rows of these lengths, each computed alone."""
    lengths = list(lengths)
    return sum(lengths), sum(n * (n + 1) // 2 for n in lengths)


def packed(batches: Iterable) -> tuple[int, int]:
    """(tokens, scores of attention) of packed batches: each token once, and it sees its own path."""
    sizes = [(len(batch.tokens), int((batch.positions + 1).sum())) for batch in batches]
    return sum(tokens for tokens, _ in sizes), sum(scores for _, scores in sizes)


def dense(dtype, device: str = "cpu") -> None:
    """Dense products alone: the rate the machine has, timed in turns with the rest."""
    import torch

    tokens, width, inner, number = DENSE[device]
    make = (
        torch.ones if device == "cpu" else torch.randn
    )  # constant numbers draw less power, which flatters a GPU
    x, w = (
        make(tokens, width, dtype=dtype, device=device),
        make(inner, width, dtype=dtype, device=device),
    )
    for _ in range(number):
        torch.nn.functional.linear(x, w)


def dense_rate(seconds: float, device: str = "cpu") -> float:
    """Operations a second of a call of `dense` that took so long."""
    tokens, width, inner, number = DENSE[device]
    return 2.0 * tokens * width * inner * number / seconds


def data_sheet(name: str, dtype: str) -> float | None:
    """The peak of a device by its data sheet, operations a second; None where it is not known here."""
    if OTHERS.search(name):
        return None
    return next(
        (peaks.get(dtype) for pattern, peaks in PEAKS.items() if re.search(pattern, name)), None
    )


def utilisation(model: float, hardware: float, seconds: float, rate: float, dtype: str) -> dict:
    """Shares of the dense rate and of the data sheet's peak: `model` and `hardware` operations done in `seconds`."""
    import torch

    sheet = data_sheet(torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu", dtype)
    done = {"model": model / seconds, "hardware": hardware / seconds}
    return {
        "of the dense rate": {name: x / rate for name, x in done.items()},
        "of the data sheet": {name: x / sheet for name, x in done.items()}
        if sheet
        else "not known for this device",
        "dense TFLOP/s": rate / 1e12,
    }


def write(
    name: str,
    compared: str,
    ratio: float,
    goal: str,
    met: bool,
    check: str,
    timings: dict,
    *,
    packages=(),
    on: str = "cpu",
    **extra,
) -> Path:
    """Write reports/benchmarks/<name>.json, of a GPU <name>-gpu.json, and print the result on one
    line.

    `ratio` is their time over ours (higher is better), `goal` says in words what was asked, `check`
    how it was made sure that both gave the same result, `timings` are the raw seconds; `packages`
    are those whose versions matter; `on` is "cpu" or "cuda".
    """
    from hs2lib.report import report

    result = {
        "name": name,
        "compared": compared,
        "ratio": ratio,
        "goal": goal,
        "met": bool(met),
        "check": check,
        **extra,
        "device": report.device(),
        "versions": {
            "python": platform.python_version(),
            **{package: version(package) for package in packages},
        },
        "commit": report.commit(),
        "timings": timings,
    }
    path = paths.reports() / "benchmarks" / f"{name}{'-gpu' if on == 'cuda' else ''}.json"
    paths.write(path, json.dumps(result, indent=1) + "\n")
    print(
        f"{name}: ratio {ratio:.3g}, goal {goal}: {'met' if met else 'NOT MET'} -> benchmarks/{path.name}",
        file=sys.stderr,
    )
    return path


def medians(timings: dict[str, list[float]]) -> dict[str, float]:
    """The median seconds of each function timed."""
    return {name: statistics.median(seconds) for name, seconds in timings.items()}
