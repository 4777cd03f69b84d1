"""Neighbours of a choice of gaps."""

from __future__ import annotations

from random import Random

from hyperoffload_core.analysis.lifetimes import uses_in_order
from hyperoffload_core.analysis.liveness import live_peak_bytes
from hyperoffload_core.passes.choice import Choosing
from hyperoffload_core.passes.exchange import Exchange
from hyperoffload_core.passes.insertion import insert_cache_operators
from hyperoffload_core.passes.order import captured_order
from hyperoffload_core.passes.play import make_problem, occupancy
from hyperoffload_core.passes.selection import find_candidates, find_gaps, gap_sets, plain_estimate
from tests.graphs import TINY, training


def test_every_neighbour_keeps_the_limit_and_differs_and_the_way_back_is_exact() -> None:
    graph = training(6)
    limit, order = live_peak_bytes(graph) * 6 // 10, captured_order(graph)
    problem = make_problem(graph, order, [100] * len(graph.ops), TINY)
    uses, actions = uses_in_order(graph, order), ("auto",) * len(graph.storages)
    candidates = find_candidates(problem, find_gaps(problem, uses, actions), plain_estimate(problem), exact=False)
    choosing = Choosing(problem, uses, actions, candidates, limit)
    assert choosing.greedy() is not None
    exchange, seen = Exchange(choosing, Random(1)), set()
    for turn in range(60):
        before = choosing.choices()
        choices = exchange.neighbour()
        if choices is None:
            assert choosing.choices() == before
            continue
        seen.add(choices)
        inserted = insert_cache_operators(graph, uses, *gap_sets(choices, uses))
        assert occupancy(problem, inserted.stays).max() <= limit
        if turn % 2:
            exchange.back()
            assert choosing.choices() == before
    assert len(seen) > 10


def test_a_choice_can_be_held_with_what_its_bytes_alone_do_not_need() -> None:
    # A solution leaves more than that, so that transfers need not wait for memory.
    graph = training(6)
    peak, order = live_peak_bytes(graph), captured_order(graph)
    problem = make_problem(graph, order, [100] * len(graph.ops), TINY)
    uses, actions = uses_in_order(graph, order), ("auto",) * len(graph.storages)
    candidates = find_candidates(problem, find_gaps(problem, uses, actions), plain_estimate(problem), exact=False)

    def choosing(limit: int) -> Choosing:
        return Choosing(problem, uses, actions, candidates, limit)

    much = choosing(peak * 5 // 10).greedy()
    assert much is not None
    held, needed = (choosing(peak * 7 // 10).start_from(much.choices, settle=settle) for settle in (False, True))
    assert held is not None
    assert needed is not None
    assert held.choices == much.choices > needed.choices
