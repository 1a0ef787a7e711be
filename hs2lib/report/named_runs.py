"""Named runs beside a notebook's own: what one change does, seed by seed.

    rows = named_runs.beside(setup, overall_of, here)
    named_runs.in_words(rows, setup, "overall", "points")

Notebooks 05 and 06 have a named run for each comparison that section 3 of the paper speaks of. A
run counts only where nothing but its own parameters differs from the notebook's. Where they were
not run, one line says how to run them. Paper: section 3.
"""

import json
from collections.abc import Callable
from dataclasses import asdict

import numpy as np
import pandas as pd
from scipy import stats

from hs2lib import paths
from hs2lib.report import tables
from hs2lib.report.report import CompletedRun
from hs2lib.runs import graph
from hs2lib.runs.parameters import ParameterError
from hs2lib.runs.setup import Setup

# Named run -> what it changes, in words.
CHANGES = {
    "preferences": "Bradley-Terry on preferences in place of regression on ratings",
    "one-attribute": "one output, helpfulness, in place of five",
    "quarter": "a quarter of the rated prompts",
}

COLUMNS = ["name", "where", "seeds", "own", "named", "difference", "95 % low", "95 % high"]


def beside(setup: Setup, value: Callable[[CompletedRun], float], here: float) -> pd.DataFrame:
    """A number of each named run beside that of the notebook's own run, of the same seeds.

    The user's reports are read; what these do not have is read from the published ones.

    Args:
        setup: of the notebook's own run, which goes on.
        value: reads the number from a complete run.
        here: the number of the run that goes on.

    Returns:
        Rows with `COLUMNS`. The difference is named less own, a mean over seeds with Student's
        interval; of one seed it has none. Empty where no named run counts.
    """
    if "@" in paths.run_name(setup.notebook):
        return pd.DataFrame(columns=COLUMNS)
    rows = []
    for where, root in (("here", paths.reports()), ("published", paths.published_reports())):
        runs = tables.seeds_of(setup.tier, [setup.notebook], root)
        own = _by_seed(runs.get(setup.notebook, []), value)
        if where == "here":
            own[0] = here
        for name in CHANGES:
            run = f"{setup.notebook}@{name}"
            seeds = [one for one in runs.get(run, []) if _differs_as_defined(one, run, setup)]
            named = _by_seed(seeds, value)
            both = sorted(own.keys() & named.keys())
            if both and name not in [row[0] for row in rows]:
                pairs = np.array([(own[seed], named[seed]) for seed in both])  # [seeds, 2]
                rows.append((name, where, len(both), *pairs.mean(axis=0), *_difference(pairs)))
    return pd.DataFrame(rows, columns=COLUMNS)


def in_words(
    rows: pd.DataFrame,
    setup: Setup,
    what: str,
    unit: str = "",
    digits: int = 1,
    *,
    published: bool = False,
) -> list[str]:
    """A sentence for each named run, and one line on how to run those that are missing.

    Args:
        rows: of `beside`.
        setup: of the notebook's own run.
        what: the number is, as "overall".
        unit: of a difference, as "points".
        digits: of the numbers.
        published: whether means over seeds stand beside it, so that a missing run lacks little.
    """
    if "@" in paths.run_name(setup.notebook):
        return []
    texts = []
    for row in rows.to_dict("records"):
        change = CHANGES[row["name"]]
        number = f"{what} {row['named']:.{digits}f} in place of {row['own']:.{digits}f}"
        difference = f"{row['difference']:+.{digits}f}{' ' if unit else ''}{unit}"
        if row["seeds"] > 1:
            low = row["95 % low"]
            high = row["95 % high"]
            clear = (
                "clearly more" if low > 0 else "clearly less" if high < 0 else "not clearly other"
            )
            about = f"mean of {row['seeds']} seeds, {low:.{digits}f} to {high:.{digits}f}: {clear}"
        else:
            about = "one seed, so no cause is shown"
        published = ", published" if row["where"] == "published" else ""
        texts.append(f"{change.capitalize()}: {number}, {difference} ({about}{published}).")
    missing = [name for name in CHANGES if name not in set(rows.name)]
    if missing:
        number = setup.notebook[:2]
        runs = " ".join(f"{number}@{name}" for name in missing)
        defined = all(_is_defined(f"{setup.notebook}@{name}", setup.tier) for name in missing)
        tier = setup.tier if defined else "demo"
        listed = "; ".join(CHANGES[name] for name in missing)
        command = f"`.venv/bin/hs2 run {number} {runs} --tier {tier}`"
        if published:
            texts.append(f"One seed of each, by this notebook: {command}.")
        else:
            texts.append(f"Not run here: {listed}. To compare: {command}.")
    return texts


def _by_seed(runs: list[CompletedRun], value: Callable[[CompletedRun], float]) -> dict[int, float]:
    """The number of each run by what was added to its seed."""
    return {graph.without_seed(run.notebook)[1]: value(run) for run in runs}


def _difference(pairs: np.ndarray) -> tuple[float, float, float]:
    """Mean of named - own [seeds, 2] with Student's interval; nan for the interval of one seed."""
    differences = pairs[:, 1] - pairs[:, 0]
    mean = float(differences.mean())
    n = len(differences)
    if n < 2:
        return mean, np.nan, np.nan
    half = stats.t.ppf(0.975, n - 1) * differences.std(ddof=1) / np.sqrt(n)
    return mean, mean - half, mean + half


def _is_defined(run: str, tier: str) -> bool:
    """Whether a parameter file defines the run at the tier."""
    try:
        graph.definition(run, tier)
    except ParameterError:
        return False
    return True


def _differs_as_defined(one: CompletedRun, run: str, setup: Setup) -> bool:
    """Whether a run differs from the notebook's own run in no more than its definition says."""
    if not _is_defined(run, setup.tier):
        return False
    changed = graph.definition(run, setup.tier)[0]
    allowed = {"seed", "recipe", *changed, *changed.get("recipe", {})}
    of_run = one.manifest.get("parameters", {}) | one.manifest.get("recipe", {})
    recipe = asdict(setup.recipe) if setup.recipe else {}
    here = json.loads(json.dumps({**setup.values, **recipe}, default=str))
    differing = {key for key in here | of_run if here.get(key) != of_run.get(key)}
    return differing <= allowed
