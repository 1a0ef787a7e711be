"""Which models run in groups, and plain transformers for all others.

A model type is in `GROUPED` because `tests/engine/test_contract.py` holds its values and gradients
in groups against those of its sequences one by one. Any other causal decoder runs on padded rows,
which gives the same numbers more slowly. Paper: silent.
"""

import warnings
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from hs2lib.engine.trees import Batch

if TYPE_CHECKING:
    from collections.abc import Callable

    from transformers import PreTrainedConfig, PreTrainedModel

# Model types of transformers that run in groups.
GROUPED = {
    "cohere2",
    "gemma",
    "gemma3_text",
    "glm4",
    "gpt_neox",
    "granite",
    "llama",
    "ministral",
    "ministral3",
    "mistral",
    "mixtral",
    "olmo",
    "olmo2",
    "olmo3",
    "olmoe",
    "phi",
    "phi3",
    "qwen2",
    "qwen2_moe",
    "qwen3",
    "qwen3_moe",
    "smollm3",
}

# Options of models whose attention selects tokens among all of a sequence, padding too.
SELECTS = ("index_topk", "keep_window_size")

ROWS = 8  # padded rows in one pass


def in_groups(config: "PreTrainedConfig") -> bool:
    """Whether a model of this configuration runs in groups."""
    config = config.get_text_config()
    return (
        config.model_type in GROUPED
        and getattr(config, "is_causal", True)
        and not getattr(config, "use_bidirectional_attention", False)
    )


def longest(config: "PreTrainedConfig") -> int | None:
    """The longest sequence that a model can take, in tokens; None where nothing limits it.

    Rotary embeddings of type longrope turn all tokens of a sequence by other factors once it is
    longer than their original positions. So what two sequences share would have two states.
    """
    config = config.get_text_config()
    rope = getattr(config, "rope_parameters", None) or {}
    if rope.get("rope_type") == "longrope":
        return rope["original_max_position_embeddings"]
    return getattr(config, "max_position_embeddings", None)


def padded_states(decoder: "PreTrainedModel", batch: Batch) -> Tensor:
    """Final hidden states [T, H] of a batch by plain transformers, on rows padded on the right.

    What pads a row comes after its tokens, which a causal decoder does not see.
    """
    warnings.warn(
        f"{type(decoder).__name__} does not run in groups here: its sequences are padded rows of "
        "plain transformers, with the same numbers, but slower",
        stacklevel=2,
    )
    paths = sorted(batch.paths(), key=len)
    place = torch.empty_like(batch.tokens)  # [T], of each token's state among those of all rows
    states = []
    n_places = 0
    for start in range(0, len(paths), ROWS):
        rows = [torch.tensor(path) for path in paths[start : start + ROWS]]
        nodes = pad_sequence(rows, batch_first=True).to(place.device)  # [rows, L]
        hidden = decoder(input_ids=batch.tokens[nodes], use_cache=False).last_hidden_state
        states.append(hidden.flatten(0, 1))  # [rows * L, H]
        for row in rows:
            place[row] = torch.arange(n_places, n_places + len(row), device=place.device)
            n_places += nodes.shape[1]
    return torch.cat(states)[place]


@torch.no_grad()
def check(model: "PreTrainedModel", projection: "Callable[[Tensor], Tensor] | None") -> None:
    """Raise ValueError for a model that padded rows would not give the numbers of transformers.

    Args:
        model: the model.
        projection: from states to logits, None for a model that has no vocabulary projection.
    """
    name = type(model).__name__
    config = model.config.get_text_config()
    if any(hasattr(config, option) for option in SELECTS):
        raise ValueError(f"{name} is not supported: its attention selects among all tokens")
    if projection is not None and model.base_model is model:
        raise ValueError(f"{name} is not supported: its decoder without the head is not at hand")
    training = model.training
    model.eval()
    ids = torch.arange(16, device=model.device)[None] % config.vocab_size
    states = model.base_model(input_ids=ids, use_cache=False).last_hidden_state  # [1, 16, H]
    start = model.base_model(input_ids=ids[:, :8], use_cache=False).last_hidden_state  # [1, 8, H]
    if not close(states[:, :8], start):
        raise ValueError(
            f"{name} as it is configured is no causal decoder: tokens see those that follow"
        )
    if projection is not None:
        logits = model(input_ids=ids, use_cache=False).logits  # [1, 16, V]
        if not close(projection(states), logits):
            raise ValueError(
                f"{name} cannot be a policy: its logits are more than a projection of its states"
            )
    model.train(training)


def close(ours: Tensor, theirs: Tensor) -> bool:
    """Whether two results differ by no more than rounding."""
    rounded = theirs.dtype.itemsize < 4 or torch.is_autocast_enabled(theirs.device.type)
    difference = (ours.double() - theirs.double()).norm() / theirs.double().norm()
    return difference.item() <= (3e-2 if rounded else 1e-4)
