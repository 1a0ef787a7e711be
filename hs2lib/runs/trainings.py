"""Trainings that a job made, and a later job that is to find them.

A training lies in a folder whose name is made of its inputs. Where a stage has trained a model on
eight GPUs and the notebook asks for another one, the notebook must not train that for weeks on one:
it stops, and says which input differs.
"""

import json
import os
from pathlib import Path

from hs2lib.paths import read_json

FINDS = "HS2_FINDS"  # the variable that lists the folders of the trainings to find, as JSON

_asked_for: list[str] = []  # the folders of all trainings that this process asked for


class NotFoundError(RuntimeError):
    """A training should have been found and was not; the message names the input that differs."""


def noted() -> list[str]:
    """The folders of the trainings that this process has made or found, in their order."""
    return list(dict.fromkeys(_asked_for))


def find(folder: Path, record: str) -> None:
    """Note a training; it must be among those to find, where one beside it is.

    Args:
        folder: of the training.
        record: what names it, as the JSON of its `run.json`.

    Raises:
        NotFoundError: an earlier job of the run made another training in its place.
    """
    _asked_for.append(str(folder))
    expected = [Path(name) for name in json.loads(os.environ.get(FINDS) or "[]")]
    beside = [other for other in expected if other.parent == folder.parent]
    if not beside or folder in beside:
        return
    now = _flat(json.loads(record))
    differing = []
    for other in beside:
        before = _flat(read_json(other / "run.json") or {})
        names = before.keys() | now.keys()
        differing.append(sorted(name for name in names if before.get(name) != now.get(name)))
    nearest = min(range(len(beside)), key=lambda number: len(differing[number]))
    names = differing[nearest]
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    raise NotFoundError(
        f"{beside[nearest]} was trained for this run, and what is asked for here differs in "
        f"{', '.join(names[:5])}{more}: give both the same, or delete that folder to train again"
    )


def _flat(content: dict, prefix: str = "") -> dict[str, object]:
    """A nested dict as one, its keys joined by dots."""
    flat: dict[str, object] = {}
    for name, value in content.items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{prefix}{name}.")
        else:
            flat[f"{prefix}{name}"] = value
    return flat
