"""A function that a parameter names: one of the library's, or one in a file of the reader's own.

function("ipo", {"dpo": losses.dpo_loss, "ipo": losses.ipo_loss})
function("my_loss.py:mine", ..)  # the function `mine` of notebooks/my_loss.py, or of ./my_loss.py
"""

import difflib
import importlib.util
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from hs2lib.paths import root

FILE = re.compile(r"(?P<file>.+\.py):(?P<name>[A-Za-z_]\w*)")


def place(name: str) -> Path | None:
    """The file that a parameter names; None where it names a function of the library's.

    A relative one is looked for beside the notebooks, then in the checkout.
    """
    named = FILE.fullmatch(name)
    if named is None:
        return None
    beside = root() / "notebooks" / named["file"]
    return beside if beside.is_file() else root() / named["file"]


def function(name: str, known: Mapping[str, Callable]) -> Callable:
    """The function that a parameter names.

    The file is the reader's own code, and is run.

    Args:
        name: a key of `known`, or FILE.py:FUNCTION.
        known: the library's own functions by name.
    Raises: ValueError for a name that is neither, for a file that is not there, and for one
        without the function.
    """
    if name in known:
        return known[name]
    file = place(name)
    if file is None:
        nearest = difflib.get_close_matches(name, known, 1, 0.0)
        raise ValueError(
            f"{name!r} is none of {', '.join(known)} (nearest: {nearest[0]}), and no function in "
            "a file, as my_loss.py:mine"
        )
    if not file.is_file():
        raise ValueError(f"{name}: there is no {file.name} beside the notebooks or in {root()}")
    spec = importlib.util.spec_from_file_location(file.stem, file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    wanted = name.rpartition(":")[2]
    if not callable(getattr(module, wanted, None)):
        raise ValueError(f"{file} has no function {wanted}")
    return getattr(module, wanted)
