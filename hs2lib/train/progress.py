"""Progress of a training while it runs: a log file, live curves in a notebook."""

import io
import time
from pathlib import Path

import pandas as pd
from IPython import get_ipython
from IPython.display import HTML, Image, display
from matplotlib.figure import Figure
from transformers import TrainerCallback

from hs2lib.engine.chat import NINE
from hs2lib.stats.metrics import METRICS


class Log(TrainerCallback):
    """Append a line a step to `progress.log` of the run's folder; follow it with tail -f."""

    def __init__(self, path: Path):
        self.path = path

    def on_train_begin(self, args, state, control, **kwargs):
        self.started, self.first = time.time(), state.global_step

    def on_log(self, args, state, control, logs=None, **kwargs):
        if "loss" in logs:
            left = (time.time() - self.started) / (state.global_step - self.first)
            left *= state.max_steps - state.global_step
            words = f"loss {logs['loss']:.4f}, gradient {logs['grad_norm']:.3f}, about {left / 60:.1f} min left"
        elif "eval_loss" in logs:
            words = f"validation loss {logs['eval_loss']:.4f}"
            for name in (name for name in logs if name.startswith("eval_Pearson")):
                words += f", {name.removeprefix('eval_Pearson ')} R {logs[name]:.3f}"
        else:
            return
        with self.path.open("a") as file:
            file.write(f"{time.strftime('%H:%M:%S')} step {state.global_step}/{state.max_steps}: {words}\n")


class Live(TrainerCallback):
    """In a notebook a progress bar and the curves so far, drawn anew in place of the last, at most every `seconds`."""

    def __init__(self, seconds: float = 5.0):
        self.seconds, self.drawn, self.handles = seconds, 0.0, None

    def on_log(self, args, state, control, logs=None, **kwargs):
        if get_ipython() is None:
            return
        if self.handles is None:
            self.handles = [display(HTML(""), display_id=True), display(HTML(""), display_id=True)]
            self.started, self.first = time.time(), state.global_step
        last = state.global_step >= state.max_steps
        if time.time() - self.drawn < self.seconds and not last:
            return
        loss = next((x["loss"] for x in reversed(state.log_history) if "loss" in x), float("nan"))
        spent = time.time() - self.started
        bar = f'<progress value="{state.global_step}" max="{state.max_steps}" style="width:30em"></progress>'
        words = f"step {state.global_step} of {state.max_steps}, loss {loss:.4f}, {spent:.0f} s"
        self.handles[0].update(HTML(f"{bar} {words}"))
        picture = io.BytesIO()
        training, validation = curves(state.log_history)
        draw(training, validation).savefig(picture, format="png", dpi=80, bbox_inches="tight")
        self.handles[1].update(Image(picture.getvalue()))
        self.drawn = time.time()


def curves(history: list[dict]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Training (step, epoch, loss, gradient norm, learning rate) and validation (step, epoch, loss, metrics) tables."""
    names = {"grad_norm": "gradient norm", "learning_rate": "learning rate"}
    training = pd.DataFrame([x for x in history if "loss" in x]).rename(columns=names)
    validation = pd.DataFrame([x for x in history if "eval_loss" in x])
    validation = validation.rename(columns=lambda name: name.removeprefix("eval_"))
    return _in_order(training), _in_order(validation)


def _in_order(frame: pd.DataFrame) -> pd.DataFrame:
    """The columns in an order of our own: a checkpoint gives the history back with its keys sorted."""
    first = ["step", "epoch", "loss"]
    return frame.reindex(columns=first + sorted(frame.columns.difference(first), key=_place))


def _place(column: str) -> tuple[int, int, str]:
    """Where a column stands: what is of no attribute, then metric by metric, attributes in their order."""
    metric, _, attribute = column.rpartition(" ")
    known = METRICS.index(metric) if metric in METRICS else -1
    return known, NINE.index(attribute) if attribute in NINE else len(NINE), column


def draw(training: pd.DataFrame, validation: pd.DataFrame) -> Figure:
    """Loss in training and on validation, and what else validation says, by step: Pearson's R, or pairs' accuracy."""
    fig = Figure(figsize=(9, 2.8), layout="constrained")
    left, right = fig.subplots(1, 2)
    if len(training):
        left.plot(training.step, training.loss, color="#0072b2", alpha=0.5, label="training, each step")
    if len(validation):
        left.plot(validation.step, validation.loss, "o-", color="#d55e00", ms=4, label="validation")
    left.set(xlabel="step", ylabel="loss")
    left.legend()
    pearson = [name for name in validation.columns if name.startswith("Pearson ")]
    for name in pearson or [name for name in validation.columns if name == "accuracy"]:
        right.plot(validation.step, validation[name], "o-", ms=4, label=name.removeprefix("Pearson "))
    right.set(xlabel="step", ylabel="Pearson's R on validation" if pearson else "on validation")
    if right.lines:
        right.legend(fontsize=7)
    return fig
