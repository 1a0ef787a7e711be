"""Prompts of a file for a policy to answer, whether the file has responses or not."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, AliasChoices, Field, TypeAdapter, ValidationError

from hs2lib.data.layouts import layout_of
from hs2lib.data.load import own_file
from hs2lib.data.readers import ChatMessage, turns
from hs2lib.data.rows import DataError, Fault, Faults, Row, Unclear, read, sound
from hs2lib.data.shapes import read_prompts
from hs2lib.group import Group, Turn, prompt_string

MESSAGES = TypeAdapter(list[ChatMessage])

# The columns that may hold a prompt where a file has no responses.
NAMES = ("prompt", "question", "instruction", "context", "messages", "conversation")


def _turns(value: object) -> tuple[Turn, ...]:
    """The turns of a prompt, a text or a list of messages; raises Fault for anything else."""
    if isinstance(value, str) and value.strip():
        prompt = turns(value)
    else:
        try:
            prompt = tuple(message.turn() for message in MESSAGES.validate_python(value))
        except ValidationError:
            what = "neither a text nor a list of messages with role and content"
            raise Fault(None, what, "write the prompt as a text") from None
    if not prompt or prompt[-1].role != "user":
        raise Fault(None, "the prompt does not end with the user's turn", "end with a question")
    prompt_string(prompt)  # raises ValueError where the turns make no prompt
    return prompt


class Asked(Row, extra="ignore"):
    """A row that has a prompt and no response."""

    prompt: Annotated[Any, AfterValidator(_turns)] = Field(validation_alias=AliasChoices(*NAMES))


def read_file(path: str | Path, limit: int = 0) -> list[Group]:
    """The prompts of a file without responses, each once, in the order of the file.

    Args:
        path: JSONL, JSON, CSV or Parquet: a column of prompts, or any file that `hs2lib.score`
            reads, whose responses are not looked at.
        limit: of rows; 0 for all.

    Raises:
        DataError: the file or a row of it cannot be used; it names file, line, field and fix.
    """
    file, _ = own_file(path, None)
    if _has_responses(file):
        groups = [row.group for row in read_prompts(file, limit=limit).rows]
    else:
        faults = Faults(file)
        with faults:
            rows = list(islice(sound(file, Asked, faults), limit or None))
        groups = [Group(f"line/{line}", row.prompt, ()) for line, row in rows]
    if not groups:
        raise DataError(file, None, None, "there are no prompts", "give a file with rows")
    return _each_once(groups)


def _has_responses(file: Path) -> bool:
    """Whether the first row of a file has a response by the names of its columns."""
    _, row = next(read(file, Faults(file, strict=False)), (0, None))
    if row is None:
        return False
    try:
        layout_of(row)
    except Fault:
        return False
    except Unclear:
        return True
    return True


def _each_once(groups: Sequence[Group]) -> list[Group]:
    """The groups without their responses; of equal prompts the first."""
    first = {}
    for group in groups:
        first.setdefault(group.prompt, replace(group, responses=(), preference=None))
    return list(first.values())
