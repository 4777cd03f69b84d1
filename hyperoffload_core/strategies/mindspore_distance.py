"""Strategy `mindspore-distance`: MindSpore's static pass with fixed distances, the default of 2.10.

Source and assumptions: `strategies.mindspore_static`; the rule, with knobs by MindSpore's names:

1. In order of first consumption, a value with two neighbouring uses more than SELECT_DISTANCE ops apart is offloaded,
   until there are SELECT_NUM of them. (The source of late 2025 stops one earlier, which looks like a slip.)
2. One copy-out directly behind the producer. Compute waits for its end, and the memory is given back, RELEASE_DISTANCE
   ops behind the last user ahead of the gap.
3. One copy-in per gap, PREFETCH_DISTANCE ops ahead of the first user behind the gap, never ahead of the copy-out.

Durations, bandwidth, sizes and the memory limit play no part.
"""

from __future__ import annotations

from itertools import pairwise

from hyperoffload_core.analysis.lifetimes import uses_in_order
from hyperoffload_core.passes.directives import plan_of_leaves
from hyperoffload_core.passes.plan import Plan
from hyperoffload_core.strategies.base import Request, Strategy
from hyperoffload_core.strategies.mindspore_static import (
    OPTIONS,
    Distances,
    offloadable_values,
    remote_leaves,
    value_leaves,
)


def plan(request: Request) -> Plan:
    """Captured order; the plan may exceed the memory limit, which the pass does not know."""
    graph, options = request.graph, request.options
    order = range(len(graph.ops))
    uses = uses_in_order(graph, order)
    distances = Distances(lambda _: options["PREFETCH_DISTANCE"], lambda _: options["RELEASE_DISTANCE"])
    leaves = remote_leaves(graph, uses, request.actions, distances)
    left_to_select = options["SELECT_NUM"]
    for use in offloadable_values(graph, uses, request.actions):
        gaps = [i for i, (a, b) in enumerate(pairwise(use.positions)) if b - a > options["SELECT_DISTANCE"]]
        if gaps and left_to_select > 0:
            leaves += value_leaves(graph, use, gaps, distances)
            left_to_select -= 1
    return plan_of_leaves(graph, order, request.durations_ns, request.hardware, leaves)


STRATEGY = Strategy(
    name="mindspore-distance",
    title="MindSpore 2.10, distance",
    help="Values with far-apart uses leave; copies are issued a fixed number of ops ahead.",
    source="mindspore-ai/mindspore, static pass of HyperOffload (hierarchical_memory.cc); knobs of MindSpore 2.10.",
    plan=plan,
    leaves="what is used again more than SELECT_DISTANCE ops later, and parameters that a rule offloads",
    options=OPTIONS,
)
