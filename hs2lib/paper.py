"""The paper's numbers as data (HelpSteer2, arXiv 2406.08673), read from `hs2lib/paper/*.csv`.

The files hold what the paper prints, digit for digit, one file a table. `released.csv` names rows
of our own, which no paper prints: models that were published and that no card we read ties to a
row. Nothing here is ever computed from a run, and no run writes here. `columns.csv` has the rule by
which `hs2lib.report.verdict` judges the numbers of a column, fixed before any run, with its reason.
"""

import csv
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from hs2lib.group import ATTRIBUTES, named_numbers


class Rule(NamedTuple):
    """How one printed number is judged. Paper: silent (it prints few spreads).

    kind: "exact", a statistic of released rows; "convention", the same where the paper leaves a
    choice open; or "estimate", which a second honest run would not repeat. margin: the largest
    difference that counts as the same. spread: standard deviation of one run, by seed, sampling of
    answers and judge, on the same questions. digits: decimals that the paper prints.
    """

    kind: str
    margin: float
    spread: float
    digits: int


@dataclass(frozen=True)
class Table:
    """One table of the paper: `values[(row, column)]` is a number, or None where the paper prints
    none.

    `rules` has more rows than `values`: those of published models.
    """

    id: str
    title: str
    source: str
    unit: str
    values: dict[tuple[str, str], float | None]
    rules: dict[tuple[str, str], Rule]

    @property
    def rows(self) -> list[str]:
        """Row names in the paper's order."""
        return list(dict.fromkeys(row for row, _ in self.values))

    @property
    def columns(self) -> list[str]:
        """Column names in the paper's order."""
        return list(dict.fromkeys(column for _, column in self.values))


def _rows(path: str) -> list[dict[str, str]]:
    """The rows of a csv file in the folder `paper` beside this module."""
    with (Path(__file__).parent / "paper" / path).open(newline="") as file:
        return list(csv.DictReader(file))


def _rule(room: dict[str, str], cells: dict[str, str], column: str) -> Rule:
    """The rule for one printed number: `room` is its row of columns.csv, `cells` its row of the table."""
    printed = cells[column] or "0.0"  # of a dash nothing is judged
    digits = len(printed.partition(".")[2])
    times = float(
        (cells | {"1": 1, "last digit": 10.0**-digits, "the number": abs(float(printed))})[
            room["times"]
        ]
    )
    return Rule(room["kind"], float(room["margin"]) * times, float(room["spread"]) * times, digits)


def _table(table: str, **about: str) -> Table:
    rooms = {row["column"]: row for row in _rows("columns.csv") if row["table"] == table}
    values, rules = {}, {}
    for cells in _rows(f"{table}.csv"):
        for column, room in rooms.items():
            values[cells["row"], column] = float(cells[column]) if cells[column] else None
            rules[cells["row"], column] = _rule(room, cells, column)
    for row in (row["row"] for row in _rows("released.csv") if row["table"] == table):
        rules |= {
            (row, column): rules[cells["row"], column] for column in rooms
        }  # for its decimals: none is judged
    return Table(table, **about, values=values, rules=rules)


TABLES = {about["table"]: _table(**about) for about in _rows("tables.csv")}

# The policies of our notebooks, of a named run with its name (SFT@open-assistant), and their rows
# of Table 4.
PAPER_ROWS = {row["policy"]: row["row"] for row in _rows("policies.csv")}

# Our measures of a policy: the column of Table 4 that each is, its benchmark, and what that says
# question by question.
MEASURES = _rows("measures.csv")

# Numbers that the text states, by the name the notebooks use.
STATED = {row["name"]: json.loads(row["number"]) for row in _rows("stated.csv")}

# Where tier paper departs from the paper or its code (by file and line: docs/reference.md), and
# what that moves.
DEPARTURES = _rows("departures.csv")

# Weights over the heads of a reward model, by name; an attribute not named has none. Paper:
# appendix H, section 4.3.
_WEIGHTS = _rows("head-weights.csv")
HEAD_WEIGHTS = {
    row["weights"]: {name: float(row[name]) for name in ATTRIBUTES if row[name]} for row in _WEIGHTS
}
GOODNESS = HEAD_WEIGHTS["goodness"]

# RewardBench's 23 subsets: pairs in each, the subsets of each category, and the accuracy that was
# published with the benchmark's results for the paper's two models.
_SUBSETS = _rows("rewardbench-subsets.csv")
REWARDBENCH_COUNTS = {row["subset"]: int(row["pairs"]) for row in _SUBSETS}
_PARTS = dict.fromkeys(row["section"] for row in _SUBSETS)
REWARDBENCH_SECTIONS = {
    part: tuple(row["subset"] for row in _SUBSETS if row["section"] == part) for part in _PARTS
}
_MODELS = (model for model in HEAD_WEIGHTS if model != "goodness")
SUBSET_ACCURACY = {
    model: {row["subset"]: float(row[model]) for row in _SUBSETS} for model in _MODELS
}

# Columns that notebook 13 leaves for the ledger of claims: a judge's verdict on one question, and a
# paired gain.
GRADE, WON, PREFERRED = "judge's grade", "games won, %", "preferred, %"
GAIN = ["gain", "95 % low", "95 % high"]


def value(table: str, row: str, column: str) -> float | None:
    """The number the paper prints in `table` at `row`, `column`; None where it prints a dash. Raises KeyError."""
    return TABLES[table].values[row, column]


def head_weights(text: str, outputs: Sequence[str]) -> tuple[float, ...]:
    """Weights in the order of a model's outputs, by name ("goodness", a model of Table 3) or as
    "quality:1,humor:-.2".

    Paper: appendix H, section 4.3. An output that is not named has weight 0. Raises ValueError for
    outputs that the model does not have.
    """
    try:
        weights = HEAD_WEIGHTS.get(text) or named_numbers(text)
    except ValueError as error:
        raise ValueError(f"{error}; or name one of {', '.join(HEAD_WEIGHTS)}") from None
    if missing := [name for name in weights if name not in outputs]:
        has = f"the model has: {', '.join(outputs)}"
        raise ValueError(
            f"weighting {text!r} needs an output {missing[0]!r}; {has}. Weigh those, as {outputs[0]}:1"
        )
    return tuple(weights.get(name, 0.0) for name in outputs)
