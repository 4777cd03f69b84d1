"""Valid schedules of small graphs from everything that makes schedules: strategies, and the naive scheduler."""

from __future__ import annotations

from functools import cache
from random import Random

from hyperoffload_core.analysis.liveness import live_peak_bytes
from hyperoffload_core.compile import InfeasibleError, compile_schedule
from hyperoffload_core.cost import Durations
from hyperoffload_core.ir import Graph
from hyperoffload_core.policy import Policy
from hyperoffload_core.schedule import Schedule
from tests.graphs import TINY, TINY_HALF, chain, random_graph, training
from tests.naive_schedule import naive_schedule, random_order

STRATEGIES = ("none", "reactive", "hyperoffload")
SOURCES = (*STRATEGIES, "naive", "naive in parts")


@cache
def valid_schedule(source: str, seed: int) -> Schedule:
    """The schedule of ``source`` number ``seed``; every fourth one on a half-duplex link."""
    random = Random(f"{source} {seed}")
    graph = random.choice([_training, _training, _chain, random_graph])(random)
    durations = tuple(random.randint(5, 60) for _ in graph.ops)
    hardware = TINY_HALF if seed % 4 == 3 else TINY
    if source in STRATEGIES:
        return _compiled(graph, Durations(durations, "made up"), source, hardware, random)
    rate = random.choice([0.4, 0.7, 1.0])
    return naive_schedule(
        graph,
        hardware=hardware,
        durations_ns=durations,
        order=random_order(random, graph) if random.random() < 0.5 else None,
        gaps=[
            (s.id, k) for s in graph.storages for k in range(-1, len(graph.accesses[s.id])) if random.random() < rate
        ],
        homes={s.id: "pool" for s in graph.storages if random.random() < rate / 2},
        early_stores=random.random() < 0.5,
        ahead=random.choice([0, 0, 1, 3]),
        parts=random.choice([2, 3]) if source == "naive in parts" else 1,
        uneven=random if random.random() < 0.5 else None,
    )


def _training(random: Random) -> Graph:
    return training(random.randint(2, 4), random.randint(4, 20), random.choice([0, 0, 5]))


def _chain(random: Random) -> Graph:
    return chain(random.randint(4, 9), random.randint(4, 20))


def _compiled(graph: Graph, durations: Durations, strategy: str, hardware, random: Random) -> Schedule:  # type: ignore[no-untyped-def]
    percent = 200 if strategy == "none" else random.choice([60, 75, 90])
    limit = live_peak_bytes(graph) * percent // 100
    options = {"effort": "fast"} if strategy == "hyperoffload" else {}
    policy = Policy(memory_limit=f"{limit}B", strategy=strategy, options=options)
    try:
        return compile_schedule(graph, durations, hardware, policy)
    except InfeasibleError as error:
        smallest = policy.model_copy(update={"memory_limit": f"{error.smallest.bytes}B"})
        return compile_schedule(graph, durations, hardware, smallest)
