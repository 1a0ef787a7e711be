"""All policies on the same held-out prompts, from the rows that their notebooks left.

    beside = side_by_side(setup)
    beside.means, beside.gains       # by measure and policy; gains over SFT, paired by prompt
    sentences(beside)                # what they say of each method

Paper: silent. Its comparison, Table 4, needs judges; here the truth is known where the prompts are
of the small world.
"""

from dataclasses import dataclass

import pandas as pd

from hs2lib.data.load import Loaded
from hs2lib.evaluate import policies
from hs2lib.evaluate.policies import BASE, COLUMNS
from hs2lib.evaluate.response_rows import SCORE, TRUTH, earlier
from hs2lib.models.saved import REWARD_MODEL
from hs2lib.paths import digests_by_place
from hs2lib.run.setup import Setup


@dataclass(frozen=True)
class SideBySide:
    """Policies on the same prompts; everything is empty where none has left answers at this tier.

    prompts: those that were asked, as a data source.
    means: rows (measure, policy, mean, 95 % low, 95 % high) of the truth, the reward model's score,
        the win rate over SFT, and characters.
    gains: rows (measure, policy, difference from SFT, low, high).
    truth_known: whether the prompts are of the small world.
    caption: what was asked, and what notebook 05 says of the reward model.
    """

    prompts: Loaded
    means: pd.DataFrame
    gains: pd.DataFrame
    truth_known: bool
    caption: str


def side_by_side(setup: Setup) -> SideBySide:
    """The policies of notebooks 07 to 12 at this tier, less those to `skip`.

    Raises as `policies.table`.
    """
    frames, read = earlier(setup.folder)
    frames = [frame[~frame.policy.isin(setup.recipe.skip)] for frame in frames]
    frames = [frame for frame in frames if len(frame)]
    truth_known = all(TRUTH in frame for frame in frames)
    prompt_ids = list(frames[0].prompt.unique()) if frames else []
    name = "the held-out prompts of notebooks 07 to 12"
    prompts = Loaded(prompt_ids, name, truth_known, read=read)
    if not frames:
        empty = pd.DataFrame(columns=COLUMNS[:-1])
        return SideBySide(prompts, empty, empty, False, "")
    resampled = setup.recipe.resampled
    table = policies.table(frames, **resampled)
    gains_over_base = policies.gains_of(frames, BASE, **resampled)
    means = []
    gains = []
    if truth_known:
        means.append(_of_measure(table, TRUTH))
        gains.append(_of_measure(gains_over_base, TRUTH))
    means.append(_of_measure(table, SCORE))
    gains.append(_of_measure(gains_over_base, SCORE))
    if truth_known:
        means.append(policies.wins(frames, BASE, **resampled))
    means.append(_of_measure(table, "characters"))
    gains.append(_of_measure(gains_over_base, "characters"))
    caption = f"All policies on {len(prompt_ids)} held-out prompts: {frames[0].settings.iloc[0]}."
    verdict = setup.saved(REWARD_MODEL, "model") / "verdict.txt"
    if verdict.is_file():
        caption += f" {verdict.read_text().strip()}"
        prompts.read.update(digests_by_place(verdict))
    return SideBySide(
        prompts,
        means=pd.concat(means, ignore_index=True),
        gains=pd.concat(gains, ignore_index=True),
        truth_known=truth_known,
        caption=caption,
    )


def _of_measure(rows: pd.DataFrame, measure: str) -> pd.DataFrame:
    """The rows of one measure."""
    return rows[rows.measure == measure]


def sentences(beside: SideBySide) -> list[str]:
    """One sentence for each method: whether it works, and its gains over SFT.

    The truth decides where it is known, else the reward model's score.
    """
    if beside.means.empty:
        return ["No policy has left answers to held-out prompts at this tier."]
    deciding_measure = SCORE
    decided_by = "by the reward model alone"
    if beside.truth_known:
        deciding_measure = TRUTH
        decided_by = "by the truth"
    lines = []
    for name, gains in beside.gains.groupby("policy", sort=False):
        verdict = "was not scored"
        numbers = []
        for measure, _, gain, low, high in gains.itertuples(index=False, name=None):
            numbers.append(f"{measure} {gain:+.3g} ({low:.3g} to {high:.3g})")
            if measure == deciding_measure:
                verdict = _verdict(low, high)
        lines.append(f"**{name} {verdict}** {decided_by}, against {BASE}: {', '.join(numbers)}.")
    return lines


def _verdict(low: float, high: float) -> str:
    """What the interval of a gain says of a method."""
    if low > 0:
        return "works"
    if high < 0:
        return "harms"
    return "shows no clear effect"
