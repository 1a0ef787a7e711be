"""Answers to one prompt that differ in what is known: pairs with one fault, benchmarks' forms.

    pair = one_fault(prompt, "hedge")          # without the fault, then with it; all else is equal
    rewardbench(100, seed=0)                   # pairs in RewardBench's four sections
    questions("RM-Bench", 20, seed=0)          # right and wrong answers in the form of a benchmark

They are not the benchmarks: all prompts are held-out postcards.
"""

import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from random import Random
from typing import NamedTuple

from hs2lib.group import Group, Response
from hs2lib.world import sets
from hs2lib.world.cards import (
    JARGON,
    RATES,
    REFUSAL,
    Answer,
    Card,
    card_of,
    draw_answer,
    faultless,
    write,
)

FAULTS = ("stops", "wrong", "repeats", "aside", "hedge", "unasked", "twice", "tone", "jargon")

SECTIONS = ("chat", "chat-hard", "safety", "reasoning")

# The parts of other benchmarks, and what is wrong with the wrong answers of each: faults, "help"
# with an unsafe request, "refusal" of a harmless one.
PARTS = {
    "RewardBench 2": {
        "Factuality": ("wrong", "stops", "hedge"),
        "Precise IF": ("tone", "tone", "unasked"),
        "Math": ("wrong", "wrong", "wrong"),
        "Safety": ("help", "help", "help"),
        "Focus": ("aside", "unasked", "repeats"),
        "Ties": ("wrong", "stops", "hedge"),
    },
    "RM-Bench": {
        "chat": ("hedge",),
        "math": ("wrong",),
        "code": ("stops",),
        "safety-refuse": ("help",),
        "safety-response": ("refusal",),
    },
    "JudgeBench": {
        "knowledge": ("wrong",),
        "reasoning": ("stops",),
        "math": ("wrong",),
        "coding": ("tone",),
    },
}

RIGHT = ("right",)  # the one label of an answer: 1 or 0


class Question(NamedTuple):
    """A question with all its answers.

    part: its subset, domain or category.
    link: what it shares with the questions that are drawn together with it.
    group: the prompt and the answers.
    """

    part: str
    link: str
    group: Group


def with_fault(card: Card, fault: str, r: Random, answer: Answer) -> Answer:
    """The answer with a fault of `FAULTS` besides; where the card allows none, as it is."""
    rates = dict.fromkeys(RATES["rated"], 0.0) | {fault: 1.0}
    drawn = draw_answer(card, r, rates)
    name = {"tone": "small_talk"}.get(fault, fault)
    return replace(answer, **{name: getattr(drawn, name)})


def one_fault(prompt: Group, fault: str) -> Group | None:
    """A pair of answers, the faultless one and the same with one fault; None where it has none.

    prompt: a generated group; its responses are not read. Raises ValueError as `card_of`.
    """
    card = card_of(prompt.id)
    right = faultless(card)
    wrong = with_fault(card, fault, Random(f"{prompt.id}/{fault}"), right)
    if wrong == right:
        return None
    pair = sets.answered(prompt, [write(card, right), write(card, wrong)])
    return replace(pair, preference=-1.0)


def _prompts(seed: int, unsafe: bool | None = None) -> Iterator[Group]:
    """Endless held-out prompts. unsafe: only such, or only others; None for all."""
    for group in sets.groups(sys.maxsize, seed, split="validation"):
        if unsafe in (None, card_of(group.id).is_unsafe):
            yield group


def rewardbench(n_per_section: int, seed: int = 0) -> list[Group]:
    """Pairs whose better response is known, n_per_section each of four sections.

    chat: a faultless answer and one with three faults.
    chat-hard: a faultless answer and one with a single fault, and with jargon, which raters like.
    safety: half are unsafe requests, refused and helped with; half are harmless ones, answered and
        refused.
    reasoning: a faultless answer and one with a wrong value.

    Paper: section 3 (RewardBench's sections). Which one stands first alternates; the preference is
    negative where the first is better. Ids begin with the section. Raises ValueError for a negative
    number.
    """
    if n_per_section < 0:
        raise ValueError(f"n_per_section is at least 0, got {n_per_section}")
    pairs = []
    for number, section in enumerate(SECTIONS):
        for item, (prompt, texts) in enumerate(islice(_section(section, seed), n_per_section)):
            turned = (item + number) % 2 == 1
            group = sets.answered(prompt, texts[::-1] if turned else texts)
            name = f"{section}/{prompt.id}"
            preference = 1.0 if turned else -1.0
            pairs.append(replace(group, id=name, preference=preference))
    return pairs


def _section(section: str, seed: int) -> Iterator[tuple[Group, list[str]]]:
    """Endless prompts of a section, each with its better and its worse answer."""
    if section == "safety":
        both = zip(_prompts(seed, unsafe=True), _prompts(seed, unsafe=False), strict=False)
        for unsafe, harmless in both:
            card = card_of(unsafe.id)
            yield unsafe, _two(card, replace(faultless(card), wrong=(0, "")))
            answered = write(card_of(harmless.id), faultless(card_of(harmless.id)))
            yield harmless, [answered, REFUSAL]
    for prompt in _prompts(seed, unsafe=False):
        card = card_of(prompt.id)
        r = Random(f"{section}/{prompt.id}")
        worse = faultless(card)
        if section == "chat":
            for fault in r.sample(("repeats", "aside", "hedge", "tone"), 3):
                worse = with_fault(card, fault, r, worse)
        elif section == "chat-hard":
            fault = r.choice(("repeats", "aside", "hedge", "tone", "unasked"))
            worse = replace(with_fault(card, fault, r, worse), jargon=len(JARGON))
        else:
            worse = with_fault(card, "wrong", r, worse)
        yield prompt, _two(card, worse)


def _two(card: Card, worse: Answer) -> list[str]:
    """The texts of the faultless answer and of a worse one."""
    return [write(card, faultless(card)), write(card, worse)]


def questions(benchmark: str, n_per_part: int, seed: int = 0) -> list[Question]:
    """Questions in the form of a benchmark, n_per_part for each of its parts, part after part.

    RewardBench 2: one right answer and three wrong ones; in Ties there are pairs of questions, one
    with one right answer, one with three. RM-Bench: three right and three wrong ones, in three
    styles, with so many sentences of jargon. JudgeBench: a right and a wrong one. An answer is
    right if it has no fault but its style.

    Args:
        benchmark: a key of `PARTS`.
        n_per_part: at least 1.
        seed: of the world.

    Raises ValueError for a number below 1.
    """
    if n_per_part < 1:
        raise ValueError(f"n_per_part is at least 1, got {n_per_part}")
    made = []
    for part, faults in PARTS[benchmark].items():
        unsafe = "help" in faults
        for prompt in islice(_prompts(seed, unsafe=unsafe), n_per_part):
            made += _questions(benchmark, part, faults, prompt)
    return made


def _questions(benchmark: str, part: str, faults: tuple[str, ...], prompt: Group) -> list[Question]:
    """The question of a prompt in the form of a benchmark; in Ties the two of it."""
    card = card_of(prompt.id)
    right = faultless(card)
    r = Random(f"{part}/{prompt.id}")
    wrong: list[Answer | str] = []
    for fault in faults:
        answer = _faulty(card, fault, r)
        for further in ("hedge", "aside"):
            if answer in wrong:  # no two answers are equal
                answer = with_fault(card, further, r, answer)
        wrong.append(answer)
    if benchmark == "RM-Bench":
        right_texts = [_styled(card, right, style) for style in range(3)]
        wrong_texts = [_styled(card, wrong[0], style) for style in range(3)]
        return [_question(part, prompt, "", right_texts, wrong_texts)]
    wrong_texts = [_styled(card, answer, 0) for answer in wrong]
    if part == "Ties":
        right_texts = [_styled(card, right, style) for style in range(3)]
        ref = _question(part, prompt, "ref", right_texts[:1], wrong_texts)
        return [ref, _question(part, prompt, "tied", right_texts, wrong_texts)]
    question = _question(part, prompt, "", [write(card, right)], wrong_texts)
    if benchmark == "JudgeBench" and r.random() < 0.5:
        turned = replace(question.group, responses=question.group.responses[::-1])
        question = question._replace(group=turned)
    return [question]


def _faulty(card: Card, fault: str, r: Random) -> Answer | str:
    """An answer with a fault, or the text of a refusal."""
    if fault == "refusal":
        return REFUSAL
    if fault == "help":
        return replace(faultless(card), wrong=(0, ""))
    return with_fault(card, fault, r, faultless(card))


def _styled(card: Card, answer: Answer | str, style: int) -> str:
    """The text of an answer in a style: with so many sentences of jargon."""
    if isinstance(answer, str):
        return " ".join([answer, *JARGON[:style]])
    return write(card, replace(answer, jargon=style))


def _question(part: str, prompt: Group, kind: str, right: list[str], wrong: list[str]) -> Question:
    """A prompt with right and wrong answers."""
    name = f"{prompt.id}/{part}/{kind}".rstrip("/")
    responses = []
    for label, texts in ((1.0, right), (0.0, wrong)):
        for text in texts:
            responses.append(Response(f"{name}/{len(responses)}", text, (label,)))
    group = Group(name, prompt.prompt, tuple(responses), RIGHT, source=prompt.source)
    return Question(part, prompt.id, group)
