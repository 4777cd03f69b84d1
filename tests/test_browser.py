"""The whole loop in a real browser: run, timeline, policy, job, comparison."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import pytest
from browsing import JOB_MS, Served, chart_box, picture, serve, shown_range, stop, watched
from playwright.sync_api import Browser, Page, expect

from db.database import open_database
from db.queries import load_profile, median_step, ops_window

# A picture of a run ends where what explains it begins, which has pictures of its own.
TIMELINE = ".panel:has(#run-timeline)"

pytestmark = [pytest.mark.browser, pytest.mark.mindspore]


def test_from_a_run_to_an_exported_comparison(page: Page, served: Served) -> None:
    """Open, edit the policy, recompile, see the new run, compare, download the export."""
    page.goto(served.address)
    expect(page.locator(".ag-center-cols-container .ag-row").first).to_be_visible()
    picture(page, "runs")

    page.goto(f"{served.address}/run/2")
    expect(page.locator("#run-timeline .bars").first).to_be_attached()
    expect(page.locator("#run-alive h2")).to_contain_text("(the peak)")
    picture(page, "run", down_to=TIMELINE)

    page.get_by_role("link", name="Tune").click()
    page.wait_for_url("**/tune/2")
    limit = page.get_by_label("Memory limit", exact=True)
    limit.fill("1%")
    expect(page.locator("#policy-limit-error")).to_contain_text("cannot be met; the smallest feasible limit")
    expect(page.get_by_role("button", name="Recompile", exact=True)).to_be_disabled()
    limit.fill("70%")
    page.get_by_label("Strategy", exact=True).first.click()
    page.get_by_role("option", name="HyperOffload").click()
    expect(page.get_by_label("Policy as TOML")).to_have_value(
        re.compile('memory_limit = "70%"\nstrategy = "hyperoffload"')
    )
    page.get_by_role("button", name="Add rule").click()
    expect(page.locator("#policy-rules .ag-row").first).to_contain_text(re.compile(r"\d+ · [\d.]+ [KM]iB"))
    page.get_by_role("button", name="Recompile", exact=True).click()
    opened = page.locator("#job-open")
    expect(opened).to_be_visible(timeout=JOB_MS)

    opened.click()
    page.wait_for_url(re.compile(r"/run/\d+$"))
    expect(page.locator("h1")).to_contain_text("hyperoffload")
    expect(page.locator("h1")).to_contain_text("predicted")
    new_run = page.url.rpartition("/")[2]
    expect(page.locator("#run-timeline .bars").first).to_be_attached()
    expect(page.locator("#run-alive h2")).to_contain_text("(the peak)")
    picture(page, "run-hyperoffload", down_to=TIMELINE)

    page.goto(f"{served.address}/compare?runs=2,{new_run}")
    expect(page.locator("#compare-verdict")).to_contain_text("times the step time")
    picture(page, "compare")
    with page.expect_download() as waiting:
        page.get_by_role("button", name="JSON").click()
    document = json.loads(Path(waiting.value.path()).read_text())
    assert [side["run_id"] for side in document["sides"]] == [2, int(new_run)]
    with page.expect_download() as waiting:
        page.get_by_role("button", name="HTML report").click()
    report = Path(waiting.value.path()).read_text()
    assert report.lstrip().lower().startswith("<!doctype html>")
    assert "https://cdn" not in report


def test_a_zoom_shows_what_the_database_holds(page: Page, served: Served) -> None:
    """Drag, keys and links move one axis; the bars drawn are exactly the recorded ops of the window."""
    page.goto(f"{served.address}/run/2")
    expect(page.locator("#run-timeline .bars").first).to_be_attached()
    box = chart_box(page)
    left, right, height = box["x"] + box["width"] * 0.4, box["x"] + box["width"] * 0.45, box["y"] + 150
    whole = shown_range(page)
    page.mouse.move(left, height)
    page.mouse.down()
    page.mouse.move(right, height + 5, steps=5)
    page.mouse.up()
    page.wait_for_function(
        "([low, high]) => { const r = document.querySelector('.js-plotly-plot').layout.xaxis.range; "
        "return r[1] - r[0] < (high - low) / 10; }",
        arg=list(whole),
    )
    low, high = shown_range(page)
    margin = (high - low) / 8  # drawn beyond the window on each side
    drawn = "document.querySelector('.js-plotly-plot').data.find(t => t.type === 'bar' && t.name.startsWith('Compute'))"
    page.wait_for_function(f"() => {drawn}.customdata.length > 0 && {drawn}.customdata.length < 400")
    page.wait_for_timeout(400)
    ids = [item[2] for item in page.evaluate(f"{drawn}.customdata")]
    database = open_database(served.database, create=False)
    window = (int((low - margin) * 1e6), int((high + margin) * 1e6))
    recorded = ops_window(database, 2, median_step(database, 2), *window).op.tolist()
    database.close()
    assert sorted(ids) == sorted(recorded)

    page.locator("h1").click()
    page.keyboard.press("s")
    page.wait_for_function(
        "width => { const r = document.querySelector('.js-plotly-plot').layout.xaxis.range; "
        "return r[1] - r[0] > width * 1.5; }",
        arg=high - low,
    )
    # The table draws its rows when it comes into sight.
    page.locator("#run-transfers").scroll_into_view_if_needed()
    page.locator("#run-transfers button.link").first.click()
    expect(page.locator("#run-details h2")).to_contain_text(re.compile("Prefetch|Store"))
    page.get_by_role("button", name="Whole step").click()
    page.wait_for_function(
        "low => document.querySelector('.js-plotly-plot').layout.xaxis.range[0] === low", arg=whole[0]
    )

    # A zoom is not lost when the chart gets another size right after it, as it does while it is first drawn.
    for part in (0.3, 0.7):
        page.evaluate(
            """at => {
              const chart = document.querySelector('#run-timeline .js-plotly-plot');
              window.Plotly.relayout(chart, { 'xaxis.range': [at, at * 1.01] });
              window.Plotly.relayout(chart, { autosize: true });
            }""",
            whole[0] + (whole[1] - whole[0]) * part,
        )
        wanted = int((whole[0] + (whole[1] - whole[0]) * part) * 1e6)
        page.wait_for_function(
            "at => Math.abs(new URLSearchParams(location.search).get('window')?.split('-')[0] - at) <= 1", arg=wanted
        )


def test_a_selected_stretch_has_the_recorded_numbers_and_its_address_shows_it_again(page: Page, served: Served) -> None:
    """Select with the mouse, zoom with the brush and the keys, split the memory otherwise; the address restores it."""
    page.goto(f"{served.address}/run/2")
    box = chart_box(page)
    page.keyboard.press("v")
    page.wait_for_function("() => document.querySelector('.js-plotly-plot')._fullLayout.dragmode === 'select'")
    page.mouse.move(box["x"] + box["width"] * 0.3, box["y"] + 150)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + 160, steps=5)
    page.mouse.up()
    expect(page.locator("#run-selected")).to_contain_text("Selected")
    page.wait_for_url(re.compile(r"[?&]selected=\d+-\d+"))
    found = re.search(r"selected=(\d+)-(\d+)", page.url)
    assert found is not None
    start, end = int(found[1]), int(found[2])
    database = open_database(served.database, create=False)
    step = median_step(database, 2)
    ops = ops_window(database, 2, step, start, end)
    database.close()
    assert 0 < start < end
    expect(page.locator("#run-selected")).to_contain_text(f"{len(ops.op):,}")

    whole = shown_range(page)
    brush = page.locator("#run-brush")
    brush.scroll_into_view_if_needed()
    area = brush.bounding_box()
    assert area is not None
    page.mouse.move(area["x"] + area["width"] * 0.5, area["y"] + 20)
    page.mouse.down()
    page.mouse.move(area["x"] + area["width"] * 0.7, area["y"] + 24, steps=5)
    page.mouse.up()
    page.wait_for_url(re.compile(r"[?&]window=\d+-\d+"))
    low, high = shown_range(page)
    assert (low - whole[0]) / (whole[1] - whole[0]) == pytest.approx(0.5, abs=0.02)
    assert (high - low) / (whole[1] - whole[0]) == pytest.approx(0.2, abs=0.02)
    page.get_by_label("How the memory is split").first.click()
    page.get_by_role("option", name="By layer").click()
    expect(page.locator("#run-legend")).to_contain_text(re.compile("optimizer|decoder|blocks"))
    page.wait_for_url(re.compile("[?&]by=layer"))
    address = page.url

    page.goto(address)
    chart_box(page)
    assert shown_range(page) == pytest.approx((low, high))
    expect(page.locator("#run-selected")).to_contain_text(f"{len(ops.op):,}")
    expect(page.locator("#run-legend")).to_contain_text(re.compile("optimizer|decoder|blocks"))
    page.locator("h1").click()
    page.keyboard.press("Escape")
    expect(page.locator("#run-selected")).to_be_empty()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog", name="Keys")).to_be_hidden()

    page.goto(f"{served.address}/run/2?step=all")
    box = chart_box(page)
    database = open_database(served.database, create=False)
    ends_ms = load_profile(database, 2).steps.step_ns.cumsum() / 1e6
    database.close()
    inside_last = float(ends_ms[-2] + ends_ms[-1]) / 2
    along = page.evaluate(
        "ms => { const all = document.querySelector('.js-plotly-plot')._fullLayout; "
        "return all._size.l + all.xaxis.d2p(ms); }",
        inside_last,
    )
    page.mouse.click(box["x"] + along, box["y"] + 120)
    page.wait_for_url(re.compile(r"/run/2\?step=2&"))


def test_a_click_explains_an_op_a_time_and_a_storage(page: Page, served: Served) -> None:
    page.goto(f"{served.address}/run/2")
    expect(page.locator("#run-alive .plain tbody tr").first).to_be_visible()
    box = chart_box(page)
    page.mouse.click(box["x"] + box["width"] * 0.3, box["y"] + 120)
    expect(page.locator("#run-alive h2")).not_to_contain_text("(the peak)")
    alive = page.locator("#run-alive tbody button").first
    name = alive.text_content() or ""
    alive.click()
    # The details of the worst stall were there before.
    expect(page.locator("#run-details h2")).to_contain_text(name)
    expect(page.locator("#run-details-why")).to_contain_text("Why")
    expect(page.locator("#run-details .facts")).to_contain_text("First used by")
    page.locator("#run-details .facts button").first.click()
    expect(page.locator("#run-details .facts")).to_contain_text("Primitive")
    with page.expect_download() as waiting:
        page.get_by_role("button", name="Export trace").click()
    trace = json.loads(gzip.decompress(Path(waiting.value.path()).read_bytes()))
    assert {"X", "C"} <= {event["ph"] for event in trace["traceEvents"]}
    page.get_by_text("Both", exact=True).click()
    expect(page.locator("#run-timeline")).to_be_visible()
    page.wait_for_function("() => document.querySelector('.js-plotly-plot').data.some(t => t.name === 'predicted')")


def test_a_job_survives_a_reload_and_is_cancelled(page: Page, served: Served) -> None:
    """The LLaMA-3-8B training step for the Ascend 910C starts from the page, is found again, and stops when told."""
    page.goto(f"{served.address}/new")
    page.get_by_label("Workload, or FILE.py:FUNCTION").fill("nothing.py:build")
    page.get_by_role("button", name="Compile", exact=True).click()
    expect(page.get_by_text("there is no file")).to_be_visible()
    page.get_by_label("Workload, or FILE.py:FUNCTION").fill("llama3-8b-train")
    expect(page.get_by_text("64.0 GiB of memory")).to_be_visible()
    page.get_by_role("button", name="Compile and run").click()
    expect(page.get_by_text("too large to run on this machine")).to_be_visible()
    page.get_by_role("button", name="Compile", exact=True).click()
    expect(page.locator("#job-panel")).to_contain_text("running", timeout=JOB_MS)
    page.reload()
    expect(page.locator("#job-panel")).to_contain_text("running")
    # The address holds what was typed.
    expect(page.get_by_label("Workload, or FILE.py:FUNCTION")).to_have_value("llama3-8b-train")
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator("#job-panel")).to_contain_text("cancelled", timeout=60_000)
    expect(page.get_by_role("button", name="Compile", exact=True)).to_be_enabled()


def test_the_scheme_follows_the_system_until_it_is_chosen(browser: Browser, served: Served) -> None:
    context = browser.new_context(viewport={"width": 1280, "height": 900}, color_scheme="dark")
    page = watched(context, served)
    page.goto(f"{served.address}/run/2")
    scheme = page.locator("html")
    expect(scheme).to_have_attribute("data-mantine-color-scheme", "dark")
    expect(page.locator("#run-timeline .bars").first).to_be_attached()
    picture(page, "run-dark", down_to=TIMELINE)
    page.get_by_label("Switch between light and dark").click()
    expect(scheme).to_have_attribute("data-mantine-color-scheme", "light")
    page.reload()
    expect(scheme).to_have_attribute("data-mantine-color-scheme", "light")
    context.close()
    assert served.complaints == []


def test_the_list_leads_to_a_comparison_by_keyboard(page: Page, served: Served) -> None:
    page.goto(served.address)
    # A row leads to its run: its name does, and Enter on any cell.
    page.locator(".ag-row a.run-name").first.click()
    page.wait_for_url(re.compile(r"/run/\d+$"))
    page.go_back()
    page.locator(".ag-row [col-id=step_ns]").first.click()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(r"/run/\d+$"))
    page.go_back()
    expect(page.locator(".ag-row a").first).to_be_visible()
    for box in page.locator(".ag-row input[type=checkbox]").all()[:2]:
        box.focus()
        page.keyboard.press("Space")
    button = page.get_by_role("button", name="Compare 2 runs")
    expect(button).to_be_enabled()
    button.focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/compare?runs=*")
    expect(page.locator("#compare-verdict")).to_be_visible()
    # A page this narrow must not scroll sideways.
    assert page.evaluate("document.documentElement.scrollWidth") <= 1280


def test_an_empty_database_and_an_unknown_run_have_pages(browser: Browser, tmp_path: Path) -> None:
    process, address = serve(tmp_path / "empty.db")
    try:
        context = browser.new_context(viewport={"width": 1280, "height": 900})
        empty = Served(address, tmp_path / "empty.db")
        page = watched(context, empty)
        page.goto(address)
        expect(page.get_by_text("hyperoffload demo")).to_be_visible()
        picture(page, "empty")
        page.goto(f"{address}/run/12")
        expect(page.get_by_text("There is no run 12")).to_be_visible()
        page.goto(f"{address}/nowhere")
        expect(page.get_by_text("There is no such page")).to_be_visible()
        context.close()
        assert empty.complaints == []
    finally:
        stop(process)
