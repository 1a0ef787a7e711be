"""Does each method work? Its effect on the truth, beside a control with the cause removed, over seeds.

    python benchmarks/works.py [--seeds 5] [--only sft dpo ..] [--folder runs/works] [--dry]

In the small world the true attributes of any response are known (`hs2lib.corpus.grade`). World, reward model and policy
are seeded; the base is frozen. Every method runs twice: as it is, and as its control, the same run whose cause is taken
away (`CONTROLS`). A claim is method minus control in true goodness, paired by prompt, with a 95 % interval over prompts
that no training text holds; what a method adds to its start, and what its control adds, stand beside it, and the same
by the reward model (proxy). SteerLM's claim is the slope: how far the true attribute moves for one level asked for, on
average over the five attributes; each attribute's slope stands beside it. Sizes and rates are tier demo's, but for the
reward model's rate of 2e-4, which there is half of that since. What is finished is kept by seed and method, so a run
that was stopped goes on; each row names the commit that trained its policy. The result is written after each method,
and says which seeds are partial. About 25 minutes a seed on one core.
"""

import argparse
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from random import Random

import numpy as np
import pandas as pd
import torch

from hs2lib import paths
from hs2lib.align import dpo, iterative_dpo, ppo, sft, steerlm, steerlm2
from hs2lib.corpus.grade import true_attributes, true_goodness
from hs2lib.data.load import Loaded, load
from hs2lib.engine.chat import label_string
from hs2lib.evaluate.questions import mean
from hs2lib.group import ATTRIBUTES, Group
from hs2lib.models import baselines
from hs2lib.models.policy import Policy, load_policy
from hs2lib.models.reward_model import RewardModel, load_reward_model
from hs2lib.models.rollout import rollouts
from hs2lib.paper import head_weights
from hs2lib.report import report
from hs2lib.run.setup import Setup
from hs2lib.train import items, objectives, recipes
from hs2lib.train.trainer import fit

CONTROLS = {
    "sft": "one of the two responses at random in place of the better one",
    "dpo": "which response is preferred drawn at random",
    "iterative dpo": "two of the samples at random in place of best and worst",
    "ppo": "a reward drawn at random for every text",
    "steerlm": "labels dealt out at random among the answers",
    "steerlm 2": "the same weight for every sample",
}
STARTS = {"sft": "base", "dpo": "sft", "iterative dpo": "dpo", "ppo": "sft", "steerlm": "sft", "steerlm 2": "steerlm"}
CLAIMED = dict.fromkeys(STARTS, "gold") | {"steerlm": "slope"}  # of each method, what the goal is about
# The same with the truth in place of the reward model: what the method could do, were the reward model not to blame.
BY_TRUTH = {"iterative dpo by the truth": "iterative dpo", "ppo by the truth": "ppo"}
STARTS |= {name: STARTS[method] for name, method in BY_TRUTH.items()}
TARGET = (4, 4, 4, 2, 2)
GOODNESS = np.array(head_weights("goodness", ATTRIBUTES))
N_RATED, N_SFT, N_STEERLM = 4800, 2400, 4300  # prompts that the reward model, SFT and DPO, and SteerLM learn from
N_EVALUATED, N_STEERED, LONGEST = 400, 60, 128
# At temperature 1 from all tokens: the policy itself. At .7 and .9 the base's likeliest answers hardly have a fault.
SAMPLED = {"max_new_tokens": LONGEST, "temperature": 1.0, "top_p": 1.0, "progress": False, "batch": 512}
BASIC = {"autocast": "bfloat16", "budget": 2048, "save_every": 10_000, "keep": 0, "warmup": 10}
SCORED = {"budget": 8192, "autocast": "bfloat16"}


class World:
    """Everything of one seed, made when first asked for and kept in a folder."""

    def __init__(self, seed: int, folder: Path):
        self.seed, self.folder = seed, folder / f"seed-{seed}"

    @cached_property
    def train(self) -> list[Group]:
        """Rated groups to train on."""
        return load("helpsteer2", "embedded", split="train", n_prompts=N_RATED, seed=100 + self.seed).groups

    @cached_property
    def held_out(self) -> list[Group]:
        """Prompts to evaluate on, which no training text holds."""
        made = load("helpsteer2", "embedded", split="validation", n_prompts=N_EVALUATED, seed=200 + self.seed)
        return [replace(group, responses=()) for group in made.groups]

    def prompts(self, n: int, stream: int) -> list[Group]:
        """Fresh prompts of the train split to sample on."""
        made = load("helpsteer2", "embedded", split="train", n_prompts=n, seed=300 + 10 * self.seed + stream)
        return [replace(group, responses=()) for group in made.groups]

    @cached_property
    def reward_model(self) -> RewardModel:
        """The reward model of this seed, trained on what the annotators said."""
        place = self.folder / "reward-model"
        if not place.is_dir():
            model = RewardModel.new("small", attributes=ATTRIBUTES, seed=self.seed)
            parts = items.cut(self.train, {"validation": 0.03, "train": 0.97}, self.seed)
            made = {name: items.rated(model, part)[0] for name, part in parts.items()}
            few = made["train"][:1600]
            states, targets = baselines.frozen_states(model, few, autocast="bfloat16"), baselines.targets(few)[0]
            rows = np.repeat(np.arange(len(few)), [len(item.sequences) for item in few])
            alpha = baselines.best_alpha(states, targets, rows, seed=self.seed, intercept=False)
            baselines.start_head(model, states, targets, alpha)
            how = BASIC | {"batch": 8, "learning_rate": 2e-4, "epochs": 1, "validate_every": 58, "keep": 1}
            regression = objectives.named("regression")
            self.fit(model, made["train"], made["validation"], regression, recipes.Recipe(**how, seed=self.seed))
            model.save(place)
        return load_reward_model(place).eval()

    def policy(self, name: str) -> Policy:
        """The policy that a method or its control left; trained where it is not there."""
        if name == "base":
            return load_policy("small")
        place = self.folder / name.replace(", ", "-").replace(" ", "-")
        if not place.is_dir():
            method, _, control = name.partition(", ")
            began, policy = time.monotonic(), self.policy(STARTS[method])
            how = {"truth": Truth()} if method in BY_TRUTH else {}
            METHODS[method](self, policy, bool(control), **how)
            paths.write(self.folder / "commits" / name, report.commit())
            policy.save(place)
            print(f"seed {self.seed}, {name}: {time.monotonic() - began:.0f} s", flush=True)
        return load_policy(place)

    def fit(self, model, training, validation, objective, recipe) -> None:
        """Train in a folder of its own."""
        fit(model, training, validation, objective, recipe, self.folder / "training")

    def sampled(self, name: str, prompts: list[Group], levels: tuple) -> list[Group]:
        """Two responses of a policy to each prompt; SteerLM's are asked for levels."""
        label = label_string(levels) if name.startswith("steerlm") else None
        return rollouts(self.policy(name), prompts, n=2, label=label, seed=self.seed, **SAMPLED)

    def measured(self, name: str, what: str) -> pd.DataFrame:
        """What a policy reaches by held-out prompt: goodness ("held-out"), or the slopes of steering ("steering")."""
        file = self.folder / what / f"{name}.csv"
        if not file.is_file():
            frame = {"held-out": self.goodness, "steering": self.slopes}[what](name)
            frame.insert(0, "prompt", [group.id for group in self.held_out[: len(frame)]])
            paths.write(file, frame.to_csv(index=False))
        return pd.read_csv(file).set_index("prompt")

    def goodness(self, name: str) -> pd.DataFrame:
        """Goodness of a policy's responses by the truth and by the reward model, mean by prompt."""
        groups = self.sampled(name, self.held_out, TARGET)
        proxy = self.reward_model.score(groups, **SCORED).numpy() @ GOODNESS
        gold = [(true_attributes(group) @ GOODNESS).mean() for group in groups]
        return pd.DataFrame({"gold": gold, "proxy": proxy.reshape(len(groups), -1).mean(1)})

    def slopes(self, name: str) -> pd.DataFrame:
        """Change of the true attribute for a level of it asked for: mean over the attributes, and each, by prompt."""
        slopes, asked = {"slope": 0.0}, self.held_out[:N_STEERED]
        for k, attribute in enumerate(ATTRIBUTES):
            ends = [tuple(level if i == k else x for i, x in enumerate(TARGET)) for level in (0, 4)]
            low, high = (
                np.array([true_attributes(group)[:, k].mean() for group in self.sampled(name, asked, end)])
                for end in ends
            )
            slopes[f"slope of {attribute}"] = (high - low) / 4
            slopes["slope"] += slopes[f"slope of {attribute}"] / len(ATTRIBUTES)
        return pd.DataFrame(slopes)


def supervised(world: World, policy: Policy, control: bool) -> None:
    rated = world.train[:N_SFT]
    drawn = [replace(group, responses=(Random(group.id).choice(group.responses),)) for group in rated]
    made, _ = sft.items(policy, drawn if control else sft.best_paths(rated))
    recipe = recipes.SFT(**BASIC, batch=16, learning_rate=2e-4, epochs=1, seed=world.seed)
    world.fit(policy, made, [], objectives.sft(), recipe)


def direct(world: World, policy: Policy, control: bool) -> None:
    pairs, _ = dpo.by_attribute(world.train[:N_SFT])
    if control:
        sides = [Random(pair.id).choice((1, -1)) for pair in pairs]
        pairs = [replace(pair, responses=pair.responses[::side]) for pair, side in zip(pairs, sides, strict=True)]
    prefer(world, policy, pairs, batch=16, learning_rate=3e-5)


def prefer(world: World, policy: Policy, pairs: list[Group], **rates) -> None:
    """Train on pairs by DPO."""
    made, _ = dpo.items(policy, pairs)
    recipe = recipes.DPO(**BASIC, **rates, epochs=1, beta=0.1, seed=world.seed)
    world.fit(policy, made, [], objectives.dpo(recipe.beta), recipe)


class Truth:
    """The true attributes in the reward model's place."""

    attributes = ATTRIBUTES

    def score(self, groups: Sequence[Group], **options) -> torch.Tensor:
        return torch.tensor(np.concatenate([true_attributes(group) for group in groups]), dtype=torch.float32)

    def fingerprint(self) -> str:
        return "truth"


@dataclass(frozen=True)
class InFolder(Setup):
    """A run in a folder of its own."""

    place: Path = Path()

    @property
    def folder(self) -> Path:
        return self.place


def two_at_random(groups: Sequence[Group], scores: np.ndarray) -> tuple[list[Group], dict[str, int]]:
    """Two samples of each prompt, whatever their scores."""
    pairs = []
    for group in groups:
        two = tuple(Random(group.id).sample(group.responses, 2))
        pairs.append(replace(group, responses=two, preference=-1.0, preferences=()))
    return pairs, {"groups": len(groups), "pairs": len(pairs)}


def iterative(world: World, policy: Policy, control: bool, truth: Truth | None = None) -> None:
    recipe = recipes.IterativeDPO(
        **BASIC, n_samples=8, max_new_tokens=LONGEST, temperature=1.0, top_p=1.0, batch=8, learning_rate=1e-5,
        epochs=1, beta=0.1, seed=world.seed,
    )  # fmt: skip
    setup = InFolder("09_iterative_dpo", "demo", {}, recipe, world.folder / "training")
    parts = [world.prompts(120, number) for number in range(2)]
    pair = two_at_random if control else dpo.by_score
    iterative_dpo.train(policy, parts, truth or world.reward_model, setup, pair=pair)


class Reward:
    """A reward for PPO that is no model's: a function of a group, one number for each response."""

    def __init__(self, name: str, function: Callable[[Group], list[float]]):
        self.name = name
        self.function = function

    def score(self, groups: Sequence[Group], **options) -> torch.Tensor:
        return torch.tensor([[value] for group in groups for value in self.function(group)])

    def fingerprint(self) -> str:
        return self.name


def proximal(world: World, policy: Policy, control: bool, truth: Truth | None = None) -> None:
    recipe = recipes.PPO(
        **BASIC | SCORED | {"warmup": 0}, batch=16, buffer=32, steps=36, n_samples=4, learning_rate=1.5e-4,
        kl_weight=0.1, kl_form="plain", lam=1.0, critic="separate", critic_rate=5.0, max_new_tokens=LONGEST,
        unfinished="keep", n_standard=300, seed=world.seed,
    )  # fmt: skip
    setup = InFolder("10_ppo", "demo", {}, recipe, world.folder / "training")
    rated = Loaded(world.train, "the small world", True)
    goodness = ppo.fold_reward(world.reward_model, rated, setup)
    reward = goodness
    if control:
        reward = Reward("random", lambda group: [Random(response.text).gauss(0, 1) for response in group.responses])
    elif truth:
        true = np.concatenate([true_goodness(group) for group in world.train[:300]])
        reward = Reward("truth", lambda group: ((true_goodness(group) - true.mean()) / true.std()).tolist())
    asked = Loaded(world.prompts(600, 5), "the small world", True)
    prompts = ppo.prepare(policy, asked, setup)
    model = ppo.actor_critic(policy, goodness, setup)
    ppo.train(model, prompts, reward, world.policy("sft"), setup)


def steered(world: World, policy: Policy, control: bool) -> None:
    answers = [answer for answer in steerlm.answers(world.train[:N_STEERLM]) if len(answer.prompt) == 1]
    labelled = steerlm.label(answers[:6000], world.reward_model, levels="fifths", **SCORED)
    if control:
        dealt = [answer.responses[0].labels for answer in labelled]
        Random(world.seed).shuffle(dealt)
        labelled = [
            replace(answer, responses=(replace(answer.responses[0], labels=labels),))
            for answer, labels in zip(labelled, dealt, strict=True)
        ]
    steerlm.tell_apart(policy, label_string(TARGET), world.seed)
    recipe = recipes.SteerLM(**BASIC, batch=16, learning_rate=5e-4, epochs=1, seed=world.seed)
    world.fit(policy, steerlm.items(policy, labelled), [], objectives.sft(), recipe)


def uniform(weighed: steerlm2.Weighed) -> steerlm2.Weighed:
    """The same samples, all of one weight."""
    return weighed._replace(attributes=0 * weighed.attributes, prior=weighed.sampler)


def reweighted(world: World, policy: Policy, control: bool) -> None:
    prior, target = world.policy("sft"), label_string(TARGET)
    recipe = recipes.SteerLM2(
        **BASIC | {"warmup": 0}, n_samples=10, max_new_tokens=LONGEST, batch=8, epochs=2, learning_rate=1e-4,
        n_validation=0, seed=world.seed,
    )  # fmt: skip
    for number in range(2):
        how = SAMPLED | {"n": recipe.n_samples, "label": target, "seed": world.seed + number}
        sampled = rollouts(policy, world.prompts(48, 7 + number), **how)
        weighed = steerlm2.weigh(sampled, policy, prior, world.reward_model, target, recipe, **SCORED)
        if control:
            weighed = [uniform(one) for one in weighed]
        world.fit(policy, steerlm2.items(weighed), [], objectives.steerlm2(recipe.by_length), recipe)


METHODS: dict[str, Callable] = {
    "sft": supervised,
    "dpo": direct,
    "iterative dpo": iterative,
    "ppo": proximal,
    "steerlm": steered,
    "steerlm 2": reweighted,
}
METHODS |= {name: METHODS[method] for name, method in BY_TRUTH.items()}


def claims(world: World, method: str) -> list[dict]:
    """What a method adds to its control and to its start, and the control to the start, with intervals."""
    rows = []
    for what in ("held-out", "steering") if method == "steerlm" else ("held-out",):
        own, control = (world.measured(name, what) for name in (method, f"{BY_TRUTH.get(method, method)}, control"))
        # A start that was never shown a label answers every label alike.
        start = 0 * own if what == "steering" else world.measured(STARTS[method], what)
        differences = {"less control": own - control, "less start": own - start, "control less start": control - start}
        for measure in own:
            for name, difference in differences.items():
                number = mean(difference[measure], difference.index, n_boot=2000, seed=0)
                row = {"seed": world.seed, "method": method, "measure": measure, "what": name}
                row["commit"] = (world.folder / "commits" / method).read_text()
                rows.append(row | dict(zip(("value", "low", "high"), np.round(number, 4).tolist(), strict=True)))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(5)))
    parser.add_argument("--only", nargs="+", choices=list(METHODS), default=list(METHODS))
    parser.add_argument("--folder", type=Path, default=paths.runs() / "works")
    parser.add_argument("--dry", action="store_true", help="do not write the result")
    options = parser.parse_args()
    torch.set_num_threads(1)  # the small base gains nothing by a second one
    rows = []
    for seed in options.seeds:
        world = World(seed, options.folder)
        for method in options.only:
            rows += claims(world, method)
            print(pd.DataFrame([row for row in rows if row["seed"] == seed and row["method"] == method]).to_string())
            if not options.dry:
                write(rows)


def write(rows: list[dict]) -> None:
    """The result so far."""
    table = summary(rows)
    claimed = table.method.map(CLAIMED).fillna("gold")
    shown = table[(table.what == "less control") & (table.measure == claimed)]
    goal = shown[shown.method.isin(CLAIMED)]
    done = pd.DataFrame(rows).groupby("seed").method.nunique()
    result = {
        "name": "works",
        "compared": "each method and its control in the small world: true goodness, of SteerLM the slope",
        "figure": "; ".join(f"{r.method} {r.measure} {r.value:+.2f}, above 0 in {r.above} of {r.seeds} seeds"
                            for r in shown.itertuples()),
        "goal": "above 0 at 95 % in at least four of five seeds",
        "met": bool(len(goal) == len(CLAIMED) and (goal.above >= 4).all()),
        "partial seeds": done.index[done < len(METHODS)].tolist(),
        "controls": CONTROLS, "means": table.round(4).to_dict("records"), "rows": rows,
        "device": report.device(), "commit": report.commit(),
    }  # fmt: skip
    paths.write(paths.reports() / "benchmarks" / "works.json", json.dumps(result, indent=1) + "\n")


def summary(rows: list[dict]) -> pd.DataFrame:
    """By claim: the mean over seeds, and in how many seeds the interval is above 0, and below."""
    frame = pd.DataFrame(rows)
    grouped = frame.assign(above=frame.low > 0, below=frame.high < 0).groupby(["method", "measure", "what"], sort=False)
    return grouped.agg(
        value=("value", "mean"), above=("above", "sum"), below=("below", "sum"), seeds=("seed", "nunique")
    ).reset_index()


if __name__ == "__main__":
    main()
