"""Progress while a model runs: a bar; of a training a log file, and live curves in a notebook."""

import time
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
from IPython import get_ipython
from IPython.display import display
from matplotlib.figure import Figure
from tqdm import tqdm
from transformers import TrainerCallback

from hs2lib.engine.chat import NINE
from hs2lib.stats.metrics import METRICS


def progress_bar(total: int, unit: str, shown: bool = True, done: int = 0) -> tqdm:
    """A tqdm bar; in a notebook each drawing of it takes the place of the last."""
    file = None
    if shown and get_ipython() is not None:
        handle = display({"text/plain": ""}, raw=True, display_id=True)

        def write(text: str) -> None:
            if text.strip():
                handle.update({"text/plain": text.strip()}, raw=True)

        file = SimpleNamespace(write=write, flush=lambda: None)
    return tqdm(
        total=total,
        initial=done,
        unit=unit,
        mininterval=0.5,
        ncols=90,
        disable=not shown,
        file=file,
    )


class Log(TrainerCallback):
    """Append a line a step to `progress.log` of the run's folder; follow it with tail -f."""

    def __init__(self, path: Path):
        self.path = path

    def on_log(self, args, state, control, logs=None, **kwargs):
        if state.is_world_process_zero:
            values = ", ".join(f"{name} {value:.4g}" for name, value in logs.items())
            with self.path.open("a") as file:
                file.write(
                    f"{time.strftime('%H:%M:%S')} step {state.global_step}/{state.max_steps}: {values}\n"
                )


class Live(TrainerCallback):
    """In a notebook the curves so far, drawn anew in place of the last, at most every five seconds."""

    drawn, handle = 0.0, None

    def on_log(self, args, state, control, logs=None, **kwargs):
        if get_ipython() is None or (
            time.time() - self.drawn < 5 and state.global_step < state.max_steps
        ):
            return
        figure, self.drawn = draw(*curves(state.log_history)), time.time()
        figure.suptitle(f"step {state.global_step} of {state.max_steps}", fontsize=9)
        if self.handle:
            self.handle.update(figure)
        else:
            self.handle = display(figure, display_id=True)


def curves(history: list[dict]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Training (step, epoch, loss, gradient norm, learning rate) and validation (step, epoch, loss, metrics) tables."""
    names = {"grad_norm": "gradient norm", "learning_rate": "learning rate"}
    training = pd.DataFrame([x for x in history if "loss" in x]).rename(columns=names)
    validation = pd.DataFrame([x for x in history if "eval_loss" in x])
    return _in_order(training), _in_order(
        validation.rename(columns=lambda name: name.removeprefix("eval_"))
    )


def _in_order(frame: pd.DataFrame) -> pd.DataFrame:
    """The columns in an order of our own: a checkpoint gives the history back with its keys sorted."""
    first, last = (
        ["step", "epoch", "loss"],
        [f"{metric} {name}" for metric in METRICS for name in NINE],
    )
    others = sorted(frame.columns.difference([*first, *last]))
    return frame.reindex(columns=[*first, *others, *(name for name in last if name in frame)])


def draw(training: pd.DataFrame, validation: pd.DataFrame) -> Figure:
    """Loss in training and on validation, and what else validation says, by step: Pearson's R, or pairs' accuracy."""
    fig = Figure(figsize=(9, 2.8), layout="constrained")
    left, right = fig.subplots(1, 2, sharex=True)
    left.plot(training.step, training.loss, color="#0072b2", alpha=0.5, label="training, each step")
    if len(validation):
        left.plot(validation.step, validation.loss, "o-", color="#d55e00", ms=4, label="validation")
    left.set(xlabel="step", ylabel="loss")
    left.xaxis.get_major_locator().set_params(integer=True)  # of both panels: they share it
    left.legend()
    pearson = [name for name in validation.columns if name.startswith("Pearson ")]
    for name in pearson or validation.columns.intersection(["accuracy"]):
        right.plot(
            validation.step, validation[name], "o-", ms=4, label=name.removeprefix("Pearson ")
        )
    right.set(
        xlabel="step", ylabel="Pearson's R on validation" if pearson else "accuracy on validation"
    )
    if pearson:
        right.legend(fontsize=7)
    elif right.lines:
        right.set_ylim(-0.03, 1.03)  # a hundredth more or less is no trend
    return fig
