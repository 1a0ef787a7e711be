"""Run notebooks from the command line: what is stale, each after what it needs, by Snakemake and
papermill.

`hs2lib.run.graph` says which runs there are and judges which are stale; the Snakefile runs those
and no others.
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
from hs2lib.launch import stages
from hs2lib.paths import RUN, data, hide, public, reports, root, runs, write
from hs2lib.paths import notebook as notebook_path
from hs2lib.run import graph, parameters, processes
from hs2lib.run.parameters import ParameterError, settings, specification

BAR_TIMES = re.compile(r" \[\d+:\d\d(?::\d\d)?<[^\]]*\]")  # what a progress bar says of seconds


def doubled(text: str) -> str:
    """Text with its braces doubled, for Snakemake and papermill, which fill in what stands between single ones."""
    return text.replace("{", "{{").replace("}", "}}")


def execute(run: str, tier: str, locks: list[TextIO]) -> None:
    """Run one notebook, or a named run of it, with papermill, then put its executed copy in place
    and, last, the stamp.

    locks: files that its kernel keeps open, as `processes.hold` gives them. Raises papermill's
    PapermillExecutionError with the failing cell; the partial copy stays in the run folder.
    """
    import papermill
    from jupyter_client.manager import AsyncKernelManager

    class OwnedKernel(AsyncKernelManager):
        async def start_kernel(self, **options):
            await super().start_kernel(**options, **processes.owned(locks))

    made, began = graph.outputs(run, tier), time.time()
    values = json.loads(
        json.dumps(graph.resolved(run, tier)[1])
    )  # papermill writes a tuple as a text
    hide(values)
    os.environ |= {
        RUN: graph.reading(run, tier),
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    }  # bars fill an executed copy
    print(f"{tier} {run} ...", flush=True)
    made["stamp"].unlink(missing_ok=True)
    partial = made["stamp"].with_name("executed.ipynb")
    partial.parent.mkdir(parents=True, exist_ok=True)
    # On a busy machine a kernel takes longer than papermill's 60 s to start; every kernel would
    # warn of loopback.
    options = {"start_timeout": 600, "extra_arguments": ["--IPKernelApp.log_level=40"]}
    options |= {
        "kernel_name": "python3",
        "progress_bar": sys.stderr.isatty(),
        "kernel_manager_class": OwnedKernel,
    }
    source, target = (doubled(str(path)) for path in (notebook_path(run), partial))
    papermill.execute_notebook(source, target, values, cwd=root() / "notebooks", **options)
    if not made["stamp"].exists():
        raise RuntimeError(
            f"{run} ended without run.finish(): no manifest in {made['manifest'].parent}"
        )
    done = nbformat.read(partial, 4)
    for part in (
        done,
        *done.cells,
    ):  # times and paths of this machine; the manifest holds what matters
        for name in ("papermill", "execution", "widgets"):
            part.metadata.pop(name, None)
    write(
        made["notebook"], BAR_TIMES.sub("", public(nbformat.writes(done))) + "\n"
    )  # warnings name files
    partial.unlink()
    graph.stamp(run, tier)
    print(f"{tier} {run} done in {time.time() - began:.0f} s", flush=True)


def check_folder(names: list[str], tier: str) -> None:
    """Raise ParameterError where one of these runs reads data sets from a folder, and HS2_DATA_DIR names none."""
    folder = data()
    if folder and os.path.isdir(folder):
        return
    for name in names:
        _, values, recipe = graph.resolved(name, tier)
        known = (vars(recipe) if recipe else {}) | values
        from_folder = known.get("source") == "folder" and not known.get("path")
        if from_folder or known.get("eval_source") == "folder":
            what = (
                f"HS2_DATA_DIR names {folder}, which is no folder"
                if folder
                else "HS2_DATA_DIR is not set"
            )
            fix = f"HS2_DATA_DIR=/folder/of/your/data/sets python -m hs2lib.run --tier {tier}"
            what = (
                f"{name} reads data sets from a folder at tier {tier}, and {what}; nothing was run"
            )
            raise ParameterError(f"{what}. Say {fix}; docs/guide.md says how the sets lie there")


MADE = {
    "reward_model": "model",
    "policy": "policy",
}  # kind of what a notebook makes -> the folder that it is saved in


def check_upstream(run: str, tier: str, stage: str) -> None:
    """Raise ParameterError where a stage reads a run that has left nothing to read."""
    for other in stages.upstream(run, tier, stage):
        saved = [
            runs() / tier / other / MADE[kind]
            for kind in graph.about(other)["makes"]
            if kind in MADE
        ]
        needed = saved or [graph.outputs(other, tier)["manifest"]]
        missing = [path for path in needed if not path.exists()]
        if missing:
            fix = f"run python -m hs2lib.run --tier {tier} {other} first"
            raise ParameterError(
                f"stage {stage} of {run} reads {other}, and there is no {missing[0]}: {fix}"
            )


def check_files(names: list[str], tier: str) -> None:
    """Have the data doctor read every file of your own that these notebooks name; what it says is
    printed.

    Raises ParameterError for a file at which a notebook would stop.
    """
    codes: dict[tuple[str, str], int] = {}
    for name in names:
        _, values, recipe = graph.resolved(name, tier)
        known = (vars(recipe) if recipe else {}) | values
        if path := known.get("path"):
            own = "ratings" in (known.get("dataset"), known.get("also"))  # 03 reads two sets
            asked = path, "ratings" if own else known.get("dataset", "pairs")
            if asked not in codes:  # the doctor's room is not for us to import
                command = [sys.executable, "-m", "hs2lib.data.check", path, "--as", asked[1]]
                codes[asked] = subprocess.run(
                    command, stdout=2, cwd=root() / "notebooks"
                ).returncode  # as a kernel
            if codes[asked] and (codes[asked] != 1 or known.get("strict", True)):
                raise ParameterError(
                    f"{path} cannot be read as it is (above), and nothing was run: {name} needs it"
                )


def snakemake(
    names: list[str], tier: str, cores: int, extra: list[str], locks: list[TextIO]
) -> int:
    """Let Snakemake run `names` at `tier`, each after what it needs; returns its exit status.

    What is stale is decided by `why_stale` alone, and the folder is locked by us: Snakemake's own
    times, metadata and locks, which a killed run leaves behind, count for nothing.
    """
    logs = {
        name: runs() / tier / name / "log.txt" for name in names
    }  # what a job says, as the Snakefile has it
    for file in logs.values():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.unlink(missing_ok=True)
    command = [sys.executable, "-m", "snakemake"]
    command += [
        "--snakefile",
        str(root() / "Snakefile"),
        "--directory",
        str(runs()),
        "--cores",
        str(cores),
    ]
    command += [
        "--forceall",
        "--nolock",
        "--ignore-incomplete",
        "--keep-going",
        "--quiet",
        "all",
        *extra,
    ]
    command += ["--config", f"tier={tier}", f"notebooks={','.join(names)}", f"cores={cores}"]
    log = runs() / "snakemake.log"
    with log.open("w") as output:  # who gives it options wants to see what it says
        code = processes.run(command, locks, stdout=2, stderr=2 if extra else output)
    if code:
        left = [name for name in names if not graph.outputs(name, tier)["stamp"].exists()]
        failed = {f"{tier} {name}": logs[name] for name in left if logs[name].exists()} or {
            "Snakemake": log
        }
        for name, file in failed.items():
            print(f"error: {name} failed; {end_of(file)}", file=sys.stderr)
        if waiting := [name for name in left if not logs[name].exists()]:
            print(f"not run: {', '.join(waiting)}", file=sys.stderr)
    return code


def end_of(log: Path, lines: int = 4, width: int = 200) -> str:
    """The name of a log and its last lines, made safe to print: they may hold texts of data and of models."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", log.read_text(errors="replace"))
    last = []
    for line in [line for line in text.splitlines() if line.strip()][-lines:]:
        shown = "".join(
            c if c.isprintable() else ascii(c)[1:-1] for c in line[: 2 * width].expandtabs()
        )
        last.append(shown if len(shown) <= width else f"{shown[:width]} ..")
    if text.endswith("DeadKernelError: Kernel died\n"):
        last.append(
            "it was killed: most often memory ran out, so take a smaller model, batch or recipe.budget"
        )
    free = shutil.disk_usage(log.parent).free / 2**20
    nothing = f"(nothing: it was killed, or the disk is full; {free:.0f} MB are free)"
    return "\n    ".join([f"the end of {log}:", *(last or [nothing])])


def states(names: list[str], tier: str, *, verify: bool = False) -> int:
    """Say of each run whether it is current or why not; 0.

    verify: then all that has changed or is missing, every file hashed anew; 1 where anything is.
    """
    known: dict[str, graph.State] = {}
    for name in names:
        judged = graph.state(name, tier, known, again=verify)
        print(
            "\n  ".join(
                [f"{tier} {name}: {judged.why or 'current'}", *(judged.changes if verify else ())]
            )
        )
    return int(verify and any(known[name].why for name in names))


def settable(run: str) -> dict[str, parameters.Parameter]:
    """What the run's notebook has: its parameters by name, then further settings of its recipe as recipe.name."""
    known = specification(notebook_path(run))
    more = settings(known["recipe"].recipe) if "recipe" in known else {}
    own = {name: p for name, p in known.items() if name not in ("recipe", "tier")}
    return own | {f"recipe.{name}": p for name, p in more.items() if name not in known}


def listed(run: str, tier: str) -> str:
    """A page: what a named run reads, each parameter with its value, then the settings of the whole recipe."""
    _, values, recipe = graph.resolved(run, tier)
    lines = [
        f"{run} reads {', '.join(graph.upstream(run, tier)) or 'no other run'}"
        if "@" in run
        else run
    ]
    for name, p in settable(run).items():
        value = values[name] if name in values else getattr(recipe, p.name)
        lines.append(
            f"  {name}: {p.type.__name__} = {value!r}  # {'; '.join(filter(None, [p.help, p.limits]))}"
        )
    return "\n".join(lines)


def define_runs(
    names: list[str],
    tier: str,
    words: list[str],
    reads: list[str],
    undo: contextlib.ExitStack | None = None,
) -> None:
    """Define these named runs: each takes the `name=value` that its notebook has, and reads what it
    needs of `reads`.

    Those of one name read each other, where `reads` does not say otherwise. undo: learns how to
    take all that back, should what comes after refuse the runs. Raises ParameterError for what none
    of them takes, and for a notebook's own run, whose parameters are the tier's; nothing is defined
    then.
    """
    if own := [name for name in names if "@" not in name]:
        raise ParameterError(
            f"{own[0]} at tier {tier} has the tier's parameters: name a run of your own, --name mine"
        )
    if bare := [word for word in words if "=" not in word]:
        raise ParameterError(f"-p {bare[0]}: write -p {bare[0]}=value")
    others = graph.matching(reads)
    unused, plans = {*words, *others}, []
    for run in names:
        known, values = settable(run), {}
        for word in words:
            name, _, text = word.partition("=")
            if name in known:
                into = values.setdefault("recipe", {}) if name.startswith("recipe.") else values
                into[known[name].name] = parameters.typed(text, known[name])
                unused.discard(word)
        needed = graph.upstream(
            run, tier, graph.resolved(run, tier, (values, [], f"-p of {run}"))[1:], []
        )
        same = [
            other
            for other in graph.named_runs(tier)
            if other.partition("@")[2] == run.partition("@")[2]
        ]
        mine = {
            other.partition("@")[0]: other for other in [*same, *names, *others]
        }  # the last one counts
        mine = [other for notebook, other in sorted(mine.items()) if notebook in needed]
        unused -= set(mine)
        plans.append((run, tier, values, mine))
    for word in sorted(unused):
        if word in others:
            raise ParameterError(f"--reads {word}: none of {', '.join(names)} needs it")
        parameters.check(
            {word.partition("=")[0]: ""}, settable(names[0]), "-p"
        )  # raises: the name is unknown
    for plan in plans:
        file = runs() / tier / plan[0] / "run.yaml"
        if undo:
            undo.callback(_restore, file, file.read_bytes() if file.exists() else None)
        graph.define(*plan)


def _restore(file: Path, content: bytes | None) -> None:
    """Put back what defined a named run before a command that was refused; None: nothing did."""
    if content is not None:
        write(file, content)
    elif file.exists():
        file.unlink()
        with contextlib.suppress(OSError):  # the run has left something in its folder
            file.parent.rmdir()


def main(arguments: list[str] | None = None) -> int:
    """Command line: `python -m hs2lib.run [--tier TIER] [NOTEBOOK ...]`."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    what = "Bring notebooks up to date at a tier: parameters checked first, then Snakemake and papermill."
    more = "Options after -- go to Snakemake: -- --workflow-profile profiles/slurm. Runs of your own: docs/guide.md."
    parser = argparse.ArgumentParser(prog="python -m hs2lib.run", description=what, epilog=more)
    add, many = parser.add_argument, {"action": "append", "default": []}
    add(
        "notebook", nargs="*", help="names or numbers (01), or named runs (01@mine); all by default"
    )
    add("--tier", choices=list(graph.TIERS), default="smoke", help="which tier (default: smoke)")
    add(
        "--name",
        default="",
        help="define and run the notebooks under this name, beside their own runs",
    )
    add("-p", "--set", metavar="NAME=VALUE", help="a parameter of the named runs", **many)
    add("--reads", metavar="RUN", help="a named run to read from, as 05@mine", **many)
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
    split = words.index("--") if "--" in words else len(words)
    args = parser.parse_args(words[:split])
    if min(args.cores, args.seeds) < 1:
        parser.error(f"--cores and --seeds are at least 1, got {args.cores} and {args.seeds}")
    kept = os.environ.get(KEPT)
    try:
        return _run(args, args.tier, words[split + 1 :])
    except (OSError, ParameterError, ImportError, MadeByOtherCode) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    finally:
        os.environ.pop(KEPT, None)
        if kept is not None:
            os.environ[KEPT] = kept


def _run(args: argparse.Namespace, tier: str, extra: list[str]) -> int:
    """What the command line asks for. Returns the exit status; raises before anything runs, and then defines no run."""
    if args.compare:
        from hs2lib.launch import (
            compare,
        )  # here: pandas takes a second, and other commands do without

        return compare.main(tier, args.notebook, strict=args.strict)
    own = (
        [f"{name}@{args.name}" for name in args.notebook or graph.notebooks()]
        if args.name
        else args.notebook
    )
    names = graph.matching(
        own or [*graph.notebooks(), *(graph.named_runs(tier) if args.list or args.verify else [])]
    )
    todo, locks = [], []
    with contextlib.ExitStack() as undo:
        if args.set or args.reads:
            define_runs(names, tier, args.set, args.reads, undo)
        names = [graph.of_seed(name, more) for name in names for more in range(args.seeds)]
        needed = graph.with_upstream(names, tier)
        names = [name for name in needed if name in names]
        for name in needed:  # every file is checked before anything runs
            graph.resolved(name, tier)
        if not (args.list or args.verify or args.parameters):
            todo, locks = _prepared(args, tier, names, needed)
        undo.pop_all()  # nothing was refused: named runs stay defined
    if args.list or args.verify:
        return states(names, tier, verify=args.verify)
    if args.parameters:
        print(*(listed(name, tier) for name in names), sep="\n")
        return 0
    if args.stage:
        for name in todo:
            stages.compute(name, tier, args.stage)
        return 0
    if args.execute:
        for name in todo:
            execute(name, tier, locks)
        return 0
    if todo:
        return snakemake(todo, tier, args.cores, extra, locks)
    print(f"{tier}: all current, nothing to run", file=sys.stderr)
    return 0


def _prepared(
    args: argparse.Namespace, tier: str, names: list[str], needed: list[str]
) -> tuple[list[str], list[TextIO]]:
    """The runs to run now, and the locks to keep meanwhile. Raises for all that can be refused before they run."""
    if args.stream:
        os.environ["HS2_STREAM"] = "1"  # for the jobs too
    asked = "again" if tier in graph.SMALL_WORLD else "ask"  # a job of the runner has it from there
    os.environ[KEPT] = "reuse" if args.reuse else os.environ.get(KEPT) or asked
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
