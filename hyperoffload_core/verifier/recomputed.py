"""Whether recomputed ops do again what was done before, and whether the ops are those of the graph that was asked for.

Values are followed in captured order: what a storage holds is named by the original storage and the number of writes to
it so far. A recomputed op must find the values that its original found, in the original storages or in copies, and
fills copies with the values that its original wrote. Who reads a copy must need just the value it holds.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest

from hyperoffload_core.ir import Graph, Op
from hyperoffload_core.schedule import Schedule
from hyperoffload_core.verifier.timeline import Timeline
from hyperoffload_core.verifier.violation import ScheduleViolation

_Value = tuple[int, int]


def recompute_violations(timeline: Timeline) -> Iterator[ScheduleViolation]:
    """Recomputed ops that do not repeat their original, and readers of a copy that need another value."""
    if any(op.recompute_of is not None for op in timeline.schedule.graph.ops) or any(
        s.recompute_of is not None for s in timeline.schedule.graph.storages
    ):
        yield from _Values(timeline).follow()


class _Values:
    """``writes`` counts writes per storage; ``copies`` the value each copy holds; ``found`` and ``made`` the values
    each op read and wrote, in the order of its ``reads`` and ``writes``."""

    def __init__(self, timeline: Timeline) -> None:
        self.timeline = timeline
        self.graph = timeline.schedule.graph
        self.writes = [0] * len(self.graph.storages)
        self.copies: dict[int, _Value] = {}
        self.found: dict[int, list[_Value | None]] = {}
        self.made: dict[int, list[_Value]] = {}

    def follow(self) -> Iterator[ScheduleViolation]:
        for op in self.graph.ops:
            if op.recompute_of is None:
                yield from self.original(op)
            else:
                yield from self.again(op, self.graph.ops[op.recompute_of])

    def fault(self, op: Op, text: str, storage: int | None = None) -> ScheduleViolation:
        at = self.timeline.op_start[op.id]
        return ScheduleViolation("recompute", f"op {op.name!r} {text}", op.id, storage, at)

    def name(self, storage: int) -> str:
        return repr(self.graph.storages[storage].name)

    def value(self, storage: int) -> _Value | None:
        """What the storage holds now; None for a copy that nothing has filled."""
        if self.graph.storages[storage].recompute_of is not None:
            return self.copies.get(storage)
        return storage, self.writes[storage]

    def original(self, op: Op) -> Iterator[ScheduleViolation]:
        for storage in op.reads:
            of = self.graph.storages[storage].recompute_of
            if of is None:
                continue
            if self.copies.get(storage) != (of, self.writes[of]):
                text = f"reads {self.name(storage)}, which does not hold the value {self.name(of)} has for it"
                yield self.fault(op, text, storage)
            if of in op.writes:
                yield self.fault(op, f"writes {self.name(of)} in place, yet reads a copy of it", storage)
        self.found[op.id] = [self.value(s) for s in op.reads]
        for storage in op.writes:
            if self.graph.storages[storage].recompute_of is not None:
                text = f"writes {self.name(storage)}, which only a recomputed op may write"
                yield self.fault(op, text, storage)
            self.writes[storage] += 1
        self.made[op.id] = [(s, self.writes[s]) for s in op.writes]

    def again(self, op: Op, first: Op) -> Iterator[ScheduleViolation]:
        if first.recompute_of is not None or first.id not in self.found:
            yield self.fault(op, f"recomputes {first.name!r}, which is no original op before it")
            return
        yield from self.same_op(op, first)
        if len(op.reads) != len(first.reads):
            yield self.fault(op, f"reads {len(op.reads)} storages, {first.name!r} read {len(first.reads)}")
        for storage, value in zip(op.reads, self.found[first.id], strict=False):
            if self.value(storage) != value or value is None:
                text = f"reads {self.name(storage)}, which does not hold what {first.name!r} read there"
                yield self.fault(op, text, storage)
        if len(op.writes) != len(first.writes):
            yield self.fault(op, f"writes {len(op.writes)} storages, {first.name!r} wrote {len(first.writes)}")
        for storage, value in zip(op.writes, self.made[first.id], strict=False):
            yield from self.fill(op, storage, value)

    def same_op(self, op: Op, first: Op) -> Iterator[ScheduleViolation]:
        durations = self.timeline.schedule.durations_ns
        if (op.primitive, op.workspace_bytes) != (first.primitive, first.workspace_bytes):
            yield self.fault(op, f"is another call than {first.name!r}, which it recomputes")
        if durations[op.id] != durations[first.id]:
            yield self.fault(op, f"takes {durations[op.id]} ns, {first.name!r} took {durations[first.id]} ns")
        if op.stateful or first.stateful:
            yield self.fault(op, "runs again although it has hidden state: it would give something else")
        in_place = next((s for s in first.writes if s in first.reads), None)
        if in_place is not None:
            yield self.fault(op, f"runs again although it updates {self.name(in_place)} in place", in_place)
        outside = next((s for s in first.writes if self.graph.exists_at_start(s)), None)
        if outside is not None:
            yield self.fault(op, f"runs again although it writes {self.name(outside)}, which outlives it", outside)

    def fill(self, op: Op, storage: int, value: _Value) -> Iterator[ScheduleViolation]:
        copy, of = self.graph.storages[storage], value[0]
        if copy.recompute_of != of:
            yield self.fault(op, f"writes {self.name(storage)}, which is no copy of {self.name(of)}", storage)
        elif copy.bytes != self.graph.storages[of].bytes:
            yield self.fault(op, f"writes {self.name(storage)}, which differs in size from {self.name(of)}", storage)
        elif self.graph.exists_at_start(storage) or self.graph.lives_to_end(storage):
            yield self.fault(op, f"writes {self.name(storage)}, a copy that outlives the step", storage)
        elif storage in self.copies or storage in op.reads:
            yield self.fault(op, f"writes {self.name(storage)}, a copy that holds a value already", storage)
        self.copies[storage] = value


def graph_violations(schedule: Schedule, graph: Graph) -> Iterator[ScheduleViolation]:
    """Where the schedule's ops and storages, without the recomputed ones, differ from those of ``graph``."""
    planned = schedule.graph
    if planned is graph:
        return
    ops = [op for op in planned.ops if op.recompute_of is None]
    kept = [s for s in planned.storages if s.recompute_of is None]
    op_place = {op.id: n for n, op in enumerate(ops)}
    place = {s.id: n for n, s in enumerate(kept)}

    def fault(text: str, op: int | None = None, storage: int | None = None) -> ScheduleViolation:
        return ScheduleViolation("recompute", text, op, storage, 0)

    for storage, wanted_storage in zip_longest(kept, graph.storages):
        if storage is None or wanted_storage is None:
            which, storage_id = (wanted_storage, None) if storage is None else (storage, storage.id)
            what = "lacks" if storage is None else "is not asked to have"
            yield fault(f"the schedule {what} storage {which.name!r}", None, storage_id)
            return
        if (storage.bytes, storage.tensor_class, storage.persistent) != (
            wanted_storage.bytes,
            wanted_storage.tensor_class,
            wanted_storage.persistent,
        ):
            yield fault(f"storage {storage.name!r} is not {wanted_storage.name!r} of the graph", None, storage.id)
    for op, wanted in zip_longest(ops, graph.ops):
        if op is None or wanted is None:
            what = f"lacks op {wanted.name!r}" if op is None else f"is not asked to run op {op.name!r}"
            yield fault(f"the schedule {what}", None if op is None else op.id)
            return
        reads = []
        for s in op.reads:
            of = planned.storages[s].recompute_of
            reads.append(place.get(s if of is None else of))
        same = (op.name, op.primitive, op.workspace_bytes, op.stateful) == (
            wanted.name,
            wanted.primitive,
            wanted.workspace_bytes,
            wanted.stateful,
        )
        writes = [place.get(s) for s in op.writes]
        if not same or reads != list(wanted.reads) or writes != list(wanted.writes):
            yield fault(f"op {op.name!r} is not {wanted.name!r} of the graph, or accesses other storages", op.id)
        elif not {op_place.get(a) for a in op.after}.issuperset(wanted.after):
            yield fault(f"op {op.name!r} lacks a dependency that it has in the graph", op.id)
