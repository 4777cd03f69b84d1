"""The timed form: whether the planned times keep every rule of storages, links and durations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from hyperoffload_core.schedule import Transfer
from hyperoffload_core.verifier.timeline import Stay, Timeline
from hyperoffload_core.verifier.violation import Rule, ScheduleViolation


def time_violations(timeline: Timeline) -> Iterator[ScheduleViolation]:
    """Durations, starts no earlier than what is waited for, one transfer at a time on a link."""
    schedule = timeline.schedule
    ops, start, end = schedule.graph.ops, timeline.op_start, timeline.op_end
    transfer_end = {t.id: t.end_ns for t in schedule.transfers}

    for time in schedule.op_times:
        duration = schedule.durations_ns[time.op]
        if time.end_ns - time.start_ns != duration:
            text = (
                f"op {ops[time.op].name!r} takes {time.end_ns - time.start_ns} ns in its times, {duration} ns by itself"
            )
            yield ScheduleViolation("time", text, time.op, None, time.start_ns)
        late = next((w for w in time.waits if transfer_end[w] > time.start_ns), None) if time.waits else None
        if late is not None:
            text = f"op {ops[time.op].name!r} starts before transfer {late} has ended, for which it waits"
            yield ScheduleViolation("time", text, time.op, None, time.start_ns)
    for earlier, later in pairwise(schedule.order):
        if start[later] < end[earlier]:
            text = f"op {ops[later].name!r} starts before op {ops[earlier].name!r}, its predecessor, has ended"
            yield ScheduleViolation("time", text, later, None, start[later])

    for t in schedule.transfers:
        link = schedule.hardware.link_out if t.kind == "store" else schedule.hardware.link_in
        needed = link.latency_ns + -(-t.bytes * 1_000_000_000 // link.bytes_per_s)
        if t.end_ns - t.start_ns != needed:
            text = (
                f"{_name(timeline, t)} takes {t.end_ns - t.start_ns} ns; {t.bytes} bytes take {needed} ns on its link"
            )
            yield ScheduleViolation("time", text, None, t.storage, t.start_ns)
        ops_end = max(map(end.__getitem__, t.after_ops), default=0)
        if max(ops_end, max(map(transfer_end.__getitem__, t.after_transfers), default=0)) > t.start_ns:
            text = f"{_name(timeline, t)} starts before an op or transfer has ended for which it waits"
            yield ScheduleViolation("time", text, None, t.storage, t.start_ns)
    for transfers in timeline.links:
        for before, after in pairwise(transfers):
            if after.start_ns < before.end_ns:
                text = f"{_name(timeline, after)} starts while {_name(timeline, before)} still uses the link"
                yield ScheduleViolation("link", text, None, after.storage, after.start_ns)


def storage_violations(timeline: Timeline) -> Iterator[ScheduleViolation]:
    """Follow the value of each storage through its stays and its remote copy."""
    graph = timeline.schedule.graph
    for op, storage in timeline.homeless_accesses:
        text = f"op {graph.ops[op].name!r} needs {graph.storages[storage].name!r} on the device for its whole duration"
        yield ScheduleViolation("residency", text, op, storage, timeline.op_start[op])
    for t in timeline.homeless_transfers:
        text = f"{_name(timeline, t)} has no place on the device for its whole duration"
        yield ScheduleViolation("store" if t.kind == "store" else "residency", text, None, t.storage, t.start_ns)
    for storage, stays in enumerate(timeline.stays):
        for earlier, later in pairwise(timeline.moves[storage]):
            if later.start_ns < earlier.end_ns and later.kind != earlier.kind:
                text = f"{_name(timeline, later)} starts before the {earlier.kind} of it has ended"
                safe = f"; its earliest safe start is {earlier.end_ns / 1e6:.6g} ms"
                yield ScheduleViolation(later.kind, text + safe, None, storage, later.start_ns)
        for before, after in pairwise(stays):
            if after.start_ns < before.end_ns:
                text = f"{graph.storages[storage].name!r} has two places on the device at once"
                yield ScheduleViolation("residency", text, None, storage, after.start_ns)
        if stays or graph.exists_at_start(storage) or graph.lives_to_end(storage):
            if len(stays) == 1 and not timeline.moves[storage] and _never_leaves(timeline, storage, stays[0]):
                continue
            yield from _Value(timeline, storage).follow()


def _never_leaves(timeline: Timeline, storage: int, stay: Stay) -> bool:
    """Whether the storage's only stay begins with its value and lasts as long as it must: nothing to follow then."""
    graph = timeline.schedule.graph
    if timeline.schedule.homes[storage] != "device" or (graph.lives_to_end(storage) and not stay.to_step_end):
        return False
    if graph.exists_at_start(storage):
        return stay.at_step_start
    if not stay.ops:
        return False
    first = stay.ops[0]
    return storage not in graph.ops[first].reads and timeline.op_start[first] == stay.start_ns


def _name(timeline: Timeline, t: Transfer) -> str:
    return f"{t.kind} {t.id} of {timeline.schedule.graph.storages[t.storage].name!r}"


class _Value:
    """The newest value of one storage and where copies of it are.

    Values are counted: 0 is what the step starts with, each write makes the next one. ``remote`` is the value in the
    pool, -1 for none; ``device`` the one in the current stay.
    """

    def __init__(self, timeline: Timeline, storage: int) -> None:
        self.timeline = timeline
        self.storage = storage
        graph = timeline.schedule.graph
        self.name = graph.storages[storage].name
        self.bytes = graph.storages[storage].bytes
        self.ops = graph.ops
        self.home = timeline.schedule.homes[storage]
        self.given = graph.exists_at_start(storage)
        self.kept = graph.lives_to_end(storage)
        self.newest = 0 if self.given else -1
        self.remote = 0 if self.given and self.home == "pool" else -1
        self.device = -1

    def fault(self, rule: Rule, text: str, time_ns: int, op: int | None = None) -> ScheduleViolation:
        return ScheduleViolation(rule, text, op, self.storage, time_ns)

    def follow(self) -> Iterator[ScheduleViolation]:
        stays = self.timeline.stays[self.storage]
        needed = self.given and self.home == "device" and (self.kept or bool(self.timeline.moves[self.storage]))
        if needed and not (stays and stays[0].at_step_start):
            text = f"{self.name!r} is at home on the device, yet not there when the step starts"
            yield self.fault("home", text, 0)
        for index, stay in enumerate(stays):
            yield from self.begin(stay)
            yield from self.stay(stay)
            reads_later = index + 1 < len(stays) and bool(stays[index + 1].prefetches)
            if reads_later and self.remote != self.newest:
                text = f"{self.name!r} leaves the device although its remote copy is not valid"
                yield self.fault("detach", text, stay.end_ns)
        if self.kept:
            yield from self.end(stays)

    def begin(self, stay: Stay) -> Iterator[ScheduleViolation]:
        """What the stay starts with: the step's own value, a prefetched one, or one that its first op writes."""
        start, end = self.timeline.op_start, self.timeline.op_end
        first = stay.ops[0] if stay.ops else None
        arrival = stay.prefetches[0] if stay.prefetches else None
        self.device = -1
        if arrival is not None and (stay.at_step_start or (first is not None and end[first] <= arrival.start_ns)):
            text = f"prefetch {arrival.id} of {self.name!r}, which is on the device already"
            yield self.fault("transfer", text, arrival.start_ns)
        elif arrival is not None:
            yield from self.arrive(stay, arrival)
            return
        if stay.at_step_start:
            self.device = 0
            return
        if first is None:
            yield self.fault("residency", f"{self.name!r} takes room on the device and nothing uses it", stay.start_ns)
            return
        at = start[first]
        if self.storage in self.ops[first].reads:
            text = f"op {self.ops[first].name!r} reads {self.name!r}, which nothing brought to the device"
            yield self.fault("residency", text, at, first)
        elif at != stay.start_ns:
            text = f"{self.name!r} takes room on the device before op {self.ops[first].name!r} writes it"
            yield self.fault("residency", text, stay.start_ns, first)

    def arrive(self, stay: Stay, arrival: Transfer) -> Iterator[ScheduleViolation]:
        """A stay that begins with a prefetch: of a valid copy, into a place reserved just then, before any op."""
        self.device = self.remote
        if self.remote < 0 or self.remote != self.newest:
            what = "there is no remote copy" if self.remote < 0 else "its remote copy is out of date"
            yield self.fault("prefetch", f"prefetch {arrival.id} of {self.name!r}: {what}", arrival.start_ns)
            self.device = self.newest  # reported once, not at every later step of this value
        if arrival.start_ns != stay.start_ns:
            text = f"{self.name!r} has its place on the device before its prefetch {arrival.id} starts"
            yield self.fault("residency", text, stay.start_ns)
        yield from self.parts(stay.prefetches)
        arrived = max(t.end_ns for t in stay.prefetches)
        if stay.ops and self.timeline.op_start[stay.ops[0]] < arrived:
            op = stay.ops[0]
            text = f"op {self.ops[op].name!r} starts before {self.name!r} has arrived"
            yield self.fault("residency", text, self.timeline.op_start[op], op)

    def stay(self, stay: Stay) -> Iterator[ScheduleViolation]:
        """Writes and stores of one stay in time order."""
        start, end = self.timeline.op_start, self.timeline.op_end
        writers = [op for op in stay.ops if self.storage in self.ops[op].writes]
        arrived = max((t.end_ns for t in stay.prefetches), default=0)
        written, group = 0, list[Transfer]()
        for store in stay.stores:
            while written < len(writers) and end[writers[written]] <= store.start_ns:
                if group:
                    yield from self.stored(group)
                    group = []
                self.write()
                written += 1
            if written < len(writers) and start[writers[written]] < store.end_ns:
                writer = writers[written]
                text = f"store {store.id} of {self.name!r} runs while op {self.ops[writer].name!r} has yet to write it"
                yield self.fault("store", text, store.start_ns, writer)
            if self.device < 0 or store.start_ns < arrived:
                text = f"store {store.id} of {self.name!r} starts before its value is on the device"
                yield self.fault("store", text, store.start_ns)
            group.append(store)
        if group:
            yield from self.stored(group)
        for _ in writers[written:]:
            self.write()

    def write(self) -> None:
        self.newest += 1
        self.device = self.newest

    def stored(self, group: Sequence[Transfer]) -> Iterator[ScheduleViolation]:
        self.remote = self.device
        yield from self.parts(group)

    def parts(self, group: Sequence[Transfer]) -> Iterator[ScheduleViolation]:
        """One whole transfer, or parts that cover the storage once."""
        if len(group) == 1 and not group[0].partial:
            t = group[0]
            if t.bytes != self.bytes or t.offset_bytes != 0:
                text = f"{t.kind} {t.id} moves {t.bytes} of the {self.bytes} bytes of {self.name!r}"
                yield self.fault("transfer", text, t.start_ns)
            return
        whole = next((t for t in group if not t.partial), None)
        if whole is not None:
            text = f"{whole.kind} {whole.id} moves {self.name!r}, which another {whole.kind} moves as well"
            yield self.fault("transfer", text, whole.start_ns)
            return
        reached = 0
        for t in sorted(group, key=lambda t: t.offset_bytes):
            if t.offset_bytes != reached or t.bytes <= 0:
                kind = "overlaps" if t.offset_bytes < reached else "leaves a hole before"
                text = f"the parts of {self.name!r} do not cover it once: one {kind} byte {t.offset_bytes}"
                yield self.fault("transfer", text, t.start_ns)
                return
            reached += t.bytes
        if reached != self.bytes:
            text = f"the parts of {self.name!r} cover {reached} of its {self.bytes} bytes"
            yield self.fault("transfer", text, group[-1].start_ns)

    def end(self, stays: Sequence[Stay]) -> Iterator[ScheduleViolation]:
        """Where the step leaves the storage."""
        step_ns = self.timeline.step_ns
        if self.home == "pool":
            if self.remote < 0 or self.remote != self.newest:
                yield self.fault("home", f"{self.name!r} must end the step in the pool with its newest value", step_ns)
            return
        if not stays or not stays[-1].to_step_end or self.device != self.newest:
            yield self.fault("home", f"{self.name!r} must end the step on the device with its newest value", step_ns)
        elif self.given and stays[0].residency.offset != stays[-1].residency.offset:
            text = f"{self.name!r} ends the step at another address than the next step starts with"
            yield self.fault("home", text, step_ns)
