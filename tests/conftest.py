"""What holds for all tests, and what they share."""

import gc
import os
import signal
from functools import partial
from pathlib import Path

import clean_environment  # noqa: F401  (before torch)
import made_reports
import pytest
import smoke_run
import torch
from shared_models import (  # noqa: F401
    own_policy,
    own_reward_model,
    tiny_policy,
    trained_folder,
    trained_reward_model,
)

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


def pytest_collection_modifyitems(items):
    """What takes longest begins first: the file that reads the run of all notebooks, then what is
    marked `long`. Each file is run by one worker, so the notebooks are run once.

    What is imported by now stays: to look through it for rubbish, as each training does, takes a
    second.
    """
    for item in items:
        if "smoke_suite" in item.fixturenames:
            item.add_marker(pytest.mark.smoke)

    def rank(item):
        if item.path.stem == "test_smoke":
            return 0
        return 1 if item.get_closest_marker("long") else 2

    items.sort(key=rank)
    gc.freeze()


@pytest.fixture(scope="session")
def smoke_reports(tmp_path_factory):
    """All notebooks, run once in order in this process at tier smoke: their reports and runs."""
    return smoke_run.run(tmp_path_factory.mktemp("smoke"))


@pytest.fixture
def smoke_suite(smoke_reports, monkeypatch):
    """The run of all notebooks, to be read: its folders are those of this test's environment."""
    for name, value in smoke_reports.environment.items():
        monkeypatch.setenv(name, value)
    return smoke_reports


@pytest.fixture
def reports(tmp_path, monkeypatch):
    """Writes complete reports: reports(tier, notebook, sources, {file: frame}); without any, nothing has run."""
    monkeypatch.setenv("HS2_REPORTS", str(tmp_path))
    return partial(made_reports.write, tmp_path)
