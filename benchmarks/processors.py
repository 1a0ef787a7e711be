"""Does another processor give other answers? The same small work under other kernels.

    python benchmarks/processors.py [--steps 50] [--prompts 100] [--dry]

Libraries choose their kernels by what a processor can do, and kernels add in another order. Each
setting (`SETTINGS`) makes them choose as on another processor. Under each one a process of its own
trains the reward model, SFT and DPO of tier demo for some steps and answers held-out prompts
greedily. Two runs as it is come first: they must be equal to the last bit. Then answers that differ
are counted, and the largest difference of a score is taken.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
import works

from hs2lib import paths
from hs2lib.models.rollout import rollouts
from hs2lib.report import report

SETTINGS: dict[str, dict[str, str]] = {
    "as it is": {},
    "as it is, again": {},
    "torch without vector instructions": {"ATEN_CPU_CAPABILITY": "default"},
    "oneDNN with SSE4.1 only": {"ONEDNN_MAX_CPU_ISA": "SSE41"},
    "MKL without vector instructions": {"MKL_CBWR": "COMPATIBLE"},
}
SEED = 93  # of which no result is
POLICIES = ("base", "sft", "dpo")


def computed(folder: Path, steps: int, n_prompts: int) -> dict:
    """The answers of the policies by name, and the reward model's scores of those of the base."""
    short = {"steps": steps, "validate_every": steps, "n_prompts": 16 * steps}
    names = (works.REWARD_MODEL, works.NOTEBOOKS["sft"], works.NOTEBOOKS["dpo"])
    world = works.World(SEED, folder, dict.fromkeys(names, short))
    answers = {}
    for name in POLICIES:
        answered = rollouts(
            world.policy(name),
            world.held_out[:n_prompts],
            n=1,
            temperature=0.0,
            top_p=1.0,
            max_new_tokens=works.LONGEST,
            seed=SEED,
            batch=256,
            progress=False,
        )
        answers[name] = [group.responses[0].text for group in answered]
        if name == "base":
            scores = world.reward_model.score(answered)  # [R, A]
    return {"answers": answers, "scores": scores.tolist()}


def main() -> None:
    """Compute under each setting in turn, and write what differs."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=50, help="of each training")
    parser.add_argument("--prompts", type=int, default=100, help="answered by each policy")
    parser.add_argument("--dry", action="store_true", help="do not write the result")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.child:
        result = computed(options.child / "work", options.steps, options.prompts)
        paths.write(options.child / "result.json", json.dumps(result))
        return
    results = {}
    for name, variables in SETTINGS.items():
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, __file__, "--child", folder]
            command += ["--steps", str(options.steps), "--prompts", str(options.prompts)]
            subprocess.run(command, env=os.environ | variables, check=True)
            results[name] = json.loads((Path(folder) / "result.json").read_text())
    first = results.pop("as it is")
    rows = []
    for name, result in results.items():
        row = {"setting": name, "variables": SETTINGS[name]}
        for policy in POLICIES:
            pairs = zip(first["answers"][policy], result["answers"][policy], strict=True)
            row[f"answers of {policy} that differ"] = sum(one != other for one, other in pairs)
        moved = np.abs(np.array(result["scores"]) - np.array(first["scores"]))
        row["largest difference of a score"] = float(moved.max())
        rows.append(row)
        print(row, flush=True)
    again, *others = rows
    policies = [f"answers of {policy} that differ" for policy in POLICIES]
    n_changed = sum(row[key] for row in others for key in policies)
    n_answers = len(others) * len(POLICIES) * options.prompts
    result = {
        "name": "processors",
        "compared": "greedy answers and scores after short trainings, under kernels of other "
        "processors, with those as it is",
        "figure": f"{n_changed} of {n_answers:,} answers differ; scores by at most "
        f"{max(row['largest difference of a score'] for row in others):.1g}",
        "goal": "the same work twice is equal; under other kernels at most 2 % of answers differ",
        "met": all(again[key] == 0 for key in policies)
        and again["largest difference of a score"] == 0
        and n_changed <= 0.02 * n_answers,
        "steps": options.steps,
        "rows": rows,
        "device": report.device(),
        "commit": report.commit(),
    }
    if not options.dry:
        file = paths.reports() / "benchmarks" / "processors.json"
        paths.write(file, json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
