"""The one training loop, `fit`: transformers' Trainer on groups, at an exact scale."""

import hashlib
import json
import math
import os
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, fields
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from accelerate import PartialState
from accelerate.utils import broadcast_object_list, release_memory
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader
from transformers import (
    PrinterCallback,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)

from hs2lib import code, rehearsal
from hs2lib.engine import checkpoints
from hs2lib.engine.attention import in_order, precision, prepare
from hs2lib.engine.trees import Batch, plan
from hs2lib.paths import read_json, write
from hs2lib.runs import trainings
from hs2lib.train.items import Item, digest, order, shares, tokens
from hs2lib.train.objectives import Objective
from hs2lib.train.progress import Log
from hs2lib.train.recipes import Recipe


class Outputs(nn.Module):
    """A model as one forward from packed batches to what the objective reads.

    This is what DDP and FSDP wrap.
    """

    def __init__(self, model: nn.Module, objective: Objective, autocast: str) -> None:
        super().__init__()
        self.model = model
        self.objective = objective
        self.autocast = autocast

    def forward(self, *batches: Batch) -> torch.Tensor:
        """The objective's outputs [R, m] of all sequences of the batches."""
        root = getattr(self.model, "root", None)
        if root:  # the weights are sharded: the root gathers them
            return root(self._outputs, *batches)
        return self._outputs(*batches)

    def _outputs(self, *batches: Batch) -> torch.Tensor:
        run = partial(self.objective.outputs, self.model)
        if len(batches) > 1:
            # A group that does not fit into memory: each part is computed again on the way back.
            run = partial(checkpoint, run, use_reentrant=False)
        with precision(next(self.model.parameters()).device.type, self.autocast, kept=False):
            return torch.cat([run(batch) for batch in batches])


class GroupTrainer(checkpoints.WholeCheckpoints):
    """transformers' Trainer on items; made by `fit`."""

    def __init__(
        self,
        outputs: Outputs,
        items: Sequence[Item],
        validation: Sequence[Item],
        objective: Objective,
        recipe: Recipe,
        steps: int,
        folder: Path,
        callbacks: Sequence[TrainerCallback],
    ) -> None:
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
            raise ValueError(
                f"a global batch of {recipe.batch} groups cannot be shared out to "
                f"{args.world_size} processes x {recipe.accumulation} accumulation"
            )
        self.items = items
        self.validation = validation
        self.objective = objective
        self.recipe = recipe
        self.steps = steps
        self.folder = folder
        self.judged = recipe.judge != "none"
        self.mine = shares(self.positions(), recipe, args.process_index, args.world_size)
        self.sharded = recipe.fsdp and args.world_size > 1
        self.whole = not recipe.fsdp
        if self.sharded:
            if not outputs.model.root:
                outputs.model.to(args.device)
                _prepare_attention(outputs.model)  # while it is whole
            checkpoints.shard(outputs.model, recipe.autocast)
        super().__init__(
            outputs, args, train_dataset=items, eval_dataset=validation or None, callbacks=callbacks
        )
        self.is_distributed_loading_by_transformers = self.sharded  # so that DDP leaves it alone
        self.remove_callback(PrinterCallback)

    # Order and scale

    def positions(self) -> Iterable[int]:
        """Positions of the items of all global batches, one after the other."""
        positions = order([item.id for item in self.items], self.recipe.seed)
        if rehearsal.on():
            positions = chain(longest(self.items, self.recipe.batch), positions)
        return islice(positions, self.steps * self.recipe.batch)

    def get_train_dataloader(self) -> DataLoader:
        """The batches of this process."""
        return DataLoader(self.items, batch_sampler=self.mine, collate_fn=list)

    def _get_num_items_in_batch(
        self, batch_samples: Sequence[Sequence[Item]], device: torch.device
    ) -> int:
        """The number of the objective's items in a global batch, of all processes together."""
        number = 0
        for items in batch_samples:
            for item in items:
                targets, group = targets_of([item], "cpu")
                number += self.objective.count(targets, group)
        return int(self.accelerator.gather(torch.tensor(number).to(device)).sum())

    def training_step(
        self, model: nn.Module, inputs: Sequence[Item], num_items_in_batch: int | None = None
    ) -> torch.Tensor:
        """Add the gradient of these items to the parameters'; returns their share of the loss.

        Args:
            model: the wrapped `Outputs`.
            inputs: items of this process.
            num_items_in_batch: the objective's items in the global batch.

        Raises:
            FloatingPointError: the loss is not finite.
        """
        model.train()
        # The processes' gradients are averaged, so each multiplies by their number to get the sum.
        scale = self.args.world_size / max(1, num_items_in_batch)
        jobs = [(batches, items, scale) for batches, items in self._jobs(inputs)]
        if self.sharded:
            # Every forward gathers weights from all processes: all need the same number of them.
            n_jobs = torch.tensor(len(jobs), device=self.args.device)
            most_jobs = int(self.accelerator.gather(n_jobs).max())
            batches, items, _ = jobs[-1]
            jobs += [(batches, items, 0.0)] * (most_jobs - len(jobs))
        loss = 0
        for number, (batches, items, job_scale) in enumerate(jobs, 1):
            loss += self._backward(model, batches, items, job_scale, last=number == len(jobs))
        if not math.isfinite(loss):
            names = ", ".join(item.id for item in inputs[:8])
            raise FloatingPointError(
                f"the loss is {loss} at step {self.state.global_step + 1}, on groups {names}: "
                "look at these, or lower the learning rate; checkpoints are from before"
            )
        return torch.tensor(loss, device=self.args.device)

    def _jobs(self, items: Sequence[Item]) -> Iterator[tuple[list[Batch], list[Item]]]:
        """(batches, items in the order of their sequences) of each micro-batch.

        No batch is over the budget. A group over the budget that has several responses is a job of
        several batches, whose activations `Outputs` computes twice.
        """
        large = []
        small = []
        for item in items:
            # Where the weights are sharded no group is cut: all processes make as many passes.
            may_be_cut = not self.sharded and len(item.sequences) > 1
            if may_be_cut and tokens([item.sequences]) > self.recipe.budget:
                large.append(item)
            else:
                small.append(item)
        if small:
            for batch in plan(**self._plan_options(small)):
                yield [batch], small
        for item in large:
            yield list(plan(**self._plan_options(_one_response_each(item)))), [item]

    def _plan_options(self, items: Sequence[Item]) -> dict[str, object]:
        """Items as the arguments of `trees.plan`."""
        predict = None
        if self.objective.log_probs:
            predict = [item.starts for item in items]
        return {
            "token_groups": [item.sequences for item in items],
            "budget": self.recipe.budget,
            "predict": predict,
        }

    def _backward(
        self,
        model: nn.Module,
        batches: Sequence[Batch],
        items: Sequence[Item],
        scale: float,
        last: bool,
    ) -> float:
        """Add the gradient of one job's summed loss x scale to the parameters'; returns that loss.

        Args:
            model: the wrapped `Outputs`.
            batches: of the job.
            items: in the order of their sequences.
            scale: what the summed loss is multiplied by.
            last: whether the processes' gradients are summed after it.
        """
        targets, group = targets_of(items, self.args.device)  # [R, k], [R]
        rows = torch.cat([batch.index for batch in batches]).to(self.args.device)  # [R]
        with nullcontext() if last else self.accelerator.no_sync(model):
            loss = self.objective.total(model(*batches), targets[rows], group[rows]) * scale
            self.accelerator.backward(loss)
        return loss.item()

    def _clip_grad_norm(self, model: nn.Module) -> torch.Tensor:
        norm = checkpoints.full_tensor(super()._clip_grad_norm(model))
        if not math.isfinite(norm):
            raise FloatingPointError(
                f"the gradient's norm is {norm} at step {self.state.global_step + 1}"
            )
        return norm

    def _move_model_to_device(self, model: nn.Module, device: torch.device) -> None:
        if not self.sharded:
            super()._move_model_to_device(model, device)

    # Validation

    def outputs_of(
        self, items: Sequence[Item], function: Callable[[Batch], torch.Tensor] | None = None
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Outputs [R, m], targets [R, k] and groups [R] of items, on the CPU.

        The work is shared out to the processes. function: what gives the outputs of a batch, if not
        the model.
        """
        self.model.eval()
        options = self._plan_options(items)
        outputs = in_order(
            function or self.model_wrapped, shared=self.args.world_size > 1, **options
        )
        if self.sharded:
            self.model.model.root.reshard()  # a backward would do it
        targets, group = targets_of(items, "cpu")
        return outputs, targets, group

    def validated(self) -> dict[str, float]:
        """The loss on the validation items, and the objective's other metrics, by name."""
        with rehearsal.validating(self.recipe.validate_every):
            outputs, targets, group = self.outputs_of(self.validation)
        total = self.objective.total(outputs, targets, group).item()
        metrics = {"loss": total / self.objective.count(targets, group)}
        if self.objective.metrics:
            metrics |= self.objective.metrics(outputs, targets, group, self.model.model.attributes)
        return metrics

    def evaluate(
        self,
        eval_dataset: object = None,
        ignore_keys: list[str] | None = None,
        metric_key_prefix: str = "eval",
    ) -> dict[str, float]:
        """Validate, log the metrics, and keep the weights if they are among the best.

        Raises FloatingPointError where the loss is not finite.
        """
        metrics = {f"eval_{name}": value for name, value in self.validated().items()}
        loss = metrics["eval_loss"]
        if not math.isfinite(loss):
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

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Log, with the epoch that the items are in; the summary of the run is not logged."""
        # Trainer takes the whole run for one epoch, because batches go on over the ends of epochs.
        if "train_runtime" not in logs:
            self.state.epoch = self.state.global_step * self.recipe.batch / len(self.items)
            super().log(logs)

    def _keep_best(self, loss: float) -> None:
        """Save the weights if their loss is among the best, and delete those that no longer are."""
        name = f"step-{self.state.global_step:06d}"
        losses = checkpoints.best(self.folder) | {name: loss}
        ranked = sorted(losses, key=lambda other: (losses[other], other))
        self.accelerator.wait_for_everyone()  # nobody changes what another has yet to look at
        if name in ranked[: self.recipe.keep]:
            target = self.folder / "best" / name
            if self.args.should_save:
                shutil.rmtree(target, ignore_errors=True)  # what a killed process left
            checkpoints.save_weights(self.model, target)
            if self.args.should_save:
                record = {"validation loss": loss, "step": self.state.global_step}
                write(target / "best.json", json.dumps(record) + "\n")  # when all else is there
        if self.args.should_save:
            for other in ranked[self.recipe.keep :]:
                shutil.rmtree(self.folder / "best" / other, ignore_errors=True)


def arguments(
    kind: type[TrainingArguments],
    folder: Path,
    recipe: Recipe,
    steps: int,
    validates: bool,
    **options: object,
) -> TrainingArguments:
    """A recipe as transformers' arguments, or as TRL's, which are kinds of these.

    Args:
        kind: the class of the arguments.
        folder: of the training.
        recipe: how to train.
        steps: to stop after.
        validates: whether there is anything to validate on.
        options: arguments of one trainer.
    """
    processes = int(os.environ.get("WORLD_SIZE", "1"))
    on_cpu = not torch.cuda.is_available()
    args = kind(
        output_dir=str(folder),
        max_steps=steps,
        learning_rate=recipe.learning_rate,
        warmup_steps=recipe.warmup,
        weight_decay=recipe.weight_decay,
        adam_beta1=recipe.betas[0],
        adam_beta2=recipe.betas[1],
        max_grad_norm=recipe.clip,
        seed=recipe.seed,
        use_cpu=on_cpu,
        ddp_backend="gloo" if processes > 1 and on_cpu else None,
        logging_steps=1,
        logging_nan_inf_filter=False,
        report_to="tensorboard",
        disable_tqdm=not sys.stderr.isatty(),
        eval_strategy="steps" if validates else "no",
        eval_steps=recipe.validate_every,
        save_strategy="steps",
        save_steps=recipe.save_every,
        dataloader_pin_memory=False,
        **options,
    )
    # One process trains on one GPU, however many it sees; torchrun starts several.
    args._n_gpu = min(1, args.n_gpu)
    return args


def targets_of(
    items: Sequence[Item], device: torch.device | str
) -> tuple[torch.Tensor, torch.Tensor]:
    """Targets float32 [R, k] of items, and the number of the item of each row, int64 [R]."""
    targets = np.concatenate([item.targets for item in items])
    sizes = torch.tensor([len(item.sequences) for item in items], device=device)  # [B]
    group = torch.arange(len(items), device=device).repeat_interleave(sizes)  # [R]
    return torch.from_numpy(targets).to(device), group


def _one_response_each(item: Item) -> list[Item]:
    """A group as items of one response each."""
    items = []
    for row in range(len(item.sequences)):
        only = slice(row, row + 1)
        items.append(Item(item.id, item.sequences[only], item.targets[only], item.starts[only]))
    return items


def _prepare_attention(model: nn.Module) -> None:
    """Set the group attention on a model, and on its critic, on the device it trains on."""
    prepare(model.backbone)
    critic = getattr(model, "critic", None)
    if critic is not None:
        prepare(critic)


# These may differ between the two halves of one run: they change rounding, speed or memory, not
# what is computed.
FREE = ("budget", "accumulation", "checkpointing", "save_every", "keep", "fsdp")


@dataclass(frozen=True)
class TrainingResult:
    """The outcome of a run.

    Attributes:
        history: what was logged, for `progress.curves`.
        best_step: of the weights that the model is left with.
        best_loss: their validation loss, nan without validation.
        steps: of the whole training.
        seconds: of work of the whole training, over all calls that went on with it.
        folder: of the training.
        code: digest of the code that made it.
        seconds_before: those of `seconds` that were earlier calls'.
        arguments: what the caller's function was given in place of the method's own, for the
            manifest.
    """

    history: list[dict]
    best_step: int
    best_loss: float
    steps: int
    seconds: float
    folder: Path
    code: str = ""
    seconds_before: float = field(default=0.0, compare=False)
    arguments: dict[str, object] = field(default_factory=dict)


class Clock(TrainerCallback):
    """Keep in `work.json` of a training's folder the seconds of work of all calls.

    What a killed call did after its last checkpoint is done again, and counts once.
    """

    def __init__(self, folder: Path, resumes: bool) -> None:
        self.file = folder / "work.json"
        self.began = time.time()
        self.before = 0.0  # seconds of earlier calls
        if resumes:
            self.before = (read_json(self.file) or {}).get("seconds", 0.0)

    def seconds(self) -> float:
        """Of all calls, this one up to now among them."""
        return round(self.before + time.time() - self.began, 1)

    def on_save(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **kwargs: object,
    ) -> None:
        """Write the seconds up to this checkpoint."""
        if state.is_world_process_zero:
            write(self.file, json.dumps({"seconds": self.seconds()}) + "\n")


def longest(items: Sequence[Item], number: int) -> list[int]:
    """The positions of so many items that have the most tokens."""
    sizes = [tokens([item.sequences]) for item in items]
    return np.argsort(sizes)[::-1][:number].tolist()


class Stopwatch(TrainerCallback):
    """Of a rehearsal: note how long all steps of the training would take, by tokens.

    The first step, of the longest items, shows what memory is needed, and warms up. The others are
    timed. Where items are made between the steps (PPO), all steps count alike.
    """

    def __init__(self, items: Sequence[Item], recipe: Recipe, asked: int) -> None:
        self.recipe = recipe
        self.asked = asked
        sizes = [tokens([item.sequences]) for item in items]
        positions = order([item.id for item in items], recipe.seed)
        of_all = islice(positions, asked * recipe.batch)
        in_order = np.array([sizes[position] for position in of_all])
        self.sizes = in_order.reshape(-1, recipe.batch).sum(axis=1)  # tokens of each step
        self.seconds: list[float] = []  # of each step
        self.began = 0.0
        self.saving = 0.0

    def on_step_begin(self, *arguments: object, **kwargs: object) -> None:
        """A step begins."""
        self.began = time.time()

    def on_step_end(self, *arguments: object, **kwargs: object) -> None:
        """A step has ended; a save may follow."""
        self.seconds.append(time.time() - self.began)
        self.began = time.time()

    def on_save(self, *arguments: object, **kwargs: object) -> None:
        """A checkpoint is written."""
        self.saving = time.time() - self.began

    def on_train_end(self, *arguments: object, **kwargs: object) -> None:
        """Note what was timed, as of the whole training."""
        timed = self.seconds[1:] or self.seconds
        n_tokens = int(self.sizes[: len(timed)].sum())
        whole = sum(timed) * float(self.sizes.sum()) / n_tokens
        scale = len(self.seconds) / self.asked  # `rehearsal.training` counts each step so often
        rehearsal.note("training", sum(self.seconds), whole * scale, n_tokens, sum(timed))
        saves = max(1, self.asked // self.recipe.save_every)
        rehearsal.note("saving", self.saving, self.saving * saves * scale)


def fit(
    model: nn.Module,
    items: Sequence[Item],
    validation: Sequence[Item],
    objective: Objective,
    recipe: Recipe,
    parent: Path,
    *,
    about: dict | None = None,
    callbacks: Sequence[TrainerCallback] = (),
    trainer: Callable[..., GroupTrainer] = GroupTrainer,
) -> TrainingResult:
    """Train a model in place and leave it with its best weights.

    Without validation or `keep` it is left with its last weights. Each configuration has a folder
    of its own under `parent` for each code that trains it: the result's `folder`. Where the folder
    holds a part of the run, training goes on from its last checkpoint. Where it holds all of the
    run, the weights are read and nothing is trained. A training by other code stays beside it.
    Under torchrun every process calls this alike. Paper: section 3, "Training".

    Args:
        model: a reward model or policy.
        items: to train on.
        validation: items to validate on, or none.
        objective: what is minimised.
        recipe: how to train.
        parent: the folder of the trainings.
        about: what else names the run, such as how the head began.
        callbacks: transformers' own, as `progress.Live`.
        trainer: makes the trainer; PPO's samples its items on the way (`hs2lib.align.ppo`).

    Raises:
        ValueError: there is nothing to train on or to train, ids are not unique, the number of
            outputs is not the objective's, or the recipe asks for no step; before anything is
            written.
        FloatingPointError: a loss or gradient is not finite; before the weights change.
        trainings.NotFoundError: a stage has made another training in the place of this one.
    """
    # What a model computed, log-probabilities say, differs between processes in its last bits: the
    # first process's values hold.
    PartialState(cpu=not torch.cuda.is_available())
    items, validation, about = broadcast_object_list([items, validation, about])
    _check(model, items, validation, objective, recipe)
    steps = steps_of(recipe, len(items))
    asked = steps
    if rehearsal.on():
        steps = min(steps, rehearsal.STEPS)
        callbacks = [*callbacks, Stopwatch(items, recipe, asked)]
    place = run_folder(parent, model, items, validation, objective, recipe, about, trainer)
    place = Place(*broadcast_object_list(list(place)))
    folder = place.folder
    trainings.find(folder, place.record)
    outputs = Outputs(model, objective, recipe.autocast)
    _free_memory()
    done = read_json(folder / "done.json")
    if done:
        result = TrainingResult(
            **done, folder=folder, code=place.code, seconds_before=done["seconds"]
        )
        return restore(outputs, result)
    latest = checkpoints.latest_checkpoint(folder)
    if latest and (latest / checkpoints.PARTS).is_dir() != recipe.fsdp:
        word = "without" if recipe.fsdp else "with"
        raise ValueError(f"{latest} was written {word} fsdp: go on {word} it, or delete {folder}")
    clock = Clock(folder, resumes=latest is not None)
    callbacks = [Log(folder / "progress.log"), clock, *callbacks]
    group_trainer = trainer(outputs, items, validation, objective, recipe, steps, folder, callbacks)
    writes = group_trainer.args.should_save
    if not group_trainer.sharded:
        _prepare_attention(model)
    if recipe.checkpointing:
        model.backbone.gradient_checkpointing_enable({"use_reentrant": False})
    group_trainer.args.eval_on_start = bool(validation) and latest is None
    if writes:
        write(folder / "run.json", place.record)
    with rehearsal.training(asked, steps):
        group_trainer.train(resume_from_checkpoint=str(latest) if latest else None)
    history = group_trainer.state.log_history
    best_losses = checkpoints.best(folder)
    best_loss, best_step = _best_weights(best_losses, history, steps)
    done = {
        "history": history,
        "best_step": best_step,
        "best_loss": best_loss,
        "steps": steps,
        "seconds": clock.seconds(),
    }
    final_checkpoint = folder / f"checkpoint-{steps}"
    if recipe.fsdp and not best_losses:
        checkpoints.save_weights(outputs, final_checkpoint)
    group_trainer.accelerator.wait_for_everyone()
    if writes:
        write(folder / "done.json", json.dumps(done) + "\n")
        if best_losses and not group_trainer.judged:
            shutil.rmtree(final_checkpoint)
        checkpoints.strip(final_checkpoint)
    del group_trainer
    _free_memory()
    result = TrainingResult(**done, folder=folder, code=place.code, seconds_before=clock.before)
    return restore(outputs, result)


def _best_weights(
    best_losses: dict[str, float], history: list[dict], steps: int
) -> tuple[float, int]:
    """The validation loss and the step of the weights that a training ends with.

    Args:
        best_losses: of the best checkpoints, by name; where there are none, the last weights count.
        history: what was logged.
        steps: of the training.
    """
    if best_losses:
        ranked = [(loss, checkpoints.step(Path(name))) for name, loss in best_losses.items()]
        return min(ranked)
    losses = [entry["eval_loss"] for entry in history if "eval_loss" in entry]
    last_loss = losses[-1] if losses else math.nan
    return last_loss, steps


def _free_memory() -> None:
    """Give what nothing names any more back to the GPU.

    These are models that were only to score, and an optimiser's states.
    """
    if torch.cuda.is_available():  # on a CPU it would only take time
        release_memory()


def restore(outputs: Outputs, result: TrainingResult) -> TrainingResult:
    """Put the weights that a training ended with into its model, whatever was trained since."""
    folder = result.folder / "best" / f"step-{result.best_step:06d}"
    if not folder.exists():
        folder = result.folder / f"checkpoint-{result.steps}"
    checkpoints.load_weights(outputs, folder)
    outputs.eval()
    return result


def _check(
    model: nn.Module,
    items: Sequence[Item],
    validation: Sequence[Item],
    objective: Objective,
    recipe: Recipe,
) -> None:
    """Raise ValueError for what cannot be trained; arguments as for `fit`."""
    if not items:
        raise ValueError("there are no items to train on")
    for kind, several in (("training", items), ("validation", validation)):
        for name, number in Counter(item.id for item in several).items():
            if number > 1:
                raise ValueError(
                    f"two {kind} items have the id {name!r}: the order of the data goes by ids"
                )
    if getattr(model, "root", None) and not recipe.fsdp:
        raise ValueError(
            "each process holds a part of this model's weights: "
            "train it with fsdp: true in the recipe"
        )
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise ValueError("there is nothing to train: every parameter of the model is frozen")
    if objective.log_probs and not all(item.starts for item in items):
        raise ValueError(
            f"{objective.name} trains a policy on items that say where responses start"
        )
    expected = 0 if objective.log_probs else items[0].targets.shape[1]
    if len(model.attributes) != expected:
        raise ValueError(
            f"the model has {len(model.attributes)} outputs, "
            f"{objective.name} on these items asks for {expected}"
        )


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
    """Where a training lies.

    Attributes:
        folder: of the training.
        record: what run.json says.
        code: the digest of the code that makes it.
    """

    folder: Path
    record: str
    code: str


def run_folder(
    parent: Path,
    model: nn.Module,
    items: Sequence[Item],
    validation: Sequence[Item],
    objective: Objective,
    recipe: Recipe,
    about: dict | None,
    *makers: object,
) -> Place:
    """The place of a run under `parent`: always the same for one configuration and its code.

    Args:
        parent: the folder of the trainings.
        model: as for `fit`, and so are items, validation, objective, recipe and about.
        makers: functions and classes that train besides the objective, the model's class and this
            module, as PPO's trainer with its sampler.
    """
    configuration = _configuration(model, items, validation, objective, recipe, about)
    digest_of_configuration = hashlib.sha256(configuration.encode()).hexdigest()[:10]
    made_by = code.record(__name__, objective, type(model), *makers)
    name = f"training-{digest_of_configuration}-{made_by['digest'][:8]}"
    record = json.dumps(json.loads(configuration) | {"code": made_by}, indent=1) + "\n"
    return Place(Path(parent) / name, record, made_by["digest"])


def _configuration(
    model: nn.Module,
    items: Sequence[Item],
    validation: Sequence[Item],
    objective: Objective,
    recipe: Recipe,
    about: dict | None,
) -> str:
    """All that names a run but the code, as JSON; arguments as for `fit`."""
    names = ("base", "revision", "attributes", "template", "max_tokens", "adapter")
    of_model = {name: getattr(model, name, None) for name in names}
    # Not of the head: where it starts, its last bits may differ by processes.
    of_model["start"] = checkpoints.weights_digest(model.backbone)
    of_model["trained parameters"] = sum(p.numel() for p in model.parameters() if p.requires_grad)
    # Of a method's recipe only the part about training: the rest is not read here.
    of_recipe = {
        setting.name: getattr(recipe, setting.name)
        for setting in fields(Recipe)
        if setting.name not in FREE
    }
    # The best weights or the last ones; how many stay on disk is free.
    of_recipe["keep"] = recipe.keep > 0
    configuration = {
        "objective": objective.name,
        "training": digest(items),
        "validation": digest(validation),
        "recipe": of_recipe,
        "model": of_model,
        "about": about or {},
    }
    return json.dumps(configuration, indent=1, default=sorted, sort_keys=True)
