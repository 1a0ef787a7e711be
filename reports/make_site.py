"""The reports as a static site, and reports/README.md: `make reports`. All figures on a page: `make figures`.

The site has the published reports and, apart, the user's own, and sets the two side by side.
reports/README.md speaks of what is published alone, so that no run of a user's changes it.

Everything shown comes from files that runs left (manifest, csv, figures, executed notebook);
nothing is run here. Texts may come from data sets, so templates escape everything, and every page
forbids scripts and requests.
"""

import argparse
import html
import logging
import re
from collections.abc import Iterator
from os.path import getmtime
from pathlib import Path
from xml.etree import ElementTree

import latex2mathml.converter
import nbformat
import pandas as pd
from nbconvert.exporters import HTMLExporter
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath
from nbconvert.preprocessors.sanitize import SanitizeHTML
from pygments.formatters import HtmlFormatter
from traitlets import Any, List, Set

from hs2lib import paths
from hs2lib.commands import compare, publish
from hs2lib.paths import public, published_reports, read_json, reports, root, write
from hs2lib.report import templates
from hs2lib.report.report import DASH, CompletedRun, completed, read_table
from hs2lib.report.templates import page, render
from hs2lib.runs import graph, key

_MATH = """math mrow mi mn mo mtext mspace msup msub msubsup mfrac msqrt mroot mover munder munderover mtable mtr mtd
mstyle""".split()  # noqa: SIM905  (a list of 20 short words)


def mathml(latex: str, display: str = "inline") -> str:
    r"""LaTeX as MathML, `display` inline or block; what the converter cannot do stays as LaTeX
    source, in `code`.

    latex2mathml hands tags in its input through (\text{<b>}) and guesses at macros it does not
    know, so its result counts only when it is well-formed and has nothing but MathML elements, and
    no link.
    """
    known = re.sub(r"\\(begin|end)\{aligned\}", r"\\\1{align*}", latex).replace(
        r"\operatorname*", r"\operatorname"
    )
    try:
        converted = latex2mathml.converter.convert(known, display=display)
        for element in ElementTree.fromstring(converted).iter():
            name = element.tag.removeprefix("{http://www.w3.org/1998/Math/MathML}")
            guessed = re.match(r"\\[A-Za-z]", element.text or "")
            if name not in _MATH or guessed or "href" in element.attrib:
                raise ValueError(f"not plain MathML: {name}")
    except (
        Exception
    ):  # its dozen exceptions share no base class, and an IndexError of its parser means the same
        return f"<code>{html.escape(latex)}</code>"
    return converted


# The only HTML that Markdown may hold: folds and struck words, without attributes.
_LITERAL = re.compile(r"<(/?(?:details|summary|s))>")
_ESCAPED = re.compile(_LITERAL.pattern.replace("<", "&lt;", 1).replace(">", "&gt;"))

# A link to another notebook: from a source, or from an executed copy.
_NOTEBOOK = re.compile(r"(?:\.\./(?:\d\d_\w+)/)?(\d\d_\w+)\.ipynb(#.*)?")


class _Renderer(IPythonRenderer):
    """Markdown without pictures from elsewhere, diagrams that need a script, or links that run code.

    Of HTML it keeps what `_LITERAL` matches; all else is text.
    """

    def inline_html(self, text: str) -> str:
        return _ESCAPED.sub(r"<\1>", super().inline_html(text))

    def block_html(self, text: str) -> str:
        if not _LITERAL.search(text):
            return super().block_html(text)
        return _ESCAPED.sub(r"<\1>", self.escape_raw(text.strip())) + "\n"

    def heading(self, text: str, level: int, **attrs: str) -> str:
        words = html.unescape(re.sub(r"<[^>]*>", "", text))
        return super().heading(text, level, id=words.replace(" ", "-"))  # as JupyterLab names it

    def link(self, text: str, url: str, title: str | None = None) -> str:
        if notebook := _NOTEBOOK.fullmatch(url):
            url = f"../{notebook[1]}/notebook.html{notebook[2] or ''}"
        return super().link(text, url, title)

    def table(self, text: str) -> str:
        return f'<div class="scroll" tabindex="0" role="region" aria-label="table"><table>\n{text}</table></div>\n'

    def inline_math(self, body: str) -> str:
        return mathml(body)

    def block_math(self, body: str) -> str:
        return mathml(body, "block")

    def block_mermaidjs(self, code: str) -> str:
        return f"<pre>{html.escape(code)}</pre>"

    def image(self, text: str, url: str, title: str | None = None) -> str:
        return html.escape(text)


def markdown(source: str) -> str:
    """Markdown as safe HTML, formulas as MathML.

    Folds and struck words are kept where each that begins also ends: one that does not would reach
    into the rest of the page.
    """
    renderer = _Renderer(escape=True, allow_harmful_protocols=False, exclude_anchor_links=True)
    text = MarkdownWithMath(renderer=renderer).render(source)
    return text if _closed(text) else _LITERAL.sub(r"&lt;\1&gt;", text)


def _closed(text: str) -> bool:
    """Whether each literal tag of a text is closed, the inner one first."""
    still_open = []
    for tag in _LITERAL.findall(text):
        if not tag.startswith("/"):
            still_open.append(tag)
        elif not still_open or still_open.pop() != tag[1:]:
            return False
    return not still_open


_TAGS = """table caption thead tbody tfoot tr th td div span pre code b i em strong small p br hr h3 h4
ul li details summary s""".split()  # noqa: SIM905


def _attribute_is_kept(tag: str, name: str, value: str) -> bool:
    """Whether an attribute of an output's HTML stays. Only the signs of `show.answers` have a colour."""
    if tag in ("details", "summary", "s"):
        return False
    if name == "style" and re.search(r"(^|;)\s*color\s*:", value, re.I):
        return tag in ("span", "b") and re.fullmatch(r"color:#[0-9a-f]{6}", value) is not None
    return name in ("class", "style") or (tag in ("th", "td") and name in ("colspan", "rowspan"))


def _alt(output: dict, following: dict) -> str:
    """The words that stand for an output's picture: its own, else the caption that follows it."""
    own = output.get("metadata", {}).get("image/png", {})
    caption = re.fullmatch(
        r"\*(.*)\*", following.get("data", {}).get("text/markdown", "").strip(), re.S
    )
    if isinstance(own, dict) and isinstance(own.get("alt"), str):
        return own["alt"]
    return html.unescape(caption[1]) if caption else "A figure without a caption."


class _Sanitizer(SanitizeHTML):
    """nbconvert's own cleaning of outputs; cells of Markdown keep their text, which `markdown` escapes."""

    safe_output_keys = Set({"text/plain", "text/markdown", "image/png"})
    sanitized_output_types = Set({"text/html"})
    tags = List(_TAGS)
    attributes = Any(_attribute_is_kept)
    styles = List(
        [
            "white-space",
            "border-left",
            "padding",
            "margin",
            "max-width",
            "text-align",
            "font-weight",
            "color",
        ]
    )

    def preprocess_cell(self, cell, resources, index):
        outputs = cell.get("outputs", [])
        alts = [
            _alt(output, following)
            for output, following in zip(outputs, [*outputs, {}][1:], strict=True)
        ]
        for output, alt in zip(outputs, alts, strict=True):
            data = output.get("data", {})
            output.metadata = nbformat.NotebookNode()
            if "application/vnd.jupyter.widget-view+json" in data:
                output.data = nbformat.NotebookNode(
                    {"text/plain": "(a widget: interactive in a live notebook)"}
                )
            if "text/html" in data:  # pandas and pygments put their styles in front
                data["text/html"] = re.sub(
                    r"<style\b.*?</style\s*>", "", data["text/html"], flags=re.S | re.I
                )
            if "image/png" in data:
                output.metadata["image/png"] = {"alt": alt}
        return (
            (cell, resources)
            if cell.cell_type == "markdown"
            else super().preprocess_cell(cell, resources, index)
        )


def notebook_body(notebook: nbformat.NotebookNode) -> str:
    """The cells and outputs of an executed notebook as one safe piece of HTML, without head or style sheet."""
    notebook.metadata.pop("widgets", None)
    quiet = logging.getLogger("nbconvert.quiet")
    exporter = HTMLExporter(template_name="basic", filters={"markdown2html": markdown}, log=quiet)
    exporter.register_preprocessor(_Sanitizer, enabled=True)
    return exporter.from_notebook_node(notebook)[0]


def code_css() -> str:
    """Colours of highlighted code, for a light page and for a dark one."""
    light = HtmlFormatter(style="default").get_style_defs(".highlight")
    dark = HtmlFormatter(style="github-dark").get_style_defs(".highlight")
    return f"{light}\n@media (prefers-color-scheme: dark) {{\n{dark}\n}}"


def published_row(tier: str, folder: Path) -> dict:
    """One row of the index of published reports: as `row`, but that its state never changes with
    the code.

    A published report is of the commit that its manifest names, for good.
    """
    run = completed(tier, folder.name, folder)
    shown = {"tier": tier, "notebook": folder.name, "named": "@" in folder.name, "run": run}
    shown["place"] = f"published-{tier}/{folder.name}/"
    if run is None:
        return shown | {"state": "incomplete: no manifest"}
    # Figures and tables for LaTeX are not published.
    altered = [name for name in run.altered if name.endswith(".csv") or (folder / name).exists()]
    return shown | {
        "state": f"published, made at commit {run.manifest['commit']}",
        "altered": altered,
    }


def row(tier: str, notebook: str, folder: Path, known: dict[str, bool] | None = None) -> dict:
    """One row of the index of the user's own runs: tier, notebook, what its report says of its
    `state` in words.

    `named` says whether it is a named run; `run` is None when it is incomplete; `altered` are files
    that are not as it left them; `place` is the folder of its pages in the site. known: what
    `key.why` has found out about this tier so far.
    """
    run = completed(tier, notebook, folder)
    if run is None:
        state = "incomplete: no manifest" if folder.exists() else "not run"
    elif notebook.endswith(f"@{graph.BY_HAND}"):
        state = "run by hand"
    else:
        try:
            state = public(key.why(notebook, tier, known)) or "current"
        except Exception as error:  # its notebook is gone, say, or a file holds something else
            state = f"not judged: {public(str(error))}"
    shown = {
        "tier": tier,
        "notebook": notebook,
        "named": "@" in notebook,
        "state": state,
        "run": run,
    }
    shown["place"] = f"{tier}/{notebook}/"
    return shown | {"altered": run.altered if run else []}


def table(path: Path) -> str:
    """A csv file as a table of HTML, escaped, numbers shortened and right-aligned, words on the left."""
    number = lambda value: f"{value:,.1f}" if abs(value) >= 100 else f"{value:.4g}"  # noqa: E731
    with pd.option_context("display.max_colwidth", None):
        text = read_table(path).to_html(index=False, na_rep=DASH, float_format=number, border=0)
    return re.sub(rf"<td>(?=[-+]?[\d.]|{DASH}</td>)", '<td class="n">', text)


def _pages_of(shown: dict, folder: Path) -> Iterator[tuple[str, str | bytes | None]]:
    """The page of one run (as from `row`), copies of the files it links to, and its notebook.

    Turning a notebook into a page takes its time: None where the page in `folder`, the site's, is
    the newer one.
    """
    run: CompletedRun = shown["run"]
    place, title = shown["place"], f"{run.notebook}, tier {run.tier}"
    for name in (*run.files, "manifest.json"):
        yield place + name, (run.folder / name).read_bytes()
    index, copy, executed = (
        place + "index.html",
        place + "notebook.html",
        run.folder / f"{run.notebook}.ipynb",
    )
    yield index, page(index, "report", title, r=shown, shown=_shown(run))
    made_of = (executed, Path(__file__), *templates.FOLDER.iterdir())
    if not executed.exists():
        yield copy, page(copy, "plain", title, body="<p>No executed copy was kept.</p>")
    elif (folder / copy).exists() and all(
        getmtime(file) < getmtime(folder / copy) for file in made_of
    ):
        yield copy, None
    else:
        yield (
            copy,
            page(
                copy, "plain", title, css=code_css(), body=notebook_body(nbformat.read(executed, 4))
            ),
        )


SHEET = "figures.html"  # the page of all figures, in the site
ASK = "ask.html"  # the page that asks policies


def figures(tier: str) -> list[dict]:
    """The runs of a tier that left figures: `name`, `state` in words, and `figures` as `CompletedRun.figures`.

    A run of the user's stands in the place of the published one. What is not as its run left it is
    not shown, and `state` says how much that is.
    """
    folders = {}
    for place in (published_reports(), reports()):
        folders |= {
            path.name: path
            for path in (place / tier).glob("[0-9]*")
            if completed(tier, path.name, path)
        }
    shown = []
    for name, folder in sorted(folders.items()):
        run = completed(tier, name, folder)
        drawn = run.figures()
        altered = [
            file for file in run.altered if file.endswith(".png") and (folder / file).exists()
        ]
        if not drawn and not altered:
            continue
        state = "Yours" if folder.is_relative_to(reports() / tier) else "Published"
        state += f", made at commit {run.manifest.get('commit', DASH)}."
        if altered:
            state += f" Not as the run left them, so not shown: {', '.join(altered)}."
        shown.append({"name": name, "state": state, "figures": drawn})
    return shown


def build() -> Path:
    """Bring all pages under `reports/site` up to date, drop those of runs that are gone, and return the index."""
    folder = reports() / "site"
    names = {folder / SHEET, folder / ASK}  # which other commands make

    def put(name: str, content: str | bytes | None) -> None:
        names.add(folder / name)
        if content is not None:
            write(folder / name, content)

    published, own = [], []
    for tier, about in graph.TIERS.items():
        folders = [
            path for path in sorted((published_reports() / tier).glob("[0-9]*")) if path.is_dir()
        ]
        rows = [published_row(tier, path) for path in folders]
        published += [(tier, about, rows)] if rows else []
        here = {path.name for path in (reports() / tier).glob("[0-9]*") if path.is_dir()}
        known: dict[str, bool] = {}
        rows = [
            row(tier, name, reports() / tier / name, known)
            for name in sorted(here | set(graph.notebooks()))
        ]
        own += [(tier, about, rows)] if here else []
    every = [shown for *_, rows in (*published, *own) for shown in rows]
    for shown in every:
        try:
            for name, content in _pages_of(shown, folder) if shown["run"] else ():
                put(name, content)
        except FileNotFoundError:  # a run that started meanwhile has taken its manifest away
            shown.update(state="incomplete: being written", run=None)
    for name, content in missing_pages(every):
        put(name, content)
    compared = []
    for tier, _, _ in own:
        frame = compare.compare(tier, reports(), published_reports())
        if (frame.table != "").any():  # else no run of the user's is also published
            compared.append(tier)
            name = f"compare-{tier}.html"
            put(name, compare.page(name, tier, frame))
    whole = {"published": published, "own": own, "compared": compared, "story": story(every)}
    whole["ask"] = ASK if (folder / ASK).exists() else ""
    put("index.html", page("index.html", "index", "HelpSteer2 as notebooks", **whole))
    put(
        "benchmarks.html",
        page("benchmarks.html", "benchmarks", "Benchmarks", benchmarks=benchmarks(reports())),
    )
    put("findings.html", page("findings.html", "plain", "Findings", body=markdown(findings())))
    for path in folder.rglob("*"):
        if path.is_file() and path not in names:
            path.unlink()
    return folder / "index.html"


def findings() -> str:
    """The text of `docs/findings.md`, its links as they lead from `reports/site`."""
    file = root() / "docs" / "findings.md"
    if not file.is_file():
        return "No findings."
    text = re.sub(r"\]\((?!\.\./|https://|#)", "](../docs/", file.read_text())
    return text.replace("](../", "](../../")


def missing_pages(rows: list[dict]) -> Iterator[tuple[str, str]]:
    """The pages that links of notebooks lead to where a notebook has no run beside theirs.

    Each says so, and links to the notebook's runs elsewhere. rows: as from `row`, all of them.
    """
    places = [shown["place"] for shown in rows if shown["run"]]
    for beside in sorted({place.partition("/")[0] for place in places}):
        for name in graph.notebooks():
            if f"{beside}/{name}/" not in places:
                where = [place for place in places if place.split("/")[1] == name]
                page_name = f"{beside}/{name}/notebook.html"
                yield page_name, page(page_name, "missing", name, beside=beside, where=where)


def story(rows: list[dict]) -> list[dict]:
    """A scene for each notebook: its title and question, as it has them, and the figure that it names.

    The figure is that of a complete run in `rows`: of tier demo where there is one, and of smoke last; of
    one tier of the first in `rows`. A notebook names its figure as `figure` in its `hs2` metadata.
    """
    complete = [shown for shown in rows if shown["run"]]
    complete.sort(key=lambda shown: (shown["tier"] != "demo", shown["tier"] == "smoke"))
    scenes = []
    for name in graph.notebooks() if complete else []:
        title, *paragraphs = nbformat.read(paths.notebook(name), 4).cells[0].source.split("\n\n")
        question = next((text for text in paragraphs if text.startswith("**Question")), "")
        scene = {"notebook": name, "title": title.lstrip("# "), "text": markdown(question)}
        wanted = graph.about(name).get("figure", "")
        for shown in complete:
            left = {figure["name"]: figure for figure in shown["run"].figures()}
            if left and shown["run"].notebook == name:
                figure = wanted if wanted in left else next(iter(left))
                scene |= {key: left[figure][key] for key in ("image", "caption")}
                scene["tier"] = shown["tier"]
                scene["place"] = f"{shown['place']}index.html#{figure}"
                break
        scenes.append(scene)
    return scenes


def _shown(run: CompletedRun) -> list[dict]:
    """One section a figure or table: its name, caption, kinds of files, and what of them the page itself shows."""
    images = {figure["name"]: figure["image"] for figure in run.figures()}
    sections: dict[str, dict] = {}
    for file, about in run.manifest["artefacts"].items():
        name, _, kind = file.rpartition(".")
        if file not in run.files and not (kind == "png" and name in images):
            continue
        new = {"name": name, "caption": about["caption"], "kinds": [], "image": images.get(name)}
        section = sections.setdefault(name, new)
        if file in run.files:
            section["kinds"].append(kind)
        if kind == "csv":
            section["table"] = table(run.folder / file)
    return list(sections.values())


def benchmarks(folder: Path) -> list[dict]:
    """The results of `benchmarks/` under a reports folder, each with a figure: ratio (theirs over ours), or growth."""
    records = []
    for record in filter(None, map(read_json, sorted((folder / "benchmarks").glob("*.json")))):
        keys = (key for key in ("ratio", "growth") if isinstance(record.get(key), int | float))
        figures = [f"{key} {record[key]:.3g}" for key in keys]
        records.append({"figure": ", ".join(figures) or DASH} | record)
    return records


def results() -> str:
    """The text of reports/README.md, from the published manifests and the benchmarks' results in
    `reports/`.

    Its runs are the complete ones, named ones after their notebook's own. A link leads to the
    executed notebook, else to the folder. Of tier demo's named ones no executed notebook is
    published: they are left out.
    """
    place = root() / "reports" / "published"
    folders = [folder for tier in graph.TIERS for folder in sorted((place / tier).glob("[0-9]*"))]
    kept = [folder for folder in folders if paths.notebook(folder.name).is_file()]
    kept = [folder for folder in kept if folder.parent.name != "demo" or "@" not in folder.name]
    runs = filter(None, [completed(folder.parent.name, folder.name, folder) for folder in kept])
    ran = []
    for run in sorted(runs, key=lambda run: paths.notebook(run.notebook)):  # of one, by tier
        copy = run.folder / f"{run.notebook}.ipynb"
        link = copy if copy.exists() else run.folder
        ran.append((link.relative_to(root() / "reports").as_posix(), run))
    return render("readme.txt", runs=ran, benchmarks=benchmarks(root() / "reports"))


def main(arguments: list[str] | None = None) -> None:
    """Command line: `make reports`, `make figures`."""
    about = __doc__.partition("\n\n")[0]
    parser = argparse.ArgumentParser(prog="make reports", description=about)
    sheet = f"only put all figures of a tier on one page, {SHEET}"
    parser.add_argument("--figures", metavar="TIER", choices=list(graph.TIERS), help=sheet)
    tier = parser.parse_args(arguments).figures
    if tier:
        runs = figures(tier)
        if not runs:
            parser.error(
                f"no run of tier {tier} has left a figure: hs2 run --tier {tier} makes them"
            )
        write(
            reports() / "site" / SHEET,
            page(SHEET, "figures", f"All figures, tier {tier}", runs=runs),
        )
        print(reports() / "site" / SHEET)
        return
    write(root() / "reports" / "README.md", results())
    print(build())


if __name__ == "__main__":
    main()
