"""Reports versus the published ones: each kind of cell is told apart, in folders made by hand."""

import pytest

from hs2lib.commands import compare
from hs2lib.commands.compare import CHANGED, EQUAL, INSIDE, MISSING, MOVED

RUN = "07_sft"


def write(root, tables, run=RUN, tier="demo"):
    """A complete report with these tables, as texts."""
    folder = root / tier / run
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in tables.items():
        (folder / name).write_text(text)
    (folder / "manifest.json").write_text("{}")


@pytest.fixture
def beside(tmp_path):
    """compare(published, ours) of one table, given as texts: what `compare` says of it."""

    def compared(published, ours):
        write(tmp_path / "published", {"t.csv": published})
        write(tmp_path / "own", {"t.csv": ours})
        return compare.compare("demo", tmp_path / "own", tmp_path / "published")

    return compared


HEADINGS = "policy,gain,95 % low,95 % high,verdict\n"
PUBLISHED = HEADINGS + "DPO,0.3255584457,0.1,0.5,better\n"


@pytest.mark.parametrize(
    ("ours", "kinds"),
    [
        ("DPO,0.3255584457,0.1,0.5,better", [EQUAL] * 4),
        # One unit of the tenth digit, and of the eighth.
        ("DPO,0.3255584458,0.1,0.5,better", [EQUAL] * 4),
        ("DPO,0.3255584557,0.1,0.5,better", [INSIDE, EQUAL, EQUAL, EQUAL]),
        # 0.4 and 0.5 lie in 0.1 to 0.5, and 0.6 does not.
        ("DPO,0.4,0.2,0.6,better", [INSIDE, MOVED, MOVED, EQUAL]),
        ("DPO,0.5,0.3,0.7,better", [INSIDE, MOVED, MOVED, EQUAL]),
        ("DPO,0.6,0.3,0.9,better", [MOVED, MOVED, MOVED, EQUAL]),
        # The interval holds 0 now, or ends there, or lies on the other side of it.
        ("DPO,0.3,-0.1,0.7,better", [INSIDE, CHANGED, MOVED, EQUAL]),
        ("DPO,0.3255584457,0,0.5,better", [EQUAL, CHANGED, EQUAL, EQUAL]),
        ("DPO,-0.3,-0.5,-0.1,better", [MOVED, CHANGED, CHANGED, EQUAL]),
        # The words differ though no number does.
        ("DPO,0.3255584457,0.1,0.5,no better", [EQUAL, EQUAL, EQUAL, CHANGED]),
        ("DPO,,0.1,0.5,better", [MISSING, EQUAL, EQUAL, EQUAL]),
        ("DPO,–,0.2,0.5,better", [MOVED, MOVED, EQUAL, EQUAL]),
        ("DPO,–,–,–,better", [MOVED, CHANGED, MOVED, EQUAL]),
        ("PPO,0.3255584457,0.1,0.5,better", [MISSING] * 8),
    ],
)
def test_each_kind_of_cell_is_distinguished(beside, ours, kinds):
    """What moved within the published interval is news to nobody; a conclusion that changed must not hide among it."""
    frame = beside(PUBLISHED, f"{HEADINGS}{ours}\n")
    assert frame.kind.tolist() == kinds
    assert frame.column.tolist()[:4] == ["gain", "95 % low", "95 % high", "verdict"]


def test_an_interval_below_0_that_comes_to_hold_it(beside):
    """An upper bound concludes as a lower one does; a column called "below" is no bound."""
    frame = beside(
        "gain,low,high,below\n-0.3,-0.5,-0.1,1\n", "gain,low,high,below\n-0.3,-0.5,0.1,-1\n"
    )
    assert frame.kind.tolist() == [EQUAL, EQUAL, CHANGED, MOVED]


@pytest.mark.parametrize(
    ("published", "ours", "kind"),
    [
        ("0.1", "0.2", MOVED),
        ("10681", "10682", MOVED),
        ("7", "7.0", EQUAL),
        ("1e-16", "-2e-16", EQUAL),  # 0, but for the error of floats
        ("4.12 [3.80, 4.44]", "4.12 [3.80, 4.44]", EQUAL),
        ("4.12 [3.80, 4.44]", "4.13 [3.80, 4.44]", MOVED),
        ("True", "False", MOVED),
        ("–", "–", EQUAL),
        ("no score", "no words", MOVED),
        ("8.04", "judge: truth, no score", MOVED),
        ("", "3", MISSING),
    ],
)
def test_a_cell_without_an_interval(beside, published, ours, kind):
    """Many tables have a number alone, or a number and its interval as a text."""
    table = 'policy,value\nSFT,"{}"\nDPO,"5"\n'
    frame = beside(table.format(published), table.format(ours))
    assert frame.set_index("row").kind.to_dict() == {"SFT": kind, "DPO": EQUAL}


def test_rows_are_matched_by_their_names_and_columns_by_their_headings(beside):
    """A table in another order is the same table."""
    frame = beside(
        "measure,policy,a,b\ntruth,SFT,1,2\ntruth,DPO,3,4\n",
        "policy,b,a,measure\nDPO,4,3,truth\nSFT,2,1,truth\n",
    )
    assert frame.kind.tolist() == [EQUAL] * 4
    assert frame.row.tolist() == ["truth, SFT", "truth, SFT", "truth, DPO", "truth, DPO"]


def test_rows_of_one_name_are_matched_by_their_order(beside):
    """A table by step has each measure once a step."""
    frame = beside(
        "step,measure,a\n1,truth,1\n2,truth,2\n", "step,measure,a\n1,truth,1\n2,truth,5\n"
    )
    assert dict(zip(frame.row + ": " + frame.column, frame.kind, strict=True)) == {
        "truth: step": EQUAL,
        "truth: a": EQUAL,
        "truth (2): step": EQUAL,
        "truth (2): a": MOVED,
    }


def test_a_text_that_a_model_wrote_names_no_row(beside):
    """Another answer to the same prompt is other words in one row, not a row lost and another gained."""
    table = "policy,answer,length\nSFT,{},20\nDPO,The Nile.,9\n"
    assert (
        beside(table.format("A river."), table.format("A long river.")).kind.tolist()
        == [MOVED] + [EQUAL] * 3
    )


def test_a_verdict_names_the_rows_of_a_table_of_verdicts(beside):
    """Three claims less and three more are numbers that moved; no conclusion of one row became that of the next."""
    frame = beside(
        "verdict,evidence,demo\nholds,run,9\nfails,run,1\n",
        "verdict,evidence,demo\nholds,run,6\nfails,run,4\n",
    )
    assert set(frame.kind) <= {EQUAL, MOVED} and frame.row.tolist() == [
        "holds",
        "holds",
        "fails",
        "fails",
    ]


def test_a_verdict_names_no_row_otherwise(beside):
    """It is a conclusion, also where nothing else tells the rows apart."""
    frame = beside("policy,verdict\nSFT,up\nSFT,down\n", "policy,verdict\nSFT,down\nSFT,up\n")
    assert frame.kind.tolist() == [CHANGED, CHANGED]


@pytest.fixture
def roots(tmp_path, monkeypatch):
    """The folders of one's own reports and of the published ones, as the command finds them."""
    own = tmp_path / "own"
    published = tmp_path / "published"
    monkeypatch.setenv("HS2_REPORTS", str(own))
    monkeypatch.setenv("HS2_PUBLISHED", str(published))
    return own, published


def test_what_one_side_lacks(roots, capsys):
    """A table is all its cells; a run is one line, not thousands. A report that is not complete is none."""
    own, published = roots
    write(own, {"t.csv": "a\n1\n", "new.csv": "policy,b\nSFT,1\n", "empty.csv": "a\n"})
    write(published, {"t.csv": "a\n1\n", "old.csv": "policy,b,c\nSFT,1,2\n"})
    write(published, {"t.csv": "a\n1\n"}, "08_dpo")
    write(own, {"t.csv": "a\n1\n"}, "09_iterative_dpo")
    write(own, {"t.csv": "a\n1\n"}, "09_iterative_dpo@by-hand")
    (own / "demo/10_ppo").mkdir()
    frame = compare.compare("demo", own, published)
    compared = frame[frame.table != ""]
    assert list(zip(compared.table, compared.column, compared.kind, strict=True)) == [
        ("new.csv", "policy", MISSING),
        ("new.csv", "b", MISSING),
        ("old.csv", "policy", MISSING),
        ("old.csv", "b", MISSING),
        ("old.csv", "c", MISSING),
        ("t.csv", "a", EQUAL),
    ]
    assert compare.main([]) == 0
    counted, changed, page = capsys.readouterr().out.splitlines()
    assert counted.startswith("demo, runs compared: 1, cells: 6 (1 equal; 0 moved inside")
    assert counted.endswith("5 missing on one side)") and changed == "conclusions changed: none"
    assert page == f"page: {own / 'site/compare-demo.html'}"
    text = (own / "site/compare-demo.html").read_text()
    assert "not run here: 08_dpo" in text and "not published: 09_iterative_dpo" in text
    write(own, {"t.csv": "a\n1\n"}, tier="paper")
    assert compare.main(["--tier", "paper"]) == 0, "nothing to compare but a run on one side"
    assert f"not published: {RUN}" in (own / "site/compare-paper.html").read_text()
    capsys.readouterr()
    assert compare.main(["--tier", "laptop"]) == 0
    assert "laptop, runs compared: 0, cells: 0 (0 equal" in capsys.readouterr().out
    assert compare.main(["--tier", "laptop", "--strict"]) == 1, "nothing was found as published"


def test_a_run_of_another_seed_versus_the_published_one(roots, capsys):
    """It is what a second honest run gives. The page has both values of each changed conclusion."""
    own, published = roots
    write(own, {"t.csv": f"{HEADINGS}DPO,0.3,-0.1,0.7,unclear\n"}, f"{RUN}@seed-1")
    write(published, {"t.csv": PUBLISHED})
    assert compare.main(["07@seed-1=07"]) == 0
    assert f"conclusions changed: 2, {RUN}@seed-1\n" in capsys.readouterr().out
    page = (own / "site/compare-demo.html").read_text()
    for shown in ("95 % low", "0.1", "-0.1", "better", "unclear"):
        assert f">{shown}</td>" in page
    for words in (["08"], ["07"], ["99"]):
        assert compare.main(words) == 2
        assert capsys.readouterr().err.startswith("error: no ")


@pytest.mark.parametrize(
    ("value", "status"), [("0.3255584457", 0), ("0.3255584458", 0), ("0.33", 1), ("", 1)]
)
def test_strict_says_whether_todays_code_gives_what_is_published(roots, value, status):
    """`make verify` is red where a number is another one, and not for its last printed digit."""
    own, published = roots
    write(own, {"t.csv": f"{HEADINGS}DPO,{value},0.1,0.5,better\n"})
    write(published, {"t.csv": PUBLISHED})
    assert compare.main(["--strict", "07"]) == status
    assert compare.main(["07"]) == 0
