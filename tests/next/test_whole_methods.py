"""The whole method in thirty lines is the library's: the notebook's own cell is executed.

Its loss and its gradient are held to those that the library's trainer computes of the same items,
after the cell's own steps, where policy and reference differ.
"""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import nbformat
import numpy as np
import pytest
import torch
import torch.nn.functional as F

from hs2lib.align import dpo, sft
from hs2lib.engine.attention import end_states, response_log_probs
from hs2lib.engine.trees import pack
from hs2lib.group import ATTRIBUTES
from hs2lib.models.policy import load_policy
from hs2lib.models.reward_model import RewardModel
from hs2lib.train import objectives
from hs2lib.train.items import rated
from hs2lib.train.trainer import targets_of
from hs2lib.world import sets

NOTEBOOKS = Path(__file__).parents[2] / "next" / "notebooks"


def cell(name, id):
    """The source of a cell."""
    cells = nbformat.read(NOTEBOOKS / f"{name}.ipynb", 4).cells
    (found,) = [cell for cell in cells if cell.id == id]
    return found.source


def run_cell(name, **values):
    """The names that the cell of the whole method leaves, at tier smoke."""
    policy = load_policy("postcards")
    saved = SimpleNamespace(
        base_policy=lambda setup: load_policy("postcards"),
        starting_policy=lambda setup: load_policy("postcards"),
    )
    known = {"torch": torch, "F": F, "np": np, "policy": policy, "saved": saved, "setup": None}
    namespace = known | {"tier": "smoke", "learning_rate": 1e-3} | values
    exec(compile(cell(name, "whole"), f"{name}, whole", "exec"), namespace)
    return namespace


def gradient(model):
    """All gradients as one vector."""
    named = sorted(model.named_parameters())
    return torch.cat([parameter.grad.flatten() for _, parameter in named])


def loss_of_items(policy, items, objective):
    """The mean loss of items, packed into one batch of prefix trees."""
    targets, group = targets_of(items, "cpu")
    batch = pack([item.sequences for item in items], [list(item.starts) for item in items])
    outputs = response_log_probs(policy, batch)
    return objective.total(outputs, targets, group) / objective.count(targets, group)


def the_librarys(model, items, objective):
    """Loss and gradient of the library on items, with the weights of a model."""
    policy = load_policy("postcards")
    policy.backbone.load_state_dict(model.state_dict())
    loss = loss_of_items(policy, items, objective)
    loss.backward()
    return loss.item(), gradient(policy.backbone)


def check(namespace, loss, items, objective):
    """Hold a loss of the cell's model, and its gradient, to the library's."""
    model = namespace["model"]
    model.zero_grad()
    loss.backward()
    theirs, their_gradient = the_librarys(model, items, objective)
    assert loss.item() == pytest.approx(theirs, rel=1e-5)
    apart = (gradient(model) - their_gradient).norm()
    assert apart < 1e-4 * their_gradient.norm()
    assert namespace["losses"][-1] < namespace["losses"][0]


def test_dpo():
    groups = list(sets.groups(40, 0, split="train"))
    pairs, _ = dpo.by_attribute(groups)
    made = run_cell("08_dpo", pairs=SimpleNamespace(training=pairs), beta=0.5)
    few = made["few"]
    assert made["losses"][0] == pytest.approx(np.log(2), rel=1e-5)
    loss = torch.stack(
        [made["loss_of"](made["model"], made["reference"], pair) for pair in few]
    ).mean()
    items, _ = dpo.items(load_policy("postcards"), few)
    check(made, loss, items, objectives.dpo(0.5))


def test_sft():
    talks = list(sets.demonstrations(30, 0, split="train"))
    made = run_cell("07_sft", conversations=SimpleNamespace(training=talks))
    items, _ = sft.items(load_policy("postcards"), made["few"])
    loss = made["loss_of"](made["model"], made["few"])
    check(made, loss, items, objectives.sft())


def test_regression():
    groups = list(sets.groups(20, 0, split="train"))
    # one label is missing: its square must be left out
    first = groups[0].responses[0]
    labels = (float("nan"), *first.labels[1:])
    responses = (replace(first, labels=labels), *groups[0].responses[1:])
    groups[0] = replace(groups[0], responses=responses)
    recipe = SimpleNamespace(model_name="postcards")
    data = SimpleNamespace(groups={"train": groups})
    made = run_cell(
        "05_reward_model_training",
        data=data,
        recipe=recipe,
        attributes=list(ATTRIBUTES),
        load_policy=load_policy,
    )
    body, head = made["body"], made["head"]
    loss = made["loss_of"](body, head, made["few"])
    body.zero_grad()
    head.zero_grad()
    loss.backward()

    model = RewardModel.new("postcards", attributes=ATTRIBUTES, bias=True)
    model.backbone.load_state_dict(body.state_dict())
    model.head.load_state_dict(head.state_dict())
    items, _ = rated(model, made["few"])
    targets, group = targets_of(items, "cpu")
    batch = pack([item.sequences for item in items])
    objective = objectives.named("regression")
    outputs = model.predict(end_states(model.backbone, batch))
    theirs = objective.total(outputs, targets, group) / objective.count(targets, group)
    theirs.backward()
    assert loss.item() == pytest.approx(theirs.item(), rel=1e-5)
    for mine, other in ((body, model.backbone), (head, model.head)):
        apart = (gradient(mine) - gradient(other)).norm()
        assert apart < 1e-4 * gradient(other).norm()
    assert made["losses"][-1] < made["losses"][0]
