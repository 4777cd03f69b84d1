"""A schedule from a file keeps order, events and addresses; its times are made anew for the machine it runs on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hyperoffload_core.cost import Durations
from hyperoffload_core.given import OtherGraphError, read_verified, require_graph, timed_for
from hyperoffload_core.hardware import Hardware, Link
from hyperoffload_core.schedule import Schedule, ScheduleFileError, write_schedule
from hyperoffload_core.verifier import violations
from tests.graphs import chain, training
from tests.naive_schedule import naive_schedule, random_schedule
from tests.valid_schedules import SOURCES, valid_schedule

MACHINE = Hardware("machine", "another machine", 1 << 40, Link(70_000_000, 40), Link(3_000_000_000, 1), "full")


def check_only_times_changed(timed: Schedule, schedule: Schedule) -> None:
    for name in ("graph", "order", "homes", "memory_limit_bytes", "strategy", "policy"):
        assert getattr(timed, name) == getattr(schedule, name)
    anew = {"start_ns": 0, "end_ns": 0}
    for name in ("op_times", "transfers", "residencies"):
        pairs = zip(getattr(timed, name), getattr(schedule, name), strict=True)
        assert all(replace(one, **anew) == replace(other, **anew) for one, other in pairs)
    assert timed.metrics.reserved_bytes == schedule.metrics.reserved_bytes


@settings(max_examples=60, deadline=None)
@given(st.randoms(use_true_random=False), st.sampled_from([*SOURCES, "random"]), st.integers(0, 7))
def test_a_schedule_timed_for_another_machine_is_still_valid(random: Random, source: str, seed: int) -> None:
    schedule = random_schedule(random, 10) if source == "random" else valid_schedule(source, seed)
    durations = Durations(tuple(random.randint(1, 5000) for _ in schedule.graph.ops), "measured there")
    timed = timed_for(schedule, durations, MACHINE)
    assert not violations(timed)
    check_only_times_changed(timed, schedule)
    assert timed.durations_ns == durations.ns and timed.duration_source == "measured there"
    assert timed.hardware == replace(MACHINE, duplex=schedule.hardware.duplex)
    assert timed.notes[-1] == f"planned for {schedule.hardware.title}, timed for another machine"


def test_timed_for_what_it_was_planned_with_a_schedule_has_its_own_times() -> None:
    schedule = valid_schedule("naive in parts", 1)
    timed = timed_for(schedule, Durations(schedule.durations_ns, schedule.duration_source), schedule.hardware)
    assert (timed.op_times, timed.transfers, timed.residencies) == (
        schedule.op_times,
        schedule.transfers,
        schedule.residencies,
    )


def test_a_schedule_of_another_graph_is_refused_in_one_sentence() -> None:
    schedule = naive_schedule(training(3))
    require_graph(schedule, training(3), "s.json")
    require_graph(schedule, replace(training(3), name="renamed"), "s.json")
    with pytest.raises(OtherGraphError) as caught:
        require_graph(schedule, chain(4), "s.json")
    said = str(caught.value)
    assert said.startswith("s.json: the schedule was made for another graph, 'training3' (")
    assert "10 ops), than 'chain4' (" in said and "compile this model" in said and "\n" not in said


def test_a_file_is_verified_when_it_is_read(tmp_path: Path) -> None:
    schedule = naive_schedule(training(3), gaps=[(s, 0) for s in range(12)], parts=2)
    path = tmp_path / "s.json"
    write_schedule(schedule, path)
    assert read_verified(path) == schedule
    write_schedule(replace(schedule, residencies=schedule.residencies[1:]), path)
    with pytest.raises(ScheduleFileError, match=r"s\.json: the schedule breaks the rule '\w+': .*\(at \S+ ms\)"):
        read_verified(path)


def test_a_schedule_that_says_it_is_over_its_limit_is_read_and_timed(tmp_path: Path) -> None:
    schedule = naive_schedule(training(3))
    over = replace(schedule, memory_limit_bytes=schedule.metrics.peak_live_bytes // 2)
    write_schedule(over, tmp_path / "over.json")
    found = timed_for(read_verified(tmp_path / "over.json"), Durations((7,) * 10, "made up"), MACHINE)
    assert {v.rule for v in violations(found)} == {"limit"}
    assert found.metrics.lower_bound_ns <= found.metrics.step_ns
    hidden = replace(over, metrics=replace(over.metrics, reserved_bytes=over.memory_limit_bytes))
    write_schedule(hidden, tmp_path / "hidden.json")
    with pytest.raises(ScheduleFileError, match="breaks the rule 'limit'"):
        read_verified(tmp_path / "hidden.json")
