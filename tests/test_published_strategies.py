"""Strategies restated from published systems: whatever graph and options, the schedule is valid but for the limit."""

from __future__ import annotations

from dataclasses import replace
from math import inf, nan

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hyperoffload_core.analysis.liveness import live_peak_bytes
from hyperoffload_core.compile import compile_schedule
from hyperoffload_core.cost import Durations
from hyperoffload_core.hardware import Hardware
from hyperoffload_core.ir import Graph
from hyperoffload_core.policy import Policy, Rule
from hyperoffload_core.strategies import STRATEGIES, StrategyError, resolve_options
from hyperoffload_core.strategies.base import OptionValue
from tests.graphs import TINY, TINY_HALF, adjacent_layers, graphs, training

PUBLISHED = (
    "functorch",
    "deepcompile",
    "zero-offload",
    "zero-infinity",
    "superoffload",
    "deep-optimizer-states",
    "paged-kv",
)
# Sizes of the systems' defaults are beyond a small graph: without these nothing would move.
SMALL: dict[str, dict[str, OptionValue]] = {
    "deepcompile": {"offload_act_min_size_mb": 0.0},
    "zero-offload": {"reduce_bucket_size": 10},
    "zero-infinity": {"sub_group_size": 10, "reduce_bucket_size": 10, "param_persistence_threshold": 2},
    "deep-optimizer-states": {"sub_group_size": 10},
}
SWITCHES: dict[str, dict[str, tuple[OptionValue, ...]]] = {
    "functorch": {
        "activation_offload_separate_stream": (False, True),
        "activation_offload_sink_wait": (False, True),
        "activation_reload_prefetch": (False, True),
    },
    "zero-offload": {"buffer_count": (4, 8), "ratio": (0.0, 0.5, 1.0)},
    "zero-infinity": {"pipeline_read": (False, True), "pipeline_write": (False, True), "prefetch_depth": (0, 1, 3)},
    "superoffload": {"weights": ("auto", "stationary", "flow"), "speculative_step": (False, True)},
    "deep-optimizer-states": {"update_stride": (1, 2, 3), "backward_offload": (False, True)},
}


@st.composite
def options(draw: st.DrawFn, name: str) -> dict[str, OptionValue]:
    switched = {option: draw(st.sampled_from(values)) for option, values in SWITCHES.get(name, {}).items()}
    return {**SMALL.get(name, {}), **switched}


def floating(graph: Graph) -> Graph:
    return replace(graph, storages=tuple(replace(s, dtype="float32") for s in graph.storages))


training_graphs = st.builds(training, st.integers(1, 5), st.integers(1, 9), st.sampled_from([0, 4]))


@pytest.mark.parametrize("name", PUBLISHED)
@given(data=st.data(), graph=st.one_of(graphs(), training_graphs), hardware=st.sampled_from([TINY, TINY_HALF]))
@settings(max_examples=30, deadline=None)
def test_a_schedule_is_valid_but_for_the_limit_and_leaves_alone_what_is_kept(
    name: str, data: st.DataObject, graph: Graph, hardware: Hardware
) -> None:
    graph = floating(graph)
    durations = Durations(tuple(data.draw(st.integers(1, 60)) for _ in graph.ops), "made up")
    kept = data.draw(st.sets(st.sampled_from([s.name for s in graph.storages]), max_size=3))
    policy = Policy(
        memory_limit=f"{max(1, live_peak_bytes(graph) * data.draw(st.integers(30, 100)) // 100)}B",
        strategy=name,
        options=data.draw(options(name)),
        rules=tuple(Rule(name=k, action="keep") for k in sorted(kept)),
    )
    schedule = compile_schedule(graph, durations, hardware, policy)  # the verifier has accepted it
    over = schedule.metrics.reserved_bytes > schedule.memory_limit_bytes
    assert any(note.startswith("over the memory limit") for note in schedule.notes) == over
    assert not {graph.storages[t.storage].name for t in schedule.transfers} & kept


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_published_strategy_names_its_source_and_may_miss_the_limit(name: str) -> None:
    strategy = STRATEGIES[name]
    assert strategy.source
    assert not strategy.keeps_limit


@pytest.mark.parametrize("name", PUBLISHED[:-1])
def test_a_training_step_moves_something(name: str) -> None:
    graph = floating(training(4, 1_000_000))
    policy = Policy(memory_limit="60%", strategy=name, options=SMALL.get(name, {}))
    schedule = compile_schedule(graph, Durations((1000,) * len(graph.ops), "made up"), TINY, policy)
    assert schedule.transfers


@pytest.mark.parametrize("name", ["zero-offload", "zero-infinity", "deep-optimizer-states"])
def test_a_share_above_one_is_refused(name: str) -> None:
    graph = training(2)
    policy = Policy(strategy=name, options={"ratio": 1.5})
    with pytest.raises(StrategyError, match="it is a share, from 0 to 1"):
        compile_schedule(graph, Durations((10,) * len(graph.ops), "made up"), TINY, policy)


@pytest.mark.parametrize("name", STRATEGIES)
def test_no_number_is_taken_that_cannot_be_computed_with(name: str) -> None:
    strategy = STRATEGIES[name]
    for option in strategy.options:
        wanted = type(option.default)
        if wanted is float:
            for value in (nan, inf, -inf, 2.0**60):
                with pytest.raises(StrategyError, match="numbers go up to 2\\^53"):
                    resolve_options(strategy, {option.name: value})
        if wanted is int:
            with pytest.raises(StrategyError, match="numbers go up to 2\\^53"):
                resolve_options(strategy, {option.name: 10**23})
            with pytest.raises(StrategyError, match="it takes a whole number"):
                resolve_options(strategy, {option.name: nan})


@pytest.mark.parametrize("name", [n for n, s in STRATEGIES.items() if not s.keeps_limit and n != "none"])
def test_a_strategy_that_has_nothing_to_move_says_why_beside_by_how_much_it_fails(name: str) -> None:
    """GIVEN inference through weights under half of what it needs THEN what moves nothing says what it would move."""
    graph = adjacent_layers()
    policy = Policy(memory_limit="50%", strategy=name)
    schedule = compile_schedule(graph, Durations((100,) * len(graph.ops), "made up"), TINY, policy)
    why = [note for note in schedule.notes if not note.startswith("over the memory limit")]
    assert len(schedule.notes) == len(why) + 1
    assert why or schedule.transfers
