"""Strategy `hyperoffload` with option ``recompute``: ops run again where the links would take longer."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hyperoffload_core.analysis.bounds import smallest_feasible_limit
from hyperoffload_core.analysis.liveness import live_peak_bytes
from hyperoffload_core.compile import compile_schedule, schedule_of_plan
from hyperoffload_core.cost import Durations
from hyperoffload_core.ir import Graph
from hyperoffload_core.passes.play import NoPlacementError
from hyperoffload_core.policy import Action, Policy, Rule
from hyperoffload_core.schedule import Schedule
from hyperoffload_core.strategies import Cancelled, Request, hyperoffload
from hyperoffload_core.strategies.base import OptionValue
from hyperoffload_core.strategies.planned import plan_step_ns
from hyperoffload_core.strategies.recomputing import with_recomputation
from hyperoffload_core.verifier import violations
from tests.byte_machine import run_bytes
from tests.graphs import BIG, SMALL, TINY, TINY_HALF, graphs, saving_layers

SHORT = 20
"""Duration of an op in ns; `TINY` moves a byte in a nanosecond, so a big storage takes 1000 ns each way."""


def compiled(
    graph: Graph, limit: str, recompute: bool, *, op_ns: int = SHORT, rules: tuple[Rule, ...] = ()
) -> Schedule:
    options: dict[str, OptionValue] = {"effort": "fast", "recompute": recompute}
    policy = Policy(strategy="hyperoffload", memory_limit=limit, options=options, rules=rules)
    return compile_schedule(graph, Durations((op_ns,) * len(graph.ops), "made up"), TINY, policy)


def run_again(schedule: Schedule) -> set[str]:
    return {schedule.graph.ops[op.recompute_of].name for op in schedule.graph.ops if op.recompute_of is not None}


@pytest.mark.parametrize("layers", [6, 20])
def test_ops_shorter_than_a_transfer_run_again(layers: int) -> None:
    graph = saving_layers(layers)
    moved, again = (compiled(graph, "50%", recompute) for recompute in (False, True))
    assert moved.graph is graph and moved.transfers
    assert run_again(again) and all(name.startswith("grow") for name in run_again(again))
    assert all(t.bytes == SMALL for t in again.transfers)
    assert again.metrics.step_ns <= SHORT * (len(graph.ops) + layers) < moved.metrics.step_ns
    assert again.memory_limit_bytes == moved.memory_limit_bytes
    assert again.metrics.lower_bound_ns == SHORT * len(graph.ops)
    run_bytes(again, again.durations_ns, [t.end_ns - t.start_ns for t in again.transfers])


def test_ops_longer_than_their_transfers_do_not_run_again() -> None:
    graph = saving_layers(6)
    schedule = compiled(graph, "50%", True, op_ns=3 * BIG)
    assert schedule.transfers and not run_again(schedule)


def test_nothing_runs_again_where_transfers_cost_no_time() -> None:
    graph = saving_layers(6)
    schedule = compiled(graph, "50%", True, op_ns=BIG + SHORT)
    assert schedule.transfers and schedule.metrics.step_ns == sum(schedule.durations_ns)
    assert schedule.graph is graph


def test_what_a_rule_keeps_or_offloads_is_not_made_again() -> None:
    rules = (Rule(name="a0", action="keep"), Rule(name="a1", action="offload"))
    names = run_again(compiled(saving_layers(6), "70%", True, rules=rules))
    assert names and not {"grow:0", "grow:1"} & names


def asked(graph: Graph, durations_ns: tuple[int, ...], half: bool, limit_bytes: int) -> Request:
    hardware = TINY_HALF if half else TINY
    options = {"effort": "fast", "exact": False, "reorder": True}
    free: Action = "auto"
    return Request(graph, durations_ns, hardware, limit_bytes, (free,) * len(graph.storages), options)


def test_it_stops_when_cancelled() -> None:
    graph = saving_layers(6)
    request = asked(graph, (SHORT,) * len(graph.ops), False, live_peak_bytes(graph) // 2)
    found = hyperoffload.plan(request)
    with pytest.raises(Cancelled):
        with_recomputation(replace(request, cancelled=lambda: True), found, hyperoffload.plan)


@settings(max_examples=15, deadline=None)
@given(graphs(most_ops=16), st.randoms(use_true_random=False), st.booleans())
def test_any_graph_gives_a_valid_schedule_that_is_never_slower(graph: Graph, random: Random, half: bool) -> None:

    durations = tuple(random.randint(1, 12) for _ in graph.ops)
    least, most = smallest_feasible_limit(graph).bytes, live_peak_bytes(graph)
    request = asked(graph, durations, half, random.randint(least, max(least, most)))
    try:
        found = hyperoffload.plan(request)
    except NoPlacementError:
        return
    plan = with_recomputation(request, found, hyperoffload.plan)
    on = request if plan.graph is None else request.of(plan.graph)
    assert plan is found or plan_step_ns(on, plan) < plan_step_ns(request, found)
    schedule = schedule_of_plan(
        graph, Durations(durations, "made up"), request.hardware, plan, {}, "hyperoffload", request.limit_bytes
    )
    assert list(violations(schedule, graph)) == []
    run_bytes(schedule, schedule.durations_ns, [t.end_ns - t.start_ns for t in schedule.transfers])
