"""Weights that flow through the device layer by layer, as parameter offloading does."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hyperoffload_core.analysis.lifetimes import Uses
from hyperoffload_core.ir import Graph, Op, storages_of
from hyperoffload_core.passes.directives import Leave
from hyperoffload_core.passes.selection import WRAP
from hyperoffload_core.policy import Action
from hyperoffload_core.strategies.updates import Traffic

_MEMBER = re.compile(r"^\d+-")


@dataclass(frozen=True, slots=True)
class Visit:
    """Ops of one layer in a row: positions of its first and last op that uses a weight."""

    first: int
    last: int


def layer_of(op: Op) -> str:
    """The outermost member of a list of cells in the op's scope (a block); without one, the whole scope.

    Forward and backward ops of a layer have the same; an op without a scope is a layer by itself.
    """
    if not op.scope:
        return f"op {op.id}"
    parts = op.scope.removeprefix("Gradients/").split("/")
    member = next((i for i, part in enumerate(parts) if _MEMBER.match(part)), len(parts) - 1)
    return "/".join(parts[: member + 1])


def layer_visits(graph: Graph, order: Sequence[int]) -> list[Visit]:
    """Runs of ops of one layer, counting only ops outside the optimizer that use a weight, in sequence."""
    found: list[tuple[str, int, int]] = []
    for position, op_id in enumerate(order):
        op = graph.ops[op_id]
        if op.phase == "optimizer" or not any(_is_weight(graph, s) for s in storages_of(op)):
            continue
        layer = layer_of(op)
        if found and found[-1][0] == layer:
            found[-1] = (layer, found[-1][1], position)
        else:
            found.append((layer, position, position))
    return [Visit(first, last) for _, first, last in found]


def movable_weights(graph: Graph, actions: Sequence[Action]) -> list[int]:
    """Weights that live beyond the step and that no rule keeps."""
    return [s.id for s in graph.storages if _is_weight(graph, s.id) and actions[s.id] != "keep"]


def _is_weight(graph: Graph, storage: int) -> bool:
    return graph.storages[storage].persistent and graph.storages[storage].tensor_class == "weight"


def flowing_weights(
    uses: Sequence[Uses],
    visits: Sequence[Visit],
    weights: Sequence[int],
    depth: int,
    updates: Mapping[int, Traffic],
    *,
    stay_for_update: bool = False,
) -> list[Leave]:
    """The weights have their home in the pool and are on the device for the visits that use them only.

    The weights of a visit are issued when the visit ``depth`` visits before it begins (0: when the op that needs them
    is the next to run), in both passes. ``updates[position]`` is the traffic of the optimizer op there, which fetches
    them anew unless they ``stay_for_update``.
    """
    visit_at = {p: v for v, visit in enumerate(visits) for p in range(visit.first, visit.last + 1)}

    def unit(position: int) -> Traffic | int | None:
        return updates[position] if position in updates else visit_at.get(position)

    leaves = []
    for storage in weights:
        positions = uses[storage].positions
        if not positions:
            leaves.append(Leave(storage, WRAP))
            continue
        for gap in (WRAP, *range(len(positions) - 1)):
            left, right = (positions[-1], positions[0]) if gap == WRAP else (positions[gap], positions[gap + 1])
            coming, leaving = unit(right), unit(left)
            if gap != WRAP and (coming == leaving or (stay_for_update and right in updates)):
                continue
            fetch, fetch_wait = None, None
            if isinstance(coming, Traffic):
                fetch, fetch_wait = coming.fetch_after, coming.fetch_wait_before
            elif coming is not None and depth:
                fetch = visits[coming - depth].first - 1 if coming >= depth else -1
            out, wait = (leaving.store_after, leaving.wait_before) if isinstance(leaving, Traffic) else (left, None)
            leaves.append(Leave(storage, gap, out, wait, fetch, fetch_wait))
    return leaves
