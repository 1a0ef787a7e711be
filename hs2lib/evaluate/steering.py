"""Does a SteerLM policy follow its label? Its answers under other levels, by the truth and by the
reward model.

    what_labels_know(labelled, recipe)                   # how far the truth follows the labels that were trained on
    steered = answers_by_level(policy, compared)         # the same prompts under each level of each attribute
    slopes(steered, recipe)                              # the attribute that was asked for: 1 as asked, 0 deaf
    cross_slopes(steered, recipe)                        # everything else that moves with it

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
from hs2lib.evaluate import policies
from hs2lib.evaluate.comparison import Comparison
from hs2lib.group import ATTRIBUTES, Group
from hs2lib.models.policy import Policy
from hs2lib.models.rollout import rollouts
from hs2lib.stats import describe
from hs2lib.train.recipes import SteerLM

TRUTH, REWARD_MODEL = "truth", "reward model"  # who reads the attributes of an answer


def what_labels_know(labelled: Sequence[Group], recipe: SteerLM) -> pd.DataFrame:
    """What the labels of the answers that are trained on say of these, one row for each attribute
    of `steer_by`.

    Paper: silent. Columns: `R with length`, of the label and the number of characters; of generated
    answers `slope of the truth`, points of the true attribute for one level of its label with the
    other labels held fixed.
    """
    attributes = labelled[0].attributes
    labels = np.array([group.responses[0].labels for group in labelled])  # [answers, A]
    length = pd.Series([len(group.responses[0].text) for group in labelled])
    steered = pd.DataFrame(labels, columns=attributes)[list(recipe.steer_by)]
    known = steered.corrwith(length).to_frame("R with length").rename_axis("label")
    if is_generated(labelled):
        truth = np.concatenate([true_attributes(group) for group in labelled])  # [answers, 5]
        truth = pd.DataFrame(truth, columns=ATTRIBUTES)
        each = np.arange(len(labelled))
        for name in recipe.steer_by:
            at = attributes.index(name)
            others = np.delete(labels, at, axis=1) if len(attributes) > 1 else None
            slope = describe.slope(labels[:, at], truth[name], each, others, n_boot=recipe.n_boot)
            known.loc[name, "slope of the truth"] = float(slope.estimate)
    return known


@dataclass(frozen=True)
class Steered:
    """A policy's answers under every level: the rows of `policies.evaluate`, and whose prompts they
    answer.

    answers: besides, the columns `steered`, the attribute that is varied, and `asked`, its level;
    `prompt` is a number. levels: that each attribute is asked for. truth_known: whether the prompts
    are of the small world.
    """

    answers: pd.DataFrame
    levels: list[int]
    truth_known: bool

    @property
    def readers(self) -> list[str]:
        """Who reads the attributes of an answer: the truth first, where it is known, then the reward model."""
        return [TRUTH, REWARD_MODEL] if self.truth_known else [REWARD_MODEL]

    @property
    def reader(self) -> str:
        """The one who counts: the truth where it is known."""
        return self.readers[0]

    def read(self, part: pd.DataFrame, reader: str, attribute: str) -> pd.Series:
        """An attribute of some of the answers, as the truth or the reward model has it."""
        column = policies.truth_of(attribute) if reader == TRUTH else policies.score_of(attribute)
        return part[column]


def answers_by_level(policy: Policy, compared: Comparison) -> Steered:
    """The policy's answers with one attribute at each of `steer_levels`, the others as in `target`.

    Paper: silent. The same prompts and random numbers under every label, so levels are compared
    prompt by prompt. Who reads the answers sees no label.
    """
    recipe = compared.setup.recipe
    prompts = compared.held_out.groups[: recipe.n_steer_prompts]
    levels = sorted(set(recipe.steer_levels))
    frames = []
    for attribute in recipe.steer_by:
        for level, label in steerlm.targets(recipe.target, attribute, levels).items():
            frame = policies.evaluate(
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
        f"Levels {levels} of one attribute, {recipe.n_steer_prompts} prompts x {recipe.n_steer_samples} responses "
        f"of at most {recipe.steer_tokens} tokens"
    )


def slopes(steered: Steered, recipe: SteerLM) -> pd.DataFrame:
    """How far the attribute that was asked for moves with one level more of it, by each reader, and
    a verdict.

    Paper: silent. By least squares, prompts resampled. Columns: attribute, read by, slope, 95 %
    low, 95 % high, and verdict: "follows" or "the wrong way" where the interval leaves out 0, to
    three decimals; else "unclear".
    """
    rows = []
    for attribute, part in steered.answers.groupby("steered", sort=False):
        for reader in steered.readers:
            measured = steered.read(part, reader, attribute)
            slope = describe.slope(part.asked, measured, part.prompt, **recipe.resampled)
            rows.append((attribute, reader, *map(float, slope)))
    frame = pd.DataFrame(rows, columns=["attribute", "read by", "slope", "95 % low", "95 % high"])
    conditions = [frame["95 % low"].round(3) > 0, frame["95 % high"].round(3) < 0]
    frame["verdict"] = np.select(conditions, ["follows", "the wrong way"], "unclear")
    return frame


def means_by_level(steered: Steered, recipe: SteerLM) -> pd.DataFrame:
    """The mean of the attribute that was asked for at each level: rows (attribute, read by, level,
    mean, low, high).

    Paper: silent. 95 % intervals, prompts resampled.
    """
    rows = []
    for attribute, part in steered.answers.groupby("steered", sort=False):
        at = np.searchsorted(steered.levels, part.asked)
        for reader in steered.readers:
            values = steered.read(part, reader, attribute).to_numpy(float)
            means = describe.binned_means(
                values, at, len(steered.levels), part.prompt, **recipe.resampled
            )
            for number, level in enumerate(steered.levels):
                rows.append((attribute, reader, level, *(float(value[number]) for value in means)))
    return pd.DataFrame(
        rows, columns=["attribute", "read by", "level", "mean", "95 % low", "95 % high"]
    )


def cross_slopes(steered: Steered, recipe: SteerLM) -> pd.DataFrame:
    """How far each attribute, and the length, moves with one level more of each that is asked for,
    by the reader.

    Paper: silent. Columns: asked for, moves, slope, 95 % low, 95 % high. A policy that heard each
    attribute by itself would have zeros but where both are one.
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
    """The likeliest answer to the first prompt under the target, under the lowest of everything,
    and the highest.

    Paper: silent. Columns label and answer; the index is named by the prompt.
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
    return pd.DataFrame({"label": labels, "answer": answers}).rename_axis(
        prompt.prompt[-1].text[:200]
    )


def sentences(slopes: pd.DataFrame, known: pd.DataFrame) -> list[str]:
    """What the slopes say, a sentence each. known: of `what_labels_know`."""
    reader = slopes["read by"].iloc[0]
    own = slopes[slopes["read by"] == reader]
    follows = list(own.attribute[own.verdict == "follows"])
    number = f"By the {reader} the policy follows {len(follows)} of {len(own)} attributes"
    which = ", ".join(follows) or "this policy is not steered"
    out = [f"{number}: {which}."]
    for _, row in slopes.iterrows():
        out.append(
            f"Asked for one level more of {row.attribute}, the {row['read by']} moves by {row.slope:+.2f} "
            f"(95 % interval {row['95 % low']:.2f} to {row['95 % high']:.2f}): {row.verdict}."
        )
    if "slope of the truth" in known:
        for name, slope in known["slope of the truth"].items():
            out.append(f"The labels of {name}, the others fixed, tell {float(slope):+.2f} a level.")
    return out
