"""Checkpoints: weights that training changes, in folders that appear whole."""

import json
import os
import shutil
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import nn
from torch.optim.lr_scheduler import LambdaLR
from transformers import Trainer

from hs2lib.train import shard

WEIGHTS = "model.safetensors"


def best(folder: Path) -> dict[str, float]:
    """The validation loss of each checkpoint under `folder`/best, by its name."""
    files = sorted((folder / "best").glob("step-*/best.json"))
    return {file.parent.name: json.loads(file.read_text())["validation loss"] for file in files}


def trained(model: nn.Module) -> list[str]:
    """Names of the parameters that training changes."""
    return [name for name, parameter in model.named_parameters() if parameter.requires_grad]


def load_weights(model: nn.Module, folder: Path) -> None:
    """Put saved weights into the model, in place. Raises ValueError where they are not exactly those it trains."""
    weights = load_file(folder / WEIGHTS)
    own = {name: parameter.shape for name, parameter in model.named_parameters() if parameter.requires_grad}
    if wrong := own.items() ^ {name: value.shape for name, value in weights.items()}.items():
        raise ValueError(f"{folder} holds the weights of another model: {min(wrong)[0]} differs")
    model.load_state_dict(weights, strict=False)


def save_weights(model: nn.Module, folder: Path, writes: bool = True) -> None:
    """Write the parameters that training changes; of a model with adapters a few megabytes, its base is known by name.

    Of a sharded model one is gathered at a time; all processes call this alike, and one of them writes.
    """
    folder.mkdir(parents=True, exist_ok=True)
    shard.export(((k, p) for k, p in model.named_parameters() if p.requires_grad), folder / WEIGHTS, writes)


def last(folder: Path) -> Path | None:
    """The checkpoint to go on from, None before the first."""
    return max(folder.glob("checkpoint-*"), key=step, default=None)


def step(folder: Path) -> int:
    """The number of steps in the name of a checkpoint."""
    return int(folder.name.rpartition("-")[2])


def move(staging: Path, target: Path) -> None:
    """Give a folder that has been written its name, in place of what had it."""
    target.parent.mkdir(exist_ok=True)
    shutil.rmtree(target, ignore_errors=True)
    os.replace(staging, target)


class WholeCheckpoints(Trainer):
    """transformers' Trainer with checkpoints of what is trained, whole or not at all, and the reference's warm-up."""

    whole = True  # whether checkpoints are whole files of one process, not parts of a sharded model
    staging: Path | None = None  # where a checkpoint is being written

    def rate(self, step: int, steps: int) -> float:
        # As the reference code warms up: the first step already moves (transformers' own begins with a rate of 0).
        return min(1.0, (step + 1) / (self.args.warmup_steps + 1))

    def create_scheduler(self, num_training_steps, optimizer=None):
        optimizer = self.optimizer if optimizer is None else optimizer
        self.lr_scheduler = LambdaLR(optimizer, lambda step: self.rate(step, num_training_steps))
        self._created_lr_scheduler = True
        return self.lr_scheduler

    def _save_checkpoint(self, model, trial):
        folder, name = Path(self.args.output_dir), f"checkpoint-{self.state.global_step}"
        self.staging = self._staging(name)
        Trainer._save_checkpoint(self, model, trial)  # into `_get_output_dir`, and without a subclass's model card
        self.accelerator.wait_for_everyone()
        if self.args.should_save:
            older = [path for path in folder.glob("checkpoint-*") if path.name != name]
            move(self.staging / name, folder / name)
            for path in [*older, self.staging]:
                shutil.rmtree(path, ignore_errors=True)
        self.accelerator.wait_for_everyone()
        self.staging = None

    def _get_output_dir(self, trial=None):
        return str(self.staging or self.args.output_dir)

    def _staging(self, name: str) -> Path:
        """A fresh folder for what is being written; it gets its name when it is whole."""
        staging = Path(self.args.output_dir) / f".writing-{name}"
        if self.args.should_save:
            shutil.rmtree(staging, ignore_errors=True)  # what a killed process left
            staging.mkdir(parents=True)
        self.accelerator.wait_for_everyone()
        return staging

    def _save(self, output_dir=None, state_dict=None):
        if self.whole and self.args.should_save:
            save_weights(self.model, Path(output_dir))

    def _save_optimizer_and_scheduler(self, output_dir):
        if self.whole:
            return super()._save_optimizer_and_scheduler(output_dir)
        shard.save(self.model, self.optimizer.optimizer, Path(output_dir))
        if self.args.should_save:
            torch.save(self.lr_scheduler.state_dict(), Path(output_dir) / "scheduler.pt")

    def _load_from_checkpoint(self, resume_from_checkpoint, model=None):
        if self.whole:
            load_weights(self.model, Path(resume_from_checkpoint))

    def _load_optimizer_and_scheduler(self, checkpoint):
        if self.whole or checkpoint is None:
            return super()._load_optimizer_and_scheduler(checkpoint)
        shard.load(self.model, self.optimizer.optimizer, Path(checkpoint))  # the weights too
        self.lr_scheduler.load_state_dict(torch.load(Path(checkpoint) / "scheduler.pt", weights_only=True))
        for group, rate in zip(self.optimizer.param_groups, self.lr_scheduler.get_last_lr(), strict=True):
            group["lr"] = rate
