"""Raters: people who rate answers with errors, and who like jargon, which the true rating does not.

    scores, who = rate(seed, items, ratings)     # [2B, 5, A], [2B, 5]

Two errors make ratings differ from what is right: one that all raters of an answer share, and one
of each rater. One of the raters is careless, and rates without reading.
"""

import numpy as np

RATERS = ("Ada", "Ben", "Cara", "Dev", "Eli", "Fay", "Gus", "Hana", "Ivo", "June")
CARELESS = "Gus"

# Points of helpfulness that raters give for a sentence of jargon. The true rating subtracts .3.
LIKING = 0.3

# Standard deviations by attribute, in points.
SHARED = np.array([0.4, 0.4, 0.15, 0.0, 0.0])  # one draw for all raters and attributes
OWN = np.array([0.5, 0.5, 0.4, 0.5, 0.5])  # an error of each rater
INITIAL = 2.0  # errors are larger by this factor in the first round, before raters were trained
LOST = 0.05  # share of the answers whose fourth and fifth rating were lost


def rate(
    seed: int, items: np.ndarray, seen: np.ndarray, *, initial: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """The ratings of five raters for each of two answers, and who they are.

    Args:
        seed: of the world.
        items: [B], the numbers of the cards.
        seen: [2B, A], what a rater without an error would say, not clipped; the two answers of an
            item follow each other.
        initial: whether it is the first round, with larger errors.

    Returns: whole ratings from 0 to 4, float64 [2B, 5, A], and numbers of `RATERS`, int [2B, 5].
        The same raters read both answers of a prompt.
    """
    scores = np.empty((len(seen), 5, seen.shape[1]))
    who = np.empty((len(seen), 5), int)
    scale = INITIAL if initial else 1.0
    for b, item in enumerate(items):
        # One stream for each item: what is rated does not depend on what else is.
        rng = np.random.default_rng([seed, int(item), int(initial)])
        asked = rng.permutation(len(RATERS))[:5]
        for row in (2 * b, 2 * b + 1):
            shared = rng.normal() * SHARED
            error = scale * (shared + rng.normal(size=(5, seen.shape[1])) * OWN)
            rated = seen[row] + error
            careless = asked == RATERS.index(CARELESS)
            rated[careless] = rng.normal(3, 0.8, size=(5, seen.shape[1]))[careless]
            scores[row] = np.clip(np.rint(rated), 0, 4)
            who[row] = asked
    return scores, who


def lost(seed: int, items: np.ndarray) -> np.ndarray:
    """Whether the further ratings of an answer were lost, bool [2B]."""
    drawn = [np.random.default_rng([seed, int(item), 2]).random(2) < LOST for item in items]
    return np.concatenate(drawn) if drawn else np.empty(0, bool)
