"""Train over several processes: each runs the cells of a notebook up to the training.

    torchrun --nproc-per-node 8 -m hs2lib.run.launch --tier gpu 05

The notebook alone decides what is trained. Its cells up to and including the one called `fit` run in every process,
with the tier's parameters; what they show and report goes nowhere. Run the notebook itself afterwards: it reads the
finished run. Paper: silent (the reference code has its own launcher).
"""

import argparse
import contextlib
import io
import os
import sys
import tempfile

import nbformat

from hs2lib.paths import RUN, notebook, runs
from hs2lib.run import processes
from hs2lib.run.graph import TIERS, chosen, reading, resolved
from hs2lib.run.parameters import ParameterError

LAST = "fit"


def cells(name: str) -> list[tuple[str, str]]:
    """(id, source) of the notebook's code cells up to `fit`. Raises ParameterError where it has no such cell."""
    out = [(cell.id, cell.source) for cell in nbformat.read(notebook(name), 4).cells if cell.cell_type == "code"]
    ids = [name for name, _ in out]
    if LAST not in ids:
        raise ParameterError(f"{name} trains nothing: it has no cell called {LAST}")
    return out[: ids.index(LAST) + 1]


def train(name: str, values: dict) -> dict:
    """Run the cells with `values` in place of the parameters cell's own; returns their variables."""
    namespace: dict = {"__name__": "__main__"}
    for at, source in cells(name):
        exec(compile(source, f"{name}, cell {at}", "exec"), namespace)
        if at == "parameters":
            namespace |= values
    return namespace


def main(arguments: list[str] | None = None) -> int:
    """Command line: `torchrun .. -m hs2lib.run.launch --tier TIER NOTEBOOK`."""
    parser = argparse.ArgumentParser(prog="python -m hs2lib.run.launch", description=__doc__.split("\n\n")[0])
    parser.add_argument("notebook", help="name or number (05), or a named run (05@mine)")
    parser.add_argument("--tier", choices=list(TIERS), required=True)
    args = parser.parse_args(arguments)
    if "TORCHELASTIC_RUN_ID" in os.environ:  # torchrun's processes are one run, and end with it
        processes.end_with(os.getppid())
        os.environ[processes.OWNER] = f"torchrun at {os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
    try:
        with processes.hold(runs()), tempfile.TemporaryDirectory() as nowhere:
            os.environ["HS2_REPORTS"] = nowhere
            (name,) = chosen([args.notebook], args.tier)
            values = resolved(name, args.tier)[1]
            os.environ[RUN] = reading(name, args.tier)
            with contextlib.redirect_stdout(io.StringIO()):  # tables and figures, once for each process
                done = train(name, values)
    except (BlockingIOError, ParameterError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if int(os.environ.get("RANK", "0")) == 0:
        result = done["result"]
        print(f"{result.steps} steps, best validation loss {result.best_loss:.4f} -> {result.folder.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
