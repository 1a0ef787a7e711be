"""Publish reports: copy those of complete local runs to `reports/published/<tier>/`.

    make publish RUNS="05 06@seed-1"
    python -m hs2lib.launch.publish --tier demo 05 06@seed-1      # the same

That folder is tracked. A published report is of the commit that its manifest names, for good: it
changes only here. So what is published must be what that commit gives, and must have read what is
published. All faults of all runs are named before anything is written (`faults`), and all runs are
published or none. A run with the results that are published already leaves every file there as it
is, its manifest too.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from hs2lib import paths
from hs2lib.launch.compare import complete
from hs2lib.report.report import completed
from hs2lib.run import graph
from hs2lib.run.parameters import ParameterError

ALL = "all"  # on the command line: every complete run of the tier

# Nobody keeps a report of the smallest sizes.
TIERS = [tier for tier in graph.TIERS if tier != "smoke"]


def tables_only(tier: str, run: str) -> bool:
    """Whether only the CSV tables and the manifest of a run are published.

    This holds for the named runs of tier demo, of which `make matrix` makes the rest again.
    .gitignore says the same.
    """
    return tier == "demo" and "@" in run


def uncommitted() -> list[str]:
    """Tracked files that differ from the commit, and untracked ones that a run may read.

    Raises OSError outside git.
    """
    command = ["git", "-C", str(paths.root()), "status", "--porcelain", "--untracked-files=all"]
    listed = subprocess.run(command, capture_output=True, text=True)
    if listed.returncode:
        raise OSError(
            f"git cannot say whether {paths.root()} is as committed: {listed.stderr.strip()}"
        )
    names = []
    for line in listed.stdout.splitlines():
        name = line[3:].strip('"')
        is_tracked = not line.startswith("??")
        if is_tracked or name.startswith(("hs2lib/", "notebooks/", "params/")):
            names.append(name)
    return names


@dataclass(frozen=True)
class Plan:
    """The runs to publish at a tier.

    Fields:
        own: the manifests of their reports, by run.
        published: the manifests that are published before, by run.
    """

    tier: str
    own: dict[str, dict]
    published: dict[str, dict]

    @property
    def after(self) -> dict[str, dict]:
        """The manifests that are published once the plan is done, by run.

        For a run whose results stay the same it is the newer one.
        """
        return self.published | self.own

    def unchanged(self, run: str) -> bool:
        """Whether the run's results are those that are published already.

        Every artefact then has the same digest.
        """
        return run in self.published and _digests(self.own[run]) == _digests(self.published[run])

    def results_of(self, name: str) -> str:
        """What `graph.results` says of a run once the plan is done.

        name: a run of the tier, or tier/run of another.
        """
        other_tier, _, run = name.rpartition("/")
        if not other_tier and run in self.own:
            folder = paths.reports()
        else:
            folder = paths.published_reports()
        return graph.results(folder / (other_tier or self.tier) / run / "manifest.json")


def _digests(manifest: dict) -> dict[str, str]:
    """The digests of a manifest's artefacts, by name."""
    artefacts = manifest.get("artefacts", {})
    return {name: artefact["sha256"] for name, artefact in artefacts.items()}


def plan(tier: str, runs: list[str]) -> Plan:
    """The plan to publish these runs.

    Raises ParameterError that names those without a complete report.
    """
    own = {}
    for run in runs:
        own[run] = paths.read_json(paths.reports() / tier / run / "manifest.json") or {}
    missing = [run for run, manifest in own.items() if "artefacts" not in manifest]
    if missing:
        raise ParameterError(
            f"no complete report in {paths.reports() / tier} of {', '.join(missing)}: run it first"
        )
    published = {}
    for file in sorted((paths.published_reports() / tier).glob("[0-9]*/manifest.json")):
        published[file.parent.name] = paths.read_json(file) or {}
    return Plan(tier, own, published)


# Why a run must not be published.


def faults(of: Plan) -> list[str]:
    """Why the runs of a plan must not be published; empty where they may be.

    Each reason is a sentence that names the run and what to do.
    """
    sentences = []
    for run in of.own:
        sentences += left_otherwise(of, run)
        if not of.unchanged(run):
            sentences += made_otherwise(of, run)
            sentences += read_otherwise(of, run)
    sentences += left_behind(of)
    sentences += seeds_otherwise(of)
    return sentences


def left_otherwise(of: Plan, run: str) -> list[str]:
    """A fault where a report is not as its run left it."""
    folder = paths.reports() / of.tier / run
    altered = completed(of.tier, run, folder).altered
    if not (folder / f"{run}.ipynb").exists():
        altered.append(f"{run}.ipynb")
    if not altered:
        return []
    return [f"{run} is not as its run left it ({', '.join(altered)}): run it again"]


def made_otherwise(of: Plan, run: str) -> list[str]:
    """Faults where today's commit does not give what the run gave.

    They are in its commit, its code, work that it read, and its parameters.
    """
    manifest = of.own[run]
    _, values, recipe = graph.resolved(run, of.tier)
    paths.hide(values)
    today = json.loads(paths.public(json.dumps(graph.made_of(run, of.tier, values, recipe))))
    sentences = []
    commit = str(manifest.get("commit", "unknown"))
    if commit.endswith("+") or commit == "unknown":
        sentences.append(
            f"{run} was made at commit {commit}, which nobody can check out: "
            "commit, and run it again"
        )
    if "computes" not in manifest.get("code", {}):
        sentences.append(
            f"{run} does not say what code computed it, and counts as made by other code: "
            "run it again"
        )
    elif code_of(manifest) != code_of(today | {"generated": manifest.get("generated")}):
        sentences.append(f"{run} was computed by other code than today's: run it again")
    reused = [str(work.get("what")) for work in manifest.get("reused", [])]
    if reused:
        sentences.append(
            f"{run} read what other code had made ({', '.join(reused)}): "
            "run it again without --reuse"
        )
    changed = differing(manifest, today)
    if changed:
        sentences.append(
            f"{run} has other parameters than today's ({', '.join(changed)}): run it again"
        )
    if manifest.get("parameters", {}).get("published"):
        sentences.append(f"{run} read the published reports: publish a run that read its own")
    return sentences


def read_otherwise(of: Plan, run: str) -> list[str]:
    """Faults where a run read results that are not published, nor published with it.

    Notebook 14 reads all reports: a published one that it did not read is a fault too.
    """
    manifest = of.own[run]
    read = manifest.get("upstream", {})
    sentences = []
    for name, digest in read.items():
        if digest != of.results_of(name):
            sentences.append(
                f"{run} read other results of {name} than those published: publish that one with it"
            )
    if "beside" in manifest.get("parameters", {}):
        needed = {name.partition("@")[0] for name in read}  # notebooks: not all are reported on
        reports = {name for name in of.after if name.partition("@")[0] in needed}
        for name in sorted(reports - read.keys()):
            sentences.append(
                f"{run} did not read {name}, which is published: run {name}, then {run} again"
            )
    return sentences


def left_behind(of: Plan) -> list[str]:
    """Faults where a run that stays published read other results than those of the plan.

    A run of the plan whose own results stay is judged by what its new report read.
    """
    new = {run for run in of.own if not of.unchanged(run)}
    sentences = []
    for reader in sorted(of.after.keys() - new):
        for name, digest in of.after[reader].get("upstream", {}).items():
            if name in new and digest != of.results_of(name):
                sentences.append(
                    f"{reader}, which is published, read other results of {name}: "
                    f"publish {reader} with it"
                )
    return sentences


def seeds_otherwise(of: Plan) -> list[str]:
    """Faults where seeds of one run differ by more than the seed.

    Their mean would be one of different things: other settings, other code, or other runs read. The
    new runs are looked at, and all that they read.
    """
    names: set[str] = set()
    waiting = [run for run in of.own if not of.unchanged(run)]
    while waiting:
        name = waiting.pop()
        if name in of.after and name not in names:
            names.add(name)
            waiting += of.after[name].get("upstream", {})
    sentences = []
    for seedless in sorted({graph.without_seed(name)[0] for name in names}):
        first, *others = sorted(
            name for name in of.after if graph.without_seed(name)[0] == seedless
        )
        for other in others:
            sentences += _seed_faults(first, of.after[first], other, of.after[other])
    return sentences


def _seed_faults(first: str, first_manifest: dict, other: str, other_manifest: dict) -> list[str]:
    """A fault where two seeds of one run, by name and manifest, differ by more than the seed."""
    settings = [name for name in differing(first_manifest, other_manifest) if name != "seed"]
    if settings:
        return [
            f"{first} and {other} differ by more than the seed ({', '.join(settings)}): "
            "publish them alike"
        ]
    if code_of(first_manifest) != code_of(other_manifest):
        return [f"{first} and {other} were computed by different code: publish them together"]
    if _seedless_upstream(first_manifest) != _seedless_upstream(other_manifest):
        return [f"{first} and {other} read different runs: publish them alike"]
    return []


def differing(one: dict, other: dict) -> list[str]:
    """The settings in which two records (`parameters` and `recipe`) differ, in order.

    A setting may stand in the cell of parameters in one, and in the recipe in the other.
    """
    settings = one.get("parameters", {}) | one.get("recipe", {})
    other_settings = other.get("parameters", {}) | other.get("recipe", {})
    names = []
    for name in sorted((settings.keys() | other_settings.keys()) - {"recipe"}):
        in_one_only = name not in settings or name not in other_settings
        if in_one_only or settings[name] != other_settings[name]:
            names.append(name)
    return names


def code_of(manifest: dict) -> dict[str, str | None]:
    """The digests of the code that made a run's numbers, without what only draws.

    The code of the small world has a digest of its own where the tier has real data. It counts only
    for a run that generated rows.
    """
    uses = ["computes", "notebook"]
    if manifest.get("generated"):
        uses.append("world")
    return {use: manifest.get("code", {}).get(use) for use in uses}


def _seedless_upstream(manifest: dict) -> set[str]:
    """The runs that a run read, each without what was added to its seed."""
    return {graph.without_seed(name)[0] for name in manifest.get("upstream", {})}


# Publishing.


def put(tier: str, runs: list[str]) -> None:
    """Copy the reports of runs to where they are published: all of them, or none.

    All copies are made first, beside the published reports and under names that git ignores; then
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
    """Publish the reports of runs, and return those whose results are new.

    The results of the others are published already.

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
    new = [run for run in runs if not planned.unchanged(run)]
    put(tier, new)
    return new


def main(arguments: list[str] | None = None) -> int:
    """Command line: `make publish RUNS=".."`."""
    parser = argparse.ArgumentParser(
        prog="python -m hs2lib.launch.publish",
        description="Copy reports of complete local runs to reports/published/, which is tracked.",
    )
    parser.add_argument(
        "run", nargs="+", help=f"numbers or names (05), named runs (06@seed-1), or {ALL}"
    )
    parser.add_argument("--tier", choices=TIERS, default="demo", help="which tier (default: demo)")
    args = parser.parse_args(arguments)
    try:
        if args.run == [ALL]:
            runs = complete(paths.reports() / args.tier)
        else:
            runs = graph.matching(args.run)
        new = publish(args.tier, runs)
    except (OSError, ParameterError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    for run in runs:
        outcome = "published" if run in new else "published already, with these results"
        print(f"{args.tier} {run}: {outcome}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
