"""Figures of policies: no policy and no measure is left out, and nothing that is not known is drawn."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from hs2lib.report import figures

INTERVAL = ["mean", "95 % low", "95 % high"]


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def labels(figure):
    figure.canvas.draw()
    return [[text.get_text() for text in ax.get_yticklabels()] for ax in figure.axes]


def means(*measures):
    rows = [
        (measure, policy, 1.0, 0.5, 1.5)
        for measure in measures
        for policy in ("SFT", "DPO", "Mine")
    ]
    return pd.DataFrame(rows, columns=["measure", "policy", *INTERVAL])


def test_truth_and_score_share_a_panel_and_no_policy_is_left_out():
    figure = figures.side_by_side(
        means("truth", "reward model's score", "win rate over SFT by truth, %", "characters")
    )
    assert labels(figure)[0] == ["SFT", "DPO", "Mine"] and len(figure.axes) == 3
    assert [len(ax.containers) for ax in figure.axes] == [2, 1, 1]


def test_without_the_truth_there_is_no_panel_for_it():
    figure = figures.side_by_side(means("reward model's score", "characters"))
    assert [len(ax.containers) for ax in figure.axes] == [1, 1]


def test_steps_are_faint_dots_and_their_mean_is_a_line():
    """By hand: a mean over 5 of 100 steps; the last step of a falling loss lies below the first."""
    training = pd.DataFrame({"step": range(100), "loss": np.linspace(2, 1, 100)})
    steps = {"step": [0, 50], "loss": [2.0, 1.5]}
    validation = pd.DataFrame(steps | {"Pearson tone": [0.1, 0.4]})
    left, right = figures.training_curves(training, validation).axes
    dots, line, of_validation = left.lines
    assert np.allclose(line.get_ydata()[10:90], dots.get_ydata()[10:90])
    assert list(of_validation.get_ydata()) == [2.0, 1.5]
    assert list(right.lines[0].get_ydata()) == [0.1, 0.4]
    _, alone = figures.training_curves(training, validation, alone=True).axes
    assert list(alone.lines[0].get_ydata()) == [2.0, 1.5]
    pairs = validation.drop(columns="Pearson tone").assign(accuracy=[np.nan, 0.8])
    _, right = figures.training_curves(training, pairs).axes
    assert right.lines[1].get_ydata()[0] == 0.5, "chance"
    nothing = pd.DataFrame(columns=["step", "loss"])
    assert len(figures.training_curves(training.iloc[:3], nothing).axes[0].lines) == 2


def test_models_stand_side_by_side_and_the_raters_label_is_a_line():
    """A baseline without R is not drawn; of an attribute without a reference there is no line."""
    rows = [("mean", "a", np.nan, np.nan, np.nan), ("trained", "a", 0.7, 0.6, 0.8)]
    rows += [("mean", "b", np.nan, np.nan, np.nan), ("trained", "b", 0.9, 0.8, 1.0)]
    columns = ["model", "attribute", "value", *INTERVAL[1:]]
    beside = pd.Series({"a": 0.8, "b": 0.75}, name="the raters' label")
    measured = pd.DataFrame(rows, columns=columns)
    (ax,) = figures.by_attribute(measured, 0.0, beside, "R", "title").axes
    assert len(ax.containers) == 1 and len(ax.collections) == 2
    assert len(figures.by_attribute(measured, 0.0, beside.iloc[:0], "R").axes[0].collections) == 1


def test_chance_has_a_line_of_its_own():
    rows = pd.DataFrame(
        {
            "measure": ["MC1", "MC2", "MC2"],
            "policy": ["SFT", "SFT", "DPO"],
            "value": [1.0, 0.4, 0.6],
        }
    )
    figure = figures.shares(rows.assign(low=0.3, high=0.7, chance=0.25), "MC2", "TruthfulQA")
    assert labels(figure) == [["SFT", "DPO"]]
    dotted = [line for line in figure.axes[0].lines if line.get_linestyle() == ":"]
    assert [line.get_xdata()[0] for line in dotted] == [0.25]


def test_trades_have_a_panel_a_measure_and_a_mark_a_benchmark():
    """Two benchmarks share the panel of characters."""
    rows = [
        ("TruthfulQA", "MC2"),
        ("MT-Bench", "characters"),
        ("MT-Bench", "grade"),
        ("Arena Hard", "characters"),
    ]
    rows += [("Arena Hard", "games won, %")]
    rows = [(*row, policy, 1.0, 0.5, 1.5) for row in rows for policy in ("DPO", "Mine")]
    table = pd.DataFrame(
        rows, columns=["benchmark", "measure", "policy", "gain", "95 % low", "95 % high"]
    )
    figure = figures.trades(table, "SFT")
    used = [ax for ax in figure.axes if ax.axison]
    assert len(used) == table.measure.nunique()
    assert labels(figure)[0] == ["DPO", "Mine"]
    assert len(used[1].containers) == 2, "a mark for each benchmark"


def test_the_pull_that_is_left_is_whole_at_first_and_half_at_ln_3_over_beta():
    """A pair in the wrong order is pulled more than at first."""
    figure = figures.pull_left([0.5, 5.0], 0.5, [-1.0, 2.0, 3.0], "message")
    (ax,) = figure.axes
    ours, _, ticks = ax.lines
    x, left = ours.get_data()
    assert x[0] == -1 and left[0] == pytest.approx(200 / (1 + np.exp(-0.5)))
    assert np.interp(0, x, left) == pytest.approx(100, abs=0.1)
    assert np.interp(np.log(3) / 0.5, x, left) == pytest.approx(50, abs=0.1)
    assert ticks.get_xdata().tolist() == [-1.0, 2.0, 3.0]


def test_a_map_frames_what_was_asked_for_and_shows_intervals_where_there_are_some():
    rows = [
        ("quality", "helpfulness", 0.3, 0.1, 0.5),
        ("quality", "verbosity", 0.0, float("nan"), float("nan")),
        ("verbosity", "helpfulness", -0.1, -0.2, 0.1),
        ("verbosity", "verbosity", 0.2, -0.1, 0.5),
    ]
    table = pd.DataFrame(rows, columns=["asked for", "moves", "slope", "95 % low", "95 % high"])
    own = {"quality": ("helpfulness",), "verbosity": ("verbosity",)}
    (ax,) = figures.cross(table, own, title="one").axes
    assert len(ax.patches) == 2 and len(ax.texts) == 7, "four slopes, three intervals"


@pytest.mark.parametrize("as_asked", [True, False])
def test_what_was_asked_for_is_drawn_only_where_a_level_is_a_level(as_asked):
    """Panels without that line have one span, so that a steep line is a large slope."""
    means = pd.DataFrame(
        [
            ("quality", "truth", level, 2.0 + level / 8, 1.9 + level / 8, 2.1 + level / 8)
            for level in (0, 4)
        ]
        + [("verbosity", "truth", level, 1.0, 0.9, 1.1) for level in (0, 4)],
        columns=["attribute", "read by", "level", *INTERVAL],
    )
    slopes = pd.DataFrame(
        [("quality", "truth", 0.12, 0.1, 0.2), ("verbosity", "truth", 0.0, -0.1, 0.1)],
        columns=["attribute", "read by", "slope", "95 % low", "95 % high"],
    )
    panels = figures.steering(means, slopes, as_asked=as_asked).axes
    dashed = [line for line in panels[0].lines if line.get_linestyle() == "--"]
    assert len(dashed) == as_asked
    spans = [ax.get_ylim()[1] - ax.get_ylim()[0] for ax in panels]
    assert spans[0] == pytest.approx(spans[1])


def test_differences_have_a_panel_a_quantity_and_a_row_a_comparison():
    columns = ["comparison", "measure", "difference", "low", "high"]
    rows = [("B less A", "truth", 1.0, 0.5, 1.5), ("C less A", "truth", -1.0, -2.0, 0.0)]
    table = pd.DataFrame(rows, columns=columns)
    panels = {"points": ("truth", "score"), "nats": ("other", "")}
    figure = figures.differences(table, panels, title="C is worse")
    assert labels(figure)[0] == ["B less A", "C less A"] and len(figure.axes) == 2
    assert [len(ax.containers) for ax in figure.axes] == [1, 0], "what is not there is not drawn"
