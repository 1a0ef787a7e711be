"""Tables 1 to 5 of the paper beside ours, put together from the reports alone.

    frame = assemble("table-2", "laptop", reports())  # one row a number: paper, ours, verdict
    latex("table-2", {"laptop": frame})  # the same as a table of LaTeX; `html` for reading
    figures("laptop", reports())  # every figure that runs left, with its caption

This module needs no data, starts no run and loads no model. Reports lie in two roots of one form,
`root/<tier>/<run>/`: the user's own (`paths.reports`) and the published ones
(`paths.published_reports`). A caller names one root, so no mean is taken over both.

Paper: Tables 1 to 5. A number of ours stands here only if a complete run (one with a manifest) left
it in its `against-<table>.csv` and the file is as the run left it. It is judged again
(`hs2lib.report.verdict`), against the numbers of today. A number that no run gave is a dash, with
the reason.
"""

import html as _html
import re
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats as scipy_stats

from hs2lib import paths
from hs2lib.paper import TABLES, Table
from hs2lib.report import templates, verdict
from hs2lib.report.report import (
    DASH,
    CompletedRun,
    Run,
    completed,
    csv_text,
    escape_latex,
    not_comparable,
)
from hs2lib.runs import graph
from hs2lib.stats.bootstrap import Interval, from_sums, inside, pair_sums

# Verdict -> its mark in LaTeX, its mark in HTML, its meaning.
MARKS: dict[str, list[str]] = verdict.WORDS["marks"]

# Columns of `against-<table>.csv` that a mean over seeds is taken of.
_NUMBERS = ("ours", "95 % low", "95 % high")

Cell = tuple[str, str]  # row, column


def assemble(table: str, tier: str, root: Path) -> pd.DataFrame:
    """Every number of a table of the paper with ours at `tier`, its verdict and the reason.

    Columns: row, column, paper, ours, low, high, difference, SD, notebook (the run), provenance,
    verdict, reason (why there is no verdict, or ""). A number is that of the first run that has it,
    named runs last, and the mean over its seeds. Where two notebooks give one number and disagree,
    the reason says so.

    Paper: Tables 1 to 5.

    Args:
        table: "table-1" to "table-5".
        tier: whose reports are read.
        root: folder of reports.

    Raises:
        KeyError: the table is unknown.
        ValueError: a report was changed after its run.
    """
    known = TABLES[table]
    notebooks = verdict.WORDS["notebooks"][table]
    runs, left_out = of_one_recipe(seeds_of(tier, notebooks, root), root)
    ours = _numbers_of_runs(table, runs)
    # A published model has a row only where a run measured it.
    our_rows = {row for row, _ in ours}
    released = {
        cell: None for cell in known.rules if cell[0] in our_rows and cell not in known.values
    }
    lines = []
    for cell, printed in (known.values | released).items():
        by_run = ours.get(cell, {"": [{}]})
        name, seeds = next(iter(by_run.items()))
        numbers = np.array([_means_of(line) for line in seeds], dtype=float)  # [seeds, 3]
        value, low, high = numbers.mean(axis=0)
        sd = numbers[:, 0].std(ddof=1) if len(seeds) > 1 else np.nan
        of_notebooks = [rows[0]["ours"] for run, rows in by_run.items() if run in notebooks]
        disagreement = ""
        if not np.allclose(of_notebooks, of_notebooks[:1], rtol=1e-9, atol=1e-9):
            disagreement = f"notebooks disagree: {', '.join(by_run)}"
        lines.append(
            {
                "row": cell[0],
                "column": cell[1],
                "paper": printed,
                "ours": value,
                "low": low,
                "high": high,
                "SD": sd,
                "notebook": name,
                "spread": verdict.of_seeds(sd, len(seeds)),
                "not comparable": max(line.get("why", "") for line in seeds),  # "" comes first
                "disagreement": disagreement,
                "provenance": _provenance(
                    name, [line["run"] for line in seeds if line], left_out.get(name, "")
                ),
            }
        )
    frame = pd.DataFrame(lines).astype({"paper": float})
    frame.insert(6, "difference", frame.ours - frame.paper)
    frame["verdict"] = verdict.judge(frame, known)
    reasons = []
    for line in frame.to_dict("records"):
        missing = _why(table, line["row"], line["column"], line["verdict"], line["notebook"], runs)
        reasons.append(joined(missing, line["disagreement"]))
    frame["reason"] = reasons
    return frame.drop(columns=["not comparable", "disagreement", "spread"])


def _numbers_of_runs(
    table: str, runs: dict[str, list[CompletedRun]]
) -> dict[Cell, dict[str, list[dict]]]:
    """Cell -> run -> of each seed its line of `against-<table>.csv`, where it has a number.

    A line has also `why`, the reason against a verdict, and `run`.
    """
    ours: dict[Cell, dict[str, list[dict]]] = {}
    for name, seeds in runs.items():
        for run in seeds:
            left = run.table(f"against-{table}.csv")
            if left is None:
                continue
            for line in left[left.ours.notna()].to_dict("records"):
                line["why"] = _against(line, run.manifest["sources"])
                line["run"] = run
                by_run = ours.setdefault((line["row"], line["column"]), {})
                by_run.setdefault(name, []).append(line)
    return ours


def _means_of(line: dict) -> list[float]:
    return [line.get(key, np.nan) for key in _NUMBERS]


def joined(*texts: str) -> str:
    """The texts that say something, with semicolons between them."""
    return "; ".join(text for text in texts if text)


def report_of(tier: str, notebook: str, root: Path) -> CompletedRun | None:
    """The complete run of a notebook in a root of reports; None without one.

    In the user's own root it is the run that this process reads, which may be a named one
    (`paths.run_name`).
    """
    return completed(tier, notebook, None if root == paths.reports() else root / tier / notebook)


def seeds_of(tier: str, notebooks: list[str], root: Path) -> dict[str, list[CompletedRun]]:
    """Complete runs of notebooks at a tier by name, each with all its seeds.

    The notebooks' own runs come first, then named ones. A run that `hs2lib.runs.graph.of_seed`
    names is a seed of another run here.

    Paper: silent.
    """
    names = list(notebooks)
    for notebook in notebooks:
        names += graph.reported(notebook, tier, root)
    runs: dict[str, list[CompletedRun]] = {}
    for name in names:
        if run := report_of(tier, name, root):
            runs.setdefault(graph.without_seed(name)[0], []).append(run)
    return runs


def of_one_recipe(
    runs: dict[str, list[CompletedRun]], root: Path
) -> tuple[dict[str, list[CompletedRun]], dict[str, str]]:
    """The seeds of each run that have the settings of its first seed, and what is left out.

    A mean over seeds of several recipes would be one of different things. The settings of all runs
    that a run reads count too.

    Paper: silent.

    Args:
        runs: as from `seeds_of`.
        root: folder of their reports.
    Returns: the runs, and by name the seeds that are left out with the settings that differ.
    """
    kept = {}
    left_out = {}
    for name, seeds in runs.items():
        of_first = _settings(seeds[0], root)
        kept[name] = seeds[:1]
        texts = []
        for run in seeds[1:]:
            settings = _settings(run, root)
            keys = sorted(of_first.keys() | settings.keys())
            differ = [key for key in keys if of_first.get(key) != settings.get(key)]
            if differ:
                texts.append(f"seed {_seed(run)} ({', '.join(differ[:3])})")
            else:
                kept[name].append(run)
        if texts:
            left_out[name] = f"left out, of other settings: {', '.join(texts)}"
    return kept, left_out


def _settings(run: CompletedRun, root: Path) -> dict[str, object]:
    """The settings of a run and of all runs that it reads, those named notebook.setting.

    A setting counts alike whether a cell or a recipe holds it, because that has changed.
    """
    values = run.manifest.get("parameters", {}) | run.manifest.get("recipe", {})
    settings = {key: value for key, value in values.items() if key not in ("seed", "recipe")}
    for upstream in run.manifest.get("upstream", {}):
        read = report_of(run.tier, upstream, root)
        if read is None:
            continue
        plain = graph.without_seed(upstream)[0]
        for key, value in _settings(read, root).items():
            settings[key if "." in key else f"{plain}.{key}"] = value
    return settings


def _seed(run: CompletedRun) -> str:
    """The seed of a run; a dash where it has none."""
    values = run.manifest.get("parameters", {}) | run.manifest.get("recipe", {})
    return str(values.get("seed", DASH))


def _provenance(name: str, seeds: list[CompletedRun], left_out: str = "") -> str:
    """A run and its seeds, in words, and which seeds are left out."""
    if not seeds:
        return ""
    return joined(f"{name}, seed {', '.join(map(_seed, seeds))}", left_out)


def _against(line: dict, sources: list[dict]) -> str:
    """Why a number of a report has no verdict; "" where it may have one."""
    of_paper = any(source["of_paper"] for source in sources)
    if "not comparable" not in line or not of_paper:  # whatever the csv says
        return not_comparable(sources)
    return "" if pd.isna(line["not comparable"]) else line["not comparable"]


def overview(tiers: list[str], root: Path) -> pd.DataFrame:
    """The complete reports, of named runs too: what each read, and the verdicts on its numbers.

    Columns: tier, notebook, data, verdicts, generated. Commits and times stand in manifests.

    Paper: silent.
    """
    names = ["tier", "notebook", "data", "verdicts", "generated"]
    rows = []
    for tier in tiers:
        for run in _completed_runs(tier, root):
            rows.append([getattr(run, name) for name in names])
    return pd.DataFrame(rows, columns=names)


def figures(tier: str, root: Path) -> list[dict]:
    """Figures of every notebook's own complete report: notebook, name, caption, pdf, png.

    Paper: silent.
    """
    drawn = []
    for run in _completed_runs(tier, root):
        if "@" not in run.notebook:
            drawn += run.figures()
    return drawn


def _completed_runs(tier: str, root: Path) -> list[CompletedRun]:
    """The complete reports of a tier, those of named runs and of further seeds too."""
    notebooks = sorted({folder.name.partition("@")[0] for folder in (root / tier).glob("[0-9]*")})
    return [run for seeds in seeds_of(tier, notebooks, root).values() for run in seeds]


# The small world's own Tables 3 and 4.


# What a notebook shows of `small_world`, so that it can be read without a scroll.
_NARROW = {
    "table-3": ("overall", "chat", "chat-hard", "safety", "reasoning"),
    "table-4": ("truth, greedy", "truth", "reward model's score", "win rate", "characters"),
}


def narrow(table: str, frame: pd.DataFrame) -> pd.DataFrame:
    """The columns of `small_world` that say most, without provenance."""
    kept = [column for column in frame if column.startswith(_NARROW[table])]
    return frame[["model", *kept]]


def highest(frame: pd.DataFrame) -> str:
    """Which model of a `narrow` table has the highest number of each measure of goodness.

    Those whose interval holds that number are named too: these intervals tell none of them apart.
    Paired differences may.
    """
    parts = []
    for measure in frame.columns[1:]:
        if measure not in (frame.columns[1], "truth, greedy", "reward model's score"):
            continue
        numbers = frame[measure].str.extract(r"^(-?[\d.]+)", expand=False).astype(float)
        if numbers.notna().sum() < 2:
            continue
        top = frame.loc[numbers.idxmax()]
        ends = frame[measure].str.extract(r", (-?[\d.]+)\]", expand=False).astype(float)
        is_near = (ends >= numbers.max()) & (frame.index != top.name)
        near = ", ".join(frame[is_near].model)
        beside = f", not told apart by these intervals from {near}" if near else ""
        parts.append(f"highest in {measure}: {top.model} ({top[measure]}){beside}")
    words = "; ".join(parts)
    if not words:
        return ""
    return f"{words[0].upper()}{words[1:]}. Paired differences may tell more apart."


def _why(
    table: str,
    row: str,
    column: str,
    called: str,
    notebook: str,
    runs: dict[str, list[CompletedRun]],
) -> str:
    """Why a number is missing or not judged; "" where it is judged.

    Args:
        table: of the number, with its row and column.
        row: name in the table.
        column: name in the table.
        called: the verdict on the number.
        notebook: the run that gave the number, "" where none did.
        runs: those that can have numbers of the table, as from `seeds_of`.
    """
    if called.startswith(verdict.NOT_COMPARABLE):
        names = dict.fromkeys(source["name"] for source in runs[notebook][0].manifest["sources"])
        return f"notebook {notebook[:2]} ran on: {'; '.join(names)}"
    if called != verdict.NOT_RUN:
        return ""
    number = {"table": table, "row": row, "column": column, "run": "yes" if runs else "no"}
    reason = next(each for each in verdict.WORDS["reasons"] if _fits(each["where"], number))
    notebooks = " or ".join(name[:2] for name in verdict.WORDS["notebooks"][table])
    return reason["why"].format(notebooks=notebooks, ran=next(iter(runs), "")[:2])


def _fits(patterns: dict[str, str], texts: dict[str, str]) -> bool:
    """Whether every pattern is found in the text of its name."""
    return all(re.search(pattern, texts[name]) for name, pattern in patterns.items())


# Tables as text


def lay_out(
    table: str, frames: dict[str, pd.DataFrame], *, every: bool = False
) -> list[pd.DataFrame]:
    """Three frames of one shape: the numbers as text, their verdicts, the reasons.

    Lines (row, whose, number) stand in order: the paper's row, then one a tier that has a number of
    it.

    Paper: Tables 1 to 5.

    Args:
        table: "table-1" to "table-5".
        frames: `assemble` by tier.
        every: also the lines that are nothing but dashes.

    Raises:
        KeyError: the table is unknown.
    """
    known = TABLES[table]
    rows = list(known.rows)
    for frame in frames.values():
        rows += list(frame.row)
    texts: dict[tuple[str, str, int], list[str]] = {}
    verdicts: dict[tuple[str, str, int], list[str]] = {}
    reasons: dict[tuple[str, str, int], list[str]] = {}
    for row in dict.fromkeys(rows):
        line = (row, "paper", 0)
        texts[line] = [
            _text(known, (row, column), known.values.get((row, column))) for column in known.columns
        ]
        verdicts[line] = [""] * len(known.columns)
        reasons[line] = [""] * len(known.columns)
        for number, (tier, frame) in enumerate(frames.items(), 1):
            ours = frame[frame.row == row]
            has_number = (ours.verdict != verdict.NOT_RUN).any()
            if ours.empty or not (every or has_number):
                continue
            line = (row, tier, number)
            texts[line] = [
                _text(known, (row, cell.column), cell.ours, cell.SD) for cell in ours.itertuples()
            ]
            verdicts[line] = list(ours.verdict)
            reasons[line] = [joined(cell.reason, cell.provenance) for cell in ours.itertuples()]
    index = pd.MultiIndex.from_tuples(texts)
    return [
        pd.DataFrame(list(lines.values()), index, known.columns)
        for lines in (texts, verdicts, reasons)
    ]


def _text(known: Table, cell: Cell, value: float | None, sd: float = np.nan) -> str:
    """A number, and ± its SD, with the digits that the paper prints; a dash without a number."""
    shown = []
    for number in (value, sd):
        if not pd.isna(number):
            shown.append(f"{number:.{known.rules[cell].digits}f}")
    return "±".join(shown) or DASH


def notes(table: str, frames: dict[str, pd.DataFrame]) -> list[tuple[str, str]]:
    """(verdict, words) for the foot of a table; the verdict is "" for a sentence.

    They explain the marks in use, say what a wrong model would be called, and count the missing
    numbers.

    Paper: silent.
    """
    used = {name for frame in frames.values() for name in frame.verdict}
    rows = [(name, MARKS[name][2]) for name in MARKS if name in used]
    if table in verdict.STAND_INS:
        called = verdict.false_matches(table).sum()
        words = ", ".join(f"{count} {name}" for name, count in called.items() if count)
        stand_in, others = verdict.STAND_INS[table]
        which = f"the numbers of {stand_in} in place of {len(others)} rows that it is not"
        rows.append(("", f"False matches: {which}: {words}."))
    for tier, frame in frames.items():
        printed = frame[frame.paper.notna()]
        missing = printed[printed.verdict == verdict.NOT_RUN].reason.value_counts(sort=False)
        if len(missing):
            why = "; ".join(f"{number} {reason}" for reason, number in missing.items())
            count = f"{missing.sum()} of {len(printed)} numbers are {verdict.NOT_RUN}"
            rows.append(("", f"{tier}: {count} ({why})."))
    return rows


def latex(table: str, frames: dict[str, pd.DataFrame]) -> str:
    """One table environment, for a document that loads booktabs and graphicx.

    Wide tables are scaled to the line. Text is escaped; dashes and marks are LaTeX's.

    Paper: Tables 1 to 5. frames: `assemble` by tier.
    """
    texts, verdicts, _ = lay_out(table, frames)
    marks = verdicts.map(lambda name: MARKS.get(name, ("",))[0])
    style = (texts.map(_tex_number) + marks).style.hide(level=2)
    style = style.format_index(_tex, axis="index", level=[0, 1]).format_index(_tex, axis="columns")
    column_format = f"@{{}}ll{'r' * texts.shape[1]}@{{}}"
    tabular = style.to_latex(hrules=True, multirow_align="naive", column_format=column_format)
    below = []
    for name, words in notes(table, frames):
        below.append(f"{MARKS[name][0]} {_tex(words)}." if name else _tex(words))
    filled = templates.render(
        "table.txt",
        table=table,
        caption=_tex(caption(TABLES[table])),
        tabular=tabular.rstrip("\n"),
        wide=texts.shape[1] > 4,
        below=below,
    )
    return filled + "\n"


def _tex_number(text: str) -> str:
    """A number with LaTeX's minus and plus-minus; a dash as LaTeX writes it."""
    if text == DASH:
        return "--"
    return text.replace("-", "$-$").replace("±", r"$\pm$")


def html(table: str, frames: dict[str, pd.DataFrame], *, every: bool = True) -> str:
    """The same for reading; verdicts and reasons are tooltips. Text is escaped.

    Paper: Tables 1 to 5. every: also the lines that are nothing but dashes.
    """
    texts, verdicts, reasons = lay_out(table, frames, every=every)
    marks = verdicts.map(lambda name: MARKS.get(name, ("", ""))[1])
    classes = "n " + verdicts.map(lambda name: name.split(":")[0].replace(" ", "-"))
    why = verdicts + reasons.map(lambda reason: f": {reason}" if reason else "")
    style = (texts + marks).style.hide(level=2).format(escape="html")
    style = style.format_index(escape="html", axis="index")
    style = style.format_index(escape="html", axis="columns")
    style = style.set_td_classes(classes)
    style = style.set_tooltips(why.map(_html.escape), as_title_attribute=True)
    shown = style.set_caption(_html.escape(caption(TABLES[table]))).to_html(table_uuid=table)
    below = []
    for name, words in notes(table, frames):
        mark = MARKS[name][1] if name else ""
        below.append(f"<li>{mark} {_html.escape(words)}</li>")
    return f"{shown}<ul>{''.join(below)}</ul>\n"


def save(run: Run, table: str, frames: dict[str, pd.DataFrame]) -> str:
    """Write `<table>.tex`, `.csv` and `.html` into the report of a run; returns the HTML table.

    The run's manifest gets the counts of verdicts at its own tier.

    Paper: silent.

    Args:
        run: whose artefacts the three files become.
        table: "table-1" to "table-5".
        frames: `assemble` by tier.
    """
    words = run.caption(caption(TABLES[table]))
    style = "overflow-x:auto;white-space:nowrap"
    shown = f'<div class="scroll" style="{style}">{html(table, frames)}</div>'
    place = f"{run.tier}/{run.notebook}/{table}.html"
    by_tier = [frame.assign(tier=tier) for tier, frame in frames.items()]
    page = templates.page(place, "plain", TABLES[table].title, body=shown)
    run.keep(f"{table}.tex", latex(table, frames), words)
    run.keep(f"{table}.csv", csv_text(pd.concat(by_tier, ignore_index=True)), words)
    run.keep(f"{table}.html", page, words)
    run.verdicts[table] = frames[run.tier].verdict.value_counts().to_dict()
    return shown


def caption(known: Table) -> str:
    """What a table is, and where the paper has it. Paper: silent."""
    whose = "the paper's numbers, and ours by tier (over seeds: mean ± SD)"
    return f"{known.title} ({known.source}; {known.unit}): {whose}."


# What pdflatex cannot set by itself, and captions of notebooks hold.
_SYMBOLS = {
    "\u2013": "--",
    "\u2014": "---",
    "\u2212": "$-$",
    "\u00d7": r"$\times$",
    "\u00b1": r"$\pm$",
    "\u00b2": "$^2$",
    "\u2265": r"$\geq$",
    "\u2264": r"$\leq$",
    "\u2260": r"$\neq$",
    "\u2026": r"\dots{}",
    "\u2192": r"$\to$",
    "α": r"$\alpha$",
    "β": r"$\beta$",
    "κ": r"$\kappa$",
    "γ": r"$\gamma$",
    "π": r"$\pi$",
}


def _tex(text: str) -> str:
    """Escaped text for pdflatex; a character that it has no glyph for becomes a `?`."""
    escaped = escape_latex(text).translate(str.maketrans(_SYMBOLS))
    return escaped.encode("latin-1", "replace").decode("latin-1")


# Table 5 and the regression of appendix H.

TABLE_5 = TABLES["table-5"]
OLD, NEW, ELO = TABLE_5.columns


def columns(table: Table = TABLE_5) -> pd.DataFrame:
    """The table as a frame, one row a model, columns as in the paper. Paper: Table 5."""
    return pd.Series(table.values, dtype=float).unstack().loc[table.rows, table.columns]


def fit(score: np.ndarray, elo: np.ndarray) -> Interval:
    """R squared of Elo on score by least squares, with Fisher's interval.

    It says how well a judge predicts Elo. score, elo: [n]. The interval of R is
    tanh(artanh R +- z / sqrt(n - 3)). That of R squared is its image, from 0 where the interval of
    R holds 0.

    Paper: appendix H. R and its interval are scipy's; checked against .819 and .703.

    Raises:
        ValueError: there are fewer than four models, the shapes differ, or a column has no spread.
    """
    score = np.asarray(score, dtype=float)
    elo = np.asarray(elo, dtype=float)
    if score.shape != elo.shape or score.ndim != 1 or len(score) < 4:
        raise ValueError(
            "at least four models with a score and an Elo each are needed: "
            f"{score.shape}, {elo.shape}"
        )
    if np.ptp(score) == 0 or np.ptp(elo) == 0:
        raise ValueError(
            "all scores, or all Elos, are one and the same: there is no line through them"
        )
    correlation = scipy_stats.pearsonr(score, elo)
    low, high = correlation.confidence_interval(0.95)
    smaller, larger = sorted((low**2, high**2))
    if low < 0 < high:
        smaller = 0.0
    return Interval(float(correlation.statistic) ** 2, float(smaller), float(larger))


def regression(table: Table = TABLE_5) -> dict[str, Interval]:
    """The fit for each of the two judges.

    Paper: appendix H (.703 for GPT-4, .819 for GPT-4-0125-Preview).
    """
    frame = columns(table)
    return {judge: fit(frame[judge].to_numpy(), frame[ELO].to_numpy()) for judge in (OLD, NEW)}


def summary(table: Table = TABLE_5, *, n_boot: int = 10_000, seed: int = 0) -> pd.DataFrame:
    """What the regression says: quantity, value, Fisher's interval and that of resampled models.

    Both judges see the same resamples, so a difference is a paired one. A resample in which all
    models are one and the same has no R squared and is left out (one in 10^9 of ten models).

    Paper: appendix H (the old judge's scores are higher by .8 on average); the intervals are ours.

    Args:
        table: Table 5, or another of its form.
        n_boot: number of resamples.
        seed: of the resamples.
    """
    frame = columns(table)
    fits = regression(table)
    with_difference = np.column_stack([frame, frame[OLD] - frame[NEW]])  # [models, 4]
    sums, moments, centre, scale = pair_sums(with_difference, None)

    def values(total: np.ndarray) -> np.ndarray:
        _, mean, _, covariance = moments(total)  # [B, 4, 4] each
        r2 = covariance[:, :2, 2] ** 2 / (covariance[:, [0, 1], [0, 1]] * covariance[:, 2, 2, None])
        return np.column_stack([r2, r2[:, 1] - r2[:, 0], mean[:, 3, 3] * scale[3] + centre[3]])

    resampled = inside(
        from_sums(sums, values, n_boot, seed), (0, 0, -np.inf, -np.inf), (1, 1, np.inf, np.inf)
    )  # [4]
    names = [f"R squared, {judge}" for judge in fits]
    names += ["R squared, new less old", "mean score, old less new"]
    shown = pd.DataFrame({"quantity": names, "value": resampled.estimate})
    # Fisher's interval is that of the first two quantities; the others have none.
    shown["Fisher low"] = pd.Series([interval.low for interval in fits.values()])
    shown["Fisher high"] = pd.Series([interval.high for interval in fits.values()])
    shown["bootstrap low"] = resampled.low
    shown["bootstrap high"] = resampled.high
    return shown


def williams(table: Table = TABLE_5) -> tuple[float, float]:
    """Williams' t for two correlations that share a variable, and its two-sided p.

    It asks whether the new judge's R with Elo is larger than the old one's, as the two judges agree
    so well. t has n - 3 degrees of freedom.

    Paper: silent. Formula as in Steiger (1980), equation 7. By hand: equal correlations have t = 0
    and p = 1.
    """
    r = columns(table).corr().to_numpy()  # [3, 3]
    r_new = r[1, 2]
    r_old = r[0, 2]
    r_judges = r[0, 1]
    n = len(table.rows)
    determinant = 1 - r_new**2 - r_old**2 - r_judges**2 + 2 * r_new * r_old * r_judges
    below = 2 * (n - 1) / (n - 3) * determinant + ((r_new + r_old) / 2) ** 2 * (1 - r_judges) ** 3
    t = (r_new - r_old) * np.sqrt((n - 1) * (1 + r_judges) / below)
    return float(t), float(2 * scipy_stats.t.sf(abs(t), n - 3))
