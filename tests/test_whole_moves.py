"""What has to come back because storages move as a whole."""

from __future__ import annotations

import pytest

from hyperoffload_core.analysis.bounds import step_lower_bound_ns
from hyperoffload_core.analysis.whole_moves import least_bytes_back
from hyperoffload_core.hardware import Hardware, Link
from hyperoffload_core.ir import Graph
from tests.graphs import GraphBuilder


def reading(sizes: list[int], overwritten: int = 0) -> Graph:
    """One op reads each weight; the first ``overwritten`` weights are written anew at the end, unread."""
    b = GraphBuilder("reading")
    weights = [b.storage(f"w{i}", size, "weight", True) for i, size in enumerate(sizes)]
    for i, w in enumerate(weights):
        b.op(f"use:{i}", [w], [b.storage(f"y{i}", 1)])
    for i in range(overwritten):
        b.op(f"set:{i}", [], [weights[i]])
    return b.graph()


def test_what_leaves_is_more_than_what_is_over_the_limit_by_itself() -> None:
    # 400 and the op's own byte over 391 are 10: whoever leaves, another one makes the room while its op runs.
    assert least_bytes_back(reading([100, 100, 100, 100]), 391) == 110


def test_small_storages_leave_for_less_as_long_as_they_suffice() -> None:
    assert least_bytes_back(reading([200, 10, 10, 10]), 230 + 1 - 12) == 12 + 10
    # Three of 10 cannot make 25 bytes of room while one of them is back: a large one has to leave.
    assert least_bytes_back(reading([200, 10, 10, 10]), 230 + 1 - 25) == 25 + 200


def test_nothing_has_to_come_back_where_all_fits() -> None:
    assert least_bytes_back(reading([100, 100]), 201) == 0


def test_what_is_overwritten_unread_may_be_dropped() -> None:
    assert least_bytes_back(reading([100, 100, 100, 100], overwritten=4), 391) == 0


@pytest.mark.parametrize("limit", [391, 350, 301])
def test_the_bound_counts_whole_storages(limit: int) -> None:
    graph = reading([100, 100, 100, 100])
    slow = Hardware("slow", "a slow link in", 1 << 30, Link(10**12, 0), Link(10**6, 0), "full")
    bound = step_lower_bound_ns(graph, [10] * len(graph.ops), slow, limit)
    least_ns = (401 - limit + 100) * 1000
    assert 0.9999 * least_ns <= bound <= least_ns + 40
