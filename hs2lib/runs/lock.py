"""One run a folder: a lock that lasts as long as any process of the run."""

import fcntl
import os
import socket
from pathlib import Path
from typing import TextIO

INSIDE = (
    "HS2_INSIDE"  # the variable by which a job knows that the command that started it has the lock
)


def hold(folder: Path, *, shared: bool = False) -> TextIO:
    """Lock a folder until this process, and all that inherit the file, have ended or closed it.

    Args:
        folder: is made where there is none.
        shared: whether others may hold it too, as the processes of one torchrun do.

    Returns:
        The locked file, to be kept open.

    Raises:
        BlockingIOError: another run holds the folder.
        OSError: the folder cannot be written to.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / ".running").open("a+")
    except OSError as error:
        raise OSError(
            f"{folder} cannot be written to: {error.strerror}; mend that, or use another folder"
        ) from error
    try:
        fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        file.seek(0)
        holder = file.read().strip() or "one that begins"
        file.close()
        raise BlockingIOError(
            f"another run ({holder}) holds {folder}: wait for it, or use another folder"
        ) from None
    if not shared:
        file.truncate(0)
        file.write(f"process {os.getpid()} on {socket.gethostname()}")
        file.flush()
    return file
