"""One moment of a step: what memory is needed, held and reserved then, and what would lower it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from hyperoffload_core.hardware import transfer_ns
from hyperoffload_core.recording import Profile
from profiles.alive import Alive, alive_at


@dataclass(frozen=True, slots=True)
class Idle:
    """A storage on the device that no op uses between ``start_ns`` and ``end_ns`` (its neighbouring uses; for what
    lives on from step to step also the step's start and end). ``round_trip_ns``: link time to leave and come back."""

    alive: Alive
    start_ns: int
    end_ns: int
    round_trip_ns: int

    @property
    def could_leave(self) -> bool:
        return self.end_ns - self.start_ns >= self.round_trip_ns


@dataclass(frozen=True, slots=True)
class Moment:
    """All that is on the device at a time, and in parts: ``used`` by the ops running then; ``early`` before the first
    use of its stay and ``late`` after the last one (retention); ``idle`` between two uses.

    ``needed_bytes <= live_bytes <= reserved_bytes``: retention is the difference of the first two, fragmentation of the
    last two. ``limit_bytes`` is 0 without a limit.
    """

    time_ns: int
    ops: tuple[int, ...]
    alive: tuple[Alive, ...]
    used: tuple[Alive, ...]
    early: tuple[Alive, ...]
    late: tuple[Alive, ...]
    idle: tuple[Idle, ...]
    reserved_bytes: int
    limit_bytes: int

    @property
    def live_bytes(self) -> int:
        return total(self.alive)

    @property
    def retained_bytes(self) -> int:
        return total(self.early) + total(self.late)

    @property
    def needed_bytes(self) -> int:
        return self.live_bytes - self.retained_bytes

    @property
    def fragmented_bytes(self) -> int:
        return self.reserved_bytes - self.live_bytes

    @property
    def leaving(self) -> tuple[Idle, ...]:
        """Idle for long enough to leave and come back."""
        return tuple(i for i in self.idle if i.could_leave)


def moment(profile: Profile, time_ns: int, step: int = 0) -> Moment:
    """The moment at a time (ns) of one step."""
    schedule, events, life = profile.schedule, profile.ops, profile.lifetimes
    graph, hardware = schedule.graph, schedule.hardware
    alive = alive_at(profile, time_ns, step)
    begin, end = np.full(len(graph.ops), -1, np.int64), np.full(len(graph.ops), -1, np.int64)
    ran = events.step == step
    begin[events.op[ran]], end[events.op[ran]] = events.start_ns[ran], events.end_ns[ran]
    op, storage, writes = graph.access_columns
    there = np.zeros(len(graph.storages), np.bool_)
    there[[a.storage for a in alive if a.storage is not None]] = True
    seen = there[storage] & (begin[op] >= 0)
    op, storage = op[seen], storage[seen]
    written = set(graph.access_columns[1][writes].tolist())
    uses: dict[int, list[tuple[int, int]]] = {}
    for of, start, stop in zip(storage.tolist(), begin[op].tolist(), end[op].tolist(), strict=True):
        uses.setdefault(of, []).append((start, stop))
    used, early, late, idle = [], [], [], []
    for a in alive:
        if a.storage is None:
            used.append(a)
            continue
        accesses = uses.get(a.storage, [])
        inside = [u for u in accesses if a.start_ns <= u[0] < a.end_ns]
        if any(start <= time_ns < stop for start, stop in inside):
            used.append(a)
        elif not any(start <= time_ns for start, _ in inside):
            early.append(a)
        elif not any(start > time_ns for start, _ in inside):
            late.append(a)
        else:
            size = a.bytes
            out = transfer_ns(size, hardware.link_out) if a.storage in written else 0
            before = max(stop for start, stop in accesses if start <= time_ns)
            after = min(start for start, _ in accesses if start > time_ns)
            idle.append(Idle(a, before, after, out + transfer_ns(size, hardware.link_in)))
    rows = (life.step == step) & (life.start_ns <= time_ns) & (life.end_ns > time_ns)
    top = int((life.offset + life.bytes)[rows].max(initial=0))
    running = ran & (events.start_ns <= time_ns) & (events.end_ns > time_ns)
    return Moment(
        time_ns=time_ns,
        ops=tuple(events.op[running].tolist()),
        alive=tuple(alive),
        used=tuple(used),
        early=tuple(early),
        late=tuple(late),
        idle=tuple(idle),
        reserved_bytes=max(top, total(alive)),
        limit_bytes=max(0, schedule.memory_limit_bytes),
    )


def total(alive: Iterable[Alive] | Sequence[Alive]) -> int:
    """Bytes of all of them."""
    return sum(a.bytes for a in alive)
