"""The small world: generated prompts and responses whose true attributes are known.

For machines without the Hub, for tests, and to show each method at work. Deterministic by seed, streaming, its labels
calibrated to Tables 1 and 2 of the paper; every group says that it was generated. Item i depends on (seed, i) only.

    rules      what an item will be: family, edits, the attributes that follow; about 1,000 raters
    tasks      the families: a prompt and the items of its answer; their facts and words lie in `phrases/`
    text       responses with edits, conversations
    grade      the true attributes of any text
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import islice

import numpy as np

from hs2lib.corpus.rules import BENCHMARK, FAMILIES, NAMES, PLANS, UNSAFE_ITEMS, Draw, bits, draw, rate
from hs2lib.corpus.tasks import ENTITIES, FACT, FAMILY, FIELDS, SCENES, Task, another, capital, entity, pick, several
from hs2lib.corpus.text import conversation, one_in, respond, say
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
    strength, families = rules["strength"], rules.get("families", _HARMLESS)
    n = pick(r, (2, 3, 4))
    # (edits, sentences of an expert, surplus sentences) of the better and of the worse response
    better: tuple = ({}, 0, USUAL)
    if section == "chat":
        family, worse = pick(r, families), (pick(r, rules["edits"]), 0, USUAL)
    elif section == "chat-hard":
        family, kind = pick(r, families), pick(r, rules["edits"])
        if r() < 0.5:  # one slip, otherwise alike
            worse = ({kind: 0.01}, 0, USUAL)
        else:  # the worse one is longer and grander
            better, worse = ({}, 0, 0), ({kind: 0.34}, 2, 2 * n)
    elif section == "safety":
        family, worse = "unsafe" if r() < 0.5 else pick(r, families), ({"refusal": 1.0}, 0, USUAL)
    else:
        family, worse = pick(r, families), ({"wrong value": 0.01 if r() < 0.5 else 0.4}, 0, USUAL)
    n = UNSAFE_ITEMS if family == "unsafe" else n
    task = FAMILY[family](r, n)
    while not task.reserved:
        task = FAMILY[family](r, n)
    texts = []
    for (share, expert, extras), key in zip((better, worse), keys[2:], strict=True):
        edits = {kind: min(max(1, round(s * n)), n - (kind == "missing item")) for kind, s in share.items()}
        texts.append(respond(one_in(key), task, edits, extras, expert))
    # Which comes first alternates from a start that depends on the seed: the order is balanced and says nothing.
    first = (item + seed) % 2 == 0
    if not first:
        texts.reverse()
    name = f"{section}/{seed}/{item:06d}"
    prompt = tuple([Turn(*turn) for turn in conversation(one_in(keys[1]), task, 0, -0.5)])
    responses = tuple([Response(f"{name}/{letter}", text) for letter, text in zip("ab", texts, strict=True)])
    known = f"{GENERATED}, benchmark of known pairs, seed {seed}"
    return task, Group(name, prompt, responses, preference=float(-strength if first else strength), source=known)


STAGES = ("initial", "annotated", "released")

BLOCK = 256  # items drawn and rated at a time: long enough for numpy, short enough for a small first request


GENERATED = "small world (generated)"


def source(seed: int) -> str:
    return f"{GENERATED}, seed {seed}"


def ratings(seed: int, d: Draw, initial: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The ratings of a block: ratings [2B, 5, A] (nan: not asked, or lost), kept [2B, 5], released [2B]."""
    scores, lost = rate(seed, d.items, d.latent, initial)
    if initial:
        scores[:, 3:] = np.nan
    else:
        scores = aggregate.recruit(scores)
        scores[lost, 3:] = np.nan
    keep = aggregate.keep_three(scores)
    return scores, keep, aggregate.released(scores, keep, np.repeat(np.arange(len(d.items)), 2))


def groups(
    n_prompts: int, seed: int = 0, stage: str = "released", split: str = "both", start: int = 0
) -> Iterator[Group]:
    """Generated groups, lazily: a prompt, two responses, their annotators' ratings and the labels.

    stage: "initial" (three ratings each from the round before the paper's improvements: Table 1, column 1),
    "annotated" (all samples with all ratings, three or five: column 2 after `aggregate.keep_three`), "released" (those
    the final filter leaves, with the three ratings kept: column 3, Table 2). "released" gives n_prompts groups too,
    so it looks at some 10 % more items. split: "train", "validation" (only prompts that no training text of any seed
    holds: `Task.reserved`) or "both". start: number of the first item. Raises ValueError for anything else.
    """
    one_of("stage", stage, STAGES)
    one_of("split", split, SPLITS)
    if n_prompts < 0 or start < 0:
        raise ValueError(f"need n_prompts >= 0, start >= 0; got {n_prompts}, {start}")
    wanted = {"train": (False,), "validation": (True,), "both": (False, True)}[split]
    stream = _stream(n_prompts, seed, stage, start)
    return islice((group for task, group in stream if task.reserved in wanted), n_prompts)


def _stream(n_prompts: int, seed: int, stage: str, start: int) -> Iterator[tuple[Task, Group]]:
    written = 0
    while True:
        left = n_prompts - written  # of one split alone more are looked at
        size = min(BLOCK, 8 + int(1.15 * left)) if left > 0 else BLOCK
        d = draw(seed, np.arange(start, start + size))
        scores, keep, survives = ratings(seed, d, stage == "initial")
        labels = aggregate.aggregate(scores, keep).tolist()
        present = keep if stage == "released" else ~np.isnan(scores[:, :, 0])
        # Of each item the seeds of four streams: the task, the conversation, the two responses.
        keys = bits(seed, d.items, 90, 4).tolist()
        scores, present = scores.tolist(), present.tolist()
        for b in range(size):
            if stage == "released" and not survives[2 * b]:
                continue
            rows = [
                (tuple(labels[row]), tuple([tuple(x) for x, p in zip(scores[row], present[row], strict=True) if p]))
                for row in (2 * b, 2 * b + 1)
            ]
            yield _group(seed, d, b, keys[b], rows)
            written += 1
        start += size


def _task(d: Draw, b: int, keys: list[int]) -> Task:
    return FAMILY[NAMES[d.family[b]]](one_in(keys[0]), int(d.n_items[b]))


def edits(d: Draw, b: int, k: int) -> dict[str, int]:
    """The edits of response k of item b of a block: kind -> items touched."""
    return {kind: int(t) for (kind, _), t in zip(PLANS[d.plan[b, k]][1], d.touched[b, k], strict=False)}


def _group(seed: int, d: Draw, b: int, keys: list[int], rows: list) -> tuple[Task, Group]:
    task = _task(d, b, keys)
    turns = conversation(one_in(keys[1]), task, int(d.exchanges[b]), float(d.prompt_z[b]))
    name = f"embedded/{seed}/{int(d.items[b]):06d}"
    responses = []
    for k, (labels, scores) in enumerate(rows):
        text = respond(one_in(keys[2 + k]), task, edits(d, b, k), int(d.extras[b, k]), int(d.expert[b, k]))
        responses.append(Response(f"{name}/{'ab'[k]}", text, labels, scores))
    return task, Group(name, tuple([Turn(*turn) for turn in turns]), tuple(responses), ATTRIBUTES, source=source(seed))


@lru_cache(maxsize=20_000)
def task_of(group: str) -> Task:
    """The task behind the id of a generated group or pair, made again. Raises ValueError for any other id."""
    kind, *numbers = group.split("/")[:3]
    if not (kind == "embedded" or kind in SECTIONS) or len(numbers) != 2 or not all(map(str.isdecimal, numbers)):
        raise ValueError(f"no generated group has the id {group!r}; expected embedded/SEED/ITEM")
    seed, item = map(int, numbers)
    if kind in SECTIONS:
        return _pair(SECTIONS.index(kind), kind, item, seed)[0]
    d = draw(seed, np.array([item]))
    return _task(d, 0, bits(seed, d.items, 90, 4)[0].tolist())


def is_generated(groups: Iterable[Group]) -> bool:
    """Whether all groups were made here, so that the truth about them is known; what is mixed counts as real."""
    return all(GENERATED in group.source for group in groups)


def benchmark(n_per_section: int, seed: int = 0) -> list[Group]:
    """Pairs whose better response is known: n_per_section each of chat, chat-hard, safety and reasoning.

    chat: a large difference in quality; chat-hard: one slip, or a worse answer that is longer and looks grander;
    safety: refusing what is unsafe, and not refusing what is harmless; reasoning: a wrong step. Paper: section 3
    (RewardBench's sections; the pairs are ours). Each is a Group of two unrated responses with preference not 0
    (negative: the first is better), its id begins with the section; no training prompt is among them. Raises ValueError
    for a negative number.
    """
    if n_per_section < 0:
        raise ValueError(f"need n_per_section >= 0, got {n_per_section}")
    return [_pair(s, section, i, seed)[1] for s, section in enumerate(SECTIONS) for i in range(n_per_section)]


def pretraining(seed: int = 0) -> Iterator[str | Group]:
    """Endless texts to train the base on: documents, and conversations with one response each, good or bad.

    Two of five are documents. No conversation has a prompt that is kept for evaluation. Seeds are apart from those of
    `groups`.
    """
    seed += 10**9
    r = one_in(seed)
    texts, talks = documents(one_in(seed + 1)), _stream(BLOCK, seed, "annotated", 0)
    while True:
        if r() < 0.4:
            yield next(texts)
            continue
        task, group = next(talks)
        while task.reserved:
            task, group = next(talks)
        yield replace(group, responses=(pick(r, group.responses),))


def documents(r) -> Iterator[str]:
    """Endless texts that are no conversations: articles, sheets, lists, what the base reads about the world."""
    while True:
        kind, name = entity(r)
        fields = several(r, FIELDS[kind], 6)
        u, field = r(), fields[0]
        facts = [(f, ENTITIES[kind][name][f]) for f in fields]
        if u < 0.35:
            forms = [FACT[0], *[pick(r, FACT) for _ in facts[1:]]]
            sentences = [form.format(f=f, s=name, v=v) for form, (f, v) in zip(forms, facts, strict=True)]
            yield " ".join([f"{capital(name)} is {SCENES['kinds'][kind]}.", *sentences])
        elif u < 0.5:
            yield "\n".join([f"{capital(name)}, {SCENES['kinds'][kind]}:", *[f"{f.upper()}: {v}." for f, v in facts]])
        elif u < 0.65:
            names = several(r, tuple(ENTITIES[kind]), 6)
            yield " ".join(say(r, kind, name, field) for name in names)
        elif u < 0.8:
            other = another(r, tuple(ENTITIES[kind]), name)
            rows = [f"The {f} of {name} is {v}, that of {other} is {ENTITIES[kind][other][f]}." for f, v in facts[:4]]
            yield " ".join(rows)
        elif u < 0.9:
            goal, procedure = pick(r, SCENES["procedures"])
            rows = [f"{k}. {capital(right)}." for k, (right, _) in enumerate(procedure, 1)]
            yield "\n".join([f"How to {goal}:", *rows])
        else:
            task = FAMILY["sorting"](r, 3 + int(r() * 3))
            while task.reserved:
                task = FAMILY["sorting"](r, 3 + int(r() * 3))
            yield "\n".join([task.prompt, *[f"{k}. {item.say()}" for k, item in enumerate(task.items, 1)]])
