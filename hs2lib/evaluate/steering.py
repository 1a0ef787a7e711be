"""Does a SteerLM policy follow its label? Its answers under other levels of the label.

    what_labels_know(labelled, recipe)            # how far the truth follows the training labels
    steered = answers_by_level(policy, compared)  # the same prompts under each level
    slopes(steered, recipe)                       # the attribute asked for: 1 as asked, 0 deaf
    cross_slopes(steered, recipe)                 # everything else that moves with it

The answers are read by the truth, where it is known, and by the reward model.

Paper: section 4.5 promises that a policy can be steered and prints no measure of it; these are
ours.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from hs2lib.align import steerlm
from hs2lib.corpus.generate import is_generated
from hs2lib.corpus.grade import true_attributes
from hs2lib.engine.chat import label_string
from hs2lib.evaluate import response_rows
from hs2lib.evaluate.comparison import Comparison
from hs2lib.group import ATTRIBUTES, Group
from hs2lib.models.policy import Policy
from hs2lib.models.rollout import rollouts
from hs2lib.stats import describe
from hs2lib.train.recipes import SteerLM

# Who reads the attributes of an answer.
TRUTH = "truth"
REWARD_MODEL = "reward model"


def what_labels_know(labelled: Sequence[Group], recipe: SteerLM) -> pd.DataFrame:
    """What the training labels say of their answers: a row for each attribute of `steer_by`.

    Paper: silent. Columns: `R with length`, of the label and the number of characters; of generated
    answers `slope of the truth`, points of the true attribute for one level of its label with the
    other labels held fixed.
    """
    attributes = labelled[0].attributes
    labels = np.array([group.responses[0].labels for group in labelled])  # [answers, A]
    lengths = pd.Series([len(group.responses[0].text) for group in labelled])
    steered_labels = pd.DataFrame(labels, columns=attributes)[list(recipe.steer_by)]
    table = steered_labels.corrwith(lengths).to_frame("R with length").rename_axis("label")
    if is_generated(labelled):
        truth = np.concatenate([true_attributes(group) for group in labelled])  # [answers, 5]
        truth = pd.DataFrame(truth, columns=ATTRIBUTES)
        answer_numbers = np.arange(len(labelled))
        for name in recipe.steer_by:
            column = attributes.index(name)
            other_labels = None
            if len(attributes) > 1:
                other_labels = np.delete(labels, column, axis=1)  # [answers, A - 1]
            slope = describe.slope(
                labels[:, column], truth[name], answer_numbers, other_labels, n_boot=recipe.n_boot
            )
            table.loc[name, "slope of the truth"] = float(slope.estimate)
    return table


@dataclass(frozen=True)
class Steered:
    """A policy's answers under every level.

    answers: the rows of `response_rows.evaluate`, with two more columns: `steered`, the attribute
        that is varied, and `asked`, its level. `prompt` is a number.
    levels: those that each attribute is asked for.
    truth_known: whether the prompts are of the small world.
    """

    answers: pd.DataFrame
    levels: list[int]
    truth_known: bool

    @property
    def readers(self) -> list[str]:
        """Who reads the attributes of an answer: the truth first, where it is known."""
        return [TRUTH, REWARD_MODEL] if self.truth_known else [REWARD_MODEL]

    @property
    def reader(self) -> str:
        """The one who counts: the truth where it is known."""
        return self.readers[0]

    def read(self, part: pd.DataFrame, reader: str, attribute: str) -> pd.Series:
        """An attribute of some of the answers, as the truth or the reward model has it."""
        if reader == TRUTH:
            return part[response_rows.truth_of(attribute)]
        return part[response_rows.score_of(attribute)]


def answers_by_level(policy: Policy, compared: Comparison) -> Steered:
    """The policy's answers with one attribute at each of `steer_levels`, the others as in `target`.

    Paper: silent. The prompts and random numbers are the same under every label, so levels are
    compared prompt by prompt. Who reads the answers sees no label.
    """
    recipe = compared.setup.recipe
    prompts = compared.held_out.groups[: recipe.n_steer_prompts]
    levels = sorted(set(recipe.steer_levels))
    frames = []
    for attribute in recipe.steer_by:
        for level, label in steerlm.targets(recipe.target, attribute, levels).items():
            frame = response_rows.evaluate(
                policy,
                prompts,
                compared.reward_model,
                None,
                name=label,
                label=label,
                weighting=recipe.weighting,
                n=recipe.n_steer_samples,
                temperature=recipe.temperature,
                top_p=recipe.top_p,
                max_new_tokens=recipe.steer_tokens,
                seed=recipe.seed,
                file=compared.setup.folder / "steering",
                progress=False,
                **recipe.inference,
            )
            frames.append(frame.assign(steered=attribute, asked=level))
    answers = pd.concat(frames, ignore_index=True)
    answers["prompt"] = pd.factorize(answers.prompt)[0]
    return Steered(answers, levels, is_generated(prompts))


def caption(recipe: SteerLM) -> str:
    """What was asked, in words."""
    levels = sorted(set(recipe.steer_levels))
    return (
        f"Levels {levels} of one attribute, {recipe.n_steer_prompts} prompts "
        f"x {recipe.n_steer_samples} responses of at most {recipe.steer_tokens} tokens"
    )


def slopes(steered: Steered, recipe: SteerLM) -> pd.DataFrame:
    """How far the attribute that was asked for moves with one level more of it, by each reader.

    Paper: silent. By least squares, prompts resampled. Columns: attribute, read by, slope, 95 %
    low, 95 % high, and verdict: "follows" or "the wrong way" where the interval leaves out 0, to
    three decimals; else "unclear".
    """
    rows = []
    for attribute, part in steered.answers.groupby("steered", sort=False):
        for reader in steered.readers:
            values = steered.read(part, reader, attribute)
            slope = describe.slope(part.asked, values, part.prompt, **recipe.resampled)
            rows.append((attribute, reader, *map(float, slope)))
    table = pd.DataFrame(rows, columns=["attribute", "read by", "slope", "95 % low", "95 % high"])
    conditions = [table["95 % low"].round(3) > 0, table["95 % high"].round(3) < 0]
    table["verdict"] = np.select(conditions, ["follows", "the wrong way"], "unclear")
    return table


def means_by_level(steered: Steered, recipe: SteerLM) -> pd.DataFrame:
    """The mean of the attribute that was asked for at each level, with a 95 % interval.

    Paper: silent. Prompts are resampled. Columns: attribute, read by, level, mean, 95 % low,
    95 % high.
    """
    rows = []
    for attribute, part in steered.answers.groupby("steered", sort=False):
        level_numbers = np.searchsorted(steered.levels, part.asked)  # [answers]
        for reader in steered.readers:
            values = steered.read(part, reader, attribute).to_numpy(float)
            means = describe.binned_means(
                values, level_numbers, len(steered.levels), part.prompt, **recipe.resampled
            )
            for number, level in enumerate(steered.levels):
                rows.append((attribute, reader, level, *map(float, means.at(number))))
    return pd.DataFrame(
        rows, columns=["attribute", "read by", "level", "mean", "95 % low", "95 % high"]
    )


def cross_slopes(steered: Steered, recipe: SteerLM) -> pd.DataFrame:
    """How far each attribute and the length move with one level more of each that is asked for.

    Paper: silent. By the reader who counts. Columns: asked for, moves, slope, 95 % low, 95 % high.
    A policy that heard each attribute by itself would have zeros but where the two are one.
    """
    rows = []
    for attribute, part in steered.answers.groupby("steered", sort=False):
        measured = {name: steered.read(part, steered.reader, name) for name in recipe.steer_by}
        measured["characters"] = part.characters
        for name, values in measured.items():
            slope = describe.slope(part.asked, values, part.prompt, **recipe.resampled)
            rows.append((attribute, name, *map(float, slope)))
    return pd.DataFrame(rows, columns=["asked for", "moves", "slope", "95 % low", "95 % high"])


def under_three_labels(policy: Policy, compared: Comparison) -> pd.DataFrame:
    """The likeliest answer to one prompt under the target, the lowest and the highest levels.

    Paper: silent. The prompt is the first; the lowest and the highest are of all attributes.
    Columns: label, answer; the index is named by the prompt.
    """
    recipe = compared.setup.recipe
    attributes = compared.reward_model.attributes
    labels = {"target": recipe.target}
    for level in (0, 4):
        labels[f"all {level}"] = label_string([level] * len(attributes), attributes)
    prompt = compared.prompts[0]
    answers = {}
    for name, label in labels.items():
        (group,) = rollouts(
            policy,
            [prompt],
            label=label,
            n=1,
            temperature=0,
            max_new_tokens=recipe.steer_tokens,
            autocast=recipe.autocast,
            file=compared.setup.folder,
            progress=False,
        )
        answers[name] = group.responses[0].text
    table = pd.DataFrame({"label": labels, "answer": answers})
    return table.rename_axis(prompt.prompt[-1].text[:200])


def sentences(slopes: pd.DataFrame, known: pd.DataFrame) -> list[str]:
    """What the slopes say, a sentence each.

    slopes: of `slopes`.
    known: of `what_labels_know`.
    """
    reader = slopes["read by"].iloc[0]
    by_reader = slopes[slopes["read by"] == reader]
    followed = list(by_reader.attribute[by_reader.verdict == "follows"])
    names = ", ".join(followed) or "this policy is not steered"
    lines = [
        f"By the {reader} the policy follows {len(followed)} of {len(by_reader)} attributes: "
        f"{names}."
    ]
    for _, row in slopes.iterrows():
        lines.append(
            f"Asked for one level more of {row.attribute}, the {row['read by']} moves "
            f"by {row.slope:+.2f} (95 % interval {row['95 % low']:.2f} to {row['95 % high']:.2f}): "
            f"{row.verdict}."
        )
    if "slope of the truth" in known:
        for name, slope in known["slope of the truth"].items():
            lines.append(
                f"The labels of {name}, the others fixed, tell {float(slope):+.2f} a level."
            )
    return lines
