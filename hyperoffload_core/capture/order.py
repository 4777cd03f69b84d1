"""Captured order: MindIR's order, without what depth-first writing puts too late."""

from __future__ import annotations

import heapq
from dataclasses import replace

from hyperoffload_core.capture.raw import RawGraph
from hyperoffload_core.ir import Phase, dependencies


def captured_order(raw: RawGraph, phases: list[Phase]) -> tuple[RawGraph, list[Phase]]:
    """The graph and phases with the forward pass first and each weight's gradient where backpropagation meets it.

    MindIR is written depth first from the result: the gradient of a weight stands beside the update that uses it, after
    all of backpropagation, and would keep every layer's activations alive until then; parts of the loss come last of
    all. MindSpore does not run it so (its default execution order is breadth first), and a memory baseline must not
    either. Updates stay where MindSpore's chain of side effects puts them.
    """
    needs = [
        set(after) | call.control
        for after, call in zip(dependencies([(c.reads, c.writes) for c in raw.calls]), raw.calls, strict=True)
    ]
    consumers: list[list[int]] = [[] for _ in raw.calls]
    for n, call_needs in enumerate(needs):
        for m in call_needs:
            consumers[m].append(n)
    behind = _behind(needs, consumers, phases)

    def key(n: int) -> tuple[int, int, int, int]:
        if phases[n] == "forward":
            return (0, n, 0, 0)
        return (1, behind[n], 1, n) if n in behind else (1, n, 0, 0)

    waiting = [len(call_needs) for call_needs in needs]
    ready = [(key(n), n) for n, count in enumerate(waiting) if count == 0]
    heapq.heapify(ready)
    order = []
    while ready:
        _, n = heapq.heappop(ready)
        order.append(n)
        for m in consumers[n]:
            waiting[m] -= 1
            if waiting[m] == 0:
                heapq.heappush(ready, (key(m), m))
    return _reordered(raw, order), [phases[n] for n in order]


def _behind(needs: list[set[int]], consumers: list[list[int]], phases: list[Phase]) -> dict[int, int]:
    """For each call on a side branch of backpropagation that ends in an update: the call it can run right behind."""
    branch: set[int] = set()
    for n in reversed(range(len(needs))):
        if phases[n] == "backward" and len(consumers[n]) == 1:
            (consumer,) = consumers[n]
            if consumer in branch or phases[consumer] == "optimizer":
                branch.add(n)
    behind: dict[int, int] = {}
    for n in sorted(branch):
        backward = [behind.get(m, m) for m in needs[n] if phases[m] != "forward" and (m in behind or m not in branch)]
        if backward:
            behind[n] = max(backward)
    for n in sorted(branch, reverse=True):
        # What reads only the forward pass waits for the call on its branch that needs it.
        if n not in behind and consumers[n][0] in behind:
            behind[n] = behind[consumers[n][0]]
    return behind


def _reordered(raw: RawGraph, order: list[int]) -> RawGraph:
    place = {old: new for new, old in enumerate(order)}
    return RawGraph(
        calls=[replace(raw.calls[n], control={place[m] for m in raw.calls[n].control}) for n in order],
        storages=[replace(s, call=place.get(s.call, -1)) for s in raw.storages],
        inputs=raw.inputs,
        results=raw.results,
        node_results=raw.node_results,
        cache_operators=raw.cache_operators,
    )
