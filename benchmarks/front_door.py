"""README's commands, in its order, from nothing: a fresh clone, an empty home, no environment of ours.

    python3.11 benchmarks/front_door.py /tmp/new              # all of them (Python alone is needed)
    python3.11 benchmarks/front_door.py /tmp/new --only demo  # those that contain a word

Writes each command's minutes and exit status to NEW/front_door.csv. Left out, with the reason in the
table: what waits for a visitor (JupyterLab is started, asked for its status, and stopped), what needs
the Hub or a GPU. Of the environment only PATH and pip's settings are kept.
"""

import argparse
import csv
import os
import re
import signal
import subprocess
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LEFT_OUT = {"--tier gpu": "needs a GPU and the Hub", "gpu-check": "needs a GPU"}


def commands() -> list[str]:
    """The lines of README's blocks of sh and the commands of its tables, without their comments."""
    text = (ROOT / "README.md").read_text()
    lines = []
    for block, in_table in re.findall(
        r"^```sh\n(.*?)^```$|^\|.*?`(\.venv/bin/[^`\s]+ [^`]+)`", text, re.M | re.S
    ):
        lines += block.splitlines() or [in_table]
    return [line.split(" #")[0].strip() for line in lines]


def lab(clone: Path, environment: dict[str, str]) -> int:
    """`make lab` until its server answers; then it is stopped."""
    with subprocess.Popen(
        "make lab", shell=True, cwd=clone, env=environment, start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    ) as process:  # fmt: skip
        try:
            for line in process.stdout:
                if found := re.search(r"http://localhost:\d+/lab\S*", line):
                    address = found[0].replace("/lab", "/api/status", 1)
                    break
            else:
                return process.wait() or 1
            for _ in range(60):
                try:
                    return urllib.request.urlopen(address, timeout=5).status != 200
                except OSError:
                    time.sleep(1)
            return 1
        finally:
            os.killpg(process.pid, signal.SIGTERM)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("new", type=Path, help="a folder that does not exist yet")
    parser.add_argument("--only", default="", help="commands that contain this")
    words = parser.parse_args()
    words.new.mkdir(parents=True)
    home = words.new / "home"
    home.mkdir()
    kept = {
        key: value
        for key, value in os.environ.items()
        if re.match(r"PATH$|PIP_|UV_|SSL_|HTTPS?_PROXY", key)
    }
    environment = kept | {"HOME": str(home), "LANG": "C.UTF-8"}
    clone = words.new / "hs2"
    rows = []
    for command in commands():
        if words.only not in command and not command.startswith("git clone"):
            continue
        row = {"command": command, "minutes": "", "status": "", "note": ""}
        rows.append(row)
        if reason := next((LEFT_OUT[part] for part in LEFT_OUT if part in command), ""):
            row["note"] = f"not run: {reason}"
            continue
        run = command
        print(f"$ {run}", flush=True)
        start = time.monotonic()
        if command.startswith("git clone"):
            run = f"git clone --quiet {ROOT} hs2"
            status = subprocess.run(run, shell=True, cwd=words.new, env=environment).returncode
        elif command == "make lab":
            status = int(lab(clone, environment))
        else:
            status = subprocess.run(run, shell=True, cwd=clone, env=environment).returncode
        row |= {"minutes": f"{(time.monotonic() - start) / 60:.1f}", "status": status}
        print(f"  {row['minutes']} minutes, status {status}", flush=True)
    dirty = subprocess.run(
        "git status --porcelain", shell=True, cwd=clone, capture_output=True, text=True
    ).stdout
    rows.append(
        {
            "command": "git status --porcelain",
            "minutes": "",
            "status": 0,
            "note": dirty.strip() or "clean",
        }
    )
    with (words.new / "front_door.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)
    print((words.new / "front_door.csv").read_text())


if __name__ == "__main__":
    main()
