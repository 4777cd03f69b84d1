"""Parameter updates of a training step: which storages an optimizer op works on, grouped, ordered and moved.

Published systems that keep optimizer states in host memory run the update there. A schedule here runs every op on the
device, once, with all it touches on the device, so in their place the states (and what else their update reads) come to
the device for the update and go back; each strategy says what that means for its numbers. What a rule keeps never
moves; rules that say offload are not followed, as the systems know none.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from hyperoffload_core.analysis.lifetimes import Uses
from hyperoffload_core.ir import Graph, Op, storages_of
from hyperoffload_core.passes.directives import Leave
from hyperoffload_core.passes.selection import WRAP
from hyperoffload_core.policy import Action
from hyperoffload_core.strategies.base import StrategyError


@dataclass(frozen=True, slots=True)
class Update:
    """An optimizer op, and the storages it works on by what they are.

    ``states`` are those that updates write: a learning rate or a step counter is read by all and belongs to none.
    ``gradients`` are what the backward pass hands over. ``elements``: parameters it updates (of the states, for an
    op without weights).
    """

    op: int
    weights: tuple[int, ...]
    states: tuple[int, ...]
    gradients: tuple[int, ...]
    elements: int


Group = tuple[Update, ...]


@dataclass(frozen=True, slots=True)
class Traffic:
    """When what a group of updates needs comes and goes, in positions of the order; see `directives.Leave`."""

    fetch_after: int
    store_after: int
    wait_before: int | None = None
    fetch_wait_before: int | None = None


def parameter_updates(graph: Graph) -> tuple[Update, ...]:
    """Ops of the optimizer phase that bring a gradient, or what became of it, into a weight or state; by op id."""
    ops = [op for op in graph.ops if op.phase == "optimizer" and _takes_a_gradient(graph, op)]
    written = {s for op in ops for s in op.writes}
    before = {s for op in graph.ops if op.phase != "optimizer" for s in op.writes}
    found = []
    for op in ops:
        touched = [graph.storages[s] for s in storages_of(op)]
        weights = tuple(s.id for s in touched if s.tensor_class == "weight")
        states = tuple(s.id for s in touched if s.tensor_class == "optimizer_state" and s.id in written)
        gradients = tuple(s.id for s in touched if not s.persistent and s.id in before and s.tensor_class != "output")
        elements = sum(elements_of(graph, s) for s in weights) or max(
            (elements_of(graph, s) for s in states), default=0
        )
        found.append(Update(op.id, weights, states, gradients, elements))
    return tuple(found)


def _takes_a_gradient(graph: Graph, op: Op) -> bool:
    """Whether it writes something persistent, working on a weight or on what the step makes (no step counter)."""
    touched = [graph.storages[s] for s in storages_of(op)]
    writes = any(graph.storages[s].persistent for s in op.writes)
    return writes and any(s.tensor_class == "weight" or not s.persistent for s in touched)


def elements_of(graph: Graph, storage: int) -> int:
    return prod(graph.storages[storage].shape)


def grouped(updates: Sequence[Update], size: Callable[[Update], int], most: int) -> list[Group]:
    """Consecutive updates together, as long as their sizes stay within ``most``; a larger one is a group by itself."""
    groups: list[list[Update]] = []
    filled = 0
    for update in updates:
        if groups and filled + size(update) <= most:
            groups[-1].append(update)
            filled += size(update)
        else:
            groups.append([update])
            filled = size(update)
    return [tuple(g) for g in groups]


def ratio_of(options: Mapping[str, Any]) -> float:
    """The option ``ratio``. Raises `StrategyError` above 1."""
    ratio = float(options["ratio"])
    if ratio > 1:
        raise StrategyError(f"option 'ratio' is {ratio:g}; it is a share, from 0 to 1")
    return ratio


def offloaded_share(updates: Sequence[Update], ratio: float) -> tuple[Update, ...]:
    """The updates whose states leave when a share ``ratio`` of the parameters does; the first parameters stay."""
    total, passed = sum(u.elements for u in updates), 0
    away = []
    for update in updates:
        if passed >= (1 - ratio) * total and ratio > 0:
            away.append(update)
        passed += update.elements
    return tuple(away)


def ready_at(update: Update, uses: Sequence[Uses], position: Sequence[int]) -> int:
    """Position behind which the gradients of an update are complete (-1 without any)."""
    at = position[update.op]
    return max((p for s in update.gradients for p in uses[s].positions if p < at), default=-1)


def windows(groups: Sequence[Group], position: Sequence[int]) -> list[tuple[int, int]]:
    """First and last position of each group's ops."""
    places = [[position[u.op] for u in g] for g in groups]
    return [(min(p), max(p)) for p in places]


def streamed(
    at: Sequence[tuple[int, int]], ahead: int, start: int, *, whole: bool = False, hold_writes: bool = False
) -> list[Traffic]:
    """Groups one after the other through the device; ``at`` are their `windows`.

    While a group is updated the ``ahead`` following ones may be on their way; none is before position ``start`` has
    run. ``whole``: the first op of a group waits for all of the group. ``hold_writes``: the op behind a group waits for
    what the group writes back.
    """
    result = []
    for g, (first, last) in enumerate(at):
        before = g - 1 - ahead
        result.append(
            Traffic(
                fetch_after=max(start, at[before][1]) if before >= 0 else start,
                store_after=last,
                wait_before=last + 1 if hold_writes else None,
                fetch_wait_before=first if whole else None,
            )
        )
    return result


def states_in_pool(
    groups: Sequence[Group], traffic: Sequence[Traffic], uses: Sequence[Uses], actions: Sequence[Action]
) -> list[Leave]:
    """The states of the groups have their home in the pool: in for their first, out behind their last update."""
    first: dict[int, Traffic] = {}
    last: dict[int, Traffic] = {}
    for group, moves in zip(groups, traffic, strict=True):
        for storage in (s for u in group for s in u.states):
            first.setdefault(storage, moves)
            last[storage] = moves
    return [
        Leave(s, WRAP, out.store_after, out.wait_before, first[s].fetch_after, first[s].fetch_wait_before)
        for s, out in last.items()
        if actions[s] != "keep" and uses[s].positions
    ]


def gradients_away(
    groups: Sequence[Group],
    traffic: Sequence[Traffic],
    issued: Mapping[int, int],
    uses: Sequence[Uses],
    position: Sequence[int],
    actions: Sequence[Action],
) -> list[Leave]:
    """Gradients leave behind the position ``issued[op of their update]`` and come back for that update.

    One whose update follows it directly has no time to leave, and stays.
    """
    leaves: dict[int, Leave] = {}
    for group, moves in zip(groups, traffic, strict=True):
        for update in group:
            at = position[update.op]
            for storage in update.gradients:
                positions = uses[storage].positions
                gap = positions.index(at) - 1
                if gap < 0 or storage in leaves or actions[storage] == "keep" or at - positions[gap] < 2:
                    continue
                leaves[storage] = Leave(
                    storage, gap, issued[update.op], None, moves.fetch_after, moves.fetch_wait_before
                )
    return list(leaves.values())


def bucket_ends(groups: Sequence[Group], uses: Sequence[Uses], position: Sequence[int]) -> dict[int, int]:
    """For the op of each update the position behind which all gradients of its bucket are complete."""
    return {u.op: max(ready_at(other, uses, position) for other in g) for g in groups for u in g}


def order_with_updates_behind(graph: Graph, groups: Sequence[Group]) -> tuple[int, ...]:
    """Captured order, but the optimizer runs as soon as it can, the updates of a group together."""
    runs_behind: list[int] = []
    for op in graph.ops:
        late = op.phase != "optimizer" or not op.after
        runs_behind.append(op.id if late else max(runs_behind[b] for b in op.after))
    for group in groups:
        complete = max(runs_behind[u.op] for u in group)
        for update in group:
            runs_behind[update.op] = complete
    key = [(runs_behind[op.id], op.id) for op in graph.ops]
    missing = [len(op.after) for op in graph.ops]
    ready = [key[op.id] for op in graph.ops if not op.after]
    heapq.heapify(ready)
    order = []
    while ready:
        op_id = heapq.heappop(ready)[1]
        order.append(op_id)
        for follower in graph.followers[op_id]:
            missing[follower] -= 1
            if not missing[follower]:
                heapq.heappush(ready, key[follower])
    return tuple(order)
