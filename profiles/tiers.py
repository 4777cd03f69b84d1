"""Where each storage is during one step: on the device, on its way out, in the pool, on its way in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from hyperoffload_core.recording import Profile

Column = NDArray[np.int64]
Tier = Literal["device", "out", "pool", "in"]
TIERS: tuple[Tier, ...] = ("device", "out", "pool", "in")
_DEVICE, _OUT, _POOL, _IN = range(4)
_NOWHERE = -1


@dataclass(frozen=True)
class TierBar:
    """One storage over a step as disjoint spans in time order; ``tier`` indexes `TIERS`. Between spans it is nowhere:
    not written yet, or not needed any more.

    On its way *in* it is from the moment its bytes are reserved until all of it has arrived, on its way *out* from the
    first to the last moment of its transfers.
    """

    storage: int
    tier: Column
    start_ns: Column
    end_ns: Column

    def total_ns(self, tier: Tier) -> int:
        """How long it is there."""
        rows = self.tier == TIERS.index(tier)
        return int((self.end_ns[rows] - self.start_ns[rows]).sum())


@dataclass(frozen=True)
class Flights:
    """Transfers of one storage in order of start, a row each: its bytes from ``low`` to ``high`` move."""

    transfer: Column
    outward: NDArray[np.bool_]
    start_ns: Column
    end_ns: Column
    low: Column
    high: Column


@dataclass(frozen=True)
class Uses:
    """Ops that access one storage in order of start, a row each; ``writes`` also where an op updates it in place."""

    op: Column
    writes: NDArray[np.bool_]
    start_ns: Column
    end_ns: Column


@dataclass(frozen=True)
class Placements:
    """The stays, transfers and accesses of one step by storage; ``end_ns`` is where its time axis ends."""

    profile: Profile
    step: int
    end_ns: int
    stay_storage: Column
    stay_start_ns: Column
    stay_end_ns: Column
    move_storage: Column
    move_transfer: Column
    move_outward: NDArray[np.bool_]
    move_start_ns: Column
    move_end_ns: Column
    move_low: Column
    move_high: Column

    def flights(self, storage: int) -> Flights:
        rows = _rows(self.move_storage, storage)
        return Flights(
            self.move_transfer[rows],
            self.move_outward[rows],
            self.move_start_ns[rows],
            self.move_end_ns[rows],
            self.move_low[rows],
            self.move_high[rows],
        )

    def stays(self, storage: int) -> tuple[Column, Column]:
        """Starts and ends of its stays on the device, in time order."""
        rows = _rows(self.stay_storage, storage)
        return self.stay_start_ns[rows], self.stay_end_ns[rows]

    def uses(self, storage: int) -> Uses:
        """The accesses of it that ran in this step."""
        by_storage, op, writes = self._accesses
        rows = _rows(by_storage, storage)
        op, writes = op[rows], writes[rows]
        start, end = self._op_times
        ran = end[op] >= 0
        op, writes = op[ran], writes[ran]
        order = np.argsort(start[op], kind="stable")
        return Uses(op[order], writes[order], start[op][order], end[op][order])

    @cached_property
    def _accesses(self) -> tuple[Column, Column, NDArray[np.bool_]]:
        op, storage, writes = self.profile.schedule.graph.access_columns
        order = np.argsort(storage, kind="stable")
        return storage[order], op[order], writes[order]

    @cached_property
    def _op_times(self) -> tuple[Column, Column]:
        """Start and end by op id, -1 for ops that did not run."""
        events = self.profile.ops
        rows = events.step == self.step
        start, end = np.full((2, len(self.profile.schedule.graph.ops)), -1, dtype=np.int64)
        start[events.op[rows]], end[events.op[rows]] = events.start_ns[rows], events.end_ns[rows]
        return start, end

    def bar(self, storage: int) -> TierBar:
        """Where the storage is from 0 to ``end_ns``."""
        schedule = self.profile.schedule
        at_home_in_pool = schedule.homes[storage] == "pool"
        stay_start, stay_end = self.stays(storage)
        size = schedule.graph.storages[storage].bytes
        out, inward = (_moves(self.flights(storage), outward, size) for outward in (True, False))
        # Bytes are reserved when the stay begins, which may be before the link is free for the transfer.
        begun = np.searchsorted(stay_end, inward[0], side="right")
        reserved = np.append(stay_start, self.end_ns)[begun]
        inward = (np.minimum(reserved, inward[0]), inward[1])
        absent_start = np.concatenate([[0], np.maximum.accumulate(stay_end)])
        absent_end = np.append(stay_start, self.end_ns)
        # Away from the device its value is in the pool if it comes back from there, or has its home there.
        in_pool = np.isin(np.arange(len(absent_end)), begun)
        in_pool[0] |= at_home_in_pool and schedule.graph.exists_at_start(storage)
        if len(stay_start):
            in_pool[-1] = at_home_in_pool and schedule.graph.lives_to_end(storage)
        pool = absent_start[in_pool], absent_end[in_pool]
        return _bar(storage, self.end_ns, ((stay_start, stay_end), out, pool, inward))


def placements(profile: Profile, end_ns: int, step: int = 0) -> Placements:
    """All stays and transfers of a step, in a form in which each storage's are found at once."""
    life, moved, schedule = profile.lifetimes, profile.transfers, profile.schedule
    stays = np.flatnonzero((life.step == step) & (life.end_ns > life.start_ns))
    stays = stays[np.lexsort((life.start_ns[stays], life.storage[stays]))]
    moves = np.flatnonzero(moved.step == step)
    moves = moves[np.lexsort((moved.start_ns[moves], moved.storage[moves]))]
    offset_of = {t.id: t.offset_bytes for t in schedule.transfers if t.partial}
    low = np.array([offset_of.get(t, 0) for t in moved.transfer[moves].tolist()], dtype=np.int64)
    return Placements(
        profile,
        step,
        end_ns,
        life.storage[stays],
        life.start_ns[stays],
        life.end_ns[stays],
        moved.storage[moves],
        moved.transfer[moves],
        moved.direction[moves] == 0,
        moved.start_ns[moves],
        moved.end_ns[moves],
        low,
        low + moved.bytes[moves],
    )


def _moves(flights: Flights, outward: bool, size_bytes: int) -> tuple[Column, Column]:
    """Starts and ends of whole moves in one direction; the parts of one move together bring all bytes once."""
    rows = flights.outward == outward
    start, end, moved = flights.start_ns[rows], flights.end_ns[rows], (flights.high - flights.low)[rows]
    number = (np.cumsum(moved) - moved) // size_bytes
    opens = np.flatnonzero(np.diff(number, prepend=-1))
    return start[opens], end[np.append(opens[1:], len(start)) - 1] if len(start) else end


def _bar(storage: int, end_ns: int, by_tier: Sequence[tuple[Column, Column]]) -> TierBar:
    """Spans of the step by tier; where several hold, a transfer counts before a stay, a stay before the pool."""
    edges = np.unique(np.concatenate([[0, end_ns], *(np.clip(c, 0, end_ns) for pair in by_tier for c in pair)]))
    left, right = edges[:-1], edges[1:]
    tier = np.full(len(left), _NOWHERE, dtype=np.int64)
    for number in (_POOL, _DEVICE, _OUT, _IN):
        start, end = by_tier[number]
        open_spans = np.searchsorted(np.sort(start), left, side="right")
        tier[open_spans > np.searchsorted(np.sort(end), left, side="right")] = number
    opens = np.flatnonzero(np.diff(tier, prepend=-2))
    closes = np.append(opens[1:], len(left)) - 1 if len(left) else opens
    kept = tier[opens] != _NOWHERE
    return TierBar(storage, tier[opens][kept], left[opens][kept], right[closes][kept])


def _rows(sorted_storage: Column, storage: int) -> slice:
    return slice(
        int(np.searchsorted(sorted_storage, storage, side="left")),
        int(np.searchsorted(sorted_storage, storage, side="right")),
    )
