"""The learners of notebook 15 by name: how each learns, and how what they reach is told.

    title_of("plain-begun")             # "regression, then Bradley-Terry"
    in_words(gains, "plain", "five")    # one difference with its interval, in a sentence

Nothing is trained here, so notebooks that only show what is published do not hang on the code that
trains. Paper: silent; HelpSteer2-Preference (arXiv 2410.01257) compares such learners.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

HELPFULNESS = "helpfulness"

# What is measured of a learner on held-out pairs.
RIGHT = "pairs right, %"
WITHIN = "R within prompts"
GOOD = "pairs right by goodness, %"

# A rule that reads nothing, beside the learners.
LONGER = "longer answer"


class Learner(NamedTuple):
    """One way to learn from judgements.

    Attributes:
        title: in tables.
        objective: what is minimised, "" where nothing is trained.
        outputs: of a regression; () for the recipe's attributes.
        start: the learner whose weights it begins with, or whose scores it weighs.
        strong: of an extrapolation, the learner that it goes through from `start`.
    """

    title: str
    objective: str = ""
    outputs: tuple[str, ...] = ()
    start: str = ""
    strong: str = ""


# By the names of `names.LEARNERS`.
LEARNERS = {
    "five": Learner("regression, five attributes", "regression"),
    "five-weighted": Learner("five attributes, weighted to goodness", start="five"),
    "helpfulness": Learner("regression, helpfulness", "regression", (HELPFULNESS,)),
    "plain": Learner("Bradley-Terry", "bradley-terry"),
    "margin": Learner("Bradley-Terry, margin", "bradley-terry-margin"),
    "scaled": Learner("Bradley-Terry, scaled", "bradley-terry-scaled"),
    "helpfulness-again": Learner(
        "regression, helpfulness, trained on", "regression", (HELPFULNESS,), "helpfulness"
    ),
    "plain-begun": Learner("regression, then Bradley-Terry", "bradley-terry", (), "helpfulness"),
    "margin-begun": Learner("regression, then margin", "bradley-terry-margin", (), "helpfulness"),
    "scaled-begun": Learner("regression, then scaled", "bradley-terry-scaled", (), "helpfulness"),
    "plain-expo": Learner(
        "regression, then Bradley-Terry, ExPO", "", (), "helpfulness", "plain-begun"
    ),
    "margin-expo": Learner("regression, then margin, ExPO", "", (), "helpfulness", "margin-begun"),
    "scaled-expo": Learner("regression, then scaled, ExPO", "", (), "helpfulness", "scaled-begun"),
}

# Which learners are held against each other, the first less the second, and what that asks.
COMPARED = (
    ("helpfulness", "five", "one attribute in place of five"),
    ("plain", "helpfulness", "preferences in place of ratings"),
    ("margin", "helpfulness", "preferences in place of ratings"),
    ("scaled", "helpfulness", "preferences in place of ratings"),
    ("margin", "plain", "the strength as a margin"),
    ("scaled", "plain", "the strength as a weight"),
    ("plain-begun", "plain", "begun from a regression"),
    ("margin-begun", "margin", "begun from a regression"),
    ("scaled-begun", "scaled", "begun from a regression"),
    ("plain-begun", "helpfulness", "preferences after ratings"),
    ("margin-begun", "helpfulness", "preferences after ratings"),
    ("scaled-begun", "helpfulness", "preferences after ratings"),
    ("plain-begun", "helpfulness-again", "preferences, not only more training"),
    ("margin-begun", "helpfulness-again", "preferences, not only more training"),
    ("scaled-begun", "helpfulness-again", "preferences, not only more training"),
    ("plain-expo", "plain-begun", "extrapolated"),
    ("margin-expo", "margin-begun", "extrapolated"),
    ("scaled-expo", "scaled-begun", "extrapolated"),
)


def wide(table: pd.DataFrame) -> pd.DataFrame:
    """The measures as a table to look at: learners down by their titles, "value [low, high]"."""
    texts = []
    for row in table.itertuples():
        digits = 2 if row.measure == WITHIN else 1
        text = f"{row.value:.{digits}f}"
        if not np.isnan(row.low):
            text += f" [{row.low:.{digits}f}, {row.high:.{digits}f}]"
        texts.append(text)
    frame = table.assign(text=texts, title=table.learner.map(title_of))
    order = list(dict.fromkeys(frame.title))
    shown = frame.pivot(index="title", columns="measure", values="text")
    measures = [measure for measure in (RIGHT, WITHIN, GOOD) if measure in shown]
    return shown.loc[order, measures].rename_axis(index="learner", columns=None)


def title_of(name: str) -> str:
    """What a learner is called in tables; a rule keeps its name."""
    return LEARNERS[name].title if name in LEARNERS else name


def in_words(gains: pd.DataFrame, first: str, second: str, unit: str = "points") -> str:
    """One comparison of pairs right in a sentence; "" where it was not made."""
    rows = gains[(gains["first"] == first) & (gains["second"] == second) & (gains.measure == RIGHT)]
    if not len(rows):
        return ""
    row = rows.iloc[0]
    text = f"*{title_of(first)}* minus *{title_of(second)}*: {row.difference:+.1f} {unit}"
    if np.isnan(row.low):
        return f"{text}, of one seed."
    word = "not shown to differ"
    if row.low > 0:
        word = "more"
    elif row.high < 0:
        word = "fewer"
    return f"{text} of pairs in order ({row.low:+.1f} to {row.high:+.1f}), {word}."


def answer_in_words(gains: pd.DataFrame, of: str) -> str:
    """Whether preferences or ratings order more pairs rightly, in a sentence.

    Preferences learn by the scaled loss, which knows how much better, or by the plain one where
    that was not trained. Ratings learn by the regression on helpfulness. "" without either.

    Args:
        gains: with columns first, second, measure, difference, low, high.
        of: data and seeds, as "generated data, seed 0".
    """
    compared = gains[(gains.measure == RIGHT) & (gains["second"] == HELPFULNESS)]
    by_loss = compared.set_index("first")
    for loss in ("scaled", "plain"):
        if loss not in by_loss.index:
            continue
        row = by_loss.loc[loss]
        between = "no interval"
        if not np.isnan(row.low):
            between = f"{row.low:+.1f} to {row.high:+.1f}"
        says = "which is better is not shown"
        if row.low > 0:
            says = "preferences order more pairs rightly"
        elif row.high < 0:
            says = "ratings order more pairs rightly"
        return (
            f"Ratings or preferences: {says}. *{title_of(loss)}* minus *{title_of(HELPFULNESS)}*: "
            f"{row.difference:+.1f} points of pairs in order ({between}; {of})."
        )
    return ""


def over_seeds(values: Sequence[float]) -> tuple[float, float, float]:
    """The mean of numbers, one a seed, with Student's t interval; nan for that of one seed."""
    values = np.asarray(values, dtype=np.float64)  # [seeds]
    mean = float(values.mean())
    if len(values) < 2:
        return mean, float("nan"), float("nan")
    error = values.std(ddof=1) / len(values) ** 0.5
    half = float(stats.t.ppf(0.975, len(values) - 1) * error)
    return mean, mean - half, mean + half
