"""What does the reward model read of what policies write, and how hard may one press on it?

    python benchmarks/judge.py [--seeds 0 1 2 3 4] [--trained 0 1] [--matrix] [--folder F] [--dry]

In the small world the true attributes of any response are known (`hs2lib.corpus.grade`). For each
seed the reward model of the demo is asked about

    the rated responses that it was tested on, and
    eight answers of SFT and of PPO to prompts that no training text holds, at temperature .7,

and, pair by pair, about held-out answers that differ in one fault (`hs2lib.corpus.one_fault`).

Of the answers to one prompt: Pearson's R of score and truth, and the share of pairs that truly
differ (`APART`) of which the better one has the higher score. Beside it stand rules that read
nothing, and a judge that learnt from answers under other prompts (`works.blind`). Then the best of
up to 64 answers of SFT is taken by reward models of 1/16, 1/4 and all of the rated prompts, with
Gao's law fitted to each (`hs2lib.evaluate.overoptimisation`). PPO is trained on the scores of the
same reward models, and his other law is fitted to its rounds. Beside them stands R of the
truth with the annotators' ratings: a reference, and no upper bound.

Numbers are one a seed; intervals are Student's t over seeds. What is finished is kept by seed. PPO
by size is most of the work: `--trained` does it for fewer seeds, and each row says of how many it is.
"""

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import audit
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import torch
import works
from matplotlib.figure import Figure
from works import World

from hs2lib import paths
from hs2lib.align import ppo
from hs2lib.align.common import load_rows
from hs2lib.corpus import one_fault
from hs2lib.corpus.grade import true_attributes, true_goodness
from hs2lib.data.load import load
from hs2lib.evaluate import best_of_n, by_round, overoptimisation, published_judge
from hs2lib.evaluate.best_of_n import BY_SCORE, LIKELIEST, LONGEST
from hs2lib.evaluate.response_rows import TRUTH
from hs2lib.group import Group
from hs2lib.models import reward_training
from hs2lib.models.reward_model import RewardModel
from hs2lib.models.rollout import rollouts
from hs2lib.report import figures, report

POLICIES = ("sft", "ppo")  # the start of PPO, and where pressing led
# Share of the rated prompts -> its judge in `audit.py`, so that one training serves both.
SIZES = {"all": "all ratings", "1/4": "a quarter", "1/16": "a sixteenth"}
RATINGS = "the annotators' ratings"  # the ceiling: no judge, what a judge learns from
N_PROMPTS = 100  # held-out prompts that policies answer
N_ANSWERS = 8  # to each
N_BEST_PROMPTS = 64
N_BEST = 64  # answers of SFT to each
N_FAULTY = 200  # held-out prompts whose answers differ in one fault
APART = 0.5  # points of goodness by which a pair truly differs
LAW_AT = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64]


def reward_model_of(world: World, size: str) -> RewardModel:
    """The reward model of a share of the rated prompts."""
    if size == "all":
        return world.reward_model
    return world.judge(*audit.JUDGES[SIZES[size]])


def answers(world: World, policy: str, n_prompts: int, n: int, temperature: float) -> list[Group]:
    """Answers of a policy to held-out prompts."""
    return rollouts(
        world.policy(policy),
        world.held_out[:n_prompts],
        n=n,
        temperature=temperature,
        top_p=works.TOP_P[temperature],
        max_new_tokens=works.LONGEST,
        seed=world.seed,
        batch=512,
        progress=False,
    )


def judgements(world: World, groups: Sequence[Group]) -> dict[str, np.ndarray]:
    """What each judge says of the responses of the groups: float64 [groups, n] by name."""
    shape = (len(groups), len(groups[0].responses))
    judged = {
        "reward model": world.reward_model.score(groups).numpy() @ works.WEIGHTS,
        "blind reward model": world.blind_judge.score(groups).numpy() @ works.WEIGHTS,
        LONGEST: [len(response.text) for group in groups for response in group.responses],
    }
    if all(hasattr(response, "log_probs") for response in groups[0].responses):
        judged[LIKELIEST] = [sum(r.log_probs) for group in groups for r in group.responses]
    return {name: np.reshape(values, shape).astype(np.float64) for name, values in judged.items()}


def within(values: np.ndarray, truth: np.ndarray) -> float:
    """Pearson's R of [groups, n] and [groups, n], each less its group's mean."""
    centred = [x - x.mean(axis=1, keepdims=True) for x in (values, truth)]
    return float(np.corrcoef(centred[0].ravel(), centred[1].ravel())[0, 1])


def pairs_right(values: np.ndarray, truth: np.ndarray) -> float:
    """Of the pairs of a group whose truth is `APART`, how many have the better one higher."""
    right = []
    for first in range(truth.shape[1]):
        for second in range(first):
            true = truth[:, first] - truth[:, second]
            known = np.abs(true) >= APART
            judged = values[:, first] - values[:, second]
            right += list(np.sign(judged[known]) == np.sign(true[known]))
    return float(np.mean(right))


def read(world: World) -> list[dict]:
    """R and pairs right of each judge, on rated responses and on policies' own answers."""
    setup = world.setup(works.REWARD_MODEL)
    rated = reward_training.load_parts(setup).groups["test"]
    rated = [group for group in rated if len(group.responses) == 2]
    sets = {"rated responses": rated}
    for policy in POLICIES:
        sets[f"answers of {policy}"] = answers(world, policy, N_PROMPTS, N_ANSWERS, 0.7)
    rows = []
    for name, groups in sets.items():
        truth = np.array([true_goodness(group) for group in groups])
        by_judge = judgements(world, groups)
        if name == "rated responses":
            ratings = [[response.labels for response in group.responses] for group in groups]
            by_judge[RATINGS] = np.array(ratings, dtype=np.float64) @ works.WEIGHTS
        for judge, values in by_judge.items():
            rows.append(
                {
                    "seed": world.seed,
                    "set": name,
                    "judge": judge,
                    "R": float(np.corrcoef(values.ravel(), truth.ravel())[0, 1]),
                    "R within a prompt": within(values, truth),
                    "pairs right": pairs_right(values, truth),
                    "spread of truth": float(np.sqrt(truth.var(axis=1, ddof=1).mean())),  # pooled
                    "best less mean, truth": audit.gain(values, truth),
                }
            )
    return rows


def pressed(world: World) -> list[dict]:
    """What the best of n answers of SFT gains in truth, by judge and n, and Gao's law."""
    setup = world.setup(works.NOTEBOOKS["ppo"])
    recipe = replace(setup.recipe, n_best=N_BEST, n_best_prompts=N_BEST_PROMPTS)
    setup = replace(setup, recipe=recipe)
    answered = answers(world, "sft", N_BEST_PROMPTS, N_BEST, 1.0)
    rows = []
    ranked_by = {
        size: best_of_n.rank(answered, reward_model_of(world, size), setup) for size in SIZES
    }
    blind = best_of_n.rank(answered, world.blind_judge, setup)
    judged = {
        f"reward model, {size} of the ratings": (r, BY_SCORE) for size, r in ranked_by.items()
    }
    judged["blind reward model"] = (blind, BY_SCORE)
    for rule in (LONGEST, LIKELIEST, best_of_n.BY_TRUTH):
        judged[rule] = (ranked_by["all"], rule)
    distance = overoptimisation.distances([best_of_n.bound(n) for n in LAW_AT])
    for judge, (ranked, rule) in judged.items():
        gains = ranked.gains_by_prompt(LAW_AT, rule=rule)
        law = overoptimisation.fit(overoptimisation.BEST_OF_N, distance, gains, ranked.ids)
        row = {"seed": world.seed, "judge": judge}
        row |= {f"best of {n}": float(gains[:, LAW_AT.index(n)].mean()) for n in (4, 16, 64)}
        row |= {"alpha": float(law.alpha.estimate), "beta": float(law.beta.estimate)}
        row["d at the peak"] = float(law.peak.estimate)
        rows.append(row)
    return rows


def read_by_fault(world: World) -> list[dict]:
    """How often a judge scores the faultless answer above the same with one fault; a tie is half."""
    pairs = one_fault.pairs(N_FAULTY, 300 + world.seed)
    faults = [one_fault.change_of(pair) for pair in pairs]
    rows = []
    for judge, model in (
        (published_judge.REWARD_MODEL, world.reward_model),
        (published_judge.BLIND, world.blind_judge),
    ):
        scores = (model.score(pairs).numpy() @ works.WEIGHTS).reshape(len(pairs), 2)
        higher = pd.Series(50.0 * (1 + np.sign(scores[:, 0] - scores[:, 1])))
        for fault, share in higher.groupby(faults, sort=False).mean().items():
            row = {"seed": world.seed, "fault": fault, "judge": judge}
            rows.append(row | {"higher (%)": float(share)})
    return rows


def trained(world: World) -> list[dict]:
    """PPO on the score of each size's reward model: what it gains, and Gao's law of its rounds.

    With the matrix the training on all ratings is that of notebook 10, which is read and not made.
    """
    rows = []
    for size in SIZES:
        setup = world.setup(works.NOTEBOOKS["ppo"])
        if size == "all" and world.matrix:
            setup = replace(setup, place=None)  # the run's own folder
        policy = world.policy("sft")
        data = load_rows(setup.recipe)
        prompts = ppo.prepare(policy, data, setup)
        reward = ppo.fold_reward(reward_model_of(world, size), data, setup)
        model = ppo.actor_critic(policy, reward, setup)
        result = ppo.train(model, prompts, reward, world.policy("sft"), setup)
        curves = by_round.of_ppo(result, prompts, reward)
        law = overoptimisation.of_ppo(result, prompts, curves, setup.recipe)
        row = {"seed": world.seed, "judge": f"reward model, {size} of the ratings"}
        row["truth gained"] = float(curves[TRUTH].iloc[-1] - curves[TRUTH].iloc[0])
        row["kl"] = float(curves.kl.iloc[-1])
        fitted = dict.fromkeys(published_judge.LAW, float("nan"))
        if law is not None:
            of_law = (law.alpha, law.beta, law.peak)
            fitted = {n: float(x.estimate) for n, x in zip(fitted, of_law, strict=True)}
        rows.append(row | fitted)
    return rows


def ceiling(world: World) -> list[dict]:
    """R of the true attributes with the annotators' ratings, by attribute, on rated responses."""
    rated = load("helpsteer2", "embedded", n_prompts=3000, seed=world.seed).groups
    true = np.concatenate([true_attributes(group) for group in rated])  # [R, A]
    labels = [response.labels for group in rated for response in group.responses]
    rated_as = np.array(labels, dtype=np.float64)  # [R, A]
    rows = []
    for k, attribute in enumerate(works.ATTRIBUTES):
        r = float(np.corrcoef(true[:, k], rated_as[:, k])[0, 1])
        rows.append({"seed": world.seed, "attribute": attribute, "R of truth and ratings": r})
    return rows


PARTS: dict[str, tuple[Callable[[World], list[dict]], list[str]]] = {
    "read": (read, ["set", "judge"]),
    "by fault": (read_by_fault, ["fault", "judge"]),
    "pressed": (pressed, ["judge"]),
    "trained": (trained, ["judge"]),
    "ceiling": (ceiling, ["attribute"]),
}


def kept(world: World, name: str) -> list[dict]:
    """The rows of a part, made where they are not kept."""
    file = world.folder / f"judge-{name}.json"
    if not file.is_file():
        make, _ = PARTS[name]
        paths.write(file, json.dumps(make(world)))
    return json.loads(file.read_text())


def without_nan(value: object) -> object:
    """What is to be written as JSON, which has no nan: None in its place."""
    if isinstance(value, dict):
        return {key: without_nan(each) for key, each in value.items()}
    if isinstance(value, list):
        return [without_nan(each) for each in value]
    return None if isinstance(value, float) and np.isnan(value) else value


def over_seeds(rows: Sequence[dict], keys: Sequence[str]) -> list[dict]:
    """The mean over seeds of every number, with the half width of Student's t interval."""
    frame = pd.DataFrame(rows).drop(columns="seed")
    summary = []
    for key, group in frame.groupby(list(keys), sort=False):
        row = dict(zip(keys, key, strict=True))
        for column in group.columns.difference(list(keys), sort=False):
            values = group[column].dropna().to_numpy()
            mean, half = works.student(values)
            row[column] = {"mean": mean, "plus or minus": half}
        summary.append(row | {"seeds": len(group)})
    return summary


LOOKS = {  # how each judge is drawn
    "reward model": figures.SCORE,
    "blind reward model": figures.Look("#cc79a7", "^"),
    LONGEST: figures.LENGTH,
    LIKELIEST: figures.Look("0.45", "v"),
    RATINGS: figures.TRUTH,
}

DASHES = {
    f"reward model, {size} of the ratings": dash
    for size, dash in zip(SIZES, ("-", "--", ":"), strict=True)
}


def drawn(result: dict[str, list[dict]], seeds: Sequence[int]) -> Figure:
    """Left: R within a prompt by set of responses. Right: truth gained by the best of n of SFT."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
    sets = list(dict.fromkeys(row["set"] for row in result["read"]))
    for place, (judge, look) in enumerate(LOOKS.items()):
        rows = [row for row in result["read"] if row["judge"] == judge]
        at = [sets.index(row["set"]) + 0.12 * (place - 2) for row in rows]
        r = [row["R within a prompt"] for row in rows]
        mean = np.array([value["mean"] for value in r])
        half = np.nan_to_num([value["plus or minus"] for value in r])
        figures.dots(left, at, mean, mean - half, mean + half, look, label=judge, across=False)
    left.set_xticks(range(len(sets)), [name.replace(" ", "\n", 1) for name in sets])
    left.axhline(0, color="0.6", lw=0.8)
    left.set(ylabel="R with the truth, within a prompt", title="What a judge reads")
    figures.legend_beside(left)
    numbers = (4, 16, 64)
    for row in result["pressed"]:
        judge = row["judge"]
        if judge == best_of_n.BY_TRUTH:  # far above all others: it would flatten them
            most = row[f"best of {numbers[-1]}"]["mean"]
            continue
        gains = [row[f"best of {n}"]["mean"] for n in numbers]
        look = LOOKS.get(judge, figures.SCORE)
        style = DASHES.get(judge, "-")
        right.plot(numbers, gains, style, marker=look.marker, color=look.color, ms=4, label=judge)
    right.set_xscale("log", base=2)
    right.set_xticks(numbers, [str(n) for n in numbers])
    right.axhline(0, color="0.6", lw=0.8)
    right.set(xlabel="best of n answers of SFT", ylabel="truth gained, points")
    right.set_title(f"What pressing on it gains (by the truth itself: {most:.1f})")
    figures.legend_beside(right)
    figure.supxlabel(f"Generated data (small world), tier demo, seeds {list(seeds)}", fontsize=7)
    return figure


def main() -> None:
    """Ask all judges of all seeds, and write what they said."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(5)))
    parser.add_argument("--trained", type=int, nargs="+", help="seeds of PPO by size; else all")
    parser.add_argument("--folder", type=Path, default=paths.runs() / "works")
    parser.add_argument("--matrix", action="store_true", help="models are those of make matrix")
    parser.add_argument("--dry", action="store_true", help="do not write the result")
    options = parser.parse_args()
    if unknown := set(options.trained or ()) - set(options.seeds):
        parser.error(f"--trained has seeds that --seeds has not: {sorted(unknown)}")
    torch.set_num_threads(1)
    result = {}
    for name, (_, keys) in PARTS.items():
        rows = []
        seeds = options.seeds
        if name == "trained" and options.trained is not None:
            seeds = options.trained
        for seed in seeds:
            rows += kept(World(seed, options.folder, {}, options.matrix), name)
        result[name] = over_seeds(rows, keys)
        result[f"{name} by seed"] = rows
        means = pd.DataFrame(rows).drop(columns="seed").groupby(keys, sort=False).mean()
        print(name, means.round(2).to_string(), sep="\n", flush=True)
    figure = drawn(result, options.seeds)
    if options.dry:
        figure.savefig(options.folder / "judge.png", dpi=150)
        return
    own = {(row["set"], row["judge"]): row["R within a prompt"]["mean"] for row in result["read"]}
    names = dict.fromkeys(row["set"] for row in result["read"])
    words = [f"{name} {own[name, 'reward model']:.2f}" for name in names]
    result = {
        "name": "judge",
        "compared": "R of reward model and truth among the answers to one prompt, mean of seeds",
        "figure": "; ".join(words),
        "goal": "none: it says how far the judge can be trusted",
        "met": True,
        "seeds": options.seeds,
        **result,
        "device": report.device(),
        "commit": report.commit(),
    }
    folder = paths.reports() / "benchmarks"
    paths.write(
        folder / "judge.json", json.dumps(without_nan(result), indent=1, allow_nan=False) + "\n"
    )
    figure.savefig(folder / "judge.png", dpi=150)


if __name__ == "__main__":
    main()
