"""The figure and the table of notebook 16: a reward model beside rules that read nothing."""

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from hs2lib.report.figures import LENGTH, SCORE, dots, legend_beside
from hs2lib.report.report import CompletedRun, interval

# How the rules are drawn: a marker that says which way they lean.
MARKERS = {"longest answer": ">", "shortest answer": "<", "random answer": "o"}

ROW = 0.3  # height of a number, inches


def shown(wide: pd.DataFrame) -> pd.DataFrame:
    """Every number and its interval in one cell, without the rows that are empty.

    wide: of `hs2lib.evaluate.reward_benchmarks.table`.
    """
    rows = wide[wide["model (%)"].notna()]
    cells = rows[["benchmark", "part", "level", "questions"]].copy()
    for who in ("model", *MARKERS):
        columns = (f"{who} (%)", f"{who} low", f"{who} high")
        bounds = zip(*(rows[column] for column in columns), strict=True)
        cells[f"{who} (%)"] = [interval(*bound, digits=1) for bound in bounds]
    cells["beside the rules"] = rows.verdict
    return cells.reset_index(drop=True)


def overall_in_words(run: CompletedRun | None) -> list[str]:
    """What a run of notebook 16 says of each whole benchmark, a sentence each; [] without one."""
    table = run.table("beside-rules.csv") if run else None
    if table is None:
        return []
    overall = table[(table.part == "overall") & table.level.fillna("").eq("")]
    form = " (its form, generated)" if run.generated else ""
    lines = []
    for row in overall.to_dict("records"):
        rules = ", ".join(f"the {rule} {row[f'{rule} (%)']}" for rule in MARKERS)
        lines.append(
            f"{row['benchmark']}{form}, overall, points out of 100: the model {row['model (%)']}, "
            f"{rules}. "
            f"Beside the rules of length: {row['beside the rules']}."
        )
    return lines


def figure(drawn: pd.DataFrame, title: str) -> Figure:
    """A panel for each benchmark: the model and the rules with their intervals, part by part.

    Args:
        drawn: columns benchmark, part, questions, chance, by ("model" or a rule), value, low, high,
            in percent; in the order of rows from top to bottom.
        title: above the panels.
    """
    names = list(dict.fromkeys(drawn.benchmark))
    sizes = [drawn[drawn.benchmark == name].part.nunique() for name in names]
    fig, axes = plt.subplots(
        len(names),
        1,
        figsize=(7, 1.2 + ROW * sum(sizes) + 0.5 * len(names)),
        height_ratios=sizes,
        squeeze=False,
        layout="constrained",
    )
    for ax, name in zip(axes[:, 0], names, strict=True):
        rows = drawn[drawn.benchmark == name]
        model = rows[rows.by == "model"].reset_index(drop=True)
        at = np.arange(len(model))[::-1]
        dots(ax, at, model.value, model.low, model.high, SCORE, label="model, 95 % interval")
        for place, (rule, marker) in enumerate(MARKERS.items(), 1):
            of_rule = rows[rows.by == rule]
            height = at - 0.18 * place + 0.09  # below the model's point, one under the other
            ax.errorbar(
                of_rule.value,
                height,
                xerr=np.abs([of_rule.value - of_rule.low, of_rule.high - of_rule.value]),
                fmt=marker,
                mfc="none",
                ms=4,
                lw=0.7,
                color=LENGTH.color,
                label=rule,
            )
        for place, chance in zip(at, model.chance, strict=True):
            ax.plot([chance, chance], [place - 0.5, place + 0.5], color="black", lw=0.8)
        labels = [f"{row.part} ({row.questions:,})" for row in model.itertuples()]
        ax.set(yticks=at, yticklabels=labels, xlim=(-2, 102), ylim=(-0.75, len(model) - 0.4))
        ax.set_title(name, fontsize=9, loc="left")
    axes[-1, 0].set_xlabel("right, %; overall and Ties: points out of 100; black: equal chances")
    legend_beside(axes[0, 0])
    fig.suptitle(title, fontsize=11)
    return fig
