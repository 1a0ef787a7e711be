"""A rehearsal does a little of the heavy work, and tells what all of it would take."""

import os
import subprocess
import sys
from types import SimpleNamespace

import pandas as pd
import pytest
import torch

from hs2lib import rehearsal
from hs2lib.commands import rehearse
from hs2lib.group import Group, Turn
from hs2lib.models.rollout import rollouts
from hs2lib.paths import root


@pytest.fixture
def notes(tmp_path, monkeypatch):
    """A rehearsal goes on; calling this reads what it noted."""
    monkeypatch.setenv(rehearsal.FOLDER, str(tmp_path))
    monkeypatch.setenv(rehearsal.RUN, "07_sft")
    return lambda: rehearse.notes(tmp_path)


def batches_of(sizes):
    """Batches of one row each, with so many tokens."""
    return [
        SimpleNamespace(tokens=range(size), index=torch.tensor([i])) for i, size in enumerate(sizes)
    ]


def test_the_largest_batches_are_computed_and_the_rest_copied_and_counted(notes, monkeypatch):
    clock = iter(range(100))
    monkeypatch.setattr(rehearsal.time, "time", lambda: float(next(clock)))
    seen = []

    def rows(batch):
        seen.append(len(batch.tokens))
        return torch.tensor([[float(len(batch.tokens))]])

    batches, function = rehearsal.few_batches(batches_of([5, 50, 20, 10, 10, 5]), rows)
    values = [function(batch).item() for batch in batches]
    assert seen == [50, 20, 10]
    assert values == [50, 20, 10, 50, 50, 50]
    (row,) = notes().to_dict("records")
    # two timed batches of 30 tokens took a second each on this clock; all are 100 tokens
    assert row["tokens"] == 30 and row["seconds"] == 2
    assert row["whole"] == pytest.approx(2 * 100 / 30)


def test_few_batches_are_all_computed_and_take_what_they_took(notes):
    batches, function = rehearsal.few_batches(batches_of([1, 2]), lambda batch: torch.ones(1, 1))
    for batch in batches:
        function(batch)
    (row,) = notes().to_dict("records")
    assert row["whole"] == row["spent"]


def test_what_a_training_repeats_counts_as_often_as_the_whole_training_does_it(notes):
    with rehearsal.training(100, 4):
        rehearsal.note("sampling", 1.0, 2.0)  # once in four steps: 25 times in a hundred
        with rehearsal.validating(25):  # it has five validations, and the rehearsal one
            rehearsal.note("forward", 1.0, 2.0)
    rehearsal.note("forward", 1.0, 2.0)
    assert list(notes().whole) == [50, 10, 2]


def test_every_prompt_gets_its_samples_though_few_are_sampled_for(notes, tiny_policy):
    prompts = [Group(f"p{i}", (Turn("user", "a " * (1 + i % 5)),), ()) for i in range(20)]
    options = {"n": 2, "max_new_tokens": 4, "batch": 8, "progress": False}
    groups = rollouts(tiny_policy, prompts, **options)
    assert [group.id for group in groups] == [prompt.id for prompt in prompts]
    assert all(len(group.responses) == 2 for group in groups)
    (row,) = notes().to_dict("records")
    assert row["whole"] == pytest.approx(row["spent"] * 40 / 16)  # eight prompts of twenty


def test_hours_are_what_the_jobs_took_without_the_work_cut_short_and_with_all_of_it(tmp_path):
    noted = pd.DataFrame(
        [
            {"run": "07_sft", "work": "job", "spent": 60.0, "whole": 0.0},
            {"run": "07_sft", "work": "training", "spent": 20.0, "whole": 7200.0},
            {"run": "07_sft", "work": "job", "spent": 30.0, "whole": 0.0},
        ]
    ).assign(tokens=0, seconds=1, memory=1.5)
    names = ["05_reward_model_training", "07_sft", "08_dpo"]
    for name in names:
        (tmp_path / name).mkdir()
        (tmp_path / name / "results.json").touch()
    (tmp_path / "07_sft/drawn.json").touch()
    (tmp_path / "08_dpo/draw.log").write_text("Traceback ..\nValueError: no\n| 3/3 [00:01]\n")
    found = rehearse.table(noted, names, ["07_sft", "08_dpo"], tmp_path)
    assert found.hours["07_sft"] == pytest.approx((90 - 20 + 7200) / 3600)
    assert found.ended.tolist() == [True, True, False]
    assert found.error["08_dpo"] == "ValueError: no"


def test_the_words_of_the_command_go_on_without_the_rehearsal():
    words = ["run", "08", "--rehearse", "tiny", "--name", "tiny", "--tier", "gpu"]
    assert rehearse.without_rehearse(words) == ["run", "08", "--name", "tiny", "--tier", "gpu"]
    assert rehearse.without_rehearse(["run", "--rehearse=tiny", "08"]) == ["run", "08"]
    assert rehearse.without_rehearse(["run", "--rehearse", "08"]) == ["run", "08"]


@pytest.mark.slow
@pytest.mark.parametrize("tier, run", [("gpu", "05"), ("paper", "12")])
def test_a_rehearsal_leaves_one_page(tier, run, tmp_path):
    words = [sys.executable, "-m", "hs2lib", "run", run, "--tier", tier, "--rehearse", "tiny"]
    folders = {"HS2_RUNS": str(tmp_path / "runs"), "HS2_REPORTS": str(tmp_path / "reports")}
    done = subprocess.run(
        words, cwd=root(), env=os.environ | folders, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    left = [path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file()]
    assert [str(path) for path in left] == [f"reports/{tier}/rehearsal.md"]
    page = (tmp_path / left[0]).read_text()
    assert "| yes |" in page and "| no |" not in page and "failed" not in page


def test_the_command_line_starts_without_torch():
    """It takes a second then, and five with it."""
    code = "import sys, hs2lib.commands.hs2; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=root()).returncode == 0
