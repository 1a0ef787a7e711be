"""Training the reward model: groups against transformers.Trainer +
AutoModelForSequenceClassification.

    python benchmarks/train_reward.py [--replies 12] [--steps 3] [--full] [--dtypes bfloat16 float32] [--threads N]
        [--device cuda] [--model Qwen/Qwen2.5-0.5B-Instruct] [--checkpointing]

Open Assistant replies from HS2_DATA_DIR (a random subset of groups, seed 0, each step on all of
them), full fine-tuning of SmolLM2-135M-Instruct with five outputs by AdamW, from one and the same
head. Theirs: rows in the order of the groups, 8 at a time, padded by Trainer's default collator,
accumulated to the same global batch (its own loss is wrong under accumulation, so it is given the
right one; that costs no time). Each runs in a process of its own, whose peak memory is taken (on a
GPU the GPU's). With the defaults about 8 minutes on two quiet cores; --full takes the whole data
and hours. On a GPU one more step comes first and is not timed, because kernels are compiled in it.
"utilisation" in the result says how much of the device each side uses, and `common` what is
counted.
"""

import argparse
import json
import os
import random
import sys
import tempfile
from functools import partial
from pathlib import Path

import common
import torch
from transformers import (
    AutoModelForSequenceClassification,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

from hs2lib.data import load
from hs2lib.engine.trees import BUDGET, plan
from hs2lib.models.reward_model import RewardModel
from hs2lib.train import items
from hs2lib.train.objectives import REGRESSION
from hs2lib.train.trainer import Recipe, fit

ATTRIBUTES = ("quality", "toxicity", "humor", "creativity", "helpfulness")
ROWS = 8  # of a batch of theirs
RATE = 1e-5


class Clock(TrainerCallback):
    """The seconds and the loss of each step."""

    def __init__(self):
        self.seconds, self.losses = [], []

    def on_step_begin(self, args, state, control, **kwargs):
        self.begun = common.clock(args.device.type)

    def on_step_end(self, args, state, control, **kwargs):
        self.seconds.append(common.clock(args.device.type) - self.begun)

    def on_log(self, args, state, control, logs=None, **kwargs):
        self.losses += [logs["loss"]] if "loss" in logs else []


def chosen(model: RewardModel, replies: int) -> list[items.Item]:
    """Items of about so many replies (0: all), from groups in random order; only replies with every label."""
    groups = load.load("oasst1", "folder", split="validation", strict=False).groups
    labelled, _ = items.rated(model, groups)
    labelled = [item for item in labelled if (item.targets != -100).all()]
    random.Random(0).shuffle(labelled)
    if not replies:
        return labelled
    out: list[items.Item] = []
    while sum(len(item.sequences) for item in out) < replies:
        out.append(labelled[len(out)])
    return out


def ours(model: RewardModel, these: list, dtype: str, steps: int, options) -> Clock:
    """Our step, at the defaults of `Recipe` apart from the rate."""
    clock = Clock()
    recipe = Recipe(
        steps=steps,
        batch=len(these),
        learning_rate=RATE,
        warmup=0,
        autocast=dtype,
        budget=options.budget,
        checkpointing=options.checkpointing,
        save_every=10**6,
        keep=0,
    )
    with tempfile.TemporaryDirectory() as folder:
        fit(model, these, [], REGRESSION, recipe, Path(folder), callbacks=[clock])
    return clock


def theirs(model: RewardModel, these: list, dtype: str, steps: int, options) -> Clock:
    """transformers' step with its default collator, on the same rows, from the same weights."""
    pad = model.tokenizer.pad_token_id
    plain = AutoModelForSequenceClassification.from_pretrained(
        model.backbone.name_or_path,
        num_labels=len(ATTRIBUTES),
        problem_type="regression",
        pad_token_id=pad,
        dtype=torch.float32,
    )
    with torch.no_grad():
        plain.score.weight.copy_(model.head.weight)
    model.backbone = None
    rows = [
        {"input_ids": sequence, "attention_mask": [1] * len(sequence), "labels": target.tolist()}
        for item in these
        for sequence, target in zip(item.sequences, item.targets, strict=True)
    ]
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder:
        args = TrainingArguments(
            output_dir=folder,
            max_steps=steps,
            per_device_train_batch_size=ROWS,
            use_cpu=options.device == "cpu",
            bf16=dtype == "bfloat16",
            activation_checkpointing=options.checkpointing,
            gradient_accumulation_steps=-(-len(rows) // ROWS),
            learning_rate=RATE,
            lr_scheduler_type="constant",
            weight_decay=0.1,
            adam_beta1=0.9,
            adam_beta2=0.98,
            logging_steps=1,
            save_strategy="no",
            report_to="none",
            train_sampling_strategy="sequential",
            disable_tqdm=True,
            dataloader_pin_memory=False,
        )
        trainer = Trainer(
            plain,
            args,
            train_dataset=rows,
            processing_class=model.tokenizer,
            callbacks=[clock],
            compute_loss_func=lambda out, labels, num_items_in_batch=None: (
                (out.logits.float() - labels).square().sum() / num_items_in_batch
            ),
        )
        trainer.train()
    return clock


def child(side: str, dtype: str, options) -> None:
    """Run one side and print its result as JSON, peak memory in MB, operations of a step, and the dense rate."""
    model = RewardModel.new(options.model, attributes=ATTRIBUTES)
    these = chosen(model, 0 if options.full else options.replies)
    model_work, hardware = work(these, options.budget, side)
    operations = {
        "model": common.flops(model.backbone, *model_work, passes=3),
        "hardware": common.flops(
            model.backbone, *hardware, passes=4 if options.checkpointing else 3
        ),
    }
    before, warm = common.peak(options.device), int(options.device == "cuda")
    common.held(options.device)
    clock = (ours if side == "ours" else theirs)(model, these, dtype, options.steps + warm, options)
    result = {
        "seconds": clock.seconds[warm:],
        "losses": clock.losses,
        "peak_mb": common.peak(options.device),
    }
    dense = partial(common.dense, getattr(torch, dtype), options.device)
    (seconds,) = common.medians(common.times({"dense": dense}, 3, options.device)).values()
    result |= {
        "before_mb": before,
        "operations": operations,
        "dense_rate": common.dense_rate(seconds, options.device),
    }
    print("RESULT " + json.dumps(result))


def work(these: list, budget: int, side: str) -> tuple[tuple[int, int], tuple[int, int]]:
    """(tokens, scores of attention) of a step's task, each reply alone, and those that a side really computes."""
    lengths = [len(s) for item in these for s in item.sequences]
    if side == "ours":
        return common.work(lengths), common.packed(plan([item.sequences for item in these], budget))
    parts = [lengths[i : i + ROWS] for i in range(0, len(lengths), ROWS)]
    return common.work(lengths), common.work(max(part) for part in parts for _ in part)


def tokens(these: list, budget: int) -> dict[str, int]:
    """Tokens that a step of each side computes."""
    (alone, _), (trees, _) = work(these, budget, "ours")
    replies = sum(len(item.sequences) for item in these)
    return {
        "replies": replies,
        "padded": work(these, 0, "theirs")[1][0],
        "one by one": alone,
        "groups": trees,
    }


def main(argv: list[str] | None = None) -> None:
    """Run the sides one after the other, compare losses, time and memory, write the result."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--replies", type=int, default=12)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--full", action="store_true", help="all replies (many hours)")
    parser.add_argument("--dtypes", nargs="+", default=["bfloat16", "float32"])
    parser.add_argument("--budget", type=int, default=4096)
    parser.add_argument(
        "--checkpointing", action="store_true", help="both compute activations twice, to hold fewer"
    )
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--dry", action="store_true", help="do not write the result")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    options = common.parse(parser, argv, replies=256, steps=5, budget=16384)
    if "HS2_DATA_DIR" not in os.environ:
        sys.exit("train_reward needs HS2_DATA_DIR, the folder with oasst1/ (see the README)")
    torch.set_num_threads(options.threads)
    if options.child:
        child(*options.child, options)
        return
    results: dict[tuple[str, str], dict] = {}
    for dtype in options.dtypes:
        for side in ("ours", "theirs"):
            arguments = [*(sys.argv[1:] if argv is None else argv), "--child", side, dtype]
            results[side, dtype] = common.alone(
                __file__, arguments, {"OMP_NUM_THREADS": str(options.threads)}
            )
            print(side, dtype, results[side, dtype], file=sys.stderr, flush=True)
    timings = {f"{side} {dtype}": result["seconds"] for (side, dtype), result in results.items()}
    middle = common.medians(timings)
    ratios = {
        dtype: middle[f"theirs {dtype}"] / middle[f"ours {dtype}"] for dtype in options.dtypes
    }
    goals = {dtype: 3.0 for dtype in options.dtypes}
    if len(options.dtypes) > 1:
        ratios["our bfloat16 against their float32"] = (
            middle["theirs float32"] / middle["ours bfloat16"]
        )
        goals["our bfloat16 against their float32"] = 6.0
    apart = {
        dtype: max(
            abs(a - b)
            for a, b in zip(
                results["ours", dtype]["losses"], results["theirs", dtype]["losses"], strict=True
            )
        )
        for dtype in options.dtypes
    }
    # Eight bits of mantissa: two orders of summation of a bfloat16 model differ in the third digit
    # of the loss.
    limit = {"float32": 1e-4, "bfloat16": 0.05}
    same = all(apart[dtype] <= limit[dtype] for dtype in apart)
    memory = {
        f"{side} {dtype}": round(result["peak_mb"]) for (side, dtype), result in results.items()
    }
    lean = all(memory[f"ours {dtype}"] <= memory[f"theirs {dtype}"] for dtype in options.dtypes)
    fast = all(ratios[name] >= goal for name, goal in goals.items())
    used = {}
    for (side, dtype), one in results.items():
        name = f"{side} {dtype}"
        used[name] = common.utilisation(
            **one["operations"], seconds=middle[name], rate=one["dense_rate"], dtype=dtype
        )
    if options.dry:
        print(
            json.dumps(
                {"ratios": ratios, "loss apart": apart, "memory": memory, "utilisation": used},
                indent=1,
            )
        )
        return
    model = RewardModel.new(options.model, attributes=ATTRIBUTES)
    these = chosen(model, 0 if options.full else options.replies)
    replies = sum(len(item.sequences) for item in these)
    budget = (
        BUDGET if options.device == "cpu" else options.budget
    )  # how the CPU's tokens have been counted
    common.write(
        "train_reward",
        "transformers.Trainer + AutoModelForSequenceClassification, padded batches of 8, against our training step",
        min(ratios[dtype] for dtype in options.dtypes),
        "at least 3x in each dtype, 6x our bfloat16 against their float32; equal losses; peak memory no higher",
        fast and same and lean,
        f"largest difference of a step's loss {apart}, limits {limit}: {same}; peak memory no higher: {lean}",
        timings,
        packages=("torch", "transformers"),
        on=options.device,
        model=options.model,
        ratios=ratios,
        replies_per_second={name: replies / seconds for name, seconds in middle.items()},
        losses={f"{side} {dtype}": result["losses"] for (side, dtype), result in results.items()},
        peak_memory_mb=memory,
        utilisation=used,
        checkpointing=options.checkpointing,
        tokens={"timed": tokens(these, budget), "full set": tokens(chosen(model, 0), budget)},
        threads=options.threads,
        subset="all"
        if options.full
        else f"{replies} replies of {len(these)} groups, random, seed 0",
    )


if __name__ == "__main__":
    main()
