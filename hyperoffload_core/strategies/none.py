"""Strategy `none`: nothing moves. The baseline that every memory limit in percent refers to."""

from __future__ import annotations

from itertools import accumulate, pairwise

from hyperoffload_core.analysis.lifetimes import uses_in_order
from hyperoffload_core.passes.insertion import insert_cache_operators
from hyperoffload_core.passes.plan import Plan
from hyperoffload_core.strategies.base import Request, Strategy


def plan(request: Request) -> Plan:
    """Captured order, every storage on the device from its first write (or the start) to its last use (or the end)."""
    graph = request.graph
    order = tuple(range(len(graph.ops)))
    inserted = insert_cache_operators(graph, uses_in_order(graph, order), [()] * len(graph.storages), ())
    ends = [0, *accumulate(request.durations_ns)]
    spans = tuple(
        (ends[max(stay.begin, 0)], ends[-1] if stay.to_end else ends[stay.last + 1]) for stay in inserted.stays
    )
    links: tuple[tuple[int, ...], ...] = ((),) if request.hardware.duplex == "half" else ((), ())
    return Plan(order, inserted.stays, (), links, inserted.homes, spans, tuple(pairwise(ends)))


STRATEGY = Strategy(
    name="none",
    title="No offload",
    help="Everything stays on the device, in captured order.",
    source="The baseline of every published comparison.",
    plan=plan,
)
