"""One policy has several truths in a notebook: a table says which answers each number is of."""

from types import SimpleNamespace

import numpy as np
import pandas as pd

from hs2lib.evaluate import by_setting
from hs2lib.evaluate.best_of_n import Ranked
from hs2lib.evaluate.response_rows import GREEDY, SCORE, TRUTH
from hs2lib.train.recipes import PPO


def comparison(truth_known: bool = True) -> SimpleNamespace:
    """SFT's two answers have truths 1 and 3, PPO's 4 and 6; a score is one more."""
    frames = []
    for policy, truths in {"SFT": (1.0, 3.0), "PPO": (4.0, 6.0)}.items():
        rows = []
        for k, truth in enumerate(truths):
            row = {"policy": policy, "prompt": "a", "response": f"a/{k}", TRUTH: truth}
            rows.append(row | {SCORE: truth + 1, GREEDY: truths[1]})
        frames.append(pd.DataFrame(rows))
    recipe = PPO(buffer=8)
    setup = SimpleNamespace(recipe=recipe)
    return SimpleNamespace(setup=setup, frames=frames, prompts=["a"], truth_known=truth_known)


def test_each_setting_has_a_row():
    """The rounds begin at 2 and end at 5; best of n draws answers of truth 0 and 1."""
    curves = pd.DataFrame({TRUTH: [2.0, 3.0, 5.0], SCORE: [3.0, 4.0, 6.0]})
    drawn = {TRUTH: np.array([[0.0, 1.0]]), SCORE: np.array([[5.0, 6.0]])}
    ranked = Ranked(["a"], drawn, {"n_boot": 10, "seed": 0})
    levels = by_setting.table(comparison(), curves, ranked)
    assert levels["SFT's truth"].tolist() == [3, 2, 2, 0.5]
    assert levels["PPO's truth"].tolist()[:3] == [6, 5, 5] and np.isnan(levels["PPO's truth"][3])
    assert levels["SFT's score"].tolist()[1:] == [3, 3, 5.5] and np.isnan(levels["SFT's score"][0])
    assert levels.temperature.tolist() == [0, 0.7, 1, 1]
    assert levels["top-p"].tolist()[1:] == [0.9, 1, 1] and np.isnan(levels["top-p"][0])


def test_of_real_prompts_there_is_no_table():
    assert by_setting.table(comparison(truth_known=False), None, None) is None
