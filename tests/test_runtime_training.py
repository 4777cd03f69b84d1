"""A captured training step under real schedules: bit-identical to MindSpore's own graph mode, in the planned memory."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
import pytest

from hyperoffload_core.capture import capture
from hyperoffload_core.compile import compile_schedule
from hyperoffload_core.cost import Durations
from hyperoffload_core.hardware import Hardware
from hyperoffload_core.measure import measure_durations
from hyperoffload_core.metrics import peak_bytes
from hyperoffload_core.policy import Policy
from hyperoffload_core.program import CapturedModel
from hyperoffload_core.recording import Profile
from hyperoffload_core.runtime.executor import Executor
from hyperoffload_core.runtime.machine import this_machine
from hyperoffload_core.runtime.recorder import Recorder
from hyperoffload_core.runtime.reference import Reference, differences, run_reference
from hyperoffload_core.schedule import Home, Schedule
from hyperoffload_core.verifier import verify
from hyperoffload_core.workloads import build_workload
from tests.naive_schedule import naive_schedule

pytestmark = pytest.mark.mindspore
STEPS = 3


@dataclass(frozen=True)
class Training:
    captured: CapturedModel
    batches: list[tuple[np.ndarray, ...]]
    hardware: Hardware
    durations: Durations
    cell: Any
    reference: Reference


@pytest.fixture(scope="module")
def training() -> Training:
    workload = build_workload("tiny")
    captured = capture(workload.cell, workload.inputs)
    batches = [tuple(v.asnumpy() for v in batch) for batch in workload.batches]
    hardware = this_machine(500_000_000)
    durations = measure_durations(captured, hardware, batches)
    in_turn = [batches[i % len(batches)] for i in range(STEPS)]
    return Training(captured, in_turn, hardware, durations, workload.cell, run_reference(workload.cell, in_turn))


def compiled(training: Training, strategy: str, limit: str) -> Schedule:
    policy = Policy(strategy=strategy, memory_limit=limit)
    return compile_schedule(training.captured.graph, training.durations, training.hardware, policy)


@pytest.mark.parametrize(
    ("strategy", "limit"),
    [("none", "100%"), ("hyperoffload", "60%"), ("hyperoffload", "45%"), ("reactive", "60%")],
)
@pytest.mark.parametrize("delays_s", [0.0, 0.0005], ids=["undisturbed", "random delays"])
def test_results_are_graph_modes_and_the_peak_is_the_planned_one(training, strategy, limit, delays_s):
    schedule = compiled(training, strategy, limit)
    with Executor(training.captured, schedule, delays_s=delays_s, poison=True) as executor:
        executor.load()
        recorder = Recorder(schedule, STEPS)
        results = [executor.run_step(batch, recorder=recorder) for batch in training.batches]
        values = executor.values()
        assert executor.arena_bytes == schedule.metrics.reserved_bytes
    assert [r.results[0].tobytes() for r in results] == [r.tobytes() for r in training.reference.results]
    assert differences(training.captured, values, training.reference) == ()
    assert len(training.captured.parameters) == len(training.reference.parameters)
    profile = recorder.profile("a test")
    assert set(profile.steps.peak_bytes) == {schedule.metrics.reserved_bytes}
    if strategy != "none":
        assert schedule.metrics.bytes_out > 0
        assert schedule.metrics.reserved_bytes <= schedule.memory_limit_bytes
    for step in range(STEPS):
        stay = profile.lifetimes.step == step
        live = peak_bytes(
            profile.lifetimes.start_ns[stay], profile.lifetimes.end_ns[stay], profile.lifetimes.bytes[stay]
        )
        assert live <= schedule.metrics.reserved_bytes


def in_parts(captured: CapturedModel, parts: int, seed: int) -> Schedule:
    """Two of three reuse gaps are left, two of three persistent storages live in the pool, every move has parts."""
    random, graph = Random(seed), captured.graph
    gaps = [(s.id, k) for s in graph.storages for k in range(-1, len(graph.accesses[s.id])) if random.random() < 0.67]
    homes: dict[int, Home] = {s.id: "pool" for s in graph.storages if s.persistent and random.random() < 0.67}
    schedule = naive_schedule(graph, gaps=gaps, homes=homes, early_stores=seed % 2 == 1, ahead=seed % 3, parts=parts)
    verify(schedule)
    return schedule


@pytest.mark.parametrize(
    ("parts", "seed", "delays_s"),
    [(2, 0, 0.0), (3, 1, 0.0), (3, 2, 0.0005)],
    ids=["halves", "thirds", "thirds with random delays"],
)
def test_a_step_in_which_everything_moves_in_parts_computes_the_same(training, parts, seed, delays_s):
    schedule = in_parts(training.captured, parts, seed)
    assert all(len(move) == min(parts, sum(t.bytes for t in move)) for move in schedule.moves)
    assert {move[0].kind for move in schedule.moves} == {"store", "prefetch"}
    with Executor(training.captured, schedule, paced=False, delays_s=delays_s, poison=True) as executor:
        executor.load()
        recorder = Recorder(schedule, STEPS)
        results = [executor.run_step(batch, recorder=recorder) for batch in training.batches]
        values = executor.values()
        assert executor.arena_bytes == schedule.metrics.reserved_bytes
    assert [r.results[0].tobytes() for r in results] == [r.tobytes() for r in training.reference.results]
    assert differences(training.captured, values, training.reference) == ()
    profile = recorder.profile("a test")
    assert set(profile.steps.peak_bytes) == {schedule.metrics.reserved_bytes}
    assert set(profile.steps.bytes_out) == {schedule.metrics.bytes_out}
    assert set(profile.steps.bytes_in) == {schedule.metrics.bytes_in}
    for step in range(STEPS):
        check_stays_span_their_parts(schedule, profile, step)


def check_stays_span_their_parts(schedule: Schedule, profile: Profile, step: int) -> None:
    """Each move lies inside one stay of its storage, and a Prefetch's first part begins it."""
    moved, life = profile.transfers, profile.lifetimes
    rows, stays = moved.step == step, life.step == step
    columns = (moved.transfer, moved.start_ns, moved.end_ns)
    time = {t: (start, end) for t, start, end in zip(*(c[rows].tolist() for c in columns), strict=True)}
    storage, begins, ends = (c[stays].tolist() for c in (life.storage, life.start_ns, life.end_ns))
    for move in schedule.moves:
        first, last = time[move[0].id][0], time[move[-1].id][1]
        around = [
            begin
            for of, begin, end in zip(storage, begins, ends, strict=True)
            if of == move[0].storage and begin <= first and last <= end
        ]
        assert len(around) == 1
        assert move[0].kind == "store" or around == [first]


def test_the_reference_leaves_the_cell_as_it_found_it(training):
    again = run_reference(training.cell, training.batches)
    assert [r.tobytes() for r in again.results] == [r.tobytes() for r in training.reference.results]
    before = {name: training.captured.values[storage] for storage, name in training.captured.parameters.items()}
    now = {p.name: p.asnumpy() for p in training.cell.get_parameters()}
    assert all(np.array_equal(now[name], value) for name, value in before.items())


def test_a_parameter_that_differs_is_named(training):
    storage, name = next(iter(training.captured.parameters.items()))
    values = {s: training.reference.parameters[n] for s, n in training.captured.parameters.items()}
    assert differences(training.captured, values, training.reference) == ()
    values[storage] = np.nextafter(values[storage], np.inf, dtype=values[storage].dtype)
    assert differences(training.captured, values, training.reference) == (name,)
