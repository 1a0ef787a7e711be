"""Who answers and what: policies that are not there are said, and each has its own label, length and files."""

from dataclasses import replace

import pytest

from hs2lib.evaluate import answering, questions
from hs2lib.models.policy import load_policy
from hs2lib.paths import runs
from hs2lib.runs.setup import Setup
from hs2lib.train.recipes import Evaluation

NAME = "13_aligned_model_evaluation"


@pytest.fixture
def setup_of(tmp_path, monkeypatch):
    """A setup of notebook 13 with these settings, its runs in a folder of the test's own."""
    monkeypatch.setenv("HS2_RUNS", str(tmp_path / "runs"))

    def make(tier="smoke", **settings):
        small = {
            "n_truthfulqa": 2,
            "n_mt_bench": 1,
            "n_arena_hard": 1,
            "n_alpaca": 2,
            "answer_tokens": 4,
        }
        return Setup(NAME, tier, {}, Evaluation(**small | settings))

    return make


def test_at_smoke_the_small_base_stands_in_and_elsewhere_a_policy_is_left_out(setup_of):
    """Tier smoke runs alone; at other tiers a table must not show a policy that was never trained."""
    who = answering.who_answers(setup_of())
    assert set(who.places.values()) == {"small"} and set(who.table.origin) == {"the small base"}
    for notebook in ("07_sft", "08_dpo"):
        (runs() / "demo" / notebook / "policy").mkdir(parents=True)
    who = answering.who_answers(setup_of("demo"))
    assert list(who.places) == ["SFT", "DPO"] and who.base == "SFT"


def test_only_steerlm_answers_under_a_label(setup_of):
    labels = answering.who_answers(setup_of(target="helpfulness:4")).labels
    assert labels["SteerLM"] == labels["SteerLM 2.0"] == "helpfulness:4"
    assert labels["SFT"] is None and labels["DPO"] is None


def test_only_the_papers_models_are_held_against_table_4(setup_of):
    """A smaller model's figure is no attempt at a larger one's, though it has a row of its method."""
    who = answering.who_answers(setup_of())
    assert who.compared == {} and (who.table["row of Table 4"] != "none").any()
    who = answering.who_answers(setup_of(paper_models=True))
    assert who.compared["DPO"] == "DPO w. HelpSteer2"


def test_a_policy_that_is_skipped_has_to_be_one(setup_of):
    assert "PPO" not in answering.who_answers(setup_of(skip=("PPO",))).places
    with pytest.raises(ValueError, match="skip: 'PPo'"):
        answering.who_answers(setup_of(skip=("PPo",)))


def test_fewer_than_two_policies_are_refused_before_anything_is_loaded(setup_of):
    with pytest.raises(FileNotFoundError, match="SFT"):
        answering.who_answers(setup_of("demo"))
    (runs() / "demo" / "07_sft" / "policy").mkdir(parents=True)
    with pytest.raises(FileNotFoundError, match="07 and 08"):
        answering.who_answers(setup_of("demo"))


def test_answers_in_pairs_may_be_longer():
    """MT-Bench has its own length (the paper: 1,024); the others that of the published settings, where one is set."""
    recipe = Evaluation(answer_tokens=1024, pair_tokens=4096)
    assert [recipe.longest(name) for name in ("MT-Bench", "Arena Hard", "AlpacaEval 2")] == [
        1024,
        4096,
        4096,
    ]
    assert replace(recipe, pair_tokens=0).longest("Arena Hard") == 1024


def test_last_turns_are_those_that_have_a_task():
    """Of a question with two turns the second answer, of one with one turn the first."""
    asked = questions.embedded("MT-Bench", 2, 2)
    replies = {
        question.id: [questions.Response("", "a"), questions.Response("", "b")]
        for question in asked.groups
    }
    last = questions.last_turns(asked, questions.answered(asked, replies, "by hand"))
    assert [answer.responses[0].text for answer in last] == ["b", "b"]


@pytest.mark.slow
def test_every_policy_answers_everything_once(setup_of, tmp_path):
    """Two turns of MT-Bench and one of the others; a second call reads what the first kept, and answers alike."""
    load_policy("tiny").save(tmp_path / "policy")
    setup = setup_of(models=(f"First={tmp_path}/policy", f"Mine={tmp_path}/policy"))
    who = answering.who_answers(setup)
    truthful = answering.load_truthfulqa(setup)
    asked = [
        answering.load_mt_bench(setup),
        answering.load_arena_hard(setup),
        answering.load_alpaca_eval(setup),
    ]
    begun = []
    answers = answering.respond(setup, who, truthful, asked, callbacks=[begun.append])
    assert [text.partition(":")[0] for text in begun] == ["First", "Mine"]
    counts = {
        benchmark: len(replies) for benchmark, replies in answers["Mine"].by_benchmark.items()
    }
    assert (
        counts == {"MT-Bench": 2, "Arena Hard": 1, "AlpacaEval 2": 2}
        and len(answers["Mine"].truthfulqa) == 2
    )
    assert answers["Mine"].read, "the manifest must name the model's files"
    for replies in answers["Mine"].by_benchmark.values():
        assert all(len(answer.responses[0].tokens) <= 4 for answer in replies)
    group, shown = answering.to_show(answers, asked[0], 0)
    assert group == asked[0].groups[0] and [one.policy for one in shown] == ["First", "Mine"]
    last = answers["Mine"].by_benchmark["MT-Bench"][1]
    assert shown[1].text == last.responses[0].text, "that of the last turn"
    folder = setup.folder / "answers"
    again = questions.read(folder / "Arena Hard" / "Mine.jsonl", asked[1])
    assert (
        again[0].responses[0].text
        == answers["Mine"].by_benchmark["Arena Hard"][0].responses[0].text
    )
    assert (folder / "AlpacaEval 2" / "Mine.json").is_file()
    kept = {file: file.read_bytes() for file in setup.folder.glob("*.jsonl")}
    assert (
        answering.respond(setup, who, truthful, asked)["Mine"].by_benchmark
        == answers["Mine"].by_benchmark
    )
    assert kept and kept == {file: file.read_bytes() for file in setup.folder.glob("*.jsonl")}
