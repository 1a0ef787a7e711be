"""Readers of rated data sets: HelpSteer, HelpSteer2 and SummEval."""

from collections.abc import Iterator, Sequence
from itertools import groupby, zip_longest
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

from pydantic import AfterValidator, Field, model_validator

from hs2lib.data.readers import Conversation, values
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
