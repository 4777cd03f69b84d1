"""Strategy `hyperoffload`: whole-graph planning with real durations, link contention and live memory.

After arXiv 2602.00748 (cache operators in the graph, lifetimes known before the run, a global refinement of the
execution order); the paper's algorithm is not public, so the method here is our own:

1. orders of the ops in which less is alive at once (`passes.order`);
2. for each, the reuse gaps to leave the device in, chosen by what they relieve where memory is over the limit per what
   they add to the step (`passes.choice`), in several ways;
3. placement of every transfer in time (`passes.placement`), which is also the judge of each choice;
4. a search that forbids the gap behind the worst stall and chooses again;
5. addresses; where they do not fit the limit, placement with a real allocator (`passes.arena`), and planning again with
   a little less memory.

`strategies.paging` gives further plans, which win where they are faster and meet any feasible limit.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from random import Random

import numpy as np

from hyperoffload_core.analysis.bounds import smallest_feasible_limit, step_lower_bound_ns
from hyperoffload_core.analysis.lifetimes import Uses, uses_in_order
from hyperoffload_core.analysis.liveness import live_bytes
from hyperoffload_core.exact.instance import make_instance
from hyperoffload_core.exact.optimum import MOST_OPS, MOST_STORAGES, UNBOUNDED, find_optimum
from hyperoffload_core.exact.pack import packed_within
from hyperoffload_core.passes.addresses import pack_plan
from hyperoffload_core.passes.arena import place_with_addresses
from hyperoffload_core.passes.choice import Choosing, Chosen
from hyperoffload_core.passes.covering import binding_slots, cover
from hyperoffload_core.passes.insertion import insert_cache_operators
from hyperoffload_core.passes.order import captured_order, releasing_early_order
from hyperoffload_core.passes.placement import NoPlacementError, Placement, Problem, make_problem, place, to_plan
from hyperoffload_core.passes.plan import Plan
from hyperoffload_core.passes.selection import (
    WRAP,
    Candidates,
    Choice,
    Estimate,
    find_candidates,
    gap_sets,
    plain_estimate,
    resident_slots,
)
from hyperoffload_core.passes.splitting import split_transfers
from hyperoffload_core.strategies.base import Option, Request, Strategy
from hyperoffload_core.strategies.paging import PagingSetup, farthest_next_use, least_recently_used, paged_plan
from hyperoffload_core.strategies.planned import NEVER, plan_step_ns
from hyperoffload_core.strategies.recomputing import with_recomputation

_SECONDS = {"fast": 0.3, "normal": 0.8, "best": 20.0}
_MARGINS = (0.0, 0.004, 0.012, 0.025, 0.045, 0.08, 0.14)
"""Parts of the limit to leave free, one after the other until the addresses fit."""
_LATER_SHARE = 0.3
_EXACT_SECONDS = {"fast": 0.05, "normal": 1.5, "best": 60.0}
_SECONDS_AHEAD = 0.05
"""Time for a first solution of a graph that is small enough for an exact search."""
_NEARLY = 0.01
"""In a large graph addresses are assigned in every attempt only if they stuck out by no more than this part."""
_WORTH_ANOTHER = 0.01
_NEAR = 1.25
"""In a large graph, paging is not tried against a step that is within this factor of the bound."""
_SPARED = 0.05
_SMALLEST_PART = 1000
_ANOTHER_ORDER = 1e-3
"""Another order of the ops is planned as well if it saves this part of the live bytes, at the peak or on average."""
_SMALL = 1000
_LARGE = 15_000
"""A graph of more ops gets a margin at once and no real allocator: each attempt takes it seconds."""
_IDLE_ROUNDS = 40
_ROUNDS = 12
"""Rounds of the search for better gaps between two placements."""


@dataclass(frozen=True)
class _Recipe:
    """One way to choose gaps: see `passes.selection.find_candidates` (exact) and `passes.choice.Choosing`."""

    exact: bool
    link_weight: float
    part_of_largest: int | None = None
    room: float | None = None
    in_parts: bool = False


_RECIPES = (
    _Recipe(exact=True, link_weight=0.03),
    _Recipe(exact=False, link_weight=1e6),
    _Recipe(exact=True, link_weight=0.03, part_of_largest=8),
    _Recipe(exact=False, link_weight=0.03, part_of_largest=8, room=1.0),
    _Recipe(exact=False, link_weight=1e6, part_of_largest=2, room=1.0),
    _Recipe(exact=False, link_weight=0.03, part_of_largest=8),
    _Recipe(exact=False, link_weight=0.03),
    _Recipe(exact=True, link_weight=1e6),
    _Recipe(exact=False, link_weight=1e6, part_of_largest=2),
    _Recipe(exact=False, link_weight=1e6, part_of_largest=2, room=0.5),
    _Recipe(exact=False, link_weight=0.03, part_of_largest=2, room=0.25),
    _Recipe(exact=False, link_weight=0.03, part_of_largest=8, room=0.5),
)
_IN_PARTS = (
    _Recipe(exact=True, link_weight=0.03, in_parts=True),
    _Recipe(exact=False, link_weight=0.03, in_parts=True),
)


@dataclass(frozen=True)
class _Variant:
    """One order with what planning needs of it."""

    problem: Problem
    uses: tuple[Uses, ...]


@dataclass(frozen=True)
class _Solution:
    variant: _Variant
    choices: frozenset[Choice]
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
    bound = step_lower_bound_ns(request.graph, request.durations_ns, request.hardware, limit)
    effort = str(request.options.get("effort", "normal"))
    seconds = _SECONDS[effort]
    exact = bool(request.options.get("exact", True)) and _searchable(request)
    search_seconds = min(seconds, _SECONDS_AHEAD) if exact else seconds
    best: _Solution | None = None
    found: Plan | None = None
    sticks_out, step_ns = 0.0, NEVER

    def consider(plans: Sequence[Plan]) -> None:
        nonlocal found, step_ns
        for other in plans:
            other_ns = plan_step_ns(request, other)
            if other_ns < step_ns:
                found, step_ns = other, other_ns

    large = len(request.graph.ops) > _LARGE
    for attempt, margin in enumerate(_MARGINS[1:] if large else _MARGINS):
        target = int(limit * (1 - margin))
        if target < floor:
            break
        request.check_cancelled()
        request.progress(attempt / len(_MARGINS), "choosing what leaves the device")
        share = 1.0 if attempt == 0 else _LATER_SHARE
        deadline = time.process_time() + share * search_seconds
        best = _Search(request, target, bound, deadline).run(variants, best)
        if best is None or best.placement.step_ns >= step_ns:
            break
        request.progress((attempt + 0.7) / len(_MARGINS), "assigning addresses")
        if attempt % 2 == 0 or sticks_out <= _NEARLY or len(request.graph.ops) <= _SMALL:
            packed, height = pack_plan(request.graph, to_plan(best.variant.problem, best.placement), limit)
            if height <= limit:
                consider([packed])
                break
            sticks_out = height / limit - 1
            if exact and (within := packed_within(request.graph, packed, limit)) is not None:
                consider([within])
                break
        if not large:
            consider(_with_addresses(request, best, target))
        if step_ns <= best.placement.step_ns * (1 + _WORTH_ANOTHER):
            break
    if found is None:
        request.progress(0.9, "paging: the limit leaves no room for a schedule with foresight")
    consider(_paged(request, variants, kept, bound, None if found is None else step_ns))
    if step_ns > bound and exact:
        optimum = _optimum(request, step_ns, _EXACT_SECONDS[effort])
        if optimum is not None:
            found, step_ns = optimum, plan_step_ns(request, optimum)
    if found is None:
        raise NoPlacementError
    if step_ns > bound:
        found = split_transfers(request.graph, found, request.durations_ns, request.hardware)
    return with_recomputation(request, found, plan) if request.options.get("recompute", False) else found


def _searchable(request: Request) -> bool:
    return len(request.graph.ops) <= MOST_OPS and len(request.graph.storages) <= MOST_STORAGES


def _optimum(request: Request, step_ns: int, seconds: float) -> Plan | None:
    """A shorter step by searching all there are; None where none is found in time."""
    graph = request.graph
    request.progress(0.95, "searching for the shortest step of a small graph")
    instance = make_instance(graph, request.durations_ns, request.hardware, request.limit_bytes, request.actions)
    known_ns = UNBOUNDED if step_ns == NEVER else step_ns
    return find_optimum(instance, known_ns, UNBOUNDED, seconds, request.check_cancelled).plan


def _variants(request: Request) -> list[_Variant]:
    graph = request.graph
    orders = [captured_order(graph)]
    if request.options.get("reorder", True):
        early = releasing_early_order(graph)
        before, after = live_bytes(graph, orders[0]), live_bytes(graph, early)
        less = 1 - _ANOTHER_ORDER
        if after.max() < less * before.max() or after.mean() < less * before.mean() or len(graph.ops) <= MOST_OPS:
            orders.insert(0, early)
    return [
        _Variant(make_problem(graph, order, request.durations_ns, request.hardware), uses_in_order(graph, order))
        for order in orders
    ]


class _Search:
    """The best solution so far within ``target`` bytes, and the ways to a better one, cheapest first."""

    def __init__(self, request: Request, target_bytes: int, bound_ns: int, deadline: float) -> None:
        self.request, self.target = request, target_bytes
        self.bound, self.deadline = bound_ns, deadline
        self.best: _Solution | None = None
        self.tried: set[tuple[int, frozenset[Choice]]] = set()
        self.rng = Random(1)
        self.candidates: dict[tuple[int, bool], Candidates] = {}

    def run(self, variants: Sequence[_Variant], before: _Solution | None) -> _Solution | None:
        """``before`` is the solution found with more memory, from which it starts."""
        if before is not None:
            choosing = self._choosing(before.variant, _Recipe(exact=False, link_weight=0.03))
            self._try(before.variant, choosing.start_from(before.choices))
            if self.best is not None:
                self._search_near(self.best)
        for recipe in _RECIPES if self.best is None else ():
            for variant in variants:
                if self._over() and self.best is not None:
                    return self.best
                self._follow(variant, recipe)
        for recipe in _IN_PARTS if before is None else ():
            for variant in variants:
                if self.best is not None and not self._over() and (variant is self.best.variant or self._small()):
                    self._follow(variant, recipe)
        idle = 0
        while self.best is not None and not self._over():
            cost = self.best.cost
            self._without_suspects(self.best)
            self._search_near(self.best)
            idle = idle + 1 if self.best.cost == cost else 0
            if idle > _IDLE_ROUNDS:
                break
        return self.best

    def _over(self) -> bool:
        self.request.check_cancelled()
        at_bound = self.best is not None and self.best.placement.step_ns <= self.bound
        return at_bound or time.process_time() >= self.deadline

    def _small(self) -> bool:
        return len(self.request.graph.ops) <= _SMALL

    def _choosing(self, variant: _Variant, recipe: _Recipe, margin_bytes: int = 0) -> Choosing:
        key = (id(variant), recipe.exact)
        if key not in self.candidates:
            estimate = plain_estimate(variant.problem)
            self.candidates[key] = find_candidates(
                variant.problem, variant.uses, self.request.actions, estimate, exact=recipe.exact
            )
        candidates = self.candidates[key]
        largest = None
        if recipe.part_of_largest is not None and len(candidates.bytes):
            largest = int(candidates.bytes.max()) // recipe.part_of_largest
        limit = self.target - margin_bytes
        return Choosing(variant.problem, variant.uses, self.request.actions, candidates, limit, largest)

    def _follow(self, variant: _Variant, recipe: _Recipe) -> None:
        choosing = self._choosing(variant, recipe)
        if recipe.in_parts:
            candidates = choosing.c
            slots = binding_slots(variant.problem, variant.uses, candidates)
            enough = (
                candidates.bytes * _SMALLEST_PART >= resident_slots(variant.problem, variant.uses).max() - self.target
            )
            parts = cover(variant.problem, variant.uses, candidates, self.target, slots, enough)
            chosen = None if parts is None else choosing.round_off(parts)
        else:
            chosen = choosing.greedy(recipe.link_weight)
        if chosen is not None and recipe.room is not None and chosen.choices:
            # Room for (part of) one more transfer in flight, so that the link need not wait for memory.
            sizes = variant.problem.storage_bytes
            margin = int(recipe.room * max(sizes[storage] for storage, _ in chosen.choices))
            chosen = self._choosing(variant, recipe, margin_bytes=margin).greedy(recipe.link_weight)
        self._try(variant, chosen)

    def _try(self, variant: _Variant, chosen: Chosen | None) -> bool:
        """Place what was chosen, unless that cannot be better; whether it is."""
        if chosen is None or (self.best is not None and chosen.step_ns >= self.best.placement.step_ns):
            return False
        key = (id(variant), chosen.choices)
        if key in self.tried:
            return False
        self.tried.add(key)
        uses = variant.uses
        inserted = insert_cache_operators(self.request.graph, uses, *gap_sets(chosen.choices, uses))
        try:
            placement = place(variant.problem, inserted, self.target)
        except NoPlacementError:
            return False
        solution = _Solution(variant, chosen.choices, placement)
        if self.best is not None and solution.cost >= self.best.cost:
            return False
        self.best = solution
        above = placement.step_ns / self.bound - 1
        self.request.progress(0.5, f"choosing what leaves the device: {above:.1%} above the bound")
        return True

    def _without_suspects(self, solution: _Solution) -> None:
        """Forbid the gap behind one of the worst stalls and choose again, as long as that helps."""
        for suspects in _suspects(solution):
            for exact in (False, True):
                if self._over():
                    return
                recipe = _Recipe(exact=exact, link_weight=0.03)
                choosing = self._choosing(solution.variant, recipe)
                choosing.bar(suspects)
                if self._try(solution.variant, choosing.start_from(solution.choices - suspects)):
                    return

    def _search_near(self, solution: _Solution) -> None:
        """Search around a solution, with gaps measured by its times and by what lies strictly inside them."""
        variant, placement = solution.variant, solution.placement
        times = Estimate(np.array(placement.op_start_ns, np.int64), np.array(placement.op_end_ns, np.int64))
        measured = find_candidates(variant.problem, variant.uses, self.request.actions, times, exact=True)
        inside = self._choosing(variant, _Recipe(exact=False, link_weight=0.03))
        for choosing in (
            Choosing(variant.problem, variant.uses, self.request.actions, measured, self.target),
            inside,
        ):
            if self._over():
                return
            chosen = choosing.start_from(solution.choices)
            if chosen is None:
                continue
            self._try(variant, chosen)
            self._try(variant, choosing.improve(chosen, self.rng, self.bound, lambda turn: turn >= _ROUNDS))


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


def _paged(
    request: Request, variants: Sequence[_Variant], kept: frozenset[int], bound: int, step_ns: int | None
) -> list[Plan]:
    """Plans by paging, one per order and victim rule.

    Given the ``step_ns`` of a plan there already is: none where it cannot be beaten, or where rules say what has to
    leave, which paging does not follow.
    """
    near = len(request.graph.ops) > _SMALL and step_ns is not None and step_ns <= bound * _NEAR
    if step_ns is not None and (step_ns <= bound or near or "offload" in request.actions):
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


def _with_addresses(request: Request, solution: _Solution, target_bytes: int) -> list[Plan]:
    """The solution placed again with a real allocator, sparing no more room than that takes; empty if it fails."""
    placement = solution.placement
    for spared in (request.limit_bytes - target_bytes, int(request.limit_bytes * _SPARED)):
        with suppress(NoPlacementError):
            return [
                place_with_addresses(
                    solution.variant.problem, placement.inserted, placement.bounds, request.limit_bytes, spared
                )
            ]
    return []


STRATEGY = Strategy(
    name="hyperoffload",
    title="HyperOffload",
    help="Plans the whole step ahead: what leaves, when it returns, and in which order the ops run.",
    source="After arXiv 2602.00748; the method is our own, described in the module.",
    plan=plan,
    keeps_limit=True,
    options=(
        Option("effort", "normal", "how long to search for a better schedule", choices=tuple(_SECONDS)),
        Option("exact", True, "whether a graph of a few ops is searched for its proved shortest step"),
        Option("reorder", True, "whether the execution order of ops may be refined"),
        Option("recompute", False, "whether ops may run again where that is cheaper than a transfer"),
    ),
)
