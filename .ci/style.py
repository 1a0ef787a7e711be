"""Code that a stranger reads once: what `ruff` has no rule for, as a check of the syntax tree.

    python .ci/style.py hs2lib

Each rule is a function of a syntax tree that yields (line, what to write instead). `EXCEPTIONS`
names the few places where the rule would make the code harder to read, with the reason.
"""

import ast
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

Finding = tuple[int, str]
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)

# (file, function or class.function, rule): reason
EXCEPTIONS: dict[tuple[str, str, str], str] = {}


def tuple_assignment(tree: ast.Module) -> Iterator[Finding]:
    """`a, b = f(), g()` joins two statements; a swap, `a, b = b, a + b`, does not.

    A generator on the right is the same thing in disguise. `a, b = f()` takes one value apart: fine.
    """
    for node in ast.walk(tree):
        if not isinstance(node, ast.Assign) or not isinstance(
            node.targets[0], ast.Tuple | ast.List
        ):
            continue
        if isinstance(node.value, COMPREHENSIONS):
            yield node.lineno, "unpacks a comprehension: one assignment a statement"
        if not isinstance(node.value, ast.Tuple | ast.List):
            continue
        targets = {ast.unparse(target) for target in node.targets[0].elts}
        read = {ast.unparse(part) for part in ast.walk(node.value) if isinstance(part, ast.expr)}
        if not targets & read:
            yield node.lineno, "assigns a tuple: one assignment a statement"


def nested_comprehension(tree: ast.Module) -> Iterator[Finding]:
    """A comprehension inside a comprehension is a loop or a named function."""
    for node in ast.walk(tree):
        if not isinstance(node, COMPREHENSIONS):
            continue
        inner = [
            part for part in ast.walk(node) if isinstance(part, COMPREHENSIONS) and part is not node
        ]
        if inner:
            yield node.lineno, "a comprehension in a comprehension: write a loop or name a function"


def _booleans(function: ast.AST) -> set[str]:
    """Names that a function binds to something that is true or false, and its arguments of type bool."""
    names = set()
    for node in ast.walk(function):
        if isinstance(node, ast.arg) and node.annotation and ast.unparse(node.annotation) == "bool":
            names.add(node.arg)
        if isinstance(node, ast.Assign) and _is_boolean(node.value, set()):
            names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return names


def _is_boolean(node: ast.expr, names: set[str]) -> bool:
    """Whether an expression is true or false by its form."""
    if isinstance(node, ast.Name):
        return node.id in names
    if isinstance(node, ast.BoolOp):
        return any(_is_boolean(value, names) for value in node.values)
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, ast.Not)
    if isinstance(node, ast.Compare):
        return True
    called = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
    return called in ("bool", "any", "all", "isinstance")


def boolean_arithmetic(tree: ast.Module) -> Iterator[Finding]:
    """`[x] * (n > 2)` and `len(wrong) * tried` are `if` statements.

    Only lists, texts and lengths times a bool are refused: of arrays a mask is multiplied so.
    """
    fields = set()  # of classes, that are true or false
    for node in ast.walk(tree):
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.annotation) == "bool":
            fields.add(ast.unparse(node.target))
    for function in ast.walk(tree):
        if not isinstance(function, FUNCTIONS):
            continue
        names = _booleans(function)
        for node in ast.walk(function):
            if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Mult):
                continue
            for side, other in ((node.left, node.right), (node.right, node.left)):
                field = isinstance(side, ast.Attribute) and side.attr in fields
                if (field or _is_boolean(side, names)) and _is_counted(other):
                    yield node.lineno, "multiplies by a bool: write an `if`"


def _is_counted(node: ast.expr) -> bool:
    """Whether an expression is a text, a list or a length by its form."""
    text = isinstance(node, ast.Constant) and isinstance(node.value, str)
    return text or isinstance(node, ast.JoinedStr | ast.List | ast.Tuple) or _called(node) == "len"


def index_puzzle(tree: ast.Module) -> Iterator[Finding]:
    """A literal that is indexed by a calculation, or a slice that holds a condition, is an `if` or a `dict`."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Subscript):
            continue
        index = node.slice
        literal = isinstance(node.value, ast.Tuple | ast.List) or (
            isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        )
        if literal and not isinstance(index, ast.Constant | ast.Slice):
            yield (
                node.lineno,
                "picks from a literal by a calculation: write an `if` or a named dict",
            )
        for bound in ast.walk(index):
            if isinstance(bound, ast.Slice):
                parts = [part for part in (bound.lower, bound.upper, bound.step) if part]
                if any(isinstance(part, ast.IfExp | ast.BoolOp | ast.Compare) for part in parts):
                    yield node.lineno, "a condition in a slice: write an `if`"


def _called(node: ast.AST) -> str:
    return ast.unparse(node.func) if isinstance(node, ast.Call) else ""


def endless_iterator(tree: ast.Module) -> Iterator[Finding]:
    """`next(x for x in iter(lambda: .., None) if ..)` is a `while`."""
    for node in ast.walk(tree):
        if _called(node) == "iter" and isinstance(node.args[0], ast.Lambda):
            yield node.lineno, "an iterator of a lambda: write a `while`"


def filtered_literal(tree: ast.Module) -> Iterator[Finding]:
    """`filter(None, (a, b and c))` hides the conditions: append what there is, one after the other."""
    for node in ast.walk(tree):
        if _called(node) == "filter" and isinstance(node.args[-1], ast.Tuple | ast.List):
            yield node.lineno, "filters a literal: append what there is"


def cut_message(tree: ast.Module) -> Iterator[Finding]:
    """`what = f".."` before `raise ValueError(f"{what}: ..")`: one message, in its `raise`."""
    for function in ast.walk(tree):
        if not isinstance(function, FUNCTIONS):
            continue
        raised = {
            id(part)
            for node in ast.walk(function)
            if isinstance(node, ast.Raise)
            for part in ast.walk(node)
        }
        loads: dict[str, list[bool]] = {}
        texts: dict[str, list[int]] = {}
        for node in ast.walk(function):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                loads.setdefault(node.id, []).append(id(node) in raised)
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.JoinedStr):
                target = node.targets[0]
                if isinstance(target, ast.Name):
                    texts.setdefault(target.id, []).append(node.lineno)
        for name, lines in texts.items():
            if len(lines) == 1 and loads.get(name) == [True]:
                yield lines[0], f"{name!r} is half a message: write it whole in its `raise`"


def walrus(tree: ast.Module) -> Iterator[Finding]:
    """`:=` only as the test of an `if` or a `while`, where it saves a line and hides nothing."""
    tests = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.If | ast.While):
            test = node.test
            if isinstance(test, ast.UnaryOp | ast.Compare):
                test = test.operand if isinstance(test, ast.UnaryOp) else test.left
            tests.add(id(test))
    for node in ast.walk(tree):
        if isinstance(node, ast.NamedExpr) and id(node) not in tests:
            yield node.lineno, "`:=` inside an expression: a statement of its own"


RULES = (
    tuple_assignment,
    nested_comprehension,
    boolean_arithmetic,
    index_puzzle,
    endless_iterator,
    filtered_literal,
    cut_message,
    walrus,
)


def owner(tree: ast.Module, line: int) -> str:
    """The function that holds a line, behind the classes around it; "" for the module."""
    names = []
    for node in ast.walk(tree):
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)) and node.lineno <= line <= node.end_lineno:
            names.append(node.name)
    return ".".join(names)


def findings(path: Path) -> list[str]:
    """What the rules say of a file, each with its line."""
    source = path.read_text()
    tree = ast.parse(source)
    lines = []
    for rule in RULES:
        for line, message in rule(tree):
            if (path.as_posix(), owner(tree, line), rule.__name__) not in EXCEPTIONS:
                lines.append((line, f"{message} ({rule.__name__})"))
    with path.open("rb") as file:
        for token in tokenize.tokenize(file.readline):
            if token.type == tokenize.COMMENT and token.string.startswith(("# fmt:", "# yapf:")):
                lines.append((token.start[0], "layout by hand: let `ruff format` lay it out"))
    return [f"{path.as_posix()}:{line}: {message}" for line, message in sorted(lines)]


def main() -> None:
    """Print what is found in the files below the folders, and fail where there is anything."""
    messages = []
    for folder in sys.argv[1:]:
        for path in sorted(Path(folder).rglob("*.py")):
            messages += findings(path)
    print("\n".join(messages) or "Style: nothing to say.")
    sys.exit(bool(messages))


if __name__ == "__main__":
    main()
