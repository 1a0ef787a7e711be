"""Steering is measured against what was asked for; hand-made answers whose attributes are known."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from hs2lib.align import steerlm
from hs2lib.corpus import generate
from hs2lib.corpus.grade import true_attributes
from hs2lib.evaluate import response_rows, steering
from hs2lib.evaluate.response_rows import score_of, truth_of
from hs2lib.group import ATTRIBUTES, Response
from hs2lib.report import show
from hs2lib.train.recipes import SteerLM

RECIPE = SteerLM(n_boot=200, steer_by=("verbosity", "helpfulness"), steer_levels=(4, 0))
ALL = SteerLM(n_boot=200, steer_levels=(4, 0))


def steered(truth_known: bool = True) -> steering.Steered:
    """Three prompts at levels 0 and 4 of two attributes. The truth follows verbosity half a level
    each, give or take .1 by prompt, and turns from helpfulness; the reward model sees 2 in
    everything."""
    parts = steering.parts_of(RECIPE)
    rows = []
    for attribute in RECIPE.steer_by:
        for level in (0, 4):
            for prompt in range(3):
                row = {
                    "steered": attribute,
                    "asked": level,
                    "prompt": prompt,
                    "characters": 10.0 * level,
                }
                for name in RECIPE.steer_by:
                    row |= {truth_of(name): float(prompt), score_of(name): 2.0}
                if attribute == "verbosity":
                    row[truth_of("verbosity")] = (0.5 + 0.1 * (prompt - 1)) * level
                else:
                    row[truth_of("helpfulness")] = 4.0 - level
                rows.append(row)
    return steering.Steered(pd.DataFrame(rows), parts, [0, 4], truth_known)


def test_the_slope_is_that_of_the_measured_on_the_asked_for():
    """Half a level of verbosity for each that is asked for, of helpfulness one in the wrong direction."""
    slopes = steering.slopes(steered(), RECIPE).set_index(["attribute", "read by"])
    assert slopes.slope["verbosity", "truth"] == pytest.approx(0.5)
    assert slopes.slope["helpfulness", "truth"] == pytest.approx(-1)
    assert (
        slopes["95 % low"]["verbosity", "truth"] < 0.5 < slopes["95 % high"]["verbosity", "truth"]
    )
    assert slopes.verdict["verbosity", "truth"] == "follows"
    assert slopes.verdict["helpfulness", "truth"] == "the wrong way"
    assert (slopes.xs("reward model", level="read by").verdict == "not shown").all()
    assert slopes.rival["verbosity", "truth"] == "helpfulness"
    assert slopes.margin["verbosity", "truth"] == pytest.approx(0.5), "helpfulness leaves it alone"


def all_parts(moved: dict[str, float]) -> steering.Steered:
    """Four prompts. `moved`: how far a level of quality and of each attribute moves verbosity, give
    or take .02 by prompt and part; every other attribute follows its own label one to one."""
    rows = []
    parts = steering.parts_of(ALL)
    for number, (name, attributes) in enumerate(parts.items()):
        for level in (0, 4):
            for prompt in range(4):
                row = {"steered": name, "asked": level, "prompt": prompt, "characters": 10.0}
                for attribute in ATTRIBUTES:
                    own = attribute in attributes
                    row[truth_of(attribute)] = float(level if own else 0)
                    row[score_of(attribute)] = 2.0
                slope = moved.get(name, 0.0) + 0.02 * (prompt - 1.5) * (-1) ** number
                row[truth_of("verbosity")] = slope * level
                row |= {response_rows.TRUTH: 1.0 * prompt + 0.25 * level}
                rows.append(row)
    return steering.Steered(pd.DataFrame(rows), parts, [0, 4], True)


def test_quality_is_asked_for_as_a_whole_and_each_attribute_alone():
    """Ratings tie the three together, so no answer has much of one and nothing of another."""
    parts = steering.parts_of(ALL)
    assert list(parts) == ["quality", *ATTRIBUTES]
    assert parts["quality"] == ("helpfulness", "correctness", "coherence")
    assert list(steering.parts_of(RECIPE)) == ["verbosity", "helpfulness"]
    both = all_parts({})
    assert both.main == ["quality", "complexity", "verbosity"]
    assert both.rivals("helpfulness") == ["correctness", "coherence", "complexity", "verbosity"]
    assert both.rivals("quality") == ["complexity", "verbosity"]
    truth = both.read(both.under("helpfulness"), "truth", "quality")
    assert truth.tolist() == pytest.approx([0] * 4 + [4 / 3] * 4), "one of three moved"


@pytest.mark.parametrize(
    ("moved", "rival", "verdict"),
    [
        ({"verbosity": 0.5, "complexity": 0.1}, "complexity", "follows"),
        ({"verbosity": 0.5, "complexity": 0.5}, "complexity", "not specific"),
        ({"verbosity": 0.5, "quality": 0.9}, "quality", "not specific"),
        ({"verbosity": 0.0}, None, "not shown"),
        ({"verbosity": -0.5}, None, "the wrong way"),
    ],
)
def test_follows_stands_where_no_other_label_moves_it_as_much(moved, rival, verdict):
    """An answer that gets longer whatever is asked for more of does not follow verbosity."""
    slopes = steering.slopes(all_parts(moved), ALL).query("`read by` == 'truth'")
    row = slopes.set_index("attribute").loc["verbosity"]
    assert row.verdict == verdict
    if rival:
        assert row.rival == rival
        assert row.margin == pytest.approx(moved["verbosity"] - moved[rival])


def test_where_nothing_else_is_varied_it_moves_and_nothing_more():
    one = steered()
    alone = steering.Steered(one.answers, {"verbosity": ("verbosity",)}, [0, 4], True)
    (verdict,) = steering.slopes(alone, RECIPE).query("`read by` == 'truth'").verdict
    assert verdict == "moves"


def test_the_ends_are_compared_by_the_goodness_of_answers():
    """A quarter of a point a level is one point from 0 to 4."""
    ends = steering.end_to_end(all_parts({}), ALL)
    assert ends.change.tolist() == pytest.approx([1.0] * 6)
    assert steering.end_sentence(ends, all_parts({}), "quality").startswith(
        "From quality 0 to quality 4 the goodness of answers, by the truth, changes by +1.00"
    )


def test_the_map_counts_what_was_asked_for():
    """Each attribute that was asked for moves one to one, verbosity alone with no label."""
    both = all_parts({})
    cross = steering.cross_slopes(both, ALL).query("moves != 'characters'")
    own = cross.set_index(["asked for", "moves"]).slope
    assert own["quality"].to_dict() == pytest.approx(
        {"helpfulness": 1, "correctness": 1, "coherence": 1, "complexity": 0, "verbosity": 0},
        abs=0.01,
    )
    assert own["complexity", "complexity"] == pytest.approx(1)
    longer = all_parts({"verbosity": 0.5, "quality": 0.4})
    cross = steering.cross_slopes(longer, ALL).query("moves != 'characters'")
    assert steering.cross_sentences(cross, longer) == [
        "Verbosity moves with labels of quality (+0.40), too."
    ]
    assert steering.most_moved(longer) in range(4)
    message = steering.cross_message(cross, longer)
    assert f"leave out 0 (by chance alone about {0.05 * len(cross):.1f});\n" in message


def test_without_the_truth_the_reward_model_counts():
    only = steered(truth_known=False)
    slopes = steering.slopes(only, RECIPE)
    assert only.readers == ["reward model"] and set(slopes["read by"]) == {"reward model"}
    assert steering.conclusion(slopes) == (
        "By the reward model the policy is shown to follow none of its labels. "
        "Not shown: verbosity, helpfulness."
    )


def test_the_means_at_each_level_are_those_of_the_answers():
    means = (
        steering.means_by_level(steered(), RECIPE)
        .set_index(["attribute", "read by", "level"])
        .sort_index()["mean"]
    )
    assert means["verbosity", "truth"].tolist() == pytest.approx([0, 2])
    assert means["helpfulness", "truth"].tolist() == pytest.approx([4, 0])
    assert means["verbosity", "reward model"].tolist() == pytest.approx([2, 2])


def test_what_else_moves_is_measured_by_the_reader_who_counts():
    """Asked for verbosity, helpfulness stays and the length grows by ten characters a level."""
    cross = steering.cross_slopes(steered(), RECIPE).set_index(["asked for", "moves"]).slope
    expected = {"verbosity": 0.5, "helpfulness": 0, "characters": 10}
    assert cross["verbosity"].to_dict() == pytest.approx(expected, abs=1e-9)


def test_labels_that_are_the_truth_tell_a_level_a_level():
    """A label of 4 means 4: slope 1; labels without anything to do with the answer have none to speak of."""
    labelled = []
    for answer in steerlm.answers(list(generate.groups(40, seed=0, split="train"))):
        (truth,) = true_attributes(answer)
        response = replace(answer.responses[0], labels=tuple(truth))
        labelled.append(replace(answer, responses=(response,), attributes=ATTRIBUTES))
    known = steering.what_labels_know(labelled, RECIPE)
    assert known.index.tolist() == ["verbosity", "helpfulness"]
    of_truth = known[["slope of the truth", "95 % low", "95 % high"]]
    np.testing.assert_allclose(of_truth, 1, atol=1e-6)
    length = [len(group.responses[0].text) for group in labelled]
    verbosity = [group.responses[0].labels[4] for group in labelled]
    assert known["R with length"]["verbosity"] == pytest.approx(
        np.corrcoef(verbosity, length)[0, 1]
    )


def test_answers_that_a_label_does_not_move_are_counted_word_for_word():
    """Under verbosity one of three prompts has another answer, under helpfulness all have."""
    answered = steered()
    rows = answered.answers
    texts = rows.prompt.astype(str)
    is_moved = (rows.asked == 4) & ((rows.prompt == 1) | (rows.steered == "helpfulness"))
    rows[response_rows.TEXT] = texts.where(~is_moved, texts + " and more")
    assert steering.unmoved_in_words(answered) == (
        "Of 3 prompts so many get word for word the same answers at levels 0 and 4: "
        "verbosity 2, helpfulness 0."
    )


def test_sentences_name_the_attributes_that_are_followed():
    slopes = steering.slopes(steered(), RECIPE)
    assert steering.conclusion(slopes) == (
        "By the truth the policy is shown to follow verbosity. The wrong way: helpfulness."
    )
    words = steering.sentences(slopes)
    assert words[0].startswith(
        "**verbosity: follows.** One level more of it moves the truth by +0.50 ("
    )
    assert "), so from level 0 to 4 by +2.00. A level more is +0.50 (" in words[0]
    assert words[0].endswith(" above what one of helpfulness moves.")
    behind = slopes.assign(**{"margin": -0.01, "margin low": -0.03, "margin high": 0.01})
    words = steering.sentences(behind)
    assert words[0].endswith(
        ". A level differs by -0.01 (-0.03 to +0.01) from what one of helpfulness moves."
    )
    assert not any("A level more is" in text for text in words)
    still = slopes.assign(**{"slope": 0.0, "95 % low": 0.0, "95 % high": 0.0})
    assert "moves the truth by 0 (the same on every prompt), so" in steering.sentences(still)[0], (
        "an interval from 0 to 0 claims more than prompts without a change can say"
    )
    narrow = behind.assign(**{"margin high": -0.002})
    assert "by -0.010 (-0.030 to -0.002) from" in steering.sentences(narrow)[0]
    known = pd.DataFrame({"slope of the truth": {"verbosity": 0.8, "helpfulness": 0.9}})
    assert steering.ceiling(known).endswith("true attribute: helpfulness +0.90, verbosity +0.80.")
    assert steering.ceiling(pd.DataFrame({"R with length": {"verbosity": 0.8}})) == ""


class Placed:
    """As much of a comparison as the panel asks for: two prompts, and the recipe."""

    def __init__(self, recipe: SteerLM):
        self.setup = SimpleNamespace(recipe=recipe)
        self.held_out = SimpleNamespace(groups=list(generate.groups(2, seed=0, split="train")))


def test_a_slider_writes_the_label_and_the_policy_answers_it(monkeypatch):
    """Quality has one slider for three attributes; what is asked for stands above the answer."""
    asked = []

    def answer(policy, prompts, *, label, **options):
        asked.append((prompts[0].id, label))
        response = Response("a", f"I was asked for {label}.", ())
        return [replace(prompts[0], responses=(response,))]

    monkeypatch.setattr(steering, "rollouts", answer)
    compared = Placed(ALL)
    box = steering.panel(None, compared, draw=show.answers_html)
    which, quality, _, verbosity, view = box.children
    first = "helpfulness:4,correctness:4,coherence:4,complexity:2,verbosity:2"
    assert asked == [(compared.held_out.groups[0].id, first)]
    quality.value = 0
    verbosity.value = 3
    which.value = 1
    last = "helpfulness:0,correctness:0,coherence:0,complexity:2,verbosity:3"
    assert asked[-1] == (compared.held_out.groups[1].id, last)
    assert view.value.count(last) == 2, "above the answer, and in it"
    presets = steering.presets(None, compared)
    assert list(presets.index) == [
        "the target",
        *(f"{name} {level}" for name in ("quality", "complexity", "verbosity") for level in (0, 4)),
    ]
    assert presets.truth.between(0, 7.6).all()
    assert presets.answer["quality 0"].startswith("? I was asked for helpfulness:0,")


def test_what_the_labels_move_stands_beside_the_seeds_and_what_they_know(monkeypatch):
    """By hand: verbosity moves half a level each; helpfulness turns, and its label knows .57."""
    monkeypatch.setattr(steering, "seeds_in_words", lambda: ["Published so."])
    slopes = steering.slopes(steered(), RECIPE)
    words = steering.how_large(slopes)
    assert words.startswith("Verbosity asked for at 4 in place of 0: follows, +2.00 (")
    assert "Helpfulness asked for at 4 in place of 0: the wrong way, -4.00 (" in words
    assert words.endswith(" points of it by the truth. Published so.")
    by_model = steering.how_large(slopes[slopes["read by"] == "reward model"])
    assert "by the reward model." in by_model and "Published" not in by_model
    known = pd.DataFrame({"slope of the truth": {"verbosity": 0.8, "helpfulness": 0.57}})
    assert steering.unused(known, slopes) == (
        "The label of helpfulness knows +0.57 points a level; the policy moves -1.000 with it. "
        "Why is not shown here."
    )
    assert steering.unused(known[:1], slopes) == "", "verbosity is followed"
    assert steering.unused(known.add_suffix(" of none", axis=1), slopes) == ""
    assert steering.unused(known, slopes[slopes["read by"] == "reward model"]) == ""
    assert steering.rises(steered(), "verbosity") and not steering.rises(steered(), "helpfulness")


def test_what_asking_moves_over_seeds_names_what_is_measured(monkeypatch):
    """Of a style its own true attribute; quality has none of its own there, and is left out."""
    made = {"truth": "over two seeds +0.10", "verbosity": "over two seeds +0.40"}
    monkeypatch.setattr(
        steering.published, "of_seeds", lambda method, measure, **asked: made.get(measure, "")
    )
    monkeypatch.setattr(steering.published, "styles_in_words", lambda: "")
    assert steering.seeds_in_words() == [
        "Asked for verbosity 4 in place of 0, the true verbosity changes, over two seeds +0.40.",
    ]
    shown = "Asked for verbosity 4 in place of 0 they have more of it."
    monkeypatch.setattr(steering.published, "styles_in_words", lambda: shown)
    assert steering.seeds_in_words() == [f"Over seeds: {shown}"], "it stands there once"
