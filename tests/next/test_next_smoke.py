"""The new chain of notebooks runs at tier smoke, in order, as `hs2 run` runs any."""

import json
import os
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

CHECKOUT = Path(__file__).parents[2]


@pytest.mark.slow
def test_the_new_chain_runs_at_smoke(tmp_path):
    folders = {"HS2_RUNS": tmp_path / "runs", "HS2_REPORTS": tmp_path / "reports"}
    places = {name: str(path) for name, path in folders.items()}
    environment = os.environ | places | {"HS2_ROOT": str(CHECKOUT / "next")}
    command = [sys.executable, "-m", "hs2lib", "run", "--tier", "smoke", "--cores", "2"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    notebooks = sorted((CHECKOUT / "next" / "notebooks").glob("*.ipynb"))
    for notebook in notebooks:
        report = tmp_path / "reports" / "smoke" / notebook.stem
        assert json.loads((report / "manifest.json").read_text())["files"]
        executed = nbformat.read(report / notebook.name, 4)
        streams = [output for cell in executed.cells for output in cell.get("outputs", [])]
        assert not [output for output in streams if output.get("name") == "stderr"], notebook
