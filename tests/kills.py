"""Whether a kill can hurt a run: of the runner, Snakemake, a job, its kernel, torchrun or one of
its two processes.

    python tests/kills.py            # 100 kills; writes reports/benchmarks/kills.json after each
    python tests/kills.py --kills 40 # the first 40; called again it goes on after those of this commit
    python tests/kills.py --earlier  # goes on after those of earlier commits too

Each kill falls on one notebook at tier smoke, at a random moment. Afterwards: no process of the run
is left five seconds after the runner ended; no other run can take its folders while a kernel or a
training process of it lives; and the next call ends by itself with tables byte-identical to an
undisturbed run's. Each kill goes to the target, signal and notebook furthest behind its share of
the kills so far (cheap notebooks have more): the first six hit six targets. Each kill has the
commit it was made at, whose undisturbed run it is compared with. One of an earlier commit that was
not clean stays in the result and does not count: what it showed is mended, or it comes again.
"""

import argparse
import hashlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from hs2lib import paths
from hs2lib.report.report import commit
from hs2lib.run import processes

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))
import common

TARGETS = {
    "runner": "-m hs2lib.run --tier",
    "snakemake": "-m snakemake",
    "job": "-m hs2lib.run --execute",
    "kernel": "ipykernel_launcher",
    "torchrun": "-m torch.distributed.run",
    "rank": "-u -m hs2lib.run --stage",
}
TARGET_SHARES = dict(zip(TARGETS, (4, 4, 4, 4, 2, 2), strict=True))
SIGNAL_SHARES = {"SIGKILL": 1, "SIGTERM": 1, "SIGINT": 1}
OVER_TWO = ("torchrun", "rank")  # targets in a training by two processes
TRAINED = "05_reward_model_training"  # the notebook whose training two processes share
LEFT_S = 5.0  # how long a process may outlive its runner
RUNNER = [sys.executable, "-m", "hs2lib.run", "--tier", "smoke"]
RANKS = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone"]
RANKS += ["-m", "hs2lib.run", "--stage", "train", "--tier", "smoke", TRAINED]


def begin(folder: Path, command: list[str]) -> subprocess.Popen:
    """Start a command that writes below the folder."""
    places = {
        "HS2_REPORTS": str(folder / "reports"),
        "HS2_RUNS": str(folder / "runs"),
        "OMP_NUM_THREADS": "1",
    }
    with (folder / "log").open("a") as log:
        return subprocess.Popen(
            command,
            cwd=paths.root(),
            env=os.environ | places,
            stdout=log,
            stderr=subprocess.STDOUT,
            process_group=0,
        )


def finish(folder: Path, command: list[str]) -> str:
    """Run a command that has to succeed; what it said, where it did not."""
    return (folder / "log").read_text()[-2000:] if begin(folder, command).wait() else ""


def tables(folder: Path) -> dict[str, str]:
    """The digest of every table of a finished run, by its place."""
    digests = {}
    for ending in ("csv", "tex"):
        for path in sorted(folder.glob(f"reports/smoke/*/*.{ending}")):
            digests[str(path.relative_to(folder))] = hashlib.sha256(path.read_bytes()).hexdigest()
    return digests


def differences(folder: Path, expected: dict[str, str]) -> str:
    """The tables that are not as expected, with what they hold now; empty where there are none."""
    digests = tables(folder)
    parts = []
    for name in sorted(digests.keys() | expected.keys()):
        if digests.get(name) != expected.get(name):
            text = (folder / name).read_text() if name in digests else "gone"
            parts.append(f"{name}:\n{text}")
    return "\n".join(parts)


def living(folder: Path) -> dict[int, str]:
    """The processes that write below the folder, by number: their command lines."""
    marker, commands = f"HS2_RUNS={folder / 'runs'}\0".encode(), {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if marker in (process / "environ").read_bytes():
                commands[int(process.name)] = (process / "cmdline").read_text().replace("\0", " ")
        except OSError:
            continue  # it has ended
    return commands


def intruded(folder: Path) -> bool:
    """Whether another run could take a folder of this one while a process lives that writes there."""
    training = [TARGETS["rank"]] * (
        folder / "runs" / "smoke" / TRAINED
    ).exists()  # these write no report
    for place, others in ((folder / "runs", training), (folder / "reports" / "smoke", [])):
        try:
            with processes.hold(place):
                writers = [TARGETS["kernel"], *others]
                if any(writer in line for line in living(folder).values() for writer in writers):
                    return True
        except BlockingIOError:
            continue
    return False


def kill(folder: Path, process: subprocess.Popen, target: str, name: str, moment: float) -> dict:
    """Send the signal to the target at that second of the run, or when it first appears; what happened then."""
    at = time.monotonic() + moment
    while True:
        numbers = sorted(
            number for number, line in living(folder).items() if TARGETS[target] in line
        )
        if process.poll() is not None:
            return {"outcome": "ended before the kill"}
        if numbers and time.monotonic() > at:
            break
        time.sleep(0.1)
    second_writer = intruded(folder)
    try:
        os.kill(numbers[-1], getattr(signal, name))
    except ProcessLookupError:
        return {"outcome": "ended before the kill"}
    sent = time.monotonic()
    while process.poll() is None:
        second_writer |= intruded(folder)
        time.sleep(0.05)
    ended = time.monotonic()
    while living(folder) and time.monotonic() < ended + LEFT_S:
        second_writer |= intruded(folder)
        time.sleep(0.05)
    left = list(living(folder).values())
    return {
        "outcome": "killed",
        "runner_s": round(ended - sent, 2),
        "others_s": round(time.monotonic() - ended, 2),
        "left": left,
        "second_writer": second_writer,
        "status": process.returncode,
    }


def behind(rng: random.Random, shares: dict[str, float], had: list[str]) -> str:
    """The name furthest behind its share of what was had; chance decides between equals."""
    return min(
        rng.sample(list(shares), len(shares)), key=lambda name: had.count(name) / shares[name]
    )


def draw(rng: random.Random, seconds: dict[str, float], killed: list[dict]) -> tuple[str, str, str]:
    """The target, signal and notebook of the next kill after these."""
    target = behind(rng, TARGET_SHARES, [row["target"] for row in killed])
    signal_name = behind(
        rng, SIGNAL_SHARES, [row["signal"] for row in killed if row["target"] == target]
    )
    if target in OVER_TWO:
        return target, signal_name, TRAINED
    had = [row["notebook"] for row in killed if row["target"] not in OVER_TWO]
    return target, signal_name, behind(rng, {name: 1 / s for name, s in seconds.items()}, had)


def trial(
    scratch: Path, number: int, seed: int, seconds: dict[str, float], killed: list[dict]
) -> dict:
    """One kill, drawn by its number and the kills before it, and the call after it."""
    rng = random.Random(f"{seed} {number}")
    target, name, notebook = draw(rng, seconds, killed)
    ranks = target in OVER_TWO
    whole, command = (by_two(scratch), RANKS) if ranks else (scratch / "whole", [*RUNNER, notebook])
    moment = rng.random() * (
        float((whole / "seconds").read_text()) if ranks else seconds[notebook] + 5
    )
    folder = scratch / f"kill-{number}"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(scratch / "whole", folder, symlinks=True)
    for place in ("runs", "reports"):
        shutil.rmtree(folder / place / "smoke" / notebook, ignore_errors=True)
    result = {
        "kill": number,
        "target": target,
        "signal": name,
        "notebook": notebook,
        "at_s": round(moment, 1),
    }
    result |= kill(folder, begin(folder, command), target, name, moment)
    failed = finish(folder, command) or (finish(folder, [*RUNNER, notebook]) if ranks else "")
    differing = differences(folder, tables(whole))
    result |= {"next_call": failed, "differing": differing[:2000]}
    result["clean"] = not (failed or differing or result.get("left") or result.get("second_writer"))
    if result["clean"]:
        shutil.rmtree(folder)
    return result


def undisturbed(scratch: Path, notebooks: list[str]) -> dict[str, float]:
    """A run that nobody kills; the seconds of each of its notebooks."""
    whole = scratch / "whole"
    if not (whole / "seconds.json").exists():
        shutil.rmtree(whole, ignore_errors=True)
        whole.mkdir(parents=True)
        if failed := finish(whole, [*RUNNER, *notebooks]):
            sys.exit(f"the undisturbed run failed:\n{failed}")
        lines = re.findall(r"^smoke (\w+) done in (\d+) s", (whole / "log").read_text(), re.M)
        paths.write(
            whole / "seconds.json", json.dumps({name: float(seconds) for name, seconds in lines})
        )
    return json.loads((whole / "seconds.json").read_text())


def by_two(scratch: Path) -> Path:
    """The folder of an undisturbed run whose training two processes shared."""
    ranks = scratch / "ranks"
    if not (ranks / "seconds").exists():
        shutil.rmtree(ranks, ignore_errors=True)
        shutil.copytree(scratch / "whole", ranks, symlinks=True)
        for place in ("runs", "reports"):
            shutil.rmtree(ranks / place / "smoke" / TRAINED, ignore_errors=True)
        began = time.monotonic()
        failed, took = finish(ranks, RANKS), time.monotonic() - began
        if failed := failed or finish(ranks, [*RUNNER, TRAINED]):
            sys.exit(f"the training by two processes failed:\n{failed}")
        paths.write(ranks / "seconds", str(took))
    return ranks


def counted(done: list[dict], here: str) -> list[dict]:
    """The kills that hit, but for those of an earlier commit that were not clean."""
    return [
        row
        for row in done
        if row["outcome"] == "killed" and (row["clean"] or row["commit"] == here)
    ]


def write(done: list[dict], here: str, goal: int, seconds: dict[str, float]) -> None:
    """Write the result of these kills."""
    killed = counted(done, here)
    common.write(
        "kills",
        compared="calls after a kill with an undisturbed run, by target, signal and notebook",
        ratio=sum(row["clean"] for row in killed) / max(1, len(killed)),
        goal=f"{goal} kills, all clean",
        met=len(killed) >= goal and all(row["clean"] for row in done if row["commit"] == here),
        check=f"{len(killed)} kills: {sum(not row['differing'] for row in killed)} with identical tables after the "
        f"next call, {sum(bool(row['left']) for row in killed)} with a process left after {LEFT_S:.0f} s, "
        f"{sum(row['second_writer'] for row in killed)} with a second writer",
        timings={
            "others_s": max((row["others_s"] for row in killed), default=0.0),
            "notebooks_s": seconds,
        },
        packages=["snakemake", "papermill", "ipykernel", "torch"],
        counts={
            key: Counter(row[key] for row in killed)
            for key in ("target", "signal", "notebook", "commit")
        },
        ended_before=sum(row["outcome"] != "killed" for row in done),
        kills=done,
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument(
        "--of", nargs="*", default=[], metavar="NN", help="kill runs of these (all)"
    )
    parser.add_argument(
        "--seed", type=int, default=0, help="of targets, signals, notebooks and moments"
    )
    parser.add_argument(
        "--minutes", type=float, default=1e6, help="begin no further kill after so many"
    )
    parser.add_argument("--earlier", action="store_true", help="count kills of earlier commits too")
    options = parser.parse_args()
    signal.signal(
        signal.SIGINT, signal.default_int_handler
    )  # a shell starts what it puts aside deaf to SIGINT
    processes.PATIENCE_S = 0.0  # asked twenty times a second
    os.environ[processes.OWNER] = "another run"
    here, began = commit(), time.monotonic()
    result = paths.reports() / "benchmarks" / "kills.json"
    rows = json.loads(result.read_text()).get("kills", []) if result.exists() else []
    done = [row for row in rows if options.earlier or row["commit"] == here]
    scratch = paths.runs() / "-".join(["kills", here, *options.of])
    seconds = undisturbed(scratch, options.of)
    write(done, here, options.kills, seconds)
    while (
        len(counted(done, here)) < options.kills and time.monotonic() - began < 60 * options.minutes
    ):
        row = trial(scratch, len(done), options.seed, seconds, counted(done, here)) | {
            "commit": here
        }
        print(
            {key: value for key, value in row.items() if value not in ("", [], False)}, flush=True
        )
        done.append(row)
        write(done, here, options.kills, seconds)


if __name__ == "__main__":
    main()
