"""Addresses chosen together with times: who shares bytes waits, nothing else does, and what waits moves elsewhere."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from hyperoffload_core.analysis.lifetimes import Uses, uses_in_order
from hyperoffload_core.analysis.liveness import live_peak_bytes
from hyperoffload_core.hardware import Hardware
from hyperoffload_core.ir import Graph
from hyperoffload_core.passes.addressed_play import AddressedStep
from hyperoffload_core.passes.choice import Choosing
from hyperoffload_core.passes.critical import latest_starts_ns, waits_for_addresses
from hyperoffload_core.passes.insertion import insert_cache_operators
from hyperoffload_core.passes.order import captured_order
from hyperoffload_core.passes.placement import place
from hyperoffload_core.passes.play import Placement, make_problem
from hyperoffload_core.passes.relocating import packed_by_use, relocate
from hyperoffload_core.passes.selection import find_candidates, find_gaps, gap_sets, plain_estimate
from hyperoffload_core.passes.tenants import Layout
from hyperoffload_core.passes.timing import time_plan
from tests.graphs import TINY, TINY_HALF, training


def placed(graph: Graph, hardware: Hardware, share: float) -> tuple[AddressedStep, Placement, int]:
    """A choice for a share of the no-offload peak, placed by its bytes."""
    limit, order = int(live_peak_bytes(graph) * share), captured_order(graph)
    problem = make_problem(graph, order, [10] * len(graph.ops), hardware)
    uses: tuple[Uses, ...] = uses_in_order(graph, order)
    actions = ("auto",) * len(graph.storages)
    gaps = find_gaps(problem, uses, actions)
    candidates = find_candidates(problem, gaps, plain_estimate(problem), exact=False)
    chosen = Choosing(problem, uses, actions, candidates, limit).greedy()
    assert chosen is not None
    assert chosen.choices
    inserted = insert_cache_operators(graph, uses, *gap_sets(chosen.choices, uses))
    return AddressedStep(problem, inserted), place(problem, inserted, limit), limit


@pytest.mark.parametrize("hardware", [TINY, TINY_HALF])
@pytest.mark.parametrize("share", [0.8, 0.6])
@pytest.mark.parametrize("workspace", [0, 3])
def test_the_plan_takes_the_played_time_within_the_limit_and_shares_no_byte_at_once(
    hardware: Hardware, share: float, workspace: int
) -> None:
    graph = training(8, workspace=workspace)
    step, placement, limit = placed(graph, hardware, share)
    turns = iter(range(50))
    found = relocate(step, placement, limit, Random(1), lambda _: next(turns, None) is not None)
    assert found is not None
    layout, times = found
    plan = step.plan(layout, times)
    assert time_plan(graph, plan, [10] * len(graph.ops), hardware)[2] == times.step_ns
    assert plan.offsets is not None
    blocks = [
        (*span, low, low + graph.storages[stay.storage].bytes, stay.storage)
        for span, low, stay in zip(plan.spans_ns, plan.offsets, plan.stays, strict=True)
    ]
    blocks += [(*plan.op_spans_ns[p], low, low + workspace, -1) for p, low in plan.workspace_offsets]
    for number, (start, end, low, high, storage) in enumerate(blocks):
        assert 0 <= low < high <= limit
        for other in blocks[:number]:
            assert other[4] == storage or end <= other[0] or other[1] <= start or high <= other[2] or other[3] <= low


def test_turns_make_the_step_shorter() -> None:
    steps = []
    for turns in (0, 300):
        left = iter(range(turns))
        step, placement, limit = placed(training(20), TINY, 0.6)
        found = relocate(step, placement, limit, Random(1), lambda _, left=left: next(left, None) is not None)
        assert found is not None
        steps.append(found[1].step_ns)
    assert steps[1] < steps[0]


def test_the_latest_starts_of_a_play_are_no_earlier_than_its_starts_and_bind_where_rows_wait() -> None:
    step, _, limit = placed(training(8), TINY, 0.6)
    layout = packed_by_use(step.tenants, limit)
    assert layout is not None
    times = step.play(layout)
    latest = latest_starts_ns(step, layout, times)
    assert all(late >= start for late, start in zip(latest, times.row_start, strict=True))
    waits = waits_for_addresses(step, layout, times)
    assert waits
    for earlier, later in waits:
        assert earlier in layout.before[later]
        assert latest[later] == times.row_start[later] == times.row_end[earlier]


def test_a_block_that_moves_leaves_the_same_waits_as_a_layout_made_so() -> None:
    step, _, limit = placed(training(6), TINY, 0.7)
    layout = packed_by_use(step.tenants, limit)
    assert layout is not None
    above = int(layout.offset.max()) + 64
    for block in (3, 0, 5):
        layout.move(block, above + 64 * block)
    made = Layout(step.tenants, np.array(layout.offset))
    assert [sorted(rows) for rows in layout.before] == [sorted(rows) for rows in made.before]
    assert [sorted(rows) for rows in layout.behind] == [sorted(rows) for rows in made.behind]


def test_where_ops_alone_need_more_than_the_limit_there_are_no_addresses() -> None:
    step, placement, limit = placed(training(8), TINY, 0.6)
    assert relocate(step, placement, limit // 2, Random(1), lambda _: True) is None
