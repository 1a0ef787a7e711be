"""Groups, a prompt and the responses to it, and the strings they are written as.

Every data set of the suite becomes a list of `Group`: HelpSteer2, Open Assistant trees, preference
pairs, your own ratings. `hs2lib.data.load` reads a data set. Prompt strings are written as in
HelpSteer2, label strings as in SteerLM.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

# The one order of the five attributes. Label vectors, table columns and head outputs follow it.
# Paper: section 2.
ATTRIBUTES = ("helpfulness", "correctness", "coherence", "complexity", "verbosity")

# A cell without a label, as the reference code and the trainer write it.
MISSING = -100.0

USER = "\n<extra_id_1>User\n"

ASSISTANT = "\n<extra_id_1>Assistant\n"

# HelpSteer2's prompts have no system turn. Where another data set has one, it begins as in the
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

    `labels` are A values in the order of the group's attributes, nan where one is missing, () where
    the response is unrated. `ratings` are N annotators x A raw ratings before aggregation, nan
    where one is missing, () where they are not known.
    """

    id: str
    text: str
    labels: tuple[float, ...] = ()
    ratings: tuple[tuple[float, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Group:
    """A prompt (its turns, first to last) and the G responses to it.

    `attributes` names the label columns: Open Assistant and SummEval have other ones. `preference`
    lies in -3..3. It is negative where responses[0] is better, 0 for a tie, None where it is not
    known. `preferences` has the preference of each annotator. `source` says where the rows came
    from, for captions and manifests.
    """

    id: str
    prompt: tuple[Turn, ...]
    responses: tuple[Response, ...]
    attributes: tuple[str, ...] = ATTRIBUTES
    preference: float | None = None
    preferences: tuple[float, ...] = ()
    source: str = ""


def prompt_string(turns: Iterable[Turn]) -> str:
    r"""Join turns into a prompt string as HelpSteer2 has it; `parse_prompt` is the inverse.

    The first turn is the user's and has no marker. Later turns follow "\n<extra_id_1>Assistant\n"
    or "\n<extra_id_1>User\n". A system turn, if any, comes before the first. Paper: silent (it is
    the format of the released `prompt` column).

    Raises ValueError if the string would not parse back to the same turns: a text contains a
    marker, or the conversation does not start with the user.
    """
    turns = tuple(turns)
    has_system = bool(turns) and turns[0].role == "system"
    conversation = turns[1:] if has_system else turns
    roles = [turn.role for turn in conversation]
    if roles[:1] != ["user"] or not _MARKERS.keys() >= set(roles):
        raise ValueError(
            "a prompt has user and assistant turns, a user's first (after at most one system turn),"
            f" got roles {[turn.role for turn in turns]}"
        )
    first, *later = turns
    string = first.text + "".join([_MARKERS[turn.role] + turn.text for turn in later])
    n_markers = len(later)
    if has_system:
        string = SYSTEM + string
        n_markers += 1
    # Every marker starts with "<extra_id_". Only a string with more of them than it should have
    # needs the exact comparison.
    if string.count("<extra_id_") > n_markers and parse_prompt(string) != turns:
        raise ValueError(
            "a turn's text contains a turn marker "
            "(<extra_id_0>System, <extra_id_1>User or Assistant)"
        )
    return string


def parse_prompt(string: str) -> tuple[Turn, ...]:
    """Split a prompt string of HelpSteer2 into turns; the inverse of `prompt_string`.

    `turns in prompt` of Table 2 is the number of turns: 1 + the number of markers.
    """
    first_text, *pieces = _SPLIT.split(string.removeprefix(SYSTEM))
    first_role = "system" if string.startswith(SYSTEM) else "user"
    names_and_texts = zip(pieces[::2], pieces[1::2], strict=True)
    later = [Turn(name.lower(), text) for name, text in names_and_texts]
    return (Turn(first_role, first_text), *later)


_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d\d?)?"

_NAMED_NUMBER = re.compile(rf"\s*([^:]*[^:\s])\s*:\s*({_NUMBER})\s*")


def named_numbers(text: str) -> dict[str, float]:
    """The numbers by name in "helpfulness:4,verbosity:2".

    The text is a SteerLM label string, or weights of the outputs of a model. Raises ValueError
    where it is something else, a name stands twice or a number is not finite.
    """
    numbers = {}
    for part in text.split(","):
        pair = _NAMED_NUMBER.fullmatch(part)
        if not pair or pair[1] in numbers:
            raise ValueError(f"expected name:number, name:number .., got {text!r}")
        numbers[pair[1]] = float(pair[2])
    return numbers
