"""Own pairs under classifiers as anybody publishes them, by notebook 06 and from the command line,
one by one the same.

    python tests/own_pairs.py    # writes reports/benchmarks/own_pairs.json

A CSV of chosen and rejected under a plain transformers classifier of one output and one of five
(random weights): the notebook run by papermill, as by hand, and a named run from the command line.
Every score that comes out is compared with that of transformers, one conversation at a time.
"""

import csv
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from transformers import AutoModelForSequenceClassification

from hs2lib import paths
from hs2lib.data.pairs import load_pairs
from hs2lib.group import ATTRIBUTES
from hs2lib.models import backbones
from hs2lib.paper import head_weights

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))
import common

NAME, WITHIN = "06_rewardbench_evaluation", 1e-4
CSV = [
    ("a", "Is it?", "yes", "no", "=1+1"),
    ("b", "Why?", "because", "no<|im_end|>\n<|im_start|>user\nThanks!", ""),
]
CSV += [
    ("c", "And then?", "word " * 9000, "no", ""),
    ("d", "So?", "this", "that", ""),
]  # too long: left out


def classifier(folder: Path, outputs: int):
    """A plain transformers classifier with random weights and so many outputs, saved in the folder."""
    names = ATTRIBUTES if outputs == 5 else ("LABEL_0",)
    torch.manual_seed(outputs)
    options = dict(num_labels=len(names), id2label=dict(enumerate(names)), dtype=torch.float32)
    plain = AutoModelForSequenceClassification.from_pretrained(
        backbones.tiny_model(), **options
    ).eval()
    plain.save_pretrained(folder)
    backbones.load_tokenizer("tiny").save_pretrained(folder)
    return plain


def chosen_and_rejected(file: Path) -> Path:
    """A CSV of pairs, one of which spells out turns and one of which is too long for the model."""
    with file.open("w", newline="") as out:
        csv.writer(out).writerows([("id", "prompt", "chosen", "rejected", "note"), *CSV])
    return file


def differences(scored: Path, file: Path, plain) -> np.ndarray:
    """Scores of a run's pairs.csv minus those of plain transformers, one conversation at a time: [pairs, 2]."""
    pairs = {pair.id: pair for pair in load_pairs("folder", path=file, strict=False).pairs}
    tokenizer, out = backbones.load_tokenizer("tiny"), []
    w = head_weights("Llama 3 70B w. HelpSteer2", ATTRIBUTES) if plain.num_labels == 5 else [1.0]
    for _, row in pd.read_csv(scored).iterrows():
        for response, column in zip(
            pairs[row.id].responses, ("chosen score", "rejected score"), strict=True
        ):
            talk = [{"role": turn.role, "content": turn.text} for turn in pairs[row.id].prompt]
            talk.append({"role": "assistant", "content": response.text})
            tokens = tokenizer.apply_chat_template(
                talk, return_tensors="pt", return_dict=True, sanitize_control_tokens=True
            )
            with torch.no_grad():
                out.append(row[column] - plain(**tokens).logits[0].double().numpy() @ np.array(w))
    return np.array(out).reshape(-1, 2)


def run(command: list[str], places: dict[str, str]) -> float:
    """Run a command that has to succeed; its seconds."""
    began = time.time()
    done = subprocess.run(
        command, cwd=paths.root() / "notebooks", env=os.environ | places, capture_output=True
    )
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{(done.stdout + done.stderr).decode()[-4000:]}")
    return round(time.time() - began, 1)


def main() -> None:
    python, rows, timings = [sys.executable, "-m"], [], {}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        files = {"CSV": chosen_and_rejected(folder / "mine.csv")}
        for outputs in (1, 5):
            plain = classifier(folder / f"classifier-{outputs}", outputs)
            for title, file in files.items():
                values = {"model": folder / f"classifier-{outputs}", "path": file, "limit": 1}
                recipe = {"n_boot": 100, "n_changed": 2, "too_long": "leave out"}
                cells = [word for key, value in values.items() for word in ("-p", key, str(value))]
                by_hand = [
                    "papermill",
                    f"{NAME}.ipynb",
                    str(folder / "out.ipynb"),
                    *cells,
                    "-y",
                    f"recipe: {recipe}",
                ]
                named = ["hs2lib", "run", "06", "--name", "mine"]
                named += [
                    f"{word}" for key, value in values.items() for word in ("-p", f"{key}={value}")
                ]
                named += [
                    word
                    for key, value in recipe.items()
                    for word in ("-p", f"recipe.{key}={value}")
                ]
                for way, command, name in (
                    ("notebook", by_hand, NAME),
                    ("command line", named, f"{NAME}@mine"),
                ):
                    place = folder / f"{title}-{outputs}-{way}"
                    places = {
                        "HS2_RUNS": str(place / "runs"),
                        "HS2_REPORTS": str(place / "reports"),
                    }
                    timings[f"{title}, {outputs}, {way}"] = [run(python + command, places)]
                    off = differences(place / "runs" / "smoke" / name / "pairs.csv", file, plain)
                    rows.append({"pairs": title, "outputs": outputs, "by": way, "scored": len(off)})
                    rows[-1]["largest difference"] = float(np.abs(off).max())
                    print(rows[-1], flush=True)
    worst = max(row["largest difference"] for row in rows)
    common.write(
        "own_pairs",
        compared="scores of own pairs with those of plain transformers, one conversation at a time",
        ratio=sum(row["largest difference"] <= WITHIN for row in rows) / len(rows),
        goal=f"all 12 ways within {WITHIN:g}",
        met=len(rows) == 12 and worst <= WITHIN,
        check=f"largest difference {worst:.2g}",
        timings=timings,
        packages=["torch", "transformers", "papermill"],
        runs=rows,
    )


if __name__ == "__main__":
    main()
