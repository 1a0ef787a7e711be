"""What is said of rounds: by hand on a few texts, by the truth where it is known and not where it is not."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch

from hs2lib.align import ppo
from hs2lib.align.iterative_dpo import Round, SampledPairs, slices, train
from hs2lib.corpus import generate
from hs2lib.corpus.grade import true_goodness
from hs2lib.evaluate import by_round
from hs2lib.evaluate.comparison import Comparison
from hs2lib.evaluate.response_rows import SCORE, TRUTH
from hs2lib.group import Group, Response, Turn
from hs2lib.models.policy import load_policy
from hs2lib.models.reward_model import RewardModel
from hs2lib.models.rollout import Sample
from hs2lib.run.setup import Setup
from hs2lib.train.items import best_worst_pairs
from hs2lib.train.recipes import PPO, IterativeDPO
from hs2lib.train.trainer import TrainingResult

RECIPE = IterativeDPO(n_boot=100)


def scored(groups: list[Group], scores: list[list[float]]) -> SampledPairs:
    """Samples with these scores, and the pairs of them."""
    samples = []
    for group in groups:
        texts = [Sample(response.id, response.text, finished=True) for response in group.responses]
        samples.append(replace(group, responses=tuple(texts)))
    scores = np.array(scores)
    pairs, counts = best_worst_pairs(samples, scores.ravel())
    return SampledPairs(samples, scores, pairs, counts)


def real(*texts: str) -> Group:
    responses = tuple(Response(f"real/{i}", text) for i, text in enumerate(texts))
    return Group("real", (Turn("user", "Hi"),), responses)


@pytest.fixture(scope="module")
def generated() -> list[Group]:
    """Generated prompts whose two responses truly differ, with the better one first."""
    out = []
    for group in generate.groups(40, seed=3):
        truth = true_goodness(group)
        if truth[0] != truth[1]:
            order = np.argsort(-truth)
            out.append(replace(group, responses=tuple(group.responses[i] for i in order)))
    return out[:8]


def test_scores_that_count_characters_are_seen_through():
    """Lengths 1, 2, 3 with scores that rise by 2 a character: R is 1, whatever each prompt's own level."""
    sampled = scored(
        [real("a", "bb", "ccc"), real("a", "bb", "ccc")], [[1.0, 3.0, 5.0], [11.0, 13.0, 15.0]]
    )
    table = by_round.by_length(sampled, **RECIPE.resampled)
    assert table.value.tolist() == [pytest.approx(1), 100]
    samples = [real("a", "bb", "ccc"), real("d", "ee", "fff")]
    shorter = by_round.by_length(scored(samples, [[5.0, 3.0, 1.0]] * 2), **RECIPE.resampled)
    assert shorter.value.tolist() == [pytest.approx(-1), 0]
    alike = scored([real("aa", "b", "cc")] * 2, [[5.0, 3.0, 1.0]] * 2)
    assert by_round.by_length(alike, **RECIPE.resampled).value[by_round.LONGER] == 50


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        (55.0, 70.0, "So the pairs teach length to some degree."),
        (30.0, 45.0, "So the pairs teach to be short to some degree."),
        (45.0, 70.0, "So it is not shown that the pairs teach length."),
    ],
)
def test_a_lesson_in_length_is_one_where_the_interval_leaves_one_half(low, high, words):
    middle = (low + high) / 2
    rows = {by_round.CORRELATION: (0.3, 0.2, 0.4), by_round.LONGER: (middle, low, high)}
    columns = ["value", "95 % low", "95 % high"]
    table = pd.DataFrame.from_dict(rows, orient="index", columns=columns)
    correlated, longer, lesson = by_round.length_in_words(table)
    assert correlated == "Score and length: R 0.30 (0.20 to 0.40)."
    assert f"({low:.0f} to {high:.0f})" in longer
    assert lesson.startswith(words)


def test_picks_by_hand(generated):
    """Six of eight pairs in the right order: 75 %, and the means are those of the grader."""
    scores = [[1.0, 0.0]] * 6 + [[0.0, 1.0]] * 2
    picks = by_round.picks(scored(generated, scores), RECIPE)
    truth = np.array([true_goodness(group) for group in generated])
    chosen = np.concatenate([truth[:6, 0], truth[6:, 1]])
    rejected = np.concatenate([truth[:6, 1], truth[6:, 0]])
    expected = [truth.mean(), chosen.mean(), rejected.mean(), truth[:, 0].mean()]
    np.testing.assert_allclose(picks.table[TRUTH], expected)
    assert (
        picks.n_differ == 8
        and picks.right.estimate == 75
        and 0 < picks.right.low < 75 < picks.right.high < 100
    )
    assert picks.caption.startswith(
        "The first round; of 8 pairs that truly differ 75 % (95 % interval "
    )
    assert picks.caption.endswith("right order. Intervals are over prompts.")
    counted, gap = picks.counted
    assert counted == (
        "Of 8 pairs 6 are in the right order, 2 in the wrong one, and 0 are truly equal."
    )
    assert f": {chosen.mean() - rejected.mean():+.2f} points of truth (" in gap
    assert (
        "ordered 75 % " in picks.sentences[0]
        and f"over ones of {rejected.mean():.2f}" in picks.sentences[0]
    )


def test_of_real_prompts_no_sentence_is_about_the_truth():
    sampled = scored([real("a", "bb")], [[0.0, 1.0]])
    assert by_round.picks(sampled, RECIPE) is None
    assert np.isnan(by_round.truth_of_responses(sampled.groups)).tolist() == [True, True]
    (row,) = by_round.table([played(sampled)]).to_dict("records")
    assert not [name for name in row if "truth" in name] and row["round"] == 1 and row["steps"] == 2


def played(sampled: SampledPairs) -> Round:
    history = [{"loss": 0.7, "step": 1}, {"loss": 0.6, "step": 2}]
    return Round(sampled, [], TrainingResult(history, 2, float("nan"), 2, 0.0, Path()))


def test_a_row_a_round_by_the_truth_first(generated):
    sampled = scored(generated, [[1.0, 0.0]] * 8)
    table = by_round.table([played(sampled), played(sampled)])
    truth = np.array([true_goodness(group) for group in generated])
    assert table.columns[:3].tolist() == ["round", "truth, mean", "truth, chosen less rejected"]
    np.testing.assert_allclose(table["truth, mean"], truth.mean())
    np.testing.assert_allclose(
        table["truth, chosen less rejected"], (truth[:, 0] - truth[:, 1]).mean()
    )
    assert table["best reward model's score"].tolist() == [1, 1] and table["round"].tolist() == [
        1,
        2,
    ]
    losses, scores = by_round.curves([played(sampled)])
    assert losses["round 1"].tolist() == [0.7, 0.6] and scores["round 1"].shape == (8, 2)


def gained(truth: tuple[float, float], score: tuple[float, float]) -> pd.DataFrame:
    """Two rounds; intervals of the last one."""
    rows = []
    for measure, (low, high) in {TRUTH: truth, SCORE: score}.items():
        rows += [
            (measure, "round 1", 0.0, -1.0, 1.0),
            (measure, "round 2", (low + high) / 2, low, high),
        ]
    return pd.DataFrame(rows, columns=["measure", "policy", "minus start", "95 % low", "95 % high"])


@pytest.mark.parametrize(
    ("truth", "score", "words"),
    [
        (
            (0.1, 0.3),
            (0.2, 0.4),
            "the answers are truly better (truth +0.20, +0.10 to +0.30; "
            "reward model's score +0.30, +0.20 to +0.40). That is one seed, sampled so, with",
        ),
        ((-0.1, 0.3), (0.2, 0.4), "the answers are not shown to be truly better (truth +0.10"),
        (
            (-0.3, -0.1),
            (0.2, 0.4),
            "truly worse while the reward model likes them better: over-optimisation (",
        ),
        ((-0.3, -0.1), (-0.2, 0.4), "**it does not work here**, the answers are truly worse ("),
    ],
)
def test_the_sentence_says_what_the_intervals_do(truth, score, words):
    (sentence,) = by_round.sentences(gained(truth, score), "so")
    assert words in sentence
    parts = []
    for measure, (low, high) in {TRUTH: truth, SCORE: score}.items():
        unclear = " (not shown)" if low < 0 < high else ""
        parts.append(f"{measure} {(low + high) / 2:+.2f}{unclear}")
    title = by_round.title(gained(truth, score))
    assert title == f"After the last round, sampled, points: {', '.join(parts)}"
    only_scored = gained(truth, score)
    assert by_round.sentences(only_scored[only_scored.measure == SCORE], "so") == []


def test_what_changed_besides_the_truth():
    """By hand: a score of .3 more is shown, a truth of .1 more is not, and 12 characters fewer are."""
    risen = gained((-0.1, 0.3), (0.2, 0.4))
    assert by_round.changed_in_words(risen, "so") == (
        "Sampled so, they score 0.30 higher (0.20 to 0.40). No change of their truth is shown."
    )
    characters = ("characters", "round 2", -12.0, -17.0, -7.0)
    rows = pd.DataFrame([characters], columns=risen.columns)
    shorter = pd.concat([risen[risen.measure == TRUTH], rows])
    assert by_round.changed_in_words(shorter, "so").startswith(
        "Sampled so, answers are 12 characters shorter (7 to 17)."
    )
    assert by_round.changed_in_words(gained((-0.1, 0.3), (-0.2, 0.4)), "so") == ""


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        (0.1, 0.2, "**PPO's answers are truly better than SFT's here**"),
        (-0.1, 0.2, "**PPO's answers are not shown to be truly better than SFT's here**"),
        (-0.2, -0.1, "**PPO's answers are truly worse than SFT's here**"),
    ],
)
def test_the_verdict_on_a_policy(low, high, words):
    gains = pd.DataFrame(
        [(TRUTH, "PPO", 0.0, low, high), (TRUTH, "DPO", 0.0, 1.0, 2.0)],
        columns=["measure", "policy", "minus SFT", "95 % low", "95 % high"],
    )
    (sentence,) = by_round.verdict(gains, "PPO")
    assert sentence.startswith(words) and "one training seed" in sentence
    assert by_round.verdict(gains[gains.policy == "DPO"], "PPO") == []


@pytest.mark.slow
def test_rounds_are_compared_by_their_own_weights_and_the_last_ones_stay(tmp_path, monkeypatch):
    """Two rounds on a tiny model: the gains of a round are those of its checkpoint, whatever was trained since."""
    monkeypatch.setenv("HS2_RUNS", str(tmp_path))
    settings = {
        "n_samples": 3,
        "max_new_tokens": 6,
        "rounds": 2,
        "n_prompts": 4,
        "steps": 2,
        "batch": 2,
    }
    settings |= {
        "learning_rate": 1e-2,
        "start": "tiny",
        "reward": "tiny",
        "n_eval_prompts": 4,
        "n_boot": 100,
    }
    setup = Setup("09_iterative_dpo", "smoke", {}, IterativeDPO(**settings))
    policy = load_policy("tiny")
    start = load_policy("tiny")
    reward_model = RewardModel.new("tiny", seed=3)
    played = train(policy, slices(list(generate.groups(8, seed=5)), 2, 4), reward_model, setup)
    last = policy.fingerprint()
    compared = Comparison.begin(setup, reward_model, start, earlier=False)
    gained = by_round.compare(compared, policy, start, played.rounds)
    assert policy.fingerprint() == last and not compared.frames
    assert set(gained.measure) == {TRUTH, SCORE, "characters", "kl"}
    assert gained.policy.unique().tolist() == ["round 1", "round 2"]
    kl = gained[gained.measure == "kl"].set_index("policy")["minus start"]
    own = compared.measure(policy, "last").kl.mean()
    assert (
        kl["round 2"] == pytest.approx(own, abs=1e-5) and abs(kl["round 1"] - kl["round 2"]) > 1e-4
    )


def test_ppos_rounds_by_the_truth_and_in_points(generated, tmp_path):
    """Rewards of 0 and 1 with mean 5 and SD 2 are 5 and 7 points; the truth is that of the texts."""
    history = []
    (tmp_path / "samples").mkdir()
    for number, prompt in enumerate(generated[:2]):
        history.append(
            dict.fromkeys(ppo.NAMES, 0.0)
            | {"round": number, "step": number + 1, "reward": float(number)}
        )
        row = {
            "id": prompt.id,
            "responses": [{"text": response.text} for response in prompt.responses],
        }
        (tmp_path / "samples" / f"round-{number:04d}.jsonl").write_text(json.dumps(row) + "\n")
    result = TrainingResult(history, 2, float("nan"), 2, 0.0, tmp_path)
    prompts = ppo.Prompts(generated, [], [], [], [])
    curves = by_round.of_ppo(result, prompts, SimpleNamespace(folded={"mean": 5.0, "sd": 2.0}))
    assert curves[SCORE].tolist() == [5, 7]
    np.testing.assert_allclose(
        curves[TRUTH], [true_goodness(prompt).mean() for prompt in generated[:2]]
    )


def test_the_baseline_of_a_group_is_the_mean_of_its_rewards(generated):
    """Two answers with rewards 2 and 0: the mean is 1, and they are 1 better and 1 worse."""
    reward = SimpleNamespace(
        score=lambda groups, **_: torch.tensor([[2.0], [0.0]]), folded={"mean": 5.0, "sd": 0.5}
    )
    rewarded = by_round.of_group(generated[0], reward, PPO(n_samples=4))
    assert rewarded.baseline.tolist() == [1, 1]
    assert rewarded["reward less baseline"].tolist() == [1, -1]
    first, second = by_round.as_answers(generated[0], rewarded, reward)
    assert (first.score, second.score) == (6, 5) and first.how == "reward 2.00"


def test_whether_the_reward_orders_a_group_as_the_truth_does(generated):
    """The better answer stands first. With the higher reward it is right, with the lower one wrong."""
    columns = ["reward", "reward less baseline"]
    right = pd.DataFrame([(2.0, 1.0), (0.0, -1.0)], columns=columns)
    counted, best = by_round.order_in_words(generated[0], right)
    assert "Of the 1 pairs" in counted and "orders 1 as the truth does" in counted
    assert "answer 1, is +1.00 off the baseline. Its advantage is positive, so that its own" in best
    assert "gradient raises its likelihood. The likelihood after the step was not measured" in best
    counted, best = by_round.order_in_words(generated[0], -right)
    assert "orders 0 as" in counted and "advantage is **negative**" in best
    assert "own gradient lowers its likelihood. " in best
    _, best = by_round.order_in_words(generated[0], 0 * right)
    assert "+0.00 off the baseline. Its advantage is 0, so that its own gradient is 0. " in best
    assert by_round.order_in_words(real("a", "bb"), right) == []
    first = generated[0].responses[0]
    same = replace(generated[0], responses=(first, first))
    assert by_round.order_in_words(same, right) == []


def test_columns_that_say_nothing_are_not_shown():
    names = ["round", "step", "grad_norm", "critic gradient", "value loss", "penalty", "kl"]
    curves = pd.DataFrame([dict.fromkeys(names, 0.0)])
    silent = PPO(critic="group", kl_form="plain")
    assert list(by_round.shown(curves, silent)) == ["round", "kl"]
    assert list(by_round.shown(curves, PPO())) == ["round", "value loss", "penalty", "kl"]


def test_the_first_round_stands_beside_the_data(generated):
    """Score 5 and truth 3: the score is 2 above the truth, so that the answers are overrated."""
    curves = pd.DataFrame({SCORE: [5.0], TRUTH: [3.0]})
    reward = SimpleNamespace(folded={"mean": 5.5})
    data, first, rates = by_round.start_in_words(curves, generated, reward, PPO())
    truth = np.mean([true_goodness(group) for group in generated])
    assert f"a score of 5.50 and a truth of {truth:.2f}" in data
    assert "SFT's at temperature 1, have a score of 5.00 and a truth of 3.00" in first
    assert "overrates these answers: their score lies 2.00 points above their truth." in rates
    side = "above" if truth < 5.5 else "below"
    assert rates.endswith(f"responses lies {abs(5.5 - truth):.2f} points {side} theirs.")
    lower = curves.assign(**{TRUTH: 5.5})
    *_, rates = by_round.start_in_words(lower, generated, reward, PPO())
    assert "underrates these answers: their score lies 0.50 points below" in rates
    assert by_round.start_in_words(curves, [real("a")], reward, PPO()) == []


@pytest.mark.parametrize(
    ("truth", "words"),
    [
        ([1.0, 0.0], "score +2.00, truth +0.50; **the score outruns the truth** by +1.50 ("),
        ([2.0, 2.0], "they are not shown to part: difference +0.00 (0.00 to 0.00, by prompt)"),
        ([4.0, 5.0], "the truth outruns the score: difference -2.50 ("),
    ],
)
def test_how_far_score_and_truth_rise_together(truth, words):
    """The score rises by 2 at each of ten prompts, the truth by these numbers in turn."""
    frames = []
    for policy, gain in (("SFT", 0.0), ("PPO", 1.0)):
        for k in range(10):
            values = {TRUTH: k + gain * truth[k % 2], SCORE: 3 * k + 2 * gain}
            row = {"policy": policy, "prompt": str(k), "response": f"{k}/0"}
            frames.append(pd.DataFrame([row | values]))
    sentence = by_round.together(frames, "PPO", "SFT", n_boot=100, seed=0)
    assert "PPO less SFT, 10 held-out prompts: " in sentence and words in sentence
    how = by_round.together(frames, "PPO", "SFT", sampled="at temperature 1", n_boot=100, seed=0)
    assert "10 held-out prompts at temperature 1: score" in how
    unknown = [frame.drop(columns=TRUTH) for frame in frames]
    assert by_round.together(unknown, "PPO", "SFT", n_boot=100, seed=0) == ""


def test_the_message_of_the_rounds():
    """The last two rounds are 1.5 and 2.5 above the first one."""
    curves = pd.DataFrame({SCORE: [1.0, 3.0, 4.0], TRUTH: [0.0, 1.0, 2.0]})
    title = by_round.title_of_rounds(curves, 1, 2)
    assert title == f"PPO, last 2 rounds less first 1 (not a test):\n{SCORE} +2.50, {TRUTH} +1.50"
    unknown = by_round.title_of_rounds(curves.assign(**{TRUTH: np.nan}), 1, 2)
    assert unknown.endswith(f"{SCORE} +2.50")
    words = by_round.rounds_in_words(curves, 1, 2, PPO())
    assert (
        "at temperature 1, the last 2 rounds less the first 1: score +2.50, truth +1.50." in words
    )
    assert "no interval" in words
    assert by_round.rounds_in_words(curves.assign(**{TRUTH: np.nan}), 1, 2, PPO()) == ""


def test_each_kl_says_of_which_answers_it_is():
    """Training samples at temperature 1, the table at .7 and on other prompts."""
    gains = pd.DataFrame(
        [("kl", "PPO", 2.94, 2.75, 3.13)],
        columns=["measure", "policy", "minus SFT", "95 % low", "95 % high"],
    )
    curves = pd.DataFrame({"kl": [0.0, 2.5]})
    in_training, held_out = by_round.kl_in_words(gains, "PPO", curves, PPO())
    assert "2.50 nats" in in_training and "temperature 1 to its training prompts" in in_training
    assert held_out == (
        "On held-out prompts the mean log-ratio to SFT is 2.94 nats. These answers are drawn at "
        "temperature 0.7 and top-p 0.9, not from the trained distribution. "
        "So their mean log-ratio is not a KL."
    )
    plain = PPO(eval_temperature=1.0, eval_top_p=1.0)
    assert by_round.kl_in_words(gains, "PPO", curves, plain)[1].endswith("is 2.94 nats.")
    assert len(by_round.kl_in_words(gains.iloc[:0], "PPO", curves, PPO())) == 1


def test_what_the_rounds_did_in_words():
    columns = {"kl": [0.0, 2.5], "length": [40, 30], "clip fraction": [0.0, 0.02]}
    curves = pd.DataFrame({**columns, "explained": [0.4, 0.6]})
    words = by_round.in_words(curves, PPO(critic="group", n_samples=4))
    assert "from 0.00 to 2.50 nats per response, the length from 40 to 30 tokens" in words
    assert "most 2.0% of a round's tokens" in words and "explains 50%" in words
    assert "so that 25% would be explained" in words
    assert by_round.in_words(curves, PPO()).endswith("(median round).")


def test_the_rounds_table_and_figure_in_words():
    """By hand: a loss of half log 2 is 50 % below it; one round has no change."""
    summaries = pd.DataFrame(
        {"round": [1, 2], "truth, mean": [5.0, 5.5], f"mean {SCORE}": [6.0, 6.5]}
    )
    assert by_round.table_sentence(summaries) == (
        "Samples of the first round and of the last: truth, mean 5.00 and 5.50; "
        "mean reward model's score 6.00 and 6.50."
    )
    assert by_round.table_sentence(summaries[:1]) == ""
    losses = {"round 1": pd.Series([9.0] + 3 * [np.log(2) / 2])}
    assert (
        by_round.losses_title(losses) == "Loss of the last three steps, below log 2 by: round 1 50%"
    )
