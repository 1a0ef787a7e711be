"""`hs2 publish`: copy reports of your runs to `reports/published/<tier>/`, which git tracks.

    hs2 publish --tier demo 05 06@seed-1
    hs2 publish all

Published are the manifest, the CSV tables and, of generated data, the executed notebook, which
shows the figures. Figures' own files and tables for LaTeX stay with the run that wrote them.

A published report belongs to the commit that its manifest names, for good, and changes only here.
So it must be what that commit gives, and must have read what is published. Its commit is HEAD or
before it, and nothing has changed since that decides a result (`key.why`). Every fault is named
before anything is written, and all runs are published or none.
"""

import argparse
import filecmp
import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from hs2lib import code, paths
from hs2lib.commands.compare import complete
from hs2lib.report.report import completed
from hs2lib.runs import graph, key
from hs2lib.runs.parameters import ParameterError

ALL = "all"  # on the command line: every complete run of the tier

# Nobody keeps a report of the smallest sizes.
TIERS = [tier for tier in graph.TIERS if tier != "smoke"]

# Untracked files in these folders count as changes: a run may read them.
SOURCES = ("hs2lib/", "notebooks/", "params/")


def tables_only(tier: str, run: str) -> bool:
    """Whether a run is published without its executed notebook.

    This holds for the named runs of tier demo, which `make matrix` makes again, and for every run
    on real rows: its notebook shows texts of others. .gitignore says the same.
    """
    return tier != "demo" or "@" in run


def publish(tier: str, runs: list[str]) -> list[str]:
    """Publish the reports of runs, and return those that were not published already.

    Raises:
        ParameterError: it names every fault; nothing is written then.
        OSError: git or the disk fails; every published report is then as it was.
    """
    published = {}
    for file in (paths.published_reports() / tier).glob("[0-9]*/manifest.json"):
        published[file.parent.name] = paths.read_json(file) or {}
    new = {}
    faults = [f"{name} is not as committed: commit or undo that" for name in uncommitted()]
    for run in runs:
        report = completed(tier, run, paths.reports() / tier / run)
        if report is None:
            faults.append(f"{run} has no complete report in {paths.reports() / tier}")
            continue
        if report.altered:
            faults.append(f"{run} was altered ({', '.join(report.altered)}): run it again")
        is_there = run in published and said(report.manifest) == said(published[run])
        if not is_there or other_words(tier, run):
            new[run] = report.manifest
    faults += [*of_runs(tier, new), *of_commits(new), *of_readers(new, published | new)]
    if faults:
        raise ParameterError("\n  ".join(["nothing was published:", *faults]))
    if new:
        put(tier, list(new))
    return list(new)


def said(manifest: dict) -> tuple:
    """What readers of a report rely on: its files, its results, and the results it read."""
    digests = {name: artefact["sha256"] for name, artefact in manifest.get("artefacts", {}).items()}
    return digests, manifest.get("results"), manifest.get("upstream")


def other_words(tier: str, run: str) -> bool:
    """Whether the executed notebook of a run is another than the published one."""
    if tables_only(tier, run):
        return False
    of_run = Path(tier) / run / f"{run}.ipynb"
    ours = paths.reports() / of_run
    published = paths.published_reports() / of_run
    return not published.is_file() or not filecmp.cmp(ours, published, shallow=False)


# Why runs must not be published. Each sentence says what to do.


def uncommitted() -> list[str]:
    """Tracked files that differ from the commit, and untracked ones that a run may read.

    Raises OSError outside git.
    """
    listed = _git("status", "--porcelain", "--untracked-files=all")
    if listed.returncode:
        raise OSError(f"git cannot say whether all is committed: {listed.stderr.strip()}")
    names = []
    for line in listed.stdout.splitlines():
        name = line[3:].strip('"')
        if not line.startswith("??") or name.startswith(SOURCES):
            names.append(name)
    return names


def _git(*words: str) -> subprocess.CompletedProcess:
    """What git says in the checkout."""
    command = ["git", "-C", str(paths.root()), *words]
    return subprocess.run(command, capture_output=True, text=True)


def of_runs(tier: str, new: dict[str, dict]) -> list[str]:
    """Runs that are not what the code, the parameters and the data of today give."""
    known: dict[str, bool] = {}
    reasons = {run: key.why(run, tier, known) for run in new}
    return [f"{run} is not current ({why}): run it again" for run, why in reasons.items() if why]


def of_commits(new: dict[str, dict]) -> list[str]:
    """Runs of a commit that nobody can check out ("unknown", "abc+"), or of several commits."""
    commits = {run: str(manifest.get("commit")) for run, manifest in new.items()}
    faults = []
    for run, commit in commits.items():
        if _git("merge-base", "--is-ancestor", commit, "HEAD").returncode:
            faults.append(
                f"{run} is of {commit}, not of HEAD or before it: commit, and run it again"
            )
    if len(set(commits.values())) > 1:
        words = ", ".join(f"{run}: {commit}" for run, commit in commits.items())
        faults.append(f"the runs are of several commits ({words}): publish those of one")
    return faults


def of_readers(new: dict[str, dict], after: dict[str, dict]) -> list[str]:
    """Runs that read other results than those that lie beside them afterwards.

    Args:
        new: the manifests to be published, by run.
        after: all that are published then.
    """
    faults = []
    for reader, manifest in after.items():
        for name, digest in manifest.get("upstream", {}).items():
            if "/" in name:  # a report of another tier, which is not of this plan
                continue
            if {reader, name} & new.keys() and digest != results_in(after.get(name, {}), manifest):
                faults.append(f"{reader} read other results of {name}: publish both, of one walk")
    return faults


def results_in(manifest: dict, reader: dict) -> str:
    """The digest of a run's results as a reader notes it (`key.upstream`); "" for no results.

    Notebook 14 reads reports. Other readers read `results.json`; a notebook that only draws writes
    it after its manifest, from which it is made here as there.

    Args:
        manifest: of the run.
        reader: the manifest of its reader.
    """
    if not manifest:
        return ""
    tables = key.table_digests(manifest["artefacts"])
    if "beside" in reader["parameters"]:
        return code.hashed(tables)
    results = {"numbers": manifest.get("numbers", {}), "tables": tables}
    text = json.dumps(results, indent=1, sort_keys=True) + "\n"
    return manifest.get("results") or hashlib.sha256(text.encode()).hexdigest()


# Publishing.


def put(tier: str, runs: list[str]) -> None:
    """Copy the reports of runs to where they are published: all of them, or none.

    The tier's folder is made anew beside the published one, under a name that git ignores, and then
    takes its place. Raises OSError where that fails; the published folder is then as it was.
    """
    folder = paths.published_reports() / tier
    copy = folder.with_name(f".{tier}.{os.getpid()}")
    earlier = copy.with_name(f"{copy.name}.earlier")
    folder.mkdir(parents=True, exist_ok=True)
    try:
        shutil.copytree(folder, copy)
        for run in runs:
            shutil.rmtree(copy / run, ignore_errors=True)
            copy_report(tier, run, copy / run)
        folder.rename(earlier)
        try:
            copy.rename(folder)
        except BaseException:
            earlier.rename(folder)
            raise
    finally:
        shutil.rmtree(copy, ignore_errors=True)
    shutil.rmtree(earlier, ignore_errors=True)


def copy_report(tier: str, run: str, copy: Path) -> None:
    """Copy what is published of a run's report to a new folder."""
    source = paths.reports() / tier / run
    names = [name for name in completed(tier, run, source).files if name.endswith(".csv")]
    names.append("manifest.json")
    if not tables_only(tier, run):
        names.append(f"{run}.ipynb")
    copy.mkdir()
    for name in names:
        shutil.copyfile(source / name, copy / name)


def main(words: list[str]) -> int:
    """`hs2 publish`; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="hs2 publish", description="Copy reports of your runs to reports/published."
    )
    parser.add_argument("run", nargs="+", help=f"05, a named run such as 06@seed-1, or {ALL}")
    parser.add_argument("--tier", choices=TIERS, default="demo", help="default: demo")
    args = parser.parse_args(words)
    try:
        if args.run == [ALL]:
            runs = complete(paths.reports() / args.tier)
        else:
            runs = graph.matching(args.run)
        new = publish(args.tier, runs)
    except (OSError, ParameterError, ImportError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    for run in runs:
        outcome = "published" if run in new else "published already, with these results"
        print(f"{args.tier} {run}: {outcome}")
    return 0
