"""Where files lie, and how they are written and named by content."""

import hashlib
import os
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
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write(path: Path, content: str | bytes) -> None:
    """Write under a temporary name of this process, then rename: a reader sees the old file or the new, never half."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    partial.write_bytes(content.encode() if isinstance(content, str) else content)
    os.replace(partial, path)
