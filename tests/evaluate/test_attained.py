"""SteerLM 2.0's own measure, and what is said of it."""

import pandas as pd
import pytest
import torch
from tiny_training import setup_in

from hs2lib.align import steerlm2
from hs2lib.data.load import Loaded
from hs2lib.evaluate import attained, response_rows
from hs2lib.evaluate.comparison import Comparison
from hs2lib.group import ATTRIBUTES, Group, Turn
from hs2lib.models.reward_model import RewardModel
from hs2lib.train.recipes import SteerLM2

RECIPE = SteerLM2(n_boot=100, n_eval_prompts=3)


def rows(policy: str, truth: float, score: float) -> pd.DataFrame:
    """Three answers of a policy whose attributes are all alike."""
    columns = {"policy": policy, "prompt": list("abc"), "response": list("abc"), "settings": "same"}
    columns |= {response_rows.truth_of(name): truth for name in ATTRIBUTES}
    columns |= {response_rows.score_of(name): score for name in ATTRIBUTES}
    return pd.DataFrame(columns)


def compared(folder, *frames: pd.DataFrame, source: str = "small world (generated)") -> Comparison:
    groups = [Group(name, (Turn("user", name),), (), source=source) for name in "abc"]
    model = RewardModel.new("tiny")
    return Comparison(
        setup_in(folder, RECIPE), Loaded(groups, source, True), model, None, list(frames)
    )


def test_the_measure_is_the_targets_probability_by_the_truth_and_by_the_reward_model(
    tmp_path, monkeypatch
):
    """Answers that have what was asked for but for verbosity; the reward model sees 2 in everything."""
    monkeypatch.setattr(Comparison, "truth_known", True)
    both = compared(tmp_path, rows("SFT", 4.0, 2.0))
    assert attained.measure_promise(both) == "true log P(a|x,y)"
    (frame,) = both.frames
    for column, value in (("true log P(a|x,y)", 4.0), ("reward model's log P(a|x,y)", 2.0)):
        seen = torch.full((1, 5), value, dtype=torch.float64)
        expected = steerlm2.attribute_log_prob(seen, ATTRIBUTES, RECIPE.target, RECIPE).item()
        assert frame[column].tolist() == pytest.approx([expected] * 3)
    monkeypatch.setattr(Comparison, "truth_known", False)
    alone = compared(tmp_path, rows("SFT", 4.0, 2.0))
    assert attained.measure_promise(alone) == "reward model's log P(a|x,y)"
    assert "true log P(a|x,y)" not in alone.frames[0]


def test_of_all_policies_those_of_the_iterations_are_left_for_others(tmp_path):
    """SFT and SteerLM are left by their own notebooks; notebook 13 reads both iterations here."""
    both = compared(
        tmp_path, *(rows(name, 4.0, 2.0) for name in ("SFT", "SteerLM", *attained.names(2)))
    )
    attained.save(both)
    left = pd.read_csv(tmp_path / response_rows.FILE)
    assert left.policy.unique().tolist() == ["SteerLM 2.0, iteration 1", "SteerLM 2.0"]
    assert attained.shown(both.setup) == [
        "SFT",
        "SteerLM",
        "SteerLM 2.0, iteration 1",
        "SteerLM 2.0",
    ]


@pytest.mark.parametrize(
    ("low", "high", "over_sft", "says"),
    [
        (0.1, 0.9, 0.5, "**SteerLM 2.0 improves on SteerLM here**"),
        (-0.9, -0.1, 0.5, "**SteerLM 2.0 moves answers away from it**"),
        (-0.1, 0.1, -0.5, "**SteerLM 2.0 is not shown to work**"),
    ],
)
def test_the_conclusion_is_that_of_the_interval(low, high, over_sft, says):
    """Zero inside: nothing is shown. That it stays below SFT is said where that interval ends below zero."""
    columns = ["measure", "policy", "minus", "95 % low", "95 % high"]
    gains = pd.DataFrame(
        [("m", "SteerLM 2.0, iteration 1", 5, 4, 6), ("m", "SteerLM 2.0", 0, low, high)],
        columns=columns,
    )
    above = pd.DataFrame([("m", "SteerLM 2.0", over_sft, over_sft - 1, over_sft)], columns=columns)
    text = attained.conclusion(gains, above, "m")
    assert text.startswith(says) and text.endswith("It stays below SFT.") == (over_sft < 0)


def test_an_iteration_that_trained_nothing_is_named():
    summary = pd.DataFrame(
        {
            "iteration": [1, 2],
            "effective samples": [2.0, 3.0],
            "best step": [0, 4],
            "distance before": [0.5, 0.6],
        }
    ).assign(**{"distance best": [0.5, 0.2]})
    descents = pd.DataFrame({"equation 8, n = 10": [1, 0.04], "equation 11, n = 10": [1, 2e-6]})
    variances = pd.DataFrame({"ratio": [1.0, 3.0, 2.0]})
    words = attained.sentences(summary, descents, variances, RECIPE)
    assert words[:3] == [
        "In the toy the KL ends at 2.0e-06 with the baseline and at 4.0e-02 without.",
        "On this policy the baseline divides the variance of a group's gradient by 2.0 "
        "(median of 3 prompts, 1.0 to 3.0).",
        "Samples were drawn at temperature 0.7 and top-p 0.9; the effective number of them a prompt is 2.5 of 10.",
    ]
    assert words[3:] == [
        "Iteration 1: the distance on the prompts that choose the step goes from 0.500 to 0.500.",
        "The best step of iteration 1 is 0: it trained nothing.",
        "Iteration 2: the distance on the prompts that choose the step goes from 0.600 to 0.200.",
    ]
    assert attained.trained(summary) == ["SteerLM 2.0"]
