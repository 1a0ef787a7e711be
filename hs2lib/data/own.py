"""A file of one's own ratings: prompt, response and columns of numbers, each an attribute.

    found = own.look(path, scale="1-5")  # one pass over the file, before rows are checked
    found.attributes                     # ("clarity", "tone")
    found.scales["clarity"]              # Scale(1, 5)

A scale that is not named is HelpSteer2's, 0 to 4 (paper: section 2.1).
"""

import math
import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple, Self

from pydantic import AfterValidator, Field, ValidationError, create_model, model_validator

from hs2lib.data.files import (
    Prompt,
    Spoken,
    check_conversations,
    from_cell,
    renamed,
    under_its_name,
)
from hs2lib.data.readers import NAN, Name, or_nan
from hs2lib.data.rows import (
    PLAIN_NUMBER,
    DataError,
    Fault,
    Faults,
    Row,
    faults_of,
    is_csv,
    listed,
    printable,
    read,
    real,
    shown,
)
from hs2lib.engine.chat import NINE
from hs2lib.group import ATTRIBUTES, Group, Response
from hs2lib.paths import content_key

# Scales


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
        return f"{self.low:.12g} to {self.high:.12g}"

    @property
    def rating(self) -> Any:
        """The type of a field that holds a number on it."""
        words = f"a number from {self.words}"
        fix = f"write {words}; leave the cell empty where there is no rating; or name another scale"
        return real(self.low, self.high, words=words, fix=fix)


# HelpSteer2's scale. Paper: section 2.1.
HELPSTEER = Scale(0, 4)

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


def levels_of(scale: Scale, step: float) -> list[float]:
    """The levels of a scale whose ratings are multiples of a step; none where the step is 0."""
    if not step:
        return []
    return [scale.low + step * number for number in range(round(scale.width / step) + 1)]


# Columns

# The columns of a row that are no ratings.
TEXTS = ("prompt", "response")
NAMES = ("group", "id", "annotator")

# What people call the column that says who rated.
RATERS = ("rater", "rater_id", "annotator_id", "worker", "worker_id", "user", "user_id", "judge")

# Columns of numbers that number rows, or say when or from whom a row is.
NUMBERING = (
    "split",
    "index",
    "line",
    "row",
    "number",
    "seed",
    "rater",
    "time",
    "timestamp",
    "year",
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


@dataclass
class Column:
    """What one column of a file holds, over all its rows.

    Fields:
        n_numbers, n_texts: how many values are numbers, and how many are not. Empty cells are
            neither.
        low, high: the smallest and the largest number, with the lines that they stand in.
        step: 1 where all numbers are whole, .5 where all are halves, else 0.
        text: the first value that is no number, as a message shows it.
    """

    n_numbers: int = 0
    n_texts: int = 0
    low: tuple[float, int] = (math.inf, 0)
    high: tuple[float, int] = (-math.inf, 0)
    step: float = 1
    text: str = ""

    def add(self, line: int, value: object, has_cells: bool) -> None:
        """Note the value that a row has; of CSV a text may be a number."""
        if value is None:
            return
        number = None if isinstance(value, str) and not has_cells else as_number(value)
        if number is None:
            self.n_texts += 1
            self.text = self.text or shown(value)
            return
        self.n_numbers += 1
        self.low = min(self.low, (number, line))
        self.high = max(self.high, (number, line), key=lambda end: end[0])
        if self.step == 1 and number % 1:
            self.step = 0.5
        if self.step == 0.5 and number % 0.5:
            self.step = 0

    @property
    def is_constant(self) -> bool:
        """Whether there are several ratings, and all are equal."""
        return self.n_numbers > 1 and self.low[0] == self.high[0]

    def no_rating(self, name: str) -> str:
        """Why the column holds no ratings, by its name and values; "" where it may."""
        word = name.lower()
        is_index = word.startswith(("unnamed:", "__index_level_"))  # of pandas
        if name in ATTRIBUTES:
            return ""
        if not name or word in NUMBERING or is_index or word.endswith("_id"):
            return "it numbers or names rows"
        if self.n_texts >= self.n_numbers:
            return f"no numbers, such as {self.text}" if self.text else "empty"
        if re.search(r"[:,=\n]", name):
            return "its name has a mark (: , =): rename it to read it"
        return ""


@dataclass(frozen=True)
class OwnColumns:
    """What `look` found in a file of own ratings.

    Fields:
        path: the file.
        attributes: the columns that are ratings, in the order of the outputs of a model.
        scales: of each attribute.
        columns: the file's name of each of our columns that is called otherwise.
        constant: the one value of each attribute whose ratings are all equal.
        ignored: why a column is not read, by its name.
        steps: of the numbers of each attribute, as `Column.step`.
        note: what is doubtful about the scale, in a sentence, or "".
        off_scale: that ratings are not on HelpSteer2's scale, and no other is named, by attribute.
            `own_rows` raises it, with all faults of the rows.
    """

    path: Path
    attributes: tuple[str, ...]
    scales: Mapping[str, Scale]
    columns: Mapping[str, str] = field(default_factory=dict)
    constant: Mapping[str, float] = field(default_factory=dict)
    ignored: Mapping[str, str] = field(default_factory=dict)
    steps: Mapping[str, float] = field(default_factory=dict)
    note: str = ""
    off_scale: Sequence[DataError] = ()

    def in_words(self) -> list[str]:
        """What was found: attributes with their scales, and what was left aside."""
        parts = [f"{name} ({self.scales[name].words})" for name in self.attributes]
        lines = [f"attributes: {', '.join(parts)}"]
        if self.note:
            lines.append(self.note)
        lines += [f"not read: {name} ({reason})" for name, reason in self.ignored.items()]
        return lines

    @property
    def levels(self) -> list[float]:
        """The levels of the scale, for what counts levels: whole numbers, or halves.

        Raises:
            ValueError: the attributes have several scales, or ratings lie between halves.
        """
        steps = set(self.steps.values())
        if len(set(self.scales.values())) > 1 or 0 in steps:
            raise ValueError(
                "kappa counts levels, and these ratings have none in common: "
                f"{self.in_words()[0]}. Notebook 05 has R between raters, which needs no levels"
            )
        return levels_of(next(iter(self.scales.values())), min(steps, default=1))

    @property
    def scale_setting(self) -> str:
        """The scales as the setting `scale` has them: "1-5", or "clarity:1-5,score:0-1"."""
        texts = {name: f"{scale.low:.12g}-{scale.high:.12g}" for name, scale in self.scales.items()}
        if len(set(texts.values())) == 1:
            return next(iter(texts.values()))
        return ",".join(f"{name}:{text}" for name, text in texts.items())


def look(
    path: Path,
    attributes: Sequence[str] = (),
    scale: str = "",
    columns: Mapping[str, str] | None = None,
) -> OwnColumns:
    """Read a file once, and find its attributes.

    Of the values only ranges are kept. Rows that cannot be read are passed over: who checks the
    rows reports them.

    Args:
        path: a JSONL, JSON, CSV or Parquet file.
        attributes: the columns to read as ratings; () for every column of numbers. HelpSteer2's
            five, a parameter's default, are all columns where the file has none of them.
        scale: as `parse_scales`; an attribute that it does not name is on HelpSteer2's.
        columns: the file's name of each of our columns that is called otherwise.

    Raises:
        DataError: no column holds ratings, one that is asked for is absent, or all ratings are
            equal.
    """
    found = _read_columns(path, columns or {})
    no_rating = {name: column.no_rating(name) for name, column in found.items()}
    names = in_order(_attributes(path, found, no_rating, attributes))
    rated = {name: found.get(name, Column()) for name in names}
    constant = {name: column.low[0] for name, column in rated.items() if column.is_constant}
    if len(constant) == len(names) and names != ATTRIBUTES:
        raise nothing_to_learn(path, constant)
    try:
        named = parse_scales(scale, names)
    except ValueError as error:
        raise DataError(path, None, None, str(error), "correct scale") from None
    unnamed = {name: column for name, column in rated.items() if name not in named}
    off_scale = tuple(_off_scale(path, rated, named))
    scales = {name: named.get(name, HELPSTEER) for name in names}
    # The error is raised once all rows are read, whose other faults it should not hide.
    scales |= {error.field: Scale(-math.inf, math.inf) for error in off_scale}
    lowest = min([column.low[0] for column in unnamed.values()], default=0)
    note = ""
    if not off_scale and 1 <= lowest < math.inf:
        note = "no rating is 0: the scale is read as 0 to 4; if it is 1 to 5, say --scale 1-5"
    return OwnColumns(
        path=path,
        attributes=names,
        scales=scales,
        columns=columns or {},
        constant=constant,
        ignored={
            printable(name): reason or "attributes does not name it"
            for name, reason in no_rating.items()
            if name not in names
        },
        steps={name: column.step for name, column in rated.items()},
        note=note,
        off_scale=off_scale,
    )


def without_ratings(path: Path, columns: Mapping[str, str] | None = None) -> dict[str, str] | None:
    """Why no column of a file holds ratings, by name; None where one does.

    Raises DataError as `look`.
    """
    found = _read_columns(path, columns or {})
    reasons = {name: column.no_rating(name) for name, column in found.items()}
    return reasons if all(reasons.values()) else None


def _read_columns(path: Path, columns: Mapping[str, str]) -> dict[str, Column]:
    """The columns of a file beside texts and names, under our names.

    Raises DataError where a column that is named is absent, or no row can be read.
    """
    faults = Faults(path)
    found: dict[str, Column] = {}
    for line, row in read(path, faults):
        if row is None:
            continue
        try:
            values = renamed(row, columns)
        except Fault as fault:
            if found:
                continue
            raise DataError(path, line, *fault.args) from None
        for name, value in values.items():
            if name not in TEXTS and name not in NAMES:
                found.setdefault(name, Column()).add(line, value, is_csv(path))
    if faults.faults and not found:
        raise faults.error()
    return found


def _attributes(
    path: Path,
    found: Mapping[str, Column],
    no_rating: Mapping[str, str],
    asked: Sequence[str],
) -> list[str]:
    """The columns that are ratings.

    Args:
        path: of the file.
        found: its columns.
        no_rating: why each is none, or "".
        asked: those that are asked for, () for all.

    Raises:
        DataError: one that is asked for holds no numbers, or there is none.
    """
    if set(asked) == set(ATTRIBUTES):  # a parameter's default
        asked = [name for name in asked if name in found]
    else:
        for name in asked:
            if name not in found or not found[name].n_numbers:
                reason = no_rating.get(name, "there is no such column")
                others = [other for other in found if other not in asked]
                raise DataError(
                    path,
                    None,
                    name,
                    f"attributes names it, and it holds no ratings: {reason}",
                    f"name columns of numbers; there are also: {listed(others)}",
                )
    ratings = list(dict.fromkeys(asked)) or [
        name for name, reason in no_rating.items() if not reason
    ]
    if not ratings:
        others = listed(f"{name} ({reason})" for name, reason in no_rating.items())
        raise DataError(
            path,
            None,
            None,
            f"no column holds ratings; besides prompt and response it has: {others}",
            "add a column of numbers, under any name",
        )
    return ratings


def _off_scale(
    path: Path, rated: Mapping[str, Column], named: Collection[str]
) -> Iterator[DataError]:
    """That ratings of an attribute whose scale is not named are not on HelpSteer2's."""
    off = {}
    for name, column in rated.items():
        is_off = column.low[0] < HELPSTEER.low or column.high[0] > HELPSTEER.high
        if name not in named and column.n_numbers and is_off:
            off[name] = column
    ends = []
    for name, column in off.items():
        scale = f"{min(1, math.floor(column.low[0]))}-{math.ceil(column.high[0])}"  # few have no 1
        ends.append(f"{name}:{scale}" if len(rated) > 1 else scale)
    option = shlex.quote(",".join(ends))
    for name, column in off.items():
        low, low_line = column.low
        high, high_line = column.high
        yield DataError(
            path,
            low_line if low < HELPSTEER.low else high_line,
            name,
            f"ratings go from {low:g} (line {low_line}) to {high:g} (line {high_line}), and "
            f"a scale that is not named is {HELPSTEER.words}",
            f"name the lowest and the highest rating there can be, as --scale={option}; if "
            f"{name} is no rating, name those that are: --attributes of hs2 check, "
            "-p attributes=[..] of hs2 run",
        )


def nothing_to_learn(path: Path, constant: Mapping[str, float]) -> DataError:
    """The error of a file whose ratings are all equal; constant: their value, by attribute."""
    values = ", ".join(f"{name} {value:g}" for name, value in constant.items())
    return DataError(
        path,
        None,
        None,
        f"all ratings are equal ({values}), so there is nothing to learn from them",
        "rate on more than one level, or name other columns, as -p attributes=[name]",
    )


def in_order(names: Iterable[str]) -> tuple[str, ...]:
    """Attributes in the order of a model's outputs: HelpSteer2's first, then as they come.

    Those that Open Assistant has too stand in the order of the reference code.
    """
    names = list(names)
    known = [name for name in NINE if name in names]
    return (*known, *[name for name in names if name not in NINE])


# Rows


class OwnRating(Row, extra="ignore"):
    """Your own ratings of a response; `own_rating` makes the class with the columns of a file.

    An attribute may be null (an empty cell in CSV) where nobody rated it.
    """

    prompt: Prompt
    response: Spoken
    group: Name = None
    id: Name = None
    annotator: Name = None
    own_columns: ClassVar[OwnColumns]

    @model_validator(mode="before")
    @classmethod
    def _under_our_names(cls, row: dict) -> dict:
        values = renamed(row, cls.own_columns.columns)
        if is_csv(cls.own_columns.path):
            for name in TEXTS:
                if name in values:
                    values[name] = from_cell(name, values[name])
        return values

    @model_validator(mode="after")
    def _one_prompt(self) -> Self:
        check_conversations(self.prompt, [self.response], ["response"])
        self.response = self.response.text
        return self

    @property
    def values(self) -> tuple[float, ...]:
        """The ratings in the order of the attributes, nan where one is missing."""
        n_attributes = len(self.own_columns.attributes)
        return tuple([getattr(self, _field(number)) for number in range(n_attributes)])


def _field(number: int) -> str:
    """The name of a model's field for an attribute, whose own name may be any text."""
    return f"attribute_{number}"


def own_rating(own_columns: OwnColumns) -> type[OwnRating]:
    """The rows of a file of own ratings: its attributes, on their scales."""
    fields = {}
    for number, name in enumerate(own_columns.attributes):
        rating = own_columns.scales[name].rating
        fields[_field(number)] = (
            Annotated[rating | None, AfterValidator(or_nan)],
            Field(alias=name),
        )
    model = create_model("Row", __base__=OwnRating, **fields)
    model.own_columns = own_columns
    return model


def own_rows(
    path: Path, faults: Faults, prefix: str, own_columns: OwnColumns
) -> Iterator[tuple[str, OwnRating]]:
    """(name of its group, row) of each row of own ratings that does not contradict earlier ones.

    Of earlier rows only keys are held. A row is a fault where it leaves open which of two ratings
    counts, which of two ids, whose a rating is, or which group. A response without an id is called
    PREFIX/GROUP/NUMBER, as by `ratings`, so no other response may have that id.
    """
    numbers: dict[str, dict[str, int]] = {}  # of the responses of each group
    said: dict[object, tuple[int, object]] = {}  # of what -> (line, what) of the first row
    for line, row in _sound_rows(path, faults, own_columns):
        prompt = content_key(repr(row.prompt))
        response = content_key(row.response)
        first_line, _ = said.get(("prompt of", prompt), (line, None))
        group = row.group or str(first_line - 1)
        of_group = numbers.setdefault(group, {})
        number = of_group.get(response, len(of_group))
        _, known_id = said.get(("response", group, response), (line, None))
        response_id = row.id or known_id or f"{prefix}/{group}/{number}"
        # (field, of what, what is said of it, what it means that an earlier row says another thing)
        statements = [
            ("annotator", "annotators", row.annotator is None, "only one of two rows names it"),
            ("group", "groups", row.group is None, "only one of two rows names it"),
            ("prompt", ("group", group), prompt, f"group {group!r} has another prompt"),
            ("id", ("response", group, response), response_id, "the response has another id"),
            ("id", ("id", response_id), (group, response), f"{response_id!r} is another response"),
            (
                "annotator",
                ("rating", group, response, row.annotator),
                line,
                "this response was rated before, by the same person or by nobody that is named",
            ),
        ]
        said.setdefault(("prompt of", prompt), (line, None))
        for column, of_what, value, what in statements:
            earlier, first_value = said.setdefault(of_what, (line, value))
            if first_value != value:
                fix = "mend one of the two rows, or take it out"
                if column == "annotator":
                    who = next((name for name in own_columns.ignored if name in RATERS), "COLUMN")
                    fix = f"say in every row who rated: in annotator, or --columns annotator={who}"
                fault = Fault(column, f"{what} (line {earlier})", fix)
                faults.add(line, under_its_name(fault, own_columns.columns))
                break
        else:
            of_group[response] = number
            yield group, row
    if own_columns.off_scale:
        faults.faults += own_columns.off_scale
        raise faults.error()


def _sound_rows(
    path: Path, faults: Faults, own_columns: OwnColumns
) -> Iterator[tuple[int, OwnRating]]:
    """(line, row) of each row without faults; those of others go to `faults`, as the file says."""
    model = own_rating(own_columns)
    strict = False if is_csv(path) else None
    for line, row in read(path, faults):
        if row is None:
            continue
        try:
            yield line, model.model_validate(row, strict=strict)
        except ValidationError as error:
            for fault in faults_of(error):
                faults.add(line, under_its_name(fault, own_columns.columns))


def ratings(
    path: Path,
    faults: Faults,
    prefix: str,
    source: str,
    own_columns: OwnColumns | None = None,
) -> Iterator[Group]:
    """Groups of your own rated responses, in the order in which their prompts first occur.

    Without an `annotator` column the row's values are the labels. With it they are raw ratings, and
    the labels are the plain mean of those that are there. The paper's rule, the three that agree
    most, is in `hs2lib.stats.aggregate`.

    Raises DataError where `own_columns` has attributes that are on no known scale.

    own_columns: what `look` found in the file; by default it looks here.
    """
    own_columns = own_columns or look(path)
    groups: dict[str, dict[str, list[OwnRating]]] = {}  # rows by group and response
    for name, row in own_rows(path, faults, prefix, own_columns):
        rows_by_response = groups.setdefault(f"{prefix}/{name}", {})
        rows_by_response.setdefault(row.response, []).append(row)
    for name, rows_by_response in groups.items():
        responses = []
        for i, rows in enumerate(rows_by_response.values()):
            responses.append(_own_response(f"{name}/{i}", rows))
        first_rows = next(iter(rows_by_response.values()))
        yield Group(
            name, first_rows[0].prompt, tuple(responses), own_columns.attributes, source=source
        )


def _own_response(name: str, rows: Sequence[OwnRating]) -> Response:
    """A response with its labels and ratings, from the rows that rate it."""
    ratings = tuple(row.values for row in rows)
    labels = []
    for column in zip(*ratings, strict=True):
        present = [value for value in column if not math.isnan(value)]
        labels.append(sum(present) / len(present) if present else NAN)
    response_id = next((row.id for row in rows if row.id), name)
    if not rows[0].annotator:
        ratings = ()
    return Response(response_id, rows[0].response, tuple(labels), ratings)
