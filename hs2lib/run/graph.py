"""The graph of runs: notebooks and named runs, what each needs and was made of, and whether that
still holds.

A run is a notebook's own, `06_rewardbench_evaluation`, or a named one beside it,
`06_rewardbench_evaluation@mine`, with parameters of its own. `params/<tier>/<run>.yaml` defines a
named run, or `runs/<tier>/<run>/run.yaml`, which the command line writes. Its key `reads` names
runs that it reads in place of a notebook's own: `reads: [05@mine]`. No file defines `06@seed-1` and
`06@mine-seed-1`: 06 and 06@mine with a seed one higher, and so with all that they read.

A run is current when its report exists and its stamp, `runs/<tier>/<run>/stamp.json`, still says
what is there now: parameters, the recipe, the code of the notebook and of hs2lib that computes
(`hs2lib.code`), the results it reads, the data files and models it read, and all it wrote. Where
only the notebook's text or a module that draws is another, it is to redraw: it runs again on what
is kept, and what reads its results stays current. `state` is the one judge of that.
"""

import json
import os
import re
import sys
from collections.abc import Container
from dataclasses import asdict, dataclass
from pathlib import Path

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

SMALL_WORLD = (
    "smoke",
    "demo",
)  # tiers of generated data: on the CPU, unless HS2_DEVICE=cuda asks for a GPU

TIERS: dict[str, str] = paths.read_yaml(__file__, "tiers.yaml")

BY_HAND = "by-hand"  # the name of a report that no runner asked for


def unseen(tier: str) -> dict[str, str]:
    """The variable that hides GPUs at the tiers of generated data, which give the same numbers on
    every machine so.

    HS2_DEVICE=cuda asks for a GPU all the same; then, and at the other tiers: {}.
    """
    return (
        {"CUDA_VISIBLE_DEVICES": ""}
        if tier in SMALL_WORLD and os.environ.get("HS2_DEVICE") != "cuda"
        else {}
    )


def notebooks() -> list[str]:
    """Names of all notebooks, in order."""
    return sorted(p.stem for p in (root() / "notebooks").glob("[0-9][0-9]_*.ipynb"))


def named_runs(tier: str) -> list[str]:
    """The named runs that are defined at a tier, in order."""
    files = [*(root() / "params" / tier).glob("*@*.yaml"), *(runs() / tier).glob("*@*/run.yaml")]
    files += (runs() / tier).glob("*[@-]seed-*/stamp.json")
    names = {file.stem if "@" in file.stem else file.parent.name for file in files}
    return sorted(name for name in names if notebook_path(name).is_file())


def about(notebook: str) -> dict:
    """The notebook's `hs2` metadata: how many GPUs it wants, what it makes and what it needs.

    `gpu`: a number. `makes`: kind of thing -> its title in tables, as {"policy": "DPO"}. `needs`:
    kinds, which stand for every other notebook that makes one, and names of notebooks. "07_sft
    unless start": not where that parameter or setting is given to a named run.
    """
    # Not by nbformat: a status reads every notebook a hundred times, and checks of the schema are
    # slow.
    metadata = json.loads(notebook_path(notebook).read_text())["metadata"]
    return {"gpu": 0, "makes": {}, "needs": []} | metadata.get("hs2", {})


def makers(kind: str) -> dict[str, str]:
    """Notebooks that make a thing of this kind, with its title in tables: {"08_dpo": "DPO", ..} for "policy"."""
    made = {name: about(name)["makes"] for name in notebooks()}
    return {name: kinds[kind] for name, kinds in made.items() if kind in kinds}


def of_seed(run: str, more: int) -> str:
    """What a run is called whose seed, and those of all it reads, are `more` higher: 06@mine-seed-2 is 06@mine's."""
    plain, already = without_seed(run)
    return (
        f"{plain}{'-' if '@' in plain else '@'}seed-{already + more}" if already + more else plain
    )


def without_seed(run: str) -> tuple[str, int]:
    """The run, and how much is added to its seed, that `of_seed` made a name of; ("06@mine", 0) of 06@mine."""
    plain, more = re.fullmatch(r"(.*?)(?:[@-]seed-([1-9]\d*))?", run).groups()
    return plain, int(more or 0)


def definition(run: str, tier: str) -> tuple[dict, list[str], str]:
    """Of a named run: its parameters, the runs it reads and the file that says so. Nothing of a
    notebook's own run.

    Raises ParameterError for a run that no file defines.
    """
    if "@" not in run or run.endswith(f"@{BY_HAND}"):
        return {}, [], ""
    place = f"params/{tier}/{run}.yaml"
    file = next(filter(Path.exists, [root() / place, runs() / tier / run / "run.yaml"]), None)
    plain, more = without_seed(run)
    if more and not file:
        seed = {"seed": resolved(plain, tier)[1].get("seed", 0) + more}
        reads = [of_seed(name, more) for name in upstream(plain, tier)]
        return definition(plain, tier)[0] | seed, reads, f"{run}, a seed {more} higher"
    if not file:
        raise ParameterError(
            f"{run} is not defined at tier {tier}: add -p key=value, or write {place}"
        )
    values = read_values(file)
    reads = values.pop("reads", None) or []
    if not isinstance(reads, list) or not all(isinstance(name, str) for name in reads):
        raise ParameterError(f"{file}: reads is a list of runs, as [05@mine], got {reads!r}")
    return values, reads, str(file)


def define(run: str, tier: str, values: dict, reads: list[str]) -> None:
    """Keep what the command line says of a named run, in place of what it said before; what goes is
    named.

    Raises ParameterError where the name is another's.
    """
    if (plain := without_seed(run)[0]) != run:
        raise ParameterError(f"{run} is {plain} of a higher seed: choose another name")
    file = root() / "params" / tier / f"{run}.yaml"
    if not file.exists():
        own, values = runs() / tier / run / "run.yaml", values | {"reads": reads}
        before, now = (
            {*each, *each.get("recipe", ()), *each.get("reads", ())}
            for each in (read_values(own), values)
        )
        if dropped := before - now - {"recipe"}:
            print(
                f"{run} is defined anew, without its earlier {', '.join(sorted(dropped))}",
                file=sys.stderr,
            )
        write(own, yaml.safe_dump(values, allow_unicode=True))
    elif definition(run, tier)[:2] != (values, reads):
        raise ParameterError(
            f"{run} is defined in {file}: change that file, or choose another name"
        )


def resolved(
    run: str, tier: str, defined: tuple | None = None
) -> tuple[dict[str, Parameter], dict, object]:
    """Of a run at a tier: its parameters, their values, and the whole recipe (None without one).

    defined: what stands for its `definition`.
    """
    notebook = notebook_path(run)
    overrides, _, where = defined or definition(run, tier)
    known, values = (
        specification(notebook),
        resolve(notebook, tier, root() / "params", overrides, where),
    )
    return known, values, whole_recipe(known, values)


def upstream(
    run: str, tier: str, settled: tuple | None = None, reads: list | None = None, alone=False
) -> list[str]:
    """Runs whose results this one reads, as its notebook's `needs` and its own `reads` say.

    settled, reads: values and recipe, and the runs it reads, where they are not those of its
    definition. alone: it has no tables that compare it, as a named run or a stage. Raises
    ParameterError for a need that is neither a notebook nor a kind that some notebook makes, and
    for a run in `reads` that is not needed.
    """
    notebook, names = run.partition("@")[0], set()
    values, recipe = settled or resolved(run, tier)[1:]
    for need in about(notebook)["needs"]:
        need, _, instead = need.partition(" unless ")
        if (
            (alone or "@" in without_seed(run)[0])
            and instead
            and (values.get(instead) or getattr(recipe, instead, ""))
        ):
            continue  # a tier's own run reads it all the same: its table compares them
        several = {need} & {*notebooks()} or makers(need).keys() - {notebook}
        if not several:
            raise ParameterError(
                f"{notebook} needs {need!r}: no notebook is called so, and no other makes one"
            )
        names |= several
    read = matching(definition(run, tier)[1] if reads is None else reads)
    named = {other.partition("@")[0]: other for other in read}
    if (wrong := sorted(named.keys() - names)) and not alone:
        raise ParameterError(
            f"{run} reads {named[wrong[0]]}, and needs only {', '.join(sorted(names)) or 'none'}"
        )
    return sorted(named.get(name, name) for name in names)


def reading(run: str, tier: str) -> str:
    """The run and those it reads by notebook, as `paths.RUN` holds them for its kernel."""
    return json.dumps({name.partition("@")[0]: name for name in (run, *upstream(run, tier))})


def by_hand(notebook: str, tier: str) -> dict[str, str]:
    """The variable `paths.RUN` of a notebook that no runner started: a name of its own, the latest
    of what it needs.

    What the checkout has of a tier is the runner's to write, but for smoke, which nobody keeps: {}
    there.
    """
    if tier == "smoke" or reports() != root() / "reports":
        return {}

    def ended(name: str) -> str:
        finished = (read_json(outputs(name, tier)["manifest"]) or {}).get("finished")
        return f"{finished} {name}" if finished else ""

    names = {name: max(name, f"{name}@{BY_HAND}", key=ended) for name in upstream(notebook, tier)}
    return {RUN: json.dumps({notebook: f"{notebook}@{BY_HAND}"} | names)}


def matching(names: list[str]) -> list[str]:
    """Full names of the runs that a user typed, in order: 01_dataset_statistics for 01, and with
    its @mine for 01@mine.

    Raises ParameterError for a name that fits none.
    """
    picked = set()
    for typed in names:
        name, at, own = typed.partition("@")
        if at and (own == BY_HAND or not re.fullmatch(r"\w[\w.-]{0,63}", own)):
            raise ParameterError(
                f"{typed}: a run's name has letters, digits, '.', '_' and '-', not {BY_HAND}"
            )
        name = Path(name).stem
        hits = {
            f"{known}{at}{own}"
            for known in notebooks()
            if known == name or known.startswith(f"{name}_")
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

    def add(name: str, above: list[str]) -> None:
        if name in above:
            raise ParameterError(
                f"notebooks need each other in a circle: {' <- '.join([name, *reversed(above)])}"
            )
        if name not in ordered:
            for need in upstream(name, tier):
                add(need, [*above, name])
            ordered.append(name)

    for name in sorted(names):
        add(name, [])
    return ordered


def outputs(run: str, tier: str) -> dict[str, Path]:
    """The three files a complete run leaves: its stamp, its manifest and the executed copy."""
    report, stamp = reports() / tier / run, runs() / tier / run / "stamp.json"
    return {
        "stamp": stamp,
        "manifest": report / "manifest.json",
        "notebook": report / f"{run}.ipynb",
    }


def reported(notebook: str, tier: str, folder: Path | None = None) -> list[str]:
    """The named runs of a notebook that have left a report at a tier, in order; none that was made
    by hand.

    folder: the reports' own, as `paths.published_reports`; the user's by default.
    """
    names = [
        file.parent.name
        for file in ((folder or reports()) / tier).glob(f"{notebook}@*/manifest.json")
    ]
    return sorted(name for name in names if not name.endswith(f"@{BY_HAND}"))


def threads(run: str, tier: str, cores: int) -> int:
    """How many threads a job gets: those that train a model all cores, one by one; the others one,
    side by side.

    Two busy jobs of two threads each collapse on two cores. The small base gains nothing by a
    second thread.
    """
    return cores if about(run)["gpu"] > 0 and tier not in SMALL_WORLD else 1


# What a run was made of.


SMALL_BASE = "corpus/base"  # the model that `model_name` "small" means

# The small world. Of it the rules of annotators, by which 04 simulates, count for real data too.
WORLD = "hs2lib.corpus."
RULES = "hs2lib.corpus.rules"


def code_cells(notebook: str) -> list[str]:
    """The sources of a notebook's code cells, the parameters cell first."""
    cells = json.loads(notebook_path(notebook).read_text())["cells"]
    coded = [cell for cell in cells if cell["cell_type"] == "code"]
    coded.sort(key=lambda cell: "parameters" not in cell["metadata"].get("tags", []))
    return ["".join(cell["source"]) for cell in coded]


def modules(notebook: str, without: Container[str] = ()) -> set[str]:
    """The modules of hs2lib that a notebook uses, directly or through others, by name, as
    `code.reach` has them.

    Those that the user's own modules beside the notebook use count too. Raises ImportError where
    one is imported that is not there.
    """
    names: set[str] = set()
    for used in _beside(notebook):
        names |= used.library
    return code.reach(names, without)


def _beside(notebook: str) -> list[code.Beside]:
    """Of each code cell what it uses of the user's own modules in the folder of the notebooks."""
    return [
        code.modules_beside(code.read_cell(cell), root() / "notebooks")
        for cell in code_cells(notebook)
    ]


def _code_of(run: str, tier: str, values: dict) -> tuple[dict[str, str], dict[str, str]]:
    """The code of a run: its digests by what they are for, and that of each file, by which a change
    is named.

    computes: the modules that the notebook reaches. draws: those of `code.DRAWS`, and the
    notebook's text. notebook: its code. world: at the tiers of real data the modules of the small
    world, which count unless the manifest says that no row was generated; at the others they are
    among `computes`.
    """
    reached = modules(run)
    drawing = {name for name in reached if name in code.DRAWS}
    world = {
        name
        for name in reached
        if name.startswith(WORLD) and name != RULES and tier not in SMALL_WORLD
    }
    real = modules(run, without=world)
    computing = code.parts(real - drawing)
    if values.get("model_name") == "small":
        computing[f"hs2lib/{SMALL_BASE}"] = digest(code.package() / SMALL_BASE)
    for used in _beside(run):
        computing |= {f"notebooks/{name}": hex for name, hex in used.digests.items()}
    parameters, *cells = code_cells(run)
    place = f"notebooks/{notebook_path(run).name}"
    own = code.hashed(
        [
            code.read_cell(parameters, hints=True).digest,
            *(code.read_cell(cell).digest for cell in cells),
        ]
    )
    drawn = code.parts(drawing) | {f"the text of {place}": sha256(notebook_path(run))}
    generating = code.parts(reached - real)
    used = {"computes": computing, "draws": drawn, "world": generating}
    digests = {use: code.hashed(files) for use, files in used.items()} | {"notebook": own}
    files = computing | drawn | generating | {place: own}
    return digests, {name: hex[:12] for name, hex in sorted(files.items())}


def reports_read(run: str, tier: str, values: dict, above: list[str]) -> dict[str, Path]:
    """The manifests of the reports that notebook 14 reads, those of named runs too; of another tier
    as tier/run.

    They lie in one root: the user's own, or with `published` the published ones. above: the own
    runs that it needs.
    """
    manifests = {}
    for other in {tier, *values["beside"]}:
        whose = "" if other == tier else f"{other}/"
        if values["published"]:
            for file in (paths.published_reports() / other).glob("[0-9]*/manifest.json"):
                if file.parent.name.partition("@")[0] != run.partition("@")[0]:
                    manifests[f"{whose}{file.parent.name}"] = file
            continue
        named = [its for name in above for its in reported(name.partition("@")[0], other)]
        for name in (*above, *named):
            manifests[f"{whose}{name}"] = outputs(name, other)["manifest"]
    return manifests


def made_of(run: str, tier: str, values: dict, recipe: object) -> dict[str, dict]:
    """What decides a run's results before it reads any data: parameters, recipe, and by digest code
    and upstream.

    "code" holds the digests that count; "files" that of each file, which only names a change;
    "drawn", of a notebook that shows the reports of others, their figures and captions.
    """
    above = upstream(run, tier, (values, recipe))
    read = {name: outputs(name, tier)["manifest"] for name in above}
    if "beside" in values:
        read = reports_read(run, tier, values, above)
    digests, files = _code_of(run, tier, values)
    made = {
        "parameters": {name: value for name, value in values.items() if name != "recipe"},
        "recipe": asdict(recipe) if recipe else {},
        "code": digests,
        "files": files,
        "upstream": {name: results(manifest) for name, manifest in sorted(read.items())},
        "drawn": {
            name: _drawn(manifest) for name, manifest in sorted(read.items()) if "beside" in values
        },
    }
    return json.loads(json.dumps(made))  # as a stamp has it, without tuples


DRAWN = (".pdf", ".png", ".tex", ".html")  # artefacts that show what others hold


def results(manifest: Path) -> str:
    """Digest of what the artefacts of a manifest say, not of times, devices, figures and captions; "" without any."""
    artefacts = (read_json(manifest) or {}).get("artefacts")
    if not artefacts:
        return ""
    kept = {name: about for name, about in artefacts.items() if not name.endswith(DRAWN)}
    return code.hashed(
        {
            name: about["sha256"] if isinstance(about, dict) else about
            for name, about in kept.items()
        }
    )


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

    kind: `CURRENT`, nothing; `REDRAW`, it runs again on what is kept, and nothing that reads it has
    to; `STALE`, it runs again, and what reads it too. why: in words, "" where it is current.
    changes: all that has changed since.
    """

    kind: str
    why: str = ""
    changes: tuple[str, ...] = ()


def stamp(run: str, tier: str) -> None:
    """Complete the stamp of a run that has finished, when its executed copy is in place."""
    made = outputs(run, tier)
    kept = read_json(made["stamp"]) | {
        "manifest": sha256(made["manifest"]),
        "executed": sha256(made["notebook"]),
    }
    write(made["stamp"], json.dumps(kept, indent=1) + "\n")


def _changes(run: str, tier: str, record: dict, again: bool) -> tuple[list[str], list[str]]:
    """What has changed since the run that left this stamp, or is missing, in words.

    Returns (what makes it stale, what makes it one to redraw). again: hash large files again too.
    """
    made = outputs(run, tier)
    manifest = read_json(made["manifest"])
    _, values, recipe = resolved(run, tier)
    hide(values)
    now = made_of(run, tier, values, recipe)
    # A setting may stand in the cell today, and have stood in the recipe.
    before, after = (each["parameters"] | each["recipe"] for each in (record, now))
    stale = []
    for name in sorted((before.keys() | after.keys()) - {"recipe"}):
        if before.get(name) != after.get(name):
            stale.append(
                f"parameter {name} (was {before.get(name)!r:.40}, is {after.get(name)!r:.40})"
            )
    changed = {use for use, hex in now["code"].items() if record["code"].get(use) != hex}
    if not manifest.get("generated", True):
        changed -= {"world"}
    names = code.differing(record["files"], now["files"]) if changed else []
    draws = [name for name in names if _only_draws(name)]
    if changed - {"draws"}:
        stale += [name for name in names if name not in draws] or ["the code that computes"]
    stale += [f"results of {name}" for name in code.differing(record["upstream"], now["upstream"])]
    left = {
        f"{made['manifest'].parent}/{name}": about["sha256"]
        for name, about in manifest["artefacts"].items()
    }
    left |= {str(made["notebook"]): record["executed"]}
    for where, hex in (record["read"] | record["written"] | left).items():
        path = located(where)
        today = digest(path, again=again) if path else hex
        if hex != today:
            stale.append(public(where) + ("" if today else " is missing"))
    redraw = (draws or ["what draws"]) if "draws" in changed else []
    redraw += [
        f"figures of {name}" for name in code.differing(record.get("drawn", {}), now["drawn"])
    ]
    return stale, redraw


def _only_draws(name: str) -> bool:
    """Whether a file, as a stamp names it, is a module of `code.DRAWS`, a page of theirs or a notebook's text."""
    modules = {f"{module.replace('.', '/')}.py" for module in code.DRAWS}
    return name in modules or name.startswith(("hs2lib/report/pages/", "the text of "))


RECORD = {"code", "files", "parameters", "recipe", "upstream", "read", "written"}


def state(
    run: str, tier: str, known: dict[str, State] | None = None, *, again: bool = False
) -> State:
    """What is to be done with a run at this tier, as its stamp says.

    known: answers so far, added to. again: hash large files again too.
    """
    known = {} if known is None else known
    if run not in known:
        known[run] = _judged(run, tier, known, again)
    return known[run]


def _judged(run: str, tier: str, known: dict[str, State], again: bool) -> State:
    made = outputs(run, tier)
    missing = [name for name, file in made.items() if not file.exists()]
    if "stamp" in missing:
        return State(STALE, "never run here")
    if missing:
        return State(STALE, f"its {' and '.join(missing)} is gone")
    above = [
        name for name in upstream(run, tier) if state(name, tier, known, again=again).kind == STALE
    ]
    record = read_json(made["stamp"]) or {}
    if record.get("manifest") != sha256(made["manifest"]):
        return State(
            STALE,
            f"{above[0]} is stale" if above else "its manifest is not the one its stamp names",
        )
    if record.keys() >= RECORD and "computes" in record["code"]:
        stale, redraw = _changes(run, tier, record, again)
    else:
        stale, redraw = ["its stamp does not say what it was made of"], []
    every = (*stale, *redraw)
    if above:
        return State(STALE, f"{above[0]} is stale", every)
    if not every:
        return State(CURRENT)
    words = stale or redraw
    more = f" and {len(words) - 3} more" if len(words) > 3 else ""
    why = f"{'changed since' if stale else 'to redraw'}: {', '.join(words[:3])}{more}"
    return State(STALE if stale else REDRAW, why, every)


def why_stale(run: str, tier: str, known: dict[str, State] | None = None) -> str:
    """Why the run has to run again at this tier, be it only to redraw, in words; empty when it is
    current.

    known: answers so far, as of `state`.
    """
    return state(run, tier, known).why
