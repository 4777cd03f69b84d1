"""The memory curve is exact and half-open, and stays exact at its peak however far it is thinned."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from profiles_samples import ACT, column, keep_schedule, offload_schedule, profile_of

from hyperoffload_core.recording import StorageLifetimes
from profiles.alive import alive_at, group_alive, layer_of
from profiles.lanes import lanes
from profiles.series import MemoryCurve, busy_fraction, downsample, memory_curve, overlap, window


def test_the_curve_adds_up_every_stay_and_workspace() -> None:
    curve = memory_curve(profile_of(offload_schedule()))
    assert curve.classes == ("weight", "activation", "input", "output", "workspace")
    assert curve.times_ns.tolist() == [0, 100, 200, 220, 320, 420]
    by_class = dict(zip(curve.classes, curve.bytes.tolist(), strict=True))
    assert by_class["weight"] == [1000, 1000, 1000, 1000, 1000, 0]
    assert by_class["activation"] == [400, 700, 300, 700, 700, 0]
    assert by_class["input"] == [100, 0, 0, 0, 0, 0]
    assert by_class["workspace"] == [0, 50, 0, 0, 0, 0]
    assert by_class["output"] == [0, 0, 0, 0, 4, 0]


def test_the_peak_is_that_of_the_schedule() -> None:
    for schedule in (keep_schedule(), offload_schedule()):
        assert memory_curve(profile_of(schedule)).peak == (100, schedule.metrics.peak_live_bytes)


def test_bytes_given_back_and_taken_at_one_time_are_not_counted_twice() -> None:
    profile = profile_of(keep_schedule())
    stays = StorageLifetimes(
        column(0, 0), column(ACT, ACT), column(0, 0), column(400, 400), column(0, 50), column(50, 90)
    )
    assert memory_curve(replace(profile, lifetimes=stays, ops=profile_of(keep_schedule(), steps=0).ops)).peak == (
        0,
        400,
    )


def test_a_profile_without_stays_has_an_empty_curve() -> None:
    curve = memory_curve(profile_of(keep_schedule()), step=5)
    assert (curve.classes, curve.peak, len(curve.total)) == ((), (0, 0), 0)


def test_a_window_begins_with_what_is_held_there() -> None:
    part = window(memory_curve(profile_of(offload_schedule())), 150, 210)
    assert part.times_ns.tolist() == [150, 200, 210]
    assert part.total.tolist() == [1750, 1300, 1300]
    assert window(memory_curve(profile_of(offload_schedule())), 500, 600).total.tolist() == [0, 0]


@st.composite
def curves(draw: st.DrawFn) -> MemoryCurve:
    count = draw(st.integers(1, 400))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    times = np.unique(random.integers(0, 2 ** draw(st.integers(1, 45)), count))
    return MemoryCurve(times, ("weight", "activation"), random.integers(0, 2**36, (2, len(times))))


@given(curves(), st.integers(1, 60))
def test_thinning_keeps_each_slices_extremes_and_only_real_points(curve: MemoryCurve, bins: int) -> None:
    thin = downsample(curve, bins)
    assert len(thin.times_ns) <= 2 * bins + 2
    assert thin.peak[1] == curve.peak[1]
    assert thin.total.min() == curve.total.min()
    assert (thin.times_ns[0], thin.times_ns[-1]) == (curve.times_ns[0], curve.times_ns[-1])
    points = {t: tuple(b) for t, b in zip(curve.times_ns.tolist(), curve.bytes.T.tolist(), strict=True)}
    assert all(points[t] == tuple(b) for t, b in zip(thin.times_ns.tolist(), thin.bytes.T.tolist(), strict=True))
    first, last = int(curve.times_ns[0]), int(curve.times_ns[-1])

    def extremes(c: MemoryCurve) -> dict[int, tuple[int, int]]:
        found: dict[int, tuple[int, int]] = {}
        for time, total in zip(c.times_ns.tolist(), c.total.tolist(), strict=True):
            at = min((time - first) * bins // max(last - first, 1), bins - 1)
            low, high = found.get(at, (total, total))
            found[at] = min(low, total), max(high, total)
        return found

    assert extremes(thin) == extremes(curve)


@given(st.lists(st.tuples(st.integers(0, 200), st.integers(0, 50)), max_size=30), st.integers(1, 40))
def test_busy_time_of_all_slices_adds_up_to_the_union(intervals: list[tuple[int, int]], bins: int) -> None:
    start, length = np.array(intervals, dtype=np.int64).reshape(-1, 2).T
    busy = busy_fraction(start, start + length, 0, 240, bins)
    covered = {t for s, n in intervals for t in range(s, min(s + n, 240))}
    widths = np.diff(240 * np.arange(bins + 1) // bins)
    assert round(float((busy * widths).sum())) == len(covered)
    assert np.all((busy >= 0) & (busy <= 1))


def test_overlap_is_counted_on_unions_per_direction() -> None:
    profile = profile_of(offload_schedule())
    out, back, both = (overlap(profile, 0, direction) for direction in (0, 1, None))
    assert (out.transfer_ns, out.hidden_ns, out.fraction) == (100, 100, 1.0)
    assert (back.transfer_ns, back.hidden_ns, back.exposed_ns) == (100, 80, 20)
    assert both.fraction == 0.9
    assert overlap(profile_of(keep_schedule())).fraction is None


def test_lanes_show_where_compute_waits() -> None:
    drawn = lanes(profile_of(offload_schedule()))
    assert drawn.compute.item.tolist() == [0, 1, 2, 3]
    assert (drawn.copy_out.item.tolist(), drawn.copy_in.item.tolist()) == ([0], [1])
    waiting = drawn.waiting
    assert (waiting.item.tolist(), waiting.start_ns.tolist(), waiting.end_ns.tolist()) == ([1], [300], [320])


def test_a_copy_that_outlasts_the_last_op_holds_up_the_step() -> None:
    profile = profile_of(offload_schedule())
    profile.transfers.end_ns[1] = 500
    assert lanes(profile).waiting.end_ns.tolist()[-1] == 500


def test_who_is_alive_at_the_peak() -> None:
    alive = alive_at(profile_of(offload_schedule()), 100)
    assert [(a.name, a.bytes, a.layer) for a in alive] == [
        ("weight", 1000, "block0"),
        ("act", 400, "block0"),
        ("hidden", 300, "block0"),
        ("mix", 50, "block0"),
    ]
    assert sum(a.bytes for a in alive) == 1750
    assert alive[-1].storage is None
    groups = group_alive(alive, "class")
    assert [(g.name, g.bytes, g.count) for g in groups] == [
        ("weight", 1000, 1),
        ("activation", 700, 2),
        ("workspace", 50, 1),
    ]
    assert sum(g.share for g in groups) == 1.0
    assert [g.name for g in group_alive(alive, "layer")] == ["block0"]


def test_nobody_is_alive_after_the_end() -> None:
    assert alive_at(profile_of(offload_schedule()), 420) == []
    assert group_alive([], "class") == []


def test_layers_are_read_from_mindspore_scopes() -> None:
    scope = "Default/network-WithLoss/_backbone-Llama/blocks-CellList/3-Block/attention-Attention"
    assert layer_of(scope) == layer_of(f"Gradients/{scope}") == "blocks.3"
    assert layer_of("Default/network-WithLoss/_backbone-Llama/norm-RMSNorm") == "norm"
    assert layer_of("Default/optimizer-AdamWeightDecay") == "optimizer"
    assert layer_of("Default") == layer_of("") == ""
