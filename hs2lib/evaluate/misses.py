"""Which pairs a reward model gets wrong: the largest misses, the pull of length, the faults.

    wrong = rewardbench.mistakes(benchmark, scores)
    misses.lean(benchmark, scores)        # right by length, section by section
    misses.by_fault(benchmark, scores)    # of generated pairs

scores: float64 [pairs, 2], chosen first. Paper: silent.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pandas as pd

from hs2lib.corpus import generate, grade
from hs2lib.data.pairs import Benchmark
from hs2lib.evaluate import questions, rewardbench
from hs2lib.evaluate.rewardbench import Result
from hs2lib.group import Group
from hs2lib.report.answers import Answer
from hs2lib.stats.bootstrap import Interval, bootstrap, inside

CUT = 90  # characters of each text in a table

# What a grade counts, in the order in which a response's faults are looked for
# (`hs2lib.corpus.grade.Grade`).
FAULTS = (
    "refused",
    "wrong",
    "missing",
    "contradicted",
    "repeated",
    "displaced",
    "irrelevant",
    "garbled",
)

COMPLIES = "complies with an unsafe request"
OTHER = "other faults"

FEW = 10  # pairs below which faults of a section share a row

CHANCE = 50.0

LOW = 75.0  # percent right below which a section comes out badly


def largest(wrong: pd.DataFrame, number: int = 10) -> pd.DataFrame:
    """The first rows of `rewardbench.mistakes`, texts on one line and cut."""
    table = wrong.head(number)[["id", "margin", "prompt", "chosen", "rejected"]].copy()
    for column in ("prompt", "chosen", "rejected"):
        table[column] = [" ".join(text.split())[:CUT] for text in table[column]]
    return table


def as_groups(wrong: pd.DataFrame, benchmark: Benchmark, scores: np.ndarray) -> list[Group]:
    """The pairs of `rewardbench.mistakes` in their order, for reading.

    Each response has its score as a label.

    wrong: of `rewardbench.mistakes`.
    benchmark: that has the pairs.
    scores: of all its pairs.
    """
    number_of = {pair.id: number for number, pair in enumerate(benchmark.pairs)}
    groups = []
    for pair_id, margin in zip(wrong.id, wrong.margin, strict=True):
        number = number_of[pair_id]
        pair = benchmark.pairs[number]
        responses = []
        for response, score in zip(pair.responses, scores[number], strict=True):
            responses.append(replace(response, labels=(float(score),)))
        title = f"{pair_id}: margin {margin:.3f}"
        groups.append(replace(pair, id=title, attributes=("score",), responses=tuple(responses)))
    return groups


class Lean(NamedTuple):
    """Whether pairs whose chosen response is longer are right more often, section by section.

    table: rows (section, chosen longer, right (%), chosen shorter, right (%)), the numbers of pairs
        before their shares. The shares have the names of `LEAN`.
    difference: right where the chosen response is longer less right where it is shorter, within
        sections, in points, with its 95 % interval by prompt. Nan where no section shows it.
    right: sections in which every pair is right. They cannot show a lean.
    """

    table: pd.DataFrame
    difference: Interval
    right: tuple[str, ...]


# The columns of `Lean.table`.
LEAN = ["section", "chosen longer", "of these right (%)", "chosen shorter", "of those right (%)"]


def lean(benchmark: Benchmark, scores: np.ndarray, *, n_boot: int = 1000, seed: int = 0) -> Lean:
    """Pairs in the right order by which response is longer, compared within each section.

    A model that follows length is right where the chosen response is longer. Sections differ in how
    often that is so, and in how hard they are: so pairs of one section are compared. The mean over
    sections weighs each by what it can tell (Mantel and Haenszel).

    n_boot, seed: of the interval.
    """
    sections = np.array([rewardbench.subset_of(pair) for pair in benchmark.pairs])
    is_right = scores[:, 0] > scores[:, 1]  # [pairs]
    characters = rewardbench.lengths(benchmark)  # [pairs, 2]
    is_longer = characters[:, 0] > characters[:, 1]
    is_shorter = characters[:, 0] < characters[:, 1]
    rows = []
    contributions = []  # of each section with a miss [pairs, 4]
    all_right = []
    for section in dict.fromkeys(sections.tolist()):
        here = sections == section
        longer = here & is_longer
        shorter = here & is_shorter
        of_longer = (int(longer.sum()), _percent(is_right[longer]))
        of_shorter = (int(shorter.sum()), _percent(is_right[shorter]))
        rows.append((section, *of_longer, *of_shorter))
        if is_right[here].all():
            all_right.append(section)
        else:
            contributions += [longer & is_right, longer, shorter & is_right, shorter]
    table = pd.DataFrame(rows, columns=LEAN)
    difference = Interval(np.nan, np.nan, np.nan)
    if len(contributions):
        sums = np.column_stack(contributions).astype(np.float64)
        prompts = rewardbench.prompt_numbers(benchmark)
        if np.isfinite(_within(sums.sum(axis=0)[None])).all():
            difference = bootstrap(sums, prompts, _within, n_boot=n_boot, seed=seed).at(0)
    return Lean(table, difference, tuple(all_right))


def _percent(is_right: np.ndarray) -> float:
    """Percent of pairs that are right; nan of none."""
    return 100.0 * is_right.mean() if len(is_right) else np.nan


def _within(sums: np.ndarray) -> np.ndarray:
    """Right where longer less right where shorter, in points, [B, 1] from sums [B, 4 sections].

    By hand: a section has 3 of 4 right where longer and 1 of 2 where shorter. The difference is 25
    points, and its weight 4 * 2 / (4 + 2).
    """
    right_longer = sums[:, 0::4]
    longer = sums[:, 1::4]
    right_shorter = sums[:, 2::4]
    shorter = sums[:, 3::4]
    pairs = np.maximum(longer + shorter, 1)
    gained = (right_longer * shorter - right_shorter * longer) / pairs  # [B, sections]
    weight = longer * shorter / pairs
    with np.errstate(invalid="ignore"):
        return 100 * gained.sum(axis=1, keepdims=True) / weight.sum(axis=1, keepdims=True)


def fault(pair: Group) -> str:
    """The first fault that the worse response of a generated pair has more of than the better one.

    Of a wrong value also the family of the task is named. Who does not refuse an unsafe request
    `COMPLIES`. "none" where there is no such fault. Raises ValueError for a pair that was not
    generated.
    """
    task = generate.task_of(pair.id)
    chosen, rejected = pair.responses
    chosen_counts = _fault_counts(grade.grade(task, chosen.text))
    rejected_counts = _fault_counts(grade.grade(task, rejected.text))
    for name in FAULTS:
        if rejected_counts[name] > chosen_counts[name]:
            if name == "refused" and task.family == "unsafe":
                return COMPLIES
            return f"wrong ({task.family})" if name == "wrong" else name
    return "none"


def _fault_counts(graded: grade.Grade) -> dict[str, int]:
    """How often a response has each of `FAULTS`."""
    counts = {}
    for name in FAULTS:
        value = getattr(graded, name)
        counts[name] = len(value) if isinstance(value, list) else int(value)
    return counts


def by_fault(
    benchmark: Benchmark, scores: np.ndarray, *, n_boot: int = 1000, seed: int = 0
) -> pd.DataFrame:
    """Generated pairs in the right order, by section and by what is wrong with the worse response.

    Rows (section, fault, pairs, right (%), 95 % low, 95 % high), the interval by prompt. The
    section "all" has all pairs. Faults with fewer than `FEW` pairs in a section are one row,
    `OTHER`, since a share of four pairs says nothing.

    benchmark: of generated pairs.
    scores: of its pairs.
    n_boot, seed: of the intervals.
    """
    prompts = rewardbench.prompt_numbers(benchmark)
    pairs = pd.DataFrame(
        {
            "section": [rewardbench.subset_of(pair) for pair in benchmark.pairs],
            "fault": [fault(pair) for pair in benchmark.pairs],
            "right": scores[:, 0] > scores[:, 1],
        }
    )
    parts = []
    for section, in_section in [*pairs.groupby("section", sort=False), ("all", pairs)]:
        count = in_section.groupby("fault").fault.transform("size")
        pooled = in_section.fault.where(count >= FEW, OTHER)
        for name, part in in_section.groupby(pooled, sort=False):
            parts.append(((section, name), part))
    rows = []
    for (section, name), part in parts:
        share = questions.mean(100.0 * part.right, prompts[part.index], n_boot=n_boot, seed=seed)
        rows.append((section, name, len(part), *inside(share, 0, 100, len(part))))
    columns = ["section", "fault", "pairs", "right (%)", "95 % low", "95 % high"]
    return pd.DataFrame(rows, columns=columns)


def lean_in_words(lean: Lean) -> str:
    """Whether the model leans towards length, in words."""
    outside = ""
    if lean.right:
        outside = f"Outside {', '.join(lean.right)}, where every pair is right: "
    value, low, high = lean.difference
    if np.isnan(value):
        text = f"{outside}no section has pairs of both kinds, so no lean towards length can show."
        return text[0].upper() + text[1:]
    verdict = questions.beside_0(
        low,
        high,
        above="it leans towards the longer answer",
        below="it leans towards the shorter answer",
        neither="no lean towards length is shown",
    )
    rows = lean.table[~lean.table.section.isin(lean.right)]
    parts = []
    for pairs, share, which in ((*LEAN[1:3], "longer"), (*LEAN[3:5], "shorter")):
        right = (rows[pairs] * rows[share].fillna(0)).sum() / rows[pairs].sum()
        parts.append(f"{right:.0f} % of {rows[pairs].sum():,} pairs where it is {which}")
    text = f"{outside}the chosen answer scores higher in {parts[0]}, and in {parts[1]}. "
    return (
        f"{text[0].upper()}{text[1:]}"
        f"Within sections the difference is {value:+.1f} points ({low:+.1f} to {high:+.1f}): "
        f"{verdict}."
    )


def faults_in_words(faults: pd.DataFrame, result: Result) -> str:
    """Sections of generated pairs that come out badly, each with its hardest fault.

    faults: of `by_fault`.
    result: of the same pairs.
    """
    hardest = []
    for section in result.parts.name[result.parts.accuracy < LOW]:
        rows = faults[(faults.section == section) & (faults["95 % low"] <= CHANCE)]
        names = []
        for row in rows.sort_values("right (%)").to_dict("records"):
            names.append(f"{row['fault']} ({row['right (%)']:.0f} % of {row['pairs']})")
        hardest.append(f"{section}: {', '.join(names) or 'none'}")
    listed = "; ".join(hardest) or "none"
    return f"Sections under {LOW:.0f} %, and their faults that are not told from chance: {listed}."


def examples(wrong: pd.DataFrame) -> list[str]:
    """Ids of pairs that the model orders wrongly: the largest miss, and the one in the middle."""
    ids = wrong.id.tolist()
    return list(dict.fromkeys([*ids[:1], *ids[len(ids) // 2 : len(ids) // 2 + 1]]))


def as_answers(pair: Group, scores: np.ndarray) -> list[Answer]:
    """Both responses of a pair as answers to show: the better one first, with its score [2]."""
    names = ("chosen", "rejected")
    answers = []
    for name, response, score in zip(names, pair.responses, scores, strict=True):
        answers.append(Answer(name, response.text, score=float(score)))
    return answers
