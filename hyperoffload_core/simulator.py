"""When every op and transfer of a schedule runs, given how long each takes.

Execution is driven by order and events, never by the clock, so the times follow from the order of ops, the order of
transfers on each link, the waits, and the durations alone. Stays on the device follow from the same events.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hyperoffload_core.ir import storages_of
from hyperoffload_core.metrics import exposed_ns, peak_bytes
from hyperoffload_core.recording import OpEvents, Profile, StepNumbers, StorageLifetimes, TransferEvents
from hyperoffload_core.schedule import Schedule

Times = NDArray[np.int64]
_Event = tuple[str, int]  # ("op" or "transfer", id)


class DeadlockError(ValueError):
    """Ops and transfers that wait for each other in a circle; ``op`` and ``transfer`` are the first ones in it."""

    def __init__(self, message: str, op: int | None, transfer: int | None) -> None:
        super().__init__(message)
        self.op = op
        self.transfer = transfer


@dataclass(frozen=True, slots=True)
class EventTimes:
    """Start and end in ns, int64, indexed by op id and by transfer id; -1 for an op that is not in the order."""

    op_start: Times
    op_end: Times
    transfer_start: Times
    transfer_end: Times


def event_times(
    order: Sequence[int],
    op_waits: Sequence[Sequence[int]],
    links: Sequence[Sequence[int]],
    after_ops: Sequence[Sequence[int]],
    after_transfers: Sequence[Sequence[int]],
    op_ns: Sequence[int] | Times,
    transfer_ns: Sequence[int] | Times,
) -> EventTimes:
    """Earliest times that respect order and events.

    An op starts when its predecessor in ``order`` and the transfers ``op_waits[op]`` have ended. A transfer starts when
    its predecessor in its sequence of ``links``, ``after_ops[transfer]`` and ``after_transfers[transfer]`` have ended.
    Durations are ns, indexed by op id and transfer id. Raises `DeadlockError` when nothing can go on.
    """
    op_durations: list[int] = op_ns.tolist() if isinstance(op_ns, np.ndarray) else list(op_ns)
    transfer_durations: list[int] = transfer_ns.tolist() if isinstance(transfer_ns, np.ndarray) else list(transfer_ns)
    op_start, op_end = [-1] * len(op_durations), [-1] * len(op_durations)
    transfer_start, transfer_end = [-1] * len(transfer_durations), [-1] * len(transfer_durations)

    op_count, position, now = len(order), 0, 0
    link_position, link_now = [0] * len(links), [0] * len(links)
    moved = True
    while moved:
        moved = False
        while position < op_count:
            op = order[position]
            start = now
            for transfer in op_waits[op]:
                end = transfer_end[transfer]
                if end < 0:
                    break
                if end > start:
                    start = end
            else:
                op_start[op] = start
                op_end[op] = now = start + op_durations[op]
                position += 1
                moved = True
                continue
            break
        for link, transfers in enumerate(links):
            cursor, start_of_next, count = link_position[link], link_now[link], len(transfers)
            while cursor < count:
                transfer = transfers[cursor]
                start = start_of_next
                for op in after_ops[transfer]:
                    end = op_end[op]
                    if end < 0:
                        break
                    if end > start:
                        start = end
                else:
                    for earlier in after_transfers[transfer]:
                        end = transfer_end[earlier]
                        if end < 0:
                            break
                        if end > start:
                            start = end
                    else:
                        transfer_start[transfer] = start
                        transfer_end[transfer] = start_of_next = start + transfer_durations[transfer]
                        cursor += 1
                        moved = True
                        continue
                break
            link_position[link], link_now[link] = cursor, start_of_next

    if position < op_count or any(p < len(t) for p, t in zip(link_position, links, strict=True)):
        raise _deadlock(order, op_waits, links, after_ops, after_transfers, op_end, transfer_end)
    return EventTimes(
        np.array(op_start, dtype=np.int64),
        np.array(op_end, dtype=np.int64),
        np.array(transfer_start, dtype=np.int64),
        np.array(transfer_end, dtype=np.int64),
    )


@dataclass(frozen=True, slots=True)
class _Stay:
    """The events of one residency: what reserves its bytes and what gives them back.

    It begins when the first of ``prefetches`` starts; without one, when op ``first_op`` starts; without either, with
    the step. It ends when all ``ops``, ``transfers`` and, for bytes kept longer, ``held_until`` have ended, or with
    the step.
    """

    first_op: int | None
    prefetches: tuple[int, ...]
    ops: tuple[int, ...]
    transfers: tuple[int, ...]
    held_until: int | None
    to_step_end: bool


def _stays(schedule: Schedule) -> list[_Stay]:
    """The events behind each residency, in the schedule's order of residencies. Transfers by position, not id."""
    op_time = {t.op: t for t in schedule.op_times}
    by_end = sorted(schedule.op_times, key=lambda t: t.end_ns)
    accesses: list[list[int]] = [[] for _ in schedule.graph.storages]
    for op in schedule.order:
        for storage in storages_of(schedule.graph.ops[op]):
            accesses[storage].append(op)
    moves: list[list[int]] = [[] for _ in schedule.graph.storages]
    for position, t in enumerate(schedule.transfers):
        moves[t.storage].append(position)
    step_end = max([t.end_ns for t in schedule.op_times] + [t.end_ns for t in schedule.transfers], default=0)

    result = []
    for r in schedule.residencies:
        ops = [o for o in accesses[r.storage] if r.start_ns <= op_time[o].start_ns and op_time[o].end_ns <= r.end_ns]
        inside = [
            p
            for p in moves[r.storage]
            if r.start_ns <= schedule.transfers[p].start_ns and schedule.transfers[p].end_ns <= r.end_ns
        ]
        prefetches = tuple(p for p in inside if schedule.transfers[p].kind == "prefetch")
        at_step_start = r.start_ns == 0 and not prefetches and schedule.graph.exists_at_start(r.storage)
        last = max(
            [op_time[o].end_ns for o in ops] + [schedule.transfers[p].end_ns for p in inside], default=r.start_ns
        )
        held = bisect_right(by_end, r.end_ns, key=lambda t: t.end_ns) - 1 if last < r.end_ns < step_end else -1
        stays_home = schedule.graph.lives_to_end(r.storage) and schedule.homes[r.storage] == "device"
        result.append(
            _Stay(
                first_op=ops[0] if ops and not prefetches and not at_step_start else None,
                prefetches=prefetches,
                ops=tuple(ops[-1:]),
                transfers=tuple(inside),
                held_until=by_end[held].op if held >= 0 and by_end[held].end_ns > last else None,
                to_step_end=r.end_ns >= step_end and (last < step_end or stays_home),
            )
        )
    return result


def simulate(
    schedule: Schedule,
    *,
    op_ns: ArrayLike | None = None,
    transfer_ns: ArrayLike | None = None,
    conditions: str | None = None,
) -> Profile:
    """One predicted step of the schedule: order, waits and edges as it says, durations its own or the given ones.

    ``op_ns`` is indexed by op id, ``transfer_ns`` by position in ``schedule.transfers``; ns. Raises `DeadlockError`.
    """
    durations = np.asarray(schedule.durations_ns if op_ns is None else op_ns, dtype=np.int64)
    moves = schedule.transfers
    planned = [t.end_ns - t.start_ns for t in moves]
    move_ns = np.asarray(planned if transfer_ns is None else transfer_ns, dtype=np.int64)
    position = {t.id: p for p, t in enumerate(moves)}
    waits: list[Sequence[int]] = [()] * len(durations)
    for time in schedule.op_times:
        waits[time.op] = [position[t] for t in time.waits]
    times = event_times(
        schedule.order,
        waits,
        [[position[t.id] for t in link] for link in schedule.link_transfers()],
        [t.after_ops for t in moves],
        [[position[other] for other in t.after_transfers] for t in moves],
        durations,
        move_ns,
    )
    if conditions is None:
        conditions = f"predicted on {schedule.hardware.title}; op durations: {schedule.duration_source}"
    return _profile(schedule, times, conditions)


def _profile(schedule: Schedule, times: EventTimes, conditions: str) -> Profile:
    order = np.asarray(schedule.order, dtype=np.int64)
    moves, graph = schedule.transfers, schedule.graph
    op_start, op_end = times.op_start[order], times.op_end[order]
    step_end = int(max(op_end.max(initial=0), times.transfer_end.max(initial=0)))
    starts, ends = _stay_times(schedule, times, step_end)
    sizes = np.array([graph.storages[r.storage].bytes for r in schedule.residencies], dtype=np.int64)
    workspaces = np.array([graph.ops[o].workspace_bytes for o in schedule.order], dtype=np.int64)
    directions = np.array([0 if t.kind == "store" else 1 for t in moves], dtype=np.int64)
    move_bytes = np.array([t.bytes for t in moves], dtype=np.int64)
    compute_ns = int((op_end - op_start).sum())

    def one(value: int) -> Times:
        return np.array([value], dtype=np.int64)

    def ids(values: list[int]) -> Times:
        return np.array(values, dtype=np.int64)

    peak = peak_bytes(
        np.concatenate([starts, op_start]), np.concatenate([ends, op_end]), np.concatenate([sizes, workspaces])
    )
    return Profile(
        kind="predicted",
        schedule=schedule,
        conditions=conditions,
        ops=OpEvents(np.zeros_like(order), order, op_start, op_end, np.zeros_like(order)),
        transfers=TransferEvents(
            step=np.zeros(len(moves), dtype=np.int64),
            transfer=ids([t.id for t in moves]),
            storage=ids([t.storage for t in moves]),
            direction=directions,
            bytes=move_bytes,
            start_ns=times.transfer_start,
            end_ns=times.transfer_end,
        ),
        lifetimes=StorageLifetimes(
            step=np.zeros(len(sizes), dtype=np.int64),
            storage=ids([r.storage for r in schedule.residencies]),
            offset=ids([r.offset for r in schedule.residencies]),
            bytes=sizes,
            start_ns=starts,
            end_ns=ends,
        ),
        steps=StepNumbers(
            step_ns=one(step_end),
            compute_ns=one(compute_ns),
            exposed_ns=one(exposed_ns(op_start, op_end, times.transfer_start, times.transfer_end)),
            blocking_ns=one(step_end - compute_ns),
            peak_bytes=one(peak),
            bytes_out=one(int(move_bytes[directions == 0].sum())),
            bytes_in=one(int(move_bytes[directions == 1].sum())),
        ),
    )


def _stay_times(schedule: Schedule, times: EventTimes, step_end: int) -> tuple[Times, Times]:
    op_start, op_end = times.op_start.tolist(), times.op_end.tolist()
    transfer_start, transfer_end = times.transfer_start.tolist(), times.transfer_end.tolist()
    starts, ends = [], []
    for stay in _stays(schedule):
        if stay.prefetches:
            start = min(transfer_start[p] for p in stay.prefetches)
        else:
            start = op_start[stay.first_op] if stay.first_op is not None else 0
        held = () if stay.held_until is None else (op_end[stay.held_until],)
        end = max([start, *held, *(op_end[o] for o in stay.ops), *(transfer_end[p] for p in stay.transfers)])
        starts.append(start)
        ends.append(step_end if stay.to_step_end else end)
    return np.array(starts, dtype=np.int64), np.array(ends, dtype=np.int64)


def _deadlock(
    order: Sequence[int],
    op_waits: Sequence[Sequence[int]],
    links: Sequence[Sequence[int]],
    after_ops: Sequence[Sequence[int]],
    after_transfers: Sequence[Sequence[int]],
    op_end: Sequence[int],
    transfer_end: Sequence[int],
) -> DeadlockError:
    """Follow what each blocked event waits for until it repeats, and name the circle."""
    before: dict[_Event, _Event] = {}
    for earlier, later in pairwise(order):
        before["op", later] = ("op", earlier)
    for transfers in links:
        for earlier, later in pairwise(transfers):
            before["transfer", later] = ("transfer", earlier)

    def blocker(event: _Event) -> _Event | None:
        kind, number = event
        waits = [before[event]] if event in before else []
        waits += [("transfer", t) for t in (op_waits[number] if kind == "op" else after_transfers[number])]
        waits += [] if kind == "op" else [("op", o) for o in after_ops[number]]
        return next((w for w in waits if (op_end[w[1]] if w[0] == "op" else transfer_end[w[1]]) < 0), None)

    blocked = [("op", o) for o in order if op_end[o] < 0]
    blocked += [("transfer", t) for transfers in links for t in transfers if transfer_end[t] < 0]
    path: list[_Event] = [blocked[0]]
    following = blocker(path[0])
    while following is not None and following not in path:
        path.append(following)
        following = blocker(following)
    circle = path if following is None else path[path.index(following) :]
    first_op = next((number for kind, number in circle if kind == "op"), None)
    first_transfer = next((number for kind, number in circle if kind == "transfer"), None)
    names = [f"{kind} {number}" for kind, number in circle]
    if following is None:  # the last one is in no stream
        return DeadlockError(f"{names[0]} waits for {names[-1]}, which never runs", first_op, first_transfer)
    shown = [*names, names[0]] if len(names) < 7 else [*names[:6], "…"]
    return DeadlockError("waiting in a circle: " + ", which waits for ".join(shown), first_op, first_transfer)
