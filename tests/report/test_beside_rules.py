"""The figure and the table of notebook 16: a panel a benchmark, a row a part, every number where it belongs."""

import matplotlib.pyplot as plt
import pandas as pd

from hs2lib.report import beside_rules


def test_every_number_stands_in_its_row_and_panel():
    """Two benchmarks of two parts and one: a marker for the model and each rule, the chance only where there is one."""
    rows = []
    numbers = {
        "model": 70.0,
        "longest answer": 40.0,
        "shortest answer": 60.0,
        "random answer": 50.0,
    }
    for benchmark, part, chance in (
        ("A", "overall", float("nan")),
        ("A", "one", 25.0),
        ("B", "two", 50.0),
    ):
        for who, value in numbers.items():
            rows.append((benchmark, part, 9, chance, who, value, value - 5, value + 5))
    columns = ["benchmark", "part", "questions", "chance", "by", "value", "low", "high"]
    fig = beside_rules.figure(pd.DataFrame(rows, columns=columns), "T")
    first, second = fig.axes
    assert len(first.get_yticks()) == 2 and len(second.get_yticks()) == 1
    drawn = {
        line.get_marker(): line.get_xdata().tolist()
        for line in first.lines
        if len(line.get_xdata()) == 2
    }
    assert drawn[">"] == [40, 40] and drawn["<"] == [60, 60] and drawn["o"] == [50, 50]
    plt.close(fig)


def test_a_cell_has_a_number_and_its_interval_and_empty_rows_are_left_out():
    """By hand: 70 from 65 to 75 is "70.0 [65.0, 75.0]"; a number without interval stands alone; an empty one is no row."""
    about = {"benchmark": "A", "level": "", "questions": 9, "verdict": "above"}
    nan = float("nan")
    numbers = {}
    for who in ("model", *beside_rules.MARKERS):
        numbers |= {f"{who} (%)": 70.0, f"{who} low": 65.0, f"{who} high": 75.0}
    alone = numbers | {"model low": nan, "model high": nan}
    empty = dict.fromkeys(numbers, nan)
    rows = [
        about | {"part": part} | row
        for part, row in (("one", numbers), ("two", alone), ("x", empty))
    ]
    cells = beside_rules.shown(pd.DataFrame(rows))
    assert cells["model (%)"].tolist() == ["70.0 [65.0, 75.0]", "70.0"]
    assert (
        cells.part.tolist() == ["one", "two"]
        and cells["beside the rules"].tolist() == ["above"] * 2
    )
