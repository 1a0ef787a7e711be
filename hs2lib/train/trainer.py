"""The one training loop, `fit`: transformers' Trainer on groups, with an exact scale and whole checkpoints."""

import hashlib
import json
import math
import os
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, fields
from functools import partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from accelerate import PartialState
from accelerate.utils import broadcast_object_list, release_memory
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader
from transformers import PrinterCallback, TrainerCallback, TrainingArguments

from hs2lib import code
from hs2lib.engine.attention import in_order, precision, prepare
from hs2lib.engine.trees import plan
from hs2lib.paths import read_json, write
from hs2lib.train import checkpoints
from hs2lib.train.items import Item, digest, order, shares, tokens
from hs2lib.train.objectives import Objective
from hs2lib.train.progress import Log
from hs2lib.train.recipes import Recipe


class Outputs(nn.Module):
    """A model as one forward from packed batches to what the objective reads: what DDP and FSDP wrap."""

    def __init__(self, model: nn.Module, objective: Objective, autocast: str):
        super().__init__()
        self.model, self.objective, self.autocast, self.passed = model, objective, autocast, 0

    def forward(self, *batches):
        root = getattr(
            self.model, "root", None
        )  # where the weights are shared out, it gathers them
        self.passed = sum(len(batch.tokens) for batch in batches)
        return root(self._outputs, *batches) if root else self._outputs(*batches)

    def _outputs(self, *batches):
        run = partial(self.objective.outputs, self.model)
        if (
            len(batches) > 1
        ):  # a group that does not fit into memory: each part is computed again on the way back
            run = partial(checkpoint, run, use_reentrant=False)
        with precision(next(self.model.parameters()).device.type, self.autocast, kept=False):
            return torch.cat([run(batch) for batch in batches])


class GroupTrainer(checkpoints.WholeCheckpoints):
    """transformers' Trainer on items; made by `fit`."""

    less = f"lower recipe.budget or {checkpoints.WholeCheckpoints.less}"

    def __init__(
        self, outputs: Outputs, items, validation, objective, recipe, steps, folder, callbacks
    ):
        args = arguments(
            TrainingArguments,
            folder,
            recipe,
            steps,
            bool(validation),
            gradient_accumulation_steps=recipe.accumulation,
            ddp_find_unused_parameters=False,
            ddp_broadcast_buffers=False,
            remove_unused_columns=False,
        )
        if recipe.batch % (args.world_size * recipe.accumulation):
            parts = f"{args.world_size} processes x {recipe.accumulation} accumulation"
            raise ValueError(
                f"a global batch of {recipe.batch} groups cannot be shared out to {parts}"
            )
        self.items, self.validation, self.objective, self.recipe = (
            items,
            validation,
            objective,
            recipe,
        )
        self.steps, self.folder, self.judged = steps, folder, recipe.judge != "none"
        self.mine = shares(self.positions(), recipe, args.process_index, args.world_size)
        self.sharded, self.whole = recipe.fsdp and args.world_size > 1, not recipe.fsdp
        if self.sharded:
            if not outputs.model.root:
                outputs.model.to(args.device)
                _prepared(outputs.model)  # while it is whole
            checkpoints.shard(outputs.model, recipe.autocast)
        super().__init__(
            outputs, args, train_dataset=items, eval_dataset=validation or None, callbacks=callbacks
        )
        self.is_distributed_loading_by_transformers = self.sharded  # so that DDP leaves it alone
        self.remove_callback(PrinterCallback)

    # Order and scale

    def positions(self) -> Iterable[int]:
        """Positions of the items of all global batches, one after the other."""
        return islice(
            order([item.id for item in self.items], self.recipe.seed),
            self.steps * self.recipe.batch,
        )

    def get_train_dataloader(self) -> DataLoader:
        return DataLoader(self.items, batch_sampler=self.mine, collate_fn=list)

    def _get_num_items_in_batch(self, batch_samples, device):
        counts = (
            self.objective.count(*targets_of([item], "cpu"))
            for items in batch_samples
            for item in items
        )
        return int(self.accelerator.gather(torch.tensor(sum(counts)).to(device)).sum())

    def training_step(self, model, inputs, num_items_in_batch=None):
        model.train()
        # The processes' gradients are averaged, so each multiplies by their number to get the sum.
        jobs = [
            (*job, self.args.world_size / max(1, num_items_in_batch)) for job in self._jobs(inputs)
        ]
        if (
            self.sharded
        ):  # every forward gathers weights from all processes: all need the same number of them
            rounds = int(
                self.accelerator.gather(torch.tensor(len(jobs), device=self.args.device)).max()
            )
            jobs += [(*jobs[-1][:2], 0.0)] * (rounds - len(jobs))
        value = sum(
            self._backward(model, *job, last=at == len(jobs)) for at, job in enumerate(jobs, 1)
        )
        if not math.isfinite(value):
            names = ", ".join(item.id for item in inputs[:8])
            what = f"the loss is {value} at step {self.state.global_step + 1}, on groups {names}"
            raise FloatingPointError(
                f"{what}: look at these, or lower the learning rate; checkpoints are from before"
            )
        return torch.tensor(value, device=self.args.device)

    def _jobs(self, items: Sequence[Item]):
        """(batches, items in the order of their sequences) for each micro-batch, none over the
        budget.

        A group over the budget that has several responses is a job of several batches: see
        `_backward`.
        """
        several = [] if self.sharded else [item for item in items if len(item.sequences) > 1]
        large = [item for item in several if tokens([item.sequences]) > self.recipe.budget]
        small = [item for item in items if not any(item is other for other in large)]
        for batch in plan(**self._planned(small)) if small else ():
            yield [batch], small
        for item in large:
            yield list(plan(**self._planned(_apart(item)))), [item]

    def _planned(self, items: Sequence[Item]) -> dict:
        predict = [item.starts for item in items] if self.objective.log_probs else None
        return {
            "token_groups": [item.sequences for item in items],
            "budget": self.recipe.budget,
            "predict": predict,
        }

    def _backward(self, model, batches, items, scale: float, last: bool) -> float:
        """Add the gradient of one job's summed loss x scale to the parameters'; returns that loss."""
        targets, group = targets_of(items, self.args.device)  # [R, k], [R]
        rows = torch.cat([batch.index for batch in batches]).to(self.args.device)  # [R]
        with nullcontext() if last else self.accelerator.no_sync(model):
            loss = self.objective.total(model(*batches), targets[rows], group[rows]) * scale
            self.accelerator.backward(loss)
        return loss.item()

    def _clip_grad_norm(self, model):
        norm = checkpoints.whole(super()._clip_grad_norm(model))
        if not math.isfinite(norm):
            raise FloatingPointError(
                f"the gradient's norm is {norm} at step {self.state.global_step + 1}"
            )
        return norm

    def _move_model_to_device(self, model, device):
        if not self.sharded:
            super()._move_model_to_device(model, device)

    @contextmanager
    def _defer_fsdp_gradient_reduction(self):
        yield  # a shard of the gradients is summed after each micro-batch: less memory than whole ones kept for later

    # Validation

    def outputs_of(
        self, items: Sequence[Item], function: Callable | None = None
    ) -> tuple[torch.Tensor, ...]:
        """Outputs [R, m], targets [R, k] and groups [R] of items, on the CPU; shared out to the
        processes.

        function: what gives the outputs of a batch, if not the model.
        """
        self.model.eval()
        options = self._planned(items) | {"shared": self.args.world_size > 1}
        outputs = in_order(function or self.model_wrapped, **options)
        if self.sharded:
            self.model.model.root.reshard()  # a backward would do it
        return outputs, *targets_of(items, "cpu")

    def validated(self) -> dict[str, float]:
        """The loss on the validation items, and the objective's other metrics, by name."""
        outputs, targets, group = self.outputs_of(self.validation)
        metrics = {
            "loss": self.objective.total(outputs, targets, group).item()
            / self.objective.count(targets, group)
        }
        if self.objective.metrics:
            metrics |= self.objective.metrics(outputs, targets, group, self.model.model.attributes)
        return metrics

    def evaluate(self, eval_dataset=None, ignore_keys=None, metric_key_prefix="eval"):
        metrics = {f"eval_{name}": value for name, value in self.validated().items()}
        if not math.isfinite(loss := metrics["eval_loss"]):
            raise FloatingPointError(
                f"the validation loss is {loss} at step {self.state.global_step}"
            )
        self.log(metrics)
        self.control = self.callback_handler.on_evaluate(
            self.args, self.state, self.control, metrics
        )
        if self.recipe.keep:
            self._keep_best(loss)
        return metrics

    def log(self, logs, start_time=None):
        # Trainer takes the whole run for one epoch, because batches go on over the ends of epochs.
        if "train_runtime" not in logs:
            self.state.epoch = self.state.global_step * self.recipe.batch / len(self.items)
            super().log(logs)

    def _keep_best(self, loss: float) -> None:
        name = f"step-{self.state.global_step:06d}"
        by_name = checkpoints.best(self.folder) | {name: loss}
        ranked = sorted(by_name, key=lambda other: (by_name[other], other))
        self.accelerator.wait_for_everyone()  # nobody changes what another has yet to look at
        if name in ranked[: self.recipe.keep]:
            staging = self._staging(name)
            checkpoints.save_weights(self.model, staging, self.args.should_save)
            if self.args.should_save:
                about = {"validation loss": loss, "step": self.state.global_step}
                (staging / "best.json").write_text(json.dumps(about) + "\n")
                checkpoints.move(staging, self.folder / "best" / name)
        if self.args.should_save:
            for other in ranked[self.recipe.keep :]:
                shutil.rmtree(self.folder / "best" / other, ignore_errors=True)


def arguments(
    kind: type, folder: Path, recipe: Recipe, steps: int, validates: bool, **own
) -> TrainingArguments:
    """A recipe as transformers' arguments, or as TRL's, which are kinds of these; `own` are those of one trainer."""
    processes, cpu = int(os.environ.get("WORLD_SIZE", "1")), not torch.cuda.is_available()
    made = kind(
        output_dir=str(folder),
        max_steps=steps,
        learning_rate=recipe.learning_rate,
        warmup_steps=recipe.warmup,
        weight_decay=recipe.weight_decay,
        adam_beta1=recipe.betas[0],
        adam_beta2=recipe.betas[1],
        max_grad_norm=recipe.clip,
        seed=recipe.seed,
        use_cpu=cpu,
        ddp_backend="gloo" if processes > 1 and cpu else None,
        logging_steps=1,
        logging_nan_inf_filter=False,
        report_to="tensorboard",
        disable_tqdm=not sys.stderr.isatty(),
        eval_strategy="steps" if validates else "no",
        eval_steps=recipe.validate_every,
        save_strategy="steps",
        save_steps=recipe.save_every,
        dataloader_pin_memory=False,
        **own,
    )
    made._n_gpu = min(
        1, made.n_gpu
    )  # one process trains on one GPU, however many it sees; torchrun starts several
    return made


def targets_of(items: Sequence[Item], device) -> tuple[torch.Tensor, torch.Tensor]:
    """Targets float32 [R, k] of items, and the number of the item of each row, int64 [R]."""
    targets = torch.from_numpy(np.concatenate([item.targets for item in items])).to(
        device
    )  # [R, k]
    sizes = torch.tensor([len(item.sequences) for item in items], device=device)  # [B]
    return targets, torch.arange(len(items), device=device).repeat_interleave(sizes)


def _apart(item: Item) -> list[Item]:
    """A group as items of one response each."""
    ones = [slice(i, i + 1) for i in range(len(item.sequences))]
    return [Item(item.id, item.sequences[one], item.targets[one], item.starts[one]) for one in ones]


def _prepared(model: nn.Module) -> None:
    """Set the group attention on all parts of a model, on the device it trains on."""
    for part in filter(None, (model.backbone, getattr(model, "critic", None))):
        prepare(part)


# These may differ between the two halves of one run: they change rounding, speed or memory, not
# what is computed.
FREE = ("budget", "accumulation", "checkpointing", "save_every", "keep", "fsdp")


@dataclass(frozen=True)
class TrainingResult:
    """The outcome of a run: its history (for `progress.curves`), the best step and its validation
    loss.

    seconds: the work of the whole training, over all calls that went on with it; seconds_before: of
    it, that of earlier calls. code: digest of the code that made it; reused: this is not the code
    of today, and `--reuse` asked for it all the same. arguments: what the caller's function was
    given in place of the method's own, for the manifest.
    """

    history: list[dict]
    best_step: int
    best_loss: float
    steps: int
    seconds: float
    folder: Path
    code: str = ""
    reused: bool = False
    seconds_before: float = field(default=0.0, compare=False)
    arguments: dict[str, object] = field(default_factory=dict)


DONE = ("history", "best_step", "best_loss", "steps", "seconds")  # what done.json keeps of a result


class Clock(TrainerCallback):
    """Keeps in a training's folder how many seconds of work went into it, over all calls:
    `work.json`.

    What a killed call did after its last checkpoint is done again, and counts once.
    """

    def __init__(self, folder: Path, resumes: bool):
        self.file = folder / "work.json"
        self.began = time.time()
        self.before = (read_json(self.file) or {}).get("seconds", 0.0) if resumes else 0.0

    def seconds(self) -> float:
        """Of all calls, this one up to now among them."""
        return round(self.before + time.time() - self.began, 1)

    def on_save(self, args, state, control, **kwargs):
        if state.is_world_process_zero:
            write(self.file, json.dumps({"seconds": self.seconds()}) + "\n")


def fit(
    model: nn.Module,
    items: Sequence[Item],
    validation: Sequence[Item],
    objective: Objective,
    recipe: Recipe,
    parent: Path,
    *,
    about: dict | None = None,
    callbacks: Sequence = (),
    trainer=GroupTrainer,
) -> TrainingResult:
    """Train a model in place and leave it with its best weights, or its last ones without
    validation or `keep`.

    Each configuration has a folder of its own under `parent` for each code that trains it, the
    result's `folder`. Where it holds a part of the run, training goes on from its last checkpoint.
    Where it holds all of the run, the weights are read and nothing is trained. What becomes of a
    training by other code `code.kept_policy` says. Paper: section 3, "Training". about: what else
    names the run (how the head began). callbacks: transformers' own, as `progress.Live`. trainer:
    makes the trainer; PPO's samples its items on the way (`hs2lib.align.ppo`). Under torchrun every
    process calls this alike. Raises ValueError, before anything is written, where there is nothing
    to train on or to train, ids are not unique, the number of outputs is not the objective's, or
    the recipe asks for no step; FloatingPointError, before the weights change, for a loss or
    gradient that is not finite; MemoryError, which says what takes less; `code.MadeByOtherCode`,
    before anything is written.
    """
    # What a model computed, log-probabilities say, differs between processes in its last bits: the
    # first one's holds.
    PartialState(cpu=not torch.cuda.is_available())
    items, validation, about = broadcast_object_list([items, validation, about])
    steps = _checked(model, items, validation, objective, recipe)
    processes = int(os.environ.get("WORLD_SIZE", "1")) if recipe.fsdp else 1
    held = sum(
        p.numel() * (16 if p.requires_grad else 4) for p in model.parameters()
    )  # as `cost.held` counts
    checkpoints.check_room(held / processes, "training with gradients and AdamW's moments")
    place = run_folder(parent, model, items, validation, objective, recipe, about, trainer)
    place = Place(*broadcast_object_list(list(place)))
    folder = place.folder
    outputs = Outputs(model, objective, recipe.autocast)
    _free()
    if done := read_json(folder / "done.json"):
        made = {name: done[name] for name in DONE}
        by = {"code": place.code, "reused": place.reused, "seconds_before": done["seconds"]}
        return restore(outputs, TrainingResult(**made | by, folder=folder))
    last = checkpoints.last(folder)
    if last and (last / checkpoints.PARTS).is_dir() != recipe.fsdp:
        how = "without" if recipe.fsdp else "with"
        raise ValueError(f"{last} was written {how} fsdp: go on {how} it, or delete {folder}")
    clock = Clock(folder, resumes=last is not None)
    callbacks = [Log(folder / "progress.log"), clock, *callbacks]
    trainer = trainer(outputs, items, validation, objective, recipe, steps, folder, callbacks)
    main = trainer.args.should_save
    if not trainer.sharded:
        _prepared(model)
    if recipe.checkpointing:
        model.backbone.gradient_checkpointing_enable({"use_reentrant": False})
    trainer.args.eval_on_start = bool(validation) and last is None
    if main and not place.reused:
        write(folder / "run.json", place.record)
    trainer.train(resume_from_checkpoint=str(last) if last else None)
    history = trainer.state.log_history
    evaluated = [entry["eval_loss"] for entry in history if "eval_loss" in entry]
    ranked = sorted(
        (loss, checkpoints.step(Path(name))) for name, loss in checkpoints.best(folder).items()
    )
    loss, step = ranked[0] if ranked else ([math.nan, *evaluated][-1], steps)
    result = TrainingResult(
        history,
        step,
        loss,
        steps,
        clock.seconds(),
        folder,
        place.code,
        place.reused,
        seconds_before=clock.before,
    )
    if recipe.fsdp and not ranked:
        checkpoints.save_weights(outputs, folder / f"checkpoint-{steps}", main)
    trainer.accelerator.wait_for_everyone()
    if main:
        done = {name: getattr(result, name) for name in DONE}
        write(folder / "done.json", json.dumps(done) + "\n")
        if ranked and not trainer.judged:
            shutil.rmtree(folder / f"checkpoint-{steps}")
        checkpoints.strip(folder / f"checkpoint-{steps}")
    del trainer
    _free()
    return restore(outputs, result)


def _free() -> None:
    """Give what nothing names any more back to the GPU: models that were only to score, an optimiser's states."""
    if torch.cuda.is_available():  # on a CPU it would only take time
        release_memory()


def restore(outputs: Outputs, result: TrainingResult) -> TrainingResult:
    """Put the weights that a training ended with into its model, whatever was trained since. Paper: silent."""
    kept = result.folder / "best" / f"step-{result.best_step:06d}"
    checkpoints.load_weights(
        outputs, kept if kept.exists() else result.folder / f"checkpoint-{result.steps}"
    )
    outputs.eval()
    return result


def _checked(model, items, validation, objective, recipe: Recipe) -> int:
    """The number of steps; raises for what cannot be trained."""
    if not items:
        raise ValueError("there are no items to train on")
    for named, several in (("training", items), ("validation", validation)):
        if twice := [
            name for name, number in Counter(item.id for item in several).items() if number > 1
        ]:
            raise ValueError(
                f"two {named} items have the id {twice[0]!r}: the order of the data goes by ids"
            )
    if getattr(model, "root", None) and not recipe.fsdp:
        raise ValueError(
            "each process holds a part of this model's weights: train it with fsdp: true in the recipe"
        )
    if not any(p.requires_grad for p in model.parameters()):
        raise ValueError("there is nothing to train: every parameter of the model is frozen")
    if objective.log_probs and not all(item.starts for item in items):
        raise ValueError(
            f"{objective.name} trains a policy on items that say where responses start"
        )
    expected = 0 if objective.log_probs else items[0].targets.shape[1]
    if (outputs := len(model.attributes)) != expected:
        raise ValueError(
            f"the model has {outputs} outputs, {objective.name} on these items asks for {expected}"
        )
    return steps_of(recipe, len(items))


def steps_of(recipe: Recipe, number: int) -> int:
    """The number of steps on so many items. Raises ValueError where they make no global batch."""
    # Whole global batches only, counted over all epochs together. Paper: 317 steps of 128 in 2
    # epochs of 20,324 rows.
    steps = recipe.steps or int(round(recipe.epochs * number, 6)) // recipe.batch
    if steps < 1:
        raise ValueError(
            f"{recipe.epochs} epochs of {number} groups make no global batch of {recipe.batch}"
        )
    return steps


class Place(NamedTuple):
    """Where a training lies. record: what run.json says; code: the digest of the code that made it,
    or is to make it.

    reused: it is other code's, and is read or gone on with all the same.
    """

    folder: Path
    record: str
    code: str
    reused: bool


def run_folder(
    parent: Path,
    model,
    items,
    validation,
    objective,
    recipe: Recipe,
    about: dict | None,
    *makers: object,
) -> Place:
    """The place of a run under `parent`, always the same for one configuration and the code that
    trains it.

    makers: functions and classes that train besides the objective, the model's class and this
    module, as PPO's trainer with its sampler. Paper: silent. Raises `code.MadeByOtherCode` where
    other code made this training, and `code.kept_policy` is to ask.
    """
    names = ("base", "revision", "attributes", "template", "max_tokens", "adapter")
    described = {name: getattr(model, name, None) for name in names}
    # Of the head not: where it starts, its last bits may differ by processes.
    described["start"] = checkpoints.weights_digest(model.backbone)
    described["trained parameters"] = sum(p.numel() for p in model.parameters() if p.requires_grad)
    # Of a method's recipe only the part about training: the rest is not read here.
    fixed = {
        each.name: getattr(recipe, each.name) for each in fields(Recipe) if each.name not in FREE
    }
    fixed["keep"] = (
        recipe.keep > 0
    )  # the best weights or the last ones; how many stay on disk is free
    what = {
        "objective": objective.name,
        "training": digest(items),
        "validation": digest(validation),
    }
    what |= {"recipe": fixed, "model": described, "about": about or {}}
    text = json.dumps(what, indent=1, default=sorted, sort_keys=True)
    configuration = hashlib.sha256(text.encode()).hexdigest()[:10]
    by = code.record(__name__, objective, type(model), *makers)
    own = Path(parent) / f"training-{configuration}-{by['digest'][:8]}"
    record = json.dumps(json.loads(text) | {"code": by}, indent=1) + "\n"
    if not own.exists():
        others = [
            place
            for place in Path(parent).glob(f"training-{configuration}*")
            if (place / "run.json").exists()
        ]
        others.sort(
            key=lambda place: ((place / "done.json").exists(), (place / "run.json").stat().st_mtime)
        )
        if other := code.reusable(others, "a training", lambda place: _differs(place, by["files"])):
            made_by = (read_json(other / "run.json") or {}).get("code", {}).get("digest", "")
            return Place(other, record, made_by, reused=True)
    return Place(own, record, by["digest"], reused=False)


def _differs(place: Path, files: dict[str, str]) -> str:
    """Which files of the code that made a training differ from these, in words."""
    before = (read_json(place / "run.json") or {}).get("code", {}).get("files")
    if before is None:
        return "nothing says by which code it was made"
    names = code.differing(before, files)
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
