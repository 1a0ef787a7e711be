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
from hs2lib.run.setup import Setup
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


def test_a_reader_sees_a_number_with_its_interval_in_a_cell():
    rated = by_hand([[0, 1], [1, 0], [0, 2]] * 5, [[0, 1]] * 15, "SFT's answers")
    table = judged.table([rated, replace(rated, name="PPO's answers")], **RESAMPLED)
    shown = judged.shown(table)
    assert list(shown) == [
        "answers",
        "prompts",
        "answers per prompt",
        "R within a prompt",
        "R minus R of SFT's answers",
        "pairs",
        "pairs right (%)",
        "spread of truth",
    ]
    first, second = shown.to_dict("records")
    low, high = table.iloc[0][["R, 95 % low", "R, 95 % high"]]
    assert first["R within a prompt"] == f"{rated.agreement:.2f} [{low:.2f}, {high:.2f}]"
    assert first["R minus R of SFT's answers"] == "\u2013"
    assert second["R minus R of SFT's answers"] == "0.00 [0.00, 0.00]"
    assert first["pairs right (%)"].startswith("67 [")


def test_how_much_of_a_lower_r_is_a_smaller_spread():
    """By hand: .6 at half of the spread is .3 / sqrt(.73) = .351; at the whole of it .6, at none 0."""
    assert judged.restricted(0.6, 0.5) == pytest.approx(0.3 / np.sqrt(0.73))
    assert judged.restricted(0.6, 1) == pytest.approx(0.6) and judged.restricted(0.6, 0) == 0
    row = {"answers": "SFT's", "R within a prompt": 0.6, "R, 95 % low": 0.5, "R, 95 % high": 0.7}
    row |= {"spread of truth": 1.0, **dict.fromkeys(judged.LESS, np.nan)}
    less = {"answers": "PPO's", "R within a prompt": 0.1, "R, 95 % low": 0.0, "R, 95 % high": 0.2}
    less |= dict(zip(judged.LESS, (-0.5, -0.7, -0.3), strict=True)) | {"spread of truth": 0.5}
    (sentence,) = judged.spread_in_words(pd.DataFrame([row, less]))
    assert sentence == (
        "The truth spreads less among PPO's (SD 0.50 after 1.00). By the formula for range "
        "restriction that alone lowers R from 0.60 to about 0.35, and R is 0.10 (0.00 to 0.20). "
        "That alone does not explain it."
    )
    unsure = less | {"R, 95 % high": 0.4}
    assert judged.spread_in_words(pd.DataFrame([row, unsure]))[0].endswith("may explain it.")
    not_shown = less | {judged.LESS[2]: 0.1}
    assert judged.spread_in_words(pd.DataFrame([row, not_shown])) == [], "R may be as high"
    wider = less | {"spread of truth": 1.5}
    assert judged.spread_in_words(pd.DataFrame([row, wider])) == []


def test_what_a_judge_sees_of_two_sets():
    """By hand, R as above: .6 falls to .1; half of the spread alone would leave .351."""
    rated = {"answers": "rated ones", "spread of truth": 1.0, **dict.fromkeys(judged.LESS, np.nan)}
    rated |= dict(zip(judged.R, (0.6, 0.5, 0.7), strict=True))
    rated |= dict(zip(judged.RIGHT, (86.0, 80.0, 90.0), strict=True))
    own = rated | {"answers": "its own", "spread of truth": 0.5}
    own |= dict(zip(judged.R, (0.1, 0.0, 0.2), strict=True))
    own |= dict(zip(judged.RIGHT, (51.0, 40.0, 63.0), strict=True))
    pairs, falls = judged.seen_in_words(pd.DataFrame([rated, own]))
    assert pairs == (
        "The judge orders pairs whose truth differs by 0.5 or more. Among rated ones it has 86 % "
        "right (80 to 90). Among its own it has 51 % right (40 to 63). Chance is 50 %."
    )
    words = "R also falls, from 0.60 to 0.10"
    assert falls == f"{words}, and a smaller spread alone does not explain that."
    unsure = own | {"R, 95 % high": 0.4}
    falls = judged.seen_in_words(pd.DataFrame([rated, unsure]))[1]
    assert falls == f"{words}, but a smaller spread may explain that alone."
    as_wide = own | {"spread of truth": 1.0}
    falls = judged.seen_in_words(pd.DataFrame([rated, as_wide]))[1]
    assert falls == f"{words}, and the truth spreads no less."
    assert len(judged.seen_in_words(pd.DataFrame([rated, rated]))) == 1, "R does not fall"


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
    assert judged.title(one, ends).endswith("beside a sample at random: -2.00 points")
    doubtful = ends.assign(**{"95 % low": -3.0, "95 % high": 1.0})
    assert judged.title(one, doubtful).endswith("-2.00 points (not shown)")
    words, favourite, last = judged.in_words(one, ends)
    assert "favourite of 3 has a truth of 0.00, the mean sample 2.00, the last 5.00" in words
    assert "**worse than** a sample at random (-2.00" in favourite
    assert "last is **better than** a sample at random (+3.00" in last
    right = by_hand([[0, 1, 5]] * 4, [[0, 1, 5]] * 4)
    _, favourite, last = judged.in_words(right, judged.ends(right, **RESAMPLED))
    assert "is better than a sample" in favourite and "is worse than a sample" in last


def test_the_sentences_set_later_sets_beside_the_first():
    rated = by_hand([[0, 1]] * 20, [[0, 1]] * 20, "rated responses")
    table = judged.table([rated, by_hand([[1, 0]] * 20, [[0, 1]] * 20, "own")], **RESAMPLED)
    assert judged.pairs_in_words(table).startswith(
        "Pairs of truly different answers in the reward model's right order: rated responses 100 % ("
    )
    (sentence,) = judged.sentences(table)
    assert sentence.startswith("own: R -1.00") and "**lower than** the 1.00 of rated" in sentence
    assert "(paired -2.00, -2.00 to -2.00)" in sentence
    less = table["R minus the first row's"]
    assert np.isnan(less[0]) and less[1] == -2
    other = by_hand([[1, 0]] * 19, [[0, 1]] * 19, "of other prompts")
    table = judged.table([rated, other], **RESAMPLED)
    assert np.isnan(table["R minus, 95 % low"][1])
    assert "lower than" in judged.sentences(table)[0] and "paired" not in judged.sentences(table)[0]


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
    words = judged.overlooked_in_words(parts)
    assert "it loses most by habits" in words
    by_habits = parts.set_index("part").loc["habits", judged.RIGHTLY]
    assert f"rejected sample loses {by_habits:.2f} points more by habits" in words
    alone = judged.overlooked_in_words(judged.overlooked(mistakes, []))
    assert "rightly ordered" not in alone
    parts.loc[parts.part == "ends at 0", "difference"] = 9.0  # given back by the other one
    parts = parts.sort_values("difference", ascending=False)
    assert "it loses most by habits" in judged.overlooked_in_words(parts)
    shown = judged.as_answers(SampledPairs(faulty, scores, [], {}), prompt=1, most=5)
    assert [answer.score for answer in shown] == [0, 1]


def test_of_real_prompts_nobody_knows_the_truth():
    real = [Group("real", (Turn("user", "Hi"),), (Response("", "a"), Response("", "b")))]
    assert judged.judge("rated", real, None, None) is None
    assert judged.of_round("own", SampledPairs(real, np.zeros((1, 2)), [], {})) is None


def test_one_answer_to_a_prompt_is_refused(faulty):
    single = [replace(faulty[0], responses=faulty[0].responses[:1])]
    with pytest.raises(ValueError, match="two or more answers"):
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


@pytest.mark.slow
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
    too_few = "B: too few answers to say whether R differs from the first set's."
    for first, second in ((clear, anything), (anything, clear)):
        table = pd.DataFrame([["A", *first], ["B", *second]], columns=columns)
        assert judged.sentences(table) == [too_few]
    table = pd.DataFrame([["A", *clear], ["B", *clear]], columns=columns)
    assert "higher than the 0.50 of A" in judged.sentences(table)[0]
