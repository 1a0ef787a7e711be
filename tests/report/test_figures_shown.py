"""What is drawn is seen: a figure is a picture in a notebook, never the text `<Figure ..>`."""

import pandas as pd
import pytest
from cells import figures_as_text
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.pylabtools import select_figure_formats
from nbformat.v4 import new_code_cell, new_notebook, new_output
from traitlets.config import Config
from transformers import TrainerState

from hs2lib.train import progress


@pytest.fixture
def shell():
    shell = InteractiveShell.instance(config=Config({"HistoryManager": {"enabled": False}}))
    select_figure_formats(shell, {"png"})
    yield shell
    InteractiveShell.clear_instance()


def forms(shell, thing):
    return set(shell.display_formatter.format(thing)[0])


def test_live_curves_have_no_empty_panel():
    """PPO has no validation: half of its live figure was an empty "accuracy on validation"."""
    training = pd.DataFrame({"step": [1, 2], "loss": [1.0, 0.5]})
    nothing = pd.DataFrame(columns=["step", "loss", "accuracy"])
    assert len(progress.draw(training, nothing).axes[0].lines) == 1
    only_loss = pd.DataFrame({"step": [2], "loss": [0.7]})
    (ax,) = progress.draw(training, only_loss).axes
    assert len(ax.lines) == 2, "training and validation"


def test_live_curves_are_pictures_each_in_place_of_the_last(shell, monkeypatch):
    sent = []

    def display(figure, display_id, metadata):
        sent.append(("new", forms(shell, figure)))
        return Handle()

    class Handle:
        def update(self, figure, metadata):
            sent.append(("again", forms(shell, figure)))

    monkeypatch.setattr(progress, "display", display)
    live = progress.Live()
    for step in (1, 2, 3):
        history = [{"step": at, "epoch": 1, "loss": 1 / at} for at in range(1, step + 1)]
        state = TrainerState(global_step=step, max_steps=3, log_history=history)
        live.on_log(None, state, None)
    picture = {"text/plain", "image/png"}
    assert sent == [("new", picture), ("again", picture)], "the first, none for 5 s, the last"


def test_a_figure_as_text_is_seen():
    """The check itself: a figure's own text beside its picture is no fault."""
    text = {"text/plain": "<Figure size 900x280 with 2 Axes>"}
    alone = new_code_cell(outputs=[new_output("display_data", text)], id="alone")
    beside = new_output("display_data", text | {"image/png": "aGVsbG8="})
    assert figures_as_text(new_notebook(cells=[alone, new_code_cell(outputs=[beside])])) == [
        "alone"
    ]
