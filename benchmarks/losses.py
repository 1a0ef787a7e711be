"""Ratings or preferences? Reward models that learn from the same judgements by other losses.

    python benchmarks/losses.py [--seeds 0 1 2 3 4] [--judgements 2400 600] [--only plain scaled ..]
    python benchmarks/losses.py --real      # 331 pairs of HelpSteer2 in place of the small world

One judgement is one pair of responses that annotators looked at. A regression learns from their
ratings of both; a loss of pairs from the preference that the same ratings imply, with its strength.
So all see equal numbers of judgements, and nothing but the loss differs (`hs2lib.evaluate.
ratings_or_preferences`: the same functions as notebook 15). Recipes are those of notebook 05 at tier
demo; what begins from the regression has half its rate and one pass. 400 prompts that no training
text holds measure: pairs in the right order by the truth, and R of score and truth within prompts.
The interval is Student's t over seeds; of two learners, of their difference seed by seed. No order
of the losses is demanded.

The real pairs have people's preferences. On frozen states of SmolLM2-135M-Instruct a linear head is
fitted by each loss, in five folds of whole prompts, five times; its penalty is chosen by its own
loss in folds of the training part. Beside stands the longer answer. Intervals are over prompts.

What is finished is kept by seed, number of judgements and learner, so a run that was stopped goes
on, and several runs add up: the result has all that is kept. Nine trainings of 2,400 judgements
take about 17 minutes a seed on one quiet core; the real pairs about half an hour.
"""

import argparse
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from hs2lib import paths
from hs2lib.data.load import load
from hs2lib.evaluate import ratings_or_preferences as learning
from hs2lib.evaluate.learners import COMPARED, LEARNERS, LONGER, RIGHT
from hs2lib.evaluate.learners import over_seeds as mean_over_seeds
from hs2lib.group import ATTRIBUTES, Group
from hs2lib.models import baselines
from hs2lib.models.reward_model import RewardModel, load_reward_model
from hs2lib.models.saved import device
from hs2lib.report import report
from hs2lib.runs import graph
from hs2lib.runs.setup import Setup
from hs2lib.stats.bootstrap import bootstrap
from hs2lib.train import items, losses, recipes

NOTEBOOK = "05_reward_model_training"
JUDGEMENTS = [2400]
N_EVALUATED = 400  # held-out prompts

# Of the real pairs.
RATED = "helpsteer2-partial"
PREFERRED = "helpsteer2-preference-partial"
FOLDS = 5
REPEATS = 5
ALPHAS = tuple(10.0**e for e in np.arange(0.0, 6.5, 1.0))
EXPO = 1.52


# The small world


class World:
    """What one seed learns from so many judgements, made when first asked for and kept in a folder.

    settings: of the recipe, what differs from tier demo.
    """

    def __init__(
        self, seed: int, judgements: int, folder: Path, settings: dict[str, object] | None = None
    ):
        self.seed = seed
        self.judgements = judgements
        self.folder = folder / f"seed-{seed}" / f"judgements-{judgements}"
        self.settings = settings or {}

    @cached_property
    def setup(self) -> Setup:
        """Notebook 05's recipe of tier demo for this seed, with what notebook 15 adds to it."""
        setup = Setup.of_run(graph.of_seed(NOTEBOOK, self.seed), "demo")
        known = {one.name: getattr(setup.recipe, one.name) for one in fields(setup.recipe)}
        of_benchmark = {"n_prompts": self.judgements, "n_boot": 100, "preferences": ""}
        recipe = recipes.Preferences(**known | of_benchmark | self.settings)
        return replace(setup, recipe=recipe, place=self.folder)

    @cached_property
    def judged(self) -> learning.Judgements:
        """The judgements; the held-out prompts are the same whatever their number."""
        judged = learning.load_judgements(self.setup)
        made = load(
            "helpsteer2",
            "embedded",
            split="validation",
            n_prompts=N_EVALUATED,
            seed=200 + self.seed,
        )
        groups = judged.preferences.groups | {"test": learning.with_preferences(made.groups)}
        return replace(judged, preferences=replace(judged.preferences, groups=groups))

    def kept(self, name: str) -> Path:
        """The file with what was measured of a learner."""
        return self.folder / "measured" / f"{name}.json"

    def trained(self, name: str) -> Path:
        """The folder of a learner, trained where it is not there."""
        learner = LEARNERS[name]
        if not learner.objective and not learner.strong:
            return self.trained(learner.start)
        folder = self.setup.folder / "learners" / name
        if not folder.is_dir():
            began = time.monotonic()
            needed = [other for other in learning.with_needed([name]) if other != name]
            folders = {other: self.trained(other) for other in needed}
            learning.train_one(name, self.judged, self.setup, folders)
            paths.write(self.folder / "commits" / name, report.commit())
            words = f"seed {self.seed}, {self.judgements} judgements, {name}"
            print(f"{words}: {time.monotonic() - began:.0f} s", flush=True)
        return folder

    def commit(self, name: str) -> str:
        """The commit that trained a learner; "" for a rule."""
        if name not in LEARNERS:
            return ""
        learner = LEARNERS[name]
        trained = name if learner.objective or learner.strong else learner.start
        return (self.folder / "commits" / trained).read_text()

    def measure(self, name: str) -> None:
        """Measure a learner, or the rule of length, where that is not kept."""
        if self.kept(name).is_file():
            return
        groups = self.judged.test
        if name == LONGER:
            texts = [response.text for group in groups for response in group.responses]
            values = np.array([float(len(text)) for text in texts])
        else:
            model = load_reward_model(self.trained(name)).to(device()).eval()
            values = learning.score_groups(name, model, groups, self.setup)
        table = learning.measured({name: values}, self.judged, self.setup)
        measures = dict(zip(table.measure, table.value.astype(float), strict=True))
        record = {
            "seed": self.seed,
            "judgements": self.judgements,
            "learner": name,
            "values": measures,
            "commit": self.commit(name),
        }
        paths.write(self.kept(name), json.dumps(record, indent=1) + "\n")


def kept_rows(folder: Path) -> list[dict]:
    """All that is kept: rows of seed, judgements, learner, measure, value, commit."""
    rows = []
    for file in sorted(folder.glob("seed-*/judgements-*/measured/*.json")):
        record = json.loads(file.read_text())
        for measure, value in record.pop("values").items():
            rows.append(record | {"measure": measure, "value": value})
    return rows


def over_seeds(rows: Sequence[dict]) -> tuple[list[dict], list[dict]]:
    """Means of the learners and of their differences over seeds, each with Student's t interval.

    A difference is taken seed by seed, of the seeds that both have.
    """
    means = []
    differences = []
    if not rows:
        return means, differences
    table = pd.DataFrame(rows)
    order = [*LEARNERS, LONGER]
    for (judgements, measure), part in table.groupby(["judgements", "measure"], sort=False):
        wide = part.pivot(index="seed", columns="learner", values="value")
        for name in [name for name in order if name in wide]:
            values = wide[name].dropna()
            mean, low, high = mean_over_seeds(values)
            row = {"judgements": int(judgements), "learner": name, "measure": measure}
            row |= {"value": mean, "low": low, "high": high, "seeds": len(values)}
            means.append(_rounded(row))
        asked = [(first, second, asks) for first, second, asks in COMPARED]
        asked += [(name, LONGER, "more than length") for name in LEARNERS]
        for first, second, asks in asked:
            if first not in wide or second not in wide:
                continue
            values = (wide[first] - wide[second]).dropna()
            if not len(values):
                continue
            mean, low, high = mean_over_seeds(values)
            row = {"judgements": int(judgements), "first": first, "second": second, "asks": asks}
            row |= {"measure": measure, "difference": mean, "low": low, "high": high}
            differences.append(_rounded(row | {"seeds": len(values)}))
    return means, differences


def _rounded(row: dict) -> dict:
    """A row with its numbers to four decimals, None for nan, as JSON has it."""
    out = {}
    for name, value in row.items():
        if isinstance(value, float):
            value = None if np.isnan(value) else round(value, 4)
        out[name] = value
    return out


# The real pairs


def real_pairs() -> list[Group]:
    """The pairs of HelpSteer2-Preference with texts, each response with its ratings.

    Raises ValueError for a pair whose responses are not among the rated ones.
    """
    rated = {}
    for group in load(RATED, "folder").groups:
        for response in group.responses:
            rated[group.prompt, response.text] = response.labels
    pairs = []
    for group in load(PREFERRED, "folder").groups:
        responses = []
        for response in group.responses:
            labels = rated.get((group.prompt, response.text))
            if labels is None:
                raise ValueError(f"{group.id}: a response is not among the rated ones of {RATED}")
            responses.append(replace(response, labels=labels))
        pairs.append(replace(group, responses=tuple(responses), attributes=ATTRIBUTES))
    return pairs


def states_of(pairs: Sequence[Group], folder: Path) -> np.ndarray:
    """Frozen states of SmolLM2-135M-Instruct, float64 [pairs, 2, hidden]; kept in the folder."""
    model = RewardModel.new("embedded", attributes=ATTRIBUTES).eval()
    made, counts = items.rated(model, pairs)
    if len(made) != len(pairs) or counts["responses"] != 2 * len(pairs):
        raise ValueError(f"not every response could be read: {counts}")
    states = baselines.frozen_states(model, made, autocast="bfloat16", cache=folder)
    return states.astype(np.float64).reshape(len(pairs), 2, -1)


# A loss of (chosen [P], rejected [P], strength [P]), as hs2lib.train.losses has it.
PairLoss = Callable[[Tensor, Tensor, Tensor], Tensor]


def plain_loss(chosen: Tensor, rejected: Tensor, strength: Tensor) -> Tensor:
    """Bradley-Terry, which does not look at the strength."""
    return losses.bradley_terry_loss(chosen, rejected)


PAIR_LOSSES: dict[str, PairLoss] = {
    "plain": plain_loss,
    "margin": losses.margin_loss,
    "scaled": losses.scaled_loss,
}


def pair_head(
    D: np.ndarray, strength: np.ndarray, loss: PairLoss, alpha: float, start: np.ndarray | None
) -> np.ndarray:
    """The weights [d] with the least summed loss of pairs + alpha / 2 |w - start|^2.

    Checked against scikit-learn's logistic regression (its C is 1 / alpha).

    D: [P, d] states of the better response less those of the worse one.
    strength: [P], positive.
    start: [d], None for 0.
    """
    better = torch.from_numpy(D)  # [P, d]
    m = torch.from_numpy(strength)  # [P]
    origin = torch.zeros(D.shape[1], dtype=torch.float64)
    if start is not None:
        origin = torch.from_numpy(start)
    w = origin.clone().requires_grad_()
    optimiser = torch.optim.LBFGS(
        [w], max_iter=200, tolerance_grad=1e-7, line_search_fn="strong_wolfe"
    )

    def closure() -> Tensor:
        optimiser.zero_grad()
        margin = better @ w  # [P]
        total = loss(margin, torch.zeros_like(margin), m).sum()
        total = total + alpha / 2 * (w - origin).square().sum()
        total.backward()
        return total

    optimiser.step(closure)
    return w.detach().numpy()


def best_pair_head(
    D: np.ndarray,
    strength: np.ndarray,
    clusters: np.ndarray,
    loss: PairLoss,
    start: np.ndarray | None,
    seed: int,
) -> np.ndarray:
    """`pair_head` with the alpha whose summed loss over folds of whole clusters is least."""
    fold = baselines.folds(clusters, FOLDS, seed)  # [P]
    total = np.zeros(len(ALPHAS))
    for f in range(FOLDS):
        kept = fold != f
        left = torch.from_numpy(D[~kept])
        m = torch.from_numpy(strength[~kept])
        for number, alpha in enumerate(ALPHAS):
            w = torch.from_numpy(pair_head(D[kept], strength[kept], loss, alpha, start))
            margin = left @ w
            total[number] += loss(margin, torch.zeros_like(margin), m).sum().item()
    return pair_head(D, strength, loss, ALPHAS[int(total.argmin())], start)


def margins_of_fold(
    states: np.ndarray, pairs: Sequence[Group], train: np.ndarray, seed: int
) -> dict[str, np.ndarray]:
    """Second response less first one, [pairs], as each learner scores them, fitted to `train`.

    states: [pairs, 2, hidden]. train: bool [pairs].
    """
    fitted_to = states[train].reshape(-1, states.shape[-1])  # [2 pairs, hidden]
    centre = fitted_to.mean(axis=0)
    scale = fitted_to.std(axis=0)
    scale[scale < 1e-9] = 1.0  # a number that is always the same says nothing, however it is scaled
    X = (states - centre) / scale  # [pairs, 2, hidden]
    of_training = [pair for pair, is_kept in zip(pairs, train, strict=True) if is_kept]
    labels = [[response.labels for response in pair.responses] for pair in of_training]
    Y = np.array(labels).reshape(-1, len(ATTRIBUTES))  # [2 pairs, 5]
    clusters = np.array([items.cluster(pair) for pair in of_training])
    rows = X[train].reshape(-1, X.shape[-1])
    alpha = baselines.best_alpha(rows, Y, np.repeat(clusters, 2), n_folds=FOLDS, seed=seed)
    W, _ = baselines.ridge(rows, Y, alpha)  # [hidden, 5]
    weights = learning.paper.head_weights("goodness", ATTRIBUTES)
    heads = {"five-weighted": W @ np.array(weights), "helpfulness": W[:, 0]}

    strength = np.array([pair.preference for pair in of_training])  # [training pairs]
    directed = strength != 0
    sign = np.sign(strength[directed])[:, None]
    D = (X[train][directed, 1] - X[train][directed, 0]) * sign  # better less worse
    m = np.abs(strength[directed])
    for name, loss in PAIR_LOSSES.items():
        of_pairs = clusters[directed]
        heads[name] = best_pair_head(D, m, of_pairs, loss, None, seed)
        begun = best_pair_head(D, m, of_pairs, loss, heads["helpfulness"], seed)
        heads[f"{name}-begun"] = begun
        heads[f"{name}-expo"] = heads["helpfulness"] + EXPO * (begun - heads["helpfulness"])
    difference = X[:, 1] - X[:, 0]  # [pairs, hidden]
    return {name: difference @ head for name, head in heads.items()}


def cross_validated(states: np.ndarray, pairs: Sequence[Group]) -> dict[str, np.ndarray]:
    """How often each learner orders a pair rightly over the repeats, [pairs], nan for ties.

    Every pair is scored by heads that saw no pair of its prompt. Equal scores count half, and what
    differs by 1e-9 or less is equal: rounding, which another processor does otherwise.
    """
    preference = np.array([pair.preference for pair in pairs])  # [pairs]
    clusters = np.array([items.cluster(pair) for pair in pairs])
    right: dict[str, np.ndarray] = {}
    for repeat in range(REPEATS):
        fold = baselines.folds(clusters, FOLDS, seed=repeat)  # [pairs]
        for f in range(FOLDS):
            margins = margins_of_fold(states, pairs, fold != f, seed=repeat)
            for name, margin in margins.items():
                share = right.setdefault(name, np.zeros(len(pairs)))
                order = np.sign(np.round(margin, 9))
                is_right = (1 + order * np.sign(preference)) / 2
                share[fold == f] += is_right[fold == f] / REPEATS
    lengths = np.array([[len(response.text) for response in pair.responses] for pair in pairs])
    right[LONGER] = (1 + np.sign(lengths[:, 1] - lengths[:, 0]) * np.sign(preference)) / 2
    return {name: np.where(preference == 0, np.nan, share) for name, share in right.items()}


def real(folder: Path) -> dict:
    """The real pairs: accuracy of every learner in percent, and differences, with intervals."""
    pairs = real_pairs()
    right = cross_validated(states_of(pairs, folder), pairs)
    directed = ~np.isnan(right[LONGER])
    clusters = np.array([items.cluster(pair) for pair in pairs])[directed]

    def interval(values: np.ndarray) -> dict[str, float]:
        sums = np.column_stack([values[directed], np.ones(directed.sum())])  # [pairs, 2]
        estimated = bootstrap(sums, clusters, lambda s: 100 * s[:, :1] / s[:, 1:], n_boot=2000)
        return {"value": float(estimated.estimate[0])} | {
            "low": float(estimated.low[0]),
            "high": float(estimated.high[0]),
        }

    rows = [_rounded({"learner": name} | interval(right[name])) for name in right]
    asked = [*COMPARED, *((name, LONGER, "more than length") for name in right)]
    differences = []
    for first, second, asks in asked:
        if first in right and second in right and first != second:
            estimated = interval(right[first] - right[second])
            row = {"first": first, "second": second, "asks": asks, "measure": RIGHT}
            row |= {
                "difference": estimated["value"],
                "low": estimated["low"],
                "high": estimated["high"],
            }
            differences.append(_rounded(row))
    return {
        "pairs": int(directed.sum()),
        "ties": int((~directed).sum()),
        "base": "SmolLM2-135M-Instruct, frozen",
        "folds": FOLDS,
        "repeats": REPEATS,
        "rows": rows,
        "differences": differences,
        "commit": report.commit(),
    }


# The result


def figure(means: Sequence[dict], differences: Sequence[dict], of_real: dict) -> str:
    """The result in a line."""
    words = []
    asked = [("scaled", "helpfulness"), ("scaled-begun", "helpfulness-again")]
    asked += [("scaled-begun", "scaled"), ("scaled-expo", "scaled-begun")]
    most = max([row["judgements"] for row in means], default=0)
    for row in differences:
        pair = (row["first"], row["second"])
        if pair in asked and row["measure"] == RIGHT and row["judgements"] == most:
            between = "one seed"
            if row["low"] is not None:
                between = f"{row['low']:+.1f} to {row['high']:+.1f}, {row['seeds']} seeds"
            words.append(f"{pair[0]} less {pair[1]} {row['difference']:+.1f} ({between})")
    if of_real:
        value = {row["learner"]: row["value"] for row in of_real["rows"]}
        best = max((name for name in value if name != LONGER), key=value.get)
        words.append(
            f"{of_real['pairs']} real pairs: longer {value[LONGER]:.1f} %, "
            f"{best} {value[best]:.1f} %"
        )
    return "; ".join(words)


def result_of(folder: Path) -> dict:
    """The result of all that is kept in a folder."""
    rows = kept_rows(folder)
    means, differences = over_seeds(rows)
    file = folder / "real.json"
    of_real = json.loads(file.read_text()) if file.is_file() else {}
    seeds = sorted({row["seed"] for row in rows})
    learners = [name for name in LEARNERS if any(row["learner"] == name for row in rows)]
    return {
        "name": "losses",
        "compared": "pairs right by the truth, points, one loss less another; equal judgements",
        "figure": figure(means, differences, of_real),
        "goal": "every learner over five seeds, with t intervals of paired differences; "
        "no order is demanded",
        "met": len(seeds) >= 5 and len(learners) == len(LEARNERS) and bool(of_real),
        "seeds": seeds,
        "prompts": N_EVALUATED,
        "learners": {name: LEARNERS[name].title for name in learners},
        "means": means,
        "differences": differences,
        "rows": [_rounded(row) for row in rows],
        "real": of_real,
        "device": report.device(),
        "commit": report.commit(),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Train and measure what is asked for, and write what is known so far after each learner."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, nargs="*", default=list(range(5)))
    parser.add_argument("--judgements", type=int, nargs="+", default=JUDGEMENTS)
    parser.add_argument("--only", nargs="+", choices=list(LEARNERS), default=list(LEARNERS))
    parser.add_argument("--real", action="store_true", help="the real pairs alone")
    parser.add_argument("--folder", type=Path, default=paths.runs() / "losses")
    parser.add_argument("--dry", action="store_true", help="do not write the result")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)  # the small base gains nothing by a second one
    place = paths.reports() / "benchmarks" / "losses.json"

    def write() -> None:
        result = result_of(options.folder)
        if not options.dry:
            paths.write(place, json.dumps(result, indent=1) + "\n")

    if options.real:
        paths.write(options.folder / "real.json", json.dumps(real(options.folder), indent=1) + "\n")
        write()
    else:
        for judgements in options.judgements:
            for seed in options.seeds:
                world = World(seed, judgements, options.folder)
                for name in [*(name for name in LEARNERS if name in options.only), LONGER]:
                    world.measure(name)
                write()
    print(result_of(options.folder)["figure"])


if __name__ == "__main__":
    main()
