"""Reports: a run's header, tables, figures, the comparison with the paper and, last of all, the manifest.

Everything a notebook shows goes through a `Run`, so that every caption names tier, seed and data source, generated
data is called that, and a folder without `manifest.json` is an incomplete run.
"""

import json
import os
import platform
import random
import subprocess
import sys
import time
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from IPython.display import Markdown, display

from hs2lib import paper
from hs2lib.paths import notebook as notebook_path
from hs2lib.paths import reports, root, sha256, write
from hs2lib.run import parameters

DASH = "\u2013"

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
    "openai",
]


def commit() -> str:
    """Commit of the checkout, with '+' when tracked sources differ from it; 'unknown' outside git."""
    git = ["git", "-C", str(root())]
    head = subprocess.run([*git, "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True)
    if head.returncode:
        return "unknown"
    changed = subprocess.run([*git, "diff", "--quiet", "HEAD", "--", "hs2lib", "notebooks", "params"])
    return head.stdout.strip() + ("+" if changed.returncode else "")


def device() -> str:
    """The processor or accelerator that does the work, in words."""
    if "torch" in sys.modules and sys.modules["torch"].cuda.is_available():
        return sys.modules["torch"].cuda.get_device_name()
    models = (
        [x for x in Path("/proc/cpuinfo").read_text().splitlines() if x.startswith("model name")]
        if (Path("/proc/cpuinfo").exists())
        else []
    )
    return f"{models[0].partition(': ')[2] if models else platform.machine()}, {os.cpu_count()} cores"


class Run:
    """One run of one notebook at one tier; made by `start`."""

    def __init__(self, notebook: str, values: dict, recipe=None):
        self.notebook, self.values, self.tier, self.recipe = notebook, values, values["tier"], recipe
        self.folder = reports() / self.tier / notebook
        self.sources: list[dict] = []
        self.artefacts: dict[str, dict] = {}
        self.verdicts: dict[str, dict[str, int]] = {}
        self.started = time.time()
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "manifest.json").unlink(missing_ok=True)

    @property
    def generated(self) -> bool:
        """Whether anything in this run came from the embedded corpus."""
        return any(s["generated"] for s in self.sources)

    def source(self, loaded, *, of_paper: bool = False, partial: bool = False) -> None:
        """Record a data source (`data.Loaded`); every later caption names it.

        `of_paper` says these are the rows the paper describes: without it no figure is ever judged against the paper.
        """
        self.sources.append(
            {
                "name": loaded.source,
                "generated": loaded.generated,
                "of_paper": of_paper and not loaded.generated,
                "partial": partial,
                "groups": len(loaded.groups),
                "set_aside": len(loaded.set_aside),
            }
        )
        display(
            Markdown(
                f"Source: {loaded.source}; {len(loaded.groups):,} groups, {len(loaded.set_aside):,} rows set aside."
            )
        )

    def caption(self, text: str) -> str:
        """`text` with the provenance every caption must carry."""
        names = "; ".join(dict.fromkeys(s["name"] for s in self.sources)) or "no data"
        notes = " Generated data: says nothing about the paper's." if self.generated else ""
        notes += " Partial." if any(s["partial"] for s in self.sources) else ""
        return f"{text} Source: {names}. Tier {self.tier}, seed {self.values.get('seed', DASH)}.{notes}"

    def table(self, frame: pd.DataFrame, name: str, caption: str, digits: int = 3) -> pd.DataFrame:
        """Write `frame` as .csv (full precision) and .tex (booktabs), show it, and return it. Missing is a dash."""
        caption = self.caption(caption)
        index = not isinstance(frame.index, pd.RangeIndex)
        self.keep(f"{name}.csv", frame.to_csv(index=index, float_format="%.10g", lineterminator="\n"), caption)
        style = frame.style.set_uuid(name).format(precision=digits, na_rep=DASH, escape="html", thousands=",")
        tex = frame.style.format(precision=digits, na_rep="--", escape="latex", thousands=",")
        tex = tex.format_index(escape="latex", axis=1).format_index(escape="latex", axis=0)
        if not index:
            style, tex = style.hide(axis="index"), tex.hide(axis="index")
        caption_tex, label = escape_latex(caption), f"tab:{name}"
        latex = tex.to_latex(hrules=True, caption=caption_tex, label=label, position_float="centering")
        self.keep(f"{name}.tex", latex, caption)
        display(style.set_caption(_html(caption)))
        return frame

    def figure(self, fig: plt.Figure, name: str, caption: str) -> None:
        """Write `fig` as .pdf and .png without dates inside, show it with its caption, and close it."""
        caption = self.caption(caption)
        for kind, metadata in (("pdf", {"CreationDate": None}), ("png", {"Software": None})):
            partial = self.folder / f".{name}.{os.getpid()}.{kind}"
            fig.savefig(partial, metadata=metadata, bbox_inches="tight", dpi=110)
            os.replace(partial, self.folder / f"{name}.{kind}")
            self._note(f"{name}.{kind}", caption)
        display(fig)
        plt.close(fig)
        display(Markdown(f"*{_html(caption)}*"))

    def against_paper(self, table: str, ours: pd.DataFrame, columns: list[str] | None = None) -> pd.DataFrame:
        """The paper's `table` beside ours, each number judged by the tolerance fixed in `hs2lib.paper`
        or, for Tables 4 and 5, in `hs2lib.paper`.

        `ours` has columns row, column, ours, low, high (95 % interval; NaN where none). A number we have no value
        for is "not run at this tier" and shows a dash; one computed on other rows than the paper's is never judged.
        """
        known = paper.TABLES[table]
        mine = {(r.row, r.column): r for r in ours.itertuples()}
        unknown = [key for key in mine if key not in known.values]
        if unknown:
            raise KeyError(f"{table} has no {unknown[0]}; rows: {known.rows}; columns: {known.columns}")
        judged = []
        for (row, column), printed in known.values.items():
            if columns and column not in columns:
                continue
            r = mine.get((row, column))
            value, low, high = (r.ours, r.low, r.high) if r else (np.nan,) * 3
            difference = value - printed if printed is not None else np.nan
            verdict = self._verdict(value, difference, known.tolerance[row, column])
            judged.append((row, column, printed, value, low, high, difference, verdict))
        names = ["row", "column", "paper", "ours", "95 % low", "95 % high", "difference", "verdict"]
        frame = pd.DataFrame(judged, columns=names).astype({"paper": float})
        self.verdicts[table] = frame.verdict.value_counts().to_dict()
        caption = f"{known.title} ({known.source}; {known.unit}): paper against ours."
        return self.table(frame, f"against-{table}", caption, digits=4)

    def _verdict(self, value: float, difference: float, tolerance: float) -> str:
        if pd.isna(value):
            return "not run at this tier"
        if not self.sources or not all(s["of_paper"] for s in self.sources):
            return "not judged: generated data" if self.generated else "not judged: other data"
        if pd.isna(difference):
            return "paper prints none"
        return "match" if abs(difference) <= tolerance + 1e-12 else "differs"

    def finish(self) -> None:
        """Write the manifest. The last act of a notebook: without it the run is incomplete.

        Files of earlier runs that this one did not write (a table since renamed) are removed first.
        """
        for file in self.folder.glob("[!.]*"):
            if file.name not in self.artefacts and file.suffix != ".ipynb":
                file.unlink()
        manifest = {
            "notebook": self.notebook,
            "tier": self.tier,
            "commit": commit(),
            "source_sha256": sha256(notebook_path(self.notebook)),
            "parameters": self.values,
            "recipe": asdict(self.recipe) if self.recipe else {},
            "sources": self.sources,
            "generated": self.generated,
            "verdicts": self.verdicts,
            "artefacts": self.artefacts,
            "device": device(),
            "python": platform.python_version(),
            "versions": {name: version(name) for name in PACKAGES},
            "finished": datetime.now(UTC).isoformat(timespec="seconds"),
            "wall_s": round(time.time() - self.started, 1),
        }
        write(self.folder / "manifest.json", json.dumps(manifest, indent=1, ensure_ascii=False) + "\n")
        display(Markdown(f"Finished in {manifest['wall_s']} s; {len(self.artefacts)} files and the manifest written."))

    def keep(self, name: str, content: str, caption: str) -> None:
        write(self.folder / name, content)
        self._note(name, caption)

    def _note(self, name: str, caption: str) -> None:
        self.artefacts[name] = {"sha256": sha256(self.folder / name), "caption": caption}


def start(notebook: str, namespace: dict) -> Run:
    """Begin a run: check the parameters found in `namespace` (`globals()`), seed, show versions, device and commit.

    Raises ParameterError naming the parameter, its range and the value that arrived.
    """
    known = parameters.specification(notebook_path(notebook))
    given = {name: namespace[name] for name in known if name in namespace}
    values = parameters.check(given, known, f"{notebook}, parameters")
    random.seed(values.get("seed", 0))
    np.random.seed(values.get("seed", 0))
    run = Run(notebook, values, parameters.whole_recipe(known, values))
    named = [("Parameters", values)] + ([("Recipe", asdict(run.recipe))] if run.recipe else [])
    lines = [f"{name}: " + ", ".join(f"{k} = {v!r}" for k, v in part.items() if k != "recipe") for name, part in named]
    display(Markdown("  \n".join([f"**{notebook}**, tier {run.tier}, commit {commit()}, {device()}", *lines])))
    return run


def _html(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


_TEX = {c: f"\\{c}" for c in "&%$#_{}"}

_TEX |= {"~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "\\": r"\textbackslash{}"}


def escape_latex(text: str) -> str:
    return "".join(_TEX.get(c, c) for c in text)
