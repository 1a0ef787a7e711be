"""What a predicted value means: the ratings that answers with such a prediction have.

    table = predicted_values.by_fifth(evaluated, setup)
    words = predicted_values.in_words(table, evaluated, setup)

A regression promises that a predicted 3 is rated 3 on average. Paper: silent.
"""

import numpy as np
import pandas as pd

from hs2lib.evaluate.questions import mean
from hs2lib.evaluate.reward_metrics import RATINGS, TRAINED, Evaluated
from hs2lib.runs.setup import Setup
from hs2lib.stats.describe import slope

FIFTHS = 5
FEWEST = 50  # responses; fewer carry no table
SLIGHT = 0.1  # of a slope; what is nearer to 1 is hardly another
MIDDLE = (0.1, 0.9)  # of ten ratings the middle eight


def by_fifth(evaluated: Evaluated, setup: Setup) -> pd.DataFrame:
    """Ratings of the first attribute by fifths of the prediction, lowest first.

    Columns: responses; predicted, the mean of the fifth; rated, its mean, with 95 % low and 95 %
    high by conversation; "10 %" and "90 %" of the ratings. Empty where the model learnt from
    preferences, whose scale is none of ratings, or where there are fewer than 50 responses.
    """
    if setup.recipe.objective != "regression" or evaluated.responses < FEWEST:
        return pd.DataFrame()
    predicted = evaluated.predicted[TRAINED][:, 0]  # [rows]
    rated = evaluated.labels[RATINGS][:, 0]
    order = np.argsort(predicted, kind="stable")
    resampled = {"n_boot": setup.recipe.n_boot, "seed": setup.recipe.seed}
    rows = []
    for rank, fifth in enumerate(np.array_split(order, FIFTHS), start=1):
        interval = mean(rated[fifth], evaluated.clusters[fifth], **resampled)
        row = {"fifth of the predictions": rank, "responses": len(fifth)}
        row |= {"predicted": predicted[fifth].mean(), "rated": interval.estimate}
        row |= {"95 % low": interval.low, "95 % high": interval.high}
        row["10 %"], row["90 %"] = np.quantile(rated[fifth], MIDDLE)
        rows.append(row)
    return pd.DataFrame(rows)


def in_words(table: pd.DataFrame, evaluated: Evaluated, setup: Setup) -> list[str]:
    """What the lowest and the highest fifth are rated, and whether a step predicted is a step."""
    if setup.recipe.objective != "regression":
        return [
            "A model of preferences has no scale: only differences within a prompt mean anything."
        ]
    if table.empty:
        return [
            f"Fewer than {FEWEST} held-out responses: what a predicted value means is not shown."
        ]
    attribute = evaluated.attributes[0]
    lines = []
    for name, row in (("lowest", table.iloc[0]), ("highest", table.iloc[-1])):
        lines.append(
            f"The {name} fifth: predicted {attribute} {row.predicted:.2f}, rated {row.rated:.2f} "
            f"({row['95 % low']:.2f} to {row['95 % high']:.2f}) on average. "
            f"Eight of ten of these answers are rated {row['10 %']:.1f} to {row['90 %']:.1f}."
        )
    interval = slope(
        evaluated.predicted[TRAINED][:, 0],
        evaluated.labels[RATINGS][:, 0],
        evaluated.clusters,
        n_boot=setup.recipe.n_boot,
        seed=setup.recipe.seed,
    )
    number = f"{interval.estimate:.3f} ({interval.low:.3f} to {interval.high:.3f})"
    if interval.low > 1:
        reading = "predictions lie too close together"
    elif interval.high < 1:
        reading = "predictions lie too far apart"
    else:
        reading = "that it is not 1 is not shown"
    if reading.startswith("predictions") and abs(interval.estimate - 1) < SLIGHT:
        reading += ", though hardly"
    lines.append(f"Where the prediction is 1 higher, the rating is {number} higher: {reading}.")
    return lines
