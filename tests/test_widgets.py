"""Widgets answer as in a reader's own notebook: events come through a kernel, in less than a second each."""

import nbformat
import pytest
from nbclient import NotebookClient

from hs2lib import paths

PLACE = paths.root() / "tests"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "lines"),
    [
        ("widgets_0506.py", ["all callbacks answered"]),
        ("widgets_1113.py", ["asked", "browsed", "faulty", "steered"]),
    ],
)
def test_every_control_moves_what_it_should_within_a_second(script, lines):
    cell = nbformat.v4.new_code_cell((PLACE / script).read_text())
    notebook = nbformat.v4.new_notebook(cells=[cell])
    NotebookClient(notebook, timeout=600, kernel_name="python3").execute()
    printed = ""
    for output in notebook.cells[0].outputs:
        if output.get("name") == "stdout":
            printed += output.text
    assert printed.split("\n")[:-1] == lines
