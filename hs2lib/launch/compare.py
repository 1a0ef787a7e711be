"""Reports beside the published ones, number by number: what is the same, what moved, and which
conclusions changed.

    frame = compare("demo", paths.reports(), paths.published_reports())    # one row a cell of a CSV table
    counts(frame)                                                          # cells of each kind, by run and table

Every cell of every CSV table gets one of `KINDS`. A row is matched by the texts that name it, and
by its order where several rows have the same ones. A column is matched by its heading. A conclusion
is a verdict in words, or the sign of an interval that leaves out 0. Nothing is run and nothing is
written.

Paper: silent.
"""

import csv
import re
import sys
from collections import Counter
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from hs2lib import paths
from hs2lib.group import ATTRIBUTES
from hs2lib.report.report import DASH, plain_cell
from hs2lib.run import graph

EQUAL = "equal"
ROUNDING = "rounding"
INSIDE = "moved inside the published interval"
OUTSIDE = "moved outside it, same conclusion"
MOVED = "moved, no interval"
OTHER_WORDS = "other words"
CHANGED = "CONCLUSION CHANGED"
MISSING_HERE = "missing here"
MISSING_THERE = "missing in the published"
KINDS = (EQUAL, ROUNDING, INSIDE, OUTSIDE, MOVED, OTHER_WORDS, CHANGED, MISSING_HERE, MISSING_THERE)

COLUMNS = [
    "run",
    "beside",
    "table",
    "row",
    "column",
    "published",
    "published interval",
    "ours",
    "our interval",
    "kind",
]

CONCLUSIONS = (
    "verdict",
    "outcome",
    "on these rows",
)  # headings of what a table concludes, in words

_NUMBER = r"(?<![\w.])[-+]?\d+(?:,\d{3})*(?:\.\d+)?(?:e[-+]?\d+)?(?!\w)"
_INTERVAL = rf"\[({_NUMBER}), ({_NUMBER})\]"
_NUMERIC = re.compile(rf"{_NUMBER}(?: {_INTERVAL})?(?: ± {_NUMBER})?(?: \(\d+ of \d+ seeds\))?")
_ZERO = 1e-12  # a sum of floats that should be 0 is less
_DIGITS = 4  # a single number with fewer, such as a share of 8 questions, has no last digit that rounding explains


@dataclass(frozen=True)
class Table:
    """A CSV table as it is printed: its headings, and its rows as texts by heading."""

    headings: list[str]
    rows: list[dict[str, str]]


class Cell(NamedTuple):
    """One cell of a table: its text, and the 95 % interval beside it or in it; None without one."""

    text: str
    interval: tuple[float, float] | None = None


# Words of reports made before the truth and the reward model's score were called so, and the words
# of today.
SCORE = "reward model's score"
RENAMED = {
    "gold": "truth",
    "proxy": SCORE,
    "proxy less gold": f"{SCORE} less truth",
    "gold, mean": "truth, mean",
    "gold, chosen less rejected": "truth, chosen less rejected",
    "gold log P(a|x,y)": "true log P(a|x,y)",
} | {f"{which} goodness": f"{which} {SCORE}" for which in ("worst", "mean", "best")}
RENAMED_MEASURES = {"goodness": SCORE} | {
    name: f"reward model's {name}" for name in (*ATTRIBUTES, "log P(a|x,y)")
}  # in a column "measure"


def renamed(text: str, heading: str = "") -> str:
    """A cell or a heading in today's words. heading: of the cell's column."""
    if heading == "measure" and text in RENAMED_MEASURES:
        return RENAMED_MEASURES[text]
    if re.fullmatch(r"win rate over .+ by gold, %", text) or text.startswith("judge gold"):
        return text.replace("gold", "truth")
    return RENAMED.get(text, text)


def read(path: Path) -> Table:
    """The table of a CSV file in today's words. Of two columns with one heading the second is called "a (2)"."""
    with path.open(newline="") as file:
        lines = [[plain_cell(cell) for cell in line] for line in csv.reader(file)]
    if lines:
        before = lines[0]
        lines = [
            [renamed(cell, heading) for cell, heading in zip(line, before, strict=False)]
            for line in lines
        ]
    headings: list[str] = []
    seen: Counter = Counter()
    for heading in lines[0] if lines else []:
        seen[heading] += 1
        headings.append(heading if seen[heading] == 1 else f"{heading} ({seen[heading]})")
    return Table(headings, [dict(zip(headings, line, strict=False)) for line in lines[1:]])


# Which rows and columns belong together.


def names_of(ours: Table, published: Table) -> list[str]:
    """The columns whose texts name a row, in both tables.

    They are the first columns of text that tell all rows apart, in either table; where they never
    do, all of them. A conclusion names a row only where it stands first, as in a table of how often
    each verdict was reached.
    """
    texts = []
    for heading in published.headings:
        values = {row.get(heading, "") for row in (*ours.rows, *published.rows)} - {
            "",
            DASH,
            "True",
            "False",
        }
        concludes = heading in CONCLUSIONS and heading != published.headings[0]
        if heading in ours.headings and not concludes and not all(map(_NUMERIC.fullmatch, values)):
            texts.append(heading)
    texts.sort(
        key=lambda heading: heading != "tier"
    )  # a table of several tiers has all its rows once a tier
    for number in range(1, len(texts) + 1):
        if _tells_apart(ours, texts[:number]) and _tells_apart(published, texts[:number]):
            return texts[:number]
    return texts


def _tells_apart(table: Table, headings: list[str]) -> bool:
    return len({tuple(row[heading] for heading in headings) for row in table.rows}) == len(
        table.rows
    )


def rows_by_name(table: Table, names: list[str]) -> dict[tuple, dict[str, str]]:
    """The rows by the texts that name them, and last by their number, from 1, among rows of the same name."""
    rows: dict[tuple, dict[str, str]] = {}
    seen: Counter = Counter()
    for row in table.rows:
        name = tuple(row[heading] for heading in names)
        seen[name] += 1
        rows[(*name, seen[name])] = row
    return rows


def bounds_of(headings: list[str]) -> dict[str, tuple[str, str]]:
    """The headings of the bounds of each column of values that has an interval.

    "mean low" and "mean high" belong to "mean". "95 % low" and "95 % high", or "low" and "high",
    belong to the next column to their left that is no bound. Of several intervals the first counts.
    """
    bounds: dict[str, tuple[str, str]] = {}
    values = [""]
    for heading in headings:
        stem, _, end = heading.rpartition(" ")
        if end == "low":
            value = stem if stem in headings else values[-1]
            high = f"{heading.removesuffix('low')}high"
            if value and high in headings:
                bounds.setdefault(value, (heading, high))
        elif end != "high":
            values.append(heading)
    return bounds


# What became of a cell.


def number(text: str) -> float | None:
    """The number that a text is; None where it is none."""
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return None


def cell(row: dict[str, str], heading: str, bounds: dict[str, tuple[str, str]]) -> Cell:
    """The cell of a row, with its interval: the first in its text, or else from the columns of its bounds."""
    text = row.get(heading, "")
    within = re.search(_INTERVAL, text)
    printed = (
        within.groups() if within else [row.get(bound, "") for bound in bounds.get(heading, ())]
    )
    numbers = [number(bound) for bound in printed]
    return Cell(text, tuple(numbers) if numbers and None not in numbers else None)


def side(interval: tuple[float, float]) -> int:
    """On which side of 0 an interval lies: 1, -1, or 0 where it holds 0, or ends there but for the error of floats."""
    low, high = interval
    return int(low > _ZERO) - int(high < -_ZERO)


def sides(of: Cell) -> list[int]:
    """On which side of 0 each interval of a cell lies: each in its text, or else the one from the columns of bounds."""
    intervals = [(number(low), number(high)) for low, high in re.findall(_INTERVAL, of.text)]
    if not intervals and of.interval:
        intervals = [of.interval]
    return [side(interval) for interval in intervals]


def rounds(one: str, other: str, digits: int) -> bool:
    """Whether two printed numbers differ by no more than one unit of the last digit of the longer
    one.

    Whole numbers count things and never do; nor do numbers of fewer digits than `digits`. By hand:
    0.3279 and 0.3280 do for 4 digits, 0.1 and 0.2 do not.
    """
    numbers = [Decimal(text.replace(",", "")) for text in (one, other)]
    difference = abs(numbers[0] - numbers[1])
    last = min(value.as_tuple().exponent for value in numbers)
    longest = max(len(value.as_tuple().digits) for value in numbers)
    return difference <= _ZERO or (
        last < 0 and longest >= digits and difference <= Decimal(1).scaleb(last)
    )


def kind_of(ours: Cell, published: Cell, *, concludes: bool = False) -> str:
    """Which of `KINDS` a cell is, of which at least one side has something. concludes: its words are a conclusion."""
    if not published.text:
        return MISSING_THERE
    if not ours.text:
        return MISSING_HERE
    if re.sub(_NUMBER, "#", ours.text) != re.sub(_NUMBER, "#", published.text):
        return CHANGED if concludes else OTHER_WORDS
    if ours.interval and published.interval and sides(ours) != sides(published):
        return CHANGED
    if ours.text == published.text:
        return EQUAL
    mine = re.findall(f"({_NUMBER})", ours.text)
    theirs = re.findall(f"({_NUMBER})", published.text)
    digits = (
        _DIGITS if number(ours.text) is not None else 1
    )  # in words the number of decimals is fixed
    if all(
        one == other or rounds(one, other, digits) for one, other in zip(mine, theirs, strict=True)
    ):
        return ROUNDING
    return where(mine[0], published)


def where(value: str, published: Cell) -> str:
    """Where a number that moved is now: inside the published interval or outside; or there is none."""
    if published.interval is None:
        return MOVED
    low, high = published.interval
    return INSIDE if low <= number(value) <= high else OUTSIDE


def compare_rows(
    ours: dict[str, str], published: dict[str, str], headings: list[str], bounds: dict
) -> list[dict]:
    """The cells of one row that hold something on either side: column, both texts, both intervals,
    kind.

    A bound that moved is of the kind of its value, but that a conclusion is counted once, with the
    value.
    """
    value_of = {bound: value for value, pair in bounds.items() for bound in pair}
    beside = next(
        (value for value in headings if value in bounds), ""
    )  # what a verdict of this row was drawn from
    records = []
    for heading in headings:
        mine, theirs = cell(ours, heading, bounds), cell(published, heading, bounds)
        if not mine.text and not theirs.text:
            continue
        kind = kind_of(mine, theirs, concludes=heading in CONCLUSIONS)
        if kind == MOVED and heading in value_of:
            kind = where(
                ours.get(value_of[heading]) or "nan", cell(published, value_of[heading], bounds)
            )
        if heading in CONCLUSIONS and beside:
            mine = Cell(mine.text, cell(ours, beside, bounds).interval)
            theirs = Cell(theirs.text, cell(published, beside, bounds).interval)
        record = {
            "column": heading,
            "published": theirs.text,
            "published interval": words(theirs.interval),
        }
        records.append(
            record | {"ours": mine.text, "our interval": words(mine.interval), "kind": kind}
        )
    return records


def words(interval: tuple[float, float] | None) -> str:
    """An interval in words; "" without one."""
    return f"[{interval[0]:.4g}, {interval[1]:.4g}]" if interval else ""


def compare_tables(ours: Table, published: Table) -> list[dict]:
    """Every cell of two tables that holds something on either side and names no row, with its row in words."""
    names = names_of(ours, published)
    our_rows = rows_by_name(ours, names)
    published_rows = rows_by_name(published, names)
    headings = [
        heading
        for heading in dict.fromkeys([*published.headings, *ours.headings])
        if heading not in names
    ]
    bounds = bounds_of(headings)
    records = []
    for name in dict.fromkeys([*published_rows, *our_rows]):
        *texts, order = name
        shown = ", ".join(filter(None, [*texts, f"row {order}" if order > 1 or not names else ""]))
        compared = compare_rows(
            our_rows.get(name, {}), published_rows.get(name, {}), headings, bounds
        )
        records += [{"row": shown} | record for record in compared]
    return records


# Runs.


def complete(folder: Path) -> list[str]:
    """The complete runs whose reports lie in a folder of one tier, in order; none that was made by hand."""
    names = [file.parent.name for file in folder.glob("[0-9]*/manifest.json")]
    return sorted(name for name in names if not name.endswith(f"@{graph.BY_HAND}"))


def compare(
    tier: str, ours: Path, published: Path, pairs: dict[str, str] | None = None
) -> pd.DataFrame:
    """Every cell of the CSV tables of runs under `ours` beside those under `published`, two roots
    of reports.

    pairs: run of ours -> the published run that it stands beside, which may be one of another seed;
    by default every complete run of either root beside that of its name. Columns: `COLUMNS`. A run
    that one side lacks is one row without a table; a table that one side lacks is all its cells.
    Raises FileNotFoundError for a named run that is not there.
    """
    if pairs is None:
        pairs = {run: run for run in sorted({*complete(ours / tier), *complete(published / tier)})}
    else:
        for folder in (
            *(ours / tier / run for run in pairs),
            *(published / tier / run for run in pairs.values()),
        ):
            if not (folder / "manifest.json").exists():
                raise FileNotFoundError(f"no complete report to compare in {folder}")
    records = []
    for run, beside in pairs.items():
        about = {"run": run, "beside": beside}
        mine = ours / tier / run
        theirs = published / tier / beside
        if not _ended(mine):
            records.append(about | {"kind": MISSING_HERE})
        elif not _ended(theirs):
            records.append(about | {"kind": MISSING_THERE})
        else:
            records += [about | record for record in compare_reports(mine, theirs)]
    return pd.DataFrame(records, columns=COLUMNS).fillna("")


def compare_reports(ours: Path, published: Path) -> list[dict]:
    """Every cell of the CSV tables of two reports' folders, with its table."""
    records = []
    for name in sorted(
        {file.name for folder in (ours, published) for file in folder.glob("*.csv")}
    ):
        mine = read(ours / name) if (ours / name).exists() else None
        theirs = read(published / name) if (published / name).exists() else None
        headings = (mine or theirs).headings
        compared = compare_tables(mine or Table(headings, []), theirs or Table(headings, []))
        records += [{"table": name} | record for record in compared]
    return records


def _ended(folder: Path) -> bool:
    return (folder / "manifest.json").exists()


def counts(frame: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """How many cells of each kind there are: rows by the columns `by`, a column for each kind that
    occurs.

    frame: as from `compare`.
    """
    cells = frame[frame.table != ""]
    tally = pd.crosstab([cells[name] for name in by], cells.kind)
    return tally[[kind for kind in KINDS if kind in tally]].rename_axis(columns=None)


def changed(frame: pd.DataFrame) -> pd.DataFrame:
    """The conclusions that changed, with both values and their intervals."""
    return frame[frame.kind == CHANGED].drop(columns="kind").reset_index(drop=True)


def pairs_of(words: list[str]) -> dict[str, str] | None:
    """What the command line names: runs, as 07, or with the published run to stand beside, as
    07@seed-1=07.

    None for no words: all runs. Raises ParameterError for an unknown notebook.
    """
    pairs = {}
    for word in words:
        run, _, beside = word.partition("=")
        pairs[graph.matching([run])[0]] = graph.matching([beside or run])[0]
    return pairs or None


def main(tier: str, names: list[str], *, strict: bool = False) -> int:
    """Print how the user's reports of a tier compare with the published ones; the exit status.

    names: as for `pairs_of`. strict: the status is 1 where a number is another one, rounding apart;
    else it is 0. Raises FileNotFoundError for a named run without a report.
    """
    sides = [("published", "published interval"), ("ours", "our interval")]
    frame = compare(tier, paths.reports(), paths.published_reports(), pairs_of(names))
    if (frame.table == "").all():
        print(f"{tier}: no run of yours has a published one to stand beside", file=sys.stderr)
        return 0
    print(f"{tier}: cells of your tables beside the published ones")
    print(counts(frame, ["run"]).rename_axis(index=None).to_string())
    for record in changed(frame).to_dict("records"):
        place = f"{record['run']} {record['table']}, {record['row']}: {record['column']}"
        theirs, ours = (f"{record[value]} {record[interval]}".strip() for value, interval in sides)
        print(f"{CHANGED}: {place}: published {theirs}, yours {ours}")
    for kind, whose in (
        (MISSING_HERE, "published, not run here"),
        (MISSING_THERE, "yours, not published"),
    ):
        runs = frame.run[(frame.table == "") & (frame.kind == kind)]
        if len(runs):
            print(f"{whose}: {', '.join(runs)}")
    if not strict:
        return 0
    other = frame[(frame.table != "") & ~frame.kind.isin([EQUAL, ROUNDING])]
    if len(other):
        print(f"today's code does not give what is published: {len(other):,} cells are others")
        return 1
    print("today's code gives what is published: every cell is equal, rounding apart")
    return 0
