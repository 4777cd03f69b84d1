"""Strategy `hyperoffload`: whole-graph planning with real durations, link contention and live memory.

After arXiv 2602.00748 (cache operators in the graph, lifetimes known before the run, a global refinement of the
execution order); the paper's algorithm is not public, so the method here is our own:

1. orders of the ops in which less is alive at once (`passes.order`);
2. for each, the reuse gaps to leave the device in, chosen per byte moved where memory is over the limit
   (`passes.selection`), for several margins and degrees of link contention;
3. placement of every transfer in time (`passes.placement`), which is also the judge of each choice;
4. a search that forbids the gap behind the worst stall and chooses again;
5. addresses; where they do not fit the limit, planning is repeated with that much less memory.

`strategies.paging` gives further plans, which win where they are faster and meet any feasible limit.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from hyperoffload_core.analysis.bounds import smallest_feasible_limit, step_lower_bound_ns
from hyperoffload_core.analysis.lifetimes import Uses, uses_in_order
from hyperoffload_core.passes.addresses import pack_plan
from hyperoffload_core.passes.insertion import insert_cache_operators
from hyperoffload_core.passes.order import captured_order, releasing_early_order
from hyperoffload_core.passes.placement import NoPlacementError, Placement, Problem, make_problem, place, to_plan
from hyperoffload_core.passes.plan import Plan
from hyperoffload_core.passes.selection import (
    WRAP,
    Candidates,
    Choice,
    Estimate,
    choose_gaps,
    find_candidates,
    gap_sets,
    plain_estimate,
)
from hyperoffload_core.passes.timing import time_plan
from hyperoffload_core.strategies.base import Option, Request, Strategy
from hyperoffload_core.strategies.paging import PagingSetup, farthest_next_use, least_recently_used, paged_plan

_SECONDS = {"fast": 0.5, "normal": 3.0, "best": 20.0}
_ATTEMPTS = 8
_SETTINGS = ((True, 1.0, 0.0), (True, 1.0, 0.04), (True, 2.0, 0.0), (True, 4.0, 0.04), (False, 1.0, 0.0))
"""(count only the slots that transfers leave free, congestion, margin below the limit) that are tried per order."""


@dataclass(frozen=True)
class _Variant:
    """One order with what planning needs of it."""

    problem: Problem
    uses: tuple[Uses, ...]


@dataclass(frozen=True)
class _Solution:
    variant: _Variant
    candidates: Candidates
    target_bytes: int
    forbidden: frozenset[Choice]
    placement: Placement

    @property
    def cost(self) -> tuple[int, int]:
        """Step time, then bytes moved: what is minimised."""
        sizes = self.variant.problem.storage_bytes
        return self.placement.step_ns, sum(sizes[t.storage] for t in self.placement.inserted.transfers)


def plan(request: Request) -> Plan:
    """The best plan found within the time the option ``effort`` allows. Raises `NoPlacementError`."""
    variants = _variants(request)
    limit = request.limit_bytes
    kept = frozenset(s for s, action in enumerate(request.actions) if action == "keep")
    floor = smallest_feasible_limit(request.graph, kept).bytes
    deadline = time.monotonic() + _SECONDS[str(request.options.get("effort", "normal"))]
    usable, best = limit, None
    for attempt in range(_ATTEMPTS):
        if usable < floor:
            break
        request.check_cancelled()
        request.progress(attempt / _ATTEMPTS, "choosing what leaves the device")
        best = _with_less(request, best, usable, deadline) or _search(request, variants, usable, deadline)
        if best is None:
            break
        request.progress((attempt + 0.7) / _ATTEMPTS, "assigning addresses")
        packed, height = pack_plan(request.graph, to_plan(best.variant.problem, best.placement), limit)
        if height <= limit:
            return _fastest(request, [packed, *_paged(request, variants, kept, best.placement.step_ns)])
        usable -= max(height - limit, limit // 200) << attempt // 2
    request.progress(0.9, "paging: the limit leaves no room for a schedule with foresight")
    plans = _paged(request, variants, kept, None)
    if not plans:
        raise NoPlacementError
    return _fastest(request, plans)


def _variants(request: Request) -> list[_Variant]:
    graph = request.graph
    orders = [captured_order(graph)]
    if request.options.get("reorder", True):
        early = releasing_early_order(graph)
        if early != orders[0]:
            orders.append(early)
    return [
        _Variant(make_problem(graph, order, request.durations_ns, request.hardware), uses_in_order(graph, order))
        for order in orders
    ]


def _search(request: Request, variants: Sequence[_Variant], limit: int, deadline: float) -> _Solution | None:
    bound = step_lower_bound_ns(request.graph, request.durations_ns, request.hardware, limit)
    best: _Solution | None = None
    first, *others = _SETTINGS
    attempts = [(variant, first) for variant in variants]
    while attempts:
        variant, (exact, congestion, margin) = attempts.pop(0)
        request.check_cancelled()
        target = int(limit * (1 - margin))
        solution = _solve(request, variant, _candidates(request, variant, exact, congestion), target, limit)
        if solution is not None and (best is None or solution.cost < best.cost):
            best = solution
        if not attempts and others and (best is None or best.placement.step_ns > bound):
            chosen = variants if best is None else [best.variant]
            attempts, others = [(v, setting) for setting in others for v in chosen], []
    return None if best is None else _improve(request, best, limit, bound, deadline)


def _with_less(request: Request, best: _Solution | None, usable: int, deadline: float) -> _Solution | None:
    """The solution planned again the same way with less memory."""
    if best is None:
        return None
    again = _solve(request, best.variant, best.candidates, min(best.target_bytes, usable), usable, best.forbidden)
    if again is None:
        return None
    bound = step_lower_bound_ns(request.graph, request.durations_ns, request.hardware, usable)
    return _improve(request, again, usable, bound, deadline)


def _candidates(
    request: Request, variant: _Variant, exact: bool, congestion: float, placement: Placement | None = None
) -> Candidates:
    """Gaps with their effect, estimated from op times without stalls or, given a placement, with its stalls."""
    if placement is None:
        estimate = plain_estimate(variant.problem)
    else:
        estimate = Estimate(np.array(placement.op_start_ns, np.int64), np.array(placement.op_end_ns, np.int64))
    estimate = replace(estimate, congestion=congestion)
    return find_candidates(variant.problem, variant.uses, request.actions, estimate, exact=exact)


def _solve(
    request: Request,
    variant: _Variant,
    candidates: Candidates,
    target: int,
    limit: int,
    forbidden: frozenset[Choice] = frozenset(),
) -> _Solution | None:
    choices = choose_gaps(variant.problem, variant.uses, request.actions, candidates, target, forbidden)
    if choices is None:
        return None
    inserted = insert_cache_operators(request.graph, variant.uses, *gap_sets(choices, variant.uses))
    try:
        placement = place(variant.problem, inserted, limit)
    except NoPlacementError:
        return None
    return _Solution(variant, candidates, target, forbidden, placement)


def _improve(request: Request, best: _Solution, limit: int, bound: int, deadline: float) -> _Solution:
    """Forbid the gap behind one of the worst stalls, choose again, and keep what is better."""
    tried: set[frozenset[Choice]] = {best.forbidden}
    while time.monotonic() < deadline and best.placement.step_ns > bound:
        request.progress(0.5, f"improving: {best.placement.step_ns / bound - 1:.1%} above the bound")
        better = None
        for choices in _suspects(best):
            request.check_cancelled()
            forbidden = best.forbidden | choices
            if forbidden in tried or time.monotonic() >= deadline:
                continue
            tried.add(forbidden)
            solution = _solve(request, best.variant, best.candidates, best.target_bytes, limit, forbidden)
            if solution is not None and solution.cost < best.cost:
                better = solution
                break
        if better is None:
            return best
        best = better
    return best


def _suspects(solution: _Solution) -> list[frozenset[Choice]]:
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


def _paged(request: Request, variants: Sequence[_Variant], kept: frozenset[int], step_ns: int | None) -> list[Plan]:
    """Plans by paging, one per order and victim rule.

    Given the ``step_ns`` of a plan there already is: none where it cannot be beaten, or where rules say what has to
    leave, which paging does not follow.
    """
    bound = step_lower_bound_ns(request.graph, request.durations_ns, request.hardware, request.limit_bytes)
    if step_ns is not None and (step_ns <= bound or "offload" in request.actions):
        return []
    plans = []
    for variant in variants:
        for victim_key in (farthest_next_use, least_recently_used):
            request.check_cancelled()
            setup = PagingSetup(
                graph=request.graph,
                order=variant.problem.order,
                limit_bytes=request.limit_bytes,
                kept=kept,
                victim_key=victim_key,
                on_demand=False,
                half_duplex=request.hardware.duplex == "half",
            )
            with suppress(NoPlacementError):
                plans.append(paged_plan(setup))
    return plans


def _fastest(request: Request, plans: Sequence[Plan]) -> Plan:
    """The plan with the shortest step; the first of equals."""
    return min(plans, key=lambda p: time_plan(request.graph, p, request.durations_ns, request.hardware)[2])


STRATEGY = Strategy(
    name="hyperoffload",
    title="HyperOffload",
    help="Plans the whole step ahead: what leaves, when it returns, and in which order the ops run.",
    source="After arXiv 2602.00748; the method is our own, described in the module.",
    plan=plan,
    keeps_limit=True,
    options=(
        Option("effort", "normal", "how long to search for a better schedule", choices=tuple(_SECONDS)),
        Option("reorder", True, "whether the execution order of ops may be refined"),
    ),
)
