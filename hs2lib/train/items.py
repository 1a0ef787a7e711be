"""Items to train on: groups as token sequences with a target for each response.

Whatever is left out (unrated responses, groups without any label or comparison, groups too long for
the model) is counted, and the report says so; nothing is replaced or cut silently. Paper: silent;
of a reward model the reference code replaces an over-long row by the next one and so trains on that
twice.
"""

import hashlib
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count

import numpy as np

from hs2lib.engine.chat import label_vector
from hs2lib.engine.trees import plan
from hs2lib.group import MISSING, Group


@dataclass(frozen=True, slots=True)
class Item:
    """One group to train on: G token sequences and their targets, float32 [G, k], -100 where
    missing.

    An objective on log-probabilities needs to know which tokens are the response's. starts: for
    each sequence where the response begins, which goes on to the end; or its several stretches
    (start, stop), where a conversation has several answers; as `trees.plan` takes what to predict.
    () where an objective reads end states only.
    """

    id: str
    sequences: tuple[list[int], ...]
    targets: np.ndarray
    starts: tuple[int | tuple[tuple[int, int], ...], ...] = ()


@dataclass(frozen=True)
class Prepared:
    """Items to train on and to validate on, and what was counted of each part that has any groups."""

    training: list[Item]
    validation: list[Item]
    counts: dict[str, dict[str, int]]

    @property
    def watched(self) -> list[Item]:
        """The items that a training is looked at with: those to validate on, else those that were trained on."""
        return self.validation or self.training

    @property
    def watched_name(self) -> str:
        """What these are, in a word."""
        return "held-out" if self.validation else "training"


def rated(
    model, groups: Iterable[Group], *, too_long: str = "raise"
) -> tuple[list[Item], dict[str, int]]:
    """Items for regression: one target for each of the model's attributes, -100 where a response
    lacks it.

    Responses without any of these labels are not computed at all. Paper: section 3, "Training";
    missing labels and their value are the reference code's. too_long: what to do with a group that
    does not fit `model.max_tokens` even without its older turns: "raise" (name it) or "leave out"
    (count it). Returns the items, and how many there are and were left out, by name. Raises
    ValueError where nothing is labelled.
    """
    groups = list(groups)

    def targets(group: Group) -> np.ndarray:
        rows = [
            label_vector(response.labels, group.attributes, model.attributes)
            for response in group.responses
        ]
        return np.array(rows, dtype=np.float32).reshape(len(rows), len(model.attributes))

    named = sorted({name for group in groups for name in group.attributes})
    what = f"{len(groups)} groups have none of the labels {list(model.attributes)} (their columns: {named})"
    return _items(model, groups, targets, too_long, f"unlabelled training set: {what}")


def compared(model, groups: Iterable[Group], *, attribute: str = "", too_long: str = "raise"):
    """Items for Bradley-Terry: one target a response, whose differences within the group are the
    margins.

    attribute: take this label as the target ("" takes the group's own preference, half of it to
    each side). Groups in which no two responses differ say nothing and are left out. Paper: section
    4.3 (pairs of equal helpfulness are dropped). Returns and raises as `rated`.
    """
    groups = list(groups)

    def targets(group: Group) -> np.ndarray:
        values = [MISSING] * len(group.responses)
        if attribute:
            values = [
                label_vector(r.labels, group.attributes, (attribute,))[0] for r in group.responses
            ]
        elif group.preference is not None and len(group.responses) == 2:
            values = [-group.preference / 2, group.preference / 2]
        if len(set(values) - {MISSING}) < 2:
            values = [MISSING] * len(values)
        return np.array(values, dtype=np.float32)[:, None]

    what = f"no two responses to one prompt differ in {attribute or 'preference'} in {len(groups)} groups"
    return _items(model, groups, targets, too_long, f"nothing to compare: {what}")


def labels_of(groups: Iterable[Group], attribute: str) -> np.ndarray:
    """Every response's label of one attribute, in order: float64 [R], nan where it has none. Paper: silent."""
    each = [
        label_vector(r.labels, group.attributes, (attribute,))[0]
        for group in groups
        for r in group.responses
    ]
    return np.where(np.equal(each, MISSING), np.nan, each)


def by_score(
    groups: Iterable[Group], scores: Sequence[float]
) -> tuple[list[Group], dict[str, int]]:
    """Groups of two responses, chosen before rejected: each group's best against its worst; ties
    are dropped.

    Paper: section 4.3, "Iterative DPO" (best against worst goodness of 10 samples). scores: [R],
    one for every response of the groups in order, nan for one that is not to be used; of equally
    good ones the first counts. The pair's `preference` is rejected minus chosen (negative, the
    first is better). Returns (pairs, counts): counts of groups, pairs, ties, and groups with fewer
    than two scores. Raises ValueError where numbers differ.
    """
    groups, scores = list(groups), np.asarray(scores, dtype=np.float64)  # [all responses]
    sizes = [len(group.responses) for group in groups]
    if scores.shape != (sum(sizes),):
        raise ValueError(f"{sum(sizes)} responses need a score each, got shape {scores.shape}")
    pairs, counts = [], {"groups": len(groups), "pairs": 0, "ties": 0, "fewer than two scores": 0}
    for group, own in zip(groups, np.split(scores, np.cumsum(sizes)), strict=False):
        if (~np.isnan(own)).sum() < 2:
            counts["fewer than two scores"] += 1
        elif np.nanmin(own) == np.nanmax(own):
            counts["ties"] += 1
        else:
            best, worst = np.nanargmax(own), np.nanargmin(own)
            two, difference = (
                (group.responses[best], group.responses[worst]),
                float(own[worst] - own[best]),
            )
            pairs.append(replace(group, responses=two, preference=difference, preferences=()))
    return pairs, counts | {"pairs": len(pairs)}


def cluster(group: Group) -> str:
    """What a group shares with others that must not be on both sides of a split: the conversation's
    first message.

    The groups of one Open Assistant tree begin alike, and so do the two HelpSteer2 pairs of one
    prompt.
    """
    return next((turn.text for turn in group.prompt if turn.role == "user"), group.id)


def cut(groups: Iterable[Group], shares: dict[str, float], seed: int = 0) -> dict[str, list[Group]]:
    """Groups cut at random into named parts, whole clusters together; the last part gets what the
    others leave.

    shares: of the clusters, by name, adding up to 1. Deterministic in seed and the clusters' names.
    Raises ValueError for shares that do not add up to 1, or where a part with a share would be
    empty.
    """
    groups = list(groups)
    fractions = list(shares.values())
    if (
        not math.isclose(sum(fractions), 1) or min(fractions) < -1e-9
    ):  # 1 minus the others may be just below 0
        raise ValueError(
            f"shares are fractions from 0 that add up to 1, got {shares}, which add up to {sum(fractions):g}"
        )
    names = sorted({cluster(group) for group in groups})
    places = np.random.default_rng(seed).permutation(len(names))
    stops = np.rint(np.cumsum(fractions) * len(names))
    part = dict(zip(names, np.searchsorted(stops, places, side="right"), strict=True))
    out = {
        name: [group for group in groups if part[cluster(group)] == at]
        for at, name in enumerate(shares)
    }
    if empty := [name for name, share in shares.items() if share > 1e-9 and not out[name]]:
        raise ValueError(
            f"{len(names)} different first messages leave no group for {', '.join(empty)}"
        )
    return out


def padded_tokens(items: Sequence[Item], size: int = 8) -> int:
    """Tokens that padded batches of `size` rows would compute, rows as they come: what prefix trees save."""
    lengths = [len(sequence) for item in items for sequence in item.sequences]
    return sum(
        max(row) * len(row) for row in (lengths[i : i + size] for i in range(0, len(lengths), size))
    )


def tokens(token_groups: Iterable[Sequence]) -> int:
    """Tokens that groups of sequences are as prefix trees: what they share is counted once."""
    return sum(len(batch.tokens) for batch in plan(token_groups))


def digest(items: Sequence[Item]) -> str:
    """A digest of ids, tokens and targets: two runs on the same items have the same."""
    out = hashlib.sha256()
    for item in items:
        out.update(f"{item.id}\0{item.starts}".encode() + item.targets.tobytes())
        for sequence in item.sequences:
            out.update(np.asarray(sequence, np.int32).tobytes() + b"\0")
    return out.hexdigest()[:16]


def order(ids: Sequence[str], seed: int) -> Iterator[int]:
    """Positions of items, epoch after epoch without end; each epoch's order follows from (seed, epoch) and the ids."""
    by_id = sorted(range(len(ids)), key=ids.__getitem__)
    for epoch in count():
        yield from (by_id[i] for i in np.random.default_rng((seed, epoch)).permutation(len(ids)))


def shares(positions: Iterable[int], recipe, process: int, processes: int) -> list[list[int]]:
    """What one process trains on: positions of items, batch by batch; all processes together make
    the global batches.

    Paper: silent. positions: of the items of all global batches, one after the other. recipe: its
    batch and accumulation. Returns lists of batch / (processes x accumulation) positions.
    """
    size, positions = recipe.batch // (processes * recipe.accumulation), list(positions)
    return [
        positions[i : i + size] for i in range(process * size, len(positions), size * processes)
    ]


def _items(
    model, groups: list[Group], targets, too_long: str, nothing: str
) -> tuple[list[Item], dict[str, int]]:
    admitted, labelled = [model.admitted(group) for group in groups], []
    for group in admitted:
        values = targets(group)
        kept = [i for i, row in enumerate(values) if (row != MISSING).any()]
        if kept:
            labelled.append(
                (replace(group, responses=tuple(group.responses[i] for i in kept)), values[kept])
            )
    known = [group for group, _ in labelled]
    fitting = list(model.tokenise(known, too_long=too_long))
    both = [
        (values, one) for (_, values), one in zip(labelled, fitting, strict=True) if one is not None
    ]
    items = [Item(one.group.id, one.sequences, values, one.starts) for values, one in both]
    if not items:
        raise ValueError(nothing)
    sizes = [sum(len(group.responses) for group in these) for these in (groups, admitted, known)]
    counts = {"groups": len(items), "responses": sum(len(item.sequences) for item in items)}
    counts |= {"labels": sum(int((item.targets != MISSING).sum()) for item in items)}
    counts |= {"unrated_responses": sizes[1] - sizes[2], "refused_responses": sizes[0] - sizes[1]}
    counts |= {"groups_without_target": len(groups) - len(known)}
    counts |= {
        "shortened_groups": sum(one.dropped > 0 for _, one in both),
        "too_long": len(fitting) - len(items),
    }
    counts |= {"tokens": tokens(item.sequences for item in items)}
    return items, counts | {
        "tokens_one_by_one": sum(len(s) for item in items for s in item.sequences)
    }
