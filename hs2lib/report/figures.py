"""Figures by kind: arrays and frames in, a figure out. Nothing here computes a number.

Colours mean one thing in all notebooks: the truth is blue, a reward model's score orange, a length
green.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import fill

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator
from scipy.optimize import isotonic_regression

from hs2lib.report import style
from hs2lib.report.report import digits_of

sns.set_theme(**style.THEME)


@dataclass(frozen=True)
class Look:
    """How one kind of number is drawn."""

    color: str
    marker: str = "o"
    filled: bool = True


TRUTH = Look(style.BLUE)
SCORE = Look(style.VERMILLION, marker="s", filled=False)
LENGTH = Look(style.GREEN, marker="D")
LIKELIEST = Look(style.BLUE, marker="D")
LOOKS = {
    "truth, greedy": LIKELIEST,
    "truth": TRUTH,
    "reward model's score": SCORE,
    "characters": Look(style.GREEN),  # of sampled answers: a diamond is a greedy one
}
# A reward model beside what needs no training.
MODELS = {
    "mean": Look("0.55", "v"),
    "log-length": LENGTH,
    "ridge on frozen states": Look(style.PURPLE, "^"),
    "trained": SCORE,
}

NAMES_IN_FULL = {"Pearson": "Pearson's R", "pairwise accuracy": "share of pairs ordered rightly"}


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
    """Points with their intervals.

    Args:
        ax: the panel.
        at: height of each point, or where it stands along the page if `across` is False.
        value: of each point.
        low: end of each interval.
        high: end of each interval.
        look: of the points.
        label: for the legend.
        across: whether values run across the page, else up it.
    """
    value = np.asarray(value, dtype=float)
    error = [value - np.asarray(low, dtype=float), np.asarray(high, dtype=float) - value]
    points = {
        "fmt": look.marker,
        "color": look.color,
        "mfc": look.color if look.filled else "white",
        "ms": 5,
        "capsize": 2,
        "label": label or None,
    }
    if across:
        ax.errorbar(value, at, xerr=np.abs(error), **points)
    else:
        ax.errorbar(at, value, yerr=np.abs(error), **points)


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


def changes(
    gains: pd.DataFrame, rows: dict[str, tuple[str, str]], unit: str, title: str = ""
) -> Figure:
    """What a policy changed, by the truth, where it is known, and by the reward model.

    Args:
        gains: rows (measure, policy, difference, low, high) of one policy, as from
            `hs2lib.evaluate.policies.gains_of`.
        rows: label -> (measure of the truth, measure of the reward model), "" for none.
        unit: label of the horizontal axis.
        title: the message.
    """
    by_measure = gains.set_index("measure").iloc[:, 1:]
    fig, ax = plt.subplots(figsize=(6, 0.8 + 0.45 * len(rows)), layout="constrained")
    for side, (label, look) in enumerate((("truth", TRUTH), ("reward model", SCORE))):
        part = by_measure.reindex([measures[side] for measures in rows.values()])
        if part.iloc[:, 0].notna().any():
            at = np.arange(len(rows)) - 0.12 + 0.24 * side
            dots(ax, at, *part.to_numpy().T, look, label=label)
    ax.axvline(0, color="black", lw=0.8)
    ax.set(yticks=range(len(rows)), yticklabels=list(rows), xlabel=unit, title=title)
    ax.invert_yaxis()
    legend_beside(ax)
    return fig


def losses_and_scores(
    losses: dict[str, pd.Series],
    scores: dict[str, np.ndarray],
    level: float,
    unit: str,
    title: str = "",
) -> Figure:
    """Left the loss of trainings that follow each other; right what each began with, a histogram.

    Args:
        losses: name -> loss of each step.
        scores: name -> numbers of any shape.
        level: the loss where nothing is learnt.
        unit: label of the right panel.
        title: the message.
    """
    fig, (left, right) = plt.subplots(1, 2, figsize=(8.5, 3), layout="constrained")
    begun = 0
    for name, loss in losses.items():
        left.plot(begun + 1 + np.arange(len(loss)), loss, ".-", label=name)
        begun += len(loss)
    left.axhline(level, color="black", lw=0.8, ls=":")
    left.set(xlabel="step", ylabel="loss", title="loss (dotted: nothing learnt)")
    lowest = min(loss.min() for loss in losses.values())
    bottom = min(0.8 * level, 0.95 * lowest)  # a fall of a hundredth is not to look like learning
    left.set_ylim(bottom=bottom, top=1.1 * level)
    left.legend(fontsize=8, loc="lower left")
    left.xaxis.set_major_locator(MaxNLocator(integer=True))
    bins = np.histogram_bin_edges(
        np.concatenate([values.ravel() for values in scores.values()]), 20
    )
    for name, values in scores.items():
        right.hist(values.ravel(), bins=bins, histtype="step", density=True, label=name)
    right.set(xlabel=unit, ylabel="density", title="scores of the samples each round began with")
    right.legend(fontsize=8)
    if title:
        fig.suptitle(title, fontsize=10)
    return fig


def since_start(gains: pd.DataFrame, title: str = "") -> Figure:
    """What changed since the start, by round: left points, right characters.

    The points are those of the truth and of the reward model. gains: rows (measure, policy,
    difference, low, high), the policies of each measure in the order of the rounds, as
    `hs2lib.evaluate.by_round.compare` has them. title: the message.
    """
    fig, (left, right) = plt.subplots(1, 2, figsize=(8, 3), layout="constrained")
    rounds = range(gains.policy.nunique() + 1)
    for measure, look in LOOKS.items():
        part = gains[gains.measure == measure].iloc[:, 2:]  # [rounds, 3]
        if part.empty:
            continue
        value, low, high = np.vstack([np.zeros(3), part]).T
        ax = right if measure == "characters" else left
        band(ax, rounds, value, low, high, look, label=measure)
    for ax, counted in ((left, "points"), (right, "characters")):
        ax.axhline(0, color="black", lw=0.8)
        ax.set(xlabel="rounds played", ylabel=f"{counted} more than at the start", xticks=rounds)
    left.legend(fontsize=8)
    if title:
        fig.suptitle(title, fontsize=10)
    return fig


def round_by_round(rounds: pd.DataFrame, panels: dict[str, str]) -> Figure:
    """A small panel for each of these columns of a training's rounds; column -> title.

    Of "explained", a share, nothing below -1 or above 1 is drawn.
    """
    fig, axes = plt.subplots(1, len(panels), figsize=(3 * len(panels), 2.4), layout="constrained")
    for ax, (name, title) in zip(axes, panels.items(), strict=True):
        ax.plot(rounds["round"], rounds[name], color=TRUTH.color)
        ax.set(xlabel="round", title=title)
        if name == "explained":
            bottom, _ = ax.get_ylim()
            ax.set_ylim(max(bottom, -1), 1)
    return fig


FIRST_ROUNDS = 3  # of a training: what its later rounds are compared with
SMOOTHED = 7  # rounds of which a line shows the mean


def pressed(best: pd.DataFrame, rounds: pd.DataFrame, titles: tuple[str, str]) -> Figure:
    """A reward model pressed on, and what the truth does: left best of n, right a training.

    Left, gains over one answer, the interval of the truth as a band and that of the score between
    dashes. Right, gains over the mean of the first rounds: dots are rounds, lines are means of
    `SMOOTHED` of them.

    Args:
        best: rows (n, measure, gain, 95 % low, 95 % high).
        rounds: columns round and each measure.
        titles: of the two panels.
    """
    fig, (left, right) = plt.subplots(1, 2, figsize=(8, 3.2), layout="constrained", sharey=True)
    left.set_xscale("log", base=2)
    left.set_xticks(best.n.unique(), best.n.unique())
    for name, look in LOOKS.items():
        part = best[best.measure == name]
        if part.empty:
            continue
        left.plot(part.n, part.gain, "o-", ms=3, color=look.color, label=name)
        if look is TRUTH:
            left.fill_between(
                part.n, part["95 % low"], part["95 % high"], color=look.color, alpha=0.15, lw=0
            )
        else:  # two bands on each other have a third colour
            for bound in ("95 % low", "95 % high"):
                left.plot(part.n, part[bound], "--", lw=0.8, color=look.color)
        gained = rounds[name] - rounds[name].iloc[:FIRST_ROUNDS].mean()
        right.plot(rounds["round"], gained, ".", ms=4, color=look.color, alpha=0.5)
        smooth = gained.rolling(SMOOTHED, center=True, min_periods=1).mean()
        right.plot(rounds["round"], smooth, color=look.color, label=name)
    for ax in (left, right):
        ax.axhline(0, color="black", lw=0.8)
    left.set(xlabel="n", ylabel="points gained", title=titles[0])
    left.legend(loc="upper left")
    right.xaxis.get_major_locator().set_params(integer=True)
    right.set(xlabel="round", title=titles[1])
    return fig


def by_place(places: pd.DataFrame, title: str) -> Figure:
    """The truth of samples by their place in an order: the reward model's, and that of the truth.

    places: rows (ordered by, place, truth, 95 % low, 95 % high), as from
    `hs2lib.evaluate.judged.places`. title: the message.
    """
    looks = {"reward model": SCORE, "truth": TRUTH}
    fig, ax = plt.subplots(figsize=(6, 3), layout="constrained")
    ends = {}
    for order, part in places.groupby("ordered by", sort=False):
        values = part[["truth", "95 % low", "95 % high"]].to_numpy().T
        band(ax, part.place, *values, looks[order])
        end = part.iloc[-1]
        ends[f"in the order of the {order}"] = (end.place, end.truth, looks[order].color)
    ax.axhline(places.truth.mean(), color="black", lw=0.8, ls=":")
    ax.set(xlabel="place, the best first", ylabel="truth of the sample, points", title=title)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    label_ends(ax, ends)
    return fig


def agreements(
    panels: dict[str, tuple[np.ndarray, np.ndarray]], ylabel: str = "reward model's score"
) -> Figure:
    """Score against truth of answers, each less the mean of its prompt; a panel a set of answers.

    panels: title -> (truth, score), arrays of one shape, points.
    """
    size = (2.6 * len(panels), 2.9)
    fig, axes = plt.subplots(
        1, len(panels), figsize=size, sharex=True, sharey=True, squeeze=False, layout="constrained"
    )
    for ax, (title, (truth, score)) in zip(axes[0], panels.items(), strict=True):
        ax.plot(truth.ravel(), score.ravel(), ".", ms=3, alpha=0.3, color=SCORE.color)
        ax.axline((0, 0), slope=1, color="black", lw=0.8, ls=":")
        ax.axhline(0, color="0.8", lw=0.6)
        ax.axvline(0, color="0.8", lw=0.6)
        ax.set_title(title, fontsize=9)
    axes[0, 0].set_ylabel(f"{ylabel}, points\nless its prompt's mean", fontsize=8)
    fig.supxlabel("truth, points less its prompt's mean", fontsize=8)
    return fig


def parts(lost: pd.DataFrame, title: str) -> Figure:
    """What takes goodness away from the answers of two policies, by part, and what changed.

    Left, bars of both policies. Right, the second less the first, paired by prompt, with 95 %
    intervals: where one does not hold 0, the two differ.

    lost: rows (part, the two policies' names, difference, 95 % low, 95 % high), as from
    `hs2lib.evaluate.content.parts_of`. title: the message.
    """
    before, after = lost.columns[1:3]
    looks = {before: "0.65", after: TRUTH.color}
    size = (8.5, 1 + 0.5 * len(lost))
    fig, (left, right) = plt.subplots(
        1, 2, figsize=size, layout="constrained", sharey=True, width_ratios=(3, 2)
    )
    at = np.arange(len(lost))
    for side, (name, color) in enumerate(looks.items()):
        place = at - 0.19 + 0.38 * side
        bars = left.barh(place, lost[name], height=0.36, color=color, label=name)
        left.bar_label(bars, fmt="%.2f", fontsize=7, padding=2)
    dots(right, at, lost.difference, lost["95 % low"], lost["95 % high"], TRUTH)
    for ax in (left, right):
        ax.axvline(0, color="black", lw=0.8)
        ax.grid(visible=False, axis="y")
    left.set(yticks=at, yticklabels=lost.part, xlabel="points of truth lost per answer")
    right.set(xlabel=f"{after} less {before}, points\n(95 % intervals)")
    right.xaxis.set_major_locator(MaxNLocator(5))
    left.margins(x=0.12)
    left.invert_yaxis()
    left.legend(fontsize=8, loc="lower right")
    fig.suptitle(title)
    return fig


# Lines of `laws`: the law, its peak, single points without intervals, and rules without a reward
# model.
FITTED = "fitted law"
PEAK = "peak"
SINGLE = "single points"
LINES = {
    FITTED: TRUTH,
    "longest": LENGTH,
    "likeliest": Look(style.PURPLE, "^"),
    "greedy": Look("0.45", "v"),
}


def laws(
    titles: dict[str, str], axes: dict[str, str], points: pd.DataFrame, lines: pd.DataFrame
) -> Figure:
    """Truth gained by distance, with the law fitted through it: a panel for each law.

    Args:
        titles: name of the law -> title of its panel, its message.
        axes: name of the law -> label of its horizontal axis.
        points: rows (law, distance, gain, low, high).
        lines: rows (law, line, distance, gain); line is one of `LINES`, or `PEAK` for one point, or
            `SINGLE` for points without intervals. A law without points has an empty panel.
    """
    size = (4.6 * len(titles), 3.4)
    fig, panels = plt.subplots(1, len(titles), figsize=size, layout="constrained", squeeze=False)
    for ax, (name, title) in zip(panels[0], titles.items(), strict=True):
        ax.set(title=title, xlabel=axes[name], ylabel="truth gained, points")
        ax.axhline(0, color="black", lw=0.8)
        part = points[points.law == name]
        if part.empty:
            continue
        dots(ax, *part.drop(columns="law").to_numpy(float).T, TRUTH, across=False)
        ends = {}
        for line, row in lines[lines.law == name].groupby("line", sort=False):
            if line == PEAK:
                ax.plot(row.distance, row.gain, marker="*", ms=11, color=TRUTH.color)
                ax.axvline(row.distance.item(), color=TRUTH.color, lw=0.8, ls=":")
                continue
            if line == SINGLE:
                ax.plot(row.distance, row.gain, ".", ms=5, color=TRUTH.color, alpha=0.35, zorder=1)
                continue
            look = LINES[line]
            dash = "-" if line == FITTED else "--"
            ax.plot(row.distance, row.gain, color=look.color, ls=dash, label=line)
            ends[line] = (row.distance.iloc[-1], row.gain.iloc[-1], look.color)
        label_ends(ax, ends)
    return fig


def label_ends(ax: Axes, ends: dict[str, tuple[float, float, str]]) -> None:
    """The names of lines at their right ends, far enough apart to be read.

    ends: name -> where along the page and up it the line ends, and its colour.
    """
    bottom, top = ax.get_ylim()
    gap = 0.06 * (top - bottom)
    lowest = -np.inf
    for name, (x, y, color) in sorted(ends.items(), key=lambda end: end[1][1]):
        lowest = max(y, lowest + gap)
        ax.annotate(
            name,
            (x, lowest),
            xytext=(6, 0),
            textcoords="offset points",
            color=color,
            fontsize=8,
            va="center",
            annotation_clip=False,
        )


@dataclass(frozen=True)
class Panel:
    """One panel of `by_step`.

    label: of its vertical axis. series: measure -> its look. level: a line to compare with.
    """

    label: str
    series: dict[str, Look]
    level: float = 0.0


def by_step(
    rows: pd.DataFrame, panels: Sequence[Panel], title: str = "", kept: int | None = None
) -> Figure:
    """Measures over the steps of a training, two panels a row, with intervals as bands.

    rows: columns step, measure, the value, its 95 % low and high, in this order. A panel of several
    series has a legend. title: the message. kept: the step whose weights stay, a dotted line.
    """
    lines = (len(panels) + 1) // 2
    size = (8, 2.6 * lines)
    fig, axes = plt.subplots(
        lines, 2, figsize=size, layout="constrained", sharex=True, squeeze=False
    )
    for ax, panel in zip(axes.flat, panels, strict=False):
        for measure, look in panel.series.items():
            part = rows[rows.measure == measure]
            if len(part):
                band(ax, *part.drop(columns="measure").to_numpy(float).T, look, label=measure)
        ax.axhline(panel.level, color="black", lw=0.8)
        ax.set(ylabel=panel.label)
        n_curves = len(ax.lines) - 1
        if kept is not None:
            ax.axvline(kept, color="0.4", lw=1.2, ls=":")
            if ax is axes.flat[0]:
                top = ax.get_xaxis_transform()
                ax.text(kept, 1.01, "kept", transform=top, ha="center", fontsize=8, color="0.4")
        if len(panel.series) > 1 and n_curves > 1:
            ax.legend(fontsize=8)
    for ax in axes[-1]:
        ax.set(xlabel="step of training")
    if title:
        fig.suptitle(title, fontsize=11)
    return fig


def pull_left(betas: Sequence[float], ours: float, margins: Sequence[float], title: str) -> Figure:
    """How much of its first pull a pair of DPO has left, by its margin.

    The pull is beta sigma(-beta margin), and beta / 2 at first: 2 sigma(-beta margin) is left.

    Args:
        betas: a line each.
        ours: that of this run, in blue.
        margins: of this run's pairs, nats, as ticks below.
        title: the message.
    """
    fig, ax = plt.subplots(figsize=(6.5, 3), layout="constrained")
    least = min(0.0, float(np.min(margins)))
    x = np.linspace(least, max(10.0, float(np.quantile(margins, 0.95))), 200)
    ends = {}
    for beta in betas:
        left = 200 / (1 + np.exp(beta * x))
        color = TRUTH.color if beta == ours else "0.55"
        ax.plot(x, left, color=color, lw=2.2 if beta == ours else 1.2)
        ends[f"beta {beta:g}"] = (x[-1], left[-1], color)
    ax.plot(margins, np.full(len(margins), -5.0), "|", ms=7, color=TRUTH.color, alpha=0.5)
    top = 105 if least == 0 else 205  # a pair in the wrong order is pulled more than at first
    ax.set(xlim=(least, x[-1]), ylim=(-9, top), title=title)
    ax.set(xlabel="margin of a pair, nats (ticks: this run's)", ylabel="pull that is left, %")
    label_ends(ax, ends)
    return fig


def log_ratios(chosen: Sequence[float], rejected: Sequence[float], title: str = "") -> Figure:
    """Pairs by the log-ratios of their two responses, nats.

    Above the line a pair is in the right order. title: the message.
    """
    fig, ax = plt.subplots(figsize=(4.2, 3.6), layout="constrained")
    ax.axline((0, 0), slope=1, color="black", lw=0.8, label="no preference")
    ax.plot(rejected, chosen, "o", ms=3, alpha=0.4, color=TRUTH.color)
    ax.set(
        xlabel="log-ratio of the rejected response, nats",
        ylabel="log-ratio of the chosen one, nats",
        title=title,
    )
    ax.legend(fontsize=8)
    return fig


def side_by_side(means: pd.DataFrame, title: str = "", sampled: str = "sampled") -> Figure:
    """Policies down, a panel for each kind of measure across, with 95 % intervals.

    Args:
        means: rows (measure, policy, mean, 95 % low, 95 % high), as
            `hs2lib.evaluate.held_out.side_by_side` has them. The truth and the reward model's score
            share a panel; a win rate has a line at 50.
        title: the figure's message.
        sampled: how the answers were taken, of all measures but the greedy truth.
    """
    names = list(means.policy.unique())
    rates = [measure for measure in means.measure.unique() if measure.startswith("win rate")]
    panels = []
    judges = ["truth, greedy", "truth", "reward model's score"]
    for wanted in (judges, rates, ["characters"]):
        panel = [measure for measure in wanted if measure in set(means.measure)]
        if panel:
            panels.append(panel)
    size = (3.1 * len(panels), 1.2 + 0.4 * len(names))
    fig, axes = plt.subplots(
        1, len(panels), figsize=size, sharey=True, squeeze=False, layout="constrained"
    )
    for ax, panel in zip(axes[0], panels, strict=True):
        for k, measure in enumerate(panel):
            part = means[means.measure == measure]
            aside = 0.24 * (k - (len(panel) - 1) / 2)
            at = [names.index(name) + aside for name in part.policy]
            values = part[["mean", "95 % low", "95 % high"]].to_numpy().T
            label = measure if measure == "truth, greedy" else f"{measure}, {sampled}"
            dots(ax, at, *values, LOOKS.get(measure, TRUTH), label=label)
        ax.set(xlabel=f"{panel[0]}, {sampled}".replace(" by truth", "\nby truth"))
        if panel == rates:
            ax.axvline(50, color="black", lw=0.8)
        if len(panel) > 1:
            ax.set(xlabel="points of goodness, 0 to 7.6")
            ax.legend(fontsize=8, loc="lower left", bbox_to_anchor=(0, 1), frameon=False)
    axes[0, 0].set(yticks=range(len(names)), yticklabels=names, ylim=(len(names) - 0.5, -0.5))
    if title:
        fig.suptitle(title, fontsize=11)
    return fig


def by_temperature(panels: dict[str, pd.DataFrame], title: str = "") -> Figure:
    """The truth of every policy's answers against the temperature they were sampled at.

    A line a policy, named at its right end, and 95 % intervals.

    Args:
        panels: title of a panel -> rows (policy, temperature, mean, low, high); empty ones are
            left out.
        title: the figure's message.
    """
    shown = {name: rows for name, rows in panels.items() if len(rows)}
    policies = list(dict.fromkeys(pd.concat(shown.values()).policy))
    colors = dict(zip(policies, style.colors(len(policies)), strict=True))
    size = (4.6 * len(shown), 3.6)
    fig, axes = plt.subplots(
        1, len(shown), figsize=size, sharey=True, squeeze=False, layout="constrained"
    )
    for ax, (name, rows) in zip(axes[0], shown.items(), strict=True):
        ends = {}
        for policy, part in rows.groupby("policy", sort=False):
            part = part.sort_values("temperature")
            aside = 0.006 * (policies.index(policy) - (len(policies) - 1) / 2)
            look = Look(colors[policy])
            values = part[["mean", "low", "high"]].to_numpy().T
            ax.plot(part.temperature + aside, part["mean"], color=look.color, lw=1.2)
            dots(ax, part.temperature + aside, *values, look, across=False)
            # Every name stands beyond the last of the error bars that lie side by side.
            last = part.temperature.iloc[-1] + 0.003 * (len(policies) - 1)
            ends[policy] = (last, part["mean"].iloc[-1], look.color)
        temperatures = sorted(rows.temperature.unique())
        labels = ["greedy" if value == 0 else f"{value:g}" for value in temperatures]
        ax.set_xticks(temperatures, labels)
        ax.set(xlabel="temperature", title=name)
        label_ends(ax, ends)
    axes[0, 0].set_ylabel("truth, points (0 to 7.6)")
    if title:
        fig.suptitle(title)
    return fig


def shares(rows: pd.DataFrame, measure: str, title: str) -> Figure:
    """One measure of every policy with its interval, and a dotted line where chance alone would be.

    Where nearly all is right, the line is left out, so that differences can be seen.

    rows: columns measure, policy, value, low, high, chance, as
    `hs2lib.evaluate.table_4.multiple_choice` has them.
    """
    part = rows[rows.measure == measure]
    fig, ax = plt.subplots(figsize=(5.5, 0.8 + 0.35 * len(part)))
    dots(ax, range(len(part)), part.value, part.low, part.high, TRUTH)
    if _near_chance(part):
        ax.axvline(part.chance.iloc[0], color="black", lw=0.8, ls=":")
    ax.set(yticks=range(len(part)), yticklabels=part.policy, ylim=(len(part) - 0.5, -0.5))
    ax.set(xlabel=measure)
    ax.set_title(fill(title, 70), fontsize=10)
    return fig


def _near_chance(part: pd.DataFrame) -> bool:
    """Whether chance is drawn in `shares`: not where every interval is of nearly all right."""
    return bool(part.low.min() < 0.9)


def chance_in_words(rows: pd.DataFrame, measure: str) -> str:
    """What chance is in `shares`, for its caption. rows: as there."""
    part = rows[rows.measure == measure]
    drawn = "dotted: " if _near_chance(part) else ""
    return f"{drawn}chance, {part.chance.iloc[0]:.2f}"


def trades(traded: pd.DataFrame, base: str, title: str = "") -> Figure:
    """What every policy gains over `base`, with 95 % intervals.

    Each measure has a panel, each benchmark a mark. traded: as from
    `hs2lib.evaluate.policies.benchmark_gains`. title: the message.
    """
    measures = list(traded.measure.unique())
    policies = list(traded.policy.unique())
    looks = {}
    benchmarks = traded.benchmark.unique()
    for benchmark, marker, shade in zip(benchmarks, "osD^v", style.CYCLE, strict=False):
        looks[benchmark] = Look(shade, marker)
    columns = min(3, len(measures))
    lines = -(-len(measures) // columns)
    size = (3.1 * columns, (0.9 + 0.3 * len(policies)) * lines + 0.9)
    fig, axes = plt.subplots(
        lines, columns, figsize=size, sharey=True, squeeze=False, layout="constrained"
    )
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
    if title:
        fig.suptitle(title, fontsize=10)
    return fig


# SteerLM and SteerLM 2.0


def steering(
    means: pd.DataFrame, slopes: pd.DataFrame, *, as_asked: bool = False, title: str = ""
) -> Figure:
    """What was measured at each level asked for, by the truth and by the reward model.

    What was asked for has a panel each, and above it stands the slope by the reader who counts. All
    panels have one span, so that slopes can be compared.

    Args:
        means: as from `hs2lib.evaluate.steering.means_by_level`, of what is to be drawn.
        slopes: as from `hs2lib.evaluate.steering.slopes`.
        as_asked: whether a level is a level of the scale, and no rank, so that a dashed line shows
            what was asked.
        title: above all panels.
    """
    looks = {"truth": TRUTH, "reward model": SCORE}
    attributes = list(means.attribute.unique())
    levels = sorted(means.level.unique())
    size = (2.6 * len(attributes) + 1.2, 3.2)
    fig, axes = plt.subplots(
        1, len(attributes), figsize=size, squeeze=False, sharey=as_asked, layout="constrained"
    )
    by_attribute = means.groupby("attribute", sort=False)
    middle = (by_attribute["95 % low"].min() + by_attribute["95 % high"].max()) / 2
    span = (by_attribute["95 % high"].max() - by_attribute["95 % low"].min()).max()
    for ax, attribute in zip(axes[0], attributes, strict=True):
        if as_asked:
            ax.plot([0, 4], [0, 4], color="black", lw=0.8, ls="--", label="as asked")
        for reader, part in means[means.attribute == attribute].groupby("read by", sort=False):
            look = looks[reader]
            ax.plot(part.level, part["mean"], color=look.color, ls="-" if look.filled else ":")
            values = part[["mean", "95 % low", "95 % high"]].to_numpy().T
            dots(ax, part.level, *values, look, label=reader, across=False)
        if not as_asked and np.isfinite(span) and span > 0:
            ax.set_ylim(middle[attribute] - 0.6 * span, middle[attribute] + 0.6 * span)
        slope = slopes[slopes.attribute == attribute].iloc[0]
        rounded = round(slope.slope, 2) + 0.0  # -0.004 is 0.00, without a sign
        heading = f"{attribute}\nslope {rounded:.2f}"
        if slope.slope == slope["95 % low"] == slope["95 % high"] == 0:
            heading = f"{attribute}\nslope 0 on every prompt"
        elif np.isfinite(slope["95 % low"]):
            heading += f" [{slope['95 % low']:.2f}, {slope['95 % high']:.2f}]"
        ax.set_title(heading, fontsize=9)
        ax.set(xlabel="level asked for", xticks=levels)
    axes[0, 0].set_ylabel("measured, 0 to 4")
    legend_beside(axes[0, -1], size=7)
    if title:
        fig.suptitle(title, fontsize=10)
    return fig


def cross(slopes: pd.DataFrame, own: dict[str, tuple[str, ...]], *, title: str = "") -> Figure:
    """What each part of a label moves: a heat map of slopes with their intervals.

    Bold slopes have an interval that leaves out 0. A frame marks what a part asks for.

    Args:
        slopes: columns asked for, moves, slope, 95 % low, 95 % high, all of one unit.
        own: the attributes that each row asks for.
        title: above the map.
    """
    asked = list(slopes["asked for"].unique())
    moved = list(slopes.moves.unique())
    cells = slopes.set_index(["asked for", "moves"])
    values = cells.slope.unstack().loc[asked, moved].to_numpy(float)  # [asked, moved]
    size = (1.35 * len(moved) + 2.2, 0.62 * len(asked) + 1.4)
    fig, ax = plt.subplots(figsize=size, layout="constrained")
    largest = np.nanmax(np.abs(values)) if np.isfinite(values).any() else 1.0
    end = 2.4 * largest  # pale colours alone, on which black numbers can be read
    ax.imshow(values, cmap="RdBu", vmin=-end, vmax=end, aspect="auto")
    for row, name in enumerate(asked):
        for column, attribute in enumerate(moved):
            slope, low, high = cells.loc[(name, attribute), ["slope", "95 % low", "95 % high"]]
            weight = "bold" if low > 0 or high < 0 else "normal"
            centred = {"ha": "center", "va": "center", "family": "DejaVu Sans"}
            digits = digits_of(low, high)
            number = f"{slope:+z.{digits}f}"
            interval = f"{low:+z.{digits}f} to {high:+z.{digits}f}"
            if slope == low == high == 0:
                number = "0"
                interval = "on every prompt"
            ax.text(column, row - 0.12, number, weight=weight, **centred)
            if np.isfinite(low):
                ax.text(column, row + 0.24, interval, fontsize=7, **centred)
            if attribute in own[name]:
                corner = (column - 0.47, row - 0.47)
                frame = plt.Rectangle(corner, 0.94, 0.94, fill=False, lw=1.6, edgecolor="black")
                ax.add_patch(frame)
    ax.set_xticks(range(len(moved)), moved)
    ax.set_yticks(range(len(asked)), asked)
    ax.set(xlabel="what moves, points for one level", ylabel="asked for")
    ax.grid(visible=False)
    if title:
        ax.set_title(title, fontsize=10)
    return fig


def toy(descents: pd.DataFrame, errors: pd.DataFrame, title: str = "") -> Figure:
    """The toy of SteerLM 2.0: descent to the optimum, and the variance with and without baseline.

    descents and errors: of notebook 12. title: the message.
    """
    fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
    for name, values in descents.items():
        left.semilogy(np.maximum(values, 1e-12), label=name)
    left.axhline(1e-3, color="black", lw=0.8, ls=":")
    left.set(xlabel="step", ylabel="KL of equation 2, nats")
    left.legend(fontsize=7)
    for name, part in errors.groupby("estimator", sort=False):
        right.loglog(part.n, part.variance, "o-", label=name)
    right.set(xlabel="samples in a group, n", ylabel="variance of a group's gradient")
    right.set_xticks(errors.n.unique(), errors.n.unique())
    right.minorticks_off()
    right.legend(fontsize=7)
    if title:
        fig.suptitle(title, fontsize=10)
    return fig


def iterations(
    watched: pd.DataFrame, effective: Sequence[np.ndarray], n: int, *, title: str = ""
) -> Figure:
    """The distance on the validation prompts by step, and how many samples of a prompt count.

    An iteration has one colour in both panels.

    Args:
        watched: rows (iteration, step, distance).
        effective: for each iteration the effective number of samples of each prompt.
        n: samples a prompt, the most that can count.
        title: above both panels.
    """
    fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
    for number, values in enumerate(effective, 1):
        part = watched[watched.iteration == number]
        (line,) = left.plot(part.step, part.distance, "o-", ms=4, label=f"iteration {number}")
        spread = np.linspace(-0.25, 0.25, len(values))
        right.plot(values, number + spread, ".", ms=4, alpha=0.5, color=line.get_color())
        mean = float(np.mean(values))
        right.plot([mean, mean], [number - 0.32, number + 0.32], color="black")
        right.annotate(f"mean {mean:.1f}", (mean, number + 0.36), ha="center", fontsize=8)
    left.set(xlabel="step", ylabel="distance of equation 12, nats")
    left.locator_params(axis="x", integer=True)
    left.legend()
    right.axvline(n, color="black", lw=0.8, ls="--")
    right.set(
        xlabel=f"effective samples of a prompt, of {n} (dashed)",
        xlim=(0, 1.05 * n),
        ylim=(0.4, len(effective) + 0.6),
    )
    right.set_yticks(
        range(1, len(effective) + 1), [f"iteration {k}" for k in range(1, len(effective) + 1)]
    )
    if title:
        fig.suptitle(title, fontsize=10)
    return fig


def differences(
    rows: pd.DataFrame, panels: dict[str, tuple[str, str]], *, title: str = ""
) -> Figure:
    """Differences between policies with their intervals, by the truth and by the reward model.

    Each quantity has a panel, with an axis of its own.

    Args:
        rows: columns comparison, measure, difference, low, high.
        panels: label of the axis -> (measure of the truth, measure of the reward model).
        title: above all panels.
    """
    compared = list(rows.comparison.unique())
    named = {}  # what the legend names: who measures -> a point of its
    names = [name.replace(" minus ", "\nminus ") for name in compared]
    longest = max(len(line) for name in names for line in name.split("\n"))
    size = (3.6 * len(panels) + 0.08 * longest, 0.9 + 0.45 * len(compared))
    fig, axes = plt.subplots(
        1, len(panels), figsize=size, layout="constrained", squeeze=False, sharey=True
    )
    for ax, (unit, measures) in zip(axes[0], panels.items(), strict=True):
        for side, (label, look) in enumerate((("truth", TRUTH), ("reward model", SCORE))):
            part = rows[rows.measure == measures[side]].set_index("comparison").reindex(compared)
            if part.difference.notna().any():
                apart = 0.24 * side - 0.12 if all(measures) else 0.0
                at = np.arange(len(compared)) + apart
                values = part[["difference", "low", "high"]].to_numpy(float).T
                dots(ax, at, *values, look, label=label)
        ax.axvline(0, color="black", lw=0.8)
        ax.set(xlabel=unit, yticks=range(len(compared)), yticklabels=names)
        ax.tick_params(axis="y", labelsize=8)
        ax.xaxis.set_major_locator(MaxNLocator(5))
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            named[label] = handle
    axes[0, 0].invert_yaxis()
    if len(named) > 1:
        fig.legend(
            list(named.values()),
            list(named),
            fontsize=8,
            ncols=len(named),
            loc="outside lower center",
            frameon=False,
        )
    if title:
        fig.suptitle(title, fontsize=10)
    return fig


def moved(gains: pd.DataFrame, measures: Sequence[str], unit: str, title: str = "") -> Figure:
    """How far each of these true measures moved, one series a policy, the last policy's filled.

    Args:
        gains: rows (measure, policy, difference, low, high), as from
            `hs2lib.evaluate.policies.gains_of`.
        measures: in the order they are drawn in.
        unit: label of the vertical axis.
        title: the message.
    """
    fig, ax = plt.subplots(figsize=(7, 2.8), layout="constrained")
    policies = list(gains.policy.unique())
    for number, policy in enumerate(policies):
        part = gains[gains.policy == policy].set_index("measure").loc[list(measures)]
        look = Look(TRUTH.color, filled=policy == policies[-1])
        at = np.arange(len(measures)) + 0.15 * number
        dots(ax, at, *part.iloc[:, 1:].to_numpy(float).T, look, label=policy, across=False)
    ax.axhline(0, color="black", lw=0.8)
    ax.set(
        xticks=range(len(measures)),
        xticklabels=[name.removeprefix("true ") for name in measures],
        ylabel=unit,
    )
    ax.set_title(title, fontsize=10)
    ax.legend(fontsize=8)
    return fig


SHARE_SMOOTHED = 0.05  # of the logged steps: the share over which the drawn loss is a mean


def training_curves(
    training: pd.DataFrame, validation: pd.DataFrame, *, alone: bool = False
) -> Figure:
    """Loss in training and on validation by step, and what else validation says.

    The loss of a step is a faint dot, because batches differ by more than the loss falls. The line
    is a running mean over `SHARE_SMOOTHED` of the steps. On the right is Pearson's R of each
    attribute, or the share of pairs in order beside chance, whichever validation has.

    Args:
        training: the first table of `hs2lib.train.progress.curves`.
        validation: the second one.
        alone: the validation loss stands on the right, on a scale of its own.
    """
    fig, (left, right) = plt.subplots(1, 2, figsize=(9, 2.8), sharex=True, layout="constrained")
    window = max(1, round(SHARE_SMOOTHED * len(training)))
    smooth = training.loss.rolling(window, center=True, min_periods=1).mean()
    left.plot(training.step, training.loss, ".", color=style.BLUE, ms=3, alpha=0.25)
    name = f"training, mean of {window} steps" if window > 1 else "training, each step"
    left.plot(training.step, smooth, color=style.BLUE, label=name)
    of_validation = {"marker": "o", "ms": 4}
    panels = [left, right] if alone else [left]
    for ax in panels if len(validation) else []:
        loss = validation.loss
        ax.plot(validation.step, loss, color=style.VERMILLION, label="validation", **of_validation)
    left.set(xlabel="step", ylabel="loss")
    left.xaxis.get_major_locator().set_params(integer=True)  # of both panels: they share it
    left.legend(fontsize=8)
    if alone:
        right.set(xlabel="step", ylabel="loss on validation")
        return fig
    pearson = [name for name in validation.columns if name.startswith("Pearson ")]
    for name in pearson or validation.columns.intersection(["accuracy"]):
        label = name.removeprefix("Pearson ")
        right.plot(validation.step, validation[name], label=label, **of_validation)
    right.set(xlabel="step")
    right.set_ylabel("Pearson's R on validation" if pearson else "validation pairs in order")
    if pearson:
        legend_beside(right, size=7)
    elif right.lines:
        right.axhline(0.5, color="black", lw=0.8)  # chance
        right.set_ylim(-0.03, 1.03)  # a hundredth more or less is no trend
    return fig


def by_attribute(
    metrics: pd.DataFrame, chance: float, reference: pd.Series, label: str, title: str = ""
) -> Figure:
    """One metric of several models by attribute, each with its interval.

    Args:
        metrics: columns model, attribute, value, 95 % low, 95 % high, in the order they are drawn
            in, the models those of MODELS.
        chance: the value that chance has, a black line.
        reference: a value an attribute, a dotted line; its name is what it is called. May be empty.
        label: of the vertical axis.
        title: above the panel.
    """
    attributes = metrics.attribute.unique()
    metrics = metrics.dropna(subset="value")  # a constant has no R
    models = metrics.model.unique()
    fig, ax = plt.subplots(figsize=(8, 3.6), layout="constrained")
    for k, name in enumerate(models):
        part = metrics[metrics.model == name].set_index("attribute").reindex(attributes)
        at = np.arange(len(attributes)) + 0.17 * (k - (len(models) - 1) / 2)
        values = part[["value", "95 % low", "95 % high"]].to_numpy(float).T
        dots(ax, at, *values, MODELS[name], label=name, across=False)
    ax.axhline(chance, color="black", lw=0.8, label="chance")
    if len(reference):
        top = reference.reindex(attributes)
        at = np.arange(len(top))
        line = {"color": "black", "ls": ":", "lw": 1.4}
        ax.hlines(top, at - 0.42, at + 0.42, label=reference.name, **line)
    ax.set_xticks(range(len(attributes)), attributes)
    ax.set(ylabel=label, title=title)
    legend_beside(ax)
    return fig


def learning_curves(curve: pd.DataFrame, label: str, title: str = "") -> Figure:
    """What more groups and more raters teach: left by the number of groups, right of ratings.

    Lines are means over draws, and each draw is a faint point. curve: rows (groups, raters, draw,
    R, ratings). label: of the vertical axis. title: above both panels.
    """
    fig, axes = plt.subplots(1, 2, figsize=(8, 2.8), sharey=True, layout="constrained")
    of_raters = list(curve.groupby("raters"))
    colors = style.colors(len(of_raters))
    axis_labels = {"groups": "rated groups", "ratings": "ratings in all"}
    for ax, (x, axis_label) in zip(axes, axis_labels.items(), strict=True):
        for (raters, draws), color in zip(of_raters, colors, strict=True):
            means = draws.groupby(x).R.mean()
            name = f"{raters} rater{'s' if raters > 1 else ''} per response"
            ax.plot(means.index, means, "o-", ms=4, color=color, label=name)
            ax.plot(draws[x], draws.R, ".", ms=4, color=color, alpha=0.3)
        ax.set(xscale="log", xlabel=axis_label)
        ax.minorticks_off()
    for ax, x in zip(axes, axis_labels, strict=True):
        doublings = np.arange(int(np.log2(curve[x].max() / curve[x].min())) + 1)
        numbers = curve[x].min() * 2**doublings
        ax.set_xticks(numbers, numbers, fontsize=8)
    axes[0].set_ylabel(label)
    axes[0].legend(fontsize=7)
    if title:
        fig.suptitle(title, fontsize=11)
    return fig


def shares_right(
    shares: pd.DataFrame,
    baselines: dict[str, pd.Series],
    title: str,
    *,
    chance: float = 50.0,
    label: str = "model",
    notes: Sequence[str] = (),
) -> Figure:
    """Shares of pairs that a reward model orders rightly, with intervals, beside what length would.

    Args:
        shares: rows from top to bottom, columns name, pairs, accuracy, low, high, in percent.
        baselines: at most two, by name, percent in the same order of rows.
        title: above the panel.
        chance: drawn as a black line.
        label: of the reward model.
        notes: what stands behind each row's name, "" for nothing.
    """
    height = 1.2 + 0.24 * len(shares)
    at = np.arange(len(shares))[::-1]
    fig, ax = plt.subplots(figsize=(7, height))
    dots(ax, at, shares.accuracy, shares.low, shares.high, SCORE, label=f"{label}, 95 % interval")
    for (name, values), marker in zip(baselines.items(), "><", strict=False):
        # Larger than the model's point, so that a rule that is as good is seen behind it.
        ax.plot(values, at, marker, mfc="none", ms=9, ls="", color=LENGTH.color, label=name)
    ax.axvline(chance, color="black", lw=0.8, label="chance")
    names = [f"{name} ({pairs:,})" for name, pairs in zip(shares.name, shares.pairs, strict=True)]
    if notes:
        names = [
            f"{name}\n{note}" if note else name for name, note in zip(names, notes, strict=True)
        ]
    ax.set(yticks=at, yticklabels=names, xlim=(-2, 102), ylim=(-0.6, len(shares) - 0.4))
    ax.set(xlabel="pairs in the right order, %", title=title)
    legend_beside(ax)
    return fig


def after_edits(edits: pd.DataFrame, worse: str, title: str) -> Figure:
    """How often a score falls after each edit of an answer, beside the rule of length.

    Args:
        edits: of `hs2lib.audit.auditing.Audit`, its rows from top to bottom.
        worse: the kind of edit that makes an answer worse; those rows come first.
        title: the message.
    """
    at = np.arange(len(edits))[::-1]
    fig, ax = plt.subplots(figsize=(7, 1.2 + 0.34 * len(edits)), layout="constrained")
    columns = edits[["falls (%)", "95 % low", "95 % high"]].to_numpy().T
    dots(ax, at, *columns, SCORE, label="judge, 95 % interval")
    by_length = edits["falls by length (%)"]
    ax.plot(by_length, at, ">", mfc="none", ms=9, ls="", color=LENGTH.color, label="rule of length")
    ax.axvline(50, color="black", lw=0.8, label="reads nothing")
    border = int((edits.kind != worse).sum()) - 0.5
    ax.axhline(border, color="0.4", lw=0.8)
    ax.text(-2, border + 0.06, "made worse", va="bottom", fontsize=7, color="0.3")
    ax.text(-2, border - 0.06, "made no better", va="top", fontsize=7, color="0.3")
    names = [f"{row.edit} ({row.answers:,})" for row in edits.itertuples()]
    ax.set(yticks=at, yticklabels=names, xlim=(-4, 104), ylim=(-0.6, len(edits) - 0.4))
    ax.set(xlabel="score falls, % of edited answers")
    ax.set_title(title, fontsize=10)
    legend_beside(ax)
    return fig


def differences_right(
    bins: pd.DataFrame,
    scale: tuple[float, float, float],
    thresholds: pd.DataFrame,
    title: str,
) -> Figure:
    """How often the higher score is right, by the difference of two scores, with the fitted curve.

    Args:
        bins: of `hs2lib.evaluate.score_meaning.Meaning`: mean difference, pairs, right (%) and its
            interval.
        scale: of the curve sigmoid(d / scale), with its interval; 0 for a step.
        thresholds: rows (level (%), difference), nan where no pair lies so far apart.
        title: the message.
    """
    farthest = max(bins["to"].max(), 1e-9)
    d = np.linspace(0, farthest, 200)
    curves = []
    for number in scale:
        curves.append(100 / (1 + np.exp(-np.minimum(d / max(number, 1e-9), 500))))
    fig, ax = plt.subplots(figsize=(6.5, 3.6), layout="constrained")
    ax.plot(d, curves[0], color=SCORE.color, label="fitted, sigmoid(d / s)")
    if not np.isnan(scale[1]):
        ax.fill_between(d, curves[1], curves[2], color=SCORE.color, alpha=0.2, lw=0)
    plain = 100 / (1 + np.exp(-np.minimum(d, 500)))
    ax.plot(d, plain, "--", color="0.45", label="sigmoid(d), Bradley-Terry")
    columns = bins[["mean difference", "right (%)", "95 % low", "95 % high"]].to_numpy().T
    dots(ax, *columns, TRUTH, label="observed, 95 % interval", across=False)
    before = -np.inf
    height = 3
    for x, pairs in zip(bins["mean difference"], bins.pairs, strict=True):
        near = x - before < 0.06 * farthest  # then the counts would hide each other
        height = 8 if near and height == 3 else 3
        ax.text(x, height, f"{pairs:,}", ha="center", fontsize=7)
        before = x
    label = "thresholds"  # of the first line alone
    for row in thresholds.dropna(subset=["difference"]).to_dict("records"):
        ends = [50, row["level (%)"]]
        ax.plot(2 * [row["difference"]], ends, ":", color="black", lw=0.8, label=label)
        label = None
    ax.axhline(50, color="black", lw=0.8)
    ax.set(xlabel="difference of the two scores (below: pairs in the bin)", ylim=(0, 102))
    ax.set(ylabel="higher score is right, %", xlim=(0, 1.03 * farthest))
    ax.set_title(title, fontsize=10)
    legend_beside(ax)
    return fig


def pair_losses(
    differences: Sequence[float], curves: dict[str, tuple[Sequence[float], str]], title: str
) -> Figure:
    """Losses of a pair by how far the better response scores above the worse one.

    Args:
        differences: of the two scores, the horizontal axis.
        curves: label -> (loss at each difference, style of the line).
        title: the message.
    """
    fig, ax = plt.subplots(figsize=(6.5, 3.2), layout="constrained")
    for number, (label, (values, line_style)) in enumerate(curves.items()):
        ax.plot(differences, values, line_style, color=f"C{number}", lw=1.6, label=label)
    ax.axvline(0, color="black", lw=0.8)
    ax.set(xlabel="score of the better response less that of the worse one", ylabel="loss")
    ax.set_title(title)
    legend_beside(ax)
    return fig


def learners(table: pd.DataFrame, measures: Sequence[str], title: str, label: str) -> Figure:
    """What each of several models reaches on the same pairs, a panel for each measure.

    Args:
        table: rows (name, measure, value, low, high), names from top to bottom.
        measures: the panels.
        title: above all panels.
        label: what the values are held against.
    """
    names = list(dict.fromkeys(table.name))
    size = (3.3 * len(measures) + 2.5, 0.9 + 0.26 * len(names))
    fig, axes = plt.subplots(
        1, len(measures), figsize=size, layout="constrained", squeeze=False, sharey=True
    )
    at = np.arange(len(names))
    for ax, measure in zip(axes[0], measures, strict=True):
        part = table[table.measure == measure].set_index("name").reindex(names)
        dots(ax, at, part.value, part.low, part.high, TRUTH)
        ax.set(xlabel=f"{measure}, {label}", yticks=at, yticklabels=names)
        ax.grid(axis="x", lw=0.4)
    axes[0, 0].invert_yaxis()
    fig.suptitle(title, fontsize=10)
    return fig


def faults(table: pd.DataFrame, title: str, harmless: str = "") -> Figure:
    """How often a faultless answer scores higher than one with a fault, one row a fault.

    Args:
        table: from top to bottom, as `hs2lib.evaluate.by_fault.Judged` has it. Its columns begin
            with fault, pairs, percent, 95 % low and high.
        title: above the panel.
        harmless: the row that is no fault: it stands last, in grey, below a line.
    """
    table = table.sort_values("fault", key=lambda names: names == harmless, kind="stable")
    n_harmless = int((table.fault == harmless).sum())
    names = [f"{name} ({pairs:,})" for name, pairs in zip(table.fault, table.pairs, strict=True)]
    at = np.arange(len(table))[::-1]
    fig, ax = plt.subplots(figsize=(6.5, 1.3 + 0.26 * len(table)), layout="constrained")
    for rows, look in ((table.fault != harmless, SCORE), (table.fault == harmless, Look("0.5"))):
        dots(ax, at[rows], *table[rows].iloc[:, 2:5].to_numpy(float).T, look)
    if n_harmless:
        ax.axhline(n_harmless - 0.5, color="0.7", lw=0.8)
    ax.axvline(50, color="black", lw=0.8)
    ax.text(49, len(table) - 0.3, "← likes the fault", ha="right", fontsize=8)
    ax.text(51, len(table) - 0.3, "reads the fault →", ha="left", fontsize=8)
    ax.set(yticks=at, yticklabels=names, xlim=(-2, 102), ylim=(-0.6, len(table) + 0.3))
    ax.set(xlabel="pairs in which the faultless answer scores higher, %", title=title)
    return fig


# Whose answers they are -> how they are drawn: texts that people wrote, then what the base writes.
WRITERS = (
    Look("0.45", "v", filled=False),
    Look(style.GREEN, "D", filled=False),
    Look(style.PURPLE, "^", filled=False),
    Look(style.BLUE),
    Look(style.SKY_BLUE),
)


def shares_of_faults(table: pd.DataFrame, title: str) -> Figure:
    """What share of each writer's answers has each fault, the commonest fault at the top.

    Args:
        table: rows (fault, policy, mean, 95 % low, 95 % high) of at most five policies, percent.
        title: above the panel.
    """
    order = table.groupby("measure")["mean"].mean().sort_values(ascending=False).index
    writers = list(table.policy.unique())
    fig, ax = plt.subplots(figsize=(7, 1 + 0.42 * len(order)), layout="constrained")
    for place, (writer, look) in enumerate(zip(writers, WRITERS, strict=False)):
        values = table[table.policy == writer].set_index("measure").loc[order]
        at = np.arange(len(order)) + 0.16 * (place - (len(writers) - 1) / 2)
        dots(ax, at, *values.iloc[:, 1:4].to_numpy(float).T, look, label=writer)
    ax.set(yticks=range(len(order)), yticklabels=list(order), xlabel="answers with the fault, %")
    ax.set_xlim(left=-2)
    ax.set_title(title)
    ax.invert_yaxis()
    legend_beside(ax)
    return fig


def rated_and_true(table: pd.DataFrame, title: str) -> Figure:
    """What raters and the truth make of jargon, by the sentences of it in an answer.

    Args:
        table: rows (sentences, answers, side, points, 95 % low, 95 % high); `side` is "rated",
            "true" or another, which is not drawn.
        title: above the panel.
    """
    names = list(table.iloc[:, 0].unique())
    sides = table.iloc[:, 2]
    fig, ax = plt.subplots(figsize=(5.6, 3.2), layout="constrained")
    ax.axhline(0, color="black", lw=0.8)
    for shift, (side, look) in zip((-0.05, 0.05), (("rated", SCORE), ("true", TRUTH)), strict=True):
        values = table[sides == side].set_index(table.columns[0]).loc[names]
        at = np.arange(len(names)) + shift
        dots(ax, at, *values.iloc[:, 2:5].to_numpy(float).T, look, label=side, across=False)
    ax.set(xticks=range(len(names)), xticklabels=names, xlabel="sentences of jargon", title=title)
    ax.set_xlim(-0.4, len(names) - 0.6)
    ax.set_ylabel("helpfulness (0 to 4) less\nthe truth without jargon, points")
    legend_beside(ax)
    return fig


def readable(table: pd.DataFrame, title: str, harmless: str = "") -> Figure:
    """How often a faultless answer is preferred to one with a fault, by two ways to ask a model.

    Args:
        table: rows (fault, pairs, by, percent right, 95 % low, 95 % high); `by` has two values.
        title: above the panel.
        harmless: how the name of the row begins that is no fault: it stands last, below a line.
    """
    ways = list(table.by.unique())
    by_second = table[table.by == ways[1]].sort_values("right (%)", ascending=False)
    of_no_fault = by_second.fault.str.startswith(harmless) & bool(harmless)
    order = pd.concat([by_second.fault[~of_no_fault], by_second.fault[of_no_fault]])
    fig, ax = plt.subplots(figsize=(6.5, 1.2 + 0.3 * len(order)), layout="constrained")
    for place, (way, look) in enumerate(zip(ways, (TRUTH, SCORE), strict=True)):
        values = table[table.by == way].set_index("fault").loc[order]
        at = np.arange(len(order)) - 0.12 + 0.24 * place
        dots(ax, at, *values.iloc[:, 2:5].to_numpy(float).T, look, label=way)
    ax.axvline(50, color="black", lw=0.8)
    if of_no_fault.any():
        ax.axhline((~of_no_fault).sum() - 0.5, color="0.4", lw=0.8)
    ax.set(yticks=range(len(order)), yticklabels=list(order), xlim=(-2, 102), title=title)
    ax.set_xlabel("pairs in which the faultless answer is preferred, %")
    ax.invert_yaxis()
    legend_beside(ax)
    return fig


def weightings(
    right: np.ndarray,
    held_out_right: np.ndarray,
    marked: pd.DataFrame,
    cross_fitted: float,
    measure: str,
    title: str,
) -> Figure:
    """Every weighting of a grid: right of the benchmark against right of held-out pairs.

    Args:
        right: percent of the benchmark's pairs, [weightings].
        held_out_right: percent of the held-out pairs, [weightings].
        marked: rows (benchmark, held-out) to mark, by name, at most four.
        cross_fitted: what the search on the benchmark comes to on pairs that it has not seen, a
            dotted line.
        measure: of the benchmark.
        title: above the panel.
    """
    fig, ax = plt.subplots(figsize=(5.4, 3.6))
    shades = sns.light_palette("black", as_cmap=True)  # a single weighting is not white
    drawn = ax.hexbin(held_out_right, right, gridsize=18, bins="log", cmap=shades, mincnt=1)
    fig.colorbar(drawn, label="weightings", pad=0.02)
    looks = (
        Look(style.BLUE),
        Look(style.PURPLE, "D"),
        Look(style.GREEN, "s"),
        Look(style.VERMILLION, "^"),
    )
    for (name, (on_benchmark, on_held_out)), look in zip(marked.iterrows(), looks, strict=False):
        mark = {"color": look.color, "ms": 8, "mec": "white", "ls": ""}
        ax.plot(on_held_out, on_benchmark, look.marker, label=name, **mark)
    ax.axhline(cross_fitted, color=style.VERMILLION, lw=1, ls=":", label="the latter, cross-fitted")
    ax.set(xlabel="held-out pairs right, %", ylabel=f"benchmark, {measure}, %", title=title)
    ax.legend(fontsize=7, loc="upper left", bbox_to_anchor=(0, -0.2), ncols=2)
    return fig


# The paper as a whole


def judges(models: pd.DataFrame, titles: dict[str, str], elo: str) -> Figure:
    """Chatbot Arena's Elo against the scores of judges: a panel a judge, a named point a model.

    Args:
        models: by name; a column for each judge, and the Elo.
        titles: judge -> title of its panel.
        elo: the column of the Elo.
    """
    fig, axes = plt.subplots(1, len(titles), figsize=(10, 4), sharey=True, layout="constrained")
    for ax, (judge, title) in zip(axes, titles.items(), strict=True):
        sns.regplot(models, x=judge, y=elo, ax=ax, color="0.5", scatter=False, seed=0)
        ax.plot(models[judge], models[elo], "o", ms=4, color=TRUTH.color)
        ax.set(xlabel=f"MT-Bench, {judge}", ylabel="Chatbot Arena Elo", title=title)
        label_points(ax, models[judge], models[elo])
    axes[-1].set_ylabel("")
    return fig


def label_points(ax: Axes, x: pd.Series, y: pd.Series) -> None:
    """The name of each point: left of those well above the line through them, else right.

    There the panel is empty where y rises with x. Names of one side are moved apart, up and down
    alike, and outwards past any point that they would cover. A thin line leads from a name to its
    point.
    """
    left, right = ax.get_xlim()
    bottom, top = ax.get_ylim()
    gap = 0.05 * (top - bottom)
    aside = 0.045 * (right - left)
    room = 0.28 * (right - left)  # for the longest name
    slope, start = np.polyfit(x, y, 1)
    above = y > start + slope * x + gap / 2
    for outward, on_side, align in ((-1, above, "right"), (1, ~above, "left")):
        heights = y[on_side].sort_values()
        if heights.empty:
            continue
        apart = gap * np.arange(len(heights))
        moved_apart = isotonic_regression(heights - apart).x + apart
        for name, height in zip(heights.index, moved_apart, strict=True):
            distance = outward * (x - x[name])
            is_covered = distance.between(0, room) & ((y - height).abs() < 0.75 * gap)
            past = distance.where(is_covered, 0.0).max()
            ax.annotate(
                name,
                (x[name], y[name]),
                (x[name] + outward * (past + aside), height),
                fontsize=7,
                va="center",
                ha=align,
                arrowprops={"arrowstyle": "-", "lw": 0.5, "color": "0.6", "shrinkB": 2},
            )
    ax.set_xlim(left - room, right + room)


def stacked(
    counts: dict[str, tuple[str, Sequence[int]]], rows: Sequence[str], label: str
) -> Figure:
    """Bars of counts, one a row, in segments with their numbers.

    Args:
        counts: segment -> its colour and its count in each row; the legend has that of the first.
        rows: their names.
        label: of what is counted.
    """
    fig, ax = plt.subplots(figsize=(7, 1.1 + 0.4 * len(rows)))
    left = np.zeros(len(rows))
    for name, (shade, numbers) in counts.items():
        if not sum(numbers):
            continue
        name_and_count = f"{name} ({numbers[0]})"
        bars = ax.barh(rows, numbers, left=left, color=shade, label=name_and_count, height=0.6)
        ax.bar_label(bars, [str(n) if n else "" for n in numbers], label_type="center", fontsize=8)
        left += numbers
    ax.set(xlabel=label, ylim=(len(rows) - 0.4, -0.6), xlim=(0, left.max()))
    ax.grid(False)
    first = f"in brackets: tier {rows[0]}" if len(rows) > 1 else None
    ax.legend(
        fontsize=8,
        ncols=2,
        loc="lower left",
        bbox_to_anchor=(0, 1),
        title=first,
        frameon=False,
    )
    return fig
