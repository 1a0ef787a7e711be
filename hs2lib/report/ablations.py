"""Section 3's own claims, in the small world: one thing changed, the same seeds, pairs ordered.

    rows = differences("demo", reports())   # a row for each thing that is changed
    sentences(rows)

Paper: section 3 and Table 3. It lays its reward model's success to regression on five attributes,
which uses data better than preferences do, and to the data. A named run of notebooks 05 and 06
takes one of these away.
"""

from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats

from hs2lib.report import tables
from hs2lib.runs import graph

NOTEBOOK = "06_rewardbench_evaluation"
OWN = "five attributes by regression"

# Named run -> what it has in the place of the notebook's own.
CHANGED = {
    "preferences": "preferences alone, under Bradley-Terry",
    "one-attribute": "helpfulness alone, by regression",
    "quarter": "a quarter of the data",
    "tiny-base": "a smaller base",
}

COLUMNS = ["run", "in its place", "seeds", "own, %", "changed, %", "difference", "low", "high"]


def differences(tier: str, root: Path) -> pd.DataFrame:
    """The notebook's own reward model less each that was trained otherwise, paired by seed.

    Columns: run; in its place; seeds; pairs ordered rightly by the notebook's own and by the
    changed one, the mean over these seeds, %; their difference, points, with Student's t interval
    over seeds, nan of one seed. Empty where no changed run of one recipe was generated.

    Paper: silent. Its Table 3 has one number a model.

    Args:
        tier: whose reports are read.
        root: folder of reports.
    """
    runs, _ = tables.of_one_recipe(tables.seeds_of(tier, [NOTEBOOK], root), root)
    own = _by_seed(runs.get(NOTEBOOK, []))
    rows = []
    for name, changed in CHANGED.items():
        other = _by_seed(runs.get(f"{NOTEBOOK}@{name}", []))
        seeds = sorted(own.keys() & other.keys())
        if not seeds:
            continue
        ours = np.array([own[seed] for seed in seeds])
        theirs = np.array([other[seed] for seed in seeds])
        difference = ours - theirs
        half = np.nan
        if len(seeds) > 1:
            error = difference.std(ddof=1) / len(seeds) ** 0.5
            half = stats.t.ppf(0.975, len(seeds) - 1) * error
        mean = difference.mean()
        interval = (mean - half, mean + half)
        rows.append((name, changed, len(seeds), ours.mean(), theirs.mean(), mean, *interval))
    return pd.DataFrame(rows, columns=COLUMNS)


def _by_seed(runs: list[tables.CompletedRun]) -> dict[int, float]:
    """Seed, counted from the first -> percent of pairs that are ordered rightly."""
    overall = {}
    for run in runs:
        accuracy = run.table("accuracy.csv") if run.generated else None
        if accuracy is not None:
            seed = graph.without_seed(run.notebook)[1]
            of_all = accuracy.loc[accuracy.part == "overall", "accuracy (%)"]
            overall[seed] = float(of_all.iloc[0])
    return overall


def sentences(rows: pd.DataFrame) -> list[str]:
    """A sentence for each thing that is changed: how much it costs, and whether seeds show it."""
    lines = []
    for row in rows.to_dict("records"):
        changed = row["in its place"]
        line = (
            f"**{changed[0].upper()}{changed[1:]}**: {row['changed, %']:.1f} % of the pairs, "
            f"against {row['own, %']:.1f} % with {OWN}"
        )
        if row["seeds"] == 1:
            line += "; one seed, from which nothing follows."
        else:
            line += f"; a difference of {row['difference']:+.1f} points over {row['seeds']} seeds "
            line += f"({row['low']:+.1f} to {row['high']:+.1f}), {_word(row)}."
        lines.append(line)
    return lines or ["No reward model was trained otherwise at this tier (`make matrix`)."]


def _word(row: dict) -> str:
    """What the interval of a difference says."""
    if row["low"] > 0:
        return "so the paper's way is better here"
    if row["high"] < 0:
        return "so the paper's way is worse here"
    return "so neither is shown to be better"
