"""The grader against 400 responses of real policies, labelled by readers (`labelled/README.md` has the rules)."""

import json
from pathlib import Path

import numpy as np
import pytest

from hs2lib.corpus.generate import task_of
from hs2lib.corpus.grade import Grade, grade
from hs2lib.group import ATTRIBUTES

LABELLED = Path(__file__).parent / "labelled"
SAMPLES, SECOND, FRESH = (
    [json.loads(line) for line in (LABELLED / name).read_text().splitlines()]
    for name in ("samples.jsonl", "second.jsonl", "fresh.jsonl")
)


def by_hand(family, label):
    """The attributes that follow from a label, by the rules of the world."""
    label = dict(label)
    items = label.pop("items")
    places = {mark: [i for i, letter in enumerate(items) if letter == mark] for mark in "RWM"}
    grade = Grade(len(items), family, places["R"], places["W"], places["M"])
    for name, number in label.items():
        setattr(grade, name, type(getattr(grade, name))(number))
    return grade.attributes


def labelled(samples, labels):
    return np.array(
        [
            by_hand(sample["family"], row["label"])
            for sample, row in zip(samples, labels, strict=True)
        ]
    )


def graded(samples):
    return np.array(
        [grade(task_of(s["id"].rpartition("/")[0]), s["response"]).attributes for s in samples]
    )


@pytest.fixture(scope="module")
def read():
    """Attributes [200, A] by a reader and by the grader: of the first samples by each reader and the mean, of fresh."""
    first, second, its = labelled(SAMPLES, SAMPLES), labelled(SAMPLES, SECOND), graded(SAMPLES)
    both = {"first": (first, its), "second": (second, its), "mean": ((first + second) / 2, its)}
    return both | {"fresh": (labelled(FRESH, FRESH), graded(FRESH))}


def explained(truth, other):
    """R squared of the numbers themselves, not of a line through them."""
    return 1 - np.sum((truth - other) ** 2) / np.sum((truth - truth.mean()) ** 2)


@pytest.mark.parametrize("samples", [SAMPLES, FRESH], ids=["first", "fresh"])
def test_samples_are_of_four_policies_and_all_families(samples):
    assert (
        len(samples) == 200
        and len({s["policy"] for s in samples}) == 4
        and len({s["family"] for s in samples}) == 9
    )
    assert [s["id"] for s in SAMPLES] == [s["id"] for s in SECOND]
    assert not {s["id"].rpartition("/")[0] for s in FRESH} & {
        s["id"].rpartition("/")[0] for s in SAMPLES
    }


@pytest.mark.parametrize("attribute", ATTRIBUTES)
def test_the_readers_agree_with_each_other(read, attribute):
    """The ceiling for the grader: coherence .91, the others above .98."""
    k = ATTRIBUTES.index(attribute)
    assert explained(read["first"][0][:, k], read["second"][0][:, k]) > 0.9


@pytest.mark.parametrize("reader", ["first", "second", "mean", "fresh"])
@pytest.mark.parametrize("attribute", ATTRIBUTES)
def test_the_grader_agrees_with_the_labels(read, attribute, reader):
    """R squared of the numbers themselves, not of a line through them, at least .8.

    The first 200 found the grader calling garbled a refusal of another request and advice for
    another one (coherence .74 and .77); it was mended by them, so they show no more than that it
    was. The fresh 200 were drawn and labelled after that, and nothing was changed by them:
    coherence .90 (95 % .80 to .97; by the grader as it was .67), helpfulness and correctness .96,
    complexity 1.00, verbosity .98.
    """
    k = ATTRIBUTES.index(attribute)
    by_reader, its = (attributes[:, k] for attributes in read[reader])
    assert explained(by_reader, its) > 0.8
