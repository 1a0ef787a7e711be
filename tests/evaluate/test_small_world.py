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
    assert title.startswith(
        '3 faults are in 5 % or more of the answers of "web",\n'
        '2 of these in 5 % or more of those of "base, greedy".\n'
    )
    assert title.endswith('"uses jargon", web 43 %, base, greedy 3 %')
    all_kept = small_world.shares_in_words(shares_of({"strays": (24, 35)}))
    assert len(all_kept) == 2, "nothing is left out"


def read_of(rights):
    """Rows of `small_world.readable`: fault -> the probe's share with its interval; the likelihood has 95 %."""
    columns = ["fault", "pairs", "by", "right (%)", "95 % low", "95 % high"]
    rows = []
    for fault, right in rights.items():
        rows.append((fault, 20, "probe", *right))
        rows.append((fault, 20, "likelihood", 95, 92, 97))
    return pd.DataFrame(rows, columns=columns)


def test_the_filler_is_no_fault_that_a_probe_separates():
    """Of four changes three are faults; the probe separates two of them, and the filler, which is none."""
    read = read_of(
        {
            "strays": (100, 96, 100),
            "wrong value": (57, 46, 67),
            "gives in": (95, 80, 99),
            one_fault.HARMLESS: (100, 96, 100),
        }
    )
    changes = {"strays": "more", "gives in": "as many", "wrong value": "as many"}
    separated, filler, counted, others, unread = small_world.probe_in_words(read, changes)
    assert separated == (
        "The probe separates 2 of 3 kinds of fault in 90 % or more of the pairs, by its share and "
        "not by its interval: strays, gives in."
    )
    assert filler == "A filler sentence, which is no fault, it separates in 100 %."
    assert counted.startswith("So the number of sentences may suffice")
    assert "removes some: strays." in counted
    assert others == "Of those separated this does not hold for: gives in (20 pairs)."
    assert unread == (
        "Not shown to be better than a guess (50 %): wrong value 57 % (46 to 67). "
        "Of these, no sentence more or fewer: wrong value."
    )
    without = small_world.probe_in_words(read[read.fault != one_fault.HARMLESS], changes)
    assert without == [separated, unread]
    assert small_world.readable_title(read) == (
        "The probe separates 2 of 3 faults in 90 % or more of the pairs,\n"
        "and a harmless filler in 100 %"
    )


def test_what_the_likelihood_prefers_without_a_fault_stands_beside_what_it_prefers_with_one():
    """A share near that of the filler shows nothing; one below half prefers the fault."""
    read = read_of({"strays": (100, 96, 100), one_fault.HARMLESS: (100, 96, 100)})
    (control,) = small_world.likelihood_in_words(read)
    assert "is the likelier one in 95 % (92 to 97) of the pairs" in control
    assert control.endswith("So a share near 95 % proves nothing where a fault adds a sentence.")
    worse = read.assign(**{"right (%)": 38, "95 % low": 29, "95 % high": 48})
    assert small_world.likelihood_in_words(worse)[1] == (
        "Likelier with the fault than without it: "
        "strays (38 % (29 to 48) for the faultless answer)."
    )


@pytest.mark.parametrize(
    ("right", "ending"),
    [
        ((57, 46, 67), "50 %: not shown to be better than guessing."),
        ((70, 60, 80), "50 %: better than guessing."),
        ((30, 20, 40), "50 %: worse than guessing."),
    ],
)
def test_a_judge_is_compared_with_a_guess_by_its_interval(right, ending):
    assert small_world.judge_in_words(read_of({"wrong value": right})).endswith(ending)


def test_without_enough_pairs_no_judge_is_asked():
    """With 10 pairs a prompt of a false premise leaves 9 of wrong values, and the verdict broke on it."""
    assert small_world.judge_in_words(read_of({"strays": (100, 96, 100)})) == (
        "There are too few pairs to ask a probe."
    )


def test_which_faults_change_the_number_of_sentences():
    """A filler and an aside add one, an item left out removes some, a value is changed in its place."""
    pairs = one_fault.pairs(12, 0)
    changes = small_world.sentence_change(pairs)
    assert changes[one_fault.HARMLESS] == changes["strays"] == changes["repeats"] == "more"
    assert changes["stops"] == changes["missing item"] == "fewer"
    assert changes["jumbles"] == changes["wrong value"] == "as many"
    assert changes[one_fault.IGNORED] == "mixed", "added for one wish, removed for another"
    same = small_world.alike_in_words(pairs, "stops", "stops")
    assert same == '"stops" and "stops" are the same answer to 12 of 12 prompts.'
    assert small_world.alike_in_words(pairs, "stops", "repeats").endswith(" 0 of 12 prompts.")


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
    truth, more, fewer, neither, absent = small_world.more_often_in_words(
        apart.reset_index(), "as wished", "always"
    )
    assert truth.startswith("always less as wished, truth, prompt by prompt: -")
    assert one_fault.IGNORED in more and fewer == "In fewer: none."
    assert neither == "Not shown to be more or fewer: none."
    assert "strays" in absent and "+0" not in absent, "what occurs nowhere has no interval"


def differences_of(differences):
    """Rows of `small_world.more_often`: fault -> its difference with its interval."""
    rows = [(fault, True, *difference) for fault, difference in differences.items()]
    columns = ["fault", "occurs", "difference", "95 % low", "95 % high"]
    return pd.DataFrame([*rows, (TRUTH, True, -0.6, -1, -0.2)], columns=columns)


def test_a_zero_has_no_sign_and_an_end_that_rounds_to_it_has_a_side():
    """An interval that ends just above 0 was listed as a difference, and read as if it held 0."""
    apart = differences_of(
        {"contradiction": (2, -0.04, 4), "strays": (0, 0, 0), "jumbles": (6, 0.2, 12)}
    )
    _, more, _, neither = small_world.more_often_in_words(apart, "web", "base")
    assert more == "In more answers, points of percent: jumbles +6 (above 0 to +12)."
    assert neither == "Not shown to be more or fewer: contradiction +2 (below 0 to +4), strays 0."


def test_whether_greedy_decoding_is_the_whole_reason_is_asked_of_sampled_answers():
    """Of two faults that greedy answers have more often, sampled ones have one more often too."""
    greedy = differences_of({"strays": (11, 6, 16), "jumbles": (7, 1, 13), "repeats": (1, -3, 5)})
    sampled = differences_of({"strays": (9, 4, 14), "jumbles": (5, -1, 11), "repeats": (9, 4, 14)})
    (text,) = small_world.also_more_often_in_words(greedy, sampled)
    assert "sampled answers have 1 more often too: strays +9 (+4 to +14)." in text
    assert "not shown: jumbles +5 (-1 to +11). So greedy decoding is not the whole reason." in text
    assert small_world.also_more_often_in_words(differences_of({}), sampled) == []
    neither = differences_of({"strays": (1, -4, 6), "jumbles": (1, -4, 6)})
    (text,) = small_world.also_more_often_in_words(greedy, neither)
    assert "have 0 more often too: none." in text and "whole reason" not in text


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
    (text,) = small_world.giving_in_in_words(table)
    assert text.startswith(f"Only {len(tempting)} prompts tempt. ") and '"base" 100 % (' in text
    nowhere = small_world.giving_in([always[always.prompt.isin(others)]], **RESAMPLED)
    assert small_world.giving_in_in_words(nowhere) == []
    one = small_world.giving_in([always[always.prompt == tempting[0]]], **RESAMPLED)
    assert small_world.giving_in_in_words(one)[0].endswith(': "base" 100 %.'), "no interval of one"


def test_the_published_truth_of_the_base_is_a_level_and_has_no_plus(monkeypatch):
    columns = ["policy", "temperature", "mean", "low", "high"]
    means = pd.DataFrame([("base", 0.0, 4.615, 4.54, 4.69)], columns=columns)
    monkeypatch.setattr(small_world.published, "means", lambda: means)
    (text,) = small_world.base_over_seeds()
    assert "mean over seeds: 4.62 (4.54 to 4.69)." in text and "only their prompts vary" in text
    monkeypatch.setattr(small_world.published, "means", lambda: means[means.policy == "none"])
    assert small_world.base_over_seeds() == []


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
    one, more = small_world.jargon_in_words(changes)
    assert one.startswith("One sentence of jargon, beside none: raters give +0.")
    assert more.startswith("Two or more sentences of jargon, beside none: raters give +0.")
    assert small_world.jargon_title(changes).startswith(
        "One sentence of jargon, beside none: rated +0."
    )
    none = changes[changes["jargon sentences"] == "none"]
    assert small_world.jargon_title(none) == "No answer has one sentence of jargon"
    assert small_world.jargon_in_words(none) == []


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
    points = [("0", 9, "rated", -0.1, -0.2, 0.0), ("0", 9, "true", 0, 0, 0)]
    points += [("1", 9, "rated", 0.3, 0.2, 0.4), ("1", 9, "true", -0.2, -0.3, -0.1)]
    liked = pd.DataFrame(points)
    panel = figures.rated_and_true(liked, "T").axes[0]
    assert panel.get_title() == "T"
    assert [text.get_text() for text in panel.get_legend().get_texts()] == ["rated", "true"]
    columns = ["fault", "pairs", "by", "right (%)", "95 % low", "95 % high"]
    rows = [("a", 9, "likelihood", 90, 80, 95), ("a", 9, "probe", 50, 40, 60)]
    read = pd.DataFrame(rows, columns=columns)
    assert figures.readable(read, "T").axes[0].get_xlim()[1] > 100
    filler = read.assign(fault="filler", **{"right (%)": 99})
    panel = figures.readable(pd.concat([read, filler]), "T", harmless="filler").axes[0]
    names = [label.get_text() for label in panel.get_yticklabels()]
    assert names == ["a", "filler"], "what is no fault stands last, though its share is the highest"
    plt.close("all")
