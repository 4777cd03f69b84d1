"""Steps of a cell in MindSpore's graph mode, plain or under a schedule, timed and with what they left behind."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter_ns
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hyperoffload_core.capture.mindir import graph_mode
from hyperoffload_core.mindspore_plugin.attach import Attached, attach, detach
from hyperoffload_core.mindspore_plugin.nodes import LiveGraph
from hyperoffload_core.mindspore_plugin.recorded import recorded_profile
from hyperoffload_core.recording import Profile
from hyperoffload_core.runtime.errors import ExecutionCancelledError
from hyperoffload_core.runtime.reference import Array, first_value, parameter_values, put_back, tensors_of
from hyperoffload_core.schedule import Schedule
from hyperoffload_core.sizes import format_bytes

_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


@dataclass
class CellRun:
    """Of every step so far the first result, how long the call from Python took, and the most memory that the process
    had resident in it (0 where the system does not tell); ``parameters`` by name after the last."""

    results: list[Array] = field(default_factory=list)
    call_ns: list[int] = field(default_factory=list)
    resident_bytes: list[int] = field(default_factory=list)
    parameters: Mapping[str, Array] = field(default_factory=dict)

    def median_call_ns(self, warm_up: int) -> int:
        return round(statistics.median(self.call_ns[warm_up:] or self.call_ns))

    def most_resident_bytes(self, warm_up: int) -> int:
        """In any step; the first ones, which compile, left out."""
        return max(self.resident_bytes[warm_up:] or self.resident_bytes)

    def same_as(self, other: CellRun) -> bool:
        """Whether every result and every parameter has the same bytes."""
        ours, theirs = ([value.tobytes() for value in run.results] for run in (self, other))
        return (
            ours == theirs
            and self.parameters.keys() == other.parameters.keys()
            and all(value.tobytes() == other.parameters[name].tobytes() for name, value in self.parameters.items())
        )


OnStep = Callable[[int, CellRun], None]


def run_plain(
    cell: Any, batches: Iterable[Sequence[Array]], cancelled: Callable[[], bool], on_step: OnStep | None = None
) -> CellRun:
    """MindSpore's own graph-mode run; the cell's parameters are put back afterwards. Raises what MindSpore raises."""
    before = parameter_values(cell)
    try:
        with graph_mode():
            return _run(cell, batches, cancelled, on_step)
    finally:
        put_back(cell, before)


def run_scheduled(
    cell: Any,
    schedule: Schedule,
    batches: Iterable[Sequence[Array]],
    cancelled: Callable[[], bool],
    *,
    warm_up: int,
    chunk_steps: int,
    paced: bool,
    conditions: Callable[[CellRun, Attached], str],
    report: Callable[[Profile], None],
    on_step: OnStep | None = None,
    live: LiveGraph | None = None,
) -> CellRun:
    """The same under a schedule; ``live`` as in `attach`.

    Steps behind the first ``warm_up`` are reported as profiles of up to ``chunk_steps``. Raises `UserError` kinds where
    the schedule cannot be inserted or a step fails, `ExecutionCancelledError`.
    """
    before = parameter_values(cell)
    events: list[NDArray[np.void]] = []
    losses: list[float] = []

    def take(number: int, run: CellRun) -> None:
        taken = attached.take_events()
        if number >= warm_up:
            events.append(taken)
            losses.extend(float(v.reshape(()).astype(np.float64)) for v in run.results[-1:] if v.size == 1)
        if len(events) == chunk_steps:
            flush(run)
        if on_step is not None:
            on_step(number, run)

    def flush(run: CellRun) -> None:
        if events and attached.chain is not None:
            rows, said = np.concatenate(events), conditions(run, attached)
            report(recorded_profile(schedule, attached.chain, rows, said, losses))
        events.clear()
        losses.clear()

    try:
        with graph_mode():
            attached = attach(cell, schedule, paced=paced, marks=True, live=live)
            try:
                run = _run(cell, batches, cancelled, take)
                flush(run)
            finally:
                detach(cell)
    finally:
        put_back(cell, before)
    return run


def stays_sentence(schedule: Schedule, stays: Mapping[str, str]) -> str:
    """What stays on the device although the schedule moves it, "" where nothing does."""
    if not stays:
        return ""
    size = sum(s.bytes for s in schedule.graph.storages if s.name in stays)
    reasons = ", ".join(dict.fromkeys(stays.values()))
    return f"stay on the device: {len(stays)} of the storages the schedule moves, {format_bytes(size)} ({reasons})"


def _run(
    cell: Any, batches: Iterable[Sequence[Array]], cancelled: Callable[[], bool], on_step: OnStep | None
) -> CellRun:
    run = CellRun()
    for number, batch in enumerate(batches):
        if cancelled():
            raise ExecutionCancelledError("the run was cancelled")
        inputs = tensors_of(batch)
        forget_peak()
        began_ns = perf_counter_ns()
        value = first_value(cell(*inputs))
        run.call_ns.append(perf_counter_ns() - began_ns)
        run.resident_bytes.append(peak_resident_bytes())
        run.results.append(value)
        if on_step is not None:
            on_step(number, run)
    run.parameters = parameter_values(cell)
    return run


def forget_peak() -> None:
    """The most memory that the process had resident is counted anew, where the system can."""
    with suppress(OSError):
        _CLEAR.write_text("5")


def peak_resident_bytes() -> int:
    """The most memory that the process had resident since `forget_peak`, 0 where the system does not tell."""
    try:
        lines = _STATUS.read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")), 0)
