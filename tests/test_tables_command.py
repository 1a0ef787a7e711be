"""The documented command for users with a network, `make tables`, against a Hub on loopback: the
very command.

The rows are made up here with known numbers, so the test can say what Table 2 and Table 1 must
print.
"""

import gzip
import json
import os
import random
import shutil
import subprocess

import numpy as np
import pandas as pd
import pytest
from hub_server import serve

from hs2lib.group import ATTRIBUTES
from hs2lib.paths import root

pytestmark = pytest.mark.slow

PAIRS = {"train": 150, "validation": 20}


def rated(rng, text):
    """A row as the Hub's disagreement file has it: three or five raters around one level."""
    level = rng.choice([1, 2, 3, 4])
    raters = 3 if rng.random() < 0.9 else 5
    lists = {
        a: [min(4, max(0, level + rng.choice([-1, 0, 0, 1]))) for _ in range(raters)]
        for a in ATTRIBUTES
    }
    return {"prompt": text, "response": f"{text} answered {rng.random()}"} | lists


def released(row):
    return row | {a: round(float(np.mean(row[a][:3]))) for a in ATTRIBUTES}


def save(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wt") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)


@pytest.fixture
def hub(tmp_path):
    rng = random.Random(0)
    pairs = {
        split: [[rated(rng, f"prompt {split} {i}") for _ in range(2)] for i in range(n)]
        for split, n in PAIRS.items()
    }
    dropped = [[rated(rng, f"prompt dropped {i}") for _ in range(2)] for i in range(15)]
    folder = tmp_path / "hub" / "nvidia"
    for split, of in pairs.items():
        save(
            folder / "HelpSteer2" / f"{split}.jsonl.gz",
            [released(row) for pair in of for row in pair],
        )
        save(
            folder / "HelpSteer" / f"{split}.jsonl.gz",
            [released(row) for pair in of for row in pair],
        )
    everything = [row for of in [*pairs.values(), dropped] for pair in of for row in pair]
    save(folder / "HelpSteer2" / "disagreements" / "disagreements.jsonl.gz", everything)
    return tmp_path / "hub"


@pytest.mark.skipif(
    not shutil.which("make") or not (root() / ".venv/.ready").exists(),
    reason="needs make and .venv",
)
def test_make_tables_gives_tables_1_and_2_from_the_hub(hub, tmp_path):
    keep = {k: v for k, v in os.environ.items() if not k.startswith(("HF_", "HS2_", "MAKE"))}
    folders = {"HS2_REPORTS": str(tmp_path / "reports"), "HS2_RUNS": str(tmp_path / "runs")}
    with serve(hub) as url:
        environment = (
            keep
            | folders
            | {"HF_ENDPOINT": url, "HF_HOME": str(tmp_path / "home"), "NO_PROXY": "127.0.0.1"}
        )
        done = subprocess.run(
            ["make", "tables"], cwd=root(), env=environment, capture_output=True, text=True
        )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]

    with (
        gzip.open(hub / "nvidia/HelpSteer2/train.jsonl.gz", "rt") as one,
        gzip.open(hub / "nvidia/HelpSteer2/validation.jsonl.gz", "rt") as two,
    ):
        rows = pd.DataFrame([json.loads(line) for line in [*one, *two]])
    report = tmp_path / "reports" / "paper"
    table = pd.read_csv(report / "01_dataset_statistics/against-table-2.csv").set_index(
        ["row", "column"]
    )
    assert table.ours["coherence", "mean HS2"] == pytest.approx(rows.coherence.mean())
    assert table.ours["correctness", "R HS2"] == pytest.approx(
        rows.correctness.corr(rows.helpfulness)
    )
    assert table.ours["coherence", "mean HS"] == pytest.approx(rows.coherence.mean())
    assert set(table.verdict) <= {"exact", "different", "paper prints none", "not run at this tier"}
    assert table.verdict["coherence", "mean HS2"] == "different", (
        "these rows are not the released ones"
    )

    table = pd.read_csv(report / "03_annotator_agreement/against-table-1.csv").set_index(
        ["row", "column"]
    )
    assert table.ours.notna().sum() == 10, "two columns; the first was never released"
    assert set(table.verdict.xs("initial", level="column")) == {"not run at this tier"}
    manifest = json.loads((report / "01_dataset_statistics/manifest.json").read_text())
    assert manifest["generated"] is False
    assert all("nvidia/HelpSteer" in source["name"] for source in manifest["sources"])
