"""Stages: the heavy part of a notebook runs as a job of its own, before it, and waits for no more than it reads."""

import ast
import json
import re
import shutil
import subprocess
import sys

import pytest

from hs2lib.commands import runner, stages
from hs2lib.paths import root, runs
from hs2lib.runs import graph, processes
from hs2lib.runs.parameters import ParameterError

CHECKOUT = root()
HAVING = [(run, stage) for run in graph.notebooks() for stage in stages.stages_of(run)]


@pytest.mark.parametrize(("run", "stage"), HAVING)
def test_the_steps_of_a_stage_are_the_statements_of_its_notebook(run, stage):
    """A stage that computed something else would leave work that the notebook does not find, or finds and mistakes."""
    stages.check(run, stage)


@pytest.mark.parametrize(
    ("run", "stage", "last"),
    [
        ("05_reward_model_training", "train", "reward_training.train"),
        ("12_steerlm2", "train", "steerlm2.iterate"),
        ("11_steerlm", "label", "steerlm.label_answers"),
        ("09_iterative_dpo", "sample", "iterative_dpo.sample"),
        ("13_aligned_model_evaluation", "sample", "answering.respond"),
        ("06_rewardbench_evaluation", "score", "weights.search_heads"),
        ("05_reward_model_training", "evaluate", "reward_metrics.evaluate"),
        ("08_dpo", "export", "saved.save"),
    ],
)
def test_what_a_stage_ends_with(run, stage, last):
    statement = stages.statements_of(run, stage)[-1]
    assert ast.unparse(statement.value.func) == last


@pytest.mark.parametrize(
    "run", [name for name in graph.notebooks() if "05" <= name[:2] <= "12" and name[:2] != "06"]
)
def test_what_is_trained_is_evaluated_and_exported_by_stages_that_train_nothing_else(run):
    """Eight processes share a batch out evenly, so the trainings that only show something small are not theirs."""
    texts = {}
    for stage in ("train", "evaluate", "export"):
        texts[stage] = [ast.unparse(statement) for statement in stages.statements_of(run, stage)]
        trainings = [text for text in texts[stage] if re.search(r"\.(train|iterate|fit)\(", text)]
        assert len(trainings) == 1
    assert (
        texts["evaluate"][: len(texts["train"])]
        == texts["export"][: len(texts["train"])]
        == texts["train"]
    )
    about = {other[:2] for other in stages.upstream(run, "paper", "evaluate")}
    assert about == {other[:2] for other in graph.upstream(run, "paper")}, (
        "all that its tables compare"
    )


def test_what_has_no_such_stage_says_so():
    message = "05_reward_model_training has no stage label: its stages are train, evaluate, export"
    with pytest.raises(ParameterError, match=message):
        stages.statements_of("05_reward_model_training", "label")
    with pytest.raises(
        ParameterError, match="01_dataset_statistics has no stage train: it has none"
    ):
        stages.check("01_dataset_statistics", "train")


@pytest.fixture
def changed(tmp_path, monkeypatch):
    """A copy of the notebooks' folder, in which a cell's code can be replaced."""
    shutil.copytree(
        CHECKOUT / "notebooks", tmp_path / "notebooks", ignore=shutil.ignore_patterns(".*")
    )
    monkeypatch.setenv("HS2_ROOT", str(tmp_path))

    def change(before, after):
        file = tmp_path / "notebooks" / "08_dpo.ipynb"
        content = json.loads(file.read_text())
        hits = 0
        for cell in content["cells"]:
            source = "".join(cell["source"])
            if cell["cell_type"] == "code" and before in source:
                cell["source"] = source.replace(before, after)
                hits += 1
        assert hits == 1, "the test replaces code that stands in one cell"
        file.write_text(json.dumps(content))

    return change


CALL = "result = dpo.train(policy, items, setup"


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        (
            CALL,
            f"{CALL}, objective=mine",
            "would run `result = dpo.train(policy, items, setup)`, and cell 'fit' has",
        ),
        (CALL, f"items = items[:10]\n{CALL}", "cell 'fit' of notebook 08_dpo changes 'items'"),
        (CALL, f"policy.temperature = 2\n{CALL}", "cell 'fit' of notebook 08_dpo changes 'policy'"),
        ("from hs2lib.align import dpo", "from mine import dpo", "dpo is mine.dpo in the notebook"),
        (CALL, f"dpo.train = None\n{CALL}", "cell 'fit' of notebook 08_dpo changes 'dpo'"),
        (CALL, f"def dpo():\n    pass\n\n\n{CALL}", "changes 'dpo'"),
        (CALL, f"from mine import *\n{CALL}", "changes '*'"),
        (CALL, f"if True:\n    from mine import dpo\n{CALL}", "changes 'dpo'"),
        (CALL, f"policy.lora(rank=4)\n{CALL}", "changes 'policy'"),
        (CALL, f"setattr(items, 'training', [])\n{CALL}", "changes 'setattr'"),
        (CALL, f"same = items\n{CALL}", "changes 'items'"),
        (CALL, f"{CALL})\n{CALL}", "2 times"),
        ("setup = run.setup", "run.setup = None\nsetup = run.setup", "changes 'run'"),
        (
            "globals())",
            'globals() | {"seed": 3})',
            "and cell 'imports' has `run = report.start('08_dpo', globals() |",
        ),
        ("run = report.start", "seed = 3\nrun = report.start", "changes 'seed'"),
    ],
)
def test_a_notebook_that_passes_something_else_has_no_stages(changed, before, after, says):
    """The stage would train by the library's own loss what the notebook then reads as trained by the reader's."""
    changed(before, after)
    with pytest.raises(ParameterError, match=re.escape(says)):
        stages.check("08_dpo", "train")


@pytest.mark.parametrize(
    "shows",
    ["print(len(pairs.groups))", "[len(items) for items in []]", "def show(items):\n    items = 1"],
)
def test_what_only_shows_may_differ(changed, shows):
    """A name of a comprehension's or a function's own is another one."""
    changed(CALL, f"{shows}\n{CALL}")
    stages.check("08_dpo", "train")


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


def test_a_stage_of_what_has_not_run_is_one_line(capsys, tmp_path, monkeypatch):
    """It ended in a traceback of the model that was not there."""
    monkeypatch.setenv("HS2_RUNS", str(tmp_path))
    assert runner.main(["--stage", "label", "--tier", "gpu", "11"]) == 2
    printed = capsys.readouterr().err
    assert printed.startswith(
        "error: stage label of 11_steerlm reads 05_reward_model_training, and there is no "
    )
    assert printed.endswith(
        "model: run python -m hs2lib.run --tier gpu 05_reward_model_training first\n"
    )


@pytest.fixture
def own_folders(tmp_path, monkeypatch):
    """Runs and reports of the test's own; what a stage sets in the environment is given back."""
    for name in (
        "HS2_RUN",
        "HS2_STREAM",
        processes.OWNER,
        processes.PARENT,
        "CUDA_VISIBLE_DEVICES",
    ):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.setenv("HS2_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("HS2_REPORTS", str(tmp_path / "reports"))
    models = CHECKOUT / "runs" / "models"
    models.mkdir(parents=True, exist_ok=True)
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "models").symlink_to(models)
    return tmp_path


def run_command(*words):
    """The command line in a process of its own: a stage keeps its lock as long as its process lives."""
    done = subprocess.run(
        [sys.executable, "-m", "hs2lib.run", *words], capture_output=True, text=True, cwd=CHECKOUT
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.mark.slow
def test_a_stage_leaves_what_it_made_and_no_report_and_the_notebook_reads_it(own_folders):
    shown = run_command("--stage", "train", "--tier", "smoke", "07")
    assert re.fullmatch(r"smoke 07_sft: train done in \d+ s", shown.splitlines()[-1])
    (done,) = (runs() / "smoke" / "07_sft").glob("training-*/done.json")
    assert not (own_folders / "reports").exists()
    left = done.stat().st_mtime_ns
    run_command("--execute", "--tier", "smoke", "07")
    trained = list((runs() / "smoke" / "07_sft").glob("training-*/done.json"))
    assert [file for file in trained if file != done and "end-to-end" not in str(file)] == []
    assert done.stat().st_mtime_ns == left, "the notebook trained again"
    manifest = json.loads((own_folders / "reports/smoke/07_sft/manifest.json").read_text())
    assert manifest["wall_s"] >= json.loads(done.read_text())["seconds"], (
        "the time is that of the work"
    )


@pytest.mark.slow
def test_each_stage_is_a_job_of_its_own(own_folders, monkeypatch):
    """By Snakemake itself: what a job runs is put together only then, and was the last stage's for all of them."""
    names = ["05_reward_model_training", "07_sft"]
    monkeypatch.setenv(
        processes.OWNER, "one run"
    )  # as the runner has it: its jobs share the folder
    command = [sys.executable, "-m", "snakemake", "--snakefile", str(CHECKOUT / "Snakefile")]
    command += [
        "--directory",
        str(runs()),
        "--cores",
        "2",
        *(f"smoke/{name}/train.done" for name in names),
    ]
    command += ["--set-resources", *(f"train_{name}:processes=1" for name in names)]
    command += ["--config", "tier=smoke", f"notebooks={','.join(names)}", "cores=1"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert [
        len(list((runs() / "smoke" / name).glob("training-*/done.json"))) for name in names
    ] == [1, 1]


@pytest.mark.slow
def test_a_stage_with_resources_is_a_job_before_its_notebook(tmp_path, monkeypatch):
    """After what it reads, and started by torchrun, on each node one; a notebook without one trains by itself."""
    monkeypatch.setenv("HS2_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("HS2_REPORTS", str(tmp_path / "reports"))
    wanted = [
        "train_05_reward_model_training:nodes=2",
        "train_05_reward_model_training:processes=8",
    ]
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
    assert (
        f"input: {both}\n" in jobs[fifth]
        and f"input: {both}, paper/08_dpo/evaluate.done" in jobs[last]
    )
    for resource in ("nodes=2", "processes=8", "gpu=16", "mpi=srun", "tasks=2"):
        assert resource in jobs[first]
    assert re.search(
        r"exec srun --nodes 2 --ntasks 2 \S+ -m torch.distributed.run --nproc-per-node 8 --nnodes 2 ",
        jobs[first],
    )
    assert "gpu=4" in jobs[fourth] and "mpi" not in jobs[fourth]
    assert (
        "--nproc-per-node 4 --standalone -m hs2lib.run --stage train --tier paper 08_dpo"
        in jobs[fourth]
    )
    assert "torch" not in jobs[third]
    assert re.search(r"resources: .*mem_mb=16000.*runtime=720.*gpu=1", jobs[third])
