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
# A reward model beside what needs no training.
MODELS = {
    "mean": Look("0.55", "v"),
    "log-length": LENGTH,
    "ridge on frozen states": Look("#cc79a7", "^"),
    "trained": SCORE,
}


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


def metric_panels(metrics: pd.DataFrame, chance: dict[str, float]) -> Figure:
    """Metrics of several models by attribute: a row of panels for each side held against, a column for each metric.

    metrics: columns against, model, attribute, metric, value, 95 % low, 95 % high, all in the order they are drawn in,
    the models those of MODELS. chance: of each metric to draw, the value that chance has, as a black line.
    """
    sides = metrics.against.unique()
    models = metrics.model.unique()
    attributes = metrics.attribute.unique()
    fig, axes = plt.subplots(
        len(sides),
        len(chance),
        figsize=(5.25 * len(chance), 2.7 * len(sides)),
        sharex=True,
        sharey="col",
        squeeze=False,
        layout="constrained",
    )
    for row, side in zip(axes, sides, strict=True):
        for ax, (metric, by_chance) in zip(row, chance.items(), strict=True):
            panel = metrics[(metrics.against == side) & (metrics.metric == metric)]
            for k, name in enumerate(models):
                part = panel[panel.model == name]
                at = np.arange(len(part)) + 0.17 * (k - (len(models) - 1) / 2)
                dots(ax, at, part.value, part["95 % low"], part["95 % high"], MODELS[name], label=name, across=False)
            ax.axhline(by_chance, color="black", lw=0.8)
            ax.set_xticks(range(len(attributes)), attributes)
            ax.set_title(f"{metric}, against the {side}")
    legend_beside(axes[0, -1], size=7)
    return fig


def learning_curves(curve: pd.DataFrame, label: str) -> Figure:
    """What more groups and more raters teach: by the number of groups on the left, of ratings in all on the right.

    curve: rows (groups, raters, draw, R, ratings); means over draws as lines, each draw a faint point. label: of the
    vertical axis.
    """
    fig, axes = plt.subplots(1, 2, figsize=(8, 2.8), sharey=True, layout="constrained")
    of_raters = list(curve.groupby("raters"))
    colors = sns.color_palette("colorblind", len(of_raters))
    for ax, x, name in zip(axes, ("groups", "ratings"), ("rated groups", "ratings in all"), strict=True):
        for (raters, draws), color in zip(of_raters, colors, strict=True):
            means = draws.groupby(x).R.mean()
            plural = "s" if raters > 1 else ""
            ax.plot(means.index, means, "o-", ms=4, color=color, label=f"{raters} rater{plural} a response")
            ax.plot(draws[x], draws.R, ".", ms=4, color=color, alpha=0.3)
        ax.set(xscale="log", xlabel=name)
        ax.minorticks_off()
    groups = curve.groups.unique()
    axes[0].set_xticks(groups, groups)
    axes[0].set_ylabel(label)
    axes[0].legend(fontsize=7)
    return fig


def shares_right(
    shares: pd.DataFrame, baselines: dict[str, pd.Series], title: str, *, chance: float = 50.0, label: str = "model"
) -> Figure:
    """Shares that a reward model judges right, with their intervals down the page, beside what the length would.

    shares: rows from top to bottom, columns name, pairs, accuracy, low, high, in percent. baselines: at most two, by
    name, percent in the same order of rows. chance: drawn as a black line.
    """
    height = 1.2 + 0.24 * len(shares)
    at = np.arange(len(shares))[::-1]
    fig, ax = plt.subplots(figsize=(7, height))
    dots(ax, at, shares.accuracy, shares.low, shares.high, SCORE, label=f"{label}, 95 % interval")
    for (name, values), marker in zip(baselines.items(), "><", strict=False):
        ax.plot(values, at, marker, mfc="none", ms=5, ls="", color=LENGTH.color, label=name)
    ax.axvline(chance, color="black", lw=0.8, label="chance")
    names = [f"{name} ({pairs:,})" for name, pairs in zip(shares.name, shares.pairs, strict=True)]
    ax.set(yticks=at, yticklabels=names, xlim=(-2, 102), ylim=(-0.6, len(shares) - 0.4))
    ax.set(xlabel="pairs judged right, %", title=title)
    legend_beside(ax)
    return fig


def weightings(
    right: np.ndarray, held_out_right: np.ndarray, marked: pd.DataFrame, cross_fitted: float, measure: str, title: str
) -> Figure:
    """Every weighting of a grid: right of the benchmark against right of held-out pairs, in percent.

    right, held_out_right: [weightings]. marked: rows (benchmark, held-out) to mark, by name, at most four.
    cross_fitted: what the search on the benchmark comes to on pairs that it has not seen, a dotted line.
    """
    fig, ax = plt.subplots(figsize=(5.4, 3.6))
    shades = sns.light_palette("black", as_cmap=True)  # a single weighting is not white
    drawn = ax.hexbin(held_out_right, right, gridsize=18, bins="log", cmap=shades, mincnt=1)
    fig.colorbar(drawn, label="weightings", pad=0.02)
    looks = (Look("#0072b2"), Look("#cc79a7", "D"), Look("#009e73", "s"), Look("#d55e00", "^"))
    for (name, (on_benchmark, on_held_out)), look in zip(marked.iterrows(), looks, strict=False):
        ax.plot(on_held_out, on_benchmark, look.marker, color=look.color, ms=8, mec="white", ls="", label=name)
    ax.axhline(cross_fitted, color="#d55e00", lw=1, ls=":", label="the latter, cross-fitted")
    ax.set(xlabel="held-out pairs right, %", ylabel=f"benchmark, {measure}, %", title=title)
    ax.legend(fontsize=7, loc="upper left", bbox_to_anchor=(0, -0.2), ncols=2)
    return fig
