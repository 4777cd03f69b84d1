"""Strategy `deep-optimizer-states`: subgroups of optimizer states interleaved between host and device."""

from __future__ import annotations

from collections.abc import Sequence

from hyperoffload_core.analysis.lifetimes import uses_in_order
from hyperoffload_core.passes.directives import Leave, plan_of_leaves
from hyperoffload_core.passes.order import captured_order
from hyperoffload_core.passes.plan import Plan
from hyperoffload_core.strategies.base import Option, Request, Strategy
from hyperoffload_core.strategies.planned import planned_peak_bytes
from hyperoffload_core.strategies.updates import (
    Traffic,
    bucket_ends,
    gradients_away,
    grouped,
    offloaded_share,
    parameter_updates,
    ratio_of,
    states_in_pool,
    streamed,
    windows,
)


def plan(request: Request) -> Plan:
    """Behind the backward pass every ``update_stride``-th subgroup is moved ahead of time, the others at their turn.

    Subgroups of ``sub_group_size`` parameters have their states in the pool. With stride k, subgroups k, 2k, ...
    are the device's: their copy-in begins when the device's subgroup before them is updated and runs while the
    subgroups between are, their copy-out runs beside what follows. That needs the room of two subgroups above what
    is live then; where the limit does not leave it, no copy runs ahead. With ``backward_offload`` gradients leave
    during backward, each behind its op.

    Assumed: the stride (the authors alternate, k = 2; their formula for it is not published), its default and that of
    ``sub_group_size`` (100 million), the names of the knobs, and ``ratio`` as DeepSpeed's (the first parameters stay).

    The subgroups in between are the CPU's in the system and never move. A schedule here runs every update on the
    device, so in place of the CPU's time stands a synchronous copy: a host subgroup is copied in when its turn has
    come, compute waits until it is whole, and again until it is written back. Per parameter of a host subgroup that
    is 8 + 2 bytes in and 8 out in place of one CPU update: the step shown is too long where the link is slower than
    the CPU's update, else too short; and a device subgroup's copies compete with those copies, as they do not in
    the system.
    """
    graph, options = request.graph, request.options
    order = captured_order(graph)
    uses = uses_in_order(graph, order)
    updates = offloaded_share(parameter_updates(graph), ratio_of(options))
    groups = grouped(updates, lambda u: u.elements, int(options["sub_group_size"]))
    at = windows(groups, order)

    def planned(traffic: Sequence[Traffic]) -> Plan:
        leaves: list[Leave] = states_in_pool(groups, traffic, uses, request.actions)
        if options["backward_offload"]:
            ends = bucket_ends([(u,) for u in updates], uses, order)
            leaves += gradients_away(groups, traffic, ends, uses, order, request.actions)
        return plan_of_leaves(graph, order, request.durations_ns, request.hardware, leaves)

    start = at[0][0] - 1 if at else -1
    in_turn = planned(streamed(at, 0, start, whole=True, hold_writes=True))
    if not groups:
        return in_turn
    spans = dict(zip(order, in_turn.op_spans_ns, strict=True))
    live = planned_peak_bytes(graph, in_turn, since_ns=spans[order[at[0][0]]][0])
    largest = max(sum(graph.storages[s].bytes for u in g for s in u.states) for g in groups)
    # The plan in turn already holds one subgroup at its peak.
    if live + largest > request.limit_bytes:
        return in_turn
    return planned(interleaved(at, int(options["update_stride"]), start))


def interleaved(at: Sequence[tuple[int, int]], stride: int, start: int) -> list[Traffic]:
    """Traffic of subgroups whose windows are ``at``: every ``stride``-th one ahead and unwaited, the others in turn."""
    in_turn = streamed(at, 0, start, whole=True, hold_writes=True)
    ahead = streamed(at, max(1, stride - 1), start, whole=True)
    return [ahead[g] if (g + 1) % stride == 0 else in_turn[g] for g in range(len(at))]


STRATEGY = Strategy(
    name="deep-optimizer-states",
    title="Deep Optimizer States",
    help="Every k-th subgroup of optimizer states is copied ahead while the others take their turn.",
    source="Deep Optimizer States, arXiv 2410.21316.",
    plan=plan,
    leaves="optimizer states and gradients of parameter updates",
    options=(
        Option("sub_group_size", 100_000_000, "Parameter elements per subgroup.", minimum=1),
        Option("update_stride", 2, "Every how many subgroups one is the device's.", minimum=1),
        Option("ratio", 1.0, "Share of the parameters whose optimizer states leave, 0 to 1.", minimum=0),
        Option("backward_offload", True, "Gradients leave during the backward pass."),
    ),
)
