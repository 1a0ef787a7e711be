"""Try head weights: pairs in the right order by section and by fault, under any weighting.

    try_weights.preset_table(scored, judged, weightings)   # for copies that do not run
    try_weights.preset_verdicts(judged, weightings)        # which fault is read under which
    try_weights.sliders(scored, judged, outputs, values)   # live: a slider an output

Paper: appendix H (its weights); silent on the rest.
"""

from collections.abc import Mapping, Sequence

import ipywidgets
import numpy as np
import pandas as pd

from hs2lib import paper
from hs2lib.corpus.one_fault import HARMLESS, change_of
from hs2lib.evaluate import by_fault, rewardbench
from hs2lib.evaluate.by_fault import Judged
from hs2lib.evaluate.rewardbench import Scored
from hs2lib.evaluate.weights import ON_BENCHMARK, ON_HELD_OUT, HeadSearch, Weighting

STEP = 0.05  # of a slider
RULES = ["longer wins", "shorter wins"]  # of length, as in `rewardbench.accuracy_table`
FAULT = "fault: "  # before the name of a fault, beside sections
NO_FILLER = "filler preferred away (harmless; 50 is ideal)"
GOODNESS = "goodness"  # the weighting that policies are trained on
STYLE_ALONE = ("complexity alone", "verbosity alone")


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
        of_fault = higher.groupby(faults, sort=False).mean()
        for fault in judged.table.fault:
            if fault != HARMLESS:
                shares[FAULT + fault] = of_fault[fault]
        shares[NO_FILLER] = of_fault[HARMLESS]
    return pd.Series(shares)


def preset_weights(search: HeadSearch | None, weighting: Weighting) -> dict[str, Sequence[float]]:
    """Weightings worth a look: the run's, goodness, each output alone, and the searched ones."""
    weights: dict[str, Sequence[float]] = {weighting.title: weighting.values}
    if search is None:
        return weights
    if set(paper.GOODNESS) <= set(search.outputs):
        weights[GOODNESS] = paper.head_weights("goodness", search.outputs)
    for name, alone in zip(search.outputs, np.eye(len(search.outputs)), strict=True):
        weights[f"{name} alone"] = alone
    weights[ON_HELD_OUT] = search.best_held_out.weights
    weights[ON_BENCHMARK] = search.fit.best.weights
    return weights


def preset_table(
    scored: Scored, judged: Judged | None, weightings: Mapping[str, Sequence[float]]
) -> pd.DataFrame:
    """Weightings across, sections and faults down, percent: for copies that do not run."""
    columns = {}
    for name, weights in weightings.items():
        columns[name] = shares_right(scored, judged, np.asarray(weights, dtype=np.float64))
    return pd.DataFrame(columns).rename_axis("pairs right (%)")


def preset_verdicts(
    judged: Judged, weightings: Mapping[str, Sequence[float]], **resampled: int
) -> pd.DataFrame:
    """Whether each fault is "read", "not read" or "liked" under each weighting, by its interval.

    Faults are down, named as in `preset_table`. The words are those of `by_fault.verdict_of`.

    resampled: n_boot and seed.
    """
    pair_faults = np.array([change_of(pair) for pair in judged.pairs])
    prompts = np.array(by_fault.prompts_of(judged.pairs))
    columns = {}
    for name, weights in weightings.items():
        scores = judged.values @ np.asarray(weights, dtype=np.float64)  # [pairs, 2]
        higher = 50 * (1 + np.sign(scores[:, 0] - scores[:, 1]))  # [pairs]
        words = {}
        for fault in judged.table.fault[judged.table.fault != HARMLESS]:
            here = pair_faults == fault
            share = by_fault.share_higher(higher[here], prompts[here], **resampled)
            bounds = {"95 % low": share.low, "95 % high": share.high}
            words[FAULT + fault] = by_fault.verdict_of(bounds)
        columns[name] = words
    return pd.DataFrame(columns)


def in_words(shares: pd.DataFrame, verdicts: pd.DataFrame) -> str:
    """Which faults the first weighting is not shown to read, and which weighting reads them best.

    shares: of `preset_table`. verdicts: of `preset_verdicts`, for the same weightings.
    """
    first = shares.columns[0]
    texts = []
    for name in verdicts.index[verdicts[first] != "read"]:
        fault = name.removeprefix(FAULT)
        readers = shares.loc[name][verdicts.loc[name] == "read"]
        reads = "no weighting tried reads it"
        if len(readers):
            reads = f"read best with {readers.max():.0f} % ({readers.idxmax()})"
        texts.append(f"{fault}: {shares.loc[name, first]:.0f} %, {reads}")
    if not texts:
        return f"Under {first} every fault is read."
    return (
        f"Faults that {first} are not shown to read: {'; '.join(texts)}. "
        f"Weightings tried: {shares.shape[1]}. No interval is corrected for their number."
    )


def limits_in_words(shares: pd.DataFrame, verdicts: pd.DataFrame) -> str:
    """What no weighting tried changes, and what the weights decide.

    shares: of `preset_table`. verdicts: of `preset_verdicts`, for the same weightings.
    """
    first = shares.columns[0]
    is_read = verdicts == "read"
    unread = is_read.index[~is_read.any(axis=1)]
    # Style alone is no measure of quality: what only its weightings miss is not decided by weights.
    of_quality = [name for name in shares if name not in STYLE_ALONE]
    is_decided = is_read.any(axis=1) & ~is_read[of_quality].all(axis=1)
    decided = is_read.index[is_decided]
    sections = shares[~shares.index.str.startswith((FAULT, NO_FILLER, "overall"))]
    texts = []
    if len(sections):
        hardest = sections[first].idxmin()
        texts.append(
            f"Under the weightings tried the hardest section has {_range(sections.loc[hardest])} "
            f"({hardest})."
        )
    if len(unread):
        texts.append(
            f"No weighting tried is shown to read: {_ranges(shares, unread)}. "
            "What no output holds, no weights can bring out: that needs another model."
        )
    ranges = _ranges(shares[of_quality], decided) or "no fault"
    texts.append(f"The weights decide, style alone left aside: {ranges}.")
    return " ".join(texts)


def goodness_in_words(shares: pd.DataFrame, verdicts: pd.DataFrame) -> str:
    """Which faults are not shown to be read by goodness; "" where that is not among the weightings.

    shares: of `preset_table`. verdicts: of `preset_verdicts`, for the same weightings.
    """
    if GOODNESS not in shares:
        return ""
    parts = []
    for name in verdicts.index[verdicts[GOODNESS] != "read"]:
        liked = ", liked" if verdicts.loc[name, GOODNESS] == "liked" else ""
        parts.append(f"{name.removeprefix(FAULT)} {shares.loc[name, GOODNESS]:.0f} %{liked}")
    if not parts:
        return "By goodness every fault is read."
    return f"By goodness these faults are not shown to be read: {'; '.join(parts)}."


def hardest_in_words(shares: pd.DataFrame, table: pd.DataFrame) -> str:
    """A section on which goodness does worse than a rule of length, with both shares.

    Of several it is that with the largest lead of the rule; "" where there is none.

    shares: of `preset_table`. table: of `rewardbench.accuracy_table`, for the same pairs.
    """
    if GOODNESS not in shares:
        return ""
    sections = table[table.part == "section"].set_index("name")
    rules = sections[[f"{rule} (%)" for rule in RULES]].set_axis(RULES, axis=1)
    leads = rules.max(axis=1) - shares[GOODNESS].reindex(rules.index)
    if not (leads > 0).any():
        return ""
    name = leads.idxmax()
    rule = rules.loc[name].idxmax()
    return (
        f"By goodness {name} has {shares.loc[name, GOODNESS]:.0f} %, and the rule *{rule}* "
        f"{rules.loc[name, rule]:.0f} %."
    )


def _range(shares: pd.Series) -> str:
    """The least and the most of shares, in percent."""
    return f"{shares.min():.0f} to {shares.max():.0f} %"


def _ranges(shares: pd.DataFrame, names: Sequence[str]) -> str:
    """`_range` of each of these faults over all weightings, the fault before it."""
    listed = [f"{name.removeprefix(FAULT)} ({_range(shares.loc[name])})" for name in names]
    return ", ".join(listed)


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
