"""What takes goodness away, by part: it adds up, and the words follow the intervals."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from hs2lib.corpus import generate
from hs2lib.corpus.grade import COSTS, true_goodness
from hs2lib.evaluate import content
from hs2lib.group import Group, Response, Turn
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
    rows.append(("wrong items", 1.0, 1.1, 0.1, -0.15, 0.35))
    columns = ["part", "SFT", "PPO", "difference", "95 % low", "95 % high"]
    less, more = content.parts_in_words(pd.DataFrame(rows, columns=columns))
    assert less == "PPO's answers lose less than SFT's by: habits (-1.00, -1.20 to -0.80)."
    assert more == (
        "PPO's answers lose **more** than SFT's by: jargon (+0.30, +0.10 to +0.50). "
        "Parts looked at: 3. No interval is corrected for their number."
    )
    rows[2] = ("wrong items", 1.0, 1.1, 0.1, -0.01, 0.21)
    _, more = content.parts_in_words(pd.DataFrame(rows, columns=columns))
    assert (
        "+0.50). Unclear in this run: wrong items (+0.10, -0.01 to +0.21). Parts looked at: 3."
        in more
    )
    (same, _) = content.parts_in_words(pd.DataFrame(rows[2:], columns=columns))
    assert same.endswith("by: nothing clearly.")
    rows = [("jargon", 0.1, 0.11, 0.01, 0.002, 0.018)]
    _, more = content.parts_in_words(pd.DataFrame(rows, columns=columns))
    assert "by: jargon (+0.010, +0.002 to +0.018)." in more, "two decimals would say +0.00"


def test_of_rises_that_are_nearly_shown_the_largest_is_named():
    """By hand: .10 and .20 are more than half of .11 and .25; .30 is less than half of .90."""
    rows = [("habits", 1.0, 1.1, 0.1, -0.01, 0.21), ("jargon", 1.0, 1.2, 0.2, -0.05, 0.45)]
    rows.append(("wrong items", 1.0, 1.3, 0.3, -0.6, 1.2))
    columns = ["part", "SFT", "PPO", "difference", "95 % low", "95 % high"]
    _, more = content.parts_in_words(pd.DataFrame(rows, columns=columns))
    assert "nothing clearly. Unclear in this run: jargon (+0.20, -0.05 to +0.45). Parts" in more
    rows = [("jargon", 0.01, 0.02, 0.01, -0.001, 0.021)]  # nearly shown, and nothing to speak of
    _, more = content.parts_in_words(pd.DataFrame(rows, columns=columns))
    assert "by: nothing clearly. Parts looked at: 1." in more


def test_what_attributes_that_end_at_0_return_is_neither_a_loss_nor_a_gain():
    """More faults at once give more back, which is no better answer."""
    rows = [("ends at 0", -0.2, -0.4, -0.2, -0.3, -0.1), ("habits", 2.0, 1.0, -1.0, -1.2, -0.8)]
    columns = ["part", "SFT", "PPO", "difference", "95 % low", "95 % high"]
    less, _ = content.parts_in_words(pd.DataFrame(rows, columns=columns))
    assert less == "PPO's answers lose less than SFT's by: habits (-1.00, -1.20 to -0.80)."
    fewer = [("ends at 0", -0.4, -0.2, 0.2, 0.1, 0.3)]
    _, more = content.parts_in_words(pd.DataFrame(fewer, columns=columns))
    assert more.startswith("PPO's answers lose **more** than SFT's by: nothing clearly. Parts")
    assert content.GIVES_BACK in COSTS


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


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        (-0.012, -0.001, "that greedy answers hardly test the trap of the small world."),
        (-0.01, 0.03, "that greedy answers hardly test the trap of the small world."),
        (0.1, 0.5, "**the trap of the small world was sprung**."),
    ],
)
def test_a_start_without_jargon_hardly_tests_the_trap(low, high, words):
    """Nothing can be lost that is not there; a rise from nothing is a rise."""
    middle = (low + high) / 2
    row = ("jargon", 0.011, 0.011 + middle, middle, low, high)
    columns = ["part", "SFT", "PPO", "difference", "95 % low", "95 % high"]
    sentence = content.trap_in_words(pd.DataFrame([row], columns=columns))
    assert sentence.endswith(words)
    assert ("SFT's greedy answers hold almost no jargon" in sentence) == (low <= 0)


def answered(groups, n_jargon):
    """The prompts with two answers each, of so many different sentences of jargon."""
    texts = [" ".join(content.grade.WRITING["expert"][:n]) for n in n_jargon]
    answers = tuple([Response("", text) for text in texts])
    return [replace(group, responses=answers) for group in groups]


def test_jargon_of_sampled_answers_is_counted():
    """0 and 1 sentences are .5 per answer, 1 and 2 are 1.5: one more at every prompt."""
    groups = list(generate.groups(8, seed=5))
    before = answered(groups, (0, 1))
    after = answered(groups, (1, 2))
    options = {"n_boot": 100, "seed": 0}
    words = content.jargon_in_words({"SFT": before, "PPO": after}, "at temperature 1", **options)
    assert words == (
        "Sentences of jargon per answer, at temperature 1: SFT 0.50, PPO 1.50 "
        "(+1.00, +1.00 to +1.00), **a rise**."
    )
    words = content.jargon_in_words({"PPO": after, "SFT": before}, "", **options)
    assert words.endswith("(-1.00, -1.00 to -1.00), a fall.")
    apart = {"round 0": before[:4], "round 9": answered(groups[4:], (0, 1))}
    words = content.jargon_in_words(apart, "of other prompts", **options)
    assert words.endswith("round 9 0.50 (+0.00, +0.00 to +0.00), not shown to change.")
    real = [Group("real", (Turn("user", "Hi"),), (Response("", "a"),))]
    assert content.jargon_in_words({"SFT": real, "PPO": real}, "", **options) == ""


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        (-0.13, 0.12, "(+0.00, -0.13 to +0.12): not shown to change."),
        (-0.5, -0.1, "(-0.30, -0.50 to -0.10): they cost less than before."),
        (0.1, 0.5, "(+0.30, +0.10 to +0.50): they cost more than before."),
    ],
)
def test_habits_change_only_where_the_interval_shows_it(low, high, words):
    difference = -0.001 if low < 0 < high else (low + high) / 2
    row = ("habits", 1.85, 1.85 + difference, difference, low, high)
    columns = ["part", "base", "SFT", "difference", "95 % low", "95 % high"]
    sentence = content.habits_in_words(pd.DataFrame([row], columns=columns))
    assert (
        sentence.startswith("in SFT's greedy answers they cost ") and "in base's 1.85" in sentence
    )
    assert sentence.endswith(words)


def test_what_one_answer_loses_and_gains_beside_another():
    """A faultless answer, then one that stops at once: all that it loses are habits."""
    group = generate.without_faults(next(iter(generate.groups(1, seed=4, split="train"))))
    best = group.responses[0].text
    words = content.change_in_words(group, Answer("SFT", best), Answer("PPO", "I like tea."))
    assert words.startswith("Beside SFT's answer, that of PPO loses ")
    assert "points by habits" in words and "gains" not in words and "loses -" not in words
    back = content.change_in_words(group, Answer("SFT", "I like tea."), Answer("PPO", best))
    assert back.startswith("Beside SFT's answer, that of PPO gains back ")
    assert "points of habits" in back and "loses" not in back and "back -" not in back
    same = content.change_in_words(group, Answer("SFT", best), Answer("PPO", best))
    assert same == "Beside SFT's answer, that of PPO differs in no part."
    real = Group("real", (Turn("user", "Hi"),), ())
    assert content.change_in_words(real, Answer("SFT", "a"), Answer("PPO", "b")) == ""


def test_one_answer_may_be_better_in_one_part_and_worse_in_another(monkeypatch):
    """By hand: 3.5 and .1 come back and .4 go; 1.2 of what came back had never been taken."""
    costs = {
        "before": {"habits": 4.0, "jargon": 0.2, "wrong items": 0.1, "ends at 0": -1.2},
        "after": {"habits": 0.5, "jargon": 0.1, "wrong items": 0.5, "ends at 0": 0.0},
    }
    graded = {text: SimpleNamespace(costs=parts) for text, parts in costs.items()}
    monkeypatch.setattr(content.grade, "grade", lambda task, text: graded[text])
    group = next(iter(generate.groups(1, seed=4)))
    words = content.change_in_words(group, Answer("SFT", "before"), Answer("PPO", "after"))
    assert words == (
        "Beside SFT's answer, that of PPO gains back 3.50 points of habits, 0.10 points of jargon; "
        "it loses 0.40 points by wrong items. "
        "In all its truth changes by +2.00 points: an attribute cannot fall below 0, so the parts "
        "add up to something else."
    )
