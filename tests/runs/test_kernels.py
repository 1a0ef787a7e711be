"""Kernels that start at once: by ports of their own choice two took one."""

import concurrent.futures
import subprocess
import sys
from pathlib import Path

import pytest

START = """
import asyncio
import sys
from hs2lib.runs.jobs import kernel_manager

async def start():
    manager = kernel_manager()()
    await manager.start_kernel(stdout=sys.stderr, stderr=sys.stderr)
    client = manager.client()
    client.start_channels()
    await client.wait_for_ready(timeout=120)
    reply = await client.execute_interactive("6 * 7", timeout=60)
    client.stop_channels()
    await manager.shutdown_kernel(now=True)
    print(manager.transport, reply["content"]["status"], manager.folder.name)

asyncio.run(start())
"""


def start(number):
    done = subprocess.run([sys.executable, "-c", START], capture_output=True, text=True)
    return (done.stdout.strip() or done.stderr[-500:]).splitlines()[-1].removeprefix("42")


@pytest.mark.slow
def test_a_hundred_kernels_start_two_at_a_time():
    """Each on sockets in a folder of its own; of ports they chose the same one now and then."""
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        said = list(pool.map(start, range(100)))
    assert [one for one in said if not one.startswith("ipc ok ")] == []
    folders = {one.split()[-1] for one in said}
    assert len(folders) == 100 and not any(Path(folder).exists() for folder in folders)
