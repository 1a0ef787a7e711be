"""Training shared out over two processes by FSDP2 is training in one: losses, tied weights,
checkpoints, memory.

Run as a script, in two processes, this file trains; pytest compares what the script wrote with runs
of its own.
"""

import contextlib
import json
import os
import shutil
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import ClassVar

import forked
import numpy as np
import pandas as pd
import pytest
import safetensors
import torch
import vllm_server
from safetensors import safe_open
from safetensors.torch import load_file
from tiny_training import made, recipe, run_folder, setup_in, tiny
from torch.distributed.tensor import DTensor
from transformers import TrainerCallback

from hs2lib.align import dpo, sft, steerlm, steerlm2
from hs2lib.data.load import Loaded
from hs2lib.data.pairs import load_pairs
from hs2lib.engine import checkpoints
from hs2lib.evaluate import rewardbench
from hs2lib.models import baselines, rollout
from hs2lib.models.backbones import STREAM, tiny_model
from hs2lib.models.policy import Policy, load_policy
from hs2lib.models.reward_model import RewardModel
from hs2lib.models.rollout import rollouts
from hs2lib.train import objectives
from hs2lib.train.items import rated
from hs2lib.train.objectives import REGRESSION
from hs2lib.train.recipes import SteerLM2
from hs2lib.train.trainer import fit
from hs2lib.world import sets


def held(tensors) -> int:
    """Bytes of tensors that lie in this process."""
    return sum((t.to_local() if isinstance(t, DTensor) else t).nbytes for t in tensors)


FROZEN = []  # models that score beside the one that is trained


class Held(TrainerCallback):
    """Most bytes of weights, gradients and optimiser states that this process held at a step, those
    of `FROZEN` models among them; stops after `stop`."""

    def __init__(self, stop=0):
        self.most, self.stop = 0, stop

    def on_pre_optimizer_step(self, args, state, control, model=None, optimizer=None, **kwargs):
        grads = [p.grad for p in model.parameters() if p.grad is not None]
        states = [v for one in optimizer.state.values() for v in one.values() if torch.is_tensor(v)]
        frozen = [parameter for one in FROZEN for parameter in one.parameters()]
        self.most = max(self.most, held([*model.parameters(), *grads, *states, *frozen]))

    def on_step_end(self, args, state, control, **kwargs):
        if self.stop and state.global_step >= self.stop:
            raise KeyboardInterrupt


@cache
def preferences():
    """Pairs of the small world, for DPO."""
    return dpo.by_attribute(sets.groups(24, seed=1))[0][:12]


def policy_items(method):
    policy = load_policy(tiny_model() if "streamed" in method else "tiny")
    if (
        method == "dpo"
    ):  # processes whose weights and references differ, by more than any two devices do
        off = 1e-3 * int(os.environ.get("RANK", "0"))
        with torch.no_grad():
            policy.backbone.model.norm.weight += 1e-3 * off
        items = [
            replace(item, targets=item.targets + off)
            for item in dpo.items(policy, preferences())[0]
        ]
        return policy, items, objectives.dpo(0.1)
    return (
        policy,
        sft.items(policy, sft.best_paths(sets.groups(12, seed=1)))[0],
        objectives.sft(),
    )


def as_notebook(number: str, folder: Path, callbacks, changes: dict) -> None:
    """What a notebook does with its models up to the training: they score first, then adapters are trained."""
    groups = list(sets.groups(12, seed=1))
    judge, changes = (
        RewardModel.new(tiny_model(), seed=1),
        {"batch": 4, "steps": 2, "save_every": 1} | changes,
    )
    if number == "05":
        items, _ = rated(judge, groups)
        states = baselines.frozen_states(judge, items, cache=folder)
        baselines.start_head(judge, states, baselines.targets(items)[0], 1.0)
        fit(
            judge.lora(4, 8.0),
            items,
            items[:4],
            REGRESSION,
            recipe(**changes),
            folder,
            callbacks=callbacks,
        )
        return
    FROZEN.append(judge)
    policy = load_policy(tiny_model())
    if number == "08":
        items, _ = dpo.items(policy, preferences(), cache=folder)
        fit(
            policy.lora(4, 8.0),
            items,
            [],
            objectives.dpo(0.1),
            recipe(**changes),
            folder,
            callbacks=callbacks,
        )
    elif number == "11":
        answers = steerlm.label(steerlm.answers(groups), judge, file=folder / "labelled.jsonl")
        with torch.no_grad():  # two tokens of the label line that look the same
            table = checkpoints.full_tensor(
                policy.backbone.get_input_embeddings().weight.detach()
            ).clone()
            same = policy.tokenizer("helpfulness", add_special_tokens=False)["input_ids"][:2]
            table[same[1]] = table[same[0]]
            checkpoints.fill_parameter(policy.backbone.get_input_embeddings().weight, table)
        assert steerlm.tell_apart(policy, "helpfulness:4") == 2
        items = steerlm.items(policy, answers)
        fit(
            policy,
            items,
            [],
            objectives.sft(),
            recipe(keep=0, **changes),
            folder,
            callbacks=callbacks,
        )
    else:
        prior = load_policy(tiny_model())
        FROZEN.append(prior)
        own = {
            "n_samples": 2,
            "max_new_tokens": 6,
            "method": "lora",
            "lora_rank": 4,
            "learning_rate": 1e-2,
        }
        settings = SteerLM2(**vars(recipe(**changes)) | own | {"batch": 2})
        loaded = Loaded(groups, "own", True)
        prompts = steerlm2.Prompts(
            loaded, False, groups[8:10], groups[:8], [groups[:4], groups[4:8]]
        )
        setup = setup_in(folder, settings)
        history = steerlm2.iterate(
            policy, prior, judge, prompts, setup, callbacks=lambda: callbacks
        )
        samples = [one.read.sequences for each in history.iterations for one in each.training]
        (folder / "samples.json").write_text(json.dumps(samples))


def train(name: str, folder: Path, callbacks=(), **changes) -> None:
    """One of the runs that are compared; `changes` of the recipe."""
    changes = {"learning_rate": 1e-3} | changes
    if name[:2].isdigit():
        as_notebook(name[:2], folder / name, callbacks, changes)
    elif name.startswith("reward"):
        changes |= {"autocast": "bfloat16"} if "bfloat16" in name else {}
        changes |= {"checkpointing": True} if "checkpointing" in name else {}
        model = tiny().lora(4, 8.0) if "lora" in name else tiny()
        fit(
            model,
            made(20),
            made(6, 1),
            REGRESSION,
            recipe(**changes),
            folder / name,
            callbacks=callbacks,
        )
    else:
        policy, made_items, objective = policy_items(name)
        changes |= {"batch": 4, "steps": 4, "keep": 0}
        fit(
            policy, made_items, [], objective, recipe(**changes), folder / name, callbacks=callbacks
        )


# Streamed: every model is read in parts and lies in parts, those too that only score; how many
# models are read.
STREAMED = {
    "sft streamed": 1,
    "05 streamed": 1,
    "08 streamed": 2,
    "11 streamed": 2,
    "12 streamed": 3,
}
NAMES = ("reward", "reward bfloat16", "reward lora checkpointing", "dpo", *STREAMED)


class Counted:
    """A safetensors file whose slices are counted as they are read: bytes of each, and its tensor's rows."""

    read: ClassVar[list[tuple[str, int, int, int]]] = []

    def __init__(self, filename, framework):
        self.file = safe_open(filename, framework)

    def __enter__(self):
        self.opened = self.file.__enter__()
        return self

    def __exit__(self, *error):
        return self.file.__exit__(*error)

    def __getattr__(self, name):
        return getattr(self.opened, name)

    def get_slice(self, name):
        class Slice:
            get_shape = self.opened.get_slice(name).get_shape
            get_dtype = self.opened.get_slice(name).get_dtype

            def __getitem__(_, part):
                value = self.opened.get_slice(name)[part]
                if part:
                    Counted.read.append((name, part[0].start, part[0].stop, value.nbytes))
                return value

        return Slice()


def asked_and_scored(folder: Path) -> None:
    """What this process samples from a server, by a policy in parts and by a whole one, and what it scores."""
    prompts, texts = list(sets.groups(3, seed=1)), []
    model = RewardModel.new(tiny_model(), seed=1)
    values = rewardbench.score(
        load_pairs("postcards", n_per_section=4), model, kept=folder / "scores.jsonl"
    ).values
    for streamed in ("1", ""):
        os.environ[STREAM] = streamed
        policy = load_policy(tiny_model())
        assert bool(policy.root) == bool(streamed)
        how = HOW | {"backend": "vllm", "batch": 4}
        sampled = rollouts(policy, prompts, file=folder / f"samples{streamed}.jsonl", **how)
        texts.append([response.text for group in sampled for response in group.responses])
    rank = torch.distributed.get_rank()
    (folder / f"asked-{rank}.json").write_text(
        json.dumps({"texts": texts, "scores": values.tolist()})
    )


HOW = dict(n=2, max_new_tokens=6, seed=0, progress=False)


def shared_out(folder: Path) -> None:
    """What whole models sample and score in this process, and how many responses it computed for that."""
    policy, model, computed = load_policy(tiny_model()), RewardModel.new(tiny_model(), seed=1), []
    predict = model.predict
    model.predict = lambda states: computed.append(len(states)) or predict(states)
    sampled = rollouts(policy, list(sets.groups(5, seed=1)), file=folder / "mine.jsonl", **HOW)
    scores = model.score(sampled, budget=64, cache=folder / "mine").tolist()
    texts = [response.text for group in sampled for response in group.responses]
    rank = torch.distributed.get_rank()
    (folder / f"mine-{rank}.json").write_text(
        json.dumps({"texts": texts, "scores": scores, "computed": sum(computed)})
    )


def evaluated(folder: Path) -> pd.DataFrame:
    """What the end of notebooks 05 and 07 to 12 does: answers, their scores, log-probabilities, and a saved model."""
    policy, judge = load_policy(tiny_model()), RewardModel.new(tiny_model(), seed=1)
    prompts, kept = list(sets.groups(3, seed=1)), folder / "kept"
    policy.lora(4, 8.0)
    sampled = rollouts(policy, prompts, file=kept / "answers.jsonl", **HOW)
    scores = judge.score(sampled, cache=kept / "scores")
    log_probs, _ = policy.log_probs(sampled, cache=kept / "log-probs")
    frame = pd.DataFrame(scores.double().numpy(), columns=judge.attributes)
    frame["log_prob"] = log_probs.double().numpy()
    frame["text"] = [response.text for group in sampled for response in group.responses]
    judge.lora(4, 8.0)
    for model in (policy, judge) if policy.root else ():
        checkpoints.shard(model)  # as a training does
    policy.merge().save(folder / "policy")
    judge.save(folder / "adapters")
    return frame


def main(folder: Path) -> None:
    """All runs in this process as one of several, and one more that ends after step 3 and is begun again."""
    torch.set_num_threads(1)
    safetensors.safe_open = Counted  # torch's reader takes it from there
    for name in NAMES:
        held = Held()
        os.environ |= {STREAM: "1"} if name in STREAMED else {}
        train(name, folder, [held], fsdp=True)
        rank = torch.distributed.get_rank()
        (folder / f"{name}-{rank}.json").write_text(json.dumps(held.most))
        (folder / f"read {name}-{rank}.json").write_text(json.dumps(Counted.read))
        Counted.read.clear()
        FROZEN.clear()
    with contextlib.suppress(KeyboardInterrupt):
        train("reward", folder / "by two", [Held(stop=3)], fsdp=True)
    if rank == 0:
        shutil.copytree(folder / "by two", folder / "by one")
    torch.distributed.barrier()
    train("reward", folder / "by two", fsdp=True)
    asked_and_scored(folder)
    shared_out(folder)
    os.environ[STREAM] = "1"
    evaluated(folder).to_csv(folder / f"evaluated-{rank}.csv", index=False)
    torch.distributed.destroy_process_group()


def history(folder: Path, key: str) -> np.ndarray:
    rows = json.loads((run_folder(folder) / "done.json").read_text())["history"]
    return np.array([row[key] for row in rows if key in row])


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """Folders of the same runs by one process and by two."""
    one, two = tmp_path_factory.mktemp("one"), tmp_path_factory.mktemp("two")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    tiny_model()  # made once, before several processes look for it
    with vllm_server.serve(two / "served") as server, pytest.MonkeyPatch.context() as patch:
        patch.setenv("HS2_VLLM_URL", server.url)
        patch.setenv("HS2_VLLM_FOLDER", str(two / "served"))
        forked.together(2, __file__, two)
    (two / "server.json").write_text(json.dumps([len(server.bodies), server.steps]))
    for name in NAMES:
        held = Held()
        train(name, one, [held])
        (one / f"{name}.json").write_text(json.dumps(held.most))
        FROZEN.clear()
    yield one, two
    torch.set_num_threads(threads)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_two_processes_train_as_one(both, name):
    """Losses, gradient norms and what is written at the end; bfloat16 rounds the gathered weights besides."""
    one, two = (folder / name / ("iteration-2" if name == "12 streamed" else "") for folder in both)
    room = {"rtol": 3e-3, "atol": 1e-3} if "bfloat16" in name else {"rtol": 1e-4, "atol": 1e-6}
    for key in ("loss", "grad_norm", "eval_loss"):
        np.testing.assert_allclose(history(two, key), history(one, key), **room, err_msg=key)
    (mine,), (theirs,) = (list(run_folder(x).rglob("model.safetensors"))[:1] for x in (one, two))
    mine, theirs = load_file(mine), load_file(theirs)
    assert mine.keys() == theirs.keys()
    for key in mine:
        torch.testing.assert_close(
            theirs[key], mine[key], rtol=1e-2, atol=1e-2 if "bfloat16" in name else 2e-4
        )


@pytest.mark.slow
def test_the_first_dpo_loss_is_the_logarithm_of_two(both):
    for folder in both:
        assert history(folder / "dpo", "loss")[0] == pytest.approx(np.log(2), abs=1e-5)


@pytest.mark.slow
def test_tied_embeddings_stay_one_tensor(both):
    """The vocabulary projection of the tiny policy is its embedding: written once."""
    (file,) = run_folder(both[1] / "dpo").rglob("model.safetensors")
    assert sum("embed" in key or "lm_head" in key for key in load_file(file)) == 1


@pytest.mark.slow
@pytest.mark.parametrize("name", STREAMED)
def test_each_process_reads_its_own_rows_and_no_byte_is_read_twice(both, name):
    """Weights that each process reads whole are 2.3 TB a node at 70B; here the bytes read are counted, once a model."""
    weights = load_file(tiny_model() / "model.safetensors")
    read = [json.loads((both[1] / f"read {name}-{rank}.json").read_text()) for rank in (0, 1)]
    read = [
        [row for row in part if row[0] in weights] for part in read
    ]  # not the checkpoints of the run
    rows = {
        name: [row for part in read for n, a, b, _ in part if n == name for row in range(a, b)]
        for name in weights
    }
    models = STREAMED[name]
    assert {n: sorted(r) for n, r in rows.items()} == {
        n: sorted([*range(len(v))] * models) for n, v in weights.items()
    }
    whole = models * sum(value.nbytes for value in weights.values())
    shares = [sum(size for *_, size in part) / whole for part in read]
    assert sum(shares) == 1 and max(shares) < 0.51


@pytest.mark.slow
def test_a_policy_that_lies_in_parts_samples_as_a_whole_one(both):
    """Notebook 12's two iterations: in the second it samples with adapters merged into weights that lie in parts."""
    one, two = (folder / "12 streamed" for folder in both)
    assert json.loads((one / "samples.json").read_text()) == json.loads(
        (two / "samples.json").read_text()
    )
    names = [
        sorted(file.name for file in folder.rglob("iteration-1/**/*.jsonl"))
        for folder in (one, two)
    ]
    assert names[0] == names[1] and len(names[0]) == 3, (
        "by the weights: samples, scores, log-probabilities"
    )


@pytest.mark.slow
def test_a_server_is_asked_once_for_all_processes(both):
    """Each would have asked for the same samples; weights that lie in parts are written whole for the server."""
    texts = [json.loads((both[1] / f"asked-{rank}.json").read_text())["texts"] for rank in (0, 1)]
    assert texts[0] == texts[1] and texts[0][0] == texts[0][1] and len(set(texts[0][0])) == 6
    assert json.loads((both[1] / "server.json").read_text()) == [2 * 6, vllm_server.STEPS], (
        "of one policy, read once"
    )
    served, whole = (
        load_file(folder / "model.safetensors") for folder in (both[1] / "served", tiny_model())
    )
    assert served.keys() == whole.keys() and all(
        torch.equal(served[name], whole[name]) for name in whole
    )


@pytest.mark.slow
def test_what_two_processes_evaluate_and_export_in_parts_one_reads(both, monkeypatch):
    """The stages `evaluate` and `export`: a notebook afterwards computes nothing, and loads what was saved."""
    frames = [pd.read_csv(both[1] / f"evaluated-{rank}.csv") for rank in (0, 1)]
    policy, judge = load_policy(both[1] / "policy"), RewardModel.load(both[1] / "adapters")
    whole = load_policy(tiny_model())
    assert all(
        torch.equal(a, b) for a, b in zip(policy.parameters(), whole.parameters(), strict=True)
    )
    assert judge.adapter["rank"] == 4 and (both[1] / "policy" / "generation_config.json").is_file()

    def refuse(*task, **options):
        raise AssertionError("computed again")

    for owner, name in (
        (Policy, "_computed"),
        (RewardModel, "_computed"),
        (rollout, "_transformers"),
    ):
        monkeypatch.setattr(owner, name, refuse)
    again = evaluated(both[1])
    for frame in frames:
        pd.testing.assert_frame_equal(frame, again, check_dtype=False)


@pytest.mark.slow
def test_whole_models_share_out_what_they_sample_and_score(both):
    """Each prompt is sampled once over both processes, each batch scored by one; all have all, as one process has."""
    sampled = rollouts(load_policy(tiny_model()), list(sets.groups(5, seed=1)), **HOW)
    scores = RewardModel.new(tiny_model(), seed=1).score(sampled)
    mine = [json.loads((both[1] / f"mine-{rank}.json").read_text()) for rank in (0, 1)]
    for each in mine:
        assert each["texts"] == [response.text for group in sampled for response in group.responses]
        np.testing.assert_allclose(each["scores"], scores, rtol=1e-4, atol=1e-6)
    rows = [json.loads(line) for line in (both[1] / "mine.jsonl").read_text().splitlines()]
    assert (
        len([row for row in rows if "key" in row])
        == len({row["key"] for row in rows if "key" in row})
        == 10
    )
    assert (
        max(each["computed"] for each in mine) <= 6 and sum(each["computed"] for each in mine) <= 12
    )


@pytest.mark.slow
def test_a_reward_model_that_lies_in_parts_scores_as_a_whole_one(both):
    """Notebook 06's stage `score`: both processes have all scores, and one of them keeps each response's once."""
    pairs = load_pairs("postcards", n_per_section=4)
    whole = rewardbench.score(pairs, RewardModel.new(tiny_model(), seed=1)).values
    for rank in (0, 1):
        parts = json.loads((both[1] / f"asked-{rank}.json").read_text())["scores"]
        np.testing.assert_allclose(parts, whole, rtol=1e-4, atol=1e-6)
    texts = {(pair.prompt, answer.text) for pair in pairs.pairs for answer in pair.responses}
    assert len((both[1] / "scores.jsonl").read_text().splitlines()) == 1 + len(texts)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["reward", "dpo", *STREAMED])
def test_each_process_holds_half(both, name):
    one, two = both
    whole = json.loads((one / f"{name}.json").read_text())
    shares = [json.loads((two / f"{name}-{rank}.json").read_text()) / whole for rank in (0, 1)]
    assert max(shares) < 0.6 and sum(shares) >= 0.99


@pytest.mark.slow
def test_one_or_two_processes_go_on(both):
    """Two processes stop after step 3 (the last checkpoint is of step 2); others end as the run that nobody stopped."""
    train("reward", both[1] / "by one", fsdp=True)
    for name in ("by one", "by two"):
        losses = history(both[1] / name / "reward", "loss")
        np.testing.assert_allclose(
            losses, history(both[0] / "reward", "loss"), rtol=1e-4, err_msg=name
        )


@pytest.mark.slow
def test_a_run_goes_on_as_it_began(tmp_path):
    """Parts of a sharded model are no whole file, and the other way round: said, and nothing is trained."""
    with pytest.raises(KeyboardInterrupt):
        train("reward", tmp_path, [Held(stop=3)])
    with pytest.raises(
        ValueError, match=r"checkpoint-2 was written without fsdp: go on without it, or delete"
    ):
        train("reward", tmp_path, fsdp=True)


def test_tensors_are_written_and_filled_again(tmp_path):
    weights = {
        "a": torch.randn(3, 5),
        "b.c": torch.randn(7, dtype=torch.bfloat16),
        "d": torch.randn(4, 2).T,
    }
    checkpoints.write(weights, tmp_path / "w.safetensors")
    back = load_file(tmp_path / "w.safetensors")
    assert back.keys() == weights.keys() and all(torch.equal(back[k], weights[k]) for k in weights)
    filled = {name: torch.zeros(weight.shape) for name, weight in weights.items()}
    checkpoints.read_tensors(filled, tmp_path)
    assert all(torch.equal(filled[k], weights[k].float()) for k in weights)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
