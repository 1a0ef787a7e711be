"""From annotators' ratings to released labels, with numbers one can do by hand."""

from itertools import combinations, product

import numpy as np
import pytest

from hs2lib.group import ATTRIBUTES
from hs2lib.stats import aggregate

NAN = np.nan
# The released prompt "c#", response beginning "C# is a high-level"; the label it was released with
# is 3,4,4,2,1.
C_SHARP = np.array([[3, 3, 4], [3, 4, 4], [4, 3, 4], [2, 2, 2], [2, 1, 1]], dtype=float).T[None]


def rows(*helpfulness):
    """Ratings [rows, N, 1] from lists of helpfulness, padded with nan."""
    n = max(map(len, helpfulness))
    return np.array([[*r, *[NAN] * (n - len(r))] for r in helpfulness], dtype=float)[:, :, None]


def test_the_row_c_sharp_aggregates_to_its_released_label():
    keep = aggregate.keep_three(C_SHARP)
    assert keep.all()
    assert aggregate.aggregate(C_SHARP, keep).tolist() == [[3, 4, 4, 2, 1]]
    assert aggregate.spread(C_SHARP, "verbosity").tolist() == [1]
    assert aggregate.released(C_SHARP, keep, [0]).tolist() == [True]


def test_the_three_closest_are_kept():
    ratings = rows([0, 4, 4, 3, 1], [0, 0, 4, 4, 4], [2, 3], [1, 2, 3], [0, 4, 3, 3], [NAN, NAN])
    expected = [
        [0, 1, 1, 1, 0],
        [0, 0, 1, 1, 1],
        [1, 1, 0, 0, 0],
        [1, 1, 1, 0, 0],
        [0, 1, 1, 1, 0],
        [0, 0, 0, 0, 0],
    ]
    assert aggregate.keep_three(ratings).astype(int).tolist() == expected


def test_ties_go_to_the_other_attributes_and_then_to_whoever_was_asked_first():
    tied = rows([1, 1, 3, 5, 5])
    assert aggregate.keep_three(tied)[0].tolist() == [True, True, True, False, False]
    decided = np.concatenate([tied, np.array([0, 4, 2, 2, 2.0])[None, :, None]], axis=2)
    assert aggregate.keep_three(decided)[0].tolist() == [False, False, True, True, True]


def test_disagreement_is_the_penalty_of_the_quadratic_kappa():
    # Pairs of (4, 0, 4): 16 + 0 + 16 = 32; of (4, 0, 2) and (0, 4, 2): 16 + 4 + 4 = 24; of (4, 4,
    # 2): 0 + 4 + 4 = 8.
    assert aggregate.keep_three(rows([4, 0, 4, 2]))[0].tolist() == [True, False, True, True]
    # All of (0, 8, 4) and (0, 8, 0) have the same spread; by squares (0, 0, 4) is closest.
    assert aggregate.keep_three(rows([0, 8, 0, 4, 99, 99]))[0].tolist() == [
        True,
        False,
        True,
        True,
        False,
        False,
    ]


def test_by_all_and_by_each_attribute():
    ratings = np.array([[[0, 4], [0, 0], [0, 0], [1, 0]]], dtype=float)
    assert aggregate.keep_three(ratings)[0].tolist() == [True, True, True, False]
    assert aggregate.keep_three(ratings, by="all")[0].tolist() == [
        False,
        True,
        True,
        True,
    ]  # 2 in all, others 32 and more
    each = aggregate.keep_three(ratings, by="each")
    assert each[0].T.tolist() == [[True, True, True, False], [False, True, True, True]]
    assert aggregate.aggregate(ratings, each).tolist() == [[0, 0]]


def test_who_did_not_rate_the_judged_attribute_is_not_kept_but_a_missing_other_one_is_no_obstacle():
    ratings = np.array([[[NAN, 1], [2, 1], [2, NAN], [3, 1], [4, 4]]], dtype=float)
    keep = aggregate.keep_three(ratings)
    assert keep[0].tolist() == [False, True, True, True, False]
    assert aggregate.aggregate(ratings, keep).tolist() == [[2, 1]]


def test_keep_three_against_a_plain_loop():
    rng = np.random.default_rng(0)
    ratings = rng.integers(0, 5, (300, 5, 5)).astype(float)
    ratings[rng.random((300, 5)) < 0.2] = NAN
    for by, columns in (("helpfulness", [0]), ("coherence", [2]), ("all", range(5))):
        keep = aggregate.keep_three(ratings, by=by)
        for row, kept in zip(ratings, keep, strict=True):
            able = [i for i in range(5) if not np.isnan(row[i]).any()]

            def cost(subset, columns, row=row):
                return sum(
                    (row[i, a] - row[j, a]) ** 2
                    for i, j in combinations(subset, 2)
                    for a in columns
                )

            best = min(
                combinations(able, min(3, len(able))),
                key=lambda s: (cost(s, columns), cost(s, range(5)), s),
            )
            assert np.flatnonzero(kept).tolist() == list(best)


def test_two_more_are_recruited_only_where_the_first_three_differ_by_more_than_two():
    ratings = rows([0, 1, 2, 4, 4], [0, 1, 3, 4, 4])
    assert (~np.isnan(aggregate.recruit(ratings))).sum(axis=1).ravel().tolist() == [3, 5]
    assert (~np.isnan(aggregate.recruit(ratings, upto=4, max_spread=1))).sum(
        axis=1
    ).ravel().tolist() == [4, 4]
    assert (
        np.isnan(aggregate.recruit(ratings)[0, 3:]).all() and not np.isnan(ratings).any()
    )  # the argument is left alone


def test_halves_go_to_the_even_number():
    assert aggregate.aggregate(rows([0, 1], [1, 2], [2, 3])).ravel().tolist() == [0, 2, 2]


def test_both_responses_of_a_prompt_must_be_agreed_on():
    ratings = rows([0, 1, 2], [0, 1, 3], [4, 4, 4], [2, 2, 3], [NAN], [1, 1, 1])
    prompt = np.array([7, 3, 7, 9, 5, 3])  # in any order
    assert aggregate.released(ratings, None, prompt).tolist() == [
        True,
        False,
        True,
        True,
        False,
        False,
    ]
    assert aggregate.released(ratings, None, prompt, max_spread=3).tolist() == [
        True,
        True,
        True,
        True,
        False,
        True,
    ]
    assert aggregate.released(ratings[:0], None, prompt[:0]).tolist() == []


def test_the_closest_three_of_five_always_pass_the_final_filter():
    """Why the filter can only remove responses with fewer than five annotators: all 5 ** 5 cases."""
    every = np.array(list(product(range(5), repeat=5)), dtype=float)[:, :, None]
    assert aggregate.spread(every, keep=aggregate.keep_three(every)).max() == 2
    assert aggregate.spread(every).max() == 4


def test_bad_arguments_are_named():
    for call, message in (
        (
            lambda: aggregate.spread(np.zeros((2, 3))),
            r"\[rows, N annotators, A attributes\], got shape \(2, 3\)",
        ),
        (
            lambda: aggregate.spread(C_SHARP, "helpfullness"),
            "unknown attribute 'helpfullness' .did you mean 'helpfulness'",
        ),
        # Numpy takes -1 as the last attribute, spreads one row's keep over all rows, and counts too
        # few groups.
        (lambda: aggregate.spread(C_SHARP, -1), "attribute -1 is outside the 5 columns"),
        (
            lambda: aggregate.keep_three(rows([1, 2]), by="verbosity"),
            "attribute 4 is outside the 1 columns",
        ),
        (
            lambda: aggregate.aggregate(rows([1, 2], [3, 4]), np.array([[True, False]])),
            r"keep must be \(2, 2\) or",
        ),
        (
            lambda: aggregate.released(rows([1, 2], [3, 4]), None, [0]),
            "one entry for each of 2 rows",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            call()


def test_the_attributes_have_one_order():
    """Attributes are named or numbered: a column has to be the same either way."""
    ratings = np.arange(10.0).reshape(1, 2, 5) ** 2
    by_name = [aggregate.spread(ratings, name).item() for name in ATTRIBUTES]
    assert (
        by_name == [aggregate.spread(ratings, a).item() for a in range(5)]
        and len(set(by_name)) == 5
    )


def test_one_annotator_may_be_kept():
    """Alone nobody disagrees: the one who was asked first is kept."""
    ratings = np.array([[[1.0], [3.0], [3.0]], [[np.nan], [2.0], [4.0]]])  # [2, 3, 1]
    kept = aggregate.keep_three(ratings, n_keep=1)
    assert kept.tolist() == [[True, False, False], [False, True, False]]
    with pytest.raises(ValueError, match="n_keep is at least 1, got 0"):
        aggregate.keep_three(ratings, n_keep=0)
