"""Pages in headless Chromium, driven over its DevTools: what a phone and a wide screen show of them."""

import base64
import json
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import pytest
import websocket

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser")
needed = pytest.mark.skipif(PROGRAM is None, reason="no chromium: apt-get install chromium")

# It opens our own files and asks nothing of a network. Without a sandbox it starts for root too.
OPTIONS = """--headless --no-sandbox --disable-gpu --disable-dev-shm-usage --disable-quic --no-first-run
--disable-background-networking --disable-component-update --disable-sync --hide-scrollbars
--remote-debugging-port=0""".split()  # noqa: SIM905

# What reaches over the right edge of a page, and does not scroll in a box of its own.
OVERFLOWING = """
[...document.querySelectorAll("main *")]
  .filter(one => one.getBoundingClientRect().right > innerWidth + 1 && !one.closest(".scroll, .output_html, pre"))
  .slice(0, 5).map(one => one.tagName + " " + one.className + " " + one.textContent.slice(0, 40))
"""


class Browser:
    """A browser of the test's own with one page; it ends with the `with`."""

    def __init__(self, seconds=60):
        self.seconds = seconds
        self.number = 0
        self.session = None
        self.events = []

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True)
        command = [PROGRAM, *OPTIONS, f"--user-data-dir={self.folder.name}", "about:blank"]
        self.process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            self.socket = websocket.create_connection(
                self._address(), timeout=self.seconds, suppress_origin=True
            )
            target = self.ask("Target.createTarget", url="about:blank")["targetId"]
            attached = self.ask("Target.attachToTarget", targetId=target, flatten=True)
            self.session = attached["sessionId"]
            for domain in ("Page", "Runtime", "Log"):
                self.ask(f"{domain}.enable")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error):
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.folder.cleanup()

    def _address(self):
        """Where DevTools listen: the browser writes it down once they do."""
        file = Path(self.folder.name) / "DevToolsActivePort"
        end = time.monotonic() + self.seconds
        while not (file.exists() and len(file.read_text().splitlines()) == 2):
            assert self.process.poll() is None, f"chromium ended with status {self.process.poll()}"
            assert time.monotonic() < end, f"chromium did not start in {self.seconds} s"
            time.sleep(0.05)
        port, path = file.read_text().splitlines()
        return f"ws://127.0.0.1:{port}{path}"

    def ask(self, method, **parameters):
        """The answer to a command of the DevTools protocol; events that come before it are kept."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        self.socket.send(json.dumps(message))
        while True:
            arrived = json.loads(self.socket.recv())
            if arrived.get("id") == self.number:
                assert "error" not in arrived, (method, arrived)
                return arrived["result"]
            self.events.append(arrived)

    def open(self, page, width, height=900, scheme="light"):
        """Open a file, or a URL, at a width in CSS pixels, and wait until it is whole."""
        url = page.resolve().as_uri() if isinstance(page, Path) else page
        self.events.clear()
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.ask("Emulation.setDeviceMetricsOverride", **size)
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self.ask("Emulation.setEmulatedMedia", features=[feature])
        went = self.ask("Page.navigate", url=url)
        assert "errorText" not in went, went
        while not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self.events.append(json.loads(self.socket.recv()))

    def value(self, expression):
        """What an expression of JavaScript gives in the page. The page's own policy forbids scripts, not this."""
        done = self.ask(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in done, done
        return done["result"].get("value")

    def errors(self):
        """What the console of the open page holds of errors."""
        self.value("new Promise(done => setTimeout(done, 50))")  # what is under way arrives
        messages = []
        for event in self.events:
            about = event.get("params", {})
            if event["method"] == "Log.entryAdded" and about["entry"]["level"] == "error":
                messages.append(about["entry"]["text"])
            elif event["method"] == "Runtime.exceptionThrown":
                messages.append(about["exceptionDetails"]["text"])
            elif event["method"] == "Runtime.consoleAPICalled" and about["type"] == "error":
                messages.append(str(about["args"]))
        return messages

    def faults(self):
        """What is wrong with the open page: it scrolls sideways, has errors, or a picture without words."""
        wrong = [f"console: {text}" for text in self.errors()]
        wide, seen = self.value("[document.documentElement.scrollWidth, innerWidth]")
        if wide > seen:
            wrong.append(f"{wide} px wide on {seen}: {self.value(OVERFLOWING)}")
        silent = self.value("[...document.images].filter(one => !one.alt.trim()).length")
        if silent:
            wrong.append(f"{silent} pictures without alt text")
        broken = self.value("[...document.images].filter(one => !one.naturalWidth).length")
        if broken:
            wrong.append(f"{broken} pictures that do not load")
        return wrong

    def screenshot(self, path, whole=False):
        """Save what is seen, or the whole page, as a PNG."""
        shot = self.ask("Page.captureScreenshot", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(shot["data"]))
