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


def losses_and_scores(losses: dict[str, pd.Series], scores: dict[str, np.ndarray], level: float, unit: str) -> Figure:
    """Left the loss of trainings that follow each other, step by step; right a histogram of what each began with.

    losses: name -> loss of each step. scores: name -> numbers of any shape. level: the loss where nothing is learnt.
    unit: label of the right panel.
    """
    fig, (left, right) = plt.subplots(1, 2, figsize=(8.5, 3), layout="constrained")
    begun = 0
    for name, loss in losses.items():
        left.plot(begun + 1 + np.arange(len(loss)), loss, label=name)
        begun += len(loss)
    left.axhline(level, color="black", lw=0.8, ls=":")
    left.set(xlabel="step", ylabel="loss")
    left.ticklabel_format(useOffset=False)
    bins = np.histogram_bin_edges(np.concatenate([values.ravel() for values in scores.values()]), 20)
    for name, values in scores.items():
        right.hist(values.ravel(), bins=bins, histtype="step", density=True, label=name)
    right.set(xlabel=unit, ylabel="density")
    right.legend(fontsize=8)
    return fig


def since_start(gains: pd.DataFrame) -> Figure:
    """What changed since the start, by round: left points by the truth and by the reward model, right characters.

    gains: rows (measure, policy, difference, low, high), the policies of each measure in the order of the rounds, as
    `hs2lib.evaluate.by_round.compare` has them.
    """
    fig, (left, right) = plt.subplots(1, 2, figsize=(8, 3), layout="constrained")
    rounds = range(gains.policy.nunique() + 1)
    for measure, look in LOOKS.items():
        part = gains[gains.measure == measure].iloc[:, 2:]  # [rounds, 3]
        if part.empty:
            continue
        value, low, high = np.vstack([np.zeros(3), part]).T
        band(right if measure == "characters" else left, rounds, value, low, high, look, label=measure)
    for ax, label in ((left, "points more than at the start"), (right, "characters more than at the start")):
        ax.axhline(0, color="black", lw=0.8)
        ax.set(xlabel="rounds played", ylabel=label, xticks=rounds)
    left.legend(fontsize=8)
    return fig


def round_by_round(rounds: pd.DataFrame, panels: dict[str, str]) -> Figure:
    """A small panel for each of these columns of a training's rounds; column -> title.

    Nothing below -1 is drawn, and of "explained", a share, nothing above 1.
    """
    fig, axes = plt.subplots(1, len(panels), figsize=(3 * len(panels), 2.4), layout="constrained")
    for ax, (name, title) in zip(axes, panels.items(), strict=True):
        ax.plot(rounds["round"], rounds[name], color=TRUTH.color)
        bottom, top = ax.get_ylim()
        ax.set(xlabel="round", title=title, ylim=(max(bottom, -1), 1 if name == "explained" else top))
    return fig


def pressed(best: pd.DataFrame, levels: dict[str, float], rounds: pd.DataFrame, titles: tuple[str, str]) -> Figure:
    """A reward model pressed on in two ways, and what the truth does: left best of n, right a training by rounds.

    best: rows (n, measure, gain, 95 % low, 95 % high); levels: of each measure the mean of one answer. rounds: columns
    round and each measure. Dots are rounds, lines means of seven of them. titles: of the two panels.
    """
    fig, (left, right) = plt.subplots(1, 2, figsize=(8, 3), layout="constrained", sharey=True)
    for name, level in levels.items():
        part = best[best.measure == name]
        if part.empty:
            continue
        look = LOOKS[name]
        left.plot(part.n, level + part.gain, "o-", ms=3, color=look.color, label=name)
        low, high = level + part["95 % low"], level + part["95 % high"]
        left.fill_between(part.n, low, high, color=look.color, alpha=0.15, lw=0)
        right.plot(rounds["round"], rounds[name], ".", ms=4, color=look.color, alpha=0.5)
        smooth = rounds[name].rolling(7, center=True, min_periods=1).mean()
        right.plot(rounds["round"], smooth, color=look.color, label=name)
    left.set_xscale("log", base=2)
    left.set_xticks(best.n.unique(), best.n.unique())
    left.set(xlabel="n", ylabel="points", title=titles[0])
    left.legend(loc="center left")
    right.xaxis.get_major_locator().set_params(integer=True)
    right.set(xlabel="round", title=titles[1])
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
