"""A naive scheduler for tests: stays placed by hand or at random, every edge spelled out, first-fit addresses.

It shares nothing with the planner. Everything happens in one logical sequence (op, the transfers issued after it, the
next op, …) and every edge points backwards in it, so its schedules are safe by construction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from random import Random

import numpy as np

from hyperoffload_core.hardware import Hardware, transfer_ns
from hyperoffload_core.ir import Graph, storages_of
from hyperoffload_core.metrics import step_metrics
from hyperoffload_core.schedule import Home, OpTime, Residency, Schedule, Transfer, TransferKind
from hyperoffload_core.simulator import EventTimes, event_times
from tests.graphs import TINY, TINY_HALF, random_graph

NEVER = 1 << 60


@dataclass
class _Stay:
    storage: int
    accesses: list[int]  # positions in the order
    at_start: bool = False
    to_end: bool = False
    arrives: bool = False
    leaves: bool = False  # with a store
    prefetches: list[int] = field(default_factory=list)  # transfer ids
    stores: list[int] = field(default_factory=list)
    begin: int = 0  # in the logical sequence
    end: int = NEVER
    offset: int = -1


@dataclass
class _Move:
    kind: TransferKind
    stay: _Stay
    at: int  # issued after the op at this position
    bytes: int
    offset: int
    partial: bool
    after_ops: set[int] = field(default_factory=set)
    after_transfers: set[int] = field(default_factory=set)


def naive_schedule(
    graph: Graph,
    *,
    hardware: Hardware = TINY,
    durations_ns: Sequence[int] | None = None,
    order: Sequence[int] | None = None,
    gaps: Sequence[tuple[int, int]] = (),
    homes: Mapping[int, Home] | None = None,
    early_stores: bool = False,
    ahead: int | Mapping[int, int] = 0,
    parts: int = 1,
    uneven: Random | None = None,
) -> Schedule:
    """Everything resident but for ``gaps``: ``(storage, k)`` leaves after its access k and is back for access k + 1.

    k = -1 is the gap before the first access, the last k the one to the end of the step. ``homes`` names storages at
    home in the pool. A prefetch is issued ``ahead`` ops earlier than just before its op; ``early_stores`` leave after
    the last write of a stay, others after its last access; transfers are split into ``parts``, with ``uneven`` of
    random sizes and in random order. ``ahead`` may be one number, or one per storage.
    """
    order = tuple(order) if order is not None else tuple(range(len(graph.ops)))
    durations = tuple(durations_ns) if durations_ns is not None else (10,) * len(graph.ops)
    home: list[Home] = [(homes or {}).get(s.id, "device") for s in graph.storages]
    stays = _stays(graph, order, set(gaps), home)
    moves = _moves(graph, order, stays, early_stores, ahead, parts, uneven)
    _number(stays, moves)
    _place(graph, stays)

    waits: list[set[int]] = [set() for _ in graph.ops]
    for stay in stays:
        if stay.accesses:
            waits[order[stay.accesses[0]]].update(stay.prefetches)
    _reuse_edges(graph, order, stays, moves, waits)
    _remote_copy_edges(stays, moves)

    times = _times(hardware, order, durations, moves, waits)
    return _schedule(graph, hardware, order, durations, home, stays, moves, waits, times)


def _stays(graph: Graph, order: Sequence[int], gaps: set[tuple[int, int]], home: Sequence[Home]) -> list[_Stay]:
    accesses: list[list[int]] = [[] for _ in graph.storages]
    for position, op in enumerate(order):
        for storage in storages_of(graph.ops[op]):
            accesses[storage].append(position)
    result = []
    for storage, positions in enumerate(accesses):
        given, kept, pool = graph.exists_at_start(storage), graph.lives_to_end(storage), home[storage] == "pool"
        rows: list[_Stay] = []
        if given and not pool and (kept or positions):
            rows.append(_Stay(storage, [], at_start=True))
        for k, position in enumerate(positions):
            if not rows or (storage, k - 1) in gaps:
                rows.append(_Stay(storage, []))
            rows[-1].accesses.append(position)
        if kept and not pool and rows and (storage, len(positions) - 1) in gaps and positions:
            rows.append(_Stay(storage, []))
        if kept and not pool and rows:
            rows[-1].to_end = True
        newest = remote = 0
        for index, stay in enumerate(rows):
            following = rows[index + 1] if index + 1 < len(rows) else None
            first = graph.ops[order[stay.accesses[0]]] if stay.accesses else None
            stay.arrives = not stay.at_start and (first is None or storage in first.reads)
            writes = sum(storage in graph.ops[order[p]].writes for p in stay.accesses)
            newest += writes
            if following is not None:
                later = graph.ops[order[following.accesses[0]]] if following.accesses else None
                needed = later is None or storage in later.reads
            else:
                needed = kept and pool
            on_pool = remote == newest and (pool or any(s.leaves for s in rows))
            if needed and not (on_pool if given or newest else False):
                stay.leaves, remote = True, newest
        result += rows
    return result


def _moves(
    graph: Graph,
    order: Sequence[int],
    stays: Sequence[_Stay],
    early_stores: bool,
    ahead: int | Mapping[int, int],
    parts: int,
    uneven: Random | None,
) -> list[_Move]:
    moves: list[_Move] = []
    last_access: dict[int, int] = {}

    def issue(kind: TransferKind, stay: _Stay, at: int) -> None:
        size = graph.storages[stay.storage].bytes
        count = min(parts, size)
        cuts = [size * part // count for part in range(count + 1)]
        if uneven is not None:
            cuts = [0, *sorted(uneven.sample(range(1, size), count - 1)), size]
        pieces = list(pairwise(cuts))
        if uneven is not None:
            uneven.shuffle(pieces)
        moves.extend(_Move(kind, stay, at, high - low, low, count > 1) for low, high in pieces)

    for stay in stays:
        if stay.arrives:
            distance = ahead if isinstance(ahead, int) else ahead.get(stay.storage, 0)
            just_in_time = stay.accesses[0] - 1 - distance if stay.accesses else len(order) - 1
            issue("prefetch", stay, max(just_in_time, last_access.get(stay.storage, -1)))
        if stay.leaves:
            writers = [p for p in stay.accesses if stay.storage in graph.ops[order[p]].writes]
            used = writers if early_stores and writers else stay.accesses
            issue("store", stay, used[-1] if used else -1)
        last_access[stay.storage] = stay.accesses[-1] if stay.accesses else -1
    moves.sort(key=lambda m: (m.at, m.kind == "prefetch"))
    for number, move in enumerate(moves):
        (move.stay.prefetches if move.kind == "prefetch" else move.stay.stores).append(number)
        if move.at >= 0:
            move.after_ops.add(order[move.at])
    return moves


def _number(stays: Sequence[_Stay], moves: Sequence[_Move]) -> None:
    """Where each stay begins and ends in the logical sequence."""
    stride = len(moves) + 1

    def of_op(position: int) -> int:
        return (position + 1) * stride

    def of_move(number: int) -> int:
        return (moves[number].at + 1) * stride + 1 + number

    for stay in stays:
        if stay.prefetches:
            stay.begin = of_move(stay.prefetches[0])
        elif not stay.at_start:
            stay.begin = of_op(stay.accesses[0])
        if not stay.to_end:
            events = [of_op(p) for p in stay.accesses[-1:]] + [of_move(m) for m in (*stay.prefetches, *stay.stores)]
            stay.end = max(events, default=0)


def _place(graph: Graph, stays: Sequence[_Stay]) -> None:
    """First fit; a storage at home on the device ends at the address it starts at."""
    begin, end, low, high = (np.zeros(len(stays), dtype=np.int64) for _ in range(4))
    placed = 0
    first: dict[int, _Stay] = {}
    last: dict[int, _Stay] = {}
    for stay in stays:
        first.setdefault(stay.storage, stay)
        last[stay.storage] = stay
    for stay in sorted(stays, key=lambda s: (s.begin, s.end)):
        if stay.offset >= 0:
            continue
        together = [stay]
        if stay.at_start and last[stay.storage].to_end and last[stay.storage] is not stay:
            together.append(last[stay.storage])
        size = graph.storages[stay.storage].bytes
        beside = np.zeros(placed, dtype=bool)
        for s in together:
            beside |= (begin[:placed] <= s.end) & (s.begin <= end[:placed])
        offset = 0
        for taken_low, taken_high in sorted(
            zip(low[:placed][beside].tolist(), high[:placed][beside].tolist(), strict=True)
        ):
            if offset + size <= taken_low:
                break
            offset = max(offset, taken_high)
        for s in together:
            s.offset = offset
            begin[placed], end[placed], low[placed], high[placed] = s.begin, s.end, offset, offset + size
            placed += 1


def _reuse_edges(
    graph: Graph, order: Sequence[int], stays: Sequence[_Stay], moves: Sequence[_Move], waits: Sequence[set[int]]
) -> None:
    """A stay begins after the last op and the last transfers of every earlier stay that shares bytes with it."""
    end = np.array([s.end for s in stays])
    low = np.array([s.offset for s in stays])
    high = low + np.array([graph.storages[s.storage].bytes for s in stays])
    for stay in stays:
        top = stay.offset + graph.storages[stay.storage].bytes
        sharers = [stays[i] for i in np.flatnonzero((end < stay.begin) & (low < top) & (stay.offset < high))]
        last_op = max((s.accesses[-1] for s in sharers if s.accesses), default=None)
        transfers = {max((m for s in sharers for m in s.stores), default=-1)}
        transfers |= {max((m for s in sharers for m in s.prefetches if not s.accesses), default=-1)}
        transfers.discard(-1)
        for number in stay.prefetches:
            moves[number].after_transfers |= transfers
            if last_op is not None:
                moves[number].after_ops.add(order[last_op])
        if not stay.prefetches and not stay.at_start:
            waits[order[stay.accesses[0]]].update(transfers)


def _remote_copy_edges(stays: Sequence[_Stay], moves: Sequence[_Move]) -> None:
    """A prefetch comes after every store of its storage; a store after the prefetches of its own stay."""
    stored: dict[int, list[int]] = {}
    for stay in stays:
        for number in stay.prefetches:
            moves[number].after_transfers.update(stored.get(stay.storage, ())[-1:])
        for number in stay.stores:
            moves[number].after_transfers.update(stay.prefetches)
        stored.setdefault(stay.storage, []).extend(stay.stores)


def _times(
    hardware: Hardware,
    order: Sequence[int],
    durations: Sequence[int],
    moves: Sequence[_Move],
    waits: Sequence[set[int]],
) -> EventTimes:
    numbers = range(len(moves))
    links = [[n for n in numbers if moves[n].kind == kind] for kind in ("store", "prefetch")]
    if hardware.duplex == "half":
        links = [list(numbers)]
    link = {"store": hardware.link_out, "prefetch": hardware.link_in}
    return event_times(
        order,
        [tuple(w) for w in waits],
        links,
        [tuple(m.after_ops) for m in moves],
        [tuple(m.after_transfers) for m in moves],
        durations,
        [transfer_ns(m.bytes, link[m.kind]) for m in moves],
    )


def _schedule(
    graph: Graph,
    hardware: Hardware,
    order: Sequence[int],
    durations: Sequence[int],
    home: Sequence[Home],
    stays: Sequence[_Stay],
    moves: Sequence[_Move],
    waits: Sequence[set[int]],
    times: EventTimes,
) -> Schedule:
    op_start, op_end = times.op_start.tolist(), times.op_end.tolist()
    move_start, move_end = times.transfer_start.tolist(), times.transfer_end.tolist()
    step_ns = max([*op_end, *move_end], default=0)
    op_times = tuple(OpTime(op, op_start[op], op_end[op], tuple(sorted(waits[op]))) for op in order)
    transfers = tuple(
        Transfer(
            n,
            m.kind,
            m.stay.storage,
            m.bytes,
            move_start[n],
            move_end[n],
            tuple(sorted(m.after_ops)),
            tuple(sorted(m.after_transfers)),
            m.partial,
            m.offset,
        )
        for n, m in enumerate(moves)
    )
    residencies = []
    for s in stays:
        start = 0 if s.at_start else min(move_start[n] for n in s.prefetches) if s.prefetches else -1
        if start < 0:
            start = op_start[order[s.accesses[0]]]
        ends = [op_end[order[p]] for p in s.accesses] + [move_end[n] for n in (*s.prefetches, *s.stores)]
        residencies.append(Residency(s.storage, s.offset, start, step_ns if s.to_end else max(ends, default=0)))
    storage_bytes, workspaces = [s.bytes for s in graph.storages], [o.workspace_bytes for o in graph.ops]
    metrics = step_metrics(storage_bytes, workspaces, op_times, transfers, residencies, sum(durations))
    return Schedule(
        graph=graph,
        durations_ns=tuple(durations),
        duration_source="made up for a test",
        hardware=hardware,
        policy={},
        strategy="naive",
        memory_limit_bytes=metrics.reserved_bytes,
        order=tuple(order),
        op_times=op_times,
        transfers=transfers,
        residencies=tuple(residencies),
        homes=tuple(home),
        metrics=metrics,
    )


def random_order(random: Random, graph: Graph) -> list[int]:
    """A random topological order."""
    needed = [set(op.after) for op in graph.ops]
    order: list[int] = []
    while len(order) < len(graph.ops):
        done = set(order)
        order.append(random.choice([i for i in range(len(graph.ops)) if i not in done and needed[i] <= done]))
    return order


def random_schedule(random: Random, most_ops: int = 14) -> Schedule:
    """A random graph under random gaps, homes, order, durations, issue positions and links."""
    graph = random_graph(random, most_ops)
    rate = random.choice([0.0, 0.3, 0.6, 1.0])
    gaps = [(s.id, k) for s in graph.storages for k in range(-1, len(graph.accesses[s.id])) if random.random() < rate]
    return naive_schedule(
        graph,
        hardware=random.choice([TINY, TINY_HALF]),
        durations_ns=[random.randint(1, 40) for _ in graph.ops],
        order=random_order(random, graph) if random.random() < 0.5 else None,
        gaps=gaps,
        homes={s.id: "pool" for s in graph.storages if random.random() < rate / 2},
        early_stores=random.random() < 0.5,
        ahead=random.choice([0, 0, 1, 3]),
        parts=random.choice([1, 1, 2, 3]),
        uneven=random if random.random() < 0.5 else None,
    )


def random_durations(random: Random, schedule: Schedule) -> tuple[list[int], list[int]]:
    """Durations of ops and transfers that may differ by a factor of 10,000, and have nothing to do with the plan."""
    spread = random.choice([1, 3, 100])

    def some(count: int) -> list[int]:
        return [max(1, int(30 * spread ** random.uniform(-1, 1))) for _ in range(count)]

    return some(len(schedule.graph.ops)), some(len(schedule.transfers))
