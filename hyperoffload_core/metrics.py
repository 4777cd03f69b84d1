"""Numbers of a timeline: live bytes over time, exposed and blocking time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hyperoffload_core.schedule import Metrics, OpTime, Residency, Transfer

Column = NDArray[np.int64]


def live_curve(start_ns: ArrayLike, end_ns: ArrayLike, size_bytes: ArrayLike) -> tuple[Column, Column]:
    """``(times, live)``: from ``times[i]`` until ``times[i + 1]`` exactly ``live[i]`` bytes are held.

    Each row is a half-open interval that holds ``size_bytes`` bytes; intervals without length hold nothing.
    """
    start, end, size = (np.asarray(a, dtype=np.int64) for a in (start_ns, end_ns, size_bytes))
    times, position = np.unique(np.concatenate([start, end]), return_inverse=True)
    change = np.zeros(len(times), dtype=np.int64)
    np.add.at(change, position.ravel(), np.concatenate([size, -size]))
    return times, np.cumsum(change)


def peak_bytes(start_ns: ArrayLike, end_ns: ArrayLike, size_bytes: ArrayLike) -> int:
    """The highest value of `live_curve`; 0 without rows."""
    _, live = live_curve(start_ns, end_ns, size_bytes)
    return int(live.max(initial=0))


def union_ns(start_ns: ArrayLike, end_ns: ArrayLike) -> tuple[Column, Column]:
    """The union of half-open intervals as disjoint intervals in time order."""
    start, end = np.asarray(start_ns, dtype=np.int64), np.asarray(end_ns, dtype=np.int64)
    kept = end > start
    order = np.argsort(start[kept], kind="stable")
    start, reach = start[kept][order], np.maximum.accumulate(end[kept][order])
    if not len(start):
        return start, reach
    first = np.concatenate([[True], start[1:] > reach[:-1]])
    last = np.concatenate([first[1:], [True]])
    return start[first], reach[last]


def covered_ns(start_ns: ArrayLike, end_ns: ArrayLike, busy: tuple[Column, Column]) -> Column:
    """For each interval, how much of it lies in ``busy`` (disjoint intervals in time order, from `union_ns`)."""
    busy_start, busy_end = busy
    if not len(busy_start):
        return np.zeros(len(np.asarray(start_ns)), dtype=np.int64)
    before = np.concatenate([[0], np.cumsum(busy_end - busy_start)])

    def busy_until(time: Column) -> Column:
        interval = np.searchsorted(busy_start, time, side="right") - 1
        inside = np.minimum(time, busy_end[interval]) - busy_start[interval]
        return np.where(interval < 0, 0, before[interval] + inside)

    return busy_until(np.asarray(end_ns, dtype=np.int64)) - busy_until(np.asarray(start_ns, dtype=np.int64))


def exposed_ns(op_start: ArrayLike, op_end: ArrayLike, transfer_start: ArrayLike, transfer_end: ArrayLike) -> int:
    """Time during which some transfer runs and no op does."""
    start, end = union_ns(transfer_start, transfer_end)
    return int((end - start).sum() - covered_ns(start, end, union_ns(op_start, op_end)).sum())


def step_metrics(
    storage_bytes: Sequence[int],
    workspace_bytes: Sequence[int],
    op_times: Sequence[OpTime],
    transfers: Sequence[Transfer],
    residencies: Sequence[Residency],
    lower_bound_ns: int,
) -> Metrics:
    """Metrics of one step, from the parts of a schedule.

    ``storage_bytes`` is indexed by storage id, ``workspace_bytes`` by op id; workspaces are placed above the highest
    residency, so ``reserved_bytes`` includes the largest one.
    """
    op_start, op_end = [t.start_ns for t in op_times], [t.end_ns for t in op_times]
    start, end = [t.start_ns for t in transfers], [t.end_ns for t in transfers]
    step_ns, compute_ns = max([*op_end, *end], default=0), sum(op_end) - sum(op_start)
    return Metrics(
        step_ns=step_ns,
        compute_ns=compute_ns,
        peak_live_bytes=peak_bytes(
            [*(r.start_ns for r in residencies), *op_start],
            [*(r.end_ns for r in residencies), *op_end],
            [*(storage_bytes[r.storage] for r in residencies), *(workspace_bytes[t.op] for t in op_times)],
        ),
        reserved_bytes=max((r.offset + storage_bytes[r.storage] for r in residencies), default=0)
        + max(workspace_bytes, default=0),
        bytes_out=sum(t.bytes for t in transfers if t.kind == "store"),
        bytes_in=sum(t.bytes for t in transfers if t.kind == "prefetch"),
        exposed_ns=exposed_ns(op_start, op_end, start, end),
        blocking_ns=step_ns - compute_ns,
        lower_bound_ns=lower_bound_ns,
    )
