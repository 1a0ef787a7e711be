"""Ridge on frozen states and the other baselines, against scikit-learn and by hand."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import Ridge
from tiny_training import made, tiny

from hs2lib.models import baselines

RNG = np.random.default_rng(0)
X = RNG.normal(size=(80, 12)) + 3
Y = np.column_stack([X @ RNG.normal(size=12) + RNG.normal(size=80), RNG.normal(size=80)])


@pytest.mark.parametrize("intercept", [True, False])
def test_ridge_is_scikit_learns(intercept):
    masked = Y.copy()
    masked[:30, 1] = -100
    W, b = baselines.ridge(X, masked, [0.5, 20.0], intercept=intercept)
    for k, (alpha, rows) in enumerate([(0.5, slice(None)), (20.0, slice(30, None))]):
        theirs = Ridge(alpha=alpha, fit_intercept=intercept).fit(X[rows], Y[rows, k])
        np.testing.assert_allclose(W[:, k], theirs.coef_, atol=1e-9)
        assert b[k] == pytest.approx(theirs.intercept_, abs=1e-9)
    with pytest.raises(ValueError, match="no label"):
        baselines.ridge(X, np.full((80, 1), -100.0), 1.0)


def test_no_cluster_is_on_both_sides_of_a_fold():
    clusters = RNG.integers(0, 23, 80)
    fold = baselines.folds(clusters, 10, seed=1)
    assert set(fold) == set(range(10))
    assert all(len(set(fold[clusters == c])) == 1 for c in set(clusters))
    with pytest.raises(ValueError, match="2 clusters cannot make 3 folds"):
        baselines.folds([1, 1, 2], 3)


def test_each_fold_has_its_share_of_every_part():
    """Of parts of 20 and 40 prompts, in no order, each of four folds has 5 and 10."""
    clusters = np.arange(60)
    parts = np.random.default_rng(1).permutation(np.repeat([0, 1], (20, 40)))
    fold = baselines.folds(clusters, 4, seed=2, parts=parts)
    for part, number in ((0, 5), (1, 10)):
        assert np.bincount(fold[parts == part]).tolist() == [number] * 4


def test_noise_is_shrunk_away():
    """The first column is a linear function of X, the second noise."""
    alphas = baselines.best_alpha(X, Y, np.arange(80) // 2)
    assert alphas[1] > 10 * alphas[0]


@pytest.mark.parametrize("bias", [True, False])
def test_a_head_started_by_ridge_predicts_what_ridge_does(bias):
    items, model = made(20), tiny()
    if bias:
        model.head.bias = torch.nn.Parameter(torch.zeros(2))
    states, (labels, _) = baselines.frozen_states(model, items), baselines.targets(items)
    W, b = baselines.ridge(states, labels, 2.0, intercept=bias)
    baselines.start_head(model, states, labels, 2.0)
    scores = model.score_tokens([item.sequences for item in items]).numpy()
    np.testing.assert_allclose(scores, states @ W + b, atol=1e-4)


def test_kept_states_are_of_the_weights_and_not_of_the_name(tmp_path):
    """Two folders called alike, or one that was trained again: the second base was read by the states of the first."""
    items, model = made(2), tiny()
    states = [baselines.frozen_states(model, items, cache=tmp_path) for _ in range(2)]
    assert np.array_equal(*states) and len(list(tmp_path.iterdir())) == 1
    with torch.no_grad():
        model.backbone.embed_tokens.weight += 0.1
    moved = baselines.frozen_states(model, items, cache=tmp_path)
    assert np.array_equal(moved, baselines.frozen_states(model, items)) and not np.allclose(
        moved, states[0]
    )


def test_lengths_and_means_by_hand():
    items = made(1)
    lengths = [len(s) - items[0].starts[0] for s in items[0].sequences]
    np.testing.assert_allclose(baselines.log_lengths(items)[:, 0], np.log1p(lengths))
    np.testing.assert_array_equal(baselines.column_means([[1, -100], [3, 4]]), [2, 4])
