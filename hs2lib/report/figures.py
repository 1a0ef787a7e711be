"""Figures by kind: arrays and frames in, a figure out. Nothing here computes a number.

Colours mean one thing in all notebooks: the truth is blue, a reward model's score orange, a length green.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

sns.set_theme(style="whitegrid", context="paper")


@dataclass(frozen=True)
class Look:
    """How one kind of number is drawn."""

    color: str
    marker: str = "o"
    filled: bool = True


TRUTH = Look("#0072b2")
SCORE = Look("#d55e00", marker="s", filled=False)
LENGTH = Look("#009e73", marker="D")
LOOKS = {"truth": TRUTH, "reward model's score": SCORE, "characters": LENGTH}


def dots(
    ax: Axes,
    at: Sequence[float],
    value: Sequence[float],
    low: Sequence[float],
    high: Sequence[float],
    look: Look,
    *,
    label: str = "",
    across: bool = True,
) -> None:
    """Points with their intervals: values run across the page at heights `at`, or up it where `across` is False."""
    value = np.asarray(value, dtype=float)
    error = [value - np.asarray(low, dtype=float), np.asarray(high, dtype=float) - value]
    style = {
        "fmt": look.marker,
        "color": look.color,
        "mfc": look.color if look.filled else "white",
        "ms": 5,
        "capsize": 2,
        "label": label or None,
    }
    if across:
        ax.errorbar(value, at, xerr=np.abs(error), **style)
    else:
        ax.errorbar(at, value, yerr=np.abs(error), **style)


def band(
    ax: Axes,
    x: Sequence[float],
    value: Sequence[float],
    low: Sequence[float],
    high: Sequence[float],
    look: Look,
    *,
    label: str = "",
) -> None:
    """A line through points and its interval as a band."""
    ax.plot(x, value, "o-", ms=4, color=look.color, label=label or None)
    ax.fill_between(x, low, high, color=look.color, alpha=0.2, lw=0)


def legend_beside(ax: Axes, size: int = 8) -> None:
    """The legend to the right of a panel, where it hides no point."""
    ax.legend(fontsize=size, loc="upper left", bbox_to_anchor=(1, 1))


def changes(gains: pd.DataFrame, rows: dict[str, tuple[str, str]], unit: str) -> Figure:
    """What a policy changed: each row of `rows` by the truth, where it is known, and by the reward model.

    gains: rows (measure, policy, difference, low, high) of one policy, as `hs2lib.evaluate.policies.gains_of`. rows:
    label -> (measure of the truth, measure of the reward model). unit: label of the horizontal axis.
    """
    by_measure = gains.set_index("measure").iloc[:, 1:]
    fig, ax = plt.subplots(figsize=(6, 0.8 + 0.45 * len(rows)), layout="constrained")
    for side, (label, look) in enumerate((("truth", TRUTH), ("reward model", SCORE))):
        part = by_measure.reindex([measures[side] for measures in rows.values()])
        if part.iloc[:, 0].notna().any():
            at = np.arange(len(rows)) - 0.12 + 0.24 * side
            dots(ax, at, *part.to_numpy().T, look, label=label)
    ax.axvline(0, color="black", lw=0.8)
    ax.set(yticks=range(len(rows)), yticklabels=list(rows), xlabel=unit)
    ax.invert_yaxis()
    legend_beside(ax)
    return fig


@dataclass(frozen=True)
class Panel:
    """One panel of `by_step`. label: its vertical axis. series: measure -> its look. level: a line to compare with."""

    label: str
    series: dict[str, Look]
    level: float = 0.0


def by_step(rows: pd.DataFrame, panels: Sequence[Panel]) -> Figure:
    """Measures over the steps of a training, two panels a row, with intervals as bands.

    rows: columns step, measure, the value, its 95 % low and high, in this order. A panel of several series has a
    legend.
    """
    height = 2.6 * ((len(panels) + 1) // 2)
    fig, axes = plt.subplots(
        (len(panels) + 1) // 2, 2, figsize=(8, height), layout="constrained", sharex=True, squeeze=False
    )
    for ax, panel in zip(axes.flat, panels, strict=False):
        for measure, look in panel.series.items():
            part = rows[rows.measure == measure]
            if len(part):
                band(ax, *part.drop(columns="measure").to_numpy(float).T, look, label=measure)
        ax.axhline(panel.level, color="black", lw=0.8)
        ax.set(ylabel=panel.label)
        if len(panel.series) > 1 and len(ax.lines) > 2:
            ax.legend(fontsize=8)
    for ax in axes[-1]:
        ax.set(xlabel="step of training")
    return fig


def log_ratios(chosen: Sequence[float], rejected: Sequence[float]) -> Figure:
    """Pairs by the log-ratios of their two responses, nats: above the line a pair is in the right order."""
    fig, ax = plt.subplots(figsize=(4.2, 3.6), layout="constrained")
    ax.axline((0, 0), slope=1, color="black", lw=0.8, label="no preference")
    ax.plot(rejected, chosen, "o", ms=3, alpha=0.4, color=TRUTH.color)
    ax.set(xlabel="log-ratio of the rejected response, nats", ylabel="log-ratio of the chosen one, nats")
    ax.legend(fontsize=8)
    return fig


def side_by_side(means: pd.DataFrame) -> Figure:
    """Policies down, a panel for each kind of measure across, with 95 % intervals.

    means: rows (measure, policy, mean, 95 % low, 95 % high), as `hs2lib.evaluate.held_out.side_by_side` has them. The
    truth and the reward model's score share a panel; a win rate has a line at 50.
    """
    names = list(means.policy.unique())
    rates = [measure for measure in means.measure.unique() if measure.startswith("win rate")]
    panels = []
    for wanted in (["truth", "reward model's score"], rates, ["characters"]):
        panel = [measure for measure in wanted if measure in set(means.measure)]
        if panel:
            panels.append(panel)
    size = (3.1 * len(panels), 1.2 + 0.4 * len(names))
    fig, axes = plt.subplots(1, len(panels), figsize=size, sharey=True, squeeze=False, layout="constrained")
    for ax, panel in zip(axes[0], panels, strict=True):
        for k, measure in enumerate(panel):
            part = means[means.measure == measure]
            at = [names.index(name) + 0.24 * (k - (len(panel) - 1) / 2) for name in part.policy]
            dots(ax, at, part["mean"], part["95 % low"], part["95 % high"], LOOKS.get(measure, TRUTH), label=measure)
        ax.set(xlabel=panel[0].replace(" by truth", "\nby truth"))
        if panel == rates:
            ax.axvline(50, color="black", lw=0.8)
        if len(panel) > 1:
            ax.set(xlabel="truth and reward model's score")
            ax.legend(fontsize=8, loc="lower left", bbox_to_anchor=(0, 1), ncols=2, frameon=False)
    axes[0, 0].set(yticks=range(len(names)), yticklabels=names, ylim=(len(names) - 0.5, -0.5))
    return fig


def shares(rows: pd.DataFrame, measure: str, title: str) -> Figure:
    """One measure of every policy with its interval, and a dotted line where chance alone would be.

    rows: columns measure, policy, value, low, high, chance, as `hs2lib.evaluate.table_4.multiple_choice` has them.
    """
    part = rows[rows.measure == measure]
    fig, ax = plt.subplots(figsize=(5.5, 0.8 + 0.35 * len(part)))
    dots(ax, range(len(part)), part.value, part.low, part.high, TRUTH)
    ax.axvline(part.chance.iloc[0], color="black", lw=0.8, ls=":")
    ax.set(yticks=range(len(part)), yticklabels=part.policy, ylim=(len(part) - 0.5, -0.5))
    ax.set(xlabel=measure, title=title)
    return fig


def trades(traded: pd.DataFrame, base: str) -> Figure:
    """What every policy gains over `base`, a panel for each measure, a mark for each benchmark, with 95 % intervals.

    traded: as `hs2lib.evaluate.policies.trades` gives it.
    """
    measures = list(traded.measure.unique())
    policies = list(traded.policy.unique())
    looks = {}
    shades = sns.color_palette("colorblind", 5).as_hex()
    for benchmark, marker, shade in zip(traded.benchmark.unique(), "osD^v", shades, strict=False):
        looks[benchmark] = Look(shade, marker)
    columns = min(3, len(measures))
    lines = -(-len(measures) // columns)
    size = (3.1 * columns, (0.9 + 0.3 * len(policies)) * lines + 0.9)
    fig, axes = plt.subplots(lines, columns, figsize=size, sharey=True, squeeze=False, layout="constrained")
    for ax, measure in zip(axes.flat, measures, strict=False):
        of_measure = traded[traded.measure == measure]
        several = of_measure.benchmark.nunique() > 1
        for k, (benchmark, part) in enumerate(of_measure.groupby("benchmark", sort=False)):
            aside = 0.22 * (k - 1) if several else 0
            at = [policies.index(name) + aside for name in part.policy]
            dots(ax, at, part.gain, part["95 % low"], part["95 % high"], looks[benchmark])
        ax.axvline(0, color="black", lw=0.8)
        ax.set(xlabel=f"{measure}, minus {base}", ylim=(len(policies) - 0.5, -0.5))
        ax.set_yticks(range(len(policies)), policies)
        ax.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
    for ax in axes.flat[len(measures) :]:
        ax.set_axis_off()
    marks = []
    for benchmark, look in looks.items():
        marks.append(Line2D([], [], ls="", marker=look.marker, color=look.color, label=benchmark))
    fig.legend(handles=marks, fontsize=8, ncols=2, loc="outside lower center", frameon=False)
    return fig
