"""The table of answers: each with its grade, whatever else is answered."""

import pytest

from hs2lib.evaluate import answers
from hs2lib.world import grade, sets
from hs2lib.world.cards import card_of

PROMPTS = list(sets.groups(3, 0, split="validation"))


def test_an_answer_has_its_text_its_counts_and_its_worth(tiny_policy):
    table = answers.answered(
        tiny_policy, PROMPTS, run="base", n=2, temperature=0.7, max_new_tokens=12, seed=1
    )
    assert table["prompt"].tolist() == [group.id for group in PROMPTS for _ in range(2)]
    assert table["sample"].tolist() == [0, 1] * 3
    assert set(table.run) == {"base"}
    for row in table.itertuples():
        card = card_of(row.prompt)
        counted = grade.count(card, row.text)
        assert (row.right, row.missing, row.garbled) == (
            counted.right,
            counted.missing,
            counted.garbled,
        )
        true = grade.true_ratings(card, row.text)
        assert row.true == pytest.approx(grade.goodness(true))
        assert row.verbosity == true[4]


def test_an_answer_does_not_depend_on_what_else_is_answered(tiny_policy):
    sampling = {"n": 2, "temperature": 0.7, "max_new_tokens": 12, "seed": 1}
    whole = answers.answered(tiny_policy, PROMPTS, run="base", **sampling)
    alone = answers.answered(tiny_policy, PROMPTS[1:2], run="base", **sampling)
    assert whole[whole["prompt"] == PROMPTS[1].id].text.tolist() == alone.text.tolist()
