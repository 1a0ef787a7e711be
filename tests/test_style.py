"""`make lint` refuses folded code: each line here once stood in the library, and nothing else would say so."""

import importlib.util
import subprocess
import sys
import textwrap

import pytest

from hs2lib import paths

FILE = paths.root() / ".ci" / "style.py"
spec = importlib.util.spec_from_file_location("style", FILE)
style = importlib.util.module_from_spec(spec)
spec.loader.exec_module(style)

FOLDED = {
    "three in one": (
        'device, training, root = next(m.parameters()).device.type, m.training, getattr(m, "root")',
        "tuple_assignment",
    ),
    "one unpacked": ("low, high = (percentile(x, q) for q in (2.5, 97.5))", "tuple_assignment"),
    "star times bool": (
        "kinds = (float32, float16, *[bfloat16] * (power >= (8, 0)))",
        "boolean_arithmetic",
    ),
    "slice from a bool": ("treated = wrong[another and 0 in wrong :]", "index_puzzle"),
    "length times bool": (
        "tried = not refused\ntouched = len(wrong) * tried",
        "boolean_arithmetic",
    ),
    "verdict by sum": ('verdict = ("A>B", "A=B", "B>A")[1 + better]', "index_puzzle"),
    "step by a condition": ("names = NAMES[:: 1 if shown_first(x) else -1]", "index_puzzle"),
    "endless iterator": (
        "task = next(task for task in iter(lambda: make(r, n), None) if task.reserved)",
        "endless_iterator",
    ),
    "filtered literal": (
        'text = " and ".join(filter(None, (generated, names and f"real: {names}"))) or "none"',
        "filtered_literal",
    ),
    "half a message": (
        'what = f"expected {x}, got {y}"\nif bad:\n    raise ValueError(f"{what}: say {x}")',
        "cut_message",
    ),
    "comprehension inside": (
        "keys = [key for row in rows for key in [cell for cell in row if cell]]",
        "nested_comprehension",
    ),
    "walrus inside": ("total = (first := rows[0]) + first", "walrus"),
}

PLAIN = """
    first, second = second, first
    low, high = interval(x)
    if (match := PATTERN.match(text)) is None:
        raise ValueError(f"expected a number, got {text!r}")
    masked = (scores > 0) * weights
    line = "-" * 20
    names = [name for row in rows for name in row]
    winner = WINNERS[verdict]
    while chunk := file.read(4096):
        digest.update(chunk)
"""


def findings_of(body: str, tmp_path) -> str:
    file = tmp_path / "folded.py"
    file.write_text("def function(x):\n" + textwrap.indent(textwrap.dedent(body), "    ") + "\n")
    return "\n".join(style.findings(file))


@pytest.mark.parametrize("name", FOLDED)
def test_folded_code_is_refused_by_its_rule(name, tmp_path):
    body, rule = FOLDED[name]
    assert f"({rule})" in findings_of(body, tmp_path)


def test_a_field_that_is_true_or_false_multiplies_nothing(tmp_path):
    file = tmp_path / "folded.py"
    file.write_text(
        "class Report:\n    generated: bool = False\n\n    def source(self):\n"
        '        return "generated" * self.generated\n'
    )
    assert "boolean_arithmetic" in "\n".join(style.findings(file))


def test_what_reads_well_is_left_alone(tmp_path):
    assert findings_of(PLAIN, tmp_path) == ""


def test_layout_by_hand_is_refused(tmp_path):
    file = tmp_path / "folded.py"
    file.write_text("x = {1: 2,  # fmt: skip\n     3: 4}\n")
    assert "layout by hand" in "\n".join(style.findings(file))


def test_a_bare_argument_is_refused(tmp_path):
    """`figures(8 bare names)`: ruff's own rule, which the project's settings switch on for the library."""
    file = tmp_path / "bare.py"
    file.write_text("def figures(values, rewards):\n    return values, rewards\n")
    command = [sys.executable, "-m", "ruff", "check", "--config", paths.root() / "pyproject.toml"]
    run = subprocess.run([*command, file], capture_output=True, text=True)
    assert run.returncode == 1
    assert "ANN001" in run.stdout


def test_an_exception_names_a_function_that_is_there():
    for (path, function, rule), reason in style.EXCEPTIONS.items():
        tree = style.ast.parse((paths.root() / path).read_text())
        lines = [line for line, _ in getattr(style, rule)(tree)]
        assert function in [style.owner(tree, line) for line in lines], (path, function)
        assert reason
