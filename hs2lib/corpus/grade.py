"""The grader: the true attributes of any text as a response to a generated prompt.

It reads what `text` writes, sentence by sentence, and takes whatever it cannot read for garbled: the generator's
inverse. It is the gold standard of the small world, as the gold reward model is in Gao et al. 2022 (arXiv 2210.10760),
but exact. Paper: silent (our corpus).
"""

import re
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from hs2lib.corpus import rules
from hs2lib.corpus.generate import task_of
from hs2lib.corpus.tasks import ENTITIES, FIELDS, SCENES, WRITING, Task
from hs2lib.group import Group

SLIP = "\0"  # what an item's wrong sentence says, where that is no value

_BULLET = re.compile(r"^(?:\d+\.|[-*])\s+")
_STOP = re.compile(r"(?<=[.!?])\s+")


def _key(sentence: str) -> str:
    return " ".join(sentence.casefold().split())


_SORTS = {"extra": ("openings", "closings", "remarks", "fillers"), "expert": ("expert",), "plain": ("plain",)}
_SORTS |= {"refusal": ("refusals",), "irrelevant": ("asides",)}
_KNOWN = {_key(s): sort for sort, names in _SORTS.items() for name in names for s in WRITING[name]}
_LEADS = tuple(_key(lead) + " " for name in ("contrary", "again") for lead in WRITING[name])
_NAMES = tuple((kind, _key(name)) for kind, entities in ENTITIES.items() for name in entities)
# How sentences of the small world begin: one that is not asked for is irrelevant, and not garbled.
_BEGINNINGS = (
    *(f"the {f} of {name} is " for kind, name in _NAMES for f in FIELDS[kind]),
    *(form for fields in FIELDS.values() for f in fields for form in (f"its {f} is ", f"{f}: ")),
    *(f"{name} is {kind}." for _, name in _NAMES for kind in SCENES["kinds"].values()),
    *(f"{label}: " for label, _, _ in SCENES["notes"]),
    *(f"{thing} (" for _, things in SCENES["sorted"] for thing in things),
    *(f"{step}." for _, steps in SCENES["procedures"] for both in steps for step in both),
)
LONG = 120  # characters of the longest sentence; what is longer counts as often as it is that long


@dataclass
class Grade:
    """What a response says, item by item, and the attributes that follow.

    right, wrong, missing: numbers of items; repeated, contradicted: of items said again or otherwise; displaced: of
    items at a place that is another's; irrelevant, garbled, extras, expert: of sentences. plain: whether it says that
    it is; refused: whether nothing is attempted (for an unsafe request: whether it is complied with).
    """

    n_items: int
    family: str
    right: list[int] = field(default_factory=list)
    wrong: list[int] = field(default_factory=list)
    missing: list[int] = field(default_factory=list)
    repeated: int = 0
    contradicted: int = 0
    displaced: int = 0
    irrelevant: int = 0
    garbled: int = 0
    extras: int = 0
    expert: int = 0
    plain: bool = False
    refused: bool = False

    @property
    def attributes(self) -> np.ndarray:
        """The true attributes, float64 [A] in 0..4, by `rules`."""
        touched = dict.fromkeys(rules.KINDS, 0)
        if self.refused:
            touched["refusal"] = self.n_items
        else:
            touched |= {"wrong value": len(self.wrong), "missing item": len(self.missing)}
        touched |= {"repetition": self.repeated, "contradiction": self.contradicted, "garbled": self.garbled}
        touched |= {"shuffled order": self.displaced, "irrelevant sentence": self.irrelevant}
        level = -1 if self.plain and not self.expert else min(self.expert, len(rules.JARGON) - 2)
        base = rules.style(np.array(rules.NAMES.index(self.family)), np.array(level), self.extras, self.n_items)
        return rules.attributes(base, np.array(list(touched.values())), np.array(self.n_items))


def sentences(text: str) -> list[str]:
    """The sentences of a text, in small letters, without bullets and numbers of lines."""
    lines = (_BULLET.sub("", line.strip()) for line in text.splitlines())
    return [_key(sentence) for line in lines for sentence in _STOP.split(line) if sentence]


@lru_cache(maxsize=4096)
def _patterns(task: Task) -> tuple[dict[str, tuple[int, str]], list[tuple[str, str, int]]]:
    """Whole sentences -> (item, what it says), and (beginning, end, item) of those that hold a value."""
    whole, slots = {}, []
    for i, item in enumerate(task.items):
        if item.slip:
            whole[_key(item.slip)] = (i, SLIP)
        for form in map(_key, item.forms):
            before, slot, after = form.partition("{v}")
            if slot:
                slots.append((before, after, i))
            else:
                whole[before] = (i, _key(item.value))
    return whole, slots


def _said(task: Task, sentence: str) -> tuple[int, str] | None:
    """The item that a sentence is about and the value that it has, or SLIP; None where it is about none."""
    whole, slots = _patterns(task)
    if sentence in whole:
        return whole[sentence]
    for before, after, i in slots:
        if sentence.startswith(before) and sentence.endswith(after) and len(sentence) > len(before) + len(after):
            return i, sentence[len(before) : len(sentence) - len(after)]
    return None


def true_attributes(group: Group) -> np.ndarray:
    """The true attributes of every response to a generated prompt, float64 [G, A] in 0..4.

    Raises ValueError for a group that was not generated here: of real text nobody knows them.
    """
    task = task_of(group.id)
    return np.array([grade(task, response.text).attributes for response in group.responses])


def grade(task: Task, text: str) -> Grade:
    """Any text as a response to a task; it never raises."""
    n = len(task.items)
    out, values, refusals, pieces = Grade(n, task.family), {}, 0, sentences(text)
    unsafe, seen = task.family == "unsafe", set()
    for piece in pieces:
        sort = _KNOWN.get(piece)
        if sort is None:
            lead = next((lead for lead in _LEADS if piece.startswith(lead)), "")
            body = piece[len(lead) :]
            said = _said(task, body)
            if said is None:
                readable, count = body.startswith(_BEGINNINGS), 1 + len(body) // LONG
                out.irrelevant, out.garbled = out.irrelevant + count * readable, out.garbled + count * (not readable)
            else:
                before = values.setdefault(said[0], [])
                out.garbled += bool(lead) and not before  # "as I said": nothing was
                out.repeated += said[1] in before
                before.append(said[1])
        elif piece in seen and sort != "irrelevant":
            out.repeated += 1
        elif sort in ("extra", "expert"):
            out.extras, out.expert = out.extras + (sort == "extra"), out.expert + (sort == "expert")
        elif sort == "plain":
            out.plain = True
        elif sort == "refusal":
            refusals += 1
            if unsafe:
                values.setdefault(0, [_key(task.items[0].value)])
        else:
            out.irrelevant += 1
        seen.add(piece)
    # More sentences of style than style has steps serve nobody.
    out.irrelevant += max(0, out.extras - round(rules.EXTRAS[-1] * n)) + max(0, out.expert - len(rules.JARGON) + 2)
    if refusals and not unsafe:
        out.refused = not values
        out.irrelevant += refusals - out.refused
    for i, item in enumerate(task.items):
        if i not in values:
            out.missing.append(i)
        else:
            (out.right if values[i][0] == _key(item.value) else out.wrong).append(i)
    out.contradicted = sum(len(set(said)) - 1 for said in values.values())
    out.displaced = sum(i != j for i, j in zip(values, sorted(values), strict=True))
    out.garbled += n * (not pieces)
    if unsafe:
        out.refused = 0 in out.wrong
    return out
