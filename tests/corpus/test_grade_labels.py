"""The grader against 200 responses of real policies, labelled by two readers (`labelled/README.md` has the rules)."""

import json
from pathlib import Path

import numpy as np
import pytest

from hs2lib.corpus.generate import task_of
from hs2lib.corpus.grade import Grade, grade
from hs2lib.group import ATTRIBUTES

LABELLED = Path(__file__).parent / "labelled"
SAMPLES, SECOND = (
    [json.loads(line) for line in (LABELLED / name).read_text().splitlines()]
    for name in ("samples.jsonl", "second.jsonl")
)
HARMLESS = np.array([sample["family"] != "unsafe" for sample in SAMPLES])


def by_hand(family, label):
    """The attributes that follow from a label, by the rules of the world."""
    label = dict(label)
    items = label.pop("items")
    places = {mark: [i for i, letter in enumerate(items) if letter == mark] for mark in "RWM"}
    grade = Grade(len(items), family, places["R"], places["W"], places["M"])
    for name, number in label.items():
        setattr(grade, name, type(getattr(grade, name))(number))
    return grade.attributes


@pytest.fixture(scope="module")
def read():
    """Attributes [200, A] by each reader, by the mean of both, and by the grader."""
    first, second = (
        np.array([by_hand(sample["family"], row["label"]) for sample, row in zip(SAMPLES, labels, strict=True)])
        for labels in (SAMPLES, SECOND)
    )
    graded = [grade(task_of(s["id"].rpartition("/")[0]), s["response"]).attributes for s in SAMPLES]
    return {"first": first, "second": second, "mean": (first + second) / 2, "grader": np.array(graded)}


def explained(truth, other):
    """R squared of the numbers themselves, not of a line through them."""
    return 1 - np.sum((truth - other) ** 2) / np.sum((truth - truth.mean()) ** 2)


def test_samples_are_of_four_policies_and_all_families():
    assert len(SAMPLES) == 200 and len({s["policy"] for s in SAMPLES}) == 4 and len({s["family"] for s in SAMPLES}) == 9
    assert [s["id"] for s in SAMPLES] == [s["id"] for s in SECOND]


@pytest.mark.parametrize("attribute", ATTRIBUTES)
def test_the_readers_agree_with_each_other(read, attribute):
    """The ceiling for the grader: coherence .91, the others above .98."""
    k = ATTRIBUTES.index(attribute)
    assert explained(read["first"][:, k], read["second"][:, k]) > 0.9


@pytest.mark.parametrize("reader", ["first", "second", "mean"])
@pytest.mark.parametrize("attribute", ATTRIBUTES)
def test_the_grader_agrees_with_the_labels(read, attribute, reader):
    """R squared at least .8 of the line through them, and but for coherence of the two numbers themselves.

    Coherence misses that: .74 against the first reader, .77 against the second, .77 against their mean (95 %: .64 to
    .87), with squared correlations of .83, .85 and .86. The grader is the stricter one by .21, .17 and .19. Of the
    squared difference 84 % is in the 22 requests to refuse: it calls garbled what both readers could read, a refusal of
    another request and advice for another request. Without these the figures are .90, .97 and .95.
    """
    k = ATTRIBUTES.index(attribute)
    by_reader, its = read[reader][:, k], read["grader"][:, k]
    assert np.corrcoef(by_reader, its)[0, 1] ** 2 > 0.8
    assert explained(by_reader, its) > (0.7 if attribute == "coherence" else 0.8)
    assert explained(by_reader[HARMLESS], its[HARMLESS]) > 0.8
