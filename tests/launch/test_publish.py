"""What may be published, what must not, and that a published report changes in no other way."""

import json
import shutil
import subprocess
from dataclasses import asdict

import pytest
from made_reports import digest_of

from hs2lib import paths
from hs2lib.launch import publish
from hs2lib.run import graph

TODAY = dict.fromkeys(("computes", "notebook", "world", "draws"), "today")
MODEL, SCORED = "05_reward_model_training", "06_rewardbench_evaluation"


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
def checkout(committed, tmp_path, monkeypatch):
    """A clone of it, in which today's code is called "today"."""
    folder = tmp_path / "clone"
    shutil.copytree(committed, folder)
    monkeypatch.setenv("HS2_ROOT", str(folder))
    for name in ("HS2_REPORTS", "HS2_RUNS", "HS2_PUBLISHED", paths.RUN):
        monkeypatch.delenv(name, raising=False)

    def made_of(run, tier, values, recipe):
        settings = {"parameters": values, "recipe": asdict(recipe) if recipe else {}}
        return json.loads(json.dumps(settings)) | {"code": TODAY}

    monkeypatch.setattr(graph, "made_of", made_of)
    return folder


def ran(run, number="1", **more):
    """Leave the report that a run at demo leaves, after those that it reads; more: what else its manifest says."""
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
    made = graph.made_of(run, "demo", values, recipe)
    read = {
        name: graph.results(graph.outputs(name, "demo")["manifest"])
        for name in graph.upstream(run, "demo")
    }
    artefacts = {
        name: {"sha256": digest_of(text), "caption": "A caption."} for name, text in files.items()
    }
    manifest = {
        "run": run,
        "tier": "demo",
        "commit": "abc",
        **made,
        "upstream": read,
        "reused": [],
        "sources": [],
    }
    text = json.dumps(manifest | {"artefacts": artefacts} | more)
    (folder / "manifest.json").write_text(text)


def published(run=MODEL):
    """Name -> (content, time of the last change) of the files that are published of a run."""
    files = (paths.published_reports() / "demo" / run).glob("*")
    return {file.name: (file.read_text(), file.stat().st_mtime_ns) for file in files}


def test_a_complete_run_is_published_and_of_a_named_one_its_tables(checkout, capsys):
    """Its own run with all files; of a seed the CSV tables and the manifest, which are what git tracks."""
    for run in (MODEL, f"{MODEL}@seed-1"):
        ran(run)
    assert publish.main(["05", "05@seed-1"]) == 0
    assert capsys.readouterr().out == f"demo {MODEL}: published\ndemo {MODEL}@seed-1: published\n"
    whole = {"t.csv", "t.tex", "f.pdf", "f.png", f"{MODEL}.ipynb", "manifest.json"}
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


def test_equal_results_leave_every_file_as_it_is(checkout, capsys):
    """A second run of the same code has another time and perhaps another commit; nobody gains by a new manifest."""
    ran(MODEL, finished="on Monday")
    publish.main(["05"])
    before = published()
    ran(MODEL, finished="on Tuesday", commit="def")
    assert publish.main(["05"]) == 0
    assert "published already" in capsys.readouterr().out and published() == before
    ran(MODEL, code={"an older": "manifest"})
    assert publish.main(["05"]) == 0 and published() == before, (
        "it says of no code, but is what is published"
    )
    ran(MODEL, number="2", finished="on Wednesday")
    assert publish.main(["05"]) == 0
    assert published()["t.csv"][0] == "a\n2\n" and "Wednesday" in published()["manifest.json"][0]


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"commit": "abc+"}, "made at commit abc+"),
        ({"commit": "unknown"}, "made at commit unknown"),
        ({"code": TODAY | {"computes": "yesterday"}}, "computed by other code than today's"),
        ({"code": TODAY | {"notebook": "yesterday"}}, "computed by other code than today's"),
        (
            {"code": TODAY | {"world": "yesterday"}, "generated": True},
            "computed by other code than today's",
        ),
        ({"code": {"hs2lib/paths.py": "ab12"}}, "does not say what code computed it"),
        (
            {"reused": [{"what": "runs/demo/05/training", "code": "yesterday"}]},
            "other code had made (runs/",
        ),
        ({"recipe": {"epochs": 99.0}}, "has other parameters than today's"),
        (
            {"upstream": {"01_dataset_statistics": "ab12"}},
            "read other results of 01_dataset_statistics",
        ),
    ],
)
def test_what_todays_commit_does_not_give_is_refused(checkout, capsys, more, why):
    """A published number that nobody can make again is worth nothing. Nothing is written, of the sound run neither."""
    ran("01_dataset_statistics")
    ran(MODEL, **more)
    assert publish.main(["01", "05"]) == 2
    message = capsys.readouterr().err
    assert f"{MODEL} " in message and why in message and message.count("\n") == 2, message
    assert not paths.published_reports().exists()


def test_code_that_only_draws_and_a_world_that_was_not_used_are_no_fault(checkout):
    """A style sheet touches no number, nor does the small world those of real rows."""
    ran(MODEL, code=TODAY | {"draws": "yesterday", "world": "yesterday"}, generated=False)
    assert publish.main(["05"]) == 0


def test_a_report_that_was_changed_or_is_not_complete_is_refused(checkout, capsys):
    ran(MODEL)
    folder = paths.reports() / "demo" / MODEL
    (folder / "t.csv").write_text("a\n9\n")
    (folder / f"{MODEL}.ipynb").unlink()
    assert publish.main(["05"]) == 2
    assert f"{MODEL} is not as its run left it (t.csv, {MODEL}.ipynb)" in capsys.readouterr().err
    (folder / "manifest.json").unlink()
    assert publish.main(["05"]) == 2
    assert f"no complete report in {paths.reports() / 'demo'} of {MODEL}" in capsys.readouterr().err
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
    assert (f"not as committed ({name})" in capsys.readouterr().err) == dirty


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
    why = f"{SCORED}, which is published, read other results of {MODEL}: publish {SCORED} with it"
    assert publish.main(["05"]) == 2 and why in capsys.readouterr().err
    assert publish.main(["05", "06"]) == 2 and why in capsys.readouterr().err, (
        "06 did not run again"
    )
    assert published() == before
    ran(SCORED, number="2")
    assert publish.main(["05", "06"]) == 0
    ran(MODEL, number="3")
    ran(SCORED, number="2")
    assert publish.main(["05", "06"]) == 0, "06 read the new 05, and its results are the same"


def test_seeds_of_other_settings_are_refused_also_upstream(checkout, capsys):
    """Their mean is one of different things. 06 and 06@seed-1 are alike, and score models that are not."""
    for run in (MODEL, f"{MODEL}@seed-1", SCORED, f"{SCORED}@seed-1"):
        ran(run)
    file = paths.reports() / "demo" / f"{MODEL}@seed-1" / "manifest.json"
    right = file.read_text()
    for part, value, why in (
        ("recipe", {"learning_rate": 99.0}, "differ by more than the seed (learning_rate)"),
        ("code", {"computes": "yesterday"}, "were computed by different code"),
    ):
        manifest = json.loads(right)
        manifest[part] |= value
        planned = publish.plan("demo", [SCORED, f"{SCORED}@seed-1"])
        beside = {MODEL: json.loads(right) | {"upstream": {}}, f"{MODEL}@seed-1": manifest}
        planned = publish.Plan("demo", planned.own, beside)
        assert [why in sentence for sentence in publish.seeds_otherwise(planned)] == [True]
    file.write_text(right)
    assert publish.main(["05", "05@seed-1", "06", "06@seed-1"]) == 0
    capsys.readouterr()
    ran(f"{SCORED}@seed-1", number="2", upstream={})
    assert publish.main(["06@seed-1"]) == 2
    assert f"{SCORED} and {SCORED}@seed-1 read different runs" in capsys.readouterr().err


def test_notebook_14_must_have_read_all_that_is_published(checkout, capsys):
    """Its tables are over every published run: one that it did not see would be missing in them without a word."""
    for run in (MODEL, f"{MODEL}@seed-1", "00_small_world"):
        ran(run)
    publish.main(["05", "05@seed-1", "00"])
    fourteen = "14_paper_tables_and_figures"
    ran(
        fourteen,
        upstream={MODEL: graph.results(paths.reports() / "demo" / MODEL / "manifest.json")},
    )
    capsys.readouterr()
    assert publish.main(["14"]) == 2
    error = capsys.readouterr().err
    assert f"{fourteen} did not read {MODEL}@seed-1" in error
    assert (
        "00_small_world" not in error
    )  # it reports on nothing of the paper, and 14 has no part of it


def test_an_earlier_report_stays_whole_where_the_new_one_cannot_be_written(
    checkout, monkeypatch, capsys
):
    ran(MODEL)
    publish.main(["05"])
    before = published()
    ran(MODEL, number="2")

    def full(source, target):
        if target.name == "manifest.json":
            raise OSError("No space left on device")
        target.write_text("half")

    monkeypatch.setattr(publish.shutil, "copyfile", full)
    assert publish.main(["05"]) == 2 and "No space" in capsys.readouterr().err
    assert published() == before and [
        path.name for path in paths.published_reports().glob("demo/*")
    ] == [MODEL]


@pytest.mark.parametrize("fails", ["copy", "rename"])
def test_several_runs_are_published_all_or_none(checkout, monkeypatch, capsys, fails):
    """A disk that is full at the second run would leave the first one published beside readers of another one."""
    first = "01_dataset_statistics"
    ran(MODEL)
    publish.main(["05"])
    before = published()
    for run in (first, MODEL, SCORED):
        ran(run, number="2")
    copyfile, rename = publish.shutil.copyfile, publish.Path.rename

    def copy(source, target):
        if source.parent.name == SCORED:
            raise OSError("No space left on device")
        copyfile(source, target)

    def rename_all_but_one(source, target):
        if target.name == SCORED:
            raise OSError("No space left on device")
        return rename(source, target)

    if fails == "copy":
        monkeypatch.setattr(publish.shutil, "copyfile", copy)
    else:
        monkeypatch.setattr(publish.Path, "rename", rename_all_but_one)
    assert publish.main(["01", "05", "06"]) == 2 and "No space" in capsys.readouterr().err
    assert published() == before and [
        path.name for path in paths.published_reports().glob("demo/*")
    ] == [MODEL]


def test_all_is_every_complete_run_and_none_made_by_hand(checkout, capsys):
    ran(MODEL)
    shutil.copytree(paths.reports() / "demo" / MODEL, paths.reports() / "demo" / f"{MODEL}@by-hand")
    assert publish.main(["all"]) == 0
    assert capsys.readouterr().out == f"demo {MODEL}: published\n"
    assert publish.main(["05@by-hand"]) == 2
    with pytest.raises(SystemExit):
        publish.main(["05", "--tier", "smoke"])
