"""Stages: the heavy part of a notebook as a job of its own, in one process or in several.

    python -m hs2lib.run --stage label --tier gpu 11
    torchrun --nproc-per-node 8 -m hs2lib.run --stage score --stream --tier paper 06
    torchrun --nproc-per-node 8 -m hs2lib.run --stage train --tier gpu 05
    torchrun --nproc-per-node 8 -m hs2lib.run --stage evaluate --stream --tier paper 08

The notebook alone decides what is computed. Its cells up to the end of the stage run in every process, with the tier's
parameters; what they show and report goes nowhere. What they keep lies in the run folder under names made of its
inputs: a stage that was killed goes on from there, and the notebook, run afterwards, reads it.

Several processes share out all of it: labels, samples, scores, the training, the evaluation of what was trained. With
`--stream` they hold the models in parts, and `export` writes the trained model out of these, a tensor at a time; what
06 exports for others it writes itself. Paper: silent (the reference code is started by Slurm's srun).
"""

import contextlib
import io
import os
import tempfile
import time
from datetime import timedelta
from pathlib import Path

import nbformat

from hs2lib.paths import RUN, notebook, reports, runs
from hs2lib.run import graph, processes
from hs2lib.run.parameters import ParameterError

# The cells that end each.
STAGES = {"label": ["label"], "sample": ["sample", "respond"], "train": ["fit", "iterate"], "score": ["weights-table"]}
STAGES |= {"evaluate": ["evaluate"], "export": ["save"]}


def cells(run: str, stage: str) -> list[tuple[str, str]]:
    """(id, source) of the notebook's code cells up to the end of a stage, without those tagged `shows`.

    These make nothing that a later cell needs. Raises ParameterError where there is no such stage.
    """
    code = [cell for cell in nbformat.read(notebook(run), 4).cells if cell.cell_type == "code"]
    out = [(cell.id, cell.source) for cell in code if "shows" not in cell.metadata.get("tags", ())]
    ends = [at for at, (name, _) in enumerate(out, 1) if name in STAGES[stage]]
    if not ends:
        raise ParameterError(f"{run} has no stage {stage}: no cell of it is called {' or '.join(STAGES[stage])}")
    return out[: ends[0]]


def upstream(run: str, tier: str, stage: str) -> list[str]:
    """Runs whose results a stage reads: of those that its notebook needs, the ones that its cells up to there name.

    What only the tables compare is not waited for but by the last two: 07 trains beside 05. Raises as `cells`.
    """
    code, alone = "".join(source for _, source in cells(run, stage)), stage not in ("evaluate", "export")
    return [other for other in graph.upstream(run, tier, alone=alone) if f'"{other.partition("@")[0]}"' in code]


def compute(run: str, tier: str, stage: str) -> None:
    """Run the cells of a stage in this process, one of torchrun's or the only one. Raises as `cells` and `hold`."""
    done, values, began = {"__name__": "__main__"}, graph.resolved(run, tier)[1], time.time()
    if "LOCAL_RANK" in os.environ:  # one of several: "cuda" is then this process's own GPU
        import torch
        from accelerate import PartialState

        # A process may wait for days while the first one asks a server.
        PartialState(cpu=not torch.cuda.is_available(), timeout=timedelta(days=30))
    with processes.hold(runs()) as lock, tempfile.TemporaryDirectory() as nowhere:
        os.dup(lock.fileno())  # so that the end of this process alone frees it, however long it fails
        (here := Path(nowhere, tier)).mkdir()
        for other in upstream(run, tier, stage):  # whose reports it may read
            (here / other).symlink_to(reports() / tier / other)
        os.environ |= {"HS2_REPORTS": nowhere, RUN: graph.reading(run, tier)}
        for name, source in cells(run, stage):
            with contextlib.redirect_stdout(io.StringIO()):  # tables and figures, once for each process
                exec(compile(source, f"{run}, cell {name}", "exec"), done)
            done |= values if name == "parameters" else {}
    if os.environ.get("RANK", "0") == "0":
        print(f"{tier} {run}: {stage} done in {time.time() - began:.0f} s", flush=True)
