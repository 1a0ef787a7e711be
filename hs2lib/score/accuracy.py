"""How often the better response has the higher score, beside rules that read nothing."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from hs2lib.data.files import FileRow
from hs2lib.evaluate import score_meaning
from hs2lib.evaluate.score_meaning import Meaning
from hs2lib.stats.bootstrap import bootstrap, inside

# The rules beside a model. The score that each gives a response.
RULES = {"longest": 1.0, "shortest": -1.0}

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
    has the highest score. A tie of scores is wrong, for a rule too,
    as on RewardBench. Rows that say nothing of which is better do not count.

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
    table = []
    for measure, comparisons in _measures([row for row, _ in counted]).items():
        has_any = np.array([bool(of_row) for of_row in comparisons], dtype=bool)  # [rows]
        for rule in ("model", *RULES, "random"):
            sums = np.zeros((len(counted), 3))  # right, ties, number
            for i, (row, of_row) in enumerate(counted):
                values = of_row
                if rule in RULES:
                    lengths = [len(response.text) for response in row.group.responses]
                    values = RULES[rule] * np.array(lengths)
                sums[i] = _counts(measure, comparisons[i], values, rule == "random")
            sums = sums[has_any]
            table.append((measure, rule, *_share(sums, prompts[has_any], n_boot, seed)))
    columns = ["measure", "rule", "right", "low", "high", "ties", "number", "prompts"]
    return pd.DataFrame(table, columns=columns)


def _counted_rows(
    rows: Sequence[FileRow], scores: Sequence[Sequence[float] | None]
) -> list[tuple[FileRow, np.ndarray]]:
    """The rows that say which response is better, with their scores [G], where all have one."""
    counted = []
    for row, of_row in zip(rows, scores, strict=True):
        if row.comparisons and of_row is not None and not np.isnan(of_row).any():
            counted.append((row, np.asarray(of_row)))
    return counted


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


def _measures(rows: Sequence[FileRow]) -> dict[str, list[list[tuple[int, int]]]]:
    """The comparisons that each measure counts, of each row."""
    measures: dict[str, list[list[tuple[int, int]]]] = {PAIRS: [], BEST: []}
    for row in rows:
        measures[PAIRS].append(list(row.comparisons))
        measures[BEST].append(list(row.comparisons) if _has_one_best(row) else [])
    return {name: of_rows for name, of_rows in measures.items() if any(of_rows)}


def _has_one_best(row: FileRow) -> bool:
    """Whether one of more than two responses is better than all others."""
    n_responses = len(row.places)
    for best in {better for better, _ in row.comparisons}:
        if len({worse for better, worse in row.comparisons if better == best}) == n_responses - 1:
            return n_responses > 2
    return False


def _counts(
    measure: str, comparisons: Sequence[tuple[int, int]], values: np.ndarray, at_random: bool
) -> tuple[float, float, float]:
    """(right, ties, number) of a row's comparisons under these scores [G], or on average at random.

    The best of n is one comparison.
    """
    if not comparisons:
        return 0.0, 0.0, 0.0
    if measure == BEST:
        best = _best(comparisons, len(values))
        highest_other = np.delete(values, best).max()
        if at_random:
            return 1 / len(values), 0.0, 1.0
        return float(values[best] > highest_other), float(values[best] == highest_other), 1.0
    number = float(len(comparisons))
    if at_random:
        return number / 2, 0.0, number
    better = values[[pair[0] for pair in comparisons]]
    worse = values[[pair[1] for pair in comparisons]]
    return float((better > worse).sum()), float((better == worse).sum()), number


def _best(comparisons: Sequence[tuple[int, int]], n_responses: int) -> int:
    """The number of the response that is better than all others."""
    counts = np.bincount([better for better, _ in comparisons], minlength=n_responses)
    return int(counts.argmax())


def _share(
    sums: np.ndarray, prompts: np.ndarray, n_boot: int, seed: int
) -> tuple[float, float, float, int, int, int]:
    """(right, low, high, ties, number, prompts) of the counts [rows, 3] of `_counts`."""
    interval = bootstrap(
        sums[:, [0, 2]],
        prompts,
        lambda totals: totals[:, :1] / totals[:, 1:],
        n_boot=n_boot,
        seed=seed,
    )
    n_prompts = len(set(prompts.tolist()))
    right, low, high = inside(interval, 0, 1, n_prompts)
    ties, number = sums[:, 1:].sum(axis=0)
    return float(right[0]), float(low[0]), float(high[0]), int(ties), int(number), n_prompts


def in_words(table: pd.DataFrame) -> list[str]:
    """The table of `accuracy` in lines."""
    lines = []
    for measure, of_measure in table.groupby("measure", sort=False):
        first = of_measure.iloc[0]
        words = (
            "The best of several scores highest" if measure == BEST else "The better scores higher"
        )
        unit = "row" if measure == BEST else "pair"
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
