"""The data doctor: all faults of a file, its doubtful rows and what it allows, before any notebook starts.

    python -m hs2lib.data.check my.jsonl                     # your ratings or pairs, by their columns
    python -m hs2lib.data.check train.jsonl --as helpsteer2  # the rows of a data set

Texts are read row by row and not kept; of earlier rows digests are, to tell a second rating from a first.
"""

import argparse
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from hs2lib.data import sources
from hs2lib.data.pairs import ANSWERS, OwnPair, own_pairs, read_as
from hs2lib.data.readers import digest, own_rows
from hs2lib.data.rows import SHOWN, DataError, Faults, read
from hs2lib.group import ASSISTANT, ATTRIBUTES, USER

LONG = 100_000  # characters of a text that few models can read

# What a sound text seldom holds, and what it does.
DOUBTFUL = (
    (re.compile("\ufffd"), "holds U+FFFD, which stands where a character was lost"),
    (re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]"), "holds control characters"),
    (re.compile("[\u202a-\u202e\u2066-\u2069]"), "holds marks that turn the direction of writing"),
    (
        re.compile(r"<\|\w+\|>|</?s>|\[/?INST\]|<extra_id_\d>|<(start|end)_of_turn>"),
        "holds {} as a chat template writes it: it is read as plain text, or as control_text says",
    ),
)


@dataclass
class Examined(Faults):
    """The faults of a file, and its doubtful rows as (line, field, what), of which the first are kept."""

    doubtful: list[tuple[int, str | None, str]] = field(default_factory=list)
    doubts: int = 0
    line: int = 0  # the row that was read last

    def doubt(self, column: str | None, what: str) -> None:
        """Note that the row read last is doubtful."""
        self.doubts += 1
        if len(self.doubtful) < SHOWN:
            self.doubtful.append((self.line, column, what))

    def look(self, line: int, row: dict | None) -> None:
        """Look at every text of a row."""
        self.line = line
        for column, text in _texts(row, None):
            for pattern, what in DOUBTFUL:
                if match := pattern.search(text):
                    self.doubt(column, what.format(match[0]))
            if len(text) > LONG:
                self.doubt(column, f"is {len(text):,} characters long: most models cut or refuse it")


def _texts(value: object, column: str | None) -> Iterator[tuple[str | None, str]]:
    """(column, text) of every text in a row; a prompt without the markers that make it a conversation."""
    waiting = [(column, value)]
    while waiting:
        column, value = waiting.pop()
        if isinstance(value, str):
            if column in ("prompt", "input"):
                value = value.replace(USER, "\n").replace(ASSISTANT, "\n")
            yield column, value
        elif isinstance(value, dict):
            waiting += [(column or name, part) for name, part in value.items()]
        elif isinstance(value, list):
            waiting += [(column, part) for part in value]


# What the sound rows of a file are and allow, in sentences


def _ratings(path: Path, faults: Examined) -> list[str]:
    responses, sizes, raters, present = set(), Counter(), set(), Counter()
    spread: dict[str, set[float]] = {name: set() for name in ATTRIBUTES}
    for _, group, row in own_rows(path, faults):
        if (name := (group, digest(row.response))) not in responses:
            responses.add(name)
            sizes[group] += 1
        raters.add(row.annotator)
        rated = [name for name in ATTRIBUTES if getattr(row, name) is not None]
        present.update(rated)
        for name in rated:
            spread[name] = set(sorted(spread[name] | {getattr(row, name)})[:2])
        if not rated:
            faults.doubt(None, "has no rating at all: its response is read and never counted")
    several = sum(size > 1 for size in sizes.values())
    said = [f"{len(responses):,} responses to {len(sizes):,} prompts, {several:,} with two or more"]
    said += [f"{name}: not rated; leave it out of `attributes` in 05" for name in ATTRIBUTES if not present[name]]
    said += [
        f"{name}: every rating is {spread[name].pop():g}; R needs two" for name in ATTRIBUTES if len(spread[name]) == 1
    ]
    if len(raters - {None}) < 2:
        said.append("no two annotators are named: 03 needs two ratings of a response")
    if not several:
        said.append("no prompt has two responses: nothing to compare within a prompt (05's pairwise accuracy, DPO)")
    if len(sizes) < 20:
        said.append("too few prompts to train and test on: 05 needs some tens, better hundreds")
    return said


def _pairs(path: Path, faults: Examined) -> list[str]:
    subsets = Counter()

    def counted() -> Iterator[OwnPair]:
        for pair, row in own_pairs(path, faults):
            subsets[pair.id.partition("/")[0]] += 1
            if len({response.text for response in pair.responses}) == 1:
                faults.doubt(None, "chosen and rejected are the same text: it counts as judged wrong")
            yield row

    words = read_as(counted())
    said = f"{subsets.total():,} pairs in {len(subsets):,} subsets: {', '.join(list(subsets)[:SHOWN])}"
    return [said, f"columns: {words or 'as named'}"]


def _groups(name: str) -> Callable[[Path, Examined], list[str]]:
    def read_all(path: Path, faults: Examined) -> list[str]:
        read_rows = sources.SETS[name].read
        sizes = Counter(len(group.responses) for group in read_rows(path, faults=faults, prefix=name, source=name))
        return [f"{n:,} groups of {size}" for size, n in sorted(sizes.items())]

    return read_all


KINDS = {"ratings": _ratings, "pairs": _pairs} | {name: _groups(name) for name in sources.SETS if name != "ratings"}


def examine(path: Path, kind: str | None = None) -> tuple[str, Examined, list[str]]:
    """Read a file once: its kind, by default by the columns of its first row, its faults and doubts, what it allows.

    Raises DataError for a file that cannot be read to its end.
    """
    faults = Examined(path)
    if kind is None:
        row = next((row for _, row in read(path, Faults(path)) if row), {})
        names = {name.lower() for name in row}
        kind = "pairs" if any(names & {*both} for both in ANSWERS) else "ratings"
    return kind, faults, KINDS[kind](path, faults)


def main(arguments: list[str] | None = None) -> int:
    """Command line: print what a file is; 0 if it is sound, 1 if rows have faults, 2 if it cannot be read."""
    parser = argparse.ArgumentParser(prog="python -m hs2lib.data.check", description=__doc__.splitlines()[0])
    parser.add_argument("file", help="JSONL, JSON, CSV (all also .gz) or Parquet")
    parser.add_argument("--as", dest="kind", choices=list(KINDS), help="what its rows are (default: by their columns)")
    args = parser.parse_args(arguments)
    try:
        path = sources.own_file(args.file, None)
        kind, faults, said = examine(path, args.kind)
    except DataError as error:
        _show(str(error))
        return 2
    _show(f"{path}, read as {kind}", *(f"  {sentence}" for sentence in said))
    if faults.doubts:
        _show(f"{faults.doubts:,} doubtful texts or rows, which are kept as they are:")
        _show(*(f"  line {line}{f', field {name!r}' if name else ''}: {what}" for line, name, what in faults.doubtful))
    if faults.faults:
        rows = len({aside.line for aside in faults.set_aside})
        _show(str(DataError.listing(path, faults.faults)))
        _show(f"A notebook stops at this file; with strict = False it sets {rows:,} rows aside and counts them.")
    return int(bool(faults.faults))


def _show(*lines: str) -> None:
    """Print lines, with nothing of a file in them that a terminal would obey."""
    for line in "\n".join(lines).split("\n"):
        print("".join(character if character.isprintable() else "\ufffd" for character in line))


if __name__ == "__main__":
    sys.exit(main())
