"""Options of `hs2 score`, and where it keeps what models keep."""

import argparse
import os
from pathlib import Path

from hs2lib import paths


def whole(text: str) -> int:
    """A whole number from 0; raises ArgumentTypeError for anything else."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"expected a whole number from 0, got {text!r}")
    return int(text)


def keep_out_of_the_way() -> None:
    """Let what models keep lie in the user's cache, where there is no checkout with runs."""
    if not paths.in_checkout() and "HS2_ROOT" not in os.environ:
        cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        os.environ.setdefault("HS2_RUNS", str(Path(cache) / "hs2lib"))
