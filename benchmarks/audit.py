"""Does the audit foretell what a judge is good for? Judges of the small world, each audited.

    python benchmarks/audit.py [--seeds 0 1 2] [--judges "all ratings" "half" ..] [--ppo]
    python benchmarks/audit.py --join seed-0.json seed-1.json seed-2.json     # results of single seeds

An audit (`hs2lib.audit`) looks at a judge and a policy and knows no truth. In the small world the
truth is known (`hs2lib.corpus.grade`). So thirteen judges, from a good one to one that learnt
nothing, are audited on one policy (SFT of `benchmarks/works.py`) with 200 prompts of eight answers
each. On 200 other prompts the judge then chooses the best of eight answers. What that choice gains
in truth over the mean of the eight is what the audit should foretell. With `--ppo` the policy is
also trained by PPO on the judge's score, by the recipe of tier demo at half its rounds. What that
gains in truth over SFT on those other prompts, greedy and sampled, should be foretold too.

The judges are the reward model of notebook 05 at tier demo, and what is left of it on fewer
ratings, on ratings that are dealt out among the answers in part, and on answers under other prompts;
and one that learnt from preferences, by Bradley-Terry, which of two answers is the more helpful.
Spearman's R of each predictor and a gain is taken over the judges of a seed, then averaged over
seeds. Its interval draws judges. The same draws give the interval of a difference of two predictors.
The predictors are

    audit                  the audit's number;
    R with held-out ratings    of the judge's score, on rated answers that it did not learn;
    pairs right            of those rated answers, two to a prompt;
    minus R with length    minus R of the score with length, within prompts of the policy;
    SD within              of the score, among the policy's answers to one prompt.

The last was added when seed 0 had been seen and before seeds 1 and 2 were: judges of one scale that
learnt less move less. Of judges with other scales it says nothing: one of preferences has another.

Judges, policies and samples are kept by seed, so a run that was stopped goes on. A seed takes about
half an hour of one core, most of it training, and with `--ppo` an hour more.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pandas as pd
from scipy import stats

from hs2lib import paths
from hs2lib.align import ppo
from hs2lib.audit.auditing import LENGTH, audit
from hs2lib.corpus.grade import true_goodness
from hs2lib.data.load import Loaded
from hs2lib.group import ATTRIBUTES, Group
from hs2lib.models import reward_training
from hs2lib.models.policy import Policy, load_policy
from hs2lib.models.reward_model import RewardModel
from hs2lib.models.rollout import rollouts
from hs2lib.paper import head_weights
from hs2lib.report import report
from hs2lib.runs.setup import Setup

sys.path.insert(0, str(Path(__file__).parent))
from works import NOTEBOOKS, REWARD_MODEL, World, blind, proximal

RESULT = paths.reports() / "benchmarks" / "audit.json"
N_AUDITED = 200  # held-out prompts that are audited; as many others are gained on
N_ANSWERS = 8
LONGEST = 160  # tokens of an answer
WEIGHTS = np.array(head_weights("goodness", ATTRIBUTES))  # [A], of ratings
N_BOOT = 2000
GAIN = "gain of best of 8"
# What differs from tier demo: half of PPO's rounds, since 39 policies are trained.
SETTINGS = {NOTEBOOKS["ppo"]: {"steps": 48}}
# What PPO on a judge's score gains over SFT, by how both are sampled. What is greedy comes first:
# by that the project says whether a method works.
PPO_GAINS = {"gain of PPO, greedy": 0.0, "gain of PPO, sampled at 1": 1.0}
PREDICTORS = (
    "audit",
    "R with held-out ratings",
    "pairs right",
    "minus R with length",
    "SD within",
)

Change = Callable[[Sequence[Group]], list[Group]]


def share_of(share: float) -> Change:
    """What keeps a share of the rated groups, those at the front."""
    return lambda groups: list(groups[: max(1, round(share * len(groups)))])


def dealt(share: float) -> Change:
    """What deals out the ratings of a share of the groups among their answers."""

    def change(groups: Sequence[Group]) -> list[Group]:
        chosen = [i for i, group in enumerate(groups) if Random(group.id).random() < share]
        labels = []
        for i in chosen:
            labels += [response.labels for response in groups[i].responses]
        Random(len(chosen)).shuffle(labels)
        changed = list(groups)
        for i in chosen:
            responses = []
            for response in groups[i].responses:
                responses.append(replace(response, labels=labels.pop()))
            changed[i] = replace(groups[i], responses=tuple(responses))
        return changed

    return change


def quarter_dealt(groups: Sequence[Group]) -> list[Group]:
    """A quarter of the groups, all their ratings dealt out: nothing can be learnt of it."""
    return dealt(1.0)(share_of(1 / 4)(groups))


# The recipe of a judge of preferences is that of the named run "w. HH-RLHF" of notebook 05: it only
# learns which of two answers has the higher rating of helpfulness.
PREFERENCES = "preferences"
RECIPES = {PREFERENCES: {"objective": "bradley-terry", "compare": "helpfulness"}}

# What a judge is called -> its folder, and what its training answers go through. The first two are
# judges of `works.py` too.
JUDGES: dict[str, tuple[str, Change]] = {
    "all ratings": ("reward-model", list),
    "under other prompts": ("reward-model-blind", blind),
    "half": ("judges/half", share_of(1 / 2)),
    "a quarter": ("judges/quarter", share_of(1 / 4)),
    "an eighth": ("judges/eighth", share_of(1 / 8)),
    "a sixteenth": ("judges/sixteenth", share_of(1 / 16)),
    "20 % dealt out": ("judges/dealt-20", dealt(0.2)),
    "40 % dealt out": ("judges/dealt-40", dealt(0.4)),
    "60 % dealt out": ("judges/dealt-60", dealt(0.6)),
    "a quarter, 50 % dealt out": (
        "judges/quarter-dealt-50",
        lambda groups: dealt(0.5)(share_of(1 / 4)(groups)),
    ),
    "a quarter, all dealt out": ("judges/quarter-dealt-all", quarter_dealt),
    "a quarter under other prompts": (
        "judges/quarter-blind",
        lambda groups: blind(share_of(1 / 4)(groups)),
    ),
    PREFERENCES: ("judges/preferences", list),
}


def weights_of(judge: RewardModel) -> np.ndarray:
    """How a judge's outputs are weighed to one score [A]: as goodness, or its one output as it is."""
    if len(judge.attributes) == 1:
        return np.ones(1)
    return np.array(head_weights("goodness", judge.attributes))


def gain(chosen_by: np.ndarray, truth: np.ndarray) -> float:
    """What the truth of the answer with the highest score has above the mean, over prompts.

    Args:
        chosen_by: scores [prompts, n].
        truth: of the same answers.
    """
    best = chosen_by.argmax(axis=1)
    return float((truth[np.arange(len(truth)), best] - truth.mean(axis=1)).mean())


def held_out_ratings(world: World, judge: RewardModel) -> dict[str, float]:
    """R of score and rating on rated answers that no judge learnt, and pairs in their order.

    Ratings are weighed as goodness is. A pair of equal ratings does not count.
    """
    setup = world.setup(REWARD_MODEL)
    groups = reward_training.load_parts(setup).groups["test"]
    scores = judge.score(groups).double().numpy() @ weights_of(judge)  # [R]
    labels = []
    for group in groups:
        labels += [response.labels for response in group.responses]
    ratings = np.array(labels) @ WEIGHTS  # [R]
    right = []
    start = 0
    for group in groups:
        of_group = slice(start, start + len(group.responses))
        start = of_group.stop
        if len(group.responses) == 2 and np.diff(ratings[of_group])[0]:
            same = np.sign(np.diff(scores[of_group])) * np.sign(np.diff(ratings[of_group]))
            right.append((1 + same[0]) / 2)
    return {
        "R with held-out ratings": float(np.corrcoef(scores, ratings)[0, 1]),
        "pairs right": 100 * float(np.mean(right)),
    }


def reward_of(judge: RewardModel) -> Callable[[Loaded, Setup], RewardModel]:
    """What makes PPO's reward of a judge: its score, standardised on rated answers."""

    def reward(rated: Loaded, setup: Setup) -> RewardModel:
        groups = rated.groups[: setup.recipe.n_standard]
        folded = ppo.standardised(judge, groups, weights_of(judge), budget=setup.recipe.budget)
        return folded.requires_grad_(False).eval()

    return reward


def rewarded_by(world: World, name: str, judge: RewardModel) -> Policy:
    """SFT's policy after PPO on a judge's score; kept."""
    place = world.folder / "ppo-by" / Path(JUDGES[name][0]).name
    if not place.is_dir():
        began = time.monotonic()
        policy = world.policy("sft")
        proximal(world, policy, reward_of(judge))
        policy.save(place)
        seconds = time.monotonic() - began
        print(f"seed {world.seed}, PPO by {name}: {seconds:.0f} s", flush=True)
    return load_policy(place)


def reached(policy: Policy, prompts: Sequence[Group], temperature: float, seed: int) -> float:
    """The mean true goodness of a policy's answers: one to a prompt where greedy, else `N_ANSWERS`."""
    answered = rollouts(
        policy,
        prompts,
        n=N_ANSWERS if temperature else 1,
        temperature=temperature,
        top_p=1.0,
        max_new_tokens=LONGEST,
        seed=seed,
        batch=512,
        progress=False,
    )
    return float(np.mean([true_goodness(group).mean() for group in answered]))


def gains_of_ppo(
    world: World, name: str, judge: RewardModel, prompts: Sequence[Group]
) -> dict[str, float]:
    """What PPO on a judge's score gains in truth over SFT on these prompts; kept."""
    file = world.folder / "ppo-by" / f"{Path(JUDGES[name][0]).name}.json"
    if not file.is_file():
        policy = rewarded_by(world, name, judge)
        start = world.policy("sft")
        gains = {}
        for words, temperature in PPO_GAINS.items():
            after = reached(policy, prompts, temperature, world.seed)
            gains[words] = after - reached(start, prompts, temperature, world.seed)
        paths.write(file, json.dumps(gains))
    return json.loads(file.read_text())


def rows_of(world: World, judges: Sequence[str], with_ppo: bool = False) -> list[dict]:
    """What each judge's audit says at a seed, and what the judge gains on other prompts.

    with_ppo: whether a policy is trained on each judge's score, too.
    """
    policy = world.policy("sft")
    folder = world.folder / "audit"
    audited_prompts = world.held_out[:N_AUDITED]
    others = world.held_out[N_AUDITED : 2 * N_AUDITED]
    file = folder / "prompts.jsonl"
    lines = [json.dumps({"prompt": group.prompt[-1].text}) for group in audited_prompts]
    paths.write(file, "\n".join(lines) + "\n")
    sampling = {"temperature": 1.0, "top_p": 1.0, "seed": world.seed, "max_new_tokens": LONGEST}
    answered = rollouts(policy, others, n=N_ANSWERS, file=folder / "others", **sampling)
    truth = np.stack([true_goodness(group) for group in answered])  # [prompts, n]
    by_length = []
    for group in answered:
        by_length.append([len(response.text) for response in group.responses])
    rows = []
    for name in judges:
        place, change = JUDGES[name]
        judge = world.judge(place, change, RECIPES.get(name))
        began = time.monotonic()
        audited = audit(judge, policy, file, folder, n=N_ANSWERS, **sampling)
        scores = judge.score(answered).double().numpy() @ weights_of(judge)  # [prompts * n]
        row = {"seed": world.seed, "judge": name, "audit": audited.number.estimate}
        row |= {"audit, low": audited.number.low, "audit, high": audited.number.high}
        row |= {"by length": audited.by_length.estimate}
        row |= held_out_ratings(world, judge)
        by_edit = audited.edits.set_index("edit")["falls (%)"]
        row |= {f"falls, {edit}": float(share) for edit, share in by_edit.items()}
        row |= {f"SD {name}": value for name, value in audited.spread.items()}
        r = audited.leaning.set_index("with").R
        row |= {
            "minus R with length": -float(r[LENGTH]),
            GAIN: gain(scores.reshape(truth.shape), truth),
        }
        row |= {
            "gain by length": gain(np.array(by_length), truth),
            "gain by truth": gain(truth, truth),
        }
        row |= {"seconds": time.monotonic() - began}
        if with_ppo:
            row |= gains_of_ppo(world, name, judge, others)
        rows.append(row)
        print(
            f"seed {world.seed}, {name}: audit {row['audit']:.0f}, {GAIN} {row[GAIN]:.2f}",
            flush=True,
        )
    return rows


def rank_correlations(table: pd.DataFrame, gained: str = GAIN) -> dict[str, float]:
    """Spearman's R of each predictor and a gain over the judges of a seed, mean over seeds."""
    out = {}
    for predictor in PREDICTORS:
        of_seeds = []
        for _, part in table.groupby("seed"):
            if part[predictor].nunique() > 1 and part[gained].nunique() > 1:
                of_seeds.append(stats.spearmanr(part[predictor], part[gained])[0])
        out[predictor] = float(np.mean(of_seeds)) if of_seeds else np.nan
    return out


def with_intervals(
    table: pd.DataFrame, n_boot: int = N_BOOT, seed: int = 0, gained: str = GAIN
) -> list[dict]:
    """The rank correlations, and the audit's less each other one's, with intervals by judge."""
    names = table.judge.unique()
    drawn = np.random.default_rng(seed)
    by_judge = {name: part for name, part in table.groupby("judge")}
    resampled = []
    for _ in range(n_boot):
        sample = drawn.choice(names, len(names))
        drawn_judges = pd.concat([by_judge[name] for name in sample])
        resampled.append(rank_correlations(drawn_judges, gained))
    draws = pd.DataFrame(resampled)
    estimate = rank_correlations(table, gained)
    rows = []
    for predictor in PREDICTORS:
        row = {"predictor": predictor, "Spearman": estimate[predictor]}
        row["low"], row["high"] = np.nanpercentile(draws[predictor], [2.5, 97.5])
        if predictor != "audit":
            difference = draws.audit - draws[predictor]
            row["audit less it"] = estimate["audit"] - estimate[predictor]
            row["less, low"], row["less, high"] = np.nanpercentile(difference, [2.5, 97.5])
        rows.append(row)
    return rows


def in_words(rows: Sequence[dict], gained: str = GAIN) -> str:
    """The first line of a result: whether the audit is any better than its alternatives."""
    audited = rows[0]
    number = f"{audited['Spearman']:.2f} ({audited['low']:.2f} to {audited['high']:.2f})"
    better = [row["predictor"] for row in rows[1:] if row["less, low"] > 0]
    worse = [row["predictor"] for row in rows[1:] if row["less, high"] < 0]
    unclear = [row["predictor"] for row in rows[1:] if row["less, low"] <= 0 <= row["less, high"]]
    parts = [f"Spearman of audit and {gained}: {number}"]
    for words, which in (
        ("better than", better),
        ("no better shown than", unclear),
        ("worse than", worse),
    ):
        if which:
            parts.append(f"{words} {', '.join(which)}")
    return "; ".join(parts)


def main(arguments: Sequence[str] | None = None) -> None:
    """Command line: audit the judges and write the result."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--judges", nargs="+", choices=list(JUDGES), default=list(JUDGES))
    parser.add_argument("--ppo", action="store_true", help="train a policy with every judge, too")
    parser.add_argument("--folder", type=Path, default=paths.runs() / "works")
    parser.add_argument("--join", type=Path, nargs="+", help="results of one commit, put together")
    parser.add_argument("--dry", action="store_true", help="do not write the result")
    options = parser.parse_args(arguments)
    rows = []
    commit = report.commit()
    if options.join:
        rows, commit = joined(options.join)
        options.seeds = sorted({row["seed"] for row in rows})
    else:
        for seed in options.seeds:
            rows += rows_of(World(seed, options.folder, SETTINGS), options.judges, options.ppo)
    table = pd.DataFrame(rows)
    correlations = with_intervals(table)
    print(table.round(2).to_string(index=False))
    print(pd.DataFrame(correlations).round(2).to_string(index=False))
    print(in_words(correlations))
    of_ppo = {}
    seeds_of_ppo: list[int] = []
    for gained in PPO_GAINS:
        if gained in table:
            trained = table[table[gained].notna()]
            seeds_of_ppo = sorted(trained.seed.unique().tolist())
            of_ppo[gained] = with_intervals(trained, gained=gained)
            print(in_words(of_ppo[gained], gained))
    if options.dry:
        return
    result = {
        "name": "audit",
        "compared": f"ranks of judges by the audit and by the {GAIN} in truth, other prompts",
        "figure": in_words(correlations),
        "goal": "the audit ranks judges better than R, pairs right and length",
        "met": all(row["less, low"] > 0 for row in correlations[1:]),
        "correlations": [rounded(row) for row in correlations],
        "of PPO": {name: [rounded(row) for row in of_gain] for name, of_gain in of_ppo.items()},
        "judges": [rounded(row) for row in rows],
        "seeds": options.seeds,
        "seeds of PPO": seeds_of_ppo,
        "prompts": N_AUDITED,
        "data": "generated: the small world",
        "device": report.device(),
        "commit": commit,
    }
    paths.write(RESULT, json.dumps(result, indent=1) + "\n")


def joined(files: Sequence[Path]) -> tuple[list[dict], str]:
    """The rows of results that were run seed by seed, and the commit that all of them are of.

    Raises:
        SystemExit: for results of two commits, or of one seed twice.
    """
    results = [json.loads(file.read_text()) for file in files]
    commits = {result["commit"] for result in results}
    if len(commits) > 1:
        sys.exit(f"these results are of several commits: {', '.join(sorted(commits))}")
    seeds = [seed for result in results for seed in result["seeds"]]
    if len(seeds) > len(set(seeds)):
        sys.exit(f"one seed is there twice: {', '.join(map(str, seeds))}")
    return [row for result in results for row in result["judges"]], commits.pop()


def rounded(row: dict) -> dict:
    """A row with its numbers to four decimals."""
    return {name: round(v, 4) if isinstance(v, float) else v for name, v in row.items()}


if __name__ == "__main__":
    main()
