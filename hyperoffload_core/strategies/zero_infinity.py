"""Strategy `zero-infinity`: weights, gradients and optimizer states in the pool, fetched layer by layer."""

from __future__ import annotations

from hyperoffload_core.analysis.lifetimes import uses_in_order
from hyperoffload_core.passes.directives import plan_of_leaves
from hyperoffload_core.passes.order import captured_order
from hyperoffload_core.passes.plan import Plan
from hyperoffload_core.strategies.base import Option, Request, Strategy
from hyperoffload_core.strategies.layers import flowing_weights, layer_visits, movable_weights
from hyperoffload_core.strategies.updates import (
    bucket_ends,
    elements_of,
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


def plan(request: Request) -> Plan:
    """Weights come ahead of their layer and leave behind it; behind backward the optimizer goes through tiles.

    Weights of at least ``param_persistence_threshold`` elements are in the pool. Those of a layer are issued
    ``prefetch_depth`` layers ahead, forward and backward, and given back behind it. Gradients leave in buckets during
    backward. Behind it the optimizer takes ``sub_group_size`` elements at a time: reads a tile (states, gradients,
    weights) whole, updates it, writes it. Without ``pipeline_read`` a tile is read when the one before is updated, with
    it while that is updated; without ``pipeline_write`` the next tile waits until a tile is written.

    Assumed: layers are the members of the outermost list of cells (`layers.layer_of`); the look-ahead of the copies is
    2 layers, as the paper's example has it for CPU to GPU. The pool stands for CPU and NVMe alike: ``buffer_count``,
    ``buffer_size`` and ``max_in_cpu`` size staging in CPU memory, which is not modelled, nor are
    ``stage3_max_live_parameters`` and ``stage3_max_reuse_distance``. On a full-duplex link a tile is read while the one
    before is written even when nothing is pipelined.

    The system's update runs on the CPU, which a schedule here cannot say: tiles come to the device instead. Per
    parameter the link carries 8 + 2 + 2 bytes in and 8 + 2 out for the update (fp32 moments, gradient, weight)
    where the system reads and writes states between CPU and NVMe and moves none of them over the device's link.
    Against states in CPU memory the step shown is too long where that link is slow beside the CPU's update, else
    too short; against states on NVMe it is too short, since NVMe is slower than any link here.
    """
    graph, options = request.graph, request.options
    order = captured_order(graph)
    uses = uses_in_order(graph, order)
    all_updates = parameter_updates(graph)
    updates = offloaded_share(all_updates, ratio_of(options))
    tiles = grouped(all_updates, lambda u: u.elements, int(options["sub_group_size"]))
    at = windows(tiles, order)
    traffic = streamed(
        at,
        1 if options["pipeline_read"] else 0,
        at[0][0] - 1 if at else -1,
        whole=True,
        hold_writes=not options["pipeline_write"],
    )
    by_readiness = sorted(all_updates, key=lambda u: ready_at(u, uses, order))
    buckets = grouped(by_readiness, lambda u: u.elements, int(options["reduce_bucket_size"]))
    away = set(updates)
    leaves = states_in_pool([tuple(u for u in t if u in away) for t in tiles], traffic, uses, request.actions)
    leaves += gradients_away(tiles, traffic, bucket_ends(buckets, uses, order), uses, order, request.actions)
    threshold = int(options["param_persistence_threshold"])
    weights = [s for s in movable_weights(graph, request.actions) if elements_of(graph, s) >= threshold]
    in_tile = {u.op: moves for tile, moves in zip(tiles, traffic, strict=True) for u in tile}
    leaves += flowing_weights(uses, layer_visits(graph, order), weights, int(options["prefetch_depth"]), in_tile)
    return plan_of_leaves(graph, order, request.durations_ns, request.hardware, leaves)


STRATEGY = Strategy(
    name="zero-infinity",
    title="ZeRO-Infinity",
    help="Weights, gradients and optimizer states live in the pool; weights come layer by layer, updates tile by tile.",
    source="ZeRO-Infinity, arXiv 2104.07857; knobs of DeepSpeed's ZeRO stage 3, with its defaults.",
    plan=plan,
    leaves="weights of param_persistence_threshold elements and more, optimizer states and gradients",
    options=(
        Option("prefetch_depth", 2, "Layers ahead at which weights are issued; 0: when needed.", minimum=0),
        Option("pipeline_read", False, "Read the next tile while one is updated."),
        Option("pipeline_write", False, "Update the next tile while one is written."),
        Option("sub_group_size", 1_000_000_000, "Parameter elements per tile of the optimizer.", minimum=1),
        Option("reduce_bucket_size", 500_000_000, "Gradient elements per bucket that leaves.", minimum=1),
        Option("param_persistence_threshold", 100_000, "Weights with fewer elements stay on the device.", minimum=0),
        Option("ratio", 1.0, "Share of the parameters whose optimizer states leave, 0 to 1.", minimum=0),
    ),
)
