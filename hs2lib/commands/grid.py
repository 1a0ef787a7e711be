"""A search: a run for each value of a setting, with a table and a figure of what they reached.

    hs2 run 08 --tier demo --grid beta=.1,.3,1 --seeds 2
    hs2 run 08 --tier paper --grid searched      # the paper's search: `searched:` in params/paper

The paper searched a rate or the weight of the KL penalty for nearly every method (sections 3 to
4.5), and chose by the validation loss (reward model) or by MT-Bench (policies).
"""

import argparse
import contextlib
import itertools
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from hs2lib import paths
from hs2lib.commands import named
from hs2lib.paths import read_json, reports, root, write
from hs2lib.runs import graph, key, parameters
from hs2lib.runs.parameters import ParameterError

if TYPE_CHECKING:
    import pandas as pd

SEARCHED = "searched"

# By what the best point is chosen: the first of these that all points have, and whether the lowest
# or the highest counts. A reward model has no score of answers.
CHOSEN_BY = (("true score", max), ("reward model's score", max), ("validation loss", min))


class Point(NamedTuple):
    """One point of a search: the values that are searched, and its runs, one a seed."""

    values: dict[str, str]
    runs: list[str]


def define(args: argparse.Namespace, undo: contextlib.ExitStack) -> list[Point]:
    """Define the runs of all points of a search.

    Args:
        args: the command line.
        undo: as for `named.define_runs`.

    Raises:
        ParameterError: a value is refused, or more than one notebook is named.
    """
    notebooks = graph.matching(args.run) if args.run else []
    if len(notebooks) != 1 or "@" in notebooks[0]:
        raise ParameterError("--grid searches for one notebook: hs2 run 08 --grid beta=.1,.3,1")
    notebook = notebooks[0]
    axes = _axes(args.grid, notebook, args.tier)
    points = []
    for chosen in itertools.product(*axes.values()):
        values = dict(zip(axes, chosen, strict=True))
        parts = [f"{name.rpartition('.')[2]}-{_as_name(value)}" for name, value in values.items()]
        run = f"{notebook}@{'-'.join([args.name, *parts] if args.name else parts)}"
        (run,) = graph.matching([run])  # raises where the name is none
        words = [*args.set, *[f"{name}={value}" for name, value in values.items()]]
        words += named.own_file_words(args, [run])
        named.define_runs([run], args.tier, words, args.reads, undo)
        points.append(Point(values, [graph.of_seed(run, more) for more in range(args.seeds)]))
    return points


def _as_name(value: str) -> str:
    """A value as a part of a run's name: my_loss.py-mine for my_loss.py:mine."""
    return re.sub(r"[^\w.-]+", "-", value)


def _axes(words: list[str], notebook: str, tier: str) -> dict[str, list[str]]:
    """The values to search by parameter, as texts."""
    known = named.settable(notebook)
    axes: dict[str, list[str]] = {}
    for word in words:
        if word == SEARCHED:
            axes |= _searched(notebook, known)
            continue
        name, is_given, values = word.partition("=")
        if name not in known:
            parameters.check({name: ""}, known, "--grid")  # raises, since the name is unknown
        if not is_given or not values:
            raise ParameterError(f"--grid {word}: write --grid {name}=V1,V2")
        axes[name] = [value.strip() for value in values.split(",")]
    for name, values in axes.items():
        for value in values:
            known[name].check(parameters.typed(value, known[name]), f"--grid {name}={value}")
        if len(set(values)) < len(values):
            raise ParameterError(f"--grid {name}={','.join(values)}: a value stands there twice")
    return axes


def _searched(notebook: str, known: dict[str, parameters.Parameter]) -> dict[str, list[str]]:
    """What the paper searched for a notebook's method, as `params/paper` says."""
    file = root() / "params" / "paper" / f"{notebook}.yaml"
    searched = parameters.searched(file)
    if not searched:
        raise ParameterError(f"--grid {SEARCHED}: {file} says nothing of a search")
    axes = {}
    for name, values in searched.items():
        whole = name if name in known else f"recipe.{name}"
        axes[whole] = [f"{value:g}" for value in values]
    return axes


# What it found.


def report(points: list[Point], tier: str) -> str:
    """Write the table and the figure of a search; returns in words which point is best.

    Both lie in `reports/<tier>/grids/`. A number is a mean over the seeds; the standard deviation
    over them stands beside it.
    """
    import pandas as pd

    from hs2lib.report.report import csv_text

    rows = []
    for point in points:
        found = [_numbers(run, tier) for run in point.runs]
        shared = set(found[0]).intersection(*found[1:])
        row: dict[str, object] = dict(point.values) | {"seeds": len(found)}
        for name in sorted(shared):
            values = pd.Series([one[name] for one in found])
            row[name] = values.mean()
            row[f"{name}, SD"] = values.std() if len(found) > 1 else float("nan")
        rows.append(row)
    table = pd.DataFrame(rows)
    searched = list(points[0].values)
    name = "-".join([points[0].runs[0].partition("@")[0], *searched])
    folder = reports() / tier / "grids"
    write(folder / f"{name}.csv", csv_text(table))
    said = _best(table, searched)
    if said is None:
        return f"The runs left no number that all of them have: {_shown(folder / name)}.csv"
    by, best = said
    _draw(table, searched, by, folder / f"{name}.png")
    about = {"runs": [run for point in points for run in point.runs], "chosen by": by}
    write(folder / f"{name}.json", json.dumps(about, indent=1) + "\n")
    columns = [*searched, "seeds", by, f"{by}, SD"]
    where = _shown(folder / name)
    values = ", ".join(f"{column} = {best[column]}" for column in searched)
    return "\n".join(
        [
            table[columns].to_string(index=False, float_format="{:.4g}".format),
            f"Best by {by}: {values} ({best[by]:.4g}). "
            "It was chosen by this number, which is a little too good for that reason.",
            f"Table and figure: {where}.csv, {where}.png",
        ]
    )


def _numbers(run: str, tier: str) -> dict[str, float]:
    """The main numbers that a run left."""
    return (read_json(key.result(run, tier, key.COMPUTE)) or {}).get("numbers", {})


def _best(table: "pd.DataFrame", searched: list[str]) -> "tuple[str, pd.Series] | None":
    """By what the best point is chosen, and its row; None where no number is shared by all."""
    for by, best in CHOSEN_BY:
        if by in table and table[by].notna().all():
            return by, table.loc[table[by] == best(table[by])].iloc[0]
    return None


def _draw(table: "pd.DataFrame", searched: list[str], by: str, file: Path) -> None:
    """Draw what each point reached, by the first setting, a line for each value of the others."""
    import matplotlib.pyplot as plt
    import pandas as pd

    first, *others = searched
    figure, axes = plt.subplots(figsize=(4.5, 3), layout="constrained")
    parts = table.groupby(others, sort=False) if others else [("", table)]
    line = "o-" if pd.to_numeric(table[first], errors="coerce").notna().all() else "o"
    for values, part in parts:
        label = ", ".join(map(str, values)) if others else None
        spread = part[f"{by}, SD"].to_numpy()
        axes.errorbar(part[first], part[by], yerr=spread, fmt=line, capsize=3, label=label)
    axes.set(xlabel=first, ylabel=by)
    if others:
        axes.legend(title=", ".join(others))
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=150)
    plt.close(figure)


def _shown(path: Path) -> str:
    """A path as it is printed."""
    return paths.place(path)
