"""Does a SteerLM policy follow its label? Its answers under other levels of the label.

    what_labels_know(labelled, recipe)            # how far the truth follows the training labels
    steered = answers_by_level(policy, compared)  # the same prompts under each level
    slopes(steered, recipe)                       # what was asked for: does it move, and alone?
    cross_slopes(steered, recipe)                 # everything else that moves with it
    examples(policy, compared, steered, "quality")  # the answers themselves

The answers are read by the truth, where it is known, and by the reward model. The attributes of
quality are asked for together as well: ratings tie them so closely that no answer has much of one
and nothing of another.

Paper: section 4.5 promises that a policy can be steered and prints no measure of it; these are
ours.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import ipywidgets
import numpy as np
import pandas as pd

from hs2lib.align import steerlm
from hs2lib.corpus import marks
from hs2lib.corpus.generate import is_generated, task_of
from hs2lib.corpus.grade import true_attributes
from hs2lib.engine.chat import label_string
from hs2lib.evaluate import gallery, response_rows
from hs2lib.evaluate.comparison import Comparison
from hs2lib.group import ATTRIBUTES, Group, named_numbers
from hs2lib.models.policy import Policy
from hs2lib.models.rollout import rollouts
from hs2lib.paper import head_weights
from hs2lib.report import published
from hs2lib.report.answers import Answer
from hs2lib.report.report import digits_of
from hs2lib.stats import describe
from hs2lib.stats.bootstrap import Interval
from hs2lib.train.recipes import SteerLM

QUALITY = "quality"
TOGETHER = ("helpfulness", "correctness", "coherence")  # what quality asks for

# Who reads the attributes of an answer.
TRUTH = "truth"
REWARD_MODEL = "reward model"


def what_labels_know(labelled: Sequence[Group], recipe: SteerLM) -> pd.DataFrame:
    """What the training labels say of their answers: a row for each attribute of `steer_by`.

    Paper: silent. Columns: `R with length`, of the label and the number of characters; of generated
    answers `slope of the truth`, points of the true attribute for one level of its label with the
    other labels held fixed, and the ends of its 95 % interval by answer.
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
            columns = ["slope of the truth", "95 % low", "95 % high"]
            table.loc[name, columns] = [float(part) for part in slope]
    return table


_GOODNESS = np.array(head_weights("goodness", ATTRIBUTES))  # [A]


def parts_of(recipe: SteerLM) -> dict[str, tuple[str, ...]]:
    """What is varied: its name, and the attributes of the label that change with it.

    Paper: silent. Quality comes first, where all of `TOGETHER` are steered; then each attribute of
    `steer_by` by itself.
    """
    parts = {}
    if set(TOGETHER) <= set(recipe.steer_by):
        parts[QUALITY] = TOGETHER
    for attribute in recipe.steer_by:
        parts[attribute] = (attribute,)
    return parts


@dataclass(frozen=True)
class Steered:
    """A policy's answers under every level.

    answers: the rows of `response_rows.evaluate`, with two more columns: `steered`, what is varied,
        and `asked`, its level. `prompt` is a number.
    parts: what is varied, as `parts_of`.
    levels: those that each is asked for, the lowest first.
    truth_known: whether the prompts are of the small world.
    """

    answers: pd.DataFrame
    parts: dict[str, tuple[str, ...]]
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

    @property
    def main(self) -> list[str]:
        """Quality and each attribute of style; without quality all that is varied."""
        if QUALITY not in self.parts:
            return list(self.parts)
        return [name for name in self.parts if name not in TOGETHER]

    def under(self, name: str) -> pd.DataFrame:
        """The answers under every level of what is varied."""
        return self.answers[self.answers.steered == name].reset_index(drop=True)

    def read(self, part: pd.DataFrame, reader: str, name: str) -> pd.Series:
        """An attribute of some of the answers, or the mean of those of quality."""
        column_of = response_rows.truth_of if reader == TRUTH else response_rows.score_of
        columns = [column_of(attribute) for attribute in self.parts.get(name, (name,))]
        return part[columns].mean(axis=1, skipna=False)

    def rivals(self, name: str) -> list[str]:
        """What else is varied that leaves the attributes of `name` as they are in the target."""
        own = set(self.parts[name])
        return [other for other, attributes in self.parts.items() if not own & set(attributes)]


def answers_by_level(policy: Policy, compared: Comparison) -> Steered:
    """The policy's answers with one part of the label at each of `steer_levels`.

    Paper: silent. The rest of the label is that of `target`. The prompts and random numbers are the
    same under every label, so levels are compared prompt by prompt. Who reads the answers sees no
    label.
    """
    recipe = compared.setup.recipe
    prompts = compared.held_out.groups[: recipe.n_steer_prompts]
    levels = sorted(set(recipe.steer_levels))
    parts = parts_of(recipe)
    frames = []
    for name, attributes in parts.items():
        for level, label in steerlm.targets(recipe.target, attributes, levels).items():
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
            frames.append(frame.assign(steered=name, asked=level))
    answers = pd.concat(frames, ignore_index=True)
    answers["prompt"] = pd.factorize(answers.prompt)[0]
    return Steered(answers, parts, levels, is_generated(prompts))


def caption(recipe: SteerLM) -> str:
    """What was asked, in words."""
    levels = ", ".join(map(str, sorted(set(recipe.steer_levels))))
    responses = "response" if recipe.n_steer_samples == 1 else "responses"
    return (
        f"Levels {levels} of one part of the label, {recipe.n_steer_prompts} prompts "
        f"x {recipe.n_steer_samples} {responses} of at most {recipe.steer_tokens} tokens, "
        f"temperature {recipe.temperature:g}"
    )


def slopes(steered: Steered, recipe: SteerLM) -> pd.DataFrame:
    """How far what was asked for moves with one level more of it, by each reader, and if it alone.

    Paper: silent. By least squares, prompts resampled. Each is held against its hardest rival: what
    else is varied that moves the same most.

    Returns the columns attribute, read by, slope, 95 % low, 95 % high, rival, margin (the slope
    less that of the rival), margin low, margin high, and verdict:

    - "follows": both intervals lie above 0, to three decimals;
    - "not specific": the slope's does, but the rival may move it as much;
    - "moves": the slope's does, and nothing else was varied;
    - "the wrong way": the slope's interval lies below 0;
    - "not shown": else.
    """
    rows = []
    for name in steered.parts:
        part = steered.under(name)
        for reader in steered.readers:
            values = steered.read(part, reader, name)
            slope = _slope(part, values, recipe)
            rival, margin = _hardest_rival(steered, name, reader, recipe)
            row = (name, reader, *map(float, slope), rival, *map(float, margin))
            rows.append((*row, _verdict(slope, rival, margin)))
    interval = ["slope", "95 % low", "95 % high"]
    over_rival = ["rival", "margin", "margin low", "margin high"]
    return pd.DataFrame(rows, columns=["attribute", "read by", *interval, *over_rival, "verdict"])


def _slope(part: pd.DataFrame, values: pd.Series, recipe: SteerLM) -> Interval:
    """Points of the values for one level asked for; 0 without an interval where all are alike."""
    if values.nunique() == 1 and values.notna().all():
        return Interval(np.float64(0), np.float64(np.nan), np.float64(np.nan))
    return describe.slope(part.asked, values, part.prompt, **recipe.resampled)


def _hardest_rival(
    steered: Steered, name: str, reader: str, recipe: SteerLM
) -> tuple[str, Interval]:
    """What else moves `name` most, and the slope of `name` less that of it; "" for no rival."""
    own = steered.under(name)
    own_values = steered.read(own, reader, name)
    rival = ""
    margin = Interval(np.nan, np.nan, np.nan)
    for other in steered.rivals(name):
        part = steered.under(other)  # the same prompts and levels in the same order
        less = own_values - steered.read(part, reader, name)
        difference = _slope(own, less, recipe)
        if not rival or difference.estimate < margin.estimate:
            rival = other
            margin = difference
    return rival, margin


def _verdict(slope: Interval, rival: str, margin: Interval) -> str:
    """One word of a slope and of how much more it is than its rival's; see `slopes`."""
    if np.round(slope.high, 3) < 0:
        return "the wrong way"
    if not np.round(slope.low, 3) > 0:
        return "not shown"
    if not rival:
        return "moves"
    return "follows" if np.round(margin.low, 3) > 0 else "not specific"


def means_by_level(steered: Steered, recipe: SteerLM) -> pd.DataFrame:
    """The mean of what was asked for at each level, with a 95 % interval.

    Paper: silent. Prompts are resampled. Columns: attribute, read by, level, mean, 95 % low,
    95 % high.
    """
    rows = []
    for name in steered.parts:
        part = steered.under(name)
        level_numbers = np.searchsorted(steered.levels, part.asked)  # [answers]
        for reader in steered.readers:
            values = steered.read(part, reader, name).to_numpy(float)
            means = describe.binned_means(
                values, level_numbers, len(steered.levels), part.prompt, **recipe.resampled
            )
            for number, level in enumerate(steered.levels):
                rows.append((name, reader, level, *map(float, means.at(number))))
    return pd.DataFrame(
        rows, columns=["attribute", "read by", "level", "mean", "95 % low", "95 % high"]
    )


def cross_slopes(steered: Steered, recipe: SteerLM) -> pd.DataFrame:
    """How far each attribute and the length move with one level more of all that is asked for.

    Paper: silent. By the reader who counts. Columns: asked for, moves, slope, 95 % low, 95 % high.
    A policy that heard each attribute by itself would have zeros but where the two are one.
    """
    rows = []
    for name in steered.parts:
        part = steered.under(name)
        measured = {}
        for attribute in recipe.steer_by:
            measured[attribute] = steered.read(part, steered.reader, attribute)
        measured["characters"] = part.characters
        for attribute, values in measured.items():
            slope = _slope(part, values, recipe)
            rows.append((name, attribute, *map(float, slope)))
    return pd.DataFrame(rows, columns=["asked for", "moves", "slope", "95 % low", "95 % high"])


def end_to_end(steered: Steered, recipe: SteerLM) -> pd.DataFrame:
    """By how much answers to the highest level are better than those to the lowest, as a whole.

    Paper: silent. Goodness by the truth where it is known, else the reward model's score; paired by
    prompt. Columns: asked for, change, 95 % low, 95 % high.
    """
    measure = response_rows.TRUTH if steered.truth_known else response_rows.SCORE
    lowest = steered.levels[0]
    highest = steered.levels[-1]
    rows = []
    for name in steered.parts:
        part = steered.under(name)
        part = part[part.asked.isin([lowest, highest])]
        slope = _slope(part, part[measure], recipe)
        change = (highest - lowest) * np.array(slope, dtype=float)
        rows.append((name, *change))
    return pd.DataFrame(rows, columns=["asked for", "change", "95 % low", "95 % high"])


# The answers themselves


def examples(
    policy: Policy, compared: Comparison, steered: Steered, name: str
) -> list[tuple[str, Group, list[Answer]]]:
    """Answers to the lowest and the highest level of `name`, greedy and sampled, to a few prompts.

    Paper: silent. The prompts are those where `name` rose most from the lowest to the highest
    level, where it fell most, and the median, by the reader who counts.

    Returns why a prompt was chosen, the prompt, and its answers.
    """
    recipe = compared.setup.recipe
    ends = [steered.levels[0], steered.levels[-1]]
    change = _changes(steered, name)
    prompts = compared.held_out.groups[: len(change)]
    change.index = [group.id for group in prompts]
    what = f"{name} by the {steered.reader}, asked for {ends[1]} less asked for {ends[0]}"
    chosen = gallery.extremes(prompts, change, what)
    labels = {}
    for level, label in steerlm.targets(recipe.target, steered.parts[name], ends).items():
        labels[f"asked for {name} {level}"] = label
    shown = gallery.ask(
        dict.fromkeys(labels, policy),
        [group for _, group in chosen],
        compared.reward_model,
        compared.setup,
        labels=labels,
    )
    return [(why, *asked) for (why, _), asked in zip(chosen, shown, strict=True)]


def _changes(steered: Steered, name: str) -> pd.Series:
    """By how much `name` rises from its lowest to its highest level, by number of the prompt."""
    part = steered.under(name)
    values = steered.read(part, steered.reader, name)
    by_prompt = values.groupby([part.prompt, part.asked]).mean().unstack()  # [prompts, levels]
    return (by_prompt[steered.levels[-1]] - by_prompt[steered.levels[0]]).fillna(0)


def most_moved(steered: Steered) -> int:
    """The number of the prompt whose answers change most, up or down, with what is asked for."""
    changes = [_changes(steered, name).abs() for name in steered.main]
    return int(sum(changes).idxmax())


def presets(policy: Policy, compared: Comparison, number: int = 0) -> pd.DataFrame:
    """One prompt under labels of the slider panel: the target, and each part at 0 and at 4.

    Paper: silent. number: of the prompt among the held-out ones. The index is named by the prompt.
    Columns: truth (where it is known), characters, answer, with signs as in `hs2lib.corpus.marks`.
    """
    recipe = compared.setup.recipe
    prompt = compared.held_out.groups[number]
    labels = {"the target": recipe.target}
    for name, attributes in _shown_parts(recipe).items():
        for level, label in steerlm.targets(recipe.target, attributes, (0, 4)).items():
            labels[f"{name} {level}"] = label
    rows = {}
    for name, label in labels.items():
        text = _greedy(policy, prompt, label, compared)
        row: dict[str, object] = {}
        if is_generated([prompt]):
            marked = marks.mark(task_of(prompt.id), text)
            row["truth"] = float(marked.grade.attributes @ _GOODNESS)
        row["characters"] = len(text)
        row["answer"] = marks.plain(marked) if "truth" in row else text
        rows[name] = row
    table = pd.DataFrame.from_dict(rows, orient="index")
    return table.rename_axis(prompt.prompt[-1].text[:200])


def panel(
    policy: Policy,
    compared: Comparison,
    number: int = 0,
    *,
    draw: Callable[[Group, Sequence[Answer]], str],
) -> ipywidgets.VBox:
    """Sliders for a live notebook: each part of the label from 0 to 4, and the answer to it.

    number: of the prompt to begin with among the held-out ones.
    """
    recipe = compared.setup.recipe
    parts = _shown_parts(recipe)
    wanted = named_numbers(recipe.target)
    prompts = compared.held_out.groups
    which = ipywidgets.IntSlider(
        number, 0, len(prompts) - 1, description="prompt", continuous_update=False
    )
    sliders = {}
    for name, attributes in parts.items():
        level = int(wanted[attributes[0]])
        sliders[name] = ipywidgets.IntSlider(level, 0, 4, description=name, continuous_update=False)
    view = ipywidgets.HTML()

    def answer(_: object = None) -> None:
        levels = dict(wanted)
        for name, slider in sliders.items():
            levels |= dict.fromkeys(parts[name], slider.value)
        label = label_string(levels.values(), tuple(levels))
        prompt = prompts[which.value]
        text = _greedy(policy, prompt, label, compared)
        view.value = draw(prompt, [Answer(label, text, "greedy")])

    for slider in (which, *sliders.values()):
        slider.observe(answer, "value")
    answer()
    return ipywidgets.VBox([which, *sliders.values(), view])


def _shown_parts(recipe: SteerLM) -> dict[str, tuple[str, ...]]:
    """What the panel has sliders for: quality, and each attribute that is none of it."""
    parts = parts_of(recipe)
    if QUALITY in parts:
        for attribute in TOGETHER:
            del parts[attribute]
    return parts


def _greedy(policy: Policy, prompt: Group, label: str, compared: Comparison) -> str:
    """The likeliest answer to a prompt under a label."""
    recipe = compared.setup.recipe
    (group,) = rollouts(
        policy,
        [prompt],
        label=label,
        n=1,
        temperature=0,
        max_new_tokens=recipe.steer_tokens,
        autocast=recipe.autocast,
        progress=False,
    )
    return group.responses[0].text


# What is said of it


def cross_message(cross: pd.DataFrame, steered: Steered) -> str:
    """Of the slopes that leave out 0, how many are of what was asked for, as a figure's title.

    cross: of `cross_slopes`, attributes alone.
    """
    clear = _clear(cross, steered)
    return (
        f"{len(clear)} of {len(cross)} slopes leave out 0 (by chance alone about "
        f"{0.05 * len(cross):.1f});\nof what was asked for: {clear.own.sum()}, "
        f"of something else: {(~clear.own).sum()}"
    )


def cross_sentences(cross: pd.DataFrame, steered: Steered) -> list[str]:
    """Which attributes clearly move with a label that does not ask for them, a sentence each.

    cross: of `cross_slopes`, attributes alone.
    """
    clear = _clear(cross, steered)
    lines = []
    for attribute, part in clear[~clear.own].groupby("moves", sort=False):
        listed = [f"{row['asked for']} ({row['slope']:+.2f})" for row in part.to_dict("records")]
        lines.append(f"{attribute.capitalize()} moves with labels of {', '.join(listed)}, too.")
    return lines or ["No attribute clearly moves with a label that does not ask for it."]


def _clear(cross: pd.DataFrame, steered: Steered) -> pd.DataFrame:
    """The slopes whose interval leaves out 0, and in `own` whether each was asked for."""
    clear = cross[(cross["95 % low"] > 0) | (cross["95 % high"] < 0)]
    own = []
    for name, attribute in zip(clear["asked for"], clear.moves, strict=True):
        own.append(attribute in steered.parts[name])
    return clear.assign(own=np.array(own, dtype=bool))


def conclusion(slopes: pd.DataFrame) -> str:
    """Which labels the policy follows, by the reader who counts, and which not, in a sentence."""
    reader = slopes["read by"].iloc[0]
    counted = slopes[slopes["read by"] == reader]
    followed = counted[counted.verdict == "follows"].attribute
    shown = ", ".join(followed) or "none of its labels"
    text = f"By the {reader} the policy is shown to follow {shown}."
    for verdict, part in counted[counted.verdict != "follows"].groupby("verdict", sort=False):
        text += f" {verdict.capitalize()}: {', '.join(part.attribute)}."
    return text


def sentences(slopes: pd.DataFrame) -> list[str]:
    """What the slopes by the reader who counts say, a sentence each. slopes: of `slopes`."""
    reader = slopes["read by"].iloc[0]
    lines = []
    for row in slopes[slopes["read by"] == reader].to_dict("records"):
        text = (
            f"**{row['attribute']}: {row['verdict']}.** One level more of it moves the {reader} "
            f"by {_number(row['slope'], row['95 % low'], row['95 % high'])}, "
            f"so from level 0 to 4 by {4 * row['slope']:+.2f}"
        )
        if row["rival"] and np.isfinite(row["margin"]):
            margin = _number(row["margin"], row["margin low"], row["margin high"])
            rival = f"one of {row['rival']} moves"
            if np.round(row["margin low"], 3) > 0:
                text += f". A level more is {margin} above what {rival}"
            else:
                text += f". A level differs by {margin} from what {rival}"
        lines.append(text + ".")
    return lines


def _number(value: float, low: float, high: float) -> str:
    """A number with its 95 % interval, where there is one."""
    if np.isnan(low):
        return f"{value:+.2f} (no interval: the same on every prompt)"
    if value == low == high == 0:
        return "0 (the same on every prompt)"
    digits = digits_of(low, high)
    return f"{value:+.{digits}f} ({low:+.{digits}f} to {high:+.{digits}f})"


def unmoved_in_words(steered: Steered) -> str:
    """How many prompts get the same answers under the lowest level and under the highest, in words.

    Of the parts of `Steered.main`, word for word. A policy that ignores its label has all.
    """
    lowest = steered.levels[0]
    highest = steered.levels[-1]
    parts = []
    for name in steered.main:
        by_level = steered.under(name).groupby(["asked", "prompt"])[response_rows.TEXT].agg(tuple)
        unmoved = (by_level[lowest] == by_level[highest]).sum()
        parts.append(f"{name} {unmoved}")
    return (
        f"Of {steered.answers.prompt.nunique()} prompts so many get word for word the same answers "
        f"at levels {lowest} and {highest}: {', '.join(parts)}."
    )


def end_sentence(ends: pd.DataFrame, steered: Steered, name: str) -> str:
    """By how much the highest level of `name` makes answers better as a whole, in words.

    ends: of `end_to_end`.
    """
    row = ends.set_index("asked for").loc[name]
    change = _number(row["change"], row["95 % low"], row["95 % high"])
    return (
        f"From {name} {steered.levels[0]} to {name} {steered.levels[-1]} the goodness of answers, "
        f"by the {steered.reader}, changes by {change}"
    )


def seeds_in_words() -> list[str]:
    """What asking for a style at 4 in place of 0 moves over the seeds; [] without any."""
    shown = published.styles_in_words()
    lines = []
    for name in ("complexity", "verbosity"):
        change = published.of_seeds("steerlm", less="itself", what=name, measure=name)
        if change and f"Asked for {name} " not in shown:
            lines.append(f"Asked for {name} 4 in place of 0, the true {name} changes, {change}.")
    return [*lines, f"Over seeds: {shown}"] if shown else lines


def how_large(slopes: pd.DataFrame) -> str:
    """What asking for level 4 in place of 0 moves, by the reader who counts, and over the seeds.

    slopes: of `slopes`, those to speak of.
    """
    reader = slopes["read by"].iloc[0]
    lines = []
    for row in slopes[slopes["read by"] == reader].to_dict("records"):
        ends = [4 * row[column] for column in ("slope", "95 % low", "95 % high")]
        name = row["attribute"]
        lines.append(
            f"{name.capitalize()} asked for at 4 in place of 0: {row['verdict']}, "
            f"{_number(*ends)} points of it by the {reader}."
        )
    if reader == TRUTH:
        lines += seeds_in_words()
    return " ".join(lines)


def unused(known: pd.DataFrame, slopes: pd.DataFrame) -> str:
    """Which label knows most of those that the policy is not shown to follow, in a sentence.

    "" where the truth is not known, and where the policy follows all of them.

    known: of `what_labels_know`.
    slopes: of `slopes`.
    """
    if "slope of the truth" not in known or TRUTH not in set(slopes["read by"]):
        return ""
    of_truth = slopes[slopes["read by"] == TRUTH].set_index("attribute")
    left = [name for name in known.index if of_truth.verdict[name] != "follows"]
    if not left:
        return ""
    name = known["slope of the truth"][left].idxmax()
    return (
        f"The label of {name} knows {known['slope of the truth'][name]:+.2f} points a level; the "
        f"policy moves {of_truth.slope[name]:+.3f} with it. Why is not shown here."
    )


def rises(steered: Steered, name: str) -> bool:
    """Whether `name` rises with its label on any prompt, by the reader who counts."""
    return bool((_changes(steered, name) > 0).any())


def ceiling(known: pd.DataFrame) -> str:
    """What the labels could teach, in a sentence; "" where the truth is not known.

    known: of `what_labels_know`.
    """
    if "slope of the truth" not in known:
        return ""
    values = known["slope of the truth"].sort_values(ascending=False)
    listed = ", ".join(f"{name} {value:+.2f}" for name, value in values.items())
    return (
        f"One level of a label, the others fixed, tells so many points of the true attribute: "
        f"{listed}."
    )
