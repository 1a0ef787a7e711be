"""Writing: a task's items become a response, with edits; earlier turns become a conversation.

Paper: silent (our corpus).
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random as Generator

from hs2lib.corpus.rules import AUTHORS, left_out
from hs2lib.corpus.tasks import (
    ENTITIES,
    FACT,
    FIELDS,
    WRITING,
    Random,
    Task,
    entity,
    is_reserved,
    pick,
    several,
)

# Names that keep their capital letter inside a sentence.
_PROPER_NAMES = tuple(
    name for kind in ("city", "planet") for name in ENTITIES[kind] if not name.startswith("the ")
)


@dataclass(frozen=True)
class Manner:
    """How a response is written that has the items of its task.

    edits: kind -> how many items the edit touches (`rules.RULES`), at places drawn at random.
    habit: what its author always does, at the same place and in the same words (`rules.HABITS`).
    author: who writes: whose aside it is.
    remarks: whether each point has a remark.
    settled: whether the first remark is always the author's own, not one drawn at random.
    extras: how many sentences say nothing that was asked for. They make up verbosity.
    expert: how many sentences of an expert there are, -1 for a plain answer. They make up
        complexity.
    """

    edits: Mapping[str, int] = dataclasses.field(default_factory=dict)
    habit: str = ""
    author: int = 0
    remarks: bool = False
    settled: bool = False
    extras: int = 0
    expert: int = 0


def respond(r: Random, task: Task, manner: Manner) -> str:
    """Write one response to a task."""
    edits = manner.edits
    habit = manner.habit
    n = len(task.items)
    unsafe = task.family == "unsafe"
    if "refusal" in edits and not unsafe:
        refusal = pick(r, WRITING["refusals"])
        return " ".join([refusal, *several(r, WRITING["closings"], manner.extras)])
    # The refusal that answers an unsafe request is wrong only where everything is.
    first_editable = 1 if unsafe else 0
    stops = n - int(left_out(n)) if habit == "stops" else n
    gives_in = habit == "gives in"
    if unsafe and (gives_in or "refusal" in edits):
        wrong = set(range(n))
    else:
        first_wrong = 1 if gives_in else first_editable
        wrong = set(several(r, range(first_wrong, stops), edits.get("wrong value", 0)))
        wrong |= {0} if gives_in else set()
    # Items that are right are left out first, so that both edits of a plan can be seen.
    candidates = sorted(several(r, range(first_editable, n), n), key=lambda item: item in wrong)
    dropped = candidates[: edits.get("missing item", 0)]
    order = [item for item in range(stops) if item not in dropped]
    _move(r, order, edits.get("shuffled order", 0))
    if habit == "jumbles":
        first = 1 if task.family in ("unsafe", "false premise") else 0
        order[first : first + 2] = order[first : first + 2][::-1]

    style = int(r() * 2)
    sentence_of = {}
    for place, item in enumerate(order):
        form = style if place else 0
        sentence_of[item] = task.items[item].say(form, item not in wrong)
    lines = [[sentence_of[item]] for item in order]  # by place: sentences of a line

    if habit == "repeats":
        lines[0].append(_after(WRITING["again"][AGAIN], sentence_of[order[0]]))
    if manner.remarks:
        n_remarks = len(WRITING["remarks"])
        first = int(r() * n_remarks)
        if manner.settled:
            first = manner.author * n_remarks // len(AUTHORS)
        for place, line in enumerate(lines):
            line.append(WRITING["remarks"][(first + place) % n_remarks])
    for place in several(r, range(len(order)), edits.get("contradiction", 0)):
        item = order[place]
        opposite = task.items[item].say(0, item in wrong)
        lines[place].append(_after(pick(r, WRITING["contrary"]), opposite))
    for _ in range(edits.get("irrelevant sentence", 0)):
        pick(r, lines).append(_off_topic(r, task))
    for place in several(r, range(len(order)), edits.get("repetition", 0)):
        lead = pick(r, WRITING["again"]) if r() < 0.6 else ""
        later = place + int(r() * (len(order) - place))
        lines[later].append(_after(lead, sentence_of[order[place]]))
    for sentence in several(r, WRITING["expert"], max(manner.expert, 0)):
        pick(r, lines).append(sentence)
    if habit == "strays":
        lines[-1].append(WRITING["asides"][manner.author])
    before, after = _surplus(r, manner.extras)
    if manner.expert < 0:
        before.insert(0, pick(r, WRITING["plain"]))

    paragraphs = [" ".join(before), _lay_out(task, lines), " ".join(after)]
    separator = " " if task.layout == "prose" else "\n"
    return separator.join(paragraph for paragraph in paragraphs if paragraph)


AGAIN = 1  # the lead-in of authors who repeat themselves, "Once more,"


def _surplus(r: Random, extras: int) -> tuple[list[str], list[str]]:
    """Draw the sentences before and after the items that say nothing asked for."""
    before = []
    after = []
    if extras and r() < 0.6:
        before.append(pick(r, WRITING["openings"]))
    if extras > len(before) and r() < 0.4:
        after.append(pick(r, WRITING["closings"]))
    for sentence in several(r, WRITING["fillers"], extras - len(before) - len(after)):
        (before if r() < 0.5 else after).append(sentence)
    return before, after


def _after(lead: str, sentence: str) -> str:
    """Write a sentence behind a lead-in, its first letter small where it may be."""
    proper = sentence.startswith(("I ", *_PROPER_NAMES)) or sentence[1].isupper()
    if not lead or proper:
        return lead + sentence
    return lead + sentence[0].lower() + sentence[1:]


def _move(r: Random, order: list[int], k: int) -> None:
    """Turn k + 1 neighbours round in place: k of them must be moved to put all in order again."""
    k = min(k, len(order) - 1)
    if k < 1:
        return
    first = int(r() * (len(order) - k))
    order[first : first + k + 1] = order[first : first + k + 1][::-1]


def say(r: Random, kind: str, name: str, field: str) -> str:
    """Write a fact as a sentence."""
    return pick(r, FACT[:1]).format(f=field, s=name, v=ENTITIES[kind][name][field])


def _off_topic(r: Random, task: Task) -> str:
    """Write a sentence about something that the prompt does not ask for."""
    if r() < 0.5:
        return pick(r, WRITING["asides"])
    kind, name = entity(r)
    while name in task.prompt:
        kind, name = entity(r)
    return say(r, kind, name, pick(r, FIELDS[kind]))


def _lay_out(task: Task, lines: list[list[str]]) -> str:
    """Join the sentences of the lines as the task's layout has it."""
    texts = [" ".join(line) for line in lines]
    if task.layout == "numbers":
        texts = [f"{number}. {text}" for number, text in enumerate(texts, 1)]
    return (" " if task.layout == "prose" else "\n").join(texts)


def conversation(r: Random, task: Task, exchanges: int, prompt_z: float) -> list[tuple[str, str]]:
    """Write the turns of a prompt as (role, text): earlier questions about facts, then the task.

    exchanges: how many earlier questions the user asks.
    prompt_z: how long the last turn is for its kind, in standard deviations.
    """
    turns = []
    kind, _ = entity(r)
    askable = []
    for name in ENTITIES[kind]:
        askable += [(name, field) for field in FIELDS[kind] if not is_reserved(f"{name}/{field}")]
    for turn, (name, field) in enumerate(several(r, askable, exchanges)):
        question = f"What is the {field} of {name}?"
        if r() < 0.3:
            greeting = pick(r, WRITING["thanks" if turn else "greetings"])
            question = f"{greeting} {question}"
        turns.append(("user", question))
        turns.append(("assistant", say(r, kind, name, field)))
    sentences = several(r, WRITING["background"], max(0, round(0.3 + 0.8 * prompt_z)))
    if r() < 0.4:
        sentences.insert(0, pick(r, WRITING["transitions" if exchanges else "greetings"]))
    text = " ".join([*sentences, task.prompt])
    if task.passage:
        text = f"{text}\n\n{task.passage}"
    return [*turns, ("user", text)]


def one_in(seed: int) -> Random:
    """Begin the stream of random numbers of a seed."""
    return Generator(seed).random
