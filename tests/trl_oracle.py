"""TRL's own SFTTrainer and DPOTrainer on our items: what our trainings are compared with.

    fit_sft(policy, items, validation, recipe, parent)        # as trainer.fit with objectives.sft()
    fit_dpo(policy, items, validation, beta, recipe, parent)  # .. with objectives.dpo(beta)

Tokens, order of the data, schedule and optimiser are those of `trainer.fit`.
"""

import math
import os
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path

from datasets import Dataset
from transformers import PrinterCallback, Trainer, TrainerCallback, TrainingArguments
from trl import DPOConfig, DPOTrainer, SFTConfig, SFTTrainer

from hs2lib.engine import checkpoints
from hs2lib.models.policy import Policy
from hs2lib.paths import write
from hs2lib.train import objectives
from hs2lib.train.items import Item, order
from hs2lib.train.objectives import Objective
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

    def _prepare_dataset(self, dataset: Dataset, *args: object) -> Dataset:
        return dataset

    def _precompute_ref_logps(self, dataset: Dataset, *args: object) -> Dataset:
        if "ref_chosen_logps" in dataset.column_names:
            return dataset
        return super()._precompute_ref_logps(dataset, *args)


def sft_rows(items: Sequence[Item]) -> Dataset:
    """Conversations as the rows SFTTrainer trains on.

    Returns: input_ids, and labels with -100 where nothing is trained.
    """
    rows = []
    for item in items:
        (ids,) = item.sequences
        (stretches,) = item.starts
        if isinstance(stretches, int):  # the response goes on to the end
            stretches = [(stretches, len(ids))]
        labels = [-100] * len(ids)
        for start, stop in stretches:
            labels[start:stop] = ids[start:stop]
        rows.append({"input_ids": ids, "labels": labels})
    return Dataset.from_list(rows)


def dpo_rows(items: Sequence[Item]) -> Dataset:
    """Pairs as the rows DPOTrainer trains on.

    A pair whose responses begin with the same tokens keeps them in the responses, as `Item.starts`
    says.

    Returns: prompt_ids, and of each side its ids and the reference's log-probability.
    Raises: ValueError for an item that is not one pair.
    """
    rows = []
    for item in items:
        better, worse = objectives.ordered_pairs(*targets_of([item], "cpu"))
        if len(better) != 1 or len(set(item.starts)) > 1:
            raise ValueError(
                f"item {item.id} is not one pair of responses to one prompt: "
                "TRL's DPO takes only pairs"
            )
        chosen = better.item()
        rejected = worse.item()
        start = item.starts[0]
        row = {
            "prompt_ids": item.sequences[0][:start],
            "chosen_ids": item.sequences[chosen][start:],
            "ref_chosen_logps": float(item.targets[chosen, 1]),
            "rejected_ids": item.sequences[rejected][start:],
            "ref_rejected_logps": float(item.targets[rejected, 1]),
        }
        rows.append(row)
    return Dataset.from_list(rows)


def fit_sft(
    policy: Policy,
    items: Sequence[Item],
    validation: Sequence[Item],
    recipe: Recipe,
    parent: Path,
    **options: object,
) -> TrainingResult:
    """Train in place as `fit` with `objectives.sft()` does, but by TRL's SFTTrainer.

    Paper: section 4.2.

    Args:
        policy, items, validation, recipe, parent: as for `hs2lib.train.trainer.fit`.
        **options: rows_a_batch, the conversations of a padded micro-batch (1), and callbacks.
    Raises: ValueError where the batch cannot be cut into such, and as `fit`.
    """
    policy.backbone.set_attn_implementation("sdpa")
    return _fit(
        policy,
        items,
        validation,
        recipe,
        parent,
        trainer_class=TokenSFTTrainer,
        settings_class=SFTConfig,
        rows=sft_rows,
        objective=objectives.sft(),
        trl_settings={"max_length": None, "dataset_kwargs": {"skip_prepare_dataset": True}},
        **options,
    )


def fit_dpo(
    policy: Policy,
    items: Sequence[Item],
    validation: Sequence[Item],
    beta: float,
    recipe: Recipe,
    parent: Path,
    **options: object,
) -> TrainingResult:
    """Train in place as `fit` with `objectives.dpo(beta)` does, but by TRL's DPOTrainer.

    Paper: section 4.3.

    Args:
        policy, items, validation, recipe, parent: as for `hs2lib.train.trainer.fit`.
        beta: the KL penalty.
        **options: as for `fit_sft`, of pairs.
    Raises: as `fit_sft`.
    """
    return _fit(
        policy,
        items,
        validation,
        recipe,
        parent,
        trainer_class=TokenDPOTrainer,
        settings_class=DPOConfig,
        rows=dpo_rows,
        objective=objectives.dpo(beta),
        trl_settings={"beta": beta, "max_length": None, "precompute_ref_log_probs": True},
        **options,
    )


def settings(
    kind: type[TrainingArguments],
    folder: Path,
    recipe: Recipe,
    rows: int,
    rows_a_batch: int,
    evaluate: bool,
    **options: object,
) -> TrainingArguments:
    """TRL's settings for a recipe of ours.

    Args:
        kind: SFTConfig or DPOConfig.
        folder: the run's folder.
        recipe: our recipe.
        rows: how many rows there are to train on.
        rows_a_batch: rows of a padded micro-batch.
        evaluate: whether there are rows to validate on.
        **options: settings of this kind of trainer alone.
    Raises: ValueError where the batch cannot be cut into micro-batches, or the rows make no global
        batch.
    """
    rows_at_once = rows_a_batch * int(os.environ.get("WORLD_SIZE", "1"))
    if recipe.batch % rows_at_once:
        raise ValueError(
            f"a batch of {recipe.batch} rows cannot be cut into micro-batches of {rows_a_batch}"
        )
    options |= {
        "per_device_train_batch_size": rows_a_batch,
        "per_device_eval_batch_size": rows_a_batch,
        "gradient_accumulation_steps": recipe.batch // rows_at_once,
        "eval_on_start": evaluate,
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
        **options,
    )


# What our trainer calls the metrics that TRL logs.
METRIC_NAMES = {
    "eval_rewards/accuracies": "eval_accuracy",
    "eval_rewards/margins": "eval_margin",
    "eval_mean_token_accuracy": "eval_accuracy",
}


def _fit(
    policy: Policy,
    items: Sequence[Item],
    validation: Sequence[Item],
    recipe: Recipe,
    parent: Path,
    *,
    trainer_class: type[Trainer],
    settings_class: type[TrainingArguments],
    rows: Callable[[Sequence[Item]], Dataset],
    objective: Objective,
    trl_settings: dict[str, object],
    rows_a_batch: int = 1,
    callbacks: Sequence[TrainerCallback] = (),
) -> TrainingResult:
    """Train in place by one of TRL's trainers, on the rows that `rows` makes of the items."""
    place = run_folder(
        parent, policy, items, validation, objective, recipe, {"backend": "trl"}, trainer_class
    )
    args = settings(
        settings_class,
        place.folder,
        recipe,
        len(items),
        rows_a_batch,
        bool(validation),
        **trl_settings,
    )
    last = checkpoints.latest_checkpoint(place.folder)
    if last is not None:
        args.eval_on_start = False
    # In the order in which `trainer.fit` would train on them, as many as all steps take.
    endless = order([item.id for item in items], recipe.seed)
    positions = list(islice(endless, args.max_steps * recipe.batch))
    clock = Clock(place.folder, resumes=last is not None)
    trainer = trainer_class(
        policy.backbone,
        args=args,
        processing_class=policy.tokenizer,
        callbacks=[clock, *callbacks],
        train_dataset=rows(items).select(positions),
        eval_dataset=rows(validation) or None,
    )
    if args.should_save:
        write(place.folder / "run.json", place.record)
    trainer.remove_callback(PrinterCallback)
    trainer.train(resume_from_checkpoint=str(last) if last else None)
    policy.eval()
    # SFTTrainer puts a `forward` of its own on the backbone; without it the class's comes back.
    vars(policy.backbone).pop("forward", None)
    history = []
    for entry in trainer.state.log_history:
        history.append({METRIC_NAMES.get(name, name): value for name, value in entry.items()})
    eval_losses = [entry["eval_loss"] for entry in history if "eval_loss" in entry]
    return TrainingResult(
        history=history,
        best_step=args.max_steps,
        best_loss=eval_losses[-1] if eval_losses else math.nan,
        steps=args.max_steps,
        seconds=clock.seconds(),
        folder=place.folder,
        code=place.code,
    )
