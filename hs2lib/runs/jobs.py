"""What a job does: compute the cells of a run that carry a tag, or draw its whole notebook.

    python -m hs2lib.runs.jobs compute demo 08_dpo      # as the Snakefile starts it
    python -m hs2lib.runs.jobs draw demo 08_dpo
    python -m hs2lib.runs.jobs stage demo 08_dpo train

A job whose key and whose inputs are those of its last end writes its result again and does nothing
else: a run that was computed anew, with the same results, makes no other run compute.
"""

import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

from hs2lib import paths, rehearsal
from hs2lib.paths import RUN, hide, public, read_json, root, runs, write
from hs2lib.paths import notebook as notebook_path
from hs2lib.runs import cells, graph, key, progress, trainings

MADE = "HS2_MADE"  # the file that tells a kernel what its job is made of
READ = "draw.read.json"  # beside it: what the kernel tells its job, the places that it read

BAR_TIMES = re.compile(r" \[\d+:\d\d(?::\d\d)?<[^\]]*\]")  # what a progress bar says of seconds
NOTEBOOK_LINK = re.compile(r"\]\((\d\d_\w+)\.ipynb(?=[)#\s])")  # in Markdown, from beside it


def is_first() -> bool:
    """Whether this process is the only one, or the first of torchrun's."""
    return os.environ.get("RANK", "0") == "0"


def compute(run: str, tier: str) -> None:
    """Compute a run: execute the cells of all its stages, and write `results.json` last.

    Under torchrun every process executes them, and the first one writes.
    """
    now = _now(run, tier, key.COMPUTE)
    before = read_json(key.made_file(run, tier, key.COMPUTE)) or {}
    if _same(before, now) and not key.missing(run, tier, key.COMPUTE):
        _write_results(run, tier, before["results"])
        print(f"{tier} {run}: as computed before", flush=True)
        return
    began = time.time()
    _expect([made for made in _staged(run, tier) if _asks_the_same(made["key"], now["key"])])
    names = _execute(run, tier, "")
    if not is_first():
        return
    numbers = names["run"].numbers
    left = {paths.place(path): paths.digest(path) for path in _left(runs() / tier / run)}
    results = {"numbers": numbers, "left": left}
    made = {"results": results, "left": left, "trainings": trainings.noted()}
    _end(run, tier, key.COMPUTE, now, made, paths.noted())
    _write_results(run, tier, results)
    print(f"{tier} {run}: computed in {time.time() - began:.0f} s", flush=True)


def stage(run: str, tier: str, name: str) -> None:
    """Execute the cells of one stage of a run."""
    began = time.time()
    content = key.of(run, tier, key.jobs_of(run)[0])
    _execute(run, tier, name)
    if is_first():
        made = {"key": content, "trainings": trainings.noted()}
        write(key.made_file(run, tier, name), json.dumps(made, indent=1) + "\n")
        print(f"{tier} {run}: {name} done in {time.time() - began:.0f} s", flush=True)


def draw(run: str, tier: str) -> None:
    """Execute the whole notebook of a run by papermill, and put its report in place.

    Raises:
        PapermillExecutionError: papermill's own, with the failing cell. The partial copy stays in
            the run folder.
        RuntimeError: the notebook ended without a manifest.
    """
    now = _now(run, tier, key.DRAW)
    if key.jobs_of(run) == [key.COMPUTE, key.DRAW]:
        now["computed"] = key.results_of(run, tier)
    now["drawn"] = key.drawn(run, tier)
    before = read_json(key.made_file(run, tier, key.DRAW)) or {}
    if _same(before, now) and not key.missing(run, tier, key.DRAW):
        _write_drawn(run, tier, before)
        print(f"{tier} {run}: as drawn before", flush=True)
        return
    began = time.time()
    made = key.made_file(run, tier, key.DRAW)
    made.unlink(missing_ok=True)
    file = made.with_name("draw.now.json")
    write(file, json.dumps(now))
    manifest = graph.manifest(run, tier)
    stood = manifest.stat().st_mtime_ns if manifest.exists() else 0
    partial = made.with_name("executed.ipynb")
    os.environ[MADE] = str(file)
    computed = read_json(key.made_file(run, tier, key.COMPUTE))
    _expect([computed] if computed and key.COMPUTE in key.jobs_of(run) else [])
    _papermill(run, tier, partial)
    if not manifest.exists() or manifest.stat().st_mtime_ns == stood:
        raise RuntimeError(f"{run} ended without run.finish(): no manifest in {manifest.parent}")
    import nbformat

    write(manifest.with_name(f"{run}.ipynb"), copy_text(nbformat.read(partial, 4)))
    partial.unlink()
    told = json.loads(manifest.read_text())
    read = file.with_name(READ)
    results = {
        "numbers": told.get("numbers", {}),
        "tables": key.table_digests(told["artefacts"]),
    }
    finished = {"results": results, "finished": told["finished"]}
    _end(run, tier, key.DRAW, now, finished, json.loads(read.read_text()))
    for done in (file, read):
        done.unlink()
    _write_drawn(run, tier, finished)
    print(f"{tier} {run}: drawn in {time.time() - began:.0f} s", flush=True)


def note_read(read: dict[str, str]) -> None:
    """Tell the job of this kernel what its notebook read. A manifest names no folder of yours.

    read: digests by place. Nothing is told where no job started the kernel.
    """
    if MADE in os.environ:
        write(Path(os.environ[MADE]).with_name(READ), json.dumps(read))


# What a job was made of, and what it left.


def _now(run: str, tier: str, job: str) -> dict:
    """What a job is made of: its key, as Snakemake compared it, and the results that it reads."""
    content = read_json(key.file(run, tier, job)) or key.of(run, tier, job)
    return {"key": content, "upstream": key.upstream(run, tier)}


def _same(before: dict, now: dict) -> bool:
    """Whether a job is made of what it was made of when it ended last."""
    return bool(before) and all(before.get(name) == value for name, value in now.items())


def _end(run: str, tier: str, job: str, now: dict, left: dict, read: dict[str, str]) -> None:
    """Note what a job was made of. From now on the data that it read count among its key."""
    now["key"]["data"] = key.data_read(read, now["key"])
    write(key.file(run, tier, job), json.dumps(now["key"], indent=1) + "\n")
    write(key.made_file(run, tier, job), json.dumps(now | left, indent=1) + "\n")


def _staged(run: str, tier: str) -> list[dict]:
    """What the stages of a run were made of that ran as jobs of their own."""
    made = [read_json(key.made_file(run, tier, name)) for name in cells.stages_of(run)]
    return [one for one in made if one]


def _asks_the_same(one: dict, other: dict) -> bool:
    """Whether two keys have the same values, settings and code; the data are not compared."""
    return all(one[name] == other[name] for name in ("parameters", "recipe", "code"))


def _expect(made: list[dict]) -> None:
    """Let this job, and its kernel, find the trainings of earlier jobs of the run."""
    folders = [folder for job in made for folder in job["trainings"]]
    os.environ[trainings.FINDS] = json.dumps(folders)


def _write_results(run: str, tier: str, results: dict) -> None:
    """Write `results.json`, on which other runs depend."""
    text = json.dumps(results, indent=1, sort_keys=True) + "\n"
    write(key.result(run, tier, key.COMPUTE), text)


def _write_drawn(run: str, tier: str, made: dict) -> None:
    """Write `drawn.json`, and the results where no job of the run's own computes them."""
    if key.jobs_of(run) == [key.DRAW]:
        _write_results(run, tier, made["results"])
    write(key.result(run, tier, key.DRAW), json.dumps({"finished": made["finished"]}) + "\n")


# What of a run's folder other runs read: models, a classifier, answers and rows.
LEFT = ("model", "policy", "classifier", "*.csv", "held-out*.jsonl", "labelled*.jsonl")


def _left(folder: Path) -> list[Path]:
    """What a run has left for others."""
    return sorted({path for pattern in LEFT for path in folder.glob(pattern)})


# The execution.


def _execute(run: str, tier: str, stage: str) -> dict:
    """Execute the cells of a stage, "" for all of them, and return the names that they bind."""
    os.environ |= graph.unseen(tier)
    _, values, _ = graph.resolved(run, tier)
    hide(values)
    if "LOCAL_RANK" in os.environ:  # one of several: "cuda" is then this process's own GPU
        import torch
        from accelerate import PartialState

        # A process may wait for days while the first one asks a server.
        PartialState(cpu=not torch.cuda.is_available(), timeout=timedelta(days=30))
    import matplotlib

    matplotlib.use("agg")
    environment = {RUN: graph.reading(run, tier), cells.STAGE: stage or "all"}
    environment[progress.FILE] = str(progress.file(run, tier))
    os.environ |= environment
    # Where a kernel would be: modules beside the notebooks are found, and relative paths hold.
    os.chdir(root() / "notebooks")
    sys.path.insert(0, str(root() / "notebooks"))
    return cells.execute(run, values, stage, before=progress.cell)


def _papermill(run: str, tier: str, partial: Path) -> None:
    """Execute the notebook of a run by papermill into a partial copy."""
    # With it jsonschema builds a grammar of web addresses: two seconds, for a check of none.
    sys.modules.setdefault("rfc3987_syntax", None)
    import papermill
    from papermill.clientwrap import PapermillNotebookClient

    # nbclient answers the widget that holds the output of `interact` on the channel on which it
    # waits for the cell, and now and then it then waits for good (jupyter/nbclient#312). Without an
    # answer the output is the cell's own.
    PapermillNotebookClient.on_comm_open_jupyter_widget = lambda client, message: None
    # By way of JSON, because papermill writes a tuple as a text.
    values = json.loads(json.dumps(graph.resolved(run, tier)[1]))
    hide(values)
    os.environ |= graph.unseen(tier)
    os.environ[RUN] = graph.reading(run, tier)
    os.environ[progress.FILE] = str(progress.file(run, tier))
    os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"  # bars fill an executed copy
    # With the cell of parameters that papermill adds.
    total = len(json.loads(notebook_path(run).read_text())["cells"]) + 1

    def before(cell: object, cell_index: int) -> None:
        progress.cell(cell_index, total)

    papermill.execute_notebook(
        doubled(str(notebook_path(run))),
        doubled(str(partial)),
        values,
        cwd=root() / "notebooks",
        kernel_name="python3",
        kernel_manager_class=kernel_manager(),
        on_cell_start=before,
        progress_bar=False,
        # On a busy machine a kernel takes longer to start than papermill's 60 s.
        start_timeout=600,
        # Every kernel would warn of loopback.
        extra_arguments=["--IPKernelApp.log_level=40"],
    )


def kernel_manager() -> type:
    """The class of jupyter_client's kernel managers whose kernels share no port.

    Ports are chosen before a kernel binds them, so two kernels that start at once may choose one.
    Here a kernel talks by sockets in a folder of its own.
    """
    from jupyter_client.manager import AsyncKernelManager

    class SocketKernelManager(AsyncKernelManager):
        """Starts a kernel on sockets in a temporary folder: their paths must be short."""

        async def start_kernel(self, **options: object) -> None:
            """Start the kernel."""
            self.folder = tempfile.TemporaryDirectory(prefix="hs2-")
            self.transport = "ipc"
            self.ip = f"{self.folder.name}/socket"
            self.connection_file = f"{self.folder.name}/kernel.json"
            await super().start_kernel(**options)

    return SocketKernelManager


def doubled(text: str) -> str:
    """Text with its braces doubled, since papermill fills in what stands between single ones."""
    return text.replace("{", "{{").replace("}", "}}")


def copy_text(executed: dict) -> str:
    """The text of an executed notebook as its report keeps it.

    Times and paths of this machine are left out: warnings name files, and bars say seconds. The
    manifest holds what matters of them. Links to other notebooks lead to their executed copies.
    """
    import nbformat

    for node in (executed, *executed.cells):
        for name in ("papermill", "execution", "widgets"):
            node.metadata.pop(name, None)
    for cell in executed.cells:
        if cell.cell_type == "markdown":
            cell.source = _linked_to_copies(cell.source)
        for output in cell.get("outputs", []):
            shown = output.get("data", {})
            if "text/markdown" in shown:
                shown["text/markdown"] = _linked_to_copies(shown["text/markdown"])
    return BAR_TIMES.sub("", public(nbformat.writes(executed))) + "\n"


def _linked_to_copies(text: str) -> str:
    """Markdown whose links to notebooks lead from one executed copy to another.

    A notebook lies beside the others, and a copy in a folder of its own.
    """

    def link(match: re.Match) -> str:
        name = match[1]
        if name not in graph.notebooks():
            return match[0]
        return f"](../{name}/{name}.ipynb"

    return NOTEBOOK_LINK.sub(link, text)


JOBS: dict[str, Callable[..., None]] = {"compute": compute, "draw": draw, "stage": stage}


def main(words: list[str]) -> None:
    """Do a job: its kind, the tier, the run and, of a stage, its name."""
    job, tier, run, *more = words
    os.environ[rehearsal.RUN] = run
    began = time.time()
    try:
        JOBS[job](run, tier, *more)
        rehearsal.note("job", time.time() - began, 0.0)
    finally:
        if is_first():
            progress.file(run, tier).unlink(missing_ok=True)


if __name__ == "__main__":
    main(sys.argv[1:])
