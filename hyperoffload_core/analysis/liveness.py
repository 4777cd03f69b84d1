"""Live bytes at every op of an order when nothing is offloaded."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hyperoffload_core.analysis.lifetimes import uses_in_order
from hyperoffload_core.ir import Graph, kept_with_graph


def live_bytes(graph: Graph, order: Sequence[int]) -> NDArray[np.int64]:
    """Bytes on the device while the op at each position runs, workspace included; shape (ops,).

    Persistent storages count for the whole step, inputs until their last use, outputs from their first write to the
    end, everything else from first to last access.
    """
    count = len(order)
    change = np.zeros(count + 1, np.int64)
    for uses in uses_in_order(graph, order):
        size = graph.storages[uses.storage].bytes
        if not uses.positions:
            if uses.exists_at_start and uses.lives_to_end:
                change[0] += size
                change[count] -= size
            continue
        change[0 if uses.exists_at_start else uses.positions[0]] += size
        change[count if uses.lives_to_end else uses.positions[-1] + 1] -= size
    live = np.cumsum(change[:count])
    return live + np.array([graph.ops[op].workspace_bytes for op in order], np.int64)


@kept_with_graph
def captured_live_bytes(graph: Graph) -> NDArray[np.int64]:
    """`live_bytes` of the captured order."""
    return live_bytes(graph, range(len(graph.ops)))


def live_peak_bytes(graph: Graph) -> int:
    """No-offload live peak in captured order: what a memory limit in percent refers to."""
    return int(captured_live_bytes(graph).max(initial=0))
