"""Tier bars, address map and graph page in a real browser: one window for all charts, one pick, and the way through the
graph with the keyboard alone."""

from __future__ import annotations

import re

import pytest
from browsing import Served, picture
from playwright.sync_api import FloatRect, Page, Request, expect

pytestmark = [pytest.mark.browser, pytest.mark.mindspore]

RANGE = "name => document.querySelector(`#${name} .js-plotly-plot`).layout.xaxis.range"


def plot(page: Page, name: str) -> FloatRect:
    """Where the plot itself is, once something is drawn in it; it is drawn when it is seen."""
    page.locator(f"#{name}").scroll_into_view_if_needed()
    page.wait_for_function(
        "name => document.querySelector(`#${name} .js-plotly-plot`)?.data?.some(t => t.x || t.z)", arg=name
    )
    area = page.locator(f"#{name} .nsewdrag").first
    area.scroll_into_view_if_needed()
    box = area.bounding_box()
    assert box is not None
    return box


def drag(page: Page, box: FloatRect, low: float, high: float, level: float) -> None:
    across, y = box["width"], box["y"] + box["height"] * level
    page.mouse.move(box["x"] + across * low, y)
    page.mouse.down()
    page.mouse.move(box["x"] + across * high, y + 3, steps=6)
    page.mouse.up()


def wait_for_same_range(page: Page, shown: list[float], *names: str) -> None:
    for name in names:
        page.locator(f"#{name}").scroll_into_view_if_needed()
        page.wait_for_function(
            "([name, low, high]) => { const r = document.querySelector(`#${name} .js-plotly-plot`).layout.xaxis.range; "
            "return Math.abs(r[0] - low) < 1e-6 * (high - low) && Math.abs(r[1] - high) < 1e-6 * (high - low); }",
            arg=[name, *shown],
        )


def test_all_charts_show_one_window_and_a_pick_leads_through_the_graph(page: Page, served: Served) -> None:
    page.goto(f"{served.address}/run/2")
    box = plot(page, "tiers-chart")
    whole = page.evaluate(RANGE, "tiers-chart")
    picture(page, "tiers", "#tiers")
    plot(page, "addresses-chart")
    picture(page, "addresses", "#addresses")
    box = plot(page, "tiers-chart")

    drag(page, box, 0.3, 0.6, 0.7)
    page.wait_for_function(f"whole => ({RANGE})('run-timeline')[1] < whole[1] * 0.8", arg=whole)
    part = page.evaluate(RANGE, "run-timeline")
    assert part[1] - part[0] == pytest.approx((whole[1] - whole[0]) * 0.3, rel=0.05)
    wait_for_same_range(page, part, "tiers-chart", "addresses-chart")
    page.get_by_role("button", name="Whole step").click()
    wait_for_same_range(page, whole, "run-timeline", "tiers-chart", "addresses-chart")

    box = plot(page, "addresses-chart")
    before = page.locator("#addresses-words").text_content() or "?"
    # Above the reserved height there is nothing to pick, but a time to look at.
    page.mouse.click(box["x"] + box["width"] * 0.8, box["y"] + box["height"] * 0.02)
    expect(page.locator("#addresses-words")).not_to_have_text(before)
    expect(page.locator("#addresses-words")).to_contain_text(
        re.compile(r"Live.*reserved.*Largest free hole", re.DOTALL)
    )
    box = plot(page, "tiers-chart")
    rows = page.locator("#tiers-table tbody tr").count()
    page.mouse.click(box["x"] + box["width"] * 0.5, box["y"] + box["height"] * (rows - 0.8) / rows)
    row = page.locator("#tiers-table tbody tr").last.locator("button")
    expect(page.locator("#run-details h2").first).to_contain_text(row.text_content() or "?")

    page.get_by_label("Storages to show").fill("class:weight")
    expect(page.locator("#tiers-words")).to_contain_text(re.compile(r"\d+ storages"))
    page.get_by_label("Storages to show").fill("size>")
    expect(page.locator("#tiers-words [role=alert]")).to_be_visible()

    held = page.locator("#run-details h2").first.text_content()
    page.get_by_role("link", name="More of it in the graph").click()
    page.wait_for_url(re.compile(r"/graph/2\?storage=\d+"))
    expect(page.locator("#graph-details h2")).to_have_text(held or "?")
    move = page.locator(".graph-box.store, .graph-box.prefetch").first
    move.focus()
    page.keyboard.press("Enter")
    expect(page.locator(".graph-box.picked")).to_have_count(1)
    expect(page.locator("#graph-details h2")).to_have_text(f"{move.locator('b').text_content()} {held}")
    page.wait_for_function("() => location.search.includes('picked=')")
    picture(page, "graph")
    page.reload()
    expect(page.locator(".graph-box.picked")).to_have_count(1)
    page.locator("#graph-stages").get_by_text("Side by side").click()
    expect(page.locator(".graph-part")).to_have_count(2)

    page.get_by_label("Find an op or a storage").fill("softmax")
    found = page.locator("#graph-found a").first
    expect(found).to_be_visible()
    found.focus()
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(r"/graph/2\?(op|storage)=\d+$"))
    page.get_by_role("link", name="Show it in the run").click()
    page.wait_for_url(re.compile(r"/run/2\?.*picked="))
    expect(page.locator("#run-details .facts").first).to_be_visible()

    page.get_by_role("link", name="Graph", exact=True).click()
    page.wait_for_url(re.compile(r"/graph/2$"))
    expect(page.locator(".graph-box.layer").first).to_be_visible()
    picture(page, "graph-layers")
    page.locator(".graph-box.layer").first.focus()
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(r"/graph/2\?layer="))
    expect(page.locator(".graph-box.op").first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 1280


def test_the_timeline_comes_first_and_only_what_is_seen_is_drawn(page: Page, served: Served) -> None:
    asked: list[str] = []

    def note(request: Request) -> None:
        if "_dash-update-component" in request.url:
            asked.append(request.post_data_json["output"])

    page.on("request", note)
    page.goto(f"{served.address}/run/2")
    expect(page.locator("#run-alive-body .group").first).to_be_visible()
    assert "run-rest" in asked[0]

    drawn = "name => document.querySelector(`#${name} .js-plotly-plot`).data.length"
    assert page.evaluate(drawn, "addresses-chart") == 0
    page.locator("#addresses-chart").scroll_into_view_if_needed()
    page.wait_for_function(f"({drawn})('addresses-chart') > 0")

    page.evaluate("scrollTo(0, 0)")
    page.wait_for_load_state("networkidle")
    page.evaluate(
        "() => { window.drawn = []; const react = Plotly.react; Plotly.react = function (chart) { "
        "window.drawn.push(chart.closest('.dash-graph').id); return react.apply(this, arguments); }; }"
    )
    page.keyboard.press("w")
    page.wait_for_function("drawn.length > 0 && location.search.includes('window=')")
    page.wait_for_load_state("networkidle")
    # Once for the server's answer; neither for what the browser itself has shown, nor where nobody looks.
    assert page.evaluate("drawn") == ["run-timeline"]
