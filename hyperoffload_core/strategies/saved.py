"""Activations that the forward pass saves for the backward pass: what activation offloading moves.

The strategies that use this leave alone what a rule keeps; rules that say offload they do not follow, as the systems
know none.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from hyperoffload_core.analysis.lifetimes import Uses
from hyperoffload_core.ir import Graph


@dataclass(frozen=True, slots=True)
class Saved:
    """One activation and the gap between its last forward and its first backward use (positions of the order)."""

    storage: int
    gap: int
    last_forward: int
    first_backward: int


def backward_begin(graph: Graph, order: Sequence[int]) -> int:
    """Position of the first backward op, where the forward graph ends; the op count if there is no backward op."""
    return next((p for p, op in enumerate(order) if graph.ops[op].phase == "backward"), len(order))


def saved_activations(graph: Graph, uses: Sequence[Uses], begin: int) -> list[Saved]:
    """Storages of class activation that are used before and from position ``begin`` on, by their last forward use."""
    found = []
    for use in uses:
        gap = bisect_left(use.positions, begin) - 1
        if graph.storages[use.storage].tensor_class != "activation" or use.exists_at_start:
            continue
        if 0 <= gap < len(use.positions) - 1:
            found.append(Saved(use.storage, gap, use.positions[gap], use.positions[gap + 1]))
    return sorted(found, key=lambda s: (s.last_forward, s.storage))
