"""RewardBench 2, RM-Bench and JudgeBench in one frame: rules beside the model, intervals, published rows, misses."""

import json
import os
from dataclasses import replace

import made_reports
import numpy as np
import pandas as pd
import pytest
import torch

from hs2lib.beyond import BEYOND
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


def test_parts_are_counted_once_each():
    """RM-Bench's safety is two parts together: five parts have a verdict, not six; JudgeBench of one part has one."""
    made = sets.load("RM-Bench", "postcards", n_per_part=6)
    n = len(sets.texts_of(made))
    scored = today.Scored(np.zeros((n, 1)), made, (), {})
    right = np.concatenate([np.where(marks, 1.0, 0.0) for marks in made.right])
    by = {today.MODEL: right} | today.by_rule(made, 0)
    results = {"RM-Bench": today.measure(scored, by, n_boot=200)}
    parts = today._parts(results)
    assert len(parts) == 5 and today.BELOW not in set(parts.verdict)
    plain = np.concatenate(
        [[-len(answer.text) for answer in group.responses] for group in made.groups]
    )
    by_style = {"RM-Bench": today.measure(scored, by | {today.MODEL: plain}, n_boot=200)}
    by_level = by_style["RM-Bench"].beside.set_index(["part", "level"]).verdict
    assert by_level["chat", "easy"] == today.BELOW
    assert today.BELOW not in set(results["RM-Bench"].beside.verdict)
    assert today.styles(by_style["RM-Bench"], today.SHORTEST).iloc[2, 0] == 0
    easy, hard = today._easy_and_hard(by_style["RM-Bench"], today.MODEL)
    assert easy < hard, "who prefers the shorter answer leans to the plainer style"
    assert today._easy_and_hard(results["RM-Bench"], today.MODEL) == (100, 100)
    results["JudgeBench"] = measured(pairs(*[("a", "bb")] * 9), [0, 1] * 9)
    parts = today._parts(results)
    assert len(parts) == 6
    below = parts[parts.verdict == today.BELOW]
    assert below[["benchmark", "part"]].to_numpy().tolist() == [["JudgeBench", "knowledge"]]


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
    results = {"RM-Bench": today.measure(scored, by, n_boot=200)}
    wide = today.table(results)
    assert today.empty(wide) == [
        f"RM-Bench: {part}"
        for part in ("overall", "math", "code", "safety", "safety-refuse", "safety-response")
    ]
    there = wide[wide["model (%)"].notna()]
    assert set(there.part) == {"chat"} and there.level.tolist() == ["", "easy", "normal", "hard"]
    assert set(today.drawn(results).part) == {"chat"}
    assert set(results["RM-Bench"].headline.part) == {"chat"}


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


# Published rows


def of_whole(scores_right=True):
    """Results on as many pairs as JudgeBench has, every one right or every one wrong."""
    groups, parts = [], []
    for part, n in sets.SIZES["JudgeBench"].items():
        made = pairs(*[("a", "bb")] * n, part=part)
        groups += made.groups
        parts += made.parts
    links = tuple(f"{number}" for number in range(len(groups)))
    benchmark = RewardBenchmark(
        "JudgeBench", tuple(groups), tuple(parts), links, "x", whole=sets.SIZES["JudgeBench"]
    )
    scores = [1, 0] * len(groups) if scores_right else [0, 1] * len(groups)
    return {"JudgeBench": measured(benchmark, scores)}


def test_nothing_is_judged_unless_the_model_is_named_and_the_benchmark_whole():
    results = of_whole()
    judged = today.published("judgebench", results)
    assert set(judged.verdict) == {"not run at this tier"} and judged.ours.isna().all()
    named = today.published("judgebench", results, "ArmoRM")
    mine = named[named.row == "ArmoRM"].set_index("column")
    assert mine.verdict["overall"] == "different" and mine.ours["overall"] == 100
    assert mine.verdict["coding"] == "paper prints none" and mine.mark["overall"] == "verified"
    few = results["JudgeBench"].benchmark.where([True] * 349 + [False], "all but one")
    partial = {"JudgeBench": measured(few, [1, 0] * 349)}
    not_whole = today.published("judgebench", partial, "ArmoRM")
    verdict = not_whole[not_whole.row == "ArmoRM"].set_index("column").verdict["overall"]
    assert verdict == "not comparable: partial JudgeBench (349 of 350 questions)"
    with pytest.raises(KeyError, match=r"no published row 'Armo'; there are: .*ArmoRM"):
        today.published("judgebench", results, "Armo")


def test_the_published_models_themselves_come_out_consistent():
    """By hand: 59.7 printed, margin 4, spread 1: 59.7 of ours is consistent, as the interval of 2.77 lies inside."""
    results = of_whole()
    result = results["JudgeBench"]
    numbers = result.numbers.copy()
    numbers.loc[(numbers.by == today.MODEL) & (numbers.part == "overall"), "value"] = 59.7
    close = {"JudgeBench": result._replace(numbers=numbers)}
    for table in ("judgebench", "boards"):
        judged = today.published(table, close, "ArmoRM")
        column = "overall" if table == "judgebench" else "JudgeBench"
        mine = judged[(judged.row == "ArmoRM") & (judged.column == column)]
        assert mine.verdict.tolist() == ["consistent"]


@pytest.mark.slow
def test_the_board_has_real_numbers_of_ours_below_the_published_ones_and_no_generated_ones(
    tmp_path,
):
    board = today.board("judgebench", of_whole())
    assert board.index.tolist()[-4:] == ["this model", *today.RULES]
    assert board.loc["this model", "overall"] == 100 and board.loc["longest answer", "overall"] == 0
    assert board.loc["GRM-Gemma-2B", "overall"] == 59.43 and board.mark["this model"] == "ours"
    assert board.mark["Llama-3.3-Nemotron-70B-Reward"] == "secondary"
    assert "m-of-ours" in today.board_caption("judgebench", of_whole(), "m-of-ours")
    assert today.board_source(of_whole()) == ""
    model = reward_model.RewardModel.new("tiny", seed=1)
    setup = setup_of(tmp_path, n_per_part=2)
    results = today.evaluate(today.score(today.load(setup), model, setup), np.ones(5), setup)
    for name, table in today.PUBLISHED.items():
        generated = today.board(table, {name: results[name]})
        assert generated.index.tolist() == BEYOND[table].rows and "ours" not in set(generated.mark)
        of_one = {name: results[name]}
        caption = today.board_caption(table, of_one, "m-of-ours")
        assert "generated" in caption and "m-of-ours" not in caption
        assert today.board_source(of_one)


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
    assert today._easy_and_hard(result, today.MODEL) == pytest.approx((100, 100 / 3))


def test_an_id_cannot_forge_a_line_of_a_sentence():
    """Ids come from files: what a terminal obeys is escaped, and a long one is cut."""
    (group,) = pairs(("a", "b")).groups
    benchmark = replace(pairs(("a", "b")), groups=(replace(group, id="x\x1b[31m" + "y" * 500),))
    words = today.miss_in_words("JudgeBench", today.miss(measured(benchmark, [0, 1])))
    assert "\x1b" not in words and len(words) < 400


# Beside RewardBench


def test_what_notebook_06_left_stands_beside_if_it_is_of_the_same_model(tmp_path, monkeypatch):
    """Another model's RewardBench beside this model's numbers would be a comparison of two models."""
    for name in ("HS2_RUNS", "HS2_REPORTS"):
        monkeypatch.setenv(name, str(tmp_path / name))
    saved = {}
    for seed in (1, 2):
        folder = tmp_path / "HS2_RUNS" / f"model-{seed}"
        reward_model.RewardModel.new("tiny", seed=seed).save(folder)
        saved[seed] = reward_model.load_reward_model(folder)
    assert today.rewardbench_row(saved[1], setup_of()).empty, "06 has not been run"
    assert today.rewardbench_source(setup_of()) == ""
    accuracy = pd.DataFrame(
        {
            "part": ["overall", "section"],
            "name": ["overall", "chat"],
            "pairs": [8, 2],
            "ties": 0,
            "accuracy (%)": [62.5, 50.0],
            "95 % low": [30.0, 1.0],
            "95 % high": [80.0, 99.0],
            "longer wins (%)": [25.0, 0.0],
            "shorter wins (%)": [75.0, 99.0],
            "length": "",
            "longer wins low": 10.0,
            "longer wins high": 60.0,
        }
    )
    root = tmp_path / "HS2_REPORTS"
    files = {"accuracy.csv": accuracy}
    made_reports.write(root, "smoke", today.REWARDBENCH, [made_reports.MADE], files)
    manifest = root / "smoke" / today.REWARDBENCH / "manifest.json"
    content = json.loads(manifest.read_text())
    manifest.write_text(json.dumps(content | {"read": saved[1].read}))
    (row,) = today.rewardbench_row(saved[1], setup_of()).to_dict("records")
    assert row["name"] == "overall" and row["model (%)"] == "62.5 [30.0, 80.0]"
    assert row["longer wins (%)"] == "25.0 [10.0, 60.0]" and row["shorter wins (%)"] == "75.0"
    assert row["random answer (%)"] == "50.0"
    source = today.rewardbench_source(setup_of())
    assert made_reports.MADE["name"] in source and "Generated data" in source
    assert today.rewardbench_row(saved[2], setup_of()).empty
    random_head = reward_model.RewardModel.new("tiny", seed=1)
    assert today.rewardbench_row(random_head, setup_of()).empty


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
    board = today.board("rm-bench", results)
    assert (
        np.isnan(board.loc["longest answer", "overall"])
        and board.loc["longest answer", "chat"] > 37
    )
