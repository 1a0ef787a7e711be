"""Rounds of training on a policy's own samples: what was sampled, chosen and learnt.

    by_length(first, **recipe.resampled)              # the first pairs: do they teach length?
    picks(first, recipe)                              # the first samples of iterative DPO
    table(played.rounds)                              # a row a round
    compare(compared, policy, start, played.rounds)   # each round's gains over the start
    of_ppo(result, prompts, reward)                   # PPO's rounds

The truth, where it is known, stands beside the scores.

Paper: silent (it prints no curve of a training).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import torch

from hs2lib.align import ppo
from hs2lib.align.iterative_dpo import Round, SampledPairs
from hs2lib.corpus.generate import is_generated
from hs2lib.corpus.grade import true_goodness
from hs2lib.evaluate import judged, policies, questions
from hs2lib.evaluate.comparison import Comparison
from hs2lib.evaluate.response_rows import SCORE, TRUTH
from hs2lib.group import Group, Response
from hs2lib.models.policy import Policy
from hs2lib.models.reward_model import RewardModel
from hs2lib.report.answers import Answer
from hs2lib.stats.bootstrap import Interval, bootstrap, inside
from hs2lib.train import progress
from hs2lib.train.recipes import PPO, IterativeDPO
from hs2lib.train.trainer import Outputs, TrainingResult, restore

# The measures that are followed from round to round.
FOLLOWED = (TRUTH, SCORE, "characters", "kl")


def truth_of_responses(groups: Sequence[Group]) -> np.ndarray:
    """Goodness of the true attributes of all responses, float64 [R]; nan of real prompts."""
    if not is_generated(groups):
        return np.full(sum(len(group.responses) for group in groups), np.nan)
    return np.concatenate([true_goodness(group) for group in groups])


# Iterative DPO


CORRELATION = "correlation with length"
LONGER = "chosen is longer (%)"


def by_length(sampled: SampledPairs, **resampled: int) -> pd.DataFrame:
    """Whether scores go by length: their correlation, and how often the longer response is chosen.

    The correlation is that of score and characters within prompts. A share of longer chosen
    responses far from one half means that training on these pairs teaches length too. Two responses
    as long as each other count half.

    resampled: n_boot and seed of the 95 % intervals over prompts.

    Returns rows `CORRELATION` and `LONGER`, columns value, 95 % low, 95 % high.
    """
    characters = []
    for group in sampled.groups:
        characters.append([len(response.text) for response in group.responses])
    lengths = np.array(characters, dtype=float)  # [prompts, n]
    lengths -= lengths.mean(1, keepdims=True)
    scores = sampled.scores - sampled.scores.mean(1, keepdims=True)  # [prompts, n]
    products = [(lengths * scores).sum(1), (lengths**2).sum(1), (scores**2).sum(1)]
    r = bootstrap(np.stack(products, axis=1), None, judged.correlation, **resampled).at(0)
    is_longer = []
    for chosen, rejected in responses_of(sampled.pairs):
        is_longer.append(50.0 + 50.0 * np.sign(len(chosen.text) - len(rejected.text)))
    ids = [pair.id for pair in sampled.pairs]
    share = questions.mean(is_longer, ids, **resampled)
    if ids:
        share = inside(share, 0, 100, len(set(ids)))
    rows = {CORRELATION: inside(r, -1, 1, len(lengths)), LONGER: share}
    columns = ["value", "95 % low", "95 % high"]
    return pd.DataFrame.from_dict(rows, orient="index", columns=columns)


def length_in_words(table: pd.DataFrame) -> list[str]:
    """Whether the pairs of a round teach length. table: of `by_length`."""
    r = table.loc[CORRELATION]
    share = table.loc[LONGER]
    low = share["95 % low"]
    high = share["95 % high"]
    lesson = questions.beside_0(
        low - 50,
        high - 50,
        above="So the pairs teach length to some degree. See the characters by round below.",
        below="So the pairs teach to be short to some degree. See the characters by round below.",
        neither="So it is not shown that the pairs teach length.",
    )
    return [
        f"Score and length: R {r.value:.2f} ({r['95 % low']:.2f} to {r['95 % high']:.2f}).",
        f"The chosen sample is the longer one in {share.value:.0f} % of the pairs "
        f"({low:.0f} to {high:.0f}). Equal lengths count half, and 50 % would be by chance.",
        lesson,
    ]


def responses_of(pairs: Sequence[Group]) -> list[tuple[Response, ...]]:
    """(chosen, rejected) of each pair."""
    return [pair.responses for pair in pairs]


@dataclass(frozen=True)
class Picks:
    """What was picked in a round, by the truth.

    table: mean truth of all samples, of the chosen and the rejected ones, and of the samples that
        one who knows the truth would have picked, each with its 95 % interval over prompts.
    n_right, n_wrong, n_equal: how many pairs are in the right order by the truth, in the wrong
        one, and truly equal.
    right: the share in the right order among the pairs that truly differ, per cent, with a 95 %
        interval over prompts.
    gap: truth of the chosen samples less that of the rejected ones, with such an interval.
    """

    table: pd.DataFrame
    n_right: int
    n_wrong: int
    n_equal: int
    right: Interval
    gap: Interval

    @property
    def n_differ(self) -> int:
        """How many pairs truly differ."""
        return self.n_right + self.n_wrong

    @property
    def caption(self) -> str:
        """How many pairs are in the right order, in words."""
        return (
            f"The first round; of {self.n_differ} pairs that truly differ "
            f"{self.share} are in the right order. Intervals are over prompts."
        )

    @property
    def share(self) -> str:
        """The share that is in the right order, with its interval, in words."""
        value, low, high = self.right
        return f"{value:.0f} % (95 % interval {low:.0f} to {high:.0f})"

    @property
    def counted(self) -> list[str]:
        """How many pairs teach the right thing, and what the chosen samples are worth."""
        value, low, high = self.gap
        return [
            f"Of {self.n_differ + self.n_equal} pairs {self.n_right} are in the right order, "
            f"{self.n_wrong} in the wrong one, and {self.n_equal} are truly equal.",
            f"The chosen samples less the rejected ones: {value:+.2f} points of truth "
            f"({low:+.2f} to {high:+.2f}).",
        ]

    @property
    def sentences(self) -> list[str]:
        """What was picked, and why it cannot be set beside what held-out prompts give."""
        truth = self.table[TRUTH]
        return [
            f"Of the first round's pairs that truly differ, the reward model ordered {self.share} "
            f"rightly: it chose samples of truth {truth['chosen']:.2f} "
            f"over ones of {truth['rejected']:.2f}; "
            f"the mean of all samples is {truth['mean of all samples']:.2f}, "
            f"the best by the truth {truth['best by the truth']:.2f}.",
            "These prompts ask what training texts ask too; "
            "the held-out ones below ask what none of them does, and are harder.",
        ]


def picks(sampled: SampledPairs, recipe: IterativeDPO) -> Picks | None:
    """Whether the better samples were picked; None where nobody knows the truth."""
    if not is_generated(sampled.groups):
        return None
    truth = np.stack([true_goodness(group) for group in sampled.groups])  # [prompts, n]
    chosen, rejected = _truth_of_pairs(sampled.pairs)  # [pairs] each
    prompts = [group.id for group in sampled.groups]
    of_pairs = [pair.id for pair in sampled.pairs]
    picked = {
        "mean of all samples": (truth.mean(1), prompts),
        "chosen": (chosen, of_pairs),
        "rejected": (rejected, of_pairs),
        "best by the truth": (truth.max(1), prompts),
    }
    means = {}
    for name, (values, ids) in picked.items():
        means[name] = questions.mean(values, ids, **recipe.resampled)
    columns = [TRUTH, "95 % low", "95 % high"]
    table = pd.DataFrame.from_dict(means, orient="index", columns=columns)
    differ = chosen != rejected  # [pairs]
    of_differing = [name for name, differs in zip(of_pairs, differ, strict=True) if differs]
    is_right = 100.0 * (chosen > rejected)[differ]  # [pairs that differ]
    share = questions.mean(is_right, of_differing, **recipe.resampled)
    share = inside(share, 0, 100, len(set(of_differing)))
    return Picks(
        table=table.rename_axis("samples"),
        n_right=np.count_nonzero(chosen > rejected),
        n_wrong=np.count_nonzero(chosen < rejected),
        n_equal=np.count_nonzero(~differ),
        right=share,
        gap=questions.mean(chosen - rejected, of_pairs, **recipe.resampled),
    )


def _truth_of_pairs(pairs: Sequence[Group]) -> np.ndarray:
    """The truth of the chosen and of the rejected responses, float64 [2, pairs]."""
    return np.stack([true_goodness(pair) for pair in pairs]).T


def table(rounds: Sequence[Round]) -> pd.DataFrame:
    """A row a round: its samples by the truth, where known, and by the reward model; its steps."""
    rows = []
    for number, played in enumerate(rounds, 1):
        row = {"round": number}
        if is_generated(played.sampled.groups):
            chosen, rejected = _truth_of_pairs(played.sampled.pairs)  # [pairs] each
            row["truth, mean"] = truth_of_responses(played.sampled.groups).mean()
            row["truth, chosen less rejected"] = (chosen - rejected).mean()
        row.update(played.sampled.summary())
        row["steps"] = played.result.steps
        rows.append(row)
    return pd.DataFrame(rows)


def table_sentence(summaries: pd.DataFrame) -> str:
    """What changed from the first round's samples to the last one's, in a sentence; "" for one.

    summaries: of `table`.
    """
    if len(summaries) < 2:
        return ""
    first = summaries.iloc[0]
    last = summaries.iloc[-1]
    changes = []
    for measure in ("truth, mean", "truth, chosen less rejected", f"mean {SCORE}"):
        if measure in summaries:
            changes.append(f"{measure} {first[measure]:.2f} and {last[measure]:.2f}")
    return f"Samples of the first round and of the last: {'; '.join(changes)}."


def losses_title(losses: dict[str, pd.Series]) -> str:
    """How far the loss falls in each round, as a figure's title. losses: of `curves`."""
    falls = []
    for name, loss in losses.items():
        falls.append(f"{name} {1 - loss.tail(3).mean() / np.log(2):.0%}")
    return f"Loss of the last three steps, below log 2 by: {', '.join(falls)}"


def curves(rounds: Sequence[Round]) -> tuple[dict[str, pd.Series], dict[str, np.ndarray]]:
    """By the name of the round: its loss at each step, and its samples' scores [prompts, n]."""
    losses = {}
    scores = {}
    for number, played in enumerate(rounds, 1):
        steps, _ = progress.curves(played.result.history)
        losses[f"round {number}"] = steps.loss
        scores[f"round {number}"] = played.sampled.scores
    return losses, scores


def compare(
    compared: Comparison, policy: Policy, start: Policy, rounds: Sequence[Round]
) -> pd.DataFrame:
    """What the policy of each round gained over the one that the rounds began with.

    All answer the same held-out prompts. Returns rows (measure, policy, minus start, 95 % low,
    95 % high), paired by prompt.

    compared: measures the policies.
    policy: takes each round's weights again, and ends with the last ones.
    start: the policy that the rounds began with.
    rounds: those that were trained.
    """
    recipe = compared.setup.recipe
    trained = Outputs(policy, None, recipe.autocast)
    frames = [compared.measure(start, "start")]
    for number, played in enumerate(rounds, 1):
        restore(trained, played.result)
        frames.append(compared.measure(policy, f"round {number}"))
    gains = policies.gains_of(frames, "start", **recipe.resampled)
    return gains[gains.measure.isin(FOLLOWED)].reset_index(drop=True)


def sentences(gained: pd.DataFrame, sampled: str) -> list[str]:
    """A sentence on whether the answers are truly better after the last round.

    Empty where nobody knows the truth. gained: as `compare` has it. sampled: how the answers were,
    in words, as "at temperature 0.7".
    """
    n_rounds = gained.policy.nunique()
    last = gained[gained.policy == f"round {n_rounds}"].set_index("measure")
    if TRUTH not in last.index:
        return []
    truth = last.loc[TRUTH]
    score = last.loc[SCORE]
    verdict = "the answers are not shown to be truly better"
    if truth["95 % low"] > 0:
        verdict = "the answers are truly better"
    elif truth["95 % high"] < 0:
        verdict = "**it does not work here**, the answers are truly worse"
        if score["95 % low"] > 0:
            verdict += " while the reward model likes them better: over-optimisation"
    numbers = []
    for name, row in ((TRUTH, truth), (SCORE, score)):
        bounds = f"{row['95 % low']:+.2f} to {row['95 % high']:+.2f}"
        numbers.append(f"{name} {row['minus start']:+.2f}, {bounds}")
    return [
        f"After {n_rounds} rounds {verdict} ({'; '.join(numbers)}). That is one seed, sampled "
        f"{sampled}, with intervals over prompts."
    ]


def changed_in_words(gained: pd.DataFrame, sampled: str) -> str:
    """What is shown to have changed by the last round besides the truth; "" for nothing.

    gained, sampled: as for `sentences`.
    """
    last = gained[gained.policy == f"round {gained.policy.nunique()}"].set_index("measure")
    words = {
        "characters": ("answers are {:.0f} characters", "longer", "shorter"),
        SCORE: ("they score {:.2f}", "higher", "lower"),
    }
    changes = []
    for measure, (change, more, less) in words.items():
        if measure not in last.index:
            continue
        value, low, high = last.loc[measure, ["minus start", "95 % low", "95 % high"]]
        direction = questions.beside_0(low, high, above=more, below=less, neither="")
        if direction:
            nearer, farther = sorted((abs(low), abs(high)))
            bounds = f"{nearer:.2f} to {farther:.2f}"
            if measure == "characters":
                bounds = f"{nearer:.0f} to {farther:.0f}"
            changes.append(f"{change.format(abs(value))} {direction} ({bounds})")
    if not changes:
        return ""
    text = f"Sampled {sampled}, {' and '.join(changes)}."
    if TRUTH in last.index and last.loc[TRUTH, "95 % low"] <= 0 <= last.loc[TRUTH, "95 % high"]:
        text += " No change of their truth is shown."
    return text


def title(gained: pd.DataFrame) -> str:
    """The message of a figure of what the rounds gained. gained: as `compare` has it."""
    last = gained[gained.policy == f"round {gained.policy.nunique()}"].set_index("measure")
    parts = []
    for measure in (TRUTH, SCORE):
        if measure in last.index:
            gain = last.loc[measure, ["minus start", "95 % low", "95 % high"]]
            parts.append(policies.gain_in_title(measure, *gain))
    return f"After the last round, sampled, points: {', '.join(parts)}"


# PPO


def of_ppo(result: TrainingResult, prompts: ppo.Prompts, reward: RewardModel) -> pd.DataFrame:
    """`hs2lib.align.ppo.rounds`, with the answers' truth and score.

    The truth is nan of real prompts.

    result: of the training.
    prompts: that were answered.
    reward: the standardised reward model that the training asked. Its mean and SD are taken back,
        so that the score is in points.
    """
    curves = ppo.rounds(result.history)
    truth = []
    for number in range(len(curves)):
        answers = ppo.answers(result, prompts, number)
        truth.append(truth_of_responses(answers).mean())
    curves[TRUTH] = truth
    curves[SCORE] = reward.folded["mean"] + reward.folded["sd"] * curves.reward
    return curves


def of_group(group: Group, reward: ppo.Reward, recipe: PPO) -> pd.DataFrame:
    """The answers to one prompt with their rewards, the mean of these, and the difference.

    That is what `critic: group` takes for the value of an answer, where the policy has not yet left
    its reference and the KL is 0.

    group: a prompt with the answers that a round sampled.
    reward: scores them.
    recipe: of the training.

    Returns rows (answer, reward, baseline, reward less baseline).
    """
    rewards = reward.score([group], autocast=recipe.autocast)[:, 0]  # [n]
    own = replace(recipe, n_samples=len(group.responses))
    baseline = ppo.group_values(rewards, torch.zeros_like(rewards), own)  # [n]
    return pd.DataFrame(
        {
            "answer": range(1, len(rewards) + 1),
            "reward": rewards.tolist(),
            "baseline": baseline.tolist(),
            "reward less baseline": (rewards - baseline).tolist(),
        }
    )


def order_in_words(group: Group, rewarded: pd.DataFrame) -> list[str]:
    """Whether the reward orders the answers to one prompt as the truth does, and what it does.

    Empty of real prompts, and where all answers are truly alike. By hand: of rewards 3, 2, 1 and
    truths 0, 1, 2 none of 3 pairs is right, and the truly best has the lowest reward.

    group: a prompt with the answers that a round sampled.
    rewarded: of `of_group`.
    """
    if not is_generated([group]):
        return []
    truth = true_goodness(group)  # [n]
    gap = truth[:, None] - truth[None, :]  # [n, n]
    reward = rewarded.reward.to_numpy()
    by_reward = reward[:, None] - reward[None, :]  # [n, n]
    n_differ = np.count_nonzero(gap > 0)
    if not n_differ:
        return []
    n_right = np.count_nonzero((gap > 0) & (by_reward > 0))
    best = int(truth.argmax())
    advantage = rewarded["reward less baseline"].iloc[best]
    pull = "Its advantage is 0, so that its own gradient is 0"
    if advantage > 0:
        pull = "Its advantage is positive, so that its own gradient raises its likelihood"
    elif advantage < 0:
        pull = "Its advantage is **negative**, so that its own gradient lowers its likelihood"
    return [
        f"Of the {n_differ} pairs of these answers that truly differ, "
        f"the reward orders {n_right} as the truth does.",
        f"The truly best one, answer {best + 1}, is {advantage:+.2f} off the baseline. {pull}. "
        "The likelihood after the step was not measured. One group is an example, and no measure "
        "of the reward model.",
    ]


def as_answers(
    group: Group, rewarded: pd.DataFrame, reward: RewardModel, most: int = 4
) -> list[Answer]:
    """The answers to one prompt, to show, each with its reward and its score in points.

    group: a prompt with the answers that a round sampled.
    rewarded: of `of_group`.
    reward: the standardised reward model; mean and SD are taken back.
    most: so many answers.
    """
    shown = []
    for response, row in zip(group.responses[:most], rewarded.itertuples(), strict=False):
        score = reward.folded["mean"] + reward.folded["sd"] * row.reward
        shown.append(
            Answer(f"answer {row.answer}", response.text, f"reward {row.reward:.2f}", score)
        )
    return shown


def shown(curves: pd.DataFrame, recipe: PPO) -> pd.DataFrame:
    """The columns of PPO's rounds that say something in this run.

    Without a critic there is no value loss. With the plain KL the penalty is the KL itself.

    curves: of `of_ppo`. recipe: of the training.
    """
    silent = ["step", "grad_norm", "critic gradient"]
    if recipe.critic == "group":
        silent.append("value loss")
    if recipe.kl_form == "plain":
        silent.append("penalty")
    return curves.drop(columns=silent).astype({"round": int})


def start_in_words(
    curves: pd.DataFrame, rated: Sequence[Group], reward: RewardModel, recipe: PPO
) -> list[str]:
    """Score and truth of the first round's answers beside those of the data's responses.

    The last sentence says whether the reward model overrates the answers before any training, which
    is a score above the truth. Empty of real prompts.

    curves: of `of_ppo`.
    rated: the groups whose responses set the reward's scale.
    reward: the standardised reward model, which has their mean.
    recipe: of the training.
    """
    truth = truth_of_responses(rated).mean()
    first = curves.iloc[0]
    if np.isnan(truth) or np.isnan(first[TRUTH]):
        return []
    above = first[SCORE] - first[TRUTH]
    rates = "overrates" if above > 0 else "underrates"
    return [
        f"The data's responses have a score of {reward.folded['mean']:.2f} and a truth of "
        f"{truth:.2f} on average.",
        f"The answers of round 0, which are SFT's at temperature {recipe.temperature:g}, have a "
        f"score of {first[SCORE]:.2f} and a truth of {first[TRUTH]:.2f}.",
        f"So before any training the reward model {rates} these answers: their score lies "
        f"{_beside(above)} their truth. The score of the data's responses lies "
        f"{_beside(reward.folded['mean'] - truth)} theirs.",
    ]


def _beside(above: float) -> str:
    """How far one number lies from another, in words: "1.70 points above"."""
    side = "above" if above > 0 else "below"
    return f"{abs(above):.2f} points {side}"


def in_words(curves: pd.DataFrame, recipe: PPO) -> str:
    """What PPO's rounds did, first and last. curves: of `of_ppo`. recipe: of the training."""
    first = curves.iloc[0]
    last = curves.iloc[-1]
    words = (
        f"From the first round to the last the KL from SFT goes from {first.kl:.2f} to "
        f"{last.kl:.2f} nats per response, the length from {first.length:.0f} to {last.length:.0f} "
        f"tokens. Both are of answers sampled at temperature {recipe.temperature:g} to the rounds' "
        f"own prompts. At most {curves['clip fraction'].max():.1%} of a round's tokens were "
        f"clipped. The baseline explains {curves.explained.median():.0%} of the returns' variance "
        "(median round)."
    )
    if recipe.critic == "group":
        words += (
            f" An answer is one of the {recipe.n_samples} in its mean, so that "
            f"{1 / recipe.n_samples:.0%} would be explained if prompts did not matter."
        )
    return words


def verdict(gains: pd.DataFrame, policy: str) -> list[str]:
    """Whether a policy's answers are truly better, and by how many seeds.

    Empty where nobody knows the truth. gains: rows of `hs2lib.evaluate.policies.gains_of`.
    """
    truth = gains[(gains.policy == policy) & (gains.measure == TRUTH)]
    if truth.empty:
        return []
    against = gains.columns[2].partition(" ")[2]
    answers = f"{policy}'s answers are"
    sentence = f"{answers} not shown to be truly better than {against}'s here"
    if truth["95 % low"].item() > 0:
        sentence = f"{answers} truly better than {against}'s here"
    elif truth["95 % high"].item() < 0:
        sentence = f"{answers} truly worse than {against}'s here"
    return [
        f"**{sentence}**, on prompts that nothing was trained on; "
        "one training seed, an interval over prompts."
    ]


def risen(frames: Sequence[pd.DataFrame], policy: str, against: str) -> pd.DataFrame | None:
    """What truth and score gained, [prompts, 2]; None where one of them is not known.

    frames, policy, against: as for `together`.
    """
    rows = pd.concat(frames, ignore_index=True)
    if not {TRUTH, SCORE} <= set(rows) or rows[TRUTH].isna().all():
        return None
    rows = rows.drop_duplicates(["policy", "response"], keep="last")
    means = rows.groupby(["policy", "prompt"], sort=False)[[TRUTH, SCORE]].mean()
    return means.loc[policy] - means.loc[against]


def apart(risen: pd.DataFrame, **resampled: int) -> Interval:
    """By how much the score rose more than the truth, paired by prompt.

    risen: of `risen`. resampled: n_boot and seed.
    """
    difference = risen[SCORE] - risen[TRUTH]  # [prompts]
    return questions.mean(difference, difference.index, **resampled)


def apart_in_words(apart: Interval) -> str:
    """Whether score and truth part. apart: of `apart`."""
    value, low, high = apart
    parted = questions.beside_0(
        low,
        high,
        above="**the score outruns the truth** by",
        below="the truth outruns the score: difference",
        neither="they are not shown to part: difference",
    )
    return f"{parted} {value:+.2f} ({low:.2f} to {high:.2f}, by prompt)"


def together(
    frames: Sequence[pd.DataFrame],
    policy: str,
    against: str,
    *,
    sampled: str = "",
    **resampled: int,
) -> str:
    """How far score and truth rise together on held-out prompts, and whether they part.

    "" where nobody knows the truth. By hand: of two prompts the score rises by 2 and 2, the truth
    by 1 and 0. Then the score rises by 2, the truth by .5, and they part by 1.5.

    frames: rows of both policies among others, as `Comparison.frames`.
    policy: the one that was trained.
    against: the one that it began with.
    sampled: how the answers were, in words, as "at temperature 0.7".
    resampled: n_boot and seed.
    """
    gained = risen(frames, policy, against)
    if gained is None:
        return ""
    how = f" {sampled}" if sampled else ""
    parted = apart_in_words(apart(gained, **resampled))
    return (
        f"{policy} less {against}, {len(gained)} held-out prompts{how}: score "
        f"{gained[SCORE].mean():+.2f}, truth {gained[TRUTH].mean():+.2f}; {parted}."
    )


def gained_in_rounds(curves: pd.DataFrame, first: int, last: int) -> dict[str, float]:
    """The mean of the last rounds less that of the first ones, by measure; the truth where known.

    curves: of `of_ppo`. first, last: so many rounds.
    """
    gains = {}
    for measure in (SCORE, TRUTH):
        gained = curves[measure].iloc[-last:].mean() - curves[measure].iloc[:first].mean()
        if not np.isnan(gained):
            gains[measure] = gained
    return gains


def title_of_rounds(curves: pd.DataFrame, first: int, last: int) -> str:
    """The message of the rounds' panel of `hs2lib.report.figures.pressed`.

    curves: of `of_ppo`. first: rounds at the start that the last ones are compared with. last: so
    many of them.
    """
    gains = gained_in_rounds(curves, first, last)
    parts = [f"{measure} {gained:+.2f}" for measure, gained in gains.items()]
    rounds = f"PPO, last {min(last, len(curves))} rounds less first {first} (not a test)"
    return f"{rounds}:\n{', '.join(parts)}"


def rounds_in_words(curves: pd.DataFrame, first: int, last: int, recipe: PPO) -> str:
    """What the rounds gained in score and truth, and why that is no test; "" for real prompts.

    curves, first, last: as for `title_of_rounds`. recipe: of the training.
    """
    gains = gained_in_rounds(curves, first, last)
    if TRUTH not in gains:
        return ""
    return (
        f"In training, at temperature {recipe.temperature:g}, the last {min(last, len(curves))} "
        f"rounds less the first {first}: score {gains[SCORE]:+.2f}, truth {gains[TRUTH]:+.2f}. "
        "These have no interval. The first rounds are partly trained, and each round has other "
        "prompts. Whether score and truth part is tested on held-out prompts, which both policies "
        "answer."
    )


def kl_in_words(gains: pd.DataFrame, policy: str, curves: pd.DataFrame, recipe: PPO) -> list[str]:
    """How far the policy is from SFT, and of which answers each number is.

    gains: rows of `hs2lib.evaluate.policies.gains_of`. policy: that was trained. curves: of
    `of_ppo`. recipe: of the training.
    """
    sentences = [
        f"The last round has {curves.iloc[-1].kl:.2f} nats per response from SFT, of answers "
        f"sampled at temperature {recipe.temperature:g} to its training prompts."
    ]
    held_out = gains[(gains.policy == policy) & (gains.measure == "kl")]
    if not held_out.empty:
        words = f"On held-out prompts the mean log-ratio to SFT is {held_out.iloc[0, 2]:.2f} nats."
        if (recipe.eval_temperature, recipe.eval_top_p) != (1, 1):
            words += (
                f" These answers are drawn at temperature {recipe.eval_temperature:g} and top-p "
                f"{recipe.eval_top_p:g}, not from the trained distribution. So their mean "
                "log-ratio is not a KL."
            )
        sentences.append(words)
    return sentences
