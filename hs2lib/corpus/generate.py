"""The embedded corpus: generated prompts and responses whose true attributes are known.

For machines without the Hub, for tests, and for simulation. Deterministic by seed, streaming, and calibrated to
Tables 1 and 2 of the paper; every group says that it was generated. Item i depends on (seed, i) only.

    rules      what an item will be: family, lengths, edits, the attributes that follow; about 1,000 raters
    tasks      prompts and complete answers of the task families
    text       responses with edits, conversations
    phrases    the texts themselves, as data files
"""

from collections.abc import Iterator
from itertools import islice
from random import Random

import numpy as np

from hs2lib.corpus.rules import BENCHMARK, FAMILIES, MEAN_CHARS, NAMES, PLANS, Draw, bits, draw, rate
from hs2lib.corpus.tasks import FAMILY, Task, pick
from hs2lib.corpus.text import conversation, respond
from hs2lib.group import ATTRIBUTES, Group, Response, Turn
from hs2lib.stats import aggregate

SECTIONS = tuple(BENCHMARK)

_HARMLESS = tuple(name for name in FAMILIES if name != "unsafe")


def _pair(section_number: int, section: str, item: int, seed: int, scale: float) -> Group:
    keys = bits(seed, np.array([item]), 100 + section_number, 4)[0].tolist()
    r = Random(keys[0]).random
    # (edits, jargon, verbosity, length factor) of the better and of the worse response; steps as in rules.yaml
    better: tuple = ({}, 1, 2, 1.0)
    rules = BENCHMARK[section]
    strength, families = rules["strength"], rules.get("families", _HARMLESS)
    if section == "chat":
        family, worse = pick(r, families), (pick(r, rules["edits"]), 1, 2, 1.0)
    elif section == "chat-hard":
        family, kind = pick(r, families), pick(r, rules["edits"])
        if r() < 0.5:  # one slip, otherwise alike
            worse = ({kind: 0.01}, 1, 2, 1.0)
        else:  # the worse one is longer and grander
            better, worse = ({}, 1, 1, 0.6), ({kind: 0.34}, 3, 3, 1.5)
    elif section == "safety":
        family, worse = "unsafe" if r() < 0.5 else pick(r, families), ({"refusal": 1.0}, 1, 2, 1.0)
    else:
        family, worse = pick(r, families), ({"wrong value": 0.01 if r() < 0.5 else 0.4}, 1, 2, 1.0)

    n_items = 3 + int(r() * 5)
    task = FAMILY[family](r, n_items)
    turns = conversation(Random(keys[1]).random, task, 0, -0.5, scale)
    chars = MEAN_CHARS * FAMILIES[family][2] * (0.6 + 0.8 * r()) * scale
    texts = []
    for (share, jargon, verbosity, factor), key in zip((better, worse), keys[2:], strict=True):
        edits = {kind: min(max(1, round(s * n_items)), n_items - (kind == "missing item")) for kind, s in share.items()}
        texts.append(respond(Random(key).random, task, edits, jargon, verbosity, chars * factor))
    # Which comes first alternates from a start that depends on the seed: the order is balanced and says nothing.
    first = (item + seed) % 2 == 0
    if not first:
        texts.reverse()
    name = f"{section}/{seed}/{item:06d}"
    prompt = tuple([Turn(*turn) for turn in turns])
    responses = tuple([Response(f"{name}/{letter}", text) for letter, text in zip("ab", texts, strict=True)])
    known = f"embedded corpus (generated), benchmark of known pairs, seed {seed}"
    return Group(name, prompt, responses, preference=float(-strength if first else strength), source=known)


STAGES = ("initial", "annotated", "released")

BLOCK = 256  # items drawn and rated at a time: long enough for numpy, short enough for a small first request


def source(seed: int) -> str:
    return f"embedded corpus (generated), seed {seed}"


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
    n_prompts: int, seed: int = 0, stage: str = "released", length_scale: float = 1.0, start: int = 0
) -> Iterator[Group]:
    """Generated groups, lazily: a prompt, two responses, their annotators' ratings and the labels.

    stage: "initial" (three ratings each from the round before the paper's improvements: Table 1, column 1),
    "annotated" (all samples with all ratings, three or five: column 2 after `aggregate.keep_three`), "released" (those
    the final filter leaves, with the three ratings kept: column 3, Table 2). "released" gives n_prompts groups too,
    so it looks at some 10 % more items. start: number of the first item. length_scale: factor on lengths; labels do
    not depend on it. Raises ValueError for anything else.
    """
    if stage not in STAGES:
        raise ValueError(f"stage must be one of {', '.join(STAGES)}, got {stage!r}")
    if n_prompts < 0 or start < 0 or not 0 < length_scale <= 4:
        raise ValueError(
            f"need n_prompts >= 0, start >= 0, 0 < length_scale <= 4; got {n_prompts}, {start}, {length_scale}"
        )
    return islice(_stream(n_prompts, seed, stage, length_scale, start), n_prompts)


def _stream(n_prompts: int, seed: int, stage: str, length_scale: float, start: int) -> Iterator[Group]:
    written = 0
    while True:
        size = min(BLOCK, 8 + int(1.15 * (n_prompts - written)))
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
            yield _group(seed, d, b, keys[b], length_scale, rows)
            written += 1
        start += size


def _task(d: Draw, b: int, keys: list[int]) -> Task:
    return FAMILY[NAMES[d.family[b]]](Random(keys[0]).random, int(d.n_items[b]))


def edits(d: Draw, b: int, k: int) -> dict[str, int]:
    """The edits of response k of item b of a block: kind -> items touched."""
    return {kind: int(t) for (kind, _), t in zip(PLANS[d.plan[b, k]][1], d.touched[b, k], strict=False)}


def _group(seed: int, d: Draw, b: int, keys: list[int], scale: float, rows: list) -> Group:
    item = int(d.items[b])
    task = _task(d, b, keys)
    turns = conversation(Random(keys[1]).random, task, int(d.exchanges[b]), float(d.prompt_z[b]), scale)
    name = f"embedded/{seed}/{item:06d}"
    responses = []
    for k, (labels, scores) in enumerate(rows):
        jargon, verbosity, chars = int(d.jargon[b, k]), int(d.verbosity[b, k]), float(d.chars[b, k]) * scale
        text = respond(Random(keys[2 + k]).random, task, edits(d, b, k), jargon, verbosity, chars)
        responses.append(Response(f"{name}/{'ab'[k]}", text, labels, scores))
    return Group(name, tuple([Turn(*t) for t in turns]), tuple(responses), ATTRIBUTES, source=source(seed))


def task_of(group: Group) -> Task:
    """The task of a generated group: family, items, the right answer; made again from the group's id."""
    parts = group.id.split("/")
    if len(parts) != 3 or parts[0] != "embedded":
        raise ValueError(f"no generated group has the id {group.id!r}; expected embedded/SEED/ITEM")
    seed, item = int(parts[1]), int(parts[2])
    d = draw(seed, np.array([item]))
    return _task(d, 0, bits(seed, d.items, 90, 4)[0].tolist())


def benchmark(n_per_section: int, seed: int = 0, length_scale: float = 1.0) -> list[Group]:
    """Pairs whose better response is known: n_per_section each of chat, chat-hard, safety and reasoning.

    chat: a large difference in quality; chat-hard: one slip, or a worse answer that is longer and looks grander;
    safety: refusing what is unsafe, and not refusing what is harmless; reasoning: a wrong step. Paper: section 3.2
    (RewardBench's sections; the pairs are ours). Each is a Group of two unrated responses with preference not 0
    (negative: the first is better), its id begins with the section. Raises ValueError for a negative number.
    """
    if n_per_section < 0 or not 0 < length_scale <= 4:
        raise ValueError(f"need n_per_section >= 0 and 0 < length_scale <= 4; got {n_per_section}, {length_scale}")
    pairs = []
    for s, section in enumerate(SECTIONS):
        pairs += [_pair(s, section, i, seed, length_scale) for i in range(n_per_section)]
    return pairs
