"""Tables from reports alone: what counts as a number of ours, how it is judged, and how it is laid out."""

import made_reports
import numpy as np
import pandas as pd
import pytest
from made_reports import MADE, OTHER, PAPERS

from hs2lib import paths
from hs2lib.paper import TABLES
from hs2lib.report import report, tables
from hs2lib.report.verdict import NOT_RUN, WORDS

COLUMNS = ["row", "column", "paper", "ours", "95 % low", "95 % high", "difference", "verdict"]


def against(table, ours):
    """An against-<table>.csv with numbers of ours at some cells and none elsewhere."""
    cells = TABLES[table].values
    return pd.DataFrame(
        [(*key, v, ours.get(key, np.nan), *[np.nan] * 3, "x") for key, v in cells.items()],
        columns=COLUMNS,
    )


KAPPA = ("helpfulness", "after improvements")


def one(table, tier, cell):
    return tables.assemble(table, tier, paths.reports()).set_index(["row", "column"]).loc[cell]


# What counts, and how it is judged


def test_why_numbers_have_no_verdict():
    """One source of another kind, or none, and nothing is judged."""
    for sources, why in (
        ([], "other"),
        ([PAPERS, OTHER], "other"),
        ([OTHER], "other"),
        ([MADE, PAPERS], "generated"),
    ):
        assert report.not_comparable(sources) == f"{why} data"
    assert report.not_comparable([PAPERS]) == ""


def test_numbers_from_the_papers_rows_are_judged(reports):
    """.71 is within .02 of the paper's .706; .60 is not."""
    reports(
        "paper",
        "03_annotator_agreement",
        [PAPERS],
        {
            "against-table-1.csv": against(
                "table-1", {KAPPA: 0.71, ("coherence", "after improvements"): 0.60}
            )
        },
    )
    assert one("table-1", "paper", KAPPA).verdict == "consistent"
    assert one("table-1", "paper", ("coherence", "after improvements")).verdict == "different"
    missing = one("table-1", "paper", ("helpfulness", "initial"))
    assert missing.verdict == NOT_RUN


def test_a_published_model_has_a_line_of_its_own(reports):
    """Only where it was measured; it takes no number of the paper's and loses none."""
    cell = ("PPO w. HelpSteer2", "TruthfulQA MC2")
    for tier, row, ours in (("gpu", "PPO (released)", 0.5721), ("laptop", cell[0], 0.56)):
        frame = against("table-4", {cell: ours})
        frame.loc[frame.ours.notna(), "row"] = row
        reports(tier, "13_aligned_model_evaluation", [PAPERS], {"against-table-4.csv": frame})
    assert one("table-4", "gpu", ("PPO (released)", cell[1])).verdict == "paper prints none"
    assert one("table-4", "gpu", cell).verdict == NOT_RUN
    texts, *_ = tables.lay_out(
        "table-4",
        {tier: tables.assemble("table-4", tier, paths.reports()) for tier in ("gpu", "laptop")},
    )
    lines = {line[:2]: text for line, text in texts[cell[1]].items() if line[0].startswith("PPO")}
    own = {("PPO (released)", "paper"): report.DASH, ("PPO (released)", "gpu"): "0.5721"}
    assert lines == {(cell[0], "paper"): "0.5629", (cell[0], "laptop"): "0.5600"} | own


@pytest.mark.parametrize(("source", "verdict"), [(MADE, "generated data"), (OTHER, "other data")])
def test_other_rows_are_never_judged_however_near(reports, source, verdict):
    reports(
        "demo",
        "03_annotator_agreement",
        [source],
        {"against-table-1.csv": against("table-1", {KAPPA: 0.706})},
    )
    cell = one("table-1", "demo", KAPPA)
    assert cell.verdict == f"not comparable: {verdict}" and source["name"] in cell.reason


def test_a_verdict_in_a_report_is_not_taken_on_trust(reports):
    """Whoever writes "exact" into a csv without the paper's data gets it judged again."""
    frame = against("table-1", {KAPPA: 0.706}).assign(verdict="exact", paper=0.1)
    reports("demo", "03_annotator_agreement", [MADE], {"against-table-1.csv": frame})
    cell = one("table-1", "demo", KAPPA)
    assert cell.verdict == "not comparable: generated data" and cell.paper == 0.706


def test_a_file_changed_after_its_run_is_refused(reports):
    folder = reports(
        "paper", "03_annotator_agreement", [PAPERS], {"against-table-1.csv": against("table-1", {})}
    )
    against("table-1", {KAPPA: 0.706}).to_csv(folder / "against-table-1.csv", index=False)
    with pytest.raises(
        ValueError, match=r"against-table-1.csv: not as the run left it; run notebook 03"
    ):
        tables.assemble("table-1", "paper", paths.reports())


def test_a_run_without_a_manifest_does_not_count(reports):
    folder = reports(
        "paper",
        "03_annotator_agreement",
        [PAPERS],
        {"against-table-1.csv": against("table-1", {KAPPA: 0.706})},
    )
    (folder / "manifest.json").unlink()
    cell = one("table-1", "paper", KAPPA)
    assert cell.verdict == NOT_RUN and cell.reason == "not run: notebook 03" and np.isnan(cell.ours)


def test_table_2_comes_from_two_notebooks_which_must_agree(reports):
    first, second = "01_dataset_statistics", "02_attribute_correlations"
    cell, other = ("helpfulness", "mean HS2"), ("coherence", "R HS2")
    for tier, notebook, numbers in (
        *(("paper", first, {cell: 2.8655}), ("paper", second, {other: 0.4979})),
        *(("gpu", first, {cell: 2.8655}), ("gpu", second, {cell: 2.8655})),
    ):
        reports(tier, notebook, [PAPERS], {"against-table-2.csv": against("table-2", numbers)})
    assert (
        one("table-2", "paper", cell).verdict == one("table-2", "paper", other).verdict == "exact"
    )
    assert one("table-2", "paper", other).notebook == "02_attribute_correlations"
    assert one("table-2", "gpu", cell).reason == ""
    reports(
        "laptop",
        "01_dataset_statistics",
        [PAPERS],
        {"against-table-2.csv": against("table-2", {cell: 2.8655})},
    )
    reports(
        "laptop",
        "02_attribute_correlations",
        [PAPERS],
        {"against-table-2.csv": against("table-2", {cell: 2.9})},
    )
    assert "notebooks disagree: 01_dataset_statistics, 02" in one("table-2", "laptop", cell).reason


def test_every_number_of_every_table_has_a_verdict_and_missing_ones_a_reason(reports):
    for table, known in TABLES.items():
        frame = tables.assemble(table, "laptop", paths.reports())
        assert len(frame) == len(known.values) and frame.ours.isna().all()
        assert (frame.verdict == NOT_RUN).all() and (frame.reason != "").all(), table


RM, EVALUATION = "06_rewardbench_evaluation", "13_aligned_model_evaluation"
LLAMA, HH = "Llama 3 70B w. HelpSteer2", "Llama 3 70B w. HH-RLHF"


def of_seed(seed, commit="abc"):
    return {"parameters": {"seed": seed}, "commit": commit}


def test_named_runs_fill_the_rows_of_their_own_models(reports):
    """Each number says which run it is from; what a notebook's own run has too is taken from that one."""
    own, named = {(LLAMA, "overall"): 88.8}, {(HH, "overall"): 60.0, (LLAMA, "overall"): 50.0}
    reports("paper", RM, [PAPERS], {"against-table-3.csv": against("table-3", own)}, **of_seed(0))
    about = of_seed(0, "def")
    reports(
        "paper",
        f"{RM}@hh-rlhf",
        [PAPERS],
        {"against-table-3.csv": against("table-3", named)},
        **about,
    )
    reports(
        "paper",
        f"{RM}@by-hand",
        [PAPERS],
        {"against-table-3.csv": against("table-3", {(HH, "chat"): 1.0})},
    )
    table = tables.assemble("table-3", "paper", paths.reports()).set_index(["row", "column"])
    assert table.ours.notna().sum() == 2 and table.ours[LLAMA, "overall"] == 88.8
    assert (
        table.verdict[LLAMA, "overall"] == "consistent"
        and table.verdict[HH, "overall"] == "different"
    )
    assert (
        table.provenance[HH, "overall"] == f"{RM}@hh-rlhf, seed 0"
        and table.reason[HH, "overall"] == ""
    )
    assert tables.overview(["paper"], paths.reports()).notebook.tolist() == [RM, f"{RM}@hh-rlhf"]


def test_seeds_are_one_number_and_their_spread_decides(reports):
    """Mean and SD of three seeds; where they differ by more than was assumed, the verdict knows.

    88.3, 88.8 and 89.3 have SD .5, their mean .289, by t's interval .634; with the .5 of the paper's side the interval
    reaches 1.58 to each side of 0, inside 2. 84, 89 and 94 have SD 5: nothing can be said. One seed
    was consistent.
    """
    cells = [(LLAMA, "overall"), (LLAMA, "chat")]
    for seed, numbers in enumerate([(88.8, 89.0), (88.3, 84.0), (89.3, 94.0)]):
        frame = against("table-3", dict(zip(cells, numbers, strict=True)))
        name, about = (
            f"{RM}@seed-{seed}" if seed else RM,
            of_seed(seed, "abc" if seed < 2 else "def"),
        )
        reports("paper", name, [PAPERS], {"against-table-3.csv": frame}, **about)
    table = tables.assemble("table-3", "paper", paths.reports())
    by_cell = table.set_index(["row", "column"])
    assert by_cell.ours[cells].tolist() == [pytest.approx(88.8), 89.0]
    assert by_cell.SD[cells].tolist() == [pytest.approx(0.5), 5.0] and table.SD.notna().sum() == 2
    assert by_cell.verdict[cells].tolist() == ["consistent", "inconclusive"]
    assert by_cell.provenance[cells[0]] == f"{RM}, seed 0, 1, 2"
    texts, verdicts, _ = tables.lay_out("table-3", {"paper": table})
    assert texts["overall"][LLAMA, "paper", 1] == "88.8±0.5"
    assert verdicts["overall"][LLAMA, "paper", 1] == "consistent"


def test_a_mean_names_the_seeds_it_is_of_and_leaves_out_those_of_other_settings(reports):
    """One seed may lack a number, and a tier's settings may have changed since another was run.

    That of seed 1 was run when the rate stood in the cell, beside a recipe of other entries: its
    settings are the same.
    """
    cells = [(LLAMA, "overall"), (LLAMA, "chat")]
    for seed, numbers, rate in (
        (0, (88.8, 89.0), 1),
        (1, (88.3, np.nan), 1),
        (2, (np.nan, 94.0), 2),
    ):
        frame = against("table-3", dict(zip(cells, numbers, strict=True)))
        about = of_seed(seed) | {"recipe": {"rate": rate, "seed": seed}}
        if seed == 1:
            about |= {
                "parameters": {"seed": 1, "rate": rate, "recipe": {"clip": 1}},
                "recipe": {"seed": 1},
            }
        reports(
            "paper",
            f"{RM}@seed-{seed}" if seed else RM,
            [PAPERS],
            {"against-table-3.csv": frame},
            **about,
        )
    provenance = (
        tables.assemble("table-3", "paper", paths.reports())
        .set_index(["row", "column"])
        .provenance[cells]
        .tolist()
    )
    left_out = "left out, of other settings: seed 2 (rate)"
    assert provenance == [f"{RM}, seed 0, 1; {left_out}", f"{RM}, seed 0; {left_out}"]


def test_seeds_that_read_runs_of_other_settings_are_not_mixed(reports):
    """06 of seed 1 has 06's own settings, and read a reward model trained at another rate."""
    makes = "05_reward_model_training"
    for seed, rate in ((0, 1), (1, 2), (2, 1)):
        suffix = f"@seed-{seed}" if seed else ""
        trained = of_seed(seed) | {"recipe": {"rate": rate, "seed": seed}}
        reports("paper", f"{makes}{suffix}", [PAPERS], {}, **trained)
        frame = against("table-3", {(LLAMA, "overall"): 80.0 + seed})
        about = of_seed(seed) | {"upstream": {f"{makes}{suffix}": "digest"}}
        reports("paper", f"{RM}{suffix}", [PAPERS], {"against-table-3.csv": frame}, **about)
    table = tables.assemble("table-3", "paper", paths.reports())
    mean = table.set_index(["row", "column"]).loc[(LLAMA, "overall")]
    assert mean.ours == 81.0
    other = f"seed 1 ({makes}.rate)"
    assert mean.provenance == f"{RM}, seed 0, 2; left out, of other settings: {other}"


def test_no_mean_is_over_own_and_published_reports(reports, tmp_path):
    """Own 60 and published 80 and 90: 60 and 85, each of one root. Over both it would be 76.7, a number of nobody's."""
    cell = (HH, "overall")
    reports(
        "paper",
        f"{RM}@hh-rlhf",
        [PAPERS],
        {"against-table-3.csv": against("table-3", {cell: 60.0})},
        **of_seed(0),
    )
    published = tmp_path / "published"
    for name, seed, value in ((f"{RM}@hh-rlhf", 0, 80.0), (f"{RM}@hh-rlhf-seed-1", 1, 90.0)):
        files = {"against-table-3.csv": against("table-3", {cell: value})}
        made_reports.write(published, "paper", name, [PAPERS], files, **of_seed(seed))
    means = {
        root: tables.assemble("table-3", "paper", root) for root in (paths.reports(), published)
    }
    ours = [frame.set_index(["row", "column"]).ours[cell] for frame in means.values()]
    assert ours == [60.0, 85.0]


def test_an_unknown_table_is_named():
    with pytest.raises(KeyError, match="table-9"):
        tables.assemble("table-9", "demo", paths.reports())


def test_the_overview_says_what_there_is_to_read(reports):
    reports("demo", "03_annotator_agreement", [MADE], {})
    reports("laptop", "01_dataset_statistics", [OTHER], {})
    table = tables.overview(["demo", "laptop"], paths.reports())
    assert table.tier.tolist() == ["demo", "laptop"] and table.generated.tolist() == [True, False]
    assert table.data.tolist() == ["generated", "real: Open Assistant"]


def test_every_table_of_the_paper_has_its_notebooks():
    assert set(TABLES) == set(WORDS["notebooks"])


# Laid out

# Whose line it is, and its number: the paper's, of tier demo, of tier paper.
LINES = (("paper", 0), ("demo", 1), ("paper", 2))


@pytest.fixture
def whole(reports):
    """All tables with numbers of ours at two tiers, one judged and one generated."""
    for tier, source in (("demo", MADE), ("paper", PAPERS)):
        cells = {("helpfulness", "after improvements"): 0.706, ("coherence", "initial"): 0.3}
        reports(
            tier,
            "03_annotator_agreement",
            [source],
            {"against-table-1.csv": against("table-1", cells)},
        )
        cells = {("turns in prompt", "R HS2"): -0.0520}
        reports(
            tier,
            "02_attribute_correlations",
            [source],
            {"against-table-2.csv": against("table-2", cells)},
        )
    return {
        table: {tier: tables.assemble(table, tier, paths.reports()) for tier in ("demo", "paper")}
        for table in TABLES
    }


def test_ours_stand_below_the_papers_with_verdicts_and_reasons(whole):
    texts, verdicts, reasons = tables.lay_out("table-1", whole["table-1"])
    paper, demo, ours = (("helpfulness", who, number) for who, number in LINES)
    assert texts.loc[[paper, demo, ours]].to_numpy().tolist() == [
        ["0.465", "0.706", "0.791"],
        [report.DASH, "0.706", report.DASH],
        [report.DASH, "0.706", report.DASH],
    ]
    after = "after improvements"
    assert verdicts[after][[paper, demo, ours]].tolist() == [
        "",
        "not comparable: generated data",
        "consistent",
    ]
    assert MADE["name"] in reasons[after][demo]
    assert verdicts["initial"]["coherence", "paper", 2] == "different"
    texts, verdicts, _ = tables.lay_out("table-2", whole["table-2"])
    line = ("turns in prompt", "paper", 2)
    assert (texts["R HS2"][line], verdicts["R HS2"][line]) == ("-0.0520", "exact")


def test_a_row_without_a_number_of_ours_has_the_papers_line_alone(whole):
    """Unless every line is asked for: then each of the two tiers has one, of dashes."""
    rows = len(TABLES["table-3"].rows)
    texts, *_ = tables.lay_out("table-3", whole["table-3"])
    assert texts.index.get_level_values(1).tolist() == ["paper"] * rows
    texts, *_ = tables.lay_out("table-3", whole["table-3"], every=True)
    assert len(texts) == 3 * rows and (texts.drop(0, level=2) == report.DASH).all(axis=None)


def test_digits_are_the_papers():
    """As printed: .0600 keeps its zeros, 712.6 has one decimal, an Elo none."""
    two, five = TABLES["table-2"].rules, TABLES["table-5"].rules
    assert two["verbosity", "R HS2"].digits == two["characters in prompt", "R HS2"].digits == 4
    assert (
        two["characters in prompt", "mean HS2"].digits == 1
        and five["Mixtral", "Arena Elo"].digits == 0
    )
    for table in TABLES.values():
        for cell, value in table.values.items():
            assert value is None or float(f"{value:.{table.rules[cell].digits}f}") == value
