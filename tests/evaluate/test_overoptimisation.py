"""Gao's laws: points on a law give it back, numbers by hand, intervals that hold the truth, and plain words where there is no turn."""

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
from hs2lib.report import figures

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
    assert certain.turns and certain.verdict == "the truth turns at d = 1.00"
    assert certain.sentence("Best of n") == (
        "Best of n: **over-optimisation**. By Gao's law the truth turns at d = 1.00 (1.00 to 1.00), "
        "+0.40 points from the start; beta is 0.40 (0.40 to 0.40). " + certain.range_in_words
    )
    assert not law_fit.turns and law_fit.verdict == "a turn is not shown", (
        "two prompts show nothing"
    )
    assert "which may be 0" in law_fit.sentence("Best of n") and np.isnan(law_fit.peak.low)


@pytest.mark.parametrize("law", [BEST_OF_N, RL])
def test_where_beta_is_not_above_0_no_over_optimisation_is_seen(law):
    law_fit = fitted(law, 0.8, -0.1)
    assert law_fit.verdict == "no over-optimisation seen" and np.isnan(law_fit.peak.estimate)
    sentence = law_fit.sentence("PPO")
    assert sentence.startswith("PPO: no over-optimisation seen up to d = 1.78.")
    assert "beta is -0.10" in sentence and "which is not above 0." in sentence
    assert sentence.endswith("; the fit decides nothing outside.")


def test_points_in_a_narrow_band_are_no_evidence_beyond_it():
    """One point at d = .5 and twelve at 1.5 to 1.61: eight in ten points say nothing of a small d."""
    distance = np.array([0, 0.5, *(1.5 + 0.01 * np.arange(12))])
    rises = distance * (0.8 + 0.1 * distance)
    close = fit(BEST_OF_N, distance, np.stack([rises, rises]), ["a", "b"], **QUICK)
    low, high = np.quantile(distance[1:], [0.1, 0.9])
    assert close.is_narrow and close.middle == pytest.approx((low, high))
    band = f"at d = {low:.2f} to {high:.2f}"
    assert close.verdict == "no over-optimisation seen"
    sentence = close.sentence("PPO")
    assert sentence.startswith(f"PPO: no over-optimisation seen {band}. By Gao's law")
    assert f"Eight in ten points lie {band}, a narrow band" in sentence
    wide = fitted(BEST_OF_N, 0.8, -0.1)
    assert not wide.is_narrow and not close.decides_nothing
    noise = np.linspace(-1, 1, len(distance))[::-1]
    unsure = fit(BEST_OF_N, distance, np.stack([rises + noise, rises - noise]), ["a", "b"], **QUICK)
    assert unsure.decides_nothing and unsure.verdict == "the law decides nothing here"
    assert unsure.sentence("PPO").startswith("PPO: the law decides nothing here. By Gao's law beta")
    assert f"The points lie at d = {D[1]:.2f} to {D[-1]:.2f}" in wide.range_in_words


def test_many_points_are_drawn_as_means_of_neighbours():
    """One point at the start and 24 after it: the start, and 8 bins of 3, whose means are by hand."""
    distance = np.array([0, *np.arange(24, 0, -1.0)])
    gained = np.array([0, *np.arange(24, 0, -1.0)]) / 10
    law_fit = fit(BEST_OF_N, distance, np.stack([gained, gained]), ["a", "b"], **QUICK)
    assert law_fit.bins.distance.tolist() == pytest.approx([0, *np.arange(2, 25, 3.0)])
    assert law_fit.bins.gain.tolist() == pytest.approx([0, *np.arange(0.2, 2.5, 0.3)])
    few = fitted(BEST_OF_N, 0.8, 0.4)
    pd.testing.assert_frame_equal(few.bins, few.points)


def gains_of(numbers):
    """Gains of PPO over SFT by measure, with intervals a tenth to both sides."""
    rows = [(name, "PPO", gain, gain - 0.1, gain + 0.1) for name, gain in numbers.items()]
    return pd.DataFrame(rows, columns=["measure", "policy", "minus SFT", "95 % low", "95 % high"])


def test_the_attribute_that_parts_most_has_both_numbers():
    """Helpfulness parts by .08, correctness by .28; a shorter answer's verbosity by less than nothing."""
    numbers = {"true helpfulness": 0.74, "reward model's helpfulness": 0.82}
    numbers |= {"true correctness": 0.51, "reward model's correctness": 0.79}
    numbers |= {"true verbosity": -0.1, "reward model's verbosity": -0.2}
    (sentence,) = overoptimisation.of_attributes(gains_of(numbers), "PPO")
    assert sentence == (
        "PPO: of the attributes, correctness rises most above its truth: "
        "+0.79 (0.69 to 0.89) by score and +0.51 (0.41 to 0.61) by truth."
    )
    below = {"true verbosity": 0.1, "reward model's verbosity": 0.0}
    (none,) = overoptimisation.of_attributes(gains_of(below), "PPO")
    assert none == "PPO: no attribute rises by the score above its truth."
    assert overoptimisation.of_attributes(gains_of({"reward model's verbosity": 1}), "PPO") == []


def test_a_truth_that_only_falls_is_no_absence_of_over_optimisation():
    """Beta is below 0 there too: the fall slows down."""
    falls = fit(BEST_OF_N, D, np.tile(gains(BEST_OF_N, -0.8, -0.1), (3, 1)), list("abc"), **QUICK)
    assert falls.verdict == "the truth falls from the start"
    assert fitted(BEST_OF_N, -0.8, 0.1).verdict == "no gain is shown"
    assert fitted(BEST_OF_N, -0.8, 0.1).peak.estimate == 0


def test_too_few_points_give_no_law():
    """Two coefficients go through any two points; without a truth there is no point at all."""
    four = np.array([0, 0.5, 1, 1.5])
    assert fit(RL, four, np.ones((2, 4)), ["a", "b"]) is None
    assert fit(RL, [0, 1, 1, 1, 1], np.ones((2, 5)), ["a", "b"]) is None, "all at one distance"
    assert fit(RL, D, np.full((2, len(D)), np.nan), ["a", "b"]) is None
    (sentence,) = overoptimisation.sentences({"PPO": None})
    assert sentence.startswith("PPO: no law is fitted. That takes 4 points or more")
    assert overoptimisation.table({"PPO": None}).law.tolist() == ["none fitted"]
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
    table = overoptimisation.table(laws)
    assert table.quantity.tolist() == ["alpha", "beta", "d at the peak", ""]
    assert table.points[0] == 5, "n of 2, 3, 4, 6 and 8"
    titles, axes, points, lines = overoptimisation.drawn(laws, ranked)
    assert axes == {"Best of n": BEST_OF_N.axis, "PPO": "d"}
    assert lines.line.unique().tolist() == ["fitted law", "peak", LONGEST]
    assert set(lines.line) - {figures.PEAK} <= set(figures.LINES) and set(points.law) == {
        "Best of n"
    }
    figure = figures.laws(titles, axes, points, lines)
    shown_titles = [ax.get_title().splitlines()[0] for ax in figure.axes]
    assert shown_titles == [f"Best of n: {law_fit.verdict}", "PPO: no law fitted"]
    empty = figures.laws(*overoptimisation.drawn({"PPO": None}, ranked))
    assert len(empty.axes) == 1
    shown = {text.get_text() for text in figure.axes[0].texts}
    assert {"fitted law", LONGEST} <= shown
    greedy = {TRUTH: ranked.values[TRUTH].mean(axis=1) + 1, SCORE: np.zeros(3)}
    _, _, _, lines = overoptimisation.drawn(laws, replace(ranked, greedy=greedy))
    assert lines.gain[lines.line == GREEDY_RULE].tolist() == pytest.approx([1] * 6)


def test_a_peak_without_an_interval_is_not_drawn(ranked):
    """Of two prompts that differ nothing is shown: the law has a peak, and no star."""
    unsure = fitted(BEST_OF_N, 0.8, 0.4)
    assert unsure.peak.estimate < unsure.farthest and not unsure.beta.low > 0
    row = overoptimisation.table({"Best of n": unsure}).iloc[-1]
    assert row.quantity == "d at the peak" and np.isnan(row.value), "a peak that is not known"
    known = overoptimisation.table({"Best of n": overoptimisation.of_best_of_n(ranked)}).iloc[-1]
    assert known.value > 0
    _, _, _, lines = overoptimisation.drawn({"Best of n": unsure}, ranked)
    assert figures.PEAK not in set(lines.line)
    many = replace(unsure, bins=unsure.points.iloc[:3])
    _, _, points, lines = overoptimisation.drawn({"Best of n": many}, ranked)
    assert len(points) == 3 and (lines.line == figures.SINGLE).sum() == len(unsure.points)


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
