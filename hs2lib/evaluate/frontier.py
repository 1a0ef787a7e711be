"""The best policy of an objective, exactly: a prompt has few possible answers, and all are scored.

    table = enumerated(prompts, {"sft": sft, "ppo": ppo}, judge)
    optimum = tilted(table, "sft", table.judge, beta=0.3)    # log of sft(y|x) exp(judge / .3) / Z
    reached(table, optimum, "sft")                           # true score, judge's, KL from SFT

So three things are told apart: an objective whose optimum is no better than its start, a judge that
is wrong, and an optimiser that does not reach what it is asked for. A policy has some probability
outside of the enumeration too; `mass` says how much lies inside, and all else is within it.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression

from hs2lib.group import Group
from hs2lib.models.policy import Policy
from hs2lib.models.reward_model import RewardModel
from hs2lib.paper import head_weights
from hs2lib.world import grade, sets
from hs2lib.world.cards import card_of, every_answer, write


def with_every_answer(prompt: Group, *, wrong: bool = False) -> Group:
    """A prompt with all its possible answers. wrong: as for `cards.every_answer`."""
    card = card_of(prompt.id)
    answers = every_answer(card, wrong=wrong)
    return sets.answered(prompt, [write(card, answer) for answer in answers])


def enumerated(
    prompts: Sequence[Group],
    policies: Mapping[str, Policy | tuple[Policy, str]],
    judge: RewardModel | None = None,
    *,
    wrong: bool = False,
) -> pd.DataFrame:
    """One row for every possible answer of every prompt.

    Args:
        prompts: generated groups; their responses are not read.
        policies: by name; one that reads labels with its label string.
        judge: a reward model with the five attributes.
        wrong: as for `cards.every_answer`.

    Returns: the columns prompt, text, `true` (goodness), `liked` (the helpfulness that a rater
        without an error sees), the judge's attributes and `judge` (its goodness), and of each
        policy the log-probability of the answer, nats.
    """
    groups = [with_every_answer(prompt, wrong=wrong) for prompt in prompts]
    table = pd.DataFrame(
        {
            "prompt": [group.id for group in groups for _ in group.responses],
            "text": [response.text for group in groups for response in group.responses],
            "true": np.concatenate([grade.true_goodness(group) for group in groups]),
            "liked": np.concatenate([sets.expected_ratings(group)[:, 0] for group in groups]),
        }
    )
    if judge is not None:
        scores = judge.score(groups).double().numpy()  # [R, A]
        table[[f"judged {name}" for name in judge.attributes]] = scores
        table["judge"] = scores @ head_weights("goodness", judge.attributes)
    for name, policy in policies.items():
        reader, label = policy if isinstance(policy, tuple) else (policy, None)
        log_probs, _ = reader.log_probs(groups, label=label)  # [R]
        table[name] = log_probs.double().numpy()
    return table


def normalised(log_weights: pd.Series, prompts: pd.Series) -> pd.Series:
    """Log-weights as log-probabilities: of each prompt the exponentials add up to 1."""
    by_prompt = log_weights.groupby(prompts)
    shifted = log_weights - by_prompt.transform("max")
    total = np.exp(shifted).groupby(prompts).transform("sum")
    return shifted - np.log(total)


def mass(table: pd.DataFrame, policy: str) -> float:
    """The probability of a policy inside the enumeration, mean over prompts."""
    return float(np.exp(table[policy]).groupby(table.prompt).sum().mean())


def tilted(table: pd.DataFrame, start: str, reward: pd.Series, beta: float) -> pd.Series:
    """The optimum of reward minus beta times the KL from a start: start(y|x) exp(reward / beta).

    Paper: sections 4.3 and 4.4 (what DPO and PPO maximise). beta: in units of the reward.
    """
    return normalised(table[start] + reward / beta, table.prompt)


def best_of(table: pd.DataFrame, start: str, score: pd.Series, n: int) -> pd.Series:
    """The best of n samples of a start by a score, as log-probabilities.

    Answers of equal score share what falls to them as the start does.
    """
    p = np.exp(normalised(table[start], table.prompt))
    kept = []
    for _, q in p.groupby(table.prompt):
        by_score = q.groupby(score[q.index]).sum().sort_index()  # of each score, from the lowest
        below = by_score.cumsum()
        falls = below**n - (below - by_score).clip(lower=0) ** n
        ratio = (falls / by_score).reindex(score[q.index]).to_numpy()
        kept.append(q * ratio)
    with np.errstate(divide="ignore"):
        return np.log(pd.concat(kept).reindex(table.index))


def reached(table: pd.DataFrame, log_probs: pd.Series, start: str) -> dict[str, float]:
    """What a policy reaches, mean over prompts.

    Args:
        table: of `enumerated`.
        log_probs: of the policy's answers, as of `normalised` or a column of the table.
        start: the policy that the KL is taken from, a column of the table.

    Returns: `true` and `judge`, expected at temperature 1; `likeliest`, the true score of the
        likeliest answer; `kl` from the start, nats.
    """
    log_q = normalised(log_probs, table.prompt)
    log_p = normalised(table[start], table.prompt)
    q = np.exp(log_q)
    likeliest = log_q.groupby(table.prompt).idxmax()
    weighted = pd.DataFrame({"true": q * table.true, "kl": q * (log_q - log_p).where(q > 0, 0)})
    if "judge" in table:
        weighted["judge"] = q * table.judge
    means = weighted.groupby(table.prompt).sum().mean().to_dict()
    return means | {"likeliest": float(table.true[likeliest].mean())}


def preference_slope(groups: Sequence[Group]) -> float:
    """By how much a point of seen helpfulness moves the log-odds of being preferred.

    It makes the reward of DPO: `slope * table.liked`, for which the labels' preferences are those
    of Bradley and Terry. groups: rated ones; pairs with equal labels say nothing and are left out.
    """
    apart = []
    first_wins = []
    for group in groups:
        labels = [response.labels[0] for response in group.responses]
        if labels[0] != labels[1]:
            liked = sets.expected_ratings(group)[:, 0]
            apart.append(liked[0] - liked[1])
            first_wins.append(labels[0] > labels[1])
    fitted = LogisticRegression(fit_intercept=False, C=1e6)
    fitted.fit(np.array(apart)[:, None], np.array(first_wins))
    return float(fitted.coef_[0, 0])
