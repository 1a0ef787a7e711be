"""What a predicted value means: ratings by fifths of the prediction."""

import numpy as np
import pandas as pd
import pytest

from hs2lib.evaluate import predicted_values
from hs2lib.evaluate.reward_metrics import RATINGS, TRAINED, TRUTH, Evaluated
from hs2lib.runs.setup import Setup
from hs2lib.train import recipes

SETUP = Setup("05", "smoke", {}, recipes.RewardModel(n_boot=200))
PAIRS = Setup("05", "smoke", {}, recipes.RewardModel(n_boot=200, objective="bradley-terry"))


def evaluated(rated, predicted):
    """Two responses a prompt; the truth is none of the ratings, and nothing is read from it."""
    n = len(rated)
    prompts = np.arange(n) // 2
    labels = {TRUTH: np.full((n, 1), 9.0), RATINGS: np.asarray(rated, float)[:, None]}
    values = {"mean": np.zeros((n, 1)), TRAINED: np.asarray(predicted, float)[:, None]}
    return Evaluated(("tone",), labels, values, prompts, prompts, pd.DataFrame())


def test_fifths_by_hand_and_a_timid_model():
    """A model that says half of what it should: in fifths of 20 the means are 9.5 apart from the middle."""
    rated = np.arange(100.0)
    rng = np.random.default_rng(0)
    order = rng.permutation(100)
    one = evaluated(rated[order], rated[order] / 2)
    table = predicted_values.by_fifth(one, SETUP)
    assert table.responses.tolist() == [20] * 5
    assert table.rated.tolist() == [9.5, 29.5, 49.5, 69.5, 89.5]
    assert table.predicted.tolist() == [4.75, 14.75, 24.75, 34.75, 44.75]
    assert table["10 %"][0] == pytest.approx(1.9) and table["90 %"][0] == pytest.approx(17.1)
    assert ((table["95 % low"] < table.rated) & (table.rated < table["95 % high"])).all()


def test_no_table_of_few_responses_or_of_a_model_of_preferences():
    few = evaluated(np.arange(40.0), np.arange(40.0))
    many = evaluated(np.arange(60.0), np.arange(60.0))
    assert predicted_values.by_fifth(few, SETUP).empty
    assert predicted_values.by_fifth(many, PAIRS).empty
    assert len(predicted_values.by_fifth(many, SETUP)) == 5
