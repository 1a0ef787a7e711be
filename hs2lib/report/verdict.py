"""Verdicts on numbers of ours beside the paper's: what is the same, what is not, and what cannot be
said.

    frame["verdict"] = judge(frame, TABLES["table-3"])     # columns row, column, paper, ours, not comparable
    mistaken("table-4")                                    # how often another row's numbers would pass

Both sides answer the same questions, so the choice of questions adds nothing to their difference:
what a second honest run moves is `Rule.spread` (seed, sampled answers, judge), on either side. With
d = ours - paper and s = spread x sqrt(2), the 95 % interval of the difference is d +- 1.96 s, and

    exact, consistent   the interval lies inside the margin (exact: a statistic of released rows, to the printed digit)
    different           d lies outside the margin, and d / s is too large for chance, after Holm's correction over the
                        table
    inconclusive        neither

Paper: silent (it prints its numbers without such intervals). Rules: `hs2lib/paper/columns.csv`.
"""

import numpy as np
import pandas as pd
from scipy import stats

from hs2lib.paper import TABLES, Table
from hs2lib.paths import read_yaml

EXACT, CONSISTENT, DIFFERENT, INCONCLUSIVE = JUDGED = (
    "exact",
    "consistent",
    "different",
    "inconclusive",
)

NOT_RUN, NONE_PRINTED, NOT_COMPARABLE = (
    "not run at this tier",
    "paper prints none",
    "not comparable",
)

LEVEL = 0.05  # of the interval, and of all that a table calls different by chance

# What the tables of the paper need beside numbers: notebooks, marks, reasons.
WORDS = read_yaml(__file__, "tables.yaml")

# Rows that another row is put in place of, to see how often a verdict would pass it. Table ->
# (stand-in, rows).
STAND_INS = WORDS["stand-ins"]


def differences(frame: pd.DataFrame, table: Table) -> pd.DataFrame:
    """What is judged of each number: difference, half the width of its interval, margin, p of no
    difference.

    Paper: silent. frame: columns row, column, paper, ours; `spread` where the spread of our runs
    was measured (NaN: the assumed one, as on the paper's side). A number without spread has p 1
    within its margin, else 0.
    """
    rules = [table.rules[cell] for cell in zip(frame.row, frame.column, strict=True)]
    kind, margin, assumed = (np.array([rule[k] for rule in rules]) for k in range(3))
    measured = frame.get("spread", pd.Series(np.nan, frame.index)).astype(float)
    s = np.hypot(assumed, measured.fillna(pd.Series(assumed, frame.index)))  # [n]
    d = frame.ours.astype(float) - frame.paper.astype(float)
    inside = d.abs() <= margin + 1e-12
    p = np.where(s > 0, 2 * stats.norm.sf(d.abs() / np.where(s > 0, s, 1)), inside.astype(float))
    half = stats.norm.isf(LEVEL / 2) * s
    return pd.DataFrame(
        {"kind": kind, "difference": d, "half": half, "margin": margin, "p": p}, frame.index
    )


def judge(frame: pd.DataFrame, table: Table) -> pd.Series:
    """The verdict on each number of a table, or why there is none.

    Paper: silent. frame: as for `differences`, and `not comparable`, a reason such as "other data",
    or "".
    """
    reason = frame["not comparable"].fillna("").astype(str)
    of = differences(frame, table)
    compared = frame.ours.notna() & frame.paper.notna() & (reason == "")
    inside = of.difference.abs() + of.half <= of.margin + 1e-12
    allowed = (
        of.difference.abs() <= of.margin + 1e-12
    )  # by the margin, though its interval may reach beyond
    chance = (
        holm(of.p[compared & ~inside], compared.sum()).reindex(frame.index, fill_value=1.0) >= LEVEL
    )
    unproven = allowed | chance
    cases = [
        frame.ours.isna(),
        reason != "",
        frame.paper.isna(),
        inside & (of.kind == "exact"),
        inside,
        unproven,
    ]
    called = [
        NOT_RUN,
        NOT_COMPARABLE + ": " + reason,
        NONE_PRINTED,
        EXACT,
        CONSISTENT,
        INCONCLUSIVE,
    ]
    return pd.Series(np.select(cases, called, DIFFERENT), frame.index, dtype=object)


def of_seeds(sd: float, n: int) -> float:
    """The `spread` of a mean over n seeds with a standard deviation `sd`; NaN of one seed, which
    says nothing of it.

    Paper: silent. Widened, so that 1.96 of it reach as far as t's interval. By hand: of 5 seeds
    with SD 1 the mean has .447, t's interval is 1.42 times as wide as the normal's, and the spread
    is .633.
    """
    return sd / np.sqrt(n) * stats.t.isf(LEVEL / 2, n - 1) / stats.norm.isf(LEVEL / 2)


def holm(p: pd.Series, n: int) -> pd.Series:
    """P-values corrected by Holm's rule for n tests, of which those not in `p` were not rejected.

    Paper: silent. By hand: .01, .02, .04 of three tests become .03, .04, .04.
    """
    ordered = p.sort_values()
    return (ordered * (n - np.arange(len(p)))).cummax().clip(upper=1)[p.index]


def mistaken(table: str) -> pd.DataFrame:
    """What a stand-in's printed numbers would be called in place of other rows': a count by column
    and verdict.

    Paper: Tables 3 and 4. A verdict that passes the policy before alignment for the aligned ones
    says little.
    """
    known, (stand_in, rows), parts = TABLES[table], STAND_INS[table], []
    printed = pd.Series(known.values, dtype=float)
    for row in rows:
        frame = pd.DataFrame(
            {"paper": printed[row], "ours": printed[stand_in], "not comparable": ""}
        ).dropna()
        frame = frame.rename_axis("column").reset_index().assign(row=row)
        parts.append(frame.assign(verdict=judge(frame, known)))
    whole = pd.concat(parts)
    return pd.crosstab(whole.column, whole.verdict).reindex(
        index=known.columns, columns=JUDGED, fill_value=0
    )
