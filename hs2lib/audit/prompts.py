"""Prompts of a file for a policy to answer, whether the file has responses or not."""

import hashlib
from pathlib import Path

from pydantic import model_validator

from hs2lib.data.files import Prompt, from_cell, parse_columns, renamed
from hs2lib.data.load import Loaded, own_file, provenance
from hs2lib.data.rows import DataError, Fault, Faults, Row, is_csv, sound
from hs2lib.group import Group, Turn, prompt_string
from hs2lib.paths import digests_by_place


def read_file(path: str | Path, limit: int = 0, columns: str = "") -> list[Group]:
    """The prompts of a file without responses, each once, in the order of the file.

    A prompt's id is made of its text. So its samples stay the same whatever stands before it.

    Args:
        path: JSONL, JSON, CSV or Parquet, with a column `prompt`, a text or a list of messages.
            What else a row has is not looked at.
        limit: of prompts; 0 for all.
        columns: where it has another name, as "prompt=question".

    Raises:
        DataError: the file or a row of it cannot be used; it names file, line, field and fix.
    """
    file, _ = own_file(path, None)
    groups: dict[tuple[Turn, ...], Group] = {}
    with Faults(file) as faults:
        for line, row in sound(file, _asked(parse_columns(columns), is_csv(file)), faults):
            prompt = row.prompt
            try:
                prompt_string(prompt)  # which the tables of an audit have
            except ValueError as error:
                faults.add(line, Fault("prompt", str(error), "mend it, or leave the row out"))
            groups.setdefault(prompt, Group(_id(prompt), prompt, ()))
            if len(groups) == limit:
                break
    if not groups:
        raise DataError(file, None, None, "there are no prompts", "give a file with rows")
    return list(groups.values())


def _asked(columns: dict[str, str], has_cells: bool) -> type[Row]:
    """The rows of a file of prompts; of CSV a list of messages is JSON in its cell."""

    class Asked(Row, extra="ignore"):
        prompt: Prompt

        @model_validator(mode="before")
        @classmethod
        def _under_our_names(cls, row: dict) -> dict:
            values = renamed(row, columns)
            if has_cells and "prompt" in values:
                values["prompt"] = from_cell("prompt", values["prompt"])
            return values

    return Asked


def load_file(path: str | Path, limit: int = 0) -> Loaded:
    """`read_file` with where the prompts come from, for captions."""
    groups = read_file(path, limit)
    file, absent = own_file(path, None)
    return Loaded(
        groups,
        provenance("prompts of a file", file),
        False,
        own=True,
        read=digests_by_place(file, *absent),
    )


def _id(prompt: tuple[Turn, ...]) -> str:
    """The id of a prompt: a digest of its turns."""
    digest = hashlib.sha256()
    for turn in prompt:
        digest.update(f"{turn.role}\0{turn.text}\0".encode())
    return f"prompt/{digest.hexdigest()[:16]}"
