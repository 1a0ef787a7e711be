"""Readers of conversations: Daring-Anteater, and Open Assistant's trees and their paths."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from hs2lib.data.readers import NAN, turns, values
from hs2lib.data.rows import Fault, Faults, Row, Text, columns, real, shown, sound
from hs2lib.engine.chat import parse_label
from hs2lib.group import Group, Response, Turn

# Daring-Anteater


def _labels(label: str | None) -> tuple[float, ...]:
    return parse_label(label) if label else ()


class Spoken(Row):
    """One turn of a conversation of Daring-Anteater.

    A user's turn may itself hold a conversation in HelpSteer2's format.
    """

    speaker: Literal["User", "Assistant"] = Field(alias="from")
    value: Text
    labels: Annotated[str | None, AfterValidator(_labels)] = Field((), alias="label")


class DaringAnteater(Row, extra="ignore"):
    """Daring-Anteater: conversations as groups of one response, the last assistant turn.

    The rest of a conversation is the prompt. Paper: sections 4.2 and 4.5 (SFT, SteerLM).
    """

    system: str
    conversations: Annotated[list[Spoken], Field(min_length=2)]
    _prompt: tuple[Turn, ...]

    @model_validator(mode="after")
    def _alternate(self) -> Self:
        speakers = [turn.speaker for turn in self.conversations]
        if speakers != ["User", "Assistant"] * (len(speakers) // 2):
            fix = "make turns alternate, the user's first, the assistant's last"
            raise Fault("conversations", f"turns of {shown(speakers)}", fix)
        prompt: list[Turn] = []
        if self.system.strip():
            prompt.append(Turn("system", self.system))
        for turn in self.conversations[:-1]:
            if turn.speaker == "User":
                prompt += turns(turn.value)
            else:
                prompt.append(Turn("assistant", turn.value))
        self._prompt = tuple(prompt)
        return self

    def group(self, name: str, source: str) -> Group:
        """The last answer to all that came before it, with its labels where it has any."""
        answer = self.conversations[-1]
        response = Response(f"{name}/0", answer.value, answer.labels)
        return Group(name, self._prompt, (response,), source=source)


# Open Assistant

OASST_ATTRIBUTES = ("quality", "helpfulness", "creativity", "humor", "toxicity", "violence")

_ROLES = {"prompter": "user", "assistant": "assistant"}


class Scores(columns(OASST_ATTRIBUTES, real(0, 1), default=NAN), extra="ignore"):
    """Means of about three volunteers' labels, from either layout of the exports."""

    @model_validator(mode="before")
    @classmethod
    def _either_layout(cls, labels: object) -> object:
        """The labels as {quality: .., ..}.

        Parquet has {name: [..], value: [..]}, JSONL {quality: {value: ..}, ..}.
        """
        if not isinstance(labels, dict):
            return labels
        if isinstance(labels.get("name"), list):
            try:
                return dict(zip(labels["name"], labels["value"], strict=True))
            except (KeyError, TypeError, ValueError):
                what = "name and value are no lists of one length"
                raise Fault(None, what, "write them as exported") from None
        return {
            name: entry.get("value") if isinstance(entry, dict) else entry
            for name, entry in labels.items()
        }


class TreeMessage(Row, extra="ignore"):
    """A message of a tree of Open Assistant."""

    message_id: Text
    parent_id: Text | None
    text: Text
    role: Literal["prompter", "assistant"]
    labels: Scores | None


def oasst1(path: Path, faults: Faults, prefix: str, source: str) -> Iterator[Group]:
    """Open Assistant: the assistant messages under one parent are a group.

    The path from the root to the parent is its prompt. Labels are the means of about three
    volunteers in [0, 1], times 4; nan where an attribute was not labelled, () where a message has
    no labels at all. Deleted and badly reviewed messages are kept, as in the reference code. A
    message whose parent is not in the file is a fault, and so are the messages under it.

    Paper: section 3 (Open Assistant as a baseline). The scaling is that of the reference code,
    which then rounds it, and takes a reply once for every path through it (paper/reference.csv).
    """
    prompts: dict[str | None, tuple[Turn, ...]] = {}  # by parent
    answers: dict[str | None, list[Response]] = {}  # by parent
    for name, (message, prompt) in _tree(path, faults).items():
        if message.role == "assistant":
            prompts.setdefault(message.parent_id, prompt)
            answers.setdefault(message.parent_id, []).append(_reply(name, message))
    for parent, responses in answers.items():
        yield Group(
            f"{prefix}/{parent}",
            prompts[parent],
            tuple(responses),
            OASST_ATTRIBUTES,
            source=source,
        )


def oasst1_paths(path: Path, faults: Faults, prefix: str, source: str) -> Iterator[Group]:
    """Open Assistant: every path from a root to a leaf is a conversation, a group of one response.

    A path that ends with the user is a conversation up to the answer before that, once more where
    it is another's beginning. A root that nobody answered is none. Labels and faults as in
    `oasst1`.

    Paper: section 4.2 ("56k conversations"). That all paths are taken, good or bad, is the
    reference code's rule (paper/reference.csv).
    """
    tree = _tree(path, faults)
    answered = {message.parent_id for message, _ in tree.values()}
    for name, (leaf, turns_before) in tree.items():
        if name in answered or not turns_before:
            continue
        if leaf.role == "assistant":
            answer = leaf
            prompt = turns_before
        else:
            answer, prompt = tree[leaf.parent_id]
        yield Group(
            f"{prefix}/{name}", prompt, (_reply(name, answer),), OASST_ATTRIBUTES, source=source
        )


def _reply(name: str, message: TreeMessage) -> Response:
    """A message as a response, with its labels where it has any."""
    labels = ()
    if message.labels:
        labels = tuple(4 * label for label in values(message.labels, OASST_ATTRIBUTES))
    return Response(name, message.text, labels)


def _tree(path: Path, faults: Faults) -> dict[str, tuple[TreeMessage, tuple[Turn, ...]]]:
    """Each message of a file by its id, with the turns from the root to what it replies to."""
    nodes: dict[str, tuple[int, TreeMessage]] = {}  # message id -> (line, message)
    for line, message in sound(path, TreeMessage, faults):
        if message.message_id in nodes:
            what = f"this message a second time (first in line {nodes[message.message_id][0]})"
            faults.add(line, Fault("message_id", what, "keep one of the two"))
        else:
            nodes[message.message_id] = (line, message)

    # Message id -> the turns from the root to it. None stands before a root.
    paths: dict[str | None, tuple[Turn, ...]] = {None: ()}
    waiting = dict(nodes)
    while ready := [name for name, (_, message) in waiting.items() if message.parent_id in paths]:
        for name in ready:
            line, message = waiting.pop(name)
            above = paths[message.parent_id]
            role = "prompter" if len(above) % 2 == 0 else "assistant"
            if message.role == role:
                paths[name] = (*above, Turn(_ROLES[role], message.text))
            else:
                what = f"turn {len(above) + 1} of a conversation is the {message.role}'s"
                fix = "make the roles alternate, the prompter first"
                faults.add(line, Fault("role", what, fix))
    for line, message in waiting.values():
        what = (
            f"the message's parent {message.parent_id} is not in the file, was set aside, "
            "or comes from the message"
        )
        fix = "add the parent, or remove all messages under it"
        faults.add(line, Fault("parent_id", what, fix))

    return {
        name: (message, paths[name][:-1]) for name, (_, message) in nodes.items() if name in paths
    }
