"""Rollouts of n = 10: hs2lib's decoding against transformers' `generate` with
num_return_sequences=10.

    python benchmarks/rollout.py [--prompts 8] [--tokens 48] [--repeats 3] [--dtypes float32] [--sizes 4 8 16] [--dry]
        [--device cuda] [--model Qwen/Qwen2.5-0.5B-Instruct]

Prompts of the unrated HelpSteer2 validation pairs (HS2_DATA_DIR; without it generated ones, and the
result says so), SmolLM2-135M-Instruct. Both sample exactly as many tokens (no end before the last:
min = max new tokens), at temperature
0.7 and top-p 0.9, from the same prompts; `generate` gets them padded on the left, sorted by length, as many prompts at
once as ours has samples at once. With temperature 0 both must give the same tokens; that is the
check. On a GPU vLLM (`backend="vllm"` of the rollouts) is a third side where a server is named, in
the first of the dtypes, with which it is to be started; its prefix cache is emptied before each
round.
"""

import argparse
import gc
import os
import sys
from functools import partial

import common
import torch
from transformers import AutoModelForCausalLM, GenerationConfig

from hs2lib.data import load
from hs2lib.engine.chat import prompt_tokens
from hs2lib.group import Group
from hs2lib.models.backbones import source_of
from hs2lib.models.policy import Policy, load_policy
from hs2lib.models.rollout import Server, as_tokens, rollouts

GOAL = 1.5


def short_prompts(number: int, longest: int, tokenizer) -> tuple[list[Group], str]:
    """Prompts of at most `longest` tokens, evenly spread over the data, and their source."""
    if "HS2_DATA_DIR" in os.environ:
        loaded = load.load("helpsteer2-unrated", "folder", strict=False)
    else:
        loaded = load.load("helpsteer2", "postcards", n_prompts=4 * number)
    short = [
        group for group in loaded.groups if len(prompt_tokens(group.prompt, tokenizer)) <= longest
    ]
    return [short[i * len(short) // number] for i in range(number)], loaded.source


def ours(policy: Policy, prompts: list[Group], tokens: int, n: int, batch: int, **sampling):
    """Rollouts of exactly `tokens` tokens each."""
    return rollouts(
        policy,
        prompts,
        n=n,
        max_new_tokens=tokens,
        min_new_tokens=tokens,
        batch=batch,
        progress=False,
        **sampling,
    )


def theirs(
    model, tokenizer, prompts: list[Group], tokens: int, n: int, batch: int, **sampling
) -> list[list[int]]:
    """New tokens of `generate`, prompt by prompt and sample by sample, in the order of the prompts."""
    ids = [prompt_tokens(group.prompt, tokenizer) for group in prompts]
    order, out = sorted(range(len(ids)), key=lambda i: len(ids[i])), {}
    for start in range(0, len(order), max(1, batch // n)):
        rows = order[start : start + max(1, batch // n)]
        longest = max(len(ids[i]) for i in rows)
        padded = torch.tensor(
            [[tokenizer.pad_token_id] * (longest - len(ids[i])) + ids[i] for i in rows]
        )
        mask = torch.tensor([[0] * (longest - len(ids[i])) + [1] * len(ids[i]) for i in rows])
        options = dict(
            max_new_tokens=tokens, min_new_tokens=tokens, num_return_sequences=n, **sampling
        )
        padded, mask = padded.to(model.device), mask.to(model.device)
        with torch.no_grad():
            sampled = model.generate(
                padded, attention_mask=mask, pad_token_id=tokenizer.pad_token_id, **options
            )
        for place, i in enumerate(rows):
            out[i] = sampled[place * n : (place + 1) * n, longest:].tolist()
    return [sample for i in range(len(ids)) for sample in out[i]]


def margin(policy: Policy, group, sample: int) -> float:
    """How much likelier the first of our greedy tokens that differs was than the next best: near 0 it is a tie."""
    (tokens,) = as_tokens(policy, [group])
    policy.backbone.set_attn_implementation("sdpa")
    ids = torch.tensor(
        [tokens.sequences[0][: tokens.starts[0] + sample]], device=policy.backbone.device
    )
    with torch.no_grad():
        logits = policy.backbone(ids).logits[0, -1]
    best = logits.float().topk(2).values
    return float(best[0] - best[1])


def same(policy, model, tokenizer, prompts, tokens: int, batch: int) -> dict[str, float]:
    """The share of prompts with equal greedy tokens, and the largest margin at which two of them part."""
    mine = ours(policy, prompts, tokens, 1, batch, temperature=0.0)
    other = theirs(model, tokenizer, prompts, tokens, 1, batch, do_sample=False)
    parted = [
        (group, list(group.responses[0].tokens), ids)
        for group, ids in zip(mine, other, strict=True)
        if list(group.responses[0].tokens) != ids
    ]
    first = [
        next(i for i, (a, b) in enumerate(zip(x, y, strict=True)) if a != b) for _, x, y in parted
    ]
    margins = [margin(policy, group, at) for (group, _, _), at in zip(parted, first, strict=True)]
    return {
        "equal": 1 - len(parted) / len(prompts),
        "largest margin where not": max(margins, default=0.0),
    }


def plain(model):
    """The model with a generation configuration that only names tokens: no repetition penalty, no top-k of its own."""
    own = model.generation_config
    names = ("bos_token_id", "eos_token_id", "pad_token_id")
    model.generation_config = GenerationConfig(**{name: getattr(own, name) for name in names})
    return model


def with_vllm(options, timings: dict) -> dict | str:
    """Add a vLLM server's seconds to the timings and say how it compares, or why there is no such side."""
    if options.device == "cpu" or "HS2_VLLM_URL" not in os.environ:
        return "not run: on a GPU a vLLM server is compared, named by HS2_VLLM_URL and HS2_VLLM_FOLDER (docs/gpu.md)"
    dtype, seconds = options.dtypes[0], []
    policy = load_policy(options.model)  # on the CPU: vLLM takes the GPU's memory for itself
    prompts, _ = short_prompts(options.prompts, options.longest, policy.tokenizer)
    sampling = dict(temperature=0.7, top_p=0.9, autocast=dtype, backend="vllm")
    try:
        for _ in range(options.repeats + 1):  # the first reads the weights and warms up
            Server().ask("POST", "/reset_prefix_cache")
            begun = common.clock()  # a call returns when the tokens are there
            sampled = ours(policy, prompts, options.tokens, options.n, options.batch, **sampling)
            seconds.append(common.clock() - begun)
    except (OSError, RuntimeError) as error:
        return f"failed: {error}"
    timings[dtype]["vllm"] = seconds[1:]
    middle = common.medians(timings[dtype])
    tokens = sum(len(sample.tokens) for group in sampled for sample in group.responses)
    out = {"tokens": tokens, "tokens_per_second": tokens / middle["vllm"]}
    return {
        dtype: out
        | {f"{side} over vllm": middle[side] / middle["vllm"] for side in ("rollouts", "generate")}
    }


def measured(options, name: str) -> dict:
    """Both sides in one dtype: seconds of each, the check, seconds a prompt by number of prompts, a GPU's memory."""
    dtype, on, memory = getattr(torch, name), options.device, {}
    policy = Policy.new(source_of(options.model)).eval().to(on)
    policy.backbone.to(dtype)
    model = (
        AutoModelForCausalLM.from_pretrained(source_of(options.model), dtype=dtype).eval().to(on)
    )
    model = plain(model)
    prompts, source = short_prompts(options.prompts, options.longest, policy.tokenizer)
    check = same(policy, model, policy.tokenizer, prompts, options.tokens, options.batch)
    shape = options.tokens, options.n, options.batch
    sampling = {"temperature": 0.7, "top_p": 0.9}
    functions = {
        "rollouts": partial(ours, policy, prompts, *shape, **sampling),
        "generate": partial(
            theirs, model, policy.tokenizer, prompts, *shape, do_sample=True, top_k=0, **sampling
        ),
    }
    seconds = common.times(functions, options.repeats, on, memory)
    middle = common.medians(seconds)
    rate = options.prompts * options.n * options.tokens / middle["rollouts"]
    ratio = middle["generate"] / middle["rollouts"]
    print(name, middle, f"ratio {ratio:.2f}, {rate:.0f} tokens/s", check, file=sys.stderr)
    growth = {}
    if options.sizes:
        sets = {
            size: short_prompts(size, options.longest, policy.tokenizer)[0]
            for size in options.sizes
        }
        runs = {
            str(size): partial(ours, policy, few, *shape, **sampling) for size, few in sets.items()
        }
        once = common.medians(common.times(runs, 1, on))
        growth = {size: once[size] / int(size) for size in once}
        print(name, "seconds a prompt, by number of prompts:", growth, file=sys.stderr)
    return dict(
        seconds=seconds, check=check, ratio=ratio, growth=growth, memory=memory, source=source
    )


def main(argv: list[str] | None = None) -> None:
    """Time both, compare their greedy tokens, write the result."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--prompts", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=48)
    parser.add_argument("--n", type=int, default=10)
    parser.add_argument("--batch", type=int, default=80, help="samples at once, for both")
    parser.add_argument("--longest", type=int, default=512, help="longest prompt, tokens")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--dtypes", nargs="+", default=["float32"])
    parser.add_argument(
        "--sizes", type=int, nargs="*", default=[4, 8, 16], help="prompts, for the growth of ours"
    )
    parser.add_argument("--dry", action="store_true", help="do not write the result")
    gpu = dict(
        prompts=32, tokens=256, batch=320, sizes=[16, 32, 64], dtypes=["bfloat16", "float32"]
    )
    options = common.parse(parser, argv, **gpu)
    results, on = {name: measured(options, name) for name in options.dtypes}, options.device
    timings, checks, ratios = (
        {name: one[key] for name, one in results.items()} for key in ("seconds", "check", "ratio")
    )
    growth = {name: one["growth"] for name, one in results.items() if one["growth"]}
    memory = {name: one["memory"] for name, one in results.items()}
    if on == "cuda":  # vLLM asks for most of the memory
        gc.collect()
        torch.cuda.empty_cache()
    third = with_vllm(options, timings)
    print("vllm:", third, file=sys.stderr)
    # Logits of two engines differ by rounding: greedy tokens may part where two tokens are as good
    # as equally likely.
    close = {"float32": 1e-3, "bfloat16": 0.25}
    equal = all(check["largest margin where not"] <= close[name] for name, check in checks.items())
    if not options.dry:
        common.write(
            "rollout",
            "transformers generate(num_return_sequences) against hs2lib's rollouts, same prompts and number of tokens",
            min(ratios.values()),
            f"at least {GOAL}x",
            min(ratios.values()) >= GOAL and equal,
            f"greedy tokens: {checks}; the same but for ties: {equal}",
            timings,
            packages=("torch", "transformers"),
            on=on,
            model=options.model,
            **({"vllm": third, "gpu_memory_mb_beside_weights": memory} if on == "cuda" else {}),
            ratios=ratios,
            growth=growth,
            prompts=f"{options.prompts} of {results[options.dtypes[0]]['source']}, at most {options.longest} tokens",
            new_tokens=options.tokens,
            samples=options.n,
            samples_at_once=options.batch,
            threads=torch.get_num_threads(),
        )


if __name__ == "__main__":
    main()
