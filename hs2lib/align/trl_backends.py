"""TRL's own trainers, SFTTrainer and DPOTrainer, on our items: what a notebook's `backend: trl`
asks for.

Importing TRL takes seconds, so this module is imported only where it is asked for.

    result = fit_sft(policy, items, validation, recipe, parent)            # as trainer.fit with objectives.sft()
    result = fit_dpo(policy, items, validation, beta, recipe, parent)      # as trainer.fit with objectives.dpo(beta)

Tokens, order of the data, schedule and optimiser are those of `trainer.fit`, and so are losses and
gradients. TRL pads, validates in its own way (the mean over its batches) and leaves the last
weights. Of a recipe it does not use accumulation, keep, budget and fsdp. A run that was killed goes
on from its last checkpoint.
"""

import math
import os
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from datasets import Dataset
from transformers import PrinterCallback
from trl import DPOConfig, DPOTrainer, SFTConfig, SFTTrainer

from hs2lib.models.policy import Policy
from hs2lib.paths import write
from hs2lib.train import checkpoints, objectives
from hs2lib.train.items import Item, order
from hs2lib.train.trainer import (
    Clock,
    Recipe,
    TrainingResult,
    arguments,
    run_folder,
    steps_of,
    targets_of,
)


class TokenSFTTrainer(checkpoints.WholeCheckpoints, SFTTrainer):
    """TRL's trainer on data that are tokens and labels already."""


class TokenDPOTrainer(checkpoints.WholeCheckpoints, DPOTrainer):
    """TRL's trainer on data that are tokens, with their reference log-probabilities, already."""

    def _prepare_dataset(self, dataset, *args):
        return dataset

    def _precompute_ref_logps(self, dataset, *args):
        return (
            dataset
            if "ref_chosen_logps" in dataset.column_names
            else super()._precompute_ref_logps(dataset, *args)
        )


def sft_rows(items: Sequence[Item]) -> Dataset:
    """Conversations as the rows SFTTrainer trains on: input_ids, and labels with -100 where nothing is trained."""
    rows = []
    for item in items:
        (ids,), (predicted,) = item.sequences, item.starts
        labels = [-100] * len(ids)
        for start, stop in [(predicted, len(ids))] if isinstance(predicted, int) else predicted:
            labels[start:stop] = ids[start:stop]
        rows.append({"input_ids": ids, "labels": labels})
    return Dataset.from_list(rows)


def dpo_rows(items: Sequence[Item]) -> Dataset:
    """Pairs as the rows DPOTrainer trains on: prompt_ids, chosen_ids, rejected_ids, the reference's
    log-probabilities.

    A pair whose responses begin with the same tokens keeps them in the responses, as `Item.starts`
    says. Raises ValueError for an item that is not one pair.
    """
    out = []
    for item in items:
        pairs = list(zip(*objectives.ordered_pairs(*targets_of([item], "cpu")), strict=True))
        if len(pairs) != 1 or len(set(item.starts)) > 1:
            raise ValueError(
                f"item {item.id} is not one pair of responses to one prompt: TRL's DPO takes only pairs"
            )
        row = {"prompt_ids": item.sequences[0][: item.starts[0]]}
        for side, i in zip(("chosen", "rejected"), pairs[0], strict=True):
            row |= {
                f"{side}_ids": item.sequences[i][item.starts[0] :],
                f"ref_{side}_logps": float(item.targets[i, 1]),
            }
        out.append(row)
    return Dataset.from_list(out)


def fit_sft(
    policy: Policy, items, validation, recipe: Recipe, parent: Path, **options
) -> TrainingResult:
    """Train a policy in place as `fit(policy, items, validation, sft(), recipe, parent)` does, but
    by TRL's SFTTrainer.

    Paper: section 4.2. options: rows_a_batch, conversations of a padded micro-batch (1), and
    callbacks. Raises ValueError where the batch cannot be cut into such, and as `fit`.
    """
    policy.backbone.set_attn_implementation("sdpa")
    own = {"max_length": None, "dataset_kwargs": {"skip_prepare_dataset": True}}
    kind = TokenSFTTrainer, SFTConfig, sft_rows, objectives.sft()
    return _fit(kind, own, policy, items, validation, recipe, parent, **options)


def fit_dpo(
    policy: Policy, items, validation, beta: float, recipe: Recipe, parent: Path, **options
) -> TrainingResult:
    """Train in place as `fit(policy, items, validation, dpo(beta), recipe, parent)` does, but by
    TRL's DPOTrainer.

    Paper: section 4.3. options: as for `fit_sft`, of pairs. Raises as that does.
    """
    own = {"beta": beta, "max_length": None, "precompute_ref_log_probs": True}
    kind = TokenDPOTrainer, DPOConfig, dpo_rows, objectives.dpo(beta)
    return _fit(kind, own, policy, items, validation, recipe, parent, **options)


def settings(
    kind: type, folder: Path, recipe: Recipe, rows: int, rows_a_batch: int, evaluate: bool, **own
):
    """TRL's settings for a recipe of ours; `own` are those of one kind of trainer.

    Raises ValueError where the batch cannot be cut into micro-batches, or the rows make no global
    batch.
    """
    together = rows_a_batch * int(os.environ.get("WORLD_SIZE", "1"))
    if recipe.batch % together:
        raise ValueError(
            f"a batch of {recipe.batch} rows cannot be cut into micro-batches of {rows_a_batch}"
        )
    own |= {"per_device_train_batch_size": rows_a_batch, "per_device_eval_batch_size": rows_a_batch}
    own |= {"gradient_accumulation_steps": recipe.batch // together, "eval_on_start": evaluate}
    own |= {
        "activation_checkpointing": recipe.checkpointing,
        "train_sampling_strategy": "sequential",
    }
    return arguments(
        kind,
        folder,
        recipe,
        steps_of(recipe, rows),
        evaluate,
        bf16=recipe.autocast == "bfloat16",
        **own,
    )


def _fit(
    kind, own, policy, items, validation, recipe, parent, *, rows_a_batch=1, callbacks=()
) -> TrainingResult:
    if recipe.judge != "none":
        raise ValueError(
            f"judge {recipe.judge!r} wants every checkpoint, and TRL's are not kept: take backend 'groups'"
        )
    trainer, configuration, rows, objective = kind
    place = run_folder(
        parent, policy, items, validation, objective, recipe, {"backend": "trl"}, trainer
    )
    folder = place.folder
    args = settings(
        configuration, folder, recipe, len(items), rows_a_batch, bool(validation), **own
    )
    # In the order in which `trainer.fit` would train on them, as many as all steps take.
    positions = islice(
        order([item.id for item in items], recipe.seed), args.max_steps * recipe.batch
    )
    data = {
        "train_dataset": rows(items).select(list(positions)),
        "eval_dataset": rows(validation) or None,
    }
    last = checkpoints.last(folder)
    clock = Clock(folder, resumes=last is not None)
    args.eval_on_start &= last is None
    trainer = trainer(
        policy.backbone,
        args=args,
        processing_class=policy.tokenizer,
        callbacks=[clock, *callbacks],
        **data,
    )
    if args.should_save and not place.reused:
        write(folder / "run.json", place.record)
    trainer.remove_callback(PrinterCallback)
    trainer.train(resume_from_checkpoint=str(last) if last else None)
    policy.eval()
    vars(policy.backbone).pop(
        "forward", None
    )  # SFTTrainer puts one of its own on it; the class's comes back
    names = {"eval_rewards/accuracies": "eval_accuracy", "eval_rewards/margins": "eval_margin"}
    names |= {"eval_mean_token_accuracy": "eval_accuracy"}
    history = [
        {names.get(name, name): value for name, value in entry.items()}
        for entry in trainer.state.log_history
    ]
    losses = [math.nan, *(entry["eval_loss"] for entry in history if "eval_loss" in entry)]
    steps = args.max_steps
    return TrainingResult(
        history, steps, losses[-1], steps, clock.seconds(), folder, place.code, place.reused
    )
