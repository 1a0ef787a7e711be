"""One run a folder: a second one is refused as long as any process of the first lives."""

import os
import re
import socket
import subprocess

import pytest

from hs2lib.runs import lock


def is_held(folder):
    try:
        lock.hold(folder).close()
    except BlockingIOError:
        return True
    return False


def test_a_second_run_is_refused_with_the_name_of_the_first(tmp_path):
    holder = f"process {os.getpid()} on {socket.gethostname()}"
    message = re.escape(f"another run ({holder}) holds {tmp_path}: wait for it, or use another")
    with lock.hold(tmp_path), pytest.raises(BlockingIOError, match=message):
        lock.hold(tmp_path)


def test_a_folder_is_free_again_afterwards(tmp_path):
    lock.hold(tmp_path / "runs").close()
    assert not is_held(tmp_path / "runs")


def test_a_child_that_has_the_file_keeps_the_folder(tmp_path):
    """A kernel that hangs is still a writer, also when all that started it is gone."""
    held = lock.hold(tmp_path)
    child = subprocess.Popen(["sleep", "60"], pass_fds=[held.fileno()])
    held.close()
    assert is_held(tmp_path)
    child.kill()
    child.wait()
    assert not is_held(tmp_path)


def test_two_that_share_a_folder_hold_it_together_and_a_third_alone_is_refused(tmp_path):
    """The processes of one torchrun stand beside each other, and no other run beside them."""
    with lock.hold(tmp_path, shared=True), lock.hold(tmp_path, shared=True):
        assert is_held(tmp_path)
    with lock.hold(tmp_path), pytest.raises(BlockingIOError):
        lock.hold(tmp_path, shared=True)


def test_a_folder_that_cannot_be_written_is_said(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file/runs cannot be written to: Not a directory; mend that"):
        lock.hold(tmp_path / "file" / "runs")
