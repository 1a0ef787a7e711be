"""tools/departures.py: what each variant trains on, its loss by hand, and Arena Hard's fit."""

import importlib
import sys

import numpy as np
import pandas as pd
import pytest
import torch

from hs2lib.group import Group, Response, Turn
from hs2lib.models.policy import load_policy
from hs2lib.paths import root

sys.path.insert(0, str(root() / "tools"))
departures = importlib.import_module("departures")
sys.path.remove(str(root() / "tools"))

pytestmark = pytest.mark.slow


def talk(id, words):
    """A conversation of one exchange, so many words long."""
    return Group(id, (Turn("user", "Hi"),), (Response(f"{id}/0", "yes " * words),))


def ids(made):
    items, _ = made
    return [item.id for item in items]


def test_a_conversation_that_is_too_long_is_replaced_left_out_or_cut():
    """Of ten it is the fifth. Its replacement is the next one, which is then trained twice."""
    talks = [talk(str(i), 30 if i == 4 else 3) for i in range(10)]
    policy = load_policy("small")
    replaced = ["0", "1", "2", "3", "5", "5+", "6", "7", "8", "9"]
    assert ids(departures.replaced(policy, talks)) == replaced
    assert ids(departures.shortened(policy, talks)) == list("012356789")
    most = departures.limit(policy, talks)
    whole, _ = departures.ours(policy, talks)
    cut, _ = departures.cut_off(policy, talks)
    for one, of_whole in zip(cut, whole, strict=True):
        assert one.sequences[0] == of_whole.sequences[0][:most]
        assert one.targets.item() == sum(stop - start for start, stop in one.starts[0])
    assert cut[4].targets < whole[4].targets and cut[3] == whole[3]


@pytest.mark.parametrize(("variant", "expected"), [("by_conversation", 1.75), ("ours", 2.0)])
def test_the_loss_by_hand(variant, expected):
    """Tokens of probability 1/2, and of 1/4 and 1/8: 1.75 ln 2 by conversation, 2 ln 2 by token."""
    _, objective = getattr(departures, variant)(load_policy("small"), [talk("0", 3)])
    outputs = torch.tensor(np.log([[0.5, 1], [1 / 32, 1]]))
    targets = torch.tensor([[1.0], [2.0]])
    loss = objective.total(outputs, targets, None) / objective.count(targets, None)
    assert loss.item() == pytest.approx(expected * np.log(2))


def test_one_fit_to_all_games_gives_each_models_share_of_games_won(monkeypatch):
    """Arena Hard's fit and the closed form: 3 of 4 games won, and 1.5 of 2."""
    monkeypatch.setattr(departures, "MODELS", 2)
    games = []
    for model, (counted, won) in enumerate([([3, 1], [3, 0]), ([1, 1], [1, 0.5])]):
        table = pd.DataFrame({"counted": counted, "won": won}, dtype=float)
        games.append(departures.one_by_one(table).assign(model=model))
    assert departures.joint(pd.concat(games)) == pytest.approx([75, 75], abs=1e-2)
