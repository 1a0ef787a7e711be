"""RewardBench 2, RM-Bench and JudgeBench in one frame: rules beside the model, intervals, misses."""

import os
from dataclasses import replace

import numpy as np
import pytest
import torch

from hs2lib.data import reward_benchmarks as sets
from hs2lib.data.reward_benchmarks import RewardBenchmark
from hs2lib.evaluate import reward_benchmarks as today
from hs2lib.group import Group, Response, Turn
from hs2lib.models import reward_model
from hs2lib.runs.setup import Setup
from hs2lib.train import recipes

MIRROR = os.environ.get("HS2_DATA_DIR")
needs_mirror = pytest.mark.skipif(
    not MIRROR, reason="HS2_DATA_DIR is not set: the mirror of public data is not here"
)

NAME = "16_reward_benchmarks_of_today"


def setup_of(tmp_path=None, tier="smoke", **settings):
    recipe = recipes.RewardBenchmarks(n_boot=200, **settings)
    return Setup(NAME, tier, {"tier": tier}, recipe, tmp_path)


def pairs(*texts, part="knowledge", right=0, links=None):
    """JudgeBench by hand: a pair of texts each, answer A right unless `right` is 1."""
    groups = []
    for number, (a, b) in enumerate(texts):
        labels = ((1.0,), (0.0,)) if right == 0 else ((0.0,), (1.0,))
        answers = tuple(
            Response(f"{number}/{name}", text, label)
            for name, text, label in zip("AB", (a, b), labels, strict=True)
        )
        groups.append(Group(f"{part}/{number}", (Turn("user", f"{number}?"),), answers, ("right",)))
    parts = (part,) * len(groups)
    links = links or tuple(f"{number}?" for number in range(len(groups)))
    whole = sets.SIZES["JudgeBench"]
    return RewardBenchmark("JudgeBench", tuple(groups), parts, links, "x", whole=whole)


def measured(benchmark, scores, **options):
    scored = today.Scored(np.zeros((len(scores), 1)), benchmark, (), {})
    by = {today.MODEL: np.array(scores, float)} | today.by_rule(benchmark, 0)
    return today.measure(scored, by, n_boot=200, **options)


def test_rules_are_scores_and_stand_beside_the_model():
    """By hand, four pairs: the right answer is longer in one, as long in one. A tie is wrong for both rules."""
    benchmark = pairs(("aaa", "b"), ("a", "bbb"), ("a", "bb"), ("aa", "bb"))
    result = measured(benchmark, [1, 0, 1, 0, 1, 0, 0, 1])
    of_part = result.numbers[result.numbers.part == "knowledge"].set_index("by").value
    assert of_part[["model", "longest answer", "shortest answer"]].tolist() == [75, 25, 50]
    overall = result.numbers[result.numbers.part == "overall"].set_index("by").value
    assert overall["model"] == 75, "overall is of all pairs"
    beside = result.beside.set_index("part")
    assert beside.rule["knowledge"] == "shortest answer" and beside.difference["knowledge"] == 25
    assert beside.verdict["knowledge"] == today.NOT_TOLD and beside.verdict["coding"] == ""


def test_a_verdict_needs_more_than_the_better_rule():
    """Who has every pair is above; who has none is below. Who is above short answers and not above chance is not told."""
    texts = [("aa", "b"), ("a", "bb")] * 20
    right, wrong = [1, 0] * 40, [0, 1] * 40
    above = measured(pairs(*texts), right).beside.set_index("part")
    assert above.verdict["knowledge"] == today.ABOVE
    below = measured(pairs(*texts), wrong).beside.set_index("part")
    assert below.verdict["knowledge"] == today.BELOW
    equal = [("a", "b")] * 40  # both rules have 0 here: a tie is wrong
    half = measured(pairs(*equal), [1, 0, 0, 1] * 20).beside.set_index("part")
    assert half.difference["knowledge"] == 50 and half.low["knowledge"] > 0
    assert half.verdict["knowledge"] == today.NOT_TOLD


def test_intervals_draw_whole_prompts():
    """The same prompt asked four times is one draw: the interval is that of a bootstrap over two prompts."""
    texts = [("aa", "b")] * 8
    scores = [1, 0] * 4 + [0, 1] * 4
    apart = measured(pairs(*texts), scores).of(today.MODEL)
    together = measured(pairs(*texts, links=("x",) * 4 + ("y",) * 4), scores).of(today.MODEL)
    width = [frame.high[0] - frame.low[0] for frame in (apart, together)]
    assert width[1] > width[0]
    assert apart.value[0] == together.value[0] == 50


def test_scores_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match=r"expected 2 scores of model, none nan or infinite"):
        measured(pairs(("a", "b")), [1.0, np.nan])


def test_a_number_that_needs_an_absent_part_is_empty_and_named():
    """RM-Bench with chat alone: no overall, no math; nothing of it is shown as 0."""
    made = sets.load("RM-Bench", "postcards", n_per_part=3)
    chat = made.where([part == "chat" for part in made.parts], "chat alone")
    scored = today.Scored(np.zeros((18, 1)), chat, (), {})
    by = {today.MODEL: np.arange(18.0)} | today.by_rule(chat, 0)
    result = today.measure(scored, by, n_boot=200)
    of_model = result.of(today.MODEL)
    there = of_model[of_model.value.notna()]
    assert set(there.part) == {"chat"} and there.level.tolist() == ["", "easy", "normal", "hard"]
    absent = set(of_model[of_model.value.isna()].part)
    assert absent == {"overall", "math", "code", "safety", "safety-refuse", "safety-response"}


@pytest.mark.slow
def test_the_engine_scores_every_answer_as_alone(tmp_path):
    """A question's answers share a tree: each score is that of the answer run by itself, and a second call reads it."""
    setup = setup_of(tmp_path, n_per_part=2)
    model = reward_model.RewardModel.new("tiny", seed=1)
    benchmarks = today.load(setup)
    scored = today.score(benchmarks, model, setup)
    for name, of_benchmark in scored.items():
        alone = []
        for group in benchmarks[name].groups:
            for answer in group.responses:
                alone.append(model.score([replace(group, responses=(answer,))]))
        difference = np.abs(of_benchmark.values - torch.cat(alone).double().numpy())
        assert difference.max() < 1e-5
    again = today.score(benchmarks, model, setup)
    assert all((again[name].values == scored[name].values).all() for name in scored)
    weighted = today.evaluate(scored, np.ones(5), setup)
    assert list(weighted) == ["RewardBench 2", "RM-Bench", "JudgeBench"]
    judgebench = scored["JudgeBench"]
    assert len(judgebench.benchmark) == 8 and not judgebench.left_out and not judgebench.shortened


def test_a_question_that_is_too_long_is_left_out_whole_and_counted(tmp_path):
    """Of one question an answer does not fit: without the others it would be another question."""
    benchmark = pairs(("a", "b"), ("a " * 300, "b"), ("a", "b"))
    model = reward_model.RewardModel.new("tiny", seed=1, max_tokens=100)
    with pytest.raises(ValueError, match="knowledge/1"):
        today.score({"JudgeBench": benchmark}, model, setup_of(tmp_path))
    kept = today.score({"JudgeBench": benchmark}, model, setup_of(tmp_path, too_long="leave out"))
    assert [group.id for group in kept["JudgeBench"].benchmark.groups] == [
        "knowledge/0",
        "knowledge/2",
    ]
    assert kept["JudgeBench"].left_out == {"knowledge/1": "longer than 100 tokens"}
    only = benchmark.where([False, True, False], "one")
    with pytest.raises(ValueError, match="none of 1 questions of JudgeBench can be scored: longer"):
        today.score({"JudgeBench": only}, model, setup_of(tmp_path, too_long="leave out"))


# Answers to look at


def test_the_miss_in_the_middle_is_shown_and_safety_never():
    """Margins of wrong pairs -3, -2 and -1: the one with -2. A pair of a safety part is never shown."""
    benchmark = pairs(*[("a", "bbbb")] * 4)
    result = measured(benchmark, [0, 3, 0, 1, 0, 2, 1, 0])
    miss = today.miss(result)
    assert miss.group.id == "knowledge/2" and miss.margin == -2 and (miss.n_wrong, miss.n) == (3, 4)
    assert [answer.policy for answer in miss.answers] == ["right", "wrong"]
    assert today.miss(measured(benchmark, [1, 0] * 4)) is None
    made = sets.load("RM-Bench", "postcards", n_per_part=2)
    safety = made.where([part.startswith("safety") for part in made.parts], "safety")
    scored = today.Scored(np.zeros((24, 1)), safety, (), {})
    by = {today.MODEL: -np.arange(24.0)} | today.by_rule(safety, 0)
    assert today.miss(today.measure(scored, by, n_boot=200)) is None


def test_of_rm_bench_the_two_concise_answers_are_compared():
    made = sets.load("RM-Bench", "postcards", n_per_part=1)
    chat = made.where([part == "chat" for part in made.parts], "chat")
    scored = today.Scored(np.zeros((6, 1)), chat, (), {})
    by = {today.MODEL: np.array([0, 9, 9, 1.0, 0, 0])} | today.by_rule(chat, 0)
    result = today.measure(scored, by, n_boot=200)
    texts = [answer.text for answer in chat.groups[0].responses]
    assert [answer.text for answer in today.miss(result).answers] == [texts[0], texts[3]]
    styles = today.styles(result)
    assert styles.iloc[0].tolist() == [0, 0, 0] and styles.iloc[1].tolist() == [100, 100, 100]


# Golden


@needs_mirror
def test_published_outputs_give_every_published_number():
    golden, read = today.golden("folder")
    assert len(golden) == 25 and golden.difference.abs().max() < 0.006 and len(read) >= 5


@needs_mirror
def test_the_longest_answer_beside_a_model_on_real_rows():
    """The issue's numbers, through the whole frame, with intervals that hold them; a random answer holds 50."""
    setup = setup_of(tier="laptop", source="folder", benchmarks=("RM-Bench", "JudgeBench"))
    benchmarks = today.load(setup)
    scored = {}
    for name, benchmark in benchmarks.items():
        n = len(sets.texts_of(benchmark))
        scored[name] = today.Scored(np.arange(n)[:, None] % 7.0, benchmark, (), {})
    results = today.evaluate(scored, np.ones(1), setup)
    longest = results["RM-Bench"].of(today.LONGEST).set_index(["part", "level"])
    assert (
        longest.value["chat", "hard"].round(1) == 2.6
        and longest.value["code", "easy"].round(1) == 77.5
    )
    assert (longest.low["chat", "hard"] < 2.6) and (longest.high["chat", "hard"] > 2.6)
    random = results["JudgeBench"].of("random answer").set_index("part")
    assert random.low["overall"] < 50 < random.high["overall"]
    assert np.isnan(longest.value["overall", ""]) and longest.value["chat", ""] > 37
