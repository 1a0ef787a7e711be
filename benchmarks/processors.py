"""Does another processor give other answers? The same small work under other kernels.

    python benchmarks/processors.py [--steps 50] [--prompts 100] [--dry]
    python benchmarks/processors.py --demo FOLDER [--notebooks 05 07 08] [--prompts 200] [--dry]

Libraries choose their kernels by what a processor can do, and kernels add in another order. Each
setting (`SETTINGS`) makes them choose as on another processor. Under each one a process of its own
trains the reward model, SFT and DPO of tier demo for some steps and answers held-out prompts
greedily. Two runs as it is come first: they must be equal to the last bit. Then answers that differ
are counted, and the largest difference of a score is taken.

With `--demo` tier demo, or what is named of it, runs in a folder under two settings
(`OF_THE_DEMO`). Every cell of its tables is compared with the published one
(`hs2lib.launch.compare`), but for 14, whose published tables have five seeds. Every policy answers
held-out prompts greedily under its own setting. Notebooks that are finished stay in the folder, so
a run that was stopped goes on. The result gets a part "demo", and keeps its others.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import torch
import works

from hs2lib import paths
from hs2lib.group import Group
from hs2lib.launch import compare
from hs2lib.models.policy import Policy
from hs2lib.models.rollout import rollouts
from hs2lib.report import published, report

SETTINGS: dict[str, dict[str, str]] = {
    "as it is": {},
    "as it is, again": {},
    "torch without vector instructions": {"ATEN_CPU_CAPABILITY": "default"},
    "oneDNN with SSE4.1 only": {"ONEDNN_MAX_CPU_ISA": "SSE41"},
    "MKL without vector instructions": {"MKL_CBWR": "COMPATIBLE"},
}
SEED = 93  # of which no result is
POLICIES = ("base", "sft", "dpo")
RESULT = paths.reports() / "benchmarks" / "processors.json"

# Kernels of no vector instructions, in torch and in oneDNN at once.
OTHER = SETTINGS["torch without vector instructions"] | SETTINGS["oneDNN with SSE4.1 only"]
OF_THE_DEMO = {"as it is": {}, "torch and oneDNN without vector instructions": OTHER}
OF_SEEDS = "14_paper_tables_and_figures"  # the published one has seeds that the demo has not


def computed(folder: Path, steps: int, n_prompts: int) -> dict:
    """The answers of the policies by name, and the reward model's scores of those of the base."""
    short = {"steps": steps, "validate_every": steps, "n_prompts": 16 * steps}
    names = (works.REWARD_MODEL, works.NOTEBOOKS["sft"], works.NOTEBOOKS["dpo"])
    world = works.World(SEED, folder, dict.fromkeys(names, short))
    answers = {}
    for name in POLICIES:
        answered = greedy(world.policy(name), world, n_prompts)
        answers[name] = [group.responses[0].text for group in answered]
        if name == "base":
            scores = world.reward_model.score(answered)  # [R, A]
    return {"answers": answers, "scores": scores.tolist()}


def greedy(
    policy: Policy, world: works.World, n_prompts: int, label: str | None = None
) -> list[Group]:
    """A policy's likeliest answers to held-out prompts of a world."""
    return rollouts(
        policy,
        world.held_out[:n_prompts],
        n=1,
        temperature=0.0,
        top_p=1.0,
        max_new_tokens=works.LONGEST,
        label=label,
        seed=world.seed,
        batch=256,
        progress=False,
    )


def answers_of_the_demo(n_prompts: int) -> dict[str, list[str]]:
    """The greedy answers of the policies that the demo left, by method."""
    world = works.World(0, paths.runs(), matrix=True)
    answers = {}
    for method, notebook in works.NOTEBOOKS.items():
        if not world.saved(notebook, "policy").is_dir():
            continue
        label = works.TARGET if method.startswith("steerlm") else None
        answered = greedy(world.policy(method), world, n_prompts, label)
        answers[method] = [group.responses[0].text for group in answered]
    return answers


def demo(folder: Path, n_prompts: int, notebooks: Sequence[str] = ()) -> dict:
    """Run the demo under each of `OF_THE_DEMO`, and compare.

    notebooks: those of the demo to run, with what they read; all where none is named.

    Returns: for each setting the cells of its tables by kind beside the published ones, how many of
        them conclude something, and the conclusions that changed; and for each policy how many of
        its greedy answers differ from those as it is.
    """
    settings = []
    answers = []
    folder = folder.absolute()  # notebooks run in folders of their own
    for number, (name, variables) in enumerate(OF_THE_DEMO.items()):
        place = folder / str(number)
        mine = {"HS2_RUNS": str(place / "runs"), "HS2_REPORTS": str(place / "reports")}
        environment = os.environ | variables | mine
        command = [sys.executable, "-m", "hs2lib.run", "--tier", "demo", "--cores", "2"]
        subprocess.run([*command, *notebooks], env=environment, check=True)
        file = place / "answers.json"
        command = [sys.executable, __file__, "--child", str(file), "--of-the-demo"]
        command += ["--prompts", str(n_prompts)]
        subprocess.run(command, env=environment, check=True)
        answers.append(json.loads(file.read_text()))
        settings.append({"setting": name, "variables": variables} | beside(place / "reports"))
        print(settings[-1], flush=True)
    differ = {}
    for method in answers[0].keys() & answers[1].keys():
        texts = answers[0][method]
        pairs = zip(texts, answers[1][method], strict=True)
        differ[method] = sum(one != other for one, other in pairs)
    return {
        "notebooks": list(notebooks) or "all",
        "prompts": n_prompts,
        "settings": settings,
        "answers that differ": {name: differ[name] for name in works.METHODS if name in differ},
        "device": report.device(),
        "commit": report.commit(),
    }


def beside(reports: Path) -> dict:
    """Cells of a demo's tables beside the published ones: by kind, and what concludes something."""
    runs = compare.complete(reports / "demo")
    pairs = {run: run for run in runs if run != OF_SEEDS}
    cells = compare.compare("demo", reports, paths.published_reports(), pairs)
    return {
        "runs": list(pairs),
        "cells": cells.kind.value_counts().to_dict(),
        "conclusions": int(concludes(cells).sum()),
        "changed": compare.changed(cells).drop(columns="beside").to_dict("records"),
    }


def concludes(cells: pd.DataFrame) -> pd.Series:
    """Which cells have an interval or a verdict in words on both sides."""
    has_interval = (cells["published interval"] != "") & (cells["our interval"] != "")
    return has_interval | cells.column.isin(compare.CONCLUSIONS)


def main() -> None:
    """Compute under each setting in turn, and write what differs."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=50, help="of each training")
    parser.add_argument("--prompts", type=int, default=100, help="answered by each policy")
    parser.add_argument("--dry", action="store_true", help="do not write the result")
    parser.add_argument("--demo", type=Path, metavar="FOLDER", help="run the demo, in here")
    parser.add_argument("--notebooks", nargs="+", default=[], help="of the demo; else all")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--of-the-demo", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.demo:
        part = demo(options.demo, options.prompts, options.notebooks)
        if not options.dry:
            whole = published.written(RESULT) | {"demo": part}
            paths.write(RESULT, json.dumps(whole, indent=1) + "\n")
        return
    if options.child:
        if options.of_the_demo:
            result = answers_of_the_demo(options.prompts)
        else:
            result = computed(options.child.parent / "work", options.steps, options.prompts)
        paths.write(options.child, json.dumps(result))
        return
    results = {}
    for name, variables in SETTINGS.items():
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "result.json"
            command = [sys.executable, __file__, "--child", str(file)]
            command += ["--steps", str(options.steps), "--prompts", str(options.prompts)]
            subprocess.run(command, env=os.environ | variables, check=True)
            results[name] = json.loads(file.read_text())
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
        before = published.written(RESULT)
        if "demo" in before:
            result["demo"] = before["demo"]
        paths.write(RESULT, json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
