"""Strategy `hyperoffload`: whole-graph planning with real durations, link contention and live memory.

After arXiv 2602.00748 (cache operators in the graph, lifetimes known before the run, a global refinement of the
execution order); the paper's algorithm is not public, so the method here is our own:

1. a choice of the reuse gaps to leave the device in, for orders of the ops in which less is alive at once
   (`strategies.gap_search`, which places every choice in time to judge it);
2. addresses: a packing of the stays; else, in a small graph, addresses chosen together with times, in a larger one the
   step played with a real allocator, in which more leaves where holes run out (`passes.addresses`,
   `passes.relocating`, `passes.making_room`); where neither is good enough, all of it again with a little less memory;
3. for a graph of a few ops, a search of all schedules there are (`exact`).

`strategies.paging` gives further plans, which win where they are faster and meet any feasible limit.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import count
from random import Random

from hyperoffload_core.analysis.bounds import smallest_feasible_limit, step_lower_bound_ns
from hyperoffload_core.exact.instance import make_instance
from hyperoffload_core.exact.optimum import MOST_OPS, MOST_STORAGES, UNBOUNDED, Optimum, find_optimum
from hyperoffload_core.exact.pack import packed_within
from hyperoffload_core.passes.addressed_play import AddressedStep, Times
from hyperoffload_core.passes.addresses import pack_plan
from hyperoffload_core.passes.making_room import place_making_room
from hyperoffload_core.passes.placement import to_plan
from hyperoffload_core.passes.plan import Plan
from hyperoffload_core.passes.play import NoPlacementError
from hyperoffload_core.passes.relocating import relocate
from hyperoffload_core.passes.splitting import split_transfers
from hyperoffload_core.strategies.base import Option, Request, Strategy
from hyperoffload_core.strategies.gap_search import SMALL_OPS, Search, in_a_hurry
from hyperoffload_core.strategies.paging import PagingSetup, farthest_next_use, least_recently_used
from hyperoffload_core.strategies.planned import NEVER, plan_step_ns
from hyperoffload_core.strategies.recomputing import with_recomputation
from hyperoffload_core.strategies.settling import paged_plan
from hyperoffload_core.strategies.solutions import Solution, Tried, Variant, variants_of
from hyperoffload_core.strategies.work import Work

_SECONDS = {"fast": 0.3, "normal": 0.8, "best": 20.0}
"""Seconds of work (`strategies.work`) for the choice of gaps, by effort."""
_SHARE_OF_OTHERS = 0.6
"""A graph that is not small has this part of it: the rest of its compile takes the longer."""
_MARGINS = (0.0, 0.004, 0.013, 0.025, 0.045, 0.08, 0.14)
"""Parts of the limit to leave free, one after the other until the addresses fit."""
_LATER_SHARE = 0.3
"""The part of that time each attempt with a little less memory has."""
_HURRY = 2
"""After so many times the time for the search, every other step of room of a small graph is left out; another is then
searched for half the time, and there are no more steps once there is a plan."""
_EXACT_SECONDS = {"fast": 0.05, "normal": 10.0, "best": 60.0}
"""Time for the search of all schedules of a small graph, by effort."""
_SECONDS_AHEAD = 0.05
"""Time for a first solution of a graph that is small enough for an exact search."""
_EXCHANGE_SECONDS = {"fast": 0.1, "normal": 0.5, "best": 4.0}
"""Seconds of work for exchanging gaps, each time, by effort."""
_RELOCATING_SECONDS = {"fast": 0.1, "normal": 0.3, "best": 3.0}
"""Seconds of work for addresses chosen together with times, each time, by effort."""
_EXCHANGES = 3
"""Gaps are exchanged and addresses assigned, in turn, until so many times that time is over."""
_PACKED_AGAIN = 2
"""So many of the better solutions this finds are packed, from the best one on, until one fits."""
_MUCH_OF_IT = 0.8
"""Where addresses chosen together with times were found, at least so much of what sticks out is left free next."""
_NEARLY = 0.01
"""A large graph's first solution is played with an allocator, and a later one packed, only if the addresses stuck out
by no more than this part."""
_FAR_OUT, _FAR_IN_A_HURRY = 0.02, 0.05
"""Where they stuck out by more, a step of room is left out; in a hurry less is tried to make them fit."""
_WORTH_ANOTHER = 0.01
"""Addresses that make the step longer by no more than this part are good enough."""
_NEAR = 1.25
"""In a graph of more than a few ops, paging is not tried against a step that is within this factor of the bound."""
_SPARED = 0.05
"""One of the times the step is played with an allocator, early Prefetches leave this part of the limit to the ops."""
_REPAIRS, _REPAIRS_OF_LARGE = 14, 4
"""How often more gaps are left where holes run out."""
_SLOWEST = {"fast": 1.5, "normal": 4.0, "best": 4.0}
"""Searches end by processor time on a machine so many times as slow as the benchmarks'; at "fast" somebody waits."""
_PLAYS_WITH_ADDRESSES = 10
"""As many plays without addresses take the time of one with a real allocator, repairs included."""
_PLAYS_PER_MOVE = 2
"""As many take the time of moving a block and playing the step at its addresses."""
_LARGE = 15_000
"""A graph of more ops gets a margin at once and no real allocator: each attempt takes it seconds."""


def plan(request: Request) -> Plan:
    """The best plan found within the time the option ``effort`` allows. Raises `NoPlacementError`."""
    effort = str(request.options.get("effort", "normal"))
    bound = step_lower_bound_ns(request.graph, request.durations_ns, request.hardware, request.limit_bytes)
    found = _plan(request, bound)
    if effort == "best" and (step_ns := plan_step_ns(request, found)) > bound:
        # Luck has a part in a search: more time must not end in a longer step.
        less = _plan(replace(request, options={**request.options, "effort": "normal"}), bound)
        found = less if plan_step_ns(request, less) < step_ns else found
    return with_recomputation(request, found, plan) if request.options.get("recompute", False) else found


def _plan(request: Request, bound: int) -> Plan:
    """A plan that runs every op once."""
    variants = variants_of(request)
    limit = request.limit_bytes
    kept = frozenset(s for s, action in enumerate(request.actions) if action == "keep")
    floor = smallest_feasible_limit(request.graph, kept).bytes
    effort = str(request.options.get("effort", "normal"))
    small, large = len(request.graph.ops) <= SMALL_OPS, len(request.graph.ops) > _LARGE
    seconds = _SECONDS[effort] * (1 if small else _SHARE_OF_OTHERS)
    exact = bool(request.options.get("exact", True)) and _searchable(request)
    search_seconds = min(seconds, _SECONDS_AHEAD) if exact else seconds
    far_out = _FAR_IN_A_HURRY if in_a_hurry(request) else _FAR_OUT
    best: Solution | None = None
    found: Plan | None = None
    sticks_out, step_ns = 0.0, NEVER
    tried: list[Tried] = []

    def consider(plans: Sequence[Plan]) -> None:
        nonlocal found, step_ns
        for other in plans:
            other_ns = plan_step_ns(request, other)
            if other_ns < step_ns:
                found, step_ns = other, other_ns

    work = Work(_SLOWEST[effort])
    hurry = _HURRY * search_seconds
    attempt, following = 0, 1 if large else 0
    margin, jump = _MARGINS[following], 0.0
    while (target := int(limit * (1 - margin))) >= floor:
        request.check_cancelled()
        request.progress(attempt / len(_MARGINS), "choosing what leaves the device")
        share = 1.0 if attempt == 0 else _LATER_SHARE if small or work.seconds < hurry else _LATER_SHARE / 2
        until = work.seconds + share * search_seconds
        best = Search(request, target, bound, work, until).run(variants, best)
        if best is None or best.placement.step_ns >= step_ns:
            break
        request.progress((attempt + 0.7) / len(_MARGINS), "assigning addresses")
        placed_ns = best.placement.step_ns
        if attempt == 0 or sticks_out <= _NEARLY or small:
            planned = to_plan(best.variant.problem, best.placement)
            packed, height = pack_plan(request.graph, planned, limit, hurried=in_a_hurry(request))
            work.pack(len(packed.stays))
            sticks_out = height / limit - 1
            if height <= limit:
                tried.append(Tried(best, target, sticks_out))
                consider([packed])
                break
            if small:
                relocated = _relocated(request, best, bound, work)
                tried.append(Tried(best, target, sticks_out, plan_step_ns(request, relocated) if relocated else NEVER))
                consider([relocated] if relocated else [])
                jump = _MUCH_OF_IT * sticks_out if relocated else 0.0
            if exact and (within := packed_within(request.graph, packed, limit)) is not None:
                consider([within])
                break
        # In a hurry what only just sticks out is packed again with less: that takes less time than repairs.
        nearly = sticks_out <= _NEARLY
        if not small and not large and (not nearly if in_a_hurry(request) else attempt > 0 or nearly):
            consider(_with_addresses(request, best, target, step_ns))
            work.play(len(request.graph.ops), len(best.choices), _PLAYS_WITH_ADDRESSES)
        late = work.seconds >= hurry
        if step_ns <= placed_ns * (1 + _WORTH_ANOTHER) or (late and found is not None and not small):
            break
        attempt, following = attempt + 1, following + (2 if (late if small else sticks_out > far_out) else 1)
        if following >= len(_MARGINS):
            break
        margin = max(_MARGINS[following], margin + jump)
    if small and not exact and tried and step_ns > bound * (1 + _WORTH_ANOTHER):
        consider(_exchanged(request, bound, work, tried, step_ns))
    if found is None and tried:
        consider(_with_addresses(request, tried[0].solution, tried[0].target_bytes, NEVER))
    if found is None:
        request.progress(0.9, "paging: the limit leaves no room for a schedule with foresight")
    consider(_paged(request, variants, kept, bound, None if found is None else step_ns))
    if step_ns > bound and exact:
        optimum = _optimum(request, step_ns, _EXACT_SECONDS[effort])
        consider([] if optimum.plan is None else [optimum.plan])
        if not optimum.proved and effort != "fast":
            # What it had no time for, the ways of larger graphs may find.
            with suppress(NoPlacementError):
                consider([_plan(replace(request, options={**request.options, "exact": False}), bound)])
    if found is None:
        raise NoPlacementError
    if step_ns > bound and effort != "fast":
        found = split_transfers(request.graph, found, request.durations_ns, request.hardware)
    return found


def _exchanged(request: Request, bound: int, work: Work, tried: Sequence[Tried], step_ns: int) -> list[Plan]:
    """Plans with a step shorter than ``step_ns`` from exchanging gaps around the most promising solution, within what
    its addresses leave; again from what that finds."""
    limit, seconds = request.limit_bytes, _EXCHANGE_SECONDS[str(request.options.get("effort", "normal"))]
    plans, waiting = list[Plan](), list(tried)
    end = work.seconds + _EXCHANGES * seconds
    for turn in count():
        if not waiting or step_ns <= bound * (1 + _WORTH_ANOTHER) or work.seconds >= end:
            break
        request.check_cancelled()
        request.progress(0.85, "exchanging what leaves the device")
        now = min(waiting, key=lambda t: t.promise_ns)
        waiting.remove(now)
        target = now.room_bytes(limit)
        better = Search(request, target, bound, work, work.seconds + seconds).exchange(now.solution, turn)
        shortest_ns = step_ns
        for solution in better[:: -max(1, -(-len(better) // _PACKED_AGAIN))]:
            if solution.placement.step_ns >= step_ns:
                break
            packed, height = pack_plan(request.graph, to_plan(solution.variant.problem, solution.placement), limit)
            work.pack(len(packed.stays))
            plan: Plan | None = packed if height <= limit else None
            if plan is None and solution is better[-1]:
                plan = _relocated(request, solution, bound, work)
            plan_ns = NEVER if plan is None else plan_step_ns(request, plan)
            waiting.append(Tried(solution, target, height / limit - 1, plan_ns if height > limit else NEVER))
            if plan is not None and plan_ns < step_ns:
                plans.append(plan)
                step_ns = plan_ns
            if height <= limit or step_ns < shortest_ns:
                break
        if shortest_ns == step_ns and len(better) > 1 and better[-1].placement.step_ns >= step_ns:
            waiting.append(Tried(better[-1], target, 0.0))
        if not waiting:
            waiting.append(now)  # another turn draws other neighbours
    return plans


def _searchable(request: Request) -> bool:
    return len(request.graph.ops) <= MOST_OPS and len(request.graph.storages) <= MOST_STORAGES


def _optimum(request: Request, step_ns: int, seconds: float) -> Optimum:
    """The shortest step by searching all there are, with what was proved of it in time."""
    graph = request.graph
    request.progress(0.95, "searching for the shortest step of a small graph")
    instance = make_instance(graph, request.durations_ns, request.hardware, request.limit_bytes, request.actions)
    known_ns = UNBOUNDED if step_ns == NEVER else step_ns
    return find_optimum(instance, known_ns, UNBOUNDED, seconds, request.check_cancelled)


def _paged(
    request: Request, variants: Sequence[Variant], kept: frozenset[int], bound: int, step_ns: int | None
) -> list[Plan]:
    """Plans by paging, one per order and victim rule.

    Given the ``step_ns`` of a plan there already is: none where it cannot be beaten, or where rules say what has to
    leave, which paging does not follow. In a hurry one plan, only if there is none.
    """
    hurried = in_a_hurry(request)
    near = not _searchable(request) and step_ns is not None and step_ns <= bound * _NEAR
    if step_ns is not None and (step_ns <= bound or near or hurried or "offload" in request.actions):
        return []
    plans = []
    for variant in variants[:1] if hurried else variants:
        for victim_key in (farthest_next_use,) if hurried else (farthest_next_use, least_recently_used):
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


def _relocated(request: Request, solution: Solution, bound: int, work: Work) -> Plan | None:
    """The solution at addresses chosen together with its times."""
    problem, placement = solution.variant.problem, solution.placement
    step = AddressedStep(problem, placement.inserted)
    work.pack(len(placement.inserted.stays))
    seconds = _RELOCATING_SECONDS[str(request.options.get("effort", "normal"))]
    until = work.seconds + seconds

    def goes_on(times: Times) -> bool:
        request.check_cancelled()
        work.play(len(problem.order), len(placement.inserted.transfers), _PLAYS_PER_MOVE)
        return times.step_ns > bound and work.seconds < until

    found = relocate(step, placement, request.limit_bytes, Random(1), goes_on)
    return None if found is None else step.plan(*found)


def _with_addresses(request: Request, solution: Solution, target_bytes: int, least_ns: int) -> list[Plan]:
    """The solution placed again with a real allocator, with more gaps where its holes run out, as long as the step may
    get shorter than ``least_ns``; of a large graph the first such plan; in a hurry as long as it gets on."""
    small = len(request.graph.ops) <= SMALL_OPS
    turns = _REPAIRS if small else _REPAIRS_OF_LARGE
    plans, hurried = [], in_a_hurry(request)
    spares = (0, request.limit_bytes - target_bytes, int(request.limit_bytes * _SPARED))
    for spared in spares if small else spares[:1]:
        request.check_cancelled()
        furthest = -1

        def goes_on(turn: int, position: int, step_ns: int, least_ns: int = least_ns) -> bool:
            nonlocal furthest
            further, furthest = position > furthest, max(position, furthest)
            return turn < turns and step_ns < least_ns and (further or not hurried)

        with suppress(NoPlacementError):
            plan = place_making_room(
                solution.variant.problem,
                solution.variant.uses,
                request.actions,
                solution.choices,
                solution.placement,
                request.limit_bytes,
                spared,
                goes_on,
            )
            plans.append(plan)
            least_ns = min(least_ns, plan_step_ns(request, plan))
    return plans


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
