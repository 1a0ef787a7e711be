"""Means over the published seeds: which numbers they are, and nothing where nothing is published."""

import json

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
    cells = [["+0.40 [+0.30, +0.50]"] * 2, ["+0.20 [+0.10, +0.30]"] * 2]
    assert published.beside_sft().set_index("method").to_numpy().tolist() == cells


def test_nothing_stands_beside_a_run_where_nothing_is_published(works):
    assert published.means("start").empty and published.verdicts().empty
    assert published.sign("iterative dpo") is None
    works(means=[])
    assert published.means("start").empty and published.sign("iterative dpo") is None
    works(verdicts={})
    assert published.verdicts().empty and published.sign("iterative dpo") == -1


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


def test_the_sign_of_what_the_seeds_show(works):
    """By hand: -.4 to -.2 is a loss, -.4 to +.2 nothing."""
    works()
    assert published.sign("iterative dpo") == -1 and published.sign("ppo") is None
    row = {"policy": "ppo", "less": "start", "temperature": 0.0, "what": "held out"}
    works(means=[row | {"measure": "truth", "value": 0.0, "low": -0.4, "high": 0.2, "seeds": 2}])
    assert published.sign("ppo") == 0


def test_the_row_of_steerlm_is_of_its_label_of_quality(works):
    """By hand: .4 of quality 4 less 0 in place of .1 less the start; DPO has its own start."""
    row = {"temperature": 0.0, "measure": "truth", "low": 0.0, "high": 1.0, "seeds": 2}
    means = [
        row | {"policy": "steerlm", "less": "start", "what": "held out", "value": 0.1},
        row | {"policy": "steerlm", "less": "itself", "what": "quality", "value": 0.4},
        row | {"policy": "dpo", "less": "start", "what": "held out", "value": 0.8},
    ]
    works(means=means, controls={}, verdicts={"dpo": "works", "steerlm": "not shown"})
    column = published.verdicts()["greedy, less start"]
    assert column.tolist() == ["+0.80 [+0.00, +1.00]", "+0.40 [+0.00, +1.00]"]
