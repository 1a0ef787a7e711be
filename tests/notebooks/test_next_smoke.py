"""The new chain of notebooks runs at tier smoke, in order, as `hs2 run` runs any."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pandas as pd
import pytest

from hs2lib.runs import graph

CHECKOUT = Path(__file__).parents[2]


def test_the_values_of_every_run_are_known_and_what_it_reads_is_defined(monkeypatch):
    monkeypatch.setenv("HS2_ROOT", str(CHECKOUT))
    files = sorted((CHECKOUT / "params").glob("*/*.yaml"))
    assert len(files) > 10
    for file in files:
        tier = file.parent.name
        graph.resolved(file.stem, tier)
        for read in graph.upstream(file.stem, tier):
            graph.definition(read, tier)


LOSS = """
import torch


def mine(policy_chosen, policy_rejected, reference_chosen, reference_rejected, beta):
    margin = policy_chosen - policy_rejected - reference_chosen + reference_rejected
    return torch.relu(1 - beta * margin)
"""


def hs2(places, *words):
    """What `hs2 run --tier smoke` with these words says."""
    environment = os.environ | {name: str(path) for name, path in places.items()}
    command = [sys.executable, "-m", "hs2lib", "run", "--tier", "smoke", "--cores", "2", *words]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_new_chain_runs_at_smoke(tmp_path):
    places = {"HS2_RUNS": tmp_path / "runs", "HS2_REPORTS": tmp_path / "reports"}
    hs2(places | {"HS2_ROOT": CHECKOUT})
    notebooks = sorted((CHECKOUT / "notebooks").glob("*.ipynb"))
    for notebook in notebooks:
        report = tmp_path / "reports" / "smoke" / notebook.stem
        assert json.loads((report / "manifest.json").read_text())["files"]
        executed = nbformat.read(report / notebook.name, 4)
        streams = [output for cell in executed.cells for output in cell.get("outputs", [])]
        assert not [output for output in streams if output.get("name") == "stderr"], notebook
        # What `interact` shows is the cell's own: kept in a widget it let runs wait for good.
        shown = [cell for cell in executed.cells if "interact(" in cell.source]
        for cell in shown:
            if "import" not in cell.source:
                assert len(cell.outputs) > 1, (notebook, cell.id)


@pytest.mark.slow
def test_a_loss_of_ones_own_stands_in_a_file_and_in_the_grids_table(tmp_path):
    shutil.copytree(CHECKOUT, tmp_path / "next")
    (tmp_path / "next" / "my_loss.py").write_text(LOSS)
    places = {"HS2_RUNS": tmp_path / "runs", "HS2_REPORTS": tmp_path / "reports"}
    places["HS2_ROOT"] = tmp_path / "next"
    hs2(places, "08", "--grid", "objective=dpo,my_loss.py:mine")
    grid = tmp_path / "reports" / "smoke" / "grids" / "08_dpo-objective.csv"
    table = pd.read_csv(grid)
    assert list(table.objective) == ["dpo", "my_loss.py:mine"]
    assert table["true score"].notna().all()
    runs = [path.name for path in (tmp_path / "runs" / "smoke").glob("08_dpo@*")]
    assert sorted(runs) == ["08_dpo@objective-dpo", "08_dpo@objective-my_loss.py-mine"]
