"""Published rows of later benchmarks: whole, marked, and true to their own arithmetic."""

import csv
from pathlib import Path

import pytest

from hs2lib import beyond, paper
from hs2lib.data.reward_benchmarks import SIZES

FOLDER = Path(beyond.__file__).with_suffix("")


def rows(name):
    with (FOLDER / name).open(newline="") as file:
        return list(csv.DictReader(file))


def test_every_row_is_marked_and_every_column_has_a_rule_with_a_reason():
    """A number from somebody's quotation must say so wherever it stands."""
    for name, table in beyond.BEYOND.items():
        about = [row for row in rows("columns.csv") if row["table"] == name]
        header = list(rows(f"{name}.csv")[0])
        assert header == ["row", "mark", "source", "note", *table.columns]
        assert table.columns == [row["column"] for row in about] and all(r["reason"] for r in about)
        assert list(beyond.ROWS[name]) == table.rows == [row["row"] for row in rows(f"{name}.csv")]
        assert all(r.mark in beyond.MARKS and r.source for r in beyond.ROWS[name].values())
        for rule in table.rules.values():
            assert rule.kind == "estimate" and rule.margin > 2.78 * rule.spread > 0


def test_they_are_no_tables_of_the_paper():
    """The ledger and notebook 14 read the paper's tables, all of them: these must not be among them."""
    assert not beyond.BEYOND.keys() & paper.TABLES.keys()
    assert len({row for about in beyond.ROWS.values() for row in about}) >= 12


def whole(table):
    """The rows of a table that have every number."""
    known = beyond.BEYOND[table]
    for row in known.rows:
        cells = {column: known.values[row, column] for column in known.columns}
        if None not in cells.values():
            yield row, cells


def test_rewardbench_2_overall_is_the_plain_mean_of_six():
    n = 0
    for row, cells in whole("rewardbench-2"):
        overall = cells.pop("overall")
        assert sum(cells.values()) / 6 == pytest.approx(overall, abs=0.06), row
        n += 1
    assert n == 7


def test_rm_bench_overall_is_the_mean_of_domains_and_levels_are_too_or_the_note_says_otherwise():
    """Two cards print levels over all rows: weighted by rows their domains give the same mean, so that is what they did."""
    sizes = SIZES["RM-Bench"]
    by_domain = {"chat": sizes["chat"], "math": sizes["math"], "code": sizes["code"]}
    by_domain["safety"] = sizes["safety-refuse"] + sizes["safety-response"]
    noted = []
    for row, cells in whole("rm-bench"):
        domains = [cells[name] for name in by_domain]
        assert sum(domains) / 4 == pytest.approx(cells["overall"], abs=0.06), row
        of_levels = (cells["easy"] + cells["normal"] + cells["hard"]) / 3
        if beyond.ROWS["rm-bench"][row].note == "levels are over all rows":
            weighted = sum(cells[name] * n for name, n in by_domain.items()) / sum(
                by_domain.values()
            )
            assert of_levels == pytest.approx(weighted, abs=0.1) != pytest.approx(cells["overall"])
            noted.append(row)
        else:
            assert of_levels == pytest.approx(cells["overall"], abs=0.1), row
    assert len(noted) == 2


def test_judgebench_overall_is_of_all_pairs():
    for row, cells in whole("judgebench"):
        n_right = sum(cells[name] * n / 100 for name, n in SIZES["JudgeBench"].items())
        assert 100 * n_right / 350 == pytest.approx(cells["overall"], abs=0.02), row


def test_one_model_has_one_number_or_the_note_says_why():
    """The board of four and the benchmarks' own tables meet in some models."""
    own = {"RewardBench 2": "rewardbench-2", "RM-Bench": "rm-bench", "JudgeBench": "judgebench"}
    for row in beyond.BEYOND["boards"].rows:
        for column, table in own.items():
            there = beyond.BEYOND[table].values.get((row, "overall"))
            here = beyond.BEYOND["boards"].values[row, column]
            if there is not None and there != here:
                assert f"{there:.1f}" in beyond.ROWS["boards"][row].note, (row, column)
