"""Run notebooks from the command line: what is stale, each after what it needs, by Snakemake and papermill.

`hs2lib.run.graph` says which runs there are and judges which are stale; the Snakefile runs those and no others.
"""

import argparse
import difflib
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TextIO

import nbformat

from hs2lib.paths import RUN, hide, public, reports, root, runs, write
from hs2lib.paths import notebook as notebook_path
from hs2lib.run import processes
from hs2lib.run.graph import (
    RECORD,
    SMALL_WORLD,
    TIERS,
    changes,
    chosen,
    define,
    matching,
    named_runs,
    notebooks,
    one,
    outputs,
    reading,
    resolved,
    stamp,
    upstream,
    why_stale,
    with_upstream,
)
from hs2lib.run.parameters import ParameterError, resolve, settings, specification, typed, whole_recipe


def doubled(text: str) -> str:
    """Text with its braces doubled, for Snakemake and papermill, which fill in what stands between single ones."""
    return text.replace("{", "{{").replace("}", "}}")


def execute(run: str, tier: str, locks: list[TextIO]) -> None:
    """Run one notebook, or a named run of it, with papermill, then put its executed copy in place and, last, the stamp.

    locks: files that its kernel keeps open, as `processes.hold` gives them. Raises papermill's PapermillExecutionError
    with the failing cell; the partial copy stays in the run folder.
    """
    import papermill
    from jupyter_client.manager import AsyncKernelManager

    class OwnedKernel(AsyncKernelManager):
        async def start_kernel(self, **options):
            await super().start_kernel(**options, **processes.owned(locks))

    made, began = outputs(run, tier), time.time()
    values = resolved(run, tier)[1]
    hide(values)
    os.environ[RUN] = reading(run, tier)
    print(f"{tier} {run} ...", flush=True)
    for name in ("stamp.json", RECORD):
        made["stamp"].with_name(name).unlink(missing_ok=True)
    if tier in SMALL_WORLD and os.environ.get("HS2_DEVICE") != "cuda":
        os.environ["CUDA_VISIBLE_DEVICES"] = ""  # the same numbers on every machine
    partial = made["stamp"].with_name("executed.ipynb")
    partial.parent.mkdir(parents=True, exist_ok=True)
    # On a busy machine a kernel takes longer than papermill's 60 s to start; every kernel would warn of loopback.
    options = {"start_timeout": 600, "extra_arguments": ["--IPKernelApp.log_level=40"]}
    options |= {"kernel_name": "python3", "progress_bar": sys.stderr.isatty(), "kernel_manager_class": OwnedKernel}
    source, target = (doubled(str(path)) for path in (notebook_path(run), partial))
    papermill.execute_notebook(source, target, values, cwd=root() / "notebooks", **options)
    if not made["stamp"].with_name(RECORD).exists():
        raise RuntimeError(f"{run} ended without run.finish(): no manifest in {made['manifest'].parent}")
    done = nbformat.read(partial, 4)
    for part in (done, *done.cells):  # times and paths of this machine; the manifest holds what matters
        for name in ("papermill", "execution", "widgets"):
            part.metadata.pop(name, None)
    write(made["notebook"], public(nbformat.writes(done)) + "\n")  # warnings name files
    partial.unlink()
    stamp(run, tier)
    print(f"{tier} {run} done in {time.time() - began:.0f} s", flush=True)


def check_files(names: list[str], tier: str) -> None:
    """Have the data doctor read every file of your own that these notebooks name; what it says is printed.

    Raises ParameterError for a file at which a notebook would stop.
    """
    asked = {}
    for name in names:
        _, values, recipe = resolved(name, tier)
        if path := values.get("path") or getattr(recipe, "path", ""):
            strict = values.get("strict", getattr(recipe, "strict", True))
            asked.setdefault((path, values.get("dataset", "pairs")), []).append((name, strict))
    for (path, kind), readers in asked.items():
        command = [sys.executable, "-m", "hs2lib.data.check", path, "--as", kind]  # its room is not for us to import
        code = subprocess.run(command, stdout=2).returncode
        if code and (stopped := [name for name, strict in readers if strict or code == 2]):
            raise ParameterError(
                f"{path} cannot be read as it is (above), and nothing was run: {', '.join(stopped)} would stop at it"
            )


def snakemake(names: list[str], tier: str, cores: int, extra: list[str], locks: list[TextIO]) -> int:
    """Let Snakemake run `names` at `tier`, each after what it needs; returns its exit status.

    What is stale is decided by `why_stale` alone, and the folder is locked by us: Snakemake's own times, metadata and
    locks, which a killed run leaves behind, count for nothing.
    """
    check_files(names, tier)
    for name in names:
        _log(name, tier).parent.mkdir(parents=True, exist_ok=True)
        _log(name, tier).unlink(missing_ok=True)
    command = [sys.executable, "-m", "snakemake"]
    command += ["--snakefile", str(root() / "Snakefile"), "--directory", str(runs()), "--cores", str(cores)]
    command += ["--forceall", "--nolock", "--ignore-incomplete", "--keep-going", "--quiet", "all", *extra]
    command += ["--config", f"tier={tier}", f"notebooks={','.join(names)}", f"cores={cores}"]
    log = runs() / "snakemake.log"
    with log.open("w") as said:  # who gives it options wants to see what it says
        code = processes.run(command, locks, stdout=2, stderr=2 if extra else said)
    if code:
        left = [name for name in names if not outputs(name, tier)["stamp"].exists()]
        failed = [name for name in left if _log(name, tier).exists()]
        for name in failed:
            print(f"error: {tier} {name} failed; {end_of(_log(name, tier))}", file=sys.stderr)
        if waiting := [name for name in left if name not in failed]:
            print(f"not run: {', '.join(waiting)}", file=sys.stderr)
        if not failed:
            print(f"error: Snakemake failed; {end_of(log)}", file=sys.stderr)
    return code


def _log(notebook: str, tier: str) -> Path:
    """What a job says, as the Snakefile has it."""
    return runs() / tier / notebook / "log.txt"


def end_of(log: Path, lines: int = 4, width: int = 200) -> str:
    """The name of a log and its last lines, made safe to print: they may hold texts of data and of models."""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - 50_000_000))
        text = file.read().decode(errors="replace")
    last = []
    for line in [line for line in text.splitlines() if line.strip()][-lines:]:
        plain = re.sub(r"\x1b\[[0-9;]*m", "", line[: 2 * width]).expandtabs()
        shown = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in plain)
        last.append(shown if len(shown) <= width else f"{shown[:width]} ..")
    free = (
        f"(nothing: it was killed, or the disk is full; {shutil.disk_usage(log.parent).free / 2**20:.0f} MB are free)"
    )
    return "\n    ".join([f"the end of {log}:", *(last or [free])])


def status(tiers: list[str]) -> str:
    """A page: each tier, each run, and whether it is current or why not."""
    lines = []
    for tier in tiers:
        known: dict[str, str] = {}
        lines.append(f"{tier}: {TIERS[tier]}")
        for name in with_upstream(notebooks(), tier) + named_runs(tier):
            lines.append(f"  {name:32} {why_stale(name, tier, known) or 'current'}")
    return "\n".join(lines)


def verify(names: list[str], tier: str) -> int:
    """Say of each run all that has changed or is missing, every file hashed anew; 1 where anything is, else 0."""
    known: dict[str, str] = {}
    bad = 0
    for name in names:
        why = why_stale(name, tier, known)
        print(f"{tier} {name}: {why or 'current'}")
        found = changes(name, tier, again=True) if outputs(name, tier)["manifest"].exists() else []
        for change in found:
            print(f"  {change}")
        bad += bool(why or found)
    return int(bad > 0)


def listed(run: str, tier: str) -> str:
    """A page: what a named run reads, each parameter with its value, then the settings of the whole recipe."""
    known, values, recipe = resolved(run, tier)
    rows = [("  ", p, values[name]) for name, p in known.items() if not p.recipe]
    more = settings(type(recipe)) if recipe else {}
    rows += [("  recipe.", p, getattr(recipe, name)) for name, p in more.items() if name not in known]
    lines = [
        f"{indent}{p.name}: {p.type.__name__} = {value!r}  # {'; '.join(filter(None, [p.help, p.limits]))}"
        for indent, p, value in rows
    ]
    reads = f" reads {', '.join(upstream(run, tier)) or 'no other run'}" if "@" in run else ""
    return "\n".join([f"{run}{reads}", *lines])


def taken(run: str, words: list[str]) -> tuple[dict, set[str]]:
    """Of `name=text` and `recipe.name=text`, what the run's notebook has: its values, and the words they are from."""
    known, values, used = specification(notebook_path(run)), {}, set()
    fields = settings(known["recipe"].recipe) if "recipe" in known else {}
    for word in words:
        name, equals, text = word.partition("=")
        inner = name.removeprefix("recipe.")
        if not equals or name == "tier":
            raise ParameterError(f"-p {word}: write {'--tier ' + text if equals else '-p name=value'}")
        if inner == name and name in known:
            values[name] = typed(text, known[name])
            used.add(word)
        elif inner != name and inner in fields:
            values["recipe"] = values.get("recipe", {}) | {inner: typed(text, fields[inner])}
            used.add(word)
    return values, used


def define_runs(names: list[str], tier: str, words: list[str], reads: list[str]) -> None:
    """Define these named runs: each takes the `name=value` that its notebook has, and reads what it needs of `reads`.

    Those of one name read each other, where `reads` does not say otherwise. Raises ParameterError for what none of
    them takes, and for a notebook's own run, whose parameters are the tier's; nothing is defined then.
    """
    if own := [name for name in names if "@" not in name]:
        raise ParameterError(f"{own[0]} at tier {tier} has the tier's parameters: name a run of your own, --name mine")
    others, unused, plans = [one(name) for name in reads], {*words, *map(one, reads)}, []
    for run in names:
        values, used = taken(run, words)
        merged = resolve(notebook_path(run), tier, root() / "params", values, f"-p of {run}")
        recipe = whole_recipe(specification(notebook_path(run)), merged)
        needed = upstream(run, tier, (merged, recipe), [])
        same = [other for other in named_runs(tier) if other.partition("@")[2] == run.partition("@")[2]]
        mine = {other.partition("@")[0]: other for other in [*same, *names, *others]}  # the last one counts
        mine = [other for notebook, other in sorted(mine.items()) if notebook in needed]
        unused -= used | set(mine)
        plans.append((run, tier, values, mine))
    for word in sorted(unused):
        name = word.partition("=")[0]
        near = difflib.get_close_matches(name, specification(notebook_path(names[0])), 1, 0.0)
        none = f"-p {word}: no parameter {name!r} in {', '.join(names)}; nearest: {', '.join(near)}"
        raise ParameterError(none if word in words else f"--reads {word}: none of {', '.join(names)} needs it")
    for plan in plans:
        define(*plan)


def at_least_one(text: str) -> int:
    """A number of cores. Raises ArgumentTypeError for less than one."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"a number of at least 1, got {text!r}")
    return int(text)


def main(arguments: list[str] | None = None) -> int:
    """Command line: `python -m hs2lib.run [--tier TIER] [NOTEBOOK ...]`."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    known = ""
    if {"-h", "--help"} & set(words):  # it reads every notebook: not at the start of each job
        try:
            known = status(list(TIERS))
        except (ParameterError, ImportError, OSError) as error:
            known = f"(cannot read the notebooks: {error})"
    parser = argparse.ArgumentParser(
        prog="python -m hs2lib.run",
        description="Bring notebooks up to date at a tier: parameters checked first, then Snakemake and papermill.",
        epilog=f"Tiers, runs, and what is stale:\n\n{known}\n\nA run of your own has a name and folders of its own, "
        "as reports/demo/06_rewardbench_evaluation@mine:\n  python -m hs2lib.run --tier demo 06 --name mine -p "
        "model=owner/name -p recipe.folds=3\nIts definition may also lie in params/demo/"
        "06_rewardbench_evaluation@mine.yaml; then 06@mine names it.\n\nOptions after -- go to Snakemake "
        "(for example: -- --workflow-profile profiles/slurm).",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("notebook", nargs="*", help="names or numbers (01), or named runs (01@mine); all by default")
    parser.add_argument("--tier", choices=list(TIERS), default="smoke", help="which tier (default: smoke)")
    parser.add_argument("--name", default="", help="run the notebooks under this name, beside their own runs")
    parser.add_argument(
        "-p", "--set", metavar="NAME=VALUE", action="append", default=[], help="a parameter of the named runs"
    )
    parser.add_argument(
        "--reads", metavar="RUN", action="append", default=[], help="a named run to read from, as 05@mine"
    )
    parser.add_argument(
        "--cores", type=at_least_one, default=os.cpu_count(), help="notebooks at a time (default: all cores)"
    )
    parser.add_argument("--list", action="store_true", help="say what is stale and why, run nothing")
    parser.add_argument("--verify", action="store_true", help="say all that changed or is missing, run nothing")
    parser.add_argument("--parameters", action="store_true", help="list parameters and recipes, run nothing")
    parser.add_argument("--execute", action="store_true", help="run one notebook now, without Snakemake")
    split = words.index("--") if "--" in words else len(words)
    args = parser.parse_args(words[:split])
    try:
        typed_names = args.notebook or notebooks()
        if args.name:
            typed_names = [f"{name}@{args.name}" for name in typed_names]
        elif args.verify and not args.notebook:
            typed_names += named_runs(args.tier)
        names = matching(typed_names)
        if args.set or args.reads:
            define_runs(names, args.tier, args.set, args.reads)
        names = chosen(names, args.tier)
        for name in with_upstream(names, args.tier):  # every file is checked before anything runs
            resolved(name, args.tier)
        if args.list:
            print(status([args.tier]))
        elif args.verify:
            return verify(names, args.tier)
        elif args.parameters:
            for name in names:
                print(listed(name, args.tier))
        else:
            if args.execute and processes.PARENT in os.environ:
                processes.follow()
            else:
                os.environ.pop(processes.OWNER, None)
            locks = [processes.hold(folder) for folder in (runs(), reports() / args.tier)]
            if args.execute:
                for name in names:
                    execute(name, args.tier, locks)
                return 0
            known_stale: dict[str, str] = {}
            stale = [name for name in with_upstream(names, args.tier) if why_stale(name, args.tier, known_stale)]
            if stale:
                return snakemake(stale, args.tier, args.cores, words[split + 1 :], locks)
            print(f"{args.tier}: all current, nothing to run", file=sys.stderr)
    except (OSError, ParameterError, ImportError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
