"""How fast the dashboard answers in a real browser: a million op events, a step of 5,000, a list of 10,000 runs.

The runs are made up (`bench.database`): each step has 5,000 ops, 1,000 transfers and 5,000 stays of storages, 200 steps
make the million. "Server" is the time between the request and the first byte of the answer as the browser sees it.
Prints one table with its limits. Without Chromium or playwright it says so instead.
"""

from __future__ import annotations

import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.database import made_up_profile, made_up_schedule
from bench.serving import served
from db.database import open_database
from db.recordings import RunDescription, record_profile

STEPS = 200
RUNS = 10_000
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--enable-precise-memory-info"]
# Notes when the page's chart, or its first rows, have been drawn.
WATCH = """
(() => {
  const look = () => {
    const chart = document.querySelector("#run-timeline .js-plotly-plot");
    if (chart?.calcdata?.length || document.querySelector("#runs-grid .ag-center-cols-container .ag-row")) {
      window.__usable = performance.now();
    } else setTimeout(look, 5);
  };
  look();
})();
"""
# Presses a key and waits until the server's answer to it has been drawn: [until then, server's share].
PRESS = """
async (key) => {
  const chart = document.querySelector("#run-timeline .js-plotly-plot");
  let drawn = 0, answered = null;
  const seen = () => { if (answered !== null || requests().length) { answered = answered ?? drawn; } drawn += 1; };
  const requests = () => performance.getEntriesByType("resource").filter((r) => r.name.includes("_dash-update"));
  performance.clearResourceTimings();
  chart.on("plotly_afterplot", seen);
  const start = performance.now();
  document.body.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
  while (answered === null && performance.now() - start < 10000) await new Promise((r) => setTimeout(r, 2));
  const took = performance.now() - start;
  chart.removeListener("plotly_afterplot", seen);
  const first = requests()[0];
  await new Promise((r) => setTimeout(r, 300));
  return [took, first.responseStart - first.requestStart];
}
"""
KEYS = "wwwwwddaasssss"


def main() -> int:
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        print("Not measured: playwright is not installed (pip install -e '.[test]').")
        return 0
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        print("Not measured: there is no Chromium here.")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "bench.db"
        schedule = made_up_schedule()
        profile = made_up_profile(schedule, STEPS)
        events = len(profile.ops.op) + len(profile.transfers.step) + len(profile.lifetimes.step)
        database = open_database(path)
        start = time.perf_counter()
        run = record_profile(database, RunDescription("measured", schedule, "bench"), profile)
        ingest = events / (time.perf_counter() - start)
        rows = [("ingest into SQLite, events a second", [ingest], 400_000.0, False)]
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium, args=ARGUMENTS)
            with served(path) as address:
                rows += _page(browser, f"{address}/run/{run}", "step of 5,000 op events", 1000, 150)
                rows += _page(browser, f"{address}/run/{run}?step=all", "run of 1,000,000 op events", 3000, 350)
            _copies(database, run)
            with served(path) as address:
                rows += [(f"list of {RUNS:,} runs: usable, ms", _opened(browser, address)[0], 1000.0, True)]
            browser.close()
        database.close()
    print("| what | median | worst | limit | met |\n|---|--:|--:|--:|---|")
    for what, values, limit, at_most in rows:
        middle, worst = statistics.median(values), max(values) if at_most else min(values)
        met = middle <= limit if at_most else middle >= limit
        print(f"| {what} | {middle:,.0f} | {worst:,.0f} | {limit:,.0f} | {'yes' if met else 'no'} |")
    return 0


Row = tuple[str, list[float], float, bool]


def _page(browser: Any, address: str, what: str, usable_ms: float, zoom_ms: float) -> list[Row]:
    """The first opening reads the database, the others find the step in memory."""
    first, _ = _opened(browser, address, times=1)
    again, heap = _opened(browser, address)
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.add_init_script(WATCH)
    page.goto(address)
    page.wait_for_function("window.__usable")
    page.wait_for_timeout(1500)
    answers = [page.evaluate(PRESS, key) for key in KEYS]
    context.close()
    return [
        (f"{what}: usable when first opened, ms", first, usable_ms, True),
        (f"{what}: usable when opened again, ms", again, usable_ms, True),
        (f"{what}: zoom or pan drawn, ms", [a for a, _ in answers], zoom_ms, True),
        (f"{what}: server's share of it, ms", [b for _, b in answers], 30.0, True),
        (f"{what}: browser heap, MB", heap, 300.0, True),
    ]


def _opened(browser: Any, address: str, times: int = 3) -> tuple[list[float], list[float]]:
    """Milliseconds until the page is usable, and the heap in MB, each in a fresh browser context."""
    usable, heap = [], []
    for _ in range(times):
        context = browser.new_context(viewport={"width": 1280, "height": 900})
        page = context.new_page()
        page.add_init_script(WATCH)
        page.goto(address)
        page.wait_for_function("window.__usable", timeout=60_000)
        usable.append(float(page.evaluate("window.__usable")))
        page.wait_for_timeout(500)
        heap.append(page.evaluate("performance.memory.usedJSHeapSize") / 1e6)
        context.close()
    return usable, heap


def _copies(database: Any, run: int) -> None:
    """The run's row again and again, without its events."""
    with database.write() as connection:
        names = [row[1] for row in connection.exec_driver_sql("PRAGMA table_info(run)") if row[1] != "id"]
        columns = ", ".join(names)
        connection.exec_driver_sql(
            f"WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < {RUNS}) "
            f"INSERT INTO run ({columns}) SELECT {columns} FROM run, n WHERE run.id = {run}"
        )


if __name__ == "__main__":
    sys.exit(main())
