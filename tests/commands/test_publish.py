"""What may be published, what must not, and that a published report changes in no other way."""

import json
import shutil
import subprocess
from dataclasses import asdict
from pathlib import Path

import pytest
from made_reports import digest_of

from hs2lib import paths
from hs2lib.commands import publish
from hs2lib.runs import graph, jobs, key

WHY = key.why
MODEL, SCORED = "05_reward_model_training", "06_rewardbench_evaluation"
FIRST = "01_dataset_statistics"


def git(folder, *words):
    who = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
    return subprocess.run(
        ["git", "-C", str(folder), *who, *words], check=True, capture_output=True, text=True
    ).stdout


@pytest.fixture(scope="module")
def committed(tmp_path_factory):
    """A checkout with the notebooks, their parameters and .gitignore, committed; copied for each test."""
    folder = tmp_path_factory.mktemp("checkout")
    for name in ("notebooks", "params"):
        shutil.copytree(paths.root() / name, folder / name, ignore=shutil.ignore_patterns(".*"))
    shutil.copy(paths.root() / ".gitignore", folder)
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "All")
    return folder


@pytest.fixture
def why(committed, tmp_path, monkeypatch):
    """A clone of it, in which every run is current but for those whose reasons this has, by run."""
    folder = tmp_path / "clone"
    shutil.copytree(committed, folder)
    monkeypatch.setenv("HS2_ROOT", str(folder))
    for name in ("HS2_REPORTS", "HS2_RUNS", "HS2_PUBLISHED", paths.RUN):
        monkeypatch.delenv(name, raising=False)
    reasons = {}
    monkeypatch.setattr(key, "why", lambda run, tier, known: reasons.get(run, ""))
    return reasons


@pytest.fixture
def checkout(why):
    """The clone, in which every run is current."""
    return paths.root()


def head():
    """The commit of the checkout, as a manifest has it."""
    return git(paths.root(), "rev-parse", "--short=12", "HEAD").strip()


def ran(run, number="1", **more):
    """Leave what a run at demo leaves, after those that it reads; more: what else its manifest says."""
    folder = paths.reports() / "demo" / run
    folder.mkdir(parents=True, exist_ok=True)
    files = {
        "t.csv": f"a\n{number}\n",
        "t.tex": f"tex {number}",
        "f.pdf": f"pdf {number}",
        "f.png": f"png {number}",
    }
    for name, text in files.items():
        (folder / name).write_text(text)
    (folder / f"{run}.ipynb").write_text("{}")
    _, values, recipe = graph.resolved(run, "demo")
    artefacts = {
        name: {"sha256": digest_of(text), "caption": "A caption."} for name, text in files.items()
    }
    computes = key.COMPUTE in key.jobs_of(run)
    left = {"left": number} if computes else {"tables": key.table_digests(artefacts)}
    jobs._write_results(run, "demo", {"numbers": {"a": 0.1}} | left)
    manifest = {
        "run": run,
        "tier": "demo",
        "commit": head(),
        "parameters": values,
        "recipe": asdict(recipe) if recipe else {},
        "upstream": key.upstream(run, "demo"),
        "results": key.results_of(run, "demo") if computes else "",
        "numbers": {"a": 0.1},
        "sources": [],
        "artefacts": artefacts,
        "finished": "on Monday",
    }
    (folder / "manifest.json").write_text(json.dumps(manifest | more))
    made = {"finished": more.get("finished", "on Monday")}
    paths.write(key.made_file(run, "demo", key.DRAW), json.dumps(made))


def published(run=MODEL):
    """Name -> (content, time of the last change) of the files that are published of a run."""
    files = (paths.published_reports() / "demo" / run).glob("*")
    return {file.name: (file.read_text(), file.stat().st_mtime_ns) for file in files}


def test_a_complete_run_is_published_and_of_a_named_one_its_tables(checkout, capsys):
    """Notebook, CSV tables and manifest, without figures' files; of a seed no notebook. Git tracks just these."""
    for run in (MODEL, f"{MODEL}@seed-1"):
        ran(run)
    assert publish.main(["05", "05@seed-1"]) == 0
    assert capsys.readouterr().out == f"demo {MODEL}: published\ndemo {MODEL}@seed-1: published\n"
    whole = {"t.csv", f"{MODEL}.ipynb", "manifest.json"}
    assert published().keys() == whole and published(f"{MODEL}@seed-1").keys() == {
        "t.csv",
        "manifest.json",
    }
    folder = checkout / "reports/published/demo"
    assert sorted(path.name for path in folder.iterdir()) == [MODEL, f"{MODEL}@seed-1"], (
        "and nothing half-made"
    )
    status = git(checkout, "status", "--porcelain", "--untracked-files=all")
    tracked = sorted(line.rpartition("reports/")[2].strip('"') for line in status.splitlines())
    assert tracked == sorted(
        [f"published/demo/{MODEL}/{name}" for name in whole]
        + [f"published/demo/{MODEL}@seed-1/{name}" for name in ("t.csv", "manifest.json")]
    ), "what is published is tracked, and of the user's own nothing"


def test_results_that_are_published_leave_every_file_as_it_is(checkout, capsys):
    """A second run of the same code has another time and perhaps another commit; nobody gains by a new manifest."""
    ran(MODEL)
    publish.main(["05"])
    before = published()
    ran(MODEL, finished="on Tuesday", commit="abc")
    assert publish.main(["05"]) == 0
    assert "published already" in capsys.readouterr().out and published() == before
    ran(MODEL, number="2", finished="on Wednesday")
    assert publish.main(["05"]) == 0
    assert published()["t.csv"][0] == "a\n2\n" and "Wednesday" in published()["manifest.json"][0]
    ran(MODEL, number="2", results="of another model", finished="on Thursday")
    assert publish.main(["05"]) == 0 and "Thursday" in published()["manifest.json"][0], (
        "its tables are the same, and readers read other weights"
    )
    ran(MODEL, number="2", results="of another model", finished="on Friday")
    words = {"cells": [{"cell_type": "markdown", "source": "Mended."}]}
    (paths.reports() / "demo" / MODEL / f"{MODEL}.ipynb").write_text(json.dumps(words))
    assert publish.main(["05"]) == 0 and "Friday" in published()["manifest.json"][0]
    assert "Mended" in published()[f"{MODEL}.ipynb"][0]


def test_the_results_of_a_notebook_that_only_draws_are_told_from_its_manifest(checkout):
    """Its results are written after its manifest, which cannot name them."""
    ran(SCORED)
    manifest = paths.read_json(graph.manifest(SCORED, "demo"))
    assert manifest["results"] == ""
    reader = {"parameters": {}}
    assert publish.results_in(manifest, reader) == key.results_of(SCORED, "demo")
    assert (
        publish.results_in({}, reader) == key.results_of("02_attribute_correlations", "demo") == ""
    )


@pytest.mark.parametrize(
    ("more", "fault"),
    [
        ({"commit": "abc+"}, "is of abc+, "),
        ({"commit": "unknown"}, "is of unknown, "),
        ({"commit": "0123456789ab"}, "is of 0123456789ab, "),  # of a branch that is gone, say
        ({"upstream": {FIRST: "ab12"}}, f"read other results of {FIRST}"),
    ],
)
def test_what_the_commit_does_not_give_is_refused(checkout, capsys, more, fault):
    """A published number that nobody can make again is worth nothing. Nothing is written, of the sound run neither."""
    ran(FIRST)
    ran(MODEL, **more)
    assert publish.main(["01", "05"]) == 2
    message = capsys.readouterr().err
    assert f"{MODEL} " in message and fault in message
    assert not paths.published_reports().exists()


def test_a_run_that_is_not_current_is_refused_and_all_faults_are_named_at_once(why, capsys):
    ran(FIRST, commit="abc+")
    ran(MODEL)
    (paths.reports() / "demo" / MODEL / "t.csv").write_text("a\n9\n")
    why[MODEL] = "changed: epochs"
    (paths.root() / ".gitignore").write_text("")
    assert publish.main(["01", "02", "05"]) == 2
    message = capsys.readouterr().err
    for fault in (
        ".gitignore is not as committed",
        "02_attribute_correlations has no complete report",
        f"{MODEL} was altered (t.csv)",
        f"{MODEL} is not current (changed: epochs)",
        f"{FIRST} is of abc+",
        "several commits",
    ):
        assert fault in message
    assert not paths.published_reports().exists()


def test_whether_a_run_is_current_is_what_hs2_list_says(checkout, monkeypatch, capsys):
    """By the key itself: a value of the tier's that changed since, and was committed."""
    monkeypatch.setattr(key, "why", WHY)
    ran(FIRST)
    content = key.of(FIRST, "demo", key.DRAW)
    made = {"key": content, "upstream": {}, "finished": "on Monday"}
    paths.write(key.made_file(FIRST, "demo", key.DRAW), json.dumps(made))
    assert publish.main(["01"]) == 2
    assert f"{FIRST} is not current (never run here)" in capsys.readouterr().err
    paths.write(key.result(FIRST, "demo", key.DRAW), "{}")
    assert publish.main(["01"]) == 0
    ran(FIRST, number="2")
    paths.write(key.made_file(FIRST, "demo", key.DRAW), json.dumps(made))
    (checkout / f"params/demo/{FIRST}.yaml").write_text("n_prompts: 10681\nseed: 7\n")
    git(checkout, "add", "params")
    git(checkout, "commit", "-q", "-m", "Another seed")
    capsys.readouterr()
    assert publish.main(["01"]) == 2
    assert f"{FIRST} is not current (changed: seed " in capsys.readouterr().err


def test_runs_of_several_commits_are_not_published_together(checkout, capsys):
    """One set of reports is of one commit. It may lie before HEAD, where nothing that counts has changed since."""
    ran(MODEL)
    git(checkout, "commit", "-q", "--allow-empty", "-m", "Docs")
    ran(FIRST)
    assert publish.main(["01", "05"]) == 2
    assert "several commits" in capsys.readouterr().err
    assert publish.main(["05"]) == 0 and publish.main(["01"]) == 0
    ran(FIRST, number="2")
    assert publish.main(["01", "05"]) == 0, "05 is published already"


def test_a_report_that_was_changed_or_is_not_complete_is_refused(checkout, capsys):
    ran(MODEL)
    folder = paths.reports() / "demo" / MODEL
    (folder / "t.csv").write_text("a\n9\n")
    (folder / "f.png").unlink()
    assert publish.main(["05"]) == 2
    assert f"{MODEL} was altered (t.csv, f.png)" in capsys.readouterr().err
    (folder / "manifest.json").unlink()
    assert publish.main(["05"]) == 2
    assert f"{MODEL} has no complete report in {folder.parent}" in capsys.readouterr().err
    assert not paths.published_reports().exists()


@pytest.mark.parametrize(
    ("name", "dirty"),
    [
        (f"notebooks/{MODEL}.ipynb", True),
        ("params/demo/05_reward_model_training@new.yaml", True),
        (".gitignore", True),
        ("reports/published/demo/01_first/t.csv", False),  # published, and not yet added
        ("notes.txt", False),
    ],
)
def test_a_checkout_that_is_not_as_committed_is_refused(checkout, capsys, name, dirty):
    """The commit would not be what was run. A file of the user's that no run reads is no fault."""
    ran(MODEL)
    path = checkout / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text((path.read_text() if path.exists() else "") + "\n")
    assert publish.main(["05"]) == (2 if dirty else 0)
    assert (f"{name} is not as committed" in capsys.readouterr().err) == dirty


def test_what_a_run_read_is_published_with_it_or_before(checkout, capsys):
    """06 scores the model of 05: with the numbers of another 05 beside them its own have no source."""
    ran(MODEL)
    ran(SCORED)
    assert publish.main(["06"]) == 2
    assert f"{SCORED} read other results of {MODEL}" in capsys.readouterr().err
    assert publish.main(["05", "06"]) == 0
    ran(MODEL, number="2")
    ran(SCORED, number="2")
    assert publish.main(["06"]) == 2
    ran(MODEL)  # as it is published
    ran(SCORED, number="3")
    assert publish.main(["06"]) == 0 and published(SCORED)["t.csv"][0] == "a\n3\n"


def test_a_published_run_is_not_left_behind_by_what_it_read(checkout, capsys):
    """With another 05 published alone, the published 06 would score a model that no published report is of."""
    for run in (MODEL, SCORED):
        ran(run)
    assert publish.main(["05", "06"]) == 0
    before = published()
    ran(MODEL, number="2")
    fault = f"{SCORED} read other results of {MODEL}"
    assert publish.main(["05"]) == 2 and fault in capsys.readouterr().err
    assert publish.main(["05", "06"]) == 2 and fault in capsys.readouterr().err, (
        "06 did not run again"
    )
    assert published() == before
    ran(SCORED, number="2")
    assert publish.main(["05", "06"]) == 0
    ran(MODEL, number="3")
    ran(SCORED, number="2")
    assert publish.main(["05", "06"]) == 0, "06 read the new 05, and its tables are the same"
    upstream = json.loads(published(SCORED)["manifest.json"][0])["upstream"]
    assert upstream == {MODEL: json.loads(published()["manifest.json"][0])["results"]}


def test_a_report_of_before_names_no_results_and_is_published_anew_with_its_readers(
    checkout, capsys
):
    ran(MODEL)
    folder = paths.published_reports() / "demo" / MODEL
    shutil.copytree(paths.reports() / "demo" / MODEL, folder)
    manifest = json.loads((folder / "manifest.json").read_text())
    older = {name: manifest[name] for name in manifest if name != "results"}
    (folder / "manifest.json").write_text(json.dumps(older))
    git(checkout, "add", "reports")
    git(checkout, "commit", "-q", "-m", "Published")
    ran(MODEL)
    ran(SCORED)
    assert publish.main(["06"]) == 2
    assert f"{SCORED} read other results of {MODEL}: publish both" in capsys.readouterr().err
    assert publish.main(["05", "06"]) == 0
    assert json.loads(published()["manifest.json"][0])["results"]


def test_notebook_14_reads_tables(checkout, capsys):
    """Its digests are of the tables that it shows: weights of another model with the same numbers are none of it."""
    fourteen = "14_paper_tables_and_figures"
    ran(MODEL)
    read = {MODEL: key.tables(graph.manifest(MODEL, "demo"))}
    ran(fourteen, upstream=read)
    assert publish.main(["05", "14"]) == 0
    ran(MODEL, results="of another model")
    assert publish.main(["05"]) == 0
    capsys.readouterr()
    ran(MODEL, number="2")
    assert publish.main(["05"]) == 2
    assert f"{fourteen} read other results of {MODEL}" in capsys.readouterr().err


@pytest.mark.parametrize("fails", ["copy", "rename"])
def test_several_runs_are_published_all_or_none(checkout, monkeypatch, capsys, fails):
    """A disk that is full at the second run would leave the first one published beside readers of another one."""
    ran(MODEL)
    publish.main(["05"])
    before = published()
    for run in (FIRST, MODEL, SCORED):
        ran(run, number="2")
    copyfile, rename, failed = publish.shutil.copyfile, Path.rename, []

    def copy(source, target, **more):
        if Path(source).parent.name == SCORED:
            raise OSError("No space left on device")
        copyfile(source, target, **more)

    def rename_all_but_one(source, target):
        if source.name.startswith(".demo.") and target.name == "demo" and failed == []:
            failed.append(source)
            raise OSError("No space left on device")
        return rename(source, target)

    if fails == "copy":
        monkeypatch.setattr(publish.shutil, "copyfile", copy)
    else:
        monkeypatch.setattr(Path, "rename", rename_all_but_one)
    assert publish.main(["01", "05", "06"]) == 2 and "No space" in capsys.readouterr().err
    assert published() == before and [
        path.name for path in paths.published_reports().rglob("*") if path.is_dir()
    ] == ["demo", MODEL]


def test_all_is_every_complete_run_and_none_made_by_hand(checkout, capsys):
    ran(MODEL)
    shutil.copytree(paths.reports() / "demo" / MODEL, paths.reports() / "demo" / f"{MODEL}@by-hand")
    assert publish.main(["all"]) == 0
    assert capsys.readouterr().out == f"demo {MODEL}: published\n"
    assert publish.main(["05@by-hand"]) == 2
    with pytest.raises(SystemExit):
        publish.main(["05", "--tier", "smoke"])
