"""Cuts through a step that every order of the ops passes, and what surely exists at them.

Cuts are the starts of ops that lie on one path of dependencies, so every schedule passes them in this order. At a cut
an op of which the cut's op is a descendant has surely ended, one that descends from it (or is it) has surely not
started. Between two cuts lies an interval, interval k ahead of cut k. A storage has one value ("version") at the start
of the step, if it exists then, and one per write.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hyperoffload_core.analysis.liveness import captured_live_bytes
from hyperoffload_core.hardware import Hardware
from hyperoffload_core.ir import Graph, kept_with_graph

_SPREAD_CUTS = 4
"""Cuts spread evenly over the path, beside those chosen for what is needed there."""


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
    peak = int(np.argmax(captured_live_bytes(graph)))
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
    for storage, versions in zip(graph.storages, versions_of(graph), strict=True):
        for version in versions:
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


@kept_with_graph
def versions_of(graph: Graph) -> tuple[tuple[Version, ...], ...]:
    """The values each storage has in the course of a step, in captured order."""
    return tuple(_versions(graph, storage.id) for storage in graph.storages)


def _versions(graph: Graph, storage: int) -> tuple[Version, ...]:
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
    return tuple(result)


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
