"""Do answers have the attributes asked for? SteerLM 2.0's iterations beside SFT and SteerLM.

    compared = begin(setup, policy, prior, reward_model)       # SFT and SteerLM, before training
    after = save_and_measure(compared)
    history = steerlm2.iterate(policy, prior, reward_model, prompts, setup, after=after)
    chosen = choose(policy, history, compared)                 # where a judge chooses
    save(compared)                                             # for notebook 13

Paper: section 4.5. SteerLM 2.0 begins with SteerLM's policy.
"""

from collections.abc import Callable

import numpy as np
import pandas as pd
import torch

from hs2lib.align import steerlm2
from hs2lib.evaluate import response_rows, selection
from hs2lib.evaluate.comparison import Comparison
from hs2lib.evaluate.response_rows import score_of, truth_of
from hs2lib.group import ATTRIBUTES
from hs2lib.models.policy import Policy
from hs2lib.models.reward_model import RewardModel
from hs2lib.run.setup import Setup
from hs2lib.train.recipes import SteerLM2

PROMISED = "log P(a|x,y)"  # of the target: what SteerLM 2.0 trains towards


def names(iterations: int) -> list[str]:
    """The policies' names in tables; the last one has the method's own name."""
    earlier = [f"SteerLM 2.0, iteration {number}" for number in range(1, iterations)]
    return [*earlier, "SteerLM 2.0"]


def shown(setup: Setup) -> list[str]:
    """The policies that are compared, in their order."""
    return ["SFT", "SteerLM", *names(setup.recipe.iterations)]


def begin(setup: Setup, policy: Policy, prior: Policy, reward_model: RewardModel) -> Comparison:
    """A comparison that has SFT and SteerLM, before training.

    Their rows are those that earlier notebooks left, or they are measured now. Of a policy or prior
    that the recipe names nothing was left.

    setup: of the run.
    policy: SteerLM's, which training begins with.
    prior: SFT's.
    reward_model: scores the answers.
    """
    recipe = setup.recipe
    named = bool(recipe.start or recipe.prior)
    compared = Comparison.begin(setup, reward_model, prior, earlier=not named)
    compared.evaluate_first(prior, "SFT")
    if "SteerLM" not in {frame.policy[0] for frame in compared.frames}:
        compared.evaluate(policy, "SteerLM", recipe.target)
    return compared


def save_and_measure(compared: Comparison) -> Callable[[int, Policy], None]:
    """A function that saves the policy an iteration leaves and puts it into the comparison."""
    setup = compared.setup
    name_of = names(setup.recipe.iterations)

    def after(number: int, policy: Policy) -> None:
        policy.save(setup.folder / f"iteration-{number}" / "policy")
        compared.evaluate(policy, name_of[number - 1], setup.recipe.target)

    return after


def choose(policy: Policy, history: steerlm2.History, compared: Comparison) -> selection.Chosen:
    """Put the checkpoint of the last iteration that a judge finds best into the policy.

    It is measured in place of the iteration's last one. Without a judge nothing changes.
    """
    recipe = compared.setup.recipe
    chosen = selection.choose(policy, history.last, recipe, label=recipe.target)
    if recipe.judge != "none":
        compared.frames.pop()
        save_and_measure(compared)(recipe.iterations, policy)
    return chosen


def save(compared: Comparison) -> None:
    """Leave the rows of all iterations for later notebooks."""
    frames = compared.frames[-compared.setup.recipe.iterations :]
    response_rows.save(compared.setup.folder, pd.concat(frames, ignore_index=True))


def measure_promise(compared: Comparison) -> str:
    """Add `PROMISED` to the rows of every policy, and return the name of the measure that counts.

    Paper: section 4.5. The reward model's column has `PROMISED` of its predictions, which is what
    training can see. Where the truth is known, a second column has that of the true attributes, and
    this one counts.
    """
    recipe = compared.setup.recipe
    attribute_columns = {}  # by measure: the column of each attribute
    if compared.truth_known:
        attribute_columns[truth_of(PROMISED)] = {name: truth_of(name) for name in ATTRIBUTES}
    attributes = compared.reward_model.attributes
    attribute_columns[score_of(PROMISED)] = {name: score_of(name) for name in attributes}
    for frame in compared.frames:
        for measure, column_of in attribute_columns.items():
            values = torch.tensor(frame[list(column_of.values())].to_numpy(float))  # [responses, A]
            frame[measure] = steerlm2.attribute_log_prob(
                values, list(column_of), recipe.target, recipe
            )
    return next(iter(attribute_columns))


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

    summary: of the iterations, as `hs2lib.align.steerlm2.summary`.
    descents: of the toy, as `hs2lib.align.steerlm2.descents`.
    variances: of the policy's gradients, as `hs2lib.align.steerlm2.real_variances`.
    recipe: SteerLM 2.0's.
    """
    last = descents.iloc[-1]
    ratio = variances.ratio
    effective_samples = summary["effective samples"].mean()
    lines = [
        f"In the toy the KL ends at {last['equation 11, n = 10']:.1e} with the baseline "
        f"and at {last['equation 8, n = 10']:.1e} without.",
        f"On this policy the baseline divides the variance of a group's gradient "
        f"by {ratio.median():.1f} (median of {len(ratio)} prompts, "
        f"{ratio.min():.1f} to {ratio.max():.1f}).",
        f"Samples were drawn at temperature {recipe.temperature:g} and top-p {recipe.top_p:g}; "
        f"the effective number of them a prompt is {effective_samples:.1f} "
        f"of {recipe.n_samples}.",
    ]
    if "distance best" in summary:
        for row in summary.to_dict("records"):
            lines.append(
                f"Iteration {row['iteration']}: the distance on the prompts that choose the step "
                f"goes from {row['distance before']:.3f} to {row['distance best']:.3f}."
            )
            if row["best step"] == 0:
                lines.append(
                    f"The best step of iteration {row['iteration']} is 0: it trained nothing."
                )
    return lines


def trained(summary: pd.DataFrame) -> list[str]:
    """The policies of the iterations that trained anything: whose best step is not 0."""
    iterations = zip(names(len(summary)), summary["best step"], strict=True)
    return [name for name, best_step in iterations if best_step]


def conclusion(gains: pd.DataFrame, over_sft: pd.DataFrame, measure: str) -> str:
    """Whether SteerLM 2.0 improves on SteerLM, and whether it stays below SFT, by this measure.

    gains: of `gains_over_steerlm`.
    over_sft: of `gains_over_sft`.
    measure: how well answers have the attributes asked for, as `measure_promise` names it.
    """
    final = gains[(gains.policy == "SteerLM 2.0") & (gains.measure == measure)].iloc[0]
    if final["95 % low"] > 0:
        verdict = "improves on SteerLM here"
    elif final["95 % high"] < 0:
        verdict = "moves answers away from it"
    else:
        verdict = "is not shown to work"
    text = (
        f"**SteerLM 2.0 {verdict}**, by its own measure, "
        f"how well answers have the attributes asked for ({measure})."
    )
    upper_bound = over_sft.set_index("measure")["95 % high"].get(measure, np.nan)
    if upper_bound < 0:
        text += " It stays below SFT."
    return text
