"""Numbers of later papers and boards as data, read from `hs2lib/beyond/*.csv`.

    BEYOND["rm-bench"].values["ArmoRM", "overall"]   # 67.7
    ROWS["rm-bench"]["ArmoRM"].mark                  # "verified", or "secondary"

These are none of the paper's (`hs2lib.paper`), and no claim of the ledger reads them. A row is
*verified* where the number was read at its source or worked out again from what was published, and
*secondary* where somebody else quotes it. `columns.csv` has the rule by which
`hs2lib.report.verdict` judges the numbers of a column, with its reason. The rules were fixed before
any run.
"""

import csv
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from hs2lib.paper import Rule, Table

MARKS = ("verified", "secondary")


class Row(NamedTuple):
    """Where the numbers of a published model come from.

    mark: one of `MARKS`.
    source: where they were read.
    note: what a reader should know of them, or "".
    """

    mark: str
    source: str
    note: str


def _rows(file: str) -> list[dict[str, str]]:
    """The rows of a csv file in the folder `beyond` beside this module."""
    with (Path(__file__).parent / "beyond" / file).open(newline="") as lines:
        return list(csv.DictReader(lines))


def _rule(about_column: dict[str, str], cell: str) -> Rule:
    """The rule for a printed number.

    about_column: the row of columns.csv about the number's column. cell: as it is printed.
    """
    return Rule(
        kind="estimate",
        margin=float(about_column["margin"]),
        spread=float(about_column["spread"]),
        digits=len(cell.partition(".")[2]),
    )


def _table(table: str, title: str, source: str, unit: str) -> Table:
    """A table by its id, with what tables.csv says of it."""
    values = {}
    rules = {}
    about_columns = [row for row in _rows("columns.csv") if row["table"] == table]
    for cells in _rows(f"{table}.csv"):
        for about_column in about_columns:
            column = about_column["column"]
            cell = cells[column]
            values[cells["row"], column] = float(cell) if cell else None
            rules[cells["row"], column] = _rule(about_column, cell)
    return Table(table, title, source, unit, values, rules)


def _about_rows(table: str) -> dict[str, Row]:
    """Where the numbers of each row of a table come from."""
    about = {}
    for cells in _rows(f"{table}.csv"):
        about[cells["row"]] = Row(cells["mark"], cells["source"], cells["note"])
    return about


BEYOND = {row["table"]: _table(**row) for row in _rows("tables.csv")}

ROWS = {table: _about_rows(table) for table in BEYOND}


def anchors() -> pd.DataFrame:
    """Shares of HelpSteer2's pairs that models of others order as people do.

    Columns: model, value (a share), pairs (how many, without ties), source.
    """
    return pd.read_csv(Path(__file__).parent / "beyond" / "anchors.csv")
