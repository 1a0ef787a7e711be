"""A file of real pairs: `hs2lib.score` against transformers' own pipeline, in the file's order and
sorted by length.

    HS2_DATA_DIR=... python benchmarks/score_file.py [--pairs 500] [--repeats 1] [--model embedded] [--dry]

RM-Bench and JudgeBench, half each: of every row one pair, of RM-Bench's styles the same for both
answers. They are written to a file of prompt, chosen and rejected. The classifier is a random head
over SmolLM2-135M-Instruct (`--model` names another base), exported as plain transformers has it.
Each side is given the loaded model and the file, reads it, writes conversations in the chat
template, and scores both answers of every pair. Ours writes a file of scores besides. The pipeline
takes batches of 8 texts as they come, or sorted by their number of tokens, which is counted before
the clock starts.
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
import numpy as np
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer, pipeline

from hs2lib.data.load import own_file
from hs2lib.data.rows import rows
from hs2lib.models.export import export
from hs2lib.models.reward_model import RewardModel, load_reward_model
from hs2lib.paths import json_lines
from hs2lib.score.scoring import score

GOALS = {"pipeline, file order": 2.5, "pipeline, sorted by length": 1.6}
BATCH, WITHIN = 8, 1e-4
FILES = {
    "RM-Bench": [
        f"rm_bench/{part}_filtered.json.gz"
        for part in ("chat", "code", "safety-refuse", "safety-response")
    ],
    "JudgeBench": [
        f"judgebench/{model}.jsonl.gz"
        for model in ("gpt-4o-2024-05-13", "claude-3-5-sonnet-20240620")
    ],
}


def one_pair(line: int, row: dict) -> dict:
    """A pair of a row: its better answer and its worse one; of three styles the same for both."""
    if "chosen" in row:  # RM-Bench
        question = row["prompt"]
        texts = [row["chosen"][line % 3], row["rejected"][line % 3]]
    else:
        question = row["question"]
        texts = [row["response_A"], row["response_B"]]
        if row["label"] == "B>A":
            texts.reverse()
    prompt = [{"role": "user", "content": question}]
    return {"prompt": prompt, "chosen": texts[0], "rejected": texts[1]}


def pairs(number: int) -> list[dict]:
    """So many pairs, half of each set, drawn with seed 0 and in the order of the files."""
    draw, out = random.Random(0), []
    for i, files in enumerate(FILES.values()):
        every = [row for name in files for row in rows(own_file(name, None)[0])]
        share = number // 2 + (number % 2 if i else 0)
        chosen = sorted(draw.sample(range(len(every)), share))
        out += [one_pair(*every[k]) for k in chosen]
    return out


def texts(file: Path, tokenizer) -> list[str]:
    """Every conversation of the file in the chat template, chosen and rejected by turns."""
    out = []
    for line in file.read_text().splitlines():
        row = json.loads(line)
        for name in ("chosen", "rejected"):
            talk = [*row["prompt"], {"role": "assistant", "content": row[name]}]
            out.append(tokenizer.apply_chat_template(talk, tokenize=False))
    return out


def by_pipeline(file: Path, pipe, order: np.ndarray) -> np.ndarray:
    """Scores [2 pairs] by transformers' pipeline, conversations in this order."""
    every = texts(file, pipe.tokenizer)
    results = pipe([every[i] for i in order], batch_size=BATCH, function_to_apply="none")
    scores = np.empty(len(every))
    scores[order] = [one["score"] for one in results]
    return scores


def padded_tokens(lengths: np.ndarray, order: np.ndarray) -> int:
    """The tokens that batches in this order have, each row as long as the longest of its batch."""
    batches = np.split(lengths[order], range(BATCH, len(order), BATCH))
    return int(sum(len(batch) * batch.max() for batch in batches))


def by_ours(file: Path, model: RewardModel) -> np.ndarray:
    """Scores [2 pairs] by `hs2lib.score`, which writes a file of them too."""
    return np.concatenate(score(file, model, file.with_name("scored.jsonl")).scores)


def main(argv: list[str] | None = None) -> None:
    """Time the three, compare their scores, write the result."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=int, default=500)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--dry", action="store_true", help="do not write the result")
    options = common.parse(parser, argv)
    if "HS2_DATA_DIR" not in os.environ:
        sys.exit("score_file needs HS2_DATA_DIR, the folder with rm_bench/ and judgebench/")
    with tempfile.TemporaryDirectory() as scratch:
        folder, file = Path(scratch) / "classifier", Path(scratch) / "pairs.jsonl"
        model = RewardModel.new(options.model, attributes=("reward",))
        with torch.no_grad():
            sd = model.head.in_features**-0.5  # scores differ by about 1
            model.head.weight.normal_(0, sd, generator=torch.Generator().manual_seed(0))
        export(model, folder)
        file.write_text(json_lines(pairs(options.pairs)))
        ours = load_reward_model(folder).to(options.device).eval()
        plain = AutoModelForSequenceClassification.from_pretrained(folder, dtype=torch.float32)
        tokenizer = AutoTokenizer.from_pretrained(folder)
        pipe = pipeline(
            "text-classification", model=plain, tokenizer=tokenizer, device=options.device
        )
        lengths = np.array([len(ids) for ids in tokenizer(texts(file, tokenizer))["input_ids"]])
        orders = {
            "pipeline, file order": np.arange(len(lengths)),
            "pipeline, sorted by length": np.argsort(-lengths, kind="stable"),
        }
        results = {}

        def keep(name, function):
            results[name] = function()

        functions = {"hs2lib.score": partial(keep, "hs2lib.score", partial(by_ours, file, ours))}
        for name, order in orders.items():
            functions[name] = partial(keep, name, partial(by_pipeline, file, pipe, order))
        timings = common.times(functions, options.repeats, options.device)
    middle = common.medians(timings)
    ratios = {name: middle[name] / middle["hs2lib.score"] for name in GOALS}
    apart = {name: float(np.abs(results[name] - results["hs2lib.score"]).max()) for name in GOALS}
    print(middle, ratios, apart, file=sys.stderr)
    if not options.dry:
        common.write(
            "score_file",
            "scores of a file of real pairs by hs2lib.score and by transformers' pipeline at batch 8",
            ratios["pipeline, file order"],
            "at least 2.5x the file's order and 1.6x sorted by length, scores equal to 1e-4",
            all(ratios[name] >= goal for name, goal in GOALS.items())
            and max(apart.values()) <= WITHIN,
            f"largest difference of a score: {apart}, of scores with SD {results['hs2lib.score'].std():.3g}",
            timings,
            packages=("torch", "transformers"),
            on=options.device,
            model=options.model,
            ratios=ratios,
            pairs=options.pairs,
            tokens={"one by one": int(lengths.sum())}
            | {name: padded_tokens(lengths, order) for name, order in orders.items()},
            threads=torch.get_num_threads(),
        )


if __name__ == "__main__":
    main()
