"""A search, what it finds, why it is so, and an answer to a what-if question, in a real browser."""

from __future__ import annotations

import re

import pytest
from browsing import PICTURES, Served
from playwright.sync_api import Page, expect

pytestmark = [pytest.mark.browser, pytest.mark.mindspore]


def test_a_search_leads_to_a_transfer_to_its_reason_and_to_an_answer(page: Page, served: Served) -> None:
    page.goto(f"{served.address}/run/2")
    # The worst stall and the largest storage are named before anything is clicked, and the stalls in full below.
    expect(page.locator(".highlights")).to_contain_text(re.compile("Worst stall.*Largest at the peak"))
    expect(page.locator("#run-stalls .verdict")).to_contain_text("of the step is lost to transfers", timeout=20_000)
    expect(page.locator("#run-alive h2")).to_contain_text("(the peak)")

    # Nothing lies over the chart for what nobody picked.
    expect(page.locator("#run-details h2")).to_contain_text(re.compile("Prefetch|Store"))
    expect(page.locator("#run-picked-bar")).to_be_empty()
    expect(page.locator("#run-picked-bar")).to_be_hidden()

    page.keyboard.press("/")
    search = page.locator("#run-search")
    expect(search).to_be_focused()
    search.fill("blocking>0 in:transfer colour:red")
    expect(page.get_by_text("There is no field 'colour'")).to_be_visible()
    search.fill("blocking>0 in:transfers")
    expect(page.locator("#run-found-summary")).to_contain_text(re.compile(r"^\d+ transfers of .* blocking\."))
    expect(page.locator("#run-transfers-hint")).to_contain_text("match the search")
    assert "q=blocking%3E0+in:transfers" in page.url

    page.locator("#run-found button.link").nth(1).click()
    details = page.locator("#run-details")
    expect(details.locator("h2")).to_contain_text(re.compile("Prefetch|Store"))
    expect(details.locator("#run-details-why")).to_contain_text("it delays compute by")
    page.wait_for_function("() => new URLSearchParams(location.search).get('picked')?.startsWith('transfer:')")
    assert "q=blocking%3E0+in:transfers" in page.url

    # The bar at the foot of the window leads to the details while they are out of sight.
    page.locator("#run-picked-bar button").click()
    expect(page.locator("#run-picked-bar")).to_be_hidden()
    details.get_by_role("button", name=re.compile("^Double the link")).or_(
        details.locator("[data-ask^='link']")
    ).first.click()
    answer = page.locator("#run-answer")
    expect(answer).to_contain_text("What if: link")
    expect(answer).to_contain_text("Step (predicted)")
    expect(answer).to_be_in_viewport(ratio=0.5)
    if PICTURES is not None:
        page.locator("#run-stalls").evaluate("panel => { panel.scrollIntoView(); window.scrollBy(0, -72); }")
        page.wait_for_timeout(500)
        page.screenshot(path=PICTURES / "run-why.png")
    question = page.locator("#run-question")
    question.fill("link sideways")
    question.press("Enter")
    expect(page.locator("#run-details")).to_contain_text("write a factor such as x2")
    assert "keep=" in str(details.get_by_role("link", name="Pin: keep").get_attribute("href"))

    page.reload()
    expect(page.locator("#run-search")).to_have_value("blocking>0 in:transfers")
    expect(page.locator("#run-details h2")).to_contain_text(re.compile("Prefetch|Store"))
    # Who is alive at the peak, whichever transfer was picked: it may be one that runs while hardly anything is alive.
    page.goto(f"{served.address}/run/2")
    expect(page.locator("#run-alive h2")).to_contain_text("(the peak)")
    page.locator("#run-group").get_by_text("Name", exact=True).click()
    expect(page.locator("#run-alive .group-name", has_text="*").first).to_be_visible()
    page.locator("#run-alive .group summary").nth(1).press("Enter")
    page.locator("#run-alive .group[open] button.link").last.scroll_into_view_if_needed()
    assert page.evaluate("document.documentElement.scrollWidth") <= 1280
