"""The answers of a policy as a table: what every figure and every verdict is made of.

held_out = held_out_prompts(setup, 200)
table = answered(policy, held_out.groups, run="DPO", judge=reward_model, n=1, temperature=0.0, ..)
table.groupby("run").true.mean()
gains(table, "DPO", over="SFT")
"""

from collections.abc import Sequence
from dataclasses import replace

import pandas as pd

from hs2lib.data.load import Loaded, load
from hs2lib.group import ATTRIBUTES, Group
from hs2lib.models.policy import Policy
from hs2lib.models.reward_model import RewardModel
from hs2lib.models.rollout import rollouts
from hs2lib.names import REAL
from hs2lib.paper import head_weights
from hs2lib.runs.setup import Setup
from hs2lib.world import grade, sets
from hs2lib.world.cards import card_of

# The columns of `answered` by which policies are compared, the best first, with their names.
WORTH = {"true": "true score", "judge": "reward model's score", "words": "length in words"}


def held_out_prompts(setup: Setup, n: int) -> Loaded:
    """Prompts that nothing was trained on: of the small world n, else those that the recipe names.

    In the small world they ask for facts that no training prompt asks for. Of real rows they are
    the first `n_eval_prompts` of `eval_dataset`. Paper: silent.

    Raises: as `hs2lib.data.load.load`.
    """
    recipe = setup.recipe
    if recipe.source != "postcards" and recipe.eval_source in REAL:
        loaded = load(
            recipe.eval_dataset, recipe.eval_source, split=recipe.eval_split, strict=recipe.strict
        )
        return replace(loaded, groups=loaded.groups[: recipe.n_eval_prompts])
    seed = 200 + recipe.seed
    groups = list(sets.groups(n, seed=seed, split="validation"))
    return Loaded(groups, f"{sets.source(seed)}, {n} prompts", generated=True)


def answered(
    policy: Policy,
    prompts: Sequence[Group],
    *,
    run: str,
    judge: RewardModel | None = None,
    temperature: float = 0.0,
    label: str | None = None,
    weighting: str = "goodness",
    **sampling: object,
) -> pd.DataFrame:
    """One row an answer: where it is from, its text, what is counted in it, what it is worth.

    Args:
        policy: that answers.
        prompts: groups; their responses are not read.
        run: its name, for the column.
        judge: that scores the answers.
        temperature: of sampling; 0 is greedy.
        label: SteerLM's label string that opens every answer.
        weighting: of the judge's outputs, as `hs2lib.paper.head_weights` takes it.
        sampling: further options of `rollouts`; n and max_new_tokens are needed.

    Returns: the columns run, prompt, sample, temperature, label, question, text, finished; of
        prompts that were generated the counts of `hs2lib.world.grade`, `off` (sentences of small
        talk too many or too few), the true attributes and `true`, their goodness; of real ones
        `words`, their number; with a judge `judge`, the weighted sum of what it sees.
    """
    generated = sets.is_generated(prompts)
    groups = rollouts(
        policy,
        prompts,
        temperature=temperature,
        label=label,
        batch=512 if generated else 64,  # real prompts are long
        progress=False,
        **sampling,
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
    if generated:
        table = table.join(graded(table))
    else:
        table["words"] = table["text"].str.split().str.len()
    if judge is not None:
        autocast = sampling.get("autocast", "float32")
        scores = judge.score(groups, autocast=autocast).double().numpy()  # [R, A]
        table["judge"] = scores @ head_weights(weighting, judge.attributes)
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


def gains(answers: pd.DataFrame, run: str, over: str, measure: str = "true") -> pd.DataFrame:
    """What a policy adds to the true score of another, or to another measure, paired by prompt.

    Args:
        answers: tables of `answered`, one after the other.
        run: the policy.
        over: the policy that it is compared with.
        measure: the column of the answers, as those of `WORTH`.

    Returns: a row for each temperature: the measure's mean `before` and `after`, the `gain`, and
        the ends `low` and `high` of its 95 % interval over the prompts of this one training.
    """
    by_prompt = answers.groupby(["temperature", "prompt", "run"])[measure].mean().unstack("run")
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
