"""Exports hold every number, need nothing beside themselves, and never leave half a file."""

from __future__ import annotations

import csv
import gzip
import json
import re
from collections import defaultdict
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from playwright.sync_api import Browser
from profiles_samples import keep_schedule, offload_schedule, profile_of

from hyperoffload_core.errors import UserError
from hyperoffload_core.ir import Graph
from profiles.chrome_trace import COMPUTE, COPY_IN, COPY_OUT, trace_bytes, trace_events
from profiles.compare import compare
from profiles.comparison import LabelledProfile
from profiles.export import COMPARISON_SUFFIXES, comparison_bytes, export_comparison, export_trace
from profiles.figures import CONFIG, memory_figure
from profiles.figures_by_op import op_figures
from profiles.figures_lanes import gantt_figure
from profiles.report import report_html
from profiles.shown import format_value
from profiles.tables import CSV_COLUMNS

HOSTILE = '<script>alert("x")</script> & "q" 100%'


@pytest.fixture
def profiles() -> list[LabelledProfile]:
    keep = profile_of(keep_schedule(), "measured", steps=3, losses=(3.0, 2.0, 0.1))
    offload = profile_of(offload_schedule(), "predicted", losses=(3.0, 2.0, 0.1))
    return [LabelledProfile("none", keep, 1), LabelledProfile("offload, 45 %", offload, 2)]


def test_the_csv_has_one_row_per_value(profiles: list[LabelledProfile]) -> None:
    rows = list(csv.DictReader(comparison_bytes(profiles, ".csv").decode().splitlines()))
    assert tuple(rows[0]) == CSV_COLUMNS
    found = {(r["table"], r["item"], r["profile"], r["quantity"]): r for r in rows}
    assert len(found) + sum(r["table"] == "transfers" for r in rows) // 2 == len(rows)  # out and in of one storage
    step = found["numbers", "step time", "offload, 45 %", "step time"]
    assert (step["value"], step["difference_to_baseline"], step["unit"], step["kind"]) == (
        "420",
        "20",
        "ns",
        "predicted",
    )
    assert float(found["numbers", "last loss", "none", "last loss"]["value"]) == 0.1
    assert found["numbers", "overlap", "none", "overlap"]["value"] == ""
    assert found["storages", "act", "offload, 45 %", "stores"]["value"] == "1"
    incoming = {r["quantity"]: r["value"] for r in rows if r["detail"] == "in" and r["profile"] == "offload, 45 %"}
    assert (incoming["hidden_ns"], incoming["exposed_ns"], incoming["slack_ns"]) == ("80", "20", "0")
    assert {r["table"] for r in rows} == {"numbers", "ops", "storages", "transfers", "policies"}
    assert (incoming["cause"], incoming["remedy"]) == ("dependency", "nothing")  # the hand-made start has no reason


def test_what_names_a_profile_is_cut_in_the_csv_since_every_row_repeats_it(profiles: list[LabelledProfile]) -> None:
    first, second = profiles
    long = comparison_bytes([first, replace(second, label="z" * 10_000)], ".csv").decode()
    assert max(len(cell) for row in csv.reader(long.splitlines()) for cell in row) < 200


def test_the_trace_says_what_each_transfer_cost() -> None:
    events = trace_events(profile_of(offload_schedule(), "measured", steps=2), "two steps")
    fetched = [e["args"] for e in events if e["name"] == "Prefetch act"]
    times = ("hidden_ns", "exposed_ns", "blocking_ns", "slack_ns")
    assert [[a[name] for name in times] for a in fetched] == [[80, 20, 20, 0]] * 2
    assert {a["cause"] for a in fetched} == {"dependency"}


def test_the_json_is_the_comparison(profiles: list[LabelledProfile]) -> None:
    document = json.loads(comparison_bytes(profiles, ".json"))
    comparison = compare(profiles)
    assert (document["format"], document["version"]) == ("hyperoffload.comparison", 1)
    assert document["verdict"] == comparison.verdict
    assert document["numbers"][0]["values"] == [400, 420]
    assert [s["kind"] for s in document["sides"]] == ["measured", "predicted"]
    assert len(document["ops"]) == 4


def test_files_appear_whole_or_not_at_all(profiles: list[LabelledProfile], tmp_path: Path) -> None:
    path = tmp_path / "comparison.csv"
    export_comparison(profiles, path)
    with pytest.raises(UserError, match="already there"):
        export_comparison(profiles, path)
    export_comparison(profiles, path, overwrite=True)
    assert path.read_bytes() == comparison_bytes(profiles, ".csv")
    with pytest.raises(
        UserError, match=r"does not say the format; a comparison is written as \.html, \.md, \.csv, \.json, \.svg"
    ):
        export_comparison(profiles, tmp_path / "comparison.xlsx")
    with pytest.raises(UserError, match="cannot be written"):
        export_comparison(profiles, tmp_path / "no" / "such" / "folder.csv")
    assert [p.name for p in tmp_path.iterdir()] == ["comparison.csv"]


def by_phase(events: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    found = defaultdict(list)
    for event in events:
        found[event["ph"]].append(event)
    return found


def test_the_trace_has_a_slice_per_op_and_transfer_and_its_metadata() -> None:
    events = by_phase(trace_events(profile_of(offload_schedule(), "measured", steps=2), "my run"))
    slices = events["X"]
    assert [s["name"] for s in slices if s["tid"] == COMPUTE] == ["MatMul", "MatMul", "ReLU", "MatMul"] * 2
    assert [s["name"] for s in slices if s["tid"] == COPY_OUT] == ["Store act"] * 2
    assert [s["name"] for s in slices if s["tid"] == COPY_IN] == ["Prefetch act"] * 2
    # The second step begins where the first ended: 420 ns.
    assert [(s["ts"], s["dur"]) for s in slices if s["tid"] == COPY_OUT] == [(0.1, 0.1), (0.52, 0.1)]
    names = {(m["name"], m.get("tid")): m["args"] for m in events["M"]}
    assert names["process_name", None] == {"name": "my run"}
    assert "measured on Test box" in names["process_labels", None]["labels"]
    assert names["thread_name", COPY_IN] == {"name": "copy in (Prefetch)"}
    assert {m for m, _ in names} == {"process_name", "process_labels", "thread_name", "thread_sort_index"}


def test_flow_arrows_are_paired_and_end_inside_slices() -> None:
    events = by_phase(trace_events(profile_of(offload_schedule(), steps=2), "run"))
    starts, ends = ({e["id"]: e for e in events[phase]} for phase in "sf")
    assert set(starts) == set(ends) == set(range(1, 7))
    assert len(events["s"]) == len(events["f"]) == 6

    def enclosing(event: dict[str, Any]) -> str:
        (found,) = [
            s["name"]
            for s in events["X"]
            if s["tid"] == event["tid"] and s["ts"] <= event["ts"] < round(s["ts"] + s["dur"], 3)
        ]
        return str(found)

    arrows = [(starts[i]["name"], enclosing(starts[i]), enclosing(ends[i])) for i in (1, 2, 3)]
    assert arrows == [
        ("producer to store", "MatMul", "Store act"),
        ("store to prefetch", "Store act", "Prefetch act"),
        ("transfer to consumer", "Prefetch act", "MatMul"),
    ]
    assert all(e["bp"] == "e" for e in events["f"])


def test_counters_follow_the_memory_curve_and_the_pool() -> None:
    counters = by_phase(trace_events(profile_of(offload_schedule()), "run"))["C"]
    device = [(c["ts"], sum(c["args"].values())) for c in counters if c["name"] == "device bytes"]
    assert device == [(0.0, 1500), (0.1, 1750), (0.2, 1300), (0.22, 1700), (0.32, 1704), (0.42, 0)]
    pool = [(c["ts"], c["args"]["pool"]) for c in counters if c["name"] == "pool bytes"]
    assert pool == [(0.1, 400), (0.32, 0)]


@given(st.integers(0, 10**15))
def test_no_nanosecond_is_lost(time_ns: int) -> None:
    profile = profile_of(keep_schedule())
    profile.ops.start_ns[0], profile.ops.end_ns[0] = time_ns, time_ns + 1
    text = trace_bytes(profile, "run").decode()
    stamps = re.findall(r'"ts":([0-9.e+]+),"dur":0\.001', text)
    whole, _, decimals = stamps[0].partition(".")
    assert int(whole) * 1000 + int(decimals.ljust(3, "0")) == time_ns


def test_slices_of_one_thread_do_not_overlap() -> None:
    slices = by_phase(trace_events(profile_of(offload_schedule(), steps=3), "run"))["X"]
    for thread in (COMPUTE, COPY_OUT, COPY_IN):
        rows = sorted((s["ts"], s["dur"]) for s in slices if s["tid"] == thread)
        assert all(round(a + d, 3) <= b for (a, d), (b, _) in pairwise(rows))


def test_a_trace_is_gzipped_by_its_name(tmp_path: Path) -> None:
    profile = profile_of(offload_schedule())
    export_trace(profile, "run", tmp_path / "trace.json")
    export_trace(profile, "run", tmp_path / "trace.json.gz")
    plain = (tmp_path / "trace.json").read_bytes()
    assert gzip.decompress((tmp_path / "trace.json.gz").read_bytes()) == plain
    assert json.loads(plain)["otherData"]["kind"] == "predicted"
    with pytest.raises(UserError, match="written as"):
        export_trace(profile, "run", tmp_path / "trace.pb")


def test_the_report_loads_nothing_and_stays_small(profiles: list[LabelledProfile]) -> None:
    page = report_html(compare(profiles), profiles)
    assert len(page) < 2_500_000
    assert compare(profiles).verdict in page
    without_plotly = re.sub(r'<script type="text/plain" id="plotly">.*?</script>', "", page, flags=re.DOTALL)
    assert not re.search(r"https?://|src=|@import|url\(", without_plotly)
    assert "{{" not in without_plotly


def test_what_people_typed_stays_text(profiles: list[LabelledProfile]) -> None:
    named = [LabelledProfile(HOSTILE, item.profile) for item in profiles]
    page = report_html(compare(named), named)
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(" in page


def test_every_chart_hides_the_upload_button_and_the_logo(profiles: list[LabelledProfile]) -> None:
    assert (CONFIG["showSendToCloud"], CONFIG["displaylogo"]) == (False, False)
    for figure in (memory_figure(profiles), gantt_figure(profiles)):
        assert figure["config"] is CONFIG


def test_the_memory_chart_marks_each_peak_and_near_limits(profiles: list[LabelledProfile]) -> None:
    figure = memory_figure(profiles)
    peaks = [t for t in figure["data"] if t["mode"] == "markers"]
    assert [p["y"] for p in peaks] == [[1750 / 1024], [1750 / 1024]]
    assert [s["label"]["text"] for s in figure["layout"]["shapes"]] == ["limit 1.76 KiB"]  # not the 4000 B of "none"
    assert [t["line"]["dash"] for t in figure["data"] if t["mode"] == "lines"] == ["solid", "dash"]


def test_the_gantt_has_a_rectangle_per_event(profiles: list[LabelledProfile]) -> None:
    figure = gantt_figure(profiles)
    rectangles = defaultdict(int)
    for trace in figure["data"]:
        if trace["mode"] == "lines":
            rectangles[trace["name"]] += trace["x"].count(None)
    assert rectangles == {
        "forward": 6,
        "backward": 2,
        "copy out (Store)": 1,
        "copy in (Prefetch)": 1,
        "compute waits for a copy": 1,
    }
    assert "waits for Prefetch act · 400 B · 20 ns" in hover_texts(figure)


def hover_texts(figure: dict[str, Any]) -> set[str]:
    return {text for trace in figure["data"] for text in trace.get("text", ())}


def test_lanes_by_op_have_the_same_events_over_the_ops_they_run_with(profiles: list[LabelledProfile]) -> None:
    figures, over_time = op_figures(profiles, 0), gantt_figure(profiles)
    by_op = figures["lanes_by_op"]
    for of in ("name", "y"):
        drawn = [[t[of] for t in f["data"] if t["mode"] == "lines"] for f in (by_op, over_time)]
        assert drawn[0] == drawn[1]
    # What things took is told in time on either axis.
    assert hover_texts(by_op) == hover_texts(over_time)
    assert {f["layout"]["xaxis"]["title"]["text"] for f in figures.values()} == {
        by_op["layout"]["xaxis"]["title"]["text"]
    }
    bars = [t for t in by_op["data"] if t["mode"] == "lines" and t["name"] in ("forward", "backward")]
    starts = [t["x"][i] for t in bars for i in range(0, len(t["x"]), 6)]
    ends = [t["x"][i] for t in bars for i in range(2, len(t["x"]), 6)]
    assert {round(end - start, 6) for start, end in zip(starts, ends, strict=True)} == {0.8}
    assert sorted({round(start + 0.4, 6) for start in starts}) == list(range(len(set(starts))))
    low, high = by_op["layout"]["xaxis"]["range"]
    assert all(low <= x <= high for t in by_op["data"] for x in t["x"] if x is not None)


def test_numbers_read_as_people_write_them() -> None:
    assert format_value(None, "ns") == "\N{EN DASH}"
    assert format_value(1_500_000, "ns") == "1.50 ms"
    assert format_value(-2048, "bytes", signed=True) == "\N{MINUS SIGN}2.00 KiB"
    assert format_value(0.9, "fraction") == "90.0 %"
    assert format_value(0, "number", signed=True) == "±0"


def hostile_profiles() -> list[LabelledProfile]:
    """Two profiles of a graph, a policy and labels in which every name tries something."""
    names = (HOSTILE, "=1+1|*b*", "\u202eevil\x07\x00\n# head", "x" * 10_000, "<!--", "\ud800 half")
    schedule = offload_schedule()
    storages = tuple(replace(s, name=f"{names[s.id]}") for s in schedule.graph.storages)
    ops = tuple(replace(o, name=names[o.id], primitive="<b>|", scope="<i>`x`</i>") for o in schedule.graph.ops)
    graph = Graph(names[2], ops, storages)
    policy = {"strategy": "@cmd", "rules": [{"name": HOSTILE, "action": "keep"}]}
    moved = replace(schedule, graph=graph, policy=policy, strategy="-2+3", duration_source=HOSTILE)
    kept = replace(keep_schedule(), graph=graph)
    return [LabelledProfile(names[3], profile_of(kept)), LabelledProfile(names[2], profile_of(moved, "measured"))]


@pytest.mark.parametrize("suffix", COMPARISON_SUFFIXES)
def test_hostile_names_are_text_in_every_export(suffix: str) -> None:
    text = comparison_bytes(hostile_profiles(), suffix).decode()
    assert "\u202e" not in text and "\x07" not in text and "\x00" not in text
    if suffix in (".html", ".svg"):
        without_scripts = re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL)
        assert not re.search(r"<(b|i|!--|script|img)\b", without_scripts)
    if suffix == ".svg":
        ElementTree.fromstring(text)
    if suffix == ".csv":
        cells = [cell for row in csv.reader(text.splitlines()) for cell in row]
        risky = [c for c in cells if c.startswith(("=", "+", "-", "@"))]
        assert all(re.fullmatch(r"-[0-9.e-]+", c) for c in risky)  # negative differences stay numbers
        assert "'-2+3" in cells
    if suffix == ".json":
        assert json.loads(text)["sides"][0]["label"] == "x" * 10_000


def test_the_markdown_has_whole_tables_whatever_the_names_are() -> None:
    text = comparison_bytes(hostile_profiles(), ".md").decode()
    assert "<" not in text and "x" * 200 not in text
    heads = 0
    for above, line in pairwise(text.splitlines()):
        if re.fullmatch(r"\|( -+:? \|)+", line):
            heads += 1
            assert len(re.findall(r"(?<!\\)\|", above)) == line.count("|")
        if above.startswith("|") and line.startswith("|"):
            assert len(re.findall(r"(?<!\\)\|", above)) == len(re.findall(r"(?<!\\)\|", line))
    assert heads >= 8
    assert [line for line in text.splitlines() if line.startswith("# ")] == [text.splitlines()[0]]


def test_the_markdown_report_answers_what_a_reader_asks(profiles: list[LabelledProfile]) -> None:
    text = comparison_bytes(profiles, ".md").decode()
    assert "takes 1.05 times the step time" in text
    assert "| step time | 400 ns | 420 ns (+20 ns) |" in text.replace("\\", "")
    for heading in ("Conditions", "Numbers", "Decisions", "Where time went", "Transfers that differ"):
        assert f"## {heading}\n" in text
    assert "| act | activation | kept (on the device 100% of the step) | offloaded 1 time" in text
    drawn = text.split("```text\n")[1].split("```")[0].splitlines()
    assert [len(line.partition("  ")[0].rstrip()) <= 72 for line in drawn] == [True, True]
    assert max(drawn[0]) == "█"


def test_the_picture_has_a_line_per_profile_and_a_polygon_per_lane(profiles: list[LabelledProfile]) -> None:
    root = ElementTree.fromstring(comparison_bytes(profiles, ".svg").decode())
    paths = [p.attrib for p in root.iter("{http://www.w3.org/2000/svg}path")]
    filled = [p for p in paths if p.get("fill", "none") != "none" and p.get("stroke")]
    # Over time and again by op: forward and backward twice, one lane out, one in, one stretch of waiting.
    assert len(filled) == 2 * 7
    assert sum(p["d"].count("M") for p in filled) == 2 * 11  # one rectangle each
    lines = [p for p in paths if p.get("stroke-width") == "2" and p.get("fill") == "none"]
    assert len(lines) == 2 + 2 + 1  # memory over time, memory by op, one run behind the other
    words = " ".join("".join(t.itertext()) for t in root.iter("{http://www.w3.org/2000/svg}text"))
    for said in ("needs 6% more device memory", "none (measured)", "limit 1.76 KiB", "time in the step (ns)"):
        assert said in words


@pytest.mark.browser
def test_the_report_draws_offline_in_a_browser(
    profiles: list[LabelledProfile], tmp_path: Path, browser: Browser
) -> None:
    path = tmp_path / "report.html"
    named = [*profiles, LabelledProfile(HOSTILE, profiles[0].profile)]
    export_comparison(named, path)
    problems: list[str] = []
    context = browser.new_context(offline=True, color_scheme="dark")
    page = context.new_page()
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    page.on("request", lambda request: problems.append(request.url) if request.url != path.as_uri() else None)
    page.goto(path.as_uri())
    page.wait_for_selector("html[data-ready=yes]", timeout=30_000)
    assert page.locator("#gantt .scatterlayer path.js-fill").count() == 9
    assert page.locator("#lanes_by_op .scatterlayer path.js-fill").count() == 9
    assert page.locator("#memory .scatterlayer .trace").count() == 6
    # A zoom of the memory curve is a zoom of the Gantt chart.
    page.evaluate("Plotly.relayout('memory', {'xaxis.range[0]': 100, 'xaxis.range[1]': 200})")
    page.wait_for_function("document.getElementById('gantt').layout.xaxis.range[1] === 200")
    context.close()
    assert [p for p in problems if not p.startswith("blob:")] == []
