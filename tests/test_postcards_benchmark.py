"""The study of the methods on postcards: its arithmetic, and what it asks for."""

import importlib
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from hs2lib.world import grade, sets

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))
postcards = importlib.import_module("postcards")


class Answered:
    """A world whose policies have answered already: the true score by policy and prompt."""

    def __init__(self, true):
        self.true = true

    def answers(self, name, temperature=0.0, label=None):
        true = np.asarray(self.true[name], float)
        n_samples = 2 if true.ndim > 1 else 1
        prompts = np.repeat([f"p{i}" for i in range(len(true))], n_samples)
        return pd.DataFrame({"prompt": prompts, "true": true.ravel(), "judge": -true.ravel()})


def test_a_gain_is_paired_by_prompt_and_its_interval_is_over_seeds():
    worlds = [
        Answered({"sft": [1.0, 2.0], "dpo": [2.0, 3.0]}),
        Answered({"sft": [1.0, 1.0], "dpo": [3.0, 3.0]}),
        Answered({"sft": [0.0, 4.0], "dpo": [3.0, 7.0]}),
    ]
    mean, low, high = postcards.gain(worlds, "dpo", "sft")
    assert mean == pytest.approx(2)
    half = 4.302652729911275 * 1 / np.sqrt(3)  # Student's t of 2 degrees of freedom, 97.5 %
    assert (low, high) == (pytest.approx(2 - half), pytest.approx(2 + half))
    assert postcards.verdict(0.1, 1) == "above"
    assert postcards.verdict(-1, -0.1) == "below"
    assert postcards.verdict(-1, 1) == "no clear effect"


def test_the_best_of_four_is_the_judges():
    """The stub's judge likes what is worst."""
    world = Answered({"sft": [[1.0, 2.0], [5.0, 3.0]]})
    assert postcards.means(world, "best of 4", 0.0).tolist() == [1, 3]


def test_labels_of_a_level_ask_for_what_is_steered_alone():
    two, four = postcards.levels(postcards.QUALITY, (2, 4))
    assert four == postcards.TARGET
    assert two == "helpfulness:2,correctness:2,coherence:2,complexity:2,verbosity:2"


def test_every_method_has_a_start_a_recipe_and_a_control():
    for name in postcards.METHODS:
        assert postcards.start_of(name) in ("base", *postcards.STARTS)
        assert postcards.RECIPES[name].source == "postcards"
        assert any(postcards.method_of(control) == name for control in postcards.CONTROLS)


def test_what_the_judge_is_asked_by_fault_is_a_pair_for_every_fault():
    group = next(iter(sets.groups(1, 777, split="validation")))
    faults = [f for f in postcards.pairs.FAULTS if postcards.pairs.one_fault(group, f)]
    assert len(faults) >= 7
    for fault in faults:
        better, worse = grade.true_goodness(postcards.pairs.one_fault(group, fault))
        assert better > worse
