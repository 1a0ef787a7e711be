"""Training over processes: however a global batch is cut up it is one step; a killed run ends as a
straight one.

Run as a script (as one of two, or to be killed) this file trains; pytest compares what the scripts
wrote.
"""

import json
import sys
from pathlib import Path

import forked
import numpy as np
import pytest
import torch
from tiny_training import STEPS, Slow, kill_at_step, made, recipe, run_folder, tiny

from hs2lib.train.objectives import REGRESSION
from hs2lib.train.trainer import fit


def curve(folder: Path) -> np.ndarray:
    """(loss, gradient norm) of each step, and below them (validation loss, 0) of each validation."""
    history = json.loads((run_folder(folder) / "done.json").read_text())["history"]
    rows = [(x["loss"], x["grad_norm"]) for x in history if "loss" in x]
    return np.array(rows + [(x["eval_loss"], 0.0) for x in history if "eval_loss" in x])


def train(folder: Path, accumulation: int = 1, callbacks=()) -> None:
    """The run that all tests here compare."""
    fit(
        tiny(),
        made(20),
        made(6, 1),
        REGRESSION,
        recipe(accumulation=accumulation),
        folder,
        callbacks=callbacks,
    )


def main(folder: Path, slow: bool) -> None:
    """One slow run, to be killed; or, as one of two processes, 2 x 4 x 1 and 2 x 1 x 4."""
    torch.set_num_threads(1)
    if slow:
        folder.mkdir(parents=True, exist_ok=True)
        train(folder, callbacks=[Slow(folder)])
    else:
        train(folder / "2x4x1")
        train(folder / "2x1x4", accumulation=4)


@pytest.fixture(scope="module")
def straight(tmp_path_factory):
    """A run of one process, each global batch at once: 1 x 8 x 1."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("straight") / "run"
    train(folder)
    yield folder
    torch.set_num_threads(threads)


@pytest.mark.slow
def test_processes_batch_and_accumulation_give_one_loss_and_one_gradient(straight, tmp_path):
    """transformers' own scaling multiplies loss and gradient of a regression by accumulation x
    processes, and a mean of each part's mean weighs the labels unequally: both would show in the
    first step."""
    expected = curve(straight)
    assert (
        len(expected) == STEPS + 1 + STEPS // 2
    )  # every step; validation at the start and after every second step
    train(tmp_path / "1x2x4", accumulation=4)
    forked.together(2, __file__, tmp_path, 0)
    for name in ("1x2x4", "2x4x1", "2x1x4"):
        np.testing.assert_allclose(curve(tmp_path / name), expected, rtol=2e-5, err_msg=name)


@pytest.mark.parametrize("at", [pytest.param(1, marks=pytest.mark.slow), 3])
def test_killed_and_resumed_is_straight_training_bit_for_bit(straight, tmp_path, at):
    """SIGKILL before the first checkpoint (at step 2) and after it: the weights, the history and
    the best checkpoint must be those of the run that nobody disturbed."""
    folder = tmp_path / "run"
    kill_at_step(forked.start(__file__, folder, 1), folder, at)
    killed = run_folder(folder)
    assert not (killed / "done.json").exists()
    (killed / "checkpoint-4").mkdir(exist_ok=True)  # what a kill in the middle of saving leaves
    (killed / "checkpoint-4" / "optimizer.pt").write_bytes(b"half")
    train(folder)
    np.testing.assert_array_equal(curve(folder), curve(straight))
    saved = sorted(path.relative_to(straight) for path in straight.rglob("*.safetensors"))
    assert saved == sorted(path.relative_to(folder) for path in folder.rglob("*.safetensors"))
    for path in saved:
        assert (folder / path).read_bytes() == (straight / path).read_bytes(), path


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2] == "1")
