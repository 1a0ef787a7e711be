"""The pages of docs/ do what they say: their code runs as it stands, in a copy of the checkout, up to a report."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pandas as pd
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from hs2lib.paths import root
from hs2lib.run import graph

CHECKOUT = root()
DEMO = CHECKOUT / "reports" / "published" / "demo"  # whatever a run has left in reports/demo
BLOCK = re.compile(r"^```(\w+)(?: +(.+?))?\n(.*?)^```$", re.M | re.S)


def blocks(page):
    """(language, what follows it, text) of every fenced block of a page."""
    return [match.groups() for match in BLOCK.finditer((CHECKOUT / "docs" / page).read_text())]


def add_cell(path, kind, cell_id, text):
    """Add a cell to a notebook, which is made where there is none; the first code cell holds the parameters."""
    if not path.exists():
        kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
        nbformat.write(new_notebook(metadata={"kernelspec": kernel}), path)
    notebook = nbformat.read(path, 4)
    if kind == "metadata":
        notebook.metadata["hs2"] = json.loads(text)
    elif kind == "cell":
        metadata = {"tags": ["parameters"]} if cell_id == "parameters" else {}
        notebook.cells.append(new_code_cell(text.rstrip("\n"), id=cell_id, metadata=metadata))
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
    NOTEBOOK metadata | title | cell ID     the notebook's metadata, its title, or a further cell of
    code Blocks of sh without any of these run in one shell.
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
            notebook, kind, *cell_id = about.split()
            add_cell(checkout / "notebooks" / f"{notebook}.ipynb", kind, "".join(cell_id), text)
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


def test_every_block_of_the_pages_is_followed():
    """A block that the test does not know how to follow would not be tested."""
    for page in Path(CHECKOUT / "docs").glob("add-*.md"):
        fences = re.findall(r"^```", page.read_text(), re.M)
        assert len(blocks(page.name)) * 2 == len(fences), page.name
        assert os.access(page, os.R_OK) and len(page.read_text().split()) < 1500, (
            "a page, not a book"
        )


def test_links_lead_somewhere():
    """A page is read on the web, where a link goes from the page's own folder: the guide's to the LOG led nowhere."""
    for page in [*CHECKOUT.glob("*.md"), *CHECKOUT.glob("docs/*.md"), CHECKOUT / "reports/LOG.md"]:
        for link in re.findall(r"\]\(([^)\s#:]+)[^)\s:]*\)", page.read_text()):
            assert (page.parent / link).exists(), f"{page.relative_to(CHECKOUT)}: {link}"


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
    """A fifteenth notebook's policy stands in the tables of notebook 13, and 13 comes after it."""
    monkeypatch.setenv("HS2_ROOT", str(checkout))
    shown = follow("add-a-method.md", checkout)
    assert "15_best_of_n" in shown
    assert "15_best_of_n" in graph.with_upstream(["13_aligned_model_evaluation"])
    gains = pd.read_csv(checkout / "reports/smoke/15_best_of_n/gains.csv")
    assert set(gains.policy) == {"Best of n"}
    for table in ("truthfulqa", "trades"):
        rows = pd.read_csv(checkout / f"reports/smoke/13_aligned_model_evaluation/{table}.csv")
        assert "Best of n" in set(rows.policy), table


def plain(number, sign=""):
    """A number as README writes it: two digits, no 0 before the point."""
    return f"{number:{sign}.2f}".replace("0.", ".", 1)


def effect(folder, measure, policy):
    """A policy's gain as README writes it: outside of brackets only where the interval leaves out 0."""
    gains = pd.read_csv(DEMO / folder / "gains.csv").set_index(["measure", "policy"])
    value, low, high = gains.loc[(measure, policy)]
    about = f"{plain(low)} to {plain(high)}"
    return (
        f"{plain(value, '+')} ({about})"
        if low > 0 or high < 0
        else f"({plain(value, '+')}, {about}"
    )


def readme_numbers():
    """What README has to say, by the published reports and the benchmarks."""
    benchmarks = CHECKOUT / "reports" / "benchmarks"
    metrics = pd.read_csv(DEMO / "05_reward_model_training/metrics.csv").set_index("model")
    truth = metrics.query(
        "against == 'truth' and attribute == 'helpfulness' and metric == 'Pearson'"
    )
    value, low, high = truth.loc["trained", ["value", "95 % low", "95 % high"]]
    yield f"R with true helpfulness {plain(value)} ({plain(low)} to {plain(high)})"
    yield f"length {plain(truth.value['log-length'])}, ridge {plain(truth.value['ridge on frozen states'])}"
    right = pd.read_csv(DEMO / "06_rewardbench_evaluation/accuracy.csv").set_index("name")[
        "accuracy (%)"
    ]
    yield f"{right.overall:.0f} % right, chat {right.chat:.0f} %, reasoning {right.reasoning:.0f} %"
    policies = {
        "07_sft": "SFT",
        "08_dpo": "DPO",
        "09_iterative_dpo": "Iterative DPO",
        "10_ppo": "PPO",
    }
    for folder, policy in (policies | {"12_steerlm2": "SteerLM 2.0"}).items():
        yield effect(folder, "gold", policy)
    steering = pd.read_csv(DEMO / "11_steerlm/steering.csv").query(
        "`read by` == 'truth' and verdict == 'follows'"
    )
    slopes = steering.sort_values("slope", ascending=False)
    *most, last = (f"{row.attribute} ({plain(row.slope)})" for row in slopes.itertuples())
    yield f"{', '.join(most)} and {last} follow their label"
    works = json.loads((benchmarks / "works.json").read_text())
    for row in works["means"]:
        claimed = (
            ("slope",) if row["method"] == "steerlm" else ("truth", "gold")
        )  # "gold" of what was run before
        if row["what"] == "less control" and row["measure"] in claimed:
            yield f"{plain(row['value'], '+')} ({row['above']})"
    yield from {
        row.get("commit", works["commit"])[:7] for row in works["rows"]
    }  # each row's own: what is finished is not made again
    ratio = {
        file.stem: json.loads(file.read_text()).get("ratio") for file in benchmarks.glob("*.json")
    }
    yield f"rollouts {ratio['rollout']:.0f} times `generate`, TruthfulQA {ratio['truthfulqa']:.0f} times"
    yield f"scoring pairs {ratio['score_pairs']:.1f}"


def test_the_readmes_numbers_are_those_of_the_published_reports():
    """They were those of an earlier run: a method was said to work that the report says is not shown to."""
    text = " ".join((CHECKOUT / "README.md").read_text().split())
    assert [number for number in readme_numbers() if number not in text] == []
