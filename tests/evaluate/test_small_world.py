"""The small world in numbers: tables by writer, raters and jargon, what the base can read."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from hs2lib.corpus import by_rule, generate, one_fault, rules, tables
from hs2lib.corpus.faults import FAULTS
from hs2lib.corpus.grade import true_attributes
from hs2lib.evaluate import small_world
from hs2lib.evaluate.policies import TRUTH
from hs2lib.models.policy import load_policy
from hs2lib.models.reward_model import RewardModel

RESAMPLED = {"n_boot": 100, "seed": 0}


@pytest.fixture(scope="module")
def frames():
    """Rows of two policies by a rule, on the same prompts."""
    prompts = list(generate.groups(24, 1, split="validation"))
    return [
        small_world.rows(rule, by_rule.answers(prompts, rule)) for rule in ("as wished", "always")
    ]


def test_rows_and_their_table(frames):
    rows = frames[1]
    assert len(rows) == 24 and set(FAULTS) < set(rows.columns)
    table = small_world.table(frames, **RESAMPLED)
    cell = table.set_index(["measure", "policy"]).loc[("ignores the wish", "always")]
    assert cell["mean"] == pytest.approx(rows["ignores the wish"].mean())
    shares = table[table.measure.isin(FAULTS)]
    ends = shares[["mean", "95 % low", "95 % high"]]
    assert (
        ends.notna().all(axis=None) and (ends >= 0).all(axis=None) and (ends <= 100).all(axis=None)
    )
    best = table.set_index(["measure", "policy"]).loc[(TRUTH, "as wished")]
    assert best["mean"] == pytest.approx(7.6)


def test_a_wide_table_keeps_the_order_and_every_number():
    long = pd.DataFrame(
        [("b", "y", 1, 0, 2), ("b", "x", 2, 1, 3), ("a", "y", 3, 2, 4), ("a", "x", 4, 3, 5)],
        columns=["measure", "policy", "mean", "low", "high"],
    )
    wide = small_world.wide(long, "measure", "policy", digits=0)
    assert list(wide.index) == ["b", "a"] and list(wide.columns) == ["y", "x"]
    assert wide.loc["a", "x"] == "4 [3, 5]"


def test_which_faults_change_the_number_of_sentences():
    """A filler and an aside add one, an item left out removes some, a value is changed in its place."""
    pairs = one_fault.pairs(12, 0)
    changes = small_world.sentence_change(pairs)
    assert changes[one_fault.HARMLESS] == changes["strays"] == changes["repeats"] == "more"
    assert changes["stops"] == changes["missing item"] == "fewer"
    assert changes["jumbles"] == changes["wrong value"] == "as many"
    assert changes[one_fault.IGNORED] == "mixed", "added for one wish, removed for another"


def test_each_fault_has_one_name():
    """The rules, the counts and the pairs that differ in one fault call it alike."""
    names = {*one_fault.FAULTS, *one_fault.EDITS, "garbled sentence"}
    of_counts = {small_world.NAMES.get(fault, fault) for fault in FAULTS}
    assert of_counts <= names
    of_rules = {small_world.NAMES.get(kind, kind) for kind in rules.KINDS}
    assert of_rules <= names | {small_world.NAMES["refusal"]}
    assert set(small_world.NAMES) <= {*FAULTS, *rules.KINDS}


def test_style_is_what_the_grader_takes_where_no_fault_is():
    """By hand: a sentence of jargon takes .25 of helpfulness; 1.5 fillers an item add 3.1 to verbosity."""
    table = tables.style()
    assert table.iloc[0].tolist()[:3] == [4, 4, 4]
    assert table.loc["added by 1 of jargon", ["helpfulness", "coherence"]].tolist() == (
        pytest.approx([-rules.UNHELPFUL, -0.05])
    )
    assert table.loc["added by plain words", "complexity"] == pytest.approx(-0.6)
    assert table.iloc[-1].verbosity == pytest.approx(1.5 + 1.6)


def test_what_the_base_has_more_often_is_paired_by_prompt(frames):
    """Who always adds remarks ignores the wish more often, and in nothing else differs."""
    wished, always = frames
    apart = small_world.more_often(wished, always, **RESAMPLED).set_index("fault")
    share = always["ignores the wish"].mean()
    assert apart.loc[one_fault.IGNORED, "difference"] == pytest.approx(share)
    assert apart.loc[TRUTH, "difference"] < 0
    occurs = apart.index[apart.occurs.astype(bool)]
    assert set(occurs) == {one_fault.IGNORED, TRUTH}


def test_giving_in_is_counted_where_a_prompt_tempts():
    """Of all answers the share would be small only because few prompts tempt."""
    prompts = list(generate.groups(60, 1, split="validation"))
    tempting = []
    others = []
    for group in prompts:
        tempts = generate.task_of(group.id).family in small_world.TEMPTING
        (tempting if tempts else others).append(group.id)
    assert tempting and others
    always = pd.DataFrame({"policy": "base", "prompt": tempting + others, "gives in": 0.0})
    always.loc[always.prompt.isin(tempting), "gives in"] = 100.0
    table = small_world.giving_in([always], **RESAMPLED)
    assert table.iloc[0][["policy", "prompts", "mean"]].tolist() == ["base", len(tempting), 100]
    assert small_world.giving_in([always[always.prompt.isin(others)]], **RESAMPLED).empty
    one = small_world.giving_in([always[always.prompt == tempting[0]]], **RESAMPLED)
    assert one[["95 % low", "95 % high"]].isna().all(axis=None), "no interval of one"


def test_by_wish_always_loses_where_the_answer_alone_is_wished(frames):
    table = small_world.by_wish(frames)
    assert list(table.index) == ["as wished", "always"]
    assert table.loc["always", "remarks wished"] == pytest.approx(7.6)
    assert table.loc["always", "answer alone wished"] == pytest.approx(7.6 - 1.395)
    assert table.loc["always", "all prompts"] == pytest.approx(frames[1][TRUTH].mean())


def test_spread_goes_from_the_worst_to_the_best():
    written = pd.DataFrame({"prompt": list("abcde"), TRUTH: [3.0, 1.0, 5.0, 2.0, 4.0]})
    assert small_world.spread(written) == ["b", "a", "c"]
    assert small_world.spread(written, 2) == ["b", "c"]


def test_jargon_is_rated_above_the_truth_and_raters_who_know_it_are_not():
    """The truth falls by .25 per sentence; what raters add to that is their taste."""
    groups = list(generate.groups(150, 0))
    table = small_world.jargon(groups, **RESAMPLED)
    of_side = table.set_index(["helpfulness", "jargon sentences"])["mean"]
    assert of_side[small_world.ABOVE].is_monotonic_increasing
    assert of_side[small_world.TRUE, "0"] == 0
    assert -rules.UNHELPFUL <= of_side[small_world.TRUE, "1"] < -0.5 * rules.UNHELPFUL
    assert (of_side[small_world.RATED] - of_side[small_world.TRUE]).to_numpy() == pytest.approx(
        of_side[small_world.ABOVE].to_numpy()
    )
    assert table[table.helpfulness == small_world.ABOVE].responses.sum() == 300
    honest = []
    for group in groups:
        labelled = []
        for response, true in zip(group.responses, true_attributes(group), strict=True):
            labelled.append(replace(response, labels=tuple(true)))
        honest.append(replace(group, responses=tuple(labelled)))
    table = small_world.jargon(honest, **RESAMPLED)
    assert np.allclose(table[table.helpfulness == small_world.ABOVE]["mean"], 0)


def test_the_changes_by_jargon_are_differences_of_its_means():
    groups = list(generate.groups(150, 0))
    means = small_world.jargon(groups, **RESAMPLED).set_index(["helpfulness", "jargon sentences"])
    changes = small_world.jargon_changes(groups, **RESAMPLED)
    by_name = changes.set_index(["helpfulness", "jargon sentences"])
    for side in (small_world.RATED, small_world.TRUE, small_world.ABOVE):
        for name in ("1", "2 or more"):
            expected = means["mean"][side, name] - means["mean"][side, "0"]
            assert by_name.difference[side, name] == pytest.approx(expected)
    assert (changes["95 % low"] <= changes.difference).all()


@pytest.mark.slow
def test_the_base_writes_the_right_value_and_a_probe_sees_jargon():
    """What notebook 00 shows with more pairs; the order of the two is not what few pairs can say."""
    pairs = one_fault.pairs(12, 0)
    base = load_policy("small")
    read = small_world.readable(pairs, base, RewardModel.new("small").eval(), **RESAMPLED)
    right = read.set_index(["fault", "by"])["right (%)"]
    assert right["wrong value", "likelihood"] > 80
    assert right["jargon", "probe"] > 80
    assert (read.pairs >= 10).all() and read["right (%)"].between(0, 100).all()


def test_a_probe_is_asked_about_prompts_that_it_has_not_seen():
    """Of 60 numbers a probe fits the noise of its own pairs; about others it then only guesses."""
    random = np.random.default_rng(0)
    noise = random.normal(size=(200, 60))  # [pairs, hidden]
    signal = noise.copy()
    signal[:, 0] += 3
    prompts = np.arange(200).astype(str)
    assert 35 <= 100 * (small_world.probe(noise, prompts) > 0).mean() <= 65
    assert 100 * (small_world.probe(signal, prompts) > 0).mean() >= 95
