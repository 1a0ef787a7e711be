"""The reports as a static site, and reports/README.md: `make reports`.

Everything shown comes from files that runs left (manifest, csv, figures, executed notebook); nothing is run here. Texts
may come from data sets, so templates escape everything, and every page forbids scripts and requests.
"""

import argparse
import base64
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
from hs2lib.paths import public, read_json, read_yaml, reports, root, write
from hs2lib.report import templates
from hs2lib.report.report import DASH, CompletedRun, completed, read_table
from hs2lib.report.templates import page, render
from hs2lib.run import graph

_MATH = """math mrow mi mn mo mtext mspace msup msub msubsup mfrac msqrt mroot mover munder munderover mtable mtr mtd
mstyle""".split()  # noqa: SIM905  (a list of 20 short words)


def mathml(latex: str, display: str = "inline") -> str:
    r"""LaTeX as MathML, `display` inline or block; what the converter cannot do stays as LaTeX source, in `code`.

    latex2mathml hands tags in its input through (\text{<b>}) and guesses at macros it does not know, so its result
    counts only when it is well-formed and has nothing but MathML elements, and no link.
    """
    known = re.sub(r"\\(begin|end)\{aligned\}", r"\\\1{align*}", latex).replace(r"\operatorname*", r"\operatorname")
    try:
        converted = latex2mathml.converter.convert(known, display=display)
        for element in ElementTree.fromstring(converted).iter():
            name = element.tag.removeprefix("{http://www.w3.org/1998/Math/MathML}")
            guessed = re.match(r"\\[A-Za-z]", element.text or "")
            if name not in _MATH or guessed or "href" in element.attrib:
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

    def block_mermaidjs(self, code: str) -> str:
        return f"<pre>{html.escape(code)}</pre>"

    def image(self, text: str, url: str, title: str | None = None) -> str:
        return html.escape(text)


def markdown(source: str) -> str:
    """Markdown as safe HTML, formulas as MathML."""
    renderer = _Renderer(escape=True, allow_harmful_protocols=False, exclude_anchor_links=True)
    return MarkdownWithMath(renderer=renderer).render(source)


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
        return (cell, resources) if cell.cell_type == "markdown" else super().preprocess_cell(cell, resources, index)


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


COMMITTED_TIERS = ("demo", "laptop")


def row(tier: str, notebook: str, folder: Path, known: dict[str, graph.State] | None = None) -> dict:
    """One row of the index: what a run's `folder` says, its `state` in words, and the run, None when incomplete.

    known: what `graph.state` has said of this tier so far.
    """
    run = completed(tier, notebook, folder)
    if run is None:
        state = "incomplete: no manifest" if folder.exists() else "not run"
    elif notebook.endswith(f"@{graph.BY_HAND}"):
        state = "run by hand"
    else:
        try:
            judged = graph.state(notebook, tier, known)
            words = {graph.CURRENT: "current", graph.REDRAW: judged.why, graph.STALE: f"stale: {judged.why}"}
            state = words[judged.kind]
        except Exception as error:  # its notebook is gone, say, or a manifest holds something else
            state = f"stale: not judged, {public(str(error))}"
    return {"tier": tier, "notebook": notebook, "state": state, "run": run}


def table(path: Path) -> str:
    """A csv file as a table of HTML, escaped, numbers shortened."""
    number = lambda value: f"{value:,.1f}" if abs(value) >= 100 else f"{value:.4g}"  # noqa: E731
    with pd.option_context("display.max_colwidth", None):
        return read_table(path).to_html(index=False, na_rep=DASH, float_format=number, border=0, classes="n")


def _pages_of(shown: dict, folder: Path) -> Iterator[tuple[str, str | bytes | None]]:
    """The page of one run (as from `row`), copies of the files it links to, and its notebook.

    Turning a notebook into a page takes its time: None where the page in `folder`, the site's, is the newer one.
    """
    run: CompletedRun = shown["run"]
    place, title = f"{run.tier}/{run.notebook}/", f"{run.notebook}, tier {run.tier}"
    for name in (*run.files, "manifest.json"):
        yield place + name, (run.folder / name).read_bytes()
    index, copy, executed = place + "index.html", place + "notebook.html", run.folder / f"{run.notebook}.ipynb"
    yield index, page(index, "report", title, r=shown, shown=_shown(run.folder, run.files))
    made_of = (executed, Path(__file__), *templates.FOLDER.iterdir())
    if not executed.exists():
        yield copy, page(copy, "plain", title, body="<p>No executed copy was kept.</p>")
    elif (folder / copy).exists() and all(getmtime(file) < getmtime(folder / copy) for file in made_of):
        yield copy, None
    else:
        yield copy, page(copy, "plain", title, css=code_css(), body=notebook_body(nbformat.read(executed, 4)))


def build() -> Path:
    """Bring all pages under `reports/site` up to date, drop those of runs that are gone, and return the index."""
    folder, tiers, names = reports() / "site", [], set()

    def put(name: str, content: str | bytes | None) -> None:
        names.add(folder / name)
        if content is not None:
            write(folder / name, content)

    for tier, about in graph.TIERS.items():
        here = {p.name for p in (reports() / tier).glob("[0-9]*") if p.is_dir()}
        known: dict[str, graph.State] = {}
        rows = [row(tier, name, reports() / tier / name, known) for name in sorted(here | set(graph.notebooks()))]
        tiers += [(tier, about, rows)] if here else []
        for shown in (shown for shown in rows if shown["run"]):
            try:
                for name, content in _pages_of(shown, folder):
                    put(name, content)
            except FileNotFoundError:  # a run that started meanwhile has taken its manifest away
                shown.update(state="incomplete: being written", run=None)
    scenes = story([shown["run"] for *_, rows in tiers for shown in rows if shown["run"]])
    put("index.html", page("index.html", "index", "HelpSteer2, reproduced", tiers=tiers, story=scenes))
    put("benchmarks.html", page("benchmarks.html", "benchmarks", "Benchmarks", benchmarks=benchmarks(reports())))
    log = reports() / "LOG.md"
    text = log.read_text() if log.exists() else "Nothing logged."
    put("log.html", page("log.html", "plain", "Negative results", body=markdown(text)))
    for path in folder.rglob("*"):
        if path.is_file() and path not in names:
            path.unlink()
    return folder / "index.html"


def story(runs: list[CompletedRun]) -> list[dict]:
    """The scenes of `pages/story.yaml`, each with a figure: of tier demo where there is one, and of smoke last."""
    scenes = read_yaml(templates.__file__, "pages/story.yaml") if runs else []
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
        keys = (key for key in ("ratio", "growth") if isinstance(record.get(key), int | float))
        figures = [f"{key} {record[key]:.3g}" for key in keys]
        records.append({"figure": ", ".join(figures) or DASH} | record)
    return records


def results() -> str:
    """The text of reports/README.md, from the manifests and the benchmarks' results in the checkout's `reports/`.

    Its runs are the complete ones, named ones after their notebook's own, none made by hand. Of tier demo's named ones
    no executed notebook is committed: they are left out.
    """
    folders = [folder for tier in COMMITTED_TIERS for folder in sorted((root() / "reports" / tier).glob("[0-9]*"))]
    left_out = re.compile(rf"demo/.*@|@{graph.BY_HAND}$")
    kept = [f for f in folders if paths.notebook(f.name).is_file() and not left_out.search(f"{f.parent.name}/{f.name}")]
    runs, ran = [completed(folder.parent.name, folder.name, folder) for folder in kept], []
    for run in sorted(filter(None, runs), key=lambda run: paths.notebook(run.notebook)):  # of one, in order of tiers
        title = nbformat.read(paths.notebook(run.notebook), 4).cells[0].source
        about = re.search(r"^\| \*Reproduces\* \| (.*) \|$", title, re.M)
        ran.append((about[1] if about else "", run))
    return render("readme.txt", runs=ran, benchmarks=benchmarks(root() / "reports"))


def main(arguments: list[str] | None = None) -> None:
    """Command line: `make reports`."""
    about = __doc__.partition("\n\n")[0]
    argparse.ArgumentParser(prog="make reports", description=about).parse_args(arguments)
    write(root() / "reports" / "README.md", results())
    print(build())


if __name__ == "__main__":
    main()
