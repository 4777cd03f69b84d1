"""Memory split into groups: the groups add up to what is held, at every level of detail and in every grouping."""

from __future__ import annotations

import numpy as np
import pytest
from dashboard_example import MIB, example_profile, example_schedule
from hypothesis import given, settings
from hypothesis import strategies as st
from random_profiles import END_NS, GRAPH, profiles

from hyperoffload_core.recording import Profile
from profiles.series import memory_curve
from profiles.stacks import BLOCK, GROUPINGS, Grouping, Steps, memory_stack, needed, reserved
from profiles.whole import on_one_axis, step_starts_ns

EVERY_NS = np.arange(END_NS + 70)


def naive_live(profile: Profile) -> np.ndarray:
    """Bytes on the device at every nanosecond, counted row by row."""
    held = np.zeros(len(EVERY_NS), dtype=np.int64)
    stays, ops = profile.lifetimes, profile.ops
    for start, end, size in zip(stays.start_ns.tolist(), stays.end_ns.tolist(), stays.bytes.tolist(), strict=True):
        held[start:end] += size
    for op, start, end in zip(ops.op.tolist(), ops.start_ns.tolist(), ops.end_ns.tolist(), strict=True):
        held[start:end] += GRAPH.ops[op].workspace_bytes
    return held


@given(profiles())
@settings(max_examples=40, deadline=None)
def test_groups_add_up_to_what_is_held_at_every_moment(profile: Profile) -> None:
    live = naive_live(profile)
    for by in GROUPINGS:
        stack = memory_stack(profile, by)
        at = stack.at(EVERY_NS)
        assert at.sum(axis=0).tolist() == live.tolist()
        assert stack.total.at(EVERY_NS).tolist() == live.tolist()
        assert len(set(stack.groups)) == len(stack.groups) == len(at)


@given(profiles())
@settings(max_examples=40, deadline=None)
def test_classes_are_those_of_the_curve_that_reports_use(profile: Profile) -> None:
    curve, stack = memory_curve(profile), memory_stack(profile, "class")
    assert set(curve.classes) == set(stack.groups)
    assert stack.peak == curve.peak
    for name, held in zip(curve.classes, curve.bytes, strict=True):
        assert stack.at(curve.times_ns)[stack.groups.index(name)].tolist() == held.tolist()


@given(profiles())
@settings(max_examples=40, deadline=None)
def test_theoretical_is_at_most_live_and_reserved_at_least(profile: Profile) -> None:
    live = naive_live(profile)
    assert np.all(needed(profile).at(EVERY_NS) <= live)
    top = np.zeros(len(EVERY_NS), dtype=np.int64)
    stays = profile.lifetimes
    columns = (stays.start_ns, stays.end_ns, stays.offset + stays.bytes)
    for start, end, high in zip(*(c.tolist() for c in columns), strict=True):
        top[start:end] = np.maximum(top[start:end], high)
    assert reserved(profile).at(EVERY_NS).tolist() == np.maximum(top, live).tolist()


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_a_thinned_window_keeps_its_peak_and_only_real_points(data: st.DataObject) -> None:
    random = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    count = data.draw(st.sampled_from([1, 7, 3 * BLOCK, 40 * BLOCK + 17]))
    steps = Steps(np.unique(random.integers(0, 10**6, count)), random.integers(0, 50, count))
    steps = Steps(steps.times_ns, steps.bytes[: len(steps.times_ns)])
    start = data.draw(st.integers(0, 10**6))
    end = start + data.draw(st.integers(1, 10**6))
    bins = data.draw(st.integers(1, 30))
    kept = steps.kept(start, end, bins)
    assert len(kept) <= 2 * bins + 2
    assert (kept[0], kept[-1]) == (start, end)
    assert np.all(np.diff(kept[1:-1]) > 0)
    assert set(kept[1:-1].tolist()) <= set(steps.times_ns.tolist())
    inside = steps.times_ns[(steps.times_ns > start) & (steps.times_ns < end)]
    seen = steps.at(np.append(inside, start))
    drawn = steps.at(kept[:-1])
    assert (drawn.max(), drawn.min()) == (seen.max(), seen.min())


def test_what_waits_for_its_first_or_after_its_last_op_is_not_needed() -> None:
    profile = example_profile(example_schedule())
    live, need = memory_stack(profile, "class").total, needed(profile)
    assert need.peak[1] < live.peak[1]
    # At first only the tokens, the first layer's weight and activation, and the op's workspace are in use.
    assert need.at(np.array([0])).tolist() == [(1 + 24 + 40 + 4) * MIB]


def test_in_flight_is_what_the_transfers_move() -> None:
    profile = example_profile(example_schedule())
    stack = memory_stack(profile, "tier")
    assert stack.groups == ("device", "leaving", "arriving")
    moves = profile.transfers
    for direction, row in ((0, 1), (1, 2)):
        first = int(np.flatnonzero(moves.direction == direction)[0])
        middle = (moves.start_ns[first] + moves.end_ns[first]) // 2
        assert stack.at(np.array([middle]))[row].tolist() == [40 * MIB]


@pytest.mark.parametrize("by", GROUPINGS)
def test_groups_stand_in_a_fixed_order(by: Grouping) -> None:
    groups = memory_stack(example_profile(example_schedule()), by).groups
    expected = {
        "class": ("weight", "optimizer_state", "input", "gradient", "activation", "output", "workspace"),
        "layer": ("0", "1", "2", "3", "4", "5", "6", "7", "loss", "optimizer"),
        "phase": ("forward", "backward", "optimizer"),
        "tier": ("device", "leaving", "arriving"),
    }
    assert groups == expected[by]


def test_many_layers_are_drawn_as_the_largest_and_the_rest() -> None:
    profile = example_profile(example_schedule(30))
    stack = memory_stack(profile, "layer")
    assert len(stack.groups) == 12
    assert stack.groups[-1] == "21 other layers"
    assert np.array_equal(stack.at(stack.total.times_ns).sum(axis=0), stack.total.bytes)


def test_all_steps_follow_each_other_on_one_axis() -> None:
    profile = example_profile(example_schedule(), "measured", 3)
    starts = step_starts_ns(profile)
    whole = memory_stack(on_one_axis(profile), "class", None).total
    assert starts[-1] >= profile.steps.step_ns.sum()
    for step in range(3):
        alone = memory_stack(profile, "class", step).total
        assert np.array_equal(whole.at(starts[step] + alone.times_ns[:-1]), alone.bytes[:-1])
    assert whole.peak[1] == profile.steps.peak_bytes.max()


def test_a_step_without_events_holds_nothing() -> None:
    profile = example_profile(example_schedule())
    for by in GROUPINGS:
        stack = memory_stack(profile, by, 5)
        assert (stack.groups, stack.peak, len(stack.total.kept(0, 10, 5))) == ((), (0, 0), 0)
    assert needed(profile, 5).peak == reserved(profile, 5).peak == (0, 0)
