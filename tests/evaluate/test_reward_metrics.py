"""What a reward model is worth: the truth first, paired gains, a verdict that warns, a learning curve of raters."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from hs2lib.corpus import generate, grade
from hs2lib.data.load import Loaded
from hs2lib.evaluate import reward_metrics
from hs2lib.evaluate.reward_metrics import Evaluated
from hs2lib.group import ATTRIBUTES
from hs2lib.models.reward_training import BaselineInputs, Parts, Prepared
from hs2lib.runs.setup import Setup
from hs2lib.train import recipes
from hs2lib.train.items import Item

SETUP = Setup(
    "05_reward_model_training", "smoke", {"tier": "smoke"}, recipes.RewardModel(n_boot=100)
)
PAIRS = Setup("05", "smoke", {}, recipes.RewardModel(n_boot=100, objective="bradley-terry"))


@pytest.fixture(scope="module")
def generated():
    """Twelve generated groups to train on and six to measure on, as items of their ratings."""
    groups = list(sets.groups(18, seed=0))
    data = Parts({"test": groups[:6], "train": groups[6:]}, Loaded(groups, "x", True))
    items = {
        part: [
            Item(
                group.id,
                ([1], [2]),
                np.array([r.labels for r in group.responses], dtype=np.float32),
                (0, 0),
            )
            for group in groups
        ]
        for part, groups in data.groups.items()
    }
    return data, Prepared(items, pd.DataFrame())


def inputs_of(prepared, states):
    clusters = {
        part: np.repeat([item.id for item in items], 2) for part, items in prepared.items.items()
    }
    return BaselineInputs(prepared.items, clusters, states, ("train",))


def model_of(scores):
    """A model whose scores of the test part are known."""
    return SimpleNamespace(
        attributes=ATTRIBUTES, rows=lambda *_, **options: SimpleNamespace(numpy=lambda: scores)
    )


def test_the_truth_comes_first_and_only_where_it_is_known(generated):
    """Of real text nobody knows it, and a loss of pairs has one output that is no attribute."""
    data, prepared = generated
    labels = reward_metrics.labels_of(("helpfulness", "verbosity"), data, prepared, SETUP)
    assert list(labels) == ["truth", "ratings"]
    np.testing.assert_array_equal(
        labels["truth"][:2], grade.true_attributes(data.groups["test"][0])[:, [0, 4]]
    )
    real = Parts(data.groups, Loaded(data.loaded.groups, "x", False))
    assert list(reward_metrics.labels_of(ATTRIBUTES, real, prepared, SETUP)) == ["ratings"]
    assert list(reward_metrics.labels_of(("reward",), data, prepared, PAIRS)) == ["ratings"]


def test_a_model_that_says_the_truth_gains_what_the_baseline_lacks(generated):
    """By hand: R is 1 with the truth, pairs are all right; a coin's half and a constant's dash stand beside it."""
    data, prepared = generated
    truth = reward_metrics.labels_of(ATTRIBUTES, data, prepared, SETUP)["truth"]
    baselines = {"mean": np.full_like(truth, 2.0), "log-length": np.zeros_like(truth)}
    inputs = inputs_of(prepared, {})
    evaluated = reward_metrics.evaluate(model_of(truth), data, prepared, inputs, baselines, SETUP)
    assert evaluated.side == "truth"
    assert (evaluated.responses, evaluated.groups) == (12, 6)
    assert list(evaluated.metrics.against.unique()) == ["truth", "ratings"]
    assert list(evaluated.predicted) == ["mean", "log-length", "trained"]
    wide = evaluated.wide()["truth"]
    np.testing.assert_allclose(wide.loc["Pearson", "trained"], 1)
    np.testing.assert_allclose(wide.loc["pairwise accuracy", "log-length"].dropna(), 0.5)
    assert wide.loc["Pearson", "mean"].isna().all()
    gains = reward_metrics.gains(evaluated, SETUP)
    assert set(gains.over) == {"log-length"}, "a constant tells nothing apart"
    of_accuracy = gains[
        (gains.against == "truth") & (gains.metric == "pairwise accuracy")
    ].gain.dropna()
    np.testing.assert_allclose(of_accuracy, 0.5)


# The verdict


ENDS = ("value", "95 % low", "95 % high")


def evaluated_by(side):
    """Two groups of two responses, held against one side: what is trained has R .7, ridge .3."""
    labels = {side: np.zeros((4, 1))}
    rows = []
    for metric, trained, ridge in (("Pearson", 0.7, 0.3), ("pairwise accuracy", 0.8, 0.6)):
        rows.append((side, "ridge on frozen states", "helpfulness", metric, ridge, 0.2, 0.4))
        rows.append((side, "trained", "helpfulness", metric, trained, 0.6, 0.9))
    columns = ["against", "model", "attribute", "metric", *ENDS]
    measured = pd.DataFrame(rows, columns=columns)
    prompts = np.array([0, 0, 1, 1])
    return Evaluated(("helpfulness",), labels, {}, prompts, np.array(list("aabb")), measured)


def gains_of(side, pearson_low, accuracy_low):
    """What training adds to length at helpfulness: the lower ends of the two intervals."""
    rows = [
        ("Pearson", 0.2, pearson_low, 0.4),
        ("pairwise accuracy", 0.1, accuracy_low, 0.3),
        ("MSE", -1.0, -2.0, 0.5),
    ]
    frame = pd.DataFrame(rows, columns=["metric", "gain", "95 % low", "95 % high"])
    return frame.assign(against=side, over="log-length", attribute="helpfulness")


def result(step):
    return SimpleNamespace(best_step=step)


def test_the_verdict_says_whether_the_model_beats_length():
    """Other notebooks repeat it as a warning: its words "NO better" and "untrained" decide that."""
    evaluated = evaluated_by("truth")
    better = reward_metrics.verdict(evaluated, gains_of("truth", 0.1, 0.01), result(7), SETUP)
    assert "NO better" not in better and "untrained" not in better
    unclear = reward_metrics.verdict(evaluated, gains_of("truth", 0.1, -0.01), result(7), SETUP)
    assert "NO better" in unclear and "untrained" not in unclear
    both = reward_metrics.verdict(evaluated, gains_of("truth", np.nan, -0.01), result(0), SETUP)
    assert "NO better" in both and "untrained" in both


def test_a_loss_of_pairs_is_held_against_the_order_alone():
    """It leaves the offset of each prompt free: R over prompts is not what it learns."""
    text = reward_metrics.verdict(
        evaluated_by("ratings"), gains_of("ratings", -0.1, 0.01), result(7), PAIRS
    )
    assert "NO better" not in text


# The learning curve


def test_more_raters_are_means_of_more_ratings(generated):
    """Each point says how many groups, raters and ratings it took; with all groups there is one draw."""
    data, prepared = generated
    names = [item.id for item in prepared.items["train"]]
    anew = reward_metrics.rated_anew(names, ("helpfulness",), 0)
    assert anew.shape == (24, 5, 1)
    np.testing.assert_array_equal(anew, reward_metrics.rated_anew(names, ATTRIBUTES, 0)[:, :, :1])
    truth = {
        part: np.concatenate([grade.true_attributes(g) for g in groups])
        for part, groups in data.groups.items()
    }
    inputs = inputs_of(
        prepared, truth
    )  # states that hold the truth: ridge has only the raters' noise to fight
    evaluated = reward_metrics.evaluate(model_of(truth["test"]), data, prepared, inputs, {}, SETUP)
    curve = reward_metrics.learning_curve(evaluated, inputs, SETUP)
    assert curve[["groups", "raters", "draw", "ratings"]].to_numpy().tolist() == [
        [12, 1, 0, 24],
        [12, 3, 0, 72],
        [12, 5, 0, 120],
    ]
    assert curve.R.between(-1, 1).all() and curve.R.iloc[-1] > 0.5
    assert reward_metrics.learning_curve(evaluated, inputs_of(prepared, {}), SETUP).empty


def curve_of(points):
    """A learning curve of one draw from (raters, ratings, R)."""
    frame = pd.DataFrame(points, columns=["raters", "ratings", "R"])
    return frame.assign(draw=0, groups=frame.ratings // (2 * frame.raters))


def test_one_rater_and_three_are_compared_at_equally_many_ratings():
    """By hand: one rater has .2 at 100 and .4 at 400, so .3 at 200, where three have .25."""
    curve = curve_of([(1, 100, 0.2), (1, 400, 0.4), (3, 200, 0.25), (3, 1000, 0.9)])
    assert list(reward_metrics._one_rater_ahead(curve)) == [3]
    assert reward_metrics._one_rater_ahead(curve)[3] == pytest.approx([0.05])
    assert reward_metrics._one_rater_ahead(curve.iloc[:2]) == {}


def test_draws_of_groups_make_an_interval():
    """By hand: one rater has .05 and .07 more in two draws.

    All groups, with one draw, are in both draws' curves.
    """
    draws = [curve_of([(1, 100, 0.2), (3, 300, 0.25)]), curve_of([(1, 100, 0.2), (3, 300, 0.23)])]
    draws[1]["draw"] = 1
    curve = pd.concat([*draws, curve_of([(1, 900, 0.4), (3, 2700, 0.5)])], ignore_index=True)
    assert reward_metrics._ahead_by_draw(curve)[3].tolist() == pytest.approx([0.05, 0.07])


def test_peaks_stand_beside_how_far_the_loss_moves():
    """By hand: at step 8 the loss is .06 above one neighbour and .05 above the other."""
    frame = pd.DataFrame({"step": [0, 4, 8, 9], "loss": [0.7, 0.5, 0.56, 0.51]})
    assert reward_metrics._largest_bump(frame) == (8, pytest.approx(0.05))
    assert reward_metrics._largest_bump(frame.iloc[:1]) == (0, 0.0)


@pytest.mark.parametrize(
    "losses", [(0.7, 0.5), (0.7, 0.5, 0.4, 0.38), (0.7, 0.5, 0.51, 0.6), (0.2, 15.0, 0.8, 16.0)]
)
def test_a_loss_that_only_falls_overfits_or_diverges_is_no_luck(losses):
    """Its lowest step is chosen for a reason, however far the loss moves elsewhere."""
    frame = pd.DataFrame({"step": range(len(losses)), "loss": losses})
    assert reward_metrics._largest_bump(frame) == (0, 0.0)


def test_equal_pairs_are_in_no_accuracy(generated):
    """By hand: of two prompts one has equal labels, so that one pair is counted."""
    labels = {"truth": np.array([[1.0], [2.0], [3.0], [3.0]])}
    measured = Evaluated(**vars(evaluated_by("truth")) | {"labels": labels})
    assert reward_metrics.ordered_pairs(measured, "truth").to_dict() == {"helpfulness": 1}


def test_the_pairs_to_see_say_of_how_many_and_in_what(generated):
    """A model that says minus the truth orders every pair wrongly."""
    data, prepared = generated
    labels = reward_metrics.labels_of(ATTRIBUTES, data, prepared, SETUP)
    predicted = {"trained": -labels["truth"]}
    prompts = np.repeat(np.arange(6), 2)
    measured = Evaluated(ATTRIBUTES, labels, predicted, prompts, prompts, pd.DataFrame())
    ((_, group, answers),) = reward_metrics.pairs_to_see(measured, data, prepared)
    assert len(set(grade.true_goodness(group))) == 2, "it differs in the truth"
    assert group in data.groups["test"] and len(answers) == 2


def test_the_reference_is_the_truth_with_the_ratings(generated):
    """Against the ratings it is what a model reaches that says the truth; of real text none is known."""
    data, prepared = generated
    labels = reward_metrics.labels_of(ATTRIBUTES, data, prepared, SETUP)
    prompts = np.repeat(np.arange(6), 2)
    predicted = {"trained": labels["truth"]}
    evaluated = Evaluated(ATTRIBUTES, labels, predicted, prompts, prompts, pd.DataFrame())
    reference = reward_metrics.reference(evaluated, SETUP)
    R = np.corrcoef(labels["truth"][:, 0], labels["ratings"][:, 0])[0, 1]
    is_pearson = reference.metric == "Pearson"
    rows = reference[(reference.attribute == "helpfulness") & is_pearson]
    assert np.allclose(rows.value, R) and list(rows.against) == ["truth", "ratings"]
    assert (rows["95 % low"] < R).all() and (rows["95 % high"] > R).all()
    above = reward_metrics.over_label(evaluated, SETUP)
    assert list(above.attribute) == list(ATTRIBUTES)
    assert np.isclose(above.gain.iloc[0], 1 - R), "predictions that are the truth have R 1"
    wide = reward_metrics.reference_by_attribute(reference, above)
    assert wide.shape == (5, 4) and list(wide.index) == list(ATTRIBUTES)
    ratings = {"ratings": labels["ratings"]}
    real = Evaluated(ATTRIBUTES, ratings, {}, prompts, prompts, pd.DataFrame())
    assert reward_metrics.reference(real, SETUP).empty
    assert reward_metrics.over_label(real, SETUP).empty
