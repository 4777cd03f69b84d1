"""What a profile looks like over time, as arrays: memory by class, busy time of lanes, overlap. No drawing here."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from hyperoffload_core.ir import TENSOR_CLASSES
from hyperoffload_core.metrics import covered_ns, union_ns
from hyperoffload_core.recording import Profile

Column = NDArray[np.int64]


@dataclass(frozen=True)
class MemoryCurve:
    """Exact device bytes as a step function: from ``times_ns[i]`` until ``times_ns[i + 1]`` class ``k`` holds
    ``bytes[k, i]``. The last point is the end of the curve. ``bytes`` is int64 of shape (classes, points)."""

    times_ns: Column
    classes: tuple[str, ...]
    bytes: Column

    @property
    def total(self) -> Column:
        return np.asarray(self.bytes.sum(axis=0))

    @property
    def peak(self) -> tuple[int, int]:
        """``(time_ns, bytes)`` of the first moment at which most is held; (0, 0) for an empty curve."""
        total = self.total
        if not len(total):
            return 0, 0
        at = int(total.argmax())
        return int(self.times_ns[at]), int(total[at])


@dataclass(frozen=True)
class Overlap:
    """Interval unions of one direction or both; ``fraction`` is hidden / transfer, None without transfers."""

    transfer_ns: int
    hidden_ns: int

    @property
    def exposed_ns(self) -> int:
        return self.transfer_ns - self.hidden_ns

    @property
    def fraction(self) -> float | None:
        return self.hidden_ns / self.transfer_ns if self.transfer_ns else None


def memory_curve(profile: Profile, step: int = 0) -> MemoryCurve:
    """The step's device memory by tensor class, workspaces of running ops included; classes nobody uses are left out.

    Intervals are half-open: bytes given back at a time are not held at that time.
    """
    graph, stays, ops = profile.schedule.graph, profile.lifetimes, profile.ops
    rows, runs = stays.step == step, ops.step == step
    class_of_storage = np.array([TENSOR_CLASSES.index(s.tensor_class) for s in graph.storages], dtype=np.int64)
    workspace = np.array([o.workspace_bytes for o in graph.ops], dtype=np.int64)[ops.op[runs]]
    start = np.concatenate([stays.start_ns[rows], ops.start_ns[runs]])
    end = np.concatenate([stays.end_ns[rows], ops.end_ns[runs]])
    size = np.concatenate([stays.bytes[rows], workspace])
    own = np.full(int(runs.sum()), TENSOR_CLASSES.index("workspace"), dtype=np.int64)
    tensor_class = np.concatenate([class_of_storage[stays.storage[rows]], own])
    held = (end > start) & (size > 0)
    start, end, size, tensor_class = start[held], end[held], size[held], tensor_class[held]
    present, row = np.unique(tensor_class, return_inverse=True)
    if not len(present):
        return MemoryCurve(np.zeros(0, dtype=np.int64), (), np.zeros((0, 0), dtype=np.int64))
    times, position = np.unique(np.concatenate([start, end]), return_inverse=True)
    change = np.zeros((len(present), len(times)), dtype=np.int64)
    np.add.at(change, (np.tile(row.ravel(), 2), position.ravel()), np.concatenate([size, -size]))
    return MemoryCurve(times, tuple(TENSOR_CLASSES[c] for c in present), np.cumsum(change, axis=1))


def window(curve: MemoryCurve, start_ns: int, end_ns: int) -> MemoryCurve:
    """The part in ``[start_ns, end_ns]``; it begins at ``start_ns`` with what is held there and ends at ``end_ns``."""
    if not len(curve.times_ns) or end_ns <= start_ns:
        return replace(curve, times_ns=curve.times_ns[:0], bytes=curve.bytes[:, :0])
    inside = (curve.times_ns > start_ns) & (curve.times_ns < end_ns)
    points = np.concatenate(
        [_at(curve, start_ns)[:, None], curve.bytes[:, inside], _at(curve, end_ns)[:, None]], axis=1
    )
    times = np.concatenate([[start_ns], curve.times_ns[inside], [end_ns]])
    return MemoryCurve(times.astype(np.int64), curve.classes, points)


def downsample(curve: MemoryCurve, bins: int) -> MemoryCurve:
    """At most ``2 * bins + 2`` points: per bin of equal width those where the total is smallest and largest.

    The peak stays exact, and the classes still add up because every kept point is one of the curve's own.
    """
    count = len(curve.times_ns)
    if count <= 2 * bins + 2:
        return curve
    total = curve.total
    first, last = int(curve.times_ns[0]), int(curve.times_ns[-1])
    bin_of = np.minimum((curve.times_ns - first) * bins // max(last - first, 1), bins - 1)
    opens = np.flatnonzero(np.concatenate([[True], bin_of[1:] != bin_of[:-1]]))
    length = np.diff(np.append(opens, count))
    kept = [np.array([0, count - 1])]
    for extreme in (np.minimum.reduceat(total, opens), np.maximum.reduceat(total, opens)):
        hits = np.flatnonzero(total == np.repeat(extreme, length))
        kept.append(hits[np.concatenate([[True], bin_of[hits][1:] != bin_of[hits][:-1]])])
    index = np.unique(np.concatenate(kept))
    return MemoryCurve(curve.times_ns[index], curve.classes, curve.bytes[:, index])


def busy_fraction(
    start_ns: Column, end_ns: Column, window_start_ns: int, window_end_ns: int, bins: int
) -> NDArray[np.float64]:
    """Part of each of ``bins`` equal slices of the window that the intervals cover, 0 to 1; exact, by prefix sums."""
    edges = window_start_ns + (window_end_ns - window_start_ns) * np.arange(bins + 1, dtype=np.int64) // bins
    covered = covered_ns(edges[:-1], edges[1:], union_ns(start_ns, end_ns))
    return covered / np.maximum(np.diff(edges), 1)


def overlap(profile: Profile, step: int = 0, direction: int | None = None) -> Overlap:
    """How much of the step's transfers (0 out, 1 in, None both) lies beside compute."""
    ops, moves = profile.ops, profile.transfers
    runs, rows = ops.step == step, moves.step == step
    if direction is not None:
        rows = rows & (moves.direction == direction)
    start, end = union_ns(moves.start_ns[rows], moves.end_ns[rows])
    hidden = covered_ns(start, end, union_ns(ops.start_ns[runs], ops.end_ns[runs]))
    return Overlap(int((end - start).sum()), int(hidden.sum()))


def _at(curve: MemoryCurve, time_ns: int) -> Column:
    """Bytes of each class held at a time; nothing is held before the curve begins or after it ends."""
    position = int(np.searchsorted(curve.times_ns, time_ns, side="right")) - 1
    return curve.bytes[:, position] if position >= 0 else np.zeros(len(curve.classes), dtype=np.int64)
