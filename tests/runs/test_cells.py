"""The cells that compute: they run without the rest of their notebook, and give what the whole of it gives."""

import inspect
import json
import os
import re
import subprocess
import sys

import pytest
import toy_suite
from shared_models import share_models

from hs2lib.commands import hs2
from hs2lib.paths import root
from hs2lib.runs import cells, graph
from hs2lib.runs.parameters import ParameterError

CHECKOUT = root()
NAME = "01_first"
COMPUTING = [(run, stage) for run in graph.notebooks() for stage in ["", *cells.stages_of(run)]]


@pytest.mark.parametrize(("run", "stage"), COMPUTING)
def test_each_stage_of_each_notebook_can_run_without_the_rest(run, stage):
    cells.check(run, stage)


TRAINED = [name for name in graph.notebooks() if "policy" in graph.about(name)["makes"]]
TRAINED.append("05_reward_model_training")


@pytest.mark.parametrize("run", TRAINED)
def test_what_is_trained_is_evaluated_and_exported_by_stages_that_train_nothing_else(run):
    """Eight processes share a batch out evenly; trainings that show something small are not theirs."""
    sources = {}
    for stage in ("train", "evaluate", "export"):
        sources[stage] = [cell.source for cell in cells.cells_of(run, stage)]
        trainings = re.findall(r"\.(?:train|iterate|fit)\(", "\n".join(sources[stage]))
        assert len(trainings) == 1
    before = len(sources["train"])
    assert sources["evaluate"][:before] == sources["export"][:before] == sources["train"]


def waits_for(tier, stage="train"):
    """What a stage of each notebook that makes a policy waits for, by numbers."""
    policies = graph.makers("policy")
    return {
        run[:2]: {other[:2] for other in graph.upstream(run, tier, stage=stage)} for run in policies
    }


@pytest.mark.parametrize("tier", ["demo", "paper"])
def test_a_training_waits_for_what_it_reads_and_not_for_what_is_compared(tier):
    """SFT and DPO train beside the reward model, and DPO, PPO and SteerLM beside each other."""
    waits = waits_for(tier)
    assert waits["07"] == set()
    is_real = (
        tier == "paper"
    )  # of generated rows the truth is known: no reward model scores answers
    assert ("05" in waits_for(tier, "evaluate")["07"]) == is_real
    assert waits["08"] == {"07"} and waits["10"] == waits["11"] == {"05", "07"}
    assert "08" in waits["09"] and "11" in waits["12"]


# What is refused.


@pytest.fixture
def suite(tmp_path, monkeypatch):
    """Writes the cells of a toy notebook, each (source, tags) or a source without tags."""
    toy_suite.make(tmp_path)
    monkeypatch.setenv("HS2_ROOT", str(tmp_path))
    for name in ("HS2_REPORTS", "HS2_RUNS"):
        monkeypatch.delenv(name, raising=False)

    def write(*listed):
        toy_suite.write(tmp_path, NAME, *listed)

    return write


def train(source):
    return source, ["train"]


def test_a_cell_that_reads_a_name_that_no_tagged_cell_binds_is_refused(suite):
    suite("rate = 3", train("model = rate * n"))
    message = "cell 'cell-1' of notebook 01_first reads 'rate', which no cell of stage train before"
    with pytest.raises(ParameterError, match=message):
        cells.check(NAME, "train")


@pytest.mark.parametrize(
    "computes",
    [
        "n + seed",  # parameters
        "pd.DataFrame([n])",  # bound by the cell that starts
        "len(str(n))",  # Python's own
        "[x for x in range(n)]",
        "(lambda x, *more: x)(n)",
        "sum(x * y for x, y in [(n, n)])",
    ],
)
def test_parameters_pythons_names_and_names_of_a_functions_own_are_bound(suite, computes):
    suite(train(f"model = {computes}"))
    cells.check(NAME, "train")


def test_a_stage_reads_what_it_binds_itself_and_not_what_comes_later(suite):
    suite(train("first = 1\nsecond = first"), train("third = second"))
    cells.check(NAME, "train")
    suite(train("third = second"), train("second = 1"))
    with pytest.raises(ParameterError, match="reads 'second'"):
        cells.check(NAME, "train")


def test_names_of_another_stage_are_none_of_a_stages_own(suite):
    suite(("made = 1", ["label"]), train("model = made"))
    with pytest.raises(ParameterError, match="reads 'made'"):
        cells.check(NAME, "train")
    cells.check(NAME)


CHANGES = [
    "items = []",
    "items += [3]",
    "items: list = []",
    "items[0] = 3",
    "items.field = 3",
    "items.part[0].field = 3",
    "del items",
    "del items[0]",
    "items.append(3)",
    "items[0].append(3)",
    "if True:\n    items.append(3)",
    "for one in [1]:\n    items.append(one)",
    "same = items",
    "if True:\n    items = []",
    "for items in []:\n    pass",
    "with open('x') as items:\n    pass",
    "print(items := 3)",
    "first, *items = [1, 2]",
    "def items():\n    pass",
    "class items:\n    pass",
    "import items",
    "from mine import items",
    "from mine import formula as items",
    "try:\n    pass\nexcept OSError as items:\n    pass",
]


@pytest.mark.parametrize("change", CHANGES)
def test_a_cell_between_that_changes_what_a_later_one_reads_is_refused(suite, change):
    """Without its tag the stage computes something else than the notebook."""
    suite(train("items = [1, 2]"), change, train("model = items"))
    message = "cell 'cell-1' of notebook 01_first changes 'items', which later cells of stage train"
    with pytest.raises(ParameterError, match=message):
        cells.check(NAME, "train")


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ("exec('items = 3')", "exec"),
        ("eval('items.append(3)')", "eval"),
        ("setattr(items, 'field', 3)", "setattr"),
        ("globals()['items'] = 3", "globals"),
        ("from mine import *", "*"),
    ],
)
def test_a_cell_between_that_may_change_any_name_is_refused(suite, change, name):
    suite(train("items = [1, 2]"), change, train("model = items"))
    with pytest.raises(ParameterError, match=re.escape(f"changes {name!r}")):
        cells.check(NAME, "train")


@pytest.mark.parametrize(
    "shows",
    [
        "print(len(items))",
        "shown = len(items)",
        "items",
        "[items for items in []]",
        "def show(items):\n    items = 1",
        "run.warning = 'weak'",
        "run.table(pd.DataFrame({'n': items}), 'numbers', 'Numbers.');",
        "%matplotlib inline",
    ],
)
def test_a_cell_between_that_only_shows_is_not(suite, shows):
    """A name of a comprehension's or a function's own is another one."""
    suite(train("items = [1, 2]"), shows, train("model = items\nrun.numbers['n'] = n"))
    cells.check(NAME, "train")


def test_a_cell_after_the_last_of_the_stage_may_change_all(suite):
    suite(train("items = [1, 2]"), "items = []")
    cells.check(NAME, "train")


def test_a_name_that_a_later_cell_binds_anew_may_be_changed_before(suite):
    suite(train("items = [1]"), "items = []", train("items = [2]\nmodel = items"))
    cells.check(NAME, "train")


@pytest.mark.parametrize("source", ["%time model = n", "!ls", "model = n?"])
def test_commands_of_ipython_in_a_cell_that_computes_are_refused(suite, source):
    suite(train(source))
    with pytest.raises(ParameterError, match="'cell-0' of notebook 01_first is not plain Python"):
        cells.check(NAME, "train")


def test_a_stage_that_a_notebook_has_not_names_those_it_has(suite):
    with pytest.raises(ParameterError, match=r"01_first has no stage label: its stages are train$"):
        cells.cells_of(NAME, "label")
    with pytest.raises(ParameterError, match=r"02_second has no stage train: it has none$"):
        cells.cells_of("02_second", "train")


def test_a_stage_of_what_has_not_run_is_one_line(capsys, tmp_path, monkeypatch):
    """It ended in a traceback of the model that was not there."""
    monkeypatch.setenv("HS2_RUNS", str(tmp_path))
    assert hs2.main(["run", "--stage", "label", "--tier", "gpu", "11"]) == 2
    printed = capsys.readouterr().err
    folder = tmp_path / "gpu/05_reward_model_training/model"
    assert printed.startswith(
        "error: stage label of 11_steerlm reads 05_reward_model_training, and "
    )
    assert printed.endswith(
        f"there is no {folder}: run hs2 run --tier gpu 05_reward_model_training first\n"
    )


# What is executed.


@pytest.fixture
def executed(suite, monkeypatch):
    """Executes the stages of the toy notebook in this process, with these values."""
    monkeypatch.setenv(cells.STAGE, "all")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")

    def execute(stage="", **values):
        return cells.execute(NAME, {"tier": "demo", "n": 2, "seed": 0} | values, stage)

    return execute


def test_only_the_cells_of_the_stage_are_executed_and_in_order(suite, executed):
    suite(
        train("order = ['first']"),
        "raise AssertionError('this cell has no tag')",
        ("raise AssertionError('this is of another stage')", ["label"]),
        train("order.append('last')"),
    )
    assert executed("train")["order"] == ["first", "last"]


def test_they_have_the_values_that_are_given_and_not_those_of_the_cell(suite, executed):
    suite(train("model = 10 * n"))
    assert executed(n=7)["model"] == 70


def test_the_source_of_a_function_of_a_cell_can_be_read(suite, executed):
    """Digests of a reader's own loss, and tracebacks, read it."""
    source = "def formula(n):\n    return 3 * n\n"
    suite(train(f"{source}\nmodel = formula(n)"))
    assert inspect.getsource(executed()["formula"]) == source


def test_what_a_cell_raises_names_the_cell(suite, executed):
    suite(train("1 / 0"))
    with pytest.raises(ZeroDivisionError) as raised:
        executed()
    assert raised.traceback[-1].path == "01_first, cell cell-0"


def test_before_each_cell_it_says_how_many_are_done(suite, monkeypatch):
    monkeypatch.setenv(cells.STAGE, "train")
    suite(train("model = n"), "1 / 0", train("model"))
    said = []
    values = {"tier": "demo", "n": 2, "seed": 0}
    cells.execute(NAME, values, "train", before=lambda *numbers: said.append(numbers))
    assert said == [(0, 3), (1, 3), (2, 3)]


@pytest.mark.slow
@pytest.mark.long
def test_a_stage_leaves_what_it_made_and_no_report_and_its_run_reads_it(tmp_path, monkeypatch):
    """Neither the job that computes the rest nor the notebook trains again."""
    monkeypatch.setenv("HS2_REPORTS", str(tmp_path / "reports"))
    monkeypatch.setenv("HS2_RUNS", str(share_models(tmp_path / "runs")))
    run = "07_sft@alone"
    graph.define(run, "smoke", {"recipe": {"reward": "tiny"}}, [])
    shown = hs2_run("--stage", "train", run, tier="smoke")
    assert re.fullmatch(rf"smoke {run}: train done in \d+ s", shown.splitlines()[-1])
    trainings = tmp_path.glob(f"runs/smoke/{run}/training-*/done.json")
    (done,) = trainings
    left = done.stat().st_mtime_ns
    assert not (tmp_path / "reports").exists()
    shown = hs2_run(run, tier="smoke")
    assert re.findall(rf"smoke {run}: (\w+) in", shown) == ["computed", "drawn"]
    assert list(tmp_path.glob(f"runs/smoke/{run}/training-*/done.json")) == [done]
    assert done.stat().st_mtime_ns == left
    manifest = json.loads(graph.manifest(run, "smoke").read_text())
    seconds = json.loads(done.read_text())["seconds"]
    assert manifest["wall_s"] >= seconds, "the time is that of the work"


def hs2_run(*words, tier="demo"):
    """What the command says in a process of its own: a stage keeps its lock as long as it lives."""
    command = [sys.executable, "-m", "hs2lib", "run", "--tier", tier, *words]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


# Jobs of a cluster.


def plan(folder, *options):
    """What Snakemake plans for 08 at tier paper with the profile for SLURM: the jobs by name."""
    command = [sys.executable, "-m", "hs2lib", "run", "--tier", "paper", "08", "--"]
    command += ["--workflow-profile", "profiles/slurm", "--dry-run", "--printshellcmds", *options]
    folders = {"HS2_RUNS": str(folder / "runs"), "HS2_REPORTS": str(folder / "reports")}
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=CHECKOUT, env=os.environ | folders
    )
    assert done.returncode == 0, done.stderr
    return dict(re.findall(r"^rule (\w+):\n(.*?)\n\n", done.stdout + done.stderr, re.M | re.S))


@pytest.fixture(scope="module")
def jobs(tmp_path_factory):
    """The jobs of the profile as it stands."""
    return plan(tmp_path_factory.mktemp("plan"))


@pytest.mark.slow
def test_the_profile_of_slurm_makes_jobs_of_trainings_and_evaluations(jobs):
    """Each is started by torchrun, before the job that computes the rest of its run."""
    of_dpo = [name for name in jobs if name.endswith("08_dpo")]
    assert of_dpo == ["train_08_dpo", "evaluate_08_dpo", "compute_08_dpo", "draw_08_dpo"]
    start = "exec {} -m torch.distributed.run --nproc-per-node 8 --standalone "
    start = start.format(re.escape(sys.executable))
    for stage in ("train", "evaluate"):
        job = jobs[f"{stage}_08_dpo"]
        assert re.search(f"{start}-m hs2lib.runs.jobs stage paper 08_dpo {stage} 2> ", job)
        assert "gpu=8" in job and "mem_mb=200000" in job and "mpi" not in job
    for job in ("compute", "draw"):
        said = jobs[f"{job}_08_dpo"]
        assert f"exec {sys.executable} -m hs2lib.runs.jobs {job} paper 08_dpo 2> " in said
        assert re.search(r"resources: .*mem_mb=16000.*runtime=720.*gpu=1", said)


@pytest.mark.slow
def test_a_job_waits_for_the_results_that_it_reads_and_for_the_stages_before_it(jobs):
    inputs = {name: inputs_of(said) for name, said in jobs.items()}
    computes = "paper/08_dpo/compute.key.json"
    sft = "paper/07_sft/results.json"
    both = {"paper/05_reward_model_training/results.json", sft}
    assert inputs["train_08_dpo"] == {computes, sft}
    trained = "paper/08_dpo/train.done"
    assert inputs["evaluate_08_dpo"] == {computes, trained, *both}
    done = {trained, "paper/08_dpo/evaluate.done"}
    assert inputs["compute_08_dpo"] == {computes, *done, *both}
    drawn = {"paper/08_dpo/draw.key.json", "paper/08_dpo/results.json"}
    assert inputs["draw_08_dpo"] == drawn | both


def inputs_of(said):
    """The inputs of a job as a set of files."""
    return set(re.search(r"^ +input: (.*)$", said, re.M)[1].split(", "))


@pytest.mark.slow
def test_over_several_nodes_a_torchrun_is_started_on_each(tmp_path):
    asked = ["train_08_dpo:nodes=2", "train_08_dpo:processes=4"]  # in place of the profile's own
    planned = plan(tmp_path, "--set-resources", *asked)
    assert "evaluate_08_dpo" not in planned, "it is part of the job that computes"
    for resource in ("nodes=2", "processes=4", "gpu=8", "mpi=srun", "tasks=2"):
        assert resource in planned["train_08_dpo"]
    torchrun = r"\S+ -m torch.distributed.run --nproc-per-node 4 --nnodes 2 --rdzv-backend c10d "
    assert re.search(
        rf"exec srun --nodes 2 --ntasks 2 {torchrun}.*-m hs2lib.runs.jobs stage paper 08_dpo train ",
        planned["train_08_dpo"],
    )


@pytest.mark.slow
def test_each_stage_is_a_job_of_its_own(suite):
    """By Snakemake itself: what a job runs is put together only then, and was the last stage's for all."""
    suite(
        ("from pathlib import Path\n\nPath(f'../{seed}label').touch()", ["label"]),
        train("from pathlib import Path\n\nPath(f'../{seed}train').touch()"),
    )
    (root() / "params/demo/01_first.yaml").write_text("seed: 5\n")
    asked = ["label_01_first:processes=1", "train_01_first:processes=1"]
    done = hs2_run(NAME, "--", "--until", "train_01_first", "--set-resources", *asked)
    assert (root() / "5label").exists() and (root() / "5train").exists()
    assert re.findall(r"demo 01_first: (\w+) done", done) == ["label", "train"]
