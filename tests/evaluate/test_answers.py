"""The table of answers: each with its grade, whatever else is answered."""

import numpy as np
import pandas as pd
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


def test_gains_are_paired_by_prompt_and_by_temperature():
    rows = []
    for temperature, before, after in [(0.0, [1, 2, 3], [2, 4, 3]), (0.7, [1, 1, 1], [1, 1, 4])]:
        for run, values in {"SFT": before, "DPO": after}.items():
            for prompt, true in enumerate(values):
                rows.append(
                    {"run": run, "prompt": prompt, "temperature": temperature, "true": true}
                )
    found = answers.gains(pd.DataFrame(rows), "DPO", over="SFT")
    assert found.before.tolist() == [2, 1]
    assert found.gain.tolist() == [1, 1]
    half = 1.96 * np.std([1, 2, 0], ddof=1) / 3**0.5
    assert found.low[0.0] == pytest.approx(1 - half)
    assert found.high[0.0] == pytest.approx(1 + half)
