"""What a job is made of: the key that Snakemake compares.

A run has one or two jobs. *compute*, of a notebook that makes a model, executes the cells that
carry a stage's tag; it leaves models, answers and `results.json`, on which other runs depend.
*draw* executes the whole notebook by papermill, which finds what is computed, and leaves the
report.

The key of a job is a file of the run's folder. The Snakefile declares it an input, and it is
written anew only where its content changes: where a value, a setting, a cell, the code that is
reached or a data file is another one. So what Snakemake sees by the file's time is a change of
content, and a comment or a `touch` is none.
"""

import ast
import json
from dataclasses import asdict
from pathlib import Path

from hs2lib import code, paths
from hs2lib.paths import digest, located, read_json, reports, root, runs, sha256, write
from hs2lib.paths import notebook as notebook_path
from hs2lib.runs import cells, graph, own

COMPUTE = "compute"
DRAW = "draw"

# The models that come with the package, by the `model_name` that means them.
BASES = {
    "postcards": "world/base-few",
    "postcards-none": "world/base-none",
}

# The small world.
WORLD = "hs2lib.world."

# It writes down what a notebook shows, and computes none of it.
SHOWS = ("hs2lib.report.report",)

DRAWN = (".pdf", ".png", ".tex", ".html")  # artefacts that show what others hold


def jobs_of(run: str) -> list[str]:
    """The jobs of a run, in their order."""
    computes = graph.about(run)["makes"] and cells.stages_of(run)
    return [COMPUTE, DRAW] if computes else [DRAW]


def file(run: str, tier: str, job: str) -> Path:
    """The file that holds the key of a job."""
    return runs() / tier / run / f"{job}.key.json"


def made_file(run: str, tier: str, job: str) -> Path:
    """The file that says what the job that ended last was made of, and what it left."""
    return runs() / tier / run / f"{job}.made.json"


def result(run: str, tier: str, job: str) -> Path:
    """The file that a job writes last: `results.json` of what computes, `drawn.json` of the report.

    Of a run without a job of its own that computes, drawing leaves both.
    """
    return runs() / tier / run / ("results.json" if job == COMPUTE else "drawn.json")


def of(run: str, tier: str, job: str) -> dict:
    """What a job is made of today, before it reads the results of other runs.

    Returns:
        parameters, recipe: their values.
        code: "computes", a digest of all code that may change a number; "draws", one of the rest of
            the code and of the notebook's text (of a job that draws).
        files: the digest of each file of code, by which a change is named.
        data: the digest of each data file that is read, as far as earlier runs have said.
    """
    _, values, recipe = graph.resolved(run, tier)
    return made_with(run, tier, job, values, recipe)


def made_with(run: str, tier: str, job: str, values: dict, recipe: object) -> dict:
    """As `of`, with these values of the parameters and this recipe."""
    settings = {name: value for name, value in values.items() if name != "recipe"}
    of_recipe = asdict(recipe) if recipe else {}
    computing, drawing = _code_of(run, tier, job, settings | of_recipe)
    content = {
        "parameters": settings,
        "recipe": of_recipe,
        "code": {"computes": code.hashed(computing), "draws": code.hashed(drawing)},
        "files": {name: hex[:12] for name, hex in sorted((computing | drawing).items())},
        "data": _data_of(run, tier, job, settings),
    }
    return json.loads(json.dumps(content))  # as a file has it, without tuples


def _code_of(run: str, tier: str, job: str, settings: dict) -> tuple[dict, dict]:
    """The digests of the code of a job by file: of what computes, and of what only draws."""
    chosen = cells.cells_of(run) if job == COMPUTE else cells.code_cells(run)
    sources = [_source(cell) for cell in chosen]
    names: set[str] = set()
    beside: dict[str, str] = {}
    for source in sources:
        used = code.modules_beside(source, root() / "notebooks")
        names |= used.library
        beside |= {f"notebooks/{name}": hex for name, hex in used.digests.items()}
    if job == COMPUTE:
        names = _used(names, chosen)
    reached = code.reach(names)
    if tier not in graph.SMALL_WORLD and not _is_generated(settings):
        world = {name for name in reached if name.startswith(WORLD)}
        reached = code.reach(names, without=world)
    only_draw = {name for name in reached if name in (*code.DRAWS, *SHOWS)}
    computing = code.parts(reached - only_draw) | beside
    base = BASES.get(settings.get("model_name", ""))
    if base:
        computing[f"hs2lib/{base}"] = digest(code.package() / base)
    name = f"notebooks/{notebook_path(run).name}"
    computing[name] = code.hashed([source.digest for source in sources])
    if job == COMPUTE:
        return computing, {}
    drawing = code.parts(only_draw) | {f"the text of {name}": sha256(notebook_path(run))}
    return computing, drawing


def _source(cell: cells.Cell) -> code.Source:
    """What a cell says. Of the parameters the hints count."""
    return code.read_cell(cell.source, hints=cells.PARAMETERS in cell.tags)


def _used(names: set[str], chosen: list[cells.Cell]) -> set[str]:
    """Those of some imported names that the cells of the stages use; the start imports more."""
    used: set[str] = set()
    imported: dict[str, str] = {}
    for cell in chosen:
        tree = ast.parse(cell.source)
        if cells.START not in cell.tags:
            used |= {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    imported[f"{node.module}.{alias.name}"] = alias.asname or alias.name
            elif isinstance(node, ast.Import):
                for alias in node.names:
                    imported[alias.name] = alias.asname or alias.name.partition(".")[0]
    return {name for name in names if imported.get(name, "") in used or name not in imported}


def _is_generated(settings: dict) -> bool:
    """Whether a run reads rows of a small world: one of its sources generates them."""
    sources = [value for name, value in settings.items() if name.endswith("source")]
    return "postcards" in sources


def _data_of(run: str, tier: str, job: str, settings: dict) -> dict[str, str]:
    """The digests, today, of the data files that a job reads."""
    before = (read_json(made_file(run, tier, job)) or {}).get("key", {}).get("data", {})
    digests = {}
    for place in sorted({*before, *_named_files(settings)}):
        path = located(place)
        digests[place] = before.get(place, "") if path is None else digest(path)
    return digests


def _named_files(settings: dict) -> list[str]:
    """The places of the files of one's own that a run names: its rows, and its functions."""
    files = [own.place(value) for value in settings.values() if isinstance(value, str)]
    if settings.get("path"):
        files.append(root() / "notebooks" / settings["path"])
    return [paths.place(file) for file in files if file]


def data_read(read: dict[str, str], content: dict) -> dict[str, str]:
    """The data files that count for a job from its end on, with their digests.

    Args:
        read: all that it read. What other runs left does not count.
        content: its key when it began. The files of one's own that it names count in any case.
    """
    data = {place: content["data"][place] for place in _named_files(content["parameters"])}
    for place, hex in read.items():
        if not place.startswith(("runs/", "hub:")):
            data[place] = hex
    return dict(sorted(data.items()))


# The results of other runs.


def results_of(run: str, tier: str) -> str:
    """The digest of the results that a run left; "" where it left none."""
    left = result(run, tier, COMPUTE)
    return sha256(left) if left.exists() else ""


def upstream(run: str, tier: str, settled: tuple[dict, object] | None = None) -> dict[str, str]:
    """A digest of the results of each run that a run reads.

    Of a notebook that shows reports (14) it is that of each report's tables. settled: values and
    recipe, where they are not those of its definition.
    """
    if not graph.shows_reports(run):
        return {name: results_of(name, tier) for name in graph.upstream(run, tier, settled)}
    return {
        name: tables(manifest) for name, manifest in graph.reports_read(run, tier, settled).items()
    }


def drawn(run: str, tier: str) -> dict[str, str]:
    """Of a notebook that shows reports a digest of each, with figures and captions; else {}."""
    if not graph.shows_reports(run):
        return {}
    digests = {}
    for name, manifest in graph.reports_read(run, tier).items():
        artefacts = (read_json(manifest) or {}).get("artefacts")
        digests[name] = code.hashed(artefacts) if artefacts else ""
    return digests


def tables(manifest: Path) -> str:
    """The digest of what the tables of a report say; "" without any. Figures do not count."""
    artefacts = (read_json(manifest) or {}).get("artefacts")
    if not artefacts:
        return ""
    return code.hashed(table_digests(artefacts))


def table_digests(artefacts: dict[str, dict]) -> dict[str, str]:
    """The digests of a manifest's artefacts by name, of those that hold numbers."""
    return {name: entry["sha256"] for name, entry in artefacts.items() if not name.endswith(DRAWN)}


# Before Snakemake decides.


def refresh(run: str, tier: str) -> None:
    """Write the keys of a run where they changed, and take away results whose files are gone."""
    for job in jobs_of(run):
        content = json.dumps(of(run, tier, job), indent=1) + "\n"
        key = file(run, tier, job)
        if not key.exists() or key.read_text() != content:
            write(key, content)
        if missing(run, tier, job):
            result(run, tier, job).unlink(missing_ok=True)
    if jobs_of(run) == [DRAW] and not result(run, tier, DRAW).exists():
        result(run, tier, COMPUTE).unlink(missing_ok=True)


def missing(run: str, tier: str, job: str) -> list[str]:
    """What a job left and is gone: the model of one that computes, the report of one that draws."""
    if job == DRAW:
        files = [reports() / tier / run / name for name in ("manifest.json", f"{run}.ipynb")]
        return [paths.place(file) for file in files if not file.exists()]
    left = (read_json(made_file(run, tier, job)) or {}).get("left", {})
    return [place for place in left if not (located(place) or root()).exists()]


# Why a run would run again.


def why(run: str, tier: str, known: dict[str, bool] | None = None) -> str:
    """Why `hs2 run` would run something of this run, in words; "" where all is current.

    known: what `computes_again` said so far, added to.
    """
    known = {} if known is None else known
    changes: list[str] = []
    for job in jobs_of(run):
        made = read_json(made_file(run, tier, job))
        if made is None or not result(run, tier, job).exists():
            if job != jobs_of(run)[0] and not changes:
                return "computed, not drawn"
            begun = (runs() / tier / run / f"{job}.log").exists() and made is None
            return f"{job} did not end" if begun else "never run here"
        gone = missing(run, tier, job)
        if gone:
            return f"{gone[0]} is gone"
        changes += differences(made["key"], of(run, tier, job))
        names = code.differing(made["upstream"], upstream(run, tier))
        changes += [f"results of {name}" for name in names]
        if job == DRAW:
            names = code.differing(made.get("drawn", {}), drawn(run, tier))
            changes += [f"figures of {name}" for name in names]
    waits = [name for name in graph.upstream(run, tier) if computes_again(name, tier, known)]
    if waits:
        changes.append(f"{waits[0]} runs first")
    first = list(dict.fromkeys(changes))
    more = f" and {len(first) - 3} more" if len(first) > 3 else ""
    return f"changed: {', '.join(first[:3])}{more}" if first else ""


def computes_again(run: str, tier: str, known: dict[str, bool] | None = None) -> bool:
    """Whether the job of a run on which others depend would run again.

    known: answers so far by run, added to.
    """
    known = {} if known is None else known
    if run not in known:
        job = jobs_of(run)[0]
        made = read_json(made_file(run, tier, job))
        ended = made is not None and result(run, tier, job).exists()
        if not ended or missing(run, tier, job) or differences(made["key"], of(run, tier, job)):
            known[run] = True
        else:
            above = graph.upstream(run, tier)
            known[run] = any(computes_again(name, tier, known) for name in above)
    return known[run]


def differences(before: dict, now: dict) -> list[str]:
    """What differs between two keys, in words."""
    changes = []
    # A setting may stand in the cell today, and have stood in the recipe.
    settings = before["parameters"] | before["recipe"]
    settings_now = now["parameters"] | now["recipe"]
    for name in code.differing(settings, settings_now):
        changes.append(
            f"{name} (was {settings.get(name)!r:.40}, is {settings_now.get(name)!r:.40})"
        )
    if before["code"] != now["code"]:
        changes += code.differing(before["files"], now["files"])
    changes += [paths.public(place) for place in code.differing(before["data"], now["data"])]
    return changes
