"""Rows of data files: read by line, checked by a model, all faults reported.

JSONL and JSON (plain or gzip), CSV and Parquet come out the same way: (line number, row as a dict).
A pydantic model, a `Row`, describes the rows of a file format. Nothing is repaired and nothing is
skipped: the faulty rows of a file raise one `DataError` that lists them, or with strict=False are
set aside and reported.

    with Faults(path) as faults:                       # raises DataError at its end
        for line, row in sound(path, Rated, faults):
            ...
"""

import codecs
import csv
import gzip
import json
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    create_model,
)
from pydantic.types import GetPydanticSchema
from pydantic_core import core_schema

SHOWN = 20  # so many faults of a file are listed, the others are counted
MOST = 100_000  # faults, after which the rest of a file is not read

# Bounds of what is held in memory, bytes. A small file that unpacks to a huge one is refused.
ROW = 2**24
ARRAY = 2 * ROW  # a JSON array is read as a whole
UNPACKED, TIMES = 2**30, 100  # a packed file may unpack to so much, or to so many times its size
BATCH = 16  # rows of a Parquet file that are in memory at once


class Fault(ValueError):
    """What is wrong with one row: (field or None, what arrived, the fix)."""


class Unclear(Exception):
    """A fault of one row, as `Fault`, that makes every other doubtful: the file is refused, strict or not."""


class DataError(ValueError):
    """Faulty or absent data: file, line, field, what arrived and the fix, each where it is known,
    all in the message.

    It is raised for what cannot be used; of a row that was set aside it says why.
    """

    def __init__(self, file, line: int | None, field: str | None, what: str, fix: str):
        self.file, self.line, self.field, self.what, self.fix = str(file), line, field, what, fix
        places = (str(file), f"line {line}" if line else "", f"field {field!r}" if field else "")
        super().__init__(f"{', '.join(filter(None, places))}: {what}. Fix: {fix}.")


@dataclass
class Faults:
    """Collects the faults of one file; used as a context manager, it raises them all at its end if
    strict.

    strict: True where faulty rows can be set aside and are not, False where they are, None where
    they cannot be.
    """

    file: Path
    strict: bool | None = None
    faults: list[DataError] = field(default_factory=list)
    partners: list[DataError] = field(
        default_factory=list
    )  # sound rows that are left out with another

    def add(self, line: int, fault: Fault) -> None:
        """Note a fault of the row in `line`; raises DataError for one too many."""
        self.faults.append(DataError(self.file, line, *fault.args))
        if len(self.faults) > MOST:
            raise self.error("The rest of the file was not read.")

    def look(self, line: int, row: dict | None) -> None:
        """Called with every row before it is checked; what examines a file looks at its texts here."""

    def __enter__(self) -> "Faults":
        return self

    def __exit__(self, kind, *_) -> None:
        if kind is None and self.strict is not False and self.faults:
            raise self.error("Or set such rows aside with strict=False." if self.strict else "")

    def error(self, advice: str = "") -> DataError:
        """One error for all faults, in the order of lines, up to SHOWN of them written out; `advice` ends it."""
        faults = sorted(self.faults, key=lambda fault: fault.line)
        error = DataError(self.file, faults[0].line, faults[0].field, faults[0].what, faults[0].fix)
        lines = [str(error)]
        if len(faults) > 1:
            lines = [
                f"{self.file}: {len(faults):,} faults in {len({fault.line for fault in faults}):,} rows"
            ]
            lines += [f"  {str(fault).removeprefix(f'{self.file}, ')}" for fault in faults[:SHOWN]]
            lines += [f"  and {len(faults) - SHOWN:,} more"] if len(faults) > SHOWN else []
        error.args = ("\n".join(filter(None, [*lines, advice])),)
        return error

    @property
    def set_aside(self) -> list[DataError]:
        """One entry for each row left out, its first fault, in the order of lines."""
        first = {fault.line: fault for fault in reversed([*self.faults, *self.partners])}
        return [first[line] for line in sorted(first)]


# What a row holds


def expected(words: str, fix: str) -> GetPydanticSchema:
    """Says in an error what a field should hold and how to mend it, in place of pydantic's words."""
    how = {"custom_error_message": words, "custom_error_context": {"fix": fix}}
    return GetPydanticSchema(
        lambda kind, handler: core_schema.custom_error_schema(handler(kind), "expected", **how)
    )


# A text with something in it that can be seen: not only white space, zero-width or control
# characters. JSON may hold half a surrogate pair, which nothing can encode, tokenise or save:
# pydantic refuses it.
VISIBLE = r"[^\s\p{Cc}\p{Cf}\p{Default_Ignorable_Code_Point}\x{2800}]"
Text = Annotated[
    str,
    StringConstraints(pattern=VISIBLE),
    expected("text that can be seen", "give it, or leave it out"),
]


def _plain(cell: object) -> object:
    """A cell of CSV, in which Python would also read 0_3 and the digits of other scripts as numbers."""
    if isinstance(cell, str) and not re.fullmatch(
        r"(?ai)\s*[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?\s*", cell
    ):
        raise ValueError
    return cell


def _number(kind: type, low: int, high: int):
    words = f"a {'whole number' if kind is int else 'number'} from {low} to {high}"
    fix = f"write {words}, without quotes; map another scale to it; leave out a row without a value"
    return Annotated[kind, Field(ge=low, le=high), BeforeValidator(_plain), expected(words, fix)]


# whole(low, high), real(low, high): the type of a number in this range; true and NaN are none, 2.0
# is not whole
whole, real = partial(_number, int), partial(_number, float)


class Row(BaseModel):
    """A row of a file: its columns and no others, with values of just these types."""

    model_config = ConfigDict(extra="forbid", strict=True)


def columns(
    names: Iterable[str], kind: object, default: object = ..., base: type[Row] = Row
) -> type[Row]:
    """A `Row` to derive from that has these columns too, all of one kind; one with a default may be absent."""
    return create_model("Row", __base__=base, **dict.fromkeys(names, (kind, default)))


def checked(path: Path, model: type[Row], faults: Faults) -> Iterator[tuple[int, Any]]:
    """(line, row as `model`) for every row of a file; the row is None where it has faults, which go to `faults`."""
    # CSV has only text: numbers in it are parsed.
    strict = False if Path(path.name.removesuffix(".gz")).suffix == ".csv" else None
    for line, row in read(path, faults):
        faults.look(line, row)
        if row is not None:
            try:
                row = model.model_validate(row, strict=strict)
            except Unclear as fault:
                raise DataError(path, line, *fault.args) from None
            except ValidationError as error:
                for each in error.errors(include_url=False):
                    faults.add(line, _fault(each))
                row = None
        yield line, row


def sound(path: Path, model: type[Row], faults: Faults) -> Iterator[tuple[int, Any]]:
    """(line, row as `model`) for every row of a file without faults; the faults go to `faults`."""
    return (item for item in checked(path, model, faults) if item[1] is not None)


def _fault(error: dict) -> Fault:
    """One of pydantic's errors as (field, what arrived, the fix)."""
    kind, value, place = error["type"], error["input"], error["loc"]
    place = place[:-2] if place[-1:] == ("[key]",) else place
    column = (
        "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place)[1:] or None
    )
    if kind == "value_error":  # raised by a check of ours
        cause = error["ctx"]["error"]
        inner, what, fix = (
            cause.args
            if isinstance(cause, Fault)
            else (None, str(cause), "mend it, or remove the row")
        )
        return Fault(".".join(filter(None, (column, inner))) or None, what, fix)
    if kind == "missing":
        what = f"the column is missing; the row has: {', '.join(value) or 'none'}"
        return Fault(column, what, f"add the column {place[-1]!r}")
    if kind == "extra_forbidden":
        return Fault(column, "an unknown extra column", "remove or rename it")
    words = (
        "an object with named columns"
        if kind == "model_type"
        else error["msg"].replace("Input should be ", "")
    )
    return Fault(
        column,
        f"expected {words}, got {shown(value)}",
        error.get("ctx", {}).get("fix", f"write {words}"),
    )


def shown(value: object) -> str:
    """A value as an error message shows it: its beginning if it is long, and its kind."""
    try:
        written = json.dumps(value, ensure_ascii=False, default=str)
    except (TypeError, ValueError, RecursionError):  # keys that are no text, or nested deeply
        written = "a value"
    return f"{printable(written if len(written) <= 60 else written[:57] + '...')} ({type(value).__name__})"


def printable(text: str) -> str:
    """A text with nothing in it that a terminal would obey, or that cannot be seen or saved: that is escaped."""
    return "".join(
        c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text
    )


# Files


def rows(path: Path) -> list[tuple[int, dict]]:
    """(line, row) of every row of a file, as dicts; raises DataError with all faults."""
    with Faults(path) as faults:
        return list(read(path, faults))


def read(path: Path, faults: Faults) -> Iterator[tuple[int, dict | None]]:
    """(line, row) for every row of a JSONL, JSON, CSV or Parquet file; row is None where it could
    not be read.

    `line` counts from 1; for Parquet and JSON arrays it is the number of the row. Raises DataError
    for a file that is empty, truncated or not of its format, strict or not: how much is missing
    from it cannot be counted.
    """
    name = path.name.removesuffix(".gz")
    readers = {".jsonl": _jsonl, ".json": _json, ".csv": _csv, ".parquet": _parquet}
    if Path(name).suffix not in readers:
        fix = f"use one of {', '.join(readers)} (all but Parquet also as .gz)"
        raise DataError(path, None, None, f"unknown kind of file {path.suffix or path.name!r}", fix)
    line = 0
    try:
        for line, row in readers[Path(name).suffix](path):
            if not isinstance(row, dict | Fault):
                row = Fault(
                    None,
                    f"expected an object, got {shown(row)}",
                    "write a JSON object with named columns",
                )
            if isinstance(row, Fault):
                faults.add(line, row)
            yield line, None if isinstance(row, Fault) else row
    except Fault as fault:
        raise DataError(path, None, *fault.args) from None
    except OSError as error:
        raise DataError(
            path, None, None, f"cannot be read ({error.strerror or error})", "check the file"
        ) from None
    if not line:
        raise DataError(path, None, None, "the file has no rows", "download or write it again")


# Each kind of file as (line, row), a Fault in place of a row that cannot be read


def _jsonl(path: Path) -> Iterator[tuple[int, object]]:
    for number, line in _lines(path, ROW):
        try:
            yield number, _parsed(line)
        except Fault as fault:
            yield number, fault


def _json(path: Path) -> Iterator[tuple[int, object]]:
    values = _parsed(b"".join(line for _, line in _lines(path, ARRAY, whole=True)))
    if not isinstance(values, list):
        raise Fault(
            None, f"expected a JSON array, got {shown(values)}", "write one JSON array of objects"
        )
    yield from enumerate(values, 1)


def _parsed(content: bytes) -> object:
    """A JSON value; raises Fault for bad JSON, broken UTF-8, what is nested too deeply, and too long a number."""
    try:
        return _decode(content.decode().rstrip("\n"))
    except Fault:
        raise
    except (ValueError, RecursionError) as error:
        what = f"bad JSON: {error}".replace(": line 1 column", " at column")
        raise Fault(
            None, what, "write whole JSON in UTF-8: one object a line, no blank lines, or one array"
        ) from None


def _unique(pairs: list[tuple[str, object]]) -> dict:
    """An object whose keys are all different: json itself would silently keep the last of two values."""
    row = dict(pairs)
    if len(row) != len(pairs):
        twice = next(name for name in row if sum(name == other for other, _ in pairs) > 1)
        raise Fault(twice, "the row has this column twice", "keep one of the two")
    return row


# Built once: json.loads with a keyword builds a new decoder for every row.
_decode = json.JSONDecoder(object_pairs_hook=_unique).decode


def _lines(path: Path, longest: int, *, whole: bool = False) -> Iterator[tuple[int, bytes]]:
    """(number, line) of a file of text, unpacked, without a byte order mark; raises DataError
    beyond the bounds.

    longest: bytes of a line; whole: the file is read as one line.
    """
    number, size, most = 0, 0, longest if whole else max(UNPACKED, TIMES * path.stat().st_size)
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            piece = partial(file.read if whole else file.readline, longest + 1)
            for number, line in enumerate(iter(piece, b""), 1):
                size += len(line)
                if len(line) > longest or size > most:
                    what = f"the line is longer than {longest:,} bytes, or the file unpacks to more than {most:,}"
                    fix = "write one row a line, as JSON Lines; cut what is longer; unpack the file if you trust it"
                    raise DataError(path, number, None, what, fix)
                yield number, line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        fix = "download the file again (in a git clone: git lfs pull); if it is plain text, take .gz off its name"
        raise DataError(
            path, number + 1, None, f"this is not a sound gzip file ({error})", fix
        ) from None


def _csv(path: Path) -> Iterator[tuple[int, object]]:
    # The default limit of 131,072 characters a field is shorter than some conversations.
    csv.field_size_limit(ROW)
    lines = csv.reader((line.decode() for _, line in _lines(path, ROW)), strict=True)
    first = 1  # line of the row: a quoted text may span lines
    try:
        names = list(_unique([(name, None) for name in next(lines, [])]))
        first = lines.line_num + 1
        for values in lines:
            # An empty cell is CSV's only way to say "missing".
            row = dict(zip(names, [value or None for value in values], strict=False))
            if len(values) != len(names):
                what = f"{len(values)} cells, the header has {len(names)}"
                row = Fault(None, what, 'put a cell with a comma or a line break in "quotes"')
            yield first, row
            first = lines.line_num + 1
    except (csv.Error, UnicodeDecodeError) as error:
        raise DataError(
            path, first, None, f"bad CSV: {error}", "close every quote, save the file as UTF-8"
        ) from None


def _parquet(path: Path) -> Iterator[tuple[int, object]]:
    import pyarrow.parquet  # here: the other formats do not need it, and it takes a while to import

    number, most = 0, max(UNPACKED, TIMES * path.stat().st_size)
    try:
        # Few rows at a time, and no column as a whole: a dictionary page can name one long text a
        # million times.
        with pyarrow.parquet.ParquetFile(path, buffer_size=2**16, pre_buffer=False) as file:
            groups = [file.metadata.row_group(i) for i in range(file.metadata.num_row_groups)]
            if sum(group.total_byte_size for group in groups) > most:
                raise Fault(
                    None,
                    f"the file unpacks to more than {most:,} bytes",
                    "write it with less compression",
                )
            if twice := [
                name for name, times in Counter(file.schema_arrow.names).items() if times > 1
            ]:
                raise Fault(
                    twice[0], "a column of this name a second time", "give each column its own name"
                )
            for batch in file.iter_batches(batch_size=BATCH):
                for i, row in enumerate(batch.to_pylist()):
                    number += 1
                    long = batch.slice(i, 1).nbytes > ROW
                    yield (
                        number,
                        Fault(None, f"the row is longer than {ROW:,} bytes", "cut its texts")
                        if long
                        else row,
                    )
    except Fault:
        raise
    except (pyarrow.ArrowException, OSError, ValueError, OverflowError) as error:
        what = f"this is not a sound Parquet file ({(str(error).splitlines() or [type(error).__name__])[0]})"
        raise DataError(path, number + 1, None, what, "download or write the file again") from None
