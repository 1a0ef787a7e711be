"""Writing: a task's items become a response, with edits; earlier turns become a conversation.

Paper: silent (our corpus).
"""

from random import Random as Generator

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


def respond(r: Random, task: Task, edits: dict[str, int], extras: int = 0, expert: int = 0) -> str:
    """Write one response to a task.

    edits: kind -> how many items the edit touches (`rules.RULES`).
    extras: how many sentences say nothing that was asked for. They make up verbosity.
    expert: how many sentences of an expert there are, -1 for a plain answer. They make up
        complexity.
    """
    n = len(task.items)
    refused = "refusal" in edits
    unsafe = task.family == "unsafe"
    if refused and not unsafe:
        return " ".join([pick(r, WRITING["refusals"]), *several(r, WRITING["closings"], extras)])
    # The refusal that answers an unsafe request is wrong only where everything is.
    first_editable = 1 if unsafe else 0
    if refused:
        wrong = set(range(n))
    else:
        wrong = set(several(r, range(first_editable, n), edits.get("wrong value", 0)))
    # Items that are right are left out first, so that both edits of a plan can be seen.
    candidates = sorted(several(r, range(first_editable, n), n), key=lambda item: item in wrong)
    left_out = candidates[: edits.get("missing item", 0)]
    order = [item for item in range(n) if item not in left_out]
    _move(r, order, edits.get("shuffled order", 0))

    style = int(r() * 2)
    sentence_of = {}
    for place, item in enumerate(order):
        form = style if place else 0
        sentence_of[item] = task.items[item].say(form, item not in wrong)
    lines = [[sentence_of[item]] for item in order]  # by place: sentences of a line

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
    for sentence in several(r, WRITING["expert"], max(expert, 0)):
        pick(r, lines).append(sentence)
    before, after = _surplus(r, extras, lines)
    if expert < 0:
        before.insert(0, pick(r, WRITING["plain"]))

    paragraphs = [" ".join(before), _lay_out(task, lines), " ".join(after)]
    separator = " " if task.layout == "prose" else "\n"
    return separator.join(paragraph for paragraph in paragraphs if paragraph)


def _surplus(r: Random, extras: int, lines: list[list[str]]) -> tuple[list[str], list[str]]:
    """Draw the sentences before and after the items; remarks are added to `lines` behind items."""
    before = []
    after = []
    if extras and r() < 0.6:
        before.append(pick(r, WRITING["openings"]))
    if extras > len(before) and r() < 0.4:
        after.append(pick(r, WRITING["closings"]))
    left = extras - len(before) - len(after)
    n_remarks = min(left, len(lines))
    remarked = several(r, lines, n_remarks)
    for line, remark in zip(remarked, several(r, WRITING["remarks"], n_remarks), strict=True):
        line.append(remark)
    for sentence in several(r, WRITING["fillers"], left - n_remarks):
        (before if r() < 0.5 else after).append(sentence)
    return before, after


def _after(lead: str, sentence: str) -> str:
    """Write a sentence behind a lead-in, its first letter small where it may be."""
    proper = sentence.startswith(("I ", *_PROPER_NAMES)) or sentence[1].isupper()
    if not lead or proper:
        return lead + sentence
    return lead + sentence[0].lower() + sentence[1:]


def _move(r: Random, order: list[int], k: int) -> None:
    """Move k of the items in place, each to where the next one of them was."""
    if min(k, len(order)) < 2:
        return
    places = sorted(several(r, range(len(order)), k))
    moved = [order[place] for place in places]
    for place, item in zip(places, moved[-1:] + moved[:-1], strict=True):
        order[place] = item


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
