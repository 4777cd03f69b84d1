"""Chromium driven over a pipe with as little as possible switched on.

A driver that listens to a page's console and exceptions makes the browser read every script again for each error that
the script catches itself: half a second for plotly.js, which no reader of the page ever waits. Here only what starts a
page and asks it for its numbers is used.
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ARGUMENTS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-extensions",
    "--enable-precise-memory-info",
    "--hide-scrollbars",
    "--window-size=1280,900",
)
PATIENCE_S = 60.0
SETTLED_S = 2.0


class BrowserError(Exception):
    """The browser did not answer, or refused."""


class Page:
    """One tab. ``session`` is the browser's name of the connection to it."""

    def __init__(self, browser: Browser, target: str, session: str) -> None:
        self._browser, self._target, self._session = browser, target, session

    def open(self, address: str, watch: str) -> None:
        """Go there; ``watch`` is a script that runs in the page before any of its own."""
        self._browser.call("Page.enable", {}, self._session)
        self._browser.call("Page.addScriptToEvaluateOnNewDocument", {"source": watch}, self._session)
        self._browser.call("Page.navigate", {"url": address}, self._session)

    def ask(self, expression: str) -> Any:
        """The value of a JavaScript expression, waited for where it is a promise."""
        asked = {"expression": expression, "awaitPromise": True, "returnByValue": True}
        answer = self._browser.call("Runtime.evaluate", asked, self._session)
        if "exceptionDetails" in answer:
            raise BrowserError(str(answer["exceptionDetails"].get("exception", answer["exceptionDetails"])))
        return answer["result"].get("value")

    def wait_for(self, expression: str) -> None:
        """Until the expression is true. Asked rarely, as every question takes the page's time."""
        deadline = time.monotonic() + PATIENCE_S
        while not self.ask(f"Boolean({expression})"):
            if time.monotonic() > deadline:
                raise BrowserError(f"the page never came to {expression}")
            time.sleep(0.1)

    def close(self) -> None:
        self._browser.call("Target.closeTarget", {"targetId": self._target})


class Browser:
    """A running Chromium; make one with `chromium`."""

    def __init__(self, commands: int, answers: int) -> None:
        self._commands, self._answers = commands, answers
        self._asked = 0
        self._rest = b""

    def call(self, method: str, parameters: dict[str, Any], session: str | None = None) -> dict[str, Any]:
        self._asked += 1
        message = {"id": self._asked, "method": method, "params": parameters}
        os.write(self._commands, json.dumps(message | ({"sessionId": session} if session else {})).encode() + b"\0")
        deadline = time.monotonic() + PATIENCE_S
        while True:
            while b"\0" in self._rest:
                text, self._rest = self._rest.split(b"\0", 1)
                answer = json.loads(text)
                if answer.get("id") == self._asked:
                    if "error" in answer:
                        raise BrowserError(f"{method}: {answer['error'].get('message')}")
                    result: dict[str, Any] = answer["result"]
                    return result
            if not select.select([self._answers], [], [], max(0.0, deadline - time.monotonic()))[0]:
                raise BrowserError(f"{method} was not answered")
            got = os.read(self._answers, 1 << 20)
            if not got:
                raise BrowserError("the browser ended")
            self._rest += got

    def page(self, context: str | None = None) -> Page:
        where = {"browserContextId": context} if context else {}
        target = self.call("Target.createTarget", {"url": "about:blank", **where})["targetId"]
        session = self.call("Target.attachToTarget", {"targetId": target, "flatten": True})["sessionId"]
        return Page(self, target, session)

    @contextmanager
    def nothing_cached(self) -> Iterator[str]:
        """A context with no file and no compiled script of an earlier page."""
        context = self.call("Target.createBrowserContext", {})["browserContextId"]
        try:
            yield context
        finally:
            self.call("Target.disposeBrowserContext", {"browserContextId": context})


def executable() -> str | None:
    return shutil.which("chromium") or shutil.which("google-chrome")


@contextmanager
def chromium() -> Iterator[Browser]:
    """A Chromium with an empty profile of its own, ended and forgotten afterwards."""
    path = executable()
    if path is None:
        raise BrowserError("there is no Chromium here")
    ends = [*os.pipe(), *os.pipe()]
    # Chromium reads commands from descriptor 3 and answers on 4; the pipes' own lie out of their way.
    theirs_in, ours_out, ours_in, theirs_out = (fcntl.fcntl(end, fcntl.F_DUPFD, 20) for end in ends)
    for end in ends:
        os.close(end)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        profile = Path(folder) / "profile"
        command = f'exec "$0" "$@" 3<&{theirs_in} 4>&{theirs_out}'
        arguments = [*ARGUMENTS, "--remote-debugging-pipe", f"--user-data-dir={profile}"]
        process = subprocess.Popen(
            ["bash", "-c", command, path, *arguments],
            pass_fds=(theirs_in, theirs_out),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        browser = Browser(ours_out, ours_in)
        try:
            # The browser's own start is not what is measured.
            browser.page().close()
            time.sleep(SETTLED_S)
            yield browser
        finally:
            os.close(ours_out)
            os.close(ours_in)
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
