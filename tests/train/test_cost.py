"""The dry run's arithmetic, by hand: what it says is asked of a cluster, so a factor of ten must not slip in."""

import gc
import os
import shutil
import sys
from unittest import mock

import pytest
import torch
from shared_models import share_models

from hs2lib.align import common
from hs2lib.engine import checkpoints
from hs2lib.models.backbones import tiny_model
from hs2lib.models.policy import load_policy
from hs2lib.models.reward_model import load_reward_model
from hs2lib.runs import jobs
from hs2lib.train import cost


def value(table, stage, quantity):
    (value,) = table[(table.stage == stage) & (table.quantity == quantity)].value
    return value


def test_tokens_count_each_prompt_once():
    """The paper's means: (712.6 + 2 x 1492.6) / 4.5 = 821.7 tokens a pair, 5.93 million for 7,221 pairs."""
    assert cost.tokens(1, 2) == pytest.approx(821.7, abs=0.1)
    assert cost.tokens(7221, 2) == pytest.approx(5.934e6, rel=1e-3)
    assert cost.tokens(10, 3, prompt=45, response=90) == 10 * (10 + 3 * 20)


def test_hours_by_hand(monkeypatch):
    """A model of 1e9 weights, 1e9 tokens, one GPU of 1e15 operations a second of which all are used."""
    machine = {"PEAK": 1e15, "USED": 1.0, "BANDWIDTH": 2e12, "USED_BANDWIDTH": 1.0, "AT_ONCE": 10}
    for name, value_of in machine.items():
        monkeypatch.setattr(cost, name, value_of)
    stages = {"a": cost.Work(trained=1e9, scored=2e9), "b": cost.Work(sampled=3.6e6)}
    table = cost.dry_run(1e9, stages, gpus=2)
    assert value(table, "a", "time, trained") == pytest.approx(
        8e18 / 1e15 / 3600
    )  # activations twice
    assert value(table, "a", "time, scored") == pytest.approx(4e18 / 1e15 / 3600)
    assert value(table, "b", "time, sampled") == pytest.approx(
        3.6e6 * 2e9 / 2e12 / 10 / 3600
    )  # 0.1 hours
    total = value(table, "all", "time")
    assert (
        total == pytest.approx(12 / 3.6 + 0.1, rel=1e-6)
        and value(table, "all", "wall time") == total / 2
    )


def test_the_papers_dpo():
    """70.6e9 weights, 41.5 million tokens trained, 64 GPUs: some twenty GPU hours, and it fits; on 8 it does not."""
    pairs = cost.tokens(7221, 2)
    stages = {"DPO": cost.Work(trained=7 * pairs), "reference": cost.Work(scored=pairs)}
    table = cost.dry_run(70.6e9, stages)
    assert value(table, "DPO", "tokens trained") == pytest.approx(41.5e6, rel=0.01)
    assert 15 < value(table, "all", "time") < 25
    assert value(table, "memory", "weights, gradients, optimiser") == pytest.approx(16 * 70.6 / 64)
    assert "fits" in table[table.quantity == "together"].arithmetic.item()
    half = value(cost.dry_run(70.6e9, stages, budget=4096), "memory", "activations")
    assert (
        half
        == pytest.approx(4096 * (80 * 8192 * 4 + 595200) / 1e9)
        == value(table, "memory", "activations") / 2
    )
    few = cost.dry_run(70.6e9, stages, gpus=8)
    assert "does not fit" in few[few.quantity == "together"].arithmetic.item()


def test_what_cannot_fit_is_refused_before_weights_are_read(monkeypatch, tmp_path):
    """There are no weights in the folder at all, and .1 MB of memory. A published reward model is one to read, too."""
    for file in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        shutil.copy(tiny_model() / file, tmp_path)
    monkeypatch.setattr(checkpoints.os, "sysconf", lambda name: 300)
    for load in (load_policy, load_reward_model):
        with pytest.raises(
            ValueError,
            match=r"weights alone, takes 0.0 GB, and here are 0.0 GB: take more processes",
        ):
            load(tmp_path)


@pytest.mark.parametrize(
    ("run", "beside"), [("08_dpo", 0), ("11_steerlm", 0), ("09_iterative_dpo", 1)]
)
@pytest.mark.slow
def test_no_model_lies_beside_a_training_but_those_its_rounds_ask(
    run, beside, monkeypatch, tmp_path
):
    """The steps up to a training: the parameters in memory then are the trained ones, and
    the reward model's where each round samples and scores."""
    share_models(tmp_path / "HS2_RUNS")
    for name in ("HS2_RUNS", "HS2_REPORTS"):
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    before = {id(one) for one in gc.get_objects() if isinstance(one, torch.nn.Parameter)}
    counted = []

    def count(model, *task, **options):
        gc.collect()
        new = [
            p for p in gc.get_objects() if isinstance(p, torch.nn.Parameter) and id(p) not in before
        ]
        of_model = sum(p.nbytes for p in model.parameters())
        counted.extend([sum(p.nbytes for p in new), of_model])
        raise KeyboardInterrupt

    monkeypatch.setattr(common, "fit", count)
    # A job goes elsewhere, and says in the environment what it does: all is given back.
    with mock.patch.dict(os.environ), pytest.raises(KeyboardInterrupt):
        jobs.stage(run, "smoke", "train")
    assert counted[0] == pytest.approx(
        (1 + beside) * counted[1], rel=1e-2
    )  # a head is 5 of 128 numbers
