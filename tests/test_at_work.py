"""What a step takes at least because what is at work at once has to fit on the device."""

from __future__ import annotations

import pytest

from hyperoffload_core.analysis.at_work import at_work_bound_ns
from hyperoffload_core.analysis.bounds import step_lower_bound_ns
from hyperoffload_core.analysis.memory_time import memory_time_bound_ns
from hyperoffload_core.ir import Graph
from tests.graphs import GraphBuilder
from tests.test_memory_time import BYTE_NS, SLOW, caches, nearly


def bound_ns(graph: Graph, limit: int, op_bytes: int) -> int:
    """With ops that take as long as so many bytes on a link."""
    op_ns = op_bytes * BYTE_NS
    return at_work_bound_ns(graph, [op_ns] * len(graph.ops), SLOW, limit, op_ns * len(graph.ops))


def blocks(count: int, *, again_writes: bool) -> Graph:
    """Each block is updated by one op, then read or updated by another."""
    b = GraphBuilder("blocks")
    x = b.storage("x", 1, "input", True)
    for i in range(count):
        block = b.storage(f"block{i}", 100, "kv_cache", True)
        b.op(f"update:{i}", [x, block], [x, block])
        b.op(f"again:{i}", [x, block], [x, block] if again_writes else [x])
    return b.graph()


def test_the_link_rests_while_a_block_is_used_or_one_more_block_leaves() -> None:
    # 501 bytes of 1,001 are over the limit. With 601 away one block is there at a time, and none arrives while an op
    # uses it; so that one does, 701 have to leave.
    graph = caches(10, 100, updated=False)
    assert nearly(bound_ns(graph, 500, 10), 601 + 6.01 * 10)
    assert nearly(bound_ns(graph, 500, 20), 701)


def test_it_counts_in_the_bound_of_a_step_where_memory_x_time_says_less() -> None:
    graph, durations = caches(10, 100, updated=False), [10 * BYTE_NS] * 10
    averaged = memory_time_bound_ns(graph, durations, SLOW, 500, sum(durations))
    assert averaged < step_lower_bound_ns(graph, durations, SLOW, 500) == bound_ns(graph, 500, 10)


def test_a_block_leaves_while_an_op_reads_it_and_not_while_one_writes_it() -> None:
    # All six have to leave, and one is there at a time.
    assert nearly(bound_ns(blocks(6, again_writes=True), 101, 20), 6 * (100 + 20 + 20 + 100))
    assert nearly(bound_ns(blocks(6, again_writes=False), 101, 20), 6 * (100 + 20 + 100))


def test_storages_that_the_same_ops_use_are_there_together() -> None:
    b = GraphBuilder("pairs")
    x = b.storage("x", 1, "input", True)
    for i in range(5):
        pair = [b.storage(f"{name}{i}", 100, "kv_cache", True) for name in ("key", "value")]
        b.op(f"use:{i}", [x, *pair], [x])
    # Seven of ten would do with one there at a time, but of seven two belong to one pair. Of eight there are three
    # pairs at least, and none arrives while one is used.
    assert nearly(bound_ns(b.graph(), 401, 20), 800 + 3 * 20)


@pytest.mark.parametrize("limit", [1001, 2000])
def test_it_says_nothing_where_everything_fits(limit: int) -> None:
    assert bound_ns(caches(10, 100, updated=True), limit, 20) == 10 * 20 * BYTE_NS
