"""Which runs there are, what each is called, which values it has, and what it reads.

A run is a notebook's own, `06_rewardbench_evaluation`, or a named one beside it,
`06_rewardbench_evaluation@mine`, with parameters of its own. A named run is defined by
`params/<tier>/<run>.yaml`, or by `runs/<tier>/<run>/run.yaml`, which the command line writes. The
key `reads` of that file names runs to read in place of a notebook's own: `reads: [05@mine]`. A
tier's own file may have it too: it then holds for all runs of the notebook that name none. No file
defines `06@seed-1` and `06@mine-seed-1`. They are 06 and 06@mine with a seed one higher, and
all runs that they read have a seed one higher too.
"""

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import yaml

from hs2lib import paths, rehearsal
from hs2lib.names import REAL
from hs2lib.paths import RUN, read_json, reports, root, runs, write
from hs2lib.paths import notebook as notebook_path
from hs2lib.runs.parameters import (
    READS,
    Parameter,
    ParameterError,
    read_values,
    resolve,
    settings,
    specification,
    whole_recipe,
)

# Tiers of generated data: on the CPU, unless HS2_DEVICE=cuda asks for a GPU.
SMALL_WORLD = ("smoke", "demo")

TIERS: dict[str, str] = paths.read_yaml(__file__, "tiers.yaml")

# A second thread makes these bases no faster.
SMALL_BASES = ("postcards", "postcards-none", "tiny")

BY_HAND = "by-hand"  # the name of a report that no runner asked for


def unseen(tier: str) -> dict[str, str]:
    """The variable that hides GPUs at the tiers of generated data; {} at the others.

    Without a GPU these tiers give the same numbers on every machine. HS2_DEVICE=cuda asks for a GPU
    all the same: then {}.
    """
    if tier in SMALL_WORLD and os.environ.get("HS2_DEVICE") != "cuda":
        return {"CUDA_VISIBLE_DEVICES": ""}
    return {}


def notebooks() -> list[str]:
    """Names of all notebooks, in order."""
    return sorted(file.stem for file in (root() / "notebooks").glob("[0-9][0-9]_*.ipynb"))


def named_runs(tier: str) -> list[str]:
    """The named runs that are defined at a tier, in order."""
    names = {file.stem for file in (root() / "params" / tier).glob("*@*.yaml")}
    names |= {file.parent.name for file in (runs() / tier).glob("*@*/run.yaml")}
    names |= {file.parent.name for file in (runs() / tier).glob("*[@-]seed-*/draw.made.json")}
    return sorted(name for name in names if notebook_path(name).is_file())


def about(notebook: str) -> dict[str, Any]:
    """The notebook's `hs2` metadata: how many GPUs it wants, what it makes and what it needs.

    Returns:
        gpu: a number.
        makes: kind of thing -> its title in tables, as {"policy": "DPO"}.
        needs: names of notebooks, and kinds, each of which stands for every other notebook that
            makes one. "07_sft unless start": a named run does not need it where that parameter or
            setting is given. With ", on real rows" it is needed only where the held-out prompts
            are real ones, of which no true score is known.
        before: what a stage needs, where that is less than the notebook needs: {"train": [..]}.
        figure: the name of the figure that stands for the notebook on the site.
    """
    # Not by nbformat: a status reads every notebook a hundred times, and checks of the schema are
    # slow.
    metadata = json.loads(notebook_path(notebook).read_text())["metadata"]
    return {"gpu": 0, "makes": {}, "needs": [], "before": {}} | metadata.get("hs2", {})


def makers(kind: str) -> dict[str, str]:
    """Notebooks that make a thing of this kind, with its title in tables.

    {"08_dpo": "DPO", ..} for "policy".
    """
    made_by = {name: about(name)["makes"] for name in notebooks()}
    return {name: titles[kind] for name, titles in made_by.items() if kind in titles}


def of_seed(run: str, more: int) -> str:
    """The name of a run whose seed, and those of all it reads, are `more` higher.

    06@mine-seed-2 is that of 06@mine for 2.
    """
    plain, already = without_seed(run)
    seed = already + more
    if seed == 0:
        return plain
    joint = "-" if "@" in plain else "@"
    return f"{plain}{joint}seed-{seed}"


def without_seed(run: str) -> tuple[str, int]:
    """The run that `of_seed` made a name of, and how much it added to the seed.

    ("06@mine", 2) of 06@mine-seed-2, and ("06@mine", 0) of 06@mine.
    """
    plain, more = re.fullmatch(r"(.*?)(?:[@-]seed-([1-9]\d*))?", run).groups()
    return plain, int(more or 0)


Definition = tuple[dict, list[str], str]  # parameters, the runs it reads, the file that says so


def definition(run: str, tier: str) -> Definition:
    """What defines a named run: its parameters, the runs it reads and the file that says so.

    All three are empty for a notebook's own run. Raises ParameterError for a run that no file
    defines.
    """
    if "@" not in run or run.endswith(f"@{BY_HAND}"):
        return {}, [], ""
    params_file = f"params/{tier}/{run}.yaml"
    file = root() / params_file
    if not file.exists():
        file = runs() / tier / run / "run.yaml"
    if not file.exists():
        plain, more = without_seed(run)
        if more:
            return _definition_of_seed(run, tier, plain, more)
        raise ParameterError(
            f"{run} is not defined at tier {tier}: add -p key=value, or write {params_file}"
        )
    values = read_values(file)
    reads = reads_of(values, file)
    return values, reads, str(file)


def reads_of(values: dict, where: object) -> list[str]:
    """The key `reads`, taken out of the values of a file. Raises ParameterError for no list."""
    reads = values.pop(READS, None) or []
    if not isinstance(reads, list) or not all(isinstance(name, str) for name in reads):
        raise ParameterError(f"{where}: reads is a list of runs, as [05@mine], got {reads!r}")
    return reads


def _definition_of_seed(run: str, tier: str, plain: str, more: int) -> Definition:
    """The definition of the run `plain` with a seed that is `more` higher."""
    _, values, _ = resolved(plain, tier)
    reads = [of_seed(name, more) for name in upstream(plain, tier)]
    overrides = definition(plain, tier)[0] | {"seed": values.get("seed", 0) + more}
    return overrides, reads, f"{run}, a seed {more} higher"


def define(run: str, tier: str, values: dict, reads: list[str]) -> None:
    """Keep what the command line says of a named run, in place of what it said before.

    Settings that it no longer names are printed. Raises ParameterError where the name is another's.
    """
    plain, _ = without_seed(run)
    if plain != run:
        raise ParameterError(f"{run} is {plain} of a higher seed: choose another name")
    file = root() / "params" / tier / f"{run}.yaml"
    if file.exists():
        if definition(run, tier)[:2] != (values, reads):
            raise ParameterError(
                f"{run} is defined in {file}: change that file, or choose another name"
            )
        return
    written_file = runs() / tier / run / "run.yaml"
    values = values | {"reads": reads}
    dropped = _words_of(read_values(written_file)) - _words_of(values) - {"recipe"}
    if dropped:
        words = ", ".join(sorted(dropped))
        print(
            f"{run} replaces an earlier run of this name, which also set {words}", file=sys.stderr
        )
    write(written_file, yaml.safe_dump(values, allow_unicode=True))


def _words_of(values: dict) -> set[str]:
    """The names of parameters and settings, and the runs to read, in what defines a named run."""
    return {*values, *values.get("recipe", ()), *values.get("reads", ())}


def resolved(
    run: str, tier: str, defined: Definition | None = None
) -> tuple[dict[str, Parameter], dict, object]:
    """Of a run at a tier: its parameters, their values, and the whole recipe (None without one).

    defined: what stands for its `definition`. Raises ParameterError as `definition` and `resolve`.
    """
    notebook = notebook_path(run)
    overrides, _, where = defined or definition(run, tier)
    known = specification(notebook)
    values = resolve(notebook, tier, root() / "params", overrides, where)
    if rehearsal.is_tiny():
        values = tiny(notebook.stem, known, values)
    return known, values, whole_recipe(known, values)


TINY: dict[str, Any] = paths.read_yaml(__file__, "tiny.yaml")


def tiny(notebook: str, known: dict[str, Parameter], values: dict) -> dict:
    """The values of a rehearsal with a tiny random model on generated text: `tiny.yaml` has them.

    Of that page "default" are parameters that get the value of the notebook's own cell, "settings"
    are what parameters and settings of a recipe get, "by notebook" what those of one notebook get.
    """
    values = dict(values)
    for name in TINY["default"]:
        if name in known:
            values[name] = known[name].default
    recipe = dict(values.get("recipe", {}))
    of_recipe = settings(known["recipe"].recipe) if "recipe" in known else {}
    for name, value in (TINY["settings"] | TINY["by notebook"].get(notebook, {})).items():
        if name in known:
            values[name] = value
        elif name in of_recipe:
            recipe[name] = value
    return values | ({"recipe": recipe} if of_recipe else {})


def upstream(
    run: str,
    tier: str,
    settled: tuple[dict, object] | None = None,
    reads: list[str] | None = None,
    stage: str = "",
) -> list[str]:
    """Runs whose results this one reads, as its notebook's `needs` and its own `reads` say.

    Args:
        run: a notebook's own run or a named one.
        tier: one of `TIERS`.
        settled: values and recipe, where they are not those of its definition.
        reads: the runs it reads, where they are not those of its definition.
        stage: of the run, which may need less; "" for the whole run.

    Raises:
        ParameterError: a need is neither a notebook nor a kind that some notebook makes, or a run
            in `reads` is not needed.
    """
    notebook = run.partition("@")[0]
    values, recipe = settled or resolved(run, tier)[1:]
    needs = about(notebook)["needs"]
    needs_less = stage in about(notebook)["before"]
    if needs_less:
        needs = about(notebook)["before"][stage]
    # A named run has no tables that compare it with a run that it does not begin with.
    is_alone = needs_less or "@" in without_seed(run)[0]
    needed: set[str] = set()
    for need in needs:
        always, of_real, _ = need.partition(", on real rows")
        if of_real and getattr(recipe, "eval_source", "") not in REAL:
            continue
        name, _, instead = always.partition(" unless ")
        # A tier's own run reads it all the same: its table compares them.
        if is_alone and instead and (values.get(instead) or getattr(recipe, instead, "")):
            continue
        if name in notebooks():
            needed.add(name)
            continue
        others = makers(name).keys() - {notebook}
        if not others:
            raise ParameterError(
                f"{notebook} needs {name!r}: no notebook is called so, and no other makes one"
            )
        needed |= others
    if reads is None:
        reads = definition(run, tier)[1]
    asked_for = {other.partition("@")[0]: other for other in matching(reads)}
    unneeded = sorted(asked_for.keys() - needed)
    if unneeded and not needs_less:
        raise ParameterError(
            f"{run} reads {asked_for[unneeded[0]]}, "
            f"and needs only {', '.join(sorted(needed)) or 'none'}"
        )
    of_tier = reads_of(read_values(root() / "params" / tier / f"{notebook}.yaml"), notebook)
    in_place_of = {other.partition("@")[0]: other for other in matching(of_tier)} | asked_for
    return sorted(in_place_of.get(name, name) for name in needed)


def reading(run: str, tier: str) -> str:
    """The run and those it reads by notebook, as `paths.RUN` holds them for its kernel."""
    return json.dumps({name.partition("@")[0]: name for name in (run, *upstream(run, tier))})


def by_hand(notebook: str, tier: str) -> dict[str, str]:
    """The variable `paths.RUN` for a notebook that no runner started.

    Its run has a name of its own, because what the checkout has of a tier is the runner's to write.
    It reads the latest run of each notebook that it needs. {} at tier smoke, which nobody keeps.
    """
    if tier == "smoke" or reports() != root() / "reports":
        return {}
    names = {notebook: f"{notebook}@{BY_HAND}"}
    for name in upstream(notebook, tier):
        read, is_named, _ = name.partition("@")
        names[read] = name if is_named else _finished_last(name, tier)
    return {RUN: json.dumps(names)}


def _finished_last(notebook: str, tier: str) -> str:
    """Which of a notebook's own run and the one made by hand finished last; its own for neither."""

    def finished(run: str) -> str:
        time = (read_json(manifest(run, tier)) or {}).get("finished")
        return f"{time} {run}" if time else ""

    return max(notebook, f"{notebook}@{BY_HAND}", key=finished)


def matching(names: list[str]) -> list[str]:
    """Full names of the runs that a user typed, in order.

    01_dataset_statistics for 01, and 01_dataset_statistics@mine for 01@mine. Raises ParameterError
    for a name that fits none.
    """
    picked: set[str] = set()
    for typed in names:
        name, at, label = typed.partition("@")
        if at and (label == BY_HAND or not re.fullmatch(r"\w[\w.-]{0,63}", label)):
            raise ParameterError(
                f"{typed}: a run's name has letters, digits, '.', '_' and '-', not {BY_HAND}"
            )
        name = Path(name).stem
        hits = {
            f"{notebook}{at}{label}"
            for notebook in notebooks()
            if notebook == name or notebook.startswith(f"{name}_")
        }
        if not hits:
            raise ParameterError(f"no notebook {typed!r}; known: {', '.join(notebooks())}")
        picked |= hits
    return sorted(picked)


def with_upstream(names: list[str], tier: str = "smoke") -> list[str]:
    """`names` and all they depend on, each after what it needs, else in the notebooks' order.

    Raises ParameterError where runs need each other in a circle.
    """
    ordered: list[str] = []

    def add(name: str, readers: list[str]) -> None:
        if name in readers:
            raise ParameterError(
                f"notebooks need each other in a circle: {' <- '.join([name, *reversed(readers)])}"
            )
        if name not in ordered:
            for need in upstream(name, tier):
                add(need, [*readers, name])
            ordered.append(name)

    for name in sorted(names):
        add(name, [])
    return ordered


def manifest(run: str, tier: str) -> Path:
    """The file that says that the report of a run is complete, and what it is made of."""
    return reports() / tier / run / "manifest.json"


def reported(notebook: str, tier: str, folder: Path | None = None) -> list[str]:
    """The named runs of a notebook that have left a report at a tier, in order.

    None of them was made by hand. folder: where the reports lie, as `paths.published_reports`; the
    user's own by default.
    """
    manifests = ((folder or reports()) / tier).glob(f"{notebook}@*/manifest.json")
    names = [manifest.parent.name for manifest in manifests]
    return sorted(name for name in names if not name.endswith(f"@{BY_HAND}"))


# What a notebook that shows reports reads.


def shows_reports(run: str) -> bool:
    """Whether a run shows the reports of others, as 14 does: it has the parameter beside."""
    return "beside" in specification(notebook_path(run))


def reports_read(
    run: str, tier: str, settled: tuple[dict, object] | None = None
) -> dict[str, Path]:
    """The manifests of the reports that notebook 14 reads, those of named runs too.

    They lie in one root: the user's own, or with `published` the published ones. Those of another
    tier are called tier/run.

    Args:
        run: of notebook 14.
        tier: that it runs at.
        settled: values and recipe, where they are not those of its definition.
    """
    values, recipe = settled or resolved(run, tier)[1:]
    above = upstream(run, tier, (values, recipe))
    manifests = {}
    for other_tier in {tier, *values["beside"]}:
        prefix = "" if other_tier == tier else f"{other_tier}/"
        if values["published"]:
            for file in (paths.published_reports() / other_tier).glob("[0-9]*/manifest.json"):
                if file.parent.name.partition("@")[0] != run.partition("@")[0]:
                    manifests[f"{prefix}{file.parent.name}"] = file
            continue
        names = list(above)
        for name in above:
            names += reported(name.partition("@")[0], other_tier)
        for name in names:
            manifests[f"{prefix}{name}"] = manifest(name, other_tier)
    return dict(sorted(manifests.items()))


def threads(run: str, tier: str, cores: int) -> int:
    """How many threads a job gets.

    Jobs that train a model get all cores and run one by one. The others get one thread and run side
    by side. Two busy jobs of two threads each collapse on two cores, and the small base gains
    nothing by a second thread.
    """
    if about(run)["gpu"] == 0:
        return 1
    if tier in SMALL_WORLD and resolved(run, tier)[1].get("model_name", "postcards") in SMALL_BASES:
        return 1
    return cores
