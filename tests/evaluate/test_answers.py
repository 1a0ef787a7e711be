"""The table of answers: each with its grade, whatever else is answered."""

import json

import numpy as np
import pandas as pd
import pytest

from hs2lib.evaluate import answers
from hs2lib.group import Group, Turn
from hs2lib.models.reward_model import RewardModel
from hs2lib.runs.setup import Setup
from hs2lib.train.recipes import DPO
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


def test_gains_in_another_measure():
    rows = []
    for run, values in {"SFT": [1, 2], "DPO": [4, 3]}.items():
        for prompt, judge in enumerate(values):
            rows.append({"run": run, "prompt": prompt, "temperature": 0.0, "judge": judge})
    found = answers.gains(pd.DataFrame(rows), "DPO", over="SFT", measure="judge")
    assert found.gain.tolist() == [2]


def test_an_answer_to_a_real_prompt_has_its_length_and_the_judges_weighted_score(tiny_policy):
    prompts = [Group("mine/1", (Turn("user", "What is gold?"),), (), source="a file")]
    judge = RewardModel.new("tiny", attributes=["quality", "humor"], seed=1)
    sampling = {"run": "base", "max_new_tokens": 12, "n": 2, "temperature": 0.7, "judge": judge}
    by_quality, by_humor, by_both = (
        answers.answered(tiny_policy, prompts, weighting=weighting, **sampling)
        for weighting in ("quality:1", "humor:1", "quality:2,humor:-1")
    )
    assert "true" not in by_both and "missing" not in by_both
    assert by_both.words.tolist() == [len(text.split()) for text in by_both.text]
    np.testing.assert_allclose(by_both.judge, 2 * by_quality.judge - by_humor.judge, rtol=1e-6)


def held_out(folder, **settings):
    """The held-out prompts of a DPO with these settings."""
    setup = Setup("08_dpo", "laptop", {}, DPO(seed=3, **settings), folder)
    return answers.held_out_prompts(setup, 5)


def test_generated_prompts_are_held_out_of_generated_rows(tmp_path):
    expected = list(sets.groups(5, seed=203, split="validation"))
    found = held_out(tmp_path, source="postcards")
    assert found.groups == expected and found.generated
    # own rows at a tier of the small world, whose recipe names no real prompts
    assert held_out(tmp_path, source="folder", path="my.csv").groups == expected


def test_real_prompts_are_those_that_the_recipe_names(tmp_path, monkeypatch):
    rows = [{"input": f"{i}?", "response_a": "a", "response_b": "b"} for i in range(4)]
    file = tmp_path / "helpsteer2" / "validation_pairs_unrated.jsonl"
    file.parent.mkdir()
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    monkeypatch.setenv("HS2_DATA_DIR", str(tmp_path))
    named = {"eval_dataset": "helpsteer2-unrated", "eval_source": "folder", "eval_split": "both"}
    found = held_out(tmp_path, source="folder", n_eval_prompts=3, **named)
    assert [group.prompt[-1].text for group in found.groups] == ["0?", "1?", "2?"]
    assert not found.generated and found.read
