"""One step of a schedule or profile with the times it is explained by: planned ones, or measured ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, pairwise

import numpy as np

from hyperoffload_core.ir import storages_of
from hyperoffload_core.metrics import Column, live_curve
from hyperoffload_core.recording import UNKNOWN_ADDRESS, Profile
from hyperoffload_core.schedule import Schedule, Transfer


@dataclass(frozen=True)
class Step:
    """``op_start[op]`` and ``op_end[op]`` by op id, ``start[transfer]`` and ``end[transfer]`` by transfer id, ns.

    ``stays[storage]`` are (start, end) of its stays on the device in time order, ``places`` has a row (low address,
    high address, start, end) for every stay. Between ``live_times[i]`` and ``live_times[i + 1]`` the device holds
    ``live[i]`` bytes, workspaces of running ops included.
    """

    schedule: Schedule
    op_start: list[int]
    op_end: list[int]
    start: dict[int, int]
    end: dict[int, int]
    stays: list[list[tuple[int, int]]]
    places: Column
    live_times: Column
    live: Column

    @cached_property
    def end_ns(self) -> int:
        """Where the last op or transfer ends."""
        return max([*self.op_end, *self.end.values()], default=0)

    @property
    def limit_bytes(self) -> int:
        return self.schedule.memory_limit_bytes

    @cached_property
    def transfers(self) -> dict[int, Transfer]:
        return {t.id: t for t in self.schedule.transfers}

    @cached_property
    def move_of(self) -> dict[int, tuple[Transfer, ...]]:
        """The whole move (one transfer, or its parts) each transfer belongs to, by transfer id."""
        return {part.id: move for move in self.schedule.moves for part in move}

    @cached_property
    def moves(self) -> list[list[tuple[Transfer, ...]]]:
        """Moves of each storage in order of start."""
        result: list[list[tuple[Transfer, ...]]] = [[] for _ in self.schedule.graph.storages]
        for move in self.schedule.moves:
            result[move[0].storage].append(move)
        return result

    @cached_property
    def position(self) -> dict[int, int]:
        """Place of each op in the order."""
        return {op: place for place, op in enumerate(self.schedule.order)}

    @cached_property
    def op_waits(self) -> list[tuple[int, ...]]:
        result: list[tuple[int, ...]] = [()] * len(self.schedule.graph.ops)
        for time in self.schedule.op_times:
            result[time.op] = time.waits
        return result

    @cached_property
    def waited_by(self) -> dict[int, int]:
        """The first op that waits for a transfer; transfers that no op waits for are not in it."""
        result: dict[int, int] = {}
        for op in self.schedule.order:
            for transfer in self.op_waits[op]:
                result.setdefault(transfer, op)
        return result

    @cached_property
    def link_before(self) -> dict[int, int]:
        """The transfer that runs just before each on its link."""
        return {later.id: before.id for link in self.schedule.link_transfers() for before, later in pairwise(link)}

    @cached_property
    def link_bytes(self) -> dict[int, int]:
        """Bytes that its link has moved up to the end of each transfer."""
        result: dict[int, int] = {}
        for link in self.schedule.link_transfers():
            result.update(zip((t.id for t in link), accumulate(t.bytes for t in link), strict=True))
        return result

    @cached_property
    def accesses(self) -> list[list[int]]:
        """Ops that touch each storage, in the order they run."""
        result: list[list[int]] = [[] for _ in self.schedule.graph.storages]
        for op in self.schedule.order:
            for storage in storages_of(self.schedule.graph.ops[op]):
                result[storage].append(op)
        return result

    def size(self, storage: int) -> int:
        return self.schedule.graph.storages[storage].bytes

    def own_op(self, transfer: Transfer) -> int | None:
        """The op whose access of the storage the transfer has to follow: the last one before a Prefetch, the last
        write before a Store; None if there is none in this step."""
        ops, at = self.schedule.graph.ops, self.start[transfer.id]
        found = None
        for op in self.accesses[transfer.storage]:
            if self.op_end[op] > at:
                break
            if transfer.kind == "prefetch" or transfer.storage in ops[op].writes:
                found = op
        return found

    def live_before(self, time_ns: int) -> int:
        """Bytes on the device just before a time."""
        at = int(np.searchsorted(self.live_times, time_ns, side="left")) - 1
        return int(self.live[at]) if at >= 0 else 0

    def most_live(self, start_ns: int, end_ns: int) -> int:
        """The most bytes on the device at any time of ``[start_ns, end_ns)``."""
        first = max(0, int(np.searchsorted(self.live_times, start_ns, side="right")) - 1)
        last = int(np.searchsorted(self.live_times, end_ns, side="left"))
        return int(self.live[first:last].max(initial=0))

    def room_since(self, time_ns: int, size_bytes: int) -> int:
        """The earliest time from which on, until ``time_ns``, so many more bytes would have fitted under the limit."""
        if self.limit_bytes <= 0:
            return 0
        before = int(np.searchsorted(self.live_times, time_ns, side="left"))
        full = np.flatnonzero(self.live[:before] + size_bytes > self.limit_bytes)
        if not len(full):
            return 0
        return int(self.live_times[full[-1] + 1]) if full[-1] + 1 < before else time_ns

    def place_since(self, transfer: Transfer, time_ns: int) -> int:
        """The earliest time, from ``time_ns`` on, at which a Prefetch's storage has a place until its stay ends: its
        own address, or any other below the limit; at the latest the time it started."""
        start, size = self.start[transfer.id], self.size(transfer.storage)
        low, high, begins, ends = self.places.T
        stay = next((s for s in self.stays[transfer.storage] if s[0] == start), None)
        if stay is None:
            return start
        if self.limit_bytes <= 0 or bool((low == UNKNOWN_ADDRESS).any()):
            return time_ns
        beside = (begins < stay[1]) & (ends > time_ns) & ~((begins == start) & (high - low == size))
        graph = self.schedule.graph
        returns = graph.storages[transfer.storage].persistent and self.schedule.homes[transfer.storage] == "device"
        # what ends the step on the device has to be where the next step finds it
        floor = self.limit_bytes + 1 if returns and stay[1] >= self.end_ns else 0
        for row in np.flatnonzero(beside)[np.argsort(low[beside], kind="stable")].tolist():
            if floor + size <= low[row]:
                return time_ns
            floor = max(floor, -(-int(high[row]) // 64) * 64)
        if floor + size <= self.limit_bytes:
            return time_ns
        own = np.flatnonzero((begins == start) & (high - low == size))
        shared = (low < high[own[0]]) & (high > low[own[0]]) & (ends <= start)
        return max(time_ns, int(ends[shared].max(initial=0)))

    def absences(self, storage: int) -> Iterator[tuple[int, int]]:
        """Times between stays of the storage; for a persistent one also those from the step's start and to its end."""
        rows = self.stays[storage]
        if not rows:
            if self.schedule.graph.exists_at_start(storage):
                yield 0, self.end_ns
            return
        if self.schedule.graph.exists_at_start(storage) and rows[0][0] > 0:
            yield 0, rows[0][0]
        for before, after in pairwise(rows):
            yield before[1], after[0]
        if self.schedule.graph.lives_to_end(storage) and rows[-1][1] < self.end_ns:
            yield rows[-1][1], self.end_ns


def step_of(source: Schedule | Profile, step: int = 0) -> Step:
    """The planned times of a schedule, or one step of a profile."""
    schedule = source if isinstance(source, Schedule) else source.schedule
    if isinstance(source, Profile):
        schedule = as_recorded(source, step)
    storages, ops = schedule.graph.storages, schedule.graph.ops
    op_start, op_end = [0] * len(ops), [0] * len(ops)
    if isinstance(source, Schedule):
        for time in source.op_times:
            op_start[time.op], op_end[time.op] = time.start_ns, time.end_ns
        start, end = {t.id: t.start_ns for t in source.transfers}, {t.id: t.end_ns for t in source.transfers}
        rows = [(r.storage, r.start_ns, r.end_ns, r.offset) for r in source.residencies]
    else:
        events, moved, lives = source.ops, source.transfers, source.lifetimes
        ran, went, lived = events.step == step, moved.step == step, lives.step == step
        for op, begin, finish in zip(
            *(c[ran].tolist() for c in (events.op, events.start_ns, events.end_ns)), strict=True
        ):
            op_start[op], op_end[op] = begin, finish
        ids = moved.transfer[went].tolist()
        start = dict(zip(ids, moved.start_ns[went].tolist(), strict=True))
        end = dict(zip(ids, moved.end_ns[went].tolist(), strict=True))
        rows = list(
            zip(*(c[lived].tolist() for c in (lives.storage, lives.start_ns, lives.end_ns, lives.offset)), strict=True)
        )
    stays: list[list[tuple[int, int]]] = [[] for _ in storages]
    for storage, begin, finish, _ in sorted(rows, key=lambda r: r[1:]):
        stays[storage].append((begin, finish))
    spaces = [op for op in ops if op.workspace_bytes]
    times, live = live_curve(
        [*(r[1] for r in rows), *(op_start[op.id] for op in spaces)],
        [*(r[2] for r in rows), *(op_end[op.id] for op in spaces)],
        [*(storages[r[0]].bytes for r in rows), *(op.workspace_bytes for op in spaces)],
    )
    places = np.array([(r[3], r[3] + storages[r[0]].bytes, r[1], r[2]) for r in rows], np.int64).reshape(len(rows), 4)
    return Step(schedule, op_start, op_end, start, end, stays, places, times, live)


def as_recorded(profile: Profile, step: int) -> Schedule:
    """The schedule without transfers that the recording lacks: in graph mode some storages cannot leave the device."""
    schedule = profile.schedule
    transfers = set(profile.transfers.transfer[profile.transfers.step == step].tolist())
    if len(transfers) == len(schedule.transfers):
        return schedule

    def kept(ids: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(t for t in ids if t in transfers)

    return replace(
        schedule,
        transfers=tuple(
            replace(t, after_transfers=kept(t.after_transfers)) for t in schedule.transfers if t.id in transfers
        ),
        op_times=tuple(replace(time, waits=kept(time.waits)) for time in schedule.op_times),
    )
