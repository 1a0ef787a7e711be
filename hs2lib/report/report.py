"""What a run of a notebook writes, and how it is read again: tables, figures, manifest.

Everything a notebook shows goes through a `Run`. So every caption names tier, seed and data source,
and generated data is called that. The tables include those that compare ours with the paper's. A
folder without `manifest.json` is an incomplete run. `completed` reads a run that ended.
"""

import ast
import base64
import csv
import html
import json
import math
import os
import platform
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from io import BytesIO
from pathlib import Path
from types import FunctionType
from typing import Protocol, TextIO

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from IPython import get_ipython
from IPython.core.pylabtools import select_figure_formats
from IPython.display import HTML, Markdown, display
from matplotlib.figure import Figure
from pandas.io.formats.style import Styler

from hs2lib import code, paper, paths
from hs2lib.group import Group
from hs2lib.paths import public, read_json, reports, root, run_name, sha256, write
from hs2lib.report import style, verdict
from hs2lib.runs import cells, graph, jobs, key, lock, parameters
from hs2lib.runs.setup import Setup

DASH = "\u2013"

# The packages whose versions a manifest names.
PACKAGES = [
    "torch",
    "transformers",
    "peft",
    "trl",
    "datasets",
    "numpy",
    "pandas",
    "scipy",
    "scikit-learn",
    "pingouin",
    "matplotlib",
    "seaborn",
    "papermill",
    "httpx2",
]


GENERATED = "generated data (small world)"  # in every image that holds such data


class DataSource(Protocol):
    """What `Run.source` asks of a data source: `hs2lib.data.load.Loaded` has it."""

    groups: list[Group]
    source: str
    generated: bool
    set_aside: list
    own: bool


def not_comparable(sources: list[dict]) -> str:
    """Why numbers from these sources have no verdict beside the paper's; "" where they may have.

    sources: as in a manifest.
    """
    if any(source["generated"] for source in sources):
        return "generated data"
    if sources and all(source["of_paper"] for source in sources):
        return ""
    return "other data"


def commit() -> str:
    """Commit of the checkout, with '+' when sources differ from it; 'unknown' outside git.

    A source that is in no commit counts as different.
    """
    git = ["git", "-C", str(root())]
    head = subprocess.run([*git, "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True)
    if head.returncode:
        return "unknown"
    status = [*git, "status", "--porcelain", "--untracked-files=all"]
    sources = ["hs2lib", "notebooks", "params"]
    listed = subprocess.run([*status, "--", *sources], capture_output=True, text=True)
    as_committed = listed.returncode == 0 and not listed.stdout
    return head.stdout.strip() + ("" if as_committed else "+")


def device() -> str:
    """The processor or accelerator that does the work, in words."""
    if "torch" in sys.modules and sys.modules["torch"].cuda.is_available():
        return sys.modules["torch"].cuda.get_device_name()
    file = Path("/proc/cpuinfo")
    about = file.read_text() if file.exists() else ""
    name = re.search(r"^model name\s*: (.*)$", about, re.M)
    return f"{name[1] if name else platform.machine()}, {os.cpu_count()} cores"


def interval(value: float, low: float, high: float, digits: int = 2) -> str:
    """A number with its interval as a cell of a table, `2.68 [2.67, 2.70]`; a dash for none.

    A zero has no sign.
    """
    if math.isnan(value):
        return DASH
    number = f"z.{digits}f"
    if math.isnan(low):
        return format(value, number)
    return f"{value:{number}} [{low:{number}}, {high:{number}}]"


_LOCKS: dict[Path, TextIO] = {}  # of this process, by the report that each locks


class Run:
    """One run of one notebook at one tier; made by `start`."""

    def __init__(self, notebook: str, values: dict, recipe: object = None) -> None:
        self.notebook = notebook
        self.values = values
        self.tier: str = values["tier"]
        self.recipe = recipe
        os.environ |= graph.unseen(self.tier)  # in JupyterLab too
        # Whether this process executes a stage alone: then nothing is shown and no report written.
        self.staged = cells.STAGE in os.environ
        # Whether no runner started it.
        names_of_run = os.environ.get(paths.RUN, graph.BY_HAND)
        self.by_hand = graph.BY_HAND in names_of_run and not self.staged
        if self.by_hand:
            os.environ.pop(paths.RUN, None)
            os.environ |= graph.by_hand(notebook, self.tier)
        self.name = run_name(notebook)
        self.setup = Setup.of(notebook, values, recipe)
        # The run's main numbers by name, which `results.json` has.
        self.numbers: dict[str, float] = {}
        # What every caption from here on must say: that a reward model is weak.
        self.warning = ""
        if self.staged:
            return
        self.changed = self._changed() if self.by_hand else []
        self.made_of = self._made_of()
        self.place = reports() / self.tier / self.name
        # Until the run is finished, its files lie in a folder of their own, and the earlier report
        # stays whole.
        self.folder = self.place.with_name(f".{self.name}")
        # These three are as in the manifest.
        self.sources: list[dict] = []
        self.artefacts: dict[str, dict] = {}
        self.verdicts: dict[str, dict] = {}
        # Place of a data file or model -> its digest when it was read.
        self.was_read: dict[str, str] = {}
        # Places of the models that were saved.
        self.was_written: set[str] = set()
        # One dict a model, which is filled as the model runs: text that spells out control strings
        # -> whether it was set aside.
        self.control_strings: list[dict] = []
        # What functions were given (the pair rule, the loss), by name.
        self.arguments: dict[str, str] = {}
        # Seconds that earlier calls spent on work that this one only read.
        self.kept_s = 0.0
        self.started = time.time()
        # Against the same notebook in another kernel. In this one a cell may be run again.
        if self.place in _LOCKS:
            _LOCKS[self.place].close()
        self.lock = lock.hold(self.place)
        _LOCKS[self.place] = self.lock
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()

    @property
    def generated(self) -> bool:
        """Whether anything in this run came from the small world."""
        return any(source["generated"] for source in self.sources)

    def _made_of(self) -> dict:
        """What the run is made of, as its job found it; what it is made of today, by hand."""
        made = read_json(Path(os.environ.get(jobs.MADE, "")))
        if made is None or self.by_hand:
            content = key.made_with(self.name, self.tier, key.DRAW, self.values, self.recipe)
            made = {
                "key": content,
                "upstream": key.upstream(self.name, self.tier, (self.values, self.recipe)),
            }
        return {
            "parameters": self.values,
            "recipe": made["key"]["recipe"],
            "code": made["key"]["code"],
            "files": made["key"]["files"],
            "upstream": made["upstream"],
        }

    def _changed(self) -> list[str]:
        """Parameters that a hand, or papermill alone, set to other values than the tier's.

        Captions name them.
        """
        _, of_tier, _ = graph.resolved(self.notebook, self.tier)
        now = json.loads(json.dumps(self.values))
        before = json.loads(json.dumps(of_tier))
        return [name for name in now if name != "tier" and now[name] != before.get(name)]

    def reads(self, *things: object) -> None:
        """Record what this run read: data sets, models, trainings, paths, or what has a `read`.

        A `read` is what `hs2lib.paths.digests_by_place` returns, which may stand for itself. Of a
        model the manifest reports what it set aside. Of a training that an earlier call did, the
        manifest's time has its seconds. Of what a reader may change (`arguments`: the pair rule,
        the loss), the manifest says what it was.
        """
        for thing in things:
            if isinstance(thing, str | Path):
                self.was_read |= paths.digests_by_place(thing)
                continue
            if isinstance(thing, dict):
                self.was_read |= thing
                continue
            self.was_read |= getattr(thing, "read", {})
            self.kept_s += getattr(thing, "seconds_before", 0.0)
            self.control_strings.append(getattr(thing, "control_strings", {}))
            for name, value in getattr(thing, "arguments", {}).items():
                self.arguments[name] = described(value)

    def wrote(self, folder: Path) -> Path:
        """Record that this run saved a model in a folder, and return that."""
        self.was_written.add(paths.place(folder))
        return folder

    def source(self, loaded: DataSource, *, of_paper: bool = False, partial: bool = False) -> None:
        """Record a data source; every later caption names it.

        Args:
            loaded: the data, as `hs2lib.data.load.load` returns it.
            of_paper: whether these are the rows that the paper describes. Without it no number is
                ever judged against the paper. Numbers of generated rows or of a file of the user's
                never are.
            partial: whether the run read only some of the data, which captions say.
        """
        number = len(loaded.groups)
        set_aside = len(loaded.set_aside)
        self.sources.append(
            {
                "name": loaded.source,
                "generated": loaded.generated,
                "partial": partial,
                "groups": number,
                "of_paper": of_paper and not (loaded.generated or loaded.own),
                "set_aside": set_aside,
            }
        )
        self.reads(loaded)
        counted = f"; {number:,} groups, {set_aside:,} rows set aside" if number else ""
        display(Markdown(f"Source: {loaded.source}{counted}."))

    def caption(
        self,
        text: str,
        *,
        of_data: bool = True,
        source: str = "",
        of: Sequence[DataSource] | str | None = None,
    ) -> str:
        """`text` with the provenance every caption must carry.

        Args:
            text: what is shown.
            of_data: False for what no data went into, as an estimate of cost.
            source: of numbers that this run did not compute, in place of its own data.
            of: the recorded data that it shows; None for all that the run has recorded so far.
                A text names data that were generated for it alone.
        """
        if source:
            return public(f"{text} Source: {source}.")
        if not of_data:
            return public(f"{text} Source: no data. Tier {self.tier}.")
        sources = self._recorded(of)
        names = "; ".join(dict.fromkeys(source["name"] for source in sources)) or "no data"
        notes = ""
        if self.warning:
            notes += f" {self.warning}"
        if any(source["generated"] for source in sources):
            notes += " Generated data, which say nothing about the paper's."
        if any(source["partial"] for source in sources):
            notes += " Partial."
        tier = f"Tier {self.tier}"
        if self.changed:
            tier += f" with other values of {', '.join(self.changed)}"
        return public(
            f"{text} Source: {names}. {tier}, seed {self.values.get('seed', DASH)}.{notes}"
        )

    def _recorded(self, of: Sequence[DataSource] | str | None) -> list[dict]:
        """The sources of these data, as in the manifest; all of the run for None.

        Raises ValueError for data that `source` has not recorded.
        """
        if of is None:
            return self.sources
        if isinstance(of, str):
            return [{"name": of, "generated": True, "partial": False}]
        names = {loaded.source for loaded in of}
        strangers = names - {source["name"] for source in self.sources}
        if strangers:
            raise ValueError(
                f"{sorted(strangers)[0]}: a caption cannot name it, record it with `run.source`"
            )
        return [source for source in self.sources if source["name"] in names]

    def table(
        self,
        frame: pd.DataFrame,
        name: str,
        caption: str,
        digits: int = 3,
        *,
        shown: pd.DataFrame | None = None,
        of_data: bool = True,
        source: str = "",
        of: Sequence[DataSource] | str | None = None,
        folded: str = "",
    ) -> pd.DataFrame:
        """Write `frame` as .csv (full precision) and .tex (booktabs), show it, and return it.

        Args:
            frame: its index is written where it is more than row numbers. Missing is a dash.
            name: of the two files.
            caption: without provenance, which is added.
            digits: decimals that the notebook and the .tex show.
            shown: what the notebook shows in its place, as a wide table of `interval`.
            of_data: False for a table that no data went into.
            source: of published numbers, which this run only shows.
            of: the recorded data that it shows; None for all.
            folded: a line that stands in for the table and unfolds it; "" shows it at once.
        """
        caption = self.caption(caption, of_data=of_data, source=source, of=of)
        self._keep_table(frame, name, caption, digits)
        styled = _styled(frame if shown is None else shown, name, digits)
        styled.set_caption(html.escape(caption, quote=False))
        if folded:
            summary = f"<summary>{html.escape(folded)}</summary>"
            display(HTML(f"<details>{summary}{styled.to_html()}</details>"))
        else:
            display(styled)
        return frame

    def keep_table(
        self,
        frame: pd.DataFrame,
        name: str,
        caption: str,
        digits: int = 3,
        *,
        of_data: bool = True,
        of: Sequence[DataSource] | str | None = None,
    ) -> None:
        """Write a table as `table` does, and show nothing."""
        self._keep_table(frame, name, self.caption(caption, of_data=of_data, of=of), digits)

    def _keep_table(self, frame: pd.DataFrame, name: str, caption: str, digits: int) -> None:
        """Write the files of a table. caption: whole."""
        has_index = not isinstance(frame.index, pd.RangeIndex)
        shown = _hidden_paths(frame)
        self.keep(f"{name}.csv", csv_text(shown, index=has_index), caption)
        tex = _without_signed_zeros(shown, digits).style
        tex = tex.format(precision=digits, na_rep="--", escape="latex", thousands=",")
        tex = tex.format_index(escape="latex", axis=1).format_index(escape="latex", axis=0)
        if not has_index:
            tex = tex.hide(axis="index")
        tabular = tex.to_latex(
            hrules=True,
            caption=escape_latex(caption),
            label=f"tab:{name}",
            position_float="centering",
        )
        self.keep(f"{name}.tex", tabular, caption)

    def figure(
        self,
        fig: plt.Figure,
        name: str,
        caption: str,
        *,
        marked: bool = True,
        of_data: bool = True,
        source: str = "",
        of: Sequence[DataSource] | str | None = None,
    ) -> None:
        """Write `fig` as .pdf and .png without dates inside, show it with its caption, close it.

        The caption is its alt text too, for readers who hear a page.

        Args:
            fig: the figure.
            name: of the two files.
            caption: without provenance, which is added.
            marked: whether a run that read generated data says so in the image too. False for a
                figure that shows none of them.
            of_data: False for a figure that no data went into; its caption says so.
            source: of published numbers, which this run only shows.
            of: the recorded data that it shows; None for all.
        """
        caption = self.caption(caption, of_data=of_data, source=source, of=of)
        generated = any(recorded["generated"] for recorded in self._recorded(of))
        if generated and marked and of_data:
            _mark_as_generated(fig)
        for kind, metadata in (("pdf", {"CreationDate": None}), ("png", {"Software": None})):
            image = BytesIO()
            with plt.rc_context(style.SAVED):
                fig.savefig(image, format=kind, metadata=metadata)
            self.keep(f"{name}.{kind}", image.getvalue(), caption)
        display(fig, metadata={"image/png": {"alt": caption}})
        plt.close(fig)
        display(Markdown(f"*{html.escape(caption, quote=False)}*"))

    def against_paper(
        self, table: str, ours: pd.DataFrame, columns: list[str] | None = None
    ) -> pd.DataFrame:
        """The paper's `table` beside ours, each number judged by `hs2lib.report.verdict`.

        A number that we have no value for is "not run at this tier" and shows a dash. Where no
        number is judged, a line that says why stands in for the table; the files have it.

        Args:
            table: "table-1" to "table-4", or one of `paper.BEYOND`, whose caption says that it is
                not the paper's and whose rows say where they were read.
            ours: columns row, column, ours, low, high (95 % interval; NaN where none). It may have
                `data`, the name of the source that a number comes from (else all sources of the
                run), and `not comparable`, another reason against a verdict, such as "other judge".
            columns: of the table; without them all.
        """
        known = paper.TABLES[table] if table in paper.TABLES else paper.BEYOND[table]
        ours = ours.reindex(
            columns=["row", "column", "ours", "low", "high", "data", "not comparable"]
        )
        ours = ours.astype({"ours": float, "low": float, "high": float})
        ours = ours.set_index(["row", "column"])
        unknown = [cell for cell in ours.index if cell not in known.rules]
        if unknown:
            raise KeyError(
                f"{table} has no {unknown[0]}; rows: {known.rows}; columns: {known.columns}"
            )
        # A published model has a row of its own, for which the paper prints nothing.
        published = {cell: None for cell in ours.index if cell not in known.values}
        printed = pd.Series(known.values | published, dtype=float, name="paper")
        frame = printed.rename_axis(["row", "column"]).to_frame().join(ours).reset_index()
        frame["not comparable"] = [
            not_comparable(self._sources_named(name)) or ("" if pd.isna(other) else other)
            for name, other in zip(frame.pop("data"), frame["not comparable"], strict=True)
        ]
        frame = frame[frame.column.isin(columns or known.columns)].reset_index(drop=True)
        frame["difference"] = frame.ours - frame.paper
        frame["verdict"] = verdict.judge(frame, known)
        frame = frame.rename(columns={"low": "95 % low", "high": "95 % high"})
        self.verdicts[table] = frame.verdict.value_counts().to_dict()
        caption = f"{known.title} ({known.source}; {known.unit}): paper against ours."
        if table in paper.BEYOND:
            caption = f"{known.title} ({known.source}; {known.unit}) against ours; not the paper's."
            frame = frame.rename(columns={"paper": "theirs"})
            frame.insert(1, "read from", frame.row.map(paper.read_from(table)))
        name = f"against-{table}"
        if frame.verdict.isin(verdict.JUDGED).any():
            return self.table(frame, name, caption, digits=4)
        self._keep_table(frame, name, self.caption(caption), digits=4)
        reasons = [f"{reason} ({n})" for reason, n in self.verdicts[table].items()]
        display(
            Markdown(
                f"{known.title}: nothing to compare at tier {self.tier}: {', '.join(reasons)}. "
                f"All numbers are in `{name}.csv`."
            )
        )
        return frame

    def _sources_named(self, name: str | float) -> list[dict]:
        """The run's sources of this name; all of them where the name is missing."""
        return [source for source in self.sources if pd.isna(name) or source["name"] == name]

    def finish(self) -> None:
        """Write the manifest and put the report in its place. The last act of a notebook.

        Files of earlier runs (a table since renamed) are removed. A folder without a manifest is an
        incomplete report.
        """
        left = {place: paths.digest(paths.located(place)) for place in sorted(self.was_written)}
        read = {}
        for place, digest in sorted(self.was_read.items()):
            if place not in left and not _scratch(place):
                read[place] = digest
        record = {
            **self.made_of,
            "read": read,
            "written": {place: digest for place, digest in left.items() if digest},
        }
        manifest = self._manifest(record)
        write(
            self.folder / "manifest.json",
            public(json.dumps(manifest, indent=1, ensure_ascii=False)) + "\n",
        )
        jobs.note_read(read)
        if self.folder != self.place:  # else this cell is run again
            self._replace_earlier_report()
        self.lock.close()
        if manifest["control_strings"]:
            display(
                Markdown(
                    f"{manifest['control_strings']:,} responses, or their prompts, spell out "
                    f"control strings: {manifest['refused_responses']:,} were set aside, "
                    "the others read as plain text (control_text)."
                )
            )
        display(Markdown(f"Finished: {len(self.artefacts)} files and the manifest written."))

    def _manifest(self, record: dict) -> dict:
        """What the manifest says. record: what the run was made of, what it read and wrote."""
        control_strings = _merged(self.control_strings)
        return {
            "notebook": self.notebook,
            "run": self.name,
            "tier": self.tier,
            "commit": commit(),
            **record,
            "numbers": self.numbers,
            # The digest of what the run computed for others; drawing alone leaves it in the tables.
            "results": self._computed(),
            "read": {
                paths.manifest_place(place): digest for place, digest in record["read"].items()
            },
            "sources": self.sources,
            "generated": self.generated,
            "verdicts": self.verdicts,
            "artefacts": self.artefacts,
            "arguments": self.arguments,
            "control_strings": len(control_strings),
            "refused_responses": sum(control_strings.values()),
            "device": device(),
            "python": platform.python_version(),
            "wall_s": round(time.time() - self.started + self.kept_s, 1),
            "versions": {name: version(name) for name in PACKAGES},
            "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        }

    def _computed(self) -> str:
        """The digest of the results that a job of this run computed; "" without such a job."""
        computes = key.COMPUTE in key.jobs_of(self.name)
        return key.results_of(self.name, self.tier) if computes else ""

    def _replace_earlier_report(self) -> None:
        """Put the run's files in the place of those of an earlier report.

        The manifest of the earlier report goes first, and the new one comes last.
        """
        earlier = sorted(self.place.glob("[!.]*"), key=lambda file: file.name != "manifest.json")
        for file in earlier:
            if file.suffix != ".ipynb":
                file.unlink()
        for name in (*self.artefacts, "manifest.json"):
            (self.folder / name).replace(self.place / name)
        shutil.rmtree(self.folder)
        self.folder = self.place

    def keep(self, name: str, content: str | bytes, caption: str) -> None:
        """Write one more file into the report; the manifest has its caption and digest."""
        write(self.folder / name, public(content) if isinstance(content, str) else content)
        self.artefacts[name] = {"sha256": sha256(self.folder / name), "caption": caption}


def _hidden_paths(frame: pd.DataFrame) -> pd.DataFrame:
    """A frame without the machine's paths; they are hidden before anything is escaped."""
    return frame.map(_public).rename(index=_public, columns=_public)


def _without_signed_zeros(frame: pd.DataFrame, digits: int) -> pd.DataFrame:
    """A frame to be printed with so many decimals: what would be -0.00 is 0."""

    def unsigned(cell: object) -> object:
        is_number = isinstance(cell, float | np.floating)
        return type(cell)(0) if is_number and round(float(cell), digits) == 0 else cell

    return frame.map(unsigned)


def _styled(frame: pd.DataFrame, name: str, digits: int) -> Styler:
    """A frame as a notebook shows it. name: of the table, for its id in a page."""
    styled = _without_signed_zeros(_hidden_paths(frame), digits).style.set_uuid(name)
    styled = styled.format(precision=digits, na_rep=DASH, escape="html", thousands=",")
    if isinstance(frame.index, pd.RangeIndex):
        styled = styled.hide(axis="index")
    return styled


def _merged(mappings: Iterable[dict]) -> dict:
    """All entries of some dicts; of equal keys the last counts."""
    merged = {}
    for mapping in mappings:
        merged |= mapping
    return merged


def _mark_as_generated(fig: plt.Figure) -> None:
    """Write below the right corner of what is drawn that it is generated data."""
    # The layout, and so how far the drawing reaches, is known only then.
    fig.draw_without_rendering()
    drawn = fig.get_tightbbox()
    width, height = fig.get_size_inches()
    right = 1.0
    bottom = 0.0
    if np.isfinite(drawn.x1):
        right = drawn.x1 / width
        bottom = (drawn.y0 - 0.05) / height
    fig.text(right, bottom, GENERATED, ha="right", va="top", size=7, color="0.45", in_layout=True)


def _show_figures() -> None:
    """Let a notebook show figures as pictures, also those made without pyplot.

    A format that the reader chose (SVG, say) stays.
    """
    shell = get_ipython()
    if shell is None:
        return
    formatters = shell.display_formatter.formatters
    pictures = [formatters[form] for form in formatters if form.startswith("image/")]
    if not any(Figure in formatter.type_printers for formatter in pictures):
        select_figure_formats(shell, {"png"})


def start(notebook: str, namespace: dict) -> Run:
    """Begin a run: check the parameters in `namespace` (`globals()`), seed, and show them.

    Raises ParameterError, which names the parameter, its range and the value that arrived. A
    parameter given to papermill that the notebook does not have raises too: papermill itself only
    warns.
    """
    known = parameters.specification(paths.notebook(notebook))
    strangers = sorted(injected(namespace) - known.keys())
    parameters.check(dict.fromkeys(strangers), known, "papermill's parameters")
    arrived = {name: namespace[name] for name in known if name in namespace}
    values = parameters.check(arrived, known, f"{notebook}, parameters")
    paths.hide(values)
    _show_figures()
    # Texts and tables are shown whole.
    pd.set_option("display.max_colwidth", None, "display.max_rows", 200)
    random.seed(values.get("seed", 0))
    np.random.seed(values.get("seed", 0))
    run = Run(notebook, values, parameters.whole_recipe(known, values))
    if run.staged:
        return run
    settings = values | (asdict(run.recipe) if run.recipe else {})
    shown = ", ".join(f"{name} = {value!r}" for name, value in settings.items() if name != "recipe")
    folded = f"<details><summary>All parameters</summary>\n\n{shown}\n\n</details>"
    display(Markdown(f"**{run.name}**, tier {run.tier}\n\n{folded}"))
    return run


def described(value: object) -> str:
    """What a function was given (a pair rule, a loss), in words; of code its name and digest."""
    name = getattr(value, "name", "")
    if name:
        return str(name)
    if isinstance(value, FunctionType):
        return f"{value.__module__}.{value.__qualname__}, code {code.digest(value)[:12]}"
    return public(repr(value))


def injected(namespace: dict) -> set[str]:
    """The names that papermill's own cell gave values to.

    They are read from the kernel's history of executed cells.
    """
    names = set()
    for cell in namespace.get("In", []):
        if not cell.startswith("# Parameters\n"):  # as papermill begins the cell that it adds
            continue
        for statement in ast.parse(cell).body:
            if isinstance(statement, ast.Assign):
                names |= {target.id for target in statement.targets if isinstance(target, ast.Name)}
    return names


@dataclass(frozen=True)
class CompletedRun:
    """A run that ended, as its folder has it: the manifest, and the files that it names."""

    tier: str
    notebook: str
    folder: Path
    manifest: dict

    @property
    def generated(self) -> bool:
        """Whether anything in the run came from the small world."""
        return any(source["generated"] for source in self.manifest["sources"])

    @property
    def files(self) -> dict[str, dict]:
        """Artefacts (name -> digest and caption) that lie in the folder.

        A name that leads elsewhere is no artefact.
        """
        files = {}
        for name, about in self.manifest["artefacts"].items():
            if Path(name).name == name and (self.folder / name).is_file():
                files[name] = about
        return files

    @property
    def altered(self) -> list[str]:
        """Artefacts that are missing, or not as the run left them."""
        digests = {name: sha256(self.folder / name) for name in self.files}
        artefacts = self.manifest["artefacts"].items()
        return [name for name, about in artefacts if digests.get(name) != about["sha256"]]

    @property
    def data(self) -> str:
        """Whether the data was generated or real, and which real data, in words."""
        names = []
        for source in self.manifest["sources"]:
            if not source["generated"]:
                names.append(re.split(" ?[,:(]", source["name"])[0])
        real = ", ".join(dict.fromkeys(names))
        kinds = []
        if self.generated:
            kinds.append("generated")
        if real:
            kinds.append(f"real: {real}")
        return " and ".join(kinds) or "none"

    @property
    def verdicts(self) -> str:
        """Counts of verdicts over all tables compared with the paper, in words."""
        total = Counter()
        for counts in self.manifest.get("verdicts", {}).values():
            total += Counter(counts)
        words = [f"{number} {name}" for name, number in sorted(total.items())]
        return ", ".join(words) or "nothing compared"

    def table(self, name: str) -> pd.DataFrame | None:
        """The csv `name` as the run left it; None where it left none.

        Raises ValueError where the file was changed since.
        """
        if name not in self.files:
            return None
        if sha256(self.folder / name) != self.files[name]["sha256"]:
            raise ValueError(
                f"{self.folder / name}: not as the run left it; run notebook {self.notebook} again"
            )
        return read_table(self.folder / name)

    def figures(self) -> list[dict]:
        """Figures that the run left and nobody changed.

        Of a published run only the executed notebook has them.

        Keys: notebook, name, image (PNG in base64), and what the manifest says of it: digest and
        caption.
        """
        altered = self.altered
        shown = self._shown()
        figures = []
        for name, about in self.manifest["artefacts"].items():
            if not name.endswith(".png"):
                continue
            image = ""
            if name not in self.files:
                image = shown.get(about["caption"], "")
            elif name not in altered:
                image = base64.b64encode((self.folder / name).read_bytes()).decode()
            if image:
                figure = {
                    "notebook": self.notebook,
                    "name": name.removesuffix(".png"),
                    "image": image,
                }
                figures.append(figure | about)
        return figures

    def _shown(self) -> dict[str, str]:
        """Caption -> PNG in base64 of the figures that the executed notebook shows."""
        notebook = read_json(self.folder / f"{self.notebook}.ipynb") or {}
        pictures = {}
        for cell in notebook.get("cells", []):
            for output in cell.get("outputs", []):
                image = output.get("data", {}).get("image/png")
                caption = output.get("metadata", {}).get("image/png", {}).get("alt")
                if image and caption:
                    pictures[caption] = "".join(image).replace("\n", "")
        return pictures


def completed(tier: str, notebook: str, folder: Path | None = None) -> CompletedRun | None:
    """The run of a notebook at a tier if it ended, else None.

    folder: where its report lies; without it, under `reports()`.
    """
    folder = folder or reports() / tier / run_name(notebook)
    manifest = read_json(folder / "manifest.json")
    if not {"artefacts", "sources"} <= set(manifest or ()):
        return None
    return CompletedRun(tier, notebook, folder, manifest)


def csv_text(frame: pd.DataFrame, *, index: bool = False, digits: str | None = "%.10g") -> str:
    """`frame` as CSV in which a spreadsheet finds no formula.

    A text that begins with one of = + - @, a tab, a return or an apostrophe gets an apostrophe in
    front, which `plain_cell` takes away again. Numbers stay as they are, also those that are
    written as text.

    Args:
        frame: numbers and texts.
        index: whether the index is written.
        digits: format of numbers, ten digits by default; None for all that they have.
    """
    safe = frame.map(_safe_cell).rename(index=_safe_cell, columns=_safe_cell)
    # Readers take a lone return for the end of a row, and the writer does not quote it. A frame
    # that has one gets all its texts quoted.
    has_return = safe.map(lambda cell: isinstance(cell, str) and "\r" in cell).any(axis=None)
    quoting = csv.QUOTE_NONNUMERIC if has_return else csv.QUOTE_MINIMAL
    return safe.to_csv(index=index, float_format=digits, lineterminator="\n", quoting=quoting)


def _scratch(place: str) -> bool:
    """Whether the run made this file for itself, in a temporary folder, and has removed it."""
    path = paths.located(place)
    return path is not None and path.is_relative_to(tempfile.gettempdir()) and not path.exists()


def _public(value: object) -> object:
    return public(value) if isinstance(value, str) else value


# How a formula begins. The last four are the first four in full width, which some spreadsheets take
# for them.
_FORMULA = tuple("=+-@\t\r'\uff1d\uff0b\uff0d\uff20")


def _safe_cell(value: object) -> object:
    """A cell that is no formula: an apostrophe stands before a text that begins like one."""
    if not isinstance(value, str) or not value.startswith(_FORMULA):
        return value
    is_number = re.fullmatch(r"[+-][\d.]+(e[+-]?\d+)?", value, re.I)
    return value if is_number else f"'{value}"


# For pandas.read_csv: "None" and "NA" are texts.
TEXTS = {"keep_default_na": False, "na_values": [""]}


def read_table(path: Path) -> pd.DataFrame:
    """The frame that `csv_text` wrote to a file, its texts as they were."""
    return pd.read_csv(path, **TEXTS).map(plain_cell).rename(columns=plain_cell)


def plain_cell(value: object) -> object:
    """The cell that `csv_text` wrote: without the apostrophe in front."""
    return value.removeprefix("'") if isinstance(value, str) else value


_TEX = {
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "\\": r"\textbackslash{}",
}


def escape_latex(text: str) -> str:
    """Text for LaTeX, with its special characters escaped."""
    return text.translate(str.maketrans(_TEX))
