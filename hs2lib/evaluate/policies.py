"""Policies side by side on the same prompts: means, differences paired by prompt, wins.

    table([*frames, frame], n_boot=1000, seed=seed)   # by policy: means and 95 % intervals
    gains_of([*frames, frame], "SFT")                 # differences from one policy
    wide(rows, [TRUTH, GREEDY])                       # either of them for a reader: policies down
    surer([*frames, frame], "DPO", "SFT")             # is it more than a lower temperature gives?
    wins([*frames, frame], "SFT")                     # of how many prompts one is truly better
    trades(of_benchmarks, "SFT")                      # differences on every benchmark

A frame has one row a response, as `hs2lib.evaluate.response_rows.evaluate` makes it. The names of
that module which notebooks use are here, too.

Paper: section 4 compares single figures of policies.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from hs2lib.evaluate.questions import mean
from hs2lib.evaluate.response_rows import GREEDY, KEYS, TRUTH, measures
from hs2lib.evaluate.response_rows import SCORE as SCORE
from hs2lib.evaluate.response_rows import evaluate as evaluate
from hs2lib.evaluate.response_rows import save as save
from hs2lib.evaluate.response_rows import score_of as score_of
from hs2lib.evaluate.response_rows import truth_of as truth_of
from hs2lib.evaluate.response_rows import weighted as weighted
from hs2lib.paper import GAIN
from hs2lib.paths import root, work
from hs2lib.runs.graph import makers
from hs2lib.stats.bootstrap import inside

BASE = "SFT"  # the policy that the others are compared with

# The columns of a table of measures; most tables have no note.
COLUMNS = ["measure", "policy", "mean", "95 % low", "95 % high", "note"]


def made(tier: str, models: Sequence[str] = ()) -> dict[str, Path]:
    """Every policy that a notebook makes, by title in the notebooks' order, and its folder.

    models: others in their place, "title=folder" each; a relative folder lies in the checkout.

    Raises ValueError for a folder that is not there.
    """
    folders = {}
    for text in models:
        title, _, folder = text.partition("=")
        folders[title] = root() / Path(folder).expanduser()
        if not (title and folder and folders[title].is_dir()):
            raise ValueError(f"models: expected title=folder, with a model in it, got {text}")
    if folders:
        return folders
    return {title: work(tier, notebook) / "policy" for notebook, title in makers("policy").items()}


def table(frames: Sequence[pd.DataFrame], **resampled: int) -> pd.DataFrame:
    """Rows (measure, policy, mean, 95 % low, 95 % high): intervals by bootstrap over prompts.

    Paper: silent (it prints no such table). Policies stand in the order given, each once.

    resampled: n_boot and seed.

    Raises ValueError where policies were evaluated on different prompts or under different
    settings, so that they cannot be compared.
    """
    joined = _joined(frames)
    by_policy = list(joined.groupby("policy", sort=False))
    rows = []
    for measure in measures(joined):
        for policy, part in by_policy:
            interval = mean(part[measure], part.prompt, **resampled)
            if measure == "finished":  # a share
                interval = inside(interval, 0, 1, part.prompt.nunique())
            rows.append((measure, policy, *interval))
    return pd.DataFrame(rows, columns=COLUMNS[:-1])


def gains_of(frames: Sequence[pd.DataFrame], against: str, **resampled: int) -> pd.DataFrame:
    """Rows (measure, policy, minus AGAINST, 95 % low, 95 % high): differences of means.

    Paired: both policies are seen on the same resamples of the same prompts, so that what the
    prompts have in common cancels. Two intervals of `table` that overlap say nothing about this.

    against: the policy from which the others differ.
    resampled: n_boot and seed.

    Raises as `table`, and for an unknown policy.
    """
    joined = _joined(frames)
    policies = list(joined.policy.unique())
    if against not in policies:
        raise ValueError(f"no policy is called {against!r}; there are: {', '.join(policies)}")
    rows = []
    for measure in measures(joined):
        means = joined.groupby(["policy", "prompt"], sort=False)[measure].mean()
        for policy in policies:
            if policy == against:
                continue
            difference = means[policy] - means[against]  # [prompts]
            rows.append((measure, policy, *mean(difference, difference.index, **resampled)))
    columns = ["measure", "policy", f"minus {against}", "95 % low", "95 % high"]
    return pd.DataFrame(rows, columns=columns)


def wide(rows: pd.DataFrame, measures: Sequence[str], digits: int = 2) -> pd.DataFrame:
    """Measures by policy for a reader: policies down, `mean [low, high]`.

    Paper: silent.

    rows: as from `table` or `gains_of`.
    measures: those to show; one that the rows lack is left out.
    digits: decimals.
    """
    sign = "+" if rows.columns[2].startswith("minus") else ""
    number = f"{{:{sign}.{digits}f}}"
    texts = {}
    for measure, policy, value, low, high in rows.iloc[:, :5].itertuples(index=False):
        interval = f"[{number.format(low)}, {number.format(high)}]"
        texts[measure, policy] = f"{number.format(value)} {interval}"
    shown = pd.Series(texts).unstack(0)
    policies = rows.policy.unique()
    return shown.reindex(index=policies, columns=[name for name in measures if name in shown])


def headline(gains: pd.DataFrame, policy: str) -> str:
    """A figure's title: what a policy gains by the truth, where it is known, and by the score.

    The greedy answers have a line of their own, where their truth is known; the last line is of
    sampled answers. A gain whose interval holds 0 is called not shown.

    gains: as from `gains_of`.
    """
    against = gains.columns[2].partition(" ")[2]
    of_policy = gains[gains.policy == policy].set_index("measure")
    lines = []
    if GREEDY in of_policy.index:
        _, *gain = of_policy.loc[GREEDY]
        lines.append(f"greedy: {gain_in_title(TRUTH, *gain)}")
    changes = []
    for measure in (TRUTH, SCORE):
        if measure not in of_policy.index:
            continue
        _, *gain = of_policy.loc[measure]
        changes.append(gain_in_title(measure, *gain))
    lines.append(f"sampled: {', '.join(changes) or 'not scored'}")
    return f"{policy} less {against}, " + "\n".join(lines)


def gain_in_title(measure: str, gain: float, low: float, high: float) -> str:
    """A gain as a title has it, called not shown unless its interval lies on one side of 0.

    By hand: .5 with 0 to 1 is "truth +0.50 (not shown)". So is a gain without an interval.
    """
    is_shown = low > 0 or high < 0
    return f"{measure} {gain:+.2f}{'' if is_shown else ' (not shown)'}"


def surer(frames: Sequence[pd.DataFrame], policy: str, against: str, **resampled: int) -> list[str]:
    """Whether a policy gains more than a lower temperature would give the other one for nothing.

    A policy that only became surer of the same answers gains where both sample, and not where both
    take the likeliest token. Paper: silent.

    frames: of both policies among others.
    policy: the one that was trained.
    against: the one that it began with.
    resampled: n_boot and seed.

    Returns sentences; none where the truth is not known.
    """
    joined = _joined(frames)
    if TRUTH not in joined:
        return []
    of_prompt = joined.groupby(["policy", "prompt"], sort=False)
    sampled = of_prompt[TRUTH].mean()
    greedy = of_prompt[GREEDY].mean()
    differences = {
        "sampled": sampled[policy] - sampled[against],
        "greedy": greedy[policy] - greedy[against],
        "colder": greedy[against] - sampled[against],
    }
    words = {}
    gains = {}
    for name, difference in differences.items():
        value, low, high = mean(difference, difference.index, **resampled)
        words[name] = f"{value:+.2f} ({low:+.2f} to {high:+.2f})"
        gains[name] = low > 0
    if gains["greedy"]:
        reading = (
            f"On this seed {policy} gains at T = 0 too, so here it is not only surer. "
            "Another seed may show otherwise."
        )
    elif gains["sampled"]:
        reading = f"Greedy, {policy} is not shown to gain: it may only be surer of its answers."
    else:
        reading = f"{policy} is not shown to gain in either way."
    return [
        f"The truth of {policy} less {against}: {words['sampled']} where both sample, "
        f"{words['greedy']} where both take the likeliest token (T = 0). {reading}",
        f"A lower temperature alone, {against} at T = 0 less {against} sampled: {words['colder']}.",
    ]


# What a reader looks at first.
MAIN = (GREEDY, TRUTH, SCORE, "characters", "kl")


def wins(frames: Sequence[pd.DataFrame], against: str, **resampled: int) -> pd.DataFrame:
    """Of how many prompts, in per cent, a policy's answers are truly better than another's.

    Paper: silent (its win rates are a judge's). In the form of `table`, from the column `TRUTH`.
    Ties count half.

    against: the other policy.
    resampled: n_boot and seed.

    Raises as `table`.
    """
    truth = _joined(frames).pivot_table(
        TRUTH, "prompt", "policy", sort=False
    )  # [prompts, policies]
    differences = truth.sub(truth[against], axis=0).round(9)
    won = 50 + 50 * np.sign(differences).drop(columns=against)
    measure = f"win rate over {against} by truth, %"
    rows = []
    for policy in won:
        interval = inside(mean(won[policy], won.index, **resampled), 0, 100, len(won))
        rows.append((measure, policy, *interval))
    return pd.DataFrame(rows, columns=COLUMNS[:-1])


def _joined(frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """The rows of all frames, those of one response once, where policies can be compared."""
    joined = pd.concat(frames, ignore_index=True)
    joined = joined.drop_duplicates(["policy", "response"], keep="last")
    prompts_of = joined.groupby("policy", sort=False).prompt.agg(frozenset)
    for policy, prompts in prompts_of.items():
        lone = sorted(prompts ^ prompts_of.iloc[0])
        if lone:
            raise ValueError(
                f"{prompts_of.index[0]} and {policy} were evaluated on different prompts: "
                f"{lone[0]} is of one only"
            )
    if joined.settings.nunique() > 1:
        one, other = joined.settings.unique()[:2]
        raise ValueError(f"policies were evaluated under different settings: {one!r} and {other!r}")
    return joined


def benchmark_gains(
    of_benchmarks: Sequence[Sequence[pd.DataFrame]], against: str, **resampled: int
) -> pd.DataFrame:
    """What every policy gains over one of them, `against`, on every measure of every benchmark.

    Paper: section 4.6 compares single figures. Here both policies are seen on the same resamples of
    the same questions (`gains_of`). Questions where a verdict is missing for any policy are left
    out of that measure for all.

    of_benchmarks: for each benchmark the frames of its policies, as
        `hs2lib.evaluate.grading.Judged.by_question` makes them.
    against: the policy from which the others differ.
    resampled: n_boot and seed.

    Returns the columns benchmark, measure, policy, against, questions, then `GAIN`, the difference
    and its 95 % interval. `hs2lib.report.claims` reads whole benchmarks under their own names.
    """
    tables = []
    for frames in of_benchmarks:
        joined = pd.concat(frames, ignore_index=True)
        for measure in measures(joined):
            unread = set(joined.prompt[joined[measure].isna()])
            complete = joined.loc[~joined.prompt.isin(unread), [*KEYS, measure]]
            if complete.empty:
                continue
            gains = gains_of([complete], against, **resampled)
            gains = gains.rename(columns={f"minus {against}": GAIN[0]})
            gains["benchmark"] = joined.settings[0]
            gains["against"] = against
            gains["questions"] = complete.prompt.nunique()
            tables.append(gains)
    columns = ["benchmark", "measure", "policy", "against", "questions", *GAIN]
    return pd.concat(tables, ignore_index=True)[columns]
