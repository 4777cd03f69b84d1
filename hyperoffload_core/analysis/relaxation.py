"""A linear relaxation of the whole planning problem: what link capacity and memory demand, whatever the order of ops.

Cuts are the starts of ops that lie on one path of dependencies, so every schedule passes them in this order. At a cut
an op of which the cut's op is a descendant has surely ended, one that descends from it (or is it) has surely not
started. Between two cuts lies an interval, interval k ahead of cut k. Per storage and value ("version": the initial
one, and one per write) the linear program knows which part has arrived on the device at each cut and which parts are
copied in and out in each interval. Any schedule, with ops in any order, gives a solution of it, so its optimum is a
lower bound on the step time; docs/scheduling.md has the proof.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hyperoffload_core.analysis.linear import LinearProgram
from hyperoffload_core.analysis.liveness import live_bytes
from hyperoffload_core.hardware import Hardware, transfer_ns
from hyperoffload_core.ir import Graph, storages_of

_SPREAD_CUTS = 4
_TOLERANCE = 1e-6
"""By how much a bound is lowered so that the solver's own tolerance cannot make it too high."""


@dataclass(frozen=True)
class Cuts:
    """``ops`` are the cuts, each a descendant of the one before. ``earliest[op]`` and ``latest[op]`` are the first and
    the last interval in which each op of the graph can run (interval k ends at cut k; the last one ends the step)."""

    ops: tuple[int, ...]
    earliest: NDArray[np.int64]
    latest: NDArray[np.int64]


@dataclass(frozen=True)
class Version:
    """One value of a storage. ``writer`` is an op, None for the value there is at the start. ``readers`` are ops."""

    writer: int | None
    readers: tuple[int, ...]
    final: bool


def find_cuts(graph: Graph, chosen: Sequence[int]) -> Cuts:
    """Cuts at the given ops, which must lie on one path (each a descendant of the one before)."""
    count = len(graph.ops)
    latest = np.full(count, len(chosen), np.int64)
    for cut, op_id in enumerate(chosen):
        pending = list(graph.ops[op_id].after)
        while pending:
            op = pending.pop()
            if latest[op] > cut:
                latest[op] = cut
                pending += graph.ops[op].after
    earliest = np.zeros(count, np.int64)
    for cut in range(len(chosen) - 1, -1, -1):
        pending = [chosen[cut]]
        while pending:
            op = pending.pop()
            if earliest[op] < cut + 1:
                earliest[op] = cut + 1
                pending += graph.followers[op]
    return Cuts(tuple(chosen), earliest, latest)


def path_through(graph: Graph, durations_ns: Sequence[int], op_id: int) -> list[int]:
    """The longest path of dependencies (by duration) that leads through an op."""
    count = len(graph.ops)
    ahead, behind = [0] * count, [0] * count
    previous: list[int] = [-1] * count
    following: list[int] = [-1] * count
    for op in graph.ops:
        for before in op.after:
            if previous[op.id] < 0 or ahead[before] > ahead[previous[op.id]]:
                previous[op.id] = before
        ahead[op.id] = durations_ns[op.id] + (ahead[previous[op.id]] if previous[op.id] >= 0 else 0)
    for op in reversed(graph.ops):
        behind[op.id] += durations_ns[op.id]
        for before in op.after:
            if behind[op.id] > behind[before]:
                behind[before], following[before] = behind[op.id], op.id
    path = [op_id]
    while previous[path[0]] >= 0:
        path.insert(0, previous[path[0]])
    while following[path[-1]] >= 0:
        path.append(following[path[-1]])
    return path


def promising_cuts(graph: Graph, durations_ns: Sequence[int], hardware: Hardware, limit_bytes: int) -> tuple[Cuts, int]:
    """A few cuts at which the limit binds most: where most bytes are needed, where getting them back takes longest,
    where getting them away does, and some between. Also returns which of them is the first of these.

    All lie on the longest path through the op with the highest no-offload memory.
    """
    peak = int(np.argmax(live_bytes(graph, range(len(graph.ops)))))
    path = path_through(graph, durations_ns, peak)
    every = find_cuts(graph, path)
    count, durations = len(path), np.asarray(durations_ns, np.float64)
    over = np.maximum(0, needed_bytes(graph, every) - limit_bytes)
    ahead = np.bincount(every.latest, durations, count + 1).cumsum()[:count]
    behind = np.bincount(every.earliest, durations, count + 1)[::-1].cumsum()[::-1][1:]
    chosen = {int(k) for k in np.linspace(0, count - 1, min(count, _SPREAD_CUTS))}
    chosen.add(int(np.argmax(over)))
    chosen.add(int(np.argmax(ahead + over * 1e9 / hardware.link_in.bytes_per_s)))
    chosen.add(int(np.argmax(behind + over * 1e9 / hardware.link_out.bytes_per_s)))
    in_order = sorted(chosen)
    return find_cuts(graph, [path[k] for k in in_order]), in_order.index(int(np.argmax(over)))


def needed_bytes(graph: Graph, cuts: Cuts) -> NDArray[np.int64]:
    """Bytes that exist at each cut in every order of the ops, on the device or not: values that are surely written and
    have surely not been read for the last time, and what the cut's op writes and uses as workspace."""
    count = len(cuts.ops)
    change = np.zeros(count + 1, np.int64)
    earliest, latest = cuts.earliest.tolist(), cuts.latest.tolist()
    for storage in graph.storages:
        for version in versions_of(graph, storage.id):
            first = 0 if version.writer is None else latest[version.writer]
            last = count - 1 if version.final else max((earliest[r] - 1 for r in version.readers), default=-1)
            if last >= first:
                change[first] += storage.bytes
                change[last + 1] -= storage.bytes
    result: NDArray[np.int64] = np.cumsum(change[:count])
    for cut, op_id in enumerate(cuts.ops):
        op = graph.ops[op_id]
        created = sum(graph.storages[s].bytes for s in op.writes if s not in op.reads and not graph.exists_at_start(s))
        result[cut] += op.workspace_bytes + created
    return result


def versions_of(graph: Graph, storage: int) -> list[Version]:
    """The values a storage has in the course of a step, in captured order."""
    result: list[Version] = []
    writer: int | None = None
    exists, readers = graph.exists_at_start(storage), list[int]()
    for access in graph.accesses[storage]:
        if access.reads:
            readers.append(access.op)
        if access.writes:
            if exists:
                result.append(Version(writer, tuple(readers), final=False))
            writer, exists, readers = access.op, True, []
    if exists:
        result.append(Version(writer, tuple(readers), final=graph.lives_to_end(storage)))
    return result


def either_or(graph: Graph, cuts: Cuts, cut: int) -> list[tuple[int, ...]]:
    """Chains of storages, each made from the one before by an op that may run on either side of the cut, of which one
    exists there in every order.

    The first of a chain has surely been written, the last will surely be read; each is needed until the next one is
    made. So as long as the chain is needed, it is a value of at least its smallest size that has to be somewhere, moves
    as a whole and comes from one write: merging its storages into one keeps the relaxation valid and counts what none
    of them alone surely needs.
    """
    single = {
        s.id
        for s, a in zip(graph.storages, graph.accesses, strict=True)
        if a and a[0].writes and not any(x.writes for x in a[1:])
        if not graph.exists_at_start(s.id) and not graph.lives_to_end(s.id)
    }

    def surely_after(storage: int) -> bool:
        return any(cuts.earliest[a.op] > cut for a in graph.accesses[storage] if a.reads)

    chain_bytes = {
        s: graph.storages[s].bytes
        for s in single
        if cuts.latest[graph.accesses[s][0].op] <= cut and not surely_after(s)
    }
    made_from: dict[int, int] = {}
    ends: list[int] = []
    for op in graph.ops:
        if cuts.earliest[op.id] > cut or cuts.latest[op.id] <= cut:
            continue
        for output in op.writes:
            if output not in single or graph.accesses[output][0].op != op.id:
                continue
            source = max((s for s in op.reads if s in chain_bytes), key=chain_bytes.__getitem__, default=None)
            if source is not None:
                chain_bytes[output] = min(graph.storages[output].bytes, chain_bytes[source])
                made_from[output] = source
                if surely_after(output):
                    ends.append(output)
    chains: list[tuple[int, ...]] = []
    taken: set[int] = set()
    for end in sorted(ends, key=lambda s: -chain_bytes[s]):
        chain = [end]
        while chain[0] in made_from:
            chain.insert(0, made_from[chain[0]])
        if taken.isdisjoint(chain):
            chains.append(tuple(chain))
            taken.update(chain)
    return chains


_Signature = tuple[
    int, bool, bool, bool, tuple[tuple[int, int, tuple[tuple[int, int], ...], bool], ...], tuple[int, ...]
]


@dataclass(frozen=True)
class Kind:
    """Storages that are alike in all that the relaxation sees. ``home`` is the part of them whose home is the pool;
    ``away[k]`` the part that is needed and not on the device at cut k."""

    storages: tuple[int, ...]
    home: float
    away: NDArray[np.float64]


@dataclass(frozen=True)
class Relaxation:
    """``bound_ns``: no schedule is faster. ``interval_ns`` how long each interval takes in the relaxed optimum."""

    bound_ns: int
    cuts: Cuts
    interval_ns: NDArray[np.float64]
    kinds: tuple[Kind, ...]


def relax(
    graph: Graph,
    durations_ns: Sequence[int],
    hardware: Hardware,
    limit_bytes: int,
    cuts: Cuts,
    merged: Sequence[tuple[int, ...]] = (),
) -> Relaxation:
    """Solve the relaxation for the given cuts, with the `either_or` chains of one of them merged. A bound of 0 says
    that the solver gave no answer."""
    count = len(cuts.ops)
    durations = np.asarray(durations_ns, np.float64)
    scale = max(1.0, float(durations.sum()))
    program = LinearProgram()
    intervals = [program.column(0.0, np.inf) for _ in range(count + 1)]
    for first in range(count + 1):
        inside = cuts.earliest >= first
        work = np.bincount(cuts.latest[inside], durations[inside], count + 1).cumsum() / scale
        for last in range(first, count + 1):
            if last == first or work[last] > work[last - 1]:
                program.at_most([(intervals[k], -1.0) for k in range(first, last + 1)], -float(work[last]))
    link_in: list[list[tuple[int, float]]] = [[] for _ in intervals]
    link_out: list[list[tuple[int, float]]] = [[] for _ in intervals]
    memory: list[list[tuple[int, float]]] = [[] for _ in range(count + 2)]
    free = np.full(count + 2, float(limit_bytes))
    touched = [set(storages_of(graph.ops[op])) for op in cuts.ops]
    for cut, op in enumerate(cuts.ops):
        free[cut] -= graph.ops[op].workspace_bytes + sum(graph.storages[s].bytes for s in touched[cut])
    groups = _alike(graph, cuts, touched, merged)
    columns: list[tuple[int, list[tuple[int, int]]]] = []
    for signature, storages in groups.items():
        one = signature[0]
        size = float(one * len(storages))
        in_time, out_time = (
            transfer_ns(one, link) * len(storages) / scale for link in (hardware.link_in, hardware.link_out)
        )
        columns.append(_add(program, signature, size, count, link_in, link_out, memory, free, in_time, out_time))
    for k, interval in enumerate(intervals):
        if hardware.duplex == "half":
            program.at_most([*link_in[k], *link_out[k], (interval, -1.0)], 0.0)
        else:
            program.at_most([*link_in[k], (interval, -1.0)], 0.0)
            program.at_most([*link_out[k], (interval, -1.0)], 0.0)
    unit = float(max(1, limit_bytes))
    for place, terms in enumerate(memory):
        if terms:
            program.at_most([(c, v / unit) for c, v in terms], float(free[place]) / unit)
    cost = np.zeros(program.columns)
    cost[intervals] = 1.0
    answer = program.minimise(cost)
    if answer is None:
        return Relaxation(0, cuts, np.zeros(count + 1), ())
    least, values = answer
    kinds = []
    for (home, resident), storages in zip(columns, groups.values(), strict=True):
        away = np.zeros(count)
        for cut, column in resident:
            away[cut] += 1 - values[column]
        kinds.append(Kind(tuple(storages), float(values[home]) if home >= 0 else 0.0, away))
    bound = int(least * scale * (1 - _TOLERANCE))
    return Relaxation(bound, cuts, values[intervals] * scale, tuple(kinds))


def _alike(
    graph: Graph, cuts: Cuts, touched: Sequence[set[int]], merged: Sequence[tuple[int, ...]]
) -> dict[_Signature, list[int]]:
    groups: dict[_Signature, list[int]] = {}
    earliest, latest = cuts.earliest.tolist(), cuts.latest.tolist()
    chain_of = {chain[0]: chain for chain in merged}
    inside = {s for chain in merged for s in chain[1:]}
    for storage in graph.storages:
        if storage.id in inside:
            continue
        chain = chain_of.get(storage.id, (storage.id,))
        size, whole = min(graph.storages[s].bytes for s in chain), versions_of(graph, storage.id)
        if len(chain) > 1:
            readers = tuple(r for s in chain for r in versions_of(graph, s)[0].readers)
            whole = [Version(whole[0].writer, readers, final=False)]
        versions = []
        for version in whole:
            written = (-1, -1) if version.writer is None else (earliest[version.writer], latest[version.writer])
            read = tuple(sorted({(earliest[r], latest[r]) for r in version.readers}))
            versions.append((*written, read, version.final))
        used = tuple(k for k, storages in enumerate(touched) if not storages.isdisjoint(chain))
        signature = (
            size,
            storage.persistent,
            graph.exists_at_start(storage.id),
            graph.lives_to_end(storage.id),
            tuple(versions),
            used,
        )
        groups.setdefault(signature, []).append(storage.id)
    return groups


def _add(
    program: LinearProgram,
    signature: _Signature,
    size: float,
    count: int,
    link_in: list[list[tuple[int, float]]],
    link_out: list[list[tuple[int, float]]],
    memory: list[list[tuple[int, float]]],
    free: NDArray[np.float64],
    in_time: float,
    out_time: float,
) -> tuple[int, list[tuple[int, int]]]:
    """Columns and rows of storages that are alike, ``size`` bytes together; ``in_time`` and ``out_time`` copy all.

    Returns the column of the part at home in the pool (-1: none) and (cut, column of the part on the device).
    """
    _, persistent, exists, lives, versions, used = signature
    home = program.column() if exists else -1
    if exists:
        # On the device at the start: 1 - home; `count` is the row of the start, `count + 1` of the end.
        memory[count].append((home, -size))
        free[count] -= size
    if lives:
        free[count + 1] -= size
        if persistent:
            memory[count + 1].append((home, -size))
    resident: list[tuple[int, int]] = []
    for low, high, readers, final in versions:
        initial = low < 0
        first = 0 if initial else high
        last = count - 1 if final else max((r[0] - 1 for r in readers), default=-1)
        needed = range(first, last + 1)
        begin = max(low, 0)
        end = count if final else max((r[1] for r in readers), default=last)
        copied_in = {k: program.column() for k in range(first, end + 1)} if (initial or len(needed)) else {}
        copied_out = {k: program.column() for k in range(begin, end + 1)} if (final or len(needed)) else {}
        for k, column in copied_in.items():
            link_in[k].append((column, in_time))
        for k, column in copied_out.items():
            link_out[k].append((column, out_time))
        on_device: dict[int, int] = {}
        for cut in needed:
            if cut in used:
                continue
            on_device[cut] = program.column()
            memory[cut].append((on_device[cut], size))
            resident.append((cut, on_device[cut]))

        def away(cut: int, sign: float, on_device: dict[int, int] = on_device) -> tuple[list[tuple[int, float]], float]:
            """``sign`` x the part away at a cut, as terms and a constant."""
            return ([(on_device[cut], -sign)], sign) if cut in on_device else ([], 0.0)

        for cut in needed:
            # What is away has a remote copy: made since the write, or there since the start.
            terms, constant = away(cut, 1.0)
            made = [(copied_out[k], -1.0) for k in range(begin, cut + 1)]
            program.at_most([*terms, *made, *([(home, -1.0)] if initial else [])], -constant)
            # What arrives between two cuts is copied in between them.
            now, now_constant = away(cut, -1.0)
            if cut > first:
                before, before_constant = away(cut - 1, 1.0)
                program.at_most([*now, *before, (copied_in[cut], -1.0)], -now_constant - before_constant)
            elif initial:
                program.at_most([*now, (home, 1.0), (copied_in[cut], -1.0)], -now_constant)
        for reader_low, reader_high in readers:
            # All of it is on the device at once when a reader runs.
            ahead = reader_low - 1
            if ahead in needed:
                terms, constant = away(ahead, 1.0)
                arriving = [(copied_in[k], -1.0) for k in range(reader_low, reader_high + 1)]
                program.at_most([*terms, *arriving], -constant)
            elif initial:
                program.at_most([(home, 1.0), *((copied_in[k], -1.0) for k in range(reader_high + 1))], 0.0)
        if final:
            if len(needed):
                terms, constant = away(count - 1, 1.0)
                back = [(home, -1.0)] if persistent else []
                program.at_most([*terms, *back, (copied_in[count], -1.0)], -constant)
            if persistent and not initial:
                program.at_most([(home, 1.0), *((copied_out[k], -1.0) for k in range(begin, count + 1))], 0.0)
    return home, resident
