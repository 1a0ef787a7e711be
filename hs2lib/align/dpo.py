"""Preference pairs for DPO and iterative DPO, with the reference's log-probabilities.

pairs, counts = by_attribute(groups)               # HelpSteer2: 10,162 train pairs, 7,221 without the ties
pairs, counts = by_score(sampled, goodness)        # iterative DPO: the best of n samples against the worst
pair_items, counts = items(policy, pairs, cache=folder)    # for trainer.fit with objectives.dpo(beta)
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch

from hs2lib.engine.trees import BUDGET
from hs2lib.group import Group
from hs2lib.models.policy import Policy
from hs2lib.models.reward_model import RewardModel
from hs2lib.models.rollout import rollouts
from hs2lib.names import one_of
from hs2lib.paper import head_weights
from hs2lib.train.items import Item, by_score, compared, labels_of
from hs2lib.train.losses import goodness


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


class SampledPairs(NamedTuple):
    """The samples of a round: groups of n samples, goodness float64 [prompts, n], and the pairs made of them."""

    groups: list[Group]
    goodness: np.ndarray
    pairs: list[Group]
    counts: dict[str, int]

    def summary(self) -> dict[str, float]:
        """Means over prompts of the worst, the mean and the best goodness, shares, and the pairs' number."""
        finished = [sample.finished for group in self.groups for sample in group.responses]
        out = {"prompts": len(self.groups), "samples": len(finished), "pairs": len(self.pairs)}
        good = self.goodness[~np.isnan(self.goodness).all(1)]  # a refused sample has none
        by_prompt = {"worst": np.nanmin(good, 1), "mean": np.nanmean(good, 1), "best": np.nanmax(good, 1)}
        out |= {f"{name} goodness": float(values.mean()) for name, values in by_prompt.items()}
        return out | {"finished (%)": 100 * float(np.mean(finished))}


def sampled_pairs(
    policy: Policy,
    prompts: Sequence[Group],
    reward_model: RewardModel,
    *,
    n: int = 10,
    weighting: str = "goodness",
    unfinished: str = "keep",
    budget: int = BUDGET,
    **sampling,
) -> SampledPairs:
    """Sample n responses to each of the prompts (groups), score them, and pair each prompt's best with its worst.

    Paper: section 4.3 (goodness .65 helpfulness + .8 correctness + .45 coherence; `weighting` by name as in
    `weights.named`). unfinished: what to do with samples that reached max_new_tokens, "keep" or "leave out" of the
    pairs (paper silent). budget: size of a batch that is scored, tokens. sampling: as for `rollout.rollouts`, its
    seed, temperature, top_p, max_new_tokens, autocast and file, a folder, where the scores are kept too.
    Prompts whose samples all score alike give no pair. Raises as `rollouts`, and ValueError for another word of
    `unfinished` and where no pair is left.
    """
    one_of("unfinished", unfinished, ("keep", "leave out"))
    groups = rollouts(policy, prompts, n=n, **sampling)
    passes = {"budget": budget, "autocast": sampling.get("autocast", "float32"), "cache": sampling.get("file")}
    scores = reward_model.score(groups, **passes)
    weights = torch.tensor(head_weights(weighting, reward_model.attributes), dtype=scores.dtype)  # [A]
    good = goodness(scores, weights).double().numpy().reshape(len(groups), n)  # [B, n]
    finished = np.array([[sample.finished for sample in group.responses] for group in groups])  # [B, n]
    pairs, counts = by_score(groups, np.where(finished | (unfinished == "keep"), good, np.nan).ravel())
    if not pairs:
        raise ValueError(f"none of {len(groups)} prompts has two samples that score differently: {counts}")
    return SampledPairs(groups, good, pairs, counts)


def slices(prompts: Sequence[Group], rounds: int, each: int) -> list[list[Group]]:
    """The prompts of each round, `each` new ones a round. Raises ValueError where there are too few for all rounds."""
    if rounds < 1 or each < 1 or len(prompts) < rounds * each:
        raise ValueError(f"{rounds} rounds of {each} prompts need {rounds * each} prompts, there are {len(prompts)}")
    return [list(prompts[r * each : (r + 1) * each]) for r in range(rounds)]
