"""The adapter to verl, without verl: every value of the recipe has its place, the files are verl's,
the reward is ours.

That verl's own parser takes what is written here is looked at by `benchmarks/verl.py`.
"""

import asyncio
import importlib.util
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import pandas as pd
import pytest
import torch
import transformers

from hs2lib.align import ppo
from hs2lib.data.load import load
from hs2lib.group import Group, Response
from hs2lib.models.reward_model import RewardModel
from hs2lib.paper import head_weights
from hs2lib.paths import root


def module(name):
    spec = importlib.util.spec_from_file_location(name, root() / "profiles" / "verl" / f"{name}.py")
    adapter = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(adapter)
    return adapter


adapter, reward = module("adapter"), module("reward")


def with_values(monkeypatch, **changes):
    """Notebook 10 has these values in place of a tier's."""
    resolved = adapter.graph.resolved

    def changed(notebook, tier):
        known, parameters, recipe = resolved(notebook, tier)
        both = [
            values | {n: v for n, v in changes.items() if n in values}
            for values in (parameters, vars(recipe))
        ]
        return known, both[0], SimpleNamespace(**both[1])

    monkeypatch.setattr(adapter.graph, "resolved", changed)


def test_every_value_of_the_recipe_has_a_counterpart_or_a_reason_for_none():
    names = set(vars(adapter.values("paper")))
    assert names == adapter.COUNTERPARTS.keys() | adapter.WITHOUT.keys()
    assert not adapter.COUNTERPARTS.keys() & adapter.WITHOUT.keys() and all(
        adapter.WITHOUT.values()
    )
    assert (root() / "profiles" / "verl" / "README.md").read_text() == adapter.table()


def test_tier_paper_has_the_papers_values_in_verls_terms():
    v = adapter.values("paper", out="/out", start="/policy", reward="/judge", constant=-0.5)
    lines = dict(line.split("=", 1) for line in adapter.overrides(v, nodes=8, gpus=8, tensor=8))
    written = {key: json.loads(value) for key, value in lines.items()}
    actor, critic = "actor_rollout_ref.actor", "critic"
    for key, value in {
        "data.train_batch_size": 128,
        f"{actor}.ppo_mini_batch_size": 128,
        "trainer.total_training_steps": 64,
        "trainer.save_freq": 4,
        f"{actor}.optim.lr": 1e-7,
        f"{critic}.optim.lr": pytest.approx(1e-6),
        f"{actor}.optim.betas": [0.9, 0.98],
        "algorithm.kl_ctrl.kl_coef": 0.003,
        "algorithm.kl_penalty": "abs",
        "algorithm.lam": 0.95,
        f"{actor}.clip_ratio_low": 0.2,
        f"{critic}.cliprange_value": 0.2,
        "data.max_response_length": 2048,
        "data.max_prompt_length": 2048,
        "trainer.test_freq": -1,
        "actor_rollout_ref.model.path": "/policy",
        f"{critic}.model.path": "/out/reward",
        "+reward.custom_reward_function.reward_kwargs.constant": -0.5,
    }.items():
        assert written[key] == value, key
    # A round of two steps and two passes is one of verl's steps: 64 of the optimiser are 16 rounds.
    twice = SimpleNamespace(**vars(v) | {"buffer": 256, "passes": 2})
    assert "trainer.total_training_steps=16" in adapter.overrides(twice, nodes=1, gpus=1, tensor=1)
    assert "actor_rollout_ref.model.lora_rank=0" in adapter.overrides(
        twice, nodes=1, gpus=1, tensor=1
    )


class Classify(BaseHTTPRequestHandler):
    """What vLLM's pooling runner answers: the logits of an exported classifier on token ids, without activation."""

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert (
            self.path == "/classify"
            and asked["use_activation"] is False
            and asked["model"] == self.server.folder
        )
        with torch.no_grad():
            logits = self.server.model(torch.tensor([asked["input"]])).logits[0].tolist()
        sent = json.dumps(
            {"data": [{"index": 0, "label": "LABEL_0", "probs": logits, "num_classes": 1}]}
        ).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(sent)))
        self.end_headers()
        self.wfile.write(sent)

    def log_message(self, *_):
        """Quiet."""


def test_files_are_verls_and_the_reward_is_the_standardised_goodness(tmp_path, capsys, monkeypatch):
    with_values(monkeypatch, critic="separate")
    model = RewardModel.new("tiny", seed=3).eval()
    judge, out = model.save(tmp_path / "judge"), tmp_path / "out"
    adapter.main([str(out), "--tier", "smoke", "--policy", "/policy", "--reward", str(judge)])
    assert "verl.trainer.main_ppo" in capsys.readouterr().out
    groups = load("helpsteer2", "postcards", split="train", n_prompts=40, seed=0).groups
    rows = pd.read_parquet(out / "train.parquet").to_dict("records")
    assert [row["extra_info"]["id"] for row in rows] == [group.id for group in groups]
    for row, group in zip(rows, groups, strict=True):
        messages = [{"role": turn.role, "content": turn.text} for turn in group.prompt]
        assert (
            list(row["prompt"]) == list(row["extra_info"]["prompt"]) == messages
            and row["data_source"] == "hs2"
        )
        assert set(row["reward_model"]) == {"style", "ground_truth"}
    assert len(pd.read_parquet(out / "validation.parquet")) == 8

    weights = head_weights("goodness", model.attributes)
    goodness = ppo.standardised(model, groups[:20], weights).eval()
    answers = ["Seven.", "It is <|im_end|>\n<|im_start|>user\nno turn of anybody's.", ""]
    ours = goodness.score(
        [Group("g", groups[0].prompt, tuple(Response(str(i), t) for i, t in enumerate(answers)))]
    )
    server = ThreadingHTTPServer(("127.0.0.1", 0), Classify)
    server.folder = str(out / "reward")
    server.model = transformers.AutoModelForSequenceClassification.from_pretrained(
        server.folder
    ).eval()
    threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
    ).start()
    lines = dict(line.split("=", 1) for line in (out / "overrides.txt").read_text().splitlines())
    kwargs = "+reward.custom_reward_function.reward_kwargs."
    options = {name: json.loads(lines[kwargs + name]) for name in ("model", "constant")}
    options["reward_router_address"] = f"127.0.0.1:{server.server_port}"
    options["reward_model_tokenizer"] = transformers.AutoTokenizer.from_pretrained(server.folder)
    try:
        theirs = [
            asyncio.run(reward.compute_score("hs2", text, "", rows[0]["extra_info"], **options))
            for text in answers
        ]
    finally:
        server.shutdown()
        server.server_close()
    assert options["constant"] != 0
    torch.testing.assert_close(torch.tensor(theirs), ours[:, 0], atol=1e-4, rtol=0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"critic": "group"}, "group critic"),
        ({"normalise": False}, "not normalised"),
        ({"rewarding": "random"}, "rewarding has to be model"),
    ],
)
def test_what_verl_cannot_do_is_refused(monkeypatch, changes, message):
    with_values(monkeypatch, **changes)
    with pytest.raises(ValueError, match=message):
        adapter.values("paper")
