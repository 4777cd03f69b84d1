"""Plans from directives: whatever a static planner asks for, the schedule is valid apart from the memory limit."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from hyperoffload_core.analysis.lifetimes import reuse_gaps, uses_in_order
from hyperoffload_core.compile import schedule_of_plan
from hyperoffload_core.cost import Durations
from hyperoffload_core.hardware import Hardware
from hyperoffload_core.ir import Graph
from hyperoffload_core.passes.directives import Leave, plan_of_leaves
from hyperoffload_core.passes.selection import WRAP
from hyperoffload_core.verifier import verify
from tests.graphs import TINY, TINY_HALF, chain, graphs, training


@given(graphs(), st.sampled_from([TINY, TINY_HALF]), st.booleans(), st.integers(0, 2**32))
@settings(max_examples=200, deadline=None)
def test_any_directives_give_a_schedule_that_is_valid_but_for_the_limit(
    graph: Graph, hardware: Hardware, one_stream: bool, seed: int
) -> None:
    rng, count = Random(seed), len(graph.ops)
    durations = Durations(tuple(rng.randint(20, 400) for _ in graph.ops), "made up")
    leaves = []
    for use in uses_in_order(graph, range(count)):
        gaps = [g.index for g in reuse_gaps(use, count) if rng.random() < 0.5]
        if use.positions and use.exists_at_start and (use.lives_to_end or not any(use.writes)) and rng.random() < 0.5:
            gaps = [g for g in gaps if 0 <= g < len(use.positions) - 1] + [WRAP]
        for gap in gaps:
            wait = rng.choice([None, rng.randint(0, count)])
            wait_in = rng.choice([None, rng.randint(0, count)])
            leaves.append(
                Leave(use.storage, gap, rng.randint(-1, count - 1), wait, rng.randint(-1, count - 1), wait_in)
            )
    plan = plan_of_leaves(graph, tuple(range(count)), durations.ns, hardware, leaves, one_stream=one_stream)
    schedule = schedule_of_plan(graph, durations, hardware, plan, {}, "test", 1 << 40)
    verify(replace(schedule, memory_limit_bytes=1 << 40))
    if one_stream:
        by_start = sorted(schedule.transfers, key=lambda t: (t.start_ns, t.end_ns))
        assert all(earlier.end_ns <= later.start_ns for earlier, later in pairwise(by_start))


def test_compute_waits_for_the_copy_out_where_the_directive_says_so() -> None:
    graph = training(2)
    durations = Durations((10,) * len(graph.ops), "made up")
    activation = next(s.id for s in graph.storages if s.name == "a0")
    first = graph.accesses[activation][1].op
    free, held = (
        schedule_of_plan(
            graph,
            durations,
            TINY,
            plan_of_leaves(
                graph, range(len(graph.ops)), durations.ns, TINY, [Leave(activation, 1, first, wait, first + 1)]
            ),
            {},
            "test",
            1 << 30,
        )
        for wait in (None, first + 1)
    )
    store = next(t for t in held.transfers if t.kind == "store")
    assert held.op_times[first + 1].start_ns == store.end_ns > free.op_times[first + 1].start_ns


def test_the_device_copy_is_given_back_where_compute_waits_for_its_copy_out() -> None:
    graph = training(4)
    count = len(graph.ops)
    durations = Durations((1000,) * count, "made up")
    activation = next(s.id for s in graph.storages if s.name == "a0")
    first, use = graph.accesses[activation][1].op, graph.accesses[activation][2].op
    for wait, given_back in ((None, first), (first + 3, first + 2), (count, use - 2)):
        leave = Leave(activation, 1, first, wait, use - 2)
        plan = plan_of_leaves(graph, range(count), durations.ns, TINY, [leave])
        assert [s.last for s in plan.stays if s.storage == activation] == [given_back, use]


def test_no_directives_move_nothing() -> None:
    graph = chain(4)
    assert plan_of_leaves(graph, range(4), (5,) * 4, TINY, []).transfers == ()
