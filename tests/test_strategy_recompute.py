"""Strategy `recompute`: memory in the order of the square root of the layers for at most one more forward pass."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hyperoffload_core.analysis.liveness import live_peak_bytes
from hyperoffload_core.compile import compile_schedule
from hyperoffload_core.cost import Durations
from hyperoffload_core.ir import Graph
from hyperoffload_core.policy import Policy, Rule
from hyperoffload_core.schedule import Schedule
from tests.byte_machine import run_bytes
from tests.graphs import BIG, SMALL, TINY, chain, graphs, saving_layers, training


def compiled(graph: Graph, limit: str | int, **more: object) -> Schedule:
    policy = Policy(strategy="recompute", memory_limit=str(limit), **more)  # type: ignore[arg-type]
    return compile_schedule(graph, Durations((10,) * len(graph.ops), "made up"), TINY, policy)


@pytest.mark.parametrize("layers", [16, 64])
def test_memory_grows_with_the_square_root_of_the_layers(layers: int) -> None:
    graph, root = saving_layers(layers), int(layers**0.5)
    segments = compiled(graph, "100%", options={"segments": root})
    assert live_peak_bytes(graph) > layers * BIG
    assert segments.metrics.peak_live_bytes < (root + 3) * BIG + 2 * layers * SMALL
    assert not segments.transfers
    again = Counter(op.recompute_of for op in segments.graph.ops if op.recompute_of is not None)
    assert set(again.values()) == {1}, "one more forward pass at most"
    # of all segments but the last, whose activations are still there, all but what makes the input of the next one
    assert len(again) == (root - 1) * (2 * root - 1)
    assert segments.metrics.step_ns == 10 * (len(graph.ops) + len(again))
    assert segments.metrics.lower_bound_ns == 10 * len(graph.ops)


def test_nothing_runs_again_when_all_fits() -> None:
    schedule = compiled(saving_layers(16), "100%")
    assert schedule.graph.original is schedule.graph and schedule.notes == ()


@pytest.mark.parametrize("percent", [90, 70, 50, 35])
def test_the_limit_is_met_with_little_more_work(percent: int) -> None:
    graph = saving_layers(25)
    schedule = compiled(graph, f"{percent}%")
    assert schedule.metrics.reserved_bytes <= schedule.memory_limit_bytes == live_peak_bytes(graph) * percent // 100
    assert len(schedule.graph.ops) - len(graph.ops) < 50
    assert schedule.notes == ()


def test_less_memory_never_costs_less_time() -> None:
    steps = [compiled(saving_layers(25), f"{percent}%").metrics.step_ns for percent in (100, 90, 70, 50, 35)]
    assert steps == sorted(steps)


def test_a_limit_below_what_recomputation_can_do_is_told_by_how_much() -> None:
    schedule = compiled(saving_layers(25), "5%")
    least = min(
        compiled(saving_layers(25), "100%", options={"segments": n}).metrics.peak_live_bytes for n in range(1, 26)
    )
    assert schedule.metrics.peak_live_bytes == least
    assert len(schedule.notes) == 1 and schedule.notes[0].startswith("over the memory limit of ")


def test_what_a_rule_keeps_stays() -> None:
    graph = saving_layers(16)
    keep = [Rule(name="a0", action="keep")]
    for schedule, wanted in ((compiled(graph, "40%"), True), (compiled(graph, "40%", rules=keep), False)):
        again = {schedule.graph.storages[s.recompute_of].name for s in schedule.graph.storages if s.recompute_of}
        assert ("a0" in again) is wanted


def test_random_ops_run_once_and_what_they_made_stays() -> None:
    graph = saving_layers(16)
    first = replace(graph.ops[2], stateful=True)
    schedule = compiled(replace(graph, ops=(*graph.ops[:2], first, *graph.ops[3:])), "40%")
    again = {op.recompute_of for op in schedule.graph.ops}
    assert 0 in again and 2 not in again


@pytest.mark.parametrize(
    "graph", [chain(5), training(1), training(4)], ids=["no backward", "one layer", "no low place"]
)
def test_graphs_without_segments_stay_as_they_are(graph: Graph) -> None:
    assert compiled(graph, "50%", options={"segments": 3}).graph.original.hash == graph.hash
    assert compiled(graph, "50%").graph.original.hash == graph.hash


@settings(max_examples=60, deadline=None)
@given(graphs(most_ops=24), st.randoms(use_true_random=False), st.integers(0, 6))
def test_any_graph_with_any_phases_gives_a_valid_schedule(graph: Graph, random: Random, segments: int) -> None:
    first = random.randint(0, len(graph.ops))
    stray = random.choice([0.0, 0.1])
    ops = tuple(
        replace(op, phase="forward" if (op.id < first) is (random.random() >= stray) else "backward")
        for op in graph.ops
    )
    schedule = compiled(replace(graph, ops=ops), f"{random.randint(20, 100)}%", options={"segments": segments})
    run_bytes(schedule, schedule.durations_ns, ())
