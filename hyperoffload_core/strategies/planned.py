"""What a plan that has times but no addresses is predicted to cost."""

from __future__ import annotations

import numpy as np

from hyperoffload_core.ir import Graph
from hyperoffload_core.metrics import peak_bytes
from hyperoffload_core.passes.plan import Plan


def planned_peak_bytes(graph: Graph, plan: Plan, since_ns: int = 0) -> int:
    """Most bytes live at once, workspaces included, from ``since_ns`` to the end of the step."""
    spans = np.array([*plan.spans_ns, *plan.op_spans_ns], np.int64).reshape(-1, 2)
    sizes = [graph.storages[stay.storage].bytes for stay in plan.stays]
    sizes += [graph.ops[op].workspace_bytes for op in plan.order]
    return peak_bytes(np.maximum(spans[:, 0], since_ns), np.maximum(spans[:, 1], since_ns), sizes)


def compute_end_ns(plan: Plan) -> int:
    return max((end for _, end in plan.op_spans_ns), default=0)


def step_end_ns(plan: Plan) -> int:
    """When the last op, and the last stay with its copy-out, has ended."""
    return max([compute_end_ns(plan), *(end for _, end in plan.spans_ns)])
