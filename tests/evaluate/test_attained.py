"""SteerLM 2.0's own measure, and what is said of it."""

from types import SimpleNamespace

import pandas as pd
import pytest
import torch
from tiny_training import setup_in

from hs2lib.align import steerlm2
from hs2lib.data.load import Loaded
from hs2lib.evaluate import attained, response_rows
from hs2lib.evaluate.comparison import Comparison
from hs2lib.group import ATTRIBUTES, Group, Turn
from hs2lib.models.reward_model import RewardModel
from hs2lib.train.recipes import SteerLM2

RECIPE = SteerLM2(n_boot=100, n_eval_prompts=3)


def rows(policy: str, truth: float, score: float) -> pd.DataFrame:
    """Three answers of a policy whose attributes are all alike."""
    columns = {"policy": policy, "prompt": list("abc"), "response": list("abc"), "settings": "same"}
    columns |= {response_rows.truth_of(name): truth for name in ATTRIBUTES}
    columns |= {response_rows.score_of(name): score for name in ATTRIBUTES}
    return pd.DataFrame(columns)


def compared(folder, *frames: pd.DataFrame, source: str = "small world (generated)") -> Comparison:
    groups = [Group(name, (Turn("user", name),), (), source=source) for name in "abc"]
    model = RewardModel.new("tiny")
    return Comparison(
        setup_in(folder, RECIPE), Loaded(groups, source, True), model, None, list(frames)
    )


def test_the_measure_is_the_targets_probability_by_the_truth_and_by_the_reward_model(
    tmp_path, monkeypatch
):
    """Answers that have what was asked for but for verbosity; the reward model sees 2 in everything."""
    monkeypatch.setattr(Comparison, "truth_known", True)
    both = compared(tmp_path, rows("SFT", 4.0, 2.0))
    assert attained.measure_promise(both) == "true log P(a|x,y)"
    (frame,) = both.frames
    for column, value in (("true log P(a|x,y)", 4.0), ("reward model's log P(a|x,y)", 2.0)):
        seen = torch.full((1, 5), value, dtype=torch.float64)
        expected = steerlm2.attribute_log_prob(seen, ATTRIBUTES, RECIPE.target, RECIPE).item()
        assert frame[column].tolist() == pytest.approx([expected] * 3)
    monkeypatch.setattr(Comparison, "truth_known", False)
    alone = compared(tmp_path, rows("SFT", 4.0, 2.0))
    assert attained.measure_promise(alone) == "reward model's log P(a|x,y)"
    assert "true log P(a|x,y)" not in alone.frames[0]


def test_of_all_policies_those_of_the_iterations_are_left_for_others(tmp_path):
    """SFT and SteerLM are left by their own notebooks; notebook 13 reads both iterations here."""
    both = compared(
        tmp_path, *(rows(name, 4.0, 2.0) for name in ("SFT", "SteerLM", *attained.names(2)))
    )
    attained.save(both)
    left = pd.read_csv(tmp_path / response_rows.FILE)
    assert left.policy.unique().tolist() == ["SteerLM 2.0, iteration 1", "SteerLM 2.0"]
    assert attained.shown(both.setup) == [
        "SFT",
        "SteerLM",
        "SteerLM 2.0, iteration 1",
        "SteerLM 2.0",
    ]


@pytest.mark.parametrize(
    ("low", "high", "over_sft", "says", "beside"),
    [
        (0.1, 0.9, 0.5, "improves on SteerLM here", "ends above SFT"),
        (-0.9, -0.1, 0.5, "is worse than SteerLM here", "ends above SFT"),
        (-0.1, 0.1, -1.5, "is not shown to improve on SteerLM here", "stays below SFT"),
        (-0.1, 0.1, -0.2, "is not shown to improve", "is not clearly above or below SFT"),
    ],
)
def test_the_conclusion_is_that_of_the_intervals(low, high, over_sft, says, beside):
    """Zero inside: nothing is shown. Where it stands beside SFT is said by that interval."""
    columns = ["measure", "policy", "minus", "95 % low", "95 % high"]
    gains = pd.DataFrame(
        [("m", "SteerLM 2.0, iteration 1", 5, 4, 6), ("m", "SteerLM 2.0", 0.05, low, high)],
        columns=columns,
    )
    interval = (over_sft - 0.4, over_sft + 0.4)
    over = pd.DataFrame([("m", "SteerLM 2.0", over_sft, *interval)], columns=columns)
    text = attained.conclusion(gains, over, "m")
    assert text.startswith(f"**SteerLM 2.0 {says}") and f"It {beside}, {over_sft:+.2f}" in text
    assert f"(m): +0.05 ({low:+.2f} to {high:+.2f})." in text
    assert attained.title(text).endswith("(m)") and "*" not in attained.title(text)


def test_the_two_steps_from_sft_add_up(tmp_path):
    """SteerLM one point below SFT, the first iteration half a point above it, the last three quarters."""
    frames = []
    for name, shift in zip(
        ("SFT", "SteerLM", *attained.names(2)), (0, -1, -0.5, -0.25), strict=True
    ):
        frame = rows(name, 3.0 + shift, 2.0)
        for column in frame.columns[4:]:
            frame[column] += [0.01, 0.02, 0.03]
        frames.append(frame)
    steps = attained.differences(compared(tmp_path, *frames))
    names = [name.replace("\n", " ") for name in dict.fromkeys(steps.comparison)]
    assert names == [
        "SteerLM less SFT",
        "SteerLM 2.0, iteration 1 less SteerLM",
        "SteerLM 2.0 less SteerLM",
        "SteerLM 2.0 less SFT",
    ]
    of_one = steps[steps.measure == "true helpfulness"].difference
    assert of_one.tolist() == pytest.approx([-1, 0.5, 0.75, -0.25])
    assert attained.why_beside_sft(steps, "true helpfulness") == (
        "By true helpfulness, SteerLM stands -1.00 from SFT, and SteerLM 2.0 +0.75 from SteerLM: "
        "together -0.25. No control of this run separates labels or weights from training as such."
    )
    last = attained.last_iteration(compared(tmp_path, *frames), "true helpfulness")
    assert last.startswith(
        "By true helpfulness, the last iteration is shown to add something to the one before it: "
        "+0.25 ("
    )
    fit = attained.fit_in_words(steps, ["true helpfulness", "true nothing"])
    assert fit.startswith(
        "By the true helpfulness, answers fit the target worse than SFT's: -0.25 ("
    )
    assert fit.endswith(") nats.") and "nothing" not in fit


def test_answers_of_which_it_is_not_shown_are_not_called_a_better_fit():
    columns = ["comparison", "measure", "difference", "low", "high"]
    steps = pd.DataFrame([("SteerLM 2.0\nless SFT", "m", 1.37, -2.38, 5.12)], columns=columns)
    assert attained.fit_in_words(steps, ["m"]) == (
        "By the m, answers are not shown to fit the target better than SFT's: "
        "+1.37 (-2.38 to +5.12) nats."
    )


def test_a_first_iteration_has_none_before_it():
    setup = SimpleNamespace(recipe=SimpleNamespace(iterations=1))
    assert attained.last_iteration(SimpleNamespace(setup=setup), "m") == ""


def test_greedy_and_sampled_answers_stand_beside_the_published_seeds(monkeypatch):
    """Each with its own seeds, without their verdict; of real answers only this seed's score."""
    columns = ["measure", "policy", "minus SteerLM", "95 % low", "95 % high"]
    rows_of = [(m, "SteerLM 2.0", 1.0, 0.5, 1.5) for m in ("truth", "truth, greedy")]
    gains = pd.DataFrame(rows_of, columns=columns)
    seeds = {0.0: "over five seeds +0.62 (a to b), rises (so)", 0.7: "over five seeds +0.63"}
    monkeypatch.setattr(
        attained.published, "of_seeds", lambda method, temperature: seeds.get(temperature, "")
    )
    monkeypatch.setattr(attained.published, "reading", lambda method: ["Read so."])
    assert attained.how_large(gains, 0.7) == (
        "By the truth, greedy: this seed +1.00 (+0.50 to +1.50), over five seeds +0.62 "
        "(a to b). By the truth, sampled at 0.7: this seed +1.00 (+0.50 to +1.50), over "
        "five seeds +0.63. Read so."
    )
    seeds.clear()
    assert not {"seeds", "Read"} & set(attained.how_large(gains, 0.7).split())
    score = gains.assign(measure=["reward model's score", "characters"])
    assert attained.how_large(score, 0.7) == (
        "By the reward model's score, sampled at 0.7: this seed +1.00 (+0.50 to +1.50)."
    )


def test_the_parts_say_what_the_gain_is_and_whether_items_are_right():
    """By hand: habits cost one point less; wrong items are not shown to change, then they fall."""
    columns = ["part", "SteerLM", "SteerLM 2.0", "difference", "95 % low", "95 % high"]
    rows_of = [("habits", 2.0, 1.0, -1.0, -1.2, -0.8), ("wrong items", 1.0, 0.96, -0.04, -0.2, 0.1)]
    parts = pd.DataFrame(rows_of, columns=columns)
    assert attained.why_over_steerlm(parts) == (
        "SteerLM 2.0's answers lose less than SteerLM's by: habits (-1.00, -1.20 to -0.80). "
        "Wrong items are not shown to change: -0.04 (-0.20 to +0.10)."
    )
    fewer = parts.assign(**{"95 % high": -0.01})
    assert "not shown" not in attained.why_over_steerlm(fewer)
    assert attained.why_over_steerlm(None) == ""


def test_a_style_moves_nearer_to_what_was_asked_for_or_does_not():
    """Asked for 2: complexity from 1 to 1.5 is nearer, verbosity from 2 to 1.9 is not."""
    columns = ["measure", "policy", "mean"]
    rows_of = [
        ("true complexity", "SteerLM", 1.0),
        ("true complexity", "SteerLM 2.0", 1.5),
        ("true verbosity", "SteerLM", 2.0),
        ("true verbosity", "SteerLM 2.0", 1.9),
    ]
    table = pd.DataFrame(rows_of, columns=columns)
    assert attained.styles_moved(table, "complexity:2,verbosity:2") == [
        "The mean of true complexity goes from 1.00 to 1.50, nearer to the 2 asked for.",
        "The mean of true verbosity goes from 2.00 to 1.90, no nearer to the 2 asked for.",
    ]
    assert attained.styles_moved(table[:0], "complexity:2,verbosity:2") == []


def test_an_iteration_that_trained_nothing_is_named():
    summary = pd.DataFrame(
        {
            "iteration": [1, 2],
            "effective samples": [2.0, 3.0],
            "best step": [0, 4],
            "distance before": [0.5, 0.6],
        }
    ).assign(**{"distance best": [0.5, 0.2]})
    variances = pd.DataFrame({"ratio": [1.0, 3.0, 2.0]})
    assert attained.variance_sentence(variances) == (
        "On this policy the baseline divides the variance of a group's gradient by 2.0. "
        "That is the median of 3 prompts, which lie from 1.0 to 3.0."
    )
    assert attained.iteration_sentences(summary, RECIPE) == [
        "Samples were drawn at temperature 0.7 and top-p 0.9; the effective number of them a prompt is 2.5 of 10.",
        "Iteration 1: the distance on the prompts that choose the step goes from 0.500 to 0.500.",
        "The best step of iteration 1 is 0: it trained nothing.",
        "Iteration 2: the distance on the prompts that choose the step goes from 0.600 to 0.200.",
    ]
    assert attained.trained(summary) == ["SteerLM 2.0"]


def toy(bias: list[float], variance: list[float], ends: tuple[float, float]) -> tuple:
    """Errors at n = 2 and n = 10, (8) then (11) at each, and where the descents on them end."""
    without, with_baseline = steerlm2.ESTIMATORS
    errors = pd.DataFrame({"n": [2, 2, 10, 10], "estimator": [without, with_baseline] * 2})
    errors = errors.assign(bias=bias, noise=0.1, variance=variance)
    descents = pd.DataFrame([ends], columns=["equation 8, n = 10", "equation 11, n = 10"])
    return errors, descents


def test_the_derivation_holds_where_the_toy_shows_all_of_it():
    """What stood as fixed text under every run."""
    first, second = attained.derivation(*toy([0.8, 0.7, 0.4, 0.3], [2, 1, 1, 0.5], (0.1, 0.01)))
    assert first == (
        "In the toy of this run the derivation holds. From n = 2 to n = 10 the bias of (11) falls, "
        "from 0.700 to 0.300 of the gradient. (11) varies less than (8) at 2 of 2 sizes. "
        "Descent on (11) ends nearer to the optimum."
    )
    assert second.startswith("At n = 10, the paper's number of samples, the estimate is biased: by")
    assert "0.300 of the gradient with the baseline and by 0.400 without" in second


@pytest.mark.parametrize(
    ("bias", "variance", "ends", "says"),
    [
        ([0.8, 0.3, 0.4, 0.7], [2, 1, 1, 0.5], (0.1, 0.01), "**does not fall**"),
        ([0.8, 0.7, 0.4, 0.3], [2, 1, 1, 1.5], (0.1, 0.01), "at 1 of 2 sizes"),
        ([0.8, 0.7, 0.4, 0.3], [2, 1, 1, 0.5], (0.1, 0.2), "**no nearer to**"),
    ],
)
def test_where_one_part_does_not_show_it_says_so(bias, variance, ends, says):
    first, _ = attained.derivation(*toy(bias, variance, ends))
    assert "the derivation **does not hold in all**" in first and says in first


def test_a_bias_within_its_noise_is_not_shown():
    errors, descents = toy([0.8, 0.7, 0.15, 0.15], [2, 1, 1, 0.5], (0.1, 0.01))
    assert "not shown to be biased" in attained.derivation(errors, descents)[1]
    assert len(attained.derivation(errors[errors.n == 2], descents)) == 1


def test_the_toys_title_and_what_its_baseline_buys():
    """By hand: at n = 2 the variance falls from 1 to .5, at n = 200 from .4 to .1."""
    descents = pd.DataFrame({"equation 11, n = 10": [1.0, 1e-8], "equation 8, n = 10": [1.0, 0.03]})
    assert attained.toy_title(descents) == (
        "At n = 10 the descent ends 1e-08 nats from the optimum with the baseline, 0.03 without"
    )
    without, with_baseline = steerlm2.ESTIMATORS
    numbers = [(2, without, 0.8, 1.0), (2, with_baseline, 0.7, 0.5)]
    numbers += [(200, without, 0.2, 0.4), (200, with_baseline, 0.1, 0.1)]
    errors = pd.DataFrame(numbers, columns=["n", "estimator", "bias", "variance"])
    assert attained.errors_sentence(errors) == (
        "The baseline divides the variance by 2.0 at n = 2 and by 4.0 at n = 200. The bias with it "
        "is 0.700 and 0.100 of the gradient, without it 0.800 and 0.200."
    )


def test_what_moved_is_in_the_title_and_what_did_not_is_not():
    """By hand: helpfulness rises, verbosity falls, of the others nothing is clear."""
    ends = {name: (-1.0, 1.0) for name in ATTRIBUTES}
    ends |= {"helpfulness": (0.1, 0.3), "verbosity": (-0.3, -0.1)}
    rows_of = [(response_rows.truth_of(n), "SteerLM 2.0", 0.0, *ends[n]) for n in ATTRIBUTES]
    columns = ["measure", "policy", "minus SteerLM", "95 % low", "95 % high"]
    gains = pd.DataFrame(rows_of, columns=columns)
    assert attained.moved_title(gains) == (
        "SteerLM 2.0 less SteerLM, rise: helpfulness; fall: verbosity"
    )
