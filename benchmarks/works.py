"""Does each method work? What it adds to the truth, greedy, beside its start and its controls.

    python benchmarks/works.py [--seeds 0 1 2 3 4] [--only sft dpo ..] [--matrix] [--set dpo.beta=.3]
    python benchmarks/works.py --draw      # what follows from the means that are there, works.png too

In the small world the true attributes of any response are known (`hs2lib.corpus.grade`). World,
reward model and policy are seeded; the base is frozen. Recipes are those of tier demo
(`params/demo`), one for all seeds. Every method runs by the library's own functions: as it is, and
as its controls, the same call with one argument changed (`CHANGED`), by which its cause is taken
away (`CONTROLS`). 400 prompts that no training text holds are answered greedily and at temperatures
.7 and 1. A difference is paired by prompt; its mean over prompts is one number a seed; the interval
is Student's t over seeds. A method

    works       if greedy it is above its start and above each of its controls;
    rises       if greedy it is above its start, and no control is left to compare it with;
    harms       if greedy it is below its start;
    is surer    if at .7 or 1 it is above its start there, and greedy not above the greedy start:
                it does no more than a lower temperature does;
    not shown   else.

SteerLM is judged by what its labels move, greedy: quality asked for at level 4 less level 0. A
control chooses its checkpoint as its method does, by the validation loss. One that answers as its
start in some seed, to every prompt, did not train there: it takes nothing away, and does not count.
SteerLM 2.0 with the same weight for every sample never can: its loss is 0 at its start, the least
there is. Weights dealt out within a group can, as far as validation lets them.
Every gain is split into the parts of which faults are made (`hs2lib.corpus.grade.COSTS`). What is
finished is kept by seed and method, so a run that was stopped goes on; each row names the commit
that trained its policy. With `--matrix` reward models and policies are those that `make matrix`
left, and only controls are trained here. What the result has already of other seeds and policies
stays in it, so five seeds may be run on several days. Then the starts of what is run now are measured
as well, and everything that the result has already must come out the same, to a rounding of the
fourth decimal: else nothing is written, as it would mix two recipes. (A control's method is not run
for that; name it in `--only` to have it checked.) A control that not every seed has does not count
for the verdict, and the result names it as missing.
"""

import argparse
import ast
import json
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from random import Random

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure
from scipy import stats

from hs2lib import paths
from hs2lib.align import dpo, iterative_dpo, ppo, sft, steerlm, steerlm2
from hs2lib.align.common import load_rows
from hs2lib.align.controls import (
    by_coin,
    labels_dealt_out,
    two_at_random,
    weights_dealt_out,
)
from hs2lib.corpus import generate
from hs2lib.corpus.grade import grade, true_attributes, true_goodness
from hs2lib.data.load import Loaded, load
from hs2lib.evaluate.response_rows import TRUTH
from hs2lib.group import ATTRIBUTES, Group
from hs2lib.models import reward_training
from hs2lib.models.policy import Policy, load_policy
from hs2lib.models.reward_model import RewardModel, load_reward_model
from hs2lib.models.rollout import rollouts
from hs2lib.paper import head_weights
from hs2lib.report import figures, published, report, style
from hs2lib.runs import graph
from hs2lib.runs.setup import Setup

NOTEBOOKS = {
    "sft": "07_sft",
    "dpo": "08_dpo",
    "iterative dpo": "09_iterative_dpo",
    "ppo": "10_ppo",
    "steerlm": "11_steerlm",
    "steerlm 2": "12_steerlm2",
}
REWARD_MODEL = "05_reward_model_training"
STARTS = {
    "sft": "base",
    "dpo": "sft",
    "iterative dpo": "dpo",
    "ppo": "sft",
    "steerlm": "sft",
    "steerlm 2": "steerlm",
}
CONTROLS = {
    "sft, own samples": "the base's own samples for the same prompts",
    "dpo, at random": "which response is preferred drawn at random",
    "dpo, blind": "each pair under another prompt of its family with as many items",
    "iterative dpo, at random": "two of the samples at random in place of best and worst",
    "ppo, at random": "a reward drawn at random for every text",
    "ppo, blind": "a reward model whose answers stood under other prompts",
    "steerlm, at random": "labels dealt out at random among the answers",
    "steerlm 2, at random": "the same weight for every sample",
    "steerlm 2, blind": "a reward model whose answers stood under other prompts",
    "steerlm 2, dealt out": "the weights of a group dealt out at random among its samples",
}
# The same with the truth in place of the reward model: what the method could do, were the reward
# model not to blame. And SFT on answers without a fault: how much there is to gain.
ORACLES = (
    "iterative dpo, by the truth",
    "ppo, by the truth",
    "steerlm, by the truth",
    "sft, faultless",
)

RESULT = paths.reports() / "benchmarks" / "works.json"  # every seed stands in works.csv beside it
# Which row of works.csv it is; the other columns are measures.
KEYS = ["seed", "policy", "what", "temperature", "less"]
TARGET = steerlm2.TARGET  # what policies that read labels are asked for
ASKED = {  # what is steered -> the labels of level 0 and of level 4
    "quality": tuple(
        f"helpfulness:{level},correctness:{level},coherence:{level},complexity:2,verbosity:2"
        for level in (0, 4)
    ),
    "complexity": tuple(
        f"helpfulness:4,correctness:4,coherence:4,complexity:{level},verbosity:2"
        for level in (0, 4)
    ),
    "verbosity": tuple(
        f"helpfulness:4,correctness:4,coherence:4,complexity:2,verbosity:{level}"
        for level in (0, 4)
    ),
}
TEMPERATURES = (0.0, 0.7, 1.0)
TOP_P = {0.0: 1.0, 0.7: 0.9, 1.0: 1.0}  # paper: at .7 section 4 samples from .9
N_EVALUATED = 400  # held-out prompts
N_STEERED = 100  # of these, prompts to steer on
N_LABELLED = 300  # conversations of demonstrations; the labels of their answers are dealt out
QUALITY = ("helpfulness", "correctness", "coherence")
STYLE = ("complexity", "verbosity")
N_SAMPLED = 2  # answers to a prompt, where they differ
LONGEST = 160  # tokens of an answer
DECIMALS = 4  # of what is written
N_STANDARD = 300  # of the rated groups, those that standardise the true reward
WEIGHTS = np.array(head_weights("goodness", ATTRIBUTES))  # [A]


class World:
    """Everything of one seed, made when first asked for and kept in a folder.

    settings: of recipes, by method: what differs from tier demo.
    matrix: whether reward models and policies are those of `make matrix`.
    """

    def __init__(
        self,
        seed: int,
        folder: Path,
        settings: dict[str, dict[str, object]] | None = None,
        matrix: bool = False,
    ):
        self.seed = seed
        self.folder = folder / f"seed-{seed}"
        self.settings = settings or {}
        self.matrix = matrix

    def setup(self, notebook: str) -> Setup:
        """The demo's setup of a notebook for this seed; all work in one folder, kept by content."""
        setup = Setup.of_run(graph.of_seed(notebook, self.seed), "demo")
        recipe = replace(setup.recipe, **self.settings.get(notebook, {}))
        return replace(setup, recipe=recipe, place=self.folder / "training")

    def saved(self, notebook: str, part: str) -> Path:
        """Where the matrix has a model of this seed."""
        return paths.work("demo", graph.of_seed(notebook, self.seed)) / part

    @cached_property
    def held_out(self) -> list[Group]:
        """Prompts to evaluate on, which no training text holds."""
        seed = 200 + self.seed
        made = load("helpsteer2", "embedded", split="validation", n_prompts=N_EVALUATED, seed=seed)
        return [replace(group, responses=()) for group in made.groups]

    @cached_property
    def reward_model(self) -> RewardModel:
        """The reward model of this seed, trained on what the annotators said."""
        if self.matrix:
            return load_reward_model(self.saved(REWARD_MODEL, "model")).eval()
        return self.judge("reward-model", list)

    @cached_property
    def blind_judge(self) -> RewardModel:
        """A reward model that learnt from answers under other prompts than their own."""
        return self.judge("reward-model-blind", blind)

    def judge(
        self,
        name: str,
        change: Callable[[Sequence[Group]], list[Group]],
        recipe: dict[str, object] | None = None,
    ) -> RewardModel:
        """A reward model on the rated groups as `change` leaves those of the train part.

        recipe: what differs from the recipe of tier demo.
        """
        place = self.folder / name
        if not place.is_dir():
            began = time.monotonic()
            setup = self.setup(REWARD_MODEL)
            setup = replace(setup, recipe=replace(setup.recipe, **(recipe or {})))
            data = reward_training.load_parts(setup)
            parts = dict(data.groups) | {"train": change(data.groups["train"])}
            data = replace(data, groups=parts)
            model = reward_training.new_model(data, setup)
            prepared = reward_training.prepare(model, data, setup)
            inputs = reward_training.baseline_inputs(model, data, prepared, setup)
            reward_training.start_head(model, inputs, setup)
            reward_training.train(model, prepared, setup)
            model.save(place)
            print(f"seed {self.seed}, {name}: {time.monotonic() - began:.0f} s", flush=True)
        return load_reward_model(place).eval()

    def policy(self, name: str) -> Policy:
        """The policy that a method or its control left; trained where it is not there."""
        if name == "base":
            return load_policy("small")
        if self.matrix and name in NOTEBOOKS:
            return load_policy(self.saved(NOTEBOOKS[name], "policy"))
        place = self.folder / name.replace(", ", "-").replace(" ", "-")
        if not place.is_dir():
            began = time.monotonic()
            method = name.partition(", ")[0]
            policy = self.policy(STARTS[method])
            changed = {}
            if name in CHANGED:
                argument, make = CHANGED[name]
                changed[argument] = make(self)
            METHODS[method](self, policy, **changed)
            paths.write(self.folder / "commits" / name, report.commit())
            policy.save(place)
            print(f"seed {self.seed}, {name}: {time.monotonic() - began:.0f} s", flush=True)
        return load_policy(place)

    def commit(self, name: str) -> str:
        """The commit that trained a policy."""
        if self.matrix and name in NOTEBOOKS:
            run = graph.of_seed(NOTEBOOKS[name], self.seed)
            manifest = graph.manifest(run, "demo")
            return json.loads(manifest.read_text())["commit"]
        return (self.folder / "commits" / name).read_text()

    def answered(
        self, name: str, prompts: Sequence[Group], temperature: float, label: str | None
    ) -> pd.DataFrame:
        """Goodness, the parts of what it lacks and attributes of answers: means by prompt."""
        policy = self.policy(name)
        answered = rollouts(
            policy,
            prompts,
            n=N_SAMPLED if temperature else 1,
            temperature=temperature,
            top_p=TOP_P[temperature],
            max_new_tokens=LONGEST,
            label=label,
            seed=self.seed,
            batch=512,
            progress=False,
        )
        rows = []
        for group in answered:
            task = generate.task_of(group.id)
            for response in group.responses:
                read = grade(task, response.text)
                row = {"prompt": group.id, TRUTH: float(read.attributes @ WEIGHTS)}
                row |= read.costs
                row |= dict(zip(ATTRIBUTES, read.attributes.tolist(), strict=True))
                row["faulty"] = float(any(row[cost] > 0 for cost in ("habits", "ignored wish")))
                row["ignores its wish"] = float(row["ignored wish"] > 0)
                rows.append(row)
        return pd.DataFrame(rows).groupby("prompt", sort=False).mean()

    def measured(self, name: str, temperature: float) -> pd.DataFrame:
        """What a policy reaches by held-out prompt; SteerLM's are asked for the target."""
        label = TARGET if name.startswith("steerlm") else None
        return self.kept(
            f"{name}, {temperature:g}",
            partial(self.answered, name, self.held_out, temperature, label),
        )

    def steered(self, name: str, what: str, temperature: float) -> pd.DataFrame:
        """By how much answers to level 4 of what is asked for differ from those to level 0."""
        levels = []
        for level, label in zip((0, 4), ASKED[what], strict=True):
            asked = self.held_out[:N_STEERED]
            make = partial(self.answered, name, asked, temperature, label)
            levels.append(self.kept(f"{name}, {what} {level}, {temperature:g}", make))
        return levels[1] - levels[0]

    def labels_read(self, name: str) -> pd.DataFrame:
        """By how much an answer's own labels make it likelier than another's, nats an answer.

        Demonstrations that nothing was trained on stand under labels of the kind that the policy
        was trained on. `QUALITY` and `STYLE` are dealt out among them, one kind at a time. 0 where
        a policy does not read its label.
        """
        policy = self.policy(name)
        setup = self.setup(NOTEBOOKS["steerlm"])
        judge = Truth() if name.endswith("by the truth") else self.reward_model
        seed = 300 + self.seed
        held_out = load(
            "demonstrations", "embedded", split="validation", n_prompts=N_LABELLED, seed=seed
        ).groups
        labelled = steerlm.label(steerlm.answers(held_out), judge, levels=setup.recipe.levels)
        others = Random(seed).sample(labelled, len(labelled))
        columns = {"prompt": [group.id for group in labelled]}
        own = log_probs(policy, labelled)
        for column, kind in (("quality, nats", QUALITY), ("style, nats", STYLE)):
            moved = [with_labels_of(*pair, kind) for pair in zip(labelled, others, strict=True)]
            columns[column] = own - log_probs(policy, moved)
        return pd.DataFrame(columns).set_index("prompt")

    def kept(self, name: str, make: Callable[[], pd.DataFrame]) -> pd.DataFrame:
        """A table by prompt, made where it is not kept."""
        file = self.folder / "measured" / f"{name}.csv"
        if not file.is_file():
            paths.write(file, make().to_csv())
        return pd.read_csv(file).set_index("prompt")


# The methods: by default as they are, and what a control changes is their last argument


def supervised(world: World, policy: Policy, choose: sft.Choose = sft.best_paths) -> None:
    """SFT. choose: of `sft.load_conversations`."""
    setup = world.setup(NOTEBOOKS["sft"])
    conversations = sft.load_conversations(setup, choose)
    sft.train(policy, sft.prepare(policy, conversations, setup), setup)


def direct(world: World, policy: Policy, rule: dpo.Rule = dpo.by_attribute) -> None:
    """DPO on the rated pairs. rule: of `dpo.load_pairs`."""
    setup = world.setup(NOTEBOOKS["dpo"])
    pairs = dpo.load_pairs(setup, rule)
    dpo.train(policy, dpo.prepare(policy, pairs, setup), setup)


def iterative(
    world: World,
    policy: Policy,
    *,
    reward_model: iterative_dpo.Scorer | None = None,
    pair: iterative_dpo.PairRule = iterative_dpo.best_worst_pairs,
) -> None:
    """Iterative DPO. reward_model, pair: of `iterative_dpo.train`; None for the world's."""
    setup = world.setup(NOTEBOOKS["iterative dpo"])
    parts = iterative_dpo.prepare(iterative_dpo.load_prompts(setup), setup)
    iterative_dpo.train(policy, parts, reward_model or world.reward_model, setup, pair=pair)


def proximal(
    world: World, policy: Policy, reward: Callable[[Loaded, Setup], ppo.Reward] | None = None
) -> None:
    """PPO. reward: what makes that of `ppo.train` of the rated groups; None for the world's."""
    setup = world.setup(NOTEBOOKS["ppo"])
    data = load_rows(setup.recipe)
    prompts = ppo.prepare(policy, data, setup)
    goodness = ppo.fold_reward(world.reward_model, data, setup)
    model = ppo.actor_critic(policy, goodness, setup)
    rewarded = goodness if reward is None else reward(data, setup)
    ppo.train(model, prompts, rewarded, world.policy("sft"), setup)


def steered(world: World, policy: Policy, rule: Callable[..., list[Group]] = steerlm.label) -> None:
    """SteerLM on labelled answers. rule: of `steerlm.label_answers`."""
    setup = world.setup(NOTEBOOKS["steerlm"])
    answers = steerlm.load_answers(setup)
    labelled = steerlm.label_answers(answers, setup, reward_model=world.reward_model, rule=rule)
    steerlm.train(policy, steerlm.prepare(policy, labelled, setup), setup)


def reweighted(
    world: World,
    policy: Policy,
    *,
    reward_model: RewardModel | None = None,
    weights: Callable[..., list] = steerlm2.weigh,
) -> None:
    """SteerLM 2.0. reward_model, weights: of `steerlm2.iterate`; None for the world's."""
    setup = world.setup(NOTEBOOKS["steerlm 2"])
    prompts = steerlm2.load_prompts(setup)
    judge = reward_model or world.reward_model
    steerlm2.iterate(policy, world.policy("sft"), judge, prompts, setup, weights=weights)


METHODS: dict[str, Callable[..., None]] = {
    "sft": supervised,
    "dpo": direct,
    "iterative dpo": iterative,
    "ppo": proximal,
    "steerlm": steered,
    "steerlm 2": reweighted,
}


# What controls put in the place of an argument


def own_samples(world: World) -> sft.Choose:
    """A rule of conversations: the base's own answers to the prompts, at temperature 1."""

    def choose(groups: Iterable[Group]) -> list[Group]:
        prompts = [replace(group, responses=()) for group in groups]
        options = {"temperature": 1.0, "top_p": 1.0, "seed": world.seed, "progress": False}
        return rollouts(
            world.policy("base"), prompts, n=1, max_new_tokens=LONGEST, batch=512, **options
        )

    return choose


def faultless(world: World) -> sft.Choose:
    """A rule of conversations: answers to the prompts without a fault."""

    def choose(groups: Iterable[Group]) -> list[Group]:
        return [generate.without_faults(group) for group in groups]

    return choose


def blind(groups: Sequence[Group]) -> list[Group]:
    """The groups, each under the prompt of another one of its family with as many items.

    Where there is no other one it keeps its own. What is learnt of them cannot hang on the prompt.
    """
    alike: dict[tuple[str, int], list[Group]] = {}
    for group in groups:
        task = generate.task_of(group.id)
        alike.setdefault((task.family, len(task.items)), []).append(group)
    moved = []
    for members in alike.values():
        for group, other in zip(members, members[1:] + members[:1], strict=True):
            moved.append(replace(group, prompt=other.prompt))
    return moved


def blind_pairs(groups: Iterable[Group], attribute: str) -> tuple[list[Group], dict[str, int]]:
    """The pairs of `dpo.by_attribute` under other prompts."""
    pairs, counts = dpo.by_attribute(groups, attribute)
    return blind(pairs), counts


class Truth:
    """The true attributes in the reward model's place."""

    attributes = ATTRIBUTES

    def admitted(self, group: Group) -> Group:
        """The group as it is: no response is too long for the truth."""
        return group

    def score(self, groups: Sequence[Group], **options: object) -> torch.Tensor:
        """The true attributes of every response, float32 [R, A]."""
        return torch.tensor(
            np.concatenate([true_attributes(group) for group in groups]), dtype=torch.float32
        )

    def fingerprint(self) -> str:
        """Its name."""
        return "truth"


class Reward:
    """A reward for PPO that is no model's: a function of a group, one number for each response."""

    def __init__(self, name: str, function: Callable[[Group], list[float]]):
        self.name = name
        self.function = function

    def score(self, groups: Sequence[Group], **options: object) -> torch.Tensor:
        """The reward of every response, float32 [R, 1]."""
        return torch.tensor([[value] for group in groups for value in self.function(group)])

    def fingerprint(self) -> str:
        """Its name."""
        return self.name


def random_reward(rated: Loaded, setup: Setup) -> Reward:
    """A reward that says nothing of a text, but always the same."""
    return Reward(
        "random", lambda group: [Random(response.text).gauss(0, 1) for response in group.responses]
    )


def true_reward(rated: Loaded, setup: Setup) -> Reward:
    """The true goodness, standardised on the rated groups as the reward model's is."""
    true = np.concatenate([true_goodness(group) for group in rated.groups[:N_STANDARD]])
    return Reward(
        "truth", lambda group: ((true_goodness(group) - true.mean()) / true.std()).tolist()
    )


def blind_reward(world: World) -> Callable[[Loaded, Setup], RewardModel]:
    """What makes PPO's reward of the judge that learnt under other prompts."""
    return lambda rated, setup: ppo.fold_reward(world.blind_judge, rated, setup)


def labels_of_the_truth(
    answers: Sequence[Group], reward_model: RewardModel, **options: object
) -> list[Group]:
    """The answers under the labels that `steerlm.label` makes of their true attributes."""
    return steerlm.label(answers, Truth(), **options)


def alike(weighed: steerlm2.Weighed) -> steerlm2.Weighed:
    """The same samples, all of one weight."""
    return weighed._replace(attributes=0 * weighed.attributes, prior=weighed.sampler)


def all_alike(*sampled: object, **options: object) -> list[steerlm2.Weighed]:
    """The samples of `steerlm2.weigh`, all of one weight."""
    return [alike(weighed) for weighed in steerlm2.weigh(*sampled, **options)]


# The one argument by which a policy's training differs from its method, and what it is in a world.
CHANGED: dict[str, tuple[str, Callable[[World], object]]] = {
    "sft, own samples": ("choose", own_samples),
    "sft, faultless": ("choose", faultless),
    "dpo, at random": ("rule", lambda world: by_coin),
    "dpo, blind": ("rule", lambda world: blind_pairs),
    "iterative dpo, at random": ("pair", lambda world: two_at_random),
    "iterative dpo, by the truth": ("reward_model", lambda world: Truth()),
    "ppo, at random": ("reward", lambda world: random_reward),
    "ppo, blind": ("reward", blind_reward),
    "ppo, by the truth": ("reward", lambda world: true_reward),
    "steerlm, at random": ("rule", lambda world: labels_dealt_out),
    "steerlm, by the truth": ("rule", lambda world: labels_of_the_truth),
    "steerlm 2, at random": ("weights", lambda world: all_alike),
    "steerlm 2, blind": ("reward_model", lambda world: world.blind_judge),
    "steerlm 2, dealt out": ("weights", lambda world: weights_dealt_out),
}


def with_labels_of(answer: Group, other: Group, names: Sequence[str]) -> Group:
    """A labelled answer with those labels of another one that have these names."""
    response = answer.responses[0]
    labels = list(response.labels)
    for name in names:
        place = answer.attributes.index(name)
        labels[place] = other.responses[0].labels[place]
    return replace(answer, responses=(replace(response, labels=tuple(labels)),))


def log_probs(policy: Policy, labelled: Sequence[Group]) -> np.ndarray:
    """The log-probability of each answer under its label line, nats, float64 [answers]."""
    rows = policy.rows(steerlm.items(policy, labelled), "log-probs")  # [answers]
    return rows.double().numpy().ravel()


def controls_of(method: str) -> list[str]:
    """The names of a method's controls."""
    return [name for name in CONTROLS if name.partition(", ")[0] == method]


# What is measured


def rows_of(world: World, name: str) -> list[dict]:
    """Of one policy of a world: the mean of each measure at each temperature.

    Rounded as they are written, so that a policy equal to its start has a difference of exactly 0.
    """
    rows = []
    for temperature in TEMPERATURES:
        measured = {"held out": world.measured(name, temperature)}
        if name.partition(", ")[0] == "steerlm":
            for what in ASKED:
                measured[what] = world.steered(name, what, temperature)
            if temperature == 0:
                make = partial(world.labels_read, name)
                measured["labels"] = world.kept(f"{name}, labels", make)
        for what, frame in measured.items():
            for measure in frame:
                row = {"seed": world.seed, "policy": name, "what": what, "temperature": temperature}
                value = round(float(frame[measure].mean()), DECIMALS)
                rows.append(row | {"less": "itself", "measure": measure, "value": value})
    return rows


def references(name: str, what: str, temperature: float) -> dict[str, tuple[str, float]]:
    """What the measures of a policy are held against: the policy and temperature, by its name.

    what: "held out", or what was steered, which is held against controls and oracles alone.
    """
    held_against = {}
    method = name.partition(", ")[0]
    if name != "base" and what == "held out":
        held_against["start"] = (STARTS[method], temperature)
        held_against["greedy start"] = (STARTS[method], 0.0)
        if name in METHODS and name != "sft":
            held_against["sft"] = ("sft", temperature)
    if name in METHODS:
        own_oracles = [oracle for oracle in ORACLES if oracle.partition(", ")[0] == name]
        others = controls_of(name) + own_oracles
        if name == "ppo" and what == "held out":
            others.append("dpo")  # the other way to learn from the same judgements
        held_against |= {other: (other, temperature) for other in others}
    return held_against


def with_differences(rows: Iterable[dict]) -> list[dict]:
    """The rows, and those of each policy less what it is held against, where that was measured.

    Both are means over the same prompts, so their difference is the mean of the paired ones.

    rows: of `rows_of`, every seed. A difference that is among them stays as it is.
    """
    keys = ("seed", "policy", "what", "temperature", "measure", "less")
    at = {tuple(row[key] for key in keys): row for row in rows}
    for key, row in list(at.items()):
        seed, policy, what, temperature, measure, less = key
        if less != "itself":
            continue
        for name, (other, warmth) in references(policy, what, temperature).items():
            reference = at.get((seed, other, what, warmth, measure, "itself"))
            if reference is not None:
                value = row["value"] - reference["value"]
                at.setdefault((*key[:-1], name), row | {"less": name, "value": value})
    return list(at.values())


def over_seeds(rows: Sequence[dict]) -> pd.DataFrame:
    """The mean over seeds with Student's t interval; without one where there is one seed."""
    keys = ["policy", "what", "temperature", "less", "measure"]
    summary = []
    for key, group in pd.DataFrame(rows).groupby(keys, sort=False):
        mean, half = student(group["value"].to_numpy())
        row = dict(zip(keys, key, strict=True)) | {"value": mean}
        summary.append(row | {"low": mean - half, "high": mean + half, "seeds": len(group)})
    return pd.DataFrame(summary)


def student(values: np.ndarray) -> tuple[float, float]:
    """The mean of numbers, one a seed, and half its 95 % interval by Student's t; nan for one."""
    if len(values) < 2:
        return float(values[0]) if len(values) else float("nan"), float("nan")
    error = values.std(ddof=1) / len(values) ** 0.5
    return float(values.mean()), float(stats.t.ppf(0.975, len(values) - 1) * error)


def missing_controls(method: str, table: pd.DataFrame) -> list[str]:
    """The controls of a method that not every seed of it has. table: of `over_seeds`."""
    own = table[(table.policy == method) & (table.measure == TRUTH)]
    seeds = own.groupby("less").seeds.min()
    return [name for name in controls_of(method) if seeds.get(name, 0) < seeds.max()]


def in_short(rows: Sequence[dict]) -> pd.DataFrame:
    """The truth of each policy less its start's over seeds, at each temperature.

    rows: of `rows_of`, every seed.
    """
    table = over_seeds(with_differences(rows))
    is_gain = (table["what"] == "held out") & (table["less"] == "start")
    table = table[is_gain & (table.measure == TRUTH)]
    columns = ["policy", "temperature", "less", "value", "low", "high", "seeds"]
    return table[columns].round(2)


def controls_at_start(rows: Sequence[dict]) -> dict[str, int]:
    """In how many seeds a control has its start's measures, each at each temperature, if in any.

    rows: of `rows_of`, every seed.
    """
    frame = pd.DataFrame(rows)
    moved = frame[(frame.less == "start") & frame.policy.isin(CONTROLS)]
    still = moved.groupby(["policy", "seed"])["value"].agg(lambda values: (values == 0).all())
    counts = still.groupby("policy").sum()
    return {name: int(counts[name]) for name in CONTROLS if counts.get(name, 0)}


def verdict(method: str, table: pd.DataFrame, at_start: Iterable[str] = ()) -> str:
    """One word of what the table shows of a method: works, rises, harms, surer, not shown.

    A gain of sampled answers counts as surer whether or not it exceeds the greedy start: the row
    `greedy start` stands beside it, and `hs2lib.report.published.surer_in_words` says which it is.
    Controls that not every seed has do not count (`missing_controls`).

    table: of `over_seeds`.
    at_start: controls that did not leave their start (`controls_at_start`), which do not count.
    """
    own = table[(table.policy == method) & (table.measure == TRUTH)]
    what = "quality" if method == "steerlm" else "held out"
    start = "itself" if method == "steerlm" else "start"
    own = own[own.what == what].set_index(["temperature", "less"])
    missing = missing_controls(method, table)
    uncounted = {*missing, *at_start}
    references = [start, *(name for name in controls_of(method) if name not in uncounted)]
    if all(own.low[0.0, reference] > 0 for reference in references):
        return "works" if len(references) > 1 else "rises"
    if own.high[0.0, start] < 0:
        return "harms"
    warmer = [temperature for temperature in TEMPERATURES if temperature]
    is_steered = method == "steerlm"  # a slope of what is asked for, which surety does not raise
    if (
        not is_steered
        and own.low[0.0, start] <= 0
        and any(own.low[temperature, start] > 0 for temperature in warmer)
    ):
        return "surer"
    return "not shown"


def main() -> None:
    """Train and measure what is asked for, seed by seed, and write what is known so far."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(5)))
    names = [*METHODS, *CONTROLS, *ORACLES]
    default = [*METHODS, *CONTROLS]
    help = f"policies; else all methods and controls, so none of: {', '.join(ORACLES)}"
    parser.add_argument(
        "--only", nargs="+", choices=["base", *names], default=default, metavar="POLICY", help=help
    )
    help = "what is finished lies there; with --set beside it"
    parser.add_argument("--folder", type=Path, default=paths.runs() / "works", help=help)
    parser.add_argument("--matrix", action="store_true", help="policies are those of make matrix")
    parser.add_argument("--dry", action="store_true", help="do not write the result")
    parser.add_argument("--draw", action="store_true", help="train and measure nothing")
    parser.add_argument(
        "--set", nargs="+", default=[], metavar="METHOD.SETTING=VALUE", help="to tune; not written"
    )
    options = parser.parse_args()
    if options.draw:
        derive_again()
        return
    if options.matrix and options.set:
        parser.error("--set trains anew, and --matrix reads what is trained")
    # Of each setting a folder of its own: what lies there is read, whatever it was trained with.
    folder = options.folder.with_name("-".join([options.folder.name, *sorted(options.set)]))
    torch.set_num_threads(1)  # the small base gains nothing by a second one
    is_written = not (options.dry or options.set)
    starts = [STARTS[name.partition(", ")[0]] for name in options.only if name != "base"]
    names = list(dict.fromkeys(["base", *starts, *options.only]))
    earlier = {"rows": [], "commits": {}, "to match": []}
    if is_written:
        earlier = rows_before(options.seeds, names)
    rows = []
    for seed in options.seeds:
        world = World(seed, folder, settings_of(options.set), options.matrix)
        for name in names:
            rows += same_as_before(rows_of(world, name), earlier["to match"])
            show(with_differences(rows), seed, name)
    if is_written:
        commits = {seed: dict(of_seed) for seed, of_seed in earlier["commits"].items()}
        for seed in options.seeds:
            world = World(seed, folder, matrix=options.matrix)
            of_seed = {name: world.commit(name) for name in names if name != "base"}
            commits[str(seed)] = commits.get(str(seed), {}) | of_seed
        write(earlier["rows"] + rows, commits)
    else:
        print(in_short(rows).to_string(index=False))


def rows_before(seeds: Sequence[int], policies: Sequence[str]) -> dict:
    """Rows (of `rows_of`) and commits that the result has, but for these policies of seeds.

    Returns: rows, commits (by seed and policy), and `to match`: where rows stay, all that the
        result has, which those of the same policies have to match (`same_as_before`).
    """
    result = {"rows": [], "commits": {}, "to match": []}
    if not RESULT.is_file():
        return result
    written = json.loads(RESULT.read_text())
    if "verdicts" not in written:  # it is of the small world's first edition
        return result
    anew = {(seed, name) for seed in seeds for name in policies}
    wide = pd.read_csv(RESULT.with_suffix(".csv"))
    every = wide.melt(KEYS, var_name="measure").dropna(subset="value").to_dict("records")
    result["rows"] = [row for row in every if (row["seed"], row["policy"]) not in anew]
    kept = {(str(row["seed"]), row["policy"]) for row in result["rows"]}
    for seed, of_seed in written["commits"].items():
        of_kept = {name: commit for name, commit in of_seed.items() if (seed, name) in kept}
        if of_kept:
            result["commits"][seed] = of_kept
    if kept:
        result["to match"] = [row for row in every if row["less"] == "itself"]
    return result


def same_as_before(rows: list[dict], earlier: Sequence[dict]) -> list[dict]:
    """The rows of one policy, if none has another value than in the result that is there.

    rows: of `rows_of`.
    earlier: `to match` of `rows_before`; empty where nothing stays.

    Raises:
        SystemExit: a measure differs, or the policy is a start that the result lacks. A mean over
            both would be one of two recipes.
    """
    if not earlier:
        return rows
    names = ("policy", "seed", "what", "temperature", "measure")
    before = {tuple(row[name] for name in names): row["value"] for row in earlier}
    which = f"{rows[0]['policy']} of seed {rows[0]['seed']}"
    advice = "run all seeds and policies anew"
    n_compared = 0
    for row in rows:
        value = before.get(tuple(row[name] for name in names))
        if value is None:
            continue
        n_compared += 1
        if abs(row["value"] - value) > 1.5 * 10**-DECIMALS:
            raise SystemExit(
                f"{which} has {row['measure']} {row['value']:.4f} ({row['what']}, temperature "
                f"{row['temperature']:g}), and {value:.4f} in {RESULT.name}: {advice}"
            )
    if not n_compared and rows[0]["policy"] in STARTS.values():
        raise SystemExit(f"{RESULT.name} has no {which} to compare with: {advice}")
    return rows


def settings_of(texts: Sequence[str]) -> dict[str, dict[str, object]]:
    """Settings of recipes by notebook from texts such as dpo.beta=.3 ("rm" is the reward model)."""
    settings: dict[str, dict[str, object]] = {}
    for text in texts:
        name, _, value = text.partition("=")
        method, _, setting = name.partition(".")
        notebook = (NOTEBOOKS | {"rm": REWARD_MODEL})[method.replace("_", " ")]
        try:
            read = ast.literal_eval(value)
        except (ValueError, SyntaxError):
            read = value
        settings.setdefault(notebook, {})[setting] = read
    return settings


def show(rows: Sequence[dict], seed: int, name: str) -> None:
    """Print what one policy of one seed reaches."""
    frame = pd.DataFrame(rows)
    frame = frame[(frame.seed == seed) & (frame.policy == name)]
    wide = frame.pivot_table(
        index=["what", "temperature", "less"], columns="measure", values="value", sort=False
    )
    print(name, wide.round(2).to_string(), sep="\n", flush=True)


def derive_again() -> None:
    """Write the result again from the means that it has: differences, verdicts and figure.

    Raises SystemExit without a result.
    """
    if not RESULT.is_file():
        raise SystemExit(f"{RESULT} is not there: benchmarks/works.py without --draw writes it")
    written = json.loads(RESULT.read_text())
    wide = pd.read_csv(RESULT.with_suffix(".csv"))
    rows = wide.melt(KEYS, var_name="measure").dropna(subset="value").to_dict("records")
    write(rows, written["commits"], {key: written[key] for key in ("device", "commit")})


def write(
    rows: Sequence[dict],
    commits: dict[str, dict[str, str]],
    measured_by: dict[str, str] | None = None,
) -> None:
    """Write the result.

    rows: of `rows_of` and `rows_before`, every seed.
    commits: by seed and policy, the one that trained it.
    measured_by: device and commit that measured the rows; by default those of now.
    """
    measured_by = measured_by or {"device": report.device(), "commit": report.commit()}
    rows = with_differences(rows)
    table = over_seeds(rows)
    measured = set(table.policy)
    at_start = controls_at_start(rows)
    verdicts = {}
    missing = {}
    for method in METHODS:
        if {method, *controls_of(method)} <= measured:
            verdicts[method] = verdict(method, table, at_start)
            if without := missing_controls(method, table):
                missing[method] = without
    truth = table[(table.measure == TRUTH) & (table.temperature == 0) & (table.what == "held out")]
    less_start = truth[truth.less == "start"].set_index("policy")
    words = []
    for method, word in verdicts.items():
        row = less_start.loc[method]
        numbers = f"({row.value:+.2f}, {row.low:+.2f} to {row.high:+.2f})"
        words.append(f"{method} {word} {numbers}")
    # Of other measures than the truth only what is greedy, and less the greedy start nothing.
    is_greedy = (table.temperature == 0) & (table.less != "greedy start")
    shown = table[(table.measure == TRUTH) | is_greedy]
    wide = pd.DataFrame(rows).pivot(index=KEYS, columns="measure", values="value")
    result = {
        "name": "works",
        "compared": "true goodness (0 to 7.6), greedy, less the start's, mean of seeds",
        "figure": "; ".join(words),
        "goal": "works: greedy above start and controls, t interval over five seeds",
        "met": bool(verdicts) and set(verdicts.values()) == {"works"} and not missing,
        "verdicts": verdicts,
        "missing": missing,
        "at their start": at_start,  # in how many seeds
        "controls": CONTROLS,
        "seeds": sorted(int(seed) for seed in commits),
        "prompts": N_EVALUATED,
        "means": shown.round(4).to_dict("records"),
        "commits": commits,
        **measured_by,
    }
    paths.write(RESULT.with_suffix(".csv"), wide.round(DECIMALS).to_csv())
    paths.write(RESULT, json.dumps(result, indent=1) + "\n")
    draw()


NAMES = {
    "sft": "SFT less the base",
    "dpo": "DPO less SFT",
    "iterative dpo": "iterative DPO less DPO",
    "iterative dpo, by the truth": "   judged by the truth",
    "ppo": "PPO less SFT",
    "ppo, by the truth": "   judged by the truth",
    "steerlm": "SteerLM less SFT",
    "steerlm, by the truth": "   labelled by the truth",
    "steerlm 2": "SteerLM 2.0 less SteerLM",
}


def draw() -> None:
    """Write the figure of the result that is there, beside it; none where no method was measured."""
    result = json.loads(RESULT.read_text())
    if not result["verdicts"]:
        return
    fig = gains_figure(result, pd.read_csv(RESULT.with_suffix(".csv")))
    # The figure says of which result it is: a test asks.
    drawn_of = paths.sha256(RESULT.with_suffix(".csv"))
    fig.savefig(RESULT.with_suffix(".png"), dpi=style.DPI, metadata={"Source": drawn_of})
    plt.close(fig)


def gains_figure(result: dict, seeds: pd.DataFrame) -> Figure:
    """What each method and each control adds to the truth of its start: every seed, mean, interval.

    A control that stays at its start has its seeds alone.

    Args:
        result: as `write` writes it.
        seeds: of works.csv: a column for each of `KEYS` and each measure.
    """
    gains = seeds[(seeds["what"] == "held out") & (seeds["less"] == "start")]
    means = pd.DataFrame(result["means"])
    is_gain = (means["what"] == "held out") & (means["less"] == "start")
    means = means[is_gain & (means["measure"] == TRUTH)]
    order = []
    for method in METHODS:
        of_method = [method, f"{method}, by the truth", *controls_of(method)]
        order += [name for name in of_method if name in set(means["policy"])]
    names = []
    for name in order:
        words = NAMES.get(name, f"   control: {name.partition(', ')[2]}")
        still = result["at their start"].get(name)
        if name == published.CANNOT_MOVE:
            names.append("   control: equal weights (cannot move)")
            continue
        names.append(
            f"{words} (stays there, {still} of {len(result['seeds'])})" if still else words
        )
    fig, ax = plt.subplots(figsize=(7.5, 0.9 + 0.29 * len(order)), layout="constrained")
    looks = {
        (False, 0.0): (figures.Look(style.BLUE, "D"), "method, greedy"),
        (False, 0.7): (figures.Look(style.BLUE, "o", filled=False), "method, sampled at .7"),
        (True, 0.0): (figures.Look(style.GREY, "D"), "control, greedy"),
        (True, 0.7): (figures.Look(style.GREY, "o", filled=False), "control, sampled at .7"),
    }
    for (is_control, temperature), (look, label) in looks.items():
        part = means[means["temperature"] == temperature].set_index("policy")
        shown = [name for name in order if (name in CONTROLS) == is_control and name in part.index]
        at = np.array([order.index(name) for name in shown]) + (0.17 if temperature else -0.17)
        rows = part.loc[shown]
        # Of a control that did not train in most seeds a mean says nothing.
        trained = np.array([name not in result["at their start"] for name in shown], dtype=bool)
        rows = rows[trained]
        figures.dots(ax, at[trained], rows["value"], rows["low"], rows["high"], look, label=label)
        by_seed = gains[gains["temperature"] == temperature].set_index("policy")[TRUTH]
        for place, name in zip(at, shown, strict=True):
            values = by_seed.loc[[name]]
            ax.plot(values, np.full(len(values), place), "|", color=look.color, ms=5, alpha=0.5)
    for start in range(1, len(order)):
        if order[start] in METHODS:
            ax.axhline(start - 0.5, color=style.PALE_GREY, lw=0.8)
    ax.axvline(0, color="black", lw=0.8)
    ax.set(yticks=range(len(order)), yticklabels=names, ylim=(len(order) - 0.5, -0.5))
    ax.set_xlabel(
        f"true goodness added (the scale is 0 to 7.6), {result['prompts']} held-out prompts\n"
        f"generated data (small world); ticks: {len(result['seeds'])} seeds, marks: their mean with "
        "its 95 % interval",
        fontsize=8,
    )
    for label, name in zip(ax.get_yticklabels(), order, strict=True):
        label.set(ha="left", color=style.GREY if name in CONTROLS else "black")
    ax.tick_params(axis="y", pad=190, length=0)
    ax.grid(axis="y", visible=False)
    fig.legend(fontsize=8, loc="outside lower center", ncols=2, frameon=False)
    works = [method for method in METHODS if result["verdicts"].get(method) == "works"]
    title = "No method is shown to raise the truth more than its controls do"
    if works:
        titles = " and ".join(NAMES[method].partition(" less ")[0] for method in works)
        title = f"Shown to raise the truth, greedy, by more than their controls do: {titles}"
    fig.suptitle(title, fontsize=10)
    return fig


if __name__ == "__main__":
    main()
