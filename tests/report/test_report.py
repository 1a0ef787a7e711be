"""What a run leaves behind: captions with the source, verdicts only on the paper's rows, no half files."""

import csv
import importlib
import json
import os
import random
import subprocess
import sys
from dataclasses import replace
from io import StringIO

import matplotlib.pyplot as plt
import nbformat
import numpy as np
import pandas as pd
import pytest
from full_disk import full
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from nbformat.v4 import new_code_cell, new_notebook
from traitlets.config import Config
from transformers import LlamaConfig, LlamaModel

from hs2lib import paper, paths
from hs2lib.data.load import Loaded
from hs2lib.models.base import Decoder
from hs2lib.paths import sha256
from hs2lib.report import report
from hs2lib.report.verdict import JUDGED
from hs2lib.runs import lock
from hs2lib.runs.parameters import ParameterError

sys.path.insert(0, str(paths.root() / "reports"))
site = importlib.import_module("make_site")
sys.path.pop(0)

NAME = "01_toy"
REAL = Loaded([], "HelpSteer2, train.jsonl.gz", False, [])
MADE = Loaded([], "small world, seed 3", True, [])


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A checkout of one notebook with two parameters."""
    cell = new_code_cell(
        'tier: str = "smoke"  # tier; one of smoke, demo\nseed: int = 3  # seed; 0 to 9',
        id="parameters",
        metadata={"tags": ["parameters"]},
    )
    (tmp_path / "notebooks").mkdir()
    nbformat.write(new_notebook(cells=[cell]), tmp_path / "notebooks" / f"{NAME}.ipynb")
    monkeypatch.setenv("HS2_ROOT", str(tmp_path))
    monkeypatch.setenv(
        paths.RUN, "{}"
    )  # as `hs2 run` does: by hand a report would have another place
    for name in ("HS2_REPORTS", "HS2_RUNS"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def start(*sources, **options):
    run = report.start(NAME, {"tier": "demo", "seed": 3})
    for loaded in sources:
        run.source(loaded, **options)
    return run


def ours(value, row="helpfulness", column="mean HS2"):
    return pd.DataFrame(
        [{"row": row, "column": column, "ours": value, "low": value - 0.1, "high": value + 0.1}]
    )


def verdict(judged, row="helpfulness", column="mean HS2"):
    return judged.set_index(["row", "column"]).verdict[row, column]


def test_captions_say_tier_seed_source_and_that_data_was_generated(checkout):
    assert start().caption("A.") == "A. Source: no data. Tier demo, seed 3."
    assert start(REAL).caption("A.") == "A. Source: HelpSteer2, train.jsonl.gz. Tier demo, seed 3."
    mixed = start(REAL, MADE).caption("A.")
    assert "HelpSteer2, train.jsonl.gz; small world, seed 3." in mixed
    assert "Generated data" in mixed, "one generated source is enough"
    assert start(REAL, partial=True).caption("A.").endswith("Partial.")
    weak = start(REAL)
    weak.warning = "It is NO better than length."
    assert weak.caption("A.").endswith("seed 3. It is NO better than length.")


def test_a_caption_can_name_only_the_data_that_is_shown(checkout):
    """A figure of one benchmark named the questions of all four, and of the prompts before."""
    run = start(REAL, MADE)
    assert run.caption("A.", of=[MADE]).startswith("A. Source: small world, seed 3. Tier demo")
    real = run.caption("A.", of=[REAL])
    assert real == "A. Source: HelpSteer2, train.jsonl.gz. Tier demo, seed 3."
    run.keep_table(pd.DataFrame({"a": [1.0]}), "real", "Means.", of=[REAL])
    assert "Generated" not in run.artefacts["real.csv"]["caption"]
    with pytest.raises(ValueError, match=r"record it with `run\.source`"):
        start(REAL).caption("A.", of=[MADE])
    assert run.caption("A.", of=[]) == "A. Source: no data. Tier demo, seed 3.", "not all of it"


def test_published_numbers_carry_their_own_source_and_not_the_runs(checkout):
    """They are of other seeds and prompts than the run that shows them."""
    run = start(MADE)
    run.table(pd.DataFrame({"a": [1.0]}), "seeds", "Means.", source="works.json, seeds 0 to 4")
    assert run.caption("Means.", source="works.json") == "Means. Source: works.json."
    caption = "Means. Source: works.json, seeds 0 to 4."
    assert caption in (run.folder / "seeds.tex").read_text()


def test_an_output_of_other_data_than_the_runs_names_them(checkout):
    """Tier, seed and the word that data were generated stay."""
    run = start(REAL, MADE)
    run.table(pd.DataFrame({"a": [1.0]}), "faults", "Faults.", of="small world, seed 2")
    caption = run.caption("Faults.", of="small world, seed 2")
    assert caption.startswith("Faults. Source: small world, seed 2. Tier demo, seed 3. Generated")
    assert caption in (run.folder / "faults.tex").read_text()
    assert "HelpSteer2" not in caption and "small world, seed 3" not in caption


def test_no_zero_that_is_shown_has_a_sign(checkout):
    """By hand: -.004 with two decimals is 0.00, and -.006 is -0.01; a file keeps all digits."""
    assert report.interval(-0.004, -0.006, 0.001) == "0.00 [-0.01, 0.00]"
    assert report.interval(-0.4, -1.6, 0.2, digits=0) == "0 [-2, 0]"
    frame = pd.DataFrame(
        {"R": [-0.004, -0.006, np.nan], "n": [0, -1, 2], "text": ["-0.00", "a", "b"]}
    )
    frame["R32"] = frame.R.astype("float32")
    run = start(MADE)
    run.table(frame, "kappa", "Kappa.", digits=2)
    page = report._styled(frame, "kappa", 2).to_html()
    tex = (run.folder / "kappa.tex").read_text()
    for text in (page, tex):
        assert text.count("-0.00") == 1, "a text stays as it is"
        assert text.count("-0.01") == 2 and "-1" in text
    assert "-0.004" in (run.folder / "kappa.csv").read_text()
    run.finish()


def test_a_table_that_is_kept_is_written_as_one_that_is_shown(checkout, capsys):
    """The same files and captions, and nothing on the page."""
    frame = pd.DataFrame({"n": [1]})
    run = start(MADE)
    run.table(frame, "shown", "Numbers.")
    assert capsys.readouterr().out
    run.keep_table(frame, "kept", "Numbers.")
    assert not capsys.readouterr().out
    run.finish()
    about = json.loads((run.folder / "manifest.json").read_text())["artefacts"]
    for suffix in (".csv", ".tex"):
        assert about[f"kept{suffix}"]["caption"] == about[f"shown{suffix}"]["caption"]
    assert about["kept.csv"]["sha256"] == about["shown.csv"]["sha256"]


def test_every_artefact_carries_its_caption_and_digest_into_the_manifest(checkout):
    run = start(MADE)
    run.table(pd.DataFrame({"n": [1]}), "numbers", "Numbers.")
    run.figure(plt.figure(), "curve", "A curve.")
    assert not (run.place / "manifest.json").exists(), "a run is incomplete until finish()"
    run.finish()
    manifest = json.loads((run.folder / "manifest.json").read_text())
    assert set(manifest["artefacts"]) == {"numbers.csv", "numbers.tex", "curve.pdf", "curve.png"}
    for name, about in manifest["artefacts"].items():
        assert about["sha256"] == sha256(run.folder / name) and "Generated data" in about["caption"]
    assert manifest["generated"] and manifest["parameters"] == {"tier": "demo", "seed": 3}
    assert set(manifest["code"]) == {"computes", "draws"}
    assert f"notebooks/{NAME}.ipynb" in manifest["files"]
    run.finish()
    assert (
        json.loads((run.place / "manifest.json").read_text())["artefacts"] == manifest["artefacts"]
    ), "run again"


def test_a_figure_is_shown_with_its_caption_as_the_words_of_its_picture(checkout):
    """Who hears a page heard "figure". The words stand in the executed copy, for whatever shows it."""
    InteractiveShell.instance(config=Config({"HistoryManager": {"enabled": False}}))
    try:
        run = start(REAL)
        with capture_output() as captured:
            run.figure(plt.subplots()[0], "curve", "A <curve>.")
    finally:
        InteractiveShell.clear_instance()
    picture, caption = captured.outputs
    assert "image/png" in picture.data
    alt = "A <curve>. Source: HelpSteer2, train.jsonl.gz. Tier demo, seed 3."
    assert picture.metadata["image/png"]["alt"] == alt
    assert caption.data["text/markdown"] == f"*{alt.replace('<', '&lt;').replace('>', '&gt;')}*"


def tiny_model():
    """A model of a few weights: what a run is told of one that ran."""
    sizes = {
        "hidden_size": 8,
        "intermediate_size": 8,
        "num_hidden_layers": 1,
        "num_attention_heads": 1,
    }
    return Decoder(LlamaModel(LlamaConfig(vocab_size=8, **sizes)), None)


def test_responses_with_control_strings_are_counted_and_those_set_aside(checkout):
    for count in (0, 3):
        run = start()
        model = tiny_model()
        run.reads(model)
        model.control_strings |= {
            ("prompt", f"response {i}"): i > 0 for i in range(count)
        }  # as it scores, later on
        run.finish()
        manifest = json.loads((run.place / "manifest.json").read_text())
        assert (manifest["control_strings"], manifest["refused_responses"]) == (
            count,
            max(0, count - 1),
        )


def test_an_earlier_report_stays_whole_until_the_next_is_finished(checkout):
    """A full disk, or any other end in between, must not cost what was there."""
    for number in (1, 2):
        run = start(MADE)
        run.table(pd.DataFrame({"n": [number]}), "numbers", "Numbers.")
        earlier = report.completed("demo", NAME)
        assert number == 1 or (not earlier.altered and earlier.table("numbers.csv").n[0] == 1)
        run.finish()
    later = report.completed("demo", NAME)
    assert not later.altered and later.table("numbers.csv").n[0] == 2
    assert [place.name for place in run.place.parent.iterdir()] == [NAME]


@pytest.mark.parametrize("size", [10, 1000], ids=["in a table", "in the manifest"])
def test_a_full_disk_is_one_error_and_the_earlier_report_stays(checkout, size):
    start(MADE).finish()
    run, columns = start(MADE), {"n": range(20)}
    with pytest.raises(OSError, match=r"File too large|No space left"), full(size):
        run.table(pd.DataFrame(columns), "numbers", "Numbers.")
        run.finish()
    earlier = report.completed("demo", NAME)
    assert earlier.files == {} and not earlier.altered
    assert not [path for path in run.folder.iterdir() if path.name.startswith(".")], (
        "half a file is left"
    )
    run.lock.close()
    again = start(MADE)
    again.table(pd.DataFrame(columns), "numbers", "Numbers.")
    again.finish()
    assert len(report.completed("demo", NAME).table("numbers.csv")) == 20


def test_one_notebook_is_run_once_at_a_time(checkout, monkeypatch):
    """By `hs2 run`, say, while it is open in JupyterLab. A run that is finished is in nobody's way."""
    start()
    run = start()  # the first cell run again
    with pytest.raises(BlockingIOError, match=r"another run \(process \d+ on .*\) holds .*"):
        lock.hold(run.place)
    run.finish()
    with lock.hold(run.place), pytest.raises(BlockingIOError):
        start()
    start().finish()


@pytest.mark.parametrize("content", ["", "{", "[]", "{}"])
def test_half_a_manifest_is_no_completed_run(checkout, content):
    folder = paths.reports() / "demo" / NAME
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_text(content)
    assert report.completed("demo", NAME) is None


@pytest.mark.parametrize("value", [2.8655, 4.0, np.nan])
def test_generated_data_is_never_judged(checkout, value):
    """Even when its figure is the paper's to the last digit, and even when a caller says the rows are the paper's."""
    for sources in ((MADE,), (REAL, MADE)):
        run = start(*sources, of_paper=True)
        judged = run.against_paper("table-2", ours(value))
        assert not set(judged.verdict) & set(JUDGED) and not set(run.verdicts["table-2"]) & set(
            JUDGED
        )


def test_the_image_of_generated_data_says_so(checkout):
    for loaded, marked, words in (
        (MADE, True, [report.GENERATED]),
        (MADE, False, []),
        (REAL, True, []),
    ):
        fig, ax = plt.subplots()
        ax.set(xlabel="an axis")
        run = start(loaded)
        run.figure(fig, "curve", "A curve.", marked=marked)
        assert [text.get_text() for text in fig.texts] == words
        assert b"/Type0" in (run.folder / "curve.pdf").read_bytes(), (
            "letters are embedded whole (Type 42), not drawn"
        )


def test_real_rows_other_than_the_papers_are_not_judged(checkout):
    judged = start(REAL).against_paper("table-2", ours(2.8655))
    assert verdict(judged) == "not comparable: other data"


def test_a_run_that_named_no_source_is_not_judged(checkout):
    assert verdict(start().against_paper("table-2", ours(2.8655))) == "not comparable: other data"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (2.8655, "exact"),
        (2.86554, "exact"),
        (2.86546, "exact"),
        (2.86556, "different"),
        (2.8654, "different"),
    ],
)
def test_the_papers_rows_are_judged_to_the_digit(checkout, value, expected):
    """Table 2 prints helpfulness as 2.8655: half a unit of its last digit, .00005, is the room."""
    run = start(REAL, of_paper=True)
    judged = run.against_paper("table-2", ours(value))
    assert verdict(judged) == expected
    assert run.verdicts["table-2"] == {expected: 1, "not run at this tier": 47}


def test_a_number_has_the_source_it_came_from(checkout):
    """Table 3 beside held-out pairs that are not the paper's: what came from RewardBench alone is judged."""
    run = start(REAL, of_paper=True)
    run.source(MADE)
    mixed = ours(2.8655)
    assert verdict(run.against_paper("table-2", mixed)) == "not comparable: generated data"
    assert verdict(run.against_paper("table-2", mixed.assign(data=REAL.source))) == "exact"
    assert (
        verdict(run.against_paper("table-2", mixed.assign(data=MADE.source)))
        == "not comparable: generated data"
    )
    assert (
        verdict(run.against_paper("table-2", mixed.assign(data="unheard of")))
        == "not comparable: other data"
    )


def test_another_judge_takes_the_verdict_of_its_numbers_alone(checkout):
    row, run = "SteerLM 2.0 iter 2 w. Daring-Anteater", start(REAL, of_paper=True)
    numbers = pd.concat([ours(8.28, row, "MT-Bench"), ours(0.5913, row, "TruthfulQA MC2")])
    judged = run.against_paper("table-4", numbers.assign(**{"not comparable": ["other judge", ""]}))
    assert verdict(judged, row, "MT-Bench") == "not comparable: other judge"
    assert verdict(judged, row, "TruthfulQA MC2") == "consistent"


def test_what_was_not_run_is_a_dash_and_never_the_papers_number(checkout):
    run = start(REAL, of_paper=True)
    judged = run.against_paper("table-2", ours(2.8655))
    rest = judged[judged.verdict == "not run at this tier"]
    assert len(rest) == 47 and rest[["ours", "95 % low", "95 % high", "difference"]].isna().all(
        axis=None
    )
    kept = pd.read_csv(run.folder / "against-table-2.csv")
    assert kept.loc[kept.verdict == "not run at this tier", "ours"].isna().all()
    missing = run.against_paper("table-2", ours(np.nan))
    assert verdict(missing) == "not run at this tier"


def test_a_published_model_has_a_row_of_its_own_only_where_it_was_measured(checkout):
    run = start(REAL, of_paper=True)
    judged = run.against_paper("table-4", ours(8.1, "PPO (released)", "MT-Bench"))
    assert verdict(judged, "PPO (released)", "MT-Bench") == "paper prints none"
    assert judged.row.iloc[-1] == "PPO (released)" and len(judged) == 89
    with pytest.raises(KeyError, match="mine"):
        run.against_paper("table-4", ours(8.1, "mine", "MT-Bench"))


def test_a_number_the_paper_does_not_print_has_no_verdict_to_lose(checkout):
    judged = start(REAL, of_paper=True).against_paper(
        "table-2", ours(0.2, "turns in prompt", "R HS")
    )
    assert verdict(judged, "turns in prompt", "R HS") == "paper prints none"


def test_columns_choose_what_is_compared(checkout):
    judged = start(REAL).against_paper("table-2", ours(0.5, column="R HS2"), columns=["R HS2"])
    assert set(judged.column) == {"R HS2"} and len(judged) == len(paper.TABLES["table-2"].rows)


def test_a_table_of_another_work_is_judged_alike_and_never_called_the_papers(checkout):
    """Its numbers come from a secondary source, which each row says; generated pairs get no verdict."""
    row = "SteerLM regression, helpfulness only"
    run = start(REAL, of_paper=True)
    judged = run.against_paper("sequel", ours(93.2, row, "overall"))
    assert verdict(judged, row, "overall") == "consistent"
    assert judged.theirs.notna().all() and "paper" not in judged
    assert judged["read from"].str.startswith("secondary").all()
    caption = run.artefacts["against-sequel.csv"]["caption"]
    assert "secondary source" in caption and "not the paper's" in caption
    other = ours(93.2, row, "overall").assign(**{"not comparable": "other model"})
    assert verdict(run.against_paper("sequel", other), row, "overall") == (
        "not comparable: other model"
    )
    made = start(MADE).against_paper("sequel", ours(93.2, row, "overall"))
    assert verdict(made, row, "overall") == "not comparable: generated data"


@pytest.mark.parametrize("wrong", [{"row": "helpfullness"}, {"column": "mean"}])
def test_an_unknown_row_or_column_is_named(checkout, wrong):
    with pytest.raises(KeyError, match=f"table-2 has no .*{next(iter(wrong.values()))}"):
        start(REAL).against_paper("table-2", ours(1.0, **wrong))
    with pytest.raises(KeyError, match="table-99"):
        start(REAL).against_paper("table-99", ours(1.0))


def test_two_runs_write_the_same_bytes(checkout):
    def once():
        run = start(MADE)
        run.table(pd.DataFrame({"x": np.random.default_rng(0).normal(size=20)}), "x", "Random.")
        run.against_paper("table-2", ours(1 / 3))
        fig, ax = plt.subplots()
        ax.plot([1, 2])
        run.figure(fig, "line", "A line.")
        return {p.name: p.read_bytes() for p in run.folder.iterdir()}

    first = once()
    assert set(first) == {
        "x.csv",
        "x.tex",
        "against-table-2.csv",
        "against-table-2.tex",
        "line.pdf",
        "line.png",
    }
    assert once() == first


def test_csv_keeps_ten_digits_and_an_index_that_says_something(checkout):
    run = start()
    run.table(
        pd.DataFrame({"x": [1 / 3, np.nan]}, index=pd.Index(["a", "b"], name="name")),
        "named",
        "Named.",
    )
    assert (run.folder / "named.csv").read_text() == "name,x\na,0.3333333333\nb,\n"
    run.table(pd.DataFrame({"x": [1]}), "plain", "Plain.")
    assert (run.folder / "plain.csv").read_text() == "x\n1\n"


def test_a_spreadsheet_finds_no_formula_in_a_table_and_reading_it_gives_the_texts_back(checkout):
    """Prompts and titles come from data: `=cmd|' /C calc'!A0` is a program to a spreadsheet that opens the table."""
    texts = [
        "=cmd|' /C calc'!A0",
        "+1 for this",
        "-2+3",
        "@SUM(A1)",
        "\t=1",
        "'quoted",
        "\uff1d1",
        "-0.5",
        "a=b",
        "",
    ]
    frame = pd.DataFrame({"text": texts, "=x": -1.5, "n": -3}, index=pd.Index(texts, name="key"))
    run = start()
    run.table(frame, "texts", "Texts.")
    run.finish()
    rows = list(csv.reader(StringIO((run.folder / "texts.csv").read_text())))
    cells = [cell for row in rows for cell in row]
    assert (
        rows[0] == ["key", "text", "'=x", "n"]
        and "-0.5" in cells
        and {row[2] for row in rows[1:]} == {"-1.5"}
    )
    assert all(
        not cell.startswith(tuple("=+-@\t\uff1d"))
        for cell in cells
        if cell not in ("-0.5", "-1.5", "-3")
    )
    back = report.completed("demo", NAME, run.folder).table("texts.csv")
    assert (
        back.columns.tolist() == ["key", "text", "=x", "n"]
        and back.text.fillna("").tolist() == texts
    )
    assert texts[0] in site.table(run.folder / "texts.csv")


def test_a_lone_return_and_the_text_none_come_back(checkout, tmp_path):
    """Two rows came back as four, and prompts called None or NA as missing."""
    frame = pd.DataFrame(
        {"text": ["a\rb", "None", "NA", "=1\r", None], "n": [1.5, 2, np.nan, -3, 4]}
    )
    (tmp_path / "r.csv").write_text(report.csv_text(frame), newline="")
    back = report.read_table(tmp_path / "r.csv")
    assert (
        back.text.tolist()[:4] == frame.text.tolist()[:4]
        and back.text.isna().tolist() == frame.text.isna().tolist()
    )
    np.testing.assert_array_equal(back.n, frame.n)


def test_the_users_own_file_is_never_the_papers(checkout):
    """A file of made-up rows, read as helpsteer2, was judged against Table 2."""
    run = start(replace(REAL, own=True), of_paper=True)
    assert verdict(run.against_paper("table-2", ours(2.7856))) == "not comparable: other data"


def test_latex_special_characters_are_escaped(checkout):
    run = start()
    frame = pd.DataFrame(
        {"a_b & 5 %": ["x_y", "50 % & #1 {z} $", "a~b^c"]}, index=pd.Index(["r_1", "r%2", "r&3"])
    )
    run.table(frame, "special", "Shares in % of A & B, n_prompts = 5, #1 {x} $y$ ~ ^.")
    tex = (run.folder / "special.tex").read_text()
    for text in (r"a\_b \& 5 \%", r"x\_y", r"50 \% \& \#1 \{z\} \$", r"r\_1", r"r\%2", r"r\&3"):
        assert text in tex
    caption = next(line for line in tex.splitlines() if line.startswith(r"\caption"))
    assert r"Shares in \% of A \& B, n\_prompts = 5, \#1 \{x\} \$y\$" in caption
    assert r"\toprule" in tex and r"\bottomrule" in tex and r"\label{tab:special}" in tex


def test_caption_tilde_and_caret_print_as_they_are_in_latex(checkout):
    run = start()
    run.table(pd.DataFrame({"a": [1]}), "t", "About ~5 x^2 in a\\b.")
    tex = (run.folder / "t.tex").read_text()
    assert "~5" not in tex and "x^2" not in tex, (
        "an active tilde is a space, and a caret outside math an error"
    )


def test_a_write_that_is_cut_short_leaves_the_old_file(checkout, monkeypatch):
    run = start()
    run.table(pd.DataFrame({"n": [1]}), "numbers", "Old.")
    old = (run.folder / "numbers.csv").read_bytes()

    def killed(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        run.table(pd.DataFrame({"n": [2]}), "numbers", "New.")
    assert (run.folder / "numbers.csv").read_bytes() == old
    monkeypatch.undo()


def test_a_manifest_that_is_cut_short_is_no_manifest(checkout, monkeypatch):
    run = start()

    def killed(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        run.finish()
    assert not (run.folder / "manifest.json").exists()


def test_start_refuses_what_the_notebook_does_not_allow(checkout):
    with pytest.raises(ParameterError, match="seed = 12 is outside 0 to 9"):
        report.start(NAME, {"tier": "demo", "seed": 12})
    assert not (checkout / "reports").exists()


def test_a_seed_makes_the_same_numbers(checkout):
    start()
    first = np.random.random(), random.random()
    start()
    assert (np.random.random(), random.random()) == first


def test_a_renamed_table_leaves_no_old_file_behind(checkout):
    run = start()
    run.table(pd.DataFrame({"n": [1]}), "old-name", "A table.")
    run.finish()
    run = start()
    run.table(pd.DataFrame({"n": [1]}), "new-name", "A table.")
    run.finish()
    assert sorted(p.name for p in run.folder.glob("[!.]*")) == [
        "manifest.json",
        "new-name.csv",
        "new-name.tex",
    ]


def git(folder, *words):
    who = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
    return subprocess.run(
        ["git", "-C", str(folder), *who, *words], check=True, capture_output=True, text=True
    ).stdout


@pytest.mark.parametrize(
    ("name", "mark"),
    [
        (f"notebooks/{NAME}.ipynb", "+"),
        ("notebooks/mine.py", "+"),  # new, and in no commit
        ("params/demo/01_toy@new.yaml", "+"),
        ("notes.txt", ""),
    ],
)
def test_a_commit_is_marked_where_sources_are_not_as_committed(checkout, name, mark):
    """A run that read a new module of the user's could not be made again from the commit that its manifest names."""
    git(checkout, "init", "-q")
    git(checkout, "add", "-A")
    git(checkout, "commit", "-q", "-m", "All")
    head = git(checkout, "rev-parse", "--short=12", "HEAD").strip()
    assert report.commit() == head
    file = checkout / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("1")
    assert report.commit() == head + mark
