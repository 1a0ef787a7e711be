"""Notebooks 01 and 02: their own cells are executed, and held to pingouin, pandas and the library."""

import re
from pathlib import Path
from types import SimpleNamespace

import nbformat
import numpy as np
import pandas as pd
import pingouin as pg
import pytest

from hs2lib import paper
from hs2lib.data import tables
from hs2lib.data.load import Loaded
from hs2lib.group import ATTRIBUTES
from hs2lib.report import report, verdict
from hs2lib.stats import describe
from hs2lib.world import cards, grade, raters, sets

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
STATISTICS = "01_dataset_statistics"
CORRELATIONS = "02_attribute_correlations"


def cells_of(name):
    """The cells of a notebook by id."""
    return {cell.id: cell for cell in nbformat.read(NOTEBOOKS / f"{name}.ipynb", 4).cells}


def world(n_prompts=60):
    """Generated rows, as both notebooks load them."""
    loaded = Loaded(list(sets.groups(n_prompts, seed=0)), "made", True)
    return {"loaded": loaded, "rows": tables.table(loaded.groups)}


def run_cells(name, *ids, **values):
    """The names that some cells of a notebook leave."""
    run = SimpleNamespace(sources=[], verdicts={}, source=lambda *_, **__: None)
    run.table = run.keep_table = lambda *_, **__: None
    known = {"np": np, "pd": pd, "pg": pg, "paper": paper, "describe": describe, "run": run}
    known |= {"tables": tables, "report": report, "verdict": verdict, "cards": cards}
    known |= {"grade": grade, "raters": raters, "seed": 0, "compare_with": ""}
    known |= {"dataset": "helpsteer2", "source": "postcards", "strict": True}
    namespace = known | values
    for id in ids:
        exec(compile(cells_of(name)[id].source, f"{name}, {id}", "exec"), namespace)
    return namespace


def solved(name, text, namespace):
    """Run the folded solution of an exercise, then the test in front of it."""
    test, solution = re.findall(
        r"\*\*Write it.*?```python\n(.*?)```.*?```python\n(.*?)```", text, re.S
    )[0]
    exec(compile(solution, f"{name}, solution", "exec"), namespace)
    exec(compile(test, f"{name}, its test", "exec"), namespace)


def text_with(name, words):
    """The Markdown cell that holds some words."""
    (found,) = [cell.source for cell in cells_of(name).values() if words in cell.source]
    return found


# 01


def test_pandas_and_pingouin_find_the_numbers_that_the_intervals_are_around():
    left = run_cells(STATISTICS, "rows", "statistics", "table2", **world())
    ours = left["ours"].pivot(index="row", columns="column", values="ours")
    estimates = left["estimates"]
    assert list(left["attributes"]) == list(ATTRIBUTES)
    for statistic in ("mean", "SD", "R"):
        theirs = estimates[statistic].dropna()
        assert len(theirs) >= 7
        assert ours[f"{statistic} HS2"][theirs.index].tolist() == pytest.approx(theirs.tolist())


def test_table_2_is_judged_on_the_papers_rows_alone():
    ids = ("rows", "statistics", "table2", "compare", "judge")
    made = world()
    left = run_cells(STATISTICS, *ids, **made)["against"]
    assert len(left) == len(paper.TABLES["table-2"].values)
    assert left.verdict[left.ours.notna()].str.startswith("not comparable").all()
    printed = SimpleNamespace(
        sources=[{"generated": False, "of_paper": True}], verdicts={}, keep_table=lambda *_, **__: 0
    )
    printed.table = printed.keep_table
    left = run_cells(STATISTICS, *ids, run=printed, **made)["against"]
    judged = left[left.ours.notna()]
    assert judged.verdict.isin(verdict.JUDGED).all()
    right = (judged.ours - judged.paper).abs() < 1e-3  # R of helpfulness with itself is 1
    assert (judged.verdict[~right] == verdict.DIFFERENT).all()


def test_a_rise_over_helpsteer_is_tested_on_one_number_a_prompt():
    ids = ("rows", "statistics", "table2", "compare", "risen", "risen-verdict")
    made = world()
    left = run_cells(STATISTICS, *ids, **made)
    assert (left["risen"].verdict == "generated").all()
    assert (left["risen"].dof == len(made["loaded"].groups) - 1).all()
    made["loaded"].generated = False
    risen = run_cells(STATISTICS, *ids, **made)["risen"]
    assert risen.verdict["complexity"] == "as the paper"  # far above
    assert risen.verdict["coherence"] == "not as the paper"  # far below


# 02


def test_partial_correlation_by_lines_is_pingouins_and_the_librarys():
    partial = run_cells(CORRELATIONS, "partial")["partial"]
    rng = np.random.default_rng(0)
    z = rng.normal(size=80)
    x = z + rng.normal(size=80)
    h = z - 0.3 * x + rng.normal(size=80)
    frame = pd.DataFrame({"x": x, "h": h, "z": z})
    mine = partial(x, h, z)
    assert mine == pytest.approx(pg.partial_corr(frame, "x", "h", "z").r.item())
    theirs = describe.partial_correlation(x, h, z, np.arange(80), n_boot=100)
    assert mine == pytest.approx(float(theirs.estimate))


def test_every_way_to_ask_about_length_lies_inside_its_interval():
    ids = ("columns", "partial", "ways", "ways-intervals", "within", "counts")
    ways = run_cells(CORRELATIONS, *ids, **world())["ways"]
    assert len(ways) == 5
    assert (ways.low < ways.R).all()
    assert (ways.high > ways.R).all()


def test_what_a_response_says_is_counted_in_generated_rows_alone(capsys):
    made = world()
    made["loaded"].generated = False
    ids = ("columns", "partial", "ways", "ways-intervals", "counts")
    assert len(run_cells(CORRELATIONS, *ids, **made)["ways"]) == 4
    assert "skipped" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("generated", "dataset", "expected"),
    [
        (False, "helpsteer2", ["as the paper", "not as the paper", "open"]),
        (False, "oasst1", ["other data"] * 3),
        (True, "helpsteer2", ["generated"] * 3),
    ],
)
def test_a_reading_holds_where_the_whole_interval_is_on_its_side(generated, dataset, expected):
    # HelpSteer's R of coherence is .63, of correctness .85, of complexity .24.
    intervals = {"coherence": (0.4, 0.5), "correctness": (0.5, 0.6), "complexity": (0.2, 0.3)}
    measured = pd.DataFrame(intervals, index=["low", "high"]).T
    measured["R"] = measured.mean(axis=1)
    loaded = SimpleNamespace(generated=generated)
    values = {"with_helpfulness": measured, "loaded": loaded, "dataset": dataset}
    readings = run_cells(CORRELATIONS, "readings", "verdicts", **values)["readings"]
    assert len(readings) == 7
    assert readings.verdict[list(intervals)].tolist() == expected


def test_rows_without_helpfulness_are_refused():
    made = world()
    made["rows"]["helpfulness"] = np.nan
    with pytest.raises(ValueError, match="helpfulness"):
        run_cells(CORRELATIONS, "columns", **made)


def test_one_sentence_more_changes_what_the_formulas_of_the_world_say():
    effects = run_cells(CORRELATIONS, "experiment", "experiment-run")["effects"].helpfulness
    expected = [0.5, -0.5, raters.LIKING, -0.6, -0.4, -0.4]
    assert effects.tolist() == pytest.approx(expected)


def test_solutions_of_the_exercises_pass_their_own_tests(monkeypatch):
    monkeypatch.setitem(pg.options, "round.column.CI95", 4)  # as the notebooks have it
    made = world()
    left = run_cells(STATISTICS, "rows", **made)
    solved(STATISTICS, text_with(STATISTICS, "**Write it.**"), left)
    left = run_cells(CORRELATIONS, "columns", "partial", "ways", **made)
    solved(CORRELATIONS, text_with(CORRELATIONS, "**Write it.**"), left)
