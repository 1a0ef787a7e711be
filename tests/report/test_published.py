"""What is published stands beside a run, of methods, controls and oracles, and of no other edition."""

import json

import pandas as pd
import pytest

from hs2lib.report import published


@pytest.fixture
def works(tmp_path, monkeypatch):
    """A result of two seeds in a checkout of its own."""
    monkeypatch.setattr(published, "root", lambda: tmp_path)
    row = {"less": "start", "temperature": 0.0, "what": "held out", "measure": "truth"}
    numbers = {"value": -0.3, "low": -0.4, "high": -0.2, "seeds": 2}
    result = {"seeds": [0, 1], "verdicts": {"iterative dpo": "harms"}, "means": []}
    for policy in ("iterative dpo", "iterative dpo, by the truth"):
        result["means"].append({"policy": policy, **row, **numbers})

    def write(**changes):
        file = tmp_path / published.WORKS
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps({**result, **changes}))

    return write


def test_a_method_has_its_verdict_and_an_oracle_has_none(works):
    works()
    words = "over two seeds -0.30 (-0.40 to -0.20)"
    assert published.of_seeds("iterative dpo") == f"{words}, harms (below the start)"
    works(verdicts={"iterative dpo": "not shown"})
    verdict = "not shown (greedy, no difference from its start is shown)"
    assert published.of_seeds("iterative dpo") == f"{words}, {verdict}"
    assert published.of_seeds("iterative dpo, by the truth") == words


def test_the_first_line_has_the_verdict_and_the_measured_cause(works):
    """A gain of the oracle names what it changed; without one, or a measurement, it says that."""
    works()
    line = published.first_line("iterative dpo")
    assert line == (
        "Over two seeds, greedy answers of Iterative DPO are worse than those of DPO: -0.30 (-0.40 "
        "to -0.20) points of truth. Where the truth chooses the pairs it has -0.30 (-0.40 to -0.20)."
    )
    assert published.first_line("dpo") == ""
    row = {"temperature": 0.0, "measure": "truth", "seeds": 2}
    quality = {"less": "itself", "what": "quality", "value": 0.1, "low": -0.1, "high": 0.3}
    gains = {**quality, "value": 0.5, "low": 0.4, "high": 0.6}
    steered = {"policy": "steerlm", **row, **quality}
    oracle = {"policy": "steerlm, by the truth", **row, **gains}
    works(means=[steered], verdicts={"steerlm": "not shown"})
    assert published.first_line("steerlm").endswith("was not measured over the seeds.")
    works(means=[steered, oracle], verdicts={"steerlm": "not shown"})
    assert published.first_line("steerlm") == (
        "Over two seeds, asking SteerLM for quality 4 in place of 0 is not shown to make greedy "
        "answers better: +0.10 (-0.10 to +0.30) points of truth. "
        "With labels of the truth it has +0.50 (+0.40 to +0.60). "
        "So the reward model's labels hold it back."
    )
    less = steered | {"less": "steerlm, by the truth", "value": -0.1, "low": -0.4, "high": 0.2}
    works(means=[steered, oracle | {"low": -0.1}, less], verdicts={"steerlm": "not shown"})
    assert published.first_line("steerlm").endswith(
        "The method as it is less this: -0.10 (-0.40 to +0.20), no difference shown."
    )
    read = row | {"policy": "steerlm", "what": "labels", "less": "itself"}
    means = [
        read | {"measure": "quality, nats", "value": 0.01, "low": -0.02, "high": 0.04},
        read | {"measure": "style, nats", "value": 0.1, "low": 0.05, "high": 0.15},
    ]
    works(means=[steered, oracle, *means], verdicts={"steerlm": "not shown"})
    assert published.first_line("steerlm").endswith(
        "hold it back. The policy hardly reads what its label says of quality. Under its own "
        "labels of quality an answer is likelier than under another answer's, by +0.01 (-0.02 to "
        "+0.04) nats. For labels of style it is +0.10 (+0.05 to +0.15) nats."
    )
    worse = steered | {"value": -0.3, "low": -0.4, "high": -0.2}
    works(means=[worse], verdicts={"steerlm": "harms"})
    assert "quality 4 in place of 0 makes greedy answers worse: -0.30" in published.first_line(
        "steerlm"
    )
    works(means=[steered, oracle], verdicts={"steerlm": "works"})
    assert "holds" not in published.first_line("steerlm"), "a method that works has no such cause"


def test_all_methods_stand_beside_sft_at_each_temperature(works):
    works()
    assert published.beside_sft().empty, "no row is less SFT"
    means = []
    for policy, value in (("iterative dpo", 0.4), ("steerlm 2", 0.2)):
        for temperature in (0.0, 0.7):
            row = {"policy": policy, "less": "sft", "what": "held out", "measure": "truth"}
            numbers = {"value": value, "low": value - 0.1, "high": value + 0.1, "seeds": 2}
            means.append({**row, **numbers, "temperature": temperature})
    works(means=means)
    assert published.beside_sft().to_dict("records") == [
        {
            "method": title,
            "greedy": cell,
            "at T = 0.7": cell,
        }
        for title, cell in (
            ("Iterative DPO", "+0.40 [+0.30, +0.50]"),
            ("SteerLM 2.0", "+0.20 [+0.10, +0.30]"),
        )
    ]


def test_each_control_has_its_own_level_and_the_lead_over_it(works):
    """By hand: blind gains .7 and the method .5 more; at random loses .5 and the method leads by 1.7."""
    row = {"temperature": 0.0, "what": "held out", "measure": "truth", "seeds": 2}
    numbers = {
        ("ppo", "start"): 1.2,
        ("ppo", "ppo, blind"): 0.5,
        ("ppo", "ppo, at random"): 1.7,
        ("ppo, blind", "start"): 0.7,
        ("ppo, at random", "start"): -0.5,
    }
    means = []
    for (policy, less), value in numbers.items():
        bounds = {"low": value - 0.1, "high": value + 0.1}
        means.append({"policy": policy, "less": less, "value": value, **bounds, **row})
    works(means=means, verdicts={"ppo": "works"})
    controls = {"by the truth": "The truth", "at random": "Chance", "blind": "A blind judge"}
    truth, chance, blind, hardest = published.controls_in_words("ppo", controls)
    assert truth == "The truth: the benchmark has not yet run it over the two seeds."
    assert chance == (
        "Chance: -0.50 (-0.60 to -0.40) beside the start. The method less this control: +1.70 "
        "(+1.60 to +1.80). A part of that lead is what the control loses itself."
    )
    assert blind.endswith("The method less this control: +0.50 (+0.40 to +0.60).")
    assert hardest == "The hardest control, with the smallest lead: a blind judge."
    (interval,) = published.reading("ppo")
    assert "a single seed, as this run, may lie outside" in interval
    assert published.reading("dpo") == []


def test_nothing_stands_beside_a_run_where_nothing_is_published(works):
    assert published.of_seeds("iterative dpo") == ""
    assert published.controls_in_words("ppo", {"blind": "blind"}) == []
    works(means=[])
    assert published.of_seeds("iterative dpo") == ""
    works(verdicts={})
    assert published.of_seeds("iterative dpo") != "", "the verdict alone is missing"


def test_a_verdict_is_of_the_truth_less_the_start_and_of_nothing_else(works):
    """By hand: true verbosity rises, and no verdict on the method stands beside it."""
    row = {
        "policy": "steerlm",
        "temperature": 0.0,
        "value": 0.4,
        "low": 0.1,
        "high": 0.7,
        "seeds": 2,
    }
    style = {"what": "verbosity", "measure": "verbosity", "less": "itself"}
    control = {"what": "held out", "measure": "truth", "less": "steerlm, at random"}
    own = {"what": "held out", "measure": "truth", "less": "start"}
    means = [row | style, row | control, row | own]
    works(means=means, verdicts={"steerlm": "not shown"})
    number = "over two seeds +0.40 (+0.10 to +0.70)"
    asked = {"less": "itself", "what": "verbosity", "measure": "verbosity"}
    assert published.of_seeds("steerlm", **asked) == number
    assert published.of_seeds("steerlm", less="steerlm, at random") == number
    assert published.of_seeds("steerlm") == number, "its verdict is of its label of quality"
    quality = {"what": "quality", "measure": "truth", "less": "itself"}
    works(means=[row | quality], verdicts={"steerlm": "not shown"})
    assert published.of_seeds("steerlm", less="itself", what="quality") == (
        f"{number}, not shown (no effect of its label of quality on the truth is shown)"
    )
    warm = row | own | {"temperature": 0.7}
    works(means=[warm], verdicts={"steerlm": "not shown"})
    assert published.of_seeds("steerlm", temperature=0.7) == number, "the verdict is greedy's"


def test_a_control_that_stayed_at_its_start_is_no_nearest_control(works):
    """By hand: of 0.2 and 0.5 less two controls the smaller one does not count."""
    row = {"policy": "dpo", "temperature": 0.0, "what": "held out", "measure": "truth", "seeds": 2}
    means = [
        row | {"less": less, "value": value, "low": value - 0.1, "high": value + 0.1}
        for less, value in (("start", 0.2), ("dpo, at random", 0.2), ("dpo, blind", 0.5))
    ]
    result = {
        "means": means,
        "seeds": [0, 1],
        "controls": {"dpo, at random": "drawn", "dpo, blind": "moved"},
        "verdicts": {"dpo": "works"},
        "at their start": {"dpo, at random": 1},
    }
    works(**result)
    (line,) = published.verdicts().to_dict("records")
    assert line["greedy, less nearest control"] == "+0.50 [+0.40, +0.60]"
    works(**result | {"at their start": {}})
    (line,) = published.verdicts().to_dict("records")
    assert line["greedy, less nearest control"] == "+0.20 [+0.10, +0.30]"


def test_a_gain_that_a_control_has_too_stands_beside_it(works):
    """By hand: +.6 (.3 to .9) over the start, +.2 (-.1 to .5) over the blind control."""
    row = {"policy": "steerlm 2", "temperature": 0.0, "what": "held out", "measure": "truth"}
    means = [
        row | {"seeds": 2, "less": less, "value": value, "low": value - 0.3, "high": value + 0.3}
        for less, value in (
            ("start", 0.6),
            ("steerlm 2, dealt out", 0.1),
            ("steerlm 2, blind", 0.2),
        )
    ]
    controls = {"steerlm 2, dealt out": "dealt out", "steerlm 2, blind": "other prompts"}
    result = {"means": means, "controls": controls, "verdicts": {"steerlm 2": "not shown"}}
    result["at their start"] = {"steerlm 2, dealt out": 2}
    works(**result)
    assert published.first_line("steerlm 2") == (
        "Over two seeds, greedy answers of SteerLM 2.0 are better than those of SteerLM: +0.60 "
        "(+0.30 to +0.90) points of truth. It is above its start, but not shown to be above its "
        "control (other prompts): +0.20 (-0.10 to +0.50)."
    )
    assert published.of_seeds("steerlm 2") == (
        "over two seeds +0.60 (+0.30 to +0.90), not shown (above its start, but not shown to be "
        "above each control)"
    )
    means[0]["low"] = -0.1
    works(**result)
    assert "above its control" not in published.first_line("steerlm 2")


def test_the_sign_of_what_the_seeds_show(works):
    """By hand: -.4 to -.2 is a loss, -.4 to +.2 nothing."""
    works()
    assert published.sign("iterative dpo") == -1 and published.sign("ppo") is None
    row = {"policy": "ppo", "less": "start", "temperature": 0.0, "what": "held out"}
    works(means=[row | {"measure": "truth", "value": 0.0, "low": -0.4, "high": 0.2, "seeds": 2}])
    assert published.sign("ppo") == 0


def test_a_control_that_kept_its_start_says_so(works):
    """In one of two seeds, and in both: then the method less it is the gain over the start."""
    works(**{"at their start": {"dpo, at random": 1}})
    words = published.kept_its_start("dpo, at random")
    assert "stays at its start in 1 of 2 seeds" in words and "once more" not in words
    named = published.kept_its_start("dpo, at random", "*Preference at random*")
    assert "*Preference at random* stays at its start in 1 of 2 seeds" in named
    assert published.kept_its_start("ppo, at random") == ""
    works(**{"at their start": {"dpo, at random": 2}})
    assert "the gain over the start once more" in published.kept_its_start("dpo, at random")
    works()
    assert published.kept_its_start("dpo, at random") == ""


def test_equal_weights_test_nothing_and_dealt_out_ones_do(works):
    """No sentence says what a control learns that cannot move; the other one has its numbers."""
    row = {"policy": "steerlm 2", "temperature": 0.0, "what": "held out", "measure": "truth"}
    number = {"value": 1.0, "low": 0.5, "high": 1.5, "seeds": 2}
    lesses = ("steerlm 2, at random", "steerlm 2, dealt out")
    result = {
        "means": [row | number | {"less": less} for less in lesses],
        "controls": {
            "steerlm 2, at random": "the same weight",
            "steerlm 2, dealt out": "dealt out",
        },
        "verdicts": {"steerlm 2": "rises"},
        "at their start": {"steerlm 2, at random": 2},
    }
    works(**result)
    dealt_out, _, cannot, _ = published.control_sentences("steerlm 2")
    assert "This control cannot leave its start: it tests nothing." in cannot
    assert "learns nothing" not in cannot
    assert dealt_out.startswith("SteerLM 2.0 less its control (dealt out), greedy: over two seeds")


def test_a_method_beside_each_of_its_controls(works):
    """The kept start is said of the control that kept it, and a missing blind control is named."""
    row = {"policy": "dpo", "temperature": 0.0, "what": "held out", "measure": "truth"}
    number = {"value": 1.0, "low": 0.5, "high": 1.5, "seeds": 2}
    means = [row | number | {"less": "dpo, at random"}]
    controls = {"dpo, at random": "drawn", "ppo, at random": "another method's"}
    still = {"at their start": {"dpo, at random": 1}}
    works(means=means, controls=controls, verdicts={"dpo": "works"}, **still)
    first, second, third = published.control_sentences("dpo")
    assert first == "DPO less its control (drawn), greedy: over two seeds +1.00 (+0.50 to +1.50)."
    assert second == published.kept_its_start("dpo, at random")
    assert third == "No blind control was run for DPO."
    assert published.control_sentences("ppo") == [], "it has no verdict"


def test_gains_and_parts_over_seeds(works):
    """The largest gain stands first; a part that was not measured is left out."""
    row = {"temperature": 0.0, "what": "held out", "less": "start", "seeds": 2}
    interval = {"low": 0.1, "high": 0.9}
    means = [
        row | interval | {"policy": "dpo", "measure": "truth", "value": 0.2},
        row | interval | {"policy": "ppo", "measure": "truth", "value": 0.5},
        row | interval | {"policy": "dpo", "measure": "habits", "value": 0.4},
    ]
    works(means=means)
    assert published.gains_in_words({"PPO": "SFT", "DPO": "SFT"}.get) == (
        "Over two seeds, greedy, less SFT: PPO +0.50 (+0.10 to +0.90), DPO +0.20 (+0.10 to +0.90)."
    )
    assert published.gains_in_words({"PPO": "SFT", "DPO": "base"}.get).endswith(
        "less SFT: PPO +0.50 (+0.10 to +0.90); less base: DPO +0.20 (+0.10 to +0.90)."
    )
    assert published.parts_in_words("dpo", ["habits", "jargon"]) == (
        "Points lost, less the start's, over two seeds: habits +0.40 (+0.10 to +0.90)."
    )
    by_column = pd.Series(["habits", "jargon"])
    assert published.parts_in_words("dpo", by_column) == published.parts_in_words("dpo", ["habits"])
    assert published.costlier_in_words("dpo", by_column) == (
        "Over two seeds they lose 0.40 points more by habits (0.10 to 0.90)."
    )
    works(means=[means[2] | {"low": -0.1}])
    assert published.costlier_in_words("dpo", by_column) == "", "not shown"
    works(means=[])
    assert published.gains_in_words(str) == published.parts_in_words("dpo", ["habits"]) == ""


def test_the_verdicts_in_short_and_their_source(works):
    """Methods of one verdict stand together, in the order of the verdicts."""
    works(verdicts={"sft": "surer", "dpo": "works", "ppo": "works"})
    assert published.in_short() == (
        "In the small world, over two seeds, works: DPO, PPO; surer: SFT "
        "(what these words mean: below)."
    )
    assert published.source() == "reports/benchmarks/works.json, two seeds, generated data"
    works(verdicts={})
    assert published.in_short() == ""


def greedy(policy, less, value, reach):
    """The truth of a policy's greedy answers less another's, give or take."""
    row = {"policy": policy, "less": less, "temperature": 0.0, "what": "held out"}
    bounds = {"low": value - reach, "high": value + reach, "seeds": 2}
    return row | bounds | {"measure": "truth", "value": value}


def test_sampled_answers_stand_in_the_first_line_where_they_show_something_else(works):
    """By hand: greedy nothing is shown; sampled it gains, and no more than the greedy start has."""
    row = {"policy": "sft", "what": "held out", "measure": "truth", "seeds": 2}
    sampled = row | {"temperature": 0.7, "less": "start", "value": 0.3, "low": 0.2, "high": 0.4}
    means = [greedy("sft", "start", 0.1, 0.2), sampled]
    means.append(sampled | {"less": "greedy start", "value": 0.0, "low": -0.1, "high": 0.1})
    works(means=means, verdicts={"sft": "surer"}, prompts=400)
    assert published.first_line("sft").startswith(
        "Over two seeds, greedy answers of SFT are not shown to differ from those of the base: "
        "+0.10 (-0.10 to +0.30) points of truth. Sampled at T = 0.7 they are better than those of "
        "the base: +0.30 (+0.20 to +0.40). These sampled ones are not shown to differ from greedy "
        "answers of the base, which need no training: +0.00 (-0.10 to +0.10)."
    )
    assert "with 400 held-out prompts a seed" in published.about()
    means[0] = greedy("sft", "start", 0.3, 0.2)
    works(means=means, verdicts={"sft": "works"})
    assert published.first_line("sft").endswith("truth. That is more than each control reaches.")


def test_a_label_of_style_stands_beside_chance_and_beside_the_label_of_quality(works):
    """By hand: verbosity moves by .5, by .4 more than at random, and quality moves it by .2."""
    row = {"policy": "steerlm", "temperature": 0.0, "measure": "verbosity", "seeds": 2}
    asked = {"what": "verbosity", "less": "itself", "value": 0.5, "low": 0.1, "high": 0.9}
    chance = asked | {"less": "steerlm, at random", "value": 0.4, "low": 0.1, "high": 0.7}
    quality = {"what": "quality", "less": "itself", "value": 0.2, "low": 0.1, "high": 0.3}
    works(means=[row | asked, row | chance, row | quality])
    assert published.styles_in_words() == (
        "Asked for verbosity 4 in place of 0, answers have more of it: +0.50 (+0.10 to +0.90). Less "
        "what labels at random move: +0.40 (+0.10 to +0.70). The label of quality moves it too, by "
        "+0.20 (+0.10 to +0.30)."
    )
    works(means=[row | asked, row | chance | {"low": -0.1}])
    assert published.styles_in_words().endswith("(-0.10 to +0.70), not shown to be more.")
    works(means=[row | asked | {"low": -0.1}])
    assert published.styles_in_words() == "", "not shown"


def test_methods_beside_sft_name_what_is_not_shown_and_whether_the_first_two_differ(works):
    means = [greedy("dpo", "sft", 1.0, 0.2), greedy("ppo", "sft", 1.2, 0.2)]
    works(means=[*means, greedy("steerlm", "sft", 0.1, 0.3)])
    words = (
        "Over two seeds, greedy truth less SFT's: PPO +1.20 (+1.00 to +1.40); DPO +1.00 (+0.80 to "
        "+1.20); SteerLM +0.10 (-0.20 to +0.40), not shown."
    )
    assert published.less_sft_in_words() == words
    works(means=[*means, greedy("ppo", "dpo", 0.2, 0.3)])
    assert published.less_sft_in_words().endswith(
        " Answers of PPO are not shown to differ from those of DPO: +0.20 (-0.10 to +0.50)."
    )
    works()
    assert published.less_sft_in_words() == ""


def test_parts_beside_a_control_are_paired_and_say_what_is_not_shown(works):
    habits = greedy("dpo", "dpo, blind", -0.2, 0.3) | {"measure": "habits"}
    wish = greedy("dpo", "dpo, blind", -0.5, 0.1) | {"measure": "ignored wish"}
    works(means=[habits, wish])
    parts = ["habits", "ignored wish", "jargon"]
    assert published.parts_beside_control("dpo", "blind", parts) == (
        "Points lost by the method less those by this control, over two seeds: habits -0.20 (-0.50 "
        "to +0.10), not shown to differ; ignored wish -0.50 (-0.60 to -0.40)."
    )
    assert published.parts_beside_control("ppo", "blind", parts) == ""


def test_what_a_control_shares_of_a_gain(works):
    """By hand: blind has .4 of 1.1; the other .7 is shown, and with a wide interval is not."""
    whole = greedy("dpo", "start", 1.1, 0.2)
    shared = greedy("dpo, blind", "start", 0.4, 0.1)
    works(means=[whole, shared, greedy("dpo", "dpo, blind", 0.7, 0.3)])
    assert published.share_of_control("dpo", "blind", "blind pairs") == [
        "blind pairs give +0.40 (+0.30 to +0.50) of the +1.10 points.",
        "So that part does not need the pair's own prompt.",
        "The other +0.70 (+0.40 to +1.00) does need it.",
    ]
    works(means=[whole, shared, greedy("dpo", "dpo, blind", 0.7, 0.8)])
    assert published.share_of_control("dpo", "blind", "blind pairs")[1:] == [
        "That the rest needs the prompt is not shown: +0.70 (-0.10 to +1.50)."
    ]
    works(means=[whole])
    assert published.share_of_control("dpo", "blind", "blind pairs") == []


def test_a_choice_of_pairs_beside_chance_and_the_truth(works):
    """By hand: by the truth +.3; the choice less chance -.1, give or take .2."""
    method = "iterative dpo"
    by_truth = greedy(f"{method}, by the truth", "start", 0.3, 0.1)
    works(means=[by_truth, greedy(method, f"{method}, at random", -0.1, 0.2)])
    assert published.choice_in_words(method, "at random", "by the truth") == [
        "The same rounds gain +0.30 (+0.20 to +0.40) where the truth chooses the pairs. "
        "So the rounds are long enough to gain, given the right pairs.",
        "The reward model's choice is not shown to differ from a choice at random: "
        "-0.10 (-0.30 to +0.10) points.",
    ]
    works(means=[greedy(f"{method}, by the truth", "start", 0.3, 0.4)])
    assert published.choice_in_words(method, "at random", "by the truth") == []


def test_the_row_of_steerlm_says_that_it_is_not_less_the_start(works):
    """By hand: .4 of quality 4 less 0 in place of .1 less the start; DPO has its own start."""
    row = {"temperature": 0.0, "measure": "truth", "low": 0.0, "high": 1.0, "seeds": 2}
    means = [
        row | {"policy": "steerlm", "less": "start", "what": "held out", "value": 0.1},
        row | {"policy": "steerlm", "less": "itself", "what": "quality", "value": 0.4},
        row | {"policy": "dpo", "less": "start", "what": "held out", "value": 0.8},
    ]
    works(means=means, controls={}, verdicts={"dpo": "works", "steerlm": "not shown"})
    table = published.verdicts().set_index("method")["greedy, less start"]
    assert table.to_dict() == {
        "DPO": "+0.80 [+0.00, +1.00]",
        "SteerLM (quality 4 less 0)": "+0.40 [+0.00, +1.00]",
    }


def test_a_loss_of_sampled_answers_stands_beside_a_verdict_of_greedy_ones(works):
    """A method whose verdict is *not shown* was below its start when sampled, without a word."""
    row = {"policy": "iterative dpo", "less": "start", "what": "held out", "measure": "truth"}
    row |= {"value": -0.07, "low": -0.13, "high": -0.02, "seeds": 2}
    means = [row | {"temperature": 0.0, "high": 0.01}, row | {"temperature": 0.7}]
    works(means=means, verdicts={"iterative dpo": "not shown"})
    assert published.sampled_losses() == [
        "Sampled, Iterative DPO is below its start: -0.07 (-0.13 to -0.02) at 0.7. Its verdict is of "
        "greedy answers."
    ]
    works(means=means, verdicts={"iterative dpo": "harms"})
    assert published.sampled_losses() == [], "its verdict says so"
    works(means=means[:1])
    assert published.sampled_losses() == []
    steered = row | {"policy": "steerlm", "temperature": 0.7}
    works(means=[steered], verdicts={"steerlm": "works"})
    (line,) = published.sampled_losses()
    assert line.endswith(
        "Its verdict is of greedy answers asked for quality 4 and 0, not of its start."
    )


def test_over_seeds_greedy_stands_before_sampled_and_beside_a_lower_temperature(works):
    """By hand: greedy +.1 holds 0, sampled +.3 does not, and beside the greedy start 0 is held again."""
    numbers = {(0.0, "start"): 0.1, (0.7, "start"): 0.3, (0.7, "greedy start"): 0.0}
    means = []
    for (temperature, less), value in numbers.items():
        row = {"policy": "sft", "what": "held out", "measure": "truth", "seeds": 2}
        row |= {"temperature": temperature, "less": less, "value": value}
        means.append({**row, "low": value - 0.2, "high": value + 0.2})
    works(means=means)
    greedy, sampled, beside = published.surer_in_words("sft", 0.7)
    assert greedy == "Over two seeds SFT is **not shown** to gain greedy: +0.10 (-0.10 to +0.30)."
    assert sampled == "Over two seeds it gains at T = 0.7: +0.30 (+0.10 to +0.50)."
    assert beside.startswith("The policy that SFT began with can answer greedily")
    assert beside.endswith("have +0.00 (-0.20 to +0.20), not shown to be more.")
    assert published.surer_in_words("sft", 1.0) == [], "one of the three is missing"
