"""Groups, a prompt and the responses to it, and the strings they are written as.

Every data set of the suite (HelpSteer2, Open Assistant trees, preference pairs, your own ratings)
becomes a list of `Group`; `hs2lib.data.load` reads one. Prompt strings are HelpSteer2's, label
strings SteerLM's.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

# The one order of the five attributes: every label vector, table column and head output follows it.
# Paper: section 2.
ATTRIBUTES = ("helpfulness", "correctness", "coherence", "complexity", "verbosity")

USER = "\n<extra_id_1>User\n"

ASSISTANT = "\n<extra_id_1>Assistant\n"

# HelpSteer2's prompts have no system turn; where another data set has one, it is opened as in the
# reference code.
SYSTEM = "<extra_id_0>System\n"

_MARKERS = {"user": USER, "assistant": ASSISTANT}

_SPLIT = re.compile("\n<extra_id_1>(User|Assistant)\n")


@dataclass(frozen=True, slots=True)
class Turn:
    """One message of a conversation; `role` is "system", "user" or "assistant"."""

    role: str
    text: str


@dataclass(frozen=True, slots=True)
class Response:
    """One response to a group's prompt.

    `labels`: A values in the order of the group's attributes, nan where missing, () where unrated.
    `ratings`: N annotators x A raw ratings before aggregation, nan where missing, () where not
    known.
    """

    id: str
    text: str
    labels: tuple[float, ...] = ()
    ratings: tuple[tuple[float, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Group:
    """A prompt (its turns, first to last) and the G responses to it.

    `attributes` names the label columns (Open Assistant and SummEval have their own). `preference`:
    -3..3, negative where responses[0] is better, 0 a tie, None not known; `preferences` holds each
    annotator's. `source` says where the rows came from, for captions and manifests.
    """

    id: str
    prompt: tuple[Turn, ...]
    responses: tuple[Response, ...]
    attributes: tuple[str, ...] = ATTRIBUTES
    preference: float | None = None
    preferences: tuple[float, ...] = ()
    source: str = ""


def prompt_string(turns: Iterable[Turn]) -> str:
    r"""Join turns into HelpSteer2's own prompt string; `parse_prompt` is the inverse.

    Paper: silent (the format of the released `prompt` column). The first turn is the user's and
    carries no marker; later ones follow "\n<extra_id_1>Assistant\n" or "\n<extra_id_1>User\n". A
    system turn, if any, comes first. Raises ValueError if the string would not parse back to the
    same turns (a text contains a marker, or the conversation does not start with the user).
    """
    turns = tuple(turns)
    system = bool(turns) and turns[0].role == "system"
    roles = [turn.role for turn in turns[system:]]
    if roles[:1] != ["user"] or not _MARKERS.keys() >= set(roles):
        expected = (
            "a prompt has user and assistant turns, a user's first (after at most one system turn)"
        )
        raise ValueError(f"{expected}, got roles {[turn.role for turn in turns]}")
    first, *later = turns
    out = (
        SYSTEM * system + first.text + "".join([_MARKERS[turn.role] + turn.text for turn in later])
    )
    # Every marker starts with "<extra_id_"; only a string with more of them than turns need the
    # exact comparison.
    if out.count("<extra_id_") > len(later) + system and parse_prompt(out) != turns:
        raise ValueError(
            "a turn's text contains a turn marker (<extra_id_0>System, <extra_id_1>User or Assistant)"
        )
    return out


def parse_prompt(string: str) -> tuple[Turn, ...]:
    """Split HelpSteer2's prompt string into turns; the inverse of `prompt_string`.

    `turns in prompt` of Table 2 is the number of turns: 1 + the number of markers.
    """
    first, *pieces = _SPLIT.split(string.removeprefix(SYSTEM))
    role = "system" if string.startswith(SYSTEM) else "user"
    later = zip(pieces[::2], pieces[1::2], strict=True)
    return (Turn(role, first), *[Turn(name.lower(), text) for name, text in later])


def named_numbers(text: str) -> dict[str, float]:
    """The numbers by name in "helpfulness:4,verbosity:2": a SteerLM label string, or weights of a
    model's outputs.

    Raises ValueError where the text is something else, a name stands twice or a number is not
    finite.
    """
    numbers = {}
    for part in text.split(","):
        pair = re.fullmatch(
            r"\s*([^:]*[^:\s])\s*:\s*([-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d\d?)?)\s*", part
        )
        if not pair or pair[1] in numbers:
            raise ValueError(f"expected name:number, name:number .., got {text!r}")
        numbers[pair[1]] = float(pair[2])
    return numbers


MISSING = -100.0  # a cell without label, as the reference code and the trainer write it
