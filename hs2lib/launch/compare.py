"""Reports beside the published ones: which numbers moved, and which conclusions changed.

    frame = compare("demo", paths.reports(), paths.published_reports())  # a row a cell of a table
    counts(frame, ["run", "table"])  # cells of each kind

Every cell of every CSV table gets one of `KINDS`. A row is matched by the texts that name it, and
by its order where several rows have the same ones. A column is matched by its heading. A conclusion
is a verdict in words, or the sign of an interval that leaves out 0. Nothing is run and nothing is
written.
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

# Headings of what a table concludes, in words.
CONCLUSIONS = ("verdict", "outcome", "on these rows")

_NUMBER = r"(?<![\w.])[-+]?\d+(?:,\d{3})*(?:\.\d+)?(?:e[-+]?\d+)?(?!\w)"
_INTERVAL = rf"\[({_NUMBER}), ({_NUMBER})\]"
_NUMERIC = re.compile(rf"{_NUMBER}(?: {_INTERVAL})?(?: ± {_NUMBER})?(?: \(\d+ of \d+ seeds\))?")
_ZERO = 1e-12  # a sum of floats that should be 0 is less
_DIGITS = 4  # a single number with fewer, such as a share of 8 questions, is exact


@dataclass(frozen=True)
class Table:
    """A CSV table as it is printed: its headings, and its rows as texts by heading."""

    headings: list[str]
    rows: list[dict[str, str]]


class Cell(NamedTuple):
    """One cell of a table.

    Fields:
        text: as it is printed.
        interval: the 95 % interval beside it or in it; None without one.
    """

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
    "worst goodness": f"worst {SCORE}",
    "mean goodness": f"mean {SCORE}",
    "best goodness": f"best {SCORE}",
}
# In a column "measure".
RENAMED_MEASURES = {name: f"reward model's {name}" for name in (*ATTRIBUTES, "log P(a|x,y)")}
RENAMED_MEASURES["goodness"] = SCORE


def renamed(text: str, heading: str = "") -> str:
    """A cell or a heading in today's words.

    heading: that of the cell's column; "" for a heading.
    """
    if heading == "measure" and text in RENAMED_MEASURES:
        return RENAMED_MEASURES[text]
    if re.fullmatch(r"win rate over .+ by gold, %", text) or text.startswith("judge gold"):
        return text.replace("gold", "truth")
    return RENAMED.get(text, text)


def read(path: Path) -> Table:
    """The table of a CSV file in today's words.

    Of two columns with the heading "a" the second is called "a (2)".
    """
    with path.open(newline="") as file:
        printed_lines = list(csv.reader(file))
    if not printed_lines:
        return Table([], [])
    printed_headings = [plain_cell(heading) for heading in printed_lines[0]]
    lines = []
    for line in printed_lines:
        cells = zip(line, printed_headings, strict=False)
        lines.append([renamed(plain_cell(text), heading) for text, heading in cells])
    headings: list[str] = []
    seen: Counter = Counter()
    for heading in lines[0]:
        seen[heading] += 1
        headings.append(heading if seen[heading] == 1 else f"{heading} ({seen[heading]})")
    return Table(headings, [dict(zip(headings, line, strict=False)) for line in lines[1:]])


# Which rows and columns belong together.


def names_of(ours: Table, published: Table) -> list[str]:
    """The columns whose texts name a row, in both tables.

    They are the first columns of text that tell all rows apart, in either table. Where no columns
    do, they are all columns of text. A conclusion names a row only where it stands first, as in a
    table of how often each verdict was reached.
    """
    texts = []
    for heading in published.headings:
        values = {row.get(heading, "") for row in (*ours.rows, *published.rows)}
        values -= {"", DASH, "True", "False"}
        concludes = heading in CONCLUSIONS and heading != published.headings[0]
        if heading in ours.headings and not concludes and not all(map(_NUMERIC.fullmatch, values)):
            texts.append(heading)
    # The tier first: a table of several tiers has all its rows once a tier.
    texts.sort(key=lambda heading: heading != "tier")
    for number in range(1, len(texts) + 1):
        if _tells_apart(ours, texts[:number]) and _tells_apart(published, texts[:number]):
            return texts[:number]
    return texts


def _tells_apart(table: Table, headings: list[str]) -> bool:
    """Whether no two rows of a table have the same texts under these headings."""
    names = {_name_of(row, headings) for row in table.rows}
    return len(names) == len(table.rows)


def _name_of(row: dict[str, str], headings: list[str]) -> tuple[str, ...]:
    """The texts that name a row."""
    return tuple(row[heading] for heading in headings)


def rows_by_name(table: Table, names: list[str]) -> dict[tuple, dict[str, str]]:
    """The rows by the texts that name them.

    The last part of a key is the row's number, from 1, among rows of the same name.
    """
    rows: dict[tuple, dict[str, str]] = {}
    seen: Counter = Counter()
    for row in table.rows:
        name = _name_of(row, names)
        seen[name] += 1
        rows[(*name, seen[name])] = row
    return rows


def bounds_of(headings: list[str]) -> dict[str, tuple[str, str]]:
    """The headings of the bounds, low and high, of each column of values that has an interval.

    "mean low" and "mean high" belong to "mean". "95 % low" and "95 % high", or "low" and "high",
    belong to the next column to their left that is no bound. Of several intervals the first counts.
    """
    bounds: dict[str, tuple[str, str]] = {}
    left = ""  # the last column that is no bound
    for heading in headings:
        stem, _, end = heading.rpartition(" ")
        if end == "low":
            value = stem if stem in headings else left
            high = f"{heading.removesuffix('low')}high"
            if value and high in headings:
                bounds.setdefault(value, (heading, high))
        elif end != "high":
            left = heading
    return bounds


# What became of a cell.


def number(text: str) -> float | None:
    """The number that a text is; None where it is none."""
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return None


def cell(row: dict[str, str], heading: str, bounds: dict[str, tuple[str, str]]) -> Cell:
    """The cell of a row, with its interval.

    The interval is the first in its text, or else that of the columns of its bounds.
    """
    text = row.get(heading, "")
    in_text = re.search(_INTERVAL, text)
    if in_text:
        low, high = in_text.groups()
    elif heading in bounds:
        low_heading, high_heading = bounds[heading]
        low = row.get(low_heading, "")
        high = row.get(high_heading, "")
    else:
        return Cell(text)
    interval = (number(low), number(high))
    return Cell(text, None if None in interval else interval)


def side(interval: tuple[float, float]) -> int:
    """On which side of 0 an interval lies.

    1 or -1; 0 where it holds 0, or ends there but for the error of floats.
    """
    low, high = interval
    above = low > _ZERO
    below = high < -_ZERO
    if above == below:
        return 0
    return 1 if above else -1


def sides(of: Cell) -> list[int]:
    """On which side of 0 each interval of a cell lies.

    The intervals are those in its text, or else the one from the columns of bounds.
    """
    intervals = [(number(low), number(high)) for low, high in re.findall(_INTERVAL, of.text)]
    if not intervals and of.interval:
        intervals = [of.interval]
    return [side(interval) for interval in intervals]


def rounds(one: str, other: str, digits: int) -> bool:
    """Whether rounding explains the difference of two printed numbers.

    They may differ by one unit of the last digit of the longer one. Whole numbers count things and
    are exact. So are numbers of fewer digits than `digits`. By hand: 0.3279 and 0.3280 differ by
    rounding for 4 digits, 0.1 and 0.2 do not.
    """
    numbers = [Decimal(text.replace(",", "")) for text in (one, other)]
    difference = abs(numbers[0] - numbers[1])
    if difference <= _ZERO:
        return True
    last_digit = min(value.as_tuple().exponent for value in numbers)
    n_digits = max(len(value.as_tuple().digits) for value in numbers)
    if last_digit >= 0 or n_digits < digits:
        return False
    return difference <= Decimal(1).scaleb(last_digit)


def kind_of(ours: Cell, published: Cell, *, concludes: bool = False) -> str:
    """Which of `KINDS` a cell is, of which at least one side has something.

    concludes: whether its words are a conclusion.
    """
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
    # Within a text the number of decimals is fixed.
    digits = 1 if number(ours.text) is None else _DIGITS
    for one, other in zip(mine, theirs, strict=True):
        if one != other and not rounds(one, other, digits):
            return where(mine[0], published)
    return ROUNDING


def where(value: str, published: Cell) -> str:
    """The kind of a number that moved: inside the published interval, outside, or without one."""
    if published.interval is None:
        return MOVED
    low, high = published.interval
    return INSIDE if low <= number(value) <= high else OUTSIDE


def compare_rows(
    ours: dict[str, str],
    published: dict[str, str],
    headings: list[str],
    bounds: dict[str, tuple[str, str]],
) -> list[dict[str, str]]:
    """The cells of one row that hold something on either side.

    A bound that moved is of the kind of its value. A conclusion is counted once, with the value.

    Args:
        ours: our row, a text by heading; empty where we have none.
        published: the published row, likewise.
        headings: of the columns to compare.
        bounds: as from `bounds_of`.

    Returns:
        A record of each: column, both texts, both intervals and kind, as in `COLUMNS`.
    """
    value_of = {}
    for value, (low, high) in bounds.items():
        value_of[low] = value
        value_of[high] = value
    # What a verdict of this row was drawn from.
    evidence = next((heading for heading in headings if heading in bounds), "")
    records = []
    for heading in headings:
        our_cell = cell(ours, heading, bounds)
        their_cell = cell(published, heading, bounds)
        if not our_cell.text and not their_cell.text:
            continue
        concludes = heading in CONCLUSIONS
        kind = kind_of(our_cell, their_cell, concludes=concludes)
        if kind == MOVED and heading in value_of:
            value = value_of[heading]
            kind = where(ours.get(value) or "nan", cell(published, value, bounds))
        our_interval = our_cell.interval
        their_interval = their_cell.interval
        if concludes and evidence:
            our_interval = cell(ours, evidence, bounds).interval
            their_interval = cell(published, evidence, bounds).interval
        records.append(
            {
                "column": heading,
                "published": their_cell.text,
                "published interval": words(their_interval),
                "ours": our_cell.text,
                "our interval": words(our_interval),
                "kind": kind,
            }
        )
    return records


def words(interval: tuple[float, float] | None) -> str:
    """An interval in words; "" without one."""
    if interval is None:
        return ""
    low, high = interval
    return f"[{low:.4g}, {high:.4g}]"


def compare_tables(ours: Table, published: Table) -> list[dict[str, str]]:
    """Every cell of two tables that holds something on either side and names no row.

    Its record is that of `compare_rows`, with its row in words.
    """
    names = names_of(ours, published)
    our_rows = rows_by_name(ours, names)
    published_rows = rows_by_name(published, names)
    all_headings = dict.fromkeys([*published.headings, *ours.headings])
    headings = [heading for heading in all_headings if heading not in names]
    bounds = bounds_of(headings)
    records = []
    for name in dict.fromkeys([*published_rows, *our_rows]):
        *texts, order = name
        words_of_row = [text for text in texts if text]
        if order > 1 or not names:
            words_of_row.append(f"row {order}")
        our_row = our_rows.get(name, {})
        published_row = published_rows.get(name, {})
        for record in compare_rows(our_row, published_row, headings, bounds):
            records.append({"row": ", ".join(words_of_row)} | record)
    return records


# Runs.


def complete(folder: Path) -> list[str]:
    """The complete runs whose reports lie in a folder of one tier, in order.

    None of them was made by hand.
    """
    names = [file.parent.name for file in folder.glob("[0-9]*/manifest.json")]
    return sorted(name for name in names if not name.endswith(f"@{graph.BY_HAND}"))


def compare(
    tier: str, ours: Path, published: Path, pairs: dict[str, str] | None = None
) -> pd.DataFrame:
    """Every cell of the CSV tables of our runs beside the published ones.

    Args:
        tier: one of `graph.TIERS`.
        ours: the root of our reports.
        published: the root of the published ones.
        pairs: run of ours -> the published run that it stands beside, which may be one of another
            seed. By default every complete run of either root stands beside that of its name.

    Returns:
        A row for each cell, with `COLUMNS`. A run that one side lacks is one row without a table. A
        table that one side lacks is all its cells.

    Raises:
        FileNotFoundError: a run in `pairs` is not there.
    """
    if pairs is None:
        names = {*complete(ours / tier), *complete(published / tier)}
        pairs = {run: run for run in sorted(names)}
    else:
        folders = [ours / tier / run for run in pairs]
        folders += [published / tier / beside for beside in pairs.values()]
        for folder in folders:
            if not _ended(folder):
                raise FileNotFoundError(f"no complete report to compare in {folder}")
    records = []
    for run, beside in pairs.items():
        pair = {"run": run, "beside": beside}
        our_report = ours / tier / run
        their_report = published / tier / beside
        if not _ended(our_report):
            records.append(pair | {"kind": MISSING_HERE})
        elif not _ended(their_report):
            records.append(pair | {"kind": MISSING_THERE})
        else:
            records += [pair | record for record in compare_reports(our_report, their_report)]
    return pd.DataFrame(records, columns=COLUMNS).fillna("")


def compare_reports(ours: Path, published: Path) -> list[dict[str, str]]:
    """Every cell of the CSV tables of two reports' folders, with its table."""
    names = {file.name for file in ours.glob("*.csv")}
    names |= {file.name for file in published.glob("*.csv")}
    records = []
    for name in sorted(names):
        our_table = read(ours / name) if (ours / name).exists() else None
        their_table = read(published / name) if (published / name).exists() else None
        if our_table is None:
            our_table = Table(their_table.headings, [])
        if their_table is None:
            their_table = Table(our_table.headings, [])
        compared = compare_tables(our_table, their_table)
        records += [{"table": name} | record for record in compared]
    return records


def _ended(folder: Path) -> bool:
    """Whether a folder holds the report of a run that ended; its manifest is written last."""
    return (folder / "manifest.json").exists()


def counts(frame: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """How many cells of each kind there are: a column for each kind that occurs.

    frame: as from `compare`. by: the columns of it by which the rows are.
    """
    cells = frame[frame.table != ""]
    tally = pd.crosstab([cells[name] for name in by], cells.kind)
    return tally[[kind for kind in KINDS if kind in tally]].rename_axis(columns=None)


def changed(frame: pd.DataFrame) -> pd.DataFrame:
    """The conclusions that changed, with both values and their intervals."""
    return frame[frame.kind == CHANGED].drop(columns="kind").reset_index(drop=True)


def pairs_of(words: list[str]) -> dict[str, str] | None:
    """What the command line names: our runs, each with the published run to stand beside.

    A word is a run, as 07, or a pair, as 07@seed-1=07. None for no words: all runs. Raises
    ParameterError for an unknown notebook.
    """
    pairs = {}
    for word in words:
        run, _, beside = word.partition("=")
        pairs[graph.matching([run])[0]] = graph.matching([beside or run])[0]
    return pairs or None


def main(tier: str, names: list[str], *, strict: bool = False) -> int:
    """Print how the user's reports of a tier compare with the published ones.

    Args:
        tier: one of `graph.TIERS`.
        names: as for `pairs_of`.
        strict: whether a number that is another one, rounding apart, is a failure.

    Returns:
        The exit status: 1 for a failure, else 0.

    Raises:
        FileNotFoundError: a named run has no report.
    """
    frame = compare(tier, paths.reports(), paths.published_reports(), pairs_of(names))
    if (frame.table == "").all():
        print(f"{tier}: no run of yours has a published one to stand beside", file=sys.stderr)
        return 0
    print(f"{tier}: cells of your tables beside the published ones")
    print(counts(frame, ["run"]).rename_axis(index=None).to_string())
    for record in changed(frame).to_dict("records"):
        place = f"{record['run']} {record['table']}, {record['row']}: {record['column']}"
        theirs = f"{record['published']} {record['published interval']}".strip()
        ours = f"{record['ours']} {record['our interval']}".strip()
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
