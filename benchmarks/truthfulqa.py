"""TruthfulQA MC2: one prefix tree against lm-eval, the same model in one run, the same score
question by question.

    python benchmarks/truthfulqa.py [--questions 24] [--full] [--batch 8] [--budget 4096] [--dry]

Questions from HS2_DATA_DIR, SmolLM2-135M-Instruct in float32 for both; lm-eval (the `peers` extra)
runs its own task truthfulqa_mc2 through its transformers model in batches of `--batch`, on the same
questions. Both are timed from the questions to the score, tokenising included, loading the model
not. By default a random subset of the questions (seed 0); --full takes all 817, where lm-eval needs
about an hour on two cores.
"""

import argparse
import os
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

import common
import numpy as np
import pandas as pd
import torch
import yaml

from hs2lib.engine.trees import plan
from hs2lib.evaluate import truthfulqa
from hs2lib.models.backbones import load_backbone, load_tokenizer
from hs2lib.models.policy import load_policy

GOAL = 12
APART = 1e-4  # largest difference of a question's MC2


class Harness:
    """lm-eval's own truthfulqa_mc1 and truthfulqa_mc2 on the questions of a benchmark instead of the Hub's."""

    def __init__(self, model, tokenizer, benchmark: truthfulqa.MultipleChoice, batch: int = 8):
        from lm_eval.models.huggingface import HFLM
        from lm_eval.tasks import TaskManager

        rows = []
        for group in benchmark.groups:
            row = {"question": group.prompt[0].text}
            for k, name in enumerate(("mc1_targets", "mc2_targets")):
                there = [answer for answer in group.responses if not np.isnan(answer.labels[k])]
                there.sort(
                    key=lambda answer: -answer.labels[k]
                )  # lm-eval takes the first of MC1 for the true one
                row[name] = {
                    "choices": [a.text for a in there],
                    "labels": [int(a.labels[k]) for a in there],
                }
            rows.append(row)
        self.folder = tempfile.TemporaryDirectory()
        folder, file = Path(self.folder.name), Path(self.folder.name) / "questions.parquet"
        pd.DataFrame(rows).to_parquet(file)
        tasks = Path(find_spec("lm_eval").submodule_search_locations[0]) / "tasks" / "truthfulqa"
        data = {"data_files": {"validation": str(file)}, "cache_dir": str(folder / "cache")}
        for task in ("truthfulqa_mc1", "truthfulqa_mc2"):
            config = {
                "include": str(tasks / f"{task}.yaml"),
                "task": task,
                "dataset_path": "parquet",
            }
            config |= {"dataset_name": None, "dataset_kwargs": data}
            (folder / f"{task}.yaml").write_text(yaml.safe_dump(config))
        self.tasks = TaskManager(include_defaults=False, include_path=str(folder))
        self.model = HFLM(pretrained=model, tokenizer=tokenizer, batch_size=batch)

    def run(self, task: str = "truthfulqa_mc2") -> tuple[list[float], list[list[float]]]:
        """The score of every question, and the log-probabilities of its answers, true ones first."""
        from lm_eval import simple_evaluate

        done = simple_evaluate(self.model, tasks=[task], task_manager=self.tasks, bootstrap_iters=0)
        samples = sorted(done["samples"][task], key=lambda sample: sample["doc_id"])
        return [float(s["acc"]) for s in samples], [
            [float(r[0]) for r in s["filtered_resps"]] for s in samples
        ]


def main() -> None:
    """Time both, compare question by question, write the result."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--questions", type=int, default=24)
    parser.add_argument(
        "--full", action="store_true", help="all 817 questions: about an hour for lm-eval"
    )
    parser.add_argument("--batch", type=int, default=8, help="lm-eval's batch size")
    parser.add_argument("--budget", type=int, default=4096, help="tokens of a batch of ours")
    parser.add_argument("--model", default="embedded")
    parser.add_argument("--dry", action="store_true", help="do not write the result")
    options = parser.parse_args()
    if "HS2_DATA_DIR" not in os.environ:
        sys.exit(
            "benchmarks/truthfulqa.py needs HS2_DATA_DIR, the folder with truthfulqa/ (see the README)"
        )
    if find_spec("lm_eval") is None:
        sys.exit("benchmarks/truthfulqa.py needs lm-eval: pip install -e '.[peers]'")
    whole = truthfulqa.load("folder")
    benchmark = whole if options.full else whole.subset(options.questions, seed=0)
    policy = load_policy(options.model)
    # Two models, because the engine's keeps its attention.
    plain = load_backbone(options.model, head=True).eval()
    harness = Harness(plain, load_tokenizer(options.model), benchmark, options.batch)
    counts = {"all questions": token_counts(whole, policy.tokenizer, options.budget)}
    counts["timed"] = token_counts(benchmark, policy.tokenizer, options.budget)
    results = {}

    def ours() -> None:
        results["ours"] = truthfulqa.score(benchmark, policy, budget=options.budget)

    def theirs() -> None:
        results["theirs"] = harness.run()

    truthfulqa.score(
        whole.subset(1, seed=1), policy, progress=False
    )  # whatever is loaded on first use
    started = time.time()
    seconds = common.times({"groups": ours, "lm-eval": theirs}, repeats=1)
    frame, (scores, log_probs) = results["ours"], results["theirs"]
    apart = float(np.abs(frame.mc2 - scores).max())
    pairs = zip(map(sorted, frame.log_probs), map(sorted, log_probs), strict=True)
    sums = max(float(np.abs(np.subtract(a, b)).max()) for a, b in pairs)
    mine = truthfulqa.evaluate(benchmark, frame)
    check = (
        f"MC2 {mine.value[1]:.6f} here, {np.mean(scores):.6f} by lm-eval; largest difference of one question "
        f"{apart:.1e} (at most {APART:g}), of one answer's log-probability {sums:.1e} nats"
    )
    middle = common.medians(seconds)
    ratio = middle["lm-eval"] / middle["groups"]
    print(
        benchmark.title,
        check,
        middle,
        counts,
        f"{time.time() - started:.0f} s in all",
        sep="\n",
        file=sys.stderr,
    )
    print(f"ratio {ratio:.1f}, goal {GOAL}", file=sys.stderr)
    if not options.dry:
        common.write(
            "truthfulqa",
            f"lm-eval's truthfulqa_mc2 (transformers, batches of {options.batch}) against one prefix tree, float32",
            ratio,
            f"at least {GOAL}x, the same score",
            ratio >= GOAL and apart <= APART,
            check,
            seconds,
            packages=("torch", "transformers", "lm_eval"),
            tokens=counts,
            threads=torch.get_num_threads(),
            subset="all" if options.full else benchmark.title,
        )


def token_counts(benchmark: truthfulqa.MultipleChoice, tokenizer, budget: int) -> dict[str, int]:
    """Tokens that each way computes: every answer with its prompt, and the prefix trees."""
    sequences = [asked.sequences for asked in truthfulqa.tokenise(benchmark, tokenizer)]
    return {
        "one by one": sum(len(s) for group in sequences for s in group),
        "groups": sum(len(batch.tokens) for batch in plan(sequences, budget, window=None)),
    }


if __name__ == "__main__":
    main()
