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


def test_each_control_has_its_own_level_and_the_lead_over_it(works):
    """By hand: blind gains .7 and the method .5 more; at random loses .5 and the method leads by 1.7."""
    row = {"temperature": 0.0, "what": "held out", "measure": "truth", "seeds": 2}
    numbers = {
        ("ppo", "start"): 1.2,
        ("ppo", "ppo, blind"): 0.5,
        ("ppo", "ppo, at random"): 1.7,
        ("ppo, blind", "start"): 0.7,
        ("ppo, at random", "start"): -0.5,
    }
    means = []
    for (policy, less), value in numbers.items():
        bounds = {"low": value - 0.1, "high": value + 0.1}
        means.append({"policy": policy, "less": less, "value": value, **bounds, **row})
    works(means=means, verdicts={"ppo": "works"})
    controls = {"by the truth": "The truth", "at random": "Chance", "blind": "A blind judge"}
    truth, chance, blind, hardest = published.controls_in_words("ppo", controls)
    assert truth == "The truth: not run."
    assert chance == (
        "Chance: -0.50 (-0.60 to -0.40) beside the start, a damaged policy. "
        "The method less this control: +1.70 (+1.60 to +1.80)."
    )
    assert blind.endswith("The method less this control: +0.50 (+0.40 to +0.60).")
    assert "damaged" not in blind
    assert hardest == "The hardest control, with the smallest lead: a blind judge."
    interval, meaning = published.reading("ppo")
    assert "a single seed, as this run, may lie outside" in interval
    assert meaning.startswith('"Works" means: above its start')
    assert published.reading("dpo") == []


def test_nothing_stands_beside_a_run_where_nothing_is_published(works):
    assert published.of_seeds("iterative dpo") == ""
    assert published.controls_in_words("ppo", {"blind": "blind"}) == []
    works(means=[])
    assert published.of_seeds("iterative dpo") == ""
    works(verdicts={})
    assert published.of_seeds("iterative dpo") != "", "the verdict alone is missing"
