"""All gaps chosen at once, by a linear program."""

from __future__ import annotations

import numpy as np

from hyperoffload_core.analysis.lifetimes import uses_in_order
from hyperoffload_core.hardware import Hardware, Link
from hyperoffload_core.passes.covering import cover
from hyperoffload_core.passes.play import make_problem
from hyperoffload_core.passes.selection import WRAP, find_candidates, find_gaps, plain_estimate
from tests.graphs import GraphBuilder

SLOW = Hardware("slow", "slow links", 1 << 30, Link(10**6, 0), Link(10**6, 0), "full")


def test_no_part_leaves_at_the_start_of_the_step_by_the_copy_of_the_part_at_home_in_the_pool() -> None:
    # The state has to be away while the middle op runs. Stored ahead of it or behind its update, all of it is stored.
    b = GraphBuilder("state")
    x, y, state = b.storage("x", 1, "input"), b.storage("y", 1), b.storage("state", 100, "optimizer_state", True)
    b.op("first", [x], [y])
    b.op("middle", [y], [y], workspace=100)
    b.op("update", [y, state], [state])
    graph = b.graph()
    problem = make_problem(graph, (0, 1, 2), [1, 1, 1], SLOW)
    uses = uses_in_order(graph, (0, 1, 2))
    candidates = find_candidates(problem, find_gaps(problem, uses, ("auto",) * 3), plain_estimate(problem), exact=False)
    parts = cover(problem, uses, candidates, 110, np.ones(len(candidates.bytes), np.bool_))
    assert parts is not None
    left = dict(zip(zip(candidates.storage.tolist(), candidates.index.tolist(), strict=True), parts, strict=True))
    assert left[state, WRAP] > 0.9
    assert left[state, -1] < 0.1
