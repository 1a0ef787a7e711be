"""Snakemake from start to end: what its jobs say, how far they are, and why one failed."""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import NoReturn, TextIO

from hs2lib.paths import read_json, root, runs
from hs2lib.runs import graph, key, lock, progress

GOODBYE_S = 5.0  # what Snakemake and its jobs may take to end when they are interrupted
LOOK_S = 0.5  # seconds between two looks at the progress
TELL_S = 60.0  # seconds between two plain lines of how far all is, where there is no terminal
SHOWN = 6  # running notebooks that have a line


class Interrupted(KeyboardInterrupt):
    """The user, or the system, wants the command to end."""


def snakemake(names: list[str], tier: str, cores: int, extra: list[str], locked: TextIO) -> int:
    """Let Snakemake run what is to run again of these runs and of all they need.

    Args:
        names: runs of one tier.
        tier: one of `graph.TIERS`.
        cores: how many jobs run at a time.
        extra: further options of Snakemake.
        locked: the lock of the run folder; all processes keep it open.

    Returns:
        Snakemake's exit status.

    Raises:
        Interrupted: by SIGINT or SIGTERM. Nothing runs on.
    """
    everything = graph.with_upstream(names, tier)
    logs = _logs(everything, tier)
    for file in logs.values():
        file.unlink(missing_ok=True)
    for name in everything:
        (runs() / tier / name).mkdir(parents=True, exist_ok=True)
        progress.file(name, tier).unlink(missing_ok=True)
    command = [sys.executable, "-m", "snakemake"]
    command += ["--snakefile", str(root() / "Snakefile")]
    command += ["--directory", str(runs())]
    command += ["--cores", str(cores)]
    # The lock is ours: a killed Snakemake would leave its own behind.
    command += ["--nolock", "--rerun-incomplete", "--rerun-triggers", "mtime", "input"]
    command += ["--quiet", "all", "--keep-going"]
    command += extra
    command += ["--config", f"tier={tier}", f"runs={','.join(names)}", f"cores={cores}"]
    log = runs() / "snakemake.log"
    environment = os.environ | {lock.INSIDE: "1"}
    with log.open("w") as output:
        child = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            # Who gives it options wants to see what it says.
            stderr=sys.stderr if extra else output,
            text=True,
            process_group=0,
            pass_fds=[locked.fileno()],
            env=environment,
        )
        with interruptible(), _ending(child):
            status = _Screen(everything, tier).until(child)
    if status:
        _report_failure(everything, tier, logs, log)
    return status


def _logs(names: list[str], tier: str) -> dict[str, Path]:
    """The log of each job by its name in the Snakefile, the stages that may be jobs among them."""
    logs = {}
    for name in names:
        for job in key.jobs_of(name):
            logs[f"{job}_{name}"] = runs() / tier / name / f"{job}.log"
    return logs


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Let SIGINT and SIGTERM raise `Interrupted` here."""

    def interrupt(number: int, frame: FrameType | None) -> NoReturn:
        raise Interrupted

    before = {
        number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def _ending(child: subprocess.Popen) -> Iterator[None]:
    """End a child's process group with this block: gently at first."""
    try:
        yield
    finally:
        for number in (signal.SIGINT, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(GOODBYE_S)


class _Screen:
    """What the jobs print, and on a terminal one live line a running notebook and one for all."""

    def __init__(self, names: list[str], tier: str) -> None:
        self.tier = tier
        self.jobs = {name: key.jobs_of(name) for name in names}
        self.live = sys.stderr.isatty()
        self.lines: list[str] = []  # that jobs printed and that are not shown yet
        self.drawn = 0  # live lines on the screen
        self.began = time.time()
        self.told = time.time()  # when it was said last, without a terminal, how far all is

    def until(self, child: subprocess.Popen) -> int:
        """Show what goes on until the child has ended; returns its exit status."""
        reader = threading.Thread(target=self._read, args=(child.stdout,), daemon=True)
        reader.start()
        while child.poll() is None:
            self._show()
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(LOOK_S)
        reader.join(GOODBYE_S)
        self._show(last=True)
        return child.returncode

    def _read(self, output: TextIO) -> None:
        """Collect the lines that jobs print."""
        for line in output:
            self.lines.append(line.rstrip("\n"))

    def _show(self, last: bool = False) -> None:
        """Show new lines, then the live ones anew."""
        new = []
        while self.lines:
            new.append(self.lines.pop(0))
        if self.live:
            sys.stderr.write(f"\x1b[{self.drawn}F\x1b[J" if self.drawn else "")
            sys.stderr.flush()
            self.drawn = 0
        for line in new:
            print(line, flush=True)
        if self.live and not last:
            width = shutil.get_terminal_size().columns - 1
            live = [line[:width] for line in self._live()]
            sys.stderr.write("".join(f"{line}\n" for line in live))
            sys.stderr.flush()
            self.drawn = len(live)
        if not self.live and not last and time.time() - self.told > TELL_S:
            self.told = time.time()
            print("\n".join(self._live()), file=sys.stderr, flush=True)

    def _live(self) -> list[str]:
        """A line of each notebook that runs, and one for all."""
        running = []
        done = 0
        for name, jobs in self.jobs.items():
            done += sum(key.result(name, self.tier, job).exists() for job in jobs)
            said = read_json(progress.file(name, self.tier))
            if said:
                running.append(_in_words(name, said))
        lines = running[:SHOWN]
        if len(running) > SHOWN:
            lines.append(f"  and {len(running) - SHOWN} more")
        total = sum(map(len, self.jobs.values()))
        seconds = int(time.time() - self.began)
        clock = f"{seconds // 60}:{seconds % 60:02} min"
        lines.append(f"{self.tier}: {done} of {total} jobs done, {clock}")
        return lines


def _in_words(name: str, said: dict) -> str:
    """How far a run is, in a line."""
    words = f"  {name}: cell {said.get('cell', '?')} of {said.get('cells', '?')}"
    if said.get("steps"):
        words += f", step {said['step']} of {said['steps']}"
        if said.get("left"):
            words += f", {said['left'] // 60}:{said['left'] % 60:02} min left"
    return words


def _report_failure(names: list[str], tier: str, logs: dict[str, Path], log: Path) -> None:
    """Print which jobs failed, with the ends of their logs, and which runs did not begin.

    Args:
        names: the runs that Snakemake was to run.
        tier: their tier.
        logs: the log of each job.
        log: Snakemake's own.
    """
    failed = []
    waiting = []
    for name in names:
        for job in key.jobs_of(name):
            file = logs[f"{job}_{name}"]
            if key.result(name, tier, job).exists():
                continue
            if file.exists():
                failed.append(name)
                print(f"error: {tier} {name} failed; {end_of(file)}", file=sys.stderr)
            elif name not in failed and name not in waiting:
                waiting.append(name)
    if not failed:
        print(f"error: Snakemake failed; {end_of(log)}", file=sys.stderr)
    waiting = [name for name in waiting if name not in failed]
    if waiting:
        print(f"not run: {', '.join(waiting)}", file=sys.stderr)


def end_of(log: Path, lines: int = 4, width: int = 200) -> str:
    """The name of a log and its last lines, made safe to print.

    They may hold texts of data and of models.

    Args:
        log: a text file.
        lines: how many of its last lines, empty ones apart.
        width: how many characters of each.
    """
    text = re.sub(r"\x1b\[[0-9;]*m", "", log.read_text(errors="replace"))
    last_lines = [line for line in text.splitlines() if line.strip()][-lines:]
    shown = [_printable(line, width) for line in last_lines]
    if text.endswith("DeadKernelError: Kernel died\n"):
        shown.append(
            "it was killed: most often memory ran out, "
            "so take a smaller model, batch or recipe.budget"
        )
    if not shown:
        free = shutil.disk_usage(log.parent).free / 2**20
        shown.append(f"(nothing: it was killed, or the disk is full; {free:.0f} MB are free)")
    return "\n    ".join([f"the end of {log}:", *shown])


def _printable(line: str, width: int) -> str:
    """A line without tabs and commands to the terminal, cut where it is longer than `width`."""
    characters = []
    for character in line[: 2 * width].expandtabs():
        characters.append(character if character.isprintable() else ascii(character)[1:-1])
    text = "".join(characters)
    return text if len(text) <= width else f"{text[:width]} .."
