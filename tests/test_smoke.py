"""All notebooks run as they stand, in order, at tier smoke: what they leave is whole and says what it is.

The run is made once a session (`smoke_run.py`), and every test here reads it.
"""

import ast
import html
import importlib
import json
import re
import shutil
import sys

import nbformat
import numpy as np
import pandas as pd
import pytest

from hs2lib.paper import TABLES
from hs2lib.paths import notebook, root, sha256
from hs2lib.report.verdict import JUDGED
from hs2lib.runs import graph

sys.path.insert(0, str(root() / "reports"))
site = importlib.import_module("make_site")
sys.path.pop(0)

NOTEBOOKS = graph.notebooks()
OF_REPORTS = "14_paper_tables_and_figures"

# Artefacts that no row of this run went into: drawings of formulas, numbers of others.
NO_DATA = re.compile(r"Source: (no data|the paper|reports/benchmarks/|NeMo-Aligner|arXiv )")


def manifest(folder):
    return json.loads((folder / "manifest.json").read_text())


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_every_artefact_of_a_notebook_is_there_and_its_caption_names_its_source(name, smoke_suite):
    folder = smoke_suite.report(name)
    about = manifest(folder)
    assert about["generated"], "tier smoke runs on generated data and must say so"
    assert about["artefacts"]
    assert f"{graph.about(name)['figure']}.png" in about["artefacts"], "the site shows it"
    said = 0
    for artefact, entry in about["artefacts"].items():
        assert sha256(folder / artefact) == entry["sha256"], artefact
        caption = entry["caption"]
        assert "Source: " in caption, artefact
        is_generated = "Generated data" in caption or "(generated)" in caption
        assert is_generated or NO_DATA.search(caption), f"{artefact}: {caption}"
        said += is_generated
    assert said or name == OF_REPORTS


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_every_table_of_a_notebook_reads_back_with_named_columns(name, smoke_suite):
    folder = smoke_suite.report(name)
    for path in folder.glob("*.csv"):
        frame = pd.read_csv(path)
        assert frame.shape[1] and len(frame.columns) == len(set(frame.columns)), path.name
        tex = path.with_suffix(".tex")
        if tex.exists():
            text = tex.read_text()
            assert text.count(r"\begin{") == text.count(r"\end{"), tex.name


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_every_link_of_an_executed_notebook_leads_somewhere(name, smoke_suite):
    """Cells and outputs link to notebooks and to pages of the repository, and name headings."""
    executed = smoke_suite.executed(name)
    texts = []
    for cell in executed.cells:
        if cell.cell_type == "markdown":
            texts.append(cell.source)
        for output in cell.get("outputs", []):
            texts.append(output.get("data", {}).get("text/markdown", ""))
    for link in re.findall(r"\]\(([^)\s#]+)[^)]*\)", "\n".join(texts)):
        assert link.startswith("https://") or (notebook(name).parent / link).is_file(), link


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_says_nothing_on_stderr_and_interact_shows_what_it_made(name, smoke_suite):
    """What `interact` shows is the cell's own output: kept in a widget it let runs wait for good."""
    for cell in smoke_suite.executed(name).cells:
        outputs = cell.get("outputs", [])
        assert not [output for output in outputs if output.get("name") == "stderr"], cell.id
        if "interact(" in cell.source and "import" not in cell.source:
            assert len(outputs) > 1, cell.id


# Texts of the library that a reader of a notebook may see: data, provenance, and names of rows.
SHOWN = {
    "world": "what is asked and answered in the small world",
    "report/report.py": "the sources of an artefact, and the last line of a run",
    "data/reward_benchmarks.py": "the source of an artefact",
    "report/verdict.py": "values of the column of verdicts",
    "stats/chance.py": "names of the rules of collection",
    "evaluate/rewardbench.py": "names of models in the paper's table",
    "paper.py": "names of the rows of arXiv 2410.01257",
    "train/recipes.py": "the five attributes",
}


def words(text):
    return re.findall(r"[^\W\d_]{2,}(?:'\w+)?", text.lower())


@pytest.fixture(scope="module")
def sentences_of_the_library():
    """What hs2lib has between quotes, of five words or more, with the file: not its docstrings."""
    found = {}
    for file in (root() / "hs2lib").rglob("*.py"):
        tree = ast.parse(file.read_text())
        docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                said = words(node.value)
                if id(node) not in docs and len(said) >= 5:
                    found[" ".join(said)] = str(file.relative_to(root() / "hs2lib"))
    assert len(found) > 100
    tables = [file.read_text() for file in (root() / "hs2lib/paper").glob("*.csv")]
    data = " ".join(words(" ".join(tables)))  # which are shown, and may say the same
    return {
        text: file
        for text, file in found.items()
        if not file.startswith(tuple(SHOWN)) and text not in data
    }


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_english_that_a_reader_sees_is_in_the_notebook_not_in_the_library(
    name, smoke_suite, sentences_of_the_library
):
    for cell in smoke_suite.executed(name).cells:
        own = " ".join(words(cell.source))
        for output in cell.get("outputs", []):
            shown = [output.get("text", "")]
            for kind, value in output.get("data", {}).items():
                if kind.startswith("text/"):
                    shown.append(re.sub("<[^>]+>", " ", value))
            seen = " ".join(words(html.unescape(" ".join(shown))))
            for text, file in sentences_of_the_library.items():
                assert text not in seen or text in own, f"{cell.id}: {text!r} of hs2lib/{file}"


def test_policies_are_read_by_the_notebooks_after_them(smoke_suite):
    """In order, each finds what those before it left: 13 has every policy."""
    policies = set(graph.makers("policy").values())
    folder = smoke_suite.report("13_aligned_model_evaluation")
    assert policies <= set(pd.read_csv(folder / "two-numbers.csv").policy)
    for benchmark, rows in pd.read_csv(folder / "results.csv").groupby("benchmark"):
        assert policies <= set(rows.policy), benchmark


def test_the_site_has_a_page_for_a_notebook(smoke_suite, tmp_path, monkeypatch):
    name = "08_dpo"
    shutil.copytree(smoke_suite.report(name), tmp_path / "reports" / "smoke" / name)
    monkeypatch.setenv("HS2_REPORTS", str(tmp_path / "reports"))
    monkeypatch.setenv("HS2_PUBLISHED", str(tmp_path / "none"))
    index = site.build()
    page = index.parent / "smoke" / name / "index.html"
    assert page.is_file() and (page.parent / "notebook.html").is_file()
    for link in re.findall(r'href="([^"#:]+)"', page.read_text()):
        assert (page.parent / link).exists(), link


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_is_stripped_and_has_one_cell_of_parameters(name):
    cells = nbformat.read(notebook(name), 4).cells
    code = [cell for cell in cells if cell.cell_type == "code"]
    assert not any(cell.outputs or cell.execution_count for cell in code)
    assert sum("parameters" in cell.metadata.get("tags", []) for cell in code) == 1
    assert len({cell.id for cell in cells}) == len(cells)


# Notebook 14, after all others: the paper's tables with ours beside them.


@pytest.fixture
def report_of_14(smoke_suite):
    return smoke_suite.report(OF_REPORTS)


def test_every_number_of_the_paper_has_a_cell_and_none_of_it_is_judged_on_generated_data(
    report_of_14,
):
    """Five tables in three forms, the paper's numbers unchanged in them, and of generated data no verdict."""
    for name, known in TABLES.items():
        frame = pd.read_csv(report_of_14 / f"{name}.csv")
        smoke = frame[frame.tier == "smoke"]
        assert len(smoke) == len(known.values)
        printed = smoke.set_index(["row", "column"]).paper
        for key, value in known.values.items():
            assert np.isnan(printed[key]) if value is None else printed[key] == value
        assert not set(smoke.verdict) & set(JUDGED)
