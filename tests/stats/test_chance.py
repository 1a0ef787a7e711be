"""What the rules of collection make of ratings that agree on nothing, by hand and against a loop."""

import numpy as np
import pytest

from hs2lib.stats import agreement, chance
from hs2lib.stats.chance import Rule


def rows(*ratings):
    """Ratings [rows, N, 1] of helpfulness alone."""
    return np.array(ratings, dtype=float)[:, :, None]


def listed(ratings):
    return [sorted(row[~np.isnan(row)].tolist()) for row in ratings[:, :, 0]]


def test_two_more_are_asked_only_where_three_disagree_and_the_closest_three_are_kept():
    ratings = rows([0, 4, 2, 4, 1], [1, 2, 3, 0, 0])
    collected = chance.collect(ratings, np.arange(2))
    assert listed(collected.asked) == [[0, 1, 2, 4, 4], [1, 2, 3]]
    assert listed(collected.kept()) == [[0, 1, 2], [1, 2, 3]] and collected.released.all()
    stages = chance.by_stage(collected)
    assert listed(stages[chance.FIRST]) == [[0, 2, 4], [1, 2, 3]]
    assert list(stages) == [chance.FIRST, chance.ASKED, chance.KEPT, chance.RELEASED]


def test_what_is_lost_leaves_a_disagreement_that_drops_the_whole_prompt():
    ratings = rows([0, 4, 2, 4, 1], [1, 2, 3, 0, 0])
    collected = chance.collect(ratings, np.zeros(2, int), lost=np.array([True, False]))
    assert listed(collected.asked)[0] == [0, 2, 4] and not collected.released.any()
    assert np.isnan(chance.by_stage(collected)[chance.RELEASED]).all()
    assert chance.collect(
        ratings, np.arange(2), lost=np.array([True, False])
    ).released.tolist() == [False, True]


def test_the_rules_alone_make_kappa_of_ratings_that_agree_on_nothing():
    """Dealt at random over the rows, as notebook 03 once did, they made .14 of it."""
    pool = rows(*np.random.default_rng(0).integers(0, 5, size=(3000, 3)))
    null = chance.independent(pool, seed=1)
    prompt = np.repeat(np.arange(1500), 2)
    kappa = {
        name: float(agreement.weighted_kappa(x[:, :, 0], n_boot=0).estimate)
        for name, x in chance.by_stage(chance.collect(null, prompt)).items()
    }
    assert abs(kappa[chance.FIRST]) < 0.05 and abs(kappa[chance.ASKED]) < 0.05
    assert kappa[chance.KEPT] > 0.4
    assert kappa[chance.RELEASED] == kappa[chance.KEPT], (
        "of five ratings the closest three are never more than 2 apart"
    )


def test_an_annotation_is_drawn_whole_from_the_first_raters_alone():
    ratings = np.array([[[0, 10], [1, 11], [2, 12], [3, 13]], [[4, 14]] + [[np.nan] * 2] * 3])
    null = chance.independent(ratings, n=5, seed=0)
    assert null.shape == (2, 5, 2) and (null[..., 1] - null[..., 0] == 10).all()
    assert set(null[..., 0].ravel()) <= {0, 1, 2, 4}
    with pytest.raises(ValueError, match="nothing to draw from"):
        chance.independent(np.full((2, 3, 1), np.nan))


def test_the_share_of_lost_ratings_is_of_rows_in_disagreement():
    nan = np.nan
    ratings = rows([0, 4, 2, nan, nan], [0, 4, 2, 1, 1], [4, 0, 0, 3, nan], [1, 1, 1, nan, nan])
    assert chance.lost_share(ratings) == pytest.approx(1 / 3)
    assert chance.lost_share(rows([1, 1, 1])) == 0
    assert chance.lost_share(rows([0, 4, 1])) == 1


def test_kept_by_each_attribute_counts_other_annotators_for_each():
    ratings = np.array([[[0, 4], [4, 4], [4, 0], [4, 4], [0, 0]]], dtype=float)
    kept = chance.judged(ratings, np.zeros(1, int), Rule(keep_by="each")).kept()[0]
    assert [sorted(column[~np.isnan(column)]) for column in kept.T] == [[4, 4, 4], [4, 4, 4]]
