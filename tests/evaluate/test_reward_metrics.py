"""What a reward model is worth: the truth first, paired gains, a verdict that warns, a learning curve of raters."""

from dataclasses import replace
from functools import partial
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
from hs2lib.run.setup import Setup
from hs2lib.stats import metrics
from hs2lib.train import recipes
from hs2lib.train.items import Item

SETUP = Setup(
    "05_reward_model_training", "smoke", {"tier": "smoke"}, recipes.RewardModel(n_boot=100)
)
PAIRS = Setup("05", "smoke", {}, recipes.RewardModel(n_boot=100, objective="bradley-terry"))


@pytest.fixture(scope="module")
def generated():
    """Twelve generated groups to train on and six to measure on, as items of their ratings."""
    groups = list(generate.groups(18, seed=0))
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


@pytest.mark.slow
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
    better = "This reward model, best at step 7, is better than the response's length at telling helpfulness "
    reached = "R 0.70 (0.60 to 0.90); ridge on frozen states 0.30. One training seed."
    evaluated = evaluated_by("truth")
    assert reward_metrics.verdict(evaluated, gains_of("truth", 0.1, 0.01), result(7), SETUP) == (
        f"{better}(truth, 2 held-out prompts). {reached}"
    )
    unclear = reward_metrics.verdict(evaluated, gains_of("truth", 0.1, -0.01), result(7), SETUP)
    assert "is beyond chance NO better than" in unclear
    assert unclear.endswith(f"prompts; by pairwise accuracy). {reached}")
    both = reward_metrics.verdict(evaluated, gains_of("truth", np.nan, -0.01), result(0), SETUP)
    assert "untrained (its best step is 0)" in both
    assert both.endswith(f"by Pearson, pairwise accuracy). {reached}")


def test_the_verdict_of_few_rows_has_no_interval_and_may_have_no_R():
    """One conversation has no interval, and equal predictions have no R."""
    evaluated = evaluated_by("truth")
    table = evaluated.metrics[evaluated.metrics.model == "trained"]
    verdict = partial(reward_metrics.verdict, gains=gains_of("truth", 0.1, 0.01), setup=SETUP)
    alone = table.assign(**{"95 % low": np.nan, "95 % high": np.nan})
    one = Evaluated(**vars(evaluated) | {"metrics": alone})
    assert verdict(one, result=result(7)).endswith("prompts). R 0.70. One training seed.")
    constant = Evaluated(**vars(evaluated) | {"metrics": alone.assign(value=np.nan)})
    assert verdict(constant, result=result(7)).endswith("R is not defined. One training seed.")


def test_a_loss_of_pairs_is_held_against_the_order_alone():
    """It leaves the offset of each prompt free: R over prompts is not what it learns."""
    text = reward_metrics.verdict(
        evaluated_by("ratings"), gains_of("ratings", -0.1, 0.01), result(7), PAIRS
    )
    assert "is better than" in text and "(ratings, 2 held-out prompts)" in text
    assert "Pairs in order 0.80 (0.60 to 0.90); ridge on frozen states 0.60." in text


def test_the_words_name_each_metric_and_what_it_adds():
    """A reader sees the sign and the interval, and capitals where training made it worse."""
    rows = [
        ("truth", "trained", "helpfulness", metric, 0.5, 0.25, 0.75) for metric in metrics.METRICS
    ]
    columns = ["against", "model", "attribute", "metric", "value", "95 % low", "95 % high"]
    evaluated = evaluated_by("truth")
    measured = Evaluated(**vars(evaluated) | {"metrics": pd.DataFrame(rows, columns=columns)})
    worse = gains_of("truth", 0.1, -0.2)
    worse.loc[1, ["gain", "95 % high"]] = [-0.15, -0.1]
    assert reward_metrics.in_words(measured, worse, "all 2 training groups") == [
        "Pearson's R of the trained model with the truth: helpfulness 0.50 (0.25 to 0.75).",
        "Pairs of one prompt ordered rightly: helpfulness 0.50 (0.25 to 0.75).",
        "Pearson of helpfulness: more than log-length (+0.20, 0.10 to 0.40).",
        "pairwise accuracy of helpfulness: LESS than log-length (-0.15, -0.20 to -0.10).",
    ]


def test_the_gain_over_ridge_says_how_many_groups_ridge_saw(generated):
    """It is fitted to fewer groups than the model, so that its floor is lower than it could be."""
    _, prepared = generated
    whole = inputs_of(prepared, {})
    assert reward_metrics.fitted_to(whole, prepared) == "all 12 training groups"
    few = inputs_of(Prepared({"train": prepared.items["train"][:5]}, pd.DataFrame()), {})
    seen = reward_metrics.fitted_to(few, prepared)
    assert seen == "5 of the 12 training groups"
    assert reward_metrics.about_ridge(few, prepared) == "", "without states there is no ridge"
    states = {"train": np.zeros((10, 1))}
    of_few = reward_metrics.about_ridge(replace(few, states=states), prepared)
    assert of_few == f"Ridge was fitted to {seen}, the model to all."
    of_whole = reward_metrics.about_ridge(replace(whole, states=states), prepared)
    assert of_whole == "Ridge was fitted to all 12 training groups, as the model was."
    over_ridge = gains_of("truth", 0.1, 0.01).assign(over="ridge on frozen states")
    no_metrics = pd.DataFrame(columns=["against", "model", "attribute", "metric", *ENDS])
    measured = Evaluated(**vars(evaluated_by("truth")) | {"metrics": no_metrics})
    *_, pearson, accuracy = reward_metrics.in_words(measured, over_ridge, seen)
    words = (
        "which was fitted to 5 of the 12 training groups, so that this is training and more data."
    )
    assert pearson.endswith(words) and accuracy.endswith(words)


def test_what_lies_below_the_truth_is_not_ascribed():
    """By hand: the truth has .9 (.85 to .93) with the ratings, and a model of .7 (.6 to .8) lies below.

    That raters err in the test part does not explain it: the truth meets the same errors. With an
    end of .88 the intervals touch. A noise ceiling comes without an interval.
    """
    top = pd.DataFrame([("ratings", "helpfulness", "Pearson", 0.9, 0.85, 0.93)])
    top.columns = ["against", "attribute", "metric", *ENDS]
    no_cause = "do not explain the gap"
    not_shown = "more than chance is not shown"

    def text_of(reached, high, reference=top):
        rows = pd.DataFrame([("ratings", "trained", "helpfulness", "Pearson", reached, 0.6, high)])
        rows.columns = ["against", "model", "attribute", "metric", *ENDS]
        measured = Evaluated(**vars(evaluated_by("truth")) | {"metrics": rows})
        return reward_metrics.noise_in_short(measured, reference)

    below = text_of(0.7, 0.8)
    assert "R 0.90 with their ratings of helpfulness. The model has 0.70." in below
    assert no_cause in below and below.endswith("are not told apart here.")
    assert not_shown in text_of(0.7, 0.88) and no_cause not in text_of(0.7, 0.88)
    ceiling = top.drop(columns=["95 % low", "95 % high"])
    assert no_cause in text_of(0.7, 0.88, ceiling)
    assert not_shown in text_of(0.7, np.nan, ceiling)
    assert text_of(0.95, 0.97).endswith("The model has 0.95.")
    assert text_of(0.7, 0.8, top.iloc[:0]) == ""


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
    difference, about = reward_metrics.learning_in_words(curve)
    assert difference == (
        "Ridge, same number of ratings: R of answers rated once minus that of fewer answers rated "
        "3 times is +0.050 in the mean. It is above 0 at 1 of 1 points."
    )
    assert about.endswith("One draw has no interval. No point is of the trained model.")
    message = reward_metrics.learning_message(curve)
    assert message.endswith("more answers stand higher in this draw")
    contrary = reward_metrics.learning_message(curve.assign(R=-curve.R))
    assert contrary.endswith("more raters stand higher in this draw")
    assert reward_metrics.learning_message(curve.iloc[:2]).startswith("No two curves")
    (none,) = reward_metrics.learning_in_words(curve.iloc[:2])
    assert "nothing can be compared" in none
    assert reward_metrics.learning_in_words(curve.iloc[:0]) == []


def test_draws_of_groups_make_an_interval():
    """By hand: one rater has .05 and .07 more in two draws; t 12.7 x .01 is .127.

    All groups, with one draw, are in both draws' curves.
    """
    draws = [curve_of([(1, 100, 0.2), (3, 300, 0.25)]), curve_of([(1, 100, 0.2), (3, 300, 0.23)])]
    draws[1]["draw"] = 1
    curve = pd.concat([*draws, curve_of([(1, 900, 0.4), (3, 2700, 0.5)])], ignore_index=True)
    difference, about = reward_metrics.learning_in_words(curve)
    assert "is +0.060 (-0.067 to +0.187) in the mean" in difference
    assert "over 2 draws of groups" in about and "too narrow" in about
    assert reward_metrics.learning_message(curve).endswith("stand higher in these 2 draws")
    assert reward_metrics.learning_draws(curve).startswith("means over 2 draws of groups")
    assert reward_metrics.learning_draws(curve_of([(1, 100, 0.2)])).startswith("one draw")


def test_what_the_last_doubling_added_stands_in_plain_words():
    """By hand: with means of three raters R rises from .2 to .3; where it falls, help is not shown.

    The model learns from such means, and one rater's curve is not its own.
    """
    curve = curve_of([(3, 300, 0.2), (3, 600, 0.3), (1, 100, 0.9)])
    words = "from 50 to 100 groups R of ridge went from 0.200 to 0.300, with means of 3 raters."
    text = reward_metrics.more_groups_in_words(curve)
    assert text.startswith(f"Perhaps more rated answers: {words}")
    assert text.endswith("The trained model was not tried on more.")
    fallen = curve.assign(R=[0.3, 0.2, 0.9])
    assert "is not shown" in reward_metrics.more_groups_in_words(fallen)
    assert reward_metrics.more_groups_in_words(curve.iloc[:1]) == ""


def test_peaks_stand_beside_how_far_the_loss_moves():
    """By hand: the loss moves by .2, .06 and .05, and stands .05 above the next: that is luck."""
    steps = {"step": [0, 4, 8, 9], "loss": [0.7, 0.5, 0.56, 0.51]}
    frame = pd.DataFrame(steps | {"Pearson tone": [0.1, 0.2, 0.4, 0.3]})
    first, lowest, moves, peaks = reward_metrics.peaks_in_words(frame, 4)
    assert first.startswith("The validation loss is lowest at step 4")
    assert lowest == "Lowest and next lowest: 0.5000 and 0.5100."
    assert moves.startswith(
        "From one checkpoint to the next the loss moves by 0.0600 in the median"
    )
    assert "At step 8 it is 0.0500 above the nearer of its neighbours." in moves
    assert moves.endswith("So which step is lowest is partly luck.")
    assert peaks == "R is highest for tone at step 8."
    (first,) = reward_metrics.peaks_in_words(pd.DataFrame({"step": [0], "loss": [0.7]}), 0)
    assert first.startswith("The validation loss is lowest at step 0")


@pytest.mark.parametrize(
    "losses", [(0.7, 0.5), (0.7, 0.5, 0.4, 0.38), (0.7, 0.5, 0.51, 0.6), (0.2, 15.0, 0.8, 16.0)]
)
def test_a_loss_that_only_falls_overfits_or_diverges_is_no_luck(losses):
    """Its lowest step is chosen for a reason, however far the loss moves elsewhere."""
    frame = pd.DataFrame({"step": range(len(losses)), "loss": losses})
    *_, moves = reward_metrics.peaks_in_words(frame, int(np.argmin(losses)))
    assert "in the median" in moves and "luck" not in moves


def test_the_model_may_lie_above_the_raters_and_the_paired_difference_says_where():
    """By hand: of three attributes the interval is above 0 in one, below in one, and around it."""
    names = ("a", "b", "c")
    table = [("ratings", "trained", name, "Pearson", 0.6, 0.5, 0.7) for name in names]
    columns = ["against", "model", "attribute", "metric", *ENDS]
    about = {"attributes": names, "metrics": pd.DataFrame(table, columns=columns)}
    measured = Evaluated(**vars(evaluated_by("truth")) | about)
    rows = [
        (side, name, "Pearson", 0.8, 0.7, 0.9) for side in ("truth", "ratings") for name in names
    ]
    both = pd.DataFrame(rows, columns=["against", "attribute", "metric", *ENDS])
    above = [("a", 0.1, 0.05, 0.15), ("b", -0.3, -0.4, -0.2), ("c", 0.01, -0.02, 0.04)]
    above = pd.DataFrame(above, columns=["attribute", "gain", "95 % low", "95 % high"])
    with_ratings, with_truth = reward_metrics.reference_in_words(measured, both, above)
    assert with_ratings.endswith("a 0.60 (0.80); b 0.60 (0.80); c 0.60 (0.80).")
    assert with_truth == (
        "R with the truth, by the paired difference: the model is above the raters' label in a; "
        "is below it in b; is not shown to differ in c."
    )
    assert reward_metrics.reference_in_words(measured, both.iloc[:0], above) == []
    assert reward_metrics.beside(both, "truth", "Pearson").name == "the raters' label"


def test_equal_pairs_are_in_no_accuracy(generated):
    """By hand: of two prompts one has equal labels, so that one pair is counted."""
    labels = {"truth": np.array([[1.0], [2.0], [3.0], [3.0]])}
    measured = Evaluated(**vars(evaluated_by("truth")) | {"labels": labels})
    assert reward_metrics.ordered_pairs(measured, "truth").to_dict() == {"helpfulness": 1}
    rows = [("truth", "trained", "helpfulness", "pairwise accuracy", 1.0, 0.5, 1.0)]
    columns = ["against", "model", "attribute", "metric", *ENDS]
    about = {"metrics": pd.DataFrame(rows, columns=columns), "predicted": {"trained": labels}}
    table = reward_metrics.pairs_by_model(Evaluated(**vars(measured) | about), "truth")
    assert table.helpfulness.tolist() == ["1", "1.00 [0.50, 1.00]"]


def test_the_pairs_to_see_say_of_how_many_and_in_what(generated):
    """A model that says minus the truth orders every pair wrongly."""
    data, prepared = generated
    labels = reward_metrics.labels_of(ATTRIBUTES, data, prepared, SETUP)
    predicted = {"trained": -labels["truth"]}
    prompts = np.repeat(np.arange(6), 2)
    measured = Evaluated(ATTRIBUTES, labels, predicted, prompts, prompts, pd.DataFrame())
    ((how, group, answers),) = reward_metrics.pairs_to_see(measured, data, prepared)
    n = len([g for g in data.groups["test"] if len(set(grade.true_goodness(g))) == 2])
    assert how.startswith(f"Of {n} pairs that differ in the truth the score orders {n} wrongly.")
    assert group in data.groups["test"] and len(answers) == 2


def test_the_score_is_named_once_with_its_weights():
    """A reader meets numbers up to 7.6 beside attributes up to 4."""
    values = vars(evaluated_by("truth"))
    text = reward_metrics.score_in_words(Evaluated(**values | {"attributes": ATTRIBUTES}))
    assert "0.65 helpfulness + 0.8 correctness + 0.45 coherence." in text
    assert text.endswith("The truth is the same sum of the true attributes.")
    of_ratings = vars(evaluated_by("ratings")) | {"attributes": ATTRIBUTES}
    assert reward_metrics.score_in_words(Evaluated(**of_ratings)).endswith("sum of the ratings.")
    assert reward_metrics.score_in_words(evaluated_by("ratings")) == (
        "The score is the predicted helpfulness. It is held against the ratings."
    )


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
    assert wide.iloc[0, 0].startswith(f"{R:.2f} [") and wide.iloc[0, 3].startswith("+")
    ratings = {"ratings": labels["ratings"]}
    real = Evaluated(ATTRIBUTES, ratings, {}, prompts, prompts, pd.DataFrame())
    assert reward_metrics.reference(real, SETUP).empty
    assert reward_metrics.over_label(real, SETUP).empty
