"""Preference pairs for DPO and iterative DPO, with the reference's log-probabilities.

    pairs = load_pairs(setup)                  # HelpSteer2: 10,162 train pairs, 7,221 without the ties
    items = prepare(policy, pairs, setup)      # with the log-probabilities of the reference, the policy as it begins
    result = train(policy, items, setup)       # the policy then holds its best or its last weights

Iterative DPO makes its pairs of samples by `by_score`, the best of n against the worst, and `items`
of them.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd

from hs2lib.data.load import Loaded, load
from hs2lib.group import Group
from hs2lib.models.policy import Policy
from hs2lib.run.setup import Setup
from hs2lib.train import objectives, progress
from hs2lib.train.items import Item, Prepared, by_score, compared, cut, labels_of
from hs2lib.train.objectives import Objective
from hs2lib.train.recipes import DPO
from hs2lib.train.trainer import TrainingResult, fit


def by_attribute(
    groups: Iterable[Group], attribute: str = "helpfulness"
) -> tuple[list[Group], dict[str, int]]:
    """Pairs by human ratings: the response with the highest label against the one with the lowest.

    Paper: section 4.3 ("taking the response with the higher helpfulness score as the chosen
    response"; pairs with equal helpfulness are dropped: 7,221 of 10,162 remain). HelpSteer2's
    groups are pairs by position, so a prompt that occurs twice gives two pairs. Returns as
    `by_score`. Raises ValueError where no group has the attribute, naming those it has.
    """
    groups = list(groups)
    named = sorted({name for group in groups for name in group.attributes})
    if attribute not in named:
        raise ValueError(f"no group has labels for {attribute!r}; there are: {', '.join(named)}")
    return by_score(groups, labels_of(groups, attribute))


@dataclass(frozen=True)
class Pairs:
    """Pairs to train on and to validate on, chosen before rejected.

    loaded: the rows that they were made of; held_out: those of the validation pairs, where they
    have a split of their own. counts: by name of a part that has any groups, as `by_attribute`
    counts. of_paper: whether the training pairs are those that the paper counts, HelpSteer2's whole
    train split by its own rule. arguments: the rule, for the run's manifest.
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

    Paper: section 4.3. A share of the prompts is cut off to validate on; where train and validation
    split are both named, the one is trained on and the other validated on, whole. rule: what makes
    pairs of groups. Raises as `hs2lib.data.load.load`, `hs2lib.train.items.cut` and the rule.
    """
    recipe = setup.recipe
    loaded = _rated(recipe, recipe.split)
    held_out = None
    # Of any other two splits one may hold the other: rows trained on would be validated on.
    if not recipe.path and {recipe.split, recipe.validation_split} == {"train", "validation"}:
        held_out = _rated(recipe, recipe.validation_split)
    return paired(loaded, held_out, recipe, rule)


def paired(
    loaded: Loaded, held_out: Loaded | None, recipe: DPO, rule: Rule = by_attribute
) -> Pairs:
    """`load_pairs` of rows that are here already."""
    share = recipe.validation_share
    if held_out is not None:
        share = 0.0
    parts = cut(loaded.groups, {"validation": share, "train": 1 - share}, recipe.seed)
    if held_out is not None:
        parts["validation"] = held_out.groups
    pairs = {"validation": []}
    counts = {}
    for name, groups in parts.items():
        if groups:
            pairs[name], counts[name] = rule(groups, recipe.attribute)
    whole_split = not share and recipe.strict and recipe.split == "train"
    released = recipe.dataset == "helpsteer2" and not loaded.generated and not loaded.own
    papers_rule = rule is by_attribute and recipe.attribute == "helpfulness"
    of_paper = whole_split and released and papers_rule
    return Pairs(
        loaded, held_out, pairs["train"], pairs["validation"], counts, of_paper, {"rule": rule}
    )


def _rated(recipe: DPO, split: str) -> Loaded:
    """The rows of a split of the recipe's data set."""
    return load(
        recipe.dataset,
        recipe.source,
        path=recipe.path or None,
        split=split,
        strict=recipe.strict,
        n_prompts=recipe.n_prompts,
        seed=recipe.seed,
    )


def items(
    reference: Policy, pairs: Iterable[Group], too_long="raise", **options
) -> tuple[list[Item], dict]:
    """Items for `objectives.dpo`: targets [2, 2], the preference's value and log pi_ref(y|x) of
    each response.

    Paper: section 4.3 (the reference is the policy before training, so call this first). options:
    budget, autocast and cache of `Policy.log_probs`: the reference runs once, and a repeated or
    killed run reads its results. too_long and what is raised as in `items.compared`.
    """
    bare, counts = compared(reference, pairs, too_long=too_long)
    both = zip(bare, _log_probs(reference, bare, **options), strict=True)
    return [
        replace(item, targets=np.column_stack([item.targets, log_p])) for item, log_p in both
    ], counts


def prepare(policy: Policy, pairs: Pairs, setup: Setup) -> Prepared:
    """`items` of both parts, with the policy as it begins for the reference; kept in the run's
    folder.

    Paper: section 4.3. Of the training pairs so many as the recipe's `n_pairs`, drawn by the seed.
    """
    recipe = setup.recipe
    training = pairs.training
    if recipe.n_pairs:
        drawn = np.random.default_rng(recipe.seed).permutation(len(training))[: recipe.n_pairs]
        training = [training[i] for i in sorted(drawn)]
    options = {"too_long": recipe.too_long, "cache": setup.folder, **recipe.inference}
    counts = {}
    validation = []
    if pairs.validation:
        validation, counts["validation"] = items(policy, pairs.validation, **options)
    made, counts["train"] = items(policy, training, **options)
    return Prepared(made, validation, counts)


def train(
    policy: Policy,
    items: Prepared,
    setup: Setup,
    *,
    objective: Objective | None = None,
    callbacks: Sequence = (),
) -> TrainingResult:
    """Train a policy in place; it then holds the weights with the lowest validation loss, or its
    last ones.

    Paper: section 4.3. The recipe says whether all weights are trained or adapters, by our trainer
    or by TRL's. objective: a loss in place of `objectives.dpo(recipe.beta)`. callbacks: as for
    `hs2lib.train.trainer.fit`. Raises ValueError for an objective with TRL, which has its own, and
    as `fit`.
    """
    recipe = setup.recipe
    if recipe.backend == "trl" and objective is not None:
        raise ValueError(
            f"backend 'trl' trains by TRL's own loss, not by {objective.name}: take backend 'groups'"
        )
    if recipe.method == "lora":
        policy.lora(rank=recipe.lora_rank, alpha=2 * recipe.lora_rank)
    if recipe.backend == "trl":
        from hs2lib.align import trl_backends  # here: importing TRL takes seconds

        return trl_backends.fit_dpo(
            policy,
            items.training,
            items.validation,
            recipe.beta,
            recipe,
            setup.folder,
            callbacks=callbacks,
        )
    objective = objective or objectives.dpo(recipe.beta)
    result = fit(
        policy,
        items.training,
        items.validation,
        objective,
        recipe,
        setup.folder,
        about={"backend": recipe.backend},
        callbacks=callbacks,
    )
    return replace(result, arguments={"objective": objective})


def curves(history: list[dict]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """As `hs2lib.train.progress.curves`, without an accuracy at step 0, where margins are 0 but for rounding."""
    training, validation = progress.curves(history)
    if len(validation):
        validation.loc[validation.step == 0, "accuracy"] = np.nan
    return training, validation


def log_ratios(policy: Policy, pairs: Sequence[Item], **options) -> np.ndarray:
    """log pi(y|x) - log pi_ref(y|x) of the chosen and the rejected response of each item: float32
    [pairs, 2], nats.

    Paper: section 4.3 (times beta they are the implicit rewards). options: as for
    `Policy.log_probs`.
    """
    return _log_probs(policy, pairs, **options) - np.stack([item.targets[:, 1] for item in pairs])


def _log_probs(policy: Policy, pairs: Sequence[Item], **options) -> np.ndarray:
    return policy.rows(pairs, "log-probs", **options).numpy().reshape(len(pairs), 2)
