"""How long each op takes: modelled from a hardware's roofline, or measured by the executor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hyperoffload_core.errors import UserError
from hyperoffload_core.hardware import Hardware
from hyperoffload_core.ir import Graph, Op
from hyperoffload_core.recording import Profile

# These read only the rows they return, however large the table they index.
_PARTIAL_READERS = frozenset({"Gather", "GatherD", "GatherNd", "EmbeddingLookup", "Slice", "StridedSlice", "SliceExt"})
# These write only the rows they are given into what they update in place, and do not read what was there.
_PARTIAL_WRITERS = frozenset(
    {"ScatterUpdate", "ScatterNdUpdate", "ReshapeAndCache", "KVCacheScatterUpdate", "InplaceIndexCopy"}
)


class CostError(UserError):
    """Durations that cannot be had; the message says what is missing."""


@dataclass(frozen=True)
class Durations:
    """``ns[op]`` in captured order and, in words, where they come from. Raises `CostError` for one below 1 ns: what
    takes no time would begin and end in no order."""

    ns: tuple[int, ...]
    source: str

    def __post_init__(self) -> None:
        if min(self.ns, default=1) < 1:
            op = next(op for op, ns in enumerate(self.ns) if ns < 1)
            raise CostError(f"op {op} takes {self.ns[op]} ns; a duration is at least 1 ns")


def roofline_durations(graph: Graph, hardware: Hardware) -> Durations:
    """The longer of compute time and memory time at the stated efficiencies, plus the fixed cost of an op.

    An op moves every byte it reads and every byte it writes (an in-place op both); ops that pick rows of a table, or
    write rows into one in place, move the rows only. Raises `CostError` for a hardware without compute numbers.
    """
    compute = hardware.compute
    if compute is None:
        raise CostError(f"hardware {hardware.name!r} has no [compute] numbers, so op durations must be measured on it")
    flops_per_ns = compute.flops_per_s * compute.flops_efficiency / 1e9
    bytes_per_ns = compute.memory_bytes_per_s * compute.memory_efficiency / 1e9
    ns = tuple(
        max(1, compute.op_overhead_ns + round(max(op.flops / flops_per_ns, moved_bytes(graph, op) / bytes_per_ns)))
        for op in graph.ops
    )
    return Durations(ns, f"roofline of {hardware.title}")


def original_durations(graph: Graph, durations: Durations) -> Durations:
    """Those of the ops of ``graph.original``, of durations that are one per op of ``graph``."""
    ns = tuple(ns for op, ns in zip(graph.ops, durations.ns, strict=True) if op.recompute_of is None)
    return Durations(ns, durations.source)


def moved_bytes(graph: Graph, op: Op) -> int:
    """Bytes the op reads from and writes to device memory, by the rule of `roofline_durations`."""
    written = sum(graph.storages[s].bytes for s in op.writes)
    read = sum(graph.storages[s].bytes for s in op.reads)
    if op.primitive in _PARTIAL_READERS:
        return written + min(read, 2 * written)
    if op.primitive in _PARTIAL_WRITERS:
        updated = sum(graph.storages[s].bytes for s in set(op.reads) & set(op.writes))
        given = read - updated
        return given + min(updated, given) + written - updated
    return written + read


def measured_durations(profiles: Sequence[Profile]) -> Durations:
    """Median per op over all steps of measured profiles of one graph, scaled alike for all ops so that together they
    take as long as they did in the median step (the sum of medians is less: now and then any op is slow).

    Where nothing was transferred, an op's time begins when the op before it ended, so that it holds the cost of
    launching it. Raises `CostError` when there is no profile, when one is a prediction, or for different graphs.
    """
    if not profiles:
        raise CostError("no profile to take op durations from")
    graph = profiles[0].schedule.graph
    if any(p.kind != "measured" for p in profiles):
        raise CostError("op durations can be taken from measured profiles only, and one of these is a prediction")
    if any(p.schedule.graph.hash != graph.hash for p in profiles):
        raise CostError("the profiles belong to different graphs, so their op durations cannot be combined")
    elapsed = np.concatenate([_elapsed(p) for p in profiles])
    medians = np.median(elapsed, axis=0)
    scale = float(np.median(elapsed.sum(axis=1))) / max(1.0, float(medians.sum()))
    steps = len(elapsed)
    return Durations(
        tuple(max(1, round(ns)) for ns in (medians * scale).tolist()),
        f"measured on {profiles[0].schedule.hardware.title}, median of {steps} step{'s' if steps != 1 else ''}",
    )


def profile_durations(profile: Profile) -> Durations:
    """What to compile the graph of a profile again with, per op of ``graph.original``: of a measured one
    `measured_durations`; of a prediction those it was made with, so that the same policy is predicted to take the same
    time again. In a session those are not the ones that its schedule was planned with before."""
    schedule, ops = profile.schedule, profile.ops
    if profile.kind == "measured":
        return original_durations(schedule.graph, measured_durations([profile]))
    first = ops.step == 0
    took = np.ones(len(schedule.durations_ns), dtype=np.int64)
    took[ops.op[first]] = np.maximum(1, (ops.end_ns - ops.start_ns)[first])
    ns, source = tuple(took.tolist()), schedule.duration_source
    if ns != tuple(schedule.durations_ns):
        source = f"those the step was predicted with (planned: {source})"
    return original_durations(schedule.graph, Durations(ns, source))


def _elapsed(profile: Profile) -> NDArray[np.int64]:
    """Time of each op in each step, (steps, ops), columns by op id."""
    graph, events = profile.schedule.graph, profile.ops
    in_order = np.lexsort((events.start_ns, events.step))
    ops, start, end = events.op[in_order], events.start_ns[in_order], events.end_ns[in_order]
    if len(ops) != profile.step_count * len(graph.ops):
        missing = next(op.name for op in graph.ops if (ops == op.id).sum() != profile.step_count)
        raise CostError(f"the profile does not hold one event per step of op {missing!r}")
    shape = (profile.step_count, len(graph.ops))
    begin = start.reshape(shape)
    if not profile.schedule.transfers:
        begin = np.concatenate([np.zeros((shape[0], 1), np.int64), end.reshape(shape)[:, :-1]], axis=1)
    elapsed = np.empty(shape, np.int64)
    np.put_along_axis(elapsed, ops.reshape(shape), end.reshape(shape) - begin, axis=1)
    return elapsed
