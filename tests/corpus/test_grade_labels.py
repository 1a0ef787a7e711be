"""The grader against 200 responses of real policies, labelled by hand (`labelled/README.md` has the rule)."""

import json
from pathlib import Path

import numpy as np
import pytest

from hs2lib.corpus.generate import task_of
from hs2lib.corpus.grade import Grade, grade
from hs2lib.group import ATTRIBUTES

SAMPLES = [json.loads(line) for line in (Path(__file__).parent / "labelled/samples.jsonl").read_text().splitlines()]


def by_hand(sample):
    """The attributes that follow from a label, by the rules of the world."""
    label = dict(sample["label"])
    items = label.pop("items")
    places = {mark: [i for i, letter in enumerate(items) if letter == mark] for mark in "RWM"}
    grade = Grade(len(items), sample["family"], places["R"], places["W"], places["M"])
    for name, number in label.items():
        setattr(grade, name, type(getattr(grade, name))(number))
    return grade.attributes


@pytest.fixture(scope="module")
def both():
    """Attributes [200, A] by hand and by the grader."""
    graded = [grade(task_of(s["id"].rpartition("/")[0]), s["response"]).attributes for s in SAMPLES]
    return np.array([by_hand(sample) for sample in SAMPLES]), np.array(graded)


def test_samples_are_of_four_policies_and_all_families():
    assert len(SAMPLES) == 200 and len({s["policy"] for s in SAMPLES}) == 4 and len({s["family"] for s in SAMPLES}) == 9


@pytest.mark.parametrize("attribute", ATTRIBUTES)
def test_the_grader_agrees_with_the_labels(both, attribute):
    """R squared at least .8: of the line through them, and but for coherence of the two numbers themselves.

    Coherence: the grader takes a remark that stands twice for a repetition and what it cannot read for garbled, so it
    is the stricter one by .21 on average (.74 of the variance as it stands).
    """
    k = ATTRIBUTES.index(attribute)
    mine, its = (part[:, k] for part in both)
    assert np.corrcoef(mine, its)[0, 1] ** 2 > 0.8
    assert 1 - np.sum((mine - its) ** 2) / np.sum((mine - mine.mean()) ** 2) > (
        0.7 if attribute == "coherence" else 0.9
    )
