"""The rows of a file with their scores, as JSONL, CSV or Parquet, written beside and renamed."""

import csv
import json
import os
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

from hs2lib.data.files import FileRow, PromptFile
from hs2lib.data.rows import DataError
from hs2lib.paths import replacing

# What --out may end in.
KINDS = (".jsonl", ".csv", ".parquet")


def check(out: Path, file: Path) -> None:
    """Raise DataError where scores of a file cannot be written to `out`."""
    if out.suffix not in KINDS:
        raise DataError(
            out,
            None,
            None,
            f"unknown kind of file {out.suffix or out.name!r}",
            f"let --out end in one of {', '.join(KINDS)}",
        )
    if out.resolve() == file.resolve():
        raise DataError(out, None, None, "it is the file that is read", "name another --out")
    if out.is_dir():
        raise DataError(out, None, None, "it is a folder", "name a file in it with --out")
    folders = out.absolute().parents
    there = next(place for place in folders if place.exists())
    if not there.is_dir() or not os.access(there, os.W_OK):
        what = "may not be written to" if there.is_dir() else "is no folder"
        raise DataError(out, None, None, f"{there} {what}", "name another --out")
    kept = kept_beside(out)
    if kept.exists() and not kept.is_dir():
        what = f"scores are kept in {kept}, which is a file"
        raise DataError(out, None, None, what, "move it, or name another --out")


def kept_beside(out: Path) -> Path:
    """The hidden folder beside a file in which its scores are kept until it is whole."""
    return out.with_name(f".{out.name}.kept")


def default_name(file: Path) -> str:
    """What the file of scores is called where nobody says it: my.scored.csv for my.csv."""
    name = file.name[:-3] if file.name.lower().endswith(".gz") else file.name
    suffix = Path(name).suffix.lower()
    return f"{Path(name).stem}.scored{suffix if suffix in KINDS else '.jsonl'}"


def columns(row: FileRow, name: str, outputs: Sequence[str] = ()) -> dict[str, list[str]]:
    """The columns of the scores of a row, by the column of the responses that they are of.

    One response has `score`. Of several columns each has one of its own: score_chosen and
    score_rejected; a list of responses has a list of scores, score_responses. There is the overall
    score, if there is one, and then each output's.

    Args:
        row: of a file.
        name: of the columns, "score".
        outputs: the suffix of each value of a response: "" for the overall score, or the name of an
            output.
    """
    named = {}
    for column, number in row.places:
        is_alone = len(row.places) == 1 and number is None
        base = name if is_alone else f"{name}_{column}"
        named[column] = [f"{base}_{output}" if output else base for output in outputs]
    return named


def check_columns(file: PromptFile, name: str, outputs: Sequence[str] = ("",)) -> None:
    """Raise DataError where the file has a column that scores would be written to."""
    for row in file.rows:
        for added in columns(row, name, outputs).values():
            for column in added:
                if column in row.row:
                    raise DataError(
                        file.path,
                        row.line,
                        column,
                        "the file has this column already",
                        "name the new ones with --column NAME",
                    )


def scored_rows(
    file: PromptFile,
    values: Iterable[Sequence[Sequence[float]] | None],
    name: str,
    outputs: Sequence[str],
) -> list[dict[str, Any]]:
    """The rows of the file with the columns of their scores.

    Args:
        file: the rows.
        values: of each row [G][outputs], None where it was not scored. A nan is no score.
        name: of the columns.
        outputs: as for `columns`.
    """
    rows = []
    for row, of_row in zip(file.rows, values, strict=True):
        added: dict[str, Any] = {}
        named = columns(row, name, outputs)
        for place, (column, number) in enumerate(row.places):
            for k, added_column in enumerate(named[column]):
                score = None if of_row is None else _rounded(of_row[place][k])
                if number is None:
                    added[added_column] = score
                else:
                    added.setdefault(added_column, []).append(score)
        rows.append(row.row | added)
    return rows


def _rounded(value: float) -> float | None:
    """A float32 in as many digits as it has; None for nan."""
    return None if value != value else float(f"{value:.9g}")


def check_rows(out: Path, rows: Sequence[dict[str, Any]], source: Path) -> None:
    """Raise DataError where Parquet has no column for what is in rows; arguments as of `write`.

    It is called before anything is scored, and writes to nowhere.
    """
    if out.suffix == ".parquet":
        # An open file and no path: of a path pyarrow removes what it could not write.
        with open(os.devnull, "wb") as nowhere:
            _write_parquet(nowhere, rows, out, source)


def write(out: Path, rows: Sequence[dict[str, Any]], source: Path) -> None:
    """Write rows to a file, as what its name ends in says.

    Args:
        out: the file.
        rows: with all their columns.
        source: the file that they were read from. The types of its columns are kept in Parquet.

    Raises:
        DataError: Parquet has no column for what is in them.
    """
    with replacing(out) as partial:
        if out.suffix == ".csv":
            _write_csv(partial, rows)
        elif out.suffix == ".parquet":
            _write_parquet(partial, rows, out, source)
        else:
            with partial.open("w", encoding="utf-8") as file:
                for row in rows:
                    file.write(_json(row) + "\n")


def _json(value: object) -> str:
    """A value as JSON; what JSON has not, as a date of Parquet, as text."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    try:
        text.encode()
    except UnicodeEncodeError:  # half a surrogate pair
        return json.dumps(value, default=str)
    return text


def _names(rows: Sequence[dict[str, Any]]) -> list[str]:
    """The columns of all rows, in the order in which they first occur."""
    return list(dict.fromkeys(chain.from_iterable(rows)))


def _write_csv(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Rows as CSV; a list or an object is JSON in its cell."""
    with path.open("w", encoding="utf-8", errors="backslashreplace", newline="") as file:
        writer = csv.DictWriter(file, _names(rows))
        writer.writeheader()
        for row in rows:
            nested = {k: _json(v) for k, v in row.items() if isinstance(v, dict | list)}
            writer.writerow(row | nested)


def _write_parquet(
    target: Path | BinaryIO, rows: Sequence[dict[str, Any]], out: Path, source: Path
) -> None:
    """Rows as Parquet. Raises DataError, as `write`, for the file `out`."""
    import pyarrow.parquet  # here: the other formats do not need it, and it takes a while to import

    types = {}
    if source.suffix.lower() == ".parquet":
        schema = pyarrow.parquet.read_schema(source)
        types = {name: schema.field(name).type for name in schema.names}
    try:
        arrays = {}
        for name in _names(rows):
            arrays[name] = pyarrow.array([row.get(name) for row in rows], types.get(name))
        pyarrow.parquet.write_table(pyarrow.table(arrays), target)
    except (pyarrow.ArrowException, UnicodeEncodeError, OverflowError) as error:
        raise DataError(
            out,
            None,
            None,
            f"the rows do not fit into Parquet ({str(error).splitlines()[0]})",
            "let --out end in .jsonl",
        ) from None
