"""Tables 1 to 5 of the paper beside ours, put together from the reports alone: no data, no runs, no
model.

    frame = assemble("table-2", "laptop", reports())    # one row a number: paper, ours, interval, verdict, reason
    latex("table-2", {"laptop": frame})                 # the same as a table of LaTeX; `html` for reading
    figures("laptop", reports())                        # every figure that runs left, with its caption

Reports lie in two roots of one form, `root/<tier>/<run>/`: the user's own (`paths.reports`) and the
published ones (`paths.published_reports`). Whoever reads them names one root, so no mean is taken
over both.

Paper: Tables 1 to 5. A number of ours stands here only if a complete run (one with a manifest) left
it in its `against-<table>.csv` and the file is as the run left it. It is judged again
(`hs2lib.report.verdict`), against the numbers of today. What no run gave is a dash and says why.
"""

import html as _html
import os
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
    completed,
    csv_text,
    escape_latex,
    not_comparable,
)
from hs2lib.run import graph
from hs2lib.stats.bootstrap import Interval, from_sums, inside, pair_sums

MARKS: dict[str, list[str]] = verdict.WORDS[
    "marks"
]  # verdict -> mark in LaTeX, mark in HTML, meaning


def assemble(table: str, tier: str, root: Path) -> pd.DataFrame:
    """Every number of a table of the paper with ours at `tier`, its verdict, and the reason where
    it is not judged.

    Paper: Tables 1 to 5. Columns: row, column, paper, ours, low, high, difference, SD, verdict,
    reason, notebook (the run), provenance. A number is that of the first run that has it, named
    ones last, and the mean over its seeds. Where two notebooks give one number, the reason says so
    if they disagree. Raises KeyError for an unknown table, ValueError for a report that was changed
    after its run.
    """
    known, notebooks, ours, lines = TABLES[table], verdict.WORDS["notebooks"][table], {}, []
    runs = seeds_of(tier, notebooks, root)
    for name, seeds in runs.items():
        for run in seeds:
            left = run.table(f"against-{table}.csv")
            for line in [] if left is None else left[left.ours.notna()].to_dict("records"):
                line |= {"why": _against(line, run.manifest["sources"]), "run": run}
                ours.setdefault((line["row"], line["column"]), {}).setdefault(name, []).append(line)
    here = {row for row, _ in ours}  # and so which published models have a row
    released = {cell: None for cell in known.rules if cell[0] in here and cell not in known.values}
    for cell, printed in (known.values | released).items():
        candidates = ours.get(cell, {"": [{}]})
        name, mine = next(iter(candidates.items()))
        numbers = np.array(
            [[line.get(key, np.nan) for key in _NUMBERS] for line in mine], dtype=float
        )  # [seeds, 3]
        sd = numbers[:, 0].std(ddof=1) if len(mine) > 1 else np.nan
        own = [of[0]["ours"] for other, of in candidates.items() if other in notebooks]
        agree = np.allclose(own, own[:1], rtol=1e-9, atol=1e-9)
        disagree = "" if agree else f"notebooks disagree: {', '.join(candidates)}"
        why = max(line.get("why", "") for line in mine)  # "" comes first
        made_by = _provenance(name, [line["run"] for line in mine if line])
        about = (verdict.of_seeds(sd, len(mine)), why, disagree, made_by)
        lines.append((*cell, printed, *numbers.mean(axis=0), sd, name, *about))
    names = [
        "row",
        "column",
        "paper",
        "ours",
        "low",
        "high",
        "SD",
        "notebook",
        "spread",
        "not comparable",
        "disagree",
    ]
    frame = pd.DataFrame(lines, columns=[*names, "provenance"]).astype({"paper": float})
    frame.insert(6, "difference", frame.ours - frame.paper)
    frame["verdict"] = verdict.judge(frame, known)
    reasons = [
        _why(table, *cell, runs)
        for cell in frame[["row", "column", "verdict", "notebook"]].to_numpy()
    ]
    frame["reason"] = [
        "; ".join(filter(None, both)) for both in zip(reasons, frame.disagree, strict=True)
    ]
    return frame.drop(columns=["not comparable", "disagree", "spread"])


_NUMBERS = ("ours", "95 % low", "95 % high")


def report_of(tier: str, notebook: str, root: Path) -> CompletedRun | None:
    """The complete run of a notebook in a root of reports; None without one.

    In the user's own root it is the run that this process reads, which may be a named one
    (`paths.run_name`).
    """
    return completed(tier, notebook, None if root == paths.reports() else root / tier / notebook)


def seeds_of(tier: str, notebooks: list[str], root: Path) -> dict[str, list[CompletedRun]]:
    """Complete runs of notebooks at a tier by name, their own first, then named ones; of each all
    seeds.

    Paper: silent. What `hs2lib.run.graph.of_seed` calls a run is a seed of another here, and no run
    of its own.
    """
    runs: dict[str, list[CompletedRun]] = {}
    for name in [
        *notebooks,
        *(run for notebook in notebooks for run in graph.reported(notebook, tier, root)),
    ]:
        if run := report_of(tier, name, root):
            runs.setdefault(graph.without_seed(name)[0], []).append(run)
    return runs


def _provenance(name: str, seeds: list[CompletedRun]) -> str:
    """A run and its seeds, in words; and which seeds were run with other settings than the first.

    It is the same whether a cell or a recipe held a setting, which has changed.
    """
    settings = [
        run.manifest.get("parameters", {}) | run.manifest.get("recipe", {}) for run in seeds
    ]
    numbers = [str(own.get("seed", DASH)) for own in settings]
    same = [
        own | {"seed": 0, "recipe": 0} == settings[0] | {"seed": 0, "recipe": 0} for own in settings
    ]
    numbers = [
        number if like else f"{number} (other settings)"
        for number, like in zip(numbers, same, strict=True)
    ]
    return f"{name}, seed {', '.join(numbers)}" if seeds else ""


def _against(line: dict, sources: list[dict]) -> str:
    """Why a number of a report has no verdict; "" where it may have one."""
    if "not comparable" not in line or not any(
        source["of_paper"] for source in sources
    ):  # whatever the csv says
        return not_comparable(sources)
    return "" if pd.isna(line["not comparable"]) else line["not comparable"]


def overview(tiers: list[str], root: Path) -> pd.DataFrame:
    """The complete reports, of named runs too: what each read and what became of the paper's
    numbers.

    Paper: silent. Columns: tier, notebook, data, verdicts, generated. Commits and times stand in
    manifests.
    """
    names = ["tier", "notebook", "data", "verdicts", "generated"]
    runs = [run for tier in tiers for run in _completed_runs(tier, root)]
    return pd.DataFrame([[getattr(run, name) for name in names] for run in runs], columns=names)


def figures(tier: str, root: Path) -> list[dict]:
    """Figures of every notebook's own complete report of a tier: notebook, name, caption, pdf, png. Paper: silent."""
    return [
        figure
        for run in _completed_runs(tier, root)
        if "@" not in run.notebook
        for figure in run.figures()
    ]


def _completed_runs(tier: str, root: Path) -> list[CompletedRun]:
    notebooks = sorted({folder.name.partition("@")[0] for folder in (root / tier).glob("[0-9]*")})
    return [run for seeds in seeds_of(tier, notebooks, root).values() for run in seeds]


def small_world(table: str, tier: str, root: Path) -> pd.DataFrame:
    """The small world's own Table 3 or 4: each reward model, or policy, of the notebook's own run
    and of named ones.

    Paper: silent (Tables 3 and 4 have this form). Columns: model, measures, provenance. A cell is a
    number with its 95 % interval, or the mean over several seeds ± SD. None of it is the paper's.
    Empty where no run was generated.
    """
    lines = []
    for name, seeds in seeds_of(tier, verdict.WORDS["notebooks"][table], root).items():
        parts = [_own(run, name) for run in seeds if run.generated and _OWN & run.files.keys()]
        for model, cells in pd.concat(parts).groupby(level=0, sort=False) if parts else ():
            lines.append(
                {"model": model}
                | dict(cells.apply(_mean))
                | {"provenance": _provenance(name, seeds)}
            )
    return pd.DataFrame(lines).fillna(DASH)


_OWN = {"accuracy.csv", "held-out.csv"}  # of 06, and of 13 where policies have answered


def _own(run: CompletedRun, name: str) -> pd.DataFrame:
    """Numbers with intervals, as text, of what a run in the small world measured: models down, measures across."""
    if "accuracy.csv" in run.files:
        of = run.table("accuracy.csv").query("part != 'subset'").set_index("name")
        model = "".join(["reward model", *name.partition("@")[1:]])
        return _with_intervals(of[["accuracy (%)", "95 % low", "95 % high"]]).to_frame(model).T
    frame, judged = (
        run.table("held-out.csv").set_index("policy"),
        run.table("judged.csv").set_index("measure").T,
    )
    mc2 = run.table("truthfulqa.csv").query("measure == 'MC2'").set_index("policy")
    frame["MC2, generated questions"] = _with_intervals(mc2[["value", "low", "high"]])
    frame = frame.join(judged.loc[:, ~judged.columns.str.endswith("characters")])
    read, makers = (
        [graph.without_seed(of)[0].partition("@") for of in run.manifest["upstream"]],
        graph.makers("policy"),
    )
    named = {makers[of]: f"{makers[of]}@{mine}" for of, _, mine in read if mine and of in makers}
    return (frame[frame.index.isin(named)] if "@" in name else frame).rename(
        index=named
    )  # the others are another's


def _with_intervals(numbers: pd.DataFrame) -> pd.Series:
    return pd.Series(
        [f"{x:.2f} [{low:.2f}, {high:.2f}]" for x, low, high in numbers.to_numpy()], numbers.index
    )


def _mean(cells: pd.Series) -> str:
    """One text for a number over seeds: mean ± SD, and of how many where some have none; of one seed its own."""
    numbers = cells.str.extract(r"^(-?[\d.]+)", expand=False).astype(float).dropna()
    few = f" ({len(numbers)} of {len(cells)} seeds)" if len(numbers) < len(cells) else ""
    return f"{numbers.mean():.2f} ± {numbers.std():.2f}{few}" if len(numbers) > 1 else cells.iloc[0]


def _why(table: str, row: str, column: str, called: str, notebook: str, runs: dict) -> str:
    """Why a number is missing or not judged; "" where it is judged."""
    if called.startswith(verdict.NOT_COMPARABLE):
        names = dict.fromkeys(source["name"] for source in runs[notebook][0].manifest["sources"])
        return f"notebook {notebook[:2]} ran on: {'; '.join(names)}"
    if called != verdict.NOT_RUN:
        return ""
    place = {"table": table, "row": row, "column": column, "run": "yes" if runs else "no"}
    fits = (
        x
        for x in verdict.WORDS["reasons"]
        if all(re.search(text, place[k]) for k, text in x["where"].items())
    )
    notebooks = " or ".join(name[:2] for name in verdict.WORDS["notebooks"][table])
    return next(fits)["why"].format(notebooks=notebooks, ran=next(iter(runs), "")[:2])


def lay_out(
    table: str, frames: dict[str, pd.DataFrame], *, every: bool = False
) -> list[pd.DataFrame]:
    """Three frames of one shape: the numbers as text, their verdicts, the reasons. Paper: Tables 1
    to 5.

    frames: `assemble` by tier. Lines (row, whose, number) in order: the paper's row, then one a
    tier that has a number of it; every: also the lines that are nothing but dashes. Raises KeyError
    for an unknown table.
    """
    known, lines = TABLES[table], {}

    def text(value: float | None, *cell: str, sd: float = np.nan) -> str:
        shown = [
            f"{number:.{known.rules[cell].digits}f}"
            for number in (value, sd)
            if not pd.isna(number)
        ]
        return "±".join(shown) or DASH

    for row in dict.fromkeys(
        [*known.rows, *(row for frame in frames.values() for row in frame.row)]
    ):
        printed = [text(known.values.get((row, column)), row, column) for column in known.columns]
        lines[row, "paper", 0] = [(number, "", "") for number in printed]
        for number, (tier, frame) in enumerate(frames.items(), 1):
            ours = frame[frame.row == row]
            if len(ours) and (every or (ours.verdict != verdict.NOT_RUN).any()):
                reasons = [
                    "; ".join(filter(None, both))
                    for both in zip(ours.reason, ours.provenance, strict=True)
                ]
                texts = [text(r.ours, row, r.column, sd=r.SD) for r in ours.itertuples()]
                cells = list(zip(texts, ours.verdict, reasons, strict=True))
                lines[row, tier, number] = cells
    index = pd.MultiIndex.from_tuples(lines)
    return [
        pd.DataFrame([[c[k] for c in cells] for cells in lines.values()], index, known.columns)
        for k in range(3)
    ]


def notes(table: str, frames: dict[str, pd.DataFrame]) -> list[tuple[str, str]]:
    """(verdict, words) for the foot of a table: marks in use, what a wrong model would be called,
    missing numbers.

    Paper: silent. The verdict is "" for a sentence.
    """
    used = {name for frame in frames.values() for name in frame.verdict}
    rows = [(name, MARKS[name][2]) for name in MARKS if name in used]
    if table in verdict.STAND_INS:
        called = verdict.mistaken(table).sum()
        words = ", ".join(f"{count} {name}" for name, count in called.items() if count)
        stand_in, others = verdict.STAND_INS[table]
        which = f"the numbers of {stand_in} in place of {len(others)} rows that it is not"
        rows.append(("", f"False matches: {which}: {words}."))
    for tier, frame in frames.items():
        printed = frame[frame.paper.notna()]
        missing = printed[printed.verdict == verdict.NOT_RUN].reason.value_counts(sort=False)
        why = "; ".join(f"{number} {reason}" for reason, number in missing.items())
        if len(missing):
            rows.append(
                (
                    "",
                    f"{tier}: {missing.sum()} of {len(printed)} numbers are {verdict.NOT_RUN} ({why}).",
                )
            )
    return rows


def latex(table: str, frames: dict[str, pd.DataFrame]) -> str:
    """One table environment, for a document that loads booktabs and graphicx (wide tables are
    scaled to the line).

    Paper: Tables 1 to 5. frames: `assemble` by tier. Text is escaped, dashes and marks are LaTeX's.
    """
    texts, verdicts, _ = lay_out(table, frames)
    dashes = texts.map(
        lambda text: "--" if text == DASH else text.replace("-", "$-$").replace("±", r"$\pm$")
    )
    style = (dashes + verdicts.map(lambda verdict: MARKS.get(verdict, ("",))[0])).style.hide(
        level=2
    )
    style = style.format_index(_tex, axis="index", level=[0, 1]).format_index(_tex, axis="columns")
    columns = f"@{{}}ll{'r' * texts.shape[1]}@{{}}"
    tabular = style.to_latex(hrules=True, multirow_align="naive", column_format=columns).rstrip(
        "\n"
    )
    below = [
        f"{MARKS[v][0]} {_tex(words)}." if v else _tex(words) for v, words in notes(table, frames)
    ]
    parts = {
        "caption": _tex(caption(TABLES[table])),
        "tabular": tabular,
        "wide": texts.shape[1] > 4,
        "below": below,
    }
    return templates.render("table.txt", table=table, **parts) + "\n"


def html(table: str, frames: dict[str, pd.DataFrame]) -> str:
    """The same for reading, with every dash; verdicts and reasons are tooltips. Escaped. Paper: Tables 1 to 5."""
    texts, verdicts, reasons = lay_out(table, frames, every=True)
    marks = verdicts.map(lambda verdict: MARKS.get(verdict, ("", ""))[1])
    classes = "n " + verdicts.map(lambda verdict: verdict.split(":")[0].replace(" ", "-"))
    why = (verdicts + reasons.map(lambda reason: f": {reason}" if reason else "")).map(_html.escape)
    style = (texts + marks).style.hide(level=2).format(escape="html")
    style = style.format_index(escape="html", axis="index").format_index(
        escape="html", axis="columns"
    )
    style = style.set_td_classes(classes).set_tooltips(why, as_title_attribute=True)
    shown = style.set_caption(_html.escape(caption(TABLES[table]))).to_html(table_uuid=table)
    below = "".join(
        f"<li>{MARKS[v][1] if v else ''} {_html.escape(words)}</li>"
        for v, words in notes(table, frames)
    )
    return f"{shown}<ul>{below}</ul>\n"


def save(run, table: str, frames: dict[str, pd.DataFrame]) -> str:
    """Write `<table>.tex`, `.csv` and `.html` into the report of a run, as its artefacts, and
    return the HTML table.

    Paper: silent. run: `report.Run`. Its manifest gets the counts of verdicts at its own tier.
    """
    words = run.caption(caption(TABLES[table]))
    shown = f'<div class="scroll" style="overflow-x:auto;white-space:nowrap">{html(table, frames)}</div>'
    place = f"{run.tier}/{run.notebook}/{table}.html"
    whole = pd.concat(
        [frame.assign(tier=tier) for tier, frame in frames.items()], ignore_index=True
    )
    run.keep(f"{table}.tex", latex(table, frames), words)
    run.keep(f"{table}.csv", csv_text(whole), words)
    run.keep(
        f"{table}.html", templates.page(place, "plain", TABLES[table].title, body=shown), words
    )
    run.verdicts[table] = frames[run.tier].verdict.value_counts().to_dict()
    return shown


def caption(known: Table) -> str:
    """What a table is, and where the paper has it. Paper: silent."""
    whose = "the paper's numbers, and ours by tier (over seeds: mean ± SD)"
    return f"{known.title} ({known.source}; {known.unit}): {whose}."


def save_document(run, assembled: dict[str, dict[str, pd.DataFrame]], figures: list[dict]) -> str:
    """Write `paper.tex`, all tables and figures, into the report of a run and return it. Paper:
    silent.

    run: `report.Run`. assembled: frames by tier, by table. It compiles where it lies, with the
    reports beside it, and needs the packages booktabs, graphicx and geometry only. Captions come
    from manifests: escaped.
    """
    shown = [
        {"path": os.path.relpath(f["pdf"], run.folder), "caption": _tex(f["caption"])}
        for f in figures
    ]
    texts = [latex(table, frames) for table, frames in assembled.items()]
    whole = templates.render("document.txt", tables=texts, figures=shown) + "\n"
    run.keep("paper.tex", whole, run.caption("Tables 1 to 5 and all figures as one document."))
    return whole


# What pdflatex cannot set by itself, and captions of notebooks hold.
_LATEX = r"-- --- $-$ $\times$ $\pm$ $^2$ $\geq$ $\leq$ $\neq$ \dots{} $\to$ $\alpha$ $\beta$ $\kappa$ $\gamma$ $\pi$"
_CHARACTERS = "\u2013\u2014\u2212\u00d7\u00b1\u00b2\u2265\u2264\u2260\u2026\u2192αβκγπ"
_SYMBOLS = dict(zip(_CHARACTERS, _LATEX.split(" "), strict=True))


def _tex(text: str) -> str:
    """Escaped, and without characters that pdflatex has no glyph for: what `_SYMBOLS` does not know becomes a `?`."""
    return (
        escape_latex(text)
        .translate(str.maketrans(_SYMBOLS))
        .encode("latin-1", "replace")
        .decode("latin-1")
    )


# Table 5 and the regression of appendix H.

TABLE_5 = TABLES["table-5"]
OLD, NEW, ELO = TABLE_5.columns


def columns(table: Table = TABLE_5) -> pd.DataFrame:
    """The table as a frame, one row a model, columns as in the paper. Paper: Table 5."""
    return pd.Series(table.values, dtype=float).unstack().loc[table.rows, table.columns]


def fit(score: np.ndarray, elo: np.ndarray) -> Interval:
    """R squared of Elo on score by least squares, how well a judge predicts it, with Fisher's
    interval.

    Paper: appendix H. score, elo [n]. The interval of R is tanh(artanh R +- z / sqrt(n - 3)); that
    of R squared is its image, from 0 where the interval of R holds 0. R and its interval are
    scipy's; checked against .819 and .703. Raises ValueError for fewer than four models, shapes
    that do not fit and a column without spread.
    """
    score = np.asarray(score, dtype=float)
    elo = np.asarray(elo, dtype=float)
    if score.shape != elo.shape or score.ndim != 1 or len(score) < 4:
        raise ValueError(
            f"at least four models with a score and an Elo each are needed: {score.shape}, {elo.shape}"
        )
    if np.ptp(score) == 0 or np.ptp(elo) == 0:
        raise ValueError(
            "all scores, or all Elos, are one and the same: there is no line through them"
        )
    correlation = scipy_stats.pearsonr(score, elo)
    low, high = correlation.confidence_interval(0.95)
    bounds = (0.0, max(low**2, high**2)) if low < 0 < high else sorted((low**2, high**2))
    return Interval(float(correlation.statistic) ** 2, *map(float, bounds))


def regression(table: Table = TABLE_5) -> dict[str, Interval]:
    """The fit for each of the two judges. Paper: appendix H (.703 for GPT-4, .819 for GPT-4-0125-Preview)."""
    frame = columns(table)
    return {judge: fit(frame[judge].to_numpy(), frame[ELO].to_numpy()) for judge in (OLD, NEW)}


def summary(table: Table = TABLE_5, *, n_boot: int = 10_000, seed: int = 0) -> pd.DataFrame:
    """What the regression says, as a table: quantity, value, Fisher's interval and that of
    resampled models.

    Paper: appendix H (the old judge's scores are higher by .8 on average); the intervals are ours.
    Both judges see the same resamples, so a difference is a paired one. A resample in which all
    models are one and the same has no R squared and is left out (one in 10^9 of ten models).
    """
    frame, fits = columns(table), regression(table)
    sums, moments, centre, scale = pair_sums(
        np.column_stack([frame, frame[OLD] - frame[NEW]]), None
    )

    def values(total: np.ndarray) -> np.ndarray:
        _, mean, _, covariance = moments(total)  # [B, 4, 1], [B, 4, 4]
        r2 = covariance[:, :2, 2] ** 2 / (covariance[:, [0, 1], [0, 1]] * covariance[:, 2, 2, None])
        return np.column_stack([r2, r2[:, 1] - r2[:, 0], mean[:, 3] * scale[3] + centre[3]])

    resampled = inside(
        from_sums(sums, values, n_boot, seed), (0, 0, -np.inf, -np.inf), (1, 1, np.inf, np.inf)
    )  # [4]
    names = [
        *(f"R squared, {judge}" for judge in fits),
        "R squared, new less old",
        "mean score, old less new",
    ]
    shown = pd.DataFrame({"quantity": names, "value": resampled.estimate})
    shown["Fisher low"], shown["Fisher high"] = (
        pd.Series([fit[k] for fit in fits.values()]) for k in (1, 2)
    )
    shown["bootstrap low"], shown["bootstrap high"] = resampled.low, resampled.high
    return shown


def williams(table: Table = TABLE_5) -> tuple[float, float]:
    """Williams' t for two correlations that share a variable (n - 3 degrees of freedom), and its
    two-sided p.

    Paper: silent. Is the new judge's R with Elo larger than the old one's, as the two judges agree
    so well? Formula as in Steiger (1980), equation 7. By hand: equal correlations have t = 0 and p
    = 1.
    """
    r = columns(table).corr().to_numpy()
    r_new, r_old, r_judges, n = r[1, 2], r[0, 2], r[0, 1], len(table.rows)
    determinant = 1 - r_new**2 - r_old**2 - r_judges**2 + 2 * r_new * r_old * r_judges
    below = 2 * (n - 1) / (n - 3) * determinant + ((r_new + r_old) / 2) ** 2 * (1 - r_judges) ** 3
    t = (r_new - r_old) * np.sqrt((n - 1) * (1 + r_judges) / below)
    return float(t), float(2 * scipy_stats.t.sf(abs(t), n - 3))
