"""Rows of a file with their line numbers, and the one error for everything that can be wrong with them.

JSONL and JSON (plain or gzip), CSV and Parquet come out the same way: (line number, row as a dict). Nothing is
repaired and nothing is skipped: a faulty row raises `DataError`, or with strict=False is set aside and reported.
"""

import csv
import gzip
import io
import json
import math
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path


class DataError(ValueError):
    """Faulty or absent data; the message names file, line, field, what arrived and the fix."""

    def __init__(self, file, line: int | None, column: str | None, what: str, fix: str):
        self.file, self.line, self.field, self.what, self.fix = str(file), line, column, what, fix
        where = str(file) + (f", line {line}" if line else "") + (f", field {column!r}" if column else "")
        super().__init__(f"{where}: {what}. Fix: {fix}.")


class Fault(ValueError):
    """What is wrong with one row, before the file and the line are known: (field, what arrived, the fix)."""


@dataclass(frozen=True, slots=True)
class SetAside:
    """A row left out under strict=False; `field` is None where the whole row is at fault."""

    file: str
    line: int
    field: str | None
    reason: str


@dataclass
class Faults:
    """Where faults of one file go: strict raises at the first, otherwise each is written down."""

    file: Path
    strict: bool = True
    set_aside: list[SetAside] = field(default_factory=list)

    def add(self, line: int, fault: Fault) -> None:
        """Report a faulty row; raises DataError if strict."""
        column, what, fix = fault.args
        if self.strict:
            raise DataError(self.file, line, column, what, f"{fix}, or set such rows aside with strict=False")
        self.set_aside.append(SetAside(str(self.file), line, column, what))


def read(path: Path, faults: Faults) -> Iterator[tuple[int, dict | None]]:
    """(line, row) for every row of a JSONL, JSON, CSV or Parquet file; row is None where it could not be read.

    `line` counts from 1; for Parquet and JSON arrays it is the number of the row. Raises DataError for a file that
    is empty, truncated or not of its format, strict or not: how much is missing from it cannot be counted.
    """
    name = path.name.removesuffix(".gz")
    readers = {".jsonl": _jsonl, ".json": _json, ".csv": _csv, ".parquet": _parquet}
    if Path(name).suffix not in readers:
        fix = f"use one of {', '.join(readers)} (all but Parquet also as .gz)"
        raise DataError(path, None, None, f"unknown kind of file {path.suffix or path.name!r}", fix)
    empty = True
    for line, row in readers[Path(name).suffix](path, faults):
        empty = False
        yield line, row
    if empty:
        raise DataError(path, None, None, "the file has no rows", "download or write it again")


def _jsonl(path: Path, faults: Faults) -> Iterator[tuple[int, dict | None]]:
    for number, line in _lines(path):
        try:
            row = _object(line.decode())
        except (ValueError, RecursionError) as error:
            faults.add(number, _unreadable(line, error))
            row = None
        yield number, row


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    number = 0
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            for number, line in enumerate(file, 1):
                yield number, line
    except EOFError:
        what = "the gzip stream ends before its end mark (a truncated download?)"
        raise DataError(path, number + 1, None, what, "download the file again") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        fix = "download the file again (in a git clone: git lfs pull); if it is plain text, take .gz off its name"
        raise DataError(path, number + 1, None, f"this is not a sound gzip file ({error})", fix) from None


def _unique(pairs: list[tuple[str, object]]) -> dict:
    """An object whose keys are all different: json itself would silently keep the last of two values."""
    row = dict(pairs)
    if len(row) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise Fault(twice, "this column is given twice in the row", "keep one of the two values")
    return row


# Built once: json.loads with a keyword builds a new decoder for every row.
_object = json.JSONDecoder(object_pairs_hook=_unique).decode


def _unreadable(line: bytes, error: Exception) -> Fault:
    """Why a line is not a row: blank, broken UTF-8 (and in which field), or bad JSON."""
    if isinstance(error, Fault):
        return error
    if not line.strip():
        return Fault(None, "the line is blank", "remove blank lines")
    if isinstance(error, UnicodeDecodeError):
        what = f"broken UTF-8, byte 0x{line[error.start]:02x} at column {error.start + 1} of the line"
        return Fault(_field_of(line, "\ufffd"), what, "save the file as UTF-8")
    if isinstance(error, json.JSONDecodeError):
        # Not error.colno: json counts columns anew after the line break at the end.
        column = min(error.pos, len(error.doc.rstrip())) + 1
        what = f"bad JSON at column {column}: {error.msg}"
        return Fault(None, what, "write one complete JSON object a line, for example with json.dumps")
    return Fault(None, f"bad JSON: {error or 'nested too deeply'}", "write one plain JSON object a line")


def _field_of(line: bytes, mark: str) -> str | None:
    """The column in which decoding put a replacement character, if the rest of the line is sound JSON."""
    try:
        row = json.loads(line.decode(errors="replace"))
        return next(name for name, value in row.items() if mark in str(value))
    except (ValueError, AttributeError, StopIteration):
        return None


def _whole_text(path: Path) -> str:
    raw = b"".join(line for _, line in _lines(path))
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        what = f"broken UTF-8, byte 0x{raw[error.start]:02x}"
        raise DataError(path, line, None, what, "save the file as UTF-8") from None


def _json(path: Path, faults: Faults) -> Iterator[tuple[int, dict | None]]:
    text = _whole_text(path)
    try:
        rows = _object(text)
    except json.JSONDecodeError as error:
        what = f"bad JSON at column {error.colno}: {error.msg}"
        raise DataError(path, error.lineno, None, what, "write one JSON array of objects") from None
    except Fault as fault:
        raise DataError(path, None, *fault.args) from None
    if not isinstance(rows, list):
        raise DataError(path, 1, None, f"a JSON array is due, got {say(rows)}", "write one JSON array of objects")
    yield from enumerate(rows, 1)


def _csv(path: Path, faults: Faults) -> Iterator[tuple[int, dict | None]]:
    # The default limit of 131,072 characters a field is shorter than some conversations.
    csv.field_size_limit(2**31 - 1)
    rows = csv.reader(io.StringIO(_whole_text(path), newline=""), strict=True)
    try:
        names = next(rows, [])
        if len(set(names)) != len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise DataError(path, 1, twice, "this column is given twice", "keep one of the two columns")
        first = rows.line_num + 1
        for values in rows:
            # A quoted text may span lines: the row is named by the line it starts on.
            line, first = first, rows.line_num + 1
            if len(values) == len(names):
                # An empty cell is CSV's only way to say "missing".
                yield line, {name: value or None for name, value in zip(names, values, strict=True)}
            else:
                what = f"{len(values)} cells, the header has {len(names)}"
                faults.add(line, Fault(None, what, 'put a cell with a comma or a line break in "quotes"'))
                yield line, None
    except csv.Error as error:
        raise DataError(path, rows.line_num, None, f"bad CSV: {error}", "close every quote") from None


def _parquet(path: Path, faults: Faults) -> Iterator[tuple[int, dict | None]]:
    import pyarrow.parquet  # here: the other formats do not need it, and it takes a while to import

    read = 0
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=4096):
                yield from enumerate(batch.to_pylist(), read + 1)
                read += batch.num_rows
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        what = f"this is not a sound Parquet file ({str(error).splitlines()[0]})"
        raise DataError(path, read + 1, None, what, "download or write the file again") from None


def say(value: object) -> str:
    """A value as an error message shows it: its kind, and its beginning if it is long."""
    shown = json.dumps(value, ensure_ascii=False, default=str)
    return f"{shown if len(shown) <= 60 else shown[:57] + '...'} ({type(value).__name__})"


def columns(row: object, due: Iterable[str], allowed: Iterable[str] = ()) -> None:
    """Raise Fault unless the row is an object with the columns due and no others but those allowed."""
    due = tuple(due)
    if not isinstance(row, dict):
        raise Fault(None, f"an object is due, got {say(row)}", "write one JSON object with named columns a line")
    for name in due:
        if name not in row:
            given = ", ".join(map(str, row)) or "none"
            raise Fault(name, f"the column is missing; the row has: {given}", f"add the column {name!r}")
    for name in row:
        if name not in due and name not in allowed:
            fix = f"remove or rename it; the columns are: {', '.join([*due, *allowed])}"
            raise Fault(name, "an unknown extra column", fix)


def text(row: dict, name: str) -> str:
    """The text in a column; raises Fault unless it is a string with something other than white space in it."""
    value = row[name]
    if type(value) is not str:
        raise Fault(name, f"text is due, got {say(value)}", "write the text as a string")
    if not value or value.isspace():
        raise Fault(name, f"the text is empty, got {say(value)}", "remove the row or give its text")
    if not encodes(value):
        lone = next(character for character in value if "\ud800" <= character <= "\udfff")
        what = f"half a surrogate pair (\\u{ord(lone):04x}), which is not text"
        raise Fault(name, what, "write the whole character")
    return value


def encodes(value: str) -> bool:
    """Whether a string is text: JSON may hold half a surrogate pair, which nothing can encode, tokenise or save."""
    if value.isascii():  # costs nothing, and is most of English
        return True
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def number(row: dict, name: str, low: float, high: float, whole: bool = True) -> float:
    """The number in a column as a float; raises Fault unless it is in [low, high] (and whole, if so asked)."""
    value = row[name]
    kind = "a whole number" if whole else "a number"
    due = f"{kind} from {low:g} to {high:g} is due, got {say(value)}"
    # bool is an int to Python and true is 1 to nobody: it is refused by name.
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise Fault(name, due, "write the number itself, without quotes")
    if math.isnan(value):
        raise Fault(name, due, "NaN is not a rating: leave the row out")
    if whole and not isinstance(value, int):
        raise Fault(name, due, "write it without a decimal point, rounded as you mean it")
    if not low <= value <= high:
        raise Fault(name, due, f"map the scale to {low:g}..{high:g} before loading")
    return float(value)
