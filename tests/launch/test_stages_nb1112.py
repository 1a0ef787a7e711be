"""A stage does what its notebook does: each of its statements stands in a cell, and in this order."""

import ast
import inspect

import nbformat
import pytest

from hs2lib.launch import stages_nb1112 as stages
from hs2lib.paths import notebook

FUNCTIONS = [name for name, value in vars(stages).items() if inspect.isfunction(value)]
NAMES = {"11": "11_steerlm", "12": "12_steerlm2"}


def statements(code: str) -> list[str]:
    """The statements of some code, each without the live curves of a notebook."""
    tree = ast.parse(code)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            node.keywords = [keyword for keyword in node.keywords if keyword.arg != "callbacks"]
    return [ast.unparse(node) for node in tree.body]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_each_statement_of_a_stage_stands_in_its_notebook(name):
    cells = nbformat.read(notebook(NAMES[name[-2:]]), 4).cells
    there = statements("\n".join(cell.source for cell in cells if cell.cell_type == "code"))
    function = ast.parse(inspect.getsource(getattr(stages, name))).body[0]
    wanted = statements("\n".join(ast.unparse(node) for node in function.body))
    assert [statement for statement in there if statement in wanted] == wanted
