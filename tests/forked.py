"""Processes that train without the five seconds it takes to import torch: forked from one that has
imported it.

What runs in them is a test file as a script, with an environment of its own, as `python FILE
ARGUMENTS` would run it.
"""

import multiprocessing
import os
import runpy
import socket
import sys
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess

FORKS = multiprocessing.get_context("forkserver")
IMPORTED = (
    "pytest",
    "tiny_training",
    "hs2lib.align.dpo",
    "hs2lib.align.ppo",
    "hs2lib.align.steerlm2",
)
FORKS.set_forkserver_preload(
    [*IMPORTED, "hs2lib.evaluate.judge", "hs2lib.evaluate.rewardbench", "hs2lib.score"]
)


def _script(words: list[str], environment: dict[str, str]) -> None:
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = words
    runpy.run_path(words[0], run_name="__main__")


def start(file, *words, **environment: str) -> BaseProcess:
    """A process that runs this file; what it says goes where the tests' output goes."""
    process = FORKS.Process(
        target=_script, args=([str(file), *map(str, words)], os.environ | environment)
    )
    process.start()
    return process


def together(number: int, file, *words) -> None:
    """Run this file in so many processes that find each other, as torchrun starts them; raises where one fails."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    same = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    same |= dict.fromkeys(("WORLD_SIZE", "LOCAL_WORLD_SIZE"), str(number))
    ranks = [start(file, *words, **same, RANK=str(i), LOCAL_RANK=str(i)) for i in range(number)]
    while running := [rank.sentinel for rank in ranks if rank.exitcode is None]:
        wait(running)
        if any(rank.exitcode for rank in ranks):  # the others would wait for it
            for rank in ranks:
                rank.kill()
    assert not any(rank.exitcode for rank in ranks), "what they said is in the captured output"
