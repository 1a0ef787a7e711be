"""How often the better response has the higher score, beside rules that read nothing."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pandas as pd

from hs2lib.data.files import FileRow
from hs2lib.evaluate import score_meaning
from hs2lib.evaluate.score_meaning import Meaning
from hs2lib.stats.bootstrap import bootstrap, inside

PAIRS = "pairs"
BEST = "best of n"


def accuracy(
    rows: Sequence[FileRow],
    scores: Sequence[Sequence[float] | None],
    *,
    n_boot: int = 1000,
    seed: int = 0,
) -> pd.DataFrame:
    """Shares of comparisons that a model gets right, beside the longest, the shortest and chance.

    Two measures. "pairs" are all comparisons of a better and a worse response. "best of n" counts
    rows of more than two responses of which one is better than all others, and is right where it
    has the highest score. A tie of scores is wrong, for a rule too, as on RewardBench. Rows that
    say nothing of which is better do not count.

    Paper: Table 3 (it prints no intervals).

    Args:
        rows: of a file.
        scores: of each row [G], None where it was not scored; nan for a response without a score.
        n_boot: resamples of the intervals.
        seed: of the intervals.

    Returns:
        A row for each measure and rule. Columns: measure, rule ("model", "longest", "shortest",
        "random"), right, low, high (shares, with the 95 % interval by prompt), ties (of scores),
        number (of comparisons), prompts.
    """
    counted = _counted_rows(rows, scores)
    prompts = pd.factorize(pd.Series([row.group.prompt for row, _ in counted]))[0]
    outcomes = []
    for prompt, (row, of_row) in zip(prompts, counted, strict=True):
        lengths = np.array([len(response.text) for response in row.group.responses])  # [G]
        better, worse = np.array(row.comparisons).T  # [pairs] each
        best = _best(row)
        for rule, values in (("model", of_row), ("longest", lengths), ("shortest", -lengths)):
            right = (values[better] > values[worse]).sum()
            ties = (values[better] == values[worse]).sum()
            outcomes.append((PAIRS, rule, prompt, right, ties, len(better)))
            if best is not None:
                highest = np.delete(values, best).max()  # of the others
                right = values[best] > highest
                outcomes.append((BEST, rule, prompt, right, values[best] == highest, 1))
        outcomes.append((PAIRS, "random", prompt, len(better) / 2, 0, len(better)))
        if best is not None:
            outcomes.append((BEST, "random", prompt, 1 / len(lengths), 0, 1))
    counts = ["right", "ties", "number"]
    frame = pd.DataFrame(outcomes, columns=["measure", "rule", "prompt", *counts])
    frame = frame.astype(dict.fromkeys(counts, float))
    table = []
    for measure, of_measure in frame.groupby("measure", sort=False):
        for rule, part in of_measure.groupby("rule", sort=False):
            interval = bootstrap(
                part[["right", "number"]].to_numpy(), part.prompt, _ratio, n_boot=n_boot, seed=seed
            )
            n_prompts = part.prompt.nunique()
            share = map(float, inside(interval.at(0), 0, 1, n_prompts))
            number = int(part.number.sum())
            table.append((measure, rule, *share, int(part.ties.sum()), number, n_prompts))
    columns = ["measure", "rule", "right", "low", "high", "ties", "number", "prompts"]
    return pd.DataFrame(table, columns=columns)


def _ratio(sums: np.ndarray) -> np.ndarray:
    """[B, 1] of sums [B, 2]."""
    return sums[:, :1] / sums[:, 1:]


def _counted_rows(
    rows: Sequence[FileRow], scores: Sequence[Sequence[float] | None]
) -> list[tuple[FileRow, np.ndarray]]:
    """The rows that say which response is better, with their scores [G], where all have one."""
    counted = []
    for row, of_row in zip(rows, scores, strict=True):
        if row.comparisons and of_row is not None and not np.isnan(of_row).any():
            counted.append((row, np.asarray(of_row)))
    return counted


def _best(row: FileRow) -> int | None:
    """The number of the one of more than two responses that is better than all others, if any."""
    n_others = len(row.places) - 1
    wins = Counter(better for better, _ in set(row.comparisons))
    best, n_worse = wins.most_common(1)[0]
    return best if n_others > 1 and n_worse == n_others else None


def meaning(
    rows: Sequence[FileRow],
    scores: Sequence[Sequence[float] | None],
    *,
    n_boot: int = 1000,
    seed: int = 0,
) -> Meaning | None:
    """What a difference of two scores means, over all comparisons that `accuracy` counts as pairs.

    Paper: silent. rows, scores, n_boot, seed: as for `accuracy`. None where the file compares
    nothing.
    """
    pairs = []
    prompts = []
    for row, of_row in _counted_rows(rows, scores):
        for better, worse in row.comparisons:
            pairs.append((of_row[better], of_row[worse]))
            prompts.append(row.group.prompt)
    if not pairs:
        return None
    return score_meaning.measure(np.array(pairs), prompts, n_boot=n_boot, seed=seed)


def in_words(table: pd.DataFrame) -> list[str]:
    """The table of `accuracy` in lines."""
    lines = []
    for measure, of_measure in table.groupby("measure", sort=False):
        words = "The better scores higher"
        unit = "pair"
        if measure == BEST:
            words = "The best of several scores highest"
            unit = "row"
        first = of_measure.iloc[0]
        lines.append(
            f"{words}: {_counted(first.number, unit)}, {_counted(first.prompts, 'prompt')}"
        )
        for row in of_measure.itertuples():
            words = f"  {row.rule:9}{100 * row.right:5.1f} %"
            if row.rule != "random" and not np.isnan(row.low):
                words += f"  ({100 * row.low:.1f} to {100 * row.high:.1f})"
            if row.ties:
                words += f", {_counted(row.ties, 'tie')} counted as wrong"
            lines.append(words)
    return lines


def _counted(number: int, unit: str) -> str:
    """A number of units, "1 pair" or "331 pairs"."""
    return f"{number:,} {unit}" if number == 1 else f"{number:,} {unit}s"
