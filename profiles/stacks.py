"""Device memory over time, split into groups that add up to it; and what is needed and reserved beside it.

A step of a million events is kept as sorted times with running sums, so that any window of it can be thinned to a few
points in milliseconds, with the exact peak among them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from hyperoffload_core.ir import PHASES, Graph
from hyperoffload_core.recording import Profile
from profiles.alive import layer_of, storage_layers
from profiles.lanes import of_step

Column = NDArray[np.int64]
Grouping = Literal["class", "layer", "phase", "tier"]
GROUPINGS: tuple[Grouping, ...] = get_args(Grouping)

# From the floor up: what stays the whole step first, so that the upper edge shows what moves.
CLASS_ORDER = (
    "weight",
    "optimizer_state",
    "constant",
    "kv_cache",
    "input",
    "gradient",
    "activation",
    "output",
    "workspace",
)
TIERS = ("device", "leaving", "arriving")
UNUSED = "not accessed"
NO_LAYER = "no layer"
MOST_LAYERS = 12
# Points whose smallest and largest total are known beforehand.
BLOCK = 64


@dataclass(frozen=True)
class Steps:
    """A step function: from ``times_ns[i]`` until ``times_ns[i + 1]`` it is ``bytes[i]``; 0 before it begins. The last
    value is 0. int64 columns, times ascending."""

    times_ns: Column
    bytes: Column

    @property
    def peak(self) -> tuple[int, int]:
        """``(time_ns, bytes)`` of the first moment at which it is highest; (0, 0) when it is empty."""
        if not len(self.times_ns):
            return 0, 0
        at = int(self.bytes.argmax())
        return int(self.times_ns[at]), int(self.bytes[at])

    def at(self, times_ns: Column) -> Column:
        """Its value at each time."""
        if not len(self.times_ns):
            return np.zeros(len(times_ns), dtype=np.int64)
        row = np.searchsorted(self.times_ns, times_ns, side="right") - 1
        return np.asarray(np.where(row < 0, 0, self.bytes[row]))

    def kept(self, start_ns: int, end_ns: int, bins: int) -> Column:
        """Times that show a window with ``2 * bins + 2`` points at most: both ends of it, and all that lies between
        them or, of each of ``bins`` equal slices, the first smallest and the first largest value. Of very long windows
        the extremes of every 64 points are what the slices choose from; those of the window are always among them."""
        if end_ns <= start_ns or not len(self.times_ns):
            return np.zeros(0, dtype=np.int64)
        first = int(np.searchsorted(self.times_ns, start_ns, side="right"))
        last = int(np.searchsorted(self.times_ns, end_ns, side="left"))
        rows = self._candidates(first, last, bins)
        times = self.times_ns[rows]
        if len(times) > 2 * bins:
            edges = start_ns + (end_ns - start_ns) * np.arange(1, bins, dtype=np.int64) // bins
            times = times[_extremes(self.bytes[rows], np.searchsorted(times, edges, side="left"))]
        return np.concatenate([[start_ns], times, [end_ns]]).astype(np.int64)

    def _candidates(self, first: int, last: int, bins: int) -> Column | slice:
        """Rows from ``first`` to ``last`` among which the extremes of the slices are: all, or of long blocks of rows
        the smallest and the largest."""
        low, high = -(-first // BLOCK), last // BLOCK
        if high - low < 2 * bins:
            return slice(first, last)
        inner = self._blocks[low:high].ravel()
        return np.concatenate([np.arange(first, low * BLOCK), inner, np.arange(high * BLOCK, last)])

    @cached_property
    def _blocks(self) -> Column:
        """Rows of the first smallest and the first largest value of each whole block, ascending; (blocks, 2)."""
        whole = len(self.bytes) // BLOCK
        values = self.bytes[: whole * BLOCK].reshape(whole, BLOCK)
        extremes = np.stack([values.argmin(axis=1), values.argmax(axis=1)], axis=1)
        return np.sort(extremes, axis=1) + BLOCK * np.arange(whole)[:, None]


@dataclass(frozen=True)
class Stack:
    """``parts[k]`` are the bytes of ``groups[k]``; at any time they add up to ``total``."""

    groups: tuple[str, ...]
    total: Steps
    parts: tuple[Steps, ...]

    @property
    def peak(self) -> tuple[int, int]:
        """``(time_ns, bytes)`` of the first moment at which most is held."""
        return self.total.peak

    def at(self, times_ns: Column) -> Column:
        """Bytes of each group at each time, of shape (groups, times)."""
        rows = [part.at(times_ns) for part in self.parts]
        return np.array(rows, dtype=np.int64).reshape(len(rows), len(times_ns))


def memory_stack(profile: Profile, by: Grouping, step: int | None = 0) -> Stack:
    """The step's device memory, workspaces of running ops included, split by tensor class, by layer or phase (of the
    first op that accesses a storage), or by tier: on the device, leaving by a Store, arriving by a Prefetch.

    Intervals are half-open. Groups that hold nothing are left out; of more than 12 layers those that hold least over
    the step are one group.
    """
    held = _Held.of(profile, step)
    if by == "tier":
        return _stacked(TIERS, *_tiers(profile, step, held))
    graph = profile.schedule.graph
    names, of_storage, of_op = _group_of(graph, by)
    group = np.where(held.op < 0, of_storage[held.storage], of_op[held.op])
    if by == "layer":
        names, group = _fewer(names, group, held)
    return _stacked(names, held.start_ns, held.end_ns, held.bytes, group)


def needed(profile: Profile, step: int | None = 0) -> Steps:
    """The theoretical memory: every stay counts from the start of the first to the end of the last op in it that
    accesses the storage, and workspaces while their op runs. At no time more than is live."""
    held = _Held.of(profile, step)
    ops = profile.ops
    runs = np.flatnonzero(of_step(ops.step, step))
    begin, until = held.start_ns.copy(), held.end_ns.copy()
    stays = np.flatnonzero(held.op < 0)
    op, storage, _ = profile.schedule.graph.access_columns
    # Accesses as events: every access of every op that ran, by storage and start.
    by_op = np.argsort(op, kind="stable")
    first_of = np.searchsorted(op[by_op], np.arange(len(profile.schedule.graph.ops) + 1))
    count = (first_of[1:] - first_of[:-1])[ops.op[runs]]
    row = np.repeat(runs, count)
    within = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)
    accessed = storage[by_op[first_of[ops.op[row]] + within]]
    moments = np.unique(np.concatenate([ops.start_ns[runs], held.start_ns[stays], held.end_ns[stays]]))

    def key(of: Column, time_ns: Column) -> Column:
        return of * (len(moments) + 1) + np.searchsorted(moments, time_ns)

    events = key(accessed, ops.start_ns[row])
    order = np.argsort(events, kind="stable")
    events, ends = events[order], ops.end_ns[row][order]
    first = np.searchsorted(events, key(held.storage[stays], held.start_ns[stays]), side="left")
    last = np.searchsorted(events, key(held.storage[stays], held.end_ns[stays]), side="left")
    used = last > first
    starts = ops.start_ns[row][order]
    begin[stays[used]] = starts[first[used]]
    until[stays[used]] = np.minimum(ends[last[used] - 1], held.end_ns[stays[used]])
    until[stays[~used]] = begin[stays[~used]]
    return _steps(begin, until, held.bytes)


def reserved(profile: Profile, step: int | None = 0) -> Steps:
    """The address space in use: up to the highest byte of a storage on the device, and at no time less than is live (a
    profile does not say where a running op's workspace lies)."""
    live = _Held.of(profile, step)
    total = _steps(live.start_ns, live.end_ns, live.bytes)
    stays = profile.lifetimes
    rows = of_step(stays.step, step) & (stays.end_ns > stays.start_ns) & (stays.bytes > 0)
    first = np.searchsorted(total.times_ns, stays.start_ns[rows])
    last = np.searchsorted(total.times_ns, stays.end_ns[rows])
    top = _highest(len(total.times_ns), first, last, (stays.offset + stays.bytes)[rows])
    return Steps(total.times_ns, np.maximum(top, total.bytes))


@dataclass(frozen=True)
class _Held:
    """Rows of what holds device memory: stays of storages (``op`` -1) and workspaces of running ops (``storage`` -1),
    without empty ones."""

    storage: Column
    op: Column
    start_ns: Column
    end_ns: Column
    bytes: Column

    @classmethod
    def of(cls, profile: Profile, step: int | None) -> _Held:
        stays, ops = profile.lifetimes, profile.ops
        workspace = np.array([op.workspace_bytes for op in profile.schedule.graph.ops], dtype=np.int64)
        rows = of_step(stays.step, step) & (stays.end_ns > stays.start_ns) & (stays.bytes > 0)
        runs = np.flatnonzero(of_step(ops.step, step) & (ops.end_ns > ops.start_ns))
        runs = runs[workspace[ops.op[runs]] > 0]
        none = np.full(len(runs), -1, dtype=np.int64)
        return cls(
            np.concatenate([stays.storage[rows], none]),
            np.concatenate([np.full(int(rows.sum()), -1, dtype=np.int64), ops.op[runs]]),
            np.concatenate([stays.start_ns[rows], ops.start_ns[runs]]),
            np.concatenate([stays.end_ns[rows], ops.end_ns[runs]]),
            np.concatenate([stays.bytes[rows], workspace[ops.op[runs]]]),
        )


def _group_of(graph: Graph, by: Grouping) -> tuple[tuple[str, ...], Column, Column]:
    """Names of the groups from the floor up, and the group of each storage and of each op's workspace."""
    if by == "class":
        storages: Sequence[str] = [s.tensor_class for s in graph.storages]
        ops: Sequence[str] = ["workspace"] * len(graph.ops)
        names: tuple[str, ...] = CLASS_ORDER
    elif by == "phase":
        storages = [graph.ops[a[0].op].phase if a else UNUSED for a in graph.accesses]
        ops, names = [op.phase for op in graph.ops], (*PHASES, UNUSED)
    else:
        storages = [layer or NO_LAYER for layer in storage_layers(graph)]
        ops = [layer_of(op.scope) or NO_LAYER for op in graph.ops]
        names = tuple(dict.fromkeys([*ops, *storages]))
    place = {name: number for number, name in enumerate(names)}
    of_storage = np.array([place[name] for name in storages], dtype=np.int64)
    return names, of_storage, np.array([place[name] for name in ops], dtype=np.int64)


def _fewer(names: tuple[str, ...], group: Column, held: _Held) -> tuple[tuple[str, ...], Column]:
    """Of too many groups the smaller ones together, at the end."""
    weight = np.bincount(group, (held.end_ns - held.start_ns) * held.bytes.astype(np.float64), len(names))
    present = np.flatnonzero(weight > 0)
    if len(present) <= MOST_LAYERS:
        return names, group
    kept = np.sort(present[np.argsort(-weight[present], kind="stable")][: MOST_LAYERS - 1])
    to = np.full(len(names), len(kept), dtype=np.int64)
    to[kept] = np.arange(len(kept))
    rest = f"{len(present) - len(kept)} other layers"
    return (*(names[k] for k in kept), rest), to[group]


def _tiers(profile: Profile, step: int | None, held: _Held) -> tuple[Column, Column, Column, Column]:
    """Rows of start, end, bytes (negative where bytes in flight are taken from the device's) and tier."""
    moves = profile.transfers
    rows = of_step(moves.step, step)
    stays = np.flatnonzero(held.op < 0)
    order = stays[np.lexsort((held.start_ns[stays], held.storage[stays]))]
    moments = np.unique(np.concatenate([held.start_ns[stays], moves.end_ns[rows]]))

    def key(storage: Column, time_ns: Column) -> Column:
        return storage * (len(moments) + 1) + np.searchsorted(moments, time_ns)

    # The last stay that began before the transfer ended: a Store ends its stay, a Prefetch lies at its beginning.
    place = np.searchsorted(
        key(held.storage[order], held.start_ns[order]), key(moves.storage[rows], moves.end_ns[rows]), side="left"
    )
    if not len(order):
        return held.start_ns, held.end_ns, held.bytes, np.zeros_like(held.bytes)
    stay = order[np.maximum(place, 1) - 1]
    start = np.maximum(moves.start_ns[rows], held.start_ns[stay])
    end = np.minimum(moves.end_ns[rows], held.end_ns[stay])
    seen = (held.storage[stay] == moves.storage[rows]) & (end > start)
    start, end, tier = start[seen], end[seen], 1 + moves.direction[rows][seen]
    size = np.minimum(moves.bytes[rows], held.bytes[stay])[seen]
    flat = np.zeros_like
    return (
        np.concatenate([held.start_ns, start, start]),
        np.concatenate([held.end_ns, end, end]),
        np.concatenate([held.bytes, -size, size]),
        np.concatenate([flat(held.bytes), flat(size), tier]),
    )


def _stacked(names: Sequence[str], start_ns: Column, end_ns: Column, size: Column, group: Column) -> Stack:
    times, order = _by_time(start_ns, end_ns)
    change, group_of = np.concatenate([size, -size])[order], np.concatenate([group, group])[order].astype(np.int16)
    present = np.flatnonzero(np.bincount(group, minlength=len(names))).tolist()
    total = _summed(times, change)
    # Of one group the part is the whole.
    own = [group_of == g for g in present] if len(present) > 1 else []
    parts = tuple(_summed(times[rows], change[rows]) for rows in own) or (total,) * len(present)
    return Stack(tuple(names[g] for g in present), total, parts)


def _steps(start_ns: Column, end_ns: Column, size: Column) -> Steps:
    times, order = _by_time(start_ns, end_ns)
    return _summed(times, np.concatenate([size, -size])[order])


def _by_time(start_ns: Column, end_ns: Column) -> tuple[Column, Column]:
    """All starts and ends in time order, and the rows of ``[starts, ends]`` they come from."""
    times = np.concatenate([start_ns, end_ns])
    order = np.argsort(times, kind="stable")
    return times[order], order


def _summed(times_ns: Column, change: Column) -> Steps:
    """Running sums of changes in time order; what changes at one time is one point."""
    last = np.append(times_ns[1:] != times_ns[:-1], True)[: len(times_ns)]
    return Steps(times_ns[last], np.cumsum(change)[last])


def _extremes(values: Column, cuts: Column) -> Column:
    """Ascending positions of the first smallest and the first largest value of each stretch between the cuts."""
    opens = np.unique(np.concatenate([[0], cuts[cuts < len(values)]]))
    length = np.diff(np.append(opens, len(values)))
    stretch = np.repeat(np.arange(len(opens)), length)
    found = []
    for extreme in (np.minimum.reduceat(values, opens), np.maximum.reduceat(values, opens)):
        hits = np.flatnonzero(values == extreme[stretch])
        at = stretch[hits]
        found.append(hits[np.concatenate([[True], at[1:] != at[:-1]])])
    return np.unique(np.concatenate(found))


def _highest(count: int, first: Column, last: Column, value: Column) -> Column:
    """For each of ``count`` places the largest value of the rows with ``first <= place < last``, else 0.

    Each range is the union of two ranges whose length is a power of two; the largest are handed down by halves.
    """
    result = np.zeros(count, dtype=np.int64)
    seen = last > first
    first, last, value = first[seen], last[seen], value[seen]
    level = np.frexp(last - first)[1] - 1
    for power in range(int(level.max(initial=-1)), -1, -1):
        width = 1 << power
        if width < count:
            half = result.copy()
            np.maximum(result[width:], half[:-width], out=result[width:])
        rows = level == power
        np.maximum.at(result, first[rows], value[rows])
        np.maximum.at(result, last[rows] - width, value[rows])
    return result
