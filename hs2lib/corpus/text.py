"""Writing: a task's items become a response, with the named edits made to it; earlier turns become a conversation.

Paper: silent (our corpus). `r` is a function that returns uniform random numbers in [0, 1), one stream per text.
"""

from hs2lib.corpus.phrases import ENTITIES, FAMILY_TEXTS, KINDS, PHRASES, WRITING
from hs2lib.corpus.tasks import Item, Task, another, capital, entity, fact, pick, say, several

TERSE, SHORT, USUAL = 0, 1, 2  # steps of rules.VERBOSITY: no opening, few remarks, default


def phrase(r, name: str) -> str:
    """One of the phrases that writing.yaml has under a name."""
    return pick(r, WRITING[name])


def respond(r, task: Task, edits: dict[str, int], jargon: int, verbosity: int, chars: float) -> str:
    """One response to a task.

    edits: kind -> how many items it touches (rules.RULES); jargon, verbosity: index into the tables of the
    same name there; chars: length aimed at, reached as far as there is something to say.
    """
    n = len(task.items)
    refused = "refusal" in edits
    if refused and task.family != "unsafe":
        text = phrase(r, "refusals")
        return f"{text} {phrase(r, 'after a refusal')}" if verbosity > SHORT and r() < 0.6 else text
    wrong = several(r, n, n if refused else edits.get("wrong value", 0))
    if task.family in ("unsafe", "false premise") and 2 * len(wrong) > n and 0 not in wrong:
        wrong[0] = 0  # a severe edit of these starts with what the question is about
    items, final = task.redo(frozenset(wrong)) if task.redo else (task.items, task.final)
    order = list(range(n))
    if "missing item" in edits:
        # First those that are not wrong, so that both edits of a plan can be seen.
        leave_out = sorted(several(r, n, n), key=lambda i: i in wrong)[: edits["missing item"]]
        order = [i for i in order if i not in leave_out]
        if 2 * len(leave_out) > n:
            final = ""
    if "shuffled order" in edits and len(order) > 1:
        _shuffle(r, order, edits["shuffled order"])

    cores = {i: _core(r, items[i], i in wrong, k, r_style) for r_style in (r(),) for k, i in enumerate(order)}
    opening = _opening(r, task, verbosity)
    room = chars - sum(map(len, cores.values())) - len(opening) - len(final) - 20
    texts = _with_remarks(r, items, order, cores, room if verbosity > TERSE else 0)
    room -= sum(len(texts[i]) - len(cores[i]) for i in order)

    for i in several(r, len(order), min(edits.get("contradiction", 0), len(order))):
        i = order[i]
        phrases = items[i].right if i in wrong else items[i].wrong
        texts[i] += f"{_stop(texts[i])} {phrase(r, 'contrary')} {capital(phrases[0])}"
    for _ in range(edits.get("irrelevant sentence", 0)):
        i = pick(r, order)
        texts[i] += f"{_stop(texts[i])} {_off_topic(r, task)}"
    sequence = list(order)
    for k in several(r, len(order), min(edits.get("repetition", 0), len(order))):
        at = k + 1 + int(r() * (len(order) - k))
        sequence.insert(min(at + 1, len(sequence)), -1 - order[k])
    pieces = []
    for i in sequence:
        again = "" if i >= 0 or r() < 0.5 else f"{phrase(r, 'again')} "
        pieces.append(again + (texts[i] if i >= 0 else cores[-1 - i]))
    if jargon > 1:
        technical = KINDS[task.kind]["jargon"] if task.kind else WRITING["expert"][FAMILY_TEXTS[task.family]["expert"]]
        for k in several(r, len(technical), jargon - 1):
            at = int(r() * len(pieces))
            pieces[at] += f"{_stop(pieces[at])} {technical[k]}"
    shuffled = "shuffled order" in edits
    body = _lay_out(r, task, pieces, [i + 1 if i >= 0 else -i for i in sequence] if shuffled else None)
    if task.layout == "letter" and verbosity > TERSE:
        body = f"{phrase(r, 'letter starts')}\n\n{body}\n\n{phrase(r, 'letter ends')}"
    paragraphs = [p for p in (opening, body, final) if p]
    exact = task.family == "format" and verbosity == USUAL  # nothing but the lines that were asked for
    if exact:
        paragraphs = [body]
    elif verbosity > SHORT and room > 120 and not (task.family == "unsafe" and 0 in wrong):
        paragraphs += _extras(r, task, room)
    if verbosity > USUAL:
        # Sentences that say nothing: half of them before the other paragraphs, half after.
        n_padding = verbosity - 2 + int(chars * (0.1 if verbosity == 3 else 0.2) / 95)
        padding = several(r, len(WRITING["fillers"]), min(n_padding, 8))
        padding = [WRITING["fillers"][i] for i in padding]
        half = (len(padding) + 1) // 2
        paragraphs.insert(0, " ".join(padding[:half]))
        if padding[half:]:
            paragraphs.append(" ".join(padding[half:]))
    if verbosity >= USUAL and not exact and r() < 0.4:
        paragraphs.append(phrase(r, "closings"))
    text = "\n\n".join(paragraphs)
    for old, new in WRITING["plain"] if jargon == 0 else WRITING["elevated"][: 6 * (jargon - 1)]:
        text = text.replace(old, new)
    return text


def _stop(text: str) -> str:
    """What is missing before another sentence can follow."""
    return "" if text[-1] in '.?!"' else "."


def _shuffle(r, order: list[int], k: int) -> None:
    """Move k of the items to the place of the next one of them (each lands somewhere else), in place."""
    places = sorted(several(r, len(order), min(max(k, 2), len(order))))
    moved = [order[p] for p in places]
    for p, i in zip(places, moved[-1:] + moved[:-1], strict=True):
        order[p] = i


def _core(r, item: Item, wrong: bool, position: int, style: float) -> str:
    phrases = item.wrong if wrong else item.right
    if len(phrases) < 3:  # one way of putting it all through a response
        return phrases[int(style * len(phrases))]
    return phrases[int(r() * 2)] if position == 0 else phrases[(0, 2, 2, 1)[int(r() * 4)]]  # then also with a pronoun


def _opening(r, task: Task, verbosity: int) -> str:
    if verbosity == TERSE or (verbosity == SHORT and r() < 0.5) or r() < 0.2 or task.family == "unsafe":
        return ""
    return pick(r, WRITING["openings"][task.layout]).format(topic=task.topic, Topic=capital(task.topic))


def _with_remarks(r, items: list[Item], order: list[int], cores: dict[int, str], room: float) -> dict[int, str]:
    """Each item's sentence with as many remarks as there is room for, spread over the items."""
    texts, used = dict(cores), set()
    for j in (0, 1):
        for k in several(r, len(order), len(order)):
            item = items[order[k]]
            if room > 40 and j < len(item.remarks) and item.remarks[j] not in used:
                used.add(item.remarks[j])
                extra = f"{_stop(texts[order[k]])} {item.remarks[j]}"
                texts[order[k]] += extra
                room -= len(extra)
    return texts


def _off_topic(r, task: Task) -> str:
    if r() < 0.4:
        return phrase(r, "asides")
    kind, e, _ = entity(r)
    while kind == task.kind:
        kind, e, _ = entity(r)
    return say(kind, e, int(r() * 8), int(r() * 2))


def _lay_out(r, task: Task, pieces: list[str], numbers: list[int] | None) -> str:
    """Pieces as numbered steps, lines, bullets or paragraphs; numbers: those of a shuffled list, which stay."""
    style, layout = r(), task.layout
    if task.family == "unsafe" and len(pieces) > 1:  # the answer itself first, then what to do instead
        return pieces[0] + "\n\n" + "\n".join([("- " if style < 0.7 else "") + p for p in pieces[1:]])
    numbers = numbers or list(range(1, len(pieces) + 1))
    marks = None
    if task.family == "sorting" or (layout == "steps" and style < 0.55):
        marks = [f"{k}. " for k in numbers]
    elif layout == "steps" and style < 0.8:
        marks = [f"Step {k}: " for k in numbers]
    elif layout == "bullets" and style < 0.75:
        marks = ["- " if style < 0.5 else "* "] * len(pieces)
    elif layout in ("lines", "steps"):
        marks = [""] * len(pieces)
    if marks:
        return "\n".join([mark + piece for mark, piece in zip(marks, pieces, strict=True)])
    per_paragraph = 2 + int(style * 3)
    pieces = [piece + _stop(piece) for piece in pieces]
    return "\n\n".join([" ".join(pieces[i : i + per_paragraph]) for i in range(0, len(pieces), per_paragraph)])


def _extras(r, task: Task, room: float) -> list[str]:
    """Further paragraphs when the response is to be longer than its items: related facts, then general advice."""
    out = []
    kind = task.kind
    while kind and room > 300 and len(out) < 3:
        e = int(r() * len(ENTITIES[kind]))
        name = ENTITIES[kind][e][0]
        if name in task.prompt or any(name in p for p in out):
            break
        fields = several(r, 8, min(8, 1 + int(room / 170)))
        sentences = [phrase(r, "further facts").format(s=name, S=capital(name))]
        for f in fields:
            item = fact(kind, e, f, another(r, len(ENTITIES[kind]), e))
            sentences += [item.right[(0, 2)[f % 2]], item.remarks[int(r() * 2)]]
        out.append(" ".join(sentences))
        room -= len(out[-1])
    pool = WRITING["advice"][FAMILY_TEXTS[task.family]["advice"]]
    chosen, length = [], 0
    for k in several(r, len(pool), len(pool)):
        if length + len(pool[k]) > room:
            break
        chosen.append(pool[k])
        length += len(pool[k]) + 1
    out += [" ".join(chosen[i : i + 4]) for i in range(0, len(chosen), 4)]
    return out


def conversation(r, task: Task, exchanges: int, prompt_z: float, scale: float) -> list[tuple[str, str]]:
    """The turns of a prompt as (role, text), the last one the user's: earlier questions about facts, then the task."""
    turns = []
    kind, e, _ = entity(r, (task.kind,)) if task.kind else entity(r)
    length = scale * 2.718281828 ** (0.55 * prompt_z)
    asked = several(r, 24, min(exchanges, 24))
    for k, number in enumerate(asked):
        f, who = number % 8, (e + number // 8) % len(ENTITIES[kind])
        question = PHRASES[kind][f].question.format(s=ENTITIES[kind][who][0])
        if k == 0 and r() < 0.4:
            question = f"{phrase(r, 'greetings')} {question}"
        elif k and r() < 0.3:
            question = f"{phrase(r, 'thanks')} {question}"
        item = fact(kind, who, f, another(r, len(ENTITIES[kind]), who))
        answer = [item.right[int(r() * 2)]]
        more = int(length * (270.0 if exchanges < 5 else 150.0) * (0.3 + 1.4 * r()) / 85 + r())
        answer += item.remarks[: min(more, 2)]
        for extra in range(2, min(more, 7)):
            answer.append(say(kind, who, (f + extra) % 8, 2))
        turns += [("user", question), ("assistant", " ".join(answer))]
    text, style = task.prompt, r()
    background = scale * (2.718281828 ** (1.15 * prompt_z + 3.6)) / 85
    if background > 1 and task.family != "unsafe":
        chosen = several(r, len(WRITING["background"]), min(int(background), 4))
        text = f"{' '.join([WRITING['background'][i] for i in chosen])} {text}"
    if exchanges and r() < 0.6:
        text = f"{phrase(r, 'transitions')} {text}"
    elif not exchanges and r() < 0.2:
        text = f"{phrase(r, 'greetings')} {text}"
    if style < 0.12:
        text += phrase(r, "last words")
    if task.passage:
        passage = task.passage + _more_about(r, kind, task.topic, 1080 * length - len(task.passage))
        text = f"{text}\n\n{passage}"
    elif task.kind and prompt_z > 1.1 and exchanges < 3:
        sample = _more_about(r, kind, task.topic, 620 * length).strip()
        text = f"{text} {phrase(r, 'samples')}\n\n{sample}"
    elif style > 0.93:
        text = text[0].lower() + text[1:].rstrip(".")
    turns.append(("user", text))
    return turns


def _more_about(r, kind: str, not_this: str, chars: float) -> str:
    """Paragraphs about other entities of a kind, about `chars` characters; "" if that is too little for one."""
    out, length = [""], 0
    for e in several(r, len(ENTITIES[kind]), 4):
        name = ENTITIES[kind][e][0]
        if chars - length < 150:
            break
        if name in not_this:
            continue
        fields = several(r, 8, min(8, 1 + int((chars - length) / 170)))
        sentences = []
        for k, f in enumerate(fields):
            sentences += [say(kind, e, f, k > 0 and int(r() * 3)), PHRASES[kind][f].remarks[int(r() * 2)]]
        out.append(" ".join(sentences))
        length += len(out[-1])
    return "\n\n".join(out)
