"""A tiny policy and a tiny trained reward model, made once a session: by xdist, once in each worker.

They are there to be read. A test that trains a model or edits it takes a copy, or loads the folder;
where a test has changed one of them all the same, the end of the session is an error. What they
need is imported when they are made, because that takes seconds.
"""

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hs2lib import paths


def share_models(runs: Path) -> Path:
    """Let a folder of runs have the small random models that all tests use: to build one takes seconds.

    It is called while `HS2_RUNS` is still what it was. Returns the folder.
    """
    models = paths.runs() / "models"
    for folder in (models, runs):
        folder.mkdir(parents=True, exist_ok=True)
    if not (runs / "models").exists():
        (runs / "models").symlink_to(models)
    return runs


@contextmanager
def read_only(model):
    """The model, which has to be at the end what it was."""

    def state():
        trained = [name for name, weight in model.named_parameters() if weight.requires_grad]
        return model.fingerprint(), model.training, trained

    before = state()
    yield model
    assert state() == before, f"a test changed the {model.kind} that others read: it takes a copy"


@pytest.fixture(scope="session")
def tiny_policy() -> Iterator:
    """The policy `tiny`, to read from."""
    from hs2lib.models.policy import load_policy

    with read_only(load_policy("tiny")) as policy:
        yield policy


@pytest.fixture
def own_policy(tiny_policy):
    """A copy of the policy `tiny`, to train or to edit."""
    return copy.deepcopy(tiny_policy)


@pytest.fixture(scope="session")
def trained_folder(tmp_path_factory) -> Path:
    """The folder of a reward model: `tiny`, trained a little on ratings of the small world."""
    from hs2lib.models.reward_model import RewardModel
    from hs2lib.train.items import rated
    from hs2lib.train.objectives import REGRESSION
    from hs2lib.train.trainer import Recipe, fit
    from hs2lib.world import sets

    model = RewardModel.new("tiny")
    items, _ = rated(model, sets.groups(24, seed=1))
    recipe = Recipe(steps=20, batch=8, learning_rate=1e-2, warmup=2, keep=0)
    fit(model, items, (), REGRESSION, recipe, tmp_path_factory.mktemp("training"))
    return model.save(tmp_path_factory.mktemp("trained") / "model")


@pytest.fixture(scope="session")
def trained_reward_model(trained_folder) -> Iterator:
    """The reward model of that folder, to read from: five outputs, each about its mean rating."""
    from hs2lib.models.reward_model import load_reward_model

    with read_only(load_reward_model(trained_folder)) as model:
        yield model


@pytest.fixture
def own_reward_model(trained_reward_model):
    """A copy of the trained reward model, to train or to edit."""
    return copy.deepcopy(trained_reward_model)
