"""TRL's own trainers, SFTTrainer and DPOTrainer, on our items: what a notebook's `backend: trl` asks for.

Importing TRL takes seconds, so this module is imported only where it is asked for.

    result = fit_sft(policy, items, validation, recipe, parent)            # as trainer.fit with objectives.sft()
    result = fit_dpo(policy, items, validation, beta, recipe, parent)      # as trainer.fit with objectives.dpo(beta)

Tokens, order of the data, schedule and optimiser are those of `trainer.fit`, and so are losses and gradients. TRL pads,
validates in its own way (the mean over its batches) and leaves the last weights. Of a recipe it does not use
accumulation, keep and fsdp, and budget only for packed rows. A run that was killed goes on from its last checkpoint.
"""

import os
import time
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import torch
from datasets import Dataset
from transformers import PrinterCallback
from transformers.utils import is_flash_attn_2_available
from trl import DPOConfig, DPOTrainer, SFTConfig, SFTTrainer, pack_dataset

from hs2lib.models.policy import Policy
from hs2lib.names import PACKING, one_of
from hs2lib.paths import write
from hs2lib.train import checkpoints
from hs2lib.train.items import Item, order
from hs2lib.train.objectives import dpo, ordered_pairs, sft
from hs2lib.train.trainer import Recipe, TrainingResult, arguments, run_folder, targets_of


class TokenSFTTrainer(checkpoints.WholeCheckpoints, SFTTrainer):
    """TRL's trainer on data that are tokens and labels already."""


class TokenDPOTrainer(checkpoints.WholeCheckpoints, DPOTrainer):
    """TRL's trainer on data that are tokens, with their reference log-probabilities, already."""

    def _prepare_dataset(self, dataset, *args):
        return dataset

    def _precompute_ref_logps(self, dataset, *args):
        return dataset if "ref_chosen_logps" in dataset.column_names else super()._precompute_ref_logps(dataset, *args)


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
    """Pairs as the rows DPOTrainer trains on: prompt_ids, chosen_ids, rejected_ids, the reference's log-probabilities.

    A pair whose responses begin with the same tokens keeps them in the responses, as `Item.starts` says.
    Raises ValueError for an item that is not one pair.
    """
    out = []
    for item in items:
        better, worse = ordered_pairs(*targets_of([item], "cpu"))
        if len(better) != 1 or len(set(item.starts)) > 1:
            raise ValueError(f"item {item.id} is not one pair of responses to one prompt: TRL's DPO takes only pairs")
        start, (i, j) = item.starts[0], (better.item(), worse.item())
        row = {"prompt_ids": item.sequences[i][:start]}
        row |= {"chosen_ids": item.sequences[i][start:], "rejected_ids": item.sequences[j][start:]}
        row |= {"ref_chosen_logps": float(item.targets[i, 1]), "ref_rejected_logps": float(item.targets[j, 1])}
        out.append(row)
    return Dataset.from_list(out)


def fit_sft(
    policy: Policy, items, validation, recipe: Recipe, parent: Path, *, packing="none", rows_a_batch=1, callbacks=()
) -> TrainingResult:
    """Train a policy in place as `fit(policy, items, validation, sft(), recipe, parent)` does, but by TRL's SFTTrainer.

    Paper: section 4.2. packing: "none" pads the conversations of a micro-batch; "padding-free" lays them end to end,
    each attending to itself only, which changes no number; "bfd" (TRL's best fit decreasing) lays them end to end once
    and for all in rows of `recipe.budget` tokens, and `recipe.batch` then counts rows. rows_a_batch: conversations of a
    micro-batch. Raises ValueError for another packing, a conversation longer than a packed row, and as `fit`.
    """
    one_of("packing", packing, PACKING)
    rows, packed = sft_rows(items), packing == "bfd"
    if packed:
        if (longest := max(len(item.sequences[0]) for item in items)) > recipe.budget:
            what = f"a conversation of {longest:,} tokens is longer than a packed row"
            raise ValueError(f"{what} (budget {recipe.budget:,})")
        rows = pack_dataset(rows, recipe.budget, "bfd")
    flash = torch.cuda.is_available() and recipe.autocast == "bfloat16" and is_flash_attn_2_available()
    policy.backbone.set_attn_implementation("flash_attention_2" if flash else "sdpa")
    # Padded or end to end is the same training; packed into rows it is another order.
    about = {"backend": "trl"} | ({"rows": recipe.budget} if packed else {})
    length = {"max_length": recipe.budget if packed else None, "padding_free": packing == "padding-free"}
    ready = {"packing": packed, "packing_strategy": "bfd", "dataset_kwargs": {"skip_prepare_dataset": True}}
    folder, configuration = run_folder(parent, policy, items, validation, sft(), recipe, about)
    args = settings(SFTConfig, folder, recipe, len(rows), rows_a_batch, bool(validation), **length, **ready)
    ids = [f"{i:09d}" for i in range(len(rows))] if packed else [item.id for item in items]
    data = {"train_dataset": _in_order(rows, ids, recipe, args), "eval_dataset": sft_rows(validation) or None}
    try:
        return _train(TokenSFTTrainer, policy, args, data, callbacks, configuration)
    finally:
        del policy.backbone.forward  # SFTTrainer puts a forward of its own on the model; the class's comes back


def fit_dpo(
    policy: Policy, items, validation, beta: float, recipe: Recipe, parent: Path, *, rows_a_batch=1, callbacks=()
) -> TrainingResult:
    """Train in place as `fit(policy, items, validation, dpo(beta), recipe, parent)` does, but by TRL's DPOTrainer.

    Paper: section 4.3. rows_a_batch: pairs of a padded micro-batch. Raises as `fit_sft`.
    """
    own = {"beta": beta, "max_length": None, "precompute_ref_log_probs": True}
    folder, configuration = run_folder(parent, policy, items, validation, dpo(beta), recipe, {"backend": "trl"})
    args = settings(DPOConfig, folder, recipe, len(items), rows_a_batch, bool(validation), **own)
    rows = _in_order(dpo_rows(items), [item.id for item in items], recipe, args)
    data = {"train_dataset": rows, "eval_dataset": dpo_rows(validation) or None}
    return _train(TokenDPOTrainer, policy, args, data, callbacks, configuration)


def settings(kind: type, folder: Path, recipe: Recipe, rows: int, rows_a_batch: int, evaluate: bool, **own):
    """TRL's settings for a recipe of ours; `own` are those of one kind of trainer.

    Raises ValueError where the batch cannot be cut into micro-batches, or the rows make no global batch.
    """
    processes = int(os.environ.get("WORLD_SIZE", "1"))
    if recipe.batch % (rows_a_batch * processes):
        parts = f"micro-batches of {rows_a_batch} on {processes} processes"
        raise ValueError(f"a batch of {recipe.batch} rows cannot be cut into {parts}")
    steps = recipe.steps or int(recipe.epochs * rows) // recipe.batch
    if steps < 1:
        raise ValueError(f"{recipe.epochs} epochs of {rows} rows make no global batch of {recipe.batch}")
    own |= {"per_device_train_batch_size": rows_a_batch, "per_device_eval_batch_size": rows_a_batch}
    own |= {"gradient_accumulation_steps": recipe.batch // (rows_a_batch * processes), "eval_on_start": evaluate}
    own |= {"activation_checkpointing": recipe.checkpointing, "train_sampling_strategy": "sequential"}
    return arguments(kind, folder, recipe, steps, evaluate, bf16=recipe.autocast == "bfloat16", **own)


def _in_order(rows: Dataset, ids: Sequence[str], recipe: Recipe, args) -> Dataset:
    """Rows in the order in which `trainer.fit` would train on them, as many as all steps take."""
    return rows.select(list(islice(order(ids, recipe.seed), args.max_steps * recipe.batch)))


def _train(kind: type, policy: Policy, args, data: dict, callbacks: Sequence, configuration: str) -> TrainingResult:
    trainer = kind(policy.backbone, args=args, processing_class=policy.tokenizer, callbacks=list(callbacks), **data)
    folder, started = Path(trainer.args.output_dir), time.time()
    if trainer.args.should_save:
        write(folder / "run.json", configuration + "\n")
    trainer.remove_callback(PrinterCallback)
    last = checkpoints.last(folder)
    trainer.args.eval_on_start &= last is None
    trainer.train(resume_from_checkpoint=str(last) if last else None)
    policy.eval()
    names = {"eval_rewards/accuracies": "eval_accuracy", "eval_rewards/margins": "eval_margin"}
    names |= {"eval_mean_token_accuracy": "eval_accuracy"}
    history = [{names.get(name, name): value for name, value in entry.items()} for entry in trainer.state.log_history]
    losses = [entry["eval_loss"] for entry in history if "eval_loss" in entry]
    steps, loss = trainer.args.max_steps, losses[-1] if losses else float("nan")
    return TrainingResult(history, steps, loss, steps, round(time.time() - started, 1), folder)
