"""All gaps chosen at once, by a linear program."""

from __future__ import annotations

import numpy as np
import pytest

from bench.synthetic import synthetic_training
from hyperoffload_core.analysis.lifetimes import uses_in_order
from hyperoffload_core.hardware import Hardware, Link
from hyperoffload_core.passes.alike import alike
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


def test_of_storages_alike_all_but_one_leave_whole_or_not_at_all() -> None:
    b = GraphBuilder("states")
    x, y = b.storage("x", 1, "input"), b.storage("y", 1)
    states = [b.storage(f"state{number}", 100, "optimizer_state", True) for number in range(5)]
    b.op("first", [x], [y])
    b.op("middle", [y], [y], workspace=300)
    b.op("update", [y, *states], states)
    graph = b.graph()
    order = tuple(range(len(graph.ops)))
    problem, uses = make_problem(graph, order, [1] * len(order), SLOW), uses_in_order(graph, order)
    gaps = find_gaps(problem, uses, ("auto",) * len(graph.storages))
    candidates = find_candidates(problem, gaps, plain_estimate(problem), exact=False)
    # 802 bytes are there in the middle of the step: half of the states has to leave.
    parts = cover(problem, uses, candidates, 552, np.ones(len(candidates.bytes), np.bool_))
    assert parts is not None
    away = np.bincount(candidates.storage, parts, len(graph.storages))[states]
    assert away.sum() == pytest.approx(2.5, abs=0.05)
    assert sum(0.05 < part < 0.95 for part in away) <= 1


def test_gaps_of_many_layers_are_few_groups_and_as_much_of_each_leaves_as_its_part_says() -> None:
    graph = synthetic_training(2000)
    order, slow = tuple(range(len(graph.ops))), Hardware("slow", "", 1 << 50, Link(10**9, 0), Link(10**9, 0), "full")
    problem, uses = make_problem(graph, order, [1000] * len(order), slow), uses_in_order(graph, order)
    gaps = find_gaps(problem, uses, ("auto",) * len(graph.storages))
    c = find_candidates(problem, gaps, plain_estimate(problem), exact=False)
    chosen = np.linspace(0, len(order) + 1, 10).astype(np.int64)
    groups = alike(c, uses, np.arange(len(c.bytes)), chosen, chosen)
    assert len(groups.gaps.bytes) < len(c.bytes) / 5
    assert groups.gaps.bytes.sum() == c.bytes.sum()
    assert (groups.gaps.wrap[groups.group] == c.wrap).all()
    assert ((groups.gaps.last_write[groups.group] < 0) == (c.last_write < 0)).all()
    parts = np.linspace(0, 1, len(groups.gaps.bytes))
    spread = groups.spread(parts)
    assert np.allclose(np.bincount(groups.group, spread * c.bytes), parts * groups.gaps.bytes)
    assert ((spread > 1e-6) & (spread < 1 - 1e-6)).sum() <= len(parts)
