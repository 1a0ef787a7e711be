"""Write requirements.lock: every pin of constraints.txt and models.txt with the hash of its file,
as pip reports it.

Run by `make lock`, for Python 3.11 and the platform it is run on. torch stays out: it may be a
local build, whose hash is another on every machine.
"""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
UNLOCKED = "torch"
HEAD = """# Every package but torch with the hash of its file (Python 3.11, {platform}), written by `make lock`.
# `make setup LOCKED=1` installs these files and no others.
"""


def pip_report(*options: str) -> dict:
    """What pip would install, without installing it. Raises CalledProcessError where a version cannot be had."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [
            sys.executable,
            "-m",
            "pip",
            "install",
            "--dry-run",
            "--ignore-installed",
            "--no-deps",
            "--quiet",
        ]
        subprocess.run([*command, "--report", str(report), *options], check=True, cwd=ROOT)
        return json.loads(report.read_text())


def lock(report: dict) -> str:
    """The lock file of pip's report: names, versions and hashes, and nothing of where they came from."""
    platform = (
        f"{report['environment']['sys_platform']} {report['environment']['platform_machine']}"
    )
    lines = []
    for item in report["install"]:
        name, version = (
            re.sub(r"[-_.]+", "-", item["metadata"]["name"]).lower(),
            item["metadata"]["version"],
        )
        digest = item["download_info"]["archive_info"]["hashes"]["sha256"]
        lines.append(f"{name}=={version} --hash=sha256:{digest}\n")
    return HEAD.format(platform=platform) + "".join(sorted(lines))


def main() -> None:
    pins = [line.strip() for line in (ROOT / "constraints.txt").read_text().splitlines()]
    pins = [pin for pin in pins if pin and not pin.startswith(("#", f"{UNLOCKED}=="))]
    (ROOT / "requirements.lock").write_text(
        lock(pip_report("-r", "models.txt", "setuptools", *pins))
    )


if __name__ == "__main__":
    main()
