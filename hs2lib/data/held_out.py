"""The held-out rows of a training on a file of one's own, which it leaves for whoever measures it.

    write(path, data.groups["test"], loaded)  # notebook 05
    benchmark = pairs(path, weights)          # notebook 06: its pairs, as a benchmark

The file lies in the run folder, beside the model. It says what the model never saw, also where the
user's file has changed since.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from itertools import combinations
from pathlib import Path

import numpy as np

from hs2lib import paths
from hs2lib.data.compared import chosen_first
from hs2lib.data.load import Loaded
from hs2lib.data.pairs import Benchmark
from hs2lib.data.rows import DataError
from hs2lib.group import Group, Response, Turn

FILE = "held-out.json"


def write(path: Path, groups: Iterable[Group], loaded: Loaded) -> Path:
    """Write held-out groups; loaded: the data that they were cut off, for its source."""
    content = {"source": loaded.source, "groups": [asdict(group) for group in groups]}
    paths.write(path, json.dumps(content, ensure_ascii=False) + "\n")
    return path


def read(path: Path) -> tuple[list[Group], str]:
    """The groups that `write` wrote, and their source."""
    content = json.loads(path.read_text())
    groups = []
    for entry in content["groups"]:
        entry["prompt"] = tuple(Turn(**turn) for turn in entry["prompt"])
        entry["responses"] = tuple(_response(response) for response in entry["responses"])
        entry["attributes"] = tuple(entry["attributes"])
        entry["preferences"] = tuple(entry["preferences"])
        groups.append(Group(**entry))
    return groups, content["source"]


def _response(entry: dict) -> Response:
    ratings = tuple(tuple(ratings_of_one) for ratings_of_one in entry["ratings"])
    return Response(entry["id"], entry["text"], tuple(entry["labels"]), ratings)


def pairs(path: Path, weights: Mapping[str, float]) -> Benchmark:
    """All pairs of held-out responses to one prompt of which one is better, as own pairs.

    A group with a preference is a pair by it. Of rated responses the one with the larger weighted
    sum of its labels is better; equal ones make no pair. A response that lacks a label is left out.
    Paper: silent.

    Args:
        path: of `write`.
        weights: of each attribute. One that is not named has none.

    Raises:
        DataError: no held-out prompt has two responses of which one is better.
    """
    groups, source = read(path)
    all_pairs = []
    for group in groups:
        if group.preference is not None:
            all_pairs += _preferred(group)
        else:
            all_pairs += _rated(group, weights)
    if not all_pairs:
        raise DataError(
            path,
            None,
            None,
            f"none of {len(groups):,} held-out prompts has two responses of which one is better",
            "measure on pairs of your own, -p path=pairs.csv, or rate two responses to a prompt",
        )
    title = f"held-out rows of {source}"
    read_files = paths.digests_by_place(path)
    return Benchmark(tuple(all_pairs), "own", title, read=read_files)


def _preferred(group: Group) -> list[Group]:
    """A group with a preference as a pair, the better response first; none where it is a tie."""
    if not group.preference or len(group.responses) != 2:
        return []
    first, second = group.responses
    if group.preference > 0:
        first, second = second, first
    return [_pair(group, first, second, 0)]


def _rated(group: Group, weights: Mapping[str, float]) -> list[Group]:
    """All pairs of a rated group."""
    columns = [k for k, name in enumerate(group.attributes) if weights.get(name)]
    by_column = np.array([weights[group.attributes[k]] for k in columns])
    rated = []
    for response in group.responses:
        if response.labels:
            total = np.array(response.labels)[columns] @ by_column
            rated.append((round(float(total), 9), response))  # equal sums differ in their last bit
    all_pairs = []
    for (total, response), (other_total, other) in combinations(rated, 2):
        if total > other_total:
            all_pairs.append(_pair(group, response, other, len(all_pairs)))
        elif total < other_total:
            all_pairs.append(_pair(group, other, response, len(all_pairs)))
    return all_pairs


def _pair(group: Group, chosen: Response, rejected: Response, number: int) -> Group:
    name = f"held-out/{group.id.replace('/', '-')}-{number}"
    return chosen_first(name, group.prompt, chosen.text, rejected.text, group.source)
