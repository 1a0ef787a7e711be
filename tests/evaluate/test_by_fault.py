"""A faultless answer beside the same with one fault: the pairs, and what judges make of them."""

from collections import Counter

import numpy as np
import pytest

from hs2lib.corpus import generate, grade, one_fault, rules
from hs2lib.data.pairs import Benchmark
from hs2lib.evaluate import by_fault
from hs2lib.models.reward_model import RewardModel
from hs2lib.runs.setup import Setup
from hs2lib.train import recipes

# Change -> the part of `Grade.costs` that it is in.
PART = {
    **dict.fromkeys(one_fault.HABITS, "habits"),
    "ignored wish": "ignored wish",
    "wrong value": "wrong items",
    "missing item": "habits",
    "contradiction": "other faults",
    "jargon": "jargon",
    one_fault.HARMLESS: None,
}

# Change -> sentences that only the changed answer has; what else differs is the form of a sentence.
ADDED = {"strays": 1, "repeats": 1, "contradiction": 1, "jargon": 3, one_fault.HARMLESS: 1}


@pytest.fixture(scope="module")
def pairs():
    """Those of so many prompts that each family is among them."""
    return one_fault.pairs(150, 2)


def costs(pair):
    """The parts of the costs that are not 0, of the faultless answer and of the changed one."""
    task = generate.task_of(pair.id)
    parts = []
    for response in pair.responses:
        all_parts = grade.grade(task, response.text).costs
        parts.append([part for part, cost in all_parts.items() if abs(cost) > 1e-9])
    return parts


def test_the_pairs_differ_in_one_fault(pairs):
    """The grader finds nothing in the faultless answer, and in the other one the fault alone."""
    for pair in pairs:
        expected = PART[one_fault.change_of(pair)]
        assert costs(pair) == [[], [expected] if expected else []], pair.id


def test_nothing_else_is_drawn_anew(pairs):
    """The same random numbers: a sentence that the fault does not touch stays word for word."""
    for pair in pairs:
        change = one_fault.change_of(pair)
        read = [Counter(grade.sentences(response.text)) for response in pair.responses]
        if change in ADDED:
            assert not read[0] - read[1], pair.id
            assert (read[1] - read[0]).total() == ADDED[change], pair.id
        if change == "wrong value":
            assert (read[0] - read[1]).total() == 1
            assert (read[1] - read[0]).total() == 1


def test_one_item_is_touched(pairs):
    """One wrong value is one, whatever else the task asks for."""
    counted = {"wrong value": "wrong", "missing item": "missing"}
    for pair in pairs:
        name = counted.get(one_fault.change_of(pair))
        if name:
            graded = grade.grade(generate.task_of(pair.id), pair.responses[1].text)
            assert len(getattr(graded, name)) == 1


def test_a_family_has_the_faults_that_it_allows(pairs):
    """One gives in to a false premise or an unsafe request, and there the order is no habit.

    A wrong value that hits the premise would be giving in, so a false premise has none.
    """
    changes = {}
    for pair in pairs:
        family = generate.task_of(pair.id).family
        changes.setdefault(family, set()).add(one_fault.change_of(pair))
    everywhere = set(PART) - {"gives in", "jumbles", "wrong value"}
    assert set(changes) == set(rules.NAMES)
    assert changes.pop("unsafe") == everywhere | {"gives in", "wrong value"}
    assert changes.pop("false premise") == everywhere | {"gives in"}
    for family, allowed in changes.items():
        assert allowed == everywhere | {"jumbles", "wrong value"}, family


def test_prompts_are_held_out_and_follow_from_the_seed(pairs):
    """A judge that was trained on a prompt would know its answer."""
    assert all(generate.task_of(pair.id).reserved for pair in pairs)
    assert len({pair.id for pair in pairs}) == len(pairs)
    assert one_fault.pairs(3, 2) == pairs[: len(one_fault.pairs(3, 2))]
    assert one_fault.pairs(3, 3)[0].prompt != pairs[0].prompt


def truth(pairs):
    return np.array([grade.true_goodness(pair) for pair in pairs])


def experts(pairs):
    """Sentences of an expert in every answer, [pairs, 2]."""
    counts = []
    for pair in pairs:
        task = generate.task_of(pair.id)
        graded = [grade.grade(task, response.text) for response in pair.responses]
        counts.append([float(one.expert) for one in graded])
    return np.array(counts)


def test_a_judge_that_knows_the_truth_reads_all_faults(pairs):
    judged = by_fault.measure(pairs, truth(pairs), n_boot=100)
    assert set(judged.among("read")) == set(one_fault.FAULTS)
    rows = judged.table.set_index("fault")
    assert rows["faultless higher (%)"].drop(one_fault.HARMLESS).eq(100).all()
    assert rows.loc[one_fault.HARMLESS, ["faultless higher (%)", "truth drop"]].tolist() == [50, 0]
    drops = rows["truth drop"] / truth(pairs).std()
    assert np.allclose(rows["score drop (SDs)"], drops), "its score is the truth, in SDs"


def test_a_judge_that_gives_one_score_to_all_reads_none(pairs):
    """A tie counts half, so that who sees no fault does not seem to like it."""
    judged = by_fault.measure(pairs, np.ones((len(pairs), 2)), n_boot=100)
    assert set(judged.among("not read")) == set(one_fault.FAULTS)
    assert judged.table["faultless higher (%)"].eq(50).all()
    assert judged.table["score drop (SDs)"].eq(0).all()
    assert judged.among("liked") == []


def test_a_judge_that_counts_experts_likes_jargon(pairs):
    """The raters of the small world do, so a judge may learn it."""
    judged = by_fault.measure(pairs, experts(pairs), n_boot=100)
    assert judged.among("liked") == ["jargon"]
    assert judged.among("read") == []
    last = judged.table.iloc[-1]
    assert last.fault == "jargon", "rows stand in the order of their shares"
    assert last["truth drop"] > 0 > last["score drop (SDs)"]


def test_shares_by_hand(pairs):
    """Three of four pairs of a fault in the right order are 75 %; the interval is within 0 to 100."""
    four = [pair for pair in pairs if one_fault.change_of(pair) == "stops"][:4]
    scores = np.array([[1.0, 0.0], [2.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    (row,) = by_fault.measure(four, scores, n_boot=100).table.to_dict("records")
    assert (row["fault"], row["pairs"], row["faultless higher (%)"]) == ("stops", 4, 75)
    assert 0 <= row["95 % low"] < 75 < row["95 % high"] <= 100
    assert np.isclose(row["score drop (SDs)"], 0.75 / scores.std())


@pytest.fixture
def setup(tmp_path, monkeypatch):
    """A run of notebook 06 with three prompts."""
    monkeypatch.setenv("HS2_RUNS", str(tmp_path / "runs"))
    recipe = recipes.RewardBench(n_by_fault=3, n_boot=100)
    return Setup("06_rewardbench_evaluation", "smoke", {"tier": "smoke"}, recipe)


def test_of_real_pairs_nothing_is_known(setup):
    """The pairs are of the small world, and say nothing of a judge of real text: nothing is scored."""
    real = Benchmark((), "rewardbench", "x")
    assert by_fault.judge(real, None, np.ones(5), setup) is None


def test_a_real_model_scores_every_pair(setup):
    """A tiny model; the scores are kept in the run folder."""
    model = RewardModel.new("small", seed=0).eval()
    generated = Benchmark((), "generated", "x")
    judged = by_fault.judge(generated, model, np.ones(len(model.attributes)), setup)
    assert list(judged.table.columns) == by_fault.COLUMNS
    assert judged.table.pairs.sum() == len(one_fault.pairs(3, by_fault.SEED_APART))
    assert judged.table["faultless higher (%)"].is_monotonic_decreasing
    assert judged.source == "small world (generated), seed 2, 3 prompts", "not the benchmark's"
    assert (setup.folder / "scores" / "by-fault").is_dir()
