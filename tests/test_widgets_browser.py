"""Widgets as a reader meets them: JupyterLab in a browser, a click, and a page that has changed."""

import contextlib
import json
import os
import subprocess
import sys
import time

import browser
import nbformat
import pytest

SECONDS = 600  # to wait at most, for what a machine with nothing else to do has in a few
SETUP = """
import numpy as np

from hs2lib.corpus import generate
from hs2lib.evaluate import own_answer
from hs2lib.evaluate.best_of_n import Drawn
from hs2lib.models.reward_model import RewardModel
from hs2lib.report import show

groups = list(generate.groups(3, 0, split="validation"))
model = RewardModel.new("tiny", seed=0).eval()
drawn = Drawn(groups, np.array([[0.0, 1.0]] * 3))
"""
BOX = "own_answer.box(groups, model, draw=show.answers_html)"
BEST = "show.best_of(groups, 2, drawn.winner)"
SETTINGS = {
    # A cell that is out of sight is drawn as well.
    "@jupyterlab/notebook-extension/tracker.jupyterlab-settings": {"windowingMode": "none"},
    # Nothing asks a network for news.
    "@jupyterlab/apputils-extension/notification.jupyterlab-settings": {"fetchNews": "false"},
}
CODE_CELLS = "document.querySelectorAll('.jp-CodeCell').length"
# What is asked of a kernel that is not there yet is lost.
KERNEL = "window.jupyterapp?.shell.currentWidget?.sessionContext?.session?.kernel"
READY = f"{KERNEL}?.connectionStatus == 'connected' && {KERNEL}.status == 'idle'"
RUN_ALL = "void window.jupyterapp.commands.execute('notebook:run-all-cells')"
FAILED = "document.querySelectorAll('[data-mime-type$=stderr], [data-mime-type$=error]').length"
# The one that holds a text: bars of progress are such views too.
VIEWS = "[...document.querySelectorAll('.widget-html')].map(view => view.innerText)"
VIEW = f"({VIEWS}.find(text => text.includes('{{}}')) || '')"
BOX_VIEW, BEST_VIEW = VIEW.format("your answer"), VIEW.format("best of")
TEXT = "document.querySelector('.widget-textarea textarea')?.value || ''"
BUTTON = "[...document.querySelectorAll('button')].find(one => one.innerText.trim() == '{}')"
SLIDERS = "[...document.querySelectorAll('.widget-slider')].map(one => one.innerText)"
HANDLE = "document.querySelectorAll('.widget-slider .noUi-handle')[{}]"


@contextlib.contextmanager
def lab(folder):
    """JupyterLab over a folder's notebooks, on a free port and without a token; its URL."""
    for name, setting in SETTINGS.items():
        file = folder / "settings" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(setting))
    options = {
        "ServerApp.ip": "127.0.0.1",
        "ServerApp.port": 0,
        "ServerApp.root_dir": folder / "notebooks",
        "ServerApp.allow_root": True,
        "IdentityProvider.token": "",
        "LabApp.user_settings_dir": folder / "settings",
        "LabApp.extension_manager": "readonly",
        "LabApp.expose_app_in_browser": True,
    }
    command = [sys.executable, "-m", "jupyterlab", "--no-browser"]
    command += [f"--{name}={value}" for name, value in options.items()]
    own = {
        f"JUPYTER_{kind.upper()}_DIR": str(folder / kind) for kind in ("runtime", "config", "data")
    }
    with (folder / "lab.log").open("w") as log:
        process = subprocess.Popen(command, env=os.environ | own, stdout=log, stderr=log)
    try:
        yield until(lambda: address(process, folder), folder / "lab.log")
    finally:
        process.terminate()  # it ends its kernels
        process.wait(SECONDS)


def address(process, folder):
    """The URL of a server, which it writes down once it listens; "" before."""
    assert process.poll() is None, (folder / "lab.log").read_text()
    files = list((folder / "runtime").glob("jpserver-*.json"))
    return json.loads(files[0].read_text())["url"] if files and files[0].read_text() else ""


def until(holds, log):
    """What `holds` gives, once that is no longer empty; else the server's log is the message."""
    end = time.monotonic() + SECONDS
    while not (value := holds()):
        assert time.monotonic() < end, log.read_text()[-3000:]
        time.sleep(0.2)
    return value


def press(page, key):
    """Press a key where the page has its focus."""
    for kind in ("rawKeyDown", "keyUp"):
        page.ask("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=39)


@browser.needed
@pytest.mark.slow
def test_in_jupyterlab_a_click_and_a_slider_change_what_is_shown(tmp_path):
    """05's box and 10's sliders: Run All, a worse answer by its button, another winner by a key."""
    cells = [nbformat.v4.new_code_cell(source.strip()) for source in (SETUP, BOX, BEST)]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3"}}  # or Lab asks for one
    (tmp_path / "notebooks").mkdir()
    written = nbformat.v4.new_notebook(cells=cells, metadata=kernel)
    nbformat.write(written, tmp_path / "notebooks" / "widgets.ipynb")
    with lab(tmp_path) as url, browser.Browser(SECONDS) as page:

        def comes(expression):
            return until(lambda: page.value(expression), tmp_path / "lab.log")

        page.open(f"{url}doc/tree/widgets.ipynb", width=1200, height=1500)
        comes(f"{CODE_CELLS} == {len(cells)} && {READY}")
        page.value(RUN_ALL)
        before = comes(BOX_VIEW)
        first = comes(BEST_VIEW)
        assert "best of 1" in first and "number 1" in first
        assert page.value(FAILED) == 0
        page.screenshot(tmp_path / "before.png")
        page.events.clear()  # what JupyterLab itself complains of when it starts

        faultless = page.value(TEXT)
        page.value(f"{BUTTON.format('add jargon')}.click()")
        comes(f"({TEXT}) != {json.dumps(faultless)}")
        after = comes(f"(view => view != {json.dumps(before)} && view)({BOX_VIEW})")
        assert page.value(TEXT).startswith(faultless) and "jargon" in after

        assert len(page.value(SLIDERS)) == 2, "the prompt, and n"
        page.value(f"{HANDLE.format(1)}.focus()")
        press(page, "ArrowRight")
        second = comes(f"(view => view != {json.dumps(first)} && view)({BEST_VIEW})")
        assert "best of 2" in second and "number 2" in second
        page.screenshot(tmp_path / "after.png")
        assert page.errors() == []
