"""Strategy `superoffload`: ZeRO-Offload rethought for chips whose host memory is close (GH200)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from hyperoffload_core.analysis.lifetimes import Uses, uses_in_order
from hyperoffload_core.hardware import transfer_ns
from hyperoffload_core.passes.directives import Leave, plan_of_leaves
from hyperoffload_core.passes.order import captured_order
from hyperoffload_core.passes.plan import Plan
from hyperoffload_core.strategies.base import Option, Request, Strategy
from hyperoffload_core.strategies.layers import Visit, flowing_weights, layer_visits, movable_weights
from hyperoffload_core.strategies.planned import compute_end_ns, planned_peak_bytes, step_end_ns
from hyperoffload_core.strategies.saved import backward_begin
from hyperoffload_core.strategies.updates import (
    Group,
    bucket_ends,
    gradients_away,
    grouped,
    order_with_updates_behind,
    parameter_updates,
    ready_at,
    states_in_pool,
    streamed,
    windows,
)

_MB = 1_000_000


def plan(request: Request) -> Plan:
    """States of all but the last buckets live in the pool; each bucket is updated as soon as its gradients are there.

    *Buckets* of ``bucket_size_mb`` of gradients in the order in which backward completes them. The last n' of them keep
    their states and gradients on the device: n' is the smallest number with which nothing is being copied any more when
    the last op has run, as far as that fits the limit; else as many as fit (``retain_buckets`` fixes it: -1 searches).
    *Speculation*: the updates of a bucket run right behind its last gradient; off (``speculative_step``): behind all of
    backward, and then gradients leave bucket by bucket and come back. *Weights* are stationary (on the device) or flow
    (home in the pool, issued one layer ahead). ``auto`` lets them flow if the stationary plan exceeds the limit and the
    efficiency, compute / (compute + copies of the weights in both passes), is at least ``weight_flow_efficiency``.

    Assumed: that threshold (the published texts give none; 0.5 means that copies take no longer than compute) and
    that flow is not wanted where stationary weights fit; DeepSpeed's ``ratio`` (share of the states on the CPU,
    0.90 in its examples) is what n' replaces. Not modelled: ``cpuadam_cores_perc``, ``pin_memory``, NUMA binding;
    the rollback when validation fails (0.12 % of steps); a graph that clips by the global norm has to see all
    gradients before any update, and its updates run behind that whatever is asked for.

    The system's update runs on the CPU (Grace), which a schedule here cannot say: states come to the device for the
    update and go back. Per parameter the link carries 8 bytes in and 8 out (fp32 moments) where the system moves 4 out
    (gradient cast to fp32) and 2 in (weight). So copies are overstated and CPU time is not counted: over NVLink-C2C the
    step shown is near or somewhat below the system's, over PCIe too long.
    """
    mode = str(request.options["weights"])
    stationary = _plan_for(request, flow=False) if mode != "flow" else None
    if stationary is not None and (mode == "stationary" or not _should_flow(request, stationary)):
        return stationary
    return _plan_for(request, flow=True)


def _should_flow(request: Request, stationary: Plan) -> bool:
    if planned_peak_bytes(request.graph, stationary) <= request.limit_bytes:
        return False
    return flow_efficiency(request) >= float(request.options["weight_flow_efficiency"])


def flow_efficiency(request: Request) -> float:
    """compute / (compute + communication) of the passes when every weight comes in forward and backward."""
    graph = request.graph
    compute = sum(ns for op, ns in zip(graph.ops, request.durations_ns, strict=True) if op.phase != "optimizer")
    weights = [s for s in graph.storages if s.tensor_class == "weight" and s.persistent]
    phases = len({op.phase for op in graph.ops} - {"optimizer"})
    copies = phases * sum(transfer_ns(w.bytes, request.hardware.link_in) for w in weights)
    return compute / (compute + copies) if compute else 0.0


@dataclass(frozen=True)
class _Setting:
    order: tuple[int, ...]
    position: tuple[int, ...]
    uses: tuple[Uses, ...]
    buckets: tuple[Group, ...]
    visits: tuple[Visit, ...]
    flow: bool


def _plan_for(request: Request, *, flow: bool) -> Plan:
    graph = request.graph
    captured = captured_order(graph)
    captured_uses = uses_in_order(graph, captured)
    updates = sorted(parameter_updates(graph), key=lambda u: ready_at(u, captured_uses, captured))
    buckets = grouped(
        updates,
        lambda u: sum(graph.storages[s].bytes for s in u.gradients),
        int(request.options["bucket_size_mb"]) * _MB,
    )
    order = order_with_updates_behind(graph, buckets) if request.options["speculative_step"] else captured
    position = [0] * len(order)
    for place, op in enumerate(order):
        position[op] = place
    uses = captured_uses if order == captured else uses_in_order(graph, order)
    setting = _Setting(
        order, tuple(position), uses, tuple(buckets), tuple(layer_visits(graph, order) if flow else ()), flow
    )

    def with_retained(count: int) -> Plan:
        request.check_cancelled()
        leaves = _leaves(request, setting, count)
        return plan_of_leaves(graph, order, request.durations_ns, request.hardware, leaves)

    fixed = int(request.options["retain_buckets"])
    if fixed >= 0:
        return with_retained(min(fixed, len(buckets)))
    count, found = retained_buckets(
        with_retained, len(buckets), lambda p: planned_peak_bytes(graph, p), request.limit_bytes
    )
    note = f"{count} of {len(buckets)} buckets keep their optimizer states"
    return replace(found, notes=(*found.notes, note)) if buckets else found


def _leaves(request: Request, setting: _Setting, retained: int) -> list[Leave]:
    graph, uses, position = request.graph, setting.uses, setting.position
    buckets = setting.buckets[: len(setting.buckets) - retained]
    at = windows(buckets, position)
    speculative = bool(request.options["speculative_step"])
    backward = backward_begin(graph, setting.order)
    start = min(backward if speculative else at[0][0], at[0][0]) - 1 if at else -1
    traffic = streamed(at, 1, start)
    leaves = states_in_pool(buckets, traffic, uses, request.actions)
    if not speculative:
        ends = bucket_ends(buckets, uses, position)
        leaves += gradients_away(buckets, traffic, ends, uses, position, request.actions)
    if setting.flow:
        weights = movable_weights(graph, request.actions)
        all_at = windows(setting.buckets, position)
        moves = streamed(all_at, 1, start)
        in_bucket = {position[u.op]: t for b, t in zip(setting.buckets, moves, strict=True) for u in b}
        leaves += flowing_weights(uses, setting.visits, weights, 1, in_bucket, stay_for_update=speculative)
    return leaves


def retained_buckets(
    make: Callable[[int], Plan], buckets: int, peak_bytes: Callable[[Plan], int], limit_bytes: int
) -> tuple[int, Plan]:
    """n' and its plan: the fewest retained buckets without a copy behind the last op, within the limit.

    Both the peak and the time behind the last op are taken to change one way with n', so halving finds the ends. If no
    number under the limit brings that time to nothing, the largest that fits; if none fits, 0.
    """
    made: dict[int, Plan] = {}

    def of(count: int) -> Plan:
        if count not in made:
            made[count] = make(count)
        return made[count]

    if peak_bytes(of(0)) > limit_bytes:
        return 0, of(0)
    most = _first(0, buckets + 1, lambda n: peak_bytes(of(n)) > limit_bytes) - 1
    count = _first(0, most, lambda n: step_end_ns(of(n)) <= compute_end_ns(of(n)))
    return count, of(count)


def _first(low: int, high: int, holds: Callable[[int], bool]) -> int:
    """The first number from ``low`` on for which a condition holds that then keeps holding; ``high`` if none below."""
    while low < high:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle + 1
    return low


STRATEGY = Strategy(
    name="superoffload",
    title="SuperOffload",
    help="Buckets are updated during backward, their states streamed; weights stay or flow; the last buckets stay.",
    source="SuperOffload, arXiv 2509.21271, and DeepSpeed's blog on it.",
    plan=plan,
    leaves="optimizer states, gradients and weights of parameter updates",
    options=(
        Option("weights", "auto", "Where the weights live.", choices=("auto", "stationary", "flow")),
        Option("bucket_size_mb", 64, "Gradients per bucket, MB.", minimum=1),
        Option("retain_buckets", -1, "Last buckets whose states stay on the device; -1: search.", minimum=-1),
        Option("speculative_step", True, "Update each bucket during backward."),
        Option("weight_flow_efficiency", 0.5, "Least compute / (compute + copies) for weights to flow.", minimum=0),
    ),
)
