"""How notebook 17 shows an audit: its table, one answer after each edit, sentences."""

import json

import pandas as pd

from hs2lib import paths
from hs2lib.audit.auditing import LIMIT, WORSE, Audit
from hs2lib.report.answers import Answer
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


def title(audited: Audit) -> str:
    """A figure's title: the audit's number."""
    number = audited.number
    words = f"Worsened answers in which the score falls: {number.estimate:.0f} %"
    return f"{words} ({number.low:.0f} to {number.high:.0f})"


def table_in_words(audited: Audit) -> str:
    """After which edits the score falls most often and least often, by kind; a sentence each."""
    lines = []
    for kind, rows in audited.edits.groupby("kind", sort=False):
        falls = rows.set_index("edit")["falls (%)"]
        lines.append(
            f"Of what {kind}, the score falls most often after: {falls.idxmax()} "
            f"({falls.max():.0f} %), least often after: {falls.idxmin()} ({falls.min():.0f} %)."
        )
    return " ".join(lines)


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
    """How often the edits truly make an answer worse, and which of them the judge reads least.

    worse: of `auditing.truly_worse`.
    """
    rows = audited.edits[audited.edits.kind == WORSE].set_index("edit")
    missed = (worse[rows.index] - rows["falls (%)"]).rename("missed")
    edit = missed.idxmax()
    return (
        f"A judge that knew the truth would have {worse[rows.index].mean():.0f} %, not 100 %. "
        f"Furthest behind the truth: {edit}. It makes {worse[edit]:.0f} % of the answers worse, "
        f"and the score falls in {rows.loc[edit, 'falls (%)']:.0f} %."
    )


def leaning_in_words(audited: Audit) -> str:
    """How much of the score's variance within a prompt goes with length and with likelihood."""
    parts = []
    for row in audited.leaning.dropna().to_dict("records"):
        parts.append(f"{row['with']} accounts for {100 * row['R'] ** 2:.0f} %")
    accounted = ", ".join(parts) or "nothing is known"
    return f"Of the score's variance among answers to one prompt: {accounted}."


def foretells() -> str:
    """What `benchmarks/audit.py` published of audits and of what judges gain, or none yet."""
    file = paths.root() / RESULT
    if not file.is_file():
        return "Nothing is published yet (`make bench NAME=audit`)."
    record = json.loads(file.read_text())
    seeds = ", ".join(map(str, record["seeds"]))
    judges = len({row["judge"] for row in record["judges"]})
    audited, *others = record["correlations"]
    words = [
        f"Published, {judges} judges, seeds {seeds}, generated data. Spearman's R of the audit's "
        f"number and what a judge gains: {_with_bounds(audited)}."
    ]
    for row in others:
        side = "worse" if row["less, high"] < 0 else "better" if row["less, low"] > 0 else ""
        verdict = f"the audit is {side}" if side else "not told apart from the audit"
        words.append(f"Of {row['predictor']}: {_with_bounds(row)}, {verdict}.")
    return " ".join(words)


def _with_bounds(row: dict) -> str:
    """A rank correlation with its interval."""
    return f"{row['Spearman']:.2f} ({row['low']:.2f} to {row['high']:.2f})"


def verdict(audited: Audit) -> list[str]:
    """Five lines: what, by edit, what it is not, what a policy could learn, what changes it."""
    if audited.worsened.empty:  # too few prompts, or no answer that a rule makes worse
        return [f"**What.** {audited.in_words()[-1]}"]
    learns = ", ".join(audited.liked) or "none of these edits is shown to raise the score"
    learns = f"{learns[0].upper()}{learns[1:]}"
    changes = (
        "Ratings of this policy's own answers (`pairs`); the form of "
        "[04](04_data_collection.ipynb) collects them."
    )
    lines = [
        f"**What.** {audited.number_in_short()}",
        f"**By edit.** {audited.edits_in_words()}",
        f"**What it is not.** {LIMIT}",
        f"**What a policy could learn from it.** {learns}.",
    ]
    if audited.agreement is not None:
        return [f"**What people say.** {audited.agreement.in_words()}", *lines]
    return [*lines, f"**What would change it.** {changes}"]
