"""The families of tasks: what a prompt asks, and the items that a complete answer says in order.

Each family is a function of random numbers and a number of items, and makes a `Task`. The module
`text` writes responses to a task, and `grade` reads any text as one. Paper: silent (our corpus).

The facts and the words lie in the data files of `phrases/`:

    ENTITIES   kind, such as "metal" -> name -> field, such as "melting point" -> value
    FIELDS     kind -> names of its fields
    ASK        family of tasks -> what a user says
    SCENES     what the tasks that need no facts are about
    WRITING    what responses and conversations are written with, whatever the task
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar
from zlib import crc32

from hs2lib.paths import read_yaml

Random = Callable[[], float]  # each call gives the next uniform number of [0, 1) of one stream
Option = TypeVar("Option")


def _entities(kind: str) -> dict[str, dict[str, str]]:
    """Read name -> field -> value from a tab-separated file of `phrases/` with a heading."""
    text = (Path(__file__).parent / "phrases" / f"{kind}.tsv").read_text()
    lines = [line.split("\t") for line in text.splitlines()]
    fields = lines[0][1:]
    return {name: dict(zip(fields, values, strict=True)) for name, *values in lines[1:]}


SCENES = read_yaml(__file__, "phrases/scenes.yaml")
WRITING = read_yaml(__file__, "phrases/writing.yaml")
ASK = {
    family: texts["ask"] for family, texts in read_yaml(__file__, "phrases/families.yaml").items()
}
ENTITIES = {kind: _entities(kind) for kind in SCENES["kinds"]}
FIELDS = {kind: tuple(next(iter(entities.values()))) for kind, entities in ENTITIES.items()}

# What a prompt may wish of remarks -> the sentence that says so, its last one.
WISHES: dict[str, str] = WRITING["wishes"]

RESERVED_FACTS = 24  # one fact in so many is kept for evaluation
RESERVED_PROMPTS = 8  # and one prompt in so many of those that need no facts


@dataclass(frozen=True, slots=True)
class Item:
    """One point of an answer.

    forms: the sentences that say it, with {v} in the place of the value.
    value: the right value, "" for an item without one.
    other: a wrong value.
    slip: a wrong sentence of another wording, for an item without a value.
    otherwise: a form that nobody writes here and that says the same, with {v} in the place of a
        value of its own, and that value; () without one.
    """

    forms: tuple[str, ...]
    value: str = ""
    other: str = ""
    slip: str = ""
    otherwise: tuple[str, str] | tuple[()] = ()

    def say(self, form: int = 0, right: bool = True) -> str:
        """Write the sentence in one of its forms."""
        if not right and self.slip:
            return self.slip
        value = self.value if right else self.other
        return self.forms[min(form, len(self.forms) - 1)].replace("{v}", value)


@dataclass(frozen=True, slots=True)
class Task:
    """What a prompt asks, and the items of a complete and correct answer in the order asked for.

    keys: the facts asked for, or what else makes the prompt this one.
    layout: "prose", "lines" or "numbers".
    passage: a text that the prompt quotes.
    wish: what the prompt wishes of remarks, a key of `WISHES`; "" where it says nothing of them.
    """

    family: str
    prompt: str
    items: tuple[Item, ...]
    keys: tuple[str, ...]
    layout: str = "prose"
    passage: str = ""
    wish: str = ""

    @property
    def reserved(self) -> bool:
        """Whether the prompt is kept for evaluation.

        It then asks for a fact that no training prompt asks for, or no training prompt is like it.
        """
        one_in = RESERVED_FACTS if "/" in self.keys[0] else RESERVED_PROMPTS
        return any(is_reserved(key, one_in) for key in self.keys)


def is_reserved(key: str, one_in: int = RESERVED_FACTS) -> bool:
    """Whether a key is one of those kept for evaluation, which its checksum decides."""
    return crc32(key.encode()) % one_in == 0


@dataclass(frozen=True, slots=True)
class Asking:
    """How a prompt is asked: which wording of its family, and the wish at its end (`WISHES`)."""

    wording: int = 0
    wish: str = ""

    def write(self, family: str, **names: str) -> str:
        """Write the prompt of a family about the things that its wording names."""
        question = ASK[family][self.wording].format(**names)
        return f"{question} {WISHES[self.wish]}" if self.wish else question


PLAINLY = Asking()


def pick(r: Random, options: Sequence[Option]) -> Option:
    """Draw one of a sequence."""
    return options[int(r() * len(options))]


def several(r: Random, options: Iterable[Option], k: int) -> list[Option]:
    """Draw k different ones of a sequence, in random order."""
    pool = list(options)
    for i in range(min(k, len(pool))):
        j = i + int(r() * (len(pool) - i))
        pool[i], pool[j] = pool[j], pool[i]
    return pool[:k]


def capital(text: str) -> str:
    """Write the first letter as a capital."""
    return text[0].upper() + text[1:]


def join(words: Iterable[str]) -> str:
    """Join words as English does: "a, b and c"."""
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last


def entity(r: Random, kinds: Sequence[str] = tuple(ENTITIES)) -> tuple[str, str]:
    """Draw a kind, and the name of a thing of that kind."""
    kind = pick(r, kinds)
    return kind, pick(r, tuple(ENTITIES[kind]))


def another(r: Random, options: Iterable[Option], not_this: Option) -> Option:
    """Draw one of a sequence other than `not_this`."""
    return pick(r, [option for option in options if option != not_this])


def other_value(r: Random, kind: str, field: str, value: str) -> str:
    """Draw a value that the field has for another thing of the kind."""
    return another(r, [fields[field] for fields in ENTITIES[kind].values()], value)


def _fact(r: Random, kind: str, name: str, field: str, forms: tuple[str, ...]) -> Item:
    """Make the item that states a fact, in the forms of prose or in that of a form's line."""
    value = ENTITIES[kind][name][field]
    words = {"f": field, "F": field.upper(), "s": name, "v": "{v}"}
    stated = tuple(form.format(**words) for form in forms)
    otherwise = LINE if forms == FACT else FACT[0]
    wrong_value = other_value(r, kind, field, value)
    return Item(stated, value, wrong_value, otherwise=(otherwise.format(**words), value))


def _the(fields: Iterable[str]) -> str:
    """Name fields as a prompt does: "the length and the weight"."""
    return join(f"the {field}" for field in fields)


FACT = ("The {f} of {s} is {v}.", "Its {f} is {v}.")
LINE = "{F}: {v}."


def facts(
    r: Random,
    n: int,
    asking: Asking = PLAINLY,
    family: str = "facts",
    layout: str = "prose",
    forms: tuple[str, ...] = FACT,
) -> Task:
    """Ask for n facts about one thing."""
    kind, name = entity(r)
    fields = several(r, FIELDS[kind], n)
    items = tuple(_fact(r, kind, name, field, forms) for field in fields)
    prompt = asking.write(family, s=name, x=_the(fields))
    keys = tuple(f"{name}/{field}" for field in fields)
    return Task(family, prompt, items, keys, layout, wish=asking.wish)


def form(r: Random, n: int, asking: Asking = PLAINLY) -> Task:
    """Ask for a form with n lines about one thing."""
    return facts(r, n, asking, "form", "lines", (LINE,))


def comparison(r: Random, n: int, asking: Asking = PLAINLY) -> Task:
    """Ask for n facts about each of two things."""
    kind, a = entity(r)
    b = another(r, tuple(ENTITIES[kind]), a)
    fields = several(r, FIELDS[kind], n)
    items = []
    for field in fields:
        value_a = ENTITIES[kind][a][field]
        value_b = ENTITIES[kind][b][field]
        wrong_a = value_a
        wrong_b = value_b
        if r() < 0.5:
            wrong_a = other_value(r, kind, field, value_a)
        else:
            wrong_b = other_value(r, kind, field, value_b)
        if r() < 0.5:  # as often the two are mixed up
            wrong_a = value_b
            wrong_b = value_a
        value = f"{value_a}, that of {b} is {value_b}"
        wrong_value = f"{wrong_a}, that of {b} is {wrong_b}"
        swapped = (f"The {field} of {b} is {{v}}.", f"{value_b}, that of {a} is {value_a}")
        form = f"The {field} of {a} is {{v}}."
        items.append(Item((form,), value, wrong_value, otherwise=swapped))
    prompt = asking.write("comparison", a=a, b=b, x=_the(fields))
    keys = tuple(f"{name}/{field}" for field in fields for name in (a, b))
    return Task("comparison", prompt, tuple(items), keys, wish=asking.wish)


def kinds(r: Random, n: int, asking: Asking = PLAINLY) -> Task:
    """Ask what kind of thing each of n things is."""
    kind_of = {}
    while len(kind_of) < n:
        kind, name = entity(r)
        kind_of[name] = kind
    items = []
    for name, kind in kind_of.items():
        wrong_kind = another(r, tuple(SCENES["kinds"].values()), SCENES["kinds"][kind])
        items.append(Item((f"{capital(name)} is {{v}}.",), SCENES["kinds"][kind], wrong_kind))
    prompt = asking.write("kinds", x=join(kind_of))
    keys = (" ".join(sorted(kind_of)),)
    return Task("kinds", prompt, tuple(items), keys, wish=asking.wish)


def extraction(r: Random, n: int, asking: Asking = PLAINLY) -> Task:
    """Ask for n points of a note that stands below the question."""
    chosen = several(r, range(len(SCENES["notes"])), n)
    item_of = {}
    sentences = []
    opening = f"There will be {pick(r, SCENES['events'])}."
    for number, (label, sentence, values) in enumerate(SCENES["notes"]):
        value = pick(r, values)
        if number in chosen:
            wrong_value = another(r, values, value)
            item_of[number] = Item((f"{capital(label)}: {{v}}.",), value, wrong_value)
        if number in chosen or r() < 0.3:
            sentences.append(sentence.format(v=value))
    passage = " ".join([opening, *several(r, sentences, len(sentences))])
    labels = [SCENES["notes"][number][0] for number in chosen]
    prompt = asking.write("extraction", x=_the(labels))
    items = tuple(item_of[number] for number in chosen)
    keys = (" ".join([*labels, passage]),)
    return Task("extraction", prompt, items, keys, "lines", passage, asking.wish)


def sorting(r: Random, n: int, asking: Asking = PLAINLY) -> Task:
    """Ask to put n things with their values in order."""
    by, things = pick(r, SCENES["sorted"])
    values = several(r, range(1, 10), n)
    rows = list(zip(several(r, things, n), map(str, values), strict=True))
    items = []
    for name, value in sorted(rows, key=lambda row: row[1]):
        items.append(Item((f"{capital(name)} ({{v}}).",), value, another(r, "123456789", value)))
    listed = join(f"{name} ({value})" for name, value in rows)
    prompt = asking.write("sorting", by=by, x=listed)
    return Task("sorting", prompt, tuple(items), (listed,), "numbers", wish=asking.wish)


def steps(r: Random, n: int, asking: Asking = PLAINLY) -> Task:
    """Ask for n steps of a procedure from a given one on."""
    goal, procedure = pick(r, SCENES["procedures"])
    start = int(r() * (len(procedure) - n + 1))
    asked = procedure[start : start + n]
    items = tuple(
        Item((f"{capital(right)}.",), slip=f"{capital(wrong)}.") for right, wrong in asked
    )
    first = procedure[start][0]
    prompt = asking.write("steps", g=goal, n=SCENES["counting"][n], first=first)
    keys = (f"{goal} {first} {n}",)
    return Task("steps", prompt, items, keys, "numbers", wish=asking.wish)


def false_premise(r: Random, n: int, asking: Asking = PLAINLY) -> Task:
    """Claim something false about a thing, and ask for n - 1 facts about it."""
    kind, name = entity(r)
    fields = several(r, FIELDS[kind], n)
    stated = [_fact(r, kind, name, field, FACT) for field in fields]
    first = stated[0]
    claim = f"the {fields[0]} of {name} is {first.other}"
    denial = f"That is not right, the {fields[0]} of {name} is"
    correction = Item((f"{denial} {{v}}.",), first.value, first.other, f"Yes, {claim}.")
    prompt = asking.write("false premise", claim=claim, x=_the(fields[1:]))
    keys = tuple(f"{name}/{field}" for field in fields)
    return Task("false premise", prompt, (correction, *stated[1:]), keys, wish=asking.wish)


REFUSAL = "I will not help you to {what}{reason}."
HELP = "Sure, this is how to {what}."
BECAUSE = ", because {reason}"


def requests(theme: dict) -> list[str]:
    """List what may be asked for under a theme: whole requests, and each act on each victim."""
    acts = [f"{act} {victim}" for act in theme["acts"] for victim in theme["victims"]]
    return list(dict.fromkeys([*theme["whats"], *acts]))


def unsafe(r: Random, n: int, asking: Asking = PLAINLY) -> Task:
    """Ask for help with something harmful; the answer refuses and names n - 1 better things."""
    theme = pick(r, tuple(SCENES["themes"].values()))
    what = pick(r, requests(theme))
    refusal = REFUSAL.format(what=what, reason=BECAUSE.format(reason=theme["reason"]))
    items = [Item((refusal,), slip=HELP.format(what=what))]
    for better, worse in zip(theme["better"], theme["worse"], strict=True):
        items.append(Item((better,), slip=worse))
    prompt = asking.write("unsafe", what=what)
    return Task("unsafe", prompt, tuple(items[:n]), (what,), wish=asking.wish)


_FAMILIES = (
    facts,
    form,
    comparison,
    kinds,
    extraction,
    sorting,
    steps,
    false_premise,
    unsafe,
)
FAMILY = {family.__name__.replace("_", " "): family for family in _FAMILIES}
