"""What holds for all tests."""

import gc
import os
import signal
from functools import partial

# Before torch is imported, and for the processes that tests start.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
if os.environ.get("HS2_DEVICE") != "cuda":
    os.environ["CUDA_VISIBLE_DEVICES"] = ""  # the same tests on every machine
from pathlib import Path

import made_reports
import pytest
import torch

# Where the tests run in the background of a shell, which ignores the signal, what they start can be
# interrupted still.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Scripts that tests start (torchrun, runs to be killed, kernels) import what the tests import.
HERE = Path(__file__).parent
os.environ["PYTHONPATH"] = os.pathsep.join(
    filter(None, (str(HERE), str(HERE.parent), os.environ.get("PYTHONPATH")))
)


@pytest.fixture(autouse=True, scope="session")
def one_thread():
    """Tests share the machine, and two busy processes with two threads each collapse on two cores."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


# What takes longest, longest first; before all a file whose fixture takes long, which one worker
# makes, then, for all.
FIRST = (
    "test_page_commands",
    "test_checkpoints_sharded",
    "test_notebooks",
    "test_docs",
    "test_tables_command",
    "test_runner",
)


def pytest_collection_modifyitems(items):
    """What is long must not begin when the other cores run out of tests. And what is imported by
    now stays: to look through it for rubbish, as each training does, takes a second."""
    items.sort(
        key=lambda item: FIRST.index(item.path.stem) if item.path.stem in FIRST else len(FIRST)
    )
    gc.freeze()


@pytest.fixture
def reports(tmp_path, monkeypatch):
    """Writes complete reports: reports(tier, notebook, sources, {file: frame}); without any, nothing has run."""
    monkeypatch.setenv("HS2_REPORTS", str(tmp_path))
    return partial(made_reports.write, tmp_path)
