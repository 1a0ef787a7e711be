"""`hs2 compare`: which numbers of yours differ from the published ones, and which conclusions do.

    hs2 compare --tier demo                  # every run of yours
    hs2 compare --tier demo 05 07@seed-1=07  # 05, and 07@seed-1 with the published 07
    hs2 compare --tier demo --strict 05      # exit status 1 where a number is another one

Every cell of every CSV table gets one of `KINDS`. The command prints three lines, and writes the
page `reports/site/compare-<tier>.html`.
"""

import argparse
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd

from hs2lib import paths
from hs2lib.report import templates
from hs2lib.report.report import read_table
from hs2lib.runs import graph
from hs2lib.runs.parameters import ParameterError

EQUAL = "equal"  # up to rounding
INSIDE = "moved inside the published interval"
MOVED = "moved"
CHANGED = "conclusion changed"
MISSING = "missing on one side"
KINDS = [EQUAL, INSIDE, MOVED, CHANGED, MISSING]

COLUMNS = ["run", "published run", "table", "row", "column", "published", "ours", "kind"]

# Headings of columns whose words are a conclusion.
CONCLUSIONS = ("verdict", "outcome", "on these rows")


# The cells of a table.


def cells_of(ours: pd.DataFrame, published: pd.DataFrame) -> list[dict]:
    """The cells of two tables side by side: row, column, published, ours.

    A table that is missing has no columns. Rows and columns may stand in another order.
    """
    names = names_of(ours, published)
    theirs = by_name(published, names)
    mine = by_name(ours, names)
    cells = []
    for row, column in theirs | mine:
        values = {"published": theirs.get((row, column)), "ours": mine.get((row, column))}
        cells.append({"row": row, "column": column} | values)
    return cells


def names_of(ours: pd.DataFrame, published: pd.DataFrame) -> list[str]:
    """The columns that name a row: the first ones of text that tell all rows apart, or else all.

    A verdict names a row only where it comes first, in a table that counts verdicts.
    """
    names: list[str] = []
    for column in published.columns.intersection(ours.columns, sort=False):
        values = pd.concat([published[column], ours[column]])
        concludes = column in CONCLUSIONS and column != published.columns[0]
        if not concludes and _numbers(values).isna().all():
            names.append(column)
            if not (ours.duplicated(names).any() or published.duplicated(names).any()):
                break
    return names


def _numbers(cells: pd.Series) -> pd.Series:
    """The cells as numbers; NaN for a text, a dash or an empty cell."""
    return pd.to_numeric(cells, errors="coerce").astype(float)


def by_name(table: pd.DataFrame, names: list[str]) -> dict[tuple[str, str], object]:
    """The other cells by row and column. The second row of a name is called "name (2)"."""
    seen: Counter = Counter()
    cells = {}
    for row in table.to_dict("records"):
        label = ", ".join(str(row.pop(name)) for name in names)
        seen[label] += 1
        numbered = f"{label} ({seen[label]})" if seen[label] > 1 else label
        cells |= {(numbered, column): value for column, value in row.items()}
    return cells


def kinds_of(cells: pd.DataFrame) -> np.ndarray:
    """Which of `KINDS` each cell is.

    By hand: a cell of 0.3 is inside where the two cells after it, of a column "95 % low" and its
    "95 % high", are 0.1 and 0.5 in the published table. A lower bound of -0.1 in place of 0.1 is
    another conclusion, and so is another verdict.
    """
    mine = _numbers(cells.ours)
    theirs = _numbers(cells.published)
    columns = cells.column.astype(object)  # no text at all where only whole runs differ
    is_low = columns.str.contains(r"\blow$")
    is_high = columns.str.contains(r"\bhigh$")
    low_crossed = is_low & ((mine > 0) != (theirs > 0))
    high_crossed = is_high & ((mine < 0) != (theirs < 0))
    kinds = {
        MISSING: cells.ours.isna() | cells.published.isna(),
        # A table has ten digits. A sum of floats that should be 0 is smaller than 1e-12.
        EQUAL: np.isclose(mine, theirs, rtol=1e-9, atol=1e-12) | (cells.ours == cells.published),
        CHANGED: cells.column.isin(CONCLUSIONS) | low_crossed | high_crossed,
        INSIDE: is_low.shift(-1) & mine.between(theirs.shift(-1), theirs.shift(-2)),
    }
    return np.select(list(kinds.values()), list(kinds), MOVED)


# Runs.


def complete(folder: Path) -> list[str]:
    """The runs with a complete report in a folder of one tier, in order; none made by hand."""
    names = [file.parent.name for file in folder.glob("[0-9]*/manifest.json")]
    return sorted(name for name in names if not name.endswith(f"@{graph.BY_HAND}"))


def compare(
    tier: str, ours: Path, published: Path, pairs: dict[str, str] | None = None
) -> pd.DataFrame:
    """Every cell of the tables of our runs and of the published ones: a row with `COLUMNS`.

    A run that one side lacks is one row without a table.

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
    records = []
    for run, other in (pairs or {run: run for run in sorted({*here, *there})}).items():
        folders = [ours / tier / run, published / tier / other]
        if run in here and other in there:
            cells = cells_of_reports(*folders)
        elif pairs:
            missing = folders[0] if run not in here else folders[1]
            raise FileNotFoundError(f"no complete report to compare in {missing}")
        else:
            cells = [{"table": "", "ours" if run in here else "published": run}]
        records += [{"run": run, "published run": other} | cell for cell in cells]
    frame = pd.DataFrame(records, columns=COLUMNS)
    frame["kind"] = kinds_of(frame)
    return frame.dropna(subset=["published", "ours"], how="all").fillna("")


def cells_of_reports(ours: Path, published: Path) -> list[dict]:
    """The cells of all tables of two reports: table, and as `cells_of`."""
    cells = []
    for name in sorted({file.name for file in (*published.glob("*.csv"), *ours.glob("*.csv"))}):
        files = [ours / name, published / name]
        tables = [read_table(file) if file.exists() else pd.DataFrame() for file in files]
        cells += [{"table": name} | cell for cell in cells_of(*tables)]
    return cells


def page(name: str, tier: str, frame: pd.DataFrame) -> str:
    """The page of a comparison: changed conclusions, counts, and runs that one side lacks."""
    compared = frame[frame.table != ""]
    alone = frame[frame.table == ""]
    counts = pd.crosstab([compared.run, compared.table], compared.kind)
    return templates.page(
        name,
        "compare",
        f"Your runs versus the published ones, tier {tier}",
        changed=frame[frame.kind == CHANGED].drop(columns="kind"),
        counts=counts.reindex(columns=KINDS, fill_value=0).reset_index(),
        not_run=alone.published[alone.ours == ""].tolist(),
        not_published=alone.ours[alone.published == ""].tolist(),
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
    file = paths.reports() / "site" / f"compare-{args.tier}.html"
    try:
        pairs = {}
        for word in args.run:
            run, _, other = word.partition("=")
            pairs[graph.matching([run])[0]] = graph.matching([other or run])[0]
        frame = compare(args.tier, paths.reports(), paths.published_reports(), pairs)
        paths.write(file, page(file.name, args.tier, frame))
    except (OSError, ParameterError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    compared = frame[frame.table != ""]
    kinds = "; ".join(f"{sum(compared.kind == kind):,} {kind}" for kind in KINDS)
    runs = compared.run.nunique()
    print(f"{args.tier}, runs compared: {runs}, cells: {len(compared):,} ({kinds})")
    changed = compared.run[compared.kind == CHANGED]
    print(f"conclusions changed: {len(changed) or 'none'}", *sorted(set(changed)), sep=", ")
    print(f"page: {file}")
    is_as_published = len(compared) > 0 and (compared.kind == EQUAL).all()
    return int(args.strict and not is_as_published)
