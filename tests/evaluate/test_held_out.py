"""Policies on the same held-out prompts: truth first, gains over SFT, and a verdict by the truth where it is known."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from hs2lib.corpus import generate
from hs2lib.evaluate import held_out, response_rows
from hs2lib.paths import runs
from hs2lib.run.setup import Setup
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
    assert held_out.above(beside) == "By the truth, sampled, shown above SFT: DPO"
    assert held_out.ties(beside) == (
        "Prompts that tie with SFT and count half in the win rate: DPO 0 %."
    )
    assert beside.caption == "All policies on 3 held-out prompts: one and the same."
    assert (
        beside.prompts.groups == ["a", "b", "c"]
        and beside.prompts.generated
        and len(beside.prompts.read) == 2
    )


def test_a_method_works_by_the_truth_and_not_by_the_score(saved):
    """PPO pleases the reward model and is worse: over-optimisation must not be called a success."""
    saved(SFT, BETTER, WORSE)
    helps, harms = held_out.sentences(held_out.side_by_side(SETUP))
    assert helps.startswith(
        "**DPO helps** in this run by the truth, against SFT: sampled +1.00 [+1.00, +1.00]."
    )
    assert harms.startswith("**PPO harms")


def test_the_gap_of_score_and_truth_is_beside_the_bases(saved):
    """By hand: the gap is 2, 2, 2 for SFT, 5, 4, 4 for PPO, and 1 for the base."""
    above = left("PPO", np.array([1.0, 2.0, 3.0]), np.array([6.0, 6.0, 7.0]))
    saved(left("SFT", np.array([2.0, 3.0, 4.0]), np.array([4.0, 5.0, 6.0])), above)
    words = held_out.gaps_in_words(held_out.side_by_side(SETUP))
    assert words.startswith("Mean score less truth, sampled answers: SFT +2.00 [+2.00, +2.00], PPO")
    base = left("base", np.array([3.0, 4.0, 5.0]), np.array([4.0, 5.0, 6.0]))
    response_rows.save(runs() / "smoke" / "07_made", base, response_rows.BESIDE)
    beside = held_out.side_by_side(SETUP)
    words = held_out.gaps_in_words(beside)
    assert "the base's is +1.00. Less the base's: SFT +1.00 [+1.00, +1.00], PPO +3.33 [+" in words
    assert words.endswith("Where an interval leaves out 0, training changed the gap.")
    assert "untrained" not in words, "the base was trained, though not by notebooks 07 to 12"
    assert held_out.gaps_in_words(replace(beside, truth_known=False)) == ""
    assert held_out.gaps_in_words(replace(beside, rows=beside.rows.iloc[:0])) == ""
    assert held_out.gaps_in_words(replace(beside, rows=pd.DataFrame())) == ""


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
    table = held_out.over_start_and_sft(beside).set_index("policy")
    assert table.start.to_dict() == {
        "base": "–",
        "SFT": "base",
        "DPO": "SFT",
        "Iterative DPO": "DPO",
    }
    row = table.loc["Iterative DPO"]
    assert row["greedy, less start"] == "-1.00 [-1.00, -1.00]"
    assert row["greedy, less SFT"] == "+1.00 [+1.00, +1.00]"
    assert row["sampled at 0.7, less start"] == "+0.00 [+0.00, +0.00]"
    assert table.loc["SFT", "greedy, less start"] == "+3.00 [+3.00, +3.00]"
    assert held_out.sentences(beside)[-1].startswith("**Iterative DPO harms")
    assert held_out.largest(beside) == (
        "**How large.** Over SFT, greedy: DPO +2.00 [+2.00, +2.00], "
        "Iterative DPO +1.00 [+1.00, +1.00]."
    )
    assert held_out.above(beside) == (
        "By the truth, greedy, shown above SFT: DPO, Iterative DPO. "
        "Differences shown among these: DPO above Iterative DPO"
    )
    rows = held_out.by_temperature(beside)
    assert sorted(rows.temperature.unique()) == [0, 0.7] and len(rows) == 8


def test_what_a_lower_temperature_gives_has_an_interval(saved):
    """By hand: greedy 5 less a sampled truth of 2, 3 and 4 is 3, 2 and 1, so 2 on average."""
    saved(greedy(SFT, 5.0))
    (line,) = held_out.surer(held_out.side_by_side(SETUP))
    assert line.startswith("From temperature 0.7 to greedy the truth changes by: SFT +2.00 [")
    assert line.endswith("]. Each is paired by prompt.")


def test_a_gain_that_is_only_sampled_is_called_surer(saved):
    saved(greedy(SFT, 3.0), greedy(BETTER, 3.0))
    (line,) = held_out.sentences(held_out.side_by_side(SETUP))
    assert line.startswith("**DPO only makes surer** in this run by the truth")


def test_the_prompts_to_show_are_chosen_by_the_truth(saved):
    """The widest spread, then the largest loss among the others."""
    ids = [group.id for group in generate.groups(3, seed=1, split="validation")]

    def on(frame, truth):
        return greedy(frame, truth).assign(prompt=ids, response=ids)

    saved(on(SFT, [3.0, 3.0, 3.0]), on(BETTER, [6.0, 3.0, 2.0]))
    first, second = held_out.to_show(held_out.side_by_side(SETUP)).items()
    assert "from 3.00 (SFT) to 6.00 (DPO)" in first[0] and first[1].id == ids[0]
    assert "DPO has 2.00, SFT 3.00" in second[0] and second[1].id == ids[2]
    assert held_out.to_show(held_out.side_by_side(SETUP), ["SFT"]) == {}, "DPO is not asked"


def test_what_the_seeds_show_otherwise_stands_beside_what_this_run_shows(saved, monkeypatch):
    """PPO is worse in this seed; the seeds show a gain, no effect, or the same loss."""
    saved(SFT, WORSE)
    beside = held_out.side_by_side(SETUP)
    opposite = " The seeds show the opposite."
    no_loss = " The seeds do not show a loss."
    for sign, words in ((1, opposite), (0, no_loss), (-1, ""), (None, "")):
        monkeypatch.setattr(held_out.published, "sign", lambda method, sign=sign: sign)
        (line,) = held_out.sentences(beside)
        assert line.startswith("**PPO harms** in this run by the truth")
        assert [text for text in (opposite, no_loss) if text in line] == [words] * bool(words)


def test_a_tie_with_sft_counts_half_and_is_counted(saved):
    """By hand: on one of three prompts both have a truth of 3."""
    saved(SFT, left("DPO", np.array([3.0, 3.0, 5.0]), np.zeros(3)))
    assert "DPO 33 %" in held_out.ties(held_out.side_by_side(SETUP))


def test_policies_stand_apart_by_prompt_and_not_by_two_intervals(saved):
    """On each prompt PPO is .5 worse than DPO: their intervals overlap, and that of the difference is clear."""
    ids = [group.id for group in generate.groups(3, seed=1, split="validation")]
    third = left("SteerLM", np.array([3.0, 4.0, 5.0]), np.zeros(3))
    frames = [
        greedy(SFT, [0.0, 2.0, 4.0]),
        greedy(BETTER, [2.0, 4.0, 6.0]),
        greedy(WORSE, [1.5, 3.5, 5.5]),
        greedy(third, [1.0, 4.0, 6.5]),
    ]
    saved(*[frame.assign(prompt=ids, response=ids) for frame in frames])
    beside = held_out.side_by_side(SETUP)
    assert held_out.above(beside) == (
        "By the truth, greedy, shown above SFT: DPO, PPO. "
        "Differences shown among these: DPO above PPO"
    )
    words = held_out.apart_in_words(beside)
    assert words == "Among these, paired by prompt: DPO less PPO +0.50 [+0.50, +0.50]."
    again = replace(beside, rows=beside.rows.replace({"policy": {"PPO": "DPO, iteration 1"}}))
    assert held_out.above(again).endswith("above SFT (earlier iterations left out): DPO")
    assert held_out.apart_in_words(again) == ""


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
    assert held_out.sentences(beside)[0].startswith(
        "**PPO helps** in this run by the reward model alone"
    )


def test_a_skipped_policy_is_nowhere(saved):
    saved(SFT, BETTER, WORSE)
    setup = Setup(SETUP.notebook, "smoke", {}, Evaluation(n_boot=100, skip=("PPO",)))
    assert set(held_out.side_by_side(setup).means.policy) == {"SFT", "DPO"}


def test_where_no_notebook_has_run_nothing_is_compared(saved):
    beside = held_out.side_by_side(SETUP)
    assert beside.prompts.groups == [] and beside.means.empty
    assert held_out.sentences(beside) == [
        "No policy has left answers to held-out prompts at this tier."
    ]


def test_what_notebook_05_says_of_its_model_stands_beside_the_table(saved):
    """A score is worth what its model is worth: the reader learns it beside the numbers."""
    saved(SFT, BETTER)
    verdict = runs() / "smoke" / "05_reward_model_training" / "model" / "verdict.txt"
    verdict.parent.mkdir(parents=True)
    verdict.write_text("It is no better than chance.\n")
    beside = held_out.side_by_side(SETUP)
    assert beside.about_score == "It is no better than chance."
    assert len(beside.prompts.read) == 3
