"""A linear relaxation of the whole planning problem: what link capacity and memory demand, whatever the order of ops.

Per storage and value (`cuts.Version`) the linear program knows which part has arrived on the device at each cut and
which parts are copied in and out in each interval between cuts. Any schedule, with ops in any order, gives a solution
of it, so its optimum is a lower bound on the step time; docs/scheduling.md has the proof.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hyperoffload_core.analysis.cuts import Cuts, Version, versions_of
from hyperoffload_core.analysis.linear import LinearProgram
from hyperoffload_core.analysis.whole_moves import least_bytes_back, returning_storages
from hyperoffload_core.hardware import Hardware, transfer_ns
from hyperoffload_core.ir import Graph, storages_of

_TOLERANCE = 1e-6
"""By how much a bound is lowered so that the solver's own tolerance cannot make it too high."""

_Signature = tuple[
    int, bool, bool, bool, tuple[tuple[int, int, tuple[tuple[int, int], ...], bool], ...], tuple[int, ...]
]


def relaxed_bound_ns(
    graph: Graph,
    durations_ns: Sequence[int],
    hardware: Hardware,
    limit_bytes: int,
    cuts: Cuts,
    merged: Sequence[tuple[int, ...]] = (),
) -> int:
    """What every step takes at least, in ns: the optimum of the relaxation for the given cuts, with the
    `cuts.either_or` chains of one of them merged; 0 where the solver gave no answer."""
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
    returning, back = set(returning_storages(graph)), list[tuple[int, float]]()
    for signature, storages in groups.items():
        ahead = [len(terms) for terms in link_in]
        one = signature[0]
        size = float(one * len(storages))
        in_time, out_time = (
            transfer_ns(one, link) * len(storages) / scale for link in (hardware.link_in, hardware.link_out)
        )
        _add(program, signature, size, count, link_in, link_out, memory, free, in_time, out_time)
        if storages[0] in returning:
            back += [(c, size) for terms, known in zip(link_in, ahead, strict=True) for c, _ in terms[known:]]
    for k, interval in enumerate(intervals):
        if hardware.duplex == "half":
            program.at_most([*link_in[k], *link_out[k], (interval, -1.0)], 0.0)
        else:
            program.at_most([*link_in[k], (interval, -1.0)], 0.0)
            program.at_most([*link_out[k], (interval, -1.0)], 0.0)
    unit = float(max(1, limit_bytes))
    if (least := least_bytes_back(graph, limit_bytes)) > 0:
        program.at_most([(c, -v / unit) for c, v in back], -least / unit)
    for place, terms in enumerate(memory):
        if terms:
            program.at_most([(c, v / unit) for c, v in terms], float(free[place]) / unit)
    cost = np.zeros(program.columns)
    cost[intervals] = 1.0
    answer = program.minimise(cost)
    return 0 if answer is None else int(answer[0] * scale * (1 - _TOLERANCE))


def _alike(
    graph: Graph, cuts: Cuts, touched: Sequence[set[int]], merged: Sequence[tuple[int, ...]]
) -> dict[_Signature, list[int]]:
    groups: dict[_Signature, list[int]] = {}
    windows = list(zip(cuts.earliest.tolist(), cuts.latest.tolist(), strict=True))
    used_at: dict[int, list[int]] = {}
    for cut, storages in enumerate(touched):
        for s in storages:
            used_at.setdefault(s, []).append(cut)
    chain_of = {chain[0]: chain for chain in merged}
    inside = {s for chain in merged for s in chain[1:]}
    known = versions_of(graph)
    for storage in graph.storages:
        if storage.id in inside:
            continue
        size, whole, used = storage.bytes, known[storage.id], used_at.get(storage.id, ())
        if (chain := chain_of.get(storage.id)) is not None:
            size = min(graph.storages[s].bytes for s in chain)
            whole = (Version(whole[0].writer, tuple(r for s in chain for r in known[s][0].readers), final=False),)
            used = sorted({cut for s in chain for cut in used_at.get(s, ())})
        versions = []
        for version in whole:
            written = (-1, -1) if version.writer is None else windows[version.writer]
            versions.append((*written, tuple(sorted({windows[r] for r in version.readers})), version.final))
        signature = (
            size,
            storage.persistent,
            graph.exists_at_start(storage.id),
            graph.lives_to_end(storage.id),
            tuple(versions),
            tuple(used),
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
) -> None:
    """Columns and rows of storages that are alike, ``size`` bytes together; ``in_time`` and ``out_time`` copy all."""
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
