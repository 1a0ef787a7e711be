"""The reports as a static site, and reports/README.md: `python -m hs2lib.report.site`.

Everything shown comes from files that runs left (manifest, csv, figures, executed notebook); nothing is run here. Texts
may come from data sets, so templates escape everything, and every page forbids scripts and requests.
"""

import argparse
import base64
import csv
import hashlib
import html
import io
import json
import logging
import re
import sys
from pathlib import Path
from xml.etree import ElementTree

import latex2mathml.converter
import nbformat
import yaml
from jinja2 import Environment, FileSystemLoader, pass_context, select_autoescape
from nbconvert.exporters import HTMLExporter
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath
from nbconvert.preprocessors.sanitize import SanitizeHTML
from pygments.formatters import HtmlFormatter
from traitlets import Any, List, Set

from hs2lib.paths import notebook as notebook_path
from hs2lib.paths import public, read_json, reports, root, sha256, write
from hs2lib.report.report import DASH, CompletedRun, completed, plain_cell
from hs2lib.run import graph

_MATH = """math mrow mi mn mo mtext mspace msup msub msubsup mfrac msqrt mroot mover munder munderover mtable mtr mtd
mstyle""".split()  # noqa: SIM905  (a list of 20 short words)

_PARTS = {"mfrac": 2, "msup": 2, "msub": 2, "mover": 2, "munder": 2, "mroot": 2, "msubsup": 3, "munderover": 3}


def mathml(latex: str, display: str = "inline") -> str:
    r"""LaTeX as MathML, `display` inline or block; what the converter cannot do stays as LaTeX source, in `code`.

    latex2mathml hands tags in its input through (\text{<b>}) and guesses at macros it does not know, so its result
    counts only when it is well-formed and has nothing but MathML elements, each with the parts it needs, and no link.
    """
    known = re.sub(r"\\(begin|end)\{aligned\}", r"\\\1{align*}", latex).replace(r"\operatorname*", r"\operatorname")
    try:
        converted = latex2mathml.converter.convert(known, display=display)
        for element in ElementTree.fromstring(converted).iter():
            name = element.tag.removeprefix("{http://www.w3.org/1998/Math/MathML}")
            guessed = re.match(r"\\[A-Za-z]", element.text or "")
            short = len(element) != _PARTS.get(name, len(element))
            if name not in _MATH or guessed or short or "href" in element.attrib:
                raise ValueError(f"not plain MathML: {name}")
    except Exception:  # its dozen exceptions share no base class, and an IndexError of its parser means the same
        return f"<code>{html.escape(latex)}</code>"
    return converted


class _Renderer(IPythonRenderer):
    """Markdown without HTML, pictures from elsewhere, diagrams that need a script, or links that run code."""

    def inline_math(self, body: str) -> str:
        return mathml(body)

    def block_math(self, body: str) -> str:
        return mathml(body, "block")

    def latex_environment(self, name: str, body: str) -> str:
        return mathml(f"\\begin{{{name}}}{body}\\end{{{name}}}", "block")

    def block_mermaidjs(self, code: str) -> str:
        return f"<pre>{html.escape(code)}</pre>"

    def image(self, text: str, url: str, title: str | None = None) -> str:
        return html.escape(text)


def markdown(source: str) -> str:
    """Markdown as safe HTML, formulas as MathML."""
    renderer = _Renderer(escape=True, allow_harmful_protocols=False, exclude_anchor_links=True)
    return MarkdownWithMath(renderer=renderer).render(source)


class _Exporter(HTMLExporter):
    @pass_context
    def markdown2html(self, context, source):
        return markdown(source)


_TAGS = """table caption thead tbody tfoot tr th td div span pre code b i em strong small p br hr h3 h4
ul li""".split()  # noqa: SIM905


class _Sanitizer(SanitizeHTML):
    """nbconvert's own cleaning of outputs; cells of Markdown keep their text, which `markdown` escapes."""

    safe_output_keys = Set({"text/plain", "text/markdown", "image/png"})
    sanitized_output_types = Set({"text/html"})
    tags = List(_TAGS)
    attributes = Any({"*": ["class", "style"], "th": ["colspan", "rowspan"], "td": ["colspan", "rowspan"]})
    styles = List(["white-space", "border-left", "padding", "margin", "max-width", "text-align", "font-weight"])

    def preprocess_cell(self, cell, resources, index):
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            output.metadata = nbformat.NotebookNode()
            if "application/vnd.jupyter.widget-view+json" in data:
                output.data = nbformat.NotebookNode({"text/plain": "(a widget: interactive in a live notebook)"})
            if "text/html" in data:  # pandas and pygments put their styles in front
                data["text/html"] = re.sub(r"<style\b.*?</style\s*>", "", data["text/html"], flags=re.S | re.I)
            if "image/png" in data:
                output.metadata["image/png"] = {"alt": "Figure; its caption follows."}
        return super().preprocess_cell(cell, resources, index) if cell.cell_type == "code" else (cell, resources)


def notebook_body(notebook: nbformat.NotebookNode) -> str:
    """The cells and outputs of an executed notebook as one safe piece of HTML, without head or style sheet."""
    notebook.cells = [cell for cell in notebook.cells if cell.cell_type in ("code", "markdown")]
    for cell in notebook.cells:
        cell.pop("attachments", None)
    notebook.metadata.pop("widgets", None)
    exporter = _Exporter(template_name="basic", log=logging.getLogger("nbconvert.quiet"))
    exporter.register_preprocessor(_Sanitizer, enabled=True)
    return exporter.from_notebook_node(notebook)[0]


def code_css() -> str:
    """Colours of highlighted code, for a light page and for a dark one."""
    light = HtmlFormatter(style="default").get_style_defs(".highlight")
    dark = HtmlFormatter(style="github-dark").get_style_defs(".highlight")
    return f"{light}\n@media (prefers-color-scheme: dark) {{\n{dark}\n}}"


_FOLDER = Path(__file__).parent / "pages"
_PAGES = Environment(loader=FileSystemLoader(_FOLDER), autoescape=select_autoescape(), trim_blocks=True)


def render(template: str, **values) -> str:
    """A template of the folder `pages`, filled in; in one named .html every value is escaped."""
    return _PAGES.get_template(template).render(**values)


def page(name: str, template: str, title: str, css: str = "", **values) -> str:
    """The page `name` (its path in the site) from a template; every value is escaped but `body`, which must be safe."""
    return render(f"{template}.html", title=title, up="../" * name.count("/"), css=css, **values)


COMMITTED_TIERS = ("demo", "laptop")

SHOWN_ROWS = 500


def row(tier: str, notebook: str, folder: Path, known: dict[str, str] | None = None) -> dict:
    """One row of the index: what a run's `folder` says, its `state` in words, and the run, None when incomplete.

    known: what `graph.why_stale` has said of this tier so far.
    """
    run = completed(tier, notebook, folder)
    if run is None:
        state = "incomplete: no manifest" if folder.exists() else "not run"
    elif notebook.endswith(f"@{graph.BY_HAND}"):
        state = "run by hand"
    else:
        try:
            why = graph.why_stale(notebook, tier, known, elsewhere=True)
        except (
            ValueError,
            KeyError,
            TypeError,
            AttributeError,
            ImportError,
            OSError,
        ) as error:  # its notebook is gone, say
            why = f"not judged, {public(str(error))}"
        state = f"stale: {why}" if why else "current"
    return {"tier": tier, "notebook": notebook, "state": state, "run": run}


_NUMBER = re.compile(r"[-+]?\d+(\.\d+)?(e[-+]?\d+)?")


def shorter(text: str) -> str:
    """A csv cell as a reader wants it: a dash for missing, fractions to four decimals (one from 100 on)."""
    if not _NUMBER.fullmatch(text) or re.fullmatch(r"[-+]?\d+", text) or 0 < abs(float(text)) < 1e-4:
        return text or DASH
    value = float(text)
    return f"{value:,.4f}".rstrip("0").rstrip(".") if abs(value) < 100 else f"{value:,.1f}"


def table(path: Path) -> dict:
    """A csv file as `header`, `rows` of (shown, in full) and `numeric`, one a column; `more` counts rows left out."""
    read = csv.reader(io.StringIO(path.read_text()))
    header, *rows = [list(map(plain_cell, row)) for row in read] or [[]]
    numeric = [all(_NUMBER.fullmatch(x) for x in column if x) and any(column) for column in zip(*rows, strict=False)]
    shown = [[(shorter(text), text) for text in row] for row in rows[:SHOWN_ROWS]]
    return {"header": header, "rows": shown, "numeric": numeric, "more": max(0, len(rows) - SHOWN_ROWS)}


class Site:
    """The pages under `reports/site`; a page whose inputs have not changed is left as it is."""

    def __init__(self):
        self.folder = reports() / "site"
        self.before = read_json(self.folder / ".built.json") or {}
        self.now: dict[str, str] = {}
        self.made = 0
        self.code = [sha256(file) for file in (Path(__file__), *sorted(_FOLDER.iterdir()))]

    def page(self, name: str, inputs: object, render) -> None:
        """Write `name` with what `render()` gives, unless `inputs` (anything with a repr) are those it was made of."""
        self.now[name] = hashlib.sha256(f"{self.code}{inputs!r}".encode()).hexdigest()
        if self.before.get(name) != self.now[name] or not (self.folder / name).exists():
            write(self.folder / name, render())
            self.made += 1

    def report(self, shown: dict) -> None:
        """The page of one run, its notebook, and copies of the files it links to. shown: as from `row`."""
        run: CompletedRun = shown["run"]
        place, files = f"{run.tier}/{run.notebook}/", run.files
        digests = {name: sha256(run.folder / name) for name in (*files, "manifest.json")}
        for name, digest in digests.items():
            self.page(place + name, digest, (run.folder / name).read_bytes)
        title, index, copy = f"{run.notebook}, tier {run.tier}", place + "index.html", place + "notebook.html"
        inputs = [run.manifest, shown["state"], digests]
        self.page(index, inputs, lambda: page(index, "report", title, r=shown, shown=_shown(run.folder, files)))
        executed = run.folder / f"{run.notebook}.ipynb"
        source = sha256(executed) if executed.exists() else ""

        def executed_copy() -> str:
            body = notebook_body(nbformat.read(executed, 4)) if source else "<p>No executed copy was kept.</p>"
            return page(copy, "plain", title, css=code_css(), body=body)

        self.page(copy, source, executed_copy)

    def build(self) -> Path:
        """Bring all pages up to date, drop those of runs that are gone, and return the index."""
        tiers = []
        for tier, about in graph.TIERS.items():
            here = {p.name for p in (reports() / tier).glob("[0-9]*") if p.is_dir()}
            names = sorted(here | set(graph.notebooks())) if here else []
            known: dict[str, str] = {}
            rows = [row(tier, name, reports() / tier / name, known) for name in names]
            tiers += [(tier, about, rows)] if rows else []
            for shown in rows:
                try:
                    if shown["run"]:
                        self.report(shown)
                except FileNotFoundError:  # a run that started meanwhile has taken its manifest away
                    shown.update(state="incomplete: being written", run=None)
        shown = {"tiers": tiers, "story": story([row["run"] for *_, rows in tiers for row in rows if row["run"]])}
        self.page("index.html", shown, lambda: page("index.html", "index", "HelpSteer2, reproduced", **shown))
        name, measured = "benchmarks.html", benchmarks(reports())
        self.page(name, measured, lambda: page(name, "benchmarks", "Benchmarks", benchmarks=measured))
        log = reports() / "LOG.md"
        text = log.read_text() if log.exists() else "Nothing logged."
        self.page("log.html", text, lambda: page("log.html", "plain", "Negative results", body=markdown(text)))
        for path in self.folder.rglob("*"):
            if path.is_file() and path.relative_to(self.folder).as_posix() not in {*self.now, ".built.json"}:
                path.unlink()
        write(self.folder / ".built.json", json.dumps(self.now, indent=1) + "\n")
        return self.folder / "index.html"


def story(runs: list[CompletedRun]) -> list[dict]:
    """The scenes of `pages/story.yaml`, each with a figure: of tier demo where there is one, and of smoke last."""
    scenes = yaml.safe_load((_FOLDER / "story.yaml").read_text()) if runs else []
    for run in sorted(runs, key=lambda run: (run.tier != "demo", run.tier == "smoke")):
        left = {figure["name"]: figure for figure in run.figures() if figure["png"]}
        for scene in scenes:
            if left and scene["notebook"] == run.notebook and "image" not in scene:
                name = next((name for name in scene["figures"] if name in left), next(iter(left)))
                image = base64.b64encode(left[name]["png"].read_bytes()).decode()
                place = f"{run.tier}/{run.notebook}/index.html#{name}"
                scene |= {"tier": run.tier, "caption": left[name]["caption"], "image": image, "place": place}
    return scenes


def _shown(folder: Path, files: dict[str, dict]) -> list[dict]:
    """One section a figure or table: its name, caption, kinds of files, and what of them the page itself shows."""
    sections: dict[str, dict] = {}
    for file, about in files.items():
        name, _, kind = file.rpartition(".")
        section = sections.setdefault(name, {"name": name, "caption": about["caption"], "kinds": []})
        section["kinds"].append(kind)
        if kind == "csv":
            section["table"] = table(folder / file)
        elif kind == "png":
            section["image"] = base64.b64encode((folder / file).read_bytes()).decode()
    return list(sections.values())


def benchmarks(folder: Path) -> list[dict]:
    """The results of `benchmarks/` under a reports folder, each with a figure: ratio (theirs over ours), or growth."""
    records = []
    for record in filter(None, map(read_json, sorted((folder / "benchmarks").glob("*.json")))):
        named = [(key, record.get(key)) for key in ("ratio", "growth")]
        figures = [f"{key} {value:.3g}" for key, value in named if isinstance(value, int | float)]
        records.append({"figure": ", ".join(figures) or DASH} | record)
    return records


def committed() -> list[CompletedRun]:
    """The complete runs in the checkout's `reports/`, named ones after their notebook's own, none made by hand."""
    folders = [folder for tier in COMMITTED_TIERS for folder in (root() / "reports" / tier).glob("[0-9]*")]
    folders = [
        folder for folder in folders if notebook_path(folder.name).is_file() and graph.BY_HAND not in folder.name
    ]
    order = lambda folder: (notebook_path(folder.name), COMMITTED_TIERS.index(folder.parent.name), folder.name)  # noqa: E731
    runs = [completed(folder.parent.name, folder.name, folder) for folder in sorted(folders, key=order)]
    return [run for run in runs if run]


def results() -> str:
    """The text of reports/README.md, from the manifests and the benchmarks' results in the checkout's `reports/`."""
    ran = []
    for run in committed():
        title = nbformat.read(notebook_path(run.notebook), 4).cells[0].source
        about = re.search(r"^\| \*Reproduces\* \| (.*) \|$", title, re.M)
        ran.append((about[1] if about else "", run))
    return render("readme.txt", runs=ran, benchmarks=benchmarks(root() / "reports"))


def main(arguments: list[str] | None = None) -> int:
    """Command line: `python -m hs2lib.report.site [--check]`."""
    parser = argparse.ArgumentParser(prog="python -m hs2lib.report.site", description=__doc__.partition("\n\n")[0])
    parser.add_argument("--check", action="store_true", help="only say if reports/README.md is up to date (exit 1)")
    args = parser.parse_args(arguments)
    try:
        text, tables = results(), root() / "reports" / "README.md"
        changed = not tables.is_file() or tables.read_text() != text
    except (OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if args.check:
        state = "is out of date: run python -m hs2lib.report.site" if changed else "is up to date"
        known: dict[str, dict] = {tier: {} for tier in COMMITTED_TIERS}
        states = [row(run.tier, run.notebook, run.folder, known[run.tier])["state"] for run in committed()]
        stale = len(states) - states.count("current")
        print(f"reports/README.md {state}; {stale} of its reports are stale (python -m hs2lib.run --verify says why)")
        return int(changed)
    if changed:
        write(tables, text)
    site = Site()
    index = site.build()
    print(f"{index}: {site.made} of {len(site.now)} files made, the others were up to date")
    return 0


if __name__ == "__main__":
    sys.exit(main())
