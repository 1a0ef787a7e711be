"""The figures of rounds draw the numbers that they are given, from the start on, and leave out what is not known."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from hs2lib.evaluate.response_rows import SCORE, TRUTH
from hs2lib.report import figures


def drawn(figure: Figure, panel: int) -> dict[str, list[float]]:
    """The lines of a panel that have a name, by it."""
    lines = figure.axes[panel].get_lines()
    return {
        line.get_label(): list(line.get_ydata())
        for line in lines
        if not line.get_label().startswith("_")
    }


def gains(*measures: str) -> pd.DataFrame:
    """Two rounds: 1 and 2 points more than at the start, 95 % within half a point."""
    rows = []
    for measure in measures:
        rows += [(measure, f"round {n}", float(n), n - 0.5, n + 0.5) for n in (1, 2)]
    return pd.DataFrame(rows, columns=["measure", "policy", "minus start", "95 % low", "95 % high"])


def test_rounds_begin_at_nothing_gained():
    figure = figures.since_start(gains(TRUTH, SCORE, "characters", "kl"))
    assert drawn(figure, 0) == {TRUTH: [0, 1, 2], SCORE: [0, 1, 2]}
    assert drawn(figure, 1) == {"characters": [0, 1, 2]}


def test_where_nobody_knows_the_truth_there_is_no_line_of_it():
    assert drawn(figures.since_start(gains(SCORE, "characters")), 0) == {SCORE: [0, 1, 2]}
    best = pd.DataFrame(
        {"n": [1, 2], "measure": SCORE, "gain": [0.0, 0.5], "95 % low": 0.0, "95 % high": 0.5}
    )
    rounds = pd.DataFrame({"round": [0, 1], SCORE: [1.0, 3.0], TRUTH: np.nan})
    figure = figures.pressed(best, rounds, ("left", "right"))
    assert drawn(figure, 0) == {SCORE: [0, 0.5]}
    bounds = [line for line in figure.axes[0].get_lines() if line.get_linestyle() == "--"]
    assert [list(line.get_ydata()) for line in bounds] == [[0, 0], [0.5, 0.5]]
    assert drawn(figure, 1) == {SCORE: [0, 0]}  # the mean of seven rounds, of which there are two


def test_losses_follow_each_other():
    """A round's steps begin where the last one's ended."""
    losses = {"round 1": pd.Series([0.7, 0.6]), "round 2": pd.Series([0.65])}
    figure = figures.losses_and_scores(
        losses, {"round 1": np.eye(2), "round 2": np.eye(2)}, np.log(2), "score"
    )
    first, second, level = figure.axes[0].get_lines()
    assert first.get_xdata().tolist() == [1, 2] and second.get_xdata().tolist() == [3]
    assert level.get_ydata() == pytest.approx([np.log(2)] * 2)


def test_a_panel_for_each_column():
    rounds = pd.DataFrame({"round": [0, 1], "kl": [-4.0, 3.0], "explained": [-5.0, 0.5]})
    figure = figures.round_by_round(rounds, {"kl": "KL", "explained": "explained"})
    assert len(figure.axes) == 2
    assert figure.axes[0].get_ylim()[0] < -4, "what is no share is shown whole"


def test_the_truth_by_place_in_two_orders():
    rows = []
    for order, values in {"reward model": (4.0, 5.0), "truth": (6.0, 3.0)}.items():
        for place, value in enumerate(values, 1):
            rows.append((order, place, value, value - 1, value + 1))
    columns = ["ordered by", "place", "truth", "95 % low", "95 % high"]
    figure = figures.by_place(pd.DataFrame(rows, columns=columns), "message")
    by_judge, by_truth, at_random = (line.get_ydata() for line in figure.axes[0].get_lines())
    assert list(by_judge) == [4, 5] and list(by_truth) == [6, 3] and at_random[0] == 4.5


def test_score_against_truth_has_a_panel_for_each_set():
    shown = {"rated\nR 1.00": (np.eye(2), np.eye(2)), "own": (np.zeros((3, 2)), np.ones((3, 2)))}
    figure = figures.agreements(shown)
    assert [len(ax.get_lines()[0].get_xdata()) for ax in figure.axes] == [4, 6]


def test_parts_have_a_bar_for_each_policy_and_their_difference_stands_apart():
    """A bar with a whisker of the difference was read as an interval of the bar: habits 1.0 had .5 to 1.5."""
    lost = pd.DataFrame({"part": ["habits", "jargon"], "SFT": [2.0, 0.1], "PPO": [1.0, 0.4]})
    change = {"difference": [-1.0, 0.3], "95 % low": [-1.5, 0.1], "95 % high": [-0.5, 0.5]}
    bars, differences = figures.parts(lost.assign(**change), "message").axes
    assert [bar.get_width() for bar in bars.patches] == [2.0, 0.1, 1.0, 0.4]
    assert not bars.collections, "no whiskers"
    (points,) = differences.containers
    assert points.lines[0].get_xdata().tolist() == [-1.0, 0.3]
    whiskers = [whisker[:, 0].tolist() for whisker in differences.collections[0].get_segments()]
    assert whiskers == [pytest.approx([-1.5, -0.5]), pytest.approx([0.1, 0.5])]
