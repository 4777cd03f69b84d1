"""How fast the dashboard answers in a real browser: a million op events, a step of 5,000, a list of 10,000 runs.

The runs are made up (`bench.database`): each step has 5,000 ops, 1,000 transfers and 5,000 stays of storages, 200 steps
make the million. A page is usable when the frame that holds the drawn memory curve and all lanes (the first rows of the
list) has been shown and the page waits for input again. Three kinds of opening: as people open pages all day, in a
browser that has shown such a page before (files and compiled scripts kept, a new tab, everything else made anew); in a
browser that has nothing of the dashboard; and that of a server that has just started, too. "Server" is the time between
the request and the first byte of the answer as the browser sees it. A zoom ends with the frame that shows the server's
answer. Prints one table with its limits. Without Chromium it says so instead.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.chromium import Browser, Page, chromium, executable
from bench.database import made_up_profile, made_up_schedule
from bench.serving import served
from db.database import open_database
from db.recordings import RunDescription, record_profile

STEPS = 200
RUNS = 10_000
OPENINGS = 5
# A browser keeps what it compiled of a script that it met again.
BEFORE = 3
# A person opens an address in a tab that is there: making the tab, or a profile for it, is not what is measured.
READY_S = 0.7
# Notes when the chart with all its lanes, or the first rows, have been shown, and the page waits for input.
WATCH = """
(() => {
  const drawn = () => {
    const chart = document.querySelector("#run-timeline .js-plotly-plot");
    const shapes = chart?.querySelectorAll(".scatterlayer .trace path.js-fill, .barlayer .trace .point").length;
    return (shapes && chart.querySelectorAll(".cartesianlayer > .subplot").length > 1)
      || document.querySelector("#runs-grid .ag-row a[href^='/run/']");
  };
  const look = () => {
    if (!drawn()) return requestAnimationFrame(look);
    const shown = new MessageChannel();
    shown.port1.onmessage = () => (window.__usable = performance.now());
    requestAnimationFrame(() => shown.port2.postMessage(0));
  };
  requestAnimationFrame(look);
})();
"""
# Presses a key and waits for the frame that shows the server's answer to it: [until then, server's share].
PRESS = """
(async (key) => {
  const chart = document.querySelector("#run-timeline .js-plotly-plot");
  const requests = () => performance.getEntriesByType("resource").filter((r) => r.name.includes("_dash-update"));
  performance.clearResourceTimings();
  const start = performance.now();
  const took = await new Promise((answered) => {
    const seen = () => {
      if (!requests().length) return;
      chart.removeListener("plotly_afterplot", seen);
      const shown = new MessageChannel();
      shown.port1.onmessage = () => answered(performance.now() - start);
      requestAnimationFrame(() => shown.port2.postMessage(0));
    };
    chart.on("plotly_afterplot", seen);
    document.body.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
  });
  const first = requests()[0];
  await new Promise((r) => setTimeout(r, 300));
  return [took, first.responseStart - first.requestStart];
})
"""
KEYS = "wwwwwddaasssss"
HEAP = "performance.memory.usedJSHeapSize / 1e6"

Row = tuple[str, list[float], float, bool]


def main() -> int:
    if executable() is None:
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
        rows: list[Row] = [("ingest into SQLite, events a second", [ingest], 400_000.0, False)]
        rows += _page(path, f"/run/{run}", "step of 5,000 op events", 1000, 150)
        rows += _page(path, f"/run/{run}?step=all", "run of 1,000,000 op events", 3000, 350)
        _copies(database, run)
        with served(path) as address, chromium() as browser:
            rows += _opened(browser, address, f"list of {RUNS:,} runs", 1000)
        database.close()
    print("| what | median | worst | limit | met |\n|---|--:|--:|--:|---|")
    for what, values, limit, at_most in rows:
        middle, worst = statistics.median(values), max(values) if at_most else min(values)
        met = middle <= limit if at_most else middle >= limit
        print(f"| {what} | {middle:,.0f} | {worst:,.0f} | {limit:,.0f} | {'yes' if met else 'no'} |")
    return 0


def _page(path: Path, place: str, what: str, usable_ms: float, zoom_ms: float) -> list[Row]:
    with served(path) as address, chromium() as browser:
        opened = _opened(browser, address + place, what, usable_ms)
        page = browser.page()
        _open(page, address + place)
        time.sleep(1.5)
        heap = [float(page.ask(HEAP))]
        answers = [page.ask(f"{PRESS}('{key}')") for key in KEYS]
        page.close()
    return [
        *opened,
        (f"{what}: zoom or pan shown, ms", [a for a, _ in answers], zoom_ms, True),
        (f"{what}: server's share of it, ms", [b for _, b in answers], 30.0, True),
        (f"{what}: browser heap, MB", heap, 300.0, True),
    ]


def _opened(browser: Browser, address: str, what: str, limit_ms: float) -> list[Row]:
    """Milliseconds until the page is usable. The first opening reads the database, the others find it in memory."""
    new = []
    for _ in range(OPENINGS):
        with browser.nothing_cached() as context:
            page = browser.page(context)
            time.sleep(READY_S)
            new.append(_open(page, address))
            page.close()
    kept = []
    for _ in range(BEFORE + OPENINGS):
        page = browser.page()
        time.sleep(READY_S)
        kept.append(_open(page, address))
        # Compiled scripts are kept a while after a page is there.
        time.sleep(2.0)
        page.close()
    return [
        (f"{what}: usable, ms", kept[BEFORE:], limit_ms, True),
        (f"{what}: usable, browser that has nothing of the dashboard, ms", new[1:], limit_ms, True),
        (f"{what}: usable, the same and the server just started, ms", new[:1], limit_ms, True),
    ]


def _open(page: Page, address: str) -> float:
    page.open(address, WATCH)
    page.wait_for("window.__usable")
    return float(page.ask("window.__usable"))


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
