"""The sets of the paper as postcards: rated pairs of responses, and demonstrations.

    list(groups(1000, seed=0))             # rated, as HelpSteer2 is
    list(demonstrations(1000, seed=0))     # one answer each, as Daring-Anteater has them
    annotations(groups)                    # one row for each rating, with its rater

Groups are made lazily. Item i depends on (seed, i) alone.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import count, islice
from random import Random

import numpy as np
import pandas as pd

from hs2lib.group import ATTRIBUTES, Group, Response, Turn
from hs2lib.names import SPLITS, one_of
from hs2lib.stats import aggregate
from hs2lib.world import grade, raters
from hs2lib.world.cards import (
    RATES,
    Card,
    card_of,
    draw_answer,
    seed_and_item,
    write,
)

GENERATED = "postcards (generated)"
STAGES = ("initial", "annotated", "released")
DEMONSTRATIONS = 500_000_000  # added to the seed, so that demonstrations have prompts of their own
BLOCK = 256  # items that are rated at a time

# Two of these answer each rated prompt. The rates of their faults are multiplied by this factor.
WRITERS = {"careful": 0.7, "usual": 1.0, "hasty": 1.3}


def source(seed: int) -> str:
    """The source of the groups of a seed."""
    return f"{GENERATED}, seed {seed}"


def is_generated(groups: Iterable[Group]) -> bool:
    """Whether all groups were made here, so that the truth about them is known."""
    return all(group.source.startswith(GENERATED) for group in groups)


def prompt(card: Card) -> tuple[Turn, ...]:
    """The turns of a card, of which the last is the question."""
    roles = ("user", "assistant") * 2
    texts = (*card.earlier, card.question)
    return tuple(Turn(role, text) for role, text in zip(roles, texts, strict=False))


def _wanted(split: str) -> tuple[bool, ...]:
    """Whether cards of a split are reserved ones."""
    one_of("split", split, SPLITS)
    return {"train": (False,), "validation": (True,), "both": (False, True)}[split]


def writers(seed: int, item: int) -> list[str]:
    """Who answered a rated prompt: two different ones of `WRITERS`."""
    return Random(f"writers/{seed}/{item}").sample(list(WRITERS), 2)


def groups(
    n_prompts: int, seed: int = 0, stage: str = "released", split: str = "both", start: int = 0
) -> Iterator[Group]:
    """Rated groups: a prompt, two responses, their ratings and labels.

    Args:
        n_prompts: how many groups. At stage "released" more cards are drawn, for some are filtered.
        seed: of the world.
        stage: "initial": three ratings each from a first round with larger errors (Table 1, column
            1). "annotated": everything that was rated, by three or five people. "released": what
            the final filter leaves, with the three ratings that agree most (Table 1, column 3).
        split: "train", "validation" (prompts that ask for a fact that no training prompt asks for)
            or "both".
        start: number of the first item.

    Paper: section 2.1. Raises ValueError for another name and for negative numbers.
    """
    one_of("stage", stage, STAGES)
    wanted = _wanted(split)
    if n_prompts < 0 or start < 0:
        raise ValueError(f"n_prompts and start are at least 0, got {n_prompts} and {start}")
    return islice(_rated(seed, stage, wanted, start), n_prompts)


def _rated(seed: int, stage: str, wanted: tuple[bool, ...], start: int) -> Iterator[Group]:
    numbers = (item for item in count(start) if Card.draw(seed, item).is_reserved in wanted)
    while True:
        items = list(islice(numbers, BLOCK))
        written = [_written(seed, item) for item in items]
        yield from _labelled(seed, stage, items, written)


def _written(seed: int, item: int) -> Group:
    """The prompt of an item with two responses, unrated."""
    name = f"postcards/{seed}/{item:06d}"
    card = Card.draw(seed, item)
    responses = []
    for letter, writer in zip("ab", writers(seed, item), strict=True):
        rates = {fault: WRITERS[writer] * rate for fault, rate in RATES["rated"].items()}
        text = write(card, draw_answer(card, Random(f"{name}/{letter}"), rates))
        responses.append(Response(f"{name}/{letter}", text))
    return Group(name, prompt(card), tuple(responses), ATTRIBUTES, source=source(seed))


def expected_ratings(group: Group) -> np.ndarray:
    """What a rater without an error says of the responses of a group, float64 [G, A]."""
    card = card_of(group.id)
    rows = []
    for response in group.responses:
        counted = grade.count(card, response.text)
        rows.append(grade.ratings(card, counted, jargon_points=raters.LIKING))
    return np.array(rows)


def _labelled(seed: int, stage: str, items: list[int], written: list[Group]) -> Iterator[Group]:
    """The groups with ratings and labels, without those that the stage's filter removes."""
    numbers = np.array(items)
    right = np.concatenate([expected_ratings(group) for group in written])  # [2B, A]
    is_initial = stage == "initial"
    scores, _ = raters.rate(seed, numbers, right, initial=is_initial)  # [2B, 5, A]
    scores = aggregate.recruit(scores, upto=3 if is_initial else 5)
    scores[raters.lost(seed, numbers), 3:] = np.nan
    keep = aggregate.keep_three(scores)  # [2B, N]
    survives = aggregate.released(scores, keep, np.repeat(numbers, 2))  # [2B]
    labels = aggregate.aggregate(scores, keep)  # [2B, A]
    present = keep if stage == "released" else ~np.isnan(scores[:, :, 0])  # [2B, N]
    for b, group in enumerate(written):
        if stage == "released" and not survives[2 * b]:
            continue
        responses = []
        for row, response in zip((2 * b, 2 * b + 1), group.responses, strict=True):
            ratings = tuple(map(tuple, scores[row][present[row]].tolist()))
            responses.append(replace(response, labels=tuple(labels[row].tolist()), ratings=ratings))
        yield replace(group, responses=tuple(responses))


def annotations(groups: Iterable[Group], *, initial: bool = False) -> pd.DataFrame:
    """One row for each rating that was asked for: prompt, response, annotator, the five attributes.

    Paper: section 2.1. groups: of `groups`, of any stage.
    """
    frames = []
    for group in groups:
        seed, item = seed_and_item(group.id)
        numbers = np.array([item])
        scores, who = raters.rate(seed, numbers, expected_ratings(group), initial=initial)
        asked = aggregate.recruit(scores, upto=3 if initial else 5)
        asked[raters.lost(seed, numbers), 3:] = np.nan
        for k, response in enumerate(group.responses):
            frame = pd.DataFrame(asked[k], columns=ATTRIBUTES)
            frame.insert(0, "annotator", [raters.RATERS[number] for number in who[k]][: len(frame)])
            frame.insert(0, "response", response.id)
            frame.insert(0, "prompt", group.id)
            frames.append(frame.dropna())
    if not frames:
        return pd.DataFrame(columns=["prompt", "response", "annotator", *ATTRIBUTES])
    return pd.concat(frames, ignore_index=True)


def demonstrations(
    n_prompts: int,
    seed: int = 0,
    split: str = "both",
    answers: str = "demonstrations",
    start: int = 0,
) -> Iterator[Group]:
    """Groups of one response without ratings: what people wrote, with their habits.

    Args:
        n_prompts, seed, split, start: as of `groups`, whose prompts are other ones.
        answers: who wrote them, a key of `RATES`.

    Paper: section 4.2 (its demonstrations are Daring-Anteater). Raises ValueError as `groups`.
    """
    one_of("answers", answers, tuple(RATES))
    wanted = _wanted(split)
    if n_prompts < 0 or start < 0:
        raise ValueError(f"n_prompts and start are at least 0, got {n_prompts} and {start}")
    return islice(_demonstrated(seed + DEMONSTRATIONS, answers, wanted, start), n_prompts)


def _demonstrated(seed: int, answers: str, wanted: tuple[bool, ...], start: int) -> Iterator[Group]:
    for item in count(start):
        card = Card.draw(seed, item)
        if card.is_reserved not in wanted:
            continue
        name = f"postcards/{seed}/{item:06d}"
        text = write(card, draw_answer(card, Random(f"{name}/{answers}"), RATES[answers]))
        response = Response(f"{name}/{answers}", text)
        yield Group(name, prompt(card), (response,), source=source(seed))


def answered(group: Group, texts: Sequence[str]) -> Group:
    """A generated prompt with these responses, unrated."""
    responses = [Response(f"{group.id}/{i}", text) for i, text in enumerate(texts)]
    return replace(group, responses=tuple(responses), preference=None, preferences=())


def prompt_of(id: str) -> Group:
    """The prompt behind the id of a generated group, without responses."""
    seed, _ = seed_and_item(id)
    return Group(id, prompt(card_of(id)), (), ATTRIBUTES, source=source(seed))
