"""The event form: whether order, waits and edges alone keep a schedule safe, whatever ops and transfers take.

Streams (compute, and one per link) run their events one after the other, so "how many events of each stream have
surely ended" is a vector clock that answers "has A surely ended before B starts" with one comparison. Two events that
touch the same bytes of the arena or the same remote copy, one of them writing, must be ordered like that.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

from hyperoffload_core.schedule import Transfer
from hyperoffload_core.verifier.timeline import Stay, Timeline
from hyperoffload_core.verifier.violation import Rule, ScheduleViolation

Clock = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Clocks:
    """``op[id]`` and ``transfer[id]``: how many events of each stream have surely ended when it starts.

    ``place[transfer id]`` is its (stream, index); ops are stream 0 at their position in the order.
    """

    op: list[Clock]
    transfer: dict[int, Clock]
    place: dict[int, tuple[int, int]]

    def ended(self, transfer: Transfer, before: Clock) -> bool:
        stream, index = self.place[transfer.id]
        return before[stream] > index


def clocks_of(timeline: Timeline) -> Clocks | ScheduleViolation:
    """Vector clocks of all events, or the deadlock that keeps some from ever starting."""
    schedule, links = timeline.schedule, timeline.links
    place = {t.id: (stream, index) for stream, link in enumerate(links, start=1) for index, t in enumerate(link)}
    waits: list[tuple[int, ...]] = [()] * len(schedule.graph.ops)
    for time in schedule.op_times:
        waits[time.op] = time.waits
    streams = 1 + len(links)
    # ended[stream][index]: the clock of whoever knows that this event has ended
    ended: list[list[Clock]] = [[] for _ in range(streams)]
    op_clock: list[Clock] = [()] * len(schedule.graph.ops)
    transfer_clock: dict[int, Clock] = {}
    zero: Clock = (0,) * streams

    def start_clock(stream: int, events: list[tuple[int, int]]) -> Clock | None:
        """The clock of the next event of the stream, None while something it waits for has not run."""
        clock = ended[stream][-1] if ended[stream] else zero
        for other, index in events:
            if index >= len(ended[other]):
                return None
            if clock[other] <= index:
                clock = tuple(map(max, clock, ended[other][index]))
        return clock

    def finish(stream: int, clock: Clock) -> None:
        ended[stream].append((*clock[:stream], clock[stream] + 1, *clock[stream + 1 :]))

    position = timeline.position
    moved = True
    while moved:
        moved = False
        while len(ended[0]) < len(schedule.order):
            op = schedule.order[len(ended[0])]
            clock = start_clock(0, [place[w] for w in waits[op]])
            if clock is None:
                break
            op_clock[op] = clock
            finish(0, clock)
            moved = True
        for stream, link in enumerate(links, start=1):
            while len(ended[stream]) < len(link):
                t = link[len(ended[stream])]
                needed = [(0, position[op]) for op in t.after_ops] + [place[other] for other in t.after_transfers]
                clock = start_clock(stream, needed)
                if clock is None:
                    break
                transfer_clock[t.id] = clock
                finish(stream, clock)
                moved = True
    stuck_op = schedule.order[len(ended[0])] if len(ended[0]) < len(schedule.order) else None
    stuck = [link[len(ended[s])] for s, link in enumerate(links, start=1) if len(ended[s]) < len(link)]
    if stuck_op is None and not stuck:
        return Clocks(op_clock, transfer_clock, place)
    names = [] if stuck_op is None else [f"op {schedule.graph.ops[stuck_op].name!r}"]
    names += [f"{t.kind} {t.id} of {schedule.graph.storages[t.storage].name!r}" for t in stuck]
    at = min(t.start_ns for t in stuck) if stuck_op is None else timeline.op_start[stuck_op]
    text = f"{', '.join(names)}: waits in a circle, none of them can ever start"
    return ScheduleViolation("deadlock", text, stuck_op, stuck[0].storage if stuck else None, at, "events")


def event_violations(timeline: Timeline, clocks: Clocks) -> Iterator[ScheduleViolation]:
    """Pairs of events that no edge keeps apart."""
    for storage, stays in enumerate(timeline.stays):
        if timeline.moves[storage]:
            for stay in stays:
                yield from _arrival_violations(timeline, clocks, stay)
                yield from _store_violations(timeline, clocks, storage, stay)
            yield from _remote_copy_violations(timeline, clocks, storage)
    yield from _address_violations(timeline, clocks)


def _fault(
    timeline: Timeline, rule: Rule, text: str, storage: int, time_ns: int, op: int | None = None
) -> ScheduleViolation:
    name = timeline.schedule.graph.storages[storage].name
    return ScheduleViolation(rule, f"under some timing {text.format(name=repr(name))}", op, storage, time_ns, "events")


def _arrival_violations(timeline: Timeline, clocks: Clocks, stay: Stay) -> Iterator[ScheduleViolation]:
    """Ops run one after the other, so the first one of the stay speaks for all."""
    if stay.ops and stay.prefetches:
        op = stay.ops[0]
        late = next((t for t in stay.prefetches if not clocks.ended(t, clocks.op[op])), None)
        if late is not None:
            name = timeline.schedule.graph.ops[op].name
            text = f"op {name!r} starts before prefetch {late.id} of {{name}} has ended: it does not wait for it"
            yield _fault(timeline, "residency", text, late.storage, timeline.op_start[op], op)


def _store_violations(timeline: Timeline, clocks: Clocks, storage: int, stay: Stay) -> Iterator[ScheduleViolation]:
    """A store reads what the latest write before it left, and the next write waits for the store."""
    ops, position, start, end = timeline.schedule.graph.ops, timeline.position, timeline.op_start, timeline.op_end
    writers = [op for op in stay.ops if storage in ops[op].writes] if stay.stores else []
    for t in stay.stores:
        clock = clocks.transfer[t.id]
        done = bisect_right(writers, t.start_ns, key=lambda op: end[op])
        if done and clock[0] <= position[writers[done - 1]]:
            op = writers[done - 1]
            text = f"store {t.id} of {{name}} starts before op {ops[op].name!r} has written it"
            yield _fault(timeline, "store", text, storage, t.start_ns, op)
        if stay.prefetches and not all(clocks.ended(p, clock) for p in stay.prefetches):
            yield _fault(
                timeline, "store", f"store {t.id} of {{name}} starts before its prefetch has ended", storage, t.start_ns
            )
        following = bisect_left(writers, t.end_ns, key=lambda op: start[op])
        if following < len(writers) and not clocks.ended(t, clocks.op[writers[following]]):
            op = writers[following]
            text = f"op {ops[op].name!r} writes {{name}} while store {t.id} of it still reads"
            yield _fault(timeline, "store", text, storage, start[op], op)


def _remote_copy_violations(timeline: Timeline, clocks: Clocks, storage: int) -> Iterator[ScheduleViolation]:
    """A prefetch reads what the stores before it left, and a store overwrites only what nobody reads any more."""
    latest: dict[str, Transfer] = {}
    for t in timeline.moves[storage]:
        other = latest.get("store" if t.kind == "prefetch" else "prefetch")
        if other is not None and other.end_ns <= t.start_ns and not clocks.ended(other, clocks.transfer[t.id]):
            text = f"{t.kind} {t.id} of {{name}} starts before {other.kind} {other.id} of it has ended"
            safe = f"; its earliest safe start is {other.end_ns / 1e6:.6g} ms"
            yield _fault(timeline, t.kind, text + safe, storage, t.start_ns)
        latest[t.kind] = t


def _address_violations(timeline: Timeline, clocks: Clocks) -> Iterator[ScheduleViolation]:
    """A stay begins only after every earlier stay that shares bytes has ended, in the plan and under any timing.

    A sweep in time order keeps, for each byte range, the stay that had it last. That is enough: a stay ends after it
    began, so an older one under it has ended as well.
    """
    order = timeline.position

    def begin_place(stay: Stay) -> int:
        return order[stay.ops[0]] if stay.ops else -1

    stays = [stay for rows in timeline.stays for stay in rows]
    stays.sort(key=lambda s: (s.start_ns, s.end_ns, begin_place(s)))
    starts: list[int] = []  # disjoint byte ranges in address order: starts[i], ends[i], owners[i]
    ends: list[int] = []
    owners: list[Stay] = []
    for stay in stays:
        low, high = stay.residency.offset, stay.residency.offset + stay.bytes
        first, last = bisect_right(ends, low), bisect_left(starts, high)
        replaced = owners[first:last]
        for earlier in replaced if len(replaced) < 2 else {id(o): o for o in replaced}.values():
            fault = _sharing_violation(timeline, clocks, earlier, stay)
            if fault is not None:
                yield fault
        if len(replaced) == 1 and starts[first] == low and ends[first] == high:
            owners[first] = stay
            continue
        kept: list[tuple[int, int, Stay]] = [(low, high, stay)]
        if first < last and starts[first] < low:
            kept.insert(0, (starts[first], low, owners[first]))
        if first < last and ends[last - 1] > high:
            kept.append((high, ends[last - 1], owners[last - 1]))
        starts[first:last] = [s for s, _, _ in kept]
        ends[first:last] = [e for _, e, _ in kept]
        owners[first:last] = [o for _, _, o in kept]


def begin_clock(timeline: Timeline, clocks: Clocks, stay: Stay) -> Clock:
    """What has surely ended when the stay begins: at the start of its first prefetch, or of the op that writes it."""
    if len(stay.prefetches) == 1:
        return clocks.transfer[stay.prefetches[0].id]
    if stay.prefetches:
        return tuple(map(min, zip(*(clocks.transfer[t.id] for t in stay.prefetches), strict=True)))
    if stay.ops and not stay.at_step_start:
        return clocks.op[stay.ops[0]]
    return (0,) * (1 + len(timeline.links))


def _sharing_violation(timeline: Timeline, clocks: Clocks, earlier: Stay, later: Stay) -> ScheduleViolation | None:
    storages = timeline.schedule.graph.storages
    old, new = storages[earlier.residency.storage].name, later.residency.storage
    if earlier.end_ns > later.start_ns:
        text = (
            f"{storages[new].name!r} and {old!r} are alive at once and share bytes from offset {later.residency.offset}"
        )
        op = later.ops[0] if later.ops and not later.prefetches else None
        return ScheduleViolation("address", text, op, new, later.start_ns)
    known = begin_clock(timeline, clocks, later)
    op = later.ops[0] if later.ops and not later.prefetches and not later.at_step_start else None
    text = ""
    if earlier.to_step_end:
        text = f"the bytes of {old!r}, which stays to the end of the step, are given to {{name}}"
    elif earlier.ops and known[0] <= timeline.position[earlier.ops[-1]]:
        last = timeline.schedule.graph.ops[earlier.ops[-1]].name
        text = f"{{name}} takes the bytes of {old!r} before op {last!r} is done with them"
    elif earlier.stores or earlier.prefetches:
        late = next((t for t in (*earlier.stores, *earlier.prefetches) if not clocks.ended(t, known)), None)
        if late is not None:
            text = f"{{name}} takes the bytes of {old!r} before {late.kind} {late.id} of it has ended"
    return _fault(timeline, "address", text, new, later.start_ns, op) if text else None
