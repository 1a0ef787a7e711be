"""Do answers have the attributes asked for? SteerLM 2.0's iterations beside SFT and SteerLM, which
it begins with.

    compared = begin(setup, policy, prior, reward_model)       # SFT and SteerLM, before training
    after = save_and_measure(compared)
    history = steerlm2.iterate(policy, prior, reward_model, prompts, setup, after=after)
    chosen = choose(policy, history, compared)                 # where a judge chooses the checkpoint
    save(compared)                                             # for notebook 13

Paper: section 4.5.
"""

from collections.abc import Callable

import numpy as np
import pandas as pd
import torch

from hs2lib.align import steerlm2
from hs2lib.evaluate import policies, selection
from hs2lib.evaluate.comparison import Comparison
from hs2lib.group import ATTRIBUTES
from hs2lib.models.policy import Policy
from hs2lib.models.reward_model import RewardModel
from hs2lib.run.setup import Setup
from hs2lib.train.recipes import SteerLM2

PROMISED = "log P(a|x,y)"  # of the target: what SteerLM 2.0 trains towards


def names(iterations: int) -> list[str]:
    """What the policies are called in tables, the last one by the method's own name."""
    return [f"SteerLM 2.0, iteration {number}" for number in range(1, iterations)] + ["SteerLM 2.0"]


def shown(setup: Setup) -> list[str]:
    """The policies that are compared, in their order."""
    return ["SFT", "SteerLM", *names(setup.recipe.iterations)]


def begin(setup: Setup, policy: Policy, prior: Policy, reward_model: RewardModel) -> Comparison:
    """A comparison that has SFT and SteerLM: as earlier notebooks left them, or measured now,
    before training.

    Of a policy or prior that the recipe names nothing was left.
    """
    recipe = setup.recipe
    compared = Comparison.begin(
        setup, reward_model, prior, earlier=not (recipe.start or recipe.prior)
    )
    compared.evaluate_first(prior, "SFT")
    if "SteerLM" not in {frame.policy[0] for frame in compared.frames}:
        compared.evaluate(policy, "SteerLM", recipe.target)
    return compared


def save_and_measure(compared: Comparison) -> Callable[[int, Policy], None]:
    """What is done with the policy that each iteration leaves: it is saved, and put into the comparison."""
    setup = compared.setup
    of_iterations = names(setup.recipe.iterations)

    def after(number: int, policy: Policy) -> None:
        policy.save(setup.folder / f"iteration-{number}" / "policy")
        compared.evaluate(policy, of_iterations[number - 1], setup.recipe.target)

    return after


def choose(policy: Policy, history: steerlm2.History, compared: Comparison) -> selection.Chosen:
    """The checkpoint of the last iteration that a judge finds best, measured in place of its last; else as it was."""
    recipe = compared.setup.recipe
    chosen = selection.choose(policy, history.last, recipe, label=recipe.target)
    if recipe.judge != "none":
        compared.frames.pop()
        save_and_measure(compared)(recipe.iterations, policy)
    return chosen


def save(compared: Comparison) -> None:
    """Leave the rows of all iterations for later notebooks."""
    frames = compared.frames[-compared.setup.recipe.iterations :]
    policies.save(compared.setup.folder, pd.concat(frames, ignore_index=True))


def measure_promise(compared: Comparison) -> str:
    """Add `PROMISED` to the rows of every policy, and return the name of the measure that counts.

    Paper: section 4.5. By the truth, where it is known, with the true attributes in place of
    predictions; and by the reward model, which is what training can see. The truth counts where it
    is known.
    """
    recipe = compared.setup.recipe
    columns = {}
    if compared.truth_known:
        columns[policies.truth_of(PROMISED)] = {
            name: policies.truth_of(name) for name in ATTRIBUTES
        }
    attributes = compared.reward_model.attributes
    columns[policies.score_of(PROMISED)] = {name: policies.score_of(name) for name in attributes}
    for frame in compared.frames:
        for measure, column_of in columns.items():
            values = torch.tensor(frame[list(column_of.values())].to_numpy(float))  # [responses, A]
            frame[measure] = steerlm2.attribute_log_prob(
                values, list(column_of), recipe.target, recipe
            )
    return next(iter(columns))


def gains_over_steerlm(compared: Comparison) -> pd.DataFrame:
    """What each iteration adds to the policy that the first one began with, paired by prompt."""
    gains = compared.gains("SteerLM")
    return gains[gains.policy.str.startswith("SteerLM 2.0")].reset_index(drop=True)


def gains_over_sft(compared: Comparison) -> pd.DataFrame:
    """What the last iteration adds to SFT, which is shown no label, paired by prompt."""
    gains = compared.gains("SFT")
    return gains[gains.policy == "SteerLM 2.0"].reset_index(drop=True)


def sentences(
    summary: pd.DataFrame, descents: pd.DataFrame, variances: pd.DataFrame, recipe: SteerLM2
) -> list[str]:
    """What the toy, the variances and the iterations say, a sentence each.

    summary, descents, variances: as `hs2lib.align.steerlm2.summary`, `descents` and
    `real_variances`.
    """
    last = descents.iloc[-1]
    ratio = variances.ratio
    effective = summary["effective samples"].mean()
    out = [
        f"In the toy the KL ends at {last['equation 11, n = 10']:.1e} with the baseline and at "
        f"{last['equation 8, n = 10']:.1e} without.",
        f"On this policy the baseline divides the variance of a group's gradient by {ratio.median():.1f} "
        f"(median of {len(ratio)} prompts, {ratio.min():.1f} to {ratio.max():.1f}).",
        f"Samples were drawn at temperature {recipe.temperature:g} and top-p {recipe.top_p:g}; the effective number "
        f"of them a prompt is {effective:.1f} of {recipe.n_samples}.",
    ]
    if "distance best" in summary:
        for row in summary.to_dict("records"):
            out.append(
                f"Iteration {row['iteration']}: the distance on the prompts that choose the step goes from "
                f"{row['distance before']:.3f} to {row['distance best']:.3f}."
            )
            if row["best step"] == 0:
                out.append(
                    f"The best step of iteration {row['iteration']} is 0: it trained nothing."
                )
    return out


def trained(summary: pd.DataFrame) -> list[str]:
    """The policies of the iterations that trained anything: whose best step is not 0."""
    of_iterations = names(len(summary))
    return [name for name, step in zip(of_iterations, summary["best step"], strict=True) if step]


def conclusion(gains: pd.DataFrame, over_sft: pd.DataFrame, measure: str) -> str:
    """Whether SteerLM 2.0 improves on SteerLM by this measure, how well answers have the attributes asked for."""
    final = gains[(gains.policy == "SteerLM 2.0") & (gains.measure == measure)].iloc[0]
    if final["95 % low"] > 0:
        says = "improves on SteerLM here"
    elif final["95 % high"] < 0:
        says = "moves answers away from it"
    else:
        says = "is not shown to work"
    text = f"**SteerLM 2.0 {says}**, by its own measure, how well answers have the attributes asked for ({measure})."
    above = over_sft.set_index("measure")["95 % high"].get(measure, np.nan)
    if above < 0:
        text += " It stays below SFT."
    return text
