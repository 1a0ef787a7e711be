"""The paper's files: whole, read digit for digit, and with a tolerance and its reason for every column."""

import csv
from pathlib import Path

import pytest

from hs2lib import paper
from hs2lib.group import ATTRIBUTES

FOLDER = Path(paper.__file__).with_suffix("")


def rows(name):
    with (FOLDER / name).open(newline="") as file:
        return list(csv.DictReader(file))


def test_every_column_of_every_table_has_a_tolerance_and_a_reason():
    for name, table in paper.TABLES.items():
        about = [row for row in rows("columns.csv") if row["table"] == name]
        header = list(rows(f"{name}.csv")[0])
        assert header == ["row", *(row["column"] for row in about)] == ["row", *table.columns]
        assert all(row["reason"] for row in about)
        assert all(tolerance > 0 for tolerance in table.tolerance.values())


def test_a_tolerance_follows_the_printed_digits_or_the_number():
    """3.6393 has .00005 of room, .0600 as much: its zeros count. 5 % of 1471.9 characters are 73.595."""
    two, four = paper.TABLES["table-2"], paper.TABLES["table-4"]
    best = "SteerLM 2.0 iter 2 w. Daring-Anteater"
    assert two.tolerance["coherence", "mean HS2"] == two.tolerance["verbosity", "R HS2"] == pytest.approx(5e-5)
    assert two.tolerance["characters in prompt", "mean HS"] == pytest.approx(0.05)
    assert four.tolerance[best, "characters"] == pytest.approx(73.595)
    assert four.tolerance[best, "AlpacaEval 2 LC"] == 1.35


def test_what_the_paper_does_not_print_is_none():
    assert paper.value("table-2", "turns in prompt", "R HS") is None
    assert paper.value("table-3", "Gemini 1.5 Pro-0514", "prior sets") is None


def test_unknown_names_are_named():
    with pytest.raises(KeyError, match="no table 'table-9'"):
        paper.value("table-9", "a", "b")
    with pytest.raises(KeyError, match=r"no \('helpfullness'"):
        paper.value("table-1", "helpfullness", "initial")


def test_goodness_is_the_first_three_of_the_70b_models_weights():
    """Paper: section 4.3. Three attributes, and none of the others."""
    weights = paper.HEAD_WEIGHTS["Llama 3 70B w. HelpSteer2"]
    assert list(weights) == list(ATTRIBUTES)
    assert {name: weights[name] for name in ATTRIBUTES[:3]} == paper.GOODNESS
