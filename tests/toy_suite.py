"""A suite of two notebooks in a folder of its own: the first makes a model, the second reads it."""

import shutil

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from hs2lib.paths import root

CHECKOUT = root()

PARAMETERS = 'tier: str = "smoke"  # tier; one of smoke, demo\nn: int = 2  # a number; 0 to 9\nseed: int = 0  # seed'

# What the first one computes: a model, which is a number in a file.
COMPUTES = """import mine

from hs2lib import paths

folder = paths.work(tier, "01_first") / "model"
model = mine.formula(n)
paths.write(folder / "weights.txt", str(model))
run.numbers |= {"true score": float(model)}"""

FIRST = 'run.table(pd.DataFrame({"n": [model]}), "numbers", "A number.");'
SECOND = """from hs2lib import paths

before = int((paths.work(tier, "01_first") / "model" / "weights.txt").read_text())
run.table(pd.DataFrame({"sum": [n + before]}), "sums", "A sum.");"""


def write(folder, name, *cells, needs=(), makes=None, gpu=0):
    """Write a notebook. cells: (source, tags) or source alone, between start and finish."""
    start = (
        "import pandas as pd\n\nfrom hs2lib.report import report\n\n"
        f"run = report.start({name!r}, globals())"
    )
    written = [_cell(PARAMETERS, "parameters", ["parameters"]), _cell(start, "start", ["start"])]
    for number, cell in enumerate(cells):
        source, tags = (cell, []) if isinstance(cell, str) else cell
        written.append(_cell(source, f"cell-{number}", tags))
    written.append(_cell("run.finish()", "finish", []))
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    about = {"needs": list(needs), "gpu": gpu, "makes": makes or {}, "before": {}}
    file = folder / "notebooks" / f"{name}.ipynb"
    nbformat.write(new_notebook(cells=written, metadata={"kernelspec": kernel, "hs2": about}), file)


def _cell(source, id, tags):
    return new_code_cell(source, id=id, metadata={"tags": tags} if tags else {})


def make(folder):
    """Write the suite, with the Snakefile and a module beside the notebooks."""
    for name in ("notebooks", "params/demo"):
        (folder / name).mkdir(parents=True)
    shutil.copy(CHECKOUT / "Snakefile", folder)
    (folder / "notebooks" / "mine.py").write_text("def formula(n):\n    return 3 * n\n")
    first(folder)
    write(folder, "02_second", SECOND, needs=["01_first"])


def first(folder, computes=COMPUTES, shows=FIRST):
    """Write the first notebook, with other cells."""
    write(folder, "01_first", (computes, ["train"]), shows, makes={"policy": "First"})


def add_markdown(folder, name, text):
    """Put a cell of text in front of a notebook."""
    file = folder / "notebooks" / f"{name}.ipynb"
    notebook = nbformat.read(file, 4)
    notebook.cells.insert(0, new_markdown_cell(text, id="title"))
    nbformat.write(notebook, file)
