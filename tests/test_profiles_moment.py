"""Who holds memory at a moment, grouped, and what of it would not have to be there."""

from __future__ import annotations

import numpy as np
import pytest
from dashboard_example import MIB, example_profile, example_schedule

from hyperoffload_core.recording import Profile
from profiles.alive import BEFORE_THE_STEP, GROUPS, Alive, alive_at, group_alive, unnumbered
from profiles.moment import moment, total
from profiles.series import memory_curve
from profiles.stacks import needed, reserved

MS = 1_000_000


@pytest.fixture(scope="module")
def profile() -> Profile:
    return example_profile(example_schedule())


@pytest.mark.parametrize("time_ns", [0, 30 * MS, 90 * MS, 107 * MS, 200 * MS, 330 * MS])
def test_a_moment_adds_up_and_agrees_with_the_curves(profile: Profile, time_ns: int) -> None:
    found = moment(profile, time_ns)
    parts = [found.used, found.early, found.late, [i.alive for i in found.idle]]
    assert sorted(a.name for part in parts for a in part) == sorted(a.name for a in found.alive)
    assert found.live_bytes == int(memory_curve(profile).total[memory_curve(profile).times_ns <= time_ns][-1])
    assert found.needed_bytes == int(needed(profile).at(np.array([time_ns]))[0])
    assert found.reserved_bytes == int(reserved(profile).at(np.array([time_ns]))[0])
    assert found.needed_bytes <= found.live_bytes <= found.reserved_bytes


def test_what_an_op_uses_now_cannot_leave_and_what_waits_long_could(profile: Profile) -> None:
    found = moment(profile, 90 * MS)
    names = {op.id: op.name for op in profile.schedule.graph.ops}
    assert [names[op] for op in found.ops] == ["forward7"]
    assert {a.name for a in found.used} == {"layer6.hidden", "layer7.hidden", "layer7.weight", "forward7"}
    idle = {i.alive.name: i for i in found.idle}
    # Two weights are used again at once; those of the first layers only ten ops later.
    assert idle["layer0.weight"].could_leave
    assert idle["layer0.weight"].end_ns - idle["layer0.weight"].start_ns > idle["layer0.weight"].round_trip_ns
    assert {a.name for a in found.early} >= {f"layer{i}.adam" for i in range(8)}
    assert found.limit_bytes == 900 * MIB


def test_what_stays_after_its_last_use_is_retained(profile: Profile) -> None:
    end = int(profile.steps.step_ns[0])
    late = {a.name for a in moment(profile, end - 1).late}
    assert "layer0.adam" in late and "layer0.weight" in late
    assert moment(profile, end).alive == ()
    assert total(()) == 0


def test_holders_are_grouped_in_four_ways(profile: Profile) -> None:
    alive = alive_at(profile, 90 * MS)
    for by in GROUPS:
        groups = group_alive(alive, by)
        assert sum(g.bytes for g in groups) == sum(a.bytes for a in alive)
        assert sum(g.share for g in groups) == pytest.approx(1)
        assert [g.bytes for g in groups] == sorted((g.bytes for g in groups), reverse=True)
        assert all(g.members[0].bytes >= g.members[-1].bytes for g in groups)
    made = {g.name: g.count for g in group_alive(alive, "op")}
    assert made[BEFORE_THE_STEP] == 16
    assert {g.name: g.count for g in group_alive(alive, "class")}["optimizer_state"] == 8
    assert {g.name for g in group_alive(alive, "layer")} >= {"3", "optimizer"}


def test_groups_of_one_size_are_in_the_order_of_their_numbers() -> None:
    same = [Alive(n, f"blocks.{n}.x", "weight", f"blocks.{n}", "MatMul", 8, 0, 1) for n in (10, 2, 1)]
    assert [g.name for g in group_alive(same, "layer")] == ["blocks.1", "blocks.2", "blocks.10"]


@pytest.mark.parametrize(
    ("name", "without"),
    [
        ("decoder.blocks.12.attention/Softmax", "decoder.blocks.*.attention/Softmax"),
        ("layer3.weight", "layer3.weight"),
        ("0/1", "*/*"),
        ("float32", "float32"),
        ("", ""),
    ],
)
def test_the_same_thing_in_every_layer_has_one_name(name: str, without: str) -> None:
    assert unnumbered(name) == without
