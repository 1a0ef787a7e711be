"""How many rated answers may have a habitual fault, if their ratings are to stay those of Table 2?

    python benchmarks/feasibility.py [--seeds 0 1 2 3 4] [--dry]

A judge learns to see a fault where it is common. But faults pull the ratings down, and Table 2 says
what the ratings are. So there is a largest share. It is a linear programme: answers are sorted into
cells (habit, wish, plan of edits, jargon, length), a cell has the mean ratings and mean products of
ratings that its answers have, and what is sought is how often each cell occurs. Most is made of the
share with a habit, while means, SDs and R with helpfulness stay within the tolerances of
`tests/corpus/test_corpus.py`, each mean within one of `WITHIN` points.

Products are taken about the means of the solution before, and R by its SDs, so that all is linear
in the shares; a few rounds settle that. The shares are found on one sample and checked on another one.
Severities: as in `hs2lib/corpus/rules.yaml`, and a third of that (giving in keeps its own). How
often the wish is ignored is that of the rated answers. Paper: Table 2; silent on the rest.
"""

import argparse
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.optimize import linprog
from works import student

from hs2lib import paper, paths
from hs2lib.corpus import rules
from hs2lib.group import ATTRIBUTES
from hs2lib.report import report
from hs2lib.stats import aggregate

N_PROMPTS = 50_000  # of each sample: as many with habits as without
FEWEST = 100  # answers of a cell, for its means to be known
WITHIN = (0.1, 0.2, 0.3, 0.4)  # points by which a mean may differ from Table 2's
SD_WITHIN = 0.1
R_WITHIN = 0.05
ROUNDS = 12  # until the means and SDs by which products are bounded settle
SEVERITIES = {"as committed": 1.0, "a third": 1 / 3}
# What a habit does to an answer. Giving in is left as it is: a refusal is right or not.
OF_HABITS = [rules.MISSING, rules.ORDER, rules.IRRELEVANT, rules.REPETITION]
MEANS = np.array([paper.value("table-2", name, "mean HS2") for name in ATTRIBUTES])  # [A]
SDS = np.array([paper.value("table-2", name, "SD HS2") for name in ATTRIBUTES])  # [A]
RS = np.array([paper.value("table-2", name, "R HS2") for name in ATTRIBUTES[1:]])  # [A - 1]


@dataclass(frozen=True)
class Sample:
    """Released answers with their labels.

    labels: float64 [answers, A].
    cells: a number for each answer's cell, int [answers]. Equal in all samples.
    has_habit: bool [answers].
    ignores: whether an answer ignores the prompt's wish, bool [answers].
    """

    labels: np.ndarray
    cells: np.ndarray
    has_habit: np.ndarray
    ignores: np.ndarray


@contextmanager
def severity_of_habits(scale: float) -> Iterator[None]:
    """The effects of what habits do, times `scale`."""
    before = rules.EFFECT[OF_HABITS].copy()
    rules.EFFECT[OF_HABITS] *= scale
    try:
        yield
    finally:
        rules.EFFECT[OF_HABITS] = before


def half(seed: int, habit: float, scale: float) -> Sample:
    """Answers of which each has its author's habit (habit 1) or none (0)."""
    answers = {**rules.ANSWERS["rated"], "habit": habit, "ignored": 0.5}
    items = np.arange(N_PROMPTS)
    with severity_of_habits(scale if habit else 1.0):
        drawn = rules.draw(seed, items, answers=answers)
    ratings, lost = rules.rate(seed, items, drawn.seen)
    ratings = aggregate.recruit(ratings)
    ratings[lost, 3:] = np.nan
    keep = aggregate.keep_three(ratings)
    prompt = np.repeat(items, 2)
    is_out = aggregate.released(ratings, keep, prompt)
    labels = aggregate.aggregate(ratings, keep)
    ignores = (drawn.remarks != (drawn.wish[:, None] == rules.REMARKS)).ravel()
    jargon = np.clip(drawn.expert, 0, 2).ravel()
    is_long = (drawn.extras > 1).ravel()
    parts = (drawn.habit.ravel(), ignores, drawn.plan.ravel(), jargon, is_long)
    sizes = (len(rules.HABITS), 2, len(rules.PLANS), 3, 2)
    cells = np.ravel_multi_index([part.astype(np.int64) for part in parts], sizes)
    has_habit = drawn.habit.ravel() != rules.NO_HABIT
    return Sample(labels[is_out], cells[is_out], has_habit[is_out], ignores[is_out])


def sample(seed: int, scale: float) -> Sample:
    """Answers with habits and without, together."""
    halves = [half(seed, habit, scale) for habit in (0.0, 1.0)]
    return Sample(
        *(
            np.concatenate([getattr(one, name) for one in halves])
            for name in ("labels", "cells", "has_habit", "ignores")
        )
    )


def shares(answers: Sample, within: float) -> pd.Series:
    """How often each cell occurs, by its number, for the largest share of habits; empty for none.

    within: points by which each mean may differ from Table 2's.
    """
    counts = pd.Series(answers.cells).value_counts()
    known = counts.index[counts >= FEWEST].sort_values()
    about = MEANS
    sds = SDS
    solution = pd.Series(dtype=float)
    for _ in range(ROUNDS):
        rows = _means_by_cell(answers, about, known)
        solved = linprog(
            -rows["habit"],
            A_ub=np.concatenate([rows["bounded"].T, -rows["bounded"].T]),
            b_ub=np.concatenate([_bounds(within, sds), -_bounds(-within, sds)]),
            A_eq=np.stack([np.ones(len(known)), rows["ignores"]]),
            b_eq=[1.0, rules.ANSWERS["rated"]["ignored"]],
            method="highs",
        )
        if not solved.success:
            return pd.Series(dtype=float)
        solution = pd.Series(solved.x, known)
        about = solved.x @ rows["means"]
        sds = np.sqrt(solved.x @ rows["squares"])
    return solution


def _means_by_cell(answers: Sample, about: np.ndarray, known: pd.Index) -> dict[str, np.ndarray]:
    """Of each known cell: shares of habits and ignored wishes, mean labels and squares, and all that
    is bounded.

    What is bounded, [cells, 3 A - 1]: labels, squares, products with helpfulness; squares and
    products about `about`.
    """
    centred = answers.labels - about
    products = centred[:, :1] * centred[:, 1:]
    columns = np.column_stack(
        [answers.has_habit, answers.ignores, answers.labels, centred**2, products]
    )
    by_cell = pd.DataFrame(columns).groupby(answers.cells).mean().loc[known].to_numpy(float)
    n = len(ATTRIBUTES)
    return {
        "habit": by_cell[:, 0],
        "ignores": by_cell[:, 1],
        "means": by_cell[:, 2 : 2 + n],
        "squares": by_cell[:, 2 + n : 2 + 2 * n],
        "bounded": by_cell[:, 2:],
    }


def _bounds(within: float, sds: np.ndarray) -> np.ndarray:
    """The bounds of means, squares and products, [3 A - 1]: the upper, or below 0 the lower ones.

    within: points from Table 2's means. sds: [A], of the solution before.
    """
    side = np.sign(within)
    r = RS + side * R_WITHIN
    return np.concatenate([MEANS + within, (SDS + side * SD_WITHIN) ** 2, r * sds[0] * sds[1:]])


def furthest(answers: Sample, cells: pd.Series) -> dict[str, float]:
    """How far answers with these shares of cells are from Table 2: the furthest mean, SD and R.

    Cells that this sample does not have are left out.
    """
    counts = pd.Series(answers.cells).value_counts()
    weight = (cells / counts.reindex(cells.index)).reindex(answers.cells).fillna(0).to_numpy()
    weight = weight / weight.sum()
    mean = weight @ answers.labels
    centred = answers.labels - mean
    covariance = (weight[:, None] * centred).T @ centred
    sd = np.sqrt(np.diag(covariance))
    r = covariance[0, 1:] / (sd[0] * sd[1:])
    return {
        "mean": float(np.abs(mean - MEANS).max()),
        "SD": float(np.abs(sd - SDS).max()),
        "R": float(np.abs(r - RS).max()),
    }


def rows_of(seed: int) -> list[dict]:
    """For each severity and tolerance the largest share of habits, and how far another sample is."""
    rows = []
    for severity, scale in SEVERITIES.items():
        answers = sample(seed, scale)
        other = sample(seed + 1000, scale)
        rate = pd.Series(answers.has_habit.astype(float)).groupby(answers.cells).mean()
        for within in WITHIN:
            cells = shares(answers, within)
            row = {"seed": seed, "severity": severity, "means within": within}
            if cells.empty:
                rows.append(row | {"share (%)": float("nan")})
                continue
            row["share (%)"] = 100 * float((cells * rate[cells.index]).sum())
            apart = furthest(other, cells)
            rows.append(row | {f"{name}, another sample": apart[name] for name in apart})
    return rows


def main() -> None:
    """Solve for every seed, and write the shares with their intervals."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(5)))
    parser.add_argument("--dry", action="store_true", help="do not write the result")
    options = parser.parse_args()
    rows = []
    for seed in options.seeds:
        rows += rows_of(seed)
        print(pd.DataFrame(rows[-len(SEVERITIES) * len(WITHIN) :]).round(3).to_string(), flush=True)
    summary = []
    for (severity, within), part in pd.DataFrame(rows).groupby(
        ["severity", "means within"], sort=False
    ):
        mean, spread = student(part["share (%)"].to_numpy())
        row = {"severity": severity, "means within": within, "share (%)": mean}
        summary.append(row | {"low": mean - spread, "high": mean + spread})
    committed = 100 * rules.ANSWERS["rated"]["habit"]
    widest = next(row for row in summary if row["means within"] == WITHIN[-1])
    words = [
        f"means within {row['means within']:g}: {row['share (%)']:.0f} % "
        f"({row['low']:.0f} to {row['high']:.0f}), severity {row['severity']}"
        for row in summary
    ]
    result = {
        "name": "feasibility",
        "compared": "the largest share of rated answers with a habitual fault that Table 2 allows",
        "figure": "; ".join(words),
        "goal": f"{committed:.0f} % with the severities that are committed, means within .4",
        "met": bool(widest["low"] >= committed),
        "seeds": options.seeds,
        "prompts": N_PROMPTS,
        "within": {"SD": SD_WITHIN, "R": R_WITHIN},
        "shares": summary,
        "by seed": rows,
        "device": report.device(),
        "commit": report.commit(),
    }
    print(result["figure"])
    if not options.dry:
        file = paths.reports() / "benchmarks" / "feasibility.json"
        paths.write(file, json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
