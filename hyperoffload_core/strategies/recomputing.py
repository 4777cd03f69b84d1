"""Recomputation beside transfers: running ops again where that is cheaper than what the links then need not carry.

Tried is a row of graphs, from few second runs to as many as bring live memory under the limit without any transfer.
What costs least per byte over the limit runs again first, so along the row compute grows and link time falls. Each
graph is planned like any other, and the step is the judge.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from hyperoffload_core.analysis.liveness import live_bytes
from hyperoffload_core.hardware import transfer_ns
from hyperoffload_core.ir import Graph
from hyperoffload_core.passes.plan import Plan
from hyperoffload_core.passes.play import NoPlacementError
from hyperoffload_core.passes.recomputation import (
    RecomputeCandidate,
    recompute,
    recompute_candidates,
    recompute_together,
)
from hyperoffload_core.strategies.base import Request
from hyperoffload_core.strategies.planned import NEVER, plan_step_ns

_PARTS = 32
_ASCENDING = (1, 2, 4, 8, 16, 32)
_NEAR = 1.05
"""A quick plan within this factor of the best step may be better still with the effort that was asked for."""


def with_recomputation(request: Request, found: Plan, planned: Callable[[Request], Plan]) -> Plan:
    """``found``, or a plan of the request's graph with recomputed ops (`Plan.graph`) that takes a shorter step.

    ``planned`` plans a request without recomputation. It is asked some ten times with the least effort, and once more
    with the effort of the request. What a rule keeps or offloads is not made again.
    """
    best_ns, compute_ns = plan_step_ns(request, found), sum(request.durations_ns)
    if best_ns <= compute_ns:
        return found
    row = _Row(request, planned, found, best_ns)
    for part in _ASCENDING:
        row.attempt(part)
        if row.hopeless(part):
            break
    for _ in range(2):
        for part in row.halfway():
            row.attempt(part)
    row.attempt_with_effort()
    return row.best


class _Row:
    """The graphs tried so far, by how many of `_PARTS` of what is over the limit they free, and the best plan."""

    def __init__(self, request: Request, planned: Callable[[Request], Plan], found: Plan, step_ns: int) -> None:
        self.request, self.planned = request, planned
        self.best, self.best_ns = found, step_ns
        self.candidates = _candidates(request)
        self.live = live_bytes(request.graph, range(len(request.graph.ops)))
        self.graphs: dict[int, Graph] = {}
        self.steps: dict[int, int] = {}

    def attempt(self, part: int) -> None:
        """Plan one graph with the least effort, unless it has been."""
        if part in self.steps:
            return
        self.request.check_cancelled()
        self.request.progress(0.96, f"recomputing: {part}/{_PARTS} of what is over the limit")
        graph = self._freeing(part)
        known = next((p for p, g in self.graphs.items() if g.ops == graph.ops), None)
        self.graphs[part] = graph if known is None else self.graphs[known]
        self.steps[part] = self._plan(graph, "fast") if known is None else self.steps[known]

    def attempt_with_effort(self) -> None:
        part = min(self.steps, key=lambda p: self.steps[p])
        effort = str(self.request.options.get("effort", "normal"))
        if effort != "fast" and self.steps[part] <= _NEAR * self.best_ns:
            self._plan(self.graphs[part], effort)

    def hopeless(self, part: int) -> bool:
        """Whether the ops of the graph alone, as of all that recompute more, take as long as the best step."""
        return sum(self.request.of(self.graphs[part]).durations_ns) >= self.best_ns

    def halfway(self) -> list[int]:
        """The places between the best graph of the row and its neighbours."""
        best = min(self.steps, key=lambda p: self.steps[p])
        below = max((p for p in self.steps if p < best), default=best)
        above = min((p for p in self.steps if p > best), default=best)
        return [(below + best) // 2, (best + above + 1) // 2]

    def _plan(self, graph: Graph, effort: str) -> int:
        """The step of the graph's plan, which is kept if it is the best; never, where it cannot be."""
        request = replace(
            self.request.of(graph),
            options={**self.request.options, "effort": effort, "recompute": False},
            progress=_unwatched,
        )
        if graph is self.request.graph or sum(request.durations_ns) >= self.best_ns:
            return NEVER
        try:
            plan = self.planned(request)
        except NoPlacementError:
            return NEVER
        step_ns = plan_step_ns(request, plan)
        if step_ns < self.best_ns:
            self.best, self.best_ns = replace(plan, graph=graph), step_ns
        return step_ns

    def _freeing(self, part: int) -> Graph:
        graph, peak_bytes = self.request.graph, int(self.live.max())
        over = self.live - (peak_bytes - (peak_bytes - self.request.limit_bytes) * part // _PARTS)
        items = recompute_together(graph, _cheapest(graph, self.candidates, over.tolist()))
        return recompute(graph, items) if items else graph


def _candidates(request: Request) -> list[RecomputeCandidate]:
    """Gaps that the rules leave to the strategy and whose value is sooner made again than stored and fetched."""
    out, back = request.hardware.link_out, request.hardware.link_in
    return [
        c
        for c in recompute_candidates(request.graph, request.durations_ns)
        if request.actions[c.storage] == "auto" and c.cost_ns < transfer_ns(c.bytes, out) + transfer_ns(c.bytes, back)
    ]


def _cheapest(graph: Graph, candidates: Sequence[RecomputeCandidate], over: Sequence[int]) -> list[RecomputeCandidate]:
    """Of the gaps across the op that is most over, the one that costs least per byte and op relieved; and so on, until
    nothing is over. ``over[op]`` bytes have to go; ops that no gap can relieve further are left as they are."""
    excess = np.array(over, np.int64)
    left = np.array([graph.accesses[c.storage][c.gap].op for c in candidates], np.int64)
    right = np.array([c.recomputation.before for c in candidates], np.int64)
    size = np.array([c.bytes for c in candidates], np.int64)
    cost = np.array([c.cost_ns for c in candidates], np.int64)
    free, chosen = np.ones(len(candidates), np.bool_), []
    while len(excess) and excess.max() > 0:
        op = int(excess.argmax())
        across = np.flatnonzero(free & (left < op) & (op < right))
        if not len(across):
            excess[op] = 0
            continue
        relieved = np.concatenate(([0], np.cumsum(excess > 0)))
        ops = relieved[right[across]] - relieved[left[across] + 1]
        best = int(across[np.argmin((cost[across] + 1) / (size[across] * ops.astype(np.float64)))])
        free[best] = False
        excess[left[best] + 1 : right[best]] -= size[best]
        chosen.append(candidates[best])
    return chosen


def _unwatched(_fraction: float, _words: str) -> None:
    """The progress of one plan of many says little."""
