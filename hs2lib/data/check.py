"""What a file of one's own is, and all its faults.

hs2 check my.csv                            # ratings or pairs, by their columns
hs2 check my.csv --columns prompt=question  # a column under another name
hs2 check my.csv --scale 1-5                # ratings that are not on 0 to 4
hs2 check train.jsonl --as helpsteer2       # the rows of a data set
hs2 check my.csv --example                  # no file yet? this writes forty rows
"""

import argparse
import sys
from collections import Counter
from pathlib import Path

import pandas as pd

from hs2lib.data import load, own, pairs
from hs2lib.data.files import Reading, parse_columns, read_as
from hs2lib.data.rows import DataError, Faults, printable
from hs2lib.paths import content_key, write

# The columns of an example -> whose ratings they have.
EXAMPLE = {"helpful": "helpfulness", "correct": "correctness"}


def _ratings(path: Path, faults: Faults, own_columns: own.OwnColumns) -> list[str]:
    """What own ratings are and allow, in lines."""
    responses: dict[str, set[str]] = {}  # digests by group
    n_rows = 0
    annotators = set()
    for name, row in own.own_rows(path, faults, "ratings", own_columns):
        n_rows += 1
        annotators.add(row.annotator)
        responses.setdefault(name, set()).add(content_key(row.response))
    n_responses = sum(map(len, responses.values()))
    several = sum(len(of_group) > 1 for of_group in responses.values())
    lines = [
        f"{n_responses:,} responses to {len(responses):,} prompts, {several:,} with two or more"
    ]
    if annotators - {None}:
        lines.append(f"{n_rows:,} rows by {len(annotators):,} annotators")
    lines += own_columns.in_words()
    for name, value in own_columns.constant.items():
        lines.append(f"{name}: every rating is {value:g}, so 05 leaves it out")
    if not several:
        lines.append("no prompt has two responses: nothing is compared within a prompt")
    return lines


def _pairs(path: Path, faults: Faults, columns: dict[str, str]) -> list[str]:
    """What own pairs are, in lines."""
    subsets = Counter(
        pair.id.partition("/")[0] for pair, _ in pairs.pairs_of(path, faults, columns)
    )
    by_subset = [f"{name} {number:,}" for name, number in subsets.items()]
    lines = [f"{subsets.total():,} pairs: {', '.join(by_subset)}"]
    if faults.partners:
        lines.append(f"ties, which compare nothing: {len(faults.partners):,}")
    return lines


def _responses(path: Path, faults: Faults, columns: dict[str, str]) -> list[str]:
    """How many responses there are to score, in lines."""
    reading = Reading(path, columns)
    numbers = [len(row.places) for row in reading.rows(faults)]
    return [
        f"columns: {read_as(reading.columns)}",
        f"{sum(numbers):,} responses to {len(numbers):,} prompts",
        "nothing says which response is better: hs2 score can score them",
    ]


def _groups(name: str, path: Path, faults: Faults) -> list[str]:
    """How large the groups of a data set are, in lines."""
    groups = load.SETS[name].read(path, faults, name, name)
    sizes = Counter(len(group.responses) for group in groups)
    return [f"{n:,} groups of {size}" for size, n in sorted(sizes.items())]


def examine(
    path: Path,
    kind: str | None = None,
    attributes: tuple[str, ...] = (),
    scale: str = "",
    columns: dict[str, str] | None = None,
) -> tuple[str, Faults, list[str]]:
    """Read a file: its kind, its faults, and what it is and allows.

    Args:
        path: the file.
        kind: "ratings", "pairs", "responses" or a data set; by default told by the columns.
        attributes, scale, columns: as for `hs2lib.data.own.look`.

    Raises:
        DataError: the file cannot be read to its end, or its columns or scale are not known.
    """
    faults = Faults(path)
    if kind is None:
        kind = Reading(path, columns or {}).kind()
        is_plain = kind == "ratings" and not (attributes or scale)
        reasons = own.without_ratings(path, columns) if is_plain else None
        if reasons is not None:
            lines = _responses(path, faults, columns or {})
            others = ", ".join(f"{name} ({reason})" for name, reason in reasons.items())
            return "responses", faults, [*lines, f"no column holds ratings: {others or 'none'}"]
    if kind == "responses":
        return kind, faults, _responses(path, faults, columns or {})
    if kind == "ratings":
        own_columns = own.look(path, attributes, scale, columns)
        return kind, faults, _ratings(path, faults, own_columns)
    if kind == "pairs":
        return kind, faults, _pairs(path, faults, columns or {})
    if load.SETS[kind].read is None:
        raise DataError(path, None, None, f"{kind} is read from no file", "name another kind")
    return kind, faults, _groups(kind, path, faults)


def write_example(path: Path, n_prompts: int = 20) -> int:
    """Write ratings to try the commands with: generated prompts, two responses each, on 0 to 4.

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
    groups = load.load("helpsteer2", "postcards", n_prompts=4 * n_prompts, seed=1).groups
    one_turn = [group for group in groups if len(group.prompt) == 1]
    rows = []
    for group in one_turn[:n_prompts]:
        for response in group.responses:
            row = {"prompt": group.prompt[0].text, "response": response.text}
            for column, attribute in EXAMPLE.items():
                place = group.attributes.index(attribute)
                row[column] = int(response.labels[place])
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
    parser = argparse.ArgumentParser(
        prog="hs2 check",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("file", help="JSONL, JSON, CSV (all also .gz) or Parquet")
    add(
        "--as",
        dest="kind",
        choices=list(dict.fromkeys(["ratings", "pairs", "responses", *load.SETS])),
        help="what its rows are (default: by their columns)",
    )
    add("--columns", default="", metavar="OURS=THEIRS,..", help="columns under other names")
    add("--scale", default="", help="the lowest and the highest rating, as 1-5 (default: 0-4)")
    add(
        "--attributes",
        default=(),
        type=lambda text: tuple(name.strip() for name in text.split(",") if name.strip()),
        help="the columns of ratings, as clarity,tone (default: all columns of numbers)",
    )
    add("--example", action="store_true", help="write forty generated rows to the file")
    args = parser.parse_args(arguments)
    try:
        if args.example:
            number = write_example(Path(args.file))
            print(f"{args.file}: {number} rows written, generated (small world), rated from 0 to 4")
            return 0
        path, _ = load.own_file(args.file, None)
        columns = parse_columns(args.columns)
        kind, faults, lines = examine(path, args.kind, args.attributes, args.scale, columns)
    except ValueError as error:
        print(printable(str(error)))
        return 2
    print(printable("\n  ".join([f"{path}, read as {kind}", *lines])))
    if faults.faults:
        print(printable(str(faults.error())))
        number = len({fault.line for fault in faults.faults})
        rows = "1 faulty row" if number == 1 else f"{number:,} faulty rows"
        print(f"A run of this file stops here. With -p recipe.strict=false it leaves out {rows}.")
    return 1 if faults.faults else 0


if __name__ == "__main__":
    sys.exit(main())
