"""A DPO step: groups against TRL's DPOTrainer with precomputed reference log-probabilities, same
dtype.

    python benchmarks/dpo_step.py [--pairs 8] [--steps 2] [--growth 4 8 16] [--dtypes float32 bfloat16] [--dry]
        [--device cuda] [--model Qwen/Qwen2.5-0.5B-Instruct]

HelpSteer2 validation pairs of HS2_DATA_DIR (a random subset, seed 0; unrated, so the first response
is taken for the better one, which costs the same), full fine-tuning of SmolLM2-135M-Instruct by
AdamW. Both get the same tokens and the same reference log-probabilities, computed before the clock
starts; theirs is fed as a user would, `--rows` pairs a padded micro-batch in the order of the data,
accumulated to the same global batch. Each runs in a process of its own, whose peak memory is taken
(on a GPU the GPU's). The first step warms up and is not counted; its loss and gradient norm are
compared. `--growth`: pairs a step at each of these numbers, ours alone: seconds grow linearly with
the data.
"""

import argparse
import json
import os
import random
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import common
import torch
from transformers import TrainerCallback

from hs2lib.align import dpo as preferences
from hs2lib.data import load
from hs2lib.models.policy import load_policy
from hs2lib.train.objectives import dpo
from hs2lib.train.trainer import Recipe, fit

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
import trl_oracle

BETA, RATE = 0.1, 1e-6
GOAL = 2.2


class Clock(TrainerCallback):
    """The seconds, loss and gradient norm of each step."""

    def __init__(self):
        self.seconds, self.losses, self.norms = [], [], []

    def on_step_begin(self, args, state, control, **kwargs):
        self.begun = common.clock(args.device.type)

    def on_step_end(self, args, state, control, **kwargs):
        self.seconds.append(common.clock(args.device.type) - self.begun)

    def on_log(self, args, state, control, logs=None, **kwargs):
        if "loss" in logs:
            self.losses.append(float(logs["loss"]))
            self.norms.append(float(logs["grad_norm"]))


def chosen(policy, number: int, longest: int) -> list:
    """Items of so many pairs, random but the same for every number: a smaller one is the beginning of a larger."""
    loaded = load.load("helpsteer2-unrated", "folder", split="both").groups
    pairs = [replace(group, preference=-1.0) for group in loaded]
    random.Random(0).shuffle(pairs)
    tokens = policy.tokenise(pairs)
    kept = [t.group for t in tokens if max(map(len, t.sequences)) <= longest]
    items, _ = preferences.items(policy, kept[:number])
    # References away from the policy's own, so that margins are not all 0 and the loss is not log 2
    # on both sides.
    noise = random.Random(1)
    for item in items:
        item.targets[:, 1] += [noise.gauss(0, 5), noise.gauss(0, 5)]
    return items


def ours(policy, items, dtype: str, steps: int, options, folder: Path) -> Clock:
    """Our step, at the defaults of `Recipe` apart from the rate."""
    clock = Clock()
    recipe = Recipe(
        steps=steps,
        batch=len(items),
        learning_rate=RATE,
        warmup=0,
        autocast=dtype,
        budget=options.budget,
        save_every=10**6,
        keep=0,
    )
    fit(policy, items, [], dpo(BETA), recipe, folder, callbacks=[clock])
    return clock


def theirs(policy, items, dtype: str, steps: int, options, folder: Path) -> Clock:
    """TRL's step on the same items."""

    clock = Clock()
    recipe = Recipe(
        steps=steps,
        batch=len(items),
        learning_rate=RATE,
        warmup=0,
        autocast=dtype,
        save_every=10**6,
        keep=0,
    )
    trl_oracle.fit_dpo(
        policy, items, [], BETA, recipe, folder, rows_a_batch=options.rows, callbacks=[clock]
    )
    return clock


def one(options) -> None:
    """Run one side in this process and print what it measured, as JSON."""
    torch.set_num_threads(options.threads)
    policy = load_policy(options.model).to(options.device)
    items = chosen(policy, options.pairs, options.longest)
    side = ours if options.side == "ours" else theirs
    common.held(options.device)
    with tempfile.TemporaryDirectory() as folder:
        clock = side(policy, items, options.dtypes[0], options.steps + 1, options, Path(folder))
    peak = common.peak(options.device) / 1024
    lengths = [len(s) for item in items for s in item.sequences]
    figures = {
        "seconds": clock.seconds,
        "losses": clock.losses,
        "norms": clock.norms,
        "peak GB": peak,
    }
    print(
        "RESULT " + json.dumps(figures | {"tokens one by one": sum(lengths), "pairs": len(items)})
    )


def measure(options, side: str, dtype: str, pairs: int) -> dict:
    """One side in a process of its own."""
    arguments = ["--side", side, "--dtypes", dtype, "--pairs", str(pairs)]
    for name in ("steps", "budget", "rows", "threads", "longest", "model", "device"):
        arguments += [f"--{name}", str(getattr(options, name))]
    return common.alone(__file__, arguments)


def main(argv: list[str] | None = None) -> None:
    """Time both sides in each dtype and ours at each size, compare loss and gradient norm, write the result."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=int, default=8)
    parser.add_argument("--steps", type=int, default=2, help="timed steps, after one that warms up")
    parser.add_argument("--growth", type=int, nargs="*", default=[4, 8, 16])
    parser.add_argument("--dtypes", nargs="+", default=["float32"], help="also bfloat16")
    parser.add_argument(
        "--rows",
        type=int,
        default=2,
        help="pairs of a padded micro-batch of theirs (TRL's own 8: over 24 GB)",
    )
    parser.add_argument("--budget", type=int, default=4096, help="tokens of a micro-batch of ours")
    parser.add_argument(
        "--longest", type=int, default=2048, help="leave out pairs with a longer sequence, tokens"
    )
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--side", choices=["ours", "theirs"], help=argparse.SUPPRESS)
    parser.add_argument("--dry", action="store_true", help="do not write the result")
    gpu = dict(pairs=64, steps=5, growth=[16, 32, 64, 128], budget=16384, longest=1024, rows=8)
    gpu["dtypes"] = ["bfloat16", "float32"]
    options = common.parse(parser, argv, **gpu)
    if "HS2_DATA_DIR" not in os.environ:
        sys.exit("dpo_step needs HS2_DATA_DIR, the folder with helpsteer2/ (see the README)")
    if options.side:
        one(options)
        return
    results, ratios, apart, timings, growth = {}, {}, {}, {}, {}
    for dtype in options.dtypes:
        sides = {side: measure(options, side, dtype, options.pairs) for side in ("ours", "theirs")}
        results[dtype], timings[dtype] = (
            sides,
            {side: f["seconds"][1:] for side, f in sides.items()},
        )
        middle = common.medians(timings[dtype])
        ratios[dtype] = middle["theirs"] / middle["ours"]
        apart[dtype] = {
            name: abs(sides["ours"][name][0] / sides["theirs"][name][0] - 1)
            for name in ("losses", "norms")
        }
        pairs_a_second = {side: options.pairs / seconds for side, seconds in middle.items()}
        print(dtype, pairs_a_second, f"ratio {ratios[dtype]:.2f}", apart[dtype], file=sys.stderr)
    for pairs in options.growth:
        result = measure(options, "ours", options.dtypes[-1], pairs)
        growth[pairs] = (
            common.medians({"s": result["seconds"][1:]})["s"] / result["tokens one by one"]
        )
        print(
            f"{pairs} pairs: {1e3 * growth[pairs]:.3f} s a thousand tokens one by one",
            file=sys.stderr,
        )
    # The same numbers to rounding in float32; in bfloat16 as close as that format's three digits
    # let sums be.
    same = all(
        max(a.values()) < (1e-3 if dtype == "float32" else 5e-2) for dtype, a in apart.items()
    )
    if not options.dry:
        common.write(
            "dpo_step",
            "TRL's DPOTrainer, precomputed reference, padded micro-batches, against groups; same tokens, same dtype",
            min(ratios.values()),
            f"at least {GOAL}x the pairs a second in each dtype, at equal loss and gradient",
            min(ratios.values()) >= GOAL and same,
            f"relative difference of loss and gradient norm at the first step: {apart}; the same: {same}",
            timings,
            packages=("torch", "transformers", "trl"),
            on=options.device,
            model=options.model,
            ratios=ratios,
            peak_gb={
                dtype: {side: f["peak GB"] for side, f in sides.items()}
                for dtype, sides in results.items()
            },
            seconds_a_token_by_pairs=growth,
            threads=options.threads,
            subset=f"{options.pairs} pairs of at most {options.longest} tokens a sequence, random, seed 0",
        )


if __name__ == "__main__":
    main()
