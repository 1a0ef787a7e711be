"""Tests of benchmarks/works.py: each control is its method with one argument changed, and removes what it says."""

import importlib
import inspect
import json
import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch

from hs2lib.align import controls, dpo, iterative_dpo, ppo, sft, steerlm, steerlm2
from hs2lib.data.load import load
from hs2lib.paths import root
from hs2lib.report import published
from hs2lib.train import losses

sys.path.insert(0, str(root() / "benchmarks"))
works = importlib.import_module("works")
sys.path.pop(0)

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("sft, own samples", sft.load_conversations),
        ("sft, faultless", sft.load_conversations),
        ("dpo, at random", dpo.load_pairs),
        ("dpo, blind", dpo.load_pairs),
        ("iterative dpo, at random", iterative_dpo.train),
        ("iterative dpo, by the truth", iterative_dpo.train),
        ("ppo, at random", ppo.train),
        ("ppo, blind", ppo.train),
        ("ppo, by the truth", ppo.train),
        ("steerlm, at random", steerlm.label_answers),
        ("steerlm, by the truth", steerlm.label_answers),
        ("steerlm 2, at random", steerlm2.iterate),
        ("steerlm 2, blind", steerlm2.iterate),
        ("steerlm 2, dealt out", steerlm2.iterate),
    ],
)
def test_a_control_is_its_method_with_one_argument_of_the_library_changed(name, function):
    """A control with a loop of its own could differ from its method by more than what it takes away."""
    argument, make = works.CHANGED[name]
    method = inspect.signature(works.METHODS[name.partition(", ")[0]]).parameters
    world = SimpleNamespace(seed=0, blind_judge="trained under other prompts")
    assert method[argument].default is not make(world)
    assert argument in inspect.signature(function).parameters


def test_every_method_has_a_control_and_a_word_for_it():
    """A method without one would be compared with itself in silence."""
    assert {name.partition(", ")[0] for name in works.CONTROLS} == set(works.METHODS)
    assert set(works.CONTROLS) | set(works.ORACLES) == set(works.CHANGED)
    assert set(works.METHODS) == set(works.NOTEBOOKS) == set(works.STARTS)


def table(**greedy):
    """A table of `over_seeds` in which each difference has an interval of .1 to each side.

    greedy: by reference the mean less it, greedy; at .7 it is .5 less the start.
    """
    rows = []
    for less, value in greedy.items():
        rows.append(("dpo", "held out", 0.0, less.replace("_", " "), value))
    for temperature in (0.7, 1.0):
        rows.append(("dpo", "held out", temperature, "start", 0.5))
    frame = works.pd.DataFrame(rows, columns=["policy", "what", "temperature", "less", "value"])
    frame["less"] = frame.less.replace({"random": "dpo, at random", "blind": "dpo, blind"})
    return frame.assign(measure="truth", low=frame.value - 0.1, high=frame.value + 0.1, seeds=5)


@pytest.mark.parametrize(
    ("greedy", "word"),
    [
        ({"start": 0.4, "random": 0.3, "blind": 0.2}, "works"),
        ({"start": 0.4, "random": 0.3, "blind": 0.05}, "not shown"),
        ({"start": 0.05, "random": 0.3, "blind": 0.2}, "surer"),
        ({"start": -0.4, "random": 0.3, "blind": 0.2}, "harms"),
    ],
)
def test_a_method_works_only_greedy_and_beside_every_control(greedy, word):
    """What a lower temperature does for nothing is not called working."""
    assert works.verdict("dpo", table(**greedy)) == word


def test_a_control_that_stayed_at_its_start_counts_for_nothing():
    """Chosen by the validation loss it is its start, and less it the gain would stand there twice."""
    rises = table(start=0.4, random=0.4, blind=0.05)
    assert works.verdict("dpo", rises, ["dpo, blind"]) == "works"
    assert works.verdict("dpo", rises, ["dpo, blind", "dpo, at random"]) == "rises"
    assert works.verdict("dpo", table(start=0.05, random=0.4, blind=0.4), works.CONTROLS) == "surer"


def test_controls_at_their_start_are_counted_by_seed():
    """At every temperature and in every measure nothing moved: in one seed of two, and in none."""
    rows = []
    for seed, moved in [(0, 0.0), (1, 0.3)]:
        for temperature in works.TEMPERATURES:
            row = {"seed": seed, "what": "held out", "temperature": temperature, "less": "start"}
            rows.append(row | {"policy": "dpo, at random", "measure": "truth", "value": 0.0})
            rows.append(row | {"policy": "dpo, at random", "measure": "habits", "value": moved})
            rows.append(row | {"policy": "dpo, blind", "measure": "truth", "value": 0.1})
            rows.append(row | {"policy": "dpo", "measure": "truth", "value": 0.0})
    assert works.controls_at_start(rows) == {"dpo, at random": 1}


def test_intervals_are_students_over_seeds():
    """Seeds .1, .2, .3: mean .2, SD .1, error .0577, t of two degrees of freedom 4.303."""
    row = {"policy": "dpo", "what": "held out", "temperature": 0.0, "less": "start"}
    rows = [row | {"measure": "truth", "seed": i, "value": 0.1 * (i + 1)} for i in range(3)]
    (difference,) = works.over_seeds(rows).itertuples()
    assert difference.value == pytest.approx(0.2)
    assert difference.high - difference.value == pytest.approx(4.3027 * 0.1 / 3**0.5, rel=1e-4)


def test_settings_to_tune_by():
    """A number is read as one, a word as a text."""
    settings = works.settings_of(["dpo.beta=.3", "steerlm_2.n_samples=4", "ppo.critic=group"])
    assert settings == {
        "08_dpo": {"beta": 0.3},
        "12_steerlm2": {"n_samples": 4},
        "10_ppo": {"critic": "group"},
    }


def test_the_blind_control_moves_each_pair_to_another_prompt_of_its_kind(groups):
    """The same responses under as many prompts; only which belongs to which is lost."""
    moved = works.blind(groups)
    responses = {group.responses: group for group in groups}
    assert len(moved) == len(groups)
    assert Counter(group.prompt for group in moved) == Counter(group.prompt for group in groups)
    elsewhere = 0
    for group in moved:
        before = responses[group.responses]
        elsewhere += group.prompt != before.prompt
        (other,) = [other for other in groups if other.prompt == group.prompt]
        tasks = [works.generate.task_of(one.id) for one in (before, other)]
        assert tasks[0].family == tasks[1].family
        assert len(tasks[0].items) == len(tasks[1].items)
    assert elsewhere > len(groups) / 3


def test_at_the_demos_size_nearly_every_pair_is_blind():
    """Few groups of a family have a number of items alone."""
    rated = load("helpsteer2", "embedded", split="train", n_prompts=1000, seed=0).groups
    prompts = {group.responses: group.prompt for group in rated}
    kept = [group for group in works.blind(rated) if group.prompt == prompts[group.responses]]
    assert len(kept) < 0.05 * len(rated)


def test_labels_of_the_truth_are_the_ranks_of_true_attributes(groups):
    """An oracle whose labels were the reward model's would clear it of what it is to blame for."""
    answers = steerlm.answers(groups)
    labelled = works.labels_of_the_truth(answers, None, levels="fifths")
    truth = np.concatenate([works.true_attributes(group) for group in answers])
    labels = np.array([group.responses[0].labels for group in labelled])
    texts = [group.responses[0].text for group in labelled]
    assert texts == [group.responses[0].text for group in answers]
    for column in range(5):
        lowest = truth[labels[:, column] == 0, column]
        highest = truth[labels[:, column] == 4, column]
        assert lowest.max() <= highest.min()


def test_two_samples_are_drawn_whatever_their_scores(groups):
    """The pair is of the prompt's own samples, and the same for other scores."""
    pairs, counts = works.two_at_random(groups, np.zeros((len(groups), 2)))
    assert counts == {"groups": len(groups), "pairs": len(groups)}
    for pair, group in zip(pairs, groups, strict=True):
        assert pair.prompt == group.prompt and set(pair.responses) <= set(group.responses)
        assert len(pair.responses) == 2 and pair.preference == -1
    again, _ = works.two_at_random(groups, np.arange(2.0 * len(groups)).reshape(-1, 2))
    assert again == pairs
    order = [p.responses == g.responses for p, g in zip(pairs, groups, strict=True)]
    assert 0 < sum(order) < len(order), "which of two is preferred is chance"


def test_the_bases_own_samples_take_the_place_of_demonstrations(groups, monkeypatch):
    """Same prompts, one answer each, drawn by the base at temperature 1 with the world's seed."""
    asked = {}

    def drawn(policy, prompts, **options):
        asked.update(policy=policy, prompts=prompts, **options)
        return prompts

    monkeypatch.setattr(works, "rollouts", drawn)
    world = SimpleNamespace(seed=3, policy=lambda name: f"the {name}")
    works.own_samples(world)(groups)
    assert asked["policy"] == "the base" and asked["seed"] == 3
    assert (asked["n"], asked["temperature"], asked["top_p"]) == (1, 1.0, 1.0)
    assert [group.prompt for group in asked["prompts"]] == [group.prompt for group in groups]
    assert all(group.responses == () for group in asked["prompts"])


def test_the_matrix_gives_models_and_the_commits_that_trained_them(tmp_path, monkeypatch):
    """Of seed 2: the folders of the runs `@seed-2`; the commit stands in their manifest."""
    monkeypatch.setenv("HS2_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("HS2_REPORTS", str(tmp_path / "reports"))
    monkeypatch.setattr(works, "load_policy", str)
    world = works.World(2, tmp_path / "works", matrix=True)
    assert world.policy("ppo") == str(tmp_path / "runs/demo/10_ppo@seed-2/policy")
    manifest = tmp_path / "reports/demo/10_ppo@seed-2/manifest.json"
    manifest.parent.mkdir(parents=True)
    manifest.write_text(json.dumps({"commit": "abc"}))
    assert world.commit("ppo") == "abc"
    first = works.World(0, tmp_path / "works", matrix=True)
    assert first.policy("sft") == str(tmp_path / "runs/demo/07_sft/policy")


@pytest.fixture(scope="module")
def groups():
    return load("helpsteer2", "embedded", split="train", n_prompts=60, seed=0).groups


def test_the_control_of_dpo_turns_some_of_the_same_pairs_round(groups):
    """The texts, prompts and number of pairs stay: only which one is preferred is chance."""
    right, counts = dpo.by_attribute(groups)
    drawn, drawn_counts = works.by_coin(groups, "helpfulness")
    assert drawn_counts == counts
    turned = [one.responses == pair.responses[::-1] for one, pair in zip(drawn, right, strict=True)]
    same = [one.responses == pair.responses for one, pair in zip(drawn, right, strict=True)]
    assert sum(turned) > 0 and sum(same) > 0 and sum(turned) + sum(same) == len(right)


def test_the_control_of_steerlm_deals_out_the_same_labels(groups, monkeypatch):
    """The same answers and the same labels, of which an answer has another's."""
    answers = steerlm.answers(groups)
    monkeypatch.setattr(steerlm, "label", ranked)
    dealt = works.labels_dealt_out(answers, None, levels="fifths")
    own = ranked(answers, None, levels="fifths")
    texts = [(group.id, group.responses[0].text) for group in dealt]
    assert texts == [(group.id, group.responses[0].text) for group in own]
    labels = [group.responses[0].labels for group in dealt]
    assert labels != [group.responses[0].labels for group in own]
    assert Counter(labels) == Counter(group.responses[0].labels for group in own)


def ranked(answers, reward_model, *, levels):
    """Labels by the answers' place."""
    assert levels == "fifths"
    made = steerlm.answers(answers)
    return [
        works.replace(
            group, responses=(works.replace(group.responses[0], labels=(float(i % 5),) * 5),)
        )
        for i, group in enumerate(made)
    ]


def test_the_control_of_steerlm_2_weighs_all_samples_alike():
    """Three samples of unequal weight have a third each."""
    logs = [np.log([1.0, 2.0, 5.0]), np.log([0.1, 0.3, 0.2]), np.log([0.5, 0.2, 0.1])]
    weighed = steerlm2.Weighed(None, *logs, np.array([3, 4, 5]))
    assert weighed.effective < 2.5
    np.testing.assert_allclose(np.exp(works.alike(weighed).log_weights), 1 / 3)


def test_equal_weights_leave_no_gradient_at_the_start():
    """Why that control is no test: at Q = Q' the distance and its gradient are 0, to rounding."""
    sampler = torch.tensor([[-1.0, -2.0, -4.0]], dtype=torch.float64)
    own = sampler.clone().requires_grad_()
    alike = torch.full((1, 3), 1 / 3, dtype=torch.float64).log()
    distance = losses.steerlm2_loss(alike, own, sampler)
    (gradient,) = torch.autograd.grad(distance.sum(), own)
    assert distance.item() == pytest.approx(0, abs=1e-12)
    assert gradient.abs().max().item() == pytest.approx(0, abs=1e-12)


def test_the_control_that_deals_weights_out_has_the_same_weights_at_other_samples(groups):
    """In some group a sample has another's weight; another call gives each the same again."""
    logs = [np.log([1.0, 2.0, 5.0]), np.log([0.1, 0.3, 0.2]), np.log([0.5, 0.2, 0.1])]
    moved = 0
    for group in groups[:10]:
        read = SimpleNamespace(group=group)
        weighed = steerlm2.Weighed(read, *logs, np.array([3, 4, 5]))
        dealt = controls.deal_out(weighed)
        np.testing.assert_allclose(sorted(dealt.log_weights), sorted(weighed.log_weights))
        np.testing.assert_array_equal(dealt.log_weights, controls.deal_out(weighed).log_weights)
        assert dealt.effective == pytest.approx(weighed.effective)
        assert dealt.sampler is weighed.sampler and dealt.read is read
        moved += not np.allclose(dealt.log_weights, weighed.log_weights)
    assert moved > 0


def test_the_control_that_cannot_move_is_known_to_the_notebooks():
    assert published.CANNOT_MOVE in works.CONTROLS


def test_a_random_reward_says_the_same_of_the_same_text(groups):
    """A reward that changed from round to round would be another control than a reward without a cause."""
    reward = works.random_reward(None, None)
    first = reward.score(groups)
    assert first.shape == (sum(len(group.responses) for group in groups), 1)
    assert reward.score(groups).equal(first) and len(set(first.ravel().tolist())) > 1


def test_the_true_reward_is_standardised_on_the_rated_responses(groups):
    """Else the KL's weight would mean another thing than under the reward model's reward."""
    scores = works.true_reward(works.Loaded(groups, "", True), None).score(groups).numpy()
    assert scores.mean() == pytest.approx(0, abs=1e-6) and scores.std() == pytest.approx(
        1, abs=1e-6
    )


def row(seed, policy, value):
    key = {"what": "held out", "temperature": 0.0, "less": "itself", "measure": "truth"}
    return {"seed": seed, "policy": policy, **key, "value": value}


def test_what_another_day_measured_stays(tmp_path, monkeypatch):
    """Five seeds take hours: two runs add up."""
    monkeypatch.setattr(works, "RESULT", tmp_path / "works.json")
    monkeypatch.setattr(works.report, "commit", lambda: "abc")
    nothing = {"rows": [], "commits": {}, "to match": []}
    assert works.rows_before([0], ["sft"]) == nothing
    first = row(0, "sft", 1.0)
    of_ppo = row(1, "ppo", 3.0)
    commits = {"0": {"sft": "abc"}, "1": {"sft": "abc", "ppo": "abc"}}
    works.write([row(1, "sft", 2.0), first, of_ppo], commits)
    before = works.rows_before([1, 2], ["base", "sft"])
    assert [row for row in before["rows"] if row["less"] == "itself"] == [first, of_ppo]
    of_start = [row for row in before["rows"] if row["less"] == "start"]
    assert [(row["policy"], row["value"]) for row in of_start] == [("ppo", 1.0)]
    assert before["commits"] == {"0": {"sft": "abc"}, "1": {"ppo": "abc"}}
    assert [row["policy"] for row in before["to match"]] == ["sft", "ppo", "sft"]


def test_what_follows_from_the_means_is_derived_again_without_a_training(tmp_path, monkeypatch):
    """PPO less DPO was not asked before; by hand 3 less 2.5. What is written keeps its commit."""
    monkeypatch.setattr(works, "RESULT", tmp_path / "works.json")
    monkeypatch.setattr(works.report, "commit", lambda: "older")
    rows = [row(0, "sft", 1.0), row(0, "dpo", 2.5), row(0, "ppo", 3.0)]
    works.write(rows, {"0": {"ppo": "older"}})
    wide = pd.read_csv(tmp_path / "works.csv")
    wide[wide["less"] != "dpo"].to_csv(tmp_path / "works.csv", index=False)
    monkeypatch.setattr(works.report, "commit", lambda: "abc")
    works.derive_again()
    again = pd.read_csv(tmp_path / "works.csv")
    pd.testing.assert_frame_equal(again, wide)
    (of_two,) = again[again["less"] == "dpo"].truth
    assert of_two == 0.5
    assert json.loads(works.RESULT.read_text())["commit"] == "older"


def test_what_is_equal_where_both_have_it_stays(tmp_path, monkeypatch):
    """Else a mean would be one of two recipes. A policy that was not there before is free."""
    monkeypatch.setattr(works, "RESULT", tmp_path / "works.json")
    monkeypatch.setattr(works.report, "commit", lambda: "older")
    rows = [row(0, "base", 0.5), row(0, "sft", 1.0), row(0, "ppo", 3.0)]
    works.write(rows, {"0": {"sft": "older", "ppo": "older"}})
    monkeypatch.setattr(works.report, "commit", lambda: "abc")
    earlier = works.rows_before([0], ["base", "sft"])["to match"]
    assert len(earlier) == 3
    same = [row(0, "sft", 1.00004)]
    assert works.same_as_before(same, earlier) == same
    new = [row(0, "ppo, by the truth", 5.0)]
    assert works.same_as_before(new, earlier) == new
    with pytest.raises(SystemExit, match="sft of seed 0 has truth"):
        works.same_as_before([row(0, "sft", 1.01)], earlier)
    with pytest.raises(SystemExit, match="no sft of seed 1"):
        works.same_as_before([row(1, "sft", 1.0)], earlier)
    everything = works.rows_before([0], ["base", "sft", "ppo"])
    assert everything == {"rows": [], "commits": {}, "to match": []}


def test_a_difference_is_that_of_two_means_over_the_same_prompts():
    rows = [row(0, "base", 0.5), row(0, "sft", 1.0), row(0, "ppo", 3.0), row(1, "ppo", 9.0)]
    rows += [row(0, "ppo, at random", 0.75), row(0, "ppo, by the truth", 4.0)]
    every = works.with_differences(rows)
    less = {(r["policy"], r["less"]): r["value"] for r in every if not r["seed"]}
    assert less["sft", "start"] == 0.5 and less["ppo", "start"] == 2.0
    assert less["ppo", "ppo, at random"] == 2.25 and less["ppo", "sft"] == 2.0
    assert less["ppo, by the truth", "start"] == 3.0
    assert ("base", "start") not in less and ("sft", "sft") not in less
    assert ("ppo, at random", "sft") not in less, "of methods alone"
    assert [r["less"] for r in every if r["seed"]] == ["itself"], "its start was not measured"
    kept = row(0, "ppo", 2.0001) | {"less": "start"}
    again = works.with_differences([*rows, kept])
    assert [r for r in again if (r["policy"], r["less"]) == ("ppo", "start")] == [kept]
    assert len(again) == len(every)


def test_a_new_control_that_keeps_its_start_is_exactly_0_beside_kept_rows(monkeypatch):
    """Kept rows have four decimals: a finer mean of the same answers would differ from them."""
    measured = pd.DataFrame({"truth": [0.1, 0.2, 0.4]})
    world = works.World(0, Path("nowhere"))
    monkeypatch.setattr(world, "measured", lambda name, temperature: measured)
    control = works.rows_of(world, "ppo, at random")
    kept = [row(0, "sft", 0.2333) | {"temperature": t} for t in works.TEMPERATURES]
    every = works.with_differences([*kept, *control])
    assert works.controls_at_start(every) == {"ppo, at random": 1}


def test_a_control_that_a_seed_lacks_is_missing_and_does_not_count():
    """An interval of two seeds beside one of four would decide a verdict by which seeds were run."""
    rows = []
    for seed, gain in enumerate((1.0, 1.1, 1.2)):
        key = {"seed": seed, "policy": "ppo", "what": "held out", "temperature": 0.0}
        for less in ("itself", "start", "ppo, at random"):
            rows.append(key | {"less": less, "measure": works.TRUTH, "value": gain})
        if seed:  # blind is above the method, but not at every seed
            rows.append(key | {"less": "ppo, blind", "measure": works.TRUTH, "value": -gain})
    table = works.over_seeds(rows)
    assert table.set_index("less").seeds.to_dict()["ppo, blind"] == 2
    assert works.missing_controls("ppo", table) == ["ppo, blind"]
    assert works.verdict("ppo", table) == "works"
    rows.append(key | {"seed": 0, "less": "ppo, blind", "measure": works.TRUTH, "value": -1.0})
    assert works.missing_controls("ppo", works.over_seeds(rows)) == []
    assert works.verdict("ppo", works.over_seeds(rows)) == "not shown"


def test_a_measure_of_fewer_seeds_makes_no_control_a_missing_one():
    """By hand: the truth of three seeds beside a control, and a later measure of one of them."""
    rows = []
    for seed in range(3):
        key = {"seed": seed, "policy": "ppo", "what": "held out", "temperature": 0.0}
        for less in ("start", *works.controls_of("ppo")):
            rows.append(key | {"less": less, "measure": works.TRUTH, "value": 1.0})
    rows.append(rows[-1] | {"measure": "ignores its wish"})
    table = works.over_seeds(rows)
    assert table.seeds.min() == 1
    assert works.missing_controls("ppo", table) == []


def test_labels_are_dealt_out_one_kind_at_a_time_and_nats_are_of_the_own_ones(monkeypatch):
    """By hand: a policy that only reads helpfulness gains by labels of quality and not of style."""
    world = works.World(0, Path("nowhere"))
    world.reward_model = works.Truth()
    monkeypatch.setattr(world, "policy", lambda name: "a policy")
    monkeypatch.setattr(works, "N_LABELLED", 40)
    seen = []

    def likelihood(policy, labelled):
        seen.append([group.responses[0].labels for group in labelled])
        return np.array([-float(labels[0]) for labels in seen[-1]])

    monkeypatch.setattr(works, "log_probs", likelihood)
    read = world.labels_read("steerlm")
    own, of_quality, of_style = seen
    assert [labels[3:] for labels in of_quality] == [labels[3:] for labels in own]
    assert [labels[:3] for labels in of_style] == [labels[:3] for labels in own]
    assert sorted(labels[:3] for labels in of_quality) == sorted(labels[:3] for labels in own)
    moved = [other[0] - mine[0] for mine, other in zip(own, of_quality, strict=True)]
    assert read["quality, nats"].tolist() == moved and any(moved)
    assert read["style, nats"].tolist() == [0.0] * len(own)


def test_the_log_probability_of_an_answer_hangs_on_its_label_line():
    """So that a difference of two is the label's: the answer's tokens are the same."""
    policy = works.load_policy("small")
    groups = load("demonstrations", "embedded", n_prompts=3, seed=1).groups
    labelled = steerlm.label(steerlm.answers(groups), works.Truth(), levels="fifths")
    others = [works.with_labels_of(answer, labelled[-1], works.STYLE) for answer in labelled]
    own = works.log_probs(policy, labelled)
    assert own.shape == (len(labelled),) and (own < 0).all()
    changed = own != pytest.approx(works.log_probs(policy, others))
    assert changed and own[-1] == pytest.approx(works.log_probs(policy, others)[-1])
