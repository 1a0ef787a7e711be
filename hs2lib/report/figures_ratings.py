"""Figures of notebooks 01 to 04: ratings, lengths, correlations, agreement, draws.

Frames and arrays in, a figure out; nothing here computes a result.
"""

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hs2lib.report import style
from hs2lib.report.figures import LENGTH, TRUTH, label_ends, legend_beside
from hs2lib.stats.bootstrap import Interval

OURS = TRUTH.color
PAPER = LENGTH.color
EARLIER = style.VERMILLION  # HelpSteer, the paper's earlier data set
MUTED = "0.6"
MARKS = ("o", "D", "s", "^", "v", "P", "X", "*")  # of lines that may lie on one another


def rating_shares(shares: pd.DataFrame, title: str) -> Figure:
    """How often each rating occurs, a panel an attribute.

    shares: [attributes, levels], in %.
    """
    fig, axes = plt.subplots(
        1, len(shares), figsize=(2 * len(shares), 2.5), sharey=True, layout="constrained"
    )
    for ax, (name, share) in zip(np.atleast_1d(axes), shares.iterrows(), strict=True):
        ax.bar(range(len(share)), share, color=OURS)
        for level, value in enumerate(share):
            ax.annotate(f"{value:.0f}", (level, value), ha="center", va="bottom", fontsize=7)
        ax.set(xlabel="rating", xticks=range(len(share)), xticklabels=share.index)
        ax.set_title(name, fontsize=9)
        ax.grid(axis="x", visible=False)
        ax.margins(y=0.1)
    np.atleast_1d(axes)[0].set_ylabel("responses, %")
    fig.suptitle(title, fontsize=10)
    return fig


def lengths(
    tables: Mapping[str, pd.DataFrame],
    columns: Mapping[str, str],
    means: Mapping[str, float],
    title: str = "",
) -> Figure:
    """The share of texts that are at most so long, with the median; the paper's mean is dashed.

    Args:
        tables: by name of the data.
        columns: column of a table -> what it is.
        means: column -> the paper's mean, where it has one.
        title: the message.
    """
    fig, axes = plt.subplots(
        1, len(columns), figsize=(4.5 * len(columns), 2.8), sharey=True, layout="constrained"
    )
    for ax, (column, name) in zip(axes, columns.items(), strict=True):
        for color, (data, table) in zip(style.CYCLE, tables.items(), strict=False):
            values = table[column].clip(lower=1)
            sns.ecdfplot(values, ax=ax, log_scale=True, color=color)
            median = values.median()
            ax.plot(median, 0.5, "o", color=color)
            name_in_lines = data.replace(" (", "\n(")  # clear of the dashed line
            label = f"{name_in_lines}:\nhalf are at most {median:,.0f}"
            ax.annotate(
                label,
                (median, 0.5),
                xytext=(8, -4),
                textcoords="offset points",
                va="top",
                fontsize=8,
                color=color,
            )
        if column in means:
            ax.axvline(means[column], color=PAPER, ls="--", lw=1)
            ax.annotate(
                f"the paper's\nmean {means[column]:,.0f}",
                (means[column], 0.02),
                xytext=(-4, 0),
                textcoords="offset points",
                ha="right",
                fontsize=8,
                color=PAPER,
            )
        ax.xaxis.set_major_formatter("{x:,.0f}")
        ax.set(xlabel=f"{name} (log axis)", ylabel="share at most this long", ylim=(0, 1.02))
    fig.suptitle(title, fontsize=10)
    return fig


# Correlations


def correlation_map(names: Sequence[str], pearson: Interval, spearman: np.ndarray) -> Figure:
    """Pearson's R of each pair with its interval; Spearman's beside it where it is .1 away.

    Args:
        names: of the k columns.
        pearson: arrays [k, k].
        spearman: [k, k].
    """
    k = len(names)
    short = [name.replace(" in ", "\nin ") for name in names]
    r, low, high = pearson.at(slice(1, None), slice(-1))  # each [k - 1, k - 1]
    ranks = spearman[1:, :-1]
    hidden = np.triu(np.ones((k - 1, k - 1), dtype=bool), 1) | np.isnan(r)
    text = np.full(r.shape, "", dtype=object)
    for at in zip(*np.nonzero(~hidden), strict=True):
        text[at] = f"{r[at]:z.2f}\n{low[at]:z.2f}, {high[at]:z.2f}"
        if abs(ranks[at] - r[at]) > 0.1:
            text[at] += f"\nranks {ranks[at]:z.2f}"
    fig, ax = plt.subplots(figsize=(8.5, 5.6), layout="constrained")
    sns.heatmap(
        r,
        annot=text,
        fmt="",
        mask=hidden,
        annot_kws={"size": 7.5},
        ax=ax,
        vmin=-1,
        vmax=1,
        cmap="RdBu_r",
        xticklabels=short[:-1],
        yticklabels=short[1:],
        cbar_kws={"label": "Pearson's R"},
    )
    for value, label in zip(r[~hidden], ax.texts, strict=True):
        label.set_color("white" if abs(value) > 0.6 else "black")
    ax.grid(False)
    ax.tick_params(axis="x", rotation=45)
    ax.tick_params(axis="y", rotation=0)
    return fig


def with_helpfulness(
    cells: pd.DataFrame, printed: Mapping[str, Mapping[str, float]], ours: str, title: str
) -> Figure:
    """R with helpfulness by row, ours with intervals beside the paper's.

    Args:
        cells: by row, columns ours, low, high.
        printed: "HelpSteer2" and "HelpSteer" -> row -> the paper's R.
        ours: what our rows are.
        title: the message.
    """
    order = list(cells.index)[::-1]
    cells = cells.loc[order]
    at = np.arange(len(order))
    fig, ax = plt.subplots(figsize=(7.4, 3.8), layout="constrained")
    error = [cells.ours - cells.low, cells.high - cells.ours]
    ax.errorbar(cells.ours, at - 0.25, xerr=error, fmt="o", ms=4, color=OURS, label=ours)
    marks = {"HelpSteer2": ("D", PAPER, 0.0), "HelpSteer": ("x", EARLIER, 0.25)}
    for name, (mark, color, above) in marks.items():
        values = np.array([printed[name].get(row, np.nan) for row in order], dtype=float)
        label = f"the paper, {name}"
        ax.plot(values, at + above, mark, color=color, mfc="none", ls="", label=label)
    ax.set(
        yticks=at,
        yticklabels=order,
        xlabel="Pearson's R with helpfulness",
        ylim=(-0.6, len(order) - 0.4),
    )
    ax.axvline(0, color="black", lw=0.8)
    ax.grid(axis="y", visible=False)
    for edge in at[1:] - 0.5:
        ax.axhline(edge, color="0.9", lw=0.8)
    ax.legend(loc="lower right", fontsize=8)
    ax.set_title(title, fontsize=10)
    return fig


def by_length(panels: Mapping[str, pd.DataFrame], title: str) -> Figure:
    """Mean helpfulness in bins of each length, with intervals and the number of responses.

    panels: length -> columns at, mean, low, high, n; one row a bin.
    """
    fig, axes = plt.subplots(
        1, len(panels), figsize=(3.7 * len(panels), 3), sharey=True, layout="constrained"
    )
    for ax, (name, bins) in zip(axes, panels.items(), strict=True):
        bins = bins[bins.n > 0]
        error = [bins["mean"] - bins.low, bins.high - bins["mean"]]
        ax.errorbar(bins["at"], bins["mean"], yerr=error, fmt="o-", color=OURS, capsize=3)
        for x, top, n in zip(bins["at"], bins.high, bins.n, strict=True):
            ax.annotate(
                f"{n:,}",
                (x, top),
                xytext=(0, 4),
                textcoords="offset points",
                ha="center",
                fontsize=7,
            )
        scale = "linear" if name.startswith("turns") else "log"
        ax.set(xlabel=f"{name} (median of bin; {scale} axis)", xscale=scale)
        ax.set_xticks(bins["at"], [f"{x:,.0f}" for x in bins["at"]], minor=False)
        ax.minorticks_off()
        ax.margins(x=0.1, y=0.15)
    axes[0].set_ylabel("mean helpfulness, 0 to 4")
    fig.suptitle(title, fontsize=10)
    return fig


# Agreement


def kappa_by_set(
    rows: pd.DataFrame, printed: Mapping[tuple[str, str], float], note: str, title: str
) -> Figure:
    """Kappa by attribute, a colour a set of ratings; hollow marks are the paper's.

    Args:
        rows: columns set, attribute, kappa, low, high.
        printed: (attribute, set) -> the paper's kappa.
        note: what stands after the name of a set, as ", generated".
        title: the message.
    """
    order = list(rows["set"].unique())
    places = list(rows.attribute.unique())
    fig, ax = plt.subplots(figsize=(1.5 * len(places) + 1.5, 3.4), layout="constrained")
    aside = 0.8 / max(len(order), 3)
    for k, (name, color) in enumerate(zip(order, style.CYCLE, strict=False)):
        part = rows[rows["set"] == name]
        at = part.attribute.map(places.index) + aside * (k - (len(order) - 1) / 2)
        error = [part.kappa - part.low, part.high - part.kappa]
        ax.errorbar(
            at, part.kappa, yerr=error, fmt="o", color=color, ms=4, capsize=3, label=name + note
        )
        values = [printed.get((attribute, name), np.nan) for attribute in part.attribute]
        ax.plot(at, values, "D", ms=8, color=color, mfc="none", ls="")
    if printed:
        ax.plot([], [], "D", ms=8, color=MUTED, mfc="none", ls="", label="the paper (hollow)")
    _agreement_axis(ax, rows.low.min())
    ax.set(xticks=range(len(places)), xticklabels=places, ylabel="quadratic weighted kappa")
    ax.legend(fontsize=7, loc="upper left", bbox_to_anchor=(1, 1))
    ax.set_title(title, fontsize=10)
    return fig


def by_rule(rows: pd.DataFrame, printed: Mapping[str, float], title: str) -> Figure:
    """Kappa after each rule of collection, a line a kind of ratings; the paper's are diamonds.

    Args:
        rows: columns ratings (the kind), stage, kappa, low, high.
        printed: stage -> the paper's kappa.
        title: the message.
    """
    stages = list(rows.stage.unique())
    at = np.arange(len(stages))
    fig, ax = plt.subplots(figsize=(7.4, 3.4), layout="constrained")
    ends = {}
    for color, (kind, part) in zip(
        (OURS, EARLIER), rows.groupby("ratings", sort=False), strict=True
    ):
        part = part.set_index("stage").loc[stages]
        error = [part.kappa - part.low, part.high - part.kappa]
        ax.errorbar(at, part.kappa, yerr=error, fmt="o-", color=color, ms=5, capsize=3)
        for x, value, high in zip(at, part.kappa, part.high, strict=True):
            ax.annotate(
                f"{value:z.2f}",
                (x, high),
                xytext=(0, 3),
                textcoords="offset points",
                ha="center",
                fontsize=8,
                color=color,
            )
        ends[kind] = (at[-1], part.kappa.iloc[-1], color)
    for stage, value in printed.items():
        if stage in stages:
            x = stages.index(stage) - 0.12
            ax.plot(x, value, "D", ms=7, color=PAPER, mfc="none")
            ax.annotate(
                f"paper {value:.2f}",
                (x, value),
                xytext=(-7, 4),
                textcoords="offset points",
                ha="right",
                fontsize=8,
                color=PAPER,
            )
    words = [
        stage.replace(", and", ",\nand").replace("closest three ", "closest\nthree ")
        for stage in stages
    ]
    ax.set(xticks=at, xticklabels=words, ylabel="quadratic weighted kappa", xlim=(-0.4, len(at)))
    _agreement_axis(ax, rows.low.min())
    label_ends(ax, ends)
    ax.set_title(title, fontsize=10)
    return fig


def reliability(curves: Mapping[str, pd.DataFrame], title: str) -> Figure:
    """Reliability of the mean of n ratings, a line an attribute with its band.

    Lines may lie on one another, so each has a mark of its own, and the first is drawn last.

    curves: attribute -> columns n, value, low, high.
    """
    fig, ax = plt.subplots(figsize=(6.6, 3.4), layout="constrained")
    looks = zip(style.CYCLE, MARKS, curves.items(), strict=False)
    for order, (color, mark, (name, curve)) in enumerate(looks):
        front = len(curves) - order + 2
        ax.plot(
            curve.n,
            curve.value,
            f"{mark}-",
            color=color,
            ms=5,
            mfc="none",
            label=name,
            zorder=front,
        )
        ax.fill_between(curve.n, curve.low, curve.high, color=color, alpha=0.2, lw=0)
    ax.set(xlabel="annotators averaged, n", ylabel="reliability of their mean", ylim=(0, 1))
    legend_beside(ax)
    ax.set_title(title, fontsize=10)
    return fig


def coefficients(rows: pd.DataFrame, title: str) -> Figure:
    """Several coefficients of agreement by attribute, a panel a data set.

    rows: columns data, coefficient, attribute, value, low, high.
    """
    sets = list(rows.data.unique())
    names = list(rows.coefficient.unique())
    width = [rows[rows.data == name].attribute.nunique() for name in sets]
    fig, axes = plt.subplots(
        1,
        len(sets),
        figsize=(1.5 * sum(width) + 1, 3.2),
        width_ratios=width,
        sharey=True,
        squeeze=False,
        layout="constrained",
    )
    for ax, data in zip(axes[0], sets, strict=True):
        for k, (name, color) in enumerate(zip(names, style.colors(len(names)), strict=True)):
            part = rows[(rows.data == data) & (rows.coefficient == name)]
            at = np.arange(len(part)) + 0.15 * (k - (len(names) - 1) / 2)
            error = [part.value - part.low, part.high - part.value]
            ax.errorbar(
                at,
                part.value,
                yerr=error,
                fmt="o",
                ms=4,
                capsize=2,
                color=color,
                label=name,
            )
        ax.set(xticks=range(len(part)), xticklabels=part.attribute, xlim=(-0.5, len(part) - 0.5))
        if len(sets) > 1:
            ax.set_title(data, fontsize=9)
        _agreement_axis(ax, rows.low.min())
    axes[0, 0].set_ylabel("agreement")
    axes[0, -1].legend(fontsize=7, loc="upper left", bbox_to_anchor=(1, 1))
    fig.suptitle(title, fontsize=10)
    return fig


def _agreement_axis(ax: Axes, lowest: float) -> None:
    """An axis from 0, or from below it where agreement is, to 1."""
    ax.set_ylim(min(0, lowest) - 0.02, 1)
    ax.axhline(0, color="black", lw=0.6)


# Draws


def drawn(
    strata: pd.DataFrame, xlabel: str, ylabel: str, title: str, names: Sequence | None = None
) -> Figure:
    """What there is and what was drawn, by stratum.

    Args:
        strata: columns available and taken, one row a stratum.
        xlabel, ylabel: of the axes, with units.
        title: the message.
        names: of the strata; None numbers them.
    """
    fig, ax = plt.subplots(figsize=(7, 2.6), layout="constrained")
    at = np.arange(len(strata))
    ax.bar(at, strata.available, color="0.78", label="before the draw")
    ax.bar(at, strata.taken, color=OURS, width=0.45, label="drawn")
    legend_beside(ax)
    if names is not None:
        ax.set_xticks(at, names)
    ax.margins(y=0.15)
    ax.set(xlabel=xlabel, ylabel=ylabel)
    ax.grid(axis="x", visible=False)
    ax.set_title(title, fontsize=10)
    return fig


def error_by_cost(rules: pd.DataFrame, title: str) -> Figure:
    """The labels' error against what they cost, a labelled point with its interval a rule.

    rules: by rule, columns asked (annotators a response), error, low and high (points). Rules at
        one place share a label.
    """
    fig, ax = plt.subplots(figsize=(6.6, 4.6), layout="constrained")
    interval = [rules.error - rules.low, rules.high - rules.error]
    ax.errorbar(rules.asked, rules.error, yerr=interval, fmt="o", color=OURS, elinewidth=1)
    places = rules.round({"asked": 1, "error": 2}).groupby(["asked", "error"], sort=False)
    for _, there in places:
        first = rules.loc[there.index[0]]
        label = ",\n".join(map(str, there.index))
        ax.annotate(
            label,
            (first.asked, first.error),
            xytext=(6, 0),
            textcoords="offset points",
            fontsize=8,
            va="center",
        )
    ax.set(
        xlabel="annotators a response",
        ylabel="error of the labels, points",
        xlim=(rules.asked.min() - 0.1, rules.asked.max() + 1.3),
    )
    ax.set_title(title, fontsize=10)
    return fig
