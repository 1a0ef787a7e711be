"""Does an edit by rule make a real answer worse? A hundred edited answers, for readers to judge.

    HS2_DATA_DIR=... python benchmarks/real_edits.py draw [--model embedded] [--prompts 80] [--seed 0]
    python benchmarks/real_edits.py count READER.csv READER.csv ..

An audit counts how often a score falls where a rule made an answer worse (`hs2lib.audit.edits`). In
the small world the truth says whether the rule did so. On real text somebody has to read. `draw`
lets SmolLM2-135M-Instruct answer first turns of MT-Bench, as many of each category, and edits each answer by every rule
that makes worse, answers swapped between two prompts among them. It draws 25 of each kind, or as
many as there are, and writes them to runs/real-edits.jsonl, shuffled: id, prompt, A and B. Which of
the two is the edited one stands in runs/real-edits-key.json, which no reader sees.

A reader writes a CSV with the columns id and worse: A, B, or neither. `count` takes one of each
reader, and writes for each kind how often the edited answer is the worse one, with intervals by
prompt, and how often readers agree.
"""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pandas as pd
import torch

from hs2lib import paths
from hs2lib.audit import edits
from hs2lib.audit.auditing import edited_groups
from hs2lib.evaluate import mt_bench
from hs2lib.group import Group, prompt_string
from hs2lib.models.policy import load_policy
from hs2lib.models.reward_model import RewardModel
from hs2lib.models.rollout import rollouts
from hs2lib.report import report
from hs2lib.stats.bootstrap import Interval, bootstrap, inside

RESULT = paths.reports() / "benchmarks" / "real_edits.json"
TO_READ, KEY = "real-edits.jsonl", "real-edits-key.json"
KINDS = (*edits.WORSE, edits.SWAPPED)
EACH = 25
SAMPLED = {"n": 1, "max_new_tokens": 128, "temperature": 0.7, "top_p": 0.9, "batch": 16}
VERDICTS = ("A", "B", "neither")
N_BOOT = 2000


def pairs_to_read(answered: Sequence[Group], edited: Sequence[Group], seed: int) -> list[dict]:
    """Answers beside their edits, `EACH` of each kind, in random order and on random sides.

    Args:
        answered: prompts.
        edited: of each its first answer, then that answer after every edit, as `edited_groups`.
        seed: of the draw.
    """
    drawn = Random(seed)
    rows = []
    for kind in KINDS:
        of_kind = []
        for group, versions in zip(answered, edited, strict=True):
            for version in versions.responses[1:]:
                if version.id.endswith(f"/{kind}"):
                    of_kind.append((group, versions.responses[0].text, version.text))
        for group, as_is, changed in drawn.sample(of_kind, min(EACH, len(of_kind))):
            side = drawn.choice("AB")
            texts = {"A": changed, "B": as_is} if side == "A" else {"A": as_is, "B": changed}
            prompt = {"prompt": prompt_string(group.prompt)}
            rows.append({"kind": kind, "of": group.id, "edited": side} | prompt | texts)
    drawn.shuffle(rows)
    return [{"id": number} | row for number, row in enumerate(rows)]


def draw(model: str, n_prompts: int, seed: int, folder: Path) -> None:
    """Write the answers to read, and their key, into a folder."""
    questions = []
    for group in mt_bench.load("folder", references="", n=n_prompts).groups:
        questions.append(replace(group, prompt=group.prompt[:1]))
    answered = rollouts(load_policy(model).eval(), questions, seed=seed, **SAMPLED)
    # Edits in words of a template are among those that make no worse: any reward model's will do.
    edited = edited_groups(answered, RewardModel.new("tiny", attributes=("reward",)))
    rows = pairs_to_read(answered, edited, seed)
    shown = [{name: row[name] for name in ("id", "prompt", "A", "B")} for row in rows]
    key = {str(row["id"]): {name: row[name] for name in ("kind", "of", "edited")} for row in rows}
    paths.write(folder / TO_READ, paths.json_lines(shown))
    about = {"model": model, "seed": seed, "prompts": len(questions), "key": key}
    paths.write(folder / KEY, json.dumps(about, indent=1) + "\n")
    print(f"{len(rows)} answers to read in {folder / TO_READ}; the key is {folder / KEY}")


def read(file: Path, ids: Sequence[str]) -> pd.Series:
    """A reader's verdicts by id; raises SystemExit where one is absent, twice there, or unknown."""
    table = pd.read_csv(file, dtype=str, keep_default_na=False)
    if list(table.columns[:2]) != ["id", "worse"]:
        raise SystemExit(f"{file}: expected the columns id and worse")
    verdicts = table.set_index("id").worse
    repeated = sorted(set(verdicts.index[verdicts.index.duplicated()]))
    absent = [name for name in ids if name not in verdicts.index]
    unknown = sorted(set(verdicts) - set(VERDICTS))
    for what, which in (("twice", repeated), ("absent", absent), ("no verdict", unknown)):
        if which:
            raise SystemExit(f"{file}: {what}: {', '.join(which)}")
    return verdicts.loc[list(ids)]


def share(worse: np.ndarray, prompts: np.ndarray) -> Interval:
    """The mean of 0 and 1 in percent with its 95 % interval, by prompt."""
    sums = np.stack([worse, np.ones(len(worse))], axis=1)
    clusters = pd.factorize(prompts)[0]

    def percent(sums: np.ndarray) -> np.ndarray:
        return 100 * sums[:, :1] / sums[:, 1:]

    interval = bootstrap(sums, clusters, percent, n_boot=N_BOOT, seed=0).at(0)
    return Interval(*map(float, inside(interval, 0, 100, len(set(prompts)))))


def table_of(key: dict[str, dict], readers: Sequence[pd.Series]) -> list[dict]:
    """How often the edited answer is the worse one, by kind of edit and over all; mean of readers."""
    frame = pd.DataFrame(key).T
    worse = np.mean([(reader == frame.edited).to_numpy(float) for reader in readers], axis=0)
    better = []
    for reader in readers:
        better.append(((reader != frame.edited) & (reader != "neither")).to_numpy(float))
    rows = []
    for kind in [*KINDS, "all"]:
        of_kind = np.ones(len(frame), bool) if kind == "all" else (frame.kind == kind).to_numpy()
        if of_kind.any():
            interval = share(worse[of_kind], frame.of.to_numpy()[of_kind])
            row = {"edit": kind, "answers": int(of_kind.sum()), "worse (%)": interval.estimate}
            row |= {"low": interval.low, "high": interval.high}
            row["better (%)"] = 100 * float(np.mean(better, axis=0)[of_kind].mean())
            rows.append({n: round(v, 1) if isinstance(v, float) else v for n, v in row.items()})
    return rows


def count(files: Sequence[Path], folder: Path, read_by: str) -> None:
    """Write the result of readers' files."""
    about = json.loads((folder / KEY).read_text())
    key = about["key"]
    readers = [read(file, list(key)) for file in files]
    rows = table_of(key, readers)
    whole = rows[-1]
    agree = [
        float((one == other).mean()) for i, one in enumerate(readers) for other in readers[i + 1 :]
    ]
    result = {
        "name": "real_edits",
        "compared": "a real answer with the same after an edit that should make it worse, read blind",
        "figure": f"worse in {whole['worse (%)']:g} % ({whole['low']:g} to {whole['high']:g}) of "
        f"{whole['answers']} answers",
        "goal": "none: it says how far an audit's number on real text can be trusted",
        "met": True,
        "edits": rows,
        "readers": len(readers),
        "read by": read_by,
        "readers agree (%)": round(100 * float(np.mean(agree)), 1) if agree else None,
        "model": about["model"],
        "seed": about["seed"],
        "data": f"real: MT-Bench, {about['prompts']} first turns",
        "device": report.device(),
        "commit": report.commit(),
    }
    paths.write(RESULT, json.dumps(result, indent=1) + "\n")
    print(pd.DataFrame(rows).to_string(index=False))
    print(result["figure"])


def main(arguments: Sequence[str] | None = None) -> None:
    """Command line: draw what is to be read, or count what was read."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, default=paths.runs(), help="of what is to be read")
    commands = parser.add_subparsers(dest="command", required=True)
    drawing = commands.add_parser("draw", help="write answers to read")
    drawing.add_argument("--model", default="embedded", help="a policy, as load_policy takes it")
    drawing.add_argument("--prompts", type=int, default=80, help="of MT-Bench's 80")
    drawing.add_argument("--seed", type=int, default=0)
    counting = commands.add_parser("count", help="write the result of what readers found")
    counting.add_argument("readers", type=Path, nargs="+", help="a CSV of each: id, worse")
    counting.add_argument("--read-by", required=True, help="who read: people, language models")
    options = parser.parse_args(arguments)
    if options.command == "count":
        count(options.readers, options.folder, options.read_by)
        return
    if "HS2_DATA_DIR" not in os.environ:
        sys.exit("real_edits needs HS2_DATA_DIR, with mt_bench/ (docs/real-data.md)")
    torch.set_num_threads(1)
    draw(options.model, options.prompts, options.seed, options.folder)


if __name__ == "__main__":
    main()
