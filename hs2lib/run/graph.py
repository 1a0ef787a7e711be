"""The graph of runs: what each run needs, what it was made of, and whether that still holds.

A run is a notebook's own, `06_rewardbench_evaluation`, or a named one beside it,
`06_rewardbench_evaluation@mine`, with parameters of its own. A named run is defined by
`params/<tier>/<run>.yaml`, or by `runs/<tier>/<run>/run.yaml`, which the command line writes. The
key `reads` of that file names runs to read in place of a notebook's own: `reads: [05@mine]`. No
file defines `06@seed-1` and `06@mine-seed-1`. They are 06 and 06@mine with a seed one higher, and
all runs that they read have a seed one higher too.

A run is current when its report exists and its stamp, `runs/<tier>/<run>/stamp.json`, still holds.
A stamp says what the run was made of: parameters, the recipe, the code of the notebook and of
hs2lib that computes (`hs2lib.code`), the results it reads, the data files and models it read, and
all it wrote. Where only the notebook's text or a module that draws has changed, the run is to
redraw: it runs again on what is kept, and what reads its results stays current. `state` is the one
judge of that.
"""

import json
import os
import re
import sys
from collections.abc import Container
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import yaml

from hs2lib import code, paths
from hs2lib.paths import (
    RUN,
    digest,
    hide,
    located,
    public,
    read_json,
    reports,
    root,
    runs,
    sha256,
    write,
)
from hs2lib.paths import notebook as notebook_path
from hs2lib.run.parameters import (
    Parameter,
    ParameterError,
    read_values,
    resolve,
    specification,
    whole_recipe,
)

# Tiers of generated data: on the CPU, unless HS2_DEVICE=cuda asks for a GPU.
SMALL_WORLD = ("smoke", "demo")

TIERS: dict[str, str] = paths.read_yaml(__file__, "tiers.yaml")

SMALL_BASES = ("small", "tiny")  # a second thread makes them no faster

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
    names |= {file.parent.name for file in (runs() / tier).glob("*[@-]seed-*/stamp.json")}
    return sorted(name for name in names if notebook_path(name).is_file())


def about(notebook: str) -> dict[str, Any]:
    """The notebook's `hs2` metadata: how many GPUs it wants, what it makes and what it needs.

    Returns:
        gpu: a number.
        makes: kind of thing -> its title in tables, as {"policy": "DPO"}.
        needs: names of notebooks, and kinds, each of which stands for every other notebook that
            makes one. "07_sft unless start": a named run does not need it where that parameter or
            setting is given.
    """
    # Not by nbformat: a status reads every notebook a hundred times, and checks of the schema are
    # slow.
    metadata = json.loads(notebook_path(notebook).read_text())["metadata"]
    return {"gpu": 0, "makes": {}, "needs": []} | metadata.get("hs2", {})


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
    reads = values.pop("reads", None) or []
    if not isinstance(reads, list) or not all(isinstance(name, str) for name in reads):
        raise ParameterError(f"{file}: reads is a list of runs, as [05@mine], got {reads!r}")
    return values, reads, str(file)


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
        print(
            f"{run} is defined anew, without its earlier {', '.join(sorted(dropped))}",
            file=sys.stderr,
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
    return known, values, whole_recipe(known, values)


def upstream(
    run: str,
    tier: str,
    settled: tuple[dict, object] | None = None,
    reads: list[str] | None = None,
    alone: bool = False,
) -> list[str]:
    """Runs whose results this one reads, as its notebook's `needs` and its own `reads` say.

    Args:
        run: a notebook's own run or a named one.
        tier: one of `TIERS`.
        settled: values and recipe, where they are not those of its definition.
        reads: the runs it reads, where they are not those of its definition.
        alone: whether it has no tables that compare it, as a stage. A named run has none either.

    Raises:
        ParameterError: a need is neither a notebook nor a kind that some notebook makes, or a run
            in `reads` is not needed.
    """
    notebook = run.partition("@")[0]
    values, recipe = settled or resolved(run, tier)[1:]
    is_alone = alone or "@" in without_seed(run)[0]
    needed: set[str] = set()
    for need in about(notebook)["needs"]:
        name, _, instead = need.partition(" unless ")
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
    in_place_of = {other.partition("@")[0]: other for other in matching(reads)}
    unneeded = sorted(in_place_of.keys() - needed)
    if unneeded and not alone:
        raise ParameterError(
            f"{run} reads {in_place_of[unneeded[0]]}, "
            f"and needs only {', '.join(sorted(needed)) or 'none'}"
        )
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
        names[name] = _finished_last(name, tier)
    return {RUN: json.dumps(names)}


def _finished_last(notebook: str, tier: str) -> str:
    """Which of a notebook's own run and the one made by hand finished last; its own for neither."""

    def finished(run: str) -> str:
        manifest = read_json(outputs(run, tier)["manifest"]) or {}
        time = manifest.get("finished")
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


def outputs(run: str, tier: str) -> dict[str, Path]:
    """The three files a complete run leaves: its stamp, its manifest and the executed copy."""
    report = reports() / tier / run
    return {
        "stamp": runs() / tier / run / "stamp.json",
        "manifest": report / "manifest.json",
        "notebook": report / f"{run}.ipynb",
    }


def reported(notebook: str, tier: str, folder: Path | None = None) -> list[str]:
    """The named runs of a notebook that have left a report at a tier, in order.

    None of them was made by hand. folder: where the reports lie, as `paths.published_reports`; the
    user's own by default.
    """
    manifests = ((folder or reports()) / tier).glob(f"{notebook}@*/manifest.json")
    names = [manifest.parent.name for manifest in manifests]
    return sorted(name for name in names if not name.endswith(f"@{BY_HAND}"))


def threads(run: str, tier: str, cores: int) -> int:
    """How many threads a job gets.

    Jobs that train a model get all cores and run one by one. The others get one thread and run side
    by side. Two busy jobs of two threads each collapse on two cores, and the small base gains
    nothing by a second thread.
    """
    if about(run)["gpu"] == 0:
        return 1
    if tier in SMALL_WORLD and resolved(run, tier)[1].get("model_name", "small") in SMALL_BASES:
        return 1
    return cores


# What a run was made of.


SMALL_BASE = "corpus/base"  # the model that `model_name` "small" means

# The small world. Of it the rules of annotators, by which 04 simulates, count for real data too.
WORLD = "hs2lib.corpus."
RULES = "hs2lib.corpus.rules"


def code_cells(notebook: str) -> list[str]:
    """The sources of a notebook's code cells, the parameters cell first."""
    cells = json.loads(notebook_path(notebook).read_text())["cells"]
    of_code = [cell for cell in cells if cell["cell_type"] == "code"]
    of_code.sort(key=lambda cell: "parameters" not in cell["metadata"].get("tags", []))
    return ["".join(cell["source"]) for cell in of_code]


def modules(notebook: str, without: Container[str] = ()) -> set[str]:
    """The modules of hs2lib that a notebook uses, directly or through others, by name.

    Those that the user's own modules beside the notebook use count too. without: modules to leave
    out, with what only they use, as `code.reach` has them. Raises ImportError where one is imported
    that is not there.
    """
    names: set[str] = set()
    for used in _beside(notebook):
        names |= used.library
    return code.reach(names, without)


def _beside(notebook: str) -> list[code.Beside]:
    """What each code cell uses of the user's own modules in the folder of the notebooks."""
    folder = root() / "notebooks"
    return [code.modules_beside(code.read_cell(cell), folder) for cell in code_cells(notebook)]


def _code_of(run: str, tier: str, values: dict) -> tuple[dict[str, str], dict[str, str]]:
    """The code of a run.

    Returns:
        Its digests by what they are for.
            computes: the modules that the notebook reaches.
            draws: those of `code.DRAWS`, and the notebook's text.
            world: at the tiers of real data the modules of the small world, which count unless the
                manifest says that no row was generated. At the others they are among `computes`.
            notebook: its code.
        The digest of each file, by which a change is named.
    """
    reached = modules(run)
    drawing = {name for name in reached if name in code.DRAWS}
    world: set[str] = set()
    if tier not in SMALL_WORLD:
        world = {name for name in reached if name.startswith(WORLD) and name != RULES}
    real = modules(run, without=world)

    computes = code.parts(real - drawing)
    if values.get("model_name") == "small":
        computes[f"hs2lib/{SMALL_BASE}"] = digest(code.package() / SMALL_BASE)
    for used in _beside(run):
        for name, hex in used.digests.items():
            computes[f"notebooks/{name}"] = hex
    file = f"notebooks/{notebook_path(run).name}"
    draws = code.parts(drawing) | {f"the text of {file}": sha256(notebook_path(run))}
    generates = code.parts(reached - real)
    parameters, *cells = code_cells(run)
    cell_digests = [code.read_cell(parameters, hints=True).digest]
    cell_digests += [code.read_cell(cell).digest for cell in cells]
    notebook = code.hashed(cell_digests)

    digests = {
        "computes": code.hashed(computes),
        "draws": code.hashed(draws),
        "world": code.hashed(generates),
        "notebook": notebook,
    }
    files = computes | draws | generates | {file: notebook}
    return digests, {name: hex[:12] for name, hex in sorted(files.items())}


def reports_read(run: str, tier: str, values: dict, above: list[str]) -> dict[str, Path]:
    """The manifests of the reports that notebook 14 reads, those of named runs too.

    They lie in one root: the user's own, or with `published` the published ones. Those of another
    tier are called tier/run.

    Args:
        run: of notebook 14.
        tier: that it runs at.
        values: its parameters; `beside` and `published` count.
        above: the notebooks' own runs that it needs.
    """
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
            manifests[f"{prefix}{name}"] = outputs(name, other_tier)["manifest"]
    return manifests


def made_of(run: str, tier: str, values: dict, recipe: object) -> dict[str, dict]:
    """What decides a run's results before it reads any data.

    Returns:
        parameters, recipe: their values.
        code: the digests that count.
        files: the digest of each file of code, which only names a change.
        upstream: a digest of the results of each run that it reads.
        drawn: of a notebook that shows the reports of others, a digest of these with their figures
            and captions.
    """
    above = upstream(run, tier, (values, recipe))
    shows_reports = "beside" in values
    if shows_reports:
        read = reports_read(run, tier, values, above)
    else:
        read = {name: outputs(name, tier)["manifest"] for name in above}
    read = dict(sorted(read.items()))
    digests, files = _code_of(run, tier, values)
    content = {
        "parameters": {name: value for name, value in values.items() if name != "recipe"},
        "recipe": asdict(recipe) if recipe else {},
        "code": digests,
        "files": files,
        "upstream": {name: results(manifest) for name, manifest in read.items()},
        "drawn": {},
    }
    if shows_reports:
        content["drawn"] = {name: _drawn(manifest) for name, manifest in read.items()}
    return json.loads(json.dumps(content))  # as a stamp has it, without tuples


DRAWN = (".pdf", ".png", ".tex", ".html")  # artefacts that show what others hold


def results(manifest: Path) -> str:
    """Digest of what the artefacts of a manifest say; "" without any.

    Times, devices, figures and captions do not count.
    """
    artefacts = (read_json(manifest) or {}).get("artefacts")
    if not artefacts:
        return ""
    digests = {}
    for name, entry in artefacts.items():
        if not name.endswith(DRAWN):
            digests[name] = entry["sha256"] if isinstance(entry, dict) else entry
    return code.hashed(digests)


def _drawn(manifest: Path) -> str:
    """Digest of the artefacts of a manifest with figures and captions; "" without any."""
    artefacts = (read_json(manifest) or {}).get("artefacts")
    return code.hashed(artefacts) if artefacts else ""


# Whether that still holds.


CURRENT = "current"
REDRAW = "redraw"
STALE = "stale"


@dataclass(frozen=True)
class State:
    """What is to be done with a run.

    Fields:
        kind: `CURRENT`, nothing. `REDRAW`, it runs again on what is kept, and nothing that reads it
            has to. `STALE`, it runs again, and what reads it too.
        why: the reason in words, "" where it is current.
        changes: all that has changed since.
    """

    kind: str
    why: str = ""
    changes: tuple[str, ...] = ()


def stamp(run: str, tier: str) -> None:
    """Complete the stamp of a run that has finished, when its executed copy is in place."""
    files = outputs(run, tier)
    record = read_json(files["stamp"]) | {
        "manifest": sha256(files["manifest"]),
        "executed": sha256(files["notebook"]),
    }
    write(files["stamp"], json.dumps(record, indent=1) + "\n")


def _changes(run: str, tier: str, record: dict, again: bool) -> tuple[list[str], list[str]]:
    """What has changed since the run that left this stamp, or is missing, in words.

    Args:
        run: a complete one.
        tier: that it ran at.
        record: its stamp.
        again: whether to hash large files again too.

    Returns:
        What makes the run stale, and what makes it one to redraw.
    """
    manifest = read_json(outputs(run, tier)["manifest"])
    _, values, recipe = resolved(run, tier)
    hide(values)
    now = made_of(run, tier, values, recipe)
    uses = {use for use, hex in now["code"].items() if record["code"].get(use) != hex}
    if not manifest.get("generated", True):
        uses -= {"world"}
    edited = code.differing(record["files"], now["files"]) if uses else []
    drawing = [name for name in edited if _only_draws(name)]
    computing = [name for name in edited if name not in drawing]

    stale = _changed_settings(record, now)
    if uses - {"draws"}:
        stale += computing or ["the code that computes"]
    stale += [f"results of {name}" for name in code.differing(record["upstream"], now["upstream"])]
    stale += _changed_files(run, tier, record, manifest, again)
    redraw = []
    if "draws" in uses:
        redraw += drawing or ["what draws"]
    before = record.get("drawn", {})
    redraw += [f"figures of {name}" for name in code.differing(before, now["drawn"])]
    return stale, redraw


def _changed_settings(record: dict, now: dict) -> list[str]:
    """The parameters and settings that differ between a stamp and today, in words."""
    # A setting may stand in the cell today, and have stood in the recipe.
    before = record["parameters"] | record["recipe"]
    after = now["parameters"] | now["recipe"]
    changes = []
    for name in sorted((before.keys() | after.keys()) - {"recipe"}):
        if before.get(name) != after.get(name):
            changes.append(
                f"parameter {name} (was {before.get(name)!r:.40}, is {after.get(name)!r:.40})"
            )
    return changes


def _changed_files(run: str, tier: str, record: dict, manifest: dict, again: bool) -> list[str]:
    """The files that a run read, wrote or reported and that changed or are missing, in words."""
    files = outputs(run, tier)
    digests = record["read"] | record["written"]
    for name, artefact in manifest["artefacts"].items():
        digests[f"{files['manifest'].parent}/{name}"] = artefact["sha256"]
    digests[str(files["notebook"])] = record["executed"]
    changes = []
    for place, before in digests.items():
        path = located(place)
        if path is None:
            continue
        today = digest(path, again=again)
        if today == before:
            continue
        changes.append(public(place) if today else f"{public(place)} is missing")
    return changes


def _only_draws(name: str) -> bool:
    """Whether a file, as a stamp names it, changes no number.

    It is a module of `code.DRAWS`, a page of theirs or a notebook's text.
    """
    drawing = {f"{module.replace('.', '/')}.py" for module in code.DRAWS}
    return name in drawing or name.startswith(("hs2lib/report/pages/", "the text of "))


RECORD = {"code", "files", "parameters", "recipe", "upstream", "read", "written"}


def state(
    run: str, tier: str, known: dict[str, State] | None = None, *, again: bool = False
) -> State:
    """What is to be done with a run at this tier, as its stamp says.

    Args:
        run: a notebook's own run or a named one.
        tier: one of `TIERS`.
        known: answers so far by run, added to.
        again: whether to hash large files again too.
    """
    known = {} if known is None else known
    if run not in known:
        known[run] = _judged(run, tier, known, again)
    return known[run]


def _judged(run: str, tier: str, known: dict[str, State], again: bool) -> State:
    """What `state` says of a run that is not among those known."""
    files = outputs(run, tier)
    missing = [name for name, file in files.items() if not file.exists()]
    if "stamp" in missing:
        return State(STALE, "never run here")
    if missing:
        return State(STALE, f"its {' and '.join(missing)} is gone")
    stale_above = [
        name for name in upstream(run, tier) if state(name, tier, known, again=again).kind == STALE
    ]
    record = read_json(files["stamp"]) or {}
    if record.get("manifest") != sha256(files["manifest"]):
        if stale_above:
            return State(STALE, f"{stale_above[0]} is stale")
        return State(STALE, "its manifest is not the one its stamp names")
    if record.keys() >= RECORD and "computes" in record["code"]:
        stale, redraw = _changes(run, tier, record, again)
    else:
        stale = ["its stamp does not say what it was made of"]
        redraw = []
    changes = (*stale, *redraw)
    if stale_above:
        return State(STALE, f"{stale_above[0]} is stale", changes)
    if stale:
        return State(STALE, f"changed since: {_first_three(stale)}", changes)
    if redraw:
        return State(REDRAW, f"to redraw: {_first_three(redraw)}", changes)
    return State(CURRENT)


def _first_three(changes: list[str]) -> str:
    """The first three of several changes, and how many more there are."""
    more = f" and {len(changes) - 3} more" if len(changes) > 3 else ""
    return ", ".join(changes[:3]) + more


def why_stale(run: str, tier: str, known: dict[str, State] | None = None) -> str:
    """Why the run has to run again at this tier, be it only to redraw; "" when it is current.

    known: answers so far, as of `state`.
    """
    return state(run, tier, known).why
