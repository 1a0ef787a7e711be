"""A tiny random model, random items and a recipe: what the tests of training train."""

import time
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path

import numpy as np
import torch
from transformers import LlamaConfig, LlamaModel, TrainerCallback

from hs2lib.models.reward_model import RewardModel
from hs2lib.runs.setup import Setup
from hs2lib.train.items import Item
from hs2lib.train.trainer import Recipe

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
        sequences = tuple(
            prompt + rng.integers(0, 64, rng.integers(1, 15)).tolist() for _ in range(size)
        )
        out.append(Item(f"{seed}-{i:03d}", sequences, targets, (len(prompt),) * size))
    return out


def recipe(**changes) -> Recipe:
    """Eight groups a step, at a rate that moves a tiny model, in float32."""
    defaults = {
        "steps": STEPS,
        "batch": 8,
        "learning_rate": 1e-2,
        "autocast": "float32",
        "validate_every": 2,
    }
    return Recipe(**defaults | {"save_every": 2, "warmup": 2} | changes)


@dataclass(frozen=True)
class Placed(Setup):
    """A setup whose folder is a test's own."""

    place: Path = Path()

    @property
    def folder(self) -> Path:
        return self.place


def setup_in(folder: Path, recipe: Recipe, notebook: str = "07_sft") -> Setup:
    """The setup of a stage that works in this folder."""
    return Placed(notebook, "smoke", {}, recipe, folder)


def run_folder(parent: Path) -> Path:
    """The folder of the one run under `parent`."""
    (folder,) = parent.glob("training-*")
    return folder


class Slow(TrainerCallback):
    """Time to be killed in, and a file with a byte for each step done: its size is never half written."""

    def __init__(self, folder: Path):
        self.folder = folder

    def on_step_end(self, args, state, control, **kwargs):
        with (self.folder / "reached").open("a") as steps:
            steps.write(".")
        time.sleep(0.3)


def kill_at_step(process: BaseProcess, folder: Path, step: int) -> None:
    """SIGKILL for a process that trains beside `Slow`, once it has done the step."""
    reached, patience = folder / "reached", time.time() + 90
    while not (reached.exists() and reached.stat().st_size >= step):
        assert process.exitcode is None and time.time() < patience
        time.sleep(0.02)
    process.kill()
    process.join()
