"""The dry run's arithmetic, by hand: what it says is asked of a cluster, so a factor of ten must not slip in."""

import gc
import os
import shutil
import sys
from unittest import mock

import numpy as np
import pytest
import torch
from shared_models import share_models
from tiny_training import made, recipe, tiny
from torch.profiler import ProfilerActivity, profile
from transformers import LlamaConfig, LlamaForCausalLM

from hs2lib.align import dpo, iterative_dpo, steerlm
from hs2lib.engine import checkpoints
from hs2lib.engine.attention import prepare
from hs2lib.engine.trees import pack
from hs2lib.models.backbones import tiny_model
from hs2lib.models.policy import Policy, load_policy
from hs2lib.models.reward_model import load_reward_model
from hs2lib.runs import jobs
from hs2lib.train import cost
from hs2lib.train.objectives import REGRESSION
from hs2lib.train.trainer import Outputs, fit


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
    for weights, work in (
        (0, {"a": cost.Work(trained=1)}),
        (1e9, {"a": cost.Work()}),
        (1e9, {}),
    ):  # 0 hours, and it fits
        with pytest.raises(ValueError, match="are no run"):
            cost.dry_run(weights, work)


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


def test_bytes_of_each_process_by_hand():
    """4 bytes a weight, 4 its gradient, 8 AdamW's moments, shared out; of adapters the frozen weights' 4 alone."""
    model = tiny()
    n, layer = (
        sum(p.numel() for p in model.parameters()),
        sum(p.numel() for p in model.backbone.layers[0].parameters()),
    )
    one, two = (
        cost.bytes_a_process(model, 1, tokens=100),
        cost.bytes_a_process(model, 2, tokens=100),
    )
    assert (one["weights"], one["step"], two["weights"], two["step"]) == (
        4 * n,
        16 * n,
        2 * n,
        8 * n,
    )
    activations = 100 * (2 * 16 * 4 + 26 * 16 + 12 * 32 + 4 * (16 + 8) + 4 * 2 + 8 * 8)
    assert one["compute"] == 16 * n + 2 * layer + activations
    assert two["compute"] == 8 * n + 8 * layer + 8 * (n - 2 * layer) + activations
    trained = sum(p.numel() for p in model.lora(rank=2).parameters() if p.requires_grad)
    n = sum(p.numel() for p in model.parameters())
    assert trained < n / 2 and cost.bytes_a_process(model, 2)["step"] == 2 * n + 6 * trained


def test_a_step_takes_the_bytes_that_are_counted():
    """Counted by torch while 1,600 tokens go there and back; another layer of the library may keep something more."""
    shape = dict(hidden_size=64, intermediate_size=160, num_hidden_layers=3, num_attention_heads=4)
    model = tiny(**shape, num_key_value_heads=2, max_position_embeddings=512).train()
    prepare(model.backbone)
    model.backbone.gradient_checkpointing_enable({"use_reentrant": False})
    batch = pack([[torch.randint(0, 64, (160,)).tolist()] for _ in range(10)])
    for _ in range(2):  # what is made once is there the second time
        model.zero_grad()
        with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as taken:
            Outputs(model, REGRESSION, "bfloat16")(batch).sum().backward()
    events = [
        event for event in taken.profiler.kineto_results.events() if event.name() == "[memory]"
    ]
    most = np.cumsum(
        [event.nbytes() for event in sorted(events, key=lambda event: event.start_ns())]
    ).max()
    counted = cost.bytes_a_process(model, 1, len(batch.tokens))
    expected = counted["compute"] - counted["step"]
    # A processor without instructions for bfloat16 multiplies in float32, in scratch space that no
    # other one takes.
    emulated = not torch.cpu._is_avx512_bf16_supported()
    assert 0.97 * expected < most < (1.15 if emulated else 1.03) * expected


def test_a_policys_bytes_are_those_of_the_dry_run():
    """A token more takes as many in both, of the 70B base on the meta device; with so many tokens no
    projection takes as much."""
    config = LlamaConfig(
        vocab_size=128256,
        hidden_size=8192,
        intermediate_size=28672,
        num_hidden_layers=80,
        num_attention_heads=64,
        num_key_value_heads=8,
    )
    with torch.device("meta"):
        policy = Policy(LlamaForCausalLM(config), None)
    more = [cost.bytes_a_process(policy, 64, 2**20 * n)["compute"] for n in (1, 2)]
    assert (more[1] - more[0]) / 2**20 == cost.LAYERS * cost.WIDTH * 4 + cost.INSIDE


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


def test_a_training_that_cannot_fit_begins_nothing(monkeypatch, tmp_path):
    monkeypatch.setattr(checkpoints.os, "sysconf", lambda name: 100)
    with pytest.raises(ValueError, match="training with gradients and AdamW's moments takes"):
        fit(tiny(), made(8), [], REGRESSION, recipe(), tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("run", "beside"), [("08_dpo", 0), ("11_steerlm", 0), ("09_iterative_dpo", 1)]
)
@pytest.mark.slow
def test_no_model_lies_beside_a_training_but_those_its_rounds_ask(
    run, beside, monkeypatch, tmp_path
):
    """The steps up to a training: the parameters in memory then are the trained ones, as `held`
    counts them, and the reward model's where each round samples and scores."""
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
        counted.extend([sum(p.nbytes for p in new), cost.bytes_a_process(model, 1)["weights"]])
        raise KeyboardInterrupt

    for module in (dpo, iterative_dpo, steerlm):
        monkeypatch.setattr(module, "fit", count, raising=False)
    # A job goes elsewhere, and says in the environment what it does: all is given back.
    with mock.patch.dict(os.environ), pytest.raises(KeyboardInterrupt):
        jobs.stage(run, "smoke", "train")
    assert counted[0] == pytest.approx(
        (1 + beside) * counted[1], rel=1e-2
    )  # a head is 5 of 128 numbers


def test_frozen_models_are_held_whole_in_float32():
    table = cost.dry_run(1e9, {"score": cost.Work(scored=1)}, other_models=2, gpus=1)
    assert value(table, "memory", "together") == 12 and "weights, gradients, optimiser" not in set(
        table.quantity
    )
