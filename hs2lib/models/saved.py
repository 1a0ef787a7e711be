"""Models that an earlier notebook saved, or that the recipe names in their place."""

from pathlib import Path

import torch

from hs2lib import names
from hs2lib.models.policy import Policy, load_policy
from hs2lib.models.reward_model import RewardModel, load_reward_model
from hs2lib.run.setup import Setup

REWARD_MODEL = "05_reward_model_training"


def device() -> str:
    """Where models run: "cuda" where a GPU is seen, else "cpu"."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def name_of(setup: Setup, chosen: str, notebook: str, part: str = "policy") -> str | Path:
    """What to load: the model that the recipe chose, else the folder in which `notebook` saves its own at this tier.

    Tier smoke stands alone: where that notebook has not been run there, it is the small base.
    """
    if chosen:
        return chosen
    folder = setup.saved(notebook, part)
    if setup.tier == "smoke" and not folder.is_dir():
        return "small"
    return folder


def starting_policy(setup: Setup, notebook: str = "07_sft") -> Policy:
    """The policy that training begins with: the recipe's `start`, else the one that `notebook` saved at this tier."""
    return policy(setup, setup.recipe.start, notebook)


def policy(setup: Setup, chosen: str, notebook: str) -> Policy:
    """A policy, named or saved by `notebook`, on the device that runs it. Raises ValueError where there is none."""
    written = getattr(setup.recipe, "written", {})
    return load_policy(name_of(setup, chosen, notebook), **written).to(device())


def reward_model(setup: Setup) -> RewardModel | None:
    """The reward model that scores answers: the recipe's `reward`, else that of notebook 05 at this tier.

    None where the recipe says "none". One whose head was never trained says so in its `warning`, which every caption
    repeats.
    """
    if setup.recipe.reward == "none":
        return None
    name = name_of(setup, setup.recipe.reward, REWARD_MODEL, "model")
    if name in names.MODELS:
        model = RewardModel.new(name, seed=setup.recipe.seed)
        model.warning = "The reward model's head is random: no reward model was trained at this tier."
    else:
        model = load_reward_model(name)
    return model.to(device()).eval()


def required_reward_model(setup: Setup) -> RewardModel:
    """`reward_model`, for a method that cannot do without one. Raises ValueError where the recipe says "none"."""
    model = reward_model(setup)
    if model is None:
        raise ValueError(f'{setup.notebook} needs a reward model, got reward "none": leave it "", or name one')
    return model
