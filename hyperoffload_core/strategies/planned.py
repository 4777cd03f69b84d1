"""What a plan is predicted to cost."""

from __future__ import annotations

import numpy as np

from hyperoffload_core.ir import Graph
from hyperoffload_core.metrics import peak_bytes
from hyperoffload_core.passes.plan import Plan
from hyperoffload_core.passes.timing import time_plan
from hyperoffload_core.simulator import DeadlockError
from hyperoffload_core.strategies.base import Request

NEVER = 1 << 62
"""Longer than any step, ns."""


def plan_step_ns(request: Request, plan: Plan) -> int:
    """What the step of a plan with addresses takes; `NEVER` where it waits in a circle."""
    try:
        return time_plan(request.graph, plan, request.durations_ns, request.hardware)[2]
    except DeadlockError:
        return NEVER


def planned_peak_bytes(graph: Graph, plan: Plan, since_ns: int = 0) -> int:
    """Most bytes live at once, workspaces included, by the plan's own times from ``since_ns`` to the end."""
    spans = np.array([*plan.spans_ns, *plan.op_spans_ns], np.int64).reshape(-1, 2)
    sizes = [graph.storages[stay.storage].bytes for stay in plan.stays]
    sizes += [graph.ops[op].workspace_bytes for op in plan.order]
    return peak_bytes(np.maximum(spans[:, 0], since_ns), np.maximum(spans[:, 1], since_ns), sizes)


def compute_end_ns(plan: Plan) -> int:
    return max((end for _, end in plan.op_spans_ns), default=0)


def step_end_ns(plan: Plan) -> int:
    """When by the plan's own times the last op, and the last stay with its copy-out, has ended."""
    return max([compute_end_ns(plan), *(end for _, end in plan.spans_ns)])
