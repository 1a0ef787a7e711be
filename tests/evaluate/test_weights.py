"""The search over head weights: every weighting counted exactly, ties wrong; what a search on the test set is worth."""

from fractions import Fraction

import numpy as np
import pytest

from hs2lib import paper
from hs2lib.data import pairs as pair_sets
from hs2lib.data.pairs import Benchmark
from hs2lib.evaluate import rewardbench, weights
from hs2lib.group import ATTRIBUTES, Group, Response, Turn
from hs2lib.models import baselines
from hs2lib.models.reward_model import RewardModel
from hs2lib.runs.setup import Setup
from hs2lib.train import recipes


def by_hand(margins, weighting):
    """Right pairs in exact fractions: no rounding anywhere."""
    w = [Fraction(round(x * 10_000), 10_000) for x in weighting]
    return sum(
        sum(a * Fraction(float(m)) for a, m in zip(w, row, strict=True)) > 0 for row in margins
    )


def test_the_grid_is_the_published_one():
    whole = weights.grid()
    assert len(whole) == 21**5 == 4_084_101
    first, second, last = whole.weights(np.array([0, 1, len(whole) - 1]))
    assert (
        first.tolist() == [0] * 5
        and second.tolist() == [0, 0, 0, 0, -0.05]
        and last.tolist() == [1, 1, 1, 1, -1]
    )
    # The paper's own 70B weights are on it, to the bit.
    steps = [round(abs(w) * 20) for w in paper.HEAD_WEIGHTS["Llama 3 70B w. HelpSteer2"].values()]
    index = np.ravel_multi_index(steps, [21] * 5)
    assert tuple(whole.weights(np.array([index]))[0]) == tuple(
        paper.HEAD_WEIGHTS["Llama 3 70B w. HelpSteer2"].values()
    )
    with pytest.raises(ValueError, match="divide 1"):
        weights.grid(0.3)


@pytest.mark.parametrize("kind", ["ties", "float32", "huge and tiny"])
def test_every_weighting_is_counted_exactly(kind):
    """Against exact fractions; coarse scores make many weighted sums exactly 0, which floating point gets wrong."""
    rng = np.random.default_rng(0)
    margins = rng.standard_normal((12, 5)).astype(np.float32).astype(np.float64)
    if kind == "ties":
        margins = np.round(margins * 10) / 10  # .1 + .2 - .3 is not 0 in floating point
        margins[::3] = (0.1, 0.2, -0.3, 0.1, 0.1)
        margins = margins.astype(np.float32).astype(np.float64)
    if kind == "huge and tiny":
        margins *= np.float64(2.0) ** rng.integers(-8, 8, (12, 1))
    over = weights.grid(0.25)
    best = weights.search(margins, over=over)
    assert best.values.shape == (5,) * 5
    some = rng.choice(len(over), 300, replace=False)
    expected = [by_hand(margins, w) / 12 for w in over.weights(some)]
    assert best.values.ravel()[some].tolist() == expected
    assert best.value == best.values.max() == by_hand(margins, best.weights) / 12


def test_ties_that_floating_point_calls_wins_are_wrong():
    """(.15, .6) on (-4, 1) is exactly 0; as float products the sum is 0 or not by luck, here in whole steps it is 0."""
    margins = np.array([[-4.0, 1.0], [4.0, -1.0]])
    best = weights.search(margins, over=weights.grid(0.05, ("a", "b"), ()))
    assert best.values[3, 12] == 0 and best.values[3, 11] == 0.5 and best.values[0, 0] == 0
    assert weights.value_of((0.15, 0.6), margins) == 0


def test_of_equal_weightings_the_middle_one_is_taken():
    """One pair, right for any a > 0: the mean of those is (.75, 0), not the corner the search met first."""
    best = weights.search(np.array([[1.0, 0.0]]), over=weights.grid(0.5, ("a", "b"), ("b",)))
    assert (best.value, (best.values == 1).sum()) == (1.0, 6)
    assert best.weights in ((0.5, -0.5), (1.0, -0.5))


def test_parts_and_objective():
    """Two parts of unequal size, the smaller counted as much as the larger: what math-prm's weight does."""
    rng = np.random.default_rng(1)
    margins, parts = rng.standard_normal((30, 5)), np.array([1, 0, 0] * 10)

    def mean_of_parts(right, pairs):
        return (right / pairs[:, None]).mean(axis=0)

    over = weights.grid(0.5)
    best = weights.search(margins, over=over, parts=parts, objective=mean_of_parts)
    w = over.weights(np.arange(len(over)))
    right = margins @ w.T > 0
    expected = (right[parts == 0].mean(axis=0) + right[parts == 1].mean(axis=0)) / 2
    np.testing.assert_allclose(best.values.ravel(), expected, atol=1e-12)


def test_chunks_change_nothing(monkeypatch):
    margins = np.random.default_rng(2).standard_normal((40, 5))
    whole = weights.search(margins, over=weights.grid(0.25)).values
    monkeypatch.setattr(weights, "BYTES", 1)
    assert np.array_equal(weights.search(margins, over=weights.grid(0.25)).values, whole)


def test_the_cross_fitted_value_is_that_of_searching_fold_by_fold():
    rng = np.random.default_rng(3)
    margins, over = rng.standard_normal((60, 3)), weights.grid(0.25, ("a", "b", "c"), ("c",))
    clusters = np.arange(60) // 2
    fit = weights.cross_fit(margins, over=over, clusters=clusters, folds=3, seed=5)
    fold = baselines.folds(clusters, 3, 5)
    assert (fold[::2] == fold[1::2]).all() and np.bincount(fold).tolist() == [20, 20, 20]
    right = 0
    for k in range(3):
        alone = weights.search(margins[fold != k], over=over)
        # The fixed point differs with the pairs, the counts do not.
        assert tuple(fit.weights[k]) == alone.weights
        right += by_hand(margins[fold == k], alone.weights)
    assert fit.fitted == right / 60 and fit.overstated == fit.best.value - fit.fitted


def test_searching_on_noise_overstates_and_cross_fitting_shows_it():
    """Margins that hold nothing: the best of many weightings looks good on its own pairs, and is a coin elsewhere."""
    noise = [np.random.default_rng(seed).standard_normal((80, 5)) for seed in range(16)]
    fits = [
        weights.cross_fit(margins, over=weights.grid(0.25), seed=i)
        for i, margins in enumerate(noise)
    ]
    assert np.mean([fit.best.value for fit in fits]) > 0.57
    assert abs(np.mean([fit.fitted for fit in fits]) - 0.5) < 0.04
    assert np.mean([fit.overstated for fit in fits]) > 0.06


def test_the_papers_way_searches_the_overall_of_a_whole_benchmark():
    generated = pair_sets.load_pairs("postcards", n_per_section=4)
    lengths = np.array(
        [[len(r.text), r.text.count("\n")] for p in generated.pairs for r in p.responses],
        dtype=float,
    )
    margins = lengths.reshape(-1, 2, 2)[:, 0] - lengths.reshape(-1, 2, 2)[:, 1]
    parts, objective = weights.of_benchmark(generated)
    best = weights.search(
        margins, over=weights.grid(0.25, ("a", "b"), ("b",)), parts=parts, objective=objective
    )
    scores = lengths.reshape(-1, 2, 2) @ np.array(best.weights)
    assert 100 * best.value == pytest.approx(
        rewardbench.evaluate(generated, scores, n_boot=2).table.accuracy.iloc[-1]
    )
    partial = Benchmark(
        (Group("hep-go/0", *_pair()), Group("hep-js/0", *_pair())), "rewardbench", ""
    )
    assert weights.of_benchmark(partial)[1] is weights.share_right


def _pair():
    return (Turn("user", "?"),), (Response("a", "a"), Response("b", "b")), (), -1.0


def test_weightings_by_name_and_as_text():
    seventy, nine = "Llama 3 70B w. HelpSteer2", ("quality", "toxicity", *ATTRIBUTES)
    assert paper.head_weights(seventy, ATTRIBUTES) == tuple(paper.HEAD_WEIGHTS[seventy].values())
    assert paper.head_weights("goodness", nine) == (0, 0, 0.65, 0.8, 0.45, 0, 0)
    assert paper.head_weights("toxicity: -0.5,quality:1", nine[:2]) == (1, -0.5)
    with pytest.raises(
        ValueError,
        match="'goodness' needs an output 'correctness'; the model has: quality, helpful",
    ):
        paper.head_weights("goodness", ("quality", "helpfulness"))
    for text in ("helpfulness", "helpfulness:much", "", "godness"):
        with pytest.raises(ValueError, match=r"expected name:number.*; or name one of .*goodness"):
            paper.head_weights(text, ATTRIBUTES)


def test_wrong_input_is_refused():
    for margins, message in (
        (np.zeros((0, 5)), "at least one pair"),
        (np.zeros((3, 4)), r"margins \[pairs, 5\]"),
        (np.full((3, 5), np.nan), "nan"),
    ):
        with pytest.raises(ValueError, match=message):
            weights.search(margins)
    with pytest.raises(ValueError, match="parts are whole numbers"):
        weights.search(np.ones((3, 5)), parts=np.zeros(2, dtype=int))
    with pytest.raises(ValueError, match="four decimals"):
        weights.value_of((1 / 3,) * 5, np.ones((3, 5)))
    part = dict(parts=np.array([0, 0, 0, 1]), over=weights.grid(1.0), folds=2)
    with pytest.raises(ValueError, match="fewer folds"):
        weights.cross_fit(
            np.ones((4, 5)), objective=lambda right, pairs: right[1] / pairs[1], **part
        )
    with pytest.raises(ValueError, match="fewer folds"):
        weights.cross_fit(np.ones((4, 5)), clusters=np.zeros(4), **part)
    assert weights.cross_fit(np.ones((4, 5)), **part).fitted == 1
    assert len(ATTRIBUTES) == 5


# The weights and the search of a run


def setup_of(**settings):
    """A setup by hand: a coarse grid, few held-out pairs."""
    recipe = recipes.RewardBench(n_boot=100, weight_step=0.5, n_held_out=10, folds=2, **settings)
    return Setup("06_rewardbench_evaluation", "smoke", {"tier": "smoke"}, recipe)


def test_the_weights_of_a_run_are_the_papers_unless_it_names_others():
    """A single output counts as it is; a row of Table 3 is called the paper's in tables."""
    five = RewardModel.new("tiny")
    usual = weights.chosen(five, setup_of())
    assert usual.name == "Llama 3 70B w. HelpSteer2" and usual.title == "the paper's weights"
    assert usual.values.tolist() == [0.65, 0.8, 0.45, 0.55, -0.4]
    named = weights.chosen(five, setup_of(weighting="helpfulness:1"))
    assert named.title == "helpfulness:1" and named.values.tolist() == [1, 0, 0, 0, 0]
    one = weights.chosen(RewardModel.new("tiny", attributes=("reward",)), setup_of())
    assert one.title == "its one output" and one.values.tolist() == [1]


def test_weights_are_searched_on_held_out_pairs_and_on_the_benchmark(tmp_path, monkeypatch):
    """What each weighting reaches on both is counted as `rewardbench.evaluate` counts."""
    monkeypatch.setenv("HS2_RUNS", str(tmp_path))
    setup = setup_of()
    model = RewardModel.new("tiny", attributes=("helpfulness", "verbosity")).eval()
    benchmark = pair_sets.load_pairs("postcards", n_per_section=4)
    scored = rewardbench.score_pairs(benchmark, model, setup)
    search = weights.search_heads(scored, model, setup)
    assert len(search.over) == 9 and search.folds == 2 and search.measure == "overall"
    assert search.source.generated and not {group.id for group in search.source.groups} & {
        p.id for p in benchmark.pairs
    }
    alone = np.array([1.0, 0.0])
    on_benchmark, on_held_out = search.values_of(alone)
    result = rewardbench.evaluate(benchmark, scored.values @ alone, n_boot=2)
    assert 100 * on_benchmark == pytest.approx(result.table.accuracy.iloc[-1])
    assert on_held_out == pytest.approx((search.held_out_margins[:, 0] > 0).mean())
    every = [search.values_of(w) for w in search.over.weights(np.arange(len(search.over)))]
    best = search.values_of(search.fit.best.weights)[0], search.best_held_out.value
    assert best == pytest.approx(np.max(every, axis=0))


def test_pairs_are_right_under_one_weighting_as_the_search_counts_them():
    """By hand: .65 x 2 - 1.3 is a tie, which is wrong, though floating point has it above 0."""
    margins = np.array([[2.0, -1.3], [2.0, -1.0], [-1.0, 0.0], [1.0, 0.0]])
    assert weights.value_of([0.65, 1.0], margins) == 0.5


def test_there_is_no_search_where_nothing_could_be_learnt_of_it():
    """One output, one prompt, and real pairs beside generated ones."""
    two = RewardModel.new("tiny", attributes=("helpfulness", "verbosity"))
    one = RewardModel.new("tiny", attributes=("reward",))
    pair = Group("chat/0", *_pair())
    other = Group("chat/1", (Turn("user", "!"),), pair.responses)
    generated = Benchmark((pair, other), "generated", "")

    def scored(benchmark, model):
        return rewardbench.Scored(
            np.zeros((len(benchmark.pairs), 2, len(model.attributes))), (), benchmark, {}
        )

    assert weights.search_heads(scored(generated, one), one, setup_of()) is None
    same_prompt = Benchmark((pair, Group("chat/2", *_pair())), "generated", "")
    assert weights.search_heads(scored(same_prompt, two), two, setup_of()) is None
    own = Benchmark((pair, other), "own", "")
    assert weights.search_heads(scored(own, two), two, setup_of(source="postcards")) is None
