"""A few groups to look at, or to train on in a cell."""

from collections.abc import Sequence
from dataclasses import replace

from hs2lib.group import Group
from hs2lib.world import sets


def a_few(groups: Sequence[Group], n: int) -> list[Group]:
    """The first n groups; of real ones the quarter of them with the shortest texts, two at least.

    Real ones keep four responses at most. A loop without micro-batches holds all of them in memory
    at once. Paper: silent.
    """
    first = list(groups[:n])
    if sets.is_generated(first):
        return first

    def length(group: Group) -> int:
        turns = sum(len(turn.text) for turn in group.prompt)
        return sum(turns + len(response.text) for response in group.responses) or turns

    shortest = sorted(first, key=length)[: max(2, n // 4)]
    return [replace(group, responses=group.responses[:4]) for group in shortest]
