"""Scoring 500 real pairs of RM-Bench and JudgeBench: notebook 16's engine against padded loops.

    python benchmarks/reward_benchmarks.py [--pairs 500] [--repeats 1] [--dtype float32] [--budget 2048]
        [--loops "padded, as they come"] [--dry]

Questions of both benchmarks from HS2_DATA_DIR, drawn at random (seed 0) from all that are there
until they make so many pairs: a question of RM-Bench is three, its right and its wrong answer in
each style, one of JudgeBench is one. So every answer is scored once on every side.
SmolLM2-135M-Instruct, one output. The padded loop takes 8 pairs as they come and runs the 8 right
answers, then the 8 wrong ones, as rewardbench does. A second padded loop goes through RM-Bench
style by style, as its authors' script does. All sides start from the same tokens. Scores have to be
the same, and so has every number of the two benchmarks. On two cores without AVX-512 the groups take
about twelve minutes, and each loop over half an hour: `--loops` chooses among the two.
"""

import argparse
import os
import random
import sys

import common
import numpy as np
import score_pairs
import torch
from transformers import AutoModel

from hs2lib.data import reward_benchmarks as sets
from hs2lib.engine import trees
from hs2lib.engine.chat import TokenGroup
from hs2lib.evaluate import reward_benchmarks as today
from hs2lib.models.backbones import source_of
from hs2lib.models.reward_model import RewardModel

GOAL = 2.0
APART = {
    "float32": 1e-4,
    "bfloat16": 5e-2,
}  # largest distance of a score, in SDs of all scores
SEED = 0
AS_THEY_COME, BY_STYLE = "padded, as they come", "padded, style by style"
N_STYLES = len(sets.STYLES)


def draw(
    benchmarks: dict[str, sets.RewardBenchmark], n_pairs: int
) -> dict[str, sets.RewardBenchmark]:
    """Questions drawn at random from all until they make just so many pairs, in the benchmarks' order."""
    every = [(name, i) for name, benchmark in benchmarks.items() for i in range(len(benchmark))]
    random.Random(SEED).shuffle(every)
    chosen, left = set(), n_pairs
    for name, i in every:
        n = len(benchmarks[name].groups[i].responses) // 2
        if n <= left:
            chosen.add((name, i))
            left -= n
    if left:
        sys.exit(f"there are only {n_pairs - left} pairs: ask for no more")
    drawn = {}
    for name, benchmark in benchmarks.items():
        keep = [(name, i) in chosen for i in range(len(benchmark))]
        if any(keep):
            drawn[name] = benchmark.where(keep, f"{n_pairs} pairs drawn")
    return drawn


def orders(sizes: list[int]) -> dict[str, list[int]]:
    """The order in which each padded loop runs the answers, numbered question after question.

    sizes: answers to each question: 6 of RM-Bench, right ones first, or 2. Of 8 pairs come the
    first answers, then the second ones.
    """
    starts = np.cumsum([0, *sizes[:-1]]).tolist()
    as_they_come, by_style = [], []
    for start, size in zip(starts, sizes, strict=True):
        as_they_come += [(start + k, start + size // 2 + k) for k in range(size // 2)]
    for k in range(N_STYLES):
        by_style += [
            (s + k, s + 3 + k)
            for s, size in zip(starts, sizes, strict=True)
            if size == 2 * N_STYLES
        ]
    by_style += [(s, s + 1) for s, size in zip(starts, sizes, strict=True) if size == 2]
    flat = {}
    for name, pairs in ((AS_THEY_COME, as_they_come), (BY_STYLE, by_style)):
        order = []
        for at in range(0, len(pairs), score_pairs.BATCH):
            batch = pairs[at : at + score_pairs.BATCH]
            order += [first for first, _ in batch] + [second for _, second in batch]
        flat[name] = order
    return flat


def tokens_of(lengths: list[int], order: list[int]) -> int:
    """Tokens that a padded loop computes."""
    batches = [
        [lengths[i] for i in order[at : at + score_pairs.BATCH]]
        for at in range(0, len(order), score_pairs.BATCH)
    ]
    return sum(len(batch) * max(batch) for batch in batches)


def numbers(
    drawn: dict[str, sets.RewardBenchmark], groups: list[TokenGroup], scores: np.ndarray
) -> dict:
    """What both benchmarks make of the scores [responses], in percent."""
    ends = np.cumsum([sum(len(g.responses) for g in b.groups) for b in drawn.values()])
    out = {}
    for (name, benchmark), flat in zip(drawn.items(), np.split(scores, ends[:-1]), strict=True):
        module = today.MODULES[name]
        sizes = [len(group.responses) for group in benchmark.groups]
        by_question = np.split(flat, np.cumsum(sizes)[:-1])
        with np.errstate(invalid="ignore", divide="ignore"):
            values = module.numbers(module.contributions(benchmark, by_question).sum(0)[None])
        for (part, level), value in values.items():
            if not np.isnan(value[0]):
                out[f"{name} {part} {level}".strip()] = float(value[0])
    return out


def main(argv: list[str] | None = None) -> None:
    """Time the three, compare their scores and the benchmarks' numbers, write the result."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=int, default=500)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--dtype", choices=list(APART), default="float32")
    parser.add_argument("--budget", type=int, default=trees.BUDGET)
    parser.add_argument(
        "--loops",
        nargs="+",
        choices=[AS_THEY_COME, BY_STYLE],
        default=[AS_THEY_COME, BY_STYLE],
        help="the padded loops to time; the first is the one of the goal",
    )
    parser.add_argument("--dry", action="store_true", help="do not write the result")
    options = common.parse(parser, argv)
    if "HS2_DATA_DIR" not in os.environ:
        sys.exit(
            "reward_benchmarks needs HS2_DATA_DIR, with rm_bench/ and judgebench/ (docs/real-data.md)"
        )
    on = options.device
    every = {name: sets.load(name, "folder") for name in ("RM-Bench", "JudgeBench")}
    drawn = draw(every, options.pairs)
    model = RewardModel.new(options.model, attributes=("reward",), seed=SEED).to(on).eval()
    groups = [g for b in drawn.values() for g in model.tokenise(b.groups)]
    sequences = [list(s) for group in groups for s in group.sequences]
    plain = AutoModel.from_pretrained(source_of(options.model), dtype=torch.float32).eval().to(on)

    def padded(order: list[int]) -> np.ndarray:
        with torch.no_grad(), torch.autocast(on, torch.bfloat16, options.dtype == "bfloat16"):
            return score_pairs.padded(plain, model.head, sequences, order)[:, 0].double().numpy()

    def ours() -> np.ndarray:
        scores = model.score(groups, budget=options.budget, autocast=options.dtype)
        return scores[:, 0].double().cpu().numpy()

    results = {}

    def keep(name, function):
        results[name] = function()

    every_order = orders([len(group.sequences) for group in groups])
    by_order = {name: every_order[name] for name in options.loops}
    functions = {"groups": lambda: keep("groups", ours)}
    for name, order in by_order.items():
        functions[name] = lambda name=name, order=order: keep(name, lambda: padded(order))
    timings = common.times(functions, options.repeats, on)
    middle = common.medians(timings)
    ratios = {name: middle[name] / middle["groups"] for name in by_order}
    sd = results["groups"].std()
    apart = {n: float(np.abs(results[n] - results["groups"]).max() / sd) for n in by_order}
    by_side = {name: numbers(drawn, groups, scores) for name, scores in results.items()}
    moved = max(
        abs(by_side[name][key] - value)
        for name in by_order
        for key, value in by_side["groups"].items()
    )
    # In bfloat16 rounding may turn a pair around.
    same = max(apart.values()) <= APART[options.dtype]
    same = same and (moved == 0 or options.dtype == "bfloat16")
    lengths = [len(sequence) for sequence in sequences]
    tokens = {name: tokens_of(lengths, order) for name, order in every_order.items()}
    tokens["one by one"] = sum(lengths)
    tokens["groups"] = common.packed(trees.plan([g.sequences for g in groups], options.budget))[0]
    print(middle, ratios, apart, moved, tokens, file=sys.stderr)
    if options.dry:
        return
    common.write(
        "reward_benchmarks",
        "padded batch-8 loops against the group engine on pairs of RM-Bench and JudgeBench",
        ratios[options.loops[0]],
        f"at least {GOAL:g}x {options.loops[0]}, equal scores and numbers",
        ratios[options.loops[0]] >= GOAL and same,
        f"largest distance of a score in SDs: {apart}; largest difference of a number, points: "
        f"{moved:g}; the same: {same}",
        timings,
        packages=("torch", "transformers"),
        on=on,
        model=options.model,
        dtype=options.dtype,
        ratios=ratios,
        tokens=tokens,
        numbers=by_side["groups"],
        questions={name: len(benchmark) for name, benchmark in drawn.items()},
        pairs=options.pairs,
        threads=torch.get_num_threads(),
    )


if __name__ == "__main__":
    main()
