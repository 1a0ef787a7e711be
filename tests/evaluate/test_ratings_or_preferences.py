"""Ratings or preferences: one set of judgements in two forms, learners in order, measures by hand."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from hs2lib import names, paper
from hs2lib.data.load import Loaded
from hs2lib.evaluate import learners
from hs2lib.evaluate import ratings_or_preferences as learning
from hs2lib.group import Group, Response, Turn
from hs2lib.models.reward_model import RewardModel, load_reward_model
from hs2lib.models.reward_training import Parts
from hs2lib.runs.setup import Setup
from hs2lib.train import recipes


def setup_of(place: Path | None = None, **settings) -> Setup:
    """A setup by hand: few judgements, the tiny base."""
    quick = {"model_name": "tiny", "batch": 4, "warmup": 0, "n_prompts": 20, "n_boot": 100}
    quick |= {"epochs": 1.0, "learning_rate": 1e-3, "test_share": 0.5, "n_per_section": 4}
    recipe = recipes.Preferences(**quick | settings)
    return Setup("15_ratings_or_preferences", "smoke", {}, recipe, place)


def rated(name: str, *labels: float, preference: float | None = None) -> Group:
    """A prompt with responses that are rated in helpfulness."""
    responses = []
    for i, label in enumerate(labels):
        responses.append(Response(f"{name}/{i}", "x" * (i + 1), (label,)))
    turns = (Turn("user", f"{name}?"),)
    return Group(name, turns, tuple(responses), ("helpfulness",), preference=preference)


def people(*preferences: float) -> learning.Judgements:
    """Real pairs, as far as they know: a test part with people's preferences."""
    groups = [rated(str(i), 0, 0, preference=p) for i, p in enumerate(preferences)]
    parts = Parts({"test": groups}, Loaded(groups, "by hand", False))
    return learning.Judgements(parts, parts, implied=False)


# Judgements


def test_a_preference_is_the_difference_of_two_ratings_and_3_at_most():
    """By hand: (3, 1) is -2, (0, 4) is 3 and no 4; who lacks a rating, or is no pair, has none."""
    groups = [
        rated("a", 3, 1),
        rated("b", 0, 4),
        rated("c", 2, 2),
        rated("d", 1, np.nan),
        rated("e", 1, 2, 3),
    ]
    implied = learning.with_preferences(groups)
    assert [group.preference for group in implied] == [-2.0, 3.0, 0.0, None, None]
    assert implied[0].responses == groups[0].responses  # the ratings stay


def test_both_forms_of_a_judgement_are_of_the_same_pairs():
    """Equal numbers of judgements, or a comparison of losses would be one of data."""
    judged = learning.load_judgements(setup_of())
    assert judged.implied and len(judged.sources) == 2  # the train split and the held-out one
    for part, groups in judged.ratings.groups.items():
        of_pairs = judged.preferences.groups[part]
        assert [group.id for group in of_pairs] == [group.id for group in groups]
        assert all(group.preference is not None for group in of_pairs)
    table = learning.counts(judged)
    strengths = (
        table.loc[[f"of strength {m}" for m in (1, 2, 3)]].sum() + table.loc["of these ties"]
    )
    assert (strengths == table.loc["compared pairs"]).all()
    assert (table.loc["rated pairs"] == table.loc["compared pairs"]).all()
    assert table.columns.tolist() == ["train", "validation", "test"]


def test_rated_conversations_that_measure_as_preferences_are_withheld(monkeypatch):
    """Two files without splits are cut each by itself: a prompt tested on here was trained on there."""
    ratings = [rated(str(i), 0, 1) for i in range(40)]
    pairs = [rated(str(i), 0, 0, preference=1.0) for i in range(10, 50)]

    def load(setup):
        groups = pairs if setup.recipe.dataset == "pandalm" else ratings
        cut = {"validation": groups[:8], "test": groups[8:16], "train": groups[16:]}
        return Parts(cut, Loaded(groups, "by hand", False))

    monkeypatch.setattr(learning.reward_training, "load_parts", load)
    judged = learning.load_judgements(setup_of(preferences="pandalm", test_split=""))
    tested = {group.id for group in judged.test}  # 18 to 25
    learnt = [group.id for part in ("train", "validation") for group in judged.ratings.groups[part]]
    assert len(tested) == 8 and not tested & set(learnt)
    assert judged.withheld == 8 and len(learnt) == 24
    assert learning.counts(judged).loc["rated pairs withheld", "train"] == 8


# Learners


def test_learners_come_after_what_they_need():
    """An extrapolation asked for alone trains the regression and what was begun from it."""
    assert learning.with_needed(["scaled-expo"]) == ["helpfulness", "scaled-begun", "scaled-expo"]
    assert learning.with_needed(["five-weighted"]) == ["five", "five-weighted"]
    assert learning.with_needed(["plain", "five"]) == ["five", "plain"]
    assert learning.with_needed(names.LEARNERS) == list(names.LEARNERS)


def test_a_learner_differs_from_the_recipe_by_its_loss_and_its_start():
    """What is begun from the regression takes its head, half the rate, and one pass."""
    setup = setup_of(learning_rate=2e-3, epochs=2.0, seed=5)
    own = learning.recipe_of("scaled-begun", setup, {"helpfulness": Path("saved")})
    assert own == replace(
        setup.recipe,
        objective="bradley-terry-scaled",
        start="saved",
        head="saved",
        learning_rate=1e-3,
        epochs=1.0,
    )
    scratch = learning.recipe_of("helpfulness", setup, {})
    assert scratch == replace(setup.recipe, attributes=("helpfulness",))


@pytest.mark.slow
def test_learners_are_trained_in_order_and_read_again(tmp_path, monkeypatch):
    """From ratings to a regression, from there to pairs, and on through both: three folders, once each."""
    setup = setup_of(tmp_path, learners=("scaled-expo", "five-weighted"))
    judged = learning.load_judgements(setup)
    folders = learning.train(judged, setup)
    assert list(folders) == ["five", "five-weighted", "helpfulness", "scaled-begun", "scaled-expo"]
    assert folders["five-weighted"] == folders["five"]
    outputs = {name: load_reward_model(folder).attributes for name, folder in folders.items()}
    assert outputs["helpfulness"] == ("helpfulness",) and outputs["scaled-expo"] == ("reward",)
    assert len(outputs["five"]) == 5
    weak, strong, expo = [
        load_reward_model(folders[name]).head.weight
        for name in ("helpfulness", "scaled-begun", "scaled-expo")
    ]
    np.testing.assert_allclose(
        expo.detach(), (weak + 1.52 * (strong - weak)).detach(), rtol=1e-4, atol=1e-7
    )
    trainings = sorted(tmp_path.glob("training-*"))
    scores = learning.score(judged, folders, setup)
    assert list(scores)[-1] == learning.LONGER
    assert all(values.shape == (2 * len(judged.test),) for values in scores.values())
    learning.train(judged, setup)
    assert sorted(tmp_path.glob("training-*")) == trainings
    on_pairs, source = learning.on_rewardbench(folders, setup)
    trained = ("five-weighted", "helpfulness", "scaled-begun", "scaled-expo")
    assert set(on_pairs.row) == {learning.SEQUEL_ROWS[name] for name in trained}
    assert set(on_pairs["not comparable"]) == {"other model"} and source.generated
    assert set(on_pairs.column) == {"overall", "chat", "chat-hard", "safety", "reasoning"}
    assert (on_pairs.ours.between(0, 100)).all()


def test_a_learners_one_number_is_its_reward_its_helpfulness_or_goodness():
    """Five outputs are five numbers: which of them stands for a response has to be said."""
    five = RewardModel.new("tiny")
    assert learning.weights_of("five", five).tolist() == [1, 0, 0, 0, 0]
    assert learning.weights_of("five-weighted", five).tolist() == [0.65, 0.8, 0.45, 0, 0]
    assert learning.weights_of("plain", RewardModel.new("tiny", attributes=("reward",))) == [1]


# Measures


def test_measures_by_hand():
    """Preferences 2, -1, 1, 0 and score differences 4, -2, -2, 9: two of three right, ties aside.

    Within prompts the truth is -+1, +-.5, -+.5, 0 and the scores -+2, +-1, +-1, -+4.5.
    """
    judged = people(2, -1, 1, 0)
    scores = {"plain": np.array([0, 4, 7, 5, 3, 1, 0, 9.0])}
    table = learning.measured(scores, judged, setup_of()).set_index("measure")
    assert table.value[learning.RIGHT] == pytest.approx(200 / 3)
    truth = [-1, 1, 0.5, -0.5, -0.5, 0.5, 0, 0]
    within = [-2, 2, 1, -1, 1, -1, -4.5, 4.5]
    assert table.value[learning.WITHIN] == pytest.approx(np.corrcoef(truth, within)[0, 1])
    assert learning.GOOD not in table.index  # of real pairs goodness is not known
    shifted = {"plain": scores["plain"] + np.repeat([0, 50, -9, 3.0], 2)}
    again = learning.measured(shifted, judged, setup_of()).set_index("measure")
    pd.testing.assert_series_equal(again.value, table.value)  # a prompt's level says nothing


def test_a_response_too_long_to_score_is_measured_by_nobody():
    """The rule of length has a score of it, the learners have none: all are held against the rest."""
    judged = people(2, -1, 1)
    scores = {
        "plain": np.array([0, 1, 1, 0, np.nan, np.nan]),
        learning.LONGER: np.array([0, 1, 0, 1, 0, 1.0]),
    }
    assert learning.unscored(scores).tolist() == [False] * 4 + [True] * 2
    table = learning.measured(scores, judged, setup_of()).set_index(["learner", "measure"]).value
    assert table["plain", learning.RIGHT] == 100
    assert table[learning.LONGER, learning.RIGHT] == 50  # of all three it has two


def test_differences_are_of_the_same_pairs():
    """One learner has all three right and the other two: the difference is a third of 100."""
    judged = people(2, -1, 1)
    scores = {
        "plain": np.array([0, 1, 1, 0, 0, 1.0]),
        "helpfulness": np.array([0, 1, 1, 0, 1, 0.0]),
        "five": np.array([0, 1, 1, 0, 1, 0.0]),
    }
    gains = learning.compared(scores, judged, setup_of())
    right = gains[gains.measure == learning.RIGHT].set_index(["first", "second"]).difference
    assert right["plain", "helpfulness"] == pytest.approx(100 / 3)
    assert right["helpfulness", "five"] == 0


def test_pairs_to_see_are_those_that_two_learners_order_otherwise():
    """Of the pairs that one alone has right the farthest apart."""
    judged = people(1, 3, -2)
    scores = {"plain": np.array([0, 1, 0, 1, 0, 1.0]), "five": np.array([1, 0, 1, 0, 1, 0.0])}
    shown = learning.pairs_to_see(scores, judged, "plain", "five")
    assert [group.id for _, group, _ in shown] == ["1", "2"]


def test_the_two_to_see_are_a_regression_and_a_loss_of_pairs_where_there_are_such():
    """A reader may ask for any learners: what is not trained cannot be looked at."""
    assert learning.two_to_see(["five", "helpfulness", "plain"]) == ("helpfulness", "plain")
    assert learning.two_to_see(["five", "five-weighted"]) == ("five", "five-weighted")
    assert learning.two_to_see(["five", learning.LONGER]) is None


# The sequel


def test_the_sequels_rows_are_those_of_its_table_and_say_where_they_were_read():
    """Every row that a learner stands for is there; none of them is the paper's, and all are second-hand."""
    table = paper.BEYOND["sequel"]
    assert set(learning.SEQUEL_ROWS.values()) == set(table.rows)
    assert set(learning.SEQUEL_ROWS) <= set(names.LEARNERS)
    sources = paper.read_from("sequel")
    assert all(source.startswith("secondary") for source in sources.values())
    assert table.columns == ["overall", "chat", "chat-hard", "safety", "reasoning"]
    assert "sequel" not in paper.TABLES
    for row in (
        table.rows
    ):  # its overall is the mean of its four sections, to the rounding of five numbers
        sections = [table.values[row, column] for column in table.columns[1:]]
        assert table.values[row, "overall"] == pytest.approx(np.mean(sections), abs=0.1), row


def test_intervals_over_seeds_are_students():
    """By hand: 1, 2, 3 have mean 2, SD 1 and t 4.303 over root 3, which is 2.484."""
    mean, low, high = learners.over_seeds([1.0, 2.0, 3.0])
    assert (mean, low, high) == pytest.approx((2, 2 - 2.484, 2 + 2.484), abs=1e-3)
    assert np.isnan(learners.over_seeds([1.0])[1])
