"""A profile as a Chrome trace (JSON), which Perfetto and chrome://tracing open.

One process is the device with three threads (compute, copy out, copy in). Steps follow each other on one time axis.
Flow arrows run from the op that produced a storage to its Store, from a Store to the Prefetch that brings it back, and
from a Prefetch to the op that waits for it. Counters show device bytes by class and the bytes held in the pool.
``ts`` and ``dur`` are microseconds with three decimals, so no nanosecond is lost.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import numpy as np

from hyperoffload_core.metrics import live_curve
from hyperoffload_core.recording import Profile
from profiles.explained import TransferValues, transfer_values
from profiles.lanes import Lane, Lanes, lanes, part_words
from profiles.series import memory_curve

DEVICE = 1
COMPUTE, COPY_OUT, COPY_IN = 1, 2, 3
Event = dict[str, Any]


def trace_bytes(profile: Profile, label: str, compress: bool = False) -> bytes:
    """The whole trace file, gzipped on request."""
    schedule = profile.schedule
    document = {
        "displayTimeUnit": "ns",
        "otherData": {
            "label": label,
            "kind": profile.kind,
            "hardware": schedule.hardware.title,
            "conditions": profile.conditions,
            "durations": schedule.duration_source,
            "graph": schedule.graph.name,
            "strategy": schedule.strategy,
            "memory_limit_bytes": schedule.memory_limit_bytes,
        },
        "traceEvents": trace_events(profile, label),
    }
    data = json.dumps(document, separators=(",", ":")).encode()
    return gzip.compress(data, mtime=0) if compress else data


def trace_events(profile: Profile, label: str) -> list[Event]:
    """Every event of the trace."""
    events = list(_metadata(profile, label))
    begin, flow = 0, 0
    for step in range(profile.step_count):
        drawn, values = lanes(profile, step), transfer_values(profile, step)
        events.extend(_ops(profile, drawn.compute, begin))
        for lane, thread in ((drawn.copy_out, COPY_OUT), (drawn.copy_in, COPY_IN)):
            events.extend(_transfers(profile, lane, thread, begin, values))
        arrows = list(_arrows(profile, drawn))
        events.extend(_flows(arrows, begin, flow))
        events.extend(_device_bytes(profile, step, begin))
        events.extend(_pool_bytes(profile, drawn, step, begin))
        flow += len(arrows)
        begin += int(profile.steps.step_ns[step])
    return events


def _us(time_ns: int) -> float:
    # Exact to the nanosecond up to 10^15 ns: a double prints the three decimals it was divided to.
    return time_ns / 1000


def _metadata(profile: Profile, label: str) -> Iterator[Event]:
    kind = f"{profile.kind} on {profile.schedule.hardware.title}; {profile.conditions}"
    process = {"process_name": {"name": label}, "process_labels": {"labels": kind}}
    for name, args in process.items():
        yield {"ph": "M", "name": name, "pid": DEVICE, "args": args}
    for thread, name in ((COMPUTE, "compute"), (COPY_OUT, "copy out (Store)"), (COPY_IN, "copy in (Prefetch)")):
        yield {"ph": "M", "name": "thread_name", "pid": DEVICE, "tid": thread, "args": {"name": name}}
        yield {"ph": "M", "name": "thread_sort_index", "pid": DEVICE, "tid": thread, "args": {"sort_index": thread}}


def _rows(lane: Lane) -> Iterator[tuple[int, int, int]]:
    return zip(lane.item.tolist(), lane.start_ns.tolist(), lane.end_ns.tolist(), strict=True)


def _slice(name: str, category: str, thread: int, start_ns: int, end_ns: int, args: Event) -> Event:
    times = {"ts": _us(start_ns), "dur": _us(end_ns - start_ns)}
    return {"ph": "X", "name": name, "cat": category, "pid": DEVICE, "tid": thread, **times, "args": args}


def _ops(profile: Profile, lane: Lane, begin: int) -> Iterator[Event]:
    graph = profile.schedule.graph
    for op_id, start, end in _rows(lane):
        op = graph.ops[op_id]
        args = {"op": op.name, "scope": op.scope, "phase": op.phase, "workspace_bytes": op.workspace_bytes}
        yield _slice(op.primitive, f"op,{op.phase}", COMPUTE, begin + start, begin + end, args)


def _transfers(
    profile: Profile, lane: Lane, thread: int, begin: int, values: dict[int, TransferValues]
) -> Iterator[Event]:
    schedule = profile.schedule
    moves, parts = {t.id: t for t in schedule.transfers}, part_words(schedule)
    for transfer, start, end in _rows(lane):
        move, storage = moves[transfer], schedule.graph.storages[moves[transfer].storage]
        name = f"{'Store' if thread == COPY_OUT else 'Prefetch'} {storage.name}"
        rate = move.bytes / (end - start) if end > start else 0.0
        args = {"storage": storage.name, "class": storage.tensor_class, "bytes": move.bytes, "GB/s": round(rate, 3)}
        if transfer in parts:
            args |= {"part": parts[transfer], "offset_bytes": move.offset_bytes, "storage_bytes": storage.bytes}
        args |= asdict(values[transfer])
        yield _slice(name, "transfer", thread, begin + start, begin + end, args)


_End = tuple[int, int]  # (thread, time in the step)


def _arrows(profile: Profile, drawn: Lanes) -> Iterator[tuple[str, _End, _End]]:
    """``(name, from, to)``; both ends lie inside their slices, slices without length get no arrow."""
    schedule = profile.schedule
    ops = {i: (s, e) for i, s, e in _rows(drawn.compute) if e > s}
    threads = ((drawn.copy_out, COPY_OUT), (drawn.copy_in, COPY_IN))
    moved = {i: (s, e, thread) for lane, thread in threads for i, s, e in _rows(lane) if e > s}
    storage_of = {t.id: t.storage for t in schedule.transfers}
    writes: dict[int, list[tuple[int, int]]] = {}
    for op, (_, end) in ops.items():
        for storage in schedule.graph.ops[op].writes:
            writes.setdefault(storage, []).append((end, op))
    stored: dict[int, list[tuple[int, int]]] = {}
    for transfer, (start, end, thread) in sorted(moved.items(), key=lambda item: item[1]):
        storage = storage_of[transfer]
        if thread == COPY_OUT:
            producer = max((w for w in writes.get(storage, ()) if w[0] <= start), default=None)
            if producer is not None:
                yield "producer to store", (COMPUTE, producer[0] - 1), (COPY_OUT, start)
            stored.setdefault(storage, []).append((end, transfer))
        else:
            store = max((s for s in stored.get(storage, ()) if s[0] <= start), default=None)
            if store is not None:
                yield "store to prefetch", (COPY_OUT, store[0] - 1), (COPY_IN, start)
    for time in schedule.op_times:
        for transfer in time.waits:
            if time.op in ops and transfer in moved:
                _, end, thread = moved[transfer]
                yield "transfer to consumer", (thread, end - 1), (COMPUTE, ops[time.op][0])


def _flows(arrows: list[tuple[str, _End, _End]], begin: int, first_id: int) -> Iterator[Event]:
    for number, (name, start, end) in enumerate(arrows, first_id + 1):
        shared = {"name": name, "cat": "flow", "id": number, "pid": DEVICE}
        yield {"ph": "s", **shared, "tid": start[0], "ts": _us(begin + start[1])}
        yield {"ph": "f", "bp": "e", **shared, "tid": end[0], "ts": _us(begin + end[1])}


def _device_bytes(profile: Profile, step: int, begin: int) -> Iterator[Event]:
    curve = memory_curve(profile, step)
    for time, held in zip(curve.times_ns.tolist(), curve.bytes.T.tolist(), strict=True):
        series = dict(zip(curve.classes, held, strict=True))
        yield {"ph": "C", "name": "device bytes", "pid": DEVICE, "ts": _us(begin + time), "args": series}


def _pool_bytes(profile: Profile, drawn: Lanes, step: int, begin: int) -> Iterator[Event]:
    """Bytes held in the pool: storages at home there all the time, stored ones from the Store's start to the end of
    their last Prefetch, or to the step's end when none brings them back."""
    schedule, step_end = profile.schedule, int(profile.steps.step_ns[step])
    moves = {t.id: t for t in schedule.transfers}
    home = {s.id for s in schedule.graph.storages if schedule.homes[s.id] == "pool"}
    stays: dict[int, list[int]] = {}
    for transfer, start, _ in _rows(drawn.copy_out):
        stays.setdefault(moves[transfer].storage, [start, step_end])
    for transfer, _, end in _rows(drawn.copy_in):
        if moves[transfer].storage in stays:
            stays[moves[transfer].storage][1] = end
    rows = [(start, end, schedule.graph.storages[s].bytes) for s, (start, end) in stays.items() if s not in home]
    rows.extend((0, step_end, schedule.graph.storages[s].bytes) for s in home)
    if rows:
        times, held = live_curve(*np.array(rows, dtype=np.int64).T)
        for time, size in zip(times.tolist(), held.tolist(), strict=True):
            event = {"ph": "C", "name": "pool bytes", "pid": DEVICE, "ts": _us(begin + time)}
            yield {**event, "args": {"pool": size}}
