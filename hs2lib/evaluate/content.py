"""What the grader reads in a policy's answers: is the request treated, how rightly, what costs it.

    content = of_policies(compared, {"base": base, "SFT": policy})
    parts = parts_of(compared, {"SFT": sft, "PPO": policy})    # what takes goodness away
    trap_in_words(parts)                                       # was it jargon?
    jargon_in_words({"SFT": before, "PPO": after}, "sampled")  # jargon of sampled answers
    cut = unfinished(compared, {"SFT": sft, "DPO": policy})    # answers that do not end

Paper: silent; the answers are to prompts of the small world, whose tasks are known.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from hs2lib.corpus import generate, grade
from hs2lib.evaluate.comparison import Comparison
from hs2lib.evaluate.questions import beside_0, mean
from hs2lib.group import Group
from hs2lib.models.policy import Policy
from hs2lib.report.answers import Answer
from hs2lib.report.report import digits_of
from hs2lib.stats.bootstrap import bootstrap

TREATS = "answers that treat what was asked (%)"
# The part of `grade.COSTS` that is no loss: it gives back what faults take below an attribute's 0.
GIVES_BACK = "ends at 0"
# Points per answer of jargon in the answers of the start. Where they lose less, there is hardly any
# jargon that a training could press on.
HARDLY_ANY = 0.05


@dataclass(frozen=True)
class Content:
    """What the grader counted.

    table: measures down, policies across, greedy and sampled.
    sentences: what changed from the first policy to the second, with 95 % intervals.
    """

    table: pd.DataFrame
    sentences: tuple[str, ...]


def counts(answered: Sequence[Group]) -> pd.DataFrame:
    """What the grader finds in answers to generated prompts: a row an answer, by the prompt's id.

    An answer treats its prompt if it says at least one of the items asked for, right or wrong. To
    refuse another request than the one made does not count. Raises ValueError for a group that was
    not generated.
    """
    rows = []
    for group in answered:
        task = generate.task_of(group.id)
        for answer in group.responses:
            graded = grade.grade(task, answer.text)
            row = {"prompt": group.id, TREATS: 100 * graded.treats}
            for kind in ("right", "wrong", "missing"):
                row[f"items {kind} (%)"] = 100 * len(getattr(graded, kind)) / graded.n_items
            for kind in ("repeated", "contradicted", "irrelevant", "garbled"):
                row[f"{kind}, an answer"] = getattr(graded, kind)
            rows.append(row)
    return pd.DataFrame(rows).set_index("prompt")


def of_policies(compared: Comparison, policies: Mapping[str, Policy]) -> Content | None:
    """Means of `counts` by policy, of its greedy answers and of the sampled ones.

    compared: the comparison in which the policies were measured.
    policies: two, by name; the sentences compare the second with the first, prompt by prompt.

    Returns None where the truth is not known.
    """
    if not compared.truth_known:
        return None
    answers_by_way = {
        "greedy": compared.greedy_answers,
        f"T = {compared.setup.recipe.eval_temperature:g}": compared.answers,
    }
    counted = {}
    for way, answers in answers_by_way.items():
        for name, policy in policies.items():
            counted[f"{name}, {way}"] = counts(answers(policy))
    first, second = policies
    means = {row: frame.mean() for row, frame in counted.items()}
    table = pd.DataFrame(means).rename_axis("measure")
    first, second = policies

    def changed(measure: str, way: str) -> str:
        """The second policy's measure less the first one's, in words."""
        before = counted[f"{first}, {way}"][measure]
        after = counted[f"{second}, {way}"][measure]
        difference = after - before  # both in the order of prompts and samples
        interval = mean(difference, difference.index, **compared.setup.recipe.resampled)
        value, low, high = interval
        return f"{way} {value:+.1f} ({low:+.1f} to {high:+.1f})"

    sentences = []
    for kind in ("right", "wrong", "missing"):
        ways = ", ".join(changed(f"items {kind} (%)", way) for way in answers_by_way)
        sentences.append(f"Items {kind} in 100, {second} less {first}: {ways}.")
    return Content(table, tuple(sentences))


def parts_of(
    compared: Comparison,
    policies: Mapping[str, Policy],
    labels: Mapping[str, str] | None = None,
) -> pd.DataFrame | None:
    """What takes goodness away from greedy answers, by part (`hs2lib.corpus.grade.Grade.costs`).

    The parts of a policy, with its truth, add up to what a faultless answer has.

    compared: whose prompts are answered.
    policies: two, by name; the second is compared with the first.
    labels: the label string of a policy that reads one, by the policy's name.

    Returns rows (part, the two policies' names, difference, 95 % low, 95 % high), in points an
    answer; the difference is paired by prompt. None where the truth is not known.
    """
    if not compared.truth_known:
        return None
    costs = []
    for name, policy in policies.items():
        label = (labels or {}).get(name)
        costs.append(costs_of(compared.greedy_answers(policy, label)))
    before, after = costs
    rows = []
    for part in grade.COSTS:
        change = after[part] - before[part]
        interval = mean(change, change.index, **compared.setup.recipe.resampled)
        rows.append((part, before[part].mean(), after[part].mean(), *interval))
    return pd.DataFrame(rows, columns=["part", *policies, "difference", "95 % low", "95 % high"])


def costs_of(answered: Sequence[Group]) -> pd.DataFrame:
    """What takes goodness away from answers to generated prompts: a row an answer, by prompt."""
    rows = []
    for group in answered:
        task = generate.task_of(group.id)
        for answer in group.responses:
            rows.append({"prompt": group.id, **grade.grade(task, answer.text).costs})
    return pd.DataFrame(rows).set_index("prompt")


def lost_in_words(name: str, answered: Sequence[Group]) -> str:
    """How much answers lose, by part, in a sentence; "" for real ones.

    name: of the answers.
    answered: groups with them.
    """
    if not generate.is_generated(answered):
        return ""
    costs = costs_of(answered).mean().sort_values(ascending=False)
    parts = [f"{part} {cost:.2f}" for part, cost in costs.items() if abs(cost) >= 0.005]
    return (
        f"Of {grade.FAULTLESS:g} points {name} lose {costs.sum():.2f} on average: "
        f"{', '.join(parts)}."
    )


def parts_in_words(parts: pd.DataFrame) -> list[str]:
    """Which parts cost less than before, and which cost more.

    Only faults are named: more of "ends at 0" means more faults at once, and no better answer. The
    largest rise that is nearly shown is named, too (`_nearly_more`). The last sentence says how
    many parts were looked at.

    parts: of `parts_of`.
    """
    names = parts.columns[1:3]
    faults = parts[parts.part != GIVES_BACK]
    texts = []
    for words, grows in (("less", False), ("**more**", True)):
        clear = faults["95 % low"] > 0 if grows else faults["95 % high"] < 0
        changed = faults[clear].sort_values("difference", ascending=not grows)
        listed = [_change_of(row) for _, row in changed.iterrows()]
        lost = f"{names[1]}'s answers lose {words} than {names[0]}'s by: "
        texts.append(f"{lost}{', '.join(listed) or 'nothing clearly'}.")
    texts[1] += _nearly_more(faults)
    texts[1] += f" Parts looked at: {len(faults)}. No interval is corrected for their number."
    return texts


def _change_of(row: pd.Series) -> str:
    """The difference of a part with its interval, a row of `parts_of`."""
    low = row["95 % low"]
    high = row["95 % high"]
    digits = digits_of(low, high)
    interval = f"{low:+.{digits}f} to {high:+.{digits}f}"
    return f"{row.part} ({row.difference:+.{digits}f}, {interval})"


def _nearly_more(faults: pd.DataFrame) -> str:
    """The largest rise that is not shown but nearly is, in a sentence; "" where there is none.

    A rise is nearly shown where it is more than half as large as its interval reaches down from it.
    By hand: .10 with -.05 to .25 reaches down by .15, and is; with -.15 to .35 it is not. A rise
    below `HARDLY_ANY` is none to speak of.

    faults: rows of `parts_of`.
    """
    low = faults["95 % low"]
    reach = faults.difference - low
    is_near = (low <= 0) & (faults.difference > reach / 2)
    nearly = faults[is_near & (faults.difference >= HARDLY_ANY)]
    if nearly.empty:
        return ""
    most = nearly.loc[nearly.difference.idxmax()]
    return f" Unclear in this run: {_change_of(most)}."


def habits_in_words(parts: pd.DataFrame) -> str:
    """What its authors' habits cost a policy, and whether that is shown to have changed.

    parts: of `parts_of`.
    """
    before, after = parts.columns[1:3]
    row = parts.set_index("part").loc["habits"]
    low = row["95 % low"]
    high = row["95 % high"]
    verdict = beside_0(
        low,
        high,
        above="they cost more than before",
        below="they cost less than before",
        neither="not shown to change",
    )
    return (
        f"in {after}'s greedy answers they cost {row[after]:.2f} points, in {before}'s "
        f"{row[before]:.2f} ({row.difference:+z.2f}, {low:+z.2f} to {high:+z.2f}): {verdict}."
    )


def trap_in_words(parts: pd.DataFrame) -> str:
    """Whether a policy lost more by jargon, which raters like and the truth does not.

    Where the start hardly loses by jargon (`HARDLY_ANY`) and no rise is shown, these answers say
    little about the trap.

    parts: of `parts_of`.
    """
    before, after = parts.columns[1:3]
    row = parts.set_index("part").loc["jargon"]
    low = row["95 % low"]
    high = row["95 % high"]
    verdict = beside_0(
        low,
        high,
        above="**the trap of the small world was sprung**",
        below=f"{after} left the trap of the small world alone",
        neither="the trap of the small world is not shown to be sprung",
    )
    if row[before] < HARDLY_ANY and not low > 0:
        verdict = (
            f"{before}'s greedy answers hold almost no jargon, so that greedy answers hardly test "
            "the trap of the small world"
        )
    return (
        f"Jargon, which raters like more than it is worth, costs {row[after]:.2f} points per "
        f"greedy answer after {row[before]:.2f} "
        f"({row.difference:+.2f}, {low:+.2f} to {high:+.2f}): {verdict}."
    )


def jargon_in_words(answers: Mapping[str, Sequence[Group]], sampled: str, **resampled: int) -> str:
    """How many sentences of jargon an answer has, before and after, in a sentence.

    Greedy answers may hold no jargon where sampled ones do. Whole prompts are drawn anew for the
    interval. So the difference is paired by prompt where both have the same prompts.

    answers: groups of two, by name; the second is compared with the first.
    sampled: how they were sampled, in words.
    resampled: n_boot and seed.

    Returns "" for real prompts.
    """
    before, after = answers
    if not all(generate.is_generated(groups) for groups in answers.values()):
        return ""
    sums = []  # of each answer: its jargon and 1 of the first, then of the second
    prompts = []
    for groups, place in zip(answers.values(), (0, 2), strict=True):
        for group in groups:
            task = generate.task_of(group.id)
            for answer in group.responses:
                row = [0.0, 0.0, 0.0, 0.0]
                row[place] = grade.grade(task, answer.text).expert
                row[place + 1] = 1.0
                sums.append(row)
                prompts.append(group.id)
    means = bootstrap(np.array(sums), np.array(prompts), _means_and_change, **resampled)
    change, low, high = means.at(2)
    verdict = beside_0(low, high, above="**a rise**", below="a fall", neither="not shown to change")
    return (
        f"Sentences of jargon per answer, {sampled}: {before} {means.estimate[0]:.2f}, {after} "
        f"{means.estimate[1]:.2f} ({change:+.2f}, {low:+.2f} to {high:+.2f}), {verdict}."
    )


def _means_and_change(sums: np.ndarray) -> np.ndarray:
    """Two means and the second less the first, from sums and numbers of both: [B, 4] to [B, 3]."""
    first = sums[:, 0] / sums[:, 1]
    second = sums[:, 2] / sums[:, 3]
    return np.stack([first, second, second - first], axis=1)


def change_in_words(prompt: Group, before: Answer, after: Answer) -> str:
    """What the grader takes away less, and more, from another answer to a prompt; "" if real.

    Where "ends at 0" changes, the parts do not add up to the change of the truth, which then
    follows.

    prompt: that both answer. before, after: the answers.
    """
    if not generate.is_generated([prompt]):
        return ""
    task = generate.task_of(prompt.id)
    costs = [pd.Series(grade.grade(task, answer.text).costs) for answer in (before, after)]
    gain = costs[0] - costs[1]
    changed = gain[gain.abs() >= 0.005].sort_values(key=abs, ascending=False)
    faults = changed.drop(GIVES_BACK, errors="ignore")
    better = [f"{value:.2f} points of {part}" for part, value in faults[faults > 0].items()]
    worse = [f"{-value:.2f} points by {part}" for part, value in faults[faults < 0].items()]
    texts = []
    if better:
        texts.append(f"gains back {', '.join(better)}")
    if worse:
        texts.append(f"loses {', '.join(worse)}")
    change = "; it ".join(texts) or "differs in no part"
    text = f"Beside {before.policy}'s answer, that of {after.policy} {change}."
    if GIVES_BACK in changed:
        text += (
            f" In all its truth changes by {gain.sum():+.2f} points: an attribute cannot fall "
            "below 0, so the parts add up to something else."
        )
    return text


@dataclass(frozen=True)
class Unfinished:
    """Answers that reached the longest length and did not end.

    sentences: how many each policy has, whether the last one has more than the first, and what
        those of the last one do.
    examples: of the last policy, prompts with such an answer.
    """

    sentences: tuple[str, ...]
    examples: list[tuple[Group, Answer]]


def unfinished(compared: Comparison, policies: Mapping[str, Policy]) -> Unfinished:
    """The measured answers that were cut off, and how many of them say a sentence twice.

    compared: the comparison in which the policies were measured.
    policies: by name, the one that the words are about last.
    """
    counted = []
    shares = []  # of each policy: its share of cut answers by prompt
    examples: list[tuple[Group, Answer]] = []
    for name, policy in policies.items():
        answered = compared.answers(policy)
        examples = []
        share = []
        for group in answered:
            cut = [answer for answer in group.responses if not answer.finished]
            share.append(len(cut) / len(group.responses))
            examples += [(group, Answer(name, answer.text, "cut off")) for answer in cut]
        total = sum(len(group.responses) for group in answered)
        shares.append(np.array(share))
        counted.append(f"{len(examples)} of {total} of {name}")
    limit = compared.setup.recipe.eval_tokens
    sentences = [f"Answers that did not end within {limit} tokens: {', '.join(counted)}."]
    if len(shares) > 1:
        more = shares[-1] - shares[0]  # [prompts]
        _, low, high = mean(more, range(len(more)), **compared.setup.recipe.resampled)
        sentences.append(
            beside_0(
                low,
                high,
                above="**More than before**.",
                below="Fewer than before.",
                neither="Not shown to be more than before.",
            )
        )
    if examples:
        circles = sum(_says_twice(answer.text) for _, answer in examples)
        if circles:
            sentences.append(f"Of {name}'s {len(examples)}, {circles} say a sentence twice.")
        else:
            sentences.append(f"None of {name}'s says a sentence twice.")
    return Unfinished(tuple(sentences), examples)


def _says_twice(text: str) -> bool:
    """Whether a sentence of a text stands there before."""
    read = grade.sentences(text)
    return len(set(read)) < len(read)
