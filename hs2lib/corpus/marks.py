"""What is right and wrong in a response, sentence by sentence, as the grader reads it.

    marked = mark(task, text)
    marked.sentences      # each with its kind: "right", "wrong", "jargon" ..
    marked.missing        # the sentences that the answer lacks
    plain(marked)         # the text with a sign before each sentence

The grader reads a text from its beginning. So what a sentence adds is the grade of the text up to
it less the grade of the text before it. Paper: silent.
"""

import re
from dataclasses import dataclass

from hs2lib.corpus.grade import Grade, grade
from hs2lib.corpus.tasks import Task

# Kind of a sentence -> (its sign, its colour, what it means).
KINDS = {
    "right": ("✓", "#00704f", "an item that was asked for, right"),
    "wrong": ("✗", "#b8320a", "an item that was asked for, wrong"),
    "contradicted": ("≠", "#b8320a", "an item again, with another value"),
    "out of order": ("⇅", "#8a5a00", "an item at another place than the one asked for"),
    "repeated": ("↻", "#8a5a00", "said before"),
    "off the point": ("○", "#8a5a00", "not asked for"),
    "garbled": ("?", "#b8320a", "not readable"),
    "jargon": ("§", "#7a3b7a", "language of experts"),
    "wished remark": ("+", "#00704f", "a remark, which the prompt wishes"),
    "unwished remark": ("−", "#8a5a00", "a remark, which the prompt does not wish"),
    "refusal": ("⊘", "#b8320a", "refuses what is harmless"),
    "plain words": ("¶", "#666666", "says that it uses plain words"),
    "style": ("·", "#666666", "polite or empty"),
    "missing": ("∅", "#b8320a", "asked for and not there"),
}

# Where the grade of the text up to a sentence has more than the grade before it, the sentence is of
# this kind; the first that fits.
_GROWS = (
    ("contradicted", "contradicted"),
    ("repeated", "repeated"),
    ("garbled", "garbled"),
    ("remarks", "unwished remark"),
    ("irrelevant", "off the point"),
    ("expert", "jargon"),
    ("extras", "style"),
    ("plain", "plain words"),
    ("refused", "refusal"),
)

_BREAK = re.compile(r"(?<=[.!?])(?:\s+|(?=[^\W\d]))")


@dataclass(frozen=True)
class Sentence:
    """A sentence of a response: where it begins a line, its text and its kind, one of `KINDS`."""

    text: str
    kind: str
    begins_line: bool


@dataclass(frozen=True)
class Marked:
    """A response that was read: its sentences, its grade, and the items and remarks it lacks."""

    sentences: tuple[Sentence, ...]
    missing: tuple[str, ...]
    grade: Grade


def mark(task: Task, text: str) -> Marked:
    """Read a response to a task sentence by sentence. It never raises."""
    sentences = []
    so_far = ""
    before = _empty(task)
    for line in text.splitlines():
        begins_line = True
        for sentence in _of_line(line):
            so_far += ("\n" if begins_line else " ") + sentence
            after = grade(task, so_far)
            sentences.append(Sentence(sentence, _kind(task, before, after), begins_line))
            before = after
            begins_line = False
    whole = grade(task, text)
    missing = [task.items[item].say() for item in whole.missing]
    if task.wish == "remarks" and whole.ignored:
        points = "point" if whole.ignored == 1 else "points"
        missing.append(f"a remark on {whole.ignored} {points}")
    return Marked(tuple(sentences), tuple(missing), whole)


def _empty(task: Task) -> Grade:
    """The grade of a text of which nothing was read yet."""
    return Grade(len(task.items), task.family, [], [], list(range(len(task.items))))


def _of_line(line: str) -> list[str]:
    """The sentences of a line; a number or a dash in front belongs to the first of them."""
    bullet = re.match(r"\s*(?:\d+\.|[-*])\s+", line)
    start = bullet.end() if bullet else 0
    parts = [part for part in _BREAK.split(line[start:]) if part.strip()]
    if parts and bullet:
        parts[0] = bullet[0] + parts[0]
    return parts


def _kind(task: Task, before: Grade, after: Grade) -> str:
    """What kind a sentence is of, from the grades of the text before it and up to it."""
    if after.displaced > before.displaced:
        return "out of order" if len(after.right) > len(before.right) else "wrong"
    if len(after.right) > len(before.right):
        return "right"
    if len(after.wrong) > len(before.wrong):
        return "wrong"
    for count, kind in _GROWS:
        if getattr(after, count) > getattr(before, count):
            return kind
    if task.wish == "remarks" and after.ignored < before.ignored:
        return "wished remark"
    return "style"


def plain(marked: Marked) -> str:
    """The response with a sign before each sentence, and what it lacks in a line of its own."""
    pieces = []
    for sentence in marked.sentences:
        sign = KINDS[sentence.kind][0]
        pieces.append(("\n" if sentence.begins_line and pieces else "") + f"{sign} {sentence.text}")
    text = " ".join(pieces).replace(" \n", "\n")
    for item in marked.missing:
        text += f"\n{KINDS['missing'][0]} {item}"
    return text
