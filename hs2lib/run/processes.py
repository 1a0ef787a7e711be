"""Who owns a run: its processes end with the first of them, and the last frees its folders."""

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
from types import FrameType
from typing import Any, NoReturn, TextIO

OWNER = "HS2_OWNER"  # the variable by which the processes of a run know that they belong together
PARENT = "HS2_PARENT"  # the variable by which a job knows its Snakemake
PATIENCE_S = 2.0  # a process that was killed needs a moment until it is gone
GOODBYE_S = 3.0  # what a command may take to end when it is interrupted; it is killed then

_prctl = ctypes.CDLL(None).prctl if sys.platform == "linux" else None
_PR_SET_PDEATHSIG = 1  # of <linux/prctl.h>: the signal that a process gets when its parent ends


def hold(folder: Path) -> TextIO:
    """Lock a folder for the run that this process belongs to.

    The lock lasts until this process, and all that inherit the file, have ended or closed it.

    Returns:
        The locked file, to be kept open.

    Raises:
        BlockingIOError: another run holds the folder.
        OSError: the folder cannot be written to.
    """
    owner = os.environ.setdefault(OWNER, f"process {os.getpid()} on {socket.gethostname()}")
    deadline = time.monotonic() + PATIENCE_S
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / ".running").open("a+")
        holder = _ask(file, owner)
        while holder != owner and time.monotonic() < deadline:
            time.sleep(0.05)
            holder = _ask(file, owner)
    except OSError as error:
        raise OSError(
            f"{folder} cannot be written to: {error.strerror}; mend that, or use another folder"
        ) from error
    if holder != owner:
        raise BlockingIOError(
            f"another run ({holder}) holds {folder}: wait for it, or use another folder"
        )
    return file


def _ask(file: TextIO, owner: str) -> str:
    """Ask once for the lock; returns who holds it, which is `owner` when we do."""
    # Whoever holds it alone is the first of a run, and writes down which run that is. Then all
    # processes of the run share it.
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
    """Have this process killed as soon as `parent`, which started it, has ended in any way.

    Where there is no prctl, as on macOS, this process only ends if its parent has ended already.
    """
    if _prctl is not None:
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before we asked
        os._exit(1)


def owned(locks: list[TextIO]) -> dict[str, Any]:
    """Options of `subprocess.Popen` for a child that ends with this process.

    The child keeps the locks while it lives.
    """
    return {
        "pass_fds": [lock.fileno() for lock in locks],
        "preexec_fn": partial(end_with, os.getpid()),
    }


def run(command: list[str], locks: list[TextIO], **options: object) -> int:
    """Run a command in a process group that outlives neither the command nor this process.

    Args:
        command: the program and its arguments.
        locks: files that the command keeps open, as from `hold`.
        options: further ones of `subprocess.Popen`.

    Returns:
        The command's exit status.
    """
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
    """Make this process a job: it ends with the Snakemake or torchrun that started it.

    An interrupt ends a job at once. A process that neither of them started is a run of its own.
    """
    by_torchrun = "TORCHELASTIC_RUN_ID" in os.environ
    by_snakemake = PARENT in os.environ
    if not by_snakemake:
        os.environ.pop(OWNER, None)
    if by_torchrun or by_snakemake:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        end_with(os.getppid() if by_torchrun else int(os.environ[PARENT]))
    if by_torchrun and not by_snakemake:  # the processes of one torchrun are one run
        address = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
        os.environ[OWNER] = f"torchrun at {address}"


def interrupt_group() -> None:
    """Have SIGINT and SIGTERM of this process reach its whole group.

    Here they raise KeyboardInterrupt afterwards.
    """

    def interrupt(number: int, frame: FrameType | None) -> NoReturn:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        os.killpg(0, signal.SIGINT)
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, interrupt)
    signal.signal(signal.SIGTERM, interrupt)
