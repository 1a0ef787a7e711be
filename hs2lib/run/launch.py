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
import torch

from hs2lib.paths import RUN, notebook, runs
from hs2lib.run import graph, processes
from hs2lib.run.parameters import ParameterError


def cells(name: str) -> list[tuple[str, str]]:
    """(id, source) of the notebook's code cells up to `fit`. Raises ParameterError where it has no such cell."""
    out = [(cell.id, cell.source) for cell in nbformat.read(notebook(name), 4).cells if cell.cell_type == "code"]
    ids = [name for name, _ in out]
    if "fit" not in ids:
        raise ParameterError(f"{name} trains nothing: it has no cell called fit")
    return out[: ids.index("fit") + 1]


def main(arguments: list[str] | None = None) -> int:
    """Command line: `torchrun .. -m hs2lib.run.launch --tier TIER NOTEBOOK`."""
    parser = argparse.ArgumentParser(prog="python -m hs2lib.run.launch", description=__doc__.split("\n\n")[0])
    parser.add_argument("notebook", help="name or number (05), or a named run (05@mine)")
    parser.add_argument("--tier", choices=list(graph.TIERS), required=True)
    parser.add_argument("--stream", action="store_true", help="each process reads its share of the weights (with fsdp)")
    args, done = parser.parse_args(arguments), {"__name__": "__main__"}
    os.environ |= {"HS2_STREAM": "1"} if args.stream else {}
    if "TORCHELASTIC_RUN_ID" in os.environ:  # torchrun's processes are one run, and end with it
        processes.end_with(os.getppid())
        os.environ[processes.OWNER] = f"torchrun at {os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
    if torch.cuda.is_available():  # "cuda" is then this process's own GPU
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    try:
        with processes.hold(runs()) as lock, tempfile.TemporaryDirectory() as nowhere:
            os.dup(lock.fileno())  # so that the end of this process alone frees it, however long it fails
            os.environ["HS2_REPORTS"] = nowhere
            (name,) = graph.matching([args.notebook])
            values = graph.resolved(name, args.tier)[1]
            os.environ[RUN] = graph.reading(name, args.tier)
            for at, source in cells(name):
                with contextlib.redirect_stdout(io.StringIO()):  # tables and figures, once for each process
                    exec(compile(source, f"{name}, cell {at}", "exec"), done)
                done |= values if at == "parameters" else {}
    except (BlockingIOError, ParameterError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if int(os.environ.get("RANK", "0")) == 0:
        result = done["result"]
        print(f"{result.steps} steps, best validation loss {result.best_loss:.4f} -> {result.folder.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
