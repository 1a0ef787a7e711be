"""What is drawn is seen: a figure is a picture in a notebook, never the text `<Figure ..>`."""

import nbformat
import pandas as pd
import pytest
from cells import figures_as_text, run_all
from IPython.core.interactiveshell import InteractiveShell
from matplotlib.figure import Figure
from nbformat.v4 import new_code_cell, new_notebook, new_output
from traitlets.config import Config
from transformers import TrainerState

from hs2lib.engine import pictures
from hs2lib.paths import published_reports
from hs2lib.train import progress

COPIES = sorted(published_reports().glob("*/*/*.ipynb"))


@pytest.fixture
def shell():
    yield InteractiveShell.instance(config=Config({"HistoryManager": {"enabled": False}}))
    InteractiveShell.clear_instance()


def forms(shell, thing):
    return set(shell.display_formatter.format(thing)[0])


def test_a_figure_made_without_pyplot_becomes_a_picture(shell):
    """IPython learns to draw from pyplot's backend alone, and where that is another (MPLBACKEND) never."""
    curves = progress.draw(
        pd.DataFrame({"step": [1, 2], "loss": [1.0, 0.5]}), pd.DataFrame(columns=["step", "loss"])
    )
    assert forms(shell, curves) == {"text/plain"}
    pictures.enable_figures()
    assert forms(shell, curves) == {"text/plain", "image/png"}


def test_live_curves_have_no_empty_panel():
    """PPO has no validation: half of its live figure was an empty "accuracy on validation"."""
    training = pd.DataFrame({"step": [1, 2], "loss": [1.0, 0.5]})
    nothing = pd.DataFrame(columns=["step", "loss", "accuracy"])
    assert len(progress.draw(training, nothing).axes) == 1
    only_loss = pd.DataFrame({"step": [2], "loss": [0.7]})
    (ax,) = progress.draw(training, only_loss).axes
    assert [line.get_label() for line in ax.lines] == ["training, each step", "validation"]
    _, right = progress.draw(training, only_loss.assign(accuracy=0.8)).axes
    assert right.get_ylabel() == "accuracy on validation" and right.get_ylim() == (-0.03, 1.03)
    _, right = progress.draw(training, only_loss.assign(**{"Pearson tone": 0.3})).axes
    assert right.get_ylabel() == "Pearson's R on validation"
    assert [text.get_text() for text in right.get_legend().get_texts()] == ["tone"]


def test_a_format_that_the_reader_chose_stays(shell):
    shell.display_formatter.formatters["image/svg+xml"].for_type(Figure, lambda figure: "<svg/>")
    pictures.enable_figures()
    assert forms(shell, Figure()) == {"text/plain", "image/svg+xml"}


def test_outside_of_a_notebook_nothing_happens():
    pictures.enable_figures()


def test_live_curves_are_pictures_each_in_place_of_the_last(shell, monkeypatch):
    sent = []

    def display(figure, display_id, metadata):
        sent.append(("new", forms(shell, figure), metadata["image/png"]["alt"]))
        return Handle()

    class Handle:
        def update(self, figure, metadata):
            sent.append(("again", forms(shell, figure), metadata["image/png"]["alt"]))

    monkeypatch.setattr(progress, "display", display)
    live = progress.Live()
    for step in (1, 2, 3):
        history = [{"step": at, "epoch": 1, "loss": 1 / at} for at in range(1, step + 1)]
        state = TrainerState(global_step=step, max_steps=3, log_history=history)
        live.on_log(None, state, None)
    picture = {"text/plain", "image/png"}
    words = ["Training and validation, step 1 of 3.", "Training and validation, step 3 of 3."]
    expected = [("new", picture, words[0]), ("again", picture, words[1])]
    assert sent == expected, "the first, none for 5 s, the last"


def test_a_figure_as_text_is_seen():
    """The check itself: a figure's own text beside its picture is no fault."""
    text = {"text/plain": "<Figure size 900x280 with 2 Axes>"}
    alone = new_code_cell(outputs=[new_output("display_data", text)], id="alone")
    beside = new_output("display_data", text | {"image/png": "aGVsbG8="})
    assert figures_as_text(new_notebook(cells=[alone, new_code_cell(outputs=[beside])])) == [
        "alone"
    ]


FIGURE = """from IPython.display import display
from matplotlib.figure import Figure

figure = Figure(figsize=(2, 1))
figure.subplots();"""


@pytest.mark.parametrize("last", ["display(figure)", "figure", "print([figure])"])
def test_run_all_fails_where_a_figure_is_shown_as_text(last, tmp_path, monkeypatch):
    """Ten figures of seven notebooks were text, and Run All passed on all of them."""
    monkeypatch.setenv("HS2_ROOT", str(tmp_path))
    (tmp_path / "notebooks").mkdir()

    def run(*sources):
        cells = [new_code_cell(source, id=f"cell-{n}") for n, source in enumerate(sources)]
        nbformat.write(new_notebook(cells=cells), tmp_path / "notebooks" / "00_toy.ipynb")
        run_all("00_toy")

    with pytest.raises(AssertionError, match="00_toy, cell-1"):
        run(FIGURE, last)
    if last != "print([figure])":
        enabled = "from hs2lib.engine import pictures\n\npictures.enable_figures()"
        run(enabled, FIGURE, last)


@pytest.mark.parametrize("copy", COPIES, ids=lambda copy: f"{copy.parts[-3]}/{copy.parts[-2]}")
def test_published_copies_show_their_figures(copy):
    """Four copies of tier laptop did not: their tables and pictures stay, and the copies went."""
    assert not figures_as_text(nbformat.read(copy, 4))


@pytest.mark.parametrize("copy", COPIES, ids=lambda copy: f"{copy.parts[-3]}/{copy.parts[-2]}")
def test_published_copies_are_small_enough_to_be_drawn_on_github(copy):
    """GitHub draws no notebook beyond some megabytes, and slow lines wait long for one."""
    assert copy.stat().st_size < 1_000_000
