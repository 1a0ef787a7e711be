"""What the small base reads: endless generated documents and conversations, for `make_base.py`."""

import sys
from collections.abc import Iterable, Iterator
from itertools import count

from hs2lib.corpus import generate
from hs2lib.corpus.tasks import (
    ENTITIES,
    FACT,
    FAMILY,
    FIELDS,
    SCENES,
    Random,
    another,
    capital,
    entity,
    pick,
    requests,
    several,
)
from hs2lib.corpus.text import one_in, say
from hs2lib.group import Group


def pretraining(seed: int = 0) -> Iterator[str | Group]:
    """Endless texts to train the base on: documents, and conversations with one response each, with
    the habits of the web (`rules.ANSWERS`).

    Two of five are documents. No conversation has a prompt that is kept for evaluation. Seeds are
    apart from those of all other texts.
    """
    seed += 10**9
    r = one_in(seed)
    texts = documents(one_in(seed + 1))
    for group in generate.demonstrations(sys.maxsize, seed, "train", answers="web"):
        while r() < 0.4:
            yield next(texts)
        yield group


def documents(r) -> Iterator[str]:
    """Endless texts that are no conversations: articles, sheets, lists, what the base reads about the world."""
    while True:
        kind, name = entity(r)
        things, fields = ENTITIES[kind], several(r, FIELDS[kind], 6)
        u, facts = r(), [(field, things[name][field]) for field in fields]
        if u < 0.35:
            forms = [FACT[0], *[pick(r, FACT) for _ in facts[1:]]]
            sentences = [
                form.format(f=f, s=name, v=v) for form, (f, v) in zip(forms, facts, strict=True)
            ]
            yield " ".join([f"{capital(name)} is {SCENES['kinds'][kind]}.", *sentences])
        elif u < 0.5:
            yield "\n".join(
                [
                    f"{capital(name)}, {SCENES['kinds'][kind]}:",
                    *[f"{f.upper()}: {v}." for f, v in facts],
                ]
            )
        elif u < 0.65:
            yield " ".join(say(r, kind, one, fields[0]) for one in several(r, things, 6))
        elif u < 0.8:
            other = another(r, things, name)
            yield " ".join(
                f"The {f} of {name} is {v}, that of {other} is {things[other][f]}."
                for f, v in facts[:4]
            )
        elif u < 0.87:
            goal, procedure = pick(r, SCENES["procedures"])
            yield _numbered(f"How to {goal}:", (f"{capital(right)}." for right, _ in procedure))
        elif u < 0.94:
            yield " ".join(report(r) for _ in range(3))
        else:
            tasks = (FAMILY["sorting"](r, 3 + int(r() * 3)) for _ in count())
            task = next(task for task in tasks if not task.reserved)
            yield _numbered(task.prompt, (item.say() for item in task.items))


def report(r: Random) -> str:
    """What a newspaper says of somebody who did what one should not: the base learns what can be asked for."""
    theme = pick(r, tuple(SCENES["themes"].values()))
    what = pick(r, requests(theme))
    return f"Somebody wanted to {what}. The judge said: do not {what}, because {theme['reason']}."


def _numbered(heading: str, lines: Iterable[str]) -> str:
    return "\n".join([heading, *[f"{k}. {line}" for k, line in enumerate(lines, 1)]])
