"""Training over processes: however a global batch is cut up it is one step; a killed run ends as a straight one.

Run as a script (by torchrun, or to be killed) this file trains; pytest compares what the scripts wrote.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import LlamaConfig, LlamaModel, TrainerCallback

from hs2lib.models.reward_model import RewardModel
from hs2lib.train.items import Item
from hs2lib.train.objectives import REGRESSION
from hs2lib.train.trainer import Recipe, fit

STEPS = 6


def tiny(attributes=("helpfulness", "verbosity"), **shape) -> RewardModel:
    """A random decoder of 5,000 parameters with a head; no tokenizer, because the items are tokens already."""
    size = {"vocab_size": 64, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2}
    size |= {"num_attention_heads": 2, "num_key_value_heads": 1, "max_position_embeddings": 256}
    torch.manual_seed(0)
    return RewardModel(LlamaModel(LlamaConfig(**size | shape)), None, attributes)


def made(n: int, seed: int = 0, k: int = 2) -> list[Item]:
    """Groups of one to three random responses; a fifth of the labels is missing, so that parts weigh unequally."""
    rng = np.random.default_rng(seed)
    out = []
    for i in range(n):
        prompt, size = rng.integers(0, 64, rng.integers(1, 20)).tolist(), int(rng.integers(1, 4))
        targets = rng.integers(0, 5, (size, k)).astype(np.float32)
        targets[rng.random((size, k)) < 0.2] = -100
        targets[0, 0] = 3.0
        sequences = tuple(prompt + rng.integers(0, 64, rng.integers(1, 15)).tolist() for _ in range(size))
        out.append(Item(f"{seed}-{i:03d}", sequences, targets, (len(prompt),) * size))
    return out


def recipe(**changes) -> Recipe:
    """Eight groups a step, at a rate that moves a tiny model, in float32."""
    defaults = {"steps": STEPS, "batch": 8, "learning_rate": 1e-2, "autocast": "float32", "validate_every": 2}
    return Recipe(**defaults | {"save_every": 2, "warmup": 2} | changes)


def curve(folder: Path) -> np.ndarray:
    """(loss, gradient norm) of each step, and below them (validation loss, 0) of each validation."""
    history = json.loads((folder / "done.json").read_text())["history"]
    rows = [(x["loss"], x["grad_norm"]) for x in history if "loss" in x]
    return np.array(rows + [(x["eval_loss"], 0.0) for x in history if "eval_loss" in x])


class _Slow(TrainerCallback):
    """Time to be killed in, and a file that says which step was reached."""

    def __init__(self, folder: Path):
        self.folder = folder

    def on_step_end(self, args, state, control, **kwargs):
        (self.folder / "reached").write_text(str(state.global_step))
        time.sleep(0.3)


def train(folder: Path, accumulation: int = 1, callbacks=()) -> None:
    """The run that all tests here compare."""
    fit(tiny(), made(20), made(6, 1), REGRESSION, recipe(accumulation=accumulation), folder, callbacks=callbacks)


def main(folder: Path, slow: bool) -> None:
    """One slow run, to be killed; or, as one of two processes under torchrun, 2 x 4 x 1 and 2 x 1 x 4."""
    torch.set_num_threads(1)
    if slow:
        folder.mkdir(parents=True, exist_ok=True)
        train(folder, callbacks=[_Slow(folder)])
    else:
        train(folder / "2x4x1")
        train(folder / "2x1x4", accumulation=4)


ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}


@pytest.fixture(scope="module")
def straight(tmp_path_factory):
    """A run of one process, each global batch at once: 1 x 8 x 1."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("straight") / "run"
    train(folder)
    yield folder
    torch.set_num_threads(threads)


def test_processes_batch_and_accumulation_give_one_loss_and_one_gradient(straight, tmp_path):
    """transformers' own scaling multiplies loss and gradient of a regression by accumulation x processes, and a mean of
    each part's mean weighs the labels unequally: both would show in the first step."""
    expected = curve(straight)
    assert len(expected) == STEPS + 1 + STEPS // 2  # every step; validation at the start and after every second step
    train(tmp_path / "1x2x4", accumulation=4)
    # `accelerate launch --cpu --num_processes 2` would silently run one process.
    launch = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone"]
    done = subprocess.run([*launch, __file__, str(tmp_path), "0"], env=ENVIRONMENT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    for name in ("1x2x4", "2x4x1", "2x1x4"):
        np.testing.assert_allclose(curve(tmp_path / name), expected, rtol=2e-5, err_msg=name)


@pytest.mark.parametrize("at", [1, 3])
def test_killed_and_resumed_is_straight_training_bit_for_bit(straight, tmp_path, at):
    """SIGKILL before the first checkpoint (at step 2) and after it: the weights, the history and the best checkpoint
    must be those of the run that nobody disturbed."""
    folder = tmp_path / "run"
    launch = [sys.executable, __file__, str(folder), "1"]
    process = subprocess.Popen(launch, env=ENVIRONMENT, stderr=subprocess.DEVNULL)
    reached, patience = folder / "reached", time.time() + 60
    while not (reached.exists() and reached.read_text() and int(reached.read_text()) >= at):
        assert process.poll() is None and time.time() < patience
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (folder / "done.json").exists()
    (folder / ".writing-checkpoint-4").mkdir()  # what a kill in the middle of saving leaves
    (folder / ".writing-checkpoint-4" / "optimizer.pt").write_bytes(b"half")
    train(folder)
    np.testing.assert_array_equal(curve(folder), curve(straight))
    saved = sorted(path.relative_to(straight) for path in straight.rglob("*.safetensors"))
    assert saved == sorted(path.relative_to(folder) for path in folder.rglob("*.safetensors"))
    for path in saved:
        assert (folder / path).read_bytes() == (straight / path).read_bytes(), path


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2] == "1")
