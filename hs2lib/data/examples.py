"""Responses that show what a rating means: one for each level, and pairs one level apart.

    at_levels(groups, "coherence")   # 0 .. 4 -> a typical response of that rating
    one_apart(groups, "coherence")   # a prompt whose two responses differ in coherence alone
    longer_one(groups, better=True)  # a prompt whose longer response is much the better
    a_few(groups, 12)                # groups that a loop without micro-batches can hold

Nothing is picked by hand. Paper: appendix G.3.2 shows rated examples; these are others.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from hs2lib.group import Group, Response
from hs2lib.world import sets

LEVELS = range(5)


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


def at_levels(
    groups: Iterable[Group], attribute: str, levels: Sequence[int] = LEVELS
) -> dict[int, tuple[Group, Response]]:
    """A typical response of each level of an attribute that any response has.

    Of the responses to single-turn prompts with that rating those count on which the raters agree
    best. Of them it is the one whose other ratings lie nearest to their mean; of equal ones the
    first.

    Args:
        groups: rated.
        attribute: whose levels are wanted.
        levels: ratings, rounded to whole points.
    Raises: ValueError where the groups are not rated on that attribute.
    """
    rated = [pair for group in groups if len(group.prompt) == 1 for pair in _rated(group)]
    chosen = {}
    if not rated:
        return chosen
    column = _column(rated[0][0], attribute)
    labels = np.array([response.labels for _, response in rated], dtype=float)  # [rows, A]
    spread = np.array([_spread(response, column) for _, response in rated])  # [rows]
    for level in levels:
        rows = np.flatnonzero(np.rint(labels[:, column]) == level)
        if len(rows):
            rows = rows[spread[rows] == spread[rows].min()]
            others = np.delete(labels[rows], column, axis=1)  # [rows, A - 1]
            distance = np.nansum((others - others.mean(axis=0)) ** 2, axis=1)
            chosen[level] = rated[rows[distance.argmin()]]
    return chosen


def one_apart(groups: Iterable[Group], attribute: str) -> Group | None:
    """The prompt whose two responses lie one point apart in an attribute and are else most alike.

    Single-turn prompts alone, and first those on which the raters agree best. Of equal ones it is
    that with the shortest texts; None where there is none.

    Raises: ValueError where the groups are not rated on that attribute.
    """
    best = None
    least = (np.inf, np.inf, np.inf)
    for group in groups:
        pair = _rated(group)
        if len(group.prompt) != 1 or len(pair) != 2:
            continue
        column = _column(group, attribute)
        labels = np.array([response.labels for _, response in pair], dtype=float)  # [2, A]
        gap = np.abs(labels[0] - labels[1])
        if np.rint(gap[column]) != 1 or np.isnan(gap).any():
            continue
        size = sum(len(response.text) for _, response in pair)
        spread = sum(_spread(response, column) for _, response in pair)
        ranked = (spread, np.delete(gap, column).sum(), size)
        if ranked < least:
            best = group
            least = ranked
    return best


def longer_one(groups: Iterable[Group], better: bool) -> Group | None:
    """The prompt of whose two responses the longer one is the better, or the worse, by 2 points.

    Better is more helpful, by 2 points or more. Single-turn prompts alone; of several it is the one
    whose responses differ most in length, relative to the shorter. None where there is none.

    Raises: ValueError where the groups are not rated on helpfulness.
    """
    best = None
    most = 1.0
    for group in groups:
        pair = _rated(group)
        if len(group.prompt) != 1 or len(pair) != 2:
            continue
        column = _column(group, "helpfulness")
        by_length = sorted(group.responses, key=lambda response: len(response.text))
        gain = by_length[1].labels[column] - by_length[0].labels[column]
        ratio = len(by_length[1].text) / max(len(by_length[0].text), 1)
        if ratio > most and (gain >= 2 if better else gain <= -2):
            best = group
            most = ratio
    return best


def _rated(group: Group) -> list[tuple[Group, Response]]:
    """The rated responses of a group, each with the group."""
    return [(group, response) for response in group.responses if response.labels]


def _spread(response: Response, column: int) -> float:
    """How far a response's ratings of an attribute lie apart; 0 where they are not known."""
    ratings = [rating[column] for rating in response.ratings]
    return max(ratings) - min(ratings) if ratings else 0.0


def _column(group: Group, attribute: str) -> int:
    """Where an attribute stands among the labels of a group."""
    if attribute not in group.attributes:
        raise ValueError(f"{attribute} is not rated here: {', '.join(group.attributes)}")
    return group.attributes.index(attribute)
