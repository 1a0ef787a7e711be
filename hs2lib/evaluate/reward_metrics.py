"""What a trained reward model is worth: its metrics beside baselines, what training adds, what more
raters would add.

    evaluated = reward_metrics.evaluate(model, data, prepared, inputs, baselines, setup)
    gains = reward_metrics.gains(evaluated, setup)
    verdict = reward_metrics.verdict(evaluated, gains, result, setup)

Measured on the test part of `hs2lib.models.reward_training`: against people's ratings, and where
the small world knows it against the truth, the mean that endlessly many raters would give. Paper:
silent (it reports RewardBench only).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from hs2lib.corpus import generate, grade
from hs2lib.group import ATTRIBUTES
from hs2lib.models import baselines
from hs2lib.models.reward_model import RewardModel
from hs2lib.models.reward_training import BaselineInputs, Parts, Prepared
from hs2lib.run.setup import Setup
from hs2lib.stats import metrics
from hs2lib.train.trainer import TrainingResult

TRAINED = "trained"  # the model itself, among baselines
TRUTH, RATINGS = "truth", "ratings"  # what predictions are held against

SHOWN = metrics.METRICS[
    1:
]  # Pearson's R and pairwise accuracy: the squared error says little of a ranking

LEARNING_GROUPS = (50, 100, 200, 400, 800)  # sizes of the learning curve, and all groups at its end
LEARNING_RATERS = (1, 3, 5)
LEARNING_DRAWS = 5  # of groups, at each size but the last


@dataclass(frozen=True)
class Evaluated:
    """Predictions and labels of the test part, and the metrics of each model.

    attributes: the outputs. labels: float [rows, A] by side, "truth" first where it is known, then
    "ratings". predicted: float [rows, A] by model, baselines first, "trained" last. prompts,
    clusters: of each row the number of its prompt, and its conversation, which is resampled as a
    whole. metrics: columns against, model, attribute, metric, value, 95 % low, 95 % high.
    """

    attributes: tuple[str, ...]
    labels: dict[str, np.ndarray]
    predicted: dict[str, np.ndarray]
    prompts: np.ndarray
    clusters: np.ndarray
    metrics: pd.DataFrame

    @property
    def side(self) -> str:
        """What counts: the truth where it is known, else the ratings."""
        return next(iter(self.labels))

    @property
    def responses(self) -> int:
        """Responses that were measured on."""
        return len(self.prompts)

    @property
    def groups(self) -> int:
        """Groups that were measured on."""
        return len(np.unique(self.prompts))

    def wide(self) -> pd.DataFrame:
        """The metrics with a column for each side and model, without the squared error."""
        values = self.metrics.pivot(
            index=["metric", "attribute"], columns=["against", "model"], values="value"
        )
        columns = [(side, name) for side in self.labels for name in self.predicted]
        return values[columns].loc[list(SHOWN)]


def labels_of(
    attributes: Sequence[str], data: Parts, prepared: Prepared, setup: Setup
) -> dict[str, np.ndarray]:
    """What predictions for the test part are held against: [rows, A] by side, the truth first where it is known."""
    test = prepared.items["test"]
    ratings, _ = baselines.targets(test)
    if not data.loaded.generated or setup.recipe.objective != "regression":
        return {RATINGS: ratings}
    group_of = {group.id: group for group in data.groups["test"]}
    columns = [ATTRIBUTES.index(name) for name in attributes]
    truth = np.concatenate([grade.true_attributes(group_of[item.id]) for item in test])  # [rows, 5]
    return {TRUTH: truth[:, columns], RATINGS: ratings}


def evaluate(
    model: RewardModel,
    data: Parts,
    prepared: Prepared,
    inputs: BaselineInputs,
    predicted: Mapping[str, np.ndarray],
    setup: Setup,
) -> Evaluated:
    """Metrics of the trained model and of baselines on the test part, each with a 95 % interval by
    conversation.

    Paper: silent. predicted: of baselines (`reward_training.fit_baselines`). The model's own scores
    are kept in the run folder. Several processes share these out, and all call this alike.
    """
    recipe = setup.recipe
    test = prepared.items["test"]
    trained = model.rows(test, "scores", autocast=recipe.autocast, cache=setup.folder).numpy()
    predicted = {**predicted, TRAINED: trained}
    labels = labels_of(model.attributes, data, prepared, setup)
    _, prompts = baselines.targets(test)
    clusters = inputs.clusters["test"]
    tables = {}
    for side, expected in labels.items():
        for name, outputs in predicted.items():
            tables[side, name] = metrics.metric_table(
                outputs,
                expected,
                prompts,
                model.attributes,
                clusters=clusters,
                n_boot=recipe.n_boot,
                seed=recipe.seed,
            )
    measured = _stacked(tables, ["against", "model"], "value")
    return Evaluated(model.attributes, labels, predicted, prompts, clusters, measured)


def gains(evaluated: Evaluated, setup: Setup) -> pd.DataFrame:
    """What training adds to each baseline but the mean, on the same resamples.

    Columns against, over, attribute, metric, gain, 95 % low, 95 % high. Two intervals of two models
    overlap more than they should, because both models rise and fall with the prompts that were
    drawn; that of the difference does not.
    """
    recipe = setup.recipe
    trained = evaluated.predicted[TRAINED]
    tables = {}
    for side, expected in evaluated.labels.items():
        for name, outputs in evaluated.predicted.items():
            if name in ("mean", TRAINED):
                continue
            tables[side, name] = metrics.metric_table(
                trained,
                expected,
                evaluated.prompts,
                evaluated.attributes,
                minus=outputs,
                clusters=evaluated.clusters,
                n_boot=recipe.n_boot,
                seed=recipe.seed,
            )
    return _stacked(tables, ["against", "over"], "gain")


def _stacked(
    tables: dict[tuple[str, str], pd.DataFrame], names: list[str], value: str
) -> pd.DataFrame:
    """Tables of metrics one below the other, their keys as the first two columns."""
    frame = pd.concat(tables, names=names).reset_index(level=[0, 1])
    frame.columns = [*names, "attribute", "metric", value, "95 % low", "95 % high"]
    return frame.reset_index(drop=True)


# How many groups, how many raters


def rated_anew(item_ids: Sequence[str], attributes: Sequence[str], seed: int) -> np.ndarray:
    """Ratings of generated groups by five raters each, float [rows, 5, A]; the same at every call."""
    numbers = np.array([int(name.rpartition("/")[2]) for name in item_ids])
    ratings, _ = generate.rate(seed, numbers, generate.draw(seed, numbers).latent)  # [rows, 5, 5]
    return ratings[:, :, [ATTRIBUTES.index(name) for name in attributes]]


def learning_curve(evaluated: Evaluated, inputs: BaselineInputs, setup: Setup) -> pd.DataFrame:
    """What ridge on the frozen states learns of the first attribute from more groups, and from more
    raters of each.

    Paper: silent. Rows (groups, raters, draw, R, ratings): Pearson's R of the predictions with the
    truth of the test part, fitted to a draw of training groups whose two responses are rated anew
    by so many raters. Empty where the truth is not known or no states are there. Ridge, because a
    fit takes a second; a trained model needs more.
    """
    columns = ["groups", "raters", "draw", "R", "ratings"]
    if TRUTH not in evaluated.labels or not inputs.states:
        return pd.DataFrame(columns=columns)
    seed = setup.recipe.seed
    ratings = rated_anew([item.id for item in inputs.items["train"]], evaluated.attributes, seed)
    truth = evaluated.labels[TRUTH][:, 0]
    groups = len(ratings) // 2
    generator = np.random.default_rng(seed)
    curve = []
    for size in [*(size for size in LEARNING_GROUPS if size < groups), groups]:
        for draw in range(LEARNING_DRAWS if size < groups else 1):
            drawn = np.sort(generator.permutation(groups)[:size])
            rows = np.column_stack([2 * drawn, 2 * drawn + 1]).ravel()
            states = inputs.states["train"][rows]
            for raters in LEARNING_RATERS:
                labels = ratings[rows, :raters, 0].mean(axis=1, keepdims=True)  # [rows, 1]
                W, b = baselines.ridge(
                    states, labels, baselines.best_alpha(states, labels, rows // 2, seed=seed)
                )
                predicted = (inputs.states["test"] @ W + b)[:, 0]
                R = np.corrcoef(predicted, truth)[0, 1]
                curve.append((size, raters, draw, R, 2 * size * raters))
    return pd.DataFrame(curve, columns=columns)


# In words


def first_attribute_gains(evaluated: Evaluated, gains: pd.DataFrame) -> pd.DataFrame:
    """The gains that the verdict is about: of the first attribute, on the side that counts, in the metrics shown."""
    first = evaluated.attributes[0]
    return gains[
        (gains.against == evaluated.side) & (gains.attribute == first) & gains.metric.isin(SHOWN)
    ]


def verdict(evaluated: Evaluated, gains: pd.DataFrame, result: TrainingResult, setup: Setup) -> str:
    """A sentence on whether the model beats the response's length at the first attribute; it is
    kept beside the model.

    "NO better" and "untrained" in it make a warning of every caption of its scores
    (`RewardModel.warning`). A loss of pairs leaves the offset of each prompt free, so that only the
    order within prompts tells.
    """
    about = first_attribute_gains(evaluated, gains)
    telling = SHOWN if setup.recipe.objective == "regression" else SHOWN[1:]
    over_length = about[(about.over == "log-length") & about.metric.isin(telling)]
    better = over_length["95 % low"] > 0  # False too where there is no interval
    not_better = over_length.metric[~better].tolist()
    trained = (
        "untrained (its best step is 0)"
        if result.best_step == 0
        else f"best at step {result.best_step}"
    )
    worth = "beyond chance NO better than" if not_better else "better than"
    test = f"{evaluated.side}, {evaluated.groups:,} held-out prompts"
    reason = f"; by {', '.join(not_better)}" if not_better else ""
    telling_what = f"the response's length at telling {evaluated.attributes[0]}"
    return f"This reward model, {trained}, is {worth} {telling_what} ({test}{reason})."


def in_words(evaluated: Evaluated, gains: pd.DataFrame) -> list[str]:
    """Sentences on the trained model: its metrics by attribute, and what it adds to baselines at the first one."""
    pearson, accuracy = SHOWN
    sentences = [
        f"Pearson's R of the trained model with the {evaluated.side}: {_values(evaluated, pearson)}.",
        f"Pairs of one prompt ordered rightly: {_values(evaluated, accuracy)}.",
    ]
    for metric, rows in first_attribute_gains(evaluated, gains).groupby("metric"):
        adds = ", ".join(_gain(row) for _, row in rows.iterrows())
        sentences.append(f"{metric} of {evaluated.attributes[0]}: {adds}.")
    return sentences


def _values(evaluated: Evaluated, metric: str) -> str:
    """One metric of the trained model by attribute, with its interval."""
    frame = evaluated.metrics
    own = frame[
        (frame.against == evaluated.side) & (frame.model == TRAINED) & (frame.metric == metric)
    ]
    cells = own[["attribute", "value", "95 % low", "95 % high"]].itertuples(index=False)
    return "; ".join(
        f"{name} {value:.2f} ({low:.2f} to {high:.2f})" for name, value, low, high in cells
    )


def _gain(row: pd.Series) -> str:
    """What the trained model adds to one baseline, in words."""
    if row["95 % low"] > 0:
        way = "more"
    elif row["95 % high"] < 0:
        way = "LESS"
    else:
        way = "not clearly more or less"
    return (
        f"{way} than {row.over} ({row.gain:+.2f}, {row['95 % low']:.2f} to {row['95 % high']:.2f})"
    )
