"""The list of runs and the SQL page in a real browser."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from browsing import Served, picture, serve, stop, watched
from playwright.sync_api import Browser, Page, Route, expect

from db.database import open_database
from db.queries import get_run

pytestmark = [pytest.mark.browser, pytest.mark.mindspore]


def test_runs_are_found_tagged_archived_deleted_and_restored_and_asked_for_in_sql(
    browser: Browser, recorded: Path, tmp_path: Path
) -> None:
    database = tmp_path / "runs.db"
    shutil.copy(recorded, database)
    process, address = serve(database)
    context = browser.new_context(viewport={"width": 1280, "height": 900}, color_scheme="light")
    served = Served(address, database)
    page = watched(context, served)
    numbers = page.locator(".ag-pinned-left-cols-container .ag-row a")

    def tick(run: int) -> None:
        page.locator(f".ag-pinned-left-cols-container .ag-row[row-id='{run}'] input[type=checkbox]").check()

    try:
        # Newest first; nothing is cut off at this width.
        page.goto(address)
        expect(numbers).to_have_text(["4", "3", "2", "1"])
        assert page.evaluate("document.documentElement.scrollWidth") == 1280
        assert (
            page.evaluate(
                "(() => { const v = document.querySelector('.ag-center-cols-viewport'); "
                "return v.scrollWidth - v.clientWidth; })()"
            )
            <= 0
        )

        # A search and a choice are in the address and survive a reload.
        page.keyboard.press("/")
        expect(page.get_by_label("Search runs")).to_be_focused()
        page.get_by_label("Search runs").fill("strategy:react step>0.001ms")
        expect(numbers).to_have_text(["4", "2"])
        page.get_by_role("combobox", name="Kind").or_(page.locator("#runs-kind")).first.click()
        page.get_by_role("option", name="measured").click()
        expect(numbers).to_have_text(["2"])
        page.wait_for_url("**/?q=strategy%3Areact+step%3E0.001ms&kind=measured")
        page.reload()
        expect(numbers).to_have_text(["2"])
        expect(page.get_by_label("Search runs")).to_have_value("strategy:react step>0.001ms")

        # A tag that is hostile text.
        tick(2)
        page.get_by_role("button", name="Tag and note").click()
        page.locator("#runs-tags").fill("<b>paper</b>")
        page.keyboard.press("Enter")
        page.locator("#runs-name").fill("the best")
        page.get_by_role("button", name="Save").click()
        expect(page.locator(".run-tags .tag")).to_have_text("<b>paper</b>")
        expect(page.locator(".run-name b")).to_have_text("the best")

        # Archive, look into the archive, take it out again.
        page.goto(address)
        expect(numbers).to_have_count(4)
        tick(3)
        page.get_by_role("button", name="Archive", exact=True).click()
        expect(numbers).to_have_text(["4", "2", "1"])
        page.get_by_text("Archived", exact=True).click()
        expect(numbers).to_have_text(["3"])
        page.wait_for_url("**/?show=archived")
        page.get_by_role("button", name="Undo").click()
        expect(page.get_by_text("No archived run")).to_be_visible()
        page.get_by_text("Current", exact=True).click()
        expect(numbers).to_have_count(4)

        # Delete with the keyboard, undo, delete again, restore from the run's own page.
        tick(4)
        page.get_by_role("button", name="Delete", exact=True).focus()
        page.keyboard.press("Enter")
        expect(numbers).to_have_text(["3", "2", "1"])
        page.get_by_role("button", name="Undo").click()
        expect(numbers).to_have_count(4)
        tick(4)
        page.get_by_role("button", name="Delete", exact=True).click()
        expect(numbers).to_have_count(3)
        page.goto(f"{address}/run/4")
        expect(page.get_by_text("Run 4 was deleted")).to_be_visible()
        page.get_by_role("button", name="Restore it").click()
        expect(page.get_by_role("heading", name="Timeline")).to_be_visible()
        opened = open_database(database)
        assert (get_run(opened, 4).deleted, get_run(opened, 2).label) == (None, "the best")
        opened.close()

        # A saved query is drawn; one of one's own runs with Ctrl+Enter; a mistake is marked at its place.
        page.get_by_role("link", name="SQL").click()
        expect(page.locator("#sql-grid .ag-row").first).to_be_visible()
        page.locator("#sql-saved").click()
        page.get_by_role("option", name="Bytes moved by class").click()
        expect(page.locator("#sql-plot .bars .point").first).to_be_attached()
        page.wait_for_url("**/sql?saved=Bytes+moved+by+class&kind=bar&x=tensor_class&y=moved_bytes*")
        picture(page, "sql")
        page.locator("#sql-text").fill("SELECT label, tags FROM run WHERE label <> ''")
        page.keyboard.press("Control+Enter")
        expect(page.locator("#sql-grid .ag-row")).to_have_count(1)
        expect(page.locator("#sql-grid .ag-row")).to_contain_text('["<b>paper</b>"]')
        page.reload()
        expect(page.locator("#sql-grid .ag-row")).to_contain_text("the best")
        page.locator("#sql-text").fill("DELETE FROM run")
        page.get_by_role("button", name="Run", exact=True).click()
        expect(page.get_by_text("DELETE is refused: a query here only reads")).to_be_visible()
        page.locator("#sql-text").fill("SELECT id FROM\n  runs")
        page.keyboard.press("Control+Enter")
        expect(page.locator(".sql-place")).to_have_text("  runs\n  ^")
        assert page.evaluate("document.documentElement.scrollWidth") == 1280
        assert served.complaints == []
    finally:
        context.close()
        stop(process)


def test_a_page_that_takes_long_says_that_it_is_coming(page: Page, served: Served) -> None:
    held: list[Route] | None = []

    def hold(route: Route) -> None:
        route.continue_() if held is None else held.append(route)

    page.route(re.compile("/_dash-layout"), hold)
    page.goto(f"{served.address}/run/2", wait_until="commit")
    page.wait_for_function("""() => {
        const coming = document.querySelector("._dash-loading");
        const look = coming && getComputedStyle(coming, "::before");
        return look && look.content.includes("Loading this page") && look.opacity === "1";
    }""")
    answered, held = held, None
    for route in answered:
        route.continue_()
    expect(page.locator("#run-timeline")).to_be_visible()
    expect(page.locator("._dash-loading")).to_have_count(0)


def test_half_a_window_has_all_of_the_header_on_one_line(page: Page, served: Served) -> None:
    page.set_viewport_size({"width": 900, "height": 700})
    page.goto(served.address)
    expect(page.get_by_label("Switch between light and dark")).to_be_in_viewport()
    feet = "[...document.querySelectorAll('header a, header button')].map((e) => e.getBoundingClientRect().bottom)"
    assert max(page.evaluate(feet)) <= 56
    assert page.evaluate("document.documentElement.scrollWidth") <= 900
