"""Groups as tables and arrays: responses, annotators' ratings, which rows were released.

rows = table(loaded.groups)                   # one row a response, for hs2lib.stats.describe
ratings, group = ratings_array(loaded.groups) # [rows, N, A], for hs2lib.stats.agreement
"""

from array import array
from collections import defaultdict, deque
from collections.abc import Iterable

import numpy as np
import pandas as pd

from hs2lib.group import ATTRIBUTES, Group, prompt_string


def table(groups: Iterable[Group]) -> pd.DataFrame:
    """One row per response, without the texts: a million rows take about 80 MB.

    Consumes an iterator, so groups can be streamed. Columns: group and response (int64, positions
    from 0), turns, prompt_chars, response_chars (int64), then one float column per attribute, nan
    where unlabelled. Paper: Table 2 (turns and characters as it counts them, on the prompt string).
    Raises ValueError if groups differ in attributes.
    """
    names = ("group", "response", "turns", "prompt_chars", "response_chars")
    numbers, labels, attributes = array("q"), array("d"), None
    for index, group in enumerate(groups):
        attributes = _same_attributes(attributes, group)
        n_turns, chars = len(group.prompt), len(prompt_string(group.prompt))
        unrated = (float("nan"),) * len(attributes)
        for position, response in enumerate(group.responses):
            numbers.extend((index, position, n_turns, chars, len(response.text)))
            labels.extend(response.labels or unrated)
    attributes = ATTRIBUTES if attributes is None else attributes
    by_name = np.frombuffer(numbers, dtype=np.int64).reshape(-1, len(names))  # [rows, 5]
    by_attribute = np.frombuffer(labels, dtype=np.float64).reshape(
        len(by_name), len(attributes)
    )  # [rows, A]
    columns = {name: by_name[:, i] for i, name in enumerate(names)}
    return pd.DataFrame(columns | {name: by_attribute[:, a] for a, name in enumerate(attributes)})


def ratings_array(groups: Iterable[Group]) -> tuple[np.ndarray, np.ndarray]:
    """The annotators' raw ratings as one array, and which group each row belongs to.

    Returns (ratings float64 [rows, N, A], group_index int64 [rows]); one row per response, in the
    order of `table`, N the most annotators of any response, nan where a response has fewer or none.
    Raises ValueError if groups differ in attributes.
    """
    index, rated, attributes = [], [], None
    for number, group in enumerate(groups):
        attributes = _same_attributes(attributes, group)
        index += [number] * len(group.responses)
        rated += [response.ratings for response in group.responses]
    attributes = ATTRIBUTES if attributes is None else attributes
    out = np.full((len(rated), max(map(len, rated), default=0), len(attributes)), np.nan)
    for row, ratings in zip(out, rated, strict=True):
        row[: len(ratings)] = ratings or np.nan
    return out, np.array(index, dtype=np.int64)


def _same_attributes(attributes: tuple[str, ...] | None, group: Group) -> tuple[str, ...]:
    if attributes is not None and group.attributes != attributes:
        what = f"group {group.id} has attributes {group.attributes}, earlier ones {attributes}"
        raise ValueError(f"{what}: make a table of each")
    return group.attributes


def released_rows(groups: Iterable[Group], released: Iterable[Group]) -> np.ndarray:
    """Which released row each row of `groups` became: int64 [rows], a row number of
    table(released), -1 if dropped.

    Rows are matched by (prompt, response), the only key that HelpSteer2's disagreements share with
    the released rows; of rows with equal texts each is matched once, in order. Paper: section 2.1
    (about 10 % of samples removed).
    """
    waiting: defaultdict[tuple, deque[int]] = defaultdict(deque)
    rows = ((group.prompt, response.text) for group in released for response in group.responses)
    for row, key in enumerate(rows):
        waiting[key].append(row)
    keys = ((group.prompt, response.text) for group in groups for response in group.responses)
    return np.array(
        [waiting[key].popleft() if waiting[key] else -1 for key in keys], dtype=np.int64
    )
