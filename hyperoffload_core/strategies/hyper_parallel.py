"""Strategy `hyper-parallel`: the greedy residency planner of MindSpore's hyper-parallel, longest gap first.

Source: github.com/mindspore-ai/hyper-parallel, `hyper_parallel/auto_parallel/hyper_offload/` (`planning/greedy.py`,
`execution/replay/executor.py`, `runtime/residency.py`), Apache-2.0, with its shipped defaults. The rule:

1. Activations count on the device from their first to their last access. Candidates are neighbouring accesses of one
   activation with an op between them, the longest (in ops) first, then the larger, then the earlier.
2. One sweep: while some op is over the budget, a candidate that covers such an op is taken.
3. The copy-out is issued behind the last write before the gap, the device copy is dropped behind the gap's left access
   without waiting, and the copy-in is issued only when the op at its right is next. One copy stream carries both
   directions and waits for compute ahead of every copy.

It knows sizes and a budget; durations, bandwidth and everything that is no activation are nothing to it.

Assumed: activations are all storages that an op of the step produces. In the original, a storage that leaves, comes
back, is written and leaves again is not copied out a second time and comes back stale; here it is copied, and a note
counts these cases. An exhausted host pool is an error there and a note here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from hyperoffload_core.analysis.lifetimes import Uses, uses_in_order
from hyperoffload_core.analysis.liveness import live_peak_bytes
from hyperoffload_core.ir import Graph
from hyperoffload_core.passes.directives import Leave, plan_of_leaves
from hyperoffload_core.passes.plan import Plan
from hyperoffload_core.sizes import format_bytes
from hyperoffload_core.strategies.base import Option, Request, Strategy

_MIB = 1 << 20
_SMALLEST_BUCKET_BYTES, _LARGEST_BUCKET_BYTES = 1 << 10, 1 << 31


@dataclass(frozen=True, slots=True)
class _Candidate:
    """Neighbouring accesses ``left`` and ``right`` (positions); ``index`` numbers the gap of its storage."""

    storage: int
    index: int
    left: int
    right: int
    bytes: int


def plan(request: Request) -> Plan:
    """Captured order; the plan may exceed the memory limit.

    Kept storages are what `@skip_offload` marks; `offload` rules change nothing.
    """
    graph, options = request.graph, request.options
    order = range(len(graph.ops))
    uses = [
        use
        for use in uses_in_order(graph, order)
        if use.positions and not use.exists_at_start and request.actions[use.storage] != "keep"
    ]
    budget_bytes = options["max_resident_activation_mb"] * _MIB or request.limit_bytes - _given_bytes(graph)
    taken, peak_bytes = _sweep(graph, uses, budget_bytes)
    leaves = [Leave(c.storage, c.index, fetch_after=c.right - 1) for c in taken]
    found = plan_of_leaves(graph, order, request.durations_ns, request.hardware, leaves, one_stream=True)
    notes = []
    if peak_bytes > budget_bytes:
        over = format_bytes(peak_bytes - budget_bytes)
        notes.append(f"activations stay {over} over their budget of {format_bytes(budget_bytes)}, which is no error")
    elif not taken and live_peak_bytes(graph) > request.limit_bytes:
        notes.append(
            f"nothing moves: activations need at most {format_bytes(peak_bytes)}, which is within their budget of "
            f"{format_bytes(budget_bytes)} (max_resident_activation_mb)"
        )
    notes += _host_notes(uses, taken, options["max_offload_activation_mb"] * _MIB)
    return replace(found, notes=tuple(notes))


def _given_bytes(graph: Graph) -> int:
    return sum(s.bytes for s in graph.storages if graph.exists_at_start(s.id))


def _sweep(graph: Graph, uses: Sequence[Uses], budget_bytes: int) -> tuple[list[_Candidate], int]:
    """The candidates taken, and the modelled peak of activations that remains."""
    curve = np.zeros(len(graph.ops) + 1, np.int64)
    candidates: list[_Candidate] = []
    for use in uses:
        size, positions = graph.storages[use.storage].bytes, use.positions
        curve[positions[0] : positions[-1] + 1] += size
        candidates += [
            _Candidate(use.storage, i, left, right, size)
            for i, (left, right) in enumerate(pairwise(positions))
            if right - left > 1
        ]
    taken = []
    over = curve > budget_bytes
    for candidate in sorted(candidates, key=lambda c: (c.left - c.right, -c.bytes, c.left, c.storage)):
        if not over.any():
            break
        inside = slice(candidate.left + 1, candidate.right)
        if over[inside].any():
            taken.append(candidate)
            curve[inside] -= candidate.bytes
            over[inside] = curve[inside] > budget_bytes
    return taken, int(curve.max(initial=0))


def _host_notes(uses: Sequence[Uses], taken: Sequence[_Candidate], pool_bytes: int) -> list[str]:
    """What the original would fail at: its pinned pool, and values it would bring back stale."""
    by_storage = {use.storage: use for use in uses}
    copied_at: dict[int, int] = {}
    stale = 0
    for c in sorted(taken, key=lambda c: c.left):
        use = by_storage[c.storage]
        last_write = max(p for p, w in zip(use.positions, use.writes, strict=True) if w and p <= c.left)
        if c.storage in copied_at and last_write > copied_at[c.storage]:
            stale += 1
        copied_at.setdefault(c.storage, last_write)
    events: list[tuple[int, int]] = []
    sizes = {c.storage: c.bytes for c in taken}
    for storage, position in copied_at.items():
        bucket = _bucket_bytes(sizes[storage])
        events += [(position, bucket), (by_storage[storage].positions[-1] + 1, -bucket)]
    host, peak = 0, 0
    for _, change in sorted(events):
        host += change
        peak = max(peak, host)
    notes = []
    if peak > pool_bytes:
        notes.append(
            f"needs {format_bytes(peak)} of pinned host memory; hyper-parallel stops with an error at its pool of "
            f"{format_bytes(pool_bytes)}"
        )
    if stale:
        notes.append(f"copies-out of rewritten storages that hyper-parallel leaves out, to reload them stale: {stale}")
    return notes


def _bucket_bytes(size: int) -> int:
    """Bytes the pinned pool takes for a copy: a power of two, or whole largest buckets."""
    if size > _LARGEST_BUCKET_BYTES:
        return -(-size // _LARGEST_BUCKET_BYTES) * _LARGEST_BUCKET_BYTES
    return max(_SMALLEST_BUCKET_BYTES, 1 << (size - 1).bit_length())


STRATEGY = Strategy(
    name="hyper-parallel",
    title="hyper-parallel (greedy residency)",
    help="Activations leave in their longest gaps until a budget holds; copies back are made when an op needs them.",
    source="github.com/mindspore-ai/hyper-parallel, hyper_parallel/auto_parallel/hyper_offload (Apache-2.0), RFC 693.",
    plan=plan,
    options=(
        Option(
            "max_resident_activation_mb",
            1024,
            "MiB of activations that may stay on the device; 0: what the limit leaves beside parameters and inputs.",
            minimum=0,
        ),
        Option(
            "max_offload_activation_mb",
            65536,
            "MiB of the pinned host pool; a note says when it is exhausted.",
            minimum=0,
        ),
    ),
)
