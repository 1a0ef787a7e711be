"""One round of iterative DPO before its training: sample, score, and set each prompt's best against its worst.

    found = sampled_pairs(policy, prompts, reward_model, n=10, max_new_tokens=512, file=folder)
    items, report = preferences.items(policy, found.pairs, cache=folder)          # then train.fit with dpo(beta)

Paper: section 4.3, second half (20,000 prompts, 10 responses each, temperature .7, top-p .9, goodness).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from hs2lib.data import Group
from hs2lib.losses import goodness
from hs2lib.preferences import by_score
from hs2lib.rollout import rollouts
from hs2lib.trees import BUDGET
from hs2lib.weights import named


@dataclass(frozen=True)
class Sampled:
    """What a round sampled: groups of n samples, goodness float64 [prompts, n], and the pairs made of them."""

    groups: list[Group]
    goodness: np.ndarray
    pairs: list[Group]
    counts: dict[str, int]

    def summary(self) -> dict[str, float]:
        """Means over prompts of the worst, the mean and the best goodness, shares, and the pairs' number."""
        samples = [sample for group in self.groups for sample in group.responses]
        out = {"prompts": len(self.groups), "samples": len(samples), "pairs": len(self.pairs)}
        of = {"worst": self.goodness.min(1), "mean": self.goodness.mean(1), "best": self.goodness.max(1)}
        out |= {f"{name} goodness": float(values.mean()) for name, values in of.items()}
        out["finished (%)"] = 100 * float(np.mean([sample.finished for sample in samples]))
        return out


def sampled_pairs(
    policy,
    prompts: Sequence[Group],
    reward_model,
    *,
    n: int = 10,
    weighting: str = "goodness",
    unfinished: str = "keep",
    budget: int = BUDGET,
    autocast: torch.dtype | None = None,
    **sampling,
) -> Sampled:
    """Sample n responses to each prompt, score them, and pair each prompt's best with its worst.

    Paper: section 4.3 (goodness .65 helpfulness + .8 correctness + .45 coherence; `weighting` by name as in
    `weights.named`). unfinished: what to do with samples that reached max_new_tokens, "keep" or "leave out" of the
    pairs (paper silent). sampling: as for `rollout.rollouts`, its seed, temperature, top_p, max_new_tokens and file.
    Prompts whose samples all score alike give no pair. Raises as `rollouts`, and ValueError where no pair is left.
    """
    if unfinished not in ("keep", "leave out"):
        raise ValueError(f'unfinished is "keep" or "leave out", got {unfinished!r}')
    groups = rollouts(policy, prompts, n=n, autocast=autocast, **sampling)
    scores = reward_model.score(groups, budget=budget, autocast=autocast)
    weights = torch.tensor(named(weighting, reward_model.attributes), dtype=scores.dtype)
    good = goodness(scores, weights).double().numpy().reshape(len(groups), n)
    finished = np.array([[sample.finished for sample in group.responses] for group in groups])
    used = np.where(finished | (unfinished == "keep"), good, np.nan)
    pairs, counts = by_score(groups, used.ravel())
    if not pairs:
        raise ValueError(f"none of {len(groups)} prompts has two samples that score differently: {counts}")
    return Sampled(groups, good, pairs, counts)


def slices(prompts: Sequence[Group], rounds: int, each: int) -> list[list[Group]]:
    """The prompts of each round, `each` new ones a round. Raises ValueError where there are too few for all rounds."""
    if rounds < 1 or each < 1 or len(prompts) < rounds * each:
        raise ValueError(f"{rounds} rounds of {each} prompts need {rounds * each} prompts, there are {len(prompts)}")
    return [list(prompts[r * each : (r + 1) * each]) for r in range(rounds)]
