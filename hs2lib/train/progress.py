"""Progress of a training: a log file, and live curves in a notebook."""

import time
from collections.abc import Callable
from pathlib import Path

import pandas as pd
from IPython import get_ipython
from IPython.display import display
from matplotlib.figure import Figure
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from hs2lib.engine import pictures
from hs2lib.engine.chat import NINE
from hs2lib.report import style
from hs2lib.runs import progress
from hs2lib.stats.metrics import METRICS

Tables = tuple[pd.DataFrame, pd.DataFrame]  # of training and of validation


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
    """In a notebook the curves so far, in place of the last ones, at most every five seconds."""

    drawn = 0.0  # when the curves were drawn last, seconds
    handle = None  # of the notebook's output that is drawn anew

    def __init__(self, tables: Callable[[list[dict]], Tables] | None = None) -> None:
        """tables: makes the two tables of a history, as `hs2lib.align.dpo.curves`."""
        self.tables = tables or curves

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
        figure = draw(*self.tables(state.log_history))
        self.drawn = time.time()
        step = f"step {state.global_step} of {state.max_steps}"
        figure.suptitle(step, fontsize=9)
        words = {"image/png": {"alt": f"Training and validation, {step}."}}
        pictures.enable_figures()
        if self.handle:
            self.handle.update(figure, metadata=words)
        else:
            self.handle = display(figure, display_id=True, metadata=words)


def curves(history: list[dict]) -> Tables:
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
    """Loss in training and on validation by step, and what else validation says.

    On the right is Pearson's R of each attribute, or the accuracy, whichever validation has. Where
    it has neither, as before the first validation and in PPO, the loss stands alone.

    training, validation: the tables of `curves`.
    """
    pearson = [name for name in validation.columns if name.startswith("Pearson ")]
    measured = pearson or list(validation.columns.intersection(["accuracy"]))
    n_panels = 2 if measured and len(validation) else 1
    fig = Figure(figsize=(4.5 * n_panels, 2.8), layout="constrained")
    panels = fig.subplots(1, n_panels, sharex=True, squeeze=False)[0]
    left = panels[0]
    left.plot(
        training.step, training.loss, color=style.BLUE, alpha=0.5, label="training, each step"
    )
    if len(validation):
        left.plot(
            validation.step, validation.loss, "o-", color=style.VERMILLION, ms=4, label="validation"
        )
    left.set(xlabel="step", ylabel="loss")
    left.xaxis.get_major_locator().set_params(integer=True)  # of both panels: they share it
    left.legend()
    if n_panels == 1:
        return fig
    right = panels[1]
    for name in measured:
        label = name.removeprefix("Pearson ")
        right.plot(validation.step, validation[name], "o-", ms=4, label=label)
    ylabel = "Pearson's R on validation" if pearson else "accuracy on validation"
    right.set(xlabel="step", ylabel=ylabel)
    if pearson:
        right.legend(fontsize=7)
    else:
        right.set_ylim(-0.03, 1.03)  # a hundredth more or less is no trend
    return fig
