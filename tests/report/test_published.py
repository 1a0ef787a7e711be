"""What is published stands beside a run, of methods, controls and oracles, and of no other edition."""

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


def test_a_method_has_its_verdict_and_an_oracle_has_none(works):
    works()
    words = "over two seeds -0.30 (-0.40 to -0.20)"
    assert published.of_seeds("iterative dpo") == f"{words}, harms"
    assert published.of_seeds("iterative dpo, by the truth") == words


def test_nothing_stands_beside_a_run_where_nothing_is_published(works):
    assert published.of_seeds("iterative dpo") == ""
    works(means=[])
    assert published.of_seeds("iterative dpo") == ""
    works(verdicts={})
    assert published.of_seeds("iterative dpo") != "", "the verdict alone is missing"
