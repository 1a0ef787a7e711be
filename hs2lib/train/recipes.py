"""The whole recipe of each method: every setting with its type, default, help and range.

A notebook's parameters cell shows the dozen settings that a reader changes; its last line, `recipe: dict = {..}`,
overrides any other one of these. `run.recipe` of `hs2lib.report.report.start` is the result, a typed object. This
module imports no torch, so that the parameters of all notebooks are checked within a second. Defaults are the paper's,
or the reference code's (NeMo-Aligner's) where the paper is silent; what only a tier decides (sizes, hardware) begins
small.
"""

from dataclasses import dataclass

from hs2lib.names import (
    PRECISIONS,
    PROMPTS,
    SOURCES,
    SPLITS,
    TEMPLATES,
    TOO_LONG,
    TRAINED,
)
from hs2lib.run.parameters import setting


@dataclass(frozen=True)
class Recipe:
    """How to train: what `hs2lib.train.trainer.fit` reads of every recipe."""

    epochs: float = setting(
        2.0, "passes over the training data, where there are no steps; paper: section 3", 0.01, 1000
    )
    steps: int = setting(0, "steps to stop after, or 0 for the whole global batches of the epochs", 0, 10_000_000)
    batch: int = setting(64, "groups in a global batch; paper: 128 responses, so 64 pairs", 1, 100_000)
    learning_rate: float = setting(2e-6, "constant, after the warm-up; paper: section 3, Llama 3 70B", 0, 1)
    warmup: int = setting(10, "steps of warm-up; paper: section 3", 0, 100_000)
    weight_decay: float = setting(0.1, "of AdamW; reference code", 0, 1)
    betas: tuple[float, float] = setting((0.9, 0.98), "of AdamW; reference code", 0, 1)
    clip: float = setting(1.0, "largest norm of the gradient; reference code", 0, 1e9)
    seed: int = setting(0, "of the order of the data, with the number of the epoch", 0, 2**32 - 1)
    autocast: str = setting("bfloat16", "what the backbone computes in, over float32 weights", one_of=PRECISIONS)
    budget: int = setting(4096, "size of a micro-batch, tokens: bounds the memory", 1, 10_000_000)
    accumulation: int = setting(1, "parts of a global batch that each process computes in turn", 1, 100_000)
    checkpointing: bool = setting(False, "compute activations twice, to hold fewer")
    validate_every: int = setting(10, "steps between validations; reference code", 1, 1_000_000)
    save_every: int = setting(50, "steps between checkpoints to go on from", 1, 1_000_000)
    keep: int = setting(1, "best checkpoints to keep, or 0 for the last weights", 0, 1000)
    fsdp: bool = setting(False, "shard the model over the processes that torchrun started")


@dataclass(frozen=True)
class Rows:
    """How rows are read."""

    strict: bool = setting(True, "stop at the first bad row, or set bad rows aside and count them")
    length_scale: float = setting(0.05, "length of generated texts against the paper's", 0.05, 1)


@dataclass(frozen=True)
class Written:
    """How a model's repository is read, and how a conversation is written for it."""

    revision: str = setting("", 'commit of the Hub repository, or "" for the newest')
    pad_token: str = setting("", 'pad token for a tokenizer that has none, or ""')
    template: str = setting("chat", "how a conversation is written, for a model from elsewhere", one_of=TEMPLATES)
    max_tokens: int = setting(0, "longest response with its prompt, tokens, or 0 for the model's limit", 0, 1_000_000)

    @property
    def written(self) -> dict:
        """These four, as `hs2lib.models` takes them: None in place of an empty one."""
        how = {"revision": self.revision, "pad_token": self.pad_token, "max_tokens": self.max_tokens}
        return {"template": self.template} | {name: value or None for name, value in how.items()}


@dataclass(frozen=True)
class Weights:
    """Which weights are trained."""

    method: str = setting("full", "all weights or adapters", one_of=TRAINED)
    lora_rank: int = setting(16, "rank of the adapters", 1, 1024)


@dataclass(frozen=True)
class Measured:
    """How a policy is measured: what it answers, and the reward model that scores the answers."""

    reward: str = setting("", 'reward model that measures, a folder or Hub repository, or "" for that of notebook 05')
    weighting: str = setting("goodness", "head weights: goodness, a row of Table 3, or text as quality:1")
    eval_dataset: str = setting("helpsteer2", "held-out prompts", one_of=PROMPTS)
    eval_source: str = setting("embedded", "where they come from", one_of=SOURCES)
    eval_split: str = setting("both", "which split of them, never one trained on", one_of=SPLITS)
    n_eval_prompts: int = setting(8, "held-out prompts to respond to", 1, 100_000)
    n_eval_samples: int = setting(1, "responses to each", 1, 1000)
    eval_tokens: int = setting(12, "longest of them, tokens", 1, 100_000)
    n_boot: int = setting(1000, "bootstrap resamples", 100, 100_000)


@dataclass(frozen=True)
class Aligned(Measured, Weights, Rows, Recipe):
    """What the recipes of all policies share."""

    warmup: int = setting(0, "steps of warm-up; paper: section 3 has 10, for the reward model only", 0, 100_000)
    autocast: str = setting("float32", "what the models compute in, over float32 weights", one_of=PRECISIONS)


@dataclass(frozen=True)
class DPO(Written, Aligned):
    """Notebook 08. Paper: section 4.3."""

    attribute: str = setting("helpfulness", "label whose highest response is chosen and whose lowest is rejected")
    path: str = setting("", "file with your own ratings, for data set ratings")
    validation_split: str = setting("", 'split to validate on, or "" to cut validation_share off', one_of=("", *SPLITS))
    validation_share: float = setting(0.2, "of the prompts, to validate on", 0, 0.5)
    too_long: str = setting("raise", "what to do with a pair longer than max_tokens", one_of=TOO_LONG)
    backend: str = setting("groups", "prefix trees in our trainer, or TRL's DPOTrainer", one_of=("groups", "trl"))
    beta: float = setting(0.001, "KL penalty: how much a log-ratio counts; paper: section 4.3", 1e-6, 10)
