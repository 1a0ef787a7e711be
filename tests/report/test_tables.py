"""Tables from reports alone: what counts as a number of ours, how it is judged, and LaTeX that a document can hold."""

import re
import shutil
import subprocess
from io import StringIO
from types import SimpleNamespace

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
    assert "88.8±0.5" in tables.html("table-3", {"paper": table})
    text = tables.latex("table-3", {"paper": table})
    assert r"88.8$\pm$0.5$^{\approx}$" in text
    check_latex(text)


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


def test_the_small_world_has_tables_3_and_4_of_its_own(reports):
    """A row for each model, named by the run that trained it; what a named run only reads is not there twice."""

    def accuracy(overall):
        rows = [("overall", "overall"), ("section", "chat"), ("subset", "one")]
        return {
            "accuracy.csv": pd.DataFrame(rows, columns=["part", "name"]).assign(
                **{"accuracy (%)": [overall, 90.0, 1.0], "95 % low": 70.0, "95 % high": 99.0}
            )
        }

    def policies(**gold):
        held = pd.DataFrame(
            [(k, f"{v:.2f} [-1.00, 2.00]", "–") for k, v in gold.items()],
            columns=["policy", "gold", "won"],
        )
        mc2 = pd.DataFrame(
            {"measure": "MC2", "policy": list(gold), "value": 0.5, "low": 0.4, "high": 0.6}
        )
        judged = pd.DataFrame([("grade", *gold), ("characters", *gold)], columns=["measure", *gold])
        return {"held-out.csv": held, "truthfulqa.csv": mc2, "judged.csv": judged}

    assert tables.small_world("table-3", "demo", paths.reports()).empty
    reports("demo", RM, [MADE], accuracy(80.0), **of_seed(0))
    reports("demo", f"{RM}@seed-1", [MADE], accuracy(84.0), **of_seed(1))
    reports("demo", f"{RM}@preferences", [MADE], accuracy(70.0), **of_seed(0))
    reports("demo", f"{RM}@real", [OTHER], accuracy(70.0))
    third = tables.small_world("table-3", "demo", paths.reports()).set_index("model")
    assert third.overall.to_dict() == {
        "reward model": "82.00 ± 2.83",
        "reward model@preferences": "70.00 [70.00, 99.00]",
    }
    assert third.columns.tolist() == ["overall", "chat", "provenance"]
    assert third.provenance["reward model"] == f"{RM}, seed 0, 1"

    reports(
        "demo",
        EVALUATION,
        [MADE],
        policies(SFT=-1.5, DPO=2.0),
        upstream={"07_sft": "", "08_dpo": ""},
    )
    both, seed = {"07_sft": "", "08_dpo@mine": ""}, {"07_sft@seed-1": "", "08_dpo@mine-seed-1": ""}
    reports("demo", f"{EVALUATION}@all", [MADE], policies(SFT=-1.5, DPO=3.0), upstream=both)
    reports("demo", f"{EVALUATION}@all-seed-1", [MADE], policies(SFT=-1.0, DPO=4.0), upstream=seed)
    none = {"07_sft@seed-2": "", "08_dpo@mine-seed-2": ""}
    reports(
        "demo", f"{EVALUATION}@all-seed-2", [MADE], policies(SFT=-1.0, DPO=np.nan), upstream=none
    )
    reports("demo", f"{EVALUATION}@none", [MADE], {}, upstream=both)
    fourth = tables.small_world("table-4", "demo", paths.reports()).set_index("model")
    assert fourth.gold.to_dict() == {
        "SFT": "-1.50 [-1.00, 2.00]",
        "DPO": "2.00 [-1.00, 2.00]",
        "DPO@mine": "3.50 ± 0.71 (2 of 3 seeds)",
    }
    assert (
        fourth.won.tolist() == ["–"] * 3
        and fourth.grade["SFT"] == "SFT"
        and "characters" not in fourth
    )
    assert fourth["MC2, generated questions"]["DPO"] == "0.50 [0.40, 0.60]"


def test_an_unknown_table_is_named():
    with pytest.raises(KeyError, match="table-9"):
        tables.assemble("table-9", "demo", paths.reports())


def test_figures_that_a_run_left_are_shown_and_changed_ones_are_not(reports):
    folder = reports(
        "demo",
        "03_annotator_agreement",
        [MADE],
        {"a.pdf": "%PDF a", "a.png": "a", "b.pdf": "%PDF b"},
    )
    (folder / "b.pdf").write_text("changed")
    (figure,) = tables.figures("demo", paths.reports())
    assert (figure["name"], figure["notebook"], figure["png"].name) == (
        "a",
        "03_annotator_agreement",
        "a.png",
    )


def test_the_overview_says_what_there_is_to_read(reports):
    reports("demo", "03_annotator_agreement", [MADE], {})
    reports("laptop", "01_dataset_statistics", [OTHER], {})
    table = tables.overview(["demo", "laptop"], paths.reports())
    assert table.tier.tolist() == ["demo", "laptop"] and table.generated.tolist() == [True, False]
    assert table.data.tolist() == ["generated", "real: Open Assistant"]


def test_what_later_notebooks_left_is_listed_and_what_the_papers_left_is_not(reports):
    """14's list "beyond the paper": by number of the notebook, each table once, nothing where nothing ran."""
    root = paths.reports()
    assert tables.beyond_the_paper(["demo"], root).empty
    frame = pd.DataFrame({"a": [1]})
    reports("demo", "06_rewardbench_evaluation", [MADE], {"accuracy.csv": frame})
    files = {"numbers.csv": frame, "styles.csv": frame, "styles.tex": frame}
    reports("demo", "16_reward_benchmarks_of_today", [MADE], files)
    left = tables.beyond_the_paper(["demo", "laptop"], root)
    assert left.what.tolist() == ["numbers", "styles"] and set(left.tier) == {"demo"}
    assert left.notebook.unique().tolist() == ["16_reward_benchmarks_of_today"]


def test_every_table_of_the_paper_has_its_notebooks():
    assert set(TABLES) == set(WORDS["notebooks"])


# Written out

ENVIRONMENT = re.compile(r"\\(begin|end)\{(\w+)\}")


def check_latex(text):
    """Environments nest, braces balance, every line of a tabular has the cells its head promises, booktabs only."""
    opened = []
    for kind, name in ENVIRONMENT.findall(text):
        assert kind == "begin" or opened.pop() == name
        opened += [name] if kind == "begin" else []
    assert not opened
    bare = re.sub(r"\\[{}]", "", text)
    assert bare.count("{") == bare.count("}")
    for columns, body in re.findall(
        r"\\begin\{tabular\}\{@\{\}(\w+)@\{\}\}(.*?)\\end\{tabular\}", text, re.S
    ):
        rules = re.findall(r"\\(\w+rule)\b", body)
        assert rules == ["toprule", "midrule", "bottomrule"] and "hline" not in body
        rows = [line for line in body.splitlines() if line.endswith(r"\\")]
        assert rows and all(len(re.findall(r"(?<!\\)&", row)) == len(columns) - 1 for row in rows)
    assert not re.search(r"(?<!\\)[%#](?!\n)", text.replace("{!}{%\n", "")), (
        "a bare % or # eats or breaks a line"
    )
    text.encode("latin-1")  # what pdflatex has glyphs for


def run_at(folder):
    """What a run is to a table: a tier, a folder, and what it keeps."""
    run = SimpleNamespace(
        tier="paper", notebook="14_x", folder=folder, verdicts={}, caption=str, kept={}
    )
    run.keep = lambda name, content, caption: run.kept.update({name: content})
    return run


@pytest.fixture
def whole(reports):
    """All tables with numbers of ours at two tiers, one judged and one generated, as LaTeX and as HTML."""
    for tier, source in (("demo", MADE), ("paper", PAPERS)):
        cells = {("helpfulness", "after improvements"): 0.706, ("coherence", "initial"): 0.3}
        reports(
            tier,
            "03_annotator_agreement",
            [source],
            {
                "against-table-1.csv": against("table-1", cells),
                "kappa.pdf": "%PDF",
                "kappa.png": "x",
            },
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


def test_latex_stands_in_a_document(whole, tmp_path):
    for table, frames in whole.items():
        check_latex(tables.latex(table, frames))
    document = tables.save_document(
        run_at(tmp_path / "demo" / "14"), whole, tables.figures("demo", paths.reports())
    )
    check_latex(document)
    assert document.count(r"\begin{table}") == 5 and document.count(r"\toprule") == 5
    assert r"\includegraphics[width=.9\linewidth]{../03_annotator_agreement/kappa.pdf}" in document
    assert str(tmp_path) not in document
    labels = re.findall(r"\\label\{(.+?)\}", document)
    assert len(set(labels)) == len(labels) == 5


def test_latex_compiles(whole, tmp_path):
    if not shutil.which("pdflatex"):
        pytest.skip("no LaTeX (pdflatex) on this machine: only the structure is checked")
    (tmp_path / "all.tex").write_text(tables.save_document(run_at(tmp_path), whole, []))
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "all.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:]


def test_latex_shows_papers_and_ours_with_marks_and_reasons(whole):
    text = tables.latex("table-1", whole["table-1"])
    assert r"helpfulness & paper & 0.465 & 0.706 & 0.791 \\" in text
    assert (
        r" & demo & -- & 0.706$^{\circ}$ & -- \\" in text
        and r" & paper & -- & 0.706$^{\approx}$ & -- \\" in text
    )
    assert r"0.300$^{\neq}$" in text and "generated data" in text
    assert r"verbosity & paper & 0.342 & 0.536 & 0.548 \\" in text and text.count("verbosity") == 1
    assert r"$-$0.0520$^{=}$" in tables.latex("table-2", whole["table-2"])


def test_a_tier_that_gave_nothing_has_no_lines_but_a_note(whole):
    text = tables.latex("table-3", whole["table-3"])
    assert " & demo & " not in text and "111 of 111" in text


def test_html_has_every_dash_and_escapes(whole):
    text = tables.html("table-3", whole["table-3"])
    assert text.count("<tr>") == 1 + 3 * len(TABLES["table-3"].rows) and text.count("\u2013") > 200
    frames = {"demo": whole["table-1"]["demo"].assign(reason='<script>"')}
    assert "<script>" not in tables.html("table-1", frames)


def test_tables_become_artefacts_of_a_run(whole, tmp_path):
    """Through the run, so that its manifest names them; the counts of verdicts are those of its own tier."""
    run = run_at(tmp_path / "paper" / "14_x")
    assert "<table id=" in tables.save(run, "table-1", whole["table-1"])
    kept = dict(run.kept)
    assert set(kept) == {"table-1.tex", "table-1.csv", "table-1.html"} and kept[
        "table-1.html"
    ].startswith("<!doctype")
    frame = pd.read_csv(StringIO(kept["table-1.csv"]))
    assert (
        len(frame) == 30 and set(frame.tier) == {"demo", "paper"} and frame.ours.notna().sum() == 4
    )
    assert run.verdicts == {
        "table-1": {"not run at this tier": 13, "consistent": 1, "different": 1}
    }
    check_latex(tables.save_document(run, whole, tables.figures("paper", paths.reports())))
    assert "{../03_annotator_agreement/kappa.pdf}" in run.kept["paper.tex"]


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


def test_symbols_that_pdflatex_cannot_set_are_replaced():
    assert tables._tex("R² ≥ 50 %") == r"R$^2$ $\geq$ 50 \%"
    assert tables._tex("日") == "?"
