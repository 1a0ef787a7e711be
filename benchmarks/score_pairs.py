"""Scoring RewardBench pairs: the group engine against padded batches, in arrival order and sorted
by length.

    python benchmarks/score_pairs.py [--pairs 24] [--repeats 3] [--full] [--dtypes bfloat16 float32] [--budget 2048]
        [--device cuda] [--model Qwen/Qwen2.5-0.5B-Instruct]

LLMBar and HumanEvalPack pairs from HS2_DATA_DIR, SmolLM2-135M-Instruct in the same dtype for all, a
five-output head on the state of each response's last token. The padded loop takes 8 pairs as they
come and runs the 8 better responses, then the 8 worse ones, as rewardbench does through the
transformers pipeline; the sorted one takes 8 responses of like length. By default a random subset
of the pairs (seed 0, in the order of the full set). With --device cuda all of them. "utilisation"
in the result says how much of the device each side uses, and `common` what is counted.
"""

import argparse
import os
import random
import sys
from functools import partial

import common
import torch
from transformers import AutoModel

from hs2lib.data import pairs
from hs2lib.engine import attention, trees
from hs2lib.engine.chat import tokenise
from hs2lib.models.backbones import load_tokenizer, source_of

GOALS = {"padded, arrival order": 2.5, "padded, sorted by length": 1.6}
BATCH = 8


def padded(model, head, sequences: list[list[int]], order: list[int]) -> torch.Tensor:
    """Scores [sequences, 5] by batches of 8 rows, padded on the right to the longest."""
    out = torch.empty(len(sequences), head.out_features, device=model.device)
    with torch.no_grad():
        for start in range(0, len(order), BATCH):
            rows = order[start : start + BATCH]
            ids = torch.nn.utils.rnn.pad_sequence(
                [torch.tensor(sequences[i]) for i in rows], batch_first=True
            )
            length = torch.tensor([len(sequences[i]) for i in rows])
            mask = (torch.arange(ids.shape[1]) < length[:, None]).long()
            ids, mask = ids.to(model.device), mask.to(model.device)
            hidden = model(input_ids=ids, attention_mask=mask, use_cache=False).last_hidden_state
            out[rows] = head(hidden[torch.arange(len(rows)), length - 1].float())
    return out.cpu()


def scores(model, head, batch: trees.Batch) -> torch.Tensor:
    """Scores [R, 5] of a packed batch."""
    return head(attention.end_states(model, batch).float())


def main(argv: list[str] | None = None) -> None:
    """Time the three, compare their scores, write the result."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=int, default=24)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument(
        "--full", action="store_true", help="all 1,403 pairs: about two hours with --repeats 1"
    )
    parser.add_argument("--dtypes", nargs="+", default=["bfloat16", "float32"])
    parser.add_argument("--budget", type=int, default=trees.BUDGET)
    parser.add_argument("--dry", action="store_true", help="do not write the result")
    options = common.parse(parser, argv, full=True, repeats=5, budget=16384)
    if "HS2_DATA_DIR" not in os.environ:
        sys.exit("score_pairs needs HS2_DATA_DIR, the folder with rewardbench/ (see the README)")
    folder, on = source_of(options.model), options.device
    benchmark = pairs.load_pairs("folder")
    every = [list(t.sequences) for t in tokenise(benchmark.pairs, load_tokenizer(folder))]
    number = len(every) if options.full else options.pairs
    chosen = [every[i] for i in sorted(random.Random(0).sample(range(len(every)), number))]
    done = {"all pairs": work(every, options.budget), "timed": work(chosen, options.budget)}
    counts = {
        name: {side: tokens for side, (tokens, _) in sides.items()} for name, sides in done.items()
    }
    sequences = [s for group in chosen for s in group]
    by_length = sorted(range(len(sequences)), key=lambda i: -len(sequences[i]))
    torch.manual_seed(0)
    ratios, projected, timings, apart, share, used, memory, exact = {}, {}, {}, {}, {}, {}, {}, None
    for name in dict.fromkeys(["float32", *options.dtypes]):
        dtype = getattr(torch, name)
        # Two models, because the engine's keeps its attention; both run plain SDPA on padded
        # batches.
        ours, theirs = (
            AutoModel.from_pretrained(folder, dtype=dtype).eval().to(on) for _ in range(2)
        )
        if exact is None:
            head = (
                torch.nn.Linear(ours.config.hidden_size, 5, bias=False).requires_grad_(False).to(on)
            )
            exact = attention.in_order(partial(scores, ours, head), chosen, options.budget)
            if name not in options.dtypes:
                continue
        results = {}

        def keep(key, function, results=results):
            results[key] = function()

        functions = {
            "groups": partial(
                attention.in_order, partial(scores, ours, head), chosen, options.budget
            ),
            "padded, arrival order": partial(
                padded, theirs, head, sequences, as_they_come(len(chosen))
            ),
            "padded, sorted by length": partial(padded, theirs, head, sequences, by_length),
            "dense products": partial(common.dense, dtype, on),
        }
        timed = {key: partial(keep, key, f) for key, f in functions.items()}
        seconds = common.times(timed, options.repeats, on, memory.setdefault(name, {}))
        middle = common.medians(seconds)
        timings[name] = seconds
        ratios[name] = {key: middle[key] / middle["groups"] for key in GOALS}
        rate = {key: counts["timed"][key] / middle[key] for key in ("groups", *GOALS)}
        # What the measured tokens a second make of all pairs, where sorting leaves less padding
        # than in a subset.
        projected[name] = {
            key: counts["all pairs"][key]
            / rate[key]
            / (counts["all pairs"]["groups"] / rate["groups"])
            for key in GOALS
        }
        apart[name] = {
            key: float((results[key] - exact).square().mean().sqrt() / exact.std(0).mean())
            for key in rate
        }
        dense = common.dense_rate(middle["dense products"], on)
        operations = {key: common.flops(ours, *done["timed"][key]) for key in (*rate, "one by one")}
        share[name] = operations["groups"] / middle["groups"] / dense
        used[name] = {
            key: common.utilisation(
                operations["one by one"], operations[key], middle[key], dense, name
            )
            for key in rate
        }
        print(
            name,
            middle,
            ratios[name],
            projected[name],
            apart[name],
            f"{share[name]:.2f} of dense",
            file=sys.stderr,
        )
    # In float32 the same to rounding; in bfloat16 each is as far from float32 as the other, give or
    # take chance.
    same = all(
        max(a.values()) < 1e-4
        if name == "float32"
        else a["groups"] <= 1.5 * a["padded, arrival order"]
        for name, a in apart.items()
    )
    worst = min(
        r[name][key] / goal
        for r in (ratios, projected)
        for name in r
        for key, goal in GOALS.items()
    )
    if not options.dry:
        common.write(
            "score_pairs",
            "padded batch-8 loop in arrival order and sorted by length against the group engine, same dtype",
            min(r["padded, arrival order"] for r in ratios.values()),
            "at least 2.5x the arrival order and 1.6x the sorted loop, each dtype; aim: 0.8 of the dense rate",
            worst >= 1 and same,
            f"RMS distance of the scores from float32's over their SD: {apart}; the same: {same}",
            timings,
            packages=("torch", "transformers"),
            on=on,
            model=options.model,
            ratios=ratios,
            projected_to_all_pairs=projected,
            share_of_dense_rate=share,
            utilisation=used,
            **({"gpu_memory_mb_beside_weights": memory} if on == "cuda" else {}),
            tokens=counts,
            threads=torch.get_num_threads(),
            subset="all" if options.full else f"{number} of {len(every):,} pairs, random, seed 0",
        )


def as_they_come(number: int) -> list[int]:
    """Indices of the responses of `number` pairs in rewardbench's order: of 8 pairs the better, then the worse ones."""
    return [
        2 * i + j
        for start in range(0, number, BATCH)
        for j in (0, 1)
        for i in range(start, min(start + BATCH, number))
    ]


def work(tokenised: list[list[list[int]]], budget: int) -> dict[str, tuple[int, int]]:
    """Tokens, and scores of attention, that each way of batching computes."""
    lengths = [len(s) for group in tokenised for s in group]

    def pad(order: list[int]) -> tuple[int, int]:
        rows = [
            [lengths[i] for i in order[start : start + BATCH]]
            for start in range(0, len(order), BATCH)
        ]
        return common.work(max(batch) for batch in rows for _ in batch)

    return {
        "padded, arrival order": pad(as_they_come(len(tokenised))),
        "padded, sorted by length": pad(sorted(range(len(lengths)), key=lambda i: -lengths[i])),
        "one by one": common.work(lengths),
        "groups": common.packed(trees.plan(tokenised, budget)),
    }


if __name__ == "__main__":
    main()
