"""Readers of the data sets: one model per file format, and how its rows make groups.

A reader takes (path, faults, prefix, source) and yields groups whose ids start with `prefix`.
Faulty rows go to `faults`. Where every row is a group, the model says which in a method `group`,
and `each(model)` is the reader.
"""

import math
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby, zip_longest
from operator import attrgetter
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from hs2lib.data.rows import (
    DataError,
    Fault,
    Faults,
    Row,
    Text,
    checked,
    columns,
    expected,
    real,
    shown,
    sound,
    whole,
)
from hs2lib.engine.chat import parse_label
from hs2lib.group import ATTRIBUTES, Group, Response, Turn, parse_prompt, prompt_string
from hs2lib.paths import content_key

NAN = float("nan")


def turns(string: str) -> tuple[Turn, ...]:
    """The turns of a prompt string; raises ValueError where its markers do not make a conversation."""
    parsed = parse_prompt(string)
    prompt_string(parsed)
    return parsed


# A prompt in HelpSteer2's string format, as its turns.
Conversation = Annotated[Text, AfterValidator(turns)]

Rating = Annotated[whole(0, 4), AfterValidator(float)]


def _or_nan(value: float | None) -> float:
    return NAN if value is None else float(value)


def values(row: Row, names: Sequence[str] = ATTRIBUTES) -> tuple:
    """What a row has in the columns of its attributes, in their order."""
    return tuple([getattr(row, name) for name in names])


class Answered(Row):
    """A prompt and a response to it."""

    prompt: Conversation
    response: Text


class Rated(columns(ATTRIBUTES, Rating, base=Answered)):
    """HelpSteer and HelpSteer2: a response and its five labels."""

    labels = property(values)
    ratings: ClassVar = ()


def _group(name: str, rows: Sequence, source: str) -> Group:
    responses = [
        Response(f"{name}/{i}", row.response, row.labels, row.ratings) for i, row in enumerate(rows)
    ]
    return Group(name, rows[0].prompt, tuple(responses), source=source)


def _runs(
    path: Path, model: type[Row], faults: Faults, *key: str
) -> Iterator[tuple[tuple[int], tuple[Row]]]:
    """(lines, rows) of the sound rows of a file, those in a row with the same key together."""
    for _, run in groupby(sound(path, model, faults), key=lambda item: attrgetter(*key)(item[1])):
        yield tuple(zip(*run, strict=True))


def helpsteer2(path: Path, faults: Faults, prefix: str, source: str) -> Iterator[Group]:
    """HelpSteer2: rows 2k and 2k + 1 (lines 2k + 1 and 2k + 2) are the two responses to one prompt.

    Paired by position, not by prompt: one train prompt occurs in two pairs. What is set aside are
    whole pairs, each row of them reported. Paper: section 2.1 (two responses per prompt).
    """
    rows = checked(path, Rated, faults)
    for (line, first), (after, second) in zip_longest(rows, rows, fillvalue=(None, None)):
        if first and second and first.prompt == second.prompt:
            yield _group(f"{prefix}/{line // 2}", [first, second], source)
            continue
        fix = "restore the row that was lost, doubled or moved at or before this line"
        if after is None:
            faults.add(
                line,
                Fault(
                    None, f"the file has {line} rows, an odd number: the last has no partner", fix
                ),
            )
            return
        if first and second:
            faults.add(
                line,
                Fault(
                    "prompt", f"lines {line} and {after} are a pair, but their prompts differ", fix
                ),
            )
        for here, other in ((line, after), (after, line)):
            what = f"its pair partner, line {other}, is set aside"
            faults.partners.append(DataError(path, here, None, what, "mend that one"))


def helpsteer(path: Path, faults: Faults, prefix: str, source: str) -> Iterator[Group]:
    """HelpSteer: rows in a row with the same prompt are its responses (up to four).

    Paper: Table 2, column HS. Faulty rows are set aside one by one; the other responses to the
    prompt stay.
    """
    for lines, rows in _runs(path, Rated, faults, "prompt"):
        yield _group(f"{prefix}/{lines[0] - 1}", rows, source)


class Disagreement(
    columns(ATTRIBUTES, Annotated[list[Rating], Field(min_length=1)], base=Answered)
):
    """HelpSteer2's disagreements: each attribute a list, one rating per annotator, no annotator ids."""

    labels: ClassVar = ()

    @model_validator(mode="after")
    def _as_many(self):
        counts = [len(column) for column in values(self)]
        if len(set(counts)) > 1:
            raise Fault(
                None,
                f"{shown(counts)} ratings by attribute",
                "give as many ratings of every attribute",
            )
        return self

    @property
    def ratings(self) -> tuple[tuple[float, ...], ...]:
        """N annotators x A: lists are read by position, the same place is the same annotator."""
        return tuple(zip(*values(self), strict=True))


def disagreements(path: Path, faults: Faults, prefix: str, source: str) -> Iterator[Group]:
    """HelpSteer2's individual annotations, as ratings; labels stay () and follow from
    `hs2lib.stats.aggregate`.

    Consecutive rows with one prompt make a pair; a row whose partner is absent makes a group of
    one. Paper: section 2.1 (three annotators, or five).
    """
    for lines, rows in _runs(path, Disagreement, faults, "prompt"):
        for i in range(0, len(rows), 2):
            yield _group(f"{prefix}/{lines[i] - 1}", rows[i : i + 2], source)


# Every row is a group


def each(model: type[Row]) -> Callable[..., Iterator[Group]]:
    """The reader of a format whose rows are groups: `model` has a method group(name, source), and may have a split."""

    def read(
        path: Path, faults: Faults, prefix: str, source: str, split: str = "both"
    ) -> Iterator[Group]:
        for line, row in sound(path, model, faults):
            if split in ("both", getattr(row, "split", split)):
                yield row.group(f"{prefix}/{line - 1}", source)

    return read


class Two(Row):
    """A prompt and two responses, which the model names `prompt`, `first` and `second`; and what was preferred."""

    def group(self, name: str, source: str) -> Group:
        """Preferences, where there are any: negative where the first response is better, nan where there is none."""
        responses = tuple(
            Response(f"{name}/{i}", text) for i, text in enumerate((self.first, self.second))
        )
        preference, votes = getattr(self, "preference", None), getattr(self, "preferences", ())
        return Group(
            name, self.prompt, responses, preference=preference, preferences=votes, source=source
        )


class Unrated(Two):
    """HelpSteer2 prompts with both responses and no ratings."""

    prompt: Conversation = Field(alias="input")
    first: Text = Field(alias="response_a")
    second: Text = Field(alias="response_b")


Strength = whole(-3, 3)


class Vote(Row, extra="ignore"):
    """One annotator's preference; -100 in the file, nan here, where neither response was valid."""

    strength: Annotated[
        Strength | None, BeforeValidator(lambda value: None if value == -100 else value)
    ]


_STRENGTHS = AfterValidator(lambda votes: tuple(_or_nan(vote.strength) for vote in votes))


class Preference(Two, extra="ignore"):
    """HelpSteer2-Preference: strength -3..3, negative where response 1 is better; one file with a
    column `split`.

    `preferences` are all annotators' strengths as collected.
    """

    split: Annotated[
        Literal["train", "val"], AfterValidator({"train": "train", "val": "validation"}.get)
    ]
    prompt: Conversation
    first: Text = Field(alias="response_1")
    second: Text = Field(alias="response_2")
    preference: Annotated[Strength, AfterValidator(float)] = Field(alias="preference_strength")
    preferences: Annotated[list[Vote], _STRENGTHS] = Field((), alias="all_preferences_unprocessed")


def _human_assistant(string: str) -> tuple[Turn, ...]:
    pieces = re.split(r"\n\n(Human|Assistant):", string)
    ends = pieces[1:2] + pieces[-2:-1]
    if (
        len(pieces) < 5
        or pieces[0].strip()
        or ends != ["Human", "Assistant"]
        or not pieces[-1].strip()
    ):
        what = f"expected a conversation from Human to an answer of Assistant, got {shown(string)}"
        raise Fault(None, what, r"write \n\nHuman: .. \n\nAssistant: ..")
    roles = ("user" if name == "Human" else "assistant" for name in pieces[1::2])
    return tuple(Turn(role, words.strip()) for role, words in zip(roles, pieces[2::2], strict=True))


HumanAssistant = Annotated[Text, AfterValidator(_human_assistant)]


class HelpfulHarmless(Row):
    """HH-RLHF: two conversations that differ in the last answer. White space around each message is
    removed.

    Conversations that differ earlier, or end without an answer, are faults (the released files have
    some). Paper: section 3 (HH-RLHF as a baseline).
    """

    chosen: HumanAssistant
    rejected: HumanAssistant

    @model_validator(mode="after")
    def _one_prompt(self):
        if self.chosen[:-1] != self.rejected[:-1]:
            what = (
                "chosen and rejected differ before their last answer, so they do not share a prompt"
            )
            raise Fault("rejected", what, "make the two conversations equal up to the last answer")
        return self

    def group(self, name: str, source: str) -> Group:
        """The chosen answer first; the data say which is better, not by how much: -1 is our smallest preference."""
        return chosen_first(
            name, self.chosen[:-1], self.chosen[-1].text, self.rejected[-1].text, source
        )


def chosen_first(
    name: str, prompt: tuple[Turn, ...], chosen: str, rejected: str, source: str
) -> Group:
    """A pair of responses, the better one first, preference -1."""
    responses = (Response(f"{name}/chosen", chosen), Response(f"{name}/rejected", rejected))
    return Group(name, prompt, responses, (), preference=-1.0, source=source)


_SHOWN_TO_ANNOTATORS = Annotated[
    str | bool, AfterValidator(str), expected("text", "write the text as a string")
]

PREFERS = (
    "annotator1",
    "annotator2",
    "annotator3",
)  # 0, 1 or 2 in the file, a preference of 0, -1 or 1 here
Choice = Annotated[whole(0, 2), AfterValidator((0.0, -1.0, 1.0).__getitem__)]


class PandaLM(columns(PREFERS, Choice), extra="ignore"):
    """PandaLM's test set: which of two responses each of three annotators prefers (0 tie, 1 or 2
    the better one).

    As released, some responses are empty, and some "True" became the boolean true: both were shown
    to annotators, so both are kept, as text.
    """

    instruction: str | None
    input: str | None
    response1: _SHOWN_TO_ANNOTATORS
    response2: _SHOWN_TO_ANNOTATORS
    _prompt: str

    @model_validator(mode="after")
    def _joined(self):
        self._prompt = "\n\n".join(
            part for part in (self.instruction, self.input) if part and part.strip()
        )
        if not self._prompt:
            raise Fault(
                "instruction",
                "the text is empty, and so is input",
                "remove the row or give its text",
            )
        return self

    def group(self, name: str, source: str) -> Group:
        """The group's preference is the median of the annotators' (the majority, or a tie)."""
        votes = values(self, PREFERS)
        responses = tuple(
            Response(f"{name}/{i}", text) for i, text in enumerate((self.response1, self.response2))
        )
        return Group(
            name, (Turn("user", self._prompt),), responses, (), sorted(votes)[1], votes, source
        )


_LABELS = AfterValidator(lambda label: parse_label(label) if label else ())


class Spoken(Row):
    """One turn of a conversation of Daring-Anteater; a user's may itself hold a conversation in HelpSteer2's format."""

    speaker: Literal["User", "Assistant"] = Field(alias="from")
    value: Text
    labels: Annotated[str | None, _LABELS] = Field((), alias="label")


class DaringAnteater(Row, extra="ignore"):
    """Daring-Anteater: conversations as groups of one response, the last assistant turn; the rest
    is the prompt.

    Paper: sections 4.2 and 4.5 (SFT, SteerLM).
    """

    system: str
    conversations: Annotated[list[Spoken], Field(min_length=2)]
    _prompt: tuple[Turn, ...]

    @model_validator(mode="after")
    def _alternate(self):
        speakers = [turn.speaker for turn in self.conversations]
        if speakers != ["User", "Assistant"] * (len(speakers) // 2):
            fix = "make turns alternate, the user's first, the assistant's last"
            raise Fault("conversations", f"turns of {shown(speakers)}", fix)
        self._prompt = (Turn("system", self.system),) if self.system.strip() else ()
        for turn in self.conversations[:-1]:
            self._prompt += (
                turns(turn.value) if turn.speaker == "User" else (Turn("assistant", turn.value),)
            )
        return self

    def group(self, name: str, source: str) -> Group:
        """The last answer to all that came before it; labels, where there are any, are those of the answer."""
        last = self.conversations[-1]
        return Group(
            name, self._prompt, (Response(f"{name}/0", last.value, last.labels),), source=source
        )


# Open Assistant

OASST_ATTRIBUTES = ("quality", "helpfulness", "creativity", "humor", "toxicity", "violence")


class Scores(columns(OASST_ATTRIBUTES, real(0, 1), default=NAN), extra="ignore"):
    """Means of about three volunteers' labels, from either layout of the exports."""

    @model_validator(mode="before")
    @classmethod
    def _either_layout(cls, labels):
        """{name: [..], value: [..]} (Parquet) or {quality: {value: ..}, ..} (JSONL), as {quality: .., ..}."""
        if not isinstance(labels, dict):
            return labels
        if isinstance(labels.get("name"), list):
            try:
                return dict(zip(labels["name"], labels["value"], strict=True))
            except (KeyError, TypeError, ValueError):
                raise Fault(
                    None, "name and value are no lists of one length", "write them as exported"
                ) from None
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
    """Open Assistant: the assistant messages under one parent are a group, the path from the root
    its prompt.

    Labels are the means of about three volunteers in [0, 1], times 4; nan where an attribute was
    not labelled, () where a message has no labels at all. Deleted and badly reviewed messages are
    kept, as in the reference code. A message whose parent is not in the file is a fault, and so are
    the messages under it. Paper: section 3 (Open Assistant as a baseline); the scaling is the
    reference code's, which then rounds it and takes a reply once for every path through it
    (docs/reference.md).
    """
    replies: dict[str | None, tuple] = {}  # parent -> (prompt, its answers)
    for name, (message, prompt) in _tree(path, faults).items():
        if message.role == "assistant":
            replies.setdefault(message.parent_id, (prompt, []))[1].append(_reply(name, message))
    for parent, (prompt, responses) in replies.items():
        yield Group(f"{prefix}/{parent}", prompt, tuple(responses), OASST_ATTRIBUTES, source=source)


def oasst1_paths(path: Path, faults: Faults, prefix: str, source: str) -> Iterator[Group]:
    """Open Assistant: every path from a root to a leaf is a conversation, a group of one response.

    A path that ends with the user is a conversation up to the answer before that, once more where
    it is another's beginning; a root that nobody answered is none. Labels and faults as in
    `oasst1`. Paper: section 4.2 ("56k conversations"); that all paths are taken, good or bad, is
    the reference code's (docs/reference.md).
    """
    tree = _tree(path, faults)
    answered = {message.parent_id for message, _ in tree.values()}
    for name, (message, prompt) in tree.items():
        if name not in answered and prompt:
            last = (message, prompt) if message.role == "assistant" else tree[message.parent_id]
            yield Group(
                f"{prefix}/{name}",
                last[1],
                (_reply(name, last[0]),),
                OASST_ATTRIBUTES,
                source=source,
            )


def _reply(name: str, message: TreeMessage) -> Response:
    labels = (
        tuple(4 * label for label in values(message.labels, OASST_ATTRIBUTES))
        if message.labels
        else ()
    )
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

    paths: dict[str | None, tuple[Turn, ...]] = {
        None: ()
    }  # message id -> turns from the root to it
    waiting = dict(nodes)
    while ready := [name for name, (_, message) in waiting.items() if message.parent_id in paths]:
        for name in ready:
            line, message = waiting.pop(name)
            above = paths[message.parent_id]
            if message.role == ("prompter", "assistant")[len(above) % 2]:
                paths[name] = (*above, Turn(("user", "assistant")[len(above) % 2], message.text))
            else:
                what = f"turn {len(above) + 1} of a conversation is the {message.role}'s"
                faults.add(
                    line, Fault("role", what, "make the roles alternate, the prompter first")
                )
    for line, message in waiting.values():
        what = f"the message's parent {message.parent_id} is not in the file, was set aside, or comes from the message"
        faults.add(
            line, Fault("parent_id", what, "add the parent, or remove all messages under it")
        )

    return {
        name: (message, paths[name][:-1]) for name, (_, message) in nodes.items() if name in paths
    }


# SummEval

SUMMEVAL_ATTRIBUTES = ("coherence", "consistency", "fluency", "relevance")

Three = Annotated[
    list[Annotated[whole(1, 5), AfterValidator(float)]], Field(min_length=3, max_length=3)
]


class Summary(Row):
    """SummEval: a system's summary of an article; labels are the experts' means."""

    doc_id: Text
    system: Text
    source: Text
    summary: Text
    expert_ratings: columns(SUMMEVAL_ATTRIBUTES, Three)  # by three experts, on a scale of 1 to 5


def summeval(path: Path, faults: Faults, prefix: str, source: str) -> Iterator[Group]:
    """SummEval: the summaries of an article are a group, the article its prompt; rows in a row with one doc_id."""
    for _, rows in _runs(path, Summary, faults, "doc_id", "source"):
        responses = []
        for row in rows:
            ratings = values(row.expert_ratings, SUMMEVAL_ATTRIBUTES)  # [A][3]
            labels = tuple(sum(three) / 3 for three in ratings)
            name = f"{row.doc_id}/{row.system}"
            responses.append(Response(name, row.summary, labels, tuple(zip(*ratings, strict=True))))
        prompt = (Turn("user", row.source),)
        yield Group(
            f"{prefix}/{row.doc_id}", prompt, tuple(responses), SUMMEVAL_ATTRIBUTES, source=source
        )


# Your own ratings


_AS_TEXT = AfterValidator(lambda value: None if value is None else str(value))
Name = Annotated[Text | int | None, _AS_TEXT, expected("a name", "write a text or a whole number")]


class OwnRating(
    columns(ATTRIBUTES, Annotated[real(0, 4) | None, AfterValidator(_or_nan)], base=Answered)
):
    """Your own ratings of a response; an attribute may be null (an empty cell in CSV) where nobody rated it."""

    group: Name = None
    id: Name = None
    annotator: Name = None


def ratings(path: Path, faults: Faults, prefix: str, source: str) -> Iterator[Group]:
    """Groups of your own rated responses, in the order in which their prompts first occur.

    Without an `annotator` column the row's values are the labels. With it they are raw ratings, and
    the labels the plain mean of those present (the paper's rule, three most in agreement, is
    `hs2lib.stats.aggregate`'s).
    """
    groups: dict[str, dict[str, list[OwnRating]]] = {}
    for name, row in own_rows(path, faults, prefix):
        groups.setdefault(f"{prefix}/{name}", {}).setdefault(row.response, []).append(row)
    for name, responses in groups.items():
        merged = [_own_response(f"{name}/{i}", rows) for i, rows in enumerate(responses.values())]
        yield Group(name, next(iter(responses.values()))[0].prompt, tuple(merged), source=source)


def own_rows(
    path: Path, faults: Faults, prefix: str = "ratings"
) -> Iterator[tuple[str, OwnRating]]:
    """(name of its group, row) of own ratings, as far as they fit those before; of these keys are
    kept.

    What cannot be known is a fault: which of two ratings counts, which of two ids, whose a rating
    is, which group. A response without an id is called PREFIX/GROUP/NUMBER, as `ratings` does, so
    no other response may have that id.
    """
    numbers: dict[str, dict[str, int]] = {}  # of the responses of a group
    seen: dict[
        object, tuple[int, object]
    ] = {}  # what is known of this -> the line that said so first, and what
    for line, row in sound(path, OwnRating, faults):
        prompt, response, by = (
            content_key(repr(row.prompt)),
            content_key(row.response),
            row.annotator,
        )
        key = ("group", row.group) if row.group else ("prompt", prompt)
        name = str(row.group or seen.get(key, (line,))[0] - 1)
        same = [
            (
                "prompt",
                key,
                prompt,
                f"group {name!r} has another prompt",
                "give one group one prompt",
            ),
            (
                "group",
                ("name", name),
                key,
                f"a row without a group is in {name!r} too",
                "name the group in every row",
            ),
            (
                "annotator",
                "named",
                by is None,
                "only one of two rows names its annotator",
                "name all or none",
            ),
        ]
        if row.id is not None:
            same += [
                (
                    "id",
                    ("id", row.id),
                    (key, response),
                    f"another response has the id {row.id!r}",
                    "give each its own",
                ),
                (
                    "id",
                    ("id of", key, response),
                    row.id,
                    "this response has another id",
                    "give a response one id",
                ),
            ]
        elif ("id of", key, response) not in seen:
            in_group = numbers.get(name, {})
            default = f"{prefix}/{name}/{in_group.get(response, len(in_group))}"
            taken = f"{default!r}, which this response would be called, is another's id"
            same.append(
                ("id", ("id", default), (key, response), taken, "give this response an id too")
            )
        before = f"{by or 'nobody named'} rated this response before"
        same.append(
            ("annotator", (key, response, by), line, before, "keep one rating, or name who gave it")
        )
        for column, about, value, what, fix in same:
            first, known = seen.setdefault(about, (line, value))
            if known != value:
                faults.add(line, Fault(column, f"{what} (line {first})", fix))
                break
        else:
            in_group = numbers.setdefault(name, {})
            in_group.setdefault(response, len(in_group))
            yield name, row


def _own_response(name: str, rows: list[OwnRating]) -> Response:
    ratings = tuple(values(row) for row in rows)
    present = [
        [value for value in column if not math.isnan(value)]
        for column in zip(*ratings, strict=True)
    ]
    labels = tuple(sum(column) / len(column) if column else NAN for column in present)
    named = next((row.id for row in rows if row.id), name)
    return Response(named, rows[0].response, labels, ratings if rows[0].annotator else ())
