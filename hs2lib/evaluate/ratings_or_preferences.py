"""Ratings or preferences: reward models that learn from the same judgements by other losses.

    judged = load_judgements(setup)
    folders = train(judged, setup)                  # learner -> folder; goes on where it stopped
    scores = score(judged, folders, setup)          # learner -> [rows] of the held-out responses
    table = measured(scores, judged, setup)
    gains = compared(scores, judged, setup)

One judgement is one pair of responses that raters looked at. A regression learns from what they
said of both; a loss of pairs from which one was better, and by how much. All learners see the same
pairs. Paper: section 3 trains by regression, and says that it uses data better than preferences do.
Its sequel, HelpSteer2-Preference (arXiv 2410.01257), compares losses of pairs, from scratch and
begun from a regression.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from hs2lib import paper
from hs2lib.corpus import grade
from hs2lib.data.load import Loaded
from hs2lib.evaluate import rewardbench
from hs2lib.evaluate.learners import (
    COMPARED,
    GOOD,
    HELPFULNESS,
    LEARNERS,
    LONGER,
    RIGHT,
    WITHIN,
    title_of,
)
from hs2lib.evaluate.score import score as score_responses
from hs2lib.group import ATTRIBUTES, MISSING, Group
from hs2lib.models import derived, reward_training
from hs2lib.models.reward_model import RewardModel, load_reward_model
from hs2lib.models.reward_training import Parts
from hs2lib.models.saved import device
from hs2lib.report.answers import Answer
from hs2lib.runs.setup import Setup
from hs2lib.stats import metrics
from hs2lib.train import items, recipes

# The parts of the judgements, in the order in which they are used.
PARTS = ("train", "validation", "test")

# The strongest preference that annotators can give, as in HelpSteer2-Preference.
STRONGEST = 3.0

# The base of the sequel's reward models.
SEQUEL_BASE = "meta-llama/Llama-3.1-70B-Instruct"

# Learner -> the row of the sequel's table that was trained alike.
SEQUEL_ROWS = {
    "five-weighted": "SteerLM regression, all attributes",
    "helpfulness": "SteerLM regression, helpfulness only",
    "plain": "Bradley-Terry from scratch, regular",
    "margin": "Bradley-Terry from scratch, margin",
    "scaled": "Bradley-Terry from scratch, scaled",
    "plain-begun": "Bradley-Terry from helpfulness only, regular",
    "margin-begun": "Bradley-Terry from helpfulness only, margin",
    "scaled-begun": "Bradley-Terry from helpfulness only, scaled",
    "scaled-expo": "Bradley-Terry from helpfulness only, scaled + ExPO",
}


def with_needed(names: Iterable[str]) -> list[str]:
    """The learners asked for with those that they need, each after what it needs."""
    wanted = set(names)
    for name in list(wanted):
        waiting = [name]
        while waiting:
            learner = LEARNERS[waiting.pop()]
            needed = {learner.start, learner.strong} - {""}
            waiting += needed
            wanted |= needed
    return [name for name in LEARNERS if name in wanted]


# Judgements


@dataclass(frozen=True)
class Judgements:
    """What raters said of pairs of responses, in two forms.

    Args:
        ratings: the groups with ratings, for regressions.
        preferences: groups with a preference, for losses of pairs; its test part measures. In the
            small world they are the same pairs.
        implied: whether the preferences were read off the ratings.
        withheld: rated groups that are not learnt from, because their conversation measures.
    """

    ratings: Parts
    preferences: Parts
    implied: bool
    withheld: int = 0

    @property
    def test(self) -> list[Group]:
        """The held-out pairs on which every learner is measured."""
        return self.preferences.groups["test"]

    @property
    def sources(self) -> list[Loaded]:
        """The data sets that were read."""
        parts = [self.ratings] if self.implied else [self.ratings, self.preferences]
        loaded = [each.loaded for each in parts]
        return loaded + [each.held_out for each in parts if each.held_out]


def with_preferences(groups: Iterable[Group], attribute: str = HELPFULNESS) -> list[Group]:
    """Rated pairs with the preference that their ratings imply, from -3 to 3.

    It is the second response's rating less the first one's; a difference of 4 counts as 3, the
    strongest preference that HelpSteer2-Preference has. Groups that are no pair, or that lack a
    rating, get none. By hand: ratings 3 and 1 are a preference of -2, for the first.

    Paper: silent. On HelpSteer2's validation pairs such differences go with the strengths that were
    asked for by an R of .91.
    """
    implied = []
    for group in groups:
        labels = items.labels_of([group], attribute)  # [G]
        preference = None
        if len(labels) == 2 and not np.isnan(labels).any():
            preference = float(np.clip(labels[1] - labels[0], -STRONGEST, STRONGEST))
        implied.append(replace(group, preference=preference))
    return implied


def load_judgements(setup: Setup) -> Judgements:
    """The judgements that the recipe names, each form cut three ways as notebook 05 does.

    Without a data set of `preferences` these are the ones that the ratings imply. Where a data set
    has no test split of its own, the two forms are cut each by itself: rated groups whose
    conversation is in the test part of the preferences are then withheld, and counted. Raises as
    `reward_training.load_parts`.
    """
    ratings = reward_training.load_parts(setup)
    recipe = setup.recipe
    if recipe.preferences:
        changed = replace(recipe, dataset=recipe.preferences, path="")
        preferences = reward_training.load_parts(replace(setup, recipe=changed))
        if reward_training.has_own_test_split(recipe):
            return Judgements(ratings, preferences, implied=False)
        kept, withheld = _withheld(ratings, preferences.groups["test"])
        return Judgements(kept, preferences, implied=False, withheld=withheld)
    groups = {part: with_preferences(several) for part, several in ratings.groups.items()}
    return Judgements(ratings, replace(ratings, groups=groups), implied=True)


def _withheld(parts: Parts, test: Iterable[Group]) -> tuple[Parts, int]:
    """Parts without the conversations of a test part, but for their own test; how many groups went.

    Raises ValueError where a part is then empty.
    """
    measured_on = {items.cluster(group) for group in test}
    groups = dict(parts.groups)
    withheld = 0
    for part in ("train", "validation"):
        kept = [group for group in groups[part] if items.cluster(group) not in measured_on]
        withheld += len(groups[part]) - len(kept)
        if groups[part] and not kept:
            raise ValueError(
                f"every rated conversation of part {part} is among those that measure: "
                "take a smaller test_share, or other preferences"
            )
        groups[part] = kept
    return replace(parts, groups=groups), withheld


def counts(judged: Judgements) -> pd.DataFrame:
    """How many judgements each part has, and how many of them say that a response is better.

    A tie counts as a compared pair: raters looked at both responses, and preferred neither.
    """
    rows = {}
    for part in [name for name in PARTS if name in judged.preferences.groups]:
        groups = judged.preferences.groups[part]
        preferences = [group.preference for group in groups if group.preference is not None]
        strengths = np.abs(preferences)
        rows[part] = {
            "compared pairs": len(preferences),
            "of these ties": int((strengths == 0).sum()),
            **{f"of strength {m}": int((strengths == m).sum()) for m in (1, 2, 3)},
            "rated pairs": len(judged.ratings.groups[part]),
        }
    if judged.withheld:
        rows["train"]["rated pairs withheld"] = judged.withheld
    return pd.DataFrame(rows)


# Learning


def recipe_of(name: str, setup: Setup, folders: Mapping[str, Path]) -> recipes.RewardModel:
    """The recipe of one learner: the setup's, with its loss, its outputs and what it begins with.

    Paper: silent. HelpSteer2-Preference halves the rate for what is begun from a regression, and
    passes once over the data.

    Args:
        name: of the learner.
        setup: of the run.
        folders: of the learners that are trained.
    """
    recipe = setup.recipe
    learner = LEARNERS[name]
    changes: dict[str, object] = {"objective": learner.objective, "compare": ""}
    if learner.outputs:
        changes["attributes"] = learner.outputs
    if learner.start:
        changes["start"] = str(folders[learner.start])
        changes["head"] = "saved"
        changes["learning_rate"] = recipe.learning_rate * recipe.second_rate
        changes["epochs"] = recipe.second_epochs
    return replace(recipe, **changes)


def train_one(name: str, judged: Judgements, setup: Setup, folders: Mapping[str, Path]) -> Path:
    """Train one learner, or extrapolate it, and save it; returns its folder.

    A training that was done is read again. Paper: silent. Raises as `reward_training.train` and
    `derived.extrapolated`.

    Args:
        name: of the learner.
        judged: what it learns from.
        setup: of the run.
        folders: of the learners that it needs.
    """
    learner = LEARNERS[name]
    folder = setup.folder / "learners" / name
    if learner.strong:
        weak = load_reward_model(folders[learner.start])
        strong = load_reward_model(folders[learner.strong])
        return derived.extrapolated(weak, strong, setup.recipe.alpha).save(folder)
    own = replace(setup, recipe=recipe_of(name, setup, folders))
    parts = judged.ratings if learner.objective == "regression" else judged.preferences
    model = reward_training.new_model(parts, own)
    prepared = reward_training.prepare(model, parts, own)
    if own.recipe.head == "ridge":
        of_training = replace(prepared, items={"train": prepared.items["train"]})
        inputs = reward_training.baseline_inputs(model, parts, of_training, own)
        reward_training.start_head(model, inputs, own)
    reward_training.train(model, prepared, own)
    return model.save(folder)


def train(judged: Judgements, setup: Setup) -> dict[str, Path]:
    """Train the learners of the recipe, and those that they need: the folder of each, by name.

    One that only weighs another's outputs has that one's folder. Raises as `train_one`.
    """
    folders: dict[str, Path] = {}
    for name in with_needed(setup.recipe.learners):
        learner = LEARNERS[name]
        if learner.objective or learner.strong:
            folders[name] = train_one(name, judged, setup, folders)
        else:
            folders[name] = folders[learner.start]
    return folders


# Measuring


def score(judged: Judgements, folders: Mapping[str, Path], setup: Setup) -> dict[str, np.ndarray]:
    """Scores float64 [rows] of every held-out response, by learner; the rule of length comes last.

    A response that is too long is nan, where the recipe leaves such out. Paper: silent.
    """
    scores = {}
    for name, folder in folders.items():
        model = load_reward_model(folder).to(device()).eval()
        scores[name] = score_groups(name, model, judged.test, setup)
    characters = [len(response.text) for group in judged.test for response in group.responses]
    scores[LONGER] = np.array(characters, dtype=np.float64)
    return scores


def score_groups(
    name: str, model: RewardModel, groups: Sequence[Group], setup: Setup
) -> np.ndarray:
    """One number for every response, float64 [rows], as a learner says it.

    It is the output for the reward or for helpfulness; of a learner that only weighs outputs it is
    goodness (`paper.GOODNESS`). Arguments as for `score`.
    """
    recipe = setup.recipe
    frame = score_responses(
        model,
        groups,
        too_long=recipe.too_long,
        budget=recipe.budget,
        autocast=recipe.autocast,
        cache=setup.folder / "scores",
    )
    return frame[list(model.attributes)].to_numpy() @ weights_of(name, model)


def unscored(scores: Mapping[str, np.ndarray]) -> np.ndarray:
    """The rows that some learner has no score for, bool [rows]: none is measured on them."""
    return np.isnan(np.stack(list(scores.values()))).any(axis=0)


def weights_of(name: str, model: RewardModel) -> np.ndarray:
    """The weight of each output [A] in a learner's one number."""
    if _weighs(name):
        return np.array(paper.head_weights("goodness", model.attributes))
    weights = np.zeros(len(model.attributes))
    weights[derived.row_of(model, "reward")] = 1.0
    return weights


def _weighs(name: str) -> bool:
    """Whether a learner trains nothing, and weighs the outputs of another one."""
    learner = LEARNERS[name]
    return not learner.objective and not learner.strong


def truths_of(judged: Judgements) -> dict[str, np.ndarray]:
    """What the held-out responses are worth, [rows] by name; the first one is what counts.

    In the small world it is the true helpfulness, which no rater's error is in, and goodness beside
    it. Of real pairs it is half the preference to each side.
    """
    if judged.ratings.loaded.generated and judged.implied:
        true = np.concatenate([grade.true_attributes(group) for group in judged.test])  # [rows, 5]
        return {
            "true helpfulness": true[:, ATTRIBUTES.index(HELPFULNESS)],
            "true goodness": true @ np.array(paper.head_weights("goodness", ATTRIBUTES)),
        }
    return {"people's preference": items.preferences_of(judged.test)}


class Held(NamedTuple):
    """What held-out scores are held against; a row is a response.

    Attributes:
        truths: [rows] each, less the mean of their prompt, -100 where missing; the first counts.
        prompts: of each row the number of its prompt.
        clusters: of each row its conversation, which is resampled as a whole.
    """

    truths: list[np.ndarray]
    prompts: np.ndarray
    clusters: np.ndarray


def _held(judged: Judgements, scores: Mapping[str, np.ndarray]) -> Held:
    """What the scores of a test part are held against; rows without a score have no truth."""
    sizes = [len(group.responses) for group in judged.test]
    prompts = np.repeat(np.arange(len(sizes)), sizes)
    clusters = np.repeat([items.cluster(group) for group in judged.test], sizes)
    truths = []
    for truth in truths_of(judged).values():
        centred = metrics.within_groups(truth, prompts)
        truths.append(np.where(np.isnan(centred) | unscored(scores), MISSING, centred))
    return Held(truths, prompts, clusters)


def measured(scores: Mapping[str, np.ndarray], judged: Judgements, setup: Setup) -> pd.DataFrame:
    """What each learner orders rightly: columns learner, measure, value, low, high.

    Paper: silent. "Pairs right" are the pairs whose truth differs, in percent; equal scores count
    half. "R within prompts" is Pearson's R of scores and truth, both less their prompt's mean.
    "Pairs right by goodness" are there where that is known. The intervals are 95 %, by
    conversation.

    Args:
        scores: of `score`.
        judged: whose test part was scored.
        setup: with the bootstrap's settings.
    """
    tables = {}
    held = _held(judged, scores)
    for name, values in scores.items():
        tables[name,] = _metrics(values, held, setup)
    return _stacked(tables, ["learner"], "value")


def compared(scores: Mapping[str, np.ndarray], judged: Judgements, setup: Setup) -> pd.DataFrame:
    """Differences between learners, both on the same resamples of the prompts.

    Columns: first, second, asks, measure, difference, low, high. Pairs of `COMPARED` of which one
    was not trained are left out. Paper: silent. Arguments as for `measured`.
    """
    tables = {}
    held = _held(judged, scores)
    for first, second, asks in COMPARED:
        if first in scores and second in scores:
            tables[first, second, asks] = _metrics(scores[first], held, setup, scores[second])
    return _stacked(tables, ["first", "second", "asks"], "difference")


def _metrics(
    values: np.ndarray, held: Held, setup: Setup, minus: np.ndarray | None = None
) -> pd.DataFrame:
    """The measures of one learner, or of its difference from another: measure, ours, low, high.

    Args:
        values: scores [rows].
        held: what they are held against.
        setup: with the bootstrap's settings.
        minus: scores [rows] of another learner.
    """
    rows = {}
    for number, truth in enumerate(held.truths):
        table = metrics.metric_table(
            metrics.within_groups(values, held.prompts)[:, None],
            truth[:, None],
            held.prompts,
            ["score"],
            minus=None if minus is None else metrics.within_groups(minus, held.prompts)[:, None],
            clusters=held.clusters,
            n_boot=setup.recipe.n_boot,
            seed=setup.recipe.seed,
        )
        table = table.set_index("metric").drop(columns="attribute")
        right = 100 * table.loc["pairwise accuracy"]
        if number:
            rows[GOOD] = right
        else:
            rows[RIGHT] = right
            rows[WITHIN] = table.loc["Pearson"]
    return pd.DataFrame(rows).T.rename_axis("measure")


def _stacked(tables: Mapping[tuple, pd.DataFrame], names: list[str], value: str) -> pd.DataFrame:
    """Tables of measures one below the other, their keys as the first columns."""
    if not tables:
        return pd.DataFrame(columns=[*names, "measure", value, "low", "high"])
    frame = pd.concat(tables, names=names).reset_index()
    frame.columns = [*names, "measure", value, "low", "high"]
    return frame


def differences(gains: pd.DataFrame) -> pd.DataFrame:
    """Gains as figures and tables take them: comparison, measure, difference, low, high, asks."""
    words = gains["first"].map(title_of) + " minus " + gains["second"].map(title_of)
    return gains.assign(comparison=words)[
        ["comparison", "measure", "difference", "low", "high", "asks"]
    ]


def without_0(gains: pd.DataFrame) -> str:
    """How many differences in pairs right have an interval without 0, in a line."""
    right = gains[gains.measure == RIGHT]
    number = int(((right.low > 0) | (right.high < 0)).sum())
    return f"{number} of {len(right)} differences have an interval without 0"


# Pairs to look at


def two_to_see(names: Iterable[str]) -> tuple[str, str] | None:
    """The regression on helpfulness and a loss of pairs, of those trained; else the first two."""
    names = [name for name in names if name in LEARNERS]
    if HELPFULNESS in names:
        for name in ("scaled", "plain", "margin"):
            if name in names:
                return HELPFULNESS, name
    return (names[0], names[1]) if len(names) > 1 else None


def pairs_to_see(
    scores: Mapping[str, np.ndarray], judged: Judgements, first: str, second: str
) -> list[tuple[str, Group, list[Answer]]]:
    """Two held-out pairs that two learners order differently: how it was chosen, group, answers.

    Of the pairs that only one of them orders rightly, the one whose truth differs most; the same
    for the other learner. Each answer has both scores. Paper: silent.
    """
    held = _held(judged, scores)
    truth = held.truths[0]  # [rows]
    judge = next(iter(truths_of(judged)))
    shown = []
    for right, wrong in ((first, second), (second, first)):
        candidates = []  # (difference of the truth, group number, rows)
        for number in range(len(judged.test)):
            rows = np.flatnonzero(held.prompts == number)
            if len(rows) != 2 or (truth[rows] == MISSING).any():
                continue
            gap = float(np.diff(truth[rows])[0])
            signs = [np.sign(np.diff(scores[name][rows])[0]) for name in (right, wrong)]
            if gap and signs[0] == np.sign(gap) and signs[1] == -np.sign(gap):
                candidates.append((abs(gap), number, rows))
        if not candidates:
            continue
        _, number, rows = max(candidates, key=lambda one: one[:2])
        group = judged.test[number]
        answers = []
        for row, response in zip(rows, group.responses, strict=True):
            both = [f"{title_of(name)} {scores[name][row]:.2f}" for name in (first, second)]
            answers.append(Answer(f"response {len(answers) + 1}", response.text, ", ".join(both)))
        how = (
            f"*{title_of(right)}* orders this pair rightly, *{title_of(wrong)}* wrongly. "
            f"Such pairs: {len(candidates)}. Of these the two answers differ most here, "
            f"by {judge}."
        )
        shown.append((how, group, answers))
    return shown


# The sequel's own table


def on_rewardbench(folders: Mapping[str, Path], setup: Setup) -> tuple[pd.DataFrame, Loaded]:
    """Accuracy of the learners on RewardBench's sections, as `Run.against_paper` takes it.

    Rows are those of the sequel's table whose learner was trained. The pairs are generated ones
    where the recipe's source is embedded, and those are not RewardBench. Paper: section 3 for the
    arithmetic.

    Args:
        folders: of the learners.
        setup: of the run.

    Returns:
        Columns row, column, ours, low, high, not comparable; and the pairs as a source of data.
    """
    recipe = setup.recipe
    asked = recipes.RewardBench(
        source=recipe.source,
        n_per_section=recipe.n_per_section,
        seed=recipe.seed,
        n_boot=recipe.n_boot,
        budget=recipe.budget,
        autocast=recipe.autocast,
        too_long=recipe.too_long,
    )
    own = replace(setup, recipe=asked)
    benchmark = rewardbench.load_benchmark(own)
    tables = []
    for name, row in SEQUEL_ROWS.items():
        if name not in folders:
            continue
        model = load_reward_model(folders[name]).to(device()).eval()
        scored = rewardbench.score_pairs(benchmark, model, own)
        result = rewardbench.evaluate_scored(scored, weights_of(name, model), own)["model"]
        table = result.table[result.table.name.isin(paper.BEYOND["sequel"].columns)]
        tables.append(table.rename(columns={"name": "column", "accuracy": "ours"}).assign(row=row))
    wanted = ["row", "column", "ours", "low", "high"]
    frame = pd.concat(tables, ignore_index=True)[wanted] if tables else pd.DataFrame(columns=wanted)
    frame["not comparable"] = "" if recipe.model_name == SEQUEL_BASE else "other model"
    return frame, rewardbench.as_source(benchmark)


def of_sequel(setup: Setup) -> bool:
    """Whether the data are those that the sequel trained on."""
    recipe = setup.recipe
    sets = (recipe.dataset, recipe.preferences, recipe.split)
    return sets == ("helpsteer2", "helpsteer2-preference", "train") and not recipe.path


def sequel_overall(judged_table: pd.DataFrame) -> pd.DataFrame:
    """The overall column of `Run.against_paper("sequel", ..)`: theirs beside ours, a row a learner.

    Columns: theirs, %; ours, % (with its interval); verdict; read from.
    """
    rows = []
    for cell in judged_table[judged_table.column == "overall"].to_dict("records"):
        ours = ""
        if not np.isnan(cell["ours"]):
            ours = f"{cell['ours']:.1f} [{cell['95 % low']:.1f}, {cell['95 % high']:.1f}]"
        row = {"row": cell["row"], "theirs, %": f"{cell['theirs']:.1f}", "ours, %": ours}
        rows.append(row | {"verdict": cell["verdict"], "read from": cell["read from"]})
    return pd.DataFrame(rows).set_index("row")


# In words


def message(table: pd.DataFrame) -> str:
    """The highest learner and the rule of length in two lines, as a figure's title.

    The highest one is chosen after the fact, so the title says of how many. table: of `measured`.
    """
    right = table[table.measure == RIGHT].set_index("learner")
    learners = right.drop(LONGER, errors="ignore")
    best = learners.value.idxmax()
    reached = _share(right.loc[best])
    text = f'Highest of {len(learners)}: "{title_of(best)}" has {reached} of pairs in order'
    if LONGER not in right.index:
        return text
    return f"{text};\nthe longer answer {_share(right.loc[LONGER])}"


def _share(row: pd.Series) -> str:
    """A share of pairs with its interval."""
    return f"{row.value:.0f} % ({row.low:.0f} to {row.high:.0f})"
