"""The digest of code that computes: what changes it, what does not, and that no room is left out."""

import ast
import json
import operator
import re
import shutil
import subprocess
import sys
import textwrap
from functools import partial

import numpy as np
import pytest
import torch

from hs2lib import code
from hs2lib.paths import root
from hs2lib.train import losses, objectives

SOURCE = '''"""What this module is for."""

from dataclasses import dataclass

RATE: float = 0.5


@dataclass
class Recipe:
    """A recipe."""

    beta: float = 1.0
    name: str = "a"


def loss(margin: float, beta: float = 0.1, *, scale: int = 1) -> float:
    """A loss."""
    weighted: float = beta * margin  # a comment
    kept = [part for part in (weighted, 1) if part in {2, 3}]
    return weighted * scale + RATE + len(kept)
'''


def digest(source):
    return code.read(textwrap.dedent(source)).digest


@pytest.mark.parametrize(
    ("kind", "before", "after"),
    [
        ("a comment", "  # a comment", "  # another one"),
        ("a comment that comes", "RATE: float", "# Why.\nRATE: float"),
        (
            "a docstring of the module",
            '"""What this module is for."""',
            '"""What it is for.\n\nMore.\n"""',
        ),
        ("a docstring that goes", '    """A loss."""\n', ""),
        ("a docstring of a class", '"""A recipe."""', '"""The recipe."""'),
        ("a hint of an argument", "margin: float", "margin: int"),
        ("a hint that goes", ") -> float:", "):"),
        ("a hint of a local", "weighted: float = ", "weighted = "),
        ("a hint of the module", "RATE: float = ", "RATE = "),
        ("a hint of a local that comes", "kept = [", "kept: list = ["),
        (
            "layout",
            "return weighted * scale + RATE",
            "return (\n        weighted * scale\n        + RATE",
        ),
    ],
)
def test_what_computes_the_same_has_the_same_digest(kind, before, after):
    """Else nobody dares to tidy: a comment made all reports of a tier stale."""
    changed = SOURCE.replace(before, after)
    if kind == "layout":
        changed = changed.replace("+ len(kept)", "+ len(kept)\n    )")
    assert changed != SOURCE and digest(changed) == digest(SOURCE), kind


def test_what_only_type_checkers_import_does_not_count():
    source = "from typing import TYPE_CHECKING\n{}import numpy\n"
    plain = source.format("")
    hinted = source.format("if TYPE_CHECKING:\n    import torch\n")
    assert code.read(hinted) == code.read(plain)
    either = source.format("if TYPE_CHECKING:\n    import torch\nelse:\n    import pandas\n")
    assert code.read(either).imports == code.read(plain).imports | {"pandas"}


@pytest.mark.parametrize(
    ("kind", "before", "after"),
    [
        ("a constant", "RATE: float = 0.5", "RATE: float = 0.6"),
        ("its type", "(weighted, 1)", "(weighted, 1.0)"),
        ("its type, bool", "(weighted, 1)", "(weighted, True)"),
        ("the sign of a zero", "0.5", "-0.0"),
        ("an element of a set", "{2, 3}", "{2, 4}"),
        ("an operator", "beta * margin", "beta + margin"),
        ("a comparison", "in {2", "not in {2"),
        ("a default", "beta: float = 0.1", "beta: float = 0.2"),
        ("a default by keyword", "scale: int = 1", "scale: int = 2"),
        ("the name of an argument", "margin", "difference"),
        (
            "the order of arguments",
            "margin: float, beta: float = 0.1",
            "beta: float, margin: float = 0.1",
        ),
        ("a text", '"a"', '"b"'),
        ("a field of a class", "beta: float = 1.0", "beta: float = 2.0"),
        ("the hint of a field", "beta: float = 1.0", "beta: int = 1.0"),
        (
            "the order of fields",
            '    beta: float = 1.0\n    name: str = "a"',
            '    name: str = "a"\n    beta: float = 1.0',
        ),
        ("a decorator", "@dataclass", "@dataclass(frozen=True)"),
        ("a global that is read", "+ RATE", "+ OTHER"),
    ],
)
def test_what_computes_something_else_has_another_digest(kind, before, after):
    """A digest that misses one of these would let old weights pass for new ones."""
    changed = SOURCE.replace(before, after)
    assert changed != SOURCE and digest(changed) != digest(SOURCE), kind


def test_hints_count_where_a_decorator_may_read_them():
    """A validator of pydantic checks what the hint says: a hint that is read is no comment."""
    source = "@validator\ndef check(x: int):\n    y: int = x\n    return y\n"
    assert digest(source) != digest(source.replace("x: int", "x: float"))
    assert digest(source) == digest(source.replace("y: int", "y: float")), "a local's never does"


def test_hints_of_parameters_count_where_they_are_asked_for():
    """In a parameters cell the hint says of which type the value is."""
    both = "n: int = 2", "n: float = 2"
    assert len({code.read(one).digest for one in both}) == 1
    assert len({code.read(one, hints=True).digest for one in both}) == 2


def test_a_docstring_that_is_read_counts():
    """The command line of a module prints its docstring: no table holds it, but nobody can tell that from others."""
    source = '"""One."""\nprint(__doc__)\n'
    assert digest(source) != digest(source.replace("One", "Two"))
    hinted = "if TYPE_CHECKING:\n    import numpy\ndef f(x: int): ...\n" + source
    assert digest(hinted) == digest(hinted.replace("int)", "float)"))
    assert not code.read(hinted).imports


def test_every_process_finds_the_same_digest():
    """Sets of texts come in another order in each process."""
    program = (
        "from hs2lib import code; print(code.digest('hs2lib.train.trainer', 'hs2lib.world.sets'))"
    )
    printed = [
        subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            text=True,
            check=True,
            cwd=root(),
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": str(root())},
        ).stdout
        for seed in ("1", "2")
    ]
    assert printed[0] == printed[1] and len(printed[0]) == 65


# Which modules count.


def test_reach_goes_through_others_and_into_functions_and_leaves_the_rest():
    names = code.reach(["hs2lib.train.trainer"])
    assert {
        "hs2lib.engine.attention",
        "hs2lib.train.losses",
        "hs2lib.stats.metrics",
        "hs2lib.train",
    } <= names
    # The curves of a training take their colours from style, which counts for no digest.
    assert "hs2lib.report.style" in code.DRAWS
    others = names - {"hs2lib.report", "hs2lib.report.style"}
    assert not {
        name
        for name in others
        if name.startswith(("hs2lib.world", "hs2lib.report", "hs2lib.evaluate"))
    }
    inside = code.read("def f():\n    from hs2lib.stats import describe\n").imports
    assert inside == {"hs2lib.stats.describe"}
    with pytest.raises(
        ImportError, match=r"hs2lib.stats.bootstrop is imported, and hs2lib has no such module"
    ):
        code.reach(["hs2lib.stats.bootstrop"])


def test_of_what_puts_runs_in_order_only_what_they_were_asked_to_do_counts():
    """How runs are started and judged changes no result."""
    names = code.reach(["hs2lib.report.report", "hs2lib.commands"])
    assert {name for name in names if name.startswith(code.STARTS)} == set(code.COUNTED)
    counted = code.parts(names)
    assert "hs2lib/runs/setup.py" in counted and "hs2lib/runs/tiers.yaml" not in counted
    assert not code.reach(["hs2lib.runs.graph", "hs2lib.commands", "hs2lib.code.reach"])
    trained = code.reach(["hs2lib.train.trainer"])
    without = code.reach(["hs2lib.train.trainer"], without={"hs2lib.train.losses"})
    assert trained - without >= {"hs2lib.train.losses"} and without < trained


def test_a_name_that_a_room_itself_defines_is_its_own():
    """A cell that printed hs2lib's version, or imported all of a room, stopped the status of all runs."""
    assert "hs2lib" in code.reach(["hs2lib.__version__"])
    assert "hs2lib.train" in code.reach(["hs2lib.train.*"])
    with pytest.raises(ImportError, match="hs2lib has no such module"):
        code.reach(["hs2lib.version"])


def test_a_cell_with_commands_of_ipython_counts_by_its_text_and_its_imports():
    """`%matplotlib inline` is no Python: judging the run ended in a bare SyntaxError."""
    cell = "%matplotlib inline\nfrom hs2lib.stats import metrics\n"
    assert code.read_cell(cell).library == {"hs2lib.stats.metrics"}
    assert code.read_cell(cell).digest != code.read_cell(cell.replace("inline", "agg")).digest
    files = code.read_cell("files = !ls\n")
    assert files.digest != code.read_cell("files = !ls ..\n").digest
    plain = "a = 1  # a comment\n"
    assert code.read_cell(plain) == code.read("a = 1\n"), (
        "the text of what is Python does not count"
    )


def test_data_files_count_by_their_bytes_and_the_look_of_the_site_does_not():
    parts = code.parts(["hs2lib.world.cards", "hs2lib.report.templates", "hs2lib.paper"])
    assert "hs2lib/world/facts/animal.tsv" in parts and "hs2lib/paper/table-4.csv" in parts
    assert (
        "hs2lib/report/pages/answers.html" in parts and "hs2lib/report/pages/page.css" not in parts
    )


def test_no_module_that_computes_takes_a_value_from_one_that_draws():
    """Then a change of what only draws could change a number. Tables put their rows into its pages, in `report`."""
    package = code.package()
    allowed = {"hs2lib.report", "hs2lib.train.progress"}
    for file in package.rglob("*.py"):
        name = ".".join(("hs2lib", *file.relative_to(package).with_suffix("").parts))
        if (
            not name.startswith((*code.DRAWS, *code.STARTS))
            and name.rpartition(".")[0] not in allowed
            and name not in allowed
        ):
            used = {
                imported
                for imported in code.read(file.read_text()).library
                if imported.startswith(code.DRAWS)
            }
            assert not used, f"{name} uses {used}"


# One number or operator is mutated in a module of each room.


class _Mutant(ast.NodeTransformer):
    """Changes the first number in a function, or the first operator where there is none."""

    def __init__(self):
        self.done = False

    def visit_Constant(self, node):
        if not self.done and type(node.value) in (int, float):
            self.done = True
            return ast.Constant(node.value + 1)
        return node

    def visit_BinOp(self, node):
        if not self.done and isinstance(node.op, ast.Mult | ast.Add | ast.Sub):
            self.done = True
            return ast.BinOp(node.left, ast.Pow(), node.right)
        return self.generic_visit(node)


def mutated(source):
    """The source with one thing changed in its first function that has one."""
    tree, mutant = ast.parse(source), _Mutant()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and not mutant.done:
            node.body = [mutant.visit(part) for part in node.body]
    assert mutant.done
    return ast.unparse(ast.fix_missing_locations(tree))


@pytest.mark.slow
def test_a_mutant_in_any_room_changes_the_digest_of_all_that_use_it(tmp_path, monkeypatch):
    """Modules of every room that computes: whoever reaches the mutant has another digest, and nobody else has."""
    shutil.copytree(
        code.package(),
        tmp_path / "hs2lib",
        ignore=shutil.ignore_patterns("__pycache__", "*.safetensors"),
    )
    monkeypatch.setattr(code, "package", lambda: tmp_path / "hs2lib")
    tops = (
        "hs2lib.train.trainer",
        "hs2lib.models.rollout",
        "hs2lib.models.base",
        "hs2lib.evaluate.policies",
    )
    tops += ("hs2lib.collect.annotate", "hs2lib.report.tables", "hs2lib.stats.describe")
    rooms = set()
    for room in (
        "stats",
        "engine",
        "world",
        "train",
        "data",
        "models",
        "align",
        "evaluate",
        "collect",
        "report",
        "score",
    ):
        for file in sorted((tmp_path / "hs2lib" / room).glob("*.py")):
            name, source = f"hs2lib.{room}.{file.stem}", file.read_text()
            if name in (*code.DRAWS, "hs2lib.report.__init__") or not re.search(
                r"def .*\n(.*\n)*.*[\d+*-]", source
            ):
                continue
            try:
                changed = mutated(source)
            except AssertionError:
                continue  # it has neither a number nor an operator
            asked = (*tops, name)
            before = {top: code.digest(top) for top in asked}
            file.write_text(changed)
            other = {top for top in asked if code.digest(top) != before[top]}
            assert other == {top for top in asked if name in code.reach([top])} and name in other, (
                name
            )
            file.write_text(source)
            rooms.add(room)
    assert len(rooms) == 11


# Functions and classes of a reader's own.


def own(source, **globals_):
    """What a cell of a notebook defines."""
    space = {"__name__": "__main__"} | globals_
    exec(compile(textwrap.dedent(source), "cell", "exec"), space)
    return space


def of(source, name="rule", **globals_):
    return code.digest(own(source, **globals_)[name])


RULE = """
WEIGHT = 2.0

def helper(x):
    return x + 1

def rule(group, margin=0.5):
    "A pair rule."
    best = helper(group) * WEIGHT  # a comment
    return best > margin
"""


def test_a_rule_of_a_readers_own_counts_with_all_it_uses():
    """A reward or pair rule that a notebook passes on: by its code, defaults, globals, and what it closes over."""
    for kind, before, after in (
        ("a comment", "  # a comment", ""),
        ("a docstring", "A pair rule.", "The rule."),
        ("a hint", "margin=0.5", "margin: float = 0.5"),
    ):
        assert of(RULE.replace(before, after)) == of(RULE), kind
    for kind, before, after in (
        ("an operator", "best > margin", "best < margin"),
        ("a default", "margin=0.5", "margin=0.6"),
        ("a global", "WEIGHT = 2.0", "WEIGHT = 3.0"),
        ("the type of a global", "WEIGHT = 2.0", "WEIGHT = 2"),
        ("the code of a helper", "x + 1", "x - 1"),
    ):
        assert of(RULE.replace(before, after)) != of(RULE), kind
    made = "def make(beta):\n    def rule(x):\n        return beta * x\n    return rule\nrule = make({})\n"
    assert of(made.format(1)) != of(made.format(1.0))
    weights = "def rule(x):\n    return x @ W\n"
    assert of(weights, W=np.ones(2)) == of(weights, W=np.ones(2)) != of(weights, W=np.zeros(2))
    pair = """
    class Rule:
        def __init__(self, n):
            self.n = n
        def __call__(self, x):
            return x {} self.n
    rule = Rule({})
    """
    assert len({of(pair.format("+", 1)), of(pair.format("-", 1)), of(pair.format("+", 2))}) == 3

    bound = "from functools import partial\ndef two(x, n):\n    return x + n\nrule = partial(two, n={})\n"
    assert of(bound.format(1)) != of(bound.format(2))
    assert code.digest(own(RULE, __name__="notebook")["rule"]) == of(RULE), (
        "wherever the notebook's code is run"
    )


HELD = """
import collections, dataclasses, enum, functools, logging, random, re, threading, types
import numpy as np
import torch

@dataclasses.dataclass(frozen=True)
class Setting:
    a: int = 1

class Colour(enum.Enum):
    RED = 1

class Rule:
    __slots__ = ("n", "lock")
    def __init__(self):
        self.n = {1, "a", (2, 3)}
        self.lock = threading.Lock()
    @property
    def half(self):
        return 4
    @staticmethod
    def double(x):
        return 5 * x
    @functools.lru_cache
    def known(self):
        return 6

def even(n):
    return n == 7 or odd(n - 1)

def odd(n):
    return n != 8 and even(n - 1)

def rule(x):
    return SETTING, Colour.RED, OBJECT, method, even, HELD, LOG, random_numbers, numbers

SETTING, OBJECT, LOG = Setting(9), Rule(), logging.getLogger("a10")
method = types.MethodType(even, OBJECT)
random_numbers, numbers = random.Random(), np.random.default_rng()
HELD = [
    re.compile("b11"),
    collections.deque([12]),
    collections.defaultdict(list, {"c13": [14]}),
    np.array(["d15", None], dtype=object),
    torch.full((2,), 16, dtype=torch.bfloat16),
    functools.partial(even, n=17),
    "e18".startswith,
]
"""


@pytest.mark.parametrize("number", range(1, 19))
def test_each_value_that_a_rule_holds_counts(number):
    """A pattern, an object of a class with slots, a tensor: whatever it is of."""
    changed = re.sub(rf"\b([a-e]?){number}\b", rf"\g<1>{number}9", HELD)
    assert changed != HELD and of(changed) != of(HELD)


def test_what_a_rule_looked_up_or_drew_before_does_not_count():
    """Its training would never be found again."""
    space = own(HELD)
    before = code.digest(space["rule"])
    space["OBJECT"].known()
    space["random_numbers"].random()
    space["numbers"].random()
    assert code.digest(space["rule"]) == before == of(HELD)


def test_modules_beside_a_source_count_with_packages_and_what_they_use(tmp_path):
    """Of a reader's own modules only the first, and no package, counted: an edit in the others left a run current."""
    (tmp_path / "pkg").mkdir()
    for name, text in {
        "mine.py": "import hs2lib.evaluate.arena_hard\n",
        "pkg/__init__.py": "from . import other\n",
        "pkg/sub.py": "from .deep import a\nfrom hs2lib.stats.metrics import pearson\n",
        "pkg/deep.py": "a = 1\n",
        "pkg/other.py": "b = 1\n",
        "pkg/unused.py": "c = 1\n",
    }.items():
        (tmp_path / name).write_text(text)
    used = code.modules_beside(code.read("import mine\nimport pkg.sub\n"), tmp_path)
    assert sorted(used.digests) == [
        "mine.py",
        "pkg/__init__.py",
        "pkg/deep.py",
        "pkg/other.py",
        "pkg/sub.py",
    ]
    assert used.library == {"hs2lib.evaluate.arena_hard", "hs2lib.stats.metrics.pearson"}
    (tmp_path / "pkg/deep.py").write_text("a = 2\n")
    now = code.modules_beside(code.read("import mine\nimport pkg.sub\n"), tmp_path)
    assert code.differing(used.digests, now.digests) == ["pkg/deep.py"]
    with pytest.raises(ImportError, match="beyond top-level package"):
        code.read("from .. import above\n", package="pkg")


def test_a_module_that_a_rule_uses_counts_with_those_it_imports(tmp_path, monkeypatch):
    """A rule that calls `first.f` computes with the module that `first` imports, and with hs2lib's it uses."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "first_of_two.py").write_text(
        "import second_of_two\nfrom hs2lib.stats import metrics\n"
    )
    (tmp_path / "second_of_two.py").write_text("FACTOR = 1\n")
    rule = own(
        "import first_of_two\ndef rule(x):\n    return first_of_two.second_of_two.FACTOR * x\n"
    )["rule"]
    monkeypatch.delitem(sys.modules, "second_of_two")
    monkeypatch.setitem(sys.modules, "first_of_two", sys.modules["first_of_two"])
    before = code.record(rule)
    assert "hs2lib/stats/metrics.py" in before["files"]
    (tmp_path / "second_of_two.py").write_text("FACTOR = 2\n")
    assert code.digest(rule) != before["digest"]


def test_a_rule_that_uses_the_library_counts_with_what_it_uses():
    space = own("from hs2lib.train import losses\ndef rule(x):\n    return losses.goodness(x)\n")
    assert "hs2lib/train/losses.py" in code.record(space["rule"])["files"]


DECORATED = """
import contextlib
import functools
import torch

{decorator}
def rule(x):
    yield x * {factor}

class Rule:
    {decorator}
    def __call__(self, x):
        yield x * {factor}
"""


@pytest.mark.parametrize(
    "decorator",
    [
        "@torch.no_grad()",
        "@torch.inference_mode()",
        "@contextlib.contextmanager",
        "@functools.singledispatch",
    ],
)
def test_a_rule_under_an_installed_decorator_counts(decorator):
    """Such a decorator gives a function of its own module: a changed rule under it read the old weights."""
    for name in ("rule", "Rule"):
        once, twice, again = (
            of(DECORATED.format(decorator=decorator, factor=n), name) for n in (1, 2, 1)
        )
        assert once == again != twice


def test_what_a_function_of_the_library_was_given_counts():
    """A rule that was passed on stands nowhere else; beta stands in the configuration too."""
    assert code.digest(objectives.dpo(0.1)) == code.digest(objectives.dpo(0.1))
    assert code.digest(objectives.dpo(0.1)) != code.digest(objectives.dpo(0.2))
    assert code.digest(objectives.dpo()) != code.digest(
        objectives.dpo()._replace(total=own(RULE)["rule"])
    )
    task = partial(objectives.sft)
    passed = [
        partial(objectives.sft, own(RULE.replace("2.0", weight))["rule"])
        for weight in ("2.0", "3.0", "2.0")
    ]
    digests = [code.digest(one) for one in (task, *passed)]
    assert len(set(digests)) == 3 and digests[1] == digests[3]


def test_values_bound_to_a_function_count():
    """A beta bound to a loss of the library, or to a callable of numpy or Python, stands in no configuration."""
    bound = [partial(losses.dpo_loss, beta=beta) for beta in (0.1, 0.5, 0.1)]
    in_objective = [objectives.Objective("mine", one, None) for one in bound]
    in_list = [partial(losses.dpo_loss, [beta]) for beta in (0.1, 0.5, 0.1)]
    vectorized = [np.vectorize(eval(f"lambda x: x + {n}")) for n in (1, 2, 1)]
    getters = [operator.itemgetter(n) for n in (1, 2, 1)]
    for three in (bound, in_objective, in_list, vectorized, getters):
        once, other, again = (code.digest(one) for one in three)
        assert once == again != other


def test_a_method_of_a_type_counts_by_its_name():
    """`key=str.lower` as a default of a rule ended in an AttributeError: it has no `__module__`."""
    lower, upper = (
        of(f"def rule(x, key=str.{name}):\n    return key(x)\n") for name in ("lower", "upper")
    )
    assert lower != upper


def test_tensors_and_models_bound_to_a_function_of_the_library_do_not_count():
    """PPO binds a tally that every step adds to, and its reference: its training would never be found again."""
    kept = [
        partial(losses.dpo_loss, tally=torch.full((2,), n), model=torch.nn.Linear(1, 1))
        for n in (0.0, 1.0)
    ]
    assert code.digest(kept[0]) == code.digest(kept[1])


def test_what_a_process_has_loaded_is_what_it_computes_with(tmp_path, monkeypatch):
    """A module that is edited while a kernel runs computes as before in that kernel, until it is loaded again."""
    (tmp_path / "hs2lib").mkdir()
    file = tmp_path / "hs2lib" / "toy.py"
    file.write_text("A = 1\n")
    monkeypatch.setattr(code, "package", lambda: tmp_path / "hs2lib")
    (tmp_path / "hs2lib" / "__init__.py").write_text("")
    before = code.digest("hs2lib.toy")
    file.write_text("A = 2\n")
    assert code.digest("hs2lib.toy") != before, "nobody has loaded it"
    spec = type(sys)("spec")
    spec.origin = str(file)
    module = type(sys)("hs2lib.toy")
    module.__spec__ = spec
    monkeypatch.setitem(sys.modules, "hs2lib.toy", module)
    loaded = code.digest("hs2lib.toy")
    file.write_text("A = 3\n")
    assert code.digest("hs2lib.toy") == loaded
    module.__spec__ = type(sys)("spec")
    module.__spec__.origin = str(file)
    assert code.digest("hs2lib.toy") != loaded


def test_a_record_is_json_and_names_what_differs():
    record = code.record("hs2lib.stats.metrics")
    assert json.loads(json.dumps(record)) == record and "hs2lib/stats/metrics.py" in record["files"]
    assert code.differing({"a": "1", "b": "2"}, {"b": "3", "c": "4"}) == ["a", "b", "c"]


def test_nodes_that_an_error_message_left_marked_are_read_all_the_same():
    """IPython hangs each node's parent on it. `ast.Load()` is one object for all trees."""
    source = "value = other + 1\n"
    before = code.read(source)
    tree = ast.parse("first = second")
    shared = tree.body[0].value.ctx
    shared.parent = tree.body[0].value
    shared.parent.parent = tree
    try:
        code.read.cache_clear()
        assert code.read(source) == before
    finally:
        del shared.parent
