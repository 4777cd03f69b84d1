"""The numbers of a selected stretch are those of a count of every single nanosecond."""

from __future__ import annotations

import numpy as np
from dashboard_example import example_profile, example_schedule
from hypothesis import given, settings
from hypothesis import strategies as st
from random_profiles import END_NS, profiles
from test_profiles_stacks import naive_live

from hyperoffload_core.recording import Profile
from profiles.lanes import Lane, apart, lanes
from profiles.selection import selection
from profiles.stacks import memory_stack
from profiles.whole import on_one_axis


def moments(start_ns: np.ndarray, end_ns: np.ndarray) -> set[int]:
    return {t for a, b in zip(start_ns.tolist(), end_ns.tolist(), strict=True) for t in range(a, b)}


@given(profiles(), st.integers(0, END_NS), st.integers(1, END_NS))
@settings(max_examples=60, deadline=None)
def test_times_bytes_and_peak_are_counted_moment_by_moment(profile: Profile, start: int, length: int) -> None:
    inside = range(start, start + length)
    drawn, ops, moves = lanes(profile), profile.ops, profile.transfers
    found = selection(profile, drawn, memory_stack(profile, "class").total, start, start + length)
    computing = moments(ops.start_ns, ops.end_ns) & set(inside)
    copying = moments(moves.start_ns, moves.end_ns) & set(inside)
    waiting = moments(drawn.waiting.start_ns, drawn.waiting.end_ns) & set(inside)
    assert found.computing_ns == len(computing)
    assert found.copying_ns == len(copying)
    assert found.overlapped_ns == len(copying & computing)
    assert found.exposed_ns == len(copying - computing)
    assert found.idle_ns == len(set(inside) - computing - copying)
    assert found.blocking_ns == len(waiting)
    for way, busy, moved in (
        (0, found.copy_out_ns, found.bytes_out),
        (1, found.copy_in_ns, found.bytes_in),
    ):
        rows = moves.direction == way
        assert busy == len(moments(moves.start_ns[rows], moves.end_ns[rows]) & set(inside))
        columns = (moves.start_ns[rows], moves.end_ns[rows], moves.bytes[rows])
        assert moved == sum(
            # A transfer without length moves all its bytes at its moment.
            size * len(set(range(a, b)) & set(inside)) // (b - a) if b > a else size * (start < a < start + length)
            for a, b, size in zip(*(c.tolist() for c in columns), strict=True)
        )
    assert found.peak_bytes == naive_live(profile)[start : start + length].max(initial=0)


def test_the_whole_step_has_the_recorded_numbers() -> None:
    profile = example_profile(example_schedule(), "measured", 2)
    for step in range(2):
        live = memory_stack(profile, "class", step).total
        found = selection(profile, lanes(profile, step), live, 0, int(profile.steps.step_ns[step]), step)
        assert found.exposed_ns == profile.steps.exposed_ns[step]
        assert found.peak_bytes == profile.steps.peak_bytes[step]
        assert (found.bytes_out, found.bytes_in) == (profile.steps.bytes_out[step], profile.steps.bytes_in[step])
        assert found.ops == len(profile.schedule.graph.ops)


def test_lanes_of_all_steps_are_those_of_each_step_one_after_the_other() -> None:
    profile = example_profile(example_schedule(), "measured", 3)
    whole = lanes(on_one_axis(profile), None)
    for name in ("compute", "copy_in", "copy_out", "waiting"):
        each = [getattr(lanes(profile, step), name) for step in range(3)]
        lane: Lane = getattr(whole, name)
        assert lane.item.tolist() == [i for one in each for i in one.item.tolist()]
        assert int((lane.end_ns - lane.start_ns).sum()) == sum(int((e.end_ns - e.start_ns).sum()) for e in each)


@given(profiles())
@settings(max_examples=40, deadline=None)
def test_ops_beside_each_other_get_rows_of_their_own(profile: Profile) -> None:
    drawn = lanes(profile)
    rows = [row for row in drawn.rows if row.of == "compute"]
    assert rows[0].key == "compute"
    assert sorted(i for row in rows for i in row.lane.item.tolist()) == sorted(drawn.compute.item.tolist())
    for row in rows:
        assert np.all(row.lane.start_ns[1:] >= row.lane.end_ns[:-1])
    live = np.zeros(2 * END_NS, dtype=np.int64)
    for start, end in zip(profile.ops.start_ns.tolist(), profile.ops.end_ns.tolist(), strict=True):
        live[start:end] += 1
    # No more rows than there are ops at one time; an op without length may need one more.
    assert len(rows) <= live.max() + int((profile.ops.start_ns == profile.ops.end_ns).any())


@given(profiles(), st.integers(0, END_NS))
@settings(max_examples=40, deadline=None)
def test_busy_time_until_a_moment_is_exact(profile: Profile, time: int) -> None:
    for lane in apart(lanes(profile).compute):
        count = len(moments(lane.start_ns, lane.end_ns) & set(range(time)))
        assert int(lane.busy_until([time])[0]) == count
