"""The data doctor: all faults of a file, its doubtful rows and what it allows, before any notebook
starts.

    python -m hs2lib.data.check my.jsonl                     # your ratings or pairs, by their columns
    python -m hs2lib.data.check train.jsonl --as helpsteer2  # the rows of a data set

Texts are read row by row and not kept; of earlier rows digests are, to tell a second rating from a
first.
"""

import argparse
import math
import re
import sys
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from hs2lib.data import load, pairs, readers
from hs2lib.data.rows import SHOWN, DataError, Faults, printable, read
from hs2lib.group import ASSISTANT, ATTRIBUTES, USER
from hs2lib.paths import content_key

LONG = 100_000  # characters of a text that few models can read

# What a sound text seldom holds, and what it does.
DOUBTFUL = (
    (re.compile("\ufffd"), "holds U+FFFD, which stands where a character was lost"),
    (re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]"), "holds control characters"),
    (re.compile("[\u202a-\u202e\u2066-\u2069]"), "holds marks that turn the direction of writing"),
    (
        re.compile(r"<\|\w+\|>|</?s>|\[/?INST\]|<extra_id_\d>|<(start|end)_of_turn>"),
        "holds {}, a chat template's mark",
    ),
)


@dataclass
class Examined(Faults):
    """The faults of a file, and its doubtful rows in words, of which the first are kept."""

    doubtful: list[str] = field(default_factory=list)
    doubts: int = 0
    line: int = 0  # the row that was read last

    def doubt(self, column: str | None, what: str) -> None:
        """Note that the row read last is doubtful."""
        self.doubts += 1
        if len(self.doubtful) < SHOWN:
            self.doubtful.append(
                f"  line {self.line}{f', field {column!r}' if column else ''}: {what}"
            )

    def look(self, line: int, row: dict | None) -> None:
        """Look at every text of a row; the markers that make a prompt a conversation are none of it."""
        self.line, waiting = line, [(None, row)]
        while waiting:
            column, value = waiting.pop()
            if isinstance(value, dict):
                waiting += [(column or name, part) for name, part in value.items()]
            elif isinstance(value, list):
                waiting += [(column, part) for part in value]
            elif isinstance(value, str):
                text = (
                    value.replace(USER, "").replace(ASSISTANT, "")
                    if column in ("prompt", "input")
                    else value
                )
                for pattern, what in DOUBTFUL:
                    if match := pattern.search(text):
                        self.doubt(column, what.format(match[0]))
                if len(text) > LONG:
                    self.doubt(
                        column, f"is {len(text):,} characters long: most models cut or refuse it"
                    )


# What the sound rows of a file are and allow, in sentences


def _ratings(path: Path, faults: Examined) -> list[str]:
    groups, raters = {}, set()
    ratings: dict[str, set[float]] = {name: set() for name in ATTRIBUTES}
    for name, row in readers.own_rows(path, faults):
        groups.setdefault(name, set()).add(content_key(row.response))
        raters.add(row.annotator)
        rated = [
            (a, value)
            for a, value in zip(ATTRIBUTES, readers.values(row), strict=True)
            if not math.isnan(value)
        ]
        for attribute, value in rated:
            ratings[attribute].add(value)
        if not rated:
            faults.doubt(None, "has no rating at all: its response is read and never counted")
    several = sum(len(responses) > 1 for responses in groups.values())
    out = [
        f"{sum(map(len, groups.values())):,} responses to {len(groups):,} prompts, {several:,} with two or more"
    ]
    out += [
        f"{name}: not rated; leave it out of `attributes` in 05"
        for name, seen in ratings.items()
        if not seen
    ]
    out += [
        f"{name}: every rating is {seen.pop():g}; R needs two"
        for name, seen in ratings.items()
        if len(seen) == 1
    ]
    hints = (
        (
            len(raters - {None}) < 2,
            "no two annotators are named: 03 needs two ratings of a response",
        ),
        (
            not several,
            "no prompt has two responses: nothing to compare within a prompt (05's pairwise accuracy, DPO)",
        ),
        (
            len(groups) < 20,
            "too few prompts to train and test on: 05 needs some tens, better hundreds",
        ),
    )
    return out + [what for lacking, what in hints if lacking]


def _pairs(path: Path, faults: Examined) -> list[str]:
    subsets, notes = Counter(), {}
    for pair, row in pairs.pairs_of(path, faults):
        subsets[pair.id.partition("/")[0]] += 1
        notes |= dict.fromkeys(row.notes)
        if len({response.text for response in pair.responses}) == 1:
            faults.doubt(None, "chosen and rejected are the same text: it counts as wrong")
    named = ", ".join(list(subsets)[:SHOWN])
    columns = "; ".join(notes) or "as named"
    return [
        f"{subsets.total():,} pairs in {len(subsets):,} subsets: {named}",
        f"columns: {columns}",
    ]


def _groups(name: str, path: Path, faults: Examined) -> list[str]:
    sizes = Counter(
        len(group.responses) for group in load.SETS[name].read(path, faults, name, name)
    )
    return [f"{n:,} groups of {size}" for size, n in sorted(sizes.items())]


KINDS = {name: partial(_groups, name) for name in load.SETS} | {
    "ratings": _ratings,
    "pairs": _pairs,
}


def examine(path: Path, kind: str | None = None) -> tuple[str, Examined, list[str]]:
    """Read a file once: its kind, by default by the columns of its first row, its faults and
    doubts, what it allows.

    Raises DataError for a file that cannot be read to its end.
    """
    faults = Examined(path)
    if kind is None:
        row = next((row for _, row in read(path, Faults(path)) if row), {})
        kind = (
            "pairs"
            if any({*map(str.lower, row)} & {*both} for both in pairs.ANSWERS)
            else "ratings"
        )
    return kind, faults, KINDS[kind](path, faults)


def main(arguments: list[str] | None = None) -> int:
    """Command line: print what a file is; 0 if it is sound, 1 if rows have faults, 2 if it cannot be read."""
    parser = argparse.ArgumentParser(
        prog="python -m hs2lib.data.check", description=__doc__.splitlines()[0]
    )
    parser.add_argument("file", help="JSONL, JSON, CSV (all also .gz) or Parquet")
    parser.add_argument(
        "--as",
        dest="kind",
        choices=list(KINDS),
        help="what its rows are (default: by their columns)",
    )
    args = parser.parse_args(arguments)
    try:
        path, _ = load.own_file(args.file, None)
        kind, faults, about = examine(path, args.kind)
    except DataError as error:
        print(printable(str(error)))
        return 2
    lines = [f"{path}, read as {kind}", *(f"  {sentence}" for sentence in about)]
    if faults.doubts:
        lines += [
            f"{faults.doubts:,} doubtful texts or rows, which are kept as they are:",
            *faults.doubtful,
        ]
    if faults.faults:
        aside = f"A notebook stops here; with strict = False it sets {len(faults.set_aside):,} rows aside."
        lines += [str(faults.error()), aside]
    print(printable("\n".join(lines)))
    return int(bool(faults.faults))


if __name__ == "__main__":
    sys.exit(main())
