"""From a change to the shown prediction on the Tune page, in a real browser: python -m bench.preview [GRAPH]

LLaMA-3-8B's training step on ascend-910c with strategy `hyperoffload`, unless a graph file is given. The limit curve is
stopped first. What was asked for before is answered from memory, so each change is made once.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from bench.serving import COMMAND, served

LIMITS = ("80%", "72%", "65%", "58%", "50%", "43%", "36%", "30%", "25%", "20%")
WITHIN_S = 1.0
"""What a change may take until its prediction is shown."""
SHOWN = "(document.querySelector('#tune-numbers .preview-how')?.innerText ?? '')"


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="hyperoffload-bench-") as name:
        folder = Path(name)
        graph = Path(sys.argv[1]) if len(sys.argv) > 1 else folder / "graph.json.gz"
        if len(sys.argv) <= 1:
            _run("capture", "llama3-8b-train", "--output", str(graph))
        database = folder / "runs.db"
        recorded = ("--limit", "60%", "--strategy", "reactive", "--hardware", "ascend-910c")
        _run("compile", str(graph), *recorded, "--database", str(database))
        with served(database) as address:
            rows = _measured(address)
    print("| change | shown after, s | of it predicting, s | limit, s | met |\n|---|--:|--:|--:|---|")
    for change, shown_s, predicted_s in rows:
        met = "yes" if shown_s <= WITHIN_S else "no"
        print(f"| {change} | {shown_s:.2f} | {predicted_s:.1f} | {WITHIN_S} | {met} |")


def _measured(address: str) -> list[tuple[str, float, float]]:
    """For each change the seconds until its prediction is on the page, and what the page says predicting took."""
    rows = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium") or "/usr/bin/chromium", args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.goto(f"{address}/tune/1?strategy=hyperoffload")
        before = _changed(page, "")
        if page.locator("#tune-sweep-stop").is_visible():
            page.locator("#tune-sweep-stop").click()
        page.wait_for_timeout(3000)
        for words, change in _changes(page):
            began = time.perf_counter()
            change()
            before = _changed(page, before)
            elapsed = time.perf_counter() - began
            took = re.search(r"in ([0-9.]+) s", before)
            rows.append((words, elapsed, float(took[1]) if took else float("nan")))
            page.wait_for_timeout(600)
        browser.close()
    return rows


def _changes(page: Page) -> Iterator[tuple[str, Callable[[], None]]]:
    """What a person changes, one after the other: in words, and what the hands then do."""
    limit = page.get_by_label("Memory limit", exact=True)
    for text in (*LIMITS, "55%"):
        yield f"limit {text}", partial(limit.fill, text)
    yield "a rule added: activations are offloaded", page.locator("#policy-add").click
    yield "and a knob: ops keep their order", partial(page.get_by_role("switch", name="Reorder").press, "Space")
    page.get_by_role("tab", name="Hardware").click()
    link = page.get_by_label("Link into the device", exact=True)
    yield "and a number of the hardware: half of the link", partial(link.fill, "70GB/s")


def _changed(page: Page, before: str) -> str:
    """What is written beside the numbers once another prediction is there."""
    there = f"before => / in [0-9.]+ s/.test({SHOWN}) && {SHOWN} !== before"
    page.wait_for_function(there, arg=before, timeout=120_000)
    return str(page.evaluate(SHOWN))


def _run(*arguments: str) -> None:
    subprocess.run([*COMMAND, *arguments], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
