"""TRL's DPOTrainer on the very items of `hs2lib.preferences`: the other backend of notebook 08, and a check of ours.

TRL gets the same tokens, the same reference log-probabilities, the same order of the data, the same schedule; it pads.
"""

import time
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import torch
from datasets import Dataset
from transformers import PrinterCallback
from trl import DPOConfig, DPOTrainer

from hs2lib import checkpoints
from hs2lib.items import Item, order
from hs2lib.objectives import ordered_pairs
from hs2lib.policy import Policy
from hs2lib.train import Recipe, Result
from hs2lib.trainer import targets_of


class TokenDPOTrainer(checkpoints.WholeCheckpoints, DPOTrainer):
    """TRL's trainer on data that are tokens, with their reference log-probabilities, already."""

    def _prepare_dataset(self, dataset, *args):
        return dataset

    def _precompute_ref_logps(self, dataset, *args):
        return dataset if "ref_chosen_logps" in dataset.column_names else super()._precompute_ref_logps(dataset, *args)


def rows(items: Sequence[Item], *, reference: bool = True) -> Dataset:
    """Items as the rows TRL trains on: prompt_ids, chosen_ids, rejected_ids, and the reference's log-probabilities.

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
        if reference:
            row |= {"ref_chosen_logps": float(item.targets[i, 1]), "ref_rejected_logps": float(item.targets[j, 1])}
        out.append(row)
    return Dataset.from_list(out)


def fit(
    policy: Policy,
    items: Sequence[Item],
    validation: Sequence[Item],
    beta: float,
    recipe: Recipe,
    folder: Path,
    *,
    rows_a_batch: int = 1,
    callbacks: Sequence = (),
) -> Result:
    """Train as `train.fit(policy, items, validation, dpo(beta), recipe, folder)`, by TRL; the last weights stay.

    Paper: section 4.3. rows_a_batch: pairs of a padded micro-batch, a divisor of recipe.batch; budget, accumulation,
    keep and fsdp of the recipe are not used. A run that was killed goes on from its last checkpoint.
    """
    if recipe.batch % rows_a_batch:
        raise ValueError(f"a batch of {recipe.batch} pairs cannot be cut into micro-batches of {rows_a_batch}")
    started, last = time.time(), checkpoints.last(Path(folder))
    steps = recipe.steps or int(recipe.epochs * len(items)) // recipe.batch
    sequence = islice(order([item.id for item in items], recipe.seed), steps * recipe.batch)
    data = rows(items).select(list(sequence))
    trainer = TokenDPOTrainer(
        policy.backbone,
        args=config(folder, recipe, beta, steps, rows_a_batch, evaluate=bool(validation)),
        train_dataset=data,
        eval_dataset=rows(validation) if validation else None,
        processing_class=policy.tokenizer,
        callbacks=list(callbacks),
    )
    trainer.remove_callback(PrinterCallback)
    trainer.train(resume_from_checkpoint=str(last) if last else None)
    policy.eval()
    history = [_ours(entry) for entry in trainer.state.log_history]
    evaluated = [entry["eval_loss"] for entry in history if "eval_loss" in entry]
    end = evaluated[-1] if evaluated else float("nan")
    return Result(history, steps, end, steps, round(time.time() - started, 1), Path(folder))


def config(folder: Path, recipe: Recipe, beta: float, steps: int, rows_a_batch: int, *, evaluate: bool) -> DPOConfig:
    """TRL's settings for a recipe of ours."""
    return DPOConfig(
        output_dir=str(folder),
        beta=beta,
        max_length=None,
        precompute_ref_log_probs=True,
        max_steps=steps,
        per_device_train_batch_size=rows_a_batch,
        per_device_eval_batch_size=rows_a_batch,
        gradient_accumulation_steps=recipe.batch // rows_a_batch,
        activation_checkpointing=recipe.checkpointing,
        train_sampling_strategy="sequential",
        learning_rate=recipe.learning_rate,
        warmup_steps=recipe.warmup,
        weight_decay=recipe.weight_decay,
        adam_beta1=recipe.betas[0],
        adam_beta2=recipe.betas[1],
        max_grad_norm=recipe.clip,
        seed=recipe.seed,
        bf16=recipe.autocast == "bfloat16",
        use_cpu=not torch.cuda.is_available(),
        eval_strategy="steps" if evaluate else "no",
        eval_steps=recipe.validate_every,
        eval_on_start=evaluate,
        save_steps=recipe.save_every,
        logging_steps=1,
        report_to="none",
        disable_tqdm=True,
        dataloader_pin_memory=False,
    )


def _ours(entry: dict) -> dict:
    """A line of TRL's log under the names of ours."""
    names = {"eval_rewards/accuracies": "eval_accuracy", "eval_rewards/margins": "eval_margin"}
    return {names.get(name, name): value for name, value in entry.items()}
