"""Models that an earlier notebook saved, or that the recipe names in their place."""

from pathlib import Path

import torch

from hs2lib import names
from hs2lib.models.policy import Policy, load_policy
from hs2lib.models.reward_model import RewardModel, load_reward_model
from hs2lib.runs.setup import Setup

REWARD_MODEL = "05_reward_model_training"

SOURCES = "trained-on.txt"  # beside a saved reward model: the names of the data it was trained on


def device() -> str:
    """Where models run: "cuda" where a GPU is seen, else "cpu"."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def name_of(setup: Setup, chosen: str, notebook: str, part: str = "policy") -> str | Path:
    """What to load: the model that the recipe chose, else the one that `notebook` saved.

    That is the notebook's folder at this tier. Tier smoke stands alone: where the notebook has not
    been run there, it is the small base.

    Args:
        setup: of this run.
        chosen: the recipe's choice, "" for none.
        notebook: that saves the model.
        part: of its folder, "policy" or "model".
    """
    if chosen:
        return chosen
    folder = setup.saved(notebook, part)
    if setup.tier == "smoke" and not folder.is_dir():
        return "postcards"
    return folder


def base_policy(setup: Setup) -> Policy:
    """The base that the recipe names, on the device that runs it."""
    return policy(setup, setup.recipe.model_name, setup.notebook)


def starting_policy(setup: Setup, notebook: str = "07_sft", *, frozen: bool = False) -> Policy:
    """The policy that training begins with: the recipe's `start`, else the one `notebook` saved.

    Args:
        setup: of this run.
        notebook: that saved the policy at this tier.
        frozen: for a reference, as for `policy`.
    """
    return policy(setup, setup.recipe.start, notebook, frozen=frozen)


def policy(setup: Setup, chosen: str, notebook: str, *, frozen: bool = False) -> Policy:
    """A policy, named or saved by `notebook`, on the device that runs it.

    Args:
        setup: of this run.
        chosen: its name, or "" for the one that the notebook saved.
        notebook: that saves a policy.
        frozen: for a policy that is only run (`hs2lib.models.base.Decoder.frozen`).

    Raises:
        ValueError: there is no such policy.
    """
    written = getattr(setup.recipe, "written", {})
    loaded = load_policy(name_of(setup, chosen, notebook), **written)
    if frozen:
        loaded.frozen(setup.recipe.autocast)  # before it moves: the device then holds half
    return loaded.to(device())


def save(policy: Policy, setup: Setup) -> Path:
    """Save a policy where later notebooks look for it; returns the folder.

    Its adapters are merged into the weights.
    """
    return policy.merge().save(setup.folder / "policy")


def reward_model(setup: Setup, *, frozen: bool = False) -> RewardModel | None:
    """The reward model that scores answers: the recipe's `reward`, else that of notebook 05.

    A model whose head was never trained says so in its `warning`, which every caption repeats.

    Args:
        setup: of this run.
        frozen: for a model that is only run (`hs2lib.models.base.Decoder.frozen`).

    Returns:
        None where the recipe says "none".
    """
    if setup.recipe.reward == "none":
        return None
    name = name_of(setup, setup.recipe.reward, REWARD_MODEL, "model")
    if name in names.MODELS:
        model = RewardModel.new(name, seed=setup.recipe.seed)
        model.warning = (
            "The reward model's head is random: no reward model was trained at this tier."
        )
    else:
        model = load_reward_model(name)
    if frozen:
        model.frozen(setup.recipe.autocast)
    return model.to(device()).eval()


def required_reward_model(setup: Setup, *, frozen: bool = False) -> RewardModel:
    """`reward_model`, for a method that cannot do without one.

    Args:
        setup: of this run.
        frozen: as for `reward_model`.

    Raises:
        ValueError: the recipe says "none".
    """
    model = reward_model(setup, frozen=frozen)
    if model is None:
        raise ValueError(
            f'{setup.notebook} needs a reward model, got reward "none": leave it "", or name one'
        )
    return model
