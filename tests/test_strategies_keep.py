"""What rules keep on the device, and what cannot move, stays there under every strategy, whatever the limit."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hyperoffload_core.analysis.bounds import smallest_feasible_limit
from hyperoffload_core.analysis.liveness import live_peak_bytes
from hyperoffload_core.compile import InfeasibleError, compile_schedule
from hyperoffload_core.cost import CostError, Durations
from hyperoffload_core.ir import Graph
from hyperoffload_core.policy import Policy, Rule
from hyperoffload_core.schedule import Schedule
from hyperoffload_core.strategies import STRATEGIES
from tests.graphs import TINY, GraphBuilder, random_graph, training


def compiled(graph: Graph, strategy: str, limit: int, kept: list[str], fixed: dict[int, str] | None = None) -> Schedule:
    quick = {"hyperoffload": {"effort": "fast"}, "optimal": {"time_limit_s": 0.05}}
    policy = Policy(
        memory_limit=f"{limit}B",
        strategy=strategy,
        options=quick.get(strategy, {}),
        rules=tuple(Rule(name=name, action="keep") for name in kept),
    )
    return compile_schedule(graph, Durations((50,) * len(graph.ops), "made up"), TINY, policy, fixed=fixed or {})


@pytest.mark.parametrize("strategy", STRATEGIES)
@settings(max_examples=8, deadline=None)
@given(st.randoms(use_true_random=False), st.integers(0, 2**32))
def test_what_is_kept_or_cannot_move_has_one_stay_and_no_transfer(strategy: str, random: Random, seed: int) -> None:
    """GIVEN a limit that can be met THEN the compile's verifier accepts; here the same is read off the schedule."""
    graph = random_graph(Random(seed), 10)
    chosen = random.sample(graph.storages, random.randint(1, len(graph.storages)))
    half = len(chosen) // 2
    kept, fixed = [s.name for s in chosen[:half]], {s.id: "a constant" for s in chosen[half:]}
    limit = max(live_peak_bytes(graph) * 3 // 4, smallest_feasible_limit(graph, [s.id for s in chosen]).bytes)
    try:
        schedule = compiled(graph, strategy, limit, kept, fixed)
    except InfeasibleError as error:  # kept activations may have no addresses that leave room
        assert "found no schedule" in str(error)
        return
    for storage in chosen:
        stays = [r for r in schedule.residencies if r.storage == storage.id]
        assert all(t.storage != storage.id for t in schedule.transfers)
        assert len(stays) == (1 if storage.persistent or graph.accesses[storage.id] else 0)
        if storage.persistent:
            assert (stays[0].start_ns, stays[0].end_ns) == (0, schedule.metrics.step_ns)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_kept_weight_that_no_op_uses_takes_its_room(strategy: str) -> None:
    b = GraphBuilder("unused")
    x, y = b.storage("x", 10, "input"), b.storage("y", 10, "output")
    b.storage("unused", 100, "weight", True)
    b.op("copy", [x], [y])
    schedule = compiled(b.graph(), strategy, 1000, ["unused"])
    assert schedule.metrics.peak_live_bytes == 120


@pytest.mark.parametrize("strategy", ["none", "functorch", "zero-offload", "superoffload"])
def test_what_no_op_uses_stays_where_a_system_that_does_not_move_it_has_it(strategy: str) -> None:
    b = GraphBuilder("unused")
    x, y = b.storage("x", 10, "input"), b.storage("y", 10, "output")
    b.storage("unused", 100, "weight", True)
    b.op("copy", [x], [y])
    assert compiled(b.graph(), strategy, 1000, []).metrics.peak_live_bytes == 120


def broken_up() -> Graph:
    """A kept value that comes into being above one that is freed, ahead of an op that needs all else in one piece."""
    b = GraphBuilder("broken up")
    x, first, kept = b.storage("x", 1, "input"), b.storage("first", 30), b.storage("kept", 30)
    large, out = b.storage("large", 69), b.storage("out", 1, "output")
    b.op("one", [x], [first])
    b.op("two", [first], [kept])
    b.op("three", [], [large])
    b.op("four", [large, kept], [out])
    return b.graph()


@pytest.mark.parametrize("strategy", ["reactive", "lookahead", "hyperoffload", "optimal"])
def test_the_smallest_limit_is_met_where_what_is_kept_would_break_memory_up(strategy: str) -> None:
    graph = broken_up()
    smallest = smallest_feasible_limit(graph, [2]).bytes
    schedule = compiled(graph, strategy, smallest, ["kept"])
    assert schedule.metrics.reserved_bytes <= smallest == 100


@pytest.mark.parametrize("strategy", ["reactive", "lookahead"])
def test_paging_around_kept_activations_meets_nearly_every_limit_that_bytes_allow(strategy: str) -> None:
    """GIVEN some activations that are kept and the smallest limit that holds the bytes THEN it is met but where kept
    values cannot lie so that no op finds holes only."""
    found = tried = 0
    for seed in range(60):
        random = Random(seed)
        graph = random_graph(random, 10) if seed % 3 else training(random.randint(2, 4), random.randint(2, 9))
        made = [s for s in graph.storages if not graph.exists_at_start(s.id) and graph.accesses[s.id]]
        kept = random.sample(made, min(len(made), 3))
        limit = smallest_feasible_limit(graph, [s.id for s in kept]).bytes
        tried += 1
        try:
            found += compiled(graph, strategy, limit, [s.name for s in kept]).metrics.reserved_bytes <= limit
        except InfeasibleError as error:
            assert error.smallest.bytes == limit
    assert found >= 0.9 * tried


def test_an_op_takes_time() -> None:
    with pytest.raises(CostError, match="op 1 takes 0 ns; a duration is at least 1 ns"):
        Durations((5, 0), "made up")


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_share_of_nothing_is_a_limit_too(strategy: str) -> None:
    """GIVEN ops without storages, whose live peak is 0 THEN half of that does not stop any strategy."""
    b = GraphBuilder("empty")
    b.op("nothing")
    policy = Policy(memory_limit="50%", strategy=strategy)
    assert compile_schedule(b.graph(), Durations((50,), "made up"), TINY, policy).metrics.step_ns == 50
