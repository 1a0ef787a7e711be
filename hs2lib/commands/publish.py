"""`hs2 publish`: copy reports of your runs to `reports/published/<tier>/`, which git tracks.

    hs2 publish --tier demo 05 06@seed-1
    hs2 publish all

A published report belongs to the commit that its manifest names, for good: it changes only here. So
it must be what that commit gives, and must have read what is published. All that one command
publishes is of one commit. It is HEAD or before it, and nothing has changed since that decides a
result (`key.why`): so HEAD gives it too, and whoever clones the project can check the commit out.
Every fault is named before anything is written (`faults`), and all runs are published or none. A
run that is published already, with these results, stays as it is.
"""

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from hs2lib import code, paths
from hs2lib.commands.compare import complete
from hs2lib.report.report import completed
from hs2lib.runs import graph, key
from hs2lib.runs.parameters import ParameterError

ALL = "all"  # on the command line: every complete run of the tier

# Nobody keeps a report of the smallest sizes.
TIERS = [tier for tier in graph.TIERS if tier != "smoke"]


def tables_only(tier: str, run: str) -> bool:
    """Whether only the CSV tables and the manifest of a run are published.

    This holds for the named runs of tier demo, of which `make matrix` makes the rest again.
    .gitignore says the same.
    """
    return tier == "demo" and "@" in run


def results_in(manifest: dict) -> str:
    """The digest of the `results.json` that a run left, as `key.results_of` says it; "" for none.

    Of a notebook that only draws it is made from the manifest, as `results.json` was.
    """
    artefacts = manifest.get("artefacts")
    if manifest.get("results") or not artefacts:
        return manifest.get("results", "")
    results = {"numbers": manifest.get("numbers", {}), "tables": key.table_digests(artefacts)}
    text = json.dumps(results, indent=1, sort_keys=True) + "\n"
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True)
class Plan:
    """What a command would publish at a tier.

    Fields:
        asked: the manifests of the reports that it names, by run.
        published: the manifests that are published now, by run.
    """

    tier: str
    asked: dict[str, dict]
    published: dict[str, dict]

    @cached_property
    def new(self) -> dict[str, dict]:
        """Those of `asked` that do not say what is published already."""
        return {
            run: manifest
            for run, manifest in self.asked.items()
            if run not in self.published or _said(manifest) != _said(self.published[run])
        }

    @cached_property
    def after(self) -> dict[str, dict]:
        """The manifests that are published afterwards, by run."""
        return self.published | self.new


def _said(manifest: dict) -> tuple:
    """What of a report its readers rely on: its files, its results, and the results it read."""
    artefacts = manifest.get("artefacts", {})
    digests = {name: artefact["sha256"] for name, artefact in artefacts.items()}
    return digests, results_in(manifest), manifest.get("upstream")


def plan(tier: str, runs: list[str]) -> Plan:
    """The plan to publish these runs.

    Raises ParameterError that names those without a complete report.
    """
    folder = paths.reports() / tier
    found = {run: completed(tier, run, folder / run) for run in runs}
    missing = [run for run, report in found.items() if report is None]
    if missing:
        raise ParameterError(f"no complete report in {folder} of {', '.join(missing)}")
    asked = {run: report.manifest for run, report in found.items()}
    published = {}
    for file in sorted((paths.published_reports() / tier).glob("[0-9]*/manifest.json")):
        published[file.parent.name] = paths.read_json(file) or {}
    return Plan(tier, asked, published)


# Why runs must not be published.


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
        is_tracked = not line.startswith("??")
        if is_tracked or name.startswith(("hs2lib/", "notebooks/", "params/")):
            names.append(name)
    return names


def _git(*words: str) -> subprocess.CompletedProcess:
    """What git says in the checkout."""
    command = ["git", "-C", str(paths.root()), *words]
    return subprocess.run(command, capture_output=True, text=True)


def faults(of: Plan) -> list[str]:
    """Why the runs of a plan must not be published; each reason names a run and what to do."""
    return [*_of_reports(of), *_of_commits(of), *_of_readers(of), *_of_seeds(of)]


def _of_reports(of: Plan) -> list[str]:
    """Reports that were altered, or are not what a run would leave today."""
    sentences = []
    for run in of.asked:
        folder = paths.reports() / of.tier / run
        altered = completed(of.tier, run, folder).altered
        if not (folder / f"{run}.ipynb").exists():
            altered.append(f"{run}.ipynb")
        if altered:
            sentences.append(
                f"{run} is not as its run left it ({', '.join(altered)}): run it again"
            )
    known: dict[str, bool] = {}
    for run, manifest in of.new.items():
        made = paths.read_json(key.made_file(run, of.tier, key.DRAW)) or {}
        why = key.why(run, of.tier, known)
        if not why and made.get("finished") != manifest.get("finished"):
            why = "its report is of another run"
        if why:
            sentences.append(f"{run} is not current ({why}): run it again")
        if manifest.get("parameters", {}).get("published"):
            sentences.append(f"{run} read the published reports: publish a run that read its own")
    return sentences


def _of_commits(of: Plan) -> list[str]:
    """Runs of a commit that nobody can check out, or of several commits."""
    runs_at: dict[str, list[str]] = {}
    for run, manifest in of.new.items():
        runs_at.setdefault(str(manifest.get("commit", "unknown")), []).append(run)
    sentences = []
    for commit in list(runs_at):
        if _git("merge-base", "--is-ancestor", commit, "HEAD").returncode:
            runs = ", ".join(runs_at.pop(commit))
            sentences.append(
                f"commit {commit}, of {runs}, is not HEAD or before it: "
                "commit, remove these reports and run again"
            )
    if len(runs_at) > 1:
        words = "; ".join(f"{commit}: {', '.join(runs)}" for commit, runs in runs_at.items())
        sentences.append(f"the runs are of several commits ({words}): publish those of one")
    return sentences


def _of_readers(of: Plan) -> list[str]:
    """Runs, new or published, that read other results than those published afterwards.

    Notebook 14 reads all reports: it must have read each that is published.
    """
    sentences = []
    for reader, manifest in sorted(of.after.items()):
        read = manifest.get("upstream", {})
        shows_reports = "beside" in manifest.get("parameters", {})
        for name, digest in read.items():
            if not {reader, name} & of.new.keys() or digest == _results(of, name, shows_reports):
                continue
            if reader in of.new:
                what = f"{reader} read other results of {name} than those published"
                sentences.append(f"{what}: publish {name} with it")
            else:
                what = f"{reader}, which is published, read other results of {name}"
                sentences.append(f"{what}: publish a run of {reader} that read these with it")
        if shows_reports and reader in of.new:
            notebooks = {name.partition("@")[0] for name in read}  # 14 has no part of the others
            unread = [
                name for name in of.after.keys() - read if name.partition("@")[0] in notebooks
            ]
            for name in sorted(unread):
                what = f"{reader} did not read {name}, which is published"
                sentences.append(f"{what}: run {name}, then {reader} again")
    return sentences


def _results(of: Plan, name: str, shows_reports: bool) -> str:
    """The digest of a run's results, as its readers note it, once the plan is done.

    name: a run of the tier, or tier/run of another. shows_reports: whether the reader does (14).
    """
    other_tier, _, run = name.rpartition("/")
    is_new = not other_tier and run in of.new
    folder = paths.reports() if is_new else paths.published_reports()
    manifest = folder / (other_tier or of.tier) / run / "manifest.json"
    return key.tables(manifest) if shows_reports else results_in(paths.read_json(manifest) or {})


def _of_seeds(of: Plan) -> list[str]:
    """Seeds of one run that differ by more than the seed: a mean over them would mean nothing."""
    sentences = []
    for seedless in sorted({graph.without_seed(run)[0] for run in of.new}):
        first, *others = sorted(run for run in of.after if graph.without_seed(run)[0] == seedless)
        for other in others:
            differing = _differing_but_in_seed(of.after[first], of.after[other])
            if differing:
                what = f"{first} and {other} differ by more than the seed ({differing})"
                sentences.append(f"{what}: publish them alike")
    return sentences


def _differing_but_in_seed(one: dict, other: dict) -> str:
    """In what two manifests differ besides the seed, in words; "" where they do not."""
    # A setting may be a parameter in the one, and in the recipe in the other.
    settings = [of.get("parameters", {}) | of.get("recipe", {}) for of in (one, other)]
    differing = [name for name in code.differing(*settings) if name not in ("seed", "recipe")]
    if differing:
        return ", ".join(differing)
    if one.get("code", {}).get("computes") != other.get("code", {}).get("computes"):
        return "their code"
    read = []
    for of in (one, other):
        read.append({graph.without_seed(name)[0] for name in of.get("upstream", {})})
    return "the runs they read" if read[0] != read[1] else ""


# Publishing.


def put(tier: str, runs: list[str]) -> None:
    """Copy the reports of runs to where they are published: all of them, or none.

    All copies are made first, next to the published reports and under names that git ignores; then
    they are renamed. Raises OSError where one cannot be written; every earlier report is then as it
    was.
    """
    folder = paths.published_reports() / tier
    copies = {run: folder / f".{run}.{os.getpid()}" for run in runs}
    try:
        for run, copy in copies.items():
            copy_report(tier, run, copy)
        replace(folder, copies)
    finally:
        for copy in copies.values():
            shutil.rmtree(copy, ignore_errors=True)


def copy_report(tier: str, run: str, copy: Path) -> None:
    """Copy what is published of a run's report to a new folder.

    Raises OSError where it cannot be written.
    """
    source = paths.reports() / tier / run
    names = [*completed(tier, run, source).files, "manifest.json", f"{run}.ipynb"]
    if tables_only(tier, run):
        names = [name for name in names if name.endswith(".csv") or name == "manifest.json"]
    copy.mkdir(parents=True)
    for name in names:
        shutil.copyfile(source / name, copy / name)


def replace(folder: Path, copies: dict[str, Path]) -> None:
    """Rename the copy of each run to the run's name in the folder, in place of the earlier report.

    Raises OSError where one cannot be renamed; all earlier reports are then back in their places.
    """
    earlier = {run: copy.with_name(f"{copy.name}.earlier") for run, copy in copies.items()}
    try:
        for run, copy in copies.items():
            target = folder / run
            if target.exists():
                target.rename(earlier[run])
            copy.rename(target)
    except BaseException:
        for run, copy in copies.items():
            target = folder / run
            if not copy.exists():
                target.rename(copy)
            if earlier[run].exists():
                earlier[run].rename(target)
        raise
    for report in earlier.values():
        shutil.rmtree(report, ignore_errors=True)


def publish(tier: str, runs: list[str]) -> list[str]:
    """Publish the reports of runs, and return those that were not published already.

    Raises:
        ParameterError: it names every fault; nothing is written then.
        OSError: git or the disk fails.
    """
    changed = uncommitted()
    if changed:
        more = f" and {len(changed) - 5} more" if len(changed) > 5 else ""
        raise ParameterError(
            f"the checkout is not as committed ({', '.join(changed[:5])}{more}): "
            "commit or undo that first"
        )
    planned = plan(tier, runs)
    sentences = faults(planned)
    if sentences:
        raise ParameterError("\n  ".join(["nothing was published:", *sentences]))
    new = list(planned.new)
    put(tier, new)
    return new


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
