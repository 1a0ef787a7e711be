"""A stage of notebooks 07 and 08 is made of the very statements of their cells."""

import ast
import inspect
import textwrap

import nbformat
import pytest

from hs2lib.launch import stages_nb0708 as stages
from hs2lib.paths import notebook

NAMES = {"07": "07_sft", "08": "08_dpo"}


def statements(source):
    """The statements of a source as `ast.unparse` writes them, without the callbacks of a call."""
    tree = ast.parse(source)
    for call in ast.walk(tree):
        if isinstance(call, ast.Call):
            call.keywords = [keyword for keyword in call.keywords if keyword.arg != "callbacks"]
    return [ast.unparse(statement) for statement in tree.body]


@pytest.mark.parametrize("number", NAMES)
@pytest.mark.parametrize("stage", ["train", "evaluate", "export"])
def test_every_statement_of_a_stage_is_the_notebooks_own_and_in_its_order(number, stage):
    """A stage that passes something else would compute another thing than the notebook which reads its results."""
    cells = [cell.source for cell in nbformat.read(notebook(NAMES[number]), 4).cells if cell.cell_type == "code"]
    own = [statement for cell in cells for statement in statements(cell)]
    function = getattr(stages, f"{stage}_{number}")
    (definition,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    wanted = [text for statement in definition.body for text in statements(ast.unparse(statement))]
    places = [own.index(statement) for statement in wanted]
    assert places == sorted(places) and len(places) >= 4
    assigned = [target for statement in own for target in targets(statement)]
    for name in (name for statement in wanted for name in targets(statement)):
        assert assigned.count(name) == 1, f"{name} is assigned twice"


def targets(statement):
    """The names that a statement assigns."""
    (node,) = ast.parse(statement).body
    if not isinstance(node, ast.Assign):
        return []
    return [target.id for target in node.targets if isinstance(target, ast.Name)]
