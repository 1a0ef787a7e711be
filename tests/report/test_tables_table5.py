"""Table 5: the paper's two figures from its ten rows, the intervals against oracles, and what cannot be fitted."""

import numpy as np
import pytest
from scipy import stats as scipy_stats

from hs2lib.paper import TABLES, Table
from hs2lib.report import tables
from hs2lib.report.tables import TABLE_5


def table_of(old, new, elo):
    names = [f"m{i}" for i in range(len(old))]
    columns = zip(TABLE_5.columns, (old, new, elo), strict=True)
    values = {(name, c): float(v[i]) for c, v in columns for i, name in enumerate(names)}
    return Table(
        "t", "t", "t", "t", {(n, c): values[n, c] for n in names for c in TABLE_5.columns}, {}
    )


def test_the_papers_figures_come_out_of_its_ten_rows():
    """.8186 and .7025 to four digits, so .819 and .703 as printed; and .8 points lower on average."""
    fits = tables.regression()
    assert len(TABLE_5.rows) == 10
    assert (
        round(fits[tables.NEW].estimate, 4) == 0.8186
        and round(fits[tables.OLD].estimate, 4) == 0.7025
    )
    frame = tables.columns()
    assert (frame[tables.OLD] - frame[tables.NEW]).mean() == pytest.approx(0.832)


def test_the_fit_is_scipys():
    frame = tables.columns()
    for judge, fit in tables.regression().items():
        theirs = scipy_stats.linregress(frame[judge], frame[tables.ELO])
        assert np.isclose(fit.estimate, theirs.rvalue**2)
        low, high = scipy_stats.pearsonr(frame[judge], frame[tables.ELO]).confidence_interval()
        assert np.allclose((fit.low, fit.high), (low**2, high**2))


def test_a_perfect_line_and_no_line_by_hand():
    """Elo = 2 score + 1 has R squared 1 and no room; a symmetric V has R 0, whose interval reaches from 0 up."""
    line = tables.fit([1, 2, 3, 4], [3, 5, 7, 9])
    assert line.estimate == 1 and line.low == line.high == 1
    flat = tables.fit([-2, -1, 1, 2], [2, 1, 1, 2])
    assert flat.estimate == 0 and flat.low == 0 and flat.high > 0.9
    # Three models have no interval (n - 3 = 0), and through one point there is no line.
    for score, elo in (
        ([1, 2, 3], [3, 5, 8]),
        ([1, 1, 1, 1], [3, 5, 7, 9]),
        ([1, 2, 3, 4], [[1, 2, 3, 4]]),
    ):
        with pytest.raises(ValueError, match=r"at least four models|one and the same"):
            tables.fit(score, elo)


def test_a_falling_line_has_the_interval_of_a_rising_one():
    up, down = (
        tables.fit([1, 2, 3, 4, 5], [1, 3, 2, 5, 4]),
        tables.fit([1, 2, 3, 4, 5], [-1, -3, -2, -5, -4]),
    )
    assert down.estimate == up.estimate and (down.low, down.high) == pytest.approx(
        (up.low, up.high)
    )


def test_the_bootstrap_is_a_plain_loop_over_models():
    """The same resamples one by one through scipy: the intervals agree."""
    from hs2lib.stats.bootstrap import resample_counts

    frame, summary = tables.columns(), tables.summary(n_boot=400, seed=3)
    r = summary.value.to_numpy()
    interval = summary[["bootstrap low", "bootstrap high"]].to_numpy()
    counts = np.concatenate(list(resample_counts(10, 400, 3))).astype(int)
    drawn = [frame.iloc[np.repeat(np.arange(10), c)] for c in counts]
    r2 = np.array(
        [[d[j].corr(d[tables.ELO]) ** 2 for j in (tables.OLD, tables.NEW)] for d in drawn]
    )
    shift = np.array([(d[tables.OLD] - d[tables.NEW]).mean() for d in drawn])
    values = np.column_stack([r2, r2[:, 1] - r2[:, 0], shift])
    half = scipy_stats.t.ppf(0.975, 9) * values.std(axis=0) * np.sqrt(10 / 9)
    assert np.allclose(interval[2:, 1] - interval[2:, 0], 2 * half[2:])
    assert np.allclose(
        np.diff(np.log(interval[:2] / (1 - interval[:2])))[:, 0], 2 * (half / (r * (1 - r)))[:2]
    )


def test_ten_models_leave_much_open():
    """The intervals of the two R squared overlap widely; that of their difference touches 0."""
    fits, summary = tables.regression(), tables.summary()
    assert fits[tables.OLD].high > fits[tables.NEW].low
    gap, lower = summary.iloc[2], summary.iloc[3]
    assert gap["bootstrap low"] < 0 < gap.value < gap["bootstrap high"]
    assert lower["bootstrap low"] > 0.5  # that the new judge is stricter is not in doubt


def test_williams_sees_no_difference_between_equal_correlations():
    """One judge is the other's mirror image among the models: equal R, so t is 0 and p is 1."""
    rng = np.random.default_rng(0)
    elo = np.concatenate([rng.normal(size=6)] * 2)
    noise = rng.normal(size=6)
    old, new = elo + np.concatenate([noise, -noise]), elo + np.concatenate([-noise, noise])
    t, p = tables.williams(table_of(old, new, elo))
    assert t == pytest.approx(0, abs=1e-9) and p == pytest.approx(1)


def test_williams_has_the_level_it_says():
    """On judges that are equally good its p is below .05 about once in twenty."""
    rng = np.random.default_rng(1)
    p = []
    for _ in range(200):
        elo = rng.normal(size=10)
        common = elo + 0.3 * rng.normal(size=10)
        p.append(
            tables.williams(
                table_of(
                    common + 0.3 * rng.normal(size=10), common + 0.3 * rng.normal(size=10), elo
                )
            )[1]
        )
    assert 0.02 < np.mean(np.array(p) < 0.05) < 0.085


def test_the_summary_holds_both_judges():
    summary = tables.summary(n_boot=200)
    assert (
        len(summary) == 4 and summary.value.notna().all() and summary["bootstrap low"].notna().all()
    )


def test_table_4_is_whole():
    """Eleven rows of eight numbers, with brackets on both sides of a score."""
    table = TABLES["table-4"]
    assert len(table.values) == 88 and None not in table.values.values()
    for row in table.rows:
        assert table.values[row, "Arena Hard low"] < 0 < table.values[row, "Arena Hard high"]
        assert (
            table.rules[row, "AlpacaEval 2 LC"].margin
            == 2 * table.values[row, "AlpacaEval 2 LC SE"]
        )
