"""Schedules of our own strategies on simulated memory: no byte is lost, whatever ops and transfers take."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hyperoffload_core.compile import InfeasibleError, compile_schedule
from hyperoffload_core.cost import Durations
from hyperoffload_core.policy import Policy
from tests.byte_machine import run_bytes
from tests.graphs import TINY, TINY_HALF, random_graph, training
from tests.naive_schedule import random_durations


@settings(max_examples=60, deadline=None)
@given(st.randoms(use_true_random=False), st.sampled_from(["reactive", "hyperoffload"]), st.sampled_from([90, 70, 50]))
def test_a_compiled_schedule_keeps_every_byte_under_any_timing(random: Random, strategy: str, percent: int) -> None:
    graph = random_graph(random)
    durations = Durations(tuple(random.randint(1, 60) for _ in graph.ops), "made up for a test")
    hardware = random.choice([TINY, TINY_HALF])
    try:
        policy = Policy(strategy=strategy, memory_limit=f"{percent}%")
        schedule = compile_schedule(graph, durations, hardware, policy)
    except InfeasibleError as error:  # then the limit it names can be met
        policy = Policy(strategy=strategy, memory_limit=str(error.smallest.bytes))
        schedule = compile_schedule(graph, durations, hardware, policy)
    for _ in range(3):
        run_bytes(schedule, *random_durations(random, schedule))


@pytest.mark.parametrize("strategy", ["reactive", "hyperoffload"])
def test_a_training_step_at_half_its_peak_keeps_every_byte(strategy: str) -> None:
    graph = training(6, 20)
    durations = Durations(tuple(30 + 7 * (op.id % 5) for op in graph.ops), "made up for a test")
    schedule = compile_schedule(graph, durations, TINY, Policy(strategy=strategy, memory_limit="50%"))
    assert schedule.transfers
    random = Random(1)
    for _ in range(20):
        run_bytes(schedule, *random_durations(random, schedule))
