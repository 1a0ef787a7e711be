"""A digest of the code that computes: comments, docstrings, hints and layout do not change it.

    digest("hs2lib.train.trainer", objective, my_reward)
    record("hs2lib.train.trainer")  # the same, with the digest of each file

Modules are passed by name. Functions and classes may be those of a user.

A run says by which digest it was made, and so does each training, file of samples or file of scores
that is kept. So old weights never answer for a changed formula, and a comment costs nothing. Names
of locals do not change the digest either.

Nothing is declared. A module counts where it is imported, directly or through others, and so do the
data files that it names. In doubt a module counts.
"""

import ast
import dis
import functools
import hashlib
import inspect
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

# Modules that only draw. After a change of these a run's figures are drawn again, and its numbers
# stay. Verdicts and tables are not among them.
DRAWS = (
    "hs2lib.report.diagrams",
    "hs2lib.report.figures",
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
    "story.yaml",
}

# Modules and rooms by which runs are put in order, started and judged. That changes no result.
STARTS = (
    "hs2lib.code",
    "hs2lib.launch",
    "hs2lib.run.graph",
    "hs2lib.run.processes",
    "hs2lib.run.runner",
    "hs2lib.run.stages",
)


_PACKAGE = Path(__file__).parent


def package() -> Path:
    """The folder of hs2lib."""
    return _PACKAGE


def hashed(content: object) -> str:
    """Hex digest of anything that JSON can hold."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


# Source code, without what changes nothing.


# Decorators that read no hint. Others may read them, as a validator of pydantic does: under these
# the hints count.
_BLIND = {
    "abstractmethod",
    "cache",
    "cached_property",
    "classmethod",
    "contextmanager",
    "lru_cache",
    "no_grad",
    "once_differentiable",
    "property",
    "setter",
    "staticmethod",
    "wraps",
}


def _last_name(expression: ast.expr) -> str:
    """The last name of a name or call: of `functools.cache` "cache", of `wraps(f)` "wraps"."""
    if isinstance(expression, ast.Call):
        expression = expression.func
    if isinstance(expression, ast.Attribute):
        return expression.attr
    return getattr(expression, "id", "")


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
    """Statements without docstrings, hints and what only type checkers read.

    Fields of classes stay. The statements themselves are changed.

    Args:
        body: the statements.
        owner: what they stand in: ast.Module, ast.ClassDef or ast.FunctionDef.
        hints: whether the hints of the module's own variables stay.
    """
    stripped: list[ast.stmt] = []
    for node in body:
        if isinstance(node, ast.ClassDef):
            node.body = _strip(_undocumented(node.body), ast.ClassDef, hints)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if all(_last_name(decorator) in _BLIND for decorator in node.decorator_list):
                _drop_hints(node)
            node.body = _strip(_undocumented(node.body), ast.FunctionDef, hints)
        elif isinstance(node, ast.If) and _last_name(node.test) == "TYPE_CHECKING":
            stripped += _strip(node.orelse, owner, hints) or [ast.Pass()]
            continue
        elif isinstance(node, ast.AnnAssign):
            # In a function Python itself drops the hint.
            if owner is ast.Module and isinstance(node.target, ast.Name) and not hints:
                node = ast.Assign([node.target], node.value) if node.value else ast.Pass()
        else:
            for part in (node, *getattr(node, "handlers", ()), *getattr(node, "cases", ())):
                for name in ("body", "orelse", "finalbody"):
                    if getattr(part, name, None):
                        setattr(part, name, _strip(getattr(part, name), owner, hints))
        stripped.append(node)
    return stripped


def _drop_hints(function: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
    """Take the hints of the arguments and of the result from a function."""
    function.returns = None
    arguments = function.args
    for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
        argument.annotation = None
    for argument in (arguments.vararg, arguments.kwarg):
        if argument:
            argument.annotation = None


def _nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """All nodes of a tree in some order; `ast.walk` takes three times as long.

    Only fields count: after an error IPython hangs each node's parent on it, also on nodes that all
    trees share, as `ast.Load()`.
    """
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        for name in node._fields:
            value = getattr(node, name, None)
            if isinstance(value, ast.AST):
                waiting.append(value)
            elif isinstance(value, list):
                waiting += [child for child in value if isinstance(child, ast.AST)]


class Source(NamedTuple):
    """What the source of a module says.

    `digest` is that of its code. `imports` has dotted names; of a name in a module, as in
    `from a import b`, it has "a.b". Imports inside functions count. `library` has those of hs2lib.
    `strings` has the short strings.
    """

    digest: str
    imports: frozenset[str]
    library: frozenset[str]
    strings: frozenset[str]


# A string that may name a data file.
_SHORT_STRING = re.compile(r"[\w-][\w./-]{0,99}")


@functools.cache
def read(source: str, *, hints: bool = False, package: str = "") -> Source:
    """What the source of a module, or of a cell, says. Its digest is that of its compiled code.

    The digest does not change with comments, docstrings and layout. It does not change with hints
    of arguments, results and variables, nor with the names of a function's locals. It changes with
    all else, fields of classes and texts of errors included.

    Args:
        source: of a module, or of a cell.
        hints: whether the hints of the module's own variables count, as those of a parameters cell.
        package: the dotted name of the package that the module is or lies in. Relative imports
            start there.

    Raises:
        SyntaxError: the source is not Python.
        ImportError: it has a relative import, and lies in no package or not deep enough in one.
    """
    tree = ast.parse(source)
    if "__doc__" not in source:
        tree.body = _strip(_undocumented(tree.body), ast.Module, hints)
    imports = set()
    strings = set()
    for node in _nodes(tree):
        if node._attributes:
            # By lines the compiler decides where to leave an instruction that does nothing.
            node.lineno = 1
            node.end_lineno = 1
            node.col_offset = 0
            node.end_col_offset = 0
        if isinstance(node, ast.ImportFrom):
            module = _imported_from(node, package)
            imports |= {f"{module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            imports |= {alias.name for alias in node.names}
        elif isinstance(node, ast.Constant) and _SHORT_STRING.fullmatch(str(node.value)):
            strings.add(str(node.value))
    digest = hashed(_code(compile(tree, "", "exec", dont_inherit=True, optimize=0)))
    library = frozenset(name for name in imports if name.split(".")[0] == "hs2lib")
    return Source(digest, frozenset(imports), library, frozenset(strings))


def _imported_from(node: ast.ImportFrom, package: str) -> str:
    """The whole name of the module that a statement imports from. Raises ImportError as `read`."""
    if not node.level:
        return str(node.module)
    packages = package.split(".") if package else []
    if node.level > len(packages):
        raise ImportError(
            f"from {'.' * node.level}{node.module or ''} import ..: write the module's name whole"
        )
    names = packages[: len(packages) - node.level + 1]
    if node.module:
        names.append(node.module)
    return ".".join(names)


def read_cell(source: str, *, hints: bool = False) -> Source:
    """What the source of a cell says, as `read`.

    Of a cell that is not plain Python, as one with `%matplotlib`, the text counts. It imports what
    its lines without the commands of IPython import, and nothing where those are not Python either.
    """
    try:
        return read(source, hints=hints)
    except SyntaxError:
        pass
    plain = re.sub(r"(?m)^(\s*)[%!?].*$", r"\1pass", source)
    text_digest = hashed(source)
    try:
        return read(plain)._replace(digest=text_digest)
    except SyntaxError:
        return Source(text_digest, frozenset(), frozenset(), frozenset())


def _code(code: CodeType, documented: bool = False) -> list:
    """What a code object does, as JSON.

    It has no lines, no files, and no names of locals other than arguments.

    Args:
        code: the code object.
        documented: whether its first constant is its docstring, or None in the place of one.
    """
    n_arguments = code.co_argcount + code.co_kwonlyargcount
    if code.co_flags & inspect.CO_VARARGS:
        n_arguments += 1
    if code.co_flags & inspect.CO_VARKEYWORDS:
        n_arguments += 1
    counts = [
        code.co_argcount,
        code.co_posonlyargcount,
        code.co_kwonlyargcount,
        code.co_flags,
        code.co_nlocals,
    ]
    names = [
        code.co_name,
        code.co_names,
        code.co_varnames[:n_arguments],
        code.co_cellvars,
        code.co_freevars,
    ]
    constants = code.co_consts
    if documented:
        constants = constants[1:]
    return [
        counts,
        names,
        code.co_code.hex(),
        code.co_exceptiontable.hex(),
        [_constant(constant) for constant in constants],
    ]


def _constant(value: object) -> list:
    """A constant with its type, as JSON: 1, 1.0 and True are three."""
    if isinstance(value, CodeType):
        return ["code", _code(value)]
    if isinstance(value, tuple):
        return ["tuple", [_constant(item) for item in value]]
    if isinstance(value, frozenset):
        return ["frozenset", sorted([_constant(item) for item in value], key=json.dumps)]
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


def _defines(package: Path, name: str) -> bool:
    """Whether the file of a package defines a name. "*" stands for all it defines."""
    return name == "*" or name in _top_level(package.read_text())


@functools.cache
def _module(folder: Path, name: str) -> tuple[str, Path]:
    """(name, file) of the module that a dotted name is, or is defined in.

    Args:
        folder: that of hs2lib.
        name: of a module, a package, or of something that one of these defines.

    Raises:
        ImportError: there is no such module.
    """
    path = folder.joinpath(*name.split(".")[1:])
    for file in (path.with_suffix(".py"), path / "__init__.py"):
        if file.is_file():
            return name, file
    parent_name = name.rpartition(".")[0]
    parent_module = path.parent.with_suffix(".py")
    if parent_module.is_file():
        return parent_name, parent_module
    parent_package = path.parent / "__init__.py"
    if parent_package.is_file() and _defines(parent_package, path.name):
        return parent_name, parent_package
    raise ImportError(f"{name} is imported, and hs2lib has no such module")


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
    library = set(source.library)
    waiting = list(source.imports)
    while waiting:
        for file, package in _files_of(waiting.pop(), folder):
            name = file.relative_to(folder).as_posix()
            if name in digests:
                continue
            module = read(file.read_text(), package=package)
            digests[name] = module.digest
            library |= module.library
            waiting += module.imports
    return Beside(digests, frozenset(library))


def _files_of(name: str, folder: Path) -> list[tuple[Path, str]]:
    """(file, its package) of each file in a folder that importing a dotted name runs.

    The packages that a module lies in are run too.
    """
    parts = name.split(".")
    if parts[0] == "hs2lib":
        return []
    files = []
    for depth in range(1, len(parts) + 1):
        path = folder.joinpath(*parts[:depth])
        package = path / "__init__.py"
        module = path.parent / f"{path.name}.py"
        if package.is_file():
            files.append((package, ".".join(parts[:depth])))
        elif module.is_file():
            files.append((module, ".".join(parts[: depth - 1])))
    return files


def module_file(name: str) -> Path:
    """The file of the module of hs2lib that a dotted name is, or is defined in.

    Raises ImportError where there is no such module.
    """
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


def _is_one_of(name: str, rooms: Iterable[str]) -> bool:
    """Whether a module is one of these, or lies in one of these rooms."""
    return any(name == room or name.startswith(f"{room}.") for room in rooms)


def reach(names: Iterable[str], without: Container[str] = ()) -> set[str]:
    """The modules of hs2lib that these dotted names use, directly or through others, by name.

    Modules of `STARTS` and of `without` are left out, and so are those that only they import.
    Raises ImportError as `module_file`.
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
def _names_beside(folder: Path) -> frozenset[str]:
    """Names of the files and folders in a folder of hs2lib that are neither modules nor rooms."""
    names = set()
    for path in folder.iterdir():
        is_code = path.suffix in (".py", ".pyc") or path.name == "__pycache__"
        if not is_code and not (path / "__init__.py").exists():
            names.add(path.name)
    return frozenset(names)


def data_files(name: str) -> set[Path]:
    """Files beside a module that a string in it names, as "paper/table-1.csv".

    Of a folder that a string names all files count. Those of `SITE` do not.
    """
    folder = module_file(name).parent
    files: set[Path] = set()
    for text in read(source_of(name)).strings:
        if text.partition("/")[0] not in _names_beside(folder):
            continue
        path = folder / text
        if path.is_file():
            files.add(path)
        else:
            files.update(file for file in path.rglob("*") if file.is_file())
    return {file for file in files if file.suffix != ".pyc" and file.name not in SITE}


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


# Functions and classes, also those of a notebook.


PLAIN = bool | int | float | complex | str | bytes | type(...) | None


class _Gatherer:
    """Gathers what functions, classes and modules are made of.

    `modules` has the names of modules of hs2lib. `parts` has the digest of each other part, by
    name.
    """

    def __init__(self) -> None:
        self.modules: set[str] = set()
        self.parts: dict[str, str] = {}
        # (value, content) of each value by its id. A value is held so that no other one has its id.
        self.contents: dict[int, tuple[object, object]] = {}

    def add(self, thing: object) -> None:
        """Take in a module by name, a function, a class, or what holds these, as a tuple does."""
        if isinstance(thing, str):
            self.modules |= reach([thing])
            return
        content = self.content(thing, of_library=True)
        self.parts["what was passed"] = hashed([self.parts.get("what was passed"), content])

    def content(self, value: object, *, of_library: bool) -> object:
        """What a value is, as JSON.

        Args:
            value: anything.
            of_library: whether it belongs to a function of hs2lib. Then its plain values do not
                count: they are arguments, which stand in the settings of what is kept. Of what
                belongs to a user's function all counts.
        """
        if isinstance(value, PLAIN):
            return None if of_library else [type(value).__name__, repr(value)]
        if id(value) in self.contents:
            return self.contents[id(value)][1]
        self.contents[id(value)] = (value, "itself")  # where it holds itself
        self.contents[id(value)] = (value, self._content(value, of_library))
        return self.contents[id(value)][1]

    def _contents(self, values: Iterable[object], of_library: bool) -> list[object]:
        """What each of some values is, as JSON."""
        return [self.content(value, of_library=of_library) for value in values]

    def _content(self, value: object, of_library: bool) -> object:
        """What a value that is not plain is, as JSON."""
        if isinstance(value, ModuleType):
            return self._module(value)
        if isinstance(value, MethodType):
            return ["method", *self._contents((value.__self__, value.__func__), of_library)]
        if isinstance(value, functools.partial):
            return self._partial(value, of_library)
        if isinstance(value, FunctionType):
            return self._function(value)
        if isinstance(value, type):
            return self._class(value)
        if hasattr(value, "__wrapped__"):  # by functools.cache, say
            return ["wrapped", self.content(value.__wrapped__, of_library=of_library)]
        if callable(value) and hasattr(value, "__qualname__"):  # in C
            # A method of a type, as str.lower, has no `__module__`.
            return ["function", f"{getattr(value, '__module__', None)}.{value.__qualname__}"]
        return self._object(value, of_library)

    def _partial(self, value: functools.partial, of_library: bool) -> list:
        """What a partial is: its function and what it binds."""
        module = str(getattr(value.func, "__module__", ""))
        of_library = of_library and module.split(".")[0] == "hs2lib"
        function = self.content(value.func, of_library=of_library)
        if of_library:
            return ["partial", function, self._bound(value.args), self._bound(value.keywords)]
        return ["partial", function, *self._contents((value.args, value.keywords), False)]

    def _bound(self, value: object) -> object:
        """What an argument is that a partial binds for a function of hs2lib.

        Plain values count, also in lists and mappings. Tensors and models do not count: they are
        state, which is named elsewhere in what is kept.
        """
        if isinstance(value, Mapping):
            entries = [[repr(key), self._bound(value[key])] for key in value]
            return ["mapping", sorted(entries, key=json.dumps)]
        if isinstance(value, list | tuple):
            return [type(value).__name__, [self._bound(item) for item in value]]
        return self.content(value, of_library=not isinstance(value, PLAIN))

    def _add_part(self, name: str, content: list) -> str:
        """Take in what a user's function or class is made of; its digest.

        The name of its module does not count: what a notebook defines may be called `__main__`'s or
        not.
        """
        digest = hashed(content)
        before = self.parts.get(name)
        # Two parts of one name are digested together.
        self.parts[name] = hashed([before, digest]) if before else digest
        return digest

    def _module(self, module: ModuleType) -> list:
        """What a module is: its name. A user's module is taken in with those it imports."""
        origin = self._origin(module.__name__)
        file = getattr(module, "__file__", None)
        if origin == "user" and module.__name__ != "__main__" and file:
            source = read(Path(file).read_text(), package=module.__package__ or "")
            self.parts[module.__name__] = source.digest
            depth = len(module.__name__.split("."))
            if Path(file).name != "__init__.py":
                depth -= 1
            others = modules_beside(source, Path(file).parents[depth])
            self.parts |= others.digests
            self.modules |= reach(others.library)
        return ["module", module.__name__]

    def _origin(self, module: str) -> str:
        """Where a module is from, by its name: "library", "installed" or "user".

        A module of the library is taken in.
        """
        if module.split(".")[0] == "hs2lib":
            self.modules |= reach([module])
            return "library"
        if module == "__main__" or module not in sys.modules:  # a notebook
            return "user"
        file = getattr(sys.modules[module], "__file__", None)
        if not file or "site-packages" in file or file.startswith(sys.base_prefix):
            return "installed"
        return "user"

    def _function(self, function: FunctionType) -> list:
        """What a function is.

        A function of hs2lib is its name, with the functions that it was given. A user's function is
        its compiled code and all it uses: its defaults, what it closes over, and the globals that
        it names.
        """
        # The function's own attribute `__module__` may be that of a function it wraps.
        module = str(function.__globals__.get("__name__"))
        name = f"{module}.{function.__qualname__}"
        origin = self._origin(module)
        if origin == "installed" and self._is_of_an_installed_module(function):
            return ["function", name]
        used = _defaults_and_closure(function)
        if origin == "installed":  # a decorator made it, as torch.no_grad does
            used.append(getattr(function, "__wrapped__", None))
            return ["function", name, self._contents(used, of_library=False)]
        if origin == "library":
            return ["function", name, self._contents(used, of_library=True)]
        for variable in sorted(_globals_of(function.__code__)):
            if variable in function.__globals__:
                used.append((variable, function.__globals__[variable]))
        code = function.__code__
        documented = bool(code.co_consts) and code.co_consts[0] is function.__doc__
        content = [_code(code, documented), self._contents(used, of_library=False)]
        return ["function", self._add_part(function.__qualname__, content)]

    def _is_of_an_installed_module(self, function: FunctionType) -> bool:
        """Whether a function of installed code was made there too, so that its name says all.

        An installed decorator makes functions of its own code, which hold the function that stands
        under it.
        """
        if not function.__closure__ and not hasattr(function, "__wrapped__"):
            return True
        module = function.__module__
        if module not in sys.modules or self._origin(module) != "installed":
            return False
        value: object = sys.modules[module]
        for name in function.__qualname__.split("."):
            value = getattr(value, name, None)
        return value is function

    def _class(self, kind: type) -> list:
        """What a class is: its name, or of a user's its bases and what it defines."""
        name = f"{kind.__module__}.{kind.__qualname__}"
        if self._origin(kind.__module__) != "user":
            return ["class", name]
        content = self._contents(kind.__bases__, of_library=False)
        for key, value in sorted(vars(kind).items()):
            if key not in ("__doc__", "__dict__", "__weakref__"):
                content.append([key, self.content(value, of_library=False)])
        return ["class", self._add_part(kind.__qualname__, content)]

    def _object(self, value: object, of_library: bool) -> object:
        """What any other object is: its class and what it holds."""
        kind = self.content(type(value), of_library=of_library)
        if isinstance(value, weakref.WeakKeyDictionary):
            # It holds what was looked up so far, as functools.singledispatch keeps it.
            return [kind, []]
        if isinstance(value, Mapping):
            entries = [
                [repr(key), self.content(value[key], of_library=of_library)] for key in value
            ]
            return [kind, sorted(entries, key=json.dumps)]
        if isinstance(value, list | tuple):
            return [kind, self._contents(value, of_library)]
        if isinstance(value, set | frozenset):
            return [kind, sorted(self._contents(value, of_library), key=json.dumps)]
        if (
            of_library
            and self._origin(type(value).__module__) != "user"
            and not self._is_installed_function(value)
        ):
            return kind
        return [kind, self._state(value)]

    def _state(self, value: object) -> object:
        """What an object that is no container holds, as JSON."""
        if hasattr(value, "fingerprint"):  # of a model's weights
            return value.fingerprint()
        if hasattr(value, "__array__"):
            tensor = value.detach().cpu() if hasattr(value, "detach") else value
            array = tensor.__array__()
            return [str(array.dtype), array.shape, hashlib.sha256(array.tobytes()).hexdigest()]
        if isinstance(value, property | staticmethod | classmethod):
            inner = [getattr(value, name, None) for name in ("__func__", "fget", "fset")]
            return self._contents(inner, of_library=False)
        if isinstance(value, os.PathLike):
            return os.fspath(value)
        state = [
            [name, self.content(attribute, of_library=False)]
            for name, attribute in sorted(_attributes(value).items())
        ]
        if not state and self._is_installed_function(value):
            return self._reduced(value)
        return state

    def _is_installed_function(self, value: object) -> bool:
        """Whether a value is called like a function and of an installed type, as numpy.vectorize's.

        A torch module is not one.
        """
        kinds = [f"{kind.__module__}.{kind.__qualname__}" for kind in type(value).__mro__]
        is_model = "torch.nn.modules.module.Module" in kinds
        return (
            callable(value) and not is_model and self._origin(type(value).__module__) == "installed"
        )

    def _reduced(self, value: object) -> list:
        """What an object in C, as operator.itemgetter's, is made again from.

        It is empty for an object that does not say.
        """
        try:
            reduced = value.__reduce__()
        except (TypeError, pickle.PicklingError):
            return []
        return [self.content(reduced, of_library=False)]


def _defaults_and_closure(function: FunctionType) -> list[object]:
    """The defaults of a function, those by keyword, and each value that it closes over."""
    values: list[object] = [function.__defaults__ or (), function.__kwdefaults__ or {}]
    for cell in function.__closure__ or ():
        try:
            values.append(cell.cell_contents)
        except ValueError:  # it is filled later
            values.append(None)
    return values


def _attributes(value: object) -> dict[str, object]:
    """What an object holds, by name.

    It is nothing for an object that does not say, as an open file or a lock.
    """
    attributes = {}
    for kind in type(value).__mro__:
        for name in getattr(kind, "__slots__", ()):
            if isinstance(name, str) and hasattr(value, name):
                attributes[name] = getattr(value, name)
    return attributes | getattr(value, "__dict__", {})


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
    """The code that made something, as {"digest": hex, "files": {file: short hex}}.

    It is kept with what was made.

    Args:
        things: modules by name; functions and classes; what holds functions, as an objective does.
            Of a function of hs2lib its module counts, with all that it uses except for what only
            draws. Of any other one, as a reader's loss or pair rule, the compiled code counts, with
            its defaults, what it closes over, and the globals that it names.

    Raises:
        ImportError: a module of hs2lib imports one that is not there.
    """
    gatherer = _Gatherer()
    for thing in things:
        gatherer.add(thing)
    computing = {name for name in gatherer.modules if not _is_one_of(name, DRAWS)}
    digests = parts(computing) | gatherer.parts
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


# What other code made.


KEPT = "HS2_KEPT"
POLICIES = ("again", "ask", "reuse")


class MadeByOtherCode(RuntimeError):
    """Other code made what is kept of a configuration, and nobody said what to do with it."""


def kept_policy() -> str:
    """What becomes of kept work of other code: "again" (the default), "ask" or "reuse".

    It is the value of the environment variable `HS2_KEPT`. "again": the work is made again, beside
    what is there. "ask": `MadeByOtherCode` is raised. "reuse": the kept work is read. Raises
    ValueError for another word.
    """
    policy = os.environ.get(KEPT) or "again"
    if policy not in POLICIES:
        raise ValueError(f"{KEPT} is {policy!r}: it is one of {', '.join(POLICIES)}")
    return policy


def reusable(others: Iterable[Path], what: str, differs: Callable[[Path], str]) -> Path | None:
    """The kept work of other code that is to be read; None where the work is to be made again.

    Args:
        others: the files or folders that other code made of the same configuration, the best last.
        what: they hold, as in "a training".
        differs: says in words in what the code of one of them differs.

    Raises:
        MadeByOtherCode: `kept_policy` is "ask", and there is such work.
    """
    candidates = list(others)
    policy = kept_policy()
    if not candidates or policy == "again":
        return None
    best = candidates[-1]
    if policy == "ask":
        lines = [
            f"{what} of this very configuration is kept, made by other code: {best}",
            f"What differs: {differs(best)}.",
            "To have it made again, delete or rename that. To have it read as it is, add --reuse.",
        ]
        raise MadeByOtherCode("\n".join(lines))
    return best
