"""Three notebooks in a folder of their own, and what `hs2 run` does with one, in the test's process.

The first makes a table of a data file and only draws. The second makes a model. The third reads a
model: the one that is named, else that of the second.
"""

import json
import os
import sys
from pathlib import Path
from unittest import mock

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from hs2lib import paths
from hs2lib.runs import graph, jobs, key

DATA, MODEL, SECOND = "01_data", "02_model", "03_second"
ALL = (DATA, MODEL, SECOND)

PARAMETERS = """tier: str = "smoke"  # tier; one of smoke, demo
path: str = ""  # file of rows
n: int = 2  # a number; 0 to 9
rate: float = 0.5  # a rate
many: list = []  # some texts
seed: int = 0  # seed"""
START = """from pathlib import Path

import pandas as pd

from hs2lib import paths
from hs2lib.report import report

run = report.start({!r}, globals())"""

ROWS = """import tempfile

from hs2lib.data.rows import rows

with tempfile.NamedTemporaryFile() as scratch:
    run.reads(scratch.name)  # a file that is gone again: no reason to run
if path:
    run.reads(path)
table = pd.DataFrame([row for _, row in rows(Path(path))] if path else [{"text": "none", "n": n}])
run.table(table, "rows", f"Rows of {path}.")
print(path)"""
MADE = """model = paths.work(tier, "02_model") / "model"
paths.write(model / "weights", str(n))
run.numbers["n"] = n"""
SHOWN = 'run.table(pd.DataFrame({"n": [n]}), "made", "Made.")'
READ = """model = Path(path or paths.work(tier, "02_model") / "model")
run.reads(model)
run.table(pd.DataFrame({"weights": [(model / "weights").read_text()]}), "read", "Read.")"""

# Name -> its cells between start and finish as (source, tags), and what its metadata say.
NOTEBOOKS = {
    DATA: ([(ROWS, [])], {}),
    MODEL: ([(MADE, ["train"]), (SHOWN, [])], {"makes": {"model": "Model"}}),
    SECOND: ([(READ, [])], {"needs": ["model unless path"]}),
}


def make(folder: Path) -> None:
    """Write the three notebooks into a folder."""
    (folder / "notebooks").mkdir(parents=True)
    for name, (between, about) in NOTEBOOKS.items():
        cells = [new_markdown_cell("Some prose.", id="prose")]
        listed = [(PARAMETERS, ["parameters"]), (START.format(name), ["start"])]
        listed += [*between, ("run.finish()", [])]
        for number, (source, tags) in enumerate(listed):
            metadata = {"tags": tags} if tags else {}
            cells.append(new_code_cell(source, id=f"cell-{number}", metadata=metadata))
        notebook = new_notebook(cells=cells, metadata={"hs2": about})
        nbformat.write(notebook, folder / "notebooks" / f"{name}.ipynb")


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A checkout of the three notebooks, in which every file is large enough for a kept digest."""
    folder = tmp_path / "a folder"
    make(folder)
    for name in ("HS2_REPORTS", "HS2_RUNS", "HS2_DATA_DIR", paths.RUN, jobs.MADE):
        monkeypatch.setenv(name, "")  # so that it is as it was afterwards, whatever a run sets
        monkeypatch.delenv(name)
    monkeypatch.setenv("HS2_ROOT", str(folder))
    monkeypatch.setattr(paths, "LARGE", 1)
    return folder


def edit(run: str, before: str, after: str) -> None:
    """Replace a text of a notebook, as it stands in its file."""
    file = paths.notebook(run)
    text = file.read_text()
    assert before in text
    file.write_text(text.replace(before, after))


def cells(run: str, **values: object) -> object:
    """Run all cells of a notebook here, as a kernel would; returns the name `run` that they bind."""
    space = {"__name__": "notebook"}
    for cell in nbformat.read(paths.notebook(run), 4).cells:
        if cell.cell_type == "code":
            exec(cell.source, space)
        if "parameters" in cell.metadata.get("tags", ()):
            space |= {"tier": "demo"} | values
    return space["run"]


def execute(run: str, tier: str = "demo") -> Path:
    """Do the jobs of a run as `hs2 run` has them done, without Snakemake and without a kernel.

    Returns the folder of its report.
    """
    key.refresh(run, tier)
    for job in key.jobs_of(run):
        with pytest.MonkeyPatch.context() as patch, mock.patch.dict(os.environ):
            patch.chdir(Path.cwd())  # a job goes elsewhere
            patch.setattr(sys, "path", [*sys.path])
            patch.setattr(paths, "_NOTED", {})  # each job is a process of its own
            patch.setattr(jobs, "_papermill", _executed_here)
            jobs.JOBS[job](run, tier)
    return graph.manifest(run, tier).parent


def _executed_here(run: str, tier: str, partial: Path) -> None:
    """In place of papermill: execute all cells, and write a copy that shows a value."""
    os.environ[paths.RUN] = graph.reading(run, tier)
    values = json.loads(json.dumps(graph.resolved(run, tier)[1]))
    paths.hide(values)
    cells(run, **values)
    shown = new_code_cell(f"path = {values['path']!r}", id="shown")
    nbformat.write(new_notebook(cells=[shown]), partial)
