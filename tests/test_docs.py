"""Links of pages and notebooks lead somewhere, and the page that extends the suite runs as it stands."""

import json
import re
import shutil
import subprocess
import sys

import nbformat
import pandas as pd
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from pages import CHECKOUT, FOLLOWED, PAGES, blocks

from hs2lib.runs import graph

LINKING = [*PAGES, CHECKOUT / "reports/README.md", CHECKOUT / "tests/README.md"]


def anchors(page):
    """What a link to a page may end in: GitHub's names of its headings."""
    outside = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.M | re.S)
    names = set()
    for heading in re.findall(r"^#+ (.*)$", outside, re.M):
        plain_text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        names.add(re.sub(r"[^\w -]", "", plain_text).strip().replace(" ", "-"))
    return names


def linking():
    """(place, its file, text) of whatever links: pages and the cells of notebooks."""
    for page in LINKING:
        yield page.relative_to(CHECKOUT), page, page.read_text()
    for path in sorted(CHECKOUT.glob("notebooks/*.ipynb")):
        for cell in json.loads(path.read_text())["cells"]:
            if cell["cell_type"] == "markdown":
                yield f"{path.name}: {cell['id']}", path, "".join(cell["source"])


def test_links_lead_somewhere():
    """A page is read on the web, where a link goes from the page's own folder."""
    lost = []
    for place, file, text in linking():
        for link, anchor in re.findall(r"\]\(([^)\s#:]*)#?([^)\s:]*)\)", text):
            target = file.parent / link if link else file
            is_page = target.suffix == ".md" and target.exists()
            if not target.exists() or (anchor and is_page and anchor not in anchors(target)):
                lost.append(f"{place}: {link}#{anchor}")
    assert not lost


def add_cell(path, kind, words, text):
    """Add a cell to a notebook, which is made where there is none. words: of a cell of code its id and its tags."""
    if not path.exists():
        kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
        nbformat.write(new_notebook(metadata={"kernelspec": kernel}), path)
    notebook = nbformat.read(path, 4)
    if kind == "metadata":
        notebook.metadata["hs2"] = json.loads(text)
    elif kind == "cell":
        cell_id, *tags = words
        cell = new_code_cell(text.rstrip("\n"), id=cell_id, metadata={"tags": tags})
        notebook.cells.append(cell)
    else:
        notebook.cells.append(new_markdown_cell(text.rstrip("\n"), id=kind))
    nbformat.write(notebook, path)


def follow(page, checkout):
    """Do what a page says, block after block. What a block is for stands after its language:

    > FILE   the text of a new file         >> FILE   what is added to its end
    NOTEBOOK metadata | title               the notebook's metadata, its title
    NOTEBOOK cell ID TAG ..                 a further cell of code, with its tags
    Blocks of sh without any of these run in one shell.
    """
    script = ["set -eu"]
    for number, (language, about, text) in enumerate(blocks(page)):
        if about is None:
            assert language == "sh", f"{page}: a block of {language} says not where it goes"
            script.append(text)
        elif about.startswith(">"):
            piece = checkout / f"piece-{number}"
            piece.write_text(text)
            script.append(f"cat {piece} {about}")
        else:
            notebook, kind, *words = about.split()
            add_cell(checkout / "notebooks" / f"{notebook}.ipynb", kind, words, text)
    done = subprocess.run(
        ["bash", "-c", "\n".join(script)], cwd=checkout, capture_output=True, text=True
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-5000:]
    return done.stdout


@pytest.mark.slow
def test_extending(tmp_path, monkeypatch):
    """A method, a data set and a benchmark of one's own, and the script of twenty names."""
    for name in ("hs2lib", "notebooks", "params"):
        shutil.copytree(CHECKOUT / name, tmp_path / name, ignore=shutil.ignore_patterns(".*"))
    shutil.copy(CHECKOUT / "Snakefile", tmp_path)
    (tmp_path / ".venv").symlink_to(sys.prefix)
    for name in ("HS2_REPORTS", "HS2_RUNS", "HS2_DATA_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HS2_ROOT", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    shown = follow(CHECKOUT / "docs" / FOLLOWED, tmp_path)
    gains = pd.read_csv(tmp_path / "reports/smoke/17_best_of_n/gains.csv")
    assert {"temperature", "gain"} <= set(gains.columns)
    assert "17_best_of_n" in graph.with_upstream(["13_aligned_model_evaluation"])
    assert "Printer 0 is stuck" in shown
    assert "dataset: str = 'helpsteer2'" not in shown, "05@helpdesk has a set of its own"
    assert "right: Interval" in shown
