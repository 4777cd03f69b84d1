"""Where bytes would fit but holes do not, something more leaves the device; large blocks share their places."""

from __future__ import annotations

import pytest

from hyperoffload_core.analysis.lifetimes import uses_in_order
from hyperoffload_core.ir import Graph
from hyperoffload_core.passes.addresses import pack_plan
from hyperoffload_core.passes.arena import NoHoleError, place_with_addresses
from hyperoffload_core.passes.insertion import insert_cache_operators
from hyperoffload_core.passes.making_room import place_making_room
from hyperoffload_core.passes.placement import place
from hyperoffload_core.passes.plan import Plan
from hyperoffload_core.passes.play import NoPlacementError, make_problem
from hyperoffload_core.policy import Action
from tests.graphs import TINY, GraphBuilder

LIMIT = 15


def torn() -> Graph:
    """a, b and c of 4 bytes one above the other; b goes, and d of 6 comes: 7 bytes are free, in two holes."""
    b = GraphBuilder("torn")
    a, middle, c = b.storage("a", 4), b.storage("b", 4), b.storage("c", 4)
    d, y = b.storage("d", 6), b.storage("y", 1, "output")
    b.op("make:a", [], [a])
    b.op("make:b", [], [middle])
    b.op("make:c", [middle], [c])
    b.op("make:d", [], [d])
    b.op("use:d", [d], [y])
    b.op("use:a", [a, c], [y])
    return b.graph()


def plan_of(graph: Graph, limit: int, actions: dict[int, Action] | None = None, turns: int = 5) -> Plan:
    order = tuple(range(len(graph.ops)))
    problem, uses = make_problem(graph, order, [10] * len(order), TINY), uses_in_order(graph, order)
    inserted = insert_cache_operators(graph, uses, [set() for _ in graph.storages], set())
    placement = place(problem, inserted, limit)
    asked: list[Action] = [(actions or {}).get(s, "auto") for s in range(len(graph.storages))]
    return place_making_room(problem, uses, asked, frozenset(), placement, limit, 0, lambda turn, *_: turn < turns)


def test_a_block_that_finds_no_hole_makes_a_neighbour_leave() -> None:
    graph = torn()
    plan = plan_of(graph, LIMIT)
    assert {graph.storages[plan.stays[i].storage].name for i, s in enumerate(plan.stays) if s.fetch is not None} <= {
        "a",
        "c",
    }
    assert plan.transfers
    assert pack_plan(graph, plan, LIMIT)[1] <= LIMIT
    taken = [
        (start, end, low, low + graph.storages[stay.storage].bytes)
        for stay, (start, end), low in zip(plan.stays, plan.spans_ns, plan.offsets or (), strict=True)
    ]
    for place_in_row, (start, end, low, high) in enumerate(taken):
        for other in taken[:place_in_row]:
            assert end <= other[0] or other[1] <= start or high <= other[2] or other[3] <= low


def test_with_room_enough_nothing_leaves() -> None:
    assert not plan_of(torn(), LIMIT + 4).transfers


def test_what_is_kept_does_not_leave() -> None:
    with pytest.raises(NoHoleError) as stuck:
        plan_of(torn(), LIMIT, {0: "keep", 2: "keep"})
    assert stuck.value.wanted_bytes == 6


def test_it_ends_when_told() -> None:
    with pytest.raises(NoPlacementError):
        plan_of(torn(), LIMIT, turns=0)


def test_large_blocks_that_come_one_after_the_other_share_a_place_with_one_that_is_away() -> None:
    """A state of 64 bytes leaves at the start and comes back at the end; between lie activations made while it left."""
    b = GraphBuilder("shared")
    state, y = b.storage("state", 64, "optimizer_state", True), b.storage("y", 1, "output")
    small = [b.storage(f"a{i}", 2) for i in range(8)]
    large = b.storage("large", 64)
    for i, s in enumerate(small):
        b.op(f"make:{i}", [], [s])
    b.op("make:large", small[:1], [large])
    b.op("use:large", [large], [y])
    for i, s in enumerate(small):
        b.op(f"use:{i}", [s], [y])
    b.op("update", [state, small[-1]], [state])
    graph = b.graph()
    order = tuple(range(len(graph.ops)))
    problem, uses = make_problem(graph, order, [100] * len(order), TINY), uses_in_order(graph, order)
    # Small ones move as well, so that the others are large beside them.
    leaving: list[set[int]] = [{-1} if s == state else {0} if s in small[1:6] else set() for s in range(11)]
    limit = 64 + 2 * len(small) + 2
    placement = place(problem, insert_cache_operators(graph, uses, leaving, set()), limit)
    plan = place_with_addresses(problem, placement.inserted, placement.bounds, limit, 0)
    assert plan.offsets is not None
    places = {low for stay, low in zip(plan.stays, plan.offsets, strict=True) if stay.storage in (state, large)}
    assert len(places) == 1
