"""A few groups to look at, or to train on in a cell."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from hs2lib.group import Group
from hs2lib.world import sets

PREFERRED = ("preferred",)  # the one attribute of pairs: 1 or 0


def with_ratings(groups: Sequence[Group]) -> list[Group]:
    """Groups as they are rated; of a pair without ratings the better response has 1, the other 0.

    So a loss of ratings can be shown on pairs, too. Of a tie both have a half. Paper: silent.
    """
    rated = []
    for group in groups:
        if group.preference is None or any(response.labels for response in group.responses):
            rated.append(group)
            continue
        second = (1 + np.sign(group.preference)) / 2  # positive: the second one is better
        responses = [
            replace(response, labels=(float(label),))
            for response, label in zip(group.responses, (1 - second, second), strict=True)
        ]
        rated.append(replace(group, attributes=PREFERRED, responses=tuple(responses)))
    return rated


def a_few(groups: Sequence[Group], n: int) -> list[Group]:
    """The first n groups; of real ones the quarter of them with the shortest texts, two at least.

    They are `with_ratings`. Real ones keep four responses at most. A loop without micro-batches
    holds all of them in memory at once. Paper: silent.
    """
    first = with_ratings(groups[:n])
    if sets.is_generated(first):
        return first

    def length(group: Group) -> int:
        turns = sum(len(turn.text) for turn in group.prompt)
        return sum(turns + len(response.text) for response in group.responses) or turns

    shortest = sorted(first, key=length)[: max(2, n // 4)]
    return [replace(group, responses=group.responses[:4]) for group in shortest]
