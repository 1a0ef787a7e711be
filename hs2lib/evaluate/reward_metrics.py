"""What a trained reward model is worth beside baselines, and what more raters would add.

    evaluated = reward_metrics.evaluate(model, data, prepared, inputs, baselines, setup)
    gains = reward_metrics.gains(evaluated, setup)
    verdict = reward_metrics.verdict(evaluated, gains, result, setup)

It is measured on the test part of `hs2lib.models.reward_training`, against people's ratings. Where
the small world knows it, the truth stands beside these: the mean that endlessly many raters would
give.

Paper: silent (it reports RewardBench only).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from hs2lib.corpus import generate, grade
from hs2lib.evaluate.learners import over_seeds
from hs2lib.group import ATTRIBUTES, Group
from hs2lib.models import baselines
from hs2lib.models.reward_model import RewardModel
from hs2lib.models.reward_training import BaselineInputs, Parts, Prepared
from hs2lib.paper import GOODNESS, head_weights
from hs2lib.report.answers import Answer
from hs2lib.report.report import CompletedRun
from hs2lib.runs.setup import Setup
from hs2lib.stats import metrics
from hs2lib.train.trainer import TrainingResult

TRAINED = "trained"  # the model itself, among baselines
RIDGE = "ridge on frozen states"  # the baseline that comes nearest to it

# What predictions are held against.
TRUTH = "truth"
RATINGS = "ratings"

# Pearson's R and pairwise accuracy: the squared error says little of a ranking.
SHOWN = metrics.METRICS[1:]

LEARNING_GROUPS = (50, 100, 200, 400, 800)  # sizes of the learning curve, and all groups at its end
LEARNING_RATERS = (1, 3, 5)
LEARNING_DRAWS = 5  # of groups, at each size but the last

RATERS_OF_LABEL = 3  # whose mean a generated label is


@dataclass(frozen=True)
class Evaluated:
    """Predictions and labels of the test part, and the metrics of each model.

    A row is a response.

    attributes: names of the outputs.
    labels: float [rows, A] by side, "truth" first where it is known, then "ratings".
    predicted: float [rows, A] by model, baselines first, "trained" last.
    prompts: of each row the number of its prompt.
    clusters: of each row its conversation, which is resampled as a whole.
    metrics: columns against, model, attribute, metric, value, 95 % low, 95 % high.
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

    def rows(self, side: str, metric: str) -> pd.DataFrame:
        """The metrics of all models against one side, by one metric."""
        table = self.metrics
        return table[(table.against == side) & (table.metric == metric)]

    def wide(self) -> pd.DataFrame:
        """The metrics with a column for each side and model, without the squared error."""
        values = self.metrics.pivot(
            index=["metric", "attribute"], columns=["against", "model"], values="value"
        )
        columns = [(side, name) for side in self.labels for name in self.predicted]
        return values[columns].loc[list(SHOWN)]


def by_model(evaluated: Evaluated, side: str, metric: str) -> pd.DataFrame:
    """One metric against one side: models down, attributes across, "value [low, high]"."""
    rows = evaluated.rows(side, metric)
    return _wide(rows, "model", "value", list(evaluated.predicted), evaluated.attributes)


def gains_by_attribute(evaluated: Evaluated, gains: pd.DataFrame) -> pd.DataFrame:
    """What training adds, on the side that counts: baseline and metric down, attributes across."""
    rows = gains[(gains.against == evaluated.side) & gains.metric.isin(SHOWN)]
    rows = rows.assign(more=rows.metric + ", more than " + rows.over)
    order = list(dict.fromkeys(rows.sort_values("metric", kind="stable").more))
    return _wide(rows, "more", "gain", order, evaluated.attributes)


def _wide(
    rows: pd.DataFrame, down: str, value: str, order: Sequence[str], across: Sequence[str]
) -> pd.DataFrame:
    """Numbers with their intervals as text: one column's names down, attributes across."""
    wide = rows.assign(cell=_cells(rows, value))
    wide = wide.pivot(index=down, columns="attribute", values="cell")
    return wide.loc[list(order), list(across)].rename_axis(columns=None)


def _cells(rows: pd.DataFrame, value: str, digits: str = ".2f") -> pd.Series:
    """Numbers of a column with their intervals as text, "value [low, high]"."""
    cells = []
    for number, low, high in rows[[value, "95 % low", "95 % high"]].itertuples(index=False):
        if np.isnan(number):
            cells.append("-")
        elif np.isnan(low):
            cells.append(f"{number:{digits}}")
        else:
            cells.append(f"{number:{digits}} [{low:{digits}}, {high:{digits}}]")
    return pd.Series(cells, index=rows.index, dtype=object)


def for_card(evaluated: Evaluated) -> pd.DataFrame:
    """What the trained model reaches on the test part, for its model card, with 95 % intervals."""
    rows = evaluated.metrics
    rows = rows[(rows.model == TRAINED) & (rows.against == evaluated.side)]
    return rows[["attribute", "metric", "value", "95 % low", "95 % high"]].reset_index(drop=True)


def pairs_right(metrics: pd.DataFrame) -> float:
    """Percent of held-out pairs that the trained model orders as the raters do, first attribute.

    metrics: of `Evaluated`, or as a run left it in metrics.csv.
    """
    is_trained = (metrics.against == RATINGS) & (metrics.model == TRAINED)
    rows = metrics[is_trained & (metrics.metric == SHOWN[1])]
    return 100.0 * float(rows.value.iloc[0])


def numbers(evaluated: Evaluated, result: TrainingResult) -> dict[str, float]:
    """The main numbers of a run, as its `results.json` has them.

    They are the best validation loss, the share of held-out pairs that the model orders as the
    ratings do, of the first attribute, and Pearson's R of each attribute with the ratings.
    """
    numbers = {
        "validation loss": result.best_loss,
        "pairs right (%)": pairs_right(evaluated.metrics),
    }
    metrics = evaluated.metrics
    is_trained = (metrics.against == RATINGS) & (metrics.model == TRAINED)
    for row in metrics[is_trained & (metrics.metric == SHOWN[0])].itertuples():
        numbers[f"R, {row.attribute}"] = row.value
    return {name: float(value) for name, value in numbers.items() if value == value}


def pairs_right_of(run: CompletedRun) -> float:
    """`pairs_right` of a complete run of notebook 05."""
    return pairs_right(run.table("metrics.csv"))


def labels_of(
    attributes: Sequence[str], data: Parts, prepared: Prepared, setup: Setup
) -> dict[str, np.ndarray]:
    """What predictions for the test part are held against: [rows, A] by side.

    The truth stands first where it is known.

    attributes: names of the outputs.
    data, prepared: the groups and the items of the parts.
    setup: of the run.
    """
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
    """Metrics of the trained model and of baselines on the test part.

    Paper: silent. Each has a 95 % interval by conversation. The model's own scores are kept in the
    run folder. Several processes share these out, and all of them call this alike.

    model: after training.
    data, prepared: the groups and the items of the parts.
    inputs: of the baselines; its clusters are resampled.
    predicted: of baselines (`hs2lib.models.reward_training.fit_baselines`).
    setup: of the run.
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

    Columns: against, over, attribute, metric, gain, 95 % low, 95 % high. Two intervals of two
    models overlap more than they should, because both models rise and fall with the prompts that
    were drawn. The interval of the difference does not.
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
    """Tables of metrics one below the other, their keys as the first two columns.

    names: of these two columns.
    value: what the column of values is called.
    """
    frame = pd.concat(tables, names=names).reset_index(level=[0, 1])
    frame.columns = [*names, "attribute", "metric", value, "95 % low", "95 % high"]
    return frame.reset_index(drop=True)


# The truth and the ratings


def reference(evaluated: Evaluated, setup: Setup) -> pd.DataFrame:
    """R and pairwise accuracy of the truth with the ratings, by attribute: what a model has beside.

    Paper: silent. It is no upper bound. Against the ratings it is what the truth itself reaches; a
    model may pass it where raters share a taste that the truth lacks. Against the truth it is what
    the raters' label reaches; a model that learnt from many ratings may pass that. R is the same
    both ways. Pairs are not: those are left out that are equal in what is held against.

    Columns: against, attribute, metric, value, 95 % low, 95 % high (by conversation). Empty where
    the truth is not known.
    """
    columns = ["against", "attribute", "metric", "value", "95 % low", "95 % high"]
    if TRUTH not in evaluated.labels:
        return pd.DataFrame(columns=columns)
    sides = {TRUTH: RATINGS, RATINGS: TRUTH}
    tables = []
    for side, other in sides.items():
        table = metrics.metric_table(
            evaluated.labels[other],
            evaluated.labels[side],
            evaluated.prompts,
            evaluated.attributes,
            clusters=evaluated.clusters,
            n_boot=setup.recipe.n_boot,
            seed=setup.recipe.seed,
        )
        table.columns = ["attribute", "metric", "value", "95 % low", "95 % high"]
        tables.append(table.assign(against=side)[columns])
    frame = pd.concat(tables, ignore_index=True)
    return frame[frame.metric.isin(SHOWN)].reset_index(drop=True)


def over_label(evaluated: Evaluated, setup: Setup) -> pd.DataFrame:
    """R of the trained model with the truth, minus that of the raters' label, by attribute.

    Paper: silent. Both are of the same responses and rise and fall together, so the difference is
    taken on the same resamples of the conversations.

    Columns: attribute, gain, 95 % low, 95 % high. Empty where the truth is not known.
    """
    columns = ["attribute", "gain", "95 % low", "95 % high"]
    if TRUTH not in evaluated.labels:
        return pd.DataFrame(columns=columns)
    table = metrics.metric_table(
        evaluated.predicted[TRAINED],
        evaluated.labels[TRUTH],
        evaluated.prompts,
        evaluated.attributes,
        minus=evaluated.labels[RATINGS],
        clusters=evaluated.clusters,
        n_boot=setup.recipe.n_boot,
        seed=setup.recipe.seed,
    )
    table = table[table.metric == SHOWN[0]].drop(columns="metric")
    return table.set_axis(columns, axis=1).reset_index(drop=True)


def reference_by_attribute(of_both: pd.DataFrame, above: pd.DataFrame) -> pd.DataFrame:
    """`reference` and `over_label` with a row per attribute, "value [low, high]".

    The columns are R, the pairs in order each way, and the model's R minus the label's.
    """
    pearson, accuracy = SHOWN
    columns = {
        "R of truth and ratings": (pearson, RATINGS),
        "pairs that differ in truth: same order in ratings": (accuracy, TRUTH),
        "pairs that differ in ratings: same order in truth": (accuracy, RATINGS),
    }
    shown = {}
    for title, (metric, side) in columns.items():
        rows = of_both[(of_both.metric == metric) & (of_both.against == side)]
        shown[title] = _cells(rows.set_index("attribute"), "value")
    title = "R with the truth: model minus ratings"
    shown[title] = _cells(above.set_index("attribute"), "gain", "+.2f")
    return pd.DataFrame(shown).loc[of_both.attribute.unique()]


def beside(of_both: pd.DataFrame, side: str, metric: str) -> pd.Series:
    """`reference`, or the noise ceiling of own rows, by attribute, with its name in a figure."""
    rows = of_both[(of_both.against == side) & (of_both.metric == metric)]
    name = "the raters' label" if side == TRUTH else "noise ceiling"
    return rows.set_index("attribute").value.rename(name)


def ordered_pairs(evaluated: Evaluated, side: str) -> pd.Series:
    """How many pairs of one prompt differ in each attribute; the others are in no accuracy."""
    counts = {}
    for number, name in enumerate(evaluated.attributes):
        labels = evaluated.labels[side][:, number]
        pairs = metrics.contributions(labels, labels, evaluated.prompts)[:, 7]
        counts[name] = int(pairs.sum())
    return pd.Series(counts, name="pairs")


def pairs_by_model(evaluated: Evaluated, side: str) -> pd.DataFrame:
    """`by_model` of the pairs ordered rightly, with the number of pairs above the models."""
    table = by_model(evaluated, side, SHOWN[1])
    pairs = ordered_pairs(evaluated, side).map("{:,}".format)
    return pd.concat([pairs.to_frame("pairs that differ").T, table]).rename_axis("model")


# Pairs to look at


def pairs_to_see(
    evaluated: Evaluated, data: Parts, prepared: Prepared
) -> list[tuple[str, Group, list[Answer]]]:
    """Two pairs of the test part: how it was chosen, the group, its responses with their scores.

    One is the pair that is ordered wrongly although its truth differs most; the other is ordered
    rightly, and its difference of the truth is the median. Paper: silent.

    Scores are those of `score_in_words`. Where the truth is not known the ratings stand in its
    place.
    """
    group_of = {group.id: group for group in data.groups["test"]}
    scores = _weighted(evaluated.predicted[TRAINED], evaluated.attributes)  # [rows]
    labels = _weighted(evaluated.labels[evaluated.side], evaluated.attributes)  # [rows]
    pairs = []
    start = 0
    for item in prepared.items["test"]:
        group = group_of[item.id]
        rows = slice(start, start + len(group.responses))
        start = rows.stop
        if len(group.responses) == 2 and labels[rows][0] != labels[rows][1]:
            pairs.append((group, scores[rows], float(np.diff(labels[rows])[0])))
    is_right = [np.sign(np.diff(score)[0]) == np.sign(gap) for _, score, gap in pairs]
    wrong = [pair for pair, right in zip(pairs, is_right, strict=True) if not right]
    known = [pair for pair, right in zip(pairs, is_right, strict=True) if right]
    side = evaluated.side
    whole = f"Of {len(pairs):,} pairs that differ in the {side} the score orders"
    chosen = []
    if wrong:
        how = (
            f"{whole} {len(wrong):,} wrongly. "
            f"Here: the largest difference of the {side} among these."
        )
        chosen.append((how, max(wrong, key=lambda pair: abs(pair[2]))))
    if known:
        known.sort(key=lambda pair: abs(pair[2]))
        how = (
            f"{whole} {len(known):,} rightly. "
            f"Here: the median difference of the {side} among these."
        )
        chosen.append((how, known[len(known) // 2]))
    shown = []
    for how, (group, score, _) in chosen:
        answers = []
        for k, response in enumerate(group.responses):
            answers.append(Answer(f"response {k + 1}", response.text, score=float(score[k])))
        shown.append((how, group, answers))
    return shown


def score_in_words(evaluated: Evaluated) -> str:
    """What the one score of a response is made of, and what it is held against, in sentences.

    Paper: section 4.3 for the weights. It is the weighted sum of predictions where the model has
    these outputs, else its first output.
    """
    if not set(GOODNESS) <= set(evaluated.attributes):
        name = evaluated.attributes[0]
        return f"The score is the predicted {name}. It is held against the {evaluated.side}."
    weights = " + ".join(f"{weight:g} {name}" for name, weight in GOODNESS.items())
    text = f"The score weighs predictions as the paper does (section 4.3): {weights}."
    if evaluated.side == TRUTH:
        return f"{text} The truth is the same sum of the true attributes."
    return f"{text} It is held against the same sum of the ratings."


def _weighted(values: np.ndarray, attributes: Sequence[str]) -> np.ndarray:
    """Goodness of outputs or labels [rows, A], or their first column where there is none."""
    if set(GOODNESS) <= set(attributes):
        return values @ np.array(head_weights("goodness", attributes))
    return values[:, 0]


# How many groups, how many raters


def rated_anew(item_ids: Sequence[str], attributes: Sequence[str], seed: int) -> np.ndarray:
    """Ratings of generated groups by five raters each, float [rows, 5, A].

    They are the same at every call.

    item_ids: of the groups.
    attributes: those that are returned, in this order.
    seed: of the small world.
    """
    group_numbers = np.array([int(item_id.rpartition("/")[2]) for item_id in item_ids])
    seen = generate.draw(seed, group_numbers).seen
    ratings, _ = generate.rate(seed, group_numbers, seen)  # [rows, 5, 5]
    return ratings[:, :, [ATTRIBUTES.index(name) for name in attributes]]


def learning_curve(evaluated: Evaluated, inputs: BaselineInputs, setup: Setup) -> pd.DataFrame:
    """What ridge on frozen states learns of the first attribute from more groups and more raters.

    Paper: silent. Ridge is fitted to a draw of training groups whose two responses are rated anew
    by so many raters. It stands for a trained model because a fit takes a second; a trained model
    needs more.

    evaluated: with the truth of the test part.
    inputs: of the baselines, with the states.
    setup: of the run.

    Returns rows (groups, raters, draw, R, ratings): R is Pearson's, of the predictions with the
    truth of the test part. Empty where the truth is not known or no states are there.
    """
    columns = ["groups", "raters", "draw", "R", "ratings"]
    if TRUTH not in evaluated.labels or not inputs.states:
        return pd.DataFrame(columns=columns)
    seed = setup.recipe.seed
    ratings = rated_anew([item.id for item in inputs.items["train"]], evaluated.attributes, seed)
    truth = evaluated.labels[TRUTH][:, 0]
    n_groups = len(ratings) // 2
    sizes = [size for size in LEARNING_GROUPS if size < n_groups]
    generator = np.random.default_rng(seed)
    curve = []
    for size in [*sizes, n_groups]:
        n_draws = LEARNING_DRAWS if size < n_groups else 1
        for draw in range(n_draws):
            drawn = np.sort(generator.permutation(n_groups)[:size])  # [groups]
            rows = np.column_stack([2 * drawn, 2 * drawn + 1]).ravel()  # of both responses
            states = inputs.states["train"][rows]
            for n_raters in LEARNING_RATERS:
                labels = ratings[rows, :n_raters, 0].mean(axis=1, keepdims=True)  # [rows, 1]
                alpha = baselines.best_alpha(states, labels, rows // 2, seed=seed)
                W, b = baselines.ridge(states, labels, alpha)
                predicted = (inputs.states["test"] @ W + b)[:, 0]  # [test rows]
                R = np.corrcoef(predicted, truth)[0, 1]
                curve.append((size, n_raters, draw, R, 2 * size * n_raters))
    return pd.DataFrame(curve, columns=columns)


# In words


def message(evaluated: Evaluated, metric: str = SHOWN[0]) -> str:
    """One metric of the first attribute by model, in a few words, for a title."""
    name = evaluated.attributes[0]
    rows = evaluated.rows(evaluated.side, metric)
    rows = rows[(rows.attribute == name) & rows.value.notna()].iloc[::-1]
    parts = [f"{model} {value:.2f}" for model, value in zip(rows.model, rows.value, strict=True)]
    words = "R of" if metric == SHOWN[0] else "Pairs in order of"
    return f"{words} {name}, by the {evaluated.side}: {', '.join(parts)}"


def in_short(evaluated: Evaluated) -> str:
    """How well the trained model follows what counts, in a sentence: the first attribute, all."""
    table = evaluated.metrics
    trained = table[(table.against == evaluated.side) & (table.model == TRAINED)]
    pearson = trained[trained.metric == SHOWN[0]].value
    right = trained[trained.metric == SHOWN[1]].value
    name = evaluated.attributes[0]
    others = ""
    if len(pearson) == 2:
        others = f" ({evaluated.attributes[1]} {pearson.iloc[1]:.2f})"
    elif len(pearson) > 2:
        others = f" (other attributes {pearson.iloc[1:].min():.2f} to {pearson.iloc[1:].max():.2f})"
    n_pairs = ordered_pairs(evaluated, evaluated.side).iloc[0]
    return (
        f"R with the {evaluated.side} is {pearson.iloc[0]:.2f} for {name}{others}. Of {n_pairs:,} "
        f"pairs of one prompt that differ in {name}, {right.iloc[0]:.0%} are ordered rightly; "
        "chance is 50 %."
    )


def noise_in_short(evaluated: Evaluated, of_both: pd.DataFrame) -> str:
    """What the truth has with the ratings of the first attribute, and the model; "" without it.

    of_both: of `reference`, or the noise ceiling of `own_rows.ceiling`.
    """
    if of_both.empty:
        return ""
    of_ratings = of_both[(of_both.against == RATINGS) & (of_both.metric == SHOWN[0])]
    rows = evaluated.rows(RATINGS, SHOWN[0])
    reached = rows[rows.model == TRAINED].value.iloc[0]
    known = "" if TRUTH in evaluated.labels else ", by their agreement,"
    top = of_ratings.value.iloc[0]
    least_top = of_ratings.iloc[0].get("95 % low", top)
    sentence = (
        f"Raters err: the truth itself has{known} R {top:.2f} with their ratings "
        f"of {evaluated.attributes[0]}. The model has {reached:.2f}."
    )
    if reached >= top:
        return sentence
    if rows[rows.model == TRAINED]["95 % high"].iloc[0] < least_top:
        sentence += " So errors in the ratings of the test part do not explain the gap."
    else:
        sentence += " That this gap is more than chance is not shown."
    return (
        f"{sentence} Errors in the ratings to learn from, their number, the length of training and "
        "the size of the model are not told apart here."
    )


def peaks_in_words(validations: pd.DataFrame, best_step: int) -> list[str]:
    """At which step the loss was lowest, and at which R of each attribute was highest.

    Beside the lowest loss stands the next one, and how far the loss moves between neighbouring
    checkpoints. Where it goes up and down by more than the two differ, the lowest is partly luck.

    validations: of `hs2lib.train.progress.curves`.
    """
    prefix = f"{SHOWN[0]} "
    peaks = []
    for column in validations.columns[validations.columns.str.startswith(prefix)]:
        if validations[column].notna().any():
            step = int(validations.step[validations[column].idxmax()])
            peaks.append(f"{column.removeprefix(prefix)} at step {step}")
    words = [f"The validation loss is lowest at step {best_step}, which chooses the checkpoint."]
    if len(validations) > 1:
        lowest, next_lowest = validations.loss.nsmallest(2)
        words.append(f"Lowest and next lowest: {lowest:.4f} and {next_lowest:.4f}.")
        move = validations.loss.diff().abs().median()
        text = f"From one checkpoint to the next the loss moves by {move:.4f} in the median."
        step, height = _largest_bump(validations)
        if height > 0:
            text += f" At step {step} it is {height:.4f} above the nearer of its neighbours."
        if height > next_lowest - lowest:
            text += (
                " That is more than lies between the lowest two. So which step is lowest is "
                "partly luck."
            )
        words.append(text)
    if peaks:
        words.append(f"R is highest for {', '.join(peaks)}.")
    return words


def _largest_bump(validations: pd.DataFrame) -> tuple[int, float]:
    """The step whose loss stands out most above both neighbours, and by how much; 0 without one.

    A loss that falls, or that rises once the model overfits, has none. What is above the loss of
    the start is left out: there training diverged.
    """
    loss = validations.loss.to_numpy()
    heights = loss[1:-1] - np.maximum(loss[:-2], loss[2:])
    heights = np.where(loss[1:-1] < loss[0], heights, 0.0)
    if not len(heights) or heights.max() <= 0:
        return 0, 0.0
    highest = int(heights.argmax())
    return int(validations.step.iloc[highest + 1]), float(heights[highest])


def reference_in_words(
    evaluated: Evaluated, of_both: pd.DataFrame, above: pd.DataFrame
) -> list[str]:
    """The trained model beside the truth's R with the ratings; [] where the truth is not known.

    Against the ratings by attribute; then in which attributes the model's R with the truth lies
    above that of the raters' label, which the interval of the paired difference says.

    of_both: of `reference`. above: of `over_label`.
    """
    if of_both.empty:
        return []
    pearson = SHOWN[0]
    of_truth = beside(of_both, RATINGS, pearson)
    by_ratings = evaluated.rows(RATINGS, pearson)
    reached = by_ratings[by_ratings.model == TRAINED].set_index("attribute").value
    parts = [f"{name} {reached[name]:.2f} ({value:.2f})" for name, value in of_truth.items()]
    is_above = above["95 % low"] > 0
    is_below = above["95 % high"] < 0
    placed = {
        "is above the raters' label in": above.attribute[is_above],
        "is below it in": above.attribute[is_below],
        "is not shown to differ in": above.attribute[~(is_above | is_below)],
    }
    places = [f"{place} {', '.join(names)}" for place, names in placed.items() if len(names)]
    return [
        f"R of the model with the ratings, that of the truth in brackets: {'; '.join(parts)}.",
        f"R with the truth, by the paired difference: the model {'; '.join(places)}.",
    ]


def _one_rater_ahead(curve: pd.DataFrame) -> dict[int, np.ndarray]:
    """By number of raters: R of one rater minus theirs, at each of their numbers of ratings.

    One rater's R between two of its points is read off the line between them, over the logarithm
    of the ratings.
    """
    means = curve.groupby(["raters", "ratings"]).R.mean()
    one = means[1]
    ahead = {}
    for n_raters in sorted(set(curve.raters) - {1}):
        several = means[n_raters]
        several = several[(several.index >= one.index.min()) & (several.index <= one.index.max())]
        if len(several):
            of_one = np.interp(np.log(several.index), np.log(one.index), one)
            ahead[n_raters] = of_one - several.to_numpy()
    return ahead


def _ahead_by_draw(curve: pd.DataFrame) -> pd.DataFrame:
    """What one rater has more than several, in the mean over the points: draws down, raters across.

    A size with one draw alone, that of all groups, is in every draw's curve.
    """
    n_draws = curve.groupby("groups").draw.nunique()
    is_single = curve.groups.map(n_draws) == 1
    rows = {}
    for draw in sorted(curve.draw.unique()):
        ahead = _one_rater_ahead(curve[(curve.draw == draw) | is_single])
        rows[draw] = {n_raters: more.mean() for n_raters, more in ahead.items()}
    return pd.DataFrame(rows).T


def learning_draws(curve: pd.DataFrame) -> str:
    """What the points of a learning curve are means of, in words for a caption."""
    n_draws = curve.draw.nunique()
    if n_draws == 1:
        return "one draw of groups at each size"
    return f"means over {n_draws} draws of groups, each draw faint, and one draw of all groups"


def learning_message(curve: pd.DataFrame) -> str:
    """Whether more answers or more raters stand higher for the same ratings, for a title."""
    means = [more.mean() for more in _one_rater_ahead(curve).values()]
    n_draws = curve.draw.nunique()
    draws = "this draw" if n_draws == 1 else f"these {n_draws} draws"
    if not means:
        return "No two curves reach the same number of ratings"
    if min(means) > 0:
        return f"Ridge, same number of ratings: more answers stand higher in {draws}"
    if max(means) < 0:
        return f"Ridge, same number of ratings: more raters stand higher in {draws}"
    return f"Ridge, same number of ratings: neither stands higher throughout in {draws}"


def learning_in_words(curve: pd.DataFrame) -> list[str]:
    """What the learning curve says of one rater per response against several; [] for no curve.

    Compared are points of equally many ratings, with Student's interval over the draws of groups.
    The words say what that interval leaves out, and that the points are ridge's.
    """
    if curve.empty:
        return []
    by_draw = _ahead_by_draw(curve)
    texts = []
    for n_raters, more in _one_rater_ahead(curve).items():
        _, low, high = over_seeds(by_draw[n_raters])
        ends = "" if np.isnan(low) else f" ({low:+.3f} to {high:+.3f})"
        texts.append(
            f"Ridge, same number of ratings: R of answers rated once minus that of fewer answers "
            f"rated {n_raters} times is {more.mean():+.3f}{ends} in the mean. It is above 0 at "
            f"{int((more > 0).sum())} of {len(more)} points."
        )
    if not texts:
        return ["No two curves reach the same number of ratings, so nothing can be compared."]
    about = "R of one rater is read between its own points, on the logarithm of the ratings."
    n_draws = len(by_draw)
    if n_draws > 1:
        about += (
            f" Intervals are over {n_draws} draws of groups. The draws share groups and one test "
            "part, so these intervals are too narrow."
        )
    else:
        about += " One draw has no interval."
    return [*texts, f"{about} No point is of the trained model."]


def more_groups_in_words(curve: pd.DataFrame) -> str:
    """What the last doubling of the groups added to ridge; "" without two sizes.

    The curve is that of `RATERS_OF_LABEL` raters, as the model learns from their means.
    """
    means = curve[curve.raters == RATERS_OF_LABEL].groupby("groups").R.mean()
    if len(means) < 2:
        return ""
    fewer, all_groups = means.index[-2:]
    is_more = means[all_groups] > means[fewer]
    words = "Perhaps more rated answers" if is_more else "That more rated answers help is not shown"
    return (
        f"{words}: from {fewer:,} to {all_groups:,} groups R of ridge went from "
        f"{means[fewer]:.3f} to {means[all_groups]:.3f}, with means of {RATERS_OF_LABEL} raters. "
        "Ridge is another model, and this has no interval. The trained model was not tried on more."
    )


def first_attribute_gains(evaluated: Evaluated, gains: pd.DataFrame) -> pd.DataFrame:
    """The gains that the verdict is about.

    They are those of the first attribute, on the side that counts, in the metrics shown.
    """
    of_attribute = gains.attribute == evaluated.attributes[0]
    on_side = gains.against == evaluated.side
    return gains[on_side & of_attribute & gains.metric.isin(SHOWN)]


def verdict(evaluated: Evaluated, gains: pd.DataFrame, result: TrainingResult, setup: Setup) -> str:
    """A sentence on whether the model beats the response's length at the first attribute.

    It is kept beside the model, with what the model reaches and ridge beside it. "NO better" and
    "untrained" in it make a warning of every caption of the model's scores (`RewardModel.warning`).

    evaluated: of `evaluate`.
    gains: of `gains`.
    result: of the training.
    setup: of the run.
    """
    metrics_that_count = SHOWN
    if setup.recipe.objective != "regression":
        # A loss of pairs leaves the offset of each prompt free, so that only the order within
        # prompts tells.
        metrics_that_count = SHOWN[1:]
    first_gains = first_attribute_gains(evaluated, gains)
    is_over_length = first_gains.over == "log-length"
    over_length = first_gains[is_over_length & first_gains.metric.isin(metrics_that_count)]
    better = over_length["95 % low"] > 0  # False too where there is no interval
    not_better = over_length.metric[~better].tolist()
    if result.best_step == 0:
        training = "untrained (its best step is 0)"
    else:
        training = f"best at step {result.best_step}"
    if not_better:
        worth = "beyond chance NO better than"
        reason = f"; by {', '.join(not_better)}"
    else:
        worth = "better than"
        reason = ""
    return (
        f"This reward model, {training}, is {worth} the response's length "
        f"at telling {evaluated.attributes[0]} "
        f"({evaluated.side}, {evaluated.groups:,} held-out prompts{reason}). "
        f"{_reached(evaluated, metrics_that_count[0])} One training seed."
    )


def _reached(evaluated: Evaluated, metric: str) -> str:
    """What the trained model reaches in the first attribute, and ridge beside it, in a sentence."""
    rows = evaluated.rows(evaluated.side, metric)
    rows = rows[rows.attribute == evaluated.attributes[0]].set_index("model")
    trained = rows.loc[TRAINED]
    words = "R" if metric == SHOWN[0] else "Pairs in order"
    if np.isnan(trained.value):
        return f"{words} is not defined."
    text = f"{words} {trained.value:.2f}{_ends(trained['95 % low'], trained['95 % high'])}"
    if RIDGE in rows.index:
        text += f"; {RIDGE} {rows.loc[RIDGE].value:.2f}"
    return f"{text}."


def _ends(low: float, high: float) -> str:
    """An interval in brackets; "" where there is none."""
    return "" if np.isnan(low) else f" ({low:.2f} to {high:.2f})"


def fitted_to(inputs: BaselineInputs, prepared: Prepared) -> str:
    """Which of the training groups ridge was fitted to, in words.

    inputs: of the baselines. prepared: the items of the parts, which the model learns.
    """
    n_ridge = len(inputs.items["train"])
    n_model = len(prepared.items["train"])
    if n_ridge == n_model:
        return f"all {n_model:,} training groups"
    return f"{n_ridge:,} of the {n_model:,} training groups"


def about_ridge(inputs: BaselineInputs, prepared: Prepared) -> str:
    """What ridge was fitted to beside the model, a sentence for captions; "" without ridge.

    inputs, prepared: as for `fitted_to`.
    """
    if not inputs.states:
        return ""
    seen = fitted_to(inputs, prepared)
    if seen.startswith("all"):
        return f"Ridge was fitted to {seen}, as the model was."
    return f"Ridge was fitted to {seen}, the model to all."


def in_words(evaluated: Evaluated, gains: pd.DataFrame, seen_by_ridge: str) -> list[str]:
    """Sentences on the trained model: its metrics by attribute, and its gains over baselines.

    The gains are those of the first attribute. seen_by_ridge: of `fitted_to`.
    """
    pearson, accuracy = SHOWN
    sentences = [
        f"Pearson's R of the trained model with the {evaluated.side}: "
        f"{_values(evaluated, pearson)}.",
        f"Pairs of one prompt ordered rightly: {_values(evaluated, accuracy)}.",
    ]
    for metric, rows in first_attribute_gains(evaluated, gains).groupby("metric"):
        defined = rows[rows.gain.notna()]  # a baseline that is constant has no R
        if len(defined):
            gains_in_words = ", ".join(_gain(row, seen_by_ridge) for _, row in defined.iterrows())
            sentences.append(f"{metric} of {evaluated.attributes[0]}: {gains_in_words}.")
    return sentences


def _values(evaluated: Evaluated, metric: str) -> str:
    """One metric of the trained model by attribute, with its interval."""
    table = evaluated.metrics
    is_trained = (table.against == evaluated.side) & (table.model == TRAINED)
    rows = table[is_trained & (table.metric == metric)]
    columns = ["attribute", "value", "95 % low", "95 % high"]
    values = []
    for name, value, low, high in rows[columns].itertuples(index=False):
        values.append(f"{name} {value:.2f}{_ends(low, high)}")
    return "; ".join(values)


def _gain(row: pd.Series, seen_by_ridge: str) -> str:
    """What the trained model adds to one baseline, in words; of ridge, what that was fitted to."""
    if row["95 % low"] > 0:
        direction = "more"
    elif row["95 % high"] < 0:
        direction = "LESS"
    else:
        direction = "not clearly more or less"
    interval = f"{row['95 % low']:.2f} to {row['95 % high']:.2f}"
    text = f"{direction} than {row.over} ({row.gain:+.2f}, {interval})"
    if row.over == RIDGE:
        text += f", which was fitted to {seen_by_ridge}"
        if not seen_by_ridge.startswith("all"):
            text += ", so that this is training and more data"
    return text
