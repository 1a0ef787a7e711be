"""Agreement coefficients: scikit-learn as the oracle for two raters, published and hand-worked
cases.

Table 1 stands on `weighted_kappa`. Its formula is short, but the pooling over slots without
identity is our own choice, so the tests pin down how the choices relate to each other, not only
single values.
"""

import os

import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score

from hs2lib.data import load, tables
from hs2lib.stats import agreement

NAN = np.nan
QUICK = {"n_boot": 20}
# The worked example of Krippendorff, Content Analysis (2004), chapter 11: four observers, twelve
# units, gaps.
KRIPPENDORFF = np.array(
    [
        [1, 2, 3, 3, 2, 1, 4, 1, 2, NAN, NAN, NAN],
        [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, NAN, 3],
        [NAN, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, NAN],
        [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, NAN],
    ]
).T
ONE_TO_FIVE = (1, 2, 3, 4, 5)


def value(interval):
    return float(interval.estimate)


@pytest.fixture
def ratings():
    """Two raters of one latent quality with different severity, so that their margins differ."""
    rng = np.random.default_rng(0)
    quality = rng.integers(0, 5, 400)
    first = np.clip(quality + rng.integers(-1, 2, 400), 0, 4)
    second = np.clip(quality + rng.integers(-2, 2, 400), 0, 4)
    return np.column_stack([first, second]).astype(float)


@pytest.mark.parametrize("penalty", ["quadratic", "linear"])
def test_two_named_raters_equal_scikit_learn(ratings, penalty):
    ours = value(agreement.weighted_kappa(ratings, symmetrise=False, penalty=penalty, **QUICK))
    theirs = cohen_kappa_score(*ratings.T, weights=penalty, labels=range(5))
    assert abs(ours - theirs) < 1e-12


def test_symmetrised_kappa_is_scikit_learns_on_both_orders(ratings):
    """Counting each pair in both orders is handing scikit-learn every pair twice, once swapped."""
    both = np.concatenate([ratings, ratings[:, ::-1]])
    theirs = cohen_kappa_score(*both.T, weights="quadratic", labels=range(5))
    assert abs(value(agreement.weighted_kappa(ratings, **QUICK)) - theirs) < 1e-12


def test_symmetrising_lowers_kappa_by_the_distance_of_the_means(ratings):
    """(1 - k_sym) / (1 - k) = (v1 + v2 + d^2) / (v1 + v2 + d^2 / 2); v variances, d distance of means."""
    plain = value(agreement.weighted_kappa(ratings, symmetrise=False, **QUICK))
    symmetric = value(agreement.weighted_kappa(ratings, **QUICK))
    v, d = ratings.var(axis=0).sum(), np.subtract(*ratings.mean(axis=0))
    assert symmetric < plain
    assert (1 - symmetric) / (1 - plain) == pytest.approx((v + d**2) / (v + d**2 / 2), abs=1e-12)


def test_kappa_by_hand():
    """Levels 0, 1, 2. Pairs (0,0), (2,2), (0,2), (1,1): squared differences 0, 0, 4, 0, mean 1.

    Margins: first 0,2,0,1, second 0,2,2,1; all 16 pairings have squared differences 0 4 4 1, 4 0 0
    1, 0 4 4 1, 1 1 1 0, in all 26, mean 26/16. Kappa = 1 - 16/26. Both orders: the pool
    0,0,0,1,1,2,2,2 has mean square difference 2 x variance = 2 x 0.75 = 1.5, and kappa = 1 - 1/1.5.
    """
    pairs = np.array([[0, 0], [2, 2], [0, 2], [1, 1]])
    assert value(
        agreement.weighted_kappa(pairs, range(3), symmetrise=False, **QUICK)
    ) == pytest.approx(1 - 16 / 26)
    assert value(agreement.weighted_kappa(pairs, range(3), **QUICK)) == pytest.approx(1 / 3)


def test_pooling_over_slots_counts_every_pair():
    """A row of three slots is three rows of two; a lone rating adds nothing."""
    three = np.array([[0, 1, 2], [4, 4, 3], [2, NAN, 3], [1, NAN, NAN]])
    pairs = np.array([[0, 1], [0, 2], [1, 2], [4, 4], [4, 3], [4, 3], [2, 3]])
    for symmetrise in (True, False):
        ours = agreement.weighted_kappa(three, symmetrise=symmetrise, **QUICK)
        assert value(ours) == pytest.approx(
            value(agreement.weighted_kappa(pairs, symmetrise=symmetrise, **QUICK))
        )


def test_poolings_differ_only_where_rows_differ_in_raters(ratings):
    rng = np.random.default_rng(1)
    full = np.column_stack([ratings, ratings[:, 0]])
    by_pairs, by_rows = (
        value(agreement.weighted_kappa(full, pool=p, **QUICK)) for p in ("pairs", "rows")
    )
    assert by_pairs == pytest.approx(by_rows, abs=1e-12)
    full[rng.random(len(full)) < 0.5, 2] = NAN
    by_pairs, by_rows = (
        value(agreement.weighted_kappa(full, pool=p, **QUICK)) for p in ("pairs", "rows")
    )
    assert abs(by_pairs - by_rows) > 1e-3


def test_pool_slots_is_the_mean_of_scikit_learns_kappas(ratings):
    three = np.column_stack([ratings, ratings[::-1, 0]])
    theirs = [
        cohen_kappa_score(three[:, i], three[:, j], weights="quadratic")
        for i, j in ((0, 1), (0, 2), (1, 2))
    ]
    ours = agreement.weighted_kappa(three, pool="slots", symmetrise=False, **QUICK)
    assert value(ours) == pytest.approx(np.mean(theirs), abs=1e-12)


@pytest.mark.parametrize("rows", [50, 500])
def test_alpha_is_kappa_but_for_its_small_sample_correction(rows):
    """With equally many raters a row, 1 - alpha = (1 - kappa) (n - 1) / n over n ratings: both average over pairs."""
    three = np.random.default_rng(rows).integers(0, 5, (rows, 3)).astype(float)
    alpha = value(agreement.krippendorff_alpha(three, metric="interval", **QUICK))
    kappa = value(agreement.weighted_kappa(three, **QUICK))
    assert 1 - alpha == pytest.approx((1 - kappa) * (3 * rows - 1) / (3 * rows), abs=1e-12)


@pytest.mark.skipif(
    "HS2_DATA_DIR" not in os.environ, reason="HS2_DATA_DIR is not set: no SummEval ratings to read"
)
def test_kappas_of_summevals_experts():
    """Real ratings: three named experts, so that each pair is a case for scikit-learn, and the slots are their mean."""
    ratings, groups = tables.ratings_array(load.load("summeval", "folder").groups)
    assert ratings.shape == (1600, 3, 4)
    for a in range(4):
        experts = ratings[:, :, a]
        pairs = [(i, j) for i in range(3) for j in range(i + 1, 3)]
        theirs = [
            cohen_kappa_score(experts[:, i], experts[:, j], weights="quadratic") for i, j in pairs
        ]
        slots = {"pool": "slots", "symmetrise": False}
        ours = agreement.weighted_kappa(experts, ONE_TO_FIVE, clusters=groups, **slots, **QUICK)
        assert value(ours) == pytest.approx(np.mean(theirs), abs=1e-12)
        assert ours.low < ours.estimate < ours.high


def test_slot_order_within_a_row_does_not_matter(ratings):
    """The released lists have no order that means anything: shuffling each row must change nothing."""
    shuffled = np.random.default_rng(2).permuted(np.column_stack([ratings, ratings[:, 1]]), axis=1)
    unshuffled = np.column_stack([ratings, ratings[:, 1]])
    for coefficient in (agreement.weighted_kappa, agreement.krippendorff_alpha, agreement.gwet_ac2):
        assert value(coefficient(shuffled, **QUICK)) == pytest.approx(
            value(coefficient(unshuffled, **QUICK)), abs=1e-12
        )


@pytest.mark.parametrize(
    "coefficient", [agreement.weighted_kappa, agreement.krippendorff_alpha, agreement.gwet_ac2]
)
def test_perfect_agreement_is_one(coefficient, ratings):
    result = coefficient(np.repeat(ratings[:, :1], 3, axis=1), **QUICK)
    assert [float(part) for part in result] == pytest.approx([1, 1, 1])


def test_difference_of_two_filters_on_the_same_resamples(ratings):
    """A filter that drops rows: the difference is that of the two kappas, and 0 without doubt for no filter."""
    kept = np.where(np.abs(np.diff(ratings)) <= 2, ratings, NAN)
    gain = agreement.kappa_difference(kept, ratings, **QUICK)
    apart = value(agreement.weighted_kappa(kept, **QUICK)) - value(
        agreement.weighted_kappa(ratings, **QUICK)
    )
    assert value(gain) == pytest.approx(apart, abs=1e-12) and gain.low > 0
    assert [float(part) for part in agreement.kappa_difference(ratings, ratings, **QUICK)] == [
        0,
        0,
        0,
    ]


def test_a_rise_of_kappa_has_an_interval_and_steps_add_up(ratings):
    """A rise without an interval cannot be told from chance. Two steps make the whole one."""
    rng = np.random.default_rng(1)
    nothing = rng.permuted(ratings, axis=0)  # agrees on nothing
    near = np.where(np.ptp(ratings, axis=1, keepdims=True) < 2, ratings, NAN)
    sides = [(ratings, nothing), (near, ratings), (near, nothing)]
    agreeing, chosen, whole = [agreement.kappa_difference(*pair, n_boot=200) for pair in sides]
    assert value(agreeing) + value(chosen) == pytest.approx(value(whole))
    assert 0 < agreeing.low < agreeing.estimate < agreeing.high
    same = agreement.kappa_difference(nothing, rng.permuted(nothing, axis=0))
    assert same.low < 0 < same.high
    assert agreement.kappa_difference(nothing, ratings, n_boot=200).high < 0
    alike = np.full_like(ratings, 3.0)  # no disagreement to expect, so no kappa
    assert np.isnan(value(agreement.kappa_difference(alike, ratings, n_boot=200)))


@pytest.mark.parametrize(("metric", "published"), [("ordinal", 0.815), ("interval", 0.849)])
def test_alpha_of_the_books_example(metric, published):
    ours = agreement.krippendorff_alpha(KRIPPENDORFF, ONE_TO_FIVE, metric=metric, **QUICK)
    assert value(ours) == pytest.approx(published, abs=5e-4)


def test_ac2_by_hand():
    """Levels 0, 1, 2, weights 1, 3/4, 0. Rows (0,0), (0,1), (2,-): p_a = (1 + 3/4) / 2 = 7/8, two
    rows.

    Shares of the levels by row (1,0,0), (1/2,1/2,0), (0,0,1): pi = (1/2, 1/6, 1/3), so sum pi (1 -
    pi) = 1 - 7/18 = 11/18. Sum of weights 3 + 4 x 3/4 = 6, over q (q - 1) = 6, so p_e = 11/18 and
    AC2 = (7/8 - 11/18) / (7/18) = 19/28.
    """
    ours = agreement.gwet_ac2(np.array([[0, 0], [0, 1], [2, NAN]]), range(3), **QUICK)
    assert value(ours) == pytest.approx(19 / 28)


def test_ac2_stays_up_where_kappa_collapses():
    """98 rows of agreement on 4 and two of slight disagreement: the case of coherence in Table 1."""
    skewed = np.full((100, 2), 4.0)
    skewed[:2, 0] = 3
    assert value(agreement.weighted_kappa(skewed, **QUICK)) < 0
    assert value(agreement.gwet_ac2(skewed, **QUICK)) > 0.99


def test_one_level_everywhere_is_undefined_not_perfect():
    flat = np.full((10, 3), 2.0)
    for coefficient in (agreement.weighted_kappa, agreement.krippendorff_alpha):
        assert np.isnan([float(part) for part in coefficient(flat, **QUICK)]).all()


@pytest.mark.parametrize(
    ("bad", "options", "message"),
    [
        (np.array([[1.0], [2.0]]), {}, "no row has ratings by two annotators"),
        (np.array([[1.0, NAN], [NAN, 2.0]]), {}, "no row has ratings by two annotators"),
        (np.empty((0, 3)), {}, r"no row has ratings by two annotators \(0 rows\)"),
        (np.array([[1.0, 2.0], [3.0, 7.0]]), {}, "row 1, slot 1: 7 is not one of"),
        (np.array([[1.0, 2.5]]), {}, "row 0, slot 1: 2.5 is not one of"),
        (np.zeros((2, 3, 5)), {}, r"ratings must be \[rows, N\] for one attribute"),
        (
            np.array([[1.0, 2.0]]),
            {"pool": "raters"},
            r"unknown pool 'raters'.*: pairs, rows, slots",
        ),
        (np.array([[1.0, 2.0]]), {"clusters": np.zeros(3)}, r"clusters must be \[1\]"),
        # Penalties count levels: of 0, 1, 10 the step from 1 to 10 would weigh as much as the one
        # from 0 to 1.
        (
            np.array([[1.0, 10.0]]),
            {"levels": (0, 1, 10)},
            r"rising and evenly spaced, got \[0.0, 1.0, 10.0\]",
        ),
        (np.array([[1.0, 2.0]]), {"levels": (2, 1, 0)}, "rising and evenly spaced"),
        (np.array([[1.0, 1.0]]), {"levels": (1,)}, "two or more, rising"),
    ],
)
def test_what_cannot_be_computed_says_why(bad, options, message):
    with pytest.raises(ValueError, match=message):
        agreement.weighted_kappa(bad, **options)


def test_reliability_of_a_mean():
    """Kappa 1/2: two raters 2/3, three 3/4; more raters never lower it."""
    assert agreement.mean_reliability(0.5, np.array([1, 2, 3])) == pytest.approx(
        [1 / 2, 2 / 3, 3 / 4]
    )


def test_reliability_formula_predicts_agreement_of_two_means():
    """How two means of three raters correlate follows from how two single raters do."""
    rng = np.random.default_rng(3)
    quality = rng.normal(size=(20_000, 1))
    single = quality + rng.normal(size=(20_000, 6))  # any two correlate by 1/2
    observed = np.corrcoef(single[:, :3].mean(axis=1), single[:, 3:].mean(axis=1))[0, 1]
    assert observed == pytest.approx(agreement.mean_reliability(0.5, 3), abs=0.02)


def test_attributes_that_two_people_rated():
    """Own ratings may leave an attribute empty, or give it to one person: agreement is of the others alone."""
    ratings = np.array(
        [[[1.0, NAN, 2.0], [2.0, NAN, NAN]], [[1.0, NAN, 2.0], [NAN, NAN, NAN]]]
    )  # [2 rows, 2, 3]
    assert agreement.rated_twice(ratings).tolist() == [True, False, False]
    with pytest.raises(ValueError, match="none of 2 responses has two ratings of one attribute"):
        agreement.rated_twice(ratings[:, :1])
