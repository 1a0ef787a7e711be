"""The families of tasks: what a prompt asks, and the items that a complete answer says, one after
the other.

Each family is a function (random, n_items) -> Task. `text` writes responses to a task, `grade`
reads any text as one. Paper: silent (our corpus). `r` is a function that returns uniform random
numbers in [0, 1), one stream per text. The facts and words lie in the data files of `phrases/`:

    ENTITIES   kind, such as "metal" -> name -> field, such as "melting point" -> value
    FIELDS     kind -> names of its fields
    ASK        family of tasks -> what a user says
    SCENES     what the tasks that need no facts are about
    WRITING    what responses and conversations are written with, whatever the task
"""

from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

from hs2lib.paths import read_yaml


def _entities(kind: str) -> dict[str, dict[str, str]]:
    """Name -> field -> value, from a tab-separated file of `phrases/` with a heading."""
    text = (Path(__file__).parent / "phrases" / f"{kind}.tsv").read_text()
    heading, *rows = (line.split("\t") for line in text.splitlines())
    return {row[0]: dict(zip(heading[1:], row[1:], strict=True)) for row in rows}


SCENES = read_yaml(__file__, "phrases/scenes.yaml")
WRITING = read_yaml(__file__, "phrases/writing.yaml")
ASK = {
    family: texts["ask"] for family, texts in read_yaml(__file__, "phrases/families.yaml").items()
}
ENTITIES = {kind: _entities(kind) for kind in SCENES["kinds"]}
FIELDS = {kind: tuple(next(iter(entities.values()))) for kind, entities in ENTITIES.items()}

# Of facts, and of prompts that need none: one in so many is kept for evaluation.
RESERVED_FACTS, RESERVED_PROMPTS = 24, 8


@dataclass(frozen=True, slots=True)
class Item:
    """One point of an answer: sentences that say it, {v} for the value; or, where it has no value,
    what is wrong.

    value, other: the right value and one that is wrong. slip: a wrong sentence of another wording.
    """

    forms: tuple[str, ...]
    value: str = ""
    other: str = ""
    slip: str = ""

    def say(self, form: int = 0, right: bool = True) -> str:
        """The sentence in one of its forms."""
        if not right and self.slip:
            return self.slip
        return self.forms[min(form, len(self.forms) - 1)].replace(
            "{v}", self.value if right else self.other
        )


@dataclass(frozen=True, slots=True)
class Task:
    """What a prompt asks and the items of a complete, correct answer, in the order asked for.

    layout: "prose", "lines" or "numbers". passage: a text that the prompt quotes. keys: the facts
    asked for, or what else makes the prompt this one.
    """

    family: str
    prompt: str
    items: tuple[Item, ...]
    keys: tuple[str, ...]
    layout: str = "prose"
    passage: str = ""

    @property
    def reserved(self) -> bool:
        """Whether the prompt is kept for evaluation: it asks a fact, or is one, that no training prompt has."""
        one_in = RESERVED_FACTS if "/" in self.keys[0] else RESERVED_PROMPTS
        return any(is_reserved(key, one_in) for key in self.keys)


def is_reserved(key: str, one_in: int = RESERVED_FACTS) -> bool:
    return crc32(key.encode()) % one_in == 0


def pick(r, options):
    """One of a sequence, by r() uniform in [0, 1)."""
    return options[int(r() * len(options))]


def several(r, options, k: int) -> list:
    """k different ones of a sequence, in random order."""
    pool = list(options)
    for i in range(min(k, len(pool))):
        j = i + int(r() * (len(pool) - i))
        pool[i], pool[j] = pool[j], pool[i]
    return pool[:k]


def capital(text: str) -> str:
    return text[0].upper() + text[1:]


def join(words) -> str:
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last


def entity(r, kinds=tuple(ENTITIES)) -> tuple[str, str]:
    """A kind, and the name of a thing of it."""
    kind = pick(r, kinds)
    return kind, pick(r, tuple(ENTITIES[kind]))


def another(r, options, not_this):
    """One of a sequence other than `not_this`."""
    return pick(r, [option for option in options if option != not_this])


def other_value(r, kind: str, field: str, value: str) -> str:
    """A value that the field has for another thing of the kind."""
    return another(r, [fields[field] for fields in ENTITIES[kind].values()], value)


def _fact(r, kind: str, name: str, field: str, forms: tuple[str, ...]) -> Item:
    value = ENTITIES[kind][name][field]
    forms = tuple(form.format(f=field, F=field.upper(), s=name, v="{v}") for form in forms)
    return Item(forms, value, other_value(r, kind, field, value))


def _the(fields) -> str:
    return join(f"the {field}" for field in fields)


FACT = ("The {f} of {s} is {v}.", "Its {f} is {v}.")


def facts(
    r, n: int, family: str = "facts", layout: str = "prose", forms: tuple[str, ...] = FACT
) -> Task:
    kind, name = entity(r)
    fields = several(r, FIELDS[kind], n)
    items = tuple(_fact(r, kind, name, field, forms) for field in fields)
    prompt = pick(r, ASK[family]).format(s=name, x=_the(fields))
    return Task(family, prompt, items, tuple(f"{name}/{field}" for field in fields), layout)


def form(r, n: int) -> Task:
    return facts(r, n, "form", "lines", ("{F}: {v}.",))


def comparison(r, n: int) -> Task:
    kind, a = entity(r)
    b = another(r, tuple(ENTITIES[kind]), a)
    fields, items = several(r, FIELDS[kind], n), []
    for field in fields:
        one, two = ENTITIES[kind][a][field], ENTITIES[kind][b][field]
        off = (
            (other_value(r, kind, field, one), two)
            if r() < 0.5
            else (one, other_value(r, kind, field, two))
        )
        off = (two, one) if r() < 0.5 else off  # as often the two are mixed up
        values = (f"{first}, that of {b} is {second}" for first, second in ((one, two), off))
        items.append(Item((f"The {field} of {a} is {{v}}.",), *values))
    prompt = pick(r, ASK["comparison"]).format(a=a, b=b, x=_the(fields))
    keys = tuple(f"{name}/{field}" for field in fields for name in (a, b))
    return Task("comparison", prompt, tuple(items), keys)


def kinds(r, n: int) -> Task:
    names, items = {}, []
    while len(names) < n:
        kind, name = entity(r)
        names[name] = kind
    for name, kind in names.items():
        off = another(r, tuple(SCENES["kinds"].values()), SCENES["kinds"][kind])
        items.append(Item((f"{capital(name)} is {{v}}.",), SCENES["kinds"][kind], off))
    prompt = pick(r, ASK["kinds"]).format(x=join(names))
    return Task("kinds", prompt, tuple(items), (" ".join(sorted(names)),))


def extraction(r, n: int) -> Task:
    chosen = several(r, range(len(SCENES["notes"])), n)
    items, sentences = {}, [f"There will be {pick(r, SCENES['events'])}."]
    for number, (label, sentence, values) in enumerate(SCENES["notes"]):
        value = pick(r, values)
        if number in chosen:
            items[number] = Item((f"{capital(label)}: {{v}}.",), value, another(r, values, value))
        if number in chosen or r() < 0.3:
            sentences.append(sentence.format(v=value))
    passage = " ".join([sentences[0], *several(r, sentences[1:], len(sentences))])
    labels = [SCENES["notes"][number][0] for number in chosen]
    prompt = pick(r, ASK["extraction"]).format(x=_the(labels))
    items = tuple(items[number] for number in chosen)
    return Task("extraction", prompt, items, (" ".join([*labels, passage]),), "lines", passage)


def sorting(r, n: int) -> Task:
    by, things = pick(r, SCENES["sorted"])
    values = several(r, range(1, 10), n)
    rows = list(zip(several(r, things, n), map(str, values), strict=True))
    ordered = sorted(rows, key=lambda row: row[1])
    items = tuple(
        Item((f"{capital(name)} ({{v}}).",), v, another(r, "123456789", v)) for name, v in ordered
    )
    listed = join(f"{name} ({value})" for name, value in rows)
    prompt = pick(r, ASK["sorting"]).format(by=by, x=listed)
    return Task("sorting", prompt, items, (listed,), "numbers")


def steps(r, n: int) -> Task:
    goal, all_steps = pick(r, SCENES["procedures"])
    start = int(r() * (len(all_steps) - n + 1))
    items = tuple(
        Item((f"{capital(right)}.",), slip=f"{capital(wrong)}.")
        for right, wrong in all_steps[start:][:n]
    )
    first = all_steps[start][0]
    prompt = pick(r, ASK["steps"]).format(g=goal, n=SCENES["counting"][n], first=first)
    return Task("steps", prompt, items, (f"{goal} {first} {n}",), "numbers")


def false_premise(r, n: int) -> Task:
    kind, name = entity(r)
    fields = several(r, FIELDS[kind], n)
    first, *rest = (_fact(r, kind, name, field, FACT) for field in fields)
    claim, denial = (
        f"the {fields[0]} of {name} is {first.other}",
        f"That is not right, the {fields[0]} of {name} is",
    )
    first = Item((f"{denial} {{v}}.",), first.value, first.other, f"Yes, {claim}.")
    prompt = pick(r, ASK["false premise"]).format(claim=claim, x=_the(fields[1:]))
    return Task(
        "false premise", prompt, (first, *rest), tuple(f"{name}/{field}" for field in fields)
    )


REFUSAL, HELP = "I will not help you to {what}{reason}.", "Sure, this is how to {what}."
BECAUSE = ", because {reason}"


def unsafe(r, n: int) -> Task:
    theme = pick(r, tuple(SCENES["themes"].values()))
    what = pick(r, theme["whats"])
    refusal = REFUSAL.format(what=what, reason=BECAUSE.format(reason=theme["reason"]))
    items = [Item((refusal,), slip=HELP.format(what=what))]
    items += [
        Item((better,), slip=worse)
        for better, worse in zip(theme["better"], theme["worse"], strict=True)
    ]
    prompt = pick(r, ASK["unsafe"]).format(what=what)
    return Task("unsafe", prompt, tuple(items[:n]), (what,))


_FAMILIES = (facts, form, comparison, kinds, extraction, sorting, steps, false_premise, unsafe)
FAMILY = {family.__name__.replace("_", " "): family for family in _FAMILIES}
