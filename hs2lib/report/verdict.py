"""Verdicts on numbers of ours beside the paper's: the same, different, or not to be said.

    frame["verdict"] = judge(frame, TABLES["table-3"])  # row, column, paper, ours, not comparable
    mistaken("table-4")  # how often another row's numbers would pass

Both sides answer the same questions, so the choice of questions adds nothing to their difference.
What moves in a second honest run is `Rule.spread` (seed, sampled answers, judge), on either side.
With d = ours - paper and s = spread x sqrt(2), the 95 % interval of the difference is d +- 1.96 s.

    exact, consistent   the interval lies inside the margin
                        (exact: a statistic of released rows, to the printed digit)
    different           d lies outside the margin, and d / s is too large for chance,
                        after Holm's correction over the table
    inconclusive        neither

Paper: silent (it prints its numbers without such intervals). Rules: `hs2lib/paper/columns.csv`.
"""

import numpy as np
import pandas as pd
from scipy import stats

from hs2lib.paper import TABLES, Table
from hs2lib.paths import read_yaml

EXACT = "exact"
CONSISTENT = "consistent"
DIFFERENT = "different"
INCONCLUSIVE = "inconclusive"
JUDGED = (EXACT, CONSISTENT, DIFFERENT, INCONCLUSIVE)

# Why a number has no verdict.
NOT_RUN = "not run at this tier"
NONE_PRINTED = "paper prints none"
NOT_COMPARABLE = "not comparable"

LEVEL = 0.05  # of the interval, and of all that a table calls different by chance

# What the tables of the paper need beside numbers: notebooks, marks, reasons.
WORDS = read_yaml(__file__, "tables.yaml")

# Rows whose numbers are replaced by a stand-in's, to see how often a verdict would pass it.
# Table -> (stand-in, rows).
STAND_INS = WORDS["stand-ins"]


def differences(frame: pd.DataFrame, table: Table) -> pd.DataFrame:
    """What `judge` needs of each number: columns kind, difference, half, margin, p.

    half is half the width of the difference's 95 % interval. p is that of no difference; of a
    number without spread it is 1 within its margin, else 0.

    Paper: silent.

    Args:
        frame: columns row, column, paper, ours. A column `spread` has the measured spread of our
            runs. Where it is NaN or missing, ours is the assumed one, as on the paper's side.
        table: the table that the rows and columns are of.
    """
    rules = [table.rules[cell] for cell in zip(frame.row, frame.column, strict=True)]
    kind = np.array([rule.kind for rule in rules])  # [n]
    margin = np.array([rule.margin for rule in rules])  # [n]
    papers_spread = np.array([rule.spread for rule in rules])  # [n]
    measured = frame.get("spread", pd.Series(np.nan, frame.index)).astype(float)
    our_spread = measured.fillna(pd.Series(papers_spread, frame.index))
    s = np.hypot(papers_spread, our_spread)  # [n]
    d = frame.ours.astype(float) - frame.paper.astype(float)
    inside = d.abs() <= margin + 1e-12
    by_chance = 2 * stats.norm.sf(d.abs() / np.where(s > 0, s, 1))
    p = np.where(s > 0, by_chance, inside.astype(float))
    half = stats.norm.isf(LEVEL / 2) * s
    return pd.DataFrame(
        {"kind": kind, "difference": d, "half": half, "margin": margin, "p": p}, frame.index
    )


def judge(frame: pd.DataFrame, table: Table) -> pd.Series:
    """The verdict on each number of a table, or why there is none.

    Paper: silent.

    Args:
        frame: as for `differences`, with a column `not comparable`: a reason such as "other data",
            or "".
        table: the table that the rows and columns are of.
    """
    reason = frame["not comparable"].fillna("").astype(str)
    judged = differences(frame, table)
    compared = frame.ours.notna() & frame.paper.notna() & (reason == "")
    distance = judged.difference.abs()
    inside = distance + judged.half <= judged.margin + 1e-12
    # The difference is within the margin, though its interval may reach beyond.
    allowed = distance <= judged.margin + 1e-12
    corrected = holm(judged.p[compared & ~inside], compared.sum())
    chance = corrected.reindex(frame.index, fill_value=1.0) >= LEVEL
    # The first condition that holds decides.
    conditions = [
        frame.ours.isna(),
        reason != "",
        frame.paper.isna(),
        inside & (judged.kind == "exact"),
        inside,
        allowed | chance,
    ]
    verdicts = [
        NOT_RUN,
        NOT_COMPARABLE + ": " + reason,
        NONE_PRINTED,
        EXACT,
        CONSISTENT,
        INCONCLUSIVE,
    ]
    return pd.Series(np.select(conditions, verdicts, DIFFERENT), frame.index, dtype=object)


def of_seeds(sd: float, n: int) -> float:
    """The `spread` of a mean over n seeds with standard deviation `sd`; NaN for one seed.

    It is widened, so that 1.96 of it reach as far as t's interval. By hand: of 5 seeds with SD 1
    the mean has .447. t's interval is 1.42 times as wide as the normal's, so the spread is .633.

    Paper: silent.
    """
    return sd / np.sqrt(n) * stats.t.isf(LEVEL / 2, n - 1) / stats.norm.isf(LEVEL / 2)


def holm(p: pd.Series, n: int) -> pd.Series:
    """P-values corrected by Holm's rule for n tests; those not in `p` were not rejected.

    Paper: silent. By hand: .01, .02, .04 of three tests become .03, .04, .04.
    """
    ordered = p.sort_values()
    return (ordered * (n - np.arange(len(p)))).cummax().clip(upper=1)[p.index]


def false_matches(table: str) -> pd.DataFrame:
    """What a stand-in's numbers would be called in place of other rows': counts by column, verdict.

    A verdict that passes the policy before alignment for the aligned ones says little.

    Paper: Tables 3 and 4.
    """
    known = TABLES[table]
    stand_in, rows = STAND_INS[table]
    printed = pd.Series(known.values, dtype=float)
    frames = []
    for row in rows:
        frame = pd.DataFrame(
            {"paper": printed[row], "ours": printed[stand_in], "not comparable": ""}
        ).dropna()
        frame = frame.rename_axis("column").reset_index().assign(row=row)
        frames.append(frame.assign(verdict=judge(frame, known)))
    judged = pd.concat(frames)
    tally = pd.crosstab(judged.column, judged.verdict)
    return tally.reindex(index=known.columns, columns=JUDGED, fill_value=0)
