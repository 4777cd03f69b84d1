"""Strategy `recompute`: sublinear memory cost by recomputation; nothing moves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import ceil, sqrt

import numpy as np
from numpy.typing import NDArray

from hyperoffload_core.analysis.liveness import live_peak_bytes
from hyperoffload_core.ir import Graph
from hyperoffload_core.passes.addresses import pack_plan
from hyperoffload_core.passes.plan import Plan
from hyperoffload_core.passes.recomputation import Recomputation, Versions, ops_again, recompute, repeatable
from hyperoffload_core.policy import Action
from hyperoffload_core.strategies import none
from hyperoffload_core.strategies.base import Option, Request, Strategy

_TRIES = 3


def plan(request: Request) -> Plan:
    """The forward ops are cut into segments; of each but the last only what later segments read is kept, and the rest
    runs again ahead of the first op of the backward pass that reads it. Captured order, everything on the device.

    A layer is a stretch between two places of the forward pass where few bytes cross; segments are cut there, by
    cumulative bytes of the activations the backward pass reads. Tried are the square root of the number of layers, its
    doubles, and by bisection the fewest segments whose live peak meets the limit: the fewer, the longer the last one,
    whose ops need no second run. Of all that meet the limit the quickest is taken; if none does, of those with the
    lowest peak.

    Stays with the device copy: what a rule says to keep (rules that say offload are not followed), results of ops that
    cannot run again (random, in place, or reading what was overwritten meanwhile).
    """
    forward = _Forward(request.graph, request.actions)
    asked = int(request.options["segments"])
    if asked:
        return _packed(request, _recomputed(forward, asked))[0]
    aim_bytes = request.limit_bytes
    for _ in range(_TRIES):
        graph = _searched(request, forward, aim_bytes)
        packed, height = _packed(request, graph)
        if height <= request.limit_bytes or live_peak_bytes(graph) > aim_bytes:
            break
        aim_bytes -= height - request.limit_bytes  # addresses with holes in between: leave them room
    return packed


def _packed(request: Request, graph: Graph) -> tuple[Plan, int]:
    """The plan that keeps everything of the graph on the device, and the height of its addresses."""
    capacity_bytes = max(request.limit_bytes, live_peak_bytes(graph))
    packed, height = pack_plan(graph, none.plan(request.of(graph)), capacity_bytes)
    return (packed if graph is request.graph else replace(packed, graph=graph)), height


def _searched(request: Request, forward: _Forward, aim_bytes: int) -> Graph:
    """As few segments as possible for a live peak of ``aim_bytes``, or for the lowest there is."""
    graphs: dict[int, Graph] = {1: request.graph}
    peaks: dict[int, int] = {1: live_peak_bytes(request.graph)}

    def peak(segments: int) -> int:
        if segments not in graphs:
            request.check_cancelled()
            request.progress(len(graphs) / 20, f"trying {segments} segments")
            graphs[segments] = _recomputed(forward, segments)
            peaks[segments] = live_peak_bytes(graphs[segments])
        return peaks[segments]

    layers = len(forward.cuts) + 1
    tried = ceil(sqrt(layers))
    while tried < layers:
        peak(tried)
        tried = 2 * tried
    peak(layers)
    reached = max(aim_bytes, min(peaks.values()))
    low, high = 1, min(n for n, p in peaks.items() if p <= reached)
    while low < high:
        middle = (low + high) // 2
        if peak(middle) <= reached:
            high = middle
        else:
            low = middle + 1
    good = [n for n in graphs if peaks[n] <= reached]
    return graphs[min(good, key=lambda n: (sum(request.durations_ns[o] for o in graphs[n].origins), n))]


class _Forward:
    """What the segments are made of: the forward ops, the places to cut between them, and who reads what.

    ``saved[op]`` are bytes the op leaves for the backward pass; ``crossing[op]`` bytes of activations made up to it and
    read by later forward ops.
    """

    def __init__(self, graph: Graph, actions: Sequence[Action]) -> None:
        self.graph = graph
        self.versions = Versions(graph)
        self.ops = [op.id for op in graph.ops if op.phase == "forward"]
        self.place = {op: n for n, op in enumerate(self.ops)}
        self.backward_readers: dict[int, list[int]] = {}  # of what may be dropped
        self.kept: set[int] = set()
        self.last_forward: dict[int, int] = {}  # storage made here -> place of its last reader here
        saved = np.zeros(len(self.ops), np.int64)
        crossing = np.zeros(len(self.ops) + 1, np.int64)
        for storage in graph.storages:
            accesses = graph.accesses[storage.id]
            if not accesses or accesses[0].op not in self.place or graph.exists_at_start(storage.id):
                continue
            first, writers = self.place[accesses[0].op], [a.op for a in accesses if a.writes]
            inside = [self.place[a.op] for a in accesses if a.op in self.place]
            self.last_forward[storage.id] = max(inside)
            crossing[first] += storage.bytes
            crossing[max(inside)] -= storage.bytes
            readers = [a.op for a in accesses if a.op not in self.place]
            if readers:
                saved[first] += storage.bytes
            if actions[storage.id] == "keep" or graph.lives_to_end(storage.id) or (readers and len(writers) > 1):
                self.kept.add(storage.id)
            elif readers:
                self.backward_readers[storage.id] = readers
        self.saved = np.cumsum(saved)
        self.crossing = np.cumsum(crossing[:-1])
        self.cuts = _low_places(self.crossing)

    def segments(self, count: int) -> list[tuple[int, int]]:
        """First and last place of each segment: at most ``count``, of about equal bytes of saved activations.

        Within a quarter of a segment around each even share the cut goes where fewest bytes cross.
        """
        if not self.ops:
            return []
        ends = {len(self.ops) - 1}
        for number in range(1, count if len(self.cuts) else 1):
            away = np.abs(self.saved[self.cuts] * count - int(self.saved[-1]) * number)
            near = away <= max(int(away.min()), int(self.saved[-1]) // 4)
            ends.add(int(self.cuts[np.lexsort((away, self.crossing[self.cuts], ~near))[0]]))
        last = sorted(ends)
        return list(zip([0, *(e + 1 for e in last[:-1])], last, strict=True))


def _low_places(crossing: NDArray[np.int64]) -> NDArray[np.int64]:
    """Places where fewer bytes cross than before and no more than behind: the ends of layers."""
    here, before, behind = crossing[1:-1], crossing[:-2], crossing[2:]
    return 1 + np.flatnonzero((here < before) & (here <= behind))


def _recomputed(forward: _Forward, count: int) -> Graph:
    items = [item for first, last in forward.segments(count)[:-1] if (item := _segment(forward, first, last))]
    return recompute(forward.graph, items) if items else forward.graph


def _segment(forward: _Forward, first: int, last: int) -> Recomputation | None:
    """What runs again for one segment, None where there is nothing to gain."""
    graph, versions = forward.graph, forward.versions
    inside = set(forward.ops[first : last + 1])
    dropped: dict[int, int] = {}  # storage -> the op that writes it
    for op in forward.ops[first : last + 1]:
        for storage in graph.ops[op].writes:
            if storage in forward.backward_readers and forward.last_forward[storage] <= last:
                dropped[storage] = op

    def available(storage: int, writer: int) -> bool:
        """What other segments made is there, what later ones read, what is kept, and what cannot be made again."""
        read_later = forward.last_forward.get(storage, len(forward.ops)) > last
        if writer not in inside or storage in forward.kept or read_later:
            return True
        return storage not in dropped and not repeatable(graph, graph.ops[writer])

    while dropped:
        readers = sorted({r for storage in dropped for r in forward.backward_readers[storage]})
        ops = ops_again(graph, versions, set(dropped.values()), readers[0], available)
        if ops is not None:
            return Recomputation(ops, readers[0], tuple(readers))
        lost = [s for s, op in dropped.items() if ops_again(graph, versions, (op,), readers[0], available) is None]
        for storage in lost:
            del dropped[storage]
    return None


STRATEGY = Strategy(
    name="recompute",
    title="Recomputation (sublinear memory)",
    help="Keeps what crosses between segments of the forward pass and runs the rest again in the backward pass.",
    source="Training Deep Nets with Sublinear Memory Cost, arXiv 1604.06174: segments under a budget. Assumed: where "
    "the forward pass may be cut, which the paper leaves to the user.",
    plan=plan,
    leaves="what the forward pass makes and the backward pass reads, to be made again",
    options=(Option("segments", 0, "segments of the forward pass; 0: as many as the memory limit needs", minimum=0),),
)
