"""How notebook 17 shows an audit: its table, one answer after each edit, sentences."""

import json

import pandas as pd

from hs2lib import paths
from hs2lib.audit.auditing import NO_BETTER, WORSE, Audit
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
    seeds = ", ".join(map(str, record["seeds"]))
    judges = len({row["judge"] for row in record["judges"]})
    return f"Published, {judges} judges, seeds {seeds}, generated data: {record['figure']}."


def verdict(audited: Audit) -> list[str]:
    """Five lines: what, by edit, what it is not, what a policy could learn, what changes it."""
    words = audited.in_words()
    if len(words) < 3:  # too few prompts, or no answer that a rule makes worse
        return [f"**What.** {words[1]}"]
    liked = audited.edits[
        (audited.edits.kind == NO_BETTER) & (audited.edits["95 % high"] < 50)
    ].edit.tolist()
    learns = ", ".join(liked) or "none of these edits is shown to raise the score"
    return [
        f"**What.** {words[2]}",
        f"**By edit.** {words[3]}",
        f"**What it is not.** {words[1]}",
        f"**What a policy could learn from it.** {learns}.",
        "**What would change it.** Ratings of this policy's own answers; the form of "
        "[04](04_data_collection.ipynb) collects them.",
    ]
