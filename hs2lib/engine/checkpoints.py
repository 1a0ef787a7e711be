"""Checkpoints: weights that training changes, in folders that appear whole; or sharded (FSDP2).

    torchrun --nproc-per-node 8 -m hs2lib.run --stage train --tier paper 05  # recipe.fsdp: true

In a sharded model (`shard`) each layer is a unit of its own. It is gathered just before it
computes. Under bf16 autocast the gathered weights of layers are bfloat16. Embeddings, the final
norm and heads stay float32: a head still tells close responses apart, tied embeddings stay one
tensor, and outputs are never rounded. Gradients are summed in float32. Each process writes its own
rows, as safetensors. A run can go on with another number of processes.

Paper: silent (the reference code uses tensor and pipeline parallelism).
"""

import copy
import hashlib
import json
import math
import os
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState, init_empty_weights
from safetensors import safe_open
from torch import nn
from torch.distributed import checkpoint
from torch.distributed.checkpoint import state_dict as states
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR
from transformers import Trainer
from transformers.trainer_utils import TrainOutput

from hs2lib.engine.attention import prepare, unprepare
from hs2lib.engine.contract import out_of_memory

WEIGHTS = "model.safetensors"  # the file of a whole checkpoint
PARTS = "sharded"  # the folder of a sharded one, in which each process has its own files

_FLAT = states.StateDictOptions(ignore_frozen_params=True, flatten_optimizer_state_dict=True)

# What safetensors calls the types that weights have.
_DTYPE_NAMES = {torch.float32: "F32", torch.bfloat16: "BF16", torch.float16: "F16"}


def best(folder: Path) -> dict[str, float]:
    """The validation loss of each checkpoint under `folder`/best, by its name."""
    files = sorted((folder / "best").glob("step-*/best.json"))
    return {file.parent.name: json.loads(file.read_text())["validation loss"] for file in files}


def load_weights(model: nn.Module, folder: Path) -> None:
    """Put saved weights into the model, in place.

    Raises ValueError where the file does not hold exactly the weights that the model trains.
    """
    trained = _trained_parameters(model)
    expected_shapes = {name: list(parameter.shape) for name, parameter in trained.items()}
    with safe_open(folder / WEIGHTS, "pt") as file:
        saved_shapes = {name: file.get_slice(name).get_shape() for name in sorted(file.keys())}
        for name in sorted(expected_shapes | saved_shapes):
            if expected_shapes.get(name) != saved_shapes.get(name):
                raise ValueError(f"{folder} holds the weights of another model: {name} differs")
        for name, parameter in trained.items():
            fill_parameter(parameter, file.get_slice(name))


def save_weights(model: nn.Module, folder: Path, writes: bool = True) -> None:
    """Write the parameters that training changes.

    Of a model with adapters these are a few megabytes, because its base is known by name. Of a
    sharded model one parameter is gathered at a time. All processes call this alike.

    Args:
        model: the model.
        folder: is made where it does not exist.
        writes: whether this process writes; one of them does.
    """
    folder.mkdir(parents=True, exist_ok=True)
    export(_trained_parameters(model).items(), folder / WEIGHTS, writes)


def _trained_parameters(model: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters that training changes, by name."""
    return {
        name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad
    }


def weights_digest(model: nn.Module, start: bytes = b"") -> str:
    """A digest of `start` and of a model's weights.

    Where the model is sharded, all processes call this alike.
    """
    digest = hashlib.sha256(start)
    digests_before_rounding = getattr(model, "rounded", {})
    for name, weight in model.state_dict().items():
        text = digests_before_rounding.get(name) or weight_digest(name, weight)
        digest.update(text.encode())
    return digest.hexdigest()[:16]


def weight_digest(name: str, weight: torch.Tensor) -> str:
    """What a digest of weights takes of one weight; where it is sharded all processes call this."""
    weight = full_tensor(weight)
    # The hash counts every bit, in any order. Equal numbers can cancel each other out in it, so
    # about 64 numbers stand for themselves.
    sample = weight.flatten()[:: max(1, weight.numel() // 64)].tolist()
    return f"{name} {tuple(weight.shape)} {torch.hash_tensor(weight).item()} {sample}"


def latest_checkpoint(folder: Path) -> Path | None:
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
    """transformers' Trainer, with the reference code's warm-up and checkpoints of its own.

    A checkpoint holds the weights that are trained. It is there whole or not at all.
    """

    judged = False  # whether the weights of every checkpoint stay, for a judge to choose among them
    whole = True  # whether checkpoints are whole files of one process, not parts of a sharded model
    staging: Path | None = None  # where a checkpoint is being written
    # What takes less memory: as the same run, which goes on, and as another one.
    less = (
        "set recipe.checkpointing, and it goes on from {}; "
        "or anew: method lora, autocast bfloat16, fewer max_tokens"
    )

    def train(self, **options: object) -> TrainOutput:
        """Train as transformers does; where no memory is left, say what takes less of it."""
        try:
            return super().train(**options)
        except (MemoryError, RuntimeError) as error:
            if not out_of_memory(error):
                raise
            last_checkpoint = latest_checkpoint(Path(self.args.output_dir))
            start = last_checkpoint.name if last_checkpoint else "its start"
            tokens = getattr(self.model, "passed", "some")
            raise MemoryError(
                f"no memory is left at step {self.state.global_step + 1}, "
                f"in or after a pass of {tokens} tokens: {self.less.format(start)}"
            ) from error

    def rate(self, step: int, steps: int) -> float:
        """The learning rate at a step of `steps`, as a share of the recipe's."""
        # As the reference code warms up: the first step already moves (transformers' own begins
        # with a rate of 0).
        return min(1.0, (step + 1) / (self.args.warmup_steps + 1))

    def create_scheduler(
        self, num_training_steps: int, optimizer: Optimizer | None = None
    ) -> LambdaLR:
        """The schedule that `rate` describes."""
        optimizer = self.optimizer if optimizer is None else optimizer
        self.lr_scheduler = LambdaLR(optimizer, lambda step: self.rate(step, num_training_steps))
        self._created_lr_scheduler = True
        return self.lr_scheduler

    def _save_checkpoint(self, model: nn.Module, trial: object) -> None:
        folder = Path(self.args.output_dir)
        name = f"checkpoint-{self.state.global_step}"
        self.staging = self._staging(name)
        # Called by name, so without a subclass's model card. It writes into `_get_output_dir`.
        Trainer._save_checkpoint(self, model, trial)
        if self.judged and not self.whole:
            save_weights(self.model, self.staging / name, self.args.should_save)
        self.accelerator.wait_for_everyone()
        if self.args.should_save:
            older = [path for path in folder.glob("checkpoint-*") if path.name != name]
            move(self.staging / name, folder / name)
            for path in older:
                if self.judged:
                    strip(path)
                else:
                    shutil.rmtree(path, ignore_errors=True)
            shutil.rmtree(self.staging, ignore_errors=True)
        self.accelerator.wait_for_everyone()
        self.staging = None

    def _get_output_dir(self, trial: object = None) -> str:
        return str(self.staging or self.args.output_dir)

    def _staging(self, name: str) -> Path:
        """A fresh folder for what is being written; it gets its name when it is whole."""
        staging = Path(self.args.output_dir) / f".writing-{name}"
        if self.args.should_save:
            shutil.rmtree(staging, ignore_errors=True)  # what a killed process left
            staging.mkdir(parents=True)
        self.accelerator.wait_for_everyone()
        return staging

    def _save(self, output_dir: str | None = None, state_dict: dict | None = None) -> None:
        if self.whole and self.args.should_save:
            save_weights(self.model, Path(output_dir))

    def _save_optimizer_and_scheduler(self, output_dir: str) -> None:
        if self.whole:
            super()._save_optimizer_and_scheduler(output_dir)
            return
        save_parts(self.model, self.optimizer.optimizer, Path(output_dir))
        if self.args.should_save:
            torch.save(self.lr_scheduler.state_dict(), Path(output_dir) / "scheduler.pt")

    def _load_from_checkpoint(
        self, resume_from_checkpoint: str, model: nn.Module | None = None
    ) -> None:
        if self.whole:
            load_weights(self.model, Path(resume_from_checkpoint))

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        if self.whole or checkpoint is None:
            super()._load_optimizer_and_scheduler(checkpoint)
            return
        load_parts(self.model, self.optimizer.optimizer, Path(checkpoint))  # the weights too
        schedule = torch.load(Path(checkpoint) / "scheduler.pt", weights_only=True)
        self.lr_scheduler.load_state_dict(schedule)
        rates = self.lr_scheduler.get_last_lr()
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            group["lr"] = rate


def check_room(needed: float, what: str) -> None:
    """Raise ValueError where so many bytes are more than there are.

    There are those of this process's GPU; without a GPU, those of the machine.

    Args:
        needed: bytes.
        what: takes them, for the message.
    """
    if torch.cuda.is_available():
        available = torch.cuda.get_device_properties(torch.cuda.current_device()).total_memory
    else:
        available = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if needed > available:
        raise ValueError(
            f"{what} takes {needed / 1e9:,.1f} GB, and here are {available / 1e9:,.1f} GB: "
            "take more processes and a shared model (docs/guide.md, What fits where)"
        )


# Sharded over processes


class Root(nn.Module):
    """What FSDP2 takes for one model: called with a function, it gathers the weights and calls it.

    Called without one, it only gathers what no layer holds.
    """

    def __init__(self, part: nn.Module) -> None:
        super().__init__()
        self.part = part

    def forward(self, function: Callable | None = None, *arguments: object) -> object:
        """The function's result."""
        return function(*arguments) if function else None


def shard(model: nn.Module, autocast: str = "float32", part: nn.Module | None = None) -> None:
    """Share the parameters of a reward model or policy out over all processes, in place.

    A backbone without data is filled from its files (`stream`). A model that was sharded before is
    made anew around the rows that each process has, because FSDP2 takes a module once, and the
    model may have got adapters since.

    Args:
        model: a reward model or policy.
        autocast: what its layers compute in, "float32" or "bfloat16".
        part: of the model, to share out only the parameters of this part.

    Raises:
        ValueError: transformers does not name the backbone's layers; and as `stream`.
    """
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    PartialState(cpu=device.type == "cpu")
    old_backbone = _replace_by_empty_backbone(model) if model.root else None
    backbone = model.backbone
    layer_classes = set(backbone._no_split_modules or ())
    without_data = backbone.device.type == "meta"
    layers = [module for module in backbone.modules() if type(module).__name__ in layer_classes]
    if not layers:
        raise ValueError(
            f"{type(backbone).__name__} does not say which of its parts are layers: "
            "train without fsdp"
        )
    mesh = init_device_mesh(device.type, (torch.distributed.get_world_size(),))
    layer_policy = MixedPrecisionPolicy(
        param_dtype=torch.bfloat16 if autocast == "bfloat16" else None,
        reduce_dtype=torch.float32,
        cast_forward_inputs=False,
    )
    for layer in layers:
        fully_shard(layer, mesh=mesh, mp_policy=layer_policy)
    # What is left is gathered for the whole of a step: the engine reads embeddings and heads
    # outside their modules.
    root_policy = MixedPrecisionPolicy(reduce_dtype=torch.float32, cast_forward_inputs=False)
    root = fully_shard(
        Root(part or model), mesh=mesh, mp_policy=root_policy, reshard_after_forward=False
    )
    root._apply(lambda t: torch.empty_like(t, device=device) if t.is_meta else t)
    object.__setattr__(model, "root", root)  # not a submodule of the model: it holds the model
    if old_backbone is not None:
        old_parameters = dict(old_backbone.named_parameters())
        for name, parameter in backbone.named_parameters():
            fill_parameter(parameter, old_parameters[name])
    elif without_data:
        stream(backbone)


def _replace_by_empty_backbone(model: nn.Module) -> nn.Module:
    """Give a model a backbone without data, with its adapters; returns the one that it had."""
    old = model.backbone
    adapter = model.adapter
    unprepare(old)
    with init_empty_weights():
        new = type(old)(copy.deepcopy(old.config))
        model.backbone = new
    new.tie_weights()
    for name in {"generation_config", "hs2_verdicts", "hs2_weights"} & vars(old).keys():
        setattr(new, name, getattr(old, name))
    if adapter:
        model.adapter = None
        model.lora(**adapter)
    new.train(old.training)
    return old


def stream(backbone: nn.Module) -> None:
    """Fill a backbone that was sharded without data: each process reads its own rows of its files.

    So no byte is read twice, and no process ever holds a whole model. The architecture contract
    looks at a random copy of two layers.

    Raises ValueError where a tensor is in no file, and as `attention.prepare`.
    """
    config = copy.deepcopy(backbone.config)
    config.num_hidden_layers = 2
    layer_types = getattr(config, "layer_types", None)
    config.layer_types = layer_types[:2] if layer_types else None
    prepare(type(backbone)(config).to(backbone.device))
    file_of = {}
    for file in sorted(Path(backbone.hs2_weights).glob("*.safetensors")):
        with safe_open(file, "pt") as opened:
            file_of |= dict.fromkeys(opened.keys(), file)
    prefix = f"{backbone.base_model_prefix}."
    for name, parameter in backbone.named_parameters():
        spellings = (name, prefix + name, name.removeprefix(prefix))
        stored_name = next((spelling for spelling in spellings if spelling in file_of), None)
        if stored_name is None:
            raise ValueError(f"{name} is in no safetensors file of {backbone.hs2_weights}")
        with safe_open(file_of[stored_name], "pt") as opened:
            fill_parameter(parameter, opened.get_slice(stored_name))
    backbone.hs2_verdicts = {("groups", backbone.dtype, backbone.device): ""}


@torch.no_grad()
def fill_parameter(parameter: torch.Tensor, value: Any) -> None:
    """Fill a parameter, in place.

    Of a sharded parameter each process takes, or reads, its own rows of `value` alone.

    Args:
        parameter: is filled.
        value: a tensor, or safetensors' slice of one that lies on disk.
    """
    target = parameter.detach()
    if isinstance(value, DTensor):  # sharded alike
        target.to_local().copy_(value.detach().to_local())
    elif isinstance(target, DTensor):
        local_rows = target.to_local()
        mesh = target.device_mesh
        rows_a_process = math.ceil(len(target) / mesh.size())
        start = mesh.get_local_rank() * rows_a_process
        local_rows.copy_(value[start : start + len(local_rows)])
    else:
        target.copy_(value[:])


def full_tensor(tensor: torch.Tensor) -> torch.Tensor:
    """All of a tensor; where it is sharded, gathered from all processes, which call this alike."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def gathered(weights: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """A few tensors, all of each, as `whole` gives one: adapters, or a head."""
    return {name: full_tensor(weight) for name, weight in weights.items()}


def export(named: Iterable[tuple[str, torch.Tensor]], file: Path, writes: bool) -> None:
    """Write tensors as safetensors, one gathered at a time, so that no process ever holds them all.

    Args:
        named: (name, tensor) pairs.
        file: to write.
        writes: whether this process writes; the others only take part.
    """
    named = list(named)
    header = {"__metadata__": {"format": "pt"}}
    start = 0
    for name, tensor in named:
        stop = start + tensor.numel() * tensor.element_size()
        header[name] = {
            "dtype": _DTYPE_NAMES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [start, stop],
        }
        start = stop
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(file if writes else os.devnull, "wb") as out:
        out.write(len(text).to_bytes(8, "little") + text)
        for _, tensor in named:
            full = full_tensor(tensor.detach()).cpu().contiguous()
            out.write(full.view(torch.uint8).numpy().tobytes())


def save_parts(model: nn.Module, optimizer: Optimizer, folder: Path) -> None:
    """Write what training changes, and the optimiser's tensors, as safetensors.

    Each process writes its own part.
    """
    model_state, optimizer_state = _states(model, optimizer)
    writer = checkpoint.HuggingFaceStorageWriter(str(folder / PARTS), save_distributed=True)
    checkpoint.save(_tensors(model_state, optimizer_state), storage_writer=writer)


def load_parts(model: nn.Module, optimizer: Optimizer, folder: Path) -> None:
    """Read what `save_parts` wrote into the model and the optimiser, in place.

    The number of processes may be another than the one that wrote it.
    """
    model_state, optimizer_state = _states(model, optimizer)
    tensors = _tensors(model_state, optimizer_state)
    reader = checkpoint.HuggingFaceStorageReader(str(folder / PARTS))
    checkpoint.load(tensors, storage_reader=reader)
    for prefix, state in (("model", model_state), ("optimizer", optimizer_state)):
        for name in state:
            if f"{prefix}.{name}" in tensors:
                state[name] = tensors[f"{prefix}.{name}"]
    states.set_model_state_dict(model, model_state, options=states.StateDictOptions(strict=False))
    states.set_optimizer_state_dict(model, optimizer, optimizer_state, options=_FLAT)


def _states(model: nn.Module, optimizer: Optimizer) -> tuple[dict, dict]:
    """What training changes, and the optimiser's state with a name for each number.

    Tensors of both are sharded as the model is.
    """
    names = dict(model.named_parameters())  # tied weights have one name here
    model_state = states.get_model_state_dict(model, options=_FLAT)
    weights = {name: weight for name, weight in model_state.items() if name in names}
    return weights, states.get_optimizer_state_dict(model, optimizer, options=_FLAT)


def _tensors(model_state: dict, optimizer_state: dict) -> dict[str, torch.Tensor]:
    """All tensors by name. The rest, rates and the like, are the recipe's and the schedule's."""
    tensors = {}
    for prefix, state in (("model", model_state), ("optimizer", optimizer_state)):
        for name, value in state.items():
            if torch.is_tensor(value):
                tensors[f"{prefix}.{name}"] = value
    return tensors
