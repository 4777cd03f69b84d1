"""A real browser on the dashboard, served by the real command over a database recorded from a real run.

With ``HYPEROFFLOAD_PICTURES=1`` the larger demo workload is recorded instead of the tiny one, and the pictures of
docs/dashboard.md are written to docs/images.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, FloatRect, Page, expect, sync_playwright

from tests.command import COMMAND, ROOT, free_port

PICTURES = ROOT / "docs" / "images" if os.environ.get("HYPEROFFLOAD_PICTURES") else None
WORKLOAD = "demo" if PICTURES else "tiny"
CHROMIUM = shutil.which("chromium") or "/usr/bin/chromium"
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
JOB_MS = 240_000
# Other tests run beside these on the same cores.
expect.set_options(timeout=20_000)


@dataclass
class Served:
    """A dashboard that is being served, and what the browser complained about on its pages."""

    address: str
    database: Path
    complaints: list[str] = field(default_factory=list)


def serve(database: Path) -> tuple[subprocess.Popen[bytes], str]:
    port = free_port()
    command = [*COMMAND, "serve", "--database", str(database), "--port", str(port)]
    process = subprocess.Popen(command, cwd=database.parent, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    address = f"http://127.0.0.1:{port}"
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        try:
            urllib.request.urlopen(address, timeout=2).close()
            return process, address
        except (urllib.error.URLError, ConnectionError):
            time.sleep(0.1)
    process.kill()
    raise AssertionError(f"serve did not come up: {process.communicate()[1].decode()}")


def stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    process.wait(timeout=20)


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    database = tmp_path_factory.mktemp("browser") / "hyperoffload.db"
    run = [*COMMAND, "run", WORKLOAD, "--limit", "60%", "--link-bandwidth", "2GB/s", "--steps", "3"]
    result = subprocess.run(
        [*run, "--strategy", "reactive", "--database", str(database)], capture_output=True, text=True, timeout=300
    )
    assert result.returncode == 0, result.stderr
    return database


@pytest.fixture(scope="session")
def served(recorded: Path) -> Iterator[Served]:
    process, address = serve(recorded)
    yield Served(address, recorded)
    stop(process)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    if not Path(CHROMIUM).exists():
        pytest.skip("no Chromium on this machine")
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield launched
        launched.close()


@pytest.fixture
def page(browser: Browser, served: Served) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1280, "height": 900}, color_scheme="light")
    yield watched(context, served)
    context.close()
    assert served.complaints == []


def watched(context: BrowserContext, served: Served) -> Page:
    """A page that notes console errors, failed answers, and requests that leave this machine."""
    page = context.new_page()
    page.set_default_timeout(20_000)
    served.complaints = []
    inside = (served.address, "data:", "blob:")
    note = served.complaints.append
    page.on("console", lambda m: note(f"console: {m.text}") if m.type == "error" else None)
    page.on("pageerror", lambda e: note(f"error: {e}"))
    page.on("request", lambda r: note(f"left this machine: {r.url}") if not r.url.startswith(inside) else None)
    page.on("response", lambda r: note(f"{r.status}: {r.url}") if r.status >= 400 else None)
    return page


# How much of what is drawn only when it comes into sight is not drawn yet.
UNDRAWN = """[...document.querySelectorAll('.in-sight, .ag-root-wrapper')].filter((shown) =>
  shown.offsetParent && !(shown.querySelector('.ag-row, .ag-overlay-wrapper')
    || shown.querySelector('.js-plotly-plot')?.data?.length)).length"""


def picture(page: Page, name: str, of: str | None = None, down_to: str | None = None) -> None:
    """A picture of the page, of the page ``down_to`` the foot of an element, or ``of`` one element (selectors).

    What comes into sight is drawn then, and not painted elsewhere: for a picture the window is as high as the page.
    """
    if PICTURES is None:
        return
    PICTURES.mkdir(parents=True, exist_ok=True)
    path = PICTURES / f"{name}.png"
    if of is not None:
        page.wait_for_timeout(800)
        page.locator(of).screenshot(path=path)
        return
    was = page.viewport_size
    assert was is not None
    height = 0
    for _ in range(30):  # what is drawn may make the page higher
        now = page.evaluate("document.documentElement.scrollHeight")
        if now == height and not page.evaluate(UNDRAWN):
            break
        height = now
        page.set_viewport_size({"width": was["width"], "height": height})
        page.wait_for_timeout(800)
        page.wait_for_load_state("networkidle")
    else:
        raise AssertionError(f"{name}: not everything on the page is drawn")
    if down_to is not None:
        foot = page.locator(down_to).evaluate("element => element.getBoundingClientRect().bottom + scrollY")
        height = min(height, int(foot) + 20)
    page.screenshot(path=path, clip={"x": 0, "y": 0, "width": was["width"], "height": height})
    page.set_viewport_size(was)


def chart_box(page: Page) -> FloatRect:
    """Where the drawn timeline is; a chart that is still being made has no place."""
    expect(page.locator("#run-timeline .cartesianlayer .trace").first).to_be_attached()
    chart = page.locator("#run-timeline .js-plotly-plot")
    expect(chart).to_be_visible()
    box = chart.bounding_box()
    assert box is not None
    return box


def shown_range(page: Page) -> tuple[float, float]:
    low, high = page.evaluate("document.querySelector('.js-plotly-plot').layout.xaxis.range")
    return float(low), float(high)
