"""The static site: complete, made again only where something changed, and harmless whatever the data says."""

import base64
import importlib
import json
import shutil
import sys
from html.parser import HTMLParser
from io import BytesIO

import browser
import nbformat
import pandas as pd
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from PIL import Image

from hs2lib.paths import root, sha256, write
from hs2lib.report import show
from hs2lib.report.answers import Answer
from hs2lib.runs import graph, key
from hs2lib.world import marks, sets

sys.path.insert(0, str(root() / "reports"))
site = importlib.import_module("make_site")
sys.path.pop(0)

NAME = "01_first"
_drawn = BytesIO()
Image.new("RGB", (2000, 300), "white").save(_drawn, "png")
PNG = _drawn.getvalue()  # wider than most screens
PICTURE = base64.b64encode(PNG).decode()
HOSTILE = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    '"><svg onload=alert(1)>',
    "[x](javascript:alert(1))",
    "![x](https://example.org/x.png)",
    "<iframe src='https://example.org'></iframe>",
    "$\\text{<img src=x onerror=alert(1)>}$",
    "```mermaid\n<script>alert(1)</script>\n```",
    "<style>body{background:url(https://example.org)}</style>",
    "<a href='javascript:alert(1)'>x</a>",
    "<math><mtext><script>alert(1)</script></mtext></math>",
    "<details open ontoggle=alert(1)><summary onclick=alert(1)>x</summary>",
    "</details></summary><s style='color:#ffffff' onclick=alert(1)>x",
    "<span style='color:#ffffff;position:fixed;background:url(https://example.org)'>x</span>",
]


class Reader(HTMLParser):
    """Collects what a browser would act on."""

    def __init__(self):
        super().__init__()
        self.tags, self.attributes, self.text = [], [], ""

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_data(self, data):
        self.text += data


def read(path):
    reader = Reader()
    reader.feed(path.read_text())
    return reader


PARAMETERS = """tier: str = "smoke"  # tier; one of smoke, demo
seed: int = 0  # seed
path: str = "A caption."  # file"""


def executed(texts=(), source="Text with $x^2$."):
    outputs = [new_output("stream", text=text) for text in texts]
    outputs += [new_output("display_data", {"text/html": t, "text/plain": "-"}) for t in texts]
    outputs += [new_output("display_data", {"text/markdown": t}) for t in texts]
    outputs += [
        new_output("display_data", {"application/javascript": "alert(1)", "text/plain": "left"})
    ]
    outputs += [
        new_output(
            "display_data", {"image/svg+xml": "<svg onload='alert(1)'/>", "text/plain": "left"}
        )
    ]
    outputs += [new_output("error", ename="E", evalue="v", traceback=list(texts))]
    widget = {"application/vnd.jupyter.widget-view+json": {"model_id": "a"}, "text/plain": "Box"}
    cells = [
        new_markdown_cell(
            "# 01 First\n\n| | |\n|---|---|\n| *Reproduces* | Table 2 |\n\n" + source, id="title"
        ),
        new_code_cell(PARAMETERS, id="parameters", metadata={"tags": ["parameters"]}),
        new_code_cell(
            "print('<b>')", id="code", outputs=[*outputs, new_output("display_data", widget)]
        ),
        new_code_cell(
            "a = 1", id="png", outputs=[new_output("display_data", {"image/png": PICTURE})]
        ),
    ]
    return new_notebook(cells=cells, metadata={"widgets": {"x": "<script>"}})


def finish(
    folder, caption="A caption.", cells=("1.23456789", "x"), texts=(), generated=True, **more
):
    """Leave in `folder` what a run of the notebook leaves: a table, a figure, the executed copy and
    the manifest.

    root: where in it, the user's own reports or "reports/published".
    """
    where = folder / more.pop("root", "reports") / more.pop("tier", "demo") / NAME
    where.mkdir(parents=True, exist_ok=True)
    quoted = ",".join('"' + c.replace('"', '""') + '"' for c in cells)
    (where / "numbers.csv").write_text(f"a,b\n{quoted}\n")
    (where / "numbers.tex").write_text("tex")
    (where / "curve.png").write_bytes(PNG)
    nbformat.write(executed(texts), where / f"{NAME}.ipynb")
    (where / "curve.pdf").write_text("pdf")
    names = ("numbers.csv", "numbers.tex", "curve.pdf", "curve.png")
    manifest = {
        "notebook": NAME,
        "tier": "demo",
        "commit": "abc",
        "parameters": {"tier": "demo", "seed": 0, "path": caption},
        "recipe": {},
        "sources": [
            {"name": f"rows{caption}, file", "generated": generated, "groups": 3, "set_aside": 0}
        ],
        "generated": generated,
        "verdicts": {"table-2": {"match": 2, "differs": 1}},
        "artefacts": {name: {"sha256": sha256(where / name), "caption": caption} for name in names},
        "device": "a machine",
        "finished": "2026-01-01T00:00:00+00:00",
        "wall_s": 1.5,
    }
    (where / "manifest.json").write_text(json.dumps(manifest | more))
    if where == graph.manifest(NAME, "demo").parent:  # a run of the user's own is known as current
        made = {"key": key.of(NAME, "demo", key.DRAW), "upstream": {}}
        write(key.made_file(NAME, "demo", key.DRAW), json.dumps(made))
        write(key.result(NAME, "demo", key.DRAW), "{}")
    return where


@pytest.fixture
def suite(tmp_path, monkeypatch):
    (tmp_path / "notebooks").mkdir()
    nbformat.write(executed(), tmp_path / "notebooks" / f"{NAME}.ipynb")
    monkeypatch.setenv("HS2_ROOT", str(tmp_path))
    monkeypatch.delenv("HS2_REPORTS", raising=False)
    monkeypatch.delenv("HS2_PUBLISHED", raising=False)
    return tmp_path


def assert_harmless(path):
    page = read(path)
    banned = {
        "script",
        "iframe",
        "object",
        "embed",
        "svg",
        "form",
        "base",
        "link",
        "audio",
        "video",
        "foreignobject",
    }
    assert not banned & set(page.tags), path
    for tag, name, value in page.attributes:
        assert not name.startswith("on"), f"{path}: {tag} {name}={value}"
        assert not value.strip().lower().startswith(("javascript:", "vbscript:")), (
            f"{path}: {tag} {name}={value}"
        )
        if tag in (
            "img",
            "source",
            "link",
            "script",
        ):  # the elements that fetch without being asked
            assert name not in ("src", "href", "srcset") or value.startswith(
                "data:image/png;base64,"
            )
        assert "url(" not in value if name == "style" else True
        assert tag not in ("details", "summary", "s"), "these have no attributes"
    assert page.tags.count("style") == 1, "ours, and no other"
    assert "url(" not in path.read_text().partition("</style>")[0]
    assert "default-src 'none'" in dict((n, v) for t, n, v in page.attributes if t == "meta").get(
        "content", ""
    )


@pytest.mark.slow
def test_hostile_rows_captions_and_outputs_do_no_harm(suite):
    for i, text in enumerate(HOSTILE):
        finish(suite, caption=text, cells=(text, "1"), texts=HOSTILE if i == 0 else [text])
        finish(suite, caption=text, cells=(text, "2"), root="reports/published")
        site.build()
        pages = list((suite / "reports/site").rglob("*.html"))
        assert len(pages) == 8
        for path in pages:
            assert_harmless(path)
        shown = read(suite / "reports/site/demo" / NAME / "index.html").text
        assert text in shown.replace("\r", ""), "what the data says is shown as the text it is"


def notebook_page(*cells):
    """What a browser reads of an executed notebook with these cells."""
    reader = Reader()
    reader.feed(site.notebook_body(new_notebook(cells=list(cells))))
    return reader


def shown_as(kind, text):
    return new_code_cell("", outputs=[new_output("display_data", {kind: text})])


def test_folds_and_struck_words_are_what_they_are_and_other_tags_are_text():
    """Folded answers and tables stood on the site as the text `<details>`."""
    answer = "1. Which?\n\n<details><summary>Answer</summary>\n\nThe *first*.\n\n</details>"
    page = notebook_page(new_markdown_cell(answer))
    assert {"details", "summary", "em"} <= set(page.tags) and "<" not in page.text
    assert "s" in notebook_page(new_markdown_cell("a <s>word</s> less")).tags
    folded = "<details><summary>All</summary><table><tr><td>1</td></tr></table></details>"
    page = notebook_page(shown_as("text/html", folded))
    assert {"details", "summary", "td"} <= set(page.tags) and "<" not in page.text
    for text in ("<details open>", "<summary class='n'>x</summary>", "<b>x</b>", "<S>x</S>"):
        page = notebook_page(new_markdown_cell(text), shown_as("text/markdown", text))
        assert not {"details", "summary", "b", "s"} & set(page.tags) and text in page.text


@pytest.mark.parametrize(
    "text", ["<s>all", "a</s>", "<details>\n\nx", "<s><details>\n\nx</s></details>"]
)
def test_a_tag_that_nothing_closes_is_text(text):
    """Else a row of a data set strikes out or folds away the rest of the page."""
    for shown in (new_markdown_cell(text), shown_as("text/markdown", text)):
        page = notebook_page(shown, new_markdown_cell("The rest."))
        assert not {"s", "details"} & set(page.tags)
        assert text.partition(">")[0] + ">" in page.text


def test_answers_keep_their_signs_colours_and_struck_items():
    """The site dropped the colours, and showed a missing item as `<s>item</s>`."""
    group = next(sets.groups(1, seed=4, split="train"))
    page = notebook_page(
        shown_as("text/html", show.answers_html(group, [Answer("SFT", "Nothing.")]))
    )
    styles = {value for tag, name, value in page.attributes if tag == "span" and name == "style"}
    assert f"color:{marks.KINDS['missing'][1]};" in styles
    assert "s" in page.tags and "<s>" not in page.text
    hostile = "<p style='color:#ffffff'>a</p><span style='color:#fff;margin:1px'>b</span>"
    page = notebook_page(shown_as("text/html", hostile))
    assert [value for _, name, value in page.attributes if name == "style"] == []


def test_the_words_of_a_picture_of_a_notebook_are_its_caption():
    """Every picture was "Figure; its caption follows.". Copies of before have no words of their own."""

    def picture(**metadata):
        return new_output("display_data", {"image/png": "aGk="}, metadata=metadata)

    caption = new_output("display_data", {"text/markdown": '*A "curve" &lt;b&gt;.*\n'})
    described = picture(**{"image/png": {"alt": "Told <b>."}})
    first = new_code_cell("", outputs=[picture(), caption, described, caption, picture()])
    page = notebook_page(first, new_code_cell("", outputs=[picture()]))
    alts = [value for tag, name, value in page.attributes if tag == "img" and name == "alt"]
    assert alts == ['A "curve" <b>.', "Told <b>.", *["A figure without a caption."] * 2]


def test_links_between_notebooks_lead_to_pages_of_the_site(suite):
    """They led to `07_sft.ipynb`, which the site has not. A notebook that has no run has a page that says so."""
    other, third = "02_second", "03_third"
    for name in (other, third):
        nbformat.write(executed(), suite / "notebooks" / f"{name}.ipynb")
    linked = (
        f"[a]({other}.ipynb) [b](../{other}/{other}.ipynb#Its-end) [c]({third}.ipynb) [d](#Its-end)"
    )
    where = finish(suite, root="reports/published")
    nbformat.write(executed(source=f"{linked}\n\n## Its end"), where / f"{NAME}.ipynb")
    finish(suite, root="reports/published", tier="laptop")
    shutil.copytree(where, where.with_name(other))
    site.build()
    folder = suite / "reports/site/published-demo" / NAME
    page = read(folder / "notebook.html")
    links = [value for tag, name, value in page.attributes if tag == "a" and name == "href"][-4:]
    second = f"../{other}/notebook.html"
    assert links == [second, f"{second}#Its-end", f"../{third}/notebook.html", "#Its-end"]
    assert ("h2", "id", "Its-end") in page.attributes
    assert "not run anywhere" in read(folder / links[2]).text
    assert (folder / second).exists()
    missing = read(suite / "reports/site/published-laptop" / other / "notebook.html")
    places = [value for tag, name, value in missing.attributes if tag == "a" and name == "href"]
    assert places[-1] == f"../../published-demo/{other}/index.html"


def test_a_page_has_tables_figures_provenance_and_the_notebook(suite):
    finish(suite)
    (suite / "docs").mkdir(exist_ok=True)
    (suite / "docs/findings.md").write_text(
        "# Negative results\n\nA *log* line. [a](b.md#c) [d](../e.md)\n"
    )
    (suite / "reports/benchmarks").mkdir()
    record = {
        "name": "load",
        "compared": "a & b",
        "ratio": 2.5,
        "goal": "2",
        "met": True,
        "device": "d",
        "commit": "c",
    }
    (suite / "reports/benchmarks/load.json").write_text(json.dumps(record))
    site.build()
    folder = suite / "reports/site"
    page = read(folder / "demo" / NAME / "index.html")
    for text in (
        "1.235",
        "A caption.",
        "Generated data",
        "Current",
        "1 differs, 2 match",
        "seed = 0",
        "abc",
    ):
        assert text in page.text
    links = {value for tag, name, value in page.attributes if tag == "a" and name == "href"}
    for link in links:
        assert (folder / "demo" / NAME / link).exists(), link
    assert {"numbers.csv", "numbers.tex", "curve.png", "notebook.html", "manifest.json"} <= links
    notebook = read(folder / "demo" / NAME / "notebook.html")
    assert "msup" in notebook.tags, "formulas are MathML"
    assert "interactive in a live notebook" in notebook.text and "left" in notebook.text
    findings = read(folder / "findings.html")
    assert "A log line." in findings.text
    assert {("a", "href", "../../docs/b.md#c"), ("a", "href", "../../e.md")} <= set(
        findings.attributes
    )
    assert "ratio 2.5" in read(folder / "benchmarks.html").text
    index = read(folder / "index.html").text
    assert "current" in index and "2026-01-01 00:00" in index


def test_states_in_the_index(suite):
    where = finish(suite)
    state = lambda: site.row("demo", NAME, where)["state"]  # noqa: E731
    assert state() == "current"
    nbformat.write(executed(source="Changed."), suite / "notebooks" / f"{NAME}.ipynb")
    assert state() == f"changed: the text of notebooks/{NAME}.ipynb"
    made = key.made_file(NAME, "demo", key.DRAW)
    made.write_text("{}")
    assert state() == "not judged: 'key'", "a state that cannot be told does not stop the site"
    made.unlink()
    assert state() == "never run here"
    (where / "numbers.csv").write_text("a,b\n9,9\n")
    assert site.row("demo", NAME, where)["run"].altered == ["numbers.csv"], (
        "a table edited by hand is told apart"
    )
    site.build()
    assert (
        "Not as the run left them: numbers.csv"
        in read(suite / "reports/site/demo" / NAME / "index.html").text
    )
    (where / "manifest.json").write_text('{"half')
    assert state() == "incomplete: no manifest"
    site.build()
    assert "incomplete" in read(suite / "reports/site/index.html").text
    assert not (suite / "reports/site/demo" / NAME / "index.html").exists(), (
        "no page of a run that is not complete"
    )
    shutil.rmtree(where)
    assert state() == "not run"


def test_published_reports_and_yours_stand_apart_and_beside_each_other(suite):
    """A published one keeps its commit and is called neither current nor changed, whatever became of its notebook."""
    finish(suite, root="reports/published", commit="a1b2c3")
    nbformat.write(executed(source="Changed."), suite / "notebooks" / f"{NAME}.ipynb")
    site.build()
    folder = suite / "reports/site"
    index = read(folder / "index.html").text
    assert "a1b2c3" in index and "changed:" not in index and "No reports yet" in index
    page = read(folder / "published-demo" / NAME / "index.html").text
    assert "Published, made at commit a1b2c3" in page and "changed:" not in page.lower()
    assert not (folder / "compare-demo.html").exists(), "there is nothing of the user's to compare"
    finish(suite, cells=("1.5", "x"))
    nbformat.write(executed(source="Changed once more."), suite / "notebooks" / f"{NAME}.ipynb")
    site.build()
    index = read(folder / "index.html")
    published, _, yours = index.text.partition("Yours")
    assert published.count(NAME) == 1 and "changed:" not in published
    assert f"changed: the text of notebooks/{NAME}.ipynb" in yours
    links = {value for tag, name, value in index.attributes if tag == "a" and name == "href"}
    places = {f"published-demo/{NAME}/index.html", f"demo/{NAME}/index.html", "compare-demo.html"}
    assert places <= links and all((folder / place).exists() for place in places)
    compared = read(folder / "compare-demo.html").text
    assert (
        "Conclusions that changed" in compared
        and "moved inside the published interval" in compared
        and "numbers.csv" in compared
    )


def test_the_story_shows_the_figure_that_a_notebook_names_and_says_where_it_is_from(suite):
    """Tier demo goes before the others, published or not; a notebook without a run has no figure."""
    copy = executed(source="More.")
    copy.cells[0].source = "# A title\n\n**Question.** Is $a < b$? <script>\n\nMore."
    copy.metadata["hs2"] = {"figure": "chosen"}
    for name in (NAME, "02_second"):
        nbformat.write(copy, suite / "notebooks" / f"{name}.ipynb")
    finish(suite, tier="laptop")
    where = finish(suite, root="reports/published")
    about = json.loads((where / "manifest.json").read_text())
    for name in ("chosen.pdf", "chosen.png"):
        (where / name).write_bytes(PNG + b"x")
        about["artefacts"][name] = {"sha256": sha256(where / name), "caption": "Mine."}
    (where / "manifest.json").write_text(json.dumps(about))
    rows = [
        site.row("laptop", NAME, suite / "reports/laptop" / NAME),
        site.published_row("demo", where),
    ]
    first, second = site.story(rows)
    assert (first["title"], first["tier"], first["caption"]) == ("A title", "demo", "Mine.")
    assert first["place"] == f"published-demo/{NAME}/index.html#chosen"
    assert base64.b64decode(first["image"]) == PNG + b"x"
    assert "<math" in first["text"] and "<script" not in first["text"]
    assert "image" not in second
    assert site.story([]) == []


def test_a_published_figure_is_the_one_that_the_executed_notebook_shows(suite):
    """Its own files are not published: the caption, which is the picture's words, says which it is."""
    where = finish(suite, root="reports/published", caption="Mine & yours.")
    copy = executed()
    alt = {"image/png": {"alt": "Mine & yours."}}
    shown = new_output("display_data", {"image/png": PICTURE}, metadata=alt)
    copy.cells.append(new_code_cell("b = 1", outputs=[shown]))
    nbformat.write(copy, where / f"{NAME}.ipynb")
    for kind in ("png", "pdf", "tex"):
        for file in where.glob(f"*.{kind}"):
            file.unlink()
    row = site.published_row("demo", where)
    assert row["altered"] == []
    assert row["run"].figures()[0]["image"] == PICTURE
    (where / "numbers.csv").write_text("a,b\n9,x\n")
    assert site.published_row("demo", where)["altered"] == ["numbers.csv"]
    site.build()
    page = read(suite / f"reports/site/published-demo/{NAME}/index.html")
    assert ("img", "src", f"data:image/png;base64,{PICTURE}") in page.attributes
    links = {value for tag, name, value in page.attributes if tag == "a" and name == "href"}
    assert "numbers.csv" in links and not {"curve.png", "numbers.tex"} & links


def test_a_manifest_cannot_reach_outside_its_folder(suite):
    (suite / "secret.csv").write_text("a\nkept\n")
    finish(
        suite,
        artefacts={"../../../secret.csv": {"sha256": sha256(suite / "secret.csv"), "caption": "c"}},
    )
    site.build()
    assert "kept" not in (suite / "reports/site/demo" / NAME / "index.html").read_text()


def test_the_page_of_a_notebook_is_made_again_only_where_its_copy_changed(suite):
    """Turning a notebook into a page takes its time. All else is made anew, and pages of runs that are gone go."""
    where = finish(suite)
    site.build()
    page = suite / "reports/site/demo" / NAME / "notebook.html"
    before = page.stat().st_mtime_ns
    (where / "numbers.csv").write_text("a,b\n2.5,x\n")
    site.build()
    assert page.stat().st_mtime_ns == before and "2.5" in read(page.with_name("index.html")).text
    finish(suite, texts=["another output"])
    site.build()
    assert "another output" in read(page).text
    page.unlink()
    site.build()
    assert page.exists(), "a page that was deleted comes back"
    shutil.rmtree(where.parent)
    site.build()
    assert not page.exists(), "and one whose run is gone goes"


@pytest.mark.parametrize(
    ("latex", "part"),
    [
        (r"\frac{a}{b}", "<mfrac>"),
        (r"\begin{aligned} a &= b \\ c &= d \end{aligned}", "<mtable"),
        (r"\operatorname*{argmax}_x", "argmax"),
        (r"a < b", "&#x0003C;"),
    ],
)
def test_formulas_become_mathml(latex, part):
    assert site.mathml(latex).startswith("<math") and part in site.mathml(latex)


@pytest.mark.parametrize(
    "latex", [r"\nosuchmacro{x}", r"\text{<script>}", r"\href{javascript:x}{y}", r"\left("]
)
def test_what_cannot_be_converted_stays_as_source(latex):
    html = site.mathml(latex)
    assert html.startswith("<code>") and latex.replace("<", "&lt;").replace(">", "&gt;") in html


def test_dollars_in_code_are_no_formulas():
    assert "<math" not in site.markdown("`$a$`\n\n```\n$$b$$\n```")


def test_readme_table_is_generated(suite, capsys):
    finish(suite, caption="", generated=False, root="reports/published")
    finish(suite, tier="laptop", caption=" | <b>", root="reports/published")
    finish(suite, commit="mine")
    (suite / "reports/benchmarks").mkdir()
    record = {
        "name": "load",
        "compared": "a | b",
        "ratio": 2.5,
        "goal": "2x",
        "met": False,
        "device": "a CPU",
    }
    (suite / "reports/benchmarks/load.json").write_text(json.dumps(record | {"commit": "abc"}))
    site.main([])
    assert capsys.readouterr().out == f"{suite / 'reports/site/index.html'}\n"
    text = (suite / "reports" / "README.md").read_text()
    assert "mine" not in text, "a run of the user's changes no tracked file"
    link = f"[{NAME}](published/demo/{NAME}/{NAME}.ipynb)"
    row = f"| {link} | demo | real: rows | 1 differs, 2 match | abc | 2 s |"
    assert "| load | a \\| b | ratio 2.5 | 2x | no | a CPU | abc |" in text
    assert row in text and "<b>" not in text
    (suite / "reports/published/demo" / NAME / f"{NAME}.ipynb").unlink()
    assert f"| [{NAME}](published/demo/{NAME}) | demo |" in site.results(), "the folder at least"


def test_all_figures_of_a_tier_on_one_page_yours_before_the_published(suite, capsys):
    """`make figures`: whoever looks through them opens one page, not sixty files."""

    def left(root_, caption, tier="demo", name=NAME):
        where = finish(suite, caption=caption, root=root_, tier=tier)
        return where.rename(where.with_name(name))

    left("reports/published", "Published <b>.", name="02_second")
    left("reports/published", "Published and redone.")
    left("reports/published", "Elsewhere.", tier="laptop")
    altered = left("reports", "Mine too.", name="03_third")
    left("reports", "Mine.")
    (altered / "curve.png").write_bytes(PNG + b"x")
    site.main(["--figures", "demo"])
    sheet = suite / "reports/site/figures.html"
    assert capsys.readouterr().out == f"{sheet}\n"
    assert_harmless(sheet)
    page = read(sheet)
    alts = [value for tag, name, value in page.attributes if tag == "img" and name == "alt"]
    assert alts == ["Mine.", "Published <b>."]
    assert "Yours, made at commit abc." in page.text and "Published, made" in page.text
    assert "Not as the run left them, so not shown: curve.png." in page.text
    (sheet.with_name("ask.html")).write_text("a page of another command's")
    site.build()
    assert sheet.exists() and sheet.with_name("ask.html").exists(), "make reports leaves them"
    assert ("a", "href", "ask.html") in read(sheet.with_name("index.html")).attributes
    with pytest.raises(SystemExit):
        site.main(["--figures", "gpu"])
    assert "no run of tier gpu has left a figure" in capsys.readouterr().err


WIDTHS = (390, 768, 1400)  # of a phone, a tablet and a wide screen, pixels


def filled(suite):
    """The site of a run and of a published one, with all that is wider than a phone; its pages by name."""
    long_word, many_columns = "a_name_without_an_end" * 8, [f"column {n}" for n in range(30)]
    wide = pd.DataFrame([dict.fromkeys(many_columns, 1.5)])
    group = next(sets.groups(1, seed=4, split="train"))
    where = finish(suite, caption=f"A caption of {long_word}.", cells=(long_word, "1"))
    source = "| " + " | ".join(many_columns) + " |\n" + "|---" * len(many_columns) + "|"
    copy = executed([wide.to_html(), show.answers_html(group, show.rated(group)), long_word])
    for text in (f"{source}\n\n", f"$${'x + ' * 60}y$$", f"`{long_word}` {long_word}"):
        copy.cells.append(new_markdown_cell(text))
    picture = new_output("display_data", {"image/png": PICTURE})
    copy.cells = [cell for cell in copy.cells if cell.id != "png"]
    copy.cells.append(new_code_cell(f"{long_word} = '{long_word}'", outputs=[picture]))
    nbformat.write(copy, where / f"{NAME}.ipynb")
    (suite / "docs").mkdir(exist_ok=True)
    (suite / "docs/findings.md").write_text(f"# Negative results\n\n{source}\n\n    {long_word}\n")
    finish(suite, root="reports/published", cells=("2", "y"))
    site.main(["--figures", "demo"])
    site.build()
    folder = suite / "reports/site"
    return {path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*.html"))}


@pytest.mark.slow
@browser.needed
def test_in_a_browser_no_page_scrolls_sideways_or_has_an_error_and_every_picture_has_words(suite):
    pages = filled(suite)
    assert {
        "index.html",
        "findings.html",
        "figures.html",
        f"demo/{NAME}/notebook.html",
    } <= set(pages)
    faults = {}
    with browser.Browser() as opened:
        for name, page in pages.items():
            for width in WIDTHS:
                opened.open(page, width)
                faults[name, width] = opened.faults()
    assert {place: wrong for place, wrong in faults.items() if wrong} == {}


@pytest.mark.slow
@browser.needed
def test_what_the_browser_calls_a_fault(tmp_path):
    """The check itself: each fault is one, and a page without any has none."""
    page = tmp_path / "page.html"
    with browser.Browser() as opened:
        for body, words in (
            ("<p>fine</p>", None),
            ("<div style='width:500px'>wide</div>", "px wide on 390"),
            (f"<img src='data:image/png;base64,{PICTURE}'>", "alt text"),
            ("<img alt='a' src='none.png'>", "do not load"),
            ("<script>console.error('a')</script>", "console"),
            ("<script>nothing.here</script>", "console"),
        ):
            page.write_text(f"<!doctype html><body style='margin:0'><main>{body}</main>")
            opened.open(page, 390)
            wrong = " ".join(opened.faults())
            assert words in wrong if words else wrong == "", body
