"""Readers of the data sets: one model per file format, and how its rows make groups.

A reader takes (path, faults, prefix, source) and yields groups whose ids start with `prefix`. Faulty rows go to
`faults`. Where every row is a group, the model says which in a method `group`, and `each(model)` is the reader.
"""

import math
import re
from collections.abc import Callable, Iterator
from hashlib import blake2b
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from statistics import median
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from hs2lib.data.rows import Expected, Fault, Faults, Row, Text, checked, real, shown, whole, with_columns
from hs2lib.engine.chat import parse_label
from hs2lib.group import ATTRIBUTES, Group, Response, Turn, parse_prompt, prompt_string

NAN = float("nan")

Reader = Callable[..., Iterator[Group]]


def turns(string: str) -> tuple[Turn, ...]:
    """The turns of a prompt string; raises Fault where its markers do not make a conversation."""
    parsed = parse_prompt(string)
    if "<extra_id_" in string:
        try:
            prompt_string(parsed)
        except ValueError as error:
            raise Fault(None, f"the turn markers make no conversation: {error}", "mend the markers") from None
    return parsed


# A prompt in HelpSteer2's string format, as its turns.
Conversation = Annotated[Text, AfterValidator(turns)]

Rating = whole(0, 4)


class Rated(with_columns(ATTRIBUTES, Rating)):
    """HelpSteer and HelpSteer2: a response and its five labels."""

    prompt: Conversation
    response: Text

    @property
    def labels(self) -> tuple[float, ...]:
        """The labels in the order of ATTRIBUTES."""
        return tuple([float(getattr(self, name)) for name in ATTRIBUTES])

    ratings: ClassVar = ()


def _group(name: str, rows: list, source: str) -> Group:
    responses = [Response(f"{name}/{i}", row.response, row.labels, row.ratings) for i, row in enumerate(rows)]
    return Group(name, rows[0].prompt, tuple(responses), source=source)


def _runs(path: Path, model: type[Row], faults: Faults, key: Callable[[Row], object]) -> Iterator[list[tuple]]:
    """The sound rows (line, row) of a file, those in a row with one key together."""
    sound = (item for item in checked(path, model, faults) if item[1])
    for _, run in groupby(sound, key=lambda item: key(item[1])):
        yield list(run)


def helpsteer2(path: Path, faults: Faults, prefix: str, source: str) -> Iterator[Group]:
    """HelpSteer2: rows 2k and 2k + 1 (lines 2k + 1 and 2k + 2) are the two responses to one prompt.

    Paired by position, not by prompt: one train prompt occurs in two pairs. What is set aside are whole pairs, each
    row of them reported. Paper: section 2.1 (two responses per prompt).
    """
    rows = checked(path, Rated, faults)
    for line, first in rows:
        second_line, second = next(rows, (None, None))
        if second_line is None:
            what = f"the file has {line} rows, an odd number: the last has no partner"
            faults.add(line, Fault(None, what, "restore the lost row, or remove this one"))
            return
        if first and second and first.prompt == second.prompt:
            yield _group(f"{prefix}/{line // 2}", [first, second], source)
            continue
        if first and second:
            what = f"lines {line} and {second_line} are a pair by position, but their prompts differ"
            fix = "restore the row that was lost, doubled or moved at or before this line"
            faults.add(line, Fault("prompt", what, fix))
        faults.partners |= {line: f"its pair partner, line {second_line}, is set aside"}
        faults.partners |= {second_line: f"its pair partner, line {line}, is set aside"}


def helpsteer(path: Path, faults: Faults, prefix: str, source: str) -> Iterator[Group]:
    """HelpSteer: rows in a row with the same prompt are its responses (up to four).

    Paper: Table 2, column HS. Faulty rows are set aside one by one; the other responses to the prompt stay.
    """
    for rows in _runs(path, Rated, faults, attrgetter("prompt")):
        yield _group(f"{prefix}/{rows[0][0] - 1}", [row for _, row in rows], source)


Ratings = Annotated[list[Rating], Field(min_length=1)]


class Disagreement(with_columns(ATTRIBUTES, Ratings)):
    """HelpSteer2's disagreements: each attribute a list, one rating per annotator, no annotator ids."""

    prompt: Conversation
    response: Text
    labels: ClassVar = ()

    @model_validator(mode="after")
    def _as_many(self):
        for name in ATTRIBUTES:
            if len(getattr(self, name)) != len(self.helpfulness):
                what = f"{len(getattr(self, name))} ratings, but helpfulness has {len(self.helpfulness)}"
                raise Fault(name, what, "give every annotator's rating of every attribute")
        return self

    @property
    def ratings(self) -> tuple[tuple[float, ...], ...]:
        """N annotators x A: lists are read by position, the same place is the same annotator."""
        return tuple(zip(*(map(float, getattr(self, name)) for name in ATTRIBUTES), strict=True))


def disagreements(path: Path, faults: Faults, prefix: str, source: str) -> Iterator[Group]:
    """HelpSteer2's individual annotations, as ratings; labels stay () and follow from `hs2lib.stats.aggregate`.

    Consecutive rows with one prompt make a pair; a row whose partner is absent makes a group of one.
    Paper: section 2.1 (three annotators, or five).
    """
    for rows in _runs(path, Disagreement, faults, attrgetter("prompt")):
        for pair in (rows[i : i + 2] for i in range(0, len(rows), 2)):
            yield _group(f"{prefix}/{pair[0][0] - 1}", [row for _, row in pair], source)


# Every row is a group


def each(model: type[Row]) -> Reader:
    """The reader of a format whose rows are groups: `model` has a method group(name, source)."""

    def read(path: Path, faults: Faults, prefix: str, source: str) -> Iterator[Group]:
        for line, row in checked(path, model, faults):
            if row:
                yield row.group(f"{prefix}/{line - 1}", source)

    return read


def _two(name: str, *answers: str) -> tuple[Response, ...]:
    return tuple([Response(f"{name}/{i}", answer) for i, answer in enumerate(answers)])


class Unrated(Row):
    """HelpSteer2 prompts with both responses and no ratings."""

    input: Conversation
    response_a: Text
    response_b: Text

    def group(self, name: str, source: str) -> Group:
        """A group of two responses without labels."""
        return Group(name, self.input, _two(name, self.response_a, self.response_b), source=source)


unrated = each(Unrated)


Strength = whole(-3, 3)


class Vote(with_columns(("justification", "statement", "elaboration"), default=None)):
    """One annotator's preference; -100 in the file, none here, where neither response was valid."""

    strength: Annotated[Strength | None, BeforeValidator(lambda value: None if value == -100 else value)]


_WRITTEN = ("preference_statement", "preference_elaboration", "three_most_similar_preferences")


class Preference(with_columns(_WRITTEN, default=None)):
    """HelpSteer2-Preference: strength -3..3, negative where response 1 is better; one file with a column `split`."""

    split: Literal["train", "val"]
    prompt: Conversation
    response_1: Text
    response_2: Text
    preference_strength: Strength
    all_preferences_unprocessed: list[Vote] = Field([])

    def group(self, name: str, source: str) -> Group:
        """A group of two responses; `preferences` are all annotators' strengths as collected, nan where not valid."""
        strengths = (vote.strength for vote in self.all_preferences_unprocessed)
        votes = tuple(NAN if strength is None else float(strength) for strength in strengths)
        responses, strength = _two(name, self.response_1, self.response_2), float(self.preference_strength)
        return Group(name, self.prompt, responses, preference=strength, preferences=votes, source=source)


def preference(path: Path, faults: Faults, prefix: str, source: str, split: str = "both") -> Iterator[Group]:
    """The rows of HelpSteer2-Preference that are in the split; all rows are checked."""
    for line, row in checked(path, Preference, faults):
        if row and split in ("both", {"train": "train", "val": "validation"}[row.split]):
            yield row.group(f"{prefix}/{line - 1}", source)


_HH_TURN = re.compile(r"\n\n(Human|Assistant):")


def _human_assistant(string: str) -> tuple[Turn, ...]:
    pieces = _HH_TURN.split(string)
    if pieces[0].strip() or len(pieces) < 5 or pieces[1] != "Human" or pieces[-2] != "Assistant":
        what = f"expected a conversation from Human to Assistant, got {shown(string)}"
        raise Fault(None, what, r"write \n\nHuman: .. \n\nAssistant: ..")
    if not pieces[-1].strip():
        raise Fault(None, "the last answer is empty", "remove the row or give the answer")
    roles = ("user" if name == "Human" else "assistant" for name in pieces[1::2])
    return tuple(Turn(role, words.strip()) for role, words in zip(roles, pieces[2::2], strict=True))


HumanAssistant = Annotated[Text, AfterValidator(_human_assistant)]


class HelpfulHarmless(Row):
    """HH-RLHF: two conversations that differ in the last answer. White space around each message is removed.

    Conversations that differ earlier, or end without an answer, are faults (the released files have some).
    Paper: section 3 (HH-RLHF as a baseline).
    """

    chosen: HumanAssistant
    rejected: HumanAssistant

    @model_validator(mode="after")
    def _one_prompt(self):
        if self.chosen[:-1] != self.rejected[:-1]:
            what = "chosen and rejected differ before their last answer, so they do not share a prompt"
            raise Fault("rejected", what, "make the two conversations equal up to the last answer")
        return self

    def group(self, name: str, source: str) -> Group:
        """The chosen answer first; the data say which is better, not by how much: -1 is our smallest preference."""
        return chosen_first(name, self.chosen[:-1], self.chosen[-1].text, self.rejected[-1].text, source)


hh_rlhf = each(HelpfulHarmless)


def chosen_first(name: str, prompt: tuple[Turn, ...], chosen: str, rejected: str, source: str) -> Group:
    """A pair of responses, the better one first, preference -1."""
    responses = (Response(f"{name}/chosen", chosen), Response(f"{name}/rejected", rejected))
    return Group(name, prompt, responses, (), preference=-1.0, source=source)


_SHOWN_TO_ANNOTATORS = Annotated[str | bool, AfterValidator(str), Expected("text", "text")]

Choice = whole(0, 2)


class PandaLM(with_columns(("idx", "motivation_app", "cmp_key"), default=None)):
    """PandaLM's test set: which of two responses each of three annotators prefers (0 tie, 1 or 2 the better one).

    As released, some responses are empty, and some "True" became the boolean true: both were shown to annotators, so
    both are kept, as text.
    """

    instruction: str | None
    input: str | None
    response1: _SHOWN_TO_ANNOTATORS
    response2: _SHOWN_TO_ANNOTATORS
    annotator1: Choice
    annotator2: Choice
    annotator3: Choice

    @model_validator(mode="after")
    def _not_empty(self):
        if not self._prompt():
            raise Fault("instruction", "the text is empty, and so is input", "remove the row or give its text")
        return self

    def _prompt(self) -> str:
        return "\n\n".join(part for part in (self.instruction, self.input) if part and part.strip())

    def group(self, name: str, source: str) -> Group:
        """Preferences become 0, -1 and 1; the group's is their median (the majority, or a tie)."""
        votes = tuple((0.0, -1.0, 1.0)[vote] for vote in (self.annotator1, self.annotator2, self.annotator3))
        responses = _two(name, self.response1, self.response2)
        return Group(name, (Turn("user", self._prompt()),), responses, (), float(median(votes)), votes, source)


pandalm = each(PandaLM)


def _label_string(label: object) -> tuple[float, ...]:
    """The five labels of a SteerLM label string, nan where one is not named; () for null or an empty string."""
    if label is None or label == "":
        return ()
    try:
        return parse_label(label)
    except (ValueError, AttributeError):  # AttributeError: no text at all
        what = f"expected a label string of whole numbers from 0 to 4, got {shown(label)}"
        fix = "write helpfulness:4,correctness:4,coherence:4,complexity:2,verbosity:2"
        raise Fault(None, what, fix) from None


class Spoken(Row):
    """One turn of a conversation of Daring-Anteater; a user's may itself hold a conversation in HelpSteer2's format."""

    speaker: Literal["User", "Assistant"] = Field(alias="from")
    value: Text
    labels: Annotated[Any, AfterValidator(_label_string)] = Field((), alias="label")
    _turns: tuple[Turn, ...]

    @model_validator(mode="after")
    def _parsed(self):
        self._turns = turns(self.value) if self.speaker == "User" else (Turn("assistant", self.value),)
        return self


class DaringAnteater(with_columns(("mask", "dataset"))):
    """Daring-Anteater: conversations as groups of one response, the last assistant turn; the rest is the prompt.

    Paper: sections 4.2 and 4.5 (SFT, SteerLM).
    """

    type: Any = None  # not read
    system: str
    conversations: Annotated[list[Spoken], Field(min_length=2)]

    @model_validator(mode="after")
    def _alternate(self):
        for i, turn in enumerate(self.conversations):
            expected = ("User", "Assistant")[i % 2]
            if turn.speaker != expected:
                what = f"expected a turn from {expected}, got {shown(turn.speaker)}"
                raise Fault(f"conversations[{i}].from", what, "make turns alternate, the user's first")
        if turn.speaker == "User":
            raise Fault("conversations", "the last turn is the user's", "remove it or give the answer")
        return self

    def group(self, name: str, source: str) -> Group:
        """The last answer to all that came before it; labels, where there are any, are those of the answer."""
        system = (Turn("system", self.system),) if self.system.strip() else ()
        *before, last = self.conversations
        prompt = sum((turn._turns for turn in before), system)
        return Group(name, prompt, (Response(f"{name}/0", last.value, last.labels),), source=source)


daring_anteater = each(DaringAnteater)


# Open Assistant

OASST_OTHER = (
    *("user_id", "created_date", "lang", "review_count", "review_result", "deleted", "rank", "synthetic"),
    *("model_name", "detoxify", "message_tree_id", "tree_state", "emojis"),
)

OASST_ATTRIBUTES = ("quality", "helpfulness", "creativity", "humor", "toxicity", "violence")


class Scores(with_columns(OASST_ATTRIBUTES, real(0, 1), default=NAN), extra="ignore"):
    """Means of about three volunteers' labels, from either layout of the exports."""

    @model_validator(mode="before")
    @classmethod
    def _either_layout(cls, labels):
        """{name: [..], value: [..]} (Parquet) or {quality: {value: ..}, ..} (JSONL), as {quality: .., ..}."""
        if not isinstance(labels, dict):
            return labels
        if isinstance(labels.get("name"), list):
            names, values = labels["name"], labels.get("value")
            if not isinstance(values, list) or len(values) != len(names) or not all(isinstance(n, str) for n in names):
                raise Fault(
                    None, "the lists name and value differ in length, or a name is none", "write them as exported"
                )
            return dict(zip(names, values, strict=True))
        return {name: entry.get("value") if isinstance(entry, dict) else entry for name, entry in labels.items()}


class TreeMessage(with_columns(OASST_OTHER, default=None)):
    """A message of a tree of Open Assistant."""

    message_id: Text
    parent_id: Text | None
    text: Text
    role: Literal["prompter", "assistant"]
    labels: Scores | None

    @property
    def turn(self) -> Turn:
        """The message as a turn of a conversation."""
        return Turn("user" if self.role == "prompter" else "assistant", self.text)

    @property
    def response(self) -> Response:
        """The message as a response: labels times 4, nan where one is missing, () without any."""
        values = [4 * getattr(self.labels, name) for name in OASST_ATTRIBUTES] if self.labels else []
        return Response(self.message_id, self.text, tuple(values))


def oasst1(path: Path, faults: Faults, prefix: str, source: str) -> Iterator[Group]:
    """Open Assistant: the assistant messages under one parent are a group, the path from the root its prompt.

    Labels are the means of about three volunteers in [0, 1], times 4; nan where an attribute was not labelled, ()
    where a message has no labels at all. Deleted and badly reviewed messages are kept, as in the reference code.
    A message whose parent is not in the file is a fault, and so are the messages under it.
    Paper: section 3 (Open Assistant as a baseline); the scaling follows SteerLM's reference code.
    """
    nodes: dict[str, tuple[int, TreeMessage]] = {}  # message id -> (line, message)
    for line, message in checked(path, TreeMessage, faults):
        if message and message.message_id in nodes:
            what = f"this message a second time (first in line {nodes[message.message_id][0]})"
            faults.add(line, Fault("message_id", what, "keep one of the two"))
        elif message:
            nodes[message.message_id] = (line, message)

    paths: dict[str | None, tuple[Turn, ...]] = {None: ()}  # message id -> turns from the root to it
    waiting = dict(nodes)
    while ready := [name for name, (_, message) in waiting.items() if message.parent_id in paths]:
        for name in ready:
            line, message = waiting.pop(name)
            above = paths[message.parent_id]
            if above and above[-1].role == message.turn.role:
                what = f"a {message.role} message answers a {message.role} message"
                faults.add(line, Fault("role", what, "make the roles alternate"))
            else:
                paths[name] = (*above, message.turn)
    for name, (line, message) in waiting.items():
        why = "leads back to the message itself" if _circle(name, nodes) else "is not in the file, or was set aside"
        what = f"the message's parent {message.parent_id} {why}"
        faults.add(line, Fault("parent_id", what, "add the parent, or remove all messages under it"))

    replies: dict[str, list[Response]] = {}
    for name, (line, message) in nodes.items():
        if name in paths and message.role == "assistant":
            if message.parent_id is None:
                faults.add(line, Fault("role", "an assistant message opens the tree", "give the prompt it answers"))
            else:
                replies.setdefault(message.parent_id, []).append(message.response)
    for parent, responses in replies.items():
        yield Group(f"{prefix}/{parent}", paths[parent], tuple(responses), OASST_ATTRIBUTES, source=source)


def _circle(name: str, nodes: dict) -> bool:
    """Whether the parents of a message, one after the other, lead back to it."""
    parent = nodes[name][1].parent_id
    for _ in nodes:
        if parent == name or parent not in nodes:
            break
        parent = nodes[parent][1].parent_id
    return parent == name


# SummEval

SUMMEVAL_ATTRIBUTES = ("coherence", "consistency", "fluency", "relevance")

Three = Annotated[list[whole(1, 5)], Field(min_length=3, max_length=3)]


class Summary(Row):
    """SummEval: a system's summary of an article; labels are the experts' means."""

    doc_id: Text
    system: Text
    source: Text
    summary: Text
    expert_ratings: with_columns(SUMMEVAL_ATTRIBUTES, Three)  # by three experts, on a scale of 1 to 5

    @property
    def response(self) -> Response:
        """The summary with the experts' ratings [3][A] and their means."""
        by_attribute = [getattr(self.expert_ratings, name) for name in SUMMEVAL_ATTRIBUTES]
        ratings = tuple(tuple(map(float, expert)) for expert in zip(*by_attribute, strict=True))
        labels = tuple(sum(values) / 3 for values in by_attribute)
        return Response(f"{self.doc_id}/{self.system}", self.summary, labels, ratings)


def summeval(path: Path, faults: Faults, prefix: str, source: str) -> Iterator[Group]:
    """SummEval: the summaries of an article are a group, the article its prompt; rows in a row with one doc_id."""
    for run in _runs(path, Summary, faults, attrgetter("doc_id", "source")):
        rows = [row for _, row in run]
        prompt = (Turn("user", rows[0].source),)
        responses = tuple(row.response for row in rows)
        yield Group(f"{prefix}/{rows[0].doc_id}", prompt, responses, SUMMEVAL_ATTRIBUTES, source=source)


# Your own ratings

Name = Annotated[
    Text | int | None, AfterValidator(lambda name: None if name is None else str(name)), Expected("name", "a name")
]

Value = real(0, 4) | None


class OwnRating(with_columns(ATTRIBUTES, Value)):
    """Your own ratings of a response; an attribute may be null (an empty cell in CSV) where nobody rated it."""

    prompt: Conversation
    response: Text
    group: Name = None
    id: Name = None
    annotator: Name = None

    @property
    def values(self) -> tuple[float, ...]:
        """The ratings in the order of ATTRIBUTES, nan where missing."""
        return tuple(NAN if getattr(self, a) is None else float(getattr(self, a)) for a in ATTRIBUTES)


def ratings(path: Path, faults: Faults, prefix: str, source: str) -> Iterator[Group]:
    """Groups of your own rated responses, in the order in which their prompts first occur.

    Without an `annotator` column the row's values are the labels. With it they are raw ratings, and the labels the
    plain mean of those present (the paper's rule, three most in agreement, is `hs2lib.stats.aggregate`'s).
    """
    groups: dict[tuple, tuple[str, list[OwnRating]]] = {}
    for name, key, row in own_rows(path, faults):
        groups.setdefault(key, (f"{prefix}/{name}", []))[1].append(row)
    for name, rows in groups.values():
        responses: dict[str, list[OwnRating]] = {}
        for row in rows:
            responses.setdefault(row.response, []).append(row)
        merged = [_own_response(f"{name}/{i}", same) for i, same in enumerate(responses.values())]
        yield Group(name, rows[0].prompt, tuple(merged), source=source)


def own_rows(path: Path, faults: Faults) -> Iterator[tuple[str, tuple, OwnRating]]:
    """(name and key of its group, row) of own ratings, as far as they fit those before; of these digests are kept.

    What cannot be known is a fault: which of two ratings counts, which of two ids, whose a rating is, which group.
    """
    seen: dict[tuple, tuple[int, object]] = {}

    def differs(key: tuple, value: object) -> int | None:
        """The line that first said something else of this key."""
        first, known = seen.setdefault(key, (line, value))
        return first if known != value else None

    for line, row in checked(path, OwnRating, faults):
        if not row:
            continue
        prompt, response = digest(repr(row.prompt)), digest(row.response)
        key = ("group", row.group) if row.group else ("prompt", prompt)
        name = row.group or seen.get(key, (line,))[0] - 1
        if first := differs(key, prompt):
            what = f"the prompt differs from that of line {first}, of the same group {row.group!r}"
            fault = Fault("prompt", what, "give one group one prompt")
        elif first := differs(("name", str(name)), key):
            what = f"lines {first} and {line}, one with a group and one without, would both be group {str(name)!r}"
            fault = Fault("group", what, "name the group in every row")
        elif first := differs(("named",), row.annotator is None):
            what = f"an annotator is named in only one of this row and line {first}"
            fault = Fault("annotator", what, "name who gave the rating in every row or in none")
        elif row.id is not None and (first := differs(("id", row.id), (key, response))):
            fault = Fault("id", f"another response has the id {row.id!r} (line {first})", "give each an id of its own")
        elif row.id is not None and (first := differs(("id of", key, response), row.id)):
            fault = Fault("id", f"this response has another id in line {first}", "give a response one id")
        elif first := differs(("rating", key, response, row.annotator), line):
            who = f"by annotator {row.annotator!r}" if row.annotator is not None else "and no annotator is named"
            what = f"this response is rated a second time (first in line {first}) {who}"
            fix = "keep one of the rows, or name who gave each rating in a column annotator"
            fault = Fault("annotator", what, fix)
        else:
            yield str(name), key, row
            continue
        faults.add(line, fault)


def digest(text: str) -> bytes:
    """What stands for a text where many are only compared."""
    return blake2b(text.encode(), digest_size=16).digest()


def _own_response(name: str, rows: list[OwnRating]) -> Response:
    name = next((row.id for row in rows if row.id is not None), name)
    if len(rows) == 1 and rows[0].annotator is None:
        return Response(name, rows[0].response, rows[0].values)
    by_attribute = zip(*(row.values for row in rows), strict=True)
    present = [[value for value in values if not math.isnan(value)] for values in by_attribute]
    labels = tuple(sum(values) / len(values) if values else NAN for values in present)
    return Response(name, rows[0].response, labels, tuple(row.values for row in rows))
