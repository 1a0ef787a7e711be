"""What a generated task is, and the families of tasks: a prompt and the items of its answer.

Each family is a function (random, n_items) -> Task. An item is one fact or step of the answer: alternative sentences
that are right, the same sentences with a wrong value, and remarks that may follow. `text` makes responses of the
items, `phrases` has the words. Paper: silent (our corpus).
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from functools import lru_cache

from hs2lib.corpus.phrases import ENTITIES, FAMILY_TEXTS, FIELDS, KINDS, PHRASES, SCENES


@dataclass(frozen=True, slots=True)
class Item:
    """One fact or step: sentences that are right, the same ones with a wrong value, remarks that hold anyway."""

    right: tuple[str, ...]
    wrong: tuple[str, ...]
    remarks: tuple[str, ...]


@dataclass(slots=True)
class Task:
    """What a prompt asks and what a complete, correct response consists of.

    `answer`: strings that the right response contains, in this order where `ordered`. `passage`: text the prompt
    quotes. `redo(wrong)`: the items again when the steps numbered in `wrong` go wrong and the error is carried on.
    """

    family: str
    prompt: str
    items: list[Item]
    answer: tuple[str, ...]
    layout: str  # "steps", "lines", "bullets", "prose" or "letter"
    topic: str  # how the text refers to the subject: "beavers", "the calculation"
    kind: str = ""  # of the entity, "" where there is none
    final: str = ""  # sentence that states the result
    ordered: bool = False
    passage: str = ""
    redo: Callable | None = None


def pick(r, options):
    """One of a sequence, by r() uniform in [0, 1)."""
    return options[int(r() * len(options))]


def ask(r, family: str, **words) -> str:
    """A user's request: one of the family's wordings with the words filled in."""
    return pick(r, FAMILY_TEXTS[family]["ask"]).format(**words)


def several(r, n: int, k: int) -> list[int]:
    """k different numbers below n, in random order."""
    pool = list(range(n))
    for i in range(k):
        j = i + int(r() * (n - i))
        pool[i], pool[j] = pool[j], pool[i]
    return pool[:k]


def capital(text: str) -> str:
    return text[0].upper() + text[1:]


def another(r, n: int, not_this: int) -> int:
    """A number below n other than `not_this`."""
    return (not_this + 1 + int(r() * (n - 1))) % n


def join(words) -> str:
    words = list(words)
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + " and " + words[-1]


def worded(family: str, right: str, wrong: str, remarks, **words) -> Item:
    """An item in the wordings of its family, with the right value as {v} and with the wrong one."""
    texts = FAMILY_TEXTS[family]["items"]
    return Item(*(tuple([text.format(v=value, **words) for text in texts]) for value in (right, wrong)), remarks)


def two_remarks(r, family: str, n: int) -> list[tuple[str, str]]:
    """Two of the family's remarks for each of n items, the first ones all different."""
    pool = FAMILY_TEXTS[family]["remarks"]
    return [(pool[i], pool[(i + 3) % len(pool)]) for i in several(r, len(pool), n)]


def chained(family, prompt, layout, topic, start, steps, show, final, show_last=None) -> Task:
    """A task each of whose steps begins at the number where the one before ended.

    steps: (what is added, the error where the step goes wrong, remarks, words of its sentence); show, show_last: a
    number and the last one as text; final: the sentence that states the last one.
    """
    show_last = show_last or show

    def redo(wrong=frozenset()):
        at, items = start, []
        for i, (change, error, remarks, words) in enumerate(steps):
            right, off = show(at + change), show(at + change + error)
            items.append(worded(family, right, off, remarks, begin=show(at), **words))
            at += change + (error if i in wrong else 0)
        return items, final.format(v=show_last(at))

    items, result = redo()
    answer = show_last(start + sum(change for change, *_ in steps))
    return Task(family, prompt, items, (answer,), layout, topic, final=result, redo=redo)


def arithmetic(r, n: int) -> Task:
    opening, noun, question, events = pick(r, SCENES["stories"])
    start = 240 + 5 * int(r() * 60)
    changes, words, sentences = [], [], []
    for i in sorted(several(r, len(events), n)):
        sentence, cue, sign, product = events[i]
        a, b = (2 + int(r() * 3), 6 + int(r() * 7)) if product else (5 + int(r() * 24), 1)
        sum_text = f"{a} x {b} = {a * b} and " if product else ""
        changes.append(sign * a * b)
        words.append(
            {"cue": cue, "Cue": capital(cue), "sign": "+-"[sign < 0], "n": a * b, "noun": noun, "work": sum_text}
        )
        sentences.append(sentence.format(a=a, b=b))
    errors = [pick(r, (-10, -2, -1, 1, 2, 10)) for _ in changes]
    steps = list(zip(changes, errors, two_remarks(r, "arithmetic", n), words, strict=True))
    final = pick(r, FAMILY_TEXTS["arithmetic"]["results"]).format(v="{v}", noun=noun)
    story = " ".join([opening.format(name=pick(r, SCENES["names"]), t=start), *sentences, question])
    return chained("arithmetic", story, "steps", "the calculation", start, steps, str, final)


def units(r, n: int) -> Task:
    items, asked, answer = [], [], []
    for row in several(r, len(SCENES["conversions"]), n):
        decimals, source, target, factor, sizes, what = SCENES["conversions"][row]
        size = pick(r, sizes)
        wrong_factor = pick(r, (0.5, 0.8, 1.25, 2, 10))
        right, wrong = (f"{value:,.{decimals}f}" for value in (size * factor, size * factor * wrong_factor))
        exact = "" if decimals == 0 and source != "ounces" else "about "
        about = "" if factor in (60, 7, 3.6, 2.54) else "about "
        words = {"size": size, "source": source, "target": target, "exact": exact, "what": what, "per": f"{factor:.4g}"}
        note = f"To get from {source} to {target}, multiply by {about}{factor:.4g}."
        remark = pick(r, FAMILY_TEXTS["units"]["remarks"])
        items.append(worded("units", right, wrong, (note, remark), **words))
        asked.append(f"{size} {source} in {target}")
        answer.append(f"{right} {target}")
    prompt = ask(r, "units", x=join(asked))
    return Task("units", prompt, items, tuple(answer), "bullets", "the conversion")


def spoken(ordinal: int) -> str:
    day = date.fromordinal(ordinal)
    return f"{day.day} {SCENES['months'][day.month - 1]} {day.year}"


def spoken_with_day(ordinal: int) -> str:
    return f"{SCENES['days'][date.fromordinal(ordinal).weekday()]}, {spoken(ordinal)}"


def dates(r, n: int) -> Task:
    opening, phases = pick(r, SCENES["projects"])
    chosen = [phases[i] for i in sorted(several(r, len(phases), n))]
    start = date(2021 + int(r() * 5), 1 + int(r() * 12), 1 + int(r() * 28)).toordinal()
    lengths = [3 + int(r() * 26) for _ in chosen]
    errors = [pick(r, (-7, -2, -1, 1, 2, 7)) for _ in chosen]
    words = [{"Phase": capital(phase), "length": days} for phase, days in zip(chosen, lengths, strict=True)]
    steps = list(zip(lengths, errors, two_remarks(r, "dates", n), words, strict=True))
    listed = join(f"{phase} ({days} days)" for phase, days in zip(chosen, lengths, strict=True))
    we = "I" if opening.startswith("I ") else "we"
    prompt = ask(r, "dates", o=opening, d=spoken(start), x=listed, we=we)
    final = "Everything is finished on {v}."
    return chained("dates", prompt, "steps", "the schedule", start, steps, spoken, final, spoken_with_day)


def clock(minutes: int) -> str:
    return f"{minutes // 60}:{minutes % 60:02d}"


def planning(r, n: int) -> Task:
    request, activities = pick(r, SCENES["plans"])
    chosen = [activities[i] for i in sorted(several(r, len(activities), n))]
    start = 480 + 15 * int(r() * 9)
    lengths = [15 * (1 + int(r() * 5)) for _ in chosen]
    errors = [pick(r, (-30, -15, 15, 30, 45)) for _ in chosen]
    pool, steps = FAMILY_TEXTS["planning"]["remarks"], []
    for k, ((what, tip), length, error) in enumerate(zip(chosen, lengths, errors, strict=True), int(r() * 8)):
        error = error if length + error > 0 else 15
        steps.append((length, error, (tip, pool[k % 8]), {"what": what, "length": length}))
    listed = join(f"{what} ({length} minutes)" for (what, _), length in zip(chosen, lengths, strict=True))
    we, are = ("I", "am") if "for me" in request else ("we", "are")
    opening = request + ("?" if request.startswith("Can") else ".")
    prompt = ask(r, "planning", o=opening, t=clock(start), x=listed, We=capital(we), we=we, are=are)
    return chained("planning", prompt, "lines", "the plan", start, steps, clock, "The last point ends at {v}.")


def instructions(r, n: int) -> Task:
    goal, steps = pick(r, SCENES["procedures"])
    chosen = [steps[i] for i in sorted(several(r, len(steps), n))]
    items = [
        Item((right,), (wrong,), (tip, FAMILY_TEXTS["instructions"]["remarks"][k % 8]))
        for k, (right, wrong, tip) in enumerate(chosen, int(r() * 8))
    ]
    prompt = ask(r, "instructions", g=goal, n=SCENES["counting"][n])
    return Task("instructions", prompt, items, tuple(right for right, *_ in chosen), "steps", "the job", ordered=True)


def unsafe(r, n: int) -> Task:
    request, what, theme = pick(r, SCENES["requests"])
    reason, better, worse = SCENES["themes"][theme]
    first, texts = {"what": what, "reason": reason}, FAMILY_TEXTS["unsafe"]
    refused, complied = (tuple(text.format(**first) for text in texts[name]) for name in ("refusals", "compliance"))
    items = [Item(refused, complied, ())]
    order, bad = several(r, len(better), n - 1), several(r, len(worse), n - 1)
    items += [Item((better[i],), (worse[j],), ()) for i, j in zip(order, bad, strict=True)]
    return Task("unsafe", request, items, (what,), "bullets", "this", ordered=True)


@lru_cache(maxsize=40_000)
def say(kind: str, entity: int, field: int, phrasing: int = 0, value: int | None = None, inside: bool = False) -> str:
    """A fact as a sentence; value: another entity's number says what is wrong; inside: to follow "that"."""
    name = ENTITIES[kind][entity][0]
    template = PHRASES[kind][field].sentences[phrasing]
    known = ENTITIES[kind][entity if value is None else value][field + 1]
    if inside and not template.startswith("{S}"):
        template = template[0].lower() + template[1:]
    return template.format(S=name if inside else capital(name), s=name, v=known)


@lru_cache(maxsize=20_000)
def fact(kind: str, entity: int, field: int, other: int) -> Item:
    """A fact about an entity as an item; the wrong sentences have the value of the entity numbered `other`."""
    both = [tuple([say(kind, entity, field, p, value) for p in range(3)]) for value in (entity, other)]
    return Item(*both, PHRASES[kind][field].remarks)


def entity(r, kinds=tuple(ENTITIES)) -> tuple[str, int, str]:
    """A kind, an entity of it, and its name."""
    kind = pick(r, kinds)
    number = int(r() * len(ENTITIES[kind]))
    return kind, number, ENTITIES[kind][number][0]


def plural(kind: str) -> bool:
    """Whether the names of a kind are plurals, such as beavers."""
    return "noun of one" in KINDS[kind]


def facts(r, kind: str, number: int, fields) -> list[Item]:
    count = len(ENTITIES[kind])
    return [fact(kind, number, f, another(r, count, number)) for f in fields]


def sorting(r, n: int) -> Task:
    kind = pick(r, [kind for kind, texts in KINDS.items() if "sorted by" in texts])
    unit = KINDS[kind]["unit"]
    column = FIELDS[kind].index(KINDS[kind]["sorted by"])
    rows = several(r, len(ENTITIES[kind]), n)
    rising = r() < 0.5
    value = {i: ENTITIES[kind][i][column + 1] for i in rows}
    rows_sorted = sorted(rows, key=lambda i: float(value[i].replace(",", "")), reverse=not rising)
    unit_text = f" {unit}" if unit else ""
    items = []
    for i in rows_sorted:
        words = {"Name": capital(ENTITIES[kind][i][0]), "unit": unit_text}
        off = value[rows[another(r, len(rows), rows.index(i))]]
        items.append(worded("sorting", value[i], off, PHRASES[kind][column].remarks, **words))
    listed = join(f"{ENTITIES[kind][i][0]} ({value[i]}{unit_text})" for i in rows)
    order = FAMILY_TEXTS["sorting"]["by number" if unit else "by time"][not rising]
    prompt = ask(r, "sorting", o=order, x=listed, X=capital(listed))
    names = tuple(ENTITIES[kind][i][0] for i in rows_sorted)
    return Task("sorting", prompt, items, names, "lines", "the list", kind, ordered=True)


def formatted(r, n: int) -> Task:
    kind, e, name = entity(r)
    fields = several(r, 8, n)
    items = []
    for f, item in zip(fields, facts(r, kind, e, fields), strict=True):
        label = PHRASES[kind][f].label.upper()
        both = [tuple(f"{label}: {text}" for text in texts) for texts in (item.right, item.wrong)]
        items.append(Item(*both, item.remarks))
    labels = join(PHRASES[kind][f].label.lower() for f in fields)
    prompt = ask(r, "format", s=name, n=SCENES["counting"][n], x=labels)
    answer = tuple(f"{PHRASES[kind][f].label.upper()}:" for f in fields)
    return Task("format", prompt, items, answer, "lines", name, kind, ordered=True)


def classification(r, n: int) -> Task:
    kinds = [tuple(KINDS)[i] for i in several(r, len(KINDS), 3)]
    items, names, seen = [], [], set()
    while len(items) < n:
        kind, e, name = entity(r, kinds)
        if (kind, e) in seen:
            continue
        seen.add((kind, e))
        other = pick(r, [k for k in kinds if k != kind])
        be = "are" if plural(kind) else "is"
        wrong = KINDS[other]["noun of one" if plural(other) and not plural(kind) else "noun"]
        f = several(r, 8, 2)
        notes = (say(kind, e, f[0], 2), say(kind, e, f[1], 2))
        words = {"name": name, "Name": capital(name), "be": be}
        items.append(worded("classification", KINDS[kind]["noun"], wrong, notes, **words))
        names.append(name)
    groups = join(sorted(KINDS[k]["group"] for k in kinds))
    prompt = ask(r, "classification", g=groups, x=capital(join(names)))
    return Task("classification", prompt, items, tuple(i.right[0][:-1] for i in items), "bullets", "the words")


def summary(r, n: int) -> Task:
    kind, e, name = entity(r)
    fields = sorted(several(r, 8, n))
    items = facts(r, kind, e, fields)
    parts = []
    for f, item in zip(fields, items, strict=True):
        parts += [say(kind, e, f, 1), item.remarks[0]] + ([item.remarks[1]] if r() < 0.6 else [])
    prompt = ask(r, "summary", s=name)
    items = [
        Item(i.right[::2], i.wrong[::2], FAMILY_TEXTS["summary"]["remarks"][k % 8 : k % 8 + 2])
        for k, i in enumerate(items, int(r() * 7))
    ]
    answer = tuple(ENTITIES[kind][e][f + 1] for f in fields)
    return Task("summary", prompt, items, answer, "prose", name, kind, passage=" ".join(parts))


def comparison(r, n: int) -> Task:
    kind, e, name = entity(r)
    f2 = another(r, len(ENTITIES[kind]), e)
    other = ENTITIES[kind][f2][0]
    fields, links = several(r, 8, n), FAMILY_TEXTS["comparison"]["links"]
    items = []
    for f in fields:
        both = []
        for a, b in ((e, f2), (f2, e)):
            one, two = say(kind, e, f, 0, a, inside=True)[:-1], say(kind, f2, f, 0, b, inside=True)
            both.append((f"{say(kind, e, f, 0, a)} {links[f % 4]} {two}", f"{PHRASES[kind][f].label}: {one}; {two}"))
        items.append(Item(both[0], both[1], PHRASES[kind][f].remarks))
    labels = join(PHRASES[kind][f].label.lower() for f in fields)
    do = "do" if plural(kind) else "does"
    prompt = ask(r, "comparison", a=name, b=other, A=capital(name), x=labels, do=do)
    answer = tuple(v for f in fields for v in (ENTITIES[kind][e][f + 1], ENTITIES[kind][f2][f + 1]))
    return Task("comparison", prompt, items, answer, "bullets", f"{name} and {other}", kind)


def explanation(r, n: int) -> Task:
    kind, e, name = entity(r)
    fields = sorted(several(r, 8, n)) if r() < 0.6 else several(r, 8, n)
    labels = join(PHRASES[kind][f].label.lower() for f in fields)
    prompt = ask(r, "explanation", s=name, S=capital(name), x=labels)
    answer = tuple(ENTITIES[kind][e][f + 1] for f in fields)
    return Task("explanation", prompt, facts(r, kind, e, fields), answer, "prose", name, kind)


def false_premise(r, n: int) -> Task:
    kind, e, name = entity(r)
    fields = several(r, 8, n)
    f, other = fields[0], another(r, len(ENTITIES[kind]), e)
    claim = say(kind, e, f, 0, other, inside=True)
    items = facts(r, kind, e, fields)
    items[0] = Item(
        (
            f"That is not quite right: {say(kind, e, f, inside=True)}",
            f"There is a mistake in the question. {say(kind, e, f)}",
        ),
        (f"Yes, that is correct: {claim}", f"You are right. {say(kind, e, f, 0, other)}"),
        PHRASES[kind][f].remarks,
    )
    labels = join(PHRASES[kind][k].label.lower() for k in fields[1:])
    prompt = ask(r, "false premise", c=claim, q=claim[:-1], x=labels)
    return Task("false premise", prompt, items, (ENTITIES[kind][e][f + 1],), "prose", name, kind)


def extraction(r, n: int) -> Task:
    opening, slots = pick(r, SCENES["notices"])
    chosen = sorted(several(r, len(slots), n))
    pool, items, answer, sentences = FAMILY_TEXTS["extraction"]["remarks"], [], [], []
    for i, (label, sentence, values) in enumerate(slots):
        v = int(r() * len(values))
        sentences.append(capital(sentence.format(v=values[v])))
        if i in chosen:
            off = values[another(r, len(values), v)]
            notes = tuple(pool[k] for k in several(r, len(pool), 2))
            items.append(Item((f"{label}: {values[v]}",), (f"{label}: {off}",), notes))
            answer.append(f"{label}: {values[v]}")
    kept = [sentence for i, sentence in enumerate(sentences) if i in chosen or r() < 0.6]
    passage = f"{opening}. {' '.join(kept)}"
    labels = join(slots[i][0].lower() for i in chosen)
    prompt = ask(r, "extraction", x=labels)
    return Task("extraction", prompt, items, tuple(answer), "lines", "the text", passage=passage)


def rewriting(r, n: int) -> Task:
    what, lines = pick(r, SCENES["messages"])
    chosen = [lines[i] for i in sorted(several(r, len(lines), n))]
    items = [
        Item((formal,), (wrong,), FAMILY_TEXTS["rewriting"]["remarks"][k % 8 : k % 8 + 2])
        for k, (_, formal, wrong) in enumerate(chosen, int(r() * 7))
    ]
    casual = " ".join(line if line.endswith("?") else line + "." for line, *_ in chosen)
    prompt = ask(r, "rewriting", w=what, x=casual)
    return Task("rewriting", prompt, items, tuple(formal for _, formal, _ in chosen), "letter", what)


FAMILY = {
    "arithmetic": arithmetic,
    "units": units,
    "dates": dates,
    "sorting": sorting,
    "format": formatted,
    "classification": classification,
    "extraction": extraction,
    "summary": summary,
    "rewriting": rewriting,
    "comparison": comparison,
    "planning": planning,
    "explanation": explanation,
    "instructions": instructions,
    "false premise": false_premise,
    "unsafe": unsafe,
}
