"""What no schedule can beat: the smallest feasible memory limit and a lower bound on the step time."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from threading import Lock

from hyperoffload_core.analysis.at_work import at_work_bound_ns
from hyperoffload_core.analysis.cuts import either_or, promising_cuts
from hyperoffload_core.analysis.memory_time import memory_time_bound_ns
from hyperoffload_core.analysis.relaxation import relaxed_bound_ns
from hyperoffload_core.hardware import Hardware
from hyperoffload_core.ir import Graph, kept_with_graph, storages_of

_KEPT = 32
_known: OrderedDict[tuple[str, tuple[int, ...], Hardware, int], int] = OrderedDict()
"""Bounds worked out last: a compile asks for its bound twice, every strategy under one limit for the same."""
_known_lock = Lock()


@dataclass(frozen=True)
class SmallestLimit:
    """``op`` is the op whose working set sets the limit; None when it is the step's end (``outputs``)."""

    bytes: int
    op: int | None
    working_set: tuple[int, ...]


def smallest_feasible_limit(graph: Graph, kept: Collection[int] = ()) -> SmallestLimit:
    """The smallest memory limit any schedule that only moves data can meet.

    While an op runs, all it reads and writes, its workspace and every storage in ``kept`` (which a policy pins to the
    device) are on the device; when the step ends, its outputs and the kept storages are. Nothing else has to be: every
    other storage can be in the pool between any two ops, at whatever cost in time. So the maximum over ops is both
    necessary and, as `strategies.paging` shows by construction, sufficient.

    With kept storages that are made in the step it counts their lives in captured order, and bytes only: as they never
    change their addresses, there may be room for an op in bytes and not in one piece (`strategies.kept_places`).
    """
    return _smallest_limit(graph, kept) if kept else _smallest_limit_of_all(graph)


@kept_with_graph
def _smallest_limit_of_all(graph: Graph) -> SmallestLimit:
    return _smallest_limit(graph, ())


def _smallest_limit(graph: Graph, kept: Collection[int]) -> SmallestLimit:
    pinned = {s for s in kept if graph.exists_at_start(s) and graph.lives_to_end(s)}
    pinned_bytes = sum(graph.storages[s].bytes for s in pinned)
    ends = {s.id for s in graph.storages if s.tensor_class == "output"} | pinned
    best = SmallestLimit(sum(graph.storages[s].bytes for s in ends), None, tuple(sorted(ends)))
    lifetimes = _kept_lifetimes(graph, [s for s in kept if s not in pinned])
    for op in graph.ops:
        touched = set(storages_of(op))
        size = op.workspace_bytes + sum(graph.storages[s].bytes for s in touched - pinned) + pinned_bytes
        also = {s for s, (first, last) in lifetimes.items() if first <= op.id <= last and s not in touched}
        size += sum(graph.storages[s].bytes for s in also)
        if size > best.bytes:
            best = SmallestLimit(size, op.id, tuple(sorted(touched | pinned | also)))
    return best


def _kept_lifetimes(graph: Graph, kept: Sequence[int]) -> dict[int, tuple[int, int]]:
    result = {}
    for storage in kept:
        ops = [a.op for a in graph.accesses[storage]]
        if ops:
            last = len(graph.ops) if graph.lives_to_end(storage) else ops[-1]
            result[storage] = (-1 if graph.exists_at_start(storage) else ops[0], last)
    return result


def step_lower_bound_ns(
    graph: Graph, durations_ns: Sequence[int], hardware: Hardware, limit_bytes: int, *, recomputed: bool = False
) -> int:
    """No schedule of this graph on this hardware under this limit takes a shorter step.

    Ops run one at a time, so the step takes at least the sum of their durations; at least as long as the linear
    relaxation of everything that has to move (`analysis.relaxation`); and long enough for transfers to take memory
    while they run (`analysis.memory_time` and, where that says more, `analysis.at_work`). Only the first holds for
    schedules that may run ops again instead of moving what they made (``recomputed``).
    """
    compute = sum(durations_ns)
    if recomputed or not graph.ops:
        return compute
    key = (graph.hash, tuple(durations_ns), hardware, limit_bytes)
    with _known_lock:
        if key in _known:
            return _known[key]
    cuts, tightest = promising_cuts(graph, durations_ns, hardware, limit_bytes)
    merged = either_or(graph, cuts, tightest)
    ways = [(), merged] if merged else [()]
    bound = max(compute, *(relaxed_bound_ns(graph, durations_ns, hardware, limit_bytes, cuts, way) for way in ways))
    averaged = memory_time_bound_ns(graph, durations_ns, hardware, limit_bytes, bound)
    if averaged > bound:
        bound = at_work_bound_ns(graph, durations_ns, hardware, limit_bytes, averaged)
    with _known_lock:
        _known[key] = bound
        while len(_known) > _KEPT:
            _known.popitem(last=False)
    return bound
