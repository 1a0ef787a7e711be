"""Which prompts are shown: by numbers, and the same for everybody."""

from types import SimpleNamespace

import pandas as pd

from hs2lib.evaluate import gallery
from hs2lib.evaluate.response_rows import GREEDY, SCORE
from hs2lib.group import Group, Turn


def compared(before: list[float], after: list[float], measure: str) -> SimpleNamespace:
    """Two policies on prompts a, b, c .. with two rows each."""
    ids = list("abcdef")[: len(before)]
    frames = []
    for name, values in {"SFT": before, "PPO": after}.items():
        frames.append(pd.DataFrame({"policy": name, "prompt": ids * 2, measure: values * 2}))
    prompts = [Group(i, (Turn("user", i),), ()) for i in ids]
    return SimpleNamespace(truth_known=measure == GREEDY, frames=frames, prompts=prompts)


def test_the_largest_gain_the_median_and_the_largest_loss():
    shown = gallery.by_change(compared([1, 1, 1], [3, 0, 1], GREEDY), "PPO", "SFT")
    assert [group.id for _, group in shown] == ["a", "c", "b"]


def test_a_gain_that_is_none_is_not_shown():
    shown = gallery.by_change(compared([1, 1, 1], [1, 0, 0.5], SCORE), "PPO", "SFT")
    assert [group.id for _, group in shown] == ["c", "b"], "the median and the largest loss"
