"""The charts' data: exact at every zoom, honest about exposed and blocking time."""

from __future__ import annotations

import base64
import re
from dataclasses import replace
from typing import Any
from urllib.parse import unquote
from xml.etree import ElementTree

import numpy as np
import pytest
from dashboard_example import MIB, example_profile, example_schedule
from hypothesis import given, settings
from hypothesis import strategies as st

from app.dashboard.views import comparing, lanes, overview, timeline
from app.dashboard.views.lanes import BARS, BINS, LABELLED, MS, OUTLINES, draw, fitted, outline
from app.dashboard.views.phases import MOST_NAMES, band_trace, step_shades
from app.dashboard.views.step import StepView, item_at, run_view
from app.dashboard.views.timeline import Timeline
from profiles.lanes import Lane, without


def numbers(packed: dict[str, Any]) -> np.ndarray:
    kinds = {"f8": np.float64, "f4": np.float32}
    return np.frombuffer(base64.b64decode(packed["bdata"]), dtype=kinds[packed["dtype"]])


def lane_of(count: int, width: int = 7, pitch: int = 10) -> Lane:
    start = np.arange(count, dtype=np.int64) * pitch
    return Lane(np.arange(count, dtype=np.int64), start, start + width)


def plain_draw(lane: Lane, window: tuple[int, int]) -> lanes.Drawn:
    return draw(
        lane, window, lambda i, letters: fitted(f"op{i}", letters), lambda i, start, end: f"{i}: {start} to {end}"
    )


@pytest.fixture(scope="module")
def view() -> StepView:
    return StepView(example_profile(example_schedule(), "measured"))


@pytest.mark.parametrize(
    ("count", "detail"),
    [
        (LABELLED, "labels"),
        (LABELLED + 1, "bars"),
        (BARS + 1, "outline"),
        (OUTLINES, "outline"),
        (OUTLINES + 1, "busy"),
    ],
)
def test_detail_follows_the_number_of_rectangles_in_the_window(count: int, detail: str) -> None:
    drawn = plain_draw(lane_of(count), (0, count * 10))
    assert (drawn.detail, drawn.count) == (detail, count)
    assert (len(drawn.bars.id) > 0) != (len(drawn.outline.time_ms) > 0)


def test_a_zoom_brings_bars_back() -> None:
    lane = lane_of(50_000)
    assert plain_draw(lane, (0, 500_000)).detail == "busy"
    near = plain_draw(lane, (1_000, 2_000))
    assert near.detail == "labels"
    assert near.bars.id == list(range(100, 200))
    assert near.bars.start_ms.tolist() == [i * 10 / MS for i in range(100, 200)]


@given(st.integers(0, 400_000), st.integers(150_000, 400_000))
@settings(max_examples=25, deadline=None)
def test_busy_fractions_add_up_to_the_exact_busy_time(start: int, length: int) -> None:
    lane = lane_of(80_000)
    window = (start, start + length)
    shape = outline(lane, window)
    if len(lane.inside(*window).item) <= OUTLINES:
        return
    edges, height = shape.time_ms[1:-1:2] * MS, shape.height[1:-1:2]
    widths = np.diff(np.append(edges, shape.time_ms[-1] * MS))
    busy = float((height * widths).sum())
    exact = np.clip(lane.end_ns, *window) - np.clip(lane.start_ns, *window)
    assert len(height) == BINS
    assert busy == pytest.approx(float(exact.sum()), rel=1e-6, abs=1)


def test_only_texts_that_fit_stand_in_bars() -> None:
    assert fitted("MatMul", 6) == "MatMul"
    assert fitted("MatMulGrad", 6) == "MatMu…"
    assert fitted("MatMulGrad", 5) == ""
    assert fitted("layer0.up.weight", 10, end=True) == "…up.weight"


def test_the_item_at_a_time_is_half_open() -> None:
    lane = lane_of(3)
    assert [item_at(lane, t) for t in (0, 6, 7, 10, 29, 30)] == [0, 0, None, 1, None, None]
    assert item_at(lane_of(0), 5) is None


intervals = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20)), max_size=12)


@given(intervals, intervals)
@settings(deadline=None)
def test_without_is_what_a_moment_by_moment_count_says(
    spans: list[tuple[int, int]], holes: list[tuple[int, int]]
) -> None:
    def lane(rows: list[tuple[int, int]]) -> Lane:
        start = np.array([a for a, _ in rows], dtype=np.int64)
        return Lane(np.arange(len(rows)), start, start + np.array([b for _, b in rows], dtype=np.int64))

    left = without(lane(spans), lane(holes))
    covered = {t for a, b in zip(left.start_ns.tolist(), left.end_ns.tolist(), strict=True) for t in range(a, b)}
    expected = {t for a, b in spans for t in range(a, a + b)} - {t for a, b in holes for t in range(a, a + b)}
    assert covered == expected


def test_marks_agree_with_the_recorded_numbers(view: StepView) -> None:
    steps = view.profile.steps
    waiting = view.lanes.waiting
    assert int((waiting.end_ns - waiting.start_ns).sum()) == int(steps.blocking_ns[0])
    exposed = [view.lanes.exposed_in(key) for key in ("copy_in", "copy_out")]
    # The two directions may be exposed at the same time, so their sum is at least the exposed time.
    assert sum(int((e.end_ns - e.start_ns).sum()) for e in exposed) >= int(steps.exposed_ns[0]) > 0


def test_the_stack_adds_up_and_keeps_the_peak_at_any_zoom(view: StepView) -> None:
    shown = Timeline(view)
    peak_ns, peak = shown.main.peak
    for window in (shown.whole(), (peak_ns - 1_000_000, peak_ns + 1_000_000)):
        drawn = list(timeline.traces(shown, window))
        total = next(t for t in drawn if "hovertemplate" in t and "customdata" in t and t["type"] == "scatter")
        assert numbers(total["y"]).max() * shown.unit[1] == pytest.approx(peak)
        held = numbers(total["customdata"]).reshape(-1, len(shown.main.stack("class").groups))
        assert held.sum(axis=1) == pytest.approx(numbers(total["y"]), rel=1e-5)


def test_the_peak_survives_a_curve_of_many_points() -> None:
    profile = example_profile(example_schedule(1_000, 1_000_000))
    shown = Timeline(StepView(profile))
    assert len(shown.main.live.times_ns) > 2 * timeline.MEMORY_BINS
    drawn = list(timeline.traces(shown, shown.whole()))
    total = next(t for t in drawn if "customdata" in t and t["type"] == "scatter")
    assert numbers(total["y"]).max() * shown.unit[1] == pytest.approx(shown.main.peak[1])


def test_every_window_gives_the_same_traces(view: StepView) -> None:
    shown = Timeline(view, StepView(example_profile(example_schedule())))
    whole = [(t["type"], t["name"]) for t in timeline.traces(shown, shown.whole())]
    part = [(t["type"], t["name"]) for t in timeline.traces(shown, (50_000_000, 60_000_000))]
    assert whole == part
    changes = list(timeline.data_changes(shown, (50_000_000, 60_000_000)))
    assert {number for number, _, _ in changes} == set(range(len(whole)))


def test_a_prediction_beside_takes_the_lower_part_of_each_lane(view: StepView) -> None:
    shown = Timeline(view, StepView(example_profile(example_schedule())))
    upper, lower = shown.places(0), shown.places(1)
    assert [row.key for row in shown.rows] == ["compute", "copy_in", "copy_out"]
    for key, centre in shown.centres.items():
        assert lower[key][0] + lower[key][1] <= upper[key][0]
        assert upper[key][0] + upper[key][1] <= centre + timeline.LANE_HEIGHT / 2 + 1e-9


def test_the_limit_is_drawn_to_scale_or_named(view: StepView) -> None:
    layout = timeline.layout(Timeline(view), (0, view.end_ns), None)
    assert any(s.get("yref") == "y" and s["y0"] == pytest.approx(900) for s in layout["shapes"])
    assert any("limit 900 MiB" in a["text"] for a in layout["annotations"])
    assert any(a["text"] == f"peak {828} MiB" for a in layout["annotations"])


def test_a_limit_just_below_the_capacity_is_named_beside_it_not_over_it() -> None:
    schedule = example_schedule()
    device = replace(schedule.hardware, device_bytes=schedule.memory_limit_bytes + MIB)
    near = Timeline(StepView(example_profile(replace(schedule, hardware=device))))
    notes = timeline.layout(near, near.whole(), None)["annotations"]
    sides = {note["text"].split(" ")[0]: note["xanchor"] for note in notes if "xanchor" in note}
    assert (sides["limit"], sides["capacity"]) == ("right", "left")


def test_limits_of_compared_runs_too_near_for_a_line_each_share_one() -> None:
    schedule = example_schedule()
    limits = (600 * MIB, 601 * MIB, 900 * MIB)
    views = tuple(StepView(example_profile(replace(schedule, memory_limit_bytes=limit))) for limit in limits)
    compared = comparing.Compared(("a", "b", "c"), views)
    notes = comparing.layout(compared, (0, compared.end_ns))["annotations"]
    assert [n["text"] for n in notes if n["text"].startswith("limit")] == ["limits 600 MiB, 601 MiB", "limit 900 MiB"]


def test_a_limit_far_above_the_curve_changes_no_unit(view: StepView) -> None:
    schedule = example_schedule()
    far = Timeline(StepView(example_profile(replace(schedule, memory_limit_bytes=1 << 40))))
    assert far.unit == Timeline(view).unit
    words = timeline.detail_words(far, (0, 1))
    assert " ." not in words and " ," not in words


def test_phases_are_named_in_order(view: StepView) -> None:
    assert [name for name, _, _ in view.phases] == ["forward", "backward", "optimizer"]
    assert view.phases[0][1] == 0
    assert view.phases[-1][2] == view.end_ns


def test_compared_runs_have_blocks_of_their_own_on_one_axis(view: StepView) -> None:
    other = StepView(example_profile(example_schedule(8, 25_000_000)))
    compared = comparing.Compared(("a", "b"), (view, other))
    places = [compared.places(i) for i in range(2)]
    assert min(floor for floor, _ in places[0].values()) > max(f + h for f, h in places[1].values())
    assert compared.end_ns == max(view.end_ns, other.end_ns)
    drawn = list(comparing.traces(compared, (0, compared.end_ns)))
    for trace, step in zip(drawn[:2], (view, other), strict=True):
        assert numbers(trace["y"]).max() * compared.unit[1] == pytest.approx(step.curve.peak[1])


def named(shown: Timeline, window: tuple[int, int], name: str) -> dict[str, Any]:
    return next(t for t in timeline.traces(shown, window) if t["name"] == name)


def test_an_arrow_leads_from_each_store_to_its_prefetch_while_they_are_few(view: StepView) -> None:
    shown = Timeline(view)
    arrows = numbers(named(shown, shown.whole(), "Store to Prefetch")["x"]).reshape(-1, 3)
    moves = view.profile.transfers
    ends = {s: e for s, d, e in zip(moves.storage, moves.direction, moves.end_ns, strict=True) if d == 0}
    starts = {s: b for s, d, b in zip(moves.storage, moves.direction, moves.start_ns, strict=True) if d == 1}
    assert {(a, b) for a, b, _ in (arrows * MS).round().tolist()} == {(ends[s], starts[s]) for s in ends}
    assert "6 arrows from Store to Prefetch" in timeline.detail_words(shown, shown.whole())

    many = Timeline(StepView(example_profile(example_schedule(60))))
    assert len(numbers(named(many, many.whole(), "Store to Prefetch")["x"])) == 0
    assert "Arrows from Store to Prefetch appear when 40 or fewer are in view (now 58)." in timeline.detail_words(
        many, many.whole()
    )


def test_all_that_touches_a_picked_storage_is_framed(view: StepView) -> None:
    graph = view.profile.schedule.graph
    hidden = next(s.id for s in graph.storages if s.name == "layer0.hidden")
    frames = numbers(named(Timeline(view, picked=("storage", hidden)), (0, view.end_ns), "picked")["x"]).reshape(-1, 6)
    spans = [view.times["op"][a.op] for a in graph.accesses[hidden]]
    spans += [view.times["transfer"][t.id] for t in view.profile.schedule.transfers if t.storage == hidden]
    assert len(spans) == 5
    assert sorted((frames[:, :2] * MS).round().tolist()) == sorted([float(a), float(b)] for a, b in spans)
    for nothing in (None, ("storage", 10**6), ("op", -3)):
        trace = named(Timeline(view, picked=nothing), (0, view.end_ns), "picked")
        assert len(numbers(trace["x"])) == 0


def test_a_phase_is_named_in_what_is_seen_of_it(view: StepView) -> None:
    shown = Timeline(view)
    name, start, end = view.phases[1]
    window = (start + (end - start) // 2, end - 1)
    bands = named(shown, window, "bands")
    assert bands["text"] == [name]
    assert window[0] < numbers(bands["x"])[0] * MS < window[1]


def test_names_of_many_steps_leave_each_other_room_however_long_steps_are() -> None:
    # The first steps take a hundredth of what the last take.
    starts = np.cumsum([0, *(10**6 * (1 + n) for n in range(100))]).tolist()
    window = (0, starts[-1])
    trace = band_trace(step_shades(starts), window, 0.0)
    middles = numbers(trace["x"]) * MS
    assert np.diff(middles).min() >= window[1] / MOST_NAMES - 1
    assert trace["text"][0] == "step 1" and 8 <= len(trace["text"]) <= MOST_NAMES


def test_a_run_of_hours_has_whole_milliseconds_on_its_axis(view: StepView) -> None:
    shown = Timeline(view)
    compared = comparing.Compared(("a", "b"), (view, view))
    for layout in (timeline.layout(shown, shown.whole(), None), comparing.layout(compared, (0, compared.end_ns))):
        axis = layout["xaxis"]
        # Else plotly writes a million ms as "1M ms".
        assert (axis["ticksuffix"], axis["exponentformat"], axis["separatethousands"]) == (" ms", "none", True)


def test_theoretical_and_reserved_lines_lie_below_and_above_the_live_one(view: StepView) -> None:
    shown = Timeline(view)
    low, live, high = (
        numbers(named(shown, shown.whole(), f"{name} (measured)")["y"]).max()
        for name in ("theoretical", "live", "reserved")
    )
    assert low < live < high


def test_all_steps_of_a_run_are_drawn_under_their_numbers() -> None:
    profile = example_profile(example_schedule(), "measured", 3)
    whole = run_view(profile)
    shown = Timeline(whole)
    assert [name for name, *_ in shown.bands] == ["step 1", "step 2", "step 3"]
    assert whole.end_ns >= profile.steps.step_ns.sum()
    middle = (whole.starts_ns[1] + whole.starts_ns[2]) // 2
    assert whole.step_at(middle) == (1, middle - whole.starts_ns[1])
    assert whole.step_at(whole.end_ns) == (2, whole.end_ns - whole.starts_ns[2])
    assert [t["name"] for t in timeline.traces(shown, shown.whole())] == [
        t["name"] for t in timeline.traces(shown, (0, 10_000_000))
    ]


def test_the_overview_is_the_whole_step_up_to_its_peak(view: StepView) -> None:
    shown = Timeline(view)
    head, _, drawing = overview.picture(shown).partition(",")
    assert head == "data:image/svg+xml"
    path = ElementTree.fromstring(unquote(drawing)).find("{*}path")
    assert path is not None
    steps = [(int(x), int(y)) for x, y in re.findall(r"H(\d+)V(\d+)", path.get("d", ""))]
    assert (steps[0][0], steps[-1][0]) == (0, overview.WIDTH)
    x, y = min(steps, key=lambda step: step[1])
    assert x == pytest.approx(view.peak[0] / view.end_ns * overview.WIDTH, abs=1)
    assert y == pytest.approx(overview.HEIGHT * (1 - 1 / 1.05), abs=1)


def test_names_are_shown_as_text() -> None:
    assert timeline.unit_of(5 * MIB)[0] == "MiB"
    from app.dashboard.views.lane_traces import plain

    assert plain("<b>&x</b>") == "&lt;b&gt;&amp;x&lt;/b&gt;"
    assert plain("%{x}\x07\u202e") == "&#37;{x}\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}"
    assert len(plain("x" * 10_000)) < 200
