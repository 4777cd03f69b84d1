"""What a step takes at least because transfers take memory while they run."""

from __future__ import annotations

from hyperoffload_core.analysis.bounds import step_lower_bound_ns
from hyperoffload_core.analysis.memory_time import memory_time_bound_ns
from hyperoffload_core.hardware import Hardware, Link
from hyperoffload_core.ir import Graph
from tests.graphs import GraphBuilder

BYTE_NS = 1000
SLOW = Hardware("slow", "slow links", 1 << 30, Link(10**6, 0), Link(10**6, 0), "full")


def caches(count: int, size: int, *, updated: bool) -> Graph:
    """One op after the other reads a cache of its own and, if ``updated``, writes it in place."""
    b = GraphBuilder("caches")
    state = b.storage("x", 1, "input", True)
    for i in range(count):
        cache = b.storage(f"cache{i}", size, "kv_cache", True)
        b.op(f"use:{i}", [state, cache], [state, cache] if updated else [state])
    return b.graph()


def bound_ns(graph: Graph, limit: int, op_ns: int = 1) -> int:
    return memory_time_bound_ns(graph, [op_ns] * len(graph.ops), SLOW, limit, op_ns * len(graph.ops))


def nearly(bound: int, expected_bytes: float) -> bool:
    return 0.999 * expected_bytes * BYTE_NS < bound <= expected_bytes * BYTE_NS


def test_one_more_block_moves_for_the_one_on_its_way() -> None:
    # 501 bytes of 1,001 are over the limit; at every time one block more is on its way in.
    assert nearly(bound_ns(caches(10, 100, updated=False), 500), 501 + 100)


def test_what_is_written_takes_memory_on_its_way_out_as_well() -> None:
    assert nearly(bound_ns(caches(10, 100, updated=True), 500), 501 + 200)


def test_a_slower_op_keeps_its_block_for_longer() -> None:
    # Blocks stay for their own op too: 50 bytes x time in each 100 on the link.
    longer = bound_ns(caches(10, 100, updated=False), 500, op_ns=50 * BYTE_NS)
    assert nearly(longer, 501 + 150)


def test_it_says_no_more_than_what_is_known_where_that_is_more() -> None:
    graph = caches(10, 100, updated=True)
    assert memory_time_bound_ns(graph, [1] * 10, SLOW, 500, 10**6) == 10**6
    assert memory_time_bound_ns(graph, [1] * 10, SLOW, 2000, 10) == 10


def test_the_bound_of_a_step_counts_it() -> None:
    graph = caches(10, 100, updated=True)
    assert nearly(step_lower_bound_ns(graph, [1] * 10, SLOW, 500), 501 + 200)
