"""Weights, gradients and optimiser states shared out over processes, by PyTorch's own engine (FSDP2).

    torchrun --nproc-per-node 8 -m hs2lib.run.launch --tier paper 05      # recipe.fsdp: true

Each layer is a unit of its own, gathered just before it computes. Gathered weights of layers are bfloat16 under bf16
autocast; embeddings, the final norm and heads stay float32, so that a head still tells close responses apart, tied
embeddings stay one tensor, and outputs are never rounded. Gradients are summed in float32.
Checkpoints are torch.distributed.checkpoint's, in safetensors: each process writes its own part, and any number of
processes can go on.

Paper: silent (the reference code uses tensor and pipeline parallelism).
"""

import json
from collections.abc import Iterable
from contextlib import nullcontext
from pathlib import Path

import torch
from torch import nn
from torch.distributed import checkpoint
from torch.distributed.checkpoint import state_dict as states
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor

FOLDER = "sharded"

_FLAT = states.StateDictOptions(ignore_frozen_params=True, flatten_optimizer_state_dict=True)


def shard(outputs: nn.Module, device: torch.device, processes: int, autocast: str) -> None:
    """Share the parameters of a module out over all processes, in place; `outputs.model.backbone` is a decoder.

    Raises ValueError for a backbone whose layers transformers does not name.
    """
    backbone = outputs.model.backbone
    names = set(backbone._no_split_modules or ())
    layers = [module for module in backbone.modules() if type(module).__name__ in names]
    if not layers:
        raise ValueError(f"{type(backbone).__name__} does not say which of its parts are layers: train without fsdp")
    mesh = init_device_mesh(device.type, (processes,))
    low = torch.bfloat16 if autocast == "bfloat16" else None
    policy = MixedPrecisionPolicy(param_dtype=low, reduce_dtype=torch.float32, cast_forward_inputs=False)
    for layer in layers:
        fully_shard(layer, mesh=mesh, mp_policy=policy)
    # What is left is gathered for the whole of a step: the engine reads embeddings and heads outside their modules.
    whole = MixedPrecisionPolicy(reduce_dtype=torch.float32, cast_forward_inputs=False)
    fully_shard(outputs, mesh=mesh, mp_policy=whole, reshard_after_forward=False)


def held(tensors) -> int:
    """Bytes of tensors that lie in this process."""
    return sum((t.to_local() if isinstance(t, DTensor) else t).nbytes for t in tensors)


def whole(tensor: torch.Tensor) -> torch.Tensor:
    """All of a tensor, gathered from all processes where it is shared out; all of them call this alike."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


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
    with file.open("wb") if writes else nullcontext() as out:
        if writes:
            out.write(len(text).to_bytes(8, "little") + text)
        for _, tensor in named:
            one = whole(tensor.detach()).cpu().contiguous()
            if writes:
                out.write(one.view(torch.uint8).numpy().tobytes())


def save(model: nn.Module, optimizer, folder: Path) -> None:
    """Write what training changes, and the optimiser's tensors, each process its own part, as safetensors."""
    model_state, optimizer_state = _states(model, optimizer)
    writer = checkpoint.HuggingFaceStorageWriter(str(folder / FOLDER), save_distributed=True)
    checkpoint.save(_tensors(model_state, optimizer_state), storage_writer=writer)


def load(model: nn.Module, optimizer, folder: Path) -> None:
    """Read what `save` wrote, by however many processes, into the model and the optimiser, in place."""
    model_state, optimizer_state = _states(model, optimizer)
    tensors = _tensors(model_state, optimizer_state)
    checkpoint.load(tensors, storage_reader=checkpoint.HuggingFaceStorageReader(str(folder / FOLDER)))
    for name, state in (("model", model_state), ("optimizer", optimizer_state)):
        state |= {key: tensors[f"{name}.{key}"] for key in state if f"{name}.{key}" in tensors}
    states.set_model_state_dict(model, model_state, options=states.StateDictOptions(strict=False))
    states.set_optimizer_state_dict(model, optimizer, optimizer_state, options=_FLAT)


def _states(model: nn.Module, optimizer) -> tuple[dict, dict]:
    """What training changes, and the optimiser's state with a name for each number: both with tensors as they lie."""
    once = dict(model.named_parameters())  # tied weights have one name here
    weights = {k: v for k, v in states.get_model_state_dict(model, options=_FLAT).items() if k in once}
    return weights, states.get_optimizer_state_dict(model, optimizer, options=_FLAT)


def _tensors(model_state: dict, optimizer_state: dict) -> dict[str, torch.Tensor]:
    """All tensors by name. The rest, rates and the like, are the recipe's and the schedule's."""
    both = {f"model.{k}": v for k, v in model_state.items()} | {f"optimizer.{k}": v for k, v in optimizer_state.items()}
    return {name: value for name, value in both.items() if torch.is_tensor(value)}
