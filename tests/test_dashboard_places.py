"""Tier bars and the address map as they are drawn: what is chosen, at which level of detail, and that none is lost."""

from __future__ import annotations

import base64
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from dashboard_example import MIB, example_graph, example_profile, example_schedule
from profiles_samples import ACT, HIDDEN, WEIGHT, offload_schedule, profile_of

from app.dashboard.views import addresses, tiers
from app.dashboard.views.addresses import COLUMNS, MOST_BARS, MOST_RECTANGLES, AddressMap
from app.dashboard.views.lanes import OUTLINES
from app.dashboard.views.step import StepView
from app.dashboard.views.tier_traces import MOST_TICKS
from app.dashboard.views.tiers import MOST_ROWS, Tiers
from hyperoffload_core.recording import UNKNOWN_ADDRESS, StorageLifetimes
from profiles.moment import moment

HOSTILE = '<img src=x onerror="alert(1)">\u202e\x07' + "x" * 10_000


def numbers(packed: Any) -> np.ndarray:
    if isinstance(packed, dict):
        kind = {"f8": np.float64, "f4": np.float32}[packed["dtype"]]
        return np.frombuffer(base64.b64decode(packed["bdata"]), dtype=kind)
    return np.array(packed, dtype=np.float64)


@pytest.fixture(scope="module")
def view() -> StepView:
    return StepView(example_profile(example_schedule(), "measured"))


@pytest.fixture(scope="module")
def small() -> StepView:
    return StepView(profile_of(offload_schedule()))


def drawn_bars(shown: Tiers, window: tuple[int, int]) -> list[tuple[int, int, float, float]]:
    """(storage, transfer, start, end) of every bar, ms."""
    found = []
    for trace in tiers.figure(shown, window)["data"]:
        if trace["type"] == "bar":
            base, length = numbers(trace["base"]), numbers(trace["x"])
            rows = zip(trace["customdata"], base, length, strict=True)
            found += [(s, t, round(b, 9), round(b + x, 9)) for (s, t), b, x in rows]
    return sorted(found)


def test_the_storages_that_stall_most_come_first_then_the_largest_that_move(view: StepView) -> None:
    chosen = tiers.choose(view, "", [], [])
    stalls = tiers.stalls_of(view)
    stalling = [s for s in chosen.storages if stalls.get(s)]
    assert stalling == sorted(stalling, key=lambda s: -stalls[s])
    assert stalling and list(chosen.storages[: len(stalling)]) == stalling
    assert set(chosen.storages) == set(view.placements.move_storage.tolist())


def test_where_nothing_moves_the_largest_storages_are_shown() -> None:
    schedule = replace(example_schedule(), transfers=(), op_times=example_schedule().op_times)
    quiet = StepView(
        example_profile(replace(schedule, op_times=tuple(replace(t, waits=()) for t in schedule.op_times)))
    )
    sizes = [quiet.profile.schedule.graph.storages[s].bytes for s in tiers.choose(quiet, "", [], []).storages]
    assert sizes[0] == max(s.bytes for s in quiet.profile.schedule.graph.storages) == 48 * MIB
    assert sizes == sorted(sizes, reverse=True)


def test_a_search_and_classes_choose_and_what_was_picked_stays_on_top(view: StepView) -> None:
    names = [s.name for s in view.profile.schedule.graph.storages]
    found = tiers.choose(view, "layer3", ["weight", "gradient"], [names.index("loss")])
    assert [names[s] for s in found.storages] == ["loss", "layer3.weight", "layer3.gradient"]
    assert tiers.choose(view, "size>40MiB", [], []).storages == tuple(
        s.id for s in view.profile.schedule.graph.storages if s.bytes > 40 * MIB
    )
    assert "no name has 'nothing'" in tiers.choose(view, "nothing", [], []).problem
    assert "speed" in tiers.choose(view, "speed>3", [], []).problem
    assert tiers.choose(view, "layer3", ["kv_cache"], []).problem != ""


def test_rows_are_capped_and_the_rest_is_counted() -> None:
    many = StepView(example_profile(example_schedule(30)))
    every = tiers.choose(many, "layer", [], [])
    assert (len(every.storages), every.left_out) == (MOST_ROWS, 4 * 30 - MOST_ROWS)


def test_unknown_picks_are_no_rows(small: StepView) -> None:
    assert tiers.choose(small, "act", [], [99, -1, ACT]).storages == (ACT,)


def test_bars_are_the_spans_and_transfers_of_the_rows(small: StepView) -> None:
    shown = Tiers(small, (ACT, WEIGHT))
    assert drawn_bars(shown, (0, 420)) == [
        (WEIGHT, -1, 0.0, 0.00042),
        (ACT, -1, 0.0, 0.0001),
        (ACT, -1, 0.0001, 0.0002),
        (ACT, -1, 0.0002, 0.00022),
        (ACT, -1, 0.00022, 0.00032),
        (ACT, -1, 0.00032, 0.00042),
        (ACT, 0, 0.0001, 0.0002),
        (ACT, 1, 0.00022, 0.00032),
    ]
    row = shown.rows[0]
    assert (row.device_ns, row.moving_ns, row.pool_ns, row.transfers, row.blocking_ns) == (200, 200, 20, 2, 20)


def test_a_part_takes_its_part_of_the_bars_height() -> None:
    schedule = offload_schedule()
    store, fetch = schedule.transfers
    halves = (
        replace(fetch, bytes=100, end_ns=245, partial=True),
        replace(fetch, id=2, bytes=300, start_ns=245, partial=True, offset_bytes=100),
    )
    shown = Tiers(StepView(profile_of(replace(schedule, transfers=(store, *halves)))), (ACT,))
    heights = {
        transfer: (round(middle - width / 2, 6), round(middle + width / 2, 6))
        for trace in tiers.figure(shown, (0, 420))["data"]
        if trace["type"] == "bar"
        for (_, transfer), middle, width in zip(
            trace["customdata"], numbers(trace["y"]), numbers(trace["width"]), strict=True
        )
    }
    assert heights[1] == (0.73, 0.82)
    assert heights[2] == (0.46, 0.73)


def test_reads_and_writes_are_ticks_where_they_are_few(small: StepView) -> None:
    def ticks(shown: Tiers, window: tuple[int, int]) -> list[list[Any]]:
        return [t["customdata"] for t in tiers.figure(shown, window)["data"] if t["name"] in ("reads", "writes")]

    reads, writes = ticks(Tiers(small, (ACT, HIDDEN)), (0, 420))
    assert sorted(reads) == [(ACT, -1, 3), (HIDDEN, -1, 3)]
    assert sorted(writes) == [(ACT, -1, 0), (HIDDEN, -1, 1), (HIDDEN, -1, 2)]
    busy = example_graph(MOST_TICKS)
    assert sum(len(a) for a in busy.accesses) > MOST_TICKS
    many = StepView(example_profile(example_schedule(250)))
    assert ticks(Tiers(many, tuple(range(len(many.profile.schedule.graph.storages)))), (0, many.end_ns)) == []


def test_kept_storages_are_marked_at_both_ends_of_the_step(small: StepView) -> None:
    turns = next(
        t for t in tiers.figure(Tiers(small, (ACT, WEIGHT)), (0, 420))["data"] if t["name"] == "from step to step"
    )
    assert turns["x"] == [0.0, 0.00042]
    assert turns["customdata"] == [[WEIGHT, -1]] * 2


def test_a_click_means_a_transfer_an_op_or_the_row(small: StepView) -> None:
    shown = Tiers(small, (ACT, WEIGHT))
    assert tiers.clicked(shown, {"points": [{"customdata": [ACT, 1]}], "xvals": [0.0003]}) == (("transfer", 1), 300)
    assert tiers.clicked(shown, {"points": [{"customdata": [ACT, -1]}], "xvals": [0.0]}) == (("storage", ACT), 0)
    assert tiers.clicked(shown, {"points": [{"customdata": [ACT, -1, 3]}]}) == (("op", 3), None)
    assert tiers.clicked(shown, {"points": [], "xvals": [0.0001], "yvals": [1.2]}) == (("storage", WEIGHT), 100)
    assert tiers.clicked(shown, {"xvals": [0.0001], "yvals": [7.2]})[0] is None
    assert tiers.clicked(shown, None) == (None, None)


def test_very_many_spans_of_a_row_become_their_exact_share_of_each_slice() -> None:
    """A storage that comes and goes 6,000 times is drawn in slices, whose areas add up to its time on the device."""
    profile = profile_of(offload_schedule())
    start = np.arange(12_000, dtype=np.int64) * 10
    stays = np.zeros(12_000, dtype=np.int64)
    lives = StorageLifetimes(stays, stays + HIDDEN, stays, stays + 300, start, start + 7)
    steps = replace(profile.steps, step_ns=np.array([120_000]))
    busy = StepView(replace(profile, lifetimes=lives, steps=steps))
    shown = Tiers(busy, (HIDDEN,))
    assert len(shown.bars[0].tier) == 12_000 > OUTLINES
    device = next(t for t in tiers.figure(shown, (0, 120_000))["data"] if t["name"].startswith("on the device"))
    x, y = numbers(device["x"]).reshape(-1, 6), numbers(device["y"]).reshape(-1, 6)
    area = ((x[:, 3] - x[:, 2]) * 1e6 * (y[:, 1] - y[:, 2]) / (0.82 - 0.46)).sum()
    assert area == pytest.approx(7 * 12_000)


def test_addresses_are_rectangles_in_their_class_colour(small: StepView) -> None:
    shown = AddressMap(small)
    assert shown.reserved_bytes == 1854
    bars = [t for t in addresses.traces(shown, shown.window()) if t["type"] == "bar"]
    assert [t["name"] for t in bars] == [
        "Weights (predicted)",
        "Activations (predicted)",
        "Inputs (predicted)",
        "Outputs (predicted)",
    ]
    rectangles = sorted(
        (s, round(x * 1e6), round(w * 1e6), round(b * shown.unit[1]), round(y * shown.unit[1]))
        for t in bars
        for s, x, w, b, y in zip(t["customdata"], *(numbers(t[k]) for k in ("x", "width", "base", "y")), strict=True)
    )
    assert (ACT, 100, 200, 1100, 400) in rectangles
    assert (ACT, 320, 200, 1100, 400) in rectangles
    assert len(rectangles) == 6


def test_a_part_of_the_map_holds_what_touches_it(small: StepView) -> None:
    shown = AddressMap(small)
    unit = shown.unit[1]
    window = shown.window((200, 220), (1490 / unit, 1810 / unit))
    assert addresses.detail(shown, window) == ("bars", 1)


def crowded(count: int) -> StepView:
    profile = profile_of(offload_schedule())
    start = np.arange(count, dtype=np.int64) * 10
    zero = np.zeros(count, dtype=np.int64)
    lives = StorageLifetimes(zero, zero + ACT, start % 4000, zero + 1, start, start + 7)
    top = StorageLifetimes(*(np.array([v]) for v in (0, HIDDEN, 2**30, 1, 3_000, 3_001)))
    both = (np.concatenate(pair) for pair in zip(vars(lives).values(), vars(top).values(), strict=True))
    steps = replace(profile.steps, step_ns=np.array([count * 10]))
    return StepView(replace(profile, lifetimes=StorageLifetimes(*both), steps=steps))


@pytest.mark.parametrize(
    ("count", "detail"),
    [
        (MOST_BARS - 1, "bars"),
        (MOST_BARS, "outlines"),
        (MOST_RECTANGLES - 1, "outlines"),
        (MOST_RECTANGLES, "raster"),
        (120_000, "raster"),
    ],
)
def test_detail_follows_the_number_of_stays_and_the_highest_address_is_never_lost(count: int, detail: str) -> None:
    shown = AddressMap(crowded(count))
    window = shown.window()
    assert addresses.detail(shown, window) == (detail, count + 1)
    traces = [t for t in addresses.traces(shown, window) if not t["name"].startswith("Live")]
    top = 2**30 / shown.unit[1]
    if detail == "raster":
        (raster,) = traces
        cells = numbers(raster["z"]).reshape(-1, COLUMNS)
        row = int((top - raster["y0"] + raster["dy"] / 2) / raster["dy"])
        assert (cells[row] > 0).sum() == 1
    elif detail == "outlines":
        assert max(np.nanmax(numbers(t["y"])) for t in traces) == pytest.approx((2**30 + 1) / shown.unit[1])
    else:
        assert max(float(numbers(t["base"]).max()) for t in traces) == pytest.approx(top)


def test_a_click_finds_the_storage_at_a_time_and_an_address_also_where_none_is_drawn_singly() -> None:
    shown = AddressMap(crowded(50_000))
    unit = shown.unit[1]
    assert addresses.clicked(shown, {"xvals": [3_000 / 1e6], "yvals": [(2**30 + 0.5) / unit]}) == (HIDDEN, 3_000)
    assert addresses.clicked(shown, {"xvals": [3_001 / 1e6], "yvals": [(2**30 + 0.5) / unit]}) == (None, 3_001)
    assert addresses.clicked(shown, {"points": [{"customdata": ACT}], "xvals": [0.0]}) == (ACT, 0)
    assert addresses.clicked(shown, None) == (None, None)


def test_fragmentation_is_said_in_words(small: StepView) -> None:
    told = dict(addresses.words(AddressMap(small).at(150), "predicted"))
    assert told["At 150 ns"] == "predicted"
    assert told["Live"] == "1.66 KiB of 1.81 KiB reserved, and 50 B workspace of the running op"
    assert told["Not in use (reserved - live)"] == "154 B in 2 holes"
    assert told["Largest free hole"] == "100 B at 1000 B"


def test_where_mindspore_chose_the_addresses_nothing_is_drawn_and_memory_is_what_is_live(small: StepView) -> None:
    lives = small.profile.lifetimes
    untold = replace(lives, offset=np.full_like(lives.offset, UNKNOWN_ADDRESS))
    shown = AddressMap(StepView(replace(small.profile, lifetimes=untold)))
    assert AddressMap(small).known
    assert not shown.known
    assert not [t for t in addresses.figure(shown, shown.window(), None)["data"] if t["type"] == "bar"]
    now = moment(shown.view.profile, 1)
    assert now.live_bytes == now.reserved_bytes > 0


def test_zooming_addresses_is_told_from_zooming_time() -> None:
    assert addresses.places({"yaxis.range[0]": 1, "yaxis.range[1]": 2}) == (1.0, 2.0)
    assert addresses.places({"yaxis.autorange": True, "xaxis.autorange": True}) == "all"
    assert addresses.places({"xaxis.range[0]": 1, "xaxis.range[1]": 2}) is None
    assert addresses.places(None) is None


def test_hostile_names_are_text_and_short() -> None:
    schedule = offload_schedule()
    named = tuple(replace(s, name=HOSTILE) for s in schedule.graph.storages)
    view = StepView(profile_of(replace(schedule, graph=replace(schedule.graph, storages=named))))
    shown, there = Tiers(view, (ACT, WEIGHT)), AddressMap(view)
    for figure in (tiers.figure(shown, (0, 420)), addresses.figure(there, there.window(), 0)):
        said = str(figure)
        assert "<img" not in said and "\u202e" not in said and "\x07" not in said
        assert "xxxx" * 100 not in said
