"""Steering is measured against what was asked for; hand-made answers whose attributes are known."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from hs2lib.align import steerlm
from hs2lib.corpus import generate
from hs2lib.corpus.grade import true_attributes
from hs2lib.evaluate import steering
from hs2lib.evaluate.response_rows import score_of, truth_of
from hs2lib.group import ATTRIBUTES
from hs2lib.train.recipes import SteerLM

RECIPE = SteerLM(n_boot=200, steer_by=("verbosity", "helpfulness"), steer_levels=(4, 0))


def steered(truth_known: bool = True) -> steering.Steered:
    """Three prompts at levels 0 and 4 of two attributes. The truth follows verbosity half a level
    each, give or take .1 by prompt, and turns from helpfulness; the reward model sees 2 in
    everything."""
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
    return steering.Steered(pd.DataFrame(rows), [0, 4], truth_known)


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
    assert (slopes.xs("reward model", level="read by").verdict == "unclear").all()


def test_without_the_truth_the_reward_model_counts():
    only = steered(truth_known=False)
    slopes = steering.slopes(only, RECIPE)
    assert only.readers == ["reward model"] and set(slopes["read by"]) == {"reward model"}
    assert steering.sentences(slopes, pd.DataFrame())[0] == (
        "By the reward model the policy follows 0 of 2 attributes: this policy is not steered."
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
    np.testing.assert_allclose(known["slope of the truth"], 1, atol=1e-6)
    length = [len(group.responses[0].text) for group in labelled]
    verbosity = [group.responses[0].labels[4] for group in labelled]
    assert known["R with length"]["verbosity"] == pytest.approx(
        np.corrcoef(verbosity, length)[0, 1]
    )


def test_sentences_name_the_attributes_that_are_followed():
    known = pd.DataFrame({"slope of the truth": {"verbosity": 0.8}})
    words = steering.sentences(steering.slopes(steered(), RECIPE), known)
    assert words[0] == "By the truth the policy follows 1 of 2 attributes: verbosity."
    assert words[1].startswith(
        "Asked for one level more of verbosity, the truth moves by +0.50 (95 % interval "
    )
    assert words[-1] == "The labels of verbosity, the others fixed, tell +0.80 a level."
