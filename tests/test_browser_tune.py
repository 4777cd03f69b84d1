"""Tuning in a real browser: two people at once, from a changed limit to a new run, and back to an older version."""

from __future__ import annotations

import re
import shutil
import sqlite3
from pathlib import Path

import pytest
from browsing import JOB_MS, Served, chart_box, picture, serve, stop, watched
from playwright.sync_api import Browser, Page, expect

pytestmark = [pytest.mark.browser, pytest.mark.mindspore]
VIEW = {"width": 1280, "height": 900}


LAST_COPY_IN = """() => {
  const chart = document.querySelector('#run-timeline .js-plotly-plot');
  chart.scrollIntoView({ block: 'center' });
  const bars = chart._fullData.find((t) => t.type === 'bar' && t.name.startsWith('Copy in'));
  const i = bars.customdata.length - 1;
  const { xaxis, yaxis2 } = chart._fullLayout;
  const { left, top } = chart.getBoundingClientRect();
  return {
    x: left + xaxis._offset + xaxis.d2p(bars.base[i] + bars.x[i] / 2),
    y: top + yaxis2._offset + yaxis2.d2p(bars.y[i]),
    id: bars.customdata[i][2],
  };
}"""


def predicted(page: Page) -> None:
    expect(page.locator("#tune-numbers .tag")).to_contain_text("predicted", timeout=JOB_MS)
    expect(page.locator("#tune-numbers .preview-how")).to_contain_text(re.compile(r"in [0-9.]+ s"), timeout=JOB_MS)


def test_a_dragged_prefetch_becomes_a_rule(page: Page, served: Served) -> None:
    """Shift and drag a copy in to the left; the same by keyboard for the transfer that is picked."""
    page.goto(f"{served.address}/run/2")
    page.locator("#run-timeline .bars").first.wait_for(state="attached", timeout=JOB_MS)
    box = chart_box(page)
    page.locator("#run-alive tbody tr").first.wait_for(timeout=JOB_MS)
    page.wait_for_load_state("networkidle")
    page.wait_for_timeout(1000)
    at = page.evaluate(LAST_COPY_IN)
    while (again := page.evaluate(LAST_COPY_IN)) != at:  # panels above it are still being filled
        at = again
        page.wait_for_timeout(500)
    page.keyboard.down("Shift")
    page.mouse.move(at["x"], at["y"])
    page.mouse.down()
    page.mouse.move(at["x"] - box["width"] / 20, at["y"], steps=4)
    expect(page.locator(".drag-mark")).to_contain_text(re.compile(r"\d [mµ]s earlier"))
    page.mouse.up()
    page.keyboard.up("Shift")
    page.wait_for_url("**/tune/2?earlier=*")
    # Its numbers stand at the top, wherever on the run page the bar was.
    page.wait_for_function("() => window.scrollY === 0")
    expect(page.get_by_label("Policy as TOML")).to_have_value(
        re.compile(r'prefetch_earlier = "[0-9.]+ms"'), timeout=JOB_MS
    )
    expect(page.locator("#tune-decisions")).to_contain_text(re.compile("The prefetch of '.*' starts"), timeout=JOB_MS)

    page.goto(f"{served.address}/run/2?picked=transfer:{at['id']}")
    expect(page.locator("#run-earlier")).to_contain_text("Start the prefetch of", timeout=JOB_MS)
    page.get_by_role("button", name="Try it").focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/tune/2?earlier=*1000000")


def test_two_people_tune_recompile_and_restore(browser: Browser, recorded: Path, tmp_path: Path) -> None:
    database = tmp_path / "copy.db"
    with sqlite3.connect(recorded) as source, sqlite3.connect(database) as target:
        source.backup(target)
    process, address = serve(database)
    try:
        first = watched(browser.new_context(viewport=VIEW, color_scheme="light"), served := Served(address, database))
        second = watched(browser.new_context(viewport=VIEW, color_scheme="light"), other := Served(address, database))
        first.goto(f"{address}/tune/2")
        second.goto(f"{address}/tune/2?strategy=lookahead&limit=80%25")
        predicted(first)
        predicted(second)

        # a changed limit is predicted, for each page by itself
        limit = first.get_by_label("Memory limit", exact=True)
        limit.fill("1%")
        expect(first.locator("#tune-numbers")).to_contain_text("Nothing to predict yet", timeout=JOB_MS)
        limit.fill("75%")
        predicted(first)
        expect(first.locator("#tune-unchanged")).to_contain_text("do as in this run")
        expect(second.get_by_label("Memory limit", exact=True)).to_have_value("80%")

        # the curve appears point by point, a row of its table takes its limit
        expect(first.locator("#tune-sweep-words")).to_contain_text("Click one", timeout=JOB_MS)
        picture(first, "tune")
        first.get_by_text("The points as a table").click()
        first.locator("#tune-points button.link").first.click()
        expect(limit).not_to_have_value("75%")
        predicted(first)
        chosen = limit.input_value()
        expect(first.get_by_label("Policy as TOML")).to_have_value(re.compile(f'memory_limit = "{chosen}"'))

        # both recompile at once; the policy is in the address, so a reload shows it and finds the job again
        first.get_by_role("button", name="Recompile", exact=True).click()
        second.get_by_role("button", name="Recompile", exact=True).click()
        expect(first.locator("#job-panel")).to_contain_text("job", timeout=JOB_MS)
        first.reload()
        expect(limit).to_have_value(chosen, timeout=JOB_MS)
        expect(first.locator("#job-open")).to_be_visible(timeout=JOB_MS)
        expect(second.locator("#job-open")).to_be_visible(timeout=JOB_MS)
        first.locator("#job-open").click()
        first.wait_for_url(re.compile(r"/run/\d+"))
        expect(first.locator("h1")).to_contain_text("predicted")

        # versions: the difference, then back to the first
        second.get_by_role("tab", name="Versions").click()
        name = second.get_by_label("Memory limit", exact=True)
        name.fill("90%")
        second.get_by_role("button", name="Save version").click()
        expect(second.locator("#tune-versions tbody tr")).to_have_count(2, timeout=JOB_MS)
        second.get_by_role("textbox", name="From").or_(second.get_by_label("From", exact=True)).first.click()
        second.get_by_role("option", name="Version 1").click()
        expect(second.locator("#tune-diff .removed")).to_have_text('-memory_limit = "80%"', timeout=JOB_MS)
        expect(second.locator("#tune-diff .added")).to_have_text('+memory_limit = "90%"')
        second.get_by_role("button", name="Restore the version on the left").click()
        expect(second.locator("#tune-versions tbody tr")).to_have_count(3, timeout=JOB_MS)
        expect(name).to_have_value("80%", timeout=JOB_MS)
        expect(second.locator("#tune-diff")).to_have_text("No difference.", timeout=JOB_MS)
        assert second.evaluate("document.documentElement.scrollWidth") <= VIEW["width"]
        assert served.complaints == []
        assert other.complaints == []
    finally:
        stop(process)
        shutil.rmtree(tmp_path, ignore_errors=True)
