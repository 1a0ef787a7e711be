"""Readers of rated data sets: HelpSteer, HelpSteer2, SummEval, and your own ratings."""

import math
from collections.abc import Iterator, Sequence
from itertools import groupby, zip_longest
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple, Self

from pydantic import AfterValidator, Field, create_model, model_validator

from hs2lib.data import own
from hs2lib.data.own import OwnColumns
from hs2lib.data.readers import NAN, Conversation, Name, or_nan, values
from hs2lib.data.rows import (
    DataError,
    Fault,
    Faults,
    Row,
    Text,
    checked,
    columns,
    shown,
    sound,
    whole,
)
from hs2lib.group import ATTRIBUTES, Group, Response, Turn
from hs2lib.paths import content_key

Rating = Annotated[whole(0, 4), AfterValidator(float)]


class Answered(Row):
    """A prompt and a response to it."""

    prompt: Conversation
    response: Text


def _group(name: str, rows: Sequence[Any], source: str) -> Group:
    """A group of rows that have one prompt, each with a response, its labels and its ratings."""
    responses = [
        Response(f"{name}/{i}", row.response, row.labels, row.ratings) for i, row in enumerate(rows)
    ]
    return Group(name, rows[0].prompt, tuple(responses), source=source)


def _runs(
    path: Path, model: type[Row], faults: Faults, *key: str
) -> Iterator[tuple[tuple[int, ...], tuple[Any, ...]]]:
    """(lines, rows) of the sound rows of a file that follow each other with the same key.

    key: the names of the columns that make it.
    """
    key_of = attrgetter(*key)
    for _, run in groupby(sound(path, model, faults), key=lambda item: key_of(item[1])):
        lines, rows = zip(*run, strict=True)
        yield lines, rows


# HelpSteer and HelpSteer2


class Rated(columns(ATTRIBUTES, Rating, base=Answered)):
    """HelpSteer and HelpSteer2: a response and its five labels."""

    ratings: ClassVar = ()

    @property
    def labels(self) -> tuple[float, ...]:
        """The labels in the order of the attributes."""
        return values(self)


def helpsteer2(path: Path, faults: Faults, prefix: str, source: str) -> Iterator[Group]:
    """HelpSteer2: rows 2k and 2k + 1 (lines 2k + 1 and 2k + 2) are the two responses to a prompt.

    They are paired by position, not by prompt: one train prompt occurs in two pairs. Whole pairs
    are set aside, and each row of them is reported. Paper: section 2.1 (two responses per prompt).
    """
    rows = checked(path, Rated, faults)
    fix = "restore the row that was lost, doubled or moved at or before this line"
    # One iterator twice: zip takes two rows at a time from it.
    pairs = zip_longest(rows, rows, fillvalue=(None, None))
    for (line, first), (next_line, second) in pairs:
        if first and second and first.prompt == second.prompt:
            yield _group(f"{prefix}/{line // 2}", [first, second], source)
            continue
        if next_line is None:
            what = f"the file has {line} rows, an odd number: the last has no partner"
            faults.add(line, Fault(None, what, fix))
            return
        if first and second:
            what = f"lines {line} and {next_line} are a pair, but their prompts differ"
            faults.add(line, Fault("prompt", what, fix))
        for row_line, partner_line in ((line, next_line), (next_line, line)):
            what = f"its pair partner, line {partner_line}, is set aside"
            faults.partners.append(DataError(path, row_line, None, what, "mend that one"))


def helpsteer(path: Path, faults: Faults, prefix: str, source: str) -> Iterator[Group]:
    """HelpSteer: rows in a row with the same prompt are its responses (up to four).

    Paper: Table 2, column HS. Faulty rows are set aside one by one; the other responses to the
    prompt stay.
    """
    for lines, rows in _runs(path, Rated, faults, "prompt"):
        yield _group(f"{prefix}/{lines[0] - 1}", rows, source)


class Disagreement(
    columns(ATTRIBUTES, Annotated[list[Rating], Field(min_length=1)], base=Answered)
):
    """HelpSteer2's disagreements: of each attribute one rating per annotator, no annotator ids."""

    labels: ClassVar = ()

    @model_validator(mode="after")
    def _as_many(self) -> Self:
        counts = [len(column) for column in values(self)]
        if len(set(counts)) > 1:
            raise Fault(
                None,
                f"{shown(counts)} ratings by attribute",
                "give as many ratings of every attribute",
            )
        return self

    @property
    def ratings(self) -> tuple[tuple[float, ...], ...]:
        """N annotators x A: lists are read by position, the same place is the same annotator."""
        return tuple(zip(*values(self), strict=True))


def disagreements(path: Path, faults: Faults, prefix: str, source: str) -> Iterator[Group]:
    """HelpSteer2's individual annotations, as ratings.

    Labels stay (), and follow from `hs2lib.stats.aggregate`. Two rows in a row with one prompt make
    a pair. A row whose partner is absent makes a group of one. Paper: section 2.1 (three
    annotators, or five).
    """
    for lines, rows in _runs(path, Disagreement, faults, "prompt"):
        for i in range(0, len(rows), 2):
            yield _group(f"{prefix}/{lines[i] - 1}", rows[i : i + 2], source)


# SummEval

SUMMEVAL_ATTRIBUTES = ("coherence", "consistency", "fluency", "relevance")

# The ratings of three experts, on a scale of 1 to 5.
Three = Annotated[
    list[Annotated[whole(1, 5), AfterValidator(float)]], Field(min_length=3, max_length=3)
]


class Summary(Row):
    """SummEval: a system's summary of an article, and what three experts think of it."""

    doc_id: Text
    system: Text
    source: Text
    summary: Text
    expert_ratings: columns(SUMMEVAL_ATTRIBUTES, Three)


def summeval(path: Path, faults: Faults, prefix: str, source: str) -> Iterator[Group]:
    """SummEval: the summaries of an article, in rows with one doc_id, are a group.

    The article is its prompt. Labels are the means of the experts' ratings.
    """
    for _, rows in _runs(path, Summary, faults, "doc_id", "source"):
        responses = []
        for row in rows:
            ratings = values(row.expert_ratings, SUMMEVAL_ATTRIBUTES)  # [A][3]
            labels = tuple(sum(three) / 3 for three in ratings)
            name = f"{row.doc_id}/{row.system}"
            responses.append(Response(name, row.summary, labels, tuple(zip(*ratings, strict=True))))
        prompt = (Turn("user", row.source),)
        yield Group(
            f"{prefix}/{row.doc_id}", prompt, tuple(responses), SUMMEVAL_ATTRIBUTES, source=source
        )


# Your own ratings


class OwnRating(Answered, extra="ignore"):
    """Your own ratings of a response; `own_rating` makes the class with the columns of a file.

    An attribute may be null (an empty cell in CSV) where nobody rated it. Columns that are no
    ratings are not read; `hs2lib.data.own.look` says which.
    """

    group: Name = None
    id: Name = None
    annotator: Name = None
    own_columns: ClassVar[OwnColumns]

    @model_validator(mode="before")
    @classmethod
    def _under_our_names(cls, row: dict) -> dict:
        return {own.our_name(column): value for column, value in row.items()}

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

    own_columns: what `hs2lib.data.own.look` found in the file; by default it looks here, and raises
        DataError for the whole file.
    """
    own_columns = own_columns or own.look(path)
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


class _Statement(NamedTuple):
    """What a row says of something, and the fault of a later row that says something else.

    `value` is what the row says, `about` what of. The fault has the other three.
    """

    column: str
    about: object
    value: object
    what: str
    fix: str


def own_rows(
    path: Path, faults: Faults, prefix: str, own_columns: OwnColumns
) -> Iterator[tuple[str, OwnRating]]:
    """(name of its group, row) of each row of own ratings that does not contradict earlier ones.

    Of earlier rows only keys are held. A row is a fault where it leaves open which of two ratings
    counts, which of two ids, whose a rating is, or which group. A response without an id is called
    PREFIX/GROUP/NUMBER, as by `ratings`, so no other response may have that id.

    own_columns: what `hs2lib.data.own.look` found in the file.
    """
    numbers: dict[str, dict[str, int]] = {}  # of the responses of each group
    statements: dict[object, tuple[int, object]] = {}  # about -> (line, value) of the first row
    for line, row in sound(path, own_rating(own_columns), faults):
        prompt = content_key(repr(row.prompt))
        response = content_key(row.response)
        if row.group:
            group = ("group", row.group)
            name = row.group
        else:
            group = ("prompt", prompt)
            first_line, _ = statements.get(group, (line, prompt))
            name = str(first_line - 1)
        new_statements = [
            _Statement(
                column="prompt",
                about=group,
                value=prompt,
                what=f"group {name!r} has another prompt",
                fix="give one group one prompt",
            ),
            _Statement(
                column="group",
                about=("name", name),
                value=group,
                what=f"a row without a group is in {name!r} too",
                fix="name the group in every row",
            ),
            _Statement(
                column="annotator",
                about="named",
                value=row.annotator is None,
                what="only one of two rows names its annotator",
                fix="name all or none",
            ),
        ]
        if row.id is not None:
            new_statements += [
                _Statement(
                    column="id",
                    about=("id", row.id),
                    value=(group, response),
                    what=f"another response has the id {row.id!r}",
                    fix="give each its own",
                ),
                _Statement(
                    column="id",
                    about=("id of", group, response),
                    value=row.id,
                    what="this response has another id",
                    fix="give a response one id",
                ),
            ]
        elif ("id of", group, response) not in statements:
            in_group = numbers.get(name, {})
            default = f"{prefix}/{name}/{in_group.get(response, len(in_group))}"
            new_statements.append(
                _Statement(
                    column="id",
                    about=("id", default),
                    value=(group, response),
                    what=f"{default!r}, which this response would be called, is another's id",
                    fix="give this response an id too",
                )
            )
        new_statements.append(
            _Statement(
                column="annotator",
                about=(group, response, row.annotator),
                value=line,
                what=f"{row.annotator or 'nobody named'} rated this response before",
                fix="keep one rating, or name who gave it",
            )
        )
        fault = _contradiction(line, new_statements, statements)
        if fault:
            faults.add(line, fault)
            continue
        in_group = numbers.setdefault(name, {})
        in_group.setdefault(response, len(in_group))
        yield name, row


def _contradiction(
    line: int, new: Sequence[_Statement], statements: dict[object, tuple[int, object]]
) -> Fault | None:
    """The first statement of a row that contradicts an earlier row, as a fault, if there is one.

    The statements before it are noted.

    Args:
        line: of the row.
        new: the statements of the row.
        statements: the (line, value) of the row that first said something, by what it is about.
    """
    for statement in new:
        first_line, first_value = statements.setdefault(statement.about, (line, statement.value))
        if first_value != statement.value:
            what = f"{statement.what} (line {first_line})"
            return Fault(statement.column, what, statement.fix)
    return None


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
