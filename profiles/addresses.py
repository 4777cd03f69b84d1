"""The device's address space over one step: which storage is where, what is free, how it is broken up."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hyperoffload_core.recording import Profile

Column = NDArray[np.int64]


@dataclass(frozen=True)
class Addresses:
    """Stays of one step by start time, a rectangle each: ``[start_ns, end_ns)`` at ``[low, high)`` bytes.

    ``height_bytes`` is the highest address that any of them takes.
    """

    storage: Column
    start_ns: Column
    end_ns: Column
    low: Column
    high: Column

    @property
    def height_bytes(self) -> int:
        return int(self.high.max(initial=0))

    def at(self, time_ns: int) -> Addresses:
        """The stays that hold their place at a time, lowest address first."""
        rows = np.flatnonzero((self.start_ns <= time_ns) & (self.end_ns > time_ns))
        return self.rows(rows[np.argsort(self.low[rows], kind="stable")])

    def rows(self, rows: NDArray[np.int64] | NDArray[np.bool_]) -> Addresses:
        return Addresses(self.storage[rows], self.start_ns[rows], self.end_ns[rows], self.low[rows], self.high[rows])


@dataclass(frozen=True)
class Window:
    """A part of the map, half-open: ns and bytes."""

    start_ns: int
    end_ns: int
    low: int
    high: int


@dataclass(frozen=True)
class Fragmentation:
    """The address space at one time. ``holes`` are the free stretches below ``reserved_bytes``; ``workspace_bytes`` of
    running ops have no address and count neither as live nor as free here."""

    time_ns: int
    live_bytes: int
    workspace_bytes: int
    reserved_bytes: int
    holes: int
    largest_hole_bytes: int
    largest_hole_at: int

    @property
    def free_bytes(self) -> int:
        return self.reserved_bytes - self.live_bytes


def addresses(profile: Profile, step: int = 0) -> Addresses:
    """The stays of a step that take time and place, and whose place is known."""
    life = profile.lifetimes
    rows = np.flatnonzero((life.step == step) & (life.end_ns > life.start_ns) & (life.bytes > 0) & (life.offset >= 0))
    rows = rows[np.argsort(life.start_ns[rows], kind="stable")]
    low = life.offset[rows]
    return Addresses(life.storage[rows], life.start_ns[rows], life.end_ns[rows], low, low + life.bytes[rows])


def inside(found: Addresses, window: Window) -> Addresses:
    """The stays that touch the window."""
    return found.rows(
        (found.start_ns < window.end_ns)
        & (found.end_ns > window.start_ns)
        & (found.low < window.high)
        & (found.high > window.low)
    )


def occupied(found: Addresses, window: Window, columns: int, rows: int) -> NDArray[np.float64]:
    """Part of each cell of the window, cut into ``rows`` stretches of addresses and ``columns`` of time, that stays
    take: shape (rows, columns), 0 to 1. Areas are added up as integers (as floats where they would not fit): exact,
    and a cell that any stay touches is above 0.

    A stay takes, along either axis, whole slices but for a cut at its first and its last one. So its area is a sum of
    products of such: whole by whole as corners that are summed up afterwards, the cuts one by one.
    """
    found = inside(found, window)
    across = _slices(found.start_ns, found.end_ns, _edges(window.start_ns, window.end_ns, columns))
    along = _slices(found.low, found.high, _edges(window.low, window.high, rows))
    whole = along.width.astype(np.float64)[:, None] * across.width.astype(np.float64)[None, :]
    kind = np.int64 if whole.max(initial=0.0) < 2.0**62 else np.float64
    both, by_time, by_place, single = (np.zeros((rows + 1, columns + 1), dtype=kind) for _ in range(4))
    for place, up in ((along.first, 1), (along.last + 1, -1)):
        for time, sign in ((across.first, 1), (across.last + 1, -1)):
            np.add.at(both, (place, time), up * sign)
        for time, cut in across.cuts:
            np.add.at(by_place, (place, time), -up * cut)
    for place, cut in along.cuts:
        for time, sign in ((across.first, 1), (across.last + 1, -1)):
            np.add.at(by_time, (place, time), -sign * cut)
        for time, other in across.cuts:
            np.add.at(single, (place, time), cut.astype(kind) * other)
    tall, wide = along.width.astype(kind)[:, None], across.width.astype(kind)[None, :]
    area = both.cumsum(axis=0).cumsum(axis=1)[:-1, :-1] * tall * wide
    area += by_time.cumsum(axis=1)[:-1, :-1] * wide + by_place.cumsum(axis=0)[:-1, :-1] * tall + single[:-1, :-1]
    return np.divide(area, whole, out=np.zeros(whole.shape), where=whole > 0)


def fragmentation(
    profile: Profile, found: Addresses, reserved_bytes: int, time_ns: int, step: int = 0
) -> Fragmentation:
    """What is free at a time in an address space of ``reserved_bytes``, and how large its holes are."""
    now = found.at(time_ns)
    reserved = max(reserved_bytes, int(now.high.max(initial=0)))
    reach = np.maximum.accumulate(np.concatenate([[0], now.high]))
    hole = np.concatenate([now.low, [reserved]]) - reach
    largest = int(hole.argmax())
    ops = profile.ops
    running = (ops.step == step) & (ops.start_ns <= time_ns) & (ops.end_ns > time_ns)
    workspace = sum(profile.schedule.graph.ops[op].workspace_bytes for op in ops.op[running].tolist())
    return Fragmentation(
        time_ns=time_ns,
        live_bytes=int((now.high - now.low).sum()),
        workspace_bytes=workspace,
        reserved_bytes=reserved,
        holes=int((hole > 0).sum()),
        largest_hole_bytes=max(0, int(hole[largest])),
        largest_hole_at=int(reach[largest]),
    )


def _edges(low: int, high: int, count: int) -> Column:
    """``count + 1`` integers from ``low`` to ``high``, as evenly as integers allow."""
    whole, rest = divmod(high - low, count)
    steps = np.arange(count + 1, dtype=np.int64)
    return low + steps * whole + steps * rest // count


@dataclass(frozen=True)
class _Slices:
    """Which slices each interval touches, the ``first`` and the ``last``, and what it leaves of those two (``cuts``:
    slice and size); ``width`` of every slice."""

    first: Column
    last: Column
    cuts: tuple[tuple[Column, Column], tuple[Column, Column]]
    width: Column


def _slices(low: Column, high: Column, edges: Column) -> _Slices:
    """Intervals that touch ``[edges[0], edges[-1])``."""
    low, high = np.maximum(low, edges[0]), np.minimum(high, edges[-1])
    first = np.searchsorted(edges, low, side="right") - 1
    last = np.searchsorted(edges, high, side="left") - 1
    return _Slices(first, last, ((first, low - edges[first]), (last, edges[last + 1] - high)), np.diff(edges))
