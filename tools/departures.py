"""What tier paper does otherwise than the paper or its code, and what each of that moves in the
small world.

    python tools/departures.py [--only loss system long cut checkpoint marker order interval] [--folder FOLDER]

`hs2lib/paper/departures.csv` names them, and its column `effect` holds what this prints. Trainings:
SFT of the small base on 640 conversations, two seeds of world and order, each time as at tier paper
and once more with one thing as in the paper's code; the difference is in true goodness of two
answers to each of 200 held-out prompts, paired by prompt, with a 95 % interval. What is finished is
kept, so a run that was stopped goes on. Ten minutes on one core.
"""

import argparse
import json
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random

import numpy as np
import pandas as pd
import torch
from sklearn.linear_model import LogisticRegression

from hs2lib import paths
from hs2lib.align import sft
from hs2lib.data.load import load
from hs2lib.engine import checkpoints
from hs2lib.engine.chat import SYSTEM_PROMPT
from hs2lib.evaluate import alpaca_eval, arena_hard, response_rows, selection
from hs2lib.evaluate.questions import generate, mean
from hs2lib.evaluate.truth import by_truth
from hs2lib.group import Group, Response, Turn
from hs2lib.models.policy import Policy, load_policy
from hs2lib.report import report
from hs2lib.train import objectives, recipes
from hs2lib.train.trainer import Outputs, fit

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))
import works

SEEDS, CONVERSATIONS, WATCHED, RATED, LONG = (0, 1), 640, 40, 1600, 0.1
TRAINED = {
    "budget": 2048,
    "save_every": 10_000,
    "keep": 0,
    "warmup": 10,
    "batch": 16,
    "learning_rate": 2e-4,
    "epochs": 1,
}
ORDERS, BIASES, ASKED = (
    20,
    (0.0, 0.1, 0.2),
    60,
)  # draws of who stands first, shares of verdicts that follow the place
MODELS, SETS, GAMES, RESAMPLES = 8, 3, 500, 100


def measuring(seed: int) -> recipes.SFT:
    """How policies answer and are scored; only that of the recipe is read."""
    sampling = {"n_eval_samples": 2, "eval_temperature": 1.0, "eval_top_p": 1.0}
    return recipes.SFT(**sampling, eval_tokens=works.LONGEST, budget=4096, seed=seed)


class Worlds:
    """Conversations and held-out prompts by seed, and the policies trained on them, kept in a folder."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.world = cache(
            lambda seed: works.World(seed, folder, {works.REWARD_MODEL: {"n_prompts": RATED}})
        )  # fewer rated groups for its reward model

    @cache  # noqa: B019
    def talks(self, seed: int) -> list[Group]:
        """Demonstrations: to train on, and the last ones to watch."""
        number = CONVERSATIONS + WATCHED
        made = load("demonstrations", "embedded", split="train", n_prompts=number, seed=100 + seed)
        return made.groups

    def policy(self, name: str, seed: int) -> Policy:
        """SFT as at tier paper ("ours"), or with one thing as in the paper's code."""
        place = self.folder / f"seed-{seed}" / name
        if not place.is_dir():
            policy, talks = load_policy("small"), self.talks(seed)[:CONVERSATIONS]
            items, objective = VARIANTS[name](policy, talks)
            recipe = recipes.SFT(**TRAINED, seed=seed)
            fit(policy, items, [], objective, recipe, self.folder / f"seed-{seed}" / "training")
            policy.save(place)
        return load_policy(place)

    def truth(self, policy: Policy, seed: int, system: str = "") -> np.ndarray:
        """True goodness of a policy's answers to the held-out prompts, mean by prompt [prompts]."""
        before = (Turn("system", system),) if system else ()
        asked = [
            replace(group, prompt=(*before, *group.prompt)) for group in self.world(seed).held_out
        ]
        options = measuring(seed).evaluation
        rows = response_rows.evaluate(
            policy, asked, None, None, name="", progress=False, batch=512, **options
        )
        return rows.groupby("prompt", sort=False)[response_rows.TRUTH].mean().to_numpy()


def gain(pairs: dict[int, tuple[np.ndarray, np.ndarray]]) -> dict:
    """First less second [prompts], the mean over seeds with its interval over prompts, and each seed's."""
    by_seed = {seed: one - other for seed, (one, other) in pairs.items()}
    ids = [f"{seed} {i}" for seed, values in by_seed.items() for i in range(len(values))]
    value, low, high = np.round(
        mean(np.concatenate(list(by_seed.values())), ids, n_boot=2000, seed=0), 3
    ).tolist()
    each = {str(seed): round(float(values.mean()), 3) for seed, values in by_seed.items()}
    return {
        "points": value,
        "low": low,
        "high": high,
        "prompts": len(ids),
        "seeds": len(by_seed),
        "by seed": each,
    }


# SFT otherwise: items and objective of each variant


def ours(policy: Policy, talks: list[Group]) -> tuple:
    return sft.items(policy, talks)[0], objectives.sft()


def by_conversation(policy: Policy, talks: list[Group]) -> tuple:
    """The loss as micro-batches of one give it: the mean of each conversation, then over conversations."""

    def total(outputs, targets, group):
        return -(outputs[:, 0] / targets[:, 0]).sum()

    def count(targets, group):
        return len(targets)

    own = objectives.sft()._replace(name="SFT, mean of conversations", total=total, count=count)
    return sft.items(policy, talks)[0], own


def with_system(policy: Policy, talks: list[Group]) -> tuple:
    """Every conversation behind the system text of the reward model."""
    before = Turn("system", SYSTEM_PROMPT)
    return ours(policy, [replace(talk, prompt=(before, *talk.prompt)) for talk in talks])


def limit(policy: Policy, talks: list[Group]) -> int:
    """Tokens that a tenth of the conversations exceed."""
    lengths = [len(sft.tokens_and_mask(policy, talk)[0]) for talk in talks]
    return int(np.quantile(lengths, 1 - LONG))


def shortened(policy: Policy, talks: list[Group]) -> tuple:
    """Ours under a limit that a tenth exceeds: whole exchanges go, or the conversation."""
    whole, policy.max_tokens = policy.max_tokens, limit(policy, talks)
    made = ours(policy, talks)
    policy.max_tokens = whole
    return made


def replaced(policy: Policy, talks: list[Group]) -> tuple:
    """Under the same limit each long conversation is the next one that fits, which is then trained twice."""
    most, kept, waiting = limit(policy, talks), [], []
    for talk in talks:
        waiting.append(talk.id)
        if len(sft.tokens_and_mask(policy, talk)[0]) <= most:
            kept += [replace(talk, id=f"{talk.id}{'+' * k}") for k in range(len(waiting))]
            waiting = []
    return ours(policy, kept)


def cut_off(policy: Policy, talks: list[Group]) -> tuple:
    """Under the same limit a long conversation ends at the limit, often in the middle of an answer."""
    most, kept, (items, objective) = limit(policy, talks), [], ours(policy, talks)
    for item in items:
        if not (
            runs := tuple(
                (start, min(stop, most)) for start, stop in item.starts[0] if start < most
            )
        ):
            continue
        tokens = np.array([[sum(stop - start for start, stop in runs)]], np.float32)
        kept.append(
            replace(
                item, sequences=(item.sequences[0][: runs[-1][1]],), targets=tokens, starts=(runs,)
            )
        )
    return kept, objective


VARIANTS = {"ours": ours, "by conversation": by_conversation, "with system text": with_system}
VARIANTS |= {"shortened": shortened, "replaced": replaced, "cut off": cut_off}


def otherwise(worlds: Worlds, theirs: str, own: str = "ours", system: str = "") -> dict:
    """What ours gains over theirs; with a system text, which stands before the held-out prompts of theirs too."""
    pairs = {}
    for seed in SEEDS:
        of_ours = worlds.truth(worlds.policy(own, seed), seed)
        pairs[seed] = of_ours, worlds.truth(worlds.policy(theirs, seed), seed, system)
    return gain(pairs)


def loss(worlds: Worlds) -> dict:
    return otherwise(worlds, "by conversation")


def system(worlds: Worlds) -> dict:
    """Theirs is asked with the text that it was trained with, and, beside it, without."""
    return otherwise(worlds, "with system text", system=SYSTEM_PROMPT) | {
        "asked without it": otherwise(worlds, "with system text")
    }


def long(worlds: Worlds) -> dict:
    policy, talks = load_policy("small"), worlds.talks(0)[:CONVERSATIONS]
    policy.max_tokens = limit(policy, talks)
    about = {"tokens at most": policy.max_tokens, "counts of seed 0": sft.items(policy, talks)[1]}
    return otherwise(worlds, "replaced", "shortened") | about


def cut(worlds: Worlds) -> dict:
    return otherwise(worlds, "cut off", "shortened")


# Which checkpoint


def checkpoint(worlds: Worlds) -> dict:
    """The best of four checkpoints by 80 generated questions of two turns, graded by the truth, less the last."""
    by_judge, by_loss, taken = {}, {}, {}
    quarter = CONVERSATIONS // TRAINED["batch"] // 4
    own = TRAINED | {"save_every": quarter, "validate_every": quarter, "keep": 4, "judge": "truth"}
    own |= {"n_eval_prompts": 80, "eval_tokens": works.LONGEST}
    for seed in SEEDS:
        policy, talks = load_policy("small"), worlds.talks(seed)
        items, watched = (
            sft.items(policy, part)[0] for part in (talks[:CONVERSATIONS], talks[CONVERSATIONS:])
        )
        recipe, parent = recipes.SFT(**own, seed=seed), worlds.folder / f"seed-{seed}" / "training"
        result = fit(policy, items, watched, objectives.sft(), recipe, parent)
        chosen = selection.choose(policy, result, recipe)
        best = chosen.result.best_step
        truths, whole = {}, Outputs(policy, None, "float32")
        for step in {best, result.best_step, result.steps}:
            saved = (
                result.folder / f"checkpoint-{step}"
            )  # of step 0 there is none, but it may have the lowest loss
            checkpoints.load_weights(
                whole, saved if step else result.folder / "best" / "step-000000"
            )
            truths[step] = worlds.truth(policy, seed)
        by_judge[seed] = truths[best], truths[result.steps]
        by_loss[seed] = truths[result.best_step], truths[result.steps]
        grades = chosen.table.set_index("step")["mean"].round(3).to_dict()
        taken[str(seed)] = {
            "by judge": best,
            "by loss": result.best_step,
            "last": result.steps,
            "grades": grades,
        }
    return gain(by_judge) | {"lowest loss less last": gain(by_loss), "steps": taken}


# A reward model, and judges


def marker(worlds: Worlds) -> dict:
    """A poor answer, then in the same text the user's marker, the question again, the marker and a
    good answer.

    The score where that is one answer, as here, and where it is further turns: points of goodness
    by the reward model.
    """
    world = worlds.world(0)
    model, read = world.reward_model, {"poor answer": [], "ours": [], "theirs": []}
    for group in load("helpsteer2", "embedded", split="validation", n_prompts=200, seed=200).groups:
        good, poor = sorted(group.responses, key=lambda one: -one.labels[0])
        asked = group.prompt[-1].text
        spelt = f"{poor.text}<|im_end|>\n<|im_start|>user\n{asked}<|im_end|>\n<|im_start|>assistant\n{good.text}"
        turns = (*group.prompt, Turn("assistant", poor.text), Turn("user", asked))
        read["poor answer"].append(replace(group, responses=(poor,)))
        read["ours"].append(replace(group, responses=(Response("", spelt),)))
        read["theirs"].append(replace(group, prompt=turns, responses=(Response("", good.text),)))
    scores = {}
    for name, groups in read.items():
        outputs = model.score(groups, **measuring(0).inference).numpy()  # [R, A]
        scores[name] = response_rows.weighted(outputs, "goodness", model)
    less = {name: gain({0: (scores[name], scores["poor answer"])}) for name in ("ours", "theirs")}
    return gain({0: (scores["theirs"], scores["ours"])}) | {"less the poor answer alone": less}


def order(worlds: Worlds) -> dict:
    """The raw win rate of one policy's answers to 60 questions, over 20 draws of which answer
    stands first.

    The judge knows the truth, and in a share of its verdicts names what stands first instead.
    """
    questions = alpaca_eval.load("embedded", n=ASKED)
    answers = generate(
        worlds.policy("ours", 0), questions, max_new_tokens=works.LONGEST, progress=False
    )
    true = alpaca_eval.preferences(questions, by_truth(questions, answers))
    out = {
        "verdicts": len(true),
        "draws": ORDERS,
        "SE over questions": round(alpaca_eval.win_rate(true).standard_error, 2),
    }
    for bias in BIASES:
        rates = []
        for draw in range(ORDERS):
            shown = np.array(
                [alpaca_eval.shown_first(group.id, draw) for group in questions.groups]
            )
            biased = np.array(
                [Random(f"{group.id} {bias}").random() < bias for group in questions.groups]
            )
            rates.append(alpaca_eval.win_rate(np.where(biased, 1.0 + shown, true)).rate)
        row = {"SD": np.std(rates, ddof=1), "lowest": min(rates), "highest": max(rates)}
        out[f"place decides {bias:.0%}"] = {
            name: round(float(value), 2) for name, value in row.items()
        }
    return out


def interval(worlds: Worlds) -> dict:
    """Widths of Arena Hard's interval: 100 resamples of the games of all models in one fit, over ours."""
    ratios, apart = [], 0.0
    for number in range(SETS):
        rng, tables = np.random.default_rng(number), {}
        for model in range(MODELS):
            chances = rng.dirichlet(np.full(len(arena_hard.COMPARISONS), 2.0))
            values = rng.choice(arena_hard.COMPARISONS, size=(GAMES, 2), p=chances)
            counted = np.vectorize(
                dict(zip(arena_hard.COMPARISONS, (3, 1, 1, 1, 3), strict=True)).get
            )(values)
            won = np.vectorize(
                dict(zip(arena_hard.COMPARISONS, (0, 0, 0.5, 1, 3), strict=True)).get
            )(values)
            tables[model] = pd.DataFrame(
                {"counted": counted.ravel().astype(float), "won": won.ravel()}
            )
        single = pd.concat(
            [one_by_one(table).assign(model=model) for model, table in tables.items()]
        )
        rates = np.array(
            [joint(single)]
            + [
                joint(single.sample(frac=1, replace=True, random_state=int(rng.integers(2**31))))
                for _ in range(RESAMPLES)
            ]
        )
        closed = np.array(
            [100 * table.won.sum() / table.counted.sum() for table in tables.values()]
        )
        apart = max(apart, float(np.abs(rates[0] - closed).max()))
        theirs = np.diff(np.percentile(rates[1:], [2.5, 97.5], axis=0), axis=0)[0]
        own = [
            float(np.diff(arena_hard.protocol_interval(table, n_boot=10_000, seed=0))[0])
            for table in tables.values()
        ]
        ratios += (theirs / own).tolist()
    return {
        "intervals": len(ratios),
        "their width over ours": round(float(np.mean(ratios)), 3),
        "SD": round(float(np.std(ratios, ddof=1)), 3),
        "rates apart, points": round(apart, 5),
    }


def one_by_one(table: pd.DataFrame) -> pd.DataFrame:
    """Every counted game for itself: won 1, lost 0, halved .5."""
    repeated = table.loc[table.index.repeat(table.counted.astype(int))]
    return pd.DataFrame({"won": repeated.won / repeated.counted})


def joint(games: pd.DataFrame) -> np.ndarray:
    """Win rates [models], in per cent, of one Bradley-Terry fit to all games; a half won is half a game of each."""
    models = np.eye(MODELS)[games.model.to_numpy()]
    X, y = np.concatenate([models, models]), np.repeat([1, 0], len(games))
    weights = np.concatenate([games.won, 1 - games.won])
    kept = weights > 0
    fitted = LogisticRegression(C=np.inf, fit_intercept=False, tol=1e-8).fit(
        X[kept], y[kept], sample_weight=weights[kept]
    )
    return 100 / (1 + np.exp(-fitted.coef_[0]))


PARTS = {"loss": loss, "system": system, "long": long, "cut": cut, "checkpoint": checkpoint}
PARTS |= {"marker": marker, "order": order, "interval": interval}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--folder", type=Path, default=paths.runs() / "departures")
    options = parser.parse_args()
    torch.set_num_threads(1)
    worlds = Worlds(options.folder)
    for name in options.only:
        file = options.folder / f"{name}.json"
        if not file.is_file():
            paths.write(
                file, json.dumps(PARTS[name](worlds) | {"commit": report.commit()}, indent=1) + "\n"
            )
        print(name, file.read_text(), flush=True)
    parts = {
        name: json.loads(file.read_text())
        for name in PARTS
        if (file := options.folder / f"{name}.json").is_file()
    }
    result = {
        "name": "departures",
        "compared": "tier paper's own choices with the paper's code's, in the small world",
        "unit": "points of true goodness, ours less theirs, unless it says otherwise",
        "parts": parts,
        "missing": [name for name in PARTS if name not in parts],
        "device": report.device(),
        "commit": report.commit(),
    }
    paths.write(
        paths.reports() / "benchmarks" / "departures.json", json.dumps(result, indent=1) + "\n"
    )


if __name__ == "__main__":
    main()
