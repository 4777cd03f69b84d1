"""Hand-made profiles whose every number can be checked with a pencil; used by the tests of ``db`` and ``profiles``.

The graph: a weight (persistent), an input, two activations. Four ops of 100 ns; ``act`` is written by the first and
read by the last, so the offload schedule stores it after op 0 and prefetches it back before op 3.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hyperoffload_core.hardware import Hardware, Link
from hyperoffload_core.ir import Graph, Op, Storage
from hyperoffload_core.recording import OpEvents, Profile, ProfileKind, StepNumbers, StorageLifetimes, TransferEvents
from hyperoffload_core.schedule import Metrics, OpTime, Residency, Schedule, Transfer

WEIGHT, INPUT, ACT, HIDDEN, LOSS = range(5)

GRAPH = Graph(
    name="tiny",
    storages=(
        Storage(WEIGHT, "weight", 1000, "weight", True, (10, 25), "float32"),
        Storage(INPUT, "input", 100, "input", False, (25,), "float32"),
        Storage(ACT, "act", 400, "activation", False, (100,), "float32"),
        Storage(HIDDEN, "hidden", 300, "activation", False, (75,), "float32"),
        Storage(LOSS, "loss", 4, "output", False, (), "float32"),
    ),
    ops=(
        Op(0, "embed", "MatMul", "Default/net/block0", "forward", (WEIGHT, INPUT), (ACT,), (), 0, 5000),
        Op(1, "mix", "MatMul", "Default/net/block0", "forward", (WEIGHT,), (HIDDEN,), (), 50, 5000),
        Op(2, "relu", "ReLU", "Default/net/block1", "forward", (HIDDEN,), (HIDDEN,), (1,), 0, 75),
        Op(3, "head", "MatMul", "Default/net/block1", "backward", (ACT, HIDDEN), (LOSS,), (0, 2), 0, 300),
    ),
)

HARDWARE = Hardware("test-box", "Test box", 4000, Link(4_000_000_000, 0), Link(4_000_000_000, 0), "full")


def keep_schedule() -> Schedule:
    """Nothing moves."""
    residencies = (
        Residency(WEIGHT, 0, 0, 400),
        Residency(INPUT, 1000, 0, 100),
        Residency(ACT, 1100, 0, 400),
        Residency(HIDDEN, 1500, 100, 400),
        Residency(LOSS, 1800, 300, 400),
    )
    return Schedule(
        graph=GRAPH,
        durations_ns=(100, 100, 100, 100),
        duration_source="made up",
        hardware=HARDWARE,
        policy={"strategy": "none"},
        strategy="none",
        memory_limit_bytes=4000,
        order=(0, 1, 2, 3),
        op_times=tuple(OpTime(op, 100 * op, 100 * op + 100) for op in range(4)),
        transfers=(),
        residencies=residencies,
        homes=("device",) * 5,
        metrics=Metrics(400, 400, 1750, 1854, 0, 0, 0, 0, 400),
    )


def offload_schedule() -> Schedule:
    """``act`` leaves beside op 1 and comes back beside op 2; 20 ns late."""
    store = Transfer(0, "store", ACT, 400, 100, 200, (0,), ())
    prefetch = Transfer(1, "prefetch", ACT, 400, 220, 320, (), (0,))
    return replace(
        keep_schedule(),
        policy={"strategy": "hyperoffload"},
        strategy="hyperoffload",
        memory_limit_bytes=1800,
        op_times=(OpTime(0, 0, 100), OpTime(1, 100, 200), OpTime(2, 200, 300), OpTime(3, 320, 420, (1,))),
        transfers=(store, prefetch),
        residencies=(
            Residency(WEIGHT, 0, 0, 420),
            Residency(INPUT, 1000, 0, 100),
            Residency(ACT, 1100, 0, 200),
            Residency(HIDDEN, 1500, 100, 420),
            Residency(ACT, 1100, 220, 420),
            Residency(LOSS, 1800, 320, 420),
        ),
        metrics=Metrics(420, 400, 1750, 1854, 400, 400, 20, 20, 400),
    )


def column(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


def profile_of(
    schedule: Schedule,
    kind: ProfileKind = "predicted",
    steps: int = 1,
    late_ns: int = 0,
    losses: tuple[float, ...] = (),
) -> Profile:
    """The schedule's own times as a profile of some steps; step ``i`` starts everything ``i * late_ns`` later."""
    late = np.arange(steps, dtype=np.int64) * late_ns

    def repeat(values: list[int]) -> np.ndarray:
        return np.tile(np.array(values, dtype=np.int64), steps)

    def step_column(count: int) -> np.ndarray:
        return np.repeat(np.arange(steps, dtype=np.int64), count)

    ops, moves, stays, m = schedule.op_times, schedule.transfers, schedule.residencies, schedule.metrics
    sizes = [schedule.graph.storages[r.storage].bytes for r in stays]
    ones = np.ones(steps, dtype=np.int64)
    return Profile(
        kind=kind,
        schedule=schedule,
        conditions="made by hand",
        ops=OpEvents(
            step_column(len(ops)),
            repeat([t.op for t in ops]),
            repeat([t.start_ns for t in ops]) + np.repeat(late, len(ops)),
            repeat([t.end_ns for t in ops]) + np.repeat(late, len(ops)),
            repeat([0 for _ in ops]),
        ),
        transfers=TransferEvents(
            step_column(len(moves)),
            repeat([t.id for t in moves]),
            repeat([t.storage for t in moves]),
            repeat([int(t.kind == "prefetch") for t in moves]),
            repeat([t.bytes for t in moves]),
            repeat([t.start_ns for t in moves]) + np.repeat(late, len(moves)),
            repeat([t.end_ns for t in moves]) + np.repeat(late, len(moves)),
        ),
        lifetimes=StorageLifetimes(
            step_column(len(stays)),
            repeat([r.storage for r in stays]),
            repeat([r.offset for r in stays]),
            repeat(sizes),
            repeat([r.start_ns for r in stays]) + np.repeat(late, len(stays)),
            repeat([r.end_ns for r in stays]) + np.repeat(late, len(stays)),
        ),
        steps=StepNumbers(
            m.step_ns + late,
            m.compute_ns * ones,
            m.exposed_ns * ones,
            m.blocking_ns + late,
            m.peak_live_bytes * ones,
            m.bytes_out * ones,
            m.bytes_in * ones,
        ),
        losses=losses,
    )
