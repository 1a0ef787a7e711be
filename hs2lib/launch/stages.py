"""Stages: the heavy part of a notebook as a job of its own, in one process or in several.

    python -m hs2lib.run --stage label --tier gpu 11
    torchrun --nproc-per-node 8 -m hs2lib.run --stage score --stream --tier paper 06
    torchrun --nproc-per-node 8 -m hs2lib.run --stage train --tier gpu 05
    torchrun --nproc-per-node 8 -m hs2lib.run --stage evaluate --stream --tier paper 08

`hs2lib.launch.steps` has a function for each: the very statements of the notebook's cells, calls of
library functions, with the run's parameters. What they keep lies in the run folder under names made
of its inputs. So a stage that was killed goes on from there, and the notebook, run afterwards,
reads it. A notebook whose cells pass something else than these steps has no stages: it alone knows
what it computes.

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
    "16_reward_benchmarks_of_today": ("05_reward_model_training",),
}


def function_of(run: str, stage: str) -> str:
    """The name of the function in `hs2lib.launch.steps` for a stage of a run, as train_08."""
    return f"{stage}_{run[:2]}"


def stages_of(run: str) -> list[str]:
    """The stages that a run's notebook has, in their order."""
    return [stage for stage in STAGES if function_of(run, stage) in _functions()]


def statements_of(run: str, stage: str) -> list[ast.stmt]:
    """The statements of a stage, those of the steps that it begins with among them.

    Raises ParameterError where the run's notebook has no such stage.
    """
    available = stages_of(run)
    if stage not in available:
        hint = f"its stages are {', '.join(available)}" if available else "it has none"
        raise ParameterError(f"{run} has no stage {stage}: {hint}")
    return _inlined(_functions()[function_of(run, stage)])


def upstream(run: str, tier: str, stage: str) -> list[str]:
    """Runs whose results a stage reads.

    The last two stages read all that the notebook needs, the others what `READS` says. Raises
    ParameterError as `statements_of`.
    """
    statements_of(run, stage)
    is_last = stage in ("evaluate", "export")
    needed = graph.upstream(run, tier, alone=not is_last)
    notebook = run.partition("@")[0]
    if is_last or notebook == "13_aligned_model_evaluation":  # it reads every policy
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
        # A second descriptor, never closed: the end of this process alone frees the lock, however
        # long it fails.
        os.dup(lock.fileno())
        steps = importlib.import_module("hs2lib.launch.steps")
        before = os.environ.get(RUN)
        os.environ[RUN] = graph.reading(run, tier)
        try:
            getattr(steps, function_of(run, stage))(Setup.of_run(run, tier))
        finally:
            if before is None:  # an empty one would say that the runner runs a notebook
                del os.environ[RUN]
            else:
                os.environ[RUN] = before
    if os.environ.get("RANK", "0") == "0":
        print(f"{tier} {run}: {stage} done in {time.time() - began:.0f} s", flush=True)


# Whether a notebook's cells are these steps.

# Nodes that bind their `name`.
NAMED = (
    ast.FunctionDef
    | ast.AsyncFunctionDef
    | ast.ClassDef
    | ast.ExceptHandler
    | ast.MatchAs
    | ast.MatchStar
)

# Calls that can change any name.
REACHES = {"exec", "eval", "setattr", "delattr", "globals", "locals", "vars"}

CellStatement = tuple[str, ast.stmt]  # the id of a cell, and a statement of it


def check(run: str, stage: str) -> None:
    """Raise ParameterError where the notebook's cells pass something else than the stage's steps.

    Every step has to stand in a cell once, as it is and in this order. Up to the last of them no
    other statement may bind, change or import otherwise a name that the steps use, or begin the run
    with other parameters.
    """
    notebook = run.partition("@")[0]
    steps = statements_of(run, stage)
    cells = _cells(notebook)
    start = _text(ast.parse(f"run = report.start({notebook!r}, globals())").body[0])
    step_texts = [start, "setup = run.setup", *(_text(step) for step in steps)]
    cell_texts = [_text(statement) for _, statement in cells]
    _check_each_once(run, stage, step_texts, cell_texts, cells)
    positions = [cell_texts.index(text) for text in step_texts]
    _check_order(notebook, stage, step_texts, positions)
    _check_imports(run, stage, steps, [statement for _, statement in cells])

    bound: set[str] = set()
    used: set[str] = set()
    for text in step_texts:
        step = ast.parse(text).body[0]
        bound |= _bound(step)
        used |= _names_in(step)
    parameters = set(specification(paths.notebook(notebook)))
    imports = _imports(_module().body) | {"report": "hs2lib.report.report"}
    for position, (cell_id, statement) in enumerate(cells[: positions[-1]]):
        if cell_texts[position] in step_texts:
            continue
        names = used | parameters if position < positions[0] else used
        changed = _changes(statement, names, bound, imports)
        if changed:
            raise ParameterError(
                f"cell {cell_id!r} of notebook {notebook} changes {changed!r} "
                f"({_first_line(statement)}), and --stage {stage} would not: "
                "run the notebook itself"
            )


def _check_each_once(
    run: str,
    stage: str,
    step_texts: list[str],
    cell_texts: list[str],
    cells: list[CellStatement],
) -> None:
    """Raise ParameterError where a step does not stand in the cells, or more than once."""
    for text in step_texts:
        step = ast.parse(text).body[0]
        times = cell_texts.count(text)
        if times == 0:
            raise ParameterError(_missing(run, stage, step, cells))
        if times > 1:
            raise ParameterError(
                f"notebook {run.partition('@')[0]} has `{_first_line(step)}` {times} times, "
                f"and --stage {stage} once: run the notebook itself"
            )


def _check_order(notebook: str, stage: str, step_texts: list[str], positions: list[int]) -> None:
    """Raise ParameterError where the steps stand in the cells in another order."""
    for number in range(1, len(positions)):
        if positions[number] < positions[number - 1]:
            raise ParameterError(
                f"notebook {notebook} has `{step_texts[number].splitlines()[0]}` at another place "
                f"than --stage {stage}: run the notebook itself"
            )


def _changes(statement: ast.stmt, names: set[str], bound: set[str], imports: dict[str, str]) -> str:
    """A name that a statement of a cell may change; "" where it changes none.

    Args:
        statement: one that is no step.
        names: those that the steps use; only these are looked for.
        bound: those that the steps bind. Their methods may change what they hold.
        imports: what the steps import, by name.
    """
    if isinstance(statement, ast.ImportFrom):
        return _imported_otherwise(statement, names, imports)
    for node in _walk(statement):
        if isinstance(node, ast.Call) and _plain_name(node.func) in REACHES:
            return _plain_name(node.func)
    changed = sorted(_bound(statement) & names)
    if changed:
        return changed[0]
    objects = bound - {"run"}
    if isinstance(statement, ast.Assign) and _plain_name(statement.value) in objects:
        return _plain_name(statement.value)  # another name for it, through which it may be changed
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        called = statement.value.func
        if isinstance(called, ast.Attribute) and _plain_name(_owner(called)) in objects:
            return _plain_name(_owner(called))
    return ""


def _imported_otherwise(statement: ast.ImportFrom, names: set[str], imports: dict[str, str]) -> str:
    """A name among `names` that a statement imports from elsewhere; "" without one."""
    for alias in statement.names:
        name = alias.asname or alias.name
        differs = imports.get(name) != f"{statement.module}.{alias.name}"
        if alias.name == "*" or (name in names and differs):
            return name
    return ""


def _plain_name(node: ast.expr) -> str:
    """The name that an expression is; "" where it is anything else."""
    return node.id if isinstance(node, ast.Name) else ""


def _owner(node: ast.expr) -> ast.expr:
    """What an attribute or an item is taken of: `a` of `a.b[0].c`."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node


def _names_in(tree: ast.AST) -> set[str]:
    """All names in a tree."""
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


def _walk(statement: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a statement but for names of their own.

    Those are the bodies of functions, and what comprehensions bind.
    """
    yield statement
    is_function = isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
    for child in ast.iter_child_nodes(statement):
        if isinstance(child, ast.comprehension):
            yield from _walk(child.iter)
        elif isinstance(child, ast.Lambda) or (is_function and isinstance(child, ast.stmt)):
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
    """The statements of a function of steps.

    A call of another such function is replaced by the statements of that one.
    """
    statements: list[ast.stmt] = []
    for statement in function.body:
        value = getattr(statement, "value", None)
        if isinstance(statement, ast.Return) or isinstance(value, ast.Constant):  # a docstring
            continue
        called = _plain_name(value.func) if isinstance(value, ast.Call) else ""
        if called in _functions():
            statements += _inlined(_functions()[called])
        else:
            statements.append(statement)
    return statements


def _cells(notebook: str) -> list[CellStatement]:
    """Every statement of the notebook's code cells but the parameters'."""
    statements = []
    for cell in json.loads(paths.notebook(notebook).read_text())["cells"]:
        if cell["cell_type"] == "code" and "parameters" not in cell["metadata"].get("tags", ()):
            for statement in ast.parse("".join(cell["source"])).body:
                statements.append((cell["id"], statement))
    return statements


class _WithoutCallbacks(ast.NodeTransformer):
    """Takes the keyword `IGNORED` out of every call."""

    def visit_Call(self, node: ast.Call) -> ast.Call:
        self.generic_visit(node)
        node.keywords = [keyword for keyword in node.keywords if keyword.arg != IGNORED]
        return node


def _text(statement: ast.stmt) -> str:
    """A statement as text, without what changes nothing."""
    copied = ast.parse(ast.unparse(statement))
    return ast.unparse(_WithoutCallbacks().visit(copied))


def _first_line(statement: ast.stmt) -> str:
    """The first line of a statement as text."""
    return ast.unparse(statement).splitlines()[0]


def _bound(statement: ast.stmt) -> set[str]:
    """The names that a statement binds, deletes, or changes a part of."""
    names = set()
    for node in _walk(statement):
        if isinstance(node, ast.Attribute) and ast.unparse(node) == "run.warning":
            continue  # a matter of captions alone
        if isinstance(node, ast.Name | ast.Attribute | ast.Subscript):
            if isinstance(node.ctx, ast.Store | ast.Del) and _plain_name(_owner(node)):
                names.add(_plain_name(_owner(node)))
        elif isinstance(node, NAMED):
            names.add(node.name or "")
        elif isinstance(node, ast.alias):
            names.add((node.asname or node.name).partition(".")[0])
    return names


def _missing(run: str, stage: str, step: ast.stmt, cells: list[CellStatement]) -> str:
    """What to say of a step that no cell has."""
    alike = [(cell, statement) for cell, statement in cells if _bound(step) & _bound(statement)]
    cell_of = {ast.unparse(statement): cell for cell, statement in alike or cells}
    nearest = difflib.get_close_matches(ast.unparse(step), cell_of, 1, 0.5)
    if nearest:
        hint = f"cell {cell_of[nearest[0]]!r} has `{nearest[0]}`"
    else:
        hint = "no cell has anything like it"
    return (
        f"--stage {stage} of {run} would run `{ast.unparse(step)}`, and {hint}: "
        "run the notebook itself"
    )


def _check_imports(run: str, stage: str, steps: list[ast.stmt], cells: list[ast.stmt]) -> None:
    """Raise ParameterError where a name that the steps import is another thing in the notebook."""
    in_steps = _imports(_module().body)
    in_notebook = _imports(cells)
    used: set[str] = set()
    bound: set[str] = set()
    for step in steps:
        used |= _names_in(step)
        bound |= _bound(step)
    for name in sorted((used & in_steps.keys()) - bound):
        if in_notebook.get(name) != in_steps[name]:
            raise ParameterError(
                f"--stage {stage} of {run}: {name} is {in_notebook.get(name, 'not imported')} "
                f"in the notebook and {in_steps[name]} in its steps: run the notebook itself"
            )


def _imports(statements: list[ast.stmt]) -> dict[str, str]:
    """The names that `from .. import ..` binds, and what they are."""
    names = {}
    for statement in statements:
        if isinstance(statement, ast.ImportFrom):
            for alias in statement.names:
                names[alias.asname or alias.name] = f"{statement.module}.{alias.name}"
    return names
