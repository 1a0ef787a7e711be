"""Compares the tables of two report folders, byte for byte, to show that a rewrite changed no number.

    python benchmarks/same_tables.py BEFORE AFTER    # two folders of one tier, such as reports/smoke of two commits

Every .csv of every notebook is compared. A heading that was renamed is listed in RENAMED, a table whose numbers may
differ in CHANGED with the reason, a column that never agrees in MASKED. All else has to be the same: what differs is
printed, and the exit status is then 1.
"""

import argparse
import csv
import io
import sys
from fnmatch import fnmatch
from pathlib import Path

# notebook/table -> {heading before: heading now}
RENAMED: dict[str, dict[str, str]] = {
    "14_paper_tables_and_figures/claims": {"said": "numbers", "found": "outcome"},
    "14_paper_tables_and_figures/slips": {"found": "outcome"},
}

# notebook/table, or a pattern such as 07_sft/* -> why its numbers may differ
CHANGED: dict[str, str] = {
    f"{notebook}*": "SFT runs through the one trainer, so the policy of 07 differs, and all that begins with it"
    for notebook in ("07_", "08_", "09_", "10_", "11_", "12_", "13_")
}

# notebook/table -> columns that differ between any two runs
MASKED = {"14_paper_tables_and_figures/reports": ["commit"]}


def comparable(content: bytes, headings: dict[str, str], masked: list[str]) -> bytes:
    """The table as bytes, with its headings renamed and the cells of the masked columns emptied."""
    if not headings and not masked:
        return content
    first, *rows = csv.reader(io.StringIO(content.decode(), newline=""))
    first = [headings.get(heading, heading) for heading in first]
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows(
        [first]
        + [["" if heading in masked else cell for heading, cell in zip(first, row, strict=True)] for row in rows]
    )
    return text.getvalue().encode()


def differences(before: Path, after: Path) -> tuple[list[str], list[str], int]:
    """What differs and must not, what differs and may, and how many tables were compared.

    Raises FileNotFoundError when a folder holds no table: nothing would be compared, and all would seem well.
    """
    tables = {}
    for side, folder in (("before", before), ("after", after)):
        tables[side] = {str(p.relative_to(folder).with_suffix("")): p.read_bytes() for p in folder.glob("*/*.csv")}
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
            # The same way for both, so that only what was written into the cells counts.
            new = comparable(tables["after"][name], {heading: heading for heading in RENAMED.get(name, {})}, masked)
            if old == new:
                continue
            line = f"{name}: {first_difference(old, new)}"
        (wrong if reason is None else allowed).append(line if reason is None else f"{line} ({reason})")
    return wrong, allowed, len(names)


def first_difference(old: bytes, new: bytes) -> str:
    """Where two tables differ first, in words."""
    before, after = old.decode().splitlines(), new.decode().splitlines()
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
