"""`hs2 run --rehearse`: go through runs in a few minutes, and say what they would take whole.

    hs2 run --tier gpu --rehearse                # with the tier's models and rows
    hs2 run --tier paper --rehearse tiny         # with a tiny model on generated text

Every notebook is run from end to end, and its heavy work is cut short (`hs2lib.rehearsal`). What is
left of it is one page, `reports/<tier>/rehearsal.md`: for each run its memory, its tokens a second,
its hours, and where it failed.
"""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from hs2lib import rehearsal
from hs2lib.commands import watch
from hs2lib.paths import reports, runs, write
from hs2lib.report import report
from hs2lib.runs import graph

MODES = ("real", "tiny")

# Work whose speed is told, with its column.
SPEEDS = {"training": "trained", "forward": "read", "sampling": "sampled"}


def rehearse(words: Sequence[str], names: Sequence[str], tier: str, tiny: bool) -> int:
    """Rehearse runs and all that they read.

    Args:
        words: of the command line, without --rehearse.
        names: full names of the runs that are asked for.
        tier: of all of them.
        tiny: whether a tiny model on generated text takes part.

    Returns:
        The exit status: 0 where every run came to its end.
    """
    runs().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=runs(), prefix="rehearsal-") as place:
        folder = Path(place)
        environment = os.environ | {
            rehearsal.FOLDER: str(folder),
            "HS2_RUNS": str(folder / "runs"),
            "HS2_REPORTS": str(folder / "reports"),
        }
        if tiny:
            environment[rehearsal.TINY] = "1"
        command = [sys.executable, "-m", "hs2lib", *words]
        child = subprocess.Popen(command, env=environment)
        with watch.interruptible():
            try:
                status = child.wait()
            except KeyboardInterrupt:
                child.send_signal(signal.SIGTERM)  # who was told alone tells the other
                child.wait()
                raise
        if status not in (0, 1):  # 1: a run failed, and others may have ended
            return status
        of_tier = folder / "runs" / tier
        begun = sorted(file.name for file in of_tier.iterdir()) if of_tier.is_dir() else []
        found = table(notes(folder), begun or list(names), names, of_tier)
    page = reports() / tier / "rehearsal.md"
    write(page, as_page(found, tier, tiny))
    print(page.read_text())
    print(f"The same is in {page}", file=sys.stderr)
    return int(not found.ended.all())


def notes(folder: Path) -> pd.DataFrame:
    """What the processes of a rehearsal noted, a row a piece of work."""
    file = folder / "notes.jsonl"
    lines = file.read_text().splitlines() if file.exists() else []
    columns = ["run", "work", "spent", "whole", "tokens", "seconds", "memory"]
    return pd.DataFrame(map(json.loads, lines), columns=columns)


def left_by(asked: bool) -> list[str]:
    """The files that a run writes last, one that is asked for and one that is only read."""
    return ["results.json", "drawn.json"] if asked else ["results.json"]


def table(
    noted: pd.DataFrame, names: Sequence[str], asked: Sequence[str], folder: Path
) -> pd.DataFrame:
    """A row a run: whether it ended, peak memory, tokens a second, hours whole, and its error.

    The hours are those of one process: what its jobs took here, less the work that was cut short,
    plus what that work would take whole.

    Args:
        noted: as `notes` reads them.
        names: the runs, in order.
        asked: those of them that are to have a report.
        folder: where they worked.
    """
    rows = {}
    for name in names:
        of_run = noted[noted.run == name]
        is_job = of_run.work == "job"
        cut = of_run[~is_job]
        seconds = of_run.spent[is_job].sum() - cut.spent.sum() + cut.whole.sum()
        # A run that others read and nobody asked for computes, and is not drawn.
        ended = all((folder / name / file).is_file() for file in left_by(name in asked))
        row = {
            "ended": ended,
            "memory": of_run.memory.max(),
            "rehearsed": of_run.spent[is_job].sum(),
        }
        row["hours"] = seconds / 3600 if ended else float("nan")
        for work, column in SPEEDS.items():
            of_work = cut[cut.work == work]
            row[column] = of_work.tokens.sum() / of_work.seconds.sum() if len(of_work) else None
        row["error"] = "" if ended else last_error(folder / name)
        rows[name] = row
    return pd.DataFrame(rows).T.rename_axis("run")


def last_error(folder: Path) -> str:
    """The last line of the log of a run's job that failed; what it was not run for is elsewhere."""
    logs = sorted(folder.glob("*.log"), key=lambda file: file.stat().st_mtime)
    for file in reversed(logs):
        lines = [line for line in file.read_text(errors="replace").splitlines() if line.strip()]
        errors = [line for line in lines if re.match(r"[\w.]*(Error|Exception|Interrupt)\b", line)]
        if lines:
            return (errors or lines)[-1].strip()
    return "not run: a run that it reads failed"


def as_page(found: pd.DataFrame, tier: str, tiny: bool) -> str:
    """The page of a rehearsal, Markdown."""
    shown = pd.DataFrame({"ended": found.ended.map({True: "yes", False: "no"})})
    shown["memory, GB"] = found.memory.map("{:.1f}".format)
    for column in SPEEDS.values():
        shown[f"{column}, tokens/s"] = found[column].map(
            lambda value: "" if pd.isna(value) else f"{value:,.0f}"
        )
    shown["rehearsed, min"] = (found.rehearsed / 60).map("{:.1f}".format)
    shown["whole, hours"] = found.hours.map(lambda value: "" if pd.isna(value) else f"{value:.3g}")
    failed = found[~found.ended.astype(bool)]
    lines = [f"# Rehearsal of tier {tier}", ""]
    lines += [f"Commit {report.commit()}, {report.device()}.", ""]
    if tiny:
        lines += [
            "A tiny random model on generated text: its figures say nothing of the tier's.",
            "",
        ]
    lines += [*as_rows(shown), ""]
    lines += [f"All runs, one after the other: {found.hours.sum():.3g} hours.", ""]
    for name, error in failed.error.items():
        lines += [f"- **{name}** failed: `{error}`"]
    return "\n".join(lines).rstrip() + "\n"


def as_rows(table: pd.DataFrame) -> list[str]:
    """A table of texts as lines of Markdown, its index first."""
    rows = [["run", *table.columns], ["---"] * (1 + table.shape[1])]
    rows += [[name, *row] for name, row in zip(table.index, table.to_numpy(), strict=True)]
    return ["| " + " | ".join(row) + " |" for row in rows]


def without_rehearse(words: Sequence[str]) -> list[str]:
    """The words of a command line without --rehearse and its value."""
    left = []
    before = ""
    for word in words:
        is_value = before == "--rehearse" and word in MODES
        if not is_value and word.partition("=")[0] != "--rehearse":
            left.append(word)
        before = word
    return left


def refuse_paid_judges(names: Sequence[str], tier: str) -> None:
    """Raise ParameterError where a run would ask a judge that is paid for."""
    for name in names:
        _, values, recipe = graph.resolved(name, tier)
        for setting in ("judge", "complexity_judge"):
            if values.get(setting, getattr(recipe, setting, "")) == "endpoint":
                raise graph.ParameterError(
                    f"{name} asks a judge at an endpoint, which costs money: rehearse it with "
                    f"another value of {setting}, or with --rehearse tiny"
                )
