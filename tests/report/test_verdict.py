"""Verdicts: by hand, on the paper's own numbers, and how often they are wrong."""

import numpy as np
import pandas as pd
import pytest

from hs2lib.paper import REWARDBENCH_COUNTS, REWARDBENCH_SECTIONS, SUBSET_ACCURACY, TABLES
from hs2lib.report import verdict
from hs2lib.report.verdict import CONSISTENT, DIFFERENT, EXACT, INCONCLUSIVE, JUDGED


def cells(table, change=lambda value, cell: value, **columns):
    """A frame of all numbers of a table, ours made from the paper's."""
    values = TABLES[table].values
    rows = [
        (*cell, value, np.nan if value is None else change(value, cell))
        for cell, value in values.items()
    ]
    frame = pd.DataFrame(rows, columns=["row", "column", "paper", "ours"]).astype(
        {"paper": float, "ours": float}
    )
    return frame.assign(**{"not comparable": ""} | columns)


@pytest.mark.parametrize(
    ("ours", "expected"),
    [
        (92.3, CONSISTENT),
        (92.6, CONSISTENT),
        (92.7, INCONCLUSIVE),
        (93.7, INCONCLUSIVE),
        (90.3, INCONCLUSIVE),
        (94.5, DIFFERENT),
    ],
)
def test_a_number_by_hand(ours, expected):
    """Overall: spread .5, margin 2. The interval of the difference reaches 1.39 to each side, so
    .61 is the limit.

    +1.7 is more than chance (2.4 deviations) and not more than the margin: it was called different.
    """
    frame = cells("table-3").query("paper == 92.0 and column == 'overall'").assign(ours=ours)
    assert verdict.judge(frame, TABLES["table-3"]).tolist() == [expected]


def test_a_measured_spread_of_ours_takes_the_place_of_the_assumed_one():
    """94.1 is 2.1 above, margin 2: sqrt(.25 + .25) gives 3 deviations, sqrt(.25 + 4) one."""
    frame = cells("table-3").query("paper == 92.0 and column == 'overall'").assign(ours=94.1)
    table = TABLES["table-3"]
    assert (
        verdict.judge(frame, table).tolist()
        == verdict.judge(frame.assign(spread=np.nan), table).tolist()
    )
    assert verdict.judge(frame, table).tolist() == [DIFFERENT]
    assert verdict.judge(frame.assign(spread=2.0), table).tolist() == [INCONCLUSIVE]


def test_holm_by_hand_and_by_pingouin():
    pingouin = pytest.importorskip("pingouin")
    p = pd.Series([0.04, 0.01, 0.02, 0.3])
    assert verdict.holm(p[:3], 3).tolist() == pytest.approx([0.04, 0.03, 0.04])
    assert verdict.holm(p, 4).tolist() == pytest.approx(
        pingouin.multicomp(p, method="holm")[1].tolist()
    )


@pytest.mark.parametrize("table", TABLES)
def test_the_papers_own_numbers_are_never_different(table):
    frame = cells(table)
    called = verdict.judge(frame, TABLES[table])
    assert set(called[frame.paper.notna()]) <= {EXACT, CONSISTENT}


@pytest.mark.parametrize("table", ["table-1", "table-2", "table-3", "table-4"])
def test_one_number_moved_by_ten_margins_is_the_only_one_that_is_different(table):
    whole = cells(table)
    for place in np.flatnonzero(whole.paper.notna())[::7]:
        row = whole.iloc[place]
        moved = whole.assign(
            ours=whole.ours.where(
                whole.index != place,
                row.paper + 10 * TABLES[table].rules[row.row, row.column].margin,
            )
        )
        called = verdict.judge(moved, TABLES[table])
        assert called[called == DIFFERENT].index.tolist() == [place]


def test_published_subset_accuracies_are_not_different_from_the_table():
    """The authors' accuracies by subset give 90.635 for reasoning, where their table has 90.7."""
    rows = []
    for model, accuracy in SUBSET_ACCURACY.items():
        for section, subsets in REWARDBENCH_SECTIONS.items():
            weights = [984 if name == "math-prm" else REWARDBENCH_COUNTS[name] for name in subsets]
            rows.append(
                (
                    model,
                    section,
                    100 * np.average([accuracy[name] for name in subsets], weights=weights),
                )
            )
    ours = pd.DataFrame(rows, columns=["row", "column", "ours"])
    frame = cells("table-3").drop(columns="ours").merge(ours, on=["row", "column"])
    assert len(frame) == 8 and set(verdict.judge(frame, TABLES["table-3"])) == {CONSISTENT}


def test_what_has_no_verdict_says_why():
    frame = cells("table-2")[:3].assign(
        ours=[1.0, np.nan, 1.0], **{"not comparable": ["other data", "other data", ""]}
    )
    frame.loc[2, "paper"] = np.nan
    expected = ["not comparable: other data", verdict.NOT_RUN, verdict.NONE_PRINTED]
    assert verdict.judge(frame, TABLES["table-2"]).tolist() == expected


def simulated(table, shift, seed, times):
    """Verdicts [times, n] of runs that vary about one truth, as the paper's numbers do, ours moved by `shift` SD."""
    rng, frame = np.random.default_rng(seed), cells(table).dropna(subset="paper")
    spread = np.array(
        [TABLES[table].rules[cell].spread for cell in zip(frame.row, frame.column, strict=True)]
    )
    out = []
    for _ in range(times):
        gap = np.sqrt(2) * spread * (rng.normal(size=len(frame)) + shift)
        out.append(verdict.judge(frame.assign(ours=frame.paper + gap), TABLES[table]))
    return np.array(out)


@pytest.mark.parametrize("table", ["table-3", "table-4"])
def test_honest_runs_seldom_have_a_different_number_anywhere(table):
    """Holm holds the chance of any at 5 % a table (150 tables: up to 9 %)."""
    called = simulated(table, 0, 1, 150)
    assert (called == DIFFERENT).any(axis=1).mean() <= 0.09
    assert (called == CONSISTENT).mean() > 0.5


def test_three_deviations_are_seen_before_the_correction():
    """85 % by the normal distribution: P(Z > 1.96 - 3)."""
    frame = cells("table-3").dropna(subset="paper")
    rng, table = np.random.default_rng(2), TABLES["table-3"]
    spread = np.array(
        [table.rules[cell].spread for cell in zip(frame.row, frame.column, strict=True)]
    )
    moved = frame.assign(ours=frame.paper + np.sqrt(2) * spread * (3 + rng.normal(size=len(frame))))
    assert (verdict.differences(moved, table).p < verdict.LEVEL).mean() > 0.75


@pytest.mark.parametrize("table", verdict.STAND_INS)
def test_false_matches_are_counted(table):
    counts = verdict.false_matches(table)
    _, rows = verdict.STAND_INS[table]
    assert list(counts.columns) == list(JUDGED) and counts.to_numpy().sum() == len(rows) * len(
        TABLES[table].columns
    )
    assert counts[DIFFERENT].sum() > 0
