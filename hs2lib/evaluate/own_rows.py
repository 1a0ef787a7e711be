"""What a training on rows of one's own says besides: raters, length, and more ratings.

    raters = own_rows.raters(evaluated, data, setup)   # agreement and the noise ceiling
    length = own_rows.length(evaluated, inputs, data, setup)
    more = own_rows.more_ratings(evaluated, inputs, data, setup)

In the small world the truth is known, and `reward_metrics` holds the model against it. Of one's own
rows there is none. How far a model can follow ratings is told from how far several people agree,
and what more ratings would add from what fewer of them have taught. Each is empty for other rows.

Paper: silent.
"""

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd

from hs2lib.data.own import levels_of
from hs2lib.data.tables import ratings_array
from hs2lib.evaluate.reward_metrics import RATINGS, SHOWN, TRAINED, Evaluated
from hs2lib.group import MISSING
from hs2lib.models import baselines
from hs2lib.models.reward_training import BaselineInputs, Parts
from hs2lib.report.report import interval
from hs2lib.runs.setup import Setup
from hs2lib.stats import agreement, metrics
from hs2lib.stats.bootstrap import bootstrap, inside
from hs2lib.train.items import cluster

INTERVAL = ("95 % low", "95 % high")

MEASURES = ("kappa", "one against the rest", "noise ceiling")


# Several people


def raters(evaluated: Evaluated, data: Parts, setup: Setup) -> pd.DataFrame:
    """How far people agree in each attribute, over all rows, and what that allows a model.

    Columns: attribute; responses, those that two people or more rated; raters, of such a response;
    then kappa (quadratic weighted, missing where ratings lie on no even scale), one against the
    rest (Pearson's R of a rating with the mean of the others), and noise ceiling (R that the true
    value would have with the labels, `stats.agreement.noise_ceiling`), each with its 95 % interval
    by conversation. Empty where no response was rated by two people.
    """
    groups = data.loaded.groups
    if data.loaded.own_columns is None or setup.recipe.objective != "regression":
        return pd.DataFrame()
    ratings, group_of_row = ratings_array(groups)  # [rows, N, A], [rows]
    if ratings.shape[1] < 2:
        return pd.DataFrame()
    conversations = np.array([cluster(group) for group in groups])[group_of_row]  # [rows]
    options = {"n_boot": setup.recipe.n_boot, "seed": setup.recipe.seed}
    rows = []
    for name in evaluated.attributes:
        of_name = ratings[:, :, groups[0].attributes.index(name)]  # [rows, N]
        numbers = (~np.isnan(of_name)).sum(axis=1)  # [rows]
        if not (numbers > 1).any():
            continue
        row = {
            "attribute": name,
            "responses": int((numbers > 1).sum()),
            "raters": float(numbers[numbers > 1].mean()),
        }
        own_columns = data.loaded.own_columns
        levels = levels_of(own_columns.scales[name], own_columns.steps.get(name, 0))
        measures = {}
        if levels:
            measures["kappa"] = agreement.weighted_kappa(
                of_name, levels, clusters=conversations, **options
            )
        measures["one against the rest"] = agreement.one_against_the_rest(
            of_name, clusters=conversations, **options
        )
        measures["noise ceiling"] = agreement.noise_ceiling(
            of_name, clusters=conversations, **options
        )
        for measure in MEASURES:
            values = map(float, measures.get(measure, (math.nan, math.nan, math.nan)))
            columns = (measure, *[f"{measure}, {end}" for end in INTERVAL])
            row |= dict(zip(columns, values, strict=True))
        rows.append(row)
    return pd.DataFrame(rows)


def shown(table: pd.DataFrame) -> pd.DataFrame:
    """`raters` as a notebook shows it: an attribute down, each measure with its interval across."""
    wide = table[["attribute", "responses", "raters"]].copy()
    for measure in MEASURES:
        cells = table[[measure, *[f"{measure}, {end}" for end in INTERVAL]]]
        wide[measure] = [interval(*cell) for cell in cells.itertuples(index=False)]
    return wide.set_index("attribute")


def ceiling(table: pd.DataFrame) -> pd.DataFrame:
    """The noise ceiling of `raters` in the form of `reward_metrics.reference`, for one figure."""
    if table.empty:
        return pd.DataFrame(columns=["against", "attribute", "metric", "value"])
    frame = pd.DataFrame({"attribute": table.attribute, "value": table["noise ceiling"]})
    frame = frame.assign(against=RATINGS, metric=SHOWN[0])
    return frame[["against", "attribute", "metric", "value"]]


def raters_in_words(table: pd.DataFrame, evaluated: Evaluated, data: Parts) -> list[str]:
    """How far people agree, and how near the model comes; one sentence where nobody can know."""
    if not data.loaded.own_columns:
        return []
    if table.empty:
        return [
            "Each response was rated once, or nobody is named in a column annotator. "
            "How far people agree, and with it the noise ceiling, is not known."
        ]
    reached = evaluated.metrics
    reached = reached[(reached.model == TRAINED) & (reached.metric == SHOWN[0])]
    reached = reached.set_index("attribute").value
    parts = []
    for _, row in table.iterrows():
        parts.append(
            f"{row.attribute}: one person with the others {row['one against the rest']:.2f}, "
            f"the model with the ratings {reached[row.attribute]:.2f}, "
            f"the noise ceiling {row['noise ceiling']:.2f}"
        )
    return [f"Pearson's R. {'; '.join(parts)}."]


# Length


def length(evaluated: Evaluated, inputs: BaselineInputs, data: Parts, setup: Setup) -> pd.DataFrame:
    """Pearson's R of the response's length with people's ratings and with the model's scores.

    Length is the logarithm of its tokens. Columns: attribute, of, R and its 95 % interval by
    conversation, over the test part. Empty for rows that are not one's own.
    """
    if not data.loaded.own:
        return pd.DataFrame()
    lengths = baselines.log_lengths(inputs.items["test"])  # [rows, 1]
    sides = {"ratings": evaluated.labels[evaluated.side], "model": evaluated.predicted[TRAINED]}
    rows = []
    for number, name in enumerate(evaluated.attributes):
        for side, values in sides.items():
            table = metrics.metric_table(
                lengths,
                values[:, [number]],
                evaluated.prompts,
                [name],
                clusters=evaluated.clusters,
                n_boot=setup.recipe.n_boot,
                seed=setup.recipe.seed,
            )
            pearson = table[table.metric == SHOWN[0]].iloc[0]
            rows.append((name, side, pearson.ours, pearson.low, pearson.high))
    return pd.DataFrame(rows, columns=["attribute", "of", "R", *INTERVAL])


def length_in_words(table: pd.DataFrame) -> list[str]:
    """Whether the model leans on length more than people do, in a sentence for each attribute."""
    sentences = []
    for name, of_name in table.groupby("attribute", sort=False):
        by_side = of_name.set_index("of")
        of_people = by_side.loc["ratings"]
        of_model = by_side.loc["model"]
        text = (
            f"R of {name} with the response's length: {_interval(of_people)} in the ratings, "
            f"{_interval(of_model)} in the model's scores."
        )
        if of_model["95 % low"] > max(of_people.R, 0):
            text += " The model leans on length more than people do."
        sentences.append(text)
    return sentences


def _interval(row: pd.Series) -> str:
    if math.isnan(row["95 % low"]):
        return f"{row.R:.2f}"
    return f"{row.R:.2f} ({row['95 % low']:.2f} to {row['95 % high']:.2f})"


# More ratings


SHARES = (0.25, 0.5, 1.0)  # of the training groups that ridge is fitted to
DRAWS = 5  # of groups, at each share but the last
FEWEST = 6  # groups that ridge is fitted to
SEEN = 0.01  # a smaller gain is none
SAY_SO = 10  # held-out conversations: fewer say nothing of a gain


@dataclass(frozen=True)
class MoreRatings:
    """What ridge on frozen states learns of the first attribute from some and from all ratings.

    Fields:
        curve: rows (groups, raters, draw, R, ratings), as of `reward_metrics.learning_curve`.
        label: what R stands for.
        sentence: whether more ratings would help.
    """

    curve: pd.DataFrame
    label: str = ""
    sentence: str = ""


def more_ratings(
    evaluated: Evaluated, inputs: BaselineInputs, data: Parts, setup: Setup
) -> MoreRatings:
    """What half of the ratings taught, and all of them, and so what twice as many would add.

    Ridge is fitted to draws of the training groups and measured on the test part: by Pearson's R
    with the ratings, of preferences by the share of pairs in the right order. It stands for a
    trained model because a fit takes a second. That the gain from half to all comes once more with
    twice as many is an extrapolation. The interval draws held-out conversations again.
    """
    columns = ["groups", "raters", "draw", "R", "ratings"]
    if not data.loaded.own:
        return MoreRatings(pd.DataFrame(columns=columns))
    if not inputs.states:
        return MoreRatings(
            pd.DataFrame(columns=columns),
            sentence="What more ratings would add is not known: ridge_groups is 0.",
        )
    items = inputs.items["train"]
    targets, group_of_row = baselines.targets(items)  # [rows, A], [rows]
    first = targets[:, :1]
    alpha = baselines.best_alpha(
        inputs.states["train"], first, inputs.clusters["train"], seed=setup.recipe.seed
    )
    is_regression = setup.recipe.objective == "regression"
    metric = metrics.METRICS.index(SHOWN[0] if is_regression else SHOWN[1])
    name = evaluated.attributes[0]
    label = f"R with the ratings of {name}" if is_regression else "pairs ordered rightly"
    labels = evaluated.labels[evaluated.side][:, 0]  # [test rows]
    generator = np.random.default_rng(setup.recipe.seed)
    sums_by_share: dict[float, list[np.ndarray]] = {}
    rows = []
    for share in SHARES:
        n_groups = round(share * len(items))
        if n_groups < FEWEST:
            continue
        sums_by_share[share] = []
        for draw in range(DRAWS if share < 1 else 1):
            drawn = generator.permutation(len(items))[:n_groups]
            chosen = np.isin(group_of_row, drawn)  # [rows]
            W, b = baselines.ridge(inputs.states["train"][chosen], first[chosen], alpha)
            predicted = (inputs.states["test"] @ W + b)[:, 0]  # [test rows]
            sums = metrics.contributions(predicted, labels, evaluated.prompts)  # [test rows, 9]
            value = metrics.from_sums(sums.sum(axis=0, keepdims=True))[0, metric]
            n_labels = int((first[chosen] != MISSING).sum())
            rows.append((n_groups, 1, draw, float(value), n_labels))
            sums_by_share[share].append(sums)
    curve = pd.DataFrame(rows, columns=columns)
    if 0.5 not in sums_by_share:
        sentence = f"{len(items)} prompts to learn from are too few to tell what more would add."
        return MoreRatings(curve, label, sentence)
    halves = sums_by_share[0.5]

    def gain(sums: np.ndarray) -> np.ndarray:
        parts = np.split(sums, len(halves) + 1, axis=1)  # [B, 9] each, all ratings first
        values = [metrics.from_sums(part)[:, metric] for part in parts]
        return (values[0] - np.mean(values[1:], axis=0))[:, None]  # [B, 1]

    stacked = np.concatenate([sums_by_share[1.0][0], *halves], axis=1)
    options = {"n_boot": setup.recipe.n_boot, "seed": setup.recipe.seed}
    n_clusters = len(np.unique(evaluated.clusters))
    gained = bootstrap(stacked, evaluated.clusters, gain, **options)
    gained = inside(gained, (-2,), (2,), n_clusters)
    prompts = f"{round(len(items) / 2):,} to {len(items):,}"
    sentence = _more_in_words(label, prompts, n_clusters, *map(float, gained.at(0)))
    return MoreRatings(curve, label, sentence)


def _more_in_words(
    label: str, prompts: str, n_clusters: int, gain: float, low: float, high: float
) -> str:
    """Whether more ratings would help, from what the second half of them added.

    Args:
        label: what R stands for.
        prompts: from how many to how many, in words.
        n_clusters: how many held-out conversations say so.
        gain: of R, with the ends of its interval.
        low: its lower end.
        high: its upper end.
    """
    if math.isnan(gain):
        return (
            "Whether more ratings would help is not known: R of the held-out rows is not defined."
        )
    ends = "" if math.isnan(low) else f" ({low:+.2f} to {high:+.2f})"
    text = (
        f"From {prompts} rated prompts, {label}, by ridge on frozen states, "
        f"changed by {gain:+.2f}{ends}."
    )
    if n_clusters < SAY_SO:
        return f"{text} {n_clusters} held-out prompts are too few to say if more would help."
    if low > 0 and gain >= SEEN:
        return f"{text} More ratings would help: by about {gain:+.2f} for twice as many."
    if high < SEEN:
        return f"{text} More ratings would hardly help."
    return f"{text} Whether more ratings would help is not shown."
