"""The answers of a policy as a table: what every figure and every verdict is made of.

table = answered(policy, prompts, run="DPO", judge=reward_model, n=1, temperature=0.0, ..)
table.groupby("run").true.mean()
gains(table, "DPO", over="SFT")
"""

from collections.abc import Sequence

import pandas as pd

from hs2lib.group import ATTRIBUTES, Group
from hs2lib.models.policy import Policy
from hs2lib.models.reward_model import RewardModel
from hs2lib.models.rollout import rollouts
from hs2lib.paper import head_weights
from hs2lib.world import grade, sets
from hs2lib.world.cards import card_of


def answered(
    policy: Policy,
    prompts: Sequence[Group],
    *,
    run: str,
    judge: RewardModel | None = None,
    temperature: float = 0.0,
    label: str | None = None,
    **sampling: object,
) -> pd.DataFrame:
    """One row an answer: where it is from, its text, what is counted in it, what it is worth.

    Args:
        policy: that answers.
        prompts: groups; their responses are not read.
        run: its name, for the column.
        judge: whose goodness the answers get.
        temperature: of sampling; 0 is greedy.
        label: SteerLM's label string that opens every answer.
        sampling: further options of `rollouts`; n and max_new_tokens are needed.

    Returns: the columns run, prompt, sample, temperature, label, question, text, finished; of
        prompts that were generated the counts of `hs2lib.world.grade`, `off` (sentences of small
        talk too many or too few), the true attributes and `true`, their goodness; with a judge
        `judge`, the goodness that it sees.
    """
    groups = rollouts(
        policy, prompts, temperature=temperature, label=label, batch=512, progress=False, **sampling
    )
    rows = []
    for group in groups:
        for number, response in enumerate(group.responses):
            rows.append(
                {
                    "run": run,
                    "prompt": group.id,
                    "sample": number,
                    "temperature": temperature,
                    "label": label or "",
                    "question": group.prompt[-1].text,
                    "text": response.text,
                    "finished": response.finished,
                }
            )
    table = pd.DataFrame(rows)
    if sets.is_generated(groups):
        table = table.join(graded(table))
    if judge is not None:
        scores = judge.score(groups).double().numpy()  # [R, A]
        table["judge"] = scores @ head_weights("goodness", judge.attributes)
    return table


def graded(table: pd.DataFrame) -> pd.DataFrame:
    """What is counted in each answer of generated prompts, and its true worth.

    table: with the columns prompt and text.
    """
    rows = []
    for prompt, text in zip(table["prompt"], table["text"], strict=True):
        card = card_of(prompt)
        counted = grade.count(card, text)
        true = grade.true_ratings(card, text)
        row = vars(counted) | {"off": abs(counted.small_talk - card.small_talk)}
        row |= dict(zip(ATTRIBUTES, true.tolist(), strict=True))
        rows.append(row | {"true": float(grade.goodness(true))})
    return pd.DataFrame(rows, index=table.index)


def gains(answers: pd.DataFrame, run: str, over: str) -> pd.DataFrame:
    """What a policy adds to the true score of another, paired by prompt.

    Args:
        answers: tables of `answered`, one after the other.
        run: the policy.
        over: the policy that it is compared with.

    Returns: a row for each temperature: the true score `before` and `after`, the `gain`, and the
        ends `low` and `high` of its 95 % interval over the prompts of this one training.
    """
    by_prompt = answers.groupby(["temperature", "prompt", "run"]).true.mean().unstack("run")
    rows = {}
    for temperature, of_prompts in by_prompt.groupby("temperature"):
        apart = of_prompts[run] - of_prompts[over]
        half = 1.96 * apart.sem()
        rows[temperature] = {
            "before": of_prompts[over].mean(),
            "after": of_prompts[run].mean(),
            "gain": apart.mean(),
            "low": apart.mean() - half,
            "high": apart.mean() + half,
        }
    return pd.DataFrame(rows).T.rename_axis("temperature")
