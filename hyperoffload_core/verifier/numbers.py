"""Live bytes, address space and metrics, worked out again from the timeline."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from hyperoffload_core.schedule import Schedule
from hyperoffload_core.verifier.events import Clocks, begin_clock
from hyperoffload_core.verifier.timeline import Timeline
from hyperoffload_core.verifier.violation import ScheduleViolation

Column = NDArray[np.int64]


def _peak(timeline: Timeline) -> tuple[int, int]:
    """Highest number of live bytes, workspaces included, and the time it is first reached."""
    graph, residencies = timeline.schedule.graph, timeline.schedule.residencies
    start = np.array([r.start_ns for r in residencies] + timeline.op_start, dtype=np.int64)
    end = np.array([r.end_ns for r in residencies] + timeline.op_end, dtype=np.int64)
    sizes = [graph.storages[r.storage].bytes for r in residencies] + [op.workspace_bytes for op in graph.ops]
    size = np.where(end > start, np.array(sizes, dtype=np.int64), 0)
    times = np.concatenate([end, start])  # at one time bytes are given back before others are taken
    order = np.argsort(times, kind="stable")
    live = np.cumsum(np.concatenate([-size, size])[order])
    if not len(live):
        return 0, 0
    highest = int(live.argmax())
    return int(live[highest]), int(times[order][highest])


def _top(schedule: Schedule) -> int:
    """Highest address any residency reaches."""
    return max((r.offset + schedule.graph.storages[r.storage].bytes for r in schedule.residencies), default=0)


def limit_violations(timeline: Timeline) -> Iterator[ScheduleViolation]:
    """Live bytes as planned, and the address space, which bounds live bytes under any timing.

    Stays alive at once share no byte (the event form proves it for any timing), so live residencies never exceed the
    highest address; a workspace adds to it for as long as its op runs. A limit of 0 means that none was asked for.
    """
    schedule, graph = timeline.schedule, timeline.schedule.graph
    limit = schedule.memory_limit_bytes
    if limit <= 0:
        return
    peak, at = _peak(timeline)
    if peak > limit:
        running = next((op for op in schedule.order if timeline.op_start[op] <= at < timeline.op_end[op]), None)
        text = f"{peak} live bytes are {peak - limit} more than the limit of {limit}"
        yield ScheduleViolation("limit", text, running, None, at)
    reserved, top = schedule.metrics.reserved_bytes, _top(schedule)
    if max(reserved, top) > limit:
        over = max(schedule.residencies, key=lambda r: r.offset + graph.storages[r.storage].bytes, default=None)
        text = f"{max(reserved, top)} reserved bytes are more than the limit of {limit}"
        storage, time = (over.storage, over.start_ns) if over is not None else (None, 0)
        yield ScheduleViolation("limit", text, None, storage, time, "events")


def workspace_violations(timeline: Timeline, clocks: Clocks) -> Iterator[ScheduleViolation]:
    """Workspaces that are not placed above all residencies must fit beside whatever may be there under any timing."""
    limit, top = timeline.schedule.memory_limit_bytes, _top(timeline.schedule)
    if limit <= 0 or top > limit:
        return
    for op in timeline.schedule.graph.ops:
        if op.workspace_bytes and top + op.workspace_bytes > limit:
            beside = _bytes_beside(timeline, clocks, op.id)
            if beside + op.workspace_bytes > limit:
                text = (
                    f"op {op.name!r} with its workspace of {op.workspace_bytes} bytes may exceed the limit of {limit}"
                )
                yield ScheduleViolation("limit", text, op.id, None, timeline.op_start[op.id], "events")


def _bytes_beside(timeline: Timeline, clocks: Clocks, op: int) -> int:
    """Bytes that residencies may hold, whatever the timing, while the op runs: the addresses of all but those that
    surely begin after it or have surely ended before it."""
    place, known = timeline.position[op], clocks.op[op]
    low, high = [], []
    for stay in (stay for rows in timeline.stays for stay in rows):
        over = (
            not stay.to_step_end
            and (not stay.ops or timeline.position[stay.ops[-1]] < place)
            and all(clocks.ended(t, known) for t in (*stay.prefetches, *stay.stores))
        )
        if not over and begin_clock(timeline, clocks, stay)[0] <= place:
            low.append(stay.residency.offset)
            high.append(stay.residency.offset + stay.bytes)
    return _union(np.array(low, dtype=np.int64), np.array(high, dtype=np.int64))


def _union(start: Column, end: Column) -> int:
    """Length of the union of half-open intervals."""
    if not len(start):
        return 0
    order = np.argsort(start, kind="stable")
    start, end = start[order], end[order]
    reached = np.concatenate([[start[0]], np.maximum.accumulate(end)[:-1]])
    return int(np.maximum(0, end - np.maximum(start, reached)).sum())


def metric_violations(timeline: Timeline) -> Iterator[ScheduleViolation]:
    """Each metric that does not follow from the timeline."""
    schedule, metrics = timeline.schedule, timeline.schedule.metrics
    compute_ns = sum(timeline.op_end) - sum(timeline.op_start)
    transfers = schedule.transfers
    top = _top(schedule)
    workspace = max((op.workspace_bytes for op in schedule.graph.ops), default=0)
    expected = {
        "step_ns": timeline.step_ns,
        "compute_ns": compute_ns,
        "peak_live_bytes": _peak(timeline)[0],
        "bytes_out": sum(t.bytes for t in transfers if t.kind == "store"),
        "bytes_in": sum(t.bytes for t in transfers if t.kind == "prefetch"),
        "exposed_ns": _exposed(timeline.op_start, timeline.op_end, schedule),
        "blocking_ns": timeline.step_ns - compute_ns,
    }
    for name, value in expected.items():
        if getattr(metrics, name) != value:
            text = f"metric {name} is {getattr(metrics, name)}; the timeline says {value}"
            yield ScheduleViolation("metrics", text, None, None, timeline.step_ns)
    if not top <= metrics.reserved_bytes <= top + workspace:
        text = f"metric reserved_bytes is {metrics.reserved_bytes}; addresses reach {top}, a workspace {workspace} more"
        yield ScheduleViolation("metrics", text, None, None, timeline.step_ns)
    if not 0 <= metrics.lower_bound_ns <= timeline.step_ns:
        text = f"metric lower_bound_ns is {metrics.lower_bound_ns}, yet the step takes {timeline.step_ns}"
        yield ScheduleViolation("metrics", text, None, None, timeline.step_ns)


def _exposed(op_start: Sequence[int], op_end: Sequence[int], schedule: Schedule) -> int:
    """Transfer time beside which no op runs: what transfers add to the union of ops."""
    op_starts, op_ends = np.array(op_start, dtype=np.int64), np.array(op_end, dtype=np.int64)
    starts = np.array([t.start_ns for t in schedule.transfers], dtype=np.int64)
    ends = np.array([t.end_ns for t in schedule.transfers], dtype=np.int64)
    both = _union(np.concatenate([op_starts, starts]), np.concatenate([op_ends, ends]))
    return both - _union(op_starts, op_ends)
