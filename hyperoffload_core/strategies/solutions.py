"""What the search of strategy `hyperoffload` goes through: orders of the ops and choices of gaps placed in one of them,
and which gaps of a placed choice to suspect.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hyperoffload_core.analysis.lifetimes import Uses, uses_in_order
from hyperoffload_core.analysis.liveness import captured_live_bytes, live_bytes
from hyperoffload_core.exact.optimum import MOST_OPS
from hyperoffload_core.ir import Graph, kept_with_graph
from hyperoffload_core.passes.insertion import stays_throughout
from hyperoffload_core.passes.order import captured_order, releasing_early_order
from hyperoffload_core.passes.plan import Stay
from hyperoffload_core.passes.play import Placement, Problem, make_problem
from hyperoffload_core.passes.selection import WRAP, Choice, Gaps, Integers, every_gap, find_gaps
from hyperoffload_core.strategies.base import Request
from hyperoffload_core.strategies.planned import NEVER

_DEAR, _ROOMIER = 2.0, 1.25
"""What a part of the limit left free costs of the step, and how many times of what sticks out is left free."""
_ANOTHER_ORDER = 1e-3
"""Another order of the ops is planned as well if it saves this part of the live bytes, at the peak or on average."""


@dataclass(frozen=True)
class Variant:
    """One order with what planning needs of it."""

    problem: Problem
    uses: tuple[Uses, ...]
    throughout: Sequence[Stay | None]
    gaps: Gaps


@dataclass(frozen=True)
class Solution:
    variant: Variant
    choices: frozenset[Choice]
    placement: Placement

    @property
    def cost(self) -> tuple[int, int]:
        """Step time, then bytes moved: what is minimised."""
        sizes = self.variant.problem.storage_bytes
        return self.placement.step_ns, sum(sizes[t.storage] for t in self.placement.inserted.transfers)


@dataclass(frozen=True)
class Tried:
    """A solution within ``target_bytes`` whose addresses stick out above the limit by a part of it (or leave it free,
    if negative). ``relocated_ns``: the step at addresses chosen together with times."""

    solution: Solution
    target_bytes: int
    sticks_out: float
    relocated_ns: int = NEVER

    @property
    def _smaller_ns(self) -> float:
        """What the step may take when what sticks out has to leave."""
        return self.solution.placement.step_ns * (1 + _DEAR * self.sticks_out)

    @property
    def promise_ns(self) -> float:
        """What the step may take with addresses."""
        return min(self.relocated_ns, self._smaller_ns)

    def room_bytes(self, limit_bytes: int) -> int:
        """What to exchange gaps within: less by what sticks out, unless relocating is better than that."""
        if self.relocated_ns < self._smaller_ns:
            return self.target_bytes
        return min(limit_bytes, int(self.target_bytes * (1 - _ROOMIER * self.sticks_out)))


def variants_of(request: Request) -> list[Variant]:
    graph, variants = request.graph, []
    early = _releasing_early(graph) if request.options.get("reorder", True) else None
    for ordered in (early, _captured(graph)):
        if ordered is not None:
            idle = [s for s in ordered.idle if request.actions[s] == "keep"]
            problem = make_problem(graph, ordered.order, request.durations_ns, request.hardware, idle)
            gaps = find_gaps(problem, ordered.uses, request.actions, ordered.every_gap)
            variants.append(Variant(problem, ordered.uses, ordered.throughout, gaps))
    return variants


@dataclass(frozen=True)
class _Ordered:
    """An order of a graph's ops, with what of a `Variant` depends on nothing else. ``idle``: persistent storages that
    nothing uses."""

    order: tuple[int, ...]
    uses: tuple[Uses, ...]
    throughout: Sequence[Stay | None]
    every_gap: Integers
    idle: tuple[int, ...]


def _ordered(graph: Graph, order: tuple[int, ...]) -> _Ordered:
    uses = uses_in_order(graph, order)
    idle = tuple(use.storage for use in uses if not use.positions and use.lives_to_end)
    return _Ordered(order, uses, stays_throughout(uses), every_gap(uses, len(order)), idle)


@kept_with_graph
def _captured(graph: Graph) -> _Ordered:
    return _ordered(graph, captured_order(graph))


@kept_with_graph
def _releasing_early(graph: Graph) -> _Ordered | None:
    """None where that order saves too little."""
    early = releasing_early_order(graph)
    before, after = captured_live_bytes(graph), live_bytes(graph, early)
    less = 1 - _ANOTHER_ORDER
    worth = after.max() < less * before.max() or after.mean() < less * before.mean() or len(graph.ops) <= MOST_OPS
    return _ordered(graph, early) if worth else None


def suspects(solution: Solution) -> list[frozenset[Choice]]:
    """Sets of choices to forbid, worst stall first: of Stores that end the step late, of Prefetches ops waited for."""
    placement, variant = solution.placement, solution.variant
    inserted, count = placement.inserted, len(variant.problem.order)
    stalls: list[tuple[int, frozenset[Choice]]] = []
    last_end = placement.op_end_ns[-1]
    tail = placement.step_ns - last_end
    if tail > 0:
        late = [
            stay.storage
            for stay in inserted.stays
            if stay.store is not None
            and placement.transfer_end_ns[stay.store] > last_end
            and inserted.homes[stay.storage] == "pool"
        ]
        if late:
            stalls.append((tail, frozenset((s, WRAP) for s in late)))
            stalls.append((tail // 2, frozenset((s, WRAP) for s in late[: max(1, len(late) // 2)])))
    first_use = {use.storage: use.positions[0] for use in variant.uses if use.positions}
    for stay in inserted.stays:
        if stay.fetch is None or stay.begin >= count:
            continue
        waited = placement.data_wait_ns[stay.begin]
        if waited > 0 and placement.transfer_end_ns[stay.fetch] == placement.op_start_ns[stay.begin]:
            positions = variant.uses[stay.storage].positions
            index = positions.index(stay.begin) - 1
            if index < 0 and first_use[stay.storage] == stay.begin and inserted.homes[stay.storage] == "pool":
                index = WRAP
            stalls.append((waited, frozenset({(stay.storage, index)})))
    stalls.sort(key=lambda s: -s[0])
    return [choices for _, choices in stalls[:24]]
