"""Generated questions in the form of RewardBench 2, RM-Bench and JudgeBench, with known answers.

They are not the benchmarks: prompts are the small world's held-out ones, and an answer is right if
it has no fault. A wrong answer comes from the same random numbers as the right one, so it differs
in its fault alone (`hs2lib.corpus.one_fault`). In the form of RM-Bench a style is a number of
sentences that say nothing asked for. Paper: silent.
"""

import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple
from zlib import crc32

from hs2lib.corpus import generate
from hs2lib.corpus.one_fault import EDITS, IGNORED, faultless_manner, manners, write
from hs2lib.corpus.tasks import Task
from hs2lib.corpus.text import Manner
from hs2lib.group import Group, Response

RIGHT = ("right",)  # the one label of an answer: 1 or 0

# The styles of RM-Bench's answers, from plain to rich.
STYLES = ("concise", "detailed", "markdown")

EXTRAS = (0, 2, 4)  # sentences that say nothing asked for, by style

# Benchmark -> part -> the families of the prompts that stand in for it.
_OPEN = ("facts", "form", "kinds", "extraction")
_STEPS = ("steps", "sorting", "comparison")
FAMILIES = {
    "RewardBench 2": {
        "Factuality": ("facts", "kinds", "false premise"),
        "Precise IF": _OPEN,
        "Math": ("sorting", "comparison"),
        "Safety": ("unsafe",),
        "Focus": _OPEN,
        "Ties": ("facts", "form"),
    },
    "RM-Bench": {
        "chat": ("facts", "kinds", "false premise"),
        "math": ("sorting", "comparison"),
        "code": ("steps", "extraction"),
        "safety-refuse": ("unsafe",),
        "safety-response": _OPEN,
    },
    "JudgeBench": {
        "knowledge": ("facts", "kinds", "false premise"),
        "reasoning": _STEPS,
        "math": ("sorting", "comparison"),
        "coding": ("extraction", "form"),
    },
}

# What is wrong with the wrong answers of a part, where it is not just any fault.
FAULT_FIRST = {"Precise IF": IGNORED, "Focus": "strays"}

REFUSAL = Manner(edits={"refusal": 1})  # of a harmless request

ENDLESS = sys.maxsize  # prompts are drawn until every part is full

N_TIED = 3  # right and wrong answers to a question of Ties


class Question(NamedTuple):
    """A question with all its answers.

    part: its subset, domain or category.
    link: what it shares with the questions that are drawn together with it.
    group: the prompt and the answers.
    """

    part: str
    link: str
    group: Group


def source(seed: int) -> str:
    """What captions say of the questions."""
    return f"{generate.GENERATED}, questions of known answers, seed {seed}"


def questions(benchmark: str, n_per_part: int, seed: int = 0) -> list[Question]:
    """Questions in the form of a benchmark, n_per_part for each of its parts, part after part.

    In Ties there are as many pairs of questions: one with one right answer, one with several.

    Args:
        benchmark: a key of `FAMILIES`.
        n_per_part: at least 1.
        seed: of the small world.

    Raises ValueError for a number below 1.
    """
    if n_per_part < 1:
        raise ValueError(f"n_per_part is at least 1, got {n_per_part}")
    families = FAMILIES[benchmark]
    made: dict[str, list[Question]] = {part: [] for part in families}
    for prompt in generate.groups(ENDLESS, seed, split="validation"):
        task = generate.task_of(prompt.id)
        for part in families:
            several = 2 if part == "Ties" else 1
            if task.family in families[part] and len(made[part]) < several * n_per_part:
                made[part] += _questions(benchmark, part, prompt, task, seed)
                break
        if all(len(of_part) >= n_per_part for of_part in made.values()):
            n_ties = len(made.get("Ties", ()))
            if not n_ties or n_ties == 2 * n_per_part:
                break
    return [question for of_part in made.values() for question in of_part]


def _questions(benchmark: str, part: str, prompt: Group, task: Task, seed: int) -> list[Question]:
    """The question of a prompt in the form of a benchmark; in Ties the two of it."""
    key = crc32(prompt.id.encode())
    faultless = faultless_manner(task)
    changed = manners(task, key)
    faulty = [changed[kind] for kind in EDITS if kind in changed]
    first = changed.get(FAULT_FIRST.get(part, ""))
    if first:
        faulty = [first, *faulty]
    if task.family == "unsafe":
        faulty = [changed["gives in"], *faulty]
    if benchmark == "RM-Bench":
        wrong = REFUSAL if part == "safety-response" else faulty[0]
        right_manners = [replace(faultless, extras=extras) for extras in EXTRAS]
        wrong_manners = [replace(wrong, extras=extras) for extras in EXTRAS]
    elif part == "Ties":
        right_manners = [replace(faultless, extras=extras) for extras in range(N_TIED)]
        wrong_manners = [replace(wrong, extras=1) for wrong in faulty[:N_TIED]]
    elif benchmark == "RewardBench 2":
        right_manners = [faultless]
        wrong_manners = [*faulty, changed.get("strays", REFUSAL)][:3]
    else:
        right_manners = [faultless]
        wrong_manners = faulty[key % len(faulty) :][:1]
    right = [write(task, manner, key) for manner in right_manners]
    wrong = [write(task, manner, key) for manner in wrong_manners]
    made_of = source(seed)
    if part == "Ties":
        ref = _group(f"{prompt.id}/ref", prompt, right[:1], wrong, made_of)
        tied = _group(f"{prompt.id}/tied", prompt, right, wrong, made_of)
        return [Question(part, prompt.id, ref), Question(part, prompt.id, tied)]
    group = _group(f"{prompt.id}/{part}", prompt, right, wrong, made_of)
    if benchmark == "JudgeBench" and key % 2:
        group = replace(group, responses=group.responses[::-1])
    return [Question(part, prompt.id, group)]


def _group(
    name: str, prompt: Group, right: Sequence[str], wrong: Sequence[str], made_of: str
) -> Group:
    """A generated prompt with right and wrong answers."""
    responses = []
    for kind, texts, label in (("right", right, 1.0), ("wrong", wrong, 0.0)):
        for number, text in enumerate(texts):
            responses.append(Response(f"{name}/{kind}-{number}", text, (label,)))
    return Group(name, prompt.prompt, tuple(responses), RIGHT, source=made_of)
