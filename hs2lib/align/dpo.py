"""Preference pairs for DPO and iterative DPO, with the reference's log-probabilities.

    pairs = load_pairs(setup)              # HelpSteer2: 10,162 train pairs, 7,221 without ties
    items = prepare(policy, pairs, setup)  # the reference is the policy as it begins
    result = train(policy, items, setup)   # the policy then holds its best or its last weights

Iterative DPO samples responses and takes the best of n against the worst as a pair
(`best_worst_pairs`). It makes its items by `items`, as this module does.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from transformers import TrainerCallback

from hs2lib.align import common
from hs2lib.align.common import Trained, load_rows
from hs2lib.data.load import Loaded
from hs2lib.group import Group
from hs2lib.models.policy import Policy
from hs2lib.runs.setup import Setup
from hs2lib.train import objectives
from hs2lib.train.items import (
    Item,
    Prepared,
    best_worst_pairs,
    compared,
    cut,
    labels_of,
    preferences_of,
)
from hs2lib.train.objectives import Objective
from hs2lib.train.recipes import DPO


def by_attribute(
    groups: Iterable[Group], attribute: str = "helpfulness"
) -> tuple[list[Group], dict[str, int]]:
    """Pairs by human ratings: the response with the highest label against the one with the lowest.

    Paper: section 4.3 ("taking the response with the higher helpfulness score as the chosen
    response"; pairs with equal helpfulness are dropped: 7,221 of 10,162 remain). HelpSteer2's
    groups are pairs by position, so a prompt that occurs twice gives two pairs.

    Args:
        groups: rated groups, or pairs with a preference.
        attribute: the label that decides, or "" for the pairs' own preference.
    Returns: the pairs, chosen before rejected, and counts by name, as `best_worst_pairs`.
    Raises: ValueError where no group has the attribute, naming those there are.
    """
    groups = list(groups)
    if not attribute:
        return best_worst_pairs(groups, preferences_of(groups))
    named = sorted({name for group in groups for name in group.attributes})
    if attribute not in named:
        raise ValueError(f"no group has labels for {attribute!r}; there are: {', '.join(named)}")
    return best_worst_pairs(groups, labels_of(groups, attribute))


@dataclass(frozen=True)
class Pairs:
    """Pairs to train on and to validate on, chosen before rejected.

    Attributes:
        loaded: the rows that the pairs were made of.
        held_out: the rows of the validation pairs, where these have a split of their own.
        training: the pairs to train on.
        validation: the pairs to validate on.
        counts: what the rule counted, by name of a part that has any groups.
        of_paper: whether the training pairs are those that the paper counts: HelpSteer2's whole
            train split, by the paper's rule.
        arguments: the rule, for the run's manifest.
    """

    loaded: Loaded
    held_out: Loaded | None
    training: list[Group]
    validation: list[Group]
    counts: dict[str, dict[str, int]]
    of_paper: bool = False
    arguments: dict[str, object] = field(default_factory=dict)


# A rule of pairs: (groups, the recipe's attribute) -> (pairs, counts by name).
Rule = Callable[[Iterable[Group], str], tuple[list[Group], dict[str, int]]]


def load_pairs(setup: Setup, rule: Rule = by_attribute) -> Pairs:
    """The pairs that the recipe names, to train on and to validate on.

    Paper: section 4.3. A share of the prompts is cut off to validate on. Where the recipe names
    both the train and the validation split, each is used whole.

    Args:
        setup: the run's recipe and folders.
        rule: what makes pairs of groups.
    Raises: as `hs2lib.data.load.load`, `hs2lib.train.items.cut` and the rule.
    """
    recipe = setup.recipe
    loaded = load_rows(recipe)
    held_out = None
    # Of any other two splits one may hold the other: rows trained on would be validated on.
    if not recipe.path and {recipe.split, recipe.validation_split} == {"train", "validation"}:
        held_out = load_rows(recipe, split=recipe.validation_split)
    return paired(loaded, held_out, recipe, rule)


def paired(
    loaded: Loaded, held_out: Loaded | None, recipe: DPO, rule: Rule = by_attribute
) -> Pairs:
    """The pairs of rows that are loaded already; otherwise as `load_pairs`.

    held_out: the rows to validate on; None cuts off a share of the prompts of `loaded`.
    """
    share = recipe.validation_share if held_out is None else 0.0
    parts = cut(loaded.groups, {"validation": share, "train": 1 - share}, recipe.seed)
    if held_out is not None:
        parts["validation"] = held_out.groups
    pairs: dict[str, list[Group]] = {"validation": []}
    counts = {}
    for name, groups in parts.items():
        if groups:
            pairs[name], counts[name] = rule(groups, recipe.attribute)
    whole_split = not share and recipe.strict and recipe.split == "train"
    released = recipe.dataset == "helpsteer2" and not loaded.generated and not loaded.own
    papers_rule = rule is by_attribute and recipe.attribute == "helpfulness"
    of_paper = whole_split and released and papers_rule
    return Pairs(
        loaded=loaded,
        held_out=held_out,
        training=pairs["train"],
        validation=pairs["validation"],
        counts=counts,
        of_paper=of_paper,
        arguments={"rule": rule},
    )


def items(
    reference: Policy, pairs: Iterable[Group], too_long: str = "raise", **options: object
) -> tuple[list[Item], dict[str, int]]:
    """Items for `objectives.dpo`: each pair with the reference's log-probabilities.

    Paper: section 4.3. The reference is the policy before training, so call this first. It runs
    once: a run that is repeated, or goes on after it was killed, reads the results from the cache.

    Args:
        reference: the policy that DPO stays close to.
        pairs: groups of two responses, chosen before rejected.
        too_long: what to do with a pair that does not fit, as in `items.compared`.
        **options: budget, autocast and cache, as for `Policy.log_probs`.
    Returns: the items, and what was counted of the pairs, by name. An item's targets are [2, 2]:
        for each response the preference's value and log pi_ref(y|x).
    Raises: as `items.compared`.
    """
    compared_items, counts = compared(reference, pairs, too_long=too_long)
    del counts["ties_left_out"]  # the rule of pairs counts them
    reference_log_probs = _log_probs(reference, compared_items, **options)  # [pairs, 2]
    with_reference = []
    for item, log_probs in zip(compared_items, reference_log_probs, strict=True):
        targets = np.column_stack([item.targets, log_probs])  # [2, 2]
        with_reference.append(replace(item, targets=targets))
    return with_reference, counts


def prepare(policy: Policy, pairs: Pairs, setup: Setup) -> Prepared:
    """Items of the training and the validation pairs, cached in the run's folder.

    Paper: section 4.3. The policy as it begins is the reference. Where the recipe sets `n_pairs`,
    as many training pairs are drawn by the seed.
    """
    recipe = setup.recipe
    training_pairs = pairs.training
    if recipe.n_pairs:
        order = np.random.default_rng(recipe.seed).permutation(len(training_pairs))
        drawn = sorted(order[: recipe.n_pairs])
        training_pairs = [training_pairs[i] for i in drawn]
    options = {"too_long": recipe.too_long, "cache": setup.folder, **recipe.inference}
    counts = {}
    validation = []
    if pairs.validation:
        validation, counts["validation"] = items(policy, pairs.validation, **options)
    training, counts["train"] = items(policy, training_pairs, **options)
    return Prepared(training, validation, counts)


def train(
    policy: Policy,
    items: Prepared,
    setup: Setup,
    *,
    objective: Objective | None = None,
    callbacks: Sequence[TrainerCallback] = (),
) -> Trained:
    """Train a policy in place on pairs, by `hs2lib.align.common.train`.

    Paper: section 4.3.

    Args:
        policy: the policy to train, the one that `items` took for the reference.
        items: what `prepare` returned.
        setup: the run's recipe and folders.
        objective: a loss in place of `objectives.dpo(recipe.beta)`.
        callbacks: as for `common.train`.
    """
    return common.train(
        policy,
        items,
        setup.recipe,
        objective=objective or objectives.dpo(setup.recipe.beta),
        folder=setup.folder,
        callbacks=callbacks,
    )


def log_ratios(policy: Policy, pairs: Sequence[Item], **options: object) -> np.ndarray:
    """log pi(y|x) - log pi_ref(y|x) of the chosen and the rejected response of each item.

    Paper: section 4.3. Times beta they are the implicit rewards.

    Args:
        policy: the policy pi.
        pairs: what `items` returned; the reference's log-probabilities are in their targets.
        **options: budget, autocast and cache, as for `Policy.log_probs`.
    Returns: float32 [pairs, 2], nats.
    """
    policy_log_probs = _log_probs(policy, pairs, **options)  # [pairs, 2]
    reference_log_probs = np.stack([item.targets[:, 1] for item in pairs])  # [pairs, 2]
    return policy_log_probs - reference_log_probs


def _log_probs(policy: Policy, pairs: Sequence[Item], **options: object) -> np.ndarray:
    """log pi(y|x) of the chosen and the rejected response of each item, float32 [pairs, 2]."""
    return policy.rows(pairs, "log-probs", **options).numpy().reshape(len(pairs), 2)
