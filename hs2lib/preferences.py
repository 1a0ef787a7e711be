"""Preference pairs for DPO: the better and the worse of several responses, and the reference's log-probabilities.

pairs, counts = by_attribute(groups)                 # HelpSteer2: 10,162 train pairs, of which 7,221 are no ties
pairs, counts = by_score(sampled, goodness)          # iterative DPO: the best of n samples against the worst
found, report = items(policy, pairs, cache=folder)   # for train.fit(policy, found, .., dpo(beta), ..)
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from hs2lib.data import Group
from hs2lib.items import Item, Report, compared
from hs2lib.policy import Policy
from hs2lib.render import TokenGroup
from hs2lib.trees import BUDGET


def by_attribute(groups: Iterable[Group], attribute: str = "helpfulness") -> tuple[list[Group], dict[str, int]]:
    """Pairs by human ratings: the response with the highest label against the one with the lowest.

    Paper: section 4.3 ("we use the helpfulness attribute"; pairs with equal helpfulness are dropped: 7,221 of 10,162
    remain). HelpSteer2's groups are pairs by position, so a prompt that occurs twice gives two pairs. Returns as
    `by_score`. Raises ValueError where no group has the attribute, naming those there are.
    """
    groups = list(groups)
    named = sorted({name for group in groups for name in group.attributes})
    if attribute not in named:
        raise ValueError(f"no group has labels for {attribute!r}; there are: {', '.join(named)}")
    return by_score(groups, [score for group in groups for score in _labels(group, attribute)])


def by_score(groups: Iterable[Group], scores: Sequence[float]) -> tuple[list[Group], dict[str, int]]:
    """Groups of two responses, chosen before rejected: each group's best against its worst; ties are dropped.

    Paper: section 4.3, "Iterative DPO" (best against worst goodness of 10 samples). scores: [R], one for every
    response of the groups in order, nan for one that is not to be used; of equally good ones the first counts. The
    pair's `preference` is rejected minus chosen (negative, the first is better). Returns (pairs, counts): counts of
    groups, pairs, ties, and groups with fewer than two scores. Raises ValueError where numbers differ.
    """
    groups, scores = list(groups), np.asarray(scores, dtype=np.float64)
    if scores.shape != (responses := sum(len(group.responses) for group in groups),):
        raise ValueError(f"{responses} responses need a score each, got shape {scores.shape}")
    pairs, counts = [], {"groups": len(groups), "pairs": 0, "ties": 0, "fewer than two scores": 0}
    stop = 0
    for group in groups:
        start, stop = stop, stop + len(group.responses)
        there = np.flatnonzero(~np.isnan(scores[start:stop]))
        if len(there) < 2:
            counts["fewer than two scores"] += 1
            continue
        own = scores[start:stop][there]
        best, worst = own.argmax(), own.argmin()
        if own[best] == own[worst]:
            counts["ties"] += 1
            continue
        two = tuple(group.responses[there[i]] for i in (best, worst))
        pairs.append(replace(group, responses=two, preference=float(own[worst] - own[best]), preferences=()))
    counts["pairs"] = len(pairs)
    return pairs, counts


def items(
    reference: Policy,
    pairs: Iterable[Group],
    *,
    too_long: str = "raise",
    budget: int = BUDGET,
    autocast: torch.dtype | None = None,
    cache: Path | None = None,
) -> tuple[list[Item], Report]:
    """Items for `objectives.dpo`: targets [2, 2], the preference's value and log pi_ref(y|x) of each response.

    Paper: section 4.3 (the reference is the policy before training, so call this first). budget, autocast and cache as
    in `Policy.log_probs`: the reference runs once, and a repeated or killed run reads what is there. too_long and what
    is raised as in `items.compared`.
    """
    found, report = compared(reference, pairs, too_long=too_long)
    tokens = [TokenGroup(None, item.sequences, item.starts) for item in found]
    total, _ = reference.log_probs(tokens, budget=budget, autocast=autocast, cache=cache)
    by_item = total.numpy().reshape(len(found), 2)
    whole = (np.column_stack([item.targets, logp]) for item, logp in zip(found, by_item, strict=True))
    return [replace(item, targets=targets) for item, targets in zip(found, whole, strict=True)], report


def log_ratios(policy: Policy, pairs: Sequence[Item], **options) -> np.ndarray:
    """log pi(y|x) - log pi_ref(y|x) of the chosen and the rejected response of each item: float32 [pairs, 2], nats.

    Paper: section 4.3 (times beta they are the implicit rewards). options: as for `Policy.log_probs`.
    """
    total, _ = policy.log_probs([TokenGroup(None, item.sequences, item.starts) for item in pairs], **options)
    return total.numpy().reshape(len(pairs), 2) - np.stack([item.targets[:, 1] for item in pairs])


def _labels(group: Group, attribute: str) -> list[float]:
    at = group.attributes.index(attribute) if attribute in group.attributes else None
    return [math.nan if at is None or not r.labels else r.labels[at] for r in group.responses]
