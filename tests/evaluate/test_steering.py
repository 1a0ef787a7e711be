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
    cross = steering.cross_slopes(longer, ALL).set_index(["asked for", "moves"]).slope
    assert cross["quality", "verbosity"] == pytest.approx(0.4)


def test_without_the_truth_the_reward_model_counts():
    only = steered(truth_known=False)
    slopes = steering.slopes(only, RECIPE)
    assert only.readers == ["reward model"] and set(slopes["read by"]) == {"reward model"}


def test_verbosity_rises_with_its_label_and_helpfulness_on_no_prompt():
    assert steering.rises(steered(), "verbosity") and not steering.rises(steered(), "helpfulness")


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
    assert f"I was asked for {last}" in view.value
    presets = steering.presets(None, compared)
    assert list(presets.index) == [
        "the target",
        *(f"{name} {level}" for name in ("quality", "complexity", "verbosity") for level in (0, 4)),
    ]
    assert presets.truth.between(0, 7.6).all()
    assert "I was asked for helpfulness:0," in presets.answer["quality 0"]
