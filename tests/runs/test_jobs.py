"""A job: what it does once it is done, what it hands to papermill, and the copy that a report keeps."""

import re
from pathlib import Path

import nbformat
import papermill
import pytest
import three_notebooks
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from papermill.translators import PythonTranslator
from three_notebooks import ALL, DATA, MODEL, SECOND, edit, execute

from hs2lib import paths
from hs2lib.runs import graph, jobs, key

checkout = three_notebooks.checkout  # a fixture


def said(printed):
    """What jobs said, without times."""
    return re.findall(r"^demo (.*?)(?: in \d+ s)?$", printed, re.M)


def test_a_job_that_is_made_of_what_it_was_does_nothing_and_leaves_its_result(checkout, capsys):
    """Snakemake may ask again, as after a run that came out the same."""
    for run in ALL:
        execute(run)
    capsys.readouterr()
    results = [key.result(run, "demo", key.COMPUTE) for run in ALL]
    before = [file.read_text() for file in results]
    for file in results:
        file.unlink()
    for run in ALL:
        execute(run)
    assert said(capsys.readouterr().out) == [
        f"{DATA}: as drawn before",
        f"{MODEL}: as computed before",
        f"{MODEL}: as drawn before",
        f"{SECOND}: as drawn before",
    ]
    assert [file.read_text() for file in results] == before


def test_results_have_the_main_numbers_and_digests_of_what_is_left(checkout):
    """On them other runs depend: of a notebook that only draws they are its tables."""
    execute(MODEL)
    results = paths.read_json(key.result(MODEL, "demo", key.COMPUTE))
    model = "runs/demo/02_model/model"
    assert results == {"numbers": {"n": 2}, "left": {model: paths.digest(paths.located(model))}}
    place = execute(DATA)
    results = paths.read_json(key.result(DATA, "demo", key.COMPUTE))
    assert results["numbers"] == {}
    assert results["tables"] == {"rows.csv": paths.digest(place / "rows.csv")}


def test_results_say_nothing_of_when_and_where_they_were_made(checkout):
    before = [text_of_results(run) for run in ALL]
    for run in ALL:
        key.made_file(run, "demo", key.jobs_of(run)[0]).unlink()
    assert [text_of_results(run) for run in ALL] == before


def text_of_results(run):
    execute(run)
    return key.result(run, "demo", key.COMPUTE).read_text()


def test_a_notebook_that_ends_without_a_manifest_is_no_report(checkout):
    edit(DATA, "run.finish()", "print('done')")
    with pytest.raises(RuntimeError, match=r"01_data ended without run.finish\(\): no manifest in"):
        execute(DATA)
    assert not key.result(DATA, "demo", key.DRAW).exists()


def test_a_draw_that_fails_leaves_the_earlier_report_and_is_not_done(checkout):
    place = execute(DATA)
    before = (place / "manifest.json").read_bytes()
    edit(DATA, "run.finish()", "1 / 0")
    with pytest.raises(ZeroDivisionError):
        execute(DATA)
    assert (place / "manifest.json").read_bytes() == before
    assert key.why(DATA, "demo") == "never run here"


def test_a_manifest_says_what_its_job_was_made_of(checkout):
    execute(MODEL)
    place = execute(SECOND)
    manifest = paths.read_json(place / "manifest.json")
    made = paths.read_json(key.made_file(SECOND, "demo", key.DRAW))
    assert manifest["upstream"] == made["upstream"] == {MODEL: key.results_of(MODEL, "demo")}
    assert manifest["code"] == made["key"]["code"]
    assert manifest["parameters"] == made["key"]["parameters"]


@pytest.mark.slow
def test_a_setting_of_several_values_arrives_as_such(tmp_path, monkeypatch):
    """The price of tier paper's judge arrived as the text "(10, 30)", which the notebook refused."""
    written = []
    monkeypatch.setattr(
        papermill, "execute_notebook", lambda *args, **options: written.append(args[2])
    )
    for name in ("HS2_RUNS", "HS2_REPORTS"):
        monkeypatch.setenv(name, str(tmp_path))
    for name in (paths.RUN, jobs.progress.FILE, "HF_HUB_DISABLE_PROGRESS_BARS"):
        monkeypatch.setenv(name, "")  # what a job sets, given back after the test
    jobs._papermill("13_aligned_model_evaluation", "paper", tmp_path / "executed.ipynb")
    exec(PythonTranslator.codify(written[0]), arrived := {})
    assert arrived["recipe"]["price"] == [10, 30] == written[0]["recipe"]["price"]


# The copy that a report keeps.


def links(text):
    """Where the links of a Markdown text lead, a heading of the notebook itself and the web apart."""
    return [link for link in re.findall(r"\]\(([^)\s]+)", text) if not re.match("https:|#", link)]


def texts(notebook):
    """The texts of a notebook that are read as Markdown: cells and outputs."""
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            yield cell.source
        for output in cell.get("outputs", []):
            yield output.get("data", {}).get("text/markdown", "")


def copy_of(*cells):
    """The copy of an executed notebook with these cells."""
    return nbformat.reads(jobs.copy_text(new_notebook(cells=list(cells))), 4)


def test_links_of_a_copy_lead_to_other_copies(checkout):
    """A copy lies one folder deeper than its notebook, and each link of it led nowhere."""
    sentence = "next [03](03_second.ipynb), then [its end](03_second.ipynb#end) or [9](09_x.ipynb)"
    shown = new_output("display_data", {"text/markdown": sentence})
    copy = copy_of(new_markdown_cell(sentence), new_code_cell("", outputs=[shown]))
    other = "../03_second/03_second.ipynb"
    led = [links(text) for text in texts(copy)]
    assert led == [[other, f"{other}#end", "09_x.ipynb"]] * 2, "the cell's, and the output's"
    place = graph.manifest(MODEL, "demo").parent
    assert (place / other).resolve() == graph.manifest(SECOND, "demo").with_name(Path(other).name)


def test_a_copy_has_no_times_and_no_folder_of_this_machine(checkout):
    """They differ from run to run, and where a checkout lies is nobody's business."""
    warning = f"{paths.root()}/hs2lib/models/reward_model.py:1: UserWarning\n"
    bar = "100%|####| 7/7 [00:03<00:00,  2.1it/s]\n"
    cell = new_code_cell("", outputs=[new_output("stream", text=warning + bar)])
    cell.metadata["execution"] = {"iopub.status.busy": "2026-01-01"}
    (copied,) = copy_of(cell).cells
    assert (
        copied.outputs[0].text == "hs2lib/models/reward_model.py:1: UserWarning\n100%|####| 7/7\n"
    )
    assert copied.metadata == {}


NOTEBOOKS = {name: nbformat.read(paths.notebook(name), 4) for name in graph.notebooks()}
LINKING = [name for name, notebook in NOTEBOOKS.items() if any(map(links, texts(notebook)))]


@pytest.mark.parametrize("name", LINKING)
def test_each_link_of_a_notebook_leads_on_from_its_copy_too(name):
    """Also from a published one, which lies a folder deeper still: so notebooks link to one another alone."""
    notebook = NOTEBOOKS[name]
    before = [link for text in texts(notebook) for link in links(text)]
    for link in before:
        assert (paths.notebook(name).parent / link).is_file(), link
    after = [link for text in texts(copy_of(*notebook.cells)) for link in links(text)]
    of_copies = [f"../{Path(link).stem}/{link}" for link in before]
    assert after == of_copies
    for tier in ("demo", "laptop"):
        led = {(graph.manifest(name, tier).parent / link).resolve() for link in after}
        places = [graph.manifest(other, tier).parent for other in graph.notebooks()]
        assert led <= {place / f"{place.name}.ipynb" for place in places}
