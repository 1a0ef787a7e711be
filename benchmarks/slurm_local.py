"""Whether the SLURM profile runs the suite on a cluster: a controller and two nodes on this
machine, by loopback.

    apt-get install slurmctld slurmd slurm-client munge slurmdbd mariadb-server    # Debian; no service has to run
    python benchmarks/slurm_local.py       # as root; writes reports/benchmarks/slurm.json

Notebooks 01, 05 and 08 run at tier smoke through `profiles/slurm`, with what they need, twice: on a
cluster without accounting, the training of 05 by torchrun with two processes on one node; and on
one with accounting (slurmdbd, every job charged to an account), that training on two nodes with a
process each. GPUs are stood in for by plain files: SLURM counts them, nobody computes on them. All
daemons run in a scratch folder and end with the script.
"""

import argparse
import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import common
from smoke import differences, tables

from hs2lib import paths

TRAINING = "train_05_reward_model_training"
WANTED = {
    "without accounting": {"nodes": 1, "processes": 2},
    "with accounting": {"nodes": 2, "processes": 1},
}
SETTINGS = Path(
    "/etc/slurm"
)  # where a job's own srun looks, which Snakemake's plugin calls without SLURM_CONF
NEEDED = ("munged", "slurmctld", "slurmd", "slurmdbd", "mariadbd", "mariadb-install-db")
PORTS = {"controller": 17000, "n1": 17001, "n2": 17002, "accounting": 17003, "database": 17004}
COLUMNS = (
    "JobID",
    "Comment",
    "State",
    "NodeList",
    "NumNodes",
    "tres-alloc",
    "tres-per-job",
    "SubmitTime",
    "StartTime",
    "EndTime",
)

CLUSTER = """ClusterName=local
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmUser=root
AuthInfo=socket={folder}/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
GresTypes=gpu
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={n1} CPUs=1 RealMemory=8000 Gres=gpu:2
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={n2} CPUs=1 RealMemory=8000 Gres=gpu:2
PartitionName=all Nodes=n1,n2 Default=YES State=UP
"""
NOT_KEPT = "AccountingStorageType=accounting_storage/none\n"
KEPT = """AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={accounting}
AccountingStoragePass={folder}/munge
AccountingStorageTRES=gres/gpu
AccountingStorageEnforce=associations
JobAcctGatherType=jobacct_gather/linux
"""
ACCOUNTING = """DbdHost=localhost
DbdPort={accounting}
SlurmUser=root
AuthInfo=socket={folder}/munge
PidFile={folder}/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort={database}
StorageUser=root
"""


def daemon(stack: contextlib.ExitStack, folder: Path, *command: str) -> None:
    """Start a daemon that ends with `stack`; what it says goes to a log in the folder."""
    log = stack.enter_context(
        (folder / f"{Path(command[0]).name}-{command[-1].rpartition('/')[2]}.log").open("w")
    )
    process = subprocess.Popen(command, stdout=log, stderr=log)

    def end() -> None:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()

    stack.callback(end)


def until(what: str, *command: str, seconds: float = 60) -> str:
    """What a command prints as soon as it succeeds. Ends the script where it does not in time."""
    ends = time.monotonic() + seconds
    while (
        done := subprocess.run(command, capture_output=True, text=True)
    ).returncode or not done.stdout.strip():
        if time.monotonic() > ends:
            sys.exit(f"{what}: {' '.join(command)} says {(done.stderr or done.stdout).strip()!r}")
        time.sleep(0.5)
    return done.stdout


def cluster(stack: contextlib.ExitStack, folder: Path, accounting: bool) -> None:
    """Start a controller and two nodes below the folder, the cluster of this machine until `stack` ends."""
    places = PORTS | {"folder": folder, "host": socket.gethostname().partition(".")[0]}
    (folder / "state").mkdir()
    (folder / "munge.key").write_bytes(os.urandom(1024))
    (folder / "munge.key").chmod(0o600)
    gpus = [folder / "gpu0", folder / "gpu1"]
    for gpu in gpus:
        gpu.touch()
    (folder / "gres.conf").write_text(f"Name=gpu File={folder}/gpu[0-{len(gpus) - 1}]\n")
    (folder / "slurm.conf").write_text(
        (CLUSTER + (KEPT if accounting else NOT_KEPT)).format(**places)
    )
    for name in ("slurm.conf", "gres.conf", "slurmdbd.conf"):
        (SETTINGS / name).symlink_to(folder / name)
        stack.callback((SETTINGS / name).unlink)
    munge = [f"--{name}={folder}/munged.{name}" for name in ("pid-file", "log-file", "seed-file")]
    munge += [f"--key-file={folder}/munge.key", f"--socket={folder}/munge"]
    daemon(stack, folder, "munged", "--foreground", "--force", *munge)
    if accounting:
        data, port = f"--datadir={folder}/database", f"--port={PORTS['database']}"
        subprocess.run(
            ["mariadb-install-db", "--no-defaults", "--user=root", data],
            check=True,
            capture_output=True,
        )
        where = [data, port, f"--socket={folder}/mysql", "--bind-address=127.0.0.1"]
        daemon(
            stack, folder, "mariadbd", "--no-defaults", "--user=root", "--skip-grant-tables", *where
        )
        (folder / "slurmdbd.conf").write_text(ACCOUNTING.format(**places))
        (folder / "slurmdbd.conf").chmod(0o600)
        until(
            "the database", "mariadb-admin", "--no-defaults", f"--socket={folder}/mysql", "status"
        )
        daemon(stack, folder, "slurmdbd", "-D")
        until("slurmdbd", "sacctmgr", "--immediate", "add", "cluster", "local")
        until("the account", "sacctmgr", "--immediate", "add", "account", "lab")
        until("the user", "sacctmgr", "--immediate", "add", "user", "root", "account=lab")
    daemon(stack, folder, "slurmctld", "-i", "-D")
    for node in ("n1", "n2"):
        daemon(stack, folder, "slurmd", "-D", "-N", node)
    until(
        "the nodes",
        "bash",
        "-c",
        'test "$(sinfo --noheader --states=idle --format=%D)" = 2 && echo idle',
    )


def jobs() -> list[dict]:
    """All jobs of the cluster in the order of their start, by the names of `COLUMNS`, with their seconds."""
    wide = ",".join(f"{column}:200" for column in COLUMNS)
    lines = until("jobs", "squeue", "--states=all", "--noheader", f"--Format={wide}").splitlines()
    rows = [
        [line[at : at + 200].strip() for at in range(0, 200 * len(COLUMNS), 200)] for line in lines
    ]
    rows = sorted(
        (dict(zip(COLUMNS, row, strict=True)) for row in rows), key=lambda row: row["StartTime"]
    )
    first = min(row["SubmitTime"] for row in rows)
    for row in rows:
        row |= {name: seconds(row[f"{name}Time"], first) for name in ("Start", "End")}
    return [
        {name: value for name, value in row.items() if not name.endswith("Time")} for row in rows
    ]


def seconds(moment: str, first: str) -> float:
    """Seconds from one of SLURM's times to another."""
    read = [time.mktime(time.strptime(text, "%Y-%m-%dT%H:%M:%S")) for text in (moment, first)]
    return read[0] - read[1]


def suite(folder: Path, accounting: bool, wanted: dict) -> tuple[float, str]:
    """Run 01, 05 and 08 through the profile; seconds, and the end of what was said where it failed."""
    places = {
        "HS2_RUNS": str(folder / "runs"),
        "HS2_REPORTS": str(folder / "reports"),
        "OMP_NUM_THREADS": "1",
    }
    ours = {f"{TRAINING}:{name}": value for name, value in (wanted | {"gpu": 2}).items()}
    small = {"mem_mb": 3000, "runtime": 60} | ({"slurm_account": "lab"} if accounting else {})
    command = [
        sys.executable,
        "-m",
        "hs2lib.run",
        "--tier",
        "smoke",
        "--cores",
        "1",
        "01",
        "05",
        "08",
    ]
    command += [
        "--",
        "--workflow-profile",
        "profiles/slurm",
        "--slurm-init-seconds-before-status-checks",
        "3",
    ]
    command += [
        "--latency-wait",
        "5",
        "--default-resources",
        *(f"{name}={value}" for name, value in small.items()),
    ]
    command += ["--set-resources", *(f"{name}={value}" for name, value in ours.items())]
    began = time.monotonic()
    with (folder / "run.log").open("w") as log:
        code = subprocess.run(
            command, cwd=paths.root(), env=os.environ | places, stdout=log, stderr=log
        ).returncode
    return time.monotonic() - began, (folder / "run.log").read_text()[-3000:] if code else ""


def trained_before(folder: Path) -> bool:
    """Whether the model of 05 was trained when the stage ended, so that the notebook only read it."""
    place = folder / "runs" / "smoke" / "05_reward_model_training"
    ended = (place / "train.done").stat().st_mtime
    results = [file for file in place.glob("training-*/done.json") if file.stat().st_mtime <= ended]
    return len(results) == 1


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--keep", action="store_true", help="keep the scratch folder, with all logs"
    )
    options = parser.parse_args()
    if missing := [name for name in NEEDED if not shutil.which(name)]:
        sys.exit(f"{', '.join(missing)}: not installed; the first lines of this file say how")
    if os.geteuid():
        sys.exit("SLURM's node daemon runs jobs as their users, so that it needs root")
    if (SETTINGS / "slurm.conf").exists():
        sys.exit(f"{SETTINGS} has a slurm.conf: this machine belongs to a cluster already")
    scratch, results, made = Path(tempfile.mkdtemp(prefix="hs2-slurm-")), {}, []
    for name, wanted in WANTED.items():
        accounting, folder = name == "with accounting", scratch / name.replace(" ", "-")
        folder.mkdir()
        with contextlib.ExitStack() as stack:
            cluster(stack, folder, accounting)
            took, failed = suite(folder, accounting, wanted)
            results[name] = {
                "training": wanted,
                "seconds": round(took, 1),
                "failed": failed,
                "jobs": jobs(),
            }
            if accounting:
                charged = [
                    "sacct",
                    "-X",
                    "--noheader",
                    "--parsable2",
                    "--format=JobID,Account,State",
                ]
                results[name]["sacct"] = until("sacct", *charged).split()
        results[name]["trained before its notebook"] = not failed and trained_before(folder)
        made.append(folder)
        print(json.dumps(results[name], indent=1), flush=True)
    rows = [job for result in results.values() for job in result["jobs"]]
    completed, differing = (
        [job["State"] == "COMPLETED" for job in rows],
        differences(made[1], tables(made[0])),
    )
    good = not differing and all(
        result["trained before its notebook"] for result in results.values()
    )
    common.write(
        "slurm",
        compared="jobs of profiles/slurm on a local cluster, without and with accounting",
        ratio=sum(completed) / max(1, len(completed)),
        goal="all jobs completed, 05 trained by two processes before its notebook, the same tables both times",
        met=good and all(completed),
        check=differing[:2000] or f"tables of {len(tables(made[0]))} files identical",
        timings={name: result["seconds"] for name, result in results.items()},
        packages=["snakemake", "snakemake-executor-plugin-slurm", "torch"],
        slurm=subprocess.run(["slurmctld", "-V"], capture_output=True, text=True).stdout.strip(),
        runs=results,
    )
    if not options.keep and good:
        shutil.rmtree(scratch)


if __name__ == "__main__":
    main()
