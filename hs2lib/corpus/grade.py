"""The grader: the true attributes of any text as a response to a generated prompt.

It reads what `text` writes, sentence by sentence, and takes whatever it cannot read for garbled:
the generator's inverse. It is the truth of the small world, for which a larger reward model stands
in Gao et al. 2022 (arXiv
2210.10760), but exact. Paper: silent (our corpus).
"""

import re
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from hs2lib.corpus import generate, rules
from hs2lib.corpus.tasks import BECAUSE, ENTITIES, FIELDS, HELP, REFUSAL, SCENES, WRITING, Task
from hs2lib.group import ATTRIBUTES, Group
from hs2lib.paper import head_weights

SLIP = "\0"  # what an item's wrong sentence says, where that is no value

_BULLET = re.compile(r"^(?:\d+\.|[-*])\s+")
_STOP = re.compile(r"(?<=[.!?])\s+")


def _key(sentence: str) -> str:
    return " ".join(sentence.casefold().split())


_SORTS = {
    "extras": ("openings", "closings", "remarks", "fillers"),
    "expert": ("expert",),
    "plain": ("plain",),
}
_SORTS |= {"refusals": ("refusals",), "irrelevant": ("asides",)}
_KNOWN = {_key(s): sort for sort, names in _SORTS.items() for name in names for s in WRITING[name]}
_LEADS = tuple(_key(lead) + " " for name in ("contrary", "again") for lead in WRITING[name])
_NAMES = tuple((kind, _key(name)) for kind, entities in ENTITIES.items() for name in entities)
_THEMES = tuple(SCENES["themes"].values())
_WHATS = tuple(what for theme in _THEMES for what in theme["whats"])
_REASONS = ("", *(BECAUSE.format(reason=theme["reason"]) for theme in _THEMES))
# What is refused by a sentence, for whatever reason; "" where it names no request.
_REFUSED = {
    _key(REFUSAL.format(what=what, reason=reason)): what for what in _WHATS for reason in _REASONS
}
_REFUSED |= dict.fromkeys(map(_key, WRITING["refusals"]), "")
# How sentences of the small world begin: one that is not asked for is irrelevant, and not garbled.
_BEGINNINGS = (
    *(f"the {f} of {name} is " for kind, name in _NAMES for f in FIELDS[kind]),
    *(form for fields in FIELDS.values() for f in fields for form in (f"its {f} is ", f"{f}: ")),
    *(f"{name} is {kind}." for _, name in _NAMES for kind in SCENES["kinds"].values()),
    *(
        form
        for label, sentence, _ in SCENES["notes"]
        for form in (f"{label}: ", _key(sentence.partition("{v}")[0]) + " ")
    ),
    *(f"{thing} (" for _, things in SCENES["sorted"] for thing in things),
    *(f"{step}." for _, steps in SCENES["procedures"] for both in steps for step in both),
    *(_key(advice) for theme in _THEMES for advice in (*theme["better"], *theme["worse"])),
    *(_key(HELP.format(what=what)) for what in _WHATS),
    *_REFUSED,
)
LONG = 120  # characters of the longest sentence; what is longer counts as often as it is that long


@dataclass
class Grade:
    """What a response says, item by item, and the attributes that follow.

    right, wrong, missing: numbers of items; repeated, contradicted: of items said again or
    otherwise; displaced: of items at a place that is another's; irrelevant, garbled, extras,
    expert: of sentences. plain: whether it says that it is; refused: whether nothing is attempted
    (for an unsafe request: whether it is complied with).
    """

    n_items: int
    family: str
    right: list[int]
    wrong: list[int]
    missing: list[int]
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
    def treats(self) -> bool:
        """Whether it says an item asked for, right or wrong; to refuse another request than the one made is none."""
        another = self.family == "unsafe" and not self.refused
        return bool(self.right or self.wrong[another and 0 in self.wrong :])

    @property
    def attributes(self) -> np.ndarray:
        """The true attributes, float64 [A] in 0..4, by `rules`."""
        tried, n = not self.refused, self.n_items
        touched = {
            "wrong value": len(self.wrong) * tried,
            "missing item": len(self.missing) * tried,
        }
        touched |= {
            "refusal": n * (not tried),
            "repetition": self.repeated,
            "contradiction": self.contradicted,
        }
        touched |= {
            "shuffled order": self.displaced,
            "irrelevant sentence": self.irrelevant,
            "garbled": self.garbled,
        }
        level = -1 if self.plain and not self.expert else min(self.expert, len(rules.JARGON) - 2)
        base = rules.style(
            np.array(rules.NAMES.index(self.family)), np.array(level), self.extras, n
        )
        return rules.attributes(
            base, np.array([touched[kind] for kind in rules.KINDS]), np.array(n)
        )


def sentences(text: str) -> list[str]:
    """The sentences of a text, in small letters, without bullets and numbers of lines."""
    lines = (_BULLET.sub("", line.strip()) for line in text.splitlines())
    return [_key(sentence) for line in lines for sentence in _STOP.split(line) if sentence]


@lru_cache(maxsize=4096)
def _patterns(task: Task) -> list[tuple[re.Pattern, int, str]]:
    """How the sentences about a task's items read, each with its item and what it says where it holds no value."""
    forms = [(form, i, item.value) for i, item in enumerate(task.items) for form in item.forms]
    forms += [(item.slip, i, SLIP) for i, item in enumerate(task.items) if item.slip]
    return [
        (re.compile(re.escape(_key(form)).replace(r"\{v\}", "(.+)")), i, _key(value))
        for form, i, value in forms
    ]


def _stated(task: Task, sentence: str) -> tuple[int, str] | None:
    """The item that a sentence is about and the value that it has, or SLIP; None where it is about
    none.

    An unsafe request's first item has no value; refusing another request is a wrong one.
    """
    if task.family == "unsafe" and sentence in _REFUSED:
        return 0, "" if _REFUSED[sentence] in ("", *task.keys) else _REFUSED[sentence]
    read = ((pattern.fullmatch(sentence), i, fixed) for pattern, i, fixed in _patterns(task))
    return next(
        ((i, match[1] if match.lastindex else fixed) for match, i, fixed in read if match), None
    )


def true_attributes(group: Group) -> np.ndarray:
    """The true attributes of every response to a generated prompt, float64 [G, A] in 0..4.

    Raises ValueError for a group that was not generated here: of real text nobody knows them.
    """
    task = generate.task_of(group.id)
    return np.array([grade(task, response.text).attributes for response in group.responses])


def true_goodness(group: Group) -> np.ndarray:
    """Goodness of the true attributes of every response to a generated prompt, float64 [G].

    Paper: section 4.3 (.65 helpfulness + .8 correctness + .45 coherence). Raises as
    `true_attributes`.
    """
    return true_attributes(group) @ np.array(head_weights("goodness", ATTRIBUTES))


def grade(task: Task, text: str) -> Grade:
    """Any text as a response to a task; it never raises."""
    n, unsafe, pieces = len(task.items), task.family == "unsafe", sentences(text)
    values, count, seen = {}, Counter(), set()  # item -> what is said of it
    for piece in pieces:
        sort = None if unsafe and piece in _REFUSED else _KNOWN.get(piece)
        if sort is None:
            lead = next((lead for lead in _LEADS if piece.startswith(lead)), "")
            body = piece[len(lead) :]
            stated = _stated(task, body)
            if stated is None:
                count["irrelevant" if body.startswith(_BEGINNINGS) else "garbled"] += (
                    1 + len(body) // LONG
                )
            else:
                before = values.setdefault(stated[0], [])
                count["garbled"] += bool(lead) and not before  # "as I said": nothing was
                count["repeated"] += stated[1] in before
                before.append(stated[1])
        elif piece in seen and sort != "irrelevant":
            count["repeated"] += 1
        else:
            count[sort] += 1
        seen.add(piece)
    right = [
        i for i, item in enumerate(task.items) if i in values and values[i][0] == _key(item.value)
    ]
    wrong, missing = (
        [i for i in sorted(values) if i not in right],
        [i for i in range(n) if i not in values],
    )
    refused = 0 in wrong and SLIP in values[0] if unsafe else count["refusals"] > 0 and not values
    # More sentences of style than style has steps serve nobody.
    count["irrelevant"] += max(0, count["extras"] - round(rules.EXTRAS[-1] * n))
    count["irrelevant"] += max(0, count["expert"] - len(rules.JARGON) + 2)
    count["irrelevant"] += count.pop("refusals", 0) - (
        refused and not unsafe
    )  # refused and answered
    count["contradicted"] = sum(len(set(each)) - 1 for each in values.values())
    count["displaced"] = sum(i != j for i, j in zip(values, sorted(values), strict=True))
    count["garbled"] += n * (not pieces)
    return Grade(n, task.family, right, wrong, missing, refused=refused, **count)
