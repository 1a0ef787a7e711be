"""Links of pages and notebooks lead somewhere, and the code of pages that extend the suite runs as it stands."""

import json
import re
import shutil
import subprocess
import sys

import nbformat
import pandas as pd
import pytest
from classifiers import classifier
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from pages import BLOCK, CHECKOUT

from hs2lib.runs import graph


def blocks(page):
    """(language, what follows it, text) of every fenced block of a page."""
    return [match.groups() for match in BLOCK.finditer((CHECKOUT / "docs" / page).read_text())]


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


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A copy of the checkout, without reports, runs and history."""
    for name in ("hs2lib", "notebooks", "params"):
        shutil.copytree(CHECKOUT / name, tmp_path / name, ignore=shutil.ignore_patterns(".*"))
    shutil.copy(CHECKOUT / "Snakefile", tmp_path)
    (tmp_path / ".venv").symlink_to(sys.prefix)
    for name in ("HS2_REPORTS", "HS2_RUNS", "HS2_DATA_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HS2_ROOT", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return tmp_path


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
            continue
        piece = checkout / f"piece-{number}"
        piece.write_text(text)
        if about.startswith(">"):
            script.append(f"cat {piece} {about}")
        else:
            notebook, kind, *words = about.split()
            add_cell(checkout / "notebooks" / f"{notebook}.ipynb", kind, words, text)
    done = subprocess.run(
        ["bash", "-c", "\n".join(script)], cwd=checkout, capture_output=True, text=True
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-5000:]
    return done.stdout


def manifest(checkout, tier, notebook):
    return json.loads((checkout / "reports" / tier / notebook / "manifest.json").read_text())


@pytest.mark.slow
def test_add_a_data_set(checkout):
    """Notebook 01 reports on a set that the library did not have."""
    shown = follow("add-a-data-set.md", checkout)
    assert "Printer 0 is stuck" in shown
    captions = [
        about["caption"]
        for about in manifest(checkout, "laptop", "01_dataset_statistics")["artefacts"].values()
    ]
    assert all("the help desk, helpdesk/answers.jsonl (sha256" in caption for caption in captions)
    ratings = pd.read_csv(checkout / "reports/laptop/01_dataset_statistics/descriptive.csv")
    assert {"helpfulness", "verbosity"} <= set(ratings.iloc[:, 0])


PAGES = [
    *CHECKOUT.glob("*.md"),
    *sorted(CHECKOUT.glob("docs/*.md")),
    CHECKOUT / "reports/README.md",
    CHECKOUT / "tests/README.md",
]


def anchors(page):
    """What a link to a page may end in: GitHub's names of its headings, and those of <a id>."""
    text = page.read_text()
    outside = re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)
    names = set(re.findall(r'<a id="([\w-]+)"', outside))
    for heading in re.findall(r"^#+ (.*)$", outside, re.M):
        plain_text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        names.add(re.sub(r"[^\w -]", "", plain_text).strip().replace(" ", "-"))
    return names


def linked_from():
    """(place, folder that its links go from, text) of whatever links to pages: pages and notebooks."""
    for page in PAGES:
        yield page.relative_to(CHECKOUT), page.parent, page.read_text()
    for path in sorted(CHECKOUT.glob("notebooks/*.ipynb")):
        for cell in json.loads(path.read_text())["cells"]:
            yield f"{path.name}: {cell['id']}", path.parent, "".join(cell["source"])


def test_links_lead_somewhere():
    """A page is read on the web, where a link goes from the page's own folder."""
    for place, folder, text in linked_from():
        for link, anchor in re.findall(r"\]\(([^)\s#:]+\.md)(?:#([^)\s:]+))?\)", text):
            assert (folder / link).exists(), f"{place}: {link}"
            if anchor:
                assert anchor in anchors(folder / link), f"{place}: {link}#{anchor}"
    for page in PAGES:
        for link in re.findall(r"\]\(([^)\s#:]+)[^)\s:]*\)", page.read_text()):
            assert (page.parent / link).exists(), f"{page.relative_to(CHECKOUT)}: {link}"
        for anchor in re.findall(r"\]\(#([^)\s:]+)\)", page.read_text()):
            assert anchor in anchors(page), f"{page.relative_to(CHECKOUT)}: #{anchor}"


@pytest.mark.slow
def test_score_a_file(checkout):
    """The page's files are scored by its commands, under a classifier that lies where its name says."""
    classifier(checkout / "owner" / "name")
    shown = follow("score-a-file.md", checkout)
    assert '"rater": "bob", "score": ' in shown
    assert "read: prompt, response\n  carried along: rater" in shown
    assert "The better scores higher: 2 pairs, 2 prompts" in shown
    assert "ties in the file, which do not count: 1" in shown
    assert {"score_response_a", "winner"} <= set(pd.read_csv(checkout / "pairs.csv"))


@pytest.mark.slow
def test_add_a_benchmark(checkout):
    """Own pairs are scored by notebook 06, own questions by a script."""
    shown = follow("add-a-benchmark.md", checkout)
    assert "Capitals" in shown
    accuracy = pd.read_csv(checkout / "reports/smoke/06_rewardbench_evaluation/accuracy.csv")
    assert {"small", "large"} <= set(accuracy.name)
    captions = manifest(checkout, "smoke", "06_rewardbench_evaluation")["artefacts"]
    assert "sums.jsonl" in captions["accuracy.csv"]["caption"]
    table = pd.read_csv(checkout / "capitals.csv").set_index("measure")
    assert (
        table.loc["characters", "95 % low"]
        <= table.loc["characters", "ours"]
        <= table.loc["characters", "95 % high"]
    )
    assert 0 <= table.loc["right, share", "ours"] <= 1


@pytest.mark.slow
def test_add_a_method(checkout, monkeypatch):
    """A further notebook's policy stands in the tables of notebook 13, and 13 comes after it."""
    monkeypatch.setenv("HS2_ROOT", str(checkout))
    shown = follow("add-a-method.md", checkout)
    assert "18_best_of_n" in shown
    assert "18_best_of_n" in graph.with_upstream(["13_aligned_model_evaluation"])
    gains = pd.read_csv(checkout / "reports/smoke/18_best_of_n/gains.csv")
    assert set(gains.policy) == {"Best of n"}
    for table in ("truthfulqa", "trades"):
        rows = pd.read_csv(checkout / f"reports/smoke/13_aligned_model_evaluation/{table}.csv")
        assert "Best of n" in set(rows.policy), table
