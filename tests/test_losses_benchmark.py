"""Tests of benchmarks/losses.py: what is kept adds up, differences go seed by seed, heads are those of a peer."""

import importlib
import json
import sys

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from hs2lib import names, paths
from hs2lib.evaluate import ratings_or_preferences as learning
from hs2lib.group import Group, Response, Turn
from hs2lib.paths import root

sys.path.insert(0, str(root() / "benchmarks"))
benchmark = importlib.import_module("losses")
sys.path.pop(0)

pytestmark = pytest.mark.slow

TINY = {"model_name": "tiny", "batch": 4, "validation_share": 0.2, "warmup": 0, "head": "fresh"}


@pytest.fixture
def world(tmp_path, monkeypatch):
    """Twenty judgements and twelve held-out prompts under the tiny base."""
    monkeypatch.setattr(benchmark, "N_EVALUATED", 12)
    return benchmark.World(0, 20, tmp_path, TINY)


def test_what_is_kept_is_not_done_again_and_several_runs_add_up(world, tmp_path, monkeypatch):
    """A run that was stopped goes on; one of other learners adds its rows to those of the first."""
    world.measure("plain-begun")  # trains helpfulness too, which it begins with
    assert sorted(file.name for file in (world.folder / "learners").iterdir()) == [
        "helpfulness",
        "plain-begun",
    ]
    rows = benchmark.kept_rows(tmp_path)
    assert {row["learner"] for row in rows} == {"plain-begun"}
    assert {row["measure"] for row in rows} == {learning.RIGHT, learning.WITHIN, learning.GOOD}
    assert all(row["commit"] for row in rows)
    monkeypatch.setattr(learning, "train_one", None)  # nothing is trained from here on
    again = benchmark.World(0, 20, tmp_path, TINY)
    for name in ("plain-begun", "helpfulness", benchmark.LONGER):
        again.measure(name)
    assert {row["learner"] for row in benchmark.kept_rows(tmp_path)} == {
        "plain-begun",
        "helpfulness",
        benchmark.LONGER,
    }
    result = benchmark.result_of(tmp_path)
    assert result["seeds"] == [0] and not result["met"]
    compared = {(row["first"], row["second"]) for row in result["differences"]}
    assert ("plain-begun", "helpfulness") in compared
    assert ("helpfulness", benchmark.LONGER) in compared
    json.dumps(result, allow_nan=False)


def test_held_out_prompts_are_in_no_training_text_and_the_same_for_any_number(world):
    """The learners of 20 and of 4,800 judgements must answer the same questions."""
    more = benchmark.World(0, 30, world.folder, TINY)
    assert [group.id for group in world.judged.test] == [group.id for group in more.judged.test]
    trained = {turn.text for group in world.judged.ratings.groups["train"] for turn in group.prompt}
    tested = {group.prompt[-1].text for group in world.judged.test}
    assert len(tested) > 6 and not tested & trained


def test_differences_are_taken_seed_by_seed():
    """By hand: 60, 62 and 50, 54 differ by 10 and 8, mean 9, t interval 9 -+ 12.7."""
    rows = []
    for seed, (first, second) in enumerate([(60.0, 50.0), (62.0, 54.0)]):
        for learner, value in (("plain", first), ("helpfulness", second)):
            row = {"seed": seed, "judgements": 8, "learner": learner, "measure": learning.RIGHT}
            rows.append(row | {"value": value})
    rows.append({**rows[0], "seed": 2})  # a seed that the other learner has not
    means, differences = benchmark.over_seeds(rows)
    (difference,) = differences
    assert (difference["first"], difference["second"]) == ("plain", "helpfulness")
    assert (difference["difference"], difference["seeds"]) == (9.0, 2)
    assert difference["high"] == pytest.approx(9 + 12.706, abs=1e-3)
    assert {row["learner"]: row["seeds"] for row in means} == {"plain": 3, "helpfulness": 2}
    assert benchmark.over_seeds([]) == ([], [])


@pytest.mark.parametrize("name", ["plain", "scaled"])
def test_a_head_of_pairs_is_that_of_logistic_regression(name):
    """scikit-learn fits the same on differences, each once in either order; a weight is a strength."""
    rng = np.random.default_rng(0)
    D = rng.normal(size=(60, 5))
    strength = rng.integers(1, 4, 60).astype(float)
    ours = benchmark.pair_head(D, strength, benchmark.PAIR_LOSSES[name], 2.0, None)
    peer = LogisticRegression(C=1 / 4, fit_intercept=False, tol=1e-10, max_iter=1000)
    weights = np.tile(strength, 2) if name == "scaled" else None
    peer.fit(np.vstack([D, -D]), np.repeat([1, 0], 60), sample_weight=weights)
    np.testing.assert_allclose(ours, peer.coef_[0], atol=1e-4)


def test_a_head_that_is_held_fast_stays_where_it_began():
    """With an endless penalty the start is the solution, with none it is forgotten."""
    D = np.random.default_rng(1).normal(size=(40, 3))
    start = np.array([1.0, -2.0, 0.5])
    loss = benchmark.PAIR_LOSSES["margin"]
    held = benchmark.pair_head(D, np.ones(40), loss, 1e9, start)
    np.testing.assert_allclose(held, start, atol=1e-5)
    free = benchmark.pair_head(D, np.ones(40), loss, 1e-3, start)
    from_zero = benchmark.pair_head(D, np.ones(40), loss, 1e-3, None)
    np.testing.assert_allclose(free, from_zero, atol=0.05)


def pair(i: int, preference: float) -> Group:
    """A pair whose second response is longer by one character."""
    texts = ("x" * 9, "x" * 10)
    labels = ((2.0,) * 5, (2.0 + np.sign(preference),) * 5)
    responses = [Response(f"{i}/{k}", text, labels[k]) for k, text in enumerate(texts)]
    return Group(str(i), (Turn("user", f"{i}?"),), tuple(responses), preference=preference)


def test_no_pair_is_scored_by_a_head_that_saw_it(monkeypatch):
    """Each pair has a direction of its own: whoever saw it orders it rightly, and nobody else can."""
    monkeypatch.setattr(benchmark, "REPEATS", 1)
    monkeypatch.setattr(benchmark, "ALPHAS", (1.0,))
    pairs = [pair(i, preference) for i, preference in enumerate([2.0, -1.0, 3.0, 0.0, -2.0] * 6)]
    states = np.zeros((30, 2, 30))
    states[np.arange(30), 1, np.arange(30)] = 1.0  # of the second response
    preference = np.array([one.preference for one in pairs])
    seen = benchmark.margins_of_fold(states, pairs, np.ones(30, bool), seed=0)
    right = benchmark.cross_validated(states, pairs)
    for name in ("plain", "scaled-begun", "margin-expo"):
        assert (seen[name] * preference >= 0).all(), name
        assert np.isnan(right[name][preference == 0]).all()
        assert (right[name][preference != 0] == 0.5).all(), name
    assert np.nanmean(right[benchmark.LONGER]) == 0.5  # two of four are longer and better


def test_the_real_pairs_are_331_and_the_longer_answer_gets_205_of_them():
    """The bar of the real pairs, recomputed from the rows: .619."""
    if not paths.data() or not (paths.data() / "helpsteer2").is_dir():
        pytest.skip("HS2_DATA_DIR has no HelpSteer2 rows")
    pairs = benchmark.real_pairs()
    assert len(pairs) == 403
    directed = [one for one in pairs if one.preference]
    longer = 0
    for one in directed:
        first, second = [len(response.text) for response in one.responses]
        longer += (second - first) * one.preference > 0
    assert (len(directed), longer) == (331, 205)


def test_every_name_is_a_learner():
    """The choices of notebook 15 are typed in the names, and what they mean in the module."""
    assert tuple(learning.LEARNERS) == names.LEARNERS
    compared = {name for first, second, _ in learning.COMPARED for name in (first, second)}
    assert compared <= set(learning.LEARNERS)
