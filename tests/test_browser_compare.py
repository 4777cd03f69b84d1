"""Compare and the experiments in a real browser: three runs, another baseline, another axis, downloads."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from browsing import Served, picture
from playwright.sync_api import Page, Route, TimeoutError, expect

from app.experiments import read_sections
from db.database import open_database
from db.queries import load_profile

pytestmark = [pytest.mark.browser, pytest.mark.mindspore]

AXIS_TITLE = "document.querySelector('#compare-timeline .js-plotly-plot')?.layout?.xaxis?.title?.text || ''"


def again(page: Page, condition: str, act: Callable[[], object], tries: int = 30) -> None:
    """Act again, a second apart, until the condition (JavaScript) holds."""
    for _ in range(tries):
        try:
            page.wait_for_function(f"() => {condition}", timeout=2_000)
            return
        except TimeoutError:
            act()
    page.wait_for_function(f"() => {condition}")


def test_three_runs_another_baseline_another_axis_and_downloads(page: Page, served: Served) -> None:
    page.goto(f"{served.address}/compare?runs=1,2")
    expect(page.locator("#compare-timeline .bars").first).to_be_attached()
    expect(page.locator("#compare-content")).to_contain_text("Storages that change tier")
    rows = page.locator("#compare-table .ag-center-cols-container .ag-row")
    expect(rows.first).to_be_visible()
    picture(page, "compare")
    page.get_by_role("textbox", name="Runs").or_(page.get_by_label("Runs", exact=True)).first.click()
    page.get_by_role("option", name=re.compile("^#3 ")).click()
    page.wait_for_url("**/compare?runs=1,2,3")
    expect(page.locator(".side-head")).to_have_count(3)

    page.get_by_role("button", name="Make run 2 the baseline").click()
    page.wait_for_url("**/compare?runs=1,2,3&baseline=2")
    expect(page.locator(".side-head").nth(1)).to_contain_text("baseline")
    expect(page.locator("#compare-verdict")).to_contain_text("against 2 reactive (measured)")
    expect(page.get_by_text("Differences are to 2 reactive.")).to_be_visible()

    page.locator("#compare-axis").get_by_text("By op").click()
    page.wait_for_function(f"() => {AXIS_TITLE}.startsWith('ops in the order of #2')")
    page.get_by_role("tab", name="Where time went").click()
    page.locator("#compare-by").get_by_text("By phase").click()
    expect(rows.filter(has_text="forward")).to_be_visible()
    page.get_by_label("Filter the rows").fill("optim")
    expect(rows).to_have_count(1)
    page.get_by_label("Filter the rows").fill("no such row")
    expect(page.locator("#compare-table .ag-overlay")).to_contain_text("No row matches the filter.")
    page.get_by_label("Filter the rows").fill("")
    expect(page.locator("#compare-table .ag-overlay")).not_to_contain_text("No row matches the filter.")
    expect(page).to_have_url(re.compile(r"runs=1,2,3&baseline=2&tab=time&axis=op&by=phase$"))
    # The address alone brings all of it back.
    page.reload()
    page.wait_for_function(f"() => {AXIS_TITLE}.startsWith('ops in the order of #2')")
    expect(rows.filter(has_text="forward")).to_be_visible()
    page.evaluate("window.scrollTo(0, 0)")
    picture(page, "compare-by-op")
    # A zoom asks for the ops in view and keeps the axis.
    drawn = "document.querySelector('#compare-timeline .js-plotly-plot').calcdata[0].length"
    database = open_database(served.database, create=False)
    ops = len(load_profile(database, 2).schedule.graph.ops)
    database.close()
    page.wait_for_function(f"() => {drawn} >= {ops}")
    page.locator("h1").click()
    page.keyboard.press("w")
    page.keyboard.press("w")
    page.wait_for_function(f"() => {drawn} > 0 && {drawn} < {ops}")

    with page.expect_download() as waiting:
        page.get_by_role("button", name="Markdown").click()
    report = Path(waiting.value.path()).read_text()
    assert waiting.value.suggested_filename == "hyperoffload-compare-1-2-3.md"
    assert "| 1 none | 2 reactive, the baseline |" in report
    with page.expect_download() as waiting:
        page.get_by_role("button", name="CSV").click()
    lines = Path(waiting.value.path()).read_text().splitlines()
    found = [r for r in csv.DictReader(lines) if r["item"] == "step time"]
    assert [r["profile"] for r in found][:2] == ["1 none", "2 reactive"]
    assert int(found[0]["value"]) - int(found[1]["value"]) == int(found[0]["difference_to_baseline"])

    page.get_by_role("button", name="Take run 3 out of the comparison").click()
    page.wait_for_url("**/compare?runs=1,2&baseline=2&tab=time&axis=op&by=phase")
    assert page.evaluate("document.documentElement.scrollWidth") <= 1280


def test_what_is_chosen_while_the_page_is_still_coming_adds_up(page: Page, served: Served) -> None:
    page.goto(f"{served.address}/compare?runs=1,2,3,99&baseline=2")
    expect(page.locator("#compare-timeline .bars").first).to_be_attached()
    expect(page.get_by_text("There is no run 99")).to_be_visible()
    held: list[Route] | None = []

    def hold(route: Route) -> None:
        route.continue_() if held is None else held.append(route)

    page.route("**/_dash-update-component", hold)
    page.get_by_role("button", name="Take run 1 out of the comparison").click()
    page.wait_for_url("**/compare?runs=2,3")
    page.get_by_role("button", name="Make run 3 the baseline").click()
    page.wait_for_url("**/compare?runs=2,3&baseline=3")
    page.get_by_role("button", name="Take run 2 out of the comparison").click()
    page.wait_for_url("**/compare?runs=3")
    answered, held = held, None
    for route in answered:
        route.continue_()
    expect(page.get_by_text("Choose one more run")).to_be_visible()
    expect(page).to_have_url(re.compile(r"/compare\?runs=3$"))
    page.get_by_role("textbox", name="Runs").or_(page.get_by_label("Runs", exact=True)).first.click()
    page.get_by_role("option", name=re.compile("^#1 ")).click()
    page.wait_for_url("**/compare?runs=3,1")
    expect(page.locator(".side-head")).to_have_count(2)


def test_experiments_of_this_project_and_own_runs(page: Page, served: Served) -> None:
    page.goto(served.address)
    page.get_by_role("link", name="Experiments").click()
    chart = page.locator("#experiments-limits .js-plotly-plot")
    expect(chart).to_be_visible()
    expect(page.locator(".heat-table .heat").first).to_be_visible()
    picture(page, "experiments")
    bound = "document.querySelector('#experiments-limits .js-plotly-plot').data.at(-1).y[0]"
    before = page.evaluate(bound)
    page.get_by_role("textbox", name="Workload").or_(page.get_by_label("Workload", exact=True)).first.click()
    page.get_by_role("option", name="llama3-8b-train").click()
    page.wait_for_function(f"before => {bound} !== before", arg=before)
    expect(page).to_have_url(re.compile("workload=llama3-8b-train"))
    for section in read_sections():
        page.get_by_role("link", name=section.title).click()
        expect(page.locator(".stack .hint").first).to_contain_text(section.origin)
    page.get_by_role("link", name="Runs of one graph").click()
    own = page.locator("#experiments-runs .js-plotly-plot")
    expect(own).to_be_visible()
    point = own.locator(".points path").first

    def click() -> None:
        # The chart takes a click at what it saw the pointer come over, so the pointer leaves first.
        page.mouse.move(1, 1)
        point.hover(force=True)
        page.mouse.down()
        page.mouse.up()

    click()
    again(page, "/^.run.[0-9]+/.test(location.pathname)", click)
