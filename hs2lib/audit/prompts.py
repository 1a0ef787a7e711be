"""Prompts of a file for a policy to answer, whether the file has responses or not."""

import hashlib
from pathlib import Path

from hs2lib.data.layouts import BY_NAME, Columns
from hs2lib.data.load import Loaded, own_file, provenance
from hs2lib.data.rows import DataError, Fault, Faults
from hs2lib.data.shapes import asked_rows
from hs2lib.group import Group, Turn, prompt_string
from hs2lib.paths import digests_by_place


def read_file(path: str | Path, limit: int = 0, columns: Columns = BY_NAME) -> list[Group]:
    """The prompts of a file without responses, each once, in the order of the file.

    A prompt's id is made of its text. So its samples stay the same whatever stands before it.

    Args:
        path: JSONL, JSON, CSV or Parquet, with the columns of a prompt as for `hs2 score`. What
            else a row has is not looked at.
        limit: of prompts; 0 for all.
        columns: of the prompt, where their names do not say it.

    Raises:
        DataError: the file or a row of it cannot be used; it names file, line, field and fix.
    """
    file, _ = own_file(path, None)
    groups: dict[tuple[Turn, ...], Group] = {}
    with Faults(file) as faults:
        for line, prompt in asked_rows(file, faults, columns):
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
