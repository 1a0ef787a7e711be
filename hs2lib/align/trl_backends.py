"""TRL's own trainers, SFTTrainer and DPOTrainer, on our items: what a notebook's `backend: trl` asks for.

Importing TRL takes seconds, so this module is imported only where it is asked for.

    result = fit_dpo(policy, items, validation, beta, recipe, folder)      # as trainer.fit with objectives.dpo(beta)
    result = fit_sft(policy, items, validation, recipe, folder)
"""

import hashlib
import json
import os
import time
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from types import SimpleNamespace

import torch
from datasets import Dataset
from transformers import PrinterCallback
from transformers.utils import is_flash_attn_2_available
from trl import DPOConfig, DPOTrainer, SFTConfig, SFTTrainer, pack_dataset

from hs2lib.models.policy import Policy
from hs2lib.names import PACKING
from hs2lib.paths import write
from hs2lib.train import checkpoints
from hs2lib.train.items import Item, order
from hs2lib.train.objectives import ordered_pairs
from hs2lib.train.progress import Log
from hs2lib.train.trainer import AtTheEnd, Recipe, TrainingResult, described, same_run, targets_of


def sft_rows(items: Sequence[Item]) -> Dataset:
    """What SFTTrainer takes, tokens and labels ready made: input_ids, and labels with -100 where nothing is trained."""
    rows = []
    for item in items:
        (ids,), (predicted,) = item.sequences, item.predicted
        labels = [-100] * len(ids)
        for start, stop in [(predicted, len(ids))] if isinstance(predicted, int) else predicted:
            labels[start:stop] = ids[start:stop]
        rows.append({"input_ids": ids, "labels": labels})
    return Dataset.from_list(rows)


class TokenSFTTrainer(checkpoints.WholeCheckpoints, SFTTrainer):
    """SFTTrainer that validates as it trains: on every conversation, each token the same."""

    def get_eval_dataloader(self, eval_dataset=None):
        # Whole batches only is for training: here it would leave conversations out, or all of a small part.
        kept, self.args.dataloader_drop_last = self.args.dataloader_drop_last, False
        try:
            return super().get_eval_dataloader(eval_dataset)
        finally:
            self.args.dataloader_drop_last = kept

    def evaluate(self, eval_dataset=None, ignore_keys=None, metric_key_prefix="eval"):
        # The mean over all trained tokens; Trainer's would be over the batches' means, so depend on their size.
        self.model.eval()
        sums = torch.zeros(3, dtype=torch.float64, device=self.args.device)
        for inputs in self.get_eval_dataloader(eval_dataset):
            with torch.no_grad(), self.compute_loss_context_manager():
                found = self.model_wrapped(**self._prepare_inputs(inputs), use_cache=False, fused_lm_head=True)
            sums += torch.stack([x.double().sum() for x in (-found.log_probs, found.is_top1, found.label_mask)])
        loss, right, count = self.accelerator.reduce(sums).tolist()
        metrics = {"eval_loss": loss / count, "eval_mean_token_accuracy": right / count}
        self.log(metrics)
        self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, metrics)
        return metrics


def fit_sft(
    policy,
    items: Sequence[Item],
    validation: Sequence[Item],
    recipe: Recipe,
    folder: Path,
    *,
    packing: str = "padding-free",
    callbacks: Sequence = (),
) -> TrainingResult:
    """Train a policy in place with SFTTrainer, and leave it with its last weights.

    Paper: section 4.2 (constant rate, AdamW; the last step's weights, the paper names no other choice). The loss is
    the mean over all trained tokens of the global batch. packing: "none" pads the conversations of a micro-batch;
    "padding-free" lays them end to end, each attending to itself only, which changes no number; "bfd" (TRL's best fit
    decreasing) lays them end to end once and for all in rows of `recipe.budget` tokens, and `recipe.batch` counts rows.
    A micro-batch is batch / accumulation conversations of each process. `budget`, `keep` are not used otherwise.
    A folder that holds a part of this very run is gone on with, bit for bit on a CPU; one that holds all of it is read.
    Raises ValueError for what cannot be trained, or a folder of another configuration.
    """
    folder, started = Path(folder), time.time()
    configuration = _sft_configuration(policy, items, validation, recipe, packing)
    rows = sft_rows(items)
    if packing == "bfd":
        if (longest := max(len(item.sequences[0]) for item in items)) > recipe.budget:
            raise ValueError(
                f"a conversation of {longest:,} tokens is longer than a packed row (budget {recipe.budget:,})"
            )
        rows = pack_dataset(rows, recipe.budget, "bfd")
    steps = recipe.steps or int(recipe.epochs * (len(rows) // recipe.batch))
    if steps < 1 or len(rows) < recipe.batch:
        what = "packed rows" if packing == "bfd" else "conversations"
        raise ValueError(f"{recipe.epochs} epochs of {len(rows)} {what} make no global batch of {recipe.batch}")
    same_run(folder, configuration)
    if (folder / "done.json").exists():
        return _sft_finished(policy, json.loads((folder / "done.json").read_text()), folder)
    last = checkpoints.last(folder)
    implementation = "flash_attention_2" if _flash(policy, recipe) else "sdpa"
    policy.backbone.set_attn_implementation(implementation)
    policy.train()
    trainer = TokenSFTTrainer(
        policy.backbone,
        _sft_arguments(policy, recipe, packing, steps, folder, bool(validation)),
        train_dataset=rows,
        eval_dataset=sft_rows(validation) if validation else None,
        processing_class=policy.tokenizer,
        callbacks=[AtTheEnd(), *callbacks],
    )
    trainer.remove_callback(PrinterCallback)
    trainer.args.eval_on_start = bool(validation) and last is None
    if main := int(os.environ.get("RANK", "0")) == 0:
        write(folder / "run.json", json.dumps(configuration, indent=1) + "\n")
        trainer.add_callback(Log(folder / "progress.log"))
    trainer.train(resume_from_checkpoint=str(last) if last else None)
    history = trainer.state.log_history
    losses = [(x["eval_loss"], x["step"]) for x in history if "eval_loss" in x]
    done = {"history": history, "best_step": steps, "best_loss": losses[-1][0] if losses else float("nan")}
    done |= {"steps": steps, "seconds": round(time.time() - started, 1)}
    del policy.backbone.forward  # SFTTrainer puts a forward of its own on the model; the class's comes back
    trainer.accelerator.wait_for_everyone()
    if main:
        write(folder / "done.json", json.dumps(done) + "\n")
        for name in ("optimizer.pt", "scheduler.pt"):  # what a finished run could go on from is of no use
            (folder / f"checkpoint-{steps}" / name).unlink(missing_ok=True)
    return TrainingResult(**done, folder=folder) if recipe.fsdp else _sft_finished(policy, done, folder)


def sft_folder(parent: Path, policy, items, validation, recipe: Recipe, packing: str = "padding-free") -> Path:
    """The folder for this run under `parent`: one of its own for each configuration, and always the same for one."""
    text = json.dumps(_sft_configuration(policy, items, validation, recipe, packing), sort_keys=True)
    return Path(parent) / f"training-{hashlib.sha256(text.encode()).hexdigest()[:10]}"


def _sft_configuration(policy, items, validation, recipe: Recipe, packing: str) -> dict:
    if packing not in PACKING:
        raise ValueError(f"packing is one of {', '.join(PACKING)}, got {packing!r}")
    if not items:
        raise ValueError("there are no conversations to train on")
    if not checkpoints.trained(policy):
        raise ValueError("there is nothing to train: every parameter of the model is frozen")
    # Padded or end to end is the same training; packed into rows it is another order.
    about = {"rows": recipe.budget} if packing == "bfd" else {}
    return described(policy, items, validation, SimpleNamespace(name="SFT"), recipe, about)


def _sft_finished(policy, done: dict, folder: Path) -> TrainingResult:
    checkpoints.load_weights(policy.backbone, folder / f"checkpoint-{done['steps']}")
    policy.eval()
    return TrainingResult(**done, folder=folder)


def _flash(policy, recipe: Recipe) -> bool:
    """Whether FlashAttention 2 is there: it knows packed conversations by their positions, as SDPA does by a mask."""
    return torch.cuda.is_available() and recipe.autocast == "bfloat16" and is_flash_attn_2_available()


def _sft_arguments(policy, recipe: Recipe, packing: str, steps: int, folder: Path, validates: bool) -> SFTConfig:
    processes = int(os.environ.get("WORLD_SIZE", "1"))
    if recipe.batch % (processes * recipe.accumulation):
        parts = f"{processes} processes x {recipe.accumulation} accumulation"
        raise ValueError(f"a global batch of {recipe.batch} conversations cannot be shared out to {parts}")
    micro, cuda = recipe.batch // (processes * recipe.accumulation), torch.cuda.is_available()
    layers = {"transformer_layer_cls_to_wrap": list(policy.backbone._no_split_modules)}
    layers |= {"activation_checkpointing": recipe.checkpointing}
    return SFTConfig(
        output_dir=str(folder), max_steps=steps, per_device_train_batch_size=micro, per_device_eval_batch_size=micro,
        gradient_accumulation_steps=recipe.accumulation, learning_rate=recipe.learning_rate,
        warmup_steps=recipe.warmup, weight_decay=recipe.weight_decay, adam_beta1=recipe.betas[0],
        adam_beta2=recipe.betas[1], max_grad_norm=recipe.clip, seed=recipe.seed, data_seed=recipe.seed,
        bf16=recipe.autocast == "bfloat16", use_cpu=not cuda,
        ddp_backend="gloo" if processes > 1 and not cuda else None,
        activation_checkpointing=recipe.checkpointing and not recipe.fsdp, fsdp=recipe.fsdp or None,
        fsdp_config=layers if recipe.fsdp else None, dataloader_drop_last=True, dataloader_pin_memory=False,
        max_length=recipe.budget if packing == "bfd" else None, packing=packing == "bfd", packing_strategy="bfd",
        padding_free=packing == "padding-free", dataset_kwargs={"skip_prepare_dataset": True}, logging_steps=1,
        logging_nan_inf_filter=False, report_to="none", disable_tqdm=True, save_strategy="steps",
        save_steps=recipe.save_every, eval_strategy="steps" if validates else "no", eval_steps=recipe.validate_every,
    )  # fmt: skip


class TokenDPOTrainer(checkpoints.WholeCheckpoints, DPOTrainer):
    """TRL's trainer on data that are tokens, with their reference log-probabilities, already."""

    def _prepare_dataset(self, dataset, *args):
        return dataset

    def _precompute_ref_logps(self, dataset, *args):
        return dataset if "ref_chosen_logps" in dataset.column_names else super()._precompute_ref_logps(dataset, *args)


def dpo_rows(items: Sequence[Item], *, reference: bool = True) -> Dataset:
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


def fit_dpo(
    policy: Policy,
    items: Sequence[Item],
    validation: Sequence[Item],
    beta: float,
    recipe: Recipe,
    folder: Path,
    *,
    rows_a_batch: int = 1,
    callbacks: Sequence = (),
) -> TrainingResult:
    """Train as `fit(policy, items, validation, dpo(beta), recipe, folder)` does, but by TRL; the last weights stay.

    Paper: section 4.3. rows_a_batch: pairs of a padded micro-batch, a divisor of recipe.batch; budget, accumulation,
    keep and fsdp of the recipe are not used. A run that was killed goes on from its last checkpoint.
    """
    if recipe.batch % rows_a_batch:
        raise ValueError(f"a batch of {recipe.batch} pairs cannot be cut into micro-batches of {rows_a_batch}")
    started, last = time.time(), checkpoints.last(Path(folder))
    steps = recipe.steps or int(recipe.epochs * len(items)) // recipe.batch
    sequence = islice(order([item.id for item in items], recipe.seed), steps * recipe.batch)
    data = dpo_rows(items).select(list(sequence))
    trainer = TokenDPOTrainer(
        policy.backbone,
        args=dpo_config(folder, recipe, beta, steps, rows_a_batch, evaluate=bool(validation)),
        train_dataset=data,
        eval_dataset=dpo_rows(validation) if validation else None,
        processing_class=policy.tokenizer,
        callbacks=list(callbacks),
    )
    trainer.remove_callback(PrinterCallback)
    trainer.train(resume_from_checkpoint=str(last) if last else None)
    policy.eval()
    history = [_ours(entry) for entry in trainer.state.log_history]
    evaluated = [entry["eval_loss"] for entry in history if "eval_loss" in entry]
    end = evaluated[-1] if evaluated else float("nan")
    return TrainingResult(history, steps, end, steps, round(time.time() - started, 1), Path(folder))


def dpo_config(
    folder: Path, recipe: Recipe, beta: float, steps: int, rows_a_batch: int, *, evaluate: bool
) -> DPOConfig:
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
