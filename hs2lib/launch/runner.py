"""Run notebooks from the command line: what is stale, each after what it needs.

`hs2lib.run.graph` says which runs there are and judges which are stale. The Snakefile runs those
and no others, each by papermill.
"""

import argparse
import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TextIO

import nbformat

from hs2lib.code import KEPT, MadeByOtherCode
from hs2lib.group import ATTRIBUTES
from hs2lib.launch import stages
from hs2lib.names import OWN_PAIRS
from hs2lib.paper import head_weights
from hs2lib.paths import RUN, data, hide, public, reports, root, runs, write
from hs2lib.paths import notebook as notebook_path
from hs2lib.run import graph, parameters, processes
from hs2lib.run.parameters import ParameterError, settings, specification

MEASURES_PAIRS = "06_rewardbench_evaluation"

BAR_TIMES = re.compile(r" \[\d+:\d\d(?::\d\d)?<[^\]]*\]")  # what a progress bar says of seconds
NOTEBOOK_LINK = re.compile(r"\]\((\d\d_\w+)\.ipynb(?=[)#\s])")  # in Markdown, from beside it


def doubled(text: str) -> str:
    """Text with its braces doubled, as Snakemake and papermill want it.

    They fill in what stands between single braces.
    """
    return text.replace("{", "{{").replace("}", "}}")


def execute(run: str, tier: str, locks: list[TextIO]) -> None:
    """Run one notebook, or a named run of it, with papermill.

    Its executed copy is then put in place and, last, the stamp.

    Args:
        run: a notebook's own run or a named one.
        tier: one of `graph.TIERS`.
        locks: files that its kernel keeps open, as `processes.hold` gives them.

    Raises:
        PapermillExecutionError: papermill's own, with the failing cell. The partial copy stays in
            the run folder.
        RuntimeError: the notebook ended without a manifest.
    """
    import papermill
    from jupyter_client.manager import AsyncKernelManager

    class OwnedKernel(AsyncKernelManager):
        async def start_kernel(self, **options: object) -> None:
            await super().start_kernel(**options, **processes.owned(locks))

    files = graph.outputs(run, tier)
    began = time.time()
    # By way of JSON, because papermill writes a tuple as a text.
    values = json.loads(json.dumps(graph.resolved(run, tier)[1]))
    hide(values)
    os.environ[RUN] = graph.reading(run, tier)
    os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"  # bars fill an executed copy
    print(f"{tier} {run} ...", flush=True)
    files["stamp"].unlink(missing_ok=True)
    partial = files["stamp"].with_name("executed.ipynb")
    partial.parent.mkdir(parents=True, exist_ok=True)
    papermill.execute_notebook(
        doubled(str(notebook_path(run))),
        doubled(str(partial)),
        values,
        cwd=root() / "notebooks",
        kernel_name="python3",
        kernel_manager_class=OwnedKernel,
        progress_bar=sys.stderr.isatty(),
        # On a busy machine a kernel takes longer to start than papermill's 60 s.
        start_timeout=600,
        # Every kernel would warn of loopback.
        extra_arguments=["--IPKernelApp.log_level=40"],
    )
    if not files["stamp"].exists():
        raise RuntimeError(
            f"{run} ended without run.finish(): no manifest in {files['manifest'].parent}"
        )
    write(files["notebook"], copy_text(nbformat.read(partial, 4)))
    partial.unlink()
    graph.stamp(run, tier)
    print(f"{tier} {run} done in {time.time() - began:.0f} s", flush=True)


def copy_text(executed: nbformat.NotebookNode) -> str:
    """The text of an executed notebook as its report keeps it.

    Times and paths of this machine are left out: warnings name files, and bars say seconds. The
    manifest holds what matters of them. Links to other notebooks lead to their executed copies.
    """
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


def check_folder(names: list[str], tier: str) -> None:
    """Raise ParameterError where a run reads data sets from HS2_DATA_DIR, and that is no folder."""
    folder = data()
    if folder and os.path.isdir(folder):
        return
    for name in names:
        values = _values_and_settings(name, tier)
        from_folder = values.get("source") == "folder" and not values.get("path")
        if from_folder or values.get("eval_source") == "folder":
            fault = f"names {folder}, which is no folder" if folder else "is not set"
            raise ParameterError(
                f"{name} reads data sets from a folder at tier {tier}, and HS2_DATA_DIR {fault}; "
                "nothing was run. "
                f"Say HS2_DATA_DIR=/folder/of/your/data/sets python -m hs2lib.run --tier {tier}; "
                "docs/real-data.md says how the sets lie there"
            )


def _values_and_settings(run: str, tier: str) -> dict[str, object]:
    """The parameters of a run and the settings of its recipe by name, with their values."""
    _, values, recipe = graph.resolved(run, tier)
    return (vars(recipe) if recipe else {}) | values


# Kind of thing that a notebook makes -> the folder that it is saved in.
MADE = {"reward_model": "model", "policy": "policy"}


def check_upstream(run: str, tier: str, stage: str) -> None:
    """Raise ParameterError where a stage reads a run that has left nothing to read."""
    for other in stages.upstream(run, tier, stage):
        needed = []
        for kind in graph.about(other)["makes"]:
            if kind in MADE:
                needed.append(runs() / tier / other / MADE[kind])
        if not needed:
            needed.append(graph.outputs(other, tier)["manifest"])
        missing = [path for path in needed if not path.exists()]
        if missing:
            raise ParameterError(
                f"stage {stage} of {run} reads {other}, and there is no {missing[0]}: "
                f"run python -m hs2lib.run --tier {tier} {other} first"
            )


def check_files(names: list[str], tier: str) -> None:
    """Have the data doctor read every file of your own that these notebooks name.

    What it says is printed. Raises ParameterError for a file at which a notebook would stop.
    """
    status_of: dict[tuple[str, str], int] = {}
    for name in names:
        values = _values_and_settings(name, tier)
        path = values.get("path")
        if not path:
            continue
        if "ratings" in (values.get("dataset"), values.get("also")):  # 03 reads two sets
            kind = "ratings"
        else:
            kind = values.get("dataset", "pairs")
        if (path, kind) not in status_of:
            # A process of its own, since the doctor's room is not for us to import. It starts where
            # a kernel does.
            command = [sys.executable, "-m", "hs2lib.data.check", path, "--as", kind]
            if kind == "ratings":
                # With =, since a scale from -1 to 1 begins as an option does.
                command.append(f"--scale={values.get('scale', '')}")
                command.append(f"--attributes={','.join(values.get('attributes', ()))}")
            doctor = subprocess.run(command, stdout=2, cwd=root() / "notebooks")
            status_of[path, kind] = doctor.returncode
        status = status_of[path, kind]
        # Status 1 says that rows have faults: a notebook leaves them out where it is not strict.
        if status and (status != 1 or values.get("strict", True)):
            raise ParameterError(
                f"{path} cannot be read as it is (above), and nothing was run: {name} needs it"
            )


def check_weighting(run: str, tier: str) -> None:
    """Raise ParameterError where a run weighs outputs that the reward model it reads will not have.

    A reward model of pairs has the one output "reward". The notebook would stop too, after minutes.
    """
    values = _values_and_settings(run, tier)
    weighting = values.get("weighting")
    if not weighting:
        return
    for other in graph.upstream(run, tier):
        if "reward_model" not in graph.about(other)["makes"]:
            continue
        of_model = _values_and_settings(other, tier)
        if of_model.get("objective", "regression") == "regression":
            outputs = of_model.get("attributes", ATTRIBUTES)
        else:
            outputs = ["reward"]
        try:
            head_weights(weighting, outputs)
        except ValueError:
            name = "weighting" if "weighting" in settable(run) else "recipe.weighting"
            raise ParameterError(
                f"{run} weighs the outputs of {other} by {weighting!r}, and that reward model has "
                f"{', '.join(outputs)}: add -p {name}={outputs[0]}:1"
            ) from None


# Settings under which a policy's answers to held-out prompts are measured.
MEASURED_BY = (
    "reward model",
    "weighting",
    "seed",
    "n_eval_samples",
    "eval_temperature",
    "eval_top_p",
    "eval_tokens",
)


def check_compared(run: str, tier: str) -> None:
    """Raise ParameterError where a named policy would stand beside one that is measured otherwise.

    Its notebook would stop at the table of both, after the training.
    """
    if "@" not in graph.without_seed(run)[0] or "policy" not in graph.about(run)["makes"]:
        return
    measured = _measured_by(run, tier)
    if measured["reward model"] in ("", "none"):
        return
    for other in graph.upstream(run, tier):
        if "policy" not in graph.about(other)["makes"]:
            continue
        of_other = _measured_by(other, tier)
        for name in MEASURED_BY:
            if measured[name] != of_other[name]:
                notebook = other.partition("@")[0][:2]
                label = run.partition("@")[2]
                raise ParameterError(
                    f"{run} is compared with {other}, which is measured by another {name} "
                    f"({of_other[name]}, not {measured[name]}): first run {notebook} "
                    f"--name {label} by the same one; {run} then reads that"
                )


def _measured_by(run: str, tier: str) -> dict[str, object]:
    """The values of `MEASURED_BY` of a run that makes a policy."""
    values = _values_and_settings(run, tier)
    reward_model = values.get("reward", "")
    if not reward_model:
        for other in graph.upstream(run, tier):
            if "reward_model" in graph.about(other)["makes"]:
                reward_model = other
    return {name: values.get(name) for name in MEASURED_BY} | {"reward model": reward_model}


def snakemake(
    names: list[str], tier: str, cores: int, extra: list[str], locks: list[TextIO]
) -> int:
    """Let Snakemake run notebooks, each after what it needs.

    What is stale is decided by `why_stale` alone, and the folder is locked by us. Snakemake's own
    times, metadata and locks, which a killed run leaves behind, count for nothing.

    Args:
        names: runs of one tier, all of which are run.
        tier: one of `graph.TIERS`.
        cores: how many notebooks run at a time.
        extra: further options of Snakemake.
        locks: files that all processes keep open, as `processes.hold` gives them.

    Returns:
        Snakemake's exit status.
    """
    # What a job says, as the Snakefile has it.
    logs = {name: runs() / tier / name / "log.txt" for name in names}
    for file in logs.values():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.unlink(missing_ok=True)
    command = [sys.executable, "-m", "snakemake"]
    command += ["--snakefile", str(root() / "Snakefile")]
    command += ["--directory", str(runs())]
    command += ["--cores", str(cores)]
    command += ["--forceall", "--nolock", "--ignore-incomplete", "--keep-going"]
    command += ["--quiet", "all"]
    command += extra
    command += ["--config", f"tier={tier}", f"notebooks={','.join(names)}", f"cores={cores}"]
    log = runs() / "snakemake.log"
    with log.open("w") as output:
        # Who gives it options wants to see what it says.
        status = processes.run(command, locks, stdout=2, stderr=2 if extra else output)
    if status:
        _report_failure(names, tier, logs, log)
    return status


def _report_failure(names: list[str], tier: str, logs: dict[str, Path], log: Path) -> None:
    """Print which runs failed, with the ends of their logs, and which did not begin.

    Args:
        names: the runs that Snakemake was to run.
        tier: their tier.
        logs: the log of each run.
        log: Snakemake's own.
    """
    unfinished = [name for name in names if not graph.outputs(name, tier)["stamp"].exists()]
    failed = [name for name in unfinished if logs[name].exists()]
    for name in failed:
        print(f"error: {tier} {name} failed; {end_of(logs[name])}", file=sys.stderr)
    if not failed:
        print(f"error: Snakemake failed; {end_of(log)}", file=sys.stderr)
    waiting = [name for name in unfinished if name not in failed]
    if waiting:
        print(f"not run: {', '.join(waiting)}", file=sys.stderr)


def end_of(log: Path, lines: int = 4, width: int = 200) -> str:
    """The name of a log and its last lines, made safe to print.

    They may hold texts of data and of models.

    Args:
        log: a text file.
        lines: how many of its last lines, empty ones apart.
        width: how many characters of each.
    """
    text = re.sub(r"\x1b\[[0-9;]*m", "", log.read_text(errors="replace"))
    last_lines = [line for line in text.splitlines() if line.strip()][-lines:]
    shown = [_printable(line, width) for line in last_lines]
    if text.endswith("DeadKernelError: Kernel died\n"):
        shown.append(
            "it was killed: most often memory ran out, "
            "so take a smaller model, batch or recipe.budget"
        )
    if not shown:
        free = shutil.disk_usage(log.parent).free / 2**20
        shown.append(f"(nothing: it was killed, or the disk is full; {free:.0f} MB are free)")
    return "\n    ".join([f"the end of {log}:", *shown])


def _printable(line: str, width: int) -> str:
    """A line without tabs and commands to the terminal, cut where it is longer than `width`."""
    characters = []
    for character in line[: 2 * width].expandtabs():
        characters.append(character if character.isprintable() else ascii(character)[1:-1])
    text = "".join(characters)
    return text if len(text) <= width else f"{text[:width]} .."


def states(names: list[str], tier: str, *, verify: bool = False) -> int:
    """Print of each run whether it is current or why not, and return the exit status.

    verify: print all that has changed or is missing too, every file hashed anew. The status is then
    1 where anything is; else it is 0.
    """
    known: dict[str, graph.State] = {}
    for name in names:
        judged = graph.state(name, tier, known, again=verify)
        print(f"{tier} {name}: {judged.why or 'current'}")
        if verify:
            for change in judged.changes:
                print(f"  {change}")
    return int(verify and any(known[name].why for name in names))


def settable(run: str) -> dict[str, parameters.Parameter]:
    """What can be set of a run, by name.

    They are the parameters of its notebook, then further settings of its recipe as recipe.name.
    """
    known = specification(notebook_path(run))
    by_name = {name: p for name, p in known.items() if name not in ("recipe", "tier")}
    if "recipe" in known:
        for name, p in settings(known["recipe"].recipe).items():
            if name not in known:
                by_name[f"recipe.{name}"] = p
    return by_name


def listed(run: str, tier: str) -> str:
    """A page of all that a run is made with.

    It has what a named run reads, each parameter with its value, then the settings of the whole
    recipe.
    """
    _, values, recipe = graph.resolved(run, tier)
    title = run
    if "@" in run:
        title = f"{run} reads {', '.join(graph.upstream(run, tier)) or 'no other run'}"
    lines = [title]
    for name, p in settable(run).items():
        value = values[name] if name in values else getattr(recipe, p.name)
        comment = "; ".join(text for text in (p.help, p.limits) if text)
        lines.append(f"  {name}: {p.type.__name__} = {value!r}  # {comment}")
    return "\n".join(lines)


def define_runs(
    names: list[str],
    tier: str,
    words: list[str],
    reads: list[str],
    undo: contextlib.ExitStack | None = None,
) -> None:
    """Define these named runs.

    Each takes the words that its notebook has, and reads what it needs of `reads`. Those of one
    name read each other, where `reads` does not say otherwise.

    Args:
        names: named runs.
        tier: one of `graph.TIERS`.
        words: `name=value` each.
        reads: runs to read, as a user types them.
        undo: learns how to take all that back, should what comes after refuse the runs.

    Raises:
        ParameterError: none of the runs takes a word or a read, or one is a notebook's own run,
            whose parameters are the tier's. Nothing is defined then.
    """
    unnamed = [name for name in names if "@" not in name]
    if unnamed:
        raise ParameterError(
            f"{unnamed[0]} at tier {tier} has the tier's parameters: "
            "name a run of your own, --name mine"
        )
    valueless = [word for word in words if "=" not in word]
    if valueless:
        raise ParameterError(f"-p {valueless[0]}: write -p {valueless[0]}=value")
    others = graph.matching(reads)
    unused = {*words, *others}
    definitions: list[tuple[str, dict, list[str]]] = []
    for run in names:
        known = settable(run)
        taken = [word for word in words if word.partition("=")[0] in known]
        gives_way = _gives_way(run, names, words)
        if gives_way:
            print(f"{run} {gives_way}", file=sys.stderr)
            taken = [word for word in taken if word.partition("=")[0] not in ("path", "source")]
        values = _with_own_file(run, tier, _values_of(taken, known), known)
        run_reads = _reads_of(run, tier, values, [*names, *others])
        unused -= {*taken, *run_reads}
        definitions.append((run, values, run_reads))
    for word in sorted(unused):
        if word in others:
            raise ParameterError(f"--reads {word}: none of {', '.join(names)} needs it")
        # Raises, since the name is unknown.
        parameters.check({word.partition("=")[0]: ""}, settable(names[0]), "-p")
    defined = {run: values for run, values, _ in definitions}
    for run, values, run_reads in definitions:
        values = values | _on_held_out_rows(run, tier, values, run_reads, defined)
        file = runs() / tier / run / "run.yaml"
        if undo:
            undo.callback(_restore, file, file.read_bytes() if file.exists() else None)
        graph.define(run, tier, values, run_reads)


def _gives_way(run: str, names: list[str], words: list[str]) -> str:
    """Why a run does not take the file that a command names, in words; "" where it may.

    A reward model that is trained on the file in the same command would be measured on its own
    rows.
    """
    named = {word.partition("=")[0] for word in words}
    makes_one = "reward_model" in graph.about(run)["makes"]
    if "path" not in named or makes_one or "reward_model" not in _needs_in_words(run):
        return ""
    for other in names:
        if "reward_model" in graph.about(other)["makes"] and "path" in settable(other):
            return (
                f"measures on the rows that {other} holds out; "
                "on pairs of your own it runs by itself, with -p path=pairs.csv"
            )
    return ""


def _needs_in_words(run: str) -> str:
    """What the notebook of a run needs, as its metadata say."""
    return " ".join(graph.about(run)["needs"])


def from_here(path: str) -> str:
    """A path that holds from the folder of the notebooks too.

    A file of the current folder is named from the checkout, or whole where it lies elsewhere.
    """
    if not path or Path(path).is_absolute() or not os.path.isfile(path):
        return path
    file = Path(path).resolve()
    if file.is_relative_to(root().resolve()):
        return file.relative_to(root().resolve()).as_posix()
    return str(file)


def _with_own_file(
    run: str, tier: str, values: dict, known: dict[str, parameters.Parameter]
) -> dict:
    """The values of a run with what its file of one's own is; what was found is printed.

    That is found where a path is named, and neither the data set nor its source.
    """
    if not values.get("path"):
        return values
    values = values | {"path": from_here(values["path"])}
    if "dataset" not in known or {"dataset", "source"} & values.keys():
        return values
    # Here, because torch takes seconds, and most commands do without.
    from hs2lib.launch import own_file

    settled = own_file.settle(run, tier, values, known)
    print("\n".join(settled.sentences), file=sys.stderr, flush=True)
    return settled.values


def _on_held_out_rows(
    run: str, tier: str, values: dict, reads: list[str], defined: dict[str, dict]
) -> dict:
    """What more a run needs to measure a reward model on the rows of one's own that it left.

    Tiers of real data name a benchmark and weights of their own. They give way where the model was
    trained on a file of one's own, and the run names neither pairs nor a model.

    Args:
        run: a named run.
        tier: one of `graph.TIERS`.
        values: of the run.
        reads: the runs that it reads.
        defined: the values of runs that are defined in the same command.
    """
    measures = run.partition("@")[0] == MEASURES_PAIRS
    if not measures or tier in graph.SMALL_WORLD or {"path", "source", "model"} & values.keys():
        return {}
    for other in reads:
        made_with = defined.get(other) or graph.definition(other, tier)[0]
        own = made_with.get("path") and made_with.get("dataset") in ("ratings", OWN_PAIRS)
        if own and "reward_model" in graph.about(other)["makes"]:
            more = {"source": "embedded"}
            if "weighting" not in values:
                more["weighting"] = ""  # the usual one, and not that of the tier's own model
            return more
    return {}


def follow(names: list[str], tier: str, undo: contextlib.ExitStack) -> None:
    """Define the named runs that nothing defines yet, where a run of the same name is read.

    After `05 --name mine` came `06 --name mine`: it has the tier's parameters and reads 05@mine.

    Args:
        names: named runs.
        tier: one of `graph.TIERS`.
        undo: as for `define_runs`.
    """
    for run in names:
        try:
            graph.definition(run, tier)
        except ParameterError:
            run_reads = _reads_of(run, tier, {}, names)
            if run_reads:
                undo.callback(_restore, runs() / tier / run / "run.yaml", None)
                values = _on_held_out_rows(run, tier, {}, run_reads, {})
                graph.define(run, tier, values, run_reads)
                print(f"{run} reads {', '.join(run_reads)}", file=sys.stderr)


def _values_of(words: list[str], known: dict[str, parameters.Parameter]) -> dict:
    """Values of parameters by name, those of settings under `recipe`, from `name=value` words."""
    values: dict = {}
    for word in words:
        name, _, text = word.partition("=")
        parameter = known[name]
        if name.startswith("recipe."):
            values.setdefault("recipe", {})[parameter.name] = parameters.typed(text, parameter)
        else:
            values[parameter.name] = parameters.typed(text, parameter)
    return values


def _reads_of(run: str, tier: str, values: dict, candidates: list[str]) -> list[str]:
    """The runs that a named run with these values reads in place of notebooks' own.

    They are the runs of its own name that exist, and the candidates. Of several runs of one
    notebook the last one counts. A run that was begun and did not end is no run to read.
    """
    _, whole_values, recipe = graph.resolved(run, tier, (values, [], f"-p of {run}"))
    needed = graph.upstream(run, tier, (whole_values, recipe), [])
    label = run.partition("@")[2]
    same_label = []
    for other in graph.named_runs(tier):
        if other.partition("@")[2] != label or other == run:
            continue
        if _did_not_end(other, tier) and other not in candidates:
            if other.partition("@")[0] in needed:
                print(
                    f"{run} does not read {other}, which was begun and did not end: "
                    f"run {other} again first, or say --reads {other}",
                    file=sys.stderr,
                )
            continue
        same_label.append(other)
    of_notebook = {other.partition("@")[0]: other for other in [*same_label, *candidates]}
    return [other for notebook, other in sorted(of_notebook.items()) if notebook in needed]


def _did_not_end(run: str, tier: str) -> bool:
    """Whether a run was begun, and has not ended since."""
    begun = (runs() / tier / run / "log.txt").exists()
    return begun and not graph.outputs(run, tier)["stamp"].exists()


def _restore(file: Path, content: bytes | None) -> None:
    """Put back what defined a named run before a command that was refused; None: nothing did."""
    if content is not None:
        write(file, content)
    elif file.exists():
        file.unlink()
        with contextlib.suppress(OSError):  # the run has left something in its folder
            file.parent.rmdir()


def _parser() -> argparse.ArgumentParser:
    """The words of the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m hs2lib.run",
        description=(
            "Bring notebooks up to date at a tier: parameters checked first, "
            "then Snakemake and papermill."
        ),
        epilog=(
            "Options after -- go to Snakemake: -- --workflow-profile profiles/slurm. "
            "Runs of your own: docs/runs.md."
        ),
    )
    add = parser.add_argument
    add(
        "notebook", nargs="*", help="names or numbers (01), or named runs (01@mine); all by default"
    )
    add("--tier", choices=list(graph.TIERS), default="smoke", help="which tier (default: smoke)")
    add(
        "--name",
        default="",
        help="define and run the notebooks under this name, beside their own runs",
    )
    add(
        "-p",
        "--set",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="a parameter of the named runs",
    )
    add(
        "--reads",
        metavar="RUN",
        action="append",
        default=[],
        help="a named run to read from, as 05@mine",
    )
    add(
        "--scale",
        metavar="LOW-HIGH",
        default="",
        help="of own ratings: the lowest and the highest, as 1-5 or clarity:1-5,score:0-1",
    )
    add(
        "--seeds",
        metavar="N",
        type=int,
        default=1,
        help="so many seeds of each run and of all it reads: @seed-1 ..",
    )
    add(
        "--cores", type=int, default=os.cpu_count(), help="notebooks at a time (default: all cores)"
    )
    add("--list", action="store_true", help="say what is stale and why, run nothing")
    add("--verify", action="store_true", help="say all that changed or is missing, run nothing")
    add(
        "--compare",
        action="store_true",
        help="set reports beside the published ones (07@seed-1=07: a pair), run nothing",
    )
    add(
        "--strict",
        action="store_true",
        help="with --compare: status 1 where a number is another one",
    )
    add("--parameters", action="store_true", help="list parameters and recipes, run nothing")
    add("--execute", action="store_true", help="run these notebooks now, without Snakemake")
    add(
        "--stage",
        choices=list(stages.STAGES),
        help="do only this part of these notebooks now; torchrun may start it",
    )
    add(
        "--reuse",
        action="store_true",
        help="read trainings, samples and scores that other code made; reports say so",
    )
    add(
        "--stream",
        action="store_true",
        help="each process of a stage reads its share of the weights (with fsdp)",
    )
    return parser


def main(arguments: list[str] | None = None) -> int:
    """Command line: `python -m hs2lib.run [--tier TIER] [NOTEBOOK ...]`."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    split = words.index("--") if "--" in words else len(words)
    parser = _parser()
    args = parser.parse_args(words[:split])
    if min(args.cores, args.seeds) < 1:
        parser.error(f"--cores and --seeds are at least 1, got {args.cores} and {args.seeds}")
    kept_before = os.environ.get(KEPT)
    try:
        return _run(args, args.tier, words[split + 1 :])
    except (OSError, ParameterError, ImportError, MadeByOtherCode) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    finally:
        os.environ.pop(KEPT, None)
        if kept_before is not None:
            os.environ[KEPT] = kept_before


def _run(args: argparse.Namespace, tier: str, extra: list[str]) -> int:
    """Do what the command line asks for.

    Raises before anything runs, and then defines no run.

    Args:
        args: the words before `--`.
        tier: that of `args`.
        extra: the words after it, options of Snakemake.

    Returns:
        The exit status.
    """
    if args.compare:
        # Here, because pandas takes a second, and the other commands do without.
        from hs2lib.launch import compare

        return compare.main(tier, args.notebook, strict=args.strict)
    names = _asked_for(args, tier)
    todo: list[str] = []
    locks: list[TextIO] = []
    with contextlib.ExitStack() as undo:
        words = [*args.set, *_scale_words(args.scale, names)]
        if words or args.reads:
            define_runs(names, tier, words, args.reads, undo)
        elif args.name:
            follow(names, tier, undo)
        names = [graph.of_seed(name, more) for name in names for more in range(args.seeds)]
        needed = graph.with_upstream(names, tier)
        names = [name for name in needed if name in names]
        for name in needed:  # every file is checked before anything runs
            graph.resolved(name, tier)
            check_weighting(name, tier)
            check_compared(name, tier)
        if not (args.list or args.verify or args.parameters):
            todo, locks = _prepared(args, tier, names, needed)
        undo.pop_all()  # nothing was refused: named runs stay defined
    if args.list or args.verify:
        return states(names, tier, verify=args.verify)
    if args.parameters:
        print("\n".join([listed(name, tier) for name in names]))
        return 0
    if args.stage:
        for name in todo:
            stages.compute(name, tier, args.stage)
        return 0
    if args.execute:
        for name in todo:
            execute(name, tier, locks)
        return 0
    status = 0
    if todo:
        status = snakemake(todo, tier, args.cores, extra, locks)
    else:
        print(f"{tier}: all current, nothing to run", file=sys.stderr)
    for name in names:
        print(classifier_in_words(name, tier), end="", file=sys.stderr)
    return status


def classifier_in_words(run: str, tier: str) -> str:
    """Where a complete run left a classifier, what it is worth, and how it is loaded.

    "" where it left none: only a reward model of one's own rows is written as a classifier.
    """
    folder = runs() / tier / run / "classifier"
    if not folder.is_dir() or not graph.outputs(run, tier)["stamp"].exists():
        return ""
    verdict = folder.with_name("model") / "verdict.txt"
    here = os.path.relpath(folder)
    if here.startswith(".."):
        here = str(folder)
    return (
        f"{verdict.read_text().strip()}\n"
        f"The reward model is a transformers classifier; python {here}/use.py scores with it:\n"
        f'    tokenizer = AutoTokenizer.from_pretrained("{here}")\n'
        f'    model = AutoModelForSequenceClassification.from_pretrained("{here}")\n'
    )


def _scale_words(scale: str, names: list[str]) -> list[str]:
    """What `--scale` sets, as words of -p: a parameter of some notebooks, a setting of others."""
    if not scale:
        return []
    words = set()
    for run in names:
        for name in ("scale", "recipe.scale"):
            if name in settable(run):
                words.add(f"{name}={scale}")
    if not words:
        raise ParameterError(f"--scale {scale}: {', '.join(names)} read no ratings of your own")
    return sorted(words)


def _asked_for(args: argparse.Namespace, tier: str) -> list[str]:
    """Full names of the runs that the command line names; of all notebooks where it names none."""
    names = args.notebook or graph.notebooks()
    if args.name:
        return graph.matching([f"{name}@{args.name}" for name in names])
    if not args.notebook and (args.list or args.verify):
        names += graph.named_runs(tier)
    return graph.matching(names)


def _prepared(
    args: argparse.Namespace, tier: str, names: list[str], needed: list[str]
) -> tuple[list[str], list[TextIO]]:
    """Make ready to run; raises for all that can be refused before anything runs.

    Args:
        args: the command line.
        tier: that of `args`.
        names: the runs that it names.
        needed: these, and all that they read.

    Returns:
        The runs to run now, and the locks to keep meanwhile.
    """
    if args.stream:
        os.environ["HS2_STREAM"] = "1"  # for the jobs too
    if args.reuse:
        os.environ[KEPT] = "reuse"
    elif not os.environ.get(KEPT):  # a job of the runner has it from there
        os.environ[KEPT] = "again" if tier in graph.SMALL_WORLD else "ask"
    if args.stage or args.execute:
        check_folder(names, tier)
        processes.follow()
        os.environ |= graph.unseen(tier)
    else:
        os.environ.pop(processes.OWNER, None)
    if args.stage:
        for name in names:
            check_upstream(name, tier, args.stage)
        return names, []
    locks = [processes.hold(folder) for folder in (runs(), reports() / tier)]
    if args.execute:
        return names, locks
    known: dict[str, graph.State] = {}
    stale = [name for name in needed if graph.why_stale(name, tier, known)]
    check_folder(stale, tier)
    check_files(stale, tier)
    return stale, locks


if __name__ == "__main__":
    sys.exit(main())
