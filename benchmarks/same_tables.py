"""Compares the tables of two report folders, cell by cell, to show that a rewrite changed no
number.

    python benchmarks/same_tables.py BEFORE AFTER    # two folders of one tier, such as reports/smoke of two commits

Every .csv of every notebook is compared. Rows and columns may stand in another order. Words that
were renamed are put into today's (`hs2lib.launch.compare.renamed`; a heading of one table alone in
RENAMED); a table whose numbers may differ is listed in CHANGED with the reason, a column that never
agrees in MASKED. All else has to be the same: what differs is printed, and the exit status is then
1.
"""

import argparse
import csv
import io
import sys
from fnmatch import fnmatch
from pathlib import Path

from hs2lib.launch.compare import renamed

# notebook/table -> {heading before: heading now}
RENAMED: dict[str, dict[str, str]] = {}

# notebook/table, or a pattern such as 07_sft/* -> why its numbers may differ
CHANGED: dict[str, str] = {
    "09_iterative_dpo/picks": "the truth is weighed in float64, was float32: the eighth digit",
    "09_iterative_dpo/rounds": "the truth is weighed in float64, was float32: the eighth digit",
    "14_paper_tables_and_figures/claims": "the words of what contradicts a claim; two claims are contradicted now",
    "14_paper_tables_and_figures/departures": "points of truth, were points of gold",
    "14_paper_tables_and_figures/figures": "captions in today's words",
}

# notebook/table -> columns that differ between any two runs
OF_14 = (
    "reports",
    "table-1",
    "table-2",
    "table-3",
    "table-4",
    "table-5",
    "small-world-table-3",
    "small-world-table-4",
)
MASKED = {f"14_paper_tables_and_figures/{name}": ["commit", "provenance", "from"] for name in OF_14}


def comparable(content: bytes, headings: dict[str, str], masked: list[str]) -> list[list[str]]:
    """The table with rows and columns in one order, its words those of today, without the masked columns."""
    first, *rows = csv.reader(io.StringIO(content.decode(), newline=""))
    today = [renamed(headings.get(heading, heading)) for heading in first]
    order = [
        at for at in sorted(range(len(first)), key=lambda at: today[at]) if today[at] not in masked
    ]
    cells = []
    for row in rows:
        cells.append([renamed(row[at], first[at]) for at in order])
    return [[today[at] for at in order], *sorted(cells)]


def differences(before: Path, after: Path) -> tuple[list[str], list[str], int]:
    """What differs and must not, what differs and may, and how many tables were compared.

    Raises FileNotFoundError when a folder holds no table: nothing would be compared, and all would
    seem well.
    """
    tables = {}
    for side, folder in (("before", before), ("after", after)):
        tables[side] = {
            str(p.relative_to(folder).with_suffix("")): p.read_bytes()
            for p in folder.glob("*/*.csv")
        }
        if not tables[side]:
            raise FileNotFoundError(f"no table (notebook/table.csv) in {folder}")
    wrong, allowed = [], []
    names = sorted(tables["before"].keys() | tables["after"].keys())
    for name in names:
        reason = next((why for pattern, why in CHANGED.items() if fnmatch(name, pattern)), None)
        if name not in tables["after"] or name not in tables["before"]:
            line = f"{name}: only in {after if name in tables['after'] else before}"
        else:
            masked = MASKED.get(name, [])
            old = comparable(tables["before"][name], RENAMED.get(name, {}), masked)
            new = comparable(tables["after"][name], {}, masked)
            if old == new:
                continue
            line = f"{name}: {first_difference(old, new)}"
        (wrong if reason is None else allowed).append(
            line if reason is None else f"{line} ({reason})"
        )
    return wrong, allowed, len(names)


def first_difference(before: list[list[str]], after: list[list[str]]) -> str:
    """Where two tables differ first, in words; lines are counted after both were sorted."""
    for number, (one, other) in enumerate(zip(before, after, strict=False), 1):
        if one != other:
            return f"line {number} was {one!r} and is {other!r}"
    return f"{len(before)} lines before, {len(after)} now"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    folders = parser.parse_args(arguments)
    wrong, allowed, compared = differences(folders.before, folders.after)
    for line in allowed:
        print(f"may differ: {line}")
    for line in wrong:
        print(f"DIFFERS: {line}")
    print(f"{compared} tables: {len(wrong)} differ and must not, {len(allowed)} differ and may")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
