"""What makes a run stale, named runs beside a notebook's own, and that no path of a machine is published."""

import importlib
import json
import os
import shutil
import sys
import textwrap
from types import SimpleNamespace

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from hs2lib import code, paths
from hs2lib.data.load import SETS, files, find
from hs2lib.commands import runner
from hs2lib.paths import root
from hs2lib.report import report
from hs2lib.runs import graph, processes
from hs2lib.runs.parameters import ParameterError

CHECKOUT = root()
sys.path.insert(0, str(CHECKOUT / "reports"))
site = importlib.import_module("make_site")
sys.path.pop(0)
DATA, MODEL, SECOND = "01_data", "02_model", "03_second"

CELL = """tier: str = "smoke"  # tier; one of smoke, demo
path: str = ""  # file of rows
n: int = 2  # a number; 0 to 9
rate: float = 0.5  # a rate
many: list = []  # some texts"""

BODIES = {
    # A table of a data file; a model written; a model read, if one is named, else that of the
    # second notebook. The first also reads a file that it makes and removes, which makes nothing
    # stale.
    DATA: """import tempfile
from hs2lib.data.rows import rows
with tempfile.NamedTemporaryFile() as scratch:
    run.reads(scratch.name)
if path:
    run.reads(path)
table = pd.DataFrame([row for _, row in rows(Path(path))] if path else [{"text": "none", "n": n}])
run.table(table, "rows", f"Rows of {path}.")
print(path)""",
    MODEL: """model = paths.work(tier, "02_model") / "model"
paths.write(model / "weights", str(n))
run.wrote(model)
run.table(pd.DataFrame({"n": [n]}), "made", "Made.")""",
    SECOND: """model = Path(path or paths.work(tier, "02_model") / "model")
run.reads(model)
run.table(pd.DataFrame({"weights": [(model / "weights").read_text()]}), "read", "Read.")""",
}
NEEDS = {DATA: [], MODEL: [], SECOND: ["model unless path"]}


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A checkout of three notebooks."""
    tmp_path /= "a folder"
    (tmp_path / "notebooks").mkdir(parents=True)
    for name, body in BODIES.items():
        start = "from pathlib import Path\nimport pandas as pd\n"
        start += "from hs2lib import paths\nfrom hs2lib.report import report\n"
        start += f"run = report.start({name!r}, globals())"
        cells = [new_code_cell(CELL, id="parameters", metadata={"tags": ["parameters"]})]
        cells += [new_code_cell(source) for source in (start, body, "run.finish()")]
        about = {"needs": NEEDS[name], "makes": {"model": "Model"} if name == MODEL else {}}
        nbformat.write(
            new_notebook(cells=cells, metadata={"hs2": about}),
            tmp_path / "notebooks" / f"{name}.ipynb",
        )
    for name in ("HS2_REPORTS", "HS2_RUNS", "HS2_DATA_DIR", paths.RUN):
        monkeypatch.setenv(name, "")  # so that it is as it was afterwards, whatever a run sets
        monkeypatch.delenv(name)
    monkeypatch.setenv("HS2_ROOT", str(tmp_path))
    monkeypatch.setattr(paths, "LARGE", 1)
    return tmp_path


def cells(run, **values):
    """Run the cells of a notebook here, as a kernel would."""
    space = {"__name__": "notebook"}
    for cell in nbformat.read(paths.notebook(run), 4).cells:
        exec(cell.source if cell.cell_type == "code" else "", space)
        if cell.id == "parameters":
            space |= {"tier": "demo"} | values
    return space["run"]


def execute(run, monkeypatch, tier="demo"):
    """What the runner does with a notebook, without a kernel."""
    values = graph.resolved(run, tier)[1]
    with monkeypatch.context() as patch:
        patch.setenv(paths.RUN, graph.reading(run, tier))
        left = cells(run, **values)
    shown = new_notebook(cells=[new_code_cell(f"path = {values['path']!r}", id="shown")])
    paths.write(left.place / f"{run}.ipynb", paths.public(nbformat.writes(shown)))
    graph.stamp(run, tier)
    return left.place


def stale(run, tier="demo"):
    return graph.why_stale(run, tier)


def ratings(place, n=1):
    paths.write(place, json.dumps({"text": "a", "n": n}) + "\n")


def test_a_data_file_that_changed_makes_what_read_it_stale(checkout, monkeypatch):
    """Correct your ratings, run again: the old table stood as current."""
    ratings(checkout / "my.jsonl")
    paths.write(checkout / "params/demo/01_data.yaml", f"path: {checkout}/my.jsonl\n")
    assert stale(DATA) == "never run here"
    execute(DATA, monkeypatch)
    assert stale(DATA) == ""
    ratings(checkout / "my.jsonl")
    assert stale(DATA) == "", "the same content, written again"
    ratings(checkout / "my.jsonl", 7)
    assert stale(DATA) == "changed since: my.jsonl"
    (checkout / "my.jsonl").unlink()
    assert stale(DATA) == "changed since: my.jsonl is missing"
    # The same path below another data folder is another file.
    for place, n in (("one", 1), ("two", 2)):
        ratings(checkout / place / "my.jsonl", n)
    monkeypatch.setenv("HS2_DATA_DIR", str(checkout / "one"))
    paths.write(checkout / "params/demo/01_data.yaml", f"path: {checkout}/one/my.jsonl\n")
    execute(DATA, monkeypatch)
    monkeypatch.setenv("HS2_DATA_DIR", str(checkout / "two"))
    assert "$HS2_DATA_DIR/my.jsonl" in stale(DATA)


def test_a_folder_called_snapshots_is_not_the_hubs_cache(checkout, monkeypatch):
    """What lay in one was taken for a file at a commit, which cannot change: new ratings counted as current."""
    place = checkout / "snapshots/2024/my.jsonl"
    ratings(place)
    assert paths.place(place) == "snapshots/2024/my.jsonl"
    cached = "/c/hub/datasets--nvidia--HelpSteer2/snapshots/abc/disagreements/d.jsonl.gz"
    assert paths.place(cached) == "hub:nvidia/HelpSteer2@abc/disagreements/d.jsonl.gz"


def test_a_file_that_comes_to_stand_before_another_makes_what_read_that_stale(
    checkout, monkeypatch
):
    """Beside train.jsonl a train.jsonl.gz is read in its place; the run on the old one counted as current."""
    other = SETS["helpsteer2"]
    (checkout / "data/helpsteer2").mkdir(parents=True)
    paths.write(checkout / "data/helpsteer2/train.jsonl", "{}\n")
    ((_, file, _),), before = files(other, "folder", checkout / "data", "train")
    assert file.name == "train.jsonl"
    packed = paths.place(checkout / "data/helpsteer2/train.jsonl.gz")
    assert before[packed] == "" and paths.digest(paths.located(packed)) == ""
    paths.write(checkout / "data/helpsteer2/train.jsonl.gz", "other")
    assert find(checkout / "data", other, "train").files[0].name == "train.jsonl.gz"
    assert paths.digest(paths.located(packed)) != before[packed]


def test_what_is_published_has_no_folder_of_this_machine_and_every_address_whole(
    checkout, monkeypatch
):
    """With a short data folder such as /data, https://a.org/data/x became https://a.org$HS2_DATA_DIR/x."""
    monkeypatch.setenv("HS2_DATA_DIR", "/srv/data")
    text = r"see https://a.org/srv/data/x, \n/srv/data/y, file:///srv/data/z and =/srv/data/w"
    hidden = r"see https://a.org/srv/data/x, \n$HS2_DATA_DIR/y, file://$HS2_DATA_DIR/z and =$HS2_DATA_DIR/w"
    assert paths.public(text) == hidden


def test_a_table_that_was_edited_or_deleted_is_not_current(checkout, monkeypatch):
    place = execute(DATA, monkeypatch)
    kept = (place / "rows.csv").read_text()
    (place / "rows.csv").write_text(kept.replace("none", "some"))
    assert stale(DATA) == "changed since: reports/demo/01_data/rows.csv"
    (place / "rows.csv").unlink()
    assert stale(DATA) == "changed since: reports/demo/01_data/rows.csv is missing"
    (place / "rows.csv").write_text(kept)
    assert stale(DATA) == ""
    (place / "01_data.ipynb").write_text("another")
    assert stale(DATA) == "changed since: reports/demo/01_data/01_data.ipynb"
    execute(DATA, monkeypatch)
    cells(DATA, n=3)  # by hand
    assert stale(DATA) == "", "a run by hand has a report of its own"
    manifest = place / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"wall_s"', '"seconds"'))
    assert stale(DATA) == "its manifest is not the one its stamp names"


def test_methods_are_branches_after_sft_and_no_chain():
    """DPO, PPO and SteerLM need SFT alone, so that they can run side by side."""
    needs = {
        name: {one[:2] for one in graph.with_upstream([name], "demo")} for name in graph.notebooks()
    }
    assert [needs[name] - {"05", "07"} for name in ("08_dpo", "10_ppo", "11_steerlm")] == [
        {"08"},
        {"10"},
        {"11"},
    ]
    assert needs["09_iterative_dpo"] == {"05", "07", "08", "09"} and needs["12_steerlm2"] == {
        "05",
        "07",
        "11",
        "12",
    }
    assert needs["13_aligned_model_evaluation"] >= {"08", "09", "10", "11", "12"}


def test_models_that_were_read_or_written_count(checkout, monkeypatch):
    execute(MODEL, monkeypatch)
    execute(SECOND, monkeypatch)
    assert stale(MODEL) == stale(SECOND) == ""
    model = paths.runs() / "demo" / MODEL / "model"
    (model / "weights").write_text("9")
    assert stale(MODEL) == "changed since: runs/demo/02_model/model"
    assert stale(SECOND) == "02_model is stale"
    assert graph.state(SECOND, "demo").changes == ("runs/demo/02_model/model",)
    shutil.rmtree(model)
    assert stale(MODEL) == "changed since: runs/demo/02_model/model is missing"
    execute(MODEL, monkeypatch)
    assert stale(SECOND) == "", "the same again"


def test_parameters_recipes_and_code_are_named_with_what_they_were(checkout, monkeypatch):
    execute(DATA, monkeypatch)
    paths.write(checkout / "params/demo/01_data.yaml", "n: 5\n")
    assert stale(DATA) == "changed since: parameter n (was 2, is 5)"
    paths.write(checkout / "params/demo/01_data.yaml", "")
    notebook = checkout / "notebooks" / f"{DATA}.ipynb"
    notebook.write_text(notebook.read_text().replace("run.finish()", "run.finish(); n + 1"))
    assert stale(DATA) == "changed since: notebooks/01_data.ipynb"
    stamp = json.loads(graph.outputs(DATA, "demo")["stamp"].read_text())
    assert (
        "hs2lib/report/report.py" in stamp["files"] and "hs2lib/runs/graph.py" not in stamp["files"]
    )
    stamp["recipe"]["n"] = stamp["parameters"].pop("n")  # where it stood when the notebook ran
    paths.write(graph.outputs(DATA, "demo")["stamp"], json.dumps(stamp))
    assert stale(DATA) == "changed since: notebooks/01_data.ipynb", (
        "a setting that only moved did not change"
    )


def test_verify_says_all_that_changed_and_fails(checkout, monkeypatch, capsys):
    for run in (DATA, MODEL, SECOND):
        execute(run, monkeypatch)
    capsys.readouterr()
    assert runner.main(["--tier", "demo", "--verify"]) == 0
    assert capsys.readouterr().out == "".join(
        f"demo {run}: current\n" for run in (DATA, MODEL, SECOND)
    )
    (paths.runs() / "demo" / MODEL / "model" / "weights").write_text("9")
    (paths.reports() / "demo" / MODEL / "made.tex").unlink()
    assert runner.main(["--tier", "demo", "--verify", "02", "03"]) == 1
    model = "runs/demo/02_model/model"
    lines = [
        f"demo 02_model: changed since: {model}, reports/demo/02_model/made.tex is missing",
        f"  {model}",
        "  reports/demo/02_model/made.tex is missing",
        "demo 03_second: 02_model is stale",
        f"  {model}",
    ]
    assert capsys.readouterr().out.splitlines() == lines


def test_a_large_file_is_hashed_once_while_it_stays_as_it_is(checkout, monkeypatch):
    hashed = []
    monkeypatch.setattr(paths, "sha256", lambda path: hashed.append(path.name) or "digest")
    file = checkout / "weights"
    file.write_text("12345")
    os.utime(file, (1e9, 1e9))
    assert [paths.digest(file) for _ in range(3)] == ["digest"] * 3 and len(hashed) == 1
    paths.digest(file, again=True)
    assert len(hashed) == 2
    file.write_text("54321")
    os.utime(file, (1e9, 1e9))  # the same size and time: a change all the same
    paths.digest(file)
    assert len(hashed) == 3
    file.write_text("00000")  # just now: it may change again within this tick of the clock
    paths.digest(file)
    paths.digest(file)
    assert len(hashed) == 5


def test_no_path_of_this_machine_is_published(checkout, monkeypatch, tmp_path):
    """Manifest, captions, tables and executed notebook name the file, not where its owner keeps it."""
    mine = tmp_path / "home of somebody" / "my.jsonl"
    ratings(mine)
    paths.write(checkout / "params/demo/01_data.yaml", f"path: {mine}\n")
    place = execute(DATA, monkeypatch)
    assert json.loads((place / "manifest.json").read_text())["parameters"]["path"] == "my.jsonl"
    assert "elsewhere:my.jsonl" in (place / "manifest.json").read_text()
    site.build()
    texts = {file: file.read_bytes() for file in paths.reports().rglob("*") if file.is_file()}
    assert not [
        file
        for file, text in texts.items()
        if b"somebody" in text or str(tmp_path).encode() in text
    ]
    assert stale(DATA) == "", "the stamp knows where it is"
    ratings(mine, 3)
    assert stale(DATA) == "changed since: my.jsonl"


def test_a_commit_of_the_hub_is_in_the_manifest(checkout, monkeypatch):
    cached = checkout / "hub" / "datasets--owner--set" / "snapshots" / "4567" / "train.jsonl"
    ratings(cached)
    run = cells(MODEL)
    assert (
        paths.place(cached) == "hub:owner/set@4567/train.jsonl"
        and paths.located(paths.place(cached)) is None
    )
    run.reads(SimpleNamespace(read={"hub:owner/name@0123": "0123"}), cached)
    run.finish()
    read = json.loads((run.place / "manifest.json").read_text())["read"]
    assert list(read) == ["hub:owner/name@0123", "hub:owner/set@4567/train.jsonl"]


# Each kind of edit, and what follows from it: a copy of the library is edited.

EDITS = {
    "a comment": (
        "hs2lib/stats/metrics.py",
        "import numpy as np\n",
        "import numpy as np  # arrays\n",
        "current",
    ),
    "a docstring": ("hs2lib/train/losses.py", '"""', '""" ', "current"),
    "a hint": ("hs2lib/train/losses.py", "beta: float", "beta: object", "current"),
    "a renamed local": ("hs2lib/paths.py", "partial", "unfinished", "current"),
    "layout": ("hs2lib/paths.py", "def runs() -> Path:\n", "def runs() -> Path:\n\n", "current"),
    "the style of the site": ("hs2lib/report/pages/page.css", "", "/* wider */\n", "current"),
    "a page of the site": ("hs2lib/report/pages/index.html", "", "<!-- more -->\n", "current"),
    "a caption in a module that draws": (
        "hs2lib/report/show.py",
        "",
        'CAPTION = "Not rated."\n',
        "redraw",
    ),
    "how a group is shown": ("hs2lib/report/pages/group.html", "", "<hr>\n", "redraw"),
    "the notebook's prose": ("notebooks/01_data.ipynb", "Some prose.", "Better prose.", "redraw"),
    "a comment in a cell": (
        "notebooks/01_data.ipynb",
        "run.finish()",
        "run.finish()  # the end",
        "redraw",
    ),
    "a constant of a loss": (
        "hs2lib/train/losses.py",
        "lam: float = 0.95",
        "lam: float = 0.9",
        "stale",
    ),
    "an operator": ("hs2lib/stats/metrics.py", " - ", " + ", "stale"),
    "a class's field": ("hs2lib/group.py", "    role: str\n", "    role: object\n", "stale"),
    "a rule of verdicts": ("hs2lib/report/verdict.py", " <= ", " < ", "stale"),
    "a phrase of the small world": ("hs2lib/corpus/phrases/animal.tsv", "", "zebu\n", "stale"),
    "a cell": ("notebooks/01_data.ipynb", "run.finish()", "n += 1; run.finish()", "stale"),
    "a parameter": ("params/demo/01_data.yaml", "n: 2", "n: 3", "stale"),
    "a row of data": ("my.jsonl", '"n": 1', '"n": 4', "stale"),
}

USED = """from hs2lib.corpus import generate
from hs2lib.report import show, verdict
from hs2lib.stats import metrics
from hs2lib.train import losses"""


@pytest.fixture
def edited(checkout, monkeypatch):
    """The first notebook and the second, which needs it and uses no module that the first does not; a copied hs2lib."""
    ratings(checkout / "my.jsonl")
    paths.write(checkout / "params/demo/01_data.yaml", f"path: {checkout}/my.jsonl\nn: 2\n")
    skip = shutil.ignore_patterns("__pycache__", "*.safetensors")
    shutil.copytree(CHECKOUT / "hs2lib", checkout / "hs2lib", ignore=skip)
    monkeypatch.setattr(code, "package", lambda: checkout / "hs2lib")
    file = checkout / "notebooks" / f"{DATA}.ipynb"
    notebook = nbformat.read(file, 4)
    notebook.cells.insert(0, new_markdown_cell("Some prose."))
    notebook.cells.insert(2, new_code_cell(f"if False:\n{textwrap.indent(USED, '    ')}"))
    nbformat.write(notebook, file)
    other = checkout / "notebooks" / f"{MODEL}.ipynb"
    other.write_text(other.read_text().replace('"needs": []', f'"needs": ["{DATA}"]'))
    return checkout


@pytest.mark.parametrize("kind", EDITS)
def test_what_follows_from_each_kind_of_edit(edited, monkeypatch, kind):
    """A tidied line costs nothing, a figure drawn anew costs no training, and nothing that computes goes unseen."""
    place, before, after, expected = EDITS[kind]
    for run in (DATA, MODEL):
        execute(run, monkeypatch)
    assert graph.state(DATA, "demo") == graph.state(MODEL, "demo") == graph.State(graph.CURRENT)
    file = edited / place
    changed = file.read_text().replace(before, after) if before else file.read_text() + after
    assert changed != file.read_text()
    file.write_text(changed)
    state = graph.state(DATA, "demo")
    assert state.kind == expected, state.why
    if expected == "redraw":
        assert state.why.startswith("to redraw: ") and stale(MODEL) == "", (
            "what reads it stays as it is"
        )
        execute(DATA, monkeypatch)
        assert graph.state(DATA, "demo").kind == "current" and stale(MODEL) == ""
    if expected == "stale":
        assert place.removeprefix("params/") in state.why or "parameter n" in state.why, (
            "it says what changed"
        )
        assert graph.state(MODEL, "demo").kind == "stale"


def test_a_run_to_redraw_runs_again_and_nothing_else_does(edited, monkeypatch, capsys):
    """The command line lists it with the reason, and starts it alone."""
    for run in (DATA, MODEL):
        execute(run, monkeypatch)
    file = edited / "hs2lib/report/show.py"
    file.write_text(file.read_text() + 'CAPTION = "Not rated."\n')
    capsys.readouterr()
    assert runner.main(["--tier", "demo", "--list", "01", "02"]) == 0
    lines = ["demo 01_data: to redraw: hs2lib/report/show.py", "demo 02_model: current"]
    assert capsys.readouterr().out.splitlines() == lines
    started = []
    monkeypatch.setattr(runner, "snakemake", lambda names, *others: started.append(names) or 0)
    monkeypatch.setattr(
        runner, "check_files", lambda names, tier: None
    )  # the toy's rows are no ratings
    assert runner.main(["--tier", "demo", "02"]) == 0
    assert started == [[DATA]]


GENERATED = {
    "name": "toy",
    "generated": True,
    "partial": False,
    "groups": 1,
    "of_paper": False,
    "set_aside": 0,
}


@pytest.mark.parametrize("generated", [True, False])
def test_the_small_world_counts_for_real_tiers_where_the_run_generated_rows(
    edited, monkeypatch, generated
):
    """No report of real data is stale because a greeting was reworded; one of a dry run is."""
    file = edited / "notebooks" / f"{DATA}.ipynb"
    body = f"run.sources.append({GENERATED}); run.finish()" if generated else "run.finish()"
    file.write_text(
        file.read_text().replace("run.finish()", body).replace("smoke, demo", "smoke, laptop")
    )
    paths.write(edited / "params/laptop/01_data.yaml", "n: 2\n")
    execute(DATA, monkeypatch, "laptop")
    assert stale(DATA, "laptop") == ""
    phrases = edited / "hs2lib/corpus/phrases/animal.tsv"
    phrases.write_text(phrases.read_text() + "zebu\n")
    expected = "changed since: hs2lib/corpus/phrases/animal.tsv" if generated else ""
    assert stale(DATA, "laptop") == expected
    rules = edited / "hs2lib/corpus/rules.yaml"
    before = stale(DATA, "laptop")
    rules.write_text(rules.read_text() + "\n")
    assert stale(DATA, "laptop") == (f"{before}, hs2lib/corpus/rules.yaml" if generated else "")


def test_a_notebook_that_shows_the_figures_of_others_is_redrawn_with_them(checkout, monkeypatch):
    """The last notebook puts figures into one document: a figure drawn anew makes it one to redraw, not stale."""
    manifest = checkout / "manifest.json"
    about = {"n.csv": {"sha256": "1", "caption": "a"}, "n.png": {"sha256": "2", "caption": "a"}}
    digests = []
    for changed in (
        {},
        {"n.png": {"sha256": "3", "caption": "b"}},
        {"n.csv": {"sha256": "4", "caption": "a"}},
    ):
        manifest.write_text(json.dumps({"artefacts": about | changed}))
        digests.append((graph.results(manifest), graph._drawn(manifest)))
    (first, _), (drawn, _), (counted, _) = digests
    assert first == drawn != counted and len({figures for _, figures in digests}) == 3


# Named runs.


def main(*words):
    return runner.main(["--tier", "demo", *words])


def test_a_named_run_has_parameters_folders_and_upstream_of_its_own(checkout, monkeypatch, capsys):
    for run in (MODEL, SECOND):
        execute(run, monkeypatch)
    assert main("02", "03", "--name", "big", "-p", "n=7", "--set", "rate=1e-3", "--parameters") == 0
    shown = capsys.readouterr().out
    assert (
        "03_second@big reads 02_model@big\n" in shown
        and "  n: int = 7 " in shown
        and "  rate: float = 0.001 " in shown
    )
    assert graph.upstream("03_second@big", "demo") == ["02_model@big"] and graph.upstream(
        SECOND, "demo"
    ) == [MODEL]
    for run in ("02_model@big", "03_second@big"):
        assert stale(run) == "never run here"
        execute(run, monkeypatch)
        assert stale(run) == ""
    read = {
        run: report.completed("demo", run).table("read.csv").weights[0]
        for run in (SECOND, "03_second@big")
    }
    assert read == {SECOND: 2, "03_second@big": 7}
    assert (paths.runs() / "demo" / "02_model@big" / "model" / "weights").read_text() == "7"
    assert main("03", "--name", "other", "--reads", "02@big", "--list") == 0
    assert "03_second@other" in capsys.readouterr().out
    assert graph.upstream("03_second@other", "demo") == ["02_model@big"]
    assert main("03", "--name", "big", "-p", "n=7", "--list") == 0
    assert graph.upstream("03_second@big", "demo") == ["02_model@big"], (
        "defined again alone: one name belongs together"
    )
    assert main("02", "--name", "big", "-p", "n=8", "--list") == 0
    shown = capsys.readouterr()
    assert "demo 02_model@big: changed since: parameter" in shown.out
    assert "02_model@big" in shown.err and "rate" in shown.err, "each command is whole"
    changes = graph.state("02_model@big", "demo").changes
    assert changes == ("parameter n (was 7, is 8)", "parameter rate (was 0.001, is 0.5)")


def test_a_named_run_is_alone_when_its_inputs_are_named(checkout, monkeypatch):
    paths.write(checkout / "mine" / "weights", "4")
    assert main("03", "--name", "alone", "-p", f"path={checkout}/mine", "--parameters") == 0
    assert graph.with_upstream(["03_second@alone"], "demo") == ["03_second@alone"]
    execute("03_second@alone", monkeypatch)
    paths.write(checkout / "mine" / "weights", "5")
    assert stale("03_second@alone") == "changed since: mine"


def test_a_file_in_params_defines_a_named_run(checkout, capsys):
    paths.write(checkout / "params/demo/03_second@filed.yaml", "n: 6\nreads: [02@big]\n")
    assert main("03@filed", "--parameters") == 2
    assert "write params/demo/02_model@big.yaml" in capsys.readouterr().err
    paths.write(checkout / "params/demo/03_second@text.yaml", "n: 6\nreads: 02@big\n")
    assert main("03@text", "--parameters") == 2
    assert "03_second@text.yaml: reads is a list" in capsys.readouterr().err
    (checkout / "params/demo/03_second@text.yaml").unlink()
    paths.write(checkout / "params/demo/02_model@big.yaml", "n: 9\n")
    assert main("03@filed", "--parameters") == 0 and "n: int = 6" in capsys.readouterr().out
    assert graph.named_runs("demo") == ["02_model@big", "03_second@filed"]
    assert main("03", "--name", "filed", "-p", "n=7", "--parameters") == 2
    assert "03_second@filed.yaml: " in capsys.readouterr().err
    assert main("02", "--name", "big", "-p", "n=9", "--parameters") == 0, "the same again"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["02", "-p", "n=3"],
            "02_model at tier demo has the tier's parameters: name a run of your own, --name mine",
        ),
        (["02", "--name", "a", "-p", "nn=3"], "-p: unknown parameter 'nn'; nearest valid name: n"),
        (["02", "--name", "a", "-p", "n=many"], "-p n=many: n is int (a number)"),
        (["02", "--name", "a", "-p", "n=10"], "n = 10 is outside 0 to 9"),
        (["02", "--name", "a", "-p", "n"], "-p n: write -p n=value"),
        (["02", "--name", "a", "-p", "path"], "-p path: write -p path=value"),
        (["02", "--name", "a", "-p", "many=x"], "many is list (some texts), got str 'x'"),
        (
            ["02", "--name", "a b", "-p", "n=3"],
            "02@a b: a run's name has letters, digits, '.', '_' and '-'",
        ),
        (["02", "--name", "by-hand", "-p", "n=3"], "not by-hand"),
        (
            ["02", "--name", "a-seed-2", "-p", "n=3"],
            "02_model@a-seed-2 is 02_model@a of a higher seed: choose another",
        ),
        (
            ["02", "--name", "seed-1", "-p", "n=3"],
            "02_model@seed-1 is 02_model of a higher seed: choose another name",
        ),
        (["02", "--name", "a"], "02_model@a is not defined at tier demo: add -p key=value"),
        (
            ["02", "--name", "a", "--reads", "03@b"],
            "--reads 03_second@b: none of 02_model@a needs it",
        ),
        (["03", "--name", "a", "--reads", "04@b"], "no notebook '04@b'"),
    ],
)
def test_what_a_named_run_may_not_be_is_refused_and_leaves_nothing(
    checkout, capsys, words, message
):
    assert main(*words, "--list") == 2
    assert message in capsys.readouterr().err
    assert graph.named_runs("demo") == []


@pytest.mark.slow
def test_a_named_run_whose_file_cannot_be_read_is_not_defined(checkout, capsys):
    """It was refused and still defined: the next run of that name read it, and failed of it."""
    assert main("02", "--name", "e", "-p", f"path={checkout}/none.jsonl") == 2
    assert "none.jsonl cannot be read" in capsys.readouterr().err
    assert graph.named_runs("demo") == [] and not (paths.runs() / "demo" / "02_model@e").exists()
    assert main("03", "--name", "e", "-p", "n=3", "--list") == 0
    assert graph.upstream("03_second@e", "demo") == [MODEL]


def test_a_refused_command_leaves_a_named_run_as_it_was(checkout, monkeypatch):
    """While another run holds the folder, what it runs must not be defined anew either."""
    assert main("02", "--name", "e", "-p", "n=3", "--list") == 0
    before = graph.definition("02_model@e", "demo")
    monkeypatch.setattr(processes, "PATIENCE_S", 0)
    monkeypatch.setenv(processes.OWNER, "the other")
    with processes.hold(paths.runs()):
        assert main("02", "--name", "e", "-p", "n=4") == 2
    assert graph.definition("02_model@e", "demo") == before


def test_a_run_by_hand_sees_no_gpu_in_the_small_world(checkout, monkeypatch):
    """On a machine with a GPU *Run All* gave other numbers than the command."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    cells(MODEL)
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "" and graph.unseen("laptop") == {}
    monkeypatch.setenv("HS2_DEVICE", "cuda")
    assert graph.unseen("demo") == {}


def test_a_run_by_hand_never_writes_the_report_of_the_checkout(checkout, monkeypatch):
    """`papermill -p tier demo` overwrote the committed report."""
    place = execute(MODEL, monkeypatch)
    before = {file.name: file.read_bytes() for file in place.iterdir()}
    run = cells(MODEL, n=5)
    assert (
        run.place == place.with_name("02_model@by-hand") and (run.place / "manifest.json").exists()
    )
    assert {file.name: file.read_bytes() for file in place.iterdir()} == before
    assert (paths.runs() / "demo" / MODEL / "model" / "weights").read_text() == "2", "nor its model"
    assert cells(SECOND).name == "03_second@by-hand"
    assert report.completed("demo", SECOND).table("read.csv").weights[0] == 5, (
        "the next by hand reads what it made"
    )
    assert stale(MODEL) == ""
    with pytest.raises(ParameterError, match="by-hand"):
        graph.matching(["02@by-hand"])


def test_named_runs_have_rows_of_their_own_in_the_site(checkout, monkeypatch, capsys):
    main("02", "--name", "big", "-p", "n=7", "--parameters")
    for run in (MODEL, "02_model@big"):
        execute(run, monkeypatch)
    cells(MODEL, n=5)
    states = lambda: {  # noqa: E731
        name: site.row("demo", name, paths.reports() / "demo" / name)["state"]
        for name in (MODEL, "02_model@big", "02_model@by-hand")
    }
    assert states() == {
        MODEL: "current",
        "02_model@big": "current",
        "02_model@by-hand": "run by hand",
    }
    assert "02_model" not in site.results(), (
        "it speaks of what is published, and nothing of this is"
    )
    shutil.copytree(paths.reports() / "demo", paths.published_reports() / "demo")
    text = site.results()
    assert "[02_model](published/demo/02_model/02_model.ipynb)" in text
    assert "02_model@big" not in text, "of tier demo's named runs no executed notebook is published"
    site.build()
    assert (paths.reports() / "site/demo/02_model@big/index.html").exists()
    (paths.reports() / "demo" / MODEL / "made.csv").unlink()
    assert states()[MODEL] == "stale: changed since: reports/demo/02_model/made.csv is missing"
    shutil.rmtree(paths.runs())  # a clone: nothing was run here
    assert states()[MODEL] == "stale: never run here"
    assert states()["02_model@big"].startswith("stale: "), (
        "what the command line defined is not here"
    )


def test_what_the_users_own_modules_beside_a_notebook_use_counts(checkout):
    """A notebook that imports `mine`, which imports a room of hs2lib, was current after a change of that room."""
    file = checkout / "notebooks" / f"{DATA}.ipynb"
    edited = nbformat.read(file, 4)
    edited.cells[1].source = (
        "%matplotlib inline\nimport mine\nimport pkg.sub\n" + edited.cells[1].source
    )
    nbformat.write(edited, file)
    before = graph.modules(DATA)
    paths.write(checkout / "notebooks/mine.py", "import hs2lib.evaluate.arena_hard\n")
    paths.write(checkout / "notebooks/pkg/sub.py", "a = 1\n")
    assert "hs2lib.evaluate.arena_hard" in graph.modules(DATA) - before
    files = graph.made_of(DATA, "demo", *graph.resolved(DATA, "demo")[1:])["files"]
    assert {
        "notebooks/mine.py",
        "notebooks/pkg/sub.py",
        "hs2lib/evaluate/arena_hard.py",
    } <= files.keys()
