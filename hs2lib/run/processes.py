"""Who owns a run: its processes end with the one that started them, and the last of them frees its folders."""

import contextlib
import ctypes
import fcntl
import os
import signal
import socket
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import TextIO

OWNER = "HS2_OWNER"  # the variable by which the processes of a run know that they belong together
PARENT = "HS2_PARENT"  # the variable by which a job knows its Snakemake
PATIENCE_S = 2.0  # a process that was killed needs a moment until it is gone
GOODBYE_S = 3.0  # what a command may take to end when it is interrupted; it is killed then

_prctl = ctypes.CDLL(None).prctl if sys.platform == "linux" else lambda *none: None


def hold(folder: Path) -> TextIO:
    """Lock `folder` for the run that this process belongs to, until this process and all that
    inherit the file ended.

    Raises BlockingIOError where another run holds it, OSError where the folder cannot be written
    to.
    """
    owner = os.environ.setdefault(OWNER, f"process {os.getpid()} on {socket.gethostname()}")
    patience = time.monotonic() + PATIENCE_S
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / ".running").open("a+")
        while (holder := _ask(file, owner)) != owner and time.monotonic() < patience:
            time.sleep(0.05)
    except OSError as error:
        raise OSError(
            f"{folder} cannot be written to: {error.strerror}; mend that, or use another folder"
        ) from error
    if holder == owner:
        return file
    raise BlockingIOError(
        f"another run ({holder}) holds {folder}: wait for it, or use another folder"
    )


def _ask(file: TextIO, owner: str) -> str:
    """Ask once for the lock; returns who holds it, which is `owner` when we do."""
    # Whoever holds it alone is the first of a run and writes down which; then all of the run share
    # it.
    with contextlib.suppress(BlockingIOError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        file.truncate(0)
        file.write(owner)
        file.flush()
    holder = "one that begins"
    with contextlib.suppress(BlockingIOError):
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        file.seek(0)
        holder = file.read()
    if holder != owner:
        fcntl.flock(file, fcntl.LOCK_UN)
    return holder


def end_with(parent: int) -> None:
    """Have this process killed as soon as `parent`, the process that started it, has ended in any way."""
    _prctl(1, signal.SIGKILL)  # 1: PR_SET_PDEATHSIG of <linux/prctl.h>
    if os.getppid() != parent:  # it ended before we asked
        os._exit(1)


def owned(locks: list[TextIO]) -> dict:
    """Options of `subprocess.Popen` for a child that ends with this process and keeps the locks while it lives."""
    return {
        "pass_fds": [lock.fileno() for lock in locks],
        "preexec_fn": partial(end_with, os.getpid()),
    }


def run(command: list[str], locks: list[TextIO], **options) -> int:
    """Run a command in a process group that does not outlive it nor this process; returns its exit status."""
    child = subprocess.Popen(command, process_group=0, **owned(locks), **options)
    try:
        return child.wait()
    finally:
        with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired, KeyboardInterrupt):
            child.send_signal(signal.SIGINT)
            child.wait(GOODBYE_S)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()


def lead() -> None:
    """Make this process, Snakemake, one that its jobs end with."""
    os.environ[PARENT] = str(os.getpid())


def follow() -> None:
    """Make this process a job: it ends with the Snakemake or torchrun that started it, an interrupt
    ends it at once.

    What neither of them started is a run of its own.
    """
    torchrun, ours = "TORCHELASTIC_RUN_ID" in os.environ, PARENT in os.environ
    if not ours:
        os.environ.pop(OWNER, None)
    if torchrun or ours:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        end_with(os.getppid() if torchrun else int(os.environ[PARENT]))
    if torchrun and not ours:  # its processes are one run
        os.environ[OWNER] = f"torchrun at {os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"


def interrupt_group() -> None:
    """Have SIGINT and SIGTERM of this process reach its whole group, then raise KeyboardInterrupt here."""

    def interrupt(number, frame):
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        os.killpg(0, signal.SIGINT)
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, interrupt)
    signal.signal(signal.SIGTERM, interrupt)
