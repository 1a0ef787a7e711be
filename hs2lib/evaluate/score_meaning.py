"""What a difference of two scores means: how often it is right, and from where on to trust it.

    meaning = score_meaning.measure(scores, prompts)   # scores [pairs, 2], preferred first
    meaning.scale         # P(right | difference d) = sigmoid(d / scale)
    meaning.thresholds    # the differences from which 70, 80 and 90 % are right

A score alone means nothing: a model is trained on which of two answers is better, or on ratings
whose scale is theirs. The difference of two answers to one prompt can be held against people. All
of it holds for pairs like these. Paper: silent.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.optimize import brentq
from scipy.special import expit, logit

from hs2lib.evaluate import questions
from hs2lib.models import baselines
from hs2lib.report.report import interval
from hs2lib.stats.bootstrap import Interval, bootstrap, inside

FEW = 30  # pairs below which no curve is fitted

BINS = 5  # of the absolute difference, by quantiles

FOLDS = 5  # of prompts, for the error of the fitted curve

LEVELS = (70, 80, 90)  # percent right, of the thresholds

NAMED = 80  # the level that a title names, where pairs reach it

# The curves whose error is measured.
PLAIN = "sigmoid(d)"
FITTED = "fitted, on other prompts"

ENDS = ["95 % low", "95 % high"]


@dataclass(frozen=True)
class Meaning:
    """What differences of scores mean, on these pairs.

    pairs: their number.
    prompts: the number of their prompts.
    equal: pairs whose two scores are equal. They count as wrong.
    right: percent of pairs in the right order, with its 95 % interval by prompt.
    scale: s of sigmoid(d / s), in units of the score, with its 95 % interval by prompt. Infinite
        where a larger difference is not more often right; 0 where every difference is right; nan
        for fewer than `FEW` pairs, and where all scores are equal.
    bins: of the absolute difference, rows (from, to, mean difference, pairs, right (%), 95 % low,
        95 % high, fitted (%)). Empty for fewer than `FEW` pairs.
    errors: rows (curve, pairs, error (points), 95 % low, 95 % high, by chance (points)): the
        expected calibration error of sigmoid(d), and of the fitted curve on prompts that it was not
        fitted to. By chance is what exact probabilities would show with so many pairs. Empty as
        bins are.
    thresholds: rows (level (%), difference, difference, 95 % low, difference, 95 % high, pairs,
        share (%), right (%), 95 % low, 95 % high). The difference is s logit(level), and nan where
        no pair lies so far apart. Pairs and what follows are of those at or above it. Empty as bins
        are.
    """

    pairs: int
    prompts: int
    equal: int
    right: Interval
    scale: Interval
    bins: pd.DataFrame
    errors: pd.DataFrame
    thresholds: pd.DataFrame

    @property
    def is_fitted(self) -> bool:
        """Whether there is a curve to draw: enough pairs, and scores that differ."""
        return not math.isnan(self.scale.estimate)

    @property
    def is_shown(self) -> bool:
        """Whether a larger difference is right more often, beyond chance."""
        return 0 < self.scale.estimate < math.inf and self.scale.high < math.inf


def measure(
    scores: np.ndarray,
    prompts: Sequence | None = None,
    *,
    n_boot: int = 1000,
    seed: int = 0,
) -> Meaning:
    """What a difference of scores means: curve, bins, calibration errors and thresholds.

    Paper: silent. The scale is that of maximum likelihood. Its interval has one Newton step for
    each resample of prompts.

    Args:
        scores: float [pairs, 2], of the preferred answer and of the other one. A pair that is
            equally good is none, and has to be left out before.
        prompts: of each pair its prompt, [pairs]; None where each pair has its own.
        n_boot: resamples of the intervals.
        seed: of the resamples and of the folds.

    Raises:
        ValueError: there is no pair, scores or prompts have another shape, or a score is nan or
            infinite.
    """
    scores, cluster = _checked(scores, prompts)
    n_pairs = len(scores)
    n_prompts = int(cluster.max()) + 1
    options = {"n_boot": n_boot, "seed": seed}
    differences = scores[:, 0] - scores[:, 1]  # [pairs]
    right = _percent(differences > 0, cluster, **options)
    equal = int((differences == 0).sum())
    unknown = Interval(math.nan, math.nan, math.nan)
    if n_pairs < FEW or equal == n_pairs:
        empty = pd.DataFrame()
        return Meaning(n_pairs, n_prompts, equal, right, unknown, empty, empty, empty)
    scale = scale_interval(differences, cluster, **options)
    return Meaning(
        n_pairs,
        n_prompts,
        equal,
        right,
        scale,
        _bin_table(differences, cluster, scale.estimate, **options),
        _error_table(differences, cluster, **options),
        _threshold_table(differences, cluster, scale, **options),
    )


def _checked(scores: np.ndarray, prompts: Sequence | None) -> tuple[np.ndarray, np.ndarray]:
    """Scores as float64 [pairs, 2], and the number of each pair's prompt, int64 [pairs]."""
    scores = np.asarray(scores, dtype=np.float64)
    if scores.ndim != 2 or scores.shape[1] != 2 or len(scores) == 0:
        raise ValueError(
            f"scores must be [pairs, 2], preferred first, of at least one pair; "
            f"got shape {scores.shape}"
        )
    is_bad = ~np.isfinite(scores).all(axis=1)
    if is_bad.any():
        raise ValueError(
            f"{is_bad.sum()} of {len(scores)} pairs have a score that is nan or infinite, the "
            f"first in row {int(is_bad.argmax())}: leave out pairs without scores"
        )
    if prompts is None:
        return scores, np.arange(len(scores))
    if len(prompts) != len(scores):
        raise ValueError(f"{len(prompts)} prompts for {len(scores)} pairs: name one for each pair")
    return scores, pd.factorize(pd.Series(list(prompts)))[0]


# The curve


def fitted_scale(differences: np.ndarray) -> float:
    """The scale s of P(right | d) = sigmoid(d / s) by maximum likelihood.

    Paper: silent. By hand: of 4 pairs that differ by 1, 3 are right; s = 1 / logit(3 / 4) = .91.

    differences: float [pairs], score of the preferred answer less that of the other one. Equal
    scores say nothing about s.

    Returns infinity where a larger difference is not more often right, 0 where every difference
    that is not 0 is right, nan where all are 0.
    """
    slope = _slope(np.asarray(differences, dtype=np.float64))
    if math.isnan(slope):
        return math.nan
    if slope <= 0:
        return math.inf
    return 1 / slope


def _slope(differences: np.ndarray) -> float:
    """1 / s by maximum likelihood, negative where most differences are wrong, or infinite."""
    unequal = differences[differences != 0]
    if len(unequal) == 0:
        return math.nan
    if (unequal > 0).all():
        return math.inf
    if (unequal < 0).all():
        return -math.inf
    unit = np.abs(unequal).max()
    d = unequal / unit

    def gradient(slope: float) -> float:
        """Of the log-likelihood; it falls from the sum of d > 0 to that of d < 0."""
        return float((d * expit(-slope * d)).sum())

    end = 1.0 if gradient(0.0) > 0 else -1.0
    while gradient(end) * end > 0:
        end *= 2
    return float(brentq(gradient, min(end, 0.0), max(end, 0.0)) / unit)


def probability(differences: np.ndarray, scale: float) -> np.ndarray:
    """P(right | d) = sigmoid(d / scale); a scale of 0 is a step, an infinite one is 1/2."""
    d = np.asarray(differences, dtype=np.float64)
    if scale == 0:
        return 0.5 * (1 + np.sign(d))
    return expit(d / scale)


def scale_interval(
    differences: np.ndarray, clusters: np.ndarray | None = None, **options: int
) -> Interval:
    """The fitted scale and its 95 % interval by prompt.

    Paper: silent. The interval is one of 1 / s, which may be 0. Then s has no upper end. Checked on
    200 samples of 60 simulated pairs.

    Args:
        differences: float [pairs], as for `fitted_scale`.
        clusters: int [pairs], the prompts; None where each pair has its own.
        **options: n_boot (1000) and seed (0), as for `hs2lib.stats.bootstrap.bootstrap`.
    Returns: plain numbers. Low and high are nan where the scale is 0, where all differences are
        wrong, and for a single prompt.
    """
    scale = fitted_scale(differences)
    slope = _slope(differences)
    if math.isinf(slope):
        return Interval(scale, math.nan, math.nan)
    p = expit(slope * differences)  # [pairs]
    gradient = differences * (1 - p)
    curvature = differences**2 * p * (1 - p)

    def one_step(sums: np.ndarray) -> np.ndarray:
        return slope + sums[:, :1] / sums[:, 1:]

    slopes = bootstrap(np.column_stack([gradient, curvature]), clusters, one_step, **options)
    low = _inverse(float(slopes.high[0]))
    high = _inverse(float(slopes.low[0]))
    return Interval(scale, low, high)


def _inverse(slope: float) -> float:
    """1 / slope; infinity for a slope that is not above 0, nan for nan."""
    if math.isnan(slope):
        return math.nan
    return 1 / slope if slope > 0 else math.inf


# Tables


def _percent(is_right: np.ndarray, cluster: np.ndarray, **options: int) -> Interval:
    """Percent of pairs, with the 95 % interval by prompt."""
    share = questions.mean(100.0 * is_right, cluster, **options)
    return Interval(*map(float, inside(share, 0, 100, len(np.unique(cluster)))))


def _bins(differences: np.ndarray) -> np.ndarray:
    """The bin of each pair, int64 [pairs]: quantiles of the absolute difference.

    Equal differences share a bin, so there may be fewer than `BINS`.
    """
    absolute = np.abs(differences)
    edges = np.quantile(absolute, np.arange(1, BINS) / BINS)
    return np.unique(np.searchsorted(edges, absolute), return_inverse=True)[1]


def _bin_table(
    differences: np.ndarray, cluster: np.ndarray, scale: float, **options: int
) -> pd.DataFrame:
    """The table `Meaning.bins`."""
    absolute = np.abs(differences)
    fitted = 100 * probability(absolute, scale)
    bin_of_pair = _bins(differences)
    rows = []
    for number in range(bin_of_pair.max() + 1):
        here = bin_of_pair == number
        ends = (absolute[here].min(), absolute[here].max(), absolute[here].mean())
        share = _percent(differences[here] > 0, cluster[here], **options)
        rows.append((*ends, int(here.sum()), *share, fitted[here].mean()))
    columns = ["from", "to", "mean difference", "pairs", "right (%)", *ENDS, "fitted (%)"]
    return pd.DataFrame(rows, columns=columns)


def _error_table(differences: np.ndarray, cluster: np.ndarray, **options: int) -> pd.DataFrame:
    """The table `Meaning.errors`."""
    absolute = np.abs(differences)
    chances = {PLAIN: probability(absolute, 1.0)}  # of each curve [pairs]
    n_folds = min(FOLDS, int(cluster.max()) + 1)
    if n_folds > 1:
        fold = baselines.folds(cluster, n_folds, options["seed"])
        chances[FITTED] = np.empty(len(absolute))
        for number in range(n_folds):
            here = fold == number
            scale = fitted_scale(differences[~here])
            if math.isnan(scale):
                scale = math.inf
            chances[FITTED][here] = probability(absolute[here], scale)
    rows = []
    for name, of_curve in chances.items():
        error = calibration_error(differences, of_curve, cluster, **options)
        rows.append((name, len(absolute), *error, _by_chance(differences, of_curve)))
    columns = ["curve", "pairs", "error (points)", *ENDS, "by chance (points)"]
    return pd.DataFrame(rows, columns=columns)


def calibration_error(
    differences: np.ndarray,
    chances: np.ndarray,
    clusters: np.ndarray | None = None,
    *,
    n_boot: int = 1000,
    seed: int = 0,
) -> Interval:
    """The expected calibration error, in points of percent, over bins of the absolute difference.

    Paper: silent. It is the mean over pairs of how far, in the pair's bin, the share of pairs in
    the right order lies from the mean probability. Equal scores are wrong. Chance alone makes it
    positive.

    Args:
        differences: float [pairs].
        chances: float [pairs], the probability that the answer with the higher score is preferred.
        clusters: int [pairs], the prompts; None where each pair has its own.
        n_boot: resamples of the interval.
        seed: of the resamples.
    """
    bin_of_pair = _bins(differences)
    is_in = bin_of_pair[:, None] == np.arange(bin_of_pair.max() + 1)  # [pairs, bins]
    off = (differences > 0).astype(float) - chances  # [pairs]
    contributions = np.column_stack([is_in * off[:, None], np.ones(len(off))])

    def error(sums: np.ndarray) -> np.ndarray:
        return 100 * np.abs(sums[:, :-1]).sum(axis=1, keepdims=True) / sums[:, -1:]

    of_pairs = bootstrap(contributions, clusters, error, n_boot=n_boot, seed=seed).at(0)
    return Interval(*map(float, inside(of_pairs, 0, 100)))


def _by_chance(differences: np.ndarray, chances: np.ndarray) -> float:
    """The calibration error, in points, that exact probabilities would show with as many pairs.

    The mean size of a normal deviate is the root of 2 / pi times its SD.
    """
    variance = np.bincount(_bins(differences), weights=chances * (1 - chances))  # [bins]
    return 100 * math.sqrt(2 / math.pi) * float(np.sqrt(variance).sum()) / len(differences)


def _threshold_table(
    differences: np.ndarray, cluster: np.ndarray, scale: Interval, **options: int
) -> pd.DataFrame:
    """The table `Meaning.thresholds`."""
    absolute = np.abs(differences)
    rows = []
    for level in LEVELS:
        steps = float(logit(level / 100))
        threshold = Interval(*(steps * part for part in scale))
        above = (absolute >= threshold.estimate) & (absolute > 0)
        number = int(above.sum())
        share = Interval(math.nan, math.nan, math.nan)
        if number:
            share = _percent(differences[above] > 0, cluster[above], **options)
        else:
            threshold = share
        rows.append((level, *threshold, number, 100 * above.mean(), *share))
    columns = ["level (%)", "difference", *[f"difference, {end}" for end in ENDS]]
    columns += ["pairs", "share (%)", "right (%)", *ENDS]
    return pd.DataFrame(rows, columns=columns)


# In words


def _digits(meaning: Meaning) -> int:
    """Decimals that show three digits of the scale, which may be any number."""
    if not meaning.is_shown:
        return 2
    return max(0, 2 - math.floor(math.log10(meaning.scale.estimate)))


def thresholds_in_words(meaning: Meaning) -> str:
    """From which difference on the order can be trusted, in one line; or why nobody can say."""
    pairs = "1 pair is" if meaning.pairs == 1 else f"{meaning.pairs:,} pairs are"
    if meaning.pairs < FEW:
        return f"{pairs} too few for thresholds of the difference: {FEW} are the least."
    if not meaning.is_fitted:
        return f"All {meaning.pairs:,} pairs have equal scores: no difference means anything."
    if meaning.scale.estimate == 0:
        return (
            f"Every difference is right, in {meaning.pairs - meaning.equal:,} pairs. "
            "No threshold can be fitted: harder pairs would show one."
        )
    if math.isinf(meaning.scale.estimate):
        return (
            f"A larger difference is not more often right, in {meaning.pairs:,} pairs. "
            "No difference can be trusted."
        )
    if not meaning.is_shown:
        return (
            f"That a larger difference is more often right is not shown by {meaning.pairs:,} "
            f"pairs of {_counted(meaning.prompts, 'prompt')}. No threshold can be trusted."
        )
    parts = []
    for _, row in meaning.thresholds.iterrows():
        level = f"{row['level (%)']:.0f} %"
        if row.pairs == 0:
            parts.append(f"{level} nowhere")
            continue
        share = f"{row['share (%)']:.0f} % of pairs"
        difference = interval(*row.iloc[1:4], _digits(meaning))
        parts.append(f"{level} from {difference} on ({share})")
    words = f"Right by the fitted curve, {meaning.pairs:,} pairs: {', '.join(parts)}."
    reached = meaning.thresholds[meaning.thresholds.pairs > 0]
    if len(reached) > 1:
        between = int(reached.pairs.max() - reached.pairs.min())
        words += f" Between the first and the last lie {_counted(between, 'pair')}."
    return words


def _counted(number: int, unit: str) -> str:
    """A number of units, "1 prompt" or "331 prompts"."""
    return f"{number:,} {unit}" if number == 1 else f"{number:,} {unit}s"
