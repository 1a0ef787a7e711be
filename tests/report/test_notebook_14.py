"""Notebook 14 from reports alone: the published ones, on a machine that has nothing else."""

import json
import shutil
import subprocess

import numpy as np
import pandas as pd
import pytest
from cells import execute

from hs2lib import paths
from hs2lib.paper import TABLES
from hs2lib.paths import root
from hs2lib.report import claims
from hs2lib.report.claims import CLAIMS
from hs2lib.report.verdict import JUDGED

NAME = "14_paper_tables_and_figures"
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Its report at tier demo, laptop beside it, from the published reports: there is no other. Run
    once.

    No runs folder, no data folder.
    """
    there = tmp_path_factory.mktemp("elsewhere")
    shutil.copytree(
        root() / "reports" / "published",
        there / "published",
        ignore=shutil.ignore_patterns(f"{NAME}*"),
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HS2_PUBLISHED", str(there / "published"))
        patch.setenv("HS2_REPORTS", str(there / "reports"))
        patch.setenv("HS2_RUNS", str(there / "none"))
        patch.delenv("HS2_DATA_DIR", raising=False)
        execute(NAME, "demo", n_boot=200, beside=["laptop"], published=True)
        assert not paths.runs().exists(), "it reads reports, and needs no runs"
    return there / "reports" / "demo" / NAME


def test_every_number_of_the_paper_has_a_cell_and_none_of_it_is_judged_on_generated_data(made):
    """Five tables in three forms, the paper's numbers unchanged in them, and at demo no verdict."""
    for name, known in TABLES.items():
        assert all(
            (made / f"{name}.{kind}").stat().st_size > 200 for kind in ("csv", "tex", "html")
        )
        frame = pd.read_csv(made / f"{name}.csv")
        demo = frame[frame.tier == "demo"]
        assert len(demo) == len(known.values)
        printed = demo.set_index(["row", "column"]).paper
        for key, value in known.values.items():
            assert np.isnan(printed[key]) if value is None else printed[key] == value
        assert not set(demo.verdict) & set(JUDGED)


def test_every_claim_has_a_row_at_each_tier(made):
    """And generated data are evidence of none of them."""
    ledger = pd.read_csv(made / "claims.csv", keep_default_na=False)
    assert len(ledger) == 2 * len(CLAIMS) and set(ledger.tier) == {"demo", "laptop"}
    assert claims.RUN not in set(ledger[ledger.tier == "demo"].evidence)
    assert (made / "claims.html").read_text().count('<tr class="c ') == len(ledger)


def test_the_document_has_all_tables_and_every_figure_and_says_that_data_were_generated(made):
    """Paths lead from where it lies to files that are there (no named run's); each environment that opens closes."""
    text = (made / "paper.tex").read_text()
    included = [
        line.rpartition("{")[2].rstrip("}")
        for line in text.splitlines()
        if "includegraphics" in line
    ]
    figures = (made.parents[2] / "published").glob("*/[0-9]*/*.pdf")
    figures = [path for path in figures if "@" not in path.parent.name]
    assert len(included) == len(figures) > 30
    assert all((made / path).resolve().is_file() for path in included)
    assert text.count(r"\begin{tabular}") == len(TABLES) and text.count(r"\begin{") == text.count(
        r"\end{"
    )
    manifest = json.loads((made / "manifest.json").read_text())
    assert manifest["generated"] and "paper.tex" in manifest["artefacts"]
    of_paper = "Source: the paper's"
    source_of = {"table-5-regression": of_paper, "elo-and-mt-bench": of_paper}
    source_of |= dict.fromkeys(("claims-counts", "verdicts", "slips"), of_paper)
    source_of["methods"] = "five seeds, generated data"
    source_of["departures"] = "Source: `benchmarks/departures.py`"  # and no report of this run
    for name, about in manifest["artefacts"].items():
        source = source_of.get(name.split(".")[0], "Generated data")
        assert source in about["caption"], name


def test_the_document_compiles(made):
    if not shutil.which("pdflatex"):
        pytest.skip("no LaTeX (pdflatex) on this machine: only the structure is checked")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "paper.tex"]
    done = subprocess.run(command, cwd=made, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:]
