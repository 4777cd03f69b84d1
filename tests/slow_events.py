"""What can go wrong when one op or transfer takes very long: an oracle that knows nothing of the verifier.

Streams and edges alone decide when things start. So one event surely ends before another starts exactly if making it
slow, and nothing else, delays the other until then.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from hyperoffload_core.ir import storages_of
from hyperoffload_core.schedule import Residency, Schedule
from hyperoffload_core.simulator import DeadlockError, simulate
from tests.byte_machine import Corruption, run_bytes

Event = tuple[Literal["op", "transfer"], int]
SLOW_NS = 1_000_000


def events(schedule: Schedule) -> list[Event]:
    return [("op", op) for op in schedule.order] + [("transfer", t.id) for t in schedule.transfers]


def may_start_before(schedule: Schedule, event: Event, ended: Event) -> bool:
    """Whether under some timing ``event`` starts before ``ended`` has ended. False for a schedule that deadlocks."""
    try:
        profile = simulate(schedule, **_durations(schedule, ended))
    except DeadlockError:
        return False
    spans = {("op", o): (s, e) for o, s, e in _rows(profile.ops.op, profile.ops.start_ns, profile.ops.end_ns)}
    moved = profile.transfers
    spans |= {("transfer", t): (s, e) for t, s, e in _rows(moved.transfer, moved.start_ns, moved.end_ns)}
    return spans[event][0] < spans[ended][1]


def breaks(schedule: Schedule) -> bool:
    """Whether, with some event slow, bytes are lost, two stays share bytes, or an op runs before its data arrived."""
    if any(may_start_before(schedule, ("op", op), ("transfer", t)) for op, t in _arrivals(schedule)):
        return True
    for event in events(schedule):
        durations = _durations(schedule, event)
        try:
            run_bytes(schedule, durations["op_ns"], durations["transfer_ns"])
            life = simulate(schedule, **durations).lifetimes
        except (Corruption, DeadlockError):
            return True
        stays = sorted(_rows(life.start_ns, life.end_ns, life.offset, life.bytes))
        for i, (_, end, low, size) in enumerate(stays):
            for start, other_end, other_low, other_size in stays[i + 1 :]:
                if start < min(end, other_end) and low < other_low + other_size and other_low < low + size:
                    return True
    return False


def users(schedule: Schedule, stay: Residency) -> list[int]:
    """Ops that, as planned, use the storage during the stay, in run order."""
    time = {t.op: t for t in schedule.op_times}
    touching = [o for o in schedule.order if stay.storage in storages_of(schedule.graph.ops[o])]
    return [o for o in touching if stay.start_ns <= time[o].start_ns and time[o].end_ns <= stay.end_ns]


def _arrivals(schedule: Schedule) -> Iterator[tuple[int, int]]:
    """(op, prefetch): an op needs what each prefetch of the same stay brings."""
    for stay in schedule.residencies:
        for t in schedule.transfers:
            inside = t.storage == stay.storage and stay.start_ns <= t.start_ns and t.end_ns <= stay.end_ns
            if inside and t.kind == "prefetch":
                yield from ((op, t.id) for op in users(schedule, stay)[:1])


def _durations(schedule: Schedule, slow: Event) -> dict[str, list[int]]:
    return {
        "op_ns": [SLOW_NS if slow == ("op", op.id) else 1 for op in schedule.graph.ops],
        "transfer_ns": [SLOW_NS if slow == ("transfer", t.id) else 1 for t in schedule.transfers],
    }


def _rows(*columns):  # type: ignore[no-untyped-def]
    return zip(*(c.tolist() for c in columns), strict=True)
