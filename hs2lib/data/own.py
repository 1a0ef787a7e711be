"""A file of one's own ratings: which columns are attributes, and on what scale they are.

    columns = own.look(path)                     # one pass over the file, before rows are checked
    columns.attributes, columns.scales["clarity"]  # ("clarity", "tone"), Scale(1, 5)
    columns.in_words()                           # what was found, in sentences

A column of numbers beside prompt and response is an attribute, whatever its name. Its scale is told
from its values where these reach both ends of a scale that is in use: 1 and 5, 0 and 4, 0 and 100.
Whole numbers from 1 to 4 may lie on 0 to 4 or on 1 to 5, and then the scale has to be named. The
one exception are HelpSteer2's five attributes together, which lie on HelpSteer2's scale wherever
their values allow it. Paper: section 2 (five attributes, 0 to 4).
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

from hs2lib.data.rows import (
    PLAIN_NUMBER,
    SHOWN,
    DataError,
    Faults,
    is_csv,
    listed,
    printable,
    read,
    real,
    shown,
)
from hs2lib.engine.chat import NINE
from hs2lib.group import ATTRIBUTES


class Scale(NamedTuple):
    """The lowest and the highest rating there can be."""

    low: float
    high: float

    @property
    def width(self) -> float:
        """How far its ends are apart."""
        return self.high - self.low

    @property
    def words(self) -> str:
        """The scale in a sentence: "1 to 5"."""
        return f"{self.low:g} to {self.high:g}"

    @property
    def option(self) -> str:
        """What names the scale on a command line: "--scale 1-5".

        What begins with a minus is taken for an option of its own, so it stands behind a =.
        """
        return f"--scale{'=' if self.low < 0 else ' '}{self.low:g}-{self.high:g}"

    @property
    def rating(self) -> Any:
        """The type of a field that holds a number on it."""
        words = f"a number from {self.words}"
        fix = (
            f"write {words}, without quotes; map another scale to it, or name it, as --scale 1-5; "
            "leave the cell empty, or leave out a row without a value"
        )
        return real(self.low, self.high, words=words, fix=fix)

    def holds(self, low: float, high: float) -> bool:
        """Whether all from `low` to `high` lie on it."""
        return self.low <= low and high <= self.high


# HelpSteer2's scale. Paper: section 2.1.
HELPSTEER = Scale(0, 4)

# The scales that ratings are known to use. One is told from values that reach both its ends.
KNOWN = (
    HELPSTEER,
    Scale(1, 5),
    Scale(0, 1),
    Scale(0, 5),
    Scale(1, 7),
    Scale(1, 10),
    Scale(0, 10),
    Scale(0, 100),
    Scale(1, 100),
    Scale(-1, 1),
)

# The columns of a row that are no ratings. `rated.OwnRating` says what they are.
TEXTS = ("prompt", "response")
NAMES = ("group", "id", "annotator")

# Columns of numbers that number rows, or say when, where or from whom a row is.
NUMBERING = (
    "split",
    "index",
    "idx",
    "row",
    "line",
    "number",
    "no",
    "seed",
    "rater",
    "labeler",
    "labeller",
    "worker",
    "user",
    "date",
    "time",
    "timestamp",
    "year",
)

# What a weighting or a scale in text says by a mark: clarity:1,tone:.5.
MARKS = re.compile(r"[:,=\n]")

SEVERAL_HELD = 64  # distinct values of a column that are kept
WHOLE = "whole numbers"
HALVES = "halves"
NUMBERS = "numbers"


@dataclass
class Column:
    """What one column of a file holds, over all its rows.

    Fields:
        name: as the file has it.
        n_numbers, n_texts: how many values are numbers, and how many are not. Empty cells are
            neither.
        low, high: the smallest and the largest number, with the lines that they stand in.
        step: of all numbers: whole numbers, halves or numbers.
        values: the distinct numbers, up to `SEVERAL_HELD` of them.
        text: the first value that is no number, as a message shows it.
    """

    name: str
    n_numbers: int = 0
    n_texts: int = 0
    low: float = math.inf
    low_line: int = 0
    high: float = -math.inf
    high_line: int = 0
    step: str = WHOLE
    values: set[float] = field(default_factory=set)
    text: str = ""

    def add(self, line: int, value: object, is_csv: bool) -> None:
        """Note the value that a row has; of CSV a text may be a number."""
        if value is None:
            return
        number = None if isinstance(value, str) and not is_csv else as_number(value)
        if number is None:
            self.n_texts += 1
            self.text = self.text or shown(value)
            return
        self.n_numbers += 1
        if number < self.low:
            self.low = number
            self.low_line = line
        if number > self.high:
            self.high = number
            self.high_line = line
        if self.step == WHOLE and not number.is_integer():
            self.step = HALVES
        if self.step == HALVES and not (2 * number).is_integer():
            self.step = NUMBERS
        if len(self.values) < SEVERAL_HELD:
            self.values.add(number)

    @property
    def is_constant(self) -> bool:
        """Whether there are several ratings, and all are equal."""
        return self.n_numbers > 1 and self.low == self.high

    @property
    def range_in_words(self) -> str:
        """What the numbers are, with the lines of the two ends."""
        return (
            f"{self.step} from {self.low:g} (line {self.low_line:,}) "
            f"to {self.high:g} (line {self.high_line:,})"
        )


def as_number(value: object) -> float | None:
    """The finite number that a cell holds, also where CSV has it as a plain text; else None."""
    if isinstance(value, str):
        if not PLAIN_NUMBER.fullmatch(value):
            return None
    elif isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return None
    try:
        number = float(value)
    except OverflowError:  # 400 digits: no float is so large
        return None
    return number if math.isfinite(number) else None


@dataclass(frozen=True)
class OwnColumns:
    """What `look` found in a file of own ratings.

    Fields:
        path: the file.
        attributes: the columns that are ratings, in the order of the outputs of a model.
        scales: of each attribute.
        column_of: the file's name of each column that is read, by ours.
        n_rows: rows that could be read.
        constant: the one value of each attribute whose ratings are all equal.
        ignored: why a column is not read, by its name.
        notes: how scales were found, where that is not plain, in sentences.
        steps: what the numbers of each attribute are, as `Column.step`.
    """

    path: Path
    attributes: tuple[str, ...]
    scales: Mapping[str, Scale]
    column_of: Mapping[str, str]
    n_rows: int
    constant: Mapping[str, float] = field(default_factory=dict)
    ignored: Mapping[str, str] = field(default_factory=dict)
    notes: Sequence[str] = ()
    steps: Mapping[str, str] = field(default_factory=dict)

    def in_words(self) -> list[str]:
        """What was found: attributes with their scales, and what was left aside."""
        by_scale: dict[tuple[str, Scale], list[str]] = {}
        for name in self.attributes:
            kind = (self.steps.get(name, NUMBERS), self.scales[name])
            by_scale.setdefault(kind, []).append(name)
        parts = []
        for (step, scale), names in by_scale.items():
            parts.append(f"{joined(names)} ({step} on a scale from {scale.words})")
        word = "attribute" if len(self.attributes) == 1 else "attributes"
        sentences = [f"{word}: {'; '.join(parts)}", *self.notes]
        by_reason: dict[str, list[str]] = {}
        for name, reason in self.ignored.items():
            by_reason.setdefault(reason, []).append(name)
        for reason, names in by_reason.items():
            sentences.append(f"not read: {joined(names)} ({reason})")
        return sentences

    @property
    def levels(self) -> list[float]:
        """The levels of the scale, for what counts levels: whole numbers, or halves.

        Raises:
            ValueError: the attributes have several scales, or ratings lie between halves.
        """
        steps = set(self.steps.values())
        if len(set(self.scales.values())) > 1 or NUMBERS in steps:
            raise ValueError(
                "kappa counts levels, and these ratings have none in common: "
                f"{self.in_words()[0]}. Notebook 05 has R between raters, which needs no levels"
            )
        scale = next(iter(self.scales.values()))
        return levels_of(scale, HALVES if HALVES in steps else WHOLE)

    @property
    def scale_setting(self) -> str:
        """The scales as the setting `scale` has them: "1-5", or "clarity:1-5,score:0-1"."""
        texts = {name: f"{scale.low:g}-{scale.high:g}" for name, scale in self.scales.items()}
        if len(set(texts.values())) == 1:
            return next(iter(texts.values()))
        return ",".join(f"{name}:{text}" for name, text in texts.items())


def levels_of(scale: Scale, step: str) -> list[float]:
    """The levels of a scale whose ratings are whole numbers or halves; none where they are not."""
    if step == NUMBERS:
        return []
    size = 0.5 if step == HALVES else 1.0
    n_steps = round(scale.width / size)
    return [scale.low + size * number for number in range(n_steps + 1)]


def joined(names: Sequence[str]) -> str:
    """Names in a sentence: "a, b and c"."""
    if len(names) == 1:
        return names[0]
    return f"{', '.join(names[:-1])} and {names[-1]}"


_SCALE = re.compile(r"(?:(.*):)?\s*(-?\d+\.?\d*)\s*-\s*(-?\d+\.?\d*)\s*")


def parse_scales(text: str, attributes: Iterable[str]) -> dict[str, Scale]:
    """The scale of each attribute that a setting names.

    Args:
        text: "1-5" for all attributes, or "clarity:1-5,score:0-1" for some; "" names none.
        attributes: those there are.

    Raises:
        ValueError: the text is something else, its ends are no range, or it names another column.
    """
    attributes = list(attributes)
    scales: dict[str, Scale] = {}
    for part in filter(None, text.split(",")):
        match = _SCALE.fullmatch(part)
        if not match or float(match[2]) >= float(match[3]):
            raise ValueError(
                f"scale {text!r}: write the lowest and the highest rating, as 1-5, "
                "or those of each attribute, as clarity:1-5,score:0-1"
            )
        name = (match[1] or "").strip()
        if name and name not in attributes:
            raise ValueError(
                f"scale {text!r} names {name!r}; the columns of ratings are: "
                f"{', '.join(attributes) or 'none'}"
            )
        for attribute in [name] if name else attributes:
            scales[attribute] = Scale(float(match[2]), float(match[3]))
    return scales


def our_name(column: str) -> str:
    """Our name of a column: that of the file without white space around it.

    Texts, names and HelpSteer2's attributes are known in any case.
    """
    name = column.strip()
    if name.lower() in (*TEXTS, *NAMES, *ATTRIBUTES):
        return name.lower()
    return name


def look(path: Path, attributes: Sequence[str] = (), scale: str = "") -> OwnColumns:
    """Read a file once, and find its attributes and their scales.

    Of the values only ranges are kept. Rows that cannot be read are passed over: who checks the
    rows reports them.

    Args:
        path: a JSONL, JSON, CSV or Parquet file.
        attributes: the columns to read as ratings; () for every column of numbers.
        scale: as `parse_scales`; "" for what the values tell.

    Raises:
        DataError: no column holds ratings, one that is asked for is absent, all ratings are equal,
            or a scale cannot be told. The message names the option that says it.
    """
    faults = Faults(path)
    columns, column_of, n_rows = _read_columns(path, faults)
    if not n_rows:  # every row has a fault, and the check of the rows says which
        return OwnColumns(path, ATTRIBUTES, dict.fromkeys(ATTRIBUTES, HELPSTEER), column_of, 0)
    try:
        return _own_columns(path, columns, column_of, n_rows, attributes, scale)
    except DataError:
        if faults.faults:  # what could not be read may be what is missing
            raise faults.error("Its attributes and scale are looked for in sound rows.") from None
        raise


def _own_columns(
    path: Path,
    columns: Mapping[str, Column],
    column_of: Mapping[str, str],
    n_rows: int,
    attributes: Sequence[str],
    scale: str,
) -> OwnColumns:
    """What the columns of a file are; arguments as `_read_columns` returns them, and of `look`."""
    ratings, ignored = _sorted_out(columns, attributes)
    _check_named(path, attributes, ratings, ignored)
    if not ratings:
        raise _without_ratings(path, columns, ignored)
    names = in_order(ratings)
    constant = {name: ratings[name].low for name in names if ratings[name].is_constant}
    if len(constant) == len(names) and names != ATTRIBUTES:
        raise nothing_to_learn(path, constant)
    scales, notes = _scales(path, {name: ratings[name] for name in names}, scale)
    return OwnColumns(
        path,
        names,
        scales,
        column_of,
        n_rows,
        constant,
        {printable(name): reason for name, reason in ignored.items()},
        notes,
        {name: ratings[name].step for name in names},
    )


def nothing_to_learn(path: Path, constant: Mapping[str, float]) -> DataError:
    """The error of a file whose ratings are all equal; constant: their value, by attribute."""
    values = joined([f"{name} {value:g}" for name, value in constant.items()])
    return DataError(
        path,
        None,
        None,
        f"all ratings are equal ({values}), so there is nothing to learn from them",
        "rate on more than one level, or name other columns, as -p attributes=[name]",
    )


def _sorted_out(
    columns: Mapping[str, Column], attributes: Sequence[str]
) -> tuple[dict[str, Column], dict[str, str]]:
    """The columns of ratings, and why the others are none, by name.

    attributes: those asked for, () for all. HelpSteer2's five, a parameter's default, stand for all
        columns where the file has none of them.
    """
    is_default = set(attributes) == set(ATTRIBUTES)
    if is_default and not set(attributes) & columns.keys():
        attributes = ()
    ratings = {}
    ignored = {}
    for name, column in columns.items():
        reason = _no_rating(name, column)
        if name in attributes and column.n_numbers:
            reason = ""
        elif attributes and not reason:
            reason = "" if name in attributes else "attributes does not name it"
        if reason:
            ignored[name] = reason
        else:
            ratings[name] = column
    return ratings, ignored


def _read_columns(path: Path, faults: Faults) -> tuple[dict[str, Column], dict[str, str], int]:
    """The columns of a file beside texts and names, the file's names by ours, and its rows.

    faults: takes the rows that cannot be read.
    """
    columns: dict[str, Column] = {}
    column_of: dict[str, str] = {}
    ours: dict[str, str] = {}
    n_rows = 0
    has_cells = is_csv(path)
    for line, row in read(path, faults):
        if row is None:
            continue
        n_rows += 1
        for column, value in row.items():
            if column not in ours:
                name = our_name(column)
                if name in column_of:
                    raise DataError(
                        path,
                        line,
                        column,
                        f"the columns {column_of[name]!r} and {column!r} have one name",
                        "rename one of them",
                    )
                ours[column] = name
                column_of[name] = column
            name = ours[column]
            if name in TEXTS or name in NAMES:
                continue
            if name not in columns:
                columns[name] = Column(column)
            columns[name].add(line, value, has_cells)
    return columns, column_of, n_rows


def _no_rating(name: str, column: Column) -> str:
    """Why a column holds no ratings; "" where it may."""
    if name in ATTRIBUTES:
        return ""
    word = name.lower()
    is_index = word.startswith(("unnamed:", "__index_level_"))  # of pandas
    if not name or word in NUMBERING or is_index or word.endswith("_id"):
        return "it numbers or names rows"
    if not column.n_numbers:
        return f"no numbers, such as {column.text}" if column.text else "empty"
    if column.n_texts >= column.n_numbers:
        return f"mostly no numbers, such as {column.text}"
    if MARKS.search(name):
        return "its name has a mark (: , =): rename it to read it"
    return ""


def _check_named(
    path: Path,
    attributes: Sequence[str],
    ratings: Mapping[str, Column],
    ignored: Mapping[str, str],
) -> None:
    """Raise DataError where an attribute that is asked for is no column of ratings.

    HelpSteer2's five, a parameter's default, are asked for as far as they are there.
    """
    if set(attributes) == set(ATTRIBUTES):
        return
    for name in attributes:
        if name not in ratings:
            reason = f": {ignored[name]}" if name in ignored else ""
            others = [other for other in (*ratings, *ignored) if other not in attributes]
            raise DataError(
                path,
                None,
                name,
                f"attributes names it, and the file has no such column of ratings{reason}",
                f"name columns of numbers; there are also: {listed(others)}",
            )


def _without_ratings(
    path: Path, columns: Mapping[str, Column], ignored: Mapping[str, str]
) -> DataError:
    """The error of a file in which no column holds ratings."""
    reasons = [f"{name}: {ignored[name]}" for name in columns]
    if len(reasons) > SHOWN:
        reasons[SHOWN:] = [f"and {len(reasons) - SHOWN:,} more"]
    others = f"; its other columns: {'; '.join(reasons)}" if reasons else ""
    return DataError(
        path,
        None,
        None,
        f"the column is missing that holds ratings{others}",
        "add a column of numbers, under any name, beside prompt and response",
    )


def in_order(names: Iterable[str]) -> tuple[str, ...]:
    """Attributes in the order of a model's outputs: HelpSteer2's first, then as they come.

    Those that Open Assistant has too stand in the order of the reference code.
    """
    names = list(names)
    known = [name for name in NINE if name in names]
    return (*known, *[name for name in names if name not in NINE])


# Scales


def _scales(
    path: Path, ratings: Mapping[str, Column], text: str
) -> tuple[dict[str, Scale], list[str]]:
    """The scale of each attribute, named or told, and how they were found, in sentences.

    Args:
        path: the file.
        ratings: its columns of ratings, by attribute.
        text: the setting `scale`.

    Raises:
        DataError: a scale cannot be told, or `text` is none.
    """
    try:
        named = parse_scales(text, ratings)
    except ValueError as error:
        raise DataError(path, None, None, str(error), "correct scale") from None
    unnamed = {name: column for name, column in ratings.items() if name not in named}
    if not unnamed:
        return named, []
    if set(ATTRIBUTES) <= unnamed.keys():
        five = {name: unnamed.pop(name) for name in ATTRIBUTES}
        scale, note = _scale_of_five(five)
        named |= dict.fromkeys(ATTRIBUTES, scale)
        by_values, notes = _scales_by_values(path, unnamed)
        return {name: (named | by_values)[name] for name in ratings}, [*note, *notes]
    by_values, notes = _scales_by_values(path, unnamed)
    return {name: (named | by_values)[name] for name in ratings}, notes


# HelpSteer2's five attributes are taken to lie on another scale than HelpSteer2's where at least
# this share of their columns reaches above it. One value of 5 may be a slip.
ABOVE = 0.5


def _scale_of_five(five: Mapping[str, Column]) -> tuple[Scale, list[str]]:
    """The scale of HelpSteer2's five attributes, and how it was found, in a sentence or none."""
    rated = [column for column in five.values() if column.n_numbers]
    low = min((column.low for column in rated), default=0)
    high = max((column.high for column in rated), default=0)
    if HELPSTEER.holds(low, high):
        if 1 <= low < high:
            return HELPSTEER, [
                "no rating is 0: HelpSteer2's attributes are read on its scale from 0 to 4; "
                "if yours is from 1 to 5, say --scale 1-5"
            ]
        return HELPSTEER, []
    above = [column for column in rated if column.high > HELPSTEER.high]
    scale = _scale_by_values(rated)
    if scale and scale != Scale(0, 5) and len(above) >= ABOVE * len(rated):
        return scale, []
    return HELPSTEER, []


def _scale_by_values(columns: Sequence[Column]) -> Scale | None:
    """The scale that the values of columns, taken together, tell; None where they tell none.

    They reach both its ends. Two scales are so fine that nobody need have given their ends: shares
    between 0 and 1 that are no halves, and points of a hundred, most of them above 10.
    """
    low = min(column.low for column in columns)
    high = max(column.high for column in columns)
    values = set[float]().union(*[column.values for column in columns])
    if Scale(low, high) in KNOWN:
        return Scale(low, high)
    if any(column.step == NUMBERS for column in columns) and Scale(0, 1).holds(low, high):
        return Scale(0, 1)
    above_ten = sum(value > 10 for value in values)
    if Scale(0, 100).holds(low, high) and high > 50 and above_ten > len(values) / 2:
        return Scale(0, 100)
    return None


def _scales_by_values(
    path: Path, ratings: Mapping[str, Column]
) -> tuple[dict[str, Scale], list[str]]:
    """The scale of each column by its values, and how they were found, in sentences.

    A column that reaches not both ends of a scale has that of the others, if they have one and it
    lies on that. Columns that none tells by itself are taken together.

    Raises:
        DataError: a scale cannot be told.
    """
    rated = {name: column for name, column in ratings.items() if column.n_numbers}
    by_values = {}
    for name, column in rated.items():
        scale = None if column.is_constant else _scale_by_values([column])
        if scale:
            by_values[name] = scale
    if not by_values and len(rated) > 1:
        together = _scale_by_values(list(rated.values()))
        if together:
            by_values = dict.fromkeys(rated, together)
    _check_together(path, by_values, rated)
    notes = []
    others = {}
    for name, column in ratings.items():
        if name in by_values:
            continue
        scales = {scale for scale in by_values.values() if scale.holds(column.low, column.high)}
        if not column.n_numbers:
            others[name] = next(iter(by_values.values()), HELPSTEER)
        elif column.is_constant:  # nothing is learnt from it, whatever its scale
            others[name] = next(iter(scales), Scale(column.low - 1, column.high + 1))
        elif len(scales) == 1:
            (others[name],) = scales
            notes.append(
                f"{name} has {column.step} from {column.low:g} to {column.high:g}, "
                f"and is read on the others' scale from {others[name].words}"
            )
        else:
            raise _unknown_scale(path, name, column, len(ratings) > 1)
    return by_values | others, notes


def _check_together(
    path: Path, by_values: Mapping[str, Scale], ratings: Mapping[str, Column]
) -> None:
    """Raise DataError where two columns tell scales of which one may be a part of the other.

    A column from 0 to 4 beside one from 1 to 5 may be on 0 to 5, and one from 1 to 5 beside one
    from 1 to 10 on 1 to 10. A hundred and five are not mistaken for each other.
    """
    names = list(by_values)
    for k, name in enumerate(names):
        for other in names[:k]:
            first = by_values[other]
            second = by_values[name]
            small, large = sorted((first, second), key=lambda scale: scale.width)
            overlap = min(small.high, large.high) - max(small.low, large.low)
            is_same_kind = ratings[name].step == ratings[other].step
            is_mistaken = small != large and overlap > 0 and large.width < 10 * small.width
            if is_mistaken and is_same_kind:
                raise DataError(
                    path,
                    None,
                    None,
                    f"{other} has {ratings[other].range_in_words}, "
                    f"{name} has {ratings[name].range_in_words}: "
                    "whether they have one scale or two cannot be told",
                    f"name the scale of all, as {large.option}, or of each, "
                    f"as --scale {other}:{first.low:g}-{first.high:g},"
                    f"{name}:{second.low:g}-{second.high:g}",
                )


def _unknown_scale(path: Path, name: str, column: Column, is_one_of_several: bool) -> DataError:
    """The error of a column whose values fit several known scales, or none."""
    fitting = [scale for scale in KNOWN if scale.holds(column.low, column.high)]
    fitting.sort(key=lambda scale: scale.width)  # the narrowest are the likeliest
    examples = [scale.words for scale in fitting[:2]]
    example = Scale(math.floor(column.low), math.ceil(column.high))
    if fitting:
        example = fitting[min(1, len(fitting) - 1)]
    option = example.option
    if is_one_of_several:
        option = (
            f"{option} for all columns, or --scale {name}:{example.low:g}-{example.high:g}; "
            f"if {name} is no rating, name those that are, as -p attributes=[..]"
        )
    return DataError(
        path,
        None,
        name,
        f"{column.range_in_words}: its scale cannot be told "
        f"(known ones that it fits: {' or '.join(examples) or 'none'})",
        f"name the lowest and the highest rating there can be, as {option}",
    )
