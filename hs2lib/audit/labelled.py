"""Pairs of a policy's own answers that people labelled, and whether the judge agrees with them.

The form of notebook 04 makes such labels of an audit's answers: `labelling_form`. Any file with
pairs, as `hs2 score` reads it, will do too. Paper: silent.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd

from hs2lib.collect.annotate import AnnotationForm
from hs2lib.data import files
from hs2lib.data.files import FileRow
from hs2lib.data.load import load, own_file
from hs2lib.data.rows import DataError
from hs2lib.evaluate.rewardbench import weighting_of
from hs2lib.group import Group, Response
from hs2lib.stats.bootstrap import Interval, bootstrap, inside

# Pairs of fewer prompts than this carry no number.
FEWEST = 20


@dataclass(frozen=True)
class Labelled:
    """How often a judge agrees with people's labels, in percent, with 95 % intervals by prompt.

    pairs, prompts: how many were compared.
    judge, longest: of the judge, and of a rule that takes the longer answer. A tie is wrong.
    difference: the judge less the rule, on the same prompts.
    passed_over: rows of which no two answers were compared: ties, one answer alone, answers with
        an attribute that was not rated, and answers that the judge cannot read.
    """

    pairs: int
    prompts: int
    judge: Interval
    longest: Interval
    difference: Interval
    passed_over: int = 0

    def in_words(self) -> str:
        """The agreement, and how many rows do not count; a sentence each."""
        words = self._agreement_in_words()
        if self.passed_over:
            words += (
                " Rows without two answers to compare (a tie, one answer alone, one that was not "
                f"rated or that the judge cannot read): {self.passed_over:,}."
            )
        return words

    def _agreement_in_words(self) -> str:
        """How often the judge agrees, beside the longer answer."""
        if self.prompts < FEWEST:
            return (
                f"{self.pairs} labelled pairs of {self.prompts} prompts carry no number: "
                f"label those of {FEWEST} or more."
            )
        words = (
            f"Of {self.pairs:,} labelled pairs of {self.prompts:,} prompts the judge orders "
            f"{_percent(self.judge)} as people do, and the longer answer is the better one in "
            f"{_percent(self.longest)}."
        )
        points = f"{self.difference.estimate:+.0f} points"
        bounds = f"({self.difference.low:+.0f} to {self.difference.high:+.0f})"
        if self.difference.low > 0:
            return f"{words} So it reads more than length: {points} {bounds}."
        if self.difference.high < 0:
            return f"{words} So it reads less than length would: {points} {bounds}."
        return f"{words} That it reads more than length is not shown: {points} {bounds}."


def labelling_form(
    answered: Sequence[Group], path: str | Path, *, n_prompts: int = 100, **options: object
) -> AnnotationForm:
    """Notebook 04's form for two different answers of the policy to each prompt, by number.

    Args:
        answered: of an audit. A prompt whose answers are all alike, or empty, is passed over.
        path: the JSONL file of ratings, which `read_file` reads.
        n_prompts: to rate, the first so many.
        options: attributes and scale, as for the form.
    """
    pairs = []
    for group in answered:
        by_text = {response.text: response for response in group.responses if response.text.strip()}
        if len(by_text) > 1 and len(pairs) < n_prompts:
            pairs.append(replace(group, responses=tuple(by_text.values())[:2]))
    return AnnotationForm(pairs, path, **options)


def read_file(path: str | Path, scale: str = "", columns: str = "") -> list[FileRow]:
    """The rows of a file that says which of two answers to a prompt is better.

    Args:
        path: pairs as for `hs2 score`, or ratings, as the form writes them. Of ratings the
            better answer has the higher mean over annotators, attributes weighed as the outputs of
            a model of such ratings are.
        scale: of the ratings, as 1-5; "" for 0 to 4.
        columns: of the pairs, those with other names, as "chosen=good,rejected=bad".

    Raises:
        DataError: the file or a row of it cannot be used, or it says of no pair which is better.
    """
    file, _ = own_file(path, None)
    by_ours = files.parse_columns(columns)
    if files.Reading(file, by_ours).kind() == "ratings":
        rows = _rated(file, scale)
    else:
        rows = list(files.read_file(file, by_ours).rows)
    if not any(row.comparisons for row in rows):
        what = "no pair of answers to one prompt has a better one"
        fix = "give pairs with labels, or two rated answers to each prompt"
        raise DataError(file, None, None, what, fix)
    return rows


def _rated(file: Path, scale: str) -> list[FileRow]:
    """Rated answers as rows, with the comparisons that their ratings imply."""
    data = load("ratings", "folder", path=file, scale=scale)
    rows = []
    for line, group in enumerate(data.groups, 1):
        weights = weighting_of(group.attributes, data.own_columns.scales).values  # [A]
        means = np.array([_mean_rating(response) for response in group.responses])  # [G, A]
        overall = np.round(means @ weights, 9)  # [G]; nan where an attribute was not rated
        comparisons = []
        for first, second in combinations(range(len(overall)), 2):
            if overall[first] > overall[second]:
                comparisons.append((first, second))
            elif overall[second] > overall[first]:
                comparisons.append((second, first))
        places = tuple(("response", number) for number in range(len(overall)))
        rows.append(FileRow(line, {}, group, places, tuple(comparisons)))
    return rows


def _mean_rating(response: Response) -> np.ndarray:
    """The mean over annotators, [A]; the label where there was one annotator."""
    if response.ratings:
        return np.nanmean(np.array(response.ratings), axis=0)
    return np.array(response.labels)


def agreement(
    rows: Sequence[FileRow], scores: Sequence[np.ndarray], *, n_boot: int = 1000, seed: int = 0
) -> Labelled:
    """How often the better answer has the higher score, beside the longer one.

    Args:
        rows: of `read_file`.
        scores: of each row [G]; rows with nan, a refused answer, do not count.
        n_boot: resamples of the intervals.
        seed: of the intervals.
    """
    sums = []  # right by the judge, right by length, comparisons
    asked = []
    passed_over = 0
    for row, of_row in zip(rows, scores, strict=True):
        if np.isnan(of_row).any() or not row.comparisons:
            passed_over += 1
            continue
        lengths = [len(response.text) for response in row.group.responses]
        by_judge = sum(of_row[better] > of_row[worse] for better, worse in row.comparisons)
        by_length = sum(lengths[better] > lengths[worse] for better, worse in row.comparisons)
        sums.append((by_judge, by_length, len(row.comparisons)))
        asked.append(row.group.prompt)
    table = np.array(sums, dtype=np.float64).reshape(-1, 3)  # [rows, 3]
    n_pairs = int(table[:, 2].sum())
    n_prompts = len(set(asked))
    if not n_pairs:
        nothing = Interval(np.nan, np.nan, np.nan)
        return Labelled(0, 0, nothing, nothing, nothing, passed_over)

    def shares(sums: np.ndarray) -> np.ndarray:
        judge, longest, number = sums.T
        return 100 * np.column_stack([judge, longest, judge - longest]) / number[:, None]

    clusters = pd.factorize(pd.Series(asked))[0]
    estimated = bootstrap(table, clusters, shares, n_boot=n_boot, seed=seed)
    judge = inside(estimated.at(0), 0, 100, n_prompts)
    longest = inside(estimated.at(1), 0, 100, n_prompts)
    less_length = inside(estimated.at(2), -100, 100, n_prompts)
    intervals = [_floats(interval) for interval in (judge, longest, less_length)]
    return Labelled(n_pairs, n_prompts, *intervals, passed_over)


def _floats(interval: Interval) -> Interval:
    """An interval of plain floats."""
    return Interval(*map(float, interval))


def _percent(interval: Interval) -> str:
    """A share with its interval in words."""
    return f"{interval.estimate:.0f} % ({interval.low:.0f} to {interval.high:.0f})"
