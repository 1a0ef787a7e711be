"""What a run is made of: which edits make it run again, which only draw it anew, and which cost nothing."""

import json
import os
import shutil
import textwrap

import nbformat
import pytest
import three_notebooks
import toy_suite
from nbformat.v4 import new_code_cell
from three_notebooks import ALL, DATA, MODEL, SECOND, cells, edit, execute

from hs2lib import code, paths
from hs2lib.runs import graph, key

CHECKOUT = paths.root()

checkout = three_notebooks.checkout  # a fixture


def why(run, tier="demo"):
    return key.why(run, tier)


def ratings(place, n=1):
    paths.write(place, json.dumps({"text": "a", "n": n}) + "\n")


def values_of(folder, run, text, tier="demo"):
    """Say what a tier's file has of a notebook."""
    paths.write(folder / "params" / tier / f"{run}.yaml", text)


# Data and models.


def test_data_that_changed_make_what_read_them_run_again(checkout):
    """Correct your ratings, run again: the old table stood as current."""
    ratings(checkout / "my.jsonl")
    values_of(checkout, DATA, f"path: {checkout}/my.jsonl\n")
    assert why(DATA) == "never run here"
    execute(DATA)
    assert why(DATA) == ""
    ratings(checkout / "my.jsonl")
    assert why(DATA) == "", "the same content, written again"
    ratings(checkout / "my.jsonl", 7)
    assert why(DATA) == "changed: my.jsonl"
    execute(DATA)
    assert why(DATA) == ""
    (checkout / "my.jsonl").unlink()
    assert why(DATA) == "changed: my.jsonl"


def test_data_that_are_another_folders_are_other_data(checkout, monkeypatch):
    for place, n in (("one", 1), ("two", 2)):
        ratings(checkout / place / "my.jsonl", n)
    monkeypatch.setenv("HS2_DATA_DIR", str(checkout / "one"))
    values_of(checkout, DATA, f"path: {checkout}/one/my.jsonl\n")
    execute(DATA)
    monkeypatch.setenv("HS2_DATA_DIR", str(checkout / "two"))
    assert "$HS2_DATA_DIR/my.jsonl" in why(DATA)


def test_data_outside_the_checkout_are_known_by_their_whole_path(checkout, tmp_path):
    """A manifest names no folder of the user's; the job that was told by it ran again at each call."""
    mine = tmp_path / "elsewhere" / "my.jsonl"
    more = mine.with_name("more.jsonl")
    for file in (mine, more):
        ratings(file)
    edit(DATA, "print(path)", f"run.reads('{more}')")
    values_of(checkout, DATA, f"path: {mine}\n")
    execute(DATA)
    assert why(DATA) == ""
    ratings(more, 2)
    assert why(DATA) == f"changed: {paths.public(str(more))}"
    execute(DATA)
    ratings(mine, 3)
    assert why(DATA) == "changed: my.jsonl"


def test_a_file_that_a_run_names_and_does_not_read_is_no_reason_at_each_call(checkout):
    """A reward model of pairs reads no ratings, say; the job ran again each time."""
    edit(DATA, "run.reads(path)", "pass")
    ratings(checkout / "my.jsonl")
    values_of(checkout, DATA, f"path: {checkout}/my.jsonl\n")
    execute(DATA)
    assert why(DATA) == ""
    ratings(checkout / "my.jsonl", 2)
    assert why(DATA) == "changed: my.jsonl"


def test_a_named_run_alone_depends_on_the_inputs_that_it_names(checkout):
    paths.write(checkout / "mine" / "weights", "4")
    graph.define(f"{SECOND}@alone", "demo", {"path": f"{checkout}/mine"}, [])
    assert graph.with_upstream([f"{SECOND}@alone"], "demo") == [f"{SECOND}@alone"]
    execute(f"{SECOND}@alone")
    assert why(f"{SECOND}@alone") == ""
    paths.write(checkout / "mine" / "weights", "5")
    assert why(f"{SECOND}@alone") == "changed: mine"


def test_results_of_another_run_that_changed_count(checkout):
    for run in ALL:
        execute(run)
    values_of(checkout, MODEL, "n: 3\n")
    assert why(MODEL) == "changed: n (was 2, is 3)"
    assert why(SECOND) == f"changed: {MODEL} runs first"
    execute(MODEL)
    assert why(SECOND) == f"changed: results of {MODEL}"
    execute(SECOND)
    assert why(SECOND) == ""


def test_results_that_came_out_the_same_are_none(checkout):
    for run in ALL:
        execute(run)
    edit(MODEL, "str(n))", "str(n + 0))")
    execute(MODEL)
    assert why(MODEL) == why(SECOND) == ""


def test_a_model_that_is_gone_is_made_again_and_its_readers_wait(checkout):
    execute(MODEL)
    execute(SECOND)
    model = paths.runs() / "demo" / MODEL / "model"
    shutil.rmtree(model)
    assert why(MODEL) == "runs/demo/02_model/model is gone"
    assert why(SECOND) == f"changed: {MODEL} runs first"
    key.refresh(MODEL, "demo")
    assert not key.result(MODEL, "demo", key.COMPUTE).exists(), "so that Snakemake makes it again"
    execute(MODEL)
    assert why(MODEL) == why(SECOND) == "" and model.exists()


def test_a_report_that_is_gone_is_drawn_again(checkout):
    place = execute(DATA)
    for name in ("manifest.json", f"{DATA}.ipynb"):
        (place / name).unlink()
        assert why(DATA) == f"reports/demo/{DATA}/{name} is gone"
        key.refresh(DATA, "demo")
        for job in (key.COMPUTE, key.DRAW):
            assert not key.result(DATA, "demo", job).exists()
        execute(DATA)
        assert why(DATA) == ""


def test_a_run_by_hand_makes_nothing_run_again(checkout):
    execute(DATA)
    cells(DATA, n=3)
    assert why(DATA) == ""


# What is told of a change.


def test_what_changed_is_named_with_what_it_was(checkout):
    execute(DATA)
    values_of(checkout, DATA, "n: 5\nrate: 1\nmany: [a]\npath: x\n")
    assert why(DATA) == (
        "changed: many (was [], is ['a']), n (was 2, is 5), path (was '', is 'x') and 2 more"
    )
    values_of(checkout, DATA, "")
    edit(DATA, "run.finish()", "run.finish(); n + 1")
    text = "the text of notebooks/01_data.ipynb"
    assert why(DATA) == f"changed: notebooks/01_data.ipynb, {text}"


def test_a_setting_that_only_moved_is_not_said_to_have_changed(checkout):
    """From the recipe to the cell, say: its value is the same."""
    now = key.of(DATA, "demo", key.DRAW)
    before = json.loads(json.dumps(now))
    before["recipe"]["n"] = before["parameters"].pop("n")
    assert key.differences(before, now) == []


def test_what_puts_runs_in_order_is_no_code_of_theirs(checkout):
    files = key.of(DATA, "demo", key.DRAW)["files"]
    assert "hs2lib/report/report.py" in files and "hs2lib/runs/parameters.py" in files
    assert not files.keys() & {"hs2lib/runs/graph.py", "hs2lib/runs/key.py", "hs2lib/code.py"}


@pytest.mark.parametrize("content", ["", "{", "[]"])
def test_a_record_that_is_none_means_that_the_run_did_not_end(checkout, content):
    execute(DATA)
    key.made_file(DATA, "demo", key.DRAW).write_text(content)
    assert why(DATA) == "never run here"
    (paths.runs() / "demo" / DATA / "draw.log").touch()
    assert why(DATA) == "draw did not end"


def test_a_key_is_written_where_its_content_changes_and_else_left(checkout):
    """Snakemake sees the time of the file."""
    file = key.file(DATA, "demo", key.DRAW)
    key.refresh(DATA, "demo")
    os.utime(file, (1e9, 1e9))
    os.utime(paths.notebook(DATA))
    key.refresh(DATA, "demo")
    assert file.stat().st_mtime == 1e9
    values_of(checkout, DATA, "n: 5\n")
    key.refresh(DATA, "demo")
    assert file.stat().st_mtime > 1e9


# Of a notebook that makes a model one job computes and the other draws.


def digests(run=MODEL, job=key.COMPUTE):
    return key.of(run, "demo", job)["code"]


def test_a_cell_that_shows_changes_what_is_drawn_and_not_what_is_computed(checkout):
    before = digests(), digests(job=key.DRAW)
    edit(MODEL, "Made.", "A model.")
    assert digests() == before[0]
    assert digests(job=key.DRAW) != before[1]


def test_a_cell_that_computes_changes_both(checkout):
    before = digests(), digests(job=key.DRAW)
    edit(MODEL, "str(n)", "str(3 * n)")
    assert digests()["computes"] != before[0]["computes"]
    assert digests(job=key.DRAW)["computes"] != before[1]["computes"]


def test_what_is_imported_and_only_shown_is_not_computed_with(checkout):
    """The cell that starts imports for the whole notebook."""
    edit(MODEL, "import pandas as pd", r"import pandas as pd\nfrom hs2lib.stats import metrics")
    used = lambda job: "hs2lib/stats/metrics.py" in key.of(MODEL, "demo", job)["files"]  # noqa: E731
    assert used(key.DRAW) and not used(key.COMPUTE)
    edit(MODEL, "run.numbers", r"metrics.METRICS\nrun.numbers")
    assert used(key.COMPUTE)


def test_a_notebook_without_a_stage_or_without_a_model_has_one_job(checkout):
    assert [key.jobs_of(run) for run in ALL] == [["draw"], ["compute", "draw"], ["draw"]]
    edit(MODEL, '"train"', '"shown"')
    assert key.jobs_of(MODEL) == ["draw"]


# Each kind of edit, and what follows from it: a copy of the library is edited.

# What is edited -> its file, what stands there, what stands there then, and what follows:
# "current", nothing; "draws", the notebook is executed again, and its results are the same;
# "computes", all is made again.
EDITS = {
    "a comment": (
        "hs2lib/stats/metrics.py",
        "import numpy as np\n",
        "import numpy as np  # arrays\n",
        "current",
    ),
    "a docstring": ("hs2lib/train/losses.py", '"""', '""" ', "current"),
    "a hint": ("hs2lib/train/losses.py", "beta: float", "beta: object", "current"),
    "layout": ("hs2lib/paths.py", "def runs() -> Path:\n", "def runs() -> Path:\n\n", "current"),
    "the style of the site": ("hs2lib/report/pages/page.css", "", "/* wider */\n", "current"),
    "a page of the site": ("hs2lib/report/pages/index.html", "", "<!-- more -->\n", "current"),
    "a caption in a module that draws": (
        "hs2lib/report/show.py",
        "",
        'CAPTION = "Not rated."\n',
        "draws",
    ),
    "how a report is written": ("hs2lib/report/report.py", "", "MORE = 1\n", "draws"),
    "how a group is shown": ("hs2lib/report/pages/answers.html", "", "<hr>\n", "draws"),
    "the notebook's prose": ("notebooks/01_data.ipynb", "Some prose.", "Better prose.", "draws"),
    "a comment in a cell": (
        "notebooks/01_data.ipynb",
        "run.finish()",
        "run.finish()  # the end",
        "draws",
    ),
    "a renamed local": ("hs2lib/paths.py", "partial", "unfinished", "computes"),
    "a constant of a loss": (
        "hs2lib/train/losses.py",
        "lam: float = 0.95",
        "lam: float = 0.9",
        "computes",
    ),
    "an operator": ("hs2lib/stats/metrics.py", " - ", " + ", "computes"),
    "a class's field": ("hs2lib/group.py", "    role: str\n", "    role: object\n", "computes"),
    "a rule of verdicts": ("hs2lib/report/verdict.py", " <= ", " < ", "computes"),
    "a phrase of the small world": ("hs2lib/world/facts/animal.tsv", "", "zebu\n", "computes"),
    "a cell": ("notebooks/01_data.ipynb", "run.finish()", "n += 1; run.finish()", "computes"),
    "a parameter": ("params/demo/01_data.yaml", "n: 2", "n: 3", "computes"),
    "a row of data": ("my.jsonl", '"n": 1', '"n": 4', "computes"),
}

USED = """from hs2lib.world import sets
from hs2lib.report import show, verdict
from hs2lib.stats import metrics
from hs2lib.train import losses"""


@pytest.fixture
def edited(checkout, monkeypatch):
    """The first notebook, which uses what is edited, and a copied hs2lib."""
    ratings(checkout / "my.jsonl")
    values_of(checkout, DATA, f"path: {checkout}/my.jsonl\nn: 2\n")
    skip = shutil.ignore_patterns("__pycache__", "*.safetensors")
    shutil.copytree(CHECKOUT / "hs2lib", checkout / "hs2lib", ignore=skip)
    monkeypatch.setattr(code, "package", lambda: checkout / "hs2lib")
    file = checkout / "notebooks" / f"{DATA}.ipynb"
    notebook = nbformat.read(file, 4)
    used = new_code_cell(f"if False:\n{textwrap.indent(USED, '    ')}", id="used")
    notebook.cells.insert(3, used)
    nbformat.write(notebook, file)
    return checkout


def what_follows(before, now):
    """In a word of `EDITS`, what follows where a key is another one."""
    if before == now:
        return "current"
    counts = ("parameters", "recipe", "data")
    same = all(before[name] == now[name] for name in counts)
    is_drawn_alone = same and before["code"]["computes"] == now["code"]["computes"]
    return "draws" if is_drawn_alone else "computes"


@pytest.mark.parametrize("kind", EDITS)
def test_what_follows_from_each_kind_of_edit(edited, kind):
    """A tidied line costs nothing, a figure drawn anew changes no number, and nothing that computes goes unseen."""
    place, before, after, expected = EDITS[kind]
    as_it_was = key.of(DATA, "demo", key.DRAW)
    file = edited / place
    changed = file.read_text().replace(before, after) if before else file.read_text() + after
    assert changed != file.read_text()
    file.write_text(changed)
    now = key.of(DATA, "demo", key.DRAW)
    assert what_follows(as_it_was, now) == expected
    if expected != "current":
        said = ", ".join(key.differences(as_it_was, now))
        assert place in said or "n (was 2, is 3)" in said, "it says what changed"


def test_a_run_that_is_only_drawn_anew_leaves_what_reads_it_as_it_is(edited):
    file = edited / "notebooks" / f"{MODEL}.ipynb"
    file.write_text(file.read_text().replace('"makes"', f'"needs": ["{DATA}"], "makes"'))
    for run in (DATA, MODEL):
        execute(run)
    show = edited / "hs2lib/report/show.py"
    show.write_text(show.read_text() + 'CAPTION = "Not rated."\n')
    assert why(DATA) == "changed: hs2lib/report/show.py"
    execute(DATA)
    assert why(DATA) == why(MODEL) == ""


@pytest.mark.parametrize("source", ["postcards", "folder"])
def test_the_small_world_counts_for_real_tiers_where_the_run_reads_it(edited, source):
    """No report of real data runs again because a greeting was reworded; one of generated rows does."""
    edit(DATA, "smoke, demo", "smoke, laptop")
    parameter = r"n: int = 2  # a number; 0 to 9\n"
    more = parameter + rf"eval_source: str = \"{source}\"  # where prompts come from\n"
    edit(DATA, parameter, more)
    before = key.of(DATA, "laptop", key.DRAW)
    phrases = edited / "hs2lib/world/facts/animal.tsv"
    phrases.write_text(phrases.read_text() + "zebu\n")
    changed = key.differences(before, key.of(DATA, "laptop", key.DRAW))
    assert changed == (["hs2lib/world/facts/animal.tsv"] if source == "postcards" else [])


def test_the_users_own_modules_beside_a_notebook_count_and_what_they_use(checkout):
    """A notebook that imports `mine`, which imports a room of hs2lib, was current after a change of that room."""
    edit(DATA, "from pathlib", r"%matplotlib inline\nimport mine\nimport pkg.sub\nfrom pathlib")
    before = key.of(DATA, "demo", key.DRAW)["files"]
    paths.write(checkout / "notebooks/mine.py", "import hs2lib.evaluate.arena_hard\n")
    paths.write(checkout / "notebooks/pkg/sub.py", "a = 1\n")
    now = key.of(DATA, "demo", key.DRAW)["files"]
    more = now.keys() - before.keys()
    expected = {"mine.py": "notebooks/mine.py", "sub.py": "notebooks/pkg/sub.py"}
    assert more >= {*expected.values(), "hs2lib/evaluate/arena_hard.py"}


def test_an_import_that_is_no_module_is_an_error(checkout):
    edit(DATA, "import tempfile", "from hs2lib.stats import bootstrop")
    message = "hs2lib.stats.bootstrop is imported, and hs2lib has no such module"
    with pytest.raises(ImportError, match=message):
        key.of(DATA, "demo", key.DRAW)


# What the notebooks of the suite are made of: a file is touched in a copy, and nothing is run.


def made(run, tier, use="computes"):
    """The digests of a run's code, of each job."""
    return [key.of(run, tier, job)["code"][use] for job in key.jobs_of(run)]


@pytest.fixture
def touched(tmp_path, monkeypatch):
    """A function: after a change to this file, which notebooks compute by other code at this tier?"""
    skip = shutil.ignore_patterns("__pycache__")
    for folder in ("hs2lib", "notebooks", "params"):
        shutil.copytree(CHECKOUT / folder, tmp_path / folder, ignore=skip)
    monkeypatch.setenv("HS2_ROOT", str(tmp_path))
    monkeypatch.setenv("HS2_RUNS", str(tmp_path / "runs"))
    monkeypatch.setattr(code, "package", lambda: tmp_path / "hs2lib")

    def touch(name, tier):
        before = {run: made(run, tier) for run in graph.notebooks()}
        with (tmp_path / name).open("a") as file:
            file.write("\nTOUCHED = 1\n" if name.endswith(".py") else "\n")
        return {run[:2] for run in graph.notebooks() if made(run, tier) != before[run]}

    return touch


ALL_NOTEBOOKS = {name[:2] for name in graph.notebooks()}


@pytest.mark.slow
@pytest.mark.parametrize("file", ["hs2lib/world/cards.py", "hs2lib/world/facts/animal.tsv"])
def test_a_phrase_of_generated_text_counts_where_all_rows_are_generated(touched, file):
    assert touched(file, "smoke") == ALL_NOTEBOOKS


@pytest.mark.slow
def test_a_phrase_counts_at_a_tier_of_real_data_where_some_rows_are_generated(touched):
    """The audit shows made-up rows at any tier."""
    generating = set()
    for run in graph.notebooks():
        _, values, recipe = graph.resolved(run, "laptop")
        settings = values | (vars(recipe) if recipe else {})
        if "postcards" in [value for name, value in settings.items() if name.endswith("source")]:
            generating.add(run[:2])
    assert touched("hs2lib/world/facts/animal.tsv", "laptop") == generating != ALL_NOTEBOOKS


@pytest.mark.slow
def test_the_losses_count_where_models_are_trained(touched):
    training = {"05", "07", "08", "09", "10", "11", "12", "15"}
    assert touched("hs2lib/train/losses.py", "laptop") == training


@pytest.mark.slow
def test_a_number_of_the_paper_counts_for_the_tables_beside_it(touched):
    assert "14" in touched("hs2lib/paper/table-4.csv", "laptop")


@pytest.mark.slow
def test_a_setting_counts_where_it_changes_the_recipe(touched, tmp_path):
    """A default of another method's recipe changes no notebook that does not import the module of recipes."""
    run = "06_rewardbench_evaluation"
    file = tmp_path / "params" / "laptop" / f"{run}.yaml"
    before = key.of(run, "laptop", key.DRAW)
    file.write_text(file.read_text() + "  folds: 7\n")
    assert key.of(run, "laptop", key.DRAW)["recipe"] != before["recipe"]
    assert "06" not in touched("hs2lib/train/recipes.py", "laptop")


def test_every_data_file_is_used_by_some_module():
    """One that no module names would change a report and not make it run again."""
    package = CHECKOUT / "hs2lib"
    files = {
        file for file in package.rglob("*") if file.is_file() and "__pycache__" not in file.parts
    }
    # The weights of a base count where `model_name` names it.
    for base in key.BASES.values():
        files -= set((package / base).iterdir())
    modules = {file for file in files if file.suffix == ".py"}
    files = {file for file in files if file.name not in code.SITE}
    names = [".".join(file.relative_to(CHECKOUT).with_suffix("").parts) for file in modules]
    assert files - modules == set().union(*map(code.data_files, names))


# Reports that a notebook shows.

SHOWS = "14_paper_tables_and_figures"
SHOWN = "06_rewardbench_evaluation"


@pytest.fixture
def shown(tmp_path, monkeypatch):
    """Writes the manifest of a report with these artefacts."""
    monkeypatch.setenv("HS2_REPORTS", str(tmp_path / "reports"))

    def write(run=SHOWN, tier="demo", text=None, **artefacts):
        manifest = {
            "artefacts": {name.replace("_", "."): entry for name, entry in artefacts.items()}
        }
        paths.write(graph.manifest(run, tier), text or json.dumps(manifest))

    return write


def read_by_14():
    """What 14 is made of: digests of the tables that it shows, and of the whole reports."""
    return key.upstream(SHOWS, "demo"), key.drawn(SHOWS, "demo")


def test_a_notebook_that_shows_figures_of_others_is_drawn_with_them(shown):
    """A figure drawn anew changes the document of the last notebook, and no number of it."""
    table = {"sha256": "1", "caption": "a"}
    shown(n_csv=table, n_png={"sha256": "2", "caption": "a"})
    tables, figures = read_by_14()
    shown(n_csv=table, n_png={"sha256": "3", "caption": "b"})
    assert read_by_14()[0] == tables and read_by_14()[1][SHOWN] != figures[SHOWN]
    shown(n_csv={"sha256": "4", "caption": "a"}, n_png={"sha256": "2", "caption": "a"})
    assert read_by_14()[0][SHOWN] != tables[SHOWN]


@pytest.mark.parametrize("content", ["", "{", "[]", "{}"])
def test_a_manifest_that_is_none_is_a_report_like_another(shown, content):
    shown(text=content or " ")
    tables, figures = read_by_14()
    assert tables[SHOWN] == figures[SHOWN] == ""


def test_results_that_are_not_there_yet_have_no_digest(tmp_path, monkeypatch):
    toy_suite.make(tmp_path / "toy")
    monkeypatch.setenv("HS2_ROOT", str(tmp_path / "toy"))
    monkeypatch.delenv("HS2_RUNS", raising=False)
    assert key.upstream("02_second", "demo") == {"01_first": ""}
