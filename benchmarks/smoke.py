"""How long `make smoke` takes from no stamp at all, and whether `kill -9` at random moments can
hurt it.

    python benchmarks/smoke.py            # writes reports/benchmarks/smoke.json
    python benchmarks/smoke.py --kills 20 # also kills the whole process group that many times, reruns, compares tables

Timed are all notebooks together and each of them, with its kernel's start, beside another one. Each
kill falls at a random moment of an undisturbed run's length; the next call has to finish by itself,
and every table has to be byte-identical to the undisturbed run's.
"""

import argparse
import hashlib
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import common

ROOT = Path(__file__).resolve().parent.parent
GOALS_S = {"all": 180, "each notebook": 40}


def start(folder: Path, *notebooks: str) -> subprocess.Popen:
    """What `make smoke` runs, or some notebooks and what they depend on, writing below the folder."""
    environment = os.environ | {
        "HS2_REPORTS": str(folder / "reports"),
        "HS2_RUNS": str(folder / "runs"),
    }
    folder.mkdir(exist_ok=True)
    environment |= {
        "OMP_NUM_THREADS": "1",
        "TOKENIZERS_PARALLELISM": "false",
    }  # as the Makefile has it
    command = [sys.executable, "-m", "hs2lib.run", "--tier", "smoke", *notebooks]
    with open(folder / "log", "a") as log:
        return subprocess.Popen(
            command,
            cwd=ROOT,
            env=environment,
            start_new_session=True,
            stdout=log,
            stderr=subprocess.STDOUT,
        )


def finish(process: subprocess.Popen, folder: Path, what: str) -> None:
    """Wait for a run that has to succeed; if it does not, show what it said."""
    if process.wait():
        raise SystemExit(f"{what} failed:\n{(folder / 'log').read_text()[-6000:]}")


def tables(folder: Path) -> dict[str, str]:
    """Digest of every table of a finished run."""
    files = sorted(folder.glob("reports/smoke/*/*.csv")) + sorted(
        folder.glob("reports/smoke/*/*.tex")
    )
    return {str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}


def differences(folder: Path, expected: dict[str, str]) -> str:
    """Names of tables that are not as expected, with what they hold now; empty where there are none."""
    hashes = tables(folder)
    names = sorted(
        name for name in hashes.keys() | expected.keys() if hashes.get(name) != expected.get(name)
    )
    return "\n".join(
        f"{name}:\n{(folder / name).read_text() if name in hashes else 'gone'}" for name in names
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=0, help="how often to kill a run (default 0)")
    parser.add_argument(
        "--of",
        nargs="*",
        default=[],
        metavar="NN",
        help="kill runs of these notebooks (default all)",
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of the moments")
    options = parser.parse_args()
    rng = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as scratch:
        whole = Path(scratch) / "undisturbed"
        began = time.time()
        finish(start(whole), whole, "make smoke")
        wall = time.time() - began
        each = {
            name: int(s)
            for name, s in re.findall(
                r"^smoke (\w+) done in (\d+) s$", (whole / "log").read_text(), re.M
            )
        }
        walls = {"all": wall, "each notebook": max(each.values())}
        expected = tables(whole)
        assert expected, "make smoke left no table"
        again = time.time()
        finish(start(whole), whole, "the second call")
        current = time.time() - again
        if options.of and options.kills:
            whole = Path(scratch) / "undisturbed-part"
            began = time.time()
            finish(start(whole, *options.of), whole, "the notebooks to be killed")
            wall, expected = time.time() - began, tables(whole)
        moments, identical = [], 0
        for trial in range(options.kills):
            folder = Path(scratch) / f"killed-{trial}"
            moment = rng.uniform(0, wall)
            process = start(folder, *options.of)
            try:
                process.wait(timeout=moment)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            finish(start(folder, *options.of), folder, f"the call after a kill at {moment:.1f} s")
            if differing := differences(folder, expected):
                raise SystemExit(
                    f"after a kill at {moment:.1f} s these tables differ:\n{differing}"
                )
            identical += 1
            moments.append(round(moment, 1))
            print(
                f"kill {trial + 1} at {moment:.1f} s of {wall:.0f}: finished, {len(expected)} tables identical",
                flush=True,
            )
    common.write(
        "smoke",
        compared="tier smoke from no stamp against the time allowed, all together or the slowest notebook",
        ratio=min(GOALS_S[name] / seconds for name, seconds in walls.items()),
        goal=", ".join(f"{name} at most {seconds} s" for name, seconds in GOALS_S.items()),
        met=all(seconds <= GOALS_S[name] for name, seconds in walls.items()),
        check=f"{options.kills} kills at random moments of {' '.join(options.of) or 'all notebooks'}: "
        f"{identical} next calls gave {len(expected)} identical tables",
        timings={
            "smoke_s": walls,
            "notebooks_s": each,
            "nothing_to_do_s": current,
            "killed_at_s": moments,
        },
    )


if __name__ == "__main__":
    main()
