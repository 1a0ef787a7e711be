"""A SteerLM 2.0 step with n = 10: groups against padded rows, one for each response.

    python benchmarks/steerlm2_step.py [--groups 3] [--responses borrowed] [--growth 1 2 4] [--device cuda]

HelpSteer2's validation prompts from HS2_DATA_DIR (a random subset, seed 0, of those whose group has
at most --longest tokens a row), each with ten responses. "borrowed": its own two and eight of other
prompts, drawn at random, so lengths are those of strong models; "sampled": ten of the model's own
at temperature .7 and top-p .9, at most 256 tokens, kept in runs/benchmarks, with a result file of
their own. A step is forward, backward, clipping and AdamW on all groups together, full fine-tuning
of SmolLM2-135M-Instruct, log P(a|x,y) + log P(y|x) - log Q' drawn from a standard normal (no
model's speed hangs on them), log Q' the model's own. Ours is `train.fit`. Theirs is what one would
write: the responses of a group as rows padded to the longest, length-sorted, --rows at a time, the
vocabulary projected from response positions only, all graphs of a group held until its loss is
known. With the defaults about 12 minutes on two quiet cores.
"""

import argparse
import json
import os
import random
import statistics
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import common
import numpy as np
import torch
from torch.nn import functional as F
from transformers import AutoModelForCausalLM, TrainerCallback

from hs2lib import paths
from hs2lib.align.steerlm2 import TARGET
from hs2lib.data import load
from hs2lib.engine.chat import TokenGroup
from hs2lib.engine.trees import BUDGET, plan
from hs2lib.group import Response
from hs2lib.models.policy import Policy, load_policy
from hs2lib.models.rollout import as_tokens, rollouts
from hs2lib.train import losses
from hs2lib.train.items import Item
from hs2lib.train.objectives import steerlm2
from hs2lib.train.trainer import Recipe, fit

N = 10
RATE, DECAY, BETAS, CLIP = 1e-7, 0.1, (0.9, 0.98), 1.0


class Clock(TrainerCallback):
    """The seconds, loss and gradient norm of the one step."""

    def on_step_begin(self, args, state, control, **kwargs):
        self.begun = common.clock(args.device.type)

    def on_step_end(self, args, state, control, **kwargs):
        self.seconds = common.clock(args.device.type) - self.begun

    def on_log(self, args, state, control, logs=None, **kwargs):
        self.loss, self.norm = logs["loss"], logs["grad_norm"]


def tokenised(policy: Policy, responses: str, longest: int, sampled: int = 16) -> list[TokenGroup]:
    """Groups as tokens, ten responses each, in random order; those with a row over `longest` tokens
    left out.

    Borrowed responses: all groups. Sampled: the first `sampled`.
    """
    every = load.load("helpsteer2-unrated", "folder").groups
    draw = random.Random(0)
    draw.shuffle(every)
    others = [response for group in every for response in group.responses]
    groups = []
    for group in every:
        more = tuple(Response(f"{group.id}/{i}", draw.choice(others).text) for i in range(2, N))
        groups.append(replace(group, responses=(*group.responses, *more)))
    fitting = [t for t in policy.tokenise(groups, TARGET) if max(map(len, t.sequences)) <= longest]
    if responses == "borrowed":
        return fitting
    few = [t.group for t in fitting[:sampled]]
    folder = paths.runs() / "benchmarks" / "steerlm2_step"
    drawn = rollouts(policy, few, n=N, max_new_tokens=256, label=TARGET, file=folder)
    return as_tokens(policy, drawn, TARGET)


def items(policy: Policy, chosen: list[TokenGroup]) -> list[Item]:
    """Items with weights drawn at random and the policy's own log Q'."""
    log_q, tokens = policy.log_probs(chosen)
    rng = np.random.default_rng(0)
    out = []
    for i, group in enumerate(chosen):
        rows = slice(N * i, N * (i + 1))
        weights = torch.from_numpy(rng.standard_normal(N)).log_softmax(-1)
        targets = np.column_stack([weights, log_q[rows], tokens[rows]]).astype(np.float32)
        out.append(Item(f"{i:04d}", group.sequences, targets, group.starts))
    return out


def ours(policy: Policy, these: list[Item], dtype: str, budget: int) -> Clock:
    """One step of `fit`."""
    clock = Clock()
    recipe = Recipe(
        steps=1,
        batch=len(these),
        learning_rate=RATE,
        warmup=0,
        autocast=dtype,
        budget=budget,
        weight_decay=DECAY,
        betas=BETAS,
        clip=CLIP,
        save_every=10**6,
        keep=0,
    )
    with tempfile.TemporaryDirectory() as folder:
        fit(policy, these, [], steerlm2(), recipe, Path(folder), callbacks=[clock])
    return clock


def padded_log_probs(model, item: Item, rows: int, pad: int) -> torch.Tensor:
    """log Q_theta(y|a,x) [n] of an item's responses, as padded rows."""
    order = sorted(range(N), key=lambda i: -len(item.sequences[i]))
    out: list = [None] * N
    for start in range(0, N, rows):
        these = order[start : start + rows]
        width = len(item.sequences[these[0]])
        ids = torch.full((len(these), width), pad)
        mask = torch.zeros_like(ids)
        for row, i in enumerate(these):
            ids[row, : len(item.sequences[i])] = torch.tensor(item.sequences[i])
            mask[row, : len(item.sequences[i])] = 1
        ids, mask = ids.to(model.device), mask.to(model.device)
        keep = torch.arange(item.starts[0] - 1, width - 1, device=model.device)
        logits = model(
            input_ids=ids, attention_mask=mask, logits_to_keep=keep, use_cache=False
        ).logits.float()
        chosen = -F.cross_entropy(
            logits.flatten(0, 1), ids[:, item.starts[0] :].flatten(), reduction="none"
        )
        chosen = chosen.view(len(these), -1) * mask[:, item.starts[0] :]
        for row, i in enumerate(these):
            out[i] = chosen[row].sum()
    return torch.stack(out)


def theirs(model, these: list[Item], dtype: str, rows: int, pad: int) -> dict:
    """One step in plain PyTorch."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=DECAY, betas=BETAS)
    on = model.device.type
    begun, value = common.clock(on), 0.0
    for item in these:
        with torch.autocast(on, dtype=torch.bfloat16, enabled=dtype == "bfloat16"):
            log_probs = padded_log_probs(model, item, rows, pad)
        weights, sampler, _ = torch.from_numpy(item.targets).to(on).T
        loss = losses.steerlm2_loss(weights[None], log_probs[None], sampler[None]).sum() / len(
            these
        )
        loss.backward()
        value += loss.item()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return {"seconds": common.clock(on) - begun, "loss": value, "norm": float(norm)}


def tokens(these: list, rows: int, budget: int) -> dict[str, int]:
    """Tokens that a step of each side computes."""
    counts = {"padded": 0, "one by one": 0, "groups": 0}
    for group in these:
        lengths = sorted((len(s) for s in group.sequences), reverse=True)
        counts["padded"] += sum(lengths[i] * len(lengths[i : i + rows]) for i in range(0, N, rows))
        counts["one by one"] += sum(lengths)
    counts["groups"] = sum(
        len(batch.tokens) for batch in plan([t.sequences for t in these], budget)
    )
    return counts


def main(argv: list[str] | None = None) -> None:
    """Run both sides in turns, each step from the same weights, compare losses and gradients, write the result."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--groups", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--responses", choices=["borrowed", "sampled"], default="borrowed")
    parser.add_argument("--longest", type=int, default=1024, help="tokens of a row: memory")
    parser.add_argument("--rows", type=int, default=N, help="rows of a padded batch")
    parser.add_argument("--dtypes", nargs="+", default=["float32"], help="also bfloat16")
    parser.add_argument(
        "--growth", type=int, nargs="*", default=[1, 2, 4], help="numbers of groups, ours only"
    )
    parser.add_argument("--budget", type=int, default=4096)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--dry", action="store_true", help="do not write the result")
    gpu = dict(
        groups=16, repeats=5, growth=[4, 8, 16, 32], budget=16384, dtypes=["bfloat16", "float32"]
    )
    options = common.parse(parser, argv, **gpu)
    if "HS2_DATA_DIR" not in os.environ:
        sys.exit("steerlm2_step needs HS2_DATA_DIR, the folder with helpsteer2/ (see the README)")
    torch.set_num_threads(options.threads)
    policy, on = load_policy(options.model).to(options.device), options.device
    most = max([options.groups, *options.growth])
    every = tokenised(policy, options.responses, options.longest, most)
    these = items(policy, every[:most])
    timed = these[: options.groups]
    plain = (
        AutoModelForCausalLM.from_pretrained(policy.backbone.name_or_path, dtype=torch.float32)
        .train()
        .to(on)
    )
    start = {name: p.detach().clone() for name, p in plain.named_parameters()}
    pad, results, memory, warm = (
        policy.tokenizer.pad_token_id,
        {},
        {},
        int(on == "cuda"),
    )  # kernels are compiled first
    sides = {
        "ours": lambda dtype: vars(ours(policy, timed, dtype, options.budget)),
        "theirs": lambda dtype: theirs(plain, timed, dtype, options.rows, pad),
    }

    def again(model) -> None:
        with torch.no_grad():
            for name, p in model.named_parameters():
                p.copy_(start[name])

    for _ in range(warm + options.repeats):
        for dtype in options.dtypes:
            for side, model in (("ours", policy.backbone), ("theirs", plain)):
                again(model)
                before = common.held(on)
                one = sides[side](dtype)
                memory[f"{side} {dtype}"] = round(common.peak(on) - before, 1)
                results.setdefault(f"{side} {dtype}", []).append(one)
                print(side, dtype, one, file=sys.stderr, flush=True)
    grown, budget = (
        {},
        BUDGET if on == "cpu" else options.budget,
    )  # how the CPU's tokens have been counted
    for size in options.growth:
        again(policy.backbone)
        part = these[:size]
        grown[size] = (
            ours(policy, part, options.dtypes[0], options.budget).seconds
            / tokens(part, N, budget)["groups"]
        )
    timings = {name: [one["seconds"] for one in runs[warm:]] for name, runs in results.items()}
    middle = common.medians(timings)
    ratios = {
        dtype: middle[f"theirs {dtype}"] / middle[f"ours {dtype}"] for dtype in options.dtypes
    }
    first = {name: runs[0] for name, runs in results.items()}
    apart = {
        dtype: {
            key: abs(first[f"ours {dtype}"][key] / first[f"theirs {dtype}"][key] - 1)
            for key in ("loss", "norm")
        }
        for dtype in options.dtypes
    }
    limit = {
        "float32": 1e-3,
        "bfloat16": 0.1,
    }  # bfloat16 keeps eight bits: log-probabilities differ in the third digit
    same = all(value <= limit[dtype] for dtype in apart for value in apart[dtype].values())
    # A step has costs of its own (AdamW on all weights), which more groups share: time a token may
    # only fall.
    linear = not grown or grown[max(grown)] <= 1.1 * statistics.median(grown.values())
    whole = tokenised(policy, "borrowed", 10**6) if options.responses == "borrowed" else every
    counts = {
        name: tokens(part, options.rows, budget)
        for name, part in (("timed", timed), ("all prompts", whole))
    }
    # What the measured tokens a second make of all prompts, the long ones too, which padded rows
    # have no memory for.
    both = {name: c["padded"] / c["groups"] for name, c in counts.items()}
    projected = {
        dtype: ratio * both["all prompts"] / both["timed"] for dtype, ratio in ratios.items()
    }
    shown = {
        "ratios": ratios,
        "projected": projected,
        "apart": apart,
        "tokens": counts,
        "seconds a token": grown,
    }
    if options.dry:
        print(json.dumps(shown, indent=1))
        return
    common.write(
        "steerlm2_step" if options.responses == "borrowed" else "steerlm2_step_sampled",
        "padded rows, one a response, in plain PyTorch, against our step on groups; same dtype, "
        f"n = 10 {options.responses} responses",
        min(ratios.values()),
        "at least 3.5x at equal loss and gradient norm; time a token does not grow with the data",
        min(ratios.values()) >= 3.5 and same and linear,
        f"relative difference of loss and gradient norm {apart}, limits {limit}: {same}; linear: {linear}",
        timings,
        packages=("torch", "transformers"),
        on=on,
        model=options.model,
        **({"gpu_memory_mb_beside_weights": memory} if on == "cuda" else {}),
        ratios=ratios,
        projected_to_all_prompts=projected,
        groups_per_second={name: options.groups / seconds for name, seconds in middle.items()},
        tokens=counts,
        seconds_per_token={str(size): value for size, value in grown.items()},
        threads=options.threads,
        subset=f"{options.groups} groups of 10 {options.responses} responses, random, seed 0, rows of at most "
        f"{options.longest} tokens",
    )


if __name__ == "__main__":
    main()
