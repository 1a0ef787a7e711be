"""The runs of `params/` have values that are known, and a search runs with a loss of one's own."""

import os
import shutil
import subprocess
import sys

import pandas as pd
import pytest

from hs2lib.paths import root
from hs2lib.runs import graph


def test_the_values_of_every_run_are_known_and_what_it_reads_is_defined():
    files = sorted((root() / "params").glob("*/*.yaml"))
    assert len(files) > 10
    for file in files:
        tier = file.parent.name
        graph.resolved(file.stem, tier)
        for read in graph.upstream(file.stem, tier):
            graph.definition(read, tier)


LOSS = """
import torch


def mine(policy_chosen, policy_rejected, reference_chosen, reference_rejected, beta):
    margin = policy_chosen - policy_rejected - reference_chosen + reference_rejected
    return torch.relu(1 - beta * margin)
"""


@pytest.mark.slow
def test_a_loss_of_ones_own_stands_in_a_file_and_in_the_grids_table(tmp_path):
    for name in ("hs2lib", "notebooks", "params"):
        shutil.copytree(
            root() / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__")
        )
    shutil.copy(root() / "Snakefile", tmp_path)
    (tmp_path / "my_loss.py").write_text(LOSS)
    command = [sys.executable, "-m", "hs2lib", "run", "--tier", "smoke", "--cores", "2"]
    command += ["08", "--grid", "objective=dpo,my_loss.py:mine"]
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    table = pd.read_csv(tmp_path / "reports" / "smoke" / "grids" / "08_dpo-objective.csv")
    assert list(table.objective) == ["dpo", "my_loss.py:mine"]
    assert table["true score"].notna().all()
    runs = [path.name for path in (tmp_path / "runs" / "smoke").glob("08_dpo@*")]
    assert sorted(runs) == ["08_dpo@objective-dpo", "08_dpo@objective-my_loss.py-mine"]


def test_answers_to_real_prompts_are_scored_by_the_reward_model_that_is_read():
    of_model = "05_reward_model_training"
    for run in ("07_sft", "08_dpo"):
        assert of_model not in graph.upstream(run, "demo")
        assert of_model in graph.upstream(run, "laptop")
    assert graph.upstream("07_sft", "laptop", stage="train") == []
    assert of_model not in graph.upstream("08_dpo@helpsteer2", "laptop"), "its reward is none"
