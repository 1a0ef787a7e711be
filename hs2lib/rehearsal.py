"""A rehearsal: a run does a little of its heavy work, notes its speed, and makes up the rest.

Three places take the time of a run: the loop of a training (`hs2lib.train.trainer.fit`), forward
passes without gradients (`hs2lib.engine.attention.in_order`) and sampling
(`hs2lib.models.rollout.rollouts`). Each asks here how much to do. What it leaves out it fills with
copies of what it did, so that the run goes on to its end. Its numbers then mean nothing.

`hs2 run --rehearse` (`hs2lib.commands.rehearse`) sets the variables below, and reads the notes.
"""

import json
import math
import os
import resource
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import torch

FOLDER = "HS2_REHEARSAL"  # the variable that names the folder of the notes
RUN = "HS2_REHEARSED"  # the run that a process belongs to
TINY = "HS2_REHEARSAL_TINY"  # set where a tiny random model and generated text take part

STEPS = 4  # of a training: the longest items first, which also warm up, then three that are timed
BATCHES = 3  # of forward passes: the largest first, which also warms up, then two that are timed
PROMPTS = 8  # that are sampled for, at least: as many as fill a batch

# How many times the run itself does what is noted now, for once that the rehearsal does it.
_state: dict[str, float] = {"times": 1.0, "asked": 1, "steps": 1}


def on() -> bool:
    """Whether this process rehearses."""
    return FOLDER in os.environ


def is_tiny() -> bool:
    """Whether it rehearses with a tiny model on generated text."""
    return on() and TINY in os.environ


def note(work: str, spent: float, whole: float, tokens: float = 0, seconds: float = 0) -> None:
    """Note a piece of work of this run; nothing where no rehearsal goes on.

    Args:
        work: "job", "training", "forward", "sampling" or "saving".
        spent: seconds that it took here.
        whole: seconds that the run itself would take for it.
        tokens: that were timed.
        seconds: that these took.
    """
    if not on():
        return
    row = {"run": os.environ.get(RUN, ""), "work": work, "spent": spent}
    row |= {"whole": whole * _state["times"], "tokens": tokens, "seconds": seconds}
    row["memory"] = peak_memory()
    with (Path(os.environ[FOLDER]) / "notes.jsonl").open("a") as file:
        file.write(json.dumps(row) + "\n")


def peak_memory() -> float:
    """The most memory that this process has had, GB: the GPU's where there is one."""
    import torch  # slow, and the command line asks this module whether it rehearses

    if torch.cuda.is_available():
        return torch.cuda.max_memory_allocated() / 1e9
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most / (1e9 if sys.platform == "darwin" else 1e6)  # bytes there, else kilobytes


@contextmanager
def training(asked: int, steps: int) -> Iterator[None]:
    """Around a training of so many steps in place of `asked`.

    What is sampled or run forward between its steps counts as often as the whole training needs it.
    """
    before = dict(_state)
    _state.update(times=before["times"] * asked / steps, asked=asked, steps=steps)
    try:
        yield
    finally:
        _state.update(before)


@contextmanager
def validating(every: int) -> Iterator[None]:
    """Around a validation in a training, which begins with one and has one every so many steps."""
    before = _state["times"]
    outside = before * _state["steps"] / _state["asked"]
    validations = 1 + _state["asked"] // every
    rehearsed = 1 + _state["steps"] // every
    _state["times"] = outside * validations / rehearsed
    try:
        yield
    finally:
        _state["times"] = before


def few_batches(
    batches: Sequence[Any], function: Callable[[Any], "torch.Tensor"]
) -> tuple[list[Any], Callable[[Any], "torch.Tensor"]]:
    """Batches in another order, and what gives their rows: of the first few computed, then copied.

    The largest come first. A batch has `tokens` and `index`.
    """
    batches = sorted(batches, key=lambda batch: -len(batch.tokens))
    computed: list[torch.Tensor] = []  # its rows
    timed = {"seconds": 0.0, "tokens": 0}
    began = time.time()
    done = 0

    def rows_of(batch: Any) -> "torch.Tensor":
        nonlocal done
        done += 1
        if done <= BATCHES:
            before = time.time()
            rows = function(batch).cpu()
            computed.append(rows)
            if done > 1 or len(batches) == 1:
                timed["seconds"] += time.time() - before
                timed["tokens"] += len(batch.tokens)
        else:
            pick = np.arange(len(batch.index)) % len(computed[0])
            rows = computed[0][pick]
        if done == len(batches):
            spent = time.time() - began
            whole = spent
            if len(batches) > BATCHES:
                total = sum(len(one.tokens) for one in batches)
                whole = timed["seconds"] * total / timed["tokens"]
            note("forward", spent, whole, **timed)
        return rows

    return batches, rows_of


def of_few(sample: Callable[..., Iterator[tuple]]) -> Callable[..., Iterator[tuple]]:
    """A sampler that samples for a few prompts, and gives the others copies of these samples.

    sample: as `hs2lib.models.rollout._transformers`.
    """

    def few(
        policy: Any, missing: Sequence[tuple], special: Any, stop: str, how: Any
    ) -> Iterator[tuple]:
        number = PROMPTS
        if not is_tiny():
            number = max(number, math.ceil(how.batch / len(missing[0][2])))
        by_length = sorted(missing, key=lambda one: len(one[1]), reverse=True)
        longest = by_length[: number // 2]
        others = by_length[number // 2 :]
        stride = max(1, len(others) // (number - len(longest)))
        chosen = longest + others[::stride][: number - len(longest)]
        sampled = []
        began = time.time()
        for id, index, row in sample(policy, chosen, special, stop, how):
            sampled.append(row)
            yield id, index, row
        spent = time.time() - began
        asked = {id for id, _, _ in chosen}
        total = len(sampled)
        for id, _, indices in missing:
            for index in indices if id not in asked else ():
                yield id, index, sampled[total % len(sampled)]
                total += 1
        tokens = sum(len(row["tokens"]) for row in sampled)
        note("sampling", spent, spent * total / len(sampled), tokens, spent)

    return few
