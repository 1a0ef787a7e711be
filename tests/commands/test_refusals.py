"""What could not end is refused before anything runs."""

import subprocess

import pytest
from made_rows import rated, write

from hs2lib.commands import hs2, refusals, watch
from hs2lib.data import check
from hs2lib.runs import graph
from hs2lib.runs.parameters import ParameterError


@pytest.fixture
def folders(tmp_path, monkeypatch):
    """Runs and reports of the test's own; no command runs anything."""
    monkeypatch.setenv("HS2_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("HS2_REPORTS", str(tmp_path / "reports"))
    monkeypatch.setattr(watch, "snakemake", lambda *arguments: 0)
    return tmp_path


# Data sets in a folder.


@pytest.mark.parametrize(
    ("folder", "what"), [("", "is not set"), ("/nowhere", "names /nowhere, which is no folder")]
)
@pytest.mark.parametrize(
    ("words", "run"),
    [
        (["01"], "01_dataset_statistics"),
        (["05", "--stage", "train"], "05_reward_model_training"),
    ],
)
def test_data_from_a_folder_that_is_none_stop_the_run_before_anything_starts(
    folders, folder, what, words, run, monkeypatch, capsys
):
    """Notebooks started for a minute, and failed with an error that named neither parameter file nor command."""
    monkeypatch.setattr(watch, "snakemake", lambda *arguments: pytest.fail("started"))
    monkeypatch.setenv("HS2_DATA_DIR", folder)
    assert hs2.main(["run", "--tier", "laptop", *words]) == 2
    said = capsys.readouterr().err
    assert f"{run} reads data sets from a folder at tier laptop, and HS2_DATA_DIR {what}" in said
    assert "Say HS2_DATA_DIR=/folder/of/your/data/sets hs2 run --tier laptop;" in said


@pytest.fixture
def values(monkeypatch):
    """The values that every run has."""
    own = {}
    monkeypatch.setattr(graph, "resolved", lambda name, tier: ({}, own, None))
    return own


def test_a_file_of_your_own_needs_no_data_folder_but_questions_from_one_do(values, monkeypatch):
    monkeypatch.delenv("HS2_DATA_DIR", raising=False)
    values |= {"source": "folder", "path": "own.jsonl", "eval_source": "postcards"}
    refusals.check_folder(["05"], "laptop")
    values["eval_source"] = "folder"
    with pytest.raises(ParameterError, match="HS2_DATA_DIR is not set"):
        refusals.check_folder(["05"], "laptop")


# Files of one's own.


@pytest.fixture
def doctor(monkeypatch):
    """The doctor in this process, without the seconds that one of its own takes; its commands."""
    asked = []

    def run(command, stdout, cwd):
        assert cwd.name == "notebooks", "where a kernel looks for a relative path"
        asked.append(command)
        return subprocess.CompletedProcess(command, check.main(command[3:]))

    monkeypatch.setattr(subprocess, "run", run)
    return asked


@pytest.mark.slow
def test_a_file_with_faults_stops_the_run_before_anything_starts(tmp_path, values, capfd):
    """A bad row of your own is known before an hour of notebooks, with every other one."""
    file = tmp_path / "own.jsonl"
    write(file, [rated(), rated(response="", helpfulness=9), rated(coherence=5)])
    values |= {"path": str(file), "dataset": "ratings", "strict": True, "scale": "0-4"}
    message = r"own.jsonl cannot be read as it is \(above\), and nothing was run: 01"
    with pytest.raises(ParameterError, match=message):
        refusals.check_files(["01", "02"], "demo")
    printed = capfd.readouterr().err
    assert printed.count("read as ratings") == 1 and "3 faults in 2 rows" in printed


def test_a_file_is_read_once_for_all_that_read_it_alike(tmp_path, values, doctor):
    file = tmp_path / "own.jsonl"
    write(file, [rated(), rated(response="s")])
    values |= {"path": str(file), "dataset": "ratings"}
    refusals.check_files(["01", "02"], "demo")
    assert len(doctor) == 1


def test_rows_with_faults_are_left_out_by_who_is_not_strict(tmp_path, values, doctor):
    file = tmp_path / "own.jsonl"
    write(file, [rated(), rated(coherence=None, response="")])
    values |= {"path": str(file), "dataset": "ratings", "strict": False}
    refusals.check_files(["01"], "demo")
    file.write_text("")
    with pytest.raises(ParameterError):
        refusals.check_files(["01"], "demo")


def test_a_notebook_that_reads_two_sets_is_given_ratings(tmp_path, values, doctor):
    file = tmp_path / "own.jsonl"
    write(file, [rated(), rated(response="s")])
    values |= {"path": str(file), "dataset": "helpsteer2-disagreements", "also": "ratings"}
    refusals.check_files(["03"], "demo")
    assert doctor[0][4:6] == ["--as", "ratings"]


def test_ratings_from_minus_1_to_1_are_handed_to_the_doctor(tmp_path, values, doctor):
    """Their scale, -1-1, was taken for an option, and the file could not be read as it is."""
    file = tmp_path / "own.csv"
    file.write_text("prompt,response,clarity\np,r,-1\np,s,1\n")
    values |= {"path": str(file), "dataset": "ratings", "scale": "-1-1", "attributes": ("clarity",)}
    refusals.check_files(["05"], "smoke")


# Runs that do not fit together.


def run(*words):
    return hs2.main(["run", "--tier", "smoke", *words])


def test_a_weighting_that_the_reward_model_has_not_is_refused_at_once(folders, capsys):
    """The notebook stopped after 90 seconds, and what its error proposed was no parameter of it."""
    of_pairs = ["-p", "objective=bradley-terry", "-p", "recipe.compare=helpfulness"]
    assert run("05", "06", "--name", "bt", *of_pairs) == 0
    assert run("10", "--name", "bt", "--reads", "05@bt") == 2
    error = capsys.readouterr().err
    assert "that reward model has reward: add -p recipe.weighting=reward:1" in error
    assert not (folders / "runs/smoke/10_ppo@bt").exists()
