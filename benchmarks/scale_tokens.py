"""The group engine from 1,000 to 100,000 groups: time per token constant, memory flat.

    python benchmarks/scale_tokens.py [--groups 1000 10000 100000] [--repeats 3]

A tiny random Llama scores generated groups (a prompt of about 20 tokens, two responses of about 15)
from an iterator, so that what is measured is the engine's own work (sorting, packing, attention
calls) on a stream, not the model's.
"""

import argparse
import resource
import statistics
import sys
import time
from collections.abc import Iterator

import common
import numpy as np
import torch
from transformers import LlamaConfig, LlamaModel

from hs2lib.engine import attention, trees


def stream(number: int) -> Iterator[list[np.ndarray]]:
    """Groups of two sequences with a common prompt; the same ones whatever the number."""
    rng = np.random.default_rng(0)
    for _ in range(number):
        prompt = rng.integers(1, 500, rng.integers(10, 30))
        yield [
            np.concatenate([prompt, rng.integers(1, 500, rng.integers(5, 25))]) for _ in range(2)
        ]


def main() -> None:
    """Time each size, each from the start of the stream, and write the result."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--groups", type=int, nargs="+", default=[1000, 10_000, 100_000])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--dry", action="store_true", help="do not write the result")
    options = parser.parse_args()
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=500,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
    )
    model = LlamaModel(config).eval()
    tokens, timings, cpu, memory = {}, {}, {}, {}

    def score(batch: trees.Batch) -> torch.Tensor:
        tokens[size] = tokens.get(size, 0) + len(batch.tokens)
        return attention.end_states(model, batch)[:, :1]

    size = 0
    attention.in_order(score, stream(2000))  # not the first call of anything
    for size in sorted(options.groups):
        # As many runs of a small size as take the time of a large one: a fifth of a second measures
        # nothing.
        runs = options.repeats * max(1, min(10, max(options.groups) // size // 10))
        for _ in range(runs):
            tokens[size] = 0
            start, begun = time.perf_counter(), time.process_time()
            attention.in_order(score, stream(size))
            timings.setdefault(str(size), []).append(time.perf_counter() - start)
            cpu.setdefault(str(size), []).append(time.process_time() - begun)
        memory[str(size)] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        each = statistics.median(timings[str(size)]) / tokens[size] * 1e6
        print(
            f"{size:,} groups, {tokens[size]:,} tokens: {each:.2f} us a token, {memory[str(size)]:.0f} MB",
            file=sys.stderr,
        )
    small, large = (str(f(options.groups)) for f in (min, max))
    each = {key: statistics.median(seconds) / tokens[int(key)] for key, seconds in timings.items()}
    growth, more = max(each.values()) / min(each.values()), memory[large] / memory[small]
    if not options.dry:
        common.write(
            "scale_tokens",
            f"seconds a token and peak memory, {small} to {large} groups",
            growth,
            "time a token within 10 %, memory within 10 % (growth: lower is better)",
            growth <= 1.1 and more <= 1.1,
            "one score for every sequence at every size",
            timings,
            packages=("torch", "transformers"),
            seconds_per_token=each,
            cpu_seconds_per_token={
                k: statistics.median(s) / tokens[int(k)] for k, s in cpu.items()
            },
            peak_mb=memory,
            memory_growth=more,
            tokens={str(k): n for k, n in tokens.items() if k},
        )


if __name__ == "__main__":
    main()
