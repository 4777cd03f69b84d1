"""What no schedule can beat: the smallest feasible memory limit and a lower bound on the step time."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from hyperoffload_core.hardware import Hardware
from hyperoffload_core.ir import Graph, storages_of

NANOSECONDS = 1_000_000_000


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
    """
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


def step_lower_bound_ns(graph: Graph, durations_ns: Sequence[int], hardware: Hardware, limit_bytes: int) -> int:
    """No schedule of this graph on this hardware under this limit takes a shorter step.

    Three arguments. (1) Ops run one at a time, so the step takes at least the sum of their durations. (2) At the start
    of the step at most ``limit_bytes`` of what exists then are on the device; every other byte that an op reads before
    one overwrites it must come in, which keeps the in-link busy for bytes / bandwidth. (3) At the end at most
    ``limit_bytes`` of the persistent storages are on the device; a persistent byte that was written and does not end on
    the device must have gone out after its last write, so at least (written bytes - limit) go out. On a half-duplex
    link (2) and (3) add up.
    """
    used = [s for s in graph.storages if graph.exists_at_start(s.id) and graph.accesses[s.id]]
    wanted = sum(s.bytes for s in used if graph.accesses[s.id][0].reads)
    written = sum(s.bytes for s in graph.storages if s.persistent and any(a.writes for a in graph.accesses[s.id]))
    time_in = max(0, wanted - limit_bytes) * NANOSECONDS // hardware.link_in.bytes_per_s
    time_out = max(0, written - limit_bytes) * NANOSECONDS // hardware.link_out.bytes_per_s
    links = time_in + time_out if hardware.duplex == "half" else max(time_in, time_out)
    return max(sum(durations_ns), links)
