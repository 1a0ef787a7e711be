"""The data doctor: all faults of a file, its doubtful rows and what it allows.

    hs2 check my.jsonl                     # ratings or pairs, by their columns
    hs2 check my.csv --scale 1-5           # ratings whose scale cannot be told
    hs2 check train.jsonl --as helpsteer2  # the rows of a data set
    hs2 check my.csv --example             # no file yet? this writes forty rows

It is meant to be run before any notebook starts. Texts are read row by row and not kept. Of earlier
rows digests are kept, to tell a second rating from a first.
"""

import argparse
import math
import re
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path

import pandas as pd

from hs2lib.data import load, own, pairs, rated
from hs2lib.data.layouts import has_several
from hs2lib.data.rows import SHOWN, DataError, Faults, printable, read
from hs2lib.group import ASSISTANT, USER
from hs2lib.paths import content_key, write

LONG = 100_000  # characters of a text that few models can read

# The columns of an example -> whose ratings they have.
EXAMPLE = {"helpful": "helpfulness", "correct": "correctness"}

# What a sound text seldom holds: (pattern, what such a text does, with {} for what matches).
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
    """The faults of a file, and its doubtful texts and rows.

    `doubtful` has the first of these, in words, `doubts` the number of all. `line` is that of the
    row that was read last.
    """

    doubtful: list[str] = field(default_factory=list)
    doubts: int = 0
    line: int = 0

    def doubt(self, column: str | None, what: str) -> None:
        """Note that the row read last, or a column of it, is doubtful."""
        self.doubts += 1
        if len(self.doubtful) < SHOWN:
            place = f"line {self.line}"
            if column:
                place += f", field {column!r}"
            self.doubtful.append(f"  {place}: {what}")

    def look(self, line: int, row: dict | None) -> None:
        """Look at every text of a row."""
        self.line = line
        waiting: list[tuple[str | None, object]] = [(None, row)]
        while waiting:
            column, value = waiting.pop()
            if isinstance(value, dict):
                waiting += [(column or name, part) for name, part in value.items()]
            elif isinstance(value, list):
                waiting += [(column, part) for part in value]
            elif isinstance(value, str):
                self._look_at_text(column, value)

    def _look_at_text(self, column: str | None, text: str) -> None:
        """Note what is doubtful in a text.

        The markers that make a prompt a conversation are no part of it.
        """
        if column in ("prompt", "input"):
            unmarked = text.replace(USER, "").replace(ASSISTANT, "")
        else:
            unmarked = text
        for pattern, what in DOUBTFUL:
            if match := pattern.search(unmarked):
                self.doubt(column, what.format(match[0]))
        if len(unmarked) > LONG:
            self.doubt(
                column, f"is {len(unmarked):,} characters long: most models cut or refuse it"
            )


# What the sound rows of a file are and allow, in sentences


def _ratings(path: Path, faults: Examined, **options: object) -> list[str]:
    """What own ratings are and allow; options: as for `hs2lib.data.own.look`."""
    own_columns = own.look(path, **options)
    responses: dict[str, set[str]] = {}  # digests by group
    annotators: set[str | None] = set()
    ratings: dict[str, set[float]] = {name: set() for name in own_columns.attributes}
    for name, row in rated.own_rows(path, faults, "ratings", own_columns):
        responses.setdefault(name, set()).add(content_key(row.response))
        annotators.add(row.annotator)
        is_rated = False
        for attribute, value in zip(own_columns.attributes, row.values, strict=True):
            if not math.isnan(value):
                is_rated = True
                if len(ratings[attribute]) < 2:
                    ratings[attribute].add(value)
        if not is_rated:
            faults.doubt(None, "has no rating at all: its response is read and never counted")
    n_responses = sum(map(len, responses.values()))
    several = sum(len(of_group) > 1 for of_group in responses.values())
    sentences = [
        f"{n_responses:,} responses to {len(responses):,} prompts, {several:,} with two or more"
    ]
    sentences += own_columns.in_words()
    for name, seen in ratings.items():
        if not seen:
            sentences.append(f"{name}: not rated; 05 leaves it out")
    for name, seen in ratings.items():
        if len(seen) == 1:
            value = seen.pop()
            sentences.append(
                f"{name}: every rating is {value:g}; R needs two, and 05 leaves it out"
            )
    if len(annotators - {None}) < 2:
        sentences.append("no two annotators are named: 03 needs two ratings of a response")
    if not several:
        sentences.append(
            "no prompt has two responses: "
            "nothing to compare within a prompt (05's pairwise accuracy, DPO)"
        )
    if len(responses) < 20:
        sentences.append(
            "too few prompts to train and test on: 05 needs some tens, better hundreds"
        )
    return sentences


def _pairs(path: Path, faults: Examined) -> list[str]:
    """What own pairs are, and how their columns were read."""
    subsets: Counter[str] = Counter()
    notes: dict[str, None] = {}  # in the order in which they first occur
    for pair, row in pairs.pairs_of(path, faults):
        subsets[pair.id.partition("/")[0]] += 1
        notes |= dict.fromkeys(row.notes)
        if len({response.text for response in pair.responses}) == 1:
            faults.doubt(None, "chosen and rejected are the same text: it counts as wrong")
    names = ", ".join(list(subsets)[:SHOWN])
    columns = "; ".join(notes) or "as named"
    sentences = [
        f"{subsets.total():,} pairs in {len(subsets):,} subsets: {names}",
        f"columns: {columns}",
    ]
    if faults.partners:
        sentences.append(f"ties, which compare nothing: {len(faults.partners):,}")
    return sentences


def _groups(name: str, path: Path, faults: Examined) -> list[str]:
    """How large the groups of a data set are."""
    groups = load.SETS[name].read(path, faults, name, name)
    sizes = Counter(len(group.responses) for group in groups)
    return [f"{n:,} groups of {size}" for size, n in sorted(sizes.items())]


# What says, by the kind of a file, what it is and allows.
KINDS: dict[str, Callable[..., list[str]]] = {
    **{name: partial(_groups, name) for name in load.SETS},
    "ratings": _ratings,
    "pairs": _pairs,
}


def examine(
    path: Path, kind: str | None = None, **options: object
) -> tuple[str, Examined, list[str]]:
    """Read a file: its kind, its faults and doubts, and what it is and allows.

    Args:
        path: the file.
        kind: one of `KINDS`, by default by the columns of its first rows.
        options: of ratings, as for `hs2lib.data.own.look`.

    Raises:
        DataError: the file cannot be read to its end, or its ratings have no scale.
    """
    faults = Examined(path)
    if kind is None:
        kind = kind_of(path)
    if kind != "ratings":
        options = {}
    return kind, faults, KINDS[kind](path, faults, **options)


def kind_of(path: Path) -> str:
    """Whether a file has pairs or ratings, by the columns of the first rows that can be read.

    One row may lack its responses.
    """
    rows = (row for _, row in read(path, Faults(path)) if row)
    return "pairs" if any(map(has_several, islice(rows, SHOWN))) else "ratings"


def write_example(path: Path, n_prompts: int = 20) -> int:
    """Write ratings to try the commands with: generated prompts, two responses each, on 1 to 5.

    Args:
        path: of the CSV file.
        n_prompts: how many.

    Returns:
        The number of rows.

    Raises:
        DataError: the file is there already, or cannot be written.
    """
    if path.exists():
        raise DataError(path, None, None, "is there already", "name a new file")
    groups = load.load("helpsteer2", "embedded", n_prompts=4 * n_prompts, seed=1).groups
    one_turn = [group for group in groups if len(group.prompt) == 1]
    rows = []
    for group in one_turn[:n_prompts]:
        for response in group.responses:
            row = {"prompt": group.prompt[0].text, "response": response.text}
            for column, attribute in EXAMPLE.items():
                place = group.attributes.index(attribute)
                row[column] = 1 + int(response.labels[place])  # 0 to 4 as 1 to 5
            rows.append(row)
    try:
        write(path, pd.DataFrame(rows).to_csv(index=False))
    except OSError as error:
        raise DataError(
            path, None, None, f"cannot be written ({error.strerror})", "name another file"
        ) from None
    return len(rows)


def main(arguments: list[str] | None = None) -> int:
    """Command line: print what a file is.

    Returns 0 if it is sound, 1 if rows have faults, 2 if it cannot be read.
    """
    parser = argparse.ArgumentParser(prog="hs2 check", description=__doc__.splitlines()[0])
    parser.add_argument("file", help="JSONL, JSON, CSV (all also .gz) or Parquet")
    parser.add_argument(
        "--as",
        dest="kind",
        choices=list(KINDS),
        help="what its rows are (default: by their columns)",
    )
    parser.add_argument(
        "--scale",
        default="",
        help="the lowest and the highest rating, as 1-5 (default: by the values)",
    )
    parser.add_argument(
        "--attributes",
        default=[],
        type=lambda text: [name.strip() for name in text.split(",") if name.strip()],
        help="the columns of ratings, as clarity,tone (default: all columns of numbers)",
    )
    parser.add_argument(
        "--example",
        action="store_true",
        help="write forty generated rows to the file, to try the commands with",
    )
    args = parser.parse_args(arguments)
    try:
        if args.example:
            number = write_example(Path(args.file))
            print(f"{args.file}: {number} rows written, generated (small world), rated from 1 to 5")
            return 0
        path, _ = load.own_file(args.file, None)
        kind, faults, sentences = examine(
            path, args.kind, attributes=args.attributes, scale=args.scale
        )
    except DataError as error:
        print(printable(str(error)))
        return 2
    lines = [f"{path}, read as {kind}"]
    lines += [f"  {sentence}" for sentence in sentences]
    if faults.doubts:
        lines.append(f"{faults.doubts:,} doubtful texts or rows, which are kept as they are:")
        lines += faults.doubtful
    if faults.faults:
        lines.append(str(faults.error()))
        lines.append(
            "A notebook stops here; "
            f"with strict = False it sets {len(faults.set_aside):,} rows aside."
        )
    print(printable("\n".join(lines)))
    return 1 if faults.faults else 0


if __name__ == "__main__":
    sys.exit(main())
