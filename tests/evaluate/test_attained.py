"""SteerLM 2.0's own measure, and the steps of its iterations."""

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


def test_the_two_steps_from_sft_add_up(tmp_path):
    """SteerLM one point below SFT, the first iteration half a point above it, the last three quarters."""
    frames = []
    for name, shift in zip(
        ("SFT", "SteerLM", *attained.names(2)), (0, -1, -0.5, -0.25), strict=True
    ):
        frame = rows(name, 3.0 + shift, 2.0)
        for column in frame.columns[4:]:
            frame[column] += [0.01, 0.02, 0.03]
        frames.append(frame)
    steps = attained.differences(compared(tmp_path, *frames))
    of_one = steps[steps.measure == "true helpfulness"].difference
    assert of_one.tolist() == pytest.approx([-1, 0.5, 0.75, -0.25])


def test_an_iteration_whose_best_step_is_0_trained_nothing():
    summary = pd.DataFrame({"iteration": [1, 2], "best step": [0, 4]})
    assert attained.trained(summary) == ["SteerLM 2.0"]
