"""Named runs from the command line: what defines one, what it reads, and what can be set of it."""

import argparse
import contextlib
import os
import sys
from pathlib import Path

from hs2lib.names import OWN_PAIRS
from hs2lib.paths import notebook as notebook_path
from hs2lib.paths import root, runs, write
from hs2lib.runs import graph, key, parameters
from hs2lib.runs.parameters import ParameterError, settings, specification

MEASURES_PAIRS = "06_rewardbench_evaluation"


def define_runs(
    names: list[str],
    tier: str,
    words: list[str],
    reads: list[str],
    undo: contextlib.ExitStack,
) -> None:
    """Define these named runs.

    Each takes the words that its notebook has, and reads what it needs of `reads`, or else of the
    runs that have its own name.

    Args:
        names: named runs, each after what it needs.
        tier: one of `graph.TIERS`.
        words: `name=value` each.
        reads: runs to read, as a user types them.
        undo: learns how to take all that back, should this or what comes after refuse the runs.

    Raises:
        ParameterError: none of the runs takes a word or a read, or one is a notebook's own run,
            whose parameters are the tier's.
    """
    _check_words(names, tier, words)
    others = graph.matching(reads)
    unread = set(others)
    for run in names:
        values = _with_own_file(run, tier, _values_of(run, names, words))
        run_reads = _reads_of(run, tier, values, names, others)
        unread -= set(run_reads)
        _define(run, tier, values, run_reads, undo)
    if unread:
        raise ParameterError(f"--reads {min(unread)}: none of {', '.join(names)} needs it")


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
            reads = _reads_of(run, tier, {}, names, [])
            if reads:
                _define(run, tier, {}, reads, undo)
                print(f"{run} reads {', '.join(reads)}", file=sys.stderr)


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


def own_file_words(args: argparse.Namespace, names: list[str]) -> list[str]:
    """What `--scale` and `--columns` set, as words of -p: parameters or settings, by notebook."""
    known = {name for run in names for name in settable(run)}
    words = []
    for option in ("scale", "columns"):
        value = getattr(args, option)
        if not value:
            continue
        placed = [f"{name}={value}" for name in (option, f"recipe.{option}") if name in known]
        if not placed:
            raise ParameterError(
                f"--{option} {value}: {', '.join(names)} read no such file of your own"
            )
        words += placed
    return words


def classifier_in_words(run: str, tier: str) -> str:
    """Where a complete run left a classifier, and what scores with it.

    "" where it left none: only a reward model of one's own rows is written as a classifier.
    """
    folder = runs() / tier / run / "classifier"
    if not folder.is_dir() or not key.result(run, tier, key.COMPUTE).exists():
        return ""
    script = os.path.relpath(folder / "use.py")
    return f"A transformers classifier: python {script} scores with it\n"


# What defines a run.


def _check_words(names: list[str], tier: str, words: list[str]) -> None:
    """Raise ParameterError for a run without a name, and for a word that none of the runs takes."""
    for run in names:
        if "@" not in run:
            raise ParameterError(
                f"{run} at tier {tier} has the tier's parameters: "
                "name a run of your own, --name mine"
            )
    known = {name: p for run in names for name, p in settable(run).items()}
    for word in words:
        name, is_given, _ = word.partition("=")
        if not is_given:
            raise ParameterError(f"-p {word}: write -p {word}=value")
        if name not in known:
            parameters.check({name: ""}, known, "-p")  # raises, and names the nearest one


def _values_of(run: str, names: list[str], words: list[str]) -> dict:
    """Those of the words that a run takes, as parameters, and as settings under "recipe".

    06 does not take the file on which the same command trains a reward model: it measures on the
    rows that the training leaves.
    """
    known = settable(run)
    typed = dict(word.split("=", 1) for word in words)
    trains = [other for other in names if "reward_model" in graph.about(other)["makes"]]
    if "path" in typed and trains and _measures_pairs(run):
        print(
            f"{run} measures on the rows that {trains[0]} holds out; "
            "on pairs of your own it runs by itself, with -p path=pairs.csv",
            file=sys.stderr,
        )
        typed = {name: text for name, text in typed.items() if name not in ("path", "source")}
    values: dict = {}
    for name, text in typed.items():
        if name not in known:
            continue
        value = parameters.typed(text, known[name])
        if name.startswith("recipe."):
            values.setdefault("recipe", {})[known[name].name] = value
        else:
            values[name] = value
    return values


def _with_own_file(run: str, tier: str, values: dict) -> dict:
    """The values of a run with what its file of one's own is; what was found is printed.

    That is found where a path is named, and neither the data set nor its source.
    """
    if not values.get("path"):
        return values
    values = values | {"path": _from_notebooks(values["path"])}
    known = settable(run)
    if "dataset" not in known or {"dataset", "source"} & values.keys():
        return values
    # Here, because torch takes seconds, and most commands do without.
    from hs2lib.commands import own_file

    settled = own_file.settle(run, tier, values, known)
    print("\n".join(settled.sentences), file=sys.stderr, flush=True)
    return settled.values


def _from_notebooks(path: str) -> str:
    """A path that holds from the folder of the notebooks too.

    A file of the current folder is named from the checkout, or whole where it lies elsewhere.
    """
    if not os.path.isfile(path):
        return path
    file = Path(path).resolve()
    checkout = root().resolve()
    if file.is_relative_to(checkout):
        return file.relative_to(checkout).as_posix()
    return str(file)


def _reads_of(run: str, tier: str, values: dict, names: list[str], others: list[str]) -> list[str]:
    """The runs that a named run with these values reads in place of notebooks' own.

    Of each notebook that it needs that is the one of `others`, else the run of its own name: one of
    `names`, which the command defines, or one that exists. A run that was begun and did not end is
    no run to read.
    """
    _, whole_values, recipe = graph.resolved(run, tier, (values, [], f"-p of {run}"))
    label = run.partition("@")[2]
    other_of = {other.partition("@")[0]: other for other in others}
    existing = graph.named_runs(tier)
    reads = []
    for notebook in graph.upstream(run, tier, (whole_values, recipe), []):
        same_name = f"{notebook}@{label}"
        if notebook in other_of:
            reads.append(other_of[notebook])
        elif same_name in names:
            reads.append(same_name)
        elif same_name in existing and _did_not_end(same_name, tier):
            print(
                f"{run} does not read {same_name}, which was begun and did not end: "
                f"run {same_name} again first, or say --reads {same_name}",
                file=sys.stderr,
            )
        elif same_name in existing:
            reads.append(same_name)
    return reads


def _did_not_end(run: str, tier: str) -> bool:
    """Whether a run was begun, and has not ended since."""
    begun = (runs() / tier / run / f"{key.jobs_of(run)[0]}.log").exists()
    return begun and not key.result(run, tier, key.COMPUTE).exists()


def _define(
    run: str, tier: str, values: dict, reads: list[str], undo: contextlib.ExitStack
) -> None:
    """Define one named run, so that `undo` can take it back."""
    if _measures_pairs(run) and not {"path", "source", "model"} & values.keys():
        # A tier of real data names a benchmark, and weights of its own model. They give way to the
        # rows that a training on a file of one's own held out.
        for other in reads:
            if graph.definition(other, tier)[0].get("dataset") in ("ratings", OWN_PAIRS):
                values = {"source": "postcards", "weighting": ""} | values
    file = runs() / tier / run / "run.yaml"
    undo.callback(_restore, file, file.read_bytes() if file.exists() else None)
    graph.define(run, tier, values, reads)


def _measures_pairs(run: str) -> bool:
    """Whether a run is one of notebook 06, which measures a reward model on pairs."""
    return run.partition("@")[0] == MEASURES_PAIRS


def _restore(file: Path, content: bytes | None) -> None:
    """Put back what defined a named run before a command that was refused; None: nothing did."""
    if content is not None:
        write(file, content)
        return
    file.unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # the run has left something in its folder
        file.parent.rmdir()
