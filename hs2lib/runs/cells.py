"""The cells of a notebook that compute: which they are, what they need, and their execution.

A stage is a part of a notebook that can run without the rest: its *label*, *sample*, *train*,
*score*, *evaluate* or *export*. A cell says by its tags which stages it belongs to. A stage
executes those cells in the notebook's order, after the cells tagged `start` (the imports and
`run = report.start(..)`), in a plain Python process. What they make is kept under names of its
inputs, so the notebook, run afterwards, finds it.
"""

import ast
import builtins
import json
import linecache
import types
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from hs2lib import paths
from hs2lib.runs.parameters import ParameterError

STAGES = ("label", "sample", "train", "score", "evaluate", "export")  # in their order
START = "start"
STAGE = "HS2_STAGE"  # the variable by which a process knows that it executes a stage, and which
PARAMETERS = "parameters"

# Calls that can change any name.
REACHES = {"exec", "eval", "setattr", "delattr", "globals", "locals", "vars"}


class Cell(NamedTuple):
    """A code cell: its id, its source and its tags."""

    id: str
    source: str
    tags: frozenset[str]


def code_cells(notebook: str) -> list[Cell]:
    """The code cells of a notebook, in their order."""
    # Not by nbformat: its schemas take seconds to load.
    listed = json.loads(paths.notebook(notebook).read_text())["cells"]
    cells = []
    for cell in listed:
        if cell["cell_type"] == "code":
            tags = frozenset(cell["metadata"].get("tags", ()))
            cells.append(Cell(cell.get("id", ""), "".join(cell["source"]), tags))
    return cells


def stages_of(run: str) -> list[str]:
    """The stages that the notebook of a run has, in their order."""
    tags = frozenset().union(*[cell.tags for cell in code_cells(run)])
    return [stage for stage in STAGES if stage in tags]


def cells_of(run: str, stage: str = "") -> list[Cell]:
    """The cells that a stage executes, the starting ones first.

    Args:
        run: a run of the notebook.
        stage: one of `STAGES`; "" for all of them together.

    Raises:
        ParameterError: the notebook has no such stage.
    """
    available = stages_of(run)
    if stage and stage not in available:
        hint = f"its stages are {', '.join(available)}" if available else "it has none"
        raise ParameterError(f"{run} has no stage {stage}: {hint}")
    wanted = {START, stage} if stage else {START, *STAGES}
    return [cell for cell in code_cells(run) if cell.tags & wanted]


def execute(
    run: str,
    values: dict[str, Any],
    stage: str = "",
    before: Callable[[int, int], None] | None = None,
) -> dict[str, Any]:
    """Execute the cells of a stage in this process.

    Args:
        run: a run of the notebook.
        values: its parameters, in place of those of the cell.
        stage: one of `STAGES`; "" for all of them together.
        before: is told before each cell how many are done, and of how many.

    Returns:
        The names that the cells have bound.

    Raises:
        ParameterError: as `check`.
    """
    check(run, stage)
    cells = cells_of(run, stage)
    # A module, as a kernel's cells have one: a class of a cell looks there for its names.
    module = types.ModuleType("__main__")
    module.__dict__.update(values)
    for number, cell in enumerate(cells):
        if before:
            before(number, len(cells))
        name = f"{run}, cell {cell.id}"
        # A traceback and `inspect.getsource` read the lines from here.
        linecache.cache[name] = (len(cell.source), None, cell.source.splitlines(True), name)
        exec(compile(cell.source, name, "exec"), module.__dict__)
    return module.__dict__


# Whether the cells of a stage compute what the whole notebook computes.


def check(run: str, stage: str = "") -> None:
    """Raise ParameterError where a stage's cells need another cell, or another cell changes them.

    Every name that they read is to be bound by themselves, by the parameters or by Python. No cell
    between them may bind or change a name that a later one of them reads.
    """
    chosen = cells_of(run, stage)
    notebook = run.partition("@")[0]
    bound = set(dir(builtins))
    for cell in code_cells(run):
        if PARAMETERS in cell.tags:
            bound |= _bound(_tree(notebook, cell))
    for cell in chosen:
        tree = _tree(notebook, cell)
        unbound = sorted(_read(tree) - bound - _bound(tree))
        if unbound:
            raise ParameterError(
                f"cell {cell.id!r} of notebook {notebook} reads {unbound[0]!r}, which no cell of "
                f"{_in_words(stage)} before it binds: tag the cell that binds it"
            )
        bound |= _bound(tree)
    _check_between(run, stage, chosen)


def _in_words(stage: str) -> str:
    """A stage in words; "" stands for all stages."""
    return f"stage {stage}" if stage else "its stages"


def _tree(notebook: str, cell: Cell) -> ast.Module:
    """A cell as Python reads it. Raises ParameterError for one with commands of IPython."""
    try:
        return ast.parse(cell.source)
    except SyntaxError as error:
        raise ParameterError(
            f"cell {cell.id!r} of notebook {notebook} is not plain Python ({error.msg}), "
            "and a stage executes nothing else: take its tag away"
        ) from error


def _check_between(run: str, stage: str, chosen: list[Cell]) -> None:
    """Raise ParameterError where a cell without the stage's tag changes what a later one reads."""
    notebook = run.partition("@")[0]
    cells = code_cells(run)
    made: set[str] = set()  # by the stage's cells so far, imports apart
    for position, cell in enumerate(cells):
        if cell in chosen:
            if START not in cell.tags:
                made |= _bound(_tree(notebook, cell))
            continue
        later = [other for other in cells[position + 1 :] if other in chosen]
        if not later or PARAMETERS in cell.tags:
            continue
        read: set[str] = set()
        rebound: set[str] = set()
        for other in later:
            tree = _tree(notebook, other)
            read |= _read(tree) - rebound
            rebound |= _bound(tree) - _read(tree)
        try:
            tree = ast.parse(cell.source)
        except SyntaxError:  # a command of IPython
            continue
        changed = _changed(tree, read & made, read)
        if changed:
            raise ParameterError(
                f"cell {cell.id!r} of notebook {notebook} changes {changed!r}, which later cells "
                f"of {_in_words(stage)} read, and the stage does not execute it: "
                "give it the stage's tag, or run the whole notebook"
            )


def _changed(tree: ast.Module, objects: set[str], names: set[str]) -> str:
    """A name that a cell may change; "" where it changes none.

    Args:
        tree: the cell.
        objects: names of what the stage made; a method of theirs may change what they hold.
        names: that the stage reads later.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _plain_name(node.func) in REACHES:
            return _plain_name(node.func)
    bound = sorted(_bound(tree) & (names | {"*"}))  # a star may bind any name
    if bound:
        return bound[0]
    for statement in _outside(tree):
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
            called = statement.value.func
            owner = _plain_name(_owner(called)) if isinstance(called, ast.Attribute) else ""
            if owner in objects:
                return owner
        if isinstance(statement, ast.Assign) and _plain_name(statement.value) in objects:
            return _plain_name(statement.value)  # another name for it
    return ""


def _plain_name(node: ast.expr) -> str:
    """The name that an expression is; "" where it is anything else."""
    return node.id if isinstance(node, ast.Name) else ""


def _owner(node: ast.expr) -> ast.expr:
    """What an attribute or an item is taken of: `a` of `a.b[0].c`."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node


SCOPES = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
NAMED = (  # what binds its `name`
    ast.FunctionDef
    | ast.AsyncFunctionDef
    | ast.ClassDef
    | ast.ExceptHandler
    | ast.MatchAs
    | ast.MatchStar
)
COMPREHENSIONS = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


def _outside(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a cell but for those whose names are their own.

    These are the bodies of functions and classes, and comprehensions.
    """
    yield node
    if isinstance(node, SCOPES | COMPREHENSIONS | ast.ClassDef):
        return
    for child in ast.iter_child_nodes(node):
        yield from _outside(child)


def _bound(tree: ast.AST) -> set[str]:
    """The names that a cell binds, deletes, or changes a part of; attributes of `run` apart."""
    names = set()
    for node in _outside(tree):
        if isinstance(node, ast.Name | ast.Attribute | ast.Subscript):
            name = _plain_name(_owner(node))
            is_changed = isinstance(node.ctx, ast.Store | ast.Del)
            if is_changed and name and (name != "run" or isinstance(node, ast.Name)):
                names.add(name)
        elif isinstance(node, NAMED):
            names.add(node.name or "")
        elif isinstance(node, ast.alias):
            names.add((node.asname or node.name).partition(".")[0])
    return names - {""}


def _read(tree: ast.AST) -> set[str]:
    """The names of the notebook that a cell reads, in its functions too.

    Names that a function or a comprehension binds for itself are not the notebook's.
    """
    names = set()
    for node in ast.iter_child_nodes(tree):
        names |= _read(node)
    if isinstance(tree, ast.Name):
        if isinstance(tree.ctx, ast.Load):
            names.add(tree.id)
    elif isinstance(tree, ast.AugAssign):
        names |= {_plain_name(_owner(tree.target))} - {""}
    elif isinstance(tree, ast.Module):
        # What the cell binds before it reads it.
        names -= _bound_first(tree)
    elif isinstance(tree, SCOPES | COMPREHENSIONS):
        names -= _own_names(tree)
    return names


def _bound_first(tree: ast.Module) -> set[str]:
    """The names that a cell binds in a statement before any statement of it reads them."""
    first: set[str] = set()
    read: set[str] = set()
    for statement in tree.body:
        read |= _read(statement) - first
        first |= _bound(statement) - read
    return first


def _own_names(scope: ast.AST) -> set[str]:
    """The names that a function or a comprehension binds for itself."""
    names = set()
    for node in ast.walk(scope):
        if isinstance(node, ast.arg):
            names.add(node.arg)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.ExceptHandler) and node.name:
            names.add(node.name)
    return names
