"""Groups as tables and arrays: responses, annotators' ratings, which rows were released.

rows = table(loaded.groups)                   # one row a response, for hs2lib.stats.describe
ratings, group = ratings_array(loaded.groups) # [rows, N, A], for hs2lib.stats.agreement
"""

from array import array
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import pandas as pd

from hs2lib.group import ATTRIBUTES, Group, Turn, prompt_string


def table(groups: Iterable[Group]) -> pd.DataFrame:
    """One row per response, without the texts: a million rows take about 80 MB.

    Groups are read one by one, so they can be streamed. Columns: group and response (int64,
    positions from 0), turns, prompt_chars, response_chars (int64), then one float column per
    attribute, nan where unlabelled. Paper: Table 2 (turns and characters as it counts them, on the
    prompt string). Raises ValueError if groups differ in attributes.
    """
    names = ("group", "response", "turns", "prompt_chars", "response_chars")
    numbers = array("q")
    labels = array("d")
    attributes = None
    for index, group in enumerate(groups):
        attributes = _same_attributes(attributes, group)
        n_turns = len(group.prompt)
        n_chars = len(prompt_string(group.prompt))
        unrated = (float("nan"),) * len(attributes)
        for position, response in enumerate(group.responses):
            numbers.extend((index, position, n_turns, n_chars, len(response.text)))
            labels.extend(response.labels or unrated)
    if attributes is None:
        attributes = ATTRIBUTES
    counts = np.frombuffer(numbers, dtype=np.int64).reshape(-1, len(names))  # [rows, 5]
    shape = (len(counts), len(attributes))
    scores = np.frombuffer(labels, dtype=np.float64).reshape(shape)  # [rows, A]
    columns = {name: counts[:, i] for i, name in enumerate(names)}
    for a, name in enumerate(attributes):
        columns[name] = scores[:, a]
    return pd.DataFrame(columns)


def shares_by_level(
    rows: pd.DataFrame, attributes: Sequence[str], scales: Mapping[str, tuple[float, float]]
) -> pd.DataFrame:
    """The share of rated responses at each level of each attribute, in % [attributes, levels].

    Ratings are rounded to whole levels. Where attributes have several scales, or one of more than
    `MOST_LEVELS` or fewer than three levels, the levels are fifths of each scale, 1 to 5. Paper:
    silent.

    Args:
        rows: of `table`.
        attributes: its columns.
        scales: the lowest and the highest rating of each.
    """
    ends = {(float(scales[name][0]), float(scales[name][1])) for name in attributes}
    low, high = next(iter(ends))
    is_whole = low.is_integer() and high.is_integer() and 3 <= high - low + 1 <= MOST_LEVELS
    if len(ends) == 1 and is_whole:
        levels = range(int(low), int(high) + 1)
        levelled = rows[list(attributes)].round()
    else:
        levels = range(1, 6)
        columns = {}
        for name in attributes:
            low, high = scales[name]
            columns[name] = (5 * (rows[name] - low) / (high - low)).floordiv(1).clip(0, 4) + 1
        levelled = pd.DataFrame(columns)
    scores = levelled.melt(var_name="attribute", value_name="rating").dropna()
    counts = pd.crosstab(scores.attribute, scores.rating.astype(int), normalize="index")
    return 100 * counts.reindex(index=list(attributes), columns=levels, fill_value=0)


MOST_LEVELS = 11  # of a scale whose levels are shown one by one


def ratings_array(groups: Iterable[Group]) -> tuple[np.ndarray, np.ndarray]:
    """The annotators' raw ratings as one array, and which group each row belongs to.

    Returns (ratings float64 [rows, N, A], group_index int64 [rows]). There is one row per response,
    in the order of `table`. N is the most annotators of any response; ratings are nan where a
    response has fewer or none. Raises ValueError if groups differ in attributes.
    """
    group_index = []
    ratings_by_row = []
    attributes = None
    for index, group in enumerate(groups):
        attributes = _same_attributes(attributes, group)
        group_index += [index] * len(group.responses)
        ratings_by_row += [response.ratings for response in group.responses]
    if attributes is None:
        attributes = ATTRIBUTES
    n_annotators = max(map(len, ratings_by_row), default=0)
    out = np.full((len(ratings_by_row), n_annotators, len(attributes)), np.nan)  # [rows, N, A]
    for row, ratings in zip(out, ratings_by_row, strict=True):
        row[: len(ratings)] = ratings or np.nan
    return out, np.array(group_index, dtype=np.int64)


def _same_attributes(attributes: tuple[str, ...] | None, group: Group) -> tuple[str, ...]:
    """The attributes of a group; raises ValueError where those of earlier groups differ."""
    if attributes is not None and group.attributes != attributes:
        raise ValueError(
            f"group {group.id} has attributes {group.attributes}, earlier ones {attributes}: "
            "make a table of each"
        )
    return group.attributes


def released_rows(groups: Iterable[Group], released: Iterable[Group]) -> np.ndarray:
    """Which released row each row of `groups` became, int64 [rows]; -1 where it was dropped.

    A number is a row of table(released). Rows are matched by (prompt, response), the only key that
    HelpSteer2's disagreements share with the released rows. Of rows with equal texts each is
    matched once, in order. Paper: section 2.1 (about 10 % of samples removed).
    """
    waiting: defaultdict[tuple, deque[int]] = defaultdict(deque)
    for row, key in enumerate(_texts(released)):
        waiting[key].append(row)
    released_row = [waiting[key].popleft() if waiting[key] else -1 for key in _texts(groups)]
    return np.array(released_row, dtype=np.int64)


def _texts(groups: Iterable[Group]) -> Iterator[tuple[tuple[Turn, ...], str]]:
    """(prompt, response) of each row of the groups."""
    for group in groups:
        for response in group.responses:
            yield group.prompt, response.text
