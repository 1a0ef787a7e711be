"""Stages: the heavy part of a notebook runs as a job of its own, before it, and waits for no more than it reads."""

import os
import re
import subprocess
import sys

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from hs2lib.paths import root, runs
from hs2lib.run import graph, processes, runner, stages
from hs2lib.run.parameters import ParameterError

CHECKOUT = root()


@pytest.mark.parametrize(
    ("run", "stage", "last"),
    [
        ("05_reward_model_training", "train", "fit"),
        ("12_steerlm2", "train", "iterate"),
        ("11_steerlm", "label", "label"),
        ("09_iterative_dpo", "sample", "sample"),
        ("13_aligned_model_evaluation", "sample", "respond"),
        ("06_rewardbench_evaluation", "score", "weights-table"),
        ("05_reward_model_training", "evaluate", "evaluate"),
        ("08_dpo", "export", "save"),
    ],
)
def test_a_stage_is_the_notebooks_own_cells_up_to_its_end(run, stage, last):
    names = [name for name, _ in stages.cells(run, stage)]
    assert names[0] == "parameters" and names[-1] == last and "finish" not in names
    # These only show, by gradients that a model whose weights are shared out over processes does not have.
    assert not {"engine", "engine-exact", "real", "real-table"} & set(names)


@pytest.mark.parametrize("run", [name for name in graph.notebooks() if "05" <= name[:2] <= "12" and name[:2] != "06"])
def test_what_is_trained_is_evaluated_and_exported_by_stages_that_train_nothing_else(run):
    """Eight processes share a batch out evenly, so the trainings that only show something small are not theirs."""
    trained, evaluated, exported = ([n for n, _ in stages.cells(run, s)] for s in ("train", "evaluate", "export"))
    assert evaluated[: len(trained)] == exported[: len(trained)] == trained
    for stage in ("train", "evaluate", "export"):
        assert sum(source.count("fit(*") for _, source in stages.cells(run, stage)) <= 1
    about = {other[:2] for other in stages.upstream(run, "paper", "evaluate")}
    assert about == {other[:2] for other in graph.upstream(run, "paper")}, "all that its tables compare"


def test_what_has_no_such_stage_says_so(capsys):
    with pytest.raises(
        ParameterError, match="05_reward_model_training has no stage label: no cell of it is called label"
    ):
        stages.cells("05_reward_model_training", "label")


def trained(tier):
    """What the training of each notebook waits for, by numbers."""
    made = [name for name in graph.notebooks() if "policy" in graph.about(name)["makes"]]
    return {run[:2]: [other[:2] for other in stages.upstream(run, tier, "train")] for run in made}


def test_a_training_waits_for_what_it_reads_and_not_for_what_is_compared():
    """SFT and DPO train beside the reward model, DPO, PPO and SteerLM beside each other."""
    waits = trained("demo")
    assert graph.upstream("07_sft", "demo") and waits["07"] == []
    assert waits["08"] == ["07"] and waits["10"] == waits["11"] == ["05", "07"]
    assert "08" in waits["09"] and "11" in waits["12"]
    assert trained("paper") == waits | {"11": ["05"]}, "SteerLM starts from the base there"


@pytest.fixture
def notebook(tmp_path, monkeypatch):
    """A notebook that trains in its third cell, in folders of its own."""
    parameters = new_code_cell(
        'tier: str = "smoke"  # tier; one of smoke, demo\nn: int = 2  # a number; 0 to 9',
        id="parameters",
        metadata={"tags": ["parameters"]},
    )
    load = "from hs2lib.paths import reports, work\n\nfolder = work(tier, '01_first')"
    fit = "print(n)\n(reports() / 'table').touch()\nfolder.mkdir(parents=True, exist_ok=True)\n"
    fit += "(folder / f'model-{n}').touch()"
    for name in ("notebooks", "params/demo"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("01_first", "02_second"):
        cells = [parameters, new_code_cell(load.replace("01_first", name), id="load"), new_code_cell(fit, id="fit")]
        cells.append(new_code_cell("raise RuntimeError('not of the stage')", id="after"))
        nbformat.write(new_notebook(cells=cells), tmp_path / "notebooks" / f"{name}.ipynb")
    (tmp_path / "params/demo/01_first.yaml").write_text("n: 7\n")
    for name in (
        "HS2_REPORTS",
        "HS2_RUNS",
        "HS2_RUN",
        "HS2_STREAM",
        processes.OWNER,
        processes.PARENT,
        "CUDA_VISIBLE_DEVICES",
    ):
        monkeypatch.setenv(name, "")  # given back after the test
        monkeypatch.delenv(name)
    monkeypatch.setenv("HS2_ROOT", str(tmp_path))
    return tmp_path


def test_a_stage_leaves_what_it_made_and_no_report(notebook, capsys):
    assert runner.main(["--stage", "train", "--stream", "--tier", "demo", "01"]) == 0
    assert [file.name for file in (runs() / "demo" / "01_first").iterdir()] == ["model-7"], "with the tier's parameters"
    assert not (notebook / "reports").exists() and os.environ["HS2_STREAM"] == "1"
    assert capsys.readouterr().out.startswith("demo 01_first: train done in 0 s\n")


def test_a_stage_of_what_has_not_run_is_one_line(capsys, tmp_path, monkeypatch):
    """It ended in a traceback of the model that was not there."""
    monkeypatch.setenv("HS2_RUNS", str(tmp_path))
    assert runner.main(["--stage", "label", "--tier", "gpu", "11"]) == 2
    printed = capsys.readouterr().err
    assert printed.startswith("error: stage label of 11_steerlm reads 05_reward_model_training, and there is no ")
    assert printed.endswith("model: run python -m hs2lib.run --tier gpu 05_reward_model_training first\n")


def test_a_stage_reads_the_reports_of_what_it_waits_for(notebook, capsys):
    """Notebook 06 asks whether 05 has ended; what the stage itself reports goes nowhere all the same."""
    file = notebook / "notebooks" / "02_second.ipynb"
    second = nbformat.read(file, 4)
    second.metadata["hs2"] = {"needs": ["01_first"]}
    second.cells[1].source += '\ntext = (reports() / tier / "01_first" / "manifest.json").read_text()'
    second.cells[2].source += "; (folder / text).touch()"
    nbformat.write(second, file)
    assert runner.main(["--stage", "train", "--tier", "demo", "02"]) == 2
    assert "reads 01_first, and there is no" in capsys.readouterr().err
    (notebook / "reports/demo/01_first").mkdir(parents=True)
    (notebook / "reports/demo/01_first/manifest.json").write_text("ended")
    assert runner.main(["--stage", "train", "--tier", "demo", "02"]) == 0
    assert sorted(place.name for place in (runs() / "demo" / "02_second").iterdir()) == ["ended", "model-2"]
    assert [place.name for place in (notebook / "reports").iterdir()] == ["demo"]


@pytest.mark.slow
def test_each_stage_is_a_job_of_its_own(notebook):
    """By Snakemake itself: what a job runs is put together only then, and was the last stage's for all of them."""
    names = ["01_first", "02_second"]
    command = [sys.executable, "-m", "snakemake", "--snakefile", str(CHECKOUT / "Snakefile")]
    command += ["--directory", str(runs()), "--cores", "2", *(f"demo/{name}/train.done" for name in names)]
    command += ["--set-resources", *(f"train_{name}:processes=1" for name in names)]
    command += ["--config", "tier=demo", f"notebooks={','.join(names)}", "cores=1"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert [len(list((runs() / "demo" / name).glob("model-*"))) for name in names] == [1, 1]


@pytest.mark.slow
def test_a_stage_with_resources_is_a_job_before_its_notebook(tmp_path, monkeypatch):
    """After what it reads, and started by torchrun, on each node one; a notebook without one trains by itself."""
    monkeypatch.setenv("HS2_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("HS2_REPORTS", str(tmp_path / "reports"))
    wanted = ["train_05_reward_model_training:nodes=2", "train_05_reward_model_training:processes=8"]
    options = ["--workflow-profile", "profiles/slurm", "--dry-run", "--printshellcmds"]
    wanted += ["train_08_dpo:processes=4", "evaluate_08_dpo:processes=2"]
    options += ["--set-resources", *wanted]  # in place of the profile's own
    command = [sys.executable, "-m", "hs2lib.run", "--tier", "paper", "08", "--", *options]
    done = subprocess.run(command, capture_output=True, text=True, cwd=CHECKOUT)
    assert done.returncode == 0, done.stderr
    jobs = dict(re.findall(r"^rule (\w+):\n(.*?)\n\n", done.stdout + done.stderr, re.M | re.S))
    first, second, third, fourth, fifth, last, *_ = jobs
    assert (first, second) == ("train_05_reward_model_training", "05_reward_model_training")
    assert (third, fourth, fifth, last) == ("07_sft", "train_08_dpo", "evaluate_08_dpo", "08_dpo")
    assert "input: paper/05_reward_model_training/train.done" in jobs[second]
    assert "input: paper/07_sft/stamp.json\n" in jobs[fourth]
    both = "paper/05_reward_model_training/stamp.json, paper/07_sft/stamp.json, paper/08_dpo/train.done"
    assert f"input: {both}\n" in jobs[fifth] and f"input: {both}, paper/08_dpo/evaluate.done" in jobs[last]
    for resource in ("nodes=2", "processes=8", "gpu=16", "mpi=srun", "tasks=2"):
        assert resource in jobs[first]
    assert re.search(
        r"exec srun --nodes 2 --ntasks 2 \S+ -m torch.distributed.run --nproc-per-node 8 --nnodes 2 ", jobs[first]
    )
    assert "gpu=4" in jobs[fourth] and "mpi" not in jobs[fourth]
    assert "--nproc-per-node 4 --standalone -m hs2lib.run --stage train --tier paper 08_dpo" in jobs[fourth]
    assert "torch" not in jobs[third]
    assert re.search(r"resources: .*mem_mb=16000.*runtime=720.*gpu=1", jobs[third])
