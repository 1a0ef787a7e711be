"""Notebooks with other parameters: in a kernel, and on rows of one's own."""

import json
import math
import subprocess
import sys

import nbformat
import pandas as pd
import pytest
from cells import execute, figures_as_text

from hs2lib.group import ATTRIBUTES
from hs2lib.models.reward_model import load_reward_model
from hs2lib.paths import root, runs

pytestmark = pytest.mark.slow


@pytest.fixture
def folders(tmp_path, monkeypatch):
    """Reports and runs of the test's own; the small random models are those of the other tests, made once."""
    monkeypatch.setenv("HS2_REPORTS", str(tmp_path / "reports"))
    models = runs() / "models"
    models.mkdir(parents=True, exist_ok=True)
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "models").symlink_to(models)
    monkeypatch.setenv("HS2_RUNS", str(tmp_path / "runs"))
    return tmp_path


BY_KERNEL = "07_sft"  # it shows a training's live curves


def test_run_all_in_a_kernel(folders):
    """The figures are pictures there too, live during training and after it."""
    command = [sys.executable, "-m", "jupyter", "execute"]
    command += [str(root() / "notebooks" / f"{BY_KERNEL}.ipynb")]
    command += [f"--output={folders / BY_KERNEL}.ipynb"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folders)
    assert done.returncode == 0, done.stderr[-3000:]
    executed = nbformat.read(folders / f"{BY_KERNEL}.ipynb", 4)
    assert not figures_as_text(executed)
    pictures = set()
    for cell in executed.cells:
        if any("image/png" in output.get("data", {}) for output in cell.get("outputs", [])):
            pictures.add(cell.id)
    assert {"train", "curves"} <= pictures


def test_own_ratings_as_the_page_says_with_an_attribute_that_nobody_rated(folders, monkeypatch):
    """It may be left empty, and 01 and 05 broke on it."""
    named = {"dataset": "ratings", "source": "folder", "path": "my.csv"}
    rows = []
    for i in range(20):
        for j in (0, 1):
            labels = (i % 5, (i + j) % 5, None, 2 + 2 * j, j)  # complexity: 3 in the mean
            row = dict(zip(ATTRIBUTES, labels, strict=True))
            rows.append(row | {"prompt": f"{i}?", "response": "a" * (i + j + 1)})
    pd.DataFrame(rows).to_csv(folders / "my.csv", index=False)
    monkeypatch.chdir(folders)
    execute("01_dataset_statistics", "smoke", **named)
    quick = dict(model_name="tiny", head="fresh", steps=1)
    execute("05_reward_model_training", "smoke", **named, **quick)
    described = pd.read_csv(
        folders / "reports/smoke/01_dataset_statistics/descriptive.csv", index_col=0
    )
    assert "coherence" not in described.index and described.loc["complexity", "mean"] == 3
    trained = load_reward_model(folders / "runs/smoke/05_reward_model_training/model")
    assert set(trained.attributes) == set(ATTRIBUTES) - {"coherence"}
    manifest = json.loads(
        (folders / "reports/smoke/05_reward_model_training/manifest.json").read_text()
    )
    assert not manifest["generated"] and math.isfinite(manifest["numbers"]["validation loss"])
    # the second answer is always the longer one, and only it is verbose
    measured = pd.read_csv(folders / "reports/smoke/05_reward_model_training/agreement.csv")
    measured = measured.set_index(["of", "attribute", "metric"])
    by_length = measured.loc["length with people", "verbosity", "pairwise accuracy"]
    assert by_length.value == by_length.high == 1 and 0 < by_length.low < 1
    assert measured.loc["length with people", "helpfulness", "pairwise accuracy"].isna().all()
    assert measured.loc["model minus length", "verbosity", "Pearson"].notna().all()


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_where_all_ratings_are_alike_notebook_03_ends_and_has_no_kappa(folders, monkeypatch):
    """It ended in an error of pandas, after all its tables."""
    rated = dict.fromkeys(ATTRIBUTES, 3)
    rows = [
        rated | {"prompt": f"{i}?", "response": "a", "annotator": who}
        for i in range(9)
        for who in ("x", "y")
    ]
    (folders / "alike.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    monkeypatch.chdir(folders)
    named = {"dataset": "ratings", "source": "folder", "path": "alike.jsonl"}
    execute("03_annotator_agreement", "smoke", n_boot=100, **named)
    table = pd.read_csv(folders / "reports/smoke/03_annotator_agreement/table-1.csv")
    assert set(table["row"]) == set(ATTRIBUTES) and table.ours.isna().all()
