"""What is published of ratings and preferences over seeds, as notebooks 05, 14 and 15 show it."""

import json

import pytest

from hs2lib.evaluate import published_losses as published
from hs2lib.evaluate.learners import LONGER, RIGHT


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Publishes a record in the place of the repository's own."""
    monkeypatch.setattr(published.paths, "root", lambda: tmp_path)
    file = tmp_path / published.PUBLISHED
    file.parent.mkdir(parents=True)
    return lambda record: file.write_text(json.dumps(record))


def difference(first, second, value, low, high, **changed):
    row = {"judgements": 8, "first": first, "second": second, "asks": "x", "measure": RIGHT}
    return row | {"difference": value, "low": low, "high": high, "seeds": 5} | changed


def test_without_a_published_benchmark_its_tables_are_empty(tmp_path, monkeypatch):
    """The notebooks read them where they are, and say nothing where they are not."""
    monkeypatch.setattr(published.paths, "root", lambda: tmp_path)
    assert published.record() == {}
    for table in (published.means(), published.gains(), published.gains_shown()):
        assert len(table) == 0
    assert len(published.means_shown()) == len(published.real_shown()) == 0
    assert "learner" in published.means() and "first" in published.gains()
    assert published.fewer_lose() == ()


def test_captions_name_the_seeds_and_the_commit_of_what_is_published(write):
    """A run's own caption says its own seed and prompts, and these numbers are of none of them."""
    real = {"pairs": 331, "ties": 72, "base": "SmolLM2", "rows": [], "differences": []}
    write({"commit": "930775510132", "seeds": [0, 1], "prompts": 400, "real": real})
    for part in ("losses.json", "9307755", "generated", "seeds 0, 1", "400"):
        assert part in published.source(), part
    for part in ("losses.json", "9307755", "331", "72"):
        assert part in published.source_of_real(), part


def test_what_one_seed_published_has_no_interval_and_says_so(write):
    """JSON has no nan: a missing end of an interval comes as null and must not stop the notebook."""
    row = {"judgements": 8, "measure": RIGHT, "low": None, "high": None, "seeds": 1}
    means = [row | {"learner": "plain", "value": 70.0}]
    one = difference("plain", "helpfulness", 2.0, None, None, seeds=1)
    write({"means": means, "differences": [one]})
    assert published.means_shown().to_dict() == {RIGHT: {"Bradley-Terry": "70.0"}}
    gains = published.gains_shown()
    assert gains.difference.tolist() == [2.0] and gains[["low", "high"]].isna().all(axis=None)


def test_only_the_comparisons_that_are_asked_about_are_shown(write):
    rows = [difference("plain", "helpfulness", -3.0, -4.0, -2.0)]
    rows.append(difference("helpfulness", "five", 0.5, -1.0, 2.0))
    rows.append(difference("plain", LONGER, 9.0, 8.0, 10.0))  # not one of the comparisons
    rows.append(difference("scaled", "plain", 2.0, 1.0, 3.0, judgements=4))  # of fewer
    write({"differences": rows})
    shown = published.gains_shown()
    assert shown[["first", "second"]].to_numpy().tolist() == [
        ["plain", "helpfulness"],
        ["helpfulness", "five"],
    ]


def test_fewer_judgements_are_compared_seed_by_seed(write):
    """By hand: differences of -1, -2 and -3 have mean -2, and t 4.303 over root 3 is 2.484."""
    rows = []
    for seed, (few, many) in enumerate([(69, 70), (58, 60), (77, 80)]):
        row = {"seed": seed, "learner": "five", "measure": RIGHT}
        rows += [row | {"judgements": 2, "value": few}, row | {"judgements": 8, "value": many}]
    rows.append({"seed": 9, "learner": "five", "measure": RIGHT, "judgements": 8, "value": 1})
    write({"rows": rows})
    assert published.fewer_lose() == pytest.approx((-2, -2 - 2.484, -2 + 2.484, 3, 2, 8), abs=1e-3)
    assert published.fewer_lose("plain") == ()
