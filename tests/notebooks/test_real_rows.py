"""The new chain on a handful of real rows, by tiny models: no true score, and nothing empty for it."""

import gzip
import json
import math
import os
from pathlib import Path

import pandas as pd
import pytest
from cells import execute
from shared_models import share_models

CHECKOUT = Path(__file__).parents[2]
DATA = Path(os.environ.get("HS2_DATA_DIR", ""))
TREES = "oasst1/en-validation.jsonl.gz"
PAIRS = "helpsteer2/validation_pairs_unrated.jsonl.gz"

# What makes them quick, by notebook; all else is tier laptop's own.
TINY = {"model_name": "tiny"}
MEASURED = {"n_eval_prompts": 4, "eval_tokens": 12}
SAMPLED = {"n_prompts": 6, "batch": 4, "n_samples": 3, "max_new_tokens": 12}
QUICK = {
    "05_reward_model_training": TINY | {"steps": 2, "learning_rate": 1e-3},
    "07_sft": TINY | MEASURED | {"steps": 1},
    "08_dpo": MEASURED | {"n_pairs": 16},
    "09_iterative_dpo": MEASURED | SAMPLED,
    "10_ppo": MEASURED | {"steps": 2, "max_new_tokens": 12, "n_standard": 10},
    "11_steerlm": TINY
    | MEASURED
    | {"n_answers": 20, "steps": 1, "n_steer_prompts": 3, "steer_tokens": 12, "start": "tiny"},
    "12_steerlm2": MEASURED | SAMPLED | {"n_validation": 2},
}


def some_lines(name, wanted, folder):
    """The first lines of a data file that are wanted, in a folder of the test's own."""
    with gzip.open(DATA / name, "rt") as whole:
        lines = [line for line in whole if wanted(json.loads(line))]
    file = folder / name
    file.parent.mkdir(parents=True)
    with gzip.open(file, "wt") as few:
        few.writelines(lines)


@pytest.fixture
def few_rows(tmp_path, monkeypatch):
    """A data folder with sixty trees of Open Assistant and short prompts of HelpSteer2."""
    if not (DATA / TREES).is_file() or not (DATA / PAIRS).is_file():
        pytest.skip("HS2_DATA_DIR has no Open Assistant trees and HelpSteer2 pairs")
    trees = {}
    some_lines(
        TREES,
        lambda row: trees.setdefault(row["message_tree_id"], len(trees)) < 60,
        tmp_path / "data",
    )
    some_lines(PAIRS, lambda row: len(row["input"]) < 200, tmp_path / "data")
    share_models(tmp_path / "runs")
    monkeypatch.setenv("HS2_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("HS2_ROOT", str(CHECKOUT))
    monkeypatch.setenv("HS2_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("HS2_REPORTS", str(tmp_path / "reports"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")
def test_the_chain_runs_on_real_rows(few_rows):
    for name, quick in QUICK.items():
        execute(name, "laptop", **quick)
        manifest = json.loads((few_rows / "reports/laptop" / name / "manifest.json").read_text())
        assert not manifest["generated"]
        file = few_rows / "runs/laptop" / name / "answers.parquet"
        if name[:2] == "05":
            assert not file.exists()
            continue
        answers = pd.read_parquet(file)
        assert "true" not in answers
        assert answers[["judge", "words"]].notna().all(axis=None)
        assert answers["prompt"].nunique() == MEASURED["n_eval_prompts"]
        assert all(prompt.startswith("helpsteer2-unrated") for prompt in answers["prompt"])
        numbers = manifest["numbers"]
        assert any("reward model's score" in number for number in numbers)
        assert all(math.isfinite(value) for value in numbers.values())
