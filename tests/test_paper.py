"""The paper's files: whole, read digit for digit, and with a rule and its reason for every column."""

import csv
import json
from pathlib import Path

import pytest

from hs2lib import paper
from hs2lib.group import ATTRIBUTES
from hs2lib.paths import root

FOLDER = Path(paper.__file__).with_suffix("")


def rows(name):
    with (FOLDER / name).open(newline="") as file:
        return list(csv.DictReader(file))


def test_every_column_of_every_table_has_a_rule_and_a_reason():
    for name, table in paper.TABLES.items():
        about = [row for row in rows("columns.csv") if row["table"] == name]
        header = list(rows(f"{name}.csv")[0])
        assert header == ["row", *(row["column"] for row in about)] == ["row", *table.columns]
        assert all(row["reason"] for row in about)
        assert all(rule.margin > 0 and rule.spread >= 0 for rule in table.rules.values())
        assert all((rule.spread > 0) == (rule.kind == "estimate") for rule in table.rules.values())


def test_an_interval_of_every_estimate_fits_into_its_margin():
    """Else no honest run could ever be consistent: 1.96 times the root of 2 times the spread is 2.77 spreads."""
    for table in paper.TABLES.values():
        assert all(rule.margin > 2.78 * rule.spread for rule in table.rules.values())


def test_a_margin_follows_the_printed_digits_or_the_number():
    """3.6393 has .00005 of room, .0600 as much: its zeros count. 5 % of 1471.9 characters are 73.595."""
    two, four = paper.TABLES["table-2"].rules, paper.TABLES["table-4"].rules
    best = "SteerLM 2.0 iter 2 w. Daring-Anteater"
    assert (
        two["coherence", "mean HS2"].margin
        == two["verbosity", "R HS2"].margin
        == pytest.approx(5e-5)
    )
    assert two["characters in prompt", "mean HS"] == ("exact", pytest.approx(0.05), 0, 1)
    assert four[best, "characters"] == (
        "estimate",
        pytest.approx(73.595),
        pytest.approx(18.399, abs=1e-3),
        1,
    )
    assert four[best, "AlpacaEval 2 LC"] == ("estimate", 2 * 1.35, 1.35 / 2, 2)


def test_what_the_paper_does_not_print_is_none():
    assert paper.value("table-2", "turns in prompt", "R HS") is None
    assert paper.value("table-3", "Gemini 1.5 Pro-0514", "prior sets") is None


def test_unknown_names_are_named():
    with pytest.raises(KeyError, match="table-9"):
        paper.value("table-9", "a", "b")
    with pytest.raises(KeyError, match="helpfullness"):
        paper.value("table-1", "helpfullness", "initial")


def test_goodness_is_the_first_three_of_the_70b_models_weights():
    """Paper: section 4.3. Three attributes, and none of the others."""
    weights = paper.HEAD_WEIGHTS["Llama 3 70B w. HelpSteer2"]
    assert list(weights) == list(ATTRIBUTES)
    assert {name: weights[name] for name in ATTRIBUTES[:3]} == paper.GOODNESS


def test_departures_say_what_both_do_where_and_what_it_moves():
    """An effect is a figure, or none, or the reason why it cannot be measured."""
    for row in paper.DEPARTURES:
        assert all(row.values()) and len({row["paper or its code"], row["tier paper here"]}) == 2, (
            row
        )
        effect = row["effect"]
        assert (
            effect.startswith(("none", "cannot be measured: ")) or effect.lstrip("-")[0].isdigit()
        ), effect


def test_effects_of_departures_are_those_that_were_measured():
    """Each figure and its interval, to two decimals, as benchmarks/departures.py left them."""
    parts = json.loads((root() / "reports" / "benchmarks" / "departures.json").read_text())["parts"]
    by_part = {row["part"]: row["effect"] for row in paper.DEPARTURES}
    named = {"checkpoint of every policy": "checkpoint", "SFT, loss": "loss"}
    named |= {
        "rows that are too long, reward model": "long",
        "conversations that are too long, SFT": "cut",
    }
    named |= {
        "SFT on Open Assistant, system text": "system",
        "texts that spell out a marker": "marker",
    }
    for row, part in named.items():
        value, low, high = (f"{parts[part][name]:.2f}" for name in ("points", "low", "high"))
        assert by_part[row].startswith(value) and f"({low} to {high}" in by_part[row], row
    assert by_part["Arena Hard, interval"].startswith(
        f"{parts['interval']['their width over ours']:.2f}"
    )
