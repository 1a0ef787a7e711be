"""Statistics with intervals: pandas, pingouin, scipy and numpy as oracles for the numbers, coverage
for the intervals.

Every interval of the suite comes from one bootstrap, so that is what is tested hardest: against a
plain loop that copies whole prompts, for what must not change it, and by how often it holds the
truth on 300 simulated corpora.
"""

import numpy as np
import pandas as pd
import pytest
import scipy.stats

from hs2lib.stats import agreement, bootstrap, describe

NAMES = ["helpfulness", "correctness", "complexity", "response length"]

TWO_ROWS = np.array([[1.0, 2.0], [3.0, 4.0]])


@pytest.fixture
def rows():
    """300 prompts of two correlated rows, four columns; the last in characters."""
    rng = np.random.default_rng(0)
    prompt = np.repeat(rng.normal(size=300), 2)
    a = prompt + rng.normal(size=600)
    X = np.column_stack([a, 0.8 * a + rng.normal(size=600), rng.normal(size=600), 1500 + 400 * a])
    X[:, 3] += rng.normal(scale=300, size=600)
    return X, np.repeat(np.arange(300), 2)


def holes(X, share=0.1):
    return np.where(np.random.default_rng(9).random(X.shape) < share, np.nan, X)


def slow_bootstrap(X, clusters, statistic, n_boot, seed):
    """Half a Student interval from the same resamples as the library's, made by copying the rows of drawn prompts."""
    labels = np.unique(clusters)
    rng = np.random.default_rng(seed)
    values = []
    for _ in range(n_boot):
        drawn = labels[rng.integers(0, len(labels), size=len(labels))]
        values.append(statistic(np.concatenate([X[clusters == label] for label in drawn])))
    n = len(labels)
    return scipy.stats.t.ppf(0.975, n - 1) * np.nanstd(values, axis=0) * np.sqrt(n / (n - 1))


def of_fisher(r, half):
    """The ends of an interval of R, +- half as it is, on the scale of Fisher's z; R of a column with itself is 1."""
    z = np.arctanh(np.where(r > 1 - 1e-9, 0, r))
    ends = [np.tanh(z + sign * half / (1 - np.where(r > 1 - 1e-9, 0, r) ** 2)) for sign in (-1, 1)]
    return [np.where(r > 1 - 1e-9, 1, end) for end in ends]


@pytest.mark.parametrize("missing", [False, True])
def test_moments_equal_pandas_and_pingouin(rows, missing):
    import pingouin  # here: it takes a second

    X, clusters = rows
    X = holes(X) if missing else X
    result, frame = describe.moments(X, clusters, n_boot=20), pd.DataFrame(X, columns=NAMES)
    assert result.mean.estimate == pytest.approx(frame.mean().to_numpy(), rel=1e-12)
    assert result.sd.estimate == pytest.approx(frame.std().to_numpy(), rel=1e-12)
    assert result.pearson.estimate == pytest.approx(frame.corr().to_numpy(), abs=1e-12)
    assert (
        result.rows == frame.notna().T.astype(int).dot(frame.notna().astype(int)).to_numpy()
    ).all()
    pairs = pingouin.pairwise_corr(frame, method="pearson", nan_policy="pairwise")
    for row in pairs.itertuples():
        ours = result.pearson.at(NAMES.index(row.X), NAMES.index(row.Y))
        assert float(ours.estimate) == pytest.approx(row.r, abs=1e-12)


@pytest.mark.parametrize("missing", [False, True])
def test_spearman_equals_pandas_and_scipy(rows, missing):
    """Rounded to few levels, because ratings are: ties are where rank correlations go wrong."""
    X, clusters = rows
    X = np.round(holes(X) if missing else X)
    ours = describe.spearman(X, clusters, n_boot=2).estimate
    assert ours == pytest.approx(pd.DataFrame(X).corr(method="spearman").to_numpy(), abs=1e-12)
    keep = ~np.isnan(X[:, :2]).any(axis=1)
    assert ours[0, 1] == pytest.approx(scipy.stats.spearmanr(X[keep, 0], X[keep, 1])[0], abs=1e-12)


@pytest.mark.parametrize("missing", [False, True])
def test_partial_correlation_equals_pingouin(rows, missing):
    import pingouin  # here: it takes a second

    X, clusters = rows
    X = holes(X) if missing else X
    theirs = pingouin.partial_corr(
        pd.DataFrame(X, columns=NAMES), x=NAMES[0], y=NAMES[3], covar=NAMES[1:3]
    )
    ours = describe.partial_correlation(X[:, 0], X[:, 3], X[:, 1:3], clusters, n_boot=20)
    assert float(ours.estimate) == pytest.approx(float(theirs["r"].iloc[0]), abs=1e-12)


def test_partial_correlation_vanishes_when_the_third_explains_both():
    """Length and helpfulness both follow correctness and nothing else: R is .5, and 0 with correctness held fixed."""
    rng = np.random.default_rng(1)
    correctness, clusters = rng.normal(size=20_000), np.arange(20_000)
    x, y = correctness + rng.normal(size=(2, 20_000))
    assert abs(np.corrcoef(x, y)[0, 1] - 0.5) < 0.02
    result = describe.partial_correlation(x, y, correctness, clusters, n_boot=200)
    assert abs(result.estimate) < 0.02 and result.low < 0 < result.high


def test_table_2_by_hand():
    """Helpfulness 1, 3 and 2, 4 (means 2.5, SD sqrt(5/3)); length 10, 30, 20, 40 goes with it exactly."""
    X = np.array([[1, 10], [3, 30], [2, 20], [4, 40]])
    result = describe.table_2(
        X, ["helpfulness", "characters in response"], np.array([0, 0, 1, 1]), n_boot=50
    )
    cells = result.set_index(["row", "column"]).ours
    assert cells["helpfulness", "mean HS2"] == 2.5
    assert cells["helpfulness", "SD HS2"] == pytest.approx((5 / 3) ** 0.5)
    assert cells["helpfulness", "R HS2"] == 1
    assert cells["characters in response", "R HS2"] == pytest.approx(1)
    assert list(result) == ["row", "column", "ours", "low", "high"]


def test_binned_means_by_hand():
    values, bins = np.array([1, 3, 4, np.nan, 2]), np.array([0, 0, 2, 2, 2])
    result = describe.binned_means(values, bins, 4, np.arange(5), n_boot=50)
    assert result.estimate[[0, 2]] == pytest.approx([2, 3])
    assert np.isnan(result.estimate[[1, 3]]).all() and np.isnan(result.low[[1, 3]]).all()


@pytest.mark.parametrize("missing", [False, True])
def test_bootstrap_equals_copying_whole_prompts(rows, missing):
    X, clusters = rows[0][:60], rows[1][:60]
    X = holes(X) if missing else X
    result = describe.moments(X, clusters, n_boot=50, seed=3)
    half = slow_bootstrap(X, clusters, lambda d: pd.DataFrame(d).corr().to_numpy(), 50, 3)
    low, high = of_fisher(result.pearson.estimate, half)
    assert result.pearson.low == pytest.approx(low, abs=1e-10)
    assert result.pearson.high == pytest.approx(high, abs=1e-10)
    half = slow_bootstrap(X, clusters, lambda d: np.nanstd(d, axis=0, ddof=1), 50, 3)
    factor = np.exp(half / result.sd.estimate)
    assert result.sd.low * factor == pytest.approx(result.sd.estimate)
    assert result.sd.high / factor == pytest.approx(result.sd.estimate)
    half = slow_bootstrap(X, clusters, lambda d: np.nanmean(d, axis=0), 50, 3)
    assert result.mean.high - result.mean.estimate == pytest.approx(half)


@pytest.mark.parametrize("missing", [False, True])
def test_spearman_bootstrap_ranks_anew_in_every_resample(rows, missing):
    X, clusters = np.round(rows[0][:60, :3] * 2), rows[1][:60]
    X = holes(X) if missing else X
    result = describe.spearman(X, clusters, n_boot=50, seed=3)
    half = slow_bootstrap(X, clusters, lambda d: pd.DataFrame(d).corr("spearman").to_numpy(), 50, 3)
    low, high = of_fisher(result.estimate, half)
    assert result.low == pytest.approx(low, abs=1e-10) and result.high == pytest.approx(
        high, abs=1e-10
    )


def test_kappa_bootstrap_equals_copying_whole_prompts():
    rng = np.random.default_rng(4)
    ratings, clusters = rng.integers(0, 5, (40, 3)).astype(float), np.repeat(np.arange(20), 2)
    ratings[rng.random((40, 3)) < 0.1] = np.nan
    result = agreement.weighted_kappa(ratings, clusters=clusters, n_boot=30, seed=5)
    one = lambda d: agreement.weighted_kappa(d, n_boot=0).estimate  # noqa: E731
    low, high = of_fisher(result.estimate, slow_bootstrap(ratings, clusters, one, 30, 5))
    assert (float(result.low), float(result.high)) == (pytest.approx(low), pytest.approx(high))


def test_order_of_rows_does_not_matter(rows):
    X, clusters = rows
    mixed = np.random.default_rng(1).permutation(len(X))
    one, other = (
        describe.moments(X[o], clusters[o], n_boot=50).pearson for o in (np.arange(len(X)), mixed)
    )
    for a, b in zip(one, other, strict=True):
        assert a == pytest.approx(b, abs=1e-10)


def test_same_seed_same_interval(rows):
    one, two, three = (describe.moments(*rows, n_boot=50, seed=seed).mean for seed in (1, 1, 2))
    assert (one.low == two.low).all() and (one.low != three.low).any()


def test_chunks_do_not_change_the_resamples(rows, monkeypatch):
    whole = describe.moments(*rows, n_boot=50).pearson
    monkeypatch.setattr(bootstrap, "CHUNK_CELLS", 7 * 300)
    assert describe.moments(*rows, n_boot=50).pearson.low == pytest.approx(whole.low, abs=1e-12)


def test_resamples_draw_as_many_prompts_as_there_are():
    counts = np.concatenate(list(bootstrap.resample_counts(50, 200, 0)))
    assert counts.shape == (200, 50) and (counts.sum(axis=1) == 50).all()
    assert counts.var() == pytest.approx(
        1 - 1 / 50, abs=0.05
    )  # the variance of a multinomial count


def test_interval_of_rows_rated_together_is_wider(rows):
    """Taking the two rows of a prompt for independent would claim more than is known."""
    X, clusters = rows
    width = lambda result: (result.mean.high - result.mean.low)[0]  # noqa: E731
    together, apart = describe.moments(X, clusters), describe.moments(X, np.arange(len(X)))
    assert width(together) > 1.15 * width(apart)


def test_difference_sees_both_sides_on_the_same_resamples(rows):
    """x against x + 1: the difference is exactly -1 in every resample, though each mean varies."""
    X, clusters = rows
    one = np.ones(len(X))
    mean = lambda sums: sums[:, 1:] / sums[:, :1]  # noqa: E731
    first, second = (np.column_stack([one, X[:, 0] + shift]) for shift in (0, 1))
    result = bootstrap.difference(first, second, clusters, mean, n_boot=50)
    assert [float(part[0]) for part in result] == pytest.approx([-1, -1, -1])


def test_large_numbers_with_small_spread_keep_their_digits():
    """Sums of squares near 1e16 would leave no digit of an SD of 1: columns are centred first."""
    x = 1e8 + np.tile([-1.0, 1.0], 500)
    result = describe.moments(np.column_stack([x, -x]), np.arange(1000), n_boot=20)
    assert result.sd.estimate == pytest.approx([np.sqrt(1000 / 999)] * 2, rel=1e-9)
    assert result.pearson.estimate[0, 1] == pytest.approx(-1, abs=1e-12)


def test_constant_column_has_no_correlation():
    X = np.column_stack([np.arange(8.0), np.full(8, 0.1)])
    result = describe.moments(X, np.arange(8), n_boot=20)
    assert result.sd.estimate[1] == 0 and result.sd.high[1] == 0
    assert np.isnan(result.pearson.estimate[0, 1]) and np.isnan(result.pearson.low[0, 1])
    assert np.isnan(describe.spearman(X, np.arange(8), n_boot=20).estimate[0, 1])
    assert np.isnan(
        describe.partial_correlation(
            X[:, 0], X[:, 1], X[:, 0] ** 2, np.arange(8), n_boot=20
        ).estimate
    )


def test_wholly_explained_column_has_no_partial_correlation(rows):
    X, clusters = rows
    assert np.isnan(
        describe.partial_correlation(X[:, 0], X[:, 1], 2 * X[:, 0], clusters, n_boot=20).estimate
    )


def test_one_prompt_gives_a_number_but_no_interval():
    result = describe.moments(np.array([[1.0], [3.0]]), np.array([7, 7]))
    assert (
        result.mean.estimate[0] == 2
        and np.isnan(result.mean.low[0])
        and np.isnan(result.mean.high[0])
    )


def test_statistic_undefined_in_many_resamples_gets_no_interval():
    """One rated row in four: a third of the resamples draw none."""
    X = np.array([[1.0], [np.nan], [np.nan], [np.nan]])
    result = describe.moments(X, np.arange(4), n_boot=200)
    assert result.mean.estimate[0] == 1 and np.isnan(result.mean.low[0])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: describe.moments(np.empty((0, 2)), np.empty(0, int)), "no rows"),
        (
            lambda: describe.moments(np.ones(3), np.arange(3)),
            r"expected an array \[rows, columns\]",
        ),
        (lambda: describe.moments(np.ones((3, 2)), np.arange(2)), r"clusters must be \[3\]"),
        (lambda: bootstrap.bootstrap(np.array([[np.nan]]), [0], np.copy), "a missing value adds 0"),
        (
            lambda: bootstrap.bootstrap(np.ones(3), np.arange(3), np.copy),
            r"contributions must be \[rows, k\]",
        ),
        (
            lambda: bootstrap.difference(np.ones((3, 2)), np.ones((3, 3)), np.arange(3), np.copy),
            r"\(3, 2\) and \(3, 3\)",
        ),
        (lambda: describe.partial_correlation([np.nan], [1.0], [2.0], [0]), "no rows"),
        (lambda: describe.moments(TWO_ROWS * [1, np.inf], [0, 1]), "row 0, column 1 is inf"),
        (lambda: describe.spearman(TWO_ROWS * [1, -np.inf], [0, 1]), "row 0, column 1 is -inf"),
        (
            lambda: describe.partial_correlation([1.0, np.inf], [1.0, 2.0], [0.0, 1.0], [0, 1]),
            "row 1, column 0 is inf",
        ),
        (lambda: describe.binned_means([1.0, np.inf], [0, 1], 2, [0, 1]), "row 1, column 0 is inf"),
        (
            lambda: describe.binned_means([1.0, 2.0], [-1, 0], 2, [0, 1]),
            "bins must be 2 whole numbers from 0 to 1",
        ),
        (
            lambda: describe.binned_means([1.0, 2.0], [0, 2], 2, [0, 1]),
            "bins must be 2 whole numbers from 0 to 1",
        ),
        (
            lambda: describe.binned_means([1.0, 2.0], [0], 2, [0, 1]),
            "bins must be 2 whole numbers from 0 to 1",
        ),
        (
            lambda: describe.table_2(TWO_ROWS, ["helpfulness"], [0, 1]),
            r"1 names \['helpfulness'\] for 2 columns",
        ),
    ],
)
def test_what_cannot_be_computed_says_why(call, message):
    """An infinite value, bin -1 or a column without a name once gave numbers, and wrong ones."""
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.slow
def test_intervals_cover_the_truth_on_300_corpora():
    """Mean, SD, Pearson's R and kappa, each known exactly, on 300 corpora of 600 prompts x 2
    correlated responses.

    x, y: normal, within a prompt correlated by .4, R = .6, mean 0, SD 1. Kappa: both responses
    share the true level half of the time; two annotators err independently, so the joint table of
    two ratings is known in closed form.
    """
    rng = np.random.default_rng(20240612)
    prompts, n_boot = 600, 400
    clusters = np.repeat(np.arange(prompts), 2)
    level_share = np.array([0.08, 0.09, 0.12, 0.28, 0.43])
    gap = np.abs(np.subtract.outer(np.arange(5), np.arange(5)))
    reading = np.exp(-1.2 * gap)
    reading /= reading.sum(axis=1, keepdims=True)
    joint = reading.T @ (level_share[:, None] * reading)
    margin = joint.sum(axis=0)
    kappa = 1 - (gap**2 * joint).sum() / (gap**2 * np.outer(margin, margin)).sum()
    truth, held = np.array([0, 1, 0.6, kappa]), np.zeros(4)
    for _ in range(300):
        u, v = np.sqrt(0.4) * np.repeat(rng.normal(size=(2, prompts)), 2, axis=1) + np.sqrt(
            0.6
        ) * rng.normal(size=(2, 2 * prompts))
        X = np.column_stack([u, 0.6 * u + 0.8 * v])
        result = describe.moments(X, clusters, n_boot=n_boot, seed=int(rng.integers(2**31)))
        level = rng.choice(5, prompts, p=level_share)
        level = np.column_stack(
            [
                level,
                np.where(rng.random(prompts) < 0.5, level, rng.choice(5, prompts, p=level_share)),
            ]
        )
        chance = rng.random((2 * prompts, 2, 1))
        ratings = (
            (chance > np.cumsum(reading, axis=1)[level.ravel()][:, None, :-1])
            .sum(axis=2)
            .astype(float)
        )
        agreed = agreement.weighted_kappa(
            ratings, clusters=clusters, n_boot=n_boot, seed=int(rng.integers(2**31))
        )
        cells = (result.mean.at(0), result.sd.at(0), result.pearson.at(0, 1), agreed)
        held += [cell.low <= true <= cell.high for cell, true in zip(cells, truth, strict=True)]
    coverage = held / 300
    print("coverage of mean, SD, R, kappa:", coverage)
    assert ((coverage >= 0.92) & (coverage <= 0.98)).all(), coverage


SHARES = (0.08, 0.09, 0.12, 0.28, 0.43)  # of the ratings 0 to 4: skewed, with many ties
READ = np.array([0.03, 0.12, 0.7, 0.12, 0.03]).cumsum()  # a rater is up to two levels off


def rated_twice(rng, prompts):
    """Two ratings of two responses to each prompt, float [2 raters, rows], and the prompts [rows]."""
    level = np.repeat(rng.choice(5, prompts, p=SHARES), 2)
    level = np.where(rng.random(2 * prompts) < 0.5, level, rng.choice(5, 2 * prompts, p=SHARES))
    off = np.searchsorted(READ, rng.random((2, 2 * prompts))) - 2
    return np.clip(level + off, 0, 4).astype(float), np.repeat(np.arange(prompts), 2)


def figures(ratings, clusters, **options):
    """Mean, R and kappa of two raters, three intervals."""
    of = describe.moments(ratings.T, clusters, **options)
    return (
        of.mean.at(0),
        of.pearson.at(0, 1),
        agreement.weighted_kappa(ratings.T, clusters=clusters, **options),
    )


@pytest.mark.slow
@pytest.mark.parametrize(("n_clusters", "samples"), [(8, 300), (32, 200)])
def test_intervals_of_few_prompts_cover_the_truth(n_clusters, samples):
    """Of mean, R and kappa of tied ratings at least 92 of 100; plain percentiles fall below 90 at 8 prompts."""
    rng = np.random.default_rng(5)
    truth = [float(one.estimate) for one in figures(*rated_twice(rng, 200_000), n_boot=0)]
    held = [
        [
            one.low <= true <= one.high
            for one, true in zip(figures(*sample, n_boot=100), truth, strict=True)
        ]
        for sample in (rated_twice(rng, n_clusters) for _ in range(samples))
    ]
    assert (np.mean(held, axis=0) >= 0.92).all() and (np.mean(held, axis=0) <= 0.98).all(), np.mean(
        held, axis=0
    )


def test_students_interval_by_hand():
    """Resamples of two prompts at 0 and 1: means 0, .5, .5, 1 have SD .3536, the error is .5, t is 12.706."""
    _, low, high = bootstrap.student(np.array([0.5]), [np.array([[0], [0.5], [0.5], [1]])], 2, 4)
    assert (low[0], high[0]) == (
        pytest.approx(0.5 - 6.353, abs=1e-3),
        pytest.approx(0.5 + 6.353, abs=1e-3),
    )


def test_inside_by_hand():
    """A share .5 +- .25 is 0 +- 1 on the logit's scale, .2689 to .7311; -infinity to infinity leaves it."""
    share = bootstrap.Interval(np.array([0.5, 0.5]), np.array([0.25, 0.25]), np.array([0.75, 0.75]))
    _, low, high = bootstrap.inside(share, np.array([0, -np.inf]), np.array([1, np.inf]))
    assert low == pytest.approx([0.2689, 0.25], abs=1e-4) and high == pytest.approx(
        [0.7311, 0.75], abs=1e-4
    )


def test_all_right_is_not_certainly_right():
    """Of 8 pairs all right, .63 is still possible: .63 ^ 8 is .025. Without their number the width stays 0."""
    sums = np.ones((8, 2))
    certain = bootstrap.from_sums(sums, lambda s: s[:, :1] / s[:, 1:], 50).at(0)
    assert bootstrap.inside(certain, 0, 1) == (1, 1, 1)
    assert bootstrap.inside(certain, 0, 1, 8) == (1, pytest.approx(0.6306, abs=1e-4), 1)
    with np.errstate(
        all="raise"
    ):  # a scale without ends beside one with them warned in every table
        assert bootstrap.inside(certain, -np.inf, np.inf, 8) == (1, 1, 1)


def test_a_partial_correlation_of_no_rows_says_so():
    """It once ended in numpy's error about a reshape."""
    empty = np.empty(0)
    with pytest.raises(ValueError, match="no rows"):
        describe.partial_correlation(empty, empty, empty, np.empty(0, int))
