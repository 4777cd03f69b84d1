"""The stays of every storage on the device, worked out from a schedule's residencies, ops and transfers."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field

from hyperoffload_core.schedule import Residency, Schedule, Transfer


@dataclass(slots=True)
class Stay:
    """One residency, from ``start_ns`` to ``end_ns``, with what happens in it: ``ops`` in run order, transfers in order
    of start."""

    residency: Residency
    bytes: int
    start_ns: int
    end_ns: int
    at_step_start: bool = False
    to_step_end: bool = False
    ops: list[int] = field(default_factory=list)
    prefetches: list[Transfer] = field(default_factory=list)
    stores: list[Transfer] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Timeline:
    """``stays[storage]`` in time order; ``position``, ``op_start`` and ``op_end`` by op id; ``links`` in run order.

    ``moves[storage]`` are its transfers in order of start. ``homeless_accesses`` (op, storage) and
    ``homeless_transfers`` lie in no stay of their storage.
    """

    schedule: Schedule
    stays: list[list[Stay]]
    moves: list[list[Transfer]]
    position: list[int]
    op_start: list[int]
    op_end: list[int]
    links: list[list[Transfer]]
    step_ns: int
    homeless_accesses: list[tuple[int, int]]
    homeless_transfers: list[Transfer]


def timeline_of(schedule: Schedule) -> Timeline:
    """Sort ops and transfers into stays. The schedule's ids must be sound (`structure_violations`)."""
    graph = schedule.graph
    op_start, op_end, position = [0] * len(graph.ops), [0] * len(graph.ops), [0] * len(graph.ops)
    for time in schedule.op_times:
        op_start[time.op], op_end[time.op] = time.start_ns, time.end_ns
    for place, op in enumerate(schedule.order):
        position[op] = place
    step_ns = max([*op_end, *(t.end_ns for t in schedule.transfers)], default=0)

    stays: list[list[Stay]] = [[] for _ in graph.storages]
    for r in sorted(schedule.residencies, key=lambda r: (r.start_ns, r.end_ns)):
        stays[r.storage].append(Stay(r, graph.storages[r.storage].bytes, r.start_ns, r.end_ns))
    starts = [[stay.start_ns for stay in rows] for rows in stays]

    homeless_accesses: list[tuple[int, int]] = []
    for op in schedule.order:
        start, end = op_start[op], op_end[op]
        reads = graph.ops[op].reads
        for storage in dict.fromkeys(reads + graph.ops[op].writes):
            index = bisect_right(starts[storage], start) - 1
            rows = stays[storage]
            if start == end and index > 0 and rows[index - 1].end_ns == start and storage in reads:
                index -= 1  # an op without duration between two stays that touch reads what was there
            if index < 0 or rows[index].end_ns < end:
                homeless_accesses.append((op, storage))
            else:
                rows[index].ops.append(op)

    moves: list[list[Transfer]] = [[] for _ in graph.storages]
    homeless_transfers: list[Transfer] = []
    in_order = sorted(schedule.transfers, key=lambda t: t.start_ns)
    for transfer in in_order:
        moves[transfer.storage].append(transfer)
        index = bisect_right(starts[transfer.storage], transfer.start_ns) - 1
        if index < 0 or stays[transfer.storage][index].end_ns < transfer.end_ns:
            homeless_transfers.append(transfer)
        else:
            stay = stays[transfer.storage][index]
            (stay.stores if transfer.kind == "store" else stay.prefetches).append(transfer)

    for storage, rows in enumerate(stays):
        if rows and schedule.homes[storage] == "device":
            first, last = rows[0], rows[-1]
            first.at_step_start = graph.exists_at_start(storage) and first.start_ns == 0 and not _arrives(first)
            last.to_step_end = graph.lives_to_end(storage) and last.end_ns >= step_ns

    if schedule.hardware.duplex == "half":
        links = [in_order]
    else:
        links = [[t for t in in_order if t.kind == kind] for kind in ("store", "prefetch")]
    return Timeline(
        schedule, stays, moves, position, op_start, op_end, links, step_ns, homeless_accesses, homeless_transfers
    )


def _arrives(stay: Stay) -> bool:
    """Whether the stay begins with a prefetch."""
    return bool(stay.prefetches) and stay.prefetches[0].start_ns == stay.start_ns
