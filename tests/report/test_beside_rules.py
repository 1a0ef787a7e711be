"""The figure and the table of notebook 16: a panel a benchmark, a row a part, every number where it belongs."""

import made_reports
import matplotlib.pyplot as plt
import pandas as pd

from hs2lib.report import beside_rules
from hs2lib.report.report import completed


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
    assert [label.get_text() for label in first.get_yticklabels()] == ["overall (9)", "one (9)"]
    assert [label.get_text() for label in second.get_yticklabels()] == ["two (9)"]
    assert first.get_title(loc="left") == "A" and fig.get_suptitle() == "T"
    drawn = {
        line.get_marker(): line.get_xdata().tolist()
        for line in first.lines
        if len(line.get_xdata()) == 2
    }
    assert drawn[">"] == [40, 40] and drawn["<"] == [60, 60] and drawn["o"] == [50, 50]
    legend = [text.get_text() for text in first.get_legend().get_texts()]
    assert legend == ["model, 95 % interval", *numbers][:1] + list(numbers)[1:]
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


def test_the_overall_of_each_benchmark_is_read_from_what_a_run_left(tmp_path):
    """Parts and levels are left out, and generated questions are called so."""
    row = {"benchmark": "A", "questions": 9, "beside the rules": "above"}
    row |= {f"{who} (%)": "70.0" for who in ("model", *beside_rules.MARKERS)}
    parts = [("overall", ""), ("overall", "easy"), ("one", "")]
    table = pd.DataFrame([row | {"part": part, "level": level} for part, level in parts])
    made_reports.write(tmp_path, "demo", "16", [made_reports.MADE], {"beside-rules.csv": table})
    run = completed("demo", "16", tmp_path / "demo" / "16")
    assert beside_rules.overall_in_words(run) == [
        "A (its form, generated), overall, points out of 100: the model 70.0, the longest answer "
        "70.0, the shortest answer 70.0, the random answer 70.0. Beside the rules of length: above."
    ]
    assert beside_rules.overall_in_words(None) == []
