"""Where files lie, and how they are written and named by content."""

import hashlib
import json
import os
from collections.abc import Iterable
from pathlib import Path


def root() -> Path:
    """The checkout: `HS2_ROOT`, else the folder above hs2lib."""
    return Path(os.environ.get("HS2_ROOT") or Path(__file__).resolve().parent.parent)


def reports() -> Path:
    """Folder of reports: `HS2_REPORTS`, else `reports/` of the checkout."""
    return Path(os.environ.get("HS2_REPORTS") or root() / "reports").absolute()


def runs() -> Path:
    """Ignored folder of stamps, caches and checkpoints: `HS2_RUNS`, else `runs/` of the checkout."""
    return Path(os.environ.get("HS2_RUNS") or root() / "runs").absolute()


def notebook(name: str) -> Path:
    """The stripped source of notebook `name`."""
    return root() / "notebooks" / f"{name}.ipynb"


def sha256(path: Path) -> str:
    """Hex digest of a file's bytes."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def write(path: Path, content: str | bytes) -> None:
    """Write under a temporary name of this process, then rename: a reader sees the old file or the new, never half."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    partial.write_bytes(content.encode() if isinstance(content, str) else content)
    os.replace(partial, path)


def read_lines(path: Path) -> tuple[list, bool]:
    """The JSON values in a file's lines, and whether a kill cut its last line short; ([], False) where there is none.

    A line that is no JSON was once a last line cut short: it counts as none, what was in it is made again.
    """
    text = path.read_text() if path.exists() else ""
    found = []
    for line in text[: text.rfind("\n") + 1].splitlines():
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return found, bool(text) and not text.endswith("\n")


def append_lines(path: Path, values: Iterable, torn: bool = False) -> None:
    """Append a line of JSON for each value, in one write: a kill leaves whole lines and at most one torn one.

    Several processes may append to one file. torn: as `read_lines` found it, so that the first line begins a new one.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = "".join(json.dumps(value, ensure_ascii=False) + "\n" for value in values)
    with path.open("ab", buffering=0) as file:
        file.write(("\n" * torn + lines).encode())
