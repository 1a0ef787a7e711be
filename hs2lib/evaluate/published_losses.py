"""What `benchmarks/losses.py` published: learners of ratings and preferences, over seeds.

Notebooks 05, 06, 14 and 15 show it beside their own run, which is one seed.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from hs2lib import paths
from hs2lib.evaluate.learners import (
    COMPARED,
    LONGER,
    RIGHT,
    answer_in_words,
    in_words,
    over_seeds,
    title_of,
    wide,
)
from hs2lib.report import published

PUBLISHED = "reports/benchmarks/losses.json"

# The comparisons that the paper's section 3 speaks of, and those of its sequel.
OF_PAPER = (("plain", "helpfulness"), ("helpfulness", "five"))

# Claim of section 3 -> (first, second) of learners, and these in words. What is published is first
# minus second, which is below 0 where the claim holds.
CLAIMS = {
    "Ratings teach more than preferences": (
        *OF_PAPER[0],
        "Regression on rated helpfulness, compared with Bradley-Terry on preferences",
    ),
    "Five attributes teach more than one": (
        *OF_PAPER[1],
        "Regression on five attributes, compared with regression on helpfulness alone",
    ),
}
OF_SEQUEL = (("scaled", "helpfulness"), ("scaled-begun", "helpfulness-again"))


def file() -> Path:
    """The file that `benchmarks/losses.py` writes, there or not."""
    return paths.root() / PUBLISHED


def record() -> dict:
    """What `benchmarks/losses.py` wrote; {} where it is not there."""
    return published.written(file())


def source() -> str:
    """Where the means over seeds come from, for a caption; "" where nothing is published."""
    of_all = record()
    prompts = f", {of_all.get('prompts')} held-out prompts each"
    return published.source_of(PUBLISHED, of_all, prompts)


def source_of_real() -> str:
    """Where the numbers on real pairs come from, for a caption; "" where nothing is published."""
    of_real = record().get("real", {})
    if not of_real:
        return ""
    return (
        f"{PUBLISHED}, commit {record()['commit'][:7]}: {of_real['pairs']} pairs of HelpSteer2's "
        f"validation split, {of_real['ties']} ties left out; {of_real['base']}"
    )


def means() -> pd.DataFrame:
    """The published means over seeds by learner, with Student's t intervals.

    Columns: judgements, learner, measure, value, low, high, seeds. Empty where nothing is
    published.
    """
    columns = ["judgements", "learner", "measure", "value", "low", "high", "seeds"]
    return pd.DataFrame(record().get("means", []), columns=columns)


def gains() -> pd.DataFrame:
    """The published paired differences over seeds, with Student's t intervals.

    Columns: judgements, first, second, asks, measure, difference, low, high, seeds.
    """
    names = ["judgements", "first", "second", "asks", "measure", "difference", "low", "high"]
    frame = pd.DataFrame(record().get("differences", []), columns=[*names, "seeds"])
    return frame.astype({"difference": float, "low": float, "high": float})


def sentences(
    asked: Sequence[tuple[str, str]] = OF_PAPER + OF_SEQUEL, measure: str = RIGHT
) -> list[str]:
    """A sentence for each comparison asked for that is published, at the most judgements.

    asked: (first, second) of learners. measure: one of those that are measured.
    """
    table = gains()
    table = table[(table.judgements == table.judgements.max()) & (table.measure == measure)]
    out = []
    for first, second in asked:
        sentence = in_words(table.assign(measure=RIGHT), first, second)
        if sentence:
            seeds = table[(table["first"] == first) & (table["second"] == second)].seeds.iloc[0]
            out.append(f"{sentence} Seeds: {seeds}.")
    return out


def shown_in_words() -> list[str]:
    """How many comparisons are shown over seeds, and a sentence for each of these; [] without."""
    table = gains_shown()
    if not len(table):
        return []
    beyond = table[(table.low > 0) | (table.high < 0)]
    first = (
        f"Of {len(table)} differences {len(beyond)} have an interval over seeds without 0; "
        f"about {0.05 * len(table):.0f} would by chance."
    )
    return [first, *sentences(list(zip(beyond["first"], beyond["second"], strict=True)))]


def answer() -> str:
    """Whether ratings or preferences are better over seeds, in a sentence; "" without any."""
    seeds = ", ".join(str(seed) for seed in record().get("seeds", []))
    return answer_in_words(gains_shown(), f"generated data, seeds {seeds}")


def gains_shown() -> pd.DataFrame:
    """The differences in pairs right at the most judgements. Columns: as `gains`."""
    table = gains()
    table = table[(table.judgements == table.judgements.max()) & (table.measure == RIGHT)]
    asked = {(first, second) for first, second, _ in COMPARED}
    pairs = list(zip(table["first"], table["second"], strict=True))
    return table.loc[[pair in asked for pair in pairs]].reset_index(drop=True)


def fewer_lose(learner: str = "five") -> tuple[float, ...]:
    """Points of pairs that a learner has with the fewest judgements, minus those with the most.

    Returns: the mean over seeds, its interval's ends, the number of seeds, fewest, most; () where
    they are not published.
    """
    rows = pd.DataFrame(record().get("rows", []))
    if not len(rows):
        return ()
    rows = rows[(rows.learner == learner) & (rows.measure == RIGHT)]
    by_number = rows.pivot(index="seed", columns="judgements", values="value").dropna()
    if by_number.shape[1] < 2 or len(by_number) < 2:
        return ()
    fewest = by_number.columns.min()
    most = by_number.columns.max()
    lost = over_seeds(by_number[fewest] - by_number[most])
    return (*lost, len(by_number), fewest, most)


def fewer_in_words(learner: str = "five") -> str:
    """`fewer_lose` in a sentence; "" without."""
    fewer = fewer_lose(learner)
    if not fewer:
        return ""
    mean, low, high, n_seeds, fewest, most = fewer
    name = title_of(learner)
    return (
        f"{name[0].upper()}{name[1:]}, with {fewest:,} judgements, compared with {most:,} of the "
        f"same quality: {_points(mean, low, high)}. Seeds: {n_seeds}."
    )


def _points(difference: float, low: float, high: float) -> str:
    """A difference in pairs in order with its interval, and whether one is shown."""
    text = f"{difference:+.1f} points of pairs in order"
    if np.isnan(low):
        return f"{text}, without an interval"
    word = "not shown to differ"
    if low > 0:
        word = "more pairs in order"
    elif high < 0:
        word = "fewer pairs in order"
    return f"{text} ({low:+.1f} to {high:+.1f}), {word}"


def claims_in_words() -> list[str]:
    """What the paper's section 3 claims, and what the small world shows of each over seeds.

    A difference is above 0 where the claim holds, and the claim is shown where its whole interval
    is. That few good data are enough is not tested: all judgements are of one quality. Empty where
    nothing is published.
    """
    table = gains_shown()
    lines = []
    for claim, (first, second, compared) in CLAIMS.items():
        rows = table[(table["first"] == first) & (table["second"] == second)]
        if len(rows):
            row = rows.iloc[0]
            verdict = "not shown"
            if row.high < 0:
                verdict = "shown"
            elif row.low > 0:
                verdict = "the contrary is shown"
            points = _points(-row.difference, -row.high, -row.low)
            lines.append(
                f"*{claim}*: {verdict} in the small world. {compared}: {points}. "
                f"Seeds: {row.seeds}."
            )
    fewer = fewer_in_words()
    if fewer:
        lines.append(
            f"*Few good data are enough*: not tested, as many worse data are not made here. {fewer}"
        )
    if lines:
        lines.append(
            f"Contrasts shown here: {len(lines)}, of more in notebook 15. No interval is corrected "
            "for their number."
        )
        lines.append(
            "A judgement is what raters say of the two responses to one prompt, as ratings or as "
            "a preference. Neither sign nor size of these differences carries over to the paper."
        )
    return lines


def means_shown() -> pd.DataFrame:
    """The published means as `wide` shows a run's, at the most judgements. Empty without any."""
    table = means()
    if not len(table):
        return pd.DataFrame()
    table = table[table.judgements == table.judgements.max()]
    return wide(table.astype({"value": float, "low": float, "high": float}))


def real_shown() -> pd.DataFrame:
    """The published accuracies on real pairs: (learner, accuracy, less the longer answer).

    A cell is "value [low, high]". Empty where nothing is published.
    """
    of_real = record().get("real", {})
    less_longer = {}
    for row in of_real.get("differences", []):
        if row["second"] == LONGER:
            numbers = (row["difference"], row["low"], row["high"])
            less_longer[row["first"]] = "{:+.1f} [{:+.1f}, {:+.1f}]".format(*numbers)
    rows = []
    for row in of_real.get("rows", []):
        text = f"{row['value']:.1f} [{row['low']:.1f}, {row['high']:.1f}]"
        rows.append((title_of(row["learner"]), text, less_longer.get(row["learner"], "")))
    return pd.DataFrame(rows, columns=["learner", "pairs right, %", "less the longer answer"])


def real_in_words() -> str:
    """How the best learner and the longer answer fare on the real pairs; "" without any.

    The best one is chosen on these pairs, which favours it, and the words say so.
    """
    of_real = record().get("real", {})
    if not of_real:
        return ""
    shares = {row["learner"]: row for row in of_real["rows"]}
    learners = [name for name in shares if name != LONGER]
    best = max(learners, key=lambda name: shares[name]["value"])
    below = [
        row["first"]
        for row in of_real["differences"]
        if row["second"] == LONGER and row["high"] < 0
    ]
    return (
        f"Of {of_real['pairs']} real pairs the longer answer is the better one in "
        f"{_share(shares[LONGER])}. Of {len(learners)} learners the one that is best on these "
        f"pairs, *{title_of(best)}*, has {_share(shares[best])}. Shown to be below the longer "
        f"answer: {len(below)} of {len(learners)}."
    )


def _share(row: dict) -> str:
    """A share of pairs with its interval."""
    return f"{row['value']:.1f} % ({row['low']:.1f} to {row['high']:.1f})"
