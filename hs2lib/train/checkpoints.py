"""Checkpoints: weights that training changes, in folders that appear whole; or shared out over
processes (FSDP2).

    torchrun --nproc-per-node 8 -m hs2lib.run --stage train --tier paper 05  # recipe.fsdp: true

Shared out (`shard`), each layer is a unit of its own, gathered just before it computes. Gathered
weights of layers are bfloat16 under bf16 autocast; embeddings, the final norm and heads stay
float32, so that a head still tells close responses apart, tied embeddings stay one tensor, and
outputs are never rounded. Gradients are summed in float32. Each process writes its own part, as
safetensors, and any number of processes can go on.

Paper: silent (the reference code uses tensor and pipeline parallelism).
"""

import copy
import hashlib
import json
import math
import os
import shutil
from collections.abc import Iterable
from pathlib import Path

import torch
from accelerate import PartialState, init_empty_weights
from safetensors import safe_open
from torch import nn
from torch.distributed import checkpoint
from torch.distributed.checkpoint import state_dict as states
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor
from torch.optim.lr_scheduler import LambdaLR
from transformers import Trainer

from hs2lib.engine.attention import prepare, unprepare
from hs2lib.engine.contract import out_of_memory

WEIGHTS, PARTS = "model.safetensors", "sharded"

_FLAT = states.StateDictOptions(ignore_frozen_params=True, flatten_optimizer_state_dict=True)


def best(folder: Path) -> dict[str, float]:
    """The validation loss of each checkpoint under `folder`/best, by its name."""
    files = sorted((folder / "best").glob("step-*/best.json"))
    return {file.parent.name: json.loads(file.read_text())["validation loss"] for file in files}


def load_weights(model: nn.Module, folder: Path) -> None:
    """Put saved weights into the model, in place. Raises ValueError where they are not exactly those it trains."""
    trained = {
        name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad
    }
    own = {name: list(parameter.shape) for name, parameter in trained.items()}
    with safe_open(folder / WEIGHTS, "pt") as file:
        saved = {name: file.get_slice(name).get_shape() for name in sorted(file.keys())}
        if wrong := [name for name in sorted(own | saved) if own.get(name) != saved.get(name)]:
            raise ValueError(f"{folder} holds the weights of another model: {wrong[0]} differs")
        for name, parameter in trained.items():
            put(parameter, file.get_slice(name))


def save_weights(model: nn.Module, folder: Path, writes: bool = True) -> None:
    """Write the parameters that training changes; of a model with adapters a few megabytes, its
    base is known by name.

    Of a sharded model one is gathered at a time; all processes call this alike, and one of them
    writes.
    """
    folder.mkdir(parents=True, exist_ok=True)
    export(
        ((k, p) for k, p in model.named_parameters() if p.requires_grad), folder / WEIGHTS, writes
    )


def weights_digest(model: nn.Module, start: bytes = b"") -> str:
    """A digest of `start` and of a model's weights, which may be shared out over processes that call this alike."""
    out, known = hashlib.sha256(start), getattr(model, "rounded", {})
    for name, weight in model.state_dict().items():
        out.update((known.get(name) or weight_digest(name, weight)).encode())
    return out.hexdigest()[:16]


def weight_digest(name: str, weight: torch.Tensor) -> str:
    """What a digest of weights takes of one; where it is shared out all processes call this alike."""
    weight = whole(weight)
    # Every bit counts, in any order. Where equal numbers cancel each other out, some stand for
    # themselves.
    some = weight.flatten()[:: max(1, weight.numel() // 64)].tolist()
    return f"{name} {tuple(weight.shape)} {torch.hash_tensor(weight).item()} {some}"


def last(folder: Path) -> Path | None:
    """The checkpoint to go on from, None before the first."""
    return max(folder.glob("checkpoint-*"), key=step, default=None)


def step(folder: Path) -> int:
    """The number of steps in the name of a checkpoint."""
    return int(folder.name.rpartition("-")[2])


def strip(folder: Path) -> None:
    """Leave of a checkpoint its weights: what only training needs to go on is twice as large."""
    for name in ("optimizer.pt", "scheduler.pt"):
        (folder / name).unlink(missing_ok=True)
    shutil.rmtree(folder / PARTS, ignore_errors=True)


def move(staging: Path, target: Path) -> None:
    """Give a folder that has been written its name, in place of what had it."""
    target.parent.mkdir(exist_ok=True)
    shutil.rmtree(target, ignore_errors=True)
    os.replace(staging, target)


class WholeCheckpoints(Trainer):
    """transformers' Trainer with checkpoints of what is trained, whole or not at all, and the reference's warm-up."""

    judged = False  # whether the weights of every checkpoint stay, for a judge to choose among them
    whole = True  # whether checkpoints are whole files of one process, not parts of a sharded model
    staging: Path | None = None  # where a checkpoint is being written
    # What takes less memory: as the same run, which goes on, and as another one.
    less = "set recipe.checkpointing, and it goes on from {}; or anew: method lora, autocast bfloat16, fewer max_tokens"

    def train(self, **options):
        try:
            return super().train(**options)
        except (MemoryError, RuntimeError) as error:
            if not out_of_memory(error):
                raise
            kept = last(Path(self.args.output_dir))
            tokens = f"in or after a pass of {getattr(self.model, 'passed', 'some')} tokens"
            less = self.less.format(kept.name if kept else "its start")
            raise MemoryError(
                f"no memory is left at step {self.state.global_step + 1}, {tokens}: {less}"
            ) from error

    def rate(self, step: int, steps: int) -> float:
        # As the reference code warms up: the first step already moves (transformers' own begins
        # with a rate of 0).
        return min(1.0, (step + 1) / (self.args.warmup_steps + 1))

    def create_scheduler(self, num_training_steps, optimizer=None):
        optimizer = self.optimizer if optimizer is None else optimizer
        self.lr_scheduler = LambdaLR(optimizer, lambda step: self.rate(step, num_training_steps))
        self._created_lr_scheduler = True
        return self.lr_scheduler

    def _save_checkpoint(self, model, trial):
        folder, name = Path(self.args.output_dir), f"checkpoint-{self.state.global_step}"
        self.staging = self._staging(name)
        Trainer._save_checkpoint(
            self, model, trial
        )  # into `_get_output_dir`, and without a subclass's model card
        if self.judged and not self.whole:
            save_weights(self.model, self.staging / name, self.args.should_save)
        self.accelerator.wait_for_everyone()
        if self.args.should_save:
            older = [path for path in folder.glob("checkpoint-*") if path.name != name]
            move(self.staging / name, folder / name)
            for path in older:
                strip(path) if self.judged else shutil.rmtree(path, ignore_errors=True)
            shutil.rmtree(self.staging, ignore_errors=True)
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
        save_parts(self.model, self.optimizer.optimizer, Path(output_dir))
        if self.args.should_save:
            torch.save(self.lr_scheduler.state_dict(), Path(output_dir) / "scheduler.pt")

    def _load_from_checkpoint(self, resume_from_checkpoint, model=None):
        if self.whole:
            load_weights(self.model, Path(resume_from_checkpoint))

    def _load_optimizer_and_scheduler(self, checkpoint):
        if self.whole or checkpoint is None:
            return super()._load_optimizer_and_scheduler(checkpoint)
        load_parts(self.model, self.optimizer.optimizer, Path(checkpoint))  # the weights too
        self.lr_scheduler.load_state_dict(
            torch.load(Path(checkpoint) / "scheduler.pt", weights_only=True)
        )
        for group, rate in zip(
            self.optimizer.param_groups, self.lr_scheduler.get_last_lr(), strict=True
        ):
            group["lr"] = rate


def check_room(needed: float, what: str) -> None:
    """Raise ValueError where so many bytes are more than this process's GPU has; without one, than the machine has."""
    if torch.cuda.is_available():
        here = torch.cuda.get_device_properties(torch.cuda.current_device()).total_memory
    else:
        here = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if needed > here:
        text = f"{what} takes {needed / 1e9:,.1f} GB, and here are {here / 1e9:,.1f} GB"
        raise ValueError(
            f"{text}: take more processes and a shared model (docs/guide.md, What fits where)"
        )


# Shared out over processes


class Root(nn.Module):
    """What FSDP2 takes for one model: it calls a function of it; without one it gathers what no layer holds."""

    def __init__(self, part: nn.Module):
        super().__init__()
        self.part = part

    def forward(self, function=None, *arguments):
        return function(*arguments) if function else None


def shard(model, autocast: str = "float32", part: nn.Module | None = None) -> None:
    """Share the parameters of a reward model or policy out over all processes, in place, or those
    of a part of it.

    A backbone without data is filled from its files (`stream`). One that was shared out before is
    made anew around the rows that each process has, because FSDP2 takes a module once, and adapters
    came since. Raises ValueError for a backbone whose layers transformers does not name, and as
    `stream`.
    """
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    PartialState(cpu=device.type == "cpu")
    before = _emptied(model) if model.root else None
    backbone = model.backbone
    names, without_data = set(backbone._no_split_modules or ()), backbone.device.type == "meta"
    layers = [module for module in backbone.modules() if type(module).__name__ in names]
    if not layers:
        raise ValueError(
            f"{type(backbone).__name__} does not say which of its parts are layers: train without fsdp"
        )
    mesh = init_device_mesh(device.type, (torch.distributed.get_world_size(),))
    low = torch.bfloat16 if autocast == "bfloat16" else None
    policy = MixedPrecisionPolicy(
        param_dtype=low, reduce_dtype=torch.float32, cast_forward_inputs=False
    )
    for layer in layers:
        fully_shard(layer, mesh=mesh, mp_policy=policy)
    # What is left is gathered for the whole of a step: the engine reads embeddings and heads
    # outside their modules.
    every = MixedPrecisionPolicy(reduce_dtype=torch.float32, cast_forward_inputs=False)
    root = fully_shard(Root(part or model), mesh=mesh, mp_policy=every, reshard_after_forward=False)
    root._apply(lambda t: torch.empty_like(t, device=device) if t.is_meta else t)
    object.__setattr__(model, "root", root)  # not a part of the model: it holds it
    if before is not None:
        had = dict(before.named_parameters())
        for name, parameter in backbone.named_parameters():
            put(parameter, had[name])
    elif without_data:
        stream(backbone)


def _emptied(model) -> nn.Module:
    """Put a backbone without data, adapters and all, in the place of a model's own, which is returned."""
    old, adapter = model.backbone, model.adapter
    unprepare(old)
    with init_empty_weights():
        model.backbone = new = type(old)(copy.deepcopy(old.config))
    new.tie_weights()
    for name in {"generation_config", "hs2_verdicts", "hs2_weights"} & vars(old).keys():
        setattr(new, name, getattr(old, name))
    if adapter:
        model.adapter = None
        model.lora(**adapter)
    new.train(old.training)
    return old


def stream(backbone: nn.Module) -> None:
    """Fill a backbone that was shared out while it had no data: each process reads its own rows of
    every tensor.

    So no byte is read twice, and no process ever holds a whole model. A random copy of two layers
    is what the architecture contract looks at. Raises ValueError where a tensor is in no file, and
    as `attention.prepare`.
    """
    config, prefix = copy.deepcopy(backbone.config), f"{backbone.base_model_prefix}."
    config.num_hidden_layers, layers = 2, getattr(config, "layer_types", None)
    config.layer_types = layers[:2] if layers else None
    prepare(type(backbone)(config).to(backbone.device))
    files = {}
    for file in sorted(Path(backbone.hs2_weights).glob("*.safetensors")):
        with safe_open(file, "pt") as opened:
            files |= dict.fromkeys(opened.keys(), file)
    for name, parameter in backbone.named_parameters():
        key = next(
            (k for k in (name, prefix + name, name.removeprefix(prefix)) if k in files), None
        )
        if key is None:
            raise ValueError(f"{name} is in no safetensors file of {backbone.hs2_weights}")
        with safe_open(files[key], "pt") as opened:
            put(parameter, opened.get_slice(key))
    backbone.hs2_verdicts = {("groups", backbone.dtype, backbone.device): ""}


@torch.no_grad()
def put(parameter: torch.Tensor, value) -> None:
    """Fill a parameter, in place: of one that is shared out each process takes, or reads, its rows of `value` alone."""
    own, rows = parameter.detach(), slice(None)
    if isinstance(value, DTensor):  # shared out alike
        own, value = own.to_local(), value.detach().to_local()
    elif isinstance(own, DTensor):
        own, mesh, size = (
            own.to_local(),
            own.device_mesh,
            math.ceil(len(own) / own.device_mesh.size()),
        )
        rows = slice(mesh.get_local_rank() * size, mesh.get_local_rank() * size + len(own))
    own.copy_(value[rows])


def whole(tensor: torch.Tensor) -> torch.Tensor:
    """All of a tensor, gathered from all processes where it is shared out; all of them call this alike."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def gathered(weights: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """A few tensors, all of each, as `whole` gives one: adapters, or a head."""
    return {name: whole(weight) for name, weight in weights.items()}


def export(named: Iterable[tuple[str, torch.Tensor]], file: Path, writes: bool) -> None:
    """Write tensors as safetensors, one gathered at a time, so that no process ever holds them all.

    named: (name, tensor) pairs. writes: whether this process writes; the others only take part.
    """
    named = list(named)
    header, end = {"__metadata__": {"format": "pt"}}, 0
    for name, tensor in named:
        kind = {torch.float32: "F32", torch.bfloat16: "BF16", torch.float16: "F16"}[tensor.dtype]
        start, end = end, end + tensor.numel() * tensor.element_size()
        header[name] = {"dtype": kind, "shape": list(tensor.shape), "data_offsets": [start, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(file if writes else os.devnull, "wb") as out:
        out.write(len(text).to_bytes(8, "little") + text)
        for _, tensor in named:
            one = whole(tensor.detach()).cpu().contiguous()
            out.write(one.view(torch.uint8).numpy().tobytes())


def save_parts(model: nn.Module, optimizer, folder: Path) -> None:
    """Write what training changes, and the optimiser's tensors, each process its own part, as safetensors."""
    model_state, optimizer_state = _states(model, optimizer)
    writer = checkpoint.HuggingFaceStorageWriter(str(folder / PARTS), save_distributed=True)
    checkpoint.save(_tensors(model_state, optimizer_state), storage_writer=writer)


def load_parts(model: nn.Module, optimizer, folder: Path) -> None:
    """Read what `save_parts` wrote, by however many processes, into the model and the optimiser, in place."""
    model_state, optimizer_state = _states(model, optimizer)
    tensors = _tensors(model_state, optimizer_state)
    checkpoint.load(
        tensors, storage_reader=checkpoint.HuggingFaceStorageReader(str(folder / PARTS))
    )
    for name, state in (("model", model_state), ("optimizer", optimizer_state)):
        state |= {key: tensors[f"{name}.{key}"] for key in state if f"{name}.{key}" in tensors}
    states.set_model_state_dict(model, model_state, options=states.StateDictOptions(strict=False))
    states.set_optimizer_state_dict(model, optimizer, optimizer_state, options=_FLAT)


def _states(model: nn.Module, optimizer) -> tuple[dict, dict]:
    """What training changes, and the optimiser's state with a name for each number: both with tensors as they lie."""
    once = dict(model.named_parameters())  # tied weights have one name here
    weights = {
        k: v for k, v in states.get_model_state_dict(model, options=_FLAT).items() if k in once
    }
    return weights, states.get_optimizer_state_dict(model, optimizer, options=_FLAT)


def _tensors(model_state: dict, optimizer_state: dict) -> dict[str, torch.Tensor]:
    """All tensors by name. The rest, rates and the like, are the recipe's and the schedule's."""
    both = {f"model.{k}": v for k, v in model_state.items()} | {
        f"optimizer.{k}": v for k, v in optimizer_state.items()
    }
    return {name: value for name, value in both.items() if torch.is_tensor(value)}
