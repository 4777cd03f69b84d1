"""Whether a schedule is consistent in itself: ids, references, a complete order that respects dependencies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from hyperoffload_core.schedule import Schedule
from hyperoffload_core.verifier.timeline import Timeline
from hyperoffload_core.verifier.violation import ScheduleViolation


def _fault(message: str, op: int | None = None, storage: int | None = None, time_ns: int = 0) -> ScheduleViolation:
    return ScheduleViolation("structure", message, op, storage, time_ns)


def structure_violations(schedule: Schedule) -> Iterator[ScheduleViolation]:
    """Ids that do not exist or repeat, ops without or with two times, negative sizes and intervals."""
    graph = schedule.graph
    op_count, storage_count = len(graph.ops), len(graph.storages)
    yield from _graph_faults(schedule)
    for name, values in (("order", schedule.order), ("op_times", [t.op for t in schedule.op_times])):
        counts = Counter(values)
        for op in range(op_count):
            if counts.pop(op, 0) != 1:
                yield _fault(f"{name} must have op {graph.ops[op].name!r} exactly once", op)
        for op in counts:
            yield _fault(f"{name} names op {op}, which the graph does not have", op)
    ids = Counter(t.id for t in schedule.transfers)
    known = set(ids)
    for time in schedule.op_times:
        if not 0 <= time.start_ns <= time.end_ns:
            yield _fault(f"op {time.op} runs from {time.start_ns} to {time.end_ns} ns", time.op, None, time.start_ns)
        for wait in time.waits:
            if wait not in ids:
                yield _fault(f"op {time.op} waits for transfer {wait}, which does not exist", time.op)
    for t in schedule.transfers:
        at = t.start_ns
        if ids[t.id] != 1:
            yield _fault(f"transfer id {t.id} is used {ids[t.id]} times", None, t.storage, at)
        if t.kind not in ("prefetch", "store"):
            yield _fault(f"transfer {t.id} is a {t.kind!r}; it must be a prefetch or a store", None, t.storage, at)
        if not 0 <= t.storage < storage_count:
            yield _fault(f"transfer {t.id} moves storage {t.storage}, which the graph does not have", None, None, at)
        if not 0 <= t.start_ns <= t.end_ns:
            yield _fault(f"transfer {t.id} runs from {t.start_ns} to {t.end_ns} ns", None, t.storage, at)
        if _outside(t.after_ops, op_count) or not known.issuperset(t.after_transfers):
            yield _fault(f"transfer {t.id} waits for an op or transfer that does not exist", None, t.storage, at)
    for r in schedule.residencies:
        if not 0 <= r.storage < storage_count:
            yield _fault(
                f"a residency holds storage {r.storage}, which the graph does not have", None, None, r.start_ns
            )
        if r.offset < 0 or not 0 <= r.start_ns <= r.end_ns:
            yield _fault(
                f"residency of storage {r.storage} at offset {r.offset} from {r.start_ns} to {r.end_ns} ns",
                None,
                r.storage,
                r.start_ns,
            )


def _outside(ids: Sequence[int], count: int) -> bool:
    """Whether some id is none of 0 to ``count`` - 1."""
    return bool(ids) and (min(ids) < 0 or max(ids) >= count)


def _graph_faults(schedule: Schedule) -> Iterator[ScheduleViolation]:
    graph = schedule.graph
    op_count, storage_count = len(graph.ops), len(graph.storages)
    if len(schedule.durations_ns) != len(graph.ops):
        yield _fault(f"{len(schedule.durations_ns)} durations for {len(graph.ops)} ops")
    if len(schedule.homes) != len(graph.storages):
        yield _fault(f"{len(schedule.homes)} homes for {len(graph.storages)} storages")
    for position, storage in enumerate(graph.storages):
        if storage.id != position or storage.bytes <= 0:
            yield _fault(f"storage {storage.name!r}: id {storage.id}, {storage.bytes} bytes", None, position)
        of = storage.recompute_of
        if of is not None and not (0 <= of < len(graph.storages) and graph.storages[of].recompute_of is None):
            yield _fault(f"storage {storage.name!r} is a copy of storage {of}, which is no original", None, position)
    for home in set(schedule.homes) - {"device", "pool"}:
        yield _fault(f"home {home!r}; a home is the device or the pool")
    for position, op in enumerate(graph.ops):
        if op.id != position or op.workspace_bytes < 0:
            yield _fault(f"op {op.name!r}: id {op.id}, workspace {op.workspace_bytes} bytes", position)
        if _outside(op.reads, storage_count) or _outside(op.writes, storage_count):
            yield _fault(f"op {op.name!r} accesses a storage the graph does not have", position)
        if _outside(op.after, op_count):
            yield _fault(f"op {op.name!r} depends on an op the graph does not have", position)
        if op.recompute_of is not None and not 0 <= op.recompute_of < len(graph.ops):
            yield _fault(f"op {op.name!r} recomputes an op the graph does not have", position)


def order_violations(timeline: Timeline) -> Iterator[ScheduleViolation]:
    """Dependencies the order breaks: the graph's own, and those between accesses of one storage in captured order."""
    graph, position, start = timeline.schedule.graph, timeline.position, timeline.op_start

    def fault(op: int, earlier: int, why: str, storage: int | None) -> ScheduleViolation:
        return ScheduleViolation(
            "order",
            f"op {graph.ops[op].name!r} (id {op}) runs before op {graph.ops[earlier].name!r} (id {earlier}): {why}",
            op,
            storage,
            start[op],
        )

    # for each storage the position of its latest writer and of its latest reader so far, in captured order
    writer: dict[int, int] = {}
    reader: dict[int, int] = {}
    order = timeline.schedule.order
    for op in graph.ops:
        here = position[op.id]
        for earlier in op.after:
            if position[earlier] > here:
                yield fault(op.id, earlier, "it depends on it", None)
        for storage in op.reads:
            if writer.get(storage, -1) > here:
                yield fault(
                    op.id, order[writer[storage]], f"which writes {graph.storages[storage].name!r} for it", storage
                )
        for storage in op.writes:
            for latest in (writer, reader):
                if latest.get(storage, -1) > here:
                    other = order[latest[storage]]
                    yield fault(op.id, other, f"which needs {graph.storages[storage].name!r} as it was", storage)
        for storage in op.writes:
            writer[storage] = max(writer.get(storage, -1), here)
        for storage in op.reads:
            reader[storage] = max(reader.get(storage, -1), here)
