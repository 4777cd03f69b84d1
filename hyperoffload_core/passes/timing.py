"""Event times of a plan: what it waits for, and when everything then happens."""

from __future__ import annotations

from collections.abc import Sequence

from hyperoffload_core.hardware import Hardware, transfer_ns
from hyperoffload_core.ir import Graph
from hyperoffload_core.passes.events import Edges, Occupant, bind_events
from hyperoffload_core.passes.plan import Plan, Stay, moved_bytes
from hyperoffload_core.simulator import EventTimes, event_times


def time_plan(
    graph: Graph, plan: Plan, durations_ns: Sequence[int], hardware: Hardware
) -> tuple[Edges, EventTimes, int]:
    """Edges, times and the step's duration in ns; without offsets as if every stay had memory of its own.

    ``durations_ns`` is indexed by op id. Raises `DeadlockError` where the plan waits in a circle.
    """
    edges = bind_events(plan, _occupants(graph, plan))
    transfers_ns = [
        transfer_ns(moved_bytes(graph, t), hardware.link_out if t.kind == "store" else hardware.link_in)
        for t in plan.transfers
    ]
    times = event_times(
        plan.order,
        edges.op_waits,
        plan.links,
        edges.after_ops,
        edges.after_transfers,
        durations_ns,
        transfers_ns,
    )
    return edges, times, max(int(times.op_end.max(initial=0)), int(times.transfer_end.max(initial=0)))


def stay_spans(plan: Plan, times: EventTimes, step_ns: int) -> tuple[tuple[int, int], ...]:
    """(start, end) of each stay in ns: from its Prefetch, its first op or the start of the step to its last op, the end
    of its Store or the end of the step."""
    result, last_part = [], plan.last_parts()
    for stay in plan.stays:
        if stay.fetch is not None:
            start = int(times.transfer_start[stay.fetch])
        else:
            start = int(times.op_start[plan.order[stay.begin]]) if stay.begin >= 0 else 0
        end = int(times.op_end[plan.order[stay.last]]) if stay.last >= 0 else 0
        if stay.store is not None:
            end = max(end, int(times.transfer_end[last_part[stay.store]]))
        result.append((start, step_ns if stay.to_end else end))
    return tuple(result)


def _occupants(graph: Graph, plan: Plan) -> list[Occupant]:
    if plan.offsets is None:
        return []
    occupants = [
        Occupant(stay, offset, graph.storages[stay.storage].bytes, span[0])
        for stay, offset, span in zip(plan.stays, plan.offsets, plan.spans_ns, strict=True)
    ]
    occupants += [
        Occupant(
            Stay(-1, position, position, to_end=False),
            offset,
            graph.ops[plan.order[position]].workspace_bytes,
            plan.op_spans_ns[position][0],
        )
        for position, offset in plan.workspace_offsets
    ]
    return occupants
