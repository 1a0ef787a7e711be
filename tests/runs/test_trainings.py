"""A notebook that is to find a stage's training, and asks for another one."""

import json

import pytest

from hs2lib.runs import trainings


@pytest.fixture
def made(tmp_path, monkeypatch):
    """A training that a stage left, which the notebook is to find."""
    folder = tmp_path / "training-a"
    folder.mkdir()
    (folder / "run.json").write_text(
        json.dumps({"recipe": {"batch": 8, "seed": 0}, "training": "x"})
    )
    monkeypatch.setenv(trainings.FINDS, json.dumps([str(folder)]))
    return folder


def test_the_same_training_is_found(made):
    trainings.find(made, "{}")
    assert str(made) in trainings.noted()


def test_another_training_in_its_place_stops_and_names_what_differs(made):
    """Eight GPUs trained for days, and the notebook would begin anew on one."""
    record = json.dumps({"recipe": {"batch": 4, "seed": 0}, "training": "x"})
    with pytest.raises(
        trainings.NotFoundError, match=r"training-a .* differs in recipe\.batch: give"
    ):
        trainings.find(made.with_name("training-b"), record)


def test_a_training_in_another_folder_is_free(made):
    """A check in a notebook trains a tiny model for itself."""
    trainings.find(made.parent / "end-to-end" / "training-c", "{}")


def test_where_nothing_is_to_be_found_all_is_free(made, monkeypatch):
    monkeypatch.delenv(trainings.FINDS)
    trainings.find(made.with_name("training-b"), "{}")
