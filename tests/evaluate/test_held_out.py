"""Policies on the same held-out prompts: truth first, gains over SFT, and a verdict by the truth where it is known."""

import numpy as np
import pandas as pd
import pytest

from hs2lib.corpus import generate
from hs2lib.evaluate import held_out, response_rows
from hs2lib.paths import runs
from hs2lib.runs.setup import Setup
from hs2lib.train.recipes import Evaluation

SETUP = Setup("13_aligned_model_evaluation", "smoke", {}, Evaluation(n_boot=100))


def left(policy, truth, score):
    """What a notebook leaves of a policy's answers to three prompts."""
    ids = {"prompt": list("abc"), "response": ["a/0", "b/0", "c/0"], "settings": "one and the same"}
    return pd.DataFrame(
        ids | {"policy": policy, "truth": truth, "reward model's score": score, "characters": 10}
    )


@pytest.fixture
def saved(tmp_path, monkeypatch):
    """Leave rows as notebooks 07 and later do."""
    monkeypatch.setenv("HS2_RUNS", str(tmp_path))

    def save(*frames):
        for number, frame in enumerate(frames, 7):
            response_rows.save(runs() / "smoke" / f"{number:02}_made", frame)

    return save


SFT = left("SFT", np.array([2.0, 3.0, 4.0]), np.array([5.0, 5.0, 6.0]))
BETTER = left("DPO", np.array([3.0, 4.0, 5.0]), np.array([4.0, 4.0, 5.0]))
WORSE = left("PPO", np.array([1.0, 2.0, 3.0]), np.array([6.0, 6.0, 7.0]))


def test_each_policy_by_hand(saved):
    """DPO is 1 better in truth and 1 lower in score on every prompt; it wins all three."""
    saved(SFT, BETTER)
    beside = held_out.side_by_side(SETUP)
    order = ["truth", "reward model's score", "win rate over SFT by truth, %", "characters"]
    assert beside.truth_known and beside.means.measure.unique().tolist() == order
    means = beside.means.set_index(["measure", "policy"])["mean"]
    assert means["truth"].to_dict() == {"SFT": 3, "DPO": 4} and means[order[2]].to_dict() == {
        "DPO": 100
    }
    gains = beside.gains.set_index("measure").gain
    assert gains.to_dict() == {"truth": 1, "reward model's score": -1, "characters": 0}
    assert (
        beside.prompts.groups == ["a", "b", "c"]
        and beside.prompts.generated
        and len(beside.prompts.read) == 2
    )


def test_a_method_works_by_the_truth_and_not_by_the_score(saved):
    """PPO pleases the reward model and is worse: over-optimisation must not be called a success."""
    saved(SFT, BETTER, WORSE)
    helps, harms = held_out.sentences(held_out.side_by_side(SETUP))
    assert "DPO helps" in helps and "PPO harms" in harms


def greedy(frame, truth):
    """The rows of a policy with the truth of its greedy answers, sampled at temperature .7."""
    settings = "n 1, temperature 0.7, top-p 0.9"
    return frame.assign(**{"truth, greedy": truth, "settings": settings})


def test_two_numbers_for_each_policy_against_its_start_and_against_sft(saved):
    """Iterative DPO begins with DPO: greedy 1 below it, and 1 above SFT; sampled as DPO."""
    base = greedy(left("base", np.zeros(3), np.zeros(3)), 0.0)
    again = left("Iterative DPO", np.array([3.0, 4.0, 5.0]), np.zeros(3))
    saved(greedy(SFT, 3.0), greedy(BETTER, 5.0), greedy(again, 4.0))
    response_rows.save(runs() / "smoke" / "07_made", base, response_rows.BESIDE)
    beside = held_out.side_by_side(SETUP)
    gains = beside.gains.set_index(["measure", "policy", "against"]).gain.sort_index()
    assert gains["truth, greedy", "SFT", "base"] == 3
    assert gains["truth, greedy", "DPO", "SFT"] == 2
    assert gains["truth, greedy", "Iterative DPO"].to_dict() == {"DPO": -1, "SFT": 1}
    assert gains["truth", "Iterative DPO"].to_dict() == {"DPO": 0, "SFT": 1}
    assert "Iterative DPO harms" in held_out.sentences(beside)[-1], "its start decides"
    rows = held_out.by_temperature(beside)
    assert sorted(rows.temperature.unique()) == [0, 0.7] and len(rows) == 8


def test_a_gain_that_is_only_sampled_is_called_surer(saved):
    saved(greedy(SFT, 3.0), greedy(BETTER, 3.0))
    (line,) = held_out.sentences(held_out.side_by_side(SETUP))
    assert "surer" in line and "helps" not in line


def test_the_prompts_to_show_are_chosen_by_the_truth(saved):
    """The widest spread, then the largest loss among the others."""
    ids = [group.id for group in generate.groups(3, seed=1, split="validation")]

    def on(frame, truth):
        return greedy(frame, truth).assign(prompt=ids, response=ids)

    saved(on(SFT, [3.0, 3.0, 3.0]), on(BETTER, [6.0, 3.0, 2.0]))
    first, second = held_out.to_show(held_out.side_by_side(SETUP)).values()
    assert (first.id, second.id) == (ids[0], ids[2])
    assert held_out.to_show(held_out.side_by_side(SETUP), ["SFT"]) == {}, "DPO is not asked"


def test_prompts_and_rows_are_at_hand_to_ask_and_to_browse(saved):
    """Every policy's answer to each prompt once, though two notebooks left SFT's; without answers none."""
    assert held_out.prompts_of(held_out.side_by_side(SETUP)) == []
    groups = list(generate.groups(3, seed=1, split="validation"))
    ids = [group.id for group in groups]
    saved(*[frame.assign(prompt=ids, response=ids) for frame in (SFT, SFT, BETTER)])
    beside = held_out.side_by_side(SETUP)
    assert [group.prompt for group in held_out.prompts_of(beside)] == [g.prompt for g in groups]
    assert beside.rows.policy.tolist() == ["SFT"] * 3 + ["DPO"] * 3
    assert beside.rows.response.tolist() == ids * 2


def test_of_real_prompts_the_reward_model_alone_decides(saved):
    saved(SFT.drop(columns="truth"), WORSE.drop(columns="truth"))
    beside = held_out.side_by_side(SETUP)
    assert held_out.prompts_of(beside) == [], "of real prompts their ids alone are kept"
    assert not beside.truth_known and beside.means.measure.unique().tolist() == [
        "reward model's score",
        "characters",
    ]
    assert "PPO helps" in held_out.sentences(beside)[0]


def test_a_skipped_policy_is_nowhere(saved):
    saved(SFT, BETTER, WORSE)
    setup = Setup(SETUP.notebook, "smoke", {}, Evaluation(n_boot=100, skip=("PPO",)))
    assert set(held_out.side_by_side(setup).means.policy) == {"SFT", "DPO"}


def test_where_no_notebook_has_run_nothing_is_compared(saved):
    beside = held_out.side_by_side(SETUP)
    assert beside.prompts.groups == [] and beside.means.empty


def test_what_notebook_05_says_of_its_model_stands_beside_the_table(saved):
    """A score is worth what its model is worth: the reader learns it beside the numbers."""
    saved(SFT, BETTER)
    verdict = runs() / "smoke" / "05_reward_model_training" / "model" / "verdict.txt"
    verdict.parent.mkdir(parents=True)
    verdict.write_text("It is no better than chance.\n")
    beside = held_out.side_by_side(SETUP)
    assert beside.about_score == "It is no better than chance."
    assert len(beside.prompts.read) == 3
