"""Rows of data files: read by line, checked by a model, all faults reported.

JSONL and JSON (plain or gzip), CSV and Parquet come out the same way: (line number, row as a dict). A pydantic model, a
`Row`, describes the rows of a file format. Nothing is repaired and nothing is skipped: the faulty rows of a file raise
one `DataError` that lists them, or with strict=False are set aside and reported.

    with Faults(path) as faults:                       # raises DataError at its end
        for line, row in checked(path, Rated, faults):  # row is None where it is faulty
            ...
"""

import codecs
import csv
import gzip
import json
import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, create_model
from pydantic_core import core_schema

from hs2lib.paths import noted

SHOWN = 20  # so many faults of a file are listed, the others are counted
MOST = 100_000  # faults, after which the rest of a file is not read

# Bounds of what is held in memory, bytes. A small file that unpacks to a huge one is refused.
ROW = 2**24
ARRAY = 2 * ROW  # a JSON array is read as a whole
UNPACKED, TIMES = 2**30, 100  # a packed file may unpack to so much, or to so many times its size


class Fault(ValueError):
    """What is wrong with one row: (field or None, what arrived, the fix)."""


@dataclass(frozen=True, slots=True)
class SetAside:
    """A row left out under strict=False and its first fault; `field` is None where the whole row is at fault."""

    file: str
    line: int
    field: str | None
    reason: str


class DataError(ValueError):
    """Faulty or absent data; the message names file, line, field, what arrived and the fix."""

    def __init__(self, file, line: int | None, column: str | None, what: str, fix: str):
        self.file, self.line, self.field, self.what, self.fix = str(file), line, column, what, fix
        self.faults = [(line, column, what, fix)]
        place = ", " if line or column else ""
        super().__init__(f"{file}{place}{_sentence(line, column, what, fix)}")

    @classmethod
    def listing(cls, file, faults: list[tuple], advice: str = "") -> "DataError":
        """One error for all faults (line, field, what, fix) of a file; the error's line, field and fix are the first's.

        Up to SHOWN faults are written out, in the order of their lines; `advice` ends the message.
        """
        faults = sorted(faults, key=lambda fault: fault[0])
        error = cls(file, *faults[0])
        error.faults = faults
        lines = [str(error)]
        if len(faults) > 1:
            rows = len({line for line, *_ in faults})
            lines = [f"{file}: {len(faults):,} faults in {rows:,} rows"]
            lines += [f"  {_sentence(*fault)}" for fault in faults[:SHOWN]]
            lines += [f"  and {len(faults) - SHOWN:,} more"] if len(faults) > SHOWN else []
        error.args = ((" " if len(faults) == 1 else "\n").join([*lines, advice]).rstrip(),)
        return error


def _sentence(line: int | None, column: str | None, what: str, fix: str) -> str:
    places = [f"line {line}" if line else "", f"field {column!r}" if column else ""]
    return f"{', '.join(filter(None, places))}: {what}. Fix: {fix}."


@dataclass
class Faults:
    """Collects the faults of one file; used as a context manager, it raises them all at its end if strict."""

    file: Path
    strict: bool = True
    advice: str = ""  # the last sentence of the error
    faults: list[tuple] = field(default_factory=list)  # (line, field, what arrived, the fix)
    partners: dict[int, str] = field(default_factory=dict)  # line of a sound row left out with another -> why

    def add(self, line: int, fault: Fault) -> None:
        """Note a fault of the row in `line`; raises DataError for one too many."""
        self.faults.append((line, *fault.args))
        if len(self.faults) > MOST:
            raise DataError.listing(self.file, self.faults, "The rest of the file was not read.")

    def look(self, line: int, row: dict | None) -> None:
        """Called with every row before it is checked; what examines a file looks at its texts here."""

    def __enter__(self) -> "Faults":
        return self

    def __exit__(self, kind, *_) -> None:
        if kind is None and self.strict and self.faults:
            raise DataError.listing(self.file, self.faults, self.advice)

    @property
    def set_aside(self) -> list[SetAside]:
        """One entry for each row left out, in the order of lines."""
        out = {line: SetAside(str(self.file), line, None, why) for line, why in self.partners.items()}
        for line, column, what, _ in reversed(self.faults):
            out[line] = SetAside(str(self.file), line, column, what)
        return [out[line] for line in sorted(out)]


# What a row holds


@dataclass(frozen=True)
class Expected:
    """Says in an error what a field should hold, in place of pydantic's words; `kind` chooses the advice."""

    kind: str
    words: str

    def __get_pydantic_core_schema__(self, source, handler):
        """The field's own schema, whose every error becomes one of this kind."""
        schema = handler(source)
        if self.kind == "number":  # in a CSV cell: Python would also read 0_3 and the digits of other scripts
            plain = core_schema.no_info_before_validator_function(_plain_number, schema)
            schema = core_schema.lax_or_strict_schema(lax_schema=plain, strict_schema=schema)
        return core_schema.custom_error_schema(schema, self.kind, custom_error_message=self.words)


_NUMBER = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?\s*", re.ASCII | re.IGNORECASE)


def _plain_number(cell: str | None) -> str | None:
    if cell is not None and not _NUMBER.fullmatch(cell):
        raise ValueError
    return cell


# A text with something in it that can be seen: not only white space, zero-width or control characters. JSON may hold
# half a surrogate pair, which nothing can encode, tokenise or save: pydantic refuses it.
VISIBLE = r"[^\s\p{Cc}\p{Cf}\p{Default_Ignorable_Code_Point}\x{2800}]"
Text = Annotated[str, StringConstraints(pattern=VISIBLE), Expected("text", "text")]


def whole(low: int, high: int):
    """The type of a whole number from low to high; true and 2.0 are none."""
    return Annotated[int, Field(ge=low, le=high), Expected("number", f"a whole number from {low} to {high}")]


def real(low: float, high: float):
    """The type of a number from low to high; true and NaN are none."""
    return Annotated[float, Field(ge=low, le=high), Expected("number", f"a number from {low} to {high}")]


class Row(BaseModel):
    """A row of a file: its columns and no others, with values of just these types."""

    model_config = ConfigDict(extra="forbid", strict=True)


def with_columns(names: Iterable[str], kind: object = Any, default: object = ...) -> type[Row]:
    """A `Row` to derive from that has these columns, all of one kind; one with a default may be absent.

    Columns of any kind are those that a file has and that are not read.
    """
    return create_model("Row", __base__=Row, **dict.fromkeys(names, (kind, default)))


def checked(path: Path, model: type[Row], faults: Faults) -> Iterator[tuple[int, Any]]:
    """(line, row as `model`) for every row of a file; the row is None where it has faults, which go to `faults`."""
    # CSV has only text: numbers in it are parsed.
    strict = False if ".csv" in path.suffixes else None
    validate = model.model_validate
    for line, row in read(path, faults):
        faults.look(line, row)
        if row is not None:
            try:
                row = validate(row, strict=strict)
            except ValidationError as error:
                for each in error.errors(include_url=False):
                    faults.add(line, _fault(each, model))
                row = None
        yield line, row


def _fault(error: dict, model: type[Row]) -> Fault:
    """One of pydantic's errors as (field, what arrived, the fix)."""
    value = error["input"]
    place = error["loc"][:-2] if error["loc"][-1:] == ("[key]",) else error["loc"]
    column = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place)[1:] or None
    kind, words = error["type"], error["msg"].replace("Input should be ", "")
    if kind == "value_error":  # raised by a check of ours
        inner, what, fix = error["ctx"]["error"].args
        return Fault(".".join(filter(None, (column, inner))) or None, what, fix)
    if kind == "missing":
        name = error["loc"][-1]
        what = f"the column is missing; the row has: {', '.join(value) or 'none'}"
        return Fault(column, what, f"add the column {name!r}")
    if kind == "extra_forbidden":
        fields = sorted(model.model_fields.items(), key=lambda item: not item[1].is_required())
        known = f"; the columns are: {', '.join(name for name, _ in fields)}" if len(error["loc"]) == 1 else ""
        return Fault(column, "an unknown extra column", f"remove or rename it{known}")
    if kind == "text" and isinstance(value, str):
        return Fault(column, *_unfit(value))
    if kind == "model_type":
        words = "an object"
    fixes = {"text": "write the text as a string", "an object": "write an object with named columns"}
    fix = _number_fix(value, words) if kind == "number" else fixes.get(words, f"write {words}")
    return Fault(column, f"expected {words}, got {shown(value)}", fix)


def _unfit(value: str) -> tuple[str, str]:
    if not value.strip():
        return f"the text is empty, got {shown(value)}", "remove the row or give its text"
    half = next((character for character in value if "\ud800" <= character <= "\udfff"), None)
    if half is None:
        return f"nothing in the text can be seen, got {value[:20]!a}", "remove the row or give its text"
    return f"half a surrogate pair (\\u{ord(half):04x}), which is not text", "write the whole character"


def _number_fix(value: object, words: str) -> str:
    if str(value).lower() == "nan":
        return "NaN is not a rating: leave the row out"
    low, _, high = words.partition(" from ")[2].partition(" to ")
    written = isinstance(value, str) and _NUMBER.fullmatch(value)
    if written and not float(low) <= float(value) <= float(high):  # a cell of CSV
        value = float(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return "write the number itself, without quotes"
    if "whole" in words and not isinstance(value, int):
        return "write it without a decimal point, rounded as you mean it"
    return f"map the scale to {low}..{high} before loading"


def shown(value: object) -> str:
    """A value as an error message shows it: its beginning if it is long, and its kind."""
    try:
        written = json.dumps(value, ensure_ascii=False, default=str)
    except (TypeError, ValueError, RecursionError):  # keys that are no text, or nested deeply
        written = "a value"
    return f"{written if len(written) <= 60 else written[:57] + '...'} ({type(value).__name__})"


# Files


def rows(path: Path) -> list[tuple[int, dict]]:
    """(line, row) of every row of a file, as dicts; raises DataError with all faults."""
    with Faults(path) as faults:
        return list(read(path, faults))


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
    try:
        noted(path)
        for line, row in readers[Path(name).suffix](path, faults):
            empty = False
            yield line, row
    except OSError as error:
        raise DataError(path, None, None, f"cannot be read ({error.strerror or error})", "check the file") from None
    if empty:
        raise DataError(path, None, None, "the file has no rows", "download or write it again")


def _jsonl(path: Path, faults: Faults) -> Iterator[tuple[int, dict | None]]:
    for number, line in _lines(path, ROW):
        try:
            row = _object(_decode(line.decode()))
        except (ValueError, RecursionError) as error:
            faults.add(number, _unreadable(line, error))
            row = None
        yield number, row


def _object(value: object) -> dict:
    if not isinstance(value, dict):
        raise Fault(None, f"expected an object, got {shown(value)}", "write one JSON object with named columns a line")
    return value


def _lines(path: Path, longest: int, whole: bool = False) -> Iterator[tuple[int, bytes]]:
    """(number, line) of a file of text, unpacked, without a byte order mark; raises DataError beyond the bounds.

    whole: all lines as one.
    """
    number, size, most = 0, 0, max(UNPACKED, TIMES * path.stat().st_size)
    packed = path.suffix == ".gz"
    try:
        with gzip.open(path) if packed else path.open("rb") as file:
            step = partial(file.read if whole else file.readline, longest + 1)
            for number, line in enumerate(iter(step, b""), 1):
                size += len(line)
                if len(line) > longest:
                    what = f"the {'array' if whole else 'line'} is longer than {longest:,} bytes"
                    raise DataError(path, number, None, what, LONG)
                if packed and size > most:
                    what = f"it unpacks to more than {most:,} bytes, {most // path.stat().st_size:,} times its size"
                    raise DataError(path, number, None, what, "unpack it yourself if you trust it")
                yield number, line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
    except EOFError:
        what = "the gzip stream ends before its end mark (a truncated download?)"
        raise DataError(path, number + 1, None, what, "download the file again") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        fix = "download the file again (in a git clone: git lfs pull); if it is plain text, take .gz off its name"
        raise DataError(path, number + 1, None, f"this is not a sound gzip file ({error})", fix) from None


LONG = "write one row a line, as JSON Lines, and leave out or cut what is longer"


def _unique(pairs: list[tuple[str, object]]) -> dict:
    """An object whose keys are all different: json itself would silently keep the last of two values."""
    row = dict(pairs)
    if len(row) != len(pairs):
        raise Fault(_twice([name for name, _ in pairs]), "the row has this column twice", "keep one of the two values")
    return row


def _twice(names: list[str]) -> str | None:
    return next((name for name in names if names.count(name) > 1), None)


# Built once: json.loads with a keyword builds a new decoder for every row.
_decode = json.JSONDecoder(object_pairs_hook=_unique).decode


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
    except (ValueError, AttributeError, StopIteration, RecursionError):
        return None


def _text(path: Path, longest: int, whole: bool = False) -> Iterator[str]:
    """The lines of a file that is of no use beyond the first broken one."""
    for number, line in _lines(path, longest, whole):
        try:
            yield line.decode()
        except UnicodeDecodeError as error:
            number += line.count(b"\n", 0, error.start)
            what = f"broken UTF-8, byte 0x{line[error.start]:02x}"
            raise DataError(path, number, None, what, "save the file as UTF-8") from None


def _json(path: Path, faults: Faults) -> Iterator[tuple[int, dict | None]]:
    text = "".join(_text(path, ARRAY, whole=True))
    try:
        values = _decode(text)
    except Fault as fault:
        raise DataError(path, None, *fault.args) from None
    except (ValueError, RecursionError) as error:
        line, what = getattr(error, "lineno", None), "bad JSON: a number too long or lists nested too deeply"
        if line:
            what = f"bad JSON at column {error.colno}: {error.msg}"
        raise DataError(path, line, None, what, "write one JSON array of objects") from None
    if not isinstance(values, list):
        what = f"expected a JSON array, got {shown(values)}"
        raise DataError(path, 1, None, what, "write one JSON array of objects")
    for number, value in enumerate(values, 1):
        try:
            yield number, _object(value)
        except Fault as fault:
            faults.add(number, fault)
            yield number, None


def _csv(path: Path, faults: Faults) -> Iterator[tuple[int, dict | None]]:
    # The default limit of 131,072 characters a field is shorter than some conversations.
    csv.field_size_limit(ROW)
    lines = csv.reader(_text(path, ROW), strict=True)
    try:
        names = next(lines, [])
        if (twice := _twice(names)) is not None:
            raise DataError(path, 1, twice, "the header has this column twice", "keep one of the two columns")
        first = lines.line_num + 1
        for values in lines:
            # A quoted text may span lines: the row is named by the line it starts on.
            line, first = first, lines.line_num + 1
            if len(values) == len(names):
                # An empty cell is CSV's only way to say "missing".
                yield line, {name: value or None for name, value in zip(names, values, strict=True)}
            else:
                what = f"{len(values)} cells, the header has {len(names)}"
                faults.add(line, Fault(None, what, 'put a cell with a comma or a line break in "quotes"'))
                yield line, None
    except csv.Error as error:
        raise DataError(path, lines.line_num, None, f"bad CSV: {error}", "close every quote") from None


def _parquet(path: Path, faults: Faults) -> Iterator[tuple[int, dict | None]]:
    import pyarrow.parquet  # here: the other formats do not need it, and it takes a while to import

    number = 0
    try:
        # Few rows at a time, and no column as a whole: a dictionary page can name one long text a million times.
        with pyarrow.parquet.ParquetFile(path, buffer_size=2**16, pre_buffer=False) as file:
            groups = (file.metadata.row_group(i) for i in range(file.metadata.num_row_groups))
            most = max(UNPACKED, TIMES * path.stat().st_size)
            if sum(group.total_byte_size for group in groups) > most:
                raise Fault(None, f"it unpacks to more than {most:,} bytes", "write it again with less compression")
            for batch in file.iter_batches(batch_size=BATCH):
                for i, row in enumerate(batch.to_pylist()):
                    number += 1
                    if batch.nbytes > ROW and batch.slice(i, 1).nbytes > ROW:
                        faults.add(number, Fault(None, f"the row is longer than {ROW:,} bytes", "cut its texts"))
                        row = None
                    yield number, row
    except Fault as fault:
        raise DataError(path, None, *fault.args) from None
    except (pyarrow.ArrowException, OSError, ValueError, OverflowError) as error:
        what = f"this is not a sound Parquet file ({(str(error).splitlines() or [type(error).__name__])[0]})"
        raise DataError(path, number + 1, None, what, "download or write the file again") from None


BATCH = 16  # rows of a Parquet file that are in memory at once
