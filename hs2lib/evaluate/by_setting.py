"""Truth and score of a policy and of its start in each setting in which a notebook samples them.

    levels = table(compared, curves, ranked)    # greedy, sampled, in training, for best of n
    in_words(levels)                            # how far apart the start's truths are

A policy has another truth at another temperature and of other prompts. Paper: silent.
"""

import numpy as np
import pandas as pd

from hs2lib.evaluate.best_of_n import Ranked
from hs2lib.evaluate.comparison import Comparison
from hs2lib.evaluate.response_rows import GREEDY, SCORE, TRUTH

COLUMNS = ["answers", "temperature", "top-p", "prompts"]


def table(
    compared: Comparison,
    curves: pd.DataFrame,
    ranked: Ranked,
    *,
    policy: str = "PPO",
    start: str = "SFT",
) -> pd.DataFrame | None:
    """A row for each setting: how answers were sampled, and truth and score of both policies.

    What was not measured is nan: the score of greedy answers, and the policy in best of n. None
    where nobody knows the truth.

    compared: has the rows of both policies.
    curves: of `hs2lib.evaluate.by_round.of_ppo`. Round 0 is of the start, the last one of the
        policy before its last steps.
    ranked: the start's answers for best of n.
    policy: the name of the one that was trained.
    start: the name of the one that it began with.
    """
    if not compared.truth_known:
        return None
    recipe = compared.setup.recipe
    rows = pd.concat(compared.frames, ignore_index=True)
    rows = rows.drop_duplicates(["policy", "response"], keep="last")
    means = rows.groupby("policy")[[GREEDY, TRUTH, SCORE]].mean()
    n_prompts = len(compared.prompts)
    first = curves.iloc[0]
    last = curves.iloc[-1]
    drawn = ranked.levels()
    of_greedy = (means[GREEDY][start], np.nan, means[GREEDY][policy], np.nan)
    of_sampled = []
    for name in (start, policy):
        of_sampled += [means[TRUTH][name], means[SCORE][name]]
    of_rounds = (first[TRUTH], first[SCORE], last[TRUTH], last[SCORE])
    of_best = (drawn[TRUTH], drawn[SCORE], np.nan, np.nan)
    in_training = f"{recipe.buffer} to train on, others in each round"
    levels = [
        ("greedy", 0.0, np.nan, f"{n_prompts} held out", *of_greedy),
        (
            "sampled, compared",
            recipe.eval_temperature,
            recipe.eval_top_p,
            f"{n_prompts} held out",
            *of_sampled,
        ),
        (
            "sampled in training, first round and last",
            recipe.temperature,
            recipe.top_p,
            in_training,
            *of_rounds,
        ),
        (
            "sampled for best of n",
            recipe.temperature,
            recipe.top_p,
            f"the first {len(ranked.ids)} held out",
            *of_best,
        ),
    ]
    numbers = [f"{name}'s {what}" for name in (start, policy) for what in ("truth", "score")]
    return pd.DataFrame(levels, columns=[*COLUMNS, *numbers])


def in_words(levels: pd.DataFrame) -> str:
    """How far apart the truths of the start are, in a sentence. levels: of `table`."""
    truth = levels.iloc[:, len(COLUMNS)]
    name = truth.name.removesuffix("'s truth")
    return (
        f"{name} is one policy, and its truth is {truth.min():.2f} to {truth.max():.2f} in this "
        "table: temperature, top-p and prompts differ. Numbers of two rows are not to be compared."
    )
