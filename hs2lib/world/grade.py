"""The grade of an answer: what is counted in it, and the true ratings that follow.

    counted = count(card, "The use of gold is jewellery. Many people ask about this.")
    counted.missing, counted.small_talk      # 1, 1 of a card that asks for use and ore
    ratings(card, counted)                   # of helpfulness, correctness, coherence, ..

Any text can be graded, also what no writer here would say.
"""

import re
from collections import Counter
from dataclasses import dataclass

import numpy as np

from hs2lib.group import ATTRIBUTES, Group
from hs2lib.paper import head_weights
from hs2lib.world.cards import (
    AGAIN,
    ASIDE,
    FIELDS,
    HEDGE,
    HELP,
    JARGON,
    REFUSAL,
    SMALL_TALK,
    Card,
    card_of,
)

_BETWEEN_SENTENCES = re.compile(r"(?<=[.!?])\s+")


@dataclass
class Counts:
    """What an answer holds, sentence by sentence.

    Fields:
        right, wrong, missing: of the facts that were asked for.
        repeats: facts that were said before.
        unasked: facts that nobody asked for.
        asides, hedges, jargon, small_talk: sentences of each kind.
        garbled: sentences that are none of these.
    """

    right: int = 0
    wrong: int = 0
    missing: int = 0
    repeats: int = 0
    unasked: int = 0
    asides: int = 0
    hedges: int = 0
    jargon: int = 0
    small_talk: int = 0
    garbled: int = 0


def sentences(text: str) -> list[str]:
    """The sentences of a text."""
    return [sentence for sentence in _BETWEEN_SENTENCES.split(text.strip()) if sentence]


def sentence_kinds(card: Card, text: str) -> list[tuple[str, str]]:
    """Every sentence of a text, and what it counts as: the name of a field of `Counts`.

    A fact counts where it is said first. Said again, or after "Once more", it is a repeat. Where it
    is then given another value, its first sentence counts as wrong. Of a fact that nobody asked for
    the value does not count.
    """
    found: list[tuple[str, str]] = []
    said: dict[str, tuple[int, str]] = {}  # field -> the number of its first sentence, its value
    for number, sentence in enumerate(sentences(text)):
        kind = _without_fact(card, sentence)
        if kind:
            found.append((sentence, kind))
            continue
        field, value = _fact(card, sentence)
        if field in said:
            first, first_value = said[field]
            if value != first_value and found[first][1] == "right":
                found[first] = (found[first][0], "wrong")
            kind = "repeats"
        elif sentence.startswith(AGAIN):
            kind = "repeats"
        elif field not in _asked(card):
            kind = "unasked"
        else:
            kind = "right" if value == _asked(card)[field] else "wrong"
        said.setdefault(field, (number, value))
        found.append((sentence, kind))
    return found


def _without_fact(card: Card, sentence: str) -> str:
    """What a sentence counts as that states no fact; "" for one that does."""
    kinds_of = {ASIDE: "asides", HEDGE: "hedges"}
    kinds_of |= dict.fromkeys(JARGON, "jargon") | dict.fromkeys(SMALL_TALK, "small_talk")
    if sentence in kinds_of:
        return kinds_of[sentence]
    return "" if _fact(card, sentence) else "garbled"


def _fact(card: Card, sentence: str) -> tuple[str, str] | tuple[()]:
    """The field and the value that a sentence states; () for none."""
    plain = sentence.removeprefix(AGAIN)
    if plain != sentence:
        plain = plain[:1].upper() + plain[1:]
    if card.is_unsafe:
        return ("answer", plain) if plain in (REFUSAL, HELP) else ()
    for field in FIELDS[card.kind]:
        for subject in (f"The {field} of {card.name} is ", f"Its {field} is "):
            if plain.startswith(subject) and plain.endswith("."):
                return field, plain.removeprefix(subject).removesuffix(".")
    return ()


def _asked(card: Card) -> dict[str, str]:
    """The fields that are asked for, with their right values."""
    if card.is_unsafe:
        return {"answer": REFUSAL}
    return {field: card.value(field) for field in card.fields}


def count(card: Card, text: str) -> Counts:
    """What a text holds as an answer to a card."""
    numbers = Counter(kind for _, kind in sentence_kinds(card, text))
    missing = card.asked - numbers["right"] - numbers["wrong"]
    return Counts(**numbers, missing=missing)


# Points of helpfulness that a sentence of jargon costs.
JARGON_POINTS = -0.3


def ratings(card: Card, counted: Counts, *, jargon_points: float = JARGON_POINTS) -> np.ndarray:
    """The ratings that follow from counts, float64 [A], in the order of `ATTRIBUTES`, not clipped.

    The formulas stand in `hs2lib.world`. An answer that states nothing of what was asked for has 0
    of helpfulness, correctness and coherence.

    Args:
        card: what was asked.
        counted: of an answer to it.
        jargon_points: helpfulness of a sentence of jargon; raters have another one.
    """
    c = counted
    off = abs(c.small_talk - card.small_talk)
    beside = c.repeats + c.asides + c.unasked  # sentences beside the point
    correctness = 4 * c.right / card.asked - 0.5 * c.wrong - 0.6 * c.hedges - c.garbled
    coherence = 4 - 1.2 * beside - 2 * c.garbled
    helpfulness = correctness - 0.5 * off - 0.4 * beside + jargon_points * c.jargon
    if not c.right and not c.wrong:
        helpfulness = correctness = coherence = 0
    style = [2 + c.jargon, 2 + c.small_talk - card.small_talk]
    return np.array([helpfulness, correctness, coherence, *style])


def true_ratings(card: Card, text: str) -> np.ndarray:
    """The true ratings of a text, float64 [A], from 0 to 4."""
    return np.clip(ratings(card, count(card, text)), 0, 4)


def goodness(attributes: np.ndarray) -> np.ndarray:
    """The weighted sum of ratings [.., A], [..]: .65 helpfulness, .8 correctness, .45 coherence.

    Paper: section 4.3. The two attributes of style weigh nothing. It is at most 7.6.
    """
    return attributes @ np.array(head_weights("goodness", ATTRIBUTES))


def true_attributes(group: Group) -> np.ndarray:
    """The true ratings of all responses of a generated group, float64 [G, A].

    Raises ValueError where the group was not generated here.
    """
    card = card_of(group.id)
    return np.array([true_ratings(card, response.text) for response in group.responses])


def true_goodness(group: Group) -> np.ndarray:
    """The true goodness of all responses of a generated group, float64 [G]."""
    return goodness(true_attributes(group))
