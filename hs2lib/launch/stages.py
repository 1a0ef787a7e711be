"""Stages: the heavy part of a notebook as a job of its own, in one process or in several.

    python -m hs2lib.run --stage label --tier gpu 11
    torchrun --nproc-per-node 8 -m hs2lib.run --stage score --stream --tier paper 06
    torchrun --nproc-per-node 8 -m hs2lib.run --stage train --tier gpu 05
    torchrun --nproc-per-node 8 -m hs2lib.run --stage evaluate --stream --tier paper 08

`hs2lib.launch.steps` has a function for each: the very statements of the notebook's cells, calls of
library functions, with the run's parameters. What they keep lies in the run folder under names made
of its inputs: a stage that was killed goes on from there, and the notebook, run afterwards, reads
it. A notebook whose cells pass something else than these steps has no stages: it alone knows what
it computes.

Several processes share out all of it: labels, samples, scores, the training, the evaluation of what
was trained. With `--stream` they hold the models in parts, and `export` writes the trained model
out of these, a tensor at a time. Paper: silent (the reference code is started by Slurm's srun).
"""

import ast
import difflib
import functools
import importlib
import json
import os
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

from hs2lib import paths
from hs2lib.paths import RUN, runs
from hs2lib.run import graph, processes
from hs2lib.run.parameters import ParameterError, specification
from hs2lib.run.setup import Setup

STAGES = ("label", "sample", "train", "score", "evaluate", "export")  # in their order

IGNORED = "callbacks"  # a keyword that changes what is shown and nothing else


SOURCE = Path(__file__).with_name("steps.py")  # read here without importing it: that takes seconds

# What a notebook's stages before the last two read. What only its tables compare is not here: SFT
# trains beside the reward model, and DPO after SFT alone.
READS = {
    "06_rewardbench_evaluation": ("05_reward_model_training",),
    "08_dpo": ("07_sft",),
    "09_iterative_dpo": ("05_reward_model_training", "08_dpo"),
    "10_ppo": ("05_reward_model_training", "07_sft"),
    "11_steerlm": ("05_reward_model_training", "07_sft"),
    "12_steerlm2": ("05_reward_model_training", "07_sft", "11_steerlm"),
}


def function_of(run: str, stage: str) -> str:
    """The name of the function of `hs2lib.launch.steps` for a stage of a run's notebook, as train_08."""
    return f"{stage}_{run[:2]}"


def stages_of(run: str) -> list[str]:
    """The stages that a run's notebook has, in their order."""
    return [stage for stage in STAGES if function_of(run, stage) in _functions()]


def statements_of(run: str, stage: str) -> list[ast.stmt]:
    """The statements of a stage, those of the steps that it begins with among them.

    Raises ParameterError where the run's notebook has no such stage.
    """
    ends = stages_of(run)
    if stage not in ends:
        known = f"its stages are {', '.join(ends)}" if ends else "it has none"
        raise ParameterError(f"{run} has no stage {stage}: {known}")
    return _inlined(_functions()[function_of(run, stage)])


def upstream(run: str, tier: str, stage: str) -> list[str]:
    """Runs whose results a stage reads: the last two stages all that the notebook needs, the others
    what `READS` says.

    Raises ParameterError as `statements_of`.
    """
    statements_of(run, stage)
    last = stage in ("evaluate", "export")
    needed = graph.upstream(run, tier, alone=not last)
    notebook = run.partition("@")[0]
    if last or notebook == "13_aligned_model_evaluation":  # it reads every policy
        return needed
    return [other for other in needed if other.partition("@")[0] in READS.get(notebook, ())]


def compute(run: str, tier: str, stage: str) -> None:
    """Run the steps of a stage in this process, one of torchrun's or the only one.

    Raises ParameterError as `check`, BlockingIOError as `processes.hold`.
    """
    check(run, stage)
    began = time.time()
    if "LOCAL_RANK" in os.environ:  # one of several: "cuda" is then this process's own GPU
        import torch
        from accelerate import PartialState

        # A process may wait for days while the first one asks a server.
        PartialState(cpu=not torch.cuda.is_available(), timeout=timedelta(days=30))
    with processes.hold(runs()) as lock:
        os.dup(
            lock.fileno()
        )  # so that the end of this process alone frees it, however long it fails
        steps = importlib.import_module("hs2lib.launch.steps")
        before = os.environ.get(RUN, "")
        os.environ[RUN] = graph.reading(run, tier)
        try:
            getattr(steps, function_of(run, stage))(Setup.of_run(run, tier))
        finally:
            os.environ[RUN] = before
    if os.environ.get("RANK", "0") == "0":
        print(f"{tier} {run}: {stage} done in {time.time() - began:.0f} s", flush=True)


# Whether a notebook's cells are these steps

# Nodes that bind their `name`.
NAMED = (
    ast.FunctionDef
    | ast.AsyncFunctionDef
    | ast.ClassDef
    | ast.ExceptHandler
    | ast.MatchAs
    | ast.MatchStar
)

REACHES = {
    "exec",
    "eval",
    "setattr",
    "delattr",
    "globals",
    "locals",
    "vars",
}  # calls that can change any name


def check(run: str, stage: str) -> None:
    """Raise ParameterError where the notebook's cells pass something else than the steps of the
    stage.

    Every step has to stand in a cell once, as it is and in this order; and up to the last of them
    no other statement may bind, change or import otherwise a name that the steps use, or begin the
    run with other parameters.
    """
    notebook = run.partition("@")[0]
    wanted = statements_of(run, stage)
    cells = _cells(notebook)
    start = _text(ast.parse(f"run = report.start({notebook!r}, globals())").body[0])
    own = [start, "setup = run.setup", *(_text(step) for step in wanted)]
    texts = [_text(statement) for _, _, statement in cells]
    for step in (ast.parse(text).body[0] for text in own):
        if texts.count(_text(step)) == 0:
            raise ParameterError(
                _missing(run, stage, step, [(id, statement) for id, _, statement in cells])
            )
        if texts.count(_text(step)) > 1:
            what = f"notebook {notebook} has `{_first_line(step)}` {texts.count(_text(step))} times"
            raise ParameterError(f"{what}, and --stage {stage} once: run the notebook itself")
    order = [texts.index(text) for text in own]
    if order != sorted(order):
        early = next(
            text for text, at, before in zip(own[1:], order[1:], order, strict=False) if at < before
        )
        what = f"notebook {notebook} has `{early.splitlines()[0]}` at another place"
        raise ParameterError(f"{what} than --stage {stage}: run the notebook itself")
    _check_imports(run, stage, wanted, [statement for _, _, statement in cells])
    made = {name for text in own for name in _bound(ast.parse(text).body[0])}
    used = {
        node.id for text in own for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)
    }
    parameters = set(specification(paths.notebook(notebook)))
    imports = _imports(_module().body) | {"report": "hs2lib.report.report"}
    for id, at, statement in cells[: order[-1]]:
        if texts[at] in own:
            continue
        names = used | (parameters if at < order[0] else set())
        changed = _changes(statement, names, made, imports)
        if changed:
            what = (
                f"cell {id!r} of notebook {notebook} changes {changed!r} ({_first_line(statement)})"
            )
            raise ParameterError(f"{what}, and --stage {stage} would not: run the notebook itself")


def _changes(statement: ast.stmt, names: set[str], made: set[str], imports: dict[str, str]) -> str:
    """A name that a statement may change of those that the steps use, "" where it changes none.

    made: of these names the ones that the steps bind themselves: their methods may change them.
    """
    if isinstance(statement, ast.ImportFrom):
        for alias in statement.names:
            name = alias.asname or alias.name
            another = name in names and imports.get(name) != f"{statement.module}.{alias.name}"
            if alias.name == "*" or another:
                return name
        return ""
    for node in _walk(statement):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in REACHES
        ):
            return node.func.id
    changed = sorted(_bound(statement) & names)
    if changed:
        return changed[0]
    value = getattr(statement, "value", None)
    if (
        isinstance(statement, ast.Assign)
        and isinstance(value, ast.Name)
        and value.id in made - {"run"}
    ):
        return value.id  # another name for it, through which it may be changed
    if (
        isinstance(statement, ast.Expr)
        and isinstance(value, ast.Call)
        and isinstance(value.func, ast.Attribute)
    ):
        owner = value.func.value
        while isinstance(owner, ast.Attribute | ast.Subscript):
            owner = owner.value
        if isinstance(owner, ast.Name) and owner.id in made - {"run"}:
            return owner.id
    return ""


def _walk(statement: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a statement, but for the bodies of functions and what comprehensions bind: names of their own."""
    yield statement
    inner = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
    for child in ast.iter_child_nodes(statement):
        if isinstance(child, ast.comprehension):
            yield from _walk(child.iter)
        elif isinstance(child, ast.Lambda) or (
            isinstance(statement, inner) and isinstance(child, ast.stmt)
        ):
            continue
        else:
            yield from _walk(child)


@functools.cache
def _module() -> ast.Module:
    """The module of all steps, read and not run."""
    return ast.parse(SOURCE.read_text())


def _functions() -> dict[str, ast.FunctionDef]:
    """The functions of that module, by name."""
    return {node.name: node for node in _module().body if isinstance(node, ast.FunctionDef)}


def _inlined(function: ast.FunctionDef) -> list[ast.stmt]:
    """The statements of a function of steps, with those of another one in the place of its call."""
    statements = []
    for statement in function.body:
        value = getattr(statement, "value", None)
        if isinstance(statement, ast.Return) or isinstance(value, ast.Constant):  # a docstring
            continue
        called = (
            value.func.id
            if isinstance(value, ast.Call) and isinstance(value.func, ast.Name)
            else ""
        )
        statements += _inlined(_functions()[called]) if called in _functions() else [statement]
    return statements


def _cells(notebook: str) -> list[tuple[str, int, ast.stmt]]:
    """(cell id, position, statement) of every statement of the notebook's code cells but the parameters'."""
    source = json.loads(paths.notebook(notebook).read_text())["cells"]
    out = []
    for cell in source:
        if cell["cell_type"] == "code" and "parameters" not in cell["metadata"].get("tags", ()):
            for statement in ast.parse("".join(cell["source"])).body:
                out.append((cell["id"], len(out), statement))
    return out


class _WithoutCallbacks(ast.NodeTransformer):
    def visit_Call(self, node: ast.Call) -> ast.Call:
        self.generic_visit(node)
        node.keywords = [keyword for keyword in node.keywords if keyword.arg != IGNORED]
        return node


def _text(statement: ast.stmt) -> str:
    """A statement as text, without what changes nothing."""
    copied = ast.parse(ast.unparse(statement))
    return ast.unparse(_WithoutCallbacks().visit(copied))


def _first_line(statement: ast.stmt) -> str:
    return ast.unparse(statement).splitlines()[0]


def _bound(statement: ast.stmt) -> set[str]:
    """The names that a statement binds, deletes, or changes a part of."""
    names = set()
    for node in _walk(statement):
        if (
            isinstance(node, ast.Attribute) and ast.unparse(node) == "run.warning"
        ):  # of captions alone
            continue
        if isinstance(node, ast.Name | ast.Attribute | ast.Subscript) and isinstance(
            node.ctx, ast.Store | ast.Del
        ):
            while isinstance(node, ast.Attribute | ast.Subscript):
                node = node.value
            if isinstance(node, ast.Name):
                names.add(node.id)
        elif isinstance(node, NAMED):
            names.add(node.name or "")
        elif isinstance(node, ast.alias):
            names.add((node.asname or node.name).partition(".")[0])
    return names


def _missing(run: str, stage: str, step: ast.stmt, cells: list[tuple[str, ast.stmt]]) -> str:
    """What to say of a step that no cell has."""
    alike = [(id, statement) for id, statement in cells if _bound(step) & _bound(statement)]
    by_text = {ast.unparse(statement): id for id, statement in alike or cells}
    near = difflib.get_close_matches(ast.unparse(step), by_text, 1, 0.5)
    there = f"cell {by_text[near[0]]!r} has `{near[0]}`" if near else "no cell has anything like it"
    return f"--stage {stage} of {run} would run `{ast.unparse(step)}`, and {there}: run the notebook itself"


def _check_imports(run: str, stage: str, wanted: list[ast.stmt], cells: list[ast.stmt]) -> None:
    """Raise ParameterError where a name that the steps import is another thing in the notebook."""
    ours = _imports(_module().body)
    theirs = _imports(cells)
    used = {node.id for step in wanted for node in ast.walk(step) if isinstance(node, ast.Name)}
    bound = {name for step in wanted for name in _bound(step)}
    for name in sorted((used & ours.keys()) - bound):
        if theirs.get(name) != ours[name]:
            what = f"{name} is {theirs.get(name, 'not imported')} in the notebook and {ours[name]} in its steps"
            raise ParameterError(f"--stage {stage} of {run}: {what}: run the notebook itself")


def _imports(statements: list[ast.stmt]) -> dict[str, str]:
    """The names that `from .. import ..` binds, and what they are."""
    names = {}
    for statement in statements:
        if isinstance(statement, ast.ImportFrom):
            for alias in statement.names:
                names[alias.asname or alias.name] = f"{statement.module}.{alias.name}"
    return names
