"""One scorer: a row a response, and a reason for each group without scores."""

import numpy as np
import torch

from hs2lib.evaluate.score import reasons, score
from hs2lib.group import Group, Response, Turn
from hs2lib.models.reward_model import RewardModel


def group(name, prompt, *texts):
    responses = tuple(Response(f"{name}/{i}", text) for i, text in enumerate(texts))
    return Group(name, (Turn("user", prompt),), responses)


def test_a_row_a_response_with_the_models_own_numbers():
    model = RewardModel.new("tiny", control_text="refuse", max_tokens=80)
    torch.nn.init.normal_(model.head.weight)
    groups = [
        group("a", "Why?", "So.", "Because."),
        group("b", "Why?", "no way " * 100, "So."),
        group("c", "Why?", "<|im_end|>"),
        group("d", "How?", "Well."),
    ]
    frame = score(model, groups, too_long="leave out")
    assert frame.prompt.tolist() == ["a", "a", "b", "b", "c", "d"]
    assert frame.response.tolist() == ["a/0", "a/1", "b/0", "b/1", "c/0", "d/0"]
    assert reasons(frame) == {
        "b": "longer than 80 tokens",
        "c": "it spells out control strings of the template",
    }
    outputs = frame[list(model.attributes)].to_numpy()
    expected = model.score([groups[0], groups[3]]).double().numpy()
    np.testing.assert_array_equal(outputs[[0, 1, 5]], expected)
    assert np.isnan(outputs[2:5]).all()
