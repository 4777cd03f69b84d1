"""From a found step to the plan that the passes give addresses, edges and times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hyperoffload_core.exact.instance import Instance, bits
from hyperoffload_core.exact.states import Found
from hyperoffload_core.passes.plan import Plan, PlannedTransfer, Stay
from hyperoffload_core.schedule import Home, TransferKind


@dataclass
class _Transfer:
    kind: TransferKind
    storage: int
    after: int
    start_ns: int
    end_ns: int


@dataclass
class _Stay:
    storage: int
    start_ns: int
    begin: int | None
    fetch: _Transfer | None = None
    store: _Transfer | None = None
    last: int = -1
    end_ns: int = 0
    to_end: bool = False


def plan_of_found(instance: Instance, found: Found, notes: Sequence[str] = ()) -> Plan:
    """Stays, transfers and times of the step; copies that nothing reads are left out."""
    x, count = instance, len(instance.before)
    open_stays = {s: _Stay(s, 0, -1) for s in bits(found.device_at_start)}
    closed: list[_Stay] = []
    order: list[int] = []
    op_spans: list[tuple[int, int]] = []
    transfers: list[_Transfer] = []

    def position_before(ns: int) -> int:
        return sum(1 for _, end in op_spans if end <= ns) - 1

    for start in found.starts:
        for s in bits(start.evicted):
            closed.append(open_stays.pop(s))
        if start.op >= 0:
            position, end_ns = len(order), start.ns + x.durations_ns[start.op]
            order.append(start.op)
            op_spans.append((start.ns, end_ns))
            for s in bits(x.touched[start.op]):
                stay = open_stays.setdefault(s, _Stay(s, start.ns, position))
                stay.begin = position if stay.begin is None else stay.begin
                stay.last, stay.end_ns = position, end_ns
                if x.writes[start.op] >> s & 1:
                    stay.store = None  # a copy of the value before; nothing fetches it any more
        after = position_before(start.ns)
        if start.store >= 0:
            move = _Transfer("store", start.store, after, start.ns, start.ns + x.out_ns[start.store])
            transfers.append(move)
            open_stays[start.store].store = move
        if start.prefetch >= 0:
            s = start.prefetch
            move = _Transfer("prefetch", s, after, start.ns, start.ns + x.in_ns[s])
            transfers.append(move)
            if s in open_stays:
                closed.append(open_stays.pop(s))
            open_stays[s] = _Stay(s, start.ns, None, fetch=move)
    at_device_end = x.lasting & ~found.pool_home
    for s, stay in open_stays.items():
        stay.to_end = bool(at_device_end >> s & 1)
        if stay.to_end or not x.lasting >> s & 1:
            stay.store = None  # it does not leave any more
        closed.append(stay)
    stays = [s for s in closed if s.fetch is None or s.begin is not None or s.to_end]
    stays.sort(key=lambda stay: (stay.storage, stay.start_ns))
    used = {id(move) for stay in stays for move in (stay.fetch, stay.store) if move is not None}
    kept = [move for move in transfers if id(move) in used]
    index = {id(move): i for i, move in enumerate(kept)}

    def index_of(move: _Transfer | None) -> int | None:
        return None if move is None else index[id(move)]

    by_link: tuple[tuple[TransferKind, ...], ...] = (
        (("store", "prefetch"),) if x.half_duplex else (("store",), ("prefetch",))
    )
    unused = x.given & ~x.used & x.movable
    in_pool = found.pool_home | unused | (x.given & ~x.persistent & x.movable & ~found.device_at_start)
    homes: tuple[Home, ...] = tuple("pool" if in_pool >> s & 1 else "device" for s in range(len(x.size_bytes)))
    return Plan(
        order=tuple(order),
        stays=tuple(
            Stay(
                stay.storage,
                count if stay.begin is None else stay.begin,
                stay.last,
                stay.to_end,
                index_of(stay.fetch),
                index_of(stay.store),
            )
            for stay in stays
        ),
        transfers=tuple(PlannedTransfer(move.kind, move.storage, move.after) for move in kept),
        links=tuple(
            tuple(i for i in sorted(range(len(kept)), key=lambda i: kept[i].start_ns) if kept[i].kind in kinds)
            for kinds in by_link
        ),
        homes=homes,
        spans_ns=tuple(
            (
                stay.start_ns,
                found.step_ns if stay.to_end else max(stay.end_ns, stay.store.end_ns if stay.store is not None else 0),
            )
            for stay in stays
        ),
        op_spans_ns=tuple(op_spans),
        notes=tuple(notes),
    )
