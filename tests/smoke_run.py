"""The run of all notebooks that tests read: once a session, in order, in the test's own process."""

import time
from dataclasses import dataclass, field
from pathlib import Path

import cells
import nbformat
import pytest
from shared_models import share_models

from hs2lib.runs import graph


@dataclass
class Smoke:
    """What a run of all notebooks at tier smoke left."""

    folder: Path
    environment: dict[str, str]  # under which its reports and models are found
    errors: dict[str, BaseException] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    def report(self, notebook: str) -> Path:
        """The folder of a notebook's report; raises what the notebook raised."""
        if notebook in self.errors:
            raise self.errors[notebook]
        return self.folder / "reports" / "smoke" / notebook

    def executed(self, notebook: str) -> nbformat.NotebookNode:
        """The executed copy of a notebook."""
        return nbformat.read(self.report(notebook) / f"{notebook}.ipynb", 4)


def run(folder: Path) -> Smoke:
    """Run all notebooks as they stand, each after those that it reads; one that fails stops no other."""
    share_models(folder / "runs")
    environment = {"HS2_REPORTS": str(folder / "reports"), "HS2_RUNS": str(folder / "runs")}
    smoke = Smoke(folder, environment)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name in graph.with_upstream(graph.notebooks()):
            for variable, value in environment.items():
                patch.setenv(variable, value)
            began = time.time()
            try:
                executed = cells.run_all(name)
                nbformat.write(executed, smoke.report(name) / f"{name}.ipynb")
            except Exception as error:
                smoke.errors[name] = error
            smoke.seconds[name] = round(time.time() - began, 1)
            patch.undo()
            patch.chdir(folder)
    return smoke
