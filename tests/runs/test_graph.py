"""Which runs there are and what they need, runs by hand beside them, and that no path of a machine is published."""

import importlib
import json
import os
import shutil
import sys
from types import SimpleNamespace

import pytest
import three_notebooks
import toy_suite
from three_notebooks import DATA, MODEL, SECOND, cells, execute

from hs2lib import paths
from hs2lib.data.load import SETS, files, find
from hs2lib.paths import root
from hs2lib.report import report
from hs2lib.runs import graph, key
from hs2lib.runs.parameters import ParameterError

sys.path.insert(0, str(root() / "reports"))
site = importlib.import_module("make_site")
sys.path.pop(0)

checkout = three_notebooks.checkout  # a fixture


def ratings(place, n=1):
    paths.write(place, json.dumps({"text": "a", "n": n}) + "\n")


# What needs what.


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
    assert needs["09_iterative_dpo"] == {"05", "07", "08", "09"}
    assert needs["12_steerlm2"] == {"05", "07", "11", "12"}
    assert needs["13_aligned_model_evaluation"] >= {"08", "09", "10", "11", "12"}


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """Writes a notebook of a toy suite, with what it needs and makes."""
    toy_suite.make(tmp_path)
    monkeypatch.setenv("HS2_ROOT", str(tmp_path))
    monkeypatch.delenv("HS2_RUNS", raising=False)
    return lambda name, *needs, **makes: toy_suite.write(tmp_path, name, needs=needs, makes=makes)


def test_a_tiers_file_names_what_its_runs_read(toy):
    toy("01_first")
    toy("02_second", "01_first")
    params = root() / "params" / "demo"
    params.mkdir(parents=True, exist_ok=True)
    (params / "01_first@short.yaml").write_text("{}\n")
    (params / "01_first@long.yaml").write_text("{}\n")
    (params / "02_second.yaml").write_text("reads: [01@short]\n")
    (params / "02_second@mine.yaml").write_text("{}\n")
    (params / "02_second@other.yaml").write_text("reads: [01@long]\n")
    assert graph.upstream("02_second", "demo") == ["01_first@short"]
    assert graph.upstream("02_second@mine", "demo") == ["01_first@short"]
    assert graph.upstream("02_second@other", "demo") == ["01_first@long"]
    assert graph.upstream("02_second@seed-1", "demo") == ["01_first@short-seed-1"]
    assert graph.upstream("02_second", "laptop") == ["01_first"]
    by_hand = json.loads(graph.by_hand("02_second", "demo")[paths.RUN])
    assert by_hand["01_first"] == "01_first@short"


def test_a_further_maker_comes_before_what_needs_its_kind(toy):
    """A fifteenth method: the evaluation depends on it and comes after it, with no line changed there."""
    toy("01_first")
    toy("07_sft", policy="SFT")
    toy("13_evaluation", "policy")
    toy("15_mine", "07_sft", policy="Mine")
    assert graph.makers("policy") == {"07_sft": "SFT", "15_mine": "Mine"}
    assert graph.upstream("13_evaluation", "demo") == ["07_sft", "15_mine"]
    assert graph.with_upstream(["13_evaluation"]) == ["07_sft", "15_mine", "13_evaluation"]
    everything = ["01_first", "02_second", "07_sft", "15_mine", "13_evaluation"]
    assert graph.with_upstream(graph.notebooks()) == everything
    assert "15_mine" in key.upstream("13_evaluation", "demo")


def test_a_need_that_nothing_meets_is_named(toy):
    toy("02_second", "reward_model")
    with pytest.raises(ParameterError, match="02_second needs 'reward_model'"):
        graph.with_upstream(graph.notebooks())


def test_needs_that_go_in_a_circle_are_named(toy):
    toy("01_first", "02_second", policy="First")
    toy("02_second", "policy")
    with pytest.raises(ParameterError, match=r"in a circle: 0._\w+ <- 0._\w+ <- 0._"):
        graph.with_upstream(graph.notebooks())


# Places and what is published of them.


def test_a_folder_called_snapshots_is_not_the_hubs_cache(checkout):
    """What lay in one was taken for a file at a commit, which cannot change: new ratings counted as current."""
    place = checkout / "snapshots/2024/my.jsonl"
    ratings(place)
    assert paths.place(place) == "snapshots/2024/my.jsonl"
    cached = "/c/hub/datasets--nvidia--HelpSteer2/snapshots/abc/disagreements/d.jsonl.gz"
    assert paths.place(cached) == "hub:nvidia/HelpSteer2@abc/disagreements/d.jsonl.gz"


def test_a_file_that_comes_to_stand_before_another_makes_what_read_that_run_again(checkout):
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


def test_what_is_published_has_no_folder_of_this_machine_and_every_address_whole(
    checkout, monkeypatch
):
    """With a short data folder such as /data, https://a.org/data/x became https://a.org$HS2_DATA_DIR/x."""
    monkeypatch.setenv("HS2_DATA_DIR", "/srv/data")
    text = r"see https://a.org/srv/data/x, \n/srv/data/y, file:///srv/data/z and =/srv/data/w"
    hidden = r"see https://a.org/srv/data/x, \n$HS2_DATA_DIR/y, file://$HS2_DATA_DIR/z and =$HS2_DATA_DIR/w"
    assert paths.public(text) == hidden


def test_no_path_of_this_machine_is_published(checkout, tmp_path):
    """Manifest, captions, tables and executed notebook name the file, not where its owner keeps it."""
    mine = tmp_path / "home of somebody" / "my.jsonl"
    ratings(mine)
    paths.write(checkout / "params/demo/01_data.yaml", f"path: {mine}\n")
    place = execute(DATA)
    assert json.loads((place / "manifest.json").read_text())["parameters"]["path"] == "my.jsonl"
    assert "elsewhere:my.jsonl" in (place / "manifest.json").read_text()
    site.build()
    texts = {file: file.read_bytes() for file in paths.reports().rglob("*") if file.is_file()}
    private = (b"somebody", str(tmp_path).encode())
    assert [file for file, text in texts.items() if any(part in text for part in private)] == []


def test_a_commit_of_the_hub_is_in_the_manifest(checkout):
    cached = checkout / "hub" / "datasets--owner--set" / "snapshots" / "4567" / "train.jsonl"
    ratings(cached)
    run = cells(MODEL)
    assert paths.place(cached) == "hub:owner/set@4567/train.jsonl"
    assert paths.located(paths.place(cached)) is None
    run.reads(SimpleNamespace(read={"hub:owner/name@0123": "0123"}), cached)
    run.finish()
    read = json.loads((run.place / "manifest.json").read_text())["read"]
    assert list(read) == ["hub:owner/name@0123", "hub:owner/set@4567/train.jsonl"]


# Named runs, and runs by hand.


def test_a_named_run_has_a_model_and_a_report_of_its_own(checkout):
    graph.define(f"{MODEL}@big", "demo", {"n": 7}, [])
    graph.define(f"{SECOND}@big", "demo", {}, [f"{MODEL}@big"])
    for run in (MODEL, SECOND, f"{MODEL}@big", f"{SECOND}@big"):
        assert key.why(run, "demo") == "never run here"
        execute(run)
        assert key.why(run, "demo") == ""
    read = {
        run: report.completed("demo", run).table("read.csv").weights[0]
        for run in (SECOND, f"{SECOND}@big")
    }
    assert read == {SECOND: 2, f"{SECOND}@big": 7}
    weights = paths.runs() / "demo" / "02_model@big" / "model" / "weights"
    assert weights.read_text() == "7"


def test_a_run_by_hand_sees_no_gpu_in_the_small_world(checkout, monkeypatch):
    """On a machine with a GPU *Run All* gave other numbers than the command."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    cells(MODEL)
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "" and graph.unseen("laptop") == {}
    monkeypatch.setenv("HS2_DEVICE", "cuda")
    assert graph.unseen("demo") == {}


def test_a_run_by_hand_never_writes_the_report_of_the_checkout(checkout):
    """`papermill -p tier demo` overwrote the committed report."""
    place = execute(MODEL)
    before = {file.name: file.read_bytes() for file in place.iterdir()}
    run = cells(MODEL, n=5)
    assert run.place == place.with_name("02_model@by-hand")
    assert (run.place / "manifest.json").exists()
    assert {file.name: file.read_bytes() for file in place.iterdir()} == before
    weights = paths.runs() / "demo" / MODEL / "model" / "weights"
    assert weights.read_text() == "2", "nor its model"
    assert key.why(MODEL, "demo") == ""


def test_the_next_run_by_hand_reads_what_one_by_hand_made(checkout):
    execute(MODEL)
    cells(MODEL, n=5)
    assert cells(SECOND).name == "03_second@by-hand"
    assert report.completed("demo", SECOND).table("read.csv").weights[0] == 5


def test_nobody_calls_a_named_run_by_hand(checkout):
    with pytest.raises(ParameterError, match="by-hand"):
        graph.matching(["02@by-hand"])


def states(*runs):
    """What the index of the site says of some runs."""
    return [site.row("demo", run, paths.reports() / "demo" / run)["state"] for run in runs]


def test_named_runs_have_rows_of_their_own_in_the_site(checkout):
    named = "02_model@big"
    graph.define(named, "demo", {"n": 7}, [])
    for run in (MODEL, named):
        execute(run)
    cells(MODEL, n=5)
    assert states(MODEL, named) == ["current", "current"]
    assert states("02_model@by-hand") == ["run by hand"]
    site.build()
    assert (paths.reports() / "site/demo/02_model@big/index.html").exists()
    (paths.reports() / "demo" / MODEL / "manifest.json").unlink()
    assert states(MODEL) == ["incomplete: no manifest"]
    shutil.rmtree(paths.runs())  # a clone: nothing was run here
    assert states(named) == ["never run here"]


def test_of_named_runs_no_executed_notebook_is_published(checkout):
    named = "02_model@big"
    graph.define(named, "demo", {"n": 7}, [])
    for run in (MODEL, named):
        execute(run)
    assert "02_model" not in site.results(), (
        "it speaks of what is published, and nothing of this is"
    )
    shutil.copytree(paths.reports() / "demo", paths.published_reports() / "demo")
    text = site.results()
    assert "[02_model](published/demo/02_model/02_model.ipynb)" in text
    assert named not in text
