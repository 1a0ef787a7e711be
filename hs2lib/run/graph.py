"""The graph of runs: notebooks and named runs, what each needs and was made of, and whether that still holds.

A run is a notebook's own, `06_rewardbench_evaluation`, or a named one beside it, `06_rewardbench_evaluation@mine`, with
parameters of its own. `params/<tier>/<run>.yaml` defines a named run, or `runs/<tier>/<run>/run.yaml`, which the
command line writes. Its key `reads` names runs that it reads in place of a notebook's own: `reads: [05@mine]`. No file
defines `06@seed-1` and `06@mine-seed-1`: 06 and 06@mine with a seed one higher, and so with all that they read.

A run is current when its report exists and its stamp, `runs/<tier>/<run>/stamp.json`, still says what is there now:
parameters, the recipe, the notebook, the modules and data files of hs2lib that it uses, the results it reads, the data
files and models it read, and all it wrote. `why_stale` is the one judge of that, for the runner and for the site.
"""

import ast
import functools
import json
import os
import re
import sys
from dataclasses import asdict
from pathlib import Path

import yaml

from hs2lib import paths
from hs2lib.paths import RUN, digest, hide, located, public, read_json, reports, root, runs, sha256, write
from hs2lib.paths import notebook as notebook_path
from hs2lib.run.parameters import Parameter, ParameterError, read_values, resolve, settings, specification, whole_recipe

SMALL_WORLD = ("smoke", "demo")  # tiers of generated data: on the CPU, unless HS2_DEVICE=cuda asks for a GPU

TIERS: dict[str, str] = paths.read_yaml(__file__, "tiers.yaml")

BY_HAND = "by-hand"  # the name of a report that no runner asked for


def unseen(tier: str) -> dict[str, str]:
    """The variable that hides GPUs at the tiers of generated data, which give the same numbers on every machine so.

    HS2_DEVICE=cuda asks for a GPU all the same; then, and at the other tiers: {}.
    """
    return {"CUDA_VISIBLE_DEVICES": ""} if tier in SMALL_WORLD and os.environ.get("HS2_DEVICE") != "cuda" else {}


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

    `gpu`: a number. `makes`: kind of thing -> its title in tables, as {"policy": "DPO"}. `needs`: kinds, which stand
    for every other notebook that makes one, and names of notebooks. "07_sft unless start": not where that parameter or
    setting is given to a named run.
    """
    # Not by nbformat: a status reads every notebook a hundred times, and checks of the schema are slow.
    metadata = json.loads(notebook_path(notebook).read_text())["metadata"]
    return {"gpu": 0, "makes": {}, "needs": []} | metadata.get("hs2", {})


def makers(kind: str) -> dict[str, str]:
    """Notebooks that make a thing of this kind, with its title in tables: {"08_dpo": "DPO", ..} for "policy"."""
    made = {name: about(name)["makes"] for name in notebooks()}
    return {name: kinds[kind] for name, kinds in made.items() if kind in kinds}


def of_seed(run: str, more: int) -> str:
    """What a run is called whose seed, and those of all it reads, are `more` higher: 06@mine-seed-2 is 06@mine's."""
    plain, already = without_seed(run)
    return f"{plain}{'-' if '@' in plain else '@'}seed-{already + more}" if already + more else plain


def without_seed(run: str) -> tuple[str, int]:
    """The run, and how much is added to its seed, that `of_seed` made a name of; ("06@mine", 0) of 06@mine."""
    plain, more = re.fullmatch(r"(.*?)(?:[@-]seed-([1-9]\d*))?", run).groups()
    return plain, int(more or 0)


def definition(run: str, tier: str) -> tuple[dict, list[str], str]:
    """Of a named run: its parameters, the runs it reads and the file that says so. Nothing of a notebook's own run.

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
        raise ParameterError(f"{run} is not defined at tier {tier}: add -p key=value, or write {place}")
    values = read_values(file)
    return values, values.pop("reads", None) or [], str(file)


def define(run: str, tier: str, values: dict, reads: list[str]) -> None:
    """Keep what the command line says of a named run, in place of what it said before; what goes is named.

    Raises ParameterError where the name is another's.
    """
    if (plain := without_seed(run)[0]) != run:
        raise ParameterError(f"{run} is {plain} of a higher seed: choose another name")
    file = root() / "params" / tier / f"{run}.yaml"
    if not file.exists():
        own, values = runs() / tier / run / "run.yaml", values | {"reads": reads}
        before, now = ({*each, *each.get("recipe", ()), *each.get("reads", ())} for each in (read_values(own), values))
        if dropped := before - now - {"recipe"}:
            print(f"{run} is defined anew, without its earlier {', '.join(sorted(dropped))}", file=sys.stderr)
        write(own, yaml.safe_dump(values, allow_unicode=True))
    elif definition(run, tier)[:2] != (values, reads):
        raise ParameterError(f"{run} is defined in {file}: change that file, or choose another name")


def resolved(run: str, tier: str, defined: tuple | None = None) -> tuple[dict[str, Parameter], dict, object]:
    """Of a run at a tier: its parameters, their values, and the whole recipe (None without one).

    defined: what stands for its `definition`.
    """
    notebook = notebook_path(run)
    overrides, _, where = defined or definition(run, tier)
    known, values = specification(notebook), resolve(notebook, tier, root() / "params", overrides, where)
    return known, values, whole_recipe(known, values)


def upstream(run: str, tier: str, settled: tuple | None = None, reads: list | None = None, alone=False) -> list[str]:
    """Runs whose results this one reads, as its notebook's `needs` and its own `reads` say.

    settled, reads: values and recipe, and the runs it reads, where they are not those of its definition. alone: it has
    no tables that compare it, as a named run or a stage. Raises ParameterError for a need that is neither a notebook
    nor a kind that some notebook makes, and for a run in `reads` that is not needed.
    """
    notebook, names = run.partition("@")[0], set()
    values, recipe = settled or resolved(run, tier)[1:]
    for need in about(notebook)["needs"]:
        need, _, instead = need.partition(" unless ")
        if (alone or "@" in without_seed(run)[0]) and instead and (values.get(instead) or getattr(recipe, instead, "")):
            continue  # a tier's own run reads it all the same: its table compares them
        several = {need} & {*notebooks()} or makers(need).keys() - {notebook}
        if not several:
            raise ParameterError(f"{notebook} needs {need!r}: no notebook is called so, and no other makes one")
        names |= several
    read = matching(definition(run, tier)[1] if reads is None else reads)
    named = {other.partition("@")[0]: other for other in read}
    if (wrong := sorted(named.keys() - names)) and not alone:
        raise ParameterError(f"{run} reads {named[wrong[0]]}, and needs only {', '.join(sorted(names)) or 'none'}")
    return sorted(named.get(name, name) for name in names)


def reading(run: str, tier: str) -> str:
    """The run and those it reads by notebook, as `paths.RUN` holds them for its kernel."""
    return json.dumps({name.partition("@")[0]: name for name in (run, *upstream(run, tier))})


def by_hand(notebook: str, tier: str) -> dict[str, str]:
    """The variable `paths.RUN` of a notebook that no runner started: a name of its own, the latest of what it needs.

    What the checkout has of a tier is the runner's to write, but for smoke, which nobody keeps: {} there.
    """
    if tier == "smoke" or reports() != root() / "reports":
        return {}

    def ended(name: str) -> str:
        finished = (read_json(outputs(name, tier)["manifest"]) or {}).get("finished")
        return f"{finished} {name}" if finished else ""

    names = {name: max(name, f"{name}@{BY_HAND}", key=ended) for name in upstream(notebook, tier)}
    return {RUN: json.dumps({notebook: f"{notebook}@{BY_HAND}"} | names)}


def matching(names: list[str]) -> list[str]:
    """Full names of the runs that a user typed, in order: 01_dataset_statistics for 01, and with its @mine for 01@mine.

    Raises ParameterError for a name that fits none.
    """
    picked = set()
    for typed in names:
        name, at, own = typed.partition("@")
        if at and (own == BY_HAND or not re.fullmatch(r"\w[\w.-]{0,63}", own)):
            raise ParameterError(f"{typed}: a run's name has letters, digits, '.', '_' and '-', not {BY_HAND}")
        name = Path(name).stem
        hits = {f"{known}{at}{own}" for known in notebooks() if known == name or known.startswith(f"{name}_")}
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
            raise ParameterError(f"notebooks need each other in a circle: {' <- '.join([name, *reversed(above)])}")
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
    return {"stamp": stamp, "manifest": report / "manifest.json", "notebook": report / f"{run}.ipynb"}


def reported(notebook: str, tier: str, folder: Path | None = None) -> list[str]:
    """The named runs of a notebook that have left a report at a tier, in order; none that was made by hand.

    folder: the reports' own, as `paths.published_reports`; the user's by default.
    """
    names = [file.parent.name for file in ((folder or reports()) / tier).glob(f"{notebook}@*/manifest.json")]
    return sorted(name for name in names if not name.endswith(f"@{BY_HAND}"))


def threads(run: str, tier: str, cores: int) -> int:
    """How many threads a job gets: those that train a model all cores, one by one; the others one, side by side.

    Two busy jobs of two threads each collapse on two cores. The small base gains nothing by a second thread.
    """
    return cores if about(run)["gpu"] > 0 and tier not in SMALL_WORLD else 1


# What a run was made of.


@functools.cache
def _read(code: str) -> tuple[frozenset[str], frozenset[str]]:
    """What `code` imports of hs2lib, as dotted names (of a name in a module, the module too), and its short strings.

    Read without running it.
    """
    imports, strings = set(), set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "hs2lib":
            imports |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            imports |= {alias.name for alias in node.names if alias.name.split(".")[0] == "hs2lib"}
        elif isinstance(node, ast.Constant) and re.fullmatch(r"[\w-][\w./-]{0,99}", str(node.value)):
            strings.add(str(node.value))
    return frozenset(imports), frozenset(strings)


def package() -> Path:
    """The folder of hs2lib."""
    return Path(paths.__file__).parent


def module_file(name: str) -> Path:
    """The file of a dotted name of hs2lib, or of the module that holds it. Raises ImportError where neither exists."""
    place = package().joinpath(*name.split(".")[1:])
    for file in (place.with_suffix(".py"), place / "__init__.py", place.parent.with_suffix(".py")):
        if file.is_file():
            return file
    raise ImportError(f"{name} is imported, and hs2lib has no such module")


def data_files(module: Path) -> set[Path]:
    """Files beside a module that a string in it names, as "paper/table-1.csv"; of a folder so named, all in it."""
    places = [module.parent / text for text in _read(module.read_text())[1]]
    rooms = [place for place in places if not (place / "__init__.py").exists()]
    files = {file for place in rooms for file in (place, *place.rglob("*")) if file.is_file()}
    return {file for file in files if file.suffix not in (".py", ".pyc")}


def generates(notebook: str, values: dict, recipe: object) -> bool:
    """Whether the notebook makes rows by `hs2lib.corpus` with these values.

    It does where a source is "embedded", where its code passes that word to a function, and where it dry-runs.
    """
    known = (settings(type(recipe)) if recipe else {}) | specification(notebook_path(notebook))
    named = (vars(recipe) if recipe else {}) | values
    # A model may be called embedded too; a source is a parameter with embedded among its choices.
    chosen = any(named.get(name) == "embedded" and "embedded" in known[name].choices for name in known)
    always = re.search(r"""[(,]\s*(\w+=)?["']embedded["']""", _code(notebook))
    return bool(values.get("dry_run") or chosen or always)


def _code(notebook: str) -> str:
    cells = json.loads(notebook_path(notebook).read_text())["cells"]
    return "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")


def library(notebook: str, generated: bool) -> list[Path]:
    """Files of hs2lib that the notebook uses: modules it imports, directly or through others, and their data files.

    The small world, `hs2lib.corpus`, counts only where rows are `generated`: real data never reach it. Only the rules
    of annotators, by which 04 simulates, count at any tier. How runs are started and judged changes no result, and
    does not count. Raises ImportError as `module_file`.
    """
    corpus, modules, todo = package() / "corpus", set(), [_code(notebook)]
    while todo:
        used = set(map(module_file, _read(todo.pop())[0])) - modules
        used = {file for file in used if generated or corpus not in file.parents or file.name == "rules.py"}
        modules |= used
        todo += [file.read_text() for file in used]
    modules -= {package() / "run" / name for name in ("graph.py", "runner.py", "processes.py")}
    return sorted(modules.union(*map(data_files, modules)))


def reports_read(run: str, tier: str, values: dict, above: list[str]) -> dict[str, Path]:
    """The manifests of the reports that notebook 14 reads, those of named runs too; of another tier as tier/run.

    They lie in one root: the user's own, or with `published` the published ones. above: the own runs that it needs.
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
    """What decides a run's results before it reads any data: parameters, recipe, and by digest code and upstream."""
    above = upstream(run, tier, (values, recipe))
    read = {name: outputs(name, tier)["manifest"] for name in above}
    if "beside" in values:
        read = reports_read(run, tier, values, above)
    used = library(run, generates(run, values, recipe))
    if values.get("model_name") == "small":
        used.append(package() / "corpus" / "base" / "model.safetensors")
    code = {f"hs2lib/{file.relative_to(package()).as_posix()}": file for file in used}
    code[f"notebooks/{notebook_path(run).name}"] = notebook_path(run)
    made = {
        "parameters": {name: value for name, value in values.items() if name != "recipe"},
        "recipe": asdict(recipe) if recipe else {},
        "code": {name: digest(file) for name, file in code.items()},
        "upstream": {name: results(manifest) for name, manifest in sorted(read.items())},
    }
    return json.loads(json.dumps(made))  # as a stamp has it, without tuples


def results(manifest: Path) -> str:
    """Digest of what the artefacts of a manifest say, not of times and devices; "" without any."""
    artefacts = (read_json(manifest) or {}).get("artefacts")
    return paths.content_key(artefacts, 64) if artefacts else ""


# Whether that still holds.


def stamp(run: str, tier: str) -> None:
    """Complete the stamp of a run that has finished, when its executed copy is in place."""
    made = outputs(run, tier)
    kept = read_json(made["stamp"]) | {"manifest": sha256(made["manifest"]), "executed": sha256(made["notebook"])}
    write(made["stamp"], json.dumps(kept, indent=1) + "\n")


def changes(run: str, tier: str, *, again: bool = False) -> list[str]:
    """What has changed since the run, or is missing, in words. again: hash large files again too.

    Judged by its stamp, or by its manifest alone where the run was made elsewhere: then what is not here may be there.
    """
    made = outputs(run, tier)
    kept, manifest = read_json(made["stamp"]) or {}, read_json(made["manifest"]) or {}
    here = kept.get("manifest") == sha256(made["manifest"])
    record = kept if here else manifest
    if not {"code", "parameters", "recipe", "upstream", "read", "written"} <= record.keys():
        return ["its manifest does not say what it was made of"]
    _, values, recipe = resolved(run, tier)
    hide(values)
    now = made_of(run, tier, values, recipe)
    published = json.loads(public(json.dumps(now, ensure_ascii=False)))
    for each in (record, now, published):  # a setting may stand in the cell today, and have stood in the recipe
        each["parameters"] |= each["recipe"]
    out = []
    for part, word in (("parameters", "parameter "), ("code", ""), ("upstream", "results of ")):
        for name in sorted((record[part].keys() | now[part].keys()) - {"recipe"}):
            before, after = record[part].get(name), now[part].get(name)
            if before not in (after, published[part].get(name)):
                both = f" (was {before!r:.40}, is {after!r:.40})" if part == "parameters" else ""
                out.append(f"{word}{name}{both}")
    left = {f"{made['manifest'].parent}/{name}": about["sha256"] for name, about in manifest["artefacts"].items()}
    left |= {str(made["notebook"]): kept["executed"]} if here else {}
    for where, before in (record["read"] | record["written"] | left).items():
        after = digest(path, again=again) if (path := located(where)) else before
        if before != after and (after or here or where in left):
            out.append(public(where) + ("" if after else " is missing"))
    return out


def why_stale(run: str, tier: str, known: dict[str, str] | None = None, *, elsewhere: bool = False) -> str:
    """Why the run has to run again at this tier, in words; empty when it is current.

    known: answers so far, added to. elsewhere: judge its report, whether the run was made here or not.
    """
    known = {} if known is None else known
    if run in known:
        return known[run]
    made = outputs(run, tier)
    missing = [name for name, file in made.items() if not file.exists() and not (elsewhere and name == "stamp")]
    stale = [name for name in upstream(run, tier) if not missing and why_stale(name, tier, known, elsewhere=elsewhere)]
    if "stamp" in missing:
        why = "never run here"
    elif missing:
        why = f"its {' and '.join(missing)} is gone"
    elif stale:
        why = f"{stale[0]} is stale"
    elif not elsewhere and (read_json(made["stamp"]) or {}).get("manifest") != sha256(made["manifest"]):
        why = "its manifest is not the one its stamp names"
    else:
        changed = changes(run, tier)
        more = f" and {len(changed) - 3} more" if len(changed) > 3 else ""
        why = f"changed since: {', '.join(changed[:3])}{more}" if changed else ""
    known[run] = why
    return why
