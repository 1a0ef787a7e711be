"""What a judge reads of answers: R, pairs and places by hand, and nothing of real prompts."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from hs2lib.align.iterative_dpo import SampledPairs
from hs2lib.corpus import generate
from hs2lib.corpus.grade import COSTS, true_goodness
from hs2lib.evaluate import judged
from hs2lib.evaluate.comparison import Comparison
from hs2lib.evaluate.judged import BY_JUDGE, BY_TRUTH, Judged
from hs2lib.group import Group, Response, Turn
from hs2lib.models.policy import load_policy
from hs2lib.models.reward_model import RewardModel
from hs2lib.runs.setup import Setup
from hs2lib.train.recipes import PPO

RESAMPLED = {"n_boot": 200, "seed": 0}


def groups(n: int) -> list[Group]:
    return [Group(str(k), (Turn("user", "?"),), (Response("", "a"),)) for k in range(n)]


def by_hand(scores: list, truth: list, name: str = "own") -> Judged:
    scores = np.array(scores, dtype=float)
    return Judged(name, groups(len(scores)), scores, np.array(truth, dtype=float))


def test_r_is_that_among_the_answers_to_one_prompt():
    """Less their prompt's mean, truth is -.5, .5, -1.5, 1.5 and the scores -.5, .5, .5, -.5."""
    one = by_hand([[3, 4], [9, 8]], [[0, 1], [2, 5]])
    assert one.agreement == pytest.approx((0.25 + 0.25 - 0.75 - 0.75) / np.sqrt(5.0))
    assert np.isnan(by_hand([[1, 1]], [[0, 1]]).agreement), "a judge that says nothing"


def test_the_table_counts_pairs_that_truly_differ():
    """Of three prompts one has no pair .5 apart, one is right, one a tie that counts half."""
    scores = [[0, 1], [0, 1], [2, 2]]
    truth = [[0, 0.4], [0, 1], [0, 3]]
    (row,) = judged.table([by_hand(scores, truth)], **RESAMPLED).to_dict("records")
    assert row["answers"] == "own" and row["prompts"] == 3 and row["answers per prompt"] == 2
    assert row["pairs"] == 2 and row["pairs right (%)"] == 75
    assert row["spread of truth"] == pytest.approx(np.sqrt((0.08 + 0.5 + 4.5) / 3))
    assert row["R, 95 % low"] <= row["R within a prompt"] <= row["R, 95 % high"]


def test_the_spread_is_the_one_that_stands_in_r():
    """Two answers or eight have one spread, and the formula for range restriction fits it exactly.

    By hand: scores are the truth plus a fixed error. Halving every truth halves the spread.
    Half of the prompts without any truth to see leave 1 / sqrt(2) of it, not half.
    """
    rng = np.random.default_rng(0)
    truth = rng.normal(size=(4000, 8))
    errors = rng.normal(size=truth.shape)
    eight = by_hand(truth + errors, truth)
    two = by_hand((truth + errors)[:, :2], truth[:, :2])
    assert two.spread == pytest.approx(eight.spread, rel=0.05)
    uneven = truth.copy()
    uneven[::2] = 0
    half = by_hand(uneven + errors, uneven)
    assert half.spread / eight.spread == pytest.approx(np.sqrt(0.5), rel=0.02)
    expected = judged.restricted(eight.agreement, half.spread / eight.spread)
    assert half.agreement == pytest.approx(expected, abs=0.02)
    mean_of_sds = half.truth.std(axis=1).mean() / eight.truth.std(axis=1).mean()
    assert judged.restricted(eight.agreement, mean_of_sds) < half.agreement - 0.1


def test_how_far_a_smaller_spread_lowers_r():
    """By hand: .6 at half of the spread is .3 / sqrt(.73) = .351; at the whole of it .6, at none 0."""
    assert judged.restricted(0.6, 0.5) == pytest.approx(0.3 / np.sqrt(0.73))
    assert judged.restricted(0.6, 1) == pytest.approx(0.6) and judged.restricted(0.6, 0) == 0


def test_the_answers_to_the_first_prompts():
    one = by_hand([[3, 4], [9, 8]], [[0, 1], [2, 5]]).first(1, "the first")
    assert one.name == "the first" and one.agreement == 1 and len(one.groups) == 1


def test_places_of_a_judge_that_is_wrong():
    """The judge turns the truth round, so its first is the truly last."""
    one = by_hand([[3, 2, 1]] * 4, [[0, 1, 5]] * 4)
    places = judged.places(one, **RESAMPLED)
    assert places[places["ordered by"] == BY_JUDGE].truth.tolist() == [0, 1, 5]
    assert places[places["ordered by"] == BY_TRUTH].truth.tolist() == [5, 1, 0]
    ends = judged.ends(one, **RESAMPLED)
    assert ends.truth.tolist() == [0, 5] and ends.difference.tolist() == [-2, 3]


def test_later_sets_are_compared_with_the_first_prompt_by_prompt():
    """R is 1 and then -1; sets of other prompts have no paired difference."""
    rated = by_hand([[0, 1]] * 20, [[0, 1]] * 20, "rated responses")
    table = judged.table([rated, by_hand([[1, 0]] * 20, [[0, 1]] * 20, "own")], **RESAMPLED)
    assert table["pairs right (%)"].tolist() == [100, 0]
    less = table["R minus the first row's"]
    assert np.isnan(less[0]) and less[1] == -2
    other = by_hand([[1, 0]] * 19, [[0, 1]] * 19, "of other prompts")
    table = judged.table([rated, other], **RESAMPLED)
    assert table[list(judged.LESS)].iloc[1].isna().all()


@pytest.fixture(scope="module")
def faulty() -> list[Group]:
    """Prompts with a faultless answer and one whose last sentence is gone."""
    made = []
    for group in generate.groups(12, seed=3, split="train"):
        best = generate.without_faults(group).responses[0].text
        texts = (best, best.rsplit(".", 2)[0] + ".")
        pair = tuple(Response(f"{group.id}/{k}", text) for k, text in enumerate(texts))
        truth = true_goodness(replace(group, responses=pair))
        if truth[0] > truth[1]:
            made.append(replace(group, responses=pair))
    return made


def test_pairs_of_which_the_judge_takes_the_worse_come_worst_first(faulty):
    scores = np.array([[0.0, 1.0]] * len(faulty))
    scores[0] = (1.0, 0.0)  # this one is right
    own = judged.of_round("own", SampledPairs(faulty, scores, [], {}))
    mistakes = judged.misjudged(own)
    assert len(mistakes) == len(faulty) - 1
    lost = []
    for group, (chosen, rejected) in mistakes:
        assert chosen.score > rejected.score and chosen.policy == "chosen by the reward model"
        texts = (Response("", chosen.text), Response("", rejected.text))
        truth = true_goodness(replace(group, responses=texts))
        lost.append(truth[1] - truth[0])
    assert min(lost) > 0 and lost == sorted(lost, reverse=True)
    right = judged.well_judged(own)
    assert [group.id for group, _ in right] == [faulty[0].id]
    parts = judged.overlooked(mistakes, right)
    assert parts[judged.RIGHTLY].sum() > 0, "the rejected one of the right pair loses more"
    assert judged.overlooked(mistakes, [])[judged.RIGHTLY].isna().all()
    assert set(parts.part) == set(COSTS) and parts.difference.is_monotonic_decreasing
    assert parts.difference.sum() == pytest.approx(np.mean(lost))
    shown = judged.as_answers(SampledPairs(faulty, scores, [], {}), prompt=1, most=5)
    assert [answer.score for answer in shown] == [0, 1]


def test_of_real_prompts_nobody_knows_the_truth():
    real = [Group("real", (Turn("user", "Hi"),), (Response("", "a"), Response("", "b")))]
    assert judged.judge("rated", real, None, None) is None
    assert judged.of_round("own", SampledPairs(real, np.zeros((1, 2)), [], {})) is None


def test_one_answer_to_a_prompt_is_refused(faulty):
    single = [replace(faulty[0], responses=faulty[0].responses[:1])]
    with pytest.raises(ValueError, match="own: "):
        judged.judge("own", single, None, None)


def measured(n: int, **changes) -> SimpleNamespace:
    """A comparison with two policies' rows on three prompts, the second prompt first; n answers to each."""
    prompts = list(generate.groups(3, seed=1, split="validation"))
    rows = []
    for policy in ("SFT", "PPO"):
        for number in (1, 0, 2):
            for k in range(n):
                row = {"policy": policy, "prompt": prompts[number].id}
                row |= {"response": f"{prompts[number].id}/{k}", "text": f"{policy} {number} {k}"}
                score = 10.0 * number - k if policy == "PPO" else 0.0
                rows.append(row | {"truth": float(number + k), "reward model's score": score})
    frame = pd.DataFrame(rows).assign(**changes)
    return SimpleNamespace(truth_known=True, frames=[frame], prompts=prompts)


def test_what_was_measured_is_judged_as_it_is():
    """By hand: prompt 1 has truth 1, 2, 3 and PPO's scores 10, 9, 8; the prompts come in their own order."""
    one = judged.of_policy("PPO's answers", None, measured(3), measured="PPO")
    assert one.truth.tolist() == [[0, 1, 2], [1, 2, 3], [2, 3, 4]]
    assert one.scores.tolist() == [[0, -1, -2], [10, 9, 8], [20, 19, 18]]
    assert one.agreement == pytest.approx(-1)
    assert [answer.text for answer in one.groups[1].responses] == ["PPO 1 0", "PPO 1 1", "PPO 1 2"]
    assert [group.prompt for group in one.groups] == [group.prompt for group in measured(3).prompts]


@pytest.mark.parametrize(
    "compared",
    [measured(1), measured(2, policy="DPO"), measured(2, text=None), SimpleNamespace(frames=[])],
    ids=["one answer", "not measured", "rows without texts", "no rows"],
)
def test_what_was_not_measured_twice_is_sampled(compared):
    """Smoke measures one answer to each prompt, and one has no order."""
    assert judged._measured(compared, "PPO") is None


def test_measured_rows_and_sampled_answers_are_judged_alike(tmp_path):
    """The same seed gives the same answers, so that the row's numbers are those of a second look."""
    recipe = PPO(n_eval_prompts=6, n_eval_samples=2, eval_tokens=12)
    setup = Setup("10_ppo", "smoke", {}, recipe, place=tmp_path)
    policy = load_policy("small")
    compared = Comparison.begin(setup, RewardModel.new("tiny").eval(), policy, earlier=False)
    compared.evaluate(policy, "SFT")
    read = judged.of_policy("SFT's answers", policy, compared, measured="SFT")
    again = judged.of_policy("SFT's answers", policy, compared)
    assert [group.prompt for group in read.groups] == [group.prompt for group in again.groups]
    for one, other in zip(read.groups, again.groups, strict=True):
        assert [answer.text for answer in one.responses] == [x.text for x in other.responses]
    np.testing.assert_allclose(read.truth, again.truth)
    np.testing.assert_allclose(read.scores, again.scores, rtol=1e-5)


def test_an_r_that_may_be_anything_is_not_compared():
    """Neither a set's own nor the first one's."""
    columns = ["answers", *judged.R, *judged.LESS, judged.RIGHT[0]]
    clear = [0.5, 0.4, 0.6, 0.1, 0.05, 0.15, 60]
    anything = [0.9, -0.99, 1.0, 1.6, 0.3, 3.0, 60]
    for first, second, is_compared in (
        (clear, clear, True),
        (clear, anything, False),
        (anything, clear, False),
    ):
        table = pd.DataFrame([["A", *first], ["B", *second]], columns=columns)
        (text,) = judged.sentences(table)
        assert ("higher" in text) == is_compared
