"""The annotation form for attributes and a scale of one's own."""

import json

import pytest

from hs2lib.collect.annotate import AnnotationForm
from hs2lib.data.load import load
from hs2lib.data.own import Scale
from hs2lib.data.rows import DataError
from hs2lib.group import Group, Response, Turn


@pytest.fixture
def groups():
    answers = (Response("sum/0", "4"), Response("sum/1", "Four."))
    return [Group("sum", (Turn("user", "2 + 2?"),), answers)]


def saved(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def rate(form, *values):
    for control, value in zip(form.ratings.values(), values, strict=True):
        control.value = value
    form.confidence.value = "very"
    form.safe.value = "pass"
    form.save.click()


def test_its_ratings_are_a_file_of_own_ratings(groups, tmp_path):
    """What the form writes is what 05 trains on, without a rename between."""
    path = tmp_path / "r.jsonl"
    form = AnnotationForm(groups, path, "ann", attributes=["clarity", "tone"], scale="1-5")
    assert list(form.ratings["tone"].options) == [1, 2, 3, 4, 5]
    rate(form, 1, 5)
    rate(form, 5, 4)
    assert [(row["clarity"], row["tone"]) for row in saved(path)] == [(1, 5), (5, 4)]
    loaded = load("ratings", "folder", path=path, scale="1-5")
    assert loaded.groups[0].attributes == ("clarity", "tone")
    assert loaded.own_columns.scales["tone"] == Scale(1, 5)
    again = AnnotationForm(groups, path, "ann", attributes=["clarity", "tone"], scale="1-5")
    assert again.current is None


@pytest.mark.parametrize("scale", ["0-100", "0-0.5"])
def test_a_scale_without_a_button_for_each_level_is_refused(groups, tmp_path, scale):
    with pytest.raises(ValueError, match=f"score: .* whole numbers, and at most 11; got {scale}"):
        AnnotationForm(groups, tmp_path / "r.jsonl", attributes=["score"], scale=scale)


def test_a_rating_off_the_scale_is_named_before_any_is_added(groups, tmp_path):
    path = tmp_path / "r.jsonl"
    form = AnnotationForm(groups, path, "ann", attributes=["tone"], scale="0-1")
    assert list(form.ratings["tone"].options) == [0, 1]
    rate(form, 0)
    with pytest.raises(DataError, match=r"r\.jsonl, line 1, field 'tone'"):
        AnnotationForm(groups, path, "ann", attributes=["tone"], scale="1-5")


def test_an_attribute_without_a_scale_is_refused(groups, tmp_path):
    with pytest.raises(ValueError, match="says nothing of tone"):
        AnnotationForm(
            groups, tmp_path / "r.jsonl", attributes=["clarity", "tone"], scale="clarity:1-5"
        )
