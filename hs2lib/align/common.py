"""What the methods share: reading the rows that a recipe names, and training a policy on items.

loaded = load_rows(recipe)
trained = train(policy, items, recipe, objective=objectives.sft(), folder=folder)
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from transformers import TrainerCallback

from hs2lib.data.load import Loaded, load
from hs2lib.models.policy import Policy
from hs2lib.train.items import Prepared
from hs2lib.train.objectives import Objective
from hs2lib.train.recipes import Aligned, OwnRatings
from hs2lib.train.trainer import TrainingResult, fit


def load_rows(recipe: Aligned, *, split: str = "", n_prompts: int = 0) -> Loaded:
    """The rows of the recipe's data set.

    Args:
        recipe: of any method.
        split: in place of the recipe's.
        n_prompts: how many prompts to generate, in place of the recipe's.
    Raises: as `hs2lib.data.load.load`.
    """
    own = {}
    if isinstance(recipe, OwnRatings):
        own = {
            "path": recipe.path or None,
            "scale": recipe.scale,
            "columns": recipe.columns,
        }
    return load(
        recipe.dataset,
        recipe.source,
        split=split or recipe.split,
        strict=recipe.strict,
        n_prompts=n_prompts or recipe.n_prompts,
        seed=recipe.seed,
        **own,
    )


@dataclass(frozen=True, kw_only=True)
class Trained(TrainingResult):
    """A trained policy, with the history of its training.

    Attributes:
        policy: the policy, which holds its best weights, or its last ones.
    """

    policy: Policy = field(compare=False, repr=False)


def train(
    policy: Policy,
    items: Prepared,
    recipe: Aligned,
    *,
    objective: Objective,
    folder: Path,
    callbacks: Sequence[TrainerCallback] = (),
) -> Trained:
    """Train a policy in place on items by an objective; it then holds its best or its last weights.

    The best weights are those with the lowest validation loss. The last ones stay without
    validation, or where the recipe's `keep` is 0. The training's own folder is named by all that
    makes it. A training that was killed goes on there, and one that is done is read. With `method:
    lora` adapters are trained: new ones, or those that the policy has.

    Args:
        policy: the policy to train.
        items: to train on and to validate on.
        recipe: how to train.
        objective: what is minimised.
        folder: where trainings lie.
        callbacks: of transformers, such as `hs2lib.train.progress.Live`.
    Raises: as `hs2lib.train.trainer.fit`.
    """
    if recipe.method == "lora" and not policy.adapter:
        policy.lora(rank=recipe.lora_rank, alpha=2 * recipe.lora_rank)
    result = fit(
        policy, items.training, items.validation, objective, recipe, folder, callbacks=callbacks
    )
    found = vars(result) | {"arguments": {"objective": objective}}
    return Trained(**found, policy=policy)
