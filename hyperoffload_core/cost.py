"""How long each op takes: modelled from a hardware's roofline, or measured by the executor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hyperoffload_core.errors import UserError
from hyperoffload_core.hardware import Hardware
from hyperoffload_core.ir import Graph, Op
from hyperoffload_core.recording import Profile

# These read only the rows they return, however large the table they index.
_PARTIAL_READERS = frozenset({"Gather", "GatherD", "GatherNd", "EmbeddingLookup", "Slice", "StridedSlice", "SliceExt"})


class CostError(UserError):
    """Durations that cannot be had; the message says what is missing."""


@dataclass(frozen=True)
class Durations:
    """``ns[op]`` in captured order (each at least 1) and, in words, where they come from."""

    ns: tuple[int, ...]
    source: str


def roofline_durations(graph: Graph, hardware: Hardware) -> Durations:
    """The longer of compute time and memory time at the stated efficiencies, plus the fixed cost of an op.

    An op moves every byte it reads and every byte it writes (an in-place op both); ops that pick rows of a table move
    the rows only. Raises `CostError` for a hardware without compute numbers.
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


def moved_bytes(graph: Graph, op: Op) -> int:
    """Bytes the op reads from and writes to device memory, by the rule of `roofline_durations`."""
    written = sum(graph.storages[s].bytes for s in op.writes)
    read = sum(graph.storages[s].bytes for s in op.reads)
    return written + (min(read, 2 * written) if op.primitive in _PARTIAL_READERS else read)


def measured_durations(profiles: Sequence[Profile]) -> Durations:
    """Median per op over all steps of measured profiles of one graph.

    Raises `CostError` when there is none, when one is a prediction, or when they belong to different graphs.
    """
    if not profiles:
        raise CostError("no profile to take op durations from")
    graph = profiles[0].schedule.graph
    if any(p.kind != "measured" for p in profiles):
        raise CostError("op durations can be taken from measured profiles only, and one of these is a prediction")
    if any(p.schedule.graph.hash != graph.hash for p in profiles):
        raise CostError("the profiles belong to different graphs, so their op durations cannot be combined")
    ops = np.concatenate([p.ops.op for p in profiles])
    elapsed = np.concatenate([p.ops.end_ns - p.ops.start_ns for p in profiles])
    by_op = np.lexsort((elapsed, ops))
    ops, elapsed = ops[by_op], elapsed[by_op]
    ids, first, counts = np.unique(ops, return_index=True, return_counts=True)
    if len(ids) != len(graph.ops):
        missing = next(op.name for op in graph.ops if op.id not in set(ids.tolist()))
        raise CostError(f"the profiles hold no event of op {missing!r}")
    medians = elapsed[first + (counts - 1) // 2]
    steps = sum(p.step_count for p in profiles)
    title = profiles[0].schedule.hardware.title
    return Durations(
        tuple(max(1, int(m)) for m in medians),
        f"measured on {title}, median of {steps} step{'s' if steps != 1 else ''}",
    )
