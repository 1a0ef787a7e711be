"""`hs2`: run notebooks, say what would run again, check and score files, compare and publish.

hs2 run 08 --tier demo --name low-beta -p beta=.3
hs2 run 08 --tier demo --grid beta=.1,.3,1 --seeds 2
hs2 list --tier demo
"""

import argparse
import contextlib
import importlib.util
import os
import sys
from collections.abc import Callable

from hs2lib import rehearsal
from hs2lib.commands import named, refusals
from hs2lib.paths import reports, runs
from hs2lib.runs import cells, graph, key, lock
from hs2lib.runs.parameters import ParameterError

Handler = Callable[[argparse.Namespace, list[str]], int]


def parser() -> argparse.ArgumentParser:
    """The words of the command line."""
    top = argparse.ArgumentParser(prog="hs2", description="HelpSteer2 as notebooks.")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_run(commands)
    add = _command(commands, "list", list_runs, "say what would run again and why, run nothing")
    _add_names(add)
    add = _command(commands, "parameters", parameters, "list every parameter and setting of a run")
    _add_names(add)
    _add_definition(add)
    # These read their own words.
    for name, what in (
        ("check", "read a file of your own, and say what is wrong in it"),
        ("score", "score a file of responses by a reward model"),
        ("compare", "set your reports beside the published ones"),
        ("publish", "copy your reports to reports/published, which git tracks"),
    ):
        commands.add_parser(name, help=what, add_help=False)
    return top


def _command(
    commands: argparse._SubParsersAction, name: str, handler: Handler, what: str, **options: str
) -> Callable[..., argparse.Action]:
    """Add a command; returns what adds its words."""
    command = commands.add_parser(name, help=what, description=f"{what}.".capitalize(), **options)
    command.set_defaults(handler=handler)
    return command.add_argument


def _add_names(add: Callable[..., argparse.Action]) -> None:
    """The words that most commands have."""
    add("run", nargs="*", help="numbers or names (01), or named runs (01@mine); all by default")
    add("--tier", choices=list(graph.TIERS), default="smoke", help="which tier (default: smoke)")


def _add_definition(add: Callable[..., argparse.Action]) -> None:
    """The words that define named runs."""
    add("--name", default="", help="give the runs this name: they stand beside the tier's own")
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
        help="of your own ratings: the lowest and the highest, as 1-5 or clarity:1-5,score:0-1 "
        "(default: 0-4)",
    )
    add(
        "--columns",
        metavar="OURS=THEIRS,..",
        default="",
        help="of your own file: columns under other names, as prompt=question,chosen=good",
    )
    add(
        "--seeds",
        metavar="N",
        type=_at_least_one,
        default=1,
        help="so many seeds of each run and of all that it reads: @seed-1 ..",
    )


def _add_run(commands: argparse._SubParsersAction) -> None:
    """The command `run`."""
    add = _command(
        commands,
        "run",
        run,
        "bring runs up to date: parameters are checked, Snakemake decides, papermill draws",
        epilog="Options after -- go to Snakemake: -- --workflow-profile profiles/slurm.",
    )
    _add_names(add)
    _add_definition(add)
    add(
        "--grid",
        metavar="NAME=V1,V2",
        action="append",
        default=[],
        help="a run for each value, with a table and a figure; `searched`: the paper's values",
    )
    add("--cores", type=_at_least_one, default=os.cpu_count(), help="jobs at a time (default: all)")
    add(
        "--rehearse",
        choices=("real", "tiny"),
        nargs="?",
        const="real",
        help="do a little of each run, say what it would take, and leave only a page; "
        "tiny: with a tiny model on generated text",
    )
    add(
        "--stage",
        choices=list(cells.STAGES),
        help="execute only the cells with this tag, now, in this process; torchrun may start it",
    )
    add(
        "--stream",
        action="store_true",
        help="each process of a stage reads its share of the weights (with fsdp)",
    )


def _at_least_one(text: str) -> int:
    """A whole number from 1 on."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"at least 1, got {text}")
    return number


def main(arguments: list[str] | None = None) -> int:
    """The command line; returns the exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words and words[0] in PASSED_ON:
        return PASSED_ON[words[0]](words[1:])
    split = words.index("--") if "--" in words else len(words)
    args = parser().parse_args(words[:split])
    args.words = words
    try:
        return args.handler(args, words[split + 1 :])
    except BrokenPipeError:  # who reads the output has read enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (OSError, ParameterError, ImportError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"\nstopped. {_how_to_go_on(words)}", file=sys.stderr)
        return 130


def _how_to_go_on(words: list[str]) -> str:
    """What is kept of a command that was interrupted, and how it goes on."""
    return (
        "Kept: every finished run, and of a training all up to its last checkpoint. "
        f"To go on: hs2 {' '.join(words)}"
    )


# Commands that read their own words. Their modules take seconds to import.


def _check(words: list[str]) -> int:
    from hs2lib.data import check

    return check.main(words)


def _score(words: list[str]) -> int:
    from hs2lib.score.__main__ import main as score

    return score(words)


def _compare(words: list[str]) -> int:
    from hs2lib.commands import compare

    return compare.main(words)


def _publish(words: list[str]) -> int:
    from hs2lib.commands import publish

    return publish.main(words)


PASSED_ON = {"check": _check, "score": _score, "compare": _compare, "publish": _publish}


# Runs.


def run(args: argparse.Namespace, extra: list[str]) -> int:
    """`hs2 run`: define and check the runs, then let Snakemake run what is to run again.

    Args:
        args: the words before `--`.
        extra: the words after it, options of Snakemake.

    Returns:
        The exit status.

    Raises:
        ParameterError: something is refused; then nothing was run, and no run is defined.
    """
    if args.stream:
        os.environ["HS2_STREAM"] = "1"  # for the jobs too
    if args.rehearse:
        return _rehearsed(args, extra)
    if importlib.util.find_spec("papermill") is None:
        raise ParameterError("notebooks need more packages: pip install 'hs2lib[notebooks]'")
    inside = lock.INSIDE in os.environ
    locked = None if inside else lock.hold(runs(), shared=bool(args.stage))
    with contextlib.ExitStack() as undo:
        names, searched = _defined(args, undo)
        needed = graph.with_upstream(names, args.tier)
        _check_values(needed, args.tier)
        if args.stage:
            refusals.check_folder(names, args.tier)
            for name in names:
                cells.check(name, args.stage)
                refusals.check_upstream(name, args.tier, args.stage)
        else:
            _refreshed(names, needed, args.tier)
        undo.pop_all()  # nothing was refused: named runs stay defined
    if args.stage:
        from hs2lib.runs import jobs

        for name in names:
            jobs.stage(name, args.tier, args.stage)
        return 0
    from hs2lib.commands import watch

    reports().mkdir(parents=True, exist_ok=True)
    status = watch.snakemake(names, args.tier, args.cores, extra, locked)
    for name in names:
        print(named.classifier_in_words(name, args.tier), end="", file=sys.stderr)
        file = reports() / args.tier / name / f"{name}.ipynb"
        if args.name and not status and file.exists() and not rehearsal.on():
            print(f"Report: {os.path.relpath(file)}", file=sys.stderr)
    if not args.run and not args.name and not status:
        from hs2lib.commands import summary

        print(summary.screen(args.tier))
    if searched and not status:
        from hs2lib.commands import grid

        print(grid.report(searched, args.tier), file=sys.stderr)
    return status


def _rehearsed(args: argparse.Namespace, extra: list[str]) -> int:
    """`hs2 run --rehearse`: the same runs in a folder of their own, which goes again."""
    from hs2lib.commands import rehearse

    with contextlib.ExitStack() as undo:  # what it defines is defined anew in that folder
        names, _ = _defined(args, undo)
        needed = graph.with_upstream(names, args.tier)
        if args.rehearse == "real":
            rehearse.refuse_paid_judges(needed, args.tier)
    words = rehearse.without_rehearse(args.words)
    return rehearse.rehearse(words, names, args.tier, tiny=args.rehearse == "tiny")


def _check_values(needed: list[str], tier: str) -> None:
    """Raise ParameterError where a file of values has a fault, or runs do not fit together."""
    for name in needed:
        graph.resolved(name, tier)
        refusals.check_weighting(name, tier)


def _refreshed(asked: list[str], needed: list[str], tier: str) -> None:
    """Write the keys of runs anew, and refuse what could not be read of those to run again.

    Args:
        asked: the runs that are to have a report.
        needed: these, and all that they read.
        tier: of all of them.
    """
    known: dict[str, bool] = {}
    again = [name for name in needed if key.computes_again(name, tier, known)]
    again += [name for name in asked if name not in again and key.why(name, tier, known)]
    refusals.check_folder(again, tier)
    refusals.check_files(again, tier)
    for name in needed:
        key.refresh(name, tier)
    if not again:
        print(f"{tier}: all current, nothing to run", file=sys.stderr)


def _defined(args: argparse.Namespace, undo: contextlib.ExitStack) -> tuple[list[str], list]:
    """Define the named runs of a command line.

    Args:
        args: the command line.
        undo: learns how to take that back, should what comes after refuse the runs.

    Returns:
        The runs that it names with their seeds, and of a search the points (`grid.points`).
    """
    tier = args.tier
    searched: list = []
    if getattr(args, "grid", None):
        from hs2lib.commands import grid

        searched = grid.define(args, undo)
        names = [run for point in searched for run in point.runs]
    else:
        names = _asked_for(args)
        words = [*args.set, *named.own_file_words(args, names)]
        if words or args.reads:
            named.define_runs(names, tier, words, args.reads, undo)
        elif args.name:
            named.follow(names, tier, undo)
        names = [graph.of_seed(name, more) for name in names for more in range(args.seeds)]
    needed = graph.with_upstream(names, tier)
    return [name for name in needed if name in names], searched


def _asked_for(args: argparse.Namespace) -> list[str]:
    """Full names of the runs that the command line names; of all notebooks where it names none."""
    typed = args.run or graph.notebooks()
    if args.name:
        return graph.matching([f"{name}@{args.name}" for name in typed])
    return graph.matching(typed)


def list_runs(args: argparse.Namespace, extra: list[str]) -> int:
    """`hs2 list`: print of each run whether it is current, or why `hs2 run` would run it again."""
    names = graph.matching(args.run) if args.run else graph.notebooks()
    if not args.run:
        names = sorted([*names, *graph.named_runs(args.tier)])
    known: dict[str, bool] = {}
    for name in names:
        print(f"{args.tier} {name}: {key.why(name, args.tier, known) or 'current'}")
    return 0


def parameters(args: argparse.Namespace, extra: list[str]) -> int:
    """`hs2 parameters`: print each parameter and setting of runs, with its value and its range."""
    with contextlib.ExitStack() as undo:
        names, _ = _defined(args, undo)
        _check_values(graph.with_upstream(names, args.tier), args.tier)
        print("\n".join([named.listed(name, args.tier) for name in names]))
        undo.pop_all()  # named runs stay defined: a stage of one can then be started
    return 0


if __name__ == "__main__":
    sys.exit(main())
