"""Strategy `deepcompile`: offload every saved activation, profile the floor, bring back what fits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from hyperoffload_core.analysis.lifetimes import uses_in_order
from hyperoffload_core.analysis.liveness import live_bytes
from hyperoffload_core.ir import Graph
from hyperoffload_core.passes.directives import Leave, plan_of_leaves
from hyperoffload_core.passes.order import captured_order
from hyperoffload_core.passes.plan import Plan
from hyperoffload_core.sizes import format_bytes
from hyperoffload_core.strategies.base import Option, Request, Strategy
from hyperoffload_core.strategies.saved import Saved, backward_begin, saved_activations

_FLOATING_POINT = ("float", "bfloat", "hifloat")


def plan(request: Request) -> Plan:
    """Activations leave synchronously behind their last forward use; as many stay as fit above the floor.

    1. Every floating-point activation of at least ``offload_act_min_size_mb`` moves. 2. The peak of the forward pass is
    then the floor; the budget is the memory limit less ``offload_act_margin``. 3. Largest first, an activation stays if
    it fits into what is left between floor and budget. 4. Reloads are issued as `reload_issues` says.

    Assumed: the profile of the backward pass is taken with each moved activation there from its first backward use on;
    memory that is no tensor (the margin's reason) does not exist here, so the margin is its floor of 10 %; the measured
    copy rate is the link's.
    """
    graph, options = request.graph, request.options
    order = captured_order(graph)
    uses, begin = uses_in_order(graph, order), backward_begin(graph, order)
    least = float(options["offload_act_min_size_mb"]) * (1 << 20)
    candidates = [
        s
        for s in saved_activations(graph, uses, begin)
        if request.actions[s.storage] != "keep"
        and graph.storages[s.storage].bytes >= least
        and graph.storages[s.storage].dtype.startswith(_FLOATING_POINT)
    ]
    given = float(options["offload_act_budget_gb"]) * 1e9
    budget = int(given or request.limit_bytes * (1 - float(options["offload_act_margin"])))
    resident = live_bytes(graph, order)
    floor = int(live_without(graph, resident, candidates)[:begin].max(initial=0))
    moved = stay_out(graph, candidates, budget - floor)
    issues = reload_issues(
        moved,
        [graph.storages[s.storage].bytes for s in moved],
        request.hardware.link_in.bytes_per_s,
        [request.durations_ns[op] for op in order],
        live_without(graph, resident, moved),
        budget,
        begin,
    )
    leaves = [
        Leave(s.storage, s.gap, s.last_forward, s.last_forward + 1, issue)
        for s, issue in zip(moved, issues, strict=True)
    ]
    found = plan_of_leaves(graph, order, request.durations_ns, request.hardware, leaves)
    if leaves:
        return found
    if candidates:
        note = f"nothing moves: every activation fits above the floor in the budget of {format_bytes(budget)}"
    else:
        smallest = format_bytes(int(least))
        note = (
            "nothing moves: no floating-point activation that is saved for the backward pass has at least "
            f"{smallest} (offload_act_min_size_mb)"
        )
    return replace(found, notes=(note,))


def live_without(graph: Graph, resident: NDArray[np.int64], moved: Sequence[Saved]) -> NDArray[np.int64]:
    """Live bytes by position when the activations are away between their last forward and first backward use."""
    change = np.zeros(len(resident) + 1, np.int64)
    for s in moved:
        change[s.last_forward + 1] -= graph.storages[s.storage].bytes
        change[s.first_backward] += graph.storages[s.storage].bytes
    return resident + np.cumsum(change[:-1])


def stay_out(graph: Graph, candidates: Sequence[Saved], headroom_bytes: int) -> list[Saved]:
    """Largest first, candidates that fit into the headroom are brought back; the others, in their old sequence."""
    back = set()
    for s in sorted(candidates, key=lambda s: -graph.storages[s.storage].bytes):
        size = graph.storages[s.storage].bytes
        if size <= headroom_bytes:
            back.add(s.storage)
            headroom_bytes -= size
    return [s for s in candidates if s.storage not in back]


def reload_issues(
    moved: Sequence[Saved],
    sizes: Sequence[int],
    bytes_per_s: int,
    op_ns: Sequence[int],
    live: Sequence[int] | NDArray[np.int64],
    budget_bytes: int,
    begin: int,
) -> list[int]:
    """The position behind which each reload is issued, by the backward rule.

    In order of first use: walk back from the consumer, adding up op times (``op_ns`` by position), until they cover the
    copy, or the pass begins, or at the next op the profiled memory, everything reloaded so far and this activation
    exceed the budget. Bytes reloaded count for good, as in the system, even after their last use.
    """
    issues = [0] * len(moved)
    reloaded = 0
    for number in sorted(range(len(moved)), key=lambda n: moved[n].first_backward):
        position, elapsed = moved[number].first_backward, 0
        copy_ns = sizes[number] / bytes_per_s * 1e9
        while position > begin and elapsed < copy_ns and live[position - 1] + reloaded + sizes[number] <= budget_bytes:
            position -= 1
            elapsed += op_ns[position]
        issues[number] = position - 1
        reloaded += sizes[number]
    return issues


STRATEGY = Strategy(
    name="deepcompile",
    title="DeepCompile activation offload",
    help="All large activations leave at once; those that fit above the floor stay; reloads look at memory and time.",
    source="DeepSpeed, deepspeed/compile/passes/offload_activation.py; DeepCompile, arXiv 2504.09983.",
    plan=plan,
    options=(
        Option("offload_act_margin", 0.1, "Share of the memory limit that is left alone.", minimum=0, maximum=1),
        Option("offload_act_budget_gb", 0.0, "Memory to plan for in GB; 0: the limit less the margin.", minimum=0),
        Option("offload_act_min_size_mb", 5.0, "Smaller activations (MiB) stay.", minimum=0),
    ),
)
