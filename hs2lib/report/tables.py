"""Tables 1 to 5 of the paper beside ours, put together from the reports alone.

    frame = assemble("table-2", "laptop", reports())  # one row a number: paper, ours, verdict
    lay_out("table-2", {"laptop": frame})  # the paper's row, and a line of ours below it

This module needs no data, starts no run and loads no model. Reports lie in two roots of one form,
`root/<tier>/<run>/`: the user's own (`paths.reports`) and the published ones
(`paths.published_reports`). A caller names one root, so no mean is taken over both.

Paper: Tables 1 to 5. A number of ours stands here only if a complete run (one with a manifest) left
it in its `against-<table>.csv` and the file is as the run left it. It is judged again
(`hs2lib.report.verdict`), against the numbers of today. A number that no run gave is a dash, with
the reason.
"""

import re
from pathlib import Path

import numpy as np
import pandas as pd

from hs2lib import paths
from hs2lib.paper import TABLES, Table
from hs2lib.report import verdict
from hs2lib.report.report import (
    DASH,
    CompletedRun,
    completed,
    not_comparable,
)
from hs2lib.runs import graph

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


def _completed_runs(tier: str, root: Path) -> list[CompletedRun]:
    """The complete reports of a tier, those of named runs and of further seeds too."""
    notebooks = sorted({folder.name.partition("@")[0] for folder in (root / tier).glob("[0-9]*")})
    return [run for seeds in seeds_of(tier, notebooks, root).values() for run in seeds]


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
