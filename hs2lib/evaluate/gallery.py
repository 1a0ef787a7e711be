"""Answers of policies to look at: each prompt answered greedily and sampled, scored and graded.

    shown = ask({"SFT": sft, "DPO": policy}, prompts, reward_model, setup)
    for group, answers in shown:
        show.answers(group, answers)

Paper: silent; section 4 shows no answers.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from hs2lib.evaluate.comparison import Comparison
from hs2lib.evaluate.response_rows import GREEDY, SCORE
from hs2lib.group import Group
from hs2lib.models import saved
from hs2lib.models.policy import Policy, load_policy
from hs2lib.models.reward_model import RewardModel
from hs2lib.models.rollout import rollouts
from hs2lib.paper import head_weights
from hs2lib.report.answers import Answer
from hs2lib.runs.setup import Setup

TEMPERATURES = (0.0, 0.7)  # greedy, and the one at which the paper samples (section 4.3)


def ask(
    policies: Mapping[str, Policy | str | Path],
    prompts: Sequence[Group],
    reward_model: RewardModel | None,
    setup: Setup,
    *,
    labels: Mapping[str, str] | None = None,
    temperatures: Sequence[float] = TEMPERATURES,
    seed: int | None = None,
    keep: bool = True,
) -> list[tuple[Group, list[Answer]]]:
    """What each policy answers to each prompt, once at each temperature.

    Args:
        policies: by the name to show; a folder or a name is loaded, one at a time.
        prompts: groups whose prompts are asked; their responses are left alone.
        reward_model: scores the answers by the recipe's weighting; None for no scores.
        setup: of the run. Its recipe has the seed and the longest answer, its folder keeps answers.
        labels: the label string of a policy that reads one, by the policy's name.
        temperatures: 0 is greedy.
        seed: of the samples; None for the recipe's.
        keep: whether the answers are kept in the run's folder, and read where they are.

    Returns:
        The prompts with their answers, by prompt, then policy, then temperature; none for none.
    """
    if not prompts:
        return []
    recipe = setup.recipe
    labels = labels or {}
    shown: list[list[Answer]] = [[] for _ in prompts]
    for name, place in policies.items():
        policy = place
        if not isinstance(place, Policy):
            policy = load_policy(place).to(saved.device())
        for temperature in temperatures:
            answered = rollouts(
                policy,
                prompts,
                n=1,
                temperature=temperature,
                top_p=recipe.eval_top_p,
                max_new_tokens=recipe.eval_tokens,
                label=labels.get(name),
                seed=recipe.seed if seed is None else seed,
                autocast=recipe.autocast,
                file=setup.folder if keep else None,
                progress=False,
            )
            scores = _scores(answered, reward_model, setup)
            how = f"T = {temperature:g}" if temperature else "greedy"
            for answers, group, score in zip(shown, answered, scores, strict=True):
                answers.append(Answer(name, group.responses[0].text, how, score))
    return list(zip(prompts, shown, strict=True))


def written(group: Group, names: Sequence[str], attribute: str = "") -> list[Answer]:
    """The responses that a group has, as answers to show.

    group: a prompt with its responses.
    names: of those who wrote them, in their order.
    attribute: the label to show beside each; "" for none.
    """
    shown = []
    for name, response in zip(names, group.responses, strict=True):
        how = ""
        if attribute in group.attributes:
            how = f"{attribute} {response.labels[group.attributes.index(attribute)]:g}"
        shown.append(Answer(name, response.text, how))
    return shown


def _scores(
    answered: Sequence[Group], reward_model: RewardModel | None, setup: Setup
) -> list[float | None]:
    """The reward model's weighted score of the one response of each group."""
    if reward_model is None:
        return [None] * len(answered)
    weights = np.array(head_weights(setup.recipe.weighting, reward_model.attributes))
    return (reward_model.score(answered).numpy() @ weights).tolist()


def by_change(compared: Comparison, policy: str, against: str) -> list[tuple[str, Group]]:
    """Prompts to show, and why: of the largest gain, the median change and the largest loss.

    What changes is the truth of the greedy answer; on real prompts, the reward model's score of the
    samples, without one their length. A largest gain that is none is left out, and so is a largest
    loss.

    compared: holds the rows of both policies.
    policy: the name of the one that changed.
    against: the name of the other one.
    """
    known = [name for name in (GREEDY, SCORE, "characters") if name in compared.frames[-1]]
    measure = known[0]
    of_prompt = {}
    for frame in compared.frames:
        of_prompt[frame.policy.iloc[0]] = frame.groupby("prompt", sort=False)[measure].mean()
    change = of_prompt[policy] - of_prompt[against]
    return extremes(compared.prompts, change, f"{policy} less {against}, {measure}")


def extremes(prompts: Sequence[Group], change: pd.Series, what: str) -> list[tuple[str, Group]]:
    """The prompts of the largest gain, the median change and the largest loss, and why each.

    prompts: all of them.
    change: of each prompt, by its id.
    what: changes, in words.
    """
    change = change.sort_values(kind="stable")
    by_id = {group.id: group for group in prompts}
    shown = []
    if change.iloc[-1] > 0:
        why = f"The largest gain ({what}: {change.iloc[-1]:+.2f})"
        shown.append((why, by_id[change.index[-1]]))
    middle = len(change) // 2
    why = f"The median change ({what}: {change.iloc[middle]:+.2f})"
    shown.append((why, by_id[change.index[middle]]))
    if change.iloc[0] < 0:
        why = f"The largest loss ({what}: {change.iloc[0]:+.2f})"
        shown.append((why, by_id[change.index[0]]))
    return shown


def scorer(setup: Setup) -> RewardModel | None:
    """The reward model whose scores stand beside answers; None for one that was never trained."""
    model = saved.reward_model(setup)
    if model is None or model.warning:
        return None
    return model
