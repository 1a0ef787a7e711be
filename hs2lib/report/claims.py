"""The ledger of claims: every quantitative statement of the paper's text, and its verdict at each tier.

    table = ledger(["demo", "laptop"])      # one row a claim and tier, from reports alone
    html = page(table)                      # the same as a page to filter, without a script

The claims are data: `claims.yaml` has them all, each with what can test it. This module has the kinds of test.

Paper: the whole text. Verdicts are computed, never typed. A number of a run counts only if the run read nothing but
rows that the paper describes (`of_paper` in its manifest) or, for the size of a public benchmark, nothing generated.
What comes from generated data is never evidence: the verdict then is "needs hardware or data", and the note says that
the code ran. Where text and tables of the paper disagree, that is the verdict at every tier.
"""

import math
import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import field
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import yaml
from pydantic.dataclasses import dataclass

from hs2lib import paper
from hs2lib.paper import TABLES
from hs2lib.report import site, tables
from hs2lib.report.report import completed

DIGIT, DIRECTION, CONTRADICTED = "to the digit", "direction only", "contradicted"
SLIP, NEEDS = "arithmetic slip in the paper", "needs hardware or data"
VERDICTS = (DIGIT, DIRECTION, CONTRADICTED, SLIP, NEEDS)

OWN, RUN, NONE = "the paper's own numbers", "our run", "none"

COLUMNS = ["id", "place", "notebook", "claim", "numbers", "test", "tier", "verdict", "evidence", "outcome", "note"]

# What notebook 13 leaves of two policies on the same questions. A measure of Table 4 -> (benchmark, measure) there; the
# benchmark has its own name only where all of it was asked. AlpacaEval's length-controlled rate is a regression over
# all questions, which leaves nothing to pair.
TRADES = "trades.csv"
MEASURES = {
    "TruthfulQA MC2": ("TruthfulQA", "TruthfulQA MC2"),
    "MT-Bench": ("MT-Bench", paper.GRADE),
    "Arena Hard": ("Arena Hard", paper.WON),
}
POLICIES = {row: policy for policy, row in paper.PAPER_ROWS.items()}


@dataclass(frozen=True)
class Reported:
    """One number of a csv in a notebook's report: column `value`, where column `where` is `row`, else the first row.

    The claim is confirmed where the number lies in low..high. of_paper: whether only the paper's own rows count; False
    for a public benchmark, whole and unchanged.
    """

    file: str
    value: str
    low: float
    high: float
    where: str = ""
    row: str = ""
    of_paper: bool = True


@dataclass(frozen=True)
class Claim:
    """One claim of `claims.yaml`, which explains the fields."""

    id: str
    place: str
    notebook: str
    claim: str
    numbers: Sequence[str]
    cells: Sequence[tuple[str, str, str]] = ()
    reported: Reported | None = None
    better: Sequence[tuple[str, str, str]] = ()
    lacks: str = "the released rows, from the Hub (tier paper)"
    check: dict = field(default_factory=dict)


CLAIMS = tuple(Claim(**row) for row in yaml.safe_load((Path(__file__).parent / "claims.yaml").read_text())["claims"])


class Finding(NamedTuple):
    """verdict: one of `VERDICTS`. words: the number or numbers it rests on. note: what else to know."""

    verdict: str
    words: str
    note: str = ""


def number(printed: str) -> float:
    """The number that a printed text stands for; a k is a thousand. Raises ValueError where there is none."""
    return float(printed.replace(",", "").removesuffix("k")) * (1000 if printed.endswith("k") else 1)


def unit(printed: str) -> float:
    """One unit of the last digit that a text prints: "3.63" .01, "100k" 1,000."""
    return 10.0 ** -len(printed.partition(".")[2]) * (1000 if printed.endswith("k") else 1)


def agrees(value: float, printed: str) -> bool:
    """Whether `value` rounds to `printed` ("3.63", "21,362", "100k"). By hand: 3.6393 rounds to 3.64."""
    return abs(value - number(printed)) <= 0.5 * unit(printed) + 1e-9


# How a value of a check is worked out: an operation on the paper's numbers, or a list from left to right.


def _scores(table: str, column: str, rows: Sequence[str] = (), without: Sequence[str] = ()) -> dict[str, float]:
    """Row -> number in one column: all rows or those named, and no dashes."""
    scores = {row: paper.value(table, row, column) for row in rows or TABLES[table].rows if row not in without}
    return {row: score for row, score in scores.items() if score is not None}


def _count(table: str, column: str, above: Sequence[str] = (), **rows: Sequence[str]) -> int:
    """Rows with a number in a column; above: only those that are higher than each of these rows."""
    bar = max(_scores(table, column, above).values()) if above else -math.inf
    return sum(score > bar for score in _scores(table, column, **rows).values())


OPERATIONS: dict[str, Callable] = {
    "cell": paper.value,
    "largest": lambda **where: max(_scores(**where).values()),
    "smallest": lambda **where: min(_scores(**where).values()),
    "best_row": lambda **where: max(scores := _scores(**where), key=scores.get),
    "mean": lambda **where: float(np.mean(list(_scores(**where).values()))),
    "count": _count,
    "within": lambda ids, low, high: len({i for i in ids if low <= i <= high}),
    "weight": lambda model, attribute: paper.HEAD_WEIGHTS[model][attribute],
    "regression": lambda judge, part: getattr(tables.regression()[judge], part),
    "williams": lambda part: dict(zip("tp", tables.williams(), strict=True))[part],
    "rewardbench": lambda part: {
        "pairs": sum(paper.REWARDBENCH_COUNTS.values()),
        "subsets": len(paper.REWARDBENCH_COUNTS),
        "categories": len(paper.REWARDBENCH_SECTIONS),
    }[part],
}

OPERATORS = {
    "plus": operator.add,
    "minus": operator.sub,
    "times": operator.mul,
    "over": operator.truediv,
    "whole over": operator.floordiv,
}


def _printed(claim: Claim, text: str) -> str:
    """A number as printed: "number 2" is the claim's second, any other text stands for itself."""
    return claim.numbers[int(text.removeprefix("number ")) - 1] if text.startswith("number ") else text


def work_out(claim: Claim, values: dict, how: float | str | list | dict) -> float:
    """One value of a check.

    how: a number; a text ("number 2" of the claim, a name in `values`, or a name in `paper.STATED`); a list, read from
    left to right ([2, times, twice, plus, 1]); or {operation: arguments}. Raises KeyError for an unknown name.
    """
    if isinstance(how, list):
        total = work_out(claim, values, how[0])
        for sign, operand in zip(how[1::2], how[2::2], strict=True):
            total = OPERATORS[sign](total, work_out(claim, values, operand))
        return total
    if isinstance(how, dict):
        ((name, arguments),) = how.items()
        if isinstance(arguments, dict):
            return OPERATIONS[name](**arguments)
        return OPERATIONS[name](*(arguments if isinstance(arguments, list) else [arguments]))
    if isinstance(how, str):
        if how.startswith("number "):
            return number(_printed(claim, how))
        return values[how] if how in values else paper.STATED[how]
    return how


# The kinds of check. Each returns whether the claim holds; what else it works out goes into `values`, for the words.


def rounds(claim: Claim, values: dict, to: dict[str, str]) -> bool:
    """Whether each value named rounds to a printed number."""
    return all(agrees(values[name], _printed(claim, text)) for name, text in to.items())


def equal(claim: Claim, values: dict, same: list[list]) -> bool:
    """Whether the values of each list are all the same."""
    worked_out = [[work_out(claim, values, how) for how in alike] for alike in same]
    return all(math.isclose(a, b) for alike in worked_out for a, b in pairwise(alike))


def order(claim: Claim, values: dict, falling: list[list]) -> bool:
    """Whether each list of values falls, every one below the one before."""
    worked_out = [[work_out(claim, values, how) for how in steps] for steps in falling]
    return all(a > b for steps in worked_out for a, b in pairwise(steps))


def rows_rise(claim: Claim, values: dict, table: str) -> bool:
    """Whether every row of a table rises from column to column."""
    known = TABLES[table]
    rising = [all(a < b for a, b in pairwise(paper.value(table, row, c) for c in known.columns)) for row in known.rows]
    values |= {"rising": sum(rising), "rows": len(rising)}
    return all(rising)


def _gaps(table: str, of: str, minus: str, rows: list[str] = (), columns: list[str] = ()) -> dict[str, float]:
    """Name -> difference: of two columns for each of the rows, or of two rows for each of the columns."""
    by_row = {row: paper.value(table, row, of) - paper.value(table, row, minus) for row in rows}
    return by_row | {column: paper.value(table, of, column) - paper.value(table, minus, column) for column in columns}


def gaps(claim: Claim, values: dict, side: str = "", largest: str = "", **where) -> bool:
    """Whether all differences are "above" 0, or all "below"; or whether the one named is the largest."""
    differences = _gaps(**where)
    first = max(differences, key=differences.get)
    values["gaps"] = ", ".join(f"{name} {gap:+.4g}" for name, gap in differences.items())
    values |= {"largest": first, "largest_gap": differences[first]}
    if largest:
        return first == largest
    return min(differences.values()) > 0 if side == "above" else max(differences.values()) < 0


def column_is_mean(claim: Claim, values: dict, table: str, column: str, of: list[str], room: float) -> bool:
    """Whether a column is the mean of others in every row, within `room`."""
    rows = TABLES[table].rows
    off = [abs(np.mean([paper.value(table, row, c) for c in of]) - paper.value(table, row, column)) for row in rows]
    right = [x <= room + 1e-9 for x in off]
    values |= {"right": sum(right), "rows": len(rows), "difference": max(off)}
    return all(right)


def best_in_each(claim: Claim, values: dict, table: str, rows: list[str], above: dict) -> bool:
    """Whether in each column some row is above a bar (column -> how it is worked out), not the same one everywhere."""
    over = []
    for column, bar in above.items():
        scores = _scores(table, column, rows)
        over.append([row for row in rows if scores[row] > work_out(claim, values, bar)])
        values[f"{column} best"] = max(scores.values())
        values[f"{column} row"] = max(scores, key=scores.get)
    single = [row for row in rows if all(row in names for names in over)]
    values |= {"single": len(single), "single_names": ", ".join(single) or "no single model"}
    return all(over)


# kind -> how it is checked, the verdict where the claim holds, and the verdict where it does not
KINDS: dict[str, tuple[Callable, str, str]] = {
    "rounds": (rounds, DIGIT, SLIP),
    "equal": (equal, DIGIT, SLIP),
    "column_is_mean": (column_is_mean, DIGIT, SLIP),
    "order": (order, DIRECTION, CONTRADICTED),
    "rows_rise": (rows_rise, DIRECTION, CONTRADICTED),
    "gaps": (gaps, DIRECTION, CONTRADICTED),
    "best_in_each": (best_in_each, DIRECTION, CONTRADICTED),
}


def check(claim: Claim) -> Finding | None:
    """What a claim's check says; None where it has none. Raises KeyError for an unknown kind or value."""
    if not claim.check:
        return None
    parts = {"name", "kind", "values", "words", "note"}
    arguments = {key: value for key, value in claim.check.items() if key not in parts}
    values: dict = {}
    for name, how in claim.check.get("values", {}).items():
        values[name] = work_out(claim, values, how)
    holds, right, wrong = KINDS[claim.check["kind"]]
    verdict = right if holds(claim, values, **arguments) else wrong
    return Finding(verdict, claim.check["words"].format(**values), claim.check.get("note", "").format(**values))


def derived(claim: Claim) -> Finding | None:
    """What the paper's own numbers say of a claim; None where they say nothing.

    Paper: where `claim.place` says. A number that the text takes from a table must round to the text's digits, else it
    is a slip; whether the table itself is right, only a run can tell.
    """
    finding = check(claim)
    if finding and finding.verdict in (SLIP, CONTRADICTED):
        return finding
    off = [
        f"the text has {printed}, {TABLES[table].source.split(', ')[1]} {paper.value(table, row, column):g}"
        for printed, (table, row, column) in zip(claim.numbers, claim.cells, strict=False)
        if not agrees(paper.value(table, row, column), printed)
    ]
    if not off:
        return finding
    cut = all(
        abs(number(printed)) <= abs(paper.value(*where)) < abs(number(printed)) + unit(printed)
        for printed, where in zip(claim.numbers, claim.cells, strict=False)
    )
    return Finding(SLIP, "; ".join(off), "cut off, not rounded" if cut else "")


# What a run says: a finding, or None and why there is none.


def _no_evidence(claim: Claim, report, of_paper: bool) -> str:
    """Why a notebook's report says nothing of a claim; "" where it may."""
    if not report:
        return f"notebook {claim.notebook[:2]} has not run"
    if report.generated:
        return f"notebook {claim.notebook[:2]} ran on generated data, which is no evidence"
    return f"notebook {claim.notebook[:2]} ran on other data" if of_paper and not report.of_paper else ""


def from_cells(claim: Claim, tier: str) -> tuple[Finding | None, str]:
    """Our numbers in the cells that the claim repeats."""
    assembled = {table: tables.assemble(table, tier).set_index(["row", "column"]) for table, *_ in claim.cells}
    rows = [assembled[table].loc[(row, column)] for table, row, column in claim.cells]
    if any("generated" in row.verdict for row in rows):
        return None, f"notebook {rows[0].notebook[:2]} ran on generated data, which is no evidence"
    judged = [row for row in rows if row.verdict in ("match", "differs")]
    words = ", ".join(f"{row.ours:.4g} (paper {row.paper:g})" for row in judged)
    if len(judged) < len(rows):
        why = next((row.reason for row in rows if row.verdict not in ("match", "differs") and row.reason), "")
        return None, "; ".join(filter(None, (words and f"in part: {words}", why)))
    if all(row.verdict == "match" for row in rows):
        exact = all(agrees(row.ours, printed) for row, printed in zip(rows, claim.numbers, strict=False))
        note = "" if exact else "within the tolerance that the table has, not to its last digit"
        return Finding(DIGIT if exact else DIRECTION, words, note), ""
    # Two numbers in one claim compare something: the direction may hold though the numbers do not.
    same = len(rows) > 1 and all(np.sign(a.ours - b.ours) == np.sign(a.paper - b.paper) for a, b in pairwise(rows))
    return Finding(DIRECTION if same else CONTRADICTED, words), ""


def from_report(claim: Claim, tier: str) -> tuple[Finding | None, str]:
    """One number of a csv in the notebook's report."""
    want, report = claim.reported, completed(tier, claim.notebook)
    if why := _no_evidence(claim, report, want.of_paper):
        return None, why
    frame = report.table(want.file)
    if frame is None or want.value not in frame or (want.where and want.where not in frame):
        return None, f"no {want.file} with {want.value!r} in the report"
    frame = frame[frame[want.where] == want.row] if want.where else frame
    value = frame[want.value].iloc[0] if len(frame) else np.nan
    if pd.isna(value):
        return None, f"no value for {want.row or want.value!r} in {want.file}"
    right = want.low - 1e-9 <= value <= want.high + 1e-9
    return Finding(DIGIT if right else CONTRADICTED, f"{value:,.4g}" if value < 1000 else f"{value:,.0f}"), ""


def from_policies(claim: Claim, tier: str) -> tuple[Finding | None, str]:
    """Whether one policy of ours beats another as the paper's do: paired differences whose interval leaves out 0.

    A small policy that shows the opposite contradicts nothing that the paper says of 70B: only tier paper can.
    """
    report = completed(tier, claim.notebook)
    if why := _no_evidence(claim, report, of_paper=False):
        return None, why
    frame, words, signs = report.table(TRADES), [], []
    for measure, better, worse in claim.better:
        one, other = POLICIES.get(better, better), POLICIES.get(worse, worse)
        gap = _paired_gain(frame, MEASURES.get(measure, (measure, measure)), one, other)
        if gap is None:
            return None, f"no {measure} of {one} against {other} on the whole benchmark in {TRADES}"
        gain, low, high = gap
        words.append(f"{measure}, {one} minus {other}: {gain:+.4g} [{low:.4g}, {high:.4g}]")
        signs.append((low > 0) - (high < 0))
    gains, size = "; ".join(words), "policies of ours, at the size and on the data of this tier"
    if min(signs) > 0:
        return Finding(DIRECTION, gains, size), ""
    if min(signs) == 0:
        return None, f"no clear difference: {gains}"
    if tier == "paper":
        return Finding(CONTRADICTED, gains, size), ""
    return Finding(NEEDS, "", f"{size}, show the opposite: {gains}"), ""


def _paired_gain(frame: pd.DataFrame | None, key: tuple[str, str], one: str, other: str) -> tuple[float, ...] | None:
    """(gain, low, high) of one policy over another, whichever of them was taken from the other; None without either."""
    if frame is None:
        return None
    part = frame[(frame.benchmark == key[0]) & (frame.measure == key[1])].dropna(subset=paper.GAIN)
    for policy, against, sign in ((one, other, 1), (other, one, -1)):
        rows = part[(part.policy == policy) & (part.against == against)]
        if len(rows):
            gain, low, high = (sign * float(x) for x in rows.iloc[0][paper.GAIN])
            return gain, min(low, high), max(low, high)
    return None


def _from_run(claim: Claim, tier: str) -> tuple[Finding | None, str]:
    """What our runs at a tier say of a claim: the first test with an answer; else None and the first reason why not."""
    tests = ((claim.cells, from_cells), (claim.reported, from_report), (claim.better, from_policies))
    why = ""
    for wanted, test in tests:
        finding, reason = test(claim, tier) if wanted else (None, "")
        if finding:
            return finding, ""
        why = why or reason
    return None, why


def verdict(claim: Claim, tier: str) -> dict:
    """One row of the ledger.

    Paper: where `claim.place` says. In order: a contradiction or slip within the paper; what a run on the paper's own
    rows gave; what the paper's own numbers give, for a claim that is about them alone; else no evidence. That
    is also the end where policies below the paper's size show the opposite: the note has what was seen.
    Raises ValueError where a report was changed after its run.
    """
    own = derived(claim)
    row = {"id": claim.id, "place": claim.place, "notebook": claim.notebook, "claim": claim.claim}
    row |= {"numbers": ", ".join(claim.numbers), "test": tested_by(claim), "tier": tier}
    if own and own.verdict in (SLIP, CONTRADICTED):
        return row | {"verdict": own.verdict, "evidence": OWN, "outcome": own.words, "note": own.note}
    ran, why = _from_run(claim, tier)
    if ran and ran.verdict != NEEDS:
        return row | {"verdict": ran.verdict, "evidence": RUN, "outcome": ran.words, "note": ran.note}
    if own and not ran and not claim.cells and not claim.reported:
        note = "; ".join(filter(None, (own.note, why)))
        return row | {"verdict": own.verdict, "evidence": OWN, "outcome": own.words, "note": note}
    seen = ran.note if ran else why
    note = "; ".join(filter(None, (f"needs {claim.lacks}", seen, own and f"within the paper: {own.words}")))
    return row | {"verdict": NEEDS, "evidence": NONE, "outcome": "", "note": note}


def tested_by(claim: Claim) -> str:
    """What tests a claim, in words. Paper: silent."""
    ways = [f"against-{t}.csv: {row}, {column}" for t, row, column in claim.cells]
    ways += [f"{claim.reported.file}: {claim.reported.row or claim.reported.value}"] if claim.reported else []
    ways += [f"{TRADES}: {better} above {worse}, {measure}" for measure, better, worse in claim.better]
    ways += [f"arithmetic: {claim.check['name']}"] if claim.check else []
    return "; ".join(ways) or "nothing at hand"


def ledger(tiers: Sequence[str]) -> pd.DataFrame:
    """The whole ledger, one row a claim and tier (columns `COLUMNS`), in the order of the paper. Paper: the text."""
    return pd.DataFrame([verdict(claim, tier) for claim in CLAIMS for tier in tiers], columns=COLUMNS)


def counts(table: pd.DataFrame) -> pd.DataFrame:
    """How many claims got each verdict on what evidence: index (verdict, evidence), a column a tier. Paper: silent."""
    tally = pd.crosstab([table.verdict, table.evidence], table.tier)
    index = [(v, e) for v in VERDICTS for e in (RUN, OWN, NONE) if (v, e) in tally.index]
    return tally.loc[index, list(dict.fromkeys(table.tier))].rename_axis(columns=None)


def page(table: pd.DataFrame, name: str = "claims.html") -> str:
    """The ledger as one page of the site: filters by tier, verdict, section and notebook; no script, nothing to load.

    Paper: silent. table: as from `ledger`. name: the page's path in the site. All text is escaped.
    """
    frame = table.assign(section=table.place)
    orders = {"tier": frame.tier.unique(), "verdict": VERDICTS}
    orders |= {column: sorted(frame[column].unique()) for column in ("evidence", "section", "notebook")}
    groups = []
    for column, texts in orders.items():
        rows_each = (frame[column].value_counts() // frame.tier.nunique()).to_dict()
        sizes = {text: f" ({rows_each[text]})" if column in ("section", "notebook") else "" for text in rows_each}
        choices = [{"mark": f"{column}-{_slug(text)}", "text": text + sizes[text]} for text in texts if text in sizes]
        groups.append({"name": column, "all": column != "tier", "choices": choices})
    groups[0]["choices"][-1]["checked"] = True  # every claim has a row for each tier: one tier at a time reads best
    marks = {column: [f"{column}-{_slug(text)}" for text in frame[column]] for column in orders}
    extra = {"colour": frame.verdict.map(_slug), "id": [f"{r.id}-{_slug(r.tier)}" for r in frame.itertuples()]}
    rows = frame.assign(marks=list(zip(*marks.values(), strict=True)), **extra).to_dict("records")
    tally = counts(table).reset_index()
    return site.page(name, "claims", "Claims", groups=groups, rows=rows, tally=tally, number=table.id.nunique())


def save(run, table: pd.DataFrame) -> None:
    """Write the ledger into the report of a run as `claims.csv` and `claims.html`. Paper: silent. run: `report.Run`."""
    words = run.caption(f"The {table.id.nunique()} quantitative claims of the paper's text, and what became of them.")
    run.keep("claims.csv", table.to_csv(index=False, lineterminator="\n"), words)
    run.keep("claims.html", page(table, f"{run.tier}/{run.notebook}/claims.html"), words)


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
