"""Accuracy beside the rules that read nothing: numbers that one can do by hand.

A user reads one line of these. A tie that counts as right, or a bar that is too low, makes a model
look better than it is.
"""

import json

import numpy as np
import pytest

from hs2lib.data.files import read_file
from hs2lib.score.accuracy import accuracy, meaning


@pytest.fixture
def rows_of(tmp_path):
    """The rows of a file with these."""

    def read(*rows):
        path = tmp_path / "mine.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return read_file(path).rows

    return read


def table_of(rows, *scores):
    return accuracy(rows, [None if s is None else np.array(s, dtype=float) for s in scores])


def shares(table, measure="pairs"):
    """Percent right by rule."""
    of_measure = table[table.measure == measure]
    return dict(zip(of_measure.rule, (100 * of_measure.right).round(1), strict=True))


def pair(prompt, chosen, rejected):
    return {"prompt": prompt, "chosen": chosen, "rejected": rejected}


def test_a_tie_of_scores_or_of_lengths_is_wrong_and_counted(rows_of):
    """Of four pairs the model has one right and one tied; the longer is right in two, tied in one."""
    rows = rows_of(
        pair("a", "long", "no"), pair("b", "long", "no"), pair("c", "so", "no"), pair("d", "o", "no")
    )  # fmt: skip
    table = table_of(rows, [2, 1], [1, 1], [0, 1], [0, 1])
    assert shares(table) == {"model": 25, "longest": 50, "shortest": 25, "random": 50}
    assert table.ties.tolist() == [1, 1, 1, 0] and set(table.number) == {4}
    model = table.iloc[0]
    assert 0 < model.low < 0.25 < model.high < 1


def test_all_right_on_few_prompts_is_no_certainty(rows_of):
    """The bound of Clopper and Pearson on two prompts, .025 ^ (1 / 2), whatever the number of pairs."""
    rows = rows_of(*[pair("ab"[i % 2], f"long {i}", "no") for i in range(20)])
    model = table_of(rows, *[[1, 0]] * 20).iloc[0]
    assert (model.right, model.high, model.prompts) == (1, 1, 2)
    assert model.low == pytest.approx(0.025**0.5)


def test_the_best_of_several_has_to_beat_them_all(rows_of):
    """Of three rows the best is highest in one, tied in one, second in one; 1 of 3 at random."""
    rows = rows_of(
        *[{"prompt": p, "responses": ["ab", "a", "abc"], "scores": [1, 0, 0]} for p in "abc"]
    )
    table = table_of(rows, [3, 1, 2], [2, 1, 2], [2, 1, 3])
    assert shares(table, "best of n") == {
        "model": 33.3,
        "longest": 0,
        "shortest": 0,
        "random": 33.3,
    }
    best = table[(table.measure == "best of n") & (table.rule == "model")].iloc[0]
    assert (best.ties, best.number) == (1, 3)
    assert shares(table) == {"model": 66.7, "longest": 50, "shortest": 50, "random": 50}


def test_scores_count_pair_by_pair_and_equal_ones_do_not(rows_of):
    """Five pairs of six. The scores 4, 3, 2, 3 have three of them right, one tied."""
    rows = rows_of({"prompt": "a", "responses": ["xxxx", "xxx", "xx", "x"], "scores": [3, 2, 2, 1]})
    table = table_of(rows, [4, 3, 2, 3])
    assert shares(table)["model"] == 60 and shares(table)["longest"] == 100
    pairs = table[(table.measure == "pairs") & (table.rule == "model")].iloc[0]
    assert (pairs.number, pairs.ties) == (5, 1)
    assert shares(table, "best of n")["model"] == 100, "one is best"


def test_what_says_nothing_or_has_no_score_does_not_count(rows_of):
    rows = rows_of(
        {"prompt": "a", "response_a": "b", "response_b": "c", "winner": "tie"},
        {"prompt": "b", "response_a": "b", "response_b": "c", "winner": "a"},
        {"prompt": "c", "response_a": "b", "response_b": "c", "winner": "b"},
        {"prompt": "d", "response_a": "b", "response_b": "c", "winner": "b"},
    )
    table = table_of(rows, [1, 2], [2, 1], None, [np.nan, 1])
    assert set(table.number) == {1} and shares(table)["model"] == 100
    assert np.isnan(table.iloc[0].low), "one prompt says nothing about how prompts vary"
    assert table_of(rows[:1], [1, 2]).empty


def test_what_a_difference_means_counts_the_same_pairs(rows_of):
    """3, 2, 2, 1 are five pairs of one prompt; a row without a score and a tie are none."""
    ranked = rows_of(
        {"prompt": "a", "responses": ["xxxx", "xxx", "xx", "x"], "scores": [3, 2, 2, 1]}
    )
    measured = meaning(ranked, [np.array([4, 3, 2, 3])])
    assert (measured.pairs, measured.prompts, measured.equal) == (5, 1, 1)
    assert measured.right.estimate == pytest.approx(60)
    assert meaning(ranked, [None]) is None
    tie = rows_of({"prompt": "a", "response_a": "b", "response_b": "c", "winner": "tie"})
    assert meaning(tie, [np.array([1, 2])]) is None
    many = rows_of(*[pair(f"{i}", "b", "c") for i in range(40)])
    fitted = meaning(many, [np.array([1.0, 0.0])] * 30 + [np.array([0.0, 1.0])] * 10)
    assert fitted.scale.estimate == pytest.approx(1 / np.log(3))
