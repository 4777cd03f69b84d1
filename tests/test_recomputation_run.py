"""Recomputed ops on real kernels: bit-identical to graph mode, recorded, shown, and compiled again from the record."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.actions import compile_model
from app.dashboard.state import State
from app.dashboard.views.details import details
from app.requests import CompileRequest
from db.queries import load_profile
from db.recordings import RunDescription, record_profile
from hyperoffload_core.analysis.liveness import live_peak_bytes
from hyperoffload_core.capture import capture
from hyperoffload_core.compile import compile_schedule
from hyperoffload_core.cost import Durations
from hyperoffload_core.hardware import Hardware
from hyperoffload_core.measure import measure_durations
from hyperoffload_core.passes.recomputation import recompute, recompute_candidates
from hyperoffload_core.policy import Policy
from hyperoffload_core.program import CapturedModel
from hyperoffload_core.recording import Profile
from hyperoffload_core.runtime.executor import Executor
from hyperoffload_core.runtime.machine import this_machine
from hyperoffload_core.runtime.recorder import Recorder
from hyperoffload_core.runtime.reference import Reference, differences, run_reference
from hyperoffload_core.schedule import Schedule
from hyperoffload_core.session import Model, capture_model, run_session
from hyperoffload_core.spool import Checked, Compiled, Event, Recorded
from hyperoffload_core.verifier import verify
from hyperoffload_core.workloads import build_workload
from tests.naive_schedule import naive_schedule

pytestmark = pytest.mark.mindspore
STEPS = 2
MODELS = Path(__file__).parent / "models"


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
    batches = [tuple(v.asnumpy() for v in batch) for batch in workload.batches][:STEPS]
    hardware = this_machine(500_000_000)
    durations = measure_durations(captured, hardware, batches)
    return Training(captured, batches, hardware, durations, workload.cell, run_reference(workload.cell, batches))


def run(training: Training, schedule: Schedule, delays_s: float = 0.0) -> Profile:
    """Execute, and compare every byte with graph mode."""
    with Executor(training.captured, schedule, poison=True, paced=False, delays_s=delays_s) as executor:
        executor.load()
        recorder = Recorder(schedule, STEPS)
        results = [executor.run_step(batch, recorder=recorder) for batch in training.batches]
        values = executor.values()
    assert [r.results[0].tobytes() for r in results] == [r.tobytes() for r in training.reference.results]
    assert differences(training.captured, values, training.reference) == ()
    return recorder.profile("a test")


def compiled(training: Training, limit: str) -> Schedule:
    policy = Policy(strategy="recompute", memory_limit=limit)
    return compile_schedule(training.captured.graph, training.durations, training.hardware, policy)


def test_a_step_that_recomputes_its_activations_gives_graph_modes_bytes(training: Training) -> None:
    schedule = compiled(training, "85%")
    again = [op for op in schedule.graph.ops if op.recompute_of is not None]
    assert again and not schedule.transfers
    profile = run(training, schedule)
    whole = live_peak_bytes(training.captured.graph)
    assert set(profile.steps.peak_bytes) == {schedule.metrics.reserved_bytes}
    assert schedule.metrics.reserved_bytes <= 0.9 * whole
    for op in again:
        assert (profile.ops.op == op.id).sum() == STEPS


def test_recomputation_beside_transfers_under_random_delays_gives_graph_modes_bytes(training: Training) -> None:
    """Every third gap that can be is recomputed, chains included; every second storage leaves in every gap it has."""
    graph = training.captured.graph
    candidates = recompute_candidates(graph, training.durations.ns)
    again = recompute(graph, [c.recomputation for c in candidates[::3]])
    assert any(len(c.recomputation.ops) > 1 for c in candidates[::3])
    gaps = [(s.id, k) for s in again.storages[::2] for k in range(len(again.accesses[s.id]) - 1)]
    durations = [training.durations.ns[o] for o in again.origins]
    schedule = naive_schedule(again, hardware=training.hardware, durations_ns=durations, gaps=gaps)
    verify(schedule, graph)
    assert schedule.transfers and len(again.ops) > len(graph.ops) + 20
    run(training, schedule, delays_s=0.0002)


def test_a_session_checks_and_predicts_it(training: Training) -> None:
    events: list[Event] = []
    run_session(
        Model(training.captured, training.cell, tuple(training.batches)),
        [Policy(strategy="recompute", memory_limit="85%")],
        steps=1,
        link_bandwidth="unlimited",
        report=events.append,
        cancelled=lambda: False,
    )
    (checked,) = [e for e in events if isinstance(e, Checked)]
    assert checked.bit_identical == {-1: True, 0: True}
    schedule = next(e.schedule for e in events if isinstance(e, Compiled) and e.policy == 0)
    predicted = next(
        e.profile for e in events if isinstance(e, Recorded) and e.profile.kind == "predicted" and e.policy == 0
    )
    assert len(predicted.ops.op) == len(schedule.graph.ops) > len(training.captured.graph.ops)


def test_a_recorded_run_is_shown_and_compiled_again_as_the_graph_that_was_captured(
    training: Training, tmp_path: Path
) -> None:
    schedule = compiled(training, "85%")
    profile = run(training, schedule)
    state = State(tmp_path / "runs.db")
    run_id = record_profile(state.database, RunDescription("measured", schedule, "tiny", {"model": "tiny"}), profile)
    stored = load_profile(state.database, run_id)
    assert stored.schedule == schedule
    op = next(op for op in schedule.graph.ops if op.recompute_of is not None)
    shown = details(state.step(run_id), "op", op.id)
    assert shown is not None and "Runs again" in dict(shown.facts)
    graph = training.captured.graph
    ground = state.ground(run_id)
    assert ground.graph.hash == graph.hash and ground.live_peak_bytes == live_peak_bytes(graph)
    request = CompileRequest(model=f"run:{run_id}", policy=Policy(strategy="none"))
    compilation = compile_model(request, state.database, lambda *_: None, lambda: False)
    assert compilation.schedule.graph.hash == graph.hash
    assert compilation.schedule.duration_source.startswith("measured on")


def test_random_ops_are_captured_as_such_and_run_once() -> None:
    graph = capture_model(f"{MODELS / 'mlp.py'}:dropout", with_values=False).captured.graph
    random = {op.id for op in graph.ops if op.stateful}
    assert {graph.ops[op].primitive for op in random} == {"Dropout"}
    candidates = recompute_candidates(graph, [1000] * len(graph.ops))
    assert candidates and all(random.isdisjoint(c.recomputation.ops) for c in candidates)
