"""Digests of code. They say which code made a training, a file of samples or scores, or a run.

    digest("hs2lib.train.trainer", objective, my_reward)
    record("hs2lib.train.trainer")  # the same, with the digest of each file

Modules are passed by name. Functions and classes may be the user's own.

What is kept lies under the digest of the code that made it. So an edited formula never reads old
weights: the work is made again, beside what is there. Comments, docstrings, hints and layout do not
change a digest.

Nothing is declared. A module counts where it is imported, directly or through others, and so do the
data files that it names. In doubt a thing counts.
"""

import ast
import contextlib
import copyreg
import dis
import functools
import hashlib
import json
import os
import re
import sys
from collections.abc import Container, Iterable, Iterator, Mapping
from importlib.util import resolve_name
from pathlib import Path
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import NamedTuple

from hs2lib import paths

# Modules that only draw. After a change of these a run's figures are drawn again, and its numbers
# stay. Verdicts and tables are not among them.
DRAWS = (
    "hs2lib.report.show",
    "hs2lib.report.style",
    "hs2lib.report.templates",
)

# Files of the look of the site. It is made after the runs, and these files touch none of them.
SITE = {
    "base.html",
    "benchmarks.html",
    "compare.html",
    "figures.html",
    "index.html",
    "missing.html",
    "page.css",
    "plain.html",
    "readme.txt",
    "report.html",
}

# Modules and rooms by which runs are put in order, started, rehearsed and judged. That changes no
# result.
STARTS = ("hs2lib.code", "hs2lib.commands", "hs2lib.rehearsal", "hs2lib.runs")

# Those of these rooms that count all the same: what a run was asked to do.
COUNTED = ("hs2lib.runs.parameters", "hs2lib.runs.setup")


def package() -> Path:
    """The folder of hs2lib."""
    return Path(__file__).parent


def hashed(content: object) -> str:
    """Hex digest of anything that JSON can hold."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


# What the source of a module says.


_FUNCTION = ast.FunctionDef | ast.AsyncFunctionDef


class _Bare(ast.NodeTransformer):
    """Takes docstrings, hints and what only type checkers read out of a tree.

    documented: whether docstrings stay. hints: whether those of the module's own variables stay.
    """

    def __init__(self, documented: bool, hints: bool) -> None:
        self.documented = documented
        self.hints = hints  # of variables, at the place that is visited

    def visit(self, node: ast.AST) -> ast.AST | list[ast.stmt]:
        """What is left of a node.

        Fields of classes keep their hints, and so do functions under a decorator: it may read them,
        as a validator of pydantic does.
        """
        if isinstance(node, ast.expr):  # it has nothing to take out
            return node
        if isinstance(node, ast.AnnAssign) and node.value and not self.hints:
            return ast.Assign([node.target], node.value)
        if isinstance(node, _FUNCTION) and not node.decorator_list:
            node.returns = None
            for part in ast.walk(node.args):
                if isinstance(part, ast.arg):
                    part.annotation = None
        outer = self.hints
        if isinstance(node, ast.ClassDef | _FUNCTION):
            self.hints = isinstance(node, ast.ClassDef)
        is_scope = isinstance(node, ast.Module | ast.ClassDef | _FUNCTION)
        if is_scope and not self.documented and ast.get_docstring(node, clean=False) is not None:
            del node.body[0]
        self.generic_visit(node)
        self.hints = outer
        if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING":
            return node.orelse
        return node


class Source(NamedTuple):
    """What the source of a module says.

    `digest` is that of its code. `imports` has dotted names; of a name in a module, as in
    `from a import b`, it has "a.b". Imports inside functions count. `library` has those of hs2lib.
    `strings` has the short strings, which may name data files.
    """

    digest: str
    imports: frozenset[str] = frozenset()
    library: frozenset[str] = frozenset()
    strings: frozenset[str] = frozenset()


@functools.cache
def read(source: str, *, hints: bool = False, package: str = "") -> Source:
    """What the source of a module, or of a cell, says. Its digest is that of its syntax tree.

    The digest does not change with comments, docstrings and layout, nor with hints of arguments,
    results and variables. It changes with all else, hints of a class's fields and names of locals
    included. Docstrings count in a source that reads a `__doc__`.

    Args:
        source: of a module, or of a cell.
        hints: whether the hints of the module's own variables count, as those of a parameters cell.
        package: the dotted name of the package that the module is or lies in, where relative
            imports start.

    Raises:
        SyntaxError: the source is not Python.
        ImportError: a relative import leads out of the package.
    """
    tree = _Bare("__doc__" in source, hints).visit(ast.parse(source))
    imports = set()
    strings = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            module = resolve_name("." * node.level + (node.module or ""), package)
            imports |= {f"{module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            imports |= {alias.name for alias in node.names}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            strings.add(node.value)
    return Source(
        hashed(ast.dump(tree)),
        frozenset(imports),
        frozenset(filter(_in_library, imports)),
        frozenset(text for text in strings if len(text) < 100),
    )


def read_cell(source: str, *, hints: bool = False) -> Source:
    """What the source of a cell says, as `read`.

    Of a cell that is not plain Python, as one with `%matplotlib`, the text counts. It imports what
    its lines without the commands of IPython import, and nothing where those are not Python either.
    """
    with contextlib.suppress(SyntaxError):
        return read(source, hints=hints)
    with contextlib.suppress(SyntaxError):
        plain = re.sub(r"(?m)^(\s*)[%!?].*$", r"\1pass", source)
        return read(plain)._replace(digest=hashed(source))
    return Source(hashed(source))


# Modules of the user, beside a notebook.


class Beside(NamedTuple):
    """What a source uses of the modules in a folder.

    `digests` has those of their code, by file: {"mine.py": hex, "pkg/sub.py": hex}. `library` has
    the dotted names that they, or the source itself, import of hs2lib.
    """

    digests: dict[str, str]
    library: frozenset[str]


def modules_beside(source: Source, folder: Path) -> Beside:
    """The user's modules in a folder that a source imports, directly or through others.

    Raises SyntaxError where one of them is not Python, and ImportError where one imports from above
    its package.
    """
    digests: dict[str, str] = {}
    seen: set[str] = set()
    waiting = list(source.imports)
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        if _in_library(name):
            continue
        path = folder.joinpath(*name.split("."))
        outer = name.rpartition(".")[0]
        if outer:
            waiting.append(outer)  # importing a module runs its package
        for file, package in ((path / "__init__.py", name), (path.with_suffix(".py"), outer)):
            if file.is_file():
                module = read(file.read_text(), package=package)
                digests[file.relative_to(folder).as_posix()] = module.digest
                waiting += module.imports
                break
    return Beside(digests, frozenset(filter(_in_library, seen)))


# Modules of hs2lib: what they import, and which data files they name.


def _in_library(name: str) -> bool:
    """Whether a dotted name is one of hs2lib."""
    return name.split(".")[0] == "hs2lib"


@functools.cache
def _module(folder: Path, name: str) -> tuple[str, Path]:
    """(name, file) of the module that a dotted name is, or is defined in.

    folder: that of hs2lib. Raises ImportError where there is no such module.
    """
    owner, _, word = name.rpartition(".")
    for module in (name, owner):
        path = folder.joinpath(*module.split(".")[1:])
        for file in (path.with_suffix(".py"), path / "__init__.py"):
            if not file.is_file():
                continue
            if module == name or word == "*" or re.search(rf"\b{word}\b", file.read_text()):
                return module, file
    raise ImportError(f"{name} is imported, and hs2lib has no such module")


def module_file(name: str) -> Path:
    """The file of the module of hs2lib that a dotted name is, or is defined in."""
    return _module(package(), name)[1]


# Of each module that this process has loaded its spec and its source.
_LOADED: dict[str, tuple[object, str]] = {}


def source_of(name: str) -> str:
    """The source of a module of hs2lib.

    Of a module that this process has loaded it is the source as it was then, not as edited since.
    The module's spec changes when it is loaded again, as IPython's autoreload does. Then the source
    is read again.
    """
    file = module_file(name)
    spec = getattr(sys.modules.get(name), "__spec__", None)
    if spec is None or spec.origin != str(file):
        return file.read_text()
    if name not in _LOADED or _LOADED[name][0] is not spec:
        _LOADED[name] = (spec, file.read_text())
    return _LOADED[name][1]


def reach(names: Iterable[str], without: Container[str] = ()) -> set[str]:
    """The modules of hs2lib that these dotted names use, directly or through others, by name.

    Modules of `STARTS` and of `without` are left out, and so are those that only they import.
    Raises ImportError where there is no such module.
    """
    starts = tuple(f"{room}." for room in STARTS)
    modules: set[str] = set()
    waiting = list(names)
    while waiting:
        name = _module(package(), waiting.pop())[0]
        if name in modules or name in without:
            continue
        if f"{name}.".startswith(starts) and name not in COUNTED:
            continue
        modules.add(name)
        waiting += read(source_of(name)).library
        if "." in name:
            waiting.append(name.rpartition(".")[0])  # importing a module runs its package
    return modules


def data_files(name: str) -> set[Path]:
    """Files beside a module that a string in it names, as "paper/table-1.csv".

    Of a folder that a string names all files count. Those of `SITE` do not.
    """
    folder = module_file(name).parent
    beside = set(os.listdir(folder))
    files: set[Path] = set()
    for text in read(source_of(name)).strings:
        if text.partition("/")[0] not in beside:
            continue
        path = folder / text
        if path.is_file():
            files.add(path)
        elif not (path / "__init__.py").exists():
            files.update(file for file in path.rglob("*") if file.is_file())
    return {file for file in files if file.suffix not in (".py", ".pyc") and file.name not in SITE}


def parts(modules: Iterable[str]) -> dict[str, str]:
    """The digest of each file of these modules, as {"hs2lib/train/losses.py": hex}.

    The files are those of their code, and the data files that they name.
    """
    digests = {}
    checkout = package().parent
    for name in modules:
        code_file = module_file(name).relative_to(checkout).as_posix()
        digests[code_file] = read(source_of(name)).digest
        for file in data_files(name):
            digests[file.relative_to(checkout).as_posix()] = paths.digest(file)
    return dict(sorted(digests.items()))


# Functions, classes and other values, also those of a notebook.


# What a class has that says nothing of what it does.
_ASIDE = {"__module__", "__doc__", "__dict__", "__weakref__", "__slotnames__", "__firstlineno__"}

# Installed classes of what changes as it is used: by what was looked up so far, or by drawing.
_CHANGING = {"WeakKeyDictionary", "Random", "RandomState", "Generator"}


class _Values:
    """Digests of values, and the modules that they use.

    `library` has dotted names of hs2lib. `beside` has the digests of the user's modules, by file.

    Of a function or object of the user all counts that it holds or names. What a function of hs2lib
    was given, as a partial or a closure has it, is not `whole`: plain values, containers and
    functions count, and of tensors, models and other objects only the class. They are state, which
    is named elsewhere in what is kept.
    """

    def __init__(self) -> None:
        self.library: set[str] = set()
        self.beside: dict[str, str] = {}
        # (value, digest) by id. A value is held so that no other one gets its id.
        self.known: dict[tuple[int, bool], tuple[object, str]] = {}

    def digest(self, value: object, whole: bool = True) -> str:
        """The digest of a value."""
        if isinstance(value, bytes):
            return hashlib.sha256(value).hexdigest()
        if isinstance(value, int | float | str | None):
            return hashed([type(value).__name__, repr(value)])
        key = (id(value), whole)
        if key not in self.known:
            self.known[key] = (value, "itself")  # where it holds itself
            self.known[key] = (value, hashed(self._content(value, whole)))
        return self.known[key][1]

    def _digests(self, values: Iterable[object], whole: bool = True) -> list[str]:
        return [self.digest(value, whole) for value in values]

    def _content(self, value: object, whole: bool) -> list[str]:
        """What is digested of a value that is not plain."""
        if isinstance(value, ModuleType):
            return self._module(value)
        if isinstance(value, CodeType):
            return self._code(value, value.co_consts)
        if isinstance(value, FunctionType):
            return self._function(value)
        if isinstance(value, type):
            return self._class(value)
        kind = self.digest(type(value))
        origin = self._origin(type(value).__module__)
        if origin == "installed" and type(value).__name__ in _CHANGING:
            return [kind]
        if isinstance(value, list | tuple):
            return [kind, *self._digests(value, whole)]
        if isinstance(value, set | frozenset):
            return [kind, *sorted(self._digests(value, whole))]
        if isinstance(value, Mapping):
            return [kind, *sorted(self._digests(value.items(), whole))]
        if isinstance(value, functools.partial):
            whole = whole or not _in_library(str(getattr(value.func, "__module__", "")))
        elif origin == "user":
            whole = True
        elif not whole and (not callable(value) or hasattr(value, "state_dict")):
            return [kind]
        return [kind, *self._digests(_held(value), whole)]

    def _origin(self, module: str) -> str:
        """Where a module is from: "library", which notes it, "installed" or "user"."""
        if _in_library(module):
            self.library.add(module)
            return "library"
        if module == "__main__" or module not in sys.modules:  # a notebook
            return "user"
        file = getattr(sys.modules[module], "__file__", None)
        if not file or "site-packages" in file or file.startswith(sys.base_prefix):
            return "installed"
        return "user"

    def _module(self, module: ModuleType) -> list[str]:
        """A module is its name. A user's module is noted with those it imports."""
        name = module.__name__
        file = getattr(module, "__file__", None)
        if self._origin(name) == "user" and file:
            depth = len(name.split(".")) if hasattr(module, "__path__") else name.count(".")
            folder = Path(file).parents[depth]
            beside = modules_beside(Source("", frozenset([name])), folder)
            self.beside |= beside.digests
            self.library |= beside.library
        return [name]

    def _code(self, code: CodeType, constants: tuple) -> list[str]:
        """A code object is what it does, without lines and files."""
        counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
        names = (code.co_names, code.co_varnames, code.co_cellvars, code.co_freevars)
        return self._digests((code.co_code, code.co_exceptiontable, counts, names, constants))

    def _function(self, function: FunctionType) -> list[str]:
        """A function is its name and what it holds, or of a user's its code and all it uses."""
        # The function's own attribute `__module__` may be that of a function it wraps.
        module = str(function.__globals__.get("__name__"))
        origin = self._origin(module)
        held = [function.__defaults__, function.__kwdefaults__]
        for cell in function.__closure__ or ():
            try:
                held.append(cell.cell_contents)
            except ValueError:  # it is filled later
                held.append(None)
        if origin == "user":
            code = function.__code__
            documented = bool(code.co_consts) and code.co_consts[0] is function.__doc__
            constants = code.co_consts[1:] if documented else code.co_consts
            space = function.__globals__
            held.append({name: space[name] for name in _globals_of(code) if name in space})
            return [*self._code(code, constants), *self._digests(held)]
        if getattr(sys.modules.get(module), function.__qualname__, None) is function:
            held = []  # it stands under its name, which says all
        elif origin == "installed":  # a decorator made it, as torch.no_grad does
            held.append(getattr(function, "__wrapped__", None))
        name = f"{module}.{function.__qualname__}"
        return [name, *self._digests(held, whole=origin != "library")]

    def _class(self, kind: type) -> list[str]:
        """A class is its name, or of a user's its bases and what it defines."""
        if self._origin(kind.__module__) != "user":
            return [f"{kind.__module__}.{kind.__qualname__}"]
        defined = {name: part for name, part in vars(kind).items() if name not in _ASIDE}
        return self._digests((type(kind), kind.__bases__, defined))


def _held(value: object) -> Iterable[object]:
    """What an object holds: in general, what pickle would make it of again."""
    if isinstance(value, MethodType):
        return value.__func__, value.__self__
    if isinstance(value, property):
        return value.fget, value.fset, value.fdel
    if hasattr(value, "__wrapped__"):  # by functools.cache or staticmethod, say
        return (value.__wrapped__,)
    if hasattr(value, "fingerprint"):  # of a model's weights
        return (value.fingerprint(),)
    if hasattr(value, "untyped_storage"):  # a tensor
        import torch

        content = value.detach().cpu().contiguous().flatten().view(torch.uint8)
        return str(value.dtype), tuple(value.shape), content.numpy().tobytes()
    reduce = copyreg.dispatch_table.get(type(value))
    try:
        reduced = reduce(value) if reduce else value.__reduce_ex__(4)
    except Exception:  # it does not say, as an open file or a lock
        return ()
    if isinstance(reduced, str):  # a name
        return getattr(value, "__module__", None), reduced
    return [list(part) if isinstance(part, Iterator) else part for part in reduced]


def _globals_of(code: CodeType) -> set[str]:
    """Names of the globals that a code object, or one inside it, reads."""
    names = {
        step.argval
        for step in dis.get_instructions(code)
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME")
    }
    inner = [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    return names.union(*map(_globals_of, inner))


def record(*things: object) -> dict:
    """The code that made something, as {"digest": hex, "files": {file: short hex}}.

    It is kept with what was made.

    Args:
        things: modules by name; functions and classes; what holds functions, as an objective does.
            Of a function of hs2lib its module counts, with all that it uses except for what only
            draws, and what it was given. Of a user's function the compiled code counts, and all
            that it uses.

    Raises:
        ImportError: a module of hs2lib imports one that is not there.
    """
    values = _Values()
    names = {thing for thing in things if isinstance(thing, str)}
    passed = [values.digest(thing, whole=False) for thing in things if not isinstance(thing, str)]
    modules = reach(names | values.library)
    digests = parts(modules - set(DRAWS)) | values.beside
    if passed:
        digests["what was passed"] = hashed(passed)
    return {
        "digest": hashed(digests),
        "files": {name: value[:12] for name, value in sorted(digests.items())},
    }


def digest(*things: object) -> str:
    """The hex digest of the code that computes in these things; see `record`."""
    return record(*things)["digest"]


def differing(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """The files of two records, {file: hex}, that differ or that only one of them has, in order."""
    return sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))
