"""Strategies: every schedule is valid under any timing, meets its limit, and ours is never slower than the baseline."""

from __future__ import annotations

import random
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.optimum import read_optima
from hyperoffload_core.analysis.at_work import at_work_bound_ns
from hyperoffload_core.analysis.bounds import smallest_feasible_limit, step_lower_bound_ns
from hyperoffload_core.analysis.liveness import live_peak_bytes
from hyperoffload_core.compile import InfeasibleError, compile_schedule
from hyperoffload_core.cost import Durations
from hyperoffload_core.hardware import Hardware, Link
from hyperoffload_core.ir import Graph, storages_of
from hyperoffload_core.passes.order import releasing_early_order
from hyperoffload_core.policy import Policy, Rule
from hyperoffload_core.schedule import Schedule
from hyperoffload_core.strategies import STRATEGIES, StrategyError
from hyperoffload_core.verifier import ScheduleViolation
from tests.byte_machine import run_bytes
from tests.graphs import TINY, TINY_HALF, GraphBuilder, adjacent_layers, chain, graphs, random_graph, training
from tests.random_times import simulate_random
from tests.small_problems import small_problem


def durations(graph: Graph, seed: int = 0) -> Durations:
    rng = random.Random(seed)
    return Durations(tuple(rng.randint(20, 400) for _ in graph.ops), "made up")


def compiled(
    graph: Graph, limit: int, strategy: str, hardware: Hardware = TINY, rules: tuple[Rule, ...] = ()
) -> Schedule:
    options = {"effort": "fast"} if strategy == "hyperoffload" else {}
    policy = Policy(memory_limit=f"{limit}B", strategy=strategy, options=options, rules=rules)
    return compile_schedule(graph, durations(graph), hardware, policy)


@given(
    graphs(),
    st.sampled_from([TINY, TINY_HALF]),
    st.floats(0, 1),
    st.sampled_from(["reactive", "hyperoffload"]),
    st.integers(0, 2**32),
)
@settings(max_examples=80, deadline=None)
def test_every_schedule_passes_the_verifier_and_meets_any_feasible_limit_whatever_things_take(
    graph: Graph, hardware: Hardware, fraction: float, strategy: str, seed: int
) -> None:
    smallest, peak = smallest_feasible_limit(graph).bytes, live_peak_bytes(graph)
    limit = smallest + int(max(0, peak - smallest) * fraction)
    schedule = compiled(graph, limit, strategy, hardware)
    assert schedule.metrics.peak_live_bytes <= schedule.metrics.reserved_bytes <= limit
    assert schedule.metrics.step_ns >= schedule.metrics.lower_bound_ns
    profile = simulate_random(schedule, np.random.default_rng(seed))
    assert int(profile.steps.peak_bytes[0]) <= schedule.metrics.reserved_bytes


@pytest.mark.parametrize("seed", range(60))
def test_hyperoffload_is_never_slower_than_reactive(seed: int) -> None:
    graph = random_graph(random.Random(seed))
    smallest, peak = smallest_feasible_limit(graph).bytes, live_peak_bytes(graph)
    for limit in {smallest, (smallest + peak) // 2, max(smallest, peak * 6 // 10)}:
        ours, reactive = compiled(graph, limit, "hyperoffload"), compiled(graph, limit, "reactive")
        assert ours.metrics.step_ns <= reactive.metrics.step_ns


def test_nothing_moves_when_everything_fits() -> None:
    graph = training(4)
    schedule = compiled(graph, 2 * live_peak_bytes(graph), "hyperoffload")
    assert schedule.transfers == ()
    assert schedule.metrics.step_ns == schedule.metrics.compute_ns


def test_none_returns_its_schedule_and_says_by_how_much_it_is_over() -> None:
    graph = training(4)
    schedule = compiled(graph, live_peak_bytes(graph) // 2, "none")
    assert schedule.transfers == ()
    assert any("over the memory limit" in note for note in schedule.notes)


def test_an_infeasible_limit_names_the_smallest_feasible_one_and_its_op() -> None:
    graph = training(4)
    smallest = smallest_feasible_limit(graph)
    assert smallest.op is not None
    with pytest.raises(InfeasibleError) as error:
        compiled(graph, smallest.bytes - 1, "hyperoffload")
    assert f"{smallest.bytes} bytes" in str(error.value)
    assert repr(graph.ops[smallest.op].name) in str(error.value)
    assert str(error.value).count("\n") == 0


def test_the_smallest_feasible_limit_is_the_largest_working_set() -> None:
    graph = chain(5)
    expected = max(sum(graph.storages[s].bytes for s in storages_of(op)) + op.workspace_bytes for op in graph.ops)
    assert smallest_feasible_limit(graph).bytes == expected


def test_kept_storages_never_leave_and_offloaded_ones_do() -> None:
    graph = training(4)
    rules = (
        Rule.model_validate({"class": "weight", "action": "keep"}),
        Rule.model_validate({"class": "optimizer_state", "action": "offload"}),
    )
    schedule = compiled(graph, live_peak_bytes(graph), "hyperoffload", rules=rules)
    moved = {t.storage for t in schedule.transfers}
    for storage in graph.storages:
        if storage.tensor_class == "weight":
            assert storage.id not in moved
        if storage.tensor_class == "optimizer_state":
            assert storage.id in moved


@pytest.mark.parametrize("strategy", ["reactive", "lookahead", "hyperoffload"])
def test_kept_inputs_never_move_under_any_limit(strategy: str) -> None:
    planned = 0
    for seed in range(60):
        graph = random_graph(random.Random(seed))
        rules = (Rule.model_validate({"class": "input", "action": "keep"}),)
        kept = {s.id for s in graph.storages if s.tensor_class == "input"}
        if kept:
            with suppress(InfeasibleError):
                schedule = compiled(graph, smallest_feasible_limit(graph, kept).bytes, strategy, rules=rules)
                assert not kept & {t.storage for t in schedule.transfers}, seed
                planned += 1
    assert planned > 15


def test_what_takes_bytes_waits_for_their_owner_though_a_dead_value_lay_there_at_the_start() -> None:
    b = GraphBuilder("overwritten")
    state = b.storage("state", 4, "optimizer_state", True)
    x, weight = b.storage("x", 5, "input"), b.storage("weight", 5, "weight", True)
    cache, unread = b.storage("cache", 12, "kv_cache", True), b.storage("unread", 9)
    b.op("update", [x, weight, state], [state], workspace=3)
    b.op("again", [state], [weight], after=[0])
    b.op("overwrite", [], [cache], workspace=3)
    b.op("make", [], [unread])
    graph = b.graph()
    policy = Policy(memory_limit="17B", options={"reorder": False})
    schedule = compile_schedule(graph, Durations((96, 93, 810, 285), "made up"), TINY, policy)
    run_bytes(schedule, [1] * 4, [1000] * len(schedule.transfers))


def test_keeping_more_than_fits_is_infeasible() -> None:
    graph = training(6)
    rules = (Rule.model_validate({"name": "*", "action": "keep"}),)
    with pytest.raises(InfeasibleError):
        compiled(graph, live_peak_bytes(graph) * 6 // 10, "hyperoffload", rules=rules)


def test_a_kept_output_counts_against_the_limit_only_from_its_first_write() -> None:
    b = GraphBuilder("kept output")
    x, a, y = b.storage("x", 10, "input"), b.storage("a", 100), b.storage("y", 50, "output")
    b.op("large", [x], [a])
    b.op("shrink", [a], [x])
    b.op("result", [x], [y])
    graph = b.graph()
    assert smallest_feasible_limit(graph, kept=[y]).bytes == 110
    rules = (Rule.model_validate({"name": "y", "action": "keep"}),)
    assert compiled(graph, 110, "hyperoffload", rules=rules).metrics.reserved_bytes <= 110


def test_only_the_baseline_without_offload_may_exceed_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = training(6)
    limit = live_peak_bytes(graph) * 6 // 10
    assert any("over the memory limit" in note for note in compiled(graph, limit, "none").notes)
    ignores_limits = replace(STRATEGIES["reactive"], plan=STRATEGIES["none"].plan)
    monkeypatch.setitem(STRATEGIES, "reactive", ignores_limits)
    with pytest.raises(ScheduleViolation, match="limit"):
        compiled(graph, limit, "reactive")


def test_transfers_hide_completely_when_the_link_is_fast_enough() -> None:
    graph = training(12, size=1000)
    fast = Hardware("fast", "fast links", 1 << 30, Link(10**12, 1), Link(10**12, 1), "full")
    limit = max(smallest_feasible_limit(graph).bytes, live_peak_bytes(graph) * 6 // 10)
    schedule = compiled(graph, limit, "hyperoffload", fast)
    assert schedule.transfers
    assert schedule.metrics.exposed_ns <= 4
    assert compiled(graph, limit, "reactive", fast).metrics.exposed_ns > schedule.metrics.exposed_ns


def test_prefetches_of_adjacent_layers_share_the_link_one_after_the_other() -> None:
    graph = adjacent_layers()
    limit = max(smallest_feasible_limit(graph).bytes, live_peak_bytes(graph) // 2)
    schedule = compiled(graph, limit, "hyperoffload")
    for link in schedule.link_transfers():
        assert all(a.end_ns <= b.start_ns for a, b in pairwise(link))


def test_a_storage_that_only_leaves_for_a_while_returns_to_its_address() -> None:
    graph = training(8, size=1000)
    schedule = compiled(graph, live_peak_bytes(graph) * 7 // 10, "hyperoffload")
    for storage in graph.storages:
        if storage.persistent and schedule.homes[storage.id] == "device":
            stays = [r for r in schedule.residencies if r.storage == storage.id]
            assert stays[0].offset == stays[-1].offset


@given(graphs())
@settings(max_examples=100, deadline=None)
def test_the_order_that_releases_early_is_legal(graph: Graph) -> None:
    position = {op: p for p, op in enumerate(releasing_early_order(graph))}
    assert sorted(position) == sorted(position.values()) == list(range(len(graph.ops)))
    assert all(position[before] < position[op.id] for op in graph.ops for before in op.after)


@given(graphs(), st.floats(0, 1))
@settings(max_examples=30, deadline=None)
def test_the_lower_bound_never_falls_below_the_sum_of_the_ops(graph: Graph, fraction: float) -> None:
    ns = durations(graph).ns
    assert step_lower_bound_ns(graph, ns, TINY, int(live_peak_bytes(graph) * fraction)) >= sum(ns)


def test_a_storage_that_is_overwritten_first_need_not_come_in() -> None:
    """The verifier accepts a schedule that never fetches it, so the bound must not count it."""
    b = GraphBuilder("overwritten")
    old, x, y = b.storage("old", 9000, "kv_cache", True), b.storage("x", 1, "input"), b.storage("y", 1, "output")
    b.op("overwrite", [x], [old])
    b.op("use", [old], [y])
    in_only = Hardware("in", "a slow way in", 1 << 30, Link(10**12, 0), Link(10**6, 0), "full")
    assert step_lower_bound_ns(b.graph(), (10, 10), in_only, 5000) == 20
    read = GraphBuilder("read")
    old, other = read.storage("old", 9000, "kv_cache", True), read.storage("other", 9000, "weight", True)
    for storage in (old, other):
        read.op("use", [storage], [read.storage("y", 1)])
    bound = step_lower_bound_ns(read.graph(), (10, 10), in_only, 9001)
    both_come_in_ns = 2 * 9000 * 1000  # each leaves for the other
    assert 0.9999 * both_come_in_ns < bound <= both_come_in_ns + 20


def test_unknown_strategies_and_options_are_named() -> None:
    graph = chain(3)
    with pytest.raises(StrategyError, match="did you mean hyperoffload"):
        compile_schedule(graph, durations(graph), TINY, Policy(strategy="hyperofload"))
    with pytest.raises(StrategyError, match="has no option 'efort'"):
        compile_schedule(graph, durations(graph), TINY, Policy(options={"efort": "fast"}))
    with pytest.raises(StrategyError, match="choose one of fast, normal, best"):
        compile_schedule(graph, durations(graph), TINY, Policy(options={"effort": "quick"}))
    assert set(STRATEGIES) >= {"none", "reactive", "hyperoffload"}


def test_the_lower_bound_is_below_every_proved_optimum() -> None:
    rows = read_optima()
    assert len(rows) == 500
    for row in rows:
        problem = small_problem(row.seed)
        bound = step_lower_bound_ns(problem.graph, problem.durations_ns, problem.hardware, row.limit_bytes)
        assert bound <= row.optimum_ns, row.seed
        compute_ns = sum(problem.durations_ns)
        at_work = at_work_bound_ns(problem.graph, problem.durations_ns, problem.hardware, row.limit_bytes, compute_ns)
        assert at_work <= row.optimum_ns, row.seed
