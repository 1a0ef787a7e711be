"""Files of one's own: prompts with one, two or several responses, in columns of fixed names.

    file = read_file(Path("my.jsonl"))
    file.groups  # of `hs2lib.group.Group`: a prompt and its responses
    read_file(path, parse_columns("prompt=question,response=answer"))

A row has one of these shapes, and all rows of a file have the same one:

    prompt, response
    prompt, chosen, rejected [, margin]
    prompt, response_a, response_b [, winner or preference_strength]
    prompt, responses [, scores]
    messages

A prompt or a response is a text, or a list of messages {role, content}. Other columns are carried
along. Columns with other names are named by the user, and never guessed.
"""

import json
import re
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, islice
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self

from pydantic import BeforeValidator, Field, TypeAdapter, ValidationError, model_validator

from hs2lib.data.readers import ChatMessage, as_whole, turns
from hs2lib.data.rows import (
    SET_ASIDE,
    DataError,
    Fault,
    Faults,
    Row,
    Text,
    Unclear,
    expected,
    faults_of,
    is_csv,
    listed,
    read,
    real,
    shown,
    whole,
)
from hs2lib.group import Group, Response, Turn

# Texts and conversations


class Answer(NamedTuple):
    """A response as it was read: the turns before it, if it is a conversation, and its text."""

    before: tuple[Turn, ...]
    text: str


_MESSAGES = TypeAdapter(Annotated[list[ChatMessage], Field(min_length=1)])
_TEXT = TypeAdapter(
    Annotated[
        Text,
        expected(
            "text or a list of {role, content}",
            "write it as text, or as messages with role and content",
        ),
    ]
)


def _turns(value: object) -> tuple[Turn, ...]:
    """The turns of a prompt: a text, or a list of messages. Raises Fault."""
    try:
        if isinstance(value, list):
            return tuple(message.turn() for message in _MESSAGES.validate_python(value))
        return turns(_TEXT.validate_python(value))
    except ValidationError as error:
        raise next(faults_of(error)) from None


def _prompt(value: object) -> tuple[Turn, ...]:
    """The turns of a prompt, of which the last is the user's. Raises Fault."""
    prompt = _turns(value)
    if prompt[-1].role != "user":
        raise Fault(
            None, f"the last message is the {prompt[-1].role}'s", "end a prompt with the user"
        )
    return prompt


def _conversation(value: object) -> Answer:
    """A response and the turns before it, of a list of messages. Raises Fault."""
    *before, last = _turns(value if isinstance(value, list) else [value])
    if last.role != "assistant":
        raise Fault(
            None, f"the last message is the {last.role}'s", "end with the assistant's answer"
        )
    return Answer(tuple(before), last.text)


def _answer(value: object) -> Answer:
    """A response: a text, or a conversation that ends in it. Raises Fault."""
    if isinstance(value, list):
        return _conversation(value)
    try:
        return Answer((), _TEXT.validate_python(value))
    except ValidationError as error:
        raise next(faults_of(error)) from None


Prompt = Annotated[Any, BeforeValidator(_prompt)]
Spoken = Annotated[Any, BeforeValidator(_answer)]

# What `winner` may say. Chatbot Arena's words are read too.
_WINNERS = {"model_a": "a", "model_b": "b", "tie (bothbad)": "tie"}


def _winner(value: object) -> object:
    word = value.strip().lower() if isinstance(value, str) else value
    return _WINNERS.get(word, word) if isinstance(word, str) else word


Winner = Annotated[
    Literal["a", "b", "tie"],
    BeforeValidator(_winner),
    expected("a, b or tie", "write which response is better in every row"),
]


def _by_score(scores: Sequence[float]) -> tuple[tuple[int, int], ...]:
    """(better, worse) of every two responses whose scores differ."""
    ordered = []
    for i, j in combinations(range(len(scores)), 2):
        if scores[i] != scores[j]:
            ordered.append((i, j) if scores[i] > scores[j] else (j, i))
    return tuple(ordered)


# Shapes


class FileShape(Row, extra="ignore"):
    """A row of a file: the columns that a shape reads.

    responses: the names of the columns of its responses.
    """

    responses_in: ClassVar[tuple[str, ...]]
    prompt: Prompt = None

    def answers(self) -> list[Answer]:
        """The responses in their order."""
        return [getattr(self, name) for name in self.responses_in]

    def preference(self) -> float | None:
        """Of two responses: negative where the first is better, 0 for a tie, None if unknown."""
        return None

    def comparisons(self) -> tuple[tuple[int, int], ...]:
        """(better, worse) of responses, by their numbers; () where the row does not say."""
        if not self.preference():
            return ()
        return ((0, 1),) if self.preference() < 0 else ((1, 0),)

    def is_tie(self) -> bool:
        """Whether the row says that all responses are equally good."""
        return self.preference() == 0


class One(FileShape):
    """A prompt and a response."""

    responses_in = ("response",)
    response: Spoken


class Pair(FileShape):
    """A better and a worse response, and by how much."""

    responses_in = ("chosen", "rejected")
    chosen: Spoken
    rejected: Spoken
    margin: real(0, 1e9, "a number from 0, which is a tie", "write it in every row") = 1.0

    def preference(self) -> float:
        """Minus the margin, which is 1 where the file has none."""
        return -self.margin


class Compared(FileShape):
    """Two responses, and which is better."""

    responses_in = ("response_a", "response_b")
    response_a: Spoken
    response_b: Spoken
    winner: Winner = ""
    preference_strength: Annotated[whole(-3, 3), BeforeValidator(as_whole)] = None

    @model_validator(mode="after")
    def _one_verdict(self) -> Self:
        if self.winner and self.preference_strength is not None:
            what = "winner and preference_strength both say which response is better"
            raise Fault("winner", what, "keep one of the two columns")
        return self

    def preference(self) -> float | None:
        """Negative where a is better; None where the file does not say."""
        if self.winner:
            return {"a": -1.0, "tie": 0.0, "b": 1.0}[self.winner]
        return None if self.preference_strength is None else float(self.preference_strength)


def _number(value: object) -> object:
    """A number as it is; raises ValueError for a text or a bool, which CSV might pass."""
    if isinstance(value, bool | str):
        raise ValueError
    return value


Score = Annotated[
    float,
    Field(ge=-1e9, le=1e9),
    BeforeValidator(_number),
    expected("numbers", "write one for each response"),
]


class Several(FileShape):
    """Several responses, and how good each is."""

    responses_in = ("responses",)
    responses: Annotated[list[Spoken], Field(min_length=1)]
    scores: list[Score] = Field(default_factory=list)

    @model_validator(mode="after")
    def _as_many(self) -> Self:
        if self.scores and len(self.scores) != len(self.responses):
            raise Fault(
                "scores",
                f"{len(self.scores)} scores of {len(self.responses)} responses",
                "write one for each response",
            )
        return self

    def answers(self) -> list[Answer]:
        """The responses in their order."""
        return self.responses

    def preference(self) -> float | None:
        """Of two responses with scores, by their order."""
        if len(self.scores) != 2:
            return None
        return float((self.scores[1] > self.scores[0]) - (self.scores[0] > self.scores[1]))

    def comparisons(self) -> tuple[tuple[int, int], ...]:
        """(better, worse) of every two responses whose scores differ."""
        return _by_score(self.scores)

    def is_tie(self) -> bool:
        """Whether all scores are equal."""
        return len(self.scores) > 1 and not self.comparisons()


class Messages(FileShape):
    """A conversation that ends in the response."""

    responses_in = ("messages",)
    messages: Annotated[Any, BeforeValidator(_conversation)]


SHAPES = (Pair, Compared, Several, One)

# Usual names of our columns, to be suggested, and not to be read unasked.
USUAL = {
    "prompt": ("question", "instruction", "query", "input", "context"),
    "response": ("answer", "output", "completion", "reply", "generation"),
    "chosen": ("preferred", "better", "good", "accepted"),
    "rejected": ("reject", "worse", "bad", "dispreferred"),
    "response_a": ("response_1", "response1", "answer_a", "answer_1", "output_1", "completion_a"),
    "response_b": ("response_2", "response2", "answer_b", "answer_2", "output_2", "completion_b"),
    "winner": ("label", "preference", "verdict", "choice"),
    "responses": ("answers", "outputs", "completions", "generations", "candidates"),
    "scores": ("votes", "rewards"),
    "messages": ("conversation", "conversations"),
}


def parse_columns(text: str) -> dict[str, str]:
    """The file's name of each of our columns, of "prompt=question,chosen=output_1".

    Raises ValueError where the text is something else.
    """
    columns = {}
    for part in filter(None, text.split(",")):
        ours, equals, theirs = part.partition("=")
        is_whole = equals and ours.strip() and theirs.strip()
        is_new = ours.strip() not in columns and theirs.strip() not in columns.values()
        if not is_whole or not is_new:
            raise ValueError(
                f"columns {text!r}: write the name that is read and the file's own, each once, "
                "as prompt=question,response=answer"
            )
        columns[ours.strip()] = theirs.strip()
    return columns


def renamed(row: Mapping[str, Any], columns: Mapping[str, str]) -> dict[str, Any]:
    """A row under our names; raises Fault where it lacks a column that is named."""
    for ours, theirs in columns.items():
        if theirs not in row:
            raise Fault(
                theirs,
                f"columns names it for {ours}, and the row has: {listed(row)}",
                "name a column of the file",
            )
    read_as = {theirs: ours for ours, theirs in columns.items()}
    ours_last = sorted(row, key=lambda name: name in read_as)
    return {read_as.get(name, name): row[name] for name in ours_last}


def shape_of(names: Collection[str], columns: Mapping[str, str]) -> type[FileShape]:
    """The shape of a row by the names of its columns.

    Args:
        names: of the columns, under our names.
        columns: those that the user named. They decide between two shapes.

    Raises:
        Unclear: there is none, or more than one.
    """
    found = [shape for shape in (*SHAPES, Messages) if set(shape.responses_in) <= set(names)]
    named = [shape for shape in found if set(shape.responses_in) <= columns.keys()]
    # Conversations count where there is nothing else: some sets repeat the chosen one there.
    found = named or [shape for shape in found if shape is not Messages] or found
    if len(found) == 1:
        return found[0]
    if found:
        places = [" and ".join(shape.responses_in) for shape in found]
        options = []
        for shape in found:
            said = {name: columns.get(name, name) for name in shape.responses_in}
            options.append(_option({**columns, **said}))
        raise Unclear(
            None,
            f"the responses may be in {', or in '.join(places)}",
            f"say which, by {' or '.join(options)}",
        )
    raise Unclear(
        None,
        f"no column of responses is known; the row has: {listed(names)}",
        suggestion(names, columns) or "name them, as --columns prompt=COLUMN,response=COLUMN",
    )


def read_as(columns: Mapping[str, str]) -> str:
    """The columns that are read, in words: "question as prompt, response"."""
    names = []
    for ours, theirs in columns.items():
        names.append(ours if ours == theirs else f"{theirs} as {ours}")
    return ", ".join(names)


def _option(columns: Mapping[str, str]) -> str:
    pairs = [f"{ours}={theirs}" for ours, theirs in columns.items()]
    return f"--columns {shlex.quote(','.join(pairs))}"


def _plain(name: str) -> str:
    """A name as names are compared for a suggestion: "Response A" is response_a."""
    return re.sub(r"\W+", "_", name.strip().lower())


def suggestion(names: Collection[str], named: Mapping[str, str]) -> str:
    """The option that reads columns with usual names, in words; "" where there are none.

    Args:
        names: of a row, under our names of those that are named already.
        named: the file's name of these.
    """
    by_plain_name = {_plain(name): name for name in reversed(list(names))}

    def theirs(ours: str) -> str:
        usual = (ours, *USUAL.get(ours, ()))
        return next((by_plain_name[name] for name in usual if name in by_plain_name), "")

    for shape in (*SHAPES, Messages):
        needed = {ours: theirs(ours) for ours in shape.responses_in}
        if all(needed.values()):
            others = {ours: theirs(ours) for ours in shape.model_fields if ours in USUAL}
            columns = {"prompt": "", **needed, **others}
            if shape is Messages:
                columns.pop("prompt")
            renames = {ours: name for ours, name in columns.items() if name not in ("", ours)}
            can_be_named = not any({",", "="} & set(name) for name in renames.values())
            if renames and can_be_named:
                return f"if these are the columns, add {_option({**named, **renames})}"
    return ""


# Rows


@dataclass(frozen=True)
class FileRow:
    """A row of a file: a prompt and its responses.

    Fields:
        line: of the file.
        row: as the file has it.
        group: its responses are in the order of `places`.
        places: of each response the file's name of its column, and its number in the list of that
            column, or None where the column holds it alone.
        comparisons: (better, worse) of responses, by their numbers.
        tie: whether the row says that all responses are equally good.
    """

    line: int
    row: dict[str, Any]
    group: Group
    places: tuple[tuple[str, int | None], ...]
    comparisons: tuple[tuple[int, int], ...] = ()
    tie: bool = False


@dataclass(frozen=True)
class PromptFile:
    """A file of prompts and responses.

    Fields:
        path: of the file.
        rows: the sound ones.
        columns: the file's name of each column that is read, by ours.
        set_aside: why rows were left out.
        complete: False where reading stopped at a limit.
    """

    path: Path
    rows: tuple[FileRow, ...]
    columns: dict[str, str]
    set_aside: tuple[DataError, ...] = ()
    complete: bool = True

    @property
    def groups(self) -> list[Group]:
        """The prompts with their responses."""
        return [row.group for row in self.rows]

    @property
    def read_as(self) -> str:
        """The columns that are read, under the file's names and ours where these differ."""
        return read_as(self.columns)

    @property
    def carried(self) -> list[str]:
        """The columns that are not read."""
        names = dict.fromkeys(name for row in self.rows for name in row.row)
        return [name for name in names if name not in self.columns.values()]

    @property
    def ties(self) -> int:
        """How many rows say that their responses are equally good."""
        return sum(row.tie for row in self.rows)


class Reading:
    """The rows of a file, read one by one as the shape of the first.

    Args:
        path: a JSONL, JSON, CSV or Parquet file.
        columns: the file's name of each of our columns that is called otherwise.

    After the first row `columns` has the file's name of each column that is read, by ours.
    """

    def __init__(self, path: Path, columns: Mapping[str, str]) -> None:
        self.path = path
        self.named = columns
        self.columns: dict[str, str] = {}
        self.shape: type[FileShape] | None = None

    def kind(self) -> str:
        """What the file holds by the columns of its first row.

        "pairs" where it says which response is better, "responses" where it has several to a prompt
        and does not, else "ratings": a response in each row, rated or not.

        Raises DataError as `rows`.
        """
        faults = Faults(self.path)
        for line, row in read(self.path, faults):
            if row is None:
                continue
            try:
                values = renamed(row, self.named)
                shape = shape_of(values, self.named)
            except (Fault, Unclear) as fault:
                raise DataError(self.path, line, *fault.args) from None
            if shape is One:
                return "ratings"
            verdicts = {"winner", "preference_strength", "scores"}
            says_which = verdicts & values.keys() & shape.model_fields.keys()
            return "pairs" if shape is Pair or says_which else "responses"
        raise faults.error()

    def rows(self, faults: Faults) -> Iterator[FileRow]:
        """The sound rows; the faults of the others go to `faults`.

        Raises DataError where the file cannot be read, or its columns are not known.
        """
        for line, row in read(self.path, faults):
            if row is None:
                continue
            try:
                yield self._row(line, row)
            except Unclear as fault:
                raise DataError(self.path, line, *fault.args) from None
            except Fault as fault:
                if self.shape is None:  # of the first row, by whose columns all are read
                    raise DataError(self.path, line, *fault.args) from None
                faults.add(line, under_its_name(fault, self.named))
            except ValidationError as error:
                for fault in faults_of(error):
                    faults.add(line, under_its_name(fault, self.named))

    def _row(self, line: int, row: dict[str, Any]) -> FileRow:
        values = renamed(row, self.named)
        if self.shape is None:
            self.shape = shape_of(values, self.named)
            read_names = [name for name in self.shape.model_fields if name in values]
            self.columns = {name: self.named.get(name, name) for name in read_names}
            strangers = [ours for ours in self.named if ours not in self.shape.model_fields]
            if strangers:
                raise Unclear(
                    self.named[strangers[0]],
                    f"columns names it for {strangers[0]}, which is not read here",
                    f"name {', '.join(self.shape.model_fields)}",
                )
        self._check_columns(values)
        if is_csv(self.path):
            read_names = self.columns.keys() & values.keys()
            values |= {name: from_cell(name, values[name]) for name in read_names}
            checked = self.shape.model_validate(values, strict=False)
        else:
            checked = self.shape.model_validate(values)
        answers = checked.answers()
        prompt = checked.prompt or answers[0].before
        if not prompt:
            fix = suggestion(values, self.named) or "give one, or conversations as responses"
            raise Fault("prompt", f"no prompt; the row has: {listed(row)}", fix)
        check_conversations(prompt, answers, self.shape.responses_in)
        name = f"{self.path.name.split('.')[0]}/{line - 1}"
        responses = [Response(f"{name}/{i}", answer.text) for i, answer in enumerate(answers)]
        return FileRow(
            line=line,
            row=row,
            group=Group(
                name, prompt, tuple(responses), (), checked.preference(), source=self.path.name
            ),
            places=self._places(len(answers)),
            comparisons=checked.comparisons(),
            tie=checked.is_tie(),
        )

    def _check_columns(self, values: dict[str, Any]) -> None:
        """Have a row no other columns of the shape than the first row."""
        for name, field in self.shape.model_fields.items():
            if name in self.columns and not field.is_required():
                values.setdefault(name, None)
            elif name in values and name not in self.columns:
                what = "the first row has no such column"
                raise Fault(name, what, "give it in every row or in none")

    def _places(self, number: int) -> tuple[tuple[str, int | None], ...]:
        names = [self.columns[name] for name in self.shape.responses_in]
        if self.shape is Several:
            return tuple((names[0], i) for i in range(number))
        return tuple((name, None) for name in names)


def under_its_name(fault: Fault, named: Mapping[str, str]) -> Fault:
    """A fault of one of our columns, under the file's name of it."""
    field, what, fix = fault.args
    ours, rest = re.fullmatch(r"([^\[.]*)(.*)", field or "", re.DOTALL).groups()
    return Fault(named.get(ours, ours) + rest or None, what, fix)


# How a list of messages begins, in JSON, as Python prints it, or as numpy does.
_LIST_OF_MESSAGES = re.compile(r"\s*(array\()?\[\s*\{.{,200}?['\"](role|from)['\"]\s*:", re.DOTALL)


def from_cell(name: str, cell: str | None) -> object:
    """What a cell of CSV holds: a list of messages, of responses or of scores is JSON.

    Raises Fault for a list that is no JSON, as Python prints it.
    """
    is_list = name in ("responses", "scores", "messages")
    if cell is None or not (is_list or _LIST_OF_MESSAGES.match(cell)):
        return cell
    try:
        return json.loads(cell)
    except (ValueError, RecursionError):
        raise Fault(
            name,
            f"expected a list as JSON, got {shown(cell)}",
            "write JSON, as pandas' to_json does; ast.literal_eval reads a list of Python",
        ) from None


def check_conversations(
    prompt: tuple[Turn, ...], answers: Sequence[Answer], names: Sequence[str]
) -> None:
    """Raise Fault where a response is a conversation that does not begin with the prompt."""
    if prompt[-1].role != "user":
        raise Fault(names[0], "no message of the user comes before the answer", "add the prompt")
    without_system = prompt[1:] if prompt[0].role == "system" else prompt
    for i, answer in enumerate(answers):
        if answer.before not in ((), prompt, without_system):
            what = "its conversation does not begin with the prompt"
            raise Fault(names[min(i, len(names) - 1)], what, "make both answer one prompt")


def read_file(
    path: Path,
    columns: Mapping[str, str] | None = None,
    *,
    strict: bool = True,
    limit: int = 0,
    advice: str = SET_ASIDE,
) -> PromptFile:
    """All prompts of a file with their responses, every row validated.

    Args:
        path: a JSONL, JSON, CSV or Parquet file.
        columns: the file's name of each of our columns that is called otherwise.
        strict: whether faulty rows raise one error; else they are set aside.
        limit: of rows to read; 0 for all.
        advice: the last line of that error.

    Raises:
        DataError: rows are faulty, or the file cannot be read, or its columns are not known.
    """
    reading = Reading(path, columns or {})
    faults = Faults(path, strict=False)
    rows = tuple(islice(reading.rows(faults), limit or None))
    if faults.faults and (strict or not rows):
        raise faults.error(advice if strict and rows else "")
    complete = not limit or len(rows) < limit
    return PromptFile(path, rows, reading.columns, tuple(faults.set_aside), complete)
