"""Best of n: the chances against every draw there is, gains by hand, and nothing about the truth of real prompts."""

from itertools import combinations

import numpy as np
import pytest

from hs2lib.evaluate.best_of_n import APART, Ranked, bound, chances, sentences
from hs2lib.evaluate.response_rows import SCORE, TRUTH

RESAMPLED = {"n_boot": 200, "seed": 0}


@pytest.mark.parametrize(("n", "total"), [(1, 5), (2, 3), (3, 5), (5, 5)])
def test_chances_are_those_of_all_draws(n, total):
    """Of all ways to draw n answers, how often each is the last in order."""
    best = [max(drawn) for drawn in combinations(range(total), n)]
    expected = np.bincount(best, minlength=total) / len(best)
    np.testing.assert_allclose(chances(n, total), expected)
    assert chances(n, total).sum() == pytest.approx(1)


def test_how_far_best_of_n_can_be():
    assert bound(1) == 0 and bound(2) == pytest.approx(np.log(2) - 0.5)


def ranked(truth) -> Ranked:
    """Two prompts of four answers with scores 0 to 3 each."""
    scores = np.tile(np.arange(4.0), (2, 1))
    return Ranked(["a", "b"], {TRUTH: np.array(truth, dtype=float), SCORE: scores}, RESAMPLED)


def test_gains_by_hand():
    """The best of 4 scores 3 where the mean is 1.5; of 2, 3 with chance 1/2, 2 with 1/3, 1 with 1/6: 2 1/3."""
    gains = ranked([[3, 2, 1, 0], [3, 2, 1, 0]]).gains().set_index(["measure", "n"])
    assert gains.gain[SCORE].tolist() == pytest.approx([0, 5 / 6, 1.5])
    assert gains.gain[TRUTH].tolist() == pytest.approx([0, -5 / 6, -1.5])
    assert gains.gain[APART].tolist() == pytest.approx([0, 5 / 3, 3])
    assert gains.index.get_level_values("measure")[0] == TRUTH


def test_agreement_is_that_among_answers_to_one_prompt():
    """Between prompts truth and score may differ by any constant."""
    assert ranked([[0, 1, 2, 3], [10, 11, 12, 13]]).agreement() == pytest.approx(1)
    assert ranked([[3, 2, 1, 0], [10, 9, 8, 7]]).agreement() == pytest.approx(-1)


def test_of_real_prompts_there_is_the_score_alone():
    real = ranked(np.full((2, 4), np.nan))
    assert set(real.gains().measure) == {SCORE} and sentences(real.gains()) == []
    assert np.isnan(real.levels()[TRUTH]) and real.levels()[SCORE] == 1.5


def test_the_sentence_says_where_truth_and_score_part():
    (parted,) = sentences(ranked([[3, 2, 1, 0], [2, 2, 1, 0]]).gains())
    assert (
        parted.startswith("**Truth and reward model's score part**: of 4 answers")
        and "+1.50 by its score" in parted
    )
    (same,) = sentences(ranked([[0, 1, 2, 3], [0, 1, 2, 3]]).gains())
    assert same.startswith("Truth and reward model's score are not shown to part")
