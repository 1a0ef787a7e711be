"""Gao's two laws of over-optimisation, fitted: where the truth stops rising with a reward model.

    laws = {"Best of n": of_best_of_n(ranked), "PPO": of_ppo(result, prompts, curves, recipe)}
    table(laws)      # alpha, beta and the peak, with intervals
    sentences(laws)  # does the truth turn?
    of_attributes(gains, "PPO")  # the attribute whose score rises most above its truth

With d = sqrt(KL) the truth gained over the start is

    R(d) = d (alpha - beta d)        best of n, KL = log n - (n - 1) / n
    R(d) = d (alpha - beta log d)    reinforcement learning

(Gao et al. 2022, arXiv 2210.10760). Both are linear in alpha and beta, so that least squares
fits them and a fit is linear in the truth. Paper: silent.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from hs2lib.align import ppo
from hs2lib.evaluate import best_of_n
from hs2lib.evaluate.best_of_n import Ranked
from hs2lib.evaluate.by_round import truth_of_responses
from hs2lib.evaluate.response_rows import score_of, truth_of
from hs2lib.group import ATTRIBUTES
from hs2lib.stats.bootstrap import Interval, bootstrap
from hs2lib.train.recipes import PPO
from hs2lib.train.trainer import TrainingResult

FEWEST = 4  # points with a KL above 0, by which two coefficients are still tested
MIDDLE = (0.1, 0.9)  # quantiles of d between which eight in ten points lie
NARROW = 1 / 2  # of the way to the farthest point; points closer together hardly tell of a bend
BINS = 8  # of points by their distance, where there are more than twice as many


@dataclass(frozen=True)
class Law:
    """R(d) = d (alpha - beta f(d)).

    formula: of R, as a reader sees it. axis: what d is. bend: f. peak: from alpha / beta to the d
    where R is largest if beta is above 0.
    """

    formula: str
    axis: str
    bend: Callable[[np.ndarray], np.ndarray]
    peak: Callable[[float], float]

    def terms(self, distance: np.ndarray) -> np.ndarray:
        """What alpha and beta are multiplied by at each distance, float64 [points, 2]; 0 at 0."""
        start = distance == 0
        bent = self.bend(np.where(start, 1.0, distance))
        return np.stack([distance, np.where(start, 0.0, -distance * bent)], axis=1)


def _identity(distance: np.ndarray) -> np.ndarray:
    return distance


def _half(ratio: float) -> float:
    """alpha / (2 beta), or 0 where the truth falls from the start on."""
    return max(ratio / 2, 0.0)


def _exponential(ratio: float) -> float:
    """exp(alpha / beta - 1); infinite where it is too large to be written."""
    return float(np.exp(min(ratio - 1, 700.0)))


BEST_OF_N = Law("d (alpha - beta d)", "d, root of the bound on the KL in nats", _identity, _half)

RL = Law("d (alpha - beta log d)", "d, root of the sampled KL in nats", np.log, _exponential)


@dataclass(frozen=True)
class Fit:
    """A law through points.

    law: that was fitted.
    alpha: how fast the truth rises at first.
    beta: how fast the reward model stops standing for it.
    peak: d where the fitted truth is largest, nan where beta is not above 0. Its bounds are nan
        where the interval of beta holds 0: the peak may then lie anywhere.
    start: the truth at d = 0; 0 where the points are gains.
    points: rows (distance, gain, low, high), the gains less `start`.
    bins: rows of means of points with neighbouring distances; the points themselves where they are
        few.
    """

    law: Law
    alpha: Interval
    beta: Interval
    peak: Interval
    start: float
    points: pd.DataFrame
    bins: pd.DataFrame

    @property
    def farthest(self) -> float:
        """The largest d of the points."""
        return self.points.distance.max()

    def gain(self, distance: ArrayLike) -> np.ndarray:
        """The fitted gain in truth at each distance."""
        terms = self.law.terms(np.asarray(distance, dtype=np.float64).reshape(-1))
        return terms @ [float(self.alpha.estimate), float(self.beta.estimate)]

    @property
    def middle(self) -> tuple[float, float]:
        """Between which d eight in ten points lie, those at d = 0 aside."""
        low, high = self.points.distance[self.points.distance > 0].quantile(MIDDLE)
        return float(low), float(high)

    @property
    def is_narrow(self) -> bool:
        """Whether eight in ten points lie in a band of d too narrow to tell of a bend."""
        low, high = self.middle
        return high - low < NARROW * self.farthest

    @property
    def where(self) -> str:
        """The d that the verdict is of: up to the farthest point, or a narrow band."""
        if self.is_narrow:
            low, high = self.middle
            return f"at d = {low:.2f} to {high:.2f}"
        return f"up to d = {self.farthest:.2f}"

    @property
    def range_in_words(self) -> str:
        """Which d the points cover, and that the fit decides nothing outside of these."""
        low, high = self.middle
        if self.is_narrow:
            return (
                f"Eight in ten points lie at d = {low:.2f} to {high:.2f}, a narrow band: "
                "the fit decides nothing outside of it, and little on a bend within."
            )
        nearest = self.points.distance[self.points.distance > 0].min()
        return (
            f"The points lie at d = {nearest:.2f} to {self.farthest:.2f}, eight in ten of them at "
            f"{low:.2f} to {high:.2f}; the fit decides nothing outside."
        )

    @property
    def turns(self) -> bool:
        """Whether it is shown that the truth has turned within the points."""
        return bool(self.beta.low > 0 and self.peak.estimate > 0 and self.peak.high < self.farthest)

    @property
    def decides_nothing(self) -> bool:
        """Whether beta may be 0, and the points lie in a band too narrow to tell of a bend."""
        return bool(self.is_narrow and self.beta.low <= 0 <= self.beta.high)

    @property
    def verdict(self) -> str:
        """What the fit says of over-optimisation, in a few words."""
        if self.gain(self.farthest)[0] < 0 and not self.peak.estimate > 0:
            return "the truth falls from the start" if self.alpha.high < 0 else "no gain is shown"
        if self.turns:
            return f"the truth turns at d = {self.peak.estimate:.2f}"
        if self.decides_nothing:
            return "the law decides nothing here"
        if not self.beta.estimate > 0:
            return "no over-optimisation seen"
        return "a turn is not shown"

    def sentence(self, name: str) -> str:
        """The verdict with its numbers, and where the points lie.

        name: of what pressed on the reward model.
        """
        return f"{self._verdict_in_words(name)} {self.range_in_words}"

    def _verdict_in_words(self, name: str) -> str:
        """The verdict with its numbers."""
        verdict = f"{self.verdict} {self.where}"
        beta = f"beta is {self.beta.estimate:.2f} ({self.beta.low:.2f} to {self.beta.high:.2f})"
        peak = f"d = {self.peak.estimate:.2f} ({self.peak.low:.2f} to {self.peak.high:.2f})"
        if self.turns:
            gained = self.gain(self.peak.estimate)[0]
            return (
                f"{name}: **over-optimisation**. By Gao's law the truth turns at {peak}, "
                f"{gained:+.2f} points from the start; {beta}."
            )
        if self.decides_nothing:
            return f"{name}: {self.verdict}. By Gao's law {beta}, an interval that holds 0."
        if not self.peak.estimate > 0:
            if self.gain(self.farthest)[0] < 0:
                return f"{name}: {verdict}, by Gao's law; {beta}."
            return f"{name}: {verdict}. By Gao's law {beta}, which is not above 0."
        if not self.beta.low > 0:
            return f"{name}: {verdict}. By Gao's law {beta}, which may be 0."
        return f"{name}: {verdict}. By Gao's law {beta}, and the peak is {peak}."


def distances(kl: ArrayLike) -> np.ndarray:
    """d = sqrt(KL), nats; nan where a sampled estimate of the KL is below 0."""
    kl = np.asarray(kl, dtype=np.float64)
    return np.sqrt(np.where(kl < 0, np.nan, kl))


def fit(
    law: Law,
    distance: ArrayLike,
    truth: ArrayLike,
    clusters: Sequence,
    *,
    weights: ArrayLike | None = None,
    start_known: bool = True,
    n_boot: int = 1000,
    seed: int = 0,
) -> Fit | None:
    """A law through the mean truth at each distance, by least squares, with 95 % intervals.

    Whole prompts are drawn anew for the intervals. That of the peak is Fieller's (1954): the peak
    depends on alpha / beta alone, and a ratio of two estimates has no symmetric interval. The
    distances are taken as known; sampled estimates of a KL make the law look flatter than it is.

    Args:
        law: `BEST_OF_N` or `RL`.
        distance: of each point, d = sqrt(KL), [points]. A point of nan is left out.
        truth: of each prompt at each point, [rows, points], nan where it has none.
        clusters: prompt of each row.
        weights: of the points in the least squares; without them all count alike.
        start_known: whether the truth is a gain, 0 at d = 0. Otherwise the truth at d = 0 is
            fitted too, and taken off.
        n_boot: resamples.
        seed: of the resamples.

    Returns:
        None where fewer than `FEWEST` points at a distance above 0 have a known truth, or all are
        at one distance.

    Raises:
        ValueError: shapes that do not fit.
    """
    distance = np.asarray(distance, dtype=np.float64)
    truth = np.asarray(truth, dtype=np.float64)
    if truth.ndim != 2 or truth.shape[1:] != distance.shape:
        raise ValueError(
            f"truth must be [rows, points] for {distance.shape} distances, got {truth.shape}"
        )
    known = ~np.isnan(truth)
    usable = np.isfinite(distance) & known.any(axis=0)  # [points]
    if np.count_nonzero(distance[usable] > 0) < FEWEST:
        return None
    distance = distance[usable]
    known = known[:, usable]
    terms = law.terms(distance)  # [points, 2]
    if not start_known:
        terms = np.column_stack([terms, np.ones(len(distance))])  # [points, 3]
    root = np.ones(len(distance))
    if weights is not None:
        root = np.sqrt(np.asarray(weights, dtype=np.float64)[usable])
    weighted = root[:, None] * terms
    if np.linalg.matrix_rank(weighted) < terms.shape[1]:
        return None
    solution = np.linalg.pinv(weighted) * root  # [2 or 3, points]: the fit is linear in the truth
    n_points = len(distance)
    bins = _bins(distance)  # [bins, points]

    def statistic(sums: np.ndarray) -> np.ndarray:
        """Alpha, beta, their sum, the start, each point's and each bin's gain, [B, 4 + ..]."""
        means = sums[:, :n_points] / sums[:, n_points:]  # [B, points]
        coefficients = means @ solution.T  # [B, 2 or 3]
        start = np.zeros(len(means))
        if not start_known:
            start = coefficients[:, 2]
        together = coefficients[:, 0] + coefficients[:, 1]
        gains = means - start[:, None]
        return np.column_stack([coefficients[:, :2], together, start, gains, gains @ bins.T])

    contributions = np.hstack([np.where(known, truth[:, usable], 0.0), known])
    fitted = bootstrap(contributions, np.asarray(clusters), statistic, n_boot=n_boot, seed=seed)
    alpha = fitted.at(0)
    beta = fitted.at(1)
    points = _as_rows(distance, fitted.at(slice(4, 4 + n_points)))
    binned = _as_rows(bins @ distance, fitted.at(slice(4 + n_points, None)))
    peak = _peak(law, alpha, beta, fitted.at(2))
    return Fit(law, alpha, beta, peak, float(fitted.estimate[3]), points, binned)


def _bins(distance: np.ndarray) -> np.ndarray:
    """The weight of each point in the mean of each bin, float64 [bins, points].

    Those at the start are one bin, the others `BINS` of as many neighbours each. Where there are
    not twice as many points as bins, each point is its own.
    """
    if len(distance) <= 2 * BINS:
        return np.eye(len(distance))
    order = np.argsort(distance, kind="stable")
    n_at_start = np.count_nonzero(distance == 0)
    members = [order[:n_at_start], *np.array_split(order[n_at_start:], BINS)]
    members = [one for one in members if len(one)]
    weights = np.zeros((len(members), len(distance)))
    for row, one in zip(weights, members, strict=True):
        row[one] = 1 / len(one)
    return weights


def _as_rows(distance: np.ndarray, gains: Interval) -> pd.DataFrame:
    """Gains at distances as rows (distance, gain, low, high)."""
    return pd.DataFrame(
        {"distance": distance, "gain": gains.estimate, "low": gains.low, "high": gains.high}
    )


def _peak(law: Law, alpha: Interval, beta: Interval, together: Interval) -> Interval:
    """The peak, and its bounds where the interval of beta lies above 0.

    Fieller: the ratio may be every r for which alpha - r beta does not differ from 0. These are the
    r between the roots of a parabola. together: alpha + beta, whose interval gives the covariance.
    """
    if not beta.estimate > 0:
        return Interval(np.nan, np.nan, np.nan)
    estimate = law.peak(alpha.estimate / beta.estimate)
    if not beta.low > 0:
        return Interval(estimate, np.nan, np.nan)
    of_alpha = (alpha.high - alpha.estimate) ** 2
    of_beta = (beta.high - beta.estimate) ** 2
    of_both = ((together.high - together.estimate) ** 2 - of_alpha - of_beta) / 2
    square = beta.estimate**2 - of_beta
    middle = (alpha.estimate * beta.estimate - of_both) / square
    rest = (alpha.estimate**2 - of_alpha) / square
    half = np.sqrt(max(middle**2 - rest, 0.0))
    return Interval(estimate, law.peak(middle - half), law.peak(middle + half))


def numbers(total: int) -> list[int]:
    """The n that the law of best of n is fitted to: 1, 2, 3, 4, 6, 8, 12 .. up to `total`."""
    powers = [2**k for k in range(total.bit_length())]
    between = [3 * n for n in powers]
    return sorted(n for n in {*powers, *between} if n <= total)


def of_best_of_n(ranked: Ranked) -> Fit | None:
    """The law of best of n, by the truth of the answers that the reward model ranked.

    None of real prompts.
    """
    tried = numbers(ranked.total)
    distance = distances([best_of_n.bound(n) for n in tried])
    gains = ranked.gains_by_prompt(tried)  # [prompts, points]
    return fit(BEST_OF_N, distance, gains, ranked.ids, **ranked.resampled)


def of_ppo(
    result: TrainingResult, prompts: ppo.Prompts, curves: pd.DataFrame, recipe: PPO
) -> Fit | None:
    """The law of reinforcement learning, by the truth of the answers of each round.

    The rounds answer different prompts, so that the truth at the start is fitted too. None of real
    prompts, and of fewer than `FEWEST` rounds with a KL above 0.

    result: of the training.
    prompts: that were answered.
    curves: columns round and kl, as from `hs2lib.evaluate.by_round.of_ppo`.
    recipe: has the options of the intervals.
    """
    ids = []
    rows = []
    for number in range(len(curves)):
        for group in ppo.answers(result, prompts, number):
            row = np.full(len(curves), np.nan)
            row[number] = truth_of_responses([group]).mean()
            ids.append(group.id)
            rows.append(row)
    distance = distances(curves.kl)
    return fit(RL, distance, np.stack(rows), ids, start_known=False, **recipe.resampled)


def table(laws: Mapping[str, Fit | None]) -> pd.DataFrame:
    """Alpha, beta and the peak of each law.

    Rows (pressed by, law, points, quantity, value, 95 % low, 95 % high), nan where no law was
    fitted. The peak is nan where the interval of beta holds 0, as it may then lie anywhere. points:
    those at a distance above 0.
    """
    rows = []
    for name, fitted in laws.items():
        if fitted is None:
            rows.append((name, "none fitted", np.nan, "", np.nan, np.nan, np.nan))
            continue
        n_points = np.count_nonzero(fitted.points.distance > 0)
        peak = fitted.peak
        if not fitted.beta.low > 0:
            peak = Interval(np.nan, np.nan, np.nan)
        quantities = {"alpha": fitted.alpha, "beta": fitted.beta, "d at the peak": peak}
        for quantity, interval in quantities.items():
            values = [float(value) for value in interval]
            rows.append((name, fitted.law.formula, n_points, quantity, *values))
    columns = ["pressed by", "law", "points", "quantity", "value", "95 % low", "95 % high"]
    return pd.DataFrame(rows, columns=columns)


def sentences(laws: Mapping[str, Fit | None]) -> list[str]:
    """A sentence on each law: whether the truth turns, or why no law is fitted."""
    verdicts = []
    for name, fitted in laws.items():
        if fitted is None:
            verdicts.append(
                f"{name}: no law is fitted. That takes {FEWEST} points or more with a KL above 0 "
                "and a known truth."
            )
        else:
            verdicts.append(fitted.sentence(name))
    return verdicts


def of_attributes(gains: pd.DataFrame, policy: str) -> list[str]:
    """The attribute whose score rises most above its truth, with both numbers.

    Empty where nobody knows the truth, or the reward model has none of the attributes.

    gains: rows of `hs2lib.evaluate.policies.gains_of`.
    policy: that was trained on the score.
    """
    against = gains.columns[2]
    of_policy = gains[gains.policy == policy].set_index("measure")
    outrun = {}
    for name in ATTRIBUTES:
        if truth_of(name) in of_policy.index and score_of(name) in of_policy.index:
            by_score = of_policy.loc[score_of(name), against]
            outrun[name] = by_score - of_policy.loc[truth_of(name), against]
    if not outrun:
        return []
    name = max(outrun, key=outrun.__getitem__)
    if not outrun[name] > 0:
        return [f"{policy}: no attribute rises by the score above its truth."]
    numbers = []
    for measure in (score_of(name), truth_of(name)):
        row = of_policy.loc[measure]
        interval = f"{row['95 % low']:.2f} to {row['95 % high']:.2f}"
        numbers.append(f"{row[against]:+.2f} ({interval})")
    return [
        f"{policy}: of the attributes, {name} rises most above its truth: "
        f"{numbers[0]} by score and {numbers[1]} by truth."
    ]


def drawn(
    laws: Mapping[str, Fit | None], ranked: Ranked
) -> tuple[dict[str, str], dict[str, str], pd.DataFrame, pd.DataFrame]:
    """What `hs2lib.report.figures.laws` draws: titles, what d is, points and lines.

    Beside the law of best of n stand the rules without a reward model. A peak is drawn where its
    interval is known: where beta is shown to be above 0.
    """
    tried = numbers(ranked.total)
    at = distances([best_of_n.bound(n) for n in tried])
    titles = {}
    axes = {}
    points = [pd.DataFrame(columns=["law", "distance", "gain", "low", "high"])]
    lines = [pd.DataFrame(columns=["law", "line", "distance", "gain"])]

    def add(law: str, line: str, distance: ArrayLike, gain: ArrayLike) -> None:
        columns = {"law": law, "line": line, "distance": distance, "gain": gain}
        lines.append(pd.DataFrame(columns))

    for name, fitted in laws.items():
        axes[name] = "d" if fitted is None else fitted.law.axis
        if fitted is None:
            titles[name] = f"{name}: no law fitted"
            continue
        points_at = f"{'8 in 10 points' if fitted.is_narrow else 'points'} {fitted.where}"
        titles[name] = f"{name}: {fitted.verdict}\n{points_at}, R = {fitted.law.formula}"
        points.append(fitted.bins.assign(law=name))
        if len(fitted.bins) < len(fitted.points):
            add(name, "single points", fitted.points.distance, fitted.points.gain)
        steps = np.linspace(0, fitted.farthest, 200)
        add(name, "fitted law", steps, fitted.gain(steps))
        if fitted.peak.estimate < fitted.farthest and fitted.beta.low > 0:
            peak = [float(fitted.peak.estimate)]
            add(name, "peak", peak, fitted.gain(peak))
        if fitted.law is BEST_OF_N:
            for rule in (best_of_n.LONGEST, best_of_n.LIKELIEST):
                if rule in ranked.others:
                    add(name, rule, at, ranked.gains_by_prompt(tried, rule=rule).mean(axis=0))
            if ranked.greedy:
                greedy = ranked.gains_by_prompt(tried, rule=best_of_n.GREEDY_RULE).mean(axis=0)
                add(name, best_of_n.GREEDY_RULE, at, greedy)
    filled_points = points[1:] or points
    filled_lines = lines[1:] or lines
    order = ["law", "distance", "gain", "low", "high"]
    return titles, axes, pd.concat(filled_points)[order], pd.concat(filled_lines)
