"""Preference pairs for DPO and iterative DPO, with the reference's log-probabilities.

pairs, counts = by_attribute(groups)               # HelpSteer2: 10,162 train pairs, 7,221 without the ties
pairs, counts = by_score(sampled, scores)          # iterative DPO: the best of n samples against the worst
pair_items, counts = items(policy, pairs, cache=folder)    # for trainer.fit with objectives.dpo(beta)
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from hs2lib.group import Group
from hs2lib.models.policy import Policy
from hs2lib.train.items import Item, by_score, compared, labels_of


def by_attribute(groups: Iterable[Group], attribute: str = "helpfulness") -> tuple[list[Group], dict[str, int]]:
    """Pairs by human ratings: the response with the highest label against the one with the lowest.

    Paper: section 4.3 ("taking the response with the higher helpfulness score as the chosen response"; pairs with equal
    helpfulness are dropped: 7,221 of 10,162 remain). HelpSteer2's groups are pairs by position, so a prompt that occurs
    twice gives two pairs. Returns as `by_score`. Raises ValueError where no group has the attribute, naming
    those it has.
    """
    groups = list(groups)
    named = sorted({name for group in groups for name in group.attributes})
    if attribute not in named:
        raise ValueError(f"no group has labels for {attribute!r}; there are: {', '.join(named)}")
    return by_score(groups, labels_of(groups, attribute))


def items(reference: Policy, pairs: Iterable[Group], too_long="raise", **options) -> tuple[list[Item], dict]:
    """Items for `objectives.dpo`: targets [2, 2], the preference's value and log pi_ref(y|x) of each response.

    Paper: section 4.3 (the reference is the policy before training, so call this first). options: budget, autocast
    and cache of `Policy.log_probs`: the reference runs once, and a repeated or killed run reads its results. too_long
    and what is raised as in `items.compared`.
    """
    bare, counts = compared(reference, pairs, too_long=too_long)
    both = zip(bare, _log_probs(reference, bare, **options), strict=True)
    return [replace(item, targets=np.column_stack([item.targets, log_p])) for item, log_p in both], counts


def log_ratios(policy: Policy, pairs: Sequence[Item], **options) -> np.ndarray:
    """log pi(y|x) - log pi_ref(y|x) of the chosen and the rejected response of each item: float32 [pairs, 2], nats.

    Paper: section 4.3 (times beta they are the implicit rewards). options: as for `Policy.log_probs`.
    """
    return _log_probs(policy, pairs, **options) - np.stack([item.targets[:, 1] for item in pairs])


def _log_probs(policy: Policy, pairs: Sequence[Item], **options) -> np.ndarray:
    return policy.rows(pairs, "log-probs", **options).numpy().reshape(len(pairs), 2)
