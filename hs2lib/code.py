"""The code that computes, as a digest: comments, docstrings, hints, layout and names of locals do
not change it.

    digest("hs2lib.train.trainer", objective, my_reward)      # of modules, and of functions and classes, also a user's
    record("hs2lib.train.trainer")                            # the same, with the digest of each file

A run, and each training, file of samples or file of scores that is kept, says by which digest it
was made. So a changed formula is never answered by old weights, and a comment costs nothing.
Nothing is declared: a module counts where it is imported, directly or through others, and with it
the data files that it names. In doubt it counts.
"""

import ast
import dis
import functools
import hashlib
import json
import os
import pickle
import re
import sys
import weakref
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from pathlib import Path
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import NamedTuple

from hs2lib import paths

# What only draws: of a run that used another version of it the figures are drawn anew, and no
# number is. Verdicts and tables are not among these.
DRAWS = ("hs2lib.report.show", "hs2lib.report.templates", "hs2lib.report.figures")

# The look of the site, which is made after the runs: it touches none of them.
SITE = {
    "base.html",
    "benchmarks.html",
    "index.html",
    "page.css",
    "plain.html",
    "readme.txt",
    "report.html",
}
SITE |= {"story.yaml"}

# How runs are put in order, started and judged: that changes no result.
STARTS = ("hs2lib.code", "hs2lib.launch")
STARTS += ("hs2lib.run.graph", "hs2lib.run.processes", "hs2lib.run.runner", "hs2lib.run.stages")


_PACKAGE = Path(__file__).parent


def package() -> Path:
    """The folder of hs2lib."""
    return _PACKAGE


def hashed(content: object) -> str:
    """Hex digest of anything that JSON can hold."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


# Source code, without what changes nothing.


# Decorators that look at no hint. Others may (a validator of pydantic does): there the hints count.
_BLIND = {
    "abstractmethod",
    "cache",
    "cached_property",
    "classmethod",
    "contextmanager",
    "lru_cache",
    "no_grad",
}
_BLIND |= {"once_differentiable", "property", "setter", "staticmethod", "wraps"}


def _last_name(decorator: ast.expr) -> str:
    """Of `functools.cache`, `cache` and `lru_cache(8)` the name: "cache", "cache", "lru_cache"."""
    if isinstance(decorator, ast.Call):
        decorator = decorator.func
    return decorator.attr if isinstance(decorator, ast.Attribute) else getattr(decorator, "id", "")


def _undocumented(body: list[ast.stmt]) -> list[ast.stmt]:
    """The body of a module, class or function without its docstring."""
    first = body[0] if body else None
    if (
        isinstance(first, ast.Expr)
        and isinstance(first.value, ast.Constant)
        and isinstance(first.value.value, str)
    ):
        return body[1:] or [ast.Pass()]
    return body


def _strip(body: list[ast.stmt], owner: type, hints: bool) -> list[ast.stmt]:
    """Statements without docstrings, hints and what is there for type checkers alone; fields of
    classes stay.

    owner: what they stand in, ast.Module, ast.ClassDef or ast.FunctionDef. hints: whether those of
    the module's own variables stay. The statements themselves are changed.
    """
    out: list[ast.stmt] = []
    for node in body:
        if isinstance(node, ast.ClassDef):
            node.body = _strip(_undocumented(node.body), ast.ClassDef, hints)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if all(_last_name(decorator) in _BLIND for decorator in node.decorator_list):
                node.returns = None
                arguments = node.args
                rest = [one for one in (arguments.vararg, arguments.kwarg) if one]
                for argument in [
                    *arguments.posonlyargs,
                    *arguments.args,
                    *arguments.kwonlyargs,
                    *rest,
                ]:
                    argument.annotation = None
            node.body = _strip(_undocumented(node.body), ast.FunctionDef, hints)
        elif isinstance(node, ast.If) and _last_name(node.test) == "TYPE_CHECKING":
            out += _strip(node.orelse, owner, hints) or [ast.Pass()]
            continue
        elif isinstance(node, ast.AnnAssign):  # in a function Python itself drops the hint
            if owner is ast.Module and isinstance(node.target, ast.Name) and not hints:
                node = ast.Assign([node.target], node.value) if node.value else ast.Pass()
        else:
            for part in (node, *getattr(node, "handlers", ()), *getattr(node, "cases", ())):
                for name in ("body", "orelse", "finalbody"):
                    if getattr(part, name, None):
                        setattr(part, name, _strip(getattr(part, name), owner, hints))
        out.append(node)
    return out


def _nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """All nodes of a tree in some order; `ast.walk` takes three times as long."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        for value in vars(node).values():
            if isinstance(value, ast.AST):
                waiting.append(value)
            elif isinstance(value, list):
                waiting += [one for one in value if isinstance(one, ast.AST)]


class Source(NamedTuple):
    """What the source of a module says: the digest of its code, what it imports, and its short
    strings.

    imports: dotted names; of a name in a module, as in `from a import b`, "a.b". Those inside
    functions count. library: those of hs2lib.
    """

    digest: str
    imports: frozenset[str]
    library: frozenset[str]
    strings: frozenset[str]


@functools.cache
def read(source: str, *, hints: bool = False, package: str = "") -> Source:
    """What the source of a module, or of a cell, says. Its digest is that of its compiled code.

    It does not change with comments, docstrings, hints of arguments, results and variables, layout,
    or the names of a function's locals. It changes with all else, fields of classes and the texts
    of errors included.

    Args:
        source: of a module, or of a cell.
        hints: whether the hints of the module's own variables count, as those of a parameters cell do.
        package: that the module lies in, or is, by its dotted name; relative imports start there.

    Raises:
        SyntaxError: the source is no Python.
        ImportError: it imports by a relative name, and lies in no package or not deep enough in one.
    """
    tree = ast.parse(source)
    if "__doc__" not in source:
        tree.body = _strip(_undocumented(tree.body), ast.Module, hints)
    imports = set()
    strings = set()
    for node in _nodes(tree):
        if (
            node._attributes
        ):  # lines decide where the compiler leaves an instruction that does nothing
            node.lineno = node.end_lineno = 1
            node.col_offset = node.end_col_offset = 0
        if isinstance(node, ast.ImportFrom):
            module = _imported_from(node, package)
            imports |= {f"{module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            imports |= {alias.name for alias in node.names}
        elif isinstance(node, ast.Constant) and re.fullmatch(
            r"[\w-][\w./-]{0,99}", str(node.value)
        ):
            strings.add(str(node.value))
    digest = hashed(_code(compile(tree, "", "exec", dont_inherit=True, optimize=0)))
    library = frozenset(name for name in imports if name.split(".")[0] == "hs2lib")
    return Source(digest, frozenset(imports), library, frozenset(strings))


def _imported_from(node: ast.ImportFrom, package: str) -> str:
    """The whole name of the module that a statement imports from. Raises ImportError as `read`."""
    if not node.level:
        return str(node.module)
    above = package.split(".") if package else []
    if node.level > len(above):
        raise ImportError(
            f"from {'.' * node.level}{node.module or ''} import ..: write the module's name whole"
        )
    kept = above[: len(above) - node.level + 1]
    return ".".join([*kept, node.module] if node.module else kept)


def read_cell(source: str, *, hints: bool = False) -> Source:
    """What the source of a cell says, as `read`. Where it is no plain Python, as with
    `%matplotlib`, its text counts.

    What it imports is then that of its lines without the commands of IPython; nothing where those
    are no Python either.
    """
    try:
        return read(source, hints=hints)
    except SyntaxError:
        pass
    plain = re.sub(r"(?m)^(\s*)[%!?].*$", r"\1pass", source)
    text = hashed(source)
    try:
        return read(plain)._replace(digest=text)
    except SyntaxError:
        return Source(text, frozenset(), frozenset(), frozenset())


def _code(code: CodeType, documented: bool = False) -> list:
    """What a code object does, as JSON: no lines, no files, no names of locals beyond its
    arguments.

    documented: its first constant is its docstring, or None in the place of one.
    """
    arguments = code.co_argcount + code.co_kwonlyargcount
    arguments += bool(code.co_flags & 0x04) + bool(code.co_flags & 0x08)  # *rest and **options
    counts = [
        code.co_argcount,
        code.co_posonlyargcount,
        code.co_kwonlyargcount,
        code.co_flags,
        code.co_nlocals,
    ]
    named = [
        code.co_name,
        code.co_names,
        code.co_varnames[:arguments],
        code.co_cellvars,
        code.co_freevars,
    ]
    constants = [_constant(one) for one in code.co_consts[documented:]]
    return [counts, named, code.co_code.hex(), code.co_exceptiontable.hex(), constants]


def _constant(value: object) -> list:
    """A constant with its type, as JSON: 1, 1.0 and True are three."""
    if isinstance(value, CodeType):
        return ["code", _code(value)]
    if isinstance(value, tuple):
        return ["tuple", [_constant(one) for one in value]]
    if isinstance(value, frozenset):
        return ["frozenset", sorted(([_constant(one) for one in value]), key=json.dumps)]
    return [type(value).__name__, repr(value)]


# Modules: what they import, and which data files they name.


def _top_level(source: str) -> set[str]:
    """The names that a module defines, assigns or imports."""
    names = set()
    for node in _nodes(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.alias):
            names.add(node.asname or node.name)
    return names


@functools.cache
def _module(folder: Path, name: str) -> tuple[str, Path]:
    place = folder.joinpath(*name.split(".")[1:])
    for file in (place.with_suffix(".py"), place / "__init__.py"):
        if file.is_file():
            return name, file
    if (above := place.parent.with_suffix(".py")).is_file():
        return name.rpartition(".")[0], above
    room = place.parent / "__init__.py"
    if room.is_file() and (place.name == "*" or place.name in _top_level(room.read_text())):
        return name.rpartition(".")[0], room
    raise ImportError(f"{name} is imported, and hs2lib has no such module")


class Beside(NamedTuple):
    """What a source uses of the modules in a folder: digests of their code by file, and what they
    import of hs2lib.

    digests: {"mine.py": hex, "pkg/sub.py": hex}. library: dotted names, those that the source
    itself imports too.
    """

    digests: dict[str, str]
    library: frozenset[str]


def beside(source: Source, folder: Path) -> Beside:
    """The modules of the user's own that a source imports from a folder, directly or through
    others.

    Raises SyntaxError where one of them is no Python, and ImportError where one imports from above
    its package.
    """
    digests: dict[str, str] = {}
    library = set(source.library)
    waiting = list(source.imports)
    while waiting:
        for file, package in _files_of(waiting.pop(), folder):
            place = file.relative_to(folder).as_posix()
            if place in digests:
                continue
            module = read(file.read_text(), package=package)
            digests[place] = module.digest
            library |= module.library
            waiting += module.imports
    return Beside(digests, frozenset(library))


def _files_of(name: str, folder: Path) -> list[tuple[Path, str]]:
    """The files in a folder that importing a dotted name runs, its packages' too, each with the package it lies in."""
    out = []
    parts = name.split(".")
    for depth in range(1, len(parts) + 1):
        place = folder.joinpath(*parts[:depth])
        room = place / "__init__.py"
        file = place.parent / f"{place.name}.py"
        if room.is_file():
            out.append((room, ".".join(parts[:depth])))
        elif file.is_file():
            out.append((file, ".".join(parts[: depth - 1])))
    return [] if parts[0] == "hs2lib" else out


def module_file(name: str) -> Path:
    """The file of a dotted name of hs2lib, or of the module that holds it. Raises ImportError where neither exists."""
    return _module(package(), name)[1]


_LOADED: dict[str, tuple[object, str]] = {}


def source_of(name: str) -> str:
    """The source of a module of hs2lib; of one that this process has loaded, as it was then, and
    not as edited since.

    Its spec changes when it is loaded again, as IPython's autoreload does, and the source is read
    again then.
    """
    file = module_file(name)
    spec = getattr(sys.modules.get(name), "__spec__", None)
    if spec is None or spec.origin != str(file):
        return file.read_text()
    if name not in _LOADED or _LOADED[name][0] is not spec:
        _LOADED[name] = (spec, file.read_text())
    return _LOADED[name][1]


def _is_one_of(name: str, rooms: Iterable[str]) -> bool:
    """Whether a module is one of these, or lies in one of these rooms."""
    return any(name == room or name.startswith(f"{room}.") for room in rooms)


def reach(names: Iterable[str], without: Container[str] = ()) -> set[str]:
    """The modules of hs2lib that these dotted names use, directly or through others, by name.

    Those of `STARTS` and of `without` are left out, with what only they import. Raises ImportError
    as `module_file`.
    """
    modules: set[str] = set()
    seen: set[str] = set()
    waiting = list(names)
    while waiting:
        wanted = waiting.pop()
        if wanted in seen:
            continue
        name = _module(package(), wanted)[0]
        seen |= {wanted, name}
        if name in modules or name in without or _is_one_of(name, STARTS):
            continue
        modules.add(name)
        waiting += read(source_of(name)).library
        if "." in name:
            waiting.append(name.rpartition(".")[0])  # importing a module runs its package
    return modules


@functools.cache
def _beside(folder: Path) -> frozenset[str]:
    """Names of what lies in a folder of the package that is no module and no room."""
    return frozenset(
        place.name
        for place in folder.iterdir()
        if place.suffix not in (".py", ".pyc")
        and place.name != "__pycache__"
        and not (place / "__init__.py").exists()
    )


def data_files(name: str) -> set[Path]:
    """Files beside a module that a string in it names, as "paper/table-1.csv"; of a folder so named, all in it."""
    folder = module_file(name).parent
    files: set[Path] = set()
    for text in read(source_of(name)).strings:
        if text.partition("/")[0] in _beside(folder):
            place = folder / text
            files |= (
                {place}
                if place.is_file()
                else {file for file in place.rglob("*") if file.is_file()}
            )
    return {file for file in files if file.suffix != ".pyc" and file.name not in SITE}


def parts(modules: Iterable[str]) -> dict[str, str]:
    """The digest of each file of these modules, as {"hs2lib/train/losses.py": hex}: their code, and data they name."""
    out = {}
    above = package().parent
    for name in modules:
        out[module_file(name).relative_to(above).as_posix()] = read(source_of(name)).digest
        for file in data_files(name):
            out[file.relative_to(above).as_posix()] = paths.digest(file)
    return dict(sorted(out.items()))


# Functions and classes, also those of a notebook.


PLAIN = bool | int | float | complex | str | bytes | type(...) | None


class _Things:
    """Gathers what functions, classes and modules are made of: modules of hs2lib, and a digest of each other part."""

    def __init__(self):
        self.modules: set[str] = set()
        self.parts: dict[str, str] = {}
        self.known: dict[
            int, tuple[object, object]
        ] = {}  # each value, held so that its id stays its own

    def add(self, thing: object) -> None:
        """Take in a module by name, a function, a class, or what holds functions, as a tuple of them."""
        if isinstance(thing, str):
            self.modules |= reach([thing])
            return
        content = self.content(thing, of_library=True)
        self.parts["what was passed"] = hashed([self.parts.get("what was passed"), content])

    def content(self, value: object, *, of_library: bool) -> object:
        """What a value is, as JSON.

        of_library: it belongs to a function of hs2lib. Its plain values are arguments then, which
        what is kept has in its settings; only code counts. What a user's function holds counts
        whole.
        """
        if isinstance(value, PLAIN):
            return None if of_library else [type(value).__name__, repr(value)]
        if id(value) in self.known:
            return self.known[id(value)][1]
        self.known[id(value)] = (value, "itself")  # where it holds itself
        self.known[id(value)] = (value, self._content(value, of_library))
        return self.known[id(value)][1]

    def _content(self, value: object, of_library: bool) -> object:
        if isinstance(value, ModuleType):
            return self._module(value)
        if isinstance(value, MethodType):
            both = (value.__self__, value.__func__)
            return ["method", *(self.content(one, of_library=of_library) for one in both)]
        if isinstance(value, functools.partial):
            of_library &= str(getattr(value.func, "__module__", "")).split(".")[0] == "hs2lib"
            function = self.content(value.func, of_library=of_library)
            if of_library:
                return ["partial", function, self._bound(value.args), self._bound(value.keywords)]
            held = (value.args, value.keywords)
            return ["partial", function, *(self.content(one, of_library=False) for one in held)]
        if isinstance(value, FunctionType):
            return self._function(value)
        if isinstance(value, type):
            return self._class(value)
        if hasattr(value, "__wrapped__"):  # by functools.cache, say
            return ["wrapped", self.content(value.__wrapped__, of_library=of_library)]
        if callable(value) and hasattr(value, "__qualname__"):  # in C
            return ["function", f"{value.__module__}.{value.__qualname__}"]
        return self._object(value, of_library)

    def _bound(self, value: object) -> object:
        """An argument that a partial binds for a function of hs2lib: plain values count, also in
        lists and mappings.

        Tensors and models do not: they are state, and what is kept names them elsewhere.
        """
        if isinstance(value, Mapping):
            held = [[repr(key), self._bound(value[key])] for key in value]
            return ["mapping", sorted(held, key=json.dumps)]
        if isinstance(value, list | tuple):
            return [type(value).__name__, [self._bound(one) for one in value]]
        return self.content(value, of_library=not isinstance(value, PLAIN))

    def _part(self, name: str, content: list) -> str:
        """Take in what a user's function or class is made of; its digest.

        Its module's name does not count: what a notebook defines may be called `__main__`'s or not.
        """
        own = hashed(content)
        before = self.parts.get(name)
        self.parts[name] = hashed([before, own]) if before else own  # two of one name
        return own

    def _module(self, module: ModuleType) -> list:
        place = self._place(module.__name__)
        file = getattr(module, "__file__", None)
        if place == "user" and module.__name__ != "__main__" and file:
            source = read(Path(file).read_text(), package=module.__package__ or "")
            self.parts[module.__name__] = source.digest
            deep = len(module.__name__.split(".")) - (Path(file).name != "__init__.py")
            others = beside(source, Path(file).parents[deep])
            self.parts |= others.digests
            self.modules |= reach(others.library)
        return ["module", module.__name__]

    def _place(self, module: str) -> str:
        """Where a module is from, by its name: "library", and then it counts, "installed" or "user"."""
        if module.split(".")[0] == "hs2lib":
            self.modules |= reach([module])
            return "library"
        if module == "__main__" or module not in sys.modules:  # a notebook
            return "user"
        file = getattr(sys.modules[module], "__file__", None)
        return (
            "installed"
            if not file or "site-packages" in file or file.startswith(sys.base_prefix)
            else "user"
        )

    def _function(self, function: FunctionType) -> list:
        """A library's function by name, with the code that it was given; a user's by its compiled
        code and all it uses.

        What it uses: its defaults, what it closes over, and the globals that it names.
        """
        module = str(
            function.__globals__.get("__name__")
        )  # its own attribute may be that of a function it wraps
        name = f"{module}.{function.__qualname__}"
        place = self._place(module)
        if place == "installed" and self._is_of_an_installed_module(function):
            return ["function", name]
        held = [function.__defaults__ or (), function.__kwdefaults__ or {}]
        for cell in function.__closure__ or ():
            try:
                held.append(cell.cell_contents)
            except ValueError:  # it is filled later
                held.append(None)
        if place == "installed":  # a decorator made it, as torch.no_grad does
            held.append(getattr(function, "__wrapped__", None))
            return ["function", name, [self.content(one, of_library=False) for one in held]]
        if place == "library":
            return ["function", name, [self.content(one, of_library=True) for one in held]]
        for used in sorted(_globals_of(function.__code__)):
            if used in function.__globals__:
                held.append((used, function.__globals__[used]))
        code = function.__code__
        documented = bool(code.co_consts) and code.co_consts[0] is function.__doc__
        whole = [_code(code, documented), [self.content(one, of_library=False) for one in held]]
        return ["function", self._part(function.__qualname__, whole)]

    def _is_of_an_installed_module(self, function: FunctionType) -> bool:
        """Whether a function of installed code was made there too, so that its name says all.

        An installed decorator makes functions of its own code, which hold the function that stands
        under it.
        """
        if not function.__closure__ and not hasattr(function, "__wrapped__"):
            return True
        module = function.__module__
        if module not in sys.modules or self._place(module) != "installed":
            return False
        value: object = sys.modules[module]
        for name in function.__qualname__.split("."):
            value = getattr(value, name, None)
        return value is function

    def _class(self, kind: type) -> list:
        name = f"{kind.__module__}.{kind.__qualname__}"
        if self._place(kind.__module__) != "user":
            return ["class", name]
        own = {
            key: value
            for key, value in vars(kind).items()
            if key not in ("__doc__", "__dict__", "__weakref__")
        }
        held = [self.content(base, of_library=False) for base in kind.__bases__]
        held += [[key, self.content(value, of_library=False)] for key, value in sorted(own.items())]
        return ["class", self._part(kind.__qualname__, held)]

    def _object(self, value: object, of_library: bool) -> object:
        kind = self.content(type(value), of_library=of_library)
        if isinstance(value, weakref.WeakKeyDictionary):
            held = []  # what was looked up so far, as functools.singledispatch keeps it
        elif isinstance(value, Mapping):
            held = [[repr(key), self.content(value[key], of_library=of_library)] for key in value]
            held.sort(key=json.dumps)
        elif isinstance(value, list | tuple):
            held = [self.content(one, of_library=of_library) for one in value]
        elif isinstance(value, set | frozenset):
            held = sorted(
                (self.content(one, of_library=of_library) for one in value), key=json.dumps
            )
        elif (
            of_library
            and self._place(type(value).__module__) != "user"
            and not self._is_installed_function(value)
        ):
            return kind
        elif hasattr(value, "fingerprint"):  # of a model's weights
            held = value.fingerprint()
        elif hasattr(value, "__array__"):
            array = (value.detach().cpu() if hasattr(value, "detach") else value).__array__()
            held = [str(array.dtype), array.shape, hashlib.sha256(array.tobytes()).hexdigest()]
        elif isinstance(value, property | staticmethod | classmethod):
            inner = [getattr(value, name, None) for name in ("__func__", "fget", "fset")]
            held = [self.content(one, of_library=False) for one in inner]
        elif isinstance(value, os.PathLike):
            held = os.fspath(value)
        else:
            held = [
                [name, self.content(one, of_library=False)]
                for name, one in sorted(_attributes(value).items())
            ]
            if not held and self._is_installed_function(value):
                held = self._reduced(value)
        return [kind, held]

    def _is_installed_function(self, value: object) -> bool:
        """Whether a value is called like a function and of an installed type, as numpy.vectorize's; no torch module."""
        kinds = [f"{kind.__module__}.{kind.__qualname__}" for kind in type(value).__mro__]
        is_model = "torch.nn.modules.module.Module" in kinds
        return (
            callable(value) and not is_model and self._place(type(value).__module__) == "installed"
        )

    def _reduced(self, value: object) -> list:
        """What an object in C, as operator.itemgetter's, is made again from; nothing of one that does not say."""
        try:
            reduced = value.__reduce__()
        except (TypeError, pickle.PicklingError):
            return []
        return [self.content(reduced, of_library=False)]


def _attributes(value: object) -> dict[str, object]:
    """What an object holds, by name; nothing of one that does not say, as an open file or a lock."""
    slots = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
    held = {
        name: getattr(value, name)
        for name in slots
        if isinstance(name, str) and hasattr(value, name)
    }
    return held | getattr(value, "__dict__", {})


def _globals_of(code: CodeType) -> set[str]:
    """Names of the globals that a code object, or one inside it, reads."""
    names = {
        step.argval
        for step in dis.get_instructions(code)
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME")
    }
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names |= _globals_of(constant)
    return names


def record(*things: object) -> dict:
    """What code made something, for the record that is kept with it: {"digest": hex, "files":
    {file: short hex}}.

    Args:
        things: modules by name; functions and classes; what holds functions, as an objective does. Of those of hs2lib
            their module counts with all that it uses, but for what only draws. Of others, as a reader's own loss or
            pair rule, the compiled code counts, with defaults, with what they close over, and the globals they name.

    Raises:
        ImportError: a module of hs2lib imports one that is not there.
    """
    gathered = _Things()
    for thing in things:
        gathered.add(thing)
    computing = {name for name in gathered.modules if not _is_one_of(name, DRAWS)}
    every = parts(computing) | gathered.parts
    return {
        "digest": hashed(every),
        "files": {name: value[:12] for name, value in sorted(every.items())},
    }


def digest(*things: object) -> str:
    """The hex digest of the code that computes in these things; see `record`."""
    return record(*things)["digest"]


def differing(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """The files of two records, {file: hex}, that differ or that only one of them has, in order."""
    return sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))


# What other code made.


KEPT = "HS2_KEPT"
POLICIES = ("again", "ask", "reuse")


class MadeByOtherCode(RuntimeError):
    """Something kept for this very configuration was made by other code, and nobody said what to do with it."""


def kept_policy() -> str:
    """What becomes of kept work of other code, `HS2_KEPT`: "again" (the default), "ask" or "reuse".

    "again": it is made again, beside what is there. "ask": `MadeByOtherCode` is raised. "reuse": it
    is read. Raises ValueError for another word.
    """
    policy = os.environ.get(KEPT) or "again"
    if policy not in POLICIES:
        raise ValueError(f"{KEPT} is {policy!r}: it is one of {', '.join(POLICIES)}")
    return policy


def reusable(others: Iterable[Path], what: str, differs: Callable[[Path], str]) -> Path | None:
    """Of what other code made of the same configuration, the path that is to be read; None: it is
    made again.

    Args:
        others: files or folders, the best one last.
        what: they hold, as in "a training".
        differs: what differs of one, in words.

    Raises:
        MadeByOtherCode: where `kept_policy` is "ask" and there is one.
    """
    several = list(others)
    policy = kept_policy()
    if not several or policy == "again":
        return None
    best = several[-1]
    if policy == "ask":
        lines = [
            f"{what} of this very configuration is kept, made by other code: {best}",
            f"What differs: {differs(best)}.",
            "To have it made again, delete or rename that. To have it read as it is, add --reuse.",
        ]
        raise MadeByOtherCode("\n".join(lines))
    return best
