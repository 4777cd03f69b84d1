"""Strategy `zero-offload`: optimizer states on the host, gradients leaving during the backward pass."""

from __future__ import annotations

from hyperoffload_core.analysis.lifetimes import uses_in_order
from hyperoffload_core.passes.directives import plan_of_leaves
from hyperoffload_core.passes.order import captured_order
from hyperoffload_core.passes.plan import Plan
from hyperoffload_core.strategies.base import Option, Request, Strategy
from hyperoffload_core.strategies.updates import (
    bucket_ends,
    gradients_away,
    grouped,
    offloaded_share,
    parameter_updates,
    ratio_of,
    ready_at,
    states_in_pool,
    streamed,
    windows,
)

_BUFFERS_OF_AN_UPDATE = 4


def plan(request: Request) -> Plan:
    """States live in the pool; gradients leave in buckets during backward; then parameter after parameter is updated.

    As in the system: weights and activations stay on the device, a bucket of gradients is copied out once it is full,
    and no update begins before the backward pass has ended.

    The system's update runs on the CPU and overlaps with nothing, which a schedule here cannot say. In place of the
    CPU's time stands a synchronous copy: the states and the gradient of a parameter come to the device when its
    turn has come, and the next turn waits until they are written back. Of ``buffer_count`` buffers one update takes
    4 (weight, gradient, two moments; DeepSpeed's count of them for NVMe), so from 8 on the states of the next
    parameters come ahead and nothing waits for what is written back. Per parameter the link carries 8 (fp32
    moments) + 2 (gradient) bytes in and 2 + 8 out where the system moves 2 out (gradient) and 2 in (updated
    weight). The step shown is too long where the link is slower than the CPU's update, else too short.

    Left out: the delayed parameter update (it changes what is computed), ``pin_memory`` (the link's rate is that of
    pinned memory), ``fast_init``. Captured updates that are not behind the backward pass stay where they are.
    """
    graph, options = request.graph, request.options
    order = captured_order(graph)
    uses = uses_in_order(graph, order)
    updates = offloaded_share(parameter_updates(graph), ratio_of(options))
    groups = [(u,) for u in updates]
    at = windows(groups, order)
    under_way = max(1, int(options["buffer_count"]) // _BUFFERS_OF_AN_UPDATE)
    traffic = streamed(at, under_way - 1, at[0][0] - 1 if at else -1, whole=under_way == 1, hold_writes=under_way == 1)
    by_readiness = sorted(updates, key=lambda u: ready_at(u, uses, order))
    buckets = grouped(by_readiness, lambda u: u.elements, int(options["reduce_bucket_size"]))
    leaves = states_in_pool(groups, traffic, uses, request.actions)
    leaves += gradients_away(groups, traffic, bucket_ends(buckets, uses, order), uses, order, request.actions)
    return plan_of_leaves(graph, order, request.durations_ns, request.hardware, leaves)


STRATEGY = Strategy(
    name="zero-offload",
    title="ZeRO-Offload",
    help="Optimizer states live in the pool; gradients leave during backward; updates follow one by one.",
    source="ZeRO-Offload, arXiv 2101.06840; knobs of DeepSpeed's offload_optimizer, with its defaults.",
    plan=plan,
    leaves="optimizer states and gradients of parameter updates",
    options=(
        Option("ratio", 1.0, "Share of the parameters whose optimizer states leave, 0 to 1.", minimum=0),
        Option("buffer_count", 4, "Buffers for states under way; one update takes 4.", minimum=1),
        Option("reduce_bucket_size", 500_000_000, "Gradient elements per bucket that leaves.", minimum=1),
    ),
)
