"""Supervised fine-tuning with TRL's SFTTrainer: whole conversations, loss on what the assistant says.

    talks = best_paths(data.load("oasst1", ...).groups)         # groups of one response: one conversation each
    items, report = prepare(policy, talks)                      # tokens, and which of them are trained
    result = fit(policy, items, validation, Recipe(...), folder)
    policy.save(folder / "policy")

Paper: section 4.2. Which tokens are trained is decided in `hs2lib.align.sft`; TRL is given tokens and labels ready
made.
"""

import hashlib
import json
import os
import time
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch
from datasets import Dataset
from transformers import PrinterCallback
from trl import SFTConfig, SFTTrainer, pack_dataset

from hs2lib.engine.attention import log_probs
from hs2lib.engine.chat import chat, reference
from hs2lib.engine.trees import BUDGET, plan
from hs2lib.group import Group, Turn
from hs2lib.paths import write
from hs2lib.train import checkpoints
from hs2lib.train.items import Item
from hs2lib.train.progress import Log
from hs2lib.train.trainer import AtTheEnd, Recipe, Result, described, same_run


@dataclass
class Report:
    """What became of the conversations: counts, and the ids of those of which nothing fits."""

    conversations: int = 0
    turns_trained: int = 0
    shortened: int = 0
    too_long: list[str] = field(default_factory=list)
    tokens: int = 0
    tokens_trained: int = 0

    def as_dict(self) -> dict:
        """The counts by name, for a table or a manifest."""
        return asdict(self) | {"too_long": len(self.too_long)}


def best_paths(groups: Iterable[Group], by: Sequence[str] = ("quality", "helpfulness")) -> list[Group]:
    """Conversations of which every assistant turn is the best rated reply to what comes before it.

    Paper: silent on which paths of Open Assistant's trees are used (56k conversations, section 4.2). by: the attributes
    that rate, the first that a group has; the first of equals and of the unrated is taken. Conversations that are the
    beginning of another are left out: their turns are trained there. Returns groups of one response.
    """
    found: dict[tuple, Group] = {}
    for group in groups:
        column = next((group.attributes.index(name) for name in by if name in group.attributes), None)

        def rate(response, column=column):
            value = response.labels[column] if response.labels and column is not None else float("nan")
            return value if value == value else -1.0

        if group.responses:
            found.setdefault(group.prompt, replace(group, responses=(max(group.responses, key=rate),)))
    best = {prompt: group.responses[0].text for prompt, group in found.items()}
    kept, inner = [], set()
    for prompt, group in found.items():
        before = [i for i, turn in enumerate(prompt) if turn.role == "assistant"]
        # A turn whose siblings are not among the groups has none to be worse than.
        if all(best.get(prompt[:i], prompt[i].text) == prompt[i].text for i in before):
            kept.append(group)
            inner.update(prompt[:i] for i in before)
    return [group for group in kept if group.prompt not in inner]


def tokens_and_mask(policy, talk: Group) -> tuple[list[int], list[bool]]:
    """Token ids of a conversation, and which are the assistant's: each answer with the end of its turn.

    Paper: section 4.2 (silent on the mask; loss on assistant turns is the reference code's). Each assistant turn is
    rendered as the answer to what comes before it; its place in the whole is where it stands there. The end of a turn
    is what a sampler stops at (`Policy.ending`), so that a policy learns to end; what the template writes after it is
    not trained. Raises ValueError where the template writes earlier turns otherwise than last ones.
    """
    turns = (*talk.prompt, *_answer(talk))
    ending = policy.tokenizer.decode(policy.ending())

    def shown(last: int):
        if policy.template == "reference":
            return reference(turns[:last], turns[last].text)
        return chat(policy.tokenizer, turns[:last], turns[last].text)

    whole = shown(len(turns) - 1).text
    spans = []
    for i, turn in enumerate(turns):
        if turn.role == "assistant":
            part = shown(i)
            if not whole.startswith(part.text[: part.end]):
                raise ValueError(f"group {talk.id}: the template writes turn {i} otherwise when others follow it")
            stop = part.end + len(ending) * whole.startswith(ending, part.end)
            spans.append((part.start, stop))
    found = policy.tokenizer(whole, add_special_tokens=False, return_offsets_mapping=True)
    ids, mask = found["input_ids"], [False] * len(found["input_ids"])
    at = 0
    for i, (a, b) in enumerate(found["offset_mapping"]):
        while at < len(spans) and a >= spans[at][1]:
            at += 1
        # A token that holds a character of the answer is the answer's, as in `render.tokenise`.
        mask[i] = at < len(spans) and b > spans[at][0]
    last = max(i for i, there in enumerate(mask) if there)
    return ids[: last + 1], mask[: last + 1]


def prepare(policy, talks: Iterable[Group]) -> tuple[list[Item], Report]:
    """Items to train on, targets [1, T] being the mask, and what became of the conversations.

    One that exceeds `policy.max_tokens` loses its last exchanges, whole ones, so that no answer is cut and every turn
    keeps what came before it; where not even the first fits it is left out, and counted. Paper: silent. Raises
    ValueError for a group that has not exactly one response, and where nothing is left.
    """
    report, items = Report(), []
    for talk in talks:
        ids, mask = tokens_and_mask(policy, talk)
        limit = policy.max_tokens or len(ids)
        if len(ids) > limit:
            ends = [i + 1 for i in range(limit) if mask[i] and not (i + 1 < len(mask) and mask[i + 1])]
            cut = max(ends, default=0)
            ids, mask = ids[:cut], mask[:cut]
            if not ids:
                report.too_long.append(talk.id)
                continue
            report.shortened += 1
        trained = np.array(mask, dtype=np.float32)
        items.append(Item(talk.id, (ids,), trained[None]))
        report.turns_trained += int((np.diff(trained, prepend=0.0) > 0).sum())
        report.tokens += len(ids)
        report.tokens_trained += int(trained.sum())
    report.conversations = len(items)
    if not items:
        raise ValueError(f"no conversation fits into {policy.max_tokens} tokens ({len(report.too_long)} are longer)")
    return items, report


def _answer(talk: Group) -> tuple[Turn]:
    if len(talk.responses) != 1:
        raise ValueError(f"group {talk.id} has {len(talk.responses)} responses: choose one (`best_paths`)")
    return (Turn("assistant", talk.responses[0].text),)


def dataset(items: Sequence[Item]) -> Dataset:
    """What SFTTrainer takes, tokens and labels ready made: input_ids, and labels with -100 where nothing is trained."""
    rows = [(item.sequences[0], item.targets[0] > 0) for item in items]
    labels = [[token if there else -100 for token, there in zip(ids, mask, strict=True)] for ids, mask in rows]
    return Dataset.from_dict({"input_ids": [ids for ids, _ in rows], "labels": labels})


def nll(policy, items: Sequence[Item], *, budget: int = BUDGET, autocast: torch.dtype | None = None) -> float:
    """Mean of -log pi over all trained tokens of the items, nats a token: the loss, computed by the group engine.

    Paper: section 4.2 (the quantity that SFT minimises). Another way to SFTTrainer's number, and the same for any
    packing; its exponential is the perplexity of what the assistant says.
    """
    total, count, device = 0.0, 0, next(policy.backbone.parameters()).device.type
    was = policy.training
    policy.eval()
    cast = torch.autocast(device, dtype=autocast) if autocast else nullcontext()
    with torch.no_grad(), cast:
        for batch in plan([item.sequences for item in items], budget, [[_spans(item)] for item in items]):
            found = log_probs(policy.backbone, batch)
            total, count = total - found.double().sum().item(), count + len(found)
    policy.train(was)
    return total / count


def _spans(item: Item) -> list[tuple[int, int]]:
    """(start, stop) of each run of trained tokens."""
    edges = np.flatnonzero(np.diff(item.targets[0], prepend=0.0, append=0.0)).tolist()
    return list(zip(edges[::2], edges[1::2], strict=True))


__all__ = ["PACKING", "Report", "best_paths", "dataset", "fit", "folder_of", "nll", "prepare", "tokens_and_mask"]

PACKING = ("none", "padding-free", "bfd")


class _Trainer(checkpoints.WholeCheckpoints, SFTTrainer):
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


def fit(
    policy,
    items: Sequence[Item],
    validation: Sequence[Item],
    recipe: Recipe,
    folder: Path,
    *,
    packing: str = "padding-free",
    callbacks: Sequence = (),
) -> Result:
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
    configuration = _configuration(policy, items, validation, recipe, packing)
    rows = dataset(items)
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
        return _finished(policy, json.loads((folder / "done.json").read_text()), folder)
    last = checkpoints.last(folder)
    implementation = "flash_attention_2" if _flash(policy, recipe) else "sdpa"
    policy.backbone.set_attn_implementation(implementation)
    policy.train()
    trainer = _Trainer(
        policy.backbone,
        _arguments(policy, recipe, packing, steps, folder, bool(validation)),
        train_dataset=rows,
        eval_dataset=dataset(validation) if validation else None,
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
    return Result(**done, folder=folder) if recipe.fsdp else _finished(policy, done, folder)


def folder_of(parent: Path, policy, items, validation, recipe: Recipe, packing: str = "padding-free") -> Path:
    """The folder for this run under `parent`: one of its own for each configuration, and always the same for one."""
    text = json.dumps(_configuration(policy, items, validation, recipe, packing), sort_keys=True)
    return Path(parent) / f"training-{hashlib.sha256(text.encode()).hexdigest()[:10]}"


def _configuration(policy, items, validation, recipe: Recipe, packing: str) -> dict:
    if packing not in PACKING:
        raise ValueError(f"packing is one of {', '.join(PACKING)}, got {packing!r}")
    if not items:
        raise ValueError("there are no conversations to train on")
    if not checkpoints.trained(policy):
        raise ValueError("there is nothing to train: every parameter of the model is frozen")
    # Padded or end to end is the same training; packed into rows it is another order.
    about = {"rows": recipe.budget} if packing == "bfd" else {}
    return described(policy, items, validation, SimpleNamespace(name="SFT"), recipe, about)


def _finished(policy, done: dict, folder: Path) -> Result:
    checkpoints.load_weights(policy.backbone, folder / f"checkpoint-{done['steps']}")
    policy.eval()
    return Result(**done, folder=folder)


def _flash(policy, recipe: Recipe) -> bool:
    """Whether FlashAttention 2 is there: it knows packed conversations by their positions, as SDPA does by a mask."""
    from transformers.utils import is_flash_attn_2_available

    return torch.cuda.is_available() and recipe.autocast == "bfloat16" and is_flash_attn_2_available()


def _arguments(policy, recipe: Recipe, packing: str, steps: int, folder: Path, validates: bool) -> SFTConfig:
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
