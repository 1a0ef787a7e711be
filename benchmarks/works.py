"""Does each method work? Its effect on the truth, beside a control with the cause removed, over
seeds.

    python benchmarks/works.py [--seeds 5] [--only sft dpo ..] [--folder runs/works] [--dry]

In the small world the true attributes of any response are known (`hs2lib.corpus.grade`). World,
reward model and policy are seeded; the base is frozen. Every method runs twice, by the library's
own functions: as it is, and as its control, the same call with one argument changed (`CHANGED`), by
which its cause is taken away (`CONTROLS`). A claim is method minus control in truth, paired by
prompt, with a 95 % interval over prompts that no training text holds; what a method adds to its
start, and what its control adds, stand beside it, and the same by the reward model's score.
SteerLM's claim is the slope: how far the true attribute moves for one level asked for, on average
over the five attributes; each attribute's slope stands beside it. Sizes and rates are tier demo's,
but for the reward model's rate of 2e-4, which there is half of that since. What is finished is kept
by seed and method, so a run that was stopped goes on; each row names the commit that trained its
policy. The result is written after each method, and says which seeds are partial. About 25 minutes
a seed on one core.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
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
from hs2lib.evaluate import response_rows
from hs2lib.evaluate.questions import mean
from hs2lib.evaluate.response_rows import SCORE, TRUTH, truth_of
from hs2lib.group import ATTRIBUTES, Group
from hs2lib.models import reward_training
from hs2lib.models.policy import Policy, load_policy
from hs2lib.models.reward_model import RewardModel, load_reward_model
from hs2lib.report import report
from hs2lib.run.setup import Setup
from hs2lib.train import items, recipes

CONTROLS = {
    "sft": "one of the two responses at random in place of the better one",
    "dpo": "which response is preferred drawn at random",
    "iterative dpo": "two of the samples at random in place of best and worst",
    "ppo": "a reward drawn at random for every text",
    "steerlm": "labels dealt out at random among the answers",
    "steerlm 2": "the same weight for every sample",
}
STARTS = {
    "sft": "base",
    "dpo": "sft",
    "iterative dpo": "dpo",
    "ppo": "sft",
    "steerlm": "sft",
    "steerlm 2": "steerlm",
}
CLAIMED = dict.fromkeys(STARTS, TRUTH) | {
    "steerlm": "slope"
}  # of each method, what the goal is about
# The same with the truth in place of the reward model: what the method could do, were the reward
# model not to blame.
BY_TRUTH = {"iterative dpo by the truth": "iterative dpo", "ppo by the truth": "ppo"}
STARTS |= {name: STARTS[method] for name, method in BY_TRUTH.items()}
TARGET = steerlm2.TARGET  # what policies that read labels are asked for
N_RATED = 4800  # prompts that the reward model learns from
N_SFT = 2400  # of these, prompts that SFT and DPO learn from
N_STEERLM = 4300  # of these, prompts whose answers SteerLM takes
N_ANSWERS = 6000  # answers that SteerLM labels
N_STANDARD = 300  # of the rated prompts, those whose responses give PPO's reward its mean and SD
N_ROUND = 120  # prompts of a round of iterative DPO
N_ITERATION = 48  # prompts of an iteration of SteerLM 2.0
N_PPO = 600  # prompts that PPO draws from
PPO_STEPS = 36
N_EVALUATED = 400  # held-out prompts
N_STEERED = 60  # of these, prompts to steer on
LONGEST = 128  # tokens of a sampled response
# Settings that the recipes share.
COMMON = {"autocast": "bfloat16", "budget": 2048, "save_every": 10_000, "keep": 0, "warmup": 10}


def measuring(seed: int) -> recipes.SFT:
    """How policies answer and are scored, in float32; only that of the recipe is read.

    At temperature 1 from all tokens: the policy itself. At .7 and .9 the base's likeliest answers
    hardly have a fault.
    """
    sampling = {
        "n_eval_samples": 2,
        "eval_temperature": 1.0,
        "eval_top_p": 1.0,
        "eval_tokens": LONGEST,
    }
    return recipes.SFT(**sampling, budget=4096, seed=seed)


class World:
    """Everything of one seed, made when first asked for and kept in a folder."""

    def __init__(self, seed: int, folder: Path, n_rated: int = N_RATED):
        self.seed = seed
        self.folder = folder / f"seed-{seed}"
        self.n_rated = n_rated

    @cached_property
    def rated(self) -> Loaded:
        """Rated groups to train on."""
        return load(
            "helpsteer2", "embedded", split="train", n_prompts=self.n_rated, seed=100 + self.seed
        )

    def first_rated(self, number: int) -> Loaded:
        """The first rated groups."""
        return replace(self.rated, groups=self.rated.groups[:number])

    @cached_property
    def held_out(self) -> list[Group]:
        """Prompts to evaluate on, which no training text holds."""
        made = load(
            "helpsteer2",
            "embedded",
            split="validation",
            n_prompts=N_EVALUATED,
            seed=200 + self.seed,
        )
        return [replace(group, responses=()) for group in made.groups]

    def prompts(self, number: int, stream: int) -> Loaded:
        """Fresh prompts of the train split to sample on."""
        seed = 300 + 10 * self.seed + stream
        made = load("helpsteer2", "embedded", split="train", n_prompts=number, seed=seed)
        return replace(made, groups=[replace(group, responses=()) for group in made.groups])

    def setup(self, notebook: str, recipe: recipes.Recipe) -> Setup:
        """The setup of a step of this world; all steps work in one folder, where everything is kept by its content."""
        return Setup(notebook, "demo", {}, recipe, place=self.folder / "training")

    @cached_property
    def reward_model(self) -> RewardModel:
        """The reward model of this seed, trained on what the annotators said."""
        place = self.folder / "reward-model"
        if not place.is_dir():
            recipe = recipes.RewardModel(
                **COMMON | {"keep": 1},
                head="ridge",
                ridge_groups=1600,
                batch=8,
                learning_rate=2e-4,
                epochs=1,
                validate_every=58,
                seed=self.seed,
            )
            setup = self.setup("05_reward_model_training", recipe)
            parts = items.cut(self.rated.groups, {"validation": 0.03, "train": 0.97}, self.seed)
            data = reward_training.Parts(parts, self.rated)
            model = reward_training.new_model(data, setup)
            prepared = reward_training.prepare(model, data, setup)
            reward_training.start_head(
                model, reward_training.baseline_inputs(model, data, prepared, setup), setup
            )
            reward_training.train(model, prepared, setup)
            model.save(place)
        return load_reward_model(place).eval()

    def policy(self, name: str) -> Policy:
        """The policy that a method or its control left; trained where it is not there."""
        if name == "base":
            return load_policy("small")
        place = self.folder / name.replace(", ", "-").replace(" ", "-")
        if not place.is_dir():
            began = time.monotonic()
            method = name.partition(", ")[0]
            policy = self.policy(STARTS[method])
            METHODS[method](self, policy, **CHANGED.get(name, {}))
            paths.write(self.folder / "commits" / name, report.commit())
            policy.save(place)
            print(f"seed {self.seed}, {name}: {time.monotonic() - began:.0f} s", flush=True)
        return load_policy(place)

    def answered(
        self,
        name: str,
        prompts: Sequence[Group],
        label: str,
        reward_model: RewardModel | None = None,
    ) -> pd.DataFrame:
        """The rows of `response_rows.evaluate` of two responses of a policy to each prompt; SteerLM's
        are asked for levels.

        Without a reward model there are no scores.
        """
        return response_rows.evaluate(
            self.policy(name),
            prompts,
            reward_model,
            None,
            name=name,
            label=label if name.startswith("steerlm") else None,
            progress=False,
            batch=512,
            **measuring(self.seed).evaluation,
        )

    def measured(self, name: str, what: str) -> pd.DataFrame:
        """What a policy reaches by held-out prompt: goodness ("held-out"), or the slopes of steering ("steering")."""
        file = self.folder / what / f"{name}.csv"
        if not file.is_file():
            measure = {"held-out": self.goodness, "steering": self.slopes}[what]
            paths.write(file, measure(name).to_csv())
        return pd.read_csv(file).set_index("prompt")

    def goodness(self, name: str) -> pd.DataFrame:
        """Goodness of a policy's responses by the truth and by the reward model, mean by prompt."""
        rows = self.answered(name, self.held_out, TARGET, self.reward_model)
        return rows.groupby("prompt", sort=False)[[TRUTH, SCORE]].mean()

    def slopes(self, name: str) -> pd.DataFrame:
        """Change of the true attribute for a level of it asked for: mean over the attributes, and each, by prompt."""
        asked = self.held_out[:N_STEERED]
        slopes = {}
        for attribute in ATTRIBUTES:
            reached = {}
            for level, label in steerlm.targets(TARGET, attribute, (0, 4)).items():
                rows = self.answered(name, asked, label)
                reached[level] = rows.groupby("prompt", sort=False)[truth_of(attribute)].mean()
            slopes[f"slope of {attribute}"] = (reached[4] - reached[0]) / 4
        frame = pd.DataFrame(slopes)
        frame.insert(0, "slope", frame.mean(axis="columns"))
        return frame


# The methods: by default as they are, and what a control changes is their last argument


def supervised(world: World, policy: Policy, choose: sft.Choose = sft.best_paths) -> None:
    """SFT on a response to each prompt. choose: of `sft.conversations`."""
    recipe = recipes.SFT(
        **COMMON, validation_share=0.0, batch=16, learning_rate=2e-4, epochs=1, seed=world.seed
    )
    setup = world.setup("07_sft", recipe)
    conversations = sft.conversations(world.first_rated(N_SFT), recipe, choose)
    sft.train(policy, sft.prepare(policy, conversations, setup), setup)


def direct(world: World, policy: Policy, rule: dpo.Rule = dpo.by_attribute) -> None:
    """DPO on the rated pairs. rule: of `dpo.paired`."""
    recipe = recipes.DPO(
        **COMMON,
        validation_share=0.0,
        batch=16,
        learning_rate=3e-5,
        epochs=1,
        beta=0.1,
        seed=world.seed,
    )
    setup = world.setup("08_dpo", recipe)
    pairs = dpo.paired(world.first_rated(N_SFT), None, recipe, rule)
    dpo.train(policy, dpo.prepare(policy, pairs, setup), setup)


def iterative(
    world: World,
    policy: Policy,
    *,
    reward_model: iterative_dpo.Scorer | None = None,
    pair: iterative_dpo.PairRule = iterative_dpo.best_worst_pairs,
) -> None:
    """Two rounds of iterative DPO. reward_model, pair: of `iterative_dpo.train`; None for the world's reward model."""
    recipe = recipes.IterativeDPO(
        **COMMON,
        n_samples=8,
        max_new_tokens=LONGEST,
        temperature=1.0,
        top_p=1.0,
        batch=8,
        learning_rate=1e-5,
        epochs=1,
        beta=0.1,
        seed=world.seed,
    )
    setup = world.setup("09_iterative_dpo", recipe)
    parts = [world.prompts(N_ROUND, stream).groups for stream in (0, 1)]
    iterative_dpo.train(policy, parts, reward_model or world.reward_model, setup, pair=pair)


def proximal(
    world: World, policy: Policy, reward: Callable[[Loaded], ppo.Reward] | None = None
) -> None:
    """PPO. reward: what makes that of `ppo.train` of the rated groups; None for the world's reward model, folded."""
    recipe = recipes.PPO(
        **COMMON | {"budget": 8192, "warmup": 0},
        batch=16,
        buffer=32,
        steps=PPO_STEPS,
        n_samples=4,
        learning_rate=1.5e-4,
        kl_weight=0.1,
        kl_form="plain",
        lam=1.0,
        critic="separate",
        critic_rate=5.0,
        max_new_tokens=LONGEST,
        unfinished="keep",
        n_standard=N_STANDARD,
        seed=world.seed,
    )
    setup = world.setup("10_ppo", recipe)
    goodness = ppo.fold_reward(world.reward_model, world.rated, setup)
    prompts = ppo.prepare(policy, world.prompts(N_PPO, 5), setup)
    model = ppo.actor_critic(policy, goodness, setup)
    rewarded = goodness if reward is None else reward(world.rated)
    ppo.train(model, prompts, rewarded, world.policy("sft"), setup)


def steered(world: World, policy: Policy, rule: Callable[..., list[Group]] = steerlm.label) -> None:
    """SteerLM on labelled answers to first messages. rule: of `steerlm.label_answers`."""
    recipe = recipes.SteerLM(
        **COMMON, levels="fifths", batch=16, learning_rate=5e-4, epochs=1, seed=world.seed
    )
    setup = world.setup("11_steerlm", recipe)
    loaded = world.first_rated(N_STEERLM)
    first = [answer for answer in steerlm.answers(loaded.groups) if len(answer.prompt) == 1]
    answers = steerlm.Answers(loaded, first[:N_ANSWERS])
    labelled = steerlm.label_answers(answers, setup, reward_model=world.reward_model, rule=rule)
    steerlm.train(policy, steerlm.prepare(policy, labelled, setup), setup)


def reweighted(world: World, policy: Policy, weights: Callable[..., list] = steerlm2.weigh) -> None:
    """Two iterations of SteerLM 2.0. weights: of `steerlm2.iterate`."""
    recipe = recipes.SteerLM2(
        **COMMON | {"warmup": 0},
        n_samples=10,
        max_new_tokens=LONGEST,
        temperature=1.0,
        top_p=1.0,
        batch=8,
        epochs=2,
        learning_rate=1e-4,
        n_validation=0,
        seed=world.seed,
    )
    setup = world.setup("12_steerlm2", recipe)
    loaded = [world.prompts(N_ITERATION, stream) for stream in (7, 8)]
    by_iteration = [each.groups for each in loaded]
    prompts = steerlm2.Prompts(loaded[0], True, [], by_iteration[0] + by_iteration[1], by_iteration)
    steerlm2.iterate(
        policy, world.policy("sft"), world.reward_model, prompts, setup, weights=weights
    )


METHODS: dict[str, Callable[..., None]] = {
    "sft": supervised,
    "dpo": direct,
    "iterative dpo": iterative,
    "ppo": proximal,
    "steerlm": steered,
    "steerlm 2": reweighted,
}
METHODS |= {name: METHODS[method] for name, method in BY_TRUTH.items()}


# What controls put in the place of an argument


def one_at_random(groups: Iterable[Group]) -> list[Group]:
    """One response of each group, whatever its ratings."""
    return [
        replace(group, responses=(Random(group.id).choice(group.responses),)) for group in groups
    ]


def either_preferred(groups: Iterable[Group], attribute: str) -> tuple[list[Group], dict[str, int]]:
    """The pairs of `dpo.by_attribute`, each the right way round or the wrong one."""
    right, counts = dpo.by_attribute(groups, attribute)
    pairs = []
    for pair in right:
        order = Random(pair.id).choice((1, -1))
        pairs.append(replace(pair, responses=pair.responses[::order]))
    return pairs, counts


def two_at_random(
    groups: Sequence[Group], scores: np.ndarray
) -> tuple[list[Group], dict[str, int]]:
    """Two samples of each prompt, whatever their scores."""
    pairs = []
    for group in groups:
        two = tuple(Random(group.id).sample(group.responses, 2))
        pairs.append(replace(group, responses=two, preference=-1.0, preferences=()))
    return pairs, {"groups": len(groups), "pairs": len(pairs)}


class Truth:
    """The true attributes in the reward model's place."""

    attributes = ATTRIBUTES

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


def random_reward(rated: Loaded) -> Reward:
    """A reward that says nothing of a text, but always the same."""
    return Reward(
        "random", lambda group: [Random(response.text).gauss(0, 1) for response in group.responses]
    )


def true_reward(rated: Loaded) -> Reward:
    """The true goodness, standardised on the rated groups as the reward model's is."""
    true = np.concatenate([true_goodness(group) for group in rated.groups[:N_STANDARD]])
    return Reward(
        "truth", lambda group: ((true_goodness(group) - true.mean()) / true.std()).tolist()
    )


def labels_dealt_out(
    answers: Sequence[Group], reward_model: RewardModel, **options: object
) -> list[Group]:
    """The answers under the labels of `steerlm.label`, each under that of another."""
    labelled = steerlm.label(answers, reward_model, **options)
    labels = [answer.responses[0].labels for answer in labelled]
    Random(labelled[0].id).shuffle(labels)
    dealt = []
    for answer, own in zip(labelled, labels, strict=True):
        dealt.append(replace(answer, responses=(replace(answer.responses[0], labels=own),)))
    return dealt


def alike(weighed: steerlm2.Weighed) -> steerlm2.Weighed:
    """The same samples, all of one weight."""
    return weighed._replace(attributes=0 * weighed.attributes, prior=weighed.sampler)


def all_alike(*sampled: object, **options: object) -> list[steerlm2.Weighed]:
    """The samples of `steerlm2.weigh`, all of one weight."""
    return [alike(weighed) for weighed in steerlm2.weigh(*sampled, **options)]


# The one argument by which a policy's training differs from its method.
CHANGED: dict[str, dict[str, object]] = {
    "sft, control": {"choose": one_at_random},
    "dpo, control": {"rule": either_preferred},
    "iterative dpo, control": {"pair": two_at_random},
    "ppo, control": {"reward": random_reward},
    "steerlm, control": {"rule": labels_dealt_out},
    "steerlm 2, control": {"weights": all_alike},
    "iterative dpo by the truth": {"reward_model": Truth()},
    "ppo by the truth": {"reward": true_reward},
}


def claims(world: World, method: str) -> list[dict]:
    """What a method adds to its control and to its start, and the control to the start, with intervals."""
    rows = []
    for what in ("held-out", "steering") if method == "steerlm" else ("held-out",):
        own = world.measured(method, what)
        control = world.measured(f"{BY_TRUTH.get(method, method)}, control", what)
        # A start that was never shown a label answers every label alike.
        start = 0 * own if what == "steering" else world.measured(STARTS[method], what)
        commit = (world.folder / "commits" / method).read_text()
        differences = {
            "less control": own - control,
            "less start": own - start,
            "control less start": control - start,
        }
        for measure in own:
            for name, difference in differences.items():
                interval = mean(difference[measure], difference.index, n_boot=2000, seed=0)
                value, low, high = np.round(interval, 4).tolist()
                row = {
                    "seed": world.seed,
                    "method": method,
                    "measure": measure,
                    "what": name,
                    "commit": commit,
                }
                rows.append(row | {"value": value, "low": low, "high": high})
    return rows


def main() -> None:
    """Measure the methods that are asked for, seed by seed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
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
            print(
                pd.DataFrame(
                    [row for row in rows if row["seed"] == seed and row["method"] == method]
                ).to_string()
            )
            if not options.dry:
                write(rows)


def write(rows: list[dict]) -> None:
    """The result so far."""
    table = summary(rows)
    claimed = table.method.map(CLAIMED).fillna(TRUTH)
    shown = table[(table.what == "less control") & (table.measure == claimed)]
    goal = shown[shown.method.isin(CLAIMED)]
    done = pd.DataFrame(rows).groupby("seed").method.nunique()
    words = [
        f"{row.method} {row.measure} {row.value:+.2f}, above 0 in {row.above} of {row.seeds} seeds"
        for row in shown.itertuples()
    ]
    result = {
        "name": "works",
        "compared": "each method and its control in the small world: truth, of SteerLM the slope",
        "figure": "; ".join(words),
        "goal": "above 0 at 95 % in at least four of five seeds",
        "met": bool(len(goal) == len(CLAIMED) and (goal.above >= 4).all()),
        "partial seeds": done.index[done < len(METHODS)].tolist(),
        "controls": CONTROLS,
        "means": table.round(4).to_dict("records"),
        "rows": rows,
        "device": report.device(),
        "commit": report.commit(),
    }
    paths.write(paths.reports() / "benchmarks" / "works.json", json.dumps(result, indent=1) + "\n")


def summary(rows: list[dict]) -> pd.DataFrame:
    """By claim: the mean over seeds, and in how many seeds the interval is above 0, and below."""
    frame = pd.DataFrame(rows)
    grouped = frame.assign(above=frame.low > 0, below=frame.high < 0).groupby(
        ["method", "measure", "what"], sort=False
    )
    return grouped.agg(
        value=("value", "mean"),
        above=("above", "sum"),
        below=("below", "sum"),
        seeds=("seed", "nunique"),
    ).reset_index()


if __name__ == "__main__":
    main()
