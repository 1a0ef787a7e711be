"""What takes goodness away, by part: it adds up, and the words follow the intervals."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from hs2lib.corpus import generate
from hs2lib.corpus.grade import COSTS, true_goodness
from hs2lib.evaluate import content
from hs2lib.group import Group, Turn
from hs2lib.report.answers import Answer


def test_the_parts_and_the_truth_add_up_to_a_faultless_answer():
    groups = list(generate.groups(20, seed=3))
    costs = content.costs_of(groups)
    truth = np.concatenate([true_goodness(group) for group in groups])
    assert list(costs.columns) == list(COSTS) and costs.index[0] == groups[0].id
    np.testing.assert_allclose(costs.sum(axis=1) + truth, 7.6)
    best = [generate.without_faults(group) for group in groups]
    singles = [replace(group, responses=group.responses[:1]) for group in best]
    assert content.costs_of(singles).habits.max() == pytest.approx(0)


def test_the_words_name_what_clearly_changed():
    rows = [("habits", 2.0, 1.0, -1.0, -1.2, -0.8), ("jargon", 0.1, 0.4, 0.3, 0.1, 0.5)]
    rows.append(("wrong items", 1.0, 1.1, 0.1, -0.1, 0.3))
    columns = ["part", "SFT", "PPO", "difference", "95 % low", "95 % high"]
    less, more = content.parts_in_words(pd.DataFrame(rows, columns=columns))
    assert less == "PPO's answers lose less than SFT's by: habits (-1.00)."
    assert more == "PPO's answers lose **more** than SFT's by: jargon (+0.30)."
    (same, _) = content.parts_in_words(pd.DataFrame(rows[2:], columns=columns))
    assert same.endswith("by: nothing clearly.")


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        (0.1, 0.5, "(+0.30, +0.10 to +0.50): **the trap of the small world was sprung**."),
        (-0.1, 0.7, "the trap of the small world is not shown to be sprung."),
        (-0.5, -0.1, "PPO left the trap of the small world alone."),
    ],
)
def test_the_trap_is_jargon(low, high, words):
    middle = (low + high) / 2
    row = ("jargon", 0.4, 0.4 + middle, middle, low, high)
    columns = ["part", "SFT", "PPO", "difference", "95 % low", "95 % high"]
    assert content.trap_in_words(pd.DataFrame([row], columns=columns)).endswith(words)


def test_what_one_answer_loses_beyond_another():
    """A faultless answer, then one that stops at once: all that it loses beyond are habits."""
    group = generate.without_faults(next(iter(generate.groups(1, seed=4, split="train"))))
    best = group.responses[0].text
    words = content.change_in_words(group, Answer("SFT", best), Answer("PPO", "I like tea."))
    assert words.startswith("Points that PPO loses beyond SFT: habits +")
    same = content.change_in_words(group, Answer("SFT", best), Answer("PPO", best))
    assert same == "Points that PPO loses beyond SFT: none."
    real = Group("real", (Turn("user", "Hi"),), ())
    assert content.change_in_words(real, Answer("SFT", "a"), Answer("PPO", "b")) == ""
