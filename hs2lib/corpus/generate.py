"""The small world: generated prompts and responses whose true attributes are known.

For machines without the Hub, for tests, and to show each method at work. Deterministic by seed,
streaming, its labels calibrated to Tables 1 and 2 of the paper; every group says that it was
generated. Item i depends on (seed, i) only.

    rules      what an item will be: family, edits, the attributes that follow; about 1,000 raters
    tasks      the families: a prompt and the items of its answer; their facts and words lie in `phrases/`
    text       responses with edits, conversations
    grade      the true attributes of any text
"""

from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import count, islice

import numpy as np

from hs2lib.corpus.rules import (
    BENCHMARK,
    FAMILIES,
    NAMES,
    PLANS,
    UNSAFE_ITEMS,
    Draw,
    bits,
    draw,
    rate,
)
from hs2lib.corpus.tasks import FAMILY, Task, pick
from hs2lib.corpus.text import conversation, one_in, respond
from hs2lib.group import ATTRIBUTES, Group, Response, Turn
from hs2lib.names import SPLITS, one_of
from hs2lib.stats import aggregate

SECTIONS = tuple(BENCHMARK)

_HARMLESS = tuple(name for name in FAMILIES if name != "unsafe")

USUAL = 1  # surplus sentences of an answer of usual length


def _pair(section_number: int, section: str, item: int, seed: int) -> tuple[Task, Group]:
    keys = bits(seed, np.array([item]), 100 + section_number, 4)[0].tolist()
    r = one_in(keys[0])
    rules = BENCHMARK[section]
    n = pick(r, (2, 3, 4))
    family = (
        "unsafe" if section == "safety" and r() < 0.5 else pick(r, rules.get("families", _HARMLESS))
    )
    # (edits, sentences of an expert, surplus sentences) of the better and of the worse response
    better, worse = ({}, 0, USUAL), ({"refusal": 1.0}, 0, USUAL)
    if section == "chat":
        worse = (pick(r, rules["edits"]), 0, USUAL)
    elif section == "chat-hard":
        kind = pick(r, rules["edits"])
        if r() < 0.5:  # one slip, otherwise alike
            worse = ({kind: 0.01}, 0, USUAL)
        else:  # the worse one is longer and grander
            better, worse = ({}, 0, 0), ({kind: 0.34}, 2, 2 * n)
    elif section == "reasoning":
        worse = ({"wrong value": 0.01 if r() < 0.5 else 0.4}, 0, USUAL)
    n = UNSAFE_ITEMS if family == "unsafe" else n
    task = next(task for task in iter(lambda: FAMILY[family](r, n), None) if task.reserved)
    texts = []
    for (share, expert, extras), key in zip((better, worse), keys[2:], strict=True):
        edits = {
            kind: min(max(1, round(s * n)), n - (kind == "missing item"))
            for kind, s in share.items()
        }
        texts.append(respond(one_in(key), task, edits, extras, expert))
    # Which comes first alternates from a start that depends on the seed: the order is balanced and
    # says nothing.
    sign = 1 if (item + seed) % 2 else -1
    name = f"{section}/{seed}/{item:06d}"
    prompt = tuple([Turn(*turn) for turn in conversation(one_in(keys[1]), task, 0, -0.5)])
    responses = tuple(
        [
            Response(f"{name}/{letter}", text)
            for letter, text in zip("ab", texts[::-sign], strict=True)
        ]
    )
    known = f"{GENERATED}, benchmark of known pairs, seed {seed}"
    return task, Group(
        name, prompt, responses, preference=float(sign * rules["strength"]), source=known
    )


STAGES = ("initial", "annotated", "released")

BLOCK = 256  # items drawn and rated at a time: long enough for numpy, short enough for a small first request


GENERATED = "small world (generated)"


def source(seed: int) -> str:
    return f"{GENERATED}, seed {seed}"


def groups(
    n_prompts: int, seed: int = 0, stage: str = "released", split: str = "both", start: int = 0
) -> Iterator[Group]:
    """Generated groups, lazily: a prompt, two responses, their annotators' ratings and the labels.

    stage: "initial" (three ratings each from the round before the paper's improvements: Table 1,
    column 1), "annotated" (all samples with all ratings, three or five: column 2 after
    `aggregate.keep_three`), "released" (those the final filter leaves, with the three ratings kept:
    column 3, Table 2). "released" gives n_prompts groups too, so it looks at some 10 % more items.
    split: "train", "validation" (only prompts that no training text of any seed holds:
    `Task.reserved`) or "both". start: number of the first item. Raises ValueError for another name
    and for negative numbers.
    """
    if n_prompts < 0 or start < 0:
        raise ValueError(f"n_prompts and start are at least 0, got {n_prompts} and {start}")
    one_of("stage", stage, STAGES)
    one_of("split", split, SPLITS)
    wanted = {"train": (False,), "validation": (True,), "both": (False, True)}[split]
    return islice(
        (group for task, group in _stream(seed, stage, start) if task.reserved in wanted), n_prompts
    )


def _stream(seed: int, stage: str, start: int) -> Iterator[tuple[Task, Group]]:
    for block in count(start, BLOCK):
        d = draw(seed, np.arange(block, block + BLOCK))
        scores, lost = rate(seed, d.items, d.latent, stage == "initial")  # [2B, 5, A]
        scores = aggregate.recruit(scores, upto=3 if stage == "initial" else 5)
        scores[lost, 3:] = np.nan
        keep = aggregate.keep_three(scores)  # [2B, N]
        survives = aggregate.released(scores, keep, np.repeat(d.items, 2))
        labels = aggregate.aggregate(scores, keep).tolist()
        present = keep if stage == "released" else ~np.isnan(scores[:, :, 0])
        for b in np.flatnonzero(survives[::2] | (stage != "released")).tolist():
            rows = [(labels[row], scores[row][present[row]].tolist()) for row in (2 * b, 2 * b + 1)]
            yield _group(seed, d, b, rows)


def _keys(seed: int, item: int) -> list[int]:
    """The seeds of an item's four streams: the task, the conversation, the two responses."""
    return bits(seed, np.array([item]), 90, 4)[0].tolist()


def _task(d: Draw, b: int, key: int) -> Task:
    return FAMILY[NAMES[d.family[b]]](one_in(key), int(d.n_items[b]))


def edits(d: Draw, b: int, k: int) -> dict[str, int]:
    """The edits of response k of item b of a block: kind -> items touched."""
    return {
        kind: int(t) for (kind, _), t in zip(PLANS[d.plan[b, k]][1], d.touched[b, k], strict=False)
    }


def _group(seed: int, d: Draw, b: int, rows: list) -> tuple[Task, Group]:
    keys = _keys(seed, d.items[b])
    task = _task(d, b, keys[0])
    turns = conversation(one_in(keys[1]), task, int(d.exchanges[b]), float(d.prompt_z[b]))
    name = f"embedded/{seed}/{d.items[b]:06d}"
    responses = []
    for k, (labels, scores) in enumerate(rows):
        text = respond(
            one_in(keys[2 + k]), task, edits(d, b, k), int(d.extras[b, k]), int(d.expert[b, k])
        )
        responses.append(
            Response(f"{name}/{'ab'[k]}", text, tuple(labels), tuple(map(tuple, scores)))
        )
    return task, Group(
        name,
        tuple([Turn(*turn) for turn in turns]),
        tuple(responses),
        ATTRIBUTES,
        source=source(seed),
    )


@lru_cache(maxsize=20_000)
def task_of(group: str) -> Task:
    """The task behind the id of a generated group or pair, made again. Raises ValueError for any other id."""
    kind, *numbers = group.split("/")[:3]
    if (
        not (kind == "embedded" or kind in SECTIONS)
        or len(numbers) != 2
        or not all(map(str.isdecimal, numbers))
    ):
        raise ValueError(f"no generated group has the id {group!r}; expected embedded/SEED/ITEM")
    seed, item = map(int, numbers)
    if kind in SECTIONS:
        return _pair(SECTIONS.index(kind), kind, item, seed)[0]
    return _task(draw(seed, np.array([item])), 0, _keys(seed, item)[0])


def is_generated(groups: Iterable[Group]) -> bool:
    """Whether all groups were made here, so that the truth about them is known; what is mixed counts as real."""
    return all(GENERATED in group.source for group in groups)


def benchmark(n_per_section: int, seed: int = 0) -> list[Group]:
    """Pairs whose better response is known: n_per_section each of chat, chat-hard, safety and
    reasoning.

    chat: a large difference in quality; chat-hard: one slip, or a worse answer that is longer and
    looks grander; safety: refusing what is unsafe, and not refusing what is harmless; reasoning: a
    wrong step. Paper: section 3 (RewardBench's sections; the pairs are ours). Each is a Group of
    two unrated responses with preference not 0 (negative: the first is better), its id begins with
    the section; no training prompt is among them. Raises ValueError for a negative number.
    """
    if n_per_section < 0:
        raise ValueError(f"n_per_section is at least 0, got {n_per_section}")
    return [
        _pair(s, section, i, seed)[1]
        for s, section in enumerate(SECTIONS)
        for i in range(n_per_section)
    ]
