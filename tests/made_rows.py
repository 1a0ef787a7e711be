"""Small files of rows for the tests of the loaders, and the check every expected data error goes through."""

import gzip
import json
from pathlib import Path

import pytest

from hs2lib.data.load import load
from hs2lib.data.rows import DataError
from hs2lib.group import ATTRIBUTES


def rated(prompt="p", response="r", *labels, **changes) -> dict:
    """A row of HelpSteer's columns; labels in the order of ATTRIBUTES (2 if there are none), changes by name."""
    values = labels or (2,) * len(ATTRIBUTES)
    return {
        "prompt": prompt,
        "response": response,
        **dict(zip(ATTRIBUTES, values, strict=True)),
        **changes,
    }


def line(row: object) -> bytes:
    return json.dumps(row).encode() + b"\n"


def write(path: Path, rows: list) -> Path:
    """Write rows as JSON lines, compressed if the name says so; folders are made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content = b"".join(map(line, rows))
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def caught(path: Path, name: str = "helpsteer2", **options) -> DataError:
    """The error that loading raises; whatever it is about, it names the file and the fix."""
    with pytest.raises(DataError) as info:
        load(name, "folder", path=path, **options)
    error = info.value
    assert isinstance(error, ValueError) and "Fix: " in str(error) and str(path) in str(error)
    return error
