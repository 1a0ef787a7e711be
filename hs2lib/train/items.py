"""Items to train on: groups as token sequences with a target for each response.

What is left out is counted, and the report says so: unrated responses, groups without any label or
comparison, groups too long for the model. Nothing is replaced or cut silently. Paper: silent. The
reference code for reward models replaces an over-long row by the next one, and so trains on that
one twice.
"""

import hashlib
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TYPE_CHECKING

import numpy as np
from torch import nn

from hs2lib.engine.chat import label_vector
from hs2lib.engine.trees import plan
from hs2lib.group import MISSING, Group
from hs2lib.names import TIES, one_of

if TYPE_CHECKING:
    from hs2lib.train.recipes import Recipe


@dataclass(frozen=True, slots=True)
class Item:
    """One group to train on: G token sequences and their targets, float32 [G, k].

    A target is -100 where it is missing. An objective on log-probabilities needs to know which
    tokens are the response's: `starts` says so for each sequence, as `trees.plan` takes what to
    predict. It is where the response begins, which goes on to the end; or, where a conversation has
    several answers, their stretches (start, stop). It is () where an objective reads end states
    only.
    """

    id: str
    sequences: tuple[list[int], ...]
    targets: np.ndarray
    starts: tuple[int | tuple[tuple[int, int], ...], ...] = ()


@dataclass(frozen=True)
class Prepared:
    """Items to train on and to validate on, and what was counted of each part that has groups."""

    training: list[Item]
    validation: list[Item]
    counts: dict[str, dict[str, int]] = field(default_factory=dict)

    @property
    def watched(self) -> list[Item]:
        """The items that a training is looked at with: held-out ones; else those trained on."""
        return self.validation or self.training


def rated(
    model: nn.Module, groups: Iterable[Group], *, too_long: str = "raise"
) -> tuple[list[Item], dict[str, int]]:
    """Items for regression: one target a response for each of the model's attributes.

    A target is -100 where the response lacks the label. Responses without any of these labels are
    not computed at all. Paper: section 3, "Training"; missing labels and their value are the
    reference code's.

    Args:
        model: a reward model.
        groups: rated groups.
        too_long: what to do with a group that does not fit `model.max_tokens` even without its
            older turns: "raise" (name it) or "leave out" (count it).

    Returns:
        The items, and how many there are and were left out, by name.

    Raises:
        ValueError: nothing is labelled.
    """
    groups = list(groups)

    def targets(group: Group) -> np.ndarray:
        rows = [
            label_vector(response.labels, group.attributes, model.attributes)
            for response in group.responses
        ]
        return np.array(rows, dtype=np.float32).reshape(len(rows), len(model.attributes))  # [G, A]

    columns = sorted({name for group in groups for name in group.attributes})
    no_items = (
        f"unlabelled training set: {len(groups)} groups have none of the labels "
        f"{list(model.attributes)} (their columns: {columns})"
    )
    return _items(model, groups, targets, too_long, no_items)


def compared(
    model: nn.Module,
    groups: Iterable[Group],
    *,
    attribute: str = "",
    too_long: str = "raise",
    ties: str = "leave out",
) -> tuple[list[Item], dict[str, int]]:
    """Items for Bradley-Terry: one target a response; differences within a group are the margins.

    Paper: section 4.3 (pairs of equal helpfulness are dropped). HelpSteer2-Preference (arXiv
    2410.01257) leaves pairs of strength 0 out as well.

    Args:
        model: a reward model.
        groups: rated groups, or pairs with a preference.
        attribute: the label that is the target; "" takes the group's own preference, half of it to
            each side.
        too_long: as for `rated`.
        ties: what is done with a group in which all responses are equally good: "leave out",
            "keep" (for an objective that has a loss of ties), or "refuse".

    Returns:
        As `rated`; the counts have `ties_left_out` or `ties_kept` too, which are pairs of equally
        good responses.

    Raises:
        ValueError: no two responses to one prompt differ, or ties are refused and there are some.
    """
    one_of("ties", ties, TIES)
    groups = list(groups)

    def targets(group: Group) -> np.ndarray:
        values = _compared_values(group, attribute)
        n_different = len(set(values) - {MISSING})
        if n_different < 2 and not (ties == "keep" and _n_ties(values)):
            values = [MISSING] * len(values)
        return np.array(values, dtype=np.float32)[:, None]  # [G, 1]

    ties_of = {group.id: _n_ties(_compared_values(group, attribute)) for group in groups}
    tied = [name for name, number in ties_of.items() if number]
    what = attribute or "preference"
    if ties == "refuse" and tied:
        raise ValueError(
            f"{len(tied)} of {len(groups)} groups have responses of equal {what}, "
            f"the first is {tied[0]!r}: take such rows out, or set ties to 'leave out' or 'keep'"
        )
    no_items = (
        "nothing to compare: no two responses to one prompt differ in "
        f"{what} in {len(groups)} groups"
    )
    made, counts = _items(model, groups, targets, too_long, no_items)
    name = "ties_kept" if ties == "keep" else "ties_left_out"
    return made, counts | {name: sum(ties_of.values())}


def _compared_values(group: Group, attribute: str) -> list[float]:
    """What each response is compared by, -100 where it has none; arguments as for `compared`."""
    if attribute:
        return _labels(group, attribute)
    if group.preference is not None and len(group.responses) == 2:
        return [-group.preference / 2, group.preference / 2]
    return [MISSING] * len(group.responses)


def _n_ties(values: Sequence[float]) -> int:
    """How many pairs of responses have equal values, those without a value aside."""
    times = Counter(value for value in values if value != MISSING)
    return sum(number * (number - 1) // 2 for number in times.values())


def _labels(group: Group, attribute: str) -> list[float]:
    """Each response's label of one attribute, -100 where it has none."""
    return [
        label_vector(response.labels, group.attributes, (attribute,))[0]
        for response in group.responses
    ]


def labels_of(groups: Iterable[Group], attribute: str) -> np.ndarray:
    """Every response's label of one attribute, in order: float64 [R], nan where it has none."""
    labels = []
    for group in groups:
        labels += _labels(group, attribute)
    return np.where(np.equal(labels, MISSING), np.nan, labels)


def preferences_of(groups: Iterable[Group]) -> np.ndarray:
    """Half of a group's preference for each side, in order: float64 [R], nan where it has none.

    A response with the higher number is the better one of its pair.
    """
    values = []
    for group in groups:
        values += _compared_values(group, "")
    return np.where(np.equal(values, MISSING), np.nan, values)


def best_worst_pairs(
    groups: Iterable[Group], scores: Sequence[float]
) -> tuple[list[Group], dict[str, int]]:
    """Pairs of each group's best and worst response, chosen before rejected; ties are dropped.

    Paper: section 4.3, "Iterative DPO" (best against worst goodness of 10 samples). Of equally good
    responses the first counts. The pair's `preference` is rejected minus chosen: it is negative,
    for the first is better.

    Args:
        groups: of any number of responses.
        scores: [R], one for every response of the groups in order, nan for one that is not used.

    Returns:
        The pairs, and counts of groups, pairs, ties, and groups with fewer than two scores.

    Raises:
        ValueError: the responses and the scores differ in number.
    """
    groups = list(groups)
    scores = np.asarray(scores, dtype=np.float64)  # [R]
    sizes = [len(group.responses) for group in groups]
    if scores.shape != (sum(sizes),):
        raise ValueError(f"{sum(sizes)} responses need a score each, got shape {scores.shape}")
    pairs = []
    counts = {"groups": len(groups), "pairs": 0, "ties": 0, "fewer than two scores": 0}
    scores_by_group = np.split(scores, np.cumsum(sizes))  # and an empty array behind the last group
    for group, group_scores in zip(groups, scores_by_group, strict=False):
        if (~np.isnan(group_scores)).sum() < 2:
            counts["fewer than two scores"] += 1
        elif np.nanmin(group_scores) == np.nanmax(group_scores):
            counts["ties"] += 1
        else:
            best = np.nanargmax(group_scores)
            worst = np.nanargmin(group_scores)
            pair = replace(
                group,
                responses=(group.responses[best], group.responses[worst]),
                preference=float(group_scores[worst] - group_scores[best]),
                preferences=(),
            )
            pairs.append(pair)
            counts["pairs"] += 1
    return pairs, counts


def cluster(group: Group) -> str:
    """The conversation's first message: groups that share it must be on one side of a split.

    The groups of one Open Assistant tree begin alike, and so do the two HelpSteer2 pairs of one
    prompt. A group without a user's turn is known by its id.
    """
    return next((turn.text for turn in group.prompt if turn.role == "user"), group.id)


def cut(groups: Iterable[Group], shares: dict[str, float], seed: int = 0) -> dict[str, list[Group]]:
    """Groups cut at random into named parts, whole clusters together.

    The last part gets what the others leave. Deterministic in seed and the clusters' names.

    Args:
        groups: to cut.
        shares: of the clusters, by the part's name, adding up to 1.
        seed: of the cut.

    Raises:
        ValueError: the shares do not add up to 1, or a part with a share would be empty.
    """
    groups = list(groups)
    fractions = list(shares.values())
    # Where a share is 1 minus the others, rounding may leave it just below 0.
    if not math.isclose(sum(fractions), 1) or min(fractions) < -1e-9:
        raise ValueError(
            f"shares are fractions from 0 that add up to 1, got {shares}, "
            f"which add up to {sum(fractions):g}"
        )
    clusters = sorted({cluster(group) for group in groups})
    ranks = np.random.default_rng(seed).permutation(len(clusters))
    stops = np.rint(np.cumsum(fractions) * len(clusters))
    part_numbers = np.searchsorted(stops, ranks, side="right")
    part_of = dict(zip(clusters, part_numbers, strict=True))
    parts = {}
    for number, name in enumerate(shares):
        parts[name] = [group for group in groups if part_of[cluster(group)] == number]
    empty = [name for name, share in shares.items() if share > 1e-9 and not parts[name]]
    if empty:
        raise ValueError(
            f"{len(clusters)} different first messages leave no group for {', '.join(empty)}"
        )
    return parts


def tokens(token_groups: Iterable[Sequence]) -> int:
    """Tokens that groups of sequences are as prefix trees: what they share is counted once."""
    return sum(len(batch.tokens) for batch in plan(token_groups))


def digest(items: Sequence[Item]) -> str:
    """A digest of ids, tokens and targets: two runs on the same items have the same."""
    hasher = hashlib.sha256()
    for item in items:
        hasher.update(f"{item.id}\0{item.starts}".encode() + item.targets.tobytes())
        for sequence in item.sequences:
            hasher.update(np.asarray(sequence, np.int32).tobytes() + b"\0")
    return hasher.hexdigest()[:16]


def order(ids: Sequence[str], seed: int) -> Iterator[int]:
    """Positions of items, epoch after epoch without end.

    Each epoch's order follows from (seed, epoch) and the ids.
    """
    by_id = sorted(range(len(ids)), key=ids.__getitem__)
    for epoch in count():
        permutation = np.random.default_rng((seed, epoch)).permutation(len(ids))
        for rank in permutation:
            yield by_id[rank]


def shares(
    positions: Iterable[int], recipe: "Recipe", process: int, processes: int
) -> list[list[int]]:
    """What one process trains on: positions of items, batch by batch.

    All processes together make the global batches. Paper: silent.

    Args:
        positions: of the items of all global batches, one after the other.
        recipe: its batch and accumulation count.
        process: number of this process, from 0.
        processes: how many there are.

    Returns:
        Lists of batch / (processes x accumulation) positions.
    """
    size = recipe.batch // (processes * recipe.accumulation)
    positions = list(positions)
    starts = range(process * size, len(positions), size * processes)
    return [positions[start : start + size] for start in starts]


def _items(
    model: nn.Module,
    groups: list[Group],
    targets: Callable[[Group], np.ndarray],
    too_long: str,
    no_items: str,
) -> tuple[list[Item], dict[str, int]]:
    """Items of the groups that have a target and fit the model, and counts.

    Args:
        model: a reward model.
        groups: all groups.
        targets: gives the targets of a group, float32 [G, k].
        too_long: as for `rated`.
        no_items: the error message where there is no item.
    """
    admitted = [model.admitted(group) for group in groups]
    labelled = []  # groups of the responses that have a target
    labelled_targets = []  # float32 [G, k] each
    for group in admitted:
        values = targets(group)
        rows = [row for row, value in enumerate(values) if (value != MISSING).any()]
        if rows:
            labelled.append(replace(group, responses=tuple(group.responses[row] for row in rows)))
            labelled_targets.append(values[rows])
    token_groups = list(model.tokenise(labelled, too_long=too_long))  # None where it does not fit
    items = []
    shortened = 0
    for values, tokenised in zip(labelled_targets, token_groups, strict=True):
        if tokenised is None:
            continue
        items.append(Item(tokenised.group.id, tokenised.sequences, values, tokenised.starts))
        if tokenised.dropped > 0:
            shortened += 1
    if not items:
        raise ValueError(no_items)
    counts = {
        "groups": len(items),
        "responses": sum(len(item.sequences) for item in items),
        "labels": sum(int((item.targets != MISSING).sum()) for item in items),
        "unrated_responses": _n_responses(admitted) - _n_responses(labelled),
        "refused_responses": _n_responses(groups) - _n_responses(admitted),
        "groups_without_target": len(groups) - len(labelled),
        "shortened_groups": shortened,
        "too_long": len(token_groups) - len(items),
        "tokens": tokens(item.sequences for item in items),
        "tokens_one_by_one": sum(len(ids) for item in items for ids in item.sequences),
    }
    return items, counts


def _n_responses(groups: Iterable[Group]) -> int:
    return sum(len(group.responses) for group in groups)
