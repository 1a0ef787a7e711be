"""The reports as a static site, and the results tables of README.md: `python -m hs2lib.report.site`.

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
from collections.abc import Iterable
from pathlib import Path
from xml.etree import ElementTree

import bleach
import latex2mathml.converter
import nbformat
from bleach.css_sanitizer import CSSSanitizer
from jinja2 import Environment, FileSystemLoader, pass_context
from nbconvert.exporters import HTMLExporter
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath
from pygments.formatters import HtmlFormatter

from hs2lib.paths import notebook as notebook_path
from hs2lib.paths import reports, root, sha256, write
from hs2lib.run import runner

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
        found = latex2mathml.converter.convert(known, display=display)
        for element in ElementTree.fromstring(found).iter():
            name = element.tag.removeprefix("{http://www.w3.org/1998/Math/MathML}")
            guessed = re.match(r"\\[A-Za-z]", element.text or "")
            short = len(element) != _PARTS.get(name, len(element))
            if name not in _MATH or guessed or short or "href" in element.attrib:
                raise ValueError(f"not plain MathML: {name}")
    except Exception:  # its dozen exceptions share no base class, and an IndexError of its parser means the same
        return f"<code>{html.escape(latex)}</code>"
    return found


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


_TAGS = set(
    "table caption thead tbody tfoot tr th td div span pre code b i em strong small p br hr h3 h4 ul li".split()  # noqa: SIM905
)

_ATTRIBUTES = {"*": ["class", "style"], "th": ["colspan", "rowspan", "scope"], "td": ["colspan", "rowspan"]}

_CSS = CSSSanitizer(
    allowed_css_properties=["white-space", "border-left", "padding", "margin", "max-width", "text-align", "font-weight"]
)


def clean(text: str) -> str:
    """HTML from an output with only harmless elements, attributes and styles left; the rest shows as text."""
    text = re.sub(r"<style\b.*?</style\s*>", "", text, flags=re.S | re.I)  # pandas and pygments put theirs in front
    return bleach.clean(text, tags=_TAGS, attributes=_ATTRIBUTES, css_sanitizer=_CSS)


def _safe_output(output: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """One output with only what a page may show."""
    if "data" not in output:
        return output
    data, output.metadata = output.data, nbformat.NotebookNode()
    if "application/vnd.jupyter.widget-view+json" in data:
        data = {"text/plain": "(a widget: interactive in a live notebook)"}
    kept = {kind: data[kind] for kind in ("text/plain", "text/markdown", "image/png") if kind in data}
    if "text/html" in data:
        kept["text/html"] = clean(data["text/html"])
    if "image/png" in kept:
        output.metadata["image/png"] = {"alt": "Figure; its caption follows."}
    output.data = nbformat.NotebookNode(kept)
    return output


def notebook_body(notebook: nbformat.NotebookNode) -> str:
    """The cells and outputs of an executed notebook as one safe piece of HTML, without head or style sheet."""
    for cell in notebook.cells:
        cell.pop("attachments", None)
        if cell.cell_type == "code":
            cell.outputs = [_safe_output(output) for output in cell.outputs]
    notebook.cells = [cell for cell in notebook.cells if cell.cell_type in ("code", "markdown")]
    notebook.metadata.pop("widgets", None)
    exporter = _Exporter(template_name="basic", log=logging.getLogger("nbconvert.quiet"))
    return exporter.from_notebook_node(notebook)[0]


def code_css() -> str:
    """Colours of highlighted code, for a light page and for a dark one."""
    light = HtmlFormatter(style="default").get_style_defs(".highlight")
    dark = HtmlFormatter(style="github-dark").get_style_defs(".highlight")
    return f"{light}\n@media (prefers-color-scheme: dark) {{\n{dark}\n}}"


_PAGES = Environment(loader=FileSystemLoader(Path(__file__).parent / "pages"), autoescape=True, trim_blocks=True)


def page(name: str, template: str, title: str, css: str = "", **values) -> str:
    """The page `name` (its path in the site) from a template; every value is escaped but `body`, which must be safe."""
    return _PAGES.get_template(f"{template}.html").render(title=title, up="../" * name.count("/"), css=css, **values)


MARKS = ("<!-- results: written by python -m hs2lib.report.site -->", "<!-- end of results -->")

README_TIERS = ("demo", "laptop")

SHOWN_ROWS = 500


def _json(path: Path) -> dict | None:
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def report(tier: str, notebook: str, folder: Path) -> dict:
    """What the `folder` of a run says: `state` in words, its manifest ({} when incomplete), files `altered` since."""
    found = {"tier": tier, "notebook": notebook, "folder": folder, "manifest": {}, "altered": []}
    manifest = _json(folder / "manifest.json")
    if manifest is None:
        return found | {"state": "incomplete: no manifest" if folder.exists() else "not run"}
    # Names come from a file: one that leads elsewhere is no artefact of this folder.
    files = {k: v for k, v in manifest.get("artefacts", {}).items() if Path(k).name == k and (folder / k).is_file()}
    altered = [
        k for k, v in manifest.get("artefacts", {}).items() if k not in files or sha256(folder / k) != v["sha256"]
    ]
    source = notebook_path(notebook)
    same = source.exists() and sha256(source) == manifest.get("source_sha256")
    state = "current source" if same else "older source"
    words = {"data": origin(manifest), "verdicts": verdicts(manifest)}
    return found | {"state": state, "manifest": manifest | {"artefacts": files}, "altered": altered} | words


def verdicts(manifest: dict) -> str:
    """Counts of verdicts over all tables compared with the paper, in words."""
    counts: dict[str, int] = {}
    for of_table in manifest.get("verdicts", {}).values():
        for verdict, number in of_table.items():
            counts[verdict] = counts.get(verdict, 0) + number
    return ", ".join(f"{number} {verdict}" for verdict, number in sorted(counts.items())) or "nothing compared"


def origin(manifest: dict) -> str:
    """Whether the data was generated or real, and which real data."""
    sources = manifest.get("sources", [])
    real = ", ".join(dict.fromkeys(s["name"].split(",")[0] for s in sources if not s["generated"]))
    made = "generated" if any(s["generated"] for s in sources) else ""
    return " and ".join(filter(None, (made, real and f"real: {real}"))) or "none"


_NUMBER = re.compile(r"[-+]?\d+(\.\d+)?(e[-+]?\d+)?")


def shorter(text: str) -> str:
    """A csv cell as a reader wants it: a dash for missing, fractions to four decimals (one from 100 on)."""
    if not _NUMBER.fullmatch(text) or re.fullmatch(r"[-+]?\d+", text) or 0 < abs(float(text)) < 1e-4:
        return text or "\u2013"
    value = float(text)
    return f"{value:,.4f}".rstrip("0").rstrip(".") if abs(value) < 100 else f"{value:,.1f}"


def table(path: Path) -> dict:
    """A csv file as `header`, `rows` of (shown, in full) and `numeric`, one a column; `more` counts rows left out."""
    header, *rows = list(csv.reader(io.StringIO(path.read_text()))) or [[]]
    numeric = [all(_NUMBER.fullmatch(x) for x in column if x) and any(column) for column in zip(*rows, strict=False)]
    shown = [[(shorter(text), text) for text in row] for row in rows[:SHOWN_ROWS]]
    return {"header": header, "rows": shown, "numeric": numeric, "more": max(0, len(rows) - SHOWN_ROWS)}


class Site:
    """The pages under `reports/site`; a page whose inputs have not changed is left as it is."""

    def __init__(self):
        self.folder = reports() / "site"
        self.before = _json(self.folder / ".built.json") or {}
        self.now: dict[str, str] = {}
        self.made = 0
        self.code = [sha256(file) for file in (Path(__file__), *sorted((Path(__file__).parent / "pages").iterdir()))]

    def page(self, name: str, inputs: object, render) -> None:
        """Write `name` with what `render()` gives, unless `inputs` (anything with a repr) are those it was made of."""
        self.now[name] = hashlib.sha256(f"{self.code}{inputs!r}".encode()).hexdigest()
        if self.before.get(name) != self.now[name] or not (self.folder / name).exists():
            write(self.folder / name, render())
            self.made += 1

    def report(self, r: dict) -> None:
        """The page of one run, its notebook, and copies of the files it links to; nothing for an incomplete run."""
        if not r["manifest"]:
            return
        place, folder, files = f"{r['tier']}/{r['notebook']}/", r["folder"], r["manifest"]["artefacts"]
        for name in (*files, "manifest.json"):
            self.page(place + name, sha256(folder / name), (folder / name).read_bytes)
        title = f"{r['notebook']}, tier {r['tier']}"
        stated = [r["manifest"], r["state"], r["altered"], [sha256(folder / name) for name in files]]
        name = place + "index.html"
        self.page(name, stated, lambda: page(name, "report", title, r=r, shown=_shown(folder, files)))
        executed, other = folder / f"{r['notebook']}.ipynb", place + "notebook.html"
        source = sha256(executed) if executed.exists() else ""
        self.page(other, source, lambda: self.notebook(other, title, executed))

    def notebook(self, name: str, title: str, executed: Path) -> str:
        """An executed notebook as a page."""

        if not executed.exists():
            return page(name, "plain", title, body="<p>No executed copy was kept.</p>")
        body = notebook_body(nbformat.read(executed, 4))
        return page(name, "plain", title, css=code_css(), body=body)

    def log(self) -> str:
        """The log of negative results as a page."""

        log = reports() / "LOG.md"
        text = log.read_text() if log.exists() else "Nothing logged."
        return page("log.html", "plain", "Negative results", body=markdown(text))

    def build(self) -> Path:
        """Bring all pages up to date, drop those of runs that are gone, and return the index."""
        tiers = []
        for tier, about in runner.TIERS.items():
            here = {p.name for p in (reports() / tier).glob("[0-9]*") if p.is_dir()}
            names = sorted(here | set(runner.notebooks())) if here else []
            rows = [report(tier, name, reports() / tier / name) for name in names]
            tiers += [(tier, about, rows)] if rows else []
            for r in rows:
                try:
                    self.report(r)
                except FileNotFoundError:  # a run started meanwhile has taken its manifest away
                    r.update(state="incomplete: being written", manifest={})
        measured = benchmarks(reports())
        log = reports() / "LOG.md"
        self.page("index.html", tiers, lambda: page("index.html", "index", "hs2 reports", tiers=tiers))
        self.page(
            "benchmarks.html",
            measured,
            lambda: page("benchmarks.html", "benchmarks", "Benchmarks", benchmarks=measured),
        )
        self.page("log.html", log.exists() and sha256(log), self.log)
        for path in self.folder.rglob("*"):
            if path.is_file() and path.relative_to(self.folder).as_posix() not in {*self.now, ".built.json"}:
                path.unlink()
        write(self.folder / ".built.json", json.dumps(self.now, indent=1) + "\n")
        return self.folder / "index.html"


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


def _figure(benchmark: dict) -> str:
    """A benchmark's result in words: its ratio (theirs over ours), its growth, or a dash."""
    figures = [
        f"{key} {benchmark[key]:.3g}" for key in ("ratio", "growth") if isinstance(benchmark.get(key), int | float)
    ]
    return ", ".join(figures) or "\u2013"


def benchmarks(folder: Path) -> list[dict]:
    """The results of `benchmarks/` under a reports folder, each with its figure in words."""
    found = [_json(path) for path in sorted((folder / "benchmarks").glob("*.json"))]
    return [b | {"figure": _figure(b)} for b in found if b]


def results() -> str:
    """The tables of README.md, from the manifests and the benchmarks' results in the checkout's `reports/`."""
    lines = [
        "| notebook | tier | reproduces | data | against the paper | commit | time |",
        "|---|---|---|---|---|---|---|",
    ]
    for name in runner.notebooks():
        title = nbformat.read(notebook_path(name), 4).cells[0].source
        about = re.search(r"^\| \*Reproduces\* \| (.*) \|$", title, re.M)
        for tier in README_TIERS:
            r = report(tier, name, root() / "reports" / tier / name)
            if m := r["manifest"]:
                link = f"[{name}](reports/{tier}/{name}/{name}.ipynb)"
                told = (about[1] if about else "", r["data"], r["verdicts"], m["commit"], f"{m['wall_s']:.0f} s")
                lines.append(f"| {link} | {tier} | {_cells(told)} |")
    lines = lines if len(lines) > 2 else ["No runs yet."]
    if measured := benchmarks(root() / "reports"):
        names = ("compared", "figure", "goal", "met", "device", "commit")
        lines += ["", f"| benchmark | {' | '.join(names)} |", "|---" * (len(names) + 1) + "|"]
        for b in measured:
            met = {True: "yes", False: "no", None: "\u2013"}[b.get("met")]
            lines.append(f"| {b['name']} | {_cells((b | {'met': met}).get(name, '') for name in names)} |")
    return "\n".join(lines)


def _cells(told: Iterable) -> str:
    """Texts as the cells of a row of Markdown."""
    return " | ".join(str(x).replace("|", "\\|").replace("<", "&lt;").replace("\n", " ") for x in told)


def readme(check: bool = False) -> bool:
    """Put the results table between its marks in README.md; True where that changes it. `check` leaves it as it is.

    Raises ValueError when the marks are not there once each.
    """
    path = root() / "README.md"
    text = path.read_text()
    if [text.count(mark) for mark in MARKS] != [1, 1]:
        raise ValueError(f"{path.name} needs the lines {MARKS[0]} and {MARKS[1]}, once each")
    head, rest = text.split(MARKS[0])
    new = f"{head}{MARKS[0]}\n{results()}\n{MARKS[1]}{rest.split(MARKS[1])[1]}"
    if new != text and not check:
        write(path, new)
    return new != text


def main(arguments: list[str] | None = None) -> int:
    """Command line: `python -m hs2lib.report.site [--check]`."""
    parser = argparse.ArgumentParser(prog="python -m hs2lib.report.site", description=__doc__.partition("\n\n")[0])
    parser.add_argument(
        "--check", action="store_true", help="only say whether README.md's table is up to date (exit 1)"
    )
    args = parser.parse_args(arguments)
    try:
        changed = readme(args.check)
    except (OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if args.check:
        print(
            "README.md: results table "
            + ("is out of date: run python -m hs2lib.report.site" if changed else "is up to date")
        )
        return int(changed)
    site = Site()
    index = site.build()
    print(f"{index}: {site.made} of {len(site.now)} files made, the others were up to date")
    return 0


if __name__ == "__main__":
    sys.exit(main())
