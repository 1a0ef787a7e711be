"""The search over 21^5 = 4,084,101 weightings of five heads on 352 pairs, against a plain numpy
loop over weightings.

The loop is what one writes first: for each weighting a product, a comparison and a mean. It runs on
a sample of the weightings, evenly spaced through the grid, and its time is scaled to all of them;
the search runs on all. A second peer, matrix products on chunks of weightings, runs on a larger
sample, scaled alike.
"""

import resource
import sys
from fractions import Fraction

import common
import numpy as np

from hs2lib.evaluate import weights

PAIRS, GOAL_S, GOAL_GB = 352, 60, 2
LOOPED, CHUNKED = 20_000, 400_000


def margins(seed: int = 0) -> np.ndarray:
    """Margins of float32 scores, correlated as the five attributes are, most of them in the chosen one's favour."""
    rng = np.random.default_rng(seed)
    shared = rng.standard_normal((PAIRS, 1))
    scores = (
        0.8 * shared * (1, 1, 0.5, 0.2, 0.1)
        + 0.5 * rng.standard_normal((PAIRS, 5))
        + (0.4, 0.4, 0.2, 0.1, 0.05)
    )
    return scores.astype(np.float32).astype(np.float64)


def loop(gaps: np.ndarray, tried: np.ndarray) -> np.ndarray:
    return np.array([(gaps @ w > 0).mean() for w in tried])


def chunks(gaps: np.ndarray, tried: np.ndarray) -> np.ndarray:
    return np.concatenate(
        [(part @ gaps.T > 0).mean(axis=1) for part in np.array_split(tried, len(tried) // 2000)]
    )


def exact(gaps: np.ndarray, tried: np.ndarray) -> list[float]:
    """Shares of right pairs in exact fractions."""
    rows = [[Fraction(float(m)) for m in row] for row in gaps]
    out = []
    for weighting in tried:
        w = [round(float(x) * 20) for x in weighting]
        out.append(
            sum(sum(a * m for a, m in zip(w, row, strict=True)) > 0 for row in rows) / len(rows)
        )
    return out


def main() -> None:
    gaps, grid = margins(), weights.grid()
    looped, chunked = (np.linspace(0, len(grid) - 1, n).astype(np.int64) for n in (LOOPED, CHUNKED))
    some, more = grid.weights(looped), grid.weights(chunked)
    best = weights.search(gaps)
    values = best.values.ravel()
    assert np.array_equal(values[looped], loop(gaps, some)) and np.array_equal(
        values[chunked], chunks(gaps, more)
    )
    # Scores on a coarse scale make sums that are exactly 0: there the search is held against
    # fractions.
    coarse = np.round(gaps * 4) / 4
    few = np.linspace(0, len(grid) - 1, 300).astype(np.int64)
    ties = exact(coarse, grid.weights(few))
    assert weights.search(coarse).values.ravel()[few].tolist() == ties
    by_loop = int((loop(coarse, grid.weights(few)) != np.array(ties)).sum())
    timings = common.times(
        {
            "hs2lib.evaluate.weights.search, all weightings": lambda: weights.search(gaps),
            f"numpy loop, {LOOPED:,} weightings": lambda: loop(gaps, some),
            f"chunked matrix products, {CHUNKED:,} weightings": lambda: chunks(gaps, more),
        },
        repeats=5,
    )
    ours, theirs, products = common.medians(timings).values()
    theirs, products = theirs * len(grid) / LOOPED, products * len(grid) / CHUNKED
    # ru_maxrss is in kilobytes on Linux, in bytes on macOS.
    peak = (
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        * (1 if sys.platform == "darwin" else 1024)
        / 1e9
    )
    common.write(
        "weight_grid",
        compared=f"a numpy loop over weightings (timed on {LOOPED:,}, scaled to {len(grid):,}) against the search, "
        f"{PAIRS} pairs",
        ratio=theirs / ours,
        goal=f"under {GOAL_S} s and {GOAL_GB} GB",
        met=ours < GOAL_S and peak < GOAL_GB,
        check=f"shares of right pairs equal on {LOOPED:,} and {CHUNKED:,} weightings; with coarse scores (sums of "
        f"exactly 0) equal to fractions on {len(few)} (the loop calls ties wins in {by_loop} of them)",
        timings=timings,
        packages=("numpy",),
        seconds=ours,
        peak_gb=round(peak, 3),
        ratio_to_chunked_products=products / ours,
    )


if __name__ == "__main__":
    main()
