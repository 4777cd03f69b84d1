"""Numbers of a timeline: live bytes over time, exposed and blocking time, and a verdict on each transfer."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hyperoffload_core.ir import storages_of
from hyperoffload_core.recording import Profile
from hyperoffload_core.schedule import Metrics, OpTime, Residency, Schedule, Transfer

Column = NDArray[np.int64]
Cause = Literal["dependency", "memory", "link", "order"]
_CAUSES: tuple[Cause, ...] = ("dependency", "memory", "link", "order")


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


@dataclass(frozen=True, slots=True)
class TransferVerdict:
    """What one transfer cost.

    ``hidden_ns + exposed_ns`` is its duration; ``blocking_ns`` the time for which an op, or the end of the step, stood
    waiting for it, or for what it held up; ``slack_ns`` how much later it could have ended without delaying an op or
    the end of the step;
    ``cause`` what decided its start: a *dependency* on its own storage, *memory* that had to become free, its *link*
    being busy, or the chosen *order* (an edge for placement only, or nothing at all).
    """

    transfer: int
    hidden_ns: int
    exposed_ns: int
    blocking_ns: int
    slack_ns: int
    cause: Cause


def transfer_verdicts(source: Schedule | Profile, step: int = 0) -> list[TransferVerdict]:
    """A verdict on each transfer in the schedule's order, from planned times or from one step of a profile."""
    schedule = source if isinstance(source, Schedule) else source.schedule
    ops, transfers = _times(source, step)
    step_end = max((end for _, end in [*ops.values(), *transfers.values()]), default=0)
    busy = union_ns([s for s, _ in ops.values()], [e for _, e in ops.values()])
    start = [transfers[t.id][0] for t in schedule.transfers]
    end = [transfers[t.id][1] for t in schedule.transfers]
    hidden = covered_ns(start, end, busy).tolist()
    blocking = _blocking(schedule, ops, transfers, step_end)
    latest = _latest_ends(schedule, ops, transfers, step_end)
    causes = _causes(schedule, ops, transfers)
    return [
        TransferVerdict(
            transfer=t.id,
            hidden_ns=hidden[row],
            exposed_ns=end[row] - start[row] - hidden[row],
            blocking_ns=blocking[t.id],
            slack_ns=max(0, latest[t.id] - end[row]),
            cause=causes[t.id],
        )
        for row, t in enumerate(schedule.transfers)
    ]


_Intervals = dict[int, tuple[int, int]]


def _times(source: Schedule | Profile, step: int) -> tuple[_Intervals, _Intervals]:
    """Start and end of each op and each transfer by id."""
    if isinstance(source, Schedule):
        return (
            {t.op: (t.start_ns, t.end_ns) for t in source.op_times},
            {t.id: (t.start_ns, t.end_ns) for t in source.transfers},
        )
    rows, moves = source.ops.step == step, source.transfers.step == step
    ops = zip(*(c[rows].tolist() for c in (source.ops.op, source.ops.start_ns, source.ops.end_ns)), strict=True)
    columns = (source.transfers.transfer, source.transfers.start_ns, source.transfers.end_ns)
    transfers = zip(*(c[moves].tolist() for c in columns), strict=True)
    return {o: (s, e) for o, s, e in ops}, {t: (s, e) for t, s, e in transfers}


def _blocking(schedule: Schedule, ops: _Intervals, transfers: _Intervals, step_end: int) -> dict[int, int]:
    """Waiting time of ops and of the step's end, given to the chain of transfers that was waited for.

    The transfer waited for last gets the time back to the end of the transfer that held it up, that one the time
    before, and so on until the wait began.
    """
    moves = {t.id: t for t in schedule.transfers}
    link_before = {b.id: a.id for link in schedule.link_transfers() for a, b in pairwise(link)}
    result = dict.fromkeys(transfers, 0)

    def give(last: int, began: int, ended: int) -> None:
        while ended > began:
            before = [*moves[last].after_transfers, *([link_before[last]] if last in link_before else [])]
            holding = max(before, key=lambda t: transfers[t][1], default=None)
            since = began if holding is None else min(ended, max(began, transfers[holding][1]))
            result[last] += ended - since
            if holding is None:
                return
            last, ended = holding, since

    waits = {t.op: t.waits for t in schedule.op_times}
    free = 0
    for op in schedule.order:
        start, end = ops[op]
        if waits[op] and start > free:
            last = max(waits[op], key=lambda t: transfers[t][1])
            give(last, free, min(start, transfers[last][1]))
        free = end
    if transfers and step_end > free:
        last = max(transfers, key=lambda t: transfers[t][1])
        give(last, free, transfers[last][1])
    return result


def _latest_ends(schedule: Schedule, ops: _Intervals, transfers: _Intervals, step_end: int) -> dict[int, int]:
    """Backward over transfers: the latest end that delays no op and not the step's end."""
    latest = dict.fromkeys(transfers, step_end)
    for op in schedule.op_times:
        for wait in op.waits:
            latest[wait] = min(latest[wait], ops[op.op][0])
    before = {later.id: earlier.id for link in schedule.link_transfers() for earlier, later in pairwise(link)}
    for t in sorted(schedule.transfers, key=lambda t: transfers[t.id][0], reverse=True):
        start, end = transfers[t.id]
        latest_start = latest[t.id] - (end - start)
        for earlier in (*t.after_transfers, *([before[t.id]] if t.id in before else [])):
            latest[earlier] = min(latest[earlier], latest_start)
    return latest


def _causes(schedule: Schedule, ops: _Intervals, transfers: _Intervals) -> dict[int, Cause]:
    """Which of the events that a transfer waited for ended last."""
    graph, moves = schedule.graph, {t.id: t for t in schedule.transfers}
    link_before = {b.id: a.id for link in schedule.link_transfers() for a, b in pairwise(link)}
    stays: dict[int, list[Residency]] = {}
    for r in schedule.residencies:
        stays.setdefault(r.storage, []).append(r)
    for rows in stays.values():
        rows.sort(key=lambda r: r.start_ns)

    def frees_memory(storages: Sequence[int], t: Transfer) -> bool:
        """Whether one of the storages had been where the transfer's storage goes."""
        own = stays.get(t.storage, [])
        place = own[bisect_right(own, t.start_ns, key=lambda r: r.start_ns) - 1] if own else None
        if place is None:
            return False
        top = place.offset + graph.storages[t.storage].bytes
        return any(
            r.end_ns <= t.start_ns and r.offset < top and place.offset < r.offset + graph.storages[s].bytes
            for s in storages
            for r in stays.get(s, [])
        )

    result: dict[int, Cause] = {}
    for t in schedule.transfers:
        found: list[tuple[int, Cause]] = []
        for op in t.after_ops:
            touched = tuple(storages_of(graph.ops[op]))
            memory = t.kind == "prefetch" and frees_memory(touched, t)
            found.append((ops[op][1], "dependency" if t.storage in touched else "memory" if memory else "order"))
        for other in t.after_transfers:
            storage = moves[other].storage
            memory = t.kind == "prefetch" and frees_memory([storage], t)
            found.append(
                (transfers[other][1], "dependency" if storage == t.storage else "memory" if memory else "order")
            )
        if t.id in link_before:
            found.append((transfers[link_before[t.id]][1], "link"))
        last = max((end for end, _ in found), default=0)
        result[t.id] = min((c for end, c in found if end == last), key=_CAUSES.index, default="order")
    return result
