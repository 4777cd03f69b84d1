"""Where storages are, tier by tier and address by address: exact against counts moment by moment and byte by byte."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from dashboard_example import example_profile, example_schedule
from hypothesis import given, settings
from hypothesis import strategies as st
from profiles_samples import ACT, HIDDEN, INPUT, LOSS, WEIGHT, offload_schedule, profile_of

from hyperoffload_core.recording import Profile
from hyperoffload_core.schedule import OpTime, Residency, Schedule, Transfer
from profiles.addresses import Addresses, Window, addresses, fragmentation, inside, occupied
from profiles.tiers import TIERS, TierBar, placements


def spans(bar: TierBar) -> list[tuple[str, int, int]]:
    columns = (bar.tier.tolist(), bar.start_ns.tolist(), bar.end_ns.tolist())
    return [(TIERS[tier], start, end) for tier, start, end in zip(*columns, strict=True)]


def bar_of(profile: Profile, storage: int) -> list[tuple[str, int, int]]:
    return spans(placements(profile, int(profile.steps.step_ns[0])).bar(storage))


def in_pool() -> Schedule:
    """The weight lives in the pool: it comes in two parts, the second later, is used, and is dropped."""
    schedule = offload_schedule()
    parts = (
        Transfer(2, "prefetch", WEIGHT, 400, 10, 40, (), (), True, 0),
        Transfer(3, "prefetch", WEIGHT, 600, 60, 90, (), (), True, 400),
    )
    stays = tuple(r for r in schedule.residencies if r.storage != WEIGHT)
    return replace(
        schedule,
        homes=("pool", *schedule.homes[1:]),
        transfers=(*schedule.transfers, *parts),
        residencies=(*stays, Residency(WEIGHT, 0, 5, 200)),
    )


def test_a_moved_storage_goes_through_all_tiers() -> None:
    profile = profile_of(offload_schedule())
    assert bar_of(profile, ACT) == [
        ("device", 0, 100),
        ("out", 100, 200),
        ("pool", 200, 220),
        ("in", 220, 320),
        ("device", 320, 420),
    ]
    assert bar_of(profile, WEIGHT) == [("device", 0, 420)]
    assert bar_of(profile, INPUT) == [("device", 0, 100)]
    assert bar_of(profile, HIDDEN) == [("device", 100, 420)]
    assert bar_of(profile, LOSS) == [("device", 320, 420)]


def test_a_storage_at_home_in_the_pool_starts_and_ends_there_and_comes_in_while_any_part_is_missing() -> None:
    profile = profile_of(in_pool())
    assert bar_of(profile, WEIGHT) == [("pool", 0, 5), ("in", 5, 90), ("device", 90, 200), ("pool", 200, 420)]
    flights = placements(profile, 420).flights(WEIGHT)
    assert list(zip(flights.low.tolist(), flights.high.tolist(), strict=True)) == [(0, 400), (400, 1000)]
    assert placements(profile, 420).bar(WEIGHT).total_ns("in") == 85


def test_a_storage_that_never_comes_to_the_device_is_in_the_pool_all_the_time() -> None:
    schedule = in_pool()
    schedule = replace(
        schedule,
        transfers=schedule.transfers[:2],
        residencies=tuple(r for r in schedule.residencies if r.storage != WEIGHT),
    )
    assert bar_of(profile_of(schedule), WEIGHT) == [("pool", 0, 420)]


def test_a_value_written_anew_is_in_the_pool_only_where_it_is_read_again() -> None:
    """``act`` leaves, and its next stay begins with a write, not with a prefetch: what left was not kept."""
    schedule = replace(offload_schedule(), transfers=())
    assert bar_of(profile_of(schedule), ACT) == [("device", 0, 200), ("device", 220, 420)]


def test_a_storage_of_the_device_may_spend_the_turn_of_the_step_in_the_pool() -> None:
    schedule = offload_schedule()
    store = Transfer(2, "store", WEIGHT, 1000, 0, 50, (), ())
    fetch = Transfer(3, "prefetch", WEIGHT, 1000, 350, 420, (), (2,))
    stays = tuple(r for r in schedule.residencies if r.storage != WEIGHT)
    turned = replace(
        schedule,
        transfers=(*schedule.transfers, store, fetch),
        residencies=(*stays, Residency(WEIGHT, 0, 0, 50), Residency(WEIGHT, 0, 350, 420)),
    )
    assert bar_of(profile_of(turned), WEIGHT) == [("out", 0, 50), ("pool", 50, 350), ("in", 350, 420)]


def test_another_step_has_its_own_times() -> None:
    profile = profile_of(offload_schedule(), "measured", 3, late_ns=7)
    bar = placements(profile, 434, step=2).bar(ACT)
    assert spans(bar)[1] == ("out", 114, 214)


@pytest.mark.parametrize("kind", ["measured", "predicted"])
def test_on_the_device_and_under_way_is_what_the_recorded_stays_say(kind: str) -> None:
    profile = example_profile(example_schedule(), kind)  # type: ignore[arg-type]
    end = int(profile.steps.step_ns[0])
    found = placements(profile, end)
    for storage in profile.schedule.graph.storages:
        bar = found.bar(storage.id)
        start, stop = found.stays(storage.id)
        assert bar.total_ns("device") + bar.total_ns("out") + bar.total_ns("in") == int((stop - start).sum())
        assert (bar.start_ns[1:] >= bar.end_ns[:-1]).all()


def small(rows: list[tuple[int, int, int, int]]) -> Addresses:
    start, length, low, size = np.array(rows, dtype=np.int64).reshape(-1, 4).T
    return Addresses(np.arange(len(start)), start, start + length, low, low + size)


rectangles = st.lists(
    st.tuples(st.integers(0, 30), st.integers(1, 12), st.integers(0, 30), st.integers(1, 12)), max_size=8
)


@given(rectangles, st.integers(1, 9), st.integers(1, 9), st.integers(0, 12), st.integers(0, 12))
@settings(deadline=None, max_examples=60)
def test_a_cell_is_occupied_as_a_count_of_its_moments_and_bytes_says(
    rows: list[tuple[int, int, int, int]], columns: int, lines: int, start: int, low: int
) -> None:
    window = Window(start, start + 27, low, low + 31)
    found = small(rows)
    cells = occupied(found, window, columns, lines)
    time = [start + 27 * i // columns for i in range(columns + 1)]
    place = [low + 31 * i // lines for i in range(lines + 1)]
    for line in range(lines):
        for column in range(columns):
            wanted = sum(
                max(0, min(s + d, time[column + 1]) - max(s, time[column]))
                * max(0, min(o + h, place[line + 1]) - max(o, place[line]))
                for s, d, o, h in rows
            )
            area = (time[column + 1] - time[column]) * (place[line + 1] - place[line])
            assert cells[line, column] * area == pytest.approx(wanted)


def test_the_smallest_stay_at_the_highest_address_shows_in_the_raster() -> None:
    rng = np.random.default_rng(3)
    many = [(int(t), 1_000, int(a), 4096) for t, a in rng.integers(0, 10**9, (50_000, 2))]
    top = (500_000_000, 1, 2**40 - 1, 1)
    cells = occupied(small([*many, top]), Window(0, 10**9 + 1_000, 0, 2**40), 600, 240)
    assert np.flatnonzero(cells[-1]).tolist() == [299]
    assert cells[-1, 299] > 0
    assert cells.sum() > 0


def test_a_map_larger_than_integers_hold_is_still_a_map() -> None:
    cells = occupied(small([(0, 2**40, 0, 2**45)]), Window(0, 2**41, 0, 2**46), 2, 2)
    assert cells.tolist() == [[1.0, 0.0], [0.0, 0.0]]


def test_stays_inside_a_window_touch_it() -> None:
    found = addresses(profile_of(offload_schedule()))
    assert found.height_bytes == 1804
    assert sorted(found.storage.tolist()) == [WEIGHT, INPUT, ACT, ACT, HIDDEN, LOSS]
    assert sorted(inside(found, Window(200, 220, 1000, 1804)).storage.tolist()) == [HIDDEN]
    assert sorted(inside(found, Window(0, 421, 0, 1000)).storage.tolist()) == [WEIGHT]


@given(st.integers(0, 419))
@settings(deadline=None, max_examples=40)
def test_fragmentation_is_what_a_count_of_bytes_says(time: int) -> None:
    profile = profile_of(offload_schedule())
    told = fragmentation(profile, addresses(profile), 1854, time)
    taken = [False] * 1854
    for r in offload_schedule().residencies:
        if r.start_ns <= time < r.end_ns:
            size = profile.schedule.graph.storages[r.storage].bytes
            taken[r.offset : r.offset + size] = [True] * size
    holes, run = [], 0
    for byte in [*taken, True]:
        if byte and run:
            holes.append(run)
        run = 0 if byte else run + 1
    assert told.live_bytes == sum(taken)
    assert told.free_bytes == 1854 - sum(taken) == sum(holes)
    assert (told.holes, told.largest_hole_bytes) == (len(holes), max(holes))
    assert not any(taken[told.largest_hole_at : told.largest_hole_at + told.largest_hole_bytes])
    assert told.workspace_bytes == (50 if 100 <= time < 200 else 0)


def test_times_of_ops_do_not_count_as_stays() -> None:
    profile = profile_of(replace(offload_schedule(), residencies=(), op_times=(OpTime(0, 0, 100),)))
    assert fragmentation(profile, addresses(profile), 0, 50).holes == 0
