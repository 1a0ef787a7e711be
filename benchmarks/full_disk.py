"""A full disk, a read-only report folder, NaN and numbers out of range: one clear error each,
earlier results whole.

    python benchmarks/full_disk.py                 # Linux, user namespaces; writes reports/benchmarks/full_disk.json
    python benchmarks/full_disk.py --whole FOLDER  # with the undisturbed run, reports/ and runs/, that lies there
    python benchmarks/full_disk.py --of 11 12      # these anew, the others as the result has them

Notebooks 05 and 08 to 12 at tier smoke, on a disk of their own (tmpfs) that holds an undisturbed
run. Each is made stale and run again with hardly any room, with a little less room than it needs,
with reports on a read-only mount, with a number that is none or out of range, and on a model whose
weights are NaN. Each time the command must fail with one error that names its reason, and every
report must be as it was. With room again the next call must end with the same tables.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import common
from smoke import differences, tables

from hs2lib import paths
from hs2lib.models.policy import load_policy
from hs2lib.report import report
from hs2lib.run import graph

NOTEBOOKS = ("05", "08", "09", "10", "11", "12")
INSIDE = "HS2_FULL_DISK"  # set in the namespace in which mounts are ours
FULL = r"No space left on device|the disk is full; 0 MB are free"  # a job's log may have had no room for more
REASONS = {
    "full at once": FULL,
    "full late": FULL,
    "read-only": r"Read-only file system",
    "nan": r"learning_rate = nan is (outside|not finite)",
    "out of range": r"learning_rate = 7\.0 is outside 0 to 1",
    "NaN weights": r"not finite|\bnan\b",
}


def mount(*words: str | Path) -> None:
    """`mount`, in the namespace of this process."""
    subprocess.run(["mount", *map(str, words)], check=True)


def size_of(folder: Path) -> int:
    """Kilobytes that a folder takes."""
    return int(
        subprocess.run(
            ["du", "-sk", folder], check=True, capture_output=True, text=True
        ).stdout.split()[0]
    )


def room(disk: Path, kilobytes: int) -> None:
    """Leave so much room on the disk."""
    mount("-o", f"remount,size={size_of(disk) + kilobytes}k", disk)


def run(disk: Path, *words: str) -> dict:
    """`hs2lib.run` on the disk: its exit status, what it said, its seconds."""
    places = {
        "HS2_REPORTS": str(disk / "reports"),
        "HS2_RUNS": str(disk / "runs"),
        "OMP_NUM_THREADS": "1",
    }
    command, began = [sys.executable, "-m", "hs2lib.run", *words], time.time()
    done = subprocess.run(
        command, cwd=paths.root(), env=os.environ | places, capture_output=True, text=True
    )
    return {
        "status": done.returncode,
        "said": done.stdout + done.stderr,
        "seconds": round(time.time() - began, 1),
    }


def failed(disk: Path, what: str, whole: dict[str, str], *words: str) -> dict:
    """How a run ended that has to fail for this reason, and whether all reports are as they were."""
    done = run(disk, *words)
    output = done["said"]
    folders = [
        folder for folder in (disk / "reports" / "smoke").glob("[0-9]*") if "@" not in folder.name
    ]
    reports = [report.completed("smoke", folder.name, folder) for folder in folders]
    here = tables(disk)
    whole_still = all(here.get(name) == digest for name, digest in whole.items())
    whole_still = whole_still and all(each and not each.altered for each in reports)
    errors = len(re.findall("^error:", output, re.M))
    clear = (
        errors == 1
        and bool(re.search(REASONS[what], output))
        and "most recent call last" not in output
    )
    ok = bool(done["status"]) and clear and whole_still
    row = {
        "what": what,
        "ok": ok,
        "status": done["status"],
        "errors": errors,
        "reports whole": whole_still,
    }
    return row | {"seconds": done["seconds"]} | ({} if ok else {"said": output[-3000:]})


def trials(disk: Path, number: str, whole: dict[str, str], broken: Path) -> list[dict]:
    """All that may happen to one notebook, one after the other."""
    (name,) = graph.matching([number])
    needs = size_of(disk / "runs" / "smoke" / name)
    shutil.rmtree(disk / "runs" / "smoke" / name)
    rows = []
    for what, kilobytes in (("full at once", 8), ("full late", max(500, needs * 3 // 4))):
        room(disk, kilobytes)
        rows.append(failed(disk, what, whole, number))
    room(disk, 500_000)
    mount("--bind", disk / "reports", disk / "reports")
    mount("-o", "remount,bind,ro", disk / "reports")
    rows.append(failed(disk, "read-only", whole, number))
    subprocess.run(["umount", disk / "reports"], check=True)
    for what, value in (("nan", "nan"), ("out of range", "7")):
        rows.append(
            failed(disk, what, whole, number, "--name", "wrong", "-p", f"learning_rate={value}")
        )
    start = "model_name" if number == "05" else "start"
    rows.append(
        failed(disk, "NaN weights", whole, number, "--name", "nan", "-p", f"{start}={broken}")
    )
    for left in disk.glob(f"*/smoke/*{name}@*"):
        shutil.rmtree(left)
    done = run(disk, number)
    same = done["status"] == 0 and not differences(disk, whole)
    rows.append(
        {"what": "room again", "ok": same, "status": done["status"], "seconds": done["seconds"]}
    )
    if not same:
        rows[-1] |= {"said": done["said"][-3000:], "differing": differences(disk, whole)[:2000]}
    for row in rows:
        print(name, {key: value for key, value in row.items() if value not in ("", [])}, flush=True)
    return [{"notebook": name} | row for row in rows]


def main() -> None:
    if INSIDE not in os.environ:
        os.environ[INSIDE] = "1"
        os.execvp("unshare", ["unshare", "--map-root-user", "--mount", sys.executable, *sys.argv])
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--whole", type=Path, help="folder of an undisturbed run of this checkout")
    parser.add_argument(
        "--of", nargs="*", default=NOTEBOOKS, choices=NOTEBOOKS, help="notebooks (all)"
    )
    options, began = parser.parse_args(), time.time()
    result, names = paths.reports() / "benchmarks" / "full_disk.json", graph.matching(options.of)
    rows = json.loads(result.read_text())["runs"] if result.exists() else []
    rows = [row for row in rows if row["notebook"] not in names]
    with tempfile.TemporaryDirectory() as scratch:
        disk = Path(scratch) / "disk"
        disk.mkdir()
        mount("-t", "tmpfs", "-o", "size=4g", "none", disk)
        for place in ("runs", "reports") if options.whole else ():
            shutil.copytree(options.whole / place, disk / place, symlinks=True)
        if (done := run(disk, *options.of))["status"]:
            sys.exit(f"the undisturbed run failed:\n{done['said'][-4000:]}")
        whole = tables(disk)
        policy, broken = load_policy("small"), disk / "broken"
        for weight in policy.parameters():
            weight.data.fill_(float("nan"))
        policy.save(broken)
        for number in options.of:
            rows += [
                row | {"commit": report.commit()} for row in trials(disk, number, whole, broken)
            ]
        subprocess.run(["umount", disk], check=True)
    good = sum(row["ok"] for row in rows)
    common.write(
        "full_disk",
        compared="what a run says and leaves that has no room, no right to write, or numbers that are none",
        ratio=good / len(rows),
        goal="all with one clear error, earlier reports whole, and the same tables once there is room",
        met=good == len(rows) == 7 * len(NOTEBOOKS),
        check=f"{good} of {len(rows)}: one line `error:` with its reason, reports byte for byte, then identical tables",
        timings={"all": [round(time.time() - began, 1)]},
        packages=["snakemake", "papermill", "torch"],
        runs=sorted(rows, key=lambda row: row["notebook"]),
    )


if __name__ == "__main__":
    main()
