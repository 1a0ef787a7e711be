"""What the readers of data sets share: conversations, names, rows that are a group each.

A reader takes (path, faults, prefix, source) and yields groups whose ids start with `prefix`.
Faulty rows go to `faults`. Each file format has one model of its rows. Where every row is a group,
the model says which in a method `group`, and `each(model)` is the reader. The readers themselves
are in `rated`, `compared` and `conversations`.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator

from hs2lib.data.rows import Faults, Row, Text, expected, sound
from hs2lib.group import ATTRIBUTES, Group, Turn, parse_prompt, prompt_string

NAN = float("nan")


def turns(string: str) -> tuple[Turn, ...]:
    """The turns of a prompt string; raises ValueError where its markers make no conversation."""
    parsed = parse_prompt(string)
    prompt_string(parsed)
    return parsed


_SPOKEN = re.compile("\n\n(Human|Assistant):")

_ROLES = {"Human": "user", "Assistant": "assistant"}


def spoken_turns(string: str) -> tuple[Turn, ...]:
    r"""The turns of a text "\n\nHuman: .. \n\nAssistant: .." of HH-RLHF; () of any other text.

    White space around each turn is removed. A last answer without words, which is to be filled in,
    is left out.
    """
    before, *pieces = _SPOKEN.split(string)
    if before.strip() or pieces[:1] != ["Human"]:
        return ()
    names_and_texts = zip(pieces[::2], pieces[1::2], strict=True)
    spoken = [Turn(_ROLES[name], text.strip()) for name, text in names_and_texts]
    if spoken[-1] == Turn("assistant", ""):
        spoken.pop()
    return tuple(spoken)


def _text_of_part(content: object) -> object:
    """The text of a content that is a list of one part of kind text; any other as it is."""
    part = content[0] if isinstance(content, list) and len(content) == 1 else None
    is_text = isinstance(part, dict) and part.get("type") == "text"
    return part.get("text") if is_text else content


class ChatMessage(Row, extra="ignore"):
    """One message of a conversation, as chat templates take it.

    Its content is a text, or the list of one part that a server of models keeps:
    `[{"type": "text", "text": ..}]`.
    """

    role: Literal["system", "user", "assistant"]
    content: Annotated[Text, BeforeValidator(_text_of_part)]

    def turn(self) -> Turn:
        """The message as a turn."""
        return Turn(self.role, self.content)


# A prompt in HelpSteer2's string format, as its turns.
Conversation = Annotated[Text, AfterValidator(turns)]


def as_whole(name: object) -> object:
    """A name as it is; a whole number for a float, which a column of numbers with a gap has."""
    return int(name) if isinstance(name, float) and name.is_integer() else name


def _as_text(name: str | int | None) -> str | None:
    return None if name is None else str(name)


# A name that a user gave to something in a row, as a text.
Name = Annotated[
    Text | int | None,
    AfterValidator(_as_text),
    expected("a name", "write a text or a whole number"),
    BeforeValidator(as_whole),
]


def or_nan(value: float | None) -> float:
    """A number, nan in the place of None."""
    return NAN if value is None else float(value)


def values(row: Row, names: Sequence[str] = ATTRIBUTES) -> tuple:
    """What a row has in the columns of its attributes, in their order."""
    return tuple([getattr(row, name) for name in names])


def reader_of(model: type[Row]) -> Callable[..., Iterator[Group]]:
    """The reader of a format whose rows are groups.

    `model` has a method group(name, source). Where it has a field `split`, the reader takes a split
    too, and yields the rows of that split.
    """

    def read(
        path: Path, faults: Faults, prefix: str, source: str, split: str = "both"
    ) -> Iterator[Group]:
        for line, row in sound(path, model, faults):
            if split in ("both", getattr(row, "split", split)):
                yield row.group(f"{prefix}/{line - 1}", source)

    return read
