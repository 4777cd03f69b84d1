"""The same schedule with one move started earlier: its edges, its place on the link and its address follow.

What comes out is a whole schedule again, which the verifier has checked. Its bound is that of the schedule it is from.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import replace

from hyperoffload_core.errors import UserError
from hyperoffload_core.explain.step import Step, step_of
from hyperoffload_core.retimed import with_times
from hyperoffload_core.schedule import Residency, Schedule, Transfer
from hyperoffload_core.simulator import DeadlockError, simulate
from hyperoffload_core.sizes import format_bytes, format_ns
from hyperoffload_core.verifier import violations


class NotPossibleError(UserError):
    """A change that no valid schedule of this order and these edges has; the message says why in one sentence."""


def started_earlier(schedule: Schedule, transfer: int, by_ns: int) -> Schedule:
    """The schedule with a move started at least so much earlier, where its storage, memory and addresses allow.

    Its place on the link is the one its new start gives it; transfers it overtakes start later. A Prefetch whose
    address is still in use gets another one. Raises `NotPossibleError`; what is returned has passed the verifier.
    """
    step = step_of(schedule)
    move = step.move_of[transfer]
    first = move[0]
    wanted = max(0, step.start[first.id] - by_ns)
    _check_ready(step, first, wanted)
    behind, begin = _behind(step, first, wanted)
    if first.kind == "prefetch":
        _check_room(step, first, begin)
    begin = max(begin, wanted)
    moved = [
        replace(
            t,
            start_ns=begin,
            end_ns=begin + t.end_ns - t.start_ns,
            after_ops=() if behind is None else (behind,),
            after_transfers=tuple(o for o in t.after_transfers if step.transfers[o].storage == t.storage),
        )
        for t in move
    ]
    inside = {t.id for t in move}
    changed = replace(schedule, transfers=(*moved, *(t for t in schedule.transfers if t.id not in inside)))
    if first.kind == "prefetch":
        changed = _readdressed(step, changed, first, begin)
    try:
        result = with_times(changed, simulate(changed))
    except DeadlockError as error:
        raise NotPossibleError(f"transfer {transfer} cannot start so early: {error}") from error
    broken = violations(result)
    if broken:  # transfers that took other times than their link says are no fault of the change
        known = {(v.rule, v.op, v.storage, v.form) for v in violations(schedule)}
        broken = [v for v in broken if (v.rule, v.op, v.storage, v.form) not in known]
    if broken:
        raise NotPossibleError(f"transfer {transfer} cannot start so early: {broken[0]}")
    return result


def _check_ready(step: Step, first: Transfer, wanted: int) -> None:
    ops, own = step.schedule.graph.ops, step.own_op(first)
    ready, who = (step.op_end[own], f"op {ops[own].name!r}") if own is not None else (0, "")
    for other in first.after_transfers:
        if step.transfers[other].storage == first.storage and step.end[other] > ready:
            ready, who = step.end[other], f"the {step.transfers[other].kind.title()} {other} of it"
    if ready > wanted:
        possible = step.start[first.id] - ready
        raise NotPossibleError(
            f"transfer {first.id} can start at most {format_ns(possible)} earlier, because {who} ends only then"
        )


def _behind(step: Step, first: Transfer, wanted: int) -> tuple[int | None, int]:
    """The op behind which the move is put (None: the start of the step), and when that ends: at or before ``wanted``,
    or, where memory has no room as early as that, just after it."""
    order = step.schedule.order
    ends = [step.op_end[op] for op in order]
    place = bisect_right(ends, wanted) - 1
    begin = ends[place] if place >= 0 else 0
    room = step.room_since(step.start[first.id], step.size(first.storage)) if first.kind == "prefetch" else 0
    if begin < room <= wanted and place + 1 < len(order) and ends[place + 1] < step.start[first.id]:
        place, begin = place + 1, ends[place + 1]
    return (order[place] if place >= 0 else None), begin


def _check_room(step: Step, first: Transfer, begin: int) -> None:
    size, start = step.size(first.storage), step.start[first.id]
    if step.limit_bytes <= 0:
        return
    missing = step.most_live(begin, start) + size - step.limit_bytes
    if missing > 0:
        room = step.room_since(start, size)
        at_most = f"at most {format_ns(start - room)} earlier" if room < start else "no earlier"
        raise NotPossibleError(
            f"transfer {first.id} can start {at_most}: before that {format_bytes(missing)} of the limit are missing"
        )


def _readdressed(step: Step, schedule: Schedule, first: Transfer, begin: int) -> Schedule:
    """The stay of a Prefetch from ``begin`` on, at its own address or a free one, with the edges that keep it safe."""
    rows = list(schedule.residencies)
    index = next(i for i, r in enumerate(rows) if r.storage == first.storage and r.start_ns == step.start[first.id])
    stay = replace(rows[index], start_ns=begin)
    sizes = [s.bytes for s in schedule.graph.storages]
    size = sizes[first.storage]
    beside = [
        (r.offset, r.offset + sizes[r.storage], r)
        for i, r in enumerate(rows)
        if i != index and r.start_ns < stay.end_ns and r.end_ns > begin
    ]
    taken = next((r for low, high, r in beside if low < stay.offset + size and stay.offset < high), None)
    if taken is not None:
        home = schedule.graph.storages[first.storage].persistent and schedule.homes[first.storage] == "device"
        offset = None if home and stay.end_ns >= step.end_ns else _hole([row[:2] for row in beside], size)
        if offset is None or (step.limit_bytes > 0 and offset + size > step.limit_bytes):
            name = schedule.graph.storages[taken.storage].name
            raise NotPossibleError(
                f"transfer {first.id} cannot start so early: its place is in use by {name!r} until "
                f"{format_ns(taken.end_ns)}, and no other place of {format_bytes(size)} is free"
            )
        stay = replace(stay, offset=offset)
    rows[index] = stay
    return _ordered_after_sharers(step, replace(schedule, residencies=tuple(rows)), stay, first)


def _hole(taken: Sequence[tuple[int, int]], size: int) -> int | None:
    """The lowest address, a multiple of 64, with so many bytes free."""
    low = 0
    for start, end in sorted(taken):
        if low + size <= start:
            break
        low = max(low, -(-end // 64) * 64)
    return low


def _ordered_after_sharers(step: Step, schedule: Schedule, stay: Residency, first: Transfer) -> Schedule:
    """Edges between a stay and those that have some of its bytes before and after it."""
    sizes = [s.bytes for s in schedule.graph.storages]
    low, high = stay.offset, stay.offset + sizes[stay.storage]
    sharers = [
        r
        for r in schedule.residencies
        if r is not stay and r.offset < high and low < r.offset + sizes[r.storage] and r.end_ns > r.start_ns
    ]
    before = [_last_events(step, r) for r in sharers if r.end_ns <= stay.start_ns]
    own_op, own_stores = _last_events(step, stay)
    after_op = max((op for op, _ in before if op is not None), key=step.position.__getitem__, default=None)
    stores_before = {t for _, stores in before for t in stores}
    later = {
        t.id
        for r in sharers
        if r.start_ns >= stay.end_ns
        for t in schedule.transfers
        if t.storage == r.storage and t.kind == "prefetch" and t.start_ns == r.start_ns
    }
    move = {t.id for t in step.move_of[first.id]}
    transfers = []
    for t in schedule.transfers:
        if t.id in move:
            t = _waiting(t, after_op, stores_before)
        elif t.id in later:
            t = _waiting(t, own_op, own_stores)
        transfers.append(t)
    begun = {r.storage: r.start_ns for r in sharers if r.start_ns >= stay.end_ns}
    op_times = tuple(
        replace(time, waits=tuple(sorted({*time.waits, *own_stores})))
        if own_stores and any(begun.get(s) == time.start_ns for s in schedule.graph.ops[time.op].writes)
        else time
        for time in schedule.op_times
    )
    return replace(schedule, transfers=tuple(transfers), op_times=op_times)


def _waiting(t: Transfer, op: int | None, transfers: Iterable[int]) -> Transfer:
    """A transfer that also waits for an op and for others."""
    ops = {*t.after_ops, *([op] if op is not None else [])}
    others = {*t.after_transfers, *transfers}
    return replace(t, after_ops=tuple(sorted(ops)), after_transfers=tuple(sorted(others)))


def _last_events(step: Step, stay: Residency) -> tuple[int | None, tuple[int, ...]]:
    """The last op of a stay, and its Stores (and Prefetches no op waited for)."""
    inside = [
        op
        for op in step.accesses[stay.storage]
        if stay.start_ns <= step.op_start[op] and step.op_end[op] <= stay.end_ns
    ]
    moved = [
        t.id
        for move in step.moves[stay.storage]
        for t in move
        if stay.start_ns <= step.start[t.id] and step.end[t.id] <= stay.end_ns and (t.kind == "store" or not inside)
    ]
    return (inside[-1] if inside else None), tuple(moved)
