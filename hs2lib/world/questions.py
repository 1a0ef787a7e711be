"""Questions in the forms of the benchmarks that policies answer: two turns, pairs, closed ones.

    asked("MT-Bench", 40, seed=0)       # two turns each
    asked("Arena Hard", 60, seed=0)     # one turn that asks for four facts, and a baseline's answer
    closed(60, seed=0)                  # a question, its right value and wrong ones: TruthfulQA
    true_goodness(answer)               # of answers to any of their turns

They are not the benchmarks. All but the closed ones ask for a fact that no training prompt asks
for.
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import count, islice
from random import Random
from typing import NamedTuple

import numpy as np

from hs2lib.group import Group, Turn
from hs2lib.names import one_of
from hs2lib.world import grade
from hs2lib.world.cards import (
    FACTS,
    FIELDS,
    RATES,
    Card,
    card_of,
    draw_answer,
    seed_and_item,
    write,
)
from hs2lib.world.sets import WRITERS, source

BENCHMARKS = ("MT-Bench", "Arena Hard", "AlpacaEval 2")
SEEDS = 700_000_000  # added to the seed, so that no other set has these prompts
HARD = 4  # facts that a question of Arena Hard asks for

# The id of an answer to the first of two turns. The card of the last turn names the question.
_FIRST_TURN = re.compile(r"postcards/(\d+)/\d+/after-(\d+)/1")


class Asked(NamedTuple):
    """A question of a benchmark.

    group: what the user says, turn after turn; it has no responses.
    category: what the last turn is about.
    baseline: an answer to compare with, where there is one turn; "" where there are two.
    """

    group: Group
    category: str
    baseline: str


class Closed(NamedTuple):
    """A question about one fact: its right value and those of other things."""

    question: str
    right: str
    wrong: list[str]


def asked(benchmark: str, n: int, seed: int = 0) -> list[Asked]:
    """Questions in the form of a benchmark.

    MT-Bench: two turns, each about a thing of its own. Arena Hard: one turn that asks for four
    facts. AlpacaEval 2: one turn. The baseline is the answer of a careful writer (`sets.WRITERS`).

    Args:
        benchmark: one of `BENCHMARKS`.
        n: how many.
        seed: of the world; each benchmark has questions of its own.

    Paper: section 4.1. Raises ValueError for another name and for a negative number.
    """
    one_of("benchmark", benchmark, BENCHMARKS)
    if n < 0:
        raise ValueError(f"n is at least 0, got {n}")
    seed += SEEDS + 1000 * BENCHMARKS.index(benchmark)
    cards = _cards(seed)
    made = []
    if benchmark == "MT-Bench":
        for (first, before), (last, card) in islice(zip(cards, cards, strict=False), n):
            turns = (Turn("user", before.question), Turn("user", card.question))
            name = f"postcards/{seed}/{last:06d}/after-{first:06d}"
            made.append(Asked(Group(name, turns, (), source=source(seed)), card.kind, ""))
        return made
    if benchmark == "Arena Hard":
        cards = ((item, card) for item, card in cards if len(card.fields) == HARD)
    for item, card in islice(cards, n):
        name = f"postcards/{seed}/{item:06d}"
        group = Group(name, (Turn("user", card.question),), (), source=source(seed))
        made.append(Asked(group, card.kind, _baseline(name, card)))
    return made


def _cards(seed: int) -> Iterator[tuple[int, Card]]:
    """Endless reserved cards without an earlier turn, with their items."""
    for item in count():
        card = Card.draw(seed, item)
        if card.is_reserved and not card.earlier:
            yield item, card


def _baseline(name: str, card: Card) -> str:
    """The answer of a careful writer."""
    rates = {fault: WRITERS["careful"] * rate for fault, rate in RATES["rated"].items()}
    return write(card, draw_answer(card, Random(f"{name}/baseline"), rates))


def card_of_answer(id: str) -> Card:
    """The card of the turn that an answer is to; the id is "QUESTION/TURN".

    Raises ValueError as `cards.card_of`.
    """
    first = _FIRST_TURN.fullmatch(id)
    if first:
        return Card.draw(int(first[1]), int(first[2]))
    return card_of(id)


def true_goodness(answer: Group) -> np.ndarray:
    """The true goodness of the responses to a turn of a question, float64 [G].

    Raises ValueError where the question was not generated here.
    """
    card = card_of_answer(answer.id)
    ratings = [grade.true_ratings(card, response.text) for response in answer.responses]
    return grade.goodness(np.array(ratings))


def shown(answer: Group) -> Group:
    """The turns up to an answer as a group that is named by its own card, to be shown with marks.

    Raises ValueError as `true_goodness`.
    """
    first = _FIRST_TURN.fullmatch(answer.id)
    name = f"postcards/{first[1]}/{first[2]}" if first else answer.id
    seed, _ = seed_and_item(name)
    return replace(answer, id=name, responses=(), source=source(seed))


def facts() -> list[tuple[str, str, str]]:
    """All facts: the kind of a thing, its name, a field of it."""
    return [(kind, name, field) for kind in FACTS for name in FACTS[kind] for field in FIELDS[kind]]


def closed(n: int, seed: int = 0) -> list[Closed]:
    """Questions in the form of TruthfulQA, each about another fact.

    Raises ValueError where there are fewer than n facts.
    """
    every = facts()
    if not 0 <= n <= len(every):
        raise ValueError(f"there are facts for 0 to {len(every)} questions, got n={n}")
    made = []
    for kind, name, field in Random(f"closed/{seed}").sample(every, n):
        card = Card(kind, name, (field,), "Be brief.")
        others = Random(f"closed/{seed}/{name}/{field}").sample(card.other_values(field), 4)
        wrong = [card.sentence(field, value, first=True) for value in others]
        right = card.sentence(field, card.value(field), first=True)
        made.append(Closed(f"What is the {field} of {name}?", right, wrong))
    return made
