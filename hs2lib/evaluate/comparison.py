"""One comparison of policies for notebooks 07 to 12: same held-out prompts, same random numbers.

    compared = Comparison.begin(setup, reward_model, sft)
    compared.evaluate_first(sft, "SFT")        # unless earlier notebooks left their rows
    compared.evaluate(policy, "DPO")
    compared.save()                            # for later notebooks
    compared.table(), compared.gains("SFT")

Paper: section 4 compares policies on benchmarks that need a judge (notebook 13). This is what the
truth, where it is known, and a reward model say of answers to prompts that nothing was trained on.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pandas as pd

from hs2lib.corpus.generate import is_generated
from hs2lib.data.load import Loaded, load
from hs2lib.evaluate import policies, response_rows
from hs2lib.evaluate.response_rows import GREEDY, SCORE, TRUTH, score_of, truth_of
from hs2lib.group import ATTRIBUTES, Group
from hs2lib.models.policy import Policy
from hs2lib.models.reward_model import RewardModel
from hs2lib.models.rollout import rollouts
from hs2lib.runs.setup import Setup

if TYPE_CHECKING:
    from hs2lib.train.trainer import TrainingResult


def held_out_prompts(setup: Setup) -> Loaded:
    """Prompts that no training text holds.

    There are as many as the recipe's largest use of them asks for, at least ten.
    """
    recipe = setup.recipe
    uses = ("n_eval_prompts", "n_best_prompts", "n_steer_prompts")
    numbers = [getattr(recipe, name, 0) for name in uses]
    return load(
        recipe.eval_dataset,
        recipe.eval_source,
        split=recipe.eval_split,
        strict=recipe.strict,
        n_prompts=max(10, *numbers),
        seed=recipe.seed + 1,
    )


@dataclass
class Comparison:
    """Policies side by side.

    setup: of the run.
    held_out: the prompts that nothing was trained on.
    reward_model: scores answers; None for no scores.
    reference: the policy from which KL is measured, SFT.
    frames: of each policy the rows of `hs2lib.evaluate.response_rows.evaluate`.
    read: files that were read (`hs2lib.paths.digests_by_place`), for the run's manifest.
    n_earlier: how many of the frames earlier notebooks left.
    """

    setup: Setup
    held_out: Loaded
    reward_model: RewardModel | None
    reference: Policy
    frames: list[pd.DataFrame] = field(default_factory=list)
    read: dict[str, str] = field(default_factory=dict)
    n_earlier: int = 0

    @classmethod
    def begin(
        cls,
        setup: Setup,
        reward_model: RewardModel | None,
        reference: Policy,
        *,
        earlier: bool = True,
    ) -> "Comparison":
        """A comparison that holds the rows of earlier notebooks, unless `earlier` is False."""
        frames: list[pd.DataFrame] = []
        read: dict[str, str] = {}
        if earlier:
            frames, read = response_rows.earlier(setup.folder)
        prompts = held_out_prompts(setup)
        return cls(setup, prompts, reward_model, reference, frames, read, len(frames))

    @property
    def prompts(self) -> list[Group]:
        """The prompts that policies answer."""
        return self.held_out.groups[: self.setup.recipe.n_eval_prompts]

    @property
    def truth_known(self) -> bool:
        """Whether the truth about answers is known: the prompts are of the small world."""
        return is_generated(self.prompts)

    @property
    def caption(self) -> str:
        """What was asked, in words."""
        recipe = self.setup.recipe
        return (
            f"{recipe.n_eval_prompts} held-out prompts, {recipe.n_eval_samples} responses each "
            f"of at most {recipe.eval_tokens} tokens, sampled at temperature "
            f"{recipe.eval_temperature:g} and top-p {recipe.eval_top_p:g}; one more where it says "
            "greedy."
        )

    def measure(self, policy: Policy, name: str, label: str | None = None) -> pd.DataFrame:
        """One row an answer of a policy (`response_rows.evaluate`). label: SteerLM's."""
        return response_rows.evaluate(
            policy,
            self.prompts,
            self.reward_model,
            self.reference,
            name=name,
            label=label,
            file=self.setup.folder,
            progress=False,
            **self.setup.recipe.evaluation,
        )

    def answers(
        self, policy: Policy, label: str | None = None, n: int | None = None
    ) -> list[Group]:
        """The answers of a policy that was measured here: they are read, not sampled again.

        n: how many to each prompt, if not as many as were measured.
        """
        options = dict(self.setup.recipe.evaluation)
        options["n"] = n or options["n"]
        for scoring in ("budget", "weighting"):
            options.pop(scoring)
        return rollouts(
            policy, self.prompts, label=label, file=self.setup.folder, progress=False, **options
        )

    def greedy_answers(self, policy: Policy, label: str | None = None) -> list[Group]:
        """The greedy answers of a policy to the prompts; those that are kept are read."""
        recipe = self.setup.recipe
        return rollouts(
            policy,
            self.prompts,
            label=label,
            n=1,
            max_new_tokens=recipe.eval_tokens,
            temperature=0.0,
            top_p=recipe.eval_top_p,
            seed=recipe.seed,
            autocast=recipe.autocast,
            file=self.setup.folder,
            progress=False,
        )

    def greedy(self, policies_by_name: dict[str, Policy], n: int = 1) -> pd.DataFrame:
        """Greedy answers to the first n prompts: policies down, prompts across."""
        prompts = self.prompts[:n]
        texts = {}
        for name, policy in policies_by_name.items():
            answered = rollouts(
                policy,
                prompts,
                n=1,
                max_new_tokens=self.setup.recipe.eval_tokens,
                temperature=0,
                autocast=self.setup.recipe.autocast,
                file=self.setup.folder,
                progress=False,
            )
            texts[name] = [group.responses[0].text for group in answered]
        return pd.DataFrame(texts, index=[group.prompt[-1].text[:200] for group in prompts]).T

    def evaluate(self, policy: Policy, name: str, label: str | None = None) -> pd.DataFrame:
        """`measure` a policy and put it beside the others."""
        self.frames.append(self.measure(policy, name, label))
        return self.frames[-1]

    def evaluate_first(self, policy: Policy, name: str, label: str | None = None) -> None:
        """`evaluate` a policy unless rows of earlier notebooks are here."""
        if not self.frames:
            self.evaluate(policy, name, label)

    def save(self) -> None:
        """Leave the last policy's rows for later notebooks.

        Those of the policies that were measured here before it, as the base that SFT began with,
        are left beside them.
        """
        *others, last = self.frames[self.n_earlier :]
        response_rows.save(self.setup.folder, last)
        if others:
            rows = pd.concat(others, ignore_index=True)
            response_rows.save(self.setup.folder, rows, response_rows.BESIDE)

    def table(self) -> pd.DataFrame:
        """Means and 95 % intervals by measure and policy (`policies.table`)."""
        return policies.table(self.frames, **self.setup.recipe.resampled)

    @property
    def sides(self) -> dict[str, tuple[str, str]]:
        """Each quantity, and its columns by the truth and by the reward model; "" for none.

        `hs2lib.report.figures.changes` draws them.
        """
        attributes = ATTRIBUTES
        if self.reward_model is not None:
            attributes = self.reward_model.attributes
        sides = {"weighted sum, greedy": (GREEDY, "")} if self.truth_known else {}
        sides["weighted sum"] = (TRUTH, SCORE)
        for attribute in attributes:
            sides[attribute] = (truth_of(attribute), score_of(attribute))
        return sides

    def gains(self, against: str) -> pd.DataFrame:
        """Differences from a policy, paired by prompt (`policies.gains_of`)."""
        return policies.gains_of(self.frames, against, **self.setup.recipe.resampled)

    def numbers(
        self, policy: str, before: str | tuple[str, ...], result: "TrainingResult"
    ) -> dict[str, float]:
        """The main numbers of a run, as its `results.json` has them.

        They are the best validation loss, and of the policy, of the one before it and of their
        difference the mean of greedy answers' true score, where it is known, and of the reward
        model's score, with 95 % intervals of the difference over prompts.

        Args:
            policy: the name of the one that the run trained.
            before: the name of the one that it is compared with; of several the first that was
                measured.
            result: of the training.
        """
        numbers = {"validation loss": result.best_loss}
        if isinstance(before, tuple):
            measured = {frame.policy.iloc[0] for frame in self.frames}
            before = next(name for name in before if name in measured)
        means = self.table().set_index(["measure", "policy"])["mean"]
        gains = self.gains(before).set_index(["measure", "policy"])
        for measure, words in ((GREEDY, "true score"), (SCORE, "reward model's score")):
            if (measure, policy) not in means.index:
                continue
            gain, low, high = gains.loc[(measure, policy)]
            numbers[words] = means[measure, policy]
            numbers[f"{words}, before"] = means[measure, before]
            numbers[f"{words}, gained"] = gain
            numbers[f"{words}, gained, low"] = low
            numbers[f"{words}, gained, high"] = high
        return {name: float(value) for name, value in numbers.items() if value == value}
