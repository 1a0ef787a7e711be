"""Rows of data files: read by line, checked by a model, all faults reported.

JSONL and JSON (plain or gzip), CSV and Parquet are read in the same way, as (line number, row as a
dict). A pydantic model, a `Row`, describes the rows of a file format. Nothing is repaired and
nothing is skipped. The faulty rows of a file raise one `DataError` that lists them; with
strict=False they are set aside and reported.

    with Faults(path) as faults:                       # raises DataError at its end
        for line, row in sound(path, Rated, faults):
            ...
"""

import codecs
import csv
import gzip
import io
import json
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from itertools import chain
from pathlib import Path
from types import TracebackType
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

# An error lists so many faults of a file, and counts the others.
SHOWN = 20

# Of a fault that several rows have it lists so many lines.
LINES = 5


class Fault(ValueError):
    """What is wrong with one row: (field or None, what arrived, the fix)."""


class Unclear(Exception):
    """A fault of one row, as `Fault`, that makes every other row doubtful.

    The file is refused, strict or not.
    """


class DataError(ValueError):
    """Faulty or absent data: file, line, field, what arrived and the fix.

    The message has all of them, line and field where they are known, and nothing that a terminal
    would obey. The error is raised for what cannot be used. Of a row that was set aside it says
    why.
    """

    def __init__(
        self, file: object, line: int | None, field: str | None, what: str, fix: str
    ) -> None:
        self.file = str(file)
        self.line = line
        self.field = field
        self.what = what
        self.fix = fix
        places = [str(file)]
        if line:
            places.append(f"line {line}")
        if field is not None:
            places.append(f"field {field!r}")
        super().__init__(printable(f"{', '.join(places)}: {what}. Fix: {fix}."))


# What may be done with faulty rows.
SET_ASIDE = "Or set such rows aside: -p recipe.strict=false for a run, strict=False in Python."


@dataclass
class Faults:
    """Collects the faults of one file; used as a context manager, it raises them all at its end.

    `strict` is True where faulty rows can be set aside and are not, False where they are set aside,
    and None where they cannot be. Where it is False nothing is raised at the end. `partners` has
    the sound rows that are left out: with another one, or because they compare nothing.
    """

    file: Path
    strict: bool | None = None
    faults: list[DataError] = field(default_factory=list)
    partners: list[DataError] = field(default_factory=list)

    def add(self, line: int, fault: Fault) -> None:
        """Note a fault of the row in `line`."""
        self.faults.append(DataError(self.file, line, *fault.args))

    def __enter__(self) -> "Faults":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is None and self.strict is not False and self.faults:
            raise self.error(SET_ASIDE if self.strict else "")

    def error(self, advice: str = "") -> DataError:
        """One error for all faults, in the order of lines.

        Its message has the first `SHOWN` of them, and ends with the advice. A fault that several
        rows have stands once, with their number and the first lines.
        """
        faults = sorted(self.faults, key=lambda fault: fault.line)
        first = faults[0]
        error = DataError(self.file, first.line, first.field, first.what, first.fix)
        lines = [str(error)]
        if len(faults) > 1:
            n_rows = len({fault.line for fault in faults})
            lines = [printable(f"{self.file}: {len(faults):,} faults in {n_rows:,} rows")]
            alike = _alike(faults)
            for several in alike[:SHOWN]:
                lines.append(f"  {self._of_several(several)}")
            more = sum(map(len, alike[SHOWN:]))
            if more:
                lines.append(f"  and {more:,} more")
        if advice:
            lines.append(advice)
        error.args = ("\n".join(lines),)
        return error

    def _of_several(self, alike: list[DataError]) -> str:
        """A fault in words without the file; where several rows have it, with their lines."""
        first = alike[0]
        text = str(first).removeprefix(printable(f"{self.file}, "))
        if len(alike) == 1:
            return text
        places = ", ".join(str(fault.line) for fault in alike[:LINES])
        if len(alike) > LINES:
            places += f" and {len(alike) - LINES:,} more"
        if len({fault.what for fault in alike}) > 1:
            what = printable(first.what)
            text = text.replace(what, f"{what} and others", 1)
        return f"lines {places}{text.removeprefix(f'line {first.line}')}"

    @property
    def set_aside(self) -> list[DataError]:
        """One entry for each row left out, its first fault, in the order of lines."""
        first_by_line: dict[int, DataError] = {}
        for fault in (*self.faults, *self.partners):
            first_by_line.setdefault(fault.line, fault)
        return [first_by_line[line] for line in sorted(first_by_line)]


def _alike(faults: list[DataError]) -> list[list[DataError]]:
    """Faults that say the same of different lines together, in the order in which they occur.

    They may differ in the value that arrived, and in an earlier line.
    """
    alike: dict[tuple[str | None, str, str], list[DataError]] = {}
    for fault in faults:
        words = re.split(r", got | \(line \d", fault.what)[0]
        alike.setdefault((fault.field, words, fault.fix), []).append(fault)
    return list(alike.values())


# What a row holds


def expected(words: str, fix: str) -> GetPydanticSchema:
    """What an error says of a field, in place of pydantic's words.

    words: what the field should hold. fix: how to mend it.
    """

    def schema(
        kind: Any, handler: Callable[[Any], core_schema.CoreSchema]
    ) -> core_schema.CoreSchema:
        return core_schema.custom_error_schema(
            handler(kind),
            "expected",
            custom_error_message=words,
            custom_error_context={"fix": fix},
        )

    return GetPydanticSchema(schema)


# A text with something in it that can be seen: not only white space, zero-width or control
# characters. JSON may hold half a surrogate pair, which nothing can encode, tokenise or save:
# pydantic refuses it.
VISIBLE = r"[^\s\p{Cc}\p{Cf}\p{Default_Ignorable_Code_Point}\x{2800}]"
Text = Annotated[
    str,
    StringConstraints(pattern=VISIBLE),
    expected("text that can be seen", "give it, or leave it out"),
]

# A number as a cell of CSV may write it.
PLAIN_NUMBER = re.compile(r"(?ai)\s*[+-]?(\d+(\.\d*)?|\.\d+)(e[+-]?\d+)?\s*")


def _plain(cell: object) -> object:
    """A cell with a plainly written number, or one of a column of decimals in Parquet.

    Python would also read 0_3 and the digits of other scripts as numbers. Raises ValueError for a
    text that is not a plain number.
    """
    if isinstance(cell, str) and not PLAIN_NUMBER.fullmatch(cell):
        raise ValueError
    return float(cell) if isinstance(cell, Decimal) else cell


def _number(kind: type, low: float, high: float, words: str = "", fix: str = "") -> Any:
    """The type of a field that holds a number of a kind, from low to high.

    words, fix: what an error says of it and how to mend it, in place of the usual.
    """
    words = words or f"a {'whole number' if kind is int else 'number'} from {low} to {high}"
    usual = (
        f"write {words}, without quotes; map another scale to it; leave out a row without a value"
    )
    fix = fix or usual
    return Annotated[kind, Field(ge=low, le=high), BeforeValidator(_plain), expected(words, fix)]


# whole(low, high) and real(low, high) are the types of a number from low to high. Neither true nor
# NaN is a number, and 2.0 is not whole.
whole = partial(_number, int)
real = partial(_number, float)


class Row(BaseModel):
    """A row of a file: its columns and no others, with values of just these types."""

    model_config = ConfigDict(extra="forbid", strict=True)


def columns(
    names: Iterable[str], kind: object, default: object = ..., base: type[Row] = Row
) -> type[Row]:
    """A `Row` to derive from that has further columns, all of one kind.

    Args:
        names: of the columns.
        kind: the type of each.
        default: the value of a column that is absent; without it none may be.
        base: the class whose columns it has, too.
    """
    return create_model("Row", __base__=base, **dict.fromkeys(names, (kind, default)))


def checked(path: Path, model: type[Row], faults: Faults) -> Iterator[tuple[int, Any]]:
    """(line, row as `model`) for every row of a file.

    A row is None where it has faults, which go to `faults`.
    """
    # CSV has only text: numbers in it are parsed.
    strict = False if is_csv(path) else None
    for line, row in read(path, faults):
        if row is not None:
            try:
                row = model.model_validate(row, strict=strict)
            except Unclear as fault:
                raise DataError(path, line, *fault.args) from None
            except ValidationError as error:
                for fault in faults_of(error):
                    faults.add(line, fault)
                row = None
        yield line, row


def sound(path: Path, model: type[Row], faults: Faults) -> Iterator[tuple[int, Any]]:
    """(line, row as `model`) for every row of a file without faults; the faults go to `faults`."""
    return (item for item in checked(path, model, faults) if item[1] is not None)


def faults_of(error: ValidationError, *place: str) -> Iterator[Fault]:
    """What pydantic found wrong with a row, fault by fault.

    place: where the value is that was checked, if it is a part of the row: the name of its column.
    """
    for details in error.errors(include_url=False):
        details["loc"] = (*place, *details["loc"])
        yield _fault(details)


def _fault(error: dict) -> Fault:
    """One of pydantic's errors as (field, what arrived, the fix)."""
    kind = error["type"]
    value = error["input"]
    column = _column(error["loc"])
    if kind == "value_error":  # raised by a check of ours
        return _own_fault(error["ctx"]["error"], column)
    if kind == "missing":
        what = f"the column is missing; the row has: {listed(value)}"
        return Fault(column, what, f"add the column {error['loc'][-1]!r}")
    if kind == "extra_forbidden":
        return Fault(column, "an unknown extra column", "remove or rename it")
    if kind == "model_type":
        words = "an object with named columns"
    else:
        words = error["msg"].replace("Input should be ", "")
    fix = error.get("ctx", {}).get("fix", f"write {words}")
    return Fault(column, f"expected {words}, got {shown(value)}", fix)


def _own_fault(error: ValueError, column: str | None) -> Fault:
    """The fault of an error that a check of ours raised while it looked at a column."""
    if not isinstance(error, Fault):
        return Fault(column, str(error), "mend it, or remove the row")
    inner, what, fix = error.args
    if column and inner:
        return Fault(f"{column}{'' if inner.startswith('[') else '.'}{inner}", what, fix)
    return Fault(column or inner or None, what, fix)


def _column(location: tuple[str | int, ...]) -> str | None:
    """The place of a value in a row, as "turns[0].text"; None for the row itself."""
    if location[-1:] == ("[key]",):
        location = location[:-2]
    parts = [f"[{part}]" if isinstance(part, int) else f".{part}" for part in location]
    return "".join(parts).removeprefix(".") or None


def shown(value: object) -> str:
    """A value as an error message shows it, as JSON; its beginning if it is long."""
    try:
        written = json.dumps(value, ensure_ascii=False, default=str)
    except (TypeError, ValueError, RecursionError):  # keys that are no text, or nested deeply
        written = "a value"
    if len(written) > 60:
        written = written[:57] + "..."
    return printable(written)


def listed(names: Iterable[str]) -> str:
    """Names of columns as an error message lists them: the first `SHOWN`, and how many more."""
    names = list(names)
    more = [f"and {len(names) - SHOWN:,} more"] if len(names) > SHOWN else []
    return ", ".join([*names[:SHOWN], *more]) or "none"


def printable(text: str) -> str:
    """A text in which what a terminal would obey, or what cannot be seen or saved, is escaped."""
    if text.isprintable():
        return text
    characters = []
    for character in text:
        if character.isprintable() or character == "\n":
            characters.append(character)
        else:
            characters.append(character.encode("unicode_escape").decode())
    return "".join(characters)


# Files


def rows(path: Path) -> list[tuple[int, dict]]:
    """(line, row) of every row of a file, as dicts; raises DataError with all faults."""
    with Faults(path) as faults:
        return list(read(path, faults))


def read(path: Path, faults: Faults) -> Iterator[tuple[int, dict | None]]:
    """(line, row) for every row of a JSONL, JSON, CSV or Parquet file.

    A row is None where it could not be read; its fault goes to `faults`. `line` counts from 1. For
    Parquet and JSON arrays it is the number of the row.

    Raises DataError for a file that is empty, truncated or not of its format, strict or not: how
    much is missing from it cannot be counted.
    """
    readers = {
        ".jsonl": _jsonl,
        ".json": _json,
        ".csv": _csv,
        ".tsv": _csv,
        ".parquet": _parquet,
    }
    suffix = _kind(path)
    if suffix not in readers:
        what = f"unknown kind of file {path.suffix or path.name!r}"
        fix = f"use one of {', '.join(readers)} (all but Parquet also as .gz)"
        raise DataError(path, None, None, what, fix)
    line = 0
    try:
        for line, row in readers[suffix](path):
            if not isinstance(row, dict | Fault):
                what = f"expected an object, got {shown(row)}"
                row = Fault(None, what, "write a JSON object with named columns")
            if isinstance(row, Fault):
                faults.add(line, row)
                row = None
            yield line, row
    except Fault as fault:
        raise DataError(path, None, *fault.args) from None
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        what = f"this is not a sound gzip file ({error})"
        fix = (
            "download the file again (in a git clone: git lfs pull); "
            "if it is plain text, take .gz off its name"
        )
        raise DataError(path, line + 1, None, what, fix) from None
    except OSError as error:
        what = f"cannot be read ({error.strerror or error})"
        raise DataError(path, None, None, what, "check the file") from None
    if not line:
        raise DataError(path, None, None, "the file has no rows", "download or write it again")


def _kind(path: Path) -> str:
    """What a file is by its name, in any case, as ".csv"; packed or not."""
    return Path(path.name.lower().removesuffix(".gz")).suffix


def is_csv(path: Path) -> bool:
    """Whether a file has cells, which are all text."""
    return _kind(path) in (".csv", ".tsv")


# How files begin that are no text in UTF-8, whatever they are called: what they are, and the fix.
BEGINNINGS = {
    b"\xff\xfe": ("text in UTF-16", "save it as UTF-8"),
    b"\x1f\x8b": ("packed by gzip", "let its name end in .gz"),
    b"PK\x03\x04": ("a zip archive, as a workbook of Excel is", "unpack it, or save it as CSV"),
    b"PAR1": ("a Parquet file", "let its name end in .parquet"),
    b"version https://git-lfs": ("a pointer of Git LFS", "git lfs pull"),
}


@contextmanager
def _opened(path: Path) -> Iterator[io.BufferedIOBase]:
    """A file of text, unpacked, past its byte order mark.

    Raises Fault where its first bytes show that it is no text.
    """
    with gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb") as file:
        beginning = file.read(max(map(len, BEGINNINGS)))
        for of_other_files, (words, fix) in BEGINNINGS.items():
            if beginning.startswith(of_other_files):
                raise Fault(None, f"the file is {words}", fix)
        file.seek(len(codecs.BOM_UTF8) if beginning.startswith(codecs.BOM_UTF8) else 0)
        yield file


def _lines(path: Path) -> Iterator[bytes]:
    """The lines of a file of text."""
    with _opened(path) as file:
        yield from file


# Each kind of file as (line, row), with a Fault in place of a row that cannot be read.


def _jsonl(path: Path) -> Iterator[tuple[int, object]]:
    """The rows of a file with one JSON object a line."""
    for number, line in enumerate(_lines(path), 1):
        if number == 1 and line.lstrip().startswith(b"["):
            what = "the file begins with [, as one JSON array does"
            raise DataError(path, 1, None, what, "call it .json, or write one object a line")
        try:
            yield number, _parsed(line)
        except Fault as fault:
            yield number, fault


def _json(path: Path) -> Iterator[tuple[int, object]]:
    """The rows of a file with one JSON array."""
    with _opened(path) as file:
        values = _parsed(file.read())
    if not isinstance(values, list):
        fix = "write one JSON array of objects; call a file with one object a line .jsonl"
        raise Fault(None, f"expected a JSON array, got {shown(values)}", fix)
    yield from enumerate(values, 1)


def _parsed(content: bytes) -> object:
    """A JSON value.

    Raises Fault for bad JSON, broken UTF-8, too long a number, and what is nested too deeply.
    """
    try:
        return _decode(content.decode().strip())
    except Fault:
        raise
    except (ValueError, RecursionError) as error:
        what = f"bad JSON: {error}".replace(": line 1 column", " at column")
        fix = "write whole JSON in UTF-8: one object a line, no blank lines, or one array"
        raise Fault(None, what, fix) from None


def _unique(pairs: list[tuple[str, object]]) -> dict:
    """An object whose keys are all different; raises Fault.

    json itself would keep the last of two values without a word.
    """
    row = dict(pairs)
    if len(row) != len(pairs):
        times = Counter(name for name, _ in pairs)
        repeated = next(name for name in row if times[name] > 1)
        raise Fault(repeated, "the row has this column twice", "keep one of the two")
    return row


# Built once: json.loads with a keyword builds a new decoder for every row.
_decode = json.JSONDecoder(object_pairs_hook=_unique).decode


# What may stand between the cells of a row. Excel writes semicolons where a comma is the decimal
# point.
SEPARATORS = {",": "a comma", ";": "a semicolon", "\t": "a tab"}


def _csv(path: Path) -> Iterator[tuple[int, object]]:
    """The rows of a CSV file; its first line has the names of the columns.

    The separator is the one of `SEPARATORS` that stands most often in the first line.
    """
    csv.field_size_limit(2**31 - 1)  # the default is shorter than some conversations
    first_line = 1  # of the row: a quoted text may span lines
    texts = (line.decode() for line in _lines(path))
    try:
        beginning = next(texts, "")
        is_tabbed = _kind(path) == ".tsv" and "\t" in beginning
        outside_quotes = re.sub('"[^"]*"', "", beginning)
        delimiter = "\t" if is_tabbed else max(SEPARATORS, key=outside_quotes.count)
        cells_of_rows = csv.reader(
            chain([beginning], texts), strict=True, delimiter=delimiter, skipinitialspace=True
        )
        header = [name.strip() for name in next(cells_of_rows, [])]
        if beginning and not any(header):
            fix = "let the first line have the names of the columns"
            raise DataError(path, 1, None, "the first line is blank", fix)
        names = list(_unique([(name, None) for name in header]))
        first_line = cells_of_rows.line_num + 1
        for cells in cells_of_rows:
            if len(cells) == len(names):
                # An empty cell is CSV's only way to say "missing".
                row = dict(zip(names, [cell or None for cell in cells], strict=True))
            elif not cells:
                row = Fault(None, "a blank line", "take it out")
            else:
                what = f"{len(cells)} cells, the header has {len(names)}"
                fix = f'put a cell with {SEPARATORS[delimiter]} or a line break in "quotes"'
                row = Fault(None, what, fix)
            yield first_line, row
            first_line = cells_of_rows.line_num + 1
    except (csv.Error, UnicodeDecodeError) as error:
        fix = "close every quote, save the file as UTF-8 with line breaks of Unix or Windows"
        raise DataError(path, first_line, None, f"bad CSV: {error}", fix) from None


def _parquet(path: Path) -> Iterator[tuple[int, object]]:
    """The rows of a Parquet file."""
    import pyarrow.parquet  # here: the other formats do not need it, and it takes a while to import

    number = 0
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            _unique([(name, None) for name in file.schema_arrow.names])
            for batch in file.iter_batches(batch_size=256):
                for row in batch.to_pylist():
                    number += 1
                    yield number, row
    except Fault:
        raise
    except (pyarrow.ArrowException, OSError, ValueError, OverflowError) as error:
        cause = (str(error).splitlines() or [type(error).__name__])[0]
        raise DataError(
            path,
            number + 1,
            None,
            f"this is not a sound Parquet file ({cause})",
            "download or write the file again",
        ) from None
