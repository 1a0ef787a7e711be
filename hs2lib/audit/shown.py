"""How notebook 17 shows an audit: its table, its figure, one answer after each edit, sentences."""

import json

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from hs2lib import paths
from hs2lib.audit.auditing import FEWEST, NO_BETTER, WORSE, Audit
from hs2lib.report.answers import Answer
from hs2lib.report.figures import LENGTH, SCORE, dots, legend_beside
from hs2lib.report.report import interval

RESULT = "reports/benchmarks/audit.json"
SHOWN = ("as is", "a sentence left out", "a number changed", "a sentence said twice")


def table(audited: Audit) -> pd.DataFrame:
    """Each edit with its share and interval in one cell, beside the rule of length."""
    rows = audited.edits
    cells = rows[["edit", "kind", "answers"]].copy()
    bounds = zip(rows["falls (%)"], rows["95 % low"], rows["95 % high"], strict=True)
    cells["score falls (%)"] = [interval(*bound, digits=0) for bound in bounds]
    cells["by length (%)"] = rows["falls by length (%)"].round(0)
    cells["drop (SDs)"] = rows["drop (SDs)"].round(2)
    return cells


def figure(audited: Audit) -> Figure:
    """How often the score falls after each edit, with intervals, beside the rule of length."""
    rows = audited.edits
    at = np.arange(len(rows))[::-1]
    fig, ax = plt.subplots(figsize=(7, 1.2 + 0.34 * len(rows)), layout="constrained")
    columns = rows[["falls (%)", "95 % low", "95 % high"]].to_numpy().T
    dots(ax, at, *columns, SCORE, label="judge, 95 % interval")
    by_length = rows["falls by length (%)"]
    ax.plot(by_length, at, ">", mfc="none", ms=9, ls="", color=LENGTH.color, label="by length")
    ax.axvline(50, color="black", lw=0.8, label="reads nothing")
    n_worse = int((rows.kind == WORSE).sum())
    ax.axhline(len(rows) - n_worse - 0.5, color="0.7", lw=0.8)
    names = [f"{row.edit} ({row.answers:,})" for row in rows.itertuples()]
    ax.set(yticks=at, yticklabels=names, xlim=(-2, 102), ylim=(-0.6, len(rows) - 0.4))
    ax.set(xlabel="score falls, % of answers (above the grey line: worse; below: no better)")
    number = audited.number
    title = f"Worsened answers in which the score falls: {number.estimate:.0f} %"
    ax.set_title(f"{title} ({number.low:.0f} to {number.high:.0f})", fontsize=10)
    legend_beside(ax)
    return fig


def as_answers(audited: Audit, prompt: int) -> list[Answer]:
    """The first answer to a prompt as it is and after four edits, each with its score."""
    start = sum(len(group.responses) for group in audited.edited[:prompt])
    group = audited.edited[prompt]
    answers = []
    for place, response in enumerate(group.responses, start):
        edit = response.id.removeprefix(f"{group.id}/")
        if edit in SHOWN:
            score = float(audited.edited_scores[place])
            answers.append(Answer(edit, response.text, score=score))
    return answers


def truth_in_words(audited: Audit, worse: pd.Series) -> str:
    """The worsening edit that the judge reads least well, measured by how often it is truly worse.

    worse: of `auditing.truly_worse`.
    """
    rows = audited.edits[audited.edits.kind == WORSE].set_index("edit")
    missed = (worse[rows.index] - rows["falls (%)"]).rename("missed")
    edit = missed.idxmax()
    return (
        f"Furthest behind the truth: {edit}. It makes {worse[edit]:.0f} % of the answers worse, "
        f"and the score falls in {rows.loc[edit, 'falls (%)']:.0f} %."
    )


def foretells() -> str:
    """What `benchmarks/audit.py` published of audits and of what judges gain, or none yet."""
    file = paths.root() / RESULT
    if not file.is_file():
        return "Nothing is published yet (`make bench NAME=audit`)."
    record = json.loads(file.read_text())
    seeds = len(record["seeds"])
    judges = len({row["judge"] for row in record["judges"]})
    return f"Published, {judges} judges, {seeds} seeds, generated data: {record['figure']}."


def verdict(audited: Audit) -> list[str]:
    """Four lines: what, how large, what a policy could learn, what comes next."""
    words = audited.in_words()
    if len(audited.answered) < FEWEST:
        return [f"**What.** {words[1]}"]
    liked = audited.edits[
        (audited.edits.kind == NO_BETTER) & (audited.edits["95 % high"] < 50)
    ].edit.tolist()
    learns = ", ".join(liked) or "none of these edits is shown to raise the score"
    return [
        f"**What.** {words[1]}",
        f"**By edit.** {words[2]}",
        f"**What a policy could learn from it.** {learns}.",
        "**What would change it.** Ratings of this policy's own answers; the form of "
        "[04](04_data_collection.ipynb) collects them.",
    ]
