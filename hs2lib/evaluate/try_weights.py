"""Try head weights: pairs in the right order by section and by fault, under any weighting.

    try_weights.preset_table(scored, judged, weightings)   # for copies that do not run
    try_weights.sliders(scored, judged, outputs, values)   # live: a slider an output

Paper: appendix H (its weights); silent on the rest.
"""

from collections.abc import Mapping, Sequence

import ipywidgets
import numpy as np
import pandas as pd

from hs2lib.corpus.one_fault import HARMLESS, change_of
from hs2lib.evaluate import rewardbench
from hs2lib.evaluate.by_fault import Judged
from hs2lib.evaluate.rewardbench import Scored
from hs2lib.evaluate.weights import HeadSearch, Weighting

STEP = 0.05  # of a slider
UNREAD = 60.0  # percent of pairs
FAULT = "fault: "  # before the name of a fault, beside sections


def shares_right(scored: Scored, judged: Judged | None, weights: np.ndarray) -> pd.Series:
    """Percent of pairs in the right order under these weights, by section, overall and by fault.

    A tie is wrong in a section, as in RewardBench, and counts half in a fault.

    Args:
        scored: the benchmark's pairs.
        judged: the pairs that differ in one fault; None where the pairs are real.
        weights: float64 [A].
    """
    scores = scored.values @ weights  # [pairs, 2]
    subsets = [rewardbench.subset_of(pair) for pair in scored.benchmark.pairs]
    right = pd.Series(100.0 * (scores[:, 0] > scores[:, 1]))
    by_subset = right.groupby(subsets, sort=False).mean().to_dict()
    shares = dict(by_subset)
    if scored.benchmark.kind != "own":
        rows = pd.Series(subsets).value_counts().to_dict()
        counts = None if scored.benchmark.generated else rows
        shares = rewardbench.section_scores(by_subset, counts)
    if judged is not None and judged.values is not None:
        of_faults = judged.values @ weights  # [pairs, 2]
        higher = pd.Series(50.0 * (1 + np.sign(of_faults[:, 0] - of_faults[:, 1])))
        faults = [change_of(pair) for pair in judged.pairs]
        by_fault = higher.groupby(faults, sort=False).mean()
        for fault in judged.table.fault:
            shares[FAULT + fault] = by_fault[fault]
    return pd.Series(shares)


def preset_weights(search: HeadSearch | None, weighting: Weighting) -> dict[str, Sequence[float]]:
    """Weightings worth a look: the run's, each output alone, and the one searched elsewhere."""
    weights: dict[str, Sequence[float]] = {weighting.title: weighting.values}
    if search is None:
        return weights
    for name, alone in zip(search.outputs, np.eye(len(search.outputs)), strict=True):
        weights[f"{name} alone"] = alone
    weights["searched on held-out pairs"] = search.best_held_out.weights
    return weights


def preset_table(
    scored: Scored, judged: Judged | None, weightings: Mapping[str, Sequence[float]]
) -> pd.DataFrame:
    """Weightings across, sections and faults down, percent: for copies that do not run."""
    columns = {}
    for name, weights in weightings.items():
        columns[name] = shares_right(scored, judged, np.asarray(weights, dtype=np.float64))
    return pd.DataFrame(columns).rename_axis("pairs right (%)")


def in_words(shares: pd.DataFrame) -> str:
    """Which faults the first weighting does not read, and which weighting reads them best."""
    first = shares.columns[0]
    faults = shares[shares.index.str.startswith(FAULT)]
    faults = faults.drop(index=f"{FAULT}{HARMLESS}", errors="ignore")
    texts = []
    for name, row in faults[faults[first] < UNREAD].iterrows():
        fault = name.removeprefix(FAULT)
        texts.append(f"{fault}: {row[first]:.0f} %, at best {row.max():.0f} % ({row.idxmax()})")
    if not texts:
        return f"Under {first} every fault is read in at least {UNREAD:.0f} % of its pairs."
    return (
        f"Faults of which {first} order fewer than {UNREAD:.0f} % of the pairs rightly: "
        f"{'; '.join(texts)}."
    )


def sliders(
    scored: Scored, judged: Judged | None, outputs: Sequence[str], weights: Sequence[float]
) -> ipywidgets.VBox:
    """A slider for each output from -1 to 1, and what the weights make of sections and faults.

    `children` are the sliders in the order of the outputs, then the view.

    outputs: of the model. weights: at which the sliders start.
    """
    handles = []
    for name, weight in zip(outputs, weights, strict=True):
        start = round(float(weight) / STEP) * STEP
        slider = ipywidgets.FloatSlider(start, min=-1, max=1, step=STEP, description=name)
        handles.append(slider)
    view = ipywidgets.HTML()
    before = shares_right(scored, judged, np.array(weights, dtype=np.float64))

    def show(_: object) -> None:
        chosen = np.array([slider.value for slider in handles])
        now = shares_right(scored, judged, chosen)
        table = pd.DataFrame({"at the start": before, "now": now, "change": now - before})
        view.value = table.to_html(border=0, float_format="%.1f")

    for slider in handles:
        slider.observe(show, "value")
    show(None)
    return ipywidgets.VBox([*handles, view])
