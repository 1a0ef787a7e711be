"""Gao's laws: points on a law give it back, numbers by hand, intervals that hold the truth."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from hs2lib.align import ppo
from hs2lib.corpus import generate
from hs2lib.corpus.grade import true_goodness
from hs2lib.evaluate import overoptimisation
from hs2lib.evaluate.best_of_n import GREEDY_RULE, LONGEST, Ranked, bound
from hs2lib.evaluate.overoptimisation import BEST_OF_N, RL, distances, fit, numbers
from hs2lib.evaluate.response_rows import SCORE, TRUTH

D = distances([bound(n) for n in numbers(64)])
QUICK = {"n_boot": 100, "seed": 0}


def gains(law, alpha, beta):
    """The law written out, with no code of the module."""
    if law is BEST_OF_N:
        return D * (alpha - beta * D)
    return np.array([0.0, *(D[1:] * (alpha - beta * np.log(D[1:])))])


def fitted(law, alpha, beta, **options):
    """A law through noiseless points: of two prompts, one gains twice as much as the other."""
    mean = gains(law, alpha, beta)
    return fit(law, D, np.stack([mean * 2 / 3, mean * 4 / 3]), ["a", "b"], **QUICK, **options)


def test_the_distance_of_four_answers_by_hand():
    """KL = log 4 - 3/4 = .6363, d = .7977; an estimate below 0 has no root."""
    assert bound(4) == pytest.approx(0.6363, abs=5e-5)
    assert distances([bound(4), 0, -1e-3]) == pytest.approx(
        [0.7977, 0, np.nan], abs=5e-5, nan_ok=True
    )
    assert numbers(16) == [1, 2, 3, 4, 6, 8, 12, 16]


@pytest.mark.parametrize("law", [BEST_OF_N, RL])
@pytest.mark.parametrize("weights", [None, np.arange(1, len(D) + 1)])
def test_points_on_a_law_give_it_back(law, weights):
    """Least squares through noiseless points is exact, however they are weighted."""
    law_fit = fitted(law, 0.9, 0.4, weights=weights)
    assert law_fit.alpha.estimate == pytest.approx(0.9)
    assert law_fit.beta.estimate == pytest.approx(0.4)
    peak = 0.9 / 0.8 if law is BEST_OF_N else np.exp(0.9 / 0.4 - 1)
    assert law_fit.peak.estimate == pytest.approx(peak)
    assert law_fit.gain(D) == pytest.approx(gains(law, 0.9, 0.4))
    assert law_fit.points.gain.tolist() == pytest.approx(law_fit.gain(D).tolist())


@pytest.mark.parametrize("law", [BEST_OF_N, RL])
def test_the_peak_is_where_the_law_is_largest(law):
    """The formula of the peak beside a search over a fine grid."""
    law_fit = fitted(law, 0.5, 0.4)
    grid = np.linspace(0, 3, 30_001)
    assert law_fit.peak.estimate == pytest.approx(grid[law_fit.gain(grid).argmax()], abs=2e-4)


def test_weights_say_which_points_count():
    """A point of weight 0 may lie anywhere; without weights it bends the law."""
    mean = gains(BEST_OF_N, 1.0, 0.3)
    mean[-1] += 5
    weights = np.ones(len(D))
    weights[-1] = 0
    both = np.stack([mean, mean])
    weighted = fit(BEST_OF_N, D, both, ["a", "b"], weights=weights, **QUICK)
    assert weighted.beta.estimate == pytest.approx(0.3)
    assert fit(BEST_OF_N, D, both, ["a", "b"], **QUICK).beta.estimate < 0


def test_where_each_point_has_other_prompts_the_start_is_fitted():
    """PPO's rounds: the truth of SFT is 5, and each row has one round."""
    rows = []
    for k, mean in enumerate(5 + gains(RL, 0.7, 0.5)):
        for noise in (-0.1, 0.1):
            row = np.full(len(D), np.nan)
            row[k] = mean + noise
            rows.append(row)
    ids = [f"{k}" for k in range(len(rows))]
    law_fit = fit(RL, D, rows, ids, start_known=False, **QUICK)
    estimates = [law_fit.start, law_fit.alpha.estimate, law_fit.beta.estimate]
    assert estimates == pytest.approx([5, 0.7, 0.5])
    assert law_fit.points.gain[0] == pytest.approx(0)


@pytest.mark.slow
def test_intervals_hold_the_truth_as_often_as_they_say():
    """300 samples of 40 prompts, each with an alpha and a beta of its own, around 1 and .4.

    Of 300 intervals of 95 % the share that holds varies by .0126: four times that are allowed below.
    """
    rng = np.random.default_rng(0)
    held = np.zeros(3)
    for _ in range(300):
        alpha = rng.normal(1, 0.5, (40, 1))
        beta = rng.normal(0.4, 0.3, (40, 1))
        truth = D * (alpha - beta * D) + rng.normal(0, 0.3, (40, len(D))) * (D > 0)
        law_fit = fit(BEST_OF_N, D, truth, np.arange(40), n_boot=200)
        for k, (interval, value) in enumerate(
            ((law_fit.alpha, 1), (law_fit.beta, 0.4), (law_fit.peak, 1.25))
        ):
            held[k] += interval.low <= value <= interval.high
    assert (held / 300 > 0.9).all() and (held / 300 < 0.99).all()


def test_a_turn_is_stated_with_the_peak():
    law_fit = fitted(BEST_OF_N, 0.8, 0.4)
    certain = fit(BEST_OF_N, D, np.tile(gains(BEST_OF_N, 0.8, 0.4), (3, 1)), list("abc"), **QUICK)
    assert certain.turns
    assert tuple(certain.peak) == pytest.approx((1, 1, 1))
    assert certain.gain(1.0) == pytest.approx([0.4])
    assert not law_fit.turns, "two prompts show nothing"
    assert np.isnan(law_fit.peak.low)


@pytest.mark.parametrize("law", [BEST_OF_N, RL])
def test_where_beta_is_not_above_0_no_over_optimisation_is_seen(law):
    law_fit = fitted(law, 0.8, -0.1)
    assert not law_fit.turns and np.isnan(law_fit.peak.estimate)


def test_points_in_a_narrow_band_are_no_evidence_beyond_it():
    """One point at d = .5 and twelve at 1.5 to 1.61: eight in ten points say nothing of a small d."""
    distance = np.array([0, 0.5, *(1.5 + 0.01 * np.arange(12))])
    rises = distance * (0.8 + 0.1 * distance)
    close = fit(BEST_OF_N, distance, np.stack([rises, rises]), ["a", "b"], **QUICK)
    low, high = np.quantile(distance[1:], [0.1, 0.9])
    assert close.is_narrow and close.middle == pytest.approx((low, high))
    wide = fitted(BEST_OF_N, 0.8, -0.1)
    assert not wide.is_narrow and not close.decides_nothing
    noise = np.linspace(-1, 1, len(distance))[::-1]
    unsure = fit(BEST_OF_N, distance, np.stack([rises + noise, rises - noise]), ["a", "b"], **QUICK)
    assert unsure.decides_nothing


def test_many_points_are_drawn_as_means_of_neighbours():
    """One point at the start and 24 after it: the start, and 8 bins of 3, whose means are by hand."""
    distance = np.array([0, *np.arange(24, 0, -1.0)])
    gained = np.array([0, *np.arange(24, 0, -1.0)]) / 10
    law_fit = fit(BEST_OF_N, distance, np.stack([gained, gained]), ["a", "b"], **QUICK)
    assert law_fit.bins.distance.tolist() == pytest.approx([0, *np.arange(2, 25, 3.0)])
    assert law_fit.bins.gain.tolist() == pytest.approx([0, *np.arange(0.2, 2.5, 0.3)])
    few = fitted(BEST_OF_N, 0.8, 0.4)
    pd.testing.assert_frame_equal(few.bins, few.points)


def test_a_truth_that_only_falls_is_no_absence_of_over_optimisation():
    """Beta is below 0 there too: the fall slows down."""
    falls = fit(BEST_OF_N, D, np.tile(gains(BEST_OF_N, -0.8, -0.1), (3, 1)), list("abc"), **QUICK)
    assert falls.verdict != fitted(BEST_OF_N, 0.8, -0.1).verdict
    assert fitted(BEST_OF_N, -0.8, 0.1).peak.estimate == 0


def test_too_few_points_give_no_law():
    """Two coefficients go through any two points; without a truth there is no point at all."""
    four = np.array([0, 0.5, 1, 1.5])
    assert fit(RL, four, np.ones((2, 4)), ["a", "b"]) is None
    assert fit(RL, [0, 1, 1, 1, 1], np.ones((2, 5)), ["a", "b"]) is None, "all at one distance"
    assert fit(RL, D, np.full((2, len(D)), np.nan), ["a", "b"]) is None
    with pytest.raises(ValueError, match="truth must be"):
        fit(RL, four, np.ones((2, 3)), ["a", "b"])


@pytest.fixture
def ranked() -> Ranked:
    """Three prompts of 8 answers whose truth rises and falls with the score; the longest is the worst."""
    truth = np.tile([0.0, 1, 2, 3, 4, 4, 3, 2], (3, 1)) + np.array([[0], [1], [2]])
    scores = np.tile(np.arange(8.0), (3, 1))
    others = {LONGEST: {TRUTH: -np.sort(-truth), SCORE: scores[:, ::-1]}}
    return Ranked(["a", "b", "c"], {TRUTH: truth, SCORE: scores}, QUICK, others)


def test_the_law_of_best_of_n_and_what_is_drawn(ranked):
    law_fit = overoptimisation.of_best_of_n(ranked)
    assert law_fit.turns and law_fit.points.gain[0] == 0
    laws = {"Best of n": law_fit, "PPO": None}
    assert overoptimisation.table(laws).points[0] == 5, "n of 2, 3, 4, 6 and 8"
    greedy = {TRUTH: ranked.values[TRUTH].mean(axis=1) + 1, SCORE: np.zeros(3)}
    _, _, _, lines = overoptimisation.drawn(laws, replace(ranked, greedy=greedy))
    assert lines.gain[lines.line == GREEDY_RULE].tolist() == pytest.approx([1] * 6)


def test_a_peak_without_an_interval_is_not_drawn(ranked):
    """Of two prompts that differ nothing is shown: the law has a peak, and the table none."""
    unsure = fitted(BEST_OF_N, 0.8, 0.4)
    assert unsure.peak.estimate < unsure.farthest and not unsure.beta.low > 0
    row = overoptimisation.table({"Best of n": unsure}).iloc[-1]
    assert np.isnan(row.value), "a peak that is not known"
    known = overoptimisation.table({"Best of n": overoptimisation.of_best_of_n(ranked)}).iloc[-1]
    assert known.value > 0


def test_the_law_of_ppo_takes_the_truth_of_each_round(monkeypatch):
    """Round 0 is SFT, at KL 0; an estimate below 0 is left out; prompts of no small world give no law."""
    groups = list(generate.groups(12, seed=1))
    rounds = [groups[2 * k : 2 * k + 2] for k in range(6)]
    monkeypatch.setattr(ppo, "answers", lambda result, prompts, number: rounds[number])
    curves = pd.DataFrame({"round": range(6), "kl": [0, 0.1, 0.4, 0.9, 1.6, -0.1]})
    recipe = SimpleNamespace(resampled=QUICK)
    law_fit = overoptimisation.of_ppo(None, None, curves, recipe)
    means = [np.mean([true_goodness(group).mean() for group in pair]) for pair in rounds[:5]]
    assert (law_fit.points.gain + law_fit.start).tolist() == pytest.approx(means)
    few = curves.assign(kl=[0, 0.1, 0.4, 0.9, -0.1, -0.1])
    assert overoptimisation.of_ppo(None, None, few, recipe) is None
