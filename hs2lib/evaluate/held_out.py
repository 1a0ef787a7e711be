"""All policies on the same held-out prompts, from the rows that their notebooks left.

    beside = side_by_side(setup)
    beside.means, beside.gains       # by measure and policy; gains over start and SFT, paired
    over_start_and_sft(beside)       # two numbers for each policy, greedy and sampled
    sentences(beside)                # what they say of each method

Paper: silent. Its comparison, Table 4, needs judges; here the truth is known where the prompts are
of the small world.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np
import pandas as pd

from hs2lib.corpus import generate
from hs2lib.data.load import Loaded
from hs2lib.evaluate import policies, response_rows
from hs2lib.evaluate.policies import BASE, COLUMNS
from hs2lib.evaluate.questions import mean
from hs2lib.evaluate.response_rows import GREEDY, KEYS, SCORE, TRUTH
from hs2lib.group import Group
from hs2lib.models.saved import REWARD_MODEL
from hs2lib.paper import GAIN
from hs2lib.paths import digests_by_place
from hs2lib.report import published
from hs2lib.report.report import DASH
from hs2lib.runs.setup import Setup
from hs2lib.stats.bootstrap import Interval

# What the training of a policy begins with; that of any other begins with SFT.
STARTS = {"SFT": "base", "Iterative DPO": "DPO", "SteerLM 2.0": "SteerLM"}

COLUMNS_OF_GAINS = ["measure", "policy", "against", *GAIN]


def start_of(policy: str) -> str:
    """The policy that this one begins with, as in section 4 of the paper; "" for the base."""
    if policy == STARTS[BASE]:
        return ""
    return STARTS.get(policy.partition(", ")[0], BASE)


@dataclass(frozen=True)
class SideBySide:
    """Policies on the same prompts; everything is empty where none has left answers at this tier.

    prompts: those that were asked, as a data source.
    means: rows (measure, policy, mean, 95 % low, 95 % high) of the truth, greedy and sampled, the
        reward model's score, the win rate over SFT, and characters.
    gains: rows (measure, policy, against, gain, 95 % low, 95 % high): over the policy that training
        began with, and over SFT, paired by prompt.
    truth_known: whether the prompts are of the small world.
    temperature: of the sampled answers; nan where their settings do not say it.
    caption: what was asked.
    about_score: what notebook 05 says of the reward model; "" where it says nothing.
    by_prompt: the truth of greedy answers, prompts down, policies across.
    rows: those of all policies, one a sampled answer, as `response_rows.evaluate` makes them.
    """

    prompts: Loaded
    means: pd.DataFrame
    gains: pd.DataFrame
    truth_known: bool = False
    temperature: float = np.nan
    caption: str = ""
    about_score: str = ""
    by_prompt: pd.DataFrame = field(default_factory=pd.DataFrame)
    rows: pd.DataFrame = field(default_factory=pd.DataFrame)


def side_by_side(setup: Setup) -> SideBySide:
    """The policies of notebooks 07 to 12 at this tier, and the base, less those to `skip`.

    Raises as `policies.table`.
    """
    frames, read = _rows(setup)
    prompt_ids = list(frames[0].prompt.unique()) if frames else []
    truth_known = all(TRUTH in frame for frame in frames)
    name = "the held-out prompts of notebooks 07 to 12"
    prompts = Loaded(prompt_ids, name, truth_known, read=read)
    if not frames:
        empty = pd.DataFrame(columns=COLUMNS[:-1])
        return SideBySide(prompts, empty, pd.DataFrame(columns=COLUMNS_OF_GAINS))
    resampled = setup.recipe.resampled
    table = policies.table(frames, **resampled)
    shown = [measure for measure in (TRUTH, GREEDY, SCORE) if measure in set(table.measure)]
    means = [table[table.measure == measure] for measure in shown]
    if truth_known:
        means.append(policies.wins(frames, BASE, **resampled))
    means.append(table[table.measure == "characters"])
    asked, temperature = _asked(frames[0].settings.iloc[0])
    about_score = ""
    verdict = setup.saved(REWARD_MODEL, "model") / "verdict.txt"
    if verdict.is_file():
        about_score = verdict.read_text().strip()
        prompts.read.update(digests_by_place(verdict))
    by_prompt = pd.DataFrame()
    joined = pd.concat(frames, ignore_index=True)
    greedy = ""
    if GREEDY in shown:
        greedy = ", and a greedy one"
        by_prompt = joined.pivot_table(GREEDY, "prompt", "policy", sort=False)
    return SideBySide(
        prompts,
        means=pd.concat(means, ignore_index=True),
        gains=_gains(frames, [*shown, "characters"], resampled),
        truth_known=truth_known,
        temperature=temperature,
        caption=f"All policies on {len(prompt_ids)} held-out prompts: {asked}{greedy}.",
        about_score=about_score,
        by_prompt=by_prompt,
        rows=joined.drop_duplicates(["policy", "response"], keep="last", ignore_index=True),
    )


def prompts_of(beside: SideBySide) -> list[Group]:
    """The held-out prompts, as groups without responses; none where they are not generated."""
    if not beside.prompts.groups or not beside.truth_known:
        return []
    return [generate.prompt_of(prompt) for prompt in beside.prompts.groups]


def _rows(setup: Setup) -> tuple[list[pd.DataFrame], dict[str, str]]:
    """The rows of every policy, the base first, and the files that were read."""
    frames, read = response_rows.earlier(setup.folder)
    others, read_beside = response_rows.beside(setup.folder)
    made = {policy for frame in frames for policy in frame.policy.unique()}
    others = [frame[~frame.policy.isin(made)] for frame in others] if frames else []
    kept = []
    for frame in (*others, *frames):
        rows = frame[~frame.policy.isin(setup.recipe.skip)]
        if len(rows):
            kept.append(rows)
    return kept, read | read_beside


def _asked(settings: str) -> tuple[str, float]:
    """How often and how prompts were answered, in words, and the temperature, from the settings."""
    parts = re.match(r"n (\d+), temperature ([\d.]+)", settings)
    if not parts:
        return settings, np.nan
    number = int(parts[1])
    answers = "answer" if number == 1 else "answers"
    return f"{number} {answers} to each at temperature {parts[2]}", float(parts[2])


def _gains(frames: list[pd.DataFrame], measures: list[str], resampled: dict) -> pd.DataFrame:
    """The gains of every policy over its start and over SFT, where those have rows."""
    narrow = [frame[[*KEYS, *measures]] for frame in frames]
    names = pd.concat(narrow).policy.unique()
    tables = []
    for against in dict.fromkeys([*map(start_of, names), BASE]):
        if against not in names or len(names) < 2:
            continue
        table = policies.gains_of(narrow, against, **resampled)
        table = table.rename(columns={f"minus {against}": GAIN[0]}).assign(against=against)
        if against != BASE:
            table = table[table.policy.map(start_of) == against]
        tables.append(table[COLUMNS_OF_GAINS])
    if not tables:
        return pd.DataFrame(columns=COLUMNS_OF_GAINS)
    joined = pd.concat(tables, ignore_index=True)
    order = {measure: number for number, measure in enumerate(measures)}
    return joined.sort_values("measure", key=lambda names: names.map(order), kind="stable")


def _ways(beside: SideBySide) -> dict[str, str]:
    """How answers are taken -> the measure that decides there, the truth where it is known."""
    sampled = "sampled"
    if np.isfinite(beside.temperature):
        sampled = f"sampled at {beside.temperature:g}"
    if not beside.truth_known:
        return {sampled: SCORE}
    ways = {"greedy": GREEDY, sampled: TRUTH}
    return {way: measure for way, measure in ways.items() if measure in set(beside.means.measure)}


def over_start_and_sft(beside: SideBySide) -> pd.DataFrame:
    """Two numbers for each policy, greedy and sampled: over its start, and over SFT.

    A cell is as "+0.31 [+0.12, +0.50]". Columns: policy, start, and two for each way to answer.
    """
    rows = []
    for policy in beside.means.policy.unique():
        start = start_of(policy)
        row = {"policy": policy, "start": start or DASH}
        for way, measure in _ways(beside).items():
            for name, against in (("start", start), (BASE, BASE)):
                gain = _gain(beside, measure, policy, against)
                row[f"{way}, less {name}"] = _cell(gain) if gain else DASH
        rows.append(row)
    return pd.DataFrame(rows)


def _gain(
    beside: SideBySide, measure: str, policy: str, against: str
) -> tuple[float, float, float] | None:
    """The gain of a policy with its interval; None where there is none."""
    rows = beside.gains
    fits = (rows.measure == measure) & (rows.policy == policy) & (rows.against == against)
    if not fits.any():
        return None
    return tuple(rows.loc[fits, GAIN].iloc[0])


def _cell(gain: tuple[float, float, float]) -> str:
    """A gain with its interval in a table."""
    return f"{gain[0]:+.2f} [{gain[1]:+.2f}, {gain[2]:+.2f}]"


def sentences(beside: SideBySide) -> list[str]:
    """One sentence for each method: what it adds to its start, and what was published over seeds.

    The truth decides where it is known, else the reward model's score. Where the seeds do not show
    what this run does, or show the opposite, that is said.
    """
    if beside.means.empty:
        return ["No policy has left answers to held-out prompts at this tier."]
    judge = "by the truth" if beside.truth_known else "by the reward model alone"
    lines = []
    for policy in beside.means.policy.unique():
        start = start_of(policy)
        gains: dict[str, tuple[float, float, float]] = {}
        for way, measure in _ways(beside).items():
            gain = _gain(beside, measure, policy, start)
            if gain:
                gains[way] = gain
        if gains:
            numbers = "; ".join(f"{way} {_cell(gain)}" for way, gain in gains.items())
            verdict, sign = _verdict(gains)
            line = f"**{policy} {verdict}** in this run {judge}, against {start}: {numbers}."
            seeds_sign = published.sign(method_of(policy)) if beside.truth_known else None
            if sign and seeds_sign == -sign:
                line += " The seeds show the opposite."
            elif sign and seeds_sign == 0:
                line += f" The seeds do not show a {'gain' if sign > 0 else 'loss'}."
            if beside.truth_known:
                line += _over_seeds(policy)
            lines.append(line)
    return lines


def _over_seeds(policy: str) -> str:
    """What was published of a policy, in sentences; "" where nothing was."""
    method = method_of(policy)
    seeds = published.of_seeds(method)
    words = f" Greedy, {seeds}." if seeds else ""
    if method == "steerlm":
        asked = published.of_seeds(method, less="itself", what="quality")
        words += f" Asked for quality 4 in place of 0, {asked}." if asked else ""
    return words


def method_of(policy: str) -> str:
    """A policy's method in `benchmarks/works.py`; "" for none."""
    return published.METHODS.get(policy, "")


def _verdict(gains: dict[str, tuple[float, float, float]]) -> tuple[str, int]:
    """What the gains of a method over its start say, and the sign of it; the first decides."""
    (_, low, high), *others = gains.values()
    if low > 0:
        return "helps", 1
    if high < 0:
        return "harms", -1
    if any(other[1] > 0 for other in others):
        return "only makes surer", 0
    return "shows no clear effect", 0


def above(beside: SideBySide) -> str:
    """Which methods are shown above SFT, and which differences among these are; a figure's title.

    Paired by prompt, by the truth of greedy answers where it is known. An earlier iteration of a
    method is left out.
    """
    if beside.means.empty:
        return ""
    way, _ = next(iter(_ways(beside).items()))
    judge = "truth" if beside.truth_known else "reward model's score"
    by_prompt, names = _compared(beside)
    if not names:
        return f"By the {judge}, {way}: no method to compare with {BASE}"
    shown = _shown_above(by_prompt, names)
    left_out = (
        " (earlier iterations left out)" if by_prompt.columns.str.contains(", ").any() else ""
    )
    title = f"By the {judge}, {way}, shown above {BASE}{left_out}: {', '.join(shown) or 'none'}"
    if len(shown) < 2:
        return title
    apart = []
    for one in shown:
        below = [other for other in shown if other != one and _less(by_prompt, one, other).low > 0]
        if below:
            apart.append(f"{one} above {' and '.join(below)}")
    return f"{title}. Differences shown among these: {'; '.join(apart) or 'none'}"


def apart_in_words(beside: SideBySide) -> str:
    """The differences among the methods of `above`, each with its interval; "" for fewer than two.

    Paired by prompt.
    """
    if beside.means.empty:
        return ""
    by_prompt, names = _compared(beside)
    pairs = list(combinations(_shown_above(by_prompt, names), 2))
    if not pairs:
        return ""
    listed = "; ".join(
        f"{one} less {other} {_cell(_less(by_prompt, one, other))}" for one, other in pairs
    )
    return f"Among these, paired by prompt: {listed}."


def _compared(beside: SideBySide) -> tuple[pd.DataFrame, list[str]]:
    """The measure that decides, prompts down, policies across, and which methods are compared.

    None is where SFT has no answers.
    """
    measure = next(iter(_ways(beside).values()))
    by_prompt = beside.rows.pivot_table(measure, "prompt", "policy", sort=False)
    if BASE not in by_prompt:
        return by_prompt, []
    names = [name for name in by_prompt if ", " not in name and name not in (BASE, STARTS[BASE])]
    return by_prompt, names


def _less(by_prompt: pd.DataFrame, one: str, other: str) -> Interval:
    """One policy's mean less another's, paired by prompt."""
    less = by_prompt[one] - by_prompt[other]
    return mean(less, less.index)


def _shown_above(by_prompt: pd.DataFrame, names: list[str]) -> list[str]:
    """Which of these methods are shown above SFT."""
    return [name for name in names if _less(by_prompt, name, BASE).low > 0]


def ties(beside: SideBySide) -> str:
    """How many prompts are ties with SFT in the win rate, for each policy, in a sentence."""
    if not beside.truth_known or beside.means.empty:
        return ""
    truth = beside.rows.pivot_table(TRUTH, "prompt", "policy", sort=False)
    if BASE not in truth or truth.shape[1] < 2:
        return ""
    same = truth.sub(truth[BASE], axis=0).round(9).eq(0).drop(columns=BASE).mean() * 100
    listed = ", ".join(f"{policy} {share:.0f} %" for policy, share in same.items())
    return f"Prompts that tie with {BASE} and count half in the win rate: {listed}."


def gaps_in_words(beside: SideBySide) -> str:
    """How far the reward model's score stands above the truth, beside the base's; "" without.

    Of sampled answers, by policy, with intervals over prompts. The base was not trained on the
    score, so its gap is no work of training. Each gap less it is paired by prompt.
    """
    if not beside.truth_known or SCORE not in beside.rows:
        return ""
    rows = beside.rows.dropna(subset=[SCORE, TRUTH])
    if rows.empty:
        return ""
    gaps = rows.assign(gap=rows[SCORE] - rows[TRUTH])
    by_prompt = gaps.pivot_table("gap", "prompt", "policy", sort=False)
    base = STARTS[BASE]
    if base not in by_prompt:
        listed = ", ".join(
            f"{policy} {_cell(mean(by_prompt[policy], by_prompt.index))}" for policy in by_prompt
        )
        return f"Mean score less truth, sampled answers: {listed}."
    parts = []
    for policy in by_prompt.columns.drop(base):
        less = by_prompt[policy] - by_prompt[base]
        parts.append(f"{policy} {_cell(mean(less, less.index))}")
    return (
        f"Score less truth of sampled answers, the {base}'s is {by_prompt[base].mean():+.2f}. "
        f"Less the {base}'s: {', '.join(parts)}. Where an interval leaves out 0, training "
        "changed the gap."
    )


def by_temperature(beside: SideBySide) -> pd.DataFrame:
    """The truth of every policy's answers, greedy and sampled.

    Rows (policy, temperature, mean, low, high); greedy is temperature 0. Empty where the truth is
    not known.
    """
    columns = ["policy", "temperature", "mean", "low", "high"]
    at = {GREEDY: 0.0, TRUTH: beside.temperature}
    rows = beside.means[beside.means.measure.isin(list(at))].copy()
    rows["temperature"] = rows.measure.map(at)
    rows = rows.rename(columns={"95 % low": "low", "95 % high": "high"})
    return rows[columns].dropna(subset=["temperature"]).reset_index(drop=True)


def surer(beside: SideBySide) -> list[str]:
    """How far greedy answers are truer than sampled ones, for every policy, in a sentence.

    Paired by prompt, with 95 % intervals.
    """
    if by_temperature(beside).temperature.nunique() < 2:
        return []
    parts = []
    for policy, rows in beside.rows.groupby("policy", sort=False):
        by_prompt = rows.groupby("prompt", sort=False)[[GREEDY, TRUTH]].mean()
        less = (by_prompt[GREEDY] - by_prompt[TRUTH]).dropna()
        if len(less):
            parts.append(f"{policy} {_cell(mean(less, less.index))}")
    return [
        f"From temperature {beside.temperature:g} to greedy the truth changes by: "
        f"{', '.join(parts)}. Each is paired by prompt."
    ]


def largest(beside: SideBySide) -> str:
    """What each policy gains over SFT, the largest first, in a sentence; "" without any."""
    if beside.means.empty:
        return ""
    way, measure = next(iter(_ways(beside).items()))
    gains = {}
    for policy in beside.means.policy.unique():
        gain = _gain(beside, measure, policy, BASE)
        if gain and policy != STARTS[BASE]:
            gains[policy] = gain
    if not gains:
        return ""
    order = sorted(gains, key=lambda policy: -gains[policy][0])
    listed = ", ".join(f"{policy} {_cell(gains[policy])}" for policy in order)
    return f"**How large.** Over {BASE}, {way}: {listed}."


def to_show(beside: SideBySide, asked: Collection[str] | None = None) -> dict[str, Group]:
    """Two prompts to show, and why each is shown; none where the truth is not known.

    They are the one whose greedy answers differ most in truth between policies, and of the others
    the one on which a trained policy falls furthest below SFT.

    asked: the policies whose answers will be shown; None for all.
    """
    truth = beside.by_prompt
    if asked is not None:
        truth = truth[[policy for policy in truth if policy in asked]]
    if truth.shape[1] < 2 or BASE not in truth:
        return {}
    spread = truth.max(axis=1) - truth.min(axis=1)
    widest = spread.idxmax()
    of_widest = truth.loc[widest]
    why = (
        f"Of {len(truth)} prompts the policies differ most on this one: "
        f"truth from {of_widest.min():.2f} ({of_widest.idxmin()}) "
        f"to {of_widest.max():.2f} ({of_widest.idxmax()})."
    )
    shown = {why: generate.prompt_of(widest)}
    trained = truth.drop(index=widest).drop(columns=STARTS[BASE], errors="ignore")
    loss = trained.sub(trained[BASE], axis=0).min(axis=1)
    if len(loss) and loss.min() < 0:
        prompt = loss.idxmin()
        policy = trained.loc[prompt].idxmin()
        why = (
            f"Here a policy loses most against SFT: {policy} has "
            f"{trained.loc[prompt, policy]:.2f}, "
            f"SFT {trained.loc[prompt, BASE]:.2f}."
        )
        shown[why] = generate.prompt_of(prompt)
    return shown
