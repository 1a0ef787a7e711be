"""How far a run is: a small file that a job writes and `hs2 run` reads."""

import contextlib
import json
import os
import time
from pathlib import Path

from hs2lib.paths import read_json, runs, write

FILE = "HS2_PROGRESS"  # the variable that names the file of this process's run

_last = {"written": 0.0}  # when this process wrote it last, seconds
_known: dict[str, float] = {}  # what it says


def file(run: str, tier: str) -> Path:
    """The file that says how far a run is."""
    return runs() / tier / run / "progress.json"


def cell(number: int, total: int) -> None:
    """Say that so many cells of a notebook are begun."""
    _known.clear()
    _say(cell=number + 1, cells=total, always=True)


def step(number: int, total: int, seconds_left: float) -> None:
    """Say at which step a training is, at most once a second. seconds_left: until its end."""
    _say(step=number, steps=total, left=round(seconds_left), always=number == total)


def _say(*, always: bool, **known: float) -> None:
    """Write what is known; a kernel writes steps beside the cells that its job writes."""
    if not os.environ.get(FILE) or os.environ.get("RANK", "0") != "0":
        return
    if not always and time.time() - _last["written"] < 1:
        return
    path = Path(os.environ[FILE])
    _known.update(known)
    before = {} if "cell" in known else read_json(path) or {}
    # The disk may be full: then the run itself says so.
    with contextlib.suppress(OSError):
        write(path, json.dumps(before | _known))
    _last["written"] = time.time()
