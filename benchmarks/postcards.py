"""Does each method of the paper work, in a world where the truth is known?

    python benchmarks/postcards.py --seeds 0 1 2 3 4     # trains, answers, writes the table
    python benchmarks/postcards.py --seeds 90 --only sft dpo --set dpo.beta=0.3 --into tuning
    python benchmarks/postcards.py --bases               # what labels do by what the base has read
    python benchmarks/postcards.py --table               # what follows from the answers that are there
    python benchmarks/postcards.py --beside              # variants, and another processor

The world is `hs2lib.world`. The base is frozen; reward model and policies are trained by the
library's own functions, by one recipe for all seeds (`RECIPES`), as the method is and as its
controls: the same call with one argument changed (`CONTROLS`). 400 prompts that ask for a fact that
no prompt of these trainings asks for are answered greedily, and at temperature .7. A difference is
paired by prompt, its mean over prompts is one number a seed, and the interval is Student's t over
seeds.

Everything is kept under runs/postcards/seed-N by what made it, so a run that was stopped goes on.
"""

import argparse
import ast
import json
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import torch
from scipy import stats

from hs2lib import paths
from hs2lib.align import controls, dpo, iterative_dpo, ppo, sft, steerlm, steerlm2
from hs2lib.align.common import load_rows
from hs2lib.evaluate import frontier
from hs2lib.evaluate.answers import answered
from hs2lib.group import Group
from hs2lib.models import reward_training
from hs2lib.models.policy import Policy, load_policy
from hs2lib.models.reward_model import RewardModel, load_reward_model
from hs2lib.models.rollout import rollouts
from hs2lib.report import report
from hs2lib.runs.setup import Setup
from hs2lib.train import losses, recipes
from hs2lib.world import grade, pairs, sets

TARGET = steerlm2.TARGET  # what policies that read labels are asked for
N_EVALUATED = 400  # held-out prompts
N_STEERED = 100  # of these, prompts that are asked for at each level
LONGEST = 128  # tokens of an answer
TOP_P = {0.0: 1.0, 0.7: 0.9}  # by temperature; paper: section 4.3

ROWS = {"source": "postcards"}
SAMPLED = {"max_new_tokens": LONGEST, "temperature": 0.7, "top_p": 0.9}

# One recipe for all seeds.
RECIPES: dict[str, recipes.Recipe] = {
    "reward model": recipes.RewardModel(
        **ROWS,
        model_name="postcards",
        n_prompts=5000,
        epochs=1,
        batch=8,
        learning_rate=3e-4,  # at 8e-4 the judge of one seed in four lost the tone
        warmup=10,
        validation_share=0.03,
        test_share=0.06,
        validate_every=100,
        save_every=1000,
        head="ridge",
        ridge_groups=400,
    ),
    "sft": recipes.SFT(
        **ROWS,
        dataset="demonstrations",
        model_name="postcards",
        n_prompts=2500,
        epochs=1,
        batch=16,
        learning_rate=3e-4,
        warmup=5,
        validation_share=0.04,
        validate_every=40,
        save_every=1000,
    ),
    "dpo": recipes.DPO(
        **ROWS,
        n_prompts=3000,
        beta=0.5,
        epochs=1,
        batch=16,
        learning_rate=1e-4,
        validation_share=0.03,
        validate_every=60,
        save_every=1000,
        keep=1,
    ),
    "iterative dpo": recipes.IterativeDPO(
        **ROWS,
        **SAMPLED,
        rounds=2,
        n_prompts=240,
        n_samples=8,
        beta=0.5,
        epochs=1,
        batch=16,
        learning_rate=3e-5,
        save_every=1000,
        keep=0,
    ),
    "ppo": recipes.PPO(
        **ROWS,
        n_prompts=3000,
        steps=96,
        batch=16,
        buffer=32,
        n_samples=4,
        learning_rate=1e-4,
        kl_weight=0.1,
        kl_form="plain",
        critic="group",
        lam=1.0,
        n_standard=300,
        max_new_tokens=LONGEST,
        budget=8192,
        save_every=96,
        keep=0,
    ),
    "steerlm": recipes.SteerLM(
        **ROWS,
        dataset="helpsteer2",
        n_prompts=4700,
        n_answers=9000,  # with 6000 it bound quality, and not the style
        levels="rounded",
        epochs=1,
        batch=16,
        learning_rate=2e-4,  # above it facts are forgotten
        warmup=5,
        budget=8192,
        save_every=1000,
    ),
    "steerlm 2": recipes.SteerLM2(
        **ROWS,
        **SAMPLED,
        n_prompts=150,
        n_samples=10,
        iterations=2,
        n_validation=20,
        epochs=2,
        batch=8,
        learning_rate=5e-5,
        warmup=4,
        budget=8192,
        save_every=1000,
        edges="rounding",  # as the labels of SteerLM are rounded: a level means the same to both
    ),
}
RECIPES["dpo, short"] = replace(RECIPES["dpo"], n_prompts=700, validate_every=20)

# What a policy's training begins with.
STARTS = {
    "sft": "base",
    "dpo": "sft",
    "dpo, short": "sft",
    "iterative dpo": "dpo, short",
    "ppo": "sft",
    "steerlm": "sft",
    "steerlm 2": "steerlm",
}

# Where a method's training is, in the numbering of the notebooks.
NOTEBOOKS = {
    "reward model": "05_reward_model_training",
    "sft": "07_sft",
    "dpo": "08_dpo",
    "iterative dpo": "09_iterative_dpo",
    "ppo": "10_ppo",
    "steerlm": "11_steerlm",
    "steerlm 2": "12_steerlm2",
}


def method_of(name: str) -> str:
    """The method of a policy, of a control or of a variant: what its name begins with."""
    return name.partition(",")[0]


def start_of(name: str) -> str:
    """What a policy's training begins with."""
    return STARTS_OF_VARIANTS.get(name) or STARTS.get(name) or STARTS[method_of(name)]


def reads_labels(name: str) -> bool:
    """Whether a policy is asked for attributes."""
    return method_of(name) in ("steerlm", "steerlm 2", "base + label")


class World:
    """Everything of one seed, made when first asked for and kept in a folder."""

    def __init__(
        self,
        seed: int,
        folder: Path,
        changed: dict[str, dict] | None = None,
        base: str = "postcards",
    ) -> None:
        self.seed = seed
        self.folder = folder / f"seed-{seed}"
        self.changed = changed or {}
        self.base = base

    def setup(self, name: str) -> Setup:
        """The recipe of a policy for this seed, with the folder that its training is kept in."""
        recipe = RECIPES.get(name, RECIPES[method_of(name)])
        changed = self.changed.get(name, self.changed.get(method_of(name), {}))
        recipe = replace(recipe, seed=self.seed, **changed)
        notebook = NOTEBOOKS[method_of(name)]
        return Setup(notebook, "demo", {}, recipe, self.folder / "training")

    @cached_property
    def held_out(self) -> list[Group]:
        """The prompts to evaluate on."""
        made = sets.groups(N_EVALUATED, 200 + self.seed, split="validation")
        return [replace(group, responses=()) for group in made]

    @cached_property
    def judge(self) -> RewardModel:
        """The reward model."""
        return self.trained_judge("reward-model", list)

    @cached_property
    def blind_judge(self) -> RewardModel:
        """A reward model that learnt from answers under other tones than those asked for."""
        return self.trained_judge("reward-model-blind", controls.under_other_tones)

    def trained_judge(self, name: str, change: Callable[[Sequence[Group]], list[Group]]):
        """A reward model on the rated groups as `change` leaves those that are trained on."""
        place = self.folder / name
        if not place.is_dir():
            began = time.monotonic()
            setup = self.setup("reward model")
            data = reward_training.load_parts(setup)
            parts = dict(data.groups) | {"train": change(data.groups["train"])}
            data = replace(data, groups=parts)
            model = reward_training.new_model(data, setup)
            prepared = reward_training.prepare(model, data, setup)
            inputs = reward_training.baseline_inputs(model, data, prepared, setup)
            reward_training.start_head(model, inputs, setup)
            reward_training.train(model, prepared, setup)
            model.save(place)
            self.say(name, began)
        return load_reward_model(place).eval()

    def policy(self, name: str) -> Policy:
        """A policy; trained where it is not there."""
        if name in ("base", "base + label"):
            return load_policy(self.base)
        place = self.place(name)
        if not place.is_dir():
            policy = self.policy(start_of(name))
            began = time.monotonic()
            changed = CHANGED[name](self) if name in CHANGED else {}
            METHODS[method_of(name)](self, name, policy, **changed)
            policy.save(place)
            self.say(name, began)
        return load_policy(place)

    def place(self, name: str) -> Path:
        """The folder of a policy."""
        return self.folder / name.replace(", ", "-").replace(" ", "-")

    def answers(self, name: str, temperature: float = 0.0, label: str | None = None):
        """The answers of a policy to the held-out prompts, as `hs2lib.evaluate.answers` has them.

        label: in place of the target that a policy which reads labels is asked for.
        """
        asked = label or (TARGET if reads_labels(name) else None)
        parts = [name, f"{temperature:g}", *([label] if label else [])]
        file = self.folder / "answers" / f"{' '.join(parts).replace(':', '')}.parquet"
        if not file.is_file():
            prompts = self.held_out[:N_STEERED] if label else self.held_out
            table = answered(
                self.policy(name),
                prompts,
                run=name,
                judge=self.judge,
                n=(4 if name == "sft" else 2) if temperature else 1,
                temperature=temperature,
                top_p=TOP_P[temperature],
                max_new_tokens=LONGEST,
                label=asked,
                seed=self.seed,
            )
            file.parent.mkdir(parents=True, exist_ok=True)
            table.assign(seed=self.seed).to_parquet(file, index=False)
        return pd.read_parquet(file)

    def say(self, name: str, began: float) -> None:
        print(f"seed {self.seed}, {name}: {time.monotonic() - began:.0f} s", flush=True)


# The methods. What a control changes is the argument by name.


def supervised(world: World, name: str, policy: Policy, choose=sft.best_paths) -> None:
    """SFT. choose: of `sft.load_conversations`."""
    setup = world.setup(name)
    conversations = sft.load_conversations(setup, choose)
    sft.train(policy, sft.prepare(policy, conversations, setup), setup)


def direct(world: World, name: str, policy: Policy, rule=dpo.by_attribute) -> None:
    """DPO. rule: of `dpo.load_pairs`."""
    setup = world.setup(name)
    dpo.train(policy, dpo.prepare(policy, dpo.load_pairs(setup, rule), setup), setup)


def iterative(
    world: World, name: str, policy: Policy, pair=iterative_dpo.best_worst_pairs, judge=None
) -> None:
    """Iterative DPO. pair: of `iterative_dpo.train`. judge: in place of the reward model."""
    setup = world.setup(name)
    parts = iterative_dpo.prepare(iterative_dpo.load_prompts(setup), setup)
    iterative_dpo.train(policy, parts, judge or world.judge, setup, pair=pair)


def proximal(world: World, name: str, policy: Policy, reward=None, judge=None) -> None:
    """PPO. reward: in place of the standardised reward model. judge: as for `iterative`."""
    setup = world.setup(name)
    data = load_rows(setup.recipe)
    prompts = ppo.prepare(policy, data, setup)
    goodness = ppo.fold_reward(judge or world.judge, data, setup)
    model = ppo.actor_critic(policy, goodness, setup)
    ppo.train(model, prompts, reward or goodness, world.policy("sft"), setup)


def steered(world: World, name: str, policy: Policy, rule=steerlm.label) -> None:
    """SteerLM. rule: of `steerlm.label_answers`."""
    setup = world.setup(name)
    answers = steerlm.load_answers(setup)
    labelled = steerlm.label_answers(answers, setup, reward_model=world.judge, rule=rule)
    steerlm.train(policy, steerlm.prepare(policy, labelled, setup), setup)


def reweighted(world: World, name: str, policy: Policy, weights=steerlm2.weigh, judge=None) -> None:
    """SteerLM 2.0. weights: of `steerlm2.iterate`. judge: as for `iterative`."""
    setup = world.setup(name)
    prompts = steerlm2.load_prompts(setup)
    judge = judge or world.judge
    sft_policy = world.policy("sft")

    def after(iteration: int, trained: Policy) -> None:
        trained.save(world.folder / f"{name.replace(' ', '-')}-after-{iteration}")

    steerlm2.iterate(policy, sft_policy, judge, prompts, setup, weights=weights, after=after)


METHODS: dict[str, Callable[..., None]] = {
    "sft": supervised,
    "dpo": direct,
    "iterative dpo": iterative,
    "ppo": proximal,
    "steerlm": steered,
    "steerlm 2": reweighted,
}


# What controls put in the place of an argument


def own_samples(world: World):
    """A rule of conversations: the base's own answers to the prompts, at temperature 1."""

    def choose(groups: Iterable[Group]) -> list[Group]:
        return rollouts(
            world.policy("base"),
            [replace(group, responses=()) for group in groups],
            n=1,
            max_new_tokens=LONGEST,
            batch=512,
            temperature=1.0,
            top_p=1.0,
            seed=world.seed,
            progress=False,
        )

    return choose


# What differs in a control: its name -> the arguments of its method.
CHANGED: dict[str, Callable[[World], dict]] = {
    "sft, own samples": lambda world: {"choose": own_samples(world)},
    "dpo, random": lambda world: {"rule": controls.by_coin},
    "dpo, blind": lambda world: {"rule": controls.blind},
    "iterative dpo, random": lambda world: {"pair": controls.two_at_random},
    "iterative dpo, blind": lambda world: {"judge": world.blind_judge},
    "ppo, random": lambda world: {"reward": controls.RandomReward()},
    "ppo, blind": lambda world: {"judge": world.blind_judge},
    "steerlm, dealt out": lambda world: {"rule": controls.labels_dealt_out},
    "steerlm 2, dealt out": lambda world: {"weights": controls.weights_dealt_out},
    "steerlm 2, blind": lambda world: {"judge": world.blind_judge},
}
CONTROLS = tuple(CHANGED)

# Section 4.6: policies that saw few demonstrations. And PPO by other prices of a nat.
VARIANTS = ("sft, few", "steerlm, few", "ppo, dear", "ppo, cheap")
RECIPES["sft, few"] = replace(RECIPES["sft"], n_prompts=400, validate_every=10)
RECIPES["ppo, dear"] = replace(RECIPES["ppo"], kl_weight=0.3)
RECIPES["ppo, cheap"] = replace(RECIPES["ppo"], kl_weight=0.03)
RECIPES["steerlm, few"] = replace(RECIPES["steerlm"], n_prompts=700, n_answers=1000)
STARTS_OF_VARIANTS = {"steerlm, few": "sft, few"}


def levels(names: Sequence[str], values: Sequence[int]) -> list[str]:
    """Label strings that ask for some attributes at each level, the others as in `TARGET`."""
    return list(steerlm.targets(TARGET, names, values).values())


QUALITY = ("helpfulness", "correctness", "coherence")
STEERED = {"quality": (QUALITY, (2, 3, 4)), "complexity": (("complexity",), (2, 3, 4))}
STEERED |= {"verbosity": (("verbosity",), (0, 2, 4))}


# The tables


def line(world: World, name: str, temperature: float = 0.0) -> str:
    """What a policy reaches, with what is counted in its answers, in one line."""
    mine = world.answers(name, temperature)
    said = (
        f"{name:22} T={temperature:g} true {mine.true.mean():5.2f} judge {mine.judge.mean():5.2f}"
    )
    if name != "base":
        start = "base" if name == "base + label" else start_of(name)
        theirs = world.answers(start, temperature).groupby("prompt").true.mean()
        gain = mine.groupby("prompt").true.mean() - theirs
        said += f" over {start} {gain.mean():+.2f} ({gain.std() / len(gain) ** 0.5:.2f})"
    means = mine[[*COUNTED, "off"]].mean()
    return said + " | " + " ".join(f"{kind} {value:.2f}" for kind, value in means.items())


COUNTED = ("wrong", "missing", "repeats", "unasked", "asides", "hedges", "jargon", "garbled")


def steering(world: World, name: str) -> pd.DataFrame:
    """The mean of each attribute by what is asked for, greedy."""
    rows = []
    for what, (names, values) in STEERED.items():
        for value, label in zip(values, levels(names, values), strict=True):
            mean = world.answers(name, 0.0, label)[["true", *grade.ATTRIBUTES]].mean()
            rows.append({"asked": what, "level": value, **mean.round(2)})
    return pd.DataFrame(rows)


def judged(world: World) -> dict[str, float]:
    """How the reward model agrees with the truth on held-out rated answers."""
    held_out = list(sets.groups(300, seed=777, split="validation"))
    scores = world.judge.score(held_out).numpy()  # [R, A]
    true = np.concatenate([grade.true_attributes(group) for group in held_out])  # [R, A]
    agree = {
        name: float(np.corrcoef(scores[:, i], true[:, i])[0, 1])
        for i, name in enumerate(grade.ATTRIBUTES)
    }
    score, truth = grade.goodness(scores), grade.goodness(true)
    agree["goodness"] = float(np.corrcoef(score, truth)[0, 1])
    apart, truly = np.diff(score.reshape(-1, 2))[:, 0], np.diff(truth.reshape(-1, 2))[:, 0]
    differ = abs(truly) > 0.05
    agree["pairs"] = float((np.sign(apart) == np.sign(truly))[differ].mean())
    return {name: round(value, 3) for name, value in agree.items()}


def by_fault(world: World, n: int = 200) -> pd.DataFrame:
    """How often the judge puts a faultless answer above the same with one fault, and by how much."""
    made = list(sets.groups(n, seed=777, split="validation"))
    rows = []
    for fault in pairs.FAULTS:
        apart_in_it = [pair for group in made if (pair := pairs.one_fault(group, fault))]
        score = grade.goodness(world.judge.score(apart_in_it).numpy()).reshape(-1, 2)
        true = np.array([grade.true_goodness(pair) for pair in apart_in_it])
        apart = score[:, 0] - score[:, 1]
        rows.append(
            {
                "fault": fault,
                "pairs": len(apart_in_it),
                "found": float((apart > 0).mean()),
                "judge": float(apart.mean()),
                "true": float((true[:, 0] - true[:, 1]).mean()),
            }
        )
    return pd.DataFrame(rows).round(2)


# What follows from the answers of several seeds

# What anybody could do instead, without the method. The best of four takes SFT's samples.
TRIVIAL = ("base + label", "best of 4")


def instead_of(name: str) -> Sequence[str]:
    """The trivial alternatives to a method."""
    return TRIVIAL[:1] if name == "sft" else TRIVIAL


def trained(worlds: Sequence[World], names: Iterable[str]) -> list[str]:
    """Those of some policies that every seed has."""
    return [name for name in names if all(world.place(name).is_dir() for world in worlds)]


def means(world: World, name: str, temperature: float) -> pd.Series:
    """The true score by prompt. "best of 4" is what the judge takes of four samples of SFT."""
    if name == "best of 4":
        answers = world.answers("sft", 0.7)
        best = answers.groupby("prompt", sort=False).judge.idxmax()
        return answers.loc[best].set_index("prompt").true
    return world.answers(name, temperature).groupby("prompt", sort=False).true.mean()


def interval(values: Sequence[float]) -> tuple[float, float, float]:
    """The mean of one number a seed, and Student's 95 % interval of it."""
    values = np.asarray(values, float)
    mean = values.mean()
    if len(values) < 2:
        return mean, np.nan, np.nan
    half = stats.t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values))
    return mean, mean - half, mean + half


def gain(worlds: Sequence[World], name: str, than: str, temperature: float = 0.0):
    """By how much a policy is better than another, paired by prompt: mean and interval over seeds."""
    by_seed = []
    for world in worlds:
        apart = means(world, name, temperature) - means(world, than, temperature)
        by_seed.append(apart.mean())
    return interval(by_seed)


def verdict(low: float, high: float) -> str:
    """What an interval says."""
    return "above" if low > 0 else "below" if high < 0 else "no clear effect"


def table(worlds: Sequence[World]) -> pd.DataFrame:
    """One row a method: what it adds to its start, to its control, to a control that is blind to
    the instruction, and to the best of what anybody could do instead.

    Of the true score, greedy; "at .7" at that temperature. Columns in threes are a mean, and the
    ends of its interval over seeds. `verdict` takes start, control and alternative together; of the
    blind control it says nothing, for most of what a method learns is no matter of tone.
    """
    rows = []
    for name in ("sft", "dpo", "dpo, short", "iterative dpo", "ppo", "steerlm", "steerlm 2"):
        start = start_of(name)
        row: dict[str, object] = {"policy": name, "start": start, "seeds": len(worlds)}
        for column, policy in (("before", start), ("after", name)):
            row[column] = np.mean([means(world, policy, 0.0).mean() for world in worlds])
        rivals = {"start": start}
        controls = [c for c in trained(worlds, CONTROLS) if method_of(c) == name]
        for control in controls:
            rivals["blind" if control.endswith("blind") else "control"] = control
        others = instead_of(name)
        rivals["alternative"] = min(others, key=lambda other: gain(worlds, name, other)[0])
        found = []
        for what, rival in rivals.items():
            over = gain(worlds, name, rival)
            row[what] = rival
            row |= three(f"over {what}", over)
            if what != "alternative":
                row |= three(f"over {what} at .7", gain(worlds, name, rival, 0.7))
            row[f"verdict on {what}"] = verdict(*over[1:])
            if what != "blind":
                found.append(row[f"verdict on {what}"])
        row["verdict"] = found[0] if len(set(found)) == 1 else "no clear effect"
        rows.append(row)
    return pd.DataFrame(rows)


def three(name: str, values: tuple[float, float, float]) -> dict[str, float]:
    """A mean and its interval as columns."""
    return dict(zip((name, f"{name}, low", f"{name}, high"), values, strict=True))


N_ENUMERATED = 40  # prompts


def exact(world: World) -> pd.DataFrame:
    """What policies and the exact optima of their objectives reach, expected at temperature 1.

    Within the answers that can be enumerated without a wrong value; `mass` is a policy's
    probability of these. `promise` is the expected log P(a|x,y) of SteerLM 2.0's target by the
    judge, `from the posterior` the KL to a policy from the exact P(y|a,x), nats; with the leak
    counted what a policy gives to answers outside the enumeration is lost.
    """
    file = world.folder / "frontier.csv"
    if file.is_file():
        return pd.read_csv(file)
    names = ("sft", "dpo", "dpo, short", "iterative dpo", "ppo")
    policies: dict[str, Policy | tuple[Policy, str]] = {name: world.policy(name) for name in names}
    policies["steerlm"] = world.policy("steerlm"), TARGET
    after_one = load_policy(world.folder / "steerlm-2-after-1")
    policies["steerlm 2, iteration 1"] = after_one, TARGET
    policies["steerlm 2"] = world.policy("steerlm 2"), TARGET
    listed = frontier.enumerated(world.held_out[:N_ENUMERATED], policies, world.judge)
    recipe = world.setup("ppo").recipe
    rated = list(sets.groups(2000, world.seed, split="train"))
    scores = grade.goodness(world.judge.score(rated[: recipe.n_standard]).double().numpy())
    slope = frontier.preference_slope(rated)
    judged = listed[[f"judged {name}" for name in grade.ATTRIBUTES]].to_numpy()
    levels_of = losses.attribute_log_probs(
        torch.from_numpy(judged), edges=world.setup("steerlm 2").recipe.edges
    )
    promise = pd.Series(
        losses.target_log_prob(levels_of, torch.tensor([4, 4, 4, 2, 2])).numpy(), listed.index
    )
    posterior = frontier.normalised(listed.sft + promise, listed.prompt)
    found = {name: listed[name] for name in policies}
    for beta in (3.0, 1.7, 1.0, 0.56, 0.3, 0.17, 0.1, 0.056, 0.03):
        by_judge = frontier.tilted(listed, "sft", listed.judge / scores.std(), beta)
        found[f"sft x exp(judge / {beta:g})"] = by_judge
        by_truth = frontier.tilted(listed, "sft", listed.true / scores.std(), beta)
        found[f"sft x exp(truth / {beta:g})"] = by_truth
    beta = world.setup("dpo").recipe.beta
    found["dpo, optimum"] = frontier.tilted(listed, "sft", slope * listed.liked, beta)
    beta = recipe.kl_weight
    found["ppo, optimum"] = frontier.tilted(listed, "sft", listed.judge / scores.std(), beta)
    found["steerlm 2, optimum"] = posterior
    for n in (4, 8, 64):
        found[f"best of {n}"] = frontier.best_of(listed, "sft", listed.judge, n)
    rows = []
    for name, log_probs in found.items():
        log_q = frontier.normalised(log_probs, listed.prompt)
        row = {"seed": world.seed, "policy": name, **frontier.reached(listed, log_q, "sft")}
        row["mass"] = frontier.mass(listed, name) if name in policies else 1.0
        expected = (np.exp(log_q) * promise).where(np.isfinite(log_q), 0)
        row["promise"] = expected.groupby(listed.prompt).sum().mean()
        for what, of in (("", log_q), (", leak counted", log_probs)):
            apart = np.exp(posterior) * (posterior - of)
            row[f"from the posterior{what}"] = apart.groupby(listed.prompt).sum().mean()
        rows.append(row)
    made = pd.DataFrame(rows)
    made.to_csv(file, index=False)
    return made


# Of each method: its start, and the exact optimum of what it is trained for.
OPTIMA = {
    "dpo": ("sft", "dpo, optimum"),
    "ppo": ("sft", "ppo, optimum"),
    "steerlm": ("sft", "steerlm 2, optimum"),
    "steerlm 2": ("steerlm", "steerlm 2, optimum"),
}


def shares(worlds: Sequence[World]) -> pd.DataFrame:
    """The share of what the exact optimum adds to the start that each method attains, by truth.

    And that of what SteerLM 2.0 promises. Means and intervals over seeds.
    """
    by_seed = [exact(world).set_index("policy") for world in worlds]
    rows = []
    for name, (start, optimum) in OPTIMA.items():
        for measure in ("true", "judge", "promise"):
            share = []
            for found in by_seed:
                value = found[measure]
                share.append((value[name] - value[start]) / (value[optimum] - value[start]))
            at = {
                what: np.mean([f[measure][p] for f in by_seed])
                for what, p in (("before", start), ("after", name), ("optimum", optimum))
            }
            rows.append(
                {"policy": name, "measure": measure, **at, **three("share", interval(share))}
            )
    return pd.DataFrame(rows)


# Of each variant and blind control: what it is compared with.
COMPARED = (
    ("sft, few", "base"),
    ("sft", "sft, few"),
    ("steerlm, few", "sft, few"),
    ("steerlm", "steerlm, few"),
    ("ppo, dear", "sft"),
    ("ppo", "sft"),
    ("ppo, cheap", "sft"),
    ("iterative dpo", "iterative dpo, blind"),
    ("steerlm 2", "steerlm 2, blind"),
)


def variants(worlds: Sequence[World]) -> pd.DataFrame:
    """What each variant adds to a policy, in true score, greedy and at .7."""
    rows = []
    for name, than in COMPARED:
        row: dict[str, object] = {"policy": name, "than": than, "seeds": len(worlds)}
        row["true"] = np.mean([means(world, name, 0.0).mean() for world in worlds])
        row["judge"] = np.mean([world.answers(name).judge.mean() for world in worlds])
        for temperature, column in ((0.0, "gain"), (0.7, "gain at .7")):
            row |= three(column, gain(worlds, name, than, temperature))
        row["verdict"] = verdict(row["gain, low"], row["gain, high"])
        rows.append(row)
    return pd.DataFrame(rows)


def processors(worlds: Sequence[World], published: pd.DataFrame) -> pd.DataFrame:
    """What each method adds to its start, on two processors.

    worlds: the trainings here. published: `means.csv`, of the trainings there.
    """
    greedy = published[published.temperature == 0].pivot(index="seed", columns="policy")["true"]
    rows = []
    for name in trained(worlds, STARTS):
        start = start_of(name)
        theirs = interval((greedy[name] - greedy[start])[[world.seed for world in worlds]])
        ours = gain(worlds, name, start)
        row: dict[str, object] = {"policy": name, "over": start, "seeds": len(worlds)}
        row |= three("there", theirs) | three("here", ours)
        row["verdict there"] = verdict(*theirs[1:])
        row["verdict here"] = verdict(*ours[1:])
        rows.append(row)
    return pd.DataFrame(rows)


# The dots of the figure: the policy's name in the table, and where its label is, in points.
DOTS = {
    "sft": ("SFT", (7, -4)),
    "dpo": ("DPO", (8, -3)),
    "iterative dpo": ("iterative DPO", (-22, -40)),
    "ppo": ("PPO", (6, 5)),
    "steerlm": ("SteerLM", (8, -7)),
    "steerlm 2": ("SteerLM 2.0", (-4, -26)),
}


def draw(folder: Path) -> None:
    """The figure of the README, from `frontier.csv`: true score by KL from SFT, means over seeds.

    The lines are the exact optima, of the true score and of the reward model's, for every price of
    a nat.
    """
    means = pd.read_csv(folder / "frontier.csv").groupby("policy")[["kl", "true"]].mean()
    fig, ax = plt.subplots(figsize=(7, 3.6), layout="constrained")
    for source, style, label in (
        ("truth", ":", "exact optimum of the true score"),
        ("judge", "-", "exact optimum of the reward model's score"),
    ):
        line = means[means.index.str.startswith(f"sft x exp({source}")]
        line = pd.concat([means.loc[["sft"]], line]).sort_values("kl")
        ax.plot(line.kl, line.true, style, color="grey", label=label)
    for n in (4, 8, 64):
        at = means.loc[f"best of {n}"]
        ax.plot(at.kl, at.true, "x", color="black")
        options = {"textcoords": "offset points", "fontsize": 8}
        ax.annotate(f"best of {n}", (at.kl, at.true), xytext=(5, -11), **options)
    for name, (label, place) in DOTS.items():
        at = means.loc[name]
        (dot,) = ax.plot(at.kl, at.true, "o", markersize=8)
        options = {"color": dot.get_color(), "textcoords": "offset points"}
        ax.annotate(label, (at.kl, at.true), xytext=place, **options)
    ax.set(
        xlabel="KL divergence from SFT, nats",
        ylabel="true score, 0 to 7.6",
        title="True score against the distance from SFT",
    )
    ax.legend(frameon=False, loc="lower right")
    ax.text(
        0.01,
        0.98,
        "generated data, not the paper's",
        transform=ax.transAxes,
        va="top",
        color="grey",
    )
    fig.savefig(folder / "frontier.png", dpi=150)
    plt.close(fig)


def bases(seed: int = 0) -> pd.DataFrame:
    """What labels do by what the base has read, one seed: true score, greedy.

    A row for each policy of each base. `asked for 2` to 4 are levels of quality.
    """
    names = {"few": "postcards", "none": "postcards-none", "many": str(paths.runs() / "base-many")}
    rows = []
    for base, name in names.items():
        into = "postcards" if base == "few" else base
        world = World(seed, paths.runs() / into, base=name)
        for policy in ("base", "base + label", "sft", "steerlm", "steerlm 2"):
            answers = world.answers(policy)
            row = {"seed": seed, "base": base, "policy": policy}
            row |= answers[["true", "wrong", "garbled"]].mean().to_dict()
            if reads_labels(policy):
                for value, label in zip((2, 3, 4), levels(QUALITY, (2, 3, 4)), strict=True):
                    row[f"asked for {value}"] = world.answers(policy, 0.0, label).true.mean()
            rows.append(row)
    return pd.DataFrame(rows)


def write_tables(worlds: Sequence[World], commit: str = "") -> None:
    """Everything that README and the notebooks read, under reports/benchmarks/postcards.

    commit: of the trainings, where it is not that of the tables.
    """
    folder = paths.reports() / "benchmarks" / "postcards"
    folder.mkdir(parents=True, exist_ok=True)
    rows = []
    for world in worlds:
        others = trained(worlds, [*STARTS, *CONTROLS, *VARIANTS])
        for name in ("base", "base + label", *others):
            for temperature in TOP_P:
                answers = world.answers(name, temperature)
                mean = answers[["true", "judge", *COUNTED, "off", *grade.ATTRIBUTES]].mean()
                about = {"seed": world.seed, "policy": name, "temperature": temperature}
                rows.append(about | mean.to_dict())
    steered = []
    for world in worlds:
        others = trained(worlds, ["steerlm", "steerlm, dealt out", "steerlm 2"])
        for name in ("base + label", *others):
            steered.append(steering(world, name).assign(seed=world.seed, policy=name))
    faults = [by_fault(world).assign(seed=world.seed) for world in worlds]
    agree = [{"seed": world.seed, **judged(world)} for world in worlds]
    made = {
        "means": pd.DataFrame(rows),
        "methods": table(worlds),
        "steering": pd.concat(steered),
        "frontier": pd.concat([exact(world) for world in worlds]),
        "shares": shares(worlds),
        "faults": pd.concat(faults),
        "judge": pd.DataFrame(agree),
    }
    for name, frame in made.items():
        frame.round(4).to_csv(folder / f"{name}.csv", index=False)
    draw(folder)
    machine = {"commit": report.commit(), "trained at": commit or report.commit()}
    machine |= {"device": report.device(), "threads": 1}
    machine |= {"seeds": [world.seed for world in worlds], "prompts": N_EVALUATED}
    paths.write(folder / "machine.json", json.dumps(machine, indent=1) + "\n")
    print(made["methods"].round(2).to_string(index=False))
    print(made["shares"].round(2).to_string(index=False))


def main() -> None:
    """Train, answer and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, nargs="*", default=[0])
    parser.add_argument("--only", nargs="*", default=list(METHODS), help="policies and controls")
    parser.add_argument("--set", nargs="*", default=[], help="changed settings, as dpo.beta=0.3")
    parser.add_argument("--into", default="postcards", help="folder under runs")
    parser.add_argument("--base", default="postcards", help="a base, by name or folder")
    parser.add_argument("--judge", action="store_true", help="what the reward model reads")
    parser.add_argument("--table", action="store_true", help="write the tables of these seeds")
    parser.add_argument(
        "--beside", action="store_true", help="write variants, and these trainings beside the table"
    )
    parser.add_argument("--figure", action="store_true", help="draw the figure of these tables")
    parser.add_argument("--bases", action="store_true", help="write the table of three bases")
    parser.add_argument("--trained-at", default="", help="commit of the trainings, for the tables")
    parser.add_argument("--show", type=int, default=0, help="answers of each policy to print")
    parsed = parser.parse_args()
    torch.set_num_threads(1)
    changed: dict[str, dict] = {}
    for setting in parsed.set:
        name, _, value = setting.partition("=")
        policy, _, field = name.rpartition(".")
        try:
            changed.setdefault(policy, {})[field] = ast.literal_eval(value)
        except ValueError:
            changed.setdefault(policy, {})[field] = value
    folder = paths.runs() / parsed.into
    worlds = [World(seed, folder, changed, parsed.base) for seed in parsed.seeds]
    if parsed.bases:
        file = paths.reports() / "benchmarks" / "postcards" / "bases.csv"
        bases(*parsed.seeds[:1]).round(4).to_csv(file, index=False)
        return
    if parsed.figure:
        draw(paths.reports() / "benchmarks" / "postcards")
        return
    if parsed.beside:
        tables = paths.reports() / "benchmarks" / "postcards"
        made = {"variants": variants(worlds)}
        made["processors"] = processors(worlds, pd.read_csv(tables / "means.csv"))
        there = paths.read_json(tables / "machine.json")["device"]
        made["processors"] = made["processors"].assign(**{"device there": there})
        for name, frame in made.items():
            frame = frame.assign(**{"device here": report.device()})
            frame.round(4).to_csv(tables / f"{name}.csv", index=False)
            print(frame.round(2).to_string(index=False))
        return
    if parsed.table:
        write_tables(worlds, parsed.trained_at)
        return
    for world in worlds:
        if parsed.judge:
            print(judged(world))
            print(by_fault(world).to_string(index=False))
        for name in parsed.only:
            for temperature in (0.0, 0.7):
                print(line(world, name, temperature), flush=True)
            for row in world.answers(name).head(parsed.show).itertuples():
                print(f"    {row.question}\n      > {row.text}")
            if reads_labels(name):
                print(steering(world, name).to_string(index=False), flush=True)


if __name__ == "__main__":
    main()
