"""Progress of a training: a log file, and live curves in a notebook."""

import time
from pathlib import Path

import pandas as pd
from IPython import get_ipython
from IPython.display import display
from matplotlib.figure import Figure
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from hs2lib.engine.chat import NINE
from hs2lib.report import style
from hs2lib.runs import progress
from hs2lib.stats.metrics import METRICS


class Log(TrainerCallback):
    """Append a line a step to `progress.log` of the training's folder, and say it to `hs2 run`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.first = 0  # the step that the training begins with
        self.began = time.time()

    def on_train_begin(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **kwargs: object,
    ) -> None:
        """Note where the training begins: it may go on from a checkpoint."""
        self.first = state.global_step
        self.began = time.time()

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, float] | None = None,
        **kwargs: object,
    ) -> None:
        """Write what the trainer logs at a step."""
        if not state.is_world_process_zero:
            return
        done = max(1, state.global_step - self.first)
        a_step = (time.time() - self.began) / done
        progress.step(
            state.global_step, state.max_steps, a_step * (state.max_steps - state.global_step)
        )
        now = time.strftime("%H:%M:%S")
        values = ", ".join(f"{name} {value:.4g}" for name, value in logs.items())
        with self.path.open("a") as file:
            file.write(f"{now} step {state.global_step}/{state.max_steps}: {values}\n")


class Live(TrainerCallback):
    """In a notebook the loss so far, in place of the last figure, at most every five seconds."""

    drawn = 0.0  # when the curves were drawn last, seconds
    handle = None  # of the notebook's output that is drawn anew

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, float] | None = None,
        **kwargs: object,
    ) -> None:
        """Draw the curves; the last step's always, others only after five seconds."""
        if get_ipython() is None:
            return
        if time.time() - self.drawn < 5 and state.global_step < state.max_steps:
            return
        figure = draw(*curves(state.log_history))
        self.drawn = time.time()
        step = f"step {state.global_step} of {state.max_steps}"
        figure.suptitle(step, fontsize=9)
        words = {"image/png": {"alt": f"Training and validation, {step}."}}
        if self.handle:
            self.handle.update(figure, metadata=words)
        else:
            self.handle = display(figure, display_id=True, metadata=words)


def curves(history: list[dict]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Tables of training and of validation, a row a logged step.

    Training: step, epoch, loss, gradient norm, learning rate. Validation: step, epoch, loss and the
    objective's metrics.
    """
    names = {"grad_norm": "gradient norm", "learning_rate": "learning rate"}
    training = pd.DataFrame([entry for entry in history if "loss" in entry]).rename(columns=names)
    validation = pd.DataFrame([entry for entry in history if "eval_loss" in entry])
    validation = validation.rename(columns=lambda name: name.removeprefix("eval_"))
    return _with_sorted_columns(training), _with_sorted_columns(validation)


def _with_sorted_columns(frame: pd.DataFrame) -> pd.DataFrame:
    """The columns in an order of our own: a checkpoint gives the history back with keys sorted."""
    leading = ["step", "epoch", "loss"]
    by_attribute = []
    for metric in METRICS:
        by_attribute += [f"{metric} {attribute}" for attribute in NINE]
    trailing = [name for name in by_attribute if name in frame]
    others = sorted(frame.columns.difference([*leading, *by_attribute]))
    return frame.reindex(columns=[*leading, *others, *trailing])


def draw(training: pd.DataFrame, validation: pd.DataFrame) -> Figure:
    """Loss in training and on validation by step; arguments as `curves` returns them."""
    fig = Figure(figsize=(4.5, 2.8), layout="constrained")
    ax = fig.subplots()
    ax.plot(training.step, training.loss, color=style.BLUE, alpha=0.5, label="training, each step")
    if len(validation):
        ax.plot(
            validation.step, validation.loss, "o-", color=style.VERMILLION, ms=4, label="validation"
        )
    ax.set(xlabel="step", ylabel="loss")
    ax.xaxis.get_major_locator().set_params(integer=True)
    ax.legend()
    return fig
