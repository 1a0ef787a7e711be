"""`hs2 compare`: which numbers of yours differ from the published ones, and which conclusions do.

    hs2 compare --tier demo                  # every run of yours
    hs2 compare --tier demo 05 07@seed-1=07  # 05, and 07@seed-1 with the published 07
    hs2 compare --tier demo --strict 05      # exit status 1 where a number is another one

Every cell of every CSV table gets one of `KINDS`. A conclusion is a verdict in words, or the side
of 0 on which an interval lies. The command prints three lines, and writes the page
`reports/site/compare-<tier>.html`.
"""

import argparse
import csv
import math
import re
import sys
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from hs2lib import paths
from hs2lib.report import templates
from hs2lib.report.report import DASH, plain_cell
from hs2lib.runs import graph
from hs2lib.runs.parameters import ParameterError

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

COLUMNS = ["run", "published run", "table", "row", "column", "published", "ours", "kind"]

# Headings of columns whose words are a conclusion.
CONCLUSIONS = ("verdict", "outcome", "on these rows")

_NUMBER = r"(?<![\w.])[-+]?\d+(?:,\d{3})*(?:\.\d+)?(?:e[-+]?\d+)?(?!\w)"
_INTERVAL = rf"\[({_NUMBER}), ({_NUMBER})\]"
_NUMERIC = re.compile(rf"{_NUMBER}(?: {_INTERVAL})?(?: ± {_NUMBER})?(?: \(\d+ of \d+ seeds\))?")
_ZERO = 1e-12  # a sum of floats that should be 0 is smaller
_DIGITS = 4  # a number printed with fewer digits, such as a share of 8 questions, is exact

Row = dict[str, str]  # the printed texts of a row, by heading


class Cell(NamedTuple):
    """A cell of a table.

    Fields:
        text: as printed.
        interval: the 95 % interval in it, or in the columns of its bounds; None without one.
        value: the number in that interval; of a bound the number whose bound it is.
        sides: on which side of 0 each of its intervals lies, 1 or -1, or 0 where it holds 0; none
            for a bound.
    """

    text: str
    interval: tuple[float, float] | None = None
    value: float = math.nan
    sides: tuple[int, ...] = ()


# The cells of a table.


def read(path: Path) -> list[Row]:
    """The rows of a CSV file; none where there is no file."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        headings, *lines = csv.reader(file)
    headings = [plain_cell(heading) for heading in headings]
    return [dict(zip(headings, map(plain_cell, line), strict=True)) for line in lines]


def names_of(ours: list[Row], published: list[Row]) -> list[str]:
    """The columns whose texts name a row.

    They are the first columns of text that tell all rows apart, in both tables, or else all columns
    of text. A conclusion names a row only where it is the first column.
    """
    rows = [*published, *ours]
    first = next(iter(rows[0]))
    texts = []
    for heading in rows[0]:
        values = {row.get(heading, "0") for row in rows} - {"", DASH, "True", "False"}
        concludes = heading in CONCLUSIONS and heading != first
        if not concludes and not all(map(_NUMERIC.fullmatch, values)):
            texts.append(heading)
    # The tier first: a table of several tiers has all its rows once for each.
    texts.sort(key=lambda heading: heading != "tier")
    for number_of_columns in range(1, len(texts) + 1):
        names = texts[:number_of_columns]
        if all(_tells_apart(table, names) for table in (ours, published)):
            return names
    return texts


def _tells_apart(rows: list[Row], names: list[str]) -> bool:
    """Whether no two rows have the same texts in these columns."""
    return len({_label(row, names) for row in rows}) == len(rows)


def _label(row: Row, names: list[str]) -> str:
    """The texts that name a row."""
    return ", ".join(filter(None, [row.get(name) for name in names]))


def bounds_of(headings: list[str]) -> dict[str, tuple[str, str, str]]:
    """The headings of value, lower and upper bound, by each of the three.

    "mean low" and "mean high" belong to "mean". "95 % low" and "95 % high", or "low" and "high",
    belong to the column to their left. Of several intervals of a value the first counts.
    """
    bounds: dict[str, tuple[str, str, str]] = {}
    left = ""  # the last column that is no bound
    for heading in headings:
        stem, _, end = heading.rpartition(" ")
        if end == "low":
            high = f"{heading.removesuffix('low')}high"
            value = stem if stem in headings else left
            if value and value not in bounds and high in headings:
                columns = (value, heading, high)
                bounds |= dict.fromkeys(columns, columns)
        elif end != "high":
            left = heading
    return bounds


def cells(rows: list[Row], names: list[str]) -> dict[tuple[str, str], Cell]:
    """The cells by row and heading, without empty ones and those that name a row.

    Rows of the same name are numbered.
    """
    bounds = bounds_of(list(rows[0])) if rows else {}
    seen: Counter = Counter()
    found = {}
    for row in rows:
        label = _label(row, names)
        seen[label] += 1
        if not label or seen[label] > 1:
            label = f"{label}, row {seen[label]}".removeprefix(", ")
        for heading, text in row.items():
            if text and heading not in names:
                found[label, heading] = _cell(row, heading, bounds)
    return found


def _cell(row: Row, heading: str, bounds: dict[str, tuple[str, str, str]]) -> Cell:
    """The cell of a row under a heading."""
    value, low, high = bounds.get(heading, (heading, "", ""))
    printed = re.findall(_INTERVAL, row[heading]) or [(row.get(low, ""), row.get(high, ""))]
    intervals = [(number(lower), number(upper)) for lower, upper in printed]
    intervals = [interval for interval in intervals if not math.isnan(sum(interval))]
    numbers = re.findall(_NUMBER, row[value])
    return Cell(
        text=row[heading],
        interval=intervals[0] if intervals else None,
        value=number(numbers[0]) if numbers else math.nan,
        sides=tuple(map(side, intervals)) if heading == value else (),
    )


def number(text: str) -> float:
    """The number that a text is; NaN where it is none."""
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return math.nan


def side(interval: tuple[float, float]) -> int:
    """The side of 0 on which an interval lies: 1, -1, or 0 where it holds 0 or ends there."""
    low, high = interval
    return int(low > _ZERO) - int(high < -_ZERO)


# What became of a cell.


def kind_of(ours: Cell | None, published: Cell | None, heading: str) -> str:
    """Which of `KINDS` a cell under this heading is; None stands for a side that has none."""
    if published is None:
        return MISSING_THERE
    if ours is None:
        return MISSING_HERE
    if re.sub(_NUMBER, "#", ours.text) != re.sub(_NUMBER, "#", published.text):
        return CHANGED if heading in CONCLUSIONS else OTHER_WORDS
    if ours.sides and published.sides and ours.sides != published.sides:
        return CHANGED
    if ours.text == published.text:
        return EQUAL
    digits = 1 if math.isnan(number(ours.text)) else _DIGITS  # a text has fixed decimals
    pairs = zip(re.findall(_NUMBER, ours.text), re.findall(_NUMBER, published.text), strict=True)
    if all(rounds(one, other, digits) for one, other in pairs):
        return ROUNDING
    if published.interval is None or math.isnan(ours.value):
        return MOVED
    low, high = published.interval
    return INSIDE if low <= ours.value <= high else OUTSIDE


def rounds(one: str, other: str, digits: int) -> bool:
    """Whether rounding explains the difference of two printed numbers.

    They may differ by one unit of the last digit. Whole numbers count things and are exact, and so
    are numbers of fewer than `digits` digits. By hand: 0.3279 and 0.3280 differ by rounding for 4
    digits, 0.1 and 0.2 do not.
    """
    numbers = [Decimal(text.replace(",", "")) for text in (one, other)]
    difference = abs(numbers[0] - numbers[1])
    last_digit = min(value.as_tuple().exponent for value in numbers)
    n_digits = max(len(value.as_tuple().digits) for value in numbers)
    is_exact = last_digit >= 0 or n_digits < digits
    return difference <= _ZERO or (not is_exact and difference <= Decimal(1).scaleb(last_digit))


def _shown(cell: Cell | None) -> str:
    """A cell with its interval, as the page shows it."""
    if cell is None:
        return ""
    if cell.interval is None or not cell.sides or "[" in cell.text:
        return cell.text
    low, high = cell.interval
    return f"{cell.text} [{low:.4g}, {high:.4g}]"


# Runs.


def complete(folder: Path) -> list[str]:
    """The runs with a complete report in a folder of one tier, in order; none made by hand."""
    names = [file.parent.name for file in folder.glob("[0-9]*/manifest.json")]
    return sorted(name for name in names if not name.endswith(f"@{graph.BY_HAND}"))


def compare(
    tier: str, ours: Path, published: Path, pairs: dict[str, str] | None = None
) -> pd.DataFrame:
    """Every cell of the tables of our runs and of the published ones: a row with `COLUMNS`.

    A run that one side lacks is one row without a table; a table that one side lacks is all its
    cells.

    Args:
        tier: one of `graph.TIERS`.
        ours: the root of our reports.
        published: the root of the published ones.
        pairs: run of ours -> published run. By default each run, on either side, is paired with the
            run of the same name.

    Raises:
        FileNotFoundError: a run in `pairs` has no complete report.
    """
    here = complete(ours / tier)
    there = complete(published / tier)
    asked = pairs or {run: run for run in sorted({*here, *there})}
    records = []
    for run, other in asked.items():
        our_report = ours / tier / run
        their_report = published / tier / other
        pair = {"run": run, "published run": other}
        if run in here and other in there:
            records += [pair | record for record in compare_reports(our_report, their_report)]
        elif pairs:
            missing = our_report if run not in here else their_report
            raise FileNotFoundError(f"no complete report to compare in {missing}")
        else:
            records.append(pair | {"kind": MISSING_THERE if run in here else MISSING_HERE})
    return pd.DataFrame(records, columns=COLUMNS).fillna("")


def compare_reports(ours: Path, published: Path) -> list[dict[str, str]]:
    """The cells of the tables of two reports, as in `COLUMNS`."""
    records = []
    for table in sorted({file.name for file in (*published.glob("*.csv"), *ours.glob("*.csv"))}):
        our_rows = read(ours / table)
        their_rows = read(published / table)
        names = names_of(our_rows, their_rows) if our_rows or their_rows else []
        our_cells = cells(our_rows, names)
        their_cells = cells(their_rows, names)
        for row, column in dict.fromkeys([*their_cells, *our_cells]):
            mine = our_cells.get((row, column))
            theirs = their_cells.get((row, column))
            record = {"table": table, "row": row, "column": column}
            record |= {"published": _shown(theirs), "ours": _shown(mine)}
            records.append(record | {"kind": kind_of(mine, theirs, column)})
    return records


def counts(frame: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """How many cells of each kind there are, by these columns of `compare`."""
    compared = frame[frame.table != ""]
    tally = pd.crosstab([compared[name] for name in by], compared.kind)
    return tally[[kind for kind in KINDS if kind in tally]].rename_axis(columns=None).reset_index()


def page(name: str, tier: str, frame: pd.DataFrame) -> str:
    """The page of a comparison: changed conclusions, counts, and runs that one side lacks."""
    alone = frame[frame.table == ""]
    return templates.page(
        name,
        "compare",
        f"Your runs versus the published ones, tier {tier}",
        changed=frame[frame.kind == CHANGED].drop(columns="kind"),
        by_run=counts(frame, ["run"]),
        by_table=counts(frame, ["run", "table"]),
        not_run=alone.run[alone.kind == MISSING_HERE].tolist(),
        not_published=alone.run[alone.kind == MISSING_THERE].tolist(),
    )


# The command.


def main(words: list[str]) -> int:
    """`hs2 compare`; returns the exit status, which with --strict is 1 for another number."""
    parser = argparse.ArgumentParser(
        prog="hs2 compare", description="Compare your reports with the published ones."
    )
    parser.add_argument("run", nargs="*", metavar="RUN[=PUBLISHED]", help="07 or 07@seed-1=07")
    parser.add_argument("--tier", choices=list(graph.TIERS), default="demo", help="default: demo")
    parser.add_argument(
        "--strict", action="store_true", help="fail where a cell differs by more than rounding"
    )
    args = parser.parse_args(words)
    try:
        pairs = {}
        for word in args.run:
            run, _, other = word.partition("=")
            pairs[graph.matching([run])[0]] = graph.matching([other or run])[0]
        frame = compare(args.tier, paths.reports(), paths.published_reports(), pairs)
        file = paths.reports() / "site" / f"compare-{args.tier}.html"
        paths.write(file, page(file.name, args.tier, frame))
    except (OSError, ParameterError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    compared = frame[frame.table != ""]
    tally = compared.kind.value_counts()
    kinds = "; ".join(f"{tally[kind]:,} {kind}" for kind in KINDS if kind in tally)
    runs = compared.run.nunique()
    print(f"{args.tier}, runs compared: {runs}, cells: {len(compared):,} ({kinds or 'none'})")
    changed = compared.run[compared.kind == CHANGED]
    print(f"conclusions changed: {len(changed) or 'none'}", *sorted(set(changed)), sep=", ")
    print(f"page: {file}")
    as_published = len(compared) > 0 and compared.kind.isin([EQUAL, ROUNDING]).all()
    return int(args.strict and not as_published)
