"""What a run of a notebook writes, and how it is read again: tables, figures, the comparison with
the paper, manifest.

Everything a notebook shows goes through a `Run`, so that every caption names tier, seed and data
source, generated data is called that, and a folder without `manifest.json` is an incomplete run.
`completed` reads a run that ended.
"""

import ast
import csv
import html
import json
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
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from io import BytesIO
from pathlib import Path
from types import FunctionType

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from IPython.display import Markdown, display

from hs2lib import code, paper, paths
from hs2lib.paths import public, read_json, reports, root, run_name, sha256, write
from hs2lib.report import verdict
from hs2lib.run import graph, parameters, processes
from hs2lib.run.setup import Setup

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
]
PACKAGES += ["matplotlib", "seaborn", "papermill", "httpx2"]


GENERATED = "generated data (small world)"  # in every image that holds such data


def not_comparable(sources: list[dict]) -> str:
    """Why numbers from these sources (as in a manifest) have no verdict beside the paper's; "" where they may have."""
    if any(source["generated"] for source in sources):
        return "generated data"
    return "" if sources and all(source["of_paper"] for source in sources) else "other data"


def commit() -> str:
    """Commit of the checkout, with '+' when sources differ from it or are not in it; 'unknown' outside git."""
    git = ["git", "-C", str(root())]
    head = subprocess.run([*git, "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True)
    if head.returncode:
        return "unknown"
    status = [
        *git,
        "status",
        "--porcelain",
        "--untracked-files=all",
        "--",
        "hs2lib",
        "notebooks",
        "params",
    ]
    listed = subprocess.run(status, capture_output=True, text=True)
    as_committed = listed.returncode == 0 and not listed.stdout
    return head.stdout.strip() + ("" if as_committed else "+")


def device() -> str:
    """The processor or accelerator that does the work, in words."""
    if "torch" in sys.modules and sys.modules["torch"].cuda.is_available():
        return sys.modules["torch"].cuda.get_device_name()
    about = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    name = re.search(r"^model name\s*: (.*)$", about, re.M)
    return f"{name[1] if name else platform.machine()}, {os.cpu_count()} cores"


class Run:
    """One run of one notebook at one tier; made by `start`."""

    def __init__(self, notebook: str, values: dict, recipe: object = None):
        self.notebook = notebook
        self.values = values
        self.tier: str = values["tier"]
        self.recipe = recipe
        os.environ |= graph.unseen(self.tier)  # in JupyterLab too
        self.by_hand = graph.BY_HAND in os.environ.get(
            paths.RUN, graph.BY_HAND
        )  # no runner started it
        if self.by_hand:
            os.environ.pop(paths.RUN, None)
            os.environ |= graph.by_hand(notebook, self.tier)
        self.name = run_name(notebook)
        self.setup = Setup.of(notebook, values, recipe)
        self.changed = self._changed() if self.by_hand else []
        self.made_of = graph.made_of(self.name, self.tier, values, recipe)
        self.place = reports() / self.tier / self.name
        self.folder = self.place.with_name(
            f".{self.name}"
        )  # until it is finished: the earlier report stays whole
        self.sources: list[dict] = []  # this and the next two as in the manifest
        self.artefacts: dict[str, dict] = {}
        self.verdicts: dict[str, dict] = {}
        self.was_read: dict[
            str, str
        ] = {}  # place of a data file or model -> its digest when it was read
        self.was_written: set[str] = set()  # places of models
        self.control_strings: list[
            dict
        ] = []  # of each model the texts that spell some out, filled as it runs
        self.scored_one_by_one: list[
            dict
        ] = []  # of each model why it was not run in groups, filled as it runs
        self.reused: list[list] = []  # kept work of other code that was read, filled as models run
        self.arguments: dict[
            str, str
        ] = {}  # what functions were given: the pair rule, the loss, by name
        self.kept_s = 0.0  # what earlier calls spent on work that this one only read
        self.warning = ""  # what every caption from here on must say: that a reward model is weak
        self.started = time.time()
        self.lock = processes.hold(self.place)  # against the same notebook in JupyterLab, say
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()

    @property
    def generated(self) -> bool:
        """Whether anything in this run came from the small world."""
        return any(s["generated"] for s in self.sources)

    def _changed(self) -> list[str]:
        """Parameters that a hand, or papermill alone, set to other values than the tier's: captions name them."""
        _, own, _ = graph.resolved(self.notebook, self.tier)
        now = json.loads(json.dumps(self.values))
        before = json.loads(json.dumps(own))
        return [name for name in now if name != "tier" and now[name] != before.get(name)]

    def reads(self, *things: object) -> None:
        """Record what this run read: data sets, models, trainings and whatever else has a `read`,
        or paths.

        A `read` is what `hs2lib.paths.as_read` returns, which may stand for itself. Of a model
        `finish` reports what it set aside; of a training that an earlier call did, the manifest's
        time has its seconds; of what a reader may change (`arguments`: the pair rule, the loss),
        the manifest says what it was.
        """
        for thing in things:
            if isinstance(thing, str | Path):
                self.was_read |= paths.as_read(thing)
                continue
            if isinstance(thing, dict):
                self.was_read |= thing
                continue
            self.was_read |= getattr(thing, "read", {})
            self.kept_s += getattr(thing, "seconds_before", 0.0)
            self.control_strings.append(getattr(thing, "control_strings", {}))
            self.scored_one_by_one.append(getattr(thing, "scored_one_by_one", {}))
            reused = getattr(thing, "reused", [])
            if reused is True:  # a training
                reused = [thing.folder]
            self.reused.append(reused or [])
            for name, value in getattr(thing, "arguments", {}).items():
                self.arguments[name] = described(value)

    def wrote(self, folder: Path) -> Path:
        """Record that this run saved a model in a folder, and return that."""
        self.was_written.add(paths.place(folder))
        return folder

    def source(self, loaded, *, of_paper: bool = False, partial: bool = False) -> None:
        """Record a data source (`data.Loaded`); every later caption names it.

        `of_paper` says these are the rows the paper describes: without it no figure is ever judged
        against the paper, nor are figures of generated rows or of a file of the user's.
        """
        n, aside = len(loaded.groups), len(loaded.set_aside)
        about = {
            "name": loaded.source,
            "generated": loaded.generated,
            "partial": partial,
            "groups": n,
        }
        self.sources.append(
            about
            | {"of_paper": of_paper and not (loaded.generated or loaded.own), "set_aside": aside}
        )
        self.reads(loaded)
        display(Markdown(f"Source: {loaded.source}; {n:,} groups, {aside:,} rows set aside."))

    def caption(self, text: str) -> str:
        """`text` with the provenance every caption must carry."""
        names = "; ".join(dict.fromkeys(s["name"] for s in self.sources)) or "no data"
        notes = f" {self.warning}" if self.warning else ""
        notes += " Generated data: says nothing about the paper's." if self.generated else ""
        notes += " Partial." if any(s["partial"] for s in self.sources) else ""
        tier = f"Tier {self.tier}"
        if self.changed:
            tier += f" with other values of {', '.join(self.changed)}"
        return public(
            f"{text} Source: {names}. {tier}, seed {self.values.get('seed', DASH)}.{notes}"
        )

    def table(self, frame: pd.DataFrame, name: str, caption: str, digits: int = 3) -> pd.DataFrame:
        """Write `frame` as .csv (full precision) and .tex (booktabs), show it, and return it. Missing is a dash."""
        caption, index = self.caption(caption), not isinstance(frame.index, pd.RangeIndex)
        shown = frame.map(_public).rename(
            index=_public, columns=_public
        )  # before paths in it are escaped
        self.keep(f"{name}.csv", csv_text(shown, index=index), caption)
        style = shown.style.set_uuid(name).format(
            precision=digits, na_rep=DASH, escape="html", thousands=","
        )
        tex = shown.style.format(precision=digits, na_rep="--", escape="latex", thousands=",")
        tex = tex.format_index(escape="latex", axis=1).format_index(escape="latex", axis=0)
        if not index:
            style, tex = style.hide(axis="index"), tex.hide(axis="index")
        about = {
            "caption": escape_latex(caption),
            "label": f"tab:{name}",
            "position_float": "centering",
        }
        self.keep(f"{name}.tex", tex.to_latex(hrules=True, **about), caption)
        display(style.set_caption(html.escape(caption, quote=False)))
        return frame

    def figure(self, fig: plt.Figure, name: str, caption: str, *, marked: bool = True) -> None:
        """Write `fig` as .pdf and .png without dates inside, show it with its caption, and close
        it.

        A run that read generated data says so in the image too, below its right corner, unless
        `marked` is False: the figure shows none of them.
        """
        caption = self.caption(caption)
        if self.generated and marked:
            fig.draw_without_rendering()  # the layout, and so how far the drawing reaches, is known only then
            drawn, (width, height) = fig.get_tightbbox(), fig.get_size_inches()
            right, bottom = (
                (drawn.x1 / width, (drawn.y0 - 0.05) / height)
                if np.isfinite(drawn.x1)
                else (1.0, 0.0)
            )
            fig.text(
                right, bottom, GENERATED, ha="right", va="top", size=7, color="0.45", in_layout=True
            )
        for kind, metadata in (("pdf", {"CreationDate": None}), ("png", {"Software": None})):
            drawn = BytesIO()
            with plt.rc_context(
                {"pdf.fonttype": 42}
            ):  # letters, which editors of journals ask for, not outlines
                fig.savefig(drawn, format=kind, metadata=metadata, bbox_inches="tight", dpi=200)
            self.keep(f"{name}.{kind}", drawn.getvalue(), caption)
        display(fig)
        plt.close(fig)
        display(Markdown(f"*{html.escape(caption, quote=False)}*"))

    def against_paper(
        self, table: str, ours: pd.DataFrame, columns: list[str] | None = None
    ) -> pd.DataFrame:
        """The paper's `table` beside ours, each number judged by `hs2lib.report.verdict`.

        `ours` has columns row, column, ours, low, high (95 % interval; NaN where none) and may have
        `data`, the name of the source that a number comes from (else all sources of the run), and
        `not comparable`, another reason against a verdict, such as "other judge". A number we have
        no value for is "not run at this tier" and shows a dash.
        """
        known = paper.TABLES[table]
        ours = ours.reindex(
            columns=["row", "column", "ours", "low", "high", "data", "not comparable"]
        )
        ours = ours.astype(dict.fromkeys(["ours", "low", "high"], float)).set_index(
            ["row", "column"]
        )
        if unknown := [cell for cell in ours.index if cell not in known.rules]:
            raise KeyError(
                f"{table} has no {unknown[0]}; rows: {known.rows}; columns: {known.columns}"
            )
        own = {cell: None for cell in ours.index if cell not in known.values}  # of published models
        printed = pd.Series(known.values | own, dtype=float, name="paper").rename_axis(
            ["row", "column"]
        )
        frame = printed.to_frame().join(ours).reset_index()
        used = [
            [s for s in self.sources if pd.isna(name) or s["name"] == name]
            for name in frame.pop("data")
        ]
        why = frame["not comparable"].astype(object).where(frame["not comparable"].notna(), "")
        frame["not comparable"] = [
            not_comparable(some) or other for some, other in zip(used, why, strict=True)
        ]
        frame = frame[frame.column.isin(columns or known.columns)].reset_index(drop=True)
        frame["difference"] = frame.ours - frame.paper
        frame["verdict"] = verdict.judge(frame, known)
        frame = frame.rename(columns={"low": "95 % low", "high": "95 % high"})
        self.verdicts[table] = frame.verdict.value_counts().to_dict()
        caption = f"{known.title} ({known.source}; {known.unit}): paper against ours."
        return self.table(frame, f"against-{table}", caption, digits=4)

    def finish(self) -> None:
        """Write the manifest and put the report in its place. The last act of a notebook.

        Files of earlier runs (a table since renamed) are removed. A folder without a manifest is an
        incomplete report.
        """
        left = {place: paths.digest(paths.located(place)) for place in sorted(self.was_written)}
        read = {k: v for k, v in sorted(self.was_read.items()) if k not in left and not _scratch(k)}
        record = self.made_of | {
            "read": read,
            "written": {place: digest for place, digest in left.items() if digest},
        }
        manifest = {
            "notebook": self.notebook,
            "run": self.name,
            "tier": self.tier,
            "commit": commit(),
        } | record
        manifest |= {
            "parameters": self.values,
            "read": {paths.manifest_place(k): v for k, v in read.items()},
        }
        manifest |= {
            name: getattr(self, name) for name in ("sources", "generated", "verdicts", "artefacts")
        }
        alone = {name: why for each in self.scored_one_by_one for name, why in each.items()}
        spelt = {text: aside for each in self.control_strings for text, aside in each.items()}
        reused = sorted({str(place) for each in self.reused for place in each})
        manifest |= {
            "reused": [{"what": paths.place(place)} for place in reused],
            "arguments": self.arguments,
        }
        manifest |= {"scored_one_by_one": alone}
        manifest |= {"control_strings": len(spelt), "refused_responses": sum(spelt.values())}
        seconds = round(time.time() - self.started + self.kept_s, 1)
        manifest |= {"device": device(), "python": platform.python_version(), "wall_s": seconds}
        manifest |= {"versions": {name: version(name) for name in PACKAGES}}
        manifest |= {"finished": datetime.now(UTC).isoformat(timespec="seconds")}
        write(
            self.folder / "manifest.json",
            public(json.dumps(manifest, indent=1, ensure_ascii=False)) + "\n",
        )
        if self.folder != self.place:  # or this cell is run again
            # The manifest of an earlier report goes first; the new one comes last.
            for file in sorted(
                self.place.glob("[!.]*"), key=lambda file: file.name != "manifest.json"
            ):
                if file.suffix != ".ipynb":
                    file.unlink()
            for name in (*self.artefacts, "manifest.json"):
                (self.folder / name).replace(self.place / name)
            shutil.rmtree(self.folder)
            self.folder = self.place
        if not self.by_hand:  # for the stamp, which the runner writes
            write(graph.outputs(self.name, self.tier)["stamp"], json.dumps(record, indent=1) + "\n")
        self.lock.close()
        if spelt:
            how = f"{manifest['refused_responses']:,} were set aside, the others read as plain text (control_text)"
            display(
                Markdown(
                    f"{len(spelt):,} responses, or their prompts, spell out control strings: {how}."
                )
            )
        for place in reused:
            display(
                Markdown(f"Made by other code, and read all the same (`--reuse`): {public(place)}.")
            )
        display(Markdown(f"Finished: {len(self.artefacts)} files and the manifest written."))

    def keep(self, name: str, content: str | bytes, caption: str) -> None:
        """Write one more file into the report; the manifest names it with its caption and digest."""
        write(self.folder / name, public(content) if isinstance(content, str) else content)
        self.artefacts[name] = {"sha256": sha256(self.folder / name), "caption": caption}


def start(notebook: str, namespace: dict) -> Run:
    """Begin a run: check the parameters in `namespace` (`globals()`), seed, and show them.

    Raises ParameterError naming the parameter, its range and the value that arrived; and for a
    parameter given to papermill that the notebook does not have, of which papermill itself only
    warns.
    """
    known = parameters.specification(paths.notebook(notebook))
    parameters.check(
        dict.fromkeys(sorted(injected(namespace) - known.keys())), known, "papermill's parameters"
    )
    arrived = {name: namespace[name] for name in known if name in namespace}
    values = parameters.check(arrived, known, f"{notebook}, parameters")
    paths.hide(values)
    pd.set_option(
        "display.max_colwidth", None, "display.max_rows", 200
    )  # texts and tables are shown whole
    random.seed(values.get("seed", 0))
    np.random.seed(values.get("seed", 0))
    run = Run(notebook, values, parameters.whole_recipe(known, values))
    whole = values | (asdict(run.recipe) if run.recipe else {})
    shown = ", ".join(f"{name} = {value!r}" for name, value in whole.items() if name != "recipe")
    display(Markdown(f"**{run.name}**, tier {run.tier}  \nParameters: {shown}"))
    return run


def described(value: object) -> str:
    """A pair rule, a loss or what else a function was given, in words; of code by its name and digest."""
    name = getattr(value, "name", "")
    if name:
        return str(name)
    if isinstance(value, FunctionType):
        return f"{value.__module__}.{value.__qualname__}, code {code.digest(value)[:12]}"
    return public(repr(value))


def injected(namespace: dict) -> set[str]:
    """The names that papermill's own cell gave values to, read from the kernel's history of executed cells."""
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
        """Artefacts (name -> digest and caption) that lie in the folder. A name that leads elsewhere is no artefact."""
        artefacts = self.manifest["artefacts"].items()
        return {
            name: v
            for name, v in artefacts
            if Path(name).name == name and (self.folder / name).is_file()
        }

    @property
    def altered(self) -> list[str]:
        """Artefacts that are missing, or not as the run left them."""
        here = {name: sha256(self.folder / name) for name in self.files}
        return [
            name for name, v in self.manifest["artefacts"].items() if here.get(name) != v["sha256"]
        ]

    @property
    def data(self) -> str:
        """Whether the data was generated or real, and which real data, in words."""
        real = (
            re.split(" ?[,:(]", s["name"])[0]
            for s in self.manifest["sources"]
            if not s["generated"]
        )
        names = ", ".join(dict.fromkeys(real))
        return (
            " and ".join(filter(None, ("generated" * self.generated, names and f"real: {names}")))
            or "none"
        )

    @property
    def verdicts(self) -> str:
        """Counts of verdicts over all tables compared with the paper, in words."""
        total = sum(map(Counter, self.manifest.get("verdicts", {}).values()), Counter())
        return (
            ", ".join(f"{number} {verdict}" for verdict, number in sorted(total.items()))
            or "nothing compared"
        )

    def table(self, name: str) -> pd.DataFrame | None:
        """The csv `name` as the run left it; None where it left none. Raises ValueError where it was changed since."""
        if name not in self.files:
            return None
        if sha256(self.folder / name) != self.files[name]["sha256"]:
            raise ValueError(
                f"{self.folder / name}: not as the run left it; run notebook {self.notebook} again"
            )
        return read_table(self.folder / name)

    def figures(self) -> list[dict]:
        """Figures (notebook, name, caption, pdf, png) that the run left and nobody changed."""
        altered, files = self.altered, self.files
        whole = {name: self.folder / name for name in files if name not in altered}
        drawn = [pdf for pdf in whole.values() if pdf.suffix == ".pdf"]
        about = {"notebook": self.notebook}
        return [
            about | {"name": f.stem, "pdf": f, "png": whole.get(f"{f.stem}.png")} | files[f.name]
            for f in drawn
        ]


def completed(tier: str, notebook: str, folder: Path | None = None) -> CompletedRun | None:
    """The run of a notebook at a tier if it ended, else None. folder: where its report lies, else under `reports()`."""
    folder = folder or reports() / tier / run_name(notebook)
    manifest = read_json(folder / "manifest.json")
    return (
        CompletedRun(tier, notebook, folder, manifest)
        if {"artefacts", "sources"} <= set(manifest or ())
        else None
    )


def csv_text(frame: pd.DataFrame, *, index: bool = False, digits: str | None = "%.10g") -> str:
    """`frame` as CSV in which a spreadsheet finds no formula, numbers with ten digits (None: all
    that they have).

    A text that begins with one of = + - @, a tab, a return or an apostrophe gets an apostrophe in
    front, which `plain_cell` takes away again. Numbers stay as they are, also those that are
    written as text.
    """
    safe = frame.map(_safe_cell).rename(index=_safe_cell, columns=_safe_cell)
    # A lone return ends a row for who reads it, and the writer leaves it bare: such a frame has all
    # its texts quoted.
    bare = safe.map(lambda cell: isinstance(cell, str) and "\r" in cell).any(axis=None)
    quoting = csv.QUOTE_NONNUMERIC if bare else csv.QUOTE_MINIMAL
    return safe.to_csv(index=index, float_format=digits, lineterminator="\n", quoting=quoting)


def _scratch(place: str) -> bool:
    """Whether the run made this file for itself, in a temporary folder, and has removed it again."""
    path = paths.located(place)
    return path is not None and path.is_relative_to(tempfile.gettempdir()) and not path.exists()


def _public(value: object) -> object:
    return public(value) if isinstance(value, str) else value


def _safe_cell(value: object) -> object:
    if not isinstance(value, str) or not value.startswith(
        tuple("=+-@\t\r'\uff1d\uff0b\uff0d\uff20")
    ):
        return value  # the last four are the first four in full width, which some spreadsheets take for them
    return value if re.fullmatch(r"[+-][\d.]+(e[+-]?\d+)?", value, re.I) else f"'{value}"


TEXTS = {
    "keep_default_na": False,
    "na_values": [""],
}  # for pandas.read_csv: "None" and "NA" are texts


def read_table(path: Path) -> pd.DataFrame:
    """The frame that `csv_text` wrote to a file, its texts as they were."""
    return pd.read_csv(path, **TEXTS).map(plain_cell).rename(columns=plain_cell)


def plain_cell(value: object) -> object:
    """The cell that `csv_text` wrote: without the apostrophe in front."""
    return value.removeprefix("'") if isinstance(value, str) else value


_TEX = {c: f"\\{c}" for c in "&%$#_{}"}
_TEX |= {"~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "\\": r"\textbackslash{}"}


def escape_latex(text: str) -> str:
    """Text for LaTeX, with its special characters escaped."""
    return text.translate(str.maketrans(_TEX))
