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
import os
import shutil
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from accelerate import PartialState, init_empty_weights
from safetensors.torch import save_file
from torch import distributed, nn
from torch.distributed import checkpoint
from torch.distributed.checkpoint import state_dict as states
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR
from transformers import Trainer

from hs2lib.engine.attention import prepare, unprepare

WEIGHTS = "model.safetensors"  # the file of a checkpoint of one process
PARTS = "sharded"  # the folder of a sharded one, in which each process has its own files
WHOLE = "whole"  # the mark of a checkpoint of which all is written

_FLAT = states.StateDictOptions(ignore_frozen_params=True, flatten_optimizer_state_dict=True)


def best(folder: Path) -> dict[str, float]:
    """The validation loss of each checkpoint under `folder`/best, by its name."""
    files = sorted((folder / "best").glob("step-*/best.json"))
    return {file.parent.name: json.loads(file.read_text())["validation loss"] for file in files}


def load_weights(model: nn.Module, folder: Path) -> None:
    """Put saved weights into the model, in place; all processes call this alike.

    Raises ValueError where the file does not hold exactly the weights that the model trains.
    """
    trained = _trained_parameters(model)
    expected = {name: parameter.shape for name, parameter in trained.items()}
    differing = expected.items() ^ stored_shapes(folder).items()
    if differing:
        raise ValueError(
            f"{folder} holds the weights of another model: {min(differing)[0]} differs"
        )
    read_tensors(trained, folder)


def stored_shapes(folder: Path) -> dict[str, torch.Size]:
    """The shapes of the tensors in a folder's safetensors files, by name."""
    metadata = checkpoint.HuggingFaceStorageReader(str(folder)).read_metadata()
    return {name: tensor.size for name, tensor in metadata.state_dict_metadata.items()}


def read_tensors(tensors: Mapping[str, torch.Tensor], folder: Path) -> None:
    """Fill tensors, in place, from a folder's safetensors files.

    Of a sharded tensor each process reads its own rows alone. All processes call this alike.
    """
    reader = checkpoint.HuggingFaceStorageReader(str(folder))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "torch.distributed is")  # that this is the only process
        checkpoint.load({k: t.detach() for k, t in tensors.items()}, storage_reader=reader)


def save_weights(model: nn.Module, folder: Path) -> None:
    """Write the parameters that training changes; all processes call this alike.

    Of a model with adapters these are a few megabytes, because its base is known by name.

    Args:
        model: the model.
        folder: is made where it does not exist.
    """
    if is_first():
        folder.mkdir(parents=True, exist_ok=True)
    write(_trained_parameters(model), folder / WEIGHTS)


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
    for name, shard in model.state_dict().items():
        weight = full_tensor(shard)
        # The hash counts every bit, in any order. Equal numbers can cancel each other out in it, so
        # about 64 numbers stand for themselves.
        sample = weight.flatten()[:: max(1, weight.numel() // 64)].tolist()
        text = f"{name} {tuple(weight.shape)} {torch.hash_tensor(weight).item()} {sample}"
        digest.update(text.encode())
    return digest.hexdigest()[:16]


def latest_checkpoint(folder: Path) -> Path | None:
    """The checkpoint to go on from, the last that is whole; None before the first."""
    whole = [mark.parent for mark in folder.glob(f"checkpoint-*/{WHOLE}")]
    return max(whole, key=step, default=None)


def step(folder: Path) -> int:
    """The number of steps in the name of a checkpoint."""
    return int(folder.name.rpartition("-")[2])


def strip(folder: Path) -> None:
    """Leave of a checkpoint its weights: what only training needs to go on is twice as large."""
    for name in ("optimizer.pt", "scheduler.pt"):
        (folder / name).unlink(missing_ok=True)
    shutil.rmtree(folder / PARTS, ignore_errors=True)


class WholeCheckpoints(Trainer):
    """transformers' Trainer with the reference code's warm-up, resumed from whole checkpoints.

    A checkpoint holds the weights that are trained, and a mark once all of it is written.
    """

    judged = False  # whether the weights of every checkpoint stay, for a judge to choose among them
    whole = True  # whether checkpoints are whole files of one process, not parts of a sharded model

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
        latest = folder / f"checkpoint-{self.state.global_step}"
        if self.args.should_save:
            shutil.rmtree(latest, ignore_errors=True)  # what a killed process left
        self.accelerator.wait_for_everyone()
        Trainer._save_checkpoint(self, model, trial)  # by name: without a subclass's model card
        if self.judged and not self.whole:
            save_weights(self.model, latest)
        self.accelerator.wait_for_everyone()
        if self.args.should_save:
            (latest / WHOLE).touch()
            for other in folder.glob("checkpoint-*"):
                if other == latest:
                    continue
                if self.judged and (other / WHOLE).is_file():
                    strip(other)
                else:
                    shutil.rmtree(other, ignore_errors=True)
        self.accelerator.wait_for_everyone()

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
            "take more processes and a shared model (docs/gpu.md, What fits where)"
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
    mesh = init_device_mesh(device.type, (distributed.get_world_size(),))
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
    for name in {"generation_config", "hs2_checked", "hs2_weights"} & vars(old).keys():
        setattr(new, name, getattr(old, name))
    if adapter:
        model.adapter = None
        model.lora(**adapter)
    new.train(old.training)
    return old


def stream(backbone: nn.Module) -> None:
    """Fill a backbone that was sharded without data: each process reads its own rows of its files.

    So no byte is read twice, and no process ever holds a whole model. What `attention.prepare`
    checks is checked on a random copy of two layers.

    Raises ValueError where a tensor is in no file, and as `attention.prepare`.
    """
    config = copy.deepcopy(backbone.config)
    config.num_hidden_layers = 2
    layer_types = getattr(config, "layer_types", None)
    config.layer_types = layer_types[:2] if layer_types else None
    prepare(type(backbone)(config).to(backbone.device))
    stored = stored_shapes(backbone.hs2_weights)
    prefix = f"{backbone.base_model_prefix}."
    parameters = {}
    for name, parameter in backbone.named_parameters():
        spellings = (name, prefix + name, name.removeprefix(prefix))
        stored_name = next((spelling for spelling in spellings if spelling in stored), None)
        if stored_name is None:
            raise ValueError(f"{name} is in no safetensors file of {backbone.hs2_weights}")
        parameters[stored_name] = parameter
    read_tensors(parameters, backbone.hs2_weights)
    backbone.hs2_checked = True


def fill_parameter(parameter: torch.Tensor, value: torch.Tensor) -> None:
    """Fill a parameter, in place; of a sharded one each process takes its own rows of the value."""
    target = parameter.detach()
    if isinstance(target, DTensor) and not isinstance(value, DTensor):
        value = distribute_tensor(value, target.device_mesh, target.placements, src_data_rank=None)
    target.copy_(value.detach())


def full_tensor(tensor: torch.Tensor) -> torch.Tensor:
    """All of a tensor; where it is sharded, gathered from all processes, which call this alike."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def is_first() -> bool:
    """Whether this is the process that writes: the first of several, or the only one."""
    return not distributed.is_initialized() or distributed.get_rank() == 0


def gathered(weights: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Tensors as the first process writes them, whole and on the CPU; elsewhere nothing.

    Where they are sharded all processes call this alike, and one tensor at a time is gathered.
    """
    whole = {}
    for name, weight in weights.items():
        full = full_tensor(weight.detach())
        if is_first():
            whole[name] = full.cpu().contiguous()
    return whole


def write(weights: Mapping[str, torch.Tensor], file: Path) -> None:
    """Write tensors, sharded ones too, as safetensors; all processes call this alike."""
    whole = gathered(weights)
    if is_first():
        save_file(whole, file, metadata={"format": "pt"})


def save_parts(model: nn.Module, optimizer: Optimizer, folder: Path) -> None:
    """Write what training changes, and the optimiser's tensors, as safetensors.

    Each process writes its own part.
    """
    writer = checkpoint.HuggingFaceStorageWriter(str(folder / PARTS), save_distributed=True)
    checkpoint.save(_tensors(*_states(model, optimizer)), storage_writer=writer)


def load_parts(model: nn.Module, optimizer: Optimizer, folder: Path) -> None:
    """Read what `save_parts` wrote into the model and the optimiser, in place.

    The number of processes may be another than the one that wrote it.
    """
    weights, moments = _states(model, optimizer)
    tensors = _tensors(weights, moments)
    read_tensors(tensors, folder / PARTS)
    for name in moments:
        moments[name] = tensors.get(f"optimizer.{name}", moments[name])
    states.set_optimizer_state_dict(model, optimizer, moments, options=_FLAT)


def _states(model: nn.Module, optimizer: Optimizer) -> tuple[dict, dict]:
    """The parameters that training changes, and the optimiser's state with a name for each number.

    Tensors of both are sharded as the model is.
    """
    moments = states.get_optimizer_state_dict(model, optimizer, options=_FLAT)
    return _trained_parameters(model), moments


def _tensors(weights: dict, moments: dict) -> dict[str, torch.Tensor]:
    """All tensors by name. The rest, rates and the like, are the recipe's and the schedule's."""
    tensors = {}
    for prefix, state in (("model", weights), ("optimizer", moments)):
        for name, value in state.items():
            if torch.is_tensor(value):
                tensors[f"{prefix}.{name}"] = value.detach()
    return tensors
