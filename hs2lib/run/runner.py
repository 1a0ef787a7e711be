"""Run notebooks from the command line: which are stale and why, in what order, by Snakemake and papermill.

A notebook is current at a tier when its report exists and its stamp, `runs/<tier>/<notebook>/stamp.json`, holds the
digests that its inputs have now: the notebook, its parameters, the modules and data files of hs2lib that it uses at
this tier, the manifests of the notebooks that it needs. The Snakefile runs all others, each after what it needs.
"""

import argparse
import ast
import contextlib
import functools
import hashlib
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
import yaml

import hs2lib
from hs2lib.paths import notebook as notebook_path
from hs2lib.paths import reports, root, runs, write
from hs2lib.run import processes
from hs2lib.run.parameters import Parameter, ParameterError, resolve, settings, specification, whole_recipe

SMALL_WORLD = ("smoke", "demo")  # tiers of generated data: on the CPU, unless HS2_DEVICE=cuda asks for a GPU

TIERS: dict[str, str] = yaml.safe_load((Path(__file__).parent / "tiers.yaml").read_text())


def notebooks() -> list[str]:
    """Names of all notebooks, in order."""
    return sorted(p.stem for p in (root() / "notebooks").glob("[0-9][0-9]_*.ipynb"))


def about(notebook: str) -> dict:
    """The notebook's `hs2` metadata: how many GPUs it wants, what it makes and what it needs.

    `gpu`: a number. `makes`: kind of thing -> its title in tables, as {"policy": "DPO"}. `needs`: kinds, which stand
    for every other notebook that makes one, and names of notebooks.
    """
    # Not by nbformat: a status reads every notebook a hundred times, and checks of the schema are slow.
    metadata = json.loads(notebook_path(notebook).read_text())["metadata"]
    return {"gpu": 0, "makes": {}, "needs": []} | metadata.get("hs2", {})


def makers(kind: str) -> dict[str, str]:
    """Notebooks that make a thing of this kind, with its title in tables: {"08_dpo": "DPO", ..} for "policy"."""
    made = {name: about(name)["makes"] for name in notebooks()}
    return {name: kinds[kind] for name, kinds in made.items() if kind in kinds}


def upstream(notebook: str) -> list[str]:
    """Notebooks whose results this one reads, as its `needs` say.

    Raises ParameterError for a need that is neither a notebook nor a kind that some notebook makes.
    """
    names: set[str] = set()
    for need in about(notebook)["needs"]:
        several = [need] if need in notebooks() else [name for name in makers(need) if name != notebook]
        if not several:
            kinds = sorted({kind for name in notebooks() for kind in about(name)["makes"]})
            raise ParameterError(f"{notebook} needs {need!r}: no notebook is called so, and none makes one of {kinds}")
        names.update(several)
    return sorted(names)


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
    return Path(hs2lib.__file__).parent


def module_file(name: str) -> Path:
    """The file of a dotted name of hs2lib, or of the module that holds it. Raises ImportError where neither exists."""
    parts = name.split(".")[1:]
    for size in range(len(parts), -1, -1):
        place = package().joinpath(*parts[:size])
        file = next((f for f in (place.with_suffix(".py"), place / "__init__.py") if f.is_file()), None)
        if file and len(parts) - size <= (file.name != "__init__.py"):
            return file
    raise ImportError(f"{name} is imported, and hs2lib has no such module")


def data_files(module: Path) -> set[Path]:
    """Files beside a module that a string in it names, as "paper/table-1.csv"; of a folder so named, all in it."""
    files: set[Path] = set()
    for text in _read(module.read_text())[1]:
        place = module.parent / text
        if place.is_dir() and not (place / "__init__.py").exists():
            files |= {file for file in place.rglob("*") if file.is_file()}
        elif place.is_file():
            files.add(place)
    return {file for file in files if file.suffix not in (".py", ".pyc")}


def resolved(notebook: str, tier: str) -> tuple[dict[str, Parameter], dict, object]:
    """Of a notebook at a tier: its parameters, their values, and the whole recipe (None without one)."""
    known = specification(notebook_path(notebook))
    values = resolve(notebook_path(notebook), tier, root() / "params")
    return known, values, whole_recipe(known, values)


def generates(notebook: str, tier: str) -> bool:
    """Whether the notebook makes rows by `hs2lib.corpus` at this tier.

    It does where a source is "embedded", where its code passes that word to a function, and where it dry-runs.
    """
    known, values, recipe = resolved(notebook, tier)
    named = [(p, values[name]) for name, p in known.items()]
    named += [(p, getattr(recipe, name)) for name, p in settings(type(recipe)).items()] if recipe else []
    # A model may be called embedded too; a source is a parameter with embedded among its choices.
    chosen = any(value == "embedded" and "embedded" in p.choices for p, value in named)
    calls = [node for node in ast.walk(ast.parse(_code(notebook))) if isinstance(node, ast.Call)]
    passed = [part for call in calls for part in (*call.args, *(keyword.value for keyword in call.keywords))]
    always = any(isinstance(part, ast.Constant) and part.value == "embedded" for part in passed)
    return values.get("dry_run", False) or chosen or always


def _code(notebook: str) -> str:
    cells = json.loads(notebook_path(notebook).read_text())["cells"]
    return "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")


def library(notebook: str, generated: bool) -> list[Path]:
    """Files of hs2lib that the notebook uses: modules it imports, directly or through others, and their data files.

    The small world, `hs2lib.corpus`, counts only where rows are `generated`: real data never reach it. Only the rules
    of annotators, by which 04 simulates, count at any tier. Raises ImportError as `module_file`.
    """
    corpus = package() / "corpus"
    todo = list(map(module_file, _read(_code(notebook))[0]))
    todo = [file for file in todo if generated or corpus not in file.parents or file.name == "rules.py"]
    modules: set[Path] = set()
    while todo:
        file = todo.pop()
        if file not in modules:
            modules.add(file)
            used = map(module_file, _read(file.read_text())[0])
            todo += [f for f in used if generated or corpus in file.parents or corpus not in f.parents]
    return sorted(modules.union(*map(data_files, modules)))


def inputs(notebook: str, tier: str) -> dict[str, Path]:
    """Every file that decides what the notebook gives at this tier, by the name the stamp uses. Missing ones too."""
    files = {f"notebooks/{notebook}.ipynb": notebook_path(notebook)}
    parameters = root() / "params" / tier / f"{notebook}.yaml"
    files |= {f"params/{tier}/{notebook}.yaml": parameters} if parameters.exists() else {}
    used = library(notebook, generates(notebook, tier))
    files |= {f"hs2lib/{file.relative_to(package())}": file for file in used}
    if resolved(notebook, tier)[1].get("model_name") == "small":
        files["hs2lib/corpus/base/model.safetensors"] = package() / "corpus" / "base" / "model.safetensors"
    files |= {f"upstream {name}": reports() / tier / name / "manifest.json" for name in upstream(notebook)}
    return files


def outputs(notebook: str, tier: str) -> dict[str, Path]:
    """The three files a complete run leaves: its stamp, its manifest and the executed copy."""
    report = reports() / tier / notebook
    return {
        "stamp": runs() / tier / notebook / "stamp.json",
        "manifest": report / "manifest.json",
        "notebook": report / f"{notebook}.ipynb",
    }


def threads(notebook: str, tier: str, cores: int) -> int:
    """How many threads a job gets: those that train a model all cores, one by one; the others one, side by side.

    Two busy jobs of two threads each collapse on two cores. The small base gains nothing by a second thread.
    """
    return cores if about(notebook)["gpu"] > 0 and tier not in SMALL_WORLD else 1


def _content(file: Path) -> bytes:
    return file.read_bytes() if file.exists() else b""


def _digest(file: Path) -> str:
    """Digest of a file; of a manifest, only of what its artefacts say (not of times and devices)."""
    content = _content(file)
    if file.name == "manifest.json":
        with contextlib.suppress(ValueError, KeyError, TypeError):  # none, or half of one
            content = json.dumps(json.loads(content)["artefacts"], sort_keys=True).encode()
    return hashlib.sha256(content).hexdigest()


def digests(notebook: str, tier: str) -> dict[str, str]:
    """What the stamp holds: a digest of each input, and one of the whole recipe, whose defaults lie in a module."""
    recipe = repr(resolved(notebook, tier)[2]).encode()
    made = {name: _digest(file) for name, file in inputs(notebook, tier).items()}
    return made | {"recipe": hashlib.sha256(recipe).hexdigest()}


def _stamp(file: Path) -> dict:
    """What a stamp holds; {} where it is empty, cut short or no stamp."""
    try:
        content = json.loads(file.read_text())
    except ValueError:
        return {}
    return content if isinstance(content, dict) else {}


def why_stale(notebook: str, tier: str, known: dict[str, str] | None = None) -> str:
    """Why the notebook has to run at this tier, in words; empty when it is current. known: answers so far, added to."""
    known = {} if known is None else known
    if notebook in known:
        return known[notebook]
    made = outputs(notebook, tier)
    missing = [name for name, file in made.items() if not file.exists()]
    stale = [name for name in upstream(notebook) if not missing and why_stale(name, tier, known)]
    if "stamp" in missing:
        why = "never run here"
    elif missing:
        why = f"its {' and '.join(missing)} is gone"
    elif stale:
        why = f"{stale[0]} is stale"
    elif not (then := _stamp(made["stamp"])):
        why = "its stamp cannot be read"
    else:
        now = digests(notebook, tier)
        changed = [name for name in sorted(then.keys() | now.keys()) if then.get(name) != now.get(name)]
        why = f"changed since: {', '.join(changed)}" if changed else ""
    known[notebook] = why
    return why


def with_upstream(names: list[str]) -> list[str]:
    """`names` and all they depend on, each after what it needs, else in the notebooks' order.

    Raises ParameterError where notebooks need each other in a circle.
    """
    ordered: list[str] = []

    def add(name: str, above: list[str]) -> None:
        if name in above:
            raise ParameterError(f"notebooks need each other in a circle: {' <- '.join([name, *reversed(above)])}")
        if name not in ordered:
            for need in upstream(name):
                add(need, [*above, name])
            ordered.append(name)

    for name in sorted(names):
        add(name, [])
    return ordered


def chosen(names: list[str]) -> list[str]:
    """Full notebook names for what a user typed, each after what it needs.

    All of them for none, and '01' for 01_dataset_statistics. Raises ParameterError for a name that fits none.
    """
    picked = set()
    for name in names or notebooks():
        hits = {n for n in notebooks() if n == Path(name).stem or n.startswith(f"{name}_")}
        if not hits:
            raise ParameterError(f"no notebook {name!r}; known: {', '.join(notebooks())}")
        picked |= hits
    return [name for name in with_upstream(sorted(picked)) if name in picked]


def doubled(text: str) -> str:
    """Text with its braces doubled, for Snakemake and papermill, which fill in what stands between single ones."""
    return text.replace("{", "{{").replace("}", "}}")


def execute(notebook: str, tier: str, locks: list[TextIO]) -> None:
    """Run one notebook with papermill, then put its executed copy in place and, last, the stamp.

    locks: files that its kernel keeps open, as `processes.hold` gives them. Raises papermill's PapermillExecutionError
    with the failing cell; the partial copy stays in the run folder.
    """
    import papermill
    from jupyter_client.manager import AsyncKernelManager

    class OwnedKernel(AsyncKernelManager):
        async def start_kernel(self, **options):
            await super().start_kernel(**options, **processes.owned(locks))

    made = outputs(notebook, tier)
    values = resolved(notebook, tier)[1]
    stamp, began, earlier = digests(notebook, tier), time.time(), _content(made["manifest"])
    print(f"{tier} {notebook} ...", flush=True)
    made["stamp"].unlink(missing_ok=True)
    if tier in SMALL_WORLD and os.environ.get("HS2_DEVICE") != "cuda":
        os.environ["CUDA_VISIBLE_DEVICES"] = ""  # the same numbers on every machine
    partial = made["stamp"].with_name("executed.ipynb")
    partial.parent.mkdir(parents=True, exist_ok=True)
    # On a busy machine a kernel takes longer than papermill's 60 s to start; every kernel would warn of loopback.
    options = {"start_timeout": 600, "extra_arguments": ["--IPKernelApp.log_level=40"]}
    options |= {"kernel_name": "python3", "progress_bar": sys.stderr.isatty(), "kernel_manager_class": OwnedKernel}
    source, target = (doubled(str(path)) for path in (notebook_path(notebook), partial))
    papermill.execute_notebook(source, target, values, cwd=root() / "notebooks", **options)
    if _content(made["manifest"]) == earlier:
        raise RuntimeError(f"{notebook} ended without run.finish(): no manifest in {made['manifest'].parent}")
    done = nbformat.read(partial, 4)
    for part in (done, *done.cells):  # times and paths of this machine; the manifest holds what matters
        for name in ("papermill", "execution", "widgets"):
            part.metadata.pop(name, None)
    text = nbformat.writes(done).replace(f"{root()}/", "")  # warnings name files
    write(made["notebook"], text + "\n")
    partial.unlink()
    write(made["stamp"], json.dumps(stamp, indent=1) + "\n")
    print(f"{tier} {notebook} done in {time.time() - began:.0f} s", flush=True)


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
                f"{path} has faults (above), and nothing was run: {', '.join(stopped)} would stop at it"
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
    """A page: each tier, each notebook, and whether it is current or why not."""
    lines = []
    for tier in tiers:
        known: dict[str, str] = {}
        lines.append(f"{tier}: {TIERS[tier]}")
        for name in with_upstream(notebooks()):
            lines.append(f"  {name:32} {why_stale(name, tier, known) or 'current'}")
    return "\n".join(lines)


def listed(notebook: str, tier: str) -> str:
    """A page: each parameter with its value at this tier, then the settings of the whole recipe."""
    known, values, recipe = resolved(notebook, tier)
    rows = [("  ", p, values[name]) for name, p in known.items() if not p.recipe]
    more = settings(type(recipe)) if recipe else {}
    rows += [("  recipe.", p, getattr(recipe, name)) for name, p in more.items() if name not in known]
    lines = [
        f"{indent}{p.name}: {p.type.__name__} = {value!r}  # {'; '.join(filter(None, [p.help, p.limits]))}"
        for indent, p, value in rows
    ]
    return "\n".join([notebook, *lines])


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
        epilog=f"Tiers, notebooks, and what is stale:\n\n{known}\n\nOptions after -- go to Snakemake "
        "(for example: -- --workflow-profile profiles/slurm).",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("notebook", nargs="*", help="names or numbers (01); all by default, with what they depend on")
    parser.add_argument("--tier", choices=list(TIERS), default="smoke", help="which tier (default: smoke)")
    parser.add_argument(
        "--cores", type=at_least_one, default=os.cpu_count(), help="notebooks at a time (default: all cores)"
    )
    parser.add_argument("--list", action="store_true", help="say what is stale and why, run nothing")
    parser.add_argument("--parameters", action="store_true", help="list parameters and recipes, run nothing")
    parser.add_argument("--execute", action="store_true", help="run one notebook now, without Snakemake")
    split = words.index("--") if "--" in words else len(words)
    args = parser.parse_args(words[:split])
    try:
        names = chosen(args.notebook)
        for name in with_upstream(names):  # every file is checked before anything runs
            resolved(name, args.tier)
        if args.list:
            print(status([args.tier]))
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
            stale = [name for name in with_upstream(names) if why_stale(name, args.tier, known_stale)]
            if stale:
                return snakemake(stale, args.tier, args.cores, words[split + 1 :], locks)
            print(f"{args.tier}: all current, nothing to run", file=sys.stderr)
    except (OSError, ParameterError, ImportError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
