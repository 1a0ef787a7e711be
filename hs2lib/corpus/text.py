"""Writing: a task's items become a response, with the named edits made to it; earlier turns become
a conversation.

Paper: silent (our corpus). `r` is a function that returns uniform random numbers in [0, 1), one
stream per text.
"""

from random import Random

from hs2lib.corpus.tasks import (
    ENTITIES,
    FACT,
    FIELDS,
    WRITING,
    Task,
    entity,
    is_reserved,
    pick,
    several,
)

_PROPER = tuple(
    name for kind in ("city", "planet") for name in ENTITIES[kind] if not name.startswith("the ")
)


def respond(r, task: Task, edits: dict[str, int], extras: int = 0, expert: int = 0) -> str:
    """One response to a task.

    edits: kind -> how many items it touches (rules.RULES). extras: how many sentences that say
    nothing asked for, which is verbosity. expert: how many sentences of an expert, -1 for a plain
    one, which is complexity.
    """
    n = len(task.items)
    refused, unsafe = "refusal" in edits, task.family == "unsafe"
    if refused and not unsafe:
        return " ".join([pick(r, WRITING["refusals"]), *several(r, WRITING["closings"], extras)])
    # What a request to refuse begins with is wrong only where all is.
    first = 1 if unsafe else 0
    wrong = (
        set(range(n)) if refused else set(several(r, range(first, n), edits.get("wrong value", 0)))
    )
    # Left out are first those that are not wrong, so that both edits of a plan can be seen.
    candidates = sorted(several(r, range(first, n), n), key=lambda i: i in wrong)
    left_out = candidates[: edits.get("missing item", 0)]
    order = [i for i in range(n) if i not in left_out]
    _move(r, order, edits.get("shuffled order", 0))
    style = int(r() * 2)
    written = {i: task.items[i].say(style if k else 0, i not in wrong) for k, i in enumerate(order)}
    lines = [[written[i]] for i in order]
    for k in several(r, range(len(order)), edits.get("contradiction", 0)):
        item = task.items[order[k]]
        lines[k].append(_after(pick(r, WRITING["contrary"]), item.say(0, order[k] in wrong)))
    for _ in range(edits.get("irrelevant sentence", 0)):
        pick(r, lines).append(_off_topic(r, task))
    for k in several(r, range(len(order)), edits.get("repetition", 0)):
        again = pick(r, WRITING["again"]) if r() < 0.6 else ""
        lines[k + int(r() * (len(order) - k))].append(_after(again, written[order[k]]))
    for sentence in several(r, WRITING["expert"], max(expert, 0)):
        pick(r, lines).append(sentence)
    before, after = _surplus(r, extras, lines)
    if expert < 0:
        before.insert(0, pick(r, WRITING["plain"]))
    paragraphs = [" ".join(before), _lay_out(task, order, lines), " ".join(after)]
    return (
        "\n".join(filter(None, paragraphs))
        if task.layout != "prose"
        else " ".join(filter(None, paragraphs))
    )


def _surplus(r, extras: int, lines: list[list[str]]) -> tuple[list[str], list[str]]:
    """Sentences before and after the items; remarks are put behind items, in place."""
    before, after = [], []
    if extras and r() < 0.6:
        before.append(pick(r, WRITING["openings"]))
    if extras > len(before) and r() < 0.4:
        after.append(pick(r, WRITING["closings"]))
    left = extras - len(before) - len(after)
    n_remarks = min(left, len(lines))
    for line, remark in zip(
        several(r, lines, n_remarks), several(r, WRITING["remarks"], n_remarks), strict=True
    ):
        line.append(remark)
    for sentence in several(r, WRITING["fillers"], left - n_remarks):
        (before if r() < 0.5 else after).append(sentence)
    return before, after


def _after(lead: str, sentence: str) -> str:
    """A sentence behind a lead-in, its first letter small where it may be."""
    keeps = not lead or sentence.startswith(("I ", *_PROPER)) or sentence[1].isupper()
    return lead + (sentence if keeps else sentence[0].lower() + sentence[1:])


def _move(r, order: list[int], k: int) -> None:
    """Move k of the items to the place of the next one of them (each lands somewhere else), in place."""
    places = sorted(several(r, range(len(order)), k)) if min(k, len(order)) > 1 else []
    moved = [order[p] for p in places]
    for p, i in zip(places, moved[-1:] + moved[:-1], strict=True):
        order[p] = i


def say(r, kind: str, name: str, field: str) -> str:
    """A fact as a sentence."""
    return pick(r, FACT[:1]).format(f=field, s=name, v=ENTITIES[kind][name][field])


def _off_topic(r, task: Task) -> str:
    if r() < 0.5:
        return pick(r, WRITING["asides"])
    kind, name = entity(r)
    while name in task.prompt:
        kind, name = entity(r)
    return say(r, kind, name, pick(r, FIELDS[kind]))


def _lay_out(task: Task, order: list[int], lines: list[list[str]]) -> str:
    texts = [" ".join(line) for line in lines]
    if task.layout == "numbers":
        texts = [f"{k}. {text}" for k, text in enumerate(texts, 1)]
    return (" " if task.layout == "prose" else "\n").join(texts)


def conversation(r, task: Task, exchanges: int, prompt_z: float) -> list[tuple[str, str]]:
    """The turns of a prompt as (role, text), the last one the user's: earlier questions about facts, then the task."""
    turns = []
    kind, _ = entity(r)
    asked = [
        (name, f) for name in ENTITIES[kind] for f in FIELDS[kind] if not is_reserved(f"{name}/{f}")
    ]
    for k, (name, field) in enumerate(several(r, asked, exchanges)):
        question = f"What is the {field} of {name}?"
        if r() < 0.3:
            question = f"{pick(r, WRITING['thanks' if k else 'greetings'])} {question}"
        turns += [("user", question), ("assistant", say(r, kind, name, field))]
    words = several(r, WRITING["background"], max(0, round(0.3 + 0.8 * prompt_z)))
    if r() < 0.4:
        words.insert(0, pick(r, WRITING["transitions" if exchanges else "greetings"]))
    text = " ".join([*words, task.prompt])
    return [*turns, ("user", f"{text}\n\n{task.passage}" if task.passage else text)]


def one_in(seed: int):
    """The stream of random numbers of a seed."""
    return Random(seed).random
