"""Tables 1 to 5 of the paper beside ours, put together from the reports alone: no data, no runs, no model.

    here()                                    # tiers that have a complete report
    frame = assemble("table-2", "laptop")     # one row a number: paper, ours, interval, verdict, reason
    figures("laptop")                         # every figure that runs left, with its caption

Paper: Tables 1 to 5. A number of ours stands here only if a complete run (one with a manifest) left it in its
`against-<table>.csv` and the file is as the run left it. It is judged by the rules of `report.Run.against_paper`, again
and against the numbers of today. What no run gave is a dash and says why. `hs2lib.report.tables` writes them out.
"""

import html as _html
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import NamedTuple

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from scipy import stats as scipy_stats

from hs2lib import paths
from hs2lib.paper import REFERENCES, TABLES, Table
from hs2lib.report import site
from hs2lib.report.report import DASH, escape_latex
from hs2lib.run import runner
from hs2lib.stats.bootstrap import Interval, percentiles, resample_counts

NOT_RUN = "not run at this tier"

NOTEBOOKS = {
    "table-1": ("03_annotator_agreement",),
    "table-2": ("01_dataset_statistics", "02_attribute_correlations"),
    "table-3": ("06_rewardbench_evaluation",),
    "table-4": ("13_aligned_model_evaluation",),
    "table-5": (),
}


@dataclass(frozen=True)
class Report:
    """One complete run: its folder and its manifest."""

    tier: str
    notebook: str
    folder: Path
    manifest: dict

    @property
    def generated(self) -> bool:
        """Whether anything in the run came from the embedded corpus."""
        return bool(self.manifest.get("generated"))

    @property
    def of_paper(self) -> bool:
        """Whether every row the run read is one the paper describes."""
        sources = self.manifest.get("sources", [])
        return bool(sources) and all(source.get("of_paper") for source in sources)

    def table(self, name: str) -> pd.DataFrame | None:
        """The csv `name` as the run left it; None where it left none. Raises ValueError where it was changed since."""
        artefact = self.manifest.get("artefacts", {}).get(name)
        if artefact is None or not (self.folder / name).is_file():
            return None
        if paths.sha256(self.folder / name) != artefact["sha256"]:
            raise ValueError(f"{self.folder / name}: not as the run left it; run notebook {self.notebook} again")
        return pd.read_csv(StringIO((self.folder / name).read_text()))

    def figures(self) -> list[dict]:
        """Figures (name, caption, pdf, png) that the run left and nobody changed."""
        artefacts = self.manifest.get("artefacts", {})
        whole = {n for n, a in artefacts.items() if _unchanged(self.folder / n, a["sha256"])}
        names = [n.removesuffix(".pdf") for n in artefacts if n.endswith(".pdf") and n in whole]
        pngs = {name: self.folder / f"{name}.png" if f"{name}.png" in whole else None for name in names}
        kept = [dict(name=name, caption=artefacts[f"{name}.pdf"]["caption"], png=pngs[name]) for name in names]
        return [found | {"pdf": self.folder / f"{found['name']}.pdf", "notebook": self.notebook} for found in kept]


def read(tier: str, notebook: str) -> Report | None:
    """The complete run of a notebook at a tier, or None: without a manifest a run is incomplete. Paper: silent."""
    folder = paths.reports() / tier / notebook
    try:
        manifest = json.loads((folder / "manifest.json").read_text())
    except FileNotFoundError:
        return None
    return Report(tier, notebook, folder, manifest)


def here() -> list[str]:
    """Tiers that have at least one complete report, in the order of `run.TIERS`. Paper: silent."""
    return [tier for tier in runner.TIERS if _manifests(tier)]


def judge(value: float, printed: float | None, tolerance: float, sources: list[dict]) -> str:
    """The verdict on one number, by the rules of `report.Run.against_paper` (a test holds the two together).

    Paper: silent. sources: as in a manifest. Only numbers from rows that the paper describes are judged.
    """
    if pd.isna(value):
        return NOT_RUN
    if not sources or not all(source["of_paper"] for source in sources):
        made = any(source["generated"] for source in sources)
        return "not judged: generated data" if made else "not judged: other data"
    if printed is None:
        return "paper prints none"
    return "match" if abs(value - printed) <= tolerance + 1e-12 else "differs"


def assemble(table: str, tier: str) -> pd.DataFrame:
    """Every number of a table of the paper with ours at `tier`, its verdict, and the reason where it is not judged.

    Paper: Tables 1 to 5. Columns: row, column, paper, ours, low, high, difference, verdict, reason, notebook. Where two
    notebooks give one number the first that has it counts, and the reason says so if the other disagrees. Raises
    KeyError for an unknown table, ValueError for a report that was changed after its run.
    """
    if table not in TABLES:
        raise KeyError(f"no table {table!r}; known: {', '.join(TABLES)}")
    known, found = TABLES[table], {}
    reports = {notebook: read(tier, notebook) for notebook in NOTEBOOKS[table]}
    for notebook, report in reports.items():
        left = report and report.table(f"against-{table}.csv")
        for r in [] if left is None else left.itertuples(index=False):
            row = dict(zip(left.columns, r, strict=True))
            if not pd.isna(row["ours"]):
                found.setdefault((row["row"], row["column"]), []).append((notebook, row))
    lines = []
    for (row, column), printed in known.values.items():
        given = found.get((row, column), [])
        notebook, mine = given[0] if given else ("", {})
        value, low, high = (mine.get(name, np.nan) for name in ("ours", "95 % low", "95 % high"))
        sources = reports[notebook].manifest.get("sources", []) if given else []
        verdict = judge(value, printed, known.tolerance[row, column], sources)
        reason = _why(table, row, column, verdict, reports, notebook)
        if any(abs(other["ours"] - value) > 1e-9 * max(1, abs(value)) for _, other in given[1:]):
            reason = f"{reason}; " * bool(reason) + "notebooks disagree: " + ", ".join(name for name, _ in given)
        printed = np.nan if printed is None else printed
        lines.append((row, column, printed, value, low, high, value - printed, verdict, reason, notebook))
    names = ["row", "column", "paper", "ours", "low", "high", "difference", "verdict", "reason", "notebook"]
    return pd.DataFrame(lines, columns=names)


def overview(tiers: list[str]) -> pd.DataFrame:
    """What is there to read: one row a complete report, with what it read and what became of the paper's numbers.

    Paper: silent. Columns: tier, notebook, data, verdicts, generated, commit, finished.
    """
    found = [read(tier, path.parent.name) for tier in tiers for path in _manifests(tier)]
    rows = [
        (r.tier, r.notebook, site.origin(r.manifest), site.verdicts(r.manifest), r.generated)
        for r in found  # the words are those of the site's own pages
    ]
    when = {name: [r.manifest.get(name, "") for r in found] for name in ("commit", "finished")}
    return pd.DataFrame(rows, columns=["tier", "notebook", "data", "verdicts", "generated"]).assign(**when)


def figures(tier: str) -> list[dict]:
    """Figures of every complete report of a tier, by notebook: notebook, name, caption, pdf, png. Paper: silent."""
    return [found for path in _manifests(tier) for found in read(tier, path.parent.name).figures()]


def _manifests(tier: str) -> list[Path]:
    return sorted((paths.reports() / tier).glob("[0-9]*/manifest.json"))


def _why(table: str, row: str, column: str, verdict: str, reports: dict, notebook: str) -> str:
    """Why a number is missing, or there but not judged."""
    if verdict in ("match", "differs", "paper prints none"):
        return ""
    if verdict != NOT_RUN:
        names = dict.fromkeys(source["name"] for source in reports[notebook].manifest["sources"])
        return f"notebook {notebook[:2]} ran on: {'; '.join(names)}"
    if table == "table-5":
        return "input of the regression: needs the answers of these ten models and both judges"
    if table == "table-1" and column == "initial":
        return "the first annotations were never released"
    if table == "table-3" and "w. HelpSteer" not in row and "Llama 3 70B w." not in row:
        return "another group's model: not trained here"
    if table == "table-4" and row in REFERENCES:
        return "another group's model: needs its answers and a judge"
    ran = [name for name, report in reports.items() if report]
    if not ran:
        return f"not run: notebook {' or '.join(name[:2] for name in reports)}"
    if table == "table-2" and column.endswith(" HS"):
        return "needs HelpSteer, from the Hub"
    return {
        "table-3": "needs this model, trained as in the paper, and the whole RewardBench",
        "table-4": "needs this model, trained as in the paper, and a judge for all but TruthfulQA",
    }.get(table, f"the data that notebook {ran[0][:2]} read are not the paper's and have no such number")


def _unchanged(file: Path, digest: str) -> bool:
    return file.is_file() and paths.sha256(file) == digest


# verdict -> mark in LaTeX, mark in HTML, meaning
MARKS = {
    "match": ("$^{=}$", "=", "within the tolerance"),
    "differs": (r"$^{\neq}$", "\u2260", "outside the tolerance"),
    "not judged: generated data": (r"$^{\circ}$", "\u00b0", "generated data, which say nothing about the paper's"),
    "not judged: other data": (r"$^{\star}$", "\u22c6", "other rows than the paper's, so not judged"),
}


class Line(NamedTuple):
    """One line of a table: the paper's row, whose numbers (`paper` or a tier), and (text, verdict, reason) a column."""

    row: str
    whose: str
    cells: list[tuple[str, str, str]]


def digits(table: str, row: str, column: str) -> int:
    """Decimals that the paper prints in a cell. Paper: Tables 1 to 5."""
    if table == "table-2":
        return 1 if row.startswith("characters") and not column.startswith("R ") else 4
    if table == "table-4":
        return {"TruthfulQA MC2": 4, "characters": 1}.get(column, 1 if column.startswith("Arena") else 2)
    return {"table-1": 3, "table-3": 1}.get(table, 0 if column == "Arena Elo" else 2)


def lines(table: str, frames: dict[str, pd.DataFrame], *, every: bool = False) -> Iterator[Line]:
    """The lines of a table, in order: the paper's, then one a tier that has any number of that row. Paper: silent.

    frames: `assembly.assemble` by tier. every: also lines that are nothing but dashes. Raises KeyError as there.
    """
    known = TABLES[table]
    by_tier = {tier: {(r.row, r.column): r for r in frame.itertuples()} for tier, frame in frames.items()}

    def text(value, row, column):
        return DASH if pd.isna(value) else f"{value:.{digits(table, row, column)}f}"

    for row in known.rows:
        of_paper = [(text(known.values[row, c] if known.values[row, c] is not None else None, row, c), "", "")
                    for c in known.columns]  # fmt: skip
        yield Line(row, "paper", of_paper)
        for tier, cells in by_tier.items():
            ours = [cells[row, column] for column in known.columns]
            if every or any(r.verdict != NOT_RUN for r in ours):
                yield Line(row, tier, [(text(r.ours, row, r.column), r.verdict, r.reason) for r in ours])


def notes(frames: dict[str, pd.DataFrame]) -> list[tuple[str, str]]:
    """(verdict, words) of what has to be said below a table: the marks in use, then why numbers are missing, by tier.

    Paper: silent. The verdict is "" for a sentence about missing numbers.
    """
    used = {verdict for frame in frames.values() for verdict in frame.verdict}
    found = [(verdict, MARKS[verdict][2]) for verdict in MARKS if verdict in used]
    for tier, frame in frames.items():
        printed = frame[frame.paper.notna()]
        missing = printed[printed.verdict == NOT_RUN].reason.value_counts(sort=False)
        why = "; ".join(f"{number} {reason}" for reason, number in missing.items())
        found += (
            [("", f"{tier}: {missing.sum()} of {len(printed)} numbers are {NOT_RUN} ({why}).")] if len(missing) else []
        )
    return found


def latex(table: str, frames: dict[str, pd.DataFrame]) -> str:
    """One table environment, for a document that loads booktabs and graphicx (wide tables are scaled to the line).

    Paper: Tables 1 to 5. frames: `assembly.assemble` by tier. Text is escaped, dashes and marks are LaTeX's.
    """
    known, body, before = TABLES[table], [], ""
    for line in lines(table, frames):
        cells = [text.replace(DASH, "--").replace("-", "$-$", text != DASH and text.startswith("-"))
                 + MARKS.get(verdict, ("",))[0] for text, verdict, _ in line.cells]  # fmt: skip
        label = "" if line.row == before else _tex(line.row)
        body.append(" & ".join([label, _tex(line.whose), *cells]) + r" \\")
        before = line.row
    head = " & ".join(["", "", *map(_tex, known.columns)]) + r" \\"
    tabular = [rf"\begin{{tabular}}{{@{{}}ll{'r' * len(known.columns)}@{{}}}}", r"\toprule", head, r"\midrule", *body]
    tabular += [r"\bottomrule", r"\end{tabular}"]
    if len(known.columns) > 4:
        tabular = [r"\resizebox{\linewidth}{!}{%", *tabular[:-1], tabular[-1] + "}"]
    below = [f"{MARKS[v][0]} {_tex(words)}." if v else _tex(words) for v, words in notes(frames)]
    foot = [r"\par\smallskip", r"\begin{minipage}{\linewidth}\footnotesize", *below, r"\end{minipage}"] if below else []
    top = [
        r"\begin{table}[tbp]",
        r"\centering",
        rf"\caption{{{_tex(caption(known))}}}",
        rf"\label{{tab:assembled-{table}}}",
    ]
    return "\n".join([*top, *tabular, *foot, r"\end{table}", ""])


def html(table: str, frames: dict[str, pd.DataFrame]) -> str:
    """The same for reading, with every dash; verdicts and reasons are tooltips. Escaped. Paper: Tables 1 to 5."""
    known, out, rows, before = TABLES[table], _html.escape, [], ""
    for line in lines(table, frames, every=True):
        cells = "".join(
            f'<td class="n {out(verdict.split(":")[0].replace(" ", "-"))}" title="{out(": ".join(filter(None, why)))}">'
            f"{out(text)}{MARKS.get(verdict, ('', ''))[1]}</td>"
            for text, verdict, reason in line.cells
            for why in [(verdict, reason)]
        )
        label = "" if line.row == before else out(line.row)
        rows.append(f"<tr><th>{label}</th><td>{out(line.whose)}</td>{cells}</tr>")
        before = line.row
    head = "".join(f"<th>{out(name)}</th>" for name in ("", "", *known.columns))
    below = "".join(f"<li>{MARKS[v][1] if v else ''} {out(words)}</li>" for v, words in notes(frames))
    body = "\n".join(rows)
    return f"<table>\n<caption>{out(caption(known))}</caption>\n<tr>{head}</tr>\n{body}\n</table>\n<ul>{below}</ul>\n"


def csv(frames: dict[str, pd.DataFrame]) -> str:
    """All numbers of a table in full, one row a number and tier. Paper: silent."""
    whole = pd.concat([frame.assign(tier=tier) for tier, frame in frames.items()], ignore_index=True)
    return whole.to_csv(index=False, float_format="%.10g", lineterminator="\n")


def save(run, table: str, frames: dict[str, pd.DataFrame]) -> str:
    """Write `<table>.tex`, `.csv` and `.html` into the report of a run, as its artefacts, and return the HTML table.

    Paper: silent. run: `report.Run`. Its manifest gets the counts of verdicts at its own tier.
    """
    words = run.caption(caption(TABLES[table]))
    shown = html(table, frames)
    place = f"{run.tier}/{run.notebook}/{table}.html"
    whole = site.page(place, "plain", TABLES[table].title, body=f'<div class="scroll">{shown}</div>')
    for kind, content in (("tex", latex(table, frames)), ("csv", csv(frames)), ("html", whole)):
        run.keep(f"{table}.{kind}", content, words)
    if run.tier in frames:
        run.verdicts[table] = frames[run.tier].verdict.value_counts().to_dict()
    return shown


def caption(known: Table) -> str:
    """What a table is, and where the paper has it. Paper: silent."""
    return f"{known.title} ({known.source}; {known.unit}): the paper's numbers, and ours by tier."


def document(tables: list[str], figures: list[dict] = (), folder: Path | str = ".") -> str:
    """A whole LaTeX document around tables and figures (`assembly.figures`), which it includes by paths from `folder`.

    Paper: silent. Needs the packages booktabs, graphicx and geometry only. Captions come from manifests: escaped.
    """
    packages = [r"\usepackage{booktabs}", r"\usepackage{graphicx}", r"\usepackage[margin=2.2cm]{geometry}"]
    head = [r"\documentclass{article}", r"\usepackage[T1]{fontenc}", r"\usepackage[utf8]{inputenc}", *packages]
    parts = [line for table in tables for line in (table, r"\clearpage")]
    for found in figures:
        path = os.path.relpath(found["pdf"], folder).replace(os.sep, "/")
        parts += [r"\begin{figure}[tbp]", r"\centering", rf"\includegraphics[width=.9\linewidth]{{{path}}}"]
        parts += [rf"\caption{{{_tex(found['caption'])}}}", r"\end{figure}", r"\clearpage"]
    return "\n".join([*head, r"\begin{document}", *parts, r"\end{document}", ""])


def save_document(run, assembled: dict[str, dict[str, pd.DataFrame]], figures: list[dict]) -> str:
    """Write `paper.tex`, all tables and figures, into the report of a run and return it. Paper: silent.

    run: `report.Run`. assembled: frames by tier, by table. It compiles where it lies, with the reports beside it.
    """
    whole = document([latex(table, frames) for table, frames in assembled.items()], figures, run.folder)
    run.keep("paper.tex", whole, run.caption("Tables 1 to 5 and all figures as one document."))
    return whole


# What pdflatex cannot set by itself, and captions of notebooks hold.
_SYMBOLS = {
    "\u2013": "--",
    "\u2014": "---",
    "\u2212": "$-$",
    "\u00d7": r"$\times$",
    "\u00b1": r"$\pm$",
    "\u00b2": "$^2$",
}

_SYMBOLS |= {"\u2265": r"$\geq$", "\u2264": r"$\leq$", "\u2260": r"$\neq$", "\u2026": r"\dots{}", "\u2192": r"$\to$"}

_SYMBOLS |= {
    "\u03b1": r"$\alpha$",
    "\u03b2": r"$\beta$",
    "\u03ba": r"$\kappa$",
    "\u03b3": r"$\gamma$",
    "\u03c0": r"$\pi$",
}


def _tex(text: str) -> str:
    """Escaped, and without characters that pdflatex has no glyph for: what `_SYMBOLS` does not know becomes a `?`."""
    known = "".join(_SYMBOLS.get(c, c) for c in escape_latex(text))
    return known.encode("latin-1", "replace").decode("latin-1")


TABLE_5 = TABLES["table-5"]

OLD, NEW, ELO = TABLE_5.columns


@dataclass(frozen=True)
class Regression:
    """Least squares of Elo on a judge's MT-Bench score over n models; low and high bound R squared (Fisher, 95 %)."""

    slope: float
    intercept: float
    r: float
    r2: float
    low: float
    high: float
    n: int


def columns(table: Table = TABLE_5) -> pd.DataFrame:
    """The table as a frame, one row a model, columns as in the paper. Paper: Table 5."""
    return pd.DataFrame(
        [[table.values[row, c] for c in table.columns] for row in table.rows], table.rows, table.columns
    )


def fit(score: np.ndarray, elo: np.ndarray, level: float = 0.95) -> Regression:
    """Elo = slope score + intercept by least squares, with R squared and its interval by Fisher's transformation.

    Paper: appendix H. score, elo [n]. The interval of R is tanh(artanh R +- z / sqrt(n - 3)); that of R squared is its
    image, from 0 where the interval of R holds 0. Raises ValueError for fewer than four models, shapes that do not fit
    or a column without spread. Checked against scipy.stats.linregress and against .819 and .703.
    """
    score, elo = np.asarray(score, dtype=float), np.asarray(elo, dtype=float)
    if score.shape != elo.shape or score.ndim != 1 or len(score) < 4:
        raise ValueError(f"at least four models with a score and an Elo each are needed: {score.shape}, {elo.shape}")
    x, y = score - score.mean(), elo - elo.mean()
    if not (x @ x and y @ y):
        raise ValueError("all scores, or all Elos, are one and the same: there is no line through them")
    slope, r = x @ y / (x @ x), x @ y / np.sqrt(x @ x * (y @ y))
    half = scipy_stats.norm.ppf((1 + level) / 2) / np.sqrt(len(x) - 3)
    with np.errstate(divide="ignore"):
        low, high = np.tanh(np.arctanh(r) - half), np.tanh(np.arctanh(r) + half)
    bounds = (0.0, max(low**2, high**2)) if low < 0 < high else tuple(sorted((low**2, high**2)))
    intercept = elo.mean() - slope * score.mean()
    return Regression(*map(float, (slope, intercept, r, r * r, *bounds)), len(x))


def regression(table: Table = TABLE_5) -> dict[str, Regression]:
    """The fit for each of the two judges. Paper: appendix H (.703 for GPT-4, .819 for GPT-4-0125-Preview)."""
    frame = columns(table)
    return {judge: fit(frame[judge].to_numpy(), frame[ELO].to_numpy()) for judge in (OLD, NEW)}


def bootstrap(table: Table = TABLE_5, *, n_boot: int = 10_000, seed: int = 0) -> dict[str, Interval]:
    """Percentile intervals, models resampled: R squared by judge, `difference` (new less old), and `lower scores`.

    Paper: silent. Both judges see the same resamples, so the difference is a paired one. `lower scores` is the mean of
    the old judge's score less the new one's (paper: .8). A resample in which all models are one and the same has no R
    squared and is left out (one in 10^9 of ten models).
    """
    frame = columns(table)
    X = frame.to_numpy() - frame.to_numpy().mean(axis=0)  # centred, or sums of squares of Elos would lose digits
    shift = (frame[OLD] - frame[NEW]).to_numpy()

    def values(counts: np.ndarray) -> np.ndarray:
        n = counts.sum(axis=1, keepdims=True)
        mean = counts @ X / n
        cross = np.einsum("bi,ij,ik->bjk", counts, X, X) / n[:, :, None] - mean[:, :, None] * mean[:, None, :]
        with np.errstate(invalid="ignore", divide="ignore"):
            r2 = cross[:, :2, 2] ** 2 / (np.stack([cross[:, 0, 0], cross[:, 1, 1]], axis=1) * cross[:, 2, 2, None])
        return np.column_stack([r2, r2[:, 1] - r2[:, 0], counts @ shift / n[:, 0]])

    estimate = values(np.ones((1, len(X))))[0]
    draws = (values(counts) for counts in resample_counts(len(X), n_boot, seed))
    found = percentiles(estimate, draws, len(X), n_boot, 0.95)
    return {name: found.at(k) for k, name in enumerate((OLD, NEW, "difference", "lower scores"))}


def williams(table: Table = TABLE_5) -> tuple[float, float]:
    """Williams' t for two correlations that share a variable (n - 3 degrees of freedom), and its two-sided p.

    Paper: silent. Is the new judge's R with Elo larger than the old one's, given how the two judges agree? Formula as
    in Steiger (1980), equation 7. By hand: equal correlations have t = 0 and p = 1.
    """
    r = columns(table).corr().to_numpy()
    r_new, r_old, r_judges, n = r[1, 2], r[0, 2], r[0, 1], len(table.rows)
    determinant = 1 - r_new**2 - r_old**2 - r_judges**2 + 2 * r_new * r_old * r_judges
    mean = (r_new + r_old) / 2
    below = 2 * (n - 1) / (n - 3) * determinant + mean**2 * (1 - r_judges) ** 3
    t = (r_new - r_old) * np.sqrt((n - 1) * (1 + r_judges) / below)
    return float(t), float(2 * scipy_stats.t.sf(abs(t), n - 3))


def summary(table: Table = TABLE_5, *, n_boot: int = 10_000, seed: int = 0) -> pd.DataFrame:
    """What the regression says, as a table: quantity, value, and both intervals. Paper: appendix H; intervals ours."""
    fits, intervals = regression(table), bootstrap(table, n_boot=n_boot, seed=seed)
    rows = [(f"R squared, {j}", f.r2, f.low, f.high, *map(float, intervals[j][1:])) for j, f in fits.items()]
    rows += [
        (name, float(intervals[key][0]), np.nan, np.nan, *map(float, intervals[key][1:]))
        for name, key in (("R squared, new less old", "difference"), ("mean score, old less new", "lower scores"))
    ]
    names = ["quantity", "value", "Fisher low", "Fisher high", "bootstrap low", "bootstrap high"]
    return pd.DataFrame(rows, columns=names)


def figure(table: Table = TABLE_5) -> plt.Figure:
    """Elo against MT-Bench under each judge, the line and a 95 % band for its mean. Paper: Table 5; the figure is ours.

    Models are numbered in the order of the table, which is that of their Elo.
    """
    frame, fits = columns(table), regression(table)
    fig, axes = plt.subplots(1, 2, figsize=(8, 3.6), sharey=True)
    for ax, (judge, found), colour in zip(axes, fits.items(), ("#d55e00", "#0072b2"), strict=True):
        x, y = frame[judge].to_numpy(), frame[ELO].to_numpy()
        at = np.linspace(x.min() - 0.2, x.max() + 0.2, 60)
        line, rest = found.slope * at + found.intercept, y - found.slope * x - found.intercept
        spread = np.sqrt(rest @ rest / (found.n - 2) * (1 / found.n + (at - x.mean()) ** 2 / np.var(x) / found.n))
        band = scipy_stats.t.ppf(0.975, found.n - 2) * spread
        ax.fill_between(at, line - band, line + band, color=colour, alpha=0.15, lw=0)
        ax.plot(at, line, color=colour)
        ax.plot(x, y, "o", color=colour)
        for number, (xi, yi) in enumerate(zip(x, y, strict=True), 1):
            beside = (-9, 3) if number % 2 else (6, -4)  # neighbours in Elo lie close together
            ax.annotate(str(number), (xi, yi), xytext=beside, textcoords="offset points", fontsize=8)
        low, high = f"{found.low:.2f}", f"{found.high:.2f}"
        ax.set(xlabel=f"MT-Bench, {judge}", title=f"R² = {found.r2:.3f} [{low}, {high}]")
    axes[0].set_ylabel("Chatbot Arena Elo")
    key = "\n".join(f"{number}  {name.split(' (')[0]}" for number, name in enumerate(frame.index, 1))
    axes[1].text(1.03, 1, key, transform=axes[1].transAxes, va="top", fontsize=8, linespacing=1.6)
    fig.tight_layout()
    return fig
