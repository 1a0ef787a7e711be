"""Named runs from the command line: what defines one, what it reads, and what can be set of it."""

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
    from hs2lib.commands import own_file

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
    job = key.jobs_of(run)[0]
    begun = (runs() / tier / run / f"{job}.log").exists()
    return begun and not key.result(run, tier, key.COMPUTE).exists()


def _restore(file: Path, content: bytes | None) -> None:
    """Put back what defined a named run before a command that was refused; None: nothing did."""
    if content is not None:
        write(file, content)
    elif file.exists():
        file.unlink()
        with contextlib.suppress(OSError):  # the run has left something in its folder
            file.parent.rmdir()


def scale_words(scale: str, names: list[str]) -> list[str]:
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


def classifier_in_words(run: str, tier: str) -> str:
    """Where a complete run left a classifier, what it is worth, and how it is loaded.

    "" where it left none: only a reward model of one's own rows is written as a classifier.
    """
    folder = runs() / tier / run / "classifier"
    if not folder.is_dir() or not key.result(run, tier, key.COMPUTE).exists():
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
