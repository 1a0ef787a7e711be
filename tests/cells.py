"""A notebook's cells run in the test's own process: a kernel would need longer to start than most of them to run."""

import contextlib
import io

import matplotlib
import nbformat
from IPython.core.displayhook import CapturingDisplayHook
from IPython.core.displaypub import CapturingDisplayPublisher
from IPython.core.interactiveshell import InteractiveShell
from nbformat.v4 import new_output
from traitlets.config import Config

from hs2lib.paths import notebook, root
from hs2lib.runs.parameters import resolve, specification


def execute(name, tier, **changes):
    """Run the code cells of a notebook at a tier, with these parameters and settings; what a cell raises is raised."""
    known = specification(notebook(name))
    own = {key: value for key, value in changes.items() if key in known}
    further = {key: value for key, value in changes.items() if key not in known}
    own |= {"recipe": further} if further else {}
    values = resolve(notebook(name), tier, root() / "params", own) | {"__name__": "notebook"}
    cells = [cell for cell in nbformat.read(notebook(name), 4).cells if cell.cell_type == "code"]
    with matplotlib.rc_context({"backend": "agg"}):
        for cell in cells:
            if "parameters" not in cell.metadata.get("tags", []):
                exec(compile(cell.source, f"{name}, {cell.id}", "exec"), values)


def run_all(name):
    """Run All in IPython: every cell as it stands. Returns the executed notebook, with its outputs.

    What a cell's last line gives is put into all forms a reader may see. A figure that is shown as
    the text `<Figure ..>` fails, as a cell that raises does.
    """
    shell = InteractiveShell.instance(config=Config({"HistoryManager": {"enabled": False}}))
    shell.display_pub = CapturingDisplayPublisher()  # what is displayed, by whatever function
    shown = shell.display_pub.outputs
    shell.display_trap.hook = CapturingDisplayHook(shell, shown)  # what a cell's last line gives
    executed = nbformat.read(notebook(name), 4)
    try:
        with matplotlib.rc_context({"backend": "agg"}):
            for cell in executed.cells:
                if cell.cell_type != "code":
                    continue
                printed = io.StringIO()
                with contextlib.redirect_stdout(printed):
                    shell.run_cell(cell.source).raise_error()
                cell.outputs = outputs(printed.getvalue(), shown)
                shown.clear()
    finally:
        InteractiveShell.clear_instance()
    as_text = figures_as_text(executed)
    assert not as_text, f"{name}: a figure is shown as the text <Figure ..> in {as_text}"
    return executed


def outputs(printed, shown):
    """The outputs of a cell as a notebook keeps them: its printed text, then what it displayed."""
    texts = [new_output("stream", text=printed)] if printed else []
    return texts + [
        new_output("display_data", output["data"], metadata=output.get("metadata") or {})
        for output in shown
    ]


def source(name, id):
    """The source of one cell of a notebook, to be run among made-up values."""
    (cell,) = (cell for cell in nbformat.read(notebook(name), 4).cells if cell.id == id)
    return cell.source


def is_text_of_figure(forms):
    """Whether the forms of an output, by MIME type, show a figure as the text `<Figure ..>`, no picture."""
    is_picture = any(form.startswith("image/") for form in forms)
    return "<Figure" in forms.get("text/plain", "") and not is_picture


def figures_as_text(executed):
    """Ids of the cells of an executed notebook that show a figure as the text `<Figure ..>`, no picture."""
    cells = []
    for cell in executed.cells:
        for output in cell.get("outputs", []):
            if is_text_of_figure(output.get("data", {})) or "<Figure" in output.get("text", ""):
                cells.append(cell.get("id", "a cell without id"))
    return cells
