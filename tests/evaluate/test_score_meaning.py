"""What a difference of scores means: cases by hand, and scales that simulated pairs give back.

A reader trusts an order from the threshold on. A scale that is too small, or a threshold from a
handful of pairs, sends them wrong.
"""

import math

import numpy as np
import pytest

from hs2lib.evaluate import score_meaning


def pairs(*differences):
    """Scores [pairs, 2] that differ so."""
    return np.column_stack([differences, np.zeros(len(differences))]).astype(float)


def simulated(n, scale, seed, spread=3.0):
    """Scores of n pairs of which a share of sigmoid(d / scale) is in the right order."""
    rng = np.random.default_rng(seed)
    size = np.abs(rng.normal(size=n)) * spread
    is_right = rng.random(n) < 1 / (1 + np.exp(-size / scale))
    return pairs(*np.where(is_right, size, -size))


def test_the_scale_by_hand():
    """Of four pairs that differ by d three are right: sigmoid(d / s) = 3 / 4. Equal scores say nothing."""
    scale = score_meaning.fitted_scale(np.array([1, 1, 1, -1]))
    assert scale == pytest.approx(1 / math.log(3))
    assert score_meaning.fitted_scale(np.array([5, 5, 5, -5, 0, 0])) == pytest.approx(5 * scale)
    assert score_meaning.probability(1.0, scale) == pytest.approx(0.75)


def test_the_scale_at_its_ends():
    assert score_meaning.fitted_scale(np.array([1.0, 2, 0])) == 0
    assert score_meaning.fitted_scale(np.array([1.0, -1])) == math.inf
    assert score_meaning.fitted_scale(np.array([-1.0, -1, 1])) == math.inf, "reversed"
    assert score_meaning.fitted_scale(np.array([-1.0, -2])) == math.inf
    assert math.isnan(score_meaning.fitted_scale(np.zeros(3)))
    assert score_meaning.probability(np.array([-1, 0, 2.0]), 0).tolist() == [0, 0.5, 1]
    assert score_meaning.probability(np.array([-1, 0, 2.0]), math.inf).tolist() == [0.5] * 3


def test_the_scale_of_simulated_pairs_lies_in_its_interval():
    """Two pairs of a prompt that are copies of each other say no more than one."""
    scores = simulated(600, 2.0, 1)
    meaning = score_meaning.measure(scores)
    assert meaning.scale.low < 2 < meaning.scale.high < 3
    assert meaning.is_fitted and meaning.is_shown
    twice = np.repeat(scores, 2, axis=0)
    copied = score_meaning.measure(twice, np.repeat(np.arange(600), 2))
    assert (copied.pairs, copied.prompts) == (1200, 600)
    assert copied.scale == pytest.approx(meaning.scale)


def test_the_interval_holds_the_scale_about_as_often_as_it_says():
    """Of 200 samples of 60 pairs; 95 % of 200 are 190, with an SD of 3."""
    held = 0
    for seed in range(200):
        scores = simulated(60, 2.0, 100 + seed)
        differences = scores[:, 0]
        interval = score_meaning.scale_interval(differences, np.arange(60), n_boot=100, seed=0)
        held += interval.low <= 2 <= interval.high
    assert 178 <= held <= 199


def test_bins_thresholds_and_errors_by_hand():
    """40 pairs that differ by 1, of which 30 are right, and 40 by 2, of which 36 are: s = 1 / ln 3 for both.

    sigmoid(ln 3) = 3 / 4 and sigmoid(2 ln 3) = 9 / 10.
    """
    scores = pairs(*[1] * 30, *[-1] * 10, *[2] * 36, *[-2] * 4)
    meaning = score_meaning.measure(scores, n_boot=200)
    assert meaning.scale.estimate == pytest.approx(1 / math.log(3))
    assert meaning.right.estimate == pytest.approx(100 * 66 / 80)
    assert meaning.bins.pairs.tolist() == [40, 40]
    assert meaning.bins["from"].tolist() == meaning.bins["to"].tolist() == [1, 2]
    np.testing.assert_allclose(meaning.bins["right (%)"], [75, 90])
    np.testing.assert_allclose(meaning.bins["fitted (%)"], [75, 90])
    assert (meaning.bins["95 % low"] < [75, 90]).all()
    thresholds = meaning.thresholds
    np.testing.assert_allclose(thresholds.difference[:2], np.log([7 / 3, 4]) / math.log(3))
    assert thresholds.pairs[:2].tolist() == [80, 40]
    np.testing.assert_allclose(thresholds["share (%)"][:2], [100, 50])
    np.testing.assert_allclose(thresholds["right (%)"][:2], [82.5, 90])
    plain = meaning.errors.set_index("curve")["error (points)"][score_meaning.PLAIN]
    expected = (abs(0.75 - 1 / (1 + math.exp(-1))) + abs(0.9 - 1 / (1 + math.exp(-2)))) / 2
    assert plain == pytest.approx(100 * expected)
    exact = np.where(np.abs(scores[:, 0]) == 1, 0.75, 0.9)
    error = score_meaning.calibration_error(scores[:, 0], exact, n_boot=50)
    assert error.estimate == pytest.approx(0, abs=1e-9)


def test_a_scale_that_is_not_1_says_that_bradley_terry_does_not_fit():
    """At a difference of 1 sigmoid(d) is .73. Of 1,000 pairs 620 right want a larger scale, 950 a smaller one."""
    for n_right, is_larger, is_smaller in (
        (620, True, False),
        (950, False, True),
        (731, False, False),
    ):
        scores = pairs(*[1] * n_right, *[-1] * (1000 - n_right))
        scale = score_meaning.measure(scores, n_boot=100).scale
        assert (scale.low > 1, scale.high < 1) == (is_larger, is_smaller)


def test_a_threshold_that_no_pair_reaches_is_no_number():
    """Of 40 pairs that differ by 1, 30 are right: 70 % from .77 on, and 80 % nowhere."""
    meaning = score_meaning.measure(pairs(*[1] * 30, *[-1] * 10))
    assert meaning.thresholds.pairs.tolist() == [40, 0, 0]
    assert meaning.thresholds.difference.isna().tolist() == [False, True, True]
    assert meaning.thresholds.difference[0] == pytest.approx(math.log(7 / 3) / math.log(3))


def test_pairs_that_are_all_right_have_no_threshold():
    meaning = score_meaning.measure(pairs(*range(1, 41)))
    assert meaning.scale.estimate == 0 and meaning.right.estimate == 100
    assert meaning.right.low == pytest.approx(100 * 0.025 ** (1 / 40))
    assert not meaning.is_shown


def test_scores_that_carry_nothing_say_so():
    """Half of the differences are wrong, whatever their size; so are those of a model that is upside down."""
    sizes = np.arange(1, 41)
    for signs in (np.tile([1, -1, -1, 1], 10), np.tile([-1, -1, -1, 1], 10)):
        meaning = score_meaning.measure(pairs(*sizes * signs))
        assert meaning.scale.estimate == math.inf and not meaning.is_shown
        assert meaning.thresholds.pairs.eq(0).all()
    weak = score_meaning.measure(simulated(40, 30.0, 4))
    assert weak.scale.high == math.inf and not weak.is_shown


def test_equal_scores_are_wrong_and_all_equal_ones_give_no_curve():
    meaning = score_meaning.measure(pairs(*[0] * 40))
    assert (meaning.equal, meaning.right.estimate, meaning.is_fitted) == (40, 0, False)
    half = score_meaning.measure(pairs(*[0] * 40, *[1] * 30, *[-1] * 10))
    assert half.right.estimate == pytest.approx(100 * 30 / 80)
    assert half.scale.estimate == pytest.approx(1 / math.log(3)), "they say nothing about the scale"
    assert half.thresholds.pairs[0] == 40, "a difference of 0 lies above no threshold"


def test_few_pairs_have_a_share_and_no_threshold():
    meaning = score_meaning.measure(simulated(29, 1.0, 2))
    assert meaning.pairs == 29 and meaning.thresholds.empty and meaning.bins.empty
    assert 0 < meaning.right.low < meaning.right.estimate


def test_pairs_of_one_prompt_say_nothing_about_other_prompts():
    meaning = score_meaning.measure(simulated(100, 1.0, 3), ["a"] * 100)
    assert math.isnan(meaning.scale.low) and not meaning.is_shown
    assert meaning.errors.curve.tolist() == [score_meaning.PLAIN]


def test_what_cannot_be_measured_is_one_clear_error():
    with pytest.raises(ValueError, match=r"scores must be \[pairs, 2\].*got shape \(3,\)"):
        score_meaning.measure(np.zeros(3))
    with pytest.raises(ValueError, match="at least one pair"):
        score_meaning.measure(np.zeros((0, 2)))
    with pytest.raises(ValueError, match=r"1 of 2 pairs .* the first in row 1"):
        score_meaning.measure(np.array([[1, 2], [np.nan, 1]]))
    with pytest.raises(ValueError, match="1 prompts for 2 pairs"):
        score_meaning.measure(np.zeros((2, 2)), ["a"])
