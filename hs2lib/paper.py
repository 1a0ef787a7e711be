"""The paper's numbers as data (HelpSteer2, arXiv 2406.08673), read from `hs2lib/paper/*.csv`.

The files hold what the paper prints, digit for digit, one file for each table. Nothing in them is
computed from a run, and no run writes to them.

`released.csv` names rows that no paper prints: models that were published, and that no model card
ties to a row of the paper. `columns.csv` has the rule by which `hs2lib.report.verdict` judges the
numbers of a column, with its reason. The rules were fixed before any run.

Tables of other works (`BEYOND`, as sequel.csv) lie there too, apart from the paper's.
"""

import csv
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from hs2lib.group import ATTRIBUTES, named_numbers


class Rule(NamedTuple):
    """How a printed number is judged. Paper: silent (it prints few spreads).

    `kind` is "exact" for a statistic of released rows, "convention" for one of which the paper
    leaves a choice open, or "estimate" for what a second honest run would not repeat. `margin` is
    the largest difference that counts as the same. `spread` is the standard deviation of a run on
    the same questions, by seed, sampling of answers and judge. `digits` is the number of decimals
    that the paper prints.
    """

    kind: str
    margin: float
    spread: float
    digits: int


@dataclass(frozen=True)
class Table:
    """A table of the paper.

    `values[row, column]` is a number, or None where the paper prints none. `rules` has more rows
    than `values`: those of the published models too.
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


def _rows(file: str) -> list[dict[str, str]]:
    """The rows of a csv file in the folder `paper` beside this module."""
    with (Path(__file__).parent / "paper" / file).open(newline="") as lines:
        return list(csv.DictReader(lines))


def _rows_of(file: str, table: str) -> list[dict[str, str]]:
    """The rows of a csv file that are about a table."""
    return [row for row in _rows(file) if row["table"] == table]


def _rule(about_column: dict[str, str], cells: dict[str, str]) -> Rule:
    """The rule for a printed number.

    The margin and the spread are in units of 1, of the last printed digit, of the number itself, or
    of the number in another column of its row.

    Args:
        about_column: the row of columns.csv about the number's column.
        cells: the number's row of the table.
    """
    # Nothing is judged by the rule of a dash, whose cell is empty.
    printed = cells[about_column["column"]] or "0.0"
    digits = len(printed.partition(".")[2])
    units = {"1": 1, "last digit": 10.0**-digits, "the number": abs(float(printed))}
    times = about_column["times"]
    unit = float(units[times] if times in units else cells[times])
    return Rule(
        kind=about_column["kind"],
        margin=float(about_column["margin"]) * unit,
        spread=float(about_column["spread"]) * unit,
        digits=digits,
    )


def _table(table: str, title: str, source: str, unit: str) -> Table:
    """A table by its id, with what tables.csv says of it."""
    columns = {row["column"]: row for row in _rows_of("columns.csv", table)}
    values = {}
    rules = {}
    for cells in _rows(f"{table}.csv"):
        for column, about_column in columns.items():
            values[cells["row"], column] = float(cells[column]) if cells[column] else None
            rules[cells["row"], column] = _rule(about_column, cells)
    # Nothing is judged by the rules of published models. Their decimals are those of the last row.
    last_row = cells["row"]
    for released in _rows_of("released.csv", table):
        for column in columns:
            rules[released["row"], column] = rules[last_row, column]
    return Table(table, title, source, unit, values, rules)


TABLES = {row["table"]: _table(**row) for row in _rows("tables.csv")}


def _beyond(table: str, title: str, source: str, like: str) -> Table:
    """A table of another work, judged by the rules of a table of the paper with such columns.

    table: its file. like: the paper's table.
    """
    rules_of = TABLES[like].rules
    last_row = TABLES[like].rows[-1]
    values = {}
    rules = {}
    for cells in _rows(f"{table}.csv"):
        for column in TABLES[like].columns:
            if column in cells:
                values[cells["row"], column] = float(cells[column])
                rules[cells["row"], column] = rules_of[last_row, column]
    return Table(table, title, source, TABLES[like].unit, values, rules)


# Tables of other works that runs of ours stand beside. None of their numbers is the paper's.
BEYOND = {
    "sequel": _beyond(
        "sequel",
        "RewardBench accuracy of HelpSteer2-Preference's reward models",
        "arXiv 2410.01257, from a secondary source",
        "table-3",
    )
}


def read_from(table: str) -> dict[str, str]:
    """Row of a table of `BEYOND` -> where it was read; "secondary" is a source other than the work.

    Raises OSError for another table.
    """
    return {row["row"]: row["source"] for row in _rows(f"{table}.csv")}


# The row of Table 4 of each policy of our notebooks. The policy of a named run has the run's name
# in it: SFT@open-assistant.
PAPER_ROWS = {row["policy"]: row["row"] for row in _rows("policies.csv")}

# Our measures of a policy: which column of Table 4 each one is, its benchmark, and what the
# benchmark says of each question.
MEASURES = _rows("measures.csv")

# Numbers that the text states, by the names that the notebooks use.
STATED = {row["name"]: json.loads(row["number"]) for row in _rows("stated.csv")}

# Where tier paper departs from the paper or its code, and what that moves. Files and lines are in
# hs2lib/paper/reference.csv.
DEPARTURES = _rows("departures.csv")

# The rules of the code that the authors published, by part, each with its lines there, its place
# and test here, and what is done otherwise here.
REFERENCE = _rows("reference.csv")

# Every statement of the text with a number or a ranking. `table`, `row` and `column` say what
# settles it: a number of a table of the paper, or of a CSV that a run of `notebook` leaves, which
# must lie from `low` to `high`. `follows` and `working` say what the paper's own numbers say.
CLAIMS = _rows("claims.csv")


def _head_weights(row: dict[str, str]) -> dict[str, float]:
    """The weights in a row of head-weights.csv, by attribute. An empty cell is no weight."""
    return {name: float(row[name]) for name in ATTRIBUTES if row[name]}


# Weights of the heads of a reward model, by name. An attribute that is not named has none.
# Paper: appendix H, section 4.3.
HEAD_WEIGHTS = {row["weights"]: _head_weights(row) for row in _rows("head-weights.csv")}
GOODNESS = HEAD_WEIGHTS["goodness"]

# The 23 subsets of RewardBench.
_SUBSETS = _rows("rewardbench-subsets.csv")

# The number of pairs in each subset.
REWARDBENCH_COUNTS = {row["subset"]: int(row["pairs"]) for row in _SUBSETS}


def _subsets_by_section() -> dict[str, tuple[str, ...]]:
    """The subsets of each category of RewardBench."""
    sections: dict[str, tuple[str, ...]] = {}
    for row in _SUBSETS:
        sections[row["section"]] = (*sections.get(row["section"], ()), row["subset"])
    return sections


REWARDBENCH_SECTIONS = _subsets_by_section()


def _subset_accuracy(model: str) -> dict[str, float]:
    """The accuracy of a model on each subset of RewardBench."""
    return {row["subset"]: float(row[model]) for row in _SUBSETS}


# What was published with the benchmark's results for the two models of the paper.
SUBSET_ACCURACY = {model: _subset_accuracy(model) for model in HEAD_WEIGHTS if model != "goodness"}

# Columns that notebook 13 writes for the ledger of claims: a judge's verdict on a question, and a
# paired gain with its interval.
GRADE = "judge's grade"
WON = "games won, %"
PREFERRED = "preferred, %"


def value(table: str, row: str, column: str) -> float | None:
    """The number that the paper prints in a table; None where it prints a dash.

    Raises KeyError for a table, row or column that there is not.
    """
    return TABLES[table].values[row, column]


def head_weights(text: str, outputs: Sequence[str]) -> tuple[float, ...]:
    """Weights in the order of a model's outputs; an output that is not named has weight 0.

    Paper: appendix H, section 4.3.

    Args:
        text: the name of weights ("goodness", or a model of Table 3), or the weights themselves, as
            "quality:1,humor:-.2".
        outputs: the names of the model's outputs.

    Raises:
        ValueError: the text is neither, or it names an output that the model does not have.
    """
    try:
        weights = HEAD_WEIGHTS.get(text) or named_numbers(text)
    except ValueError as error:
        raise ValueError(f"{error}; or name one of {', '.join(HEAD_WEIGHTS)}") from None
    absent = [name for name in weights if name not in outputs]
    if absent:
        raise ValueError(
            f"weighting {text!r} needs an output {absent[0]!r}; "
            f"the model has: {', '.join(outputs)}. Weigh those, as {outputs[0]}:1"
        )
    return tuple(weights.get(name, 0.0) for name in outputs)
