"""The small world in numbers: tables by writer, raters and jargon, what the base can read."""

from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from hs2lib.corpus import by_rule, generate, one_fault, rules, tables
from hs2lib.corpus.faults import FAULTS, JARGON
from hs2lib.corpus.grade import true_attributes
from hs2lib.evaluate import small_world
from hs2lib.evaluate.policies import TRUTH
from hs2lib.models.policy import load_policy
from hs2lib.models.reward_model import RewardModel
from hs2lib.report import figures

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


def shares_of(shares):
    """Shares of faults of the web and of the base, as rows of `small_world.table`."""
    rows = []
    for fault, of_both in shares.items():
        for writer, share in zip(("web", "base, greedy"), of_both, strict=True):
            rows.append((fault, writer, share, share, share))
    return pd.DataFrame(rows, columns=["measure", "policy", "mean", "95 % low", "95 % high"])


def test_the_words_name_the_faults_that_the_base_took_over_and_the_one_that_it_did_not():
    """Two of three are in 5 % of both; jargon is in 43 and 3 %; a rare fault counts for nothing."""
    shares = shares_of(
        {"strays": (24, 35), "repeats": (21, 33), "contradicts itself": (0, 2), JARGON: (43, 3)}
    )
    kept, left, apart = small_world.shares_in_words(shares)
    assert kept == (
        "Of the 3 faults in 5 % or more of the web's answers, 2 are in 5 % or more of those of "
        '"base, greedy": strays, repeats.'
    )
    assert left == "Not among them: uses jargon."
    assert apart == 'The shares differ most for "uses jargon": "web" 43 %, "base, greedy" 3 %.'
    title = small_world.shares_title(shares)
    assert title.startswith("The base writes with 2 of the 3 faults that it has read.\n")
    assert title.endswith('"uses jargon", web 43 %, base, greedy 3 %')
    all_kept = small_world.shares_in_words(shares_of({"strays": (24, 35)}))
    assert len(all_kept) == 2, "nothing is left out"


def test_the_filler_is_no_fault_that_a_probe_knows():
    """Of three changes two are faults; the probe knows one of them, and the filler, which is none."""
    columns = ["fault", "pairs", "by", "right (%)", "95 % low", "95 % high"]
    rights = {"strays": (100, 96, 100), "wrong value": (57, 46, 67)}
    rights[one_fault.HARMLESS] = (100, 96, 100)
    rows = []
    for fault, right in rights.items():
        rows.append((fault, 20, "probe", *right))
        rows.append((fault, 20, "likelihood", 95, 92, 97))
    read = pd.DataFrame(rows, columns=columns)
    faults_known, filler, unread = small_world.probe_in_words(read)
    assert faults_known == (
        "Of 2 kinds of fault the probe knows 1 in 90 % or more of the pairs: strays."
    )
    assert filler.startswith("A filler sentence, which is no fault, it knows in 100 %. So it reads")
    assert unread == "The probe is not shown to read: wrong value 57 % (up to 67 possible)."
    without = small_world.probe_in_words(read[read.fault != one_fault.HARMLESS])
    assert without == [faults_known, unread]
    (control,) = small_world.likelihood_in_words(read)
    assert control.startswith("The likelihood prefers the answer without a harmless filler in 95 %")
    worse = read.assign(**{"95 % high": 40})
    assert small_world.likelihood_in_words(worse)[1] == (
        "It prefers the fault, below a guess: strays 95 % (92 to 40), wrong value 95 % (92 to 40)."
    )


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
    truth, more, fewer, neither = small_world.more_often_in_words(
        apart.reset_index(), "as wished", "always"
    )
    assert truth.startswith("always less as wished, truth, prompt by prompt: -")
    assert one_fault.IGNORED in more and fewer == "In fewer: none."
    assert "strays +0 (+0 to +0)" in neither


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
    groups = list(generate.groups(150, 0))
    table = small_world.jargon(groups, **RESAMPLED)
    assert table[small_world.ABOVE].is_monotonic_increasing
    assert table.responses.sum() == 300
    honest = []
    for group in groups:
        labelled = []
        for response, true in zip(group.responses, true_attributes(group), strict=True):
            labelled.append(replace(response, labels=tuple(true)))
        honest.append(replace(group, responses=tuple(labelled)))
    assert np.allclose(small_world.jargon(honest, **RESAMPLED)[small_world.ABOVE], 0)


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


def test_figures_are_drawn(frames):
    table = small_world.table(frames, **RESAMPLED)
    shares = figures.shares_of_faults(table[table.measure.isin(FAULTS)], "T")
    labels = [label.get_text() for label in shares.axes[0].get_yticklabels()]
    assert set(labels) == set(FAULTS) and JARGON in labels
    liked = pd.DataFrame([(0, 9, -0.1, -0.2, 0.0), (1, 9, 0.3, 0.2, 0.4)])
    assert figures.rated_above(liked, "T").axes[0].get_title() == "T"
    columns = ["fault", "pairs", "by", "right (%)", "95 % low", "95 % high"]
    rows = [("a", 9, "likelihood", 90, 80, 95), ("a", 9, "probe", 50, 40, 60)]
    assert figures.readable(pd.DataFrame(rows, columns=columns), "T").axes[0].get_xlim()[1] > 100
    plt.close("all")
