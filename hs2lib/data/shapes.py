"""Files of prompts with one, two or n responses, whatever their columns are called.

    file = read_prompts(Path("my.jsonl"))
    file.groups   # of `hs2lib.group.Group`: a prompt and its responses
    file.read_as  # "prompt from question; chosen and rejected from output_1 and output_2 by label"

A row has a prompt and one response (`response`, or a conversation that ends in it), or two of which
one may be better (`chosen` and `rejected`; `response_a`, `response_b` and a `label`), or several (a
list, or numbered columns). `hs2lib.data.layouts` knows the names.
"""

import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import combinations, islice
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import (
    AfterValidator,
    AliasChoices,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    model_validator,
)

from hs2lib.data.layouts import (
    BY_NAME,
    PROMPTS,
    SEVERAL,
    Columns,
    Layout,
    asked_layout,
    bare,
    holds_messages,
    kind_of,
    layout_of,
)
from hs2lib.data.readers import ChatMessage, spoken_turns, turns
from hs2lib.data.rows import (
    SEPARATORS,
    DataError,
    Fault,
    Faults,
    Row,
    Text,
    Unclear,
    expected,
    faults_of,
    is_csv,
    read,
    separator,
    shown,
)
from hs2lib.group import Group, Response, Turn


@dataclass(frozen=True)
class PromptRow:
    """A row of a file: a prompt and its responses.

    `row` is the row as the file has it. `group` has the responses in the order of `places`: the
    column of each, and its number in the list of that column, or None where the column holds it
    alone. `comparisons` are (better, worse) of responses, by their numbers; () where the row does
    not say. `tie` says that it says that all are equally good. `carried` are the columns that were
    not read.
    """

    line: int
    row: dict[str, Any]
    layout: Layout
    group: Group
    places: tuple[tuple[str, int | None], ...]
    comparisons: tuple[tuple[int, int], ...] = ()
    tie: bool = False
    notes: tuple[str, ...] = ()

    @property
    def carried(self) -> dict[str, Any]:
        """The columns that were not read, without empty ones."""
        taken = self.layout.columns
        return {
            name: value
            for name, value in self.row.items()
            if name not in taken and value is not None
        }


def difficulty(row: PromptRow, better: int, worse: int) -> str:
    """How hard two responses of RM-Bench are to tell apart, "easy", "normal" or "hard"; else "".

    Three better and three worse responses are its styles, from plain to rich. Two are hard where
    the worse one is the richer.

    Args:
        row: any row.
        better: the number of a response.
        worse: that of another one, which is worse.
    """
    n_better = sum(column == row.layout.responses[0] for column, _ in row.places)
    if row.layout.kind != "better first" or (n_better, len(row.places)) != (3, 6):
        return ""
    richer = worse - n_better - better
    if richer > 0:
        return "hard"
    return "easy" if richer < 0 else "normal"


@dataclass(frozen=True)
class PromptFile:
    """A file of prompts and responses.

    `set_aside` has why rows were left out. `read_as` says in words how the columns were read.
    `complete` is False where reading stopped at a limit.
    """

    path: Path
    rows: tuple[PromptRow, ...]
    set_aside: tuple[DataError, ...] = ()
    read_as: str = ""
    complete: bool = True

    @property
    def groups(self) -> list[Group]:
        """The prompts with their responses.

        Of two responses the preference is negative where the first is better, 0 for a tie, and None
        where the file does not say.
        """
        return [row.group for row in self.rows]

    @property
    def carried(self) -> dict[str, dict[str, Any]]:
        """The columns that were not read, by the id of the group."""
        return {row.group.id: row.carried for row in self.rows}

    @property
    def ties(self) -> int:
        """How many rows say that their responses are equally good."""
        return sum(row.tie for row in self.rows)


# The values of columns


# What ShareGPT calls who speaks.
_SPEAKERS = {"human": "user", "gpt": "assistant"}


class Spoken(Row, extra="ignore"):
    """One message of a conversation as ShareGPT has it."""

    speaker: Literal["system", "human", "user", "gpt", "assistant"] = Field(alias="from")
    value: Text

    def turn(self) -> Turn:
        """The message as a turn."""
        return Turn(_SPEAKERS.get(self.speaker, self.speaker), self.value)


def _none_if_nan(rank: float | None) -> float | None:
    """A rank; None where a program wrote NaN for none."""
    return None if rank is None or math.isnan(rank) else rank


class Answer(Row, extra="ignore"):
    """A response with what is said of it, as a list of responses holds it."""

    text: Text = Field(
        validation_alias=AliasChoices("answer", "response", "text", "output", "content")
    )
    rank: Annotated[float | None, AfterValidator(_none_if_nan)] = None

    @model_validator(mode="before")
    @classmethod
    def no_message(cls, value: dict) -> dict:
        """The object as it is; raises ValueError for a message, whose speaker is not known."""
        if isinstance(value, dict) and {"role", "from"} & value.keys():
            raise ValueError("it is a message")
        return value


class Read(NamedTuple):
    """A response as it was read: the turns before it, if it is a conversation, and its text.

    rank: 1 for the best of its row; None where the row has no ranks.
    """

    before: tuple[Turn, ...]
    text: str
    rank: float | None = None


Messages = Annotated[list[ChatMessage] | list[Spoken], Field(min_length=1)]


def _turns(talk: str | list[ChatMessage] | list[Spoken]) -> tuple[Turn, ...]:
    """The turns of a prompt: a text, or a list of messages."""
    if isinstance(talk, str):
        return spoken_turns(talk) or turns(talk)
    return tuple(message.turn() for message in talk)


def _answer(talk: str | Answer | ChatMessage | list) -> Read:
    """A response: a text, an object that holds it, or a conversation that ends in it."""
    if isinstance(talk, Answer):
        return Read((), talk.text, talk.rank)
    if isinstance(talk, str):
        conversation = spoken_turns(talk)
        if not conversation:
            return Read((), talk)
    elif isinstance(talk, list):
        conversation = _turns(talk)
    else:
        conversation = (talk.turn(),)
    last = conversation[-1]
    if last.role != "assistant":
        raise Fault(
            None, f"the last message is the {last.role}'s", "end with the assistant's answer"
        )
    return Read(conversation[:-1], last.text)


def _answers(value: str | Answer | ChatMessage | list) -> list[Read]:
    """The responses in a column, which are one or a list."""
    is_list = isinstance(value, list)
    if is_list and not all(isinstance(item, ChatMessage | Spoken) for item in value):
        return [_answer(item) for item in value]
    return [_answer(value)]


_STRICT = ConfigDict(strict=True)

_TALK = expected(
    "text or a list of {role, content}", "write it as text, or as messages with role and content"
)

# Of these the first that fits is taken.
_FIRST = Field(union_mode="left_to_right")

_Item = Annotated[Messages | ChatMessage | Answer | Text, _FIRST]

PROMPT = TypeAdapter(Annotated[Text | Messages, _TALK, AfterValidator(_turns)], config=_STRICT)

RESPONSES = TypeAdapter(
    Annotated[
        Annotated[
            Messages | Annotated[list[_Item], Field(min_length=1)] | ChatMessage | Answer | Text,
            _FIRST,
        ],
        _TALK,
        AfterValidator(_answers),
    ],
    config=_STRICT,
)

SYSTEM = TypeAdapter(Text, config=_STRICT)


def _checked(kind: TypeAdapter, row: dict, column: str, faults: list[Fault]) -> Any:
    """The value of a column, checked; None where it has faults, which are added to the list."""
    try:
        return kind.validate_python(row[column])
    except ValidationError as error:
        is_other = error.errors()[0]["type"] == "expected"  # neither a text nor messages
        message = _faulty_message(row[column]) if is_other else ""
        if message:
            what = f"expected text or a list of {{role, content}}, got {message}"
            fix = "give each message a role, system, user or assistant, and one text as its content"
            faults.append(Fault(column, what, fix))
        else:
            faults += faults_of(error, column)
    return None


def _faulty_message(value: object) -> str:
    """The first message of a conversation that cannot be read, in words; "" where there is none."""
    if not holds_messages(value):
        return ""
    kind = Spoken if "from" in value[0] else ChatMessage
    for number, message in enumerate(value, 1):
        try:
            kind.model_validate(message)
        except ValidationError as error:
            (place,) = error.errors()[0]["loc"] or (None,)
            if place is None or place not in message:
                return f"message {number}, which is {shown(message)}"
            return f"message {number} with {place} {shown(message[place])}"
    return ""


# Rows


def prompt_rows(
    path: Path,
    faults: Faults,
    columns: Columns = BY_NAME,
    several_only: bool = False,
) -> Iterator[PromptRow]:
    """The sound rows of a file, one by one; the faults of the others go to `faults`.

    A fault that all rows have is noted once.

    Args:
        path: a JSONL, JSON, CSV or Parquet file.
        faults: takes the faulty rows.
        columns: which columns hold what, where their names do not say it.
        several_only: whether a row has to have two or more responses.

    Raises:
        DataError: the file cannot be read, its rows are of more than one shape, its columns may
            mean two things, or one of them is read in some rows only.
    """
    stem = path.name.split(".")[0]
    cells = is_csv(path)
    mark = separator(path) if cells else ","
    first: tuple[int, Layout] | None = None
    seen = _Seen({}, {})

    def read_one(line: int, row: dict[str, Any], row_faults: list[Fault]) -> PromptRow | None:
        """A row with its responses, in the shape of the first row."""
        nonlocal first
        values = _with_listed_answers(row) if cells else row
        layout = layout_of(values, columns, several_only)
        first = first or (line, layout)
        _check_shape(layout, *first, several_only)
        seen.check(line, row, layout)
        values = _with_lists(values, layout) if cells else row
        return _row(line, row, values, layout, f"{stem}/{line - 1}", path.name, row_faults)

    for _, item in _sound_rows(path, faults, read_one):
        if mark != ",":
            note = f"cells separated by {SEPARATORS[mark].removeprefix('a ')}s"
            item = replace(item, notes=(*item.notes, note))
        yield item


def _sound_rows(
    path: Path, faults: Faults, read_one: Callable[[int, dict[str, Any], list[Fault]], Any]
) -> Iterator[tuple[int, Any]]:
    """(line, what `read_one` makes of the row) of each sound row; other rows' faults are noted.

    A fault that all rows have is noted once. Raises DataError as `prompt_rows` does.

    read_one: of (line, row, list that takes the row's faults). It may raise Fault and Unclear.
    """
    any_sound = False
    for line, row in read(path, faults):
        faults.look(line, row)
        if row is None:
            continue
        row_faults: list[Fault] = []
        try:
            item = read_one(line, row, row_faults)
        except Unclear as fault:
            raise DataError(path, line, *fault.args) from None
        except Fault as fault:
            row_faults = [fault]
        for fault in row_faults:
            faults.add(line, fault)
        if not row_faults:
            any_sound = True
            yield line, item
    if not any_sound:
        _say_once(faults)


def _say_once(faults: Faults) -> None:
    """Leave one fault where every row has the same one, and say so."""
    same = {(fault.field, fault.what, fault.fix) for fault in faults.faults}
    if len(same) != 1 or len(faults.faults) < 2:
        return
    first = faults.faults[0]
    what = f"{first.what} (and so it is in all {len(faults.faults):,} rows)"
    faults.faults[:] = [DataError(first.file, first.line, first.field, what, first.fix)]


def _check_shape(layout: Layout, first_line: int, first: Layout, several_only: bool) -> None:
    """Raise Unclear where a row is of another shape than the first row.

    Args:
        layout: of the row.
        first_line: the line of the first row.
        first: its layout.
        several_only: whether pairs are read, whose two shapes may stand in one file.
    """
    kinds = {layout.kind, first.kind}
    if len(kinds) == 1 or (several_only and "list" not in kinds):
        return
    raise Unclear(
        None,
        f"this row has {layout.shape}, line {first_line} has {first.shape}",
        "keep one shape in a file: split it",
    )


class _Seen(NamedTuple):
    """In which line each column was read first, and in which it had something and was not read.

    A column that stands in for an empty one in some rows has other texts than its name says: those
    of another prompt, or of another model.
    """

    read: dict[str, int]
    unread: dict[str, int]

    def check(self, line: int, row: dict[str, Any], layout: Layout) -> None:
        """Note the columns of a row; raises Unclear for one that is not read in all rows.

        The verdict and the system turn need not be: they are read where they apply.
        """
        is_read = {*layout.prompt, *layout.responses}
        for name, value in row.items():
            if value in (None, "", []) or name in (layout.system, layout.verdict):
                continue
            same = self.read if name in is_read else self.unread
            other = self.unread if name in is_read else self.read
            same.setdefault(name, line)
            if name in other:
                here = (
                    "is read here and was left" if name in is_read else "is left here and was read"
                )
                part = "--prompt" if bare(name) in _OF_PROMPTS else "--response"
                raise Unclear(
                    name,
                    f"it {here} in line {other[name]}, so that rows would be read from different "
                    "columns",
                    f"fill the column that is empty in one of the two, or name the one that counts "
                    f"by {part} COLUMN of hs2 score, or rename the other",
                )


_OF_PROMPTS = {"prompt", *PROMPTS}

_PRINTED = re.compile(r"\s*\[\{'(role|content|from|value)'")

_MESSAGES = re.compile(r'\s*\[\s*\{\s*"(role|content|from|value)"')

# A list of objects may be messages whose first key is another one.
_OBJECTS = re.compile(r'\s*\[\s*\{\s*"')

_LISTED = re.compile(r"\s*\[\s*([\"'{]|\]\s*$)")


def _with_listed_answers(row: dict[str, Any]) -> dict[str, Any]:
    """A row of CSV in which a column of several responses, as `responses`, has a list for its JSON.

    A text that is no JSON stays; `_with_lists` refuses it where it is read.
    """
    values = dict(row)
    for name, cell in row.items():
        if bare(name) in SEVERAL and cell and _LISTED.match(cell):
            with suppress(ValueError, RecursionError):
                values[name] = json.loads(cell)
    return values


def _with_lists(row: dict[str, Any], layout: Layout) -> dict[str, Any]:
    """A row of CSV, in which a list of messages that is to be read is a list, and no JSON.

    Raises Fault for a list as Python prints it.
    """
    values = dict(row)
    for name in (*layout.prompt, *layout.responses):
        cell = row[name]
        if not isinstance(cell, str):
            continue
        is_listed = bare(name) in SEVERAL and _LISTED.match(cell)
        if is_listed and not _MESSAGES.match(cell):
            raise Fault(name, "a list that is no JSON", 'write lists as JSON, as ["a", "b"]')
        if _PRINTED.match(cell):
            raise Fault(name, "a list as Python prints it", "write lists of messages as JSON")
        if _MESSAGES.match(cell):
            try:
                values[name] = json.loads(cell)
            except (ValueError, RecursionError) as error:
                what = f"bad JSON: {error}".replace(": line 1 column", " at column")
                raise Fault(name, what, "write whole lists of messages") from None
        elif _OBJECTS.match(cell):
            with suppress(ValueError, RecursionError):
                listed = json.loads(cell)
                values[name] = listed if holds_messages(listed) else cell
    return values


def _row(
    line: int,
    row: dict[str, Any],
    values: dict[str, Any],
    layout: Layout,
    name: str,
    source: str,
    faults: list[Fault],
) -> PromptRow | None:
    """A row, read; None where it has faults, which are added to the list.

    Args:
        line: of the row.
        row: as the file has it.
        values: the same, with lists in place of their texts.
        layout: of the row.
        name: the id of its group.
        source: what captions say of it.
        faults: takes what is wrong.
    """
    turns_of, system = _prompt_parts(values, layout, faults)
    responses: list[Read] = []
    places: list[tuple[str, int | None]] = []
    counts = []
    for column in layout.responses:
        answers = _checked(RESPONSES, values, column, faults) or []
        is_list = kind_of(values[column]) == "list"
        places += [(column, i if is_list else None) for i in range(len(answers))]
        responses += answers
        counts.append(len(answers))
    if faults:
        return None
    prompt = _whole_prompt(turns_of, system, responses)
    _check_conversations(prompt, responses, places)
    texts = [Response(f"{name}/{i}", answer.text) for i, answer in enumerate(responses)]
    group = Group(name, prompt, tuple(texts), (), source=source)
    notes = layout.notes()
    comparisons: list[tuple[int, int]] = []
    preference = None
    is_tie = False
    if layout.kind == "better first":
        better = range(counts[0])
        worse = range(counts[0], sum(counts))
        for i in better:
            comparisons += [(i, j) for j in worse]
        preference = -1.0
    elif layout.preference:
        preference = layout.preference(values[layout.verdict])
        is_tie = preference == 0
        if preference:
            comparisons = [(0, 1)] if preference < 0 else [(1, 0)]
    elif any(answer.rank is not None for answer in responses) and len(responses) > 1:
        ranks = [answer.rank for answer in responses]
        comparisons = _by_rank(ranks)
        is_tie = len(set(ranks)) == 1
        notes.append("rank says which is better")
        if any(answer.rank is None for answer in responses):
            notes.append("answers without a rank are not compared")
    if len(responses) == 2:
        group = replace(group, preference=preference)
    return PromptRow(
        line=line,
        row=row,
        layout=layout,
        group=group,
        places=tuple(places),
        comparisons=tuple(comparisons),
        tie=is_tie,
        notes=tuple(notes),
    )


def asked_rows(
    path: Path, faults: Faults, columns: Columns = BY_NAME
) -> Iterator[tuple[int, tuple[Turn, ...]]]:
    """The prompts of a file, one a row: (line, turns). Responses that have columns are not read.

    Args:
        path: a JSONL, JSON, CSV or Parquet file.
        faults: takes the faulty rows; a fault that all rows have is noted once.
        columns: of the prompt, where their names do not say it.

    Raises:
        DataError: the file cannot be read, or its columns may mean two things.
    """
    cells = is_csv(path)
    seen = _Seen({}, {})

    def read_one(line: int, row: dict[str, Any], row_faults: list[Fault]) -> tuple[Turn, ...]:
        """The prompt of a row."""
        layout = asked_layout(row, columns)
        if layout.kind == "asked":
            seen.check(line, row, layout)
        values = _with_lists(row, layout) if cells else row
        if layout.responses:
            item = _row(line, row, values, layout, "", path.name, row_faults)
            return item.group.prompt if item else ()
        spoken = _prompt_parts(values, layout, row_faults)
        return () if row_faults else _whole_prompt(*spoken, ())

    yield from _sound_rows(path, faults, read_one)


def _prompt_parts(
    values: dict[str, Any], layout: Layout, faults: list[Fault]
) -> tuple[list[tuple[Turn, ...]], str | None]:
    """The turns of each column of the prompt, and the text of the column of the system turn."""
    turns_of = [_checked(PROMPT, values, column, faults) for column in _filled(values, layout)]
    system = None
    if layout.system and str(values[layout.system]).strip():
        system = _checked(SYSTEM, values, layout.system, faults)
    return turns_of, system


def _filled(values: dict[str, Any], layout: Layout) -> list[str]:
    """The columns of the prompt, of several only those with something in them."""
    filled = [name for name in layout.prompt if str(values[name]).strip()]
    return filled or list(layout.prompt)


def _whole_prompt(
    turns_of: Sequence[tuple[Turn, ...]], system: str | None, responses: Sequence[Read]
) -> tuple[Turn, ...]:
    """The prompt of a row: its columns joined, after its system turn, or what responses begin with.

    Args:
        turns_of: the turns of each column of the prompt.
        system: the text of the column of the system turn.
        responses: of the row.

    Raises:
        Fault: there is no prompt, or it does not end with the user, or it has two system turns.
    """
    prompt = turns_of[0] if turns_of else responses[0].before
    if len(turns_of) > 1:
        if any(len(turns_of_column) > 1 for turns_of_column in turns_of):
            raise Fault(
                "prompt", "a conversation among texts to join", "give the prompt in one column"
            )
        prompt = (Turn("user", "\n\n".join([column[0].text for column in turns_of])),)
    if system and prompt[:1] and prompt[0].role != "system":
        prompt = (Turn("system", system), *prompt)
    elif system and prompt[:1] and prompt[0].text.strip() != system.strip():
        raise Fault(
            "system",
            "it is another system turn than that of the conversation",
            "keep one of the two, or leave the column unread by --prompt COLUMN of hs2 score",
        )
    if not prompt or prompt[-1].role != "user":
        raise Fault(
            "prompt",
            "no prompt that ends with the user",
            "give prompt, or conversations as answers",
        )
    return prompt


def _check_conversations(
    prompt: tuple[Turn, ...],
    responses: Sequence[Read],
    places: Sequence[tuple[str, int | None]],
) -> None:
    """Raise Fault where a response is a conversation that does not begin with the prompt."""
    without_system = prompt[1:] if prompt[0].role == "system" else prompt
    for answer, (column, _) in zip(responses, places, strict=True):
        if answer.before not in ((), prompt, without_system):
            raise Fault(
                column,
                "its conversation does not begin with the prompt",
                "make both answer one prompt",
            )


def _by_rank(ranks: Sequence[float | None]) -> list[tuple[int, int]]:
    """(better, worse) of every two responses of different rank; None is of no rank."""
    comparisons = []
    ranked = [place for place, rank in enumerate(ranks) if rank is not None]
    for i, j in combinations(ranked, 2):
        if ranks[i] < ranks[j]:
            comparisons.append((i, j))
        elif ranks[j] < ranks[i]:
            comparisons.append((j, i))
    return comparisons


def read_prompts(
    path: Path,
    columns: Columns = BY_NAME,
    *,
    strict: bool = True,
    limit: int = 0,
    advice: str = "Or set such rows aside with strict=False.",
) -> PromptFile:
    """All prompts of a file with their responses, every row validated.

    Args:
        path: a JSONL, JSON, CSV or Parquet file.
        columns: which columns hold what, where their names do not say it.
        strict: whether faulty rows raise one error; else they are set aside.
        limit: of rows to read; 0 for all.
        advice: the last line of that error.

    Raises:
        DataError: rows are faulty, or the file cannot be read, or its columns may mean two things.
    """
    faults = Faults(path, strict=False)
    rows = list(islice(prompt_rows(path, faults, columns), limit or None))
    complete = not limit or len(rows) < limit
    if faults.faults and (strict or not rows):
        raise faults.error(advice if strict and rows else "")
    notes: dict[str, None] = {}  # in the order in which they first occur
    for row in rows:
        notes |= dict.fromkeys(row.notes)
    return PromptFile(path, tuple(rows), tuple(faults.set_aside), "; ".join(notes), complete)
