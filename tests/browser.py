"""Drive a headless Chromium through its DevTools pipe: no package needed, only the browser."""

import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--disable-quic", "--disable-dev-shm-usage"),
    *("--remote-debugging-pipe", "--window-size=1300,1000"),
)
PATIENCE_SECONDS = 60.0


NEEDED = "PRUNEFL_BROWSER"
"""Environment variable: "needed" makes a missing browser a failure."""


def chromium() -> str | None:
    """Return the browser's path, if one is installed."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


def require_browser() -> None:
    """Skip what cannot be seen without a browser, or fail where one has to be there."""
    if chromium() is not None:
        return
    words = "no Chromium is installed (apt-get install chromium): the pages were not looked at"
    if os.environ.get(NEEDED) == "needed":
        pytest.fail(words)
    pytest.skip(words)


class Page:
    """One open page; keeps what the browser reports about it."""

    def __init__(self, to_browser: int, from_browser: int) -> None:
        self._to, self._from = to_browser, from_browser
        self._buffer, self._last, self._session = b"", 0, ""
        self.events: list[dict[str, Any]] = []

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Return the browser's answer to one command."""
        self._last += 1
        message = {"id": self._last, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._last:
                assert "error" not in answer, answer
                return answer["result"]
            self.events.append(answer)

    def _receive(self) -> dict[str, Any]:
        until = time.monotonic() + PATIENCE_SECONDS
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._from], [], [], max(0.0, until - time.monotonic()))
            assert ready, f"the browser said nothing for {PATIENCE_SECONDS} seconds"
            part = os.read(self._from, 1 << 16)
            assert part, "the browser closed its pipe"
            self._buffer += part
        text, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(text)

    def open(self, url: str) -> None:
        """Load a page and wait until it is drawn."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.call("Page.navigate", url=url)
        while not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self.events.append(self._receive())

    def run(self, script: str) -> Any:
        """Return the value of a JavaScript expression."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def resize(self, width: int, height: int = 900, *, dark: bool = False) -> None:
        """Show the page on a screen of this size, and wait until it is drawn anew."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        theme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[theme])
        self.run("new Promise((done) => setTimeout(done, 400))")

    def wait(self, script: str, seconds: float = 20.0) -> Any:
        """Return the value of an expression as soon as it is true; say what the page shows if it never is."""
        until = time.monotonic() + seconds
        while not (value := self.run(script)):
            assert time.monotonic() < until, f"{script}\n{self.run('document.body.innerText')}"
            time.sleep(0.1)
        return value

    def press(self, key: str) -> None:
        """Press and release a key."""
        for kind in ("rawKeyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key)

    def click(self, selector: str) -> None:
        """Click the middle of an element with the mouse."""
        x, y = self.middle(selector)
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def hover(self, selector: str, share: float = 0.5) -> None:
        """Move the mouse over an element, at this share of its width."""
        x, y = self.middle(selector, share)
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def middle(self, selector: str, share: float = 0.5) -> tuple[float, float]:
        """Return a point of an element after scrolling it into view."""
        return tuple(
            self.run(
                f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
                "e.scrollIntoView({block: 'center', behavior: 'instant'}); const b = e.getBoundingClientRect();"
                f"return [b.left + b.width * {share}, b.top + b.height / 2]; }})()"
            )
        )


@contextmanager
def opened(url: str, profile: Path) -> Iterator[Page]:
    """Yield the page in a browser of its own, which is ended afterwards."""
    to_browser, from_us = os.pipe(), os.pipe()
    path = chromium()
    assert path is not None

    def connect() -> None:
        # Chromium reads commands from descriptor 3 and answers on 4; moved up first so that neither is lost
        reads, writes = os.dup2(to_browser[0], 60), os.dup2(from_us[1], 61)
        os.dup2(reads, 3)
        os.dup2(writes, 4)

    process = subprocess.Popen(
        [path, *FLAGS, f"--user-data-dir={profile}"],
        preexec_fn=connect,
        close_fds=False,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(to_browser[0])
    os.close(from_us[1])
    page = Page(to_browser[1], from_us[0])
    try:
        page.open(url)
        yield page
    finally:
        process.kill()
        process.wait(timeout=20)
        os.close(to_browser[1])
        os.close(from_us[0])
